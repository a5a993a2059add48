/* Links libdaos alone. */
#include <stdio.h>
#include <daos.h>

int
main(void)
{
	if (daos_init() != 0 || daos_fini() != 0)
		return 1;
	printf("ok daos\n");
	return 0;
}

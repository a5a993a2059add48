/* Links libgurt alone. */
#include <stdio.h>
#include <string.h>
#include <daos_errno.h>

int
main(void)
{
	if (strcmp(d_errstr(-DER_INVAL), "DER_INVAL") != 0)
		return 1;
	printf("ok gurt\n");
	return 0;
}

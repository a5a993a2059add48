/* Links libduns alone. */
#include <stdio.h>
#include <daos_uns.h>

int
main(void)
{
	struct duns_attr_t attr = {0};

	if (duns_resolve_path(NULL, &attr) == 0)
		return 1;
	printf("ok duns\n");
	return 0;
}

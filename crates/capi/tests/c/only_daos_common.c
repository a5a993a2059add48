/* Links libdaos_common alone. */
#include <stdio.h>
#include <daos_prop.h>

int
main(void)
{
	daos_prop_t *prop = daos_prop_alloc(2);

	if (prop == NULL || prop->dpp_nr != 2)
		return 1;
	daos_prop_free(prop);
	printf("ok daos_common\n");
	return 0;
}

/* Links libdfs alone. */
#include <stdio.h>
#include <daos_fs.h>

int
main(void)
{
	if (dfs_umount(NULL) == 0)
		return 1;
	printf("ok dfs\n");
	return 0;
}

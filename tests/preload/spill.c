/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory for spill files: see spill.h.
 */
#include "spill.h"

#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

int
spill_folder_make(char *path, size_t path_bytes, const char *name)
{
	struct statfs fs;
	size_t used;

	if (!getcwd(path, path_bytes - 32)) {
		perror("getcwd");
		exit(1);
	}
	used = strlen(path);
	snprintf(path + used, path_bytes - used, "/%s-XXXXXX", name);
	if (!mkdtemp(path)) {
		perror(path);
		exit(1);
	}
	if (!statfs(path, &fs) && fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC)
		return 0;
	printf("SKIP: this directory is in memory, there is nothing to spill to\n");
	(void)rmdir(path);
	return 77;
}

int
spill_rows_run(const char *path, int (*run)(size_t row), size_t n_rows)
{
	int failed = 0, rc = 0;

	for (size_t i = 0; i < n_rows && rc != 77; i++) {
		rc = run(i);
		failed |= rc == 1;
	}
	if (rmdir(path)) {
		printf("%s is not empty\n", path);
		failed = 1;
	}
	return failed || rc != 77 ? failed : 77;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Where the published inputs of the paper G10 lie in this tree (tests/data/g10). */
#ifndef TESTS_UNIT_G10_DATA_H
#define TESTS_UNIT_G10_DATA_H

#include <stdio.h>
#include <string.h>

/* The build compiles by absolute path, so that the data are found from anywhere. */
static inline const char *
g10_directory(void)
{
	static char path[4096];
	const char *slash = strrchr(__FILE__, '/');

	snprintf(path, sizeof(path), "%.*s/../data/g10",
		 slash ? (int)(slash - __FILE__) : 1, slash ? __FILE__ : ".");
	return path;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is linked with the driver, and with two libraries that define the same
 * function. The first asks for the next one's. Prints which files answered. See caller.c.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int preload_order(void);

int
main(void)
{
	int version = -1, result = cuInit(0);
	const char *slash;
	Dl_info info;

	if (!dladdr(dlsym(RTLD_DEFAULT, "cuInit"), &info))
		return 1;
	slash = strrchr(info.dli_fname, '/');
	printf("cuInit of %s: %d\n", slash ? slash + 1 : info.dli_fname, result);
	result = cuDriverGetVersion(&version);
	printf("cuDriverGetVersion: %d, %d\n", result, version);
	printf("order %d\n", preload_order());
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another library between programs and the driver, as some that share a GPU have. It has a call
 * of the driver, and a dlsym() that returns it to every caller. See test_loader.c.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int cuMemAlloc_v2(uint64_t *addr, size_t bytes);

__attribute__((visibility("default"))) int
cuMemAlloc_v2(uint64_t *addr, size_t bytes)
{
	(void)addr;
	(void)bytes;
	return 1;
}

__attribute__((visibility("default"))) void *
dlsym(void *restrict handle, const char *restrict name)
{
	static void *(*next)(void *handle, const char *name);

	if (!strcmp(name, "cuMemAlloc_v2"))
		return (void *)cuMemAlloc_v2;
	if (!next)
		*(void **)&next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	return next(handle, name);
}

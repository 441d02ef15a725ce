/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first of two libraries with the same function: it asks for the next one's. If the C
 * library mistook another library for the caller, it would find itself, for ever. See linked.c.
 */
#include <dlfcn.h>

int preload_order(void);

__attribute__((visibility("default"))) int
preload_order(void)
{
	static int depth;
	int (*next)(void);
	int n;

	*(void **)&next = dlsym(RTLD_NEXT, "preload_order");
	if (!next || depth)
		return -1;
	depth++;
	n = next() * 10 + 1;
	depth--;
	return n;
}

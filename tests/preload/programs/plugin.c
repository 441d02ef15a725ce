/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that opens a library itself: bound to the C library's own dlopen() when it is loaded with
 * RTLD_DEEPBIND, and with a RUNPATH that leads where no other search does. See caller.c.
 */
#include <dlfcn.h>
#include <stdio.h>

void *plugin_symbol(const char *path, const char *name);

__attribute__((visibility("default"))) void *
plugin_symbol(const char *path, const char *name)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		printf("plugin: dlopen: %s\n", dlerror());
		return NULL;
	}
	return dlsym(library, name);
}

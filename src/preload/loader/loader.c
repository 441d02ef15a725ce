/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader's calls that lead to the driver. This library has the driver's SONAME, so most ways
 * of opening it end here anyway. A path remains ("libcuda.so",
 * "/usr/lib/.../libcuda.so.580.65.06", a link to one). It becomes the SONAME, or our own file in
 * another namespace. dlsym() on our handle looks up names that only the driver has there.
 *
 * The exported dlopen(), dlmopen() and dlsym() are in trampoline.c. They call this file and jump
 * to the C library's. Those functions are found with dlvsym(), which is not wrapped.
 *
 * Threads: any. The results are the same for all, so two may look at once.
 */
#include "preload/loader/entry.h"
#include "preload/preload.h"
#include "preload/report/counters.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRIVER_NAME "libcuda.so.1"

/* All set once, to the same values by whoever comes first. Read by assembly.
 * atomic: pl_next_dlsym is stored last, with release; pairs with the load of pl_next_find(). */
void *(*pl_next_dlopen)(const char *path, int flags);
void *(*pl_next_dlmopen)(long namespace, const char *path, int flags);
void *(*pl_next_dlsym)(void *handle, const char *name);
void *pl_own_handle = &pl_own_handle; /* matches no handle, nor RTLD_DEFAULT and RTLD_NEXT */

static const char *own_path;

const char sluice_preload[] = "sluice";

void
pl_next_find(void)
{
	struct link_map *map = NULL;
	void *open, *mopen, *symbol;
	Dl_info info;

	if (__atomic_load_n(&pl_next_dlsym, __ATOMIC_ACQUIRE))
		return;
	/* The versions of x86-64's first C library; newer ones keep them. */
	open = dlvsym(RTLD_NEXT, "dlopen", "GLIBC_2.2.5");
	mopen = dlvsym(RTLD_NEXT, "dlmopen", "GLIBC_2.3.4");
	symbol = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	if (!open || !mopen || !symbol) {
		pl_error("this C library has no dlopen, dlmopen or dlsym to go on with");
		abort(); /* there is nothing to return to */
	}
	if (dladdr1(sluice_preload, &info, (void **)&map, RTLD_DL_LINKMAP) && map) {
		__atomic_store_n(&own_path, info.dli_fname, __ATOMIC_RELEASE);
		__atomic_store_n(&pl_own_handle, (void *)map, __ATOMIC_RELEASE);
	}
	__atomic_store_n((void **)&pl_next_dlopen, open, __ATOMIC_RELEASE);
	__atomic_store_n((void **)&pl_next_dlmopen, mopen, __ATOMIC_RELEASE);
	__atomic_store_n((void **)&pl_next_dlsym, symbol, __ATOMIC_RELEASE);
}

const char *
pl_own_path(void)
{
	pl_next_find();
	return own_path ? own_path : "";
}

/*
 * "libcuda.so", "libcuda.so.1", or the file that those lead to, which has the driver's version: numbers with
 * points between them. In whatever folder.
 */
static bool
name_is_driver(const char *path)
{
	const char *name = strrchr(path, '/');
	size_t chars;

	name = name ? name + 1 : path;
	if (strncmp(name, DRIVER_NAME, 10) != 0)
		return false;
	name += 10;
	if (!*name || !strcmp(name, ".1"))
		return true;
	for (int numbers = 0; *name == '.'; name += chars, numbers++) {
		chars = 1 + strspn(name + 1, "0123456789");
		if (chars == 1)
			return false;
		if (!name[chars])
			return numbers > 0;
	}
	return false;
}

/* By its name, or as a link of another name. */
static bool
path_is_driver(const char *path)
{
	char target[PATH_MAX];

	if (!path)
		return false;
	if (name_is_driver(path))
		return true;
	/* Nearly all that is opened is no link: one call then. */
	return strchr(path, '/') && readlink(path, target, sizeof(target)) > 0 &&
	       realpath(path, target) && name_is_driver(target);
}

const char *
pl_open_path(const char *path)
{
	pl_next_find();
	if (!path_is_driver(path))
		return path;
	pl_road_note(PL_ROAD_OPEN);
	return DRIVER_NAME;
}

const char *
pl_mopen_path(long namespace, const char *path)
{
	pl_next_find();
	if (!path_is_driver(path))
		return path;
	pl_road_note(PL_ROAD_OPEN);
	/* Elsewhere nothing has that SONAME yet: a copy of this library is loaded there, for
	 * itself, as one of the driver would be. */
	return namespace == LM_ID_BASE || !own_path ? DRIVER_NAME : own_path;
}

void *
pl_own_symbol(void *handle, const char *name)
{
	void *symbol, *driver, *theirs = NULL;
	const char *answer;
	int is_call;

	pl_next_find();
	symbol = pl_next_dlsym(handle, name);
	is_call = name && !strncmp(name, "cu", 2);
	if (!name || (symbol && !is_call))
		return symbol; /* the C library's, which the driver's handle leads to as well */
	pl_road_note(PL_ROAD_SYMBOL);
	pl_driver_open();
	driver = pl_driver_handle();
	if (driver) {
		/* What the driver has not must not seem to be there. Sets or clears dlerror(). */
		theirs = pl_next_dlsym(driver, name);
		answer = !theirs ? "-" : symbol ? name : "?";
		if (theirs && !symbol && is_call)
			PL_COUNT(unknown_names, 1);
		if (!theirs || !symbol)
			symbol = theirs;
	} else {
		answer = symbol ? name : "-";
	}
	pl_lookup_log("dlsym", name, 0, 0, 0, answer);
	return symbol;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the driver's library. The loader cannot be asked: libcuda.so.1 by name is this
 * library, by its SONAME. So the loader's search is repeated in its order. First come the path
 * lists of the program: RPATH, LD_LIBRARY_PATH and RUNPATH, as the loader has them, not as the
 * environment is now. Then the entries of ld.so.cache, the default directories, and those of WSL
 * and containers. The found file is opened by its path. This library and other copies of it are
 * skipped.
 *
 * The caller decides what the library can do. Threads: any; no state.
 */
#include "base/fault_point.h"
#include "preload/loader/entry.h"
#include "preload/preload.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DRIVER_NAME "libcuda.so.1"
#define CACHE_PATH  "/etc/ld.so.cache"
#define LISTS_MAX   ((size_t)1 << 20) /* bytes of the loader's path lists */

/* Where else, after all that the loader knows. */
static const char *const last_dirs[] = {
	"/usr/lib/x86_64-linux-gnu", "/usr/lib64",       "/usr/lib",
	"/usr/local/nvidia/lib64",   "/usr/lib/wsl/lib",
};

/* ---- ld.so.cache ---- */

/* The format that glibc has written since 2.2; older files begin with another magic and have this
 * one inside, which is not looked for. */
#define CACHE_MAGIC "glibc-ld.so.cache1.1"
#define CACHE_ELF64 0x0303 /* ELF, C library 6, x86-64 */

struct cache_entry {
	int32_t flags;
	uint32_t key, value; /* offsets from the file's begin */
	uint32_t os_version;
	uint64_t hwcap;
};

struct cache {
	char magic[20];
	uint32_t n_entries;
	uint32_t text_bytes;
	uint32_t unused[5];
	struct cache_entry entries[];
};

_Static_assert(sizeof(struct cache) == 48, "format");
_Static_assert(sizeof(struct cache_entry) == 24, "format");

/* ---- candidates ---- */

/* One file that may be the driver: its handle, or NULL. */
static void *
candidate_open(const char *path)
{
	struct stat ours, its;
	void *handle, *copy;

	/* A bare name is the loader's to find: SLUICE_CUDA_LIBRARY may be one. */
	if (strchr(path, '/')) {
		if (stat(path, &its))
			return NULL;
		if (!stat(pl_own_path(), &ours) && ours.st_dev == its.st_dev &&
		    ours.st_ino == its.st_ino)
			return NULL;
	}
	handle = pl_next_dlopen(path, RTLD_NOW | RTLD_LOCAL);
	copy = handle ? pl_next_dlsym(handle, "sluice_preload") : NULL;
	if (copy) {
		dlclose(handle);
		handle = NULL;
	}
	(void)dlerror(); /* what did not open is not the program's to see */
	return handle;
}

static void *
dir_open(const char *dir, char *path)
{
	int chars = snprintf(path, PATH_MAX, "%s/%s", dir, DRIVER_NAME);

	return chars > 0 && chars < PATH_MAX ? candidate_open(path) : NULL;
}

/* The directories of the loader: its defaults, or all others. */
static void *
lists_open(int defaults, char *path)
{
	void *program = pl_next_dlopen(NULL, RTLD_LAZY), *handle = NULL;
	Dl_serinfo size, *lists = NULL;

	if (program && !dlinfo(program, RTLD_DI_SERINFOSIZE, &size) &&
	    size.dls_size <= LISTS_MAX)
		lists = sl_malloc(size.dls_size);
	if (lists && !dlinfo(program, RTLD_DI_SERINFOSIZE, lists) &&
	    !dlinfo(program, RTLD_DI_SERINFO, lists))
		for (unsigned i = 0; i < lists->dls_cnt && !handle; i++)
			if (!!(lists->dls_serpath[i].dls_flags & LA_SER_DEFAULT) == defaults)
				handle = dir_open(lists->dls_serpath[i].dls_name, path);
	free(lists);
	if (program)
		dlclose(program);
	return handle;
}

static bool
text_is_inside(const char *file, size_t bytes, uint32_t offset)
{
	return offset < bytes && memchr(file + offset, '\0', bytes - offset);
}

static void *
cache_search(const char *file, size_t bytes, char *path)
{
	const struct cache *cache = (const void *)file;
	size_t n;

	if (bytes < sizeof(*cache) || memcmp(cache->magic, CACHE_MAGIC, 20) != 0)
		return NULL;
	n = (bytes - sizeof(*cache)) / sizeof(cache->entries[0]);
	if (n > cache->n_entries)
		n = cache->n_entries;
	for (size_t i = 0; i < n; i++) {
		const struct cache_entry *entry = &cache->entries[i];
		void *handle;

		if (entry->flags != CACHE_ELF64 || !text_is_inside(file, bytes, entry->key) ||
		    !text_is_inside(file, bytes, entry->value) ||
		    strcmp(file + entry->key, DRIVER_NAME) != 0 ||
		    strlen(file + entry->value) >= PATH_MAX)
			continue;
		strcpy(path, file + entry->value);
		handle = candidate_open(path);
		if (handle)
			return handle;
	}
	return NULL;
}

static void *
cache_open(char *path)
{
	int fd = open(CACHE_PATH, O_RDONLY | O_CLOEXEC);
	void *handle = NULL, *file = MAP_FAILED;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && st.st_size > 0)
		file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return NULL;
	handle = cache_search(file, (size_t)st.st_size, path);
	munmap(file, (size_t)st.st_size);
	return handle;
}

void *
pl_search(char *path)
{
	/* A set-uid program does not take a library's path from its environment. */
	const char *given = secure_getenv("SLUICE_CUDA_LIBRARY");
	void *handle;

	pl_next_find();
	if (given && *given && strcmp(given, DRIVER_NAME) != 0) {
		if (strlen(given) >= PATH_MAX)
			return NULL;
		strcpy(path, given);
		handle = candidate_open(path);
		if (!handle)
			pl_error("SLUICE_CUDA_LIBRARY: %s is not a driver that can be "
				 "loaded",
				 given);
		return handle;
	}
	handle = lists_open(0, path);
	if (!handle)
		handle = cache_open(path);
	if (!handle)
		handle = lists_open(1, path);
	for (size_t i = 0; i < sizeof(last_dirs) / sizeof(last_dirs[0]) && !handle; i++)
		handle = dir_open(last_dirs[i], path);
	return handle;
}

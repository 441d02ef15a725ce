/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files between program and driver: entry.c (opening the driver, phases), search.c
 * (finding it), loader.c (dlopen and its like), resolve.c (cuGetProcAddress), trampoline.c
 * (assembly). Other files need preload.h only.
 *
 * Threads: as each says. None holds a lock while the loader or the driver runs.
 */
#ifndef SL_PRELOAD_ENTRY_H
#define SL_PRELOAD_ENTRY_H

#include <stdbool.h>

#include "preload/preload.h"

/* ---- entry.c ---- */

/* Open the driver if that was not tried yet. Blocks on loading it. */
void pl_driver_open(void);
/* Has a cuInit() of this process succeeded? */
bool pl_driver_was_used(void);
/* From trampoline.c: the first call of that name. The function to go on with. */
void *pl_first_call(unsigned api) __attribute__((visibility("hidden")));
/* Functions of this library that wrap a name; NULL: it is not wrapped. */
void *pl_wrapper(enum sl_api api);

/* How the program came to the driver; bits, for --verbose. */
enum pl_road {
	PL_ROAD_OPEN = 1,    /* dlopen() of the driver's library */
	PL_ROAD_SYMBOL = 2,  /* dlsym() on it */
	PL_ROAD_RESOLVE = 4, /* cuGetProcAddress() */
};
void pl_road_note(enum pl_road road);
/* Those that were noted so far; 0: it is linked to the driver. */
unsigned pl_roads(void);

/* ---- search.c ---- */

/*
 * Find the driver's library and load it: SLUICE_CUDA_LIBRARY; else libcuda.so.1 where the loader
 * would look (path lists of the program, ld.so.cache, default directories), then WSL's directory;
 * never this library. NULL: there is none. path: room for PATH_MAX bytes.
 */
void *pl_search(char *path);

/* ---- loader.c ---- */

/* The C library's functions behind ours. pl_next_find() fills them; NULL until then. */
extern void *(*pl_next_dlopen)(const char *path, int flags);
extern void *(*pl_next_dlmopen)(long namespace, const char *path, int flags);
extern void *(*pl_next_dlsym)(void *handle, const char *name);
void pl_next_find(void) __attribute__((visibility("hidden")));

/* The loader's handle of this library, as dlopen() returns it. */
extern void *pl_own_handle;
/* Path of this library's file. Static storage. */
const char *pl_own_path(void);

/* From trampoline.c: the path to open in place of this one. */
const char *pl_open_path(const char *path) __attribute__((visibility("hidden")));
const char *pl_mopen_path(long namespace, const char *path)
	__attribute__((visibility("hidden")));
/* From trampoline.c: dlsym() on our own handle. */
void *pl_own_symbol(void *handle, const char *name) __attribute__((visibility("hidden")));

/* ---- resolve.c ---- */

/* The driver is open and pl_real[] filled: index it by address. Before others call. */
void pl_resolve_init(void);
/*
 * The row that cuGetProcAddress() means: the newest ABI of the base up to version, in the flavour of
 * the flags. SL_API_COUNT: the base is not in the table, or is newer than that.
 */
enum sl_api pl_resolve_rule(const char *symbol, int version, uint64_t flags);

/*
 * SLUICE_PRELOAD_LOOKUPS=FILE: a line for each look-up, appended: road (proc4, proc5: the two ABIs of
 * cuGetProcAddress(); dlsym), name, version, flags ("-" for dlsym), result, and the exported name of
 * the answer, "?" for one that is not in the table, "-" for none.
 */
void pl_lookup_log(const char *road, const char *name, int version, uint64_t flags,
		   int result, const char *answer);

/* ---- the wrapped calls ---- */

PL_EXPORT int cuInit(unsigned flags);
PL_EXPORT int cuGetProcAddress(const char *symbol, void **function, int version,
			       uint64_t flags);
PL_EXPORT int cuGetProcAddress_v2(const char *symbol, void **function, int version,
				  uint64_t flags, int *status);

/* Tells two copies of this library, and a driver, apart. */
PL_EXPORT extern const char sluice_preload[];

#endif

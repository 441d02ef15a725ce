/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in's cuGetProcAddress(), both ABIs, by a driver's rule. It returns the newest ABI of
 * the base up to the version, and the per-thread form if the flags ask for one and it exists.
 * Settings of the environment make it a driver other than that of our tables:
 *   CUDA_STANDIN_RESOLVE=private   some answers are functions that are no exports
 *   CUDA_STANDIN_RESOLVE=newer     from CUDA 13.1 on cuMemAlloc has another ABI, which is no
 *                                  export of the tables, either
 *
 * Threads: any; constants only.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define FLAG_THREAD   2u
#define VERSION_NEWER 13010

enum { STATUS_FOUND, STATUS_UNKNOWN, STATUS_TOO_OLD };

enum flavour { LEGACY, PTDS, PTSZ };

EXPORT int cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags);
EXPORT int cuGetProcAddress_v2(const char *symbol, void **function, int version,
			       uint64_t flags, int *status);
EXPORT int cuStandinFuture(void);

#define PL_API(exported, base, version, flavour, class, group) \
	extern void at_##exported(void) __asm__(#exported);
#include "preload/api.tbl"
#undef PL_API

static const struct row {
	const char *base;
	void (*function)(void);
	int version;
	enum flavour flavour;
} rows[] = {
#define PL_API(exported, base, version, flavour, class, group) \
	{#base, at_##exported, (version), flavour},
#include "preload/api.tbl"
#undef PL_API
};

static int
private_init(unsigned flags)
{
	return cuInit(flags);
}

static int
private_alloc(uint64_t *addr, size_t bytes)
{
	return cuMemAlloc_v2(addr, bytes);
}

/* An ABI of the future: a word more. */
static int
newer_alloc(uint64_t *addr, size_t bytes, unsigned flags)
{
	return flags ? CU_ERROR_INVALID_VALUE : cuMemAlloc_v2(addr, bytes);
}

static int
resolve(const char *symbol, void **function, int version, uint64_t flags, int *status)
{
	const char *mode = getenv("CUDA_STANDIN_RESOLVE");
	void (*legacy)(void) = NULL, (*thread)(void) = NULL;
	int found = STATUS_UNKNOWN;

	if (!symbol || !function || version > the.settings.version || (flags & ~UINT64_C(3)))
		return CU_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strcmp(rows[i].base, symbol) != 0)
			continue;
		if (rows[i].version > version) {
			if (found == STATUS_UNKNOWN)
				found = STATUS_TOO_OLD;
			continue;
		}
		found = STATUS_FOUND;
		if (rows[i].flavour == LEGACY)
			legacy = rows[i].function;
		else
			thread = rows[i].function;
	}
	*(void (**)(void))function = (flags & FLAG_THREAD) && thread ? thread : legacy;
	if (!strcmp(symbol, "cuStandinFuture")) {
		*(int (**)(void))function = cuStandinFuture;
		found = STATUS_FOUND;
	}
	if (mode && !strcmp(mode, "private") && !strcmp(symbol, "cuInit"))
		*(int (**)(unsigned))function = private_init;
	if (mode && !strcmp(mode, "private") && !strcmp(symbol, "cuMemAlloc"))
		*(int (**)(uint64_t *, size_t))function = private_alloc;
	if (mode && !strcmp(mode, "newer") && !strcmp(symbol, "cuMemAlloc") &&
	    version >= VERSION_NEWER)
		*(int (**)(uint64_t *, size_t, unsigned))function = newer_alloc;
	if (status)
		*status = found;
	return CU_SUCCESS;
}

int
cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
	return resolve(symbol, function, version, flags, NULL);
}

int
cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
		    int *status)
{
	return resolve(symbol, function, version, flags, status);
}

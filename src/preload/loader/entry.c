/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver behind the library, and the phases of the library. Nothing happens before the
 * program's first call of the driver: no constructor, thread, file or line. (At the end of a
 * program without such a call, unused.c prints a line.) That call finds the driver (search.c),
 * fills pl_real[] and gives the back end the same library. Wrappers are active from the first
 * cuInit() that succeeds. They are not active in a forked child, which cannot use the parent's
 * contexts, nor once the driver has gone (it says so itself, exit handlers look).
 *
 * Without a driver the library must not seem to be one: cuInit() finds no device, the version is
 * 0, nothing can be resolved.
 *
 * No lock is held while the loader runs, since a constructor under the loader's lock may call
 * us. Two threads may look for the driver at once and find the same.
 *
 * Threads: any. Blocks on loading the driver, once.
 */
#include "preload/loader/entry.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/report/report.h"
#include "preload/share.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "device/cuda/cuda_driver.h"

_Atomic int pl_phase = PL_ASLEEP;
_Atomic int pl_forked;
_Thread_local int pl_depth __attribute__((tls_model("initial-exec")));

static struct sl_mutex open_lock = SL_MUTEX_INITIALIZER(
	SL_RANK_PL_LEAF);  /* publishing; no call under it */
static _Atomic int opened; /* release: all that follows is set */
static void *driver_handle;
static char driver_path[PATH_MAX];
static _Thread_local int opening __attribute__((tls_model("initial-exec")));
static _Atomic unsigned roads;
static _Atomic int handlers_registered, awake_said;

/* ---- what stands in for functions that are not there ---- */

/* Of any signature. */
static int
name_lacking(void)
{
	return CU_ERROR_NOT_FOUND;
}

/* While this thread opens the driver, and without one. */
static int
driver_lacking(void)
{
	return CU_ERROR_NOT_INITIALIZED;
}

static int
init_lacking(unsigned flags)
{
	(void)flags;
	return CU_ERROR_NO_DEVICE;
}

static int
version_lacking(int *version)
{
	if (!version)
		return CU_ERROR_INVALID_VALUE;
	*version = 0;
	return CU_SUCCESS;
}

static int
resolve_lacking(const char *symbol, void **function, int version, uint64_t flags)
{
	(void)symbol;
	(void)version;
	(void)flags;
	if (function)
		*function = NULL;
	return CU_ERROR_NOT_FOUND;
}

static int
resolve_v2_lacking(const char *symbol, void **function, int version, uint64_t flags,
		   int *status)
{
	if (status)
		*status = 1; /* the symbol was not found */
	return resolve_lacking(symbol, function, version, flags);
}

/* Programs print what a failed cuInit() returned. */
static int
error_name_lacking(int result, const char **name)
{
	if (!name)
		return CU_ERROR_INVALID_VALUE;
	*name = sl_cuda_result_name(result);
	return CU_SUCCESS;
}

static const struct lacking {
	enum sl_api api;
	void *function;
} lacking[] = {
	{SL_API_cuInit, init_lacking},
	{SL_API_cuDriverGetVersion, version_lacking},
	{SL_API_cuGetProcAddress, resolve_lacking},
	{SL_API_cuGetProcAddress_v2, resolve_v2_lacking},
	{SL_API_cuGetErrorName, error_name_lacking},
	{SL_API_cuGetErrorString, error_name_lacking},
};

/* ---- the driver ---- */

bool
pl_real_has(enum sl_api name)
{
	pl_driver_open();
	return driver_handle && pl_real[name] != (void *)name_lacking;
}

void *
pl_driver_handle(void)
{
	return atomic_load(&opened) ? driver_handle : NULL;
}

const char *
pl_driver_path(void)
{
	return pl_driver_handle() ? driver_path : NULL;
}

void
pl_road_note(enum pl_road road)
{
	if (!(atomic_load(&roads) & road))
		atomic_fetch_or(&roads, road);
}

unsigned
pl_roads(void)
{
	return atomic_load(&roads);
}

/* A child must not inherit the lock from a thread that it does not have. */
SL_ACQUIRE(open_lock) static void before_fork(void)
{
	sl_mutex_lock(&open_lock);
}

SL_RELEASE(open_lock) static void parent_after_fork(void)
{
	sl_mutex_unlock(&open_lock);
}

SL_RELEASE(open_lock) static void child_after_fork(void)
{
	int awake = PL_AWAKE;

	sl_mutex_unlock(&open_lock);
	pl_share_forked();
	/* Asleep: the parent has not used CUDA, so that the child may. */
	if (atomic_compare_exchange_strong(&pl_phase, &awake, PL_DEAD))
		atomic_store(&pl_forked, 1);
}

/* The driver's teardown may be over by now, or be still to come: it knows. */
static void
exit_look(void)
{
	struct cu_context *context;
	int (*current)(struct cu_context **);

	if (atomic_load(&pl_phase) != PL_AWAKE)
		return;
	*(void **)&current = pl_real[SL_API_cuCtxGetCurrent];
	if (current(&context) == CU_ERROR_DEINITIALIZED)
		atomic_store(&pl_phase, PL_DEAD);
}

/* Before the driver is loaded: what is registered first runs last, after its own. */
static void
handlers_register(void)
{
	if (atomic_exchange(&handlers_registered, 1))
		return;
	if (pthread_atfork(before_fork, parent_after_fork, child_after_fork))
		pl_error("no fork handler: children of this process must not use CUDA");
	(void)atexit(exit_look); /* without it the driver's own codes are enough */
}

static void
table_fill(void **table, void *handle)
{
	for (unsigned i = 0; i < SL_API_COUNT; i++) {
		table[i] = handle ? pl_next_dlsym(handle, pl_api_name((enum sl_api)i))
				  : (void *)driver_lacking;
		if (!table[i])
			table[i] = (void *)name_lacking;
	}
	for (size_t i = 0; !handle && i < sizeof(lacking) / sizeof(lacking[0]); i++)
		table[lacking[i].api] = lacking[i].function;
	if (handle)
		(void)dlerror();
}

void
pl_driver_open(void)
{
	void *table[SL_API_COUNT], *handle;
	char path[PATH_MAX];

	if (atomic_load(&opened) || opening)
		return;
	opening = 1;
	handlers_register();
	handle = pl_search(path);
	table_fill(table, handle);
	sl_mutex_lock(&open_lock);
	if (!atomic_load(&opened)) {
		driver_handle = handle;
		if (handle) {
			strcpy(driver_path, path);
			sl_cuda_driver_library(handle, driver_path);
		}
		for (unsigned i = 0; i < SL_API_COUNT; i++)
			__atomic_store_n(&pl_real[i], table[i], __ATOMIC_RELAXED);
		pl_resolve_init();
		atomic_store(&opened, 1);
	}
	sl_mutex_unlock(&open_lock);
	opening = 0;
}

void *
pl_first_call(unsigned api)
{
	int saved = errno;

	if (opening) /* the driver, while it is being loaded, calls itself */
		return (void *)driver_lacking;
	pl_driver_open();
	errno = saved;
	return pl_real[api];
}

/* ---- wrappers by number ---- */

/* clang-format off */
/* Declared as what they are to the table, under names that no header declares. */
#define DECLARE_FORWARD(name)
#define DECLARE_WRAP(name) extern void pl_wrapped_##name(void) __asm__(#name);
#define PL_API(exported, base, version, flavour, class, group) DECLARE_##class(exported)
#include "preload/api.tbl"
#undef PL_API

static void *const wrappers[SL_API_COUNT] = {
#define ADDRESS_FORWARD(name)
#define ADDRESS_WRAP(name) [SL_API_##name] = (void *)&pl_wrapped_##name,
#define PL_API(exported, base, version, flavour, class, group) ADDRESS_##class(exported)
#include "preload/api.tbl"
#undef PL_API
};
/* clang-format on */

void *
pl_wrapper(enum sl_api api)
{
	return wrappers[api];
}

/* ---- taking part ---- */

/* Ours, wrapped or not. (Our handle is none for dlsym() before somebody has opened us.) */
extern void own_alloc(void) __asm__("cuMemAlloc_v2");

/* Another library of the same kind. One that is loaded later does not come between us and the driver: the
 * driver is opened by path, and by the C library's own functions. */
static void
interposer_look(void)
{
	void *program = pl_next_dlopen(NULL, RTLD_LAZY);
	void *first = program ? pl_next_dlsym(program, "cuMemAlloc_v2") : NULL;
	Dl_info info;

	(void)dlerror();
	/* In a namespace of its own this library sees its first copy there. */
	if (first && first != (void *)own_alloc && dladdr(first, &info) &&
	    strcmp(info.dli_fname, pl_own_path()) != 0)
		pl_error("%s also stands between this program and the driver, and comes "
			 "first: what it catches is not ours (take it out of LD_PRELOAD)",
			 info.dli_fname);
	if (program)
		dlclose(program);
}

static void
awaken(void)
{
	const struct pl_settings *settings = pl_settings();
	unsigned seen = atomic_load(&roads);
	int asleep = PL_ASLEEP;

	if (!atomic_compare_exchange_strong(&pl_phase, &asleep,
					    settings->mode == PL_MODE_OFF ? PL_DEAD : PL_AWAKE))
		return;
	if (atomic_exchange(&awake_said, 1))
		return;
	interposer_look();
	if (settings->verbose)
		pl_note("driver %s, reached by%s%s%s%s", driver_path,
			seen & PL_ROAD_OPEN ? " dlopen" : "",
			seen & PL_ROAD_SYMBOL ? " dlsym" : "",
			seen & PL_ROAD_RESOLVE ? " cuGetProcAddress" : "",
			seen ? "" : " linking");
}

bool
pl_driver_was_used(void)
{
	return atomic_load(&awake_said);
}

int
cuInit(unsigned flags)
{
	int result;

	if (pl_depth)
		return PL_REAL(cuInit)(flags);
	result = pl_settings_result();
	if (!result)
		result = PL_REAL(cuInit)(flags);
	if (!result)
		awaken();
	pl_report_init(result);
	return result;
}

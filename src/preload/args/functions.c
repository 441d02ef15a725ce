/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions: see functions.h. cuFuncGetParamInfo() gives the layout, parameter by parameter
 * until there is none. A launch may name a library's kernel instead of a function; then
 * cuKernelGetParamInfo() answers.
 *
 * Threads: any. Buckets are lists that only grow at their head, under make_lock.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault_point.h"
#include "base/lock.h"
#include "preload/args/functions.h"
#include "preload/preload.h"

#define BUCKETS    8192u
#define PARAMS_MAX 4096u

/* atomic: pairs with function_look(): whoever sees the record sees it whole. */
static _Atomic(struct pl_function *) buckets[BUCKETS];
static struct pl_function *all; /* make_lock */
static struct sl_mutex make_lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_KERNELS);
static _Atomic uint64_t epoch;

static unsigned
function_bucket(const void *handle)
{
	return (unsigned)((uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15u >> 51);
}

static struct pl_function *
function_look(const void *handle, uint64_t now)
{
	struct pl_function *f = atomic_load(&buckets[function_bucket(handle)]);

	while (f && (f->handle != handle || f->epoch != now))
		f = atomic_load(&f->next);
	return f;
}

static int
param_info(const void *handle, int is_kernel, size_t index, size_t *offset, size_t *bytes)
{
	int (*ask)(const void *, size_t, size_t *,
		   size_t *) = is_kernel ? pl_real[SL_API_cuKernelGetParamInfo]
					 : pl_real[SL_API_cuFuncGetParamInfo];

	return ask(handle, index, offset, bytes);
}

static int
name_ask(const void *handle, int is_kernel, const char **name)
{
	int (*ask)(const char **, const void *) = is_kernel
							  ? pl_real[SL_API_cuKernelGetName]
							  : pl_real[SL_API_cuFuncGetName];

	return ask(name, handle);
}

/* Whether the handle is a function, or (is_kernel) a kernel, as far as the driver tells. */
static bool
handle_is(const void *handle, int is_kernel, const char **name)
{
	size_t offset, bytes;
	int named = !name_ask(handle, is_kernel, name);

	return !param_info(handle, is_kernel, 0, &offset, &bytes) || named;
}

/* The layout; knowledge PL_OPAQUE where the driver does not tell, or without memory. */
static void
function_ask(struct pl_function *f)
{
	struct pl_param params[PARAMS_MAX];
	const char *name = NULL;
	int is_kernel = !handle_is(f->handle, 0, &name);
	size_t n = 0;

	if (is_kernel && !handle_is(f->handle, 1, &name)) {
		f->knowledge = PL_OPAQUE;
		strcpy(f->name, "(a function the driver does not know)");
		return;
	}
	strncpy(f->name, name ? name : "(without a name)", sizeof(f->name) - 1);
	while (n < PARAMS_MAX) {
		size_t offset, bytes;

		if (param_info(f->handle, is_kernel, n, &offset, &bytes))
			break;
		params[n++] = (struct pl_param){(uint32_t)offset, (uint32_t)bytes};
	}
	f->knowledge = pl_policy_of(f->name);
	f->told = f->knowledge != PL_UNKNOWN;
	if (!f->told && name && pl_name_is_indirect(name))
		f->knowledge = PL_INDIRECT;
	if (!n)
		return;
	f->params = sl_malloc(n * sizeof(*f->params));
	if (!f->params) { /* nobody can look at its arguments */
		f->knowledge = PL_OPAQUE;
		return;
	}
	memcpy(f->params, params, n * sizeof(*f->params));
	f->n_params = (uint32_t)n;
}

static struct pl_function *
function_make(const void *handle, uint64_t now)
{
	_Atomic(struct pl_function *) *bucket = &buckets[function_bucket(handle)];
	struct pl_function *f;

	sl_mutex_lock(&make_lock);
	f = function_look(handle, now);
	if (!f) {
		f = sl_calloc(1, sizeof(*f));
		if (f) {
			f->handle = handle;
			f->epoch = now;
			pl_enter();
			function_ask(f);
			pl_leave();
			f->all_next = all;
			all = f;
			f->next = atomic_load(bucket);
			atomic_store(bucket, f);
		}
	}
	sl_mutex_unlock(&make_lock);
	return f;
}

struct pl_function *
pl_function_find(const void *handle)
{
	static _Thread_local struct pl_function *last;
	uint64_t now = atomic_load(&epoch);
	struct pl_function *f = last;

	if (f && f->handle == handle && f->epoch == now)
		return f;
	f = function_look(handle, now);
	if (!f)
		f = function_make(handle, now);
	last = f;
	return f;
}

void
pl_launch_forget(void)
{
	atomic_fetch_add(&epoch, 1);
}

void
pl_functions_walk(void (*fn)(const struct pl_function_stats *, void *), void *arg)
{
	sl_mutex_lock(&make_lock);
	for (const struct pl_function *f = all; f; f = f->all_next) {
		struct pl_function_stats stats = {
			.launches = atomic_load(&f->launches),
			.all = atomic_load(&f->all),
			.missed_bytes = atomic_load(&f->missed_bytes),
			.waited_ns = atomic_load(&f->waited_ns),
			.indirect = atomic_load(&f->knowledge) == PL_INDIRECT,
		};

		memcpy(stats.name, f->name, sizeof(stats.name));
		if (atomic_load(&f->knowledge) == PL_OPAQUE)
			stats.opaque = stats.launches;
		fn(&stats, arg);
	}
	sl_mutex_unlock(&make_lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of a run: a line of settings when a GPU's space is made, and a line of results when
 * the program exits. On demand also statistics as JSON (report_stats.c) and the table of
 * functions (--explain). The trace of --record is written first (tracing.c). Counters of the
 * library are here; those of the spaces are the core's.
 *
 * The end is an exit handler. It is registered once the program's cuInit() has returned and the
 * driver has registered its own. So it runs before the driver is torn down. It asks the driver
 * only whether launches are done, for their times. It waits only for a thread that is writing a
 * trace. A space that is gone is skipped. A program that is killed, or leaves by _exit(), prints
 * nothing. A forked child did not use the GPU and prints nothing, either.
 *
 * Threads: pl_report_init() and pl_report_start() any. The exit handler runs on the thread that
 * calls exit(); others may still be running.
 */
#include "preload/report/report.h"
#include "preload/args/functions.h"
#include "preload/gpu.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "sluice/sluice.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/nvtx.h"
#include "base/size.h"
#include "core/interpose.h"
#include "preload/report/pinning.h"
#include "preload/report/timeline.h"
#include "preload/report/tracing.h"
#include "preload/share.h"

#define FUNCTIONS_MAX  65536u
#define FUNCTIONS_SHOW 40u
#define NAME_SHOW      56

_Atomic uint64_t pl_counters[PL_COUNT_COUNT];

static _Atomic int armed;
static pid_t armed_pid; /* set once, before armed */
static struct timespec armed_at;
static _Atomic int init_result;
static _Atomic int driver_version;

static double
seconds_since(const struct timespec *then)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - then->tv_sec) +
	       (double)(now.tv_nsec - then->tv_nsec) * 1e-9;
}

uint64_t
pl_counter(enum pl_counter counter)
{
	return atomic_load(&pl_counters[counter]);
}

int
pl_report_driver_version(void)
{
	return atomic_load(&driver_version);
}

struct pl_gpu *
pl_report_gpu_next(int *device)
{
	while (++*device < (int)PL_GPUS_MAX) {
		struct pl_gpu *gpu = pl_gpu_of_device(*device);

		if (gpu && gpu->space)
			return gpu;
	}
	return NULL;
}

/* ---- functions ---- */

static void
function_keep(const struct pl_function_stats *stats, void *arg)
{
	struct pl_functions *list = arg;
	struct pl_function_stats *more;

	if (list->n == list->room) {
		size_t room = list->room ? list->room * 2 : 256;

		if (room > FUNCTIONS_MAX) {
			list->left_out++;
			return;
		}
		more = sl_realloc(list->all, room * sizeof(*more));
		if (!more) {
			list->left_out++;
			return;
		}
		list->all = more;
		list->room = room;
	}
	list->all[list->n++] = *stats;
}

/* What cost most first. */
static int
function_compare(const void *a, const void *b)
{
	const struct pl_function_stats *x = a, *y = b;

	if (x->waited_ns != y->waited_ns)
		return x->waited_ns < y->waited_ns ? 1 : -1;
	if (x->missed_bytes != y->missed_bytes)
		return x->missed_bytes < y->missed_bytes ? 1 : -1;
	if (x->launches != y->launches)
		return x->launches < y->launches ? 1 : -1;
	return strcmp(x->name, y->name);
}

void
pl_functions_get(struct pl_functions *list)
{
	memset(list, 0, sizeof(*list));
	pl_functions_walk(function_keep, list);
	if (list->n)
		qsort(list->all, list->n, sizeof(*list->all), function_compare);
}

void
pl_functions_put(struct pl_functions *list)
{
	free(list->all);
	memset(list, 0, sizeof(*list));
}

static void
explain(void)
{
	struct pl_functions list;
	char moved[32];

	pl_functions_get(&list);
	pl_error("%10s %10s %10s %12s %10s  function", "launches", "took all", "opaque",
		 "missed", "waited ms");
	for (size_t i = 0; i < list.n && i < FUNCTIONS_SHOW; i++) {
		const struct pl_function_stats *f = &list.all[i];

		pl_error("%10llu %10llu %10llu %12s %10.1f  %.*s",
			 (unsigned long long)f->launches, (unsigned long long)f->all,
			 (unsigned long long)f->opaque,
			 sl_size_format(f->missed_bytes, moved, sizeof(moved)),
			 (double)f->waited_ns * 1e-6, NAME_SHOW, f->name);
	}
	if (list.n + list.left_out > FUNCTIONS_SHOW)
		pl_error("and %zu functions more: --stats FILE has them",
			 list.n + list.left_out - FUNCTIONS_SHOW);
	pl_functions_put(&list);
}

/* ---- the end ---- */

/* What compression on the link has saved, where some was asked for. */
static void
link_line(const struct pl_gpu *gpu, const struct sluice_stats *stats)
{
	uint64_t in = stats->counter[SLUICE_COUNTER_COMPRESS_IN_SAVED];
	uint64_t out = stats->counter[SLUICE_COUNTER_COMPRESS_OUT_SAVED];
	uint64_t link = sluice_stats_h2d_bytes(stats) + sluice_stats_d2h_bytes(stats);
	char in_text[32], out_text[32];

	if (!in && !out)
		return;
	pl_note("GPU %d: compression spared the link %s in, %s out: %.0f %% of all",
		gpu->ordinal, sl_size_format(in, in_text, sizeof(in_text)),
		sl_size_format(out, out_text, sizeof(out_text)),
		100.0 * (double)(in + out) / (double)(link + in + out));
}

static void
gpu_line(const struct pl_gpu *gpu)
{
	struct sluice_stats stats;
	char in[32], out[32], peak[32], from[32], to[32];

	sluice_stats_get(gpu->space, &stats);
	pl_note("GPU %d: %s moved in, %s out; %s read from disk, %s written; at most %s "
		"on the "
		"device; %llu misses",
		gpu->ordinal, sl_size_format(sluice_stats_h2d_bytes(&stats), in, sizeof(in)),
		sl_size_format(sluice_stats_d2h_bytes(&stats), out, sizeof(out)),
		sl_size_format(sluice_stats_store_read_bytes(&stats), from, sizeof(from)),
		sl_size_format(sluice_stats_store_write_bytes(&stats), to, sizeof(to)),
		sl_size_format(stats.resident_peak_bytes[SLUICE_TIER_DEVICE], peak,
			       sizeof(peak)),
		(unsigned long long)stats.counter[SLUICE_COUNTER_MISSES]);
	link_line(gpu, &stats);
}

/* Fills text, and returns it. */
static const char *
graphs_format(char *text, size_t bytes)
{
	int n = snprintf(text, bytes, "%llu graphs",
			 (unsigned long long)pl_counter(PL_COUNT_graph_launches));

	if (pl_counter(PL_COUNT_graphs_cut))
		snprintf(text + n, bytes - (size_t)n, " (%llu of them in %llu pieces)",
			 (unsigned long long)pl_counter(PL_COUNT_graphs_cut),
			 (unsigned long long)pl_counter(PL_COUNT_graph_pieces));
	return text;
}

static void
report_exit(void)
{
	const struct pl_settings *s = pl_settings();
	char foreign[32], graphs[96];
	int device = -1;
	struct pl_gpu *gpu;

	if (getpid() != armed_pid)
		return; /* a forked child */
	pl_share_close();
	pl_timeline_close();
	pl_tracing_close();
	if (!atomic_load(&init_result)) {
		while ((gpu = pl_report_gpu_next(&device)))
			gpu_line(gpu);
		if (pl_counter(PL_COUNT_turns) || pl_counter(PL_COUNT_turn_wait_ms))
			pl_note("%llu turns beside other programs; waited %.1f s for "
				"them, "
				"%.1f s at most",
				(unsigned long long)pl_counter(PL_COUNT_turns),
				(double)pl_counter(PL_COUNT_turn_wait_ms) * 1e-3,
				(double)pl_counter(PL_COUNT_turn_wait_longest_ms) * 1e-3);
		if (pl_counter(PL_COUNT_launches) || pl_counter(PL_COUNT_allocations))
			pl_note("%llu launches (%llu taken to touch everything), %s, "
				"%llu copies, %llu allocations; %s allocated past us",
				(unsigned long long)pl_counter(PL_COUNT_launches),
				(unsigned long long)pl_counter(PL_COUNT_launches_all),
				graphs_format(graphs, sizeof(graphs)),
				(unsigned long long)pl_counter(PL_COUNT_copies),
				(unsigned long long)pl_counter(PL_COUNT_allocations),
				sl_size_format(pl_counter(PL_COUNT_foreign_bytes),
					       foreign, sizeof(foreign)));
		if (s->explain)
			explain();
	}
	if (s->stats_path[0])
		pl_stats_write(1, atomic_load(&init_result), seconds_since(&armed_at));
}

void
pl_report_init(int result)
{
	const struct pl_settings *s = pl_settings();
	int expected = 0, version = 0;

	/* One success is enough; a later refusal does not undo it. */
	if (atomic_load(&armed)) {
		if (!result)
			atomic_store(&init_result, 0);
		return;
	}
	if (result && !s->doctor)
		return;
	if (!atomic_compare_exchange_strong(&armed, &expected, 1))
		return;
	/* Now: at exit the driver is not to be asked any more. */
	if (!((int (*)(int *))pl_real[SL_API_cuDriverGetVersion])(&version))
		atomic_store(&driver_version, version);
	armed_pid = getpid();
	clock_gettime(CLOCK_MONOTONIC, &armed_at);
	atomic_store(&init_result, result);
	if (atexit(report_exit))
		pl_error("no exit handler: nothing will be said at the end");
	sl_nvtx_open();
	if (s->doctor && s->stats_path[0])
		pl_stats_write(0, result, 0.0);
}

/* ---- the start ---- */

static const char *
mode_name(enum pl_mode mode)
{
	switch (mode) {
	case PL_MODE_PAGED:
		return "paged";
	case PL_MODE_NAIVE:
		return "naive";
	case PL_MODE_OPT:
		return "opt";
	case PL_MODE_OFF:
		return "off";
	}
	return "?";
}

void
pl_report_start(const struct pl_gpu *gpu)
{
	static _Atomic int begun;
	struct sluice_config config;
	char device[32], host[32], store[48];
	uint64_t most = pl_share_most(gpu); /* others may have some of it now */

	pl_report_init(CU_SUCCESS); /* also where cuInit() was called before we took part */
	if (!atomic_exchange(&begun, 1))
		pl_frameworks_announce();
	sluice_space_config(gpu->space, &config);
	if (config.store_budget_bytes == UINT64_MAX)
		snprintf(store, sizeof(store), "what is free");
	else
		sl_size_format(config.store_budget_bytes, store, sizeof(store));
	if (most > config.device_budget_bytes)
		pl_note("GPU %d: up to %s of its memory, beside other programs",
			gpu->ordinal, sl_size_format(most, device, sizeof(device)));
	if (sl_space_host_most(gpu->space) > config.host_budget_bytes)
		config.host_budget_bytes = sl_space_host_most(gpu->space);
	pl_note("GPU %d: %s of its memory, %s of host memory, %s on disk in %s; mode %s",
		gpu->ordinal,
		sl_size_format(config.device_budget_bytes, device, sizeof(device)),
		sl_size_format(config.host_budget_bytes, host, sizeof(host)), store,
		config.spill_dirs, mode_name(pl_settings()->mode));
	pl_pinning_start(gpu);
}

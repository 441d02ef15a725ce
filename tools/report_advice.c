/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to change, each with the figures of the run that speak for it. Advice is given where at least
 * SHARE percent of the time is at stake. That of one GPU: the one that waited longest.
 *
 * Threads: one.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "report.h"

#define SHARE    5.0  /* percent of the whole */
#define FASTER   1.02 /* a step that is faster by less is not */
#define FULL     0.9  /* of a budget */
#define MOST_OUT 0.5  /* of the bytes in: data are made anew, not only read again */

static void SL_PRINTF(3, 4)
	advise(struct report *report, const char *key, const char *format, ...)
{
	struct report_advice *advice = &report->advice[report->n_advice];
	va_list args;

	if (report->n_advice == REPORT_ADVICE_MAX)
		return;
	advice->key = key;
	va_start(args, format);
	vsnprintf(advice->text, sizeof(advice->text), format, args);
	va_end(args);
	report->n_advice++;
}

static const struct report_gpu *
gpu_that_waited(const struct report *report)
{
	const struct report_gpu *most = NULL;

	for (int i = 0; i < REPORT_GPUS_MAX; i++) {
		const struct report_gpu *gpu = report->gpus[i];

		if (gpu && (!most || report_waited_ns(gpu) > report_waited_ns(most)))
			most = gpu;
	}
	return most;
}

static const struct report_size *
size_of(const struct report_plan *plan, uint64_t bytes)
{
	for (uint32_t i = 0; i < plan->n_sizes; i++)
		if (plan->sizes[i].device_bytes == bytes)
			return &plan->sizes[i];
	return NULL;
}

/* The smallest size whose step is about as fast as the fastest. */
static const struct report_size *
size_that_suffices(const struct report_plan *plan)
{
	const struct report_size *last = &plan->sizes[plan->n_sizes - 1], *size = plan->sizes;

	while (size < last && (size->seconds < 0 || size->seconds > last->seconds * FASTER))
		size++;
	return size;
}

/* Bytes that were copied in ahead. */
static uint64_t
prefetched_bytes(const struct report *report)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < report->n_counters; i++)
		if (!strcmp(report->counters[i].name,
			    sluice_counter_name(SLUICE_COUNTER_H2D_PREFETCH)))
			sum += report->counters[i].bytes;
	return sum;
}

/* The GPU waited for copies: more memory, or, if the plan needs none, earlier copies. */
static void
device_advise(struct report *report, const struct report_gpu *gpu, uint64_t link_ns)
{
	const struct report_plan *plan = &report->plan;
	const struct report_size *own = NULL, *enough = NULL;
	char used[32], budget[32], more[32], by_plan[200];

	sl_size_format(gpu->used_most[SLUICE_TIER_DEVICE], used, sizeof(used));
	sl_size_format(gpu->budget[SLUICE_TIER_DEVICE], budget, sizeof(budget));
	snprintf(by_plan, sizeof(by_plan),
		 "`sluice run --record` and --trace tell how much of it gives what.");
	if (plan->given && plan->n_sizes) {
		own = size_of(plan, plan->own_bytes);
		enough = size_that_suffices(plan);
		sl_size_format(enough->device_bytes, more, sizeof(more));
	}
	if (own && own->seconds > 0 && own->seconds <= enough->seconds * FASTER) {
		sl_size_format(prefetched_bytes(report), used, sizeof(used));
		advise(report, "prefetch",
		       "Earlier copies, not more device memory. The GPU waited %.3f s "
		       "for copies "
		       "(%.1f %% of the time). By the plan a step takes %.4g s with %s, "
		       "and no less "
		       "with more. %s of %s were prefetched (--prefetch).",
		       (double)link_ns / 1e9, report_share(report, link_ns), own->seconds,
		       budget, used,
		       sl_size_format(gpu->ways[REPORT_IN].bytes, more, sizeof(more)));
		return;
	}
	if (own && own->seconds > 0)
		snprintf(by_plan, sizeof(by_plan),
			 "By the plan a step takes %.4g s with %s, and %.4g s with %s.",
			 own->seconds, budget, enough->seconds, more);
	else if (own)
		snprintf(by_plan, sizeof(by_plan),
			 "The plan cannot run a step with %s. It takes %.4g s with %s.",
			 budget, enough->seconds, more);
	advise(report, "device memory",
	       "More device memory (--device-memory). The GPU waited %.3f s for copies "
	       "(%.1f %% "
	       "of the time), with %s of %s in use. %s",
	       (double)link_ns / 1e9, report_share(report, link_ns), used, budget, by_plan);
}

static void
memory_advise(struct report *report, const struct report_gpu *gpu)
{
	uint64_t link_ns = gpu->part_ns[REPORT_WAIT_IN] + gpu->part_ns[REPORT_WAIT_OUT];
	uint64_t disk_ns = gpu->part_ns[REPORT_WAIT_READ] + gpu->part_ns[REPORT_WAIT_WRITE];
	uint64_t disk = gpu->ways[REPORT_READ].bytes + gpu->ways[REPORT_WRITE].bytes;
	char a[32], b[32];

	if (report_share(report, link_ns) >= SHARE &&
	    (double)gpu->used_most[SLUICE_TIER_DEVICE] >=
		    FULL * (double)gpu->budget[SLUICE_TIER_DEVICE])
		device_advise(report, gpu, link_ns);
	if (disk && report_share(report, disk_ns) >= SHARE)
		advise(report, "host memory",
		       "More host memory (--host-memory). The GPU waited %.3f s for the "
		       "disk "
		       "(%.1f %% of the time). Up to %s were on disk, beyond %s of host "
		       "memory.",
		       (double)disk_ns / 1e9, report_share(report, disk_ns),
		       sl_size_format(gpu->used_most[SLUICE_TIER_STORE], a, sizeof(a)),
		       sl_size_format(gpu->budget[SLUICE_TIER_HOST], b, sizeof(b)));
}

static void
checkpoints_advise(struct report *report, const struct report_gpu *gpu)
{
	const struct report_plan *plan = &report->plan;
	char a[32], b[32];

	if (report_share(report, report_waited_ns(gpu)) < SHARE || !gpu->ways[REPORT_OUT].bytes)
		return;
	sl_size_format(gpu->ways[REPORT_OUT].bytes, b, sizeof(b));
	if (plan->reversed)
		advise(report, "activation checkpointing",
		       "Activation checkpointing. %u allocations of a step, %s together, "
		       "are made, lie idle and are "
		       "used in reverse, as in training. %s were copied out. To compute "
		       "such data again "
		       "moves nothing.",
		       plan->reversed, sl_size_format(plan->reversed_bytes, a, sizeof(a)),
		       b);
	else if (!plan->given && (double)gpu->ways[REPORT_OUT].bytes >=
					 MOST_OUT * (double)gpu->ways[REPORT_IN].bytes)
		advise(report, "activation checkpointing",
		       "If the program trains: activation checkpointing. %s were copied "
		       "out and %s in, so "
		       "most of what moves was made on the GPU. --trace tells whether it "
		       "is used as "
		       "in training.",
		       b, sl_size_format(gpu->ways[REPORT_IN].bytes, a, sizeof(a)));
}

static void
rest_advise(struct report *report, const struct report_gpu *gpu)
{
	uint64_t other_ns = gpu->part_ns[REPORT_WAIT_OTHER],
		 host_ns = gpu->part_ns[REPORT_HOST];
	uint64_t map_ns = gpu->part_ns[REPORT_WAIT_MAP],
		 pin_ns = gpu->part_ns[REPORT_WAIT_PIN];
	uint64_t busy_ns = gpu->part_ns[REPORT_KERNELS] + gpu->part_ns[REPORT_COPIES];

	if (report_share(report, map_ns) >= SHARE)
		advise(report, "mappings",
		       "An allocation for each tensor. The driver changed mappings for "
		       "%.3f "
		       "s (%.1f %% of the time) while the GPU waited. What a kernel may "
		       "reach "
		       "of a large block is mapped in host memory. Programs whose own "
		       "allocator can be switched off avoid that.",
		       (double)map_ns / 1e9, report_share(report, map_ns));
	if (report_share(report, pin_ns) >= SHARE)
		advise(report, "pinning",
		       "A longer run. Host memory was pinned for %.3f s (%.1f %% of the "
		       "time) while the GPU waited. Each piece of it is pinned once, "
		       "when it "
		       "is needed first.",
		       (double)pin_ns / 1e9, report_share(report, pin_ns));
	if (report_share(report, other_ns) >= SHARE)
		advise(report, "waits without a move",
		       "Look at the functions that waited. Work was called for %.3f s "
		       "(%.1f %% of "
		       "the time) and did not "
		       "run, and nothing moved for it. `sluice run --explain` tells "
		       "whose launches "
		       "took all memory.",
		       (double)other_ns / 1e9, report_share(report, other_ns));
	if (report_share(report, host_ns) >= SHARE && host_ns > report_waited_ns(gpu))
		advise(report, "the program on the host",
		       "The program itself. It called nothing for %.3f s (%.1f %% of the "
		       "time) while the GPU was "
		       "idle. Memory does not change that.",
		       (double)host_ns / 1e9, report_share(report, host_ns));
	if (!report->n_advice)
		advise(report,
		       "nothing", "Nothing of Sluice. The GPU waited for it %.3f s (%.1f %% of the time); it worked %.3f s.",
		       (double)report_waited_ns(gpu) / 1e9,
		       report_share(report, report_waited_ns(gpu)), (double)busy_ns / 1e9);
}

void
report_advice_make(struct report *report)
{
	const struct report_gpu *gpu = gpu_that_waited(report);

	if (!gpu)
		return;
	memory_advise(report, gpu);
	checkpoints_advise(report, gpu);
	rest_advise(report, gpu);
}

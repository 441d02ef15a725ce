/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the planner says of the run's program: the time of its step with more and with less device
 * memory, by the code of `sluice plan --sweep`. The machine is the run's own: its budgets, and the
 * rates that its timeline shows. Where nothing moved, the rates are those of `sluice plan`.
 *
 * The step also shows a sign of training: data that a step makes, that lie idle, and that are used
 * again in the reverse order. Activations are used so.
 *
 * Threads: those of the sweep.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/fault_point.h"
#include "base/size.h"
#include "cmd_plan.h"
#include "report.h"

#define GRAIN      ((uint64_t)2 << 20)  /* sizes are whole chunks */
#define RATE_BYTES ((uint64_t)16 << 20) /* fewer bytes are no measure of a rate */
#define RATE_LEAST 1e6

/* ---- the machine ---- */

static void
rate_take(const struct report_gpu *gpu, enum report_way way, double *bps)
{
	const struct report_way_sum *sum = &gpu->ways[way];

	if (sum->bytes >= RATE_BYTES && sum->busy_ns)
		*bps = fmax(report_rate(sum->bytes, sum->busy_ns), RATE_LEAST);
}

static void
machine_make(const struct report_gpu *gpu, struct sl_machine *machine)
{
	sl_machine_g10(machine);
	machine->device_bytes = gpu->budget[SLUICE_TIER_DEVICE];
	machine->host_bytes = gpu->budget[SLUICE_TIER_HOST];
	rate_take(gpu, REPORT_IN, &machine->link_in_bps);
	rate_take(gpu, REPORT_OUT, &machine->link_out_bps);
	rate_take(gpu, REPORT_READ, &machine->store_read_bps);
	rate_take(gpu, REPORT_WRITE, &machine->store_write_bps);
	machine->store_read_bps = fmin(machine->store_read_bps, machine->link_in_bps);
	machine->store_write_bps = fmin(machine->store_write_bps, machine->link_out_bps);
}

/* Around the run's own size, rising. */
static void
sizes_make(struct report_plan *plan)
{
	static const double factors[] = {0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4};

	for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
		uint64_t bytes = plan->own_bytes;

		if (factors[i] < 1 || factors[i] > 1)
			bytes = (uint64_t)((double)bytes * factors[i]) / GRAIN * GRAIN;
		if (!bytes ||
		    (plan->n_sizes && bytes <= plan->sizes[plan->n_sizes - 1].device_bytes))
			continue;
		plan->sizes[plan->n_sizes++].device_bytes = bytes;
	}
}

/* ---- the sign of training ---- */

/* First use, longest idle time of a tensor in the step. */
struct idle {
	uint32_t first, last, idle_until, idle;
	uint64_t bytes;
};

static int
idle_order(const void *a, const void *b)
{
	const struct idle *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

/*
 * Those that are idle for a tenth of the step, in the order of their first use: each one whose idle time
 * ends before that of the one before is used in reverse. All of them count if most do.
 */
static int
reversed_find(struct report_plan *plan, const struct sl_trace *trace)
{
	struct idle *idle = sl_calloc(trace->n_tensors + 1, sizeof(*idle));
	uint32_t n = 0, reversed = 0;
	uint64_t bytes = 0;

	if (!idle)
		return sl_fail(-ENOMEM, "out of memory");
	for (uint32_t t = 0; t < trace->n_tensors; t++)
		idle[t].first = SL_TRACE_NONE;
	for (uint32_t k = 0; k < trace->n_launches; k++) {
		const struct sl_trace_launch *launch = &trace->launches[k];

		for (uint32_t u = 0; u < launch->n_uses; u++) {
			struct idle *use = &idle[trace->uses[launch->first_use + u].tensor];

			if (use->first == SL_TRACE_NONE)
				use->first = use->last = k;
			if (k - use->last > use->idle) {
				use->idle = k - use->last;
				use->idle_until = k;
			}
			use->last = k;
		}
	}
	for (uint32_t t = 0; t < trace->n_tensors; t++) {
		if (trace->tensors[t].kind != SL_TENSOR_LOCAL ||
		    idle[t].first == SL_TRACE_NONE || idle[t].idle * 10 < trace->n_launches)
			continue;
		idle[n] = idle[t];
		idle[n++].bytes = trace->tensors[t].size_bytes;
	}
	qsort(idle, n, sizeof(*idle), idle_order);
	for (uint32_t i = 0; i < n; i++) {
		bytes += idle[i].bytes;
		reversed += i && idle[i].idle_until < idle[i - 1].idle_until;
	}
	if (n >= 3 && reversed * 4 >= (n - 1) * 3) {
		plan->reversed = n;
		plan->reversed_bytes = bytes;
	}
	free(idle);
	return 0;
}

/* ---- the whole ---- */

static int
plan_make(struct report_plan *plan, const struct plan_job *job)
{
	uint64_t sizes[REPORT_SIZES_MAX];
	double kept[REPORT_SIZES_MAX];
	int rc;

	for (uint32_t i = 0; i < plan->n_sizes; i++)
		sizes[i] = plan->sizes[i].device_bytes;
	rc = plan_sweep_sizes(job, sizes, plan->n_sizes, kept, &plan->unlimited_s);
	for (uint32_t i = 0; !rc && i < plan->n_sizes; i++)
		plan->sizes[i].seconds = kept[i] > 0 ? plan->unlimited_s / kept[i] : -1;
	return rc ? rc : reversed_find(plan, job->trace);
}

int
report_plan_make(struct report *report, const char *trace_path)
{
	struct plan_job job = {.planner = &sl_planner_sluice,
			       .policy = plan_models.policies,
			       .period = SL_TRACE_NONE,
			       .trace_path = trace_path};
	struct report_plan *plan = &report->plan;
	const struct report_gpu *gpu = NULL;
	struct sl_trace *trace = NULL;
	int rc;

	for (int i = 0; !gpu && i < REPORT_GPUS_MAX; i++)
		gpu = report->gpus[i]; /* the trace of the first has the name */
	if (!gpu || !gpu->budget[SLUICE_TIER_DEVICE])
		return sl_fail(-EINVAL, "%s: the timeline does not tell the device memory: no plan can be made",
			       report->path);
	machine_make(gpu, &job.machine);
	if (sl_machine_check(&job.machine))
		return sl_fail_in(-EINVAL, "%s: the machine of the run", report->path);
	plan->own_bytes = job.machine.device_bytes;
	plan->host_bytes = job.machine.host_bytes;
	plan->link_in_bps = job.machine.link_in_bps;
	plan->link_out_bps = job.machine.link_out_bps;
	sizes_make(plan);
	rc = sl_trace_read(trace_path, &trace);
	if (!rc)
		rc = plan_period_take(&job, &trace);
	job.trace = trace;
	if (!rc)
		rc = plan_make(plan, &job);
	plan->given = !rc;
	sl_trace_destroy(trace);
	return rc;
}

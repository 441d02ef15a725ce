/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lifetimes and idle periods as the paper G10 counts them (its section 4.1), for the
 * published planner and for the simulations that work on whole tensors.
 *
 * plan/vitality.h has the same notion for everybody else. This one keeps two habits of the
 * published program on which its results depend: a tensor that is never read dies with its
 * first kernel, and a global that is last used by the last kernel has an ordinary idle
 * period at the front rather than one that wraps.
 *
 * Threads: pure.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/g10.h"

/* Whether a use reads what was there before. */
static int
use_reads(enum sluice_intent intent)
{
	switch (intent) {
	case SLUICE_USE_READ:
	case SLUICE_USE_WRITE: /* keeps some of the bytes */
	case SLUICE_USE_READ_WRITE:
		return 1;
	case SLUICE_USE_WRITE_ALL:
	case SLUICE_USE_SCRATCH:
	case SLUICE_USE_COUNT:
		break;
	}
	return 0;
}

uint64_t
sl_g10_kernel_bytes(const struct sl_g10_view *view, uint32_t kernel)
{
	const struct sl_trace_launch *launch = &view->launches[kernel];
	uint64_t bytes = 0;

	for (uint32_t u = 0; u < launch->n_uses; u++)
		bytes += view->tensors[view->trace->uses[launch->first_use + u].tensor].size_bytes;
	return bytes;
}

/* Kernels that use each tensor, ascending, in one array. */
struct use_table {
	uint32_t *first;   /* by tensor, n_tensors + 1 */
	uint32_t *kernels; /* of tensor t: kernels[first[t] ... first[t + 1] - 1] */
};

static int
use_table_make(struct use_table *table, const struct sl_g10_view *view)
{
	const struct sl_trace *trace = view->trace;
	uint32_t total = 0;

	table->first = calloc((size_t)view->n_tensors + 2, sizeof(*table->first));
	if (!table->first)
		return -ENOMEM;
	for (uint32_t k = 0; k < view->n; k++)
		total += view->launches[k].n_uses;
	table->kernels = malloc(((size_t)total + 1) * sizeof(*table->kernels));
	if (!table->kernels)
		return -ENOMEM;
	/* Count into t + 2, sum up, fill through t + 1: then first[t] is where t begins. */
	for (uint32_t k = 0; k < view->n; k++)
		for (uint32_t u = 0; u < view->launches[k].n_uses; u++)
			table->first[trace->uses[view->launches[k].first_use + u].tensor + 2]++;
	for (uint32_t t = 2; t < view->n_tensors + 2; t++)
		table->first[t] += table->first[t - 1];
	for (uint32_t k = 0; k < view->n; k++)
		for (uint32_t u = 0; u < view->launches[k].n_uses; u++) {
			uint32_t t = trace->uses[view->launches[k].first_use + u].tensor;

			table->kernels[table->first[t + 1]++] = k;
		}
	return 0;
}

static void
g10_lives_make(struct sl_g10_view *view)
{
	const struct sl_trace *trace = view->trace;

	for (uint32_t t = 0; t < view->n_tensors; t++) {
		view->tensors[t].size_bytes = trace->tensors[t].size_bytes;
		view->tensors[t].is_global = trace->tensors[t].kind == SL_TENSOR_GLOBAL;
		view->tensors[t].birth = UINT32_MAX;
	}
	for (uint32_t k = 0; k < view->n; k++)
		for (uint32_t u = 0; u < view->launches[k].n_uses; u++) {
			const struct sl_trace_use *use =
				&trace->uses[view->launches[k].first_use + u];
			struct sl_g10_tensor *tensor = &view->tensors[use->tensor];

			if (tensor->birth == UINT32_MAX)
				tensor->birth = k;
			if (use_reads(use->intent)) {
				tensor->is_read = 1;
				tensor->death = k + 1;
			}
		}
	for (uint32_t t = 0; t < view->n_tensors; t++) {
		struct sl_g10_tensor *tensor = &view->tensors[t];

		if (tensor->is_global) {
			tensor->birth = 0;
			tensor->death = view->n;
		} else if (tensor->birth == UINT32_MAX) {
			tensor->birth = tensor->death = 0; /* of another period */
		} else if (!tensor->is_read) {
			tensor->death = tensor->birth + 1;
		}
	}
}

static void
g10_period_add(struct sl_g10_view *view, uint32_t t, uint32_t start, uint32_t end, int looped)
{
	struct sl_g10_period *period = &view->periods[view->n_periods++];

	period->tensor = t;
	period->start = start;
	period->end = end;
	period->looped = looped;
	period->ticks = view->start_ticks[end] - view->start_ticks[start];
	if (looped)
		period->ticks += view->start_ticks[view->n];
	view->tensors[t].n_periods++;
}

static void
periods_of(struct sl_g10_view *view, uint32_t t, const uint32_t *kernels, uint32_t n_uses)
{
	struct sl_g10_tensor *tensor = &view->tensors[t];

	tensor->first_period = view->n_periods;
	if (!n_uses)
		return;
	if (tensor->is_global && kernels[n_uses - 1] + 1 == view->n && kernels[0] > 0)
		g10_period_add(view, t, 0, kernels[0], 0);
	for (uint32_t i = 0; i + 1 < n_uses; i++) {
		if (kernels[i + 1] == kernels[i] + 1)
			continue;
		if (!tensor->is_global && kernels[i + 1] >= tensor->death)
			break;
		g10_period_add(view, t, kernels[i] + 1, kernels[i + 1], 0);
	}
	if (tensor->is_global && kernels[n_uses - 1] + 1 < view->n)
		g10_period_add(view, t, kernels[n_uses - 1] + 1, kernels[0], 1);
}

int
sl_g10_view_init(struct sl_g10_view *view, const struct sl_trace *trace, uint32_t period)
{
	struct use_table table = {0};
	uint64_t total = 0;
	int rc = -ENOMEM;

	memset(view, 0, sizeof(*view));
	if (period >= trace->n_periods || !trace->period_first ||
	    trace->period_first[period + 1] == trace->period_first[period])
		return sl_fail(-EINVAL, "the trace has no launches in period %u of %u",
			       period, trace->n_periods);
	view->trace = trace;
	view->launches = &trace->launches[trace->period_first[period]];
	view->n = trace->period_first[period + 1] - trace->period_first[period];
	view->n_tensors = trace->n_tensors;
	view->start_ticks = malloc(((size_t)view->n + 1) * sizeof(*view->start_ticks));
	view->tensors = calloc((size_t)view->n_tensors + 1, sizeof(*view->tensors));
	if (!view->start_ticks || !view->tensors)
		goto done;
	for (uint32_t k = 0; k < view->n; k++) {
		view->start_ticks[k] = total;
		total += view->launches[k].ticks;
	}
	view->start_ticks[view->n] = total;
	g10_lives_make(view);
	rc = use_table_make(&table, view);
	if (rc)
		goto done;
	/* A tensor has at most one idle period per use. */
	view->periods = calloc((size_t)table.first[view->n_tensors] + 1,
			       sizeof(*view->periods));
	if (!view->periods) {
		rc = -ENOMEM;
		goto done;
	}
	for (uint32_t t = 0; t < view->n_tensors; t++)
		periods_of(view, t, table.kernels + table.first[t],
			   table.first[t + 1] - table.first[t]);
done:
	free(table.first);
	free(table.kernels);
	if (rc == -ENOMEM) {
		sl_g10_view_fini(view);
		return sl_fail(-ENOMEM, "lifetimes of %u tensors: out of memory",
			       trace->n_tensors);
	}
	return rc;
}

void
sl_g10_view_fini(struct sl_g10_view *view)
{
	free(view->start_ticks);
	free(view->tensors);
	free(view->periods);
	memset(view, 0, sizeof(*view));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FlashNeuron as the paper G10 compares against it: outputs of the forward pass that are
 * still needed behind the loss go straight to the store, oldest first, as many as it takes
 * for the rest to fit; they come back during the backward pass.
 *
 * The plan is made here and run by tensor_run.c. Needs a trace that says where its forward
 * pass ends. Host memory is not used. A configuration fails when globals and the largest
 * kernel leave no room, when not enough can be offloaded, or when memory is too fragmented.
 *
 * Threads: pure.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "g10/tensor_run.h"

#define GIGA_BINARY ((double)(UINT64_C(1) << 30) / 1e9)

/* The period whose start begins the offload: the tensor's last one that begins at or before
 * the loss. NULL: none. */
static const struct sl_g10_period *
offload_period(const struct sl_g10_view *view, uint32_t t, uint32_t loss)
{
	const struct sl_g10_tensor *tensor = &view->tensors[t];
	const struct sl_g10_period *found = NULL;

	for (uint32_t i = 0; i < tensor->n_periods; i++) {
		const struct sl_g10_period *period = &view->periods[tensor->first_period + i];

		if (period->start <= loss)
			found = period;
	}
	return found;
}

/* Locals that a forward kernel uses and that are alive behind the loss, by first use. */
static uint32_t
candidates_find(const struct sl_g10_view *view, uint32_t loss, uint32_t *candidates,
		unsigned char *is_candidate)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < loss; k++) {
		const struct sl_trace_launch *launch = &view->launches[k];

		for (uint32_t u = 0; u < launch->n_uses; u++) {
			uint32_t t = view->trace->uses[launch->first_use + u].tensor;

			if (view->tensors[t].is_global || is_candidate[t] ||
			    view->tensors[t].death <= loss + 1)
				continue;
			is_candidate[t] = 1;
			candidates[n++] = t;
		}
	}
	return n;
}

/* Fill plan and marks. 1: it cannot be done, out says why. */
static int
offloads_choose(const struct sl_g10_view *view, uint64_t device_bytes, uint32_t loss,
		unsigned char *offloaded, struct sl_plan *plan, struct sl_sim_result *out)
{
	SL_CLEANUP(free) uint32_t *candidates = calloc((size_t)view->n_tensors + 1, 4);
	SL_CLEANUP(free) unsigned char *marks = calloc((size_t)view->n_tensors + 1, 1);
	uint64_t globals = 0, largest = 0, rest = 0, room;
	uint32_t n;

	if (!candidates || !marks)
		return sl_fail(-ENOMEM, "choosing offloads: out of memory");
	for (uint32_t t = 0; t < view->n_tensors; t++)
		if (view->tensors[t].is_global)
			globals += view->tensors[t].size_bytes;
	for (uint32_t k = 0; k < view->n; k++) {
		uint64_t bytes = sl_g10_kernel_bytes(view, k);

		if (bytes > largest)
			largest = bytes;
	}
	if (globals + largest >= device_bytes) {
		out->failed = 1;
		snprintf(out->why, sizeof(out->why),
			 "globals of %" PRIu64 " bytes and a launch of %" PRIu64
			 " leave no room in %" PRIu64,
			 globals, largest, device_bytes);
		return 1;
	}
	room = device_bytes - globals - largest;
	n = candidates_find(view, loss, candidates, marks);
	for (uint32_t i = 0; i < n; i++)
		rest += view->tensors[candidates[i]].size_bytes;
	for (uint32_t i = 0; i < n && rest >= room; i++) {
		uint32_t t = candidates[i];
		const struct sl_g10_period *period = offload_period(view, t, loss);
		int rc;

		if (!period)
			continue;
		rc = sl_plan_add(plan, period->start, SL_PLAN_EVICT_STORE, t);
		if (rc)
			return rc;
		offloaded[t] = 1;
		rest -= view->tensors[t].size_bytes;
	}
	if (rest >= room) {
		out->failed = 1;
		snprintf(out->why, sizeof(out->why),
			 "%" PRIu64
			 " bytes cannot be offloaded, there is room for %" PRIu64,
			 rest, room);
		return 1;
	}
	g10_plan_sort(plan);
	return 0;
}

static int
flashneuron_run(const struct sl_trace *trace, const struct sl_machine *machine,
		const struct sl_plan *unused, const struct sl_sim_options *options,
		struct sl_sim_result *out)
{
	SL_CLEANUP(free) unsigned char *offloaded = NULL;
	struct tensor_run_rules rules = {0};
	struct sl_plan *plan = NULL;
	struct sl_g10_view view;
	int rc = sl_machine_check(machine);

	(void)unused;
	memset(out, 0, sizeof(*out));
	if (!rc)
		rc = sl_tensor_one_gpu("flashneuron", machine);
	if (rc)
		return rc;
	if (trace->n_forward == SL_TRACE_NONE)
		return sl_fail(-EINVAL,
			       "FlashNeuron: the trace does not say where its forward "
			       "pass ends");
	rc = sl_g10_view_init(&view, trace, options->period);
	if (rc)
		return rc;
	offloaded = calloc((size_t)view.n_tensors + 1, 1);
	rc = offloaded ? sl_plan_create(trace, "flashneuron", &plan)
		       : sl_fail(-ENOMEM, "FlashNeuron: out of memory");
	if (rc)
		goto done;
	rc = offloads_choose(&view, machine->device_bytes, trace->n_forward, offloaded,
			     plan, out);
	if (rc)
		goto done;
	rules.array_bytes = machine->device_bytes;
	rules.store_bytes = machine->store_bytes;
	for (int path = 0; path < SL_PATH_COUNT; path++)
		rules.bps[path] = (path == SL_PATH_STORE_IN ? machine->store_read_bps
							    : machine->store_write_bps) *
				  (options->as_published ? GIGA_BINARY : 1);
	rules.loss_kernel = trace->n_forward;
	rules.from_high = offloaded;
	rules.many_last_first = options->as_published;
	rules.waits_for_own_write = 1;
	rc = sl_tensor_run(&view, &rules, plan, options, out);
done:
	sl_plan_destroy(plan);
	sl_g10_view_fini(&view);
	return rc < 0 ? rc : 0;
}

const struct sl_sim_policy g10_policy_flashneuron = {.name = "flashneuron",
						     .run = flashneuron_run};

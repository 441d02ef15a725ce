/* SPDX-License-Identifier: Apache-2.0 */
/*
 * G10-GDS and G10-Host: the published planner without unified memory (paper G10, its
 * section on the systems compared), run tensor by tensor. G10-GDS moves between device and
 * store only; G10-Host uses host memory as well, over what the link has beyond the store.
 *
 * The plan is made by g10_plan() and run by tensor_run.c. As published the device array is
 * four times the device memory: capacity is respected by the plan alone, and what the plan
 * leaves above its line is not seen. Otherwise it is what the machine has, in pages, and a
 * kernel that finds no room has something evicted.
 *
 * Threads: pure.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "g10/tensor_run.h"

#define GIGA_BINARY ((double)(UINT64_C(1) << 30) / 1e9)
#define ARRAY_TIMES 4

static int
g10_tensor_run(const struct sl_trace *trace, const struct sl_machine *machine,
	       enum g10_variant variant, const struct sl_sim_options *options,
	       struct sl_sim_result *out)
{
	double giga = options->as_published ? GIGA_BINARY : 1;
	struct tensor_run_rules rules = {0};
	struct sl_plan *plan = NULL;
	struct sl_g10_view view;
	int rc;

	memset(out, 0, sizeof(*out));
	if (options->period != 0)
		return sl_fail(-EINVAL, "%s: plans are made for the first period, not for %u",
			       variant == G10_GDS ? "g10-gds" : "g10-host", options->period);
	rc = sl_tensor_one_gpu(variant == G10_GDS ? "g10-gds" : "g10-host", machine);
	if (rc)
		return rc;
	rc = g10_plan(trace, machine, variant, options->as_published, &plan);
	if (rc)
		return rc;
	rc = sl_g10_view_init(&view, trace, 0);
	if (rc) {
		sl_plan_destroy(plan);
		return rc;
	}
	rules.array_bytes = machine->device_bytes * (options->as_published ? ARRAY_TIMES : 1);
	rules.store_bytes = machine->store_bytes;
	rules.bps[SL_PATH_STORE_IN] = machine->store_read_bps * giga;
	rules.bps[SL_PATH_STORE_OUT] = machine->store_write_bps * giga;
	rules.bps[SL_PATH_HOST_IN] = (machine->link_in_bps - machine->store_read_bps) * giga;
	rules.bps[SL_PATH_HOST_OUT] = (machine->link_out_bps - machine->store_write_bps) *
				      giga;
	if (variant == G10_HOST &&
	    (rules.bps[SL_PATH_HOST_IN] <= 0 || rules.bps[SL_PATH_HOST_OUT] <= 0)) {
		out->failed = 1;
		snprintf(out->why, sizeof(out->why),
			 "the store takes the whole link: nothing is left for the host");
		goto done;
	}
	rules.loss_kernel = SL_TRACE_NONE;
	rules.evicts = !options->as_published;
	rc = sl_tensor_run(&view, &rules, plan, options, out);
done:
	sl_g10_view_fini(&view);
	sl_plan_destroy(plan);
	return rc;
}

static int
g10_gds_run(const struct sl_trace *trace, const struct sl_machine *machine,
	    const struct sl_plan *plan, const struct sl_sim_options *options,
	    struct sl_sim_result *out)
{
	(void)plan;
	return g10_tensor_run(trace, machine, G10_GDS, options, out);
}

static int
g10_host_run(const struct sl_trace *trace, const struct sl_machine *machine,
	     const struct sl_plan *plan, const struct sl_sim_options *options,
	     struct sl_sim_result *out)
{
	(void)plan;
	return g10_tensor_run(trace, machine, G10_HOST, options, out);
}

const struct sl_sim_policy g10_policy_gds = {.name = "g10-gds", .run = g10_gds_run};

const struct sl_sim_policy g10_policy_host = {.name = "g10-host", .run = g10_host_run};

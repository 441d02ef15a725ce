/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ideal: every launch at its own time with unlimited memory.
 *
 * The other policies: paging.c (lru, plan), core_run.c (core-lru and others: the pager itself).
 * Those of the papers are in papers/g10. Threads: nothing is kept.
 */
#include "sim/internal.h"

static int
ideal_run(const struct sl_trace *trace, const struct sl_machine *machine,
	  const struct sl_plan *plan, const struct sl_sim_options *options,
	  struct sl_sim_result *out)
{
	struct sl_sim_result result;
	uint64_t now = 0;
	struct sl_sim_work work;
	uint32_t period, launch;
	int rc;

	(void)machine;
	(void)plan;
	rc = sl_sim_work_init(&work, trace, options);
	if (rc)
		return rc;
	rc = sl_result_init(&result, &work, options->periods ? options->periods : 2);
	if (rc) {
		sl_sim_work_fini(&work);
		return rc;
	}
	for (period = 0; period < result.n_periods; period++) {
		result.period_ticks[period] = work.ideal_ticks;
		for (launch = 0; launch < work.n_launches; launch++) {
			struct sl_sim_launch *l =
				&result.launches[(size_t)period * work.n_launches + launch];

			l->start_ticks = now;
			now += work.launches[launch].ticks;
			l->end_ticks = now;
			l->ideal_ticks = l->compute_ticks = work.launches[launch].ticks;
		}
	}
	sl_result_choose(&result, options->as_published);
	sl_sim_work_fini(&work);
	*out = result;
	return 0;
}

const struct sl_sim_policy sl_sim_ideal = {"ideal", ideal_run};

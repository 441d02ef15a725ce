/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulator's files share: one period of a trace made ready for simulation, and
 * results being filled.
 *
 * Threads: plain data; nothing is shared.
 */
#ifndef SL_SIM_INTERNAL_H
#define SL_SIM_INTERNAL_H

#include "sim/sim.h"

/* How a tensor is used by a launch. */
enum sl_sim_role {
	SL_ROLE_INPUT,  /* its contents are read */
	SL_ROLE_OUTPUT, /* written only */
	SL_ROLE_COUNT
};

/* One launch: need[first ... first + n - 1], inputs first, each newest tensor first. */
struct sl_sim_work_launch {
	uint64_t ticks, fault_output_ticks, fault_all_ticks;
	uint32_t first, n, n_inputs;
	uint64_t bytes;        /* of all it needs */
	uint32_t trace_launch; /* its number in the trace */
};

/* The period that is simulated again and again. */
struct sl_sim_work {
	const struct sl_trace *trace;
	uint32_t n_launches, n_tensors;
	struct sl_sim_work_launch *launches;
	uint32_t *need;      /* tensors */
	uint8_t *role;       /* enum sl_sim_role, beside need */
	uint8_t *writes;     /* beside need: the launch changes the contents */
	uint8_t *overwrites; /* beside need: ... all of them, whatever they were */
	uint8_t *lasts;      /* by tensor: its contents outlive the period */
	uint32_t *birth;     /* by tensor: first launch that uses it; globals 0 */
	uint32_t *death;     /* one past the last that reads it; globals: n_launches */
	uint64_t ideal_ticks;
};

int sl_sim_work_init(struct sl_sim_work *work, const struct sl_trace *trace,
		     const struct sl_sim_options *options) SL_MUST_CHECK;
void sl_sim_work_fini(struct sl_sim_work *work);

/*
 * Prepare a result of `periods` periods; failed: the launch that cannot fit, said in why.
 * Errors: -ENOMEM.
 */
int sl_result_init(struct sl_sim_result *result, const struct sl_sim_work *work,
		   uint32_t periods) SL_MUST_CHECK;
void sl_result_too_big(struct sl_sim_result *result, const struct sl_sim_work *work,
		       uint32_t launch, uint64_t bytes, uint64_t device_bytes);
/* Fill best_ticks and best_period from period_ticks. */
void sl_result_choose(struct sl_sim_result *result, int as_published);

/* Is this plan made for that period? -EINVAL with a text if not, or if there is none. */
int sl_plan_fits(const struct sl_plan *plan, const struct sl_sim_work *work) SL_MUST_CHECK;

#endif

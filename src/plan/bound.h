/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bound that no schedule can beat: the least time of one period of a trace on a machine,
 * whatever ran before it, and the least bytes that have to move. A plan's distance to it is the
 * most that better planning could gain. docs/design/planner.md has the argument, and the
 * policies of the simulator that do not keep to the machine's rules.
 *
 * Threads: pure.
 */
#ifndef SL_PLAN_BOUND_H
#define SL_PLAN_BOUND_H

#include "plan/machine.h"
#include "trace/trace.h"

struct sl_bound {
	uint64_t ticks;        /* of any period: at least this */
	uint64_t moving_ticks; /* the same if whatever leaves is moved, also if a copy of it is
				 * elsewhere and still good; as_published: the same as ticks */
	uint64_t compute_ticks; /* all launches one after the other, nothing missing */
	uint64_t out_bytes;   /* leave the device in a period, if moved: at least this */
	uint64_t store_bytes; /* of them to the store */
};

/*
 * as_published: the machine's rates are those of the published simulation (see machine.h), and
 * its link does not compress. Errors: -ENOMEM; -EINVAL (the machine); -ENOSPC: a launch does not
 * fit, the text says which and how much would do.
 */
int sl_bound_make(const struct sl_trace *trace, const struct sl_machine *machine,
		  int as_published, struct sl_bound *out) SL_MUST_CHECK;

#endif

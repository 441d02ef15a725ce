/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants of a plan, for tests of planners. Two folders of tests have it.
 *
 * Threads: pure.
 */
#ifndef TESTS_PLAN_CHECK_H
#define TESTS_PLAN_CHECK_H

#include "plan/plan.h"

/*
 * Over one repeated period of the trace: with every step carried out at its launch, no launch
 * sees more than machine->device_bytes, every use is present, nothing dirty is dropped while it
 * is needed, nothing is used after its free. -EINVAL, the text names launch and tensor. (What
 * time does to it, the simulator says.)
 */
int sl_plan_check(const struct sl_plan *plan, const struct sl_trace *trace,
		  const struct sl_machine *machine) SL_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweep over the device: moves, pages, guards; and over all steps together, for other
 * populations and engines.
 * What holds after each failure: sweep.c.
 */
#include "fault.h"
#include "sweep.h"

static void
every_move_to_the_device_may_fail(void)
{
	sweep("device.present", ":EIO", SWEEP_SMALL, 1);
}

static void
every_move_off_the_device_may_fail(void)
{
	sweep("device.absent", ":EIO", SWEEP_SMALL, 1);
}

static void
every_page_and_guard_call_may_fail(void)
{
	sweep("device.page", ":EIO", SWEEP_SMALL, 3);
	sweep("device.guard", ":EIO", SWEEP_SMALL, 1);
}

static void
any_step_at_all_may_fail(void)
{
	sweep("*", ":EIO", SWEEP_SMALL ",population=page,faults=signal", 331);
	sweep("*", ":ENOMEM", "host_budget=8M,store_io=file", 29);
	sweep("*", ":EIO", "host_budget=0,population=grow", 467);
}

int
main(int argc, char **argv)
{
	static const struct fault_case cases[] = {
		CASE(every_move_to_the_device_may_fail),
		CASE(every_move_off_the_device_may_fail),
		CASE(every_page_and_guard_call_may_fail),
		CASE(any_step_at_all_may_fail),
	};

	return fault_main(argc, argv, cases, COUNT_OF(cases));
}

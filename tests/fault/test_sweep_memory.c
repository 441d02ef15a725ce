/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweep over memory, frames, mappings, threads and opening of files: the refusals of a
 * machine at its limits. sweep.c says what holds after each failure.
 */
#include "fault.h"
#include "sweep.h"

static void
every_allocation_may_fail(void)
{
	sweep("mem.alloc", ":ENOMEM", SWEEP_SMALL, 1);
}

static void
every_frame_may_be_refused(void)
{
	sweep("frame.get", ":ENOMEM", SWEEP_SMALL, 2);
}

static void
every_mapping_and_thread_may_be_refused(void)
{
	sweep("device.map", ":ENOMEM", SWEEP_SMALL, 1);
	sweep("thread.create", ":EAGAIN", SWEEP_SMALL, 1);
	sweep("store.open", ":EMFILE", SWEEP_SMALL, 1);
}

int
main(int argc, char **argv)
{
	static const struct fault_case cases[] = {
		CASE(every_allocation_may_fail),
		CASE(every_frame_may_be_refused),
		CASE(every_mapping_and_thread_may_be_refused),
	};

	return fault_main(argc, argv, cases, COUNT_OF(cases));
}

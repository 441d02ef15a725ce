/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweep over the store: one read, write, sync or spill extent fails, or all from some point on.
 * What holds after each failure: sweep.c.
 */
#include "fault.h"
#include "sweep.h"

static void
every_read_may_fail(void)
{
	sweep("store.read", ":EIO", SWEEP_SMALL, 1);
}

static void
every_write_may_fail(void)
{
	sweep("store.write", ":EIO", SWEEP_SMALL, 1);
	sweep("store.sync", ":EIO", SWEEP_SMALL, 1);
	sweep("spill.alloc", ":ENOSPC", SWEEP_SMALL, 1);
}

static void
disk_may_be_full_from_any_write_on(void)
{
	sweep("store.write", ":ENOSPC+", SWEEP_SMALL, 3);
	sweep("spill.alloc", ":ENOSPC+", SWEEP_SMALL, 2);
}

static void
disk_may_die_at_any_read_or_write(void)
{
	sweep("store.read", ":EIO+", SWEEP_SMALL, 5);
	sweep("store.write", ":EIO+", "host_budget=0,population=grow", 83);
}

static void
compressed_spill_may_fail_at_any_read_or_write(void)
{
	sweep("store.read", ":EIO", SWEEP_SMALL ",compress=always", 3);
	sweep("store.write", ":EIO", SWEEP_SMALL ",compress=always", 3);
	sweep("store.write", ":ENOSPC+", SWEEP_SMALL ",compress=always", 7);
	sweep("codec.buffer", ":ENOMEM+", SWEEP_SMALL ",compress=always", 3);
}

int
main(int argc, char **argv)
{
	static const struct fault_case cases[] = {
		CASE(every_read_may_fail),
		CASE(every_write_may_fail),
		CASE(disk_may_be_full_from_any_write_on),
		CASE(disk_may_die_at_any_read_or_write),
		CASE(compressed_spill_may_fail_at_any_read_or_write),
	};

	return fault_main(argc, argv, cases, COUNT_OF(cases));
}

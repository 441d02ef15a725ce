/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Misuse of the calls that move and end data: unknown addresses, ranges that are too long, unpin
 * without pin, pins beyond the budget, values outside their enum. Each is refused with its code
 * and a text that names the object, and changes nothing. The data and the counters of pins are
 * as before, and the space goes on.
 */
#include "fault.h"

static struct sluice_space *space;
static char *addr; /* 3 chunks and a page, filled with pattern 5 */

#define BYTES (3 * CHUNK + PAGE)

static void
begin(void)
{
	void *map;

	space = fault_space(NULL);
	CHECK_OK(sluice_alloc(space, BYTES, 0, &map));
	addr = map;
	fault_fill(addr, BYTES, 5);
}

static void
end(void)
{
	CHECK_OK(sluice_space_check(space));
	CHECK(fault_has(addr, BYTES, 5));
	fault_space_end(space);
}

static uint64_t
pinned_bytes(void)
{
	struct sluice_residency where;

	CHECK_OK(sluice_residency(space, addr, BYTES, &where));
	return where.pinned_bytes;
}

/* Every call that takes a range, on one that is not there. */
static void
range_fails(void *at, size_t bytes, const char *word)
{
	struct sluice_residency where;
	struct sluice_use use = {at, bytes, SLUICE_USE_READ};
	struct sluice_launch *scope;

	CHECK_FAILS(sluice_sync(space, at, bytes), -ENOENT, "sync", word);
	CHECK_FAILS(sluice_advise(space, at, bytes, SLUICE_ADVISE_NORMAL), -ENOENT,
		    "advise", word);
	CHECK_FAILS(sluice_prefetch(space, at, bytes, SLUICE_TIER_HOST, NULL), -ENOENT,
		    "prefetch", word);
	CHECK_FAILS(sluice_evict(space, at, bytes, SLUICE_TIER_HOST, NULL), -ENOENT,
		    "evict", word);
	CHECK_FAILS(sluice_pin(space, at, bytes), -ENOENT, "pin", word);
	CHECK_FAILS(sluice_unpin(space, at, bytes), -ENOENT, "unpin", word);
	CHECK_FAILS(sluice_residency(space, at, bytes, &where), -ENOENT, "residency", word);
	CHECK_FAILS(sluice_discard(space, at, bytes, SLUICE_DISCARD_EAGER, NULL), -ENOENT,
		    "discard", word);
	CHECK_FAILS(sluice_discard(space, at, bytes, SLUICE_DISCARD_LAZY, NULL), -ENOENT,
		    "discard", word);
	CHECK_FAILS(sluice_launch_begin(space, NULL, &use, 1, &scope), -ENOENT, "launch",
		    word);
}

static void
unknown_addresses_are_enoent_in_every_call(void)
{
	int local = 0;

	begin();
	range_fails(&local, sizeof(local), "no region");
	range_fails((void *)64, PAGE, "no region");
	range_fails(addr - PAGE, PAGE, "no region");
	range_fails(addr + 4 * CHUNK, PAGE, "no region"); /* the gap behind */
	CHECK_FAILS(sluice_unmap(space, &local), -ENOENT, "no region starts");
	CHECK_FAILS(sluice_unmap(space, addr + CHUNK), -ENOENT, "no region starts");
	CHECK_FAILS(sluice_unmap(space, NULL), -ENOENT, "no region starts");
	end();
}

static void
ranges_past_the_end_are_enoent_in_every_call(void)
{
	begin();
	range_fails(addr + BYTES, PAGE, "past the end"); /* in the last chunk, behind the size */
	range_fails(addr, BYTES + 1, "past the end");
	range_fails(addr + CHUNK, SIZE_MAX - 1, "past the end");
	range_fails(addr + CHUNK, SIZE_MAX - 1 - CHUNK + 1, "past the end");
	end();
}

static void
unmapped_addresses_are_enoent_in_every_call(void)
{
	void *gone;

	begin();
	CHECK_OK(sluice_alloc(space, CHUNK, 0, &gone));
	*(uint64_t *)gone = 1;
	CHECK_OK(sluice_unmap(space, gone));
	CHECK_FAILS(sluice_unmap(space, gone), -ENOENT, "no region starts");
	range_fails(gone, PAGE, "no region");
	CHECK(fault_write(gone, 1) == SIGSEGV);
	end();
}

static void
values_outside_their_enum_are_einval(void)
{
	uint64_t index[] = {1, BYTES / PAGE};

	begin();
	CHECK_FAILS(sluice_advise(space, addr, PAGE, (enum sluice_advice)77), -EINVAL,
		    "advice 77");
	CHECK_FAILS(sluice_discard(space, addr, PAGE, (enum sluice_discard_mode)7, NULL),
		    -EINVAL, "mode 7");
	CHECK_FAILS(sluice_prefetch(space, addr, PAGE, SLUICE_TIER_STORE, NULL), -EINVAL,
		    "tier 2");
	CHECK_FAILS(sluice_prefetch(space, addr, PAGE, (enum sluice_tier)9, NULL),
		    -EINVAL, "tier 9");
	CHECK_FAILS(sluice_evict(space, addr, PAGE, SLUICE_TIER_DEVICE, NULL), -EINVAL,
		    "tier 0");
	CHECK_FAILS(sluice_prefetch_index(space, addr, PAGE, index, 2, SLUICE_TIER_HOST, NULL),
		    -EINVAL, "index 1537", "number 1", "1537 elements");
	CHECK_FAILS(sluice_prefetch_index(space, addr, 0, index, 2, SLUICE_TIER_HOST, NULL),
		    -EINVAL, "element size 0");
	CHECK_FAILS(sluice_prefetch_index(space, addr, PAGE, NULL, 2, SLUICE_TIER_HOST, NULL),
		    -EINVAL, "no indices");
	CHECK_FAILS(sluice_prefetch_index(space, addr, PAGE, index, 1, SLUICE_TIER_STORE, NULL),
		    -EINVAL, "tier 2");
	CHECK_FAILS(sluice_stream_callback(space, NULL, NULL, NULL), -EINVAL, "no function");
	CHECK_FAILS(sluice_space_check(NULL), -EINVAL, "no space");
	end();
}

static void
unpin_without_pin_is_einval_and_changes_nothing(void)
{
	begin();
	CHECK_FAILS(sluice_unpin(space, addr, CHUNK), -EINVAL, "not pinned");
	CHECK_OK(sluice_pin(space, addr, CHUNK));
	CHECK_OK(sluice_pin(space, addr, CHUNK)); /* pins count */
	CHECK_FAILS(sluice_unpin(space, addr, 2 * CHUNK), -EINVAL, "not pinned");
	CHECK(pinned_bytes() == CHUNK);
	CHECK_OK(sluice_unpin(space, addr, CHUNK));
	CHECK(pinned_bytes() == CHUNK);
	CHECK_OK(sluice_unpin(space, addr, CHUNK));
	CHECK(pinned_bytes() == 0);
	CHECK_FAILS(sluice_unpin(space, addr, CHUNK), -EINVAL, "not pinned");
	end();
}

static void
pin_beyond_the_budget_is_enobufs_and_pins_nothing(void)
{
	begin();
	CHECK_FAILS(sluice_pin(space, addr, 3 * CHUNK), -ENOBUFS, "two chunks", "8388608");
	CHECK(pinned_bytes() == 0);
	CHECK_OK(sluice_pin(space, addr, 2 * CHUNK));
	CHECK_FAILS(sluice_pin(space, addr + CHUNK, 2 * CHUNK), -ENOBUFS, "pinned",
		    "8388608");
	CHECK(pinned_bytes() == 2 * CHUNK); /* and the second chunk once only */
	CHECK_FAILS(sluice_space_set_budget(space, SLUICE_TIER_DEVICE, 4 * MIB - 1),
		    -ENOBUFS, "two chunks");
	CHECK_OK(sluice_space_set_budget(space, SLUICE_TIER_DEVICE, 5 * CHUNK));
	CHECK_OK(sluice_pin(space, addr + 2 * CHUNK, CHUNK));
	CHECK_FAILS(sluice_space_set_budget(space, SLUICE_TIER_DEVICE, 2 * CHUNK),
		    -ENOBUFS, "6291456", "pinned");
	CHECK(fault_has(addr, BYTES, 5));
	CHECK_OK(sluice_unpin(space, addr, 3 * CHUNK));
	CHECK_OK(sluice_space_set_budget(space, SLUICE_TIER_DEVICE, 4 * CHUNK));
	end();
}

static void
unknown_stays_known_after_a_lazy_discard_is_revived(void)
{
	uint64_t value;

	/* On the device clean, with a copy spilled: the discard drops the copy, the revival keeps
	 * what is on the device or zeros, and later writes count. */
	begin();
	CHECK_OK(sluice_evict(space, addr, CHUNK, SLUICE_TIER_STORE, NULL));
	CHECK(fault_read(addr, &value) == 0 && value == fault_word(5, 0));
	CHECK_OK(sluice_discard(space, addr, CHUNK, SLUICE_DISCARD_LAZY, NULL));
	CHECK_OK(sluice_prefetch(space, addr, CHUNK, SLUICE_TIER_DEVICE, NULL));
	CHECK_OK(sluice_evict(space, addr, CHUNK, SLUICE_TIER_STORE, NULL));
	CHECK(fault_read(addr, &value) == 0 && (value == 0 || value == fault_word(5, 0)));
	fault_fill(addr, CHUNK, 5);
	CHECK_OK(sluice_evict(space, addr, CHUNK, SLUICE_TIER_STORE, NULL));
	end();
}

int
main(int argc, char **argv)
{
	static const struct fault_case cases[] = {
		CASE(unknown_addresses_are_enoent_in_every_call),
		CASE(ranges_past_the_end_are_enoent_in_every_call),
		CASE(unmapped_addresses_are_enoent_in_every_call),
		CASE(values_outside_their_enum_are_einval),
		CASE(unpin_without_pin_is_einval_and_changes_nothing),
		CASE(pin_beyond_the_budget_is_enobufs_and_pins_nothing),
		CASE(unknown_stays_known_after_a_lazy_discard_is_revived),
	};

	return fault_main(argc, argv, cases, COUNT_OF(cases));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a program maps itself, many times the device's. Contents survive kernels, copies
 * and new mappings. Memory that must be native (two addresses for one handle, multicast, beside
 * the driver's memory) becomes so with its contents. In a fixed order, and at random against a
 * model.
 */
#include <string.h>

#include "base/rng.h"
#include "vmm_test.h"

#define DEVICE_MIB 48u
#define BUFFERS    24u
#define BYTES      (8 * MIB)
#define STEPS      400u
#define ROUNDS     3u

static struct vmm v;

/* As XLA's platform allocator does it: a handle, a range, a mapping and access for each buffer. */
static void
four_times_the_device_is_served(void)
{
	uint64_t addr[BUFFERS], handle[BUFFERS];

	for (unsigned i = 0; i < BUFFERS; i++) {
		addr[i] = vmm_alloc(&v, BYTES, &handle[i]);
		vmm_write(&v, addr[i], BYTES, i);
	}
	for (unsigned round = 1; round <= ROUNDS; round++)
		for (unsigned i = 0; i < BUFFERS; i++)
			vmm_add(&v, addr[i], BYTES, 1);
	for (unsigned i = 0; i < BUFFERS; i++)
		vmm_expect(&v, addr[i], BYTES, i + ROUNDS);
	/* The same again gets the same addresses again. */
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < BUFFERS; i += 2) {
			uint64_t was = addr[i];

			vmm_free(&v, addr[i], BYTES, handle[i]);
			addr[i] = vmm_alloc(&v, BYTES, &handle[i]);
			CHECK(addr[i] == was);
			vmm_write(&v, addr[i], BYTES, 100 + i);
			vmm_add(&v, addr[i], BYTES, round);
		}
	for (unsigned i = 0; i < BUFFERS; i++) {
		vmm_expect(&v, addr[i], BYTES, i % 2 ? i + ROUNDS : 100 + i + ROUNDS - 1);
		vmm_free(&v, addr[i], BYTES, handle[i]);
	}
}

/* Kernels that use more than one reservation at once, and memory of cuMemAlloc() with them. */
static void
kernels_use_both_kinds_together(void)
{
	const uint64_t n = BYTES / sizeof(uint64_t);
	uint64_t a, b = work_alloc(&v.w, n, 3), handle;

	a = vmm_alloc(&v, BYTES, &handle);
	vmm_write(&v, a, BYTES, 1);
	work_launch(&v.w, WORK_COPY, NULL, a, n, b);
	vmm_add(&v, a, BYTES, 1);
	work_launch(&v.w, WORK_COPY, NULL, b, n, a);
	vmm_expect(&v, b, BYTES, 4);
	OK(v.w.cuMemFree_v2(b));
	vmm_free(&v, a, BYTES, handle);
}

/* A range that grows, as an expandable segment does: one kernel over all of it. */
static void
a_range_grows_and_shrinks(void)
{
	enum { PARTS = 8 };
	const uint64_t part = 2 * GRANULE;
	uint64_t handles[PARTS], addr = vmm_reserve(&v, 512 * MIB);

	for (unsigned i = 0; i < PARTS; i++) {
		handles[i] = vmm_create(&v, part);
		vmm_map(&v, addr + i * part, part, handles[i]);
		vmm_write(&v, addr + i * part, part, 0);
		vmm_add(&v, addr, (i + 1) * part, 1);
	}
	for (unsigned i = 0; i < PARTS; i++)
		vmm_expect(&v, addr + i * part, part, PARTS - i);
	for (unsigned i = PARTS; i-- > 1;) {
		OK(v.w.cuMemUnmap(addr + i * part, part));
		OK(v.w.cuMemRelease(handles[i]));
		vmm_add(&v, addr, i * part, 1);
	}
	vmm_expect(&v, addr, part, 2 * PARTS - 1);
	OK(v.w.cuMemUnmap(addr, part));
	OK(v.w.cuMemRelease(handles[0]));
	OK(v.w.cuMemAddressFree(addr, 512 * MIB));
}

/* ---- mapped elsewhere ---- */

static void
contents_go_where_the_handle_is_mapped(void)
{
	uint64_t one, two = vmm_create(&v, BYTES), to = vmm_reserve(&v, 2 * BYTES), from;

	from = vmm_alloc(&v, BYTES, &one);
	vmm_write(&v, from, BYTES, 21);
	OK(v.w.cuMemUnmap(from, BYTES));
	vmm_map(&v, from, BYTES, one); /* where it was: nothing to move */
	vmm_expect(&v, from, BYTES, 21);
	OK(v.w.cuMemUnmap(from, BYTES));
	vmm_map(&v, from, BYTES, two); /* over it: it makes way */
	vmm_write(&v, from, BYTES, 22);
	vmm_map(&v, to, BYTES, one);
	vmm_expect(&v, to, BYTES, 21);
	OK(v.w.cuMemUnmap(to, BYTES));
	vmm_map(&v, to + GRANULE, BYTES, one); /* onto a part of itself */
	vmm_expect(&v, to + GRANULE, BYTES, 21);
	OK(v.w.cuMemUnmap(to, 2 * BYTES));
	OK(v.w.cuMemAddressFree(to, 2 * BYTES)); /* the addresses go, the contents stay */
	vmm_expect(&v, from, BYTES, 22);
	to = vmm_reserve(&v, BYTES);
	vmm_map(&v, to, BYTES, one);
	vmm_expect(&v, to, BYTES, 21);
	vmm_free(&v, to, BYTES, one);
	vmm_free(&v, from, BYTES, two);
}

/* ---- the driver's ---- */

static void
two_addresses_show_the_same_memory(void)
{
	uint64_t handle, beside, addr = vmm_reserve(&v, 4 * BYTES), alias, again, base;
	struct cu_allocation what;
	size_t bytes;

	handle = vmm_create(&v, BYTES);
	beside = vmm_create(&v, BYTES);
	vmm_map(&v, addr, BYTES, handle);
	vmm_map(&v, addr + BYTES, BYTES, beside);
	vmm_write(&v, addr, BYTES, 31);
	vmm_write(&v, addr + BYTES, BYTES, 32);
	alias = vmm_reserve(&v, BYTES);
	vmm_map(&v, alias, BYTES, handle);
	vmm_expect(&v, alias, BYTES, 31);
	vmm_add(&v, alias, BYTES, 1);
	vmm_add(&v, addr, 2 * BYTES, 1);
	vmm_expect(&v, addr, BYTES, 33);
	vmm_expect(&v, alias, BYTES, 33);
	vmm_expect(&v, addr + BYTES, BYTES, 33);
	OK(v.cuMemGetAddressRange_v2(&base, &bytes, alias + MIB));
	CHECK(base == alias && bytes == BYTES);
	OK(v.w.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)alias));
	CHECK(again == handle);
	OK(v.w.cuMemRelease(again));
	OK(v.cuMemGetAllocationPropertiesFromHandle(&what, handle));
	CHECK(!memcmp(&what, &vmm_on_device, sizeof(what)));
	CHECK(v.w.cuMemUnmap(addr + GRANULE, GRANULE) == CU_ERROR_INVALID_VALUE);
	OK(v.w.cuMemUnmap(addr, BYTES));
	vmm_expect(&v, alias, BYTES, 33);
	CHECK(v.w.cuMemAddressFree(addr, 4 * BYTES) == CU_ERROR_INVALID_VALUE);
	OK(v.w.cuMemUnmap(addr + BYTES, BYTES));
	OK(v.w.cuMemRelease(beside));
	OK(v.w.cuMemAddressFree(addr, 4 * BYTES));
	vmm_free(&v, alias, BYTES, handle);
	v.w.standin->violations_reset();
}

/* Memory for other processes in a range that has some of ours, and the other way round. */
static void
one_range_may_have_both(void)
{
	struct cu_allocation what = vmm_on_device;
	uint64_t ours = vmm_create(&v, BYTES), theirs, addr = vmm_reserve(&v, 4 * BYTES),
		 native;

	what.requested_handle = 1;
	vmm_map(&v, addr, BYTES, ours);
	vmm_write(&v, addr, BYTES, 41);
	OK(v.w.cuMemCreate(&theirs, BYTES, &what, 0));
	native = vmm_reserve(&v, 2 * BYTES); /* the driver's: this thread made such memory */
	vmm_map(&v, addr + BYTES, BYTES, theirs);
	vmm_write(&v, addr + BYTES, BYTES, 42);
	vmm_add(&v, addr, 2 * BYTES, 1);
	vmm_expect(&v, addr, BYTES, 42);
	vmm_expect(&v, addr + BYTES, BYTES, 43);
	OK(v.w.cuMemUnmap(addr, 2 * BYTES));
	vmm_map(&v, native, BYTES, ours);
	vmm_map(&v, native + BYTES, BYTES, theirs);
	vmm_expect(&v, native, BYTES, 42);
	vmm_expect(&v, native + BYTES, BYTES, 43);
	OK(v.w.cuMemUnmap(native, 2 * BYTES));
	OK(v.w.cuMemAddressFree(native, 2 * BYTES));
	OK(v.w.cuMemRelease(theirs));
	OK(v.w.cuMemRelease(ours));
	OK(v.w.cuMemAddressFree(addr, 4 * BYTES));
	v.w.standin->violations_reset();
}

static void
multicast_is_given_the_drivers_handle(void)
{
	uint64_t handle, addr = vmm_alloc(&v, BYTES, &handle),
			 parked = vmm_create(&v, BYTES);
	const struct sl_standin_filled *filled;

	vmm_write(&v, addr, BYTES, 51);
	CHECK(v.cuMulticastBindMem(77, 1, handle, 2, BYTES, 3) == CU_ERROR_NOT_SUPPORTED);
	filled = v.filled();
	CHECK(!strcmp(filled->name, "cuMulticastBindMem") && filled->words[0] == 77 &&
	      filled->words[1] == 1 && !vmm_is_ours(filled->words[2]) &&
	      filled->words[3] == 2 && filled->words[4] == BYTES && filled->words[5] == 3);
	vmm_expect(&v, addr, BYTES, 51);
	CHECK(v.cuMulticastBindMem(77, 0, parked, 0, BYTES, 0) == CU_ERROR_NOT_SUPPORTED);
	CHECK(!vmm_is_ours(filled->words[2]));
	vmm_free(&v, addr, BYTES, handle);
	OK(v.w.cuMemRelease(parked));
	addr = vmm_alloc(&v, BYTES, &handle);
	vmm_write(&v, addr, BYTES, 52);
	CHECK(v.cuMulticastBindAddr(77, 0, addr, BYTES, 0) == CU_ERROR_NOT_SUPPORTED);
	CHECK(!strcmp(filled->name, "cuMulticastBindAddr") && filled->words[2] == addr);
	vmm_expect(&v, addr, BYTES, 52);
	vmm_free(&v, addr, BYTES, handle);
}

/* ---- at random ---- */

#define SLOTS   8u /* handles */
#define PLACES  6u /* ranges */
#define SPACING (16 * MIB)

static void
any_order_gives_what_a_model_gives(uint64_t seed)
{
	struct sl_rng rng;
	struct {
		uint64_t handle, value;
		int place; /* -1: mapped nowhere */
	} slots[SLOTS];
	uint64_t place[PLACES];
	int taken[PLACES];

	sl_rng_init(&rng, seed);
	for (unsigned i = 0; i < PLACES; i++) {
		place[i] = vmm_reserve(&v, SPACING);
		taken[i] = 0;
	}
	for (unsigned i = 0; i < SLOTS; i++) {
		slots[i].handle = vmm_create(&v, BYTES);
		slots[i].place = -1;
		slots[i].value = UINT64_MAX; /* never written */
	}
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)sl_rng_below(&rng, SLOTS);
		unsigned to = (unsigned)sl_rng_below(&rng, PLACES);
		uint64_t addr;

		if (slots[i].place < 0) {
			if (taken[to])
				continue;
			vmm_map(&v, place[to], BYTES, slots[i].handle);
			slots[i].place = (int)to;
			taken[to] = 1;
		}
		addr = place[slots[i].place];
		if (slots[i].value != UINT64_MAX && sl_rng_below(&rng, 4) == 0)
			vmm_expect(&v, addr, BYTES, slots[i].value);
		switch (sl_rng_below(&rng, 3)) {
		case 0:
			slots[i].value = step;
			vmm_write(&v, addr, BYTES, step);
			break;
		case 1:
			if (slots[i].value != UINT64_MAX)
				slots[i].value++;
			vmm_add(&v, addr, BYTES, 1);
			break;
		case 2:
			OK(v.w.cuCtxSynchronize());
			OK(v.w.cuMemUnmap(addr, BYTES));
			taken[slots[i].place] = 0;
			slots[i].place = -1;
			if (sl_rng_below(&rng, 4))
				break;
			OK(v.w.cuMemRelease(slots[i].handle));
			slots[i].handle = vmm_create(&v, BYTES);
			slots[i].value = UINT64_MAX;
			break;
		}
	}
	for (unsigned i = 0; i < SLOTS; i++) {
		if (slots[i].place >= 0)
			OK(v.w.cuMemUnmap(place[slots[i].place], BYTES));
		OK(v.w.cuMemRelease(slots[i].handle));
	}
	for (unsigned i = 0; i < PLACES; i++)
		OK(v.w.cuMemAddressFree(place[i], SPACING));
}

int
main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, free_bytes;

	printf("seed %llu\n", (unsigned long long)seed);
	vmm_start(&v, DEVICE_MIB, 512);
	free_bytes = vmm_free_bytes(&v);
	contents_go_where_the_handle_is_mapped(); /* at ease, and later under pressure */
	two_addresses_show_the_same_memory();
	four_times_the_device_is_served();
	kernels_use_both_kinds_together();
	a_range_grows_and_shrinks();
	contents_go_where_the_handle_is_mapped();
	two_addresses_show_the_same_memory();
	one_range_may_have_both();
	multicast_is_given_the_drivers_handle();
	any_order_gives_what_a_model_gives(seed);
	CHECK(vmm_free_bytes(&v) == free_bytes);
	work_end(&v.w);
	return 0;
}

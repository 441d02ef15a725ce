/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What management costs: bytes of bookkeeping per chunk. The figure in docs/design/states.md is
 * printed here; a change that makes a chunk larger must change both on purpose.
 */
#include "unit/cmocka_all.h"

#include "core/types.h"
#include "unit/fake_space.h"

#define CHUNK_RECORD_BYTES_MAX 120u

static void
record_of_a_chunk_is_small(void **state)
{
	size_t heap = sizeof(struct sl_chunk *);

	(void)state;
	print_message("a chunk of 2 MiB costs %zu bytes and %zu in the heap: %.4f %%\n",
		      sizeof(struct sl_chunk), heap,
		      100.0 * (double)(sizeof(struct sl_chunk) + heap) / SL_GRANULE_BYTES);
	assert_true(sizeof(struct sl_chunk) <= CHUNK_RECORD_BYTES_MAX);
}

static void
counters_of_a_chunk_are_wide_enough(void **state)
{
	(void)state;
	/* pins: 65536 uses a launch, all in one chunk, and 256 launches waiting on a stream at most */
	assert_true(sizeof(((struct sl_chunk *)0)->pins) >= 4);
	assert_true(sizeof(((struct sl_chunk *)0)->reach_users) >= 4);
	assert_true(SL_CHUNK_BYTES_MAX <= UINT32_MAX);
	/* flags: one bit each */
	assert_true(SL_PREPARING < 1 << 16);
	assert_true(SL_CHUNK_STATE_COUNT <= UINT8_MAX);
	assert_true(SL_READINESS_COUNT <= UINT8_MAX);
}

static void
addresses_and_indices_of_chunks_agree(void **state)
{
	struct fake_space *f = fake_space_make(5);

	(void)state;
	f->region.size_bytes = 4 * (uint64_t)SL_GRANULE_BYTES + 77;
	for (uint64_t i = 0; i < 5; i++) {
		assert_int_equal(sl_chunk_index(&f->chunks[i]), i);
		assert_ptr_equal(sl_chunk_addr(&f->chunks[i]),
				 f->region.base + i * SL_GRANULE_BYTES);
		assert_int_equal(sl_chunk_valid_bytes(&f->chunks[i]),
				 i < 4 ? SL_GRANULE_BYTES : 77);
	}
	fake_space_free(f);
}

static void
stamp_and_pins_count_uses_of_the_whole_region_too(void **state)
{
	struct fake_space *f = fake_space_make(2);

	(void)state;
	f->chunks[0].stamp = 7;
	f->region.whole_stamp = 5;
	f->chunks[1].pins = 2;
	f->region.whole_pins = 3;
	assert_int_equal(sl_chunk_stamp(&f->chunks[0]), 7);
	assert_int_equal(sl_chunk_stamp(&f->chunks[1]), 5);
	assert_int_equal(sl_chunk_pins(&f->chunks[0]), 3);
	assert_int_equal(sl_chunk_pins(&f->chunks[1]), 5);
	fake_space_free(f);
}

static void
regions_know_whether_they_are_volatile_and_writable(void **state)
{
	struct sl_store store = {0};
	struct sl_region r = {0};

	(void)state;
	assert_true(sl_region_is_volatile(&r)); /* anonymous */
	r.store = &store;
	r.flags = SLUICE_READ | SLUICE_WRITE;
	assert_false(sl_region_is_volatile(&r));
	assert_true(sl_region_is_writable(&r));
	r.flags = SLUICE_WRITE | SLUICE_VOLATILE;
	assert_true(sl_region_is_volatile(&r));
	r.flags = SLUICE_READ;
	assert_false(sl_region_is_writable(&r));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(record_of_a_chunk_is_small),
		T(counters_of_a_chunk_are_wide_enough),
		T(addresses_and_indices_of_chunks_agree),
		T(stamp_and_pins_count_uses_of_the_whole_region_too),
		T(regions_know_whether_they_are_volatile_and_writable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

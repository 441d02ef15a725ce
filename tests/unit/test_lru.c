/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of victims among used chunks: by stamp of chunk or region, the larger counts; clean
 * before dirty among equals; then by address; cold ones before all; and against a plain sort of
 * random stamps. Of two sizes: the one that room is wanted for, where it is nearly as cold. The discarded
 * list: first in, first out.
 */
#include "unit/cmocka_all.h"

#include "base/rng.h"
#include "core/state/state.h"
#include "unit/fake_space.h"

/* Present, in the heap, last used at stamp. */
static void
chunk_use(struct sl_chunk *c, uint64_t stamp, unsigned flags)
{
	c->stamp = stamp;
	c->state = SL_CHUNK_DEVICE;
	c->flags = (uint16_t)flags;
	sl_chunk_update(c);
}

/* Take the coldest out; its index. */
static int
coldest_take(struct fake_space *f)
{
	struct sl_chunk *c = sl_lru_coldest(&f->space, SL_SKIP_NOTHING);

	if (!c)
		return -1;
	fake_chunk_place(c, SL_CHUNK_EMPTY);
	return (int)sl_chunk_index(c);
}

static void
empty_heap_has_no_victim(void **state)
{
	struct fake_space *f = fake_space_make(1);

	(void)state;
	assert_null(sl_lru_coldest(&f->space, SL_SKIP_NOTHING));
	assert_null(sl_lru_coldest(&f->space, SL_SKIP_PINNED));
	fake_space_free(f);
}

static void
smaller_stamp_goes_first(void **state)
{
	static const uint64_t stamps[] = {5, 1, 4, 2, 3};
	static const int order[] = {1, 3, 4, 2, 0};
	struct fake_space *f = fake_space_make(5);

	(void)state;
	for (int i = 0; i < 5; i++)
		chunk_use(&f->chunks[i], stamps[i], 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(coldest_take(f), order[i]);
	assert_int_equal(coldest_take(f), -1);
	fake_space_free(f);
}

static void
later_use_is_known_when_the_chunk_comes_to_the_top(void **state)
{
	struct fake_space *f = fake_space_make(3);

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		chunk_use(&f->chunks[i], i + 1, 0);
	f->chunks[0].stamp = 10; /* a hit stores a stamp and nothing else */
	assert_int_equal(coldest_take(f), 1);
	f->chunks[2].stamp = 11;
	assert_int_equal(coldest_take(f), 0);
	assert_int_equal(coldest_take(f), 2);
	fake_space_free(f);
}

static void
use_of_the_whole_region_refreshes_every_chunk_of_it(void **state)
{
	struct fake_space *f = fake_space_make(4);

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		chunk_use(&f->chunks[i], 10 - i, 0);
	f->region.whole_stamp = 9; /* chunk 0 was used after it, the others before */
	assert_int_equal(coldest_take(f), 1); /* equal now: by address */
	assert_int_equal(coldest_take(f), 2);
	assert_int_equal(coldest_take(f), 3);
	assert_int_equal(coldest_take(f), 0);
	fake_space_free(f);
}

static void
clean_goes_before_dirty_among_equals(void **state)
{
	struct fake_space *f = fake_space_make(4);

	(void)state;
	chunk_use(&f->chunks[0], 7, SL_DIRTY_DEVICE);
	chunk_use(&f->chunks[1], 7, 0);
	chunk_use(&f->chunks[2], 7, SL_DIRTY_DEVICE);
	chunk_use(&f->chunks[3], 6, SL_DIRTY_DEVICE); /* an older dirty one all the same first */
	assert_int_equal(coldest_take(f), 3);
	assert_int_equal(coldest_take(f), 1);
	assert_int_equal(coldest_take(f), 0);
	assert_int_equal(coldest_take(f), 2);
	fake_space_free(f);
}

static void
cold_goes_before_all_and_a_touch_takes_it_back(void **state)
{
	struct fake_space *f = fake_space_make(3);

	(void)state;
	f->space.clock = 100;
	for (uint64_t i = 0; i < 3; i++)
		chunk_use(&f->chunks[i], i + 1, i == 0 ? 0 : SL_COLD);
	assert_int_equal(coldest_take(f), 1);
	sl_chunk_touch(&f->chunks[2]);
	assert_int_equal(f->chunks[2].flags & SL_COLD, 0);
	assert_int_equal(coldest_take(f), 0);
	assert_int_equal(coldest_take(f), 2);
	fake_space_free(f);
}

static void
pinned_chunks_can_be_passed_over(void **state)
{
	struct fake_space *f = fake_space_make(3);

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		chunk_use(&f->chunks[i], i + 1, 0);
	f->chunks[0].pins = 1;
	assert_ptr_equal(sl_lru_coldest(&f->space, SL_SKIP_NOTHING), &f->chunks[0]);
	assert_ptr_equal(sl_lru_coldest(&f->space, SL_SKIP_PINNED), &f->chunks[1]);
	f->region.whole_pins = 1; /* now all are */
	assert_null(sl_lru_coldest(&f->space, SL_SKIP_PINNED));
	f->region.whole_pins = 0;
	f->chunks[0].pins = 0;
	f->chunks[0].flags |= SL_PREPARING;
	assert_ptr_equal(sl_lru_coldest(&f->space, SL_SKIP_PREPARING), &f->chunks[1]);
	assert_ptr_equal(sl_lru_coldest(&f->space, SL_SKIP_NOTHING), &f->chunks[0]);
	for (int i = 0; i < 3; i++)
		fake_chunk_place(&f->chunks[i], SL_CHUNK_EMPTY);
	fake_space_free(f);
}

static void
random_stamps_come_out_sorted(void **state)
{
	struct sl_rng rng;

	(void)state;
	sl_rng_init(&rng, 42);
	for (int round = 0; round < 200; round++) {
		struct fake_space *f = fake_space_make(FAKE_CHUNKS_MAX);
		uint64_t last = 0;

		for (uint64_t i = 0; i < FAKE_CHUNKS_MAX; i++)
			chunk_use(&f->chunks[i], sl_rng_next(&rng) % 1000, 0);
		for (uint64_t i = 0; i < FAKE_CHUNKS_MAX; i++) {
			if (sl_rng_next(&rng) % 3 == 0) /* used again */
				f->chunks[i].stamp += sl_rng_next(&rng) % 500;
		}
		for (uint64_t i = 0; i < 8; i++) { /* some leave in between */
			struct sl_chunk *c = &f->chunks[sl_rng_next(&rng) % FAKE_CHUNKS_MAX];

			if (c->state == SL_CHUNK_DEVICE)
				fake_chunk_place(c, SL_CHUNK_EMPTY);
		}
		for (uint32_t n = f->space.dev.heap_n; n; n--) {
			int i = coldest_take(f);

			assert_true(i >= 0);
			assert_true(f->chunks[i].stamp >= last);
			last = f->chunks[i].stamp;
		}
		assert_int_equal(coldest_take(f), -1);
		fake_space_free(f);
	}
}

static void
discarded_chunks_leave_first_in_first_out(void **state)
{
	static const int order[] = {2, 0, 3, 1};
	struct fake_space *f = fake_space_make(4);

	(void)state;
	for (int i = 0; i < 4; i++)
		chunk_use(&f->chunks[order[i]], 1, SL_DISCARDED);
	assert_int_equal(f->space.dev.heap_n, 0);
	f->chunks[0].flags = 0; /* revived from the middle */
	sl_chunk_update(&f->chunks[0]);
	assert_int_equal(f->space.dev.heap_n, 1);
	for (int i = 0; i < 4; i++) {
		if (order[i] == 0)
			continue;
		assert_ptr_equal(f->space.dev.discarded_head, &f->chunks[order[i]]);
		fake_chunk_place(&f->chunks[order[i]], SL_CHUNK_EMPTY);
	}
	assert_null(f->space.dev.discarded_head);
	assert_null(f->space.dev.discarded_tail);
	fake_chunk_place(&f->chunks[0], SL_CHUNK_EMPTY);
	fake_space_free(f);
}

static void
discarded_chunks_stay_in_the_heap_but_are_no_victims(void **state)
{
	struct fake_space *f = fake_space_make(4);

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		chunk_use(&f->chunks[i], i + 1, 0);
	for (uint64_t i = 0; i < 3; i += 2) { /* the top, and one below */
		f->chunks[i].flags |= SL_DISCARDED;
		sl_chunk_update(&f->chunks[i]);
	}
	assert_int_equal(f->space.dev.heap_n, 4);
	assert_ptr_equal(sl_lru_coldest(&f->space, SL_SKIP_NOTHING), &f->chunks[1]);
	assert_int_equal(f->space.dev.heap_n, 3); /* the top has left */
	assert_int_equal(f->chunks[0].heap_slot, SL_HEAP_NONE);
	f->chunks[1].pins = 1; /* nor by the search behind what is passed over */
	assert_ptr_equal(sl_lru_coldest(&f->space, SL_SKIP_PINNED), &f->chunks[3]);
	f->chunks[1].pins = 0;
	f->chunks[0].flags = 0; /* both live again: one comes back, one never left */
	sl_chunk_update(&f->chunks[0]);
	f->chunks[2].flags = 0;
	sl_chunk_update(&f->chunks[2]);
	assert_int_equal(f->space.dev.heap_n, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(coldest_take(f), i);
	assert_int_equal(coldest_take(f), -1);
	fake_space_free(f);
}

static void
a_chunk_that_lives_again_is_as_cold_as_it_says(void **state)
{
	struct fake_space *f = fake_space_make(3);

	(void)state;
	chunk_use(&f->chunks[0], 4, 0);
	chunk_use(&f->chunks[1], 5, 0);
	chunk_use(&f->chunks[2], 5, SL_DIRTY_DEVICE);
	f->chunks[2].flags |= SL_DISCARDED;
	sl_chunk_update(&f->chunks[2]);
	f->chunks[2].flags = SL_COLD; /* colder than what the heap knew it by */
	sl_chunk_update(&f->chunks[2]);
	assert_int_equal(coldest_take(f), 2);
	assert_int_equal(coldest_take(f), 0);
	assert_int_equal(coldest_take(f), 1);
	fake_space_free(f);
}

/* Beside the chunks of 2 MiB, a region of ones of 32 MiB. */
static struct sl_region *
large_region(struct fake_space *f, struct sl_chunk *chunks, uint64_t n)
{
	struct sl_region *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	f->space.config.chunk_bytes = SL_GRANULE_BYTES;
	r->space = &f->space;
	r->base = (char *)(uintptr_t)0x200000000;
	r->chunk_bytes = 16 * SL_GRANULE_BYTES;
	r->chunk_shift = 25;
	r->n_chunks = n;
	r->size_bytes = n * r->chunk_bytes;
	r->chunks = chunks;
	r->ready[SL_READY_NOT] = n;
	memset(chunks, 0, n * sizeof(*chunks));
	for (uint64_t i = 0; i < n; i++) {
		chunks[i].region = r;
		chunks[i].heap_slot = SL_HEAP_NONE;
	}
	assert_int_equal(sl_lru_reserve(&f->space, SL_GRANULE_BYTES, f->region.n_chunks), 0);
	assert_int_equal(sl_lru_reserve(&f->space, r->chunk_bytes, n), 0);
	return r;
}

static void
room_for_a_chunk_takes_one_of_its_size_where_it_is_nearly_as_cold(void **state)
{
	struct fake_space *f = fake_space_make(2);
	struct sl_chunk large[2];
	struct sl_region *r = large_region(f, large, 2);
	const uint64_t of_small = SL_GRANULE_BYTES, of_large = r->chunk_bytes;

	(void)state;
	f->space.clock = 1000;
	chunk_use(&large[0], 200, 0); /* ages: 800, 700 and 699 */
	chunk_use(&large[1], 301, 0);
	chunk_use(&f->chunks[0], 300, 0);
	chunk_use(&f->chunks[1], 301, 0);
	assert_ptr_equal(sl_lru_coldest(&f->space, SL_SKIP_NOTHING), &large[0]);
	assert_ptr_equal(sl_lru_coldest_for(&f->space, SL_SKIP_NOTHING, 0), &large[0]);
	assert_ptr_equal(sl_lru_coldest_for(&f->space, SL_SKIP_NOTHING, of_large), &large[0]);
	assert_ptr_equal(sl_lru_coldest_for(&f->space, SL_SKIP_NOTHING, of_small),
			 &f->chunks[0]);
	f->chunks[0].stamp = 301; /* a little younger: the order of uses again */
	assert_ptr_equal(sl_lru_coldest_for(&f->space, SL_SKIP_NOTHING, of_small), &large[0]);
	large[0].pins = 1; /* of what is left, both sizes are as cold */
	assert_ptr_equal(sl_lru_coldest_for(&f->space, SL_SKIP_PINNED, of_small),
			 &f->chunks[0]);
	assert_ptr_equal(sl_lru_coldest_for(&f->space, SL_SKIP_PINNED, of_large), &large[1]);
	large[0].pins = 0;
	fake_chunk_place(&f->chunks[0], SL_CHUNK_EMPTY);
	fake_chunk_place(&f->chunks[1], SL_CHUNK_EMPTY);
	assert_ptr_equal(sl_lru_coldest_for(&f->space, SL_SKIP_NOTHING, of_small), &large[0]);
	chunk_use(&f->chunks[0], 999, SL_COLD); /* advised: before all, for any size */
	assert_ptr_equal(sl_lru_coldest_for(&f->space, SL_SKIP_NOTHING, of_large),
			 &f->chunks[0]);
	fake_chunk_place(&f->chunks[0], SL_CHUNK_EMPTY);
	fake_chunk_place(&large[0], SL_CHUNK_EMPTY);
	fake_chunk_place(&large[1], SL_CHUNK_EMPTY);
	assert_int_equal(f->space.dev.heap_n, 0);
	free(r);
	fake_space_free(f);
}

static void
chunks_of_two_sizes_come_out_in_one_order(void **state)
{
	struct fake_space *f = fake_space_make(32);
	struct sl_chunk large[32];
	struct sl_region *r = large_region(f, large, 32);
	struct sl_rng rng;
	uint64_t last = 0;

	(void)state;
	sl_rng_init(&rng, 7);
	for (int i = 0; i < 32; i++) {
		chunk_use(&f->chunks[i], 1 + sl_rng_below(&rng, 1000), 0);
		chunk_use(&large[i], 1 + sl_rng_below(&rng, 1000), 0);
	}
	for (int i = 0; i < 64; i++) {
		struct sl_chunk *c = sl_lru_coldest(&f->space, SL_SKIP_NOTHING);

		assert_non_null(c);
		assert_true(c->stamp >= last);
		assert_true(sl_lru_knows(c));
		last = c->stamp;
		fake_chunk_place(c, SL_CHUNK_EMPTY);
		assert_false(sl_lru_knows(c));
	}
	assert_null(sl_lru_coldest(&f->space, SL_SKIP_NOTHING));
	free(r);
	fake_space_free(f);
}

static void
heap_grows_and_refuses_what_it_cannot_number(void **state)
{
	struct sluice_space space = {0};

	(void)state;
	space.config.chunk_bytes = SL_GRANULE_BYTES;
	assert_int_equal(sl_lru_reserve(&space, SL_GRANULE_BYTES, 10), 0);
	assert_int_equal(space.dev.heap[0].max, 15);
	assert_int_equal(sl_lru_reserve(&space, SL_GRANULE_BYTES, 5), 0);
	assert_int_equal(space.dev.heap[0].max, 15);
	sl_lru_release(&space, SL_GRANULE_BYTES, 10);
	assert_int_equal(sl_lru_reserve(&space, SL_GRANULE_BYTES, 10), 0);
	assert_int_equal(space.dev.heap[0].max, 15);
	assert_int_equal(sl_lru_reserve(&space, SL_GRANULE_BYTES, 1), 0);
	assert_int_equal(space.dev.heap[0].max, 24);
	assert_int_equal(space.dev.heap[1].max, 0);
	assert_int_equal(sl_lru_reserve(&space, 2 * SL_GRANULE_BYTES, 3), 0);
	assert_int_equal(space.dev.heap[0].max, 24);
	assert_int_equal(space.dev.heap[1].max, 4);
	assert_int_equal(sl_lru_reserve(&space, SL_GRANULE_BYTES, UINT32_MAX - 16), -EFBIG);
	assert_int_equal(space.dev.heap[0].n_reserved, 16);
	sl_lru_fini(&space);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(empty_heap_has_no_victim),
		T(smaller_stamp_goes_first),
		T(later_use_is_known_when_the_chunk_comes_to_the_top),
		T(use_of_the_whole_region_refreshes_every_chunk_of_it),
		T(clean_goes_before_dirty_among_equals),
		T(cold_goes_before_all_and_a_touch_takes_it_back),
		T(pinned_chunks_can_be_passed_over),
		T(random_stamps_come_out_sorted),
		T(discarded_chunks_leave_first_in_first_out),
		T(discarded_chunks_stay_in_the_heap_but_are_no_victims),
		T(a_chunk_that_lives_again_is_as_cold_as_it_says),
		T(room_for_a_chunk_takes_one_of_its_size_where_it_is_nearly_as_cold),
		T(chunks_of_two_sizes_come_out_in_one_order),
		T(heap_grows_and_refuses_what_it_cannot_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

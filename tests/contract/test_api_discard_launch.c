/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discards and launches that use the same chunks: the order of calls, streams, launches that lost
 * their room, and what is written again beside them; on the software device.
 */
#include "api.h"

#include <string.h>
#include <unistd.h>

/*
 * Chunks are written as a whole and used up half by half, as by partitions that end within a chunk.
 * behind: the first halves are discarded before the launches that wrote them have run. Returns the
 * bytes copied out.
 */
static uint64_t
halves_run(enum sluice_discard_mode mode, int behind)
{
	struct sluice_space *s = space_make("host_budget=16M");
	char *p = region_alloc(s, 4 * CHUNK), *q = pressure_make(s);
	struct sluice_grid grid = {1, 1, 1};
	struct sluice_use first = {q, CHUNK, SLUICE_USE_READ};
	struct sluice_stream *stream;
	struct gate gate;
	uint64_t bytes;

	gate_make(&gate);
	CHECK(sluice_stream_create(s, &stream) == 0);
	/* A kernel, not a callback: behind that discards would wait for their turn. */
	CHECK(sluice_launch(s, stream, kernel_gate, grid, &gate, sizeof(gate), &first, 1) ==
	      0);
	if (!behind)
		gate_open(&gate);
	for (uint64_t i = 0; i < 4; i++) {
		struct kernel_args fill = {at_chunk(p, i), CHUNK, i, KERNEL_FILL};
		struct sluice_use use = {at_chunk(p, i), CHUNK, SLUICE_USE_WRITE_ALL};

		CHECK(sluice_launch(s, stream, kernel_range, grid, &fill, sizeof(fill),
				    &use, 1) == 0);
		CHECK(sluice_discard(s, at_chunk(p, i), CHUNK / 2, mode, stream) == 0);
	}
	if (behind)
		gate_open(&gate);
	CHECK(sluice_stream_synchronize(s, stream) == 0);
	for (uint64_t i = 0; i < 4; i++) {
		launch(s, KERNEL_ADD, at_chunk(p, i) + CHUNK / 2, CHUNK / 2,
		       SLUICE_USE_READ_WRITE, 1);
		CHECK(sluice_discard(s, at_chunk(p, i) + CHUNK / 2, CHUNK / 2, mode,
				     NULL) == 0);
	}
	press(s, at_chunk(q, 1), 15);
	CHECK_EQ(residency(s, p, 4 * CHUNK).empty_bytes, 4 * CHUNK);
	bytes = d2h(s);
	sluice_stream_destroy(stream);
	space_end(s);
	return bytes;
}

static void
eager_discard_of_parts_saves_what_lazy_does(void)
{
	for (int behind = 0; behind < 2; behind++) {
		CHECK_EQ(halves_run(SLUICE_DISCARD_LAZY, behind), 0);
		CHECK_EQ(halves_run(SLUICE_DISCARD_EAGER, behind), 0);
	}
}

struct copy_args {
	const char *from;
	char *to;
};

static void
kernel_copy(const struct sluice_block *block, void *args)
{
	const struct copy_args *a = args;

	(void)block;
	memcpy(a->to, a->from, CHUNK);
}

static void
discard_keeps_the_order_of_its_stream(void)
{
	for (int lazy = 0; lazy < 2; lazy++) {
		enum sluice_discard_mode mode = lazy ? SLUICE_DISCARD_LAZY
						     : SLUICE_DISCARD_EAGER;
		struct sluice_space *s = space_make("host_budget=16M");
		char *p = region_alloc(s, CHUNK), *copy = region_alloc(s, CHUNK);
		char *q = pressure_make(s);
		struct copy_args args = {p, copy};
		struct sluice_use uses[2] = {{p, CHUNK, SLUICE_USE_READ},
					     {copy, CHUNK, SLUICE_USE_WRITE_ALL}};
		struct kernel_args fill = {p, CHUNK, 1, KERNEL_FILL};
		struct sluice_grid grid = {1, 1, 1};
		struct sluice_use whole = {p, CHUNK, SLUICE_USE_WRITE_ALL};
		struct sluice_stream *stream;
		struct gate gate;

		CHECK(sluice_stream_create(s, &stream) == 0);
		gate_close(&gate, s, stream);
		CHECK(sluice_launch(s, stream, kernel_range, grid, &fill, sizeof(fill),
				    &whole, 1) == 0);
		CHECK(sluice_launch(s, stream, kernel_copy, grid, &args, sizeof(args),
				    uses, 2) == 0);
		CHECK(sluice_discard(s, p, CHUNK, mode, stream) == 0); /* after the copy */
		gate_open(&gate);
		CHECK(sluice_stream_synchronize(s, stream) == 0);
		memory_expect(copy, CHUNK, 1);
		press(s, q, 16);
		CHECK_EQ(residency(s, p, CHUNK).empty_bytes, CHUNK);

		fill.seed = 2; /* discard before a write: the write is kept */
		CHECK(sluice_discard(s, p, CHUNK, mode, stream) == 0);
		CHECK(sluice_launch(s, stream, kernel_range, grid, &fill, sizeof(fill),
				    &whole, 1) == 0);
		CHECK(sluice_stream_synchronize(s, stream) == 0);
		press(s, q, 16);
		memory_expect(p, CHUNK, 2);
		sluice_stream_destroy(stream);
		space_end(s);
	}
}

static void
discard_without_a_stream_waits_for_launches_that_use_the_range(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, 2 * CHUNK), *copy = region_alloc(s, CHUNK);
	struct copy_args args = {p, copy};
	struct sluice_use uses[2] = {{p, CHUNK, SLUICE_USE_READ_WRITE},
				     {copy, CHUNK, SLUICE_USE_WRITE_ALL}};

	for (uint64_t i = 1; i < 20; i++) {
		launch(s, KERNEL_FILL, p, CHUNK, SLUICE_USE_WRITE_ALL, i);
		CHECK(sluice_launch(s, NULL, kernel_copy, (struct sluice_grid){1, 1, 1},
				    &args, sizeof(args), uses, 2) == 0);
		CHECK(sluice_discard(s, p, 2 * CHUNK, SLUICE_DISCARD_EAGER, NULL) == 0);
		memory_expect(copy, CHUNK, i);
		memory_expect_zeros(p, PAGE);
	}
	space_end(s);
}

/* The launch of another stream waits for room that a kernel has until host code has gone on. */
static void
synchronised_stream_has_carried_out_its_discard(void)
{
	struct sluice_space *s = space_make("device_budget=12M,host_budget=32M");
	struct sluice_grid grid = {1, 1, 1};
	struct gate gate;
	struct sluice_stream *a, *b, *c;
	struct sluice_use x = {region_alloc(s, 8 * MIB), 8 * MIB, SLUICE_USE_READ_WRITE};
	struct sluice_use y = {region_alloc(s, 8 * MIB), 8 * MIB, SLUICE_USE_READ_WRITE};
	volatile uint64_t *data = region_alloc(s, CHUNK);

	CHECK(sluice_stream_create(s, &a) == 0);
	CHECK(sluice_stream_create(s, &b) == 0);
	CHECK(sluice_stream_create(s, &c) == 0);
	*data = 1;
	gate_make(&gate);
	CHECK(sluice_launch(s, a, kernel_gate, grid, &gate, sizeof(gate), &x, 1) == 0);
	CHECK(sluice_launch(s, b, kernel_nothing, grid, NULL, 0, &y, 1) == 0);
	usleep(20000);
	CHECK(sluice_discard(s, (void *)data, CHUNK, SLUICE_DISCARD_EAGER, c) == 0);
	CHECK(sluice_stream_synchronize(s, c) == 0);
	CHECK_EQ(*data, 0);
	*data = 42;
	gate_open(&gate);
	CHECK(sluice_stream_synchronize(s, a) == 0);
	CHECK(sluice_stream_synchronize(s, b) == 0);
	CHECK_EQ(*data, 42);
	CHECK_EQ(counter(s, SLUICE_COUNTER_DISCARDS), CHUNK);
	sluice_stream_destroy(a);
	sluice_stream_destroy(b);
	sluice_stream_destroy(c);
	space_end(s);
}

struct reading {
	const volatile uint64_t *from;
	uint64_t *to;
};

static void
kernel_read(const struct sluice_block *block, void *args)
{
	const struct reading *r = args;

	(void)block;
	*r->to = *r->from;
}

/* A launch on stream a, behind a kernel that waits for the gate: it reads data, and has lost its room. */
struct lost {
	struct sluice_space *space;
	struct gate gate;
	struct sluice_stream *a, *b;
	volatile uint64_t *data;
	uint64_t seen; /* by that launch */
};

/* A kernel that touches more than it declared takes the room. */
static void
lost_begin(struct lost *lost, enum sluice_intent intent)
{
	struct sluice_space *s = space_make("device_budget=4M,host_budget=32M");
	struct sluice_grid grid = {1, 1, 1};
	volatile uint64_t *data = region_alloc(s, CHUNK), *more = region_alloc(s, CHUNK);
	struct sluice_use x = {region_alloc(s, CHUNK), CHUNK, SLUICE_USE_READ};
	struct sluice_use y = {(void *)data, CHUNK, intent};
	uint64_t none = 1;
	struct reading reading = {data, &lost->seen}, miss = {more, &none};

	lost->space = s;
	lost->data = data;
	lost->seen = 0;
	CHECK(sluice_stream_create(s, &lost->a) == 0);
	CHECK(sluice_stream_create(s, &lost->b) == 0);
	*data = 42;
	gate_make(&lost->gate);
	CHECK(sluice_launch(s, lost->a, kernel_gate, grid, &lost->gate,
			    sizeof(lost->gate), &x, 1) == 0);
	CHECK(sluice_launch(s, lost->a, kernel_read, grid, &reading, sizeof(reading), &y,
			    1) == 0);
	CHECK(sluice_launch(s, lost->b, kernel_read, grid, &miss, sizeof(miss), &x, 1) == 0);
	CHECK(sluice_stream_synchronize(s, lost->b) == 0);
	CHECK_EQ(none, 0);
}

/* It still sees what was there before it. */
static void
lost_run(struct lost *lost)
{
	gate_open(&lost->gate);
	CHECK(sluice_stream_synchronize(lost->space, lost->a) == 0);
	CHECK_EQ(lost->seen, 42);
}

static void
lost_end(struct lost *lost)
{
	sluice_stream_destroy(lost->a);
	sluice_stream_destroy(lost->b);
	space_end(lost->space);
}

static void
discard_behind_a_launch_that_lost_its_room_waits_for_it(void)
{
	struct lost lost;

	lost_begin(&lost, SLUICE_USE_READ_WRITE);
	CHECK(sluice_discard(lost.space, (void *)lost.data, CHUNK, SLUICE_DISCARD_EAGER,
			     lost.a) == 0);
	lost_run(&lost);
	lost_end(&lost);
}

static void
kernel_write(const struct sluice_block *block, void *args)
{
	(void)block;
	**(volatile uint64_t **)args = 43;
}

/*
 * A scratch launch waits behind a callback. A launch behind it writes the same data and needs its room:
 * it takes that, since nothing runs. The scratch launch is brought in again, beside the other.
 */
static void
scratch_that_gave_its_room_back_leaves_what_a_later_launch_writes(void)
{
	struct sluice_space *s = space_make("device_budget=10M,host_budget=32M");
	struct sluice_grid grid = {1, 1, 1};
	struct sluice_stream *a;
	struct gate gate;
	char *pinned = region_alloc(s, CHUNK);
	volatile uint64_t *data = region_alloc(s, CHUNK);
	struct sluice_use first[] = {{(void *)data, CHUNK, SLUICE_USE_SCRATCH},
				     {region_alloc(s, CHUNK), CHUNK, SLUICE_USE_READ}};
	struct sluice_use second[] = {{(void *)data, CHUNK, SLUICE_USE_READ_WRITE},
				      {region_alloc(s, 3 * CHUNK), 3 * CHUNK,
				       SLUICE_USE_READ}};
	uint64_t evictions;

	CHECK(sluice_stream_create(s, &a) == 0);
	*data = 42;
	CHECK(sluice_pin(s, pinned, CHUNK) == 0);
	gate_close(&gate, s, a);
	CHECK(sluice_launch(s, a, kernel_nothing, grid, NULL, 0, first, 2) == 0);
	counter_wait(s, SLUICE_COUNTER_DISCARDS, CHUNK);
	evictions = counter(s, SLUICE_COUNTER_EVICTIONS);
	CHECK(sluice_launch(s, a, kernel_write, grid, &data, sizeof(data), second, 2) == 0);
	counter_wait(s, SLUICE_COUNTER_EVICTIONS, evictions + 1);
	CHECK(sluice_unpin(s, pinned, CHUNK) == 0);
	gate_open(&gate);
	CHECK(sluice_stream_synchronize(s, a) == 0);
	CHECK(sluice_evict(s, (void *)data, CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	CHECK_EQ(*data, 43);
	sluice_stream_destroy(a);
	space_end(s);
}

/* The launch behind it gets its room first. */
static void
overwriting_behind_a_launch_that_lost_its_room_waits_for_it(void)
{
	struct sluice_grid grid = {1, 1, 1};
	struct sluice_use z;
	struct lost lost;

	lost_begin(&lost, SLUICE_USE_READ);
	z = (struct sluice_use){(void *)lost.data, CHUNK, SLUICE_USE_WRITE_ALL};
	CHECK(sluice_launch(lost.space, lost.a, kernel_write, grid, &lost.data,
			    sizeof(lost.data), &z, 1) == 0);
	usleep(20000);
	lost_run(&lost);
	CHECK_EQ(*lost.data, 43);
	lost_end(&lost);
}

/* Two halves of a chunk, and a launch that waits for the gate and has one of them. */
struct halves {
	struct sluice_space *space;
	char *mine, *other;
	struct sluice_stream *a, *b;
};

static void
halves_begin(struct halves *h)
{
	h->space = space_make("host_budget=16M");
	h->mine = region_alloc(h->space, CHUNK);
	h->other = h->mine + CHUNK / 2;
	CHECK(sluice_stream_create(h->space, &h->a) == 0);
	CHECK(sluice_stream_create(h->space, &h->b) == 0);
	launch(h->space, KERNEL_FILL, h->mine, CHUNK, SLUICE_USE_WRITE_ALL, 1);
	space_sync(h->space);
}

static void
half_hold(struct halves *h, char *half, struct sluice_stream *stream, struct gate *gate)
{
	struct sluice_use use = {half, CHUNK / 2, SLUICE_USE_READ};

	gate_make(gate);
	CHECK(sluice_launch(h->space, stream, kernel_gate, (struct sluice_grid){1, 1, 1},
			    gate, sizeof(*gate), &use, 1) == 0);
}

static void
half_discard(struct halves *h, char *half, struct sluice_stream *stream)
{
	CHECK(sluice_discard(h->space, half, CHUNK / 2, SLUICE_DISCARD_EAGER, stream) == 0);
}

/* What was written again is there, when the launches have ended and when it has moved. */
static void
halves_end(struct halves *h)
{
	CHECK(sluice_stream_synchronize(h->space, h->a) == 0);
	CHECK(sluice_stream_synchronize(h->space, h->b) == 0);
	memory_expect(h->mine, CHUNK / 2, 2);
	CHECK(sluice_evict(h->space, h->mine, CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	memory_expect(h->mine, CHUNK / 2, 2);
	sluice_stream_destroy(h->a);
	sluice_stream_destroy(h->b);
	space_end(h->space);
}

static void
write_to_what_was_discarded_is_kept_beside_a_launch_of_another_stream(void)
{
	struct halves h;
	struct gate gate;

	halves_begin(&h);
	half_hold(&h, h.other, h.b, &gate);
	half_discard(&h, h.mine, h.a);
	CHECK(sluice_stream_synchronize(h.space, h.a) == 0);
	memory_fill(h.mine, CHUNK / 2, 2);
	half_discard(&h, h.other, h.b);
	gate_open(&gate);
	halves_end(&h);
}

/* The other launch comes behind the discard, and before the end of the launch that was before it. */
static void
write_to_what_was_discarded_is_kept_beside_a_later_launch(void)
{
	for (int k = 0; k < 4; k++) {
		int all_dead = k % 2, same_stream = k / 2;
		struct sluice_event *event;
		struct gate first, gate;
		struct halves h;

		halves_begin(&h);
		CHECK(sluice_event_create(h.space, &event) == 0);
		half_hold(&h, h.mine, h.a, &first);
		half_discard(&h, h.mine, h.a);
		if (all_dead)
			half_discard(&h, h.other, h.b);
		CHECK(sluice_event_record(h.space, h.a, event) == 0);
		half_hold(&h, h.other, same_stream ? h.a : h.b, &gate);
		gate_open(&first);
		sluice_event_synchronize(event);
		sluice_event_destroy(event);
		memory_fill(h.mine, CHUNK / 2, 2);
		if (!all_dead)
			half_discard(&h, h.other, same_stream ? h.a : h.b);
		gate_open(&gate);
		halves_end(&h);
	}
}

/* A launch that is still to run, and was called before the discard, writes what it discards. */
static void
discard_behind_launches_of_its_stream_saves_what_the_last_of_them_writes(void)
{
	for (int whole = 0; whole < 2; whole++) {
		struct kernel_args fill = {NULL, CHUNK / 2, 3, KERNEL_FILL};
		struct sluice_use use = {NULL, CHUNK / 2, SLUICE_USE_WRITE};
		struct gate gate;
		struct halves h;

		halves_begin(&h);
		half_hold(&h, h.mine, h.a, &gate);
		fill.addr = h.mine;
		use.addr = h.mine;
		CHECK(sluice_launch(h.space, h.a, kernel_range, (struct sluice_grid){1, 1, 1},
				    &fill, sizeof(fill), &use, 1) == 0);
		half_discard(&h, h.mine, h.a);
		if (whole)
			half_discard(&h, h.other, h.a);
		gate_open(&gate);
		CHECK(sluice_stream_synchronize(h.space, h.a) == 0);
		if (!whole)
			half_discard(&h, h.other, h.a);
		CHECK_EQ(residency(h.space, h.mine, CHUNK).empty_bytes, CHUNK);
		CHECK_EQ(counter(h.space, SLUICE_COUNTER_WRITE_FAULTS), 0);
		CHECK_EQ(d2h(h.space), 0);
		memory_fill(h.mine, CHUNK / 2, 2);
		halves_end(&h);
	}
}

static const struct api_case cases[] = {
	CASE(eager_discard_of_parts_saves_what_lazy_does),
	CASE(discard_keeps_the_order_of_its_stream),
	CASE(discard_without_a_stream_waits_for_launches_that_use_the_range),
	CASE(synchronised_stream_has_carried_out_its_discard),
	CASE(discard_behind_a_launch_that_lost_its_room_waits_for_it),
	CASE(scratch_that_gave_its_room_back_leaves_what_a_later_launch_writes),
	CASE(overwriting_behind_a_launch_that_lost_its_room_waits_for_it),
	CASE(write_to_what_was_discarded_is_kept_beside_a_launch_of_another_stream),
	CASE(write_to_what_was_discarded_is_kept_beside_a_later_launch),
	CASE(discard_behind_launches_of_its_stream_saves_what_the_last_of_them_writes),
};
API_MAIN(cases)

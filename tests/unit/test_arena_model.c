/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator of the preload library against a model, by random calls. The model knows the live blocks,
 * and of each byte of room which stream's work may still use it.
 */
#include "unit/fake_arena.h"

#define MODEL_BLOCKS 600u
#define MODEL_ROOMS  4000u

/* Room that was freed while work of streams was queued, and until which of it. */
struct room {
	uint64_t base, bytes;
	uint64_t until[STREAMS];
};

static struct {
	struct pl_block *live[MODEL_BLOCKS];
	uint64_t base[MODEL_BLOCKS], bytes[MODEL_BLOCKS], room[MODEL_BLOCKS];
	uint64_t until[MODEL_BLOCKS][STREAMS]; /* its own work */
	struct birth {
		int stream; /* in whose order it was allocated; -1: in nobody's */
		uint64_t issued, behind[STREAMS];
	} birth[MODEL_BLOCKS];
	size_t n;
	struct room rooms[MODEL_ROOMS];
	size_t n_rooms;
} model;

/* Nothing that lives is discarded. */
static void
model_discard_look(uint64_t addr, uint64_t bytes)
{
	for (size_t i = 0; i < model.n; i++)
		assert_true(addr + bytes <= model.base[i] ||
			    model.base[i] + model.room[i] <= addr);
}

/* The new block may not be used by work that can still run, unless in stream's order. */
static void
model_order_check(const struct pl_block *block, int stream)
{
	size_t kept = 0;

	for (size_t i = 0; i < model.n_rooms; i++) {
		struct room *r = &model.rooms[i];
		int pending = 0;

		for (unsigned s = 0; s < STREAMS; s++)
			pending |= r->until[s] > fake.done[s];
		if (!pending)
			continue; /* forgotten */
		if (block->base < r->base + r->bytes && r->base < block->base + block->room)
			for (unsigned s = 0; s < STREAMS; s++)
				assert_true(r->until[s] <= fake.done[s] || (int)s == stream ||
					    (stream >= 0 &&
					     r->until[s] <= fake.behind[stream][s]));
		model.rooms[kept++] = *r;
	}
	model.n_rooms = kept;
}

static int
is_populated(uint64_t addr)
{
	for (unsigned i = 0; i < fake.n_populates; i++)
		if (addr >= fake.populated_from[i] && addr < fake.populated_to[i])
			return 1;
	return 0;
}

static void
model_alloc(struct sl_rng *rng)
{
	uint64_t bytes = 1 + sl_rng_below(rng, (uint64_t)1 << (5 + sl_rng_below(rng, 21)));
	int stream = sl_rng_below(rng, 2) ? (int)sl_rng_below(rng, fake.n_streams) : -1;
	struct pl_block *block = stream < 0 ? get(bytes)
					    : get_async(bytes, (unsigned)stream);
	size_t i;

	assert_int_equal(block->bytes, bytes);
	assert_int_equal(block->base % (block->room < MIB ? 512 : 2 * MIB), 0);
	for (i = 0; i < model.n; i++)
		assert_true(block->base + block->room <= model.base[i] ||
			    model.base[i] + model.room[i] <= block->base);
	if (fake.gpu.pressure < PL_OVERSUBSCRIBED)
		for (uint64_t at = block->base; at < block->base + block->bytes; at += 2 * MIB)
			assert_true(is_populated(at));
	/* What is lent is ordered when it is used. */
	if (stream >= 0 || fake.gpu.pressure < PL_TRACKING)
		model_order_check(block, stream);
	model.live[i] = block;
	model.base[i] = block->base;
	model.bytes[i] = bytes;
	model.room[i] = block->room;
	memset(model.until[i], 0, sizeof(model.until[i]));
	model.birth[i].stream = stream;
	if (stream >= 0) {
		model.birth[i].issued = fake.issued[stream];
		memcpy(model.birth[i].behind, fake.behind[stream],
		       sizeof(model.birth[i].behind));
	}
	model.n++;
}

static void
model_free(struct sl_rng *rng)
{
	size_t i = sl_rng_below(rng, model.n);
	struct room *room = &model.rooms[model.n_rooms];
	int stream = -1;
	unsigned users = 0, user = 0;

	assert_true(model.n_rooms < MODEL_ROOMS);
	for (unsigned s = 0; s < STREAMS; s++)
		if (model.until[i][s]) {
			users++;
			user = s;
		}
	if (users == 1 && sl_rng_below(rng, 2))
		stream = (int)user; /* only its work: the program may free in its order */
	room->base = model.base[i];
	room->bytes = model.room[i];
	memcpy(room->until, model.until[i], sizeof(room->until));
	if (users)
		model.n_rooms++;
	/* Out of the model first: it may be discarded now. */
	struct pl_block *block = model.live[i];
	uint64_t base = model.base[i];

	model.n--;
	model.live[i] = model.live[model.n];
	model.base[i] = model.base[model.n];
	model.bytes[i] = model.bytes[model.n];
	model.room[i] = model.room[model.n];
	memcpy(model.until[i], model.until[model.n], sizeof(model.until[i]));
	model.birth[i] = model.birth[model.n];
	if (stream < 0)
		put(block);
	else
		put_async(block, (unsigned)stream);
	assert_null(pl_block_find(base));
}

/* Work of a stream on a block, as scopes order it. */
static void
model_use(size_t i, unsigned s)
{
	struct pl_block *block = model.live[i];
	const struct birth *birth = &model.birth[i];
	uint64_t bit = (uint64_t)1 << s;

	/* Who allocates in the order of a stream orders the others behind it himself. */
	if (birth->stream >= 0 && (unsigned)birth->stream != s)
		come_behind(s, (unsigned)birth->stream, birth->issued, birth->behind);
	if (fake.gpu.pressure >= PL_TRACKING && !(block->streams & bit)) {
		assert_int_equal(pl_reuse_order(block, STREAM(s), PL_LEGACY, bit), 0);
		block->streams |= bit;
		if (block->birth != PL_BORN_ASYNC)
			model_order_check(block, (int)s);
	}
	model.until[i][s] = ++fake.issued[s];
}

static void
model_step(struct sl_rng *rng)
{
	uint64_t what = sl_rng_below(rng, 100);
	unsigned s = (unsigned)sl_rng_below(rng, fake.n_streams);

	if (what < 30 && model.n < MODEL_BLOCKS && model.n_rooms < MODEL_ROOMS / 2) {
		model_alloc(rng);
	} else if (what < 58 && model.n && model.n_rooms < MODEL_ROOMS) {
		model_free(rng);
	} else if (what < 85 && model.n) {
		model_use(sl_rng_below(rng, model.n), s);
	} else if (fake.done[s] < fake.issued[s]) {
		fake.done[s] += 1 + sl_rng_below(rng, fake.issued[s] - fake.done[s]);
	}
	if (model.n) {
		size_t i = sl_rng_below(rng, model.n);
		uint64_t at = sl_rng_below(rng, model.bytes[i]);

		assert_ptr_equal(pl_block_find(model.base[i] + at), model.live[i]);
	}
}

static int
walk_count(struct pl_block *block, void *arg)
{
	uint64_t *last = arg;

	assert_true(block->base >= last[0]);
	last[0] = block->base + block->room;
	last[1]++;
	return 0;
}

static void
model_run(uint64_t seed, unsigned n_steps, unsigned press_at)
{
	struct sl_rng rng;

	print_message("seed %llu\n", (unsigned long long)seed);
	sl_rng_init(&rng, seed);
	memset(&model, 0, sizeof(model));
	fake.n_streams = STREAMS;
	fake.discard_look = model_discard_look;
	for (unsigned i = 0; i < n_steps; i++) {
		model_step(&rng);
		if (i == press_at)
			pl_gpu_press(&fake.gpu, PL_OVERSUBSCRIBED);
		if (i % 500 == 0) {
			uint64_t walked[2] = {0, 0};

			check();
			pl_arena_walk(&fake.gpu, walk_count, walked);
			assert_int_equal(walked[1], model.n);
		}
	}
	while (model.n) {
		for (unsigned s = 0; s < STREAMS; s++)
			fake.done[s] = fake.issued[s];
		model_free(&rng);
	}
	check();
	assert_int_equal(fake.gpu.allocated_bytes, 0);
}

static void
random_calls_agree_with_the_model(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		setup(NULL);
		fake.chunk_bytes = (2 * MIB) << seed % 4;
		model_run(seed, 20000, UINT32_MAX);
		teardown(NULL);
	}
}

static void
random_calls_agree_with_the_model_under_pressure(void **state)
{
	(void)state;
	for (uint64_t seed = 11; seed <= 16; seed++) {
		setup(NULL);
		fake.chunk_bytes = (2 * MIB) << seed % 4;
		if (seed % 2)
			fake.gpu.device_budget = 512 * MIB;
		model_run(seed, 20000, 8000);
		assert_true(fake.n_discards > 0);
		teardown(NULL);
	}
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(random_calls_agree_with_the_model),
		TEST(random_calls_agree_with_the_model_under_pressure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

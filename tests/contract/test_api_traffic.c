/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes moved against closed forms, exactly: streaming, the savings of an intent, srad's two
 * phases, a filter that streams its input, the host tier; for the policies lru, dragon and uvm
 * and for large chunks. Kernels touch nothing where only counters matter. At the end the results
 * of an application under every regime are compared byte by byte.
 *
 * c: chunks per array; G: device budget in chunks; F: all arrays together.
 */
#include "api.h"

#include <string.h>

static struct sluice_space *
space_of(uint64_t device_chunks, const char *more)
{
	char config[256];

	snprintf(config, sizeof(config), "device_budget=%llu,%s",
		 (unsigned long long)(device_chunks * CHUNK), more);
	return space_make(config);
}

/* One launch that uses chunk i of n arrays. */
static void
tile(struct sluice_space *s, char *const *arrays, const enum sluice_intent *intents,
     int n, uint64_t i)
{
	struct sluice_use uses[8];

	for (int k = 0; k < n; k++)
		uses[k] = (struct sluice_use){at_chunk(arrays[k], i), CHUNK, intents[k]};
	CHECK(launch_uses(s, uses, (size_t)n) == 0);
}

/* ---- streaming ---------------------------------------------------------------------------- */

static void
streaming_moves_every_byte_once_whatever_the_budget(void)
{
	static const uint64_t budgets[] = {3, 8, 48};
	static const enum sluice_intent intents[] = {SLUICE_USE_READ, SLUICE_USE_READ,
						     SLUICE_USE_WRITE_ALL};
	uint64_t c = 12;

	for (int b = 0; b < 3; b++) {
		struct sluice_space *s = space_of(budgets[b], "host_budget=0");
		const char *one = file_make("one", c * CHUNK - 8, 1);
		const char *two = file_make("two", c * CHUNK - 8, 2);
		const char *out = file_path("out");
		uint64_t size = c * CHUNK - 8;
		char *arrays[] = {region_map(s, one, 0, 0, SLUICE_READ),
				  region_map(s, two, 0, 0, SLUICE_READ),
				  region_map(s, out, 0, size,
					     SLUICE_READ | SLUICE_WRITE | SLUICE_CREATE)};

		for (uint64_t i = 0; i < c; i++) {
			struct sluice_use uses[3];
			uint64_t bytes = i == c - 1 ? CHUNK - 8 : CHUNK;

			for (int k = 0; k < 3; k++)
				uses[k] = (struct sluice_use){at_chunk(arrays[k], i),
							      bytes, intents[k]};
			CHECK(launch_uses(s, uses, 3) == 0);
		}
		CHECK(sluice_stream_synchronize(s, NULL) == 0);
		CHECK_EQ(h2d(s), 2 * c * CHUNK);
		CHECK(sluice_unmap(s, arrays[2]) == 0);
		CHECK_EQ(d2h(s), c * CHUNK);
		CHECK_EQ(store_reads(s), 2 * size);
		CHECK_EQ(store_writes(s), size);
		space_end(s);
	}
}

/* ---- what an intent saves: one input map that could be written, one power map, one output --- */

static uint64_t
stencil_d2h(const char *policy, unsigned temp_flags, enum sluice_intent temp_intent)
{
	enum sluice_intent intents[] = {temp_intent, SLUICE_USE_READ, SLUICE_USE_WRITE_ALL};
	struct sluice_space *s = space_of(6, policy);
	uint64_t c = 10, bytes;
	const char *temp = file_make("temp", c * CHUNK, 1),
		   *power = file_make("power", c * CHUNK, 2);
	char *arrays[] = {region_map(s, temp, 0, 0, temp_flags),
			  region_map(s, power, 0, 0, SLUICE_READ),
			  region_map(s, file_path("out"), 0, c * CHUNK,
				     SLUICE_WRITE | SLUICE_CREATE)};

	for (uint64_t i = 0; i < c; i++)
		tile(s, arrays, intents, 3, i);
	space_sync(s);
	CHECK_EQ(h2d(s), 2 * c * CHUNK);
	for (int k = 0; k < 3; k++)
		CHECK(sluice_unmap(s, arrays[k]) == 0);
	bytes = d2h(s);
	space_end(s);
	return bytes / CHUNK;
}

static void
declared_read_intent_halves_what_a_stencil_writes_back(void)
{
	unsigned rw = SLUICE_READ | SLUICE_WRITE;

	CHECK_EQ(stencil_d2h("policy=lru", rw, SLUICE_USE_READ), 10);
	CHECK_EQ(stencil_d2h("policy=lru", rw, SLUICE_USE_READ_WRITE), 20);
	CHECK_EQ(stencil_d2h("policy=dragon", rw, SLUICE_USE_READ), 20); /* no intents known */
	CHECK_EQ(stencil_d2h("policy=dragon", SLUICE_READ, SLUICE_USE_READ), 10);
}

/* ---- srad: two phases over six arrays, twice ---------------------------------------------- */

struct traffic {
	uint64_t h2d, d2h, spilled; /* chunks */
};

/* J is a file that is read and written; the other five are volatile. */
static struct traffic
srad_run(uint64_t c, uint64_t budget, const char *more)
{
	static const enum sluice_intent first[] = {
		SLUICE_USE_READ,      SLUICE_USE_WRITE_ALL, SLUICE_USE_WRITE_ALL,
		SLUICE_USE_WRITE_ALL, SLUICE_USE_WRITE_ALL, SLUICE_USE_WRITE_ALL};
	static const enum sluice_intent second[] = {
		SLUICE_USE_READ_WRITE, SLUICE_USE_READ, SLUICE_USE_READ,
		SLUICE_USE_READ,       SLUICE_USE_READ, SLUICE_USE_READ};
	struct sluice_space *s = space_of(budget, more);
	struct traffic t;
	char *arrays[6];

	arrays[0] = region_map(s, file_make("J", c * CHUNK, 7), 0, 0,
			       SLUICE_READ | SLUICE_WRITE);
	for (int k = 1; k < 6; k++)
		arrays[k] = region_alloc(s, c * CHUNK);
	for (int iteration = 0; iteration < 2; iteration++) {
		for (uint64_t i = 0; i < c; i++)
			tile(s, arrays, first, 6, i);
		for (uint64_t i = 0; i < c; i++)
			tile(s, arrays, second, 6, i);
	}
	space_sync(s);
	t = (struct traffic){h2d(s) / CHUNK, d2h(s) / CHUNK,
			     counter(s, SLUICE_COUNTER_STORE_WRITE_SPILL) / CHUNK};
	space_end(s);
	return t;
}

static void
srad_with_intents_moves_what_the_closed_form_says(void)
{
	for (uint64_t budget = 12; budget <= 36; budget += 12) {
		struct traffic t = srad_run(10, budget,
					    "policy=lru,host_budget=256M,writeback=256M");

		CHECK_EQ(t.h2d, 14 * 10);             /* 14/6 F */
		CHECK_EQ(t.d2h, 2 * 60 - budget / 6); /* 2 F - G/6 */
		CHECK_EQ(t.spilled, 0);
	}
}

/* File data are written before a copy of what is on the device is given up, which each eviction
 * would make again: so at most what a tile holds is copied twice. */
static void
srad_copies_nothing_out_twice_where_host_memory_is_short(void)
{
	for (uint64_t host = 20; host <= 32; host += 4) {
		char config[64];
		struct traffic t;

		snprintf(config, sizeof(config), "policy=lru,host_budget=%llu",
			 (unsigned long long)(host * CHUNK));
		t = srad_run(10, 12, config);
		CHECK_EQ(t.h2d, 14 * 10);
		CHECK(t.d2h >= 2 * 60 - 12 / 6);
		CHECK(t.d2h <= 2 * 60 - 12 / 6 + 6);
	}
}

static void
srad_with_map_flags_only_moves_what_the_closed_form_says(void)
{
	for (uint64_t budget = 12; budget <= 36; budget += 12) {
		struct traffic t = srad_run(
			10, budget, "policy=dragon,host_budget=256M,writeback=256M");

		CHECK_EQ(t.h2d, 19 * 10);         /* 19/6 F */
		CHECK_EQ(t.d2h, 4 * 60 - budget); /* 4 F - G */
	}
}

static void
srad_that_fits_moves_its_input_once(void)
{
	struct traffic t = srad_run(8, 48, "policy=lru,host_budget=128M");

	CHECK_EQ(t.h2d, 8);
	CHECK_EQ(t.d2h, 0);
}

static void
more_host_memory_never_spills_more_and_enough_of_it_nothing(void)
{
	/* volatile V = 5 c, file J = c: nothing is spilled from V + J <= G + h on */
	uint64_t c = 8, budget = 12, last = UINT64_MAX;
	char config[128];

	for (uint64_t host = 0; host <= 6 * c; host += 6) {
		struct traffic t;

		snprintf(config, sizeof(config), "policy=lru,host_budget=%llu",
			 (unsigned long long)(host * CHUNK));
		t = srad_run(c, budget, config);
		CHECK(t.spilled <= last);
		CHECK(t.spilled > 0 || host + budget >= 5 * c);
		if (6 * c <= budget + host)
			CHECK_EQ(t.spilled, 0);
		last = t.spilled;
	}
}

/* ---- a filter: input I streamed in windows of w, output O kept ----------------------------- */

#define FIR_ARRAY  40u /* chunks of input and of output */
#define FIR_WINDOW 2u

static struct traffic
fir_run(uint64_t budget, const char *policy, enum sluice_intent input, int discard)
{
	struct sluice_space *s = space_of(budget, policy);
	char *in = region_map(s, file_make("in", FIR_ARRAY * CHUNK, 1), 0, 0,
			      SLUICE_READ | SLUICE_WRITE);
	char *out = region_alloc(s, FIR_ARRAY * CHUNK);
	struct sluice_stream *stream;
	struct traffic t;

	CHECK(sluice_stream_create(s, &stream) == 0);
	for (uint64_t i = 0; i < FIR_ARRAY; i += FIR_WINDOW) {
		struct sluice_use uses[] = {
			{at_chunk(in, i), FIR_WINDOW * CHUNK, input},
			{at_chunk(out, i), FIR_WINDOW * CHUNK, SLUICE_USE_WRITE_ALL},
		};

		CHECK(sluice_launch(s, stream, kernel_nothing,
				    (struct sluice_grid){1, 1, 1}, NULL, 0, uses, 2) == 0);
		if (discard)
			CHECK(sluice_discard(s, at_chunk(in, i), FIR_WINDOW * CHUNK,
					     discard == 1 ? SLUICE_DISCARD_EAGER
							  : SLUICE_DISCARD_LAZY,
					     stream) == 0);
	}
	CHECK(sluice_stream_synchronize(s, stream) == 0);
	CHECK(sluice_space_check(s) == 0);
	t = (struct traffic){h2d(s) / CHUNK, d2h(s) / CHUNK, 0};
	sluice_stream_destroy(stream);
	space_end(s);
	return t;
}

static void
filter_without_discard_moves_its_input_and_what_does_not_fit(void)
{
	uint64_t footprint = 2 * FIR_ARRAY;

	for (uint64_t budget = 20; budget <= 100; budget += 20) {
		struct traffic t = fir_run(budget,
					   "policy=uvm,host_budget=512M,writeback=512M",
					   SLUICE_USE_READ, 0);

		CHECK_EQ(t.h2d, FIR_ARRAY);
		CHECK_EQ(t.d2h, footprint > budget ? footprint - budget : 0);
	}
}

static void
filter_that_discards_its_input_moves_only_the_output_that_does_not_fit(void)
{
	for (int discard = 1; discard <= 2; discard++) {
		for (uint64_t budget = 10; budget <= 50; budget += 10) {
			struct traffic t = fir_run(budget, "host_budget=512M,writeback=512M",
						   SLUICE_USE_READ_WRITE, discard);
			uint64_t live = FIR_ARRAY + FIR_WINDOW;

			CHECK_EQ(t.h2d, FIR_ARRAY);
			CHECK_EQ(t.d2h, live > budget ? live - budget : 0);
		}
	}
}

/* ---- policies ----------------------------------------------------------------------------- */

/* Chunk of p that is gone after 0 .. 7, 0 again, and 8 were used with room for eight. */
static uint64_t
victim_of(const char *policy)
{
	struct sluice_space *s = space_make(policy);
	char *p = region_alloc(s, 16 * CHUNK);
	uint64_t gone = 99;

	for (uint64_t i = 0; i < 8; i++)
		use(s, at_chunk(p, i), CHUNK, SLUICE_USE_WRITE_ALL);
	use(s, p, CHUNK, SLUICE_USE_READ_WRITE);
	use(s, at_chunk(p, 8), CHUNK, SLUICE_USE_WRITE_ALL);
	space_sync(s);
	for (uint64_t i = 0; i < 9; i++) {
		if (!residency(s, at_chunk(p, i), CHUNK).tier_bytes[SLUICE_TIER_DEVICE])
			gone = i;
	}
	space_end(s);
	return gone;
}

static void
launches_refresh_under_lru_and_dragon_only_moves_under_uvm(void)
{
	CHECK_EQ(victim_of("policy=lru"), 1);
	CHECK_EQ(victim_of("policy=dragon"), 1);
	CHECK_EQ(victim_of("policy=uvm"), 0);
}

static void
uvm_policy_copies_out_even_what_was_only_read(void)
{
	struct sluice_space *s = space_of(4, "policy=uvm");
	char *p = region_map(s, file_make("f", 12 * CHUNK, 1), 0, 0, SLUICE_READ);

	for (uint64_t i = 0; i < 12; i++)
		use(s, at_chunk(p, i), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(d2h(s), 8 * CHUNK);
	CHECK_EQ(store_writes(s), 0); /* the file itself is not open for writing */
	memory_expect(p, 12 * CHUNK, 1);
	space_end(s);
}

/* ---- large chunks ------------------------------------------------------------------------- */

static void
large_chunks_keep_every_promise_of_small_ones(void)
{
	uint64_t large = 16 * MIB, size = 5 * large + 3 * PAGE + 8;
	struct sluice_space *s = space_make(
		"chunk=16M,device_budget=32M,host_budget=32M,staging=128M,address=4G");
	const char *path = file_make("f", size + 100 * 8, 1);
	char *p = region_map(s, path, 0, size, SLUICE_READ | SLUICE_WRITE);
	char *q = region_alloc(s, large);

	CHECK((uintptr_t)p % large == 0);
	for (uint64_t i = 0; i < 6; i++)
		use(s, p + i * large, i == 5 ? size - 5 * large : large, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(h2d(s), 6 * large);
	CHECK_EQ(store_reads(s), size);
	CHECK_EQ(d2h(s), 0);
	CHECK_EQ(resident_peak(s, SLUICE_TIER_DEVICE), 2 * large);
	launch(s, KERNEL_FILL, q, large, SLUICE_USE_WRITE_ALL, 3);
	launch(s, KERNEL_FILL, p + 5 * large, size - 5 * large, SLUICE_USE_WRITE_ALL, 2);
	CHECK(sluice_sync(s, p, SLUICE_TO_END) == 0);
	CHECK_EQ(store_reads(s), size);
	file_expect(path, 5 * large, size - 5 * large, 2, 0);
	file_expect(path, size, 800, 1, size / 8);
	file_expect(path, 0, 5 * large, 1, 0);
	memory_expect(p, 3 * large, 1);
	memory_expect(q, large, 3);
	CHECK(sluice_discard(s, q, large, SLUICE_DISCARD_EAGER, NULL) == 0);
	memory_expect_zeros(q, PAGE);
	space_end(s);
}

/* ---- every regime gives the same bytes ---------------------------------------------------- */

/* Sums, stencils and scatters over three arrays; the last line of words is the result. */
static uint64_t
application_run(const char *config)
{
	uint64_t c = 6, words = c * CHUNK / 8, hash = 0;
	struct sluice_space *s = space_make(config);
	char *a = region_map(s, file_make("a", c * CHUNK, 1), 0, 0,
			     SLUICE_READ | SLUICE_WRITE);
	char *b = region_alloc(s, c * CHUNK);

	for (int pass = 1; pass <= 2; pass++) {
		for (uint64_t i = 0; i < c; i++)
			launch(s, KERNEL_FILL, at_chunk(b, i), CHUNK,
			       SLUICE_USE_WRITE_ALL, i);
		for (uint64_t i = 0; i < c; i += 2)
			launch(s, KERNEL_ADD, at_chunk(a, i), CHUNK,
			       SLUICE_USE_READ_WRITE, 3);
		launch(s, KERNEL_ADD, a + PAGE + 8, CHUNK, SLUICE_USE_COUNT, 5); /* by faults */
		for (uint64_t i = 0; i < c; i++)
			launch(s, KERNEL_ADD, at_chunk(b, i), CHUNK / 2, SLUICE_USE_WRITE,
			       i + 1);
		CHECK(sluice_stream_synchronize(s, NULL) == 0);
		for (uint64_t i = 0; i < words; i += 1000)
			((uint64_t *)(void *)a)[i] ^= ((uint64_t *)(void *)b)[words - 1 - i];
	}
	for (uint64_t i = 0; i < words; i++)
		hash = (hash ^ ((uint64_t *)(void *)b)[i]) * 0x100000001b3u;
	CHECK(sluice_unmap(s, a) == 0);
	a = region_map(s, file_path("a"), 0, 0, SLUICE_READ);
	for (uint64_t i = 0; i < words; i++)
		hash = (hash ^ ((uint64_t *)(void *)a)[i]) * 0x100000001b3u;
	space_end(s);
	return hash;
}

static void
every_regime_policy_and_population_gives_the_same_bytes(void)
{
	static const char *const configs[] = {
		"device_budget=8M,host_budget=64M",
		"device_budget=8M,host_budget=8M",
		"device_budget=6M,host_budget=0",
		"device_budget=4M,host_budget=4M,policy=dragon,readahead_chunks=4",
		"device_budget=4M,host_budget=4M,policy=uvm",
		"device_budget=4M,host_budget=4M,population=page",
		"device_budget=4M,host_budget=0,population=grow",
		"device_budget=8M,host_budget=8M,faults=signal",
		"device_budget=8M,host_budget=8M,store_io=file,workers=1",
		"device_budget=16M,host_budget=16M,chunk=4M,staging=64M",
	};
	uint64_t expected = application_run("device_budget=64M,host_budget=64M");

	for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
		uint64_t hash = application_run(configs[i]);

		if (hash != expected)
			api_failed(configs[i], 0,
				   "the same bytes as when all fits on the device");
	}
}

static const struct api_case cases[] = {
	CASE(streaming_moves_every_byte_once_whatever_the_budget),
	CASE(declared_read_intent_halves_what_a_stencil_writes_back),
	CASE(srad_with_intents_moves_what_the_closed_form_says),
	CASE(srad_copies_nothing_out_twice_where_host_memory_is_short),
	CASE(srad_with_map_flags_only_moves_what_the_closed_form_says),
	CASE(srad_that_fits_moves_its_input_once),
	CASE(more_host_memory_never_spills_more_and_enough_of_it_nothing),
	CASE(filter_without_discard_moves_its_input_and_what_does_not_fit),
	CASE(filter_that_discards_its_input_moves_only_the_output_that_does_not_fit),
	CASE(launches_refresh_under_lru_and_dragon_only_moves_under_uvm),
	CASE(uvm_policy_copies_out_even_what_was_only_read),
	CASE(large_chunks_keep_every_promise_of_small_ones),
	CASE(every_regime_policy_and_population_gives_the_same_bytes),
};
API_MAIN(cases)

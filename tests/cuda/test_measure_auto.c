/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure=auto: data that are only read are copied out once. Changing data are hashed ever more
 * rarely. A change of a copy outside the device, or of the device's after its hash, is detected.
 * Each change of a copy below is followed by a kernel that restores the hashed contents on the
 * device.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "core/interpose.h"
#include "cuda/measure_test.h"
#include "cuda_driver/hash_twin.h"

static uint64_t
hashes(struct sluice_space *s)
{
	return cuda_test_counter(s, SLUICE_COUNTER_HASHES);
}

static uint64_t
clean(struct sluice_space *s)
{
	return cuda_test_counter(s, SLUICE_COUNTER_MEASURED_CLEAN);
}

static void
evict(struct sluice_space *s, void *p, uint64_t bytes, enum sluice_tier tier)
{
	CHECK_OK(sluice_evict(s, p, bytes, tier, NULL));
}

/* A launch that says read-write, and adds v to n words at at of the chunk at p. */
static void
add(struct sluice_space *s, uint64_t *p, uint64_t *at, uint64_t n, uint64_t v)
{
	run_in(s, p, CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD, at, n, v);
}

/* The chunk at p goes out until what its copy has is known, which takes a while if it was changed. */
static void
learn(struct sluice_space *s, uint64_t *p)
{
	uint64_t before = clean(s);

	for (unsigned k = 0; clean(s) == before; k++) {
		CHECK(k < 70);
		add(s, p, p, 1, 0);
		evict(s, p, CHUNK, SLUICE_TIER_HOST);
	}
}

static void
pattern_check(const uint64_t *p, uint64_t words, uint64_t seed)
{
	for (uint64_t i = 0; i < words; i++)
		CHECK(p[i] == i * K + seed);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void
what_is_only_read_goes_out_once(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "measure=auto");
	uint64_t bytes = 16 * MIB, n = bytes / 8, word = cuda_test_word(&t), sum = 0;
	uint64_t *p = data_make(s, bytes, 7);

	for (uint64_t i = 0; i < n; i++)
		sum += p[i];
	for (uint64_t round = 0; round < 5; round++) {
		for (uint64_t at = 0; at < n; at += CHUNK_N)
			cuda_test_run(&t, s, NULL, TEST_SUM, p + at, CHUNK_N, word,
				      SLUICE_USE_READ_WRITE);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		CHECK(d2h(s) == (round ? bytes : bytes - 8 * MIB));
		CHECK(clean(s) == (round ? round * bytes - 8 * MIB : 0));
	}
	CHECK(cuda_test_word_read(&t, word) == 5 * sum);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_H2D_LAUNCH) == 5 * bytes);
	evict(s, p, bytes, SLUICE_TIER_HOST);
	CHECK(d2h(s) == bytes);
	CHECK(hashes(s) == 5 * bytes / CHUNK); /* one an eviction */
	CHECK_OK(sluice_space_check(s));
	pattern_check(p, n, 7);
	CHECK(d2h(s) == bytes);
	cuda_test_word_free(&t, word);
	space_end(s, p);
}

static void
await_in_host(struct sluice_space *s, void *p, uint64_t bytes)
{
	struct timespec pause = {.tv_nsec = 100000};
	struct sluice_residency where = {0};

	while (where.tier_bytes[SLUICE_TIER_HOST] < bytes || where.in_flight_bytes) {
		nanosleep(&pause, NULL);
		CHECK_OK(sluice_residency(s, p, bytes, &where));
	}
}

static void
what_leaves_early_is_hashed_before(void)
{
	struct sluice_space *s = cuda_test_space(32, 64, "measure=auto");
	uint64_t word = cuda_test_word(&t);
	uint64_t *p = data_make(s, 12 * CHUNK, 7);

	for (uint64_t round = 1; round <= 3; round++) {
		struct sluice_use use = {p, 12 * CHUNK, SLUICE_USE_READ_WRITE};
		struct sluice_launch *l;

		CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
		cuda_test_launch(&t, s, NULL, TEST_SUM, p, 12 * CHUNK_N, word);
		sl_evict_later(s, p, 12 * CHUNK);
		sluice_launch_end(l);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		await_in_host(s, p, 12 * CHUNK);
		CHECK(hashes(s) == round * 12);
		CHECK(d2h(s) == 12 * CHUNK);
		CHECK(clean(s) == (round - 1) * 12 * CHUNK);
	}
	pattern_check(p, 12 * CHUNK_N, 7);
	cuda_test_word_free(&t, word);
	space_end(s, p);
}

/* ---- changing -------------------------------------------------------------------------------- */

/* What the rule says of a chunk: 1, 2, 4 .. 64 evictions without a hash after one that found a change. */
struct model {
	uint64_t hashes, copies, clean;
	unsigned skip, step;
	int known;
};

static void
model_evict(struct model *m, int changed)
{
	if (m->skip) {
		m->skip--;
		m->known = 0;
		m->copies++;
		return;
	}
	m->hashes++;
	if (m->known && !changed) {
		m->skip = m->step = 0;
		m->clean++;
		return;
	}
	if (m->known) {
		m->skip = m->step ? m->step : 1;
		m->step = m->skip < 64 ? 2 * m->skip : 64;
	}
	m->known = 1;
	m->copies++;
}

static void
what_changes_is_hashed_ever_more_rarely(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "measure=auto");
	uint64_t *p = data_make(s, CHUNK, 7);
	struct model m = {0};

	for (unsigned k = 0; k < 480; k++) {
		int changed = k < 300 || k == 440;

		add(s, p, p + k, 1, (uint64_t)changed);
		evict(s, p, CHUNK, SLUICE_TIER_HOST);
		model_evict(&m, changed);
		CHECK(hashes(s) == m.hashes);
		CHECK(d2h(s) == m.copies * CHUNK);
		CHECK(clean(s) == m.clean * CHUNK);
	}
	CHECK(m.step == 0 && m.clean > 30); /* it was found to have calmed down, twice */
	for (uint64_t i = 0; i < CHUNK_N; i++)
		CHECK(p[i] == i * K + 7 + (i < 300 || i == 440));
	space_end(s, p);
}

static void
always_hashes_what_changes_each_time(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "measure=1");
	uint64_t *p = data_make(s, CHUNK, 7);

	for (unsigned k = 0; k < 10; k++) {
		add(s, p, p, 1, 1);
		evict(s, p, CHUNK, SLUICE_TIER_HOST);
		CHECK(hashes(s) == k + 2);
	}
	CHECK(d2h(s) == 10 * CHUNK);
	space_end(s, p);
}

/* ---- copies that change ---------------------------------------------------------------------- */

static void
host_code_writes_the_copy(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "measure=auto");
	uint64_t *p = data_make(s, CHUNK, 7);

	learn(s, p);
	*(volatile uint64_t *)&p[5] = 5 * K + 107; /* not read before: shown for writing */
	add(s, p, p + 5, 1, -(uint64_t)100);
	evict(s, p, CHUNK, SLUICE_TIER_HOST);
	pattern_check(p, CHUNK_N, 7);
	learn(s, p);
	CHECK(p[6] == 6 * K + 7); /* shown for reading, then written */
	p[6] += 100;
	add(s, p, p + 6, 1, -(uint64_t)100);
	evict(s, p, CHUNK, SLUICE_TIER_HOST);
	pattern_check(p, CHUNK_N, 7);
	space_end(s, p);
}

static void
kernel_reaches_the_copy(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "measure=auto");
	uint64_t *p = data_make(s, 6 * CHUNK, 7), reached;

	for (uint64_t i = 0; i < 6; i++)
		add(s, p + i * CHUNK_N, p, 0, 0);
	evict(s, p, 6 * CHUNK, SLUICE_TIER_HOST); /* known, all six */
	run_in(s, p, 6 * CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD, p, 6 * CHUNK_N, 1);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	reached = cuda_test_counter(s, SLUICE_COUNTER_H2D_LAUNCH);
	CHECK(reached < 12 * CHUNK); /* not all of it was brought in */
	evict(s, p, 6 * CHUNK, SLUICE_TIER_HOST);
	for (uint64_t i = 0; i < 6; i++)
		add(s, p + i * CHUNK_N, p + i * CHUNK_N, CHUNK_N, -(uint64_t)1);
	evict(s, p, 6 * CHUNK, SLUICE_TIER_HOST);
	pattern_check(p, 6 * CHUNK_N, 7);
	space_end(s, p);
}

/* Kernels could write the copy. Whether they did is found by a hash of what comes in. */
static void
reached_copy_is_hashed_when_it_comes_in(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "measure=auto");
	uint64_t *p = data_make(s, CHUNK, 7), hashed, out;
	struct sluice_use beside = {p, CHUNK, SLUICE_USE_READ_WRITE};

	learn(s, p);
	for (uint64_t round = 0; round < 4; round++) {
		uint64_t before = clean(s);
		struct sluice_launch *l;

		hashed = hashes(s);
		out = d2h(s);
		CHECK_OK(sl_launch_begin_optional(s, NULL, NULL, 0, &beside, 1, &l));
		if (round % 2)
			cuda_test_launch(&t, s, NULL, TEST_ADD, p + 5, 1, 1);
		sluice_launch_end(l);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		add(s, p, p, 1, 0);
		evict(s, p, CHUNK, SLUICE_TIER_HOST);
		CHECK(hashes(s) == hashed + 2);
		CHECK(d2h(s) == out && clean(s) == before + CHUNK);
	}
	/* It changes on the device, too: nothing is hashed in vain any more. */
	for (uint64_t round = 0; round < 2; round++) {
		struct sluice_launch *l;

		hashed = hashes(s);
		out = d2h(s);
		CHECK_OK(sl_launch_begin_optional(s, NULL, NULL, 0, &beside, 1, &l));
		sluice_launch_end(l);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		add(s, p, p + 6, 1, 1);
		evict(s, p, CHUNK, SLUICE_TIER_HOST);
		CHECK(hashes(s) == hashed + (round ? 0 : 2));
		CHECK(d2h(s) == out + CHUNK);
	}
	CHECK(p[5] == 5 * K + 7 + 2 && p[6] == 6 * K + 7 + 2 && p[7] == 7 * K + 7);
	space_end(s, p);
}

/* The copy is discarded, in the host tier and while the chunk is on the device. */
static void
copy_is_discarded(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "measure=auto");
	uint64_t *p = data_make(s, CHUNK, 7);

	for (int present = 0; present < 2; present++) {
		learn(s, p);
		if (present)
			add(s, p, p, 1, 0);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		CHECK_OK(sluice_discard(s, p, CHUNK, SLUICE_DISCARD_LAZY, NULL));
		run_in(s, p, CHUNK, SLUICE_USE_READ_WRITE, TEST_FILL, p, CHUNK_N, 7);
		evict(s, p, CHUNK, SLUICE_TIER_HOST);
		pattern_check(p, CHUNK_N, 7);
	}
	space_end(s, p);
}

/* Other contents go out without a hash: those of a launch that is known to write. */
static void
copy_is_overwritten(void)
{
	static const enum sluice_intent known[] = {SLUICE_USE_WRITE, SLUICE_USE_WRITE_ALL};
	struct sluice_space *s = cuda_test_space(8, 64, "measure=auto");
	uint64_t *p = data_make(s, CHUNK, 7);

	for (unsigned k = 0; k < 2; k++) {
		uint64_t before;

		learn(s, p);
		before = hashes(s);
		run_in(s, p, CHUNK, known[k], TEST_FILL, p, CHUNK_N, 9);
		evict(s, p, CHUNK, SLUICE_TIER_HOST);
		CHECK(hashes(s) == before);
		run_in(s, p, CHUNK, SLUICE_USE_READ_WRITE, TEST_FILL, p, CHUNK_N, 7);
		evict(s, p, CHUNK, SLUICE_TIER_HOST);
		pattern_check(p, CHUNK_N, 7);
		/* Overwritten while it is there, and made what it was. */
		learn(s, p);
		run_in(s, p, CHUNK, known[k], TEST_FILL, p, CHUNK_N, 9);
		run_in(s, p, CHUNK, SLUICE_USE_READ_WRITE, TEST_FILL, p, CHUNK_N, 7);
		evict(s, p, CHUNK, SLUICE_TIER_HOST);
		pattern_check(p, CHUNK_N, 7);
	}
	space_end(s, p);
}

static void
copy_is_spilled_and_comes_back(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "measure=auto,spill_dirs=/var/tmp");
	uint64_t *p = data_make(s, CHUNK, 7), before;

	learn(s, p);
	for (int round = 0; round < 3; round++) {
		evict(s, p, CHUNK, SLUICE_TIER_STORE);
		before = d2h(s);
		add(s, p, p, 1, 0);
		evict(s, p, CHUNK, round ? SLUICE_TIER_STORE : SLUICE_TIER_HOST);
		CHECK(d2h(s) == before); /* what was spilled is what was hashed */
	}
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_STORE_WRITE_SPILL) == CHUNK);
	pattern_check(p, CHUNK_N, 7);
	space_end(s, p);
}

/* The host tier wants the room of the frames that are kept: they go first, and are no copies then. */
static void
kept_frames_are_the_first_to_go(void)
{
	struct sluice_space *s = cuda_test_space(8, 12, "measure=auto,staging=16M");
	uint64_t *p = data_make(s, 4 * CHUNK, 7), *q, before;

	for (uint64_t i = 0; i < 4; i++)
		learn(s, p + i * CHUNK_N);
	run_in(s, p, 4 * CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD, p, 4 * CHUNK_N, 0);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	before = d2h(s);
	q = data_make(s, 6 * CHUNK, 9); /* takes the host tier */
	CHECK_OK(sluice_space_check(s));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_STORE_WRITE_SPILL) == 0);
	evict(s, p, 4 * CHUNK, SLUICE_TIER_STORE);
	CHECK(d2h(s) > before);
	pattern_check(p, 4 * CHUNK_N, 7);
	pattern_check(q, 6 * CHUNK_N, 9);
	CHECK_OK(sluice_unmap(s, q));
	space_end(s, p);
}

/* ---- files ----------------------------------------------------------------------------------- */

static char path[128];

static uint64_t *
file_map(struct sluice_space *s)
{
	static uint64_t block[CHUNK_N];
	uint64_t *p;
	int fd;

	snprintf(path, sizeof(path), "/var/tmp/sluice-test-measure-auto-XXXXXX");
	fd = mkstemp(path);
	CHECK(fd >= 0);
	for (uint64_t i = 0; i < CHUNK_N; i++)
		block[i] = i * K + 7;
	CHECK(write(fd, block, sizeof(block)) == (ssize_t)sizeof(block));
	close(fd);
	CHECK_OK(sluice_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE, (void **)&p));
	return p;
}

static uint64_t
file_word(uint64_t at, const uint64_t *put)
{
	int fd = open(path, O_RDWR);
	uint64_t value = 0;

	CHECK(fd >= 0);
	if (put)
		CHECK(pwrite(fd, put, 8, (off_t)(at * 8)) == 8);
	CHECK(pread(fd, &value, 8, (off_t)(at * 8)) == 8);
	close(fd);
	return value;
}

static void
file_is_written_by_others(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "measure=auto");
	uint64_t *p = file_map(s), other = 12345;

	learn(s, p);
	evict(s, p, CHUNK, SLUICE_TIER_STORE);
	file_word(9, &other);
	add(s, p, p + 9, 1, 9 * K + 7 - other);
	CHECK_OK(sluice_unmap(s, p));
	CHECK(file_word(9, NULL) == 9 * K + 7);
	unlink(path);
	CHECK_OK(sluice_space_destroy(s));
}

/* A sync takes a snapshot of other contents to the store. */
static void
snapshot_changes_the_file(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "measure=auto");
	uint64_t *p = file_map(s);

	learn(s, p);
	add(s, p, p + 9, 1, 1);
	CHECK_OK(sluice_sync(s, p, CHUNK));
	CHECK(file_word(9, NULL) == 9 * K + 8);
	add(s, p, p + 9, 1, -(uint64_t)1);
	CHECK_OK(sluice_sync(s, p, CHUNK));
	CHECK(file_word(9, NULL) == 9 * K + 7);
	/* And a discard that leaves the file with what it had. */
	add(s, p, p + 9, 1, 1);
	evict(s, p, CHUNK, SLUICE_TIER_HOST);
	learn(s, p);
	add(s, p, p + 9, 1, 0);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK_OK(sluice_discard(s, p, CHUNK, SLUICE_DISCARD_LAZY, NULL));
	run_in(s, p, CHUNK, SLUICE_USE_READ_WRITE, TEST_FILL, p, CHUNK_N, 7);
	add(s, p, p + 9, 1, 1);
	CHECK_OK(sluice_unmap(s, p));
	CHECK(file_word(9, NULL) == 9 * K + 8 && file_word(10, NULL) == 10 * K + 7);
	unlink(path);
	CHECK_OK(sluice_space_destroy(s));
}

/* ---- the device's contents change after they were hashed ------------------------------------- */

/* p: four known chunks, on the device, and hashed since: the first has gone for q. */
static struct sluice_space *
hashed_ahead(uint64_t **p, uint64_t **q)
{
	struct sluice_space *s = cuda_test_space(8, 64, "measure=auto");
	uint64_t before;

	*p = data_make(s, 4 * CHUNK, 7);
	*q = data_make(s, CHUNK, 9);
	for (uint64_t i = 0; i < 4; i++)
		learn(s, *p + i * CHUNK_N);
	for (uint64_t i = 0; i < 4; i++)
		add(s, *p + i * CHUNK_N, *p, 0, 0);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	before = hashes(s);
	run_in(s, *q, CHUNK, SLUICE_USE_READ, TEST_ADD, *q, 0, 0);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(hashes(s) == before + 4); /* its own and those of the three behind it */
	return s;
}

static void
launch_uses_what_was_hashed(void)
{
	uint64_t *p, *q, before, copied;
	struct sluice_space *s = hashed_ahead(&p, &q);

	before = hashes(s);
	copied = d2h(s);
	add(s, p + CHUNK_N, p + CHUNK_N + 77, 1, 1);
	evict(s, p + CHUNK_N, CHUNK, SLUICE_TIER_HOST);
	CHECK(d2h(s) == copied + CHUNK && hashes(s) == before + 1);
	/* What no launch has used is not hashed again. */
	evict(s, p + 2 * CHUNK_N, CHUNK, SLUICE_TIER_HOST);
	CHECK(d2h(s) == copied + CHUNK && hashes(s) == before + 1);
	CHECK(p[CHUNK_N + 77] == (CHUNK_N + 77) * K + 8);
	CHECK_OK(sluice_unmap(s, q));
	space_end(s, p);
}

/* The same by a launch that pins the region as a whole. */
static void
launch_of_the_whole_region_uses_it(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "measure=auto");
	uint64_t *p = data_make(s, 2 * CHUNK, 7), *q = data_make(s, 3 * CHUNK, 9), copied;

	for (uint64_t i = 0; i < 2; i++)
		learn(s, p + i * CHUNK_N);
	run_in(s, p, 2 * CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD, p, 1, 0);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	/* Three more chunks: the first goes, the second is hashed. */
	run_in(s, q, 3 * CHUNK, SLUICE_USE_READ, TEST_ADD, q, 0, 0);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	evict(s, q, 3 * CHUNK, SLUICE_TIER_HOST);
	run_in(s, p, 2 * CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD, p + CHUNK_N + 77, 1, 1);
	copied = d2h(s);
	evict(s, p, 2 * CHUNK, SLUICE_TIER_HOST);
	CHECK(d2h(s) == copied + CHUNK);
	CHECK(p[CHUNK_N + 77] == (CHUNK_N + 77) * K + 8);
	CHECK_OK(sluice_unmap(s, q));
	space_end(s, p);
}

/* What is pinned may be written outside of any launch. */
static void
pinned_memory_is_written(void)
{
	uint64_t *p, *q, copied;
	struct sluice_space *s = hashed_ahead(&p, &q);

	CHECK_OK(sluice_pin(s, p + CHUNK_N, CHUNK));
	cuda_test_launch(&t, s, NULL, TEST_ADD, p + CHUNK_N + 77, 1, 1);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK_OK(sluice_unpin(s, p + CHUNK_N, CHUNK));
	copied = d2h(s);
	evict(s, p + CHUNK_N, CHUNK, SLUICE_TIER_HOST);
	CHECK(d2h(s) == copied + CHUNK);
	CHECK(p[CHUNK_N + 77] == (CHUNK_N + 77) * K + 8);
	CHECK_OK(sluice_unmap(s, q));
	space_end(s, p);
}

/* ---- at random ------------------------------------------------------------------------------- */

#define CHUNKS 16u

struct shadow {
	struct sluice_space *s;
	uint64_t *p;    /* CHUNKS chunks */
	uint64_t *want; /* the same, as they have to be */
	struct sl_rng rng;
};

static void
random_use(struct shadow *w, uint64_t *at, uint64_t *want, uint64_t pick)
{
	uint64_t n = 1 + sl_rng_below(&w->rng, 64);
	uint64_t first = sl_rng_below(&w->rng, CHUNK_N - n);
	uint64_t v = pick < 45 ? 0 : sl_rng_next(&w->rng);
	enum sluice_intent intent = pick < 70 ? SLUICE_USE_READ_WRITE : SLUICE_USE_WRITE;

	if (pick >= 85 && pick < 88) { /* back to what it was */
		add(w->s, at, at + first, n, v);
		if (pick == 86)
			evict(w->s, at, CHUNK, SLUICE_TIER_HOST);
		add(w->s, at, at + first, n, -v);
		return;
	}
	run_in(w->s, at, CHUNK, intent, TEST_ADD, at + first, n, v);
	for (uint64_t i = first; i < first + n; i++)
		want[i] += v;
}

static void
random_op(struct shadow *w)
{
	uint64_t c = sl_rng_below(&w->rng, CHUNKS), pick = sl_rng_below(&w->rng, 100);
	uint64_t *at = w->p + c * CHUNK_N, *want = w->want + c * CHUNK_N;
	uint64_t i = sl_rng_below(&w->rng, CHUNK_N);

	if (pick < 88) {
		random_use(w, at, want, pick);
	} else if (pick < 91) { /* host code */
		CHECK(at[i] == want[i]);
		if (pick != 88)
			at[i] = want[i] = sl_rng_next(&w->rng);
	} else if (pick < 94) {
		evict(w->s, at, CHUNK, pick == 93 ? SLUICE_TIER_STORE : SLUICE_TIER_HOST);
	} else if (pick < 96) {
		run_in(w->s, at, CHUNK, SLUICE_USE_WRITE_ALL, TEST_FILL, at, CHUNK_N, i);
		for (uint64_t k = 0; k < CHUNK_N; k++)
			want[k] = k * K + i;
	} else if (pick < 97) {
		CHECK_OK(sluice_stream_synchronize(w->s, NULL));
		CHECK_OK(sluice_discard(w->s, at, CHUNK, SLUICE_DISCARD_EAGER, NULL));
		memset(want, 0, CHUNK);
	} else {
		sl_evict_later(w->s, at, CHUNK);
	}
}

static void
random_changes_are_never_lost(const char *config, unsigned ops, uint64_t seed)
{
	struct shadow w = {.s = cuda_test_space(10, 24, config)};

	printf("seed %llu, %s\n", (unsigned long long)seed, config);
	sl_rng_init(&w.rng, seed);
	w.p = data_make(w.s, CHUNKS * CHUNK, 7);
	w.want = malloc(CHUNKS * CHUNK);
	CHECK(w.want);
	for (uint64_t i = 0; i < CHUNKS * CHUNK_N; i++)
		w.want[i] = i * K + 7;
	for (unsigned k = 0; k < ops; k++) {
		random_op(&w);
		if (k % 500 == 0)
			CHECK_OK(sluice_space_check(w.s));
	}
	CHECK_OK(sluice_stream_synchronize(w.s, NULL));
	CHECK(!memcmp(w.p, w.want, CHUNKS * CHUNK));
	CHECK(clean(w.s) > 0 && d2h(w.s) > 0);
	free(w.want);
	space_end(w.s, w.p);
}

/* ---- failing, late --------------------------------------------------------------------------- */

static void
hash_ahead_that_fails_means_copied(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "measure=auto");
	uint64_t *p = data_make(s, 4 * CHUNK, 7), *q = data_make(s, CHUNK, 9), copied;

	for (uint64_t i = 0; i < 4; i++)
		learn(s, p + i * CHUNK_N);
	for (uint64_t i = 0; i < 4; i++)
		add(s, p + i * CHUNK_N, p, 0, 0);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	copied = d2h(s);
	/* The first is the victim's own, the second that of who comes next. */
	CHECK(t.standin->fail_set("cuLaunchKernel:2:304") == 0);
	run_in(s, q, CHUNK, SLUICE_USE_READ, TEST_ADD, q, 0, 0);
	CHECK(t.standin->fail_fired() == 1);
	t.standin->fail_set(NULL);
	evict(s, p, 4 * CHUNK, SLUICE_TIER_HOST);
	CHECK(d2h(s) == copied + CHUNK);
	pattern_check(p, 4 * CHUNK_N, 7);
	CHECK_OK(sluice_unmap(s, q));
	space_end(s, p);
}

static atomic_int no_room; /* hashes find none among the kernels that run */

static void
hash_when_there_is_room(const struct sl_standin_block *b, void *const *params)
{
	while (*(const uint64_t *)params[1] && atomic_load(&no_room))
		t.standin->pause(b);
	hash_twin(b, params, t.standin->ptr);
}

/* Nobody waits for ever for a hash that does not come, nor again while it does not; all is copied. */
static void
late_hash_is_not_waited_for(void)
{
	static const struct sl_standin_kernel late = {SL_CUDA_HASH_KERNEL,
						      hash_when_there_is_room,
						      SL_CUDA_HASH_PARAMS,
						      {8, 8, 8, 8, 8, 8, 8}};
	struct sluice_space *s;
	uint64_t *p;

	t.standin->kernel_register(&late);
	s = cuda_test_space(8, 64, "measure=auto");
	p = data_make(s, 2 * CHUNK, 7);
	learn(s, p);
	learn(s, p + CHUNK_N);
	atomic_store(&no_room, 1);
	for (unsigned k = 1; k <= 3; k++) {
		uint64_t before = hashes(s), copied = d2h(s);

		add(s, p, p + 3, 1, 1);
		add(s, p + CHUNK_N, p + CHUNK_N, 1, 0);
		evict(s, p, 2 * CHUNK, SLUICE_TIER_HOST);
		CHECK(d2h(s) == copied + 2 * CHUNK);
		CHECK(hashes(s) == before + (k == 1));
	}
	CHECK_OK(sluice_space_check(s));
	atomic_store(&no_room, 0);
	for (uint64_t before = hashes(s); hashes(s) == before;) { /* it has ended */
		add(s, p, p, 1, 0);
		evict(s, p, CHUNK, SLUICE_TIER_HOST);
	}
	learn(s, p);
	learn(s, p + CHUNK_N);
	CHECK(p[3] == 3 * K + 10 && p[CHUNK_N] == CHUNK_N * K + 7);
	space_end(s, p);
}

int
main(void)
{
	cuda_test_open(&t);
	what_is_only_read_goes_out_once();
	what_leaves_early_is_hashed_before();
	what_changes_is_hashed_ever_more_rarely();
	always_hashes_what_changes_each_time();
	host_code_writes_the_copy();
	kernel_reaches_the_copy();
	reached_copy_is_hashed_when_it_comes_in();
	copy_is_discarded();
	copy_is_overwritten();
	copy_is_spilled_and_comes_back();
	kept_frames_are_the_first_to_go();
	file_is_written_by_others();
	snapshot_changes_the_file();
	launch_uses_what_was_hashed();
	launch_of_the_whole_region_uses_it();
	pinned_memory_is_written();
	random_changes_are_never_lost("measure=auto,spill_dirs=/var/tmp", 1500, 20261);
	random_changes_are_never_lost("measure=1,spill_dirs=/var/tmp,staging=16M", 1000,
				      20262);
	if (t.standin) {
		hash_ahead_that_fails_means_copied();
		late_hash_is_not_waited_for();
	}
	cuda_test_close(&t, NULL);
	return 0;
}

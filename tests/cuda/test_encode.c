/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space whose chunks cross the link encoded. Whoever needs them as they are has them so: kernels on the device
 * and in host memory, host code, files. Results are those of a space that does not compress.
 */
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/interpose.h"
#include "cuda/measure_test.h"

#define TIER_MIB   64 /* of the host tier, where it is short */
#define SETTINGS   "chunk=2M,large_chunk=2M,compress="
#define ROUNDS_MAX 200 /* something hangs */

#define SMALL (96 * MIB)
#define LARGE \
	(384 * MIB) /* a fiftieth of its device memory is staging for one chunk each way */

static uint64_t data_bytes = SMALL; /* of the test */

static uint64_t
data_n(void)
{
	return data_bytes / 8;
}

/* Five sixths of it. */
static uint64_t
device_mib(void)
{
	return data_bytes / MIB * 5 / 6;
}

/* Small numbers; ones that no codec makes smaller; ones that become seven eighths, and a little less. */
enum words { WORDS_SMALL, WORDS_RANDOM, WORDS_SEVEN_BYTES, WORDS_52_BITS };

/* Word i before any kernel has added to it. */
static uint64_t
word_of(uint64_t i, enum words words)
{
	uint64_t x = i * K;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 32;
	switch (words) {
	case WORDS_SMALL:
		return i % 200;
	case WORDS_SEVEN_BYTES:
		return x >> 8;
	case WORDS_52_BITS:
		return x >> 12;
	default:
		return x;
	}
}

static uint64_t *
words_make(struct sluice_space *s, enum words words)
{
	uint64_t *p;

	CHECK_OK(sluice_alloc(s, data_bytes, 0, (void **)&p));
	for (uint64_t i = 0; i < data_n(); i++)
		p[i] = word_of(i, words);
	return p;
}

static void
words_expect(const uint64_t *p, uint64_t n, enum words words, uint64_t added)
{
	for (uint64_t i = 0; i < n; i++)
		CHECK(p[i] == word_of(i, words) + added);
}

/* Every chunk is used and written, one after the other. */
static void
round_run(struct sluice_space *s, uint64_t *p, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes / 8; at += CHUNK_N)
		cuda_test_run(&t, s, NULL, TEST_ADD, p + at, CHUNK_N, 1,
			      SLUICE_USE_READ_WRITE);
}

static uint64_t
saved_out(struct sluice_space *s)
{
	return cuda_test_counter(s, SLUICE_COUNTER_COMPRESS_OUT_SAVED);
}

static uint64_t
saved_in(struct sluice_space *s)
{
	return cuda_test_counter(s, SLUICE_COUNTER_COMPRESS_IN_SAVED);
}

/*
 * Rounds until more has left encoded: automatic encoding begins in the background, and goes on after a
 * rest. How many.
 */
static unsigned
rounds_await(struct sluice_space *s, uint64_t *p)
{
	uint64_t before = saved_out(s);
	unsigned rounds = 0;

	while (saved_out(s) == before && rounds < ROUNDS_MAX) {
		round_run(s, p, data_bytes);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		rounds++;
	}
	CHECK(saved_out(s) > before);
	return rounds;
}

static void
fewer_bytes_cross_the_link(const char *settings)
{
	struct sluice_space *s = cuda_test_space(device_mib(), 1024, settings);
	uint64_t *p = words_make(s, WORDS_SMALL);
	unsigned rounds = rounds_await(s, p);
	struct sluice_stats stats;
	uint64_t out;

	for (int round = 0; round < 2; round++)
		round_run(s, p, data_bytes);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK_OK(sluice_space_check(s));
	sluice_stats_get(s, &stats);
	out = cuda_test_counter(s, SLUICE_COUNTER_D2H_EVICT);
	CHECK(saved_out(s) > 0 && saved_out(s) < out && saved_in(s) > 0);
	CHECK(sluice_stats_d2h_bytes(&stats) == out - saved_out(s));
	printf("%s: %llu MiB out, %llu saved; %llu saved on the way in\n", settings,
	       (unsigned long long)(out / MIB), (unsigned long long)(saved_out(s) / MIB),
	       (unsigned long long)(saved_in(s) / MIB));
	words_expect(p, data_n(), WORDS_SMALL, rounds + 2);
	space_end(s, p);
}

/* After a few tries they go as they are, and nothing is lost. */
static void
random_data_are_left_alone(void)
{
	struct sluice_space *s = cuda_test_space(device_mib(), 1024, SETTINGS "auto");
	uint64_t *p = words_make(s, WORDS_SMALL), out, in;

	sl_ignore(rounds_await(s, p));
	CHECK_OK(sluice_unmap(s, p));
	out = saved_out(s);
	in = saved_in(s);
	p = words_make(s, WORDS_RANDOM);
	for (int round = 0; round < 2; round++)
		round_run(s, p, data_bytes);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(saved_out(s) == out && saved_in(s) == in);
	words_expect(p, data_n(), WORDS_RANDOM, 2);
	space_end(s, p);
}

/* Made by the host, and only read, though nobody says so: each chunk goes out encoded, once, and comes in so. */
static void
what_is_only_read_goes_out_once(void)
{
	struct sluice_space *s = cuda_test_space(device_mib(), 1024,
						 SETTINGS "always,measure=1");
	uint64_t *p = words_make(s, WORDS_SMALL), word = cuda_test_word(&t), sum = 0, out;

	for (uint64_t i = 0; i < data_n(); i++)
		sum += word_of(i, WORDS_SMALL);
	for (unsigned round = 1; round <= 6; round++) {
		for (uint64_t at = 0; at < data_n(); at += CHUNK_N)
			cuda_test_run(&t, s, NULL, TEST_SUM, p + at, CHUNK_N, word,
				      SLUICE_USE_READ_WRITE);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		CHECK(cuda_test_word_read(&t, word) == round * sum);
	}
	out = cuda_test_counter(s, SLUICE_COUNTER_D2H_EVICT);
	CHECK(out > 0 && out <= data_bytes);
	CHECK(saved_out(s) > out / 2 && saved_in(s) > saved_out(s));
	printf("only read: %llu MiB out, %llu saved; %llu saved on the way in\n",
	       (unsigned long long)(out / MIB), (unsigned long long)(saved_out(s) / MIB),
	       (unsigned long long)(saved_in(s) / MIB));
	words_expect(p, data_n(), WORDS_SMALL, 0);
	cuda_test_word_free(&t, word);
	space_end(s, p);
}

static void
nothing_is_compressed_unless_asked_for(void)
{
	struct sluice_space *s = cuda_test_space(device_mib(), 1024, SETTINGS "never");
	uint64_t *p;

	if (t.standin)
		t.standin->calls_reset();
	p = words_make(s, WORDS_SMALL);
	round_run(s, p, data_bytes);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(saved_out(s) == 0);
	CHECK(!t.standin || t.standin->calls("cuLaunchKernel") == data_bytes / CHUNK);
	words_expect(p, data_n(), WORDS_SMALL, 1);
	space_end(s, p);
}

/* Host memory has room for few: the disk takes the encoded bytes as they come, and gives them so. */
static void
what_is_spilled_stays_encoded(const char *settings)
{
	struct sluice_space *s = cuda_test_space(device_mib(), 16, settings);
	uint64_t *p = words_make(s, WORDS_SMALL), read;
	unsigned rounds = rounds_await(s, p);

	for (int round = 0; round < 2; round++)
		round_run(s, p, data_bytes);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_COMPRESS_WRITE_SAVED) > 0);
	read = cuda_test_counter(s, SLUICE_COUNTER_COMPRESS_READ_SAVED);
	CHECK(read > 0 && saved_in(s) >= read); /* it crossed the link so, too */
	CHECK_OK(sluice_space_check(s));
	words_expect(p, data_n(), WORDS_SMALL, rounds + 2); /* host code has it as it is */
	space_end(s, p);
}

/* Where host memory has room for few, the disk gains though the link is idle: each launch finds it so. */
static void
an_idle_link_matters_only_where_nothing_is_spilled(void)
{
	for (unsigned tier_mib = 16; tier_mib <= 1024; tier_mib += 1008) {
		struct sluice_space *s = cuda_test_space(device_mib(), tier_mib,
							 SETTINGS
							 "auto,readahead_chunks=0");
		uint64_t *p = words_make(s, WORDS_SMALL), before;
		unsigned rounds = rounds_await(s, p);

		before = saved_out(s);
		for (uint64_t at = 0; at < data_n(); at += CHUNK_N) {
			(void)cuda_test_residency(s, p, data_bytes);
			nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
			cuda_test_run(&t, s, NULL, TEST_ADD, p + at, CHUNK_N, 1,
				      SLUICE_USE_READ_WRITE);
			CHECK_OK(sluice_stream_synchronize(s, NULL));
		}
		printf("%u MiB of host memory: %llu MiB saved of what an idle link "
		       "takes\n",
		       tier_mib, (unsigned long long)((saved_out(s) - before) / MIB));
		/* Nearly all of it, or what still moved when a launch began. */
		CHECK((saved_out(s) - before > data_bytes / 2) == (tier_mib == 16));
		words_expect(p, data_n(), WORDS_SMALL, rounds + 1);
		space_end(s, p);
	}
}

/* What the device left as it is, threads do not encode for the disk: they would take longer than that. */
static void
what_shrinks_little_is_spilled_as_it_is(void)
{
	struct sluice_space *s = cuda_test_space(device_mib(), 16, SETTINGS "auto");
	uint64_t *p = words_make(s, WORDS_SEVEN_BYTES);

	for (int round = 0; round < 2; round++)
		round_run(s, p, data_bytes);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_STORE_WRITE_SPILL) > 0);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_COMPRESS_WRITE_SAVED) == 0);
	words_expect(p, data_n(), WORDS_SEVEN_BYTES, 2);
	space_end(s, p);
}

/* As fp32 does: the disk takes longer than the codec. */
static void
what_shrinks_by_a_little_more_is_encoded_for_the_disk(void)
{
	struct sluice_space *s = cuda_test_space(device_mib(), 16, SETTINGS "auto");
	uint64_t *p = words_make(s, WORDS_52_BITS);
	unsigned rounds = rounds_await(s, p);

	for (int round = 0; round < 2; round++)
		round_run(s, p, data_bytes);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(saved_in(s) > 0);
	words_expect(p, data_n(), WORDS_52_BITS, rounds + 2);
	space_end(s, p);
}

/* Rounds until such data were seen to leave. How many. */
static unsigned
rounds_until_seen(struct sluice_space *s, uint64_t *p,
		  void (*run)(struct sluice_space *s, uint64_t *p))
{
	unsigned rounds = 0;

	while (!sl_encode_may_more(s) && rounds < ROUNDS_MAX) {
		run(s, p);
		rounds++;
	}
	CHECK(sl_encode_may_more(s) && saved_out(s) == 0);
	return rounds;
}

static void
add_run(struct sluice_space *s, uint64_t *p)
{
	round_run(s, p, data_bytes);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	(void)cuda_test_residency(s, p, data_bytes); /* nothing moves any more */
}

/* Over the link it is as long as somebody finds that faster. */
static void
what_shrinks_by_a_little_more_crosses_the_link_as_told(void)
{
	struct sluice_space *s = cuda_test_space(device_mib(), 1024, SETTINGS "auto");
	uint64_t *p = words_make(s, WORDS_52_BITS), saved;
	unsigned rounds = rounds_until_seen(s, p, add_run);

	sl_encode_more(s, 1);
	rounds += rounds_await(s, p);
	sl_encode_more(s, 0);
	add_run(s, p); /* what was on its way then */
	saved = saved_out(s);
	for (int round = 0; round < 2; round++)
		add_run(s, p);
	CHECK(saved_out(s) == saved);
	words_expect(p, data_n(), WORDS_52_BITS, rounds + 3);
	space_end(s, p);
}

static uint64_t sum_word, sums;

static void
sum_run(struct sluice_space *s, uint64_t *p)
{
	for (uint64_t at = 0; at < data_n(); at += CHUNK_N)
		cuda_test_run(&t, s, NULL, TEST_SUM, p + at, CHUNK_N, sum_word,
			      SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	(void)cuda_test_residency(s, p, data_bytes);
	sums++;
}

/* What is only read has a frame, which is not as it would be made now: it is made anew when the chunk leaves. */
static void
frames_of_what_is_only_read_are_as_told(void)
{
	struct sluice_space *s = cuda_test_space(device_mib(), 1024,
						 SETTINGS "auto,measure=1");
	uint64_t *p = words_make(s, WORDS_52_BITS), sum = 0, saved = 0;

	sum_word = cuda_test_word(&t);
	sums = 0;
	for (uint64_t i = 0; i < data_n(); i++)
		sum += word_of(i, WORDS_52_BITS);
	(void)rounds_until_seen(s, p, sum_run);
	sl_encode_more(s, 1);
	for (unsigned round = 0; round < ROUNDS_MAX && !saved_in(s); round++)
		sum_run(s, p);
	CHECK(saved_in(s) > 0);
	sl_encode_more(s, 0);
	for (unsigned round = 0; round < ROUNDS_MAX && saved_in(s) != saved; round++) {
		saved = saved_in(s);
		sum_run(s, p);
	}
	CHECK(saved_in(s) == saved);
	CHECK(cuda_test_word_read(&t, sum_word) == sums * sum);
	words_expect(p, data_n(), WORDS_52_BITS, 0);
	cuda_test_word_free(&t, sum_word);
	space_end(s, p);
}

/*
 * The most of the data that the host tier was seen to have while nothing moved, in rounds until it is more than
 * that. Chunks of 8 MiB, which take 2 when they are encoded. Which of them are, depends on what staging has room
 * for.
 */
static uint64_t
host_holds(const char *settings, int rounds, uint64_t until)
{
	struct sluice_space *s = cuda_test_space(160, TIER_MIB, settings);
	uint64_t *p = words_make(s, WORDS_SMALL), most = 0, launches = 0;
	struct sluice_residency where;

	CHECK_OK(sluice_evict(s, p, data_bytes, SLUICE_TIER_STORE, NULL)); /* host code had it */
	for (int round = 0; round < rounds && most <= until; round++)
		for (uint64_t at = 0; at < data_n() && most <= until; at += 4 * CHUNK_N) {
			cuda_test_run(&t, s, NULL, TEST_ADD, p + at, 4 * CHUNK_N, 1,
				      SLUICE_USE_READ_WRITE);
			CHECK_OK(sluice_stream_synchronize(s, NULL));
			launches++;
			where = cuda_test_residency(s, p, data_bytes);
			if (where.tier_bytes[SLUICE_TIER_HOST] > most)
				most = where.tier_bytes[SLUICE_TIER_HOST];
		}
	CHECK_OK(sluice_space_check(s));
	for (uint64_t i = 0; i < data_n(); i++) {
		uint64_t added = launches / (data_n() / (4 * CHUNK_N));

		added += i / (4 * CHUNK_N) < launches % (data_n() / (4 * CHUNK_N));
		CHECK(p[i] == word_of(i, WORDS_SMALL) + added);
	}
	space_end(s, p);
	printf("%s: at most %llu MiB\n", settings, (unsigned long long)(most / MIB));
	return most;
}

static void
the_host_tier_holds_more(void)
{
	CHECK(host_holds("chunk=8M,large_chunk=8M,readahead_chunks=0,compress=never", 2,
			 UINT64_MAX) <= TIER_MIB * MIB);
	CHECK(host_holds("chunk=8M,large_chunk=8M,readahead_chunks=0,compress=always", 50,
			 TIER_MIB * MIB) > TIER_MIB * MIB);
}

static void
files_have_the_bytes_as_they_are(void)
{
	struct sluice_space *s = cuda_test_space(device_mib(), 16, SETTINGS "always");
	char path[] = "/tmp/sluice-encode-XXXXXX";
	int file = mkstemp(path);
	const uint64_t bytes = data_bytes - 4096; /* the last chunk is cut */
	uint64_t *p, *words = malloc(CHUNK);

	CHECK(file >= 0 && words && !ftruncate(file, (off_t)bytes));
	CHECK_OK(sluice_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE, (void **)&p));
	for (uint64_t i = 0; i < bytes / 8; i++)
		p[i] = word_of(i, WORDS_SMALL);
	round_run(s, p, data_bytes - CHUNK);
	cuda_test_run(&t, s, NULL, TEST_ADD, p + data_n() - CHUNK_N, CHUNK_N - 512, 1,
		      SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(saved_out(s) == 0); /* who writes the file needs them so */
	CHECK_OK(sluice_unmap(s, p));
	for (uint64_t at = 0; at < bytes; at += CHUNK) {
		uint64_t n = bytes - at < CHUNK ? bytes - at : CHUNK;

		CHECK(pread(file, words, n, (off_t)at) == (ssize_t)n);
		for (uint64_t i = 0; i < n / 8; i++)
			CHECK(words[i] == word_of(at / 8 + i, WORDS_SMALL) + 1);
	}
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
	close(file);
	unlink(path);
	free(words);
}

/* A launch that declares nothing reaches what is not on the device: frames are as they are for it. */
static void
kernels_reach_frames_as_they_are(void)
{
	struct sluice_space *s = cuda_test_space(device_mib(), 1024, SETTINGS "always");
	uint64_t *p = words_make(s, WORDS_SMALL), word = cuda_test_word(&t), sum = 0;

	round_run(s, p, data_bytes);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(saved_out(s) > 0);
	run_in(s, NULL, 0, SLUICE_USE_READ, TEST_SUM, p, data_n(), word);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	for (uint64_t i = 0; i < data_n(); i++)
		sum += word_of(i, WORDS_SMALL) + 1;
	CHECK(cuda_test_word_read(&t, word) == sum);
	CHECK_OK(sluice_space_check(s));
	run_in(s, NULL, 0, SLUICE_USE_READ, TEST_ADD, p, data_n(), 1);
	round_run(s, p, data_bytes); /* and back to the device */
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	words_expect(p, data_n(), WORDS_SMALL, 3);
	cuda_test_word_free(&t, word);
	space_end(s, p);
}

/* Kernels want some chunks as they are. Then others are not encoded for a while either: they may be wanted, too. */
static void
what_kernels_reach_lets_others_rest(void)
{
	struct sluice_space *s = cuda_test_space(device_mib(), 1024, SETTINGS "auto");
	uint64_t *p = words_make(s, WORDS_SMALL), word = cuda_test_word(&t), before;
	unsigned rounds = rounds_await(s, p);

	run_in(s, NULL, 0, SLUICE_USE_READ, TEST_SUM, p, data_n(), word);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	before = saved_out(s);
	round_run(s, p, data_bytes / 2);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(saved_out(s) == before);
	rounds += 1 + rounds_await(s, p);
	words_expect(p, data_n() / 2, WORDS_SMALL, rounds);
	cuda_test_word_free(&t, word);
	space_end(s, p);
}

/* Less than a fiftieth does not hold two chunks: said, and copied as they are. */
static void
a_small_budget_does_without(void)
{
	struct sluice_space *s = cuda_test_space(16, 1024, SETTINGS "always");
	uint64_t *p = words_make(s, WORDS_SMALL);

	round_run(s, p, 32 * MIB);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(saved_out(s) == 0);
	words_expect(p, 32 * MIB / 8, WORDS_SMALL, 1);
	space_end(s, p);
}

int
main(int argc, char **argv)
{
	(void)argc;
	if (getenv("SLUICE_CUDA_LIBRARY") && !getenv("CUDA_STANDIN_DEVICE_BYTES")) {
		setenv("CUDA_STANDIN_DEVICE_BYTES", "512M", 1);
		setenv("CUDA_STANDIN_HOST_BYTES", "2G", 1);
		CHECK_OK(execv("/proc/self/exe", argv));
	}
	cuda_test_open(&t);
	fewer_bytes_cross_the_link(SETTINGS "always");
	data_bytes = LARGE;
	fewer_bytes_cross_the_link(SETTINGS "auto");
	random_data_are_left_alone();
	what_kernels_reach_lets_others_rest();
	the_host_tier_holds_more();
	what_is_spilled_stays_encoded(SETTINGS "auto");
	an_idle_link_matters_only_where_nothing_is_spilled();
	what_shrinks_little_is_spilled_as_it_is();
	what_shrinks_by_a_little_more_is_encoded_for_the_disk();
	what_shrinks_by_a_little_more_crosses_the_link_as_told();
	frames_of_what_is_only_read_are_as_told();
	data_bytes = SMALL;
	what_is_only_read_goes_out_once();
	nothing_is_compressed_unless_asked_for();
	what_is_spilled_stays_encoded(SETTINGS "always");
	files_have_the_bytes_as_they_are();
	kernels_reach_frames_as_they_are();
	a_small_budget_does_without();
	cuda_test_close(&t, NULL);
	return 0;
}

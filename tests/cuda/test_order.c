/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of copies, on the device itself and without a wait that the contract does not
 * promise. On the stand-in driver copies are slow (the program runs itself with
 * CUDA_STANDIN_COPY_BYTES_PER_S set). A copy that wrongly does not wait for another one is done
 * first, and its data show it. Nothing is timed: a long copy is put before a short one, and the
 * test checks which is done first. The stand-in holds copies back where a test asks what is under way.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/interpose.h"
#include "cuda/device_alone.h"

#define K     0x9e3779b97f4a7c15ull
#define CHUNK ((uint64_t)SL_GRANULE_BYTES)
#define LONG  (16 * CHUNK)

static struct sl_frame *
frame_with(uint64_t bytes, uint64_t seed)
{
	struct sl_frame *frame;
	uint64_t *words;

	CHECK_OK(dev->ops->frame_get(dev, bytes, &frame));
	words = frame->data;
	for (uint64_t i = 0; i < bytes / 8; i++)
		words[i] = i * K + seed;
	return frame;
}

static int
words_are(const uint64_t *words, uint64_t bytes, uint64_t seed)
{
	for (uint64_t i = 0; i < bytes / 8; i++)
		if (words[i] != i * K + seed)
			return 0;
	return 1;
}

/* Whether a present chunk has these words: behind its own move, and waiting for nothing else. */
static int
chunk_is(const void *addr, uint64_t bytes, uint64_t seed)
{
	uint64_t *words = chunk_read(addr, bytes, sl_fence_newest(dev, SL_COPIES_IN));
	int are = words_are(words, bytes, seed);

	free(words);
	return are;
}

static void
fence_await(struct sl_fence fence)
{
	struct sl_stream *stream;

	CHECK_OK(dev->ops->stream_create(dev, &stream));
	CHECK_OK(dev->native->gate(stream, fence));
	CHECK_OK(dev->ops->stream_synchronize(stream));
	dev->ops->stream_destroy(stream);
}

/* A GPU cannot hold its copies: there they may be over when they are asked for. */
static void
copies_hold(int which)
{
	if (t.standin)
		t.standin->copies_hold(which);
}

/* ---- tests -------------------------------------------------------------------------------- */

static void
both_directions_are_under_way_at_once(void)
{
	struct out out = OUT;
	struct sl_frame *to, *small;
	struct sl_fence move;

	device_open(512 * MIB);
	to = frame_with(LONG, 0);
	/* Memory for the short one is there: what is made anew waits for memory that is given back. */
	CHECK_OK(dev->ops->present(dev, base + 128 * MIB, CHUNK, NULL, 0));
	CHECK_OK(dev->ops->present(dev, base, LONG, frame_with(LONG, 1), 0));
	CHECK_OK(dev->ops->absent(dev, base + 128 * MIB, CHUNK, NULL, SL_ABSENT_DISCARD));
	/* A long copy out: a short one in, begun later, is done before it. */
	fence_await(sl_fence_newest(dev, SL_COPIES_IN));
	copies_hold(SL_STANDIN_COPIES_OUT);
	CHECK_OK(out_begin(&out, dev->async->absent_start, base, LONG, to));
	CHECK_OK(dev->ops->present(dev, base + 128 * MIB, CHUNK, frame_with(CHUNK, 3), 0));
	fence_await(sl_fence_newest(dev, SL_COPIES_IN));
	CHECK(!t.standin || !out_is_done(&out));
	copies_hold(0);
	out_await(&out);
	CHECK(words_are(to->data, LONG, 1));
	/* And the other way round. */
	copies_hold(SL_STANDIN_COPIES_IN);
	CHECK_OK(dev->ops->present(dev, base, LONG, to, 0));
	move = sl_fence_newest(dev, SL_COPIES_IN);
	small = frame_with(CHUNK, 0);
	CHECK_OK(out_begin(&out, dev->async->absent_start, base + 128 * MIB, CHUNK, small));
	out_await(&out);
	CHECK(!t.standin || !sl_fence_is_done(dev, move));
	copies_hold(0);
	CHECK(words_are(small->data, CHUNK, 3));
	CHECK(chunk_is(base, LONG, 1));
	CHECK(dev->progress->queue[SL_COPIES_IN].done <=
	      sl_fence_newest(dev, SL_COPIES_IN).value);
	dev->ops->frame_put(dev, small);
	device_close();
}

/* The streams of copies are busy with something long: what comes next queues. */
static void
out_is_kept_busy(struct out *out, struct sl_frame **to)
{
	CHECK_OK(dev->ops->present(dev, base, LONG, frame_with(LONG, 5), 0));
	fence_await(sl_fence_newest(dev, SL_COPIES_IN));
	*to = frame_with(LONG, 6);
	CHECK_OK(out_begin(out, dev->async->absent_start, base, LONG, *to));
}

static void
copy_in_waits_for_the_copy_out_of_its_slab(void)
{
	struct out long_out = OUT, out = OUT;

	device_open(512 * MIB);
	for (int round = 0; round < 2; round++) {
		struct sl_frame *to = frame_with(CHUNK, 0), *long_to;
		char *a = base + 128 * MIB, *b = base + 160 * MIB;

		CHECK_OK(dev->ops->present(dev, a, CHUNK, frame_with(CHUNK, 11), 0));
		out_is_kept_busy(&long_out, &long_to);
		copies_hold(SL_STANDIN_COPIES_IN | SL_STANDIN_COPIES_OUT);
		CHECK_OK(out_begin(&out, dev->async->absent_start, a, CHUNK, to));
		/* The only free slab is the one that is on its way out. */
		if (t.standin)
			t.standin->calls_reset();
		if (round)
			CHECK_OK(dev->ops->present(dev, b, CHUNK, NULL, 0));
		else
			CHECK_OK(dev->ops->present(dev, b, CHUNK, frame_with(CHUNK, 12), 0));
		if (t.standin && !round)
			CHECK(t.standin->calls("cuStreamWaitEvent") >= 1);
		copies_hold(0);
		fence_await(sl_fence_newest(dev, SL_COPIES_IN));
		out_await(&out);
		CHECK(words_are(to->data, CHUNK, 11));
		if (!round)
			CHECK(chunk_is(b, CHUNK, 12));
		out_await(&long_out);
		CHECK(words_are(long_to->data, LONG, 5));
		dev->ops->frame_put(dev, to);
		dev->ops->frame_put(dev, long_to);
		CHECK_OK(dev->ops->absent(dev, b, CHUNK, NULL, SL_ABSENT_DISCARD));
	}
	device_close();
}

static void
chunk_of_any_contents_waits_for_the_copy_out_of_its_slab(void)
{
	struct out long_out = OUT, out = OUT;
	struct sl_frame *to, *long_to;
	struct sl_stream *stream;

	device_open(512 * MIB);
	to = frame_with(CHUNK, 0);
	CHECK_OK(dev->ops->present(dev, base + 128 * MIB, CHUNK, frame_with(CHUNK, 21), 0));
	out_is_kept_busy(&long_out, &long_to);
	copies_hold(SL_STANDIN_COPIES_IN | SL_STANDIN_COPIES_OUT);
	CHECK_OK(out_begin(&out, dev->async->absent_start, base + 128 * MIB, CHUNK, to));
	CHECK_OK(dev->ops->present(dev, base + 160 * MIB, CHUNK, NULL, SL_PRESENT_UNDEFINED));
	CHECK(!t.standin ||
	      dev->async->ready_at(dev, base + 160 * MIB).queue == SL_COPIES_OUT);
	copies_hold(0);
	CHECK_OK(dev->ops->stream_create(dev, &stream));
	CHECK_OK(dev->native->gate(stream, dev->async->ready_at(dev, base + 160 * MIB)));
	cuda_test_launch_on(&t, dev->native->handle(stream), TEST_FILL,
			    (uintptr_t)base + 160 * MIB, CHUNK / 8, 22);
	CHECK_OK(dev->ops->stream_synchronize(stream));
	out_await(&out);
	CHECK(words_are(to->data, CHUNK, 21));
	CHECK(chunk_is(base + 160 * MIB, CHUNK, 22));
	out_await(&long_out);
	dev->ops->stream_destroy(stream);
	dev->ops->frame_put(dev, to);
	dev->ops->frame_put(dev, long_to);
	device_close();
}

/* A kernel behind what the chunk has to wait for writes it; its words stay, whatever was under way. */
static void
chunk_is_written_and_stays_so(char *addr, uint64_t seed)
{
	struct sl_stream *stream;

	CHECK_OK(dev->ops->stream_create(dev, &stream));
	CHECK_OK(dev->native->gate(stream, dev->async->ready_at(dev, addr)));
	cuda_test_launch_on(&t, dev->native->handle(stream), TEST_FILL, (uintptr_t)addr,
			    CHUNK / 8, seed);
	CHECK_OK(dev->ops->stream_synchronize(stream));
	dev->ops->stream_destroy(stream);
	fence_await(sl_fence_newest(dev, SL_COPIES_IN));
	CHECK(chunk_is(addr, CHUNK, seed));
}

/* Dropped before it had come: its slab is still being filled, and may even have left once more since. */
static void
chunk_of_any_contents_waits_for_the_copy_in_to_its_slab(int leaves_once_more)
{
	char *a, *b, *c;
	struct sl_frame *kept, *to;
	struct out out = OUT;

	device_open(512 * MIB);
	a = base + 128 * MIB;
	b = base + 160 * MIB;
	c = base + 192 * MIB;
	kept = frame_with(CHUNK, 24);
	to = frame_with(CHUNK, 0);
	CHECK_OK(dev->ops->present(dev, base, LONG, NULL, 0)); /* its slab takes no room later */
	CHECK_OK(dev->ops->present(dev, a, CHUNK, NULL,
				   SL_PRESENT_UNDEFINED)); /* a copy out that is over says nothing */
	CHECK_OK(out_begin(&out, dev->async->absent_start, a, CHUNK, to));
	out_await(&out);
	CHECK_OK(dev->ops->absent(dev, base, LONG, NULL, SL_ABSENT_DISCARD));
	copies_hold(SL_STANDIN_COPIES_IN | SL_STANDIN_COPIES_OUT);
	CHECK_OK(dev->ops->present(dev, base, LONG, frame_with(LONG, 23), 0));
	CHECK_OK(dev->ops->present(dev, a, CHUNK, kept, SL_PRESENT_KEEP));
	CHECK_OK(dev->ops->absent(dev, a, CHUNK, kept, SL_ABSENT_KEPT));
	/* The only free slab is the one that is still on its way in. */
	CHECK_OK(dev->ops->present(dev, b, CHUNK, NULL, SL_PRESENT_UNDEFINED));
	CHECK(!t.standin || (dev->async->ready_at(dev, b).queue == SL_COPIES_IN &&
			     dev->async->ready_at(dev, b).value ==
				     sl_fence_newest(dev, SL_COPIES_IN).value));
	copies_hold(0);
	if (leaves_once_more) {
		CHECK_OK(out_begin(&out, dev->async->absent_start, b, CHUNK, to));
		CHECK_OK(dev->ops->present(dev, c, CHUNK, NULL, SL_PRESENT_UNDEFINED));
		chunk_is_written_and_stays_so(c, 26);
		out_await(&out);
	} else {
		chunk_is_written_and_stays_so(b, 25);
	}
	CHECK(chunk_is(base, LONG, 23));
	CHECK(words_are(kept->data, CHUNK, 24));
	dev->ops->frame_put(dev, kept);
	dev->ops->frame_put(dev, to);
	device_close();
}

static void
frame_that_was_given_back_is_not_written_while_a_copy_reads_it(uint64_t cache_bytes)
{
	struct sl_frame *frames[4], *frame;
	char *a;

	device_open(cache_bytes);
	a = base + 128 * MIB;
	for (uint64_t round = 0; round < 3; round++) {
		CHECK_OK(dev->ops->present(dev, base, LONG, frame_with(LONG, 31), 0));
		/* Behind the long one: consumed at once, read later. */
		CHECK_OK(dev->ops->present(dev, a, CHUNK, frame_with(CHUNK, 32 + round), 0));
		for (int i = 0; i < 4; i++)
			frames[i] = frame_with(CHUNK, 99);
		for (int i = 0; i < 4; i++)
			dev->ops->frame_put(dev, frames[i]);
		CHECK(chunk_is(a, CHUNK, 32 + round));
		CHECK(chunk_is(base, LONG, 31));
		/* Kept: it is ours again behind the copy in, and a copy out may have it. */
		CHECK_OK(dev->ops->absent(dev, base, LONG, NULL, SL_ABSENT_DISCARD));
		CHECK_OK(dev->ops->absent(dev, a, CHUNK, NULL, SL_ABSENT_DISCARD));
		CHECK_OK(dev->ops->present(dev, base, LONG, frame_with(LONG, 41), 0));
		frame = frame_with(CHUNK, 42);
		CHECK_OK(dev->ops->present(dev, a, CHUNK, frame, SL_PRESENT_KEEP));
		CHECK_OK(dev->ops->absent(dev, a, CHUNK, frame, SL_ABSENT_COPY));
		CHECK(words_are(frame->data, CHUNK, 42));
		CHECK_OK(dev->ops->present(dev, a, CHUNK, frame, SL_PRESENT_KEEP));
		CHECK_OK(dev->ops->absent(dev, a, CHUNK, frame, SL_ABSENT_KEPT));
		CHECK(words_are(frame->data, CHUNK, 42));
		dev->ops->frame_put(dev, frame);
		CHECK_OK(dev->ops->absent(dev, base, LONG, NULL, SL_ABSENT_DISCARD));
	}
	device_close();
}

static void
slab_of_a_chunk_that_went_before_it_had_come_is_clean(void)
{
	char *a, *b;

	device_open(512 * MIB);
	a = base + 128 * MIB;
	b = base + 160 * MIB;
	CHECK_OK(dev->ops->present(dev, base, LONG, frame_with(LONG, 1), 0));
	CHECK_OK(dev->ops->present(dev, a, CHUNK, frame_with(CHUNK, 2), 0));
	CHECK_OK(dev->ops->absent(dev, a, CHUNK, NULL, SL_ABSENT_DISCARD));
	CHECK_OK(dev->ops->present(dev, b, CHUNK, frame_with(CHUNK, 3), 0));
	CHECK_OK(dev->ops->present(dev, a, CHUNK, frame_with(CHUNK, 4), 0));
	CHECK(chunk_is(b, CHUNK, 3));
	CHECK(chunk_is(a, CHUNK, 4));
	device_close();
}

/* More moves than are numbered at once, both ways, and every one ends once. */
static void
many_moves_end_once_each_with_their_contents(void)
{
	enum { CHUNKS = 6, MOVES = 300 };
	struct out out[CHUNKS] = {OUT, OUT, OUT, OUT, OUT, OUT};
	struct sl_frame *frame[CHUNKS];
	uint64_t seed[CHUNKS];

	device_open(64 * MIB);
	for (int i = 0; i < CHUNKS; i++)
		frame[i] = frame_with(CHUNK, seed[i] = (uint64_t)i);
	for (int n = 0; n < MOVES; n++) {
		int i = n % CHUNKS;
		char *addr = base + (uint64_t)i * CHUNK;

		if (n >= CHUNKS)
			out_await(&out[i]);
		if (n % 37 == 0)
			CHECK(words_are(frame[i]->data, CHUNK, seed[i]));
		if (n % 97 == 5) {
			dev->ops->frame_put(dev, frame[i]);
			frame[i] = frame_with(CHUNK, seed[i] = (uint64_t)n);
		}
		CHECK_OK(dev->ops->present(dev, addr, CHUNK, frame[i], SL_PRESENT_KEEP));
		CHECK_OK(out_begin(&out[i], dev->async->absent_start, addr, CHUNK, frame[i]));
	}
	for (int i = 0; i < CHUNKS; i++) {
		out_await(&out[i]);
		CHECK(words_are(frame[i]->data, CHUNK, seed[i]));
		dev->ops->frame_put(dev, frame[i]);
	}
	CHECK(sl_fence_newest(dev, SL_COPIES_IN).value == MOVES);
	device_close();
}

static void
launch_behind_a_prefetch_waits_for_its_copies(void)
{
	struct sluice_space *s = cuda_test_space(32, 64, NULL);
	uint64_t n = 8 * MIB / 8, word = cuda_test_word(&t), sum = 0;
	struct sluice_residency where;
	uint64_t *p;

	CHECK_OK(sluice_alloc(s, n * 8, 0, (void **)&p));
	for (uint64_t i = 0; i < n; i++) {
		p[i] = i * K;
		sum += p[i];
	}
	CHECK_OK(sluice_prefetch(s, p, n * 8, SLUICE_TIER_DEVICE, NULL));
	do {
		usleep(200);
		CHECK_OK(sluice_residency(s, p, n * 8, &where));
	} while (where.tier_bytes[SLUICE_TIER_DEVICE] < n * 8);
	cuda_test_run(&t, s, NULL, TEST_SUM, p, n, word, SLUICE_USE_READ);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_word_read(&t, word) == sum);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_LAUNCHES_RESIDENT) == 1);
	cuda_test_word_free(&t, word);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* Its copies are on their way; of all of it. */
static uint64_t *
prefetched(struct sluice_space *s, uint64_t n)
{
	struct sluice_residency where;
	uint64_t *p;

	CHECK_OK(sluice_alloc(s, n * 8, 0, (void **)&p));
	for (uint64_t i = 0; i < n; i++)
		p[i] = i * K;
	CHECK_OK(sluice_prefetch(s, p, n * 8, SLUICE_TIER_DEVICE, NULL));
	do
		CHECK_OK(sluice_residency(s, p, n * 8, &where));
	while (where.tier_bytes[SLUICE_TIER_DEVICE] < n * 8);
	return p;
}

/* A prefetch that nobody needed, and whose copies are still on their way when its room is taken. */
static void
launch_that_writes_where_a_prefetch_is_still_to_come_keeps_what_it_writes(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "chunk=2M");
	uint64_t n = 8 * MIB / 8;
	uint64_t *p, *q;

	CHECK_OK(sluice_alloc(s, n * 8, 0, (void **)&q));
	p = prefetched(s, n);
	cuda_test_run(&t, s, NULL, TEST_FILL, q, n, 1, SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	(void)cuda_test_residency(s, q, n * 8);
	for (uint64_t i = 0; i < n; i++)
		CHECK(q[i] == i * K + 1 && p[i] == i * K);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_unmap(s, q));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* The same without a launch that could be held back: who uses what is populated asks nobody. */
static void
what_is_populated_is_anybodys_at_once(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "chunk=2M");
	uint64_t n = 8 * MIB / 8;
	uint64_t *p = prefetched(s, n), *q;

	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_alloc(s, n * 8, 0, (void **)&q));
	CHECK_OK(sl_populate(s, q, n * 8));
	cuda_test_launch_on(&t, NULL, TEST_FILL, (uintptr_t)q, n, 1);
	CHECK_OK(SL_CUDA(t.driver, cuStreamSynchronize, NULL));
	(void)cuda_test_residency(s, q, n * 8);
	for (uint64_t i = 0; i < n; i++)
		CHECK(q[i] == i * K + 1);
	CHECK_OK(sluice_unmap(s, q));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
what_is_pinned_is_there_when_the_pin_returns(void)
{
	struct sluice_space *s = cuda_test_space(32, 64, "chunk=2M");
	uint64_t bytes = 16 * MIB, *p, *seen = malloc(bytes);

	CHECK(seen);
	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&p));
	for (uint64_t i = 0; i < bytes / 8; i++)
		p[i] = i * K + 27;
	CHECK_OK(sluice_pin(s, p, bytes));
	CHECK_OK(SL_CUDA(t.driver, cuMemcpyDtoHAsync, seen, (uintptr_t)p, bytes, NULL));
	CHECK_OK(SL_CUDA(t.driver, cuStreamSynchronize, NULL));
	CHECK(words_are(seen, bytes, 27));
	CHECK_OK(sluice_unpin(s, p, bytes));
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
	free(seen);
}

/* Chunks are the device's as soon as their copies are enqueued; what is not in flight is there. */
static void
what_is_on_the_device_and_not_in_flight_has_arrived(void)
{
	struct sluice_space *s = cuda_test_space(32, 64, NULL);
	uint64_t bytes = 16 * MIB, last = bytes / 8 - 1, word = 0;
	struct sluice_residency where;
	uint64_t *p;

	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&p));
	for (uint64_t i = 0; i <= last; i++)
		p[i] = i * K;
	CHECK_OK(sluice_prefetch(s, p, bytes, SLUICE_TIER_DEVICE, NULL));
	do {
		CHECK_OK(sluice_residency(s, p, bytes, &where));
	} while (where.tier_bytes[SLUICE_TIER_DEVICE] < bytes || where.in_flight_bytes);
	if (t.standin) {
		CHECK(!t.standin->peek(t.device, (uintptr_t)(p + last), &word, sizeof(word)));
		CHECK(word == last * K);
	}
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

struct reaper {
	struct sluice_space *space;
	atomic_int stop;
};

static void *
scopes_are_reaped(void *arg)
{
	struct reaper *reaper = arg;

	while (!atomic_load(&reaper->stop))
		CHECK_OK(sluice_stream_synchronize(reaper->space, NULL));
	return NULL;
}

/* Whoever looks after ended scopes hands in those of all streams. */
static void
stream_goes_while_another_thread_hands_in_its_scopes(void)
{
	struct reaper reaper = {.space = cuda_test_space(16, 64, "chunk=2M")};
	const char *late = getenv("CUDA_STANDIN_LATE_US");
	unsigned rounds = late && atoi(late) ? 20 : 400;
	struct sluice_space *s = reaper.space;
	pthread_t thread;
	uint64_t *p;

	CHECK_OK(sluice_alloc(s, 2 * MIB, 0, (void **)&p));
	CHECK(!pthread_create(&thread, NULL, scopes_are_reaped, &reaper));
	for (unsigned i = 0; i < rounds; i++) {
		struct sluice_stream *stream;

		CHECK_OK(sluice_stream_create(s, &stream));
		for (unsigned k = 0; k < 3; k++)
			cuda_test_run(&t, s, stream, TEST_FILL, p, 64, i, SLUICE_USE_WRITE);
		sluice_stream_destroy(stream);
	}
	atomic_store(&reaper.stop, 1);
	CHECK(!pthread_join(thread, NULL));
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
run(void)
{
	cuda_test_open(&t);
	both_directions_are_under_way_at_once();
	copy_in_waits_for_the_copy_out_of_its_slab();
	chunk_of_any_contents_waits_for_the_copy_out_of_its_slab();
	chunk_of_any_contents_waits_for_the_copy_in_to_its_slab(0);
	chunk_of_any_contents_waits_for_the_copy_in_to_its_slab(1);
	frame_that_was_given_back_is_not_written_while_a_copy_reads_it(512 * MIB);
	frame_that_was_given_back_is_not_written_while_a_copy_reads_it(2 * MIB);
	slab_of_a_chunk_that_went_before_it_had_come_is_clean();
	many_moves_end_once_each_with_their_contents();
	launch_behind_a_prefetch_waits_for_its_copies();
	launch_that_writes_where_a_prefetch_is_still_to_come_keeps_what_it_writes();
	what_is_populated_is_anybodys_at_once();
	what_is_pinned_is_there_when_the_pin_returns();
	what_is_on_the_device_and_not_in_flight_has_arrived();
	stream_goes_while_another_thread_hands_in_its_scopes();
	cuda_test_close(&t, NULL);
}

int
main(int argc, char **argv)
{
	static const char *const rates[] = {"1G", "0"};
	int status;
	pid_t pid;

	(void)argv;
	if (argc > 1 || !getenv("SLUICE_CUDA_LIBRARY")) {
		run();
		return 0;
	}
	/* Slow copies; then fast ones, but late. */
	for (int i = 0; i < 2; i++) {
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			setenv("CUDA_STANDIN_COPY_BYTES_PER_S", rates[i], 1);
			setenv("CUDA_STANDIN_LATE_US", i ? "20000" : "0", 1);
			setenv("CUDA_STANDIN_FILL", "165", 1);
			execl("/proc/self/exe", "test_order", "once", (char *)NULL);
			_exit(127);
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	}
	return 0;
}

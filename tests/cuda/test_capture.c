/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that capture graphs beside the space, or launch them on managed data. The library's
 * work on any thread neither goes into a graph nor spoils a capture. A graph between
 * sluice_launch_begin() and sluice_launch_end() finds its data wherever they were.
 *
 * The same runs on a GPU. Where the stand-in counts calls, it is asked; a GPU shows only the
 * results.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/interpose.h"
#include "cuda/cuda_test.h"

#define K      0x9e3779b97f4a7c15ull
#define TILE   (2 * MIB)
#define WORDS  (TILE / 8)
#define TILES  12
#define ROUNDS 300

static struct cuda_test t;

static void
pause_ms(unsigned ms)
{
	struct timespec pause = {.tv_nsec = (long)ms * 1000000};

	nanosleep(&pause, NULL);
}

/* Until the library has asked more than n times whether a stream is captured. */
static void
captures_asked(uint64_t n)
{
	if (!t.standin)
		pause_ms(50);
	for (int i = 0; t.standin && t.standin->calls("cuStreamIsCapturing") <= n; i++) {
		CHECK(i < 20000);
		pause_ms(1);
	}
}

static struct cu_graph *
capture_end(struct cu_stream *stream, size_t nodes)
{
	struct cu_graph *graph;
	size_t n = 0;

	CHECK_OK(SL_CUDA(t.driver, cuStreamEndCapture, stream, &graph));
	CHECK_OK(SL_CUDA(t.driver, cuGraphGetNodes, graph, NULL, &n));
	CHECK(n == nodes);
	return graph;
}

static struct cu_graph_exec *
graph_make(struct cu_graph *graph)
{
	struct cu_graph_exec *exec;

	CHECK_OK(SL_CUDA(t.driver, cuGraphInstantiate, &exec, graph, 0));
	CHECK_OK(SL_CUDA(t.driver, cuGraphDestroy, graph));
	return exec;
}

/* ---- scopes that are not collected yet --------------------------------------------------- */

struct toucher {
	const uint64_t *word;
	uint64_t value;
	_Atomic int done;
};

static void *
toucher_main(void *arg)
{
	struct toucher *toucher = arg;

	toucher->value = *(const volatile uint64_t *)toucher->word;
	atomic_store(&toucher->done, 1);
	return NULL;
}

/*
 * Scopes of a stream have ended, nobody has asked for their pins yet, and the stream, or one that it
 * would wait for, is captured when host code does.
 */
static void
scopes_ended_before_the_capture_are_not_in_the_graph(unsigned flags, int on_legacy)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	struct sluice_stream *stream = NULL;
	struct cu_stream *native;
	struct toucher toucher = {0};
	pthread_t thread;
	uint64_t *p, asked;

	CHECK_OK(SL_CUDA(t.driver, cuStreamCreate, &native, flags));
	CHECK_OK(sluice_alloc(s, 4 * TILE, 0, (void **)&p));
	if (!on_legacy)
		CHECK_OK(sluice_stream_wrap(s, native, &stream));
	cuda_test_run(&t, s, stream, TEST_FILL, p, 4 * WORDS, 5, SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_stream_synchronize(s, stream));
	/* Resident: ends without an event. */
	cuda_test_run(&t, s, stream, TEST_ADD, p, 4 * WORDS, 1, SLUICE_USE_READ_WRITE);
	CHECK_OK(SL_CUDA(t.driver, cuStreamBeginCapture, native, CU_CAPTURE_MODE_GLOBAL));
	cuda_test_launch_on(&t, native, TEST_ADD, (uintptr_t)p, WORDS, 100);
	asked = t.standin ? t.standin->calls("cuStreamIsCapturing") : 0;
	toucher.word = p + 7;
	CHECK(!pthread_create(&thread, NULL, toucher_main, &toucher));
	captures_asked(asked + 3); /* the thread's, and again and again the completer's */
	CHECK(!atomic_load(&toucher.done)); /* it cannot be known that the kernel has ended */
	CHECK_OK(SL_CUDA(t.driver, cuGraphDestroy, capture_end(native, 1)));
	pthread_join(thread, NULL);
	CHECK(toucher.value == 7 * K + 6);
	sluice_stream_destroy(stream);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
	CHECK_OK(SL_CUDA(t.driver, cuStreamDestroy, native));
}

struct recorder {
	struct sluice_space *space;
	_Atomic int stop;
};

static void *
recorder_main(void *arg)
{
	struct recorder *recorder = arg;

	while (!atomic_load(&recorder->stop))
		sl_ends_record(recorder->space);
	return NULL;
}

/* Ends that another thread is about to record are recorded when sl_ends_record() returns: behind a capture that
 * begins then, they could not be before that is over, and whoever captures may wait for what they hold. */
static void
ends_are_recorded_before_a_capture_whoever_records_them(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	struct recorder recorder = {.space = s};
	struct sluice_stream *stream;
	struct sluice_launch *l;
	struct cu_stream *native;
	struct sluice_use use;
	pthread_t thread;
	uint64_t *p;

	CHECK_OK(SL_CUDA(t.driver, cuStreamCreate, &native, CU_STREAM_NONBLOCKING));
	CHECK_OK(sluice_stream_wrap(s, native, &stream));
	CHECK_OK(sluice_alloc(s, TILE, 0, (void **)&p));
	use = (struct sluice_use){p, TILE, SLUICE_USE_READ_WRITE};
	CHECK(!pthread_create(&thread, NULL, recorder_main, &recorder));
	alarm(300); /* it would wait for ever */
	for (unsigned i = 0; i < ROUNDS; i++) {
		CHECK_OK(sluice_pin(s, p, TILE));
		CHECK_OK(sluice_unpin(s, p, TILE));
		/* Resident: its end is not recorded at once. */
		CHECK_OK(sluice_launch_begin(s, stream, &use, 1, &l));
		sluice_launch_end(l);
		sl_ends_record(s);
		CHECK_OK(SL_CUDA(t.driver, cuStreamBeginCapture, native,
				 CU_CAPTURE_MODE_THREAD_LOCAL));
		CHECK_OK(sluice_evict(s, p, TILE, SLUICE_TIER_HOST, NULL));
		CHECK_OK(SL_CUDA(t.driver, cuGraphDestroy, capture_end(native, 0)));
	}
	alarm(0);
	atomic_store(&recorder.stop, 1);
	pthread_join(thread, NULL);
	sluice_stream_destroy(stream);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
	CHECK_OK(SL_CUDA(t.driver, cuStreamDestroy, native));
}

/* Nothing of ours goes on the legacy stream while it would wait for a captured one. */
static void
the_default_stream_is_left_alone_while_another_is_captured(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	struct sluice_event *event;
	struct cu_stream *native;

	CHECK_OK(SL_CUDA(t.driver, cuStreamCreate, &native, CU_STREAM_PLAIN));
	CHECK_OK(sluice_event_create(s, &event));
	CHECK_OK(SL_CUDA(t.driver, cuStreamBeginCapture, native, CU_CAPTURE_MODE_GLOBAL));
	CHECK(sluice_event_record(s, NULL, event) == -EBUSY);
	CHECK(strstr(sluice_last_error(), "captured into a graph") != NULL);
	CHECK(sluice_event_wait(s, NULL, event) == -EBUSY);
	CHECK(sluice_stream_synchronize(s, NULL) == -EBUSY);
	CHECK_OK(SL_CUDA(t.driver, cuGraphDestroy, capture_end(native, 0)));
	CHECK_OK(sluice_event_record(s, NULL, event));
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	sluice_event_destroy(event);
	CHECK_OK(SL_CUDA(t.driver, cuStreamDestroy, native));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* ---- captures beside the space ----------------------------------------------------------- */

struct worker {
	struct sluice_space *space;
	uint64_t *p;
	_Atomic unsigned rounds;
	_Atomic int stop;
};

/* Launches that do not fit one beside the other, and host code that touches what they wrote. */
static void *
worker_main(void *arg)
{
	struct worker *w = arg;
	struct sluice_stream *stream;

	CHECK_OK(SL_CUDA(t.driver, cuCtxSetCurrent, t.context));
	CHECK_OK(sluice_stream_create(w->space, &stream));
	for (unsigned round = 0; !atomic_load(&w->stop); round++) {
		for (unsigned i = 0; i < TILES; i++)
			cuda_test_run(&t, w->space, stream, TEST_FILL, w->p + i * WORDS,
				      WORDS, round, SLUICE_USE_WRITE_ALL);
		CHECK(w->p[(round % TILES) * WORDS + 9] == 9 * K + round);
		atomic_fetch_add(&w->rounds, 1);
	}
	sluice_stream_destroy(stream);
	return NULL;
}

static void
moves_on_other_threads_do_not_spoil_a_global_capture(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "measure=1");
	struct worker w = {.space = s};
	struct cu_stream *native;
	pthread_t thread;
	int mode;

	CHECK_OK(SL_CUDA(t.driver, cuStreamCreate, &native, CU_STREAM_NONBLOCKING));
	CHECK_OK(sluice_alloc(s, TILES * TILE, 0, (void **)&w.p));
	CHECK(!pthread_create(&thread, NULL, worker_main, &w));
	for (unsigned i = 0; i < 6; i++) {
		unsigned before;

		/* The worker's own launches are safe calls; all that the library does for them is not. */
		CHECK_OK(SL_CUDA(t.driver, cuStreamBeginCapture, native,
				 CU_CAPTURE_MODE_GLOBAL));
		cuda_test_launch_on(&t, native, TEST_ADD, (uintptr_t)w.p, WORDS, 1);
		before = atomic_load(&w.rounds);
		while (atomic_load(&w.rounds) < before + 2)
			pause_ms(1);
		/* The capturing thread may call the library, too. */
		CHECK_OK(sluice_prefetch(s, w.p + i * WORDS, TILE, SLUICE_TIER_HOST, NULL));
		CHECK_OK(SL_CUDA(t.driver, cuGraphDestroy, capture_end(native, 1)));
		/* And has the mode that it had. */
		mode = i % 3;
		CHECK_OK(SL_CUDA(t.driver, cuThreadExchangeStreamCaptureMode, &mode));
		CHECK_OK(sluice_prefetch(s, w.p, TILE, SLUICE_TIER_HOST, NULL));
		(void)*(volatile uint64_t *)w.p; /* shown to this thread */
		CHECK_OK(SL_CUDA(t.driver, cuThreadExchangeStreamCaptureMode, &mode));
		CHECK(mode == (int)(i % 3));
	}
	atomic_store(&w.stop, 1);
	pthread_join(thread, NULL);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK_OK(SL_CUDA(t.driver, cuStreamDestroy, native));
	CHECK_OK(sluice_unmap(s, w.p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
a_resident_launch_asks_for_captures_and_nothing_else(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	struct sluice_stream *stream;
	struct sluice_launch *l;
	struct sluice_use use;
	uint64_t *p;

	CHECK_OK(sluice_stream_create(s, &stream));
	CHECK_OK(sluice_alloc(s, TILE, 0, (void **)&p));
	use = (struct sluice_use){p, TILE, SLUICE_USE_READ_WRITE};
	cuda_test_run(&t, s, NULL, TEST_FILL, p, WORDS, 5, SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l)); /* sees that it has arrived */
	sluice_launch_end(l);
	if (t.standin)
		t.standin->calls_reset();
	for (int i = 0; i < 10; i++) {
		CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
		sluice_launch_end(l);
	}
	CHECK(!t.standin || t.standin->calls("*") == 0);
	for (int i = 0; i < 10; i++) {
		CHECK_OK(sluice_launch_begin(s, stream, &use, 1, &l));
		sluice_launch_end(l);
	}
	CHECK(!t.standin || (t.standin->calls("*") == 30 &&
			     t.standin->calls("cuStreamIsCapturing") == 10));
	CHECK_OK(sluice_stream_synchronize(s, stream));
	sluice_stream_destroy(stream);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* ---- graphs on managed data -------------------------------------------------------------- */

/* A graph of n tiles from p: each is added to, the first is copied behind the last, a word set. */
static struct cu_graph_exec *
graph_of(struct cu_stream *native, uint64_t *p, unsigned n)
{
	CHECK_OK(SL_CUDA(t.driver, cuStreamBeginCapture, native, CU_CAPTURE_MODE_GLOBAL));
	for (unsigned i = 0; i < n; i++)
		cuda_test_launch_on(&t, native, TEST_ADD, (uintptr_t)(p + i * WORDS),
				    WORDS, 1);
	CHECK_OK(SL_CUDA(t.driver, cuMemcpyDtoDAsync, (uintptr_t)(p + n * WORDS),
			 (uintptr_t)p, TILE, native));
	CHECK_OK(SL_CUDA(t.driver, cuMemsetD32Async, (uintptr_t)(p + n * WORDS), 7, 2,
			 native));
	return graph_make(capture_end(native, n + 2));
}

static void
a_graph_finds_its_data_wherever_they_were(void)
{
	enum { N = 3, GRAPHS = 3, EACH = (N + 1) * WORDS };
	struct sluice_space *s = cuda_test_space(12, 64, NULL); /* one graph's at a time */
	struct cu_graph_exec *exec[GRAPHS];
	struct sluice_stream *stream;
	struct cu_stream *native;
	struct sluice_launch *l;
	uint64_t *p;

	CHECK_OK(SL_CUDA(t.driver, cuStreamCreate, &native, CU_STREAM_NONBLOCKING));
	CHECK_OK(sluice_stream_wrap(s, native, &stream));
	CHECK_OK(sluice_alloc(s, GRAPHS * EACH * 8, 0, (void **)&p));
	for (unsigned g = 0; g < GRAPHS; g++) {
		for (unsigned i = 0; i <= N; i++)
			cuda_test_run(&t, s, stream, TEST_FILL, p + g * EACH + i * WORDS,
				      WORDS, g * 10 + i, SLUICE_USE_WRITE_ALL);
		/* Copies are checked when they are captured: what they name is there now. */
		CHECK_OK(sluice_stream_synchronize(s, stream));
		exec[g] = graph_of(native, p + g * EACH, N);
	}
	for (unsigned round = 0; round < 4; round++)
		for (unsigned g = 0; g < GRAPHS; g++) {
			struct sluice_use uses[] = {
				{p + g * EACH, N * TILE, SLUICE_USE_READ_WRITE},
				{p + g * EACH + N * WORDS, TILE, SLUICE_USE_WRITE_ALL},
			};

			if (round == 2) /* from the host tier and the host map */
				CHECK(p[g * EACH + 3] == 3 * K + g * 10 + 2);
			if (round == 3)
				CHECK_OK(sluice_evict(s, p + g * EACH, EACH * 8,
						      SLUICE_TIER_STORE, NULL));
			CHECK_OK(sluice_launch_begin(s, stream, uses, 2, &l));
			CHECK_OK(SL_CUDA(t.driver, cuGraphLaunch, exec[g], native));
			sluice_launch_end(l);
		}
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_D2H_EVICT) > 0);
	for (unsigned g = 0; g < GRAPHS; g++) {
		for (unsigned i = 0; i < N; i++)
			for (uint64_t k = 0; k < WORDS; k += 501)
				CHECK(p[g * EACH + i * WORDS + k] == k * K + g * 10 + i + 4);
		CHECK(p[g * EACH + N * WORDS] == (7ull << 32 | 7));
		for (uint64_t k = 1; k < WORDS; k += 501)
			CHECK(p[g * EACH + N * WORDS + k] == k * K + g * 10 + 4);
		CHECK_OK(SL_CUDA(t.driver, cuGraphExecDestroy, exec[g]));
	}
	sluice_stream_destroy(stream);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
	CHECK_OK(SL_CUDA(t.driver, cuStreamDestroy, native));
}

int
main(void)
{
	cuda_test_open(&t);
	scopes_ended_before_the_capture_are_not_in_the_graph(CU_STREAM_NONBLOCKING, 0);
	scopes_ended_before_the_capture_are_not_in_the_graph(CU_STREAM_PLAIN, 0);
	scopes_ended_before_the_capture_are_not_in_the_graph(CU_STREAM_PLAIN, 1);
	ends_are_recorded_before_a_capture_whoever_records_them();
	the_default_stream_is_left_alone_while_another_is_captured();
	moves_on_other_threads_do_not_spoil_a_global_capture();
	a_resident_launch_asks_for_captures_and_nothing_else();
	a_graph_finds_its_data_wherever_they_were();
	cuda_test_close(&t, NULL);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other users of the GPU: the program's own device memory, streams that it captures, forked
 * children, another process on the same GPU, and host code that touches the data of a kernel.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/failure.h"

static struct cuda_test t;

/* ---- the program's own memory ------------------------------------------------------------ */

static void
a_program_that_also_uses_cumemalloc(void)
{
	struct sluice_space *s;
	uint64_t plain, word, sum = 0;
	uint64_t *p;

	cuda_test_open(&t);
	CHECK_OK(SL_CUDA(t.driver, cuMemAlloc, &plain, TILE));
	s = cuda_test_space(16, 64, NULL);
	word = cuda_test_word(&t);
	CHECK_OK(sluice_alloc(s, 32 * MIB, 0, (void **)&p));
	cuda_test_launch_on(&t, NULL, TEST_FILL, plain, WORDS, 3);
	for (uint64_t at = 0; at < 32 * MIB; at += TILE) {
		struct sluice_use use = {(char *)p + at, TILE, SLUICE_USE_WRITE_ALL};
		struct sluice_launch *l;

		CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
		cuda_test_launch(&t, s, NULL, TEST_COPY, (void *)(uintptr_t)plain, WORDS,
				 (uintptr_t)((char *)p + at));
		sluice_launch_end(l);
	}
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	for (uint64_t at = 0; at < 32 * MIB; at += TILE)
		fill_check(p + at / 8, WORDS, 3);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_destroy(s));
	/* The space has gone, the program's memory has not. */
	cuda_test_launch_on(&t, NULL, TEST_SUM, plain, WORDS, word);
	for (uint64_t i = 0; i < WORDS; i++)
		sum += i * K + 3;
	CHECK(cuda_test_word_read(&t, word) == sum);
	cuda_test_word_free(&t, word);
	CHECK_OK(SL_CUDA(t.driver, cuMemFree, plain));
	cuda_test_close(&t, NULL);
}

/* ---- captured streams --------------------------------------------------------------------- */

static void
nothing(void *arg)
{
	(void)arg;
}

static void
a_captured_stream_is_refused(void)
{
	struct sluice_space *s;
	struct sluice_stream *stream, *own;
	struct sluice_event *event;
	struct cu_stream *native;
	struct sluice_launch *l;
	struct sluice_use use;
	uint64_t calls;
	char *p;

	cuda_test_open(&t);
	s = cuda_test_space(16, 64, NULL);
	CHECK_OK(SL_CUDA(t.driver, cuStreamCreate, &native, CU_STREAM_NONBLOCKING));
	CHECK_OK(sluice_stream_wrap(s, native, &stream));
	CHECK_OK(sluice_stream_create(s, &own));
	CHECK_OK(sluice_event_create(s, &event));
	CHECK_OK(sluice_alloc(s, 8 * MIB, 0, (void **)&p));
	use = (struct sluice_use){p, 4 * MIB, SLUICE_USE_WRITE_ALL};
	for (int resident = 0; resident < 2; resident++) {
		CHECK(t.standin->stream_capture(native, 1) == 0);
		CHECK(t.standin->stream_capture(sluice_stream_native(s, own), 1) == 0);
		t.standin->calls_reset();
		CHECK(sluice_launch_begin(s, stream, &use, 1, &l) == -EBUSY);
		CHECK(error_has("captured into a graph"));
		CHECK(sluice_launch_begin(s, own, &use, 1, &l) == -EBUSY);
		CHECK(sluice_stream_synchronize(s, stream) == -EBUSY);
		CHECK(sluice_stream_callback(s, stream, nothing, NULL) == -EBUSY);
		CHECK(sluice_prefetch(s, p, TILE, SLUICE_TIER_DEVICE, stream) == -EBUSY);
		CHECK(sluice_evict(s, p, TILE, SLUICE_TIER_HOST, stream) == -EBUSY);
		CHECK(sluice_discard(s, p, TILE, SLUICE_DISCARD_LAZY, stream) == -EBUSY);
		calls = t.standin->calls("*") - t.standin->calls("cuStreamIsCapturing") -
			t.standin->calls("cuCtxPushCurrent_v2") -
			t.standin->calls("cuCtxPopCurrent_v2") -
			t.standin->calls("cuEventQuery");
		CHECK(calls == 0); /* nothing enqueued */
		/* Another stream works meanwhile. */
		cuda_test_run(&t, s, NULL, TEST_FILL, p, 4 * MIB / 8, 5,
			      SLUICE_USE_WRITE_ALL);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		CHECK(t.standin->stream_capture(native, 0) == 0);
		CHECK(t.standin->stream_capture(sluice_stream_native(s, own), 0) == 0);
		cuda_test_run(&t, s, stream, TEST_ADD, p, 4 * MIB / 8, 1,
			      SLUICE_USE_READ_WRITE);
		CHECK_OK(sluice_stream_synchronize(s, stream));
	}
	CHECK(((uint64_t *)p)[77] == 77 * K + 6);
	sluice_event_destroy(event);
	sluice_stream_destroy(own);
	sluice_stream_destroy(stream);
	CHECK_OK(SL_CUDA(t.driver, cuStreamDestroy, native));
	CHECK_OK(sluice_unmap(s, p));
	cuda_test_close(&t, s);
}

/* ---- processes ---------------------------------------------------------------------------- */

static void
fork_leaves_the_space_with_the_parent(void)
{
	struct sluice_space *s;
	struct sluice_launch *l;
	struct sluice_use use;
	uint64_t *p, value;
	int status;
	pid_t pid;

	cuda_test_open(&t);
	s = cuda_test_space(16, 64, NULL);
	CHECK_OK(sluice_alloc(s, 8 * MIB, 0, (void **)&p));
	use = (struct sluice_use){p, 8 * MIB, SLUICE_USE_READ_WRITE};
	cuda_test_run(&t, s, NULL, TEST_FILL, p, MIB, 5, SLUICE_USE_WRITE_ALL);
	CHECK(p[MIB / 2] == MIB / 2 * K + 5); /* some shown to host code, some on the device */
	fflush(stdout);
	pid = fork();
	if (!pid) {
		CHECK(sluice_launch_begin(s, NULL, &use, 1, &l) == -ECHILD);
		CHECK(sluice_stream_synchronize(s, NULL) == -ECHILD);
		CHECK(sluice_unmap(s, p) == -ECHILD);
		CHECK(sluice_space_destroy(s) == -ECHILD);
		CHECK(word_read(p + MIB / 2, &value) != 0); /* never zeros, never the parent's */
		CHECK(word_read(p, &value) != 0);
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cuda_test_run(&t, s, NULL, TEST_ADD, p, MIB, 1, SLUICE_USE_READ_WRITE);
	fill_check(p, MIB, 6);
	CHECK_OK(sluice_unmap(s, p));
	cuda_test_close(&t, s);
}

static void
tiles_written_and_read(void)
{
	struct sluice_space *s;
	uint64_t *p;

	cuda_test_open(&t);
	s = cuda_test_space(16, 64, NULL);
	CHECK_OK(sluice_alloc(s, 32 * MIB, 0, (void **)&p));
	for (int round = 0; round < 3; round++) {
		for (uint64_t at = 0; at < 32 * MIB; at += TILE)
			cuda_test_run(&t, s, NULL, TEST_FILL, p + at / 8, WORDS,
				      at + (unsigned)round, SLUICE_USE_WRITE_ALL);
		for (uint64_t at = 0; at < 32 * MIB; at += 4 * TILE)
			fill_check(p + at / 8, WORDS, at + (unsigned)round);
	}
	CHECK_OK(sluice_unmap(s, p));
	cuda_test_close(&t, s);
}

static void
two_processes_on_one_gpu(void)
{
	pid_t pid[2];
	int status;

	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (!pid[i]) {
			tiles_written_and_read();
			fflush(stdout);
			_exit(0);
		}
	}
	for (int i = 0; i < 2; i++) {
		CHECK(waitpid(pid[i], &status, 0) == pid[i]);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

/* ---- host code and what kernels hold ------------------------------------------------------ */

static void
touches_of_what_is_held(const char *config)
{
	struct sluice_space *s;
	struct sluice_launch *l;
	struct sluice_use use;
	uint64_t *p, value;

	s = cuda_test_space(16, 64, config);
	CHECK_OK(sluice_alloc(s, 8 * MIB, 0, (void **)&p));
	cuda_test_run(&t, s, NULL, TEST_FILL, p, MIB, 5, SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	use = (struct sluice_use){p, TILE, SLUICE_USE_READ_WRITE};
	CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
	CHECK(word_read(p + 9, &value) == SIGBUS);
	CHECK(log_has("in a sluice_launch_begin() of this thread"));
	CHECK(word_write(p + 9, 1) == SIGBUS);
	CHECK(!word_read(p + WORDS + 9, &value) && value == (WORDS + 9) * K + 5);
	sluice_launch_end(l);
	CHECK(!word_read(p + 9, &value) && value == 9 * K + 5);
	CHECK_OK(sluice_pin(s, p, TILE));
	CHECK(word_read(p + 9, &value) == SIGBUS);
	CHECK(log_has("which sluice_pin() holds on the device: unpin it first"));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_unpin(s, p, TILE));
	CHECK(!word_write(p + 9, 1));
	CHECK(!word_read(p + 10, &value) && value == 10 * K + 5);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
host_code_cannot_have_what_kernels_hold(void)
{
	cuda_test_open(&t);
	log_catch();
	touches_of_what_is_held("faults=thread");
	touches_of_what_is_held("faults=signal");
	cuda_test_close(&t, NULL);
}

static const struct failure_case cases[] = {
	{"a_program_that_also_uses_cumemalloc", a_program_that_also_uses_cumemalloc, 0,
	 NULL, NULL, NULL, NULL},
	{"a_captured_stream_is_refused", a_captured_stream_is_refused, 1, NULL, NULL,
	 NULL, NULL},
	{"fork_leaves_the_space_with_the_parent", fork_leaves_the_space_with_the_parent,
	 0, NULL, NULL, NULL, NULL},
	{"two_processes_on_one_gpu", two_processes_on_one_gpu, 0, NULL, NULL, NULL, NULL},
	{"host_code_cannot_have_what_kernels_hold",
	 host_code_cannot_have_what_kernels_hold, 0, NULL, NULL, NULL, NULL},
};

int
main(int argc, char **argv)
{
	return failure_main(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}

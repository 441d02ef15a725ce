/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lost context: in the middle of any step of the script (failure_script.h), and by a kernel,
 * whose launch and ranges are named, and while the driver calls host code. Host memory and files keep
 * their contents.
 */
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cuda/failure_script.h"

/* One process for each: a lost context stays lost. */
static void
lost_with(const char *spec)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		cuda_test_open(&script_cuda);
		log_catch();
		if (!script_with("", spec, 1))
			_exit(42);
		fflush(stdout);
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	printf("%s: %s %d\n", spec, WIFSIGNALED(status) ? "signal" : "exit status",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	exit(1);
}

/* script_calls of an undisturbed run. */
static unsigned
calls_of_a_run(void)
{
	int ends[2], status;
	unsigned n = 0;
	pid_t pid;

	CHECK(!pipe(ends));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		cuda_test_open(&script_cuda);
		CHECK(!script_with("", "cuMemMap:1000000", 0));
		CHECK(write(ends[1], &script_calls, sizeof(script_calls)) ==
		      sizeof(script_calls));
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(read(ends[0], &n, sizeof(n)) == sizeof(n));
	close(ends[0]);
	close(ends[1]);
	return n;
}

static void
context_is_lost_at_any_point(void)
{
	static const char *const specs[] = {
		"exec.kernel:1:700",  "exec.kernel:3:700", "exec.kernel:7:719",
		"exec.kernel:12:700", "exec.copy:1:700",   "exec.copy:2:719",
		"exec.copy:5:700",    "exec.copy:9:700",   "exec.memset:1:700",
	};
	unsigned calls = calls_of_a_run();

	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		lost_with(specs[i]);
	/* In the middle of calls, too; the last eighth may be missing from another run. */
	CHECK(calls > 600);
	for (unsigned eighth = 4; eighth < 8; eighth++) {
		char spec[32];

		snprintf(spec, sizeof(spec), "*:%u:700", calls / 8 * eighth);
		lost_with(spec);
	}
}

static void
lost_context_names_launch_and_ranges(void)
{
	struct sluice_space *s;
	struct sluice_launch *l;
	struct sluice_use use;
	uint64_t *p, *q, value;
	char range[64];

	cuda_test_open(&script_cuda);
	log_catch();
	s = cuda_test_space(8, 64, NULL);
	CHECK_OK(sluice_alloc(s, 16 * MIB, 0, (void **)&p));
	CHECK_OK(sluice_alloc(s, 4 * MIB, 0, (void **)&q));
	for (uint64_t i = 0; i < 4 * MIB / 8; i++)
		q[i] = i;
	use = (struct sluice_use){p + WORDS, TILE, SLUICE_USE_WRITE_ALL};
	CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
	cuda_test_launch(&script_cuda, s, NULL, TEST_DELAY, NULL, 0, 50000000);
	/* A pointer that leads nowhere. */
	cuda_test_launch(&script_cuda, s, NULL, TEST_ADD, (char *)p + ((uint64_t)1 << 34),
			 8, 1);
	sluice_launch_end(l);
	CHECK(sluice_stream_synchronize(s, NULL) == -EFAULT);
	CHECK(error_has("CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
	CHECK(error_has("launch 1 ("));
	snprintf(range, sizeof(range), "2097152 of anonymous at %p", (void *)(p + WORDS));
	CHECK(error_has(range));
	CHECK_OK(sluice_space_check(s));
	/* No launch that needs something begins any more; host code has what was in host memory. */
	use.addr = p + 3 * WORDS;
	CHECK(sluice_launch_begin(s, NULL, &use, 1, &l) < 0);
	CHECK(error_has("700"));
	for (uint64_t i = 0; i < 4 * MIB / 8; i += 511)
		CHECK(!word_read(q + i, &value) && value == i);
	CHECK(!word_write(q + 9, 1));
	/* What only the device had is not made up. */
	CHECK(word_read(p + WORDS + 5, &value) == SIGBUS);
	CHECK(log_has("700"));
	CHECK_OK(sluice_space_check(s));
	sl_ignore(sluice_space_destroy(s));
	fflush(stdout);
	_exit(0); /* the context is beyond giving back */
}

static sem_t call_begun, call_may_end, call_ended;

static void
call_slowly(void *arg)
{
	sem_post(&call_begun);
	while (sem_wait(&call_may_end))
		;
	*(int *)arg = 1;
	sem_post(&call_ended);
}

/* The stream is at its end, and gone, before the call is. */
static void
context_is_lost_while_host_code_is_called(void)
{
	const struct timespec moment = {.tv_nsec = 20000000};
	struct sluice_space *s;
	struct sluice_stream *stream;
	int called = 0;

	cuda_test_open(&script_cuda);
	log_catch();
	CHECK(!sem_init(&call_begun, 0, 0) && !sem_init(&call_may_end, 0, 0) &&
	      !sem_init(&call_ended, 0, 0));
	s = cuda_test_space(8, 64, NULL);
	CHECK_OK(sluice_stream_create(s, &stream));
	CHECK_OK(sluice_stream_callback(s, stream, call_slowly, &called));
	while (sem_wait(&call_begun))
		;
	CHECK(script_cuda.standin->fail_set("*:1:700") == 0);
	CHECK(sluice_stream_synchronize(s, stream) == -EFAULT);
	CHECK(error_has("700"));
	sluice_stream_destroy(stream);
	CHECK_OK(sluice_space_check(s));
	CHECK(!called);
	sem_post(&call_may_end);
	while (sem_wait(&call_ended))
		;
	nanosleep(&moment, NULL); /* for what follows the call, which the sanitizer looks at */
	CHECK(called);
	sl_ignore(sluice_space_destroy(s));
	fflush(stdout);
	_exit(0); /* the context is beyond giving back */
}

static const struct failure_case cases[] = {
	{"context_is_lost_at_any_point", context_is_lost_at_any_point, 1, NULL, NULL,
	 NULL, NULL},
	{"context_is_lost_at_any_point (late)", context_is_lost_at_any_point, 1,
	 "CUDA_STANDIN_LATE_US", "2000", NULL, NULL},
	{"lost_context_names_launch_and_ranges", lost_context_names_launch_and_ranges, 0,
	 NULL, NULL, NULL, NULL},
	{"context_is_lost_while_host_code_is_called",
	 context_is_lost_while_host_code_is_called, 1, NULL, NULL, NULL, NULL},
};

int
main(int argc, char **argv)
{
	return failure_main(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random calls against a small model, on several threads and streams: maps, kernels in every
 * intent, moves, pins, discards, touches by host code, sync. Each thread has regions of its own
 * and knows every word of them. One region is shared, and only read. The threads share the
 * space: its budgets, its mover, its copies. A wrong residency ends a kernel; a wrong order
 * shows in the words.
 *
 *   test_random [SEED]    the seed is printed; the same one gives each thread the same calls
 *
 * On the stand-in driver the program runs itself once for each of several settings, so that work
 * is late, copies are slow and blocks run at once. It waits only where the API requires it. Host
 * code touches any data behind a launch.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "cuda/cuda_test.h"

#define K       0x9e3779b97f4a7c15ull
#define THREADS 3
#define REGIONS 4 /* of a thread */
#define STREAMS 2
#define PAGE    4096u
#define WORDS   512u /* of a page */

struct region {
	uint64_t *p; /* NULL: none */
	uint64_t n;  /* words */
	uint64_t *model;
	unsigned char *dead; /* pages whose contents were discarded */
	int file;            /* -1: anonymous */
	char path[64];
	int stream;     /* that used it last */
	uint64_t pin_n; /* words pinned, from pin_at */
	uint64_t pin_at;
};

struct actor {
	pthread_t thread;
	int number;
	struct sl_rng rng;
	struct region region[REGIONS];
	struct sluice_stream *stream[STREAMS];
	struct cu_stream *native; /* of stream[1] */
	uint64_t word;            /* sums of kernels go there */
	uint64_t sum;
	unsigned counts[16];
};

static struct cuda_test t;
static struct sluice_space *space;
static uint64_t *shared, shared_n, shared_sum;
static unsigned steps = 100;

static uint64_t
below(struct actor *a, uint64_t n)
{
	return sl_rng_below(&a->rng, n);
}

/* ---- regions ------------------------------------------------------------------------------ */

static void
region_make(struct actor *a, struct region *r)
{
	uint64_t bytes = (1 + below(a, 1600)) * PAGE;

	memset(r, 0, sizeof(*r));
	r->n = bytes / 8;
	r->file = -1;
	r->model = calloc(1, bytes);
	r->dead = calloc(1, bytes / PAGE);
	CHECK(r->model && r->dead);
	if (below(a, 2)) {
		CHECK_OK(sluice_alloc(space, bytes, 0, (void **)&r->p));
		return;
	}
	snprintf(r->path, sizeof(r->path), "/var/tmp/sluice-random-XXXXXX");
	r->file = mkostemp(r->path, O_CLOEXEC);
	CHECK(r->file >= 0);
	for (uint64_t i = 0; i < r->n; i++)
		r->model[i] = i * 3 + bytes;
	CHECK(write(r->file, r->model, bytes) == (ssize_t)bytes);
	CHECK_OK(sluice_map(space, r->path, 0, 0, SLUICE_READ | SLUICE_WRITE, (void **)&r->p));
}

static void
words_check(const struct actor *a, const struct region *r, const uint64_t *p, uint64_t at,
	    uint64_t n, const char *where)
{
	for (uint64_t i = at; i < at + n; i++) {
		if (r->dead[i / WORDS] || p[i] == r->model[i])
			continue;
		fprintf(stderr,
			"thread %d, %s, word %llu of %llu (%s): %llx, expected %llx\n",
			a->number, r->file < 0 ? "anonymous" : r->path,
			(unsigned long long)i, (unsigned long long)r->n, where,
			(unsigned long long)p[i], (unsigned long long)r->model[i]);
		exit(1);
	}
}

static void
file_check(const struct actor *a, const struct region *r, const char *where)
{
	uint64_t *words = malloc(r->n * 8);

	CHECK(words && pread(r->file, words, r->n * 8, 0) == (ssize_t)(r->n * 8));
	words_check(a, r, words, 0, r->n, where);
	free(words);
}

static void
region_end(struct actor *a, struct region *r)
{
	if (r->pin_n)
		CHECK_OK(sluice_unpin(space, r->p + r->pin_at, r->pin_n * 8));
	if (r->file < 0)
		words_check(a, r, r->p, 0, r->n, "at its end");
	CHECK_OK(sluice_unmap(space, r->p));
	if (r->file >= 0) {
		file_check(a, r, "file after unmap");
		close(r->file);
		unlink(r->path);
	}
	free(r->model);
	free(r->dead);
	memset(r, 0, sizeof(*r));
}

/* A range of whole pages at most max of them. */
static void
range_pick(struct actor *a, const struct region *r, uint64_t max, uint64_t *at, uint64_t *n)
{
	uint64_t pages = r->n / WORDS, first = below(a, pages);
	uint64_t count = 1 + below(a, pages - first);

	if (count > max)
		count = 1 + below(a, max);
	*at = first * WORDS;
	*n = count * WORDS;
}

static int
range_is_dead(const struct region *r, uint64_t at, uint64_t n)
{
	for (uint64_t page = at / WORDS; page * WORDS < at + n; page++)
		if (r->dead[page])
			return 1;
	return 0;
}

static void
range_live(struct region *r, uint64_t at, uint64_t n)
{
	memset(r->dead + at / WORDS, 0, n / WORDS);
}

/* ---- streams ------------------------------------------------------------------------------ */

/* Work of region r goes on on some stream, behind what it had on another one. */
static struct sluice_stream *
stream_pick(struct actor *a, struct region *r)
{
	int next = (int)below(a, STREAMS);

	if (next != r->stream) {
		struct sluice_stream *before = a->stream[r->stream];

		if (below(a, 3)) {
			struct sluice_event *event;

			CHECK_OK(sluice_event_create(space, &event));
			CHECK_OK(sluice_event_record(space, before, event));
			CHECK_OK(sluice_event_wait(space, a->stream[next], event));
			sluice_event_destroy(event);
		} else {
			CHECK_OK(sluice_stream_synchronize(space, before));
		}
	}
	r->stream = next;
	return a->stream[next];
}

static uint64_t
sum_read(struct actor *a, struct sluice_stream *stream)
{
	uint64_t value;

	CHECK_OK(SL_CUDA(t.driver, cuMemcpyDtoHAsync, &value, a->word, 8,
			 sluice_stream_native(space, stream)));
	CHECK_OK(sluice_stream_synchronize(space, stream));
	return value;
}

/* ---- calls -------------------------------------------------------------------------------- */

static void
do_fill(struct actor *a, struct region *r)
{
	uint64_t at, n, seed = below(a, 1 << 30);

	range_pick(a, r, 700, &at, &n);
	cuda_test_run(&t, space, stream_pick(a, r), TEST_FILL, r->p + at, n, seed,
		      below(a, 3) ? SLUICE_USE_WRITE_ALL : SLUICE_USE_WRITE);
	for (uint64_t i = 0; i < n; i++)
		r->model[at + i] = i * K + seed;
	range_live(r, at, n);
}

static void
do_add(struct actor *a, struct region *r)
{
	uint64_t at, n, v = 1 + below(a, 1000);

	range_pick(a, r, 700, &at, &n);
	if (range_is_dead(r, at, n))
		return;
	cuda_test_run(&t, space, stream_pick(a, r), TEST_ADD, r->p + at, n, v,
		      SLUICE_USE_READ_WRITE);
	for (uint64_t i = at; i < at + n; i++)
		r->model[i] += v;
}

static void
do_sum(struct actor *a, struct region *r)
{
	struct sluice_stream *stream;
	uint64_t at, n;

	range_pick(a, r, 1024, &at, &n);
	if (range_is_dead(r, at, n))
		return;
	stream = stream_pick(a, r);
	cuda_test_run(&t, space, stream, TEST_SUM, r->p + at, n, a->word, SLUICE_USE_READ);
	for (uint64_t i = at; i < at + n; i++)
		a->sum += r->model[i];
	CHECK(sum_read(a, stream) == a->sum);
}

static void
do_sum_shared(struct actor *a)
{
	struct sluice_stream *stream = a->stream[below(a, STREAMS)];

	cuda_test_run(&t, space, stream, TEST_SUM, shared, shared_n, a->word,
		      SLUICE_USE_READ);
	a->sum += shared_sum;
	CHECK(sum_read(a, stream) == a->sum);
}

/* Two uses, of two regions or of one. */
static void
do_copy(struct actor *a, struct region *from, struct region *to)
{
	uint64_t from_at, to_at, n, m;
	struct sluice_launch *launch;
	struct sluice_stream *stream;
	struct sluice_use uses[2];

	range_pick(a, from, 400, &from_at, &n);
	range_pick(a, to, 400, &to_at, &m);
	n = n < m ? n : m;
	if (range_is_dead(from, from_at, n) ||
	    (from == to && from_at < to_at + n && to_at < from_at + n))
		return;
	stream = stream_pick(a, from);
	if (to->stream != from->stream) {
		CHECK_OK(sluice_stream_synchronize(space, a->stream[to->stream]));
		to->stream = from->stream;
	}
	uses[0] = (struct sluice_use){from->p + from_at, n * 8, SLUICE_USE_READ};
	uses[1] = (struct sluice_use){to->p + to_at, n * 8, SLUICE_USE_WRITE_ALL};
	CHECK_OK(sluice_launch_begin(space, stream, uses, 2, &launch));
	cuda_test_launch(&t, space, stream, TEST_COPY, from->p + from_at, n,
			 (uintptr_t)(to->p + to_at));
	sluice_launch_end(launch);
	memcpy(to->model + to_at, from->model + from_at, n * 8);
	range_live(to, to_at, n);
}

/* Nothing declared: anything may be touched, on the device or not. */
static void
do_undeclared(struct actor *a, struct region *r)
{
	struct sluice_launch *launch;
	struct sluice_stream *stream;
	uint64_t at, n;
	int rc;

	range_pick(a, r, 300, &at, &n);
	if (range_is_dead(r, at, n))
		return;
	stream = stream_pick(a, r);
	rc = sluice_launch_begin(space, stream, NULL, 0, &launch);
	/* All there is may be more than both budgets; or kernels cannot reach host memory. */
	if (rc == -ENOBUFS || rc == -ENOTSUP)
		return;
	CHECK_OK(rc);
	cuda_test_launch(&t, space, stream, TEST_ADD, r->p + at, n, 17);
	sluice_launch_end(launch);
	for (uint64_t i = at; i < at + n; i++)
		r->model[i] += 17;
}

static void
do_cpu_read(struct actor *a, struct region *r)
{
	uint64_t at, n;

	range_pick(a, r, 64, &at, &n);
	words_check(a, r, r->p, at, n, "read by host code");
}

static void
do_cpu_write(struct actor *a, struct region *r)
{
	uint64_t at, n, seed = below(a, 1 << 30);

	range_pick(a, r, 8, &at, &n);
	for (uint64_t i = at; i < at + n; i++)
		r->p[i] = r->model[i] = i ^ seed;
	range_live(r, at, n);
}

static void
do_prefetch(struct actor *a, struct region *r)
{
	struct sluice_stream *stream = below(a, 2) ? stream_pick(a, r) : NULL;
	uint64_t at, n;

	range_pick(a, r, 2000, &at, &n);
	CHECK_OK(sluice_prefetch(space, r->p + at, n * 8,
				 below(a, 3) ? SLUICE_TIER_DEVICE : SLUICE_TIER_HOST,
				 stream));
}

static void
do_evict(struct actor *a, struct region *r)
{
	struct sluice_stream *stream = below(a, 2) ? stream_pick(a, r) : NULL;
	uint64_t at, n;

	range_pick(a, r, 2000, &at, &n);
	CHECK_OK(sluice_evict(space, r->p + at, n * 8,
			      below(a, 2) ? SLUICE_TIER_HOST : SLUICE_TIER_STORE, stream));
}

static void
do_pin(struct actor *a, struct region *r)
{
	uint64_t at, n;
	int rc;

	if (r->pin_n) {
		CHECK_OK(sluice_unpin(space, r->p + r->pin_at, r->pin_n * 8));
		r->pin_n = 0;
		return;
	}
	for (int i = 0; i < REGIONS; i++)
		if (a->region[i].pin_n)
			return;
	range_pick(a, r, 1, &at, &n);
	rc = sluice_pin(space, r->p + at, n * 8);
	if (rc == -ENOBUFS)
		return;
	CHECK_OK(rc);
	r->pin_at = at;
	r->pin_n = n;
}

/* Whether a chunk of the range is held on the device, where host code cannot have it. */
static int
range_is_pinned(const struct region *r)
{
	return r->pin_n != 0;
}

static void
do_discard(struct actor *a, struct region *r)
{
	struct sluice_stream *stream = below(a, 2) ? stream_pick(a, r) : NULL;
	int eager = !range_is_pinned(r) && below(a, 2);
	uint64_t at, n;

	range_pick(a, r, 700, &at, &n);
	CHECK_OK(sluice_discard(space, r->p + at, n * 8,
				eager ? SLUICE_DISCARD_EAGER : SLUICE_DISCARD_LAZY, stream));
	memset(r->dead + at / WORDS, 1, n / WORDS);
	/* Only a launch revives what was discarded lazily. */
	if (eager && below(a, 2))
		return;
	cuda_test_run(&t, space, stream_pick(a, r), TEST_FILL, r->p + at, n, at,
		      SLUICE_USE_WRITE_ALL);
	for (uint64_t i = 0; i < n; i++)
		r->model[at + i] = i * K + at;
	range_live(r, at, n);
}

static void
do_sync(struct actor *a, struct region *r)
{
	CHECK_OK(sluice_sync(space, r->p, SLUICE_TO_END));
	if (r->file >= 0)
		file_check(a, r, "file after sync");
}

static void
do_look(struct actor *a, struct region *r)
{
	struct sluice_residency where;

	CHECK_OK(sluice_residency(space, r->p, r->n * 8, &where));
	CHECK(where.tier_bytes[0] + where.tier_bytes[1] + where.tier_bytes[2] +
		      where.empty_bytes ==
	      r->n * 8);
	if (!below(a, 8))
		CHECK_OK(sluice_space_check(space));
	for (uint64_t i = 0; i < 64; i++) {
		uint64_t at = below(a, shared_n);

		CHECK(shared[at] == at * K);
	}
}

static void
step(struct actor *a)
{
	struct region *r = &a->region[below(a, REGIONS)];
	unsigned what = (unsigned)below(a, 16);

	if (!r->p) {
		region_make(a, r);
		return;
	}
	/* Host code must not touch what is pinned. */
	if (range_is_pinned(r) && (what == 8 || what == 9 || what == 15))
		what = 12;
	a->counts[what]++;
	switch (what) {
	case 0:
	case 1:
		do_fill(a, r);
		break;
	case 2:
	case 3:
		do_add(a, r);
		break;
	case 4:
		do_sum(a, r);
		break;
	case 5:
		do_sum_shared(a);
		break;
	case 6:
		if (a->region[0].p)
			do_copy(a, &a->region[0], r);
		break;
	case 7:
		do_undeclared(a, r);
		break;
	case 8:
		do_cpu_read(a, r);
		break;
	case 9:
		do_cpu_write(a, r);
		break;
	case 10:
		do_prefetch(a, r);
		break;
	case 11:
		do_evict(a, r);
		break;
	case 12:
		do_pin(a, r);
		break;
	case 13:
		do_discard(a, r);
		break;
	case 14:
		do_sync(a, r);
		do_look(a, r);
		break;
	case 15:
		if (!below(a, 3))
			region_end(a, r);
		break;
	}
}

static void *
actor_run(void *arg)
{
	struct actor *a = arg;

	CHECK_OK(SL_CUDA(t.driver, cuCtxSetCurrent, t.context));
	for (unsigned i = 0; i < steps; i++)
		step(a);
	for (int i = 0; i < REGIONS; i++)
		if (a->region[i].p)
			region_end(a, &a->region[i]);
	for (int i = 0; i < STREAMS; i++)
		CHECK_OK(sluice_stream_synchronize(space, a->stream[i]));
	CHECK_OK(SL_CUDA(t.driver, cuCtxSetCurrent, NULL));
	return NULL;
}

/* ---- a run -------------------------------------------------------------------------------- */

static void
run(uint64_t seed, const char *config)
{
	static struct actor actors[THREADS];

	printf("seed %llu, %s\n", (unsigned long long)seed, config);
	fflush(stdout);
	cuda_test_open(&t);
	space = cuda_test_space(16, 24, config);
	shared_n = 6 * MIB / 8;
	CHECK_OK(sluice_alloc(space, shared_n * 8, 0, (void **)&shared));
	cuda_test_run(&t, space, NULL, TEST_FILL, shared, shared_n, 0, SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_stream_synchronize(space, NULL));
	for (uint64_t i = 0; i < shared_n; i++)
		shared_sum += i * K;
	memset(actors, 0, sizeof(actors));
	for (int i = 0; i < THREADS; i++) {
		struct actor *a = &actors[i];

		a->number = i;
		sl_rng_init(&a->rng, seed * THREADS + (unsigned)i);
		a->word = cuda_test_word(&t);
		CHECK_OK(sluice_stream_create(space, &a->stream[0]));
		CHECK_OK(SL_CUDA(t.driver, cuStreamCreate, &a->native, CU_STREAM_NONBLOCKING));
		CHECK_OK(sluice_stream_wrap(space, a->native, &a->stream[1]));
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&actors[i].thread, NULL, actor_run, &actors[i]));
	for (int i = 0; i < THREADS; i++)
		pthread_join(actors[i].thread, NULL);
	CHECK_OK(sluice_space_check(space));
	printf("compression spared %llu MiB out, %llu in\n",
	       (unsigned long long)(cuda_test_counter(space, SLUICE_COUNTER_COMPRESS_OUT_SAVED) /
				    MIB),
	       (unsigned long long)(cuda_test_counter(space, SLUICE_COUNTER_COMPRESS_IN_SAVED) /
				    MIB));
	for (int i = 0; i < THREADS; i++) {
		struct actor *a = &actors[i];

		cuda_test_word_free(&t, a->word);
		for (int k = 0; k < STREAMS; k++)
			sluice_stream_destroy(a->stream[k]);
		CHECK_OK(SL_CUDA(t.driver, cuStreamDestroy, a->native));
	}
	for (uint64_t i = 0; i < shared_n; i += 77)
		CHECK(shared[i] == i * K);
	CHECK_OK(sluice_unmap(space, shared));
	cuda_test_close(&t, space);
}

struct setting {
	const char *config;
	const char *late_us, *blocks, *bytes_per_s, *no_host_vmm;
};

static const struct setting settings[] = {
	{"chunk=2M,large_chunk=2M", "0", "1", "0", NULL},
	{"chunk=2M,large_chunk=4M", "300", "3", "0", NULL},
	{"chunk=2M,large_chunk=2M,faults=signal", "3000", "2", "0", NULL},
	{"chunk=4M,large_chunk=4M", "100", "4", "2G", NULL},
	{"chunk=2M,large_chunk=2M,policy=dragon", "500", "2", "4G", "1"},
	{"chunk=2M,large_chunk=4M,measure=1", "200", "2", "0", NULL},
	/* Much is zeros still, and becomes smaller. */
	{"chunk=2M,large_chunk=2M,compress=always,device_budget=48M", "200", "2", "4G", NULL},
	{"chunk=2M,large_chunk=2M,compress=always,device_budget=48M,measure=auto", "0",
	 "3", "0", NULL},
};

static void
setting_set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

/* The program again, with another driver. */
static int
again(const char *self, const struct setting *setting, uint64_t seed)
{
	char number[32];
	int status = 0;
	pid_t pid;

	snprintf(number, sizeof(number), "%llu", (unsigned long long)seed);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		setting_set("CUDA_STANDIN_LATE_US", setting->late_us);
		setting_set("CUDA_STANDIN_BLOCKS", setting->blocks);
		setting_set("CUDA_STANDIN_COPY_BYTES_PER_S", setting->bytes_per_s);
		setting_set("CUDA_STANDIN_NO_HOST_VMM", setting->no_host_vmm);
		setenv("CUDA_STANDIN_FILL", "165", 1);
		execl(self, self, number, setting->config, (char *)NULL);
		_exit(127);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int
main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)getpid();
	const char *library = getenv("SLUICE_CUDA_LIBRARY");
	const char *given = getenv("SLUICE_RANDOM_STEPS");

	if (given)
		steps = (unsigned)strtoul(given, NULL, 10);
	if (argc > 2 || !library) {
		run(seed, argc > 2 ? argv[2] : settings[0].config);
		return 0;
	}
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		int status = again("/proc/self/exe", &settings[i], seed + i);

		if (status) {
			printf("FAILED: setting %zu, seed %llu: exit status %d\n", i,
			       (unsigned long long)(seed + i), status);
			return status;
		}
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device against the machine's own limits, in one run:
 * - the copy rates of the link, one way and both;
 * - a read-only scan and a read-modify-write of data many times the device budget, and the same
 *   by hand-written double buffering with pinned memory;
 * - a file larger than device and host budget against O_DIRECT;
 * - the cost of a launch with resident data, and of changing a mapping.
 *
 * Prints one line a figure: name, value, unit, its limit, its share of the limit. With --json
 * each is an object. --scale shrinks the sizes, so that the program can be tried anywhere.
 */
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench_cuda.h"

#define PIECE_BYTES (16 * MIB)
#define ROUNDS_MAX  9
#define FILE_TIMES \
	6 /* a file over device and host budget of the spaces that have it mapped */

struct options {
	uint64_t data_bytes, budget_bytes, tile_bytes, file_bytes;
	const char *dir, *only, *more;
	int rounds, json;
};

static struct cuda_test t;
static struct options opt = {
	.data_bytes = 32768 * MIB,
	.budget_bytes = 4096 * MIB,
	.tile_bytes = 256 * MIB,
	.file_bytes = 12288 * MIB,
	.dir = "/var/tmp",
	.more = "",
	.rounds = 3,
};

static int
wanted(const char *name)
{
	return !opt.only || strstr(opt.only, name) != NULL;
}

static int
double_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double
median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), double_compare);
	return v[n / 2];
}

void
report(const char *name, double value, const char *unit, double limit, const char *of)
{
	if (opt.json)
		printf("{\"figure\":\"%s\",\"value\":%.4g,\"unit\":\"%s\",\"limit\":%.4g,"
		       "\"of\":\"%s\",\"share\":%.4f}\n",
		       name, value, unit, limit, of, limit > 0 ? value / limit : 0);
	else if (limit > 0)
		printf("%-34s %9.2f %-6s %6.1f %% of %.2f (%s)\n", name, value, unit,
		       100 * value / limit, limit, of);
	else
		printf("%-34s %9.2f %-6s %s\n", name, value, unit, of);
	fflush(stdout);
}

static double
gbs(uint64_t bytes, uint64_t ns)
{
	return (double)bytes / (double)ns;
}

/* ---- the link ---------------------------------------------------------------------------- */

struct link_rates {
	double in, out, both;
};

/* bytes in pieces, in and/or out at once. */
static double
link_copy(int in, int out, uint64_t bytes)
{
	const struct sl_cuda_driver *d = t.driver;
	struct cu_stream *stream[2];
	uint64_t device[2], start;
	void *host[2];
	double rate;

	for (int i = 0; i < 2; i++) {
		CHECK_OK(SL_CUDA(d, cuStreamCreate, &stream[i], CU_STREAM_NONBLOCKING));
		CHECK_OK(SL_CUDA(d, cuMemAlloc, &device[i], PIECE_BYTES * 4));
		CHECK_OK(SL_CUDA(d, cuMemHostAlloc, &host[i], PIECE_BYTES * 4, 0));
		memset(host[i], i, PIECE_BYTES * 4);
	}
	start = sl_now_ns();
	for (uint64_t at = 0, k = 0; at < bytes; at += PIECE_BYTES, k++) {
		uint64_t offset = k % 4 * PIECE_BYTES;

		if (in)
			CHECK_OK(SL_CUDA(d, cuMemcpyHtoDAsync, device[0] + offset,
					 (char *)host[0] + offset, PIECE_BYTES, stream[0]));
		if (out)
			CHECK_OK(SL_CUDA(d, cuMemcpyDtoHAsync, (char *)host[1] + offset,
					 device[1] + offset, PIECE_BYTES, stream[1]));
	}
	CHECK_OK(SL_CUDA(d, cuCtxSynchronize));
	rate = gbs(bytes * (uint64_t)(in + out), sl_now_ns() - start);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(SL_CUDA(d, cuStreamDestroy, stream[i]));
		CHECK_OK(SL_CUDA(d, cuMemFree, device[i]));
		CHECK_OK(SL_CUDA(d, cuMemFreeHost, host[i]));
	}
	return rate;
}

static double
link_median(int in, int out)
{
	double v[ROUNDS_MAX];
	uint64_t bytes = opt.data_bytes / 4;

	(void)link_copy(in, out, bytes / 4);
	for (int i = 0; i < opt.rounds; i++)
		v[i] = link_copy(in, out, bytes);
	return median(v, opt.rounds);
}

/* ---- the space ---------------------------------------------------------------------------- */

static uint64_t
pass(struct sluice_space *s, enum test_kernel kernel, char *p, uint64_t third,
     enum sluice_intent intent)
{
	uint64_t start = sl_now_ns();

	for (uint64_t at = 0; at < opt.data_bytes; at += opt.tile_bytes) {
		uint64_t bytes = opt.data_bytes - at < opt.tile_bytes ? opt.data_bytes - at
								      : opt.tile_bytes;

		cuda_test_run(&t, s, NULL, kernel, p + at, bytes / 8, third, intent);
	}
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	return sl_now_ns() - start;
}

/* By hand: two buffers on the device, pinned memory, explicit copies. */
static uint64_t
pass_by_hand(char *host, enum test_kernel kernel, uint64_t third, int back)
{
	const struct sl_cuda_driver *d = t.driver;
	uint64_t tile = opt.tile_bytes, device[3], start;
	struct cu_stream *stream[3];

	for (int i = 0; i < 3; i++) {
		CHECK_OK(SL_CUDA(d, cuStreamCreate, &stream[i], CU_STREAM_NONBLOCKING));
		CHECK_OK(SL_CUDA(d, cuMemAlloc, &device[i], tile));
	}
	start = sl_now_ns();
	for (uint64_t at = 0, k = 0; at < opt.data_bytes; at += tile, k++) {
		int i = (int)(k % 3);
		uint64_t bytes = opt.data_bytes - at < tile ? opt.data_bytes - at : tile;

		CHECK_OK(SL_CUDA(d, cuMemcpyHtoDAsync, device[i], host + at, bytes,
				 stream[i]));
		cuda_test_launch_on(&t, stream[i], kernel, device[i], bytes / 8, third);
		if (back)
			CHECK_OK(SL_CUDA(d, cuMemcpyDtoHAsync, host + at, device[i],
					 bytes, stream[i]));
	}
	CHECK_OK(SL_CUDA(d, cuCtxSynchronize));
	start = sl_now_ns() - start;
	for (int i = 0; i < 3; i++) {
		CHECK_OK(SL_CUDA(d, cuStreamDestroy, stream[i]));
		CHECK_OK(SL_CUDA(d, cuMemFree, device[i]));
	}
	return start;
}

static void
streaming(const struct link_rates *link)
{
	struct sluice_space *s = cuda_test_space(opt.budget_bytes / MIB,
						 opt.data_bytes / MIB + 1024, opt.more);
	uint64_t word = cuda_test_word(&t), first, ns;
	double read[ROUNDS_MAX], rmw[ROUNDS_MAX];
	char *p;

	CHECK_OK(sluice_alloc(s, opt.data_bytes, 0, (void **)&p));
	ns = pass(s, TEST_FILL, p, 1, SLUICE_USE_WRITE_ALL);
	report("first write (pins host memory)", gbs(opt.data_bytes, ns), "GB/s", 0, "");
	(void)pass(s, TEST_SUM, p, word, SLUICE_USE_READ); /* every frame is there from now on */
	first = cuda_test_word_read(&t, word);
	for (int i = 0; i < opt.rounds; i++)
		read[i] = gbs(opt.data_bytes, pass(s, TEST_SUM, p, word, SLUICE_USE_READ));
	CHECK(cuda_test_word_read(&t, word) == first * (uint64_t)(opt.rounds + 1));
	report("read-only scan", median(read, opt.rounds), "GB/s", link->in, "link in");
	for (int i = 0; i < opt.rounds; i++)
		rmw[i] = 2 * gbs(opt.data_bytes,
				 pass(s, TEST_ADD, p, 1, SLUICE_USE_READ_WRITE));
	report("read-modify-write, both ways", median(rmw, opt.rounds), "GB/s",
	       link->both, "link both ways");
	cuda_test_word_free(&t, word);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_destroy(s));
}

static void
by_hand(const struct link_rates *link)
{
	uint64_t word = cuda_test_word(&t);
	double read[ROUNDS_MAX], rmw[ROUNDS_MAX];
	void *host;

	CHECK_OK(SL_CUDA(t.driver, cuMemHostAlloc, &host, opt.data_bytes, 0));
	memset(host, 1, opt.data_bytes);
	for (int i = 0; i < opt.rounds; i++)
		read[i] = gbs(opt.data_bytes, pass_by_hand(host, TEST_SUM, word, 0));
	report("read-only scan by hand", median(read, opt.rounds), "GB/s", link->in,
	       "link in");
	for (int i = 0; i < opt.rounds; i++)
		rmw[i] = 2 * gbs(opt.data_bytes, pass_by_hand(host, TEST_ADD, 1, 1));
	report("read-modify-write by hand", median(rmw, opt.rounds), "GB/s", link->both,
	       "link both ways");
	CHECK_OK(SL_CUDA(t.driver, cuMemFreeHost, host));
	cuda_test_word_free(&t, word);
}

/* ---- a resident launch ---------------------------------------------------------------------- */

static void
launches(void)
{
	struct sluice_space *s = cuda_test_space(256, 256, opt.more);
	struct sluice_use uses[10];
	struct sluice_launch *l;
	enum { N = 20000 };
	double v[ROUNDS_MAX];
	char *p;

	CHECK_OK(sluice_alloc(s, 20 * MIB, 0, (void **)&p));
	for (int i = 0; i < 10; i++)
		uses[i] = (struct sluice_use){p + (uint64_t)i * 2 * MIB, 2 * MIB,
					      SLUICE_USE_READ_WRITE};
	CHECK_OK(sluice_launch_begin(s, NULL, uses, 10, &l));
	sluice_launch_end(l);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	for (int i = 0; i < ROUNDS_MAX; i++) { /* milliseconds each, and others use the processors */
		uint64_t start = sl_now_ns();

		for (int k = 0; k < N; k++) {
			CHECK_OK(sluice_launch_begin(s, NULL, uses, 10, &l));
			sluice_launch_end(l);
		}
		v[i] = (double)(sl_now_ns() - start) / N;
		CHECK_OK(sluice_stream_synchronize(s, NULL));
	}
	report("launch with 10 resident uses", median(v, ROUNDS_MAX), "ns", 500, "at most");
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_destroy(s));
}

/* ---- the excess of a launch, over the link ------------------------------------------------------ */

static void
excess(const struct link_rates *link)
{
	uint64_t budget = opt.budget_bytes / 2, bytes = 2 * budget, n = bytes / 8;
	struct sluice_space *s = cuda_test_space(budget / MIB, bytes / MIB + 1024, opt.more);
	uint64_t word = cuda_test_word(&t);
	double v[ROUNDS_MAX];
	char *p;

	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&p));
	for (uint64_t at = 0; at < bytes; at += opt.tile_bytes)
		cuda_test_run(&t, s, NULL, TEST_FILL, p + at, opt.tile_bytes / 8, 1,
			      SLUICE_USE_WRITE_ALL);
	cuda_test_run(&t, s, NULL, TEST_SUM, p, n, word, SLUICE_USE_READ);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	for (int i = 0; i < opt.rounds; i++) {
		uint64_t start = sl_now_ns();

		cuda_test_run(&t, s, NULL, TEST_SUM, p, n, word, SLUICE_USE_READ);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		v[i] = gbs(bytes - budget, sl_now_ns() - start);
	}
	report("excess read over the link", median(v, opt.rounds), "GB/s", link->in,
	       "link in; half of the region is on the device");
	cuda_test_word_free(&t, word);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_destroy(s));
}

/* ---- fetch from a kernel ------------------------------------------------------------------------- */

static uint64_t
fetch_run(struct sluice_space *s, unsigned blocks, void *p, uint64_t n, uint64_t tile,
	  uint64_t out, uint64_t failed)
{
	struct sluice_fetch_view view;
	struct sluice_fetch *fetch;
	uint64_t add = 0, start;
	void *params[] = {&view, &p, &n, &tile, &add, &out, &failed};

	CHECK_OK(sluice_fetch_open(s, blocks, &fetch, &view));
	start = sl_now_ns();
	cuda_test_launch_params(&t, sluice_stream_native(s, NULL), TEST_FETCH, blocks,
				1024, params);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	start = sl_now_ns() - start;
	CHECK_OK(sluice_fetch_close(fetch));
	CHECK(cuda_test_word_read(&t, failed) == 0);
	return start;
}

static void
fetches(uint64_t chunk, double goal)
{
	uint64_t bytes = opt.data_bytes / 2, out = cuda_test_word(&t),
		 failed = cuda_test_word(&t), few;
	struct sluice_space *s;
	char name[64], more[256];
	double v[ROUNDS_MAX], again[ROUNDS_MAX];
	char *p;

	snprintf(more, sizeof(more), "large_chunk=%lluM%s%s",
		 (unsigned long long)(chunk / MIB), *opt.more ? "," : "", opt.more);
	s = cuda_test_space(opt.budget_bytes / MIB, bytes / MIB + 1024, more);
	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&p));
	for (uint64_t at = 0; at < bytes; at += opt.tile_bytes)
		cuda_test_run(&t, s, NULL, TEST_FILL, p + at, opt.tile_bytes / 8, 1,
			      SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	(void)fetch_run(s, 64, p, bytes / 8, chunk / 8, out, failed);
	for (int i = 0; i < opt.rounds; i++)
		v[i] = gbs(bytes, fetch_run(s, 64, p, bytes / 8, chunk / 8, out, failed));
	snprintf(name, sizeof(name), "fetch from a kernel, %llu MiB",
		 (unsigned long long)(chunk / MIB));
	report(name, median(v, opt.rounds), "GB/s", goal, "the goal");
	few = 256 * chunk < bytes / 4 ? 256 * chunk : bytes / 4;
	for (int i = 0; i < opt.rounds; i++) { /* the pass before pushed out what comes now */
		char *at = p + (uint64_t)(i % 3) * few;
		uint64_t n = few / chunk;

		v[i] = (double)fetch_run(s, 1, at, few / 8, chunk / 8, out, failed) /
		       1e3 / (double)n;
		again[i] = (double)fetch_run(s, 1, at, few / 8, chunk / 8, out, failed) /
			   1e3 / (double)n;
		(void)fetch_run(s, 64, p + bytes / 2, bytes / 16, chunk / 8, out, failed);
	}
	snprintf(name, sizeof(name), "one idle fetch, %llu MiB",
		 (unsigned long long)(chunk / MIB));
	report(name, median(v, opt.rounds), "us", 0, "with the work of one block on it");
	snprintf(name, sizeof(name), "the same, resident, %llu MiB",
		 (unsigned long long)(chunk / MIB));
	report(name, median(again, opt.rounds), "us", 0, "with the work of one block on it");
	snprintf(name, sizeof(name), "service of an idle fetch, %llu MiB",
		 (unsigned long long)(chunk / MIB));
	report(name, median(v, opt.rounds) - median(again, opt.rounds), "us",
	       chunk == 2 * MIB ? 120 : 0, chunk == 2 * MIB ? "at most" : "the difference");
	cuda_test_word_free(&t, out);
	cuda_test_word_free(&t, failed);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_destroy(s));
}

/* ---- a file ---------------------------------------------------------------------------------- */

#define READERS 8

struct reader {
	pthread_t thread;
	int fd;
	_Atomic uint64_t *next;
	int write;
};

static void *
reader_main(void *arg)
{
	struct reader *r = arg;
	void *buf;
	uint64_t at;

	CHECK(posix_memalign(&buf, 4096, PIECE_BYTES) == 0);
	memset(buf, 1, PIECE_BYTES);
	while ((at = __atomic_fetch_add((uint64_t *)r->next, PIECE_BYTES,
					__ATOMIC_RELAXED)) < opt.file_bytes) {
		ssize_t got = r->write ? pwrite(r->fd, buf, PIECE_BYTES, (off_t)at)
				       : pread(r->fd, buf, PIECE_BYTES, (off_t)at);

		CHECK(got == (ssize_t)PIECE_BYTES);
	}
	free(buf);
	return NULL;
}

/* O_DIRECT with READERS requests of 16 MiB in flight. */
static double
disk_rate(const char *path, int write)
{
	struct reader readers[READERS];
	_Atomic uint64_t next = 0;
	int fd = open(path, (write ? O_RDWR | O_CREAT : O_RDONLY) | O_DIRECT, 0600);
	uint64_t start = sl_now_ns();

	CHECK(fd >= 0);
	for (int i = 0; i < READERS; i++) {
		readers[i] = (struct reader){.fd = fd, .next = &next, .write = write};
		CHECK(pthread_create(&readers[i].thread, NULL, reader_main, &readers[i]) == 0);
	}
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i].thread, NULL);
	if (write)
		CHECK(fdatasync(fd) == 0);
	close(fd);
	return gbs(opt.file_bytes, sl_now_ns() - start);
}

/* A space for the file: two thirds of what it may have on the device, the rest in host memory. */
static struct sluice_space *
file_space(void)
{
	uint64_t third = opt.file_bytes / FILE_TIMES / 3;

	return cuda_test_space(2 * third / MIB, third / MIB, opt.more);
}

static void
file(void)
{
	double disk_write, disk_read, v[ROUNDS_MAX], w[ROUNDS_MAX], limit[ROUNDS_MAX];
	uint64_t word = cuda_test_word(&t), bytes = opt.data_bytes;
	char path[512];
	int fd;
	char *p;

	snprintf(path, sizeof(path), "%s/sluice-bench-XXXXXX", opt.dir);
	fd = mkstemp(path);
	CHECK(fd >= 0);
	close(fd);
	disk_write = disk_rate(path, 1);
	opt.data_bytes = opt.file_bytes; /* for pass() */
	for (int i = 0; i < opt.rounds; i++) {
		struct sluice_space *s = file_space();
		double before = disk_rate(path, 0), after;

		CHECK_OK(sluice_map(s, path, 0, 0, SLUICE_READ, (void **)&p));
		v[i] = gbs(opt.file_bytes, pass(s, TEST_SUM, p, word, SLUICE_USE_READ));
		CHECK_OK(sluice_unmap(s, p));
		CHECK_OK(sluice_space_destroy(s));
		after = disk_rate(path, 0); /* a virtual disk may be faster the second time */
		limit[i] = before > after ? before : after;
	}
	disk_read = median(limit, opt.rounds);
	report("disk read, O_DIRECT", disk_read, "GB/s", 0, "8 x 16 MiB in flight");
	report("disk write, O_DIRECT", disk_write, "GB/s", 0, "8 x 16 MiB in flight");
	report("file read by kernels", median(v, opt.rounds), "GB/s", disk_read, "disk read");
	for (int i = 0; i < 1; i++) {
		struct sluice_space *s = file_space();
		uint64_t start;

		CHECK_OK(sluice_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE, (void **)&p));
		start = sl_now_ns();
		(void)pass(s, TEST_ADD, p, 1, SLUICE_USE_READ_WRITE);
		CHECK_OK(sluice_sync(s, p, SLUICE_TO_END));
		w[i] = 2 * gbs(opt.file_bytes, sl_now_ns() - start);
		CHECK_OK(sluice_unmap(s, p));
		CHECK_OK(sluice_space_destroy(s));
	}
	report("file read and written by kernels", w[0], "GB/s",
	       2 / (1 / disk_read + 1 / disk_write), "disk, reads and writes in turn");
	opt.data_bytes = bytes;
	unlink(path);
	cuda_test_word_free(&t, word);
}

/* What it ran on, and when. */
static void
machine(void)
{
	struct sl_cuda_device_info info;
	char text[512], date[32];
	time_t now = time(NULL);
	struct tm tm;

	CHECK_OK(sl_cuda_device_probe(t.driver, 0, &info));
	gmtime_r(&now, &tm);
	strftime(date, sizeof(date), "%Y-%m-%d", &tm);
	snprintf(text, sizeof(text),
		 "%s (%llu MiB), driver for CUDA %d.%d, %ld CPUs, %s; %llu MiB of data, "
		 "device budget %llu MiB, launches of %llu MiB, a file of %llu MiB (six "
		 "times its spaces' budgets), %d rounds.",
		 info.name, (unsigned long long)(info.memory_bytes / MIB),
		 t.driver->version / 1000, t.driver->version % 1000 / 10,
		 sysconf(_SC_NPROCESSORS_ONLN), date,
		 (unsigned long long)(opt.data_bytes / MIB),
		 (unsigned long long)(opt.budget_bytes / MIB),
		 (unsigned long long)(opt.tile_bytes / MIB),
		 (unsigned long long)(opt.file_bytes / MIB), opt.rounds);
	if (opt.json)
		printf("{\"machine\":\"%s\"}\n", text);
	else
		puts(text);
}

static void
usage(void)
{
	puts("usage: bench_cuda [--scale N] [--rounds N] [--only "
	     "link,launch,map,stream,hand,excess,fetch,file]\n"
	     "                  [--dir DIR] [--config KEY=VALUE,...] [--json]\n\n"
	     "Sizes are 32 GiB of data, 4 GiB of device budget, 12 GiB of file (six "
	     "times its\n"
	     "spaces' device and host budgets), divided by the scale. SLUICE_TEST_PTX "
	     "names "
	     "the kernels.");
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{"scale", 1, NULL, 's'},  {"rounds", 1, NULL, 'r'},
		{"only", 1, NULL, 'o'},   {"dir", 1, NULL, 'd'},
		{"json", 0, NULL, 'j'},   {"help", 0, NULL, 'h'},
		{"config", 1, NULL, 'c'}, {NULL, 0, NULL, 0},
	};
	struct link_rates link;
	uint64_t scale = 1;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			scale = strtoull(optarg, NULL, 10);
			break;
		case 'r':
			opt.rounds = atoi(optarg);
			break;
		case 'o':
			opt.only = optarg;
			break;
		case 'd':
			opt.dir = optarg;
			break;
		case 'c':
			opt.more = optarg;
			break;
		case 'j':
			opt.json = 1;
			break;
		case 'h':
			usage();
			return 0;
		default:
			return 2;
		}
	}
	if (!scale || opt.rounds < 1 || opt.rounds > ROUNDS_MAX) {
		fprintf(stderr, "bench_cuda: a scale from 1 and 1 to %d rounds\n",
			ROUNDS_MAX);
		return 2;
	}
	opt.data_bytes /= scale;
	opt.budget_bytes /= scale;
	opt.tile_bytes /= scale;
	opt.file_bytes /= scale;
	cuda_test_open(&t);
	machine();
	link.in = link_median(1, 0);
	link.out = link_median(0, 1);
	link.both = link_median(1, 1);
	report("link in", link.in, "GB/s", 0, "16 MiB pieces");
	report("link out", link.out, "GB/s", 0, "16 MiB pieces");
	report("link both ways", link.both, "GB/s", 0, "16 MiB pieces");
	if (wanted("launch"))
		launches();
	if (wanted("map"))
		map_costs(&t);
	if (wanted("stream"))
		streaming(&link);
	if (wanted("hand"))
		by_hand(&link);
	if (wanted("excess"))
		excess(&link);
	if (wanted("fetch")) {
		fetches(16 * MIB, 45);
		fetches(2 * MIB, 25);
	}
	if (wanted("file"))
		file();
	cuda_test_close(&t, NULL);
	return 0;
}

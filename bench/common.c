/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared code of the benchmark programs; see common.h for its contract.
 *
 * The inner loops are here, in a file of their own, and never inlined. So every variant runs the
 * same instructions on the data. Only bench_json_counters() knows the library. All else is plain
 * Linux, so that the peers do not depend on it.
 *
 * Threads: bench_threads() starts and joins them; a thread that fails ends the process.
 */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "sluice/sluice.h"

#define FILE_PIECE_BYTES (8u << 20)
#define VERIFY_PAGES     256
#define THREADS_MAX      256

uint64_t
bench_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void text_print(const char *fmt, va_list args) __attribute__((format(printf, 1, 0)));

static void
text_print(const char *fmt, va_list args)
{
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
}

/* _exit(): other threads may be in the middle of anything. */
void
bench_fail(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	text_print(fmt, args);
	va_end(args);
	_exit(1);
}

void
bench_usage(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	text_print(fmt, args);
	va_end(args);
	_exit(2);
}

void
bench_skip(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	text_print(fmt, args);
	va_end(args);
	_exit(77);
}

uint64_t
bench_parse_size(const char *option, const char *text)
{
	static const char suffixes[] = "KMGT";
	const char *suffix;
	char *end;
	uint64_t value;
	unsigned shift = 0;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (end == text || text[0] == '-' || errno)
		bench_usage("--%s: \"%s\" is not a size", option, text);
	if (*end) {
		suffix = strchr(suffixes, *end);
		if (!suffix || end[1])
			bench_usage("--%s: \"%s\" is not a size", option, text);
		shift = 10 * (unsigned)(suffix - suffixes + 1);
	}
	if (value > UINT64_MAX >> shift)
		bench_usage("--%s: %s is too large", option, text);
	return value << shift;
}

uint32_t
bench_parse_count(const char *option, const char *text, uint32_t min, uint32_t max)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (end == text || *end || text[0] == '-' || errno || value < min || value > max)
		bench_usage("--%s: \"%s\" is not a number from %u to %u", option, text,
			    min, max);
	return (uint32_t)value;
}

static void
option_set(const struct bench_option *option, const char *text)
{
	switch (option->kind) {
	case BENCH_OPTION_TEXT:
		*(const char **)option->value = text;
		break;
	case BENCH_OPTION_SIZE:
		*(uint64_t *)option->value = bench_parse_size(option->name, text);
		break;
	case BENCH_OPTION_COUNT:
		*(uint32_t *)option->value = bench_parse_count(option->name, text,
							       option->min, option->max);
		break;
	case BENCH_OPTION_FLAG:
		*(int *)option->value = 1;
		break;
	}
}

void
bench_options_parse(int argc, char **argv, const struct bench_option *options, size_t n,
		    const char *help)
{
	struct option table[BENCH_OPTIONS_MAX + 2] = {{0}};
	int at;

	if (n > BENCH_OPTIONS_MAX)
		bench_fail("%zu options, at most %d", n, BENCH_OPTIONS_MAX);
	for (size_t i = 0; i < n; i++) {
		table[i].name = options[i].name;
		table[i].has_arg = options[i].kind == BENCH_OPTION_FLAG ? no_argument
									: required_argument;
	}
	table[n].name = "help";
	for (;;) {
		int id = getopt_long(argc, argv, "", table, &at);

		if (id == -1)
			break;
		if (id == '?')
			bench_usage("see --help");
		if ((size_t)at == n) {
			fputs(help, stdout);
			exit(0);
		}
		option_set(&options[at], optarg);
	}
	if (optind < argc)
		bench_usage("\"%s\" is not an option; see --help", argv[optind]);
}

/* Four sums: one would make the loop wait for each addition. */
__attribute__((noinline)) uint64_t
bench_sum(const uint64_t *data, size_t words)
{
	uint64_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;

	for (size_t i = 0; i < words; i += 4) {
		s0 += data[i];
		s1 += data[i + 1];
		s2 += data[i + 2];
		s3 += data[i + 3];
	}
	return s0 + s1 + s2 + s3;
}

__attribute__((noinline)) void
bench_fill(uint64_t *data, size_t words, uint64_t first_value)
{
	uint64_t value = first_value;

	for (size_t i = 0; i < words; i += 4) {
		data[i] = value;
		data[i + 1] = value + BENCH_STEP;
		data[i + 2] = value + 2 * BENCH_STEP;
		data[i + 3] = value + 3 * BENCH_STEP;
		value += 4 * BENCH_STEP;
	}
}

__attribute__((noinline)) void
bench_add(uint64_t *data, size_t words)
{
	for (size_t i = 0; i < words; i += 4) {
		data[i] += 1;
		data[i + 1] += 1;
		data[i + 2] += 1;
		data[i + 3] += 1;
	}
}

uint64_t
bench_sum_expected(uint64_t base, size_t words)
{
	uint64_t n = words;
	uint64_t pairs = n % 2 ? n * ((n - 1) / 2) : n / 2 * (n - 1);

	return n * base + BENCH_STEP * pairs;
}

int
bench_file_open_direct(const char *path, int flags)
{
	int fd = open(path, flags | O_DIRECT | O_CLOEXEC, 0600);

	if (fd < 0 && errno == EINVAL)
		bench_skip(
			"%s: its file system refuses O_DIRECT; choose another directory",
			path);
	if (fd < 0)
		bench_fail("%s: open: %s", path, strerror(errno));
	return fd;
}

void
bench_file_create(const char *path, uint64_t size_bytes, uint64_t base)
{
	int fd = bench_file_open_direct(path, O_WRONLY | O_CREAT);
	uint64_t *piece = bench_alloc(FILE_PIECE_BYTES);
	uint64_t done = 0;
	int rc;

	rc = posix_fallocate(fd, 0, (off_t)size_bytes);
	if (rc)
		bench_fail("%s: no room for %llu MiB: %s", path,
			   (unsigned long long)(size_bytes >> 20), strerror(rc));
	while (done < size_bytes) {
		size_t bytes = FILE_PIECE_BYTES;

		if (bytes > size_bytes - done)
			bytes = size_bytes - done;
		bench_fill(piece, bytes / 8, base + done / 8 * BENCH_STEP);
		if (pwrite(fd, piece, bytes, (off_t)done) != (ssize_t)bytes)
			bench_fail("%s: write at %llu: %s", path,
				   (unsigned long long)done, strerror(errno));
		done += bytes;
	}
	if (fsync(fd))
		bench_fail("%s: fsync: %s", path, strerror(errno));
	free(piece);
	close(fd);
}

uint64_t
bench_file_base(const char *path, uint64_t size_bytes)
{
	int fd = bench_file_open_direct(path, O_RDONLY);
	uint64_t *page = bench_alloc(BENCH_ALIGN);
	struct stat st;
	uint64_t base;

	if (fstat(fd, &st))
		bench_fail("%s: stat: %s", path, strerror(errno));
	if ((uint64_t)st.st_size < size_bytes)
		bench_fail("%s: has %llu bytes, %llu are needed: make it with --create", path,
			   (unsigned long long)st.st_size, (unsigned long long)size_bytes);
	if (pread(fd, page, BENCH_ALIGN, 0) != BENCH_ALIGN)
		bench_fail("%s: read: %s", path, strerror(errno));
	base = page[0];
	free(page);
	close(fd);
	return base;
}

void
bench_file_verify(const char *path, uint64_t size_bytes, uint64_t base)
{
	int fd = bench_file_open_direct(path, O_RDONLY);
	uint64_t *page = bench_alloc(BENCH_ALIGN);
	uint64_t pages = size_bytes / BENCH_ALIGN;
	uint64_t random = base + size_bytes;

	for (unsigned i = 0; i < VERIFY_PAGES; i++) {
		uint64_t at = bench_random(&random) % pages;
		uint64_t first;

		if (i < 2)
			at = i ? pages - 1 : 0;
		if (pread(fd, page, BENCH_ALIGN, (off_t)(at * BENCH_ALIGN)) != BENCH_ALIGN)
			bench_fail("%s: read of page %llu: %s", path,
				   (unsigned long long)at, strerror(errno));
		first = base + at * (BENCH_ALIGN / 8) * BENCH_STEP;
		for (unsigned w = 0; w < BENCH_ALIGN / 8; w++)
			if (page[w] != first + w * BENCH_STEP)
				bench_fail("%s: page %llu, word %u: wrong contents after "
					   "the run",
					   path, (unsigned long long)at, w);
	}
	free(page);
	close(fd);
}

uint64_t
bench_file_drop(const char *path, uint64_t size_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t pages = (size_bytes + BENCH_ALIGN - 1) / BENCH_ALIGN;
	uint64_t cached = 0;
	unsigned char *vec;
	void *map;

	if (fd < 0)
		bench_fail("%s: open: %s", path, strerror(errno));
	if (fsync(fd))
		bench_fail("%s: fsync: %s", path, strerror(errno));
	if (posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		bench_fail("%s: the system does not drop it from the page cache", path);

	map = mmap(NULL, size_bytes, PROT_READ, MAP_SHARED, fd, 0);
	vec = malloc(pages);
	if (map == MAP_FAILED || !vec || mincore(map, size_bytes, vec))
		bench_fail("%s: mincore: %s", path, strerror(errno));
	for (uint64_t i = 0; i < pages; i++)
		cached += vec[i] & 1;
	munmap(map, size_bytes);
	free(vec);
	close(fd);
	return cached * BENCH_ALIGN;
}

void *
bench_alloc(size_t bytes)
{
	size_t rounded = (bytes + BENCH_HUGE_BYTES - 1) / BENCH_HUGE_BYTES * BENCH_HUGE_BYTES;
	void *memory = aligned_alloc(BENCH_HUGE_BYTES, rounded);

	if (!memory)
		bench_fail("no memory for %zu MiB", bytes >> 20);
	(void)madvise(memory, rounded, MADV_HUGEPAGE);
	memset(memory, 0, rounded);
	return memory;
}

void
bench_warm(uint64_t bytes)
{
	char *memory;

	if (!bytes)
		return;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	if (memory == MAP_FAILED)
		bench_fail("warm-up: no memory for %llu MiB",
			   (unsigned long long)(bytes >> 20));
	(void)madvise(memory, bytes, MADV_HUGEPAGE);
	for (uint64_t i = 0; i < bytes; i += BENCH_ALIGN)
		((volatile char *)memory)[i] = 1;
	munmap(memory, bytes);
}

void
bench_cgroup_enter(const char *dir)
{
	char path[4096];
	int fd;

	if (!dir)
		return;
	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		bench_fail("%s: cannot enter the memory cgroup: %s", path, strerror(errno));
	close(fd);
}

struct thread {
	pthread_t id;
	bench_thread_fn fn;
	void *arg;
	uint32_t i;
};

static void *
thread_main(void *arg)
{
	struct thread *thread = arg;

	thread->fn(thread->arg, thread->i);
	return NULL;
}

void
bench_threads(uint32_t n, bench_thread_fn fn, void *arg)
{
	struct thread threads[THREADS_MAX];

	if (n > THREADS_MAX)
		bench_fail("%u threads are more than %d", n, THREADS_MAX);
	for (uint32_t i = 0; i < n; i++) {
		threads[i] = (struct thread){.fn = fn, .arg = arg, .i = i};
		if (pthread_create(&threads[i].id, NULL, thread_main, &threads[i]))
			bench_fail("cannot start thread %u", i);
	}
	for (uint32_t i = 0; i < n; i++)
		pthread_join(threads[i].id, NULL);
}

/* splitmix64 */
uint64_t
bench_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static FILE *
readahead_open(const char *path, const char *mode)
{
	char name[128];
	struct stat st;

	if (stat(path, &st))
		return NULL;
	snprintf(name, sizeof(name), "/sys/class/bdi/%u:%u/read_ahead_kb",
		 major(st.st_dev), minor(st.st_dev));
	return fopen(name, mode);
}

int
bench_readahead_kib(const char *path)
{
	FILE *file = readahead_open(path, "r");
	int kib = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%d", &kib) != 1)
		kib = -1;
	fclose(file);
	return kib;
}

int
bench_readahead_set(const char *path, int kib)
{
	FILE *file = readahead_open(path, "w");

	if (!file)
		return -1;
	fprintf(file, "%d\n", kib);
	return fclose(file) ? -1 : 0;
}

void
bench_json_begin(const char *bench, const char *variant)
{
	printf("{\"bench\": \"%s\", \"variant\": \"%s\"", bench, variant);
}

void
bench_json_text(const char *key, const char *value)
{
	printf(", \"%s\": \"%s\"", key, value);
}

void
bench_json_count(const char *key, uint64_t value)
{
	printf(", \"%s\": %llu", key, (unsigned long long)value);
}

void
bench_json_number(const char *key, double value)
{
	printf(", \"%s\": %.6g", key, value);
}

void
bench_json_counters(struct sluice_space *space)
{
	struct sluice_stats stats;

	sluice_stats_get(space, &stats);
	printf(", \"counters\": {\"resident_peak\": %llu, \"host_peak\": %llu",
	       (unsigned long long)stats.resident_peak_bytes[SLUICE_TIER_DEVICE],
	       (unsigned long long)stats.resident_peak_bytes[SLUICE_TIER_HOST]);
	for (int i = 0; i < SLUICE_COUNTER_COUNT; i++)
		if (stats.counter[i])
			printf(", \"%s\": %llu", sluice_counter_name((enum sluice_counter)i),
			       (unsigned long long)stats.counter[i]);
	putchar('}');
}

void
bench_json_end(void)
{
	puts("}");
	fflush(stdout);
}

static int
double_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double
bench_median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), double_compare);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers of the tests of the public API (api.h). Each case is forked before any space exists.
 * So a failure, a signal or an endless wait counts for that case, and the others still run. A
 * case has a minute, only so that a hang ends. Its directory is removed afterwards in any case.
 */
#include "api.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/space_on.h"

#define CASE_SECONDS_MAX 300   /* ends only a case that hangs */
#define WAIT_STEPS_MAX   60000 /* of 1 ms or more; one suffices on a quiet machine */
#define DIRECTORY_FORM   "sluice-api-XXXXXX"

static char directory[512];

/* ---- cases ------------------------------------------------------------------------------ */

void
api_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: not so: %s\n  (last error: %s)\n", file, line, what,
		sluice_last_error());
	_exit(1);
}

void
api_check_eq(const char *file, int line, const char *what, uint64_t a, uint64_t b)
{
	if (a == b)
		return;
	fprintf(stderr,
		"%s:%d: not so: %s\n  %llu (%.2f chunks) against %llu (%.2f chunks)\n",
		file, line, what, (unsigned long long)a, (double)a / (double)CHUNK,
		(unsigned long long)b, (double)b / (double)CHUNK);
	_exit(1);
}

void
api_check_fails(const char *file, int line, const char *what, int rc, int wanted,
		const char *words)
{
	if (rc == wanted && strstr(sluice_last_error(), words))
		return;
	fprintf(stderr, "%s:%d: %s\n  returned %d, text \"%s\"; wanted %d, with \"%s\"\n",
		file, line, what, rc, sluice_last_error(), wanted, words);
	_exit(1);
}

void
api_skip(const char *why)
{
	fprintf(stderr, "skipped: %s\n", why);
	_exit(77);
}

static int
entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* 0 passed, 1 failed, 77 skipped. */
static int
case_run(const struct api_case *c)
{
	const char *parent = getenv("TMPDIR");
	int status;
	pid_t pid;

	snprintf(directory, sizeof(directory), "%s/" DIRECTORY_FORM,
		 parent && *parent ? parent : "/var/tmp");
	if (!mkdtemp(directory)) {
		perror(directory);
		return 1;
	}
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		return 1;
	}
	if (pid == 0) {
		alarm(CASE_SECONDS_MAX);
		c->run();
		exit(0); /* with the leak check of a sanitizer */
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	nftw(directory, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
	if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77))
		return WEXITSTATUS(status);
	if (WIFSIGNALED(status))
		fprintf(stderr, "  ended by signal %d (%s)\n", WTERMSIG(status),
			WTERMSIG(status) == SIGALRM ? "a wait that does not end"
						    : strsignal(WTERMSIG(status)));
	return 1;
}

static int
case_wanted(const struct api_case *c, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], c->name))
			return 1;
	}
	return argc < 2;
}

int
api_main(const struct api_case *cases, size_t n, int argc, char **argv)
{
	size_t run = 0, failed = 0, skipped = 0;

	for (size_t i = 0; i < n; i++) {
		int rc;

		if (!case_wanted(&cases[i], argc, argv))
			continue;
		rc = case_run(&cases[i]);
		run++;
		failed += rc == 1;
		skipped += rc == 77;
		printf("%s %s\n",
		       rc == 0    ? "ok  "
		       : rc == 77 ? "skip"
				  : "FAIL",
		       cases[i].name);
	}
	printf("%zu cases, %zu failed, %zu skipped\n", run, failed, skipped);
	if (!run) {
		printf("no such case\n");
		return 1;
	}
	return failed ? 1 : skipped == run ? 77 : 0;
}

/* ---- spaces ----------------------------------------------------------------------------- */

struct sluice_space *
space_make(const char *config_text)
{
	return space_make_with(config_text, NULL);
}

struct sluice_space *
space_make_with(const char *config_text, const struct sl_policy *policy)
{
	struct sluice_config config;
	struct sluice_space *space;
	int rc = sluice_config_init(&config);

	CHECK(!rc);
	rc = sluice_config_parse(&config,
				 "device=soft,device_budget=16M,host_budget=0,chunk=2M,"
				 "workers=2,readahead_chunks=0,address=16G,policy=lru,"
				 "population=chunk,faults=auto,checking=0,staging=32M");
	CHECK(!rc);
	snprintf(config.spill_dirs, sizeof(config.spill_dirs), "%s", directory);
	if (sluice_config_parse(&config, config_text))
		api_failed(__FILE__, __LINE__, config_text);
	rc = sl_space_create_with(&config, policy, &space);
	if (rc == -EPERM || rc == -ENOTSUP)
		api_skip(sluice_last_error());
	CHECK(rc == 0);
	return space;
}

void
space_sync(struct sluice_space *space)
{
	CHECK(sluice_stream_synchronize(space, NULL) == 0);
	CHECK(sluice_space_check(space) == 0);
}

void
space_end(struct sluice_space *space)
{
	space_sync(space);
	CHECK(sluice_space_destroy(space) == 0);
}

static struct sluice_stats
stats(struct sluice_space *space)
{
	struct sluice_stats st;

	sluice_stats_get(space, &st);
	return st;
}

uint64_t
counter(struct sluice_space *space, enum sluice_counter which)
{
	return stats(space).counter[which];
}

uint64_t
h2d(struct sluice_space *space)
{
	struct sluice_stats st = stats(space);

	return sluice_stats_h2d_bytes(&st);
}

uint64_t
d2h(struct sluice_space *space)
{
	struct sluice_stats st = stats(space);

	return sluice_stats_d2h_bytes(&st);
}

uint64_t
store_reads(struct sluice_space *space)
{
	struct sluice_stats st = stats(space);

	return sluice_stats_store_read_bytes(&st);
}

uint64_t
store_writes(struct sluice_space *space)
{
	struct sluice_stats st = stats(space);

	return sluice_stats_store_write_bytes(&st);
}

uint64_t
resident(struct sluice_space *space, enum sluice_tier tier)
{
	return stats(space).resident_bytes[tier];
}

uint64_t
resident_peak(struct sluice_space *space, enum sluice_tier tier)
{
	return stats(space).resident_peak_bytes[tier];
}

struct sluice_residency
residency(struct sluice_space *space, const void *addr, size_t size)
{
	struct sluice_residency out;

	for (int i = 0; i < WAIT_STEPS_MAX; i++) {
		CHECK(sluice_residency(space, addr, size, &out) == 0);
		if (!out.in_flight_bytes)
			break;
		usleep(1000);
	}
	return out;
}

void
counter_wait(struct sluice_space *space, enum sluice_counter which, uint64_t value)
{
	for (int i = 0; i < WAIT_STEPS_MAX && counter(space, which) < value; i++)
		usleep(5000);
	CHECK_EQ(counter(space, which), value);
}

void *
region_map(struct sluice_space *space, const char *path, uint64_t offset, size_t size,
	   unsigned flags)
{
	void *addr = NULL;

	CHECK(sluice_map(space, path, offset, size, flags, &addr) == 0);
	return addr;
}

void *
region_alloc(struct sluice_space *space, size_t size)
{
	void *addr = NULL;

	CHECK(sluice_alloc(space, size, 0, &addr) == 0);
	return addr;
}

/* ---- files ------------------------------------------------------------------------------ */

const char *
file_path(const char *name)
{
	static char paths[8][600];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
	return path;
}

const char *
file_make(const char *name, uint64_t size, uint64_t seed)
{
	const char *path = file_path(name);
	uint64_t words = (size + 7) / 8;
	uint64_t *data = malloc(words * 8);
	FILE *file = fopen(path, "wb");

	CHECK(data && file);
	for (uint64_t i = 0; i < words; i++)
		data[i] = pattern(seed, i);
	CHECK(fwrite(data, 1, size, file) == size);
	CHECK(fclose(file) == 0);
	free(data);
	return path;
}

uint64_t
file_size(const char *path)
{
	struct stat st;

	CHECK(stat(path, &st) == 0);
	return (uint64_t)st.st_size;
}

void
file_expect(const char *path, uint64_t offset, uint64_t size, uint64_t seed, uint64_t first)
{
	uint64_t words = size / 8;
	uint64_t *data = malloc(size ? size : 1);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	CHECK(data && fd >= 0);
	CHECK(pread(fd, data, size, (off_t)offset) == (ssize_t)size);
	for (uint64_t i = 0; i < words; i++) {
		if (data[i] != pattern(seed, first + i)) {
			fprintf(stderr, "%s: word %llu of %llu\n", path,
				(unsigned long long)i, (unsigned long long)words);
			api_failed(__FILE__, __LINE__, "the file has the expected pattern");
		}
	}
	close(fd);
	free(data);
}

unsigned char
file_byte(const char *path, uint64_t offset)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned char byte = 0;

	CHECK(fd >= 0 && pread(fd, &byte, 1, (off_t)offset) == 1);
	close(fd);
	return byte;
}

/* ---- memory and kernels ----------------------------------------------------------------- */

void
memory_fill(void *addr, uint64_t size, uint64_t seed)
{
	uint64_t *words = addr;

	for (uint64_t i = 0; i < size / 8; i++)
		words[i] = pattern(seed, i);
}

void
memory_expect(const void *addr, uint64_t size, uint64_t seed)
{
	const uint64_t *words = addr;

	for (uint64_t i = 0; i < size / 8; i++) {
		uint64_t word = words[i];

		if (word != pattern(seed, i)) {
			fprintf(stderr, "word %llu of %llu is %llx, not %llx\n",
				(unsigned long long)i, (unsigned long long)(size / 8),
				(unsigned long long)word,
				(unsigned long long)pattern(seed, i));
			api_failed(__FILE__, __LINE__, "memory has the expected pattern");
		}
	}
}

void
memory_expect_zeros(const void *addr, uint64_t size)
{
	const unsigned char *bytes = addr;

	for (uint64_t i = 0; i < size; i++) {
		if (bytes[i]) {
			fprintf(stderr, "byte %llu of %llu is %u\n",
				(unsigned long long)i, (unsigned long long)size, bytes[i]);
			api_failed(__FILE__, __LINE__, "memory reads as zeros");
		}
	}
}

void
kernel_nothing(const struct sluice_block *block, void *args)
{
	(void)block;
	(void)args;
}

void
kernel_range(const struct sluice_block *block, void *args)
{
	const struct kernel_args *a = args;
	uint64_t n = a->size_bytes / 8;
	uint64_t share = (n + block->grid.x - 1) / block->grid.x;
	uint64_t begin = block->index.x * share;
	uint64_t end = begin + share < n ? begin + share : n;
	volatile uint64_t *words = a->addr;
	uint64_t sum = 0;

	for (uint64_t i = begin; i < end; i++) {
		switch (a->kind) {
		case KERNEL_READ:
			sum += words[i];
			break;
		case KERNEL_FILL:
			words[i] = pattern(a->seed, i);
			break;
		case KERNEL_ADD:
			words[i] += a->seed;
			break;
		case KERNEL_COUNT:
			break;
		}
	}
	(void)sum;
}

void
launch(struct sluice_space *space, enum kernel_kind kind, void *addr, uint64_t size,
       enum sluice_intent intent, uint64_t seed)
{
	struct kernel_args args = {addr, size, seed, kind};
	struct sluice_use one = {addr, size, intent};
	struct sluice_grid grid = {2, 1, 1};

	CHECK(sluice_launch(space, NULL, kernel_range, grid, &args, sizeof(args), &one,
			    intent != SLUICE_USE_COUNT) == 0);
}

int
launch_uses(struct sluice_space *space, const struct sluice_use *uses, size_t n)
{
	struct sluice_grid grid = {1, 1, 1};

	return sluice_launch(space, NULL, kernel_nothing, grid, NULL, 0, uses, n);
}

void
use(struct sluice_space *space, const void *addr, uint64_t size, enum sluice_intent intent)
{
	struct sluice_use one = {addr, size, intent};

	CHECK(launch_uses(space, &one, 1) == 0);
}

void
gate_make(struct gate *gate)
{
	CHECK(pipe(gate->ends) == 0);
}

void
gate_close(struct gate *gate, struct sluice_space *s, struct sluice_stream *stream)
{
	gate_make(gate);
	CHECK(sluice_stream_callback(s, stream, gate_wait, gate) == 0);
}

void
gate_wait(void *gate)
{
	char byte;

	CHECK(read(((struct gate *)gate)->ends[0], &byte, 1) == 1);
}

void
kernel_gate(const struct sluice_block *block, void *gate)
{
	(void)block;
	gate_wait(gate);
}

void
gate_open(struct gate *gate)
{
	CHECK(write(gate->ends[1], "x", 1) == 1);
}

char *
pressure_make(struct sluice_space *s)
{
	return region_map(s, file_make("pressure", 16 * CHUNK, 88), 0, 0, SLUICE_READ);
}

void
press(struct sluice_space *s, char *pressure, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		use(s, at_chunk(pressure, i), CHUNK, SLUICE_USE_READ);
	space_sync(s);
}

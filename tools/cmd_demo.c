/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice demo`: two programs, hotspot and srad, work on files many times larger than the memory
 * they are given; then the same programs do the same on mmap()ed files within as much memory; then
 * a short table and a picture.
 *
 * The programs are those of workloads/, run unchanged; the demonstration chooses sizes by the
 * measured speed of the disk so that all of it stays under two minutes, samples where the data
 * are, and compares the outputs of both ways byte for byte.
 *
 * Processes: the first one only waits. It makes a directory for the files, starts a second one
 * that does the work, and removes the directory and the memory group when that one has ended,
 * however it ends, or when a signal arrives (Ctrl-C). A run over mmap() is a third process, since
 * the limit of its memory group would count against the others. Each dies with its parent.
 *
 * Threads: the working process has one for the programs, one that samples, and the library's.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "cgroup.h"
#include "commands.h"
#include "disk_rate.h"
#include "json.h"
#include "picture.h"
#include "progress.h"
#include "sluice/sluice.h"
#include "workload.h"

#define MIB             (UINT64_C(1) << 20)
#define CHUNK_BYTES     (2 * MIB)
#define FOOTPRINT_MOST  (1024 * MIB)
#define FOOTPRINT_LEAST (192 * MIB)
#define FOOTPRINT_QUICK (192 * MIB)
#define TARGET_S        80.0 /* what the runs may take as reckoned; two minutes are the limit */
/* How much longer than the disk's own time for the same bytes the runs are reckoned to take. */
#define OURS_FACTOR     1.7
#define MMAP_FACTOR     6.0
#define SAMPLE_MAX      4096
#define SAMPLE_NS       UINT64_C(10000000)
#define REGION_MAX      16

static const char demo_help[] =
	"Usage: sluice demo [--dir DIR] [--quick] [--size SIZE] [--picture FILE] "
	"[--json]\n"
	"\n"
	"Run two programs (hotspot, srad) over files at least 8 times larger than "
	"device\n"
	"memory and twice as large as device and host memory together, then the same "
	"over\n"
	"mmap in as much memory; compare the results, print times and bytes moved, and "
	"draw\n"
	"where the data were. Takes less than two minutes and removes its files.\n"
	"\n"
	"Options:\n"
	"      --dir DIR       where the files go (default: TMPDIR, else /var/tmp)\n"
	"      --quick         small files, a few seconds\n"
	"      --size SIZE     bytes of each program's files (K, M, G; at least 192M;\n"
	"                      default: up to 1G, by the speed of the disk)\n"
	"      --picture FILE  where the picture goes (default: sluice-demo.svg in the\n"
	"                      directory for the files)\n"
	"      --json          print one JSON object instead of the table\n"
	"  -h, --help          print this and exit\n";

static const char *const program_names[] = {"hotspot", "srad_v2"};
#define PROGRAM_N (sizeof(program_names) / sizeof(program_names[0]))

struct options {
	const char *dir;
	int quick;
	uint64_t size_bytes; /* 0: chosen */
	char picture[4096];
	int as_json;
};

/* Written by the working process, read by the first one once that has ended. */
struct shared {
	struct cgroup_limit limit; /* dir "": none was tried */
};

/*
 * Samples of one program's run. Taken by a thread of its own, which sees the waits for the disk,
 * and with each step of the program, which the scheduler cannot leave out on a busy machine.
 */
struct sampler {
	pthread_t thread;
	int runs;   /* the thread */
	int active; /* under lock: there is a space */
	atomic_int stop;
	pthread_mutex_t lock; /* of the samples; the space's own lock is taken under it */
	struct sluice_space *space;
	uint64_t begin_ns, period_ns;
	uint64_t due_ns; /* no sample before */
	struct picture_sample samples[SAMPLE_MAX];
	size_t sample_n;
};

/* One program, both ways. */
struct program {
	const struct workload *workload;
	struct workload_params params;
	struct workload_plan plan;
	struct workload_result ours, mmap;
	struct sampler *sampler;
	struct progress progress;
	char progress_name[32];
	int mmap_rc;          /* 0: it ran */
	char mmap_error[512]; /* why not */
	int compared;         /* 1: both outputs were read */
	int same;             /* 1: and they are equal */
	double disk_s;        /* what our bytes take at the disk's measured rates */
};

struct demo {
	const struct options *options;
	const char *dir; /* of this run */
	struct shared *shared;
	struct disk_rate disk;
	uint64_t footprint_bytes; /* of each program, before rounding */
	uint64_t device_bytes, host_bytes, staging_bytes;
	uint64_t limit_bytes;  /* of the mmap runs */
	int limited;           /* 1: a memory group holds them to it */
	char limit_error[512]; /* why not */
	struct program programs[PROGRAM_N];
};

/* ---- sampling ---- */

static void
sample_add(struct sampler *sampler)
{
	struct sluice_region_info infos[REGION_MAX];
	struct picture_sample *sample;
	struct sluice_stats stats;
	size_t n = 0;

	if (sampler->sample_n == SAMPLE_MAX) {
		/* Keep every other one and go on half as often. */
		for (size_t i = 0; i < SAMPLE_MAX / 2; i++)
			sampler->samples[i] = sampler->samples[2 * i];
		sampler->sample_n = SAMPLE_MAX / 2;
		sampler->period_ns *= 2;
	}
	sample = &sampler->samples[sampler->sample_n];
	memset(sample, 0, sizeof(*sample));
	if (sluice_regions(sampler->space, infos, REGION_MAX, &n))
		return;
	sluice_stats_get(sampler->space, &stats);
	sample->at_ns = sl_now_ns() - sampler->begin_ns;
	for (size_t i = 0; i < n && i < REGION_MAX; i++) {
		sample->tier_bytes[SLUICE_TIER_DEVICE] += infos[i].bytes.device;
		sample->tier_bytes[SLUICE_TIER_HOST] += infos[i].bytes.host;
		sample->tier_bytes[SLUICE_TIER_STORE] += infos[i].bytes.store;
	}
	sample->moved_bytes[PICTURE_STORE_READ] = sluice_stats_store_read_bytes(&stats);
	sample->moved_bytes[PICTURE_STORE_WRITE] = sluice_stats_store_write_bytes(&stats);
	sample->moved_bytes[PICTURE_TO_DEVICE] = sluice_stats_h2d_bytes(&stats);
	sample->moved_bytes[PICTURE_FROM_DEVICE] = sluice_stats_d2h_bytes(&stats);
	sampler->sample_n++;
}

/* Add a sample if one is due. */
static void
sample_try(struct sampler *sampler)
{
	pthread_mutex_lock(&sampler->lock);
	if (sampler->active && sl_now_ns() >= sampler->due_ns) {
		sample_add(sampler);
		sampler->due_ns = sl_now_ns() + sampler->period_ns;
	}
	pthread_mutex_unlock(&sampler->lock);
}

static void *
sampler_main(void *arg)
{
	struct sampler *sampler = arg;

	while (!atomic_load(&sampler->stop)) {
		struct timespec pause = {.tv_nsec = (int64_t)SAMPLE_NS};

		nanosleep(&pause, NULL);
		sample_try(sampler);
	}
	return NULL;
}

static void
space_made(void *arg, struct sluice_space *space)
{
	struct sampler *sampler = ((struct program *)arg)->sampler;

	sampler->space = space;
	sampler->begin_ns = sl_now_ns();
	sampler->period_ns = SAMPLE_NS;
	sampler->due_ns = 0;
	sampler->active = 1; /* no other thread yet */
	sample_try(sampler);
	atomic_store(&sampler->stop, 0);
	sampler->runs = pthread_create(&sampler->thread, NULL, sampler_main, sampler) == 0;
}

static void
space_ending(void *arg, struct sluice_space *space)
{
	struct sampler *sampler = ((struct program *)arg)->sampler;

	(void)space;
	atomic_store(&sampler->stop, 1);
	if (sampler->runs)
		pthread_join(sampler->thread, NULL);
	sampler->runs = 0;
	/* The moves of the last period belong to the picture too. */
	sampler->due_ns = 0;
	sample_try(sampler);
	sampler->active = 0;
}

static void
show_progress(void *arg, const char *phase, double fraction)
{
	struct program *program = arg;

	sample_try(program->sampler);
	progress_update(&program->progress, phase, fraction);
}

/* ---- sizes ---- */

/*
 * Bytes that fit the time: what each program moves through the disk, in units of its footprint,
 * is known (hotspot reads 2/3 and writes 1/3; srad reads up to 14/6 and writes 2), the inputs are
 * generated once (2/3 and 1/6), and mmap moves at least the same.
 */
static uint64_t
footprint_choose(const struct disk_rate *disk)
{
	double once = (2.0 / 3 + 1.0 / 6) / disk->write_bytes_per_s;
	double both = (2.0 / 3 + 14.0 / 6) / disk->read_bytes_per_s +
		      (1.0 / 3 + 2.0) / disk->write_bytes_per_s;
	double most = TARGET_S / (once + both * (OURS_FACTOR + MMAP_FACTOR));
	uint64_t bytes = most > (double)FOOTPRINT_MOST ? FOOTPRINT_MOST : (uint64_t)most;

	bytes = bytes / (64 * MIB) * (64 * MIB);
	return bytes < FOOTPRINT_LEAST ? FOOTPRINT_LEAST : bytes;
}

/* Budgets from what the programs really occupy, which is less than the footprint asked for. */
static int
sizes_choose(struct demo *demo)
{
	uint64_t least = UINT64_MAX;
	char error[WORKLOAD_TEXT_BYTES];

	for (size_t i = 0; i < PROGRAM_N; i++) {
		struct program *program = &demo->programs[i];

		program->params.footprint_bytes = demo->footprint_bytes;
		if (workload_plan_make(program->workload, &program->params,
				       &program->plan, error))
			return command_fail("demo", "%s: %s", program->workload->name, error);
		if (program->plan.footprint_bytes < least)
			least = program->plan.footprint_bytes;
	}
	/* A sixteenth, or an eighth where that would be too few chunks to work with. */
	demo->device_bytes = least / (least >= 768 * MIB ? 16 : 8) / CHUNK_BYTES * CHUNK_BYTES;
	demo->host_bytes = least / 8 / CHUNK_BYTES * CHUNK_BYTES;
	demo->staging_bytes = 16 * CHUNK_BYTES;
	demo->limit_bytes = demo->device_bytes + demo->host_bytes + demo->staging_bytes;
	return SL_EXIT_OK;
}

static int
programs_init(struct demo *demo)
{
	for (size_t i = 0; i < PROGRAM_N; i++) {
		struct program *program = &demo->programs[i];

		program->workload = workload_find(program_names[i]);
		if (!program->workload)
			return command_fail("demo", "this build has no workload '%s'",
					    program_names[i]);
		if (workload_params_init(program->workload, &program->params))
			return command_fail("demo", "%s", sluice_last_error());
		program->params.dir = demo->dir;
		program->params.keep = 1; /* the mmap run uses the same inputs */
		program->params.arg = program;
		program->params.on_progress = show_progress;
		program->sampler = calloc(1, sizeof(*program->sampler));
		if (!program->sampler)
			return command_fail("demo", "out of memory");
		pthread_mutex_init(&program->sampler->lock, NULL);
	}
	return SL_EXIT_OK;
}

static int
budgets_set(const struct demo *demo, struct sluice_config *config)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "device_budget=%" PRIu64 ",host_budget=%" PRIu64
		 ",host_reserve=0,staging=%" PRIu64 ",chunk=%" PRIu64,
		 demo->device_bytes, demo->host_bytes, demo->staging_bytes, CHUNK_BYTES);
	if (sluice_config_parse(config, text))
		return command_fail("demo", "%s", sluice_last_error());
	snprintf(config->spill_dirs, sizeof(config->spill_dirs), "%s", demo->dir);
	return SL_EXIT_OK;
}

/* ---- outputs ---- */

/* A 64-bit digest of a file's bytes, so that two outputs can be compared one after the other. */
static int
file_digest(const char *path, uint64_t *digest)
{
	SL_CLEANUP(free) uint64_t *words = malloc(MIB);
	SL_CLEANUP(close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0 || !words)
		return -errno;
	while ((got = read(fd, words, MIB)) > 0) {
		size_t bytes = (size_t)got;

		if (bytes % sizeof(*words)) /* the last, incomplete word counts with zeros */
			memset((char *)words + bytes, 0,
			       sizeof(*words) - bytes % sizeof(*words));
		for (size_t i = 0; i < (bytes + sizeof(*words) - 1) / sizeof(*words); i++) {
			*digest = (*digest ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
			*digest ^= *digest >> 29;
		}
		*digest += bytes;
	}
	if (got < 0)
		return -errno;
	/* What was read here must not be in memory when the next run begins. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return 0;
}

/* Of all arrays that are results. 0 or -errno. */
static int
outputs_digest(const struct program *program, uint64_t *out)
{
	uint64_t digest = 1;
	int results = 0;

	for (unsigned i = 0; i < program->plan.n_arrays; i++) {
		const struct workload_array *array = &program->plan.array[i];
		char path[4096];
		int rc;

		if (array->role != WORKLOAD_OUTPUT && array->role != WORKLOAD_IN_PLACE)
			continue;
		if ((size_t)snprintf(path, sizeof(path), "%s/sluice-%s/%s.bin",
				     program->params.dir, program->workload->name,
				     array->name) >= sizeof(path))
			return -ENAMETOOLONG;
		rc = file_digest(path, &digest);
		if (rc)
			return rc;
		results++;
	}
	*out = digest;
	return results ? 0 : -ENOENT;
}

/* ---- the mmap run ---- */

/* In the child: run, send the result, end. */
static void
mmap_child(const struct demo *demo, struct program *program, pid_t parent, int to)
{
	struct workload_result *result = &program->mmap;
	const char *at = (const char *)result;
	size_t left = sizeof(*result);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(SL_EXIT_FAILED);
	memset(result, 0, sizeof(*result));
	program->mmap_rc = 0;
	if (demo->limited && cgroup_limit_enter(&demo->shared->limit)) {
		program->mmap_rc = -EACCES;
		snprintf(result->error, sizeof(result->error), "%s", sluice_last_error());
	}
	if (!program->mmap_rc) {
		progress_begin(&program->progress, program->progress_name);
		program->mmap_rc = workload_run(program->workload, &program->params, result);
		progress_end(&program->progress);
	}
	while (left) {
		ssize_t sent = write(to, at, left);

		if (sent <= 0)
			_exit(SL_EXIT_FAILED);
		at += sent;
		left -= (size_t)sent;
	}
	_exit(program->mmap_rc ? SL_EXIT_FAILED : SL_EXIT_OK);
}

/* How a child that sent no result has ended. */
static void
mmap_lost(const struct demo *demo, struct program *program, int status)
{
	program->mmap_rc = -ECHILD;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && demo->limited)
		snprintf(program->mmap_error, sizeof(program->mmap_error),
			 "killed: the kernel found no memory to free in its group");
	else if (WIFSIGNALED(status))
		snprintf(program->mmap_error, sizeof(program->mmap_error),
			 "killed by signal %d", WTERMSIG(status));
	else
		snprintf(program->mmap_error, sizeof(program->mmap_error),
			 "ended without a result");
}

/* The same program over mmap()ed files. What goes wrong is in program->mmap_error. */
static void
mmap_run(struct demo *demo, struct program *program)
{
	struct workload_result *result = &program->mmap;
	size_t got = 0;
	int pipe_fds[2], status = 0;
	pid_t parent = getpid(), child;

	program->params.memory = WORKLOAD_MEMORY_MMAP;
	program->params.on_space_made = NULL;
	program->params.on_space_ending = NULL;
	snprintf(program->progress_name, sizeof(program->progress_name), "%s over mmap",
		 program->workload->name);
	if (pipe2(pipe_fds, O_CLOEXEC)) {
		program->mmap_rc = -errno;
		snprintf(program->mmap_error, sizeof(program->mmap_error), "pipe: %s",
			 strerror(errno));
		return;
	}
	fflush(NULL);
	child = fork();
	if (child == 0) {
		close(pipe_fds[0]);
		mmap_child(demo, program, parent, pipe_fds[1]);
	}
	close(pipe_fds[1]);
	while (child > 0 && got < sizeof(*result)) {
		ssize_t n = read(pipe_fds[0], (char *)result + got, sizeof(*result) - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	close(pipe_fds[0]);
	if (child < 0) {
		program->mmap_rc = -errno;
		snprintf(program->mmap_error, sizeof(program->mmap_error), "fork: %s",
			 strerror(errno));
		return;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (got < sizeof(*result)) {
		mmap_lost(demo, program, status);
	} else if (!WIFEXITED(status) || WEXITSTATUS(status) != SL_EXIT_OK) {
		program->mmap_rc = -EIO;
		snprintf(program->mmap_error, sizeof(program->mmap_error), "%.500s",
			 result->error);
	} else {
		program->mmap_rc = 0;
	}
}

/* A memory group for the mmap runs, where one can be made. */
static void
limit_make(struct demo *demo)
{
	char name[64];

	snprintf(name, sizeof(name), "sluice-demo-%d", (int)getpid());
	if (cgroup_limit_create(name, demo->limit_bytes, &demo->shared->limit)) {
		snprintf(demo->limit_error, sizeof(demo->limit_error), "%s",
			 sluice_last_error());
		return;
	}
	demo->limited = 1;
}

/* ---- one program ---- */

static int
program_run(struct demo *demo, struct program *program)
{
	uint64_t ours_digest, mmap_digest;
	const struct sluice_stats *stats = &program->ours.after;
	int rc;

	rc = budgets_set(demo, &program->params.config);
	if (rc)
		return rc;
	program->params.memory = WORKLOAD_MEMORY_SLUICE;
	program->params.on_space_made = space_made;
	program->params.on_space_ending = space_ending;
	snprintf(program->progress_name, sizeof(program->progress_name), "%s",
		 program->workload->name);
	progress_begin(&program->progress, program->progress_name);
	rc = workload_run(program->workload, &program->params, &program->ours);
	progress_end(&program->progress);
	if (rc)
		return command_fail("demo", "%s: %s", program->workload->name,
				    program->ours.error);
	rc = outputs_digest(program, &ours_digest);
	if (rc)
		return command_fail("demo", "%s: reading the result: %s",
				    program->workload->name, strerror(-rc));
	program->disk_s = (double)sluice_stats_store_read_bytes(stats) /
				  demo->disk.read_bytes_per_s +
			  (double)sluice_stats_store_write_bytes(stats) /
				  demo->disk.write_bytes_per_s;

	mmap_run(demo, program);
	if (!program->mmap_rc && !outputs_digest(program, &mmap_digest)) {
		program->compared = 1;
		program->same = ours_digest == mmap_digest;
	}
	/* Room on the disk for the next program. */
	if (workload_remove_files(program->workload, demo->dir))
		fprintf(stderr, "sluice demo: files of %s stay until the end\n",
			program->workload->name);
	return SL_EXIT_OK;
}

/* ---- printing ---- */

static double
seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static double
speedup(const struct program *program)
{
	return program->mmap_rc || !program->ours.total_ns
		       ? 0
		       : (double)program->mmap.total_ns / (double)program->ours.total_ns;
}

static double
disk_fraction(const struct program *program)
{
	return program->ours.total_ns ? program->disk_s / seconds(program->ours.total_ns)
				      : 0;
}

static void
print_row(const struct demo *demo, const char *name,
	  void (*value)(const struct demo *demo, const struct program *program,
			char *text, size_t text_bytes))
{
	char text[64];

	printf("%-34s", name);
	for (size_t i = 0; i < PROGRAM_N; i++) {
		value(demo, &demo->programs[i], text, sizeof(text));
		printf(" %14s", text);
	}
	putchar('\n');
}

static void
value_footprint(const struct demo *demo, const struct program *program, char *text,
		size_t text_bytes)
{
	(void)demo;
	sl_size_format(program->plan.footprint_bytes, text, text_bytes);
}

static void
value_times_device(const struct demo *demo, const struct program *program, char *text,
		   size_t text_bytes)
{
	snprintf(text, text_bytes, "%.1f x",
		 (double)program->plan.footprint_bytes / (double)demo->device_bytes);
}

static void
value_times_both(const struct demo *demo, const struct program *program, char *text,
		 size_t text_bytes)
{
	snprintf(text, text_bytes, "%.1f x",
		 (double)program->plan.footprint_bytes /
			 (double)(demo->device_bytes + demo->host_bytes));
}

static void
value_time(const struct demo *demo, const struct program *program, char *text,
	   size_t text_bytes)
{
	(void)demo;
	snprintf(text, text_bytes, "%.2f s", seconds(program->ours.total_ns));
}

static void
value_mmap_time(const struct demo *demo, const struct program *program, char *text,
		size_t text_bytes)
{
	(void)demo;
	if (program->mmap_rc)
		snprintf(text, text_bytes, "failed");
	else
		snprintf(text, text_bytes, "%.2f s", seconds(program->mmap.total_ns));
}

static void
value_speedup(const struct demo *demo, const struct program *program, char *text,
	      size_t text_bytes)
{
	(void)demo;
	if (program->mmap_rc)
		snprintf(text, text_bytes, "-");
	else
		snprintf(text, text_bytes, "%.2f x", speedup(program));
}

static void
value_same(const struct demo *demo, const struct program *program, char *text,
	   size_t text_bytes)
{
	(void)demo;
	snprintf(text, text_bytes, "%s",
		 !program->compared ? "not compared"
		 : program->same    ? "yes"
				    : "NO");
}

static void
value_disk(const struct demo *demo, const struct program *program, char *text,
	   size_t text_bytes)
{
	(void)demo;
	snprintf(text, text_bytes, "%.0f %%", 100 * disk_fraction(program));
}

static void
value_misses(const struct demo *demo, const struct program *program, char *text,
	     size_t text_bytes)
{
	(void)demo;
	snprintf(text, text_bytes, "%" PRIu64,
		 program->ours.after.counter[SLUICE_COUNTER_MISSES]);
}

/* Bytes moved, one row for each cause that moved any. */
static void
print_moves(const struct demo *demo)
{
	char text[64];

	for (int i = 0; i < SLUICE_COUNTER_COUNT; i++) {
		enum sluice_counter counter = (enum sluice_counter)i;
		uint64_t sum = 0;

		if (strcmp(sluice_counter_unit(counter), "bytes") != 0)
			continue;
		for (size_t at = 0; at < PROGRAM_N; at++)
			sum += demo->programs[at].ours.after.counter[i];
		if (!sum)
			continue;
		printf("  %-32s", sluice_counter_name(counter));
		for (size_t at = 0; at < PROGRAM_N; at++)
			printf(" %14s",
			       sl_size_format(demo->programs[at].ours.after.counter[i],
					      text, sizeof(text)));
		printf("   %s\n", sluice_counter_text(counter));
	}
}

static void
print_table(const struct demo *demo)
{
	char device[32], host[32], staging[32], limit[32];

	sl_size_format(demo->device_bytes, device, sizeof(device));
	sl_size_format(demo->host_bytes, host, sizeof(host));
	sl_size_format(demo->staging_bytes, staging, sizeof(staging));
	sl_size_format(demo->limit_bytes, limit, sizeof(limit));
	printf("device memory %s, host memory %s, buffers for I/O %s; software device\n",
	       device, host, staging);
	printf("disk: reads %.2f GB/s, writes %.2f GB/s (%s, measured now)\n\n",
	       demo->disk.read_bytes_per_s / 1e9, demo->disk.write_bytes_per_s / 1e9,
	       demo->disk.direct ? "O_DIRECT" : "page cache");

	printf("%-34s", "");
	for (size_t i = 0; i < PROGRAM_N; i++)
		printf(" %14s", demo->programs[i].workload->name);
	putchar('\n');
	print_row(demo, "data in files", value_footprint);
	print_row(demo, "  over device memory", value_times_device);
	print_row(demo, "  over device and host memory", value_times_both);
	print_row(demo, "time with Sluice", value_time);
	print_row(demo, "time with mmap", value_mmap_time);
	print_row(demo, "Sluice is faster by", value_speedup);
	print_row(demo, "same result, byte for byte", value_same);
	print_row(demo, "fraction of the disk's rate", value_disk);
	print_row(demo, "misses", value_misses);
	puts("bytes by cause");
	print_moves(demo);
	putchar('\n');
	if (demo->limited)
		printf("mmap ran in a memory group of %s: as much as Sluice had.\n", limit);
	else
		printf("mmap ran without memory limit (%s): it could keep all its files "
		       "in memory.\n",
		       demo->limit_error);
	for (size_t i = 0; i < PROGRAM_N; i++)
		if (demo->programs[i].mmap_rc)
			printf("%s over mmap: %s\n", demo->programs[i].workload->name,
			       demo->programs[i].mmap_error);
	printf("picture: %s\n", demo->options->picture);
}

static void
json_size(struct json *json, const char *key, uint64_t value)
{
	json_key(json, key);
	json_u64(json, value);
}

static void
json_number(struct json *json, const char *key, double value)
{
	json_key(json, key);
	json_double(json, value);
}

static void
json_program(struct json *json, const struct program *program)
{
	json_object(json);
	json_key(json, "name");
	json_string(json, program->workload->name);
	json_size(json, "footprint_bytes", program->plan.footprint_bytes);
	json_number(json, "time_s", seconds(program->ours.total_ns));
	if (program->mmap_rc) {
		json_key(json, "mmap_error");
		json_string(json, program->mmap_error);
	} else {
		json_number(json, "mmap_time_s", seconds(program->mmap.total_ns));
		json_number(json, "speedup", speedup(program));
	}
	json_key(json, "same_result");
	if (program->compared)
		json_bool(json, program->same);
	else
		json_null(json);
	json_number(json, "disk_fraction", disk_fraction(program));
	json_size(json, "device_peak_bytes",
		  program->ours.after.resident_peak_bytes[SLUICE_TIER_DEVICE]);
	json_size(json, "host_peak_bytes",
		  program->ours.after.resident_peak_bytes[SLUICE_TIER_HOST]);
	json_size(json, "samples", program->sampler->sample_n);
	json_key(json, "counters");
	json_object(json);
	for (int i = 0; i < SLUICE_COUNTER_COUNT; i++)
		json_size(json, sluice_counter_name((enum sluice_counter)i),
			  program->ours.after.counter[i]);
	json_close(json);
	json_close(json);
}

static void
print_json(const struct demo *demo)
{
	struct json json;

	json_begin(&json, stdout);
	json_object(&json);
	json_key(&json, "version");
	json_string(&json, sluice_version());
	json_size(&json, "device_budget_bytes", demo->device_bytes);
	json_size(&json, "host_budget_bytes", demo->host_bytes);
	json_size(&json, "staging_bytes", demo->staging_bytes);
	json_number(&json, "disk_read_bytes_per_s", demo->disk.read_bytes_per_s);
	json_number(&json, "disk_write_bytes_per_s", demo->disk.write_bytes_per_s);
	json_key(&json, "disk_direct");
	json_bool(&json, demo->disk.direct);
	json_key(&json, "mmap_limit_bytes");
	if (demo->limited)
		json_u64(&json, demo->limit_bytes);
	else
		json_null(&json);
	json_key(&json, "programs");
	json_array(&json);
	for (size_t i = 0; i < PROGRAM_N; i++)
		json_program(&json, &demo->programs[i]);
	json_close(&json);
	json_key(&json, "picture");
	json_string(&json, demo->options->picture);
	json_end(&json);
}

/* ---- the working process ---- */

static int
picture_draw(const struct demo *demo)
{
	struct picture_program drawn[PROGRAM_N];
	char title[128], device[32], host[32];

	for (size_t i = 0; i < PROGRAM_N; i++) {
		const struct sampler *sampler = demo->programs[i].sampler;

		drawn[i] = (struct picture_program){
			.name = demo->programs[i].workload->name,
			.samples = sampler->samples,
			.sample_n = sampler->sample_n,
			.device_budget_bytes = demo->device_bytes,
			.host_budget_bytes = demo->host_bytes,
			.staging_bytes = demo->staging_bytes,
		};
	}
	snprintf(title, sizeof(title), "Files through %s of device and %s of host memory",
		 sl_size_format(demo->device_bytes, device, sizeof(device)),
		 sl_size_format(demo->host_bytes, host, sizeof(host)));
	if (picture_write(demo->options->picture, title, drawn, PROGRAM_N))
		return command_fail("demo", "%s", sluice_last_error());
	return SL_EXIT_OK;
}

static int
demo_work(const struct options *options, const char *dir, struct shared *shared)
{
	static struct demo demo; /* large: results and plans */
	int rc;

	demo.options = options;
	demo.dir = dir;
	demo.shared = shared;
	rc = programs_init(&demo);
	if (rc)
		return rc;
	if (disk_rate_measure(dir, (options->quick ? 128 : 512) * MIB,
			      options->quick ? 1.0 : 3.0, &demo.disk))
		return command_fail("demo", "%s", sluice_last_error());
	if (options->size_bytes)
		demo.footprint_bytes = options->size_bytes;
	else if (options->quick)
		demo.footprint_bytes = FOOTPRINT_QUICK;
	else
		demo.footprint_bytes = footprint_choose(&demo.disk);
	rc = sizes_choose(&demo);
	if (rc)
		return rc;
	limit_make(&demo);
	for (size_t i = 0; i < PROGRAM_N; i++) {
		rc = program_run(&demo, &demo.programs[i]);
		if (rc)
			return rc;
	}
	rc = picture_draw(&demo);
	if (rc)
		return rc;
	if (options->as_json)
		print_json(&demo);
	else
		print_table(&demo);
	for (size_t i = 0; i < PROGRAM_N; i++)
		if (demo.programs[i].compared && !demo.programs[i].same)
			rc = command_fail("demo", "%s: the results differ: report this",
					  demo.programs[i].workload->name);
	return rc;
}

/* ---- the first process ---- */

static int
entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	if (remove(path))
		fprintf(stderr, "sluice demo: %s stays: %s\n", path, strerror(errno));
	return 0;
}

static void
clean_up(const char *dir, const struct shared *shared)
{
	/* Also one that was being made when the worker was ended; there may be none. */
	if (shared->limit.dir[0] && cgroup_limit_destroy(&shared->limit))
		fprintf(stderr, "sluice demo: the memory group stays, remove it later: %s\n",
			sluice_last_error());
	nftw(dir, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* Wait for the worker; a signal of *wanted ends it. Its exit status; *by: the signal, or 0. */
static int
worker_wait(pid_t worker, const sigset_t *wanted, int *by)
{
	int status = 0;

	*by = 0;
	for (;;) {
		int sig = sigwaitinfo(wanted, NULL);

		if (sig == SIGCHLD) {
			/* Also sent when the worker is stopped or goes on. */
			if (waitpid(worker, &status, WNOHANG) != worker)
				continue;
			/* A terminal sends its signal to both; the worker may be first. */
			if (WIFSIGNALED(status) && WTERMSIG(status) != SIGCHLD &&
			    sigismember(wanted, WTERMSIG(status)) == 1)
				*by = WTERMSIG(status);
			return status;
		} else if (sig > 0) {
			*by = sig;
			kill(worker, SIGKILL);
			while (waitpid(worker, &status, 0) < 0 && errno == EINTR)
				;
			return status;
		}
	}
}

static int
demo_run(const struct options *options, const char *dir)
{
	sigset_t wanted, none;
	struct shared *shared;
	pid_t parent = getpid(), worker;
	int status, by, rc;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return command_fail("demo", "mmap: %s", strerror(errno));
	fflush(NULL);
	worker = fork();
	if (worker == 0) {
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(SL_EXIT_FAILED);
		rc = demo_work(options, dir, shared);
		if (fflush(stdout) || ferror(stdout))
			rc = command_fail("demo", "writing the output: %s", strerror(errno));
		_exit(rc);
	}
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGINT);
	sigaddset(&wanted, SIGTERM);
	sigaddset(&wanted, SIGHUP);
	sigaddset(&wanted, SIGCHLD);
	if (worker < 0) {
		rc = command_fail("demo", "fork: %s", strerror(errno));
		by = 0;
	} else {
		status = worker_wait(worker, &wanted, &by);
		rc = WIFEXITED(status) ? WEXITSTATUS(status) : SL_EXIT_FAILED;
		if (!by && WIFSIGNALED(status))
			rc = command_fail("demo", "ended by signal %d", WTERMSIG(status));
	}
	clean_up(dir, shared);
	munmap(shared, sizeof(*shared));
	if (by) {
		/* End as the signal asks, so that a shell sees it. */
		signal(by, SIG_DFL);
		sigemptyset(&wanted);
		sigaddset(&wanted, by);
		sigprocmask(SIG_UNBLOCK, &wanted, NULL);
		raise(by);
	}
	return rc;
}

static int
options_read(int argc, char **argv, struct options *options)
{
	static const struct option table[] = {
		{"dir", required_argument, NULL, 'd'},
		{"quick", no_argument, NULL, 'q'},
		{"size", required_argument, NULL, 's'},
		{"picture", required_argument, NULL, 'p'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":h", table, NULL)) != -1) {
		switch (c) {
		case 'd':
			options->dir = optarg;
			break;
		case 'q':
			options->quick = 1;
			break;
		case 's':
			if (sl_size_parse(optarg, &options->size_bytes) ||
			    options->size_bytes < FOOTPRINT_LEAST)
				return command_usage("demo", "--size '%s': a size of at least 192M",
						     optarg);
			break;
		case 'p':
			if (strlen(optarg) >= sizeof(options->picture) || !*optarg)
				return command_usage("demo",
						     "--picture: not a file name");
			snprintf(options->picture, sizeof(options->picture), "%s", optarg);
			break;
		case 'j':
			options->as_json = 1;
			break;
		case 'h':
			fputs(demo_help, stdout);
			return -1;
		default:
			return command_bad_option("demo", c, argv);
		}
	}
	if (optind < argc)
		return command_usage("demo", "'%s' is one argument too many", argv[optind]);
	if (options->quick && options->size_bytes)
		return command_usage("demo", "--quick and --size contradict each other");
	return 0;
}

/* The picture is written at the end: find out now that it cannot be. */
static int
picture_check(struct options *options)
{
	FILE *file;

	if (!options->picture[0] &&
	    (size_t)snprintf(options->picture, sizeof(options->picture),
			     "%s/sluice-demo.svg", options->dir) >= sizeof(options->picture))
		return command_fail("demo", "%s: the name is too long", options->dir);
	file = fopen(options->picture, "ae");
	if (!file)
		return command_fail("demo", "%s: %s", options->picture, strerror(errno));
	fclose(file);
	return SL_EXIT_OK;
}

int
cmd_demo(int argc, char **argv)
{
	struct options options = {0};
	sigset_t wanted;
	char dir[4096];
	int rc = options_read(argc, argv, &options);

	if (rc)
		return rc < 0 ? SL_EXIT_OK : rc;
	if (!options.dir)
		options.dir = getenv("TMPDIR");
	if (!options.dir || !*options.dir)
		options.dir = "/var/tmp";
	rc = picture_check(&options);
	if (rc)
		return rc;
	/* From here a signal is waited for, and the directory is removed before it takes effect. */
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGINT);
	sigaddset(&wanted, SIGTERM);
	sigaddset(&wanted, SIGHUP);
	sigaddset(&wanted, SIGCHLD);
	sigprocmask(SIG_BLOCK, &wanted, NULL);
	if ((size_t)snprintf(dir, sizeof(dir), "%s/sluice-demo-XXXXXX", options.dir) >=
	    sizeof(dir))
		return command_fail("demo", "%s: the name is too long", options.dir);
	if (!mkdtemp(dir))
		return command_fail("demo", "%s: %s; choose another directory with --dir",
				    options.dir, strerror(errno));
	return demo_run(&options, dir);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The working process of `sluice demo`. It measures the disk, chooses sizes for the time, and
 * runs each program under Sluice and then over mmap. It compares the outputs, and makes the
 * picture and the table.
 *
 * While a program runs under Sluice, a thread samples where its data are and how many bytes
 * moved, for the picture. Outputs are compared by a digest of each, since the second run writes
 * over the files of the first.
 *
 * The first process removes files and memory group, however this one ends.
 *
 * Threads: one for the programs, one that samples, and the library's.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "commands.h"
#include "demo.h"
#include "disk_rate.h"
#include "picture.h"
#include "progress.h"
#include "sluice/sluice.h"
#include "workload.h"

#define CHUNK_BYTES     (2 * MIB)
#define FOOTPRINT_MOST  (1024 * MIB)
#define FOOTPRINT_QUICK (192 * MIB)
#define TARGET_S        80.0 /* what the runs may take as reckoned; two minutes are the limit */
/* How much longer than the disk's own time for the same bytes the runs are reckoned to take. */
#define OURS_FACTOR     1.7
#define MMAP_FACTOR     6.0
#define SAMPLE_NS       UINT64_C(10000000)
#define REGION_MAX      16

static const char *const program_names[PROGRAM_N] = {"hotspot", "srad_v2"};

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
	struct sampler *sampler = &((struct program *)arg)->sampler;

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
	struct sampler *sampler = &((struct program *)arg)->sampler;

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

	sample_try(&program->sampler);
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
		pthread_mutex_init(&program->sampler.lock, NULL);
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

static int
digest_timed(struct program *program, uint64_t *out)
{
	uint64_t begin_ns = sl_now_ns();
	int rc = outputs_digest(program, out);

	program->compare_ns += sl_now_ns() - begin_ns;
	return rc;
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
	rc = digest_timed(program, &ours_digest);
	if (rc)
		return command_fail("demo", "%s: reading the result: %s",
				    program->workload->name, strerror(-rc));
	program->disk_s = (double)sluice_stats_store_read_bytes(stats) /
				  demo->disk.read_bytes_per_s +
			  (double)sluice_stats_store_write_bytes(stats) /
				  demo->disk.write_bytes_per_s;

	demo_mmap_run(demo, program);
	if (!program->mmap_rc && !digest_timed(program, &mmap_digest)) {
		program->compared = 1;
		program->same = ours_digest == mmap_digest;
	}
	/* Room on the disk for the next program. */
	if (workload_remove_files(program->workload, demo->dir))
		fprintf(stderr, "sluice demo: files of %s stay until the end\n",
			program->workload->name);
	return SL_EXIT_OK;
}

/* ---- the working process ---- */

/*
 * The file for the picture, without a name that somebody else chose: no link is followed, and what
 * is there already is written only if it is a file of ours. A descriptor, or -errno with a text.
 */
static int
picture_open(struct demo *demo)
{
	const char *asked = demo->options->picture;
	struct stat st;
	int fd, rc;

	snprintf(demo->picture, sizeof(demo->picture), "%s",
		 asked ? asked : "sluice-demo-XXXXXX.svg");
	if (asked)
		/* O_NONBLOCK: a pipe that nobody reads is refused, not waited for. */
		fd = open(asked, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
			  0666);
	else
		fd = mkostemps(demo->picture, (int)strlen(".svg"), O_CLOEXEC);
	if (fd < 0)
		return sl_fail(-errno, "%s: %s: name another file with --picture",
			       demo->picture,
			       errno == ELOOP ? "a symbolic link" : strerror(errno));
	rc = fstat(fd, &st);
	if (!rc && (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1))
		rc = sl_fail(-EPERM,
			     "%s: not a file of this user's: name another one with "
			     "--picture",
			     demo->picture);
	else if (rc || ftruncate(fd, 0))
		rc = sl_fail(-errno, "%s: %s", demo->picture, strerror(errno));
	else
		return fd;
	close(fd);
	return rc;
}

/* The machine, the day, and the seconds of each step: "build1, 2026-11-24: hotspot 3.1 s, ...". */
static void
picture_about(const struct demo *demo, char *text, size_t bytes)
{
	time_t now = time(NULL);
	struct tm day;
	char date[32] = "", host[64] = "";
	size_t n;

	if (localtime_r(&now, &day))
		strftime(date, sizeof(date), "%Y-%m-%d", &day);
	if (gethostname(host, sizeof(host) - 1))
		host[0] = '\0';
	snprintf(text, bytes, "%s, %ld processors, %s: disk measured in %.1f s", host,
		 sysconf(_SC_NPROCESSORS_ONLN), date, (double)demo->disk_ns / 1e9);
	for (size_t i = 0; i < PROGRAM_N; i++) {
		const struct program *program = &demo->programs[i];

		n = strlen(text);
		snprintf(text + n, bytes - n, "; %s: files %.1f s, run %.1f s",
			 program->workload->name,
			 (double)(program->ours.generate_ns + program->mmap.generate_ns) / 1e9,
			 (double)program->ours.total_ns / 1e9);
		n = strlen(text);
		if (!program->mmap_rc)
			snprintf(text + n, bytes - n, ", over mmap %.1f s",
				 (double)program->mmap.total_ns / 1e9);
	}
}

static int
picture_draw(struct demo *demo)
{
	struct picture_program drawn[PROGRAM_N];
	char title[128], about[256], device[32], host[32];
	FILE *file;
	int fd, rc;

	for (size_t i = 0; i < PROGRAM_N; i++) {
		const struct sampler *sampler = &demo->programs[i].sampler;

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
	fd = picture_open(demo);
	if (fd < 0)
		return fd;
	file = fdopen(fd, "w");
	if (!file) {
		rc = sl_fail(-errno, "%s: %s", demo->picture, strerror(errno));
		close(fd);
		return rc;
	}
	picture_about(demo, about, sizeof(about));
	rc = picture_write(file, title, about, drawn, PROGRAM_N);
	if (fclose(file) && !rc)
		rc = sl_fail(-errno, "%s: %s", demo->picture, strerror(errno));
	return rc;
}

/* A picture that cannot be made is said with the results: it does not fail the demonstration. */
static void
picture_make(struct demo *demo)
{
	demo->picture_rc = picture_draw(demo);
	if (demo->picture_rc)
		snprintf(demo->picture_error, sizeof(demo->picture_error), "%s",
			 sluice_last_error());
}

int
demo_work(const struct options *options, const char *dir, struct shared *shared)
{
	static struct demo demo; /* large: results, plans and samples */
	struct progress progress;
	int rc;

	demo.options = options;
	demo.dir = dir;
	demo.shared = shared;
	rc = programs_init(&demo);
	if (rc)
		return rc;
	demo.begin_ns = sl_now_ns();
	progress_begin(&progress, "measuring");
	rc = disk_rate_measure(dir, (options->quick ? 128 : 512) * MIB,
			       options->quick ? 1.0 : 3.0, &progress, &demo.disk);
	progress_end(&progress);
	if (rc)
		return command_fail("demo", "%s", sluice_last_error());
	demo.disk_ns = sl_now_ns() - demo.begin_ns;
	if (options->size_bytes)
		demo.footprint_bytes = options->size_bytes;
	else if (options->quick)
		demo.footprint_bytes = FOOTPRINT_QUICK;
	else
		demo.footprint_bytes = footprint_choose(&demo.disk);
	rc = sizes_choose(&demo);
	if (rc)
		return rc;
	demo_limit_make(&demo);
	for (size_t i = 0; i < PROGRAM_N; i++) {
		rc = program_run(&demo, &demo.programs[i]);
		if (rc)
			return rc;
	}
	picture_make(&demo);
	if (options->as_json)
		demo_print_json(&demo);
	else
		demo_print_table(&demo);
	for (size_t i = 0; i < PROGRAM_N; i++)
		if (demo.programs[i].compared && !demo.programs[i].same)
			rc = command_fail("demo", "%s: the results differ: report this",
					  demo.programs[i].workload->name);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random reads of 4 KiB in a file much larger than the memory allowed, for some seconds, by any
 * number of threads. One process runs one variant once:
 *
 *   disk    the limit: direct reads by 64 threads, so that the disk is never idle
 *   hand    direct reads by the requested threads, one at a time each
 *   mmap    mmap with MADV_RANDOM
 *   host    Sluice, host threads: plain loads from a region advised SLUICE_ADVISE_RANDOM
 *   kernel  Sluice, the same loads by a kernel that declares nothing, a block for each thread
 *
 * Each read checks one word of its page. The rate counts the reads that were done when the time
 * was over. Each thread looks at the clock after every read. The page cache is empty at the
 * start. The memory limit of mmap is a cgroup that the caller made. Sluice has --memory by its
 * budgets.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common.h"
#include "sluice/sluice.h"

#define DISK_THREADS 64
#define PAGE_WORDS   (BENCH_ALIGN / 8)

struct reads {
	const char *path;
	const char *cgroup;
	const char *config; /* more settings of the space */
	uint64_t size_bytes;
	uint64_t memory_bytes;
	uint64_t staging_bytes;
	uint64_t warm_bytes;
	uint64_t duration_ns;
	uint32_t threads;
	uint64_t base;        /* of the data file */
	uint64_t seed;        /* of the places read; every thread adds its number */
	int fd;               /* direct: pread() from here */
	const uint64_t *data; /* or loads from here */
	uint64_t start_ns;
	_Atomic uint64_t count; /* reads done */
	_Atomic uint64_t wrong; /* reads with unexpected contents */
};

/* What every thread of every variant does. */
static void
reads_thread(void *arg, uint32_t i)
{
	struct reads *r = arg;
	uint64_t pages = r->size_bytes / BENCH_ALIGN;
	uint64_t random = r->seed + i * 0x1000193u;
	uint64_t *page = r->data ? NULL : bench_alloc(BENCH_ALIGN);
	uint64_t count = 0, wrong = 0;

	do {
		uint64_t word = bench_random(&random) % pages * PAGE_WORDS;
		uint64_t value;

		if (r->data)
			value = *(const volatile uint64_t *)&r->data[word];
		else if (pread(r->fd, page, BENCH_ALIGN, (off_t)(word * 8)) == BENCH_ALIGN)
			value = page[0];
		else
			bench_fail("%s: read at %llu: %s", r->path,
				   (unsigned long long)word * 8, strerror(errno));
		wrong += value != r->base + word * BENCH_STEP;
		count++;
	} while (bench_now_ns() - r->start_ns < r->duration_ns);

	atomic_fetch_add(&r->count, count);
	atomic_fetch_add(&r->wrong, wrong);
	free(page);
}

static uint64_t
peer_run(struct reads *r, const char *variant)
{
	void *map = NULL;

	if (strcmp(variant, "mmap")) {
		r->fd = bench_file_open_direct(r->path, O_RDONLY);
		if (!strcmp(variant, "disk"))
			r->threads = DISK_THREADS;
	} else {
		r->fd = open(r->path, O_RDONLY | O_CLOEXEC);
		map = mmap(NULL, r->size_bytes, PROT_READ, MAP_SHARED, r->fd, 0);
		if (r->fd < 0 || map == MAP_FAILED ||
		    madvise(map, r->size_bytes, MADV_RANDOM))
			bench_fail("%s: mmap: %s", r->path, strerror(errno));
		r->data = map;
	}
	r->start_ns = bench_now_ns();
	bench_threads(r->threads, reads_thread, r);
	r->start_ns = bench_now_ns() - r->start_ns;
	if (map)
		munmap(map, r->size_bytes);
	close(r->fd);
	return r->start_ns;
}

static void
reads_kernel(const struct sluice_block *block, void *arg)
{
	reads_thread(*(struct reads **)arg, block->index.x);
}

static struct sluice_space *
space_create(const struct reads *r)
{
	struct sluice_config config;
	struct sluice_space *space;

	if (r->memory_bytes < r->staging_bytes + BENCH_HUGE_BYTES)
		bench_usage("--memory is less than --staging and one chunk");
	if (sluice_config_init(&config))
		bench_fail("%s", sluice_last_error());
	config.device = SLUICE_DEVICE_SOFT;
	config.device_budget_bytes = r->memory_bytes - r->staging_bytes;
	config.host_budget_bytes = 0;
	config.staging_bytes = r->staging_bytes;
	config.workers = r->threads;
	if (r->config && sluice_config_parse(&config, r->config))
		bench_usage("%s", sluice_last_error());
	if (sluice_space_create(&config, &space))
		bench_fail("%s", sluice_last_error());
	return space;
}

static uint64_t
ours_run(struct reads *r, const char *variant, struct sluice_space *space)
{
	struct sluice_grid grid = {r->threads, 1, 1};
	void *addr;
	uint64_t ns;

	if (sluice_map(space, r->path, 0, r->size_bytes, SLUICE_READ, &addr) ||
	    sluice_advise(space, addr, r->size_bytes, SLUICE_ADVISE_RANDOM))
		bench_fail("%s", sluice_last_error());
	r->data = addr;
	r->start_ns = bench_now_ns();
	if (!strcmp(variant, "host")) {
		bench_threads(r->threads, reads_thread, r);
	} else if (sluice_launch(space, NULL, reads_kernel, grid, &r, sizeof(r), NULL, 0) ||
		   sluice_stream_synchronize(space, NULL)) {
		bench_fail("%s", sluice_last_error());
	}
	ns = bench_now_ns() - r->start_ns;
	return ns;
}

static const char help[] =
	"usage: bench_random --file FILE --variant disk|hand|mmap|host|kernel [OPTIONS]\n"
	"\n"
	"FILE is made by bench_stream --create.\n"
	"\n"
	"  --size SIZE      of the file that is used (6G)\n"
	"  --memory SIZE    ours: device + staging (512M)\n"
	"  --staging SIZE   ours: frames for I/O, a part of --memory (32M)\n"
	"  --config TEXT    ours: more settings, as sluice_config_parse() takes them\n"
	"  --threads N      that read (1); disk: always 64\n"
	"  --milliseconds N how long (5000)\n"
	"  --seed N         of the places read (1)\n"
	"  --cgroup DIR     memory cgroup to enter before the run\n"
	"  --warm SIZE      memory touched before anything else (2G)\n";

static void
options_parse(int argc, char **argv, struct reads *r, const char **variant)
{
	uint32_t milliseconds = 5000;
	const struct bench_option options[] = {
		{"file", BENCH_OPTION_TEXT, &r->path, 0, 0},
		{"variant", BENCH_OPTION_TEXT, variant, 0, 0},
		{"size", BENCH_OPTION_SIZE, &r->size_bytes, 0, 0},
		{"memory", BENCH_OPTION_SIZE, &r->memory_bytes, 0, 0},
		{"staging", BENCH_OPTION_SIZE, &r->staging_bytes, 0, 0},
		{"config", BENCH_OPTION_TEXT, &r->config, 0, 0},
		{"threads", BENCH_OPTION_COUNT, &r->threads, 1, 256},
		{"milliseconds", BENCH_OPTION_COUNT, &milliseconds, 1, 600000},
		{"seed", BENCH_OPTION_SIZE, &r->seed, 0, 0},
		{"cgroup", BENCH_OPTION_TEXT, &r->cgroup, 0, 0},
		{"warm", BENCH_OPTION_SIZE, &r->warm_bytes, 0, 0},
	};

	bench_options_parse(argc, argv, options, sizeof(options) / sizeof(options[0]), help);
	r->duration_ns = milliseconds * 1000000ull;
	if (!r->path || !*variant)
		bench_usage("--file and --variant are needed; see --help");
	if (!r->size_bytes || r->size_bytes % BENCH_ALIGN)
		bench_usage("--size must be a multiple of 4096");
}

static int
variant_is_ours(const char *variant)
{
	static const char *const peers[] = {"disk", "hand", "mmap"};

	if (!strcmp(variant, "host") || !strcmp(variant, "kernel"))
		return 1;
	for (size_t i = 0; i < sizeof(peers) / sizeof(*peers); i++)
		if (!strcmp(variant, peers[i]))
			return 0;
	bench_usage("--variant: \"%s\" is not known; see --help", variant);
}

int
main(int argc, char **argv)
{
	struct reads r = {.size_bytes = 6ull << 30,
			  .memory_bytes = 512u << 20,
			  .staging_bytes = 32u << 20,
			  .warm_bytes = 2ull << 30,
			  .threads = 1,
			  .seed = 1};
	struct sluice_space *space = NULL;
	const char *variant = NULL;
	uint64_t ns;

	options_parse(argc, argv, &r, &variant);
	if (variant_is_ours(variant))
		space = space_create(&r);
	r.base = bench_file_base(r.path, r.size_bytes);
	bench_warm(r.warm_bytes);
	bench_file_drop(r.path, r.size_bytes);
	bench_cgroup_enter(r.cgroup);

	ns = space ? ours_run(&r, variant, space) : peer_run(&r, variant);

	if (r.wrong)
		bench_fail("%s: %llu of %llu reads gave wrong contents", variant,
			   (unsigned long long)r.wrong, (unsigned long long)r.count);
	bench_json_begin("random", variant);
	bench_json_count("threads", r.threads);
	bench_json_count("size_bytes", r.size_bytes);
	bench_json_count("memory_bytes", r.memory_bytes);
	bench_json_count("reads", r.count);
	bench_json_number("seconds", (double)ns / 1e9);
	bench_json_number("k_per_s", (double)r.count * 1e6 / (double)ns);
	if (space)
		bench_json_counters(space);
	bench_json_end();
	if (sluice_space_destroy(space))
		bench_fail("%s", sluice_last_error());
	return 0;
}

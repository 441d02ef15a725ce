/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a launch and of a discard when nothing has to move. One process makes one
 * measurement:
 *
 *   rows     pathfinder: one tiny launch for each row of a grid, all data resident. The same
 *            kernel runs by turns on plain memory, on managed memory undeclared, and on managed
 *            memory with its uses. The differences are the cost of management
 *   begin    sluice_launch_begin() and _end() with 10 resident uses of 1 and of 16 chunks each
 *   discard  sluice_discard(), eager and lazy, sluice_alloc() and sluice_unmap() by size, beside the
 *            system's calls for the same memory: madvise(MADV_DONTNEED), mmap, munmap
 *
 * Times are medians over many repetitions in the process. Counters prove each measurement:
 * launches were resident, nothing moved, the bytes were discarded.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common.h"
#include "sluice/sluice.h"

#define BLOCK_COLS  8192
#define BEGIN_USES  10
#define REPEATS_MAX 1000

struct setup {
	const char *config; /* more settings of the space */
	uint64_t memory_bytes;
	uint64_t warm_bytes;
	uint32_t rows;
	uint32_t cols;
	uint32_t workers;
	uint32_t repeats;
};

static struct sluice_space *
space_create(const struct setup *setup)
{
	struct sluice_config config;
	struct sluice_space *space;

	if (sluice_config_init(&config))
		bench_fail("%s", sluice_last_error());
	config.device = SLUICE_DEVICE_SOFT;
	config.device_budget_bytes = setup->memory_bytes;
	config.host_budget_bytes = 0;
	config.workers = setup->workers;
	if (setup->config && sluice_config_parse(&config, setup->config))
		bench_usage("%s", sluice_last_error());
	if (sluice_space_create(&config, &space))
		bench_fail("%s", sluice_last_error());
	return space;
}

static void *
managed_alloc(struct sluice_space *space, size_t bytes)
{
	void *addr;

	if (sluice_alloc(space, bytes, 0, &addr))
		bench_fail("%s", sluice_last_error());
	return addr;
}

static void
counter_expect(struct sluice_space *space, enum sluice_counter counter, uint64_t expected)
{
	struct sluice_stats stats;

	sluice_stats_get(space, &stats);
	if (stats.counter[counter] != expected)
		bench_fail("not what was to be measured: counter %s is %llu, not %llu",
			   sluice_counter_name(counter),
			   (unsigned long long)stats.counter[counter],
			   (unsigned long long)expected);
}

static void
nothing_moved_expect(struct sluice_space *space)
{
	struct sluice_stats stats;

	sluice_stats_get(space, &stats);
	if (sluice_stats_h2d_bytes(&stats) || sluice_stats_d2h_bytes(&stats) ||
	    sluice_stats_store_read_bytes(&stats) || sluice_stats_store_write_bytes(&stats))
		bench_fail("data moved, though all should be resident");
}

static void
resident_expect(struct sluice_space *space, const void *addr, size_t bytes)
{
	struct sluice_residency residency;

	if (sluice_residency(space, addr, bytes, &residency))
		bench_fail("%s", sluice_last_error());
	if (residency.tier_bytes[SLUICE_TIER_DEVICE] != bytes)
		bench_fail("%llu of %zu bytes are on the device: raise --memory",
			   (unsigned long long)residency.tier_bytes[SLUICE_TIER_DEVICE],
			   bytes);
}

/* A kernel that writes every byte, so that the range is resident and dirty. */

struct fill_args {
	uint64_t *data;
	uint64_t words; /* per block */
};

static void
fill_kernel(const struct sluice_block *block, void *arg)
{
	const struct fill_args *args = arg;

	bench_fill(args->data + block->index.x * args->words, args->words, 1);
}

static void
managed_fill(struct sluice_space *space, void *addr, size_t bytes)
{
	struct fill_args args = {addr, BENCH_HUGE_BYTES / 8};
	struct sluice_grid grid = {(uint32_t)(bytes / BENCH_HUGE_BYTES), 1, 1};
	struct sluice_use use = {addr, bytes, SLUICE_USE_WRITE_ALL};

	if (sluice_launch(space, NULL, fill_kernel, grid, &args, sizeof(args), &use, 1) ||
	    sluice_stream_synchronize(space, NULL))
		bench_fail("%s", sluice_last_error());
	resident_expect(space, addr, bytes);
}

/* rows: each row's cheapest way down, from the row above; the two result rows change places. */

struct row_args {
	const int32_t *data; /* this row */
	const int32_t *above;
	int32_t *result;
	uint32_t cols;
};

static int32_t
least(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

static void
row_kernel(const struct sluice_block *block, void *arg)
{
	const struct row_args *args = arg;
	const int32_t *data = args->data, *above = args->above;
	int32_t *restrict result = args->result;
	uint32_t last = args->cols - 1;
	uint32_t first = block->index.x * BLOCK_COLS;
	uint32_t end = first + BLOCK_COLS < args->cols ? first + BLOCK_COLS : args->cols;

	if (first == 0) {
		result[0] = data[0] + least(above[0], above[1]);
		first = 1;
	}
	if (end > last) {
		result[last] = data[last] + least(above[last - 1], above[last]);
		end = last;
	}
	for (uint32_t x = first; x < end; x++)
		result[x] = data[x] + least(least(above[x - 1], above[x]), above[x + 1]);
}

/* One case: its own data, so that none finds the data of another in the processor's caches. */
struct rows {
	const char *key;
	struct sluice_space *space;
	const struct setup *setup;
	int32_t *data;
	int32_t *result[2];
	int declared;    /* launches name their uses */
	double *each_ns; /* every launch when waited for, of all repetitions */
	double queued_ns[REPEATS_MAX];
};

static void
rows_begin(const struct rows *rows)
{
	memcpy(rows->result[0], rows->data, rows->setup->cols * sizeof(int32_t));
}

static struct row_args
row_args_of(const struct rows *rows, uint32_t row)
{
	return (struct row_args){rows->data + (size_t)row * rows->setup->cols,
				 rows->result[(row + 1) % 2], rows->result[row % 2],
				 rows->setup->cols};
}

static struct sluice_grid
row_grid(const struct setup *setup)
{
	return (struct sluice_grid){(setup->cols + BLOCK_COLS - 1) / BLOCK_COLS, 1, 1};
}

static void
row_launch(const struct rows *rows, uint32_t row)
{
	size_t bytes = rows->setup->cols * sizeof(int32_t);
	struct row_args args = row_args_of(rows, row);
	struct sluice_use uses[3] = {{args.data, bytes, SLUICE_USE_READ},
				     {args.above, bytes, SLUICE_USE_READ},
				     {args.result, bytes, SLUICE_USE_WRITE_ALL}};

	if (sluice_launch(rows->space, NULL, row_kernel, row_grid(rows->setup), &args,
			  sizeof(args), uses, rows->declared ? 3 : 0))
		bench_fail("row %u: %s", row, sluice_last_error());
}

static void
rows_wait(const struct rows *rows)
{
	if (sluice_stream_synchronize(rows->space, NULL))
		bench_fail("%s", sluice_last_error());
}

/* All cases row by row in turn, each launch waited for, as the published program does. */
static void
rows_run_each(struct rows *cases, size_t n, uint32_t repeat)
{
	uint32_t count = cases->setup->rows - 1;

	for (size_t c = 0; c < n; c++)
		rows_begin(&cases[c]);
	for (uint32_t row = 1; row <= count; row++) {
		for (size_t c = 0; c < n; c++) {
			uint64_t start = bench_now_ns();

			row_launch(&cases[c], row);
			rows_wait(&cases[c]);
			cases[c].each_ns[repeat * count + row - 1] = (double)(bench_now_ns() -
									      start);
		}
	}
}

/* All rows of a case enqueued, then waited for; nanoseconds per launch. */
static double
rows_run_queued(const struct rows *rows)
{
	uint64_t start;

	rows_begin(rows);
	start = bench_now_ns();
	for (uint32_t row = 1; row < rows->setup->rows; row++)
		row_launch(rows, row);
	rows_wait(rows);
	return (double)(bench_now_ns() - start) / (rows->setup->rows - 1);
}

/* The work without any launch, on one thread; nanoseconds per row. */
static double
rows_run_direct(const struct rows *rows)
{
	struct sluice_block block = {.grid = row_grid(rows->setup)};
	uint64_t start;

	rows_begin(rows);
	start = bench_now_ns();
	for (uint32_t row = 1; row < rows->setup->rows; row++) {
		struct row_args args = row_args_of(rows, row);

		for (block.index.x = 0; block.index.x < block.grid.x; block.index.x++)
			row_kernel(&block, &args);
	}
	return (double)(bench_now_ns() - start) / (rows->setup->rows - 1);
}

static void
rows_init(struct rows *rows, const struct setup *setup, struct sluice_space *space, int managed)
{
	size_t row_bytes = setup->cols * sizeof(int32_t);
	size_t data_bytes = row_bytes * setup->rows;
	uint64_t random = 9;

	rows->setup = setup;
	rows->space = space;
	rows->data = managed ? managed_alloc(space, data_bytes) : bench_alloc(data_bytes);
	for (int i = 0; i < 2; i++)
		rows->result[i] = managed ? managed_alloc(space, row_bytes)
					  : bench_alloc(row_bytes);
	rows->each_ns = bench_alloc((size_t)setup->repeats * setup->rows * sizeof(double));
	for (size_t i = 0; i < data_bytes / sizeof(int32_t); i++)
		rows->data[i] = (int32_t)(bench_random(&random) % 10);
	memset(rows->result[1], 0, row_bytes);
	(void)rows_run_queued(rows); /* what is not yet resident comes in here */
	if (managed)
		resident_expect(space, rows->data, data_bytes);
}

static void
rows_print(struct rows *rows)
{
	size_t launches = (size_t)rows->setup->repeats * (rows->setup->rows - 1);
	char key[64];

	snprintf(key, sizeof(key), "each_%s_ns", rows->key);
	bench_json_number(key, bench_median(rows->each_ns, launches));
	snprintf(key, sizeof(key), "queued_%s_ns", rows->key);
	bench_json_number(key, bench_median(rows->queued_ns, rows->setup->repeats));
}

static void
rows_measure(const struct setup *setup)
{
	static struct rows cases[] = {{.key = "plain"},
				      {.key = "undeclared"},
				      {.key = "declared", .declared = 1}};
	const size_t n = sizeof(cases) / sizeof(*cases);
	struct sluice_space *space = space_create(setup);
	uint32_t last = (setup->rows - 1) % 2; /* where the last row's result is */
	double direct[REPEATS_MAX];

	for (size_t c = 0; c < n; c++)
		rows_init(&cases[c], setup, space, c > 0);
	sluice_stats_reset(space);
	for (uint32_t i = 0; i < setup->repeats; i++) {
		rows_run_each(cases, n, i);
		for (size_t c = 0; c < n; c++)
			cases[c].queued_ns[i] = rows_run_queued(&cases[c]);
		for (size_t c = 1; c < n; c++)
			if (memcmp(cases[0].result[last], cases[c].result[last],
				   setup->cols * sizeof(int32_t)))
				bench_fail("managed and plain memory give different "
					   "results");
		direct[i] = rows_run_direct(&cases[0]);
	}
	nothing_moved_expect(space);
	counter_expect(space, SLUICE_COUNTER_MISSES, 0);

	bench_json_begin("launch", "rows");
	bench_json_count("rows", setup->rows);
	bench_json_count("cols", setup->cols);
	bench_json_count("workers", setup->workers);
	for (size_t c = 0; c < n; c++)
		rows_print(&cases[c]);
	bench_json_number("direct_ns", bench_median(direct, setup->repeats));
	bench_json_counters(space);
	bench_json_end();
	if (sluice_space_destroy(space))
		bench_fail("%s", sluice_last_error());
}

/* begin */

static double
begin_end_ns(const struct setup *setup, struct sluice_space *space,
	     const struct sluice_use *uses, size_t n_uses)
{
	enum { BATCH = 1000 };
	struct sluice_launch *launch;
	double ns[REPEATS_MAX];

	for (uint32_t i = 0; i < setup->repeats; i++) {
		uint64_t start = bench_now_ns();

		for (unsigned k = 0; k < BATCH; k++) {
			if (sluice_launch_begin(space, NULL, uses, n_uses, &launch))
				bench_fail("%s", sluice_last_error());
			sluice_launch_end(launch);
		}
		ns[i] = (double)(bench_now_ns() - start) / BATCH;
	}
	return bench_median(ns, setup->repeats);
}

static void
begin_measure(const struct setup *setup)
{
	static const uint64_t sizes[] = {1, 16}; /* chunks of 2 MiB in a use */
	struct sluice_space *space;
	char key[64];

	bench_json_begin("launch", "begin");
	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
		size_t bytes = sizes[s] * BENCH_HUGE_BYTES;
		struct sluice_use uses[BEGIN_USES];

		space = space_create(setup);
		for (int i = 0; i < BEGIN_USES; i++) {
			void *addr = managed_alloc(space, bytes);

			managed_fill(space, addr, bytes);
			uses[i] = (struct sluice_use){addr, bytes,
						      i % 2 ? SLUICE_USE_READ_WRITE
							    : SLUICE_USE_READ};
		}
		sluice_stats_reset(space);
		for (size_t n = 1; n <= BEGIN_USES; n += BEGIN_USES - 1) {
			snprintf(key, sizeof(key), "uses_%zu_of_%llu_chunks_ns", n,
				 (unsigned long long)sizes[s]);
			bench_json_number(key, begin_end_ns(setup, space, uses, n));
		}
		nothing_moved_expect(space);
		counter_expect(space, SLUICE_COUNTER_LAUNCHES_RESIDENT,
			       2ull * 1000 * setup->repeats);
		if (sluice_space_destroy(space))
			bench_fail("%s", sluice_last_error());
	}
	bench_json_end();
}

/* discard */

static double
elapsed_us(uint64_t start_ns)
{
	return (double)(bench_now_ns() - start_ns) / 1e3;
}

static double
discard_us(const struct setup *setup, struct sluice_space *space, size_t bytes,
	   enum sluice_discard_mode mode)
{
	void *addr = managed_alloc(space, bytes);
	double us[REPEATS_MAX];

	sluice_stats_reset(space);
	for (uint32_t i = 0; i < setup->repeats; i++) {
		uint64_t start;

		managed_fill(space, addr, bytes);
		start = bench_now_ns();
		if (sluice_discard(space, addr, bytes, mode, NULL))
			bench_fail("%s", sluice_last_error());
		us[i] = elapsed_us(start);
	}
	counter_expect(space, SLUICE_COUNTER_DISCARDS, (uint64_t)bytes * setup->repeats);
	nothing_moved_expect(space);
	if (sluice_unmap(space, addr))
		bench_fail("%s", sluice_last_error());
	return bench_median(us, setup->repeats);
}

static void
alloc_unmap_us(const struct setup *setup, struct sluice_space *space, size_t bytes,
	       double *alloc_us, double *unmap_us)
{
	double alloc[REPEATS_MAX], unmap[REPEATS_MAX];

	for (uint32_t i = 0; i < setup->repeats; i++) {
		uint64_t start = bench_now_ns();
		void *addr = managed_alloc(space, bytes);

		alloc[i] = elapsed_us(start);
		managed_fill(space, addr, bytes);
		start = bench_now_ns();
		if (sluice_unmap(space, addr))
			bench_fail("%s", sluice_last_error());
		unmap[i] = elapsed_us(start);
	}
	*alloc_us = bench_median(alloc, setup->repeats);
	*unmap_us = bench_median(unmap, setup->repeats);
}

/* The system's own price: memory in huge pages, filled; DONTNEED and munmap of it. */
static void
system_us(const struct setup *setup, size_t bytes, double *dontneed_us, double *munmap_us)
{
	double dontneed[REPEATS_MAX], unmap[REPEATS_MAX];

	for (uint32_t i = 0; i < setup->repeats; i++) {
		size_t room = bytes + BENCH_HUGE_BYTES;
		char *map = mmap(NULL, room, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		uint64_t *data;
		uint64_t start;

		if (map == MAP_FAILED)
			bench_fail("mmap: %s", strerror(errno));
		data = (uint64_t *)(map + (-(uintptr_t)map & (BENCH_HUGE_BYTES - 1)));
		(void)madvise(data, bytes, MADV_HUGEPAGE);
		bench_fill(data, bytes / 8, 1);
		start = bench_now_ns();
		if (madvise(data, bytes, MADV_DONTNEED))
			bench_fail("madvise: %s", strerror(errno));
		dontneed[i] = elapsed_us(start);
		bench_fill(data, bytes / 8, 1);
		start = bench_now_ns();
		munmap(map, room);
		unmap[i] = elapsed_us(start);
	}
	*dontneed_us = bench_median(dontneed, setup->repeats);
	*munmap_us = bench_median(unmap, setup->repeats);
}

static void
discard_measure(const struct setup *setup)
{
	static const uint32_t sizes_mib[] = {2, 8, 32, 128};
	struct sluice_space *space = space_create(setup);
	char key[64];

	bench_json_begin("launch", "discard");
	for (size_t s = 0; s < sizeof(sizes_mib) / sizeof(*sizes_mib); s++) {
		size_t bytes = (size_t)sizes_mib[s] << 20;
		struct {
			const char *name;
			double us;
		} rows[6] = {{"lazy", 0},  {"eager", 0},    {"alloc", 0},
			     {"unmap", 0}, {"dontneed", 0}, {"munmap", 0}};

		if (bytes > setup->memory_bytes)
			bench_usage("--memory must be 128M at least");
		rows[0].us = discard_us(setup, space, bytes, SLUICE_DISCARD_LAZY);
		rows[1].us = discard_us(setup, space, bytes, SLUICE_DISCARD_EAGER);
		alloc_unmap_us(setup, space, bytes, &rows[2].us, &rows[3].us);
		system_us(setup, bytes, &rows[4].us, &rows[5].us);
		for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
			snprintf(key, sizeof(key), "%s_%u_mib_us", rows[i].name,
				 sizes_mib[s]);
			bench_json_number(key, rows[i].us);
		}
	}
	bench_json_end();
	if (sluice_space_destroy(space))
		bench_fail("%s", sluice_last_error());
}

static const char help[] =
	"usage: bench_launch --measure rows|begin|discard [OPTIONS]\n"
	"\n"
	"  --memory SIZE    device budget (768M)\n"
	"  --rows N         rows: how many (1024)\n"
	"  --cols N         rows: numbers in each, 4 bytes (32768)\n"
	"  --workers N      kernel threads (2)\n"
	"  --repeats N      of each measurement; the median counts (15)\n"
	"  --config TEXT    more settings, as sluice_config_parse() takes them\n"
	"  --warm SIZE      memory touched before anything else (2G)\n";

static void
options_parse(int argc, char **argv, struct setup *setup, const char **measure)
{
	const struct bench_option options[] = {
		{"measure", BENCH_OPTION_TEXT, measure, 0, 0},
		{"memory", BENCH_OPTION_SIZE, &setup->memory_bytes, 0, 0},
		{"rows", BENCH_OPTION_COUNT, &setup->rows, 2, 1 << 20},
		{"cols", BENCH_OPTION_COUNT, &setup->cols, 2, 1 << 26},
		{"workers", BENCH_OPTION_COUNT, &setup->workers, 1, 256},
		{"repeats", BENCH_OPTION_COUNT, &setup->repeats, 1, REPEATS_MAX},
		{"config", BENCH_OPTION_TEXT, &setup->config, 0, 0},
		{"warm", BENCH_OPTION_SIZE, &setup->warm_bytes, 0, 0},
	};

	bench_options_parse(argc, argv, options, sizeof(options) / sizeof(options[0]), help);
	if (!*measure)
		bench_usage("--measure is needed; see --help");
}

int
main(int argc, char **argv)
{
	struct setup setup = {.memory_bytes = 768u << 20,
			      .warm_bytes = 2ull << 30,
			      .rows = 1024,
			      .cols = 32768,
			      .workers = 2,
			      .repeats = 15};
	const char *measure = NULL;

	options_parse(argc, argv, &setup, &measure);
	bench_warm(setup.warm_bytes);
	if (!strcmp(measure, "rows"))
		rows_measure(&setup);
	else if (!strcmp(measure, "begin"))
		begin_measure(&setup);
	else if (!strcmp(measure, "discard"))
		discard_measure(&setup);
	else
		bench_usage("--measure: \"%s\" is not rows, begin or discard", measure);
	return 0;
}

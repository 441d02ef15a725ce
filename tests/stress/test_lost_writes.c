/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No write is lost, however memory is moved. Threads of the host, kernels with declared uses and
 * kernels that run by faults increment counters. The counters are scattered over two regions,
 * several times larger than the device budget. Meanwhile other threads evict, prefetch, sync and
 * change the budget. Each counter has one writer, which keeps its own count beside. At the end
 * the two agree, in memory and, after unmap, in the file.
 *
 * A page holds one counter of each writer, so all of them write to the same pages. A launch that
 * declares only reading of one part of a chunk meets writers in the other part.
 *
 * Runs for each way in which the device moves memory: population x delivery of faults x move or
 * copy. Plain program, see common.h.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stress/common.h"

#define CHUNK         (2 * MIB)
#define CHUNKS        14
#define SIZE          (CHUNKS * CHUNK - 5 * PAGE) /* the last chunk is not whole */
#define SPOTS         6 /* pages of a chunk that hold counters */
#define HOSTS         3 /* host threads that increment */
#define KERNELS       2 /* threads that launch kernels that increment */
#define WRITERS       (HOSTS + KERNELS)
#define BURST         48
#define BUDGET_CHUNKS 4
#define MOVES_MIN     20

enum place { PLACE_FILE, PLACE_SPILL, PLACE_COUNT };

struct run {
	struct sluice_space *space;
	char *base[PLACE_COUNT];
	uint64_t count[WRITERS][PLACE_COUNT][CHUNKS][SPOTS]; /* by its writer only */
};

struct writer {
	struct run *run;
	unsigned id;
	uint64_t seed;
};

/* Pages 3, 80, 157 ...: none shares a 64 KiB group with another, all lie in the last chunk. */
static size_t
spot_offset(unsigned chunk, unsigned spot)
{
	return chunk * CHUNK + (3 + spot * 77) * PAGE;
}

static volatile uint64_t *
counter_at(const struct run *run, unsigned place, unsigned chunk, unsigned spot,
	   unsigned writer)
{
	return (volatile uint64_t *)(run->base[place] + spot_offset(chunk, spot) +
				     writer * 72);
}

/* ---- Writers ---- */

static void *
host_writer(void *arg)
{
	struct writer *w = arg;
	struct sl_rng rng;

	sl_rng_init(&rng, w->seed);
	while (!atomic_load(&stress.stop)) {
		unsigned place = (unsigned)sl_rng_below(&rng, PLACE_COUNT);
		unsigned chunk = (unsigned)sl_rng_below(&rng, CHUNKS);

		for (int i = 0; i < BURST; i++) {
			unsigned spot = (unsigned)sl_rng_below(&rng, SPOTS);

			++*counter_at(w->run, place, chunk, spot, w->id);
			w->run->count[w->id][place][chunk][spot]++;
		}
	}
	return NULL;
}

struct kernel_args {
	struct run *run;
	unsigned writer, place, chunk, first_spot, n_spots;
	uint64_t *expected; /* read-only launch: what the counters have */
};

static void
increment(const struct sluice_block *block, void *p)
{
	struct kernel_args *a = p;

	(void)block;
	for (int i = 0; i < BURST; i++)
		for (unsigned k = 0; k < a->n_spots; k++)
			++*counter_at(a->run, a->place, a->chunk, a->first_spot + k,
				      a->writer);
}

/* Reads what its own thread wrote, in pages that everybody else writes to now. */
static void
look(const struct sluice_block *block, void *p)
{
	struct kernel_args *a = p;

	(void)block;
	for (unsigned k = 0; k < a->n_spots; k++) {
		uint64_t got = *counter_at(a->run, a->place, a->chunk, a->first_spot + k,
					   a->writer);

		if (got != a->expected[k])
			FAIL("kernel read %llu for %llu", (unsigned long long)got,
			     (unsigned long long)a->expected[k]);
	}
}

/* How a kernel thread runs one launch. */
enum how { HOW_READ, HOW_WRITE, HOW_READ_WRITE, HOW_FAULTS, HOW_SCOPE, HOW_COUNT };

static void
kernel_launch(struct run *run, struct sluice_stream *stream, struct sl_rng *rng, unsigned id)
{
	enum how how = (enum how)sl_rng_below(rng, HOW_COUNT);
	struct kernel_args a = {.run = run,
				.writer = id,
				.place = (unsigned)sl_rng_below(rng, PLACE_COUNT),
				.chunk = (unsigned)sl_rng_below(rng, CHUNKS)};
	uint64_t *count;
	struct sluice_use use;
	struct sluice_launch *scope;

	a.first_spot = (unsigned)sl_rng_below(rng, SPOTS);
	a.n_spots = 1 + (unsigned)sl_rng_below(rng, SPOTS - a.first_spot);
	count = run->count[id][a.place][a.chunk] + a.first_spot;
	a.expected = count;
	/* From the middle of a page to the middle of another one. */
	use.addr = run->base[a.place] + spot_offset(a.chunk, a.first_spot) + id * 72;
	use.size_bytes = (a.n_spots - 1) * 77 * PAGE + sizeof(uint64_t);
	use.intent = how == HOW_READ    ? SLUICE_USE_READ
		     : how == HOW_WRITE ? SLUICE_USE_WRITE
					: SLUICE_USE_READ_WRITE;
	if (how == HOW_SCOPE) {
		OK(sluice_launch_begin(run->space, stream, &use, 1, &scope));
		if (stress.failures)
			return;
		increment(NULL, &a);
		sluice_launch_end(scope);
	} else {
		OK(sluice_launch(run->space, stream, how == HOW_READ ? look : increment,
				 (struct sluice_grid){1, 1, 1}, &a, sizeof(a), &use,
				 how != HOW_FAULTS));
		OK(sluice_stream_synchronize(run->space, stream));
	}
	for (unsigned k = 0; how != HOW_READ && k < a.n_spots; k++)
		count[k] += BURST;
}

static void *
kernel_writer(void *arg)
{
	struct writer *w = arg;
	struct sluice_stream *stream = NULL;
	struct sl_rng rng;

	sl_rng_init(&rng, w->seed);
	OK(sluice_stream_create(w->run->space, &stream));
	while (!atomic_load(&stress.stop))
		kernel_launch(w->run, stream, &rng, w->id);
	sluice_stream_destroy(stream);
	return NULL;
}

/* ---- Movers ---- */

static void
random_range(struct run *run, struct sl_rng *rng, char **addr, size_t *size)
{
	size_t from = sl_rng_below(rng, SIZE);

	*size = 1 + sl_rng_below(rng, SIZE - from < 3 * CHUNK ? SIZE - from : 3 * CHUNK);
	*addr = run->base[sl_rng_below(rng, PLACE_COUNT)] + from;
}

static void *
evictor(void *arg)
{
	struct writer *w = arg;
	struct sluice_space *space = w->run->space;
	struct sl_rng rng;

	sl_rng_init(&rng, w->seed);
	while (!atomic_load(&stress.stop)) {
		char *addr;
		size_t size;

		random_range(w->run, &rng, &addr, &size);
		switch (sl_rng_below(&rng, 5)) {
		case 0:
			OK(sluice_evict(space, addr, size, SLUICE_TIER_STORE, NULL));
			break;
		case 1:
		case 2:
			OK(sluice_evict(space, addr, size, SLUICE_TIER_HOST, NULL));
			break;
		case 3:
			OK(sluice_prefetch(space, addr, size,
					   sl_rng_below(&rng, 2) ? SLUICE_TIER_DEVICE
								 : SLUICE_TIER_HOST,
					   NULL));
			break;
		case 4:
			OK(sluice_space_set_budget(space, SLUICE_TIER_DEVICE,
						   (BUDGET_CHUNKS + sl_rng_below(&rng, 3)) *
							   CHUNK));
			break;
		}
	}
	return NULL;
}

static void *
syncer(void *arg)
{
	struct writer *w = arg;
	struct sl_rng rng;

	sl_rng_init(&rng, w->seed);
	while (!atomic_load(&stress.stop)) {
		char *addr;
		size_t size;

		random_range(w->run, &rng, &addr, &size);
		OK(sluice_sync(w->run->space, addr, size));
		OK(sluice_space_check(w->run->space));
	}
	return NULL;
}

/* ---- One configuration ---- */

static uint64_t
run_compare(const struct run *run)
{
	uint64_t total = 0;

	for (unsigned w = 0; w < WRITERS; w++)
		for (unsigned p = 0; p < PLACE_COUNT; p++)
			for (unsigned c = 0; c < CHUNKS; c++)
				for (unsigned s = 0; s < SPOTS; s++) {
					uint64_t want = run->count[w][p][c][s];
					uint64_t got = *counter_at(run, p, c, s, w);

					total += want;
					if (got != want)
						FAIL("%lld increments lost: writer %u, "
						     "%s, chunk %u, "
						     "spot %u",
						     (long long)(want - got), w,
						     p == PLACE_FILE ? "file" : "spill",
						     c, s);
				}
	return total;
}

static void
file_compare(const struct run *run, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	for (unsigned w = 0; w < WRITERS; w++)
		for (unsigned c = 0; c < CHUNKS; c++)
			for (unsigned s = 0; s < SPOTS; s++) {
				uint64_t got = UINT64_MAX;
				ssize_t n = pread(fd, &got, sizeof(got),
						  (off_t)(spot_offset(c, s) + w * 72));

				if (n != (ssize_t)sizeof(got) ||
				    got != run->count[w][PLACE_FILE][c][s])
					FAIL("file has %llu for %llu: writer %u, chunk "
					     "%u, spot %u",
					     (unsigned long long)got,
					     (unsigned long long)run->count[w][PLACE_FILE][c][s],
					     w, c, s);
			}
	close(fd);
}

static void
run_config(const char *config)
{
	void *(*const roles[])(void *) = {host_writer,   host_writer,   host_writer,
					  kernel_writer, kernel_writer, evictor,
					  syncer};
	enum { ROLES = sizeof(roles) / sizeof(roles[0]) };
	struct run *run = calloc(1, sizeof(*run));
	struct writer writers[ROLES];
	pthread_t threads[ROLES];
	struct sluice_stats stats;
	char path[600];
	void *addr;

	if (!run)
		exit(1);
	run->space = stress_space(config);
	snprintf(path, sizeof(path), "%s/counters", stress.dir);
	unlink(path);
	OK(sluice_map(run->space, path, 0, SIZE,
		      SLUICE_READ | SLUICE_WRITE | SLUICE_CREATE, &addr));
	run->base[PLACE_FILE] = addr;
	OK(sluice_alloc(run->space, SIZE, 0, &addr));
	run->base[PLACE_SPILL] = addr;
	if (stress.failures)
		exit(1);
	for (unsigned i = 0; i < ROLES; i++) {
		writers[i] = (struct writer){run, i, stress.seed + i * 1000003};
		if (pthread_create(&threads[i], NULL, roles[i], &writers[i]))
			exit(1);
	}
	do { /* on a busy machine longer, or it would not show anything */
		stress_sleep_until(sl_now_ns() + stress.run_ns);
		sluice_stats_get(run->space, &stats);
	} while (!atomic_load(&stress.stop) &&
		 stats.counter[SLUICE_COUNTER_EVICTIONS] +
				 stats.counter[SLUICE_COUNTER_D2H_REQUEST] / PAGE <
			 MOVES_MIN);
	atomic_store(&stress.stop, 1);
	for (unsigned i = 0; i < ROLES; i++)
		pthread_join(threads[i], NULL);
	sluice_stats_get(run->space, &stats);
	printf("  %llu increments, %llu evictions, %llu faults, %llu write faults\n",
	       (unsigned long long)run_compare(run),
	       (unsigned long long)stats.counter[SLUICE_COUNTER_EVICTIONS],
	       (unsigned long long)(stats.counter[SLUICE_COUNTER_FAULTS] +
				    stats.counter[SLUICE_COUNTER_CPU_FAULTS]),
	       (unsigned long long)stats.counter[SLUICE_COUNTER_WRITE_FAULTS]);
	CHECK(stats.resident_peak_bytes[SLUICE_TIER_DEVICE] <= (BUDGET_CHUNKS + 2) * CHUNK);
	OK(sluice_unmap(run->space, run->base[PLACE_FILE]));
	file_compare(run, path);
	stress_space_end(run->space);
	unlink(path);
	free(run);
}

int
main(int argc, char **argv)
{
	static const char *const populations[] = {"chunk", "grow", "page"};
	static const char *const faults[] = {"thread", "signal"};
	static const char *const tiers[] = {"0", "4M", "24M"};
	static const char *const others[] = {"policy=uvm,host_budget=4M",
					     "policy=dragon,host_budget=8M",
					     "store_io=file,host_budget=4M",
					     "readahead_chunks=0,host_budget=0",
					     "host_budget=8M,host_reserve=4M"};
	char config[256];
	unsigned n = 0;

	stress_begin(argc, argv, 0.5);
	for (unsigned p = 0; p < 3; p++)
		for (unsigned f = 0; f < 2; f++)
			for (unsigned m = 0; m < 2; m++) {
				snprintf(config,
					 sizeof(config), "population=%s,faults=%s%s,device_budget=8M,host_budget=%s",
					 populations[p], faults[f], m ? ",move=copy" : "",
					 tiers[n++ % 3]);
				if (stress_wants(config))
					run_config(config);
			}
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		snprintf(config, sizeof(config), "%s,device_budget=8M", others[i]);
		if (stress_wants(config))
			run_config(config);
	}
	return stress_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that spaces of several processes share, on the software device: 64 MiB for all, and 16 MiB of
 * device memory for each. What each has is read in the book of host memory. What is waited for must come.
 *
 * A worker does what it is told through a pipe, a letter each, and answers with the same letter. Its regions
 * have 8 MiB. Every word of them counts the rounds.
 */
#include "base/rng.h"
#include "share_soft.h"

#define ROOM    (64 * SHARE_MIB)
#define BYTES   (8 * SHARE_MIB)
#define WORDS   (BYTES / 8)
#define REGIONS 16u
#define LEAST   (8 * SHARE_MIB) /* four chunks */
#define STAGING (8 * SHARE_MIB) /* beside the budget */
#define MOST    4u              /* workers */

/* ---- a worker ---- */

static struct {
	struct sluice_space *space;
	uint64_t *region[REGIONS], rounds[REGIONS];
	unsigned n;
} own;

static void
round_do(void)
{
	for (unsigned i = 0; i < own.n; i++) {
		EXPECT(!soft_add(own.space, own.region[i], WORDS));
		own.rounds[i]++;
	}
	EXPECT(!sluice_stream_synchronize(own.space, NULL));
}

static void
worker_do(char what)
{
	void *p;

	switch (what) {
	case 'a':
		EXPECT(own.n < REGIONS);
		EXPECT(!sluice_alloc(own.space, BYTES, 0, &p));
		own.region[own.n++] = p;
		break;
	case 'r':
		round_do();
		break;
	case 'v':
		for (unsigned i = 0; i < own.n; i++)
			for (uint64_t k = 0; k < WORDS; k += 512)
				EXPECT(own.region[i][k] == own.rounds[i]);
		break;
	case 'l':
		EXPECT(!sluice_space_set_budget(own.space, SLUICE_TIER_HOST, 16 * SHARE_MIB));
		break;
	default:
		EXPECT(0);
	}
}

static void
worker_run(int from, int to, const void *more)
{
	char what = '!';

	setenv("SLUICE_SHARE_DIR", share_dir, 1);
	own.space = soft_space_with(
		"share=auto,soft_memory=256M,device_budget=16M,host_budget=512M,"
		"host_room=64M,staging=8M,address=8G,workers=1",
		more);
	EXPECT(write(to, &what, 1) == 1);
	while (read(from, &what, 1) == 1 && what != 'q') {
		worker_do(what);
		EXPECT(write(to, &what, 1) == 1);
	}
	EXPECT(!sluice_space_destroy(own.space));
}

static struct worker
worker_start(const char *more, unsigned regions)
{
	struct worker worker = worker_fork(worker_run, more);

	worker_ready(&worker);
	worker_ask(&worker, 'a', regions);
	return worker;
}

/* ---- the book ---- */

static int
has_at_most(const struct sl_book_row *row, uint64_t bytes)
{
	return row->claim.has_bytes <= bytes && row->claim.held_bytes <= bytes + STAGING;
}

/* Rounds, so that it is not idle, until its row is so. */
static void
rounds_until(const struct worker *worker, share_condition is_so, uint64_t bytes)
{
	struct sl_book_row row;

	for (int i = 0; i < SHARE_TRIES; i++) {
		worker_ask(worker, 'r', 1);
		if (share_rows(worker->pid, is_so, bytes, &row))
			return;
	}
	fprintf(stderr,
		"process %d: has %" PRIu64 " KiB, holds %" PRIu64 ", wants %" PRIu64 "\n",
		(int)worker->pid, row.claim.has_bytes >> 10, row.claim.held_bytes >> 10,
		row.claim.want_bytes >> 10);
	exit(1);
}

/* ---- tests ---- */

static void
one_that_is_alone_has_all(void)
{
	struct worker a = worker_start("", 10);

	rounds_until(&a, row_has_at_least, ROOM);
	worker_ask(&a, 'v', 1);
	worker_end(&a);
}

/* Both use the disk, and neither has more than its half, also while the other one does nothing for a while. */
static void
two_have_a_half_each(void)
{
	struct worker a = worker_start("", 12), b = worker_start("", 12);
	struct sl_book_row row;
	int halves = 0;

	for (int i = 0; i < SHARE_TRIES && !halves; i++) { /* both work */
		worker_tell(&a, 'r');
		worker_tell(&b, 'r');
		worker_await(&a, 'r');
		worker_await(&b, 'r');
		halves = share_rows(a.pid, has_at_most, ROOM / 2, &row) &&
			 share_rows(b.pid, has_at_most, ROOM / 2, &row) &&
			 share_rows(a.pid, row_has_at_least, ROOM / 2, &row) &&
			 share_rows(b.pid, row_has_at_least, ROOM / 2, &row);
	}
	EXPECT(halves);
	for (int i = 0; i < 4; i++) { /* well within the minute after which a is idle */
		worker_ask(&b, 'r', 1);
		EXPECT(share_rows(a.pid, row_has_at_least, ROOM / 2, &row));
	}
	worker_ask(&a, 'v', 1);
	worker_ask(&b, 'v', 1);
	worker_kill(&b);
	rounds_until(&a, row_has_at_least, ROOM);
	worker_ask(&a, 'v', 1);
	worker_end(&a);
}

/* Without a disk what is held cannot be given up: others have the rest. */
static void
what_cannot_be_spilled_stays(void)
{
	struct worker a = worker_start("store_budget=0", 6), b;
	struct sl_book_row row;

	worker_ask(&a, 'r', 2);
	b = worker_start("", 12);
	worker_ask(&b, 'r', 2);
	rounds_until(&b, row_has_at_least, LEAST);
	EXPECT(share_rows(a.pid, row_has_at_least, 24 * SHARE_MIB, &row)); /* 48 less 16 on the device */
	worker_ask(&a, 'r', 2);
	worker_ask(&a, 'v', 1);
	worker_ask(&b, 'v', 1);
	worker_end(&a);
	worker_end(&b);
}

static void
the_user_s_budget_is_the_most(void)
{
	struct worker a = worker_start("", 10);

	rounds_until(&a, row_has_at_least, ROOM);
	worker_ask(&a, 'l', 1);
	rounds_until(&a, has_at_most, 16 * SHARE_MIB);
	worker_ask(&a, 'v', 1);
	worker_end(&a);
}

/* At every look at the book all have no more than there is, but that who comes has its least at once. */
static void
random_programs_never_have_more_than_there_is(uint64_t seed)
{
	static struct sl_book_row rows[SL_BOOK_ROWS];
	struct worker workers[MOST];
	unsigned sizes[MOST];
	struct sl_book *book;
	struct sl_rng rng;

	printf("seed %" PRIu64 "\n", seed);
	sl_rng_init(&rng, seed);
	for (unsigned i = 0; i < MOST; i++)
		workers[i] = worker_start("", sizes[i] = 4);
	EXPECT(share_name[0] && !sl_book_open_existing(share_dir, share_name, &book));
	for (int step = 0; step < 150; step++) {
		unsigned i = (unsigned)sl_rng_below(&rng, MOST);
		uint64_t what = sl_rng_below(&rng, 20), sum = 0;
		size_t n, me;

		if (what < 3 && sizes[i] < REGIONS) {
			worker_ask(&workers[i], 'a', 1);
			sizes[i]++;
		} else if (what < 19) {
			worker_ask(&workers[i], 'r', 1);
		} else {
			worker_kill(&workers[i]);
			workers[i] = worker_start("", sizes[i] = 4);
		}
		EXPECT(!sl_book_read(book, rows, &n, &me));
		for (size_t k = 0; k < n; k++)
			sum += rows[k].claim.has_bytes;
		EXPECT(sum <= ROOM + (MOST - 1) * LEAST);
	}
	sl_book_close(book);
	for (unsigned i = 0; i < MOST; i++) {
		worker_ask(&workers[i], 'v', 1);
		worker_end(&workers[i]);
	}
}

int
main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)getpid();

	share_kind = SL_BOOK_HOST;
	EXPECT(mkdtemp(share_dir));
	one_that_is_alone_has_all();
	two_have_a_half_each();
	what_cannot_be_spilled_stays();
	the_user_s_budget_is_the_most();
	random_programs_never_have_more_than_there_is(seed);
	share_dir_remove(share_dir);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces of several processes that share a device (share=auto): the same tests for each device, which
 * contract/test_space_share.c and cuda/test_space_share.c bring. What each space has is read in the
 * device's book, and how often something moved in its counters. Nothing here depends on a time: what is
 * waited for must come.
 *
 * A worker is a process with a space. It does what it is told through a pipe, a letter each, and answers
 * with the same letter. Its regions have 8 MiB. Every word of them counts the rounds.
 */
#ifndef SL_TESTS_SHARE_TEST_H
#define SL_TESTS_SHARE_TEST_H

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "share_workers.h"

#define REGION_BYTES  (8 * SHARE_MIB)
#define REGION_WORDS  (REGION_BYTES / 8)
#define REGIONS_MAX   64
#define SHARE_LEAST   (8 * SHARE_MIB) /* four chunks */
#define SHARE_ROUNDS  4               /* of one order to a worker */
#define SHARE_WORKERS 16

/* What a device brings. */
struct share_device {
	uint64_t room_bytes;  /* that programs may have together, at most */
	uint64_t slack_bytes; /* it may be so much less */
	/* In a worker: the device, and a space on it that shares. more: settings besides. */
	void (*open)(void);
	struct sluice_space *(*space)(const char *more);
	/* One launch that adds 1 to each word, and declares them. 0 or -errno. */
	int (*add)(struct sluice_space *space, uint64_t *p, uint64_t words);
};

static const struct share_device *share_device;

/* ---- a worker ---- */

static struct {
	struct sluice_space *space;
	int from;
	uint64_t *region[REGIONS_MAX];
	unsigned n;
	uint64_t rounds[REGIONS_MAX];
	uint64_t *large; /* one region of half of the room and 8 MiB */
	uint64_t large_words;
} mine;

static void
region_round(unsigned i)
{
	EXPECT(!share_device->add(mine.space, mine.region[i], REGION_WORDS));
	mine.rounds[i]++;
}

static void
regions_verify(void)
{
	for (unsigned i = 0; i < mine.n; i++)
		for (uint64_t k = 0; k < REGION_WORDS; k += 64)
			if (mine.region[i][k] != mine.rounds[i]) {
				fprintf(stderr,
					"process %d: region %u, word %" PRIu64
					": %" PRIu64 " rounds and not %" PRIu64 "\n",
					(int)getpid(), i, k, mine.region[i][k],
					mine.rounds[i]);
				exit(1);
			}
}

static void
regions_round(void)
{
	for (unsigned i = 0; i < mine.n; i++)
		region_round(i);
	EXPECT(!sluice_stream_synchronize(mine.space, NULL));
}

/* Until it is told something else. */
static void
regions_keep_busy(void)
{
	struct pollfd told = {.fd = mine.from, .events = POLLIN};

	do
		regions_round();
	while (!poll(&told, 1, 0));
}

/* Until a round finds all of its data on the device. */
static void
regions_settle(void)
{
	struct sluice_stats before, after;
	int tries = 0;

	do {
		sluice_stats_get(mine.space, &before);
		regions_round();
		sluice_stats_get(mine.space, &after);
		EXPECT(++tries < SHARE_TRIES);
	} while (after.counter[SLUICE_COUNTER_H2D_LAUNCH] !=
			 before.counter[SLUICE_COUNTER_H2D_LAUNCH] ||
		 after.counter[SLUICE_COUNTER_ZERO_FILL] !=
			 before.counter[SLUICE_COUNTER_ZERO_FILL]);
}

static void
large_make(void)
{
	uint64_t bytes = share_device->room_bytes / 2 + REGION_BYTES;

	mine.large_words = bytes / 8;
	EXPECT(!sluice_alloc(mine.space, bytes, 0, (void **)&mine.large));
}

static void
share_worker_do(char what, int to)
{
	struct sluice_stats stats;
	void *p;

	switch (what) {
	case 'a':
		EXPECT(mine.n < REGIONS_MAX);
		EXPECT(!sluice_alloc(mine.space, REGION_BYTES, 0, &p));
		mine.region[mine.n++] = p;
		break;
	case 'r':
		regions_round();
		break;
	case 'R':
		for (int i = 0; i < SHARE_ROUNDS; i++)
			regions_round();
		break;
	case 'B':
		regions_keep_busy();
		break;
	case 'e':
		regions_settle();
		break;
	case 'n':
		break;
	case 'v':
		regions_verify();
		break;
	case 'V': /* host code alone uses the data */
		for (int i = 0; i < SHARE_ROUNDS; i++)
			regions_verify();
		break;
	case 'l': /* a launch that needs more than half of the room at once */
		if (!mine.large)
			large_make();
		EXPECT(!share_device->add(mine.space, mine.large, mine.large_words));
		EXPECT(!sluice_stream_synchronize(mine.space, NULL));
		break;
	case 'p':
		EXPECT(!sluice_pin(mine.space, mine.region[0], REGION_BYTES));
		break;
	case 'b': /* half of the room at most from here on */
		EXPECT(!sluice_space_set_budget(mine.space, SLUICE_TIER_DEVICE,
						share_device->room_bytes / 2));
		break;
	case 'k': { /* a child that lives on */
		pid_t child = fork();

		EXPECT(child >= 0);
		if (!child) {
			(void)prctl(PR_SET_PDEATHSIG,
				    0); /* it outlives this process, for the test */
			for (;;)
				pause();
		}
		EXPECT(write(to, &child, sizeof(child)) == (ssize_t)sizeof(child));
		break;
	}
	case 's': /* a second space */
		EXPECT(share_device->space(""));
		break;
	case 'c':
		sluice_stats_get(mine.space, &stats);
		EXPECT(write(to, &stats, sizeof(stats)) == (ssize_t)sizeof(stats));
		break;
	default:
		EXPECT(0);
	}
}

static void
share_worker_run(int from, int to, const void *more)
{
	char what;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	mine.from = from;
	share_device->open();
	mine.space = share_device->space(more);
	EXPECT(write(to, "!", 1) == 1);
	while (read(from, &what, 1) == 1 && what != 'q') {
		share_worker_do(what, to);
		EXPECT(write(to, &what, 1) == 1);
	}
	EXPECT(!sluice_space_check(mine.space));
	EXPECT(!sluice_space_destroy(mine.space));
	exit(0);
}

/* ---- workers ---- */

static struct worker
share_start_with(const char *more)
{
	struct worker worker = worker_fork(share_worker_run, more);

	worker_ready(&worker);
	return worker;
}

static struct worker
share_start(void)
{
	return share_start_with("");
}

static struct sluice_stats
share_stats(const struct worker *worker)
{
	struct sluice_stats stats;

	worker_tell(worker, 'c');
	EXPECT(read(worker->from, &stats, sizeof(stats)) == (ssize_t)sizeof(stats));
	worker_await(worker, 'c');
	return stats;
}

/* One that is kept busy ends that. */
static void
share_halt(const struct worker *worker)
{
	worker_tell(worker, 'n');
	worker_await(worker, 'B');
	worker_await(worker, 'n');
}

static uint64_t
share_counter(const struct worker *worker, enum sluice_counter counter)
{
	return share_stats(worker).counter[counter];
}

static int
row_has_at_most(const struct sl_book_row *row, uint64_t bytes)
{
	return row->claim.has_bytes <= bytes;
}

static int
row_is_suspended(const struct sl_book_row *row, uint64_t bytes)
{
	return row->claim.is_suspended && row->claim.has_bytes <= bytes;
}

/* Regions that fill this part of the room. */
static unsigned
regions_of(unsigned percent)
{
	return (unsigned)(share_device->room_bytes * percent / 100 / REGION_BYTES);
}

/* ---- tests ---- */

static void
one_space_that_is_alone_has_all(void)
{
	struct worker a = share_start();

	row_await(&a, row_has_at_least,
		  share_device->room_bytes - share_device->slack_bytes, "has at least");
	worker_ask(&a, 'a', regions_of(60));
	worker_ask(&a, 'R', 1);
	worker_ask(&a, 'v', 1);
	EXPECT(!share_counter(&a, SLUICE_COUNTER_BUDGETS_LOWERED));
	EXPECT(!share_counter(&a, SLUICE_COUNTER_EVICTIONS));
	EXPECT(!share_counter(&a, SLUICE_COUNTER_TURN_WAITS));
	worker_end(&a);
}

static void
an_idle_space_gives_way_and_gets_its_data_back(void)
{
	struct worker a = share_start(), b;

	worker_ask(&a, 'a', regions_of(70));
	worker_ask(&a, 'r', 2);
	row_await(&a, row_is_idle, 0, "is idle");
	b = share_start();
	worker_ask(&b, 'a', regions_of(60));
	worker_ask(&b, 'e', 1);
	EXPECT(share_counter(&a, SLUICE_COUNTER_BUDGETS_LOWERED));
	EXPECT(!share_counter(&a, SLUICE_COUNTER_TURNS));
	row_await(&b, row_is_idle, 0, "is idle");
	worker_ask(&a, 'r', 2);
	worker_ask(&a, 'v', 1);
	worker_ask(&b, 'v', 1);
	worker_end(&a);
	worker_end(&b);
}

static void
spaces_that_do_not_fit_take_turns(void)
{
	struct worker a = share_start(), b = share_start();

	worker_ask(&a, 'a', regions_of(70));
	worker_ask(&b, 'a', regions_of(70));
	worker_tell(&a, 'B');
	worker_tell(&b, 'B');
	for (int i = 0; i < 2; i++) {
		row_await(&a, row_has_turn, 0, "has turn");
		row_await(&b, row_has_turn, 0, "has turn");
	}
	share_halt(&a);
	share_halt(&b);
	EXPECT(share_counter(&a, SLUICE_COUNTER_TURNS));
	EXPECT(share_counter(&b, SLUICE_COUNTER_TURNS));
	EXPECT(share_counter(&a, SLUICE_COUNTER_TURN_WAITS) ||
	       share_counter(&b, SLUICE_COUNTER_TURN_WAITS));
	worker_ask(&a, 'v', 1);
	worker_ask(&b, 'v', 1);
	worker_end(&a);
	worker_end(&b);
}

static void
a_holder_that_is_killed_or_stopped_holds_up_nobody(void)
{
	struct worker a = share_start(), b = share_start(), c;

	worker_ask(&a, 'a', regions_of(70));
	worker_ask(&b, 'a', regions_of(70));
	worker_tell(&a, 'B');
	worker_tell(&b, 'B');
	row_await(&a, row_has_turn, 0, "has turn");
	worker_kill(&a);
	share_halt(&b);
	c = share_start();
	worker_ask(&c, 'a', regions_of(70));
	worker_tell(&c, 'B');
	worker_tell(&b, 'B');
	row_await(&c, row_has_turn, 0, "has turn");
	EXPECT(!kill(c.pid, SIGSTOP));
	share_halt(&b);
	worker_ask(&b, 'r', 1);
	worker_ask(&b, 'v', 1);
	worker_kill(&c);
	worker_end(&b);
}

static void
a_large_launch_gets_the_room_of_an_idle_space(void)
{
	struct worker a = share_start(), b;

	worker_ask(&a, 'a', regions_of(80));
	worker_ask(&a, 'r', 1);
	row_await(&a, row_is_idle, 0, "is idle");
	b = share_start();
	worker_ask(&b, 'l', 3);
	EXPECT(share_counter(&a, SLUICE_COUNTER_BUDGETS_LOWERED));
	worker_ask(&a, 'v', 1);
	worker_end(&a);
	worker_end(&b);
}

static void
large_launches_of_two_spaces_take_turns(void)
{
	struct worker a = share_start(), b = share_start();

	for (int i = 0; i < 10; i++) {
		worker_tell(&a, 'l');
		worker_tell(&b, 'l');
		worker_await(&a, 'l');
		worker_await(&b, 'l');
	}
	worker_end(&a);
	worker_end(&b);
}

static void
a_pin_gets_the_room_of_an_idle_space_and_keeps_it(void)
{
	struct worker a = share_start(), b;

	worker_ask(&a, 'a', regions_of(90));
	worker_ask(&a, 'r', 1);
	row_await(&a, row_is_idle, 0, "is idle");
	b = share_start();
	worker_ask(&b, 'a', 2);
	worker_ask(&b, 'p', 1);
	row_await(&b, row_is_idle, 0, "is idle");
	worker_ask(&a, 'r', 2);
	row_await(&b, row_has_at_least, REGION_BYTES + SHARE_LEAST, "has at least");
	worker_ask(&a, 'v', 1);
	worker_end(&b);
	worker_end(&a);
}

static void
a_suspended_space_gives_up_its_memory_and_goes_on(void)
{
	const struct sl_book_order suspend = {.limit_bytes = UINT64_MAX, .suspend = 1};
	const struct sl_book_order resume = {.limit_bytes = UINT64_MAX};
	struct worker a = share_start();
	struct sl_book_row row;
	uint64_t launches;

	worker_ask(&a, 'a', regions_of(50));
	worker_ask(&a, 's', 1); /* what is ordered is for both of its spaces */
	worker_ask(&a, 'r', 1);
	EXPECT(share_rows(a.pid, NULL, 0, &row) == 2);
	order_give(&a, suspend);
	row_await(&a, row_is_suspended, SHARE_LEAST, "is suspended");
	launches = share_counter(&a, SLUICE_COUNTER_LAUNCHES);
	worker_tell(&a, 'r');
	usleep(200000); /* time for a launch that does not wait to be wrong */
	EXPECT(share_rows(a.pid, row_is_suspended, SHARE_LEAST, &row) == 2);
	order_give(&a, resume);
	worker_await(&a, 'r');
	EXPECT(share_counter(&a, SLUICE_COUNTER_LAUNCHES) == launches + regions_of(50));
	worker_ask(&a, 'v', 1);
	worker_end(&a);
}

static void
a_limit_is_kept(void)
{
	struct worker a = share_start();
	const struct sl_book_order limit = {.limit_bytes = share_device->room_bytes / 4};

	worker_ask(&a, 'a', regions_of(80));
	worker_ask(&a, 'r', 1);
	worker_ask(&a, 'b', 1);
	row_await(&a, row_has_at_most, share_device->room_bytes / 2, "has at most");
	worker_ask(&a, 'r', 1);
	order_give(&a, limit);
	row_await(&a, row_has_at_most, share_device->room_bytes / 4, "has at most");
	worker_ask(&a, 'r', 1);
	worker_ask(&a, 'v', 1);
	worker_end(&a);
}

static void
a_child_does_not_keep_the_row_of_its_parent(void)
{
	struct worker a = share_start(), b;
	struct sl_book_row row;
	pid_t child;

	worker_tell(&a, 'k');
	EXPECT(read(a.from, &child, sizeof(child)) == (ssize_t)sizeof(child));
	worker_await(&a, 'k');
	worker_ask(&a, 'a', regions_of(80));
	worker_ask(&a, 'r', 1);
	worker_kill(&a);
	EXPECT(!share_rows(a.pid, NULL, 0, &row));
	b = share_start();
	worker_ask(&b, 'a', 2);
	worker_ask(&b, 'r', 1);
	worker_ask(&b, 'v', 1);
	EXPECT(!kill(child, SIGKILL));
	worker_end(&b);
}

static void
a_book_that_is_removed_is_made_anew(void)
{
	struct worker a = share_start(), b = share_start();
	char path[sizeof(share_dir) + SL_BOOK_NAME_BYTES + 16];

	worker_ask(&a, 'a', regions_of(70));
	worker_ask(&b, 'a', regions_of(70));
	worker_tell(&a, 'B');
	worker_tell(&b, 'B');
	row_await(&a, row_has_turn, 0, "has turn");
	snprintf(path, sizeof(path), "%s/book-%s", share_dir, share_name);
	EXPECT(!unlink(path));
	row_await(&a, row_has_turn, 0, "has turn");
	row_await(&b, row_has_turn, 0, "has turn");
	share_halt(&a);
	share_halt(&b);
	worker_ask(&a, 'v', 1);
	worker_ask(&b, 'v', 1);
	worker_end(&a);
	worker_end(&b);
}

static void
host_code_alone_gets_room_beside_launches(void)
{
	struct worker a = share_start(), b = share_start();

	worker_ask(&a, 'a', regions_of(70));
	worker_ask(&b, 'a', regions_of(70));
	worker_ask(&a, 'r', 1);
	worker_ask(&b, 'r', 1);
	for (int i = 0; i < 3; i++) {
		worker_tell(&a, 'R');
		worker_tell(&b, 'V');
		worker_await(&a, 'R');
		worker_await(&b, 'V');
	}
	worker_end(&a);
	worker_end(&b);
}

static void
sixteen_spaces_share(void)
{
	struct worker all[SHARE_WORKERS];
	struct sl_book_row row;
	uint64_t sum = 0;

	for (int i = 0; i < SHARE_WORKERS; i++) {
		all[i] = share_start();
		worker_ask(&all[i], 'a', 1 + (unsigned)i % 3);
	}
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < SHARE_WORKERS; i++)
			worker_tell(&all[i], 'r');
		for (int i = 0; i < SHARE_WORKERS; i++)
			worker_await(&all[i], 'r');
	}
	for (int i = 0; i < SHARE_WORKERS; i += 2)
		worker_kill(&all[i]);
	for (int i = 1; i < SHARE_WORKERS; i += 2) {
		worker_ask(&all[i], 'r', 1);
		worker_ask(&all[i], 'v', 1);
		EXPECT(share_rows(all[i].pid, NULL, 0, &row) == 1);
		sum += row.claim.held_bytes;
	}
	EXPECT(sum <= share_device->room_bytes);
	for (int i = 1; i < SHARE_WORKERS; i += 2)
		worker_end(&all[i]);
}

#define SHARE_TEST(name)    \
	{                   \
#name, name \
	}

static int
share_tests_run(const struct share_device *device)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		SHARE_TEST(one_space_that_is_alone_has_all),
		SHARE_TEST(an_idle_space_gives_way_and_gets_its_data_back),
		SHARE_TEST(spaces_that_do_not_fit_take_turns),
		SHARE_TEST(a_holder_that_is_killed_or_stopped_holds_up_nobody),
		SHARE_TEST(a_large_launch_gets_the_room_of_an_idle_space),
		SHARE_TEST(large_launches_of_two_spaces_take_turns),
		SHARE_TEST(a_pin_gets_the_room_of_an_idle_space_and_keeps_it),
		SHARE_TEST(a_suspended_space_gives_up_its_memory_and_goes_on),
		SHARE_TEST(a_limit_is_kept),
		SHARE_TEST(a_child_does_not_keep_the_row_of_its_parent),
		SHARE_TEST(a_book_that_is_removed_is_made_anew),
		SHARE_TEST(host_code_alone_gets_room_beside_launches),
		SHARE_TEST(sixteen_spaces_share),
	};

	share_device = device;
	EXPECT(mkdtemp(share_dir));
	EXPECT(!setenv("SLUICE_SHARE_DIR", share_dir, 1));
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		printf("%s\n", tests[i].name);
		tests[i].run();
	}
	share_dir_remove(share_dir);
	return 0;
}

#endif

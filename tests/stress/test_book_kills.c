/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs in a book that are killed or stopped at random instants: while they join, hold the lock, read,
 * write, take the turn, have it, and leave. Those that live must see each other, read whole rows only, and get
 * the lock and the turn again.
 *
 * Ten thousand kills, or as many as the first argument says. The second is the seed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "share/book.h"
#include "share/turn.h"

#define PROGRAMS 8
#define AT_LAST  3     /* programs that nobody kills any more */
#define TRIES    60000 /* of 1 ms: something hangs */

#define CHECK(what)                                                                    \
	do {                                                                           \
		if (!(what)) {                                                         \
			fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, \
				#what, sluice_last_error());                           \
			exit(1);                                                       \
		}                                                                      \
	} while (0)

static char dir[] = "/tmp/sluice-kills-XXXXXX";
static struct sl_book_row rows[SL_BOOK_ROWS];
static struct sl_turns turns;

/* A row of a program whole: its parts belong together. */
static struct sl_book_row
row_of(uint64_t number)
{
	return (struct sl_book_row){.claim = {.want_bytes = number,
					      .has_bytes = ~number,
					      .held_bytes = 3 * number},
				    .launches = number ^ 0x5555};
}

static void
rows_check(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t number = rows[i].claim.want_bytes;

		CHECK(rows[i].claim.has_bytes == ~number &&
		      rows[i].claim.held_bytes == 3 * number &&
		      rows[i].launches == (number ^ 0x5555));
	}
}

/* The turns, as if no two of them fitted together. claims: n of them. */
static void
turns_find(struct sl_share_claim *claims, size_t n)
{
	uint64_t shares[SL_BOOK_ROWS];

	for (size_t i = 0; i < n; i++)
		claims[i] = (struct sl_share_claim){.want_bytes = 600,
						    .limit_bytes = UINT64_MAX,
						    .least_bytes = 1,
						    .is_away = rows[i].claim.is_away,
						    .turn = rows[i].claim.turn};
	sl_shares_decide(claims, n, 1000, shares, &turns);
}

/* As preload/share.c: the turn is taken and given up. */
static void
turn_step(struct sl_book_row *row, struct sl_turn_own *own, size_t n, size_t me)
{
	static struct sl_share_claim claims[SL_BOOK_ROWS];

	sl_turn_look(own, &row->claim, 1, sl_now_ns());
	rows[me].claim.turn = row->claim.turn;
	turns_find(claims, n);
	if (row->claim.turn.has && (turns.holder != me || turns.is_over))
		sl_turn_give_up(own, &row->claim);
	else if (turns.next == me)
		sl_turn_take(own, &row->claim, sl_turn_newest(claims, n), sl_now_ns());
}

/* Until it is killed; every so many rounds it leaves and joins again. */
static void
program(int rounds)
{
	for (uint64_t number = (uint64_t)getpid() << 20;;) {
		struct sl_book_row row = row_of(number);
		struct sl_turn_own own = {0};
		struct sl_turn_claim turn;
		struct sl_book *book;

		CHECK(!sl_book_open(dir, "GPU-1", &book) && !sl_book_join(book, &row));
		for (int round = 0; round < rounds; round++) {
			int locked = sl_book_lock(book);
			size_t n, me;

			CHECK(!sl_book_read(book, rows, &n, &me) && me < n);
			rows_check(n);
			CHECK(rows[me].pid == getpid() && rows[me].claim.want_bytes == number);
			turn_step(&row, &own, n, me);
			turn = row.claim.turn;
			row = row_of(++number);
			row.claim.turn = turn;
			CHECK(!sl_book_write(book, &row));
			if (locked)
				sl_book_unlock(book);
			if (rounds > 20)
				usleep(1000);
		}
		sl_book_close(book);
	}
}

static pid_t
program_start(int rounds)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child)
		program(rounds);
	return child;
}

static void
program_end(pid_t program)
{
	int status;

	CHECK(!kill(program, SIGKILL));
	CHECK(waitpid(program, &status, 0) == program);
	CHECK(WIFSIGNALED(status)); /* not ended by a check of its own */
}

/* Who has the turn; 0: nobody. */
static pid_t
holder_of(size_t n)
{
	static struct sl_share_claim claims[SL_BOOK_ROWS];

	turns_find(claims, n);
	return turns.holder == SIZE_MAX ? 0 : rows[turns.holder].pid;
}

/* Until somebody has the turn, but not that one; or that one, if is. */
static pid_t
holder_await(struct sl_book *book, pid_t who, int is)
{
	for (int tries = 0; tries < TRIES; tries++) {
		size_t n, me;
		pid_t holder;

		CHECK(!sl_book_read(book, rows, &n, &me));
		for (size_t i = 0; i < n; i++) /* the reader takes none */
			if (i == me)
				rows[i].claim.is_away = 1;
		holder = holder_of(n);
		if (holder && (holder == who) == is)
			return holder;
		usleep(1000);
	}
	CHECK(!"the turn comes");
	return 0;
}

/* Whoever has the turn is stopped: another one has it. It goes on: it has it again. Killed: the same. */
static void
holders_are_stopped(struct sl_book *book)
{
	pid_t programs[AT_LAST], holder, other;

	for (int i = 0; i < AT_LAST; i++)
		programs[i] = program_start(1 << 30);
	holder = holder_await(book, 0, 0);
	for (int i = 0; i < AT_LAST; i++) {
		CHECK(!kill(holder, SIGSTOP));
		other = holder_await(book, holder, 0);
		CHECK(!kill(holder, SIGCONT));
		(void)holder_await(book, holder, 1);
		holder = other;
	}
	for (int left = AT_LAST; left > 2; left--) {
		holder = holder_await(book, 0, 0);
		for (int i = 0; i < AT_LAST; i++)
			if (programs[i] == holder)
				programs[i] = 0;
		program_end(holder);
		(void)holder_await(book, holder, 0);
	}
	for (int i = 0; i < AT_LAST; i++)
		if (programs[i])
			program_end(programs[i]);
}

int
main(int argc, char **argv)
{
	unsigned long kills = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)getpid();
	struct sl_book_row row = row_of(1);
	pid_t programs[PROGRAMS];
	struct sl_book *book;
	struct sl_rng rng;
	char path[64];
	size_t n, me, seen = 0, holders = 0;
	pid_t holder = 0, before;

	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	sl_rng_init(&rng, seed);
	CHECK(mkdtemp(dir));
	CHECK(!sl_book_open(dir, "GPU-1", &book) && !sl_book_join(book, &row));
	for (int i = 0; i < PROGRAMS; i++)
		programs[i] = program_start(20);
	for (unsigned long i = 0; i < kills; i++) {
		size_t which = sl_rng_below(&rng, PROGRAMS);

		usleep((useconds_t)sl_rng_below(&rng, 300));
		CHECK(!sl_book_read(book, rows, &n, &me) && me == 0 && n <= PROGRAMS + 1);
		rows_check(n);
		seen += n - 1;
		rows[0].claim.is_away = 1; /* the reader takes none */
		before = holder;
		holder = holder_of(n);
		holders += holder && holder != before;
		if (!sl_rng_below(&rng, 20)) { /* others go on meanwhile */
			CHECK(!kill(programs[which], SIGSTOP));
			usleep((useconds_t)sl_rng_below(&rng, 3000));
		}
		program_end(programs[which]);
		programs[which] = program_start(20);
	}
	for (int i = 0; i < PROGRAMS; i++)
		program_end(programs[i]);
	CHECK(!sl_book_read(book, rows, &n, &me) && n == 1);
	CHECK(sl_book_lock(book));
	CHECK(seen && holders); /* they were in it at all, and had the turn */
	holders_are_stopped(book);
	sl_book_close(book);
	printf("%lu kills; %.1f programs seen in the book; %zu times another one had the "
	       "turn\n",
	       kills, (double)seen / (double)kills, holders);
	snprintf(path, sizeof(path), "%s/book-GPU-1", dir);
	CHECK(!unlink(path) && !rmdir(dir));
	return 0;
}

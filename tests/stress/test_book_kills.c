/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs in a book that are killed at random instants: while they join, hold the lock, read, write
 * and leave. Those that live must see each other, read whole rows only, and get the lock again.
 *
 * Ten thousand kills, or as many as the first argument says. The second is the seed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "share/book.h"

#define PROGRAMS 8

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

/* Until it is killed; every few rounds it leaves and joins again. */
static void
program(void)
{
	for (uint64_t number = (uint64_t)getpid() << 20;;) {
		struct sl_book_row row = row_of(number);
		struct sl_book *book;

		CHECK(!sl_book_open(dir, "GPU-1", &book) && !sl_book_join(book, &row));
		for (int round = 0; round < 20; round++) {
			int locked = sl_book_lock(book);
			size_t n, me;

			CHECK(!sl_book_read(book, rows, &n, &me) && me < n);
			rows_check(n);
			CHECK(rows[me].pid == getpid() && rows[me].claim.want_bytes == number);
			row = row_of(++number);
			CHECK(!sl_book_write(book, &row));
			if (locked)
				sl_book_unlock(book);
		}
		sl_book_close(book);
	}
}

static pid_t
program_start(void)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child)
		program();
	return child;
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
	size_t n, me, seen = 0;
	int status;

	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	sl_rng_init(&rng, seed);
	CHECK(mkdtemp(dir));
	CHECK(!sl_book_open(dir, "GPU-1", &book) && !sl_book_join(book, &row));
	for (int i = 0; i < PROGRAMS; i++)
		programs[i] = program_start();
	for (unsigned long i = 0; i < kills; i++) {
		size_t which = sl_rng_below(&rng, PROGRAMS);

		usleep((useconds_t)sl_rng_below(&rng, 300));
		CHECK(!sl_book_read(book, rows, &n, &me) && me == 0 && n <= PROGRAMS + 1);
		rows_check(n);
		seen += n - 1;
		CHECK(!kill(programs[which], SIGKILL));
		CHECK(waitpid(programs[which], &status, 0) == programs[which]);
		CHECK(WIFSIGNALED(status)); /* not ended by a check of its own */
		programs[which] = program_start();
	}
	for (int i = 0; i < PROGRAMS; i++) {
		CHECK(!kill(programs[i], SIGKILL));
		CHECK(waitpid(programs[i], &status, 0) == programs[i] && WIFSIGNALED(status));
	}
	CHECK(!sl_book_read(book, rows, &n, &me) && n == 1);
	CHECK(sl_book_lock(book));
	CHECK(seen); /* they were in it at all */
	sl_book_close(book);
	printf("%lu kills; %.1f programs seen in the book\n", kills,
	       (double)seen / (double)kills);
	snprintf(path, sizeof(path), "%s/book-GPU-1", dir);
	CHECK(!unlink(path) && !rmdir(dir));
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that share a device, for tests: workers that do what they are told, and the device's book, in
 * which the test reads what each of them has. A worker is told through a pipe, a letter each, and answers
 * with the same letter.
 *
 * Each test program that includes this has a directory of its own for the book. A failure ends the process.
 */
#ifndef SL_TESTS_SHARE_WORKERS_H
#define SL_TESTS_SHARE_WORKERS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "share/book.h"
#include "sluice/sluice.h"

#define SHARE_MIB   ((uint64_t)1 << 20)
#define SHARE_TRIES 120000 /* of 1 ms: something hangs */

#define EXPECT(what)                                                                      \
	do {                                                                              \
		if (!(what)) {                                                            \
			fprintf(stderr, "%s:%d: process %d: %s: not so (%s)\n", __FILE__, \
				__LINE__, (int)getpid(), #what, sluice_last_error());     \
			exit(1);                                                          \
		}                                                                         \
	} while (0)

struct worker {
	pid_t pid;
	int to, from;
};

static char share_dir[] = "/tmp/sluice-share-XXXXXX";

/* The books in it, and what else a test has made there: it has no folders. */
static inline void
share_dir_remove(const char *dir)
{
	DIR *folder = opendir(dir);

	EXPECT(folder);
	for (const struct dirent *entry; (entry = readdir(folder));)
		(void)unlinkat(dirfd(folder), entry->d_name, 0); /* not . and .. */
	EXPECT(!closedir(folder));
	EXPECT(!rmdir(dir));
}

/* ---- workers ---- */

static inline void
worker_await(const struct worker *worker, char what)
{
	char got = 0;

	if (read(worker->from, &got, 1) == 1 && got == what)
		return;
	fprintf(stderr, "worker %d does not answer '%c'\n", (int)worker->pid, what);
	exit(1);
}

static inline void
worker_tell(const struct worker *worker, char what)
{
	EXPECT(write(worker->to, &what, 1) == 1);
}

static inline void
worker_ask(const struct worker *worker, char what, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		worker_tell(worker, what);
		worker_await(worker, what);
	}
}

/* A worker's process, which has run() and no more. It says '!' when it is ready. */
static inline struct worker
worker_fork(void (*run)(int from, int to, const void *arg), const void *arg)
{
	struct worker worker = {.pid = 0};
	int to[2], from[2];

	EXPECT(!pipe2(to, O_CLOEXEC) && !pipe2(from, O_CLOEXEC));
	fflush(stdout);
	worker.pid = fork();
	EXPECT(worker.pid >= 0);
	if (!worker.pid) {
		close(to[1]);
		close(from[0]);
		run(to[0], from[1], arg);
		exit(0);
	}
	close(to[0]);
	close(from[1]);
	worker.to = to[1];
	worker.from = from[0];
	return worker;
}

/* Until it is ready. If it cannot be, it has said why, and the test ends as it did. */
static inline void
worker_ready(const struct worker *worker)
{
	int status;
	char ready;

	if (read(worker->from, &ready, 1) == 1)
		return;
	EXPECT(waitpid(worker->pid, &status, 0) == worker->pid);
	exit(WIFEXITED(status) && WEXITSTATUS(status) == 77 ? 77 : 1);
}

static inline void
worker_end(struct worker *worker)
{
	int status;

	worker_tell(worker, 'q');
	EXPECT(waitpid(worker->pid, &status, 0) == worker->pid);
	EXPECT(WIFEXITED(status) && !WEXITSTATUS(status));
	close(worker->to);
	close(worker->from);
}

static inline void
worker_kill(struct worker *worker)
{
	int status;

	EXPECT(!kill(worker->pid, SIGKILL));
	EXPECT(waitpid(worker->pid, &status, 0) == worker->pid);
	close(worker->to);
	close(worker->from);
}

/* ---- the book ---- */

static char share_name[SL_BOOK_NAME_BYTES];
static enum sl_book_kind share_kind = SL_BOOK_DEVICE;

static inline void
share_name_keep(const char *gpu, void *arg)
{
	(void)arg;
	snprintf(share_name, sizeof(share_name), "%s", gpu);
}

typedef int (*share_condition)(const struct sl_book_row *row, uint64_t bytes);

/* How many rows the process has, if all of them are so (NULL: in any case); else 0. *row: one of them. */
static inline size_t
share_rows(pid_t pid, share_condition is_so, uint64_t bytes, struct sl_book_row *row)
{
	static struct sl_book_row rows[SL_BOOK_ROWS];
	static struct sl_book *book; /* kept open: it notices who does not write any more */
	size_t n = 0, me, found = 0;

	if (book && sl_book_read(book, rows, &n, &me)) { /* it was removed */
		sl_book_close(book);
		book = NULL;
	}
	if (!book) {
		EXPECT(!sl_books_walk(share_dir, share_kind, share_name_keep, NULL));
		if (!share_name[0] || sl_book_open_existing(share_dir, share_name, &book))
			return 0;
		EXPECT(!sl_book_read(book, rows, &n, &me));
	}
	for (size_t i = 0; i < n; i++) {
		if (rows[i].pid != pid)
			continue;
		*row = rows[i];
		found++;
		if (is_so && !is_so(row, bytes))
			return 0;
	}
	return found;
}

static inline int
row_is_idle(const struct sl_book_row *row, uint64_t bytes)
{
	(void)bytes;
	return row->claim.is_idle;
}

static inline int
row_has_turn(const struct sl_book_row *row, uint64_t bytes)
{
	(void)bytes;
	return row->claim.turn.has && !row->claim.is_idle;
}

static inline int
row_has_at_least(const struct sl_book_row *row, uint64_t bytes)
{
	return row->claim.has_bytes >= bytes;
}

/* Until the rows of the worker are so. what: in words, for who waits in vain. */
static inline void
row_await(const struct worker *worker, share_condition is_so, uint64_t bytes, const char *what)
{
	struct sl_book_row row = {.pid = 0};

	for (int tries = 0; tries < SHARE_TRIES; tries++) {
		if (share_rows(worker->pid, is_so, bytes, &row))
			return;
		usleep(1000);
	}
	fprintf(stderr,
		"waited in vain: process %d %s %" PRIu64 " MiB: wants %" PRIu64
		", has %" PRIu64 ", holds %" PRIu64 " MiB, room %" PRIu64 ", idle %d\n",
		(int)worker->pid, what, bytes / SHARE_MIB, row.claim.want_bytes / SHARE_MIB,
		row.claim.has_bytes / SHARE_MIB, row.claim.held_bytes / SHARE_MIB,
		row.room_bytes / SHARE_MIB, row.claim.is_idle);
	exit(1);
}

static inline void
order_give(const struct worker *worker, struct sl_book_order order)
{
	struct sl_book_order before;
	struct sl_book *book;

	EXPECT(!sl_book_open_existing(share_dir, share_name, &book));
	EXPECT(!sl_book_order_of(book, worker->pid, &before));
	order.number = before.number + 1;
	EXPECT(!sl_book_order_give(book, worker->pid, &order));
	sl_book_close(book);
}

#endif

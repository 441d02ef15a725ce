/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice suspend`, `resume` and `limit`: orders to a program that shares GPUs, written beside its row
 * in the GPUs' books. The program's own library follows them, within a tenth of a second if nothing
 * runs. These commands wait until it has.
 *
 * Threads: one.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/size.h"
#include "commands.h"
#include "share/book.h"
#include "sluice/sluice.h"

#define WAIT_NS \
	UINT64_C(30000000000) /* 50 GiB leave in some seconds; a kernel may run longer */
#define PAUSE_NS 10000000
#define GPUS_MAX 32
#define PID_MOST (1u << 22)

static const char suspend_help[] =
	"Usage: sluice suspend PID\n"
	"\n"
	"Suspend a program that shares GPUs: it gives back all but a little of their\n"
	"memory. Its launches wait until `sluice resume PID`.\n"
	"\n"
	"Options:\n"
	"  -h, --help   print this and exit\n";

static const char resume_help[] = "Usage: sluice resume PID\n"
				  "\n"
				  "Let a suspended program go on.\n"
				  "\n"
				  "Options:\n"
				  "  -h, --help   print this and exit\n";

static const char limit_help[] =
	"Usage: sluice limit PID --device-memory SIZE\n"
	"\n"
	"Limit the memory that a program gets of each GPU that it shares.\n"
	"\n"
	"Options:\n"
	"      --device-memory SIZE  with K, M, G or T, at least 8M; auto: no more than\n"
	"                            it was started with\n"
	"  -h, --help                print this and exit\n";

enum order_what { ORDER_SUSPEND, ORDER_RESUME, ORDER_LIMIT };

struct order_options {
	const char *device_memory;
};

/* One order to one process, in all books. */
struct order_work {
	enum order_what what;
	int pid;
	uint64_t limit_bytes;
	struct sl_book *books[GPUS_MAX]; /* in which it is */
	char gpus[GPUS_MAX][SL_BOOK_NAME_BYTES];
	size_t n;
	int rc; /* the first error but that it is not there */
};

static const char *const order_names[] = {"suspend", "resume", "limit"};

/* The rows of a process in a book: one for each of its spaces there. */
struct order_rows {
	size_t n, done; /* those that have done as they were told */
	uint64_t held_bytes;
	int is_suspended; /* one of them is */
};

/* Whether the program has done as it was told. */
static int
order_is_done(const struct order_work *work, const struct sl_book_row *row)
{
	uint64_t limit = work->limit_bytes;

	switch (work->what) {
	case ORDER_SUSPEND:
		return row->claim.is_suspended &&
		       row->claim.has_bytes <= row->claim.least_bytes &&
		       row->claim.held_bytes <= row->claim.least_bytes;
	case ORDER_RESUME:
		return !row->claim.is_suspended;
	case ORDER_LIMIT:
		if (limit < row->claim.least_bytes)
			limit = row->claim.least_bytes;
		return row->claim.has_bytes <= limit && row->claim.held_bytes <= limit;
	}
	return 1;
}

static struct order_rows
rows_look(const struct order_work *work, struct sl_book *book)
{
	static struct sl_book_row rows[SL_BOOK_ROWS];
	struct order_rows found = {0};
	struct sl_book_order order;
	size_t n, me;

	if (sl_book_order_of(book, work->pid, &order) || sl_book_read(book, rows, &n, &me))
		return found; /* it has gone */
	for (size_t i = 0; i < n; i++) {
		if (rows[i].pid != work->pid)
			continue;
		found.n++;
		found.done += (size_t)order_is_done(work, &rows[i]);
		found.held_bytes += rows[i].claim.held_bytes;
		found.is_suspended |= rows[i].claim.is_suspended;
	}
	return found;
}

static void
order_put(const char *gpu, void *arg)
{
	struct order_work *work = arg;
	struct sl_book_order order;
	struct sl_book *book;
	int rc = sl_book_open_existing(NULL, gpu, &book);

	if (rc) {
		if (rc != -ENOENT && !work->rc)
			work->rc = rc;
		return;
	}
	rc = sl_book_order_of(book, work->pid, &order);
	if (!rc && !order.number) { /* as it was started */
		order.limit_bytes = UINT64_MAX;
		order.suspend = (uint32_t)rows_look(work, book).is_suspended;
	}
	if (!rc) {
		if (work->what == ORDER_LIMIT)
			order.limit_bytes = work->limit_bytes;
		else
			order.suspend = work->what == ORDER_SUSPEND;
		order.number++;
		rc = sl_book_order_give(book, work->pid, &order);
	}
	if (!rc && work->n < GPUS_MAX) {
		snprintf(work->gpus[work->n], sizeof(work->gpus[0]), "%s", gpu);
		work->books[work->n++] = book;
		return;
	}
	if (rc && rc != -ESRCH && !work->rc)
		work->rc = rc;
	sl_book_close(book);
}

/* On one GPU. An exit code. */
static int
order_await(const struct order_work *work, size_t which)
{
	struct sl_book *book = work->books[which];
	const char *gpu = work->gpus[which];
	const struct timespec pause = {0, PAUSE_NS};
	uint64_t until = sl_now_ns() + WAIT_NS;
	const char *name = order_names[work->what];
	struct order_rows rows;
	char holds[32];

	while ((rows = rows_look(work, book)).n && rows.done < rows.n) {
		if (sl_now_ns() > until)
			return command_fail(
				name,
				"process %d still holds %s of %s: a kernel runs, "
				"or host memory and disk are full, or the process "
				"is stopped; it follows when it can",
				work->pid,
				sl_size_format(rows.held_bytes, holds, sizeof(holds)), gpu);
		nanosleep(&pause, NULL);
	}
	if (!rows.n)
		return command_fail(name, "process %d has ended", work->pid);
	if (work->what != ORDER_RESUME)
		printf("process %d holds %s of %s\n", work->pid,
		       sl_size_format(rows.held_bytes, holds, sizeof(holds)), gpu);
	return SL_EXIT_OK;
}

static int
order_run(struct order_work *work)
{
	const char *name = order_names[work->what];
	int status = SL_EXIT_OK;
	int rc = sl_books_walk(NULL, SL_BOOK_DEVICE, order_put, work);

	if (!rc)
		rc = work->rc;
	for (size_t i = 0; i < work->n; i++) {
		int of_gpu = rc ? SL_EXIT_OK : order_await(work, i);

		status = status ? status : of_gpu;
		sl_book_close(work->books[i]);
	}
	if (rc)
		return command_fail(name, "%s", sluice_last_error());
	if (!work->n)
		return command_fail(
			name,
			"process %d of this user shares no GPU (sluice ps lists "
			"those that do)",
			work->pid);
	return status;
}

/* The command line: the process, and the options in *options. 0; -1: help was printed; else the exit code. */
static int
order_read(const char *name, const char *help, const struct option *table, int argc,
	   char **argv, struct order_options *options, int *pid)
{
	struct command_syntax syntax = {name, ":h", help, table, NULL};
	uint64_t number;
	int rc = command_options_read(&syntax, argc, argv, options);

	if (rc)
		return rc;
	if (optind + 1 != argc)
		return command_usage(name, "one process number wanted");
	if (command_number(argv[optind], 1, PID_MOST, &number))
		return command_usage(name, "'%s' is not a process number", argv[optind]);
	*pid = (int)number;
	return 0;
}

static const struct option plain_table[] = {
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

int
cmd_suspend(int argc, char **argv)
{
	struct order_work work = {.what = ORDER_SUSPEND};
	struct order_options options = {0};
	int rc = order_read("suspend", suspend_help, plain_table, argc, argv, &options,
			    &work.pid);

	return rc ? (rc < 0 ? SL_EXIT_OK : rc) : order_run(&work);
}

int
cmd_resume(int argc, char **argv)
{
	struct order_work work = {.what = ORDER_RESUME};
	struct order_options options = {0};
	int rc = order_read("resume", resume_help, plain_table, argc, argv, &options,
			    &work.pid);

	return rc ? (rc < 0 ? SL_EXIT_OK : rc) : order_run(&work);
}

int
cmd_limit(int argc, char **argv)
{
	static const struct option table[] = {
		{"device-memory", required_argument, NULL,
		 COMMAND_MEMBER(struct order_options, device_memory)},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct order_work work = {.what = ORDER_LIMIT, .limit_bytes = UINT64_MAX};
	struct order_options options = {0};
	int rc = order_read("limit", limit_help, table, argc, argv, &options, &work.pid);

	if (rc)
		return rc < 0 ? SL_EXIT_OK : rc;
	if (!options.device_memory)
		return command_usage("limit", "--device-memory SIZE is missing");
	if (strcmp(options.device_memory, "auto") &&
	    (sl_size_parse(options.device_memory, &work.limit_bytes) ||
	     work.limit_bytes < (8u << 20)))
		return command_usage(
			"limit",
			"--device-memory '%s' is neither auto nor a size of at "
			"least 8M",
			options.device_memory);
	return order_run(&work);
}

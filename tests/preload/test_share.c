/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several programs on one GPU: processes on one stand-in device of 256 MiB, of which programs may have
 * half. Their results must be those of a program that is alone. What each has is read in the GPU's
 * book, and how often something moved in its statistics. Nothing here depends on a time: what is
 * waited for must come.
 *
 * A worker does what it is told through a pipe, a letter each, and answers with the same letter. Its
 * buffers have 4 MiB.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "share_workers.h"
#include "work.h"

#define MIB          ((uint64_t)1 << 20)
#define BUFFER       (4 * MIB)
#define WORDS        (BUFFER / 8)
#define BUFFERS_MAX  64
#define ROOM         (128 * MIB) /* of programs: the device's half, as less than 2 GiB are free */
#define CONTEXTS     (16 * MIB) /* what they take of it past the library */
#define LEAST        (8 * MIB)  /* four chunks of a device of this size */
#define WORKERS_MAX  16
#define STAGING      (64 * MIB) /* of host memory, beside the budget */
#define ROUNDS       8          /* of one order to a worker */
#define AT_ONCE_MAX  8
#define STEP_BUFFERS 24
#define STEP_ORDERS  2

/* ---- a worker ---- */

static struct {
	struct work w;
	uint64_t buffer[BUFFERS_MAX];
	unsigned n, rounds;
} own;

/* Every word counts the rounds. */
static void
round_do(void)
{
	for (unsigned i = 0; i < own.n; i++)
		work_launch(&own.w, WORK_ADD, NULL, own.buffer[i], WORDS, 1);
	own.rounds++;
	OK(own.w.cuCtxSynchronize());
}

/* Rounds like steps of training: each allocates buffer after buffer, uses them in the opposite order, and
 * frees them. */
static void
steps_do(void)
{
	for (int step = 0; step < ROUNDS; step++) {
		while (own.n < STEP_BUFFERS) {
			own.buffer[own.n] = work_alloc(&own.w, WORDS, own.n);
			own.n++;
			work_launch(&own.w, WORK_ADD, NULL, own.buffer[own.n - 1], WORDS, 1);
		}
		while (own.n) {
			own.n--;
			work_expect(&own.w, own.buffer[own.n], WORDS, 1 + own.n);
			OK(own.w.cuMemFree_v2(own.buffer[own.n]));
		}
	}
}

/* A round whose first kernel ends when all others have been launched. If the turn is lost in between, the
 * launches wait for it, and the kernel for them. */
static void
round_held_do(void)
{
	static struct cu_stream *stream;
	static uint64_t *gate; /* kernels read it */

	if (!stream) {
		OK(own.w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
		OK(own.w.cuMemHostAlloc((void **)&gate, 4096, 0));
	}
	__atomic_store_n(gate, 0, __ATOMIC_RELEASE);
	work_launch(&own.w, WORK_GATE, stream, own.buffer[0], WORDS,
		    (uint64_t)(uintptr_t)gate);
	for (unsigned i = 1; i < own.n; i++) {
		work_launch(&own.w, WORK_ADD, NULL, own.buffer[i], WORDS, 1);
		usleep(10000); /* time for the turn to be lost */
	}
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	own.rounds++;
	OK(own.w.cuCtxSynchronize());
}

static void
worker_do(char what)
{
	switch (what) {
	case 'a':
		CHECK(own.n < BUFFERS_MAX);
		own.buffer[own.n] = work_alloc(&own.w, WORDS, 1000 + own.n + own.rounds);
		own.n++;
		break;
	case 'f': /* frees the last */
		own.n--;
		OK(own.w.cuMemFree_v2(own.buffer[own.n]));
		break;
	case 'r':
		round_do();
		break;
	case 'R':
		for (int i = 0; i < ROUNDS; i++)
			round_do();
		break;
	case 's':
		steps_do();
		break;
	case 'h':
		round_held_do();
		break;
	case 'v':
		for (unsigned i = 0; i < own.n; i++)
			work_expect(&own.w, own.buffer[i], WORDS, 1000 + i + own.rounds);
		break;
	case 'm': { /* memory past the library: 32 MiB of the driver's, for good */
		const struct cu_allocation what_for = {.type = CU_ALLOCATION_PINNED,
						       .requested_handle = 1, /* as if to be exported: not ours */
						       .location = {CU_LOCATION_DEVICE, 0}};
		uint64_t handle;

		OK(own.w.cuMemCreate(&handle, 8 * BUFFER, &what_for, 0));
		break;
	}
	case 'g': { /* a space of its own, that would share */
		struct sluice_config config;
		struct sluice_space *space;

		CHECK(!sluice_config_init(&config));
		CHECK(!sluice_config_parse(&config,
					   "device=cuda,share=auto,device_budget=16M,"
					   "host_budget=64M,address=8G"));
		CHECK(!sluice_space_create(&config, &space));
		break;
	}
	case 'k': { /* a child that lives on */
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child)
			for (;;)
				pause();
		printf("%d\n", (int)child);
		break;
	}
	default:
		CHECK(0);
	}
}

struct own_settings {
	const char *text;
	unsigned host_mib;
	const char *host_room; /* NULL: the machine's memory */
	unsigned device_mib;   /* 0: as much as there is; else without a disk */
};

static void
worker_run(int from, int to, const void *arg)
{
	const struct own_settings *own_settings = arg;
	char text[160], what;

	snprintf(text, sizeof(text), "%s,quiet=1,stats=%s/stats.%%p", own_settings->text,
		 share_dir);
	setenv("SLUICE_RUN", text, 1);
	setenv("SLUICE_SHARE_DIR", share_dir, 1);
	if (own_settings->host_room)
		setenv("SLUICE_HOST_ROOM", own_settings->host_room, 1);
	setenv("CUDA_STANDIN_QUIET", "1", 1);
	setenv("CUDA_STANDIN_DEVICE_BYTES", "256M", 1);
	snprintf(text, sizeof(text), "%s/device", share_dir);
	setenv("CUDA_STANDIN_SHARED", text, 1);
	if (own_settings->device_mib)
		setenv("SLUICE_STORE_BUDGET", "0", 1);
	if (strstr(own_settings->text, "mode=off"))
		work_open(&own.w, 4096, own_settings->host_mib); /* the driver serves it */
	else
		work_start(&own.w, own_settings->device_mib ? own_settings->device_mib : 4096,
			   own_settings->host_mib);
	CHECK(write(to, "!", 1) == 1);
	while (read(from, &what, 1) == 1 && what != 'q') {
		worker_do(what);
		CHECK(write(to, &what, 1) == 1);
	}
	work_end(&own.w);
	exit(0);
}

/* ---- workers ---- */

static void
worker_tell_times(const struct worker *worker, char what, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		worker_tell(worker, what);
}

static void
worker_await_times(const struct worker *worker, char what, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		worker_await(worker, what);
}

static struct worker
worker_start_with(const char *settings, unsigned host_mib)
{
	const struct own_settings own_settings = {settings, host_mib, NULL, 0};

	return worker_fork(worker_run, &own_settings);
}

static struct worker
worker_start(const char *settings)
{
	struct worker worker = worker_start_with(settings, 768);

	worker_ready(&worker);
	return worker;
}

/* A number in the statistics of a worker that has ended. */
static uint64_t
worker_number(const struct worker *worker, const char *after, const char *member)
{
	static char text[1 << 18];
	char name[96], key[64];
	const char *at;
	FILE *f;

	snprintf(name, sizeof(name), "%s/stats.%d", share_dir, (int)worker->pid);
	f = fopen(name, "r");
	CHECK(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	(void)fclose(f);
	snprintf(key, sizeof(key), "\"%s\": ", member);
	at = strstr(text, after);
	at = at ? strstr(at, key) : NULL;
	CHECK(at);
	return strtoull(at + strlen(key), NULL, 10);
}

/* ---- the book ---- */

/* The row of a process; NULL: it is not in the book. */
static const struct sl_book_row *
row_of(pid_t pid)
{
	static struct sl_book_row row;

	return share_rows(pid, NULL, 0, &row) ? &row : NULL;
}

static int
waits_for_the_turn(const struct sl_book_row *row, uint64_t bytes)
{
	(void)bytes;
	return row->claim.turn.waits_ns;
}

static int
holds_at_most(const struct sl_book_row *row, uint64_t bytes)
{
	return row->claim.held_bytes <= bytes && row->claim.has_bytes <= bytes;
}

static int
room_is_at_most(const struct sl_book_row *row, uint64_t bytes)
{
	return row->room_bytes <= bytes;
}

static int
room_is_at_least(const struct sl_book_row *row, uint64_t bytes)
{
	return row->room_bytes >= bytes;
}

/* ---- tests ---- */

static void
a_space_of_the_program_does_not_join_again(void)
{
	struct worker a = worker_start("share=1");
	struct sl_book_row row;

	worker_ask(&a, 'a', 4);
	worker_ask(&a, 'g', 1);
	CHECK(share_rows(a.pid, NULL, 0, &row) == 1);
	worker_ask(&a, 'r', 1);
	worker_ask(&a, 'v', 1);
	worker_kill(&a); /* its space lives as long as it */
}

static void
one_that_is_alone_has_all_and_is_never_under_pressure(void)
{
	struct worker a = worker_start("share=1");

	worker_ask(&a, 'a', 24); /* 96 MiB */
	worker_ask(&a, 'r', 2);
	worker_end(&a);
	CHECK(worker_number(&a, "\"device\"", "budget_bytes") >= ROOM - CONTEXTS);
	CHECK(!worker_number(&a, "\"counters\"", "budgets_lowered"));
	CHECK(!worker_number(&a, "\"gpus\"", "d2h_evict"));
}

static uint64_t
moved_in(const struct worker *worker)
{
	return worker_number(worker, "\"gpus\"", "h2d_launch") +
	       worker_number(worker, "\"gpus\"", "h2d_prefetch");
}

/* What a worker of that many bytes has moved in: all of it for each turn, and for what came before and after turns. */
static void
moved_expect(const struct worker *worker, uint64_t bytes)
{
	uint64_t n = worker_number(worker, "\"counters\"", "turns");
	uint64_t moved = moved_in(worker);

	CHECK(n);
	/* Each time some more, as what comes ahead of launches does not wait for room. */
	if (moved > (n + 4) * bytes * 4 / 3) {
		fprintf(stderr,
			"%" PRIu64 " turns of %" PRIu64 " MiB, and %" PRIu64
			" MiB moved in\n",
			n, bytes / MIB, moved / MIB);
		exit(1);
	}
}

/* Together more than there is: they take turns, both are right, and each moves its data once a turn. */
static void
two_that_do_not_fit_take_turns(void)
{
	struct worker a = worker_start("share=1"), b = worker_start("share=1");

	worker_ask(&a, 'a', 24);
	worker_ask(&b, 'a', 24);
	worker_tell_times(&a, 'R', 6); /* both at once */
	worker_tell_times(&b, 'R', 6);
	worker_await_times(&a, 'R', 6);
	worker_await_times(&b, 'R', 6);
	worker_ask(&a, 'v', 1);
	worker_ask(&b, 'v', 1);
	worker_end(&a);
	worker_end(&b);
	moved_expect(&a, 24 * BUFFER);
	moved_expect(&b, 24 * BUFFER);
	CHECK(worker_number(&a, "\"counters\"", "turn_wait_ms") >=
	      worker_number(&a, "\"counters\"", "turn_wait_longest_ms"));
}

/* Programs that have as much memory only in the middle of each step: no turn moves more in than a step has.
 * Where in a step a turn ends depends on the time that a step takes, and is unit/test_member's. */
static void
two_of_changing_size_take_turns(void)
{
	struct worker a = worker_start("share=1"), b = worker_start("share=1");

	worker_tell_times(&a, 's', STEP_ORDERS);
	worker_tell_times(&b, 's', STEP_ORDERS);
	worker_await_times(&a, 's', STEP_ORDERS);
	worker_await_times(&b, 's', STEP_ORDERS);
	worker_end(&a);
	worker_end(&b);
	moved_expect(&a, STEP_BUFFERS * BUFFER);
	moved_expect(&b, STEP_BUFFERS * BUFFER);
	printf("moved in: %" PRIu64 " MiB\n", (moved_in(&a) + moved_in(&b)) / MIB);
}

static void
those_that_fit_take_none(void)
{
	struct worker a = worker_start("share=1"), b = worker_start("share=1");

	worker_ask(&a, 'a', 12);
	worker_ask(&b, 'a', 12);
	worker_tell(&a, 'R');
	worker_tell(&b, 'R');
	worker_await(&a, 'R');
	worker_await(&b, 'R');
	worker_end(&a);
	worker_end(&b);
	CHECK(!worker_number(&a, "\"counters\"", "turns"));
	CHECK(!worker_number(&b, "\"counters\"", "turns"));
}

/* Whoever has the turn is stopped, or killed, or ends: the other one goes on. */
static void
the_turn_of_who_is_gone_is_taken(void)
{
	struct worker a = worker_start("share=1,turn_s=1"),
		      b = worker_start("share=1,turn_s=1");

	worker_ask(&a, 'a', 24);
	worker_ask(&b, 'a', 24);
	worker_tell_times(&a, 'R', 6); /* several turns */
	worker_tell_times(&b, 'R', 6);
	row_await(&a, row_has_turn, 0, "has the turn");
	CHECK(!kill(a.pid, SIGSTOP));
	worker_await(&b, 'R'); /* in what a does not hold */
	CHECK(!kill(a.pid, SIGCONT));
	worker_await_times(&a, 'R', 6);
	worker_await_times(&b, 'R', 5);
	worker_tell_times(&a, 'R', 6);
	worker_tell_times(&b, 'R', 6);
	row_await(&a, row_has_turn, 0, "has the turn again");
	worker_kill(&a);
	worker_await_times(&b, 'R', 6);
	worker_ask(&b, 'v', 1);
	a = worker_start("share=1,turn_s=1");
	worker_ask(&a, 'a', 24);
	worker_tell_times(&a, 'R', 2);
	worker_tell(&b, 'R');
	worker_await(&b, 'R');
	worker_end(&b); /* with the turn or without */
	worker_await_times(&a, 'R', 2);
	worker_ask(&a, 'v', 1);
	worker_end(&a);
}

/* A kernel that waits for launches that wait for the turn: nothing hangs. It is known to use its argument
 * alone: with others mapped for it no launch could bring them in. */
static void
work_that_waits_for_who_waits_holds_up_nobody(void)
{
	struct worker a = worker_start("share=1,turn_s=1,arguments=trust"),
		      b = worker_start("share=1,turn_s=1,arguments=trust");

	worker_ask(&a, 'a', 24);
	worker_ask(&b, 'a', 24);
	worker_tell(&a, 'h');
	worker_tell(&b, 'R');
	worker_await(&a, 'h');
	worker_await(&b, 'R');
	worker_tell(&a, 'h');
	worker_tell(&b, 'h');
	worker_await(&a, 'h');
	worker_await(&b, 'h');
	worker_ask(&a, 'v', 1);
	worker_ask(&b, 'v', 1);
	worker_end(&a);
	worker_end(&b);
}

/* Who waits may be told to wait for longer, and ends as any other. */
static void
who_waits_is_suspended_and_killed(void)
{
	struct worker a = worker_start("share=1,turn_s=1"),
		      b = worker_start("share=1,turn_s=1");

	worker_ask(&a, 'a', 24);
	worker_ask(&b, 'a', 24);
	worker_tell_times(&a, 'R', 6);
	worker_tell_times(&b, 'R', 6);
	row_await(&b, waits_for_the_turn, 0, "waits for the turn");
	order_give(&b, (struct sl_book_order){.limit_bytes = UINT64_MAX, .suspend = 1});
	worker_await_times(&a, 'R', 6);
	order_give(&b, (struct sl_book_order){.limit_bytes = UINT64_MAX});
	worker_await_times(&b, 'R', 6);
	worker_tell_times(&a, 'R', 6);
	worker_tell_times(&b, 'R', 6);
	row_await(&b, waits_for_the_turn, 0, "waits for the turn again");
	worker_kill(&b);
	worker_await_times(&a, 'R', 6);
	worker_ask(&a, 'v', 1);
	worker_end(&a);
}

static void
who_is_idle_gives_way_and_comes_back(void)
{
	struct worker a = worker_start("share=1"), b;

	worker_ask(&a, 'a', 24);
	worker_ask(&a, 'r', 1);
	row_await(&a, row_is_idle, 0, "idle");
	b = worker_start("share=1");
	worker_ask(&b, 'a', 24); /* a gives way for each of them */
	worker_ask(&b, 'r', 3);
	row_await(&a, holds_at_most, ROOM - 24 * BUFFER, "gives way to");
	row_await(&b, row_has_at_least, 24 * BUFFER, "has");
	row_await(&b, row_is_idle, 0, "idle");
	worker_ask(&a, 'r', 1); /* and back */
	worker_ask(&a, 'v', 1);
	row_await(&a, row_has_at_least, 24 * BUFFER, "has again");
	worker_ask(&b, 'v', 1);
	worker_end(&a);
	worker_end(&b);
	CHECK(worker_number(&a, "\"counters\"", "budgets_lowered"));
}

/* b never waits for a longer than it gives something. */
static void
who_is_killed_is_gone_and_who_is_stopped_holds_up_nobody(void)
{
	struct worker a = worker_start("share=1"), b = worker_start("share=1"),
		      c = worker_start("share=1");

	worker_ask(&a, 'a', 8);
	worker_ask(&b, 'a', 24);
	worker_ask(&c, 'a', 8);
	worker_tell(&a, 'r');
	CHECK(!kill(a.pid, SIGSTOP)); /* somewhere in it */
	worker_ask(&b, 'r', 3);
	worker_tell(&c, 'r');
	worker_kill(&c);
	worker_ask(&b, 'r', 3);
	worker_ask(&b, 'v', 1);
	CHECK(!kill(a.pid, SIGCONT));
	worker_await(&a, 'r');
	worker_ask(&a, 'r', 2);
	worker_ask(&a, 'v', 1);
	worker_kill(&b);
	worker_ask(&a, 'r', 1);
	row_await(&a, row_has_at_least, 24 * BUFFER, "is alone and has");
	worker_ask(&a, 'v', 1);
	worker_end(&a);
}

static void
what_others_take_and_give_back_is_noticed(void)
{
	struct worker a = worker_start("share=1"), driver = worker_start("mode=off");

	worker_ask(&a, 'a', 24);
	worker_ask(&driver, 'm', 2); /* 64 MiB, of the 128 that are not for programs */
	row_await(&a, room_is_at_most, ROOM - 8 * BUFFER,
		  "has noticed that there are at most");
	row_await(&a, holds_at_most, ROOM - 8 * BUFFER, "gives back all but");
	worker_ask(&a, 'r', 2);
	worker_kill(&driver);
	row_await(&a, room_is_at_least, ROOM - CONTEXTS, "has noticed that there are");
	row_await(&a, row_has_at_least, 24 * BUFFER, "has again");
	worker_ask(&a, 'v', 1);
	worker_end(&a);
}

static void
room_is_left_as_the_user_says(void)
{
	struct worker a = worker_start("share=1,leave_mib=64");

	worker_ask(&a, 'a', 30);
	row_await(&a, room_is_at_most, ROOM - 8 * BUFFER, "leaves all but");
	CHECK(row_of(a.pid)->claim.has_bytes <= ROOM - 8 * BUFFER);
	worker_ask(&a, 'r', 2);
	worker_ask(&a, 'v', 1);
	worker_end(&a);
}

/* The driver refuses what the books promise: a program past the library was faster. */
static void
the_driver_out_of_memory_is_answered_by_giving_way(void)
{
	struct worker a = worker_start("share=1"), driver = worker_start("mode=off");

	worker_ask(&a, 'a', 12);
	worker_ask(&driver, 'm', 6); /* 192 MiB: 16 are left of what a may have */
	worker_ask(&a, 'a', 12);
	worker_ask(&a, 'r', 2);
	worker_ask(&a, 'm', 1); /* its own need: room is made */
	worker_ask(&a, 'r', 2);
	worker_ask(&a, 'v', 1);
	worker_kill(&driver);
	worker_ask(&a, 'v', 1);
	worker_end(&a);
}

/* By turns on the GPU, each evicts more than its half of host memory: the rest goes to the disk. */
static void
host_memory_is_shared(void)
{
	static struct sl_book_row rows[SL_BOOK_ROWS];
	const struct own_settings settings = {"share=1", 768, "96M", 0};
	struct worker workers[2];
	uint64_t held = 0, has = 0;
	struct sl_book *book;
	size_t n, me;

	for (int i = 0; i < 2; i++) {
		workers[i] = worker_fork(worker_run, &settings);
		worker_ready(&workers[i]);
		worker_ask(&workers[i], 'a', 48);
		worker_tell(&workers[i], 'R');
	}
	for (int i = 0; i < 2; i++)
		worker_await(&workers[i], 'R');
	CHECK(!sl_book_open_existing(share_dir, SL_BOOK_OF_HOST "-96M", &book));
	for (int tries = 0; tries < SHARE_TRIES; tries++) { /* free frames go a moment later */
		CHECK(!sl_book_read(book, rows, &n, &me) && n == 2);
		held = rows[0].claim.held_bytes + rows[1].claim.held_bytes;
		has = rows[0].claim.has_bytes + rows[1].claim.has_bytes;
		if (held <= 96 * MIB + 2 * STAGING)
			break;
		usleep(1000);
	}
	CHECK(held > 32 * MIB && held <= 96 * MIB + 2 * STAGING && has <= 96 * MIB + LEAST);
	sl_book_close(book);
	for (int i = 0; i < 2; i++)
		worker_ask(&workers[i], 'v', 1);
	for (int i = 0; i < 2; i++)
		worker_end(&workers[i]);
	CHECK(worker_number(&workers[0], "\"gpus\"", "store_write_spill") +
	      worker_number(&workers[1], "\"gpus\"", "store_write_spill"));
}

/* What cannot go to a disk stays in host memory, and no more: frames of copies are not among it. */
static void
host_memory_without_a_disk_stays_within_its_budget(void)
{
	static struct sl_book_row rows[SL_BOOK_ROWS];
	const struct own_settings settings = {"share=1", 16, "96M", 64};
	struct worker worker = worker_fork(worker_run, &settings);
	struct sl_book *book;
	size_t n, me;

	worker_ready(&worker);
	worker_ask(&worker, 'a', 80 * MIB / BUFFER);
	CHECK(!sl_book_open_existing(share_dir, SL_BOOK_OF_HOST "-96M", &book));
	for (int round = 0; round < 5; round++) {
		worker_ask(&worker, 'r', 1);
		for (int look = 0; look < 8; look++) {
			CHECK(!sl_book_read(book, rows, &n, &me) && n == 1);
			CHECK(rows[0].claim.has_bytes <= 16 * MIB);
			usleep(10000);
		}
	}
	sl_book_close(book);
	worker_ask(&worker, 'v', 1);
	worker_end(&worker);
}

static void
orders_are_followed(void)
{
	struct worker a = worker_start("share=1");
	char got;

	worker_ask(&a, 'a', 24);
	worker_ask(&a, 'r', 1);
	CHECK(row_of(a.pid));
	order_give(&a, (struct sl_book_order){.limit_bytes = 8 * BUFFER});
	row_await(&a, holds_at_most, 8 * BUFFER, "is limited to");
	worker_ask(&a, 'r', 1);
	order_give(&a, (struct sl_book_order){.limit_bytes = UINT64_MAX, .suspend = 1});
	row_await(&a, holds_at_most, LEAST, "is suspended, and has");
	worker_tell(&a, 'r');
	CHECK(fcntl(a.from, F_SETFL, O_NONBLOCK) == 0);
	for (int i = 0; i < 50; i++) { /* it waits: whenever one looks */
		CHECK(read(a.from, &got, 1) < 0 && errno == EAGAIN);
		usleep(1000);
	}
	CHECK(fcntl(a.from, F_SETFL, 0) == 0);
	order_give(&a, (struct sl_book_order){.limit_bytes = UINT64_MAX});
	worker_await(&a, 'r');
	row_await(&a, row_has_at_least, 24 * BUFFER, "has again");
	worker_ask(&a, 'v', 1);
	worker_end(&a);
}

static void
who_starts_suspended_waits_for_its_first_launch(void)
{
	struct worker a = worker_start_with("share=1,suspended=1", 768);
	char got;

	worker_await(&a, '!');
	worker_tell(&a, 'a');
	CHECK(fcntl(a.from, F_SETFL, O_NONBLOCK) == 0);
	for (int i = 0; i < 50; i++) {
		CHECK(read(a.from, &got, 1) < 0 && errno == EAGAIN);
		usleep(1000);
	}
	CHECK(fcntl(a.from, F_SETFL, 0) == 0);
	while (!row_of(a.pid))
		usleep(1000);
	order_give(&a, (struct sl_book_order){.limit_bytes = UINT64_MAX});
	worker_await(&a, 'a');
	worker_ask(&a, 'r', 1);
	worker_ask(&a, 'v', 1);
	worker_end(&a);
}

/* The book is removed, damaged, cut: programs go on, and find each other again. */
static void
a_book_that_is_lost_is_found_again(void)
{
	struct worker a = worker_start("share=1"), b = worker_start("share=1");
	char path[128];
	FILE *f;

	worker_ask(&a, 'a', 8);
	worker_ask(&b, 'a', 8);
	CHECK(row_of(a.pid) && row_of(b.pid));
	snprintf(path, sizeof(path), "%s/book-%s", share_dir, share_name);
	for (int how = 0; how < 3; how++) {
		if (how == 0)
			CHECK(!unlink(path));
		if (how == 1)
			CHECK(!truncate(path, 0));
		if (how == 2) {
			f = fopen(path, "r+");
			CHECK(f && fputs("damaged", f) >= 0 && !fclose(f));
		}
		worker_ask(&a, 'r', 1);
		worker_ask(&b, 'r', 1);
		row_await(&a, row_has_at_least, 8 * BUFFER, "is in the new book, and has");
		row_await(&b, row_has_at_least, 8 * BUFFER, "is in the new book, and has");
	}
	worker_ask(&a, 'v', 1);
	worker_ask(&b, 'v', 1);
	worker_end(&a);
	worker_end(&b);
}

/* 2 to 16 programs, what they do is drawn; some are killed, some stopped. */
static void
random_programs_are_right(uint64_t seed)
{
	struct worker workers[WORKERS_MAX] = {0};
	unsigned sizes[WORKERS_MAX] = {0};
	int stopped = -1;
	struct sl_rng rng;
	unsigned n;

	printf("seed %" PRIu64 "\n", seed);
	fflush(stdout);
	sl_rng_init(&rng, seed);
	n = 2 + (unsigned)sl_rng_below(&rng, WORKERS_MAX - 1);
	for (unsigned i = 0; i < n; i++) {
		workers[i] = worker_start_with("share=1", 128);
		worker_await(&workers[i], '!');
	}
	for (int step = 0; step < 120; step++) {
		unsigned i = (unsigned)sl_rng_below(&rng, n);
		uint64_t what = sl_rng_below(&rng, 100);

		if ((int)i == stopped) {
			CHECK(!kill(workers[i].pid, SIGCONT));
			stopped = -1;
		}
		if (what < 35 && sizes[i] < 12) {
			worker_ask(&workers[i], 'a', 1);
			sizes[i]++;
		} else if (what < 45 && sizes[i]) {
			worker_ask(&workers[i], 'f', 1);
			sizes[i]--;
		} else if (what < 90) {
			worker_ask(&workers[i], 'r', 1);
		} else if (what < 95) {
			worker_kill(&workers[i]);
			sizes[i] = 0;
			workers[i] = worker_start_with("share=1", 128);
			worker_await(&workers[i], '!');
		} else if (stopped < 0) {
			CHECK(!kill(workers[i].pid, SIGSTOP));
			stopped = (int)i;
		}
	}
	if (stopped >= 0)
		CHECK(!kill(workers[stopped].pid, SIGCONT));
	for (unsigned i = 0; i < n; i++) {
		worker_ask(&workers[i], 'v', 1);
		worker_end(&workers[i]);
	}
}

/* 3 to 8 programs at once, whose data do not fit together. Some are stopped or killed wherever they are. */
static void
random_turns_are_right(uint64_t seed)
{
	struct worker workers[AT_ONCE_MAX];
	int stopped[AT_ONCE_MAX] = {0};
	struct sl_rng rng;
	unsigned n;

	printf("seed %" PRIu64 "\n", seed);
	fflush(stdout);
	sl_rng_init(&rng, seed);
	n = 3 + (unsigned)sl_rng_below(&rng, AT_ONCE_MAX - 2);
	for (unsigned i = 0; i < n; i++) {
		workers[i] = worker_start_with("share=1,turn_s=2", 256);
		worker_await(&workers[i], '!');
		worker_ask(&workers[i], 'a', 10 + (unsigned)sl_rng_below(&rng, 8));
		worker_tell(&workers[i], 'R');
	}
	for (int step = 0; step < 30; step++) {
		unsigned i = (unsigned)sl_rng_below(&rng, n);
		uint64_t what = sl_rng_below(&rng, 10);

		usleep((useconds_t)sl_rng_below(&rng, 50000));
		if (stopped[i] || what < 5) {
			CHECK(!kill(workers[i].pid, stopped[i] ? SIGCONT : SIGSTOP));
			stopped[i] = !stopped[i];
		} else if (what < 7) {
			worker_kill(&workers[i]);
			workers[i] = worker_start_with("share=1,turn_s=2", 256);
			worker_await(&workers[i], '!');
			worker_ask(&workers[i], 'a', 10);
			worker_tell(&workers[i], 'R');
		}
	}
	for (unsigned i = 0; i < n; i++)
		if (stopped[i])
			CHECK(!kill(workers[i].pid, SIGCONT));
	for (unsigned i = 0; i < n; i++)
		worker_await(&workers[i], 'R');
	for (unsigned i = 0; i < n; i++) {
		worker_ask(&workers[i], 'v', 1);
		worker_end(&workers[i]);
	}
}

/* What takes long is told: another machine's log shows which part. */
#define RUN(call)                                                                        \
	do {                                                                             \
		uint64_t run_ns = sl_now_ns();                                           \
		call;                                                                    \
		printf("%s: %" PRIu64 " ms\n", #call, (sl_now_ns() - run_ns) / 1000000); \
	} while (0)

int
main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)getpid();

	setenv("CUDA_STANDIN_HOST_BYTES", "4G", 1);
	CHECK(mkdtemp(share_dir));
	RUN(one_that_is_alone_has_all_and_is_never_under_pressure());
	RUN(a_space_of_the_program_does_not_join_again());
	RUN(two_that_do_not_fit_take_turns());
	RUN(two_of_changing_size_take_turns());
	RUN(those_that_fit_take_none());
	RUN(the_turn_of_who_is_gone_is_taken());
	RUN(work_that_waits_for_who_waits_holds_up_nobody());
	RUN(who_waits_is_suspended_and_killed());
	RUN(who_is_idle_gives_way_and_comes_back());
	RUN(who_is_killed_is_gone_and_who_is_stopped_holds_up_nobody());
	RUN(what_others_take_and_give_back_is_noticed());
	RUN(room_is_left_as_the_user_says());
	RUN(the_driver_out_of_memory_is_answered_by_giving_way());
	RUN(host_memory_is_shared());
	RUN(host_memory_without_a_disk_stays_within_its_budget());
	RUN(orders_are_followed());
	RUN(who_starts_suspended_waits_for_its_first_launch());
	RUN(a_book_that_is_lost_is_found_again());
	RUN(random_programs_are_right(seed));
	RUN(random_turns_are_right(seed));
	share_dir_remove(share_dir);
	return 0;
}

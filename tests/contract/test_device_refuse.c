/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that touch refused addresses, while the chunk is moved and touched by others.
 * Poison at the page refuses a call for a moment. It must stop no move, remove no moved page and
 * meet no other thread. It must not be set for a call that waits for something else. Bounded by
 * rounds, not by time. See device_suite.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "device_suite.h"

#define ROUNDS 50

/* A thread whose system calls write to a page, again and again; each fails or succeeds. */
struct caller {
	pthread_t thread;
	char *_Atomic page;
	_Atomic pid_t tid;
	_Atomic int over;
	_Atomic unsigned n_refused;
	int fd; /* reads as zeros */
};

static struct caller caller;

static void *
caller_run(void *arg)
{
	struct caller *c = arg;

	c->tid = gettid();
	while (!c->over) {
		ssize_t n = pread(c->fd, c->page + 64, 64, 0);

		/* Fewer bytes: the page was taken away while the kernel wrote to it. */
		CHECK((n > 0 && n <= 64) || (n < 0 && errno == EFAULT));
		if (n < 0)
			c->n_refused++;
	}
	return NULL;
}

static void
caller_start(char *page)
{
	memset(&caller, 0, sizeof(caller));
	caller.page = page;
	caller.fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	CHECK(caller.fd >= 0);
	CHECK(pthread_create(&caller.thread, NULL, caller_run, &caller) == 0);
}

/* One more call is refused. */
static void
caller_wait_refused(void)
{
	unsigned until = caller.n_refused + 1;

	while (caller.n_refused < until)
		usleep(50);
}

static void
caller_stop(void)
{
	caller.over = 1;
	pthread_join(caller.thread, NULL);
	close(caller.fd);
}

/* Refuses what the caller's system calls touch, serves the rest. Guards that a move by copy sets for
 * its own sake are gone when it ends. */
static int
serve_refuse_caller(struct core *core, const struct sl_touch *touch)
{
	if (touch->thread == caller.tid)
		return touch->guarded ? 0
				      : sl_fail(-EIO, "test core: %p is on a broken disk",
						touch->addr);
	return serve_chunk(core, touch);
}

/* System calls of THREAD delivery wait for what they touch, where the system allows it. */
static int
calls_wait(const struct core *core)
{
	if (core->dev->kernel_touches)
		return 1;
	printf("  left out: system calls do not wait here\n");
	return 0;
}

static void
refused_calls_stop_no_move_and_take_no_data(void)
{
	struct sl_frame *frame;
	struct core core;
	char *addr;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	core.serve = serve_refuse_caller;
	addr = chunk_addr(&core, 1);
	frame = frame_get(&core);
	memset(frame->data, 0, CHUNK);
	if (calls_wait(&core)) {
		caller_start(addr + 7 * PAGE);
		for (uint64_t i = 1; i <= ROUNDS && !device_failed(); i++) {
			const struct sl_device_ops *ops = core.dev->ops;
			volatile uint64_t *word = (void *)(addr + 7 * PAGE);

			caller_wait_refused(); /* it is met there in any stage of it */
			usleep(i % 5 * 300);
			CHECK(ops->present(core.dev, addr, CHUNK, frame, SL_PRESENT_KEEP) ==
			      0);
			CHECK(*word == i - 1);
			*word = i;
			usleep(i % 3 * 2000);
			CHECK(*word == i);
			CHECK(ops->absent(core.dev, addr, CHUNK, frame, SL_ABSENT_COPY) == 0);
			CHECK(*(uint64_t *)(void *)((char *)frame->data + 7 * PAGE) == i);
		}
		CHECK(caller.n_refused >= ROUNDS);
		caller_stop();
	}
	core.dev->ops->frame_put(core.dev, frame);
	core_fini(&core);
}

static void
refused_calls_take_no_page_that_was_filled(void)
{
	struct core core;
	char *page;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	core.serve = serve_refuse_caller;
	page = chunk_addr(&core, 2) + 9 * PAGE;
	if (calls_wait(&core)) {
		caller_start(page);
		for (uint64_t i = 1; i <= ROUNDS && !device_failed(); i++) {
			uint64_t contents[SL_PAGE_BYTES / sizeof(uint64_t)] = {i};
			volatile uint64_t *word = (void *)page;

			caller_wait_refused();
			usleep(i % 5 * 300);
			CHECK(core.dev->faults->page_fill(core.dev, page, PAGE, contents,
							  0) == 0);
			usleep(i % 3 * 2000);
			CHECK(*word == i); /* gone, it would be a touch that brings zeros */
			CHECK(core.dev->faults->page_drop(core.dev, page, PAGE) == 0);
		}
		caller_stop();
	}
	core_fini(&core);
}

static void
refused_calls_meet_no_other_thread(void)
{
	struct core core;
	char *page;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	core.serve = serve_refuse_caller;
	page = chunk_addr(&core, 3) + 11 * PAGE;
	chunk_hold(&core, 3, 0);
	if (calls_wait(&core)) {
		caller_start(page);
		for (unsigned i = 1; i <= ROUNDS && !device_failed(); i++) {
			unsigned until = caller.n_refused + 1;

			/* A touch of ours that was served too late brings the chunk once more. */
			while (caller.n_refused < until) {
				chunk_evict(&core, 3);
				usleep(50);
			}
			usleep(i % 5 * 300);
			page[0]++; /* a SIGBUS ends the test program */
			CHECK((unsigned char)page[0] == (unsigned char)i);
			chunk_evict(&core, 3);
		}
		caller_stop();
	}
	core_fini(&core);
}

/* ---- A touch whose thread has gone on ---- */

static _Atomic int late_arrived, late_go;

/* Holds the first touch until it is let go, and refuses it then. */
static int
serve_late(struct core *core, const struct sl_touch *touch)
{
	if (!atomic_exchange(&core->armed, 0))
		return serve_chunk(core, touch);
	late_arrived = 1;
	while (!late_go)
		usleep(50);
	return sl_fail(-EIO, "test core: %p is on a broken disk", touch->addr);
}

struct goer {
	volatile char *page;
	int pipe[2];
	_Atomic int touched;
};

static void *
goer_run(void *arg)
{
	struct goer *g = arg;
	char byte;

	g->page[0] = 1;
	g->touched = 1;
	CHECK(read(g->pipe[0], &byte, 1) == 1); /* a system call that touches nothing */
	return NULL;
}

static void
a_touch_refused_too_late_disturbs_nobody(void)
{
	for (int round = 0; round < 5 && !device_failed(); round++) {
		struct goer goer = {0};
		struct core core;
		pthread_t thread;

		core_init(&core, CHUNK, SL_DELIVER_THREAD);
		late_arrived = late_go = 0;
		core.serve = serve_late;
		core.armed = 1;
		goer.page = chunk_addr(&core, 4) + 13 * PAGE;
		chunk_hold(&core, 4, 0);
		CHECK(pipe(goer.pipe) == 0);
		CHECK(pthread_create(&thread, NULL, goer_run, &goer) == 0);
		while (!late_arrived)
			usleep(50);
		/* Somebody else's touch brings the chunk: the thread goes on, and waits for what is no
		 * memory at all, as one soon does. */
		chunk_addr(&core, 4)[0] = 1;
		while (!goer.touched)
			usleep(50);
		usleep(5000);
		chunk_evict(&core, 4);
		late_go = 1;
		for (int i = 0; i < 200 && !device_failed(); i++) {
			goer.page[0]++; /* a SIGBUS ends the test program */
			CHECK((unsigned char)goer.page[0] == (unsigned char)(i + 2));
			chunk_evict(&core, 4);
		}
		CHECK(write(goer.pipe[1], "", 1) == 1);
		pthread_join(thread, NULL);
		close(goer.pipe[0]);
		close(goer.pipe[1]);
		core_fini(&core);
	}
}

static const struct device_test tests[] = {
	TEST_NEEDS(refused_calls_stop_no_move_and_take_no_data, DEVICE_USERFAULT),
	TEST_NEEDS(refused_calls_take_no_page_that_was_filled, DEVICE_USERFAULT),
	TEST_NEEDS(refused_calls_meet_no_other_thread, DEVICE_USERFAULT),
	TEST_NEEDS(a_touch_refused_too_late_disturbs_nobody, DEVICE_USERFAULT),
};

DEVICE_MAIN(tests)

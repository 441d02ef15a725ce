/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events: order, errors that stick, waiting across streams, and grids of several streams on
 * the same workers. See device_suite.h.
 */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "device_suite.h"

struct note {
	struct sl_task task; /* first */
	_Atomic int *order;
	int got;
	int rc; /* what run returns */
	_Atomic int done_rc;
};

/* Something in a stream that ends when the gate opens. */
struct hold {
	struct sl_task task; /* first */
	_Atomic int *gate;
};

static int
note_run(struct sl_task *task)
{
	struct note *note = (struct note *)task;

	note->got = ++*note->order;
	return note->rc ? sl_fail(note->rc, "task %d failed", note->got) : 0;
}

static void
note_done(struct sl_task *task, int rc)
{
	((struct note *)task)->done_rc = rc;
}

static void
note_submit(struct sl_device *dev, struct sl_stream *stream, struct note *note, int skippable)
{
	note->task.run = note_run;
	note->task.done = note_done;
	note->task.skippable = skippable;
	note->done_rc = 1;
	dev->ops->stream_submit(stream, &note->task);
}

static void
gate_wait(void *arg)
{
	_Atomic int *gate = arg;

	while (!*gate)
		usleep(100);
}

static int
hold_run(struct sl_task *task)
{
	gate_wait(((struct hold *)task)->gate);
	return 0;
}

static void
hold_done(struct sl_task *task, int rc)
{
	CHECK(rc == 0);
	free(task);
}

/* Where streams are the device's own, a task only enqueues: what waits is a call in the stream. */
static void
stream_hold(struct sl_device *dev, struct sl_stream *stream, _Atomic int *gate)
{
	struct hold *hold;

	if (dev->native) {
		CHECK(dev->native->call(stream, gate_wait, gate) == 0);
		return;
	}
	hold = calloc(1, sizeof(*hold));
	hold->task.run = hold_run;
	hold->task.done = hold_done;
	hold->gate = gate;
	dev->ops->stream_submit(stream, &hold->task);
}

static void
a_stream_runs_its_tasks_in_order(void)
{
	enum { N = 1000 }; /* more than the queue holds */
	struct note *notes = calloc(N, sizeof(*notes));
	struct sl_stream *stream;
	_Atomic int order = 0;
	struct core core;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	CHECK(core.dev->ops->stream_create(core.dev, &stream) == 0);
	for (int i = 0; i < N; i++) {
		notes[i].order = &order;
		note_submit(core.dev, stream, &notes[i], 1);
	}
	CHECK(core.dev->ops->stream_synchronize(stream) == 0);
	for (int i = 0; i < N; i++)
		CHECK(notes[i].got == i + 1 && notes[i].done_rc == 0);
	core.dev->ops->stream_destroy(stream);
	core_fini(&core);
	free(notes);
}

static void
an_error_sticks_until_synchronize_and_skips_what_may_be_skipped(void)
{
	struct note notes[6];
	struct sl_stream *stream;
	_Atomic int order = 0;
	struct core core;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	CHECK(core.dev->ops->stream_create(core.dev, &stream) == 0);
	memset(notes, 0, sizeof(notes));
	notes[1].rc = -EIO;
	notes[3].rc = -ENOSPC; /* not the first */
	for (int i = 0; i < 5; i++) {
		notes[i].order = &order;
		note_submit(core.dev, stream, &notes[i], i != 3);
	}
	CHECK(core.dev->ops->stream_synchronize(stream) == -EIO);
	CHECK(strstr(sluice_last_error(), "task 2 failed") != NULL);
	CHECK(notes[0].done_rc == 0 && notes[1].done_rc == -EIO);
	CHECK(notes[2].done_rc == -ECANCELED && notes[2].got == 0);
	CHECK(notes[3].done_rc == -ENOSPC && notes[3].got == 3);
	CHECK(notes[4].done_rc == -ECANCELED && notes[4].got == 0);
	notes[5].order = &order;
	note_submit(core.dev, stream, &notes[5], 1);
	CHECK(core.dev->ops->stream_synchronize(stream) == 0);
	CHECK(notes[5].done_rc == 0 && notes[5].got == 4);
	core.dev->ops->stream_destroy(stream);
	core_fini(&core);
}

static void
events_order_streams(void)
{
	const struct sl_device_ops *ops;
	struct note first = {0};
	struct note second = {0};
	struct note failing = {0};
	struct sl_stream *a;
	struct sl_stream *b;
	struct sl_event *event;
	_Atomic int order = 0;
	_Atomic int gate = 0;
	struct core core;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	CHECK(ops->stream_create(core.dev, &a) == 0);
	CHECK(ops->stream_create(core.dev, &b) == 0);
	CHECK(core.dev->events->create(core.dev, &event) == 0);
	CHECK(core.dev->events->query(event) == 0); /* never recorded */
	core.dev->events->synchronize(event);
	first.order = second.order = failing.order = &order;
	failing.rc = -EIO;
	stream_hold(core.dev, a, &gate);
	note_submit(core.dev, a, &first, 1);
	note_submit(core.dev, a, &failing, 1);
	CHECK(core.dev->events->record(a, event) == 0);
	CHECK(core.dev->events->wait(b, event) == 0);
	note_submit(core.dev, b, &second, 1);
	CHECK(core.dev->events->query(event) == -EAGAIN);
	usleep(2000);
	CHECK(second.done_rc == 1);
	gate = 1;
	CHECK(ops->stream_synchronize(b) == 0); /* recorded though a task before it failed */
	CHECK(first.got == 1 && failing.got == 2 && second.got == 3);
	CHECK(core.dev->events->query(event) == 0);
	CHECK(ops->stream_synchronize(a) == -EIO);
	/* Recorded again: complete again when that is done. */
	gate = 0;
	stream_hold(core.dev, a, &gate);
	note_submit(core.dev, a, &first, 1);
	CHECK(core.dev->events->record(a, event) == 0);
	CHECK(core.dev->events->query(event) == -EAGAIN);
	gate = 1;
	core.dev->events->synchronize(event);
	CHECK(first.got == 4);
	CHECK(ops->stream_synchronize(a) == 0);
	core.dev->events->destroy(event);
	ops->stream_destroy(a);
	ops->stream_destroy(b);
	core_fini(&core);
}

/* Who waited destroys at once: what completes the event must be through with it by then. */
static void
an_event_is_destroyed_as_soon_as_it_was_waited_for(void)
{
	enum { EVENTS = 2000 };
	const struct sl_device_ops *ops;
	struct sl_stream *stream;
	struct core core;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	CHECK(ops->stream_create(core.dev, &stream) == 0);
	for (int i = 0; i < EVENTS; i++) {
		struct sl_event *event;

		CHECK(core.dev->events->create(core.dev, &event) == 0);
		CHECK(core.dev->events->record(stream, event) == 0);
		core.dev->events->synchronize(event);
		core.dev->events->destroy(event);
	}
	CHECK(ops->stream_synchronize(stream) == 0);
	ops->stream_destroy(stream);
	core_fini(&core);
}

struct grid_task {
	struct sl_task task; /* first */
	struct core *core;
	struct kernel_args *args;
	struct sluice_grid grid;
};

static int
grid_task_run(struct sl_task *task)
{
	struct grid_task *g = (struct grid_task *)task;

	return g->core->dev->kernels->run(g->core->dev, kernel_sum_pages, g->grid,
					  g->args, g);
}

static void
grid_task_done(struct sl_task *task, int rc)
{
	CHECK(rc == 0);
	free(task);
}

static void
streams_run_grids_at_once_on_the_same_workers(void)
{
	enum { STREAMS = 5, GRIDS = 40 };

	for (int d = 0; d < 2; d++) {
		struct sl_stream *streams[STREAMS];
		struct kernel_args args = {0};
		struct core core;

		core_init(&core, CHUNK, deliveries[d]);
		for (int i = 0; i < CHUNKS; i++) {
			chunk_hold(&core, i, 1);
		}
		args.addr = chunk_addr(&core, 0);
		for (int i = 0; i < STREAMS; i++)
			CHECK(core.dev->ops->stream_create(core.dev, &streams[i]) == 0);
		for (int i = 0; i < STREAMS * GRIDS; i++) {
			struct grid_task *g = calloc(1, sizeof(*g));

			g->task.run = grid_task_run;
			g->task.done = grid_task_done;
			g->core = &core;
			g->args = &args;
			g->grid = (struct sluice_grid){1 + (uint32_t)i % 40, 2, 5};
			core.dev->ops->stream_submit(streams[i % STREAMS], &g->task);
			if (i % 7 == 0)
				chunk_evict(&core, 0);
		}
		for (int i = 0; i < STREAMS; i++) {
			CHECK(core.dev->ops->stream_synchronize(streams[i]) == 0);
			core.dev->ops->stream_destroy(streams[i]);
		}
		CHECK(args.blocks == STREAMS * GRIDS / 40 * (40 * 41 / 2) * 10);
		CHECK(args.sum == args.blocks);
		CHECK(args.overlaps == 0);
		core_fini(&core);
	}
}

static const struct device_test tests[] = {
	TEST(a_stream_runs_its_tasks_in_order),
	TEST(an_error_sticks_until_synchronize_and_skips_what_may_be_skipped),
	TEST_ROLES(events_order_streams, ROLE_EVENTS),
	TEST_ROLES(an_event_is_destroyed_as_soon_as_it_was_waited_for, ROLE_EVENTS),
	TEST_ROLES(streams_run_grids_at_once_on_the_same_workers, ROLE_KERNELS),
};

DEVICE_MAIN(tests)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of requests by class: DEMAND before PREFETCH before WRITEBACK, first come first served
 * within a class. The links are in the requests. So nothing is allocated and nothing can fail;
 * the queue is as long as its callers' requests. It has no lock: its engine takes one.
 *
 * "Low" classes are all but DEMAND. An engine keeps room for DEMAND: it asks with low_allowed ==
 * 0 while low requests fill their share.
 */
#ifndef SL_STORE_IO_QUEUE_H
#define SL_STORE_IO_QUEUE_H

#include <assert.h>

#include "store/store.h"

struct sl_io_queue {
	struct sl_io *head[SL_IO_CLASS_COUNT];
	struct sl_io *tail[SL_IO_CLASS_COUNT]; /* undefined while head is NULL */
};

static inline int
sl_io_is_low(const struct sl_io *io)
{
	return io->class != SL_IO_DEMAND;
}

static inline void
sl_io_queue_push(struct sl_io_queue *queue, struct sl_io *io)
{
	assert(io->class < SL_IO_CLASS_COUNT);
	io->next = NULL;
	if (queue->head[io->class])
		queue->tail[io->class]->next = io;
	else
		queue->head[io->class] = io;
	queue->tail[io->class] = io;
}

/* The request that sl_io_queue_pop() would give; NULL: none that is allowed. */
static inline struct sl_io *
sl_io_queue_peek(const struct sl_io_queue *queue, int low_allowed)
{
	if (queue->head[SL_IO_DEMAND])
		return queue->head[SL_IO_DEMAND];
	if (!low_allowed)
		return NULL;
	if (queue->head[SL_IO_PREFETCH])
		return queue->head[SL_IO_PREFETCH];
	return queue->head[SL_IO_WRITEBACK];
}

static inline struct sl_io *
sl_io_queue_pop(struct sl_io_queue *queue, int low_allowed)
{
	struct sl_io *io = sl_io_queue_peek(queue, low_allowed);

	if (io) {
		queue->head[io->class] = io->next;
		io->next = NULL;
	}
	return io;
}

#endif

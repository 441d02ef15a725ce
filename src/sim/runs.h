/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where every page is, kept by runs: a run is consecutive pages of one tensor that are at
 * the same place and wait in the same queue. Runs of a tensor are linked in page order and
 * cover it whole; runs on the device are linked in order of arrival; runs that wait for a
 * move are linked in their queue. Neighbours that have become alike are joined at once, so
 * memory follows the number of boundaries and not the number of pages.
 *
 * What it leaves to others: limits, victims, order of queues (flow.c), launches (paging.c).
 * Threads: one simulation is one object; nothing is shared.
 */
#ifndef SL_SIM_RUNS_H
#define SL_SIM_RUNS_H

#include <stdint.h>

#include "base/error.h"

#define SL_RUN_NONE UINT32_MAX

enum sl_where {
	SL_WHERE_NOWHERE, /* never made, or dropped */
	SL_WHERE_DEVICE,
	SL_WHERE_HOST,
	SL_WHERE_STORE,
	SL_WHERE_COUNT
};

/* A page waits in at most one queue; it is "in transit" while it does. */
enum sl_queue {
	SL_QUEUE_NONE,
	SL_QUEUE_FAULT_STORE, /* a running launch waits for it */
	SL_QUEUE_FAULT_HOST,
	SL_QUEUE_FAULT_ALLOC,
	SL_QUEUE_FETCH_STORE, /* asked for ahead of time */
	SL_QUEUE_FETCH_HOST,
	SL_QUEUE_ALLOC,
	SL_QUEUE_EVICT_STORE, /* planned to leave */
	SL_QUEUE_EVICT_HOST,
	SL_QUEUE_COUNT
};

struct sl_run {
	uint32_t tensor;
	uint32_t first, pages;   /* pages first ... first + pages - 1 */
	uint32_t before, after;  /* page order; SL_RUN_NONE: end */
	uint32_t older, younger; /* order of arrival on the device */
	uint32_t ahead, behind;  /* in its queue */
	uint8_t where, queue;
	uint8_t stored; /* on device or host: the store has the same contents */
};

struct sl_run_list {
	uint32_t head, tail;
};

struct sl_runs {
	struct sl_run *runs;
	uint32_t n_runs, max_runs; /* handed out at least once; room */
	uint32_t free_head;        /* list of unused ones, linked by after */
	uint32_t n_tensors;
	uint32_t *tensor_first; /* first run of each tensor */
	uint32_t *tensor_pages;
	uint32_t *tensor_ready;  /* pages on the device and in no queue */
	uint32_t *tensor_queued; /* pages in any queue */
	struct sl_run_list arrival;
	struct sl_run_list queue[SL_QUEUE_COUNT];
	uint32_t cursor; /* next victim to look at, or SL_RUN_NONE: past the end */
	uint64_t device_used, host_used, store_used; /* pages; copies kept do not count */
	/* Pages in a queue that belong to the running launch: its tensors have stamp[] ==
	 * stamp_now. */
	uint32_t *stamp;
	uint32_t stamp_now;
	uint64_t awaited;
	int keeps_copies; /* what comes from the store stays valid there until written */
	int failed;       /* -ENOMEM happened: the state is no longer to be used */
};

/* pages: of each tensor, copied. All nowhere. -ENOMEM. fini takes a zeroed one. */
int sl_runs_init(struct sl_runs *runs, uint32_t n_tensors, const uint32_t *pages) SL_MUST_CHECK;
void sl_runs_fini(struct sl_runs *runs);

/* A whole tensor that is nowhere is put on the host or the store (initial state). */
void sl_runs_place(struct sl_runs *runs, uint32_t tensor, enum sl_where where);

/* Append a run that is in no queue to one. */
void sl_runs_enqueue(struct sl_runs *runs, uint32_t run, enum sl_queue queue);

/*
 * The first `pages` pages of a run arrive on the device: out of their queue, youngest of
 * the arrivals. leave: the first pages of a run on the device go to `where`, out of their
 * queue if they were in one. Both may free or join runs: indices that the caller holds,
 * other than list heads and the cursor, are not valid afterwards.
 */
void sl_runs_arrive(struct sl_runs *runs, uint32_t run, uint32_t pages);
void sl_runs_leave(struct sl_runs *runs, uint32_t run, uint32_t pages, enum sl_where where);

/* As leave, but the pages go to the tail of `queue` at once (a victim that is needed). */
void sl_runs_bounce(struct sl_runs *runs, uint32_t run, uint32_t pages,
		    enum sl_where where, enum sl_queue queue);

/* Everything of a tensor that is in no queue is dropped. spare: but not from here. */
void sl_runs_drop(struct sl_runs *runs, uint32_t tensor, enum sl_where spare);

/* The tensor is written: no copy on the store is valid any more. */
void sl_runs_dirty(struct sl_runs *runs, uint32_t tensor);

/* What of a tensor is on the device and was to leave stays. */
void sl_runs_recall(struct sl_runs *runs, uint32_t tensor);

/* What a tensor has on the device becomes the youngest there, in page order. */
void sl_runs_refresh(struct sl_runs *runs, uint32_t tensor);

/* Are a and the run behind it in page order one run? */
int sl_runs_are_alike(const struct sl_runs *runs, uint32_t a, uint32_t b);
/* Begin a launch: awaited counts the queued pages of the tensors named. */
void sl_runs_await(struct sl_runs *runs, const uint32_t *tensors, uint32_t n);

#endif

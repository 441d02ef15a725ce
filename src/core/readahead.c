/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read-ahead: recognises sequential, backward and strided use in each region and reads what comes
 * next from the store into host frames. It never moves anything to the device: the use itself
 * does that, and by that touch tells us that the pattern goes on. Decisions depend on the
 * sequence of uses only, not on when the disk answers.
 *
 * A stream is recognised when three of its last four chunks were used (sequential), or three
 * uses stand in equal distances with none between (strided), up or down; with ADVISE_SEQUENTIAL at
 * its first use. The window then doubles with every step up to config.readahead_chunks. Up to
 * SL_AHEAD_STREAMS streams a region; the one unused longest is replaced.
 */
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

#define STREAM_REACH      32 /* chunks between a use and the stream it belongs to, at most */
#define STRIDE_MAX        16
#define STRIDE_MISSES_MAX 3

void
sl_read_ahead_reset(struct sl_region *r)
{
	memset(r->ahead, 0, sizeof(r->ahead));
	for (int i = 0; i < SL_AHEAD_STREAMS; i++)
		r->ahead[i].max = -1; /* below min: none */
}

void
sl_read_ahead_release(struct sl_chunk *c)
{
	if (!(c->flags & SL_READ_AHEAD))
		return;
	c->flags &= (uint16_t)~SL_READ_AHEAD;
	c->region->space->host.read_ahead_bytes -= c->region->chunk_bytes;
}

/* The stream near [first, last], or a new one in place of the oldest. */
static struct sl_ahead *
stream_find(struct sl_region *r, int64_t first, int64_t last)
{
	struct sl_ahead *oldest = &r->ahead[0];

	for (int i = 0; i < SL_AHEAD_STREAMS; i++) {
		struct sl_ahead *a = &r->ahead[i];

		if (a->max >= a->min && first <= a->max + STREAM_REACH &&
		    last >= a->min - STREAM_REACH &&
		    (last >= a->max - STREAM_REACH || first <= a->min + STREAM_REACH))
			return a;
		if (a->stamp < oldest->stamp)
			oldest = a;
	}
	memset(oldest, 0, sizeof(*oldest));
	oldest->max = first - 1;
	oldest->min = last + 1;
	return oldest;
}

static void
mask_set(uint64_t *mask, int64_t from, int64_t to)
{
	for (int64_t k = from; k <= to && k < 64; k++)
		*mask |= (uint64_t)1 << k;
}

/* Book chunks [first, last] in both masks; +1 the upper frontier moved, -1 the lower, 0 none. */
static int
stream_book(struct sl_ahead *a, int64_t first, int64_t last)
{
	int fresh = a->max < a->min;
	int moved = 0;

	if (fresh) {
		a->max = last;
		a->min = first;
	} else if (last > a->max) {
		a->up_mask = last - a->max < 64 ? a->up_mask << (last - a->max) : 0;
		a->max = last;
		moved = 1;
	} else if (first < a->min) {
		a->down_mask = a->min - first < 64 ? a->down_mask << (a->min - first) : 0;
		a->min = first;
		moved = -1;
	}
	mask_set(&a->up_mask, a->max - last, a->max - first);
	mask_set(&a->down_mask, first - a->min, last - a->min);
	return moved;
}

/* The stride that the uses behind a frontier show; 0: none. */
static int64_t
mask_stride(uint64_t mask)
{
	if (__builtin_popcountll(mask & 0xf) >= 3)
		return 1;
	for (int64_t d = 2; d <= STRIDE_MAX; d++) {
		uint64_t wanted = 1 | (uint64_t)1 << d | (uint64_t)1 << 2 * d;
		uint64_t window = ((uint64_t)2 << 2 * d) - 1;

		if ((mask & window) == wanted)
			return d;
	}
	return 0;
}

/* Note a use; how many steps to be ahead of it. */
static uint32_t
stream_step(struct sl_region *r, struct sl_ahead *a, int64_t first, int64_t last)
{
	uint32_t max = r->space->config.readahead_chunks;
	int sequential = r->advice == SLUICE_ADVISE_SEQUENTIAL;
	int moved = stream_book(a, first, last);
	int64_t stride = moved > 0   ? mask_stride(a->up_mask)
			 : moved < 0 ? -mask_stride(a->down_mask)
				     : a->stride;

	a->stamp = ++r->space->clock;
	if (sequential && !stride)
		stride = 1;
	/* Threads that work at a distance blur a pattern for a step or two: do not drop it at once. */
	a->misses = stride ? 0 : a->misses + 1;
	if (!stride && a->stride && a->misses <= STRIDE_MISSES_MAX)
		stride = a->stride;
	if (stride != a->stride) {
		a->stride = stride;
		a->window = 0;
		a->issued = stride < 0 ? a->min : a->max;
	}
	if (!stride)
		return 0;
	if (sequential)
		a->window = max;
	else if (moved)
		a->window = a->window ? a->window * 2 : 2;
	if (a->window > max)
		a->window = max;
	return a->window;
}

void
sl_read_ahead(struct sl_region *r, uint64_t first, uint64_t last)
{
	struct sluice_space *s = r->space;
	struct sl_ahead *a;
	int64_t next, frontier, stride, window;

	if (!s->config.readahead_chunks || (r->flags & SLUICE_NO_READAHEAD) ||
	    r->advice == SLUICE_ADVISE_RANDOM)
		return;
	a = stream_find(r, (int64_t)first, (int64_t)last);
	window = stream_step(r, a, (int64_t)first, (int64_t)last);
	if (!window)
		return;
	stride = a->stride;
	frontier = stride < 0 ? a->min : a->max;
	if (stride < 0 ? a->issued > frontier : a->issued < frontier)
		a->issued = frontier;
	for (next = a->issued + stride; next >= 0 && next < (int64_t)r->n_chunks;
	     next += stride) {
		struct sl_chunk *c = &r->chunks[next];

		if ((next - frontier) / stride > window)
			return;
		if (c->state == SL_CHUNK_STORE &&
		    s->host.read_ahead_bytes + r->chunk_bytes > s->host.staging_bytes / 2)
			return;
		a->issued = next; /* before the lock goes: another use may go on from here */
		if (c->state == SL_CHUNK_STORE &&
		    sl_read_begin(c, SL_IO_PREFETCH, SLUICE_COUNTER_STORE_READ_AHEAD,
				  SL_STAGING_AHEAD))
			return;
		if (a->stride != stride || a->issued != next)
			return; /* that other use is ahead of us now */
	}
}

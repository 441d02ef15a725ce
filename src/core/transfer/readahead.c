/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read-ahead: recognises sequential, backward and strided use in each region, and reads the next
 * chunks from the store into host frames. It never moves anything to the device. The use itself
 * does, and that touch tells that the pattern goes on. The wanted chunks depend only on the
 * sequence of uses, not on the disk's answers. Timing matters only where staging is full of
 * writes, or the chunk itself is still being written. Read-ahead does not wait for that; it
 * skips the chunk.
 *
 * A stream is recognised when three of its last four chunks were used (sequential), or three
 * uses have equal distances with none between (strided), up or down. With ADVISE_SEQUENTIAL the
 * first use is enough. The window then doubles with every step up to config.readahead_chunks.
 * There are up to SL_AHEAD_STREAMS streams a region. The one unused longest is replaced.
 *
 * Its mirror is write-behind. A sweep that writes by faults over a file that cannot fit would
 * leave the disk idle until the device is full. So while there is room, every second use of such
 * a stream evicts the next victim early. The device still fills up, at half the rate, and the
 * sweep moves the same bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "core/transfer/transfer.h"

#define STREAM_REACH      32 /* chunks between a use and the stream it belongs to, at most */
#define STRIDE_MAX        16
#define STRIDE_MISSES_MAX 3
#define BEHIND_STEPS      2 /* uses to one eviction ahead of need */

void
sl_read_ahead_reset(struct sl_region *r)
{
	memset(r->ahead, 0, sizeof(r->ahead));
	for (int i = 0; i < SL_AHEAD_STREAMS; i++)
		r->ahead[i].max = -1; /* below min: none */
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
	}
	if (first < a->min) { /* a use may reach beyond both */
		a->down_mask = a->min - first < 64 ? a->down_mask << (a->min - first) : 0;
		a->min = first;
		moved = moved ? moved : -1;
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

/* Start reads of what comes next in a stream. Held, drops. */
SL_HELD static void
stream_read(struct sl_region *r, struct sl_ahead *a, int64_t frontier, int64_t window)
{
	struct sluice_space *s = r->space;
	int64_t stride = a->stride;
	int64_t next;

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
				  SL_STAGING_AHEAD, 0))
			return;
		if (a->stride != stride || a->issued != next)
			return; /* that other use is ahead of us now */
	}
}

/*
 * Evict the next victim of the device ahead of need, if it is one that this stream has written
 * and left behind. Only where that changes when it goes and not whether: the region cannot stay, and
 * nothing declared what it uses. A failed eviction leaves the chunk, a failed write is kept
 * with the region. Held, drops.
 */
SL_HELD static void
stream_write_behind(struct sl_region *r, int64_t frontier)
{
	struct sluice_space *s = r->space;
	const struct sl_victim_request request = {.mode = SL_ROOM_WRITE_BEHIND};
	struct sl_victim v;
	const struct sl_chunk *c;
	int64_t distance;

	if (!s->policy->honour_intents || r->launches || !sl_region_is_writable(r) ||
	    sl_region_is_volatile(r) ||
	    r->size_bytes <= s->dev.budget_bytes + s->host.budget_bytes ||
	    s->dev.used_bytes - s->dev.leaving_bytes + s->dev.wanted_bytes + r->chunk_bytes >
		    s->dev.budget_bytes)
		return;
	v = sl_victim_pick(s, &request);
	c = v.chunk;
	if (!c || c->region != r || c->pages || !(c->flags & SL_DIRTY_DEVICE) ||
	    sl_chunk_is_held(c))
		return;
	distance = frontier - (int64_t)sl_chunk_index(c);
	if (distance < -STREAM_REACH || distance > STREAM_REACH)
		sl_ignore(sl_evict_victim(&v));
}

void
sl_read_ahead(struct sl_region *r, uint64_t first, uint64_t last)
{
	int64_t frontier, window;
	struct sl_ahead *a;
	int behind;

	if (!r->space->config.readahead_chunks || (r->flags & SLUICE_NO_READAHEAD) ||
	    r->advice == SLUICE_ADVISE_RANDOM)
		return;
	a = stream_find(r, (int64_t)first, (int64_t)last);
	window = stream_step(r, a, (int64_t)first, (int64_t)last);
	if (!window)
		return;
	frontier = a->stride < 0 ? a->min : a->max;
	behind = ++a->steps % BEHIND_STEPS == 0;
	stream_read(r, a, frontier, window);
	if (behind)
		stream_write_behind(r, frontier);
}

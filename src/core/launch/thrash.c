/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thrash of an oversized buffer. Some programs launch the same kernels thousands of times in a
 * row, and each launch names a buffer larger than the device budget of which it uses a little (the
 * workspace of cuDNN's LSTM). Bringing in what is missing of that buffer would evict what the
 * previous launch used and the next one needs. From the ROWth such launch in a row:
 *   - A missing chunk of the oversized buffer evicts only chunks that are colder than it. The
 *     others are accessed in host memory (zerocopy.c), even by a launch that would fit.
 *   - Chunks of the oversized buffer count as older than they are, so they are evicted before
 *     small ones.
 *   - Small buffers come to the device, if need be in place of the oversized buffer's chunks.
 *   - Nothing is prefetched or evicted early: those decisions assume that launches use all they
 *     name.
 * After some launches the small buffers are on the device with as much of the oversized one as
 * fits. Then nothing moves.
 *
 * LOCKING: as in state.h.
 */
#include "core/interpose.h"
#include "core/launch/launch.h"

#define MOMENT      512u /* uses: between two that are in a row */
#define ROW         32u  /* launches */
#define LARGE_SHARE 8u /* of the budget; what is smaller comes in whatever it displaces */
#define GIANT_SHARE 2u /* what is displaced first, */
#define GIANT_LAG   128u /* as if it had been used so many uses before */
#define SLACK       64u /* uses: what is no longer unused than this counts as used as lately */

/* How many launches in a row, with this one, did not fit and used these chunks; one that fits goes on with a row. */
SL_HELD static uint32_t
row_count(const struct sl_launch_use *u, int fits)
{
	struct sluice_space *s = u->region->space;
	struct sl_thrash *found = NULL, *oldest = s->thrash;

	for (struct sl_thrash *o = oldest; o < s->thrash + SL_THRASH_MAX; o++) {
		if (o->region == u->region && o->first == u->first && o->last == u->last)
			found = o;
		if (o->stamp < oldest->stamp)
			oldest = o;
	}
	if (fits && (!found || found->n < ROW))
		return 0;
	if (!found) {
		found = oldest;
		*found = (struct sl_thrash){u->region, u->first, u->last, s->clock, 0};
	}
	if (s->clock - found->stamp > MOMENT)
		found->n = 0;
	found->stamp = s->clock;
	return ++found->n;
}

/* 1: it is one of a row, and a giant's. */
SL_HELD static int
use_note(struct sl_launch_use *u, int fits)
{
	struct sl_region *r = u->region;
	struct sluice_space *s = r->space;
	uint64_t bytes = (u->last + 1 - u->first) * r->chunk_bytes;

	u->used = u->lag = 0; /* it may be prepared a second time */
	u->reaches = 0;
	if (bytes < s->dev.budget_bytes / LARGE_SHARE || row_count(u, fits) < ROW)
		return 0;
	for (uint64_t i = u->first; i <= u->last; i++) {
		const struct sl_chunk *c = &r->chunks[i];

		if (!c->device_bytes && sl_chunk_stamp(c) > u->used)
			u->used = sl_chunk_stamp(c);
	}
	if (bytes < s->dev.budget_bytes / GIANT_SHARE || s->clock <= GIANT_LAG)
		return 0;
	u->lag = GIANT_LAG;
	s->thrash_clock = s->clock;
	return 1;
}

/* It displaces what has a stamp before that. */
static uint64_t
use_before(const struct sl_launch_use *u)
{
	if (!u->used)
		return UINT64_MAX;
	return u->used > SLACK ? u->used - SLACK : 1;
}

/* For what is missing of it, beside what the uses before it want. */
SL_HELD static void
use_make_room(struct sluice_launch *l, const struct sl_launch_use *u, uint64_t *wanted)
{
	struct sluice_space *s = l->space;
	uint64_t before = *wanted;

	for (uint64_t i = u->first; i <= u->last; i++)
		*wanted += u->region->chunks[i].device_bytes ? 0 : u->region->chunk_bytes;
	while (*wanted > before && s->dev.used_bytes + *wanted > s->dev.budget_bytes &&
	       sl_room_coldest(l, use_before(u)))
		;
}

int
sl_thrash_note(struct sluice_launch *l, int fits)
{
	uint64_t wanted = 0;
	int giants = 0;

	if (fits && !sl_thrash_is_on(l->space))
		return 0;
	for (size_t k = 0; k < l->n_uses; k++)
		giants += use_note(&l->uses[k], fits);
	if (!giants)
		return 0;
	sl_launch_mark_preparing(l, 1, 0); /* what is not a giant's is no victim meanwhile */
	for (size_t k = 0; k < l->n_uses; k++)
		if (!l->uses[k].lag)
			use_make_room(l, &l->uses[k], &wanted);
	sl_launch_mark_preparing(l, 0, 0);
	return 1;
}

int
sl_thrash_is_on(const struct sluice_space *s)
{
	return s->thrash_clock && s->clock - s->thrash_clock <= SLACK;
}

int
sl_thrash_reaches(struct sl_launch_use *u, const struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	if (!u->used || c->device_bytes || s->dev.discarded_head ||
	    s->dev.used_bytes + c->region->chunk_bytes <= s->dev.budget_bytes)
		return 0;
	if (!u->reaches) /* looks at all that is on the device; nothing on it gets colder meanwhile */
		u->reaches = !sl_victim_is_colder(s, c->region->chunk_bytes, use_before(u));
	return u->reaches;
}

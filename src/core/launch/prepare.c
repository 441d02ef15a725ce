/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preparing one launch: check that its data fit, bring its chunks in or map them zero-copy, and
 * pin them. The mover calls it, or the launching thread instead (launch.c). They choose the
 * launch. LOCKING: all of it under space->lock; what drops it says so.
 */
#include <stdio.h>

#include "core/launch/launch.h"

#define PLANS_MAX 64u /* of one launch, when pins are taken while it is brought in */

static struct sl_fill
use_fill(const struct sl_launch_use *u, uint64_t index)
{
	struct sl_fill fill = {.intent = u->intent, .cause = SL_CAUSE_LAUNCH};

	fill.partial = (index == u->first && u->first_partial) ||
		       (index == u->last && u->last_partial);
	return fill;
}

/* As use_fill(); but what an earlier launch or callback without uses may still read is brought in,
 * whatever the intent. */
static struct sl_fill
launch_fill(struct sluice_launch *l, const struct sl_launch_use *u, uint64_t index)
{
	const struct sluice_space *s = l->space;
	struct sl_fill fill = use_fill(u, index);

	fill.launch = l;
	fill.room = l->fetch               ? SL_ROOM_FETCH
		    : s->early_evict.await ? SL_ROOM_INTERPOSED
					   : SL_ROOM_LAUNCH;
	if (s->undeclared)
		fill.partial = 1;
	return fill;
}

/*
 * Device bytes that the launch needs at once, each chunk once; but_excess: less what it is to reach in host
 * memory and does not have on the device, or not for long. Held.
 */
SL_HELD static uint64_t
launch_set_bytes(struct sluice_launch *l, int but_excess)
{
	uint32_t mark = ++l->space->mark_clock;
	uint64_t bytes = 0;

	for (size_t k = 0; k < l->n_uses; k++) {
		struct sl_launch_use *u = &l->uses[k];

		for (uint64_t i = u->first; i <= u->last; i++) {
			struct sl_chunk *c = &u->region->chunks[i];

			if (c->mark == mark)
				continue;
			c->mark = mark;
			if (c->user_pins || (but_excess && (c->flags & SL_EXCESS) &&
					     !sl_chunk_keeps_room(c)))
				continue;
			bytes += u->region->chunk_bytes;
		}
	}
	return bytes;
}

uint64_t
sl_launch_needs(struct sluice_launch *l)
{
	return launch_set_bytes(l, 0);
}

/* The declared set must fit beside what callers have pinned. Held. */
int
sl_launch_check_set(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	uint64_t bytes = launch_set_bytes(l, 0);
	char ranges[SL_ERROR_TEXT_BYTES / 2];
	uint64_t held = s->dev.pinned_bytes;

	if (bytes + held <= s->dev.budget_bytes)
		return 0;
	if (s->device->zerocopy) {
		if (bytes + held <= s->dev.budget_bytes + s->host.budget_bytes)
			return 0;
		return sl_fail(
			-ENOBUFS,
			"launch %llu: its %zu uses (%s) are %llu bytes, device and host "
			"budgets together hold %llu: tile the launch or raise a budget",
			(unsigned long long)l->request.number, l->n_uses,
			sl_launch_ranges(l, ranges, sizeof(ranges)),
			(unsigned long long)bytes,
			(unsigned long long)(s->dev.budget_bytes - held +
					     s->host.budget_bytes));
	}
	return sl_fail(
		-ENOBUFS,
		"launch %llu: its %zu uses need %llu bytes on the device at once, the "
		"budget is %llu (%llu of it pinned): tile the launch or raise the device "
		"budget",
		(unsigned long long)l->request.number, l->n_uses, (unsigned long long)bytes,
		(unsigned long long)s->dev.budget_bytes, (unsigned long long)held);
}

/* Start reading what the launch will need next, while it is busy with chunk (k, i). Drops. */
struct cursor {
	size_t use;
	uint64_t chunk;
};

SL_HELD static void
launch_read_on(struct sluice_launch *l, struct cursor *at)
{
	while (at->use < l->n_uses) {
		struct sl_launch_use *u = &l->uses[at->use];
		struct sl_chunk *c = &u->region->chunks[at->chunk];
		struct sl_fill fill = launch_fill(l, u, at->chunk);
		int total = !fill.partial && (fill.intent == SLUICE_USE_WRITE_ALL ||
					      fill.intent == SLUICE_USE_SCRATCH);

		if (c->state == SL_CHUNK_STORE && !total &&
		    sl_read_begin(c, SL_IO_DEMAND, SLUICE_COUNTER_STORE_READ_DEMAND,
				  SL_STAGING_LAUNCH, (c->flags & SL_EXCESS) != 0))
			return;
		if (at->chunk++ == u->last && ++at->use < l->n_uses)
			at->chunk = l->uses[at->use].first;
	}
}

/* What is to be on its device does not fit beside pins any more. Held. */
SL_HELD static int
launch_thrashes(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;

	return launch_set_bytes(l, 1) + s->dev.pinned_bytes > s->dev.budget_bytes;
}

/* Bring one chunk in. -ESTALE: pins, or a new budget, have taken room meanwhile. Drops. */
SL_HELD static int
chunk_bring(struct sluice_launch *l, struct sl_chunk *c, const struct sl_fill *fill)
{
	int rc;

	while ((rc = sl_fill(c, fill)) == -EINPROGRESS) {
		if (launch_thrashes(l))
			return -ESTALE;
		sl_room_wait(l->space);
	}
	return rc;
}

/* Have it mapped in host memory. What a prefetch has brought to the device meanwhile is used there. Drops. */
SL_HELD static int
chunk_reach(struct sluice_launch *l, struct sl_chunk *c, const struct sl_fill *fill)
{
	int rc = sl_zerocopy_map(l, c, fill->intent);

	return rc || !sl_chunk_on_device(c) ? rc : chunk_bring(l, c, fill);
}

/* Bring one use in. Held, drops. */
SL_HELD static int
use_bring(struct sluice_launch *l, size_t k, struct cursor *ahead)
{
	struct sl_launch_use *u = &l->uses[k];
	struct sl_region *r = u->region;
	int rc;

	for (uint64_t i = u->first; i <= u->last; i++) {
		struct sl_chunk *c = &r->chunks[i];
		struct sl_fill fill = launch_fill(l, u, i);

		if (ahead->use < k || (ahead->use == k && ahead->chunk < i))
			*ahead = (struct cursor){k, i};
		launch_read_on(l, ahead);
		if (u->intent != SLUICE_USE_READ && (c->dead || (c->flags & SL_DISCARDED)))
			sl_use_revive(u, c);
		if (!l->space->policy->stamp_on_hit &&
		    (c->state != SL_CHUNK_DEVICE || c->pages))
			c->stamp = l->space->clock;
		l->moved |= c->state != SL_CHUNK_DEVICE || c->pages ||
			    (c->flags & SL_EXCESS);
		u->fetched += c->state == SL_CHUNK_HOST || c->state == SL_CHUNK_STORE;
		if (l->reaches && sl_thrash_reaches(u, c))
			c->flags |= SL_EXCESS;
		rc = c->flags & SL_EXCESS ? chunk_reach(l, c, &fill)
					  : chunk_bring(l, c, &fill);
		if (rc)
			return rc;
		u->brought = i + 1 - u->first;
	}
	if (u->intent != SLUICE_USE_WRITE_ALL && u->intent != SLUICE_USE_SCRATCH)
		sl_read_ahead(r, u->first, u->last);
	return 0;
}

static int
use_is_present(const struct sl_launch_use *u)
{
	for (uint64_t i = u->first; i <= u->last; i++) {
		const struct sl_chunk *c = &u->region->chunks[i];

		if (c->reach_users)
			continue;
		if (!sl_chunk_on_device(c) || c->pages)
			return 0;
	}
	return 1;
}

/* Forget what was reached, before a look from the start. Held. */
SL_HELD static void
launch_unreach(struct sluice_launch *l)
{
	int reaches = l->reaches;

	sl_launch_reach_end(l);
	l->reaches = reaches;
}

/* Everything in, or reached. -ESTALE: pins or a new budget have taken room. Held, drops. */
SL_HELD static int
launch_bring(struct sluice_launch *l)
{
	int rc = 0;

	/* A fault may take a pinned chunk out again: look twice more, then let it fault. */
	for (int round = 0; round < 3; round++) {
		struct cursor ahead = {0, l->n_uses ? l->uses[0].first : 0};
		int present = 1;

		launch_unreach(l);
		for (int giants = 0; giants < 2; giants++)
			for (size_t k = 0; k < l->n_uses && !rc; k++)
				if ((l->uses[k].lag != 0) == giants)
					rc = use_bring(l, k, &ahead);
		for (size_t k = 0; k < l->n_uses && !rc; k++)
			present = present && use_is_present(&l->uses[k]);
		if (rc || present)
			break;
	}
	return rc;
}

SL_HELD static int
launch_fits(struct sluice_launch *l)
{
	const struct sluice_space *s = l->space;

	return launch_set_bytes(l, 0) + s->dev.pinned_bytes <= s->dev.budget_bytes;
}

/* Which of its chunks are to be on the device; -ENOBUFS: they fit nowhere. Held. */
SL_HELD static int
launch_plan(struct sluice_launch *l)
{
	int rc = sl_launch_check_set(l);

	if (!rc && (l->reach_all || l->reaches || !launch_fits(l)))
		sl_zerocopy_plan(l);
	return rc;
}

/*
 * Bring in and pin everything the launch declares. Called by the mover, one launch at a time.
 * Held, drops. On failure nothing stays pinned.
 */
int
sl_launch_prepare(struct sluice_launch *l)
{
	int rc;

	if (sl_checks_kernels(l->space)) {
		rc = sl_launch_check_set(l);
		return rc ? rc : sl_check_prepare(l);
	}
	sl_policy_note(l);
	if (l->embedded && !l->reach_all) /* before it is pinned, which counts as its use */
		l->reaches = sl_thrash_note(l, launch_fits(l));
	rc = launch_plan(l);
	if (rc)
		return rc;
	sl_launch_pin(l);
	sl_launch_mark_preparing(l, 1, 1);
	rc = launch_bring(l);
	for (unsigned tries = 0; rc == -ESTALE; tries++) {
		launch_unreach(l);
		sl_zerocopy_planned(l);
		rc = tries < PLANS_MAX
			     ? launch_plan(l)
			     : sl_fail(-ENOBUFS,
				       "launch %llu: pins and budgets change faster than "
				       "it can be brought in",
				       (unsigned long long)l->request.number);
		if (!rc)
			rc = launch_bring(l);
	}
	sl_launch_mark_preparing(l, 0, 1);
	if (l->reaches) {
		sl_zerocopy_planned(l);
		if (rc)
			sl_launch_reach_end(l);
	}
	if (rc)
		sl_launch_unpin(l);
	else if (!l->again) /* else what was called later may be prepared, and need what it writes */
		sl_launch_dispose(l);
	return rc;
}

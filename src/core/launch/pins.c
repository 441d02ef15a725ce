/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pins of launches: pinning at once what needs nothing, giving pins back, and taking them from a launch that has
 * not begun, where another one would wait for ever. Who waits for a launch to give something back waits here.
 */
#include "core/core.h"

/* Whether every chunk of the use needs nothing. Held. */
SL_HELD static int
use_is_ready(const struct sl_launch_use *u)
{
	const struct sl_region *r = u->region;
	enum sl_readiness wanted = u->intent == SLUICE_USE_READ ? SL_READY_READ
								: SL_READY_WRITE;

	if (r->ready[SL_READY_WRITE] == r->n_chunks ||
	    (wanted == SL_READY_READ && !r->ready[SL_READY_NOT]))
		return 1;
	if (u->whole)
		return 0;
	for (uint64_t i = u->first; i <= u->last; i++) {
		if (r->chunks[i].readiness < wanted)
			return 0;
	}
	return 1;
}

/* Lazily discarded on the device, and nothing stands before it: the use that writes it need only be booked. */
SL_HELD static int
chunk_only_revives(const struct sl_chunk *c, enum sluice_intent intent)
{
	return c->state == SL_CHUNK_DEVICE && !c->pages && !c->host && !c->dead &&
	       !c->unwritten &&
	       (c->flags & (SL_DISCARDED | SL_DISCARD_EAGER | SL_GUARDED | SL_COLD |
			    SL_EXCESS)) == SL_DISCARDED &&
	       !sl_dirty_hash_wanted(c, intent);
}

/* Whether no chunk of a use that writes needs more than to live again in the books. Held. */
SL_HELD static int
use_only_revives(const struct sl_launch_use *u)
{
	for (uint64_t i = u->first; i <= u->last; i++) {
		const struct sl_chunk *c = &u->region->chunks[i];

		if (c->readiness != SL_READY_WRITE && !chunk_only_revives(c, u->intent))
			return 0;
	}
	return u->intent != SLUICE_USE_READ;
}

SL_HELD static void
use_revive(const struct sl_launch_use *u)
{
	const struct sl_fill fill = {.intent = u->intent, .cause = SL_CAUSE_LAUNCH};

	for (uint64_t i = u->first; i <= u->last; i++) {
		struct sl_chunk *c = &u->region->chunks[i];

		if (c->readiness == SL_READY_WRITE)
			continue;
		sl_chunk_revive(c, 0, 0);
		sl_ignore(sl_fill_book(c, &fill)); /* without a guard nothing can fail */
	}
}

void
sl_launch_pin(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	int own = s->policy->stamp && s->policy->stamp(l);
	int stamp = s->policy->stamp_on_hit && !own;

	for (size_t k = 0; k < l->n_uses; k++) {
		struct sl_launch_use *u = &l->uses[k];
		struct sl_region *r = u->region;

		uint64_t now = ++s->clock - u->lag;

		if (u->whole) {
			if (stamp && r->whole_stamp < now)
				r->whole_stamp = now;
			r->whole_pins++;
			r->full_pins++;
			continue;
		}
		for (uint64_t i = u->first; i <= u->last; i++) {
			if (stamp && r->chunks[i].stamp < now)
				r->chunks[i].stamp = now;
			r->chunks[i].pins++;
			r->chunks[i].hashed = 0;
			r->chunks[i].awaited = 0;
		}
	}
}

int
sl_launch_try_prepare(struct sluice_launch *l)
{
	if (sl_checks_kernels(l->space) && l->n_uses)
		return -EAGAIN;
	for (size_t k = 0; k < l->n_uses; k++) {
		if ((!use_is_ready(&l->uses[k]) && !use_only_revives(&l->uses[k])) ||
		    l->uses[k].intent == SLUICE_USE_SCRATCH)
			return -EAGAIN;
	}
	for (size_t k = 0; k < l->n_uses; k++)
		if (!use_is_ready(&l->uses[k]))
			use_revive(&l->uses[k]);
	sl_policy_note(l);
	sl_launch_pin(l);
	sl_count(l->space, SLUICE_COUNTER_LAUNCHES_RESIDENT, l->n_uses && !l->moved);
	l->state = SL_LAUNCH_PREPARED;
	sl_launch_list_add(&l->space->prepared, l);
	return 0;
}

void
sl_launch_prepared(struct sluice_launch *l, int rc)
{
	if (rc)
		sl_launch_blame(l, rc, "launch %llu: %s", (unsigned long long)l->number,
				sluice_last_error());
	l->unpinned = rc != 0;
	l->state = SL_LAUNCH_PREPARED;
	sl_launch_list_add(&l->space->prepared, l);
	sl_launch_wake(l->space);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pins of launches: pinning resident chunks at once, marking chunks that are being prepared,
 * and the end of a launch, which gives its pins back. LOCKING: all of it under space->lock; what
 * drops it says so.
 */
#include "core/launch/launch.h"

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
	int stamps = s->policy->stamp_on_hit && !own;

	for (size_t k = 0; k < l->n_uses; k++) {
		struct sl_launch_use *u = &l->uses[k];
		struct sl_region *r = u->region;
		/* What is only to be reachable does not become warmer. */
		int stamp = stamps && !u->reach;
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
		sl_launch_blame(l, rc, "launch %llu: %s",
				(unsigned long long)l->request.number, sluice_last_error());
	l->unpinned = rc != 0;
	l->state = SL_LAUNCH_PREPARED;
	sl_launch_list_add(&l->space->prepared, l);
	sl_launch_wake(l->space);
}

/* A policy that does not refresh on use may find what this launch needs to be the coldest. */
void
sl_launch_mark_preparing(struct sluice_launch *l, int preparing, int giants)
{
	for (size_t k = 0; k < l->n_uses; k++) {
		struct sl_launch_use *u = &l->uses[k];

		for (uint64_t i = u->first; i <= u->last && (giants || !u->lag); i++) {
			struct sl_chunk *c = &u->region->chunks[i];

			if (preparing)
				c->flags |= SL_PREPARING;
			else
				c->flags &= (uint16_t)~SL_PREPARING;
		}
	}
}

/*
 * Scratch is dead from here on but for the launch itself, whose pins keep it: decided when the
 * launch is prepared, so that it does not depend on how long the kernel takes, and so that a launch
 * prepared behind it can make the contents live again. Held, drops.
 */
void
sl_launch_dispose(struct sluice_launch *l)
{
	for (size_t k = 0; k < l->n_uses; k++) {
		struct sl_launch_use *u = &l->uses[k];

		if (u->intent == SLUICE_USE_SCRATCH)
			sl_range_discard(u->region, u->begin, u->end, 0,
					 (struct sl_discard_place){l->stream,
								   l->request.number - 1});
	}
}

/* Launches called before the discard of c have it after l: on a device with guards, those of l's stream. */
SL_HELD static int
launch_is_followed(const struct sluice_launch *l, const struct sl_chunk *c)
{
	if (!sl_chunk_pins(c) || !l->space->device->guards)
		return sl_chunk_pins(c) != 0;
	return sl_chunk_is_pinned_before(c, l->stream, c->discard_number);
}

/* Unmapping, or guarding of what is dead, that waited for the end of the launch. Held, drops. */
SL_HELD static void
launch_unmap_dead(struct sluice_launch *l)
{
	for (size_t k = 0; k < l->n_uses; k++) {
		struct sl_launch_use *u = &l->uses[k];

		for (uint64_t i = u->first; i <= u->last && l->space->eager_used; i++) {
			struct sl_chunk *c = &u->region->chunks[i];

			if (c->state != SL_CHUNK_DEVICE || !(c->flags & SL_DISCARD_EAGER) ||
			    c->user_pins || launch_is_followed(l, c))
				continue;
			if (!(c->flags & SL_DISCARDED) || sl_chunk_pins(c))
				sl_dead_watch(c);
			else if (sl_evict(c, SL_EVICT_DISCARD))
				sl_chunk_keep(c);
		}
	}
}

/* The kernel is over, or was never run. Held, drops. */
void
sl_launch_finish(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;

	sl_launch_reach_end(l);
	if (!l->unpinned)
		sl_launch_unpin(l);
	l->state = SL_LAUNCH_DONE;
	sl_launch_overwrites_undo(l);
	if (!l->n_uses && l->kernel)
		s->undeclared--;
	if (sl_checks_kernels(s))
		sl_launch_dispose(l); /* where a touch of dead pages is an error, after the kernel */
	launch_unmap_dead(l);
	s->running--; /* not before: until here nobody need fear that it stands still */
	for (size_t k = 0; k < l->n_uses; k++) {
		l->uses[k].region->launches--;
		sl_region_leave(l->uses[k].region);
	}
	sl_inflight_end(s, &l->work);
	sl_launch_wake(s);
	if (atomic_load_explicit(&s->early_evict.waiting, memory_order_relaxed))
		sl_cond_signal(&s->mover_wake);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Budgets of the tiers that change while the space is used: by the program, or since programs share the machine.
 * A smaller budget of the device moves out what is beyond it. Where that finds no place, since host memory and
 * disk are full, it goes back, and the budget is what is used.
 *
 * Threads: any. Blocks on copies and on the disk.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/size.h"
#include "core/api/api.h"
#include "core/interpose.h"

#define STAGING_PARTS 8u /* so small are steps where nothing more may find a place */

/* until_ns: for launches, of a smaller device budget. */
static int
tier_set_budget(struct sluice_space *space, enum sluice_tier tier, uint64_t budget_bytes,
		uint64_t until_ns)
{
	uint64_t budget;
	int rc, gives, unpins;

	if ((unsigned)tier >= SLUICE_TIER_COUNT)
		return sl_fail(-EINVAL, "space: unknown tier %d", (int)tier);
	rc = sl_space_enter(space);
	if (rc)
		return rc;
	/* One after the other: shrinking drops the lock, and the last to come has the last word. */
	while (space->resizing)
		sl_launch_wait(space);
	space->resizing = 1;
	budget = budget_bytes / space->config.large_chunk_bytes *
		 space->config.large_chunk_bytes;
	gives = tier == SLUICE_TIER_DEVICE && budget < space->config.device_budget_bytes;
	unpins = tier == SLUICE_TIER_HOST && budget < space->config.host_budget_bytes;
	switch (tier) {
	case SLUICE_TIER_DEVICE:
		rc = budget < 2 * space->config.large_chunk_bytes
			     ? sl_fail(-ENOBUFS, "space: a device budget of %llu is below two chunks",
				       (unsigned long long)budget_bytes)
			     : sl_device_shrink(space, budget, until_ns);
		if (!rc || rc == -EAGAIN)
			space->config.device_budget_bytes = space->dev.budget_bytes;
		break;
	case SLUICE_TIER_HOST:
		rc = sl_host_shrink(space, budget);
		if (!rc)
			space->config.host_budget_bytes = budget;
		if (!rc && space->config.host_reserve_bytes > budget)
			space->config.host_reserve_bytes = budget;
		break;
	case SLUICE_TIER_STORE:
		rc = sl_spill_set_budget(space->spill, budget_bytes);
		if (!rc)
			space->config.store_budget_bytes = budget_bytes;
		break;
	case SLUICE_TIER_COUNT:
		break;
	}
	space->resizing = 0;
	sl_launch_wake(space);
	sl_space_unlock(space);
	if ((!rc || rc == -EAGAIN) && gives && space->device->pool)
		space->device->pool->trim(space->device);
	if (!rc && unpins && space->device->pool)
		sl_host_unpin(space);
	return rc;
}

/* 1: the tier is shared. Then that is the most that it may have, and its thread follows. */
static int
limit_set(struct sluice_space *space, enum sluice_tier tier, uint64_t budget_bytes, int *rc)
{
	uint64_t chunk, budget;
	int entered;

	if (tier == SLUICE_TIER_HOST && space && space->host_share) {
		entered = sl_space_enter(space);
		*rc = entered;
		if (entered)
			return 1;
		sl_host_share_limit(space->host_share, budget_bytes);
		sl_space_unlock(space);
		return 1;
	}
	if (tier != SLUICE_TIER_DEVICE || !space || !space->gate.is_there)
		return 0;
	entered = sl_space_enter(space);
	*rc = entered;
	if (entered)
		return 1;
	chunk = space->config.large_chunk_bytes;
	budget = budget_bytes / chunk * chunk;
	if (budget < space->dev.pinned_bytes + 2 * chunk) {
		*rc = sl_fail(
			-ENOBUFS,
			"space: a device budget of %llu is below two chunks beside %llu "
			"pinned bytes",
			(unsigned long long)budget_bytes,
			(unsigned long long)space->dev.pinned_bytes);
	} else {
		space->gate.limit_bytes = budget;
		sl_cond_signal(&space->gate.wake);
	}
	sl_space_unlock(space);
	return 1;
}

int
sluice_space_set_budget(struct sluice_space *space, enum sluice_tier tier,
			uint64_t budget_bytes)
{
	int rc;

	if (limit_set(space, tier, budget_bytes, &rc))
		return rc;
	return tier_set_budget(space, tier, budget_bytes, UINT64_MAX);
}

void
sl_space_expect(struct sluice_space *space, uint64_t bytes)
{
	sl_space_lock(space);
	sl_host_expect(space, bytes, SL_STAGING_EVICT);
	sl_space_unlock(space);
}

int
sl_space_set_host(struct sluice_space *space, uint64_t budget_bytes)
{
	return tier_set_budget(space, SLUICE_TIER_HOST, budget_bytes, UINT64_MAX);
}

/* The first one of which a write has failed; NULL: none. */
static const struct sl_region *
write_failed_in(const struct sluice_space *s)
{
	for (size_t i = 0; i < s->n_regions; i++)
		if (s->regions[i]->write_error_code)
			return s->regions[i];
	return NULL;
}

/* Staging but for what was read ahead, which goes when room is needed. */
static uint64_t
staging_kept(const struct sluice_space *s)
{
	uint64_t bytes = s->host.staging_used_bytes;

	for (const struct sl_host *h = s->host.list[SL_HOST_READ_AHEAD].head; h; h = h->next)
		bytes -= h->frame->bytes;
	return bytes;
}

/* 1: what writes that failed have left in staging is there, when the rest has gone on. The error is set. Drops. */
SL_HELD static int
staging_is_clogged(struct sluice_space *s, uint64_t until_ns)
{
	const struct sl_region *r = write_failed_in(s);

	while (r && staging_kept(s) && s->host.staging_active && sl_now_ns() < until_ns) {
		sl_host_wait(s);
		r = write_failed_in(s);
	}
	if (!r || !staging_kept(s))
		return 0;
	sl_ignore(sl_fail(r->write_error_code, "%s", r->write_error_text));
	return 1;
}

/*
 * The next part of the way to budget_bytes: all of it, until a write has failed. Then little, so that staging
 * has room for launches if nothing finds a place again.
 */
static int
shrink_part(struct sluice_space *space, uint64_t budget_bytes, uint64_t until_ns, int *more)
{
	uint64_t chunk = space->config.large_chunk_bytes, next, part = UINT64_MAX;
	int clogged;

	sl_space_lock(space);
	next = space->dev.used_bytes;
	if (next > space->dev.budget_bytes)
		next = space->dev.budget_bytes;
	clogged = next > budget_bytes && staging_is_clogged(space, until_ns);
	if (write_failed_in(space))
		part = space->host.staging_bytes / STAGING_PARTS / chunk * chunk;
	sl_space_unlock(space);
	if (clogged)
		return -ENOSPC;
	*more = next > budget_bytes && next - budget_bytes > part;
	return tier_set_budget(space, SLUICE_TIER_DEVICE,
			       *more ? next - part : budget_bytes, until_ns);
}

/* A chunk that has left the device and found no place, or NULL. */
SL_HELD static struct sl_chunk *
placeless_find(const struct sluice_space *s)
{
	for (size_t i = 0; i < s->n_regions; i++) {
		const struct sl_region *r = s->regions[i];

		if (!r->write_error_code || r->closed)
			continue;
		for (uint64_t k = 0; k < r->n_chunks; k++)
			if (r->chunks[k].state == SL_CHUNK_POISONED &&
			    !r->chunks[k].host->settled && !r->chunks[k].pages)
				return &r->chunks[k];
	}
	return NULL;
}

/*
 * What has left the device and found no place goes back, as far as the budget before allows: in staging it
 * would be in the way of launches. Two chunks more are for what changes places. 0 or -errno.
 */
static int
shrink_undo(struct sluice_space *space, uint64_t most_bytes)
{
	const struct sl_fill fill = {.intent = SLUICE_USE_READ,
				     .cause = SL_CAUSE_PREFETCH,
				     .room = SL_ROOM_SPARE,
				     .partial = 1};
	uint64_t chunk = space->config.large_chunk_bytes, needed, now, n;
	struct sl_chunk *c;
	int rc = 0;

	sl_space_lock(space);
	needed = sl_round_up(space->dev.used_bytes + staging_kept(space), chunk) + 2 * chunk;
	now = space->config.device_budget_bytes;
	sl_space_unlock(space);
	if (needed > most_bytes)
		needed = most_bytes;
	if (needed > now)
		rc = tier_set_budget(space, SLUICE_TIER_DEVICE, needed, UINT64_MAX);
	if (rc)
		return rc;
	sl_space_lock(space);
	n = space->host.staging_bytes / chunk; /* at most */
	for (; n && !rc && (c = placeless_find(space)); n--) {
		struct sl_region *r = c->region;

		r->busy++;
		rc = sl_fill(c, &fill);
		sl_region_leave(r);
	}
	sl_space_unlock(space);
	return 0; /* what has no room stays where it is */
}

int
sl_space_shrink_until(struct sluice_space *space, uint64_t budget_bytes,
		      uint64_t until_ns, uint64_t *budget)
{
	uint64_t before, now;
	int rc, more, clogged;

	if (sl_space_forked(space))
		return tier_set_budget(space, SLUICE_TIER_DEVICE, budget_bytes, until_ns);
	sl_space_lock(space);
	before = space->config.device_budget_bytes;
	sl_space_unlock(space);
	do
		rc = shrink_part(space, budget_bytes, until_ns, &more);
	while (!rc && more);
	sl_space_lock(space);
	clogged = budget_bytes < before && staging_is_clogged(space, until_ns);
	sl_space_unlock(space);
	if (clogged)
		rc = shrink_undo(space, before) ? -EIO : -ENOSPC;
	sl_space_lock(space);
	now = space->config.device_budget_bytes;
	sl_space_unlock(space);
	if (rc && rc != -EAGAIN && now >= before)
		return rc;
	*budget = now;
	return rc ? -EAGAIN : 0;
}

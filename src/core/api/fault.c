/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One touch of an absent or guarded address, from the device's event to the retry. It runs on a
 * device thread, or on the touching thread inside a signal handler. Nothing here may need a lock
 * that user code could hold.
 */
#include <assert.h>

#include "core/api/api.h"

/* The launch behind a touch declared its uses, and this was none of them (or against its intent). */
SL_HELD static void
launch_miss(struct sluice_launch *l, const struct sl_touch *touch)
{
	struct sluice_space *s = l->space;

	sl_count(s, SLUICE_COUNTER_MISSES, 1);
	if (s->config.miss == SLUICE_MISS_FAIL)
		sl_launch_blame(
			l, -EFAULT,
			"launch %llu: the kernel touched %p, which its launch did not "
			"declare or which was evicted under it",
			(unsigned long long)l->request.number, touch->addr);
}

/* A first write to a guarded chunk. What of it is dead stays guarded but for that page. Held, drops. */
SL_HELD static int
chunk_written(struct sl_chunk *c, const struct sl_touch *touch)
{
	uint64_t page = ((uint64_t)((char *)touch->addr - sl_chunk_addr(c))) /
			SL_PAGE_BYTES * SL_PAGE_BYTES;
	struct sluice_space *s = c->region->space;

	while (c->state == SL_CHUNK_SYNCING && (c->flags & SL_SNAPSHOT))
		sl_chunk_wait(c);
	if (!sl_chunk_on_device(c))
		return 0; /* it went away meanwhile: the retry finds it absent */
	if (c->flags & SL_DISCARD_EAGER)
		sl_chunk_keep(c);
	if (c->dead)
		sl_chunk_revive(c, page, page + SL_PAGE_BYTES);
	if (c->flags & SL_GUARDED) {
		sl_count(s, SLUICE_COUNTER_WRITE_FAULTS, 1);
		c->flags &= (uint16_t)~SL_GUARDED;
		c->flags |= SL_DIRTY_DEVICE;
		if (c->state == SL_CHUNK_SYNCING)
			c->flags |= SL_WRITTEN;
		sl_chunk_update(c);
	}
	sl_ignore(sl_chunk_unguard_live(c)); /* still guarded: touched again */
	if (c->state == SL_CHUNK_DEVICE && (c->flags & SL_DIRTY_DEVICE) && !c->pages)
		sl_host_drop(c); /* older than the device's now */
	return 0;
}

/*
 * Launches may use c: wait for them, and take it off the device, so that host code has the newest
 * contents. Drops.
 */
SL_HELD static int
chunk_recall(struct sl_chunk *c, const struct sl_touch *touch)
{
	uint64_t begin = sl_chunk_index(c) * c->region->chunk_bytes;
	int rc;

	if (c->state == SL_CHUNK_DEVICE && c->user_pins)
		return sl_touch_is_stale(touch, c->region->pin_touches)
			       ? -ESTALE
			       : sl_fail(-EBUSY,
					 "host code touched %p of %s, which sluice_pin() "
					 "holds on the device: unpin it first",
					 touch->addr, c->region->name);
	rc = sl_range_wait_for(c->region, begin, begin + 1, "touch by host code", touch);
	/* A launch that was called meanwhile may have pinned it: that one is waited for, too. */
	if (rc || c->state != SL_CHUNK_DEVICE || sl_chunk_pins(c) || c->user_pins)
		return rc;
	return sl_evict(c, SL_EVICT_REQUEST);
}

/* A touch by host code that has a host map. Drops. */
SL_HELD static int
hostmap_serve(struct sl_chunk *c, const struct sl_touch *touch)
{
	int rc;

	sl_check_host(c, touch);
	do {
		rc = sl_hostmap_touch(c, touch);
		if (rc != -EINPROGRESS)
			return rc;
		rc = chunk_recall(c, touch);
	} while (!rc);
	return rc == -ESTALE ? 0 : rc;
}

SL_HELD static int
touch_serve(struct sl_region *r, const struct sl_touch *touch)
{
	struct sluice_space *s = r->space;
	struct sluice_launch *l = touch->launch;
	uint64_t index = (uint64_t)((char *)touch->addr - r->base) / r->chunk_bytes;
	struct sl_chunk *c = &r->chunks[index];
	enum sl_cause cause = l ? SL_CAUSE_FAULT : SL_CAUSE_CPU;
	struct sl_fill fill = {.cause = cause, .room = SL_ROOM_FAULT};
	int rc;

	if (touch->access == SL_ACCESS_WRITE && !sl_region_is_writable(r))
		return sl_fail(-EACCES, "write to %p: %s is mapped without SLUICE_WRITE",
			       touch->addr, r->name);
	if (sl_checks_kernels(s))
		sl_check_touch(c, touch);
	if (s->device->hostmap) {
		sl_count(s, SLUICE_COUNTER_CPU_FAULTS, !touch->guarded);
		return hostmap_serve(c, touch);
	}
	if (touch->guarded && !c->pages)
		return chunk_written(c, touch);
	if (!touch->guarded) {
		sl_count(s, l ? SLUICE_COUNTER_FAULTS : SLUICE_COUNTER_CPU_FAULTS, 1);
		if (l && l->n_uses && !sl_checks_kernels(s))
			launch_miss(l, touch);
	}
	if (c->state == SL_CHUNK_DEVICE ? c->pages != NULL
					: r->population != SLUICE_POPULATE_CHUNK)
		return sl_page_fault(c, touch, cause);
	fill.intent = sl_policy_intent(s->policy, r->flags,
				       sl_region_is_writable(r) ? SLUICE_USE_READ_WRITE
								: SLUICE_USE_READ);
	if (c->dead && fill.intent != SLUICE_USE_READ) /* later writes will not be seen */
		sl_chunk_revive(c, 0, r->chunk_bytes);
	if (c->state != SL_CHUNK_DEVICE || c->pages)
		sl_chunk_touch(c);
	rc = sl_fill(c, &fill);
	if (!rc)
		sl_read_ahead(r, index, index);
	return rc;
}

int
sl_touched(void *space, const struct sl_touch *touch)
{
	struct sluice_space *s = space;
	struct sl_region *r;
	int rc;

	sl_space_lock(s);
	r = sl_region_at(s, touch->addr);
	if (!r || r->closed) {
		rc = sl_touch_is_stale(touch, s->close_touches)
			     ? 0
			     : sl_fail(-EFAULT, "%s touched %p, which is in no region",
				       touch->launch ? "a kernel" : "host code",
				       touch->addr);
	} else {
		r->busy++;
		rc = touch_serve(r, touch);
		sl_region_leave(r);
	}
	sl_space_unlock(s);
	return rc;
}

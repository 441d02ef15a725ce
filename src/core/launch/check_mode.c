/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking mode (software device): finds wrong intents instead of trusting them. One launch with
 * uses runs at a time. Before it starts nothing is present, and nothing is brought in. So each
 * first touch of a page is an event. Its address and access are compared with the launch's uses.
 * These are reported:
 * - a touch outside the declared uses;
 * - a write to a range declared read;
 * - a read of a write-all or scratch page before it was written;
 * - a read of a discarded page before it was written again.
 *
 * The access is then served all the same (a wrong intent never changes a result here). The
 * launch ends in -EFAULT with the address, host code gets an error line in the log, and
 * intent_errors counts both. Slow: a fault for every 4 KiB page of every launch.
 *
 * A device whose kernels do not fault cannot report their touches. There checking mode finds
 * host code that touches data of a launch which it has not waited for.
 *
 * LOCKING: all of it under space->lock; what drops it says so.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "core/launch/launch.h"

/* Host code touched what a launch uses, between two synchronisations. */
void
sl_check_host(struct sl_chunk *c, const struct sl_touch *touch)
{
	struct sluice_space *s = c->region->space;
	char name[sizeof(c->region->name)];

	if (!s->config.checking || !sl_chunk_pins(c))
		return;
	sl_count(s, SLUICE_COUNTER_INTENT_ERRORS, 1);
	snprintf(name, sizeof(name), "%s", c->region->name);
	sl_space_unlock(s);
	sl_log(SL_ERROR,
	       "check", "host code %s %p of %s while a launch uses it: synchronise the stream first",
	       touch->access == SL_ACCESS_WRITE ? "writes" : "reads", touch->addr, name);
	sl_space_lock(s);
}

/* What the launch's uses say about an address. */
struct verdict {
	int declared;
	int readable; /* some use lets it be read before it is written */
	int writable;
};

static struct verdict
uses_at(const struct sluice_launch *l, const struct sl_region *r, uint64_t offset)
{
	struct verdict v = {0};

	for (size_t k = 0; k < l->n_uses; k++) {
		const struct sl_launch_use *u = &l->uses[k];
		uint64_t begin = u->begin / SL_PAGE_BYTES * SL_PAGE_BYTES;

		if (u->region != r || offset < begin || offset >= u->end)
			continue;
		v.declared = 1;
		switch (u->declared) {
		case SLUICE_USE_READ:
			v.readable = 1;
			break;
		case SLUICE_USE_WRITE:
		case SLUICE_USE_READ_WRITE:
			v.readable = v.writable = 1;
			break;
		case SLUICE_USE_WRITE_ALL:
		case SLUICE_USE_SCRATCH:
			/* a page that the range covers only in part has old bytes to read */
			v.readable |= offset < u->begin ||
				      offset / SL_PAGE_BYTES * SL_PAGE_BYTES < u->begin;
			v.writable = 1;
			break;
		case SLUICE_USE_COUNT:
			break;
		}
	}
	return v;
}

/* Report; drops the lock for host code's log line. */
SL_HELD static void
report(struct sl_chunk *c, const struct sl_touch *touch, const char *what)
{
	struct sluice_space *s = c->region->space;
	struct sluice_launch *l = touch->launch;
	uint64_t offset = (uint64_t)((char *)touch->addr - c->region->base);

	sl_count(s, SLUICE_COUNTER_INTENT_ERRORS, 1);
	if (l) {
		sl_launch_blame(l, -EFAULT, "launch %llu: %s %p (offset %llu of %s) %s",
				(unsigned long long)l->request.number,
				touch->access == SL_ACCESS_WRITE ? "write to" : "read of",
				touch->addr, (unsigned long long)offset, c->region->name,
				what);
		return;
	}
	sl_space_unlock(s);
	sl_log(SL_ERROR, "check", "host code: %s %p (offset %llu of %s) %s",
	       touch->access == SL_ACCESS_WRITE ? "write to" : "read of", touch->addr,
	       (unsigned long long)offset, c->region->name, what);
	sl_space_lock(s);
}

void
sl_check_touch(struct sl_chunk *c, const struct sl_touch *touch)
{
	struct sl_region *r = c->region;
	struct sluice_launch *l = touch->launch;
	uint64_t offset = (uint64_t)((char *)touch->addr - r->base);
	uint64_t in_chunk = offset % r->chunk_bytes;
	size_t page = in_chunk / SL_PAGE_BYTES;
	struct verdict v = {.declared = 1, .readable = 1, .writable = 1};
	int present, dirty, dead;

	/* The page's own arrival may wake who writes to it next, whose touch then comes twice. */
	while (c->pages && sl_bitmap_test(c->pages->filling, page))
		sl_chunk_wait(c);
	present = c->pages && sl_bitmap_test(c->pages->present, page);
	dirty = present && sl_bitmap_test(c->pages->dirty, page);
	dead = c->dead && sl_bitmap_test(c->dead, page);
	/* One report a touch: the first that holds; none where it was served meanwhile. */
	if (l && l->n_uses && !(touch->access == SL_ACCESS_WRITE ? dirty : present))
		v = uses_at(l, r, offset);
	if (!v.declared)
		report(c, touch, "is outside the declared uses");
	else if (touch->access == SL_ACCESS_WRITE && !v.writable)
		report(c, touch, "is against the declared intent read");
	else if (touch->access == SL_ACCESS_READ && !v.readable && !present)
		report(c, touch,
		       "comes before any write, against the declared intent write-all "
		       "or scratch");
	else if (dead && touch->access == SL_ACCESS_READ && !present)
		report(c, touch, "was discarded and not written since");
	if (dead && touch->access == SL_ACCESS_WRITE)
		sl_chunk_revive(c, page * SL_PAGE_BYTES, (page + 1) * SL_PAGE_BYTES);
}

/* Take everything off the device but what callers have pinned. Drops. */
SL_HELD static int
space_hide(struct sluice_space *s)
{
	for (size_t i = 0; i < s->n_regions; i++) {
		struct sl_region *r = s->regions[i];
		int rc = 0;

		r->busy++;
		for (uint64_t k = 0; k < r->n_chunks && !rc; k++) {
			while (!rc && r->chunks[k].state == SL_CHUNK_DEVICE &&
			       !r->chunks[k].user_pins)
				rc = sl_evict(&r->chunks[k], SL_EVICT_REQUEST);
		}
		sl_region_leave(r);
		if (rc)
			return rc;
	}
	return 0;
}

static uint32_t
scopes_count(const struct sluice_space *s)
{
	uint32_t n = 0;

	for (const struct sluice_launch *l = s->scopes; l; l = l->next)
		n += l->host_scope == SL_SCOPE_HELD;
	return n;
}

int
sl_check_prepare(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	int rc;

	while (s->prepared || s->running > scopes_count(s))
		sl_launch_wait(s);
	rc = space_hide(s);
	if (!rc)
		sl_launch_pin(l);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: mapping files, allocating, finding the region of an address, sync, flags, unmap. The
 * sorted list of regions gives the free addresses. A gap of one granule follows each region that is
 * larger than one granule, so that an access past its end is seen.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/size.h"
#include "core/api/api.h"
#include "core/interpose.h"

/* A region with at least so many large chunks has large chunks. */
#define LARGE_CHUNKS 16u

/* ---- addresses -------------------------------------------------------------------------- */

/* The gap behind a region of so many bytes. One granule has none, so that the system joins the
 * mappings of neighbours: a process may have 65530. */
static uint64_t
gap_behind(uint64_t bytes)
{
	return bytes > SL_GRANULE_BYTES ? SL_GRANULE_BYTES : 0;
}

/*
 * First gap that takes bytes, aligned; position in the sorted list. The search starts where the last
 * one ended, unless a smaller range is asked for or a region before that place has gone. Held.
 */
SL_HELD static int
address_find(struct sluice_space *s, uint64_t bytes, uint64_t align, char **base, size_t *at)
{
	char *low = s->device->base;
	char *top = low + s->device->bytes;

	if (bytes < s->search.bytes || align < s->search.align)
		s->search.from = 0;
	for (size_t i = s->search.from; i <= s->n_regions; i++) {
		char *from = low;
		char *limit = i < s->n_regions ? s->regions[i]->base - gap_behind(bytes)
					       : top;

		if (i > 0) {
			const struct sl_region *r = s->regions[i - 1];
			uint64_t taken = r->n_chunks * r->chunk_bytes;

			from = r->base + taken + gap_behind(taken);
		}
		from = (char *)sl_round_up((uintptr_t)from, align);
		if (from < limit && (uint64_t)(limit - from) >= bytes) {
			s->search.from = i;
			s->search.bytes = bytes;
			s->search.align = align;
			*base = from;
			*at = i;
			return 0;
		}
	}
	return sl_fail(-EFBIG,
		       "map: no %llu free addresses in a space of %llu: raise address",
		       (unsigned long long)bytes, (unsigned long long)s->device->bytes);
}

static void
slots_set(struct sl_region *r, struct sl_region *value)
{
	struct sluice_space *s = r->space;
	uint64_t first = (uint64_t)(r->base - (char *)s->device->base) / SL_GRANULE_BYTES;
	uint64_t n = r->n_chunks * r->chunk_bytes / SL_GRANULE_BYTES;

	for (uint64_t i = 0; i < n; i++)
		s->slots[first + i] = value;
}

/* What is alive of a region whose chunks are as region_chunks_init() makes them: all or nothing. No
 * sl_chunk_update() has seen them. */
static uint64_t
region_initial_bytes(const struct sl_region *r)
{
	return r->chunks[0].alive ? r->n_chunks * r->chunk_bytes : 0;
}

/* Take addresses and a place in the list; the heap grows with the regions. Held. */
SL_HELD static int
region_insert(struct sl_region *r)
{
	struct sluice_space *s = r->space;
	char *base = NULL;
	size_t at = 0;
	int rc;

	if (s->n_regions == s->max_regions) {
		size_t max = s->max_regions ? 2 * s->max_regions : 16;
		struct sl_region **list = sl_realloc(s->regions, max * sizeof(*list));

		if (!list)
			return sl_fail(-ENOMEM, "map: out of memory");
		s->regions = list;
		s->max_regions = max;
	}
	rc = address_find(s, r->n_chunks * r->chunk_bytes, r->chunk_bytes, &base, &at);
	if (!rc)
		rc = sl_lru_reserve(s, r->chunk_bytes, r->n_chunks);
	if (rc)
		return rc;
	memmove(s->regions + at + 1, s->regions + at,
		(s->n_regions - at) * sizeof(*s->regions));
	s->regions[at] = r;
	s->n_regions++;
	sl_alive_count(s, region_initial_bytes(r));
	r->base = base;
	return 0;
}

SL_HELD static void
region_remove(struct sl_region *r)
{
	struct sluice_space *s = r->space;
	size_t low = 0, high = s->n_regions;

	while (low + 1 < high) { /* the list is sorted */
		size_t middle = low + (high - low) / 2;

		if (s->regions[middle]->base <= r->base)
			low = middle;
		else
			high = middle;
	}
	assert(s->regions[low] == r);
	memmove(s->regions + low, s->regions + low + 1,
		(s->n_regions - low - 1) * sizeof(*s->regions));
	s->n_regions--;
	if (low < s->search.from)
		s->search.from = low;
	sl_lru_release(s, r->chunk_bytes, r->n_chunks);
}

static void
region_free(struct sl_region *r)
{
	if (!r)
		return;
	if (r->store)
		r->store->ops->close(r->store);
	sl_dirty_hash_drop(r);
	free(r->chunks);
	free(r);
}

/* Initial contents: what the file has, or nothing. A volatile or write-only file is not read. */
static void
region_chunks_init(struct sl_region *r)
{
	int on_store = r->store && (r->flags & SLUICE_READ) && !(r->flags & SLUICE_VOLATILE);

	for (uint64_t i = 0; i < r->n_chunks; i++) {
		struct sl_chunk *c = &r->chunks[i];

		c->region = r;
		c->heap_slot = SL_HEAP_NONE;
		c->state = on_store ? SL_CHUNK_STORE : SL_CHUNK_EMPTY;
		c->flags = on_store ? SL_STORE_VALID : 0;
		c->alive = (uint16_t)(on_store & 1);
	}
	r->ready[SL_READY_NOT] = r->n_chunks;
}

static enum sl_delivery
region_delivery(const struct sluice_space *s, enum sluice_population population)
{
	if (s->config.faults == SLUICE_FAULTS_SIGNAL)
		return SL_DELIVER_SIGNAL;
	if (s->config.faults == SLUICE_FAULTS_AUTO &&
	    population == SLUICE_POPULATE_PAGE && !sl_checks_kernels(s))
		return SL_DELIVER_SIGNAL;
	return SL_DELIVER_THREAD;
}

static uint64_t
region_chunk_bytes(const struct sluice_space *s, uint64_t size)
{
	return size >= LARGE_CHUNKS * s->config.large_chunk_bytes
		       ? s->config.large_chunk_bytes
		       : s->config.chunk_bytes;
}

/* Make the region usable. store: taken over, also on failure. */
static int
region_create(struct sluice_space *s, const char *name, struct sl_store *store,
	      uint64_t offset, uint64_t size, uint64_t chunk_bytes, unsigned flags,
	      void **addr)
{
	struct sl_region *r = sl_calloc(1, sizeof(*r));
	int rc;

	if (!r) {
		if (store)
			store->ops->close(store);
		return sl_fail(-ENOMEM, "map: out of memory");
	}
	r->space = s;
	r->closed = 1;
	r->store = store;
	r->file_offset = offset;
	r->file_writable = store && (flags & SLUICE_WRITE);
	r->size_bytes = size;
	r->flags = flags;
	r->chunk_bytes = chunk_bytes;
	r->chunk_shift = (unsigned)__builtin_ctzll(r->chunk_bytes);
	r->n_chunks = sl_round_up(size, r->chunk_bytes) / r->chunk_bytes;
	r->population = s->config.population;
	r->delivery = region_delivery(s, r->population);
	snprintf(r->name, sizeof(r->name), "%s", name);
	sl_read_ahead_reset(r);
	r->chunks = sl_calloc(r->n_chunks, sizeof(*r->chunks));
	if (!r->chunks) {
		rc = sl_fail(-ENOMEM, "map: %s: out of memory for %llu chunks", name,
			     (unsigned long long)r->n_chunks);
		goto fail;
	}
	region_chunks_init(r);
	rc = sl_space_enter(s);
	if (rc)
		goto fail;
	rc = region_insert(r);
	sl_space_unlock(s);
	if (rc)
		goto fail;
	rc = s->device->ops->attach(s->device, r->base, r->n_chunks * r->chunk_bytes,
				    r->delivery);
	sl_space_lock(s);
	if (rc) {
		sl_alive_count(s, -region_initial_bytes(r));
		region_remove(r);
	} else {
		slots_set(r, r);
		r->closed = 0;
		*addr = r->base;
	}
	sl_space_unlock(s);
	if (!rc) {
		sl_host_pin_early(s, chunk_bytes);
		return 0;
	}
fail:
	region_free(r);
	return rc;
}

/* ---- map, alloc ------------------------------------------------------------------------- */

static int
map_check(const char *path, uint64_t offset, size_t size, unsigned flags)
{
	const unsigned all = SLUICE_READ | SLUICE_WRITE | SLUICE_VOLATILE |
			     SLUICE_CREATE | SLUICE_NO_READAHEAD;

	if (!path || !*path)
		return sl_fail(-EINVAL, "map: no path given");
	if (flags & ~all)
		return sl_fail(-EINVAL, "map: %s: unknown flags 0x%x", path, flags & ~all);
	if (!(flags & (SLUICE_READ | SLUICE_WRITE)))
		return sl_fail(-EINVAL,
			       "map: %s: flags need SLUICE_READ, SLUICE_WRITE or both",
			       path);
	if ((flags & (SLUICE_CREATE | SLUICE_VOLATILE)) && !(flags & SLUICE_WRITE))
		return sl_fail(-EINVAL,
			       "map: %s: SLUICE_CREATE and SLUICE_VOLATILE contradict a "
			       "mapping without SLUICE_WRITE",
			       path);
	if (offset % SL_STORE_ALIGN)
		return sl_fail(-EINVAL, "map: %s: offset %llu is not a multiple of %u",
			       path, (unsigned long long)offset, SL_STORE_ALIGN);
	if ((flags & SLUICE_CREATE) && !size)
		return sl_fail(-EINVAL, "map: %s: SLUICE_CREATE needs a size", path);
	if (offset > INT64_MAX || size > INT64_MAX - offset)
		return sl_fail(-EFBIG, "map: %s: offset %llu and size %zu go beyond any file",
			       path, (unsigned long long)offset, size);
	return 0;
}

static int
space_usable(const struct sluice_space *s, const char *call)
{
	if (!s)
		return sl_fail(-EINVAL, "%s: no space given", call);
	if (sl_space_forked(s))
		return sl_fail(-ECHILD, "%s: the space belongs to the parent process", call);
	return 0;
}

/* The size to map, the file made long enough or found too short. */
static int
map_size(struct sl_store *store, const char *path, uint64_t offset, size_t *size,
	 unsigned flags)
{
	uint64_t length = store->size_bytes;

	if (!*size) {
		if (length <= offset)
			return sl_fail(
				-EINVAL,
				"map: %s: nothing to map: the file has %llu bytes, the "
				"offset is %llu",
				path, (unsigned long long)length,
				(unsigned long long)offset);
		*size = length - offset;
	}
	if (offset + *size <= length)
		return 0;
	if (flags & SLUICE_CREATE)
		return store->ops->extend(store, offset + *size);
	return sl_fail(
		-EFBIG,
		"map: %s: the file has %llu bytes, %llu are to be mapped: map less, or "
		"pass SLUICE_CREATE to extend it",
		path, (unsigned long long)length, (unsigned long long)(offset + *size));
}

int
sluice_map(struct sluice_space *space, const char *path, uint64_t offset,
	   size_t size_bytes, unsigned flags, void **addr)
{
	struct sl_store *store;
	int open_flags = SL_STORE_READ;
	int rc = map_check(path, offset, size_bytes, flags);

	if (!rc)
		rc = space_usable(space, "map");
	if (rc)
		return rc;
	if (size_bytes > space->device->bytes)
		return sl_fail(-EFBIG, "map: %s: %zu bytes, the space has %zu addresses: raise address",
			       path, size_bytes, space->device->bytes);
	if (flags & SLUICE_WRITE)
		open_flags |= SL_STORE_WRITE;
	if (flags & SLUICE_CREATE)
		open_flags |= SL_STORE_CREATE;
	rc = sl_store_open(space->engine, path, open_flags, &store);
	if (rc)
		return rc;
	rc = map_size(store, path, offset, &size_bytes, flags);
	if (rc) {
		store->ops->close(store);
		return rc;
	}
	return region_create(space, path, store, offset, size_bytes,
			     region_chunk_bytes(space, size_bytes),
			     flags & ~SLUICE_CREATE, addr);
}

int
sluice_alloc(struct sluice_space *space, size_t size_bytes, unsigned flags, void **addr)
{
	int rc;

	if (!size_bytes)
		return sl_fail(-EINVAL, "alloc: size 0");
	if (flags & ~(unsigned)SLUICE_NO_READAHEAD)
		return sl_fail(-EINVAL, "alloc: flags 0x%x: only SLUICE_NO_READAHEAD has a meaning here",
			       flags);
	rc = space_usable(space, "alloc");
	if (rc)
		return rc;
	if (size_bytes > space->device->bytes)
		return sl_fail(-EFBIG, "alloc: %zu bytes, the space has %zu addresses: raise address",
			       size_bytes, space->device->bytes);
	return region_create(space, "anonymous", NULL, 0, size_bytes,
			     region_chunk_bytes(space, size_bytes),
			     SLUICE_READ | SLUICE_WRITE | flags, addr);
}

int
sl_region_alloc(struct sluice_space *space, size_t bytes, uint64_t chunk_bytes, void **addr)
{
	if (!bytes || chunk_bytes < SL_GRANULE_BYTES ||
	    chunk_bytes > SL_CHUNK_BYTES_MAX || chunk_bytes & (chunk_bytes - 1))
		return sl_fail(-EINVAL, "alloc: %zu bytes in chunks of %llu", bytes,
			       (unsigned long long)chunk_bytes);
	return region_create(space, "allocation", NULL, 0, bytes, chunk_bytes,
			     SLUICE_READ | SLUICE_WRITE | SLUICE_NO_READAHEAD |
				     SL_REGION_UNDEFINED,
			     addr);
}

/* ---- sync ------------------------------------------------------------------------------- */

int
sluice_sync(struct sluice_space *space, void *addr, size_t size_bytes)
{
	struct sl_region *r;
	uint64_t begin, end;
	int rc = sl_space_enter(space);

	if (rc)
		return rc;
	rc = sl_region_find(space, "sync", addr, size_bytes, &r, &begin, &end);
	if (rc || begin == end || !sl_region_is_writable(r) || sl_region_is_volatile(r)) {
		sl_space_unlock(space);
		return rc;
	}
	r->busy++;
	rc = sl_range_wait(r, begin, end, "sync");
	if (!rc) {
		int synced;

		rc = sl_region_flush(r, begin, end, 1);
		sl_space_unlock(space);
		synced = r->store->ops->sync(r->store);
		if (!rc)
			rc = synced;
		sl_space_lock(space);
	}
	sl_region_leave(r);
	sl_space_unlock(space);
	return rc;
}

/* ---- unmap, remap ----------------------------------------------------------------------- */

static int
region_is_pinned(const struct sl_region *r)
{
	for (uint64_t i = 0; i < r->n_chunks; i++) {
		if (r->chunks[i].user_pins)
			return 1;
	}
	return 0;
}

/* Drop every chunk's contents. Nobody uses the region. Drops. */
SL_HELD static int
region_empty(struct sl_region *r)
{
	for (uint64_t i = 0; i < r->n_chunks; i++) {
		struct sl_chunk *c = &r->chunks[i];

		/* READ-AHEAD may still be on its way: the discard waits for it. */
		while (c->state != SL_CHUNK_EMPTY) {
			sl_chunk_discard(c, SL_DISCARD_UNMAP,
					 (struct sl_discard_place){NULL, 0});
			if (c->state == SL_CHUNK_DEVICE) {
				int rc = sl_evict(c, SL_EVICT_DISCARD);

				if (rc)
					return rc;
			}
		}
		free(c->dead);
		c->dead = NULL;
	}
	return 0;
}

/* Find the region that starts at addr and close it to new uses; waits for what uses it. Held. */
SL_HELD static int
region_close(struct sluice_space *s, const char *call, void *addr, struct sl_region **out)
{
	struct sl_region *r = sl_region_at(s, addr);
	int rc;

	if (!r || r->closed || r->base != addr)
		return sl_fail(-ENOENT, "%s: no region starts at %p", call, addr);
	if (region_is_pinned(r))
		return sl_fail(-EBUSY, "%s: %s is pinned: call sluice_unpin() first",
			       call, r->name);
	r->busy++;
	rc = sl_range_wait(r, 0, r->size_bytes, call);
	sl_region_leave(r);
	if (rc)
		return rc;
	if (r->closed)
		return sl_fail(-ENOENT, "%s: another thread has unmapped %s", call, r->name);
	sl_region_close(r);
	*out = r;
	return 0;
}

void
sl_region_close(struct sl_region *r)
{
	r->closed = 1;
	r->space->close_touches = sl_touch_count();
	if (r->space->policy->forget)
		r->space->policy->forget(r);
	sl_early_evict_forget(r);
	while (r->busy)
		sl_launch_wait(r->space);
}

static void
region_reopen(struct sl_region *r)
{
	r->closed = 0;
}

int
sluice_unmap(struct sluice_space *space, void *addr)
{
	struct sl_region *r;
	int rc = sl_space_enter(space);

	if (rc)
		return rc;
	rc = region_close(space, "unmap", addr, &r);
	if (rc) {
		sl_space_unlock(space);
		return rc;
	}
	rc = sl_region_unmap(r);
	sl_space_unlock(space);
	return rc;
}

int
sl_region_unmap(struct sl_region *r)
{
	struct sluice_space *s = r->space;
	int rc = sl_region_flush(r, 0, r->size_bytes, 0);

	if (!rc && r->store && sl_region_is_writable(r) && !(r->flags & SLUICE_VOLATILE)) {
		sl_space_unlock(s);
		rc = r->store->ops->sync(r->store);
		sl_space_lock(s);
	}
	if (!rc)
		rc = region_empty(r);
	while (r->busy)
		sl_launch_wait(s);
	if (rc) {
		region_reopen(r);
		return sl_fail_in(rc, "unmap");
	}
	slots_set(r, NULL);
	sl_space_unlock(s);
	s->device->ops->detach(s->device, r->base, r->n_chunks * r->chunk_bytes);
	sl_space_lock(s);
	region_remove(r);
	sl_space_unlock(s);
	region_free(r);
	sl_space_lock(s);
	return 0;
}

int
sluice_remap(struct sluice_space *space, void *addr, unsigned flags)
{
	struct sl_region *r;
	unsigned keep;
	int rc;

	rc = map_check("remap", 0, 1, flags & ~(unsigned)SLUICE_CREATE);
	if (rc)
		return rc;
	rc = sl_space_enter(space);
	if (rc)
		return rc;
	r = sl_region_at(space, addr);
	if (r && !r->store)
		rc = sl_fail(-EINVAL, "remap: %p is anonymous memory, which has no flags to change",
			     addr);
	else if (r && (flags & SLUICE_WRITE) && !r->file_writable)
		rc = sl_fail(
			-EACCES,
			"remap: %s was mapped without SLUICE_WRITE: unmap and map it "
			"again",
			r->name);
	else
		rc = region_close(space, "remap", addr, &r);
	if (rc) {
		sl_space_unlock(space);
		return rc;
	}
	rc = sl_region_flush(r, 0, r->size_bytes, 0);
	if (!rc)
		rc = region_empty(r);
	if (!rc) {
		keep = r->flags & SLUICE_NO_READAHEAD;
		r->flags = (flags & ~(unsigned)SLUICE_CREATE) | keep;
		memset(r->ready, 0, sizeof(r->ready));
		for (uint64_t i = 0; i < r->n_chunks; i++)
			r->chunks[i].readiness = SL_READY_NOT;
		region_chunks_init(r);
		sl_alive_count(space, region_initial_bytes(r));
		sl_read_ahead_reset(r);
	}
	region_reopen(r);
	sl_space_unlock(space);
	return rc;
}

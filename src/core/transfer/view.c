/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host code's view, on devices where host code has page tables of its own at the same addresses
 * (devices with hostmap). A touch by host code takes the chunk to the host tier, and shows the
 * touched span of 2 MiB: its bytes are copied from the frame to host code's memory. A span that
 * is only read is shown guarded, so that the first write to it is known. A written one may be
 * newer than the frame. Before the chunk leaves HOST the view is folded: every span of it is
 * hidden, and newer bytes go back into the frame.
 *
 * So both sides always see the newest contents, at the same boundaries as managed memory without
 * concurrent access. A launch sees host code's earlier writes. Host code sees the writes of
 * launches that it waited for. A touch of a chunk that a launch uses waits for that launch. If
 * the touching thread itself holds the launch by sluice_launch_begin(), the touch cannot be
 * served.
 *
 * Memory: chunks with a view count to view.limit_bytes at most; the oldest is folded for room.
 * LOCKING: as in state.h.
 */
#include <string.h>

#include "core/transfer/transfer.h"

static uint32_t
span_of(const struct sl_chunk *c, const void *addr)
{
	return (uint32_t)((size_t)((const char *)addr - sl_chunk_addr(c)) / SL_SPAN_BYTES);
}

static char *
span_addr(const struct sl_chunk *c, uint32_t span)
{
	return sl_chunk_addr(c) + (size_t)span * SL_SPAN_BYTES;
}

/* Room for another chunk on the list of those with a view. Held. */
SL_HELD static int
viewed_grow(struct sluice_space *s)
{
	uint32_t max = s->view.max ? s->view.max * 2 : 64;
	struct sl_chunk **chunks = sl_calloc(max, sizeof(struct sl_chunk *));

	if (!chunks)
		return sl_fail(-ENOMEM, "view: out of memory");
	if (s->view.n)
		memcpy(chunks, s->view.chunks, s->view.n * sizeof(struct sl_chunk *));
	free(s->view.chunks);
	s->view.chunks = chunks;
	s->view.max = max;
	return 0;
}

/* On the list of chunks with a view. Held. */
SL_HELD static int
viewed_add(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	int rc = s->view.n == s->view.max ? viewed_grow(s) : 0;

	if (rc)
		return rc;
	s->view.chunks[s->view.n++] = c;
	s->view.bytes += c->region->chunk_bytes;
	return 0;
}

SL_HELD static void
viewed_remove(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	uint32_t i = 0;

	while (s->view.chunks[i] != c)
		i++;
	memmove(&s->view.chunks[i], &s->view.chunks[i + 1],
		(s->view.n - i - 1) * sizeof(s->view.chunks[0]));
	s->view.n--;
	s->view.bytes -= c->region->chunk_bytes;
}

/*
 * Hide every span of c. keep: what may be newer goes into the frame; else the contents are dead.
 * On failure what was hidden so far is in the frame, and the rest is shown as before.
 */
SL_HELD static int
view_hide(struct sl_chunk *c, int keep)
{
	struct sluice_space *s = c->region->space;
	enum sl_chunk_state back = c->state;
	int rc = 0;

	sl_chunk_set_state(c, SL_CHUNK_VIEWING);
	for (uint32_t span = 0; c->view && !rc; span++) {
		uint32_t bit = 1u << span;
		char *dst = NULL;

		if (!(c->view & bit))
			continue;
		if (keep && (c->view_dirty & bit))
			dst = (char *)c->host->frame->data + (size_t)span * SL_SPAN_BYTES;
		sl_space_unlock(s);
		rc = s->device->hostmap->hide(s->device, span_addr(c, span), dst);
		sl_space_lock(s);
		if (rc)
			break;
		c->view &= ~bit;
		c->view_dirty &= ~bit;
	}
	if (!c->view)
		viewed_remove(c);
	sl_chunk_set_state(c, back);
	return rc;
}

int
sl_view_fold(struct sl_chunk *c)
{
	return c->view ? view_hide(c, 1) : 0;
}

int
sl_view_forget(struct sl_chunk *c)
{
	return c->view ? view_hide(c, 0) : 0;
}

/* A chunk that nobody shows any more, with a frame in staging: settle it or write it. Drops. */
SL_HELD static void
view_settle(struct sl_chunk *c)
{
	if (c->state != SL_CHUNK_HOST || c->view || !c->host || c->host->settled ||
	    sl_host_settle(c, SL_SETTLE_WRITE) == 0)
		return;
	if (c->state != SL_CHUNK_HOST || c->view || !c->host || c->host->settled)
		return;
	if (c->flags & SL_DIRTY_HOST)
		sl_ignore(sl_write_begin(c, SL_IO_WRITEBACK,
					 sl_region_is_volatile(c->region)
						 ? SLUICE_COUNTER_STORE_WRITE_SPILL
						 : SLUICE_COUNTER_STORE_WRITE_BACK,
					 1));
	else if (c->flags & SL_STORE_VALID)
		sl_host_let_go(c);
}

/* Fold the oldest views until one more chunk of c's size may be shown. Drops. */
SL_HELD static int
view_room(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;

	while (s->view.n && s->view.bytes + c->region->chunk_bytes > s->view.limit_bytes) {
		struct sl_chunk *oldest = s->view.chunks[0];
		int rc;

		if (oldest->state == SL_CHUNK_VIEWING) {
			sl_chunk_wait(oldest);
			continue;
		}
		oldest->region->busy++;
		rc = view_hide(oldest, 1);
		if (!rc)
			view_settle(oldest);
		sl_region_leave(oldest->region);
		if (rc)
			return rc;
	}
	return 0;
}

/* HOST or POISONED: show the span. Drops. */
SL_HELD static int
view_show(struct sl_chunk *c, uint32_t span, int write)
{
	struct sluice_space *s = c->region->space;
	enum sl_chunk_state back = c->state;
	uint32_t bit = 1u << span;
	int rc = c->view ? 0 : viewed_add(c);

	if (rc)
		return rc;
	c->view |= bit; /* also keeps its frame off the host lists */
	if (write) {
		c->view_dirty |= bit;
		c->flags |= SL_DIRTY_HOST;
		sl_dirty_hash_forget(c);
		sl_chunk_revive(c, (uint64_t)span * SL_SPAN_BYTES,
				(uint64_t)(span + 1) * SL_SPAN_BYTES);
	}
	sl_chunk_set_state(c, SL_CHUNK_VIEWING);
	sl_read_ahead_release(c);
	sl_space_unlock(s);
	rc = s->device->hostmap->show(s->device, span_addr(c, span),
				      (char *)c->host->frame->data +
					      (size_t)span * SL_SPAN_BYTES,
				      !write);
	sl_space_lock(s);
	if (rc) {
		c->view &= ~bit;
		c->view_dirty &= ~bit;
		if (!c->view)
			viewed_remove(c);
	}
	sl_chunk_set_state(c, back);
	return rc;
}

/* The span is shown; its first write. Drops. */
SL_HELD static int
view_written(struct sl_chunk *c, uint32_t span)
{
	struct sluice_space *s = c->region->space;
	enum sl_chunk_state back = c->state;
	int rc;

	if (!(c->view_dirty & (1u << span)))
		sl_count(s, SLUICE_COUNTER_WRITE_FAULTS, 1);
	c->view_dirty |= 1u << span;
	c->flags |= SL_DIRTY_HOST;
	sl_dirty_hash_forget(c);
	sl_chunk_revive(c, (uint64_t)span * SL_SPAN_BYTES,
			(uint64_t)(span + 1) * SL_SPAN_BYTES);
	sl_chunk_set_state(c, SL_CHUNK_VIEWING);
	sl_space_unlock(s);
	rc = s->device->hostmap->unguard(s->device, span_addr(c, span));
	sl_space_lock(s);
	sl_chunk_set_state(c, back);
	return rc;
}

/* HOST, POISONED: show the span, once there is room for views. *done: it is shown. Drops. */
SL_HELD static int
view_step(struct sl_chunk *c, uint32_t span, int write, int *done)
{
	const struct sluice_space *s = c->region->space;
	int rc;

	if (!c->view && s->view.bytes + c->region->chunk_bytes > s->view.limit_bytes) {
		rc = view_room(c);
		if (rc || s->view.n)
			return rc; /* the lock was dropped: look again */
		if (c->state != SL_CHUNK_HOST && c->state != SL_CHUNK_POISONED)
			return 0;
	}
	*done = 1;
	if (c->view & (1u << span))
		return write ? view_written(c, span) : 0;
	return view_show(c, span, write);
}

int
sl_view_touch(struct sl_chunk *c, const struct sl_touch *touch)
{
	uint32_t span = span_of(c, touch->addr);
	int write = touch->access == SL_ACCESS_WRITE, waited_read = 0, done = 0;
	int rc = 0;

	while (!rc && !done) {
		if (sl_chunk_in_flight(c)) {
			waited_read |= c->state == SL_CHUNK_READING;
			sl_chunk_wait(c);
		} else if (c->state == SL_CHUNK_DEVICE || c->reach_users) {
			return -EINPROGRESS;
		} else if (c->state == SL_CHUNK_EMPTY) {
			rc = sl_host_zero(c, 0);
		} else if (c->state == SL_CHUNK_STORE) {
			rc = waited_read ? sl_read_failed(c) : 0;
			waited_read = 0;
			if (!rc)
				rc = sl_read_begin(c, SL_IO_DEMAND,
						   SLUICE_COUNTER_STORE_READ_DEMAND,
						   SL_STAGING_READ);
		} else {
			rc = view_step(c, span, write, &done);
		}
	}
	return rc;
}

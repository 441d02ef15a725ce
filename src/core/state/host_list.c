/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of host frames. Which list a frame is on follows from the state and the flags of its
 * chunk: room is made in the order of enum sl_host_list, first in first out within a list.
 * LOCKING: all of it under space->lock.
 */
#include "core/state/state.h"

void
sl_host_wake(struct sluice_space *s)
{
	if (s->host_waiters)
		sl_cond_broadcast(&s->host_wake);
}

void
sl_host_wait(struct sluice_space *s)
{
	uint64_t since = sl_event_now(s);

	s->host_waiters++;
	sl_space_wait(s, &s->host_wake);
	s->host_waiters--;
	sl_event_waited(s, SL_WAIT_HOST_ROOM, since);
}

/*
 * Whether the frame will leave staging, or become reclaimable, without anybody's decision. One of a
 * chunk that is FILLING will not: its thread may wait here itself, to evict for it. Evictions have
 * frames that are active, or their writes have failed, wherever staging is full.
 */
void
sl_host_set_active(struct sluice_space *s, struct sl_host *h, int active)
{
	if (active == h->active)
		return;
	h->active = active;
	if (active)
		s->host.staging_active++;
	else
		s->host.staging_active--;
	sl_host_wake(s);
}

/* Of a chunk that is on the device as well. */
static enum sl_host_list
host_list_kept(const struct sl_chunk *c, int clean)
{
	if (!c->host->settled)
		return SL_HOST_LIST_NONE;
	if (c->unwritten)
		return SL_HOST_OLD;
	/* By page, the frame has what the device lacks: kept, unless the store has it too. */
	if (c->pages && (!clean || c->pages->n_filling))
		return SL_HOST_LIST_NONE;
	if (clean && c->region->advice != SLUICE_ADVISE_READ_MOSTLY)
		return SL_HOST_DUP_CLEAN;
	return c->measured == SL_MEASURED_COPY && (c->flags & SL_DIRTY_DEVICE)
		       ? SL_HOST_BASE
		       : SL_HOST_DUP;
}

static enum sl_host_list
host_list_of(const struct sl_chunk *c)
{
	const struct sl_host *h = c->host;
	int clean = !(c->flags & SL_DIRTY_HOST) && (c->flags & SL_STORE_VALID);

	if (sl_chunk_on_device(c))
		return host_list_kept(c, clean);
	if (c->state == SL_CHUNK_WRITING)
		return h->settled ? SL_HOST_CLEAN : SL_HOST_LIST_NONE;
	/* What is shown of it is to be hidden first; bounded by hostmap.limit_bytes. */
	if (c->state != SL_CHUNK_HOST || c->hostmap)
		return SL_HOST_LIST_NONE;
	if (c->flags & SL_ZEROCOPY)
		return SL_HOST_REACHED;
	if (!h->settled)
		return clean ? SL_HOST_READ_AHEAD : SL_HOST_LIST_NONE;
	if (clean)
		return SL_HOST_CLEAN;
	return sl_region_is_volatile(c->region) ? SL_HOST_DIRTY_VOLATILE : SL_HOST_DIRTY_FILE;
}

static int
host_is_active(const struct sl_chunk *c)
{
	return !c->host->settled &&
	       (c->state == SL_CHUNK_READING || c->state == SL_CHUNK_WRITING ||
		c->state == SL_CHUNK_EVICTING);
}

void
sl_host_list_remove(struct sl_host *h)
{
	struct sl_host_queue *q;

	if (h->list == SL_HOST_LIST_NONE)
		return;
	q = &h->chunk->region->space->host.list[h->list];
	if (h->prev)
		h->prev->next = h->next;
	else
		q->head = h->next;
	if (h->next)
		h->next->prev = h->prev;
	else
		q->tail = h->prev;
	q->bytes -= h->frame->bytes;
	q->n--;
	h->prev = h->next = NULL;
	h->list = SL_HOST_LIST_NONE;
}

void
sl_host_list_update(struct sl_chunk *c)
{
	struct sl_host *h = c->host;
	enum sl_host_list list = host_list_of(c);
	struct sl_host_queue *q;

	sl_host_set_active(c->region->space, h, host_is_active(c));
	if (list == h->list)
		return;
	sl_host_list_remove(h);
	if (list == SL_HOST_LIST_NONE)
		return;
	q = &c->region->space->host.list[list];
	h->list = list;
	h->next = NULL;
	h->prev = q->tail;
	if (q->tail)
		q->tail->next = h;
	else
		q->head = h;
	q->tail = h;
	q->bytes += h->frame->bytes;
	q->n++;
}

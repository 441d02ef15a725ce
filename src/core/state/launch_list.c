/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of launches: prepared ones, host scopes, and the mover's queues. What they pin, what they
 * are to overwrite, and the first error of each.
 * LOCKING: all of it under space->lock.
 */
#include <stdarg.h>
#include <stdio.h>

#include "core/state/state.h"

void
sl_launch_list_add(struct sluice_launch **head, struct sluice_launch *l)
{
	l->prev = NULL;
	l->next = *head;
	if (l->next)
		l->next->prev = l;
	*head = l;
}

void
sl_launch_list_remove(struct sluice_launch **head, struct sluice_launch *l)
{
	if (l->prev)
		l->prev->next = l->next;
	else
		*head = l->next;
	if (l->next)
		l->next->prev = l->prev;
	l->prev = l->next = NULL;
}

void
sl_launch_unpin(struct sluice_launch *l)
{
	for (size_t k = 0; k < l->n_uses; k++) {
		struct sl_launch_use *u = &l->uses[k];

		if (u->whole) {
			u->region->whole_pins--;
			continue;
		}
		for (uint64_t i = u->first; i <= u->last; i++)
			u->region->chunks[i].pins--;
	}
	sl_launch_wake(l->space);
}

void
sl_launch_reach_end(struct sluice_launch *l)
{
	for (size_t k = 0; k < l->n_uses; k++) {
		struct sl_launch_use *u = &l->uses[k];

		for (uint64_t i = u->first; l->reaches && i < u->first + u->brought; i++) {
			struct sl_chunk *c = &u->region->chunks[i];

			if ((c->flags & SL_ZEROCOPY) && c->reach_users)
				c->reach_users--;
		}
		u->brought = 0;
	}
	l->reaches = 0;
}

void
sl_launch_wake(struct sluice_space *s)
{
	if (s->launch_waiters)
		sl_cond_broadcast(&s->launch_wake);
}

void
sl_launch_blame(struct sluice_launch *l, int rc, const char *fmt, ...)
{
	va_list ap;

	if (l->rc)
		return;
	l->rc = rc;
	va_start(ap, fmt);
	vsnprintf(l->error_text, sizeof(l->error_text), fmt, ap);
	va_end(ap);
}

uint32_t
sl_scopes_count(const struct sluice_space *s)
{
	uint32_t n = 0;

	for (const struct sluice_launch *l = s->scopes; l; l = l->next)
		n++;
	return n;
}

/* Whether one of its uses has c. */
static int
launch_has(const struct sluice_launch *l, const struct sl_chunk *c)
{
	uint64_t index = sl_chunk_index(c);

	for (size_t k = 0; k < l->n_uses; k++) {
		if (l->uses[k].region == c->region && l->uses[k].first <= index &&
		    index <= l->uses[k].last)
			return 1;
	}
	return 0;
}

int
sl_scope_holds(const struct sl_chunk *c)
{
	for (const struct sluice_launch *l = c->region->space->scopes; l; l = l->next) {
		if (!l->unpinned && launch_has(l, c))
			return 1;
	}
	return 0;
}

/* Whether the use overwrites the whole chunk. */
int
sl_use_overwrites(const struct sl_launch_use *u, const struct sl_chunk *c)
{
	uint64_t base = sl_chunk_index(c) * c->region->chunk_bytes;

	return u->intent == SLUICE_USE_WRITE_ALL && u->region == c->region &&
	       u->begin <= base && u->end >= base + sl_chunk_valid_bytes(c);
}

SL_HELD static int
launch_overwrites(const struct sluice_launch *l, const struct sl_chunk *c)
{
	for (size_t k = 0; k < l->n_uses; k++) {
		if (sl_use_overwrites(&l->uses[k], c))
			return 1;
	}
	return 0;
}

SL_HELD static int
request_overwrites(struct sl_request *q, const struct sl_chunk *c)
{
	const struct sluice_launch *l = sl_request_launch(q);

	return l && launch_overwrites(l, c);
}

int
sl_overwrite_is_pending(const struct sl_chunk *c)
{
	const struct sluice_space *s = c->region->space;

	if (request_overwrites(s->serving, c))
		return 1;
	for (struct sl_request *q = s->calls.head; q; q = q->next) {
		if (request_overwrites(q, c))
			return 1;
	}
	for (const struct sluice_launch *l = s->prepared; l; l = l->next) {
		if (launch_overwrites(l, c))
			return 1;
	}
	return 0;
}

int
sl_chunk_is_pinned_before(const struct sl_chunk *c, const struct sluice_stream *stream,
			  uint32_t number)
{
	for (const struct sl_inflight *w = c->region->space->work_oldest; w; w = w->next) {
		const struct sluice_launch *l = w->launch;

		if (l && !l->unpinned && (!stream || l->stream == stream) &&
		    (l->state == SL_LAUNCH_PREPARED || l->state == SL_LAUNCH_RUNNING) &&
		    (int32_t)((uint32_t)l->request.number - number) <= 0 && launch_has(l, c))
			return 1;
	}
	return 0;
}

/* Whether it may use c, and was called before that number. */
SL_HELD static int
launch_wants(const struct sluice_launch *l, const struct sl_chunk *c, uint64_t number)
{
	if (!l || l->request.number >= number)
		return 0;
	return launch_has(l, c) || (!l->n_uses && l->kernel);
}

int
sl_chunk_is_wanted_before(const struct sl_chunk *c, uint64_t number)
{
	const struct sluice_space *s = c->region->space;

	if (launch_wants(sl_request_launch(s->serving), c, number))
		return 1;
	for (struct sl_request *q = s->calls.head; q && q->number < number; q = q->next) {
		if (launch_wants(sl_request_launch(q), c, number))
			return 1;
	}
	for (const struct sluice_launch *l = s->device->faults ? s->scopes : NULL; l;
	     l = l->next) {
		if (l->unpinned && launch_wants(l, c, number))
			return 1;
	}
	return 0;
}

/* A launch that gave its pins back comes before what was called later. */
void
sl_request_add(struct sluice_space *s, struct sl_request_queue *queue, struct sl_request *q)
{
	struct sl_request *after = queue->tail;

	while (after && (after->number > q->number ||
			 (after->number == q->number && after->kind > q->kind)))
		after = after->prev;
	q->prev = after;
	q->next = after ? after->next : queue->head;
	if (q->next)
		q->next->prev = q;
	else
		queue->tail = q;
	if (after)
		after->next = q;
	else
		queue->head = q;
	sl_cond_signal(&s->mover_wake);
}

void
sl_request_remove(struct sl_request_queue *queue, struct sl_request *q)
{
	if (q->prev)
		q->prev->next = q->next;
	else
		queue->head = q->next;
	if (q->next)
		q->next->prev = q->prev;
	else
		queue->tail = q->prev;
	q->next = q->prev = NULL;
}

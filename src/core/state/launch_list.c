/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of launches: prepared ones, host scopes, and the mover's queue. What they pin, what they
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

int
sl_scope_holds(const struct sl_chunk *c)
{
	uint64_t index = sl_chunk_index(c);

	for (const struct sluice_launch *l = c->region->space->scopes; l; l = l->next) {
		if (l->unpinned)
			continue;
		for (size_t k = 0; k < l->n_uses; k++) {
			const struct sl_launch_use *u = &l->uses[k];

			if (u->region == c->region && index >= u->first && index <= u->last)
				return 1;
		}
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
	for (size_t k = 0; !l->discard && k < l->n_uses; k++) {
		if (sl_use_overwrites(&l->uses[k], c))
			return 1;
	}
	return 0;
}

int
sl_overwrite_is_pending(const struct sl_chunk *c)
{
	const struct sluice_space *s = c->region->space;

	if (s->preparing && launch_overwrites(s->preparing, c))
		return 1;
	for (const struct sluice_launch *l = s->queue_head; l; l = l->next) {
		if (launch_overwrites(l, c))
			return 1;
	}
	for (const struct sluice_launch *l = s->prepared; l; l = l->next) {
		if (launch_overwrites(l, c))
			return 1;
	}
	return 0;
}

/* In the order of the calls: a launch that gave its pins back comes before what was called later. A
 * discard has the number of the launch before it. */
void
sl_launch_queue(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	struct sluice_launch *after = s->queue_tail;

	while (after && (after->number > l->number ||
			 (after->number == l->number && after->discard && !l->discard)))
		after = after->prev;
	l->prev = after;
	l->next = after ? after->next : s->queue_head;
	if (l->next)
		l->next->prev = l;
	else
		s->queue_tail = l;
	if (after)
		after->next = l;
	else
		s->queue_head = l;
	sl_cond_signal(&s->mover_wake);
}

void
sl_launch_unqueue(struct sluice_space *s, struct sluice_launch *l)
{
	if (l->prev)
		l->prev->next = l->next;
	else
		s->queue_head = l->next;
	if (l->next)
		l->next->prev = l->prev;
	else
		s->queue_tail = l->prev;
	l->next = l->prev = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of a space's events (core/events.h). The other files of the pager say what happens; here
 * it becomes a record. sl_events_take() copies records out in batches, so that the space lock is
 * held for microseconds.
 *
 * The last copies in have their fences here, so that a launch which is held back for a fence can
 * name the move.
 *
 * LOCKING: all of it under space->lock, but for what is public.
 */
#include <errno.h>
#include <string.h>

#include "core/state/state.h"

#define FENCES      512u  /* more than a device has copies under way */
#define WAIT_MIN_NS 2000u /* who slept at all took longer */

struct sl_events {
	uint64_t head, tail; /* count up; head: written */
	uint64_t lost;       /* since the last sl_events_take() */
	uint64_t ids;
	struct {
		uint64_t value, id;
	} fences[FENCES]; /* of copies in; by value */
	size_t room;
	struct sl_event ring[];
};

int
sl_events_open(struct sluice_space *space, size_t room)
{
	struct sl_events *events;
	int rc = sl_space_enterable(space);

	if (rc)
		return rc;
	events = sl_calloc(1, sizeof(*events) + room * sizeof(events->ring[0]));
	if (!events)
		return sl_fail(-ENOMEM, "events: out of memory");
	events->room = room;
	sl_space_lock(space);
	if (space->events)
		rc = sl_fail(-EEXIST, "events: somebody has opened them");
	else
		space->events = events;
	sl_space_unlock(space);
	if (rc)
		free(events);
	return rc;
}

void
sl_events_close(struct sluice_space *space)
{
	struct sl_events *events;

	if (sl_space_forked(space))
		return;
	sl_space_lock(space);
	events = space->events;
	space->events = NULL;
	sl_space_unlock(space);
	free(events);
}

size_t
sl_events_take(struct sluice_space *space, struct sl_event *out, size_t max, uint64_t *lost)
{
	struct sl_events *e;
	size_t n = 0;

	*lost = 0;
	if (sl_space_forked(space))
		return 0;
	sl_space_lock(space);
	e = space->events;
	if (e) {
		for (; n < max && e->tail < e->head; e->tail++)
			out[n++] = e->ring[e->tail % e->room];
		*lost = e->lost;
		e->lost = 0;
	}
	sl_space_unlock(space);
	return n;
}

/* The next record, with what each has; NULL: there is no room. */
SL_HELD static struct sl_event *
event_add(const struct sluice_space *s, enum sl_event_kind kind)
{
	struct sl_events *e = s->events;
	struct sl_event *event;

	if (e->head - e->tail == e->room) {
		e->lost++;
		return NULL;
	}
	event = &e->ring[e->head++ % e->room];
	memset(event, 0, sizeof(*event));
	event->kind = (uint16_t)kind;
	event->ns = sl_now_ns();
	event->used_bytes[SLUICE_TIER_DEVICE] = s->dev.used_bytes;
	event->used_bytes[SLUICE_TIER_HOST] = s->host.settled_bytes;
	event->used_bytes[SLUICE_TIER_STORE] = s->spilled_bytes;
	event->budget_bytes[SLUICE_TIER_DEVICE] = s->dev.budget_bytes;
	event->budget_bytes[SLUICE_TIER_HOST] = s->host.budget_bytes;
	return event;
}

uint64_t
sl_event_now(const struct sluice_space *s)
{
	return __builtin_expect(s->events != NULL, 0) ? sl_now_ns() : 0;
}

uint64_t
sl_event_begin(const struct sl_chunk *c, enum sluice_counter counter, uint64_t bytes,
	       uint64_t since, const struct sluice_launch *l)
{
	const struct sluice_space *s = c->region->space;
	struct sl_event *event;

	if (__builtin_expect(!s->events, 1))
		return 0;
	event = event_add(s, SL_EVENT_BEGIN);
	if (!event)
		return 0;
	if (since)
		event->ns = since;
	event->id = ++s->events->ids;
	event->what = (uint16_t)counter;
	event->bytes = (int64_t)bytes;
	event->launch = l ? l->request.number : 0;
	event->addr = (uintptr_t)sl_chunk_addr(c);
	return event->id;
}

SL_HELD static void
move_over(struct sluice_space *s, uint64_t id, enum sl_event_kind kind, int rc,
	  struct sl_copy_time at)
{
	struct sl_event *event = id && s->events ? event_add(s, kind) : NULL;

	if (!event)
		return;
	event->id = id;
	event->rc = rc;
	if (!at.end_ns)
		return;
	event->since = at.begin_ns;
	event->ns = at.end_ns;
}

void
sl_event_end(struct sluice_space *s, uint64_t id, int rc)
{
	move_over(s, id, SL_EVENT_END, rc, (struct sl_copy_time){0, 0});
}

void
sl_event_end_at(struct sluice_space *s, uint64_t id, int rc, struct sl_copy_time at)
{
	move_over(s, id, SL_EVENT_END, rc, at);
}

void
sl_event_undo(struct sluice_space *s, uint64_t id)
{
	move_over(s, id, SL_EVENT_UNDO, 0, (struct sl_copy_time){0, 0});
}

void
sl_event_fence(struct sluice_space *s, uint64_t id, struct sl_fence fence)
{
	if (!id || !s->events || fence.queue != SL_COPIES_IN)
		return;
	s->events->fences[fence.value % FENCES].value = fence.value;
	s->events->fences[fence.value % FENCES].id = id;
}

void
sl_event_hold(const struct sluice_launch *l, struct sl_fence fence)
{
	const struct sluice_space *s = l->space;
	struct sl_event *event;

	if (__builtin_expect(!s->events, 1) || fence.queue != SL_COPIES_IN ||
	    s->events->fences[fence.value % FENCES].value != fence.value)
		return;
	event = event_add(s, SL_EVENT_HOLD);
	if (!event)
		return;
	event->id = s->events->fences[fence.value % FENCES].id;
	event->launch = l->request.number;
}

void
sl_event_waited(struct sluice_space *s, enum sl_wait_reason reason, uint64_t since)
{
	struct sl_event *event = NULL;

	if (since && s->events && sl_now_ns() - since >= WAIT_MIN_NS)
		event = event_add(s, SL_EVENT_WAIT);
	if (!event)
		return;
	event->what = (uint16_t)reason;
	event->since = since;
	event->thread = sl_thread_number(s);
}

void
sl_events_waited(struct sluice_space *s, enum sl_wait_reason reason, uint64_t since)
{
	if (sl_space_enter(s))
		return;
	sl_event_waited(s, reason, since);
	sl_space_unlock(s);
}

/* Counters of bytes that change their place without a move. The others have sl_event_begin(), or count no
 * bytes of a place. */
static int
counts_a_place(enum sluice_counter counter)
{
	return counter == SLUICE_COUNTER_CLEAN_DROP ||
	       counter == SLUICE_COUNTER_DISCARD_SAVED ||
	       counter == SLUICE_COUNTER_ZERO_FILL;
}

void
sl_event_count(struct sluice_space *s, enum sluice_counter counter, uint64_t bytes)
{
	struct sl_event *event = counts_a_place(counter) ? event_add(s, SL_EVENT_COUNT)
							 : NULL;

	if (!event)
		return;
	event->what = (uint16_t)counter;
	event->bytes = (int64_t)bytes;
}

uint64_t
sl_launch_number(const struct sluice_launch *launch)
{
	return launch->request.number;
}

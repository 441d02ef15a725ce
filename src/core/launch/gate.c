/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of a space that shares its device with other programs: launches wait here while the program is
 * suspended, while others have the turn, and for room that others are giving up. The thread of
 * core/api/share.c opens and shuts it.
 *
 * What has passed finds its room: as long as something is in flight, the budget does not become less than
 * the largest of these launches needs at once (sl_device_shrink()).
 *
 * Threads: any. LOCKING: all of it under space->lock; what waits drops it.
 */
#include "core/launch/launch.h"
#include "share/member.h"

#define SHUT    (SL_GATE_SUSPENDED | SL_GATE_TURN)
/* Whoever waits is woken. This bounds only how long a lost wake-up would last. */
#define LOOK_NS UINT64_C(1000000000)

/* Whoever has a scope open holds what others wait for: it does not wait. */
SL_HELD static int
scope_is_own(const struct sluice_space *s)
{
	pid_t thread = s->scopes ? sl_thread_number(s) : 0;

	for (const struct sluice_launch *l = s->scopes; l; l = l->next)
		if (l->host_scope == SL_SCOPE_HELD && l->owner == thread)
			return 1;
	return 0;
}

/* Until it has the turn. */
SL_HELD static void
gate_wait(struct sluice_space *s)
{
	uint64_t since = sl_event_now(s);

	if (s->gate.shut & SL_GATE_TURN)
		sl_count(s, SLUICE_COUNTER_TURN_WAITS, 1);
	s->gate.waiting++;
	while (s->gate.shut & SHUT)
		sl_ignore(sl_launch_wait_until(s, sl_now_ns() + LOOK_NS));
	s->gate.waiting--;
	sl_event_waited(s, SL_WAIT_TURN, since);
}

/* Room comes, and it needs some that is not there yet. */
SL_HELD static int
room_is_coming(const struct sluice_space *s, uint64_t bytes)
{
	return s->gate.shut == SL_GATE_ROOM && s->dev.budget_bytes < s->gate.grow_bytes &&
	       s->dev.budget_bytes < s->dev.used_bytes + bytes;
}

/* Until the budget is that large: 1. 0: it will not be soon. */
SL_HELD static int
budget_await(struct sluice_space *s, uint64_t bytes)
{
	uint64_t refusals = s->gate.refusals;

	s->gate.waiting++;
	while (bytes + s->dev.pinned_bytes > s->dev.budget_bytes &&
	       !(s->gate.shut & SHUT) && refusals == s->gate.refusals) {
		if (s->gate.asked_bytes < bytes + s->dev.pinned_bytes) {
			s->gate.asked_bytes = bytes + s->dev.pinned_bytes;
			sl_cond_signal(&s->gate.wake);
		}
		sl_ignore(sl_launch_wait_until(s, sl_now_ns() + LOOK_NS));
	}
	s->gate.waiting--;
	return refusals == s->gate.refusals;
}

/* As sl_gate_pass(), of so many bytes that are needed at once. */
SL_HELD static int
gate_pass(struct sluice_space *s, uint64_t bytes, int *refused)
{
	if (s->gate.shut & SHUT) {
		gate_wait(s);
		return 1;
	}
	if (room_is_coming(s, bytes)) {
		s->gate.waiting++;
		while (room_is_coming(s, bytes))
			sl_ignore(sl_launch_wait_until(s, sl_now_ns() + LOOK_NS));
		s->gate.waiting--;
		return 1;
	}
	if (!*refused && bytes + s->dev.pinned_bytes > s->dev.budget_bytes) {
		*refused = !budget_await(s, bytes);
		return 1;
	}
	return 0;
}

int
sl_gate_pass(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	uint64_t bytes;

	if (!s->gate.is_there)
		return 0;
	bytes = sl_launch_needs(l);
	if (!scope_is_own(s) && gate_pass(s, bytes, &l->gate_refused))
		return 1;
	if (bytes > s->gate.need_bytes)
		s->gate.need_bytes = bytes;
	return 0;
}

int
sl_gate_pass_pin(struct sluice_space *s, uint64_t bytes)
{
	int refused = 0;

	if (!s->gate.is_there || scope_is_own(s) || !gate_pass(s, bytes, &refused))
		return 0;
	return !refused; /* else it says itself that there is no room */
}

int
sl_gate_squeeze(struct sluice_space *s)
{
	uint64_t number;

	if (!s->gate.is_there)
		return 0;
	sl_space_lock(s);
	number = ++s->gate.squeezes_asked;
	sl_cond_signal(&s->gate.wake);
	while (s->gate.squeezes_done < number)
		sl_ignore(sl_launch_wait_until(s, sl_now_ns() + LOOK_NS));
	sl_space_unlock(s);
	return 1;
}

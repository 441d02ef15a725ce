/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member's turns (turn.h), and its gates. Without the turn the gate is shut: launches of the program wait.
 * Who gets the turn finds some room, and the rest as others give it up, step by step. Until then a launch
 * waits for room of its own, so that the program takes out nothing that it needs soon. The gate is shut only
 * when nothing runs any more that no launch has pinned. So work that waits for a thread at the gate holds up
 * no step.
 *
 * Threads: one at a time for each member. Nothing blocks.
 */
#include "base/clock.h"
#include "share/member_internal.h"

/* A program has a low where at least such a part of its memory is free then; and is there within half of that
 * part of the difference. Larger: a low is missed between two looks. Smaller: more is moved out. */
#define LOW_PART  4u
/* Bytes a second. Room that came faster was free, not moved out: the next turn may not end at such a moment. A
 * link of PCIe 5. Larger: turns become shorter, and end in the middle of a step. */
#define LINK_MOST UINT64_C(64000000000)

void
sl_member_gate_set(struct sl_member *m, enum sl_member_gate why, int shut)
{
	unsigned gates = shut ? m->gates | (unsigned)why : m->gates & ~(unsigned)why;

	if (gates == m->gates)
		return;
	m->gates = gates;
	m->ops->gate(m->arg, why, shut);
}

static void
grow_end(struct sl_member *m, uint64_t now)
{
	struct sl_member_growth *grows = &m->grows;
	uint64_t grown, ns = now - grows->since_ns;

	if (!grows->since_ns)
		return;
	grown = grows->has_bytes - grows->from_bytes;
	/* Less tells more of looks than of copies. */
	if (grows->has_bytes > grows->from_bytes + m->total_bytes / m->settings.steps && ns)
		grows->rate = (uint64_t)((double)grown * 1e9 / (double)ns) + 1;
	if (grows->rate > LINK_MOST)
		grows->rate = LINK_MOST;
	grows->since_ns = 0;
	sl_member_gate_set(m, SL_GATE_ROOM, 0);
}

/* What its share still lacks, of what it can use. */
static uint64_t
room_to_come(const struct sl_member *m)
{
	const struct sl_share_claim *own = &m->row.claim;
	uint64_t to = m->shares[m->me];

	if (to > own->want_bytes)
		to = own->want_bytes;
	to = to / m->chunk_bytes * m->chunk_bytes;
	return to > own->has_bytes ? to - own->has_bytes : 0;
}

/* Room comes, until all is there or nobody gives any. */
static void
grow_look(struct sl_member *m, uint64_t now)
{
	struct sl_member_growth *grows = &m->grows;
	uint64_t has = m->row.claim.has_bytes, more = room_to_come(m);

	if (!grows->since_ns) {
		if (now < grows->stuck_until_ns || !more ||
		    !sl_share_comes(m->claims, m->shares, m->n, m->me, has + more))
			return;
		grows->since_ns = grows->grew_ns = now;
		grows->from_bytes = grows->has_bytes = has;
		atomic_store(&m->grow_to, has + more);
		sl_member_gate_set(m, SL_GATE_ROOM, 1);
		return;
	}
	if (has > grows->has_bytes)
		grows->grew_ns = now;
	grows->has_bytes = has;
	atomic_store(&m->grow_to, has + more);
	if (now - grows->grew_ns > ASK_NS)
		grows->stuck_until_ns = now + GIVE_NS;
	if (!more || now < grows->stuck_until_ns ||
	    (sl_member_budget_next(m) <= has &&
	     !sl_share_comes(m->claims, m->shares, m->n, m->me, has + more)))
		grow_end(m, now);
}

static void
turn_give_up(struct sl_member *m, uint64_t now)
{
	grow_end(m, now);
	sl_turn_give_up(&m->turn, &m->row.claim);
	sl_ignore(sl_member_row_write(m)); /* the owner was told */
}

/* If the rows still say so under the book's lock. */
static void
turn_take(struct sl_member *m, uint64_t now)
{
	struct sl_share_claim *own = &m->row.claim;
	uint64_t waited = own->turn.waits_ns;
	int locked = sl_book_lock(m->book);

	if (!sl_member_rows_read(m)) {
		sl_member_shares_find(m);
		if (m->turns.next == m->me) {
			sl_turn_take(&m->turn, own, sl_turn_newest(m->claims, m->n), now);
			m->wants.least_bytes = UINT64_MAX;
			m->ripe_told = 0;
			sl_member_shares_find(m); /* with the turn */
			own->turn.swap_ns = (uint64_t)((double)room_to_come(m) * 1e9 /
						       (double)m->grows.rate);
			if (sl_member_row_write(m))
				sl_turn_give_up(&m->turn, own);
		}
	}
	if (locked && m->book)
		sl_book_unlock(m->book);
	if (!own->turn.has)
		return;
	m->ops->count(m->arg, SL_MEMBER_WAITED, waited);
	m->ops->count(m->arg, SL_MEMBER_TURN, 1);
}

/*
 * Whether the program has as little allocated as it ever has in its turn: a step of training has a third of its
 * memory between two steps. What has been freed need not be moved out.
 */
static int
is_low(const struct sl_member *m)
{
	uint64_t least = m->wants.least_bytes, most = m->row.claim.want_bytes;

	return most > least && most - least >= most / LOW_PART &&
	       m->wants.last_bytes <= least + (most - least) / (2 * LOW_PART);
}

void
sl_member_turn_follow(struct sl_member *m)
{
	struct sl_share_claim *own = &m->row.claim;
	const struct sl_turns *turns = &m->turns;
	uint64_t now = sl_now_ns();
	int shut;

	if (own->turn.has && turns->is_ripe && !m->ripe_told++)
		m->ops->count(m->arg, SL_MEMBER_RIPE,
			      m->wants.least_bytes < own->want_bytes ? m->wants.least_bytes
								     : own->want_bytes);
	if (own->turn.has &&
	    (turns->holder != m->me || turns->is_over || (turns->is_ripe && is_low(m)))) {
		turn_give_up(m, now);
		sl_member_shares_find(m);
	}
	if (turns->next == m->me && m->book)
		turn_take(m, now);
	shut = turns->takes[m->me] && turns->holder != m->me;
	if (shut || own->is_idle || own->is_suspended)
		grow_end(m, now);
	else
		grow_look(m, now);
	sl_member_gate_set(m, SL_GATE_TURN, shut && m->ops->is_settled(m->arg));
}

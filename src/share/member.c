/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member of a book (member.h): joining, what it says of its program at a look, and asking for room.
 *
 * Threads: one at a time for each member. A look blocks on copies.
 */
#include "share/member.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "share/member_internal.h"

/* How soon an idle program gives way, against 0.1 % of a processor. */
#define ROUND_NS       (10 * MS)
/* Alone: how soon the first newcomer is seen, against waking a sleeping machine. */
#define ROUND_ALONE_NS (100 * MS)
/* While room comes, or the turn is ripe: how soon the next step is taken, or the moment seen, against 1 to 2 % of
 * a processor for so long. */
#define ROUND_GROW_NS  (2 * MS)
#define BEAT_NS \
	(100 * MS) /* the row is written at least so often: book.h, rule of who is away */
/* Nothing launched for so long: idle. Shorter: a program that loads its next batch loses memory. Longer:
 * who launches waits. */
#define IDLE_NS    (500 * MS)
/* What a program wants is the most that it had allocated in one to two spans of this length. A step of training
 * allocates and frees most of its memory. Shorter: a slow step looks like several programs of changing size,
 * and others grow into what its next part needs. Longer: what it has freed for good is kept for it. */
#define WANT_NS    (10000 * MS)
/* Who asks for more than there is without others asks for a part of the GPU more: 640 MiB of 80 GiB. Each asking
 * takes 20 ms: a program that grows by 2.7 GiB asked 35 times (2026-11-27, H100). Larger: others give up what
 * nobody uses. */
#define ASK_PARTS  128u
/* Free memory is measured so often. The driver's lock is taken for it, so not in every round. */
#define MEASURE_NS (100 * MS)
#define GIVEN_NS \
	(1000 * MS) /* the driver takes what was given up for it at once, or not at all */
#define STUCK_NS \
	(1000 * MS) /* a budget that could not shrink is not tried again before */
#define REJOIN_NS    (1000 * MS)
/* Bytes a second at which room comes, before it was seen: a link of PCIe 4. Only the first turn depends on it. */
#define SWAP_RATE    UINT64_C(25000000000)
/* Who has the turn, and launches nothing for as long as a swap takes, passes it on: then waiting on would have
 * cost as much. At least so long: launches come in bursts. */
#define TURN_IDLE_NS (20 * MS)

/* ---- joining ---- */

int
sl_member_join(struct sl_member *m, const struct sl_member_settings *settings,
	       const struct sl_member_ops *ops, void *arg, uint64_t *most)
{
	struct sl_share_claim *own = &m->row.claim;
	int rc;

	m->settings = *settings;
	if (!m->settings.steps)
		m->settings.steps = STEPS;
	if (!m->settings.idle_ns)
		m->settings.idle_ns = IDLE_NS;
	m->ops = ops;
	m->arg = arg;
	snprintf(m->name, sizeof(m->name), "%s", settings->name);
	own->limit_bytes = settings->limit_bytes;
	own->weight = settings->weight;
	own->turn.never = settings->takes_no_turns;
	own->turn.patience_ns = settings->patience_ns ? settings->patience_ns
						      : SL_MEMBER_PATIENCE_NS;
	m->row.leave_bytes = settings->leave_bytes;
	m->grows.rate = SWAP_RATE;
	rc = sl_member_book_join(m);
	if (!rc)
		rc = sl_member_rows_read(m);
	if (rc)
		return rc;
	sl_member_taken_measure(m);
	if (m->n_taken) {
		sl_member_shares_find(m);
		*most = atomic_load(&m->most_bytes);
		return 0;
	}
	sl_member_leave(m);
	return sl_fail(-EIO, "the driver does not say how much memory is free");
}

uint64_t
sl_member_first(struct sl_member *m, uint64_t chunk_bytes)
{
	struct sl_share_claim *own = &m->row.claim;
	int locked = m->book && sl_book_lock(m->book);

	m->chunk_bytes = chunk_bytes;
	own->least_bytes = m->ops->least(m->arg);
	if (!sl_member_rows_read(m)) {
		sl_member_shares_find(m);
		own->has_bytes = sl_member_budget_next(m);
		sl_ignore(sl_member_row_write(m)); /* it is said, and tried again */
	} else {
		own->has_bytes = own->least_bytes;
	}
	if (locked && m->book)
		sl_book_unlock(m->book);
	return own->has_bytes;
}

size_t
sl_member_crowd(const struct sl_member *m)
{
	uint64_t least = 0;

	for (size_t i = 0; i < m->n; i++)
		least += m->claims[i].least_bytes;
	return least > m->room_bytes ? m->n : 0;
}

void
sl_member_start(struct sl_member *m)
{
	m->launched_ns = m->wants.looked_ns = sl_now_ns();
	m->row.claim.is_suspended = m->settings.is_suspended;
	sl_member_gate_set(m, SL_GATE_SUSPENDED, m->settings.is_suspended);
}

void
sl_member_leave(struct sl_member *m)
{
	sl_book_close(atomic_exchange(&m->book, NULL));
}

void
sl_member_forked(struct sl_member *m)
{
	struct sl_book *book = atomic_load(&m->book);

	if (book)
		sl_book_forked(book);
}

/* ---- what the program does ---- */

/* Nothing launched for so long: idle. */
static uint64_t
idle_after(const struct sl_member *m)
{
	const struct sl_turn_claim *turn = &m->row.claim.turn;

	if (!turn->has || turn->swap_ns > IDLE_NS)
		return m->settings.idle_ns;
	return turn->swap_ns > TURN_IDLE_NS ? turn->swap_ns : TURN_IDLE_NS;
}

/* Idle: nothing was launched for some time, and what was launched before is done. */
static void
idle_find(struct sl_member *m, uint64_t now)
{
	uint64_t launches = m->ops->launches(m->arg);

	if (launches != m->row.launches || !m->launched_ns || m->ops->is_busy(m->arg)) {
		m->row.launches = launches;
		m->row.claim.is_idle = 0;
		m->launched_ns = now;
		if (m->ops->is_back)
			m->ops->is_back(m->arg);
		return;
	}
	if (m->row.claim.is_idle || now - m->launched_ns < idle_after(m) ||
	    !m->ops->is_done(m->arg))
		return;
	m->row.claim.is_idle = 1;
}

/* The last order stands until there is another one. One that is not in the book any more was lost with it, or
 * damaged, and is put there again; or it is just being replaced, as a second look tells. */
static void
order_read(struct sl_member *m)
{
	struct sl_book_order order;

	if (!m->book || sl_book_order_read(m->book, &order))
		return;
	if (order.number || !m->order.number) {
		if (order.number != m->order.number) /* who gives it waits for what can be done now */
			m->stuck_ns = 0;
		m->order = order;
		m->order_misses = 0;
	} else if (m->order_misses++) {
		sl_ignore(sl_book_order_keep(m->book, &m->order)); /* it is tried again */
	}
}

/* The gate of a suspended program is shut here. It opens when the budget has followed. */
static void
order_look(struct sl_member *m)
{
	const struct sl_book_order *order = &m->order;
	int suspended = m->settings.is_suspended;

	order_read(m);
	m->row.claim.limit_bytes = m->settings.limit_bytes;
	if (order->number) {
		suspended = order->suspend != 0;
		if (order->limit_bytes < m->settings.limit_bytes)
			m->row.claim.limit_bytes = order->limit_bytes;
	}
	m->row.claim.is_suspended = (uint8_t)suspended;
	if (suspended)
		sl_member_gate_set(m, SL_GATE_SUSPENDED, 1);
}

/* What it has allocated counts as wanted for a while. Time in which it may not work does not count. */
static uint64_t
want_find(struct sl_member *m, uint64_t bytes, uint64_t now)
{
	struct sl_member_peak *wants = &m->wants;

	if (!(m->gates & (SL_GATE_TURN | SL_GATE_SUSPENDED)))
		wants->span_ns += now - wants->looked_ns;
	wants->looked_ns = now;
	wants->last_bytes = bytes;
	if (bytes < wants->least_bytes)
		wants->least_bytes = bytes;
	if (wants->span_ns > WANT_NS) {
		wants->before_bytes = wants->now_bytes;
		wants->now_bytes = wants->span_ns = 0;
	}
	if (bytes > wants->now_bytes)
		wants->now_bytes = bytes;
	return wants->now_bytes > wants->before_bytes ? wants->now_bytes
						      : wants->before_bytes;
}

/* What the row says of the program now. */
static void
row_fill(struct sl_member *m, uint64_t now)
{
	struct sl_share_claim *own = &m->row.claim;
	uint64_t waited;

	own->held_bytes = m->ops->held(m->arg);
	own->want_bytes = want_find(m, m->ops->want(m->arg), now);
	own->least_bytes = m->ops->least(m->arg);
	if (m->stuck_ns && now - m->stuck_ns < STUCK_NS)
		own->least_bytes = own->has_bytes;
	if (m->row.giving_bytes && now - m->given_ns > GIVEN_NS)
		m->row.giving_bytes = 0;
	idle_find(m, now);
	waited = own->turn.waits_ns;
	sl_turn_look(&m->turn, own, m->gates & SL_GATE_TURN && m->ops->waits(m->arg), now);
	if (waited && !own->turn.waits_ns)
		m->ops->count(m->arg, SL_MEMBER_WAITED, waited);
}

/* ---- a look ---- */

/* Tries to be in a book again, without a word if it is not. */
static void
member_rejoin(struct sl_member *m, uint64_t now)
{
	if (now - m->rejoined_ns < REJOIN_NS)
		return;
	m->rejoined_ns = now;
	if (!sl_member_book_join(m))
		m->lost_told = 0;
}

static void
budget_follow(struct sl_member *m)
{
	uint64_t next;

	if (!m->book || sl_member_rows_read(m)) { /* nobody is known who could have the turn */
		sl_member_gate_set(m, SL_GATE_TURN, 0);
		return;
	}
	sl_member_shares_find(m);
	if (!m->settings.takes_no_turns)
		sl_member_turn_follow(m);
	next = sl_member_budget_next(m);
	if (next > m->row.claim.has_bytes)
		sl_member_budget_raise(m);
	else if (next < m->row.claim.has_bytes)
		sl_member_budget_lower(m, next);
}

uint64_t
sl_member_look(struct sl_member *m)
{
	struct sl_book_row before = m->row;
	uint64_t now = sl_now_ns();

	m->gives = 0;
	if (!m->book)
		member_rejoin(m, now);
	order_look(m);
	row_fill(m, now);
	if (memcmp(&before, &m->row, sizeof(before)) || now - m->written_ns > BEAT_NS)
		sl_ignore(sl_member_row_write(m)); /* the owner was told */
	if (now - m->measured_ns > MEASURE_NS && m->book && !sl_member_rows_read(m))
		sl_member_taken_measure(m);
	budget_follow(m);
	if (!m->row.claim.is_suspended) /* it has its room again, or waits for it */
		sl_member_gate_set(m, SL_GATE_SUSPENDED, 0);
	if (m->gives)
		return 0;
	if (m->grows.since_ns || (m->turns.is_ripe && m->row.claim.turn.has))
		return ROUND_GROW_NS;
	return m->n > 1 ? ROUND_NS : ROUND_ALONE_NS;
}

/* ---- asking ---- */

void
sl_member_ask_begin(struct sl_member_ask *ask, uint64_t bytes)
{
	ask->bytes = bytes;
	ask->until_ns = sl_now_ns() + ASK_NS;
	ask->least_bytes = UINT64_MAX;
}

/* Others have to give way: then for a step at once, if all of it is there. The shares are found. */
static void
ask_for_step(struct sl_member *m, uint64_t bytes)
{
	struct sl_share_claim *own = &m->row.claim;
	uint64_t exact = own->want_bytes;

	bytes += m->total_bytes / ASK_PARTS / m->chunk_bytes * m->chunk_bytes;
	if (bytes <= exact || sl_member_budget_next(m) >= exact)
		return;
	own->want_bytes = bytes;
	sl_member_shares_find(m);
	if (m->shares[m->me] >= bytes) {
		own->want_bytes = want_find(m, bytes, sl_now_ns());
		return;
	}
	own->want_bytes = exact;
	sl_member_shares_find(m);
}

int
sl_member_ask(struct sl_member *m, struct sl_member_ask *ask)
{
	struct sl_share_claim *own = &m->row.claim;
	uint64_t others = 0;

	if (!m->book || sl_member_rows_read(m))
		return 0;
	own->held_bytes = m->ops->held(m->arg);
	own->want_bytes = want_find(m, ask->bytes, sl_now_ns());
	own->is_idle = 0;
	m->launched_ns = sl_now_ns();
	sl_member_shares_find(m);
	ask_for_step(m, ask->bytes);
	if (sl_member_row_write(m))
		return 0;
	if (sl_member_budget_next(m) > own->has_bytes)
		sl_member_budget_raise(m);
	for (size_t i = 0; i < m->n; i++)
		if (i != m->me)
			others += m->rows[i].claim.has_bytes;
	if (others < ask->least_bytes) { /* somebody has given something */
		ask->least_bytes = others;
		ask->until_ns = sl_now_ns() + ASK_NS;
	}
	m->claims[m->me] = *own;
	return sl_share_comes(m->claims, m->shares, m->n, m->me, ask->bytes) &&
	       sl_now_ns() < ask->until_ns;
}

int
sl_member_cut(struct sl_member *m, uint64_t bytes, uint64_t giving)
{
	uint64_t least = SL_MEMBER_LEAST_CHUNKS * m->chunk_bytes;

	bytes = bytes / m->chunk_bytes * m->chunk_bytes;
	if (bytes < least)
		bytes = least;
	m->row.giving_bytes += giving;
	m->given_ns = sl_now_ns();
	return bytes < m->row.claim.has_bytes &&
	       !sl_member_budget_set(m, bytes, m->given_ns + GIVE_NS);
}

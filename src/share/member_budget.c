/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member's budget (member.h). It grows in one go, under the book's lock, so that two do not grow into the
 * same room. It shrinks step by step, so that others get the first part while the rest is being moved out.
 *
 * Threads: one at a time for each member. Shrinking blocks on copies.
 */
#include <errno.h>

#include "base/clock.h"
#include "share/member_internal.h"

#define SLACK_CHUNKS 2u /* one comes in while one goes out */

uint64_t
sl_member_budget_next(const struct sl_member *m)
{
	const struct sl_share_claim *own = &m->row.claim;
	uint64_t next = sl_share_next(m->claims, m->shares, m->n, m->me, m->room_bytes);

	next = next / m->chunk_bytes * m->chunk_bytes;
	return next > own->least_bytes ? next : own->least_bytes;
}

void
sl_member_budget_raise(struct sl_member *m)
{
	struct sl_share_claim *own = &m->row.claim;
	uint64_t before = own->has_bytes;
	int locked = m->book && sl_book_lock(m->book);

	if (!sl_member_rows_read(m)) {
		sl_member_shares_find(m);
		own->has_bytes = sl_member_budget_next(m);
		if (own->has_bytes < before || sl_member_row_write(m))
			own->has_bytes = before;
	}
	if (locked && m->book)
		sl_book_unlock(m->book);
	if (own->has_bytes == before)
		return;
	if (m->ops->grow(m->arg, own->has_bytes)) {
		own->has_bytes = before;
		sl_ignore(sl_member_row_write(m)); /* as in the next round */
		return;
	}
	m->ops->count(m->arg, SL_MEMBER_RAISED, 1);
}

int
sl_member_budget_set(struct sl_member *m, uint64_t budget, uint64_t until_ns)
{
	uint64_t before = m->row.claim.has_bytes, got = budget;
	int rc = m->ops->shrink(m->arg, budget, until_ns, &got);

	if (rc == -EAGAIN && got < before)
		rc = 0; /* launches hold the rest */
	if (rc)
		return rc;
	m->row.claim.has_bytes = got;
	m->row.claim.held_bytes = m->ops->held(m->arg);
	m->ops->count(m->arg, SL_MEMBER_LOWERED, 1);
	sl_ignore(sl_member_row_write(m)); /* as in the next round */
	return 0;
}

/*
 * Host memory and disk are full, so the program keeps what it has. And two chunks more than it holds, once: else
 * data could not change places, as what comes in frees the place for what goes out. Nobody has to give them:
 * they are less than what is left to the driver.
 */
void
sl_member_stuck(struct sl_member *m)
{
	struct sl_share_claim *own = &m->row.claim;
	uint64_t held = m->ops->held(m->arg);

	if (!m->stuck_told++)
		m->ops->count(m->arg, SL_MEMBER_STUCK, 1);
	if (!m->slack_bytes && held <= own->has_bytes)
		m->slack_bytes = held / m->chunk_bytes * m->chunk_bytes +
				 SLACK_CHUNKS * m->chunk_bytes;
	if (own->has_bytes < m->slack_bytes && m->slack_bytes <= m->settings.limit_bytes &&
	    !m->ops->grow(m->arg, m->slack_bytes))
		own->has_bytes = m->slack_bytes;
	own->held_bytes = held;
	own->least_bytes = own->has_bytes;
	m->stuck_ns = sl_now_ns();
	sl_ignore(sl_member_row_write(m)); /* as in the next round */
}

void
sl_member_budget_lower(struct sl_member *m, uint64_t next)
{
	uint64_t has = m->row.claim.has_bytes, chunk = m->chunk_bytes;
	uint64_t held = m->ops->held(m->arg);
	uint64_t step = m->total_bytes / m->settings.steps / chunk * chunk + chunk, to;
	int rc;

	/* What it does not hold costs nothing to give up. */
	to = held / chunk * chunk > step ? held / chunk * chunk - step : 0;
	if (to > has)
		to = has > step ? has - step : 0;
	rc = sl_member_budget_set(m, to > next ? to : next, sl_now_ns() + SL_MEMBER_STEP_NS);
	m->gives = !rc && m->row.claim.has_bytes > next;
	if (!rc)
		m->slack_bytes = 0;
	if (rc && rc != -EAGAIN && rc != -EBUSY)
		sl_member_stuck(m);
}

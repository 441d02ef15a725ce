/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member's row in the book, and what the book and the GPU say of all (member.h): how much room there is
 * for those in the book, and the share of each.
 *
 * Threads: one at a time for each member. Nothing blocks, but on the driver.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "share/member_internal.h"

/* ---- the row ---- */

/* Without the book the program keeps what it has. */
static void
book_lose(struct sl_member *m)
{
	if (!m->lost_told++)
		m->ops->count(m->arg, SL_MEMBER_LOST, 1);
	sl_book_close(atomic_exchange(&m->book, NULL));
	m->rejoined_ns = sl_now_ns();
}

int
sl_member_book_join(struct sl_member *m)
{
	struct sl_book *book;
	int rc = sl_book_open(NULL, m->name, &book);

	if (rc)
		return rc;
	rc = sl_book_join(book, &m->row);
	if (rc)
		sl_book_close(book);
	else
		atomic_store(&m->book, book);
	return rc;
}

int
sl_member_row_write(struct sl_member *m)
{
	int rc = m->book ? sl_book_write(m->book, &m->row) : -ENOENT;

	if (rc && m->book)
		book_lose(m);
	m->written_ns = sl_now_ns();
	return rc;
}

int
sl_member_rows_read(struct sl_member *m)
{
	int rc = m->book ? sl_book_read(m->book, m->rows, &m->n, &m->me) : -ENOENT;

	if (rc) {
		if (m->book)
			book_lose(m);
		return rc;
	}
	if (m->me == m->n) { /* damaged: it is written again */
		if (m->n == SL_BOOK_ROWS)
			return -ENOSPC;
		m->n++;
	}
	m->rows[m->me] = m->row;
	return 0;
}

/* ---- how much there is ---- */

void
sl_member_taken_measure(struct sl_member *m)
{
	uint64_t held = 0, free_bytes, total_bytes;

	for (size_t i = 0; i < m->n; i++)
		held += m->rows[i].claim.held_bytes;
	if (m->settings.total_bytes) {
		total_bytes = m->settings.total_bytes;
		free_bytes = held < total_bytes ? total_bytes - held : 0;
	} else if (m->ops->memory(m->arg, &free_bytes, &total_bytes)) {
		return;
	}
	m->total_bytes = total_bytes;
	held += free_bytes;
	m->taken[m->n_taken++ % SL_MEMBER_MEASURES] = held < total_bytes ? total_bytes - held
									 : 0;
	m->measured_ns = sl_now_ns();
}

/* What all programs of the book may have together. One that is alone, and whose user has said how much, may
 * take it from the driver's reserve, too. */
static uint64_t
room_find(const struct sl_member *m)
{
	unsigned n = m->n_taken < SL_MEMBER_MEASURES ? m->n_taken : SL_MEMBER_MEASURES;
	uint64_t limit = m->n == 1 && m->settings.limit_bytes != UINT64_MAX
				 ? m->settings.limit_bytes
				 : 0;
	uint64_t taken = UINT64_MAX, leave = 0, giving = 0, rest;

	for (unsigned i = 0; i < n; i++)
		if (m->taken[i] < taken)
			taken = m->taken[i];
	for (size_t i = 0; i < m->n; i++) {
		giving += m->rows[i].giving_bytes;
		if (m->rows[i].leave_bytes > leave)
			leave = m->rows[i].leave_bytes;
	}
	rest = taken < m->total_bytes ? m->total_bytes - taken : 0;
	rest = rest > leave ? rest - leave : 0;
	if (limit > rest)
		limit = rest;
	if (m->settings.usable)
		rest = m->settings.usable(rest);
	if (rest < limit)
		rest = limit;
	return rest > giving ? rest - giving : 0;
}

void
sl_member_shares_find(struct sl_member *m)
{
	uint64_t limit = m->row.claim.limit_bytes;

	m->rows[m->me] = m->row;
	for (size_t i = 0; i < m->n; i++)
		m->claims[i] = m->rows[i].claim;
	m->room_bytes = room_find(m);
	m->row.room_bytes = m->room_bytes;
	sl_shares_decide(m->claims, m->n, m->room_bytes, m->shares, &m->turns);
	atomic_store(&m->most_bytes, limit < m->room_bytes ? limit : m->room_bytes);
}

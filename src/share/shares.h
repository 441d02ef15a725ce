/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of a GPU's memory each program gets: pure functions of what all programs say of
 * themselves (book.h). Every program computes the same, and acts on its own budget alone.
 *
 * Threads: any. Nothing blocks, nothing is kept.
 */
#ifndef SL_SHARE_SHARES_H
#define SL_SHARE_SHARES_H

#include <stddef.h>
#include <stdint.h>

#include "share/turn.h"

/* What one program says. Bytes of device memory. */
struct sl_share_claim {
	uint64_t want_bytes; /* all that it had allocated at once lately would be on the device */
	uint64_t has_bytes;   /* its budget now: it may take as much without asking */
	uint64_t held_bytes;  /* what it has taken from the driver */
	uint64_t limit_bytes; /* it never gets more; UINT64_MAX: no bound */
	uint64_t least_bytes; /* below that it cannot work */
	uint32_t weight;      /* parts of memory that is short; 0 counts as 1 */
	uint8_t is_idle; /* it has launched nothing for some time, and its GPU work is done */
	uint8_t is_suspended; /* it gets its least */
	uint8_t is_away; /* it does not answer (stopped): its budget stays as it is */
	uint8_t padding;
	struct sl_turn_claim turn;
};

/*
 * The share of each of n programs in room bytes. In this order:
 * 1. Each gets its least, as far as there is room for that of all.
 * 2. Those that launch get what they want. If it is more than there is, each gets as much as the
 *    others, by weight, and nobody more than it wants.
 * 3. Those that are idle get what they want, of what is left, in the same way.
 * 4. What is left then is spare: those that launch may grow into it; if nobody launches, all.
 * If those that launch do not fit, they take turns (turn.h). Who waits for its turn gets as much as one that
 * is idle; so does one that does not answer.
 * The sum is at most room. No share is above its limit. shares: n of them, SL_SHARES_MAX at most.
 */
void sl_shares_decide(const struct sl_share_claim *claims, size_t n, uint64_t room_bytes,
		      uint64_t *shares, struct sl_turns *turns);

/*
 * The next budget of program me, with the shares as decided. It grows at most into room that nobody
 * has. It shrinks only if somebody lacks memory, so that spare memory does not wander.
 */
uint64_t sl_share_next(const struct sl_share_claim *claims, const uint64_t *shares,
		       size_t n, size_t me, uint64_t room_bytes);

/* 1: others have to give way before program me can have bytes, and will: waiting is worth it. */
int sl_share_comes(const struct sl_share_claim *claims, const uint64_t *shares, size_t n,
		   size_t me, uint64_t bytes);

#endif

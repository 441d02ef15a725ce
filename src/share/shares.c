/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of a GPU's memory (shares.h): max-min fair by weight, in four stages. A stage fills those
 * that take part up to a cap each, beyond what earlier stages gave them.
 *
 * Threads: any. Nothing blocks.
 */
#include "share/shares.h"

#include <stdbool.h>

enum stage { STAGE_WANT, STAGE_IDLE_WANT, STAGE_SPARE, STAGE_IDLE_SPARE, STAGE_COUNT };

static uint64_t
lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t
weight_of(const struct sl_share_claim *claim)
{
	return claim->weight ? claim->weight : 1;
}

/* What it can use: all that it wants, within its limit. */
static uint64_t
usable(const struct sl_share_claim *claim)
{
	return lesser(claim->want_bytes, claim->limit_bytes);
}

/* What is to be divided. turns: as far as they are known. */
struct division {
	const struct sl_share_claim *claims;
	size_t n;
	const struct sl_turns *turns;
	uint64_t left;
};

static bool
gives_way(const struct division *d, size_t i)
{
	return d->claims[i].is_idle || d->claims[i].is_away ||
	       (d->turns->takes[i] && i != d->turns->holder);
}

/* How far a stage fills a program; 0: it does not take part. */
static uint64_t
stage_cap(const struct division *d, size_t i, enum stage stage)
{
	bool idle_stage = stage == STAGE_IDLE_WANT || stage == STAGE_IDLE_SPARE;
	const struct sl_share_claim *claim = &d->claims[i];

	if (claim->is_suspended || idle_stage != gives_way(d, i))
		return 0;
	return stage == STAGE_SPARE || stage == STAGE_IDLE_SPARE ? claim->limit_bytes
								 : usable(claim);
}

/* One round: those that need no more than their part get it. If there is none, each gets its part.
 * 1: a round more may give more. */
static int
stage_round(struct division *d, enum stage stage, uint64_t *shares)
{
	uint64_t weights = 0, unit;
	int filled = 0;

	for (size_t i = 0; i < d->n; i++)
		if (shares[i] < stage_cap(d, i, stage))
			weights += weight_of(&d->claims[i]);
	if (!weights || d->left < weights)
		return 0;
	unit = d->left / weights;
	for (size_t i = 0; i < d->n; i++) {
		uint64_t cap = stage_cap(d, i, stage), weight = weight_of(&d->claims[i]);

		if (shares[i] >= cap || (cap - shares[i]) / weight > unit)
			continue;
		if (cap - shares[i] > d->left) /* its part and a rest of less than its weight */
			continue;
		d->left -= cap - shares[i];
		shares[i] = cap;
		filled = 1;
	}
	for (size_t i = 0; i < d->n && !filled; i++) {
		if (shares[i] >= stage_cap(d, i, stage))
			continue;
		shares[i] += unit * weight_of(&d->claims[i]);
		d->left -= unit * weight_of(&d->claims[i]);
	}
	return filled;
}

static void
room_divide(struct division *d, uint64_t *shares)
{
	uint64_t room_bytes = d->left;

	for (size_t i = 0; i < d->n; i++) {
		const struct sl_share_claim *claim = &d->claims[i];

		shares[i] = lesser(lesser(claim->least_bytes, claim->limit_bytes),
				   room_bytes / d->n);
		d->left -= shares[i];
	}
	for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
		for (size_t round = 0; round <= d->n; round++) /* each but the last fills one */
			if (!stage_round(d, stage, shares))
				break;
}

void
sl_shares_decide(const struct sl_share_claim *claims, size_t n, uint64_t room_bytes,
		 uint64_t *shares, struct sl_turns *turns)
{
	struct division d = {claims, n, turns, room_bytes};

	turns->n = 0;
	turns->holder = SIZE_MAX;
	for (size_t i = 0; i < n; i++)
		turns->takes[i] = 0;
	room_divide(&d, shares);
	sl_turns_find(claims, shares, n, room_bytes, turns);
	if (!turns->n)
		return;
	d.left = room_bytes;
	room_divide(&d, shares);
}

/* What nobody else may count on. Who does not answer takes no more than it has taken. */
static uint64_t
claimed(const struct sl_share_claim *claim)
{
	return claim->is_away ? lesser(claim->held_bytes, claim->has_bytes)
			      : claim->has_bytes;
}

static uint64_t
claimed_by_others(const struct sl_share_claim *claims, size_t n, size_t me)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		if (i != me && __builtin_add_overflow(sum, claimed(&claims[i]), &sum))
			return UINT64_MAX;
	return sum;
}

/* It has less than it can use and is to have. */
static bool
lacks(const struct sl_share_claim *claim, uint64_t share)
{
	return !claim->is_away && claim->has_bytes < lesser(share, usable(claim));
}

uint64_t
sl_share_next(const struct sl_share_claim *claims, const uint64_t *shares, size_t n,
	      size_t me, uint64_t room_bytes)
{
	uint64_t has = claims[me].has_bytes, others = claimed_by_others(claims, n, me);
	uint64_t free_bytes = room_bytes > others ? room_bytes - others : 0;

	if (shares[me] > has)
		return free_bytes > has ? lesser(shares[me], free_bytes) : has;
	if (has > free_bytes || claims[me].is_suspended || has > claims[me].limit_bytes)
		return shares[me];
	for (size_t i = 0; i < n; i++)
		if (i != me && lacks(&claims[i], shares[i]))
			return shares[me];
	return has;
}

int
sl_share_comes(const struct sl_share_claim *claims, const uint64_t *shares, size_t n,
	       size_t me, uint64_t bytes)
{
	if (shares[me] < bytes || claims[me].has_bytes >= bytes)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (i != me && !claims[i].is_away && claims[i].has_bytes > shares[i] &&
		    claims[i].has_bytes > claims[i].least_bytes)
			return 1;
	return 0;
}

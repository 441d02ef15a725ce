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

/* How far a stage fills a program; 0: it does not take part. */
static uint64_t
stage_cap(const struct sl_share_claim *claim, enum stage stage)
{
	bool idle_stage = stage == STAGE_IDLE_WANT || stage == STAGE_IDLE_SPARE;

	if (claim->is_suspended || idle_stage != (claim->is_idle != 0))
		return 0;
	return stage == STAGE_SPARE || stage == STAGE_IDLE_SPARE ? claim->limit_bytes
								 : usable(claim);
}

/* One round: those that need no more than their part get it. If there is none, each gets its part.
 * 1: a round more may give more. */
static int
stage_round(const struct sl_share_claim *claims, size_t n, enum stage stage,
	    uint64_t *left, uint64_t *shares)
{
	uint64_t weights = 0, unit;
	int filled = 0;

	for (size_t i = 0; i < n; i++)
		if (shares[i] < stage_cap(&claims[i], stage))
			weights += weight_of(&claims[i]);
	if (!weights || *left < weights)
		return 0;
	unit = *left / weights;
	for (size_t i = 0; i < n; i++) {
		uint64_t cap = stage_cap(&claims[i], stage);

		if (shares[i] >= cap || (cap - shares[i]) / weight_of(&claims[i]) > unit)
			continue;
		if (cap - shares[i] > *left) /* its part and a rest of less than its weight */
			continue;
		*left -= cap - shares[i];
		shares[i] = cap;
		filled = 1;
	}
	for (size_t i = 0; i < n && !filled; i++) {
		if (shares[i] >= stage_cap(&claims[i], stage))
			continue;
		shares[i] += unit * weight_of(&claims[i]);
		*left -= unit * weight_of(&claims[i]);
	}
	return filled;
}

void
sl_shares_decide(const struct sl_share_claim *claims, size_t n, uint64_t room_bytes,
		 uint64_t *shares)
{
	uint64_t left = room_bytes;

	for (size_t i = 0; i < n; i++) {
		shares[i] = lesser(lesser(claims[i].least_bytes, claims[i].limit_bytes),
				   room_bytes / n);
		left -= shares[i];
	}
	for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
		for (size_t round = 0; round <= n; round++) /* each but the last fills one */
			if (!stage_round(claims, n, stage, &left, shares))
				break;
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
		if (i != me && !claims[i].is_away && claims[i].has_bytes > shares[i])
			return 1;
	return 0;
}

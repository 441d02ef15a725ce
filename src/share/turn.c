/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns (turn.h). Their length is a bargain of two: what swapping costs, and how long others wait.
 *
 * The order: who has waited longest is next. Short work comes before it, once between two other turns.
 * So nobody starves, and the wait has a bound:
 * - A turn is at most a part by weight of four fifths of the least patience, of all others' parts.
 * - A turn for short work has a quarter of the shortest of these. One fifth pays for all of them.
 *
 * Threads: any. Nothing blocks.
 */
#include "share/turn.h"

#include <stdbool.h>
#include <string.h>

#include "share/shares.h"

#define NOBODY         SIZE_MAX
#define MS             UINT64_C(1000000)
/* A turn has so many halves of the time of its swap: swapping costs 8 % of it. More halves: others wait
 * longer. Fewer: more of the time goes into swapping. */
#define SWAP_HALVES    25u
/* Shorter turns end in the middle of a step of training, where more has to be moved out. Longer: people wait.
 * Two programs with steps of 0.15 s (stand-in driver) took 1.03 times as long as one after the other with this,
 * and 1.06 with 0.2 s. */
#define LENGTH_MIN_NS  (1000 * MS)
/* From one's turn to the next one's: each looks every 10 ms. It is taken off the patience. */
#define PASS_NS        (20 * MS)
/* The part of the patience that is for turns by weight; the rest is for short work. */
#define WEIGHED_FIFTHS 4u
/* Short work has such a part of a turn. Larger: it is done more often in one go. Smaller: it holds up others
 * for less. */
#define SHORT_PART     4u
/* From such a part of its turn on, the holder looks for the moment at which it has least to move out. Earlier:
 * more turns. Later: a step of the program may be longer than what is left. */
#define RIPE_QUARTERS  3u
/* A holder that does not give up its turn for so long beyond its length has lost it. Longer than a step of
 * giving way takes, which holds up its thread. Then others go on so much later. */
#define OVERDUE_NS     (1000 * MS)
/* Who wants at most such a part of the room launches at any time. Larger: more programs run without a wait.
 * Smaller: who has the turn has more memory. */
#define SMALL_PART     8u

static uint64_t
turn_weight(const struct sl_share_claim *claim)
{
	return claim->weight ? claim->weight : 1;
}

static uint64_t
turn_wants(const struct sl_share_claim *claim)
{
	return claim->want_bytes < claim->limit_bytes ? claim->want_bytes
						      : claim->limit_bytes;
}

static bool
launches(const struct sl_share_claim *claim)
{
	return !claim->turn.never && !claim->is_idle && !claim->is_suspended &&
	       !claim->is_away;
}

/* ---- who takes turns ---- */

/* Of those that would run beside turns: the one that wants most, of these the last. */
static size_t
largest_beside(const struct sl_share_claim *claims, size_t n, uint64_t room_bytes,
	       const struct sl_turns *turns)
{
	size_t found = NOBODY;

	for (size_t i = 0; i < n; i++)
		if (launches(&claims[i]) && !turns->takes[i] &&
		    turn_wants(&claims[i]) > room_bytes / SMALL_PART &&
		    (found == NOBODY || turn_wants(&claims[i]) >= turn_wants(&claims[found])))
			found = i;
	return found;
}

/* Whether the largest of those that take turns has room beside what runs at any time, and beside the least of
 * the others. */
static bool
largest_fits(const struct sl_share_claim *claims, size_t n, uint64_t room_bytes,
	     const struct sl_turns *turns)
{
	uint64_t sum = 0, most = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t wants = turn_wants(&claims[i]), bytes = claims[i].least_bytes;

		if (turns->takes[i] && wants > most)
			most = wants;
		if (!turns->takes[i] && launches(&claims[i]))
			bytes = wants;
		if (__builtin_add_overflow(sum, bytes, &sum))
			return false;
	}
	return !__builtin_add_overflow(sum, most, &sum) && sum <= room_bytes;
}

static void
takers_find(const struct sl_share_claim *claims, const uint64_t *shares, size_t n,
	    uint64_t room_bytes, struct sl_turns *turns)
{
	for (size_t i = 0; i < n; i++)
		if (launches(&claims[i]) && shares[i] < turn_wants(&claims[i])) {
			turns->takes[i] = 1;
			turns->n++;
		}
	while (turns->n && !largest_fits(claims, n, room_bytes, turns)) {
		size_t more = largest_beside(claims, n, room_bytes, turns);

		if (more == NOBODY)
			break;
		turns->takes[more] = 1;
		turns->n++;
	}
	if (turns->n < 2) {
		memset(turns->takes, 0, n);
		turns->n = 0;
	}
}

/* ---- how long ---- */

static uint64_t
shorter(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A turn of weight 1 by what others wait. */
static uint64_t
patience_unit(const struct sl_share_claim *claims, size_t n, const struct sl_turns *turns,
	      uint64_t *least_weight)
{
	uint64_t weights = 0, least = UINT64_MAX, patience = UINT64_MAX, passes;

	for (size_t i = 0; i < n; i++) {
		if (!turns->takes[i])
			continue;
		weights += turn_weight(&claims[i]);
		least = shorter(least, turn_weight(&claims[i]));
		if (claims[i].turn.patience_ns)
			patience = shorter(patience, claims[i].turn.patience_ns);
	}
	*least_weight = least;
	passes = 2 * turns->n * PASS_NS; /* a short turn may come between any two */
	patience = patience > 2 * passes ? patience - passes : patience / 2;
	if (weights <= least) /* two or more take turns: it cannot be */
		return patience;
	return patience / 5 * WEIGHED_FIFTHS / (weights - least);
}

/* Of any turn of this program but for short work. */
static uint64_t
length_of(const struct sl_share_claim *claims, size_t n, const struct sl_turns *turns,
	  size_t who)
{
	uint64_t least, unit = patience_unit(claims, n, turns, &least), length, longest;

	if (__builtin_mul_overflow(claims[who].turn.swap_ns, SWAP_HALVES, &length))
		length = UINT64_MAX;
	length /= 2;
	if (length < LENGTH_MIN_NS)
		length = LENGTH_MIN_NS;
	if (__builtin_mul_overflow(length, turn_weight(&claims[who]), &length))
		length = UINT64_MAX;
	length /= least;
	if (__builtin_mul_overflow(unit, turn_weight(&claims[who]), &longest))
		longest = UINT64_MAX;
	return shorter(length, longest);
}

/* Of a turn for short work; and what any turn has before such work ends it. */
static uint64_t
short_length(const struct sl_share_claim *claims, size_t n, const struct sl_turns *turns,
	     size_t who)
{
	uint64_t least, unit = patience_unit(claims, n, turns, &least);

	return shorter(length_of(claims, n, turns, who), unit * least) / SHORT_PART;
}

/* ---- whose turn ---- */

/* It wants the turn and can take it. */
static bool
waits(const struct sl_share_claim *claims, const struct sl_turns *turns, size_t i)
{
	return turns->takes[i] && i != turns->holder && claims[i].turn.waits_ns;
}

static size_t
holder_find(const struct sl_share_claim *claims, size_t n, const struct sl_turns *turns)
{
	size_t found = NOBODY;

	for (size_t i = 0; i < n; i++)
		if (turns->takes[i] && claims[i].turn.has &&
		    (found == NOBODY || claims[i].turn.number > claims[found].turn.number))
			found = i;
	return found;
}

/* Whether the newest turn of all was for short work: another one is then first. */
static bool
newest_was_short(const struct sl_share_claim *claims, size_t n)
{
	size_t newest = 0;

	for (size_t i = 1; i < n; i++)
		if (claims[i].turn.number > claims[newest].turn.number)
			newest = i;
	return claims[newest].turn.was_short;
}

static bool
goes_before(const struct sl_turn_claim *a, const struct sl_turn_claim *b, bool short_first)
{
	if (a->is_short != b->is_short)
		return short_first == (a->is_short != 0);
	return a->waits_ns > b->waits_ns;
}

/* The first of those that wait. */
static size_t
first_find(const struct sl_share_claim *claims, size_t n, const struct sl_turns *turns)
{
	bool short_first = !newest_was_short(claims, n);
	size_t found = NOBODY;

	for (size_t i = 0; i < n; i++)
		if (waits(claims, turns, i) &&
		    (found == NOBODY ||
		     goes_before(&claims[i].turn, &claims[found].turn, short_first)))
			found = i;
	return found;
}

/* Turns begin: who has most of the memory goes first, as nothing has to be moved for it. One that does not take
 * the turn while the first of those that wait does so for a while is passed over. */
static size_t
most_find(const struct sl_share_claim *claims, size_t n, const struct sl_turns *turns,
	  size_t first)
{
	size_t found = first;

	if (first == NOBODY || claims[first].turn.waits_ns > OVERDUE_NS)
		return first;
	for (size_t i = 0; i < n; i++)
		if (turns->takes[i] && claims[i].held_bytes > claims[found].held_bytes)
			found = i;
	return found;
}

void
sl_turns_find(const struct sl_share_claim *claims, const uint64_t *shares, size_t n,
	      uint64_t room_bytes, struct sl_turns *turns)
{
	const struct sl_turn_claim *held;
	size_t first;

	memset(turns, 0, sizeof(*turns));
	turns->holder = turns->next = NOBODY;
	takers_find(claims, shares, n, room_bytes, turns);
	if (!turns->n)
		return;
	turns->holder = holder_find(claims, n, turns);
	first = first_find(claims, n, turns);
	if (turns->holder == NOBODY) {
		turns->next = sl_turn_newest(claims, n)
				      ? first
				      : most_find(claims, n, turns, first);
		return;
	}
	held = &claims[turns->holder].turn;
	turns->length_ns = held->was_short ? short_length(claims, n, turns, turns->holder)
					   : length_of(claims, n, turns, turns->holder);
	if (first == NOBODY)
		return;
	if (claims[first].turn.is_short)
		turns->length_ns = shorter(turns->length_ns,
					   short_length(claims, n, turns, turns->holder));
	turns->is_ripe = held->had_ns >= turns->length_ns / 4 * RIPE_QUARTERS;
	turns->is_over = held->had_ns >= turns->length_ns;
	if (turns->is_over && held->had_ns - turns->length_ns > OVERDUE_NS)
		turns->next = first;
}

/* ---- its own ---- */

void
sl_turn_look(struct sl_turn_own *own, struct sl_share_claim *claim, int waiting,
	     uint64_t now_ns)
{
	struct sl_turn_claim *turn = &claim->turn;

	if (claim->is_idle)
		own->was_idle = 1;
	turn->had_ns = turn->has ? now_ns - own->began_ns : 0;
	if (!waiting || turn->has) {
		own->waits_since_ns = turn->waits_ns = 0;
		turn->is_short = 0;
		return;
	}
	if (!own->waits_since_ns) {
		own->waits_since_ns = now_ns;
		turn->is_short = (uint8_t)own->was_idle;
	}
	turn->waits_ns = now_ns - own->waits_since_ns + 1; /* 0 says that it does not wait */
}

void
sl_turn_take(struct sl_turn_own *own, struct sl_share_claim *claim, uint64_t newest,
	     uint64_t now_ns)
{
	struct sl_turn_claim *turn = &claim->turn;

	turn->number = newest + 1;
	turn->has = 1;
	turn->was_short = turn->is_short;
	turn->is_short = 0;
	turn->had_ns = turn->waits_ns = 0;
	own->began_ns = now_ns;
	own->waits_since_ns = 0;
	own->was_idle = 0;
}

void
sl_turn_give_up(struct sl_turn_own *own, struct sl_share_claim *claim)
{
	claim->turn.has = 0;
	claim->turn.had_ns = 0;
	own->began_ns = 0;
}

uint64_t
sl_turn_newest(const struct sl_share_claim *claims, size_t n)
{
	uint64_t newest = 0;

	for (size_t i = 0; i < n; i++)
		if (claims[i].turn.number > newest)
			newest = claims[i].turn.number;
	return newest;
}

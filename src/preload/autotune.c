/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing a strategy. Prefetching may not pay: it takes room from what is used now, and a program
 * whose kernels each use most of the device is faster without. A launch that lacks room has a
 * choice as well: wait for an early eviction, which keeps what should stay (a loop over more than
 * the device holds is nearly twice as fast), or evict the least recently used chunk now, so that
 * the link is never idle (a training step is a tenth faster). All strategies are tried, and the
 * fastest is kept.
 *
 * A program repeats itself after a period of so many scopes (base/period.c). A span is one period,
 * or the smallest multiple of it that is long enough. Only whole spans are compared: a part of an
 * iteration can be fast because another part pays its moves.
 *   - A trial is one span in which a strategy settles and two that count. It ends at once when one
 *     of them is much slower.
 *   - The kept strategy is tried against the others in turn, "no prefetch" last, since that costs
 *     most.
 *   - Trials begin after HOLD_MIN spans, when spans no longer become faster by themselves (host
 *     memory is being pinned, functions are being learnt).
 *   - The more often a strategy was kept, the rarer the trials: they cost some spans of hundreds.
 *   - After a change the previous strategy is tried again at once: its spans may have been
 *     measured while the program was still settling.
 * A span that was interrupted says nothing. Spans of different lengths are not compared.
 */
#include "preload/autotune.h"
#include "base/size.h"

#define SPAN_SCOPES  64u
#define SEEK_SCOPES  256u              /* a period is looked for so often */
#define SPAN_NS      UINT64_C(2000000) /* what takes less is noise */
#define HOLD_MIN     3u
#define HOLD_CHANGED 1u /* beside the two of the trial */
#define HOLD_MAX     768u
#define HOLD_GROWS   4u
#define TRIAL_SPANS \
	8u /* as long as so many: a trial is given up, the program does something else */

/* In percent of the time of the way that is kept. */
#define FASTER  97u
#define SLOWER  110u
#define SETTLES 130u /* the first span of a trial */
/* Of the span before: what becomes so much faster has not settled. */
#define STEADY  90u

static uint64_t
percent(uint64_t ns, unsigned share)
{
	return ns / 100 * share;
}

static uint64_t
kept_ns(const struct pl_autotune *t)
{
	return t->took[0] / 2 + t->took[1] / 2;
}

static void
trial_begin(struct pl_autotune *t)
{
	t->trying = 1;
	t->kept = t->way;
	t->way = (enum pl_strategy)(
		t->turn + (t->turn >= (unsigned)t->way)); /* the others, first to last */
	t->turn = (t->turn + 1) % (PL_STRATEGIES - 1);
	t->spans = 0;
	t->limit = t->begin + (TRIAL_SPANS + 1) * t->length;
}

/* The way that was tried is kept from now on, or not. */
static void
trial_end(struct pl_autotune *t, int faster, uint64_t last_ns)
{
	t->trying = 0;
	t->spans = 0;
	if (faster) {
		t->took[0] = last_ns;
		t->took[1] = t->first_ns;
		t->hold = t->changed ? HOLD_MIN : HOLD_CHANGED;
		t->changed = 1;
		t->turn = 0;
		return;
	}
	t->way = t->kept;
	t->took[0] = t->took[1] = 0; /* it has to settle again */
	if (t->hold < HOLD_MAX)
		t->hold *= HOLD_GROWS;
}

static void
span_over(struct pl_autotune *t, uint64_t ns)
{
	if (ns < SPAN_NS)
		return;
	if (t->length != t->length_before) {
		if (t->trying)
			trial_end(t, 0, ns);
		t->took[0] = t->took[1] = 0;
		t->spans = 0;
		t->turn = 0;
		t->hold = HOLD_MIN;
		t->changed = 0;
		t->length_before = t->length;
	}
	t->spans++;
	if (!t->trying) {
		t->took[1] = t->took[0];
		t->took[0] = ns;
		if (t->took[1] && t->spans >= t->hold && ns >= percent(t->took[1], STEADY))
			trial_begin(t);
	} else if (ns > percent(kept_ns(t), t->spans == 1 ? SETTLES : SLOWER)) {
		trial_end(t, 0, ns);
	} else if (t->spans == 2) {
		t->first_ns = ns;
	} else if (t->spans == 3) {
		trial_end(t, t->first_ns / 2 + ns / 2 < percent(kept_ns(t), FASTER), ns);
	}
}

int
pl_autotune_asks(const struct pl_autotune *t, uint64_t number)
{
	return number >= t->begin + t->length;
}

enum pl_strategy
pl_autotune_step(struct pl_autotune *t, uint64_t number, uint64_t period, uint64_t now_ns)
{
	if (t->trying && number >= t->limit)
		trial_end(t, 0, 0);
	if (!pl_autotune_asks(t, number))
		return t->way;
	if (t->period && period)
		span_over(t, now_ns - t->begin_ns);
	t->period = period;
	t->begin = number;
	t->begin_ns = now_ns;
	t->length = period ? sl_round_up(SPAN_SCOPES, period) : SEEK_SCOPES;
	return t->way;
}

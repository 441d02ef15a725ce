/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing a strategy. Prefetching may not pay: it takes room from what is used now, and a program
 * whose kernels each use most of the device is faster without. A launch that lacks room has a
 * choice as well: wait for an early eviction, which keeps what should stay (a loop over more than
 * the device holds is nearly twice as fast), or evict the least recently used chunk now, so that
 * the link is never idle (a training step is a tenth faster). All strategies are tried, and the
 * fastest is kept. So is whether data that compression makes smaller by little are compressed on
 * their way out: fewer bytes cross the link, but our kernels take the GPU from the program's.
 *
 * A program repeats itself after a period of so many scopes (base/period.c). A span is one period,
 * or the smallest multiple of it that is long enough. Only whole spans are compared: a part of an
 * iteration can be fast because another part pays its moves.
 *   - A trial is one span in which a strategy settles and two that count. It ends as soon as the
 *     first has taken much longer, or one that counts as long. One span alone can be fast by chance.
 *   - What is kept is tried against what differs in one of the two, in turn: first in what is
 *     compressed, if that makes a difference. "No prefetch" is last, since that costs most.
 *   - Trials begin after HOLD spans, when spans no longer become faster by themselves (host
 *     memory is being pinned, functions are being learnt).
 *   - The more often a strategy was kept, the rarer the trials: they cost some spans of hundreds.
 *   - After a change the previous strategy is tried again at once: its spans may have been
 *     measured while the program was still settling.
 * A span that was interrupted says nothing. A trial that was is begun anew after the next whole span:
 * a prompt between two texts is not the fault of what was tried. The second time it counts as lost. Spans
 * of different lengths are not compared.
 */
#include "predict/autotune.h"
#include "base/size.h"
#include "predict/past.h"

/* Launches of a span, at least. Fewer: its time is noise. A period is looked for after four times as many. */
#define SPAN_LAUNCHES 64u
/* A span that takes less is noise. Longer: short programs are not timed. */
#define SPAN_NS       UINT64_C(2000000)
/* Spans of a strategy until others are tried, as many times more after each trial that changed nothing, at
 * most the fifth power of it. Fewer: spans are compared that still become faster by themselves. More: a
 * slow strategy lasts longer. */
#define HOLD          3u
/* A strategy is kept if it is faster by so many percent. Less: noise changes it. More: a better one is not
 * taken. */
#define FASTER        3u

static uint64_t
kept_ns(const struct sl_autotune *t)
{
	return t->took[0] / 2 + t->took[1] / 2;
}

static int
is_faster(const struct sl_autotune *t, uint64_t ns)
{
	return ns < kept_ns(t) / 100 * (100 - FASTER);
}

/* A span of so many ns cannot win the trial any more. */
static int
trial_is_lost(const struct sl_autotune *t, uint64_t ns)
{
	return ns > kept_ns(t) + (t->spans ? 0 : 3 * kept_ns(t) / SL_TENTH);
}

static void
trial_begin(struct sl_autotune *t)
{
	t->trying = 1;
	t->kept = t->way;
	if (!t->turn && !t->may_encode_more)
		t->turn = 1;
	if (t->turn) {
		unsigned other = t->turn - 1; /* of the other strategies, first to last */

		t->way.strategy = (enum sl_strategy)(other +
						     (other >= (unsigned)t->way.strategy));
	} else {
		t->way.encodes_more = !t->way.encodes_more;
	}
	t->spans = 0;
	t->limit = t->begin + (2 * HOLD + 1) * t->length;
}

/* The way that was tried is kept from now on, or not. */
static void
trial_end(struct sl_autotune *t, int faster, uint64_t last_ns)
{
	t->trying = 0;
	t->again = 0;
	t->spans = 0;
	if (faster) {
		t->took[0] = last_ns;
		t->took[1] = t->first_ns;
		t->hold = t->changed ? HOLD : 1; /* the first change is questioned at once */
		t->changed = 1;
		t->turn = t->way.strategy != t->kept.strategy;
		return;
	}
	t->way = t->kept;
	t->turn = (t->turn + 1) % SL_STRATEGIES;
	t->took[0] = t->took[1] = 0; /* it has to settle again */
	if (t->hold < HOLD * HOLD * HOLD * HOLD * HOLD)
		t->hold *= HOLD;
}

static void
trial_interrupted(struct sl_autotune *t)
{
	if (t->again) {
		trial_end(t, 0, 0);
		return;
	}
	t->trying = 0;
	t->again = 1;
	t->way = t->kept;
	t->spans = t->hold; /* due */
}

static void
span_over(struct sl_autotune *t, uint64_t ns)
{
	if (ns < SPAN_NS)
		return;
	if (t->length != t->length_before) {
		if (t->trying)
			trial_end(t, 0, ns);
		t->took[0] = t->took[1] = 0;
		t->spans = 0;
		t->turn = 0;
		t->hold = HOLD;
		t->changed = 0;
		t->length_before = t->length;
	}
	if (t->trying && trial_is_lost(t, ns)) {
		trial_end(t, 0, ns);
		return;
	}
	t->spans++;
	if (!t->trying) {
		t->took[1] = t->took[0];
		t->took[0] = ns;
		if (t->took[1] && t->spans >= t->hold &&
		    ns >= t->took[1] - t->took[1] / SL_TENTH)
			trial_begin(t);
	} else if (t->spans > 1 && !is_faster(t, ns)) {
		trial_end(t, 0, ns);
	} else if (t->spans == 2) {
		t->first_ns = ns;
	} else if (t->spans > 2) {
		trial_end(t, 1, ns);
	}
}

/* What is tried has taken too long before its span is over. */
static int
span_is_lost(const struct sl_autotune *t, uint64_t now_ns)
{
	return t->trying && t->period && t->length == t->length_before &&
	       trial_is_lost(t, now_ns - t->begin_ns);
}

int
sl_autotune_asks(const struct sl_autotune *t, uint64_t number, uint64_t now_ns)
{
	return number >= t->begin + t->length || span_is_lost(t, now_ns);
}

struct sl_autotune_way
sl_autotune_step(struct sl_autotune *t, uint64_t number, uint64_t period, uint64_t now_ns)
{
	int lost;

	if (t->trying && number >= t->limit)
		trial_end(t, 0, 0);
	if (!sl_autotune_asks(t, number, now_ns))
		return t->way;
	lost = span_is_lost(t, now_ns);
	if (t->trying && t->period && !period)
		trial_interrupted(t);
	else if (lost)
		trial_end(t, 0, 0);
	else if (t->period && period)
		span_over(t, now_ns - t->begin_ns);
	t->period = period;
	t->begin = number;
	t->begin_ns = now_ns;
	t->length = period ? sl_round_up(SPAN_LAUNCHES, period) : 4 * SPAN_LAUNCHES;
	return t->way;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts that a trace shows by itself: its launches repeat, and some tensors keep their contents
 * from one repetition to the next.
 *
 * Two launches are alike if they have the same name and use tensors of the same sizes with the
 * same intents. The identity of tensors does not matter, since programs free and allocate anew
 * in every step. The period is the one whose whole repetitions cover most of the trace's end,
 * and more than half of it. (A program warms up at its begin.) Of several the shortest is taken.
 * If nothing repeats up to the end (a program looks at its results there), the end is left out,
 * a sixteenth of the trace at a time. A period begins where the least memory is allocated, since
 * live data there count as kept from period to period. Launches are compared by a hash of 64
 * bits: a wrong guess costs time, never a result.
 *
 * trace_cut.c makes a trace of one of these periods.
 *
 * Threads: a trace is worked on by one thread at a time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/period.h"
#include "trace/trace.h"

/* ---- periods ---- */

static uint64_t
period_launch_hash(const struct sl_trace *trace, uint32_t k)
{
	const struct sl_trace_launch *launch = &trace->launches[k];
	uint64_t hash = sl_hash_add(launch->n_uses, launch->name);

	for (uint32_t i = 0; i < launch->n_uses; i++) {
		const struct sl_trace_use *use = &trace->uses[launch->first_use + i];

		hash = sl_hash_add(hash, trace->tensors[use->tensor].size_bytes);
		hash = sl_hash_add(hash, (uint64_t)use->intent);
	}
	return hash;
}

#define CUTS \
	8u /* sixteenths of the trace that are left out at its end, at most, less one */

/* Launches that repeat: every one of first + period ... end - 1 is like the one a period before. */
struct run {
	uint32_t period, first, end; /* period 0: nothing repeats */
};

static void
run_find(const uint64_t *from_end, uint32_t *match, uint32_t n, struct run *run)
{
	run->period = 0;
	for (uint32_t cut = 0; cut < CUTS && !run->period; cut++) {
		uint32_t left_out = (uint32_t)((uint64_t)n * cut / 16);

		if (cut && !left_out)
			continue;
		run->period = sl_period_find(from_end + left_out, n - left_out, n / 2 + 1,
					     match);
		if (!run->period)
			continue;
		run->end = n - left_out;
		run->first = run->end - run->period - match[run->period];
		/* from_end[n - 1 - k] is of launch k */
		while (run->end < n && from_end[n - 1 - run->end] ==
					       from_end[n - 1 - run->end + run->period])
			run->end++;
	}
}

/* Where the first period of the run begins: at *begin, unless less memory is allocated before another launch. */
static int
begin_choose(const struct sl_trace *trace, const struct run *run, uint32_t *begin)
{
	/* In the middle of the run: its begin and end may differ from the rest. */
	uint32_t middle = run->first + (run->end - run->first) / run->period / 2 * run->period;
	uint64_t *alive = calloc(run->period + (size_t)1, sizeof(*alive)), least;
	uint32_t best;

	if (!alive)
		return sl_fail(-ENOMEM, "trace: no memory for a period of %u launches",
			       run->period);
	if (middle + run->period > run->end)
		middle -= run->period;
	/* At the border before launch b is alive what was allocated before an earlier launch, and is freed before
	 * a later one: what happens right before b belongs to the border. Sums of differences, which may
	 * wrap. */
	for (uint32_t t = 0; t < trace->n_tensors; t++) {
		const struct sl_tensor *tensor = &trace->tensors[t];
		int64_t from = tensor->alloc_at == SL_TRACE_NONE
				       ? 0
				       : (int64_t)tensor->alloc_at + 1 - middle;
		int64_t to = tensor->free_at == SL_TRACE_NONE
				     ? run->period
				     : (int64_t)tensor->free_at - middle;

		from = from < 0 ? 0 : from;
		to = to > run->period ? run->period : to;
		if (from >= to)
			continue;
		alive[from] += tensor->size_bytes;
		alive[to] -= tensor->size_bytes;
	}
	for (uint32_t k = 1; k < run->period; k++)
		alive[k] += alive[k - 1];
	best = (*begin - run->first) % run->period;
	least = alive[best];
	for (uint32_t k = 0; k < run->period; k++) {
		if (alive[k] < least) {
			least = alive[k];
			best = k;
		}
	}
	*begin = run->first + best;
	free(alive);
	return 0;
}

int
sl_trace_find_periods(struct sl_trace *trace)
{
	uint32_t n = trace->n_launches, begin, repeats, n_periods = 0, *first;
	uint64_t *from_end = calloc(n + (size_t)1, sizeof(*from_end));
	uint32_t *match = calloc(n + (size_t)1, sizeof(*match));
	struct run run;
	int rc = 0;

	if (!from_end || !match) {
		free(from_end);
		free(match);
		return sl_fail(-ENOMEM, "trace: no memory to compare %u launches", n);
	}
	for (uint32_t k = 0; k < n; k++)
		from_end[n - 1 - k] = period_launch_hash(trace, k);
	run_find(from_end, match, n, &run);
	free(from_end);
	free(match);
	if (run.period == 0)
		return 0;

	begin = run.first;
	if (run.end == n) /* as if the program ended behind a whole one */
		begin += (run.end - run.first) % run.period;
	rc = begin_choose(trace, &run, &begin);
	if (rc)
		return rc;
	repeats = (run.end - begin) / run.period;
	/* What comes before, and behind, is a period of its own. */
	first = malloc((repeats + (size_t)3) * sizeof(*first));
	if (!first)
		return sl_fail(-ENOMEM, "trace: no memory for %u periods", repeats + 2);
	if (begin > 0)
		first[n_periods++] = 0;
	for (uint32_t i = 0; i < repeats; i++)
		first[n_periods++] = begin + i * run.period;
	if (begin + repeats * run.period < n)
		first[n_periods++] = begin + repeats * run.period;
	first[n_periods] = n;
	free(trace->period_first);
	trace->period_first = first;
	trace->n_periods = n_periods;
	trace->max.periods = n_periods + 1;
	trace->n_forward = SL_TRACE_NONE; /* said of other periods */
	return 0;
}

/* ---- kinds ---- */

/* What the uses say about a tensor; periods are counted from 1 here. */
struct seen {
	uint32_t first_period, last_period; /* 0: no use so far */
	uint8_t is_inherited; /* in some period read, or written in part, before it was made */
	uint8_t is_scratch; /* scratch of one launch in each period, and nothing else */
};

static void
period_use_note(struct seen *seen, uint32_t period, enum sluice_intent intent)
{
	if (seen->last_period != period && intent != SLUICE_USE_WRITE_ALL &&
	    intent != SLUICE_USE_SCRATCH)
		seen->is_inherited = 1;
	if (seen->first_period == 0) {
		seen->first_period = period;
		seen->is_scratch = 1;
	}
	if (intent != SLUICE_USE_SCRATCH || seen->last_period == period)
		seen->is_scratch = 0;
	seen->last_period = period;
}

/* A whole copy in writes all, a part of one leaves the rest, a copy out reads. */
static enum sluice_intent
copy_intent(const struct sl_trace *trace, const struct sl_trace_copy *copy)
{
	if (!copy->to_device)
		return SLUICE_USE_READ;
	return copy->bytes == trace->tensors[copy->tensor].size_bytes ? SLUICE_USE_WRITE_ALL
								      : SLUICE_USE_WRITE;
}

static enum sl_tensor_kind
kind_of(const struct sl_trace *trace, const struct sl_tensor *tensor, const struct seen *seen)
{
	/* Made and freed inside one period: nothing can come from another. */
	int dies_inside = seen->first_period == seen->last_period && seen->first_period &&
			  tensor->free_at != SL_TRACE_NONE &&
			  tensor->free_at < trace->period_first[seen->first_period];

	if (seen->is_inherited && !dies_inside)
		return SL_TENSOR_GLOBAL;
	return seen->is_scratch ? SL_TENSOR_WORKSPACE : SL_TENSOR_LOCAL;
}

int
sl_trace_find_kinds(struct sl_trace *trace)
{
	struct seen *seen = calloc(trace->n_tensors + (size_t)1, sizeof(*seen));
	uint32_t period = 1, next_copy = 0;

	if (!seen)
		return sl_fail(-ENOMEM, "trace: no memory for %u tensors", trace->n_tensors);
	for (uint32_t k = 0; k <= trace->n_launches; k++) {
		if (k < trace->n_launches && k == trace->period_first[period])
			period++;
		for (; next_copy < trace->n_copies &&
		       trace->copies[next_copy].before_launch == k;
		     next_copy++)
			period_use_note(&seen[trace->copies[next_copy].tensor], period,
					copy_intent(trace, &trace->copies[next_copy]));
		for (uint32_t i = 0;
		     k < trace->n_launches && i < trace->launches[k].n_uses; i++) {
			const struct sl_trace_use *use =
				&trace->uses[trace->launches[k].first_use + i];

			period_use_note(&seen[use->tensor], period, use->intent);
		}
	}
	for (uint32_t t = 0; t < trace->n_tensors; t++)
		trace->tensors[t].kind = kind_of(trace, &trace->tensors[t], &seen[t]);
	free(seen);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From launches as they were noted to a plan that can be carried out: finds the period (its
 * launches are named by the hash of what they use, so that only exactly the same ones are alike),
 * cuts the regions into ranges that launches use whole or not at all, and says for each use how far
 * the next one is.
 *
 * Nothing here is measured: the same launches make the same plan in every run.
 *
 * Leaves to plan_run.c: when to plan, and everything that touches a chunk. Threads: the mover,
 * without the space lock; nothing is shared.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/period.h"
#include "core/plan_run.h"

#define PIECES \
	16u /* a range is at most this part of the device, so that parts of it can stay */
#define NO_RANGE UINT32_MAX

/* ---- the period ---- */

/* Launches of the period at the end of the notes, of more than half of them; 0: nothing repeats. */
static int
period_find(const struct sl_plan_input *input, uint32_t *period)
{
	uint32_t n = input->n_notes;
	SL_CLEANUP(free) uint64_t *latest = sl_calloc(n + (size_t)1, sizeof(*latest));
	SL_CLEANUP(free) uint32_t *match = sl_calloc(n + (size_t)1, sizeof(*match));

	if (!latest || !match)
		return sl_fail(-ENOMEM, "plan: out of memory");
	for (uint32_t k = 0; k < n; k++)
		latest[n - 1 - k] = input->notes[k].hash;
	*period = sl_period_find(latest, n, n / 2 + 1, match);
	return 0;
}

/* ---- ranges ---- */

/* A place in a region where a range begins or ends. */
struct cut {
	struct sl_region *region;
	uint64_t chunk, chunk_bytes;
	uint32_t range; /* the first piece of what begins here, or NO_RANGE */
	uint32_t n_pieces;
};

struct builder {
	const struct sl_plan_input *input;
	const struct sl_plan_note *notes; /* of the period */
	struct sl_planned *planned;
	struct cut *cuts;
	size_t n_cuts;
	uint32_t n_at, max_at;
};

static int
cut_compare(const void *a, const void *b)
{
	const struct cut *x = a, *y = b;

	if (x->region != y->region)
		return (uintptr_t)x->region < (uintptr_t)y->region ? -1 : 1;
	return x->chunk < y->chunk ? -1 : x->chunk > y->chunk;
}

static void
cut_add(struct builder *b, const struct sl_plan_use *use, uint64_t chunk)
{
	b->cuts[b->n_cuts++] = (struct cut){.region = use->region,
					    .chunk = chunk,
					    .chunk_bytes = use->chunk_bytes,
					    .range = NO_RANGE};
}

/* Where uses begin and end; a chunk that is used in part is a range of its own. */
static int
cuts_make(struct builder *b)
{
	uint32_t period = b->planned->period;
	size_t n = 0, kept = 0;

	for (uint32_t k = 0; k < period; k++)
		n += b->notes[k].n_uses;
	b->cuts = sl_calloc(4 * n + 1, sizeof(*b->cuts));
	if (!b->cuts)
		return sl_fail(-ENOMEM, "plan: out of memory");
	for (uint32_t k = 0; k < period; k++) {
		for (uint32_t i = 0; i < b->notes[k].n_uses; i++) {
			const struct sl_plan_use *use =
				&b->input->uses[b->notes[k].first_use + i];

			if (use->pinned)
				continue;
			cut_add(b, use, use->first);
			cut_add(b, use, use->last + 1);
			if (use->first_partial)
				cut_add(b, use, use->first + 1);
			if (use->last_partial)
				cut_add(b, use, use->last);
		}
	}
	if (b->n_cuts)
		qsort(b->cuts, b->n_cuts, sizeof(*b->cuts), cut_compare);
	for (size_t i = 0; i < b->n_cuts; i++) {
		if (kept && cut_compare(&b->cuts[kept - 1], &b->cuts[i]) == 0)
			continue;
		b->cuts[kept++] = b->cuts[i];
	}
	b->n_cuts = kept;
	return 0;
}

/* The cut at which a use begins: it is there. */
static size_t
cut_find(const struct builder *b, const struct sl_plan_use *use)
{
	const struct cut wanted = {.region = use->region, .chunk = use->first};
	size_t low = 0, high = b->n_cuts;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (cut_compare(&b->cuts[middle], &wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Between this cut and the next: ranges, none larger than a piece. */
static int
cut_ranges(struct builder *b, size_t i)
{
	struct sl_planned *planned = b->planned;
	struct cut *cut = &b->cuts[i];
	uint64_t n = b->cuts[i + 1].chunk - cut->chunk;
	uint64_t most = b->input->device_bytes / PIECES / cut->chunk_bytes;
	uint64_t pieces;

	if (!most)
		most = 1;
	pieces = (n + most - 1) / most;
	if (pieces > SL_PLAN_RANGES_MAX - planned->n_ranges)
		return sl_fail(-E2BIG, "plan: the launches use more than %u ranges",
			       SL_PLAN_RANGES_MAX);
	cut->range = planned->n_ranges;
	cut->n_pieces = (uint32_t)pieces;
	for (uint64_t k = 0; k < pieces; k++) {
		struct sl_plan_range *range = &planned->ranges[planned->n_ranges++];

		range->region = cut->region;
		range->first = cut->chunk + n * k / pieces;
		range->last = cut->chunk + n * (k + 1) / pieces - 1;
		range->bytes = (range->last - range->first + 1) * cut->chunk_bytes;
		range->first_at = NO_RANGE;
		planned->bytes += range->bytes;
	}
	return 0;
}

/* What part of the contents the use of one range of it needs. */
static enum sluice_intent
range_intent(const struct sl_plan_use *use, uint64_t chunk)
{
	int partial = (use->first_partial && chunk == use->first) ||
		      (use->last_partial && chunk == use->last);

	if (partial &&
	    (use->intent == SLUICE_USE_WRITE_ALL || use->intent == SLUICE_USE_SCRATCH))
		return SLUICE_USE_WRITE;
	return use->intent;
}

static int
at_add(struct builder *b, uint32_t range, enum sluice_intent intent)
{
	struct sl_planned *planned = b->planned;

	if (b->n_at == b->max_at) {
		uint32_t max = b->max_at ? 2 * b->max_at : 1024;
		struct sl_plan_at *at;

		if (b->n_at >= SL_PLAN_AT_MAX)
			return sl_fail(-E2BIG,
				       "plan: the launches use ranges more than %u times",
				       SL_PLAN_AT_MAX);
		at = realloc(planned->at, max * sizeof(*at));
		if (!at)
			return sl_fail(-ENOMEM, "plan: out of memory");
		planned->at = at;
		b->max_at = max;
	}
	planned->at[b->n_at++] = (struct sl_plan_at){.range = range, .intent = intent};
	return 0;
}

static int
at_compare(const void *a, const void *b)
{
	const struct sl_plan_at *x = a, *y = b;

	if (x->range != y->range)
		return x->range < y->range ? -1 : 1;
	return (int)x->intent - (int)y->intent;
}

static int
use_ranges(struct builder *b, const struct sl_plan_use *use)
{
	int rc = 0;

	if (use->pinned || use->dies)
		return 0;
	for (size_t i = cut_find(b, use); !rc && b->cuts[i].chunk <= use->last; i++) {
		if (b->cuts[i].range == NO_RANGE)
			rc = cut_ranges(b, i);
		for (uint32_t k = 0; !rc && k < b->cuts[i].n_pieces; k++)
			rc = at_add(b, b->cuts[i].range + k,
				    range_intent(use, b->cuts[i].chunk));
		if (i + 1 == b->n_cuts || b->cuts[i + 1].region != use->region)
			break;
	}
	return rc;
}

/* By range, each once: two intents on one range read and write it, for all we know. */
static void
launch_sort(struct builder *b, uint32_t first)
{
	struct sl_plan_at *at = b->planned->at;
	uint32_t kept = first;

	if (b->n_at - first > 1)
		qsort(at + first, b->n_at - first, sizeof(*at), at_compare);
	for (uint32_t i = first; i < b->n_at; i++) {
		if (kept > first && at[kept - 1].range == at[i].range) {
			if (at[kept - 1].intent != at[i].intent)
				at[kept - 1].intent = SLUICE_USE_READ_WRITE;
			continue;
		}
		at[kept++] = at[i];
	}
	b->n_at = kept;
}

static int
launches_make(struct builder *b)
{
	struct sl_planned *planned = b->planned;
	int rc = 0;

	planned->hashes = sl_calloc(planned->period, sizeof(*planned->hashes));
	planned->at_first = sl_calloc(planned->period + 1, sizeof(*planned->at_first));
	planned->ranges = sl_calloc(SL_PLAN_RANGES_MAX, sizeof(*planned->ranges));
	if (!planned->hashes || !planned->at_first || !planned->ranges)
		return sl_fail(-ENOMEM, "plan: out of memory");
	planned->regions = sl_calloc(b->n_cuts + 1, sizeof(struct sl_region *));
	if (!planned->regions)
		return sl_fail(-ENOMEM, "plan: out of memory");
	for (size_t i = 0; i < b->n_cuts; i++) { /* in the order of regions */
		if (!i || b->cuts[i].region != b->cuts[i - 1].region)
			planned->regions[planned->n_regions++] = b->cuts[i].region;
	}
	for (uint32_t k = 0; k < planned->period && !rc; k++) {
		planned->hashes[k] = b->notes[k].hash;
		for (uint32_t i = 0; i < b->notes[k].n_uses && !rc; i++)
			rc = use_ranges(b, &b->input->uses[b->notes[k].first_use + i]);
		if (!rc)
			launch_sort(b, planned->at_first[k]);
		planned->at_first[k + 1] = b->n_at;
	}
	return rc;
}

/* ---- next uses ---- */

/* How far each use of a range is from the next. */
static int
distances_lay(struct sl_planned *planned)
{
	uint32_t period = planned->period;
	SL_CLEANUP(free) uint64_t *next = sl_calloc(planned->n_ranges + 1, sizeof(*next));

	if (!next)
		return sl_fail(-ENOMEM, "plan: out of memory");
	for (uint64_t k = 2 * (uint64_t)period; k-- > 0;) {
		uint32_t at = (uint32_t)(k % period);

		for (uint32_t i = planned->at_first[at]; i < planned->at_first[at + 1]; i++) {
			struct sl_plan_at *a = &planned->at[i];

			if (k < period) {
				a->distance = (uint32_t)(next[a->range] - k);
				planned->ranges[a->range].first_at = at;
			}
			next[a->range] = k;
		}
	}
	return 0;
}

/*
 * A use is followed by the death of what it used: the last use of a range before a discard of it.
 * last: by range, the number of its last use, or NO_RANGE.
 */
static void
deaths_lay(struct builder *b, uint32_t *last)
{
	struct sl_planned *planned = b->planned;

	memset(last, 0xff, planned->n_ranges * sizeof(*last));
	for (uint64_t k = 0; k < 2 * (uint64_t)planned->period; k++) { /* around the end, too */
		uint32_t at = (uint32_t)(k % planned->period);

		for (uint32_t i = planned->at_first[at]; i < planned->at_first[at + 1]; i++)
			last[planned->at[i].range] = i;
		for (uint32_t i = 0; i < b->notes[at].n_uses; i++) {
			const struct sl_plan_use *use =
				&b->input->uses[b->notes[at].first_use + i];

			if (!use->dies || use->pinned)
				continue;
			for (size_t c = cut_find(b, use);
			     c + 1 < b->n_cuts && b->cuts[c].region == use->region &&
			     b->cuts[c].chunk <= use->last;
			     c++) {
				for (uint32_t j = 0; j < b->cuts[c].n_pieces; j++) {
					if (last[b->cuts[c].range + j] != NO_RANGE)
						planned->at[last[b->cuts[c].range + j]].dies = 1;
				}
			}
		}
	}
}

static int
order_make(struct builder *b)
{
	struct sl_planned *planned = b->planned;
	SL_CLEANUP(free) uint32_t *last = NULL;
	int rc = distances_lay(planned);

	planned->fits = planned->bytes <= b->input->device_bytes;
	if (rc || planned->fits)
		return rc;
	last = sl_calloc(planned->n_ranges, sizeof(*last));
	if (!last)
		return sl_fail(-ENOMEM, "plan: out of memory");
	deaths_lay(b, last);
	return sl_plan_order(planned, b->input->device_bytes);
}

/* ---- all of it ---- */

int
sl_planned_make(const struct sl_plan_input *input, struct sl_planned **out)
{
	struct builder b = {.input = input};
	uint32_t period = 0;
	int rc = period_find(input, &period);

	if (rc)
		return rc;
	if (!period)
		return sl_fail(-ENOENT, "plan: the last %u launches do not repeat",
			       input->n_notes);
	b.planned = sl_calloc(1, sizeof(*b.planned));
	if (!b.planned)
		return sl_fail(-ENOMEM, "plan: out of memory");
	b.planned->period = period;
	b.notes = input->notes + (input->n_notes - period);
	rc = cuts_make(&b);
	if (!rc)
		rc = launches_make(&b);
	if (!rc)
		rc = order_make(&b);
	free(b.cuts);
	if (rc) {
		sl_planned_destroy(b.planned);
		return rc;
	}
	sl_log(SL_INFO, "plan",
	       "%u launches repeat, with %u ranges of %llu bytes in a device of %llu: "
	       "%s; on "
	       "paper lru moves %llu bytes in a period, the plan %llu, slack %u",
	       period, b.planned->n_ranges, (unsigned long long)b.planned->bytes,
	       (unsigned long long)input->device_bytes,
	       b.planned->fits      ? "all fits"
	       : b.planned->useless ? "lru is as good"
				    : "a plan was made",
	       (unsigned long long)b.planned->lru_bytes,
	       (unsigned long long)b.planned->plan_bytes, b.planned->slack);
	*out = b.planned;
	return 0;
}

void
sl_planned_destroy(struct sl_planned *planned)
{
	if (!planned)
		return;
	free(planned->hashes);
	free(planned->ranges);
	free(planned->regions);
	free(planned->at_first);
	free(planned->at);
	free(planned);
}

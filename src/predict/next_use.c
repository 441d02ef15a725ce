/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Farthest next use: for launches that repeat exactly, the distance of the next use of all data.
 * The data used farthest in the future are the best victims (Belady, "A study of replacement
 * algorithms for a virtual-storage computer", 1966).
 *
 * The blocks are cut into ranges that launches use whole or not at all. Then some periods are
 * computed on paper, once with this order and once with LRU. They tell which uses will miss, and
 * whether the order is worth it. There ranges come and go as a whole, and nothing is fetched
 * ahead.
 *
 * A range that is clean, and overwritten by its next use, costs nothing to evict: it goes first.
 * That saves srad_v2 of docs/benchmarks.md#plans 2 %.
 *
 * Refused: to evict a range that costs one way before one that costs two ways and is used later.
 * Five weights were tried for the difference of their uses, as parts of the period. The best was
 * 0 in all rows of docs/benchmarks.md#plans.
 *
 * Nothing here is measured: the same launches give the same answer in every run.
 *
 * Threads: those of predict.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "predict/past.h"

/* A range is at most this part of the device. Larger: parts of a large block cannot stay. */
#define PIECES   16u
/* Steps on paper, some 0.2 s. More: misses are not known, and the order is taken for useful. */
#define WORK_MAX 100000000u

#define NO_RANGE UINT32_MAX

/* A place in a block where a range begins or ends. */
struct cut {
	uint64_t block, addr, grain;
	uint32_t range; /* the first piece of what begins here, or NO_RANGE */
	uint32_t n_pieces;
};

struct builder {
	struct sl_past *past;
	uint64_t first; /* launch of the period */
	uint64_t device_bytes;
	struct sl_next_uses *next;
	struct cut *cuts;
	size_t n_cuts;
	uint32_t n_at, max_at, max_ranges;
};

static int
no_memory(void)
{
	return sl_fail(-ENOMEM, "plan: out of memory");
}

/* Room for one more in an array of n that was allocated for *max. */
static int
array_grow(void **array, uint32_t n, uint32_t *max, size_t bytes)
{
	uint32_t more = *max ? 2 * *max : 256;
	void *grown;

	if (n < *max)
		return 0;
	if (n >= SL_PAST_USES)
		return sl_fail(-E2BIG, "plan: the launches use more than %u ranges", n);
	grown = sl_realloc(*array, more * bytes);
	if (!grown)
		return no_memory();
	*array = grown;
	*max = more;
	return 0;
}

/* ---- ranges ---- */

static int
cut_compare(const void *a, const void *b)
{
	const struct cut *x = a, *y = b;

	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void
cut_add(struct builder *b, const struct sl_past_use *use, uint64_t addr)
{
	b->cuts[b->n_cuts++] = (struct cut){use->block, addr, use->grain, NO_RANGE, 0};
}

/* Where uses begin and end; a piece that is used in part is a range of its own. */
static int
cuts_make(struct builder *b)
{
	uint64_t n = b->past->uses_head - sl_past_launch(b->past, b->first)->first;
	size_t kept = 0;

	b->cuts = sl_calloc(4 * n + 1, sizeof(*b->cuts));
	if (!b->cuts)
		return no_memory();
	for (uint64_t i = b->past->uses_head - n; i < b->past->uses_head; i++) {
		const struct sl_past_use *use = &b->past->uses[i % SL_PAST_USES];

		if (use->pinned)
			continue;
		cut_add(b, use, use->addr);
		cut_add(b, use, use->addr + use->bytes);
		if (use->part_first)
			cut_add(b, use, use->addr + use->grain);
		if (use->part_last)
			cut_add(b, use, use->addr + use->bytes - use->grain);
	}
	qsort(b->cuts, b->n_cuts, sizeof(*b->cuts), cut_compare);
	for (size_t i = 0; i < b->n_cuts; i++)
		if (!kept || cut_compare(&b->cuts[kept - 1], &b->cuts[i]) != 0)
			b->cuts[kept++] = b->cuts[i];
	b->n_cuts = kept;
	return 0;
}

/* The cut at which a use begins: it is there. */
static size_t
cut_find(const struct builder *b, const struct sl_past_use *use)
{
	const struct cut wanted = {.block = use->block, .addr = use->addr};
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
cut_ranges(struct builder *b, struct cut *cut)
{
	struct sl_next_uses *next = b->next;
	uint64_t n = (cut[1].addr - cut->addr) / cut->grain;
	uint64_t most = b->device_bytes / PIECES / cut->grain;
	uint64_t pieces = most ? (n + most - 1) / most : n;

	cut->range = next->n_ranges;
	cut->n_pieces = (uint32_t)pieces;
	for (uint64_t k = 0; k < pieces; k++) {
		struct sl_next_range *range;
		int rc = array_grow((void **)&next->ranges, next->n_ranges,
				    &b->max_ranges, sizeof(*range));

		if (rc)
			return rc;
		range = &next->ranges[next->n_ranges++];
		range->block = cut->block;
		range->addr = cut->addr + n * k / pieces * cut->grain;
		range->bytes = cut->addr + n * (k + 1) / pieces * cut->grain - range->addr;
		next->bytes += range->bytes;
	}
	return 0;
}

/* ---- uses of ranges ---- */

/* What part of the contents the use of one range of it needs. */
static enum sluice_intent
range_intent(const struct sl_past_use *use, uint64_t addr)
{
	int partial = (use->part_first && addr == use->addr) ||
		      (use->part_last && addr == use->addr + use->bytes - use->grain);

	if (partial && !sl_intent_reads((enum sluice_intent)use->intent))
		return SLUICE_USE_WRITE;
	return (enum sluice_intent)use->intent;
}

static int
at_compare(const void *a, const void *b)
{
	const struct sl_next_use *x = a, *y = b;

	if (x->range != y->range)
		return x->range < y->range ? -1 : 1;
	return (int)x->intent - (int)y->intent;
}

static int
use_ranges(struct builder *b, const struct sl_past_use *use)
{
	if (use->pinned)
		return 0;
	for (struct cut *cut = &b->cuts[cut_find(b, use)];
	     cut->block == use->block && cut->addr < use->addr + use->bytes; cut++) {
		int rc = cut->range == NO_RANGE ? cut_ranges(b, cut) : 0;

		for (uint32_t k = 0; !rc && k < cut->n_pieces; k++) {
			rc = array_grow((void **)&b->next->at, b->n_at, &b->max_at,
					sizeof(*b->next->at));
			if (!rc)
				b->next->at[b->n_at++] = (struct sl_next_use){
					.range = cut->range + k,
					.intent = range_intent(use, cut->addr)};
		}
		if (rc)
			return rc;
	}
	return 0;
}

/* By range, each once: two intents on one range read and write it, for all we know. */
static void
launch_sort(struct builder *b, uint32_t first)
{
	struct sl_next_use *at = b->next->at;
	uint32_t kept = first;

	if (b->n_at > first)
		qsort(at + first, b->n_at - first, sizeof(*at), at_compare);
	for (uint32_t i = first; i < b->n_at; i++) {
		if (kept == first || at[kept - 1].range != at[i].range)
			at[kept++] = at[i];
		else if (at[kept - 1].intent != at[i].intent)
			at[kept - 1].intent = SLUICE_USE_READ_WRITE;
	}
	b->n_at = kept;
}

static int
launches_make(struct builder *b)
{
	struct sl_next_uses *next = b->next;
	int rc = 0;

	next->hashes = sl_calloc(next->period, sizeof(*next->hashes));
	next->at_first = sl_calloc(next->period + (size_t)1, sizeof(*next->at_first));
	if (!next->hashes || !next->at_first)
		return no_memory();
	for (uint32_t k = 0; k < next->period; k++) {
		const struct sl_past_launch *launch = sl_past_launch(b->past, b->first + k);

		next->hashes[k] = launch->hash;
		for (uint32_t i = 0; i < launch->n && !rc; i++)
			rc = use_ranges(b, sl_past_use(b->past, launch, i));
		if (rc)
			return rc;
		launch_sort(b, next->at_first[k]);
		next->at_first[k + 1] = b->n_at;
	}
	return 0;
}

static int
distances_lay(struct sl_next_uses *next)
{
	size_t n = next->n_ranges + (size_t)1;
	SL_CLEANUP(free) uint64_t *used = sl_calloc(n, sizeof(*used));
	SL_CLEANUP(free) unsigned char *reads = sl_calloc(n, 1);

	if (!used || !reads)
		return no_memory();
	for (uint64_t k = 2 * (uint64_t)next->period; k-- > 0;) {
		uint32_t at = (uint32_t)(k % next->period);

		for (uint32_t i = next->at_first[at]; i < next->at_first[at + 1]; i++) {
			struct sl_next_use *a = &next->at[i];

			a->distance = a->keep = (uint32_t)(used[a->range] - k);
			a->returns = reads[a->range];
			a->misses = 1; /* for all that is known */
			next->ranges[a->range].first_at = at;
			used[a->range] = k;
			reads[a->range] = (unsigned char)sl_intent_reads(a->intent);
		}
	}
	return 0;
}

/* ---- on paper ---- */

struct paper {
	struct sl_next_uses *next;
	uint64_t device_bytes, used_bytes, moved_bytes;
	int lru;
	struct paper_range {
		uint64_t due;  /* next use; LRU: the last one, turned round */
		uint64_t mark; /* launch that uses it, + 1 */
		int present, dirty;
	} * ranges;
};

/* The range to give up, not one of this launch; NULL: there is none. */
static struct paper_range *
paper_victim(const struct paper *p, uint64_t number)
{
	struct paper_range *best = NULL;

	for (uint32_t i = 0; i < p->next->n_ranges; i++) {
		struct paper_range *r = &p->ranges[i];

		if (!r->present || r->mark == number + 1)
			continue;
		if (!best || r->due > best->due ||
		    (r->due == best->due && !r->dirty && best->dirty))
			best = r;
	}
	return best;
}

static void
paper_bring(struct paper *p, const struct sl_next_use *a, uint64_t number)
{
	uint64_t bytes = p->next->ranges[a->range].bytes;
	struct paper_range *v;

	while (p->used_bytes + bytes > p->device_bytes && (v = paper_victim(p, number))) {
		v->present = 0;
		p->used_bytes -= p->next->ranges[v - p->ranges].bytes;
		if (v->dirty)
			p->moved_bytes += p->next->ranges[v - p->ranges].bytes;
		v->dirty = 0;
	}
	p->ranges[a->range].present = 1;
	p->used_bytes += bytes;
	if (sl_intent_reads(a->intent))
		p->moved_bytes += bytes;
}

static void
paper_launch(struct paper *p, uint64_t number)
{
	uint32_t at = (uint32_t)(number % p->next->period);
	uint32_t first = p->next->at_first[at], end = p->next->at_first[at + 1];

	for (uint32_t i = first; i < end; i++)
		p->ranges[p->next->at[i].range].mark = number + 1;
	for (uint32_t i = first; i < end; i++) {
		struct sl_next_use *a = &p->next->at[i];
		struct paper_range *r = &p->ranges[a->range];

		if (!r->present) {
			a->misses = 1;
			paper_bring(p, a, number);
		}
		r->dirty |= a->intent != SLUICE_USE_READ;
		a->keep = a->distance;
		if (!r->dirty && !a->returns)
			a->keep += SL_FEW * p->next->period;
		r->due = p->lru ? UINT64_MAX - number : number + a->keep;
	}
}

/* Bytes of a period: some to become steady, as many that count. */
static uint64_t
paper_run(struct paper *p, int lru)
{
	uint64_t launches = (uint64_t)SL_FEW * p->next->period;

	memset(p->ranges, 0, p->next->n_ranges * sizeof(*p->ranges));
	p->used_bytes = 0;
	p->lru = lru;
	for (uint64_t k = 0; k < 2 * launches; k++) {
		if (k == launches) {
			p->moved_bytes = 0;
			for (uint32_t i = 0; i < p->next->at_first[p->next->period]; i++)
				p->next->at[i].misses = 0;
		}
		paper_launch(p, k);
	}
	return p->moved_bytes / SL_FEW;
}

static int
paper_compare(struct sl_next_uses *next, uint64_t device_bytes)
{
	struct paper p = {.next = next, .device_bytes = device_bytes};

	if ((uint64_t)next->n_ranges * next->at_first[next->period] > WORK_MAX / (4 * SL_FEW))
		return 0;
	p.ranges = sl_calloc(next->n_ranges + (size_t)1, sizeof(*p.ranges));
	if (!p.ranges)
		return no_memory();
	next->lru_bytes = paper_run(&p, 1);
	next->plan_bytes = paper_run(&p, 0);
	next->useless = next->plan_bytes >= next->lru_bytes;
	free(p.ranges);
	return 0;
}

/* ---- all of it ---- */

int
sl_next_uses_make(struct sl_predict *predict, uint64_t device_bytes, struct sl_next_uses **out)
{
	struct builder b = {.past = sl_predict_past(predict), .device_bytes = device_bytes};
	uint32_t period = sl_past_period(b.past);
	struct sl_next_uses *next;
	int rc;

	if (!period)
		return sl_fail(-ENOENT, "plan: the last launches do not repeat");
	b.first = b.past->head - period;
	if (!sl_past_has(b.past, b.first))
		return sl_fail(-E2BIG, "plan: a period of more than %u uses", SL_PAST_USES);
	b.next = next = sl_calloc(1, sizeof(*next));
	if (!next)
		return no_memory();
	next->period = period;
	rc = cuts_make(&b);
	if (!rc)
		rc = launches_make(&b);
	if (!rc)
		rc = distances_lay(next);
	next->fits = next->bytes <= device_bytes;
	if (!rc && !next->fits)
		rc = paper_compare(next, device_bytes);
	free(b.cuts);
	if (rc) {
		sl_next_uses_destroy(next);
		return rc;
	}
	sl_log(SL_INFO, "plan",
	       "%u launches repeat, with %u ranges of %llu bytes in a device of %llu: "
	       "%s; on "
	       "paper lru moves %llu bytes in a period, the plan %llu",
	       period, next->n_ranges, (unsigned long long)next->bytes,
	       (unsigned long long)device_bytes,
	       next->fits      ? "all fits"
	       : next->useless ? "lru is as good"
			       : "a plan was made",
	       (unsigned long long)next->lru_bytes, (unsigned long long)next->plan_bytes);
	*out = next;
	return 0;
}

void
sl_next_uses_destroy(struct sl_next_uses *next)
{
	if (!next)
		return;
	free(next->hashes);
	free(next->ranges);
	free(next->at_first);
	free(next->at);
	free(next);
}

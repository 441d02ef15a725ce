/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which chunk to give up: the one used farthest in the future moves the fewest chunks in, but a
 * dirty one moves out as well, and one that is overwritten next need not come back. What a range
 * costs is known by the period: 2 if it is dirty and read next, 1 if only one of both, 0 if
 * neither. A cheaper one is taken for one used later than it is, by a part of the period for each
 * way that is saved.
 *
 * How large that part had best be depends on the program. So the period is gone through on paper
 * for each of a few, and for LRU, until what moves has become steady: the least wins. Where LRU is
 * it, there is no plan. Ranges come and go as a whole here, moves ahead of time are not looked at.
 *
 * Threads: the mover, without the space lock; pure.
 */
#include <string.h>

#include "base/cleanup.h"
#include "core/plan_run.h"

#define PERIODS_WARM  4u
#define PERIODS_COUNT 4u
#define WORK_MAX      100000000u /* steps on paper at most; more: farthest next use, untried */
#define DEAD_PERIODS  4u         /* what costs nothing looks so much farther away */

/* In eighths of a period, for each way saved. */
static const uint32_t parts[] = {0, 1, 2, 4, 8};

#define PARTS     (sizeof(parts) / sizeof(parts[0]))
#define LRU_TRIED PARTS

struct paper {
	const struct sl_planned *planned;
	uint64_t device_bytes;
	uint64_t used_bytes, moved_bytes;
	uint64_t *due; /* by range: next use, as it looks; LRU: the last one, turned round */
	uint32_t *mark; /* by range: launch that uses it */
	uint8_t *present, *dirty;
	uint8_t *returns; /* by use: the next use needs the contents */
	uint8_t *costs;   /* by use: as it was in the last period */
	uint8_t *misses;  /* by use: it was not present, in some period that counts */
};

static int
intent_reads(enum sluice_intent intent)
{
	return intent != SLUICE_USE_WRITE_ALL && intent != SLUICE_USE_SCRATCH;
}

/* For each use, whether the next one of its range reads. */
static void
returns_make(const struct sl_planned *planned, uint8_t *last, uint8_t *returns)
{
	for (uint64_t k = 2 * (uint64_t)planned->period; k-- > 0;) {
		uint32_t at = (uint32_t)(k % planned->period);

		for (uint32_t i = planned->at_first[at]; i < planned->at_first[at + 1]; i++) {
			const struct sl_plan_at *a = &planned->at[i];

			returns[i] = last[a->range] && !a->dies;
			last[a->range] = (uint8_t)intent_reads(a->intent);
		}
	}
}

/* The range to give up; not one of this launch. */
static uint32_t
paper_victim(const struct paper *p, uint32_t launch)
{
	uint32_t best = p->planned->n_ranges;

	for (uint32_t i = 0; i < p->planned->n_ranges; i++) {
		if (!p->present[i] || p->mark[i] == launch)
			continue;
		if (best == p->planned->n_ranges || p->due[i] > p->due[best] ||
		    (p->due[i] == p->due[best] && !p->dirty[i] && p->dirty[best]))
			best = i;
	}
	return best;
}

static void
paper_bring(struct paper *p, const struct sl_plan_at *a, uint32_t launch)
{
	uint64_t bytes = p->planned->ranges[a->range].bytes;

	if (p->present[a->range])
		return;
	while (p->used_bytes + bytes > p->device_bytes) {
		uint32_t v = paper_victim(p, launch);

		if (v == p->planned->n_ranges)
			break;
		p->present[v] = 0;
		p->used_bytes -= p->planned->ranges[v].bytes;
		if (p->dirty[v])
			p->moved_bytes += p->planned->ranges[v].bytes;
		p->dirty[v] = 0;
	}
	p->present[a->range] = 1;
	p->used_bytes += bytes;
	if (intent_reads(a->intent))
		p->moved_bytes += bytes;
}

uint32_t
sl_plan_keep(const struct sl_planned *planned, const struct sl_plan_at *a, unsigned cost,
	     uint32_t part)
{
	if (!cost)
		return a->distance + DEAD_PERIODS * planned->period;
	return a->distance +
	       (cost == 1 ? (uint32_t)((uint64_t)planned->period * part / 8) : 0);
}

/* One launch. part: of parts, or LRU. */
static void
paper_launch(struct paper *p, uint64_t number, unsigned part)
{
	const struct sl_planned *planned = p->planned;
	uint32_t at = (uint32_t)(number % planned->period), launch = (uint32_t)number + 1;

	for (uint32_t i = planned->at_first[at]; i < planned->at_first[at + 1]; i++)
		p->mark[planned->at[i].range] = launch;
	for (uint32_t i = planned->at_first[at]; i < planned->at_first[at + 1]; i++) {
		const struct sl_plan_at *a = &planned->at[i];
		uint8_t missing = !p->present[a->range];
		unsigned cost;

		paper_bring(p, a, launch);
		p->dirty[a->range] |= a->intent != SLUICE_USE_READ;
		if (a->dies)
			p->dirty[a->range] = 0;
		p->misses[i] |= missing;
		cost = (unsigned)p->dirty[a->range] + p->returns[i];
		p->costs[i] = (uint8_t)cost;
		p->due[a->range] = part == LRU_TRIED
					   ? UINT64_MAX - number
					   : number + sl_plan_keep(planned, a, cost,
								   parts[part]);
		if (part == LRU_TRIED && a->dies)
			p->due[a->range] = UINT64_MAX; /* discarded ones go first there, too */
	}
}

/* Bytes of some periods, once they are steady. */
static uint64_t
paper_run(struct paper *p, unsigned part)
{
	const struct sl_planned *planned = p->planned;
	uint64_t period = planned->period;

	memset(p->present, 0, planned->n_ranges);
	memset(p->dirty, 0, planned->n_ranges);
	memset(p->mark, 0, planned->n_ranges * sizeof(*p->mark));
	p->used_bytes = p->moved_bytes = 0;
	for (uint64_t k = 0; k < PERIODS_WARM * period; k++)
		paper_launch(p, k, part);
	p->moved_bytes = 0;
	memset(p->misses, 0, planned->at_first[period]);
	for (uint64_t k = 0; k < PERIODS_COUNT * period; k++)
		paper_launch(p, PERIODS_WARM * period + k, part);
	return p->moved_bytes;
}

/* The order that moves the least; as far as it is known. */
static void
order_choose(struct paper *p, struct sl_planned *planned)
{
	uint64_t least = UINT64_MAX, lru = paper_run(p, LRU_TRIED);
	unsigned best = 0;

	for (unsigned part = 0; part < PARTS; part++) {
		uint64_t bytes = paper_run(p, part);

		if (bytes < least) {
			least = bytes;
			best = part;
		}
	}
	planned->lru_bytes = lru / PERIODS_COUNT;
	planned->plan_bytes = least / PERIODS_COUNT;
	planned->useless = least >= lru;
	(void)paper_run(p, best); /* for the costs and misses */
	for (uint32_t i = 0; i < planned->at_first[planned->period]; i++) {
		struct sl_plan_at *a = &planned->at[i];

		a->keep = sl_plan_keep(planned, a, p->costs[i], parts[best]);
		a->misses = p->misses[i];
	}
	planned->slack = (uint32_t)((uint64_t)planned->period * parts[best] / 8);
}

int
sl_plan_order(struct sl_planned *planned, uint64_t device_bytes)
{
	uint32_t n = planned->n_ranges, n_at = planned->at_first[planned->period];
	struct paper p = {.planned = planned, .device_bytes = device_bytes};
	SL_CLEANUP(free) uint64_t *due = sl_calloc(n + 1, sizeof(*due));
	SL_CLEANUP(free) uint32_t *mark = sl_calloc(n + 1, sizeof(*mark));
	SL_CLEANUP(free) uint8_t *flags = sl_calloc(3 * (size_t)(n + 1), 1);
	SL_CLEANUP(free) uint8_t *uses = sl_calloc(3 * (size_t)(n_at + 1), 1);

	if (!due || !mark || !flags || !uses)
		return sl_fail(-ENOMEM, "plan: out of memory");
	for (uint32_t i = 0; i < n_at; i++) {
		planned->at[i].keep = planned->at[i].distance;
		planned->at[i].misses = 1; /* for all that is known */
	}
	if ((uint64_t)n * n_at > WORK_MAX / ((PARTS + 2) * (PERIODS_WARM + PERIODS_COUNT)))
		return 0;
	p.due = due;
	p.mark = mark;
	p.present = flags;
	p.dirty = flags + n + 1;
	p.returns = uses;
	p.costs = uses + n_at + 1;
	p.misses = uses + 2 * (size_t)(n_at + 1);
	returns_make(planned, flags + 2 * (size_t)(n + 1), p.returns);
	order_choose(&p, planned);
	return 0;
}

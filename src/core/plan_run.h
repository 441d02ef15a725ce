/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy=plan: launches that repeat are noted, their next uses decide what is evicted and
 * prefetched, for as long as the launches go on as expected.
 *
 *	plan_build.c   from noted launches to a plan: outside the space lock, knows no chunk
 *	plan_cost.c    in which order chunks are given up, so that the fewest bytes move
 *	plan_run.c     noting, matching, carrying out: under the space lock, and on the mover
 *
 * What a plan decides: which chunk is the next victim (the one used farthest in the future), and
 * what comes in one launch before its use. A wrong plan costs time, never a result: contents
 * are dropped only where the program discarded them. The rules are in docs/design/policy.md.
 */
#ifndef SL_CORE_PLAN_RUN_H
#define SL_CORE_PLAN_RUN_H

#include "core/launch/launch.h"

/* Most that is noted of the past, and so the longest period that can be found: half of it. */
#define SL_PLAN_NOTES_MAX  4096u
#define SL_PLAN_USES_MAX   32768u
/* Most that a plan may consist of: pieces of regions, and uses of them in a period. */
#define SL_PLAN_RANGES_MAX 8192u
#define SL_PLAN_AT_MAX     (1u << 19)

/* A use as it was noted. The region is alive as long as the note. */
struct sl_plan_use {
	struct sl_region *region; /* only compared where the lock is not held */
	uint64_t first, last;     /* chunks */
	uint64_t chunk_bytes;
	enum sluice_intent intent;
	int first_partial, last_partial;
	int pinned; /* by the user: stays where it is whatever happens */
	int dies;   /* not a use: discarded behind the launch */
};

struct sl_plan_note {
	uint64_t hash; /* of all its uses: the same launch again has the same */
	uint32_t first_use, n_uses;
};

struct sl_plan_input {
	const struct sl_plan_note *notes; /* oldest first */
	uint32_t n_notes;
	const struct sl_plan_use *uses;
	uint64_t device_bytes; /* room for what is not pinned */
};

/* A piece of a region that the launches of a period use whole or not at all. */
struct sl_plan_range {
	struct sl_region *region;
	uint64_t first, last; /* chunks */
	uint64_t bytes;
	uint32_t first_at; /* the first launch of the period that uses it */
};

/* A use of a range by a launch of the period. */
struct sl_plan_at {
	uint32_t range;
	uint32_t distance; /* launches until the next one that uses it: 1 to the period */
	uint32_t keep; /* the same as the order of victims has it: longer if it is cheap to lose */
	enum sluice_intent intent;
	int dies;   /* discarded behind this use, before the next */
	int misses; /* on paper it was not on the device at this use, in some period */
};

struct sl_planned {
	uint32_t period; /* launches */
	int fits;        /* everything has room at once: there is nothing to decide */
	int useless;     /* LRU moves as little */
	uint64_t lru_bytes, plan_bytes; /* in and out in a period, on paper; 0: not known */
	uint32_t slack; /* how much longer keep can be than distance, but for what costs nothing */
	uint64_t bytes;   /* of all ranges */
	uint64_t *hashes; /* of the period's launches */
	struct sl_plan_range *ranges;
	uint32_t n_ranges;
	struct sl_region **regions; /* of the ranges, each once */
	uint32_t n_regions;
	uint32_t *at_first; /* period + 1 */
	struct sl_plan_at *at;
};

/* ---- plan_build.c ---- */

/*
 * Find the period at the end of the notes and decide its order of victims. Pure but for the log: the
 * same input gives the same plan. 0; -ENOENT: nothing repeats; -E2BIG, -ENOMEM. Not under the space
 * lock.
 */
int sl_planned_make(const struct sl_plan_input *input, struct sl_planned **out) SL_MUST_CHECK;
void sl_planned_destroy(struct sl_planned *planned); /* NULL is fine */

/* ---- plan_cost.c ---- */

/* Fill keep and misses of all uses, slack, useless and the bytes. -ENOMEM. */
int sl_plan_order(struct sl_planned *planned, uint64_t device_bytes) SL_MUST_CHECK;
/* cost: ways that losing it behind this use costs, 0 to 2; part: eighths of a period for a way. */
uint32_t sl_plan_keep(const struct sl_planned *planned, const struct sl_plan_at *a,
		      unsigned cost, uint32_t part);

#endif

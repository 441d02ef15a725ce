/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The learner, for the pager's policy `plan` and for the preload library.
 *
 * It knows launches by their function, and by the sizes and blocks of their uses. It knows bytes
 * and times, and neither chunks nor spaces nor drivers. Programs repeat themselves, so the past
 * answers three questions:
 *
 *	what comes next           history.c: expected launches, whose data are fetched ahead
 *	what to evict now         residency_plan.c: blocks that are not kept until their next use
 *	what is needed last       next_use.c: the order of victims of an exactly repeated period
 *
 * autotune.c finds out whether fetching ahead makes the program faster.
 *
 * Threads: one thread at a time for each learner. Nothing here blocks.
 */
#ifndef SL_PREDICT_PREDICT_H
#define SL_PREDICT_PREDICT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "predict/autotune.h"
#include "sluice/launch.h"

struct sl_predict;

int sl_predict_create(struct sl_predict **out) SL_MUST_CHECK; /* -ENOMEM */
void sl_predict_destroy(struct sl_predict *p);                /* NULL is fine */

/* What a launch uses: a range of a block (an allocation, a region). */
struct sl_predict_use {
	uint64_t block; /* its identity, of one block at a time; 0: not known */
	uint64_t addr, bytes;
	int fetched;    /* some of it was not on the device */
	int outlives;   /* after its last use it is not freed: a part of a block */
	uint64_t grain; /* the block moves in pieces of so many bytes; 0: not known */
	/* For next_use.c, where addr and bytes are multiples of grain: */
	enum sluice_intent intent;
	int part_first, part_last; /* only a part of the first piece, of the last one */
	int pinned;                /* it stays on the device whatever happens */
};

/* ---- past.c: for who compares launches exactly ---- */

/* Note a launch: the same one has the same hash. Returns how many launches in a row, with this one, had
 * been noted before. */
uint64_t sl_predict_note(struct sl_predict *p, uint64_t hash);
void sl_predict_note_use(struct sl_predict *p,
			 const struct sl_predict_use *use); /* of that launch */
uint64_t sl_predict_notes(struct sl_predict *p); /* launches since sl_predict_forget() */
/* Notes count from here on. */
void sl_predict_forget(struct sl_predict *p);

/* ---- history.c ---- */

struct sl_predict_launch {
	uint64_t what; /* the same for the same work: a function; 0: a copy, or not known */
	const struct sl_predict_use *uses;
	size_t n_uses;
};

/* What is asked for behind a launch. */
struct sl_predict_moves {
	/*
	 * Fetch a range. spare: only into room that nothing alive has, but for so many bytes to leave.
	 * 1: it was not all there; 0: it was; -ENOENT: the block does not exist; -ENOBUFS: no spare room;
	 * -EAGAIN: spare room for a part of it, which is fetched.
	 */
	int (*fetch)(void *arg, const struct sl_predict_use *use, int spare, uint64_t leave);
	/* Evict a range as soon as the launches that use it have ended, unless it is used again. */
	void (*evict)(void *arg, uint64_t addr, uint64_t bytes);
	void *arg;
};

/* The machine and the clock at a launch. */
struct sl_predict_now {
	uint64_t device_bytes; /* budget */
	uint64_t alive_bytes;  /* of all that has contents, in the pieces that move */
	uint64_t ns;
	int always; /* fetch ahead without trials */
	int may_encode_more; /* 1: what shrinks by little was seen to leave; 0: it is not encoded */
};

struct sl_predict_answer {
	struct sl_autotune_way way;
	int compared; /* a launch was expected */
	int expected; /* it is this one */
};

/* Note a launch, and ask for what follows on it. At most a few uses are asked for, whatever was noted. */
struct sl_predict_answer sl_predict_follow(struct sl_predict *p,
					   const struct sl_predict_launch *launch,
					   const struct sl_predict_now *now,
					   const struct sl_predict_moves *moves);
/*
 * The uses of the launches that are expected behind this one, in their order, until take returns 1. Nothing,
 * if this launch is not the one that is expected next. Its uses are not looked at, only their number.
 */
void sl_predict_expected(struct sl_predict *p, const struct sl_predict_launch *launch,
			 int (*take)(void *arg, const struct sl_predict_use *use),
			 void *arg);
/* What sl_predict_follow() times: the period in launches, and its last two times. For logs. */
const struct sl_autotune *sl_predict_autotune(const struct sl_predict *p);

/* ---- next_use.c ---- */

/* A range of a block that the launches of a period use whole or not at all. */
struct sl_next_range {
	uint64_t block, addr, bytes;
	uint32_t first_at; /* the first launch of the period that uses it */
};

/* A use of a range by a launch of the period. */
struct sl_next_use {
	uint32_t range;
	uint32_t distance; /* launches until the next use of the range: 1 to the period */
	uint32_t keep; /* the same for the order of victims: longer, where it costs nothing to lose */
	enum sluice_intent intent;
	unsigned char returns; /* the next use needs the contents */
	unsigned char misses;  /* on paper it was absent at this use, in some period */
};

/* The order of victims of a period: farthest next use first. */
struct sl_next_uses {
	uint32_t period;                /* launches */
	int fits;                       /* everything has room at once */
	int useless;                    /* LRU moves as little */
	uint64_t lru_bytes, plan_bytes; /* in and out in a period, on paper; 0: not known */
	uint64_t bytes;                 /* of all ranges */
	uint64_t *hashes;               /* of the period's launches */
	struct sl_next_range *ranges;
	uint32_t n_ranges;
	uint32_t *at_first; /* by launch, its first use in at; period + 1 of them */
	struct sl_next_use *at;
};

/*
 * The period at the end of the notes, and its order of victims, for a device with room for
 * device_bytes. Pure but for the log: the same notes give the same answer. Takes up to a second, so
 * not under a lock; nothing may be noted meanwhile. -ENOENT: nothing repeats; -E2BIG, -ENOMEM.
 */
int sl_next_uses_make(struct sl_predict *p, uint64_t device_bytes,
		      struct sl_next_uses **out) SL_MUST_CHECK;
void sl_next_uses_destroy(struct sl_next_uses *next); /* NULL is fine */

/* 1: the use needs the contents. */
static inline int
sl_intent_reads(enum sluice_intent intent)
{
	return intent != SLUICE_USE_WRITE_ALL && intent != SLUICE_USE_SCRATCH;
}

#endif

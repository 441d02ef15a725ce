/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of launches, shared by the files of src/predict, and two constants of the learner. No
 * other file includes it.
 */
#ifndef SL_PREDICT_PAST_H
#define SL_PREDICT_PAST_H

#include "predict/predict.h"

/* Launches in the log, a power of two. Fewer: a program with a period of more than half of it is not
 * recognized. More: the log takes 20 MB as it is, and a search for the period takes longer. */
#define SL_PAST_LAUNCHES 16384u
#define SL_PAST_USES     (16 * SL_PAST_LAUNCHES)
#define SL_PAST_TABLE    (4 * SL_PAST_LAUNCHES)

/* What is looked at for one launch: its successors, places of a hash, periods on paper; every so many
 * launches spare room is looked for; so many in a row may differ in their sizes. Fewer: a program that
 * grows, or fetches little things, is lost. More: each launch takes longer. 16 successors instead of 4
 * moved the same bytes in tests/unit/test_predict_replay.c. */
#define SL_FEW   4u
/* A tenth is little: of the budget, which what stays leaves free (a tenth more costs `arrays` 2 GiB a
 * round, docs/benchmarks-run.md); of a period, which may not be as expected; of an iteration's time, by
 * which one may settle; and a plan of what stays is made anew after so many periods. */
#define SL_TENTH 10u

/* A use that was noted. */
struct sl_past_use {
	uint64_t block, addr, bytes;
	uint64_t launch; /* number in the log */
	uint64_t prev;   /* number of the block's use before, + 1; 0: none */
	uint64_t leaves; /* so many bytes at its end do not stay until the next use */
	uint32_t grain;
	unsigned char intent; /* enum sluice_intent */
	unsigned char asked;  /* looking ahead, it was fetched, for the use that comes */
	unsigned char part_first : 1, part_last : 1, pinned : 1, outlives : 1;
};

struct sl_past_launch {
	uint64_t what; /* runs, on how many blocks */
	uint64_t hash; /* with their sizes; or the caller's */
	uint64_t bytes;
	uint64_t first; /* in uses, counts up */
	uint64_t alive; /* bytes of all that had contents */
	uint32_t n;
};

struct sl_past {
	struct sl_past_launch log[SL_PAST_LAUNCHES];
	struct sl_past_use uses[SL_PAST_USES];
	uint64_t head, uses_head; /* count up */
	uint64_t since;           /* the first note that counts */
	uint64_t repeats;         /* the last notes in a row that had been noted before */
	struct {
		uint64_t hash, number;
	} seen[SL_PAST_TABLE]; /* the last note of a hash; a newer one takes the place of another */
	uint64_t latest[SL_PAST_LAUNCHES]; /* hashes, newest first, to find the period */
	uint32_t work[SL_PAST_LAUNCHES];
};

static inline struct sl_past_launch *
sl_past_launch(struct sl_past *past, uint64_t number)
{
	return &past->log[number % SL_PAST_LAUNCHES];
}

static inline struct sl_past_use *
sl_past_use(struct sl_past *past, const struct sl_past_launch *launch, uint32_t i)
{
	return &past->uses[(launch->first + i) % SL_PAST_USES];
}

/* 1: the launch and its uses are in the log. */
static inline int
sl_past_has(const struct sl_past *past, uint64_t number)
{
	return number < past->head && past->head - number < SL_PAST_LAUNCHES &&
	       past->uses_head - past->log[number % SL_PAST_LAUNCHES].first < SL_PAST_USES;
}

/* ---- past.c ---- */

/* Add a launch, without a hash; add a use to the launch added last. */
struct sl_past_launch *sl_past_add(struct sl_past *past, uint64_t what);
struct sl_past_use *sl_past_add_use(struct sl_past *past, const struct sl_predict_use *use);
/* The period at the end of the notes, which covers more than half of them; 0: there is none. */
uint32_t sl_past_period(struct sl_past *past);
/* 1: the last so many launches were those of one period before. */
int sl_past_repeats(struct sl_past *past, uint64_t launches, uint64_t period);
/* 1: nearly all of them ran the same as those one period before, whatever its sizes. */
int sl_past_nearly_repeats(struct sl_past *past, uint64_t launches, uint64_t period);

/* history.c */
struct sl_past *sl_predict_past(struct sl_predict *p);

#endif

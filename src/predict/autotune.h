/* SPDX-License-Identifier: Apache-2.0 */
/* The fastest way of a program that repeats itself, found by trials (autotune.c). */
#ifndef SL_PREDICT_AUTOTUNE_H
#define SL_PREDICT_AUTOTUNE_H

#include <stdint.h>

enum sl_strategy {
	SL_STRATEGY_PATIENT, /* with moves ahead; a launch that lacks room waits for what is to leave, if there is any */
	SL_STRATEGY_AHEAD, /* with moves ahead; it takes the room of what was not used for longest */
	SL_STRATEGY_PLAIN, /* without moves ahead */
	SL_STRATEGIES
};

struct sl_autotune_way {
	enum sl_strategy strategy;
	int encodes_more; /* what shrinks by little is compressed on its way out, too */
};

/* Zeroed: nothing is known. All times in ns, all lengths in scopes. */
struct sl_autotune {
	struct sl_autotune_way way; /* now */
	struct sl_autotune_way kept; /* while another is tried: the one that it has to be faster than */
	int may_encode_more; /* that makes a difference: the caller says so */
	int trying;
	int again;      /* the trial before was interrupted: it is begun anew, once */
	unsigned turn;  /* of the other ways, which is tried, or is next */
	unsigned spans; /* of this way, and of this trial */
	unsigned hold;  /* spans of the way that is kept until another is tried */
	int changed; /* another way has been kept, since spans are as long as they are */
	uint64_t first_ns; /* the first span of a trial that counts */
	uint64_t took[2]; /* the last spans of the way that is kept, newest first; 0: not known */
	uint64_t limit;  /* the scope at which a trial that came to no end is given up */
	uint64_t period; /* of the span that is timed; 0: none is */
	uint64_t begin, length, begin_ns; /* of it; none: where a period is looked for again */
	uint64_t length_before;           /* of the last one that was timed */
};

/* Scope so and so begins (they count up): whether sl_autotune_step() wants to know the period there. */
int sl_autotune_asks(const struct sl_autotune *t, uint64_t number, uint64_t now_ns);

/*
 * A scope begins. period, where it was asked for: while a span is timed (t->period), t->period if all of its
 * scopes so far, those since t->begin, were those of one period before, and 0 if not; else after how many
 * scopes the program does the same again, 0: that is not known. The way from here on. Does not block; one
 * thread at a time.
 */
struct sl_autotune_way sl_autotune_step(struct sl_autotune *t, uint64_t number,
					uint64_t period, uint64_t now_ns);

#endif

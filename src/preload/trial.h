/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a program that repeats itself is faster with moves ahead, found by trying both (trial.c). */
#ifndef SL_PRELOAD_TRIAL_H
#define SL_PRELOAD_TRIAL_H

#include <stdint.h>

/* Zeroed: moves are made ahead. All times in ns, all lengths in scopes. */
struct pl_trial {
	int plain;  /* without moves ahead, now */
	int trying; /* that is on trial: the other way is kept unless this one is faster */
	unsigned spans; /* of this way, and of this trial */
	unsigned hold; /* spans of the way that is kept until the other is tried; 0: none yet */
	uint64_t took[2]; /* the last spans of the way that is kept, newest first; 0: not known */
	uint64_t first_ns; /* the first span of a trial that counts */
	uint64_t limit; /* the scope at which a trial that came to no end is given up */
	uint64_t distance; /* from a scope to the same one of the last time; 0: no span is timed */
	uint64_t begin, length, begin_ns; /* of the span that is timed */
	uint64_t length_before;           /* of the last one that was timed */
};

/*
 * A scope begins: number counts the scopes up, distance is that to the same one of last time (0: it was not
 * predicted). Whether moves are made ahead from here on. Does not block; one thread at a time.
 */
int pl_trial_step(struct pl_trial *t, uint64_t number, uint64_t distance, uint64_t now_ns);

#endif

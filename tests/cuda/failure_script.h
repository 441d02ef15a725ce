/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A script for failures in the middle: launches in every intent on an anonymous region and on a
 * file, both larger than the device, moves, touches of host code, sync, events. It knows the two
 * words that may be at each place after any failure. It checks the invariants, the contents,
 * leaks, and the file.
 */
#ifndef SL_TESTS_CUDA_FAILURE_SCRIPT_H
#define SL_TESTS_CUDA_FAILURE_SCRIPT_H

#include "cuda/failure.h"

/* To be opened first. */
extern struct cuda_test script_cuda;

/*
 * One run, with failures injected as spec says (fail_set()), in calls of name (exported; what gives
 * things back may leave some); lost: the context is not to be used any more. 0: none came up. Ends the
 * program where something is wrong.
 */
int script_with(const char *name, const char *spec, int lost);

/* Calls of the last run while failures were injected, but for questions: how often those are asked is a
 * matter of time, and "*" does not count them. */
extern unsigned script_calls;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* After how many scopes a program does the same again (period.c). */
#ifndef SL_PRELOAD_PERIOD_H
#define SL_PRELOAD_PERIOD_H

#include <stddef.h>
#include <stdint.h>

/*
 * The period of what was seen last: the smallest p such that latest[i] == latest[i + p] over the longest stretch
 * from latest[0] on that holds it twice. 0: there is none, or that stretch is less than half of what
 * is known. latest: n values, the newest first; work: room for n numbers. Takes time in proportion to n.
 * Does not block; any thread.
 */
size_t pl_period_find(const uint64_t *latest, size_t n, uint32_t *work);

#endif

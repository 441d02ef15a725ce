/* SPDX-License-Identifier: Apache-2.0 */
/* The number of steps after which a sequence repeats (period.c). */
#ifndef SL_BASE_PERIOD_H
#define SL_BASE_PERIOD_H

#include <stdint.h>

/*
 * The period of what was seen last: of all p such that latest[i] == latest[i + p] from latest[0] on, the one whose
 * whole repetitions, two at least, cover most; of several the smallest. 0: none covers `least` steps. latest: n
 * values, the newest first; match: room for n numbers, where match[p], 0 < p < n, is made how many of the values are
 * so. Takes time in proportion to n. Does not block; any thread.
 */
uint32_t sl_period_find(const uint64_t *latest, uint32_t n, uint32_t least, uint32_t *match);

#endif

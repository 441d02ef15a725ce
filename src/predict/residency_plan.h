/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks of a repeating program that stay on the device between two uses (residency_plan.c).
 */
#ifndef SL_PREDICT_RESIDENCY_PLAN_H
#define SL_PREDICT_RESIDENCY_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define SL_NEVER_USED UINT32_MAX /* no use follows */

/* A use of a block in a period of scopes that repeats itself. */
struct sl_residency_use {
	uint64_t group; /* of those that might as well stay, whole groups do, and the same ones each time */
	uint64_t bytes; /* of the block, as far as it is used */
	uint64_t piece; /* it moves in pieces of so many bytes; 0: not known, large ones */
	uint32_t scope; /* counts from 0; those of all uses ascend */
	uint32_t next; /* number of the block's next use; not above this one's: in the next period */
	uint64_t stays; /* out: so many of the bytes, from the beginning, until that use */
};

/*
 * Decide for n uses of a period of so many scopes (at least one, at most 2^30) how much stays, so that at no time more
 * than room bytes are on the device if that can be, scopes being asked for as far ahead as their uses add up to window
 * bytes, but at least while the one before runs. A part of a block that stays is a multiple of grain.
 *
 * alive: by scope, the room that all data would take at once. Blocks do not fill what they lie in. So as far as it
 * varies by itself, it takes room, too.
 *
 * 0, -ENOMEM. Takes time in proportion to n log scopes. Any thread; does not block. Belady, "A study of replacement
 * algorithms for a virtual-storage computer" (1966), has the rule for single pages.
 */
int sl_residency_plan(struct sl_residency_use *uses, size_t n, uint32_t scopes,
		      const uint64_t *alive, uint64_t room, uint64_t window,
		      uint64_t grain) SL_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash of several values, for tables and comparisons within one run. It is not kept, and it is
 * not safe against deliberate collisions.
 */
#ifndef SL_BASE_HASH_H
#define SL_BASE_HASH_H

#include <stdint.h>

/* The hash of what `hash` is of and then value. All bits count, the highest most. Any thread. */
static inline uint64_t
sl_hash_add(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

#endif

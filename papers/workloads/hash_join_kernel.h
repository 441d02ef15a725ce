/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hashJoin: what its kernels are given, where a key belongs in a table, and what a match gives, for
 * the software device and for CUDA (kernel.h says how the two share it). Inserting differs: it is
 * an atomic operation of either.
 *
 * A table is open: slots of a key and a value, key 0 for none, searched upwards from where the key
 * belongs. It has more slots than keys.
 *
 * Threads: constant data and pure functions.
 */
#ifndef WORKLOADS_HASH_JOIN_KERNEL_H
#define WORKLOADS_HASH_JOIN_KERNEL_H

#include "partition_kernel.h"

#define HASH_JOIN_SLOTS      2u /* for each key */
#define HASH_JOIN_MULTIPLIER 0x9e3779b1u

struct hash_join_clear_args {
	uint32_t *table;
	uint64_t n; /* words */
};

struct hash_join_build_args {
	const uint32_t *keys, *values;
	uint32_t *table;
	uint64_t n, slots;
};

struct hash_join_probe_args {
	const uint32_t *keys, *values;
	const uint32_t *table;
	uint32_t *matches;
	uint64_t n, slots; /* slots 0: there is no table */
	uint32_t turn;     /* of the join */
};

/*
 * The slot from which a key is searched, of a table for keys that have the highest digit of their
 * hash in common. Keys come in the order of the next digit, so that a stretch of them stays in a
 * stretch of the table.
 */
KERNEL_INLINE uint64_t
hash_join_slot(uint32_t key, uint64_t slots)
{
	return (uint64_t)(key * HASH_JOIN_MULTIPLIER << PARTITION_BITS) * slots >> 32;
}

KERNEL_INLINE uint32_t
hash_join_match(uint32_t built, uint32_t probed, uint32_t turn)
{
	return built + probed + turn;
}

/* What a probe of the table gives. */
KERNEL_INLINE uint32_t
hash_join_probe(const uint32_t *table, uint64_t slots, uint32_t key, uint32_t value,
		uint32_t turn)
{
	uint64_t at = slots ? hash_join_slot(key, slots) : 0;

	for (uint64_t i = 0; i < slots; i++) {
		uint32_t there = table[2 * at];

		if (there == key)
			return hash_join_match(table[2 * at + 1], value, turn);
		if (there == 0)
			break;
		at = at + 1 < slots ? at + 1 : 0;
	}
	return 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C twin of the library's own kernel, which hashes a chunk (device/cuda/hash.h). The blocks
 * of the grid share the units, and each writes its two sums to its own place. For the stand-in,
 * which knows it without registration, and for tests that replace it.
 *
 * Threads: any; one block a call.
 */
#ifndef SL_TESTS_HASH_TWIN_H
#define SL_TESTS_HASH_TWIN_H

#include <string.h>

#include "device/cuda/hash.h"
#include "standin.h"

#define HASH_TWIN_PIECE 512u /* units that are asked for at once */

/* A chunk may be written while it is hashed: then the hash is of no use, and nobody uses it. */
__attribute__((noinline, no_sanitize("thread"))) static void
hash_twin_read(uint64_t *to, const volatile uint64_t *from, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		to[i] = from[i];
}

/* Parameters: address, units, sums of blocks, k0, k1, m0, m1. ptr: the stand-in's. */
static inline void
hash_twin(const struct sl_standin_block *b, void *const *params,
	  void *(*ptr)(const struct sl_standin_block *b, uint64_t addr, size_t bytes,
		       int access))
{
	uint64_t value[SL_CUDA_HASH_PARAMS], sums[2] = {0, 0}, each, first, end;
	uint64_t words[2 * HASH_TWIN_PIECE];

	for (unsigned i = 0; i < SL_CUDA_HASH_PARAMS; i++)
		memcpy(&value[i], params[i], sizeof(value[i]));
	each = (value[1] + b->grid[0] - 1) / b->grid[0];
	first = each * b->index[0] < value[1] ? each * b->index[0] : value[1];
	end = value[1] - first < each ? value[1] : first + each;
	for (uint64_t n; first < end; first += n) {
		n = end - first < HASH_TWIN_PIECE ? end - first : HASH_TWIN_PIECE;
		hash_twin_read(words,
			       ptr(b, value[0] + first * SL_CUDA_HASH_UNIT,
				   n * SL_CUDA_HASH_UNIT, SL_STANDIN_READ),
			       2 * n);
		sl_cuda_hash_add(sums, words, first, n, &value[3]);
	}
	memcpy(ptr(b, value[2] + b->index[0] * sizeof(sums), sizeof(sums), SL_STANDIN_WRITE),
	       sums, sizeof(sums));
}

#endif

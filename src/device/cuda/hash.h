/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash for dirty detection, as plain C: the function of the kernel in hash.c, and its
 * replacement where there is no GPU. It has two sums of 64 bits over a chunk's units of 16 bytes.
 *
 * For unit number i with words x, y, and the key k0, k1 (any), m0, m1 (odd):
 *     a = mix(x + k0 + i * m0)
 *     b = mix((y ^ a) + k1 + i * m1)
 *     sums[0] += mix(a + b), sums[1] += b          (modulo 2^64)
 *
 * How good is it? For a given i, (x, y) -> (mix(a + b), b) is one to one, since mix is. So a
 * change within one unit of 16 bytes is always found. For changes in several units the terms act
 * like random numbers: mix is the finaliser of splitmix64, whose output passes the usual tests
 * of randomness. Two sets of them have one equal sum with a chance of 2^-64, and both with
 * 2^-128. That holds for moved data, too: i takes part before mixing, by a secret factor. It is
 * no cryptographic hash: with the key one can make collisions. The key is random for each space
 * and never leaves it.
 *
 * Sums do not depend on the order of adding, so any grid of any size gives the same.
 */
#ifndef SL_DEVICE_CUDA_HASH_H
#define SL_DEVICE_CUDA_HASH_H

#include <stdint.h>

#define SL_CUDA_HASH_KERNEL  "sl_chunk_hash"
#define SL_CUDA_HASH_THREADS 256u
#define SL_CUDA_HASH_UNROLL  4u   /* units of a thread in one round */
#define SL_CUDA_HASH_BLOCKS  128u /* at most: few, which find room among the program's */
#define SL_CUDA_HASH_UNIT    16u  /* bytes */

/* Parameters of the kernel, all of 8 bytes: address, units, address of the sums, k0, k1, m0, m1. Each block
 * writes the two sums of what it has looked at to a place of its own: of block b, words 2 b and 2 b + 1. */
#define SL_CUDA_HASH_PARAMS 7u

static inline uint64_t
sl_cuda_hash_mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Add units [first, first + n) at words to sums. key: k0, k1, m0, m1. */
static inline void
sl_cuda_hash_add(uint64_t sums[2], const uint64_t *words, uint64_t first, uint64_t n,
		 const uint64_t key[4])
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t x = words[2 * i], y = words[2 * i + 1], at = first + i;
		uint64_t a = sl_cuda_hash_mix(x + key[0] + at * key[2]);
		uint64_t b = sl_cuda_hash_mix((y ^ a) + key[1] + at * key[3]);

		sums[0] += sl_cuda_hash_mix(a + b);
		sums[1] += b;
	}
}

#endif

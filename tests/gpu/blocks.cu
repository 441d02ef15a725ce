/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of 4 KiB made and compared on the GPU, for more of them than a host can make (test_codec.c). */
#include <cstdint>

#define WORDS 1024u /* of 32 bits, of a block */

__device__ static uint64_t
mixed(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* What all elements of a block have in common. */
struct kind {
	uint32_t layout;        /* below */
	uint32_t base, spread;  /* of exponents */
	uint32_t bits;          /* of integers */
	uint32_t zeros, odd;    /* so many of 4096 elements are 0, and so many odd ones: NaN, infinite, denormal, -0 */
	uint64_t value;
};

enum { BF16, FP16, FP32, FP32_LOW_EMPTY, FP64, INT16, INT32, INT64, BYTES, ONE_VALUE, FEW_VALUES, ANYTHING, ZEROS, LAYOUTS };

__device__ static kind
kind_of(uint64_t seed, uint64_t block)
{
	uint64_t a = mixed(seed ^ block * 0xd1342543de82ef95ull), b = mixed(a), c = mixed(b);
	kind k;

	k.layout = a % LAYOUTS;
	k.base = a >> 32;
	k.spread = 1u << (b % 8); /* from one exponent to more than a dictionary holds */
	k.bits = b >> 8 & 63;
	k.zeros = c & 3 ? 0 : c >> 8 & 4095;
	k.odd = c & 12 ? 0 : 1u << (c >> 20 & 11);
	k.value = mixed(c);
	return k;
}

/* A number of so many bits of exponent and mantissa. */
__device__ static uint64_t
number(const kind &k, uint64_t h, unsigned exponent_bits, unsigned mantissa_bits)
{
	uint64_t most = (1ull << exponent_bits) - 1, sign = h >> 63;
	uint64_t exponent = (k.base + (h >> 40) % k.spread) & most;
	uint64_t mantissa = mixed(h) & ((1ull << mantissa_bits) - 1);

	if ((h >> 12 & 4095) < k.odd) {
		exponent = h >> 30 & 1 ? most : 0; /* NaN, or denormal, */
		mantissa = h >> 31 & 1 ? mantissa : 0; /* infinite, or a zero with its sign */
	} else if ((h & 4095) < k.zeros) {
		return 0;
	}
	return sign << (exponent_bits + mantissa_bits) | exponent << mantissa_bits | mantissa;
}

__device__ static uint64_t
integer(const kind &k, uint64_t h, unsigned size_bits)
{
	unsigned bits = k.bits % size_bits + 1;
	int64_t v = (int64_t)(h << (64 - bits)) >> (64 - bits); /* signed, */

	if (k.value & 1)
		v = (int64_t)(h & (~0ull >> (64 - bits))); /* or not */
	return (h >> 50 & 4095) < k.zeros ? 0 : (uint64_t)v;
}

__device__ static uint64_t
pair_of_words(const kind &k, uint64_t h, uint64_t seed)
{
	uint64_t r = 0;

	switch (k.layout) {
	case BF16:
		for (int i = 0; i < 4; i++)
			r |= (number(k, mixed(h + i), 8, 7) & 0xffff) << 16 * i;
		return r;
	case FP16:
		for (int i = 0; i < 4; i++)
			r |= (number(k, mixed(h + i), 5, 10) & 0xffff) << 16 * i;
		return r;
	case FP32:
		return (number(k, h, 8, 23) & 0xffffffff) | number(k, mixed(h + 1), 8, 23) << 32;
	case FP32_LOW_EMPTY:
		return ((number(k, h, 8, 23) & 0xffffffff) | number(k, mixed(h + 1), 8, 23) << 32) &
		       0xffff0000ffff0000ull;
	case FP64:
		return number(k, h, 11, 52);
	case INT16:
		for (int i = 0; i < 4; i++)
			r |= (integer(k, mixed(h + i), 16) & 0xffff) << 16 * i;
		return r;
	case INT32:
		return (integer(k, h, 32) & 0xffffffff) | integer(k, mixed(h + 1), 32) << 32;
	case INT64:
		return integer(k, h, 64);
	case BYTES:
		for (int i = 0; i < 8; i++)
			r |= (integer(k, mixed(h + i), 8) & 0xff) << 8 * i;
		return r;
	case ONE_VALUE:
		return (h >> 40 & 4095) < (k.odd >> 4) ? h : k.value;
	case FEW_VALUES:
		return mixed(seed + h % (k.spread * 2));
	case ANYTHING:
		return h;
	default:
		return (h >> 40 & 4095) < (k.odd >> 4) ? h : 0;
	}
}

/* A thread block for a block. */
extern "C" __global__ void
blocks_make(uint64_t *raw, uint64_t seed)
{
	uint64_t block = blockIdx.x;
	kind k = kind_of(seed, block);

	for (uint32_t i = threadIdx.x; i < WORDS / 2; i += blockDim.x)
		raw[block * (WORDS / 2) + i] = pair_of_words(k, mixed(seed + block * WORDS + i), k.value);
}

/* *differ: so many threads found a difference. */
extern "C" __global__ void
blocks_compare(const ulonglong2 *a, const ulonglong2 *b, unsigned long long *differ)
{
	uint64_t first = blockIdx.x * (uint64_t)(WORDS / 4);
	bool found = false;

	for (uint32_t i = threadIdx.x; i < WORDS / 4; i += blockDim.x)
		found |= a[first + i].x != b[first + i].x || a[first + i].y != b[first + i].y;
	if (found)
		atomicAdd(differ, 1ull);
}

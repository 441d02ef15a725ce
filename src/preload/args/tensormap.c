/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps. A kernel gets one by value, or finds it in memory. Through it the kernel uses a
 * tensor whose address is nowhere else. The format of the 128 bytes is not documented. So each
 * map is remembered by a hash of them, with the tensor's address and its exact extent. Maps of
 * unmanaged memory are remembered, too, since their address may be replaced.
 *
 * The place of the address. Each new map is compared with its address. While one word has been
 * the address in all of them, only 128 bytes with one of our addresses there are looked up. A
 * map that was forgotten or changed by the program is then found by a plain search of words. If
 * a driver hides the address, every look-up hashes, and only the registry helps.
 *
 * The registry is a table of sets of WAYS; a new map replaces the oldest of its set. A forgotten
 * map costs time: memory that no launch names stays accessible. An entry is written behind the
 * lock and read without: the hash is cleared while the rest changes. A hash determines the rest.
 *
 * The driver may refuse a map because its tensor is only in the store. Then it is made once more
 * with the tensor's first chunk in place.
 *
 * Threads: any.
 */
#include <stdbool.h>
#include <string.h>

#include "base/lock.h"
#include "preload/api/api_tensormap.h"
#include "preload/args/tensormap.h"
#include "preload/calls/touch.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/scope.h"
#include "sluice/sluice.h"

#define SETS      16384u
#define WAYS      4u
#define RANK_MAX  5u
#define MAP_WORDS 16

struct entry {
	/* 0: none. atomic: pairs with map_lookup(): it is cleared first and stored last, and a reader
	 * takes addr and bytes only where it is the same before and after. */
	_Atomic uint64_t hash;
	_Atomic uint64_t addr, bytes; /* atomic: pairs with hash */
};

static struct entry entries[SETS][WAYS];
static struct sl_mutex entries_lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF);
static unsigned next_way;       /* entries_lock */
static _Atomic unsigned n_maps; /* atomic: pairs with pl_tensor_map_find() */

/* The word that was the address in all maps so far. */
#define WORD_UNKNOWN (-1)
#define WORD_NONE    MAP_WORDS
/* atomic: relaxed: n_maps orders the first store, and WORD_NONE is a hint. */
static _Atomic int address_word = WORD_UNKNOWN;

static uint64_t
map_hash(const uint64_t words[MAP_WORDS])
{
	uint64_t hash = 0x243f6a8885a308d3u;

	for (int i = 0; i < MAP_WORDS; i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 32;
	}
	return hash ? hash : 1;
}

static struct entry *
set_of(uint64_t hash)
{
	return entries[hash % SETS];
}

/* 1: known. */
static int
map_lookup(uint64_t hash, uint64_t *addr, uint64_t *bytes)
{
	struct entry *set = set_of(hash);

	for (unsigned i = 0; i < WAYS; i++) {
		if (atomic_load_explicit(&set[i].hash, memory_order_acquire) != hash)
			continue;
		*addr = atomic_load_explicit(&set[i].addr, memory_order_relaxed);
		*bytes = atomic_load_explicit(&set[i].bytes, memory_order_relaxed);
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&set[i].hash, memory_order_relaxed) == hash)
			return 1;
	}
	return 0;
}

/* Does the address still stand where it stood in all maps? */
static void
word_calibrate(const uint64_t words[MAP_WORDS], uint64_t addr)
{
	int word = atomic_load_explicit(&address_word, memory_order_relaxed);

	if (word == WORD_NONE || (word >= 0 && words[word] == addr))
		return;
	if (word == WORD_UNKNOWN)
		for (word = 0; word < MAP_WORDS && words[word] != addr;)
			word++;
	else
		word = WORD_NONE;
	atomic_store_explicit(&address_word, word, memory_order_relaxed);
}

static void
map_remember(const struct cu_tensor_map *map, uint64_t addr, uint64_t bytes)
{
	uint64_t hash = map_hash(map->opaque), old_addr, old_bytes;
	struct entry *set = set_of(hash), *entry = NULL;

	if (map_lookup(hash, &old_addr, &old_bytes))
		return;
	sl_mutex_lock(&entries_lock);
	word_calibrate(map->opaque, addr);
	for (unsigned i = 0; i < WAYS && !entry; i++)
		if (!atomic_load_explicit(&set[i].hash, memory_order_relaxed))
			entry = &set[i];
	if (!entry)
		entry = &set[next_way++ % WAYS];
	atomic_store_explicit(&entry->hash, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&entry->addr, addr, memory_order_relaxed);
	atomic_store_explicit(&entry->bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&entry->hash, hash, memory_order_release);
	atomic_store_explicit(&n_maps, 1, memory_order_release);
	sl_mutex_unlock(&entries_lock);
}

bool
pl_tensor_map_find(const void *map128, struct pl_use *use)
{
	uint64_t words[MAP_WORDS], addr, bytes;
	int word;

	if (!atomic_load_explicit(&n_maps, memory_order_acquire))
		return false;
	memcpy(words, map128, sizeof(words));
	word = atomic_load_explicit(&address_word, memory_order_relaxed);
	if (word >= 0 && word < MAP_WORDS && !pl_maybe_ours(words[word]))
		return false;
	return map_lookup(map_hash(words), &addr, &bytes) &&
	       pl_use_of(addr, bytes, SLUICE_USE_READ_WRITE, use);
}

/* ---- extents ---- */

/* Bytes of a row of n elements; UINT64_MAX: unknown. */
static uint64_t
row_bytes(int type, uint64_t n)
{
	switch ((enum cu_tensor_type)type) {
	case CU_TENSOR_U8:
	case CU_TENSOR_16U4_ALIGN16:
	case CU_TENSOR_16U6_ALIGN16:
		return n;
	case CU_TENSOR_U16:
	case CU_TENSOR_F16:
	case CU_TENSOR_BF16:
		return 2 * n;
	case CU_TENSOR_U32:
	case CU_TENSOR_S32:
	case CU_TENSOR_F32:
	case CU_TENSOR_F32_FTZ:
	case CU_TENSOR_TF32:
	case CU_TENSOR_TF32_FTZ:
		return 4 * n;
	case CU_TENSOR_U64:
	case CU_TENSOR_S64:
	case CU_TENSOR_F64:
		return 8 * n;
	case CU_TENSOR_16U4_ALIGN8:
		return (n + 1) / 2;
	}
	return UINT64_MAX;
}

/* From the first to behind the last byte of a tensor. What is laid out in slices of channels, and types
 * of newer drivers: UINT64_MAX, to the end of the block. */
static uint64_t
tensormap_bytes(int type, uint32_t rank, const uint64_t *dims, const uint64_t *strides,
		int interleave)
{
	uint64_t bytes, more;

	if (interleave || !rank || rank > RANK_MAX || dims[0] > UINT32_MAX + (uint64_t)1)
		return UINT64_MAX;
	bytes = row_bytes(type, dims[0]);
	for (uint32_t i = 1; i < rank; i++)
		if (__builtin_mul_overflow(dims[i] - 1, strides[i - 1], &more) ||
		    __builtin_add_overflow(bytes, more, &bytes))
			return UINT64_MAX;
	return bytes;
}

/* ---- the wrapped calls ---- */

/* The driver refused an address. 1: it may have been because nothing is there; now something is, until
 * pl_touch_end(). The thread's own stream: no other thread's capture minds. */
static int
tensor_place(struct pl_touch *touch, struct pl_use *use, uint64_t addr, int result)
{
	pl_touch_init(touch, use, 1);
	touch->kind = PL_TOUCH_PLACE;
	if (result != CU_ERROR_INVALID_VALUE || !pl_active())
		return 0;
	pl_touch_add(touch, addr, 1, SLUICE_USE_READ);
	return touch->n && pl_touch_begin(touch, NULL, PL_PER_THREAD) == CU_SUCCESS;
}

int
cuTensorMapEncodeTiled(struct cu_tensor_map *map, int type, uint32_t rank, void *addr,
		       const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
		       const uint32_t *steps, int interleave, int swizzle, int promotion,
		       int fill)
{
	__typeof__(&cuTensorMapEncodeTiled) real = PL_REAL(cuTensorMapEncodeTiled);
	int result = real(map, type, rank, addr, dims, strides, box, steps, interleave,
			  swizzle, promotion, fill);
	struct pl_touch touch;
	struct pl_use use;

	if (tensor_place(&touch, &use, (uintptr_t)addr, result)) {
		result = real(map, type, rank, addr, dims, strides, box, steps,
			      interleave, swizzle, promotion, fill);
		pl_touch_end(&touch);
	}
	if (result == CU_SUCCESS && pl_active())
		map_remember(map, (uintptr_t)addr,
			     tensormap_bytes(type, rank, dims, strides, interleave));
	return result;
}

int
cuTensorMapEncodeIm2col(struct cu_tensor_map *map, int type, uint32_t rank, void *addr,
			const uint64_t *dims, const uint64_t *strides, const int *lower,
			const int *upper, uint32_t channels, uint32_t pixels,
			const uint32_t *steps, int interleave, int swizzle, int promotion,
			int fill)
{
	__typeof__(&cuTensorMapEncodeIm2col) real = PL_REAL(cuTensorMapEncodeIm2col);
	int result = real(map, type, rank, addr, dims, strides, lower, upper, channels,
			  pixels, steps, interleave, swizzle, promotion, fill);
	struct pl_touch touch;
	struct pl_use use;

	if (tensor_place(&touch, &use, (uintptr_t)addr, result)) {
		result = real(map, type, rank, addr, dims, strides, lower, upper, channels,
			      pixels, steps, interleave, swizzle, promotion, fill);
		pl_touch_end(&touch);
	}
	if (result == CU_SUCCESS && pl_active())
		map_remember(map, (uintptr_t)addr,
			     tensormap_bytes(type, rank, dims, strides, interleave));
	return result;
}

int
cuTensorMapEncodeIm2colWide(struct cu_tensor_map *map, int type, uint32_t rank,
			    void *addr, const uint64_t *dims, const uint64_t *strides,
			    int lower, int upper, uint32_t channels, uint32_t pixels,
			    const uint32_t *steps, int interleave, int mode, int swizzle,
			    int promotion, int fill)
{
	__typeof__(&cuTensorMapEncodeIm2colWide) real = PL_REAL(cuTensorMapEncodeIm2colWide);
	int result = real(map, type, rank, addr, dims, strides, lower, upper, channels,
			  pixels, steps, interleave, mode, swizzle, promotion, fill);
	struct pl_touch touch;
	struct pl_use use;

	if (tensor_place(&touch, &use, (uintptr_t)addr, result)) {
		result = real(map, type, rank, addr, dims, strides, lower, upper, channels,
			      pixels, steps, interleave, mode, swizzle, promotion, fill);
		pl_touch_end(&touch);
	}
	if (result == CU_SUCCESS && pl_active())
		map_remember(map, (uintptr_t)addr,
			     tensormap_bytes(type, rank, dims, strides, interleave));
	return result;
}

int
cuTensorMapReplaceAddress(struct cu_tensor_map *map, void *addr)
{
	__typeof__(&cuTensorMapReplaceAddress) real = PL_REAL(cuTensorMapReplaceAddress);
	uint64_t old_addr, bytes = UINT64_MAX;
	struct pl_touch touch;
	struct pl_use use;
	int result;

	if (!map || !pl_active())
		return real(map, addr);
	if (!map_lookup(map_hash(map->opaque), &old_addr, &bytes))
		bytes = UINT64_MAX;
	result = real(map, addr);
	if (tensor_place(&touch, &use, (uintptr_t)addr, result)) {
		result = real(map, addr);
		pl_touch_end(&touch);
	}
	if (result == CU_SUCCESS)
		map_remember(map, (uintptr_t)addr, bytes);
	return result;
}

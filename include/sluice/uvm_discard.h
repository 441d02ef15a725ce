/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UVM Discard's names on top of Sluice. Source written to the paper's UvmDiscard and UvmDiscardLazy
 * compiles and runs against this header alone. So does source written to the batch calls that
 * CUDA 13 made of them. The spellings are those of the authors' programs.
 *
 * Those calls name no space, so they work on one space per process, the same as dragon.h's. It is
 * made at the first call from the defaults and the environment, and closed at exit(). uvm_space()
 * returns it. For another space use sluice_discard().
 *
 *   in place of            use on uvm_space()
 *   cudaMallocManaged      sluice_alloc()
 *   cudaMemPrefetchAsync   sluice_prefetch(), or a launch that declares a write: revives a range
 *
 * The promise of a discard (move.h): the contents are never copied again. A later read gives zeros
 * or an older value of the same range.
 *  - Eager: unmapped. A later write is seen and kept.
 *  - Lazy: still mapped. Writes before a revival can be lost.
 *
 * Calls return 0 or a negative errno, and sluice_last_error() has the text. Any thread may call
 * them. The caller keeps others from touching the range meanwhile.
 */
#ifndef SLUICE_UVM_DISCARD_H
#define SLUICE_UVM_DISCARD_H

#include "sluice/move.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The process's space, made now if need be. The library owns it: do not destroy it.
 * Errors: NULL (it could not be made).
 * Threads: any.
 * Blocks: on making the space.
 */
SLUICE_API struct sluice_space *uvm_space(void);

/*
 * Discard [addr, addr + size_bytes), as a CUDA call on stream 0 would: after all earlier work of
 * the default stream and all launches that declared the range.
 * Errors: -ENOENT (not in one region), -EINVAL, -EBUSY (eager, pinned), and errors of making the
 *     space.
 * Threads: any.
 * Blocks: on that work, eager also on the unmapping.
 */
SLUICE_API int uvm_discard(void *addr, size_t size_bytes) SLUICE_MUST_CHECK;
SLUICE_API int uvm_discard_lazy(void *addr, size_t size_bytes) SLUICE_MUST_CHECK;

/*
 * The same in the order of a stream of uvm_space(). stream NULL: as uvm_discard() and
 * uvm_discard_lazy().
 * Errors: as above; later ones come from sluice_stream_synchronize().
 * Threads: any.
 * Blocks: only with stream NULL. Otherwise they return once enqueued.
 */
SLUICE_API int uvm_discard_async(void *addr, size_t size_bytes,
				 struct sluice_stream *stream) SLUICE_MUST_CHECK;
SLUICE_API int uvm_discard_lazy_async(void *addr, size_t size_bytes,
				      struct sluice_stream *stream) SLUICE_MUST_CHECK;

/*
 * Eagerly discard count ranges (the shape of cuMemDiscardBatchAsync). The batch as a whole is in
 * stream order. stream NULL: as uvm_discard(), which CUDA refuses. count 0: nothing to do.
 * Errors: -ENOENT, -EINVAL (size 0, flags not 0, no arrays), -EBUSY. The whole batch is checked
 *     first. On these errors nothing is changed, and the text names the first wrong entry.
 * Threads: any.
 * Blocks: only with stream NULL.
 */
SLUICE_API int uvm_discard_batch(void *const *addrs, const size_t *sizes, size_t count,
				 unsigned long long flags,
				 struct sluice_stream *stream) SLUICE_MUST_CHECK;

/*
 * Lazily discard count ranges and revive each in a tier: room is made, nothing is copied (the shape
 * of cuMemDiscardAndPrefetchBatchAsync). tiers[k] (DEVICE or HOST) holds for the ranges from
 * tier_first[k] up to tier_first[k + 1]. tier_first[0] is 0 and the values rise.
 * Errors: as uvm_discard_batch(), as is the order.
 * Threads: any.
 * Blocks: only with stream NULL.
 */
SLUICE_API int uvm_discard_and_prefetch_batch(void *const *addrs, const size_t *sizes,
					      size_t count, const enum sluice_tier *tiers,
					      const size_t *tier_first, size_t n_tiers,
					      unsigned long long flags,
					      struct sluice_stream *stream) SLUICE_MUST_CHECK;

#ifdef __cplusplus
}
#endif

/*
 * The names as the paper writes them. These may be ignored without a warning.
 *
 *   UvmDiscard(addr, size)                      eager, default stream
 *   UvmDiscard(addr, size, stream)              eager, in stream order
 *   UvmDiscard(addr, size, lazy)                lazy an int, 0 or 1: default stream
 *   UvmDiscardLazy(addr, size [, stream])       lazy
 *   UvmDiscardAsync(addr, size, lazy, stream)   either, in stream order
 */
static inline int
UvmDiscardAsync(void *addr, size_t size_bytes, int lazy, struct sluice_stream *stream)
{
	return lazy ? uvm_discard_lazy_async(addr, size_bytes, stream)
		    : uvm_discard_async(addr, size_bytes, stream);
}

static inline int
sluice_uvm_discard_mode_(void *addr, size_t size_bytes, int lazy)
{
	return UvmDiscardAsync(addr, size_bytes, lazy, NULL);
}

static inline int
sluice_uvm_discard_stream_(void *addr, size_t size_bytes, struct sluice_stream *stream)
{
	return UvmDiscardAsync(addr, size_bytes, 0, stream);
}

static inline int
sluice_uvm_discard_lazy_stream_(void *addr, size_t size_bytes, struct sluice_stream *stream)
{
	return UvmDiscardAsync(addr, size_bytes, 1, stream);
}

#ifdef __cplusplus
static inline int
UvmDiscard(void *addr, size_t size_bytes, struct sluice_stream *stream)
{
	return sluice_uvm_discard_stream_(addr, size_bytes, stream);
}

static inline int
UvmDiscard(void *addr, size_t size_bytes, int lazy = 0)
{
	return sluice_uvm_discard_mode_(addr, size_bytes, lazy);
}

static inline int
UvmDiscard(void *addr, size_t size_bytes, long lazy) /* NULL is a long in C++: stream 0, eager */
{
	return sluice_uvm_discard_mode_(addr, size_bytes, lazy != 0);
}

static inline int
UvmDiscardLazy(void *addr, size_t size_bytes, struct sluice_stream *stream = NULL)
{
	return sluice_uvm_discard_lazy_stream_(addr, size_bytes, stream);
}
#else
/* Chosen by the number of arguments. For three, by the type of the third (C11). */
#define UvmDiscard(...)                                                                  \
	SLUICE_UVM_FOURTH_(__VA_ARGS__, SLUICE_UVM_DISCARD_3_, SLUICE_UVM_DISCARD_2_, 0) \
	(__VA_ARGS__)
#define UvmDiscardLazy(...)                                              \
	SLUICE_UVM_FOURTH_(__VA_ARGS__, sluice_uvm_discard_lazy_stream_, \
			   SLUICE_UVM_LAZY_2_, 0)                        \
	(__VA_ARGS__)
#define SLUICE_UVM_FOURTH_(a, b, c, name, ...) name
#define SLUICE_UVM_DISCARD_2_(addr, size_bytes) \
	sluice_uvm_discard_mode_(addr, size_bytes, 0)
#define SLUICE_UVM_LAZY_2_(addr, size_bytes) \
	sluice_uvm_discard_lazy_stream_(addr, size_bytes, NULL)
#define SLUICE_UVM_DISCARD_3_(addr, size_bytes, how) \
	_Generic((how),                                                                            \
		int: sluice_uvm_discard_mode_,                                                     \
		void *: sluice_uvm_discard_stream_,                                                \
		struct sluice_stream *: sluice_uvm_discard_stream_)(addr, size_bytes, how)
#endif
#endif

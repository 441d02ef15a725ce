/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving data on purpose: advice, prefetch, evict, pin, residency, discard. Ranges: size_bytes 0 is
 * an empty range, for which nothing happens; SLUICE_TO_END (region.h) goes to the end of the region.
 */
#ifndef SLUICE_MOVE_H
#define SLUICE_MOVE_H

#include "sluice/launch.h"
#include "sluice/region.h"

#ifdef __cplusplus
extern "C" {
#endif

enum sluice_advice {
	SLUICE_ADVISE_NORMAL, /* read-ahead by what is seen; the space's population; not
				   * measured, unless config.measure says so */
	SLUICE_ADVISE_SEQUENTIAL,  /* read ahead at once and to the full window */
	SLUICE_ADVISE_RANDOM,      /* no read-ahead; 4 KiB pages, faults in the faulting
				   * thread */
	SLUICE_ADVISE_WILL_NEED,   /* prefetch to host in the background */
	SLUICE_ADVISE_DONT_NEED,   /* first victims from now on (contents are kept) */
	SLUICE_ADVISE_READ_MOSTLY, /* keep the host copy while the data are on the
				    * device */
	SLUICE_ADVISE_MEASURE, /* the whole region is measured, as by config.measure */
	SLUICE_ADVISE_COUNT
};

enum sluice_discard_mode {
	SLUICE_DISCARD_EAGER, /* unmapped now: a later touch is seen and gives zeros */
	SLUICE_DISCARD_LAZY   /* still mapped: a launch with a write intent or a prefetch
			       * revives it; until then the contents may vanish at any
			       * time */
};

/*
 * Advise on [addr, addr + size), within one region (SEQUENTIAL, RANDOM, NORMAL,
 * MEASURE: on the whole region). A hint: never changes results. Errors: -ENOENT, -EINVAL. Any thread.
 * RANDOM and NORMAL may block on moving the region out; the others do not block.
 */
SLUICE_API int sluice_advise(struct sluice_space *space, void *addr, size_t size_bytes,
			     enum sluice_advice advice) SLUICE_MUST_CHECK;

/*
 * Bring a range to the device or to host memory (tier), in stream order, in the
 * background; what has no room within budgets stays where it is. Room is taken from what no
 * prefetch has asked for since its last use, before the coldest. stream NULL: starts at
 * once. Returns once enqueued. Errors: -ENOENT, -EINVAL (tier STORE), -ENOMEM; failed
 * reads are left to the use that needs the data. Revives lazily discarded ranges. Any
 * thread. Does not block on I/O.
 */
SLUICE_API int sluice_prefetch(struct sluice_space *space, const void *addr,
			       size_t size_bytes, enum sluice_tier tier,
			       struct sluice_stream *stream) SLUICE_MUST_CHECK;

/*
 * Move a range out to host memory or to the store, in stream order. stream NULL: done on
 * return (waits for launches that use the range), and errors (-EIO, -ENOSPC, -ENOBUFS)
 * are returned; otherwise enqueued, errors from sluice_stream_synchronize(). Pinned
 * chunks stay. -ENOENT, -EINVAL (tier DEVICE). Any thread. Blocks on I/O with stream
 * NULL.
 */
SLUICE_API int sluice_evict(struct sluice_space *space, const void *addr,
			    size_t size_bytes, enum sluice_tier tier,
			    struct sluice_stream *stream) SLUICE_MUST_CHECK;

/*
 * Bring a range to the device and keep it there until unpinned; pins count. Errors:
 * -ENOENT, -ENOBUFS (would leave less than two chunks of the device budget), -EIO,
 * -ENOSPC. unpin: -EINVAL when a chunk of the range is not pinned (nothing changed). Any
 * thread. pin blocks on copies and I/O; unpin does not block. What was discarded lives
 * again with the pin. (DRAGON-DIRECT, fetch-and-pin.)
 */
SLUICE_API int sluice_pin(struct sluice_space *space, const void *addr,
			  size_t size_bytes) SLUICE_MUST_CHECK;
SLUICE_API int sluice_unpin(struct sluice_space *space, const void *addr,
			    size_t size_bytes) SLUICE_MUST_CHECK;

/* Where a range is; bytes of each kind sum to the range's size. */
struct sluice_residency {
	uint64_t tier_bytes[SLUICE_TIER_COUNT]; /* by fastest tier that holds the bytes */
	uint64_t empty_bytes; /* never written or discarded: reads as zeros */
	uint64_t dirty_bytes; /* newer than the store copy (or without one) */
	uint64_t pinned_bytes;
	uint64_t in_flight_bytes; /* being moved now; to the device: or not known to have arrived */
};

/*
 * Where [addr, addr + size) is now (a snapshot: it may change at once). Granularity:
 * chunks, cut at the range's ends; pages where population is by page. Errors: -ENOENT.
 * Any thread. Does not block. (DRAGON-DIRECT, residency query.)
 */
SLUICE_API int sluice_residency(struct sluice_space *space, const void *addr,
				size_t size_bytes,
				struct sluice_residency *out) SLUICE_MUST_CHECK;

/*
 * Prefetch elements by index: element i covers [base + i * element_bytes, +
 * element_bytes). The indices (n of them, any order, repeats allowed) are read before
 * return; the touched chunks are fetched in address order. Errors as sluice_prefetch(),
 * and -EINVAL when an index lies beyond the region (the text names it; nothing is
 * fetched). (DRAGON-DIRECT, index-driven prefetch.)
 */
SLUICE_API int sluice_prefetch_index(struct sluice_space *space, const void *base,
				     size_t element_bytes, const uint64_t *index,
				     size_t n, enum sluice_tier tier,
				     struct sluice_stream *stream) SLUICE_MUST_CHECK;

/*
 * Declare the contents of a range dead: they are copied nowhere any more, host and store
 * copies go too. Tracked per 4 KiB page, acted on when a chunk's last live page goes. A
 * later read gives zeros or an older value of the same range. In stream order; stream
 * NULL: now (waits for launches that use the range). Errors: -ENOENT, -EINVAL, -EBUSY
 * (eager, pinned). Pinned, what is discarded lazily stays on the device until it is
 * unpinned. Any thread. Eager blocks on the unmapping; lazy does not block. (UVM Discard,
 * UvmDiscard and UvmDiscardLazy.)
 */
SLUICE_API int sluice_discard(struct sluice_space *space, void *addr, size_t size_bytes,
			      enum sluice_discard_mode mode,
			      struct sluice_stream *stream) SLUICE_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving data on purpose: advice, prefetch, evict, pin, residency, discard.
 *
 * Ranges: size_bytes 0 is an empty range, for which nothing happens. SLUICE_TO_END (region.h) goes
 * to the end of the region.
 */
#ifndef SLUICE_MOVE_H
#define SLUICE_MOVE_H

#include "sluice/launch.h"
#include "sluice/region.h"

#ifdef __cplusplus
extern "C" {
#endif

enum sluice_advice {
	SLUICE_ADVISE_NORMAL, /* default: automatic read-ahead, the space's population and
				   * dirty detection (config.measure) */
	SLUICE_ADVISE_SEQUENTIAL,  /* read ahead at once and to the full window */
	SLUICE_ADVISE_RANDOM,      /* no read-ahead; 4 KiB pages, faults in the faulting
				   * thread */
	SLUICE_ADVISE_WILL_NEED,   /* prefetch to host in the background */
	SLUICE_ADVISE_DONT_NEED,   /* first victims from now on (contents are kept) */
	SLUICE_ADVISE_READ_MOSTLY, /* keep the host copy while the data are on the
				    * device */
	SLUICE_ADVISE_MEASURE, /* dirty detection in the whole region, as by config.measure */
	SLUICE_ADVISE_COUNT
};

enum sluice_discard_mode {
	SLUICE_DISCARD_EAGER, /* unmapped now: a later touch is seen and gives zeros */
	SLUICE_DISCARD_LAZY   /* still mapped: a launch with a write intent or a prefetch
			       * revives it; until then the contents can vanish at any
			       * time */
};

/*
 * Advise on [addr, addr + size_bytes), within one region. SEQUENTIAL, RANDOM, NORMAL and MEASURE
 * apply to the whole region. A hint: never changes results.
 * Errors: -ENOENT, -EINVAL.
 * Threads: any.
 * Blocks: RANDOM and NORMAL on moving the region out, the others do not.
 */
SLUICE_API int sluice_advise(struct sluice_space *space, void *addr, size_t size_bytes,
			     enum sluice_advice advice) SLUICE_MUST_CHECK;

/*
 * Bring a range to the device or to host memory (tier), in stream order, in the background.
 *  - Data without room within budgets stay in their place.
 *  - Victims are first the data that no prefetch has asked for since their last use, then the
 *    coldest.
 *  - stream NULL: starts at once. Returns once enqueued.
 *  - Lazily discarded ranges are revived.
 * Errors: -ENOENT, -EINVAL (tier STORE), -ENOMEM. A failed read is reported by the use that needs
 *     the data.
 * Threads: any.
 * Blocks: not on I/O.
 */
SLUICE_API int sluice_prefetch(struct sluice_space *space, const void *addr,
			       size_t size_bytes, enum sluice_tier tier,
			       struct sluice_stream *stream) SLUICE_MUST_CHECK;

/*
 * Move a range out to host memory or to the store, in stream order. stream NULL: done on return.
 * Pinned chunks stay.
 * Errors: -ENOENT, -EINVAL (tier DEVICE). Later ones are -EIO, -ENOSPC, -ENOBUFS: returned with
 *     stream NULL, otherwise by sluice_stream_synchronize().
 * Threads: any.
 * Blocks: with stream NULL on launches that use the range, and on I/O. Otherwise no.
 */
SLUICE_API int sluice_evict(struct sluice_space *space, const void *addr,
			    size_t size_bytes, enum sluice_tier tier,
			    struct sluice_stream *stream) SLUICE_MUST_CHECK;

/*
 * Bring a range to the device and keep it there until unpinned. Pins count. A pin revives
 * discarded data.
 * Errors: -ENOENT, -ENOBUFS (less than two chunks of the device budget would be left), -EIO,
 *     -ENOSPC. unpin: -EINVAL (a chunk of the range is not pinned; nothing changed).
 * Threads: any.
 * Blocks: pin on copies and I/O, and where the device is shared on the turn and on room, as a
 *     launch. unpin does not.
 */
SLUICE_API int sluice_pin(struct sluice_space *space, const void *addr,
			  size_t size_bytes) SLUICE_MUST_CHECK;
SLUICE_API int sluice_unpin(struct sluice_space *space, const void *addr,
			    size_t size_bytes) SLUICE_MUST_CHECK;

/* The place of a range's bytes. Tiers and empty_bytes sum to the range's size. */
struct sluice_residency {
	uint64_t tier_bytes[SLUICE_TIER_COUNT]; /* by fastest tier that holds the bytes */
	uint64_t empty_bytes; /* never written or discarded: reads as zeros */
	uint64_t dirty_bytes; /* newer than the store copy (or without one) */
	uint64_t pinned_bytes;
	uint64_t in_flight_bytes; /* being moved now, or not known to have arrived on the device */
};

/*
 * The place of [addr, addr + size_bytes) now. A snapshot: it may change at once. The granularity is
 * chunks, cut at the range's ends, or pages where population is by page.
 * Errors: -ENOENT.
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API int sluice_residency(struct sluice_space *space, const void *addr,
				size_t size_bytes,
				struct sluice_residency *out) SLUICE_MUST_CHECK;

/*
 * Prefetch elements by index: element i covers [base + i * element_bytes, + element_bytes). The n
 * indices may have any order and repeat. They are read before return. Their chunks are fetched in
 * address order.
 * Errors: as sluice_prefetch(), and -EINVAL (an index lies beyond the region; the text names it,
 *     and nothing is fetched).
 * Threads: any.
 * Blocks: not on I/O.
 */
SLUICE_API int sluice_prefetch_index(struct sluice_space *space, const void *base,
				     size_t element_bytes, const uint64_t *index,
				     size_t n, enum sluice_tier tier,
				     struct sluice_stream *stream) SLUICE_MUST_CHECK;

/*
 * Declare the contents of a range dead, in stream order. stream NULL: now.
 *  - They are never copied again. Host and store copies are dropped, too.
 *  - A later read gives zeros or an older value of the same range.
 *  - Discards are tracked per 4 KiB page. A chunk is dropped with its last live page.
 *  - Lazily discarded data that are pinned stay on the device until unpinned.
 * Errors: -ENOENT, -EINVAL, -EBUSY (eager, pinned).
 * Threads: any.
 * Blocks: with stream NULL on launches that use the range. Eager on the unmapping, lazy does not.
 */
SLUICE_API int sluice_discard(struct sluice_space *space, void *addr, size_t size_bytes,
			      enum sluice_discard_mode mode,
			      struct sluice_stream *stream) SLUICE_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif

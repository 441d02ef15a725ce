/* SPDX-License-Identifier: Apache-2.0 */
/*
 * userfaultfd as this device uses it: definitions that kernel headers may lack (moves, 6.8),
 * opening with or without privilege, and the ioctls with bounded retries.
 *
 * The ioctl wrappers return 0 or -errno and set no text: the caller knows the object. They are
 * safe in signal handlers: no allocation, no lock. Addresses and sizes are multiples of 4 KiB.
 */
#ifndef SL_DEVICE_SOFT_UFFD_H
#define SL_DEVICE_SOFT_UFFD_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Feature bits (values of the kernel's interface). */
enum sl_uffd_feature {
	SL_UFFD_FEATURE_WP = 1 << 0,     /* write-protect anonymous memory, 5.7 */
	SL_UFFD_FEATURE_SIGBUS = 1 << 7, /* a fault is a SIGBUS instead of a message, 4.14 */
	SL_UFFD_FEATURE_THREAD_ID = 1 << 8, /* messages name the thread, 4.14 */
	SL_UFFD_FEATURE_EXACT_ADDR = 1 << 11, /* messages carry the byte, not its page, 5.18 */
	SL_UFFD_FEATURE_POISON = 1 << 14, /* UFFDIO_POISON, 6.6 */
	SL_UFFD_FEATURE_MOVE = 1 << 16    /* UFFDIO_MOVE, 6.8 */
};

/* Flags of the wrappers below. */
enum sl_uffd_flag {
	SL_UFFD_GUARD = 1,    /* copy: pages are write-protected from the start */
	SL_UFFD_NO_WAKE = 2,  /* leave waiting threads waiting */
	SL_UFFD_HOLES_OK = 4, /* move: pages missing at the source are no error */
	SL_UFFD_PATIENT = 8 /* move: wait up to about 0.2 s for pages that I/O has pinned */
};

/*
 * Which features the kernel has and whether it gives us more than user-mode faults.
 * *user_only: 1 when system calls that touch absent memory will fail instead of waiting.
 * -EPERM, -ENOTSUP: with a text that names the setting. Opens and closes a descriptor.
 */
int sl_uffd_probe(uint64_t *features, int *user_only) SL_MUST_CHECK;

/* A descriptor with exactly these features, close-on-exec and non-blocking. Text set on failure. */
int sl_uffd_open(uint64_t features, int *fd) SL_MUST_CHECK;

/* Register: absent pages (missing != 0) and guarded pages of the range are events of fd. */
int sl_uffd_register(int fd, void *addr, size_t bytes, int missing) SL_MUST_CHECK;

/*
 * Move pages; *done: bytes moved from the start, also on failure. *retries (atomic)
 * counts refusals. -EBUSY: pages are pinned by I/O; -EEXIST: a page is present at dst, perhaps
 * only since this call: some kernels move pages beyond *done then (carry.c, sl_soft_range_move());
 * -ENOENT: missing at src.
 */
int sl_uffd_move(int fd, void *dst, void *src, size_t bytes, unsigned flags, size_t *done,
		 uint64_t *retries) SL_MUST_CHECK;

/* Copy into absent pages. *done: bytes filled from the start, also on failure. */
int sl_uffd_copy(int fd, void *dst, const void *src, size_t bytes, unsigned flags,
		 size_t *done) SL_MUST_CHECK;

/* Guard (flags with SL_UFFD_GUARD) or unguard present pages; unguard wakes unless NO_WAKE. */
int sl_uffd_protect(int fd, void *addr, size_t bytes, unsigned flags) SL_MUST_CHECK;

/* Make touches of absent pages fail instead of wait, and wake. madvise(MADV_DONTNEED) ends it. */
int sl_uffd_poison(int fd, void *addr, size_t bytes) SL_MUST_CHECK;

/* Wake threads that wait for pages of the range. */
void sl_uffd_wake(int fd, void *addr, size_t bytes);

#endif

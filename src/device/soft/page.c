/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single pages: fill absent ones by copy, drop present ones, find which are present.
 *
 * Zeros are copied from a page of zeros. UFFDIO_ZEROPAGE would map the shared zero page. That
 * page cannot be guarded from the start, and some kernels cannot move it.
 *
 * Fills may be called inside signal handlers: no lock, no allocation.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bitmap.h"
#include "device/soft/soft.h"
#include "device/soft/uffd.h"

#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_SWAPPED (1ull << 62)

int
sl_soft_page_fill(struct sl_device *dev, void *addr, uint64_t bytes, const void *src, int guard)
{
	struct soft *soft = sl_soft_of(dev);
	uint64_t at = 0;
	int waits;
	int fd;
	int rc = sl_soft_range_fd(soft, "page fill", addr, bytes, &fd, &waits);

	if (rc)
		return rc;
	sl_soft_move_begin(soft, addr, bytes);
	sl_soft_range_set_small(soft, addr, bytes, 1);
	while (at < bytes) {
		uint64_t run = bytes - at;
		size_t done;

		if (!src && run > SL_GRANULE_BYTES)
			run = SL_GRANULE_BYTES;
		rc = sl_uffd_copy(fd, (char *)addr + at,
				  src ? (const char *)src + at : soft->zeros, run,
				  (guard ? SL_UFFD_GUARD : 0u) |
					  (waits ? 0u : SL_UFFD_NO_WAKE),
				  &done);
		at += done;
		if (rc == -EEXIST)
			at += SL_PAGE_BYTES;
		else if (rc)
			break;
	}
	sl_soft_move_end(soft, addr, bytes);
	if (at < bytes)
		return sl_fail(rc, "page fill: %p: %s", (void *)((char *)addr + at),
			       sl_errno_name(rc));
	if (waits)
		sl_uffd_wake(fd, addr, bytes); /* those who wait for a page that was there */
	return 0;
}

int
sl_soft_page_drop(struct sl_device *dev, void *addr, uint64_t bytes)
{
	struct soft *soft = sl_soft_of(dev);
	int whole = (uintptr_t)addr % SL_GRANULE_BYTES == 0 && bytes % SL_GRANULE_BYTES == 0;
	int fd;
	int rc = sl_soft_range_fd(soft, "page drop", addr, bytes, &fd, NULL);

	if (rc)
		return rc;
	sl_soft_move_begin(soft, addr, bytes);
	if (!whole)
		sl_soft_range_set_small(soft, addr, bytes, 1);
	if (madvise(addr, bytes, MADV_DONTNEED))
		rc = -errno;
	else if (whole)
		sl_soft_range_set_small(soft, addr, bytes, 0);
	sl_soft_move_end(soft, addr, bytes);
	return rc ? sl_fail(rc, "page drop: %p, %llu bytes: %s", addr,
			    (unsigned long long)bytes, sl_errno_name(rc))
		  : 0;
}

int
sl_soft_pages_present(const struct soft *soft, const void *addr, uint64_t bytes, uint64_t *map)
{
	uint64_t entries[SL_GRANULE_BYTES / SL_PAGE_BYTES];
	size_t n = bytes / SL_PAGE_BYTES;
	off_t offset = (off_t)((uintptr_t)addr / SL_PAGE_BYTES * sizeof(entries[0]));
	ssize_t got = pread(soft->pagemap_fd, entries, n * sizeof(entries[0]), offset);

	if (got != (ssize_t)(n * sizeof(entries[0])))
		return sl_fail(-EIO, "pages of %p: /proc/self/pagemap: %s", addr,
			       got < 0 ? sl_errno_name(errno) : "short read");
	memset(map, 0, SL_BITMAP_WORDS(n) * sizeof(map[0]));
	for (size_t i = 0; i < n; i++)
		if (entries[i] & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED))
			map[i / 64] |= 1ull << (i % 64);
	return 0;
}

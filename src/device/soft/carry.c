/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves and copies of a chunk's contents: in, out, and back to the source. chunk.c chooses between
 * them, and decides about frames.
 *
 * A move is all or nothing. The part that a failed call has moved goes back in the same way, as
 * atomic for racing threads. A copy in write-protects its pages from the start, and releases
 * them together at the end. So dropping a half-made copy loses nothing.
 *
 * Some kernels (6.18) count wrongly. A move that meets a touch begins again. It takes the pages
 * it has just moved for older ones and fails with -EEXIST. No return value tells of those pages.
 * sl_soft_range_move() counts them.
 *
 * Threads: any. The caller has announced itself by sl_soft_move_begin().
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bitmap.h"
#include "base/log.h"
#include "device/soft/soft.h"
#include "device/soft/uffd.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* 5.14 */
#endif

#define RETURN_TRIES 50
#define TABLE_TRIES  50u

/*
 * Copy bytes that other threads may be writing. The race is part of the contract
 * (snapshot() of a guarded chunk whose guard somebody lifts meanwhile is copied again),
 * hence hidden from ThreadSanitizer, which would report it.
 */
void
sl_soft_racing_copy(void *dst, const void *src, size_t bytes)
{
#if defined(__x86_64__)
	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
#else
	memcpy(dst, src, bytes);
#endif
}

/*
 * How many of the pages from the start are at dst and no longer at src. The caller knows that nothing
 * was at dst, or else that everything was at src: so they have been moved.
 */
static int
pages_count_moved(const struct soft *soft, const char *dst, const char *src, size_t bytes,
		  size_t *n_moved)
{
	size_t look = bytes < SL_GRANULE_BYTES ? bytes : SL_GRANULE_BYTES;
	uint64_t at_dst[SL_BITMAP_WORDS(SL_SOFT_GRANULE_PAGES)];
	uint64_t at_src[SL_BITMAP_WORDS(SL_SOFT_GRANULE_PAGES)];
	size_t n = look / SL_PAGE_BYTES;
	size_t have;
	size_t left;
	int rc = sl_soft_pages_present(soft, dst, look, at_dst);

	if (!rc)
		rc = sl_soft_pages_present(soft, src, look, at_src);
	if (rc)
		return rc;
	have = sl_bitmap_next_clear(at_dst, 0, n);
	left = sl_bitmap_next_set(at_src, 0, n);
	*n_moved = have < left ? have : left;
	return 0;
}

int
sl_soft_range_move(struct soft *soft, int fd, void *dst, void *src, size_t bytes,
		   unsigned flags, size_t *done)
{
	size_t moved = 0;
	int rc;

	for (;;) {
		size_t part;

		rc = sl_uffd_move(fd, (char *)dst + moved, (char *)src + moved,
				  bytes - moved, flags, &part, &soft->progress.move_retries);
		moved += part;
		if (rc != -EEXIST)
			break;
		if (pages_count_moved(soft, (char *)dst + moved, (char *)src + moved,
				      bytes - moved, &part) ||
		    !part)
			break;
		moved += part * SL_PAGE_BYTES; /* further each time: an end is certain */
		rc = 0;
		if (moved == bytes)
			break;
	}
	*done = moved;
	return rc;
}

int
sl_soft_chunk_copy_in(struct soft *soft, int fd, void *addr, uint64_t bytes,
		      const void *src, int guard)
{
	size_t step = src ? bytes : SL_GRANULE_BYTES;
	uint64_t filled = 0;
	size_t done;
	int rc = 0;

	while (!rc && filled < bytes) {
		rc = sl_uffd_copy(fd, (char *)addr + filled, src ? src : soft->zeros,
				  step, SL_UFFD_GUARD | SL_UFFD_NO_WAKE, &done);
		filled += done;
	}
	sl_soft_range_set_small(soft, addr, bytes, 1);
	if (!rc && !guard)
		rc = sl_uffd_protect(fd, addr, bytes, SL_UFFD_NO_WAKE);
	if (rc) {
		/* Nobody could write: nothing is lost. When unguarding failed half-way, the
		 * written part is lost with a kernel that refuses what it always
		 * grants. */
		if (filled)
			sl_soft_range_drop(addr, filled);
		return sl_soft_chunk_fail(rc, "present", addr, bytes, "copy");
	}
	return 0;
}

/*
 * Move pages back where a failed call took them from: nobody else fills the place
 * meanwhile, and what pins a page in between is a direct I/O that ends. Gives up after
 * RETURN_TRIES waits of 0.2 s: then the pages stay where they are and their contents are
 * lost to the caller.
 */
static void
chunk_return(struct soft *soft, int fd, void *home, void *src, size_t bytes)
{
	for (int tries = 0; bytes && tries < RETURN_TRIES; tries++) {
		size_t back;
		int rc = sl_soft_range_move(soft, fd, home, src, bytes,
					    SL_UFFD_HOLES_OK | SL_UFFD_PATIENT |
						    SL_UFFD_NO_WAKE,
					    &back);

		if (!rc)
			return;
		home = (char *)home + back;
		src = (char *)src + back;
		bytes -= back;
	}
	if (bytes)
		sl_log(SL_ERROR, "device",
		       "%zu bytes at %p could not be moved back to %p: lost", bytes, src,
		       home);
}

int
sl_soft_chunk_move_in(struct soft *soft, int fd, int waits, void *addr, uint64_t bytes,
		      void *src, int guard)
{
	const char *step = "move";
	unsigned races = 0;
	int holes_filled = 0;
	size_t done = 0;
	size_t part;
	int rc;

	if (soft->drops_tables)
		(void)sl_soft_tables_drop(soft, addr, bytes);
	for (;;) {
		rc = sl_soft_range_move(soft, fd, (char *)addr + done, (char *)src + done,
					bytes - done, SL_UFFD_NO_WAKE, &part);
		done += part;
		/* A touch since has made a table again, just when the move looked. */
		if (rc == -EEXIST && soft->drops_tables &&
		    sl_soft_tables_drop(soft, (char *)addr + done, bytes - done)) {
			if (++races < TABLE_TRIES)
				continue;
			rc = -EAGAIN;
			break;
		}
		if (rc != -ENOENT || holes_filled)
			break;
		holes_filled = 1;
		if (madvise((char *)src + done, bytes - done, MADV_POPULATE_WRITE)) {
			rc = -errno;
			step = "memory for the frame";
			break;
		}
	}
	if (!rc && guard) {
		step = "guard";
		rc = sl_uffd_protect(fd, addr, bytes, SL_UFFD_GUARD);
	}
	if (!rc) {
		if (waits)
			sl_uffd_wake(fd, addr, bytes);
		return 0;
	}
	chunk_return(soft, soft->arena_fd, src, addr, done);
	return sl_soft_chunk_fail(rc, "present", addr, bytes, step);
}

/*
 * Copy the pages that src has back to the chunk that they were moved from, guarded: which of
 * them were guarded is forgotten, and one more event harms nobody while one less loses a
 * write. Pages that cannot be copied (no memory) are moved, unguarded. src is empty then.
 */
void
sl_soft_chunk_return_guarded(struct soft *soft, int fd, char *home, char *src, size_t bytes)
{
	for (size_t at = 0, step; at < bytes; at += step) {
		uint64_t map[SL_BITMAP_WORDS(SL_SOFT_GRANULE_PAGES)];
		size_t end = 0;
		size_t n;
		int rc;

		step = bytes - at < SL_GRANULE_BYTES ? bytes - at : SL_GRANULE_BYTES;
		n = step / SL_PAGE_BYTES;
		rc = sl_soft_pages_present(soft, src + at, step, map);
		while (!rc) {
			size_t first = sl_bitmap_next_set(map, end, n);
			size_t offset = at + first * SL_PAGE_BYTES;
			size_t done;

			if (first == n)
				break;
			end = sl_bitmap_next_clear(map, first, n);
			rc = sl_uffd_copy(fd, home + offset, src + offset,
					  (end - first) * SL_PAGE_BYTES,
					  SL_UFFD_GUARD | SL_UFFD_NO_WAKE, &done);
			if (done) /* must not stop the move if there is one */
				sl_soft_range_drop(src + offset, done);
		}
		if (rc)
			chunk_return(soft, fd, home + at, src + at, step);
	}
	if (bytes)
		sl_soft_range_set_small(soft, home, bytes, 1);
}

int
sl_soft_chunk_move_out(struct soft *soft, int fd, void *addr, uint64_t bytes, void *dst)
{
	size_t done;
	int rc = sl_soft_range_move(soft, soft->arena_fd, dst, addr, bytes,
				    SL_UFFD_HOLES_OK | SL_UFFD_PATIENT | SL_UFFD_NO_WAKE,
				    &done);

	if (!rc)
		return 0;
	sl_soft_chunk_return_guarded(soft, fd, addr, dst, done);
	return sl_soft_chunk_fail(
		rc, "absent", addr, bytes,
		rc == -EBUSY ? "pinned by direct I/O, try again when it is done" : "move");
}

int
sl_soft_pages_copy(const struct soft *soft, char *dst, const char *src, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += SL_GRANULE_BYTES) {
		uint64_t map[SL_BITMAP_WORDS(SL_SOFT_GRANULE_PAGES)];
		size_t first;
		size_t end = 0;
		int rc = sl_soft_pages_present(soft, src + at, SL_GRANULE_BYTES, map);

		if (rc)
			return rc;
		for (;;) {
			first = sl_bitmap_next_set(map, end, SL_SOFT_GRANULE_PAGES);
			if (first == SL_SOFT_GRANULE_PAGES)
				break;
			end = sl_bitmap_next_clear(map, first, SL_SOFT_GRANULE_PAGES);
			sl_soft_racing_copy(dst + at + first * SL_PAGE_BYTES,
					    src + at + first * SL_PAGE_BYTES,
					    (end - first) * SL_PAGE_BYTES);
		}
	}
	return 0;
}

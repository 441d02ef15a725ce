/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole chunks: present, absent, snapshot, guard. This file chooses between moving and copying,
 * and the frame's memory. carry.c does it; range.c knows the addresses.
 *
 * - A chunk that cannot be moved *in* is copied.
 * - A chunk that cannot be moved *out*, because I/O has its pages pinned, is not copied: the I/O
 *   may still write to it. The caller gets -EBUSY after about 0.2 s, and the chunk stays.
 * - Without moves, copying out is: protect, copy, drop.
 * - A chunk with small pages, or with only some of its pages (SL_SOFT_GRANULE_SMALL), is moved out
 *   to an empty scratch slot, and copied from there into the frame. The frame keeps its huge
 *   page and, where pages were missing, its contents.
 *
 * Threads: any. Core never calls two of these for one chunk at once. No lock is held across a
 * call.
 */
#include <errno.h>
#include <string.h>

#include "base/bitmap.h"
#include "device/soft/soft.h"
#include "device/soft/uffd.h"

/* Which pages are there; *whole: all. For ranges that may be small. */
static int
pages_whole(const struct soft *soft, const void *addr, uint64_t bytes, int *whole, int *none)
{
	*whole = 1;
	*none = 1;
	for (uint64_t at = 0; at < bytes; at += SL_GRANULE_BYTES) {
		uint64_t map[SL_BITMAP_WORDS(SL_SOFT_GRANULE_PAGES)];
		size_t n;
		int rc = sl_soft_pages_present(soft, (const char *)addr + at,
					       SL_GRANULE_BYTES, map);

		if (rc)
			return rc;
		n = sl_bitmap_count(map, 0, SL_SOFT_GRANULE_PAGES);
		if (n)
			*none = 0;
		if (n < SL_SOFT_GRANULE_PAGES)
			*whole = 0;
	}
	return 0;
}

/*
 * Present the contents of a frame. Moved or copied; *moved tells. What is refused for the
 * moment (pages locked or pinned) is copied: the frame is not in use, by contract.
 */
static int
frame_present(struct soft *soft, void *addr, uint64_t bytes, struct soft_frame *frame,
	      unsigned flags, int *moved)
{
	int guard = (flags & (SL_PRESENT_GUARD | SL_PRESENT_GUARD_STRICT)) != 0;
	int whole;
	int none;
	int waits;
	int fd;
	int rc = sl_soft_range_fd(soft, "present", addr, bytes, &fd, &waits);

	if (rc)
		return rc;
	if (sl_soft_range_is_small(soft, addr, bytes)) {
		rc = pages_whole(soft, addr, bytes, &whole, &none);
		if (rc)
			return rc;
		if (!none)
			return sl_soft_chunk_fail(-EEXIST, "present", addr, bytes,
						  "pages are present");
	}
	*moved = 0;
	if (soft->can_move && !(flags & SL_PRESENT_GUARD_STRICT)) {
		int huge = soft->drops_tables &&
			   sl_soft_range_is_huge(soft, frame->frame.data, bytes);

		rc = sl_soft_chunk_move_in(soft, fd, waits, addr, bytes,
					   frame->frame.data, guard);
		if (!rc) {
			if (huge && !sl_soft_range_is_huge(soft, addr, bytes))
				frame->small = 1;
			sl_soft_range_set_small(soft, addr, bytes, frame->small);
			*moved = 1;
			return 0;
		}
		if (rc != -EBUSY && rc != -EAGAIN)
			return rc;
	}
	rc = sl_soft_chunk_copy_in(soft, fd, addr, bytes, frame->frame.data, guard);
	if (!rc && waits)
		sl_uffd_wake(fd, addr, bytes);
	return rc;
}

/* present() without a frame. */
static int
present_own(struct soft *soft, void *addr, uint64_t bytes, unsigned flags)
{
	int any = (flags & SL_PRESENT_UNDEFINED) != 0;
	struct soft_frame *frame;
	int moved = 0;
	int waits;
	int fd;
	int rc = sl_soft_range_fd(soft, "present", addr, bytes, &fd, &waits);

	if (rc)
		return rc;
	if (!soft->can_move || (flags & SL_PRESENT_GUARD_STRICT)) {
		rc = sl_soft_chunk_copy_in(soft, fd, addr, bytes, NULL,
					   (flags & (SL_PRESENT_GUARD |
						     SL_PRESENT_GUARD_STRICT)) != 0);
		if (!rc && waits)
			sl_uffd_wake(fd, addr, bytes);
		return rc;
	}
	rc = sl_soft_frame_take(soft, bytes, any ? SOFT_TAKE_FULL : SOFT_TAKE_CLEAR, &frame);
	if (rc)
		return rc;
	if (frame->memory == SOFT_MEMORY_OWN && frame->frame.dirty_memory && !any)
		memset(frame->frame.data, 0, bytes);
	rc = frame_present(soft, addr, bytes, frame, flags, &moved);
	frame->memory = moved ? SOFT_MEMORY_NONE : SOFT_MEMORY_OWN;
	sl_soft_frame_give(soft, frame);
	return rc;
}

/* present() of a frame. */
static int
present_frame(struct soft *soft, void *addr, uint64_t bytes, struct sl_frame *frame,
	      unsigned flags)
{
	struct soft_frame *slot = frame->private;
	int moved;
	int rc;

	if (frame->bytes != bytes || slot->memory == SOFT_MEMORY_LENT)
		return sl_fail(-EINVAL,
			       "present: chunk %p, %llu bytes: frame of %llu bytes, %s", addr,
			       (unsigned long long)bytes, (unsigned long long)frame->bytes,
			       slot->memory == SOFT_MEMORY_LENT ? "lent already" : "free");
	rc = frame_present(soft, addr, bytes, slot, flags, &moved);
	if (rc)
		return rc;
	if (flags & SL_PRESENT_KEEP) {
		slot->memory = moved ? SOFT_MEMORY_LENT : SOFT_MEMORY_OWN;
		return 0;
	}
	slot->memory = moved ? SOFT_MEMORY_NONE : SOFT_MEMORY_OWN;
	sl_soft_frame_give(soft, slot);
	return 0;
}

/* Whether a call may look at what is known of the range. */
static int
range_check(const struct soft *soft, const char *call, const void *addr, uint64_t bytes)
{
	int fd;

	return sl_soft_range_fd(soft, call, addr, bytes, &fd, NULL);
}

int
sl_soft_present(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
		unsigned flags)
{
	struct soft *soft = sl_soft_of(dev);
	int rc = range_check(soft, "present", addr, bytes);

	if (rc)
		return rc;
	sl_soft_move_begin(soft, addr, bytes);
	rc = frame ? present_frame(soft, addr, bytes, frame, flags)
		   : present_own(soft, addr, bytes, flags);
	sl_soft_move_end(soft, addr, bytes);
	return rc;
}

/* Some pages, to a frame that keeps its contents where none is: by way of a scratch slot. */
static int
absent_by_scratch(struct soft *soft, int fd, void *addr, uint64_t bytes,
		  struct soft_frame *frame)
{
	struct soft_frame *scratch;
	int rc = sl_soft_frame_take(soft, bytes, SOFT_TAKE_SCRATCH, &scratch);

	if (rc)
		return rc;
	rc = sl_soft_chunk_move_out(soft, fd, addr, bytes, scratch->frame.data);
	if (!rc) {
		rc = sl_soft_pages_copy(soft, frame->frame.data, scratch->frame.data, bytes);
		if (rc)
			sl_soft_chunk_return_guarded(soft, fd, addr, scratch->frame.data,
						     bytes);
		else
			frame->memory = SOFT_MEMORY_OWN;
	}
	sl_soft_range_drop(scratch->frame.data, bytes);
	sl_soft_frame_give_scratch(soft, scratch);
	return rc;
}

/*
 * All pages, to a frame that has memory of its own or may have: to an empty slot, which the frame
 * then takes for its own. So the frame still has its contents if the chunk refuses to go, and
 * its memory is free for others without being moved.
 */
static int
absent_by_slot(struct soft *soft, int fd, void *addr, uint64_t bytes, struct soft_frame *frame)
{
	struct soft_frame *slot;
	int rc = sl_soft_frame_take(soft, bytes, SOFT_TAKE_HOLLOW, &slot);

	if (rc)
		return rc;
	rc = sl_soft_chunk_move_out(soft, fd, addr, bytes, slot->frame.data);
	if (!rc) {
		void *data = slot->frame.data;

		slot->frame.data = frame->frame.data;
		slot->small = frame->small;
		slot->memory = SOFT_MEMORY_OWN;
		frame->frame.data = data;
	}
	sl_soft_frame_give(soft, slot);
	return rc;
}

static int
absent_by_move(struct soft *soft, int fd, void *addr, uint64_t bytes, struct soft_frame *frame)
{
	int small = sl_soft_range_is_small(soft, addr, bytes);
	int whole = 1;
	int none = 0;
	int rc = 0;

	if (small) {
		rc = pages_whole(soft, addr, bytes, &whole, &none);
		if (rc)
			return rc;
	}
	if (!whole) {
		rc = absent_by_scratch(soft, fd, addr, bytes, frame);
	} else {
		rc = -EEXIST;
		if (frame->memory != SOFT_MEMORY_OWN)
			rc = sl_soft_chunk_move_out(soft, fd, addr, bytes, frame->frame.data);
		if (rc == -EEXIST) /* or taken hollow, and touched since */
			rc = absent_by_slot(soft, fd, addr, bytes, frame);
		if (!rc) {
			small = sl_soft_range_is_small(soft, addr, bytes);
			frame->memory = SOFT_MEMORY_OWN;
			frame->small = (uint8_t)small;
		}
	}
	if (!rc && small) {
		/* Lets the kernel drop the empty page table, so that huge pages fit again. */
		sl_soft_range_drop(addr, bytes);
		sl_soft_range_set_small(soft, addr, bytes, 0);
	}
	return rc;
}

static int
absent_by_copy(struct soft *soft, int fd, void *addr, uint64_t bytes, struct soft_frame *frame)
{
	int rc = sl_uffd_protect(fd, addr, bytes, SL_UFFD_GUARD);

	if (rc)
		return sl_soft_chunk_fail(rc, "absent", addr, bytes, "write protection");
	/* On failure from here it stays guarded: one more event, nothing lost. */
	rc = sl_soft_pages_copy(soft, frame->frame.data, addr, bytes);
	if (rc)
		return rc;
	sl_soft_range_drop(addr, bytes);
	sl_soft_range_set_small(soft, addr, bytes, 0);
	frame->memory = SOFT_MEMORY_OWN;
	return 0;
}

static void
absent_discard(struct soft *soft, void *addr, uint64_t bytes)
{
	struct soft_frame *frame;
	size_t done;
	int rc;

	if (soft->can_move && !sl_soft_range_is_small(soft, addr, bytes) &&
	    sl_soft_frames_have_room(soft, bytes) &&
	    !sl_soft_frame_take(soft, bytes, SOFT_TAKE_HOLLOW, &frame)) {
		rc = sl_soft_range_move(soft, soft->arena_fd, frame->frame.data, addr,
					bytes, SL_UFFD_HOLES_OK | SL_UFFD_NO_WAKE, &done);
		frame->memory = SOFT_MEMORY_OWN;
		frame->small = rc != 0;
		sl_soft_frame_give(soft, frame);
		if (!rc)
			return;
	}
	sl_soft_range_drop(addr, bytes);
	sl_soft_range_set_small(soft, addr, bytes, 0);
}

static int
chunk_absent(struct soft *soft, int fd, void *addr, uint64_t bytes,
	     struct sl_frame *frame, enum sl_absent_how how)
{
	struct soft_frame *slot;

	if (how == SL_ABSENT_DISCARD ? frame != NULL : !frame || frame->bytes != bytes)
		return sl_fail(-EINVAL, "absent: chunk %p, %llu bytes: frame does not fit",
			       addr, (unsigned long long)bytes);
	if (how == SL_ABSENT_DISCARD) {
		absent_discard(soft, addr, bytes);
		return 0;
	}
	slot = frame->private;
	if (how == SL_ABSENT_KEPT && slot->memory == SOFT_MEMORY_OWN) {
		/* It was copied in: the frame has been valid all the time. */
		sl_soft_range_drop(addr, bytes);
		sl_soft_range_set_small(soft, addr, bytes, 0);
		return 0;
	}
	return soft->can_move ? absent_by_move(soft, fd, addr, bytes, slot)
			      : absent_by_copy(soft, fd, addr, bytes, slot);
}

int
sl_soft_absent(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	       enum sl_absent_how how)
{
	struct soft *soft = sl_soft_of(dev);
	int fd;
	int rc = sl_soft_range_fd(soft, "absent", addr, bytes, &fd, NULL);

	if (rc)
		return rc;
	sl_soft_move_begin(soft, addr, bytes);
	rc = chunk_absent(soft, fd, addr, bytes, frame, how);
	sl_soft_move_end(soft, addr, bytes);
	return rc;
}

int
sl_soft_snapshot(struct sl_device *dev, const void *addr, uint64_t bytes,
		 struct sl_frame *frame)
{
	struct soft *soft = sl_soft_of(dev);
	struct soft_frame *slot = frame->private;
	int fd;
	int rc = sl_soft_range_fd(soft, "snapshot", addr, bytes, &fd, NULL);

	if (rc)
		return rc;
	if (frame->bytes != bytes || slot->memory == SOFT_MEMORY_LENT)
		return sl_fail(-EINVAL, "snapshot: chunk %p, %llu bytes: frame does not fit or is lent",
			       addr, (unsigned long long)bytes);
	sl_soft_racing_copy(frame->data, addr, bytes);
	slot->memory = SOFT_MEMORY_OWN;
	return 0;
}

/* Guarding a part of a huge page makes it 512 small ones. */
static void
granules_split(struct soft *soft, void *addr, uint64_t bytes)
{
	uintptr_t from = (uintptr_t)addr;
	uintptr_t to = from + bytes;

	if (from % SL_GRANULE_BYTES)
		sl_soft_range_set_small(soft, addr, 1, 1);
	if (to % SL_GRANULE_BYTES)
		sl_soft_range_set_small(soft, (char *)addr + bytes - 1, 1, 1);
}

int
sl_soft_guard(struct sl_device *dev, void *addr, uint64_t bytes)
{
	struct soft *soft = sl_soft_of(dev);
	int fd;
	int rc = sl_soft_range_fd(soft, "guard", addr, bytes, &fd, NULL);

	if (rc)
		return rc;
	granules_split(soft, addr, bytes);
	rc = sl_uffd_protect(fd, addr, bytes, SL_UFFD_GUARD);
	return rc ? sl_soft_chunk_fail(rc, "guard", addr, bytes, "write protection") : 0;
}

int
sl_soft_unguard(struct sl_device *dev, void *addr, uint64_t bytes)
{
	struct soft *soft = sl_soft_of(dev);
	int waits;
	int fd;
	int rc = sl_soft_range_fd(soft, "unguard", addr, bytes, &fd, &waits);

	if (rc)
		return rc;
	granules_split(soft, addr, bytes);
	rc = sl_uffd_protect(fd, addr, bytes, waits ? 0 : SL_UFFD_NO_WAKE);
	return rc ? sl_soft_chunk_fail(rc, "unguard", addr, bytes, "write protection") : 0;
}

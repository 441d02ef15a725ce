/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole spans: attach, present, absent, snapshot, guard.
 *
 * Moving is all or nothing: what a failed call has moved goes back the same way, which is
 * as atomic for racing threads as the way there. What cannot be moved *in* is copied.
 * What cannot be moved *out* because I/O has its pages pinned is not copied: the I/O may
 * still be writing to it. The caller gets -EBUSY after about 0.2 s and the span stays.
 *
 * Copying in: pages are write-protected from the start and released together at the end,
 * so that dropping a half-made copy loses nothing. Copying out: protect, copy, drop.
 *
 * A span that may hold small pages, or only some of its pages (SL_SOFT_PIECE_SMALL), is
 * moved out to an empty scratch slot and copied from there into the frame: the frame
 * keeps its huge page and, where pages were missing, its contents.
 *
 * Tables. A touch of absent memory, before it becomes an event, leaves an empty page table
 * where small pages are allowed, or, where huge ones are and it is a write, allocates and
 * clears a huge page in vain (some 50-90 us). A huge page that is moved to a place with a
 * page table is split into 512. So: small pages, and the table is dropped just before
 * the move, if the kernel frees empty tables when told to (6.14, sl_soft_tables_probe());
 * else huge pages. A touch may slip in between and cost the huge page; that is looked
 * for, so that the pieces are not kept.
 *
 * Some kernels (6.18) forget to count: a move that meets a touch begins again, moves pages and takes
 * what it has just brought for what stood there before: -EEXIST, and pages that no return value
 * tells of. range_move() counts them.
 *
 * Core never calls two of these for one span at once; nothing here takes a lock across a
 * call. Who else changes pages of a span is a handler thread that refuses a system call's
 * touch (touch.c): what it puts there for a moment must neither stop a move nor, when it
 * is taken away, take what a move has brought. So a refusal gives way to
 * movers, and movers wait for the end of a refusal: move_begin(), refuse_begin().
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

#include "base/bitmap.h"
#include "base/log.h"
#include "device/soft/soft.h"
#include "device/soft/uffd.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* 5.14 */
#endif

/* PAGEMAP_SCAN, 6.7: as the kernel's interface has it. */
struct scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
struct scan_region {
	uint64_t start, end, categories;
};
#define IOC_PAGEMAP_SCAN _IOWR('f', 16, struct scan_arg)
#define PAGE_IS_PRESENT  (1u << 3)
#define PAGE_IS_SWAPPED  (1u << 4)
#define PAGE_IS_HUGE     (1u << 6)

#define SPAN_PAGES      (SL_SPAN_BYTES / SL_PAGE_BYTES)
#define RETURN_TRIES    50
#define TABLE_TRIES     50u
#define REFUSE_TRIES    200 /* of REFUSAL_POLL_NS: as long as a few refusals last */
#define REFUSAL_POLL_NS 50000

static size_t
piece_of(const struct soft *soft, const void *addr)
{
	return ((uintptr_t)addr - (uintptr_t)soft->dev.base) / SL_SPAN_BYTES;
}

int
sl_soft_range_fd(const struct soft *soft, const char *call, const void *addr,
		 uint64_t bytes, int *fd, int *waits)
{
	uintptr_t offset = (uintptr_t)addr - (uintptr_t)soft->dev.base;
	uint16_t first;

	if (!bytes || offset >= soft->dev.bytes || bytes > soft->dev.bytes - offset ||
	    offset % SL_PAGE_BYTES || bytes % SL_PAGE_BYTES)
		return sl_fail(-EINVAL, "%s: %p, %llu bytes: not pages of the space",
			       call, addr, (unsigned long long)bytes);
	first = atomic_load_explicit(&soft->piece[offset / SL_SPAN_BYTES],
				     memory_order_relaxed);
	if (!(first & (SL_SOFT_PIECE_THREAD | SL_SOFT_PIECE_SIGNAL)))
		return sl_fail(-EINVAL, "%s: %p, %llu bytes: not attached", call, addr,
			       (unsigned long long)bytes);
	*fd = first & SL_SOFT_PIECE_SIGNAL ? soft->signal_fd : soft->thread_fd;
	if (waits)
		*waits = !(first & SL_SOFT_PIECE_SIGNAL);
	return 0;
}

void
sl_soft_range_set_small(struct soft *soft, const void *addr, uint64_t bytes, int small)
{
	size_t last = piece_of(soft, (const char *)addr + bytes - 1);

	for (size_t i = piece_of(soft, addr); i <= last; i++) {
		uint16_t piece = atomic_load_explicit(&soft->piece[i], memory_order_relaxed);

		if (small && !(piece & SL_SOFT_PIECE_SMALL))
			atomic_fetch_or_explicit(&soft->piece[i], SL_SOFT_PIECE_SMALL,
						 memory_order_relaxed);
		else if (!small && (piece & SL_SOFT_PIECE_SMALL))
			atomic_fetch_and_explicit(&soft->piece[i],
						  (uint16_t)~SL_SOFT_PIECE_SMALL,
						  memory_order_relaxed);
	}
}

static void
refusal_poll(void)
{
	static const struct timespec pause = {0, REFUSAL_POLL_NS};

	nanosleep(&pause, NULL);
}

/*
 * A refusal ends after some ms without waiting for anybody, so this does, too. Acquire and release
 * here and below pair with each other: what the other put there is gone.
 */
void
sl_soft_move_begin(struct soft *soft, const void *addr, uint64_t bytes)
{
	size_t last = piece_of(soft, (const char *)addr + bytes - 1);

	for (size_t i = piece_of(soft, addr); i <= last; i++) {
		uint16_t piece = atomic_load_explicit(&soft->piece[i], memory_order_relaxed);

		if (!(piece & SL_SOFT_PIECE_THREAD))
			continue;
		for (;;) {
			if (piece & SL_SOFT_PIECE_REFUSED) {
				refusal_poll();
				piece = atomic_load_explicit(&soft->piece[i],
							     memory_order_relaxed);
				continue;
			}
			if (atomic_compare_exchange_weak_explicit(
				    &soft->piece[i], &piece,
				    (uint16_t)(piece + SL_SOFT_PIECE_MOVER),
				    memory_order_acquire, memory_order_relaxed))
				break;
		}
	}
}

void
sl_soft_move_end(struct soft *soft, const void *addr, uint64_t bytes)
{
	size_t last = piece_of(soft, (const char *)addr + bytes - 1);

	for (size_t i = piece_of(soft, addr); i <= last; i++)
		if (atomic_load_explicit(&soft->piece[i], memory_order_relaxed) &
		    SL_SOFT_PIECE_THREAD)
			atomic_fetch_sub_explicit(&soft->piece[i], SL_SOFT_PIECE_MOVER,
						  memory_order_release);
}

int
sl_soft_refuse_begin(struct soft *soft, const void *page)
{
	_Atomic uint16_t *at = &soft->piece[piece_of(soft, page)];
	uint16_t piece = atomic_load_explicit(at, memory_order_relaxed);

	for (int tries = 0; tries < REFUSE_TRIES;) {
		if (piece & SL_SOFT_PIECE_REFUSED) {
			refusal_poll();
			tries++;
			piece = atomic_load_explicit(at, memory_order_relaxed);
			continue;
		}
		if (!(piece & SL_SOFT_PIECE_THREAD) || piece >= SL_SOFT_PIECE_MOVER)
			return 0;
		if (atomic_compare_exchange_weak_explicit(at, &piece,
							  piece | SL_SOFT_PIECE_REFUSED,
							  memory_order_acquire,
							  memory_order_relaxed))
			return 1;
	}
	return 0;
}

void
sl_soft_refuse_end(struct soft *soft, const void *page)
{
	atomic_fetch_and_explicit(&soft->piece[piece_of(soft, page)],
				  (uint16_t)~SL_SOFT_PIECE_REFUSED, memory_order_release);
}

static int
range_is_small(const struct soft *soft, const void *addr, uint64_t bytes)
{
	size_t last = piece_of(soft, (const char *)addr + bytes - 1);

	for (size_t i = piece_of(soft, addr); i <= last; i++)
		if (atomic_load_explicit(&soft->piece[i], memory_order_relaxed) &
		    SL_SOFT_PIECE_SMALL)
			return 1;
	return 0;
}

/*
 * Copy bytes that other threads may be writing. The race is part of the contract
 * (snapshot() of a guarded span whose guard somebody lifts meanwhile is copied again),
 * hence hidden from ThreadSanitizer, which would report it.
 */
static void
racing_copy(void *dst, const void *src, size_t bytes)
{
#if defined(__x86_64__)
	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
#else
	memcpy(dst, src, bytes);
#endif
}

static int
span_fail(int rc, const char *call, const void *addr, uint64_t bytes, const char *step)
{
	return sl_fail(rc, "%s: span %p, %llu bytes: %s: %s", call, addr,
		       (unsigned long long)bytes, step, sl_errno_name(rc));
}

/* Drop the pages of a range; what stands there is lost. Cannot fail for an attached range. */
static void
range_drop(void *addr, uint64_t bytes)
{
	int rc = madvise(addr, bytes, MADV_DONTNEED);

	assert(!rc);
	(void)rc;
}

/* Back to addresses without memory; *err names what fails. */
static int
range_close(void *addr, size_t bytes)
{
	void *p = mmap(addr, bytes, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	(void)madvise(addr, bytes, MADV_DONTFORK);
	return 0;
}

/* Whether no page of the range is any of categories (inverted: whether each is one of them). */
static int
range_has_none(const struct soft *soft, const void *addr, uint64_t bytes,
	       uint64_t categories, int inverted)
{
	struct scan_region first;
	struct scan_arg arg = {
		.size = sizeof(arg),
		.start = (uintptr_t)addr,
		.end = (uintptr_t)addr + bytes,
		.vec = (uintptr_t)&first,
		.vec_len = 1,
		.max_pages = 1,
		.category_inverted = inverted ? categories : 0,
		.category_anyof_mask = categories,
		.return_mask = categories,
	};

	return ioctl(soft->pagemap_fd, IOC_PAGEMAP_SCAN, &arg) == 0;
}

static int
range_is_huge(const struct soft *soft, const void *addr, uint64_t bytes)
{
	return range_has_none(soft, addr, bytes, PAGE_IS_HUGE, 1);
}

/* Drop the empty page tables of a range that holds nothing; 0: it holds something, and keeps it. */
static int
tables_drop(const struct soft *soft, void *addr, uint64_t bytes)
{
	if (!range_has_none(soft, addr, bytes, PAGE_IS_PRESENT | PAGE_IS_SWAPPED, 0))
		return 0;
	range_drop(addr, bytes);
	return 1;
}

int
sl_soft_tables_probe(const struct soft *soft)
{
	size_t room = 2 * SL_SPAN_BYTES;
	char *map = mmap(NULL, room, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int huge = 0;
	char *p;

	if (map == MAP_FAILED)
		return 0;
	p = map + (-(uintptr_t)map & (SL_SPAN_BYTES - 1));
	if (!madvise(p, SL_SPAN_BYTES, MADV_NOHUGEPAGE)) {
		*(volatile char *)p = 1; /* makes a table */
		range_drop(p, SL_SPAN_BYTES);
		if (!madvise(p, SL_SPAN_BYTES, MADV_HUGEPAGE)) {
			*(volatile char *)p = 1; /* huge only where no table is left */
			huge = range_is_huge(soft, p, SL_SPAN_BYTES);
		}
	}
	munmap(map, room);
	return huge;
}

int
sl_soft_attach(struct sl_device *dev, void *addr, size_t bytes, enum sl_delivery delivery)
{
	struct soft *soft = sl_soft_of(dev);
	uintptr_t offset = (uintptr_t)addr - (uintptr_t)dev->base;
	uint16_t kind = delivery == SL_DELIVER_SIGNAL ? SL_SOFT_PIECE_SIGNAL
						      : SL_SOFT_PIECE_THREAD;
	const char *step = "mmap";
	int rc = 0;

	if (!bytes || offset % SL_SPAN_BYTES || bytes % SL_SPAN_BYTES ||
	    offset >= dev->bytes || bytes > dev->bytes - offset)
		return sl_fail(-EINVAL, "attach: %p, %zu bytes: not spans of the space",
			       addr, bytes);
	for (size_t i = 0; i < bytes / SL_SPAN_BYTES; i++)
		if (soft->piece[offset / SL_SPAN_BYTES + i])
			return sl_fail(-EINVAL, "attach: %p, %zu bytes: in use", addr, bytes);

	if (mmap(addr, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		rc = -errno;
	if (!rc) {
		step = "madvise";
		if (madvise(addr, bytes, MADV_DONTFORK))
			rc = -errno;
		/* Pages that the system merges (KSM) cannot be moved. */
		(void)madvise(addr, bytes, MADV_UNMERGEABLE);
		/* Not for size: see "Tables" at the head of this file. */
		(void)madvise(addr, bytes,
			      soft->drops_tables ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	}
	if (!rc) {
		step = "registering with userfaultfd";
		rc = sl_uffd_register(delivery == SL_DELIVER_SIGNAL ? soft->signal_fd
								    : soft->thread_fd,
				      addr, bytes, 1);
	}
	if (rc) {
		(void)range_close(addr, bytes);
		return sl_fail(rc, "attach: %p, %zu bytes: %s: %s%s", addr, bytes, step,
			       sl_errno_name(rc),
			       rc == -ENOMEM ? " (raise vm.max_map_count, or free memory)"
					     : "");
	}
	for (size_t i = 0; i < bytes / SL_SPAN_BYTES; i++)
		atomic_store_explicit(&soft->piece[offset / SL_SPAN_BYTES + i], kind,
				      memory_order_relaxed);
	atomic_fetch_add_explicit(&soft->touch.n_attached, 1, memory_order_release);
	return 0;
}

void
sl_soft_detach(struct sl_device *dev, void *addr, size_t bytes)
{
	struct soft *soft = sl_soft_of(dev);
	int fd;
	int rc;

	rc = sl_soft_range_fd(soft, "detach", addr, bytes, &fd, NULL);
	assert(!rc);
	/* Without an end: a refusal that comes too late finds a range that is not attached. */
	sl_soft_move_begin(soft, addr, bytes);
	for (size_t i = piece_of(soft, addr), n = bytes / SL_SPAN_BYTES; n > 0; i++, n--)
		atomic_store_explicit(&soft->piece[i], 0, memory_order_relaxed);
	rc = range_close(addr, bytes);
	if (rc) {
		/* No addresses are gained, but the memory is given back and faults go on being
		 * events: core refuses them. The next attach maps over it. */
		range_drop(addr, bytes);
		sl_log_once("soft.detach", SL_WARN,
			    "device", "detach: %p, %zu bytes stay mapped: %s: raise vm.max_map_count",
			    addr, bytes, sl_errno_name(rc));
	}
	sl_uffd_wake(fd, addr, bytes);
}

/* Which pages are there; *whole: all. For ranges that may be small. */
static int
pages_whole(const struct soft *soft, const void *addr, uint64_t bytes, int *whole, int *none)
{
	*whole = 1;
	*none = 1;
	for (uint64_t at = 0; at < bytes; at += SL_SPAN_BYTES) {
		uint64_t map[SL_BITMAP_WORDS(SPAN_PAGES)];
		size_t n;
		int rc = sl_soft_pages_present(soft, (const char *)addr + at,
					       SL_SPAN_BYTES, map);

		if (rc)
			return rc;
		n = sl_bitmap_count(map, 0, SPAN_PAGES);
		if (n)
			*none = 0;
		if (n < SPAN_PAGES)
			*whole = 0;
	}
	return 0;
}

/*
 * How many of the pages from the start are at dst and no longer at src. The caller knows that nothing
 * was at dst, or else that everything was at src: so they have been moved.
 */
static int
pages_count_moved(const struct soft *soft, const char *dst, const char *src, size_t bytes,
		  size_t *n_moved)
{
	size_t look = bytes < SL_SPAN_BYTES ? bytes : SL_SPAN_BYTES;
	uint64_t at_dst[SL_BITMAP_WORDS(SPAN_PAGES)];
	uint64_t at_src[SL_BITMAP_WORDS(SPAN_PAGES)];
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

/* As sl_uffd_move(), but *done is right (see the head of this file). Nothing is at dst or, holes or
 * not, everything is at src. */
static int
range_move(struct soft *soft, int fd, void *dst, void *src, size_t bytes, unsigned flags,
	   size_t *done)
{
	size_t moved = 0;
	int rc;

	for (;;) {
		size_t part;

		rc = sl_uffd_move(fd, (char *)dst + moved, (char *)src + moved,
				  bytes - moved, flags, &part, &soft->dev.move_retries);
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

/* Copy src to the absent span. The pages are guarded until all are there, and after if guard. */
static int
span_copy_in(struct soft *soft, int fd, void *addr, uint64_t bytes, const void *src, int guard)
{
	size_t step = src ? bytes : SL_SPAN_BYTES;
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
			range_drop(addr, filled);
		return span_fail(rc, "present", addr, bytes, "copy");
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
span_return(struct soft *soft, int fd, void *home, void *src, size_t bytes)
{
	for (int tries = 0; bytes && tries < RETURN_TRIES; tries++) {
		size_t back;
		int rc = range_move(soft, fd, home, src, bytes,
				    SL_UFFD_HOLES_OK | SL_UFFD_PATIENT | SL_UFFD_NO_WAKE,
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

/* Move src, which has all its memory or holes that were never touched, to the absent span. */
static int
span_move_in(struct soft *soft, int fd, int waits, void *addr, uint64_t bytes, void *src,
	     int guard)
{
	const char *step = "move";
	unsigned races = 0;
	int holes_filled = 0;
	size_t done = 0;
	size_t part;
	int rc;

	if (soft->drops_tables)
		(void)tables_drop(soft, addr, bytes);
	for (;;) {
		rc = range_move(soft, fd, (char *)addr + done, (char *)src + done,
				bytes - done, SL_UFFD_NO_WAKE, &part);
		done += part;
		/* A touch since has made a table again, just when the move looked. */
		if (rc == -EEXIST && soft->drops_tables &&
		    tables_drop(soft, (char *)addr + done, bytes - done)) {
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
	span_return(soft, soft->arena_fd, src, addr, done);
	return span_fail(rc, "present", addr, bytes, step);
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
	if (range_is_small(soft, addr, bytes)) {
		rc = pages_whole(soft, addr, bytes, &whole, &none);
		if (rc)
			return rc;
		if (!none)
			return span_fail(-EEXIST, "present", addr, bytes,
					 "pages are present");
	}
	*moved = 0;
	if (soft->can_move && !(flags & SL_PRESENT_GUARD_STRICT)) {
		int huge = soft->drops_tables &&
			   range_is_huge(soft, frame->frame.data, bytes);

		rc = span_move_in(soft, fd, waits, addr, bytes, frame->frame.data, guard);
		if (!rc) {
			if (huge && !range_is_huge(soft, addr, bytes))
				frame->small = 1;
			sl_soft_range_set_small(soft, addr, bytes, frame->small);
			*moved = 1;
			return 0;
		}
		if (rc != -EBUSY && rc != -EAGAIN)
			return rc;
	}
	rc = span_copy_in(soft, fd, addr, bytes, frame->frame.data, guard);
	if (!rc && waits)
		sl_uffd_wake(fd, addr, bytes);
	return rc;
}

/* present() without a frame: any: contents do not matter. */
static int
present_own(struct soft *soft, void *addr, uint64_t bytes, unsigned flags, int any)
{
	struct soft_frame *frame;
	int moved = 0;
	int waits;
	int fd;
	int rc = sl_soft_range_fd(soft, "present", addr, bytes, &fd, &waits);

	if (rc)
		return rc;
	if (!soft->can_move || (flags & SL_PRESENT_GUARD_STRICT)) {
		rc = span_copy_in(soft, fd, addr, bytes, NULL,
				  (flags & (SL_PRESENT_GUARD | SL_PRESENT_GUARD_STRICT)) != 0);
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
			       "present: span %p, %llu bytes: frame of %llu bytes, %s", addr,
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
		   : present_own(soft, addr, bytes, flags, 0);
	sl_soft_move_end(soft, addr, bytes);
	return rc;
}

int
sl_soft_present_any(struct sl_device *dev, void *addr, uint64_t bytes)
{
	struct soft *soft = sl_soft_of(dev);
	int rc = range_check(soft, "present", addr, bytes);

	if (rc)
		return rc;
	sl_soft_move_begin(soft, addr, bytes);
	rc = present_own(soft, addr, bytes, 0, 1);
	sl_soft_move_end(soft, addr, bytes);
	return rc;
}

/*
 * Copy the pages that src has back to the span that they were moved from, guarded: which of
 * them were guarded is forgotten, and one more event harms nobody while one less loses a
 * write. Pages that cannot be copied (no memory) are moved, unguarded. src is empty then.
 */
static void
span_return_guarded(struct soft *soft, int fd, char *home, char *src, size_t bytes)
{
	for (size_t at = 0, step; at < bytes; at += step) {
		uint64_t map[SL_BITMAP_WORDS(SPAN_PAGES)];
		size_t end = 0;
		size_t n;
		int rc;

		step = bytes - at < SL_SPAN_BYTES ? bytes - at : SL_SPAN_BYTES;
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
				range_drop(src + offset, done);
		}
		if (rc)
			span_return(soft, fd, home + at, src + at, step);
	}
	if (bytes)
		sl_soft_range_set_small(soft, home, bytes, 1);
}

static int
span_move_out(struct soft *soft, int fd, void *addr, uint64_t bytes, void *dst)
{
	size_t done;
	int rc = range_move(soft, soft->arena_fd, dst, addr, bytes,
			    SL_UFFD_HOLES_OK | SL_UFFD_PATIENT | SL_UFFD_NO_WAKE, &done);

	if (!rc)
		return 0;
	span_return_guarded(soft, fd, addr, dst, done);
	return span_fail(rc, "absent", addr, bytes,
			 rc == -EBUSY ? "pinned by direct I/O, try again when it is done"
				      : "move");
}

/* Copy the pages that are present at src to dst. */
static int
pages_copy(const struct soft *soft, char *dst, const char *src, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += SL_SPAN_BYTES) {
		uint64_t map[SL_BITMAP_WORDS(SPAN_PAGES)];
		size_t first;
		size_t end = 0;
		int rc = sl_soft_pages_present(soft, src + at, SL_SPAN_BYTES, map);

		if (rc)
			return rc;
		for (;;) {
			first = sl_bitmap_next_set(map, end, SPAN_PAGES);
			if (first == SPAN_PAGES)
				break;
			end = sl_bitmap_next_clear(map, first, SPAN_PAGES);
			racing_copy(dst + at + first * SL_PAGE_BYTES,
				    src + at + first * SL_PAGE_BYTES,
				    (end - first) * SL_PAGE_BYTES);
		}
	}
	return 0;
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
	rc = span_move_out(soft, fd, addr, bytes, scratch->frame.data);
	if (!rc) {
		rc = pages_copy(soft, frame->frame.data, scratch->frame.data, bytes);
		if (rc)
			span_return_guarded(soft, fd, addr, scratch->frame.data, bytes);
		else
			frame->memory = SOFT_MEMORY_OWN;
	}
	range_drop(scratch->frame.data, bytes);
	sl_soft_frame_give_scratch(soft, scratch);
	return rc;
}

/*
 * All pages, to a frame that has memory of its own or may have: to an empty slot, which the frame
 * then takes for its own. So the frame still has its contents if the span refuses to go, and
 * its memory is free for others without being moved.
 */
static int
absent_by_slot(struct soft *soft, int fd, void *addr, uint64_t bytes, struct soft_frame *frame)
{
	struct soft_frame *slot;
	int rc = sl_soft_frame_take(soft, bytes, SOFT_TAKE_HOLLOW, &slot);

	if (rc)
		return rc;
	rc = span_move_out(soft, fd, addr, bytes, slot->frame.data);
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
	int small = range_is_small(soft, addr, bytes);
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
			rc = span_move_out(soft, fd, addr, bytes, frame->frame.data);
		if (rc == -EEXIST) /* or taken hollow, and touched since */
			rc = absent_by_slot(soft, fd, addr, bytes, frame);
		if (!rc) {
			small = range_is_small(soft, addr, bytes);
			frame->memory = SOFT_MEMORY_OWN;
			frame->small = (uint8_t)small;
		}
	}
	if (!rc && small) {
		/* Lets the kernel drop the empty page table, so that huge pages fit again. */
		range_drop(addr, bytes);
		sl_soft_range_set_small(soft, addr, bytes, 0);
	}
	return rc;
}

static int
absent_by_copy(struct soft *soft, int fd, void *addr, uint64_t bytes, struct soft_frame *frame)
{
	int rc = sl_uffd_protect(fd, addr, bytes, SL_UFFD_GUARD);

	if (rc)
		return span_fail(rc, "absent", addr, bytes, "write protection");
	/* On failure from here it stays guarded: one more event, nothing lost. */
	rc = pages_copy(soft, frame->frame.data, addr, bytes);
	if (rc)
		return rc;
	range_drop(addr, bytes);
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

	if (soft->can_move && !range_is_small(soft, addr, bytes) &&
	    sl_soft_frames_have_room(soft, bytes) &&
	    !sl_soft_frame_take(soft, bytes, SOFT_TAKE_HOLLOW, &frame)) {
		rc = range_move(soft, soft->arena_fd, frame->frame.data, addr, bytes,
				SL_UFFD_HOLES_OK | SL_UFFD_NO_WAKE, &done);
		frame->memory = SOFT_MEMORY_OWN;
		frame->small = rc != 0;
		sl_soft_frame_give(soft, frame);
		if (!rc)
			return;
	}
	range_drop(addr, bytes);
	sl_soft_range_set_small(soft, addr, bytes, 0);
}

static int
span_absent(struct soft *soft, int fd, void *addr, uint64_t bytes, struct sl_frame *frame,
	    enum sl_absent_how how)
{
	struct soft_frame *slot;

	if (how == SL_ABSENT_DISCARD ? frame != NULL : !frame || frame->bytes != bytes)
		return sl_fail(-EINVAL, "absent: span %p, %llu bytes: frame does not fit",
			       addr, (unsigned long long)bytes);
	if (how == SL_ABSENT_DISCARD) {
		absent_discard(soft, addr, bytes);
		return 0;
	}
	slot = frame->private;
	if (how == SL_ABSENT_KEPT && slot->memory == SOFT_MEMORY_OWN) {
		/* It was copied in: the frame has been valid all the time. */
		range_drop(addr, bytes);
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
	rc = span_absent(soft, fd, addr, bytes, frame, how);
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
		return sl_fail(-EINVAL, "snapshot: span %p, %llu bytes: frame does not fit or is lent",
			       addr, (unsigned long long)bytes);
	racing_copy(frame->data, addr, bytes);
	slot->memory = SOFT_MEMORY_OWN;
	return 0;
}

/* Guarding a part of a huge page makes it 512 small ones. */
static void
pieces_split(struct soft *soft, void *addr, uint64_t bytes)
{
	uintptr_t from = (uintptr_t)addr;
	uintptr_t to = from + bytes;

	if (from % SL_SPAN_BYTES)
		sl_soft_range_set_small(soft, addr, 1, 1);
	if (to % SL_SPAN_BYTES)
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
	pieces_split(soft, addr, bytes);
	rc = sl_uffd_protect(fd, addr, bytes, SL_UFFD_GUARD);
	return rc ? span_fail(rc, "guard", addr, bytes, "write protection") : 0;
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
	pieces_split(soft, addr, bytes);
	rc = sl_uffd_protect(fd, addr, bytes, waits ? 0 : SL_UFFD_NO_WAKE);
	return rc ? span_fail(rc, "unguard", addr, bytes, "write protection") : 0;
}

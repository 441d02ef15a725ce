/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attached ranges: delivery of their faults, permission to change their pages, and the page
 * tables and huge pages behind them. chunk.c has whole chunks, page.c single pages.
 *
 * Tables. A touch of absent memory costs something before it becomes an event. Where small pages
 * are allowed it leaves an empty page table. Where huge ones are, a write allocates and clears a
 * huge page for nothing (50 to 90 us). A huge page that is moved to a place with a page table is
 * split into 512. So the device uses small pages, and drops the table just before the move. That
 * needs a kernel which frees empty tables (6.14, sl_soft_tables_probe()); others get huge pages.
 * A touch in between can still cost the huge page. That is detected, so that the granules are not
 * kept.
 *
 * Movers and refusals. Core never moves in one range twice at once, and no lock is held here
 * across a call. One other thread may change pages of a chunk: a handler that refuses the touch
 * of a system call (touch.c). It poisons a page for a moment. The poison must not stop a move,
 * and its removal must not drop moved pages. So a refusal gives way to movers, and movers wait
 * for the end of a refusal: move_begin(), refuse_begin().
 *
 * Threads: any, and signal handlers on them.
 */
#include <assert.h>
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

#include "base/log.h"
#include "device/soft/soft.h"
#include "device/soft/uffd.h"

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

#define REFUSE_TRIES    200 /* of REFUSAL_POLL_NS: as long as a few refusals last */
#define REFUSAL_POLL_NS 50000

static size_t
granule_of(const struct soft *soft, const void *addr)
{
	return ((uintptr_t)addr - (uintptr_t)soft->dev.base) / SL_GRANULE_BYTES;
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
	first = atomic_load_explicit(&soft->granule[offset / SL_GRANULE_BYTES],
				     memory_order_relaxed);
	if (!(first & (SL_SOFT_GRANULE_THREAD | SL_SOFT_GRANULE_SIGNAL)))
		return sl_fail(-EINVAL, "%s: %p, %llu bytes: not attached", call, addr,
			       (unsigned long long)bytes);
	*fd = first & SL_SOFT_GRANULE_SIGNAL ? soft->signal_fd : soft->thread_fd;
	if (waits)
		*waits = !(first & SL_SOFT_GRANULE_SIGNAL);
	return 0;
}

void
sl_soft_range_set_small(struct soft *soft, const void *addr, uint64_t bytes, int small)
{
	size_t last = granule_of(soft, (const char *)addr + bytes - 1);

	for (size_t i = granule_of(soft, addr); i <= last; i++) {
		uint16_t granule = atomic_load_explicit(&soft->granule[i],
							memory_order_relaxed);

		if (small && !(granule & SL_SOFT_GRANULE_SMALL))
			atomic_fetch_or_explicit(&soft->granule[i], SL_SOFT_GRANULE_SMALL,
						 memory_order_relaxed);
		else if (!small && (granule & SL_SOFT_GRANULE_SMALL))
			atomic_fetch_and_explicit(&soft->granule[i],
						  (uint16_t)~SL_SOFT_GRANULE_SMALL,
						  memory_order_relaxed);
	}
}

int
sl_soft_range_is_small(const struct soft *soft, const void *addr, uint64_t bytes)
{
	size_t last = granule_of(soft, (const char *)addr + bytes - 1);

	for (size_t i = granule_of(soft, addr); i <= last; i++)
		if (atomic_load_explicit(&soft->granule[i], memory_order_relaxed) &
		    SL_SOFT_GRANULE_SMALL)
			return 1;
	return 0;
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
	size_t last = granule_of(soft, (const char *)addr + bytes - 1);

	for (size_t i = granule_of(soft, addr); i <= last; i++) {
		uint16_t granule = atomic_load_explicit(&soft->granule[i],
							memory_order_relaxed);

		if (!(granule & SL_SOFT_GRANULE_THREAD))
			continue;
		for (;;) {
			if (granule & SL_SOFT_GRANULE_REFUSED) {
				refusal_poll();
				granule = atomic_load_explicit(&soft->granule[i],
							       memory_order_relaxed);
				continue;
			}
			if (atomic_compare_exchange_weak_explicit(
				    &soft->granule[i], &granule,
				    (uint16_t)(granule + SL_SOFT_GRANULE_MOVER),
				    memory_order_acquire, memory_order_relaxed))
				break;
		}
	}
}

void
sl_soft_move_end(struct soft *soft, const void *addr, uint64_t bytes)
{
	size_t last = granule_of(soft, (const char *)addr + bytes - 1);

	for (size_t i = granule_of(soft, addr); i <= last; i++)
		if (atomic_load_explicit(&soft->granule[i], memory_order_relaxed) &
		    SL_SOFT_GRANULE_THREAD)
			atomic_fetch_sub_explicit(&soft->granule[i], SL_SOFT_GRANULE_MOVER,
						  memory_order_release);
}

int
sl_soft_refuse_begin(struct soft *soft, const void *page)
{
	_Atomic uint16_t *at = &soft->granule[granule_of(soft, page)];
	uint16_t granule = atomic_load_explicit(at, memory_order_relaxed);

	for (int tries = 0; tries < REFUSE_TRIES;) {
		if (granule & SL_SOFT_GRANULE_REFUSED) {
			refusal_poll();
			tries++;
			granule = atomic_load_explicit(at, memory_order_relaxed);
			continue;
		}
		if (!(granule & SL_SOFT_GRANULE_THREAD) || granule >= SL_SOFT_GRANULE_MOVER)
			return 0;
		if (atomic_compare_exchange_weak_explicit(at, &granule,
							  granule | SL_SOFT_GRANULE_REFUSED,
							  memory_order_acquire,
							  memory_order_relaxed))
			return 1;
	}
	return 0;
}

void
sl_soft_refuse_end(struct soft *soft, const void *page)
{
	atomic_fetch_and_explicit(&soft->granule[granule_of(soft, page)],
				  (uint16_t)~SL_SOFT_GRANULE_REFUSED, memory_order_release);
}

/* Drop the pages of a range; what stands there is lost. Cannot fail for an attached range. */
void
sl_soft_range_drop(void *addr, uint64_t bytes)
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

int
sl_soft_range_is_huge(const struct soft *soft, const void *addr, uint64_t bytes)
{
	return range_has_none(soft, addr, bytes, PAGE_IS_HUGE, 1);
}

/* Drop the empty page tables of a range that holds nothing; 0: it holds something, and keeps it. */
int
sl_soft_tables_drop(const struct soft *soft, void *addr, uint64_t bytes)
{
	if (!range_has_none(soft, addr, bytes, PAGE_IS_PRESENT | PAGE_IS_SWAPPED, 0))
		return 0;
	sl_soft_range_drop(addr, bytes);
	return 1;
}

int
sl_soft_tables_probe(const struct soft *soft)
{
	size_t room = 2 * SL_GRANULE_BYTES;
	char *map = mmap(NULL, room, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int huge = 0;
	char *p;

	if (map == MAP_FAILED)
		return 0;
	p = map + (-(uintptr_t)map & (SL_GRANULE_BYTES - 1));
	if (!madvise(p, SL_GRANULE_BYTES, MADV_NOHUGEPAGE)) {
		*(volatile char *)p = 1; /* makes a table */
		sl_soft_range_drop(p, SL_GRANULE_BYTES);
		if (!madvise(p, SL_GRANULE_BYTES, MADV_HUGEPAGE)) {
			*(volatile char *)p = 1; /* huge only where no table is left */
			huge = sl_soft_range_is_huge(soft, p, SL_GRANULE_BYTES);
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
	uint16_t kind = delivery == SL_DELIVER_SIGNAL ? SL_SOFT_GRANULE_SIGNAL
						      : SL_SOFT_GRANULE_THREAD;
	const char *step;
	int rc;

	if (!bytes || offset % SL_GRANULE_BYTES || bytes % SL_GRANULE_BYTES ||
	    offset >= dev->bytes || bytes > dev->bytes - offset)
		return sl_fail(-EINVAL, "attach: %p, %zu bytes: not chunks of the space",
			       addr, bytes);
	for (size_t i = 0; i < bytes / SL_GRANULE_BYTES; i++)
		if (soft->granule[offset / SL_GRANULE_BYTES + i])
			return sl_fail(-EINVAL, "attach: %p, %zu bytes: in use", addr, bytes);

	step = "spare mappings";
	rc = sl_soft_spare_maps_take(soft);
	if (!rc) {
		step = "mmap";
		if (mmap(addr, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
			 0) == MAP_FAILED)
			rc = -errno;
	}
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
		if (rc == -ENOMEM) /* what is attached already may need them */
			sl_soft_spare_maps_give(soft);
		return sl_fail(rc, "attach: %p, %zu bytes: %s: %s%s", addr, bytes, step,
			       sl_errno_name(rc),
			       rc == -ENOMEM ? " (raise vm.max_map_count, or free memory)"
					     : "");
	}
	for (size_t i = 0; i < bytes / SL_GRANULE_BYTES; i++)
		atomic_store_explicit(&soft->granule[offset / SL_GRANULE_BYTES + i], kind,
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
	for (size_t i = granule_of(soft, addr), n = bytes / SL_GRANULE_BYTES; n > 0; i++, n--)
		atomic_store_explicit(&soft->granule[i], 0, memory_order_relaxed);
	rc = range_close(addr, bytes);
	if (rc) {
		/* No addresses are gained, but the memory is given back and faults go on being
		 * events: core refuses them. The next attach maps over it. */
		sl_soft_range_drop(addr, bytes);
		sl_log_once("soft.detach", SL_WARN,
			    "device", "detach: %p, %zu bytes stay mapped: %s: raise vm.max_map_count",
			    addr, bytes, sl_errno_name(rc));
	}
	sl_uffd_wake(fd, addr, bytes);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for allocators of other libraries (sluice/allocator.h). Each block is a region with a launch that
 * is held from its allocation until it is freed: what it may touch is mapped, on the device or in the host
 * tier, and stays there. So kernels on any stream reach it, and nobody needs to see them.
 *
 * To bring blocks to the device, all launches are ended when the GPU has done its work, and begun again
 * behind one that declares what is wanted. That one evicts whatever is coldest.
 *
 * Threads: any. One lock for all spaces serialises what changes blocks. It is taken before any lock of the
 * library, and held while the GPU is waited for.
 */
#include "sluice/allocator.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "core/api/api.h"
#include "core/interpose.h"
#include "sluice/move.h"
#include "sluice/stats.h"

struct memory_block {
	struct memory_block *next;
	struct sluice_space *space;
	char *addr;
	size_t bytes;
	struct sluice_launch *hold;
};

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER; /* outside of the order of lock.h */
static struct memory_block *blocks;                             /* blocks_lock */
/* atomic: pairs with itself: whoever sees the pointer got the space from the thread that made it. */
static _Atomic(struct sluice_space *) torch_space;

/* Mapped where it is, whatever the stream. */
static int
memory_attach(struct memory_block *b)
{
	const struct sluice_use use = {b->addr, b->bytes, SLUICE_USE_READ_WRITE};

	return sl_launch_begin_optional(b->space, NULL, NULL, 0, &use, 1, &b->hold);
}

static void
memory_release(struct memory_block *b)
{
	sluice_launch_end(b->hold);
	b->hold = NULL;
}

/* Work of streams that nobody has told of may use blocks: until it is done. */
static int
memory_drain(struct sluice_space *space)
{
	return space->device->native->drain(space->device);
}

/* Device memory is taken only if it is there without moving anything that is held. */
static int
memory_has_room(struct sluice_space *space, size_t bytes)
{
	uint64_t held = 0;
	struct sluice_stats stats;

	for (const struct memory_block *b = blocks; b; b = b->next) {
		struct sluice_residency at;

		if (b->space == space && !sluice_residency(space, b->addr, b->bytes, &at))
			held += at.tier_bytes[SLUICE_TIER_DEVICE];
	}
	sluice_stats_get(space, &stats);
	return held + bytes + 2 * space->config.chunk_bytes <=
	       stats.budget_bytes[SLUICE_TIER_DEVICE];
}

int
sluice_memory_alloc(struct sluice_space *space, size_t size_bytes, unsigned flags, void **addr)
{
	struct memory_block *b;
	void *made = NULL;
	int rc = sl_space_enterable(space);

	if (rc)
		return rc;
	if (!space->device->zerocopy)
		return sl_fail(-ENOTSUP,
			       "memory_alloc: the %s device has no memory that kernels "
			       "reach at any time",
			       space->device->ops->name);
	if (!size_bytes || flags & ~(unsigned)SLUICE_MEMORY_HOST)
		return sl_fail(-EINVAL, "memory_alloc: %zu bytes, flags 0x%x", size_bytes,
			       flags);
	b = sl_calloc(1, sizeof(*b));
	if (!b)
		return sl_fail(-ENOMEM, "memory_alloc: out of memory");
	rc = sl_region_alloc(space, size_bytes, space->config.chunk_bytes, &made);
	if (rc) {
		free(b);
		return rc;
	}
	*b = (struct memory_block){.space = space, .addr = made, .bytes = size_bytes};
	pthread_mutex_lock(&blocks_lock);
	if (!(flags & SLUICE_MEMORY_HOST) && memory_has_room(space, size_bytes))
		sl_ignore(sl_populate(space, made, size_bytes)); /* else in host memory */
	rc = memory_attach(b);
	if (!rc) {
		b->next = blocks;
		blocks = b;
	}
	pthread_mutex_unlock(&blocks_lock);
	if (rc) {
		sl_ignore(sluice_unmap(space, made));
		free(b);
		return rc;
	}
	*addr = made;
	return 0;
}

int
sluice_memory_free(struct sluice_space *space, void *addr)
{
	struct memory_block **at, *b;
	int rc = sl_space_enterable(space), drained = 0;

	if (rc)
		return rc;
	pthread_mutex_lock(&blocks_lock);
	for (at = &blocks; *at && ((*at)->space != space || (*at)->addr != addr);
	     at = &(*at)->next)
		;
	b = *at;
	if (b) {
		drained = memory_drain(space);
		*at = b->next;
		memory_release(b);
	}
	pthread_mutex_unlock(&blocks_lock);
	if (!b)
		return sl_fail(-ENOENT, "memory_free: %p: nothing was allocated there", addr);
	rc = sluice_unmap(space, addr);
	free(b);
	return rc ? rc : drained;
}

/* The block with this address, and how much of the range lies in it. */
static struct memory_block *
memory_block_at(struct sluice_space *space, const void *addr, size_t *bytes)
{
	const char *p = addr;

	for (struct memory_block *b = blocks; b; b = b->next)
		if (b->space == space && p >= b->addr && p < b->addr + b->bytes) {
			size_t left = b->bytes - (size_t)(p - b->addr);

			*bytes = *bytes < left ? *bytes : left;
			return b;
		}
	return NULL;
}

/* uses: room for n. How many lie in blocks, and whether all of those are on the device. */
static size_t
memory_wanted(struct sluice_space *space, const void *const *addrs,
	      const size_t *sizes_bytes, size_t n, struct sluice_use *uses, int *there)
{
	struct sluice_residency at;
	size_t found = 0;

	*there = 1;
	for (size_t i = 0; i < n; i++) {
		size_t bytes = sizes_bytes[i];

		if (!bytes || !memory_block_at(space, addrs[i], &bytes))
			continue;
		if (sluice_residency(space, addrs[i], bytes, &at) ||
		    at.tier_bytes[SLUICE_TIER_DEVICE] < bytes)
			*there = 0;
		uses[found++] = (struct sluice_use){addrs[i], bytes, SLUICE_USE_READ_WRITE};
	}
	return found;
}

/* All blocks are held again, also after an error: kernels must find them. */
static int
memory_replace(struct sluice_space *space, const struct sluice_use *uses, size_t n)
{
	struct sluice_launch *launch = NULL;
	int rc = memory_drain(space), held;

	if (rc)
		return rc;
	for (struct memory_block *b = blocks; b; b = b->next)
		if (b->space == space)
			memory_release(b);
	rc = sl_launch_begin_optional(space, NULL, uses, n, NULL, 0, &launch);
	for (struct memory_block *b = blocks; b; b = b->next) {
		held = b->space == space ? memory_attach(b) : 0;
		rc = rc ? rc : held;
	}
	sluice_launch_end(launch);
	held = memory_drain(space); /* other streams than this one need the data */
	return rc ? rc : held;
}

int
sluice_memory_place(struct sluice_space *space, const void *const *addrs,
		    const size_t *sizes_bytes, size_t n)
{
	struct sluice_use *uses;
	int there, rc = sl_space_enterable(space);

	if (rc)
		return rc;
	if (n && (!addrs || !sizes_bytes))
		return sl_fail(-EINVAL, "memory_place: %zu ranges, and an array is NULL", n);
	uses = sl_calloc(n + 1, sizeof(*uses));
	if (!uses)
		return sl_fail(-ENOMEM, "memory_place: out of memory");
	pthread_mutex_lock(&blocks_lock);
	n = memory_wanted(space, addrs, sizes_bytes, n, uses, &there);
	if (n && !there)
		rc = memory_replace(space, uses, n);
	pthread_mutex_unlock(&blocks_lock);
	free(uses);
	return rc;
}

int
sluice_memory_contains(struct sluice_space *space, const void *addr)
{
	size_t bytes = 1;
	int found;

	if (sl_space_enterable(space))
		return 0;
	pthread_mutex_lock(&blocks_lock);
	found = memory_block_at(space, addr, &bytes) != NULL;
	pthread_mutex_unlock(&blocks_lock);
	return found;
}

void
sluice_torch_space_set(struct sluice_space *space)
{
	atomic_store(&torch_space, space);
}

static void *
torch_alloc(ssize_t size_bytes, int device, unsigned flags)
{
	struct sluice_space *space = atomic_load(&torch_space);
	void *addr = NULL;
	int rc;

	if (!space || (unsigned)device != space->config.device_number)
		rc = sl_fail(-EINVAL, "torch_alloc: no space on GPU %d", device);
	else
		rc = sluice_memory_alloc(space, size_bytes > 0 ? (size_t)size_bytes : 0,
					 flags, &addr);
	if (!rc)
		return addr;
	sl_log(SL_WARN, "allocator", "%s", sluice_last_error());
	return NULL; /* PyTorch's out of memory */
}

void *
sluice_torch_alloc(ssize_t size_bytes, int device, void *stream)
{
	(void)stream;
	return torch_alloc(size_bytes, device, 0);
}

void *
sluice_torch_alloc_host(ssize_t size_bytes, int device, void *stream)
{
	(void)stream;
	return torch_alloc(size_bytes, device, SLUICE_MEMORY_HOST);
}

void
sluice_torch_free(void *addr, ssize_t size_bytes, int device, void *stream)
{
	struct sluice_space *space = atomic_load(&torch_space);

	(void)size_bytes;
	(void)device;
	(void)stream;
	if (addr && space && sluice_memory_free(space, addr))
		sl_log(SL_WARN, "allocator", "%s", sluice_last_error());
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's hints for managed memory, on managed allocations that the library serves. Advice,
 * prefetches and discards become those of the space. Our other memory is no managed memory, and
 * is refused as the driver refuses its own. The preferred or last prefetched location of a range
 * is not kept. The answer is "nowhere", which any program must expect.
 *
 * While all data fit there is nothing to hint. All are on the device, and the core does not know
 * of running kernels, so nothing may move.
 *
 * Threads: any. None blocks on copies.
 */
#include "preload/alloc/block.h"
#include "preload/api/api_query.h"
#include "preload/gpu.h"
#include "sluice/sluice.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "preload/preload.h"

/* A call on [addr, addr + bytes) is answered here. *block: NULL where the range is wrong. */
static bool
is_answered(uint64_t addr, size_t bytes, struct pl_block **block)
{
	*block = NULL;
	if (!pl_active() || !pl_maybe_ours(addr))
		return false;
	*block = pl_block_find(addr);
	if (!*block)
		return pl_gpu_of(addr) != NULL;
	if ((*block)->birth != PL_BORN_MANAGED || !bytes ||
	    bytes > (*block)->base + (*block)->bytes - addr)
		*block = NULL;
	return true;
}

static bool
is_pressed(const struct pl_block *block)
{
	return atomic_load(&block->gpu->pressure) >= PL_OVERSUBSCRIBED;
}

static bool
is_host(const struct cu_location *location)
{
	return location->type != CU_LOCATION_DEVICE;
}

/* Where a device number of the first ABIs points to. */
static struct cu_location
location_of(int device)
{
	return (struct cu_location){
		.type = device == CU_DEVICE_IS_CPU ? CU_LOCATION_HOST : CU_LOCATION_DEVICE,
		.id = device,
	};
}

/* ---- advice ---- */

/* block, here and below: NULL where the range is wrong. */
static int
advise(struct pl_block *block, uint64_t addr, size_t bytes, int advice,
       const struct cu_location *location)
{
	enum sluice_advice ours;

	if (!block)
		return CU_ERROR_INVALID_VALUE;
	switch (advice) {
	case CU_ADVISE_READ_MOSTLY:
		ours = SLUICE_ADVISE_READ_MOSTLY;
		break;
	case CU_ADVISE_PREFERRED:
		if (!is_host(location))
			return CU_SUCCESS;
		ours = SLUICE_ADVISE_DONT_NEED;
		break;
	case CU_ADVISE_NOT_READ_MOSTLY:
	case CU_ADVISE_NOT_PREFERRED:
	case CU_ADVISE_ACCESSED_BY:
	case CU_ADVISE_NOT_ACCESSED_BY:
		return CU_SUCCESS;
	default: /* the program's number, not an enum of ours */
		return CU_ERROR_INVALID_VALUE;
	}
	if (is_pressed(block)) {
		pl_enter();
		/* A hint: what the core cannot take is none. */
		sl_ignore(sluice_advise(block->gpu->space, (void *)(uintptr_t)addr, bytes,
					ours));
		pl_leave();
	}
	return CU_SUCCESS;
}

int
cuMemAdvise(uint64_t addr, size_t bytes, int advice, int device)
{
	struct cu_location location = location_of(device);
	struct pl_block *block;

	if (!is_answered(addr, bytes, &block))
		return PL_REAL(cuMemAdvise)(addr, bytes, advice, device);
	return advise(block, addr, bytes, advice, &location);
}

int
cuMemAdvise_v2(uint64_t addr, size_t bytes, int advice, struct cu_location location)
{
	struct pl_block *block;

	if (!is_answered(addr, bytes, &block))
		return PL_REAL(cuMemAdvise_v2)(addr, bytes, advice, location);
	return advise(block, addr, bytes, advice, &location);
}

/* ---- prefetches ---- */

/* Launches that were called before hold what they use, so that nothing moves away under them. */
static int
prefetch(struct pl_block *block, uint64_t addr, size_t bytes,
	 const struct cu_location *location)
{
	if (!block)
		return CU_ERROR_INVALID_VALUE;
	if (!is_pressed(block))
		return CU_SUCCESS;
	pl_enter();
	sl_ignore(sluice_prefetch(block->gpu->space, (void *)(uintptr_t)addr, bytes,
				  is_host(location) ? SLUICE_TIER_HOST : SLUICE_TIER_DEVICE,
				  NULL));
	pl_leave();
	return CU_SUCCESS;
}

static int
prefetch_v1(__typeof__(&cuMemPrefetchAsync) real, enum pl_default_stream flavour,
	    uint64_t addr, size_t bytes, int device, struct cu_stream *stream)
{
	struct cu_location location = location_of(device);
	struct pl_block *block;

	(void)flavour;
	if (!is_answered(addr, bytes, &block))
		return real(addr, bytes, device, stream);
	return prefetch(block, addr, bytes, &location);
}

static int
prefetch_v2(__typeof__(&cuMemPrefetchAsync_v2) real, enum pl_default_stream flavour,
	    uint64_t addr, size_t bytes, struct cu_location location, unsigned flags,
	    struct cu_stream *stream)
{
	struct pl_block *block;

	(void)flavour;
	if (!is_answered(addr, bytes, &block))
		return real(addr, bytes, location, flags, stream);
	return flags ? CU_ERROR_INVALID_VALUE : prefetch(block, addr, bytes, &location);
}

/* clang-format off */
PL_DEFINE_BOTH(cuMemPrefetchAsync, ptsz, prefetch_v1,
	       (uint64_t addr, size_t bytes, int device, struct cu_stream *stream),
	       addr, bytes, device, stream)
PL_DEFINE_BOTH(cuMemPrefetchAsync_v2, ptsz, prefetch_v2,
	       (uint64_t addr, size_t bytes, struct cu_location location, unsigned flags,
		struct cu_stream *stream),
	       addr, bytes, location, flags, stream)
/* clang-format on */

/* ---- batches ---- */

enum { BATCH_DISCARD = 1, BATCH_PREFETCH = 2 };

struct batch {
	unsigned what;
	void *real;
	uint64_t *addrs;
	size_t *bytes;
	size_t n;
	struct cu_location *locations; /* locations[k] is that of ranges first[k] .. first[k + 1] - 1 */
	size_t *first;
	size_t n_locations;
	unsigned long long flags;
	struct cu_stream *stream;
};

#define CALL(b, name) ((__typeof__(&(name)))(b)->real)

/* The same of a part of the batch; the driver's. */
static int
hint_batch_forward(const struct batch *b, uint64_t *addrs, size_t *bytes, size_t n,
		   size_t *first, struct cu_location *locations, size_t n_locations)
{
	if (b->what == BATCH_DISCARD)
		return CALL(b, cuMemDiscardBatchAsync)(addrs, bytes, n, b->flags, b->stream);
	/* With a discard or without: the same arguments. */
	return CALL(b, cuMemPrefetchBatchAsync)(addrs, bytes, n, locations, first,
						n_locations, b->flags, b->stream);
}

static void
batch_range(const struct batch *b, struct pl_block *block, size_t i,
	    const struct cu_location *location)
{
	if (!is_pressed(block))
		return;
	if (b->what & BATCH_DISCARD) {
		pl_enter();
		sl_ignore(sluice_discard(block->gpu->space, (void *)(uintptr_t)b->addrs[i],
					 b->bytes[i], SLUICE_DISCARD_LAZY, NULL));
		pl_leave();
	}
	if (b->what & BATCH_PREFETCH)
		prefetch(block, b->addrs[i], b->bytes[i], location);
}

/* The location of range i. */
static struct cu_location *
batch_location(const struct batch *b, size_t i)
{
	size_t k = 0;

	while (k + 1 < b->n_locations && b->first[k + 1] <= i)
		k++;
	return b->locations ? &b->locations[k] : NULL;
}

static int
hint_batch_run(const struct batch *b)
{
	struct pl_block *block;
	size_t ours = 0;

	if (!pl_active() || !b->addrs || !b->bytes)
		return hint_batch_forward(b, b->addrs, b->bytes, b->n, b->first,
					  b->locations, b->n_locations);
	for (size_t i = 0; i < b->n; i++) {
		if (!is_answered(b->addrs[i], b->bytes[i], &block))
			continue;
		if (!block)
			return CU_ERROR_INVALID_VALUE;
		ours++;
	}
	if (!ours)
		return hint_batch_forward(b, b->addrs, b->bytes, b->n, b->first,
					  b->locations, b->n_locations);
	if (b->flags || ((b->what & BATCH_PREFETCH) &&
			 (!b->locations || !b->first || !b->n_locations || b->first[0])))
		return CU_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < b->n; i++) {
		struct cu_location *location = batch_location(b, i);
		size_t none = 0;
		int result;

		(void)is_answered(b->addrs[i], b->bytes[i], &block);
		if (block) {
			batch_range(b, block, i, location);
			continue;
		}
		result = hint_batch_forward(b, &b->addrs[i], &b->bytes[i], 1, &none,
					    location, location ? 1 : 0);
		if (result)
			return result;
	}
	return CU_SUCCESS;
}

#define BATCH(real_, flavour_, what_, ...) \
	hint_batch_run(&(struct batch){.real = real_, .what = what_, __VA_ARGS__})

/* clang-format off */
PL_DEFINE_BOTH(cuMemPrefetchBatchAsync, ptsz, BATCH,
	       (uint64_t *addrs, size_t *bytes, size_t n, struct cu_location *locations,
		size_t *first, size_t n_locations, unsigned long long flags,
		struct cu_stream *stream),
	       BATCH_PREFETCH, .addrs = addrs, .bytes = bytes, .n = n, .locations = locations,
	       .first = first, .n_locations = n_locations, .flags = flags, .stream = stream)
PL_DEFINE_BOTH(cuMemDiscardBatchAsync, ptsz, BATCH,
	       (uint64_t *addrs, size_t *bytes, size_t n, unsigned long long flags,
		struct cu_stream *stream),
	       BATCH_DISCARD, .addrs = addrs, .bytes = bytes, .n = n, .flags = flags,
	       .stream = stream)
PL_DEFINE_BOTH(cuMemDiscardAndPrefetchBatchAsync, ptsz, BATCH,
	       (uint64_t *addrs, size_t *bytes, size_t n, struct cu_location *locations,
		size_t *first, size_t n_locations, unsigned long long flags,
		struct cu_stream *stream),
	       BATCH_DISCARD | BATCH_PREFETCH, .addrs = addrs, .bytes = bytes, .n = n,
	       .locations = locations, .first = first, .n_locations = n_locations,
	       .flags = flags, .stream = stream)
/* clang-format on */

/* ---- streams ---- */

static int
attach(__typeof__(&cuStreamAttachMemAsync) real, enum pl_default_stream flavour,
       struct cu_stream *stream, uint64_t addr, size_t bytes, unsigned flags)
{
	struct pl_block *block;

	(void)flavour;
	/* 0 bytes: the whole allocation. */
	if (!is_answered(addr, bytes ? bytes : 1, &block))
		return real(stream, addr, bytes, flags);
	/* Host code may touch it whatever runs. */
	return block ? CU_SUCCESS : CU_ERROR_INVALID_VALUE;
}

/* clang-format off */
PL_DEFINE_BOTH(cuStreamAttachMemAsync, ptsz, attach,
	       (struct cu_stream *stream, uint64_t addr, size_t bytes, unsigned flags),
	       stream, addr, bytes, flags)
/* clang-format on */

/* ---- what was hinted ---- */

/* One attribute; 1: this size is none for it. */
static int
range_attribute(void *value, size_t value_bytes, int attribute)
{
	int nowhere = attribute == CU_RANGE_READ_MOSTLY ||
				      attribute == CU_RANGE_PREFERRED_TYPE ||
				      attribute == CU_RANGE_LAST_PREFETCH_TYPE
			      ? CU_LOCATION_INVALID
			      : CU_DEVICE_NONE;

	if (!value || attribute < CU_RANGE_READ_MOSTLY ||
	    attribute > CU_RANGE_LAST_PREFETCH_ID || !value_bytes ||
	    value_bytes % sizeof(int) ||
	    (attribute != CU_RANGE_ACCESSED_BY && value_bytes != sizeof(int)))
		return 1;
	for (size_t i = 0; i < value_bytes / sizeof(int); i++)
		memcpy((char *)value + i * sizeof(int), &nowhere, sizeof(int));
	return 0;
}

int
cuMemRangeGetAttribute(void *value, size_t value_bytes, int attribute, uint64_t addr,
		       size_t bytes)
{
	struct pl_block *block;

	if (!is_answered(addr, bytes, &block))
		return PL_REAL(cuMemRangeGetAttribute)(value, value_bytes, attribute,
						       addr, bytes);
	return block && !range_attribute(value, value_bytes, attribute)
		       ? CU_SUCCESS
		       : CU_ERROR_INVALID_VALUE;
}

int
cuMemRangeGetAttributes(void **values, size_t *value_bytes, int *attributes, size_t n,
			uint64_t addr, size_t bytes)
{
	struct pl_block *block;

	if (!is_answered(addr, bytes, &block))
		return PL_REAL(cuMemRangeGetAttributes)(values, value_bytes, attributes,
							n, addr, bytes);
	if (!block || !values || !value_bytes || !attributes || !n)
		return CU_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++)
		if (range_attribute(values[i], value_bytes[i], attributes[i]))
			return CU_ERROR_INVALID_VALUE;
	return CU_SUCCESS;
}

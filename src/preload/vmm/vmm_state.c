/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's handles, reservations and mappings (vmm.h), found by number and by address.
 * Their makers own the objects; here are sorted sets of pointers to them.
 *
 * Handles are numbered from 1 on below a tag. So they are no address of user space and no small
 * number, as the driver's are. A number is never reused.
 *
 * Threads: pl_vmm_lock.
 */
#include <stdbool.h>

#include "preload/calls/ranges.h"
#include "preload/vmm/vmm.h"

#define ID_TAG_SHIFT 48
#define ID_TAG       ((uint64_t)0x51ce) /* of bits 48 to 63 */

struct sl_mutex pl_vmm_lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_MAPPINGS);

static struct pl_ranges handles = PL_RANGES_INITIALIZER; /* by id, 1 long */
static struct pl_ranges ranges = PL_RANGES_INITIALIZER;
static struct pl_ranges mappings = PL_RANGES_INITIALIZER;
static struct pl_ranges homes = PL_RANGES_INITIALIZER; /* value: the handle */
static uint64_t last_handle, last_mapping;

static void *
found(int is, const struct pl_range *range)
{
	return is ? (void *)(uintptr_t)range->value : NULL;
}

/* ---- handles ---- */

bool
pl_vmm_id_is_ours(uint64_t id)
{
	return id >> ID_TAG_SHIFT == ID_TAG;
}

int
pl_vmm_handle_add(struct pl_vmm_handle *handle)
{
	handle->id = ID_TAG << ID_TAG_SHIFT | ++last_handle;
	return pl_ranges_add(&handles,
			     (struct pl_range){handle->id, 1, 0, (uintptr_t)handle});
}

void
pl_vmm_handle_remove(const struct pl_vmm_handle *handle)
{
	(void)pl_ranges_take(&handles, handle->id, NULL);
}

struct pl_vmm_handle *
pl_vmm_handle_find(uint64_t id)
{
	struct pl_range range;

	return found(pl_ranges_find(&handles, id, &range), &range);
}

/* ---- reservations ---- */

int
pl_vmm_range_add(struct pl_vmm_range *range)
{
	return pl_ranges_add(&ranges, (struct pl_range){range->base, range->bytes, 0,
							(uintptr_t)range});
}

void
pl_vmm_range_remove(const struct pl_vmm_range *range)
{
	(void)pl_ranges_take(&ranges, range->base, NULL);
}

struct pl_vmm_range *
pl_vmm_range_find(uint64_t addr)
{
	struct pl_range at;
	struct pl_vmm_range *range = found(pl_ranges_find(&ranges, addr, &at), &at);

	return range && !range->freed ? range : NULL;
}

/* ---- mappings ---- */

int
pl_vmm_mapping_add(struct pl_vmm_mapping *mapping)
{
	mapping->id = ++last_mapping;
	return pl_ranges_add(&mappings, (struct pl_range){mapping->addr, mapping->bytes,
							  0, (uintptr_t)mapping});
}

void
pl_vmm_mapping_remove(const struct pl_vmm_mapping *mapping)
{
	(void)pl_ranges_take(&mappings, mapping->addr, NULL);
}

struct pl_vmm_mapping *
pl_vmm_mapping_find(uint64_t addr)
{
	return pl_vmm_mapping_in(addr, 1);
}

struct pl_vmm_mapping *
pl_vmm_mapping_in(uint64_t addr, uint64_t bytes)
{
	struct pl_range range;

	return found(pl_ranges_find_in(&mappings, addr, bytes, &range), &range);
}

/* ---- homes ---- */

int
pl_vmm_home_add(struct pl_vmm_handle *handle)
{
	return pl_ranges_add(&homes, (struct pl_range){handle->home, handle->bytes, 0,
						       (uintptr_t)handle});
}

void
pl_vmm_home_remove(struct pl_vmm_handle *handle)
{
	(void)pl_ranges_take(&homes, handle->home, NULL);
	handle->home = 0;
	handle->home_range = NULL;
}

struct pl_vmm_handle *
pl_vmm_home_in(uint64_t addr, uint64_t bytes)
{
	struct pl_range range;

	return found(pl_ranges_find_in(&homes, addr, bytes, &range), &range);
}

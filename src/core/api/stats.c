/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the counters: names from the one list in sluice/stats.h, values under the space lock.
 */
#include <stdio.h>
#include <string.h>

#include "core/api/api.h"

static const struct {
	const char *name, *unit, *text;
} counters[SLUICE_COUNTER_COUNT] = {
#define COUNTER_ENTRY_(E, name, unit, text) [SLUICE_COUNTER_##E] = {name, unit, text},
	SLUICE_COUNTERS(COUNTER_ENTRY_)
#undef COUNTER_ENTRY_
};

const char *
sluice_counter_name(enum sluice_counter counter)
{
	return (unsigned)counter < SLUICE_COUNTER_COUNT ? counters[counter].name : NULL;
}

const char *
sluice_counter_unit(enum sluice_counter counter)
{
	return (unsigned)counter < SLUICE_COUNTER_COUNT ? counters[counter].unit : NULL;
}

const char *
sluice_counter_text(enum sluice_counter counter)
{
	return (unsigned)counter < SLUICE_COUNTER_COUNT ? counters[counter].text : NULL;
}

void
sluice_stats_get(struct sluice_space *space, struct sluice_stats *out)
{
	memset(out, 0, sizeof(*out));
	if (sl_space_forked(space))
		return;
	sl_space_lock(space);
	memcpy(out->counter, space->counter, sizeof(out->counter));
	out->counter[SLUICE_COUNTER_MOVE_RETRIES] +=
		__atomic_load_n(&space->device->progress->move_retries, __ATOMIC_RELAXED);
	out->resident_bytes[SLUICE_TIER_DEVICE] = space->dev.used_bytes;
	out->resident_bytes[SLUICE_TIER_HOST] = space->host.settled_bytes;
	out->resident_bytes[SLUICE_TIER_STORE] = space->spilled_bytes;
	out->resident_peak_bytes[SLUICE_TIER_DEVICE] = space->dev.peak_bytes;
	out->resident_peak_bytes[SLUICE_TIER_HOST] = space->host.peak_bytes;
	out->resident_peak_bytes[SLUICE_TIER_STORE] = space->spilled_peak_bytes;
	out->budget_bytes[SLUICE_TIER_DEVICE] = space->dev.budget_bytes;
	out->budget_bytes[SLUICE_TIER_HOST] = space->host.budget_bytes;
	out->budget_bytes[SLUICE_TIER_STORE] = space->config.store_budget_bytes;
	out->staging_bytes = space->host.staging_used_bytes;
	sl_space_unlock(space);
}

void
sluice_stats_reset(struct sluice_space *space)
{
	if (sl_space_forked(space))
		return;
	sl_space_lock(space);
	memset(space->counter, 0, sizeof(space->counter));
	/* what the device counts for us starts from here: unsigned wrap makes the sum zero */
	space->counter[SLUICE_COUNTER_MOVE_RETRIES] =
		-__atomic_load_n(&space->device->progress->move_retries, __ATOMIC_RELAXED);
	space->dev.peak_bytes = space->dev.used_bytes;
	space->host.peak_bytes = space->host.settled_bytes;
	space->spilled_peak_bytes = space->spilled_bytes;
	sl_space_unlock(space);
}

static uint64_t
counters_sum(const struct sluice_stats *stats, enum sluice_counter first,
	     enum sluice_counter last)
{
	uint64_t sum = 0;

	for (int i = first; i <= (int)last; i++)
		sum += stats->counter[i];
	return sum;
}

uint64_t
sluice_stats_h2d_bytes(const struct sluice_stats *stats)
{
	return counters_sum(stats, SLUICE_COUNTER_H2D_LAUNCH, SLUICE_COUNTER_H2D_PREFETCH) -
	       stats->counter[SLUICE_COUNTER_COMPRESS_IN_SAVED];
}

uint64_t
sluice_stats_d2h_bytes(const struct sluice_stats *stats)
{
	return counters_sum(stats, SLUICE_COUNTER_D2H_EVICT, SLUICE_COUNTER_D2H_SYNC) -
	       stats->counter[SLUICE_COUNTER_COMPRESS_OUT_SAVED];
}

uint64_t
sluice_stats_store_read_bytes(const struct sluice_stats *stats)
{
	return counters_sum(stats, SLUICE_COUNTER_STORE_READ_DEMAND,
			    SLUICE_COUNTER_STORE_READ_PREFETCH) -
	       stats->counter[SLUICE_COUNTER_COMPRESS_READ_SAVED];
}

uint64_t
sluice_stats_store_write_bytes(const struct sluice_stats *stats)
{
	return counters_sum(stats, SLUICE_COUNTER_STORE_WRITE_BACK,
			    SLUICE_COUNTER_STORE_WRITE_SPILL) -
	       stats->counter[SLUICE_COUNTER_COMPRESS_WRITE_SAVED];
}

int
sluice_regions(struct sluice_space *space, struct sluice_region_info *infos, size_t max,
	       size_t *n_out)
{
	int rc = sl_space_enter(space);

	if (rc)
		return rc;
	for (size_t i = 0; i < space->n_regions && i < max; i++) {
		const struct sl_region *r = space->regions[i];
		struct sluice_region_info *info = &infos[i];
		struct sluice_residency where;

		sl_region_residency(r, 0, r->size_bytes, &where);
		memset(info, 0, sizeof(*info));
		info->addr = r->base;
		info->size_bytes = r->size_bytes;
		info->chunk_bytes = r->chunk_bytes;
		info->flags = r->flags;
		info->bytes.device = where.tier_bytes[SLUICE_TIER_DEVICE];
		info->bytes.host = where.tier_bytes[SLUICE_TIER_HOST];
		info->bytes.store = where.tier_bytes[SLUICE_TIER_STORE];
		info->bytes.empty = where.empty_bytes;
		info->bytes.dirty = where.dirty_bytes;
		snprintf(info->name, sizeof(info->name), "%s", r->name);
	}
	*n_out = space->n_regions;
	sl_space_unlock(space);
	return 0;
}

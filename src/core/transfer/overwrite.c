/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that a launch is to overwrite as a whole (WRITE_ALL). The launch may never run:
 * preparing fails, an earlier launch of its stream fails, sluice_launch_begin() returns an
 * error. So the contents stay as they are until the launch begins.
 *
 * Preparing the launch gives such a chunk cleared room on the device and marks it unwritten. An
 * unwritten chunk is clean: its contents are in its host frame or the store, or they are zeros.
 * When the first launch that writes it begins, the chunk becomes dirty and the older copies go.
 * If the launch ends without having begun, the room goes and the older copy counts again.
 *
 * Such a frame does not hold host memory back. If it is the only older copy it is still the
 * first to go for room, as if it had gone when the chunk got its room. Moves must not depend on
 * the progress of kernels. If the launch then never begins, the contents are lost, and reads say
 * so.
 *
 * A launch that needs room, or a fault, may take the chunk from the waiting launch. The chunk is
 * then EMPTY and lost, but only if that launch never begins. An earlier user sees zeros, and
 * they are its contents from then on: another launch must not fail because it shares a chunk.
 *
 * LOCKING: all of it under space->lock; what drops it says so.
 */
#include "core/transfer/transfer.h"

void
sl_overwrite_begin(struct sl_chunk *c, struct sluice_launch *l)
{
	c->unwritten = 1;
	l->overwrites = 1;
	if (sl_store_is_newest(c))
		sl_host_drop(c);
	else
		sl_chunk_update(c);
}

void
sl_overwritten(struct sl_chunk *c)
{
	c->flags &= (uint16_t)~SL_DIRTY_HOST;
	sl_host_drop(c);
	sl_dirty_hash_forget(c);
}

int
sl_overwrite_undo(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;

	/* Kernels that fault bring it back; others have it until they end. */
	if (sl_chunk_pins(c) && !s->device->faults) {
		sl_launch_wait(s);
		return 0;
	}
	return sl_evict(c, SL_EVICT_REQUEST);
}

/*
 * One that a fault has taken goes without it: the kernel faults. While it is being taken the kernel
 * must not begin: what it wrote would go with the room. Drops.
 */
SL_HELD static void
overwrite_do(const struct sl_launch_use *u, struct sl_chunk *c)
{
	while (c->unwritten && c->state == SL_CHUNK_EVICTING)
		sl_chunk_wait(c);
	if (sl_use_overwrites(u, c))
		c->flags &= (uint16_t)~SL_LOST;
	if (!c->unwritten || c->state != SL_CHUNK_DEVICE)
		return;
	c->unwritten = 0;
	c->flags &= (uint16_t)~SL_LOST;
	c->flags |= SL_DIRTY_DEVICE;
	sl_chunk_update(c);
	sl_overwritten(c);
}

/* One that cannot go back now stays unwritten, and goes back when it is evicted. Drops. */
SL_HELD static void
overwrite_take_back(const struct sl_launch_use *u, struct sl_chunk *c)
{
	int rc = 0;

	(void)u;
	while (!rc && c->unwritten && sl_chunk_on_device(c)) {
		if (c->state == SL_CHUNK_DEVICE)
			rc = sl_overwrite_undo(c);
		else
			sl_chunk_wait(c);
	}
	if (rc)
		sl_region_write_error(c->region, rc, sluice_last_error());
}

/* Once, for each chunk that the launch writes. */
SL_HELD static void
overwrites_end(struct sluice_launch *l,
	       void (*end)(const struct sl_launch_use *u, struct sl_chunk *c))
{
	if (!l->overwrites)
		return;
	l->overwrites = 0;
	for (size_t k = 0; k < l->n_uses; k++) {
		const struct sl_launch_use *u = &l->uses[k];

		for (uint64_t i = u->first; i <= u->last && u->intent != SLUICE_USE_READ; i++)
			end(u, &u->region->chunks[i]);
	}
}

void
sl_launch_overwrites(struct sluice_launch *l)
{
	overwrites_end(l, overwrite_do);
}

void
sl_launch_overwrites_undo(struct sluice_launch *l)
{
	overwrites_end(l, overwrite_take_back);
}

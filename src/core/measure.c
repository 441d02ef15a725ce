/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measured dirtiness: for data of which a launch says no more than "read and written" (or nothing at
 * all), the device hashes a chunk when it comes in, behind its copy and ahead of the launch, and once
 * more before it would be copied out. Equal hashes and a copy that was valid then (the *base*: the
 * host frame, which is kept for it, the store, or zeros that nobody wrote) mean that nothing is
 * copied. Off unless config.measure or SLUICE_ADVISE_MEASURE asks for it.
 *
 * A measured chunk is DIRTY_DEVICE like any other that may have been written, and may have a host
 * frame beside that. Unknown is never clean: no base any more, a hash that fails, a device that
 * cannot hash: then the chunk is as dirty as its flag says. Whether a base is still there is looked
 * at when it matters; where a frame goes that was newer than the store, measuring ends (host.c).
 *
 * A hash is a kernel: it waits for room among the program's. Kernels that fill the device and wait
 * for the host (fetch.c) would wait for each other with it, so nothing is hashed while such may run.
 *
 * LOCKING: as in core.h; the device is called without the lock, while the chunk is in a state that
 * keeps others off it.
 */
#include <time.h>

#include "base/log.h"
#include "core/core.h"

#define STOP_PAUSE_NS 20000u

int
sl_measure_wanted(const struct sl_chunk *c, enum sluice_intent intent)
{
	const struct sl_region *r = c->region;
	const struct sluice_space *s = r->space;

	return intent == SLUICE_USE_READ_WRITE && (s->config.measure || r->measure) &&
	       s->device->ops->measure && !s->measure.stops && s->policy->honour_flags &&
	       sl_region_is_writable(r) && !c->pages;
}

/* Whether a copy that is not on the device has the contents that were hashed first. */
static int
base_is_there(const struct sl_chunk *c)
{
	switch ((enum sl_measured)c->measured) {
	case SL_MEASURED_NOT:
		return 0;
	case SL_MEASURED_COPY:
		return c->host || sl_store_is_newest(c);
	case SL_MEASURED_ZERO: /* equal to zeros now, whatever happened to it */
		return !c->host && !(c->flags & SL_STORE_VALID);
	case SL_MEASURED_COUNT:
		break;
	}
	return 0;
}

/* The device is about to be called, or was. */
SL_RELEASE(sl_space_token)
static void
hash_begin(struct sluice_space *s)
{
	s->measure.running++;
	sl_space_unlock(s);
}

SL_ACQUIRE(sl_space_token)
static void
hash_end(struct sluice_space *s, int rc)
{
	if (rc < 0)
		sl_log_once("measure", SL_WARN, "measure",
			    "%s: what may have been written is copied out",
			    sluice_last_error());
	sl_space_lock(s);
	s->measure.running--;
	sl_count(s, SLUICE_COUNTER_HASHES, rc >= 0);
	sl_launch_wake(s);
}

void
sl_measure_start(struct sl_chunk *c, enum sl_measured base)
{
	struct sluice_space *s = c->region->space;
	struct sl_device *dev = s->device;
	int rc;

	c->measured = SL_MEASURED_NOT;
	if (base == SL_MEASURED_NOT || s->measure.stops)
		return;
	hash_begin(s);
	rc = dev->ops->measure(dev, sl_chunk_addr(c), c->region->chunk_bytes);
	hash_end(s, rc);
	if (rc)
		return;
	c->measured = (uint8_t)base;
	c->arrival = atomic_load_explicit(&dev->moves_issued, memory_order_acquire);
}

int
sl_measure_unchanged(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	struct sl_device *dev = s->device;
	int rc;

	if (!base_is_there(c) || s->measure.stops)
		return 0;
	hash_begin(s);
	rc = dev->ops->unchanged(dev, sl_chunk_addr(c), c->region->chunk_bytes);
	hash_end(s, rc);
	return rc == 1;
}

void
sl_measure_end(struct sl_chunk *c)
{
	if (!c->measured)
		return;
	c->measured = SL_MEASURED_NOT;
	if (c->flags & SL_DIRTY_DEVICE)
		sl_host_drop(c); /* older than the device's, maybe */
	sl_chunk_update(c);
}

void
sl_measure_stop(struct sluice_space *s)
{
	struct sl_device *dev = s->device;
	struct timespec pause = {.tv_nsec = STOP_PAUSE_NS};
	uint64_t last;

	if (!dev->ops->measure)
		return;
	sl_space_lock(s);
	s->measure.stops++;
	while (s->measure.running)
		sl_launch_wait(s);
	sl_space_unlock(s);
	last = atomic_load_explicit(&dev->moves_issued, memory_order_acquire);
	while (dev->ops->move_query(dev, last) == -EAGAIN)
		nanosleep(&pause, NULL);
}

void
sl_measure_resume(struct sluice_space *s)
{
	if (!s->device->ops->measure)
		return;
	sl_space_lock(s);
	s->measure.stops--;
	sl_space_unlock(s);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and destroying a space. Order of creation: configuration, device, store engine,
 * spill, default stream, mover; destruction undoes it backwards and takes a half-made space.
 */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/nvtx.h"
#include "core/api/api.h"
#include "core/interpose.h"
#include "core/publish.h"
#include "core/space_on.h"

#define ENGINE_DEPTH 64u

static const struct sl_space_in nothing; /* the device's own context, and nobody is told */

/* in: of a CUDA device. In a context that is given, the host map is no must. */
static int
device_create(struct sluice_space *s, const struct sl_space_in *in)
{
	struct sl_device_config config = {
		.native_context = in->context,
		.hostmap_optional = in->context != NULL,
		.pinned = in->pinned,
		.pinned_arg = in->pinned_arg,
		.address_bytes = s->config.address_bytes,
		.workers = s->config.workers,
		.frame_cache_bytes = s->config.staging_bytes,
		.touch_server = {.touched = sl_touched, .core = s},
	};
	int rc;

	if (s->config.device == SLUICE_DEVICE_CUDA) {
		rc = sl_device_cuda_create(&config, (int)s->config.device_number, &s->device);
		return rc ? sl_fail_in(rc,
				       "space: no CUDA device (device=soft does without)")
			  : 0;
	}
	s->config.device = SLUICE_DEVICE_SOFT;
	return sl_device_soft_create(&config, &s->device);
}

static int
engine_create(struct sluice_space *s)
{
	int rc;

	if (s->config.store_io != SLUICE_STORE_IO_FILE) {
		rc = sl_engine_create("uring", ENGINE_DEPTH, &s->engine);
		if (!rc || s->config.store_io == SLUICE_STORE_IO_URING)
			return rc;
		sl_log_once("space.uring", SL_WARN, "space",
			    "%s: files are read and written by threads",
			    sluice_last_error());
	}
	return sl_engine_create("file", ENGINE_DEPTH, &s->engine);
}

static void
space_free(struct sluice_space *s)
{
	if (!s)
		return;
	sl_publisher_destroy(s->publisher);
	sl_share_stop(s->share);
	sl_space_share_host_stop(s);
	sl_mover_stop(s);
	sl_encode_end(s);
	if (s->default_stream)
		sluice_stream_destroy(s->default_stream);
	if (s->device)
		s->device->ops->destroy(s->device);
	sl_spill_destroy(s->spill);
	sl_engine_destroy(s->engine);
	if (s->slots)
		munmap(s->slots, s->slots_bytes);
	for (int i = 0; i < SL_WAIT_BUCKETS; i++)
		sl_cond_fini(&s->chunk_wake[i]);
	sl_cond_fini(&s->mover_wake);
	sl_cond_fini(&s->host_wake);
	sl_cond_fini(&s->launch_wake);
	sl_mutex_fini(&s->lock);
	sl_lru_fini(s);
	if (s->policy->destroy)
		s->policy->destroy(s);
	free(s->hostmap.chunks);
	sl_cond_fini(&s->gate.wake);
	sl_share_leave(s->share);
	sl_host_share_leave(s->host_share);
	free(s->early_evict.ring);
	free(s->events);
	free(s->regions);
	free(s);
}

static int
space_start(struct sluice_space *s, const struct sl_space_in *in)
{
	void *const legacy = NULL; /* where streams are native, the default one is the program's */
	int rc = s->device ? 0 : device_create(s, in);

	if (rc)
		return rc;
	s->config.workers = s->device->workers;
	s->slots_bytes = s->device->bytes / SL_GRANULE_BYTES * sizeof(struct sl_region *);
	s->slots = mmap(NULL, s->slots_bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->slots == MAP_FAILED) {
		s->slots = NULL;
		return sl_fail(-ENOMEM, "space: out of memory for its table of regions");
	}
	rc = s->engine ? 0 : engine_create(s);
	if (!rc)
		rc = sl_spill_create(s->engine, s->config.spill_dirs,
				     s->config.store_budget_bytes, 0, &s->spill);
	if (!rc && s->config.compress != SLUICE_COMPRESS_NEVER)
		sl_spill_compress(s->spill, s->config.compress == SLUICE_COMPRESS_ALWAYS
						    ? SL_STORE_CODEC_ALWAYS
						    : SL_STORE_CODEC_AUTO);
	if (!rc)
		rc = sl_stream_make(s, s->device->native ? &legacy : NULL,
				    &s->default_stream);
	if (!rc && s->policy->create)
		rc = s->policy->create(s);
	if (!rc)
		rc = sl_mover_start(s);
	if (!rc && s->config.measure)
		sl_dirty_hash_prepare(s);
	if (!rc)
		sl_encode_prepare(s);
	/* Nobody's program is to fail because it cannot be looked at. */
	if (!rc && s->config.publish && sl_publisher_create(s, s->device->uuid, &s->publisher))
		sl_log_once("publish", SL_WARN, "publish",
			    "%s: `sluice stat` is not answered", sluice_last_error());
	return rc;
}

/*
 * policy, device and engine: NULL: as the configuration says. device and engine are taken over, also
 * on failure. context: that of a CUDA device made here.
 */
static int
space_create(const struct sluice_config *resolved, const struct sl_policy *policy,
	     struct sl_device *device, struct sl_engine *engine,
	     const struct sl_space_in *in, struct sluice_space **out)
{
	struct sluice_space *s = sl_calloc(1, sizeof(*s));
	int rc;

	if (!s) {
		if (device)
			device->ops->destroy(device);
		sl_engine_destroy(engine);
		return sl_fail(-ENOMEM, "space: out of memory");
	}
	sl_fork_watch(s);
	s->device = device;
	s->engine = engine;
	s->config = *resolved;
	s->policy = policy ? policy : sl_policy_find(resolved->policy);
	s->dev.budget_bytes = resolved->device_budget_bytes;
	s->host.budget_bytes = resolved->host_budget_bytes;
	s->host.staging_bytes = resolved->staging_bytes;
	s->hostmap.limit_bytes = resolved->staging_bytes / 4;
	sl_mutex_init(&s->lock, SL_RANK_SPACE);
	for (int i = 0; i < SL_WAIT_BUCKETS; i++)
		sl_cond_init(&s->chunk_wake[i]);
	sl_cond_init(&s->mover_wake);
	sl_cond_init(&s->host_wake);
	sl_cond_init(&s->launch_wake);
	sl_cond_init(&s->gate.wake);
	rc = space_start(s, in);
	if (rc) {
		space_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

int
sl_space_create_with(const struct sluice_config *config, const struct sl_policy *policy,
		     struct sluice_space **out)
{
	struct sluice_config resolved;
	int rc = 0;

	if (config)
		resolved = *config;
	else
		rc = sluice_config_init(&resolved);
	if (!rc)
		rc = sl_config_resolve(&resolved);
	return rc ? rc : space_create(&resolved, policy, NULL, NULL, &nothing, out);
}

int
sluice_space_create(const struct sluice_config *config, struct sluice_space **out)
{
	struct sluice_space *space;
	int rc;

	sl_nvtx_open();
	rc = sl_space_create_with(config, NULL, &space);
	if (rc)
		return rc;
	rc = sl_guest_join_run(space);
	if (rc) {
		space_free(space);
		return rc;
	}
	if (space->config.share == SLUICE_SHARE_AUTO)
		sl_share_join(space);
	if (space->config.share == SLUICE_SHARE_AUTO && !space->guest)
		sl_space_share_host(space, space->config.host_budget_bytes, NULL, NULL);
	*out = space;
	return 0;
}

void
sl_space_watch(struct sluice_space *space,
	       void (*moved_out)(void *arg, const void *addr, const void *data, uint64_t bytes),
	       void *arg)
{
	sl_space_lock(space);
	space->moved_out_arg = arg;
	space->moved_out = moved_out;
	sl_space_unlock(space);
}

int
sl_space_create_in(const struct sluice_config *config, const struct sl_space_in *in,
		   struct sluice_space **out, int *has_hostmap)
{
	struct sluice_config resolved = *config;
	int rc = sl_config_resolve(&resolved);

	if (!rc)
		rc = space_create(&resolved, NULL, NULL, NULL, in, out);
	if (!rc)
		*has_hostmap = (*out)->device->hostmap != NULL;
	return rc;
}

void
sl_space_addresses(const struct sluice_space *space, uint64_t *base, uint64_t *end)
{
	*base = (uintptr_t)space->device->base;
	*end = *base + space->device->bytes;
}

uint64_t
sl_space_alive_bytes(const struct sluice_space *space)
{
	return atomic_load_explicit(&space->alive_bytes, memory_order_relaxed);
}

uint64_t
sl_space_device_taken(const struct sluice_space *space)
{
	const struct sl_device *dev = space->device;

	return dev->pool ? dev->pool->taken(dev) : 0;
}

int
sl_space_create_on(const struct sluice_config *config, struct sl_device *device,
		   struct sl_engine *engine, struct sluice_space **out)
{
	struct sluice_config resolved = *config;
	int rc = sl_config_round(&resolved);

	if (!rc)
		return space_create(&resolved, NULL, device, engine, &nothing, out);
	device->ops->destroy(device);
	sl_engine_destroy(engine);
	return rc;
}

/* Unmap every region; one whose data cannot be written gives up its data after saying so. */
SL_HELD static int
regions_destroy(struct sluice_space *s)
{
	int first = 0;
	char text[SL_ERROR_TEXT_BYTES];

	while (s->n_regions) {
		struct sl_region *r = s->regions[s->n_regions - 1];
		int rc;

		for (uint64_t i = 0; i < r->n_chunks; i++)
			r->chunks[i].user_pins = 0;
		/* A touch that nobody waits for any more may still be served. */
		sl_region_close(r);
		rc = sl_region_unmap(r);
		if (!rc)
			continue;
		if (!first) {
			first = rc;
			snprintf(text, sizeof(text), "%s", sluice_last_error());
		}
		r->flags |= SLUICE_VOLATILE; /* nothing more can be done for its data */
		r->closed = 1;
		rc = sl_region_unmap(r);
		if (rc)
			break; /* the device itself failed; it is being destroyed */
	}
	return first ? sl_fail_text(first, text) : 0;
}

/* A scope that this thread began and has not ended would be waited for without end. Held. */
SL_HELD static int
scopes_check(const struct sluice_space *s)
{
	pid_t thread = sl_thread_number(s);

	for (const struct sluice_launch *l = s->scopes; l; l = l->next)
		if (l->host_scope == SL_SCOPE_HELD && l->owner == thread)
			return sl_fail(-EBUSY,
				       "space_destroy: launch %llu is a "
				       "sluice_launch_begin() of "
				       "this thread: call sluice_launch_end() first",
				       (unsigned long long)l->request.number);
	return 0;
}

int
sluice_space_destroy(struct sluice_space *space)
{
	int rc;

	if (!space)
		return 0;
	if (sl_space_forked(space))
		return sl_fail(-ECHILD, "the space belongs to the parent process");
	rc = sl_callback_forbids(space, NULL, "space_destroy");
	if (!rc) {
		sl_space_lock(space);
		rc = scopes_check(space);
		sl_space_unlock(space);
	}
	if (rc)
		return rc;
	sl_publisher_destroy(space->publisher);
	space->publisher = NULL;
	sl_share_stop(space->share);
	sl_space_share_host_stop(space);
	sl_guest_leave_run(space);
	sl_ignore(sluice_stream_synchronize(space, NULL)); /* a launch error is not ours to report */
	sl_space_lock(space);
	while (space->running || space->prepared || space->calls.head || space->serving ||
	       space->undeclared)
		sl_launch_wait(space);
	sl_space_unlock(space);
	sl_mover_stop(space);
	sl_space_lock(space);
	rc = regions_destroy(space);
	sl_space_unlock(space);
	space_free(space);
	return rc;
}

void
sluice_space_config(struct sluice_space *space, struct sluice_config *out)
{
	if (sl_space_forked(space)) { /* the lock may be held by a thread that is not here */
		*out = space->config;
		return;
	}
	sl_space_lock(space);
	*out = space->config;
	sl_space_unlock(space);
}

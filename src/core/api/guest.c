/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space of a program under `sluice run`: its launches are seen by the preload library, which names
 * the addresses (base/guest.h). They become a launch that declares the regions they lie in, so that the
 * program need not. What an open sluice_launch_begin() of the program covers is left to that.
 *
 * The space's object for each of the program's streams is made with the first work on it, and ends with
 * the stream.
 *
 * Threads: any. The list of streams has a lock of its own, which is held for nothing else.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/guest.h"
#include "base/log.h"
#include "core/api/api.h"
#include "core/interpose.h"

struct guest_stream {
	struct guest_stream *next;
	void *native;
	struct sluice_stream *stream;
};

struct sl_guest_state {
	struct sluice_space *space;
	struct sl_mutex lock;
	struct guest_stream *streams; /* lock */
};

static struct guest_stream *
guest_stream_find(const struct sl_guest_state *g, const void *native)
{
	struct guest_stream *s = g->streams;

	while (s && s->native != native)
		s = s->next;
	return s;
}

/* NULL is the space's own object for the legacy default stream. */
static int
guest_stream_get(struct sl_guest_state *g, void *native, int per_thread,
		 struct sluice_stream **out)
{
	struct guest_stream *made, *there;
	int rc;

	*out = NULL;
	if (!native)
		return 0;
	sl_mutex_lock(&g->lock);
	there = guest_stream_find(g, native);
	sl_mutex_unlock(&g->lock);
	if (there) {
		*out = there->stream;
		return 0;
	}
	made = sl_calloc(1, sizeof(*made));
	if (!made)
		return sl_fail(-ENOMEM, "stream: out of memory");
	made->native = native;
	rc = sl_stream_wrap_in(g->space, native, per_thread, &made->stream);
	if (rc) {
		free(made);
		return rc;
	}
	sl_mutex_lock(&g->lock);
	there = guest_stream_find(g, native);
	if (!there) {
		made->next = g->streams;
		g->streams = made;
	}
	sl_mutex_unlock(&g->lock);
	*out = made->stream;
	if (there) { /* another thread was faster */
		*out = there->stream;
		sluice_stream_destroy(made->stream);
		free(made);
	}
	return 0;
}

static void
guest_stream_destroyed(void *arg, void *native)
{
	struct sl_guest_state *g = arg;
	struct guest_stream **at, *gone;

	sl_mutex_lock(&g->lock);
	for (at = &g->streams; *at && (*at)->native != native; at = &(*at)->next)
		;
	gone = *at;
	if (gone)
		*at = gone->next;
	sl_mutex_unlock(&g->lock);
	if (gone)
		sluice_stream_destroy(gone->stream);
	free(gone);
}

/* Whether the program itself has declared these bytes, and not yet ended that. */
SL_HELD static int
range_is_declared(const struct sl_region *r, uint64_t begin, uint64_t end)
{
	for (const struct sluice_launch *l = r->space->scopes; l; l = l->next) {
		if (l->host_scope != SL_SCOPE_HELD || l->embedded)
			continue;
		for (size_t i = 0; i < l->n_uses; i++)
			if (l->uses[i].region == r && l->uses[i].begin <= begin &&
			    end <= l->uses[i].end)
				return 1;
	}
	return 0;
}

/* What an address means: 1 and *out. 0: nothing, as it lies in no region, or is declared. */
SL_HELD static int
use_find(struct sluice_space *s, const struct sl_guest_use *use, struct sluice_use *out)
{
	const void *addr = (const void *)(uintptr_t)use->addr;
	const struct sl_region *r = sl_region_at(s, addr);
	uint64_t begin, bytes = use->bytes;

	if (!r || r->closed)
		return 0;
	begin = use->addr - (uintptr_t)r->base;
	if (begin >= r->size_bytes)
		return 0;
	if (bytes > r->size_bytes - begin)
		bytes = r->size_bytes - begin;
	if (range_is_declared(r, begin, begin + (bytes ? bytes : 1)))
		return 0;
	*out = (struct sluice_use){bytes ? addr : r->base, bytes ? bytes : r->size_bytes,
				   (enum sluice_intent)use->intent};
	if (!(r->flags & SLUICE_WRITE))
		out->intent = SLUICE_USE_READ;
	return 1;
}

static int
guest_use_is_named(const struct sluice_use *uses, size_t n, const struct sluice_use *use)
{
	for (size_t i = 0; i < n; i++)
		if (uses[i].addr == use->addr && uses[i].size_bytes == use->size_bytes &&
		    uses[i].intent == use->intent)
			return 1;
	return 0;
}

static int
guest_begin(void *arg, void *native, int per_thread, const struct sl_guest_use *named,
	    size_t n_named, void **scope)
{
	struct sl_guest_state *g = arg;
	struct sluice_stream *stream;
	struct sluice_launch *launch;
	struct sluice_use *uses;
	size_t n = 0;
	int rc;

	*scope = NULL;
	uses = sl_calloc(n_named + 1, sizeof(*uses));
	if (!uses)
		return sl_fail(-ENOMEM, "launch: out of memory");
	sl_space_lock(g->space);
	for (size_t i = 0; i < n_named; i++)
		if (use_find(g->space, &named[i], &uses[n]) &&
		    !guest_use_is_named(uses, n, &uses[n]))
			n++;
	sl_space_unlock(g->space);
	/* A copy within one region: what is overwritten may be read as well. */
	for (size_t i = 0; i < n && n > 1; i++)
		if (uses[i].intent == SLUICE_USE_WRITE_ALL)
			uses[i].intent = SLUICE_USE_WRITE;
	rc = n || !n_named ? guest_stream_get(g, native, per_thread, &stream) : 0;
	if (!rc && (n || !n_named)) {
		rc = sl_launch_begin_optional(g->space, stream, uses, n, NULL, 0, &launch);
		if (!rc)
			*scope = launch;
	}
	free(uses);
	return rc;
}

static void
guest_end(void *arg, void *scope)
{
	(void)arg;
	sluice_launch_end(scope);
}

int
sl_guest_join_run(struct sluice_space *space)
{
	sl_guest_join join = NULL;
	struct sl_guest_state *g;
	struct sl_guest guest = {
		.begin_scope = guest_begin,
		.end_scope = guest_end,
		.stream_destroyed = guest_stream_destroyed,
		.error = sluice_last_error,
	};

	if (space->device->native)
		*(void **)&join = dlsym(RTLD_DEFAULT, SL_GUEST_JOIN);
	if (!join)
		return 0;
	g = sl_calloc(1, sizeof(*g));
	if (!g)
		return sl_fail(-ENOMEM, "space: out of memory");
	g->space = space;
	sl_mutex_init(&g->lock, SL_RANK_PROCESS);
	sl_space_addresses(space, &guest.base, &guest.end);
	guest.arg = g;
	if (join(&guest)) {
		sl_mutex_fini(&g->lock);
		free(g);
		return sl_fail(
			-ENOTSUP,
			"space: `sluice run` sees the launches of eight spaces of a "
			"program, and there are as many");
	}
	space->guest = g;
	return 0;
}

void
sl_guest_leave_run(struct sluice_space *space)
{
	struct sl_guest_state *g = space->guest;
	sl_guest_leave leave = NULL;

	if (!g)
		return;
	*(void **)&leave = dlsym(RTLD_DEFAULT, SL_GUEST_LEAVE);
	if (leave)
		leave(g);
	while (g->streams)
		guest_stream_destroyed(g, g->streams->native);
	space->guest = NULL;
	sl_mutex_fini(&g->lock);
	free(g);
}

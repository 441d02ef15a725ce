/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: from a list of uses to pinned, present chunks, to the kernel's end. If all data are
 * resident and recorded already, the launching thread pins and stamps under the space lock and
 * hands the kernel to its stream. Otherwise the launch goes through the mover (mover.c). The
 * mover prepares launches one after the other in call order, ahead of the kernels that run. So
 * moves overlap with kernels, and decisions depend only on the order of calls.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/nvtx.h"
#include "core/interpose.h"
#include "core/launch/launch.h"

#define LAUNCH_ARGS_BYTES_MAX 1024u
#define LAUNCH_USES_MAX       65536u
#define SQUEEZES_MAX          8u /* of one launch, which finds less than the budget promises */

/* Wait until the mover has prepared l, then count it as running. Held, drops. */
SL_HELD static void
launch_start(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;

	while (l->state == SL_LAUNCH_QUEUED)
		sl_launch_wait(s);
	sl_launch_list_remove(&s->prepared, l);
	l->state = SL_LAUNCH_RUNNING;
	s->running++;
}

static int
launch_run(struct sl_task *task)
{
	struct sluice_launch *l = (struct sluice_launch *)task;
	struct sluice_space *s = l->space;
	int rc;

	sl_space_lock(s);
	launch_start(l);
	rc = l->rc;
	if (!rc)
		sl_launch_overwrites(l);
	sl_space_unlock(s);
	if (!rc && l->kernel)
		rc = s->device->kernels->run(s->device, l->kernel, l->grid, l->args, l);
	if (!rc) {
		sl_space_lock(s);
		rc = l->rc; /* misses and wrong intents */
		sl_space_unlock(s);
	}
	return rc && rc == l->rc ? sl_fail_text(rc, l->error_text) : rc;
}

static void
launch_done(struct sl_task *task, int rc)
{
	struct sluice_launch *l = (struct sluice_launch *)task;
	struct sluice_space *s = l->space;

	(void)rc;
	sl_stream_task_done(l->stream);
	sl_space_lock(s);
	if (l->state != SL_LAUNCH_RUNNING)
		launch_start(l); /* cancelled before it ran */
	if (l->host_scope == SL_SCOPE_ENDED)
		sl_launch_list_remove(&s->scopes, l);
	sl_launch_finish(l);
	sl_space_unlock(s);
	free(l);
}

/* Its uses, when it may go on. fetch: it does not wait, because a kernel waits for it. Where beside is given the
 * space is one of `sluice run`, which has a gate of its own. Held, drops. */
SL_HELD static int
launch_resolve(struct sluice_launch *l, const struct sluice_use *uses,
	       const struct sl_beside *beside, int fetch)
{
	int rc = sl_uses_resolve(l, uses, beside);

	while (!rc && !fetch && sl_gate_pass(l))
		rc = sl_uses_resolve(l, uses, beside);
	return rc;
}

/* Memory of a launch with room for so many uses beside those declared. NULL: none (text set). */
static struct sluice_launch *
launch_memory(struct sluice_space *s, const void *args, size_t args_bytes, size_t n_uses,
	      size_t beside)
{
	size_t uses_bytes = (n_uses + beside) * sizeof(struct sl_launch_use);
	struct sluice_launch *l = sl_malloc(sizeof(*l) + uses_bytes + args_bytes + 16);

	if (!l) {
		sl_ignore(sl_fail(-ENOMEM, "launch: out of memory"));
		return NULL;
	}
	memset(l, 0, offsetof(struct sluice_launch, error_text));
	l->error_text[0] = '\0';
	l->space = s;
	l->n_uses = n_uses;
	l->uses = (struct sl_launch_use *)(l + 1);
	l->args = (void *)(((uintptr_t)(l->uses + n_uses + beside) + 15) & ~(uintptr_t)15);
	if (args_bytes)
		memcpy(l->args, args, args_bytes);
	l->task.run = launch_run;
	l->task.done = launch_done;
	l->task.skippable = 1;
	return l;
}

/* Its stream, and the declared uses. Takes the lock and keeps it. */
SL_ACQUIRE_IF_0(sl_space_token)
static int
launch_enter(struct sluice_launch *l, struct sluice_stream *stream,
	     const struct sluice_use *uses, const struct sl_beside *beside, int fetch)
{
	struct sluice_space *s = l->space;
	int rc = sl_space_enter(s);

	if (rc)
		return rc;
	sl_scopes_drain(s); /* it may drop the lock: before anything is looked up */
	l->stream = sl_stream_of(s, stream);
	rc = launch_resolve(l, uses, beside, fetch);
	if (rc)
		sl_space_unlock(s);
	return rc;
}

/* How many regions a launch is to reach that declares n_uses. */
static size_t
regions_to_reach(struct sluice_space *s, size_t n_uses)
{
	size_t n;

	if (sl_space_forked(s) || !sl_uses_reach_all(s, n_uses))
		return 0;
	sl_space_lock(s);
	n = s->n_regions;
	sl_space_unlock(s);
	return n;
}

/*
 * Make a launch with its uses resolved; regions are held. beside: NULL, or what it is to reach besides.
 * Takes the lock and keeps it.
 */
SL_ACQUIRE_IF_0(sl_space_token)
static int
launch_create(struct sluice_space *s, struct sluice_stream *stream, const void *args,
	      size_t args_bytes, const struct sluice_use *uses, size_t n_uses,
	      const struct sl_beside *beside, int fetch, struct sluice_launch **out)
{
	struct sluice_launch *l;
	size_t all;
	int rc;

	if (n_uses > LAUNCH_USES_MAX || args_bytes > LAUNCH_ARGS_BYTES_MAX ||
	    (n_uses && !uses) || (args_bytes && !args))
		return sl_fail(
			-EINVAL,
			"launch: %zu uses (at most %u) and %zu bytes of arguments (at "
			"most %u), none NULL",
			n_uses, LAUNCH_USES_MAX, args_bytes, LAUNCH_ARGS_BYTES_MAX);
	for (;;) {
		all = beside ? 0 : regions_to_reach(s, n_uses);
		l = launch_memory(s, args, args_bytes, n_uses, beside ? beside->n : all);
		rc = l ? launch_enter(l, stream, uses, beside, fetch) : -ENOMEM;
		if (rc) {
			free(l);
			return rc;
		}
		if (!all || s->n_regions <= all)
			break;
		sl_space_unlock(s); /* another thread has mapped one meanwhile: they do not all fit */
		free(l);
	}
	if (all)
		sl_uses_add_all(l);
	l->request.number = ++s->launch_clock;
	sl_count(s, SLUICE_COUNTER_LAUNCHES, 1);
	*out = l;
	return 0;
}

/*
 * Where moves are enqueued and not waited for, the launching thread may as well do the mover's part,
 * if the mover has nothing to do: that saves waking it, and being woken. 1: done. Drops.
 */
SL_HELD static int
launch_prepare_here(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	int rc;

	if (!s->device->native)
		return 0;
	/* A kernel that waits for what it fetches does not wait its turn: what is prepared now may
	 * wait for that kernel's end. */
	if (!l->fetch && (s->calls.head || s->serving ||
			  (s->mover_busy && !l->embedded) || sl_policy_is_due(s)))
		return 0;
	if (!l->fetch)
		s->serving = &l->request;
	rc = sl_launch_prepare(l);
	if (!l->fetch)
		s->serving = NULL;
	sl_launch_prepared(l, rc);
	if (sl_mover_is_due(s)) /* something was queued meanwhile */
		sl_cond_signal(&s->mover_wake);
	return 1;
}

/* Prepare at once when nothing is needed, else queue for the mover. Held. */
SL_HELD static int
launch_dispatch(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	int rc;

	for (size_t k = 0; k < l->n_uses; k++) {
		l->uses[k].region->launches++;
		l->uses[k].region->busy++;
	}
	sl_inflight_begin(s, &l->work, l, NULL);
	if ((l->fetch || (!s->calls.head && !s->serving && !sl_policy_is_due(s))) &&
	    sl_launch_try_prepare(l) == 0)
		return 0;
	rc = sl_launch_check_set(l);
	if (!rc) {
		l->state = SL_LAUNCH_QUEUED;
		if (!launch_prepare_here(l))
			sl_request_add(s, &s->calls, &l->request);
		return 0;
	}
	sl_inflight_end(s, &l->work);
	for (size_t k = 0; k < l->n_uses; k++) {
		l->uses[k].region->launches--;
		sl_region_leave(l->uses[k].region);
	}
	return rc;
}

int
sluice_launch(struct sluice_space *space, struct sluice_stream *stream,
	      sluice_kernel kernel, struct sluice_grid grid, const void *args,
	      size_t args_bytes, const struct sluice_use *uses, size_t n_uses)
{
	struct sluice_launch *l;
	int rc;

	if (!space)
		return sl_fail(-EINVAL, "launch: no space given");
	if (!space->device->kernels)
		return sl_fail(-ENOTSUP,
			       "launch: the %s device runs no C functions: enqueue "
			       "kernels between "
			       "sluice_launch_begin() and sluice_launch_end()",
			       space->device->ops->name);
	if (!kernel || !grid.x || !grid.y || !grid.z)
		return sl_fail(-EINVAL, "launch: %s",
			       kernel ? "the grid is empty" : "no kernel given");
	rc = sl_stream_own(space, stream);
	if (rc)
		return rc;
	rc = launch_create(space, stream, args, args_bytes, uses, n_uses, NULL, 0, &l);
	if (rc)
		return rc;
	l->kernel = kernel;
	l->grid = grid;
	rc = launch_dispatch(l);
	if (!rc && !n_uses)
		space->undeclared++;
	sl_space_unlock(space);
	if (rc) {
		free(l);
		return rc;
	}
	sl_stream_submit(l->stream, &l->task);
	return 0;
}

/* A prepared scope on the list. On success the lock is held. */
SL_ACQUIRE_IF_0(sl_space_token)
static int
launch_scope_begin(struct sluice_space *space, struct sluice_stream *stream,
		   const struct sluice_use *uses, size_t n_uses,
		   const struct sl_beside *beside, int fetch, int embedded,
		   struct sluice_launch **out)
{
	struct sluice_launch *l;
	int rc;

	if (!space)
		return sl_fail(-EINVAL, "launch: no space given");
	if (!n_uses && !space->device->faults && !space->device->zerocopy)
		return sl_fail(-ENOTSUP,
			       "launch: this %s device cannot map host memory for "
			       "kernels: declare "
			       "what the launch uses",
			       space->device->ops->name);
	rc = launch_create(space, stream, NULL, 0, uses, n_uses, beside, fetch, &l);
	if (rc)
		return rc;
	l->host_scope = SL_SCOPE_HELD;
	l->embedded = embedded;
	l->owner = sl_thread_number(space);
	l->touches = sl_touch_count();
	if (fetch) {
		l->fetch = 1;
		l->room_deadline_ns = sl_now_ns() + sl_victim_rules[SL_ROOM_FETCH].wait_ns;
		l->n_uses = n_uses; /* what may be reached beside is the kernel's launch's business */
		l->reach_all = 0;
	}
	rc = launch_dispatch(l);
	if (rc) {
		sl_space_unlock(space);
		free(l);
		return rc;
	}
	launch_start(l);
	rc = l->rc;
	if (rc) {
		sl_launch_finish(l);
		sl_space_unlock(space);
		sl_fail_text(rc, l->error_text);
		free(l);
		return rc;
	}
	sl_launch_list_add(&space->scopes, l);
	*out = l;
	return 0;
}

/* A scope of the program's, the stream held back until its moves are done. */
static int
scope_begin_gated(struct sluice_space *space, struct sluice_stream *stream,
		  const struct sluice_use *uses, size_t n_uses,
		  const struct sl_beside *beside, int embedded, struct sluice_launch **out)
{
	struct sluice_launch *l;
	unsigned tries = 0;
	int rc;

	do
		rc = launch_scope_begin(space, stream, uses, n_uses, beside, 0, embedded, &l);
	while (rc == -ENOMEM && ++tries < SQUEEZES_MAX && sl_gate_squeeze(space));
	if (rc)
		return rc;
	if (space->device->native)
		rc = sl_scope_gate(l);
	if (!rc)
		sl_launch_overwrites(l);
	sl_space_unlock(space);
	if (rc) {
		sluice_launch_end(l);
		return rc;
	}
	*out = l;
	return 0;
}

int
sluice_launch_begin(struct sluice_space *space, struct sluice_stream *stream,
		    const struct sluice_use *uses, size_t n_uses, struct sluice_launch **out)
{
	int rc = sl_stream_check(space, stream), told = sl_nvtx_listens();

	if (rc)
		return rc;
	if (told)
		sl_nvtx_push("data of a launch", 0);
	rc = scope_begin_gated(space, stream, uses, n_uses, NULL, 0, out);
	if (told)
		sl_nvtx_pop();
	return rc;
}

uint64_t
sl_launch_fetched(const struct sluice_launch *launch, size_t use)
{
	return use < launch->n_uses ? launch->uses[use].fetched : 0;
}

uint64_t
sl_launch_chunk_bytes(const struct sluice_launch *launch, size_t use)
{
	return use < launch->n_uses ? launch->uses[use].region->chunk_bytes : 0;
}

int
sl_launch_begin_optional(struct sluice_space *space, struct sluice_stream *stream,
			 const struct sluice_use *uses, size_t n_uses,
			 const struct sluice_use *beside, size_t n_beside,
			 struct sluice_launch **out)
{
	const struct sl_beside more = {beside, n_beside};

	return scope_begin_gated(space, stream, uses, n_uses, n_beside ? &more : NULL, 1,
				 out);
}

int
sl_scope_open(struct sluice_space *s, const struct sluice_use *uses, size_t n_uses,
	      struct sluice_launch **out, struct sl_fences *ready_at)
{
	struct sluice_launch *l;
	int rc = launch_scope_begin(s, NULL, uses, n_uses, NULL, 1, 0, &l);

	if (rc)
		return rc;
	sl_launch_overwrites(l);
	*ready_at = sl_scope_ready_at(l);
	sl_space_unlock(s);
	*out = l;
	return 0;
}

void
sl_scope_close(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;

	sl_space_lock(s);
	sl_launch_list_remove(&s->scopes, l);
	sl_launch_finish(l);
	sl_space_unlock(s);
	free(l);
}

int
sl_populate(struct sluice_space *space, void *addr, size_t bytes)
{
	struct sluice_use use = {addr, bytes, SLUICE_USE_WRITE_ALL};
	struct sluice_launch *l;
	struct sl_fences ready_at;
	int rc = sl_scope_open(space, &use, 1, &l, &ready_at);

	if (rc)
		return rc;
	sl_scope_close(l);
	/* Who uses it is not held back for what its memory was used for before. */
	return sl_fences_await(space->device, ready_at);
}

static int
scope_end_run(struct sl_task *task)
{
	(void)task;
	return 0;
}

void
sluice_launch_end(struct sluice_launch *launch)
{
	struct sluice_space *s;

	if (!launch)
		return;
	s = launch->space;
	if (sl_space_forked(s)) /* the lock may be held by a thread that is not here */
		return;
	sl_space_lock(s);
	launch->host_scope = SL_SCOPE_ENDED;
	if (s->device->native) {
		sl_launch_list_remove(&s->scopes, launch);
		sl_scope_ended(launch);
		sl_space_unlock(s);
		return;
	}
	if (!atomic_load(&launch->stream->pending)) {
		sl_launch_list_remove(&s->scopes, launch);
		sl_launch_finish(launch);
		sl_space_unlock(s);
		free(launch);
		return;
	}
	sl_space_unlock(s);
	launch->task.run = scope_end_run;
	launch->task.skippable = 0;
	sl_stream_submit(launch->stream, &launch->task);
}

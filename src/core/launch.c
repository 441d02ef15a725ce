/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: from a list of uses to pinned, present chunks, to the kernel's end. When everything is
 * resident and on the books already, the launching thread pins and stamps under the space lock and
 * hands the kernel to its stream. Otherwise the launch goes through the mover (mover.c), which
 * prepares launches one after the other in call order, ahead of the kernels that run, so that moves
 * overlap with kernels and decisions depend on the order of calls only.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "core/embed.h"
#include "core/plan_run.h"

#define LAUNCH_ARGS_BYTES_MAX 1024u
#define LAUNCH_USES_MAX       65536u
/* How long an acquire of a kernel waits for room that launches hold. */
#define FETCH_ROOM_NS         ((uint64_t)10 * 1000 * 1000 * 1000)

static const char *const intent_names[SLUICE_USE_COUNT] = {
	[SLUICE_USE_READ] = "read",
	[SLUICE_USE_WRITE] = "write",
	[SLUICE_USE_READ_WRITE] = "read-write",
	[SLUICE_USE_WRITE_ALL] = "write-all",
	[SLUICE_USE_SCRATCH] = "scratch",
};

void
sl_launch_blame(struct sluice_launch *l, int rc, const char *fmt, ...)
{
	va_list ap;

	if (l->rc)
		return;
	l->rc = rc;
	va_start(ap, fmt);
	vsnprintf(l->error_text, sizeof(l->error_text), fmt, ap);
	va_end(ap);
}

/* Resolve one use to region and chunks. Held. */
SL_HELD static int
use_resolve(struct sluice_space *s, const struct sluice_use *use, size_t i,
	    struct sl_launch_use *out)
{
	struct sl_region *r;
	uint64_t inside;
	int rc;

	if ((unsigned)use->intent >= SLUICE_USE_COUNT)
		return sl_fail(-EINVAL, "launch: use %zu: unknown intent %d", i,
			       (int)use->intent);
	rc = use->size_bytes
		     ? sl_region_find(s, "launch", use->addr, use->size_bytes, &r,
				      &out->begin, &out->end)
		     : sl_fail(-EINVAL, "launch: use %zu at %p has size 0", i, use->addr);
	if (rc)
		return rc;
	if (use->intent != SLUICE_USE_READ && !sl_region_is_writable(r))
		return sl_fail(-EACCES,
			       "launch: use %zu declares %s, but %s is mapped without "
			       "SLUICE_WRITE",
			       i, intent_names[use->intent], r->name);
	inside = r->chunk_bytes - 1;
	out->reach = 0;
	out->brought = 0;
	out->fetched = 0;
	out->region = r;
	out->intent = sl_policy_intent(s->policy, r->flags, use->intent);
	out->declared = use->intent;
	out->first = out->begin >> r->chunk_shift; /* no division: this is on every launch */
	out->last = (out->end - 1) >> r->chunk_shift;
	out->first_partial = (out->begin & inside) != 0 ||
			     out->end < (out->first + 1) << r->chunk_shift;
	out->last_partial = out->first == out->last
				    ? out->first_partial
				    : (out->end & inside) != 0 && out->end != r->size_bytes;
	if (out->first == out->last && (out->begin & inside) == 0 && out->end == r->size_bytes)
		out->first_partial = out->last_partial = 0;
	out->whole = out->first == 0 && out->last == r->n_chunks - 1;
	return 0;
}

/* Whether every chunk of the use needs nothing. Held. */
SL_HELD static int
use_is_ready(const struct sl_launch_use *u)
{
	const struct sl_region *r = u->region;
	enum sl_readiness wanted = u->intent == SLUICE_USE_READ ? SL_READY_READ
								: SL_READY_WRITE;

	if (r->ready[SL_READY_WRITE] == r->n_chunks ||
	    (wanted == SL_READY_READ && !r->ready[SL_READY_NOT]))
		return 1;
	if (u->whole)
		return 0;
	for (uint64_t i = u->first; i <= u->last; i++) {
		if (r->chunks[i].readiness < wanted)
			return 0;
	}
	return 1;
}

/* Lazily discarded on the device, and nothing stands before it: the use that writes it need only be booked. */
SL_HELD static int
chunk_only_revives(const struct sl_chunk *c, enum sluice_intent intent)
{
	return c->state == SL_CHUNK_DEVICE && !c->pages && !c->host && !c->dead &&
	       (c->flags & (SL_DISCARDED | SL_DISCARD_EAGER | SL_GUARDED | SL_COLD |
			    SL_EXCESS)) == SL_DISCARDED &&
	       !sl_measure_wanted(c, intent);
}

/* Whether no chunk of a use that writes needs more than to live again in the books. Held. */
SL_HELD static int
use_only_revives(const struct sl_launch_use *u)
{
	for (uint64_t i = u->first; i <= u->last; i++) {
		const struct sl_chunk *c = &u->region->chunks[i];

		if (c->readiness != SL_READY_WRITE && !chunk_only_revives(c, u->intent))
			return 0;
	}
	return u->intent != SLUICE_USE_READ;
}

SL_HELD static void
use_revive(const struct sl_launch_use *u)
{
	const struct sl_fill fill = {.intent = u->intent, .cause = SL_CAUSE_LAUNCH};

	for (uint64_t i = u->first; i <= u->last; i++) {
		struct sl_chunk *c = &u->region->chunks[i];

		if (c->readiness == SL_READY_WRITE)
			continue;
		sl_chunk_revive(c, 0, 0);
		sl_ignore(sl_fill_book(c, &fill)); /* without a guard nothing can fail */
	}
}

/* Refresh and pin what the launch uses, in the order of its uses. Held. */
void
sl_launch_pin(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	int stamp = s->policy->stamp_on_hit && !l->planned;

	for (size_t k = 0; k < l->n_uses; k++) {
		struct sl_launch_use *u = &l->uses[k];
		struct sl_region *r = u->region;

		s->clock++;
		if (u->whole) {
			if (stamp)
				r->whole_stamp = s->clock;
			r->whole_pins++;
			r->whole_uses++;
			continue;
		}
		for (uint64_t i = u->first; i <= u->last; i++) {
			if (stamp)
				r->chunks[i].stamp = s->clock;
			r->chunks[i].pins++;
			r->chunks[i].hashed = 0;
			r->chunks[i].awaited = 0;
		}
	}
	if (l->planned)
		sl_plan_run_stamp(l);
}

void
sl_launch_unpin(struct sluice_launch *l)
{
	for (size_t k = 0; k < l->n_uses; k++) {
		struct sl_launch_use *u = &l->uses[k];

		if (u->whole) {
			u->region->whole_pins--;
			continue;
		}
		for (uint64_t i = u->first; i <= u->last; i++)
			u->region->chunks[i].pins--;
	}
	sl_launch_wake(l->space);
}

void
sl_launch_wake(struct sluice_space *s)
{
	if (s->launch_waiters)
		sl_cond_broadcast(&s->launch_wake);
}

void
sl_launch_wait(struct sluice_space *s)
{
	s->launch_waiters++;
	if (!sl_scopes_reap(s))
		sl_space_wait(s, &s->launch_wake);
	s->launch_waiters--;
}

int
sl_launch_wait_until(struct sluice_space *s, uint64_t deadline_ns)
{
	int rc = 0;

	s->launch_waiters++;
	if (!sl_scopes_reap(s))
		rc = sl_space_wait_until(s, &s->launch_wake, deadline_ns);
	s->launch_waiters--;
	return rc;
}

/* Put on, or take off, the list of prepared launches not yet started. Held. */
SL_HELD static void
prepared_add(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;

	l->prev = NULL;
	l->next = s->prepared;
	if (l->next)
		l->next->prev = l;
	s->prepared = l;
}

static void
prepared_remove(struct sluice_launch *l)
{
	if (l->prev)
		l->prev->next = l->next;
	else
		l->space->prepared = l->next;
	if (l->next)
		l->next->prev = l->prev;
	l->prev = l->next = NULL;
}

int
sl_launch_try_prepare(struct sluice_launch *l)
{
	if (sl_checks_kernels(l->space) && l->n_uses)
		return -EAGAIN;
	for (size_t k = 0; k < l->n_uses; k++) {
		if ((!use_is_ready(&l->uses[k]) && !use_only_revives(&l->uses[k])) ||
		    l->uses[k].intent == SLUICE_USE_SCRATCH)
			return -EAGAIN;
	}
	for (size_t k = 0; k < l->n_uses; k++)
		if (!use_is_ready(&l->uses[k]))
			use_revive(&l->uses[k]);
	sl_plan_run_note(l);
	sl_launch_pin(l);
	sl_count(l->space, SLUICE_COUNTER_LAUNCHES_RESIDENT, l->n_uses && !l->moved);
	l->state = SL_LAUNCH_PREPARED;
	prepared_add(l);
	return 0;
}

/* The mover is done with l: prepared, or failed with l->rc. Held. */
void
sl_launch_prepared(struct sluice_launch *l, int rc)
{
	if (rc)
		sl_launch_blame(l, rc, "launch %llu: %s", (unsigned long long)l->number,
				sluice_last_error());
	l->unpinned = rc != 0;
	l->state = SL_LAUNCH_PREPARED;
	prepared_add(l);
	sl_launch_wake(l->space);
}

/*
 * Whether nothing but time stands before a prepared launch: the thread of its stream comes to it, or
 * to another prepared one before it; or its caller is about to hand it to its stream, or starts the
 * scope. Held.
 */
SL_HELD static int
prepared_goes_on(const struct sluice_launch *l)
{
	const struct sluice_space *s = l->space;
	const struct sl_task *now;

	if (l->host_scope != SL_SCOPE_NONE)
		return 1;
	if (!s->device->ops->stream_now)
		return 0;
	now = s->device->ops->stream_now(l->stream->stream);
	if (!now)
		return 1;
	for (const struct sluice_launch *p = s->prepared; p; p = p->next) {
		if (now == &p->task)
			return 1;
	}
	return 0;
}

int
sl_launches_go_on(const struct sluice_space *s)
{
	if (s->running > sl_scopes_count(s))
		return 1;
	for (const struct sluice_launch *l = s->prepared; l; l = l->next) {
		if (prepared_goes_on(l))
			return 1;
	}
	return 0;
}

/*
 * An ended scope keeps its pins until its stream comes to it, and the stream may wait for the very
 * launch that wants room. Its kernels can do without: they fault. Held; 1 if pins went.
 */
SL_HELD static int
scope_steal(struct sluice_space *s)
{
	struct sluice_launch *l = s->device->caps & SL_CAP_FAULTS ? s->scopes : NULL;

	while (l && (l->host_scope != SL_SCOPE_ENDED || l->unpinned || !l->n_uses))
		l = l->next;
	if (!l)
		return 0;
	sl_launch_unpin(l);
	l->unpinned = 1;
	return 1;
}

int
sl_launch_steal(struct sluice_space *s, const struct sluice_launch *except)
{
	struct sluice_launch *l = s->prepared;

	while (l && (l == except || l->unpinned || !l->n_uses))
		l = l->next;
	if (!l)
		return scope_steal(s);
	prepared_remove(l);
	sl_launch_unpin(l);
	for (size_t k = 0; k < l->n_uses; k++) { /* it has yet to see what was discarded after it */
		struct sl_launch_use *u = &l->uses[k];

		for (uint64_t i = u->first; i <= u->last; i++) {
			struct sl_chunk *c = &u->region->chunks[i];

			if (!(c->flags & SL_DISCARDED))
				continue;
			c->flags |= SL_DIRTY_DEVICE; /* its other copies went with the discard */
			sl_chunk_revive(c, 0, 0);
		}
	}
	l->moved = 1; /* counted as resident at most once */
	l->state = SL_LAUNCH_QUEUED;
	sl_mover_queue(l);
	return 1;
}

/* Wait until the mover has prepared l, then count it as running. Held, drops. */
SL_HELD static void
launch_start(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;

	while (l->state == SL_LAUNCH_QUEUED)
		sl_launch_wait(s);
	prepared_remove(l);
	l->state = SL_LAUNCH_RUNNING;
	s->running++;
}

/* Unmapping, or guarding of dead pages, that waited for the end of the launch. Held, drops. */
SL_HELD static void
launch_unmap_dead(struct sluice_launch *l)
{
	for (size_t k = 0; k < l->n_uses; k++) {
		struct sl_launch_use *u = &l->uses[k];

		for (uint64_t i = u->first; i <= u->last && l->space->eager_used; i++) {
			struct sl_chunk *c = &u->region->chunks[i];

			if (c->state != SL_CHUNK_DEVICE || !(c->flags & SL_DISCARD_EAGER) ||
			    sl_chunk_pins(c) || c->user_pins)
				continue;
			if (!(c->flags & SL_DISCARDED))
				sl_dead_watch(c);
			else if (sl_evict(c, SL_EVICT_DISCARD))
				sl_chunk_keep(c);
		}
	}
}

/* The kernel is over, or was never run. Held, drops. */
void
sl_launch_finish(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;

	if (l->reaches)
		sl_reach_end(l);
	if (!l->unpinned)
		sl_launch_unpin(l);
	l->state = SL_LAUNCH_DONE;
	if (!l->n_uses && l->kernel)
		s->undeclared--;
	if (sl_checks_kernels(s))
		sl_launch_dispose(l); /* where a touch of dead pages is an error, after the kernel */
	launch_unmap_dead(l);
	s->running--; /* not before: until here nobody need fear that it stands still */
	for (size_t k = 0; k < l->n_uses; k++) {
		l->uses[k].region->launches--;
		sl_region_leave(l->uses[k].region);
	}
	sl_work_end(s, &l->work);
	sl_launch_wake(s);
	if (atomic_load_explicit(&s->leave.waiting, memory_order_relaxed))
		sl_cond_signal(&s->mover_wake);
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
	sl_space_unlock(s);
	if (!rc && l->kernel)
		rc = s->device->ops->grid_run(s->device, l->kernel, l->grid, l->args, l);
	if (!rc) {
		sl_space_lock(s);
		rc = l->rc; /* misses and wrong intents */
		sl_space_unlock(s);
	}
	return rc && rc == l->rc ? sl_fail_text(rc, l->error_text) : rc;
}

static void
scope_remove(struct sluice_launch *l)
{
	if (l->prev)
		l->prev->next = l->next;
	else
		l->space->scopes = l->next;
	if (l->next)
		l->next->prev = l->prev;
	l->prev = l->next = NULL;
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
		scope_remove(l);
	sl_launch_finish(l);
	sl_space_unlock(s);
	free(l);
}

/* Old contents cannot be both of no use and read, in the same bytes. Held. */
SL_HELD static int
uses_check(const struct sluice_launch *l)
{
	for (size_t i = 0; i < l->n_uses; i++) {
		const struct sl_launch_use *u = &l->uses[i];

		if (u->declared != SLUICE_USE_WRITE_ALL && u->declared != SLUICE_USE_SCRATCH)
			continue;
		for (size_t k = 0; k < l->n_uses; k++) {
			const struct sl_launch_use *v = &l->uses[k];

			if (v->region != u->region || v->declared == u->declared ||
			    v->begin >= u->end || u->begin >= v->end)
				continue;
			return sl_fail(-EINVAL,
				       "launch: use %zu declares %s and use %zu declares "
				       "%s for the "
				       "same bytes of %s",
				       i, intent_names[u->declared], k,
				       intent_names[v->declared], u->region->name);
		}
	}
	return 0;
}

/* Whether a launch with so many uses may touch what it does not declare. */
static int
launch_reaches_all(const struct sluice_space *s, size_t n_uses)
{
	return (s->device->caps & SL_CAP_REACH) &&
	       (!n_uses || s->config.reach == SLUICE_REACH_ANY);
}

/* Uses of every region, behind those declared; at most room of them. Held. */
SL_HELD static void
uses_add_all(struct sluice_launch *l, size_t room)
{
	struct sluice_space *s = l->space;
	size_t declared = l->n_uses;

	l->reach_all = 1;
	for (size_t i = 0; i < s->n_regions && room; i++, room--) {
		struct sl_region *r = s->regions[i];
		struct sl_launch_use *u = &l->uses[l->n_uses];

		if (r->unmapping || !r->base)
			continue;
		memset(u, 0, sizeof(*u));
		u->region = r;
		u->last = r->n_chunks - 1;
		u->end = r->size_bytes;
		u->whole = 1;
		u->reach = declared != 0;
		u->declared = declared || !sl_region_is_writable(r) ? SLUICE_USE_READ
								    : SLUICE_USE_READ_WRITE;
		u->intent = sl_policy_intent(s->policy, r->flags, u->declared);
		l->n_uses++;
	}
}

/* What a launch may touch besides its uses. */
struct beside {
	const struct sluice_use *uses;
	size_t n;
};

/* Uses of what may be touched as well, behind those declared. Held. */
SL_HELD static int
uses_add_beside(struct sluice_launch *l, const struct beside *beside)
{
	int rc = 0;

	for (size_t i = 0; i < beside->n && !rc; i++) {
		struct sl_launch_use *u = &l->uses[l->n_uses];

		rc = use_resolve(l->space, &beside->uses[i], l->n_uses, u);
		u->reach = 1;
		l->n_uses++;
	}
	l->reach_all = 1;
	return rc;
}

/*
 * Make a launch with its uses resolved; regions are held. beside: NULL, or what it is to reach besides.
 * Takes the lock and keeps it.
 */
SL_ACQUIRE_IF_0(sl_space_token)
static int
launch_create(struct sluice_space *s, struct sluice_stream *stream, const void *args,
	      size_t args_bytes, const struct sluice_use *uses, size_t n_uses,
	      const struct beside *beside, struct sluice_launch **out)
{
	struct sluice_launch *l;
	size_t uses_bytes, all = 0;
	int rc;

	if (n_uses > LAUNCH_USES_MAX || args_bytes > LAUNCH_ARGS_BYTES_MAX ||
	    (n_uses && !uses) || (args_bytes && !args))
		return sl_fail(
			-EINVAL,
			"launch: %zu uses (at most %u) and %zu bytes of arguments (at "
			"most %u), none NULL",
			n_uses, LAUNCH_USES_MAX, args_bytes, LAUNCH_ARGS_BYTES_MAX);
	if (beside) {
		all = beside->n;
	} else if (!sl_space_forked(s) && launch_reaches_all(s, n_uses)) {
		sl_space_lock(s);
		all = s->n_regions; /* one mapped after this is no business of the launch's */
		sl_space_unlock(s);
	}
	uses_bytes = (n_uses + all) * sizeof(struct sl_launch_use);
	l = sl_malloc(sizeof(*l) + uses_bytes + args_bytes + 16);
	if (!l)
		return sl_fail(-ENOMEM, "launch: out of memory");
	memset(l, 0, offsetof(struct sluice_launch, error_text));
	l->error_text[0] = '\0';
	l->space = s;
	l->n_uses = n_uses;
	l->uses = (struct sl_launch_use *)(l + 1);
	l->args = (void *)(((uintptr_t)(l->uses + n_uses + all) + 15) & ~(uintptr_t)15);
	if (args_bytes)
		memcpy(l->args, args, args_bytes);
	l->task.run = launch_run;
	l->task.done = launch_done;
	l->task.skippable = 1;
	rc = sl_space_enter(s);
	if (rc) {
		free(l);
		return rc;
	}
	sl_scopes_drain(s); /* it may drop the lock: before anything is looked up */
	l->stream = sl_stream_of(s, stream);
	for (size_t i = 0; i < n_uses && !rc; i++)
		rc = use_resolve(s, &uses[i], i, &l->uses[i]);
	if (!rc && beside)
		rc = uses_add_beside(l, beside);
	if (!rc)
		rc = uses_check(l);
	if (rc) {
		sl_space_unlock(s);
		free(l);
		return rc;
	}
	if (all && !beside)
		uses_add_all(l, all);
	l->number = ++s->launch_clock;
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

	if (!(s->device->caps & SL_CAP_NATIVE))
		return 0;
	/* A kernel that waits for what it fetches does not wait its turn: what is prepared now may
	 * wait for that kernel's end. */
	if (!l->fetch && (s->queue_head || s->preparing ||
			  (s->mover_busy && !l->embedded) || sl_plan_run_is_due(s)))
		return 0;
	if (!l->fetch)
		s->preparing = l;
	rc = sl_launch_prepare(l);
	if (!l->fetch)
		s->preparing = NULL;
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
	sl_work_begin(s, &l->work, l);
	if ((l->fetch || (!s->queue_head && !s->preparing && !sl_plan_run_is_due(s))) &&
	    sl_launch_try_prepare(l) == 0)
		return 0;
	rc = sl_launch_check_set(l);
	if (!rc) {
		l->state = SL_LAUNCH_QUEUED;
		if (!launch_prepare_here(l))
			sl_mover_queue(l);
		return 0;
	}
	sl_work_end(s, &l->work);
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
	if (!(space->device->caps & SL_CAP_KERNELS))
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
	rc = launch_create(space, stream, args, args_bytes, uses, n_uses, NULL, &l);
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

pid_t
sl_thread_number(const struct sluice_space *s)
{
	static _Thread_local struct {
		pid_t number;
		uint32_t fork_count;
	} mine;

	if (!mine.number || mine.fork_count != s->fork_count) {
		mine.number = gettid();
		mine.fork_count = s->fork_count;
	}
	return mine.number;
}

/* A prepared scope on the list. On success the lock is held. */
SL_ACQUIRE_IF_0(sl_space_token)
static int
scope_begin(struct sluice_space *space, struct sluice_stream *stream,
	    const struct sluice_use *uses, size_t n_uses, const struct beside *beside,
	    int fetch, int embedded, struct sluice_launch **out)
{
	struct sluice_launch *l;
	int rc;

	if (!space)
		return sl_fail(-EINVAL, "launch: no space given");
	if (!n_uses && !(space->device->caps & (SL_CAP_FAULTS | SL_CAP_REACH)))
		return sl_fail(-ENOTSUP,
			       "launch: this %s device cannot map host memory for "
			       "kernels: declare "
			       "what the launch uses",
			       space->device->ops->name);
	rc = launch_create(space, stream, NULL, 0, uses, n_uses, beside, &l);
	if (rc)
		return rc;
	l->host_scope = SL_SCOPE_HELD;
	l->embedded = embedded;
	l->owner = sl_thread_number(space);
	if (fetch) {
		l->fetch = 1;
		l->room_deadline_ns = sl_now_ns() + FETCH_ROOM_NS;
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
	l->next = space->scopes;
	if (l->next)
		l->next->prev = l;
	space->scopes = l;
	*out = l;
	return 0;
}

/* A scope of the program's, the stream held back until its moves are done. */
static int
scope_begin_gated(struct sluice_space *space, struct sluice_stream *stream,
		  const struct sluice_use *uses, size_t n_uses,
		  const struct beside *beside, int embedded, struct sluice_launch **out)
{
	struct sluice_launch *l;
	int rc = scope_begin(space, stream, uses, n_uses, beside, 0, embedded, &l);

	if (rc)
		return rc;
	if (space->device->caps & SL_CAP_NATIVE)
		rc = sl_scope_gate(l);
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
	int rc = sl_stream_check(space, stream);

	return rc ? rc : scope_begin_gated(space, stream, uses, n_uses, NULL, 0, out);
}

uint64_t
sl_launch_fetched(const struct sluice_launch *launch, size_t use)
{
	return launch->uses[use].fetched;
}

int
sl_launch_begin_beside(struct sluice_space *space, struct sluice_stream *stream,
		       const struct sluice_use *uses, size_t n_uses,
		       const struct sluice_use *beside, size_t n_beside,
		       struct sluice_launch **out)
{
	const struct beside more = {beside, n_beside};

	return scope_begin_gated(space, stream, uses, n_uses, n_beside ? &more : NULL, 1,
				 out);
}

int
sl_scope_open(struct sluice_space *s, const struct sluice_use *uses, size_t n_uses,
	      struct sluice_launch **out, struct sl_arrival *arrival)
{
	struct sluice_launch *l;
	int rc = scope_begin(s, NULL, uses, n_uses, NULL, 1, 0, &l);

	if (rc)
		return rc;
	*arrival = sl_scope_arrival(l);
	sl_space_unlock(s);
	*out = l;
	return 0;
}

void
sl_scope_close(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;

	sl_space_lock(s);
	scope_remove(l);
	sl_launch_finish(l);
	sl_space_unlock(s);
	free(l);
}

int
sl_populate(struct sluice_space *space, void *addr, size_t bytes)
{
	struct sluice_use use = {addr, bytes, SLUICE_USE_WRITE_ALL};
	struct sluice_launch *l;
	struct sl_arrival arrival;
	int rc = sl_scope_open(space, &use, 1, &l, &arrival);

	if (!rc)
		sl_scope_close(l);
	return rc;
}

uint32_t
sl_scopes_count(const struct sluice_space *s)
{
	uint32_t n = 0;

	for (const struct sluice_launch *l = s->scopes; l; l = l->next)
		n++;
	return n;
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
	if (s->device->caps & SL_CAP_NATIVE) {
		scope_remove(launch);
		sl_scope_ended(launch);
		sl_space_unlock(s);
		return;
	}
	if (!atomic_load(&launch->stream->pending)) {
		scope_remove(launch);
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

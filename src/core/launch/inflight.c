/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for earlier work. Launches, callbacks and discards are numbered as they come. A call
 * that changes a range (sync, evict, discard, unmap, advice) waits for the earlier ones that use
 * it. It does not wait for later ones. In a host callback it cannot wait for the callback
 * itself, which counts as over. It also cannot wait for later work, and is refused.
 *
 * LOCKING: all of it under space->lock; waits drop it.
 */
#include <errno.h>

#include "core/launch/launch.h"

/* The host callback that this thread is in. */
static _Thread_local struct {
	const struct sluice_space *space;
	const struct sluice_stream *stream;
	uint64_t number;
} callback;

void
sl_callback_enter(const struct sluice_space *s, const struct sluice_stream *stream,
		  uint64_t number)
{
	callback.space = s;
	callback.stream = stream;
	callback.number = number;
}

void
sl_callback_leave(void)
{
	callback.space = NULL;
}

int
sl_callback_forbids(const struct sluice_space *s, const struct sluice_stream *stream,
		    const char *call)
{
	if (callback.space != s || (stream && callback.stream != stream))
		return 0;
	return sl_fail(
		-EDEADLK,
		"%s: called from a host callback, which it would wait for: call it "
		"from another thread, when the callback is over",
		call);
}

void
sl_inflight_begin(struct sluice_space *s, struct sl_inflight *work,
		  const struct sluice_launch *l, const struct sl_region *r)
{
	work->launch = l;
	work->region = r;
	work->number = ++s->work_clock;
	work->next = NULL;
	work->prev = s->work_newest;
	if (work->prev)
		work->prev->next = work;
	else
		s->work_oldest = work;
	s->work_newest = work;
}

void
sl_inflight_submit(struct sl_region *r, struct sl_inflight *work,
		   struct sluice_stream *stream, struct sl_task *task)
{
	struct sluice_space *s = r->space;

	r->busy++;
	sl_inflight_begin(s, work, NULL, r);
	sl_space_unlock(s);
	sl_stream_submit(stream, task);
	sl_space_lock(s);
}

void
sl_inflight_end(struct sluice_space *s, struct sl_inflight *work)
{
	if (work->prev)
		work->prev->next = work->next;
	else
		s->work_oldest = work->next;
	if (work->next)
		work->next->prev = work->prev;
	else
		s->work_newest = work->prev;
	if (!s->work_oldest)
		s->gate.need_bytes = 0;
}

/* Whether launch l uses bytes [begin, end) of r. */
static int
launch_uses(const struct sluice_launch *l, const struct sl_region *r, uint64_t begin,
	    uint64_t end)
{
	for (size_t k = 0; k < l->n_uses; k++) {
		const struct sl_launch_use *u = &l->uses[k];

		if (u->region == r && u->first * r->chunk_bytes < end &&
		    (u->last + 1) * r->chunk_bytes > begin)
			return 1;
	}
	return 0;
}

/* Whether work uses, or may use, chunks of [begin, end) of r. */
static int
work_uses(const struct sl_inflight *work, const struct sl_region *r, uint64_t begin,
	  uint64_t end)
{
	const struct sluice_launch *l = work->launch;

	if (!l)
		return !work->region || work->region == r;
	return l->n_uses ? launch_uses(l, r, begin, end) : l->kernel != NULL;
}

/* Whether such work with a number in [first, last] is not over. */
SL_HELD static int
work_remains(const struct sl_region *r, uint64_t begin, uint64_t end, uint64_t first,
	     uint64_t last)
{
	for (const struct sl_inflight *w = r->space->work_oldest; w && w->number <= last;
	     w = w->next)
		if (w->number >= first && work_uses(w, r, begin, end))
			return 1;
	return 0;
}

int
sl_range_wait(struct sl_region *r, uint64_t begin, uint64_t end, const char *call)
{
	return sl_range_wait_for(r, begin, end, call, NULL);
}

int
sl_range_wait_for(struct sl_region *r, uint64_t begin, uint64_t end, const char *call,
		  const struct sl_touch *touch)
{
	struct sluice_space *s = r->space;
	pid_t thread = touch && touch->thread ? touch->thread : sl_thread_number(s);
	uint64_t last = s->work_clock;

	for (struct sluice_launch *l = s->scopes; l; l = l->next) {
		if (l->host_scope != SL_SCOPE_HELD || l->owner != thread ||
		    !launch_uses(l, r, begin, end))
			continue;
		if (touch && sl_touch_is_stale(touch, l->touches))
			return -ESTALE;
		return sl_fail(-EBUSY,
			       "%s: %s is in a sluice_launch_begin() of this thread: "
			       "call sluice_launch_end() first",
			       call, r->name);
	}
	if (callback.space == s) {
		if (work_remains(r, begin, end, callback.number + 1, last))
			return sl_fail(
				-EDEADLK,
				"%s: called from a host callback, and %s is used by "
				"what was called after it, which may wait for it: call "
				"it from another thread, when the callback is over",
				call, r->name);
		last = callback.number - 1;
	}
	while (work_remains(r, begin, end, 0, last))
		sl_launch_wait(s);
	return 0;
}

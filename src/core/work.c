/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for what was submitted before: launches, callbacks and discards are numbered as they come, and a
 * call that changes a range (sync, evict, discard, unmap, advice) waits for those up to then that use
 * it, not for what goes on being submitted meanwhile.
 *
 * LOCKING: all of it under space->lock; waits drop it.
 */
#include <errno.h>

#include "core/core.h"

void
sl_work_begin(struct sluice_space *s, struct sl_work *work, const struct sluice_launch *l)
{
	work->launch = l;
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
sl_work_end(struct sluice_space *s, struct sl_work *work)
{
	if (work->prev)
		work->prev->next = work->next;
	else
		s->work_oldest = work->next;
	if (work->next)
		work->next->prev = work->prev;
	else
		s->work_newest = work->prev;
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
work_uses(const struct sl_work *work, const struct sl_region *r, uint64_t begin, uint64_t end)
{
	const struct sluice_launch *l = work->launch;

	if (!l)
		return 1;
	if (l->discard)
		return l->uses->region == r;
	return l->n_uses ? launch_uses(l, r, begin, end) : l->kernel != NULL;
}

/* Whether such work up to a number is not over. */
SL_HELD static int
work_remains(const struct sl_region *r, uint64_t begin, uint64_t end, uint64_t last)
{
	for (const struct sl_work *w = r->space->work_oldest; w && w->number <= last;
	     w = w->next)
		if (work_uses(w, r, begin, end))
			return 1;
	return 0;
}

int
sl_range_wait(struct sl_region *r, uint64_t begin, uint64_t end, const char *call)
{
	return sl_range_wait_for(r, begin, end, call, 0);
}

int
sl_range_wait_for(struct sl_region *r, uint64_t begin, uint64_t end, const char *call,
		  pid_t thread)
{
	struct sluice_space *s = r->space;
	uint64_t last = s->work_clock;

	if (!thread)
		thread = sl_thread_number(s);

	for (struct sluice_launch *l = s->scopes; l; l = l->next) {
		if (l->host_scope == SL_SCOPE_HELD && l->owner == thread &&
		    launch_uses(l, r, begin, end))
			return sl_fail(
				-EBUSY,
				"%s: %s is in a sluice_launch_begin() of this thread: "
				"call sluice_launch_end() first",
				call, r->name);
	}
	while (work_remains(r, begin, end, last))
		sl_launch_wait(s);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way in: a call enters its space, finds the region of an address, and leaves the region
 * again. A space belongs to the process that made it: after fork() the child is refused.
 */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "core/state/state.h"

/* How often this process image has been forked off its parent: spaces do not cross that. */
static atomic_uint fork_count; /* atomic: relaxed: changed in a child with one thread */

static void
fork_child(void)
{
	atomic_fetch_add(&fork_count, 1);
}

static void
fork_register(void)
{
	if (pthread_atfork(NULL, NULL, fork_child))
		sl_log(SL_WARN, "space",
		       "fork cannot be watched: do not use a space in a child");
}

void
sl_fork_watch(struct sluice_space *s)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fork_register);
	s->fork_count = atomic_load(&fork_count);
}

int
sl_space_forked(const struct sluice_space *s)
{
	return s->fork_count != atomic_load_explicit(&fork_count, memory_order_relaxed);
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

int
sl_space_enter(struct sluice_space *s)
{
	if (!s)
		return sl_fail(-EINVAL, "no space given");
	if (sl_space_forked(s))
		return sl_fail(
			-ECHILD,
			"the space belongs to the parent process: make one of its own "
			"after fork");
	sl_space_lock(s);
	return 0;
}

int
sl_space_enterable(struct sluice_space *s)
{
	int rc = sl_space_enter(s);

	if (!rc)
		sl_space_unlock(s);
	return rc;
}

struct sl_region *
sl_region_at(struct sluice_space *s, const void *addr)
{
	uint64_t offset = (uint64_t)((const char *)addr - (const char *)s->device->base);

	if ((const char *)addr < (const char *)s->device->base || offset >= s->device->bytes)
		return NULL;
	return s->slots[offset / SL_GRANULE_BYTES];
}

int
sl_region_find(struct sluice_space *s, const char *call, const void *addr, size_t size,
	       struct sl_region **region, uint64_t *begin, uint64_t *end)
{
	struct sl_region *r = sl_region_at(s, addr);

	if (!r || r->closed)
		return sl_fail(-ENOENT, "%s: %p is in no region of this space", call, addr);
	*begin = (uint64_t)((const char *)addr - r->base);
	if (*begin >= r->size_bytes)
		return sl_fail(-ENOENT, "%s: %p lies %llu bytes past the end of %s", call,
			       addr, (unsigned long long)(*begin - r->size_bytes), r->name);
	*end = size == SLUICE_TO_END ? r->size_bytes : *begin + size;
	if (*end > r->size_bytes || *end < *begin)
		return sl_fail(-ENOENT, "%s: %zu bytes from %p reach past the end of %s (%llu bytes)",
			       call, size, addr, r->name, (unsigned long long)r->size_bytes);
	*region = r;
	return 0;
}

void
sl_region_leave(struct sl_region *r)
{
	assert(r->busy > 0);
	r->busy--;
	if (r->closed)
		sl_launch_wake(r->space);
}

void
sl_region_write_error(struct sl_region *r, int rc, const char *text)
{
	r->write_failures++;
	if (r->write_error)
		return;
	r->write_error = r->write_error_code = rc;
	snprintf(r->write_error_text, sizeof(r->write_error_text), "%s", text);
}

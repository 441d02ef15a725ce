/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space's host memory as a part of what all programs of this user share: a member (share/member.h) of a
 * book for the machine, or for the control group whose limit is less. The budget of the host tier follows. What
 * has to go is written to the store, step by step. So programs together never pin more than there is.
 *
 * Nobody takes turns for host memory: who has too little uses the disk.
 *
 * Threads: the thread has the member for itself. stops and limit_bytes are under the space's lock.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/size.h"
#include "base/thread.h"
#include "core/api/api.h"
#include "core/interpose.h"
#include "share/member.h"

/* Of host memory, a step is a thousandth: 256 MiB on a machine of 256 GiB, which a disk writes in some 0.2 s.
 * Larger: the first room comes later. Smaller: more looks. */
#define STEPS_OF_HOST 1024u

/* What an idle program has goes to the disk for others, and comes back from there: some 0.7 s for each GiB each
 * way. Longer than a program waits for its turn on a GPU: it is not idle. Longer still: a notebook keeps memory
 * that others need. */
#define IDLE_OF_HOST_NS (3 * SL_MEMBER_PATIENCE_NS)

struct sl_host_share {
	struct sluice_space *space;  /* set once */
	uint64_t (*want)(void *arg); /* NULL: the regions */
	void *want_arg;
	pthread_t thread;
	int runs, number;
	int stops;
	uint64_t limit_bytes;
	struct sl_cond wake; /* stops or limit_bytes has changed */
	struct sl_member member;
};

/* ---- what the member asks ---- */

static int
host_memory(void *arg, uint64_t *free_bytes, uint64_t *total_bytes)
{
	struct sl_memory memory;

	(void)arg;
	sl_memory_read(&memory);
	*free_bytes = memory.available_bytes;
	*total_bytes = memory.total_bytes;
	return memory.total_bytes == UINT64_MAX ? -EIO : 0;
}

static uint64_t
host_held(void *arg)
{
	struct sluice_space *s = ((struct sl_host_share *)arg)->space;
	uint64_t bytes;

	if (s->device->pool)
		return s->device->pool->frames_taken(s->device);
	sl_space_lock(s);
	bytes = s->host.settled_bytes + s->host.staging_used_bytes;
	sl_space_unlock(s);
	return bytes;
}

static uint64_t
host_want(void *arg)
{
	struct sl_host_share *share = arg;

	return share->want ? share->want(share->want_arg) : sl_share_regions(share->space);
}

/* What cannot be spilled stays. Frames of copies do not: by them the budget would grow each time. */
static uint64_t
host_least(void *arg)
{
	struct sluice_space *s = ((struct sl_host_share *)arg)->space;
	uint64_t least = SL_MEMBER_LEAST_CHUNKS * s->config.large_chunk_bytes, stays = 0;

	if (!s->config.store_budget_bytes) {
		sl_space_lock(s);
		stays = sl_round_up(s->host.settled_bytes, s->config.large_chunk_bytes);
		sl_space_unlock(s);
	}
	return stays > least ? stays : least;
}

static uint64_t
host_launches(void *arg)
{
	struct sluice_space *s = ((struct sl_host_share *)arg)->space;
	uint64_t n;

	sl_space_lock(s);
	n = s->counter[SLUICE_COUNTER_LAUNCHES] + s->counter[SLUICE_COUNTER_FAULTS] +
	    s->counter[SLUICE_COUNTER_CPU_FAULTS];
	sl_space_unlock(s);
	return n;
}

static int
host_is_busy(void *arg)
{
	return sl_share_is_busy(((struct sl_host_share *)arg)->space);
}

static int
host_is_done(void *arg)
{
	return sl_share_is_done(((struct sl_host_share *)arg)->space);
}

static int
host_grow(void *arg, uint64_t budget)
{
	return sl_space_set_host(((struct sl_host_share *)arg)->space, budget);
}

static int
host_shrink(void *arg, uint64_t budget, uint64_t until_ns, uint64_t *got)
{
	int rc = host_grow(arg, budget);

	(void)until_ns; /* no step waits for a launch */
	if (!rc)
		*got = budget;
	return rc;
}

static void
host_count(void *arg, enum sl_member_event event, uint64_t n)
{
	(void)arg;
	(void)n;
	if (event == SL_MEMBER_STUCK)
		sl_log(SL_WARN, "share",
		       "not all that others need of host memory can be given up: %s",
		       sluice_last_error());
	if (event == SL_MEMBER_LOST)
		sl_log(SL_WARN, "share",
		       "%s: the space keeps its host memory, and looks for a book again",
		       sluice_last_error());
}

static const struct sl_member_ops host_ops = {
	.memory = host_memory,
	.held = host_held,
	.want = host_want,
	.least = host_least,
	.launches = host_launches,
	.is_busy = host_is_busy,
	.is_done = host_is_done,
	.grow = host_grow,
	.shrink = host_shrink,
	.count = host_count,
};

/* ---- the thread ---- */

static int
host_look_await(struct sl_host_share *share, uint64_t ns)
{
	struct sluice_space *s = share->space;
	uint64_t until = sl_now_ns() + ns, limit = share->member.settings.limit_bytes;
	int stops, rc = 0;

	sl_space_lock(s);
	while (!rc && !share->stops && share->limit_bytes == limit)
		rc = sl_space_wait_until(s, &share->wake, until);
	stops = share->stops;
	share->member.settings.limit_bytes = share->limit_bytes;
	sl_space_unlock(s);
	return stops;
}

static void *
host_share_main(void *arg)
{
	struct sl_host_share *share = arg;
	uint64_t pause_ns = 0;

	while (!host_look_await(share, pause_ns))
		pause_ns = sl_member_look(&share->member);
	return NULL;
}

/* ---- joining and leaving ---- */

static void
name_write(const struct sluice_space *s, char name[SL_BOOK_NAME_BYTES])
{
	struct sl_memory memory;

	sl_memory_read(&memory);
	if (s->config.host_room_bytes)
		snprintf(name, SL_BOOK_NAME_BYTES, SL_BOOK_OF_HOST "-%lluM",
			 (unsigned long long)(s->config.host_room_bytes >> 20));
	else if (memory.group)
		snprintf(name, SL_BOOK_NAME_BYTES, SL_BOOK_OF_HOST "-group-%llu",
			 (unsigned long long)memory.group);
	else
		snprintf(name, SL_BOOK_NAME_BYTES, SL_BOOK_OF_HOST);
}

/* The first budget, and the row that says so. 0 or -errno. */
static int
host_share_begin(struct sl_host_share *share)
{
	struct sluice_space *s = share->space;
	char name[SL_BOOK_NAME_BYTES];
	const struct sl_member_settings settings = {
		.name = name,
		.limit_bytes = share->limit_bytes,
		.total_bytes = s->config.host_room_bytes,
		.usable = s->config.host_room_bytes ? NULL : sl_host_usable_bytes,
		.idle_ns = IDLE_OF_HOST_NS,
		.steps = STEPS_OF_HOST,
		.takes_no_turns = 1,
	};
	uint64_t most;
	int rc = sl_share_member_enter(&share->member, &share->number);

	if (rc)
		return rc;
	name_write(s, name);
	rc = sl_member_join(&share->member, &settings, &host_ops, share, &most);
	if (rc)
		return rc;
	rc = host_grow(share, sl_member_first(&share->member, s->config.large_chunk_bytes));
	if (rc)
		return rc;
	sl_member_start(&share->member);
	rc = sl_thread_begin(&share->thread, "sl-share-host", host_share_main, share);
	if (rc)
		return sl_fail(rc, "starting the thread: %s", sl_errno_name(rc));
	share->runs = 1;
	return 0;
}

void
sl_space_share_host(struct sluice_space *space, uint64_t limit_bytes,
		    uint64_t (*want)(void *arg), void *arg)
{
	uint64_t before = space->config.host_budget_bytes;
	struct sl_host_share *share;
	int rc;

	if (!before)
		return;
	share = sl_calloc(1, sizeof(*share));
	rc = share ? 0 : sl_fail(-ENOMEM, "out of memory");
	if (share) {
		share->space = space;
		share->number = -1;
		share->limit_bytes = limit_bytes;
		share->want = want;
		share->want_arg = arg;
		sl_cond_init(&share->wake);
		rc = host_share_begin(share);
	}
	if (!rc) {
		space->host_share = share;
		return;
	}
	sl_log(SL_WARN, "share", "host memory is not shared with other programs: %s",
	       sluice_last_error());
	sl_host_share_leave(share);
	sl_ignore(sl_space_set_host(space, before));
}

uint64_t
sl_space_host_most(const struct sluice_space *space)
{
	return space->host_share ? atomic_load(&space->host_share->member.most_bytes) : 0;
}

void
sl_host_share_limit(struct sl_host_share *share, uint64_t bytes)
{
	share->limit_bytes = bytes;
	sl_cond_signal(&share->wake);
}

void
sl_space_share_host_stop(struct sluice_space *space)
{
	struct sl_host_share *share = space->host_share;

	if (!share || !share->runs)
		return;
	sl_space_lock(space);
	share->stops = 1;
	sl_cond_signal(&share->wake);
	sl_space_unlock(space);
	pthread_join(share->thread, NULL);
	share->runs = 0;
}

void
sl_host_share_leave(struct sl_host_share *share)
{
	if (!share)
		return;
	sl_member_leave(&share->member);
	sl_share_member_leave(share->number);
	sl_cond_fini(&share->wake);
	free(share);
}

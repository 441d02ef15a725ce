/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's part in a GPU that several programs share (docs/design/share.md): a member of the GPU's
 * book (share/member.h), joined with the program's settings. Here is what the member asks: what the program
 * wants, whether it is idle, whether its data may move. share_thread.c: the thread that looks at the books.
 * share_room.c: the program's own threads, which ask for room, give it to the driver, and wait at the gate.
 *
 * Memory is asked for where an allocation needs it (pl_share_ask()), so that a program whose data fit
 * never comes under pressure. It is given up by the thread, step by step.
 *
 * Data that launches use without a scope must not move. So before the first step the GPU comes under
 * pressure (gpu.c). The thread waits, without a bound, for calls that have begun before that, and for
 * their work. A step waits for launches for some time only.
 *
 * Threads: a GPU's books.budget protects its struct pl_share. The calls of the member are made under it.
 */
#include "preload/share.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/fault_point.h"
#include "core/interpose.h"
#include "device/cuda/cuda_driver.h"
#include "preload/alloc/arena.h"
#include "preload/gpu_internal.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "preload/share_internal.h"
#include "preload/streams/capture.h"
#include "preload/streams/fence.h"
#include "preload/streams/stream.h"
#include "sluice/sluice.h"

/* ---- what the member asks: memory ---- */

static int
shared_memory(void *arg, uint64_t *free_bytes, uint64_t *total_bytes)
{
	size_t free_now, total;

	(void)arg; /* the GPU's context is current */
	if (((int (*)(size_t *, size_t *))pl_real[SL_API_cuMemGetInfo_v2])(&free_now, &total))
		return -EIO;
	*free_bytes = free_now;
	*total_bytes = total;
	return 0;
}

static uint64_t
shared_held(void *arg)
{
	return sl_space_device_taken(((struct pl_share *)arg)->gpu->space);
}

static uint64_t
shared_want(void *arg)
{
	struct pl_share *share = arg;
	struct pl_gpu *gpu = share->gpu;
	uint64_t chunk = share->member.chunk_bytes, want;

	if (atomic_load(&gpu->pressure) < PL_OVERSUBSCRIBED) {
		want = pl_arena_held(gpu);
	} else { /* blocks share chunks, and what is used lies beside what is not */
		want = atomic_load(&gpu->allocated_bytes);
		want += want / 16 + 2 * chunk;
	}
	return (want + chunk - 1) / chunk * chunk;
}

static uint64_t
shared_least(void *arg)
{
	return SL_MEMBER_LEAST_CHUNKS * ((struct pl_share *)arg)->member.chunk_bytes;
}

/* ---- what the member asks: work ---- */

static uint64_t
shared_launches(void *arg)
{
	(void)arg;
	return atomic_load(&pl_counters[PL_COUNT_launches]) +
	       atomic_load(&pl_counters[PL_COUNT_graph_launches]) +
	       atomic_load(&pl_counters[PL_COUNT_copies]);
}

static int
shared_is_busy(void *arg)
{
	return pl_scopes_open(((struct pl_share *)arg)->gpu);
}

static void
shared_is_back(void *arg)
{
	struct pl_share *share = arg;

	if (share->fence)
		pl_fence_put(share->fence);
	share->fence = NULL;
}

static int
shared_is_done(void *arg)
{
	struct pl_share *share = arg;
	uint64_t mask = 0;

	if (pl_captures_running())
		return 0;
	if (!share->fence) {
		pl_streams_active(share->gpu, &mask);
		if (mask && pl_fence_make(share->gpu, mask, &share->fence))
			return 0; /* later */
	}
	if (share->fence && !pl_fence_passed(share->fence))
		return 0;
	share->fence = NULL; /* freed as it has passed */
	return 1;
}

static int
shared_waits(void *arg)
{
	return atomic_load(&((struct pl_share *)arg)->waiting) != 0;
}

/* 1: nothing runs that was launched at ease. */
static int
work_settled(struct pl_share *share)
{
	if (!share->settled && !pl_captures_running() &&
	    !pl_scopes_unpinned(share->gpu) && !pl_gpu_drain(share->gpu))
		share->settled = 1;
	return share->settled;
}

static int
shared_is_settled(void *arg)
{
	struct pl_share *share = arg;

	if (atomic_load(&share->gpu->pressure) == PL_OVERSUBSCRIBED)
		return work_settled(share);
	share->wants_pressure = 1; /* from there on launches ask whether they may */
	return 0;
}

static void
shared_gate(void *arg, enum sl_member_gate why, int shut)
{
	struct pl_gpu *gpu = ((struct pl_share *)arg)->gpu;

	if (shut) {
		atomic_fetch_or(&gpu->gate, (unsigned)why);
		return;
	}
	atomic_fetch_and(&gpu->gate, ~(unsigned)why);
	pl_share_wake();
}

/* ---- what the member asks: another budget ---- */

static int
shared_grow(void *arg, uint64_t budget)
{
	struct pl_gpu *gpu = ((struct pl_share *)arg)->gpu;
	int rc = sluice_space_set_budget(gpu->space, SLUICE_TIER_DEVICE, budget);

	if (!rc)
		atomic_store(&gpu->device_budget, budget);
	return rc;
}

/* 1: data may be moved out: no launch uses them without a scope any more. */
static int
data_may_move(struct pl_share *share, uint64_t budget)
{
	struct pl_gpu *gpu = share->gpu;

	if (share->pressed)
		return 1;
	if (atomic_load(&gpu->pressure) < PL_OVERSUBSCRIBED) {
		if (pl_arena_held(gpu) <= budget)
			return 1; /* nothing has to */
		share->wants_pressure = 1;
		return 0;
	}
	return work_settled(share);
}

static int
shared_shrink(void *arg, uint64_t budget, uint64_t until_ns, uint64_t *got)
{
	struct pl_share *share = arg;
	struct pl_gpu *gpu = share->gpu;
	uint64_t before = atomic_load(&gpu->device_budget);
	int rc;

	/* Before the look at what is held: an allocation that comes later finds this budget. */
	atomic_store(&gpu->device_budget, budget);
	rc = data_may_move(share, budget)
		     ? sl_space_shrink_until(gpu->space, budget, until_ns, got)
		     : -EBUSY;
	if (!rc || (rc == -EAGAIN && *got < before))
		atomic_store(&gpu->device_budget, *got);
	else
		atomic_store(&gpu->device_budget, before);
	return rc;
}

/* It has waited for so long, and does not any more. */
static void
wait_count(uint64_t waited_ns)
{
	_Atomic uint64_t *longest = &pl_counters[PL_COUNT_turn_wait_longest_ms];
	uint64_t ms = waited_ns / MS;

	PL_COUNT(turn_wait_ms, ms);
	if (ms > atomic_load(longest))
		atomic_store(longest, ms); /* only the thread writes it */
}

static void
shared_count(void *arg, enum sl_member_event event, uint64_t n)
{
	struct pl_gpu *gpu = ((struct pl_share *)arg)->gpu;

	switch (event) {
	case SL_MEMBER_RAISED:
		PL_COUNT(budgets_raised, n);
		break;
	case SL_MEMBER_LOWERED:
		PL_COUNT(budgets_lowered, n);
		break;
	case SL_MEMBER_TURN:
		PL_COUNT(turns, n);
		break;
	case SL_MEMBER_RIPE:
		/* Host memory for what leaves when it ends is pinned meanwhile. For all that was allocated, and from the
		 * beginning on, that took two trainings half a minute: the driver's lock is for all programs. */
		pl_gpu_expect(gpu, n);
		break;
	case SL_MEMBER_WAITED:
		wait_count(n);
		break;
	case SL_MEMBER_STUCK:
		pl_error("GPU %d: not all that other programs need of its memory can be "
			 "given up: %s",
			 gpu->ordinal, sluice_last_error());
		break;
	case SL_MEMBER_LOST:
		pl_error("%s: the program keeps what it has, and looks for a book again",
			 sluice_last_error());
		break;
	}
}

static const struct sl_member_ops shared_ops = {
	.memory = shared_memory,
	.held = shared_held,
	.want = shared_want,
	.least = shared_least,
	.launches = shared_launches,
	.is_busy = shared_is_busy,
	.is_done = shared_is_done,
	.is_back = shared_is_back,
	.waits = shared_waits,
	.is_settled = shared_is_settled,
	.gate = shared_gate,
	.grow = shared_grow,
	.shrink = shared_shrink,
	.count = shared_count,
};

/* ---- joining ---- */

static int
name_find(int device, char name[SL_BOOK_NAME_BYTES])
{
	struct cu_uuid uuid;
	char text[128] = "";

	if (((int (*)(struct cu_uuid *, int))pl_real[SL_API_cuDeviceGetUuid_v2])(&uuid,
										 device) ||
	    ((int (*)(char *, int, int))pl_real[SL_API_cuDeviceGetName])(text,
									 (int)sizeof(text),
									 device))
		return sl_fail(-EIO, "GPU %d: the driver does not say which it is", device);
	sl_cuda_uuid_format(&uuid, text, name, SL_BOOK_NAME_BYTES);
	return 0;
}

struct pl_share *
pl_share_join(int device, uint64_t limit_bytes, uint64_t *most)
{
	const struct pl_settings *s = pl_settings();
	char name[SL_BOOK_NAME_BYTES];
	const struct sl_member_settings settings = {
		.name = name,
		.limit_bytes = limit_bytes,
		.leave_bytes = (uint64_t)s->leave_mib << 20,
		.patience_ns = s->turn_s * 1000 * MS,
		.weight = s->weight,
		.is_suspended = (uint8_t)s->suspended,
		.usable = sl_gpu_usable_bytes,
	};
	struct pl_share *share;
	int rc;

	if (!s->share || s->mode != PL_MODE_PAGED)
		return NULL;
	share = sl_calloc(1, sizeof(*share));
	if (!share) {
		pl_error("GPU %d is not shared with other programs: out of memory", device);
		return NULL;
	}
	rc = name_find(device, name);
	if (!rc)
		rc = sl_member_join(&share->member, &settings, &shared_ops, share, most);
	if (!rc)
		return share;
	pl_error("GPU %d is not shared with other programs: %s", device, sluice_last_error());
	free(share);
	return NULL;
}

uint64_t
pl_share_first(struct pl_share *share, uint64_t chunk_bytes)
{
	return sl_member_first(&share->member, chunk_bytes);
}

void
pl_share_start(struct pl_share *share, struct pl_gpu *gpu)
{
	size_t crowd;
	int rc = 0;

	if (gpu) {
		share->gpu = gpu;
		gpu->share = share;
		crowd = sl_member_crowd(&share->member);
		if (crowd)
			pl_error("GPU %d: %zu programs share it, and it has no room for "
				 "the least "
				 "that each needs: end one of them, or this one may run "
				 "out of "
				 "memory",
				 gpu->ordinal, crowd);
		sl_member_start(&share->member);
		if (pl_settings()->suspended) { /* its first launch is to wait */
			atomic_store(&gpu->pressure, PL_OVERSUBSCRIBED);
			atomic_store(&pl_watch, 1);
		}
		rc = pl_share_thread_add(share);
	}
	if (gpu && !rc)
		return;
	if (rc) {
		pl_error("GPU %d is not shared with other programs: no thread: %s",
			 gpu->ordinal, sl_errno_name(rc));
		gpu->share = NULL;
		atomic_store(&gpu->gate, 0);
	}
	sl_member_leave(&share->member);
	free(share);
}

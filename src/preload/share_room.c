/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program's own threads do with a GPU that is shared (share.h): they ask for room, give some up for
 * the driver, and wait at the gate until they may launch.
 *
 * Threads: any. A GPU's books.budget is only tried: who has it may wait for launches, which these threads may
 * hold up.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/size.h"
#include "core/events.h"
#include "core/interpose.h"
#include "preload/gpu_internal.h"
#include "preload/preload.h"
#include "preload/share_internal.h"

#define PAUSE_US 500u
#define TRY_NS   (10000 * MS) /* a launch that holds up the thread may run so long */

bool
pl_share_ask(struct pl_gpu *gpu, uint64_t bytes)
{
	struct pl_share *share = gpu->share;
	struct sl_member_ask ask;
	int comes = 1;

	if (!share)
		return false;
	bytes = sl_round_up(bytes, share->member.chunk_bytes);
	sl_member_ask_begin(&ask, bytes);
	pl_enter();
	while (atomic_load(&gpu->device_budget) < bytes && comes &&
	       sl_now_ns() < ask.until_ns) {
		if (!sl_mutex_trylock(&gpu->books->budget)) {
			comes = sl_member_ask(&share->member, &ask);
			sl_mutex_unlock(&gpu->books->budget);
		}
		if (comes && atomic_load(&gpu->device_budget) < bytes)
			usleep(PAUSE_US);
	}
	pl_leave();
	return atomic_load(&gpu->device_budget) >= bytes;
}

/* The lock, tried for a while: who has it may wait for what this thread holds. */
SL_NO_LOCK_CHECK static bool
budget_try(struct pl_gpu *gpu)
{
	uint64_t until = sl_now_ns() + TRY_NS;

	while (sl_mutex_trylock(&gpu->books->budget)) {
		if (sl_now_ns() > until)
			return false;
		usleep(PAUSE_US);
	}
	return true;
}

/* This thread has put the GPU under pressure, and waited for what was at ease. Gives the lock back. */
SL_NO_LOCK_CHECK static bool
budget_cut(struct pl_gpu *gpu, uint64_t bytes, uint64_t giving)
{
	struct pl_share *share = gpu->share;
	bool done;

	share->pressed = 1;
	done = sl_member_cut(&share->member, bytes, giving);
	share->pressed = 0;
	sl_mutex_unlock(&gpu->books->budget);
	return done;
}

bool
pl_share_give(struct pl_gpu *gpu, uint64_t bytes)
{
	uint64_t has;

	if (!budget_try(gpu))
		return false;
	has = gpu->share->member.row.claim.has_bytes;
	return budget_cut(gpu, has > bytes ? has - bytes : 0, bytes);
}

bool
pl_share_squeeze(struct pl_gpu *gpu)
{
	uint64_t held, has, chunk;

	if (!gpu->share || !budget_try(gpu))
		return false;
	chunk = gpu->share->member.chunk_bytes;
	held = sl_space_device_taken(gpu->space);
	has = gpu->share->member.row.claim.has_bytes;
	if (held > has)
		held = has;
	return budget_cut(gpu, held > 2 * chunk ? held - 2 * chunk : 0, 0);
}

SL_NO_LOCK_CHECK bool
pl_share_stuck(struct pl_gpu *gpu, uint64_t bytes)
{
	struct sl_member *m;
	uint64_t want;

	if (!gpu->share || !budget_try(gpu))
		return false;
	m = &gpu->share->member;
	pl_enter();
	sl_member_stuck(m);
	pl_leave();
	want = m->ops->want(m->arg);
	bytes += m->row.claim.held_bytes; /* at most: some of it may be there */
	sl_mutex_unlock(&gpu->books->budget);
	sl_ignore(pl_share_ask(gpu, bytes < want ? bytes : want)); /* the launch tells */
	return true;
}

uint64_t
pl_share_most(const struct pl_gpu *gpu)
{
	uint64_t budget = atomic_load(&gpu->device_budget), most;

	if (!gpu->share)
		return budget;
	most = atomic_load(&gpu->share->member.most_bytes);
	return most > budget ? most : budget;
}

/* Room for bytes more than is held, as far as it comes. */
static void
room_await(struct pl_gpu *gpu, uint64_t bytes)
{
	struct sl_member *m = &gpu->share->member;
	uint64_t need = sl_space_device_taken(gpu->space) + bytes;

	while (atomic_load(&gpu->gate) == SL_GATE_ROOM &&
	       atomic_load(&gpu->device_budget) < need &&
	       atomic_load(&gpu->device_budget) < atomic_load(&m->grow_to))
		usleep(PAUSE_US);
}

void
pl_share_pause(struct pl_gpu *gpu, uint64_t bytes)
{
	const unsigned gates = SL_GATE_SUSPENDED | SL_GATE_TURN;
	struct pl_share *share = gpu->share;
	unsigned before = atomic_load(&gpu->gate);
	uint64_t since = sl_now_ns();
	int end;

	atomic_fetch_add(&share->waiting, 1);
	do {
		end = pl_share_gates_await(gpu, gates);
		room_await(gpu, bytes);
	} while (!end && atomic_load(&gpu->gate) & gates);
	atomic_fetch_sub(&share->waiting, 1);
	if (before & SL_GATE_TURN)
		sl_events_waited(gpu->space, SL_WAIT_TURN, since);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's part in a GPU that several programs share (docs/design/share.md). One thread for all
 * GPUs of the process looks at the books: every 10 ms while others are there, else every 100 ms. It
 * says what the program wants and has, and whether it is idle. It changes the budget as all shares
 * together ask for.
 *
 * Memory is asked for where an allocation needs it (pl_share_ask()), so that a program whose data fit
 * never comes under pressure. It is given up by the thread, step by step. So others get it while the
 * rest is still being moved out.
 *
 * Data that launches use without a scope must not move. So before the first step the GPU comes under
 * pressure (gpu.c). The thread waits, without a bound, for calls that have begun before that, and for
 * their work.
 *
 * Programs that do not fit together take turns (share/turn.h). Without the turn the gate is closed: scopes
 * wait in pl_share_pause(). Who gets the turn finds some room, and the rest as others give it up, step by
 * step. Until then a launch waits for room of its own, so that the program takes out nothing that it needs
 * soon. The gate is closed only when nothing runs any more that was launched at ease. So work that waits for
 * a thread at the gate holds up no drain. A step waits for launches for some time only.
 *
 * Threads: the thread, and any. A GPU's books.budget protects its struct pl_share. It is only tried by
 * the program's threads: who has it may wait for launches, which those threads may hold up.
 */
#include "preload/share.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/lock.h"
#include "base/size.h"
#include "core/events.h"
#include "core/interpose.h"
#include "device/cuda/cuda_driver.h"
#include "preload/alloc/arena.h"
#include "preload/gpu.h"
#include "preload/gpu_internal.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "preload/scope.h"
#include "preload/streams/capture.h"
#include "preload/streams/fence.h"
#include "preload/streams/stream.h"
#include "preload/streams/stream_internal.h"
#include "share/book.h"
#include "sluice/sluice.h"

#define MS             UINT64_C(1000000)
/* How soon an idle program gives way, against 0.1 % of a processor. */
#define ROUND_NS       (10 * MS)
/* Alone: how soon the first newcomer is seen, against waking a sleeping machine. */
#define ROUND_ALONE_NS (100 * MS)
#define BEAT_NS \
	(100 * MS) /* the row is written at least so often: book.h, rule of who is away */
/* Nothing launched for so long: idle. Shorter: a program that loads its next batch loses memory. Longer:
 * who launches waits. */
#define IDLE_NS    (500 * MS)
/* Free memory is measured so often. The driver's lock is taken for it, so not in every round. */
#define MEASURE_NS (100 * MS)
/* The least of so many measurements counts as taken by others: what a program has just taken is not in
 * its row yet, and looks like it. Fewer: budgets shrink for nothing. More: free memory is used later. */
#define MEASURES   4u
#define GIVEN_NS \
	(1000 * MS) /* the driver takes what was given up for it at once, or not at all */
#define STUCK_NS \
	(1000 * MS) /* a budget that could not shrink is not tried again before */
#define REJOIN_NS     (1000 * MS)
#define ASK_NS        (2000 * MS)
#define ASK_PAUSE_US  500u
#define GIVE_NS       (10000 * MS) /* a launch that holds up the thread may run so long */
#define CLOSE_NS      (10000 * MS)
/* A step waits so long for launches that use what is to go. Longer: others look, and see nobody write the
 * row. Shorter: a step is broken off for a long kernel, and begun again. */
#define STEP_NS       (200 * MS)
/* While room comes: how soon the next step is taken, against 1 % of a processor for some 0.6 s. */
#define ROUND_GROW_NS (2 * MS)
/* The longest wait for a turn (--turn). Three programs of two thirds of an 80 GB GPU each then swap for 8 %.
 * Shorter: they swap more. Longer: who waits for its first result gives up. */
#define PATIENCE_NS   (20000 * MS)
/* Bytes a second at which room comes, before it was seen: a link of PCIe 4. Only the first turn depends on it. */
#define SWAP_RATE     UINT64_C(25000000000)
/* Who has the turn, and launches nothing for as long as a swap takes, passes it on: then waiting on would have
 * cost as much. At least so long: launches come in bursts. */
#define TURN_IDLE_NS  (20 * MS)
#define STEPS \
	32u /* the memory of a GPU is given up in so many steps: 2.5 GiB, some 60 ms each */
#define LEAST_CHUNKS 4u

struct pl_share {
	struct pl_gpu *gpu;
	struct sl_book *_Atomic book; /* NULL: it was lost */
	struct sl_book_row row;
	struct sl_book_row rows[SL_BOOK_ROWS];
	struct sl_share_claim claims[SL_BOOK_ROWS];
	uint64_t shares[SL_BOOK_ROWS];
	struct sl_turns turns;
	struct sl_turn_own turn;
	size_t n, me;
	char name[SL_BOOK_NAME_BYTES];
	uint64_t total_bytes, chunk_bytes, limit_bytes, room_bytes;
	uint64_t taken[MEASURES]; /* by others than those in the book */
	unsigned n_taken;
	uint64_t measured_ns, written_ns, launched_ns, rejoined_ns, given_ns, stuck_ns;
	struct pl_fence *fence; /* behind the work that may still run: NULL: none was made */
	int settled;            /* nothing runs that was launched at ease */
	int wants_pressure;
	int lost_said;
	int gives; /* a step was taken in this round, and there is more to give */
	struct {   /* into room that others are giving up, until all is there */
		uint64_t since_ns, from_bytes; /* 0: it does not */
		uint64_t has_bytes, grew_ns; /* at the last look, and when that changed */
		uint64_t stuck_until_ns; /* others gave nothing, and are not waited for */
		uint64_t rate;           /* bytes a second, as last seen */
	} grows;
	/* atomic: a hint for the thread: a scope that counts itself late is seen at the next look. */
	_Atomic unsigned waiting; /* scopes at the gate */
	/* atomic: relaxed would do: read by who waits for room, and looked at again and again. */
	_Atomic uint64_t grow_to;
	_Atomic uint64_t most_bytes;
};

static struct pl_share *_Atomic shares[PL_GPUS_MAX]; /* of GPUs with a space; set once */
static struct sl_mutex wake_lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF);
static struct sl_cond wake;  /* of wake_lock: closing, or a gate opens */
static int started;          /* under create_lock */
static int closing, is_over; /* wake_lock */

static int
mem_info(size_t *free_bytes, size_t *total_bytes)
{
	return ((int (*)(size_t *, size_t *))pl_real[SL_API_cuMemGetInfo_v2])(free_bytes,
									      total_bytes);
}

/* ---- the book ---- */

/* Without the book the program keeps what it has. */
static void
share_lose(struct pl_share *share)
{
	if (!share->lost_said++)
		pl_error("%s: the program keeps what it has, and looks for a book again",
			 sluice_last_error());
	sl_book_close(atomic_exchange(&share->book, NULL));
	share->rejoined_ns = sl_now_ns();
}

/* 0, or -errno. */
static int
book_join(struct pl_share *share)
{
	struct sl_book *book;
	int rc = sl_book_open(NULL, share->name, &book);

	if (rc)
		return rc;
	rc = sl_book_join(book, &share->row);
	if (rc)
		sl_book_close(book);
	else
		atomic_store(&share->book, book);
	return rc;
}

static int
row_write(struct pl_share *share)
{
	int rc = share->book ? sl_book_write(share->book, &share->row) : -ENOENT;

	if (rc && share->book)
		share_lose(share);
	share->written_ns = sl_now_ns();
	return rc;
}

/* All rows; the own one as it is here. */
static int
rows_read(struct pl_share *share)
{
	int rc = share->book ? sl_book_read(share->book, share->rows, &share->n, &share->me)
			     : -ENOENT;

	if (rc) {
		if (share->book)
			share_lose(share);
		return rc;
	}
	if (share->me == share->n) { /* damaged: it is written again */
		if (share->n == SL_BOOK_ROWS)
			return -ENOSPC;
		share->n++;
	}
	share->rows[share->me] = share->row;
	return 0;
}

/* ---- how much there is ---- */

/* The context of the GPU is current. */
static void
taken_measure(struct pl_share *share)
{
	uint64_t held = 0;
	size_t free_bytes, total_bytes;

	for (size_t i = 0; i < share->n; i++)
		held += share->rows[i].claim.held_bytes;
	if (mem_info(&free_bytes, &total_bytes))
		return;
	share->total_bytes = total_bytes;
	held += free_bytes;
	share->taken[share->n_taken++ % MEASURES] = held < total_bytes ? total_bytes - held
								       : 0;
	share->measured_ns = sl_now_ns();
}

/* What all programs of the book may have together. One that is alone, and whose user has said how much, may
 * take it from the driver's reserve, too. */
static uint64_t
room_find(const struct pl_share *share)
{
	unsigned n = share->n_taken < MEASURES ? share->n_taken : MEASURES;
	uint64_t limit = share->n == 1 && share->limit_bytes != UINT64_MAX
				 ? share->limit_bytes
				 : 0;
	uint64_t taken = UINT64_MAX, leave = 0, giving = 0, rest;

	for (unsigned i = 0; i < n; i++)
		if (share->taken[i] < taken)
			taken = share->taken[i];
	for (size_t i = 0; i < share->n; i++) {
		giving += share->rows[i].giving_bytes;
		if (share->rows[i].leave_bytes > leave)
			leave = share->rows[i].leave_bytes;
	}
	rest = taken < share->total_bytes ? share->total_bytes - taken : 0;
	rest = rest > leave ? rest - leave : 0;
	if (limit > rest)
		limit = rest;
	rest = pl_gpu_usable_bytes(rest);
	if (rest < limit)
		rest = limit;
	return rest > giving ? rest - giving : 0;
}

static void
shares_find(struct pl_share *share)
{
	uint64_t most;

	share->rows[share->me] = share->row;
	for (size_t i = 0; i < share->n; i++)
		share->claims[i] = share->rows[i].claim;
	share->room_bytes = room_find(share);
	share->row.room_bytes = share->room_bytes;
	sl_shares_decide(share->claims, share->n, share->room_bytes, share->shares,
			 &share->turns);
	most = share->row.claim.limit_bytes < share->room_bytes ? share->row.claim.limit_bytes
								: share->room_bytes;
	atomic_store(&share->most_bytes, most);
}

/* The next budget, in whole chunks. */
static uint64_t
budget_next(const struct pl_share *share)
{
	const struct sl_share_claim *own = &share->row.claim;
	uint64_t next = sl_share_next(share->claims, share->shares, share->n, share->me,
				      share->room_bytes);

	next = next / share->chunk_bytes * share->chunk_bytes;
	return next > own->least_bytes ? next : own->least_bytes;
}

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
	struct pl_share *share;
	int rc;

	if (!s->share || s->mode != PL_MODE_PAGED)
		return NULL;
	share = sl_calloc(1, sizeof(*share));
	if (!share) {
		pl_error("GPU %d is not shared with other programs: out of memory", device);
		return NULL;
	}
	rc = name_find(device, share->name);
	if (!rc) {
		share->limit_bytes = limit_bytes;
		share->row.claim.limit_bytes = limit_bytes;
		share->row.claim.weight = s->weight;
		share->row.claim.turn.patience_ns = s->turn_s ? s->turn_s * 1000 * MS
							      : PATIENCE_NS;
		share->grows.rate = SWAP_RATE;
		share->row.leave_bytes = (uint64_t)s->leave_mib << 20;
		rc = book_join(share);
	}
	if (rc) {
		pl_error("GPU %d is not shared with other programs: %s", device,
			 sluice_last_error());
		free(share);
		return NULL;
	}
	if (!rows_read(share)) {
		taken_measure(share);
		if (share->n_taken) {
			shares_find(share);
			*most = atomic_load(&share->most_bytes);
			return share;
		}
		(void)sl_fail(-EIO, "the driver does not say how much memory is free");
	}
	pl_error("GPU %d is not shared with other programs: %s", device, sluice_last_error());
	sl_book_close(share->book);
	free(share);
	return NULL;
}

uint64_t
pl_share_first(struct pl_share *share, uint64_t chunk_bytes)
{
	struct sl_share_claim *own = &share->row.claim;
	int locked = share->book && sl_book_lock(share->book);

	share->chunk_bytes = chunk_bytes;
	own->least_bytes = LEAST_CHUNKS * chunk_bytes;
	if (!rows_read(share)) {
		shares_find(share);
		own->has_bytes = budget_next(share);
		sl_ignore(row_write(share)); /* it is said, and tried again */
	} else {
		own->has_bytes = own->least_bytes;
	}
	if (locked && share->book)
		sl_book_unlock(share->book);
	return own->has_bytes;
}

/* ---- what the program does ---- */

static uint64_t
want_find(const struct pl_share *share)
{
	struct pl_gpu *gpu = share->gpu;
	uint64_t chunk = share->chunk_bytes, want;

	if (atomic_load(&gpu->pressure) < PL_OVERSUBSCRIBED) {
		want = pl_arena_held(gpu);
	} else { /* blocks share chunks, and what is used lies beside what is not */
		want = atomic_load(&gpu->allocated_bytes);
		want += want / 16 + 2 * chunk;
	}
	return (want + chunk - 1) / chunk * chunk;
}

static uint64_t
launches_so_far(void)
{
	return atomic_load(&pl_counters[PL_COUNT_launches]) +
	       atomic_load(&pl_counters[PL_COUNT_graph_launches]) +
	       atomic_load(&pl_counters[PL_COUNT_copies]);
}

/* Nothing launched for so long: idle. */
static uint64_t
idle_after(const struct pl_share *share)
{
	const struct sl_turn_claim *turn = &share->row.claim.turn;

	if (!turn->has || turn->swap_ns > IDLE_NS)
		return IDLE_NS;
	return turn->swap_ns > TURN_IDLE_NS ? turn->swap_ns : TURN_IDLE_NS;
}

/* Idle: nothing was launched for some time, and what was launched before is done. */
static void
idle_find(struct pl_share *share, uint64_t now)
{
	uint64_t launches = launches_so_far(), mask = 0;

	if (launches != share->row.launches || !share->launched_ns ||
	    pl_scopes_open(share->gpu)) {
		share->row.launches = launches;
		share->row.claim.is_idle = 0;
		share->launched_ns = now;
		if (share->fence)
			pl_fence_put(share->fence);
		share->fence = NULL;
		return;
	}
	if (share->row.claim.is_idle || now - share->launched_ns < idle_after(share) ||
	    pl_captures_running())
		return;
	if (!share->fence) {
		pl_streams_active(share->gpu, &mask);
		if (mask && pl_fence_make(share->gpu, mask, &share->fence))
			return; /* later */
	}
	if (share->fence && !pl_fence_passed(share->fence))
		return;
	share->fence = NULL; /* freed as it has passed */
	share->row.claim.is_idle = 1;
}

static void
gate_set(struct pl_share *share, enum pl_gate why, int closed)
{
	struct pl_gpu *gpu = share->gpu;

	if (closed) {
		atomic_fetch_or(&gpu->gate, (unsigned)why);
	} else if (atomic_fetch_and(&gpu->gate, ~(unsigned)why) & (unsigned)why) {
		sl_mutex_lock(&wake_lock);
		sl_cond_broadcast(&wake);
		sl_mutex_unlock(&wake_lock);
	}
}

static void
order_look(struct pl_share *share)
{
	struct sl_book_order order;
	int suspended = pl_settings()->suspended;

	if (!share->book || sl_book_order_read(share->book, &order))
		return;
	share->row.claim.limit_bytes = share->limit_bytes;
	if (order.number) {
		suspended = order.suspend != 0;
		if (order.limit_bytes < share->limit_bytes)
			share->row.claim.limit_bytes = order.limit_bytes;
	}
	share->row.claim.is_suspended = (uint8_t)suspended;
	gate_set(share, PL_GATE_SUSPENDED, suspended);
	if (suspended && atomic_load(&share->gpu->pressure) < PL_OVERSUBSCRIBED)
		share->wants_pressure = 1; /* from there on launches ask whether they may */
}

/* ---- changing the budget; books.budget is held ---- */

/* Into room that nobody has, if the rows still say so under the book's lock. */
static void
budget_raise(struct pl_share *share)
{
	struct pl_gpu *gpu = share->gpu;
	struct sl_share_claim *own = &share->row.claim;
	uint64_t before = own->has_bytes;
	int locked = sl_book_lock(share->book);

	if (!rows_read(share)) {
		shares_find(share);
		own->has_bytes = budget_next(share);
		if (own->has_bytes < before || row_write(share))
			own->has_bytes = before;
	}
	if (locked && share->book)
		sl_book_unlock(share->book);
	if (own->has_bytes == before)
		return;
	if (sluice_space_set_budget(gpu->space, SLUICE_TIER_DEVICE, own->has_bytes)) {
		own->has_bytes = before;
		sl_ignore(row_write(share)); /* as in the next round */
		return;
	}
	atomic_store(&gpu->device_budget, own->has_bytes);
	PL_COUNT(budgets_raised, 1);
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

/* 1: data may be moved out: no launch uses them without a scope any more. */
static int
data_may_move(struct pl_share *share, uint64_t budget)
{
	struct pl_gpu *gpu = share->gpu;

	if (atomic_load(&gpu->pressure) < PL_OVERSUBSCRIBED) {
		if (pl_arena_held(gpu) <= budget)
			return 1; /* nothing has to */
		share->wants_pressure = 1;
		return 0;
	}
	return work_settled(share);
}

/* pressed: the program's own thread has put the GPU under pressure, and waited for what was at ease. */
static int
budget_set(struct pl_share *share, uint64_t budget, int pressed)
{
	struct pl_gpu *gpu = share->gpu;
	uint64_t before = share->row.claim.has_bytes, got = budget;
	int rc;

	/* Before the look at what is held: an allocation that comes later finds this budget. */
	atomic_store(&gpu->device_budget, budget);
	rc = pressed || data_may_move(share, budget)
		     ? sl_space_shrink_until(gpu->space, budget,
					     sl_now_ns() + (pressed ? GIVE_NS : STEP_NS),
					     &got)
		     : -EBUSY;
	if (rc == -EAGAIN && got < before)
		rc = 0; /* launches hold the rest */
	if (rc) {
		atomic_store(&gpu->device_budget, before);
		return rc;
	}
	atomic_store(&gpu->device_budget, got);
	share->row.claim.has_bytes = got;
	share->row.claim.held_bytes = sl_space_device_taken(gpu->space);
	PL_COUNT(budgets_lowered, 1);
	sl_ignore(row_write(share)); /* as in the next round */
	return 0;
}

/* One step towards next. */
static void
budget_lower(struct pl_share *share, uint64_t next)
{
	uint64_t has = share->row.claim.has_bytes, chunk = share->chunk_bytes;
	uint64_t held = sl_space_device_taken(share->gpu->space);
	uint64_t step = share->total_bytes / STEPS / chunk * chunk + chunk, to;
	int rc;

	/* What it does not hold costs nothing to give up. */
	to = held / chunk * chunk > step ? held / chunk * chunk - step : 0;
	if (to > has)
		to = has > step ? has - step : 0;
	rc = budget_set(share, to > next ? to : next, 0);
	share->gives = !rc && share->row.claim.has_bytes > next;
	if (rc && rc != -EAGAIN &&
	    rc != -EBUSY) { /* host memory and disk are full: it keeps what it has */
		share->stuck_ns = sl_now_ns();
		share->row.claim.least_bytes = has;
	}
}

/* ---- turns; books.budget is held ---- */

static void
grow_end(struct pl_share *share, uint64_t now)
{
	uint64_t grown, ns = now - share->grows.since_ns;

	if (!share->grows.since_ns)
		return;
	grown = share->grows.has_bytes - share->grows.from_bytes;
	/* Less tells more of looks than of copies. */
	if (share->grows.has_bytes > share->grows.from_bytes + share->total_bytes / STEPS && ns)
		share->grows.rate = (uint64_t)((double)grown * 1e9 / (double)ns) + 1;
	share->grows.since_ns = 0;
	gate_set(share, PL_GATE_ROOM, 0);
}

/* What its share still lacks, of what it can use. */
static uint64_t
room_to_come(const struct pl_share *share)
{
	const struct sl_share_claim *own = &share->row.claim;
	uint64_t to = share->shares[share->me];

	if (to > own->want_bytes)
		to = own->want_bytes;
	to = to / share->chunk_bytes * share->chunk_bytes;
	return to > own->has_bytes ? to - own->has_bytes : 0;
}

/* Room comes, until all is there or nobody gives any. */
static void
grow_look(struct pl_share *share, uint64_t now)
{
	uint64_t has = share->row.claim.has_bytes, more = room_to_come(share);

	if (!share->grows.since_ns) {
		if (now < share->grows.stuck_until_ns || !more ||
		    !sl_share_comes(share->claims, share->shares, share->n, share->me,
				    has + more))
			return;
		share->grows.since_ns = share->grows.grew_ns = now;
		share->grows.from_bytes = share->grows.has_bytes = has;
		atomic_store(&share->grow_to, has + more);
		gate_set(share, PL_GATE_ROOM, 1);
		return;
	}
	if (has > share->grows.has_bytes)
		share->grows.grew_ns = now;
	share->grows.has_bytes = has;
	atomic_store(&share->grow_to, has + more);
	if (now - share->grows.grew_ns > ASK_NS)
		share->grows.stuck_until_ns = now + GIVE_NS;
	if (!more || now < share->grows.stuck_until_ns)
		grow_end(share, now);
}

/* It has waited for so long, and does not any more. */
static void
wait_count(uint64_t waited_ns)
{
	_Atomic uint64_t *longest = &pl_counters[PL_COUNT_turn_wait_longest_ms];
	uint64_t ms = waited_ns / MS;

	PL_COUNT(turn_wait_ms, ms);
	if (ms > atomic_load(longest))
		atomic_store(longest, ms); /* only this thread writes it */
}

static void
turn_give_up(struct pl_share *share, uint64_t now)
{
	grow_end(share, now);
	sl_turn_give_up(&share->turn, &share->row.claim);
	sl_ignore(row_write(share)); /* share_lose() has said it */
}

/* If the rows still say so under the book's lock. */
static void
turn_take(struct pl_share *share, uint64_t now)
{
	struct sl_share_claim *own = &share->row.claim;
	uint64_t waited = own->turn.waits_ns;
	int locked = sl_book_lock(share->book);

	if (!rows_read(share)) {
		shares_find(share);
		if (share->turns.next == share->me) {
			sl_turn_take(&share->turn, own,
				     sl_turn_newest(share->claims, share->n), now);
			shares_find(share); /* with the turn */
			own->turn.swap_ns = (uint64_t)((double)room_to_come(share) * 1e9 /
						       (double)share->grows.rate);
			if (row_write(share))
				sl_turn_give_up(&share->turn, own);
		}
	}
	if (locked && share->book)
		sl_book_unlock(share->book);
	if (!own->turn.has)
		return;
	wait_count(waited);
	PL_COUNT(turns, 1);
}

/* The turn is taken or given up, and the gate follows. The shares are found. */
static void
turn_follow(struct pl_share *share)
{
	struct sl_share_claim *own = &share->row.claim;
	const struct sl_turns *turns = &share->turns;
	uint64_t now = sl_now_ns();
	int shut;

	if (own->turn.has && (turns->holder != share->me || turns->is_over)) {
		turn_give_up(share, now);
		shares_find(share);
	}
	if (turns->next == share->me && share->book)
		turn_take(share, now);
	shut = turns->takes[share->me] && turns->holder != share->me;
	if (shut || own->is_idle || own->is_suspended)
		grow_end(share, now);
	else
		grow_look(share, now);
	if (shut && atomic_load(&share->gpu->pressure) < PL_OVERSUBSCRIBED) {
		share->wants_pressure = 1;
		return;
	}
	gate_set(share, PL_GATE_TURN, shut && work_settled(share));
}

static void
budget_follow(struct pl_share *share)
{
	uint64_t next;

	if (!share->book || rows_read(share)) { /* nobody is known who could have the turn */
		gate_set(share, PL_GATE_TURN, 0);
		return;
	}
	shares_find(share);
	turn_follow(share);
	next = budget_next(share);
	if (next > share->row.claim.has_bytes)
		budget_raise(share);
	else if (next < share->row.claim.has_bytes)
		budget_lower(share, next);
}

/* ---- the thread ---- */

/* What the row says of the program now. */
static void
row_fill(struct pl_share *share, uint64_t now)
{
	struct sl_share_claim *own = &share->row.claim;
	uint64_t waited;

	own->held_bytes = sl_space_device_taken(share->gpu->space);
	own->want_bytes = want_find(share);
	own->least_bytes = LEAST_CHUNKS * share->chunk_bytes;
	if (share->stuck_ns && now - share->stuck_ns < STUCK_NS)
		own->least_bytes = own->has_bytes;
	if (share->row.giving_bytes && now - share->given_ns > GIVEN_NS)
		share->row.giving_bytes = 0;
	idle_find(share, now);
	waited = own->turn.waits_ns;
	sl_turn_look(&share->turn, own,
		     atomic_load(&share->gpu->gate) & PL_GATE_TURN &&
			     atomic_load(&share->waiting),
		     now);
	if (waited && !own->turn.waits_ns)
		wait_count(waited);
}

/* Tries to be in a book again, without a word if it is not. */
static void
share_rejoin(struct pl_share *share, uint64_t now)
{
	if (now - share->rejoined_ns < REJOIN_NS)
		return;
	share->rejoined_ns = now;
	if (!book_join(share))
		share->lost_said = 0;
}

/* books.budget is held, the context current. */
static void
share_round(struct pl_share *share)
{
	struct sl_book_row before = share->row;
	uint64_t now = sl_now_ns();

	if (!share->book)
		share_rejoin(share, now);
	row_fill(share, now);
	order_look(share);
	if (memcmp(&before, &share->row, sizeof(before)) || now - share->written_ns > BEAT_NS)
		sl_ignore(row_write(share)); /* share_lose() has said it */
	if (now - share->measured_ns > MEASURE_NS && share->book && !rows_read(share))
		taken_measure(share);
	budget_follow(share);
}

/* When to look again. */
static uint64_t
share_look(struct pl_share *share)
{
	struct pl_gpu *gpu = share->gpu;
	int pushed = pl_context_push(gpu->context), token = pl_capture_relax(), press;
	uint64_t pause_ns;

	if (pushed < 0) {
		pl_capture_restore(token);
		return ROUND_ALONE_NS;
	}
	sl_mutex_lock(&gpu->books->budget);
	share->wants_pressure = share->gives = 0;
	share_round(share);
	press = share->wants_pressure && !pl_captures_running();
	pause_ns = share->n > 1 ? ROUND_NS : ROUND_ALONE_NS;
	if (share->grows.since_ns)
		pause_ns = ROUND_GROW_NS;
	if (share->gives)
		pause_ns = 0;
	sl_mutex_unlock(&gpu->books->budget);
	if (press)
		pl_gpu_press(gpu, PL_OVERSUBSCRIBED);
	pl_capture_restore(token);
	pl_context_pop(pushed);
	return pause_ns;
}

/* 1: the end. */
static int
share_await(uint64_t ns)
{
	uint64_t until = sl_now_ns() + ns;
	int rc = 0, end;

	sl_mutex_lock(&wake_lock);
	while (!closing && !rc)
		rc = sl_cond_wait_until(&wake, &wake_lock, until);
	end = closing;
	sl_mutex_unlock(&wake_lock);
	return end;
}

static void *
share_main(void *arg)
{
	uint64_t pause_ns = ROUND_NS;

	(void)arg;
	pl_enter(); /* each driver call of this thread is ours */
	while (!share_await(pause_ns)) {
		pause_ns = ROUND_ALONE_NS;
		for (unsigned i = 0; i < PL_GPUS_MAX; i++) {
			struct pl_share *share = atomic_load(&shares[i]);
			uint64_t ns = share ? share_look(share) : ROUND_ALONE_NS;

			if (ns < pause_ns)
				pause_ns = ns;
		}
	}
	for (unsigned i = 0; i < PL_GPUS_MAX; i++) {
		struct pl_share *share = atomic_load(&shares[i]);

		if (!share)
			continue;
		sl_mutex_lock(&share->gpu->books->budget);
		sl_book_close(atomic_exchange(&share->book, NULL));
		sl_mutex_unlock(&share->gpu->books->budget);
	}
	sl_mutex_lock(&wake_lock);
	is_over = 1;
	sl_cond_broadcast(&wake);
	sl_mutex_unlock(&wake_lock);
	return NULL;
}

/* All signals are the program's. 0 or -errno. */
static int
thread_begin(void)
{
	sigset_t all, before;
	pthread_t thread;
	int rc = -sl_fault_point("thread.create");

	sl_cond_init(&wake);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (!rc)
		rc = pthread_create(&thread, NULL, share_main, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return -rc;
	(void)pthread_setname_np(thread, "sl-share");
	(void)pthread_detach(thread);
	return 0;
}

void
pl_share_start(struct pl_share *share, struct pl_gpu *gpu)
{
	int rc = started || !gpu ? 0 : thread_begin();

	if (!gpu || rc) {
		if (rc)
			pl_error(
				"GPU %d is not shared with other programs: no thread: %s",
				gpu->ordinal, sl_errno_name(rc));
		sl_book_close(share->book);
		free(share);
		return;
	}
	started = 1;
	share->gpu = gpu;
	share->launched_ns = sl_now_ns();
	atomic_store(&gpu->gate, pl_settings()->suspended ? PL_GATE_SUSPENDED : 0u);
	share->row.claim.is_suspended = (uint8_t)pl_settings()->suspended;
	if (pl_settings()->suspended) { /* its first launch is to wait */
		atomic_store(&gpu->pressure, PL_OVERSUBSCRIBED);
		atomic_store(&pl_watch, 1);
	}
	gpu->share = share;
	atomic_store(&shares[gpu->device], share);
}

/* ---- the program's threads ---- */

/* One look for the program, which is to have bytes. 1: others will give way. *others: what they have. */
static int
ask_once(struct pl_share *share, uint64_t bytes, uint64_t *others)
{
	struct sl_share_claim *own = &share->row.claim;

	own->held_bytes = sl_space_device_taken(share->gpu->space);
	if (own->want_bytes < bytes)
		own->want_bytes = bytes;
	own->is_idle = 0;
	share->launched_ns = sl_now_ns();
	if (row_write(share) || rows_read(share))
		return 0;
	shares_find(share);
	if (budget_next(share) > own->has_bytes)
		budget_raise(share);
	*others = 0;
	for (size_t i = 0; i < share->n; i++)
		if (i != share->me)
			*others += share->rows[i].claim.has_bytes;
	share->claims[share->me] = *own;
	return sl_share_comes(share->claims, share->shares, share->n, share->me, bytes);
}

bool
pl_share_ask(struct pl_gpu *gpu, uint64_t bytes)
{
	struct pl_share *share = gpu->share;
	uint64_t until, least = UINT64_MAX, others = 0;
	int comes = 1;

	if (!share)
		return false;
	until = sl_now_ns() + ASK_NS;
	bytes = sl_round_up(bytes, share->chunk_bytes);
	pl_enter();
	while (atomic_load(&gpu->device_budget) < bytes && comes && sl_now_ns() < until) {
		if (!sl_mutex_trylock(&gpu->books->budget)) {
			comes = share->book ? ask_once(share, bytes, &others) : 0;
			sl_mutex_unlock(&gpu->books->budget);
			if (others < least) { /* somebody has given something */
				least = others;
				until = sl_now_ns() + ASK_NS;
			}
		}
		if (comes && atomic_load(&gpu->device_budget) < bytes)
			usleep(ASK_PAUSE_US);
	}
	pl_leave();
	return atomic_load(&gpu->device_budget) >= bytes;
}

/* The lock, tried for a while: who has it may wait for what this thread holds. */
SL_NO_LOCK_CHECK static bool
budget_try(struct pl_gpu *gpu)
{
	uint64_t until = sl_now_ns() + GIVE_NS;

	while (sl_mutex_trylock(&gpu->books->budget)) {
		if (sl_now_ns() > until)
			return false;
		usleep(ASK_PAUSE_US);
	}
	return true;
}

/* A budget of at most bytes, which is less than now. giving: how much of it is for the driver. */
SL_NO_LOCK_CHECK static bool
budget_cut(struct pl_gpu *gpu, uint64_t bytes, uint64_t giving)
{
	struct pl_share *share = gpu->share;
	uint64_t chunk = share->chunk_bytes, has = share->row.claim.has_bytes;
	bool done;

	bytes = bytes / chunk * chunk;
	if (bytes < LEAST_CHUNKS * chunk)
		bytes = LEAST_CHUNKS * chunk;
	share->row.giving_bytes += giving;
	share->given_ns = sl_now_ns();
	done = bytes < has && !budget_set(share, bytes, 1);
	sl_mutex_unlock(&gpu->books->budget);
	return done;
}

bool
pl_share_give(struct pl_gpu *gpu, uint64_t bytes)
{
	uint64_t has;

	if (!budget_try(gpu))
		return false;
	has = gpu->share->row.claim.has_bytes;
	return budget_cut(gpu, has > bytes ? has - bytes : 0, bytes);
}

bool
pl_share_squeeze(struct pl_gpu *gpu)
{
	uint64_t held, has, chunk;

	if (!gpu->share || !budget_try(gpu))
		return false;
	chunk = gpu->share->chunk_bytes;
	held = sl_space_device_taken(gpu->space);
	has = gpu->share->row.claim.has_bytes;
	if (held > has)
		held = has;
	return budget_cut(gpu, held > 2 * chunk ? held - 2 * chunk : 0, 0);
}

uint64_t
pl_share_most(const struct pl_gpu *gpu)
{
	uint64_t budget = atomic_load(&gpu->device_budget), most;

	if (!gpu->share)
		return budget;
	most = atomic_load(&gpu->share->most_bytes);
	return most > budget ? most : budget;
}

/* 1: the program ends, and nothing waits any more. */
static int
gate_await(struct pl_gpu *gpu)
{
	int end;

	sl_mutex_lock(&wake_lock);
	while (atomic_load(&gpu->gate) & (PL_GATE_SUSPENDED | PL_GATE_TURN) && !closing)
		sl_cond_wait(&wake, &wake_lock);
	end = closing;
	sl_mutex_unlock(&wake_lock);
	return end;
}

/* Room for bytes more than is held, as far as it comes. */
static void
room_await(struct pl_gpu *gpu, uint64_t bytes)
{
	struct pl_share *share = gpu->share;
	uint64_t need = sl_space_device_taken(gpu->space) + bytes;

	while (atomic_load(&gpu->gate) == PL_GATE_ROOM &&
	       atomic_load(&gpu->device_budget) < need &&
	       atomic_load(&gpu->device_budget) < atomic_load(&share->grow_to))
		usleep(ASK_PAUSE_US);
}

void
pl_share_pause(struct pl_gpu *gpu, uint64_t bytes)
{
	struct pl_share *share = gpu->share;
	unsigned before = atomic_load(&gpu->gate);
	uint64_t since = sl_now_ns();
	int end;

	atomic_fetch_add(&share->waiting, 1);
	do {
		end = gate_await(gpu);
		room_await(gpu, bytes);
	} while (!end && atomic_load(&gpu->gate) & (PL_GATE_SUSPENDED | PL_GATE_TURN));
	atomic_fetch_sub(&share->waiting, 1);
	if (before & PL_GATE_TURN)
		sl_events_waited(gpu->space, SL_WAIT_TURN, since);
}

/* ---- the end ---- */

void
pl_share_close(void)
{
	uint64_t until = sl_now_ns() + CLOSE_NS;
	int rc = 0;

	if (!started)
		return;
	sl_mutex_lock(&wake_lock);
	closing = 1;
	sl_cond_broadcast(&wake);
	while (!is_over && !rc)
		rc = sl_cond_wait_until(&wake, &wake_lock, until);
	sl_mutex_unlock(&wake_lock);
}

void
pl_share_forked(void)
{
	for (unsigned i = 0; i < PL_GPUS_MAX; i++) {
		struct pl_share *share = atomic_load(&shares[i]);
		struct sl_book *book = share ? atomic_load(&share->book) : NULL;

		if (book)
			sl_book_forked(book);
	}
}

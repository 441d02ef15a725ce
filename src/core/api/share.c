/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space that shares its device with other programs (share=auto): a member of the device's book
 * (share/member.h). Here is what the member asks of the space, and the thread that looks at the book. Launches
 * wait at the gate (launch/gate.c), which the thread opens and shuts.
 *
 * The book of a GPU is that of `sluice run`. The software device has one for each size of its memory that
 * programs name. So all that are in it mean the same memory.
 *
 * A space under `sluice run` does not join: the program is in the GPU's book already.
 *
 * Threads: the thread has the member for itself. What launches ask of it, and what it answers, are fields of
 * space->gate, under the space's lock. The child of a fork closes all books, since it would hold the rows.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/size.h"
#include "base/thread.h"
#include "core/api/api.h"
#include "core/interpose.h"
#include "share/member.h"

#define MEMBERS_MAX 128              /* of one process: two of each space */
#define ASKING_NS   UINT64_C(500000) /* room is waited for: until the next look */
#define TOUCHED_NS \
	UINT64_C(100000000) /* touches so recent: it wants the turn, as a launch that waits */
/* What a space wants beside its regions: two chunks for one access. */
#define MORE_CHUNKS 2u

struct sl_space_share {
	struct sluice_space *space; /* set once */
	pthread_t thread;
	int runs, number;
	/* The thread's. */
	uint64_t touches, touched_ns;
	uint64_t asked_bytes, asked_since_ns; /* room that launches wait for */
	struct sl_member member;
};

/* Of all spaces of the process. atomic: sequentially consistent: set by threads that make spaces, read by the
 * child of a fork. */
static struct sl_member *_Atomic members[MEMBERS_MAX];

/* ---- what the member asks ---- */

static int
space_memory(void *arg, uint64_t *free_bytes, uint64_t *total_bytes)
{
	struct sl_device *dev = ((struct sl_space_share *)arg)->space->device;

	return dev->pool->memory(dev, free_bytes, total_bytes);
}

static uint64_t
space_held(void *arg)
{
	struct sluice_space *s = ((struct sl_space_share *)arg)->space;
	uint64_t bytes;

	if (s->device->pool)
		return s->device->pool->taken(s->device);
	sl_space_lock(s);
	bytes = s->dev.used_bytes;
	sl_space_unlock(s);
	return bytes;
}

uint64_t
sl_share_regions(struct sluice_space *s)
{
	uint64_t bytes = 0;

	sl_space_lock(s);
	for (size_t i = 0; i < s->n_regions; i++)
		bytes += s->regions[i]->n_chunks * s->regions[i]->chunk_bytes;
	sl_space_unlock(s);
	return bytes;
}

static uint64_t
space_want(void *arg)
{
	struct sluice_space *s = ((struct sl_space_share *)arg)->space;
	uint64_t chunk = s->config.large_chunk_bytes, bytes = sl_share_regions(s);

	if (bytes)
		bytes = sl_round_up(bytes, chunk) + MORE_CHUNKS * chunk;
	sl_space_lock(s);
	if (bytes < s->gate.asked_bytes)
		bytes = s->gate.asked_bytes;
	sl_space_unlock(s);
	return bytes;
}

static uint64_t
space_least(void *arg)
{
	struct sluice_space *s = ((struct sl_space_share *)arg)->space;
	uint64_t chunk = s->config.large_chunk_bytes, limit, least;

	sl_space_lock(s);
	if (s->gate.need_bytes)
		sl_scopes_reap(s); /* they may have ended, and need nothing any more */
	least = sl_round_up(s->dev.pinned_bytes, chunk) + SL_MEMBER_LEAST_CHUNKS * chunk;
	limit = s->gate.limit_bytes / chunk * chunk;
	sl_space_unlock(s);
	if (least > limit) /* which holds two chunks beside what was pinned when it was set */
		least = limit;
	return least;
}

static uint64_t
space_launches(void *arg)
{
	struct sl_space_share *share = arg;
	struct sluice_space *s = share->space;
	uint64_t launches, touches;

	sl_space_lock(s);
	launches = s->counter[SLUICE_COUNTER_LAUNCHES];
	touches = s->counter[SLUICE_COUNTER_FAULTS] + s->counter[SLUICE_COUNTER_CPU_FAULTS];
	sl_space_unlock(s);
	if (touches != share->touches)
		share->touched_ns = sl_now_ns();
	share->touches = touches;
	return launches + touches;
}

int
sl_share_is_busy(struct sluice_space *s)
{
	int busy;

	sl_space_lock(s);
	busy = s->gate.waiting || s->calls.head || s->serving || s->scopes;
	sl_space_unlock(s);
	return busy;
}

static int
space_is_busy(void *arg)
{
	return sl_share_is_busy(((struct sl_space_share *)arg)->space);
}

int
sl_share_is_done(struct sluice_space *s)
{
	int done;

	sl_space_lock(s);
	if (s->work_oldest)
		sl_scopes_reap(s);
	done = !s->work_oldest;
	sl_space_unlock(s);
	return done;
}

static int
space_is_done(void *arg)
{
	return sl_share_is_done(((struct sl_space_share *)arg)->space);
}

static int
space_waits(void *arg)
{
	struct sl_space_share *share = arg;
	struct sluice_space *s = share->space;
	int waits;

	sl_space_lock(s);
	waits = s->gate.waiting != 0;
	sl_space_unlock(s);
	return waits || (share->touched_ns && sl_now_ns() - share->touched_ns < TOUCHED_NS);
}

/* Each launch has pinned what it uses. What it does not declare is brought back when it is touched. */
static int
space_is_settled(void *arg)
{
	(void)arg;
	return 1;
}

static void
space_gate(void *arg, enum sl_member_gate why, int shut)
{
	struct sl_space_share *share = arg;
	struct sluice_space *s = share->space;

	sl_space_lock(s);
	s->gate.grow_bytes = atomic_load(&share->member.grow_to);
	if (shut)
		s->gate.shut |= (unsigned)why;
	else
		s->gate.shut &= ~(unsigned)why;
	sl_launch_wake(s);
	sl_space_unlock(s);
}

static int
space_grow(void *arg, uint64_t budget)
{
	struct sluice_space *s = ((struct sl_space_share *)arg)->space;
	uint64_t got;

	return sl_space_shrink_until(s, budget, UINT64_MAX, &got);
}

static int
space_shrink(void *arg, uint64_t budget, uint64_t until_ns, uint64_t *got)
{
	struct sluice_space *s = ((struct sl_space_share *)arg)->space;

	return sl_space_shrink_until(s, budget, until_ns, got);
}

static void
space_count(void *arg, enum sl_member_event event, uint64_t n)
{
	struct sluice_space *s = ((struct sl_space_share *)arg)->space;
	enum sluice_counter counter = SLUICE_COUNTER_BUDGETS_RAISED;

	switch (event) {
	case SL_MEMBER_RAISED:
		break;
	case SL_MEMBER_LOWERED:
		counter = SLUICE_COUNTER_BUDGETS_LOWERED;
		break;
	case SL_MEMBER_TURN:
		counter = SLUICE_COUNTER_TURNS;
		break;
	case SL_MEMBER_WAITED: /* the gate counts launches that wait */
	case SL_MEMBER_RIPE: /* regions do not come and go as allocations do: evictions tell what leaves */
		return;
	case SL_MEMBER_STUCK:
		sl_log(SL_WARN, "share",
		       "not all that others need of the device can be given up: %s",
		       sluice_last_error());
		return;
	case SL_MEMBER_LOST:
		sl_log(SL_WARN, "share",
		       "%s: the space keeps what it has, and looks for a book again",
		       sluice_last_error());
		return;
	}
	sl_space_lock(s);
	sl_count(s, counter, n);
	sl_space_unlock(s);
}

static const struct sl_member_ops space_ops = {
	.memory = space_memory,
	.held = space_held,
	.want = space_want,
	.least = space_least,
	.launches = space_launches,
	.is_busy = space_is_busy,
	.is_done = space_is_done,
	.waits = space_waits,
	.is_settled = space_is_settled,
	.gate = space_gate,
	.grow = space_grow,
	.shrink = space_shrink,
	.count = space_count,
};

/* ---- the thread ---- */

/* Others have more than their least, and answer. */
static int
others_can_give(const struct sl_member *m)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct sl_share_claim *claim = &m->rows[i].claim;

		if (i != m->me && !claim->is_away && claim->has_bytes > claim->least_bytes)
			return 1;
	}
	return 0;
}

/*
 * Whether room that launches need is still to be waited for: others give way, however long their launches
 * take, or have the turn. Else for a while: those that launch now may become idle. A launch that is
 * refused fails, so what may come is waited for.
 */
static int
room_will_come(struct sl_space_share *share, uint64_t asked)
{
	struct sl_member *m = &share->member;
	struct sl_member_ask ask;

	if (asked > atomic_load(&m->most_bytes))
		return 0;
	sl_member_ask_begin(&ask, asked);
	if (sl_member_ask(m, &ask) || (m->turns.takes[m->me] && m->turns.holder != m->me))
		return 1;
	return others_can_give(m) &&
	       sl_now_ns() - share->asked_since_ns < m->row.claim.turn.patience_ns;
}

/* Room that launches wait for: it is there, or comes, or is refused. 1: it comes. */
static int
asks_answer(struct sl_space_share *share)
{
	struct sluice_space *s = share->space;
	uint64_t asked;
	int comes;

	sl_space_lock(s);
	if (s->gate.asked_bytes <= s->dev.budget_bytes)
		s->gate.asked_bytes = 0;
	asked = s->gate.asked_bytes;
	sl_space_unlock(s);
	if (asked && asked != share->asked_bytes)
		share->asked_since_ns = sl_now_ns();
	share->asked_bytes = asked;
	if (!asked)
		return 0;
	comes = room_will_come(share, asked);
	share->asked_bytes = comes ? asked : 0;
	sl_space_lock(s);
	if (!comes && s->gate.asked_bytes == asked) {
		s->gate.asked_bytes = 0;
		if (s->dev.budget_bytes < asked)
			s->gate.refusals++;
	}
	sl_launch_wake(s);
	sl_space_unlock(s);
	return comes;
}

/* The driver has less than the budget promises: the budget becomes less than what the space holds. */
static void
squeezes_answer(struct sl_space_share *share)
{
	struct sluice_space *s = share->space;
	struct sl_member *m = &share->member;
	uint64_t asked, held, chunk = m->chunk_bytes;
	int wanted;

	sl_space_lock(s);
	asked = s->gate.squeezes_asked;
	wanted = asked != s->gate.squeezes_done;
	sl_space_unlock(s);
	if (!wanted)
		return;
	held = space_held(share);
	if (held > m->row.claim.has_bytes)
		held = m->row.claim.has_bytes;
	(void)sl_member_cut(m, held > 2 * chunk ? held - 2 * chunk : 0, 0);
	sl_space_lock(s);
	s->gate.squeezes_done = asked;
	sl_launch_wake(s);
	sl_space_unlock(s);
}

/* Until the next look is due, or something is asked. 1: the end. */
static int
look_await(struct sl_space_share *share, uint64_t ns)
{
	struct sluice_space *s = share->space;
	uint64_t until = sl_now_ns() + ns, limit = share->member.settings.limit_bytes;
	int stops, rc = 0;

	sl_space_lock(s);
	while (!rc && !s->gate.stops && s->gate.limit_bytes == limit &&
	       s->gate.asked_bytes <= share->asked_bytes &&
	       s->gate.squeezes_asked == s->gate.squeezes_done)
		rc = sl_space_wait_until(s, &s->gate.wake, until);
	stops = s->gate.stops;
	share->member.settings.limit_bytes = s->gate.limit_bytes;
	sl_space_unlock(s);
	return stops;
}

static void *
space_share_main(void *arg)
{
	struct sl_space_share *share = arg;
	uint64_t pause_ns = 0;

	while (!look_await(share, pause_ns)) {
		squeezes_answer(share);
		pause_ns = sl_member_look(&share->member);
		if (asks_answer(share) && pause_ns > ASKING_NS)
			pause_ns = ASKING_NS;
	}
	return NULL;
}

/* ---- joining and leaving ---- */

static void
shares_fork_child(void)
{
	for (int i = 0; i < MEMBERS_MAX; i++) {
		struct sl_member *member = atomic_exchange(&members[i], NULL);

		if (member)
			sl_member_forked(member);
	}
}

static void
shares_fork_register(void)
{
	int rc = pthread_atfork(NULL, NULL, shares_fork_child);

	if (rc)
		sl_log(SL_WARN, "share",
		       "children of fork keep this process in the book of programs (%s)",
		       sl_errno_name(rc));
}

int
sl_share_member_enter(struct sl_member *member, int *number)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, shares_fork_register);
	for (int i = 0; i < MEMBERS_MAX; i++) {
		struct sl_member *none = NULL;

		if (atomic_compare_exchange_strong(&members[i], &none, member)) {
			*number = i;
			return 0;
		}
	}
	return sl_fail(-EMFILE, "this process has %d spaces that share memory already",
		       MEMBERS_MAX / 2);
}

void
sl_share_member_leave(int number)
{
	if (number >= 0)
		atomic_store(&members[number], NULL);
}

static int
share_thread_start(struct sl_space_share *share)
{
	int rc = sl_thread_begin(&share->thread, "sl-share", space_share_main, share);

	if (rc)
		return sl_fail(rc, "starting the thread: %s", sl_errno_name(rc));
	share->runs = 1;
	return 0;
}

/* The first budget, and the row that says so. 0 or -errno; then the book is left. */
static int
share_begin(struct sl_space_share *share)
{
	struct sluice_space *s = share->space;
	const int soft = !s->device->pool; /* no hardware: nobody else takes its memory */
	uint64_t most, got, limit = s->config.device_budget_bytes;
	char name[SL_BOOK_NAME_BYTES];
	const struct sl_member_settings settings = {
		.name = name,
		.limit_bytes = limit > UINT64_MAX / 2 ? UINT64_MAX : limit,
		.total_bytes = soft ? s->config.soft_memory_bytes : 0,
		.usable = soft ? NULL : sl_gpu_usable_bytes,
	};
	int rc = sl_share_member_enter(&share->member, &share->number);

	if (rc)
		return rc;
	if (soft)
		snprintf(name, sizeof(name), "software-%lluM",
			 (unsigned long long)(s->config.soft_memory_bytes >> 20));
	else
		snprintf(name, sizeof(name), "%s", s->device->uuid);
	rc = sl_member_join(&share->member, &settings, &space_ops, share, &most);
	if (rc)
		return rc;
	s->gate.limit_bytes = settings.limit_bytes;
	got = sl_member_first(&share->member, s->config.large_chunk_bytes);
	rc = sl_space_shrink_until(s, got, UINT64_MAX, &got);
	if (rc)
		return rc;
	sl_member_start(&share->member);
	rc = share_thread_start(share);
	s->gate.is_there = !rc;
	return rc;
}

/* A space that was to have what it can get, and is alone: most of what is free. */
static void
budget_alone(struct sluice_space *s, uint64_t limit)
{
	uint64_t free_bytes, total_bytes;

	if (limit <= UINT64_MAX / 2) {
		sl_ignore(sluice_space_set_budget(s, SLUICE_TIER_DEVICE, limit));
		return;
	}
	if (s->device->pool && !s->device->pool->memory(s->device, &free_bytes, &total_bytes))
		sl_ignore(sluice_space_set_budget(s, SLUICE_TIER_DEVICE,
						  sl_gpu_usable_bytes(free_bytes)));
}

void
sl_share_join(struct sluice_space *space)
{
	uint64_t limit = space->config.device_budget_bytes;
	struct sl_space_share *share;
	int rc;

	if (space->guest) {
		sl_log(SL_INFO, "share", "`sluice run` shares the GPU for this program");
		return;
	}
	share = sl_calloc(1, sizeof(*share));
	rc = share ? 0 : sl_fail(-ENOMEM, "out of memory");
	if (share) {
		share->space = space;
		share->number = -1;
		rc = share_begin(share);
	}
	if (!rc) {
		space->share = share;
		return;
	}
	sl_log(SL_WARN, "share", "the device is not shared with other programs: %s",
	       sluice_last_error());
	sl_share_leave(share);
	budget_alone(space, limit);
}

void
sl_share_stop(struct sl_space_share *share)
{
	struct sluice_space *s;

	if (!share || !share->runs)
		return;
	s = share->space;
	sl_space_lock(s);
	s->gate.stops = 1;
	sl_cond_signal(&s->gate.wake);
	sl_space_unlock(s);
	pthread_join(share->thread, NULL);
	share->runs = 0;
	sl_space_lock(s);
	s->gate.is_there = 0;
	s->gate.shut = 0;
	sl_launch_wake(s);
	sl_space_unlock(s);
}

void
sl_share_leave(struct sl_space_share *share)
{
	if (!share)
		return;
	sl_member_leave(&share->member);
	sl_share_member_leave(share->number);
	free(share);
}

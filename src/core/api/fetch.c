/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetch-and-pin from kernels: serving the boxes that blocks write (sluice/fetch.h). The boxes
 * are in a frame, which both sides see. Two threads:
 * - the *server* looks at every box, answers releases and queries, queues acquires, and answers
 *   an acquire once its copies are done. It never waits;
 * - the *bringer* takes acquires in order and opens each as a launch scope. It waits for room,
 *   which the server's releases make.
 *
 * An acquire is a scope like that of sluice_launch_begin(), without a stream: the release ends
 * it.
 *
 * Threads: the boxes' own fields belong to the block while request != reply, else to the server.
 * The fields of struct fetch_slot are the server's unless noted.
 */
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "core/api/api.h"
#include "sluice/fetch.h"

#define IDLE_SPIN_NS  200000u
#define IDLE_PAUSE_NS 5000u
/* Between two questions how far copies are: each takes locks of the driver that the bringer wants. */
#define ASK_PAUSE_NS  4000u

enum slot_state {
	SLOT_FREE,
	SLOT_QUEUED,  /* the bringer's */
	SLOT_BROUGHT, /* scope or rc is there; copies may be under way */
	SLOT_HELD
};

struct fetch_slot {
	struct fetch_slot *next; /* queue; fetch->lock */
	_Atomic int state;       /* enum slot_state; QUEUED to BROUGHT by the bringer */
	uint64_t seen;           /* last request taken */
	struct sluice_launch *scope;
	struct sl_fences ready_at;
	int rc;
};

struct sluice_fetch {
	struct sluice_space *space;
	struct sl_frame *frame;
	struct sluice_fetch_box *box;
	uint32_t n_blocks;
	struct fetch_slot *slot;
	struct sl_mutex lock; /* rank BASE: the queue */
	struct sl_cond wake;
	struct fetch_slot *head, *tail;
	_Atomic uint32_t n_queued; /* what the queue has, to be looked at without the lock */
	uint32_t n_brought; /* server: slots that wait for their copies or the bringer */
	_Atomic int stopping;
	uint64_t asked_ns; /* server: when the device was asked last */
	int lost;          /* server: it does not answer any more */
	int first_rc;      /* lock */
	char first_text[SL_ERROR_TEXT_BYTES];
	int server_started, bringer_started;
	pthread_t server, bringer;
};

static void
fetch_blame(struct sluice_fetch *f, int rc)
{
	sl_mutex_lock(&f->lock);
	if (!f->first_rc) {
		f->first_rc = rc;
		strncpy(f->first_text, sluice_last_error(), sizeof(f->first_text) - 1);
	}
	sl_mutex_unlock(&f->lock);
}

/* ---- the bringer -------------------------------------------------------------------------- */

static void
slot_bring(struct sluice_fetch *f, struct fetch_slot *slot)
{
	const struct sluice_fetch_box *box = &f->box[slot - f->slot];
	struct sluice_use uses[SLUICE_FETCH_USES];

	slot->scope = NULL;
	slot->rc = box->n_uses && box->n_uses <= SLUICE_FETCH_USES
			   ? 0
			   : sl_fail(-EINVAL, "fetch: block %u asks for %u ranges: 1 to %u",
				     (unsigned)(slot - f->slot), box->n_uses,
				     SLUICE_FETCH_USES);
	for (uint32_t i = 0; !slot->rc && i < box->n_uses; i++)
		uses[i] = (struct sluice_use){(const void *)(uintptr_t)box->use[i].addr,
					      box->use[i].bytes,
					      (enum sluice_intent)box->intent[i]};
	if (!slot->rc)
		slot->rc = sl_scope_open(f->space, uses, box->n_uses, &slot->scope,
					 &slot->ready_at);
	if (slot->rc)
		fetch_blame(f, slot->rc);
	atomic_store(&slot->state, SLOT_BROUGHT);
}

/* Look for an acquire for a little while: being woken takes longer than bringing a chunk. */
static void
slot_expect(struct sluice_fetch *f)
{
	uint64_t deadline_ns = sl_now_ns() + IDLE_SPIN_NS;

	while (!atomic_load(&f->n_queued) && !atomic_load(&f->stopping) &&
	       sl_now_ns() < deadline_ns)
		;
}

static void *
bringer_main(void *arg)
{
	struct sluice_fetch *f = arg;

	sl_mutex_lock(&f->lock);
	for (;;) {
		struct fetch_slot *slot = f->head;

		if (!slot) {
			if (atomic_load(&f->stopping))
				break;
			sl_mutex_unlock(&f->lock);
			slot_expect(f);
			sl_mutex_lock(&f->lock);
			if (!f->head && !atomic_load(&f->stopping))
				sl_cond_wait(&f->wake, &f->lock);
			continue;
		}
		f->head = slot->next;
		atomic_fetch_sub(&f->n_queued, 1);
		if (!f->head)
			f->tail = NULL;
		sl_mutex_unlock(&f->lock);
		slot_bring(f, slot);
		sl_mutex_lock(&f->lock);
	}
	sl_mutex_unlock(&f->lock);
	return NULL;
}

static void
slot_queue(struct sluice_fetch *f, struct fetch_slot *slot)
{
	slot->next = NULL;
	atomic_store(&slot->state, SLOT_QUEUED);
	f->n_brought++;
	sl_mutex_lock(&f->lock);
	if (f->tail)
		f->tail->next = slot;
	else
		f->head = slot;
	f->tail = slot;
	atomic_fetch_add(&f->n_queued, 1);
	sl_cond_signal(&f->wake);
	sl_mutex_unlock(&f->lock);
}

/* ---- the server ---------------------------------------------------------------------------- */

static void
box_answer(struct sluice_fetch *f, struct fetch_slot *slot, int rc)
{
	struct sluice_fetch_box *box = &f->box[slot - f->slot];

	box->rc = rc;
	__atomic_store_n(&box->reply, slot->seen, __ATOMIC_RELEASE);
}

static int
box_resident(struct sluice_fetch *f, const struct sluice_fetch_box *box)
{
	struct sluice_residency residency;
	int rc = sluice_residency(f->space, (const void *)(uintptr_t)box->use[0].addr,
				  box->use[0].bytes, &residency);

	if (rc) {
		fetch_blame(f, rc);
		return rc;
	}
	return (int)(residency.tier_bytes[SLUICE_TIER_DEVICE] * 100 / box->use[0].bytes);
}

/* A request that has come. */
static void
box_serve(struct sluice_fetch *f, struct fetch_slot *slot)
{
	struct sluice_fetch_box *box = &f->box[slot - f->slot];

	switch (box->op) {
	case SLUICE_FETCH_ACQUIRE:
		if (slot->scope) {
			sl_fail(-EDEADLK,
				"fetch: block %u acquires while it holds: release first, "
				"or "
				"acquire all ranges at once",
				(unsigned)(slot - f->slot));
			fetch_blame(f, -EDEADLK);
			box_answer(f, slot, -EDEADLK);
			return;
		}
		slot_queue(f, slot);
		return;
	case SLUICE_FETCH_RELEASE:
		if (slot->scope)
			sl_scope_close(slot->scope);
		slot->scope = NULL;
		atomic_store(&slot->state, SLOT_FREE);
		box_answer(f, slot, 0);
		return;
	case SLUICE_FETCH_RESIDENT:
		box_answer(f, slot, box_resident(f, box));
		return;
	default: /* written by a kernel: any number */
		sl_fail(-EINVAL, "fetch: block %u asks for %u, which is no request",
			(unsigned)(slot - f->slot), box->op);
		fetch_blame(f, -EINVAL);
		box_answer(f, slot, -EINVAL);
		return;
	}
}

/* Whether what a slot was brought is there, as far as is known; else what it waits for goes to *oldest, where it is
 * older than what is there. */
static int
slot_has_come(const struct sluice_fetch *f, const struct fetch_slot *slot,
	      struct sl_fences *oldest)
{
	struct sl_device *dev = f->space->device;
	int come = 1;

	if (slot->rc || !dev->async || f->lost)
		return 1;
	for (int q = 0; q < SL_QUEUE_COUNT; q++) {
		uint64_t value = slot->ready_at.value[q];

		if (sl_fence_is_done(dev, sl_fence_make(q, value)))
			continue;
		come = 0;
		if (!oldest->value[q] || value < oldest->value[q])
			oldest->value[q] = value;
	}
	return come;
}

/* Ask whether moves are done, unless it was asked a moment ago. 1: one is. */
static int
moves_ask(struct sluice_fetch *f, const struct sl_fences *oldest)
{
	struct sl_device *dev = f->space->device;
	int done = 0;

	if (f->n_brought > 1 && sl_now_ns() - f->asked_ns < ASK_PAUSE_NS)
		return 0; /* a single one: the bringer has nothing to map */
	for (int q = 0; q < SL_QUEUE_COUNT; q++) {
		int rc = oldest->value[q]
				 ? dev->async->query(dev, sl_fence_make(q, oldest->value[q]))
				 : -EAGAIN;

		f->lost |= rc && rc != -EAGAIN;
		done |= rc != -EAGAIN;
	}
	f->asked_ns = sl_now_ns();
	return done;
}

/* Look at every box once. 1: something was done. */
static int
boxes_look(struct sluice_fetch *f)
{
	struct sl_fences oldest = {{0}};
	int waits = 0, done = 0;

	for (uint32_t i = 0; i < f->n_blocks; i++) {
		struct fetch_slot *slot = &f->slot[i];
		uint64_t request = __atomic_load_n(&f->box[i].request, __ATOMIC_ACQUIRE);

		if (request != slot->seen) {
			slot->seen = request;
			box_serve(f, slot);
			done = 1;
		}
		if (atomic_load(&slot->state) != SLOT_BROUGHT)
			continue;
		if (!slot_has_come(f, slot, &oldest)) {
			waits = 1;
			continue;
		}
		atomic_store(&slot->state, slot->rc ? SLOT_FREE : SLOT_HELD);
		f->n_brought--;
		box_answer(f, slot, slot->rc);
		done = 1;
	}
	if (waits && moves_ask(f, &oldest))
		done = 1;
	return done;
}

static void *
server_main(void *arg)
{
	struct sluice_fetch *f = arg;
	struct timespec pause = {.tv_nsec = IDLE_PAUSE_NS};
	uint64_t busy_ns = sl_now_ns();

	(void)prctl(PR_SET_TIMERSLACK, 1000ul); /* or each pause takes 50 us more */

	while (!atomic_load(&f->stopping) || f->n_brought) {
		if (boxes_look(f))
			busy_ns = sl_now_ns();
		else if (sl_now_ns() - busy_ns > IDLE_SPIN_NS)
			nanosleep(&pause, NULL);
	}
	return NULL;
}

/* ---- open and close --------------------------------------------------------------------------- */

static int
threads_start(struct sluice_fetch *f)
{
	int rc = sl_thread_begin(&f->server, "sl-fetch", server_main, f);

	f->server_started = !rc;
	if (!rc)
		rc = sl_thread_begin(&f->bringer, "sl-fetch-bring", bringer_main, f);
	f->bringer_started = f->server_started && !rc;
	return rc ? sl_fail(rc, "fetch: cannot start a thread: %s", strerror(-rc)) : 0;
}

static void
fetch_free(struct sluice_fetch *f)
{
	sl_mutex_lock(&f->lock);
	atomic_store(&f->stopping, 1);
	sl_cond_broadcast(&f->wake);
	sl_mutex_unlock(&f->lock);
	if (f->bringer_started)
		pthread_join(f->bringer, NULL);
	if (f->server_started)
		pthread_join(f->server, NULL);
	for (uint32_t i = 0; f->slot && i < f->n_blocks; i++) {
		if (f->slot[i].scope)
			sl_scope_close(f->slot[i].scope);
	}
	if (f->frame)
		f->space->device->ops->frame_put(f->space->device, f->frame);
	sl_cond_fini(&f->wake);
	sl_mutex_fini(&f->lock);
	free(f->slot);
	free(f);
}

int
sluice_fetch_open(struct sluice_space *space, uint32_t n_blocks,
		  struct sluice_fetch **out, struct sluice_fetch_view *view)
{
	struct sluice_fetch *f;
	int rc;

	if (!n_blocks || n_blocks > SLUICE_FETCH_BLOCKS_MAX)
		return sl_fail(-EINVAL, "fetch: %u blocks: 1 to %u", n_blocks,
			       SLUICE_FETCH_BLOCKS_MAX);
	rc = sl_space_enter(space);
	if (rc)
		return rc;
	sl_scopes_reap(space); /* what ended before must not wait for the kernel that comes */
	sl_space_unlock(space);
	if (!space->device->native)
		return sl_fail(-ENOTSUP, "fetch: the %s device's kernels fault: they need not fetch",
			       space->device->ops->name);
	f = sl_calloc(1, sizeof(*f));
	if (!f)
		return sl_fail(-ENOMEM, "fetch: out of memory");
	f->space = space;
	f->n_blocks = n_blocks;
	sl_mutex_init(&f->lock, SL_RANK_BASE);
	sl_cond_init(&f->wake);
	f->slot = sl_calloc(n_blocks, sizeof(*f->slot));
	rc = f->slot ? space->device->ops->frame_get(space->device, SL_GRANULE_BYTES, &f->frame)
		     : sl_fail(-ENOMEM, "fetch: out of memory");
	if (!rc) {
		f->box = f->frame->data;
		memset(f->box, 0, n_blocks * sizeof(*f->box));
		rc = threads_start(f);
	}
	if (rc) {
		fetch_free(f);
		return rc;
	}
	sl_own_kernels_stop(space); /* blocks that wait may leave them no room to run in */
	*view = (struct sluice_fetch_view){f->box, n_blocks};
	*out = f;
	return 0;
}

int
sluice_fetch_close(struct sluice_fetch *fetch)
{
	char text[SL_ERROR_TEXT_BYTES];
	int rc;

	if (!fetch)
		return 0;
	rc = fetch->first_rc;
	memcpy(text, fetch->first_text, sizeof(text));
	sl_own_kernels_resume(fetch->space);
	fetch_free(fetch);
	return rc ? sl_fail_text(rc, text) : 0;
}

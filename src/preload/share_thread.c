/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that looks at the books of all GPUs that the program shares (share.h): every 10 ms while other
 * programs are there, else every 100 ms, and at once while it gives up room. And the end.
 *
 * Threads: the thread itself has a GPU's books.budget while it looks at its book. wake_lock is for the gates
 * that it opens, and for the end.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"
#include "core/interpose.h"
#include "preload/gpu_internal.h"
#include "preload/preload.h"
#include "preload/share_internal.h"
#include "preload/streams/capture.h"
#include "preload/streams/stream.h"
#include "preload/streams/stream_internal.h"

#define PAUSE_FIRST_NS (10 * MS)
#define PAUSE_MOST_NS  (100 * MS)
#define CLOSE_NS \
	(10000 * MS) /* a driver call that holds the thread up may take so long */

/* atomic: acquire and release: who sees a share sees what it was made of. Of GPUs with a space; set once. */
static struct pl_share *_Atomic shares[PL_GPUS_MAX];
static struct sl_mutex wake_lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF);
static struct sl_cond wake;  /* of wake_lock: closing, or a gate opens */
static int started;          /* under create_lock */
static int closing, is_over; /* wake_lock */

void
pl_share_wake(void)
{
	sl_mutex_lock(&wake_lock);
	sl_cond_broadcast(&wake);
	sl_mutex_unlock(&wake_lock);
}

int
pl_share_gates_await(struct pl_gpu *gpu, unsigned gates)
{
	int end;

	sl_mutex_lock(&wake_lock);
	while (atomic_load(&gpu->gate) & gates && !closing)
		sl_cond_wait(&wake, &wake_lock);
	end = closing;
	sl_mutex_unlock(&wake_lock);
	return end;
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
		return PAUSE_MOST_NS;
	}
	sl_mutex_lock(&gpu->books->budget);
	share->wants_pressure = 0;
	pause_ns = sl_member_look(&share->member);
	if (share->member.row.claim.is_suspended &&
	    atomic_load(&gpu->pressure) < PL_OVERSUBSCRIBED)
		share->wants_pressure = 1; /* from there on launches ask whether they may */
	press = share->wants_pressure && !pl_captures_running();
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
	uint64_t pause_ns = PAUSE_FIRST_NS;

	(void)arg;
	pl_enter(); /* each driver call of this thread is ours */
	while (!share_await(pause_ns)) {
		pause_ns = PAUSE_MOST_NS;
		for (unsigned i = 0; i < PL_GPUS_MAX; i++) {
			struct pl_share *share = atomic_load(&shares[i]);
			uint64_t ns = share ? share_look(share) : PAUSE_MOST_NS;

			if (ns < pause_ns)
				pause_ns = ns;
		}
	}
	for (unsigned i = 0; i < PL_GPUS_MAX; i++) {
		struct pl_share *share = atomic_load(&shares[i]);

		if (!share)
			continue;
		sl_space_share_host_stop(share->gpu->space);
		sl_mutex_lock(&share->gpu->books->budget);
		sl_member_leave(&share->member);
		sl_mutex_unlock(&share->gpu->books->budget);
	}
	sl_mutex_lock(&wake_lock);
	is_over = 1;
	sl_cond_broadcast(&wake);
	sl_mutex_unlock(&wake_lock);
	return NULL;
}

/* 0 or -errno. */
static int
thread_begin(void)
{
	pthread_t thread;
	int rc;

	sl_cond_init(&wake);
	rc = sl_thread_begin(&thread, "sl-share", share_main, NULL);
	if (!rc)
		(void)pthread_detach(thread);
	return rc;
}

int
pl_share_thread_add(struct pl_share *share)
{
	int rc = started ? 0 : thread_begin();

	if (rc)
		return rc;
	started = 1;
	atomic_store(&shares[share->gpu->device], share);
	return 0;
}

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

		if (share)
			sl_member_forked(&share->member);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --timeline: one thread for the process, from its first space on. Some hundred times a second it
 * asks for times of work (timings.c), takes the events of each space (core/events.h), and prints
 * them (timeline_tracks.c). The program's threads only leave records. Twice a second the file is
 * written, and the clocks of the GPUs are read anew.
 *
 * Work is written one round after its time was told. So the events of the moves that it waited for
 * are there before it.
 *
 * The end: at exit, when the file is full, or when it cannot be written. Then the thread stops, and
 * the program goes on as without a timeline.
 *
 * Locks: told_lock for what the threads share.
 */
#include "preload/report/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/lock.h"
#include "base/size.h"
#include "base/thread.h"
#include "core/events.h"
#include "preload/gpu.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/report/output.h"
#include "preload/report/timeline_tracks.h"
#include "preload/streams/capture.h"

#define ROUND_NS 5000000u
#define WRITE_NS 500000000u
#define CLOSE_NS \
	10000000000u /* the driver may hold the thread up: the exit does not wait for ever */
#define PATIENCE     128u   /* rounds between those that ask about all work */
#define WORK_MAX     32768u /* told between two rounds */
#define COLLECT_MAX  32768u
#define EVENTS_ROOM  32768u /* of a space between two rounds */
#define EVENTS_BATCH 256u

enum state { STATE_NONE, STATE_ON, STATE_REFUSED };

static struct sl_mutex told_lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF);
static struct sl_cond wake;                /* of told_lock: closing */
static struct sl_cond ended;               /* of told_lock: over */
static struct pl_timed_work *told, *spare; /* told_lock; WORK_MAX each */
static size_t n_told;                      /* told_lock */
static struct pl_gpu *gpus[PL_GPUS_MAX];   /* told_lock: with events */
static int closing, over;                  /* told_lock */
static _Atomic uint64_t n_untimed, n_lost; /* work without a time; events that found no room */

static enum state state; /* of who makes spaces, one at a time */
static struct pl_output output;

/* The thread's. */
static struct pl_trace_events *file;
static struct pl_tracks *tracks;
static struct sl_event batch[EVENTS_BATCH];
static uint64_t begun_ns;

/* ---- what the program's threads leave ---- */

void
pl_timeline_told(const struct pl_timing *timing, uint64_t begin_ns, uint64_t ns)
{
	if (!begin_ns || !ns) {
		pl_timeline_untimed();
		return;
	}
	sl_mutex_lock(&told_lock);
	if (n_told < WORK_MAX)
		told[n_told++] = (struct pl_timed_work){*timing, begin_ns, ns};
	else
		atomic_fetch_add(&n_lost, 1);
	sl_mutex_unlock(&told_lock);
}

void
pl_timeline_untimed(void)
{
	atomic_fetch_add(&n_untimed, 1);
}

/* ---- the thread ---- */

static void
events_take(void)
{
	for (int i = 0; i < (int)PL_GPUS_MAX; i++) {
		struct pl_gpu *gpu;
		uint64_t lost;
		size_t n;

		sl_mutex_lock(&told_lock);
		gpu = gpus[i];
		sl_mutex_unlock(&told_lock);
		/* What comes meanwhile is for the next round. */
		for (size_t taken = 0; gpu && taken < EVENTS_ROOM; taken += n) {
			n = sl_events_take(gpu->space, batch, EVENTS_BATCH, &lost);
			for (size_t k = 0; k < n; k++)
				pl_tracks_event(tracks, i, &batch[k]);
			if (lost)
				pl_tracks_lost(tracks, i, lost, sl_now_ns());
			atomic_fetch_add(&n_lost, lost);
			if (n < EVENTS_BATCH)
				break;
		}
	}
}

/* One round. all: work behind some that is not over is asked about as well. */
static void
round_run(int all)
{
	struct pl_timed_work *work;
	size_t n;
	int token;

	sl_mutex_lock(&told_lock);
	work = told;
	n = n_told;
	told = spare;
	spare = NULL; /* the thread's */
	n_told = 0;
	sl_mutex_unlock(&told_lock);
	token = pl_capture_relax();
	pl_timings_collect(COLLECT_MAX, all, 1);
	pl_capture_restore(token);
	events_take();
	for (size_t i = 0; i < n; i++)
		pl_tracks_work(tracks, &work[i]);
	sl_mutex_lock(&told_lock);
	spare = work;
	sl_mutex_unlock(&told_lock);
}

/* 1: the end. */
static int
round_await(void)
{
	uint64_t until = sl_now_ns() + ROUND_NS;
	int rc = 0, end;

	sl_mutex_lock(&told_lock);
	while (!closing && !rc)
		rc = sl_cond_wait_until(&wake, &told_lock, until);
	end = closing;
	sl_mutex_unlock(&told_lock);
	return end;
}

static void
events_close(void)
{
	for (int i = 0; i < (int)PL_GPUS_MAX; i++) {
		struct pl_gpu *gpu;

		sl_mutex_lock(&told_lock);
		gpu = gpus[i];
		gpus[i] = NULL;
		sl_mutex_unlock(&told_lock);
		if (gpu)
			sl_events_close(gpu->space);
	}
}

/* Why it ended before the program did: 0: it did not. */
static void
end_say(int rc)
{
	char limit[32];
	uint64_t seconds = (sl_now_ns() - begun_ns) / 1000000000u;

	if (rc == -EFBIG)
		pl_note("the timeline %s is full (%s) and ends after %llu s; "
			"--timeline-size sets "
			"its size",
			output.final,
			sl_size_format((uint64_t)pl_settings()->timeline_mib << 20, limit,
				       sizeof(limit)),
			(unsigned long long)seconds);
	else if (rc)
		pl_error("the timeline %s ends after %llu s: %s: free space there, or "
			 "name a file "
			 "elsewhere; the program goes on",
			 output.final, (unsigned long long)seconds, strerror(-rc));
	else
		pl_note("the timeline is in %s: open it in https://ui.perfetto.dev",
			output.final);
}

/* The last words of the file. */
static void
file_end(int rc)
{
	uint64_t untimed = atomic_load(&n_untimed) + pl_timings_left(),
		 lost = atomic_load(&n_lost);
	struct pl_trace_arg arg = {"launches", NULL, (int64_t)untimed};

	if (!rc) {
		pl_tracks_end(tracks, sl_now_ns());
		if (untimed)
			pl_tracks_note(tracks, "launches without a time", sl_now_ns(),
				       &arg, 1);
		/* `sluice report` looks for it: without it the timeline is cut. */
		pl_tracks_note(tracks, "the program ends", sl_now_ns(), NULL, 0);
	}
	pl_tracks_destroy(tracks);
	if (!rc)
		rc = pl_trace_events_state(file);
	if (pl_trace_events_destroy(file) && !rc)
		rc = -EIO;
	end_say(rc);
	if (!rc && untimed)
		pl_note("%llu launches have no time on the timeline",
			(unsigned long long)untimed);
	if (!rc && lost)
		pl_note("%llu events were lost: they came faster than they could be "
			"written",
			(unsigned long long)lost);
}

static void *
timeline_main(void *arg)
{
	uint64_t written_ns = 0;
	unsigned rounds = 0;
	int rc = 0, end = 0;

	(void)arg;
	pl_enter(); /* each driver call of this thread is ours */
	while (!end && !rc) {
		uint64_t now;
		int token;

		end = round_await();
		now = sl_now_ns();
		if (now - written_ns >= WRITE_NS) {
			written_ns = now;
			pl_trace_flush(file);
			token = pl_capture_relax();
			pl_timings_anchor();
			pl_capture_restore(token);
		}
		round_run(end || ++rounds % PATIENCE == 0);
		rc = pl_trace_events_state(file);
	}
	if (!rc) { /* what the last round was told */
		round_run(1);
		rc = pl_trace_events_state(file);
	}
	pl_timed_set(PL_TIMED_TIMELINE, 0);
	events_close();
	file_end(rc);
	sl_mutex_lock(&told_lock);
	over = 1;
	sl_cond_broadcast(&ended);
	sl_mutex_unlock(&told_lock);
	return NULL;
}

/* ---- begin and end ---- */

/* The time of day at time 0 of CLOCK_MONOTONIC. */
static uint64_t
zero_unix_ns(void)
{
	struct timespec day, now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	clock_gettime(CLOCK_REALTIME, &day);
	return (uint64_t)(day.tv_sec - now.tv_sec) * 1000000000u + (uint64_t)day.tv_nsec -
	       (uint64_t)now.tv_nsec;
}

/* The file, with its name: 0 or -errno. */
static int
file_open(void)
{
	int rc = pl_output_begin(&output, pl_settings()->timeline_path, ""), fd, named;

	if (rc)
		return rc;
	fd = open(output.temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
	if (fd < 0 && errno == EEXIST && !unlink(output.temporary)) /* of another time */
		fd = open(output.temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	rc = pl_trace_events_create(fd, (uint64_t)pl_settings()->timeline_mib << 20,
				    getpid(), program_invocation_short_name,
				    zero_unix_ns(), &file);
	named = pl_output_end(&output, rc, "the timeline is");
	if (!rc && named)
		sl_ignore(pl_trace_events_destroy(file));
	return named;
}

/* 0 or -errno. */
static int
writer_start(void)
{
	pthread_t thread;
	int rc;

	sl_cond_init(&wake);
	sl_cond_init(&ended);
	rc = sl_thread_begin(&thread, "sl-timeline", timeline_main, NULL);
	if (!rc)
		(void)pthread_detach(thread);
	return rc;
}

/* All signals blocked. */
static int
parts_start(void)
{
	int rc = file_open();

	if (rc)
		return rc;
	tracks = pl_tracks_create(file);
	rc = tracks ? writer_start() : -ENOMEM;
	if (!rc)
		return 0;
	pl_tracks_destroy(tracks);
	sl_ignore(pl_trace_events_destroy(file));
	(void)unlink(output.final);
	return rc;
}

static int
timeline_start(void)
{
	const struct timespec now = {0};
	sigset_t all, before, too_large;
	int rc = 0;

	begun_ns = sl_now_ns();
	told = sl_calloc(WORK_MAX, sizeof(*told));
	spare = sl_calloc(WORK_MAX, sizeof(*spare));
	if (!told || !spare)
		return -ENOMEM;
	/* A file beyond a limit of the process is an error here, and no signal of the program's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = parts_start();
	sigemptyset(&too_large);
	sigaddset(&too_large, SIGXFSZ);
	if (rc == -EFBIG)
		(void)sigtimedwait(&too_large, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

void
pl_timeline_open(struct pl_gpu *gpu)
{
	int rc = 0;

	if (!pl_settings()->timeline_path[0] || state == STATE_REFUSED)
		return;
	if (state == STATE_NONE) {
		rc = timeline_start();
		state = rc ? STATE_REFUSED : STATE_ON;
	} else if (!(pl_timed() & PL_TIMED_TIMELINE)) {
		return; /* it has ended */
	}
	if (rc) {
		pl_error("no timeline can be written to %s: %s: name another file; the "
			 "program runs "
			 "without",
			 pl_settings()->timeline_path, strerror(-rc));
		free(told);
		free(spare);
		return;
	}
	if (sl_events_open(gpu->space, EVENTS_ROOM)) {
		pl_error("GPU %d: no moves on the timeline: %s", gpu->ordinal,
			 sluice_last_error());
	} else {
		sl_mutex_lock(&told_lock);
		gpus[gpu->ordinal] = gpu;
		sl_mutex_unlock(&told_lock);
	}
	pl_timed_set(PL_TIMED_TIMELINE, 1);
}

void
pl_timeline_close(void)
{
	uint64_t until = sl_now_ns() + CLOSE_NS;
	int rc = 0;

	if (state != STATE_ON)
		return;
	sl_mutex_lock(&told_lock);
	closing = 1;
	sl_cond_broadcast(&wake);
	while (!over && !rc)
		rc = sl_cond_wait_until(&ended, &told_lock, until);
	sl_mutex_unlock(&told_lock);
	if (rc)
		pl_error("the end of the timeline %s is missing: the driver does not "
			 "answer",
			 output.final);
}

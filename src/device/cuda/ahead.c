/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames made ahead. Pinning host memory takes ten times as long as copying to it. So the first
 * eviction of data would run at the speed of pinning. When core says that frames are expected,
 * threads make free ones, until there are as many as core wants in all, with those that it has. The
 * size asked for last comes first. All frames stay within the limit that core named. They are of
 * the kind named or asked for last.
 *
 * The first thread also gives surplus free frames back to the system. That takes time, holds the
 * driver's lock, and may have to wait for a copy. It waits until no frame has come or gone for a
 * while, or at most REST_MAX_NS.
 *
 * Before the first frame they make what copies out need (move.c): a context of their own. Beside threads
 * that make frames that took up to 0.7 s, in which nothing was copied.
 *
 * The first use starts the threads, on half of the processors. They run behind the program's
 * threads (nice), and end within the time of one frame. If the system refuses a frame they make no
 * more; later frames are made on demand. With host_pin=early the caller waits for them.
 *
 * LOCKING: pools.lock for all numbers; none while a frame is made.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "device/cuda/cuda.h"

#define AHEAD_NICE  10
#define REST_NS     UINT64_C(100000000)
#define REST_MAX_NS UINT64_C(1000000000)

void
sl_cuda_ahead_init(struct cuda *cuda)
{
	sl_cond_init(&cuda->ahead.work);
	sl_cond_init(&cuda->ahead.done);
}

int
sl_cuda_frames_exceed(const struct cuda *cuda, uint64_t more_bytes)
{
	uint64_t used = cuda->pools.frame_used_bytes, limit = cuda->pools.frame_limit_bytes;
	uint64_t left = limit > used ? limit - used : 0;
	uint64_t kept = left > cuda->pools.frame_cache_bytes
				? left
				: cuda->pools.frame_cache_bytes;

	return cuda->pools.frame_free_bytes + more_bytes > kept;
}

/* Free frames of both kinds. Lock held. */
static uint64_t
frames_free(const struct cuda *cuda, int class)
{
	return cuda->pools.frames[SL_CUDA_COPIED][class].n +
	       cuda->pools.frames[SL_CUDA_MAPPABLE][class].n;
}

/* Bytes of the frames that are being made. Lock held. */
static uint64_t
making_bytes(const struct cuda *cuda)
{
	uint64_t sum = 0;

	for (int class = 0; class < SL_CUDA_CLASSES; class ++)
		sum += cuda->ahead.making_n[class] * sl_cuda_class_bytes(class);
	return sum;
}

/* The class of the next frame to make, or -1: there are enough. Lock held. */
static int
class_wanted(const struct cuda *cuda)
{
	uint64_t have = cuda->pools.frame_used_bytes + cuda->pools.frame_free_bytes +
			making_bytes(cuda);

	for (int i = 0; i < SL_CUDA_CLASSES; i++) {
		int class = (cuda->pools.expected_last + i) % SL_CUDA_CLASSES;
		uint64_t bytes = sl_cuda_class_bytes(class);
		uint64_t n = frames_free(cuda, class) + cuda->ahead.making_n[class] + 1;

		if (cuda->pools.frame_used_bytes + n * bytes <=
			    cuda->pools.expected_bytes[class] &&
		    have + bytes <= cuda->pools.frame_limit_bytes)
			return class;
	}
	return -1;
}

/* More free frames than may be kept: the class of one, rather of a size that is not asked for; -1.
 * Lock held. */
static int
class_in_excess(const struct cuda *cuda)
{
	if (!sl_cuda_frames_exceed(cuda, 0))
		return -1;
	for (int i = 1; i <= SL_CUDA_CLASSES; i++) {
		int class = (cuda->pools.expected_last + i) % SL_CUDA_CLASSES;

		if (frames_free(cuda, class))
			return class;
	}
	return -1;
}

/* Until when the excess, which there is since then, is not to be touched. Lock held. */
static uint64_t
rest_end(const struct cuda *cuda, uint64_t since_ns)
{
	uint64_t quiet = cuda->pools.active_ns + REST_NS, most = since_ns + REST_MAX_NS;

	return quiet < most ? quiet : most;
}

/* Until there is something to do; since_ns: for how long there is an excess, 0: there is none. Lock held. */
static void
ahead_wait(struct cuda *cuda, uint64_t since_ns) SL_REQUIRES(cuda->pools.lock)
{
	if (!since_ns) {
		sl_cond_wait(&cuda->ahead.work, &cuda->pools.lock);
		return;
	}
	cuda->ahead.resting = 1;
	sl_ignore(sl_cond_wait_until(&cuda->ahead.work, &cuda->pools.lock,
				     rest_end(cuda, since_ns)));
	cuda->ahead.resting = 0;
}

static void
frame_give_back(struct cuda *cuda, int class)
{
	struct cuda_frame *frame = sl_cuda_frame_pop(cuda, class, SL_CUDA_COPIED);

	if (frame)
		sl_cuda_frame_destroy(cuda, frame);
}

/* 0: another one is free. */
static int
frame_grow(struct cuda *cuda, int class, enum cuda_frame_kind kind)
{
	struct cuda_frame *frame;
	int rc = sl_cuda_frame_make(cuda, class, kind, &frame);

	if (!rc)
		sl_cuda_frame_push_first(cuda, frame); /* no copy reads it: rather than those */
	else
		sl_log(SL_INFO, "device",
		       "frames are not made ahead of evictions any more: %s",
		       sluice_last_error());
	return rc;
}

/* Until the device ends. The first thread also gives back what is in excess. */
static void
ahead_work(struct cuda *cuda) SL_REQUIRES(cuda->pools.lock)
{
	int gives = pthread_equal(pthread_self(), cuda->ahead.thread[0]);
	uint64_t since_ns = 0; /* there is an excess; 0: there is none */

	while (!cuda->ahead.stopping) {
		int excess = gives ? class_in_excess(cuda) : -1;
		int wanted = cuda->ahead.refused ? -1 : class_wanted(cuda);
		enum cuda_frame_kind kind = cuda->pools.asked;
		int rc = 0;

		if (excess < 0)
			since_ns = 0;
		else if (!since_ns)
			since_ns = sl_now_ns();
		if (wanted < 0 && (excess < 0 || sl_now_ns() < rest_end(cuda, since_ns))) {
			sl_cond_broadcast(&cuda->ahead.done);
			ahead_wait(cuda, since_ns);
			continue;
		}
		if (wanted >= 0)
			cuda->ahead.making_n[wanted]++;
		sl_mutex_unlock(&cuda->pools.lock);
		if (wanted >= 0)
			rc = frame_grow(cuda, wanted, kind);
		else
			frame_give_back(cuda, excess);
		sl_mutex_lock(&cuda->pools.lock);
		if (wanted >= 0)
			cuda->ahead.making_n[wanted]--;
		if (rc)
			cuda->ahead.refused = 1;
	}
}

static void *
ahead_main(void *arg)
{
	struct cuda *cuda = arg;
	int entered = !sl_cuda_enter(cuda);

	if (entered)
		sl_cuda_outs_start(cuda); /* the others wait meanwhile */
	(void)setpriority(PRIO_PROCESS, (id_t)gettid(), AHEAD_NICE); /* of this thread alone */
	sl_mutex_lock(&cuda->pools.lock);
	if (entered) {
		ahead_work(cuda);
	} else {
		cuda->ahead.refused = 1;
		sl_cond_broadcast(&cuda->ahead.done);
	}
	sl_mutex_unlock(&cuda->pools.lock);
	if (entered)
		sl_cuda_leave(cuda);
	return NULL;
}

/* Lock held: nobody else starts them. Without a thread nothing is made ahead. */
static void
ahead_start(struct cuda *cuda)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned n = processors / 2 < SL_CUDA_AHEAD_THREADS ? (unsigned)(processors / 2)
							    : SL_CUDA_AHEAD_THREADS;

	do {
		if (sl_thread_begin(&cuda->ahead.thread[cuda->ahead.n_threads],
				    "sl-cuda-frames", ahead_main, cuda))
			break;
		cuda->ahead.n_threads++;
	} while (cuda->ahead.n_threads < n);
	cuda->ahead.refused = !cuda->ahead.n_threads;
}

void
sl_cuda_ahead_stop(struct cuda *cuda)
{
	unsigned n;

	sl_mutex_lock(&cuda->pools.lock);
	n = cuda->ahead.n_threads;
	cuda->ahead.stopping = 1;
	sl_cond_broadcast(&cuda->ahead.work);
	sl_mutex_unlock(&cuda->pools.lock);
	while (n--)
		pthread_join(cuda->ahead.thread[n], NULL);
}

void
sl_cuda_frames_expect(struct sl_device *dev, const struct sl_pool_want *want)
{
	struct cuda *cuda = sl_cuda_of(dev);
	int class = sl_cuda_class(want->bytes);

	if (class < 0)
		return;
	sl_mutex_lock(&cuda->pools.lock);
	if (want->number < cuda->pools.expected_number) {
		sl_mutex_unlock(&cuda->pools.lock);
		return;
	}
	cuda->pools.expected_number = want->number;
	cuda->pools.expected_bytes[class] = want->wanted_bytes;
	cuda->pools.frame_limit_bytes = want->room_bytes;
	cuda->pools.expected_last = class;
	cuda->pools.asked = want->mappable ? SL_CUDA_MAPPABLE : SL_CUDA_COPIED;
	if (!cuda->ahead.n_threads && !cuda->ahead.refused && class_wanted(cuda) >= 0)
		ahead_start(cuda);
	if (cuda->ahead.n_threads && ((!cuda->ahead.refused && class_wanted(cuda) >= 0) ||
				      (!cuda->ahead.resting && class_in_excess(cuda) >= 0)))
		sl_cond_broadcast(&cuda->ahead.work);
	sl_mutex_unlock(&cuda->pools.lock);
}

int
sl_cuda_frames_excess(struct cuda *cuda)
{
	if (!cuda->ahead.n_threads && !cuda->ahead.refused)
		ahead_start(cuda);
	if (!cuda->ahead.n_threads)
		return 0;
	if (!cuda->ahead.resting)
		sl_cond_broadcast(&cuda->ahead.work);
	return 1;
}

void
sl_cuda_frames_wait(struct cuda *cuda)
{
	sl_mutex_lock(&cuda->pools.lock);
	while (cuda->ahead.n_threads && !cuda->ahead.stopping && !cuda->ahead.refused &&
	       (class_wanted(cuda) >= 0 || making_bytes(cuda)))
		sl_cond_wait(&cuda->ahead.done, &cuda->pools.lock);
	sl_mutex_unlock(&cuda->pools.lock);
}

void
sl_cuda_frames_taken(struct cuda *cuda, uint64_t bytes, enum cuda_frame_kind kind)
{
	sl_mutex_lock(&cuda->pools.lock);
	cuda->pools.asked = kind;
	cuda->pools.frame_used_bytes += bytes;
	cuda->pools.active_ns = sl_now_ns();
	sl_mutex_unlock(&cuda->pools.lock);
}

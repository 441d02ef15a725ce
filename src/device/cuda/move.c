/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between host and device. Each direction has a stream, so that both directions of the
 * link and both copy engines work at once. Order among them:
 * - copies in are numbered in the order of their stream (progress.queue);
 * - a copy in to a slab waits, on its stream, for the last copy out of that slab;
 * - a copy out of a slab waits, on its stream, for the copy in that filled it.
 *
 * So the last copy of a slab is behind all its other copies, in either direction. An enqueuing
 * thread waits only for room among SL_CUDA_MOVES.
 *
 * Copies out are in a context of their own, in pieces. The driver writes page tables with a copy
 * engine, on most machines the one for copies out. cuMemSetAccess() waits for its turn there.
 * With copies of its own context that takes a time slice of 1 ms. With copies of another context
 * it waits only for the current piece. Measured on an H200: 959 us, against 88 us with pieces of
 * 4 MiB. With copies both ways 900, and 97 (168 with pieces of 8, 207 with 16). Such a context
 * takes half a gigabyte of device memory. The first copy out makes it. If it cannot be made,
 * copies go without.
 *
 * An enqueued copy whose event fails cannot be numbered, and is awaited. After a failed call its
 * source and target are the caller's again.
 *
 * No thread watches copies in, unless somebody asks for that (sl_cuda_move_watch()). The driver is
 * asked about their progress on demand. From then on each has two more events, for its time.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "device/cuda/cuda.h"

#define OUT_PIECE_BYTES   ((uint64_t)4 << 20)
#define CLOCK_DRIFT       50e-6 /* of a GPU's clock against the host's, at most */
#define OUT_CONTEXT_BYTES ((size_t)2 << 30) /* free device memory it is tried with */

/* The event of a move. */
static struct cu_event *
move_event(const struct cuda *cuda, struct sl_fence fence)
{
	unsigned slot = fence.value % SL_CUDA_MOVES;

	switch (fence.queue) {
	case SL_COPIES_IN:
		return cuda->moves.in_event[slot];
	case SL_COPIES_OUT:
		return cuda->moves.out_event[slot];
	default:
		return cuda->codec.event[fence.queue - SL_ENCODES][slot];
	}
}

static void
timeline_reach(struct sl_timeline *timeline, uint64_t move)
{
	uint64_t done = atomic_load_explicit(&timeline->done, memory_order_acquire);

	while (done < move &&
	       !atomic_compare_exchange_weak_explicit(&timeline->done, &done, move,
						      memory_order_release,
						      memory_order_acquire))
		;
}

/* Look how far copies in or decodes are, up to move number want; wait: block for it. Context entered. */
static int
queue_progress(struct cuda *cuda, enum sl_move_queue queue, uint64_t want, int wait)
{
	struct sl_timeline *in = &cuda->progress.queue[queue];
	uint64_t done = atomic_load_explicit(&in->done, memory_order_acquire), copy = 0;
	struct cu_event *event = move_event(cuda, sl_fence_make(queue, want));
	unsigned slot = want % SL_CUDA_MOVES;
	int result;

	if (want <= done)
		return 0;
	if (queue == SL_DECODES)
		copy = atomic_load_explicit(&cuda->codec.decode_copy[slot],
					    memory_order_acquire);
	result = wait ? cuda->driver->cuEventSynchronize(event)
		      : cuda->driver->cuEventQuery(event);
	if (result == CU_ERROR_NOT_READY)
		return -EAGAIN;
	if (result)
		return sl_cuda_rc(cuda, result, wait ? "cuEventSynchronize" : "cuEventQuery");
	if (queue == SL_DECODES && sl_cuda_codec_check(cuda, done, want))
		return -EBADMSG;
	timeline_reach(in, want);
	timeline_reach(&cuda->progress.queue[SL_COPIES_IN], copy); /* or nobody may ever ask */
	return 0;
}

int
sl_cuda_move_wait(struct cuda *cuda, uint64_t move)
{
	/* An event is recorded again SL_CUDA_MOVES later, after its own end was waited for. */
	int rc = queue_progress(cuda, SL_COPIES_IN, move, 1);

	return atomic_load(&cuda->lost) ? 0 : rc; /* without a context nothing runs any more */
}

int
sl_cuda_fence_query(struct cuda *cuda, struct sl_fence fence)
{
	if (fence.queue == SL_COPIES_IN || fence.queue == SL_DECODES)
		return queue_progress(cuda, (enum sl_move_queue)fence.queue, fence.value, 0);
	/* A completer will tell. */
	return sl_fence_is_done(&cuda->dev, fence) ? 0 : -EAGAIN;
}

static struct cu_stream *
queue_stream(const struct cuda *cuda, unsigned queue)
{
	switch (queue) {
	case SL_COPIES_IN:
		return cuda->moves.in;
	case SL_COPIES_OUT:
		return cuda->moves.out;
	default:
		return queue == SL_ENCODES ? cuda->codec.drains : cuda->codec.decodes;
	}
}

void
sl_cuda_slab_wait(struct cuda *cuda, const struct cuda_slab *slab)
{
	const struct sl_cuda_driver *driver = cuda->driver;

	for (unsigned q = 0; q < SL_QUEUE_COUNT; q++) {
		struct sl_fence fence = sl_fence_make((enum sl_move_queue)q, slab->move[q]);

		/* An event that is recorded again meanwhile only comes later. One that cannot be waited
		 * for says nothing: the stream has to. */
		if (!sl_fence_is_done(&cuda->dev, fence) &&
		    driver->cuEventSynchronize(move_event(cuda, fence)))
			(void)driver->cuStreamSynchronize(queue_stream(cuda, q));
	}
}

int
sl_cuda_fence_gate(struct cuda *cuda, struct cu_stream *stream, struct sl_fence fence)
{
	int rc = 0;

	if (stream != queue_stream(cuda, fence.queue)) /* else it is before it on the stream */
		rc = sl_cuda_fence_query(cuda, fence);
	if (rc != -EAGAIN)
		return rc;
	return CUDA_TRY(cuda, cuStreamWaitEvent, stream, move_event(cuda, fence), 0);
}

int
sl_cuda_move_next(struct cuda *cuda, enum sl_move_queue queue, uint64_t *number)
{
	struct sl_timeline *line = &cuda->progress.queue[queue];

	*number = atomic_load_explicit(&line->issued, memory_order_relaxed) + 1;
	return *number > SL_CUDA_MOVES
		       ? queue_progress(cuda, queue, *number - SL_CUDA_MOVES, 1)
		       : 0;
}

int
sl_cuda_move_number(struct cuda *cuda, enum sl_move_queue queue, uint64_t number,
		    struct cu_stream *stream, struct cuda_slab *slab)
{
	struct sl_fence fence = sl_fence_make(queue, number);
	int rc = CUDA_TRY(cuda, cuEventRecord, move_event(cuda, fence), stream);

	if (rc) {
		(void)cuda->driver->cuStreamSynchronize(stream);
		return rc;
	}
	atomic_store_explicit(&cuda->progress.queue[queue].issued, number,
			      memory_order_release);
	slab->move[queue] = number;
	slab->last = fence;
	return 0;
}

void
sl_cuda_move_ended(struct cuda *cuda, enum sl_move_queue queue, uint64_t number)
{
	struct sl_timeline *line = &cuda->progress.queue[queue];
	uint64_t seen = atomic_load_explicit(&line->done, memory_order_relaxed);

	while (seen < number &&
	       !atomic_compare_exchange_weak_explicit(&line->done, &seen, number,
						      memory_order_release,
						      memory_order_relaxed))
		;
}

/* Note the begin (0) or the end (1) of a copy in, if somebody watches; one that cannot be noted has no
 * time. Lock held. */
static void
in_time(struct cuda *cuda, uint64_t move, int end)
{
	const struct sl_cuda_driver *driver = cuda->driver;
	struct cuda_moves *moves = &cuda->moves;
	unsigned slot = move % SL_CUDA_MOVES;
	struct cu_event **event = &moves->time_event[end][slot];

	if (!atomic_load_explicit(&moves->watched, memory_order_relaxed) ||
	    (end && moves->timed[slot] != move))
		return;
	if ((!*event && driver->cuEventCreate(event, CU_EVENT_PLAIN)) ||
	    driver->cuEventRecord(*event, moves->in))
		move = 0;
	moves->timed[slot] = move;
}

/* Enqueue the copies of bytes, of a frame or (NULL) of zeros. */
static int
in_copy(struct cuda *cuda, const struct cuda_slab *slab, const struct sl_frame *frame,
	uint64_t bytes)
{
	struct cu_stream *stream = cuda->moves.in;
	int rc = 0;

	if (!frame)
		return CUDA_TRY(cuda, cuMemsetD8Async, slab->alias, 0, bytes, stream);
	if (!frame->pieces)
		return CUDA_TRY(cuda, cuMemcpyHtoDAsync, slab->alias, frame->data, bytes,
				stream);
	for (uint64_t at = 0; at < bytes && !rc; at += SL_GRANULE_BYTES)
		rc = CUDA_TRY(cuda, cuMemcpyHtoDAsync, slab->alias + at,
			      frame->pieces[at / SL_GRANULE_BYTES],
			      bytes - at < SL_GRANULE_BYTES ? bytes - at : SL_GRANULE_BYTES,
			      stream);
	if (rc) /* some of it may be on its way */
		(void)cuda->driver->cuStreamSynchronize(stream);
	return rc;
}

int
sl_cuda_move_in_locked(struct cuda *cuda, struct cuda_slab *slab,
		       const struct sl_frame *frame, uint64_t bytes, uint64_t *move)
{
	struct cuda_moves *moves = &cuda->moves;
	uint64_t number;
	int rc = sl_cuda_move_next(cuda, SL_COPIES_IN, &number);

	if (!rc)
		rc = sl_cuda_fence_gate(cuda, moves->in, slab->last);
	if (!rc)
		in_time(cuda, number, 0);
	if (!rc)
		rc = in_copy(cuda, slab, frame, bytes);
	if (!rc) {
		in_time(cuda, number, 1);
		rc = sl_cuda_move_number(cuda, SL_COPIES_IN, number, moves->in, slab);
	}
	if (!rc)
		*move = number;
	return rc;
}

int
sl_cuda_move_in(struct cuda *cuda, struct cuda_slab *slab, const struct sl_frame *frame,
		uint64_t bytes, uint64_t *move)
{
	int rc;

	sl_mutex_lock(&cuda->moves.lock);
	rc = sl_cuda_move_in_locked(cuda, slab, frame, bytes, move);
	sl_mutex_unlock(&cuda->moves.lock);
	return rc;
}

/* A copy in, or a decode, that is watched. */
struct in_watch {
	struct cuda_pending pending; /* first */
	struct cuda *cuda;
	void (*done)(void *cookie, int rc, struct sl_copy_time at);
	void *cookie;
};

/*
 * When copy in number move was on the link. The GPU's clock counts from one watched copy to the next.
 * How far it is behind the host's is the least that was seen: a thread hears of an end late, never
 * early. That least may grow by the drift of the clocks. Lock held.
 */
static struct sl_copy_time
in_time_of(struct cuda *cuda, uint64_t move)
{
	struct cuda_moves *moves = &cuda->moves;
	struct cu_event **begin = moves->time_event[0], **end = moves->time_event[1];
	unsigned slot = move % SL_CUDA_MOVES, last = moves->clock.move % SL_CUDA_MOVES;
	struct sl_copy_time at = {0, 0};
	uint64_t now = sl_now_ns();
	float took = 0, since = 0;
	double behind;

	if (moves->timed[slot] != move ||
	    cuda->driver->cuEventElapsedTime(&took, begin[slot], end[slot]) || took < 0)
		return at;
	if (!moves->clock.move || moves->timed[last] != moves->clock.move ||
	    cuda->driver->cuEventElapsedTime(&since, end[last], end[slot])) {
		moves->clock.gpu_ns = 0;
		moves->clock.behind_ns = (double)now;
	} else {
		moves->clock.gpu_ns += (double)since * 1e6;
		moves->clock.behind_ns += (double)since * 1e6 * CLOCK_DRIFT;
	}
	moves->clock.move = move;
	behind = (double)now - moves->clock.gpu_ns;
	if (behind < moves->clock.behind_ns)
		moves->clock.behind_ns = behind;
	at.end_ns = (uint64_t)(moves->clock.gpu_ns + moves->clock.behind_ns);
	at.begin_ns = at.end_ns - (uint64_t)((double)took * 1e6);
	return at;
}

static void
watch_done(struct cuda_pending *pending, int rc)
{
	struct in_watch *watch = (struct in_watch *)pending;
	struct cuda_moves *moves = &watch->cuda->moves;
	struct sl_copy_time at = {0, 0};

	sl_mutex_lock(&moves->lock);
	if (!rc && pending->number)
		at = in_time_of(watch->cuda, pending->number);
	sl_mutex_unlock(&moves->lock);
	watch->done(watch->cookie, rc, at);
	free(watch);
}

int
sl_cuda_move_watch(struct sl_device *dev, struct sl_fence fence,
		   void (*done)(void *cookie, int rc, struct sl_copy_time at), void *cookie)
{
	struct cuda *cuda = sl_cuda_of(dev);
	int copy = fence.queue == SL_COPIES_IN;
	struct in_watch *watch;

	if (!fence.value || (!copy && fence.queue != SL_DECODES))
		return -ENOTSUP;
	watch = sl_calloc(1, sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	atomic_store(&cuda->moves.watched, 1);
	watch->pending.done = watch_done;
	watch->pending.number = copy ? fence.value : 0;
	/* One that is recorded again meanwhile only comes later. */
	watch->pending.event = move_event(cuda, fence);
	watch->cuda = cuda;
	watch->done = done;
	watch->cookie = cookie;
	sl_cuda_complete(&cuda->streams, copy ? &cuda->moves.in_queue : &cuda->codec.in_queue,
			 &watch->pending);
	return 0;
}

int
sl_cuda_move_events(struct cuda *cuda, struct cu_event **events)
{
	int rc = 0;

	for (unsigned i = 0; i < SL_CUDA_MOVES && !rc; i++)
		rc = CUDA_TRY(cuda, cuEventCreate, &events[i], CU_EVENT_UNTIMED);
	return rc;
}

void
sl_cuda_move_events_destroy(struct cuda *cuda, struct cu_event **events)
{
	for (unsigned i = 0; i < SL_CUDA_MOVES; i++) {
		if (events[i])
			(void)cuda->driver->cuEventDestroy(events[i]);
		events[i] = NULL;
	}
}

int
sl_cuda_move_stream(struct cuda *cuda, struct cu_stream **out)
{
	int least = 0, greatest = 0;
	int rc = CUDA_TRY(cuda, cuCtxGetStreamPriorityRange, &least, &greatest);

	(void)least;
	return rc ? rc
		  : CUDA_TRY(cuda, cuStreamCreateWithPriority, out, CU_STREAM_NONBLOCKING,
			     greatest);
}

/* The stream and events of copies out, in the current context. */
static int
out_create(struct cuda *cuda)
{
	struct cuda_moves *moves = &cuda->moves;
	int rc = sl_cuda_move_stream(cuda, &moves->out);

	if (!rc)
		rc = sl_cuda_move_events(cuda, moves->out_event);
	if (!rc)
		return 0;
	sl_cuda_move_events_destroy(cuda, moves->out_event);
	if (moves->out)
		(void)cuda->driver->cuStreamDestroy(moves->out);
	moves->out = NULL;
	return rc;
}

/* A context of their own for copies out. 0; else the copies do without. */
static int
out_context_create(struct cuda *cuda)
{
	struct cu_context *context, *current;
	size_t free_bytes = 0, total_bytes = 0;
	int rc;

	if (!cuda->driver->cuCtxCreate || !cuda->driver->cuCtxDestroy ||
	    cuda->driver->cuMemGetInfo(&free_bytes, &total_bytes) ||
	    free_bytes < OUT_CONTEXT_BYTES ||
	    cuda->driver->cuCtxCreate(&context, 0, cuda->info.device))
		return -ENOMEM;
	rc = out_create(cuda);
	(void)cuda->driver->cuCtxPopCurrent(&current);
	if (rc)
		(void)cuda->driver->cuCtxDestroy(context);
	else
		cuda->moves.out_context = context;
	return rc;
}

/* For the first copy out. Lock held, context entered. */
static int
out_start(struct cuda *cuda)
{
	if (cuda->moves.out || !out_context_create(cuda))
		return 0;
	return out_create(cuda);
}

void
sl_cuda_outs_start(struct cuda *cuda)
{
	sl_mutex_lock(&cuda->moves.lock);
	sl_ignore(out_start(cuda)); /* the first copy tries again */
	sl_mutex_unlock(&cuda->moves.lock);
}

/* What is enqueued for a copy out. Lock held, the context of copies out current. */
static int
out_enqueue(struct cuda *cuda, struct cuda_slab *slab, char *data, uint64_t bytes,
	    struct sl_fence after, uint64_t number)
{
	struct cuda_moves *moves = &cuda->moves;
	int rc = sl_cuda_fence_gate(cuda, moves->out, after);

	for (uint64_t at = 0; at < bytes && !rc; at += OUT_PIECE_BYTES)
		rc = CUDA_TRY(cuda, cuMemcpyDtoHAsync, data + at, slab->alias + at,
			      bytes - at < OUT_PIECE_BYTES ? bytes - at : OUT_PIECE_BYTES,
			      moves->out);
	if (!rc)
		return sl_cuda_move_number(cuda, SL_COPIES_OUT, number, moves->out, slab);
	(void)cuda->driver->cuStreamSynchronize(moves->out); /* some of it may be on its way */
	return rc;
}

int
sl_cuda_move_out(struct cuda *cuda, struct cuda_slab *slab, void *data, uint64_t bytes,
		 struct sl_fence after, struct cuda_pending *pending)
{
	struct sl_timeline *out = &cuda->progress.queue[SL_COPIES_OUT];
	struct cuda_moves *moves = &cuda->moves;
	struct cu_context *current;
	uint64_t number;
	int rc;

	sl_mutex_lock(&moves->lock);
	rc = out_start(cuda);
	number = atomic_load_explicit(&out->issued, memory_order_relaxed) + 1;
	pending->event = moves->out_event[number % SL_CUDA_MOVES];
	/* The copy out that had this event last. */
	if (!rc && number > SL_CUDA_MOVES &&
	    atomic_load_explicit(&out->done, memory_order_acquire) + SL_CUDA_MOVES < number)
		rc = CUDA_TRY(cuda, cuEventSynchronize, pending->event);
	if (!rc && moves->out_context)
		rc = SL_CUDA(cuda->driver, cuCtxPushCurrent, moves->out_context);
	if (!rc) {
		rc = out_enqueue(cuda, slab, data, bytes, after, number);
		if (moves->out_context)
			(void)cuda->driver->cuCtxPopCurrent(&current);
	}
	if (!rc)
		pending->number = number;
	sl_mutex_unlock(&moves->lock);
	return rc;
}

/* The first memset loads its kernel, which may wait for kernels that run; better now. */
static int
memset_warm(struct cuda *cuda)
{
	uint64_t word;
	int rc = CUDA_TRY(cuda, cuMemAlloc, &word, SL_PAGE_BYTES);

	if (rc)
		return rc;
	rc = CUDA_TRY(cuda, cuMemsetD8Async, word, 0, SL_PAGE_BYTES, cuda->moves.in);
	if (!rc)
		rc = CUDA_TRY(cuda, cuStreamSynchronize, cuda->moves.in);
	(void)cuda->driver->cuMemFree(word);
	return rc;
}

int
sl_cuda_moves_start(struct cuda *cuda)
{
	struct cuda_moves *moves = &cuda->moves;
	int rc = sl_cuda_move_stream(cuda, &moves->in);

	if (!rc)
		rc = memset_warm(cuda);
	if (!rc)
		rc = sl_cuda_move_events(cuda, moves->in_event);
	return rc;
}

void
sl_cuda_moves_stop(struct cuda *cuda)
{
	struct cuda_moves *moves = &cuda->moves;

	if (moves->in)
		(void)cuda->driver->cuStreamSynchronize(moves->in);
	if (moves->out)
		(void)cuda->driver->cuStreamSynchronize(moves->out);
	/* Nobody may ask the events below any more. */
	for (int i = 0; i < SL_QUEUE_COUNT; i++)
		atomic_store(&cuda->progress.queue[i].done,
			     atomic_load(&cuda->progress.queue[i].issued));
	sl_cuda_codec_fini(cuda);
	sl_cuda_move_events_destroy(cuda, moves->in_event);
	sl_cuda_move_events_destroy(cuda, moves->out_event);
	sl_cuda_move_events_destroy(cuda, moves->time_event[0]);
	sl_cuda_move_events_destroy(cuda, moves->time_event[1]);
	if (moves->in)
		(void)cuda->driver->cuStreamDestroy(moves->in);
	if (moves->out)
		(void)cuda->driver->cuStreamDestroy(moves->out);
	if (moves->out_context)
		(void)cuda->driver->cuCtxDestroy(moves->out_context);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's captures and graphs. A captured stream's work goes into its capture, in
 * the order of the calls, and does not run. A graph is that list. A launch of it puts copies of
 * the list into a stream.
 *
 * A capture decides which calls would harm it:
 * - Calls that may wait for the device unseen are refused to its own thread. In GLOBAL mode they
 *   are refused to all threads, unless the calling thread allows them
 *   (cuThreadExchangeStreamCaptureMode).
 * - These are refused to every thread: work that the legacy stream would order with a captured
 *   stream, and waits for or queries of the captured stream, its kind or its context.
 * - A refused call also spoils the capture: ending it gives no graph.
 *
 * A stream that waits for an event of a capture joins it. At the end of the capture the stream that
 * it was begun on must have waited for all that the others did. api_graph.c has graphs made of
 * nodes, nested ones, and changed ones.
 *
 * Threads: any; the.lock.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "preload/api/api_stream.h"

#define INSIDE_MAX  16u /* graphs inside of each other */
#define JOINED_MAX  8u
#define LEFT_MAX    256u /* nodes to look at, in a search */
/* Taken, and nothing: to free at a launch; no kernel here launches a graph; priorities. */
#define FLAGS_TAKEN (1u | 4u | 8u)

struct capture {
	struct capture *next;  /* the.captures */
	struct stream *stream; /* that it was begun on */
	struct stream *joined[JOINED_MAX];
	size_t n_joined;
	uint64_t number;
	const void *thread; /* that began it: address of its mark */
	int mode, invalid;
	struct op *head, **tail;
	size_t n_ops;
	struct cu_graph *into; /* what is captured is added to this graph; NULL: to a new one */
};

static _Thread_local int thread_mode = CU_CAPTURE_MODE_GLOBAL;
static _Thread_local char thread_mark;

static const unsigned char call_is_unsafe[CALL_COUNT] = {
	[CALL_cuCtxSynchronize] = 1,    [CALL_cuMemAddressReserve] = 1,
	[CALL_cuMemAddressFree] = 1,    [CALL_cuMemCreate] = 1,
	[CALL_cuMemRelease] = 1,        [CALL_cuMemMap] = 1,
	[CALL_cuMemUnmap] = 1,          [CALL_cuMemSetAccess] = 1,
	[CALL_cuMemAlloc] = 1,          [CALL_cuMemFree] = 1,
	[CALL_cuMemHostAlloc] = 1,      [CALL_cuMemFreeHost] = 1,
	[CALL_cuMemHostRegister] = 1,   [CALL_cuMemHostUnregister] = 1,
	[CALL_cuStreamSynchronize] = 1, [CALL_cuStreamQuery] = 1,
	[CALL_cuEventQuery] = 1,        [CALL_cuEventSynchronize] = 1,
	[CALL_cuModuleLoadData] = 1,    [CALL_cuModuleUnload] = 1,
};

/* ---- captures ---- */

static int
capture_minds(const struct capture *capture)
{
	int own = capture->thread == &thread_mark;

	if (thread_mode == CU_CAPTURE_MODE_RELAXED || capture->invalid)
		return 0;
	if (own)
		return capture->mode != CU_CAPTURE_MODE_RELAXED;
	return thread_mode == CU_CAPTURE_MODE_GLOBAL &&
	       capture->mode == CU_CAPTURE_MODE_GLOBAL;
}

int
captures_refuse(enum call call)
{
	int minds = 0;

	if (!call_is_unsafe[call])
		return 0;
	for (struct capture *capture = the.captures; capture; capture = capture->next) {
		if (!capture_minds(capture))
			continue;
		capture->invalid = 1;
		minds = 1;
	}
	return minds;
}

int
capture_spoil(struct stream *stream, int code, enum call call, const char *why)
{
	if (stream->capture)
		stream->capture->invalid = 1;
	return violate(code, "%s: %s", call_name(call), why);
}

int
capture_spoil_legacy(struct cu_context *context, enum call call)
{
	struct capture *capture;

	for (capture = the.captures; capture; capture = capture->next) {
		const struct stream *stream = capture->stream;

		if (stream->context != context || (stream->flags & CU_STREAM_NONBLOCKING))
			continue;
		capture->invalid = 1;
		return violate(
			CU_ERROR_STREAM_CAPTURE_IMPLICIT,
			"%s: the legacy stream would wait for one that is being captured",
			call_name(call));
	}
	return 0;
}

int
capture_spoil_all(const struct cu_context *context, enum call call)
{
	int code = 0;

	for (struct capture *capture = the.captures; capture; capture = capture->next) {
		if (capture->stream->context != context || capture->invalid)
			continue;
		capture->invalid = 1;
		code = CU_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return code ? violate(code, "%s: a stream of the context is being captured",
			      call_name(call))
		    : 0;
}

int
capture_spoil_event(const struct event *event, enum call call)
{
	for (struct capture *capture = the.captures; capture; capture = capture->next)
		if (capture->number == event->captured)
			capture->invalid = 1;
	return violate(CU_ERROR_CAPTURED_EVENT,
		       "%s: the event was recorded into a capture", call_name(call));
}

void
capture_record(struct stream *stream, struct event *event)
{
	event->captured = stream->capture->number;
	event->front = stream->front;
}

/* 0, or the event's capture is over, or takes no more. */
static int
capture_join(struct stream *stream, const struct event *event)
{
	struct capture *capture = the.captures;

	while (capture && capture->number != event->captured)
		capture = capture->next;
	if (!capture || capture->invalid || stream == stream->context->legacy ||
	    capture->n_joined == JOINED_MAX)
		return -1;
	capture->joined[capture->n_joined++] = stream;
	stream->capture = capture;
	stream->front.n = 0;
	return 0;
}

int
capture_wait(struct stream *stream, const struct event *event, enum call call)
{
	if (stream->capture && event->captured != stream->capture->number)
		return capture_spoil(stream, CU_ERROR_STREAM_CAPTURE_ISOLATION,
				     call, "a captured stream waits for an event outside of it");
	if (!stream->capture && capture_join(stream, event))
		return capture_spoil_event(event, call);
	for (size_t i = 0; i < event->front.n; i++) {
		size_t k = 0;

		while (k < stream->front.n && stream->front.op[k] != event->front.op[i])
			k++;
		if (k == FRONT_MAX)
			return capture_spoil(stream, CU_ERROR_OUT_OF_MEMORY, call,
					     "waits for more than the stand-in counts");
		if (k == stream->front.n)
			stream->front.op[stream->front.n++] = event->front.op[i];
	}
	return 0;
}

int
capture_add(struct stream *stream, struct op *op)
{
	struct capture *capture = stream->capture;

	if (capture->invalid) {
		op_free(op);
		return CU_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	op_put_behind(op, stream->front.op, stream->front.n);
	stream->front.op[0] = op;
	stream->front.n = 1;
	*capture->tail = op;
	capture->tail = &op->next;
	capture->n_ops++;
	return CU_SUCCESS;
}

static void
ops_free(struct op *op)
{
	while (op) {
		struct op *next = op->next;

		op_free(op);
		op = next;
	}
}

/* Off its streams and the list; what it holds is the caller's. */
static void
capture_remove(struct capture *capture)
{
	struct capture **slot = &the.captures;

	while (*slot != capture)
		slot = &(*slot)->next;
	*slot = capture->next;
	capture->stream->capture = NULL;
	for (size_t i = 0; i < capture->n_joined; i++)
		capture->joined[i]->capture = NULL;
}

void
capture_drop(struct stream *stream)
{
	struct capture *capture = stream->capture;

	if (!capture)
		return;
	capture_remove(capture);
	ops_free(capture->head);
	free(capture);
}

static struct capture *
capture_begin(struct stream *stream, int mode)
{
	struct capture *capture = must_alloc(1, sizeof(*capture));

	capture->stream = stream;
	capture->thread = &thread_mark;
	capture->mode = mode;
	capture->number = ++the.last_capture;
	capture->tail = &capture->head;
	capture->next = the.captures;
	the.captures = capture;
	stream->capture = capture;
	stream->front.n = 0;
	return capture;
}

int
cuThreadExchangeStreamCaptureMode(int *mode)
{
	int code = call_enter(CALL_cuThreadExchangeStreamCaptureMode, NEEDS_INIT, NULL);
	int before = thread_mode;

	if (code)
		return code;
	if (*mode < CU_CAPTURE_MODE_GLOBAL || *mode > CU_CAPTURE_MODE_RELAXED)
		return violate(CU_ERROR_INVALID_VALUE,
			       "cuThreadExchangeStreamCaptureMode: mode %d", *mode);
	thread_mode = *mode;
	*mode = before;
	return CU_SUCCESS;
}

int
cuStreamIsCapturing(struct cu_stream *handle, int *status)
{
	struct cu_context *context;
	struct stream *stream;
	int code = stream_enter(CALL_cuStreamIsCapturing, handle, &context, &stream);

	if (code)
		return code;
	*status = CU_CAPTURE_NONE;
	if (stream->capture)
		*status = stream->capture->invalid ? CU_CAPTURE_INVALIDATED
						   : CU_CAPTURE_ACTIVE;
	for (struct capture *capture = the.captures; capture && stream == context->legacy;
	     capture = capture->next)
		if (capture->stream->context == context &&
		    !(capture->stream->flags & CU_STREAM_NONBLOCKING))
			code = CU_ERROR_STREAM_CAPTURE_IMPLICIT; /* an answer: spoils nothing */
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuStreamBeginCaptureToGraph(struct cu_stream *handle, struct cu_graph *graph,
			    struct cu_graph_node *const *dependencies, const void *edges,
			    size_t n, int mode)
{
	struct cu_context *context;
	struct stream *stream;
	int code = stream_enter(CALL_cuStreamBeginCapture, handle, &context, &stream);

	(void)dependencies; /* nodes run in the order in which they were added */
	(void)edges;
	(void)n;
	if (code)
		return code;
	if (mode < CU_CAPTURE_MODE_GLOBAL || mode > CU_CAPTURE_MODE_RELAXED)
		code = violate(CU_ERROR_INVALID_VALUE, "cuStreamBeginCapture: mode %d", mode);
	else if (graph && !object_find(graph, OBJECT_GRAPH))
		code = violate(CU_ERROR_INVALID_VALUE,
			       "cuStreamBeginCapture: no such graph %p", (void *)graph);
	else if (stream == context->legacy)
		code = violate(CU_ERROR_STREAM_CAPTURE_UNSUPPORTED,
			       "cuStreamBeginCapture: the legacy stream");
	else if (stream->capture)
		code = violate(
			CU_ERROR_ILLEGAL_STATE,
			"cuStreamBeginCapture: the stream is being captured already");
	else
		capture_begin(stream, mode)->into = graph;
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuStreamBeginCapture_v2(struct cu_stream *handle, int mode)
{
	return cuStreamBeginCaptureToGraph(handle, NULL, NULL, NULL, 0, mode);
}

/* The capture's work into the graph where it belongs; that graph. */
static struct graph *
capture_graph(struct capture *capture)
{
	struct graph *graph = capture->into ? (struct graph *)object_find(capture->into,
									  OBJECT_GRAPH)
					    : NULL;

	if (!graph) {
		graph = must_alloc(1, sizeof(*graph));
		object_add(&graph->object, OBJECT_GRAPH);
		the.live.graphs++;
	}
	while (capture->head) {
		struct op *op = capture->head;

		capture->head = op->next;
		op->next = NULL;
		graph_add(graph, op);
	}
	return graph;
}

/* Whether op is one of those that front is behind, however far. */
static int
front_has(const struct front *front, const struct op *op)
{
	const struct op *left[LEFT_MAX];
	size_t n = 0;

	for (size_t i = 0; i < front->n; i++)
		left[n++] = front->op[i];
	while (n) {
		const struct op *at = left[--n];

		if (at == op)
			return 1;
		for (size_t i = 0; i < at->n_before && n < LEFT_MAX; i++)
			left[n++] = at->before[i];
	}
	return 0;
}

/* Whether the stream that the capture was begun on has waited for all that the others did. */
static int
capture_is_joined(const struct capture *capture)
{
	for (size_t i = 0; i < capture->n_joined; i++) {
		const struct front *front = &capture->joined[i]->front;

		for (size_t k = 0; k < front->n; k++)
			if (!front_has(&capture->stream->front, front->op[k]))
				return 0;
	}
	return 1;
}

/* A graph that a spoilt capture was to be added to is gone with it. */
static void
capture_graph_drop(const struct capture *capture)
{
	struct graph *graph = capture->into ? (struct graph *)object_find(capture->into,
									  OBJECT_GRAPH)
					    : NULL;

	if (!graph)
		return;
	the.live.graphs--;
	graph_inside_free(graph);
}

int
cuStreamEndCapture(struct cu_stream *handle, struct cu_graph **out)
{
	struct cu_context *context;
	struct stream *stream;
	int code = stream_enter(CALL_cuStreamEndCapture, handle, &context, &stream);
	struct capture *capture;

	if (code)
		return code;
	capture = stream->capture;
	if (!capture) {
		code = violate(CU_ERROR_ILLEGAL_STATE,
			       "cuStreamEndCapture: the stream is not being captured");
	} else if (capture->mode != CU_CAPTURE_MODE_RELAXED &&
		   capture->thread != &thread_mark) {
		code = violate(CU_ERROR_STREAM_CAPTURE_WRONG_THREAD,
			       "cuStreamEndCapture: another thread began it");
	} else if (stream != capture->stream) {
		code = capture_spoil(stream, CU_ERROR_STREAM_CAPTURE_UNMATCHED,
				     CALL_cuStreamEndCapture,
				     "the capture was begun on another stream");
	} else if (capture->invalid || !capture_is_joined(capture)) {
		*out = NULL;
		code = capture->invalid ? CU_ERROR_STREAM_CAPTURE_INVALIDATED
					: CU_ERROR_STREAM_CAPTURE_UNJOINED;
		capture_graph_drop(capture);
		capture_drop(stream);
	} else {
		*out = (struct cu_graph *)capture_graph(capture)->object.id;
		capture_remove(capture);
		free(capture);
	}
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
stream_capture(void *handle, int on)
{
	struct stream *stream;

	pthread_mutex_lock(&the.lock);
	stream = (struct stream *)object_find(handle, OBJECT_STREAM);
	if (stream)
		capture_drop(stream);
	if (stream && on)
		(void)capture_begin(stream, CU_CAPTURE_MODE_RELAXED);
	pthread_mutex_unlock(&the.lock);
	return stream ? 0 : -1;
}

/* ---- graphs ---- */

struct op *
op_copy_of(const struct op *op)
{
	struct op *copy = op_new(op->kind, op->call);

	copy->to = op->to;
	copy->from = op->from;
	copy->bytes = op->bytes;
	copy->value = op->value;
	copy->value_bytes = op->value_bytes;
	copy->flags = op->flags;
	copy->host_function = op->host_function;
	copy->host_argument = op->host_argument;
	copy->event = op->event;
	if (op->event)
		op->event->refs++;
	if (op->staged) {
		copy->staged = must_alloc(1, op->bytes);
		memcpy(copy->staged, op->staged, op->bytes);
	}
	if (op->launch)
		copy->launch = launch_copy(op->launch);
	if (op->inside) {
		copy->inside = must_alloc(1, sizeof(*copy->inside));
		graph_copy(copy->inside, op->inside);
	}
	copy->origin = op;
	return copy;
}

void
op_put_behind(struct op *op, struct op *const *before, size_t n)
{
	free(op->before);
	op->before = must_alloc(n + 1, sizeof(struct op *));
	for (size_t i = 0; i < n; i++)
		op->before[i] = before[i];
	op->n_before = n;
}

/* The copy of a node in a graph that was copied; NULL: none. */
struct op *
op_of_origin(const struct graph *graph, const void *origin)
{
	struct op *op = graph->head;

	while (op && op->origin != origin)
		op = op->next;
	return op;
}

void
graph_add(struct graph *graph, struct op *op)
{
	struct op **tail = &graph->head;

	while (*tail)
		tail = &(*tail)->next;
	*tail = op;
	graph->n_ops++;
}

void
graph_copy(struct graph *to, const struct graph *from)
{
	struct op **tail = &to->head;

	for (const struct op *op = from->head; op; op = op->next) {
		*tail = op_copy_of(op);
		tail = &(*tail)->next;
	}
	to->n_ops = from->n_ops;
	for (struct op *op = to->head; op; op = op->next) {
		op_put_behind(op, op->origin->before, op->origin->n_before);
		for (size_t i = 0; i < op->n_before; i++)
			op->before[i] = op_of_origin(to, op->before[i]);
	}
}

void
graph_inside_free(struct graph *graph)
{
	if (graph->object.id)
		object_remove(&graph->object);
	ops_free(graph->head);
	free(graph);
}

/* Append copies of the work of a graph with what is inside of it, in order. */
static struct op **
ops_unfold(const struct graph *graph, struct op **tail)
{
	const struct op *behind[INSIDE_MAX], *op = graph->head;
	size_t n = 0;

	while (op || n) {
		if (!op) {
			op = behind[--n];
			continue;
		}
		if (op->inside && n < INSIDE_MAX) {
			behind[n++] = op->next;
			op = op->inside->head;
			continue;
		}
		if (op->kind != OP_EMPTY && op->kind != OP_ALLOC && !op->disabled) {
			*tail = op_copy_of(op);
			tail = &(*tail)->next;
		}
		op = op->next;
	}
	return tail;
}

int
graph_enter(enum call call, const void *handle, enum object_type type, struct graph **graph)
{
	int code = call_enter(call, NEEDS_INIT, NULL);

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	*graph = (struct graph *)object_find(handle, type);
	if (*graph)
		return CU_SUCCESS;
	pthread_mutex_unlock(&the.lock);
	return violate(CU_ERROR_INVALID_VALUE, "%s: no such graph %p", call_name(call),
		       handle);
}

int
cuGraphGetNodes(struct cu_graph *handle, struct cu_graph_node **nodes, size_t *n)
{
	struct graph *graph;
	int code = graph_enter(CALL_cuGraphGetNodes, handle, OBJECT_GRAPH, &graph);
	struct op *op;
	size_t i = 0;

	if (code)
		return code;
	while (nodes && i < *n)
		nodes[i++] = NULL;
	i = graph->n_ops; /* no program may count on an order: the last first */
	for (op = graph->head; op && nodes; op = op->next)
		if (--i < *n)
			nodes[i] = (struct cu_graph_node *)op;
	*n = graph->n_ops;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuGraphInstantiateWithFlags(struct cu_graph_exec **out, struct cu_graph *handle,
			    unsigned long long flags)
{
	struct graph *graph, *exec;
	int code = graph_enter(CALL_cuGraphInstantiate, handle, OBJECT_GRAPH, &graph);

	if (code)
		return code;
	if (flags & ~(unsigned long long)FLAGS_TAKEN) {
		pthread_mutex_unlock(&the.lock);
		return violate(CU_ERROR_INVALID_VALUE,
			       "cuGraphInstantiateWithFlags: flags %#llx", flags);
	}
	exec = must_alloc(1, sizeof(*exec));
	graph_copy(exec, graph);
	*out = (struct cu_graph_exec *)object_add(&exec->object, OBJECT_GRAPH_EXEC);
	the.live.graphs++;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

/* The graph may have been destroyed while the queue was full. */
static void
launch_note(const struct cu_graph_exec *handle, struct stream *stream)
{
	struct graph *exec = (struct graph *)object_find(handle, OBJECT_GRAPH_EXEC);

	if (!exec)
		return;
	if (exec->last.stream)
		stream_put(exec->last.stream);
	stream_get(stream);
	exec->last = (struct point){stream, stream->seq_queued};
}

int
cuGraphLaunch(struct cu_graph_exec *handle, struct cu_stream *stream_handle)
{
	struct cu_context *context;
	struct stream *stream;
	int code = stream_enter(CALL_cuGraphLaunch, stream_handle, &context, &stream);
	struct op *copies = NULL;
	struct graph *exec;

	if (code)
		return code;
	exec = (struct graph *)object_find(handle, OBJECT_GRAPH_EXEC);
	if (!exec)
		code = violate(CU_ERROR_INVALID_VALUE, "cuGraphLaunch: no such graph %p",
			       (void *)handle);
	else if (stream->capture)
		code = capture_spoil(stream, CU_ERROR_STREAM_CAPTURE_UNSUPPORTED,
				     CALL_cuGraphLaunch, "the stream is being captured");
	/* Copies first: a full queue drops the lock. */
	if (!code)
		ops_unfold(exec, &copies);
	/* Launches of one graph follow each other, whatever their streams. */
	if (copies && exec->last.stream)
		op_wait_for(copies, exec->last.stream, exec->last.seq);
	while (copies && !code) {
		struct op *op = copies;

		copies = op->next;
		op->next = NULL;
		code = op->event ? event_op_submit(stream, op) : op_submit(stream, op);
	}
	if (!code)
		launch_note(handle, stream);
	ops_free(copies);
	pthread_mutex_unlock(&the.lock);
	return code;
}

/* Of what is no longer in the table; the lock is given back. */
static int
graph_free(struct graph *graph)
{
	object_remove(&graph->object);
	the.live.graphs--;
	if (graph->last.stream)
		stream_put(graph->last.stream);
	ops_free(graph->head);
	free(graph);
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuGraphExecDestroy(struct cu_graph_exec *handle)
{
	struct graph *exec;
	int code = graph_enter(CALL_cuGraphExecDestroy, handle, OBJECT_GRAPH_EXEC, &exec);

	return code ? code : graph_free(exec);
}

int
cuGraphDestroy(struct cu_graph *handle)
{
	struct graph *graph;
	int code = graph_enter(CALL_cuGraphDestroy, handle, OBJECT_GRAPH, &graph);

	return code ? code : graph_free(graph);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's streams that the back end does not call (stream.c has the others):
 * queries of a stream, other ways to begin a capture, calls whose stream 0 is the thread's own,
 * an event behind all work of a context. Also the queries of a primary context.
 *
 * Threads: any; the.lock.
 */
#include "preload/api/api_stream.h"
#include "api.h"

EXPORT int cuStreamSynchronize_ptsz(struct cu_stream *stream);
EXPORT int cuGraphLaunch_ptsz(struct cu_graph_exec *exec, struct cu_stream *stream);
EXPORT int cuLaunchKernel_ptsz(struct cu_function *function, unsigned grid_x,
			       unsigned grid_y, unsigned grid_z, unsigned block_x,
			       unsigned block_y, unsigned block_z, unsigned shared_bytes,
			       struct cu_stream *stream, void **params, void **extra);

/* ---- the calling thread's stream ---- */

int
cuStreamSynchronize_ptsz(struct cu_stream *stream)
{
	return cuStreamSynchronize(own(stream));
}

int
cuGraphLaunch_ptsz(struct cu_graph_exec *exec, struct cu_stream *stream)
{
	return cuGraphLaunch(exec, own(stream));
}

int
cuLaunchKernel_ptsz(struct cu_function *function, unsigned grid_x, unsigned grid_y,
		    unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
		    unsigned shared_bytes, struct cu_stream *stream, void **params,
		    void **extra)
{
	return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
			      shared_bytes, own(stream), params, extra);
}

int
cuStreamBeginCapture(struct cu_stream *stream)
{
	return cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL);
}

int
cuStreamBeginCapture_ptsz(struct cu_stream *stream)
{
	return cuStreamBeginCapture_v2(own(stream), CU_CAPTURE_MODE_GLOBAL);
}

int
cuStreamBeginCaptureToGraph_ptsz(struct cu_stream *stream, struct cu_graph *graph,
				 struct cu_graph_node *const *dependencies,
				 const void *edges, size_t n, int mode)
{
	return cuStreamBeginCaptureToGraph(own(stream), graph, dependencies, edges, n, mode);
}

int
cuStreamBeginCapture_v2_ptsz(struct cu_stream *stream, int mode)
{
	return cuStreamBeginCapture_v2(own(stream), mode);
}

int
cuStreamEndCapture_ptsz(struct cu_stream *stream, struct cu_graph **graph)
{
	return cuStreamEndCapture(own(stream), graph);
}

/* ---- what a stream is ---- */

/*
 * A captured stream's id and flags are not told, and asking spoils the capture (as a driver 580 does on an
 * H200). What that driver says of the context, and of the legacy stream while another is captured, is not
 * known but for spoilt captures, where it refuses: here it always does.
 */
static int
stream_ask(struct cu_stream *handle, struct stream **stream)
{
	struct cu_context *context;
	int code = stream_enter(CALL_API, handle, &context, stream);

	if (code)
		return code;
	code = stream_observe(*stream, CALL_API);
	if (code)
		pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuStreamGetCtx(struct cu_stream *handle, struct cu_context **out)
{
	struct stream *stream;
	int code = stream_ask(handle, &stream);

	if (code)
		return code;
	*out = stream->context;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuStreamGetId(struct cu_stream *handle, unsigned long long *id)
{
	struct stream *stream;
	int code = stream_ask(handle, &stream);

	if (code)
		return code;
	*id = (uintptr_t)stream->object.id ? (uintptr_t)stream->object.id : (uintptr_t)stream;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuStreamGetFlags(struct cu_stream *handle, unsigned *flags)
{
	struct stream *stream;
	int code = stream_ask(handle, &stream);

	if (code)
		return code;
	*flags = stream->flags;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

/* ---- contexts ---- */

/* As a driver before CUDA 12.5, which has no such call; but a capture in the context minds it. */
int
cuCtxRecordEvent(struct cu_context *context, struct cu_event *event)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);

	(void)event;
	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	code = capture_spoil_all(context, CALL_API);
	pthread_mutex_unlock(&the.lock);
	return code ? code : CU_ERROR_NOT_FOUND;
}

int
cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);

	if (code)
		return code;
	if (device < 0 || device >= the.settings.n_devices)
		return violate(CU_ERROR_INVALID_DEVICE,
			       "cuDevicePrimaryCtxGetState: device %d", device);
	pthread_mutex_lock(&the.lock);
	*flags = 0;
	*active = the.contexts[device].refs > 0;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

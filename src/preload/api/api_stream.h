/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's calls on streams, events and captures, and on contexts: those that this library wraps
 * (PL_EXPORT), and those that it makes itself. As the driver for CUDA 13.0 exports them.
 */
#ifndef SL_PRELOAD_API_STREAM_H
#define SL_PRELOAD_API_STREAM_H

#include "preload/api/driver_api.h"

/* context.c */
PL_EXPORT int cuStreamDestroy(struct cu_stream *stream);
PL_EXPORT int cuStreamDestroy_v2(struct cu_stream *stream);
PL_EXPORT int cuCtxDestroy(struct cu_context *context);
PL_EXPORT int cuCtxDestroy_v2(struct cu_context *context);
PL_EXPORT int cuDevicePrimaryCtxReset(int device);
PL_EXPORT int cuDevicePrimaryCtxReset_v2(int device);
PL_EXPORT int cuDevicePrimaryCtxRelease(int device);
PL_EXPORT int cuDevicePrimaryCtxRelease_v2(int device);

/* capture.c */
/* clang-format off */
PL_BOTH(cuStreamBeginCapture, ptsz, (struct cu_stream *stream));
PL_BOTH(cuStreamBeginCapture_v2, ptsz, (struct cu_stream *stream, int mode));
PL_BOTH(cuStreamBeginCaptureToGraph, ptsz,
	(struct cu_stream *stream, struct cu_graph *graph,
	 struct cu_graph_node *const *dependencies, const void *edges, size_t n, int mode));
PL_BOTH(cuStreamEndCapture, ptsz, (struct cu_stream *stream, struct cu_graph **graph));
/* clang-format on */

/* Called by us, wrapped by nobody. */
int cuStreamIsCapturing(struct cu_stream *stream, int *status);
int cuThreadExchangeStreamCaptureMode(int *mode);
int cuStreamWaitEvent(struct cu_stream *stream, struct cu_event *event, unsigned flags);
int cuStreamGetCtx(struct cu_stream *stream, struct cu_context **context);
int cuStreamGetId(struct cu_stream *stream, unsigned long long *id);
int cuStreamGetFlags(struct cu_stream *stream, unsigned *flags);
int cuEventRecord(struct cu_event *event, struct cu_stream *stream);
int cuEventQuery(struct cu_event *event);
int cuEventSynchronize(struct cu_event *event);
int cuEventDestroy_v2(struct cu_event *event);
int cuCtxRecordEvent(struct cu_context *context, struct cu_event *event);
int cuCtxGetCurrent(struct cu_context **context);
int cuCtxPushCurrent_v2(struct cu_context *context);
int cuCtxPopCurrent_v2(struct cu_context **context);
int cuCtxSynchronize(void);
int cuCtxGetDevice(int *device);
int cuDevicePrimaryCtxRetain(struct cu_context **context, int device);
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's calls that wait for work, or ask whether it is done, as faults.c wraps them. */
#ifndef SL_PRELOAD_API_WAIT_H
#define SL_PRELOAD_API_WAIT_H

#include "preload/api/driver_api.h"

PL_EXPORT int cuCtxSynchronize(void);
PL_EXPORT int cuCtxSynchronize_v2(struct cu_context *context);
/* clang-format off */
PL_BOTH(cuStreamSynchronize, ptsz, (struct cu_stream *stream));
PL_BOTH(cuStreamQuery, ptsz, (struct cu_stream *stream));
/* clang-format on */
PL_EXPORT int cuEventSynchronize(struct cu_event *event);
PL_EXPORT int cuEventQuery(struct cu_event *event);

#endif

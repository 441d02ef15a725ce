/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that are captured into graphs (capture.c).
 *
 * Threads: any.
 */
#ifndef SL_PRELOAD_CAPTURE_H
#define SL_PRELOAD_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "preload/api/driver_api.h"

/* Captures that were begun and not ended, as far as known. atomic: relaxed: pl_capture_relax() asks
 * for the program's captures, which it orders itself. */
extern _Atomic unsigned pl_captures;

/* One was begun at some time. atomic: relaxed: what is captured is launched by who has ended the
 * capture, or is told so by the program. */
extern _Atomic bool pl_captured;

/* Whether work enqueued on the stream would go into a graph, or must not be enqueued because of a
 * capture (legacy stream). One driver call, none while nothing in the process captures. */
bool pl_stream_captures(struct cu_stream *stream, enum pl_default_stream flavour);
/* Number of captures going on in the process. A load. */
int pl_captures_running(void);
int pl_capture_relax_now(void);
void pl_capture_restore_now(int token);

/*
 * Around driver calls of ours on a thread of the program: captures that are going on in GLOBAL mode do
 * not mind them. restore gets what relax returned. A load while nothing captures. Not for the program's
 * own calls: what these would spoil natively they spoil with us.
 */
static inline int
pl_capture_relax(void)
{
	return atomic_load_explicit(&pl_captures, memory_order_relaxed)
		       ? pl_capture_relax_now()
		       : -1;
}

static inline void
pl_capture_restore(int token)
{
	if (token >= 0)
		pl_capture_restore_now(token);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture of a trace's vitality as an SVG file, in three panels: memory alive and in
 * use over the launches, how long tensors are idle, and how large they are beside how
 * long. The file needs no script, no font and no other file, and its size has a bound
 * whatever the trace's.
 *
 * Threads: any; nothing is shared.
 */
#ifndef SL_TOOLS_TRACE_PICTURE_H
#define SL_TOOLS_TRACE_PICTURE_H

#include "base/error.h"
#include "plan/vitality.h"

/* Errors: -ENOMEM, and those of writing path. */
int trace_picture_write(const char *path, const struct sl_trace *trace,
			const struct sl_vitality *vitality) SL_MUST_CHECK;

#endif

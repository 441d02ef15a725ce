/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole files in memory, for readers of traces and plans. Threads: no state.
 */
#ifndef SL_TRACE_TRACE_FILE_H
#define SL_TRACE_TRACE_FILE_H

#include <stddef.h>

#include "base/error.h"

/* Read path (a file, or "-" for standard input; pipes too) to its end; *out is the
 * caller's to free and has a NUL behind its *bytes. Errors: those of opening and
 * reading, -EFBIG above max_bytes, -ENOMEM. Blocks on the file. */
int sl_trace_file_load(const char *path, size_t max_bytes, char **out,
		       size_t *bytes) SL_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of `sluice trace`. Threads: one.
 */
#ifndef SL_TOOLS_CMD_TRACE_H
#define SL_TOOLS_CMD_TRACE_H

#include <stdint.h>

#include "base/error.h"
#include "trace/trace.h"

/* Print the vitality of one period, as a table or as JSON, and draw it to svg if not
 * NULL. */
int trace_vitality_print(const struct sl_trace *trace, uint32_t period, int as_json,
			 const char *svg) SL_MUST_CHECK;

#endif

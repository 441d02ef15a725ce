/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines for people: `SLUICE_LOG=evict=debug,*=warn`. Default *=warn to stderr.
 * Messages are sentences a user can act on. Not on the fault path, not under the space
 * lock.
 */
#ifndef SL_BASE_LOG_H
#define SL_BASE_LOG_H

#include "base/error.h"

enum sl_log_level { SL_ERROR, SL_WARN, SL_INFO, SL_DEBUG, SL_LOG_LEVEL_COUNT };

void sl_log(enum sl_log_level level, const char *area, const char *fmt, ...) SL_PRINTF(3, 4);

/* True when a line of this level and area would be printed. */
int sl_log_enabled(enum sl_log_level level, const char *area);

/* The same message at most once per process ("Nothing silent: said once"). key: static
 * string. */
void sl_log_once(const char *key, enum sl_log_level level, const char *area,
		 const char *fmt, ...) SL_PRINTF(4, 5);

#endif

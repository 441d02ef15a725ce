/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as people write them: "512M", "1.5G", "4096"; K M G T P are powers of 1024. Rounding. */
#ifndef SL_BASE_SIZE_H
#define SL_BASE_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Parse text (whole string; optional fraction; optional suffix K M G T P, optional "B" or
 * "iB" after it). -EINVAL: not a size; -ERANGE: beyond 2^64 - 1. *out untouched on
 * failure. */
int sl_size_parse(const char *text, uint64_t *out) SL_MUST_CHECK;

/* Parse "nanoseconds[:bytes per second]", the latter a size; 0 where it is left out. -EINVAL: not that. */
int sl_delay_parse(const char *text, uint64_t *delay_ns, uint64_t *bytes_per_s) SL_MUST_CHECK;

/* "1.5 GiB" style into buf; returns buf. */
char *sl_size_format(uint64_t bytes, char *buf, size_t buf_bytes);

/* n, or the next multiple of unit above it; unit > 0. No check for overflow. */
static inline uint64_t
sl_round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

#endif

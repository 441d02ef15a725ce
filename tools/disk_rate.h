/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate at which a directory's disk writes and reads large blocks. It is the limit for a
 * demonstration in the same directory and run.
 *
 * Several threads write an unlinked file in 2 MiB blocks with O_DIRECT, then read the data back.
 * Each direction ends with the file or after a time limit. If O_DIRECT is refused, the page
 * cache is used, flushed and dropped, and the result says so.
 *
 * Threads: the caller's and DISK_RATE_THREADS more. Blocks for at most about twice limit_s.
 */
#ifndef SL_TOOLS_DISK_RATE_H
#define SL_TOOLS_DISK_RATE_H

#include <stdint.h>

#include "base/error.h"
#include "progress.h"

#define DISK_RATE_THREADS 4

struct disk_rate {
	double read_bytes_per_s;
	double write_bytes_per_s;
	int direct; /* 0: through the page cache */
};

/* dir: where; bytes: the file's size at most; limit_s: seconds for each direction; progress: begun, is
 * updated. Errors: of opening, writing and reading there, with the directory in the text. */
int disk_rate_measure(const char *dir, uint64_t bytes, double limit_s,
		      struct progress *progress, struct disk_rate *out) SL_MUST_CHECK;

#endif

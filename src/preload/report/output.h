/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output files of a run: statistics, traces. They are written beside the final name and moved
 * there, so that a reader never sees half of one.
 *
 * The name is an option's. %p in it is the number of the process. Without %p the first process
 * to end has the name, and others append their number: no file is written over.
 *
 * Threads: an object is one thread's.
 */
#ifndef SL_PRELOAD_OUTPUT_H
#define SL_PRELOAD_OUTPUT_H

#include "base/error.h"

#define PL_OUTPUT_ROOM 1200 /* the settings' 1024 bytes, and the number of the process */

struct pl_output {
	char path[PL_OUTPUT_ROOM], temporary[PL_OUTPUT_ROOM + 32];
	char final[PL_OUTPUT_ROOM + 16]; /* "": it has none yet; else what it got the last time */
	int is_own;                      /* path is for this process alone */
};

/* Names for pattern with the suffix; write to temporary next. final is looked at: clear it before the first
 * time. 0, -ENAMETOOLONG. */
int pl_output_begin(struct pl_output *output, const char *pattern,
		    const char *suffix) SL_MUST_CHECK;
/* rc 0: the temporary file gets its name, and what ("statistics are") is said of another one than the
 * pattern's; else it is removed. rc, or -errno. */
int pl_output_end(struct pl_output *output, int rc, const char *what) SL_MUST_CHECK;

#endif

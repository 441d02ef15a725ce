/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading trace events, as `sluice run --timeline` writes them, event by event. The file is read
 * through a window of fixed size, so memory does not grow with it. The whole grammar of JSON is
 * checked on the way (json_read.h).
 *
 * What the events mean is the caller's business (report_gather.c). Events of other programs in the
 * same file are passed on as they are.
 *
 *	rc = timeline_open(path, &reader);
 *	while (!rc && (rc = timeline_next(reader, &event)) > 0)
 *		...			rc is 0 after a whole file, else negative
 *	timeline_close(reader);
 *
 * Threads: one reader belongs to one thread.
 */
#ifndef SL_TOOLS_TIMELINE_READ_H
#define SL_TOOLS_TIMELINE_READ_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

#define TIMELINE_TEXT_MAX \
	256 /* bytes of a name, with the zero byte: longer ones are cut */

/* What an event lacks is 0 or "". Texts have no control characters. */
struct timeline_event {
	char phase; /* X: a slice; i: an instant; C: a counter; M: a name; others */
	uint64_t pid, track;
	char category[32], name[TIMELINE_TEXT_MAX];
	uint64_t ns, span_ns;
	/* From "args". */
	char text[TIMELINE_TEXT_MAX]; /* "name": of a track or a process */
	char counter[64];
	int64_t bytes;
	uint64_t address, launch, thread, launches, events;
	uint64_t behind_call_us;
	uint64_t used_bytes, budget_bytes;
};

struct timeline_reader;

/* -EISDIR, -ENOMEM and errors of open(), with a text. */
int timeline_open(const char *path, struct timeline_reader **out) SL_MUST_CHECK;
/* The same of an open file, which is the reader's from here on, also on failure. label: borrowed. */
int timeline_open_file(FILE *file, const char *label,
		       struct timeline_reader **out) SL_MUST_CHECK;
/* 1: *event is the next one; 0: the file is whole. -EINVAL, -E2BIG: it is not JSON, or no file of
 * trace events; -EIO: it cannot be read. The text says where. */
int timeline_next(struct timeline_reader *reader, struct timeline_event *event) SL_MUST_CHECK;
void timeline_close(struct timeline_reader *reader);

#endif

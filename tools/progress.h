/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line on a terminal that shows the progress of long work. Nothing is shown before two
 * seconds, so quick work prints nothing. Nothing is shown at all if standard error is not a
 * terminal, so logs stay clean. The line is rewritten at most five times a second and wiped at
 * the end. Where another program writes to the terminal, too, it is not rewritten: lines of its own
 * come ever more rarely, and stay.
 *
 *	struct progress progress;
 *
 *	progress_begin(&progress, "hotspot");
 *	progress_update(&progress, "generating", 0.25);
 *	progress_end(&progress);
 *
 * Threads: one per line; updates are cheap enough for an inner loop of a millisecond.
 */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include <stdint.h>

struct progress {
	const char *what; /* borrowed until progress_end() */
	uint64_t begin_ns;
	uint64_t shown_ns; /* when the line was last written; 0: not on the screen */
	uint64_t tell_ns;  /* the time that the next line of its own is for */
	int terminal;
};

void progress_begin(struct progress *progress, const char *what);

/* phase: what is being done, NULL for none; fraction: 0 to 1 of this phase. */
void progress_update(struct progress *progress, const char *phase, double fraction);

/* Instead of updates: a line of its own after 2, 4, 8 .. seconds, for work of another program. */
void progress_tell(struct progress *progress, const char *phase);

/* Wipe the line. Safe to call twice. */
void progress_end(struct progress *progress);

#endif

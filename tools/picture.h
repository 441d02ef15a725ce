/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture of where data were over time, and of how fast they moved, as an SVG file.
 *
 * Two panels share one time axis on which the programs follow each other: above, the bytes of
 * the program's arrays by the fastest tier that held them, stacked, with the budgets as dashed
 * lines; below, the bytes moved per second by direction. The file needs no script, no font and
 * no other file, and stays small: samples are gathered into columns.
 *
 * Threads: any; nothing is shared.
 */
#ifndef SL_TOOLS_PICTURE_H
#define SL_TOOLS_PICTURE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "sluice/space.h"

enum picture_move {
	PICTURE_STORE_READ,
	PICTURE_STORE_WRITE,
	PICTURE_TO_DEVICE,
	PICTURE_FROM_DEVICE,
	PICTURE_MOVE_COUNT
};

struct picture_sample {
	uint64_t at_ns;                         /* since the program began; rising */
	uint64_t tier_bytes[SLUICE_TIER_COUNT]; /* now */
	uint64_t moved_bytes[PICTURE_MOVE_COUNT]; /* since the program began; never falling */
};

struct picture_program {
	const char *name;
	const struct picture_sample *samples;
	size_t sample_n; /* at least two, else the program is left out */
	uint64_t device_budget_bytes, host_budget_bytes;
	uint64_t staging_bytes; /* buffers for I/O: what they hold is counted as host memory */
};

/*
 * Write the picture to a stream, which the caller closes: that tells the last errors of writing.
 * about: a line below the title.
 * Errors: -EINVAL (no program has two samples), -EIO (the stream does not take it).
 */
int picture_write(FILE *to, const char *title, const char *about,
		  const struct picture_program *programs, size_t program_n) SL_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line for each row as it ends: its times, and its bytes by cause.
 *
 * Threads: one.
 */
#include "suite.h"

#include <stdio.h>

#include "sluice/sluice.h"

/* Causes that rows tell, by direction. */
static const struct {
	const char *title;
	enum sluice_counter causes[4];
	const char *names[4];
} causes[] = {
	{"to the device",
	 {SLUICE_COUNTER_H2D_LAUNCH, SLUICE_COUNTER_H2D_FAULT,
	  SLUICE_COUNTER_H2D_PREFETCH, SLUICE_COUNTER_H2D_CPU},
	 {"launch", "fault", "prefetch", "host code"}},
	{"from the device",
	 {SLUICE_COUNTER_D2H_EVICT, SLUICE_COUNTER_D2H_REQUEST, SLUICE_COUNTER_D2H_SYNC,
	  SLUICE_COUNTER_COUNT},
	 {"evict", "request", "sync", NULL}},
	{"not moved",
	 {SLUICE_COUNTER_CLEAN_DROP, SLUICE_COUNTER_DISCARD_SAVED,
	  SLUICE_COUNTER_ZERO_FILL, SLUICE_COUNTER_COUNT},
	 {"clean", "dead", "zeros", NULL}},
	{"read from files",
	 {SLUICE_COUNTER_STORE_READ_DEMAND, SLUICE_COUNTER_STORE_READ_AHEAD,
	  SLUICE_COUNTER_STORE_READ_PREFETCH, SLUICE_COUNTER_COUNT},
	 {"demand", "ahead", "prefetch", NULL}},
	{"written to files",
	 {SLUICE_COUNTER_STORE_WRITE_BACK, SLUICE_COUNTER_STORE_WRITE_SYNC,
	  SLUICE_COUNTER_STORE_WRITE_SPILL, SLUICE_COUNTER_COUNT},
	 {"back", "sync", "spill", NULL}},
};

#define DIRECTIONS (sizeof(causes) / sizeof(causes[0]))

/* "launch 12.0, fault 3.5" in MiB; "-": nothing. */
static void
causes_print(FILE *to, const struct suite_row *row, unsigned direction)
{
	unsigned printed = 0;

	for (unsigned i = 0; i < 4; i++) {
		enum sluice_counter counter = causes[direction].causes[i];
		uint64_t bytes;

		if (counter == SLUICE_COUNTER_COUNT)
			break;
		bytes = row->after.counter[counter];
		if (!bytes)
			continue;
		fprintf(to, "%s%s %.1f", printed++ ? ", " : "",
			causes[direction].names[i], (double)bytes / 0x1p20);
	}
	if (printed)
		return;
	/* The page cache moves by itself: the system's count, by no cause. */
	if (row->variant == SUITE_MMAP && direction == 3 && row->read_bytes)
		fprintf(to, "the system %.1f", (double)row->read_bytes / 0x1p20);
	else if (row->variant == SUITE_MMAP && direction == 4 && row->write_bytes)
		fprintf(to, "the system %.1f", (double)row->write_bytes / 0x1p20);
	else if (direction == 0 && row->h2d_bytes) /* copied without a space */
		fprintf(to, "by hand %.1f", (double)row->h2d_bytes / 0x1p20);
	else if (direction == 1 && row->d2h_bytes)
		fprintf(to, "by hand %.1f", (double)row->d2h_bytes / 0x1p20);
	else
		fputs("-", to);
}

static const char *
verdict_text(const struct suite_row *row)
{
	switch (row->verdict) {
	case WORKLOAD_VERIFIED:
		return "equal";
	case WORKLOAD_WRONG:
		return "WRONG";
	case WORKLOAD_NOT_VERIFIED:
	case WORKLOAD_VERDICT_COUNT:
		return "not compared";
	}
	return "";
}

void
suite_row_print(const struct suite_row *row)
{
	FILE *to = stderr;

	fprintf(to, "%s %s %s %s: ", suite_part_names[row->part], row->workload,
		row->point, suite_variant_names[row->variant]);
	if (row->status != SUITE_DONE) {
		fprintf(to, "%s: %s\n", suite_status_names[row->status], row->error);
		return;
	}
	fprintf(to, "%.3f s, kernels and moves %.3f s, %s; MiB", row->total_s, row->run_s,
		verdict_text(row));
	for (unsigned d = 0; d < DIRECTIONS; d++) {
		fprintf(to, "%s %s: ", d ? ";" : "", causes[d].title);
		causes_print(to, row, d);
	}
	fputc('\n', to);
}

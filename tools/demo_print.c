/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The results of `sluice demo` on stdout: a table with one column for each program, or one JSON
 * object.
 *
 * Both take all they print from struct demo and change nothing in it; ratios of the measured
 * times are made in one place for both. One function gives a program's cell of each row. Bytes
 * moved get one row for each cause that moved any.
 *
 * Leaves flushing, and noticing that stdout cannot be written, to cmd_demo.c.
 *
 * Threads: one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/size.h"
#include "demo.h"
#include "json.h"
#include "sluice/sluice.h"
#include "workload.h"

static double
seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static double
speedup(const struct program *program)
{
	return program->mmap_rc || !program->ours.total_ns
		       ? 0
		       : (double)program->mmap.total_ns / (double)program->ours.total_ns;
}

static double
files_s(const struct program *program)
{
	return seconds(program->ours.generate_ns + program->mmap.generate_ns);
}

static double
disk_fraction(const struct program *program)
{
	return program->ours.total_ns ? program->disk_s / seconds(program->ours.total_ns)
				      : 0;
}

/* Rows of the table that are not of a counter. */
enum row {
	ROW_FOOTPRINT,
	ROW_OVER_DEVICE,
	ROW_OVER_BOTH,
	ROW_TIME,
	ROW_MMAP_TIME,
	ROW_SPEEDUP,
	ROW_SAME,
	ROW_DISK,
	ROW_MISSES,
	ROW_FILES,
	ROW_COMPARE,
};

/* One program's cell of a row. */
static void
cell_text(const struct demo *demo, const struct program *program, enum row row,
	  char *text, size_t bytes)
{
	double footprint = (double)program->plan.footprint_bytes;
	uint64_t memory = demo->device_bytes + demo->host_bytes;

	switch (row) {
	case ROW_FOOTPRINT:
		sl_size_format(program->plan.footprint_bytes, text, bytes);
		return;
	case ROW_OVER_DEVICE:
		snprintf(text, bytes, "%.1f x", footprint / (double)demo->device_bytes);
		return;
	case ROW_OVER_BOTH:
		snprintf(text, bytes, "%.1f x", footprint / (double)memory);
		return;
	case ROW_TIME:
		snprintf(text, bytes, "%.2f s", seconds(program->ours.total_ns));
		return;
	case ROW_MMAP_TIME:
		if (program->mmap_rc)
			snprintf(text, bytes, "failed");
		else
			snprintf(text, bytes, "%.2f s", seconds(program->mmap.total_ns));
		return;
	case ROW_SPEEDUP:
		if (program->mmap_rc)
			snprintf(text, bytes, "-");
		else
			snprintf(text, bytes, "%.2f x", speedup(program));
		return;
	case ROW_SAME:
		snprintf(text, bytes, "%s",
			 !program->compared ? "not compared"
			 : program->same    ? "yes"
					    : "NO");
		return;
	case ROW_DISK:
		/* The disk's rate is a sample: a faster program has reached it. */
		if (disk_fraction(program) >= 1)
			snprintf(text, bytes, "at the disk's rate");
		else
			snprintf(text, bytes, "%.0f %%", 100 * disk_fraction(program));
		return;
	case ROW_MISSES:
		snprintf(text, bytes, "%" PRIu64,
			 program->ours.after.counter[SLUICE_COUNTER_MISSES]);
		return;
	case ROW_FILES:
		snprintf(text, bytes, "%.2f s", files_s(program));
		return;
	case ROW_COMPARE:
		snprintf(text, bytes, "%.2f s", seconds(program->compare_ns));
		return;
	}
}

static void
print_row(const struct demo *demo, const char *name, enum row row)
{
	char text[64];

	printf("%-34s", name);
	for (size_t i = 0; i < PROGRAM_N; i++) {
		cell_text(demo, &demo->programs[i], row, text, sizeof(text));
		printf(" %18s", text);
	}
	putchar('\n');
}

/* Bytes moved, one row for each cause that moved any. */
static void
print_moves(const struct demo *demo)
{
	char text[64];

	for (int i = 0; i < SLUICE_COUNTER_COUNT; i++) {
		enum sluice_counter counter = (enum sluice_counter)i;
		uint64_t sum = 0;

		if (strcmp(sluice_counter_unit(counter), "bytes") != 0)
			continue;
		for (size_t at = 0; at < PROGRAM_N; at++)
			sum += demo->programs[at].ours.after.counter[i];
		if (!sum)
			continue;
		printf("  %-32s", sluice_counter_name(counter));
		for (size_t at = 0; at < PROGRAM_N; at++)
			printf(" %18s",
			       sl_size_format(demo->programs[at].ours.after.counter[i],
					      text, sizeof(text)));
		printf("   %s\n", sluice_counter_text(counter));
	}
}

void
demo_print_table(const struct demo *demo)
{
	char device[32], host[32], staging[32], limit[32];

	sl_size_format(demo->device_bytes, device, sizeof(device));
	sl_size_format(demo->host_bytes, host, sizeof(host));
	sl_size_format(demo->staging_bytes, staging, sizeof(staging));
	sl_size_format(demo->limit_bytes, limit, sizeof(limit));
	printf("device memory %s, host memory %s, buffers for I/O %s; software device\n",
	       device, host, staging);
	printf("disk: reads %.2f GB/s, writes %.2f GB/s (%s, measured now)\n\n",
	       demo->disk.read_bytes_per_s / 1e9, demo->disk.write_bytes_per_s / 1e9,
	       demo->disk.direct ? "O_DIRECT" : "page cache");
	if (demo->limited)
		printf("mmap: in a memory group of %s, as much as Sluice has\n\n", limit);
	else
		printf("mmap: had ALL memory, since no memory group can be made for it "
		       "(%s).\nIts times are those of a machine with enough memory, so "
		       "they are no comparison.\n\n",
		       demo->limit_error);

	printf("%-34s", "");
	for (size_t i = 0; i < PROGRAM_N; i++)
		printf(" %18s", demo->programs[i].workload->name);
	putchar('\n');
	print_row(demo, "data in files", ROW_FOOTPRINT);
	print_row(demo, "  over device memory", ROW_OVER_DEVICE);
	print_row(demo, "  over device and host memory", ROW_OVER_BOTH);
	print_row(demo, "time with Sluice", ROW_TIME);
	if (demo->limited) {
		print_row(demo, "time with mmap", ROW_MMAP_TIME);
		print_row(demo, "time with mmap over Sluice's", ROW_SPEEDUP);
	} else {
		print_row(demo, "time with mmap and all memory", ROW_MMAP_TIME);
	}
	print_row(demo, "same result, byte for byte", ROW_SAME);
	print_row(demo, "fraction of the disk's rate", ROW_DISK);
	print_row(demo, "misses", ROW_MISSES);
	puts("bytes by cause");
	print_moves(demo);
	putchar('\n');
	puts("seconds of each step");
	print_row(demo, "  making the files", ROW_FILES);
	print_row(demo, "  with Sluice", ROW_TIME);
	print_row(demo, "  with mmap", ROW_MMAP_TIME);
	print_row(demo, "  comparing the results", ROW_COMPARE);
	printf("  measuring the disk %.2f s, everything %.2f s\n\n",
	       seconds(demo->disk_ns), seconds(sl_now_ns() - demo->begin_ns));
	for (size_t i = 0; i < PROGRAM_N; i++)
		if (demo->programs[i].mmap_rc)
			printf("%s over mmap: %s\n", demo->programs[i].workload->name,
			       demo->programs[i].mmap_error);
	if (demo->picture_rc)
		printf("picture: none: %s\n", demo->picture_error);
	else
		printf("picture: %s\n", demo->picture);
}

static void
json_program(struct json *json, const struct program *program)
{
	json_object(json, NULL);
	json_string(json, "name", program->workload->name);
	json_u64(json, "footprint_bytes", program->plan.footprint_bytes);
	json_double(json, "time_s", seconds(program->ours.total_ns));
	if (program->mmap_rc) {
		json_string(json, "mmap_error", program->mmap_error);
	} else {
		json_double(json, "mmap_time_s", seconds(program->mmap.total_ns));
		json_double(json, "speedup", speedup(program));
	}
	if (program->compared)
		json_bool(json, "same_result", program->same);
	else
		json_null(json, "same_result");
	json_double(json, "disk_fraction", disk_fraction(program));
	json_double(json, "files_s", files_s(program));
	json_double(json, "compare_s", seconds(program->compare_ns));
	json_u64(json, "device_peak_bytes",
		 program->ours.after.resident_peak_bytes[SLUICE_TIER_DEVICE]);
	json_u64(json, "host_peak_bytes",
		 program->ours.after.resident_peak_bytes[SLUICE_TIER_HOST]);
	json_u64(json, "samples", program->sampler.sample_n);
	json_object(json, "counters");
	for (int i = 0; i < SLUICE_COUNTER_COUNT; i++)
		json_u64(json, sluice_counter_name((enum sluice_counter)i),
			 program->ours.after.counter[i]);
	json_close(json);
	json_close(json);
}

void
demo_print_json(const struct demo *demo)
{
	struct json json;

	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_string(&json, "version", sluice_version());
	json_u64(&json, "device_budget_bytes", demo->device_bytes);
	json_u64(&json, "host_budget_bytes", demo->host_bytes);
	json_u64(&json, "staging_bytes", demo->staging_bytes);
	json_double(&json, "disk_read_bytes_per_s", demo->disk.read_bytes_per_s);
	json_double(&json, "disk_write_bytes_per_s", demo->disk.write_bytes_per_s);
	json_bool(&json, "disk_direct", demo->disk.direct);
	if (demo->limited)
		json_u64(&json, "mmap_limit_bytes", demo->limit_bytes);
	else
		json_null(&json, "mmap_limit_bytes");
	json_array(&json, "programs");
	for (size_t i = 0; i < PROGRAM_N; i++)
		json_program(&json, &demo->programs[i]);
	json_close(&json);
	json_double(&json, "measure_s", seconds(demo->disk_ns));
	json_double(&json, "all_s", seconds(sl_now_ns() - demo->begin_ns));
	if (demo->picture_rc)
		json_string(&json, "picture_error", demo->picture_error);
	else
		json_string(&json, "picture", demo->picture);
	json_end(&json);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice report` on a terminal. Everything fits the width: sentences are broken, names are cut,
 * and where the terminal is narrow tables have fewer columns. Threads: one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "report.h"

#define WIDE     72 /* columns, from here on tables have all of theirs */
#define BAR_MOST 24

/* Columns of a text, by its characters. */
static int
text_columns(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

/* Cut at the width, which the last character shows. */
static void
cut_put(const char *text, int width)
{
	int n = 0, is_cut = text_columns(text) > width;

	for (; *text; text++) {
		n += ((unsigned char)*text & 0xc0) != 0x80;
		if (is_cut && n == width) {
			putchar('~');
			return;
		}
		putchar(*text);
	}
}

/* Words in lines of the width, each behind the indent. */
static void
words_put(const char *text, int indent, int width)
{
	int at = 0;

	while (*text) {
		int n = (int)strcspn(text, " ");

		if (at && at + 1 + n > width - indent) {
			putchar('\n');
			at = 0;
		}
		printf("%*s%.*s", at ? 1 : indent, "", n, text);
		at += n + (at != 0);
		text += n + (text[n] == ' ');
	}
	putchar('\n');
}

static void
parts_put(const struct report *report, const struct report_gpu *gpu, int width)
{
	for (int part = 0; part < REPORT_PARTS; part++) {
		double share = report_share(report, gpu->part_ns[part]);

		printf("  %-18s%10.3f s %5.1f %%", report_part_name((enum report_part)part),
		       (double)gpu->part_ns[part] / 1e9, share);
		if (width >= WIDE && share >= 50.0 / BAR_MOST)
			printf("  %.*s", (int)(share / 100 * BAR_MOST + 0.5),
			       "########################");
		putchar('\n');
	}
	printf("  %-18s%10.3f s %5.1f %%\n", "whole",
	       (double)report_whole_ns(report) / 1e9, 100.0);
}

static void
ways_put(const struct report *report, const struct report_gpu *gpu, int width)
{
	char bytes[32];
	int any = 0;

	for (int way = 0; way < REPORT_WAYS; way++)
		any |= gpu->ways[way].moves > 0;
	if (!any) {
		puts("\n  Nothing moved.");
		return;
	}
	if (width >= WIDE)
		printf("\n  %-14s%12s%10s%12s%14s%14s\n", "", "moved", "moves", "busy",
		       "GB/s, busy", "GB/s, whole");
	else
		printf("\n  %-14s%12s%11s\n", "", "moved", "GB/s");
	for (int way = 0; way < REPORT_WAYS; way++) {
		const struct report_way_sum *sum = &gpu->ways[way];
		double busy = report_rate(sum->bytes, sum->busy_ns) / 1e9;

		if (!sum->moves)
			continue;
		sl_size_format(sum->bytes, bytes, sizeof(bytes));
		printf("  %-14s%12s", report_way_name((enum report_way)way), bytes);
		if (width >= WIDE)
			printf("%10" PRIu64 "%10.3f s%14.3f%14.3f\n", sum->moves,
			       (double)sum->busy_ns / 1e9, busy,
			       report_rate(sum->bytes, report_whole_ns(report)) / 1e9);
		else
			printf("%11.3f\n", busy);
	}
}

static void
memory_put(const struct report_gpu *gpu)
{
	static const char *const names[SLUICE_TIER_COUNT] = {"device memory",
							     "host memory", "on disk"};
	char used[32], budget[32];

	printf("\n  %-14s%12s%12s\n", "", "at most", "budget");
	for (int tier = 0; tier < SLUICE_TIER_COUNT; tier++)
		printf("  %-14s%12s%12s\n", names[tier],
		       sl_size_format(gpu->used_most[tier], used, sizeof(used)),
		       gpu->budget[tier]
			       ? sl_size_format(gpu->budget[tier], budget, sizeof(budget))
			       : "-");
}

static void
functions_put(const struct report *report, int width)
{
	size_t n = report->n_functions < REPORT_FIRST ? report->n_functions : REPORT_FIRST;
	char bytes[32];

	if (!n)
		return;
	printf("\nFunctions that cost most:\n  ");
	if (width >= WIDE)
		printf("%9s%11s%11s%11s  %s\n", "calls", "waited s", "ran s", "copied in",
		       "function");
	else
		printf("%11s%11s%11s\n", "waited s", "ran s", "copied in");
	for (size_t i = 0; i < n; i++) {
		const struct report_function *f = &report->functions[i];

		sl_size_format(f->in_bytes, bytes, sizeof(bytes));
		fputs("  ", stdout);
		if (width >= WIDE) {
			printf("%9" PRIu64, f->calls);
		} else {
			cut_put(f->name, width - 2);
			fputs("\n  ", stdout);
		}
		printf("%11.3f%11.3f%11s", (double)f->waited_ns / 1e9,
		       (double)f->busy_ns / 1e9, bytes);
		if (width >= WIDE) {
			fputs("  ", stdout);
			cut_put(f->name, width - 46);
		}
		putchar('\n');
	}
	if (report->n_functions > n)
		printf("  and %zu more\n", report->n_functions - n);
}

static void
chunks_put(const struct report *report, int width)
{
	char in[32], out[32];

	if (!report->n_most_moved)
		return;
	printf("\nAddresses that moved most:\n");
	words_put("(The timeline names no allocations; programs reuse addresses.)", 2, width);
	printf("  %-16s%10s%10s", "", "in", "out");
	puts(width >= WIDE ? "     moves" : "");
	for (size_t i = 0; i < report->n_most_moved; i++) {
		const struct report_chunk *chunk = &report->most_moved[i];

		printf("  0x%-14" PRIx64 "%10s%10s", chunk->address,
		       sl_size_format(chunk->in_bytes, in, sizeof(in)),
		       sl_size_format(chunk->out_bytes, out, sizeof(out)));
		if (width >= WIDE)
			printf("%10" PRIu64, chunk->moves);
		putchar('\n');
	}
}

static void
plan_put(const struct report_plan *plan, int width)
{
	char size[32];

	if (!plan->given)
		return;
	printf("\nA step, by the plan of its trace:\n");
	for (uint32_t i = 0; i < plan->n_sizes; i++) {
		const struct report_size *s = &plan->sizes[i];

		printf("  %12s", sl_size_format(s->device_bytes, size, sizeof(size)));
		if (s->seconds < 0)
			printf("%14s", "cannot run");
		else
			printf("%12.4g s", s->seconds);
		puts(s->device_bytes == plan->own_bytes ? "  <- this run" : "");
	}
	printf("  %12s%12.4g s\n", "unlimited", plan->unlimited_s);
	words_put("The plan knows all launches beforehand: a run can be slower.", 2, width);
}

static void
head_put(const struct report *report, int width)
{
	char text[200];

	printf("Program:  ");
	cut_put(report->process[0] ? report->process : "?", width - 10);
	printf("\nTimeline: ");
	cut_put(report->path, width - 10);
	printf("\nTime:     %.3f s\n", (double)report_whole_ns(report) / 1e9);
	report_end_text(report, text, sizeof(text));
	if (text[0])
		words_put(text, 0, width);
	if (report->untimed_launches) {
		snprintf(text, sizeof(text),
			 "%" PRIu64 " launches have no time on the timeline: kernels "
			 "took longer, and "
			 "waits less, than it says here.",
			 report->untimed_launches);
		words_put(text, 0, width);
	}
	if (report->lost_events) {
		snprintf(text, sizeof(text),
			 "%" PRIu64 " events were lost: sums are too small.",
			 report->lost_events);
		words_put(text, 0, width);
	}
}

void
report_text_print(const struct report *report, int width)
{
	head_put(report, width);
	for (int i = 0; i < REPORT_GPUS_MAX; i++) {
		const struct report_gpu *gpu = report->gpus[i];

		if (!gpu)
			continue;
		printf("\nGPU %d: bound by %s\n", i, report_binding_name(gpu));
		parts_put(report, gpu, width);
		ways_put(report, gpu, width);
		memory_put(gpu);
	}
	functions_put(report, width);
	chunks_put(report, width);
	plan_put(&report->plan, width);
	printf("\nWhat to change:\n");
	for (size_t i = 0; i < report->n_advice; i++)
		words_put(report->advice[i].text, 2, width);
}

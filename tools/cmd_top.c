/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice top`: all programs under Sluice, again and again: what they have in each tier, and what they
 * move a second. On a terminal the screen is rewritten and lines are cut at its edge; elsewhere tables
 * follow each other. A rate needs two looks, so the first table comes after one interval.
 *
 * Threads: one.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "commands.h"
#include "json.h"
#include "sluice/sluice.h"
#include "stat.h"

#define COLUMNS_MIN 20

static const char top_help[] =
	"Usage: sluice top [--json] [--interval S] [--count N]\n"
	"\n"
	"Show all programs whose counters can be read, those with the most traffic "
	"first:\n"
	"their bytes in each tier, and what moves a second. See sluice-stat(1) for "
	"which\n"
	"programs these are. Ends at Ctrl-C.\n"
	"\n"
	"Options:\n"
	"      --json        print one JSON object per table\n"
	"      --interval S  seconds from table to table (0.1 to 86400; 2)\n"
	"      --count N     end after N tables (default: 1 if standard output is no "
	"terminal)\n"
	"  -h, --help        print this and exit\n";

struct options {
	int as_json;
	double interval_s;
	uint64_t count; /* 0: no end */
};

/* All spaces at one moment. */
struct look {
	struct stat_sample *samples;
	size_t n;
	size_t silent; /* more than these did not answer */
};

/* One line: rates are bytes a second but for those in events. */
struct line {
	const struct stat_sample *now;
	double in, out, disk_in, disk_out, faults, waits;
};

static volatile sig_atomic_t interrupted;

static void
interrupt_note(int number)
{
	(void)number;
	interrupted = 1;
}

/* ---- looking ---- */

static void
look_fini(struct look *look)
{
	for (size_t i = 0; i < look->n; i++)
		stat_sample_fini(&look->samples[i]);
	free(look->samples);
	memset(look, 0, sizeof(*look));
}

/* 0 or -errno with a text. */
static int
look_take(struct look *look)
{
	SL_CLEANUP(free)
	struct stat_target *targets = calloc(STAT_TARGETS_MAX, sizeof(*targets));
	int n;

	memset(look, 0, sizeof(*look));
	if (!targets)
		return sl_fail(-ENOMEM, "out of memory");
	n = stat_targets_find(0, targets);
	if (n < 0)
		return sl_fail(n, "/proc/net/unix: %s", strerror(-n));
	look->samples = calloc((size_t)n + 1, sizeof(*look->samples));
	if (!look->samples)
		return sl_fail(-ENOMEM, "out of memory");
	for (int i = 0; i < n; i++) {
		struct stat_sample *sample = &look->samples[look->n];

		if (!stat_target_sample(&targets[i], sample, 0)) {
			look->n++;
			continue;
		}
		stat_sample_fini(sample); /* ended just now, stopped, or another user's */
		look->silent++;
	}
	return 0;
}

static const struct stat_sample *
sample_find(const struct look *look, const struct stat_sample *like)
{
	for (size_t i = 0; i < look->n; i++)
		if (look->samples[i].pid == like->pid && look->samples[i].space == like->space)
			return &look->samples[i];
	return NULL;
}

/* Counters restart when the program resets them: no rate then. */
static double
rate(uint64_t now, uint64_t before, double seconds)
{
	return seconds > 0 && now >= before ? (double)(now - before) / seconds : 0;
}

static void
line_make(struct line *line, const struct stat_sample *now, const struct stat_sample *before)
{
	const struct sluice_stats *a, *b = &now->stats;
	double seconds;

	memset(line, 0, sizeof(*line));
	line->now = now;
	if (!before)
		return;
	a = &before->stats;
	seconds = (double)(now->now_ns - before->now_ns) / 1e9;
	line->in = rate(sluice_stats_h2d_bytes(b), sluice_stats_h2d_bytes(a), seconds);
	line->out = rate(sluice_stats_d2h_bytes(b), sluice_stats_d2h_bytes(a), seconds);
	line->disk_in = rate(sluice_stats_store_read_bytes(b),
			     sluice_stats_store_read_bytes(a), seconds);
	line->disk_out = rate(sluice_stats_store_write_bytes(b),
			      sluice_stats_store_write_bytes(a), seconds);
	line->faults = rate(b->counter[SLUICE_COUNTER_FAULTS] +
				    b->counter[SLUICE_COUNTER_CPU_FAULTS],
			    a->counter[SLUICE_COUNTER_FAULTS] +
				    a->counter[SLUICE_COUNTER_CPU_FAULTS],
			    seconds);
	line->waits = rate(b->counter[SLUICE_COUNTER_WAITS_IN_FLIGHT],
			   a->counter[SLUICE_COUNTER_WAITS_IN_FLIGHT], seconds);
}

static int
line_order(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	double of_x = x->in + x->out + x->disk_in + x->disk_out;
	double of_y = y->in + y->out + y->disk_in + y->disk_out;

	if (of_x != of_y)
		return of_x > of_y ? -1 : 1;
	if (x->now->pid != y->now->pid)
		return x->now->pid < y->now->pid ? -1 : 1;
	return x->now->space < y->now->space ? -1 : x->now->space > y->now->space;
}

/* ---- printing ---- */

/* Columns of standard output, if it is a terminal; 0: it is none. */
static int
columns(void)
{
	return isatty(STDOUT_FILENO) ? command_columns(COLUMNS_MIN) : 0;
}

/* Cut at width; 0: whole. */
static void
text_put(const char *text, int width)
{
	if (width)
		printf("%.*s\n", width, text);
	else
		puts(text);
}

static void
rate_text(double value, char *buf, size_t buf_bytes)
{
	if (value < 1)
		snprintf(buf, buf_bytes, "-");
	else
		sl_size_format((uint64_t)value, buf, buf_bytes);
}

static void
line_put(const struct line *line, int width)
{
	const struct sluice_stats *stats = &line->now->stats;
	char size[4][32], moved[4][32], device[80], gpu[16], text[512];

	snprintf(gpu, sizeof(gpu), "-");
	if (line->now->device && !strcmp(line->now->device, "cuda"))
		snprintf(gpu, sizeof(gpu), "%" PRIu64, line->now->device_number);
	sl_size_format(stats->resident_bytes[SLUICE_TIER_DEVICE], size[0], sizeof(size[0]));
	sl_size_format(stats->budget_bytes[SLUICE_TIER_DEVICE], size[1], sizeof(size[1]));
	sl_size_format(stats->resident_bytes[SLUICE_TIER_HOST], size[2], sizeof(size[2]));
	sl_size_format(stats->resident_bytes[SLUICE_TIER_STORE], size[3], sizeof(size[3]));
	rate_text(line->in, moved[0], sizeof(moved[0]));
	rate_text(line->out, moved[1], sizeof(moved[1]));
	rate_text(line->disk_in, moved[2], sizeof(moved[2]));
	rate_text(line->disk_out, moved[3], sizeof(moved[3]));
	snprintf(device, sizeof(device), "%s of %s", size[0], size[1]);
	snprintf(text, sizeof(text),
		 "%8" PRIu64
		 " %-15.15s %3s %22s %10s %10s %10s %10s %10s %10s %9.0f %7.0f",
		 line->now->pid, line->now->command, gpu, device, size[2], size[3],
		 moved[0], moved[1], moved[2], moved[3], line->faults, line->waits);
	text_put(text, width);
}

static void
table_put(const struct look *look, const struct line *lines)
{
	char text[256];
	int width = columns();

	if (width)
		fputs("\033[H\033[J", stdout); /* from the top of an empty screen */
	snprintf(text, sizeof(text),
		 "%8s %-15s %3s %22s %10s %10s %10s %10s %10s %10s %9s %7s", "PID",
		 "COMMAND", "GPU", "DEVICE", "HOST", "SPILLED", "IN/s", "OUT/s", "READ/s",
		 "WRITE/s", "FAULTS/s", "WAITS/s");
	text_put(text, width);
	for (size_t i = 0; i < look->n; i++)
		line_put(&lines[i], width);
	if (look->silent) {
		snprintf(text, sizeof(text),
			 "%zu more did not answer (sluice stat says why)", look->silent);
		text_put(text, width);
	}
	if (!look->n && !look->silent)
		text_put("no program publishes its counters (sluice run, or "
			 "SLUICE_PUBLISH=1)",
			 width);
}

static void
json_put(const struct look *look, const struct line *lines)
{
	struct json json;

	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_u64(&json, "silent", look->silent);
	json_array(&json, "programs");
	for (size_t i = 0; i < look->n; i++) {
		const struct line *line = &lines[i];

		json_object(&json, NULL);
		json_u64(&json, "pid", line->now->pid);
		json_u64(&json, "space", line->now->space);
		json_string(&json, "command", line->now->command);
		json_string(&json, "device", line->now->device);
		json_u64(&json, "device_number", line->now->device_number);
		for (int k = 0; k < SLUICE_TIER_COUNT; k++) {
			json_object(&json, stat_tiers[k]);
			json_u64(&json, "resident_bytes", line->now->stats.resident_bytes[k]);
			json_u64(&json, "budget_bytes", line->now->stats.budget_bytes[k]);
			json_close(&json);
		}
		json_double(&json, "in_bytes_per_second", line->in);
		json_double(&json, "out_bytes_per_second", line->out);
		json_double(&json, "read_bytes_per_second", line->disk_in);
		json_double(&json, "write_bytes_per_second", line->disk_out);
		json_double(&json, "faults_per_second", line->faults);
		json_double(&json, "waits_per_second", line->waits);
		json_close(&json);
	}
	json_end(&json);
}

/* 0 or -errno with a text. */
static int
show(const struct look *now, const struct look *before, int as_json)
{
	SL_CLEANUP(free) struct line *lines = calloc(now->n + 1, sizeof(*lines));

	if (!lines)
		return sl_fail(-ENOMEM, "out of memory");
	for (size_t i = 0; i < now->n; i++)
		line_make(&lines[i], &now->samples[i], sample_find(before, &now->samples[i]));
	qsort(lines, now->n, sizeof(*lines), line_order);
	if (as_json)
		json_put(now, lines);
	else
		table_put(now, lines);
	return 0;
}

static int
watch(const struct options *options)
{
	struct timespec pause = stat_pause(options->interval_s);
	struct look before, now = {0};
	int rc = look_take(&before);

	for (uint64_t k = 0;
	     !rc && !interrupted && (!options->count || k < options->count); k++) {
		nanosleep(&pause, NULL);
		if (interrupted)
			break;
		rc = look_take(&now);
		if (rc)
			break;
		if (k && !options->as_json && !columns())
			putchar('\n');
		rc = show(&now, &before, options->as_json);
		look_fini(&before);
		before = now;
		memset(&now, 0, sizeof(now));
		if (fflush(stdout))
			break; /* nobody reads any more: main() says so */
	}
	look_fini(&before);
	look_fini(&now);
	return rc ? command_fail("top", "%s", sluice_last_error()) : SL_EXIT_OK;
}

static int
option_take(const struct option *option, void *into)
{
	struct options *options = into;

	return stat_rhythm_take("top", option, &options->interval_s, &options->count);
}

int
cmd_top(int argc, char **argv)
{
	static const struct option table[] = {
		{"json", no_argument, NULL, COMMAND_MEMBER(struct options, as_json)},
		{"interval", required_argument, NULL, 'i'},
		{"count", required_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	static const struct command_syntax syntax = {"top", ":h", top_help, table,
						     option_take};
	struct options options = {.interval_s = 2};
	int rc = command_options_read(&syntax, argc, argv, &options);

	if (rc)
		return rc < 0 ? SL_EXIT_OK : rc;
	if (optind < argc)
		return command_usage("top", "'%s' is one argument too many", argv[optind]);
	if (!options.count && !columns())
		options.count = 1;
	command_signals_catch(interrupt_note);
	return watch(&options);
}

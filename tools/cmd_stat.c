/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice stat`: where a live process's data are, and how many bytes moved, by tier, cause and
 * region. Without a process it lists the processes that can be asked (stat_ask.c).
 *
 * Threads: one.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "commands.h"
#include "core/publish.h"
#include "json.h"
#include "sluice/sluice.h"
#include "stat.h"

static const char stat_help[] =
	"Usage: sluice stat [PID] [--json] [--interval S] [--count N]\n"
	"       sluice stat [PID] --openmetrics [--output FILE]\n"
	"\n"
	"Print the counters of a live process by tier, cause and region. Without PID, "
	"list\n"
	"the processes that can be asked: those under `sluice run`, those started with\n"
	"SLUICE_PUBLISH=1, and those whose program sets config.publish.\n"
	"\n"
	"Options:\n"
	"      --json        print one JSON object per space and sample, one per line\n"
	"      --openmetrics\n"
	"                    print the counters of all such processes, or of PID, in "
	"the\n"
	"                    OpenMetrics text format\n"
	"      --output FILE  with --openmetrics: write it to FILE, which is replaced as "
	"a\n"
	"                    whole (for node_exporter's textfile directory)\n"
	"      --interval S  again every S seconds (0.1 to 86400), until the process "
	"ends\n"
	"      --count N     end after N samples (default interval: 1 second)\n"
	"  -h, --help        print this and exit\n";

struct options {
	int pid; /* 0: list */
	int as_json, as_openmetrics;
	const char *output; /* of OpenMetrics; NULL: standard output */
	double interval_s;
	uint64_t count; /* 0: until the process ends */
};

/* ---- printing ---- */

static const char *
size_text(uint64_t bytes, char *buf, size_t buf_bytes)
{
	if (bytes == UINT64_MAX)
		return "no limit";
	return sl_size_format(bytes, buf, buf_bytes);
}

static void
print_tiers(const struct stat_sample *sample)
{
	char resident[32], peak[32], budget[32];

	printf("%-10s %12s %12s %12s\n", "tier", "resident", "peak", "budget");
	for (int i = 0; i < SLUICE_TIER_COUNT; i++)
		printf("%-10s %12s %12s %12s\n", stat_tiers[i],
		       size_text(sample->stats.resident_bytes[i], resident, sizeof(resident)),
		       size_text(sample->stats.resident_peak_bytes[i], peak, sizeof(peak)),
		       size_text(sample->stats.budget_bytes[i], budget, sizeof(budget)));
	printf("%-10s %12s\n", "staging",
	       size_text(sample->staging_bytes, resident, sizeof(resident)));
}

static void
value_text(enum sluice_counter counter, double value, char *buf, size_t buf_bytes)
{
	if (strcmp(sluice_counter_unit(counter), "bytes") == 0)
		sl_size_format((uint64_t)value, buf, buf_bytes);
	else
		snprintf(buf, buf_bytes, "%.0f", value);
}

/* before: the sample before this one for a column per second, or NULL. */
static void
print_counters(const struct stat_sample *sample, const struct stat_sample *before)
{
	double seconds = before ? (double)(sample->now_ns - before->now_ns) / 1e9 : 0;
	char total[32], rate[32];

	printf("\n%-20s %12s %12s\n", "counter", "total", seconds > 0 ? "per second" : "");
	for (int i = 0; i < SLUICE_COUNTER_COUNT; i++) {
		enum sluice_counter counter = (enum sluice_counter)i;
		uint64_t value = sample->stats.counter[i];

		if (!value)
			continue;
		rate[0] = '\0';
		/* Counters restart when the program resets them. */
		if (before && seconds > 0 && value >= before->stats.counter[i])
			value_text(counter,
				   (double)(value - before->stats.counter[i]) / seconds,
				   rate, sizeof(rate));
		value_text(counter, (double)value, total, sizeof(total));
		printf("%-20s %12s %12s  %s\n", sluice_counter_name(counter), total, rate,
		       sluice_counter_text(counter));
	}
}

static void
print_regions(const struct stat_sample *sample)
{
	printf("\n%-14s %10s %10s %10s %10s %10s %10s  %-12s %s\n", "region", "size",
	       "device", "host", "store", "empty", "dirty", "flags", "name");
	for (size_t i = 0; i < sample->region_n; i++) {
		const struct stat_region *region = &sample->regions[i];
		const uint64_t sizes[] = {region->size_bytes,  region->device_bytes,
					  region->host_bytes,  region->store_bytes,
					  region->empty_bytes, region->dirty_bytes};
		char size[32];

		printf("%-14s", region->addr ? region->addr : "?");
		for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
			printf(" %10s", sl_size_format(sizes[k], size, sizeof(size)));
		printf("  %-12s %s\n", region->flags[0] ? region->flags : "-",
		       region->name ? region->name : "?");
	}
	if (sample->region_count > sample->region_n)
		printf("and %" PRIu64 " more\n", sample->region_count - sample->region_n);
}

static void
print_sample(const struct stat_sample *sample, const struct stat_sample *before)
{
	char chunk[32];

	printf("process %" PRIu64 " (%s), space %" PRIu64 ", policy %s, chunk %s\n\n",
	       sample->pid, sample->command, sample->space, sample->policy,
	       sl_size_format(sample->chunk_bytes, chunk, sizeof(chunk)));
	print_tiers(sample);
	print_counters(sample, before);
	print_regions(sample);
}

static int
list_print(int as_json)
{
	SL_CLEANUP(free)
	struct stat_target *targets = calloc(STAT_TARGETS_MAX, sizeof(*targets));
	struct json json;
	int n;

	if (!targets)
		return command_fail("stat", "out of memory");
	n = stat_targets_find(0, targets);
	if (n < 0)
		return command_fail("stat", "/proc/net/unix: %s", strerror(-n));
	if (as_json) {
		json_begin(&json, stdout);
		json_object(&json, NULL);
		json_array(&json, "processes");
	} else if (!n) {
		fputs("sluice stat: no process publishes its counters; start one by "
		      "`sluice "
		      "run`, or with SLUICE_PUBLISH=1 in its environment\n",
		      stderr);
	} else {
		printf("%8s %5s  %-16s %12s %12s %12s\n", "pid", "space", "command",
		       "device", "host", "spilled");
	}
	for (int i = 0; i < n; i++) {
		struct stat_sample sample;
		char name[64], size[3][32];
		int rc = stat_target_sample(&targets[i], &sample, 0);

		stat_process_name(targets[i].pid, name, sizeof(name));
		if (as_json) {
			json_object(&json, NULL);
			json_i64(&json, "pid", targets[i].pid);
			json_u64(&json, "space", targets[i].number);
			json_string(&json, "command", name);
			if (rc)
				json_string(&json, "error", sluice_last_error());
			json_close(&json);
		} else if (rc) {
			printf("%8d %5u  %-16s %s\n", targets[i].pid, targets[i].number,
			       name, sluice_last_error());
		} else {
			const uint64_t *resident = sample.stats.resident_bytes;

			for (int tier = 0; tier < SLUICE_TIER_COUNT; tier++)
				sl_size_format(resident[tier], size[tier],
					       sizeof(size[tier]));
			printf("%8d %5u  %-16s %12s %12s %12s\n", targets[i].pid,
			       targets[i].number, name, size[0], size[1], size[2]);
		}
		stat_sample_fini(&sample);
	}
	if (as_json)
		json_end(&json);
	return SL_EXIT_OK;
}

/* One sample of every space of the process. 0 or -errno. before: of the round before, updated. */
static int
process_print(const struct options *options, struct stat_sample before[SL_PUBLISH_MAX])
{
	SL_CLEANUP(free)
	struct stat_target *targets = calloc(STAT_TARGETS_MAX, sizeof(*targets));
	int n, rc;

	if (!targets)
		return sl_fail(-ENOMEM, "out of memory");
	n = stat_targets_find(options->pid, targets);
	if (n <= 0) {
		/* Asking says why it is not there. */
		n = 1;
		targets[0] = (struct stat_target){.pid = options->pid, .number = 1};
	}
	for (int i = 0; i < n; i++) {
		struct stat_sample *last = &before[targets[i].number - 1];
		struct stat_sample sample;

		rc = stat_target_sample(&targets[i], &sample, options->as_json);
		if (rc) {
			stat_sample_fini(&sample);
			return rc;
		}
		if (!options->as_json) {
			if (i)
				putchar('\n');
			print_sample(&sample, last->pid ? last : NULL);
		}
		stat_sample_fini(last);
		*last = sample;
	}
	return 0;
}

static int
process_watch(const struct options *options)
{
	SL_CLEANUP(free)
	struct stat_sample *before = calloc(SL_PUBLISH_MAX, sizeof(*before));
	struct timespec pause = stat_pause(options->interval_s);
	uint64_t samples = 0;
	int rc = 0;

	if (!before)
		return command_fail("stat", "out of memory");
	while (!rc && (!options->count || samples < options->count)) {
		if (samples) {
			nanosleep(&pause, NULL);
			if (!options->as_json)
				putchar('\n');
		}
		rc = process_print(options, before);
		if (!rc)
			samples++;
		if (fflush(stdout))
			break; /* nobody reads any more: main() says so */
	}
	for (size_t i = 0; i < SL_PUBLISH_MAX; i++)
		stat_sample_fini(&before[i]);
	if (!rc)
		return SL_EXIT_OK;
	/* A process that was watched and has ended (or closed its space) is no failure. */
	if (samples && (rc == -ESRCH || rc == -ENOENT)) {
		fprintf(stderr, "sluice stat: process %d has ended or closed its space\n",
			options->pid);
		return SL_EXIT_OK;
	}
	return command_fail("stat", "%s", sluice_last_error());
}

/* All spaces that publish, or those of one process. */
static int
openmetrics_print(const struct options *options)
{
	SL_CLEANUP(free)
	struct stat_target *targets = calloc(STAT_TARGETS_MAX, sizeof(*targets));
	SL_CLEANUP(free) struct stat_sample *samples = NULL;
	int n, rc;

	if (!targets)
		return command_fail("stat", "out of memory");
	n = stat_targets_find(options->pid, targets);
	if (n < 0)
		return command_fail("stat", "/proc/net/unix: %s", strerror(-n));
	if (!n && options->pid) {
		n = 1; /* asking says why it is not there */
		targets[0] = (struct stat_target){.pid = options->pid, .number = 1};
	}
	samples = calloc((size_t)n + 1, sizeof(*samples));
	if (!samples)
		return command_fail("stat", "out of memory");
	for (int i = 0; i < n; i++) {
		rc = stat_target_sample(&targets[i], &samples[i], 0);
		if (rc && options->pid)
			return command_fail("stat", "%s", sluice_last_error());
		if (rc) { /* stopped, ended just now, or another user's */
			stat_sample_fini(&samples[i]);
			samples[i].pid = (uint64_t)targets[i].pid;
			samples[i].space = targets[i].number;
		}
	}
	rc = stat_openmetrics(samples, (size_t)n, options->output);
	for (int i = 0; i < n; i++)
		stat_sample_fini(&samples[i]);
	return rc ? command_fail("stat", "%s", sluice_last_error()) : SL_EXIT_OK;
}

static int
option_take(const struct option *option, void *into)
{
	struct options *options = into;

	if (option->val == 'o') {
		options->output = optarg;
		return 0;
	}
	return stat_rhythm_take("stat", option, &options->interval_s, &options->count);
}

static int
options_read(int argc, char **argv, struct options *options)
{
	static const struct option table[] = {
		{"json", no_argument, NULL, COMMAND_MEMBER(struct options, as_json)},
		{"openmetrics", no_argument, NULL,
		 COMMAND_MEMBER(struct options, as_openmetrics)},
		{"output", required_argument, NULL, 'o'},
		{"interval", required_argument, NULL, 'i'},
		{"count", required_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	static const struct command_syntax syntax = {"stat", ":h", stat_help, table,
						     option_take};
	uint64_t number;
	int rc = command_options_read(&syntax, argc, argv, options);

	if (rc)
		return rc;
	if (optind < argc) {
		if (command_number(argv[optind], 1, INT32_MAX, &number))
			return command_usage("stat", "'%s' is not a process id",
					     argv[optind]);
		options->pid = (int)number;
		optind++;
	}
	if (optind < argc)
		return command_usage("stat", "'%s' is one argument too many", argv[optind]);
	if (options->as_openmetrics &&
	    (options->as_json || options->interval_s > 0 || options->count))
		return command_usage("stat",
				     "--openmetrics is one sample: without --json, "
				     "--interval and --count");
	if (options->output && !options->as_openmetrics)
		return command_usage("stat", "--output goes with --openmetrics");
	if (!options->pid && (options->interval_s > 0 || options->count))
		return command_usage("stat", "--interval and --count need a process id");
	if (!options->count && !(options->interval_s > 0))
		options->count = 1;
	if (!(options->interval_s > 0))
		options->interval_s = 1;
	return 0;
}

int
cmd_stat(int argc, char **argv)
{
	struct options options = {0};
	int rc = options_read(argc, argv, &options);

	if (rc)
		return rc < 0 ? SL_EXIT_OK : rc;
	if (options.as_openmetrics)
		return openmetrics_print(&options);
	if (!options.pid)
		return list_print(options.as_json);
	return process_watch(&options);
}

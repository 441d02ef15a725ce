/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The results of `sluice bench` on stdout: a table for people, or one JSON object for scripts.
 *
 * Both show times, exact counters, and the bytes that theory expects beside those that moved.
 * Times are medians of all runs; counters, sizes and bytes are those of the last one. The times
 * that there are stand in one table, for both forms.
 *
 * Runs nothing and changes nothing; what a wrong result means for the exit code is cmd_bench.c's.
 *
 * Threads: one.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "bench.h"
#include "json.h"
#include "sluice/sluice.h"
#include "workload.h"

static const char *const policy_names[SLUICE_POLICY_COUNT] = {
	[SLUICE_POLICY_LRU] = "lru",
	[SLUICE_POLICY_DRAGON] = "dragon",
	[SLUICE_POLICY_UVM] = "uvm",
};

static const char *const population_names[SLUICE_POPULATE_COUNT] = {
	[SLUICE_POPULATE_CHUNK] = "chunk",
	[SLUICE_POPULATE_GROW] = "grow",
	[SLUICE_POPULATE_PAGE] = "page",
};

static double
seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static int
time_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Median of one time of all runs; offset: of the field in struct workload_result. */
static uint64_t
median_ns(const struct workload_result *results, uint64_t n, size_t offset)
{
	uint64_t times[REPEAT_MAX] = {0};
	uint64_t i;

	for (i = 0; i < n; i++)
		memcpy(&times[i], (const char *)&results[i] + offset, sizeof(times[i]));
	qsort(times, n, sizeof(times[0]), time_compare);
	return n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
}

static const struct {
	const char *key, *text;
	size_t offset;
} time_fields[] = {
	{"generate_s", "generate", offsetof(struct workload_result, generate_ns)},
	{"map_s", "map", offsetof(struct workload_result, map_ns)},
	{"run_s", "kernels and moves", offsetof(struct workload_result, run_ns)},
	{"unmap_s", "sync and unmap", offsetof(struct workload_result, unmap_ns)},
	{"total_s", "total", offsetof(struct workload_result, total_ns)},
	{"verify_s", "verify", offsetof(struct workload_result, verify_ns)},
};

#define TIME_N (sizeof(time_fields) / sizeof(time_fields[0]))

static void
verdict_json(struct json *json, enum workload_verdict verdict)
{
	switch (verdict) {
	case WORKLOAD_VERIFIED:
	case WORKLOAD_WRONG:
		json_bool(json, verdict == WORKLOAD_VERIFIED);
		return;
	case WORKLOAD_NOT_VERIFIED:
	case WORKLOAD_VERDICT_COUNT:
		json_null(json);
		return;
	}
}

static void
number_json(struct json *json, const char *key, uint64_t value)
{
	json_key(json, key);
	json_u64(json, value);
}

static void
text_json(struct json *json, const char *key, const char *value)
{
	json_key(json, key);
	json_string(json, value);
}

static void
stats_json(struct json *json, const char *key, const struct sluice_stats *stats)
{
	unsigned i;

	json_key(json, key);
	json_object(json);
	for (i = 0; i < SLUICE_COUNTER_COUNT; i++)
		number_json(json, sluice_counter_name((enum sluice_counter)i),
			    stats->counter[i]);
	json_close(json);
}

static void
config_json(struct json *json, const struct bench *bench, const struct workload_result *r)
{
	const struct sluice_config *config = &r->config;

	json_key(json, "config");
	json_object(json);
	number_json(json, "device_budget", config->device_budget_bytes);
	number_json(json, "host_budget", config->host_budget_bytes);
	number_json(json, "host_reserve", config->host_reserve_bytes);
	number_json(json, "staging", config->staging_bytes);
	number_json(json, "chunk", config->chunk_bytes);
	number_json(json, "workers", config->workers);
	number_json(json, "readahead_chunks", config->readahead_chunks);
	text_json(json, "policy", policy_names[config->policy]);
	text_json(json, "population", population_names[config->population]);
	text_json(json, "presence", bench_presence_names[bench->params.presence]);
	json_close(json);
}

static void
options_json(struct json *json, const struct bench *bench)
{
	unsigned i;

	json_key(json, "options");
	json_object(json);
	number_json(json, "seed", bench->params.seed);
	for (i = 0; i < bench->workload->n_options; i++) {
		const struct workload_option *option = &bench->workload->options[i];

		if (option->choices)
			text_json(json, option->name,
				  option->choices[bench->params.option[i]]);
		else
			number_json(json, option->name, bench->params.option[i]);
	}
	json_close(json);
}

static void
runs_json(struct json *json, const struct workload_result *results, uint64_t n)
{
	uint64_t i;
	unsigned t;

	json_key(json, "runs");
	json_array(json);
	for (i = 0; i < n; i++) {
		json_object(json);
		for (t = 0; t < TIME_N; t++) {
			json_key(json, time_fields[t].key);
			json_double(json, seconds(median_ns(&results[i], 1,
							    time_fields[t].offset)));
		}
		number_json(json, "h2d_bytes",
			    sluice_stats_h2d_bytes(&results[i].before_sync));
		number_json(json, "d2h_bytes",
			    sluice_stats_d2h_bytes(&results[i].before_sync));
		json_key(json, "verified");
		verdict_json(json, results[i].verdict);
		json_close(json);
	}
	json_close(json);
}

int
bench_report_json(const struct bench *bench, const struct workload_result *results,
		  uint64_t n, enum workload_verdict verdict, const char *mismatch)
{
	const struct workload_result *r = &results[n - 1];
	const struct workload_expectation *expected = &r->expected;
	struct json json;
	unsigned t;

	json_begin(&json, stdout);
	json_object(&json);
	text_json(&json, "workload", bench->workload->name);
	text_json(&json, "version", sluice_version());
	number_json(&json, "footprint_bytes", r->plan.footprint_bytes);
	number_json(&json, "rows", r->plan.rows);
	number_json(&json, "cols", r->plan.cols);
	number_json(&json, "window_bytes", r->plan.window_bytes);
	number_json(&json, "tile_bytes", r->tile_bytes);
	number_json(&json, "launches", r->launches);
	number_json(&json, "input_bytes", r->input_bytes);
	number_json(&json, "output_bytes", r->output_bytes);
	config_json(&json, bench, r);
	options_json(&json, bench);
	number_json(&json, "repeat", n);
	for (t = 0; t < TIME_N; t++) {
		json_key(&json, time_fields[t].key);
		json_double(&json, seconds(median_ns(results, n, time_fields[t].offset)));
	}
	number_json(&json, "h2d_bytes", sluice_stats_h2d_bytes(&r->before_sync));
	number_json(&json, "d2h_bytes", sluice_stats_d2h_bytes(&r->before_sync));
	if (expected->known) {
		number_json(&json, "expected_h2d_bytes", expected->h2d_bytes);
		number_json(&json, "expected_d2h_bytes", expected->d2h_bytes);
		number_json(&json, "expected_tolerance_bytes", expected->tolerance_bytes);
		text_json(&json, "expected_h2d_formula", expected->h2d_formula);
		text_json(&json, "expected_d2h_formula", expected->d2h_formula);
	}
	number_json(&json, "store_read_bytes", sluice_stats_store_read_bytes(&r->after));
	number_json(&json, "store_write_bytes", sluice_stats_store_write_bytes(&r->after));
	number_json(&json, "device_peak_bytes",
		    r->after.resident_peak_bytes[SLUICE_TIER_DEVICE]);
	number_json(&json, "host_peak_bytes", r->after.resident_peak_bytes[SLUICE_TIER_HOST]);
	number_json(&json, "spill_peak_bytes",
		    r->after.resident_peak_bytes[SLUICE_TIER_STORE]);
	stats_json(&json, "before_sync", &r->before_sync);
	stats_json(&json, "after", &r->after);
	runs_json(&json, results, n);
	json_key(&json, "verified");
	verdict_json(&json, verdict);
	if (verdict == WORKLOAD_WRONG)
		text_json(&json, "mismatch", mismatch);
	return json_end(&json);
}

static const char *
size_text(uint64_t bytes, char *buf, size_t buf_bytes)
{
	return sl_size_format(bytes, buf, buf_bytes);
}

static void
head_print(const struct bench *bench, const struct workload_result *r)
{
	const struct sluice_config *config = &r->config;
	char a[32], b[32], c[32];

	printf("%s: footprint %s, ", bench->workload->name,
	       size_text(r->plan.footprint_bytes, a, sizeof(a)));
	if (r->plan.window_bytes)
		printf("%" PRIu64 " windows of at most %s\n", r->plan.rows,
		       size_text(r->plan.window_bytes, a, sizeof(a)));
	else
		printf("%" PRIu64 " x %" PRIu64 "\n", r->plan.rows, r->plan.cols);
	printf("device %s, host %s, chunks of %s, policy %s, population %s, presence %s, "
	       "%u "
	       "threads\n",
	       size_text(config->device_budget_bytes, a, sizeof(a)),
	       size_text(config->host_budget_bytes, b, sizeof(b)),
	       size_text(config->chunk_bytes, c, sizeof(c)), policy_names[config->policy],
	       population_names[config->population],
	       bench_presence_names[bench->params.presence], config->workers);
	printf("%" PRIu64 " launches, the largest declares %s\n", r->launches,
	       size_text(r->tile_bytes, a, sizeof(a)));
}

static void
times_print(const struct workload_result *results, uint64_t n)
{
	unsigned t;

	printf("\n%-20s%12s%s\n", "time", n > 1 ? "median s" : "s",
	       n > 1 ? "         min         max" : "");
	for (t = 0; t < TIME_N; t++) {
		uint64_t least = UINT64_MAX, most = 0, i;

		for (i = 0; i < n; i++) {
			uint64_t ns = median_ns(&results[i], 1, time_fields[t].offset);

			least = ns < least ? ns : least;
			most = ns > most ? ns : most;
		}
		printf("%-20s%12.3f", time_fields[t].text,
		       seconds(median_ns(results, n, time_fields[t].offset)));
		if (n > 1)
			printf("%12.3f%12.3f", seconds(least), seconds(most));
		putchar('\n');
	}
}

static void
counter_text(enum sluice_counter counter, uint64_t value, char *buf, size_t buf_bytes)
{
	const char *unit = sluice_counter_unit(counter);

	if (unit && strcmp(unit, "bytes") == 0)
		sl_size_format(value, buf, buf_bytes);
	else
		snprintf(buf, buf_bytes, "%" PRIu64, value);
}

static void
counters_print(const struct workload_result *r)
{
	char a[32], b[32];
	unsigned i;

	printf("\n%-20s%14s%14s\n", "counter", "before sync", "after unmap");
	for (i = 0; i < SLUICE_COUNTER_COUNT; i++) {
		enum sluice_counter counter = (enum sluice_counter)i;

		if (r->after.counter[i] == 0 && r->before_sync.counter[i] == 0)
			continue;
		counter_text(counter, r->before_sync.counter[i], a, sizeof(a));
		counter_text(counter, r->after.counter[i], b, sizeof(b));
		printf("%-20s%14s%14s   %s\n", sluice_counter_name(counter), a, b,
		       sluice_counter_text(counter));
	}
	printf("%-20s%14s%14s   most bytes on the device\n", "device_peak", "",
	       size_text(r->after.resident_peak_bytes[SLUICE_TIER_DEVICE], a, sizeof(a)));
	printf("%-20s%14s%14s   most bytes in the host tier\n", "host_peak", "",
	       size_text(r->after.resident_peak_bytes[SLUICE_TIER_HOST], a, sizeof(a)));
}

static void
link_print(const char *name, uint64_t moved, uint64_t expected, const char *formula, int known)
{
	char a[32], b[32];

	printf("%-20s%14s", name, size_text(moved, a, sizeof(a)));
	if (known)
		printf("%14s   %s", size_text(expected, b, sizeof(b)), formula);
	putchar('\n');
}

void
bench_report_print(const struct bench *bench, const struct workload_result *results,
		   uint64_t n, enum workload_verdict verdict, const char *mismatch)
{
	const struct workload_result *r = &results[n - 1];
	const struct workload_expectation *expected = &r->expected;
	char a[32];

	head_print(bench, r);
	times_print(results, n);
	counters_print(r);
	printf("\n%-20s%14s%14s\n", "link, before sync", "moved",
	       expected->known ? "expected" : "");
	link_print("host to device", sluice_stats_h2d_bytes(&r->before_sync),
		   expected->h2d_bytes, expected->h2d_formula, expected->known);
	link_print("device to host", sluice_stats_d2h_bytes(&r->before_sync),
		   expected->d2h_bytes, expected->d2h_formula, expected->known);
	if (expected->known)
		printf("(expected to within %s: chunks and tiles are not divided)\n",
		       size_text(expected->tolerance_bytes, a, sizeof(a)));
	switch (verdict) {
	case WORKLOAD_VERIFIED:
		printf("\nverified: equal to the reference, bit for bit\n");
		break;
	case WORKLOAD_WRONG:
		printf("\nWRONG: %s\n", mismatch);
		break;
	case WORKLOAD_NOT_VERIFIED:
	case WORKLOAD_VERDICT_COUNT:
		break;
	}
}

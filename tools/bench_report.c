/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The results of `bench` on stdout: a table for people, or one JSON object for scripts.
 *
 * Both show times, exact counters, and the bytes moved beside those of theory. Times are medians
 * of all runs. Counters, sizes and bytes are those of the last one. One table lists the times
 * for both forms. On a GPU the kinds of memory stand side by side, each with its bound. The
 * bound is the larger of two times: the kernels' with all data resident, and the bytes at the
 * link's rate.
 *
 * Runs nothing and changes nothing. cmd_bench.c turns a wrong result into the exit code.
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
	[SLUICE_POLICY_PLAN] = "plan",
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

/* The runs of memory number m. */
static const struct workload_result *
results_of(const struct bench *bench, const struct workload_result *results, unsigned m)
{
	return results + m * bench->repeat;
}

/* Of one kind of memory on a GPU. */
struct share {
	const char *memory;
	double run_s, resident_s, collect_s; /* resident_s 0: it does not fit */
	double bound_s;                      /* 0: not known */
	const char *bound_by;
	uint64_t h2d_bytes, d2h_bytes, collect_bytes;
};

/* What the kernels take when all is resident; 0: that was not measured. */
static double
kernels_s(const struct bench *bench, const struct workload_result *results)
{
	unsigned m;

	for (m = 0; m < bench->n_memories; m++)
		if (bench->memory[m] == WORKLOAD_MEMORY_COPIES)
			return (double)median_ns(results_of(bench, results, m), bench->repeat,
						 offsetof(struct workload_result, kernel_ns)) /
			       1e9;
	return 0;
}

static void
bound_raise(struct share *share, double s, const char *by)
{
	if (s <= share->bound_s)
		return;
	share->bound_s = s;
	share->bound_by = by;
}

static struct share
share_of(const struct bench *bench, const struct workload_result *results, unsigned m)
{
	const struct workload_result *r = results_of(bench, results, m);
	const struct workload_result *last = r + bench->repeat - 1;
	const struct workload_link *link = &bench->link;
	double in = (double)last->h2d_bytes, out = (double)last->d2h_bytes;
	struct share share = {
		.memory = bench_memory_names[bench->memory[m]],
		.run_s = (double)median_ns(r, bench->repeat,
					   offsetof(struct workload_result, run_ns)) /
			 1e9,
		.resident_s = (double)median_ns(r, bench->repeat,
						offsetof(struct workload_result,
							 round_ns[WORKLOAD_ROUND_RESIDENT])) /
			      1e9,
		.collect_s = (double)median_ns(r, bench->repeat,
					       offsetof(struct workload_result, collect_ns)) /
			     1e9,
		.bound_by = "",
		.h2d_bytes = last->h2d_bytes,
		.d2h_bytes = last->d2h_bytes,
		.collect_bytes = last->collect_bytes,
	};

	if (bench->memory[m] == WORKLOAD_MEMORY_MAPPED) {
		/* Kernels move the bytes themselves: at least all of them, once. */
		in = (double)last->input_bytes;
		out = (double)last->output_bytes;
	}
	bound_raise(&share, kernels_s(bench, results), "kernels");
	bound_raise(&share, in / link->in_bytes_per_s, "link in");
	bound_raise(&share, out / link->out_bytes_per_s, "link out");
	bound_raise(&share, (in + out) / link->both_bytes_per_s, "link both ways");
	return share;
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
	if (verdict == WORKLOAD_VERIFIED || verdict == WORKLOAD_WRONG)
		json_bool(json, "verified", verdict == WORKLOAD_VERIFIED);
	else
		json_null(json, "verified");
}

static void
stats_json(struct json *json, const char *key, const struct sluice_stats *stats)
{
	unsigned i;

	json_object(json, key);
	for (i = 0; i < SLUICE_COUNTER_COUNT; i++)
		json_u64(json, sluice_counter_name((enum sluice_counter)i),
			 stats->counter[i]);
	json_close(json);
}

static void
config_json(struct json *json, const struct bench *bench, const struct workload_result *r)
{
	const struct sluice_config *config = &r->config;

	json_object(json, "config");
	json_u64(json, "device_budget", config->device_budget_bytes);
	json_u64(json, "host_budget", config->host_budget_bytes);
	json_u64(json, "host_reserve", config->host_reserve_bytes);
	json_u64(json, "staging", config->staging_bytes);
	json_u64(json, "chunk", config->chunk_bytes);
	json_u64(json, "large_chunk", config->large_chunk_bytes);
	json_u64(json, "workers", config->workers);
	json_u64(json, "readahead_chunks", config->readahead_chunks);
	json_string(json, "policy", policy_names[config->policy]);
	json_string(json, "population", population_names[config->population]);
	json_string(json, "presence", bench_presence_names[bench->params.presence]);
	json_close(json);
}

static void
options_json(struct json *json, const struct bench *bench)
{
	unsigned i;

	json_object(json, "options");
	json_u64(json, "seed", bench->params.seed);
	for (i = 0; i < bench->workload->n_options; i++) {
		const struct workload_option *option = &bench->workload->options[i];

		if (option->choices)
			json_string(json, option->name,
				    option->choices[bench->params.option[i]]);
		else
			json_u64(json, option->name, bench->params.option[i]);
	}
	json_close(json);
}

static void
runs_json(struct json *json, const struct workload_result *results, uint64_t n)
{
	uint64_t i;
	unsigned t;

	json_array(json, "runs");
	for (i = 0; i < n; i++) {
		json_object(json, NULL);
		for (t = 0; t < TIME_N; t++)
			json_double(json, time_fields[t].key,
				    seconds(median_ns(&results[i], 1, time_fields[t].offset)));
		json_u64(json, "h2d_bytes", sluice_stats_h2d_bytes(&results[i].before_sync));
		json_u64(json, "d2h_bytes", sluice_stats_d2h_bytes(&results[i].before_sync));
		verdict_json(json, results[i].verdict);
		json_close(json);
	}
	json_close(json);
}

static void
memories_json(struct json *json, const struct bench *bench,
	      const struct workload_result *results)
{
	unsigned m;

	json_double(json, "link_in_gbs", bench->link.in_bytes_per_s / 1e9);
	json_double(json, "link_out_gbs", bench->link.out_bytes_per_s / 1e9);
	json_double(json, "link_both_gbs", bench->link.both_bytes_per_s / 1e9);
	json_double(json, "kernels_s", kernels_s(bench, results));
	json_array(json, "memories");
	for (m = 0; m < bench->n_memories; m++) {
		struct share share = share_of(bench, results, m);

		json_object(json, NULL);
		json_string(json, "memory", share.memory);
		json_double(json, "run_s", share.run_s);
		json_double(json, "resident_s", share.resident_s);
		json_double(json, "collect_s", share.collect_s);
		json_u64(json, "h2d_bytes", share.h2d_bytes);
		json_u64(json, "d2h_bytes", share.d2h_bytes);
		json_u64(json, "collect_bytes", share.collect_bytes);
		json_double(json, "bound_s", share.bound_s);
		json_string(json, "bound_by", share.bound_by);
		json_double(json, "ratio", share.run_s / share.bound_s);
		verdict_json(json, results_of(bench, results, m)[bench->repeat - 1].verdict);
		json_close(json);
	}
	json_close(json);
}

int
bench_report_json(const struct bench *bench, const struct workload_result *results,
		  enum workload_verdict verdict, const char *mismatch)
{
	uint64_t n = bench->repeat;
	const struct workload_result *r = &results[n - 1];
	const struct workload_expectation *expected = &r->expected;
	struct json json;
	unsigned t;

	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_string(&json, "workload", bench->workload->name);
	json_string(&json, "version", sluice_version());
	json_string(&json, "device", bench_is_cuda(bench) ? "cuda" : "soft");
	json_string(&json, "memory", bench_memory_names[bench->memory[0]]);
	json_u64(&json, "footprint_bytes", r->plan.footprint_bytes);
	json_u64(&json, "rows", r->plan.rows);
	json_u64(&json, "cols", r->plan.cols);
	json_u64(&json, "window_bytes", r->plan.window_bytes);
	json_u64(&json, "tile_bytes", r->tile_bytes);
	json_u64(&json, "launches", r->launches);
	json_u64(&json, "input_bytes", r->input_bytes);
	json_u64(&json, "output_bytes", r->output_bytes);
	config_json(&json, bench, r);
	options_json(&json, bench);
	json_u64(&json, "repeat", n);
	for (t = 0; t < TIME_N; t++)
		json_double(&json, time_fields[t].key,
			    seconds(median_ns(results, n, time_fields[t].offset)));
	json_u64(&json, "h2d_bytes", sluice_stats_h2d_bytes(&r->before_sync));
	json_u64(&json, "d2h_bytes", sluice_stats_d2h_bytes(&r->before_sync));
	if (r->batches) {
		json_u64(&json, "batches", r->batches);
		json_u64(&json, "batches_resident", r->batches_resident);
		json_u64(&json, "hand_bytes", r->hand_bytes);
	}
	if (r->steps) {
		json_double(&json, "loss_first", r->loss_first);
		json_double(&json, "loss_last", r->loss_last);
	}
	if (expected->known) {
		json_u64(&json, "expected_h2d_bytes", expected->h2d_bytes);
		json_u64(&json, "expected_d2h_bytes", expected->d2h_bytes);
		json_u64(&json, "expected_tolerance_bytes", expected->tolerance_bytes);
		json_string(&json, "expected_h2d_formula", expected->h2d_formula);
		json_string(&json, "expected_d2h_formula", expected->d2h_formula);
	}
	json_u64(&json, "store_read_bytes", sluice_stats_store_read_bytes(&r->after));
	json_u64(&json, "store_write_bytes", sluice_stats_store_write_bytes(&r->after));
	json_u64(&json, "device_peak_bytes",
		 r->after.resident_peak_bytes[SLUICE_TIER_DEVICE]);
	json_u64(&json, "host_peak_bytes", r->after.resident_peak_bytes[SLUICE_TIER_HOST]);
	json_u64(&json, "spill_peak_bytes", r->after.resident_peak_bytes[SLUICE_TIER_STORE]);
	stats_json(&json, "before_sync", &r->before_sync);
	stats_json(&json, "after", &r->after);
	runs_json(&json, results, n);
	if (bench_is_cuda(bench))
		memories_json(&json, bench, results);
	verdict_json(&json, verdict);
	if (verdict == WORKLOAD_WRONG)
		json_string(&json, "mismatch", mismatch);
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
	printf("%s, device %s, host %s, chunks of %s, policy %s, population %s, presence "
	       "%s",
	       bench_is_cuda(bench) ? "a GPU" : "CPU threads",
	       size_text(config->device_budget_bytes, a, sizeof(a)),
	       size_text(config->host_budget_bytes, b, sizeof(b)),
	       size_text(config->chunk_bytes, c, sizeof(c)), policy_names[config->policy],
	       population_names[config->population],
	       bench_presence_names[bench->params.presence]);
	if (bench_is_cuda(bench))
		putchar('\n');
	else
		printf(", %u threads\n", config->workers);
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

/* One line for each kind of memory; lines of figures begin with its name. */
static void
memories_print(const struct bench *bench, const struct workload_result *results)
{
	double kernels = kernels_s(bench, results);
	unsigned m;

	printf("\nlink %.1f GB/s in, %.1f out, %.1f both ways at once; ",
	       bench->link.in_bytes_per_s / 1e9, bench->link.out_bytes_per_s / 1e9,
	       bench->link.both_bytes_per_s / 1e9);
	if (kernels > 0)
		printf("the kernels alone take %.4f s\n", kernels);
	else
		puts("the kernels alone: see --memory copies");
	printf("data in host memory at first:\n%-10s%10s%10s%10s%10s%8s  %-15s%10s%12s\n",
	       "memory", "in MiB", "out MiB", "run s", "bound s", "ratio", "bound by",
	       "to host s", "resident s");
	for (m = 0; m < bench->n_memories; m++) {
		struct share share = share_of(bench, results, m);

		printf("%-10s", share.memory);
		if (bench->memory[m] == WORKLOAD_MEMORY_MAPPED)
			printf("%10s%10s", "-", "-");
		else
			printf("%10.1f%10.1f", (double)share.h2d_bytes / 0x1p20,
			       (double)share.d2h_bytes / 0x1p20);
		printf("%10.4f%10.4f%8.3f  %-15s%10.4f", share.run_s, share.bound_s,
		       share.run_s / share.bound_s, share.bound_by, share.collect_s);
		if (share.resident_s > 0)
			printf("%12.4f", share.resident_s);
		else
			printf("%12s", "-");
		putchar('\n');
	}
}

static void
batches_print(const struct workload_result *r)
{
	char a[32];

	if (r->batches == 0)
		return;
	printf("\n%" PRIu64 " batches, %" PRIu64
	       " of them (%.1f %%) on the device as a whole "
	       "when they were needed",
	       r->batches, r->batches_resident,
	       100.0 * (double)r->batches_resident / (double)r->batches);
	if (r->hand_bytes)
		printf("; %s read by hand", size_text(r->hand_bytes, a, sizeof(a)));
	putchar('\n');
}

static void
losses_print(const struct workload_result *r)
{
	if (r->steps)
		printf("\nloss: %.4f in the first step, %.4f in the last of %" PRIu64 "\n",
		       r->loss_first, r->loss_last, r->steps);
}

static void
link_table_print(const struct workload_result *r)
{
	const struct workload_expectation *expected = &r->expected;
	char a[32];

	printf("\n%-20s%14s%14s\n", "link, before sync", "moved",
	       expected->known ? "expected" : "");
	link_print("host to device", sluice_stats_h2d_bytes(&r->before_sync),
		   expected->h2d_bytes, expected->h2d_formula, expected->known);
	link_print("device to host", sluice_stats_d2h_bytes(&r->before_sync),
		   expected->d2h_bytes, expected->d2h_formula, expected->known);
	if (expected->known)
		printf("(expected to within %s: chunks and tiles are not divided)\n",
		       size_text(expected->tolerance_bytes, a, sizeof(a)));
}

void
bench_report_print(const struct bench *bench, const struct workload_result *results,
		   enum workload_verdict verdict, const char *mismatch)
{
	const struct workload_result *r = &results[bench->repeat - 1];

	head_print(bench, r);
	times_print(results, bench->repeat);
	batches_print(r);
	losses_print(r);
	if (bench->memory[0] == WORKLOAD_MEMORY_SLUICE) {
		counters_print(r);
		link_table_print(r);
	}
	if (bench_is_cuda(bench))
		memories_print(bench, results);
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice report --json`: one object. Times are nanoseconds, sizes bytes. Threads: one.
 */
#include <math.h>

#include "json.h"
#include "report.h"

static const char *const end_words[] = {
	[REPORT_END_WHOLE] = "whole",
	[REPORT_END_FULL] = "full",
	[REPORT_END_MISSING] = "missing",
	[REPORT_END_CUT] = "too long",
};

static void
ways_put(struct json *json, const struct report *report, const struct report_gpu *gpu)
{
	for (int way = 0; way < REPORT_WAYS; way++) {
		const struct report_way_sum *sum = &gpu->ways[way];

		json_object(json, report_way_key((enum report_way)way));
		json_u64(json, "bytes", sum->bytes);
		json_u64(json, "moves", sum->moves);
		json_u64(json, "busy_ns", sum->busy_ns);
		json_double(json, "bytes_per_s_busy", report_rate(sum->bytes, sum->busy_ns));
		json_double(json, "bytes_per_s",
			    report_rate(sum->bytes, report_whole_ns(report)));
		json_close(json);
	}
}

static void
gpu_put(struct json *json, const struct report *report, int number)
{
	static const char *const tiers[SLUICE_TIER_COUNT] = {"device", "host", "store"};
	const struct report_gpu *gpu = report->gpus[number];

	json_object(json, NULL);
	json_u64(json, "gpu", (uint64_t)number);
	json_string(json, "binds", report_binding_name(gpu));
	json_object(json, "parts_ns");
	for (int part = 0; part < REPORT_PARTS; part++)
		json_u64(json, report_part_key((enum report_part)part), gpu->part_ns[part]);
	json_close(json);
	json_u64(json, "waited_behind_last_work_ns", gpu->waited_last_ns);
	ways_put(json, report, gpu);
	json_object(json, "memory");
	for (int tier = 0; tier < SLUICE_TIER_COUNT; tier++) {
		json_object(json, tiers[tier]);
		json_u64(json, "used_most_bytes", gpu->used_most[tier]);
		if (gpu->budget[tier])
			json_u64(json, "budget_bytes", gpu->budget[tier]);
		else
			json_null(json, "budget_bytes");
		json_close(json);
	}
	json_close(json);
	json_close(json);
}

static void
costs_put(struct json *json, const struct report *report)
{
	json_array(json, "functions");
	for (size_t i = 0; i < report->n_functions; i++) {
		const struct report_function *function = &report->functions[i];

		json_object(json, NULL);
		json_string(json, "name", function->name);
		json_u64(json, "calls", function->calls);
		json_u64(json, "busy_ns", function->busy_ns);
		json_u64(json, "waited_ns", function->waited_ns);
		json_u64(json, "copied_in_bytes", function->in_bytes);
		json_close(json);
	}
	json_close(json);
	json_array(json, "chunks");
	for (size_t i = 0; i < report->n_most_moved; i++) {
		const struct report_chunk *chunk = &report->most_moved[i];

		json_object(json, NULL);
		json_u64(json, "gpu", (uint64_t)chunk->gpu);
		json_u64(json, "address", chunk->address);
		json_u64(json, "copied_in_bytes", chunk->in_bytes);
		json_u64(json, "copied_out_bytes", chunk->out_bytes);
		json_u64(json, "moves", chunk->moves);
		json_close(json);
	}
	json_close(json);
	json_object(json, "counters");
	for (size_t i = 0; i < report->n_counters; i++)
		json_u64(json, report->counters[i].name, report->counters[i].bytes);
	json_close(json);
}

static void
plan_put(struct json *json, const struct report_plan *plan)
{
	if (!plan->given) {
		json_null(json, "plan");
		return;
	}
	json_object(json, "plan");
	json_double(json, "unlimited_seconds", plan->unlimited_s);
	json_u64(json, "own_device_memory_bytes", plan->own_bytes);
	json_u64(json, "host_memory_bytes", plan->host_bytes);
	json_double(json, "link_in_bytes_per_s", plan->link_in_bps);
	json_double(json, "link_out_bytes_per_s", plan->link_out_bps);
	json_u64(json, "reversed_tensors", plan->reversed);
	json_u64(json, "reversed_bytes", plan->reversed_bytes);
	json_array(json, "sizes");
	for (uint32_t i = 0; i < plan->n_sizes; i++) {
		json_object(json, NULL);
		json_u64(json, "device_memory_bytes", plan->sizes[i].device_bytes);
		json_double(json, "seconds",
			    plan->sizes[i].seconds < 0 ? (double)NAN
						       : plan->sizes[i].seconds);
		json_close(json);
	}
	json_close(json);
	json_close(json);
}

void
report_json_print(const struct report *report)
{
	struct json json;

	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_u64(&json, "schema", 1);
	json_string(&json, "timeline", report->path);
	json_string(&json, "program", report->process);
	json_u64(&json, "pid", report->pid);
	json_u64(&json, "wall_ns", report_whole_ns(report));
	json_string(&json, "end", end_words[report->end]);
	json_u64(&json, "lost_events", report->lost_events);
	json_u64(&json, "launches_without_a_time", report->untimed_launches);
	json_array(&json, "gpus");
	for (int i = 0; i < REPORT_GPUS_MAX; i++)
		if (report->gpus[i])
			gpu_put(&json, report, i);
	json_close(&json);
	costs_put(&json, report);
	plan_put(&json, &report->plan);
	json_array(&json, "advice");
	for (size_t i = 0; i < report->n_advice; i++) {
		json_object(&json, NULL);
		json_string(&json, "about", report->advice[i].key);
		json_string(&json, "text", report->advice[i].text);
		json_close(&json);
	}
	json_close(&json);
	(void)json_end(&json); /* main() looks at stdout */
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints one run of `sluice plan`: time, its parts, moved bytes, wear, and what compression gives.
 *
 * A phase is a tenth of the period's launch time with unlimited memory. It is bound by the
 * resource that its launches waited for the longest, or by compute if they waited for less than
 * a hundredth. Threads: one.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "cmd_plan.h"
#include "json.h"

#define DAYS_OF_YEAR 365.25
#define YEAR_S       (DAYS_OF_YEAR * 24 * 3600)

struct phase {
	uint32_t first, end; /* launches */
	uint64_t ideal_ticks, ticks;
	uint64_t waited[SL_BOUND_COUNT];
	enum sl_sim_bound bound;
};

const char *
plan_bound_name(enum sl_sim_bound bound)
{
	switch (bound) {
	case SL_BOUND_COMPUTE:
		return "compute";
	case SL_BOUND_LINK_IN:
		return "link in";
	case SL_BOUND_LINK_OUT:
		return "link out";
	case SL_BOUND_STORE_READ:
		return "store read";
	case SL_BOUND_STORE_WRITE:
		return "store write";
	case SL_BOUND_COUNT:
		break;
	}
	return "?";
}

static const struct sl_sim_launch *
launches_of(const struct sl_sim_result *result)
{
	return result->launches + (size_t)result->best_period * result->n_launches;
}

static uint32_t
phases_make(const struct sl_sim_result *result, struct phase phases[PLAN_PHASES])
{
	const struct sl_sim_launch *launches = launches_of(result);
	uint64_t before = 0;
	uint32_t count = 0, k = 0;

	while (k < result->n_launches && count < PLAN_PHASES) {
		struct phase *phase = &phases[count++];

		*phase = (struct phase){.first = k};
		do {
			const struct sl_sim_launch *launch = &launches[k++];
			uint64_t ticks = launch->end_ticks - launch->start_ticks;

			phase->ticks += ticks;
			phase->ideal_ticks += launch->ideal_ticks;
			if (ticks > launch->ideal_ticks)
				phase->waited[launch->bound] += ticks - launch->ideal_ticks;
			before += launch->ideal_ticks;
		} while (k < result->n_launches &&
			 (double)before < (double)result->ideal_ticks * count / PLAN_PHASES);
		phase->end = k;
		phase->bound = SL_BOUND_COMPUTE;
		for (int b = SL_BOUND_LINK_IN; b < SL_BOUND_COUNT; b++)
			if (phase->waited[b] > phase->ticks / 100 &&
			    (phase->bound == SL_BOUND_COMPUTE ||
			     phase->waited[b] > phase->waited[phase->bound]))
				phase->bound = (enum sl_sim_bound)b;
	}
	return count;
}

static double
seconds(const struct plan_job *job, uint64_t ticks)
{
	return (double)ticks / (double)job->trace->clock_hz;
}

/* Years until the drives have been written their fill; INFINITY: never, or unknown. */
static double
drive_years(const struct plan_job *job, const struct plan_outcome *outcome)
{
	double period = seconds(job, outcome->result.best_ticks);
	double written = (double)outcome->result.bytes[SL_PATH_STORE_OUT];

	if (written <= 0 || job->machine.drive_endurance_bytes <= 0)
		return INFINITY;
	return job->machine.drive_endurance_bytes * job->machine.n_drives /
	       (written / period * job->machine.n_gpus) / YEAR_S;
}

static const char *const path_names[SL_PATH_COUNT] = {
	[SL_PATH_STORE_IN] = "store to device",
	[SL_PATH_STORE_OUT] = "device to store",
	[SL_PATH_HOST_IN] = "host to device",
	[SL_PATH_HOST_OUT] = "device to host",
};

static void
bound_print(const struct plan_job *job, const char *title, const char *whose,
	    uint64_t least, uint64_t ticks)
{
	printf("%-11s %.6f s %s: %.2f %% above that\n", title, seconds(job, least), whose,
	       100.0 * ((double)ticks / (double)least - 1));
}

static uint64_t
crossed(const struct sl_sim_result *result, enum sl_sim_path path)
{
	return result->bytes[path] - result->saved_bytes[path];
}

/* Bytes that cross the link each way in a period. */
static void
link_bytes(const struct sl_sim_result *result, uint64_t *in, uint64_t *out)
{
	*in = crossed(result, SL_PATH_STORE_IN) + crossed(result, SL_PATH_HOST_IN);
	*out = crossed(result, SL_PATH_STORE_OUT) + crossed(result, SL_PATH_HOST_OUT);
}

/* What compression gives; without --codec, that the trace could tell. */
static void
codec_print(const struct plan_job *job, const struct plan_outcome *outcome)
{
	uint64_t in, out, raw_in, raw_out;
	struct sl_trace_ratio ratio;
	char text[32], other[32];

	sl_trace_ratio(job->trace, &ratio);
	if (!ratio.tensors)
		return;
	printf("\n%-16s %.3f of %s in %u of %u tensors", "ratio", ratio.mean,
	       sl_size_format(ratio.bytes, text, sizeof(text)), ratio.tensors,
	       job->trace->n_tensors);
	if (!plan_job_codes(job)) {
		printf(": --codec says what compression would give\n");
		return;
	}
	printf("%s\n",
	       ratio.tensors < job->trace->n_tensors ? "; the rest is taken for raw" : "");
	printf("%-16s encodes %.4g GB/s, decodes %.4g GB/s: as given\n\n", "codec",
	       job->machine.encode_bps / 1e9, job->machine.decode_bps / 1e9);
	link_bytes(&outcome->result, &in, &out);
	link_bytes(&outcome->raw_result, &raw_in, &raw_out);
	printf("%-16s %12s %12s\n", "compression", "without", "with");
	printf("%-16s %10.6f s %10.6f s  %.3f times as fast\n", "period",
	       seconds(job, outcome->raw_result.best_ticks),
	       seconds(job, outcome->result.best_ticks),
	       (double)outcome->raw_result.best_ticks / (double)outcome->result.best_ticks);
	printf("%-16s %10.6f s %10.6f s  by any schedule\n", "at least",
	       seconds(job, outcome->raw_bound.ticks), seconds(job, outcome->bound.ticks));
	printf("%-16s %12s %12s\n", "link in", sl_size_format(raw_in, text, sizeof(text)),
	       sl_size_format(in, other, sizeof(other)));
	printf("%-16s %12s %12s\n", "link out", sl_size_format(raw_out, text, sizeof(text)),
	       sl_size_format(out, other, sizeof(other)));
}

static void
codec_json(struct json *json, const struct plan_job *job, const struct plan_outcome *outcome)
{
	uint64_t in, out, raw_in, raw_out;
	struct sl_trace_ratio ratio;

	sl_trace_ratio(job->trace, &ratio);
	json_u64(json, "ratio_tensors", ratio.tensors);
	json_u64(json, "ratio_bytes", ratio.bytes);
	if (ratio.tensors)
		json_double(json, "ratio", ratio.mean);
	else
		json_null(json, "ratio");
	if (!plan_job_codes(job)) {
		json_null(json, "compression");
		return;
	}
	link_bytes(&outcome->result, &in, &out);
	link_bytes(&outcome->raw_result, &raw_in, &raw_out);
	json_object(json, "compression");
	json_double(json, "encode_bytes_per_s", job->machine.encode_bps);
	json_double(json, "decode_bytes_per_s", job->machine.decode_bps);
	json_u64(json, "raw_period_ticks", outcome->raw_result.best_ticks);
	json_u64(json, "raw_bound_ticks", outcome->raw_bound.ticks);
	json_u64(json, "raw_moving_bound_ticks", outcome->raw_bound.moving_ticks);
	json_u64(json, "raw_link_in_bytes", raw_in);
	json_u64(json, "raw_link_out_bytes", raw_out);
	json_u64(json, "link_in_bytes", in);
	json_u64(json, "link_out_bytes", out);
	json_close(json);
}

void
plan_report_print(const struct plan_job *job, const struct plan_outcome *outcome)
{
	const struct sl_sim_result *result = &outcome->result;
	double period = seconds(job, result->best_ticks);
	double years = drive_years(job, outcome);
	struct phase phases[PLAN_PHASES];
	uint32_t count = phases_make(result, phases);
	char text[32], other[32];

	printf("trace       %s (%u launch%s", job->trace_path, result->n_launches,
	       result->n_launches == 1 ? "" : "es");
	if (job->n_periods > 1)
		printf(", period %u of 0 to %u", job->period, job->n_periods - 1);
	printf(")\n");
	printf("machine     %s device",
	       sl_size_format(job->machine.device_bytes, text, sizeof(text)));
	printf(", %s host, link %.4g GB/s in %.4g out, store %.4g GB/s read %.4g write\n",
	       sl_size_format(job->machine.host_bytes, other, sizeof(other)),
	       job->machine.link_in_bps / 1e9, job->machine.link_out_bps / 1e9,
	       job->machine.store_read_bps / 1e9, job->machine.store_write_bps / 1e9);
	printf("policy      %s", job->policy->policy->name);
	if (outcome->plan)
		printf(", plan by %s, %u steps", outcome->plan->planner,
		       outcome->plan->n_steps);
	printf("\n\nperiod      %.6f s\n", period);
	printf("unlimited   %.6f s: %.2f %% of that speed is kept\n",
	       seconds(job, result->ideal_ticks),
	       100.0 * (double)result->ideal_ticks / (double)result->best_ticks);
	if (outcome->has_bound)
		bound_print(job, "at least", "by any schedule", outcome->bound.ticks,
			    result->best_ticks);
	if (outcome->has_bound && outcome->bound.moving_ticks > outcome->bound.ticks)
		bound_print(job, "", "if all that leaves is moved",
			    outcome->bound.moving_ticks, result->best_ticks);
	printf("\n%-16s %10s %10s %8s  %s\n", "launches", "time", "unlimited", "waits",
	       "bound by");
	for (uint32_t i = 0; i < count; i++) {
		const struct phase *phase = &phases[i];
		double waits = phase->ticks > phase->ideal_ticks
				       ? (double)(phase->ticks - phase->ideal_ticks)
				       : 0;

		snprintf(text, sizeof(text), "%u-%u", phase->first, phase->end - 1);
		printf("%-16s %8.3f s %8.3f s %6.1f %%  %s\n", text,
		       seconds(job, phase->ticks), seconds(job, phase->ideal_ticks),
		       100.0 * waits / (double)phase->ticks, plan_bound_name(phase->bound));
	}
	printf("\n");
	for (int path = 0; path < SL_PATH_COUNT; path++)
		printf("%-16s %s a period, %.3f GB/s\n", path_names[path],
		       sl_size_format(result->bytes[path], text, sizeof(text)),
		       (double)result->bytes[path] / period / 1e9);
	if (isfinite(years) && years < 1)
		printf("%-16s %.*f days at this rate\n", "drives last",
		       years * DAYS_OF_YEAR < 10, years * DAYS_OF_YEAR);
	else if (isfinite(years))
		printf("%-16s %.2f years at this rate\n", "drives last", years);
	else
		printf("%-16s %s\n", "drives last",
		       result->bytes[SL_PATH_STORE_OUT]
			       ? "unknown: give --store endurance="
			       : "nothing is written to them");
	codec_print(job, outcome);
}

void
plan_report_json(const struct plan_job *job, const struct plan_outcome *outcome)
{
	static const char *const path_keys[SL_PATH_COUNT] = {
		[SL_PATH_STORE_IN] = "store_to_device_bytes",
		[SL_PATH_STORE_OUT] = "device_to_store_bytes",
		[SL_PATH_HOST_IN] = "host_to_device_bytes",
		[SL_PATH_HOST_OUT] = "device_to_host_bytes",
	};
	const struct sl_sim_result *result = &outcome->result;
	struct phase phases[PLAN_PHASES];
	uint32_t count = phases_make(result, phases);
	struct json json;

	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_string(&json, "trace", job->trace_path);
	json_u64(&json, "period", job->period);
	json_string(&json, "policy", job->policy->policy->name);
	json_string(&json, "planner", outcome->plan ? outcome->plan->planner : NULL);
	json_u64(&json, "steps", outcome->plan ? outcome->plan->n_steps : 0);
	json_u64(&json, "device_memory_bytes", job->machine.device_bytes);
	json_u64(&json, "host_memory_bytes", job->machine.host_bytes);
	json_u64(&json, "clock_hz", job->trace->clock_hz);
	json_u64(&json, "period_ticks", result->best_ticks);
	json_u64(&json, "unlimited_ticks", result->ideal_ticks);
	if (outcome->has_bound) {
		json_u64(&json, "bound_ticks", outcome->bound.ticks);
		json_u64(&json, "moving_bound_ticks", outcome->bound.moving_ticks);
	} else {
		json_null(&json, "bound_ticks");
		json_null(&json, "moving_bound_ticks");
	}
	json_double(&json, "period_seconds", seconds(job, result->best_ticks));
	json_double(&json, "kept", (double)result->ideal_ticks / (double)result->best_ticks);
	json_u64(&json, "faults", result->faults);
	for (int path = 0; path < SL_PATH_COUNT; path++)
		json_u64(&json, path_keys[path], result->bytes[path]);
	json_double(&json, "drive_years", drive_years(job, outcome));
	codec_json(&json, job, outcome);
	json_array(&json, "phases");
	for (uint32_t i = 0; i < count; i++) {
		json_object(&json, NULL);
		json_u64(&json, "first_launch", phases[i].first);
		json_u64(&json, "last_launch", phases[i].end - 1);
		json_u64(&json, "ticks", phases[i].ticks);
		json_u64(&json, "unlimited_ticks", phases[i].ideal_ticks);
		json_string(&json, "bound_by", plan_bound_name(phases[i].bound));
		json_close(&json);
	}
	json_close(&json);
	json_close(&json);
	(void)json_end(&json); /* main() looks at stdout */
}

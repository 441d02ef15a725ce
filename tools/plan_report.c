/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints one run of `sluice plan`: time, its parts, moved bytes, and wear.
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

void
plan_report_print(const struct plan_job *job, const struct plan_outcome *outcome)
{
	const struct sl_sim_result *result = &outcome->result;
	double period = seconds(job, result->best_ticks);
	double years = drive_years(job, outcome);
	struct phase phases[PLAN_PHASES];
	uint32_t count = phases_make(result, phases);
	char text[32], other[32];

	printf("trace       %s (%u launches", job->trace_path, result->n_launches);
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

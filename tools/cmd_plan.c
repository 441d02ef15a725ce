/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice plan`: the time of a trace on a machine that need not exist, its bottlenecks there,
 * and the plan for that time.
 *
 * src/plan and src/sim plan, simulate and find the lower bound. This file reads the command line
 * and calls them. Threads: one.
 */
#include "cmd_plan.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "commands.h"
#include "sim/best_plan.h"
#include "sluice/sluice.h"

#define KEEP_DEFAULT 0.95 /* a machine hardly slower than one with all memory */
#define SIZE_MOST    ((uint64_t)1 << 50) /* of a machine: sl_machine_check() */

static const char help_machine[] =
	"Usage: %s plan TRACE [MACHINE] [OPTIONS]\n"
	"       %s plan TRACE [MACHINE] --sweep AXIS=VALUES[,AXIS=VALUES...] "
	"[OPTIONS]\n"
	"\n"
	"Plan the moves of a trace's tensors on a machine, simulate the plan and say how "
	"long\n"
	"a period takes, what holds it up, what moves, and how long the drives last.\n"
	"\n"
	"Machine (default: an A100 with 40 GiB, PCIe 3 x16, 128 GiB of host memory, one "
	"drive):\n"
	"      --device-memory SIZE  of one GPU, as 24G\n"
	"      --host-memory SIZE    lent to the GPUs, as 64G; may be 0\n"
	"      --link RATE           each way, as 32G (bytes per second); or "
	"in=RATE,out=RATE\n"
	"      --store SPEC          read=RATE,write=RATE[,capacity=SIZE][,drives=N]\n"
	"                            [,endurance=SIZE]; rates are of all drives "
	"together,\n"
	"                            endurance is what one drive may be written in its "
	"life\n"
	"      --codec RATE          the GPU compresses what crosses the link, each way "
	"at "
	"this\n"
	"                            rate of raw bytes, as 500G; or "
	"encode=RATE,decode=RATE.\n"
	"                            The trace has to have ratios\n"
	"      --gpus N              that share host memory and store\n"
	"\n"
	"Options:\n"
	"      --period N            of a trace of several: this one, counted from 0 "
	"(default: of\n"
	"                            those that repeat the one with the median time)\n"
	"      --planner NAME        %s\n"
	"      --policy NAME         what runs in the simulator: %s\n"
	"      --plan FILE           carry out this plan instead of making one\n";
static const char help_published[] =
	"      --as-published        by the rules of the published simulation\n";
static const char help_rest[] =
	"  -o, --output FILE         write the plan\n"
	"      --sweep SPEC          try many machines; AXIS is device-memory, "
	"host-memory,\n"
	"                            store, link or drives; VALUES are one or more of "
	"8G,\n"
	"                            8G..80G:N (N values, default 10), 4G..64G*2 (by a "
	"factor)\n"
	"      --keep SHARE          sweep: find the smallest machines that keep this "
	"share of\n"
	"                            the speed with unlimited memory (default 0.95)\n"
	"      --svg FILE            draw a picture too\n"
	"      --json                print one JSON object\n"
	"  -h, --help                print this and exit\n";

enum {
	OPT_DEVICE = 256,
	OPT_HOST,
	OPT_LINK,
	OPT_STORE,
	OPT_CODEC,
	OPT_GPUS,
	OPT_PERIOD,
	OPT_PLANNER,
	OPT_POLICY,
	OPT_KEEP
};

#define TO(name) COMMAND_MEMBER(struct plan_job, name)

static const struct option long_options[] = {
	{"as-published", no_argument, NULL, TO(as_published)}, /* first: only if published */
	{"device-memory", required_argument, NULL, OPT_DEVICE},
	{"host-memory", required_argument, NULL, OPT_HOST},
	{"link", required_argument, NULL, OPT_LINK},
	{"store", required_argument, NULL, OPT_STORE},
	{"codec", required_argument, NULL, OPT_CODEC},
	{"gpus", required_argument, NULL, OPT_GPUS},
	{"period", required_argument, NULL, OPT_PERIOD},
	{"planner", required_argument, NULL, OPT_PLANNER},
	{"policy", required_argument, NULL, OPT_POLICY},
	{"plan", required_argument, NULL, TO(plan_path)},
	{"output", required_argument, NULL, 'o'},
	{"sweep", required_argument, NULL, TO(sweep)},
	{"keep", required_argument, NULL, OPT_KEEP},
	{"svg", required_argument, NULL, TO(svg)},
	{"json", no_argument, NULL, TO(as_json)},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

int
plan_rate_parse(const char *text, double *out)
{
	static const char letters[] = "KMGTP";
	double value, unit = 1;
	const char *letter;
	char *end;

	if ((*text < '0' || *text > '9') && *text != '.')
		return -EINVAL;
	value = strtod(text, &end);
	if (*end && (letter = strchr(letters, *end)) != NULL) {
		for (; letter >= letters; letter--)
			unit *= 1000;
		end++;
	}
	if (strcmp(end, "B/s") == 0 || strcmp(end, "B") == 0)
		end += strlen(end);
	if (*end || !isfinite(value) || value <= 0 || value * unit > 1e15)
		return -EINVAL;
	*out = value * unit;
	return 0;
}

/* One "key=value" of --store, --link or --codec. */
static int
pair_take(const char *option, const char *key, const char *value, struct sl_machine *machine)
{
	uint64_t number;
	int store = strcmp(option, "store") == 0, codec = strcmp(option, "codec") == 0;
	int rc = -EINVAL;

	if (store && strcmp(key, "read") == 0)
		rc = plan_rate_parse(value, &machine->store_read_bps);
	else if (store && strcmp(key, "write") == 0)
		rc = plan_rate_parse(value, &machine->store_write_bps);
	else if (store && strcmp(key, "capacity") == 0)
		rc = sl_size_parse(value, &machine->store_bytes);
	else if (store && strcmp(key, "endurance") == 0) {
		rc = sl_size_parse(value, &number);
		if (!rc)
			machine->drive_endurance_bytes = (double)number;
	} else if (store && strcmp(key, "drives") == 0) {
		rc = command_number(value, 1, 4096, &number);
		if (!rc)
			machine->n_drives = (uint32_t)number;
	} else if (codec && strcmp(key, "encode") == 0)
		rc = plan_rate_parse(value, &machine->encode_bps);
	else if (codec && strcmp(key, "decode") == 0)
		rc = plan_rate_parse(value, &machine->decode_bps);
	else if (!store && !codec && strcmp(key, "in") == 0)
		rc = plan_rate_parse(value, &machine->link_in_bps);
	else if (!store && !codec && strcmp(key, "out") == 0)
		rc = plan_rate_parse(value, &machine->link_out_bps);
	else
		return command_usage("plan", "--%s has no '%s'", option, key);
	if (rc)
		return command_usage("plan", "--%s: '%s' is no value for %s", option,
				     value, key);
	return SL_EXIT_OK;
}

static int
pairs_take(const char *option, const char *text, struct sl_machine *machine)
{
	SL_CLEANUP(free) char *copy = strdup(text);
	char *rest = NULL, *pair, *value;
	int code;

	if (!copy)
		return command_fail("plan", "out of memory");
	for (pair = strtok_r(copy, ",", &rest); pair; pair = strtok_r(NULL, ",", &rest)) {
		value = strchr(pair, '=');
		if (!value)
			return command_usage("plan", "--%s: '%s' is not KEY=VALUE",
					     option, pair);
		*value++ = 0;
		code = pair_take(option, pair, value, machine);
		if (code)
			return code;
	}
	return SL_EXIT_OK;
}

/* A rate each way, or both as pairs. */
static int
rates_take(const char *option, double *in_bps, double *out_bps, struct sl_machine *machine)
{
	if (strchr(optarg, '='))
		return pairs_take(option, optarg, machine);
	if (plan_rate_parse(optarg, in_bps))
		return command_usage("plan", "--%s: '%s' is not a rate like 32G", option,
				     optarg);
	*out_bps = *in_bps;
	return SL_EXIT_OK;
}

static int
machine_option(int c, struct sl_machine *machine)
{
	uint64_t number;

	switch (c) {
	case OPT_DEVICE:
	case OPT_HOST:
		if (sl_size_parse(optarg, &number))
			return command_usage("plan", "--%s: '%s' is not a size like 24G",
					     c == OPT_DEVICE ? "device-memory" : "host-memory",
					     optarg);
		*(c == OPT_DEVICE ? &machine->device_bytes : &machine->host_bytes) = number;
		break;
	case OPT_LINK:
		return rates_take("link", &machine->link_in_bps, &machine->link_out_bps,
				  machine);
	case OPT_CODEC:
		return rates_take("codec", &machine->decode_bps, &machine->encode_bps,
				  machine);
	case OPT_STORE:
		return pairs_take("store", optarg, machine);
	case OPT_GPUS:
		if (command_number(optarg, 1, 1024, &number))
			return command_usage("plan", "--gpus %s is not a number of 1 to 1024",
					     optarg);
		machine->n_gpus = (uint32_t)number;
		break;
	}
	return SL_EXIT_OK;
}

static int
option_take(const struct option *option, void *into)
{
	struct plan_job *job = into;
	uint64_t number;
	char *end;

	if (option->val >= OPT_DEVICE && option->val <= OPT_GPUS)
		return machine_option(option->val, &job->machine);
	switch (option->val) {
	case 'h':
		printf(help_machine, command_program_name(), command_program_name(),
		       plan_models.planner_help, plan_models.policy_help);
		printf("%s%s", plan_models.publishes ? help_published : "", help_rest);
		return -1;
	case 'o':
		job->output = optarg;
		break;
	case OPT_PERIOD:
		if (command_number(optarg, 0, SL_TRACE_LAUNCHES_MAX, &number))
			return command_usage("plan", "--period %s is not a number", optarg);
		job->period = (uint32_t)number;
		break;
	case OPT_PLANNER:
		job->planner = plan_models.planner_find(optarg);
		if (!job->planner)
			return command_usage("plan", "--planner: no planner '%s'", optarg);
		break;
	case OPT_POLICY:
		job->policy = plan_models.policies;
		while (job->policy->policy && strcmp(job->policy->policy->name, optarg))
			job->policy++;
		if (!job->policy->policy)
			return command_usage("plan", "--policy: no policy '%s'", optarg);
		break;
	case OPT_KEEP:
		job->keep = strtod(optarg, &end);
		if (end == optarg || *end || !(job->keep > 0 && job->keep <= 1))
			return command_usage("plan", "--keep %s is not a share of 0 to 1",
					     optarg);
		break;
	}
	return SL_EXIT_OK;
}

/* What sl_machine_check() refuses and options can ask for, by the options' names. */
static int
machine_options_check(const struct sl_machine *machine)
{
	const struct {
		const char *option;
		uint64_t bytes, least;
	} sizes[] = {{"--device-memory", machine->device_bytes, machine->page_bytes},
		     {"--host-memory", machine->host_bytes, 0},
		     {"--store capacity=", machine->store_bytes, 0}};
	const struct {
		const char *store, *link;
		double store_bps, link_bps;
	} rates[] = {{"read=", "in=", machine->store_read_bps, machine->link_in_bps},
		     {"write=", "out=", machine->store_write_bps, machine->link_out_bps}};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (sizes[i].bytes < sizes[i].least || sizes[i].bytes > SIZE_MOST)
			return command_fail("plan", "%s: %llu bytes, must be %llu to 1P",
					    sizes[i].option,
					    (unsigned long long)sizes[i].bytes,
					    (unsigned long long)sizes[i].least);
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		if (rates[i].store_bps > rates[i].link_bps)
			return command_fail("plan",
					    "--store %s%.6gG is faster than --link "
					    "%s%.6gG, which bounds "
					    "it: give a slower store or a faster link",
					    rates[i].store, rates[i].store_bps / 1e9,
					    rates[i].link, rates[i].link_bps / 1e9);
	return SL_EXIT_OK;
}

/* 0: go on; -1: help was printed; else the exit code. */
static int
arguments_read(int argc, char **argv, struct plan_job *job)
{
	const struct command_syntax syntax = {"plan", ":ho:", NULL,
					      long_options + !plan_models.publishes,
					      option_take};
	int rc = command_options_read(&syntax, argc, argv, job);

	if (rc)
		return rc;
	if (argc - optind != 1)
		return command_usage("plan", optind == argc ? "which trace?"
							    : "one trace at a time");
	job->trace_path = argv[optind];
	rc = machine_options_check(&job->machine);
	if (rc)
		return rc;
	if (job->sweep && (job->plan_path || job->output))
		return command_usage(
			"plan", "--sweep goes neither with --plan nor with --output");
	if (job->sweep && job->policy != plan_models.policies)
		return command_usage("plan", "--sweep goes with --policy plan only");
	if (job->keep > 0 && !job->sweep)
		return command_usage("plan",
				     "--keep is of --sweep: one machine has no smallest");
	if ((job->machine.encode_bps > 0) != (job->machine.decode_bps > 0))
		return command_usage("plan",
				     "--codec: both encode= and decode= are needed");
	if (plan_job_codes(job) && job->as_published)
		return command_usage(
			"plan",
			"--codec goes not with --as-published: nothing compressed there");
	if (plan_job_codes(job) && !job->policy->codes)
		return command_usage("plan",
				     "--codec is not for --policy %s: it moves raw bytes",
				     job->policy->policy->name);
	if (!job->policy->plans && (job->plan_path || job->output))
		return command_usage("plan", "--policy %s carries out no plan: neither --plan nor --output",
				     job->policy->policy->name);
	if (job->keep <= 0)
		job->keep = KEEP_DEFAULT;
	return 0;
}

/* ---- one run ---- */

/* The plan that was given or is asked for, carried out; ours is the best of several. A policy
 * without plans just runs. */
static int
machine_plan_run(const struct plan_job *job, const struct sl_machine *machine,
		 const struct sl_sim_options *options, struct sl_plan **plan,
		 struct sl_sim_result *result)
{
	struct sl_planner_options planning = {.as_published = job->as_published};
	const struct sl_planner *planner = job->planner;
	int rc;

	if (!job->policy->plans)
		return job->policy->policy->run(job->trace, machine, NULL, options, result);
	if (job->policy->planner)
		planner = plan_models.planner_find(job->policy->planner);
	if (!job->plan_path && planner == &sl_planner_sluice)
		return sl_best_plan(job->trace, machine, plan_models.planner_find("g10"),
				    job->policy->policy, options, plan, result);
	if (job->plan_path)
		rc = sl_plan_read(job->plan_path, plan);
	else
		rc = planner->make(job->trace, machine, &planning, plan);
	if (rc)
		return rc;
	return job->policy->policy->run(job->trace, machine, *plan, options, result);
}

/* Without the codec, for the comparison. What is best there may be better with it than what was
 * found with it: then it is taken. */
static int
raw_run(const struct plan_job *job, const struct sl_sim_options *options,
	struct plan_outcome *outcome)
{
	struct sl_machine raw = job->machine;
	struct sl_sim_result again = {0};
	struct sl_plan *plan = NULL;
	int rc;

	raw.encode_bps = raw.decode_bps = 0;
	rc = sl_bound_make(job->trace, &raw, 0, &outcome->raw_bound);
	if (!rc)
		rc = machine_plan_run(job, &raw, options, &plan, &outcome->raw_result);
	if (!rc && outcome->raw_result.failed)
		rc = sl_fail(-ENOSPC, "%s: without --codec: %s",
			     job->policy->policy->name, outcome->raw_result.why);
	if (!rc && plan && !job->plan_path &&
	    !job->policy->policy->run(job->trace, &job->machine, plan, options, &again) &&
	    !again.failed && again.best_ticks < outcome->result.best_ticks) {
		struct sl_sim_result result = outcome->result;
		struct sl_plan *worse = outcome->plan;

		outcome->result = again;
		outcome->plan = plan;
		again = result;
		plan = worse;
	}
	sl_sim_result_fini(&again);
	sl_plan_destroy(plan);
	return rc;
}

static int
job_run(const struct plan_job *job, struct plan_outcome *outcome)
{
	struct sl_sim_options options = {.as_published = job->as_published};
	const struct sl_sim_policy *policy = job->policy->policy;
	int rc = sl_machine_check(&job->machine);

	if (!rc)
		rc = sl_bound_make(job->trace, &job->machine, job->as_published,
				   &outcome->bound);
	outcome->has_bound = !job->policy->unbound &&
			     !(job->as_published && job->policy->unbound_published);
	if (!rc)
		rc = machine_plan_run(job, &job->machine, &options, &outcome->plan,
				      &outcome->result);
	if (!rc && outcome->result.failed)
		rc = sl_fail(-ENOSPC, "%s: %s", policy->name, outcome->result.why);
	if (!rc && plan_job_codes(job))
		rc = raw_run(job, &options, outcome);
	if (!rc && job->output)
		rc = sl_plan_write(outcome->plan, job->output);
	if (!rc && job->svg)
		rc = plan_picture_run(job->svg, job, outcome);
	if (!rc && job->as_json)
		plan_report_json(job, outcome);
	else if (!rc)
		plan_report_print(job, outcome);
	return rc;
}

int
plan_period_take(struct plan_job *job, struct sl_trace **trace)
{
	struct sl_trace *cut;
	int rc = 0;

	job->n_periods = (*trace)->n_periods;
	if (job->period == SL_TRACE_NONE)
		rc = sl_trace_steady(*trace, &job->period);
	if (rc || (job->n_periods == 1 && job->period == 0))
		return rc;
	rc = sl_trace_cut(*trace, job->period, &cut);
	if (rc)
		return rc;
	sl_trace_destroy(*trace);
	*trace = cut;
	return 0;
}

/* A codec needs to know how far data shrink. */
static int
ratio_check(const struct plan_job *job)
{
	struct sl_trace_ratio ratio;

	sl_trace_ratio(job->trace, &ratio);
	if (!plan_job_codes(job) || ratio.tensors)
		return 0;
	return sl_fail(
		-EINVAL,
		"%s: no tensor has a ratio, which --codec needs: record it with sluice "
		"run --record and less device memory than the program uses",
		job->trace_path);
}

int
cmd_plan(int argc, char **argv)
{
	struct plan_job job = {.planner = &sl_planner_sluice,
			       .policy = plan_models.policies,
			       .period = SL_TRACE_NONE};
	struct plan_outcome outcome = {0};
	struct sl_trace *trace = NULL;
	int rc, code;

	sl_machine_g10(&job.machine);
	code = arguments_read(argc, argv, &job);
	if (code)
		return code < 0 ? SL_EXIT_OK : code;
	rc = sl_trace_read(job.trace_path, &trace);
	if (!rc)
		rc = plan_period_take(&job, &trace);
	job.trace = trace;
	if (!rc)
		rc = ratio_check(&job);
	if (!rc && job.sweep)
		code = plan_sweep_run(&job);
	else if (!rc)
		rc = job_run(&job, &outcome);
	if (rc)
		code = command_fail("plan", "%s", sluice_last_error());
	sl_plan_destroy(outcome.plan);
	sl_sim_result_fini(&outcome.result);
	sl_sim_result_fini(&outcome.raw_result);
	sl_trace_destroy(trace);
	return code;
}

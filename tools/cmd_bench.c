/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice bench APP`: runs a workload over real files and prints times, exact counters, and the
 * bytes that theory expects beside those that moved.
 *
 * What a workload does and checks is in workloads/; this file reads the command line, refuses
 * values that contradict each other before anything is written, and prints. Options of the space
 * become "key=value" pairs of sluice_config_parse(), so they have one parser and one set of
 * messages; --set reaches the keys that have no option of their own. Options that only one
 * workload has come from its table.
 *
 * Exit codes: 0 done, 1 a run failed, 2 wrong command line, 3 a run gave wrong results.
 * Ctrl-C ends the run at the next tile, removes its files, and then the process.
 *
 * Threads: one; kernels run on the space's.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "commands.h"
#include "json.h"
#include "progress.h"
#include "sluice/sluice.h"
#include "workload.h"

#define EXIT_WRONG        3
#define REPEAT_MAX        1000u
#define PAIRS_MAX         32 /* "key=value" pairs of one command line */
#define OPTIONS_MAX       64
#define CHUNK_MIN_BYTES   (2u << 20)
#define DEVICE_CHUNKS_MIN 16u /* of the default device budget */

static const char bench_help[] =
	"Usage: sluice bench APP [OPTIONS]\n"
	"       sluice bench --list\n"
	"\n"
	"Run a workload over files in DIR and print times, bytes moved and what theory "
	"expects.\n"
	"SIZE: bytes, or with K, M, G, T (powers of 1024).\n"
	"\n"
	"Workload:\n"
	"      --list                 list the workloads and their own options\n"
	"      --footprint SIZE       size of all arrays together (512M)\n"
	"      --seed N               seed of the generated inputs (1)\n"
	"      --tile SIZE            what one launch declares (a third of the device "
	"memory)\n"
	"      --presence KIND        launch: launches declare what they use; fault: "
	"they do not,\n"
	"                             and run by faults (launch)\n"
	"      --iterations N         srad_v2: iterations (2)\n"
	"      --rows-per-launch N    pathfinder: rows that one launch goes down (1)\n"
	"      --discard MODE         fir: none, eager or lazy: what happens to used "
	"input (none)\n"
	"      --taps N               fir: coefficients of the filter (16)\n"
	"\n"
	"Space:\n"
	"      --device-memory SIZE   device budget (a quarter of the footprint)\n"
	"      --host-memory SIZE     host budget, 0 for none (half of the footprint)\n"
	"      --host-reserve SIZE    part of the host budget that volatile data leave "
	"free\n"
	"      --chunk SIZE           unit of residency\n"
	"      --policy NAME          lru, dragon or uvm (lru)\n"
	"      --population NAME      chunk, grow or page: what one fault brings in "
	"(chunk)\n"
	"      --threads N            kernel threads, 0 for one per CPU\n"
	"      --readahead N          most chunks read ahead, 0 for none\n"
	"      --set KEY=VALUE        any other setting of the space, see sluice(7); "
	"repeatable\n"
	"\n"
	"Run:\n"
	"      --dir DIR              existing directory for the files ($TMPDIR or "
	"/var/tmp)\n"
	"      --repeat N             run N times, times are medians (1)\n"
	"      --verify               compare the results with a reference, bit for bit\n"
	"      --keep                 leave the files in DIR, to be used again\n"
	"      --json                 print one JSON object\n"
	"  -h, --help                 print this and exit\n"
	"\n"
	"Exit codes: 0 done, 1 a run failed, 2 wrong command line, 3 wrong results.\n";

enum {
	OPT_LIST = 256,
	OPT_FOOTPRINT,
	OPT_SEED,
	OPT_TILE,
	OPT_PRESENCE,
	OPT_DEVICE_MEMORY,
	OPT_HOST_MEMORY,
	OPT_HOST_RESERVE,
	OPT_CHUNK,
	OPT_POLICY,
	OPT_POPULATION,
	OPT_THREADS,
	OPT_READAHEAD,
	OPT_SET,
	OPT_DIR,
	OPT_REPEAT,
	OPT_VERIFY,
	OPT_KEEP,
	OPT_JSON,
	OPT_WORKLOAD /* and up: the options of all workloads */
};

static const struct option bench_options[] = {
	{"list", no_argument, NULL, OPT_LIST},
	{"footprint", required_argument, NULL, OPT_FOOTPRINT},
	{"seed", required_argument, NULL, OPT_SEED},
	{"tile", required_argument, NULL, OPT_TILE},
	{"presence", required_argument, NULL, OPT_PRESENCE},
	{"device-memory", required_argument, NULL, OPT_DEVICE_MEMORY},
	{"host-memory", required_argument, NULL, OPT_HOST_MEMORY},
	{"host-reserve", required_argument, NULL, OPT_HOST_RESERVE},
	{"chunk", required_argument, NULL, OPT_CHUNK},
	{"policy", required_argument, NULL, OPT_POLICY},
	{"population", required_argument, NULL, OPT_POPULATION},
	{"threads", required_argument, NULL, OPT_THREADS},
	{"readahead", required_argument, NULL, OPT_READAHEAD},
	{"set", required_argument, NULL, OPT_SET},
	{"dir", required_argument, NULL, OPT_DIR},
	{"repeat", required_argument, NULL, OPT_REPEAT},
	{"verify", no_argument, NULL, OPT_VERIFY},
	{"keep", no_argument, NULL, OPT_KEEP},
	{"json", no_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, 'h'},
};

#define BENCH_OPTION_N (sizeof(bench_options) / sizeof(bench_options[0]))

/* Options that are settings of the space. */
static const struct {
	int opt;
	const char *option, *key;
} space_options[] = {
	{OPT_DEVICE_MEMORY, "--device-memory", "device_budget"},
	{OPT_HOST_MEMORY, "--host-memory", "host_budget"},
	{OPT_HOST_RESERVE, "--host-reserve", "host_reserve"},
	{OPT_CHUNK, "--chunk", "chunk"},
	{OPT_POLICY, "--policy", "policy"},
	{OPT_POPULATION, "--population", "population"},
	{OPT_THREADS, "--threads", "workers"},
	{OPT_READAHEAD, "--readahead", "readahead_chunks"},
};

static const char *const presence_names[WORKLOAD_PRESENCE_COUNT] = {
	[WORKLOAD_PRESENCE_LAUNCH] = "launch",
	[WORKLOAD_PRESENCE_FAULT] = "fault",
};

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

struct bench {
	const struct workload *workload;
	struct workload_params params;
	struct workload_plan plan;
	uint64_t repeat;
	int json;

	/* Settings of the space in the order given; text is "key=value". */
	struct pair {
		const char *from; /* the option, for messages */
		char text[1200];
	} pair[PAIRS_MAX];
	unsigned n_pairs;

	/* Options of workloads, applied once the workload is known. */
	struct extra {
		const struct workload *owner;
		unsigned option;
		const char *value;
	} extra[OPTIONS_MAX];
	unsigned n_extras;

	const char *tile_text; /* NULL: not given */
	struct progress progress;
};

static volatile sig_atomic_t bench_signal; /* the one that asked the run to end; 0: none */

static void
signal_note(int number)
{
	bench_signal = number;
}

/* First signal: the run ends in order. Second one: the process ends at once. */
static void
signals_catch(void)
{
	struct sigaction action = {.sa_handler = signal_note,
				   .sa_flags = SA_RESETHAND | SA_RESTART};

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

/* ---- command line ---- */

/* All options of bench and of all workloads into table, which has OPTIONS_MAX entries. */
static void
option_table_make(struct option *table)
{
	const struct workload *const *w;
	unsigned n = 0, i;
	int code = OPT_WORKLOAD;

	for (i = 0; i < BENCH_OPTION_N; i++)
		table[n++] = bench_options[i];
	for (w = workloads_list; *w; w++) {
		for (i = 0; i < (*w)->n_options && n + 1 < OPTIONS_MAX; i++)
			table[n++] = (struct option){(*w)->options[i].name,
						     required_argument, NULL, code++};
	}
	table[n] = (struct option){NULL, 0, NULL, 0};
}

static int
extra_add(struct bench *bench, int code, const char *value)
{
	const struct workload *const *w;
	unsigned i = (unsigned)(code - OPT_WORKLOAD);

	for (w = workloads_list; *w; w++) {
		if (i < (*w)->n_options)
			break;
		i -= (*w)->n_options;
	}
	if (!*w || bench->n_extras == OPTIONS_MAX)
		return command_usage("bench", "too many options");
	bench->extra[bench->n_extras++] = (struct extra){*w, i, value};
	return 0;
}

static int
extra_apply(struct bench *bench, const struct extra *extra)
{
	const struct workload_option *option = &extra->owner->options[extra->option];
	uint64_t value;
	unsigned i;

	if (extra->owner != bench->workload)
		return command_usage("bench", "--%s is an option of %s, not of %s",
				     option->name, extra->owner->name,
				     bench->workload->name);
	if (option->choices) {
		for (i = 0; option->choices[i]; i++) {
			if (strcmp(option->choices[i], extra->value) == 0) {
				bench->params.option[extra->option] = i;
				return 0;
			}
		}
		return command_usage("bench",
				     "--%s %s: no such choice; see sluice bench --list",
				     option->name, extra->value);
	}
	if (command_number(extra->value, option->min, option->max, &value))
		return command_usage("bench",
				     "--%s %s: not a number from %" PRIu64 " to %" PRIu64,
				     option->name, extra->value, option->min, option->max);
	bench->params.option[extra->option] = value;
	return 0;
}

/* Add the setting key=value; value may be NULL if key has the form "key=value" already. */
static int
pair_add(struct bench *bench, const char *from, const char *key, const char *value)
{
	struct pair *pair = &bench->pair[bench->n_pairs];
	size_t key_chars = value ? strlen(key) : strcspn(key, "=");
	unsigned i;
	int n;

	if (bench->n_pairs == PAIRS_MAX)
		return command_usage("bench", "more than %d settings of the space",
				     PAIRS_MAX);
	if (!value && key[key_chars] != '=')
		return command_usage("bench", "%s %s: not of the form KEY=VALUE", from, key);
	n = snprintf(pair->text, sizeof(pair->text), "%s%s%s", key, value ? "=" : "",
		     value ? value : "");
	if (n < 0 || (size_t)n >= sizeof(pair->text))
		return command_usage("bench", "%s: the value is too long", from);
	if (strchr(pair->text, ','))
		return command_usage("bench", "%s %s: one setting at a time, without a comma",
				     from, value ? value : key);
	for (i = 0; i < bench->n_pairs; i++) {
		if (strncmp(bench->pair[i].text, key, key_chars) == 0 &&
		    bench->pair[i].text[key_chars] == '=')
			return command_usage("bench",
					     "%s and %s both set %.*s: give one of them",
					     bench->pair[i].from, from, (int)key_chars, key);
	}
	pair->from = from;
	bench->n_pairs++;
	return 0;
}

static int
pair_is_given(const struct bench *bench, const char *key)
{
	size_t key_chars = strlen(key);
	unsigned i;

	for (i = 0; i < bench->n_pairs; i++)
		if (strncmp(bench->pair[i].text, key, key_chars) == 0 &&
		    bench->pair[i].text[key_chars] == '=')
			return 1;
	return 0;
}

static int
size_read(const char *option, const char *text, uint64_t *out)
{
	int rc = sl_size_parse(text, out);

	if (rc)
		return command_usage("bench", "%s %s: %s", option, text,
				     rc == -ERANGE ? "too large" : "not a size such as 512M");
	return 0;
}

static int
number_read(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	if (command_number(text, min, max, out))
		return command_usage("bench",
				     "%s %s: not a number from %" PRIu64 " to %" PRIu64,
				     option, text, min, max);
	return 0;
}

static int
presence_read(const char *text, enum workload_presence *out)
{
	unsigned i;

	for (i = 0; i < WORKLOAD_PRESENCE_COUNT; i++) {
		if (strcmp(text, presence_names[i]) == 0) {
			*out = (enum workload_presence)i;
			return 0;
		}
	}
	return command_usage("bench", "--presence %s: launch or fault", text);
}

static int
option_take(struct bench *bench, int code)
{
	struct workload_params *params = &bench->params;
	unsigned i;

	if (code >= OPT_WORKLOAD)
		return extra_add(bench, code, optarg);
	for (i = 0; i < sizeof(space_options) / sizeof(space_options[0]); i++)
		if (space_options[i].opt == code)
			return pair_add(bench, space_options[i].option,
					space_options[i].key, optarg);
	switch (code) {
	case OPT_FOOTPRINT:
		return size_read("--footprint", optarg, &params->footprint_bytes);
	case OPT_SEED:
		return number_read("--seed", optarg, 0, UINT64_MAX - 1, &params->seed);
	case OPT_TILE:
		bench->tile_text = optarg;
		return size_read("--tile", optarg, &params->tile_bytes);
	case OPT_PRESENCE:
		return presence_read(optarg, &params->presence);
	case OPT_SET:
		return pair_add(bench, "--set", optarg, NULL);
	case OPT_DIR:
		params->dir = optarg;
		return 0;
	case OPT_REPEAT:
		return number_read("--repeat", optarg, 1, REPEAT_MAX, &bench->repeat);
	case OPT_VERIFY:
		params->verify = 1;
		return 0;
	case OPT_KEEP:
		params->keep = 1;
		return 0;
	case OPT_JSON:
		bench->json = 1;
		return 0;
	}
	return command_usage("bench", "unknown option");
}

/* The budgets that a benchmark wants where nothing else says so: out of core by default. */
static void
budgets_default(struct bench *bench)
{
	struct sluice_config *config = &bench->params.config;
	uint64_t least = DEVICE_CHUNKS_MIN * config->chunk_bytes;

	if (!pair_is_given(bench, "device_budget") && !getenv("SLUICE_DEVICE_BUDGET")) {
		config->device_budget_bytes = bench->params.footprint_bytes / 4;
		if (config->device_budget_bytes < least)
			config->device_budget_bytes = least;
	}
	if (!pair_is_given(bench, "host_budget") && !getenv("SLUICE_HOST_BUDGET")) {
		config->host_budget_bytes = bench->params.footprint_bytes / 2;
		if (config->host_budget_bytes < config->host_reserve_bytes + least)
			config->host_budget_bytes = config->host_reserve_bytes + least;
	}
}

/* What can be seen to contradict before anything is made. */
static int
values_check(struct bench *bench)
{
	const struct workload_params *params = &bench->params;
	const struct sluice_config *config = &params->config;
	char error[WORKLOAD_TEXT_BYTES];
	char a[32], b[32];

	if (bench->tile_text && !bench->workload->tiled)
		return command_usage(
			"bench",
			"--tile does not apply to %s, which sets the size of "
			"its launches itself",
			bench->workload->name);
	if (bench->tile_text && params->tile_bytes == 0)
		return command_usage("bench", "--tile %s: a launch needs data",
				     bench->tile_text);
	if (config->chunk_bytes < CHUNK_MIN_BYTES ||
	    (config->chunk_bytes & (config->chunk_bytes - 1)) != 0)
		return command_usage("bench",
				     "a chunk of %s: must be 2 MiB times a power of two",
				     sl_size_format(config->chunk_bytes, a, sizeof(a)));
	if (config->device_budget_bytes < config->chunk_bytes)
		return command_usage("bench",
				     "device memory of %s is less than one chunk (%s)",
				     sl_size_format(config->device_budget_bytes, a, sizeof(a)),
				     sl_size_format(config->chunk_bytes, b, sizeof(b)));
	if (params->tile_bytes > config->device_budget_bytes)
		return command_usage("bench",
				     "a tile of %s does not fit in %s of device memory",
				     sl_size_format(params->tile_bytes, a, sizeof(a)),
				     sl_size_format(config->device_budget_bytes, b,
						    sizeof(b)));
	if (config->host_reserve_bytes > config->host_budget_bytes)
		return command_usage(
			"bench", "a host reserve of %s is more than the host memory of %s",
			sl_size_format(config->host_reserve_bytes, a, sizeof(a)),
			sl_size_format(config->host_budget_bytes, b, sizeof(b)));
	if (workload_plan_make(bench->workload, params, &bench->plan, error))
		return command_usage("bench", "%s", error);
	return 0;
}

/* The workload is known: its defaults, then everything that was given. */
static int
options_apply(struct bench *bench)
{
	struct workload_params given = bench->params;
	struct workload_params *params = &bench->params;
	unsigned i;
	int rc;

	rc = workload_params_init(bench->workload, params);
	if (rc)
		return command_fail("bench", "%s", sluice_last_error());
	params->tile_bytes = given.tile_bytes;
	params->presence = given.presence;
	params->verify = given.verify;
	params->keep = given.keep;
	if (given.footprint_bytes)
		params->footprint_bytes = given.footprint_bytes;
	if (given.seed != UINT64_MAX)
		params->seed = given.seed;
	if (given.dir)
		params->dir = given.dir;
	for (i = 0; i < bench->n_extras; i++) {
		rc = extra_apply(bench, &bench->extra[i]);
		if (rc)
			return rc;
	}
	for (i = 0; i < bench->n_pairs; i++) {
		rc = sluice_config_parse(&params->config, bench->pair[i].text);
		if (rc)
			return command_usage("bench", "%s: %s", bench->pair[i].from,
					     sluice_last_error());
	}
	budgets_default(bench);
	return values_check(bench);
}

static int
workload_choose(struct bench *bench, int argc, char **argv)
{
	if (optind == argc)
		return command_usage("bench", "which workload? see sluice bench --list");
	if (optind + 1 < argc)
		return command_usage("bench", "'%s' is one argument too many",
				     argv[optind + 1]);
	bench->workload = workload_find(argv[optind]);
	if (!bench->workload)
		return command_usage("bench", "no workload '%s'; see sluice bench --list",
				     argv[optind]);
	return 0;
}

static int
list_print(void)
{
	const struct workload *const *w;
	unsigned i, c;

	for (w = workloads_list; *w; w++) {
		printf("%-12s%s\n", (*w)->name, (*w)->text);
		for (i = 0; i < (*w)->n_options; i++) {
			const struct workload_option *option = &(*w)->options[i];

			printf("%-12s  --%-18s %s (", "", option->name, option->text);
			if (option->choices) {
				for (c = 0; option->choices[c]; c++)
					printf("%s%s", c ? ", " : "", option->choices[c]);
				printf("; %s)\n", option->choices[option->initial]);
			} else {
				printf("%" PRIu64 " to %" PRIu64 "; %" PRIu64 ")\n",
				       option->min, option->max, option->initial);
			}
		}
	}
	return SL_EXIT_OK;
}

/* ---- output ---- */

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
	text_json(json, "presence", presence_names[bench->params.presence]);
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

/* Counters, sizes and bytes are those of the last run; times are medians of all. */
static int
report_json(const struct bench *bench, const struct workload_result *results, uint64_t n,
	    enum workload_verdict verdict, const char *mismatch)
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
	       presence_names[bench->params.presence], config->workers);
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

static void
report_print(const struct bench *bench, const struct workload_result *results, uint64_t n,
	     enum workload_verdict verdict, const char *mismatch)
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

/* ---- running ---- */

static void
progress_note(void *arg, const char *phase, double fraction)
{
	struct bench *bench = arg;

	progress_update(&bench->progress, phase, fraction);
}

static int
runs_make(struct bench *bench, struct workload_result *results)
{
	struct workload_params params = bench->params;
	const char *mismatch = "";
	enum workload_verdict verdict = WORKLOAD_NOT_VERIFIED;
	uint64_t i;
	int rc = 0;

	params.cancelled = &bench_signal;
	params.on_progress = progress_note;
	params.arg = bench;
	progress_begin(&bench->progress, bench->workload->name);
	for (i = 0; !rc && i < bench->repeat; i++) {
		/* Inputs are made once: only the last run takes the files away. */
		params.keep = bench->params.keep || i + 1 < bench->repeat;
		rc = workload_run(bench->workload, &params, &results[i]);
		if (rc)
			break;
		if (results[i].verdict == WORKLOAD_WRONG && verdict != WORKLOAD_WRONG)
			mismatch = results[i].mismatch;
		if (verdict != WORKLOAD_WRONG)
			verdict = results[i].verdict;
	}
	progress_end(&bench->progress);
	if (rc) {
		if (rc != -EBUSY && !bench->params.keep)
			(void)!workload_remove_files(bench->workload, bench->params.dir);
		return rc == -EINVAL ? command_usage("bench", "%s", results[i].error)
				     : command_fail("bench", "%s", results[i].error);
	}
	if (!bench->json) {
		report_print(bench, results, bench->repeat, verdict, mismatch);
		rc = fflush(stdout) ? -EIO : 0;
	} else {
		rc = report_json(bench, results, bench->repeat, verdict, mismatch);
	}
	if (rc)
		return command_fail("bench",
				    "the report cannot be written to standard output");
	if (verdict == WORKLOAD_WRONG) {
		fprintf(stderr, "sluice bench: wrong results: %s\n", mismatch);
		return EXIT_WRONG;
	}
	return SL_EXIT_OK;
}

static int
bench_run(struct bench *bench)
{
	struct workload_result *results = calloc(bench->repeat, sizeof(*results));
	int rc;

	if (!results)
		return command_fail("bench", "out of memory");
	signals_catch();
	rc = runs_make(bench, results);
	free(results);
	if (bench_signal) {
		/* Files are gone; end as the signal would have ended us. */
		signal(bench_signal, SIG_DFL);
		raise(bench_signal);
	}
	return rc;
}

/* 0: go on and run; 1: done, *code is the exit code. */
static int
arguments_read(struct bench *bench, int argc, char **argv, int *code)
{
	struct option table[OPTIONS_MAX];
	int c, list = 0;

	option_table_make(table);
	opterr = 0;
	optind = 1;
	*code = SL_EXIT_OK;
	while ((c = getopt_long(argc, argv, ":h", table, NULL)) != -1) {
		if (c == 'h') {
			fputs(bench_help, stdout);
			return 1;
		}
		if (c == OPT_LIST) {
			list = 1;
			continue;
		}
		if (c == '?' || c == ':')
			*code = command_bad_option("bench", c, argv);
		else
			*code = option_take(bench, c);
		if (*code)
			return 1;
	}
	if (list) {
		*code = optind < argc ? command_usage("bench", "--list takes no workload")
				      : list_print();
		return 1;
	}
	*code = workload_choose(bench, argc, argv);
	if (!*code)
		*code = options_apply(bench);
	return *code != 0;
}

int
cmd_bench(int argc, char **argv)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	int code;

	if (!bench)
		return command_fail("bench", "out of memory");
	bench->repeat = 1;
	bench->params.seed = UINT64_MAX; /* not given */
	if (!arguments_read(bench, argc, argv, &code))
		code = bench_run(bench);
	free(bench);
	return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of `sluice bench`: the help text, the options, and their limits.
 *
 * Options of the space become "key=value" pairs of sluice_config_parse(). So they have one
 * parser and one set of messages. --set reaches the keys without an option. Options of a single
 * workload come from its table, and are applied once the workload is known. Contradictory values
 * are refused before anything is written.
 *
 * cmd_bench.c runs and bench_report.c prints. --help and --list are answered here, since both
 * show options.
 *
 * Threads: one.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "bench.h"
#include "commands.h"
#include "sluice/sluice.h"
#include "workload.h"

#define CHUNK_MIN_BYTES   (2u << 20)
#define DEVICE_CHUNKS_MIN 16u /* of the default device budget */
#define HOST_SLACK_CHUNKS 32u /* of the default host budget on a GPU */

static const char bench_help[] =
	"Usage: %s bench APP [OPTIONS]\n"
	"       %s bench --list\n"
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
	"memory;\n"
	"                             on a GPU a sixteenth)\n"
	"      --presence KIND        launch: launches declare what they use; fault: "
	"they do not,\n"
	"                             and run by faults (launch)\n"
	"  and the options of the workload, which --list names\n"
	"\n"
	"Device:\n"
	"      --device NAME          soft: CPU threads; cuda: a GPU (soft)\n"
	"      --memory LIST          what the arrays live in, one or several of sluice, "
	"copies,\n"
	"                             streaming, mapped, separated by commas, or all; "
	"all "
	"but the\n"
	"                             first need a GPU (sluice)\n"
	"\n"
	"Space:\n"
	"      --device-memory SIZE   device budget (a quarter of the footprint)\n"
	"      --host-memory SIZE     host budget, 0 for none (half of the footprint; on "
	"a GPU\n"
	"                             enough for all of it)\n"
	"      --host-reserve SIZE    part of the host budget that volatile data leave "
	"free\n"
	"      --chunk SIZE           unit of residency\n"
	"      --policy NAME          lru, dragon, uvm or plan (lru)\n"
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
	"      --files HOW            copies, streaming: direct: past the page cache, to "
	"pinned\n"
	"                             memory; cached: by read(2), not pinned (direct)\n"
	"      --repeat N             run N times, times are medians (1)\n"
	"      --verify               compare the results with a reference, bit for bit\n"
	"      --keep                 leave the files in DIR, to be used again\n"
	"      --json                 print one JSON object\n"
	"  -h, --help                 print this and exit\n"
	"\n"
	"Exit codes: 0 done, 1 a run failed, 2 wrong command line, 3 wrong results.\n";

enum {
	OPT_FOOTPRINT = 256,
	OPT_SEED,
	OPT_TILE,
	OPT_PRESENCE,
	OPT_MEMORY,
	OPT_SET,
	OPT_FILES,
	OPT_REPEAT,
	OPT_SPACE,         /* and up: space_options */
	OPT_WORKLOAD = 512 /* and up: the options of all workloads */
};

#define TO(name) COMMAND_MEMBER(struct bench, name)

static const struct option bench_options[] = {
	{"list", no_argument, NULL, TO(list)},
	{"footprint", required_argument, NULL, OPT_FOOTPRINT},
	{"seed", required_argument, NULL, OPT_SEED},
	{"tile", required_argument, NULL, OPT_TILE},
	{"presence", required_argument, NULL, OPT_PRESENCE},
	{"memory", required_argument, NULL, OPT_MEMORY},
	{"set", required_argument, NULL, OPT_SET},
	{"dir", required_argument, NULL, TO(params.dir)},
	{"files", required_argument, NULL, OPT_FILES},
	{"repeat", required_argument, NULL, OPT_REPEAT},
	{"verify", no_argument, NULL, TO(params.verify)},
	{"keep", no_argument, NULL, TO(params.keep)},
	{"json", no_argument, NULL, TO(json)},
	{"help", no_argument, NULL, 'h'},
};

#define BENCH_OPTION_N (sizeof(bench_options) / sizeof(bench_options[0]))

/* Options that are settings of the space. */
static const struct {
	const char *option, *key;
} space_options[] = {
	{"--device", "device"},
	{"--device-memory", "device_budget"},
	{"--host-memory", "host_budget"},
	{"--host-reserve", "host_reserve"},
	{"--chunk", "chunk"},
	{"--policy", "policy"},
	{"--population", "population"},
	{"--threads", "workers"},
	{"--readahead", "readahead_chunks"},
};

#define SPACE_OPTION_N (sizeof(space_options) / sizeof(space_options[0]))

const char *const bench_presence_names[WORKLOAD_PRESENCE_COUNT] = {
	[WORKLOAD_PRESENCE_LAUNCH] = "launch",
	[WORKLOAD_PRESENCE_FAULT] = "fault",
};

const char *const bench_memory_names[WORKLOAD_MEMORY_COUNT] = {
	[WORKLOAD_MEMORY_SLUICE] = "sluice", [WORKLOAD_MEMORY_MMAP] = "mmap",
	[WORKLOAD_MEMORY_COPIES] = "copies", [WORKLOAD_MEMORY_STREAMING] = "streaming",
	[WORKLOAD_MEMORY_MAPPED] = "mapped",
};

/* Those that --memory can name, in the order of "all". */
static const enum workload_memory memory_choices[] = {
	WORKLOAD_MEMORY_SLUICE,
	WORKLOAD_MEMORY_COPIES,
	WORKLOAD_MEMORY_STREAMING,
	WORKLOAD_MEMORY_MAPPED,
};

#define MEMORY_CHOICES (sizeof(memory_choices) / sizeof(memory_choices[0]))

/* All options of bench and of all workloads into table, which has OPTIONS_MAX entries. */
static void
option_table_make(struct option *table)
{
	const struct workload *const *w;
	unsigned n = 0, i, k;
	int code = OPT_WORKLOAD;

	for (i = 0; i < BENCH_OPTION_N; i++)
		table[n++] = bench_options[i];
	for (i = 0; i < SPACE_OPTION_N; i++)
		table[n++] = (struct option){space_options[i].option + strlen("--"),
					     required_argument, NULL, OPT_SPACE + (int)i};
	for (w = workloads_list; *w; w++) {
		for (i = 0; i < (*w)->n_options && n + 1 < OPTIONS_MAX; i++) {
			const char *name = (*w)->options[i].name;

			for (k = 0; k < n && strcmp(table[k].name, name) != 0; k++)
				;
			if (k == n) /* workloads may share a name */
				table[n++] = (struct option){name, required_argument,
							     NULL, code++};
		}
	}
	table[n] = (struct option){NULL, 0, NULL, 0};
}

static int
extra_add(struct bench *bench, const struct option *option, const char *value)
{
	if (bench->n_extras == OPTIONS_MAX)
		return command_usage("bench", "too many options");
	bench->extra[bench->n_extras++] = (struct extra){option->name, value};
	return 0;
}

/* The workload's option of that name, or n_options. */
static unsigned
extra_option(const struct workload *workload, const char *name)
{
	unsigned i;

	for (i = 0; i < workload->n_options; i++)
		if (strcmp(workload->options[i].name, name) == 0)
			break;
	return i;
}

/* An option that only others have. */
static int
extra_refuse(const struct bench *bench, const char *name)
{
	const struct workload *const *w;
	char owners[256];
	size_t at = 0;

	owners[0] = '\0';
	for (w = workloads_list; *w && at < sizeof(owners); w++)
		if (extra_option(*w, name) < (*w)->n_options)
			at += (size_t)snprintf(owners + at, sizeof(owners) - at, "%s%s",
					       at ? ", " : "", (*w)->name);
	return command_usage("bench", "--%s is an option of %s, not of %s", name, owners,
			     bench->workload->name);
}

static int
extra_apply(struct bench *bench, const struct extra *extra)
{
	unsigned number = extra_option(bench->workload, extra->name);
	const struct workload_option *option = &bench->workload->options[number];
	uint64_t value;
	unsigned i;

	if (number == bench->workload->n_options)
		return extra_refuse(bench, extra->name);
	if (option->choices) {
		for (i = 0; option->choices[i]; i++) {
			if (strcmp(option->choices[i], extra->value) == 0) {
				bench->params.option[number] = i;
				return 0;
			}
		}
		return command_usage("bench", "--%s %s: no such choice; see %s bench --list",
				     option->name, extra->value, command_program_name());
	}
	if (command_number(extra->value, option->min, option->max, &value))
		return command_usage("bench",
				     "--%s %s: not a number from %" PRIu64 " to %" PRIu64,
				     option->name, extra->value, option->min, option->max);
	bench->params.option[number] = value;
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
	if (!*out)
		return command_usage("bench", "%s %s: must be more than 0", option, text);
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
memory_add(struct bench *bench, enum workload_memory memory)
{
	unsigned i;

	for (i = 0; i < bench->n_memories; i++)
		if (bench->memory[i] == memory)
			return command_usage("bench", "--memory: %s is there twice",
					     bench_memory_names[memory]);
	bench->memory[bench->n_memories++] = memory;
	return 0;
}

static int
memory_read(struct bench *bench, const char *text)
{
	int all = strcmp(text, "all") == 0;
	unsigned i;
	int rc = 0;

	for (i = 0; all && !rc && i < MEMORY_CHOICES; i++)
		rc = memory_add(bench, memory_choices[i]);
	while (!all && !rc) {
		size_t chars = strcspn(text, ",");

		for (i = 0; i < MEMORY_CHOICES; i++) {
			const char *name = bench_memory_names[memory_choices[i]];

			if (strlen(name) == chars && strncmp(name, text, chars) == 0)
				break;
		}
		if (i == MEMORY_CHOICES)
			return command_usage(
				"bench",
				"--memory %.*s: sluice, copies, streaming, mapped "
				"or all",
				(int)chars, text);
		rc = memory_add(bench, memory_choices[i]);
		if (!text[chars])
			break;
		text += chars + 1;
	}
	return rc;
}

static int
presence_read(const char *text, enum workload_presence *out)
{
	unsigned i;

	for (i = 0; i < WORKLOAD_PRESENCE_COUNT; i++) {
		if (strcmp(text, bench_presence_names[i]) == 0) {
			*out = (enum workload_presence)i;
			return 0;
		}
	}
	return command_usage("bench", "--presence %s: launch or fault", text);
}

static int
option_take(const struct option *option, void *into)
{
	struct bench *bench = into;
	int code = option->val;
	struct workload_params *params = &bench->params;

	if (code >= OPT_WORKLOAD)
		return extra_add(bench, option, optarg);
	if (code >= OPT_SPACE && code < OPT_SPACE + (int)SPACE_OPTION_N)
		return pair_add(bench, space_options[code - OPT_SPACE].option,
				space_options[code - OPT_SPACE].key, optarg);
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
	case OPT_MEMORY:
		return memory_read(bench, optarg);
	case OPT_SET:
		return pair_add(bench, "--set", optarg, NULL);
	case OPT_FILES:
		params->cached = strcmp(optarg, "cached") == 0;
		if (!params->cached && strcmp(optarg, "direct") != 0)
			return command_usage("bench", "--files %s: direct or cached", optarg);
		return 0;
	case OPT_REPEAT:
		return number_read("--repeat", optarg, 1, REPEAT_MAX, &bench->repeat);
	default: /* 'h' */
		printf(bench_help, command_program_name(), command_program_name());
		return -1;
	}
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
		/* On a GPU data are in host memory at first, all of them: in whole chunks. */
		config->host_budget_bytes = bench_is_cuda(bench)
						    ? bench->params.footprint_bytes +
							      HOST_SLACK_CHUNKS *
								      config->chunk_bytes +
							      bench->params.footprint_bytes / 8
						    : bench->params.footprint_bytes / 2;
		if (config->host_budget_bytes < config->host_reserve_bytes + least)
			config->host_budget_bytes = config->host_reserve_bytes + least;
	}
	/* On a GPU the disk is not what is measured: results are written when the run is over. */
	if (bench_is_cuda(bench) && !pair_is_given(bench, "writeback") &&
	    !getenv("SLUICE_WRITEBACK"))
		config->writeback_bytes = config->host_budget_bytes;
}

/* Without a word about it the software device, whatever the machine has. */
static void
device_default(struct bench *bench)
{
	struct sluice_config *config = &bench->params.config;
	unsigned i, k;

	if (config->device == SLUICE_DEVICE_AUTO)
		config->device = SLUICE_DEVICE_SOFT;
	if (bench->n_memories == 0)
		bench->memory[bench->n_memories++] = WORKLOAD_MEMORY_SLUICE;
	for (i = 0; bench_is_cuda(bench) && i < bench->workload->n_options; i++) {
		const struct workload_option *option = &bench->workload->options[i];
		int given = 0;

		for (k = 0; k < bench->n_extras; k++)
			given |= strcmp(bench->extra[k].name, option->name) == 0;
		if (!given && option->cuda_initial)
			bench->params.option[i] = option->cuda_initial;
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
	unsigned i;

	if (bench->tile_text && !bench->workload->tiled)
		return command_usage(
			"bench",
			"--tile does not apply to %s, which sets the size of "
			"its launches itself",
			bench->workload->name);
	if (bench->tile_text && params->tile_bytes == 0)
		return command_usage("bench", "--tile %s: a launch needs data",
				     bench->tile_text);
	for (i = 0; i < bench->n_memories; i++) {
		if (params->cached && bench->memory[i] != WORKLOAD_MEMORY_COPIES &&
		    bench->memory[i] != WORKLOAD_MEMORY_STREAMING)
			return command_usage("bench",
					     "--files cached: for --memory copies and "
					     "streaming, not %s",
					     bench_memory_names[bench->memory[i]]);
		if (bench->memory[i] == WORKLOAD_MEMORY_SLUICE)
			continue;
		if (!bench_is_cuda(bench))
			return command_usage("bench", "--memory %s needs --device cuda",
					     bench_memory_names[bench->memory[i]]);
		if (params->presence != WORKLOAD_PRESENCE_LAUNCH)
			return command_usage(
				"bench",
				"--memory %s needs launches that declare what they "
				"use: --presence launch",
				bench_memory_names[bench->memory[i]]);
	}
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
	params->cached = given.cached;
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
	device_default(bench);
	budgets_default(bench);
	return values_check(bench);
}

static int
workload_choose(struct bench *bench, int argc, char **argv)
{
	if (optind == argc)
		return command_usage("bench", "which workload? see %s bench --list",
				     command_program_name());
	if (optind + 1 < argc)
		return command_usage("bench", "'%s' is one argument too many",
				     argv[optind + 1]);
	bench->workload = workload_find(argv[optind]);
	if (!bench->workload)
		return command_usage("bench", "no workload '%s'; see %s bench --list",
				     argv[optind], command_program_name());
	return 0;
}

static int
list_print(void)
{
	const struct workload *const *w;
	unsigned i, c;

	for (w = workloads_list; *w; w++) {
		printf("%-16s%s\n", (*w)->name, (*w)->text);
		for (i = 0; i < (*w)->n_options; i++) {
			const struct workload_option *option = &(*w)->options[i];

			printf("%-16s  --%-18s %s (", "", option->name, option->text);
			if (option->choices) {
				for (c = 0; option->choices[c]; c++)
					printf("%s%s", c ? ", " : "", option->choices[c]);
				printf("; %s", option->choices[option->initial]);
				if (option->cuda_initial)
					printf(", on a GPU %s",
					       option->choices[option->cuda_initial]);
			} else {
				printf("%" PRIu64 " to %" PRIu64 "; %" PRIu64,
				       option->min, option->max, option->initial);
				if (option->cuda_initial)
					printf(", on a GPU %" PRIu64, option->cuda_initial);
			}
			puts(")");
		}
	}
	return -1;
}

int
bench_arguments_read(struct bench *bench, int argc, char **argv)
{
	struct option table[OPTIONS_MAX];
	const struct command_syntax syntax = {"bench", ":h", NULL, table, option_take};
	int rc;

	option_table_make(table);
	rc = command_options_read(&syntax, argc, argv, bench);
	if (!rc && bench->list)
		return optind < argc ? command_usage("bench", "--list takes no workload")
				     : list_print();
	if (!rc)
		rc = workload_choose(bench, argc, argv);
	return rc ? rc : options_apply(bench);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice trace`: show and check files of traces, and print statistics of a trace's tensors. The
 * word behind the command chooses; each has its own options.
 *
 * src/trace reads, writes and checks. cmd_trace_vitality.c has vitality's table.
 *
 * Threads: one.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "cmd_trace.h"
#include "commands.h"
#include "json.h"
#include "sluice/sluice.h"
#include "trace/trace.h"

static const char trace_help[] =
	"Usage: sluice trace show FILE [--text] [--json]\n"
	"       sluice trace check FILE...\n"
	"       sluice trace period FILE -o FILE [--period N] [--as-text]\n"
	"       sluice trace vitality FILE [--period N] [--svg FILE] [--json]\n"
	"\n"
	"Traces: what a program launched, with times, tensors and intents. A FILE may be "
	"-\n"
	"for standard input or output.\n"
	"\n"
	"  show      print what is in it\n"
	"  check     say whether it makes sense; nothing is printed for good ones\n"
	"  period    make a trace of one period of a trace of several\n"
	"  vitality  print how much of the memory is in use, and how long tensors are "
	"idle\n"
	"\n"
	"Options:\n"
	"  -o, --output FILE  where period writes to\n"
	"      --as-text      period: write the text form instead of the binary one\n"
	"      --text         show: print all of it in the text form\n"
	"      --period N     period, vitality: period N, counted from 0 (default: of "
	"those "
	"that\n"
	"                     repeat the one with the median time; vitality 0)\n"
	"      --svg FILE     vitality: draw a picture too\n"
	"      --json         show, vitality: print one JSON object\n"
	"  -h, --help         print this and exit\n";

static const struct option long_options[] = {
	{"output", required_argument, NULL, 'o'},
	{"as-text", no_argument, NULL, 'T'},
	{"text", no_argument, NULL, 't'},
	{"period", required_argument, NULL, 'p'},
	{"svg", required_argument, NULL, 's'},
	{"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

/* The command line of all four. given: the letters of the options that were there. */
struct trace_options {
	const char *output, *svg;
	uint32_t period;
	char given[16];
};

static int
failed(void)
{
	return command_fail("trace", "%s", sluice_last_error());
}

static int
is_given(const struct trace_options *options, char c)
{
	return strchr(options->given, c) != NULL;
}

static int
option_take(const struct option *option, void *into)
{
	struct trace_options *options = into;
	int c = option->val;
	uint64_t number = 0;

	switch (c) {
	case 'o':
		options->output = optarg;
		break;
	case 's':
		options->svg = optarg;
		break;
	case 'p':
		if (command_number(optarg, 0, SL_TRACE_LAUNCHES_MAX, &number))
			return command_usage("trace", "--period %s is not a number", optarg);
		options->period = (uint32_t)number;
		break;
	}
	if (!is_given(options, (char)c))
		options->given[strlen(options->given)] = (char)c;
	return SL_EXIT_OK;
}

/* ---- show ---- */

/* Numbers and bytes by kind of tensor, and the sum of the launches' times. */
struct sums {
	uint32_t tensors[SL_TENSOR_KIND_COUNT];
	uint64_t bytes[SL_TENSOR_KIND_COUNT];
	uint64_t busy_ticks, copy_in_bytes, copy_out_bytes;
	uint32_t frees;
	struct sl_trace_ratio ratio;
};

static void
sums_make(const struct sl_trace *trace, struct sums *sums)
{
	memset(sums, 0, sizeof(*sums));
	sl_trace_ratio(trace, &sums->ratio);
	for (uint32_t t = 0; t < trace->n_tensors; t++) {
		sums->tensors[trace->tensors[t].kind]++;
		sums->bytes[trace->tensors[t].kind] += trace->tensors[t].size_bytes;
		sums->frees += trace->tensors[t].free_at != SL_TRACE_NONE;
	}
	for (uint32_t k = 0; k < trace->n_launches; k++)
		sums->busy_ticks += trace->launches[k].ticks;
	for (uint32_t i = 0; i < trace->n_copies; i++)
		*(trace->copies[i].to_device
			  ? &sums->copy_in_bytes
			  : &sums->copy_out_bytes) += trace->copies[i].bytes;
}

static void
show_json(const struct sl_trace *trace, const struct sums *sums)
{
	struct json json;

	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_string(&json, "source", trace->source);
	json_u64(&json, "clock_hz", trace->clock_hz);
	json_u64(&json, "periods", trace->n_periods);
	json_u64(&json, "launches", trace->n_launches);
	if (trace->n_forward == SL_TRACE_NONE)
		json_null(&json, "forward_launches");
	else
		json_u64(&json, "forward_launches", trace->n_forward);
	json_u64(&json, "uses", trace->n_uses);
	json_u64(&json, "busy_ticks", sums->busy_ticks);
	json_object(&json, "tensors");
	for (unsigned kind = 0; kind < SL_TENSOR_KIND_COUNT; kind++) {
		json_object(&json, sl_tensor_kind_name((enum sl_tensor_kind)kind));
		json_u64(&json, "number", sums->tensors[kind]);
		json_u64(&json, "bytes", sums->bytes[kind]);
		json_close(&json);
	}
	json_close(&json);
	json_u64(&json, "copy_in_bytes", sums->copy_in_bytes);
	json_u64(&json, "copy_out_bytes", sums->copy_out_bytes);
	json_u64(&json, "ratio_tensors", sums->ratio.tensors);
	json_u64(&json, "ratio_bytes", sums->ratio.bytes);
	if (sums->ratio.tensors)
		json_double(&json, "ratio", sums->ratio.mean);
	else
		json_null(&json, "ratio");
	json_end(&json);
}

static void
show_table(const struct sl_trace *trace, const struct sums *sums)
{
	uint64_t all = 0;
	char size[32];

	printf("source    %s\n", trace->source && trace->source[0] ? trace->source : "-");
	printf("launches  %u", trace->n_launches);
	if (trace->n_forward != SL_TRACE_NONE)
		printf(", %u forward", trace->n_forward);
	printf(" (%u period%s)\n", trace->n_periods, trace->n_periods == 1 ? "" : "s");
	printf("time      %.6f s (%" PRIu64 " ticks at %" PRIu64 " Hz)\n",
	       (double)sums->busy_ticks / (double)trace->clock_hz, sums->busy_ticks,
	       trace->clock_hz);
	for (unsigned kind = 0; kind < SL_TENSOR_KIND_COUNT; kind++) {
		all += sums->bytes[kind];
		printf("%-9s %u tensors, %s (%" PRIu64 " bytes)\n",
		       sl_tensor_kind_name((enum sl_tensor_kind)kind), sums->tensors[kind],
		       sl_size_format(sums->bytes[kind], size, sizeof(size)),
		       sums->bytes[kind]);
	}
	printf("all       %u tensors, %s (%" PRIu64 " bytes)\n", trace->n_tensors,
	       sl_size_format(all, size, sizeof(size)), all);
	if (sums->ratio.tensors)
		printf("ratio     %.3f of %s (%u tensors)\n", sums->ratio.mean,
		       sl_size_format(sums->ratio.bytes, size, sizeof(size)),
		       sums->ratio.tensors);
	printf("uses      %u\n", trace->n_uses);
	if (trace->n_copies > 0)
		printf("copies    %u, %" PRIu64 " bytes in, %" PRIu64 " bytes out\n",
		       trace->n_copies, sums->copy_in_bytes, sums->copy_out_bytes);
	if (sums->frees > 0)
		printf("frees     %u\n", sums->frees);
}

static int
trace_show(int n, char **words, const struct trace_options *options)
{
	struct sl_trace *trace;
	struct sums sums;
	int rc;

	if (n != 1)
		return command_usage("trace", "show takes one file");
	if (is_given(options, 't') && is_given(options, 'j'))
		return command_usage("trace",
				     "--text and --json are two forms; take one");
	if (sl_trace_read(words[0], &trace))
		return failed();
	rc = 0;
	sums_make(trace, &sums);
	if (is_given(options, 't'))
		rc = sl_trace_write(trace, "-", 1);
	else if (is_given(options, 'j'))
		show_json(trace, &sums);
	else
		show_table(trace, &sums);
	sl_trace_destroy(trace);
	return rc ? failed() : SL_EXIT_OK;
}

/* ---- check ---- */

static int
trace_check(int n, char **words, const struct trace_options *options)
{
	int exit_code = SL_EXIT_OK;

	(void)options;
	if (n == 0)
		return command_usage("trace", "check takes at least one file");
	for (int i = 0; i < n; i++) {
		struct sl_trace *trace = NULL;

		if (sl_trace_read(words[i], &trace))
			exit_code = failed();
		sl_trace_destroy(trace);
	}
	return exit_code;
}

/* ---- period ---- */

static int
trace_period(int n, char **words, const struct trace_options *options)
{
	struct sl_trace *trace = NULL, *cut = NULL;
	uint32_t period = options->period;
	int rc;

	if (n != 1)
		return command_usage("trace", "period takes one file");
	if (!options->output)
		return command_usage("trace", "period needs -o FILE");
	rc = sl_trace_read(words[0], &trace);
	if (!rc && !is_given(options, 'p'))
		rc = sl_trace_steady(trace, &period);
	if (!rc)
		rc = sl_trace_cut(trace, period, &cut);
	if (!rc)
		rc = sl_trace_write(cut, options->output, is_given(options, 'T'));
	sl_trace_destroy(cut);
	sl_trace_destroy(trace);
	return rc ? failed() : SL_EXIT_OK;
}

/* ---- vitality ---- */

static int
trace_vitality_run(int n, char **words, const struct trace_options *options)
{
	struct sl_trace *trace;
	int rc;

	if (n != 1)
		return command_usage("trace", "vitality takes one file");
	if (sl_trace_read(words[0], &trace))
		return failed();
	rc = trace_vitality_print(trace, options->period, is_given(options, 'j'),
				  options->svg);
	sl_trace_destroy(trace);
	return rc ? failed() : SL_EXIT_OK;
}

/* ---- which ---- */

static const struct part {
	const char *name;
	const char *options; /* the letters it takes */
	int (*run)(int n, char **words, const struct trace_options *options);
} parts[] = {
	{"show", "tj", trace_show},
	{"check", "", trace_check},
	{"period", "oTp", trace_period},
	{"vitality", "psj", trace_vitality_run},
};

static int
part_run(const struct part *part, int n, char **words, const struct trace_options *options)
{
	for (const char *c = options->given; *c; c++) {
		if (strchr(part->options, *c))
			continue;
		for (const struct option *option = long_options; option->name; option++)
			if (option->val == *c)
				return command_usage("trace", "%s does not take --%s",
						     part->name, option->name);
	}
	return part->run(n, words, options);
}

int
cmd_trace(int argc, char **argv)
{
	static const struct command_syntax syntax = {"trace", ":o:h", trace_help,
						     long_options, option_take};
	struct trace_options options = {0};
	int rc = command_options_read(&syntax, argc, argv, &options);

	if (rc)
		return rc < 0 ? SL_EXIT_OK : rc;
	if (optind == argc)
		return command_usage("trace", "show, check, period or vitality?");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strcmp(parts[i].name, argv[optind]) == 0)
			return part_run(&parts[i], argc - optind - 1, argv + optind + 1,
					&options);
	return command_usage("trace", "'%s' is not one of show, check, period and vitality",
			     argv[optind]);
}

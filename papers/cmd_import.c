/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice-papers import`: one of the published inputs of the paper G10 becomes a trace, for
 * `sluice plan` and `sluice trace`.
 *
 * Threads: one.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "g10/import_g10.h"
#include "papers.h"
#include "sluice/sluice.h"
#include "trace/trace.h"

static const char import_help[] =
	"Usage: sluice-papers import DIR MODEL BATCH -o FILE [OPTIONS]\n"
	"\n"
	"Make a trace of a published input of the paper G10. DIR: frontend and results "
	"of its\n"
	"artifact. MODEL: BERT_Base, VIT, Inceptionv3, ResNet152, SENet154, or a network "
	"of yours.\n"
	"\n"
	"Options:\n"
	"  -o, --output FILE  where it is written to; -: standard output\n"
	"      --as-text      write the text form instead of the binary one\n"
	"      --family NAME  plain, resnet, inception, senet or transformer\n"
	"      --input HxW    height and width of a convolutional network's input\n"
	"      --border N     ids of a transformer below N are global\n"
	"  -h, --help         print this and exit\n";

struct options {
	struct sl_import_g10 import;
	const char *output;
	int as_text;
};

/* "299x299" or "299". */
static int
input_parse(const char *text, struct sl_import_g10 *import)
{
	const char *x = strchr(text, 'x');
	char height[16];
	uint64_t h, w;

	if (x && (size_t)(x - text) >= sizeof(height))
		return -EINVAL;
	snprintf(height, sizeof(height), "%.*s", x ? (int)(x - text) : 15, text);
	if (command_number(height, 1, 1u << 20, &h) ||
	    command_number(x ? x + 1 : text, 1, 1u << 20, &w))
		return -EINVAL;
	import->input_h = (uint32_t)h;
	import->input_w = (uint32_t)w;
	return 0;
}

/* Exit code; SL_EXIT_OK: taken. */
static int
option_take(int c, struct options *options)
{
	uint64_t number;

	switch (c) {
	case 'o':
		options->output = optarg;
		break;
	case 'T':
		options->as_text = 1;
		break;
	case 'f':
		options->import.family = optarg;
		break;
	case 'i':
		if (input_parse(optarg, &options->import))
			return command_usage("import",
					     "--input %s: write it like 224x224", optarg);
		break;
	case 'b':
		if (command_number(optarg, 1, 1u << 16, &number))
			return command_usage("import",
					     "--border %s is not a number of 1 to %u",
					     optarg, 1u << 16);
		options->import.global_border = (uint32_t)number;
		break;
	}
	return SL_EXIT_OK;
}

static int
import_run(struct options *options, int n, char **words)
{
	struct sl_trace *trace = NULL;
	uint64_t batch;
	int rc;

	if (n != 3)
		return command_usage("import",
				     "takes a directory, a model and a batch size");
	if (command_number(words[2], 1, UINT32_MAX, &batch))
		return command_usage("import", "'%s' is not a batch size", words[2]);
	if (!options->output)
		return command_usage("import", "needs -o FILE");
	options->import.directory = words[0];
	options->import.model = words[1];
	options->import.batch = (uint32_t)batch;
	rc = sl_trace_import_g10(&options->import, &trace);
	if (!rc)
		rc = sl_trace_write(trace, options->output, options->as_text);
	sl_trace_destroy(trace);
	return rc ? command_fail("import", "%s", sluice_last_error()) : SL_EXIT_OK;
}

int
cmd_import(int argc, char **argv)
{
	static const struct option longs[] = {
		{"output", required_argument, NULL, 'o'},
		{"as-text", no_argument, NULL, 'T'},
		{"family", required_argument, NULL, 'f'},
		{"input", required_argument, NULL, 'i'},
		{"border", required_argument, NULL, 'b'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct options options = {0};
	int c, rc;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":o:h", longs, NULL)) != -1) {
		if (c == 'h') {
			fputs(import_help, stdout);
			return SL_EXIT_OK;
		}
		if (c == '?' || c == ':')
			return command_bad_option("import", longs, c, argv);
		rc = option_take(c, &options);
		if (rc)
			return rc;
	}
	return import_run(&options, argc - optind, argv + optind);
}

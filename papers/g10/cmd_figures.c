/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice-papers figures`: the configurations of every figure of the paper G10's evaluation,
 * simulated from its published traces, as one JSON object. papers/figures.py makes the page of it.
 *
 * Threads: this one; figures_cells_run() starts more.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "g10/figures.h"
#include "json.h"
#include "papers.h"
#include "sluice/sluice.h"

#define DATA_DEFAULT "tests/data/g10"
#define JOBS_MAX     64
#define JOBS_DEFAULT 8

static const char figures_help[] =
	"Usage: sluice-papers figures [--data DIR] [--figure N]... [--jobs N]\n"
	"\n"
	"Simulate every figure of the paper G10's evaluation (2 to 4, 11 to 19) from "
	"its\n"
	"published traces, and print the results as one JSON object. papers/figures.py "
	"makes\n"
	"tables and pictures of them.\n"
	"\n"
	"Options:\n"
	"      --data DIR  the traces (default: " DATA_DEFAULT ")\n"
	"      --figure N  only this figure (repeatable)\n"
	"      --jobs N    threads (default: one for each processor, at most 8)\n"
	"  -h, --help      print this and exit\n";

struct options {
	const char *data;
	uint32_t wanted;
	uint64_t jobs;
};

enum { OPTION_DATA = 256, OPTION_FIGURE, OPTION_JOBS };

static int
figure_exists(uint64_t number)
{
	return (number >= 2 && number <= 4) || (number >= 11 && number <= 19);
}

/* 0: go on; 1: done, *code is the exit code. */
static int
options_read(struct options *options, int argc, char **argv, int *code)
{
	static const struct option longs[] = {
		{"data", required_argument, NULL, OPTION_DATA},
		{"figure", required_argument, NULL, OPTION_FIGURE},
		{"help", no_argument, NULL, 'h'},
		{"jobs", required_argument, NULL, OPTION_JOBS},
		{NULL, 0, NULL, 0},
	};
	uint64_t number;
	int c;

	opterr = 0;
	optind = 1;
	*code = SL_EXIT_USAGE;
	while ((c = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
		switch (c) {
		case OPTION_DATA:
			options->data = optarg;
			break;
		case OPTION_FIGURE:
			if (command_number(optarg, FIGURE_FIRST, FIGURE_LAST, &number) ||
			    !figure_exists(number)) {
				command_usage("figures",
					      "--figure: '%s' is not one of 2-4, 11-19",
					      optarg);
				return 1;
			}
			options->wanted |= 1u << number;
			break;
		case OPTION_JOBS:
			if (command_number(optarg, 1, JOBS_MAX, &options->jobs)) {
				command_usage("figures", "--jobs: '%s' is not 1 to %d",
					      optarg, JOBS_MAX);
				return 1;
			}
			break;
		case 'h':
			fputs(figures_help, stdout);
			*code = SL_EXIT_OK;
			return 1;
		default:
			command_bad_option("figures", longs, c, argv);
			return 1;
		}
	}
	if (optind < argc) {
		command_usage("figures", "unexpected argument '%s'", argv[optind]);
		return 1;
	}
	return 0;
}

static void
numbers_print(struct json *json, const char *key, const double *numbers, unsigned n)
{
	json_array(json, key);
	for (unsigned i = 0; i < n; i++)
		json_double(json, NULL, numbers[i]);
	json_close(json);
}

static void
cell_print(struct json *json, const struct figure_cell *cell)
{
	json_object(json, NULL);
	json_string(json, "model", figure_models[cell->key.model].name);
	json_u64(json, "batch", cell->key.batch);
	json_string(json, "policy", figure_policy_names[cell->key.policy]);
	json_u64(json, "host_gib", cell->key.host_gib);
	json_u64(json, "store_mbps", cell->key.store_mbps);
	json_u64(json, "noise_percent", cell->key.noise_percent);
	json_array(json, "figures");
	for (unsigned figure = FIGURE_FIRST; figure <= FIGURE_LAST; figure++)
		if (cell->figures & 1u << figure)
			json_u64(json, NULL, figure);
	json_close(json);
	json_string(json, "failed", cell->failed ? cell->why : NULL);
	json_u64(json, "cycles", cell->cycles);
	json_u64(json, "ideal_cycles", cell->ideal_cycles);
	json_double(json, "seconds_to_simulate", cell->run_s);
	json_bool(json, "has_plan_of_ours", cell->plan != NULL);
	json_array(json, "pages"); /* store in and out, host in and out */
	for (int path = 0; path < SL_PATH_COUNT; path++)
		json_u64(json, NULL, cell->pages[path]);
	json_close(json);
	json_i64(json, "stall", (int64_t)cell->stall);
	json_i64(json, "overlap", (int64_t)cell->overlap);
	json_i64(json, "compute", (int64_t)cell->compute);
	numbers_print(json, "above_percent", cell->above, FIGURE_ABOVE_COUNT);
	numbers_print(json, "quantiles", cell->quantile, FIGURE_QUANTILES);
	json_close(json);
}

static void
list_print(struct json *json, const char *key, const uint32_t *list, uint32_t end)
{
	json_array(json, key);
	for (; *list != end; list++)
		json_u64(json, NULL, *list);
	json_close(json);
}

static void
model_print(struct json *json, const struct figure_model *model, int there)
{
	json_object(json, NULL);
	json_string(json, "name", model->name);
	json_string(json, "title", model->title);
	json_bool(json, "there", there);
	json_u64(json, "batch", model->batch);
	list_print(json, "batches", model->batches, 0);
	list_print(json, "host_batches", model->host_batches, 0);
	list_print(json, "hosts", model->hosts, UINT32_MAX);
	json_u64(json, "host_batch", model->host_batch);
	json_u64(json, "store_batch", model->store_batch);
	json_close(json);
}

static void
figures_print(const struct figures *figures)
{
	struct json json;

	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_double(&json, "seconds", figures->run_s);
	json_u64(&json, "jobs", figures->n_jobs);
	json_array(&json, "models");
	for (unsigned m = 0; m < FIGURE_MODEL_COUNT; m++)
		model_print(&json, &figure_models[m], figures->there[m]);
	json_close(&json);
	json_array(&json, "cells");
	for (size_t i = 0; i < figures->n_cells; i++)
		if (figures->cells[i].ran)
			cell_print(&json, &figures->cells[i]);
	json_close(&json);
	(void)json_end(&json); /* main() looks at stdout */
	fprintf(stderr, "%zu configurations in %.1f s on %u threads\n", figures->n_cells,
		figures->run_s, figures->n_jobs);
}

/* The directory of the traces. The default one is in the source tree, and not installed. */
static int
data_find(struct options *options)
{
	if (options->data)
		return 0;
	options->data = DATA_DEFAULT;
	if (access(DATA_DEFAULT, F_OK))
		return sl_fail(-ENOENT,
			       DATA_DEFAULT
			       ": %s: run it in the source tree, or name the "
			       "directory of the traces with --data DIR",
			       strerror(errno));
	return 0;
}

int
cmd_figures(int argc, char **argv)
{
	struct options options = {0};
	struct figures figures = {0};
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned there = 0;
	int code, rc;

	if (options_read(&options, argc, argv, &code))
		return code;
	if (!options.jobs)
		options.jobs = processors < 1              ? 1
			       : processors > JOBS_DEFAULT ? JOBS_DEFAULT
							   : (uint64_t)processors;
	rc = data_find(&options);
	figures.data = options.data;
	figures.n_jobs = (unsigned)options.jobs;
	figures.wanted = options.wanted ? options.wanted : ~0u;
	if (!rc)
		rc = figures_cells_list(&figures);
	if (!rc)
		rc = figures_cells_run(&figures);
	for (unsigned m = 0; !rc && m < FIGURE_MODEL_COUNT; m++) {
		there += figures.there[m] != 0;
		if (!figures.there[m])
			fprintf(stderr, "%s: no kernel times at batch %u in %s, left out\n",
				figure_models[m].name, figure_models[m].batch, options.data);
	}
	if (!rc && !there)
		rc = sl_fail(-ENOENT, "%s: no traces there; --data names their directory",
			     options.data);
	if (!rc)
		figures_print(&figures);
	figures_fini(&figures);
	if (rc)
		return command_fail("figures", "%s", sluice_last_error());
	return SL_EXIT_OK;
}

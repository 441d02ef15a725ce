/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice-papers figures`: every figure of the paper G10's evaluation, from its published traces, as
 * tables beside the published values and as pictures, and how near the two are.
 *
 * Reads the command line, has the cells listed, run and written, and prints cells and bars as
 * JSON if asked. What is in the figures: figures.h and the files named there.
 *
 * Threads: this one; figures_cells_run() starts more.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bar_json.h"
#include "commands.h"
#include "figures.h"
#include "json.h"
#include "papers.h"
#include "sluice/sluice.h"

#define DATA_DEFAULT "tests/data/g10"
#define JOBS_MAX     64
#define JOBS_DEFAULT 8

static const char figures_help[] =
	"Usage: sluice-papers figures [--data DIR] [--figure N]... [--out DIR | "
	"--update] "
	"[--json]\n"
	"                      [--check] [--jobs N]\n"
	"\n"
	"Simulate every figure of the paper G10's evaluation (2 to 4, 11 to 19) from "
	"its\n"
	"published traces; print tables beside the published values, and how near they "
	"are.\n"
	"\n"
	"Options:\n"
	"      --check     fail when a bar is not met\n"
	"      --data DIR  traces and published values (default: " DATA_DEFAULT ")\n"
	"      --figure N  only this figure (repeatable)\n"
	"      --jobs N    threads (default: one for each processor, at most 8)\n"
	"      --json      print cells and bars as one JSON object\n"
	"      --out DIR   write figures.md and the pictures there\n"
	"      --update    write docs/figures.md and docs/figures/*.svg\n"
	"  -h, --help      print this and exit\n";

struct options {
	const char *data, *out;
	uint32_t wanted;
	uint64_t jobs;
	int json, update, check;
};

enum {
	OPTION_CHECK = 256,
	OPTION_DATA,
	OPTION_FIGURE,
	OPTION_JOBS,
	OPTION_JSON,
	OPTION_OUT,
	OPTION_UPDATE
};

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
		{"check", no_argument, NULL, OPTION_CHECK},
		{"data", required_argument, NULL, OPTION_DATA},
		{"figure", required_argument, NULL, OPTION_FIGURE},
		{"help", no_argument, NULL, 'h'},
		{"jobs", required_argument, NULL, OPTION_JOBS},
		{"json", no_argument, NULL, OPTION_JSON},
		{"out", required_argument, NULL, OPTION_OUT},
		{"update", no_argument, NULL, OPTION_UPDATE},
		{NULL, 0, NULL, 0},
	};
	uint64_t number;
	int c;

	opterr = 0;
	optind = 1;
	*code = SL_EXIT_USAGE;
	while ((c = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
		switch (c) {
		case OPTION_CHECK:
			options->check = 1;
			break;
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
		case OPTION_JSON:
			options->json = 1;
			break;
		case OPTION_OUT:
			options->out = optarg;
			break;
		case OPTION_UPDATE:
			options->update = 1;
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
	if (options->update && options->out) {
		command_usage("figures", "--out and --update exclude each other");
		return 1;
	}
	if (options->update && options->wanted) {
		command_usage("figures",
			      "--update writes all figures: leave --figure out");
		return 1;
	}
	return 0;
}

static void
cell_print(struct json *json, const struct figures *figures, const struct figure_cell *cell)
{
	static const char *const paths[SL_PATH_COUNT] = {"store_in", "store_out",
							 "host_in", "host_out"};

	json_object(json);
	json_key(json, "model");
	json_string(json, figure_models[cell->key.model].name);
	json_key(json, "batch");
	json_u64(json, cell->key.batch);
	json_key(json, "policy");
	json_string(json, figure_policy_names[cell->key.policy]);
	json_key(json, "host_gib");
	json_u64(json, cell->key.host_gib);
	json_key(json, "store_bps");
	json_u64(json, cell->key.store_mbps * UINT64_C(1000000));
	json_key(json, "noise_percent");
	json_u64(json, cell->key.noise_percent);
	json_key(json, "failed");
	json_string(json, cell->failed ? cell->why : NULL);
	json_key(json, "cycles");
	json_u64(json, cell->cycles);
	json_key(json, "ideal_cycles");
	json_u64(json, cell->ideal_cycles);
	json_key(json, "seconds_to_simulate");
	json_double(json, cell->run_s);
	json_key(json, "pages");
	json_object(json);
	for (int path = 0; path < SL_PATH_COUNT; path++) {
		json_key(json, paths[path]);
		json_u64(json, cell->pages[path]);
	}
	json_close(json);
	json_key(json, "published_cycles"); /* by figure; null: the policy fails there */
	json_object(json);
	for (unsigned figure = FIGURE_FIRST; figure <= FIGURE_LAST; figure++) {
		double published = figures_published(figures, figure, &cell->key);
		char name[8];

		if (!(cell->figures & 1u << figure) || published != published ||
		    cell->key.noise_percent)
			continue;
		snprintf(name, sizeof(name), "%u", figure);
		json_key(json, name);
		json_double(json, published);
	}
	json_close(json);
	json_close(json);
}

static void
figures_print_json(const struct figures *figures, const struct figure_bar *bars, unsigned n)
{
	struct json json;

	json_begin(&json, stdout);
	json_object(&json);
	json_key(&json, "seconds");
	json_double(&json, figures->run_s);
	json_key(&json, "jobs");
	json_u64(&json, figures->n_jobs);
	json_key(&json, "missing_models");
	json_array(&json);
	for (unsigned m = 0; m < FIGURE_MODEL_COUNT; m++)
		if (!figures->traces[m].there)
			json_string(&json, figure_models[m].name);
	json_close(&json);
	json_key(&json, "bars");
	json_array(&json);
	for (unsigned i = 0; i < n; i++) {
		bar_json_begin(&json, bars[i].what, bars[i].bar, "cells", bars[i].n_cells);
		json_key(&json, "exempt");
		json_u64(&json, bars[i].n_exempt);
		json_key(&json, "judged");
		json_bool(&json, bars[i].judged);
		bar_json_end(&json, bars[i].passed, bars[i].note);
	}
	json_close(&json);
	json_key(&json, "cells");
	json_array(&json);
	for (size_t i = 0; i < figures->n_cells; i++)
		if (figures->cells[i].ran)
			cell_print(&json, figures, &figures->cells[i]);
	json_close(&json);
	(void)json_end(&json); /* main() looks at stdout */
}

static int
directory_make(const char *path)
{
	if (mkdir(path, 0777) && errno != EEXIST)
		return sl_fail(-errno, "%s: %s", path, strerror(errno));
	return 0;
}

/* figures.md in dir, pictures in dir/pictures ("" or a name). */
static int
files_write(const struct figures *figures, const char *dir, const char *pictures)
{
	char path[PATH_MAX], picture_dir[PATH_MAX];
	FILE *out;
	int rc = directory_make(dir);

	if (rc)
		return rc;
	snprintf(picture_dir, sizeof(picture_dir), "%s%s%s", dir, pictures[0] ? "/" : "",
		 pictures);
	snprintf(path, sizeof(path), "%s/figures.md", dir);
	rc = directory_make(picture_dir);
	if (rc)
		return rc;
	out = fopen(path, "we");
	if (!out)
		return sl_fail(-errno, "%s: %s", path, strerror(errno));
	rc = figures_tables_write(figures, out, picture_dir, pictures);
	if (fclose(out) && !rc)
		rc = sl_fail(-EIO, "%s: writing failed", path);
	return rc;
}

static int
results_write(const struct figures *figures, const struct options *options)
{
	static struct figure_bar bars[FIGURE_BARS_MAX];
	unsigned n = figures_bars_judge(figures, bars), failed = 0;
	int rc = 0;

	if (options->update)
		rc = files_write(figures, "docs", "figures");
	else if (options->out)
		rc = files_write(figures, options->out, "");
	else if (!options->json)
		rc = figures_tables_write(figures, stdout, NULL, "");
	if (!rc && options->json)
		figures_print_json(figures, bars, n);
	if (rc)
		return rc;
	for (unsigned i = 0; i < n; i++) {
		if (!bars[i].judged || bars[i].passed)
			continue;
		failed++;
		fprintf(stderr, "not met: %s: %s: %s\n", bars[i].what, bars[i].bar,
			bars[i].note);
	}
	fprintf(stderr, "%zu configurations in %.1f s on %u threads, %u bars not met\n",
		figures->n_cells, figures->run_s, figures->n_jobs, failed);
	if (failed && options->check)
		return sl_fail(-ERANGE, "%u bars are not met", failed);
	return 0;
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
		rc = figures_expected_read(options.data, &figures.expected);
	if (!rc)
		rc = figures_cells_list(&figures);
	if (!rc)
		rc = figures_cells_run(&figures, 0);
	for (unsigned m = 0; !rc && m < FIGURE_MODEL_COUNT; m++) {
		there += figures.traces[m].there != 0;
		if (!figures.traces[m].there)
			fprintf(stderr, "%s: no kernel times at batch %u in %s, left out\n",
				figure_models[m].name, figure_models[m].batch, options.data);
	}
	if (!rc && !there)
		rc = sl_fail(-ENOENT, "%s: no traces there; --data names their directory",
			     options.data);
	if (!rc)
		rc = results_write(&figures, &options);
	figures_fini(&figures);
	if (rc)
		return command_fail("figures", "%s", sluice_last_error());
	return SL_EXIT_OK;
}

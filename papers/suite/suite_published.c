/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the papers print: tables 3 to 8 of UVM Discard, cell by cell, and the applications of
 * DRAGON's figure 3, whose bars are a picture (its numbers in the text are in suite_bars.c and
 * suite_dragon.c). Also how an application of a paper is found in the table of workloads.
 *
 * With r the runtime at 200 % and PCIe 3, d and n the bytes with and without discard, kernels alone
 * take as long as the link needs for (d - r n) / (r - 1): some 4.5 GB for hash join, 100 for radix
 * sort, next to none for FIR (there one reading). In readings of the inputs that is inputs_per_run.
 * Of training only two relations are in the text: 60.6 % less traffic gave 61.2 % more speed to a
 * network of convolutions, 60.9 % gave 22.8 % to a recurrent one. So kernels took as long as the
 * link for 1/1.68 and 1/0.44 of the bytes without discard, which are some 40 and 120 times our inputs.
 *
 * Runtimes are relative to no discard (there 1), with PCIe 3 / PCIe 4; bytes in GB of both ways
 * together. The paper's machine: a GPU of 11.77 GB.
 *
 * Threads: constant data.
 */
#include "suite.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const char *const suite_dragon_apps[] = {"vectoradd", "blackscholes", "binomialoptions",
					 "hotspot",   "lavamd",       "pathfinder",
					 "backprop",  "srad",         NULL};

/* clang-format off */
const struct suite_table suite_tables[] = {
	{"fir", "FIR", 3, 4,
	 {{5.66, 11.44, 13.38, 14.34}, {5.66, 5.88, 7.81, 8.78}, {5.66, 5.88, 7.81, 8.78}},
	 {{"1", "1", "1", "1"},
	  {"1/1.01", "0.51/0.52", "0.62/0.65", "0.71/0.71"},
	  {"1/1.00", "0.52/0.52", "0.62/0.66", "0.72/0.71"}}, 1, 1, NULL},
	{"radix", "Radix-sort", 5, 6,
	 {{5.00, 300.80, 345.40, 356.85}, {5.00, 244.93, 315.50, 339.76},
	  {5.00, 244.92, 315.52, 339.76}},
	 {{"1", "1", "1", "1"},
	  {"1.21/1.28", "0.87/0.83", "0.95/0.93", "0.97/0.97"},
	  {"1.00/1.02", "0.87/0.83", "0.95/0.92", "0.97/0.99"}}, 0, 20, NULL},
	{"hash", "Hash-join", 7, 8,
	 {{2.98, 34.62, 36.42, 58.23}, {2.98, 4.89, 16.19, 46.61}, {2.98, 4.89, 16.19, 46.44}},
	 {{"1", "1", "1", "1"},
	  {"1.05/1.09", "0.24/0.31", "0.51/0.54", "0.86/0.89"},
	  {"1.02/1.04", "0.24/0.31", "0.51/0.54", "0.86/0.88"}}, 0, 1.5, NULL},
	{"network", "Training of VGG-16", 0, 0, {{0}}, {{0}}, 0, 40, "vgg16"},
	{"network", "Training of Darknet-19", 0, 0, {{0}}, {{0}}, 0, 40, "darknet19"},
	{"network", "Training of ResNet-53", 0, 0, {{0}}, {{0}}, 0, 40, "resnet53"},
	{"network", "Training of an RNN", 0, 0, {{0}}, {{0}}, 0, 120, "rnn"},
	{"train", "Training, small", 0, 0, {{0}}, {{0}}, 0, 2, NULL},
};
/* clang-format on */
const unsigned suite_n_tables = sizeof(suite_tables) / sizeof(suite_tables[0]);

/* Whether name, without regard to case and to what is neither letter nor digit, begins so. */
static int
name_begins(const char *name, const char *begin)
{
	for (; *begin; name++) {
		if (!*name)
			return 0;
		if (!isalnum((unsigned char)*name))
			continue;
		if (tolower((unsigned char)*name) != *begin)
			return 0;
		begin++;
	}
	return 1;
}

const struct workload *
suite_workload(const char *name)
{
	for (const struct workload *const *w = workloads_list; *w; w++)
		if (name_begins((*w)->name, name))
			return *w;
	return NULL;
}

const struct workload *
suite_table_workload(const struct suite_table *table)
{
	return suite_workload(table->workload);
}

const char *
suite_table_rows(const struct suite_table *table, char *name)
{
	const struct workload *workload = suite_table_workload(table);

	if (!workload)
		return NULL;
	snprintf(name, SUITE_WORD_BYTES, "%s%s%s", workload->name,
		 table->model ? "-" : "", table->model ? table->model : "");
	return name;
}

const struct workload *
suite_rows_workload(const char *name, const char **model)
{
	const char *dash = strchr(name, '-');
	char workload[SUITE_WORD_BYTES];

	*model = dash ? dash + 1 : NULL;
	snprintf(workload, sizeof(workload), "%.*s",
		 (int)(dash ? (size_t)(dash - name) : strlen(name)), name);
	return workload_find(workload);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which applications the papers have, and how they are found in the table of workloads: those of
 * DRAGON's figure 3 and of UVM Discard's tables 3 to 8. The published values are in papers/suite_bars.py.
 *
 * With r the runtime at 200 % and PCIe 3, d and n the bytes with and without discard, kernels alone
 * take as long as the link needs for (d - r n) / (r - 1): some 4.5 GB for hash join, 100 for radix
 * sort, next to none for FIR (there one reading). In readings of the inputs that is inputs_per_run.
 * Of training only two relations are in the text: 60.6 % less traffic gave 61.2 % more speed to a
 * network of convolutions, 60.9 % gave 22.8 % to a recurrent one. So kernels took as long as the
 * link for 1/1.68 and 1/0.44 of the bytes without discard, which are some 40 and 120 times our inputs.
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

const struct suite_table suite_tables[] = {
	{"fir", 1, 1, NULL},
	{"radix", 0, 20, NULL},
	{"hash", 0, 1.5, NULL},
	{"network", 0, 40, "vgg16"},
	{"network", 0, 40, "darknet19"},
	{"network", 0, 40, "resnet53"},
	{"network", 0, 120, "rnn"},
	{"train", 0, 2, NULL},
};
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

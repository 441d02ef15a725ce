/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of workloads. A new one is a file that defines a struct workload (see hotspot.c for
 * a stencil, vectoradd.c for the shortest), and a line in each of the two lists here.
 *
 * Threads: constant data.
 */
#include "list.h"

#include <string.h>
#include <strings.h>

const struct workload *const workloads_list[] = {
	&workload_vectoradd,
	&workload_hotspot,
	&workload_pathfinder,
	&workload_srad,
	&workload_fir,
	&workload_train,
	&workload_backprop,
	&workload_binomial_options,
	&workload_black_scholes,
	&workload_lavamd,
	&workload_radix_sort,
	&workload_hash_join,
	&workload_minibatch_sgd,
	&workload_network,
	NULL,
};

const struct workload *
workload_find(const char *name)
{
	const struct workload *const *w, *found = NULL;
	size_t n = strlen(name);

	for (w = workloads_list; *w; w++) {
		if (strcasecmp((*w)->name, name) == 0)
			return *w;
		if (n > 0 && strncasecmp((*w)->name, name, n) == 0) {
			if (found)
				return NULL; /* ambiguous */
			found = *w;
		}
	}
	return found;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks a workload up in the program's table, workloads_list[].
 *
 * Threads: constant data.
 */
#include "workload.h"

#include <string.h>
#include <strings.h>

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

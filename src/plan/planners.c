/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that makes plans, by name. A new planner is one line here, one declaration in
 * plan.h and a file of its own.
 *
 * Threads: read-only data.
 */
#include <stddef.h>
#include <string.h>

#include "plan/plan.h"

static const struct sl_planner *const planners[] = {
	&sl_planner_sluice,
	&sl_planner_g10,
};

const struct sl_planner *
sl_planner_find(const char *name)
{
	for (size_t i = 0; i < sizeof(planners) / sizeof(planners[0]); i++)
		if (strcmp(planners[i]->name, name) == 0)
			return planners[i];
	return NULL;
}

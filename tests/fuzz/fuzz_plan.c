/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text for the reader of plan files. What it accepts has its steps in order and in range,
 * and written and read again it is the same plan.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_same(const struct sl_plan *a, const struct sl_plan *b)
{
	if (strcmp(a->planner, b->planner) != 0 || a->n_launches != b->n_launches ||
	    a->n_tensors != b->n_tensors || a->predicted_ns != b->predicted_ns ||
	    a->n_steps != b->n_steps)
		abort();
	for (uint32_t i = 0; i < a->n_steps; i++)
		if (a->steps[i].launch != b->steps[i].launch ||
		    a->steps[i].verb != b->steps[i].verb ||
		    a->steps[i].tensor != b->steps[i].tensor)
			abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[] = "/tmp/sluice-fuzz-plan-XXXXXX";
	struct sl_plan *plan = NULL, *again = NULL;
	int fd, rc = sl_plan_decode(data, size, "fuzz", &plan);

	if (rc) {
		if (plan || (rc != -EINVAL && rc != -ENOMEM && rc != -E2BIG))
			abort();
		return 0;
	}
	for (uint32_t i = 0; i < plan->n_steps; i++)
		if (plan->steps[i].launch >= plan->n_launches ||
		    plan->steps[i].tensor >= plan->n_tensors ||
		    (i && plan->steps[i].launch < plan->steps[i - 1].launch))
			abort();
	fd = mkstemp(path);
	if (fd >= 0) {
		close(fd);
		if (sl_plan_write(plan, path) || sl_plan_read(path, &again))
			abort();
		check_same(plan, again);
		unlink(path);
	}
	sl_plan_destroy(again);
	sl_plan_destroy(plan);
	return 0;
}

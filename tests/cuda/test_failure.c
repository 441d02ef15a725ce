/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the driver fail, one after the other. After each the script (failure_script.h) finds
 * the invariants, right contents or an error, and no leak.
 */
#include <string.h>
#include <unistd.h>

#include "cuda/failure_script.h"

#if defined(__SANITIZE_THREAD__) /* ten times slower */
#define FEWER 8
#else
#define FEWER 3
#endif

static const char *const call_names[] = {
#define CUDA_SYMBOL(name, exported, ...) #exported,
#include "device/cuda/cuda_symbols.def"
#undef CUDA_SYMBOL
};

static void
driver_error_at_each_call(void)
{
	int late = FEWER > 3 || getenv("CUDA_STANDIN_LATE_US");
	int all = getenv("SWEEP_ALL") != NULL;
	unsigned runs = 0, points = 0;

	cuda_test_open(&script_cuda);
	log_catch();
	CHECK(!script_with("", "cuMemMap:1000000", 0));
	for (size_t i = 0; i < sizeof(call_names) / sizeof(call_names[0]); i++) {
		unsigned n = 1;
		char spec[64];

		if (late && !strstr(call_names[i], "Async") &&
		    !strstr(call_names[i], "Stream") && !strstr(call_names[i], "Event"))
			continue;
		/* The first ones, then ever fewer; or each of them. */
		for (int fired = 1; fired; n = all ? n + 1 : FEWER * n, runs++) {
			snprintf(spec, sizeof(spec), "%s:%u", call_names[i], n);
			fired = script_with(call_names[i], spec, 0);
			points += fired != 0;
		}
	}
	printf("%u runs, %u failures injected\n", runs, points);
	CHECK(points > (late ? 15 : 60));
	_exit(0); /* calls that gave nothing back have left things */
}

static const struct failure_case cases[] = {
	{"driver_error_at_each_call", driver_error_at_each_call, 1, NULL, NULL, NULL, NULL},
	{"driver_error_at_each_call (late)", driver_error_at_each_call, 1,
	 "CUDA_STANDIN_LATE_US", "200", "CUDA_STANDIN_NO_HOST_VMM", "1"},
};

int
main(int argc, char **argv)
{
	return failure_main(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans: in memory, as files (src/plan/plan.c, plan_file.c), and their invariants
 * (tests/plan_check.c). The trace is small enough to follow by hand:
 *
 *	launch 0: reads weight, writes a
 *	launch 1: reads a, writes b
 *	launch 2: reads b, writes c
 *	launch 3: reads a, reads c, rewrites weight
 *
 * weight, a, b and c are one MiB each; all but weight live within the period.
 */
#include <errno.h>

#include "cmocka_all.h"
#include "g10/replica.h"
#include "plan/plan.h"
#include "plan_check.h"
#include "sluice/sluice.h"

#define MIB (1u << 20)

enum { WEIGHT, A, B, C };

static struct sl_trace *
trace_make(void)
{
	static const enum sl_tensor_kind kinds[] = {SL_TENSOR_GLOBAL, SL_TENSOR_LOCAL,
						    SL_TENSOR_LOCAL, SL_TENSOR_LOCAL};
	static const char *const names[] = {"weight", "a", "b", "c"};
	struct sl_trace *trace;
	uint32_t number;

	assert_int_equal(sl_trace_create(1000000000, &trace), 0);
	for (int t = 0; t < 4; t++)
		assert_int_equal(sl_trace_add_tensor(trace, MIB, kinds[t], names[t], &number),
				 0);
	assert_int_equal(sl_trace_add_period(trace), 0);
	assert_int_equal(sl_trace_add_launch(trace, 1000000, "first", &number), 0);
	assert_int_equal(sl_trace_add_use(trace, WEIGHT, SLUICE_USE_READ), 0);
	assert_int_equal(sl_trace_add_use(trace, A, SLUICE_USE_WRITE_ALL), 0);
	assert_int_equal(sl_trace_add_launch(trace, 1000000, "second", &number), 0);
	assert_int_equal(sl_trace_add_use(trace, A, SLUICE_USE_READ), 0);
	assert_int_equal(sl_trace_add_use(trace, B, SLUICE_USE_WRITE_ALL), 0);
	assert_int_equal(sl_trace_add_launch(trace, 1000000, "third", &number), 0);
	assert_int_equal(sl_trace_add_use(trace, B, SLUICE_USE_READ), 0);
	assert_int_equal(sl_trace_add_use(trace, C, SLUICE_USE_WRITE_ALL), 0);
	assert_int_equal(sl_trace_add_launch(trace, 1000000, "fourth", &number), 0);
	assert_int_equal(sl_trace_add_use(trace, A, SLUICE_USE_READ), 0);
	assert_int_equal(sl_trace_add_use(trace, C, SLUICE_USE_READ), 0);
	assert_int_equal(sl_trace_add_use(trace, WEIGHT, SLUICE_USE_READ_WRITE), 0);
	assert_int_equal(sl_trace_check(trace), 0);
	return trace;
}

static struct sl_machine
machine_make(uint64_t device_bytes)
{
	struct sl_machine machine;

	sl_machine_g10(&machine);
	machine.device_bytes = device_bytes;
	machine.host_bytes = 16 * MIB;
	return machine;
}

static void
step(struct sl_plan *plan, uint32_t launch, enum sl_plan_verb verb, uint32_t tensor)
{
	assert_int_equal(sl_plan_add(plan, launch, verb, tensor), 0);
}

/* A plan by hand for three MiB: weight is away during launches 1 and 2. */
static struct sl_plan *
plan_make(const struct sl_trace *trace)
{
	struct sl_plan *plan;

	assert_int_equal(sl_plan_create(trace, "hand", &plan), 0);
	step(plan, 0, SL_PLAN_FREE, C);
	step(plan, 0, SL_PLAN_FREE, A);
	step(plan, 0, SL_PLAN_ALLOC, A);
	step(plan, 1, SL_PLAN_EVICT_HOST, WEIGHT);
	step(plan, 1, SL_PLAN_ALLOC, B);
	step(plan, 2, SL_PLAN_ALLOC, C);
	step(plan, 3, SL_PLAN_FREE, B);
	step(plan, 3, SL_PLAN_PREFETCH, WEIGHT);
	return plan;
}

static void
check_says(const struct sl_plan *plan, const struct sl_trace *trace,
	   uint64_t device_bytes, const char *text)
{
	struct sl_machine machine = machine_make(device_bytes);
	int rc = sl_plan_check(plan, trace, &machine);

	if (!text) {
		if (rc)
			print_message("%s\n", sluice_last_error());
		assert_int_equal(rc, 0);
		return;
	}
	assert_int_equal(rc, -EINVAL);
	if (!strstr(sluice_last_error(), text))
		fail_msg("'%s' is not in '%s'", text, sluice_last_error());
}

/* ---- in memory ---- */

static void
steps_are_sorted_by_launch_and_keep_their_order_within_one(void **state)
{
	struct sl_trace *trace = trace_make();
	struct sl_plan *plan;

	(void)state;
	assert_int_equal(sl_plan_create(trace, "hand", &plan), 0);
	assert_int_equal(plan->n_launches, 4);
	assert_int_equal(plan->n_tensors, 4);
	step(plan, 3, SL_PLAN_FREE, 2);
	step(plan, 1, SL_PLAN_EVICT_STORE, 0);
	step(plan, 3, SL_PLAN_PREFETCH, 0);
	step(plan, 0, SL_PLAN_ALLOC, 1);
	step(plan, 1, SL_PLAN_ALLOC, 2);
	g10_plan_sort(plan);
	assert_int_equal(plan->steps[0].launch, 0);
	assert_int_equal(plan->steps[1].verb, SL_PLAN_EVICT_STORE);
	assert_int_equal(plan->steps[2].verb, SL_PLAN_ALLOC);
	assert_int_equal(plan->steps[3].verb, SL_PLAN_FREE);
	assert_int_equal(plan->steps[4].verb, SL_PLAN_PREFETCH);
	sl_plan_destroy(plan);
	sl_plan_destroy(NULL);
	sl_trace_destroy(trace);
}

static void
steps_outside_the_period_are_refused(void **state)
{
	struct sl_trace *trace = trace_make();
	struct sl_plan *plan;

	(void)state;
	assert_int_equal(sl_plan_create(trace, "hand", &plan), 0);
	assert_int_equal(sl_plan_add(plan, 4, SL_PLAN_FREE, 0), -EINVAL);
	assert_int_equal(sl_plan_add(plan, 0, SL_PLAN_FREE, 4), -EINVAL);
	assert_int_equal(sl_plan_add(plan, 0, SL_PLAN_VERB_COUNT, 0), -EINVAL);
	assert_int_equal(plan->n_steps, 0);
	sl_plan_destroy(plan);
	sl_trace_destroy(trace);
}

static void
planners_are_found_by_name(void **state)
{
	(void)state;
	assert_ptr_equal(sl_planner_find("sluice"), &sl_planner_sluice);
	assert_ptr_equal(sl_planner_find("g10"), &sl_planner_g10);
	assert_null(sl_planner_find("nobody"));
}

/* ---- files ---- */

static const char text[] = "sluice-plan 1\n"
			   "planner hand\n"
			   "period 4 launches 4 tensors\n"
			   "predicted 4000000 ns\n"
			   "launch 0\n"
			   "  free 3\n"
			   "  free 1\n"
			   "  alloc 1\n"
			   "launch 1\n"
			   "  evict-host 0\n"
			   "  alloc 2\n"
			   "launch 2\n"
			   "  alloc 3\n"
			   "launch 3\n"
			   "  free 2\n"
			   "  prefetch 0\n"
			   "end 8 steps\n";

static void
file_has_the_documented_text_and_reads_back(void **state)
{
	struct sl_trace *trace = trace_make();
	struct sl_plan *plan = plan_make(trace), *read;
	char path[] = "/tmp/sluice-test-plan-XXXXXX", data[sizeof(text) + 16];
	int fd = mkstemp(path);
	ssize_t bytes;

	(void)state;
	assert_true(fd >= 0);
	plan->predicted_ns = 4000000;
	assert_int_equal(sl_plan_write(plan, path), 0);
	bytes = pread(fd, data, sizeof(data) - 1, 0);
	assert_int_equal(bytes, sizeof(text) - 1);
	data[bytes] = 0;
	assert_string_equal(data, text);

	assert_int_equal(sl_plan_read(path, &read), 0);
	assert_string_equal(read->planner, "hand");
	assert_int_equal(read->predicted_ns, 4000000);
	assert_int_equal(read->n_steps, plan->n_steps);
	for (uint32_t i = 0; i < read->n_steps; i++) {
		assert_int_equal(read->steps[i].launch, plan->steps[i].launch);
		assert_int_equal(read->steps[i].verb, plan->steps[i].verb);
		assert_int_equal(read->steps[i].tensor, plan->steps[i].tensor);
	}
	close(fd);
	unlink(path);
	sl_plan_destroy(read);
	sl_plan_destroy(plan);
	sl_trace_destroy(trace);
}

static void
every_shorter_file_is_refused(void **state)
{
	struct sl_plan *plan;

	(void)state;
	for (size_t bytes = 0; bytes < sizeof(text) - 1; bytes++)
		assert_int_equal(sl_plan_decode(text, bytes, "cut", &plan), -EINVAL);
	assert_int_equal(sl_plan_decode(text, sizeof(text) - 1, "whole", &plan), 0);
	sl_plan_destroy(plan);
}

/* text with one piece of it replaced. */
static void
decode_refuses(const char *from, const char *to, const char *message)
{
	char data[sizeof(text) + 128];
	const char *at = strstr(text, from);
	struct sl_plan *plan = NULL;

	assert_non_null(at);
	snprintf(data, sizeof(data), "%.*s%s%s", (int)(at - text), text, to,
		 at + strlen(from));
	assert_int_equal(sl_plan_decode(data, strlen(data), "bad", &plan), -EINVAL);
	assert_null(plan);
	if (!strstr(sluice_last_error(), message))
		fail_msg("'%s' is not in '%s'", message, sluice_last_error());
}

static void
errors_in_files_name_the_line(void **state)
{
	(void)state;
	decode_refuses("sluice-plan 1", "sluice-plan 2", "bad:1: version 2");
	decode_refuses("sluice-plan", "plan", "bad:1:");
	decode_refuses("planner hand", "planner hand of", "bad:2:");
	decode_refuses("4 tensors", "4 things", "bad:3: expected 'tensors'");
	decode_refuses("4 tensors", "99999999999 tensors", "bad:3: '99999999999'");
	decode_refuses("4000000 ns", "-1 ns", "bad:4: '-1'");
	decode_refuses("launch 1", "launch 0", "bad:9: launch 0 comes after launch 0");
	decode_refuses("launch 3", "launch 4", "bad:14: '4'");
	decode_refuses("free 3", "free 03", "bad:6: '03'");
	decode_refuses("free 3", "free 4", "bad:6: '4'");
	decode_refuses("  evict-host 0", "  evict 0", "bad:10: 'evict'");
	decode_refuses("  evict-host 0", "evict-host 0", "bad:10: expected a step");
	decode_refuses("  alloc 3", "  alloc 3 now", "bad:13:");
	decode_refuses("  alloc 3", "  alloc 3\t", "bad:13: byte 10");
	decode_refuses("end 8", "end 7", "bad:17: says 7 steps, but there are 8");
	decode_refuses("end 8 steps\n", "end 8 steps\n\n", "bad:18: something follows");
}

static void
unsorted_plan_is_not_written(void **state)
{
	struct sl_trace *trace = trace_make();
	struct sl_plan *plan;

	(void)state;
	assert_int_equal(sl_plan_create(trace, "hand", &plan), 0);
	step(plan, 1, SL_PLAN_ALLOC, B);
	step(plan, 0, SL_PLAN_ALLOC, A);
	assert_int_equal(sl_plan_write(plan, "/dev/null"), -EINVAL);
	sl_plan_destroy(plan);
	sl_trace_destroy(trace);
}

/* ---- invariants ---- */

static void
sound_plan_passes(void **state)
{
	struct sl_trace *trace = trace_make();
	struct sl_plan *plan = plan_make(trace), *none;

	(void)state;
	check_says(plan, trace, 3 * MIB, NULL);
	assert_int_equal(sl_plan_create(trace, "none", &none), 0);
	check_says(none, trace, 4 * MIB, NULL);
	sl_plan_destroy(none);
	sl_plan_destroy(plan);
	sl_trace_destroy(trace);
}

static void
launch_over_budget_is_named(void **state)
{
	struct sl_trace *trace = trace_make();
	struct sl_plan *plan;

	(void)state;
	assert_int_equal(sl_plan_create(trace, "none", &plan), 0);
	check_says(plan, trace, 3 * MIB, "launch 0 (first): 4 MiB");
	sl_plan_destroy(plan);
	plan = plan_make(trace);
	check_says(plan, trace, 2 * MIB, "launch 3 (fourth) uses 3 MiB");
	sl_plan_destroy(plan);
	sl_trace_destroy(trace);
}

static void
use_of_what_is_away_is_named(void **state)
{
	struct sl_trace *trace = trace_make();
	struct sl_plan *plan = plan_make(trace);

	(void)state;
	plan->n_steps--; /* the prefetch of weight */
	check_says(plan, trace,
		   3 * MIB, "launch 3 (fourth) uses tensor 0 (weight), which is not on the device");
	sl_plan_destroy(plan);
	sl_trace_destroy(trace);
}

static void
giving_up_contents_is_named(void **state)
{
	struct sl_trace *trace = trace_make();
	struct sl_plan *plan = plan_make(trace);

	(void)state;
	plan->steps[3].verb = SL_PLAN_FREE; /* weight, instead of its eviction */
	check_says(plan, trace, 3 * MIB, "launch 1 (second): the free of tensor 0 (weight)");
	plan->steps[3].verb = SL_PLAN_EVICT_STORE;
	plan->steps[7].verb = SL_PLAN_ALLOC; /* weight, instead of its prefetch */
	check_says(plan, trace, 3 * MIB, "launch 3 (fourth): the alloc of tensor 0 (weight)");
	sl_plan_destroy(plan);
	sl_trace_destroy(trace);
}

static void
plan_of_another_trace_is_refused(void **state)
{
	struct sl_trace *trace = trace_make();
	struct sl_plan *plan = plan_make(trace);

	(void)state;
	plan->n_tensors = 5;
	check_says(plan, trace, 3 * MIB, "made for 4 launches and 5 tensors");
	sl_plan_destroy(plan);
	sl_trace_destroy(trace);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(steps_are_sorted_by_launch_and_keep_their_order_within_one),
		T(steps_outside_the_period_are_refused),
		T(planners_are_found_by_name),
		T(file_has_the_documented_text_and_reads_back),
		T(every_shorter_file_is_refused),
		T(errors_in_files_name_the_line),
		T(unsorted_plan_is_not_written),
		T(sound_plan_passes),
		T(launch_over_budget_is_named),
		T(use_of_what_is_away_is_named),
		T(giving_up_contents_is_named),
		T(plan_of_another_trace_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

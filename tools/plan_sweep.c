/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice plan --sweep`: the same trace on many machines, and the smallest of them that keep a
 * given share of the speed with unlimited memory.
 *
 * Every combination of the axes' values is one machine, planned with a short search. The
 * planner's own prediction is its result. A machine with at least as much of everything as
 * another one can carry out that one's plan. So it is never reported as slower.
 *
 * Threads: one for each processor, at most THREADS_MAX, each taking the next machine. The
 * results do not depend on the threads.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault_point.h"
#include "base/size.h"
#include "cmd_plan.h"
#include "commands.h"
#include "json.h"
#include "progress.h"
#include "sluice/sluice.h"

#define THREADS_MAX 8
#define CANDIDATES  10 /* of each search */
#define LINES_MAX   8  /* of the picture */
#define FACTOR_MAX  1024

enum axis_kind { AXIS_DEVICE, AXIS_HOST, AXIS_STORE, AXIS_LINK, AXIS_DRIVES, AXIS_COUNT };

static const char *const axis_names[AXIS_COUNT] = {
	[AXIS_DEVICE] = "device-memory", [AXIS_HOST] = "host-memory",
	[AXIS_STORE] = "store",          [AXIS_LINK] = "link",
	[AXIS_DRIVES] = "drives",
};

struct axis {
	enum axis_kind kind;
	uint32_t count;
	double value[SWEEP_VALUES_MAX]; /* rising: bytes, bytes per second, drives */
	char text[SWEEP_VALUES_MAX][24];
};

struct sweep {
	const struct plan_job *job;
	struct axis axes[SWEEP_AXES_MAX];
	uint32_t n_axes, count; /* of machines */
	double kept[SWEEP_MAX]; /* share of the speed; below 0: cannot run */
	double ideal_ns;
	atomic_uint next;
	atomic_int failed;    /* -errno of a failure that is not the machine's */
	char why[512];        /* its text */
	pthread_mutex_t lock; /* of why */
};

/* ---- axes ---- */

static int
value_parse(enum axis_kind kind, const char *text, double *out)
{
	uint64_t number;

	switch (kind) {
	case AXIS_DEVICE:
	case AXIS_HOST:
		if (sl_size_parse(text, &number))
			return -EINVAL;
		*out = (double)number;
		return 0;
	case AXIS_STORE:
	case AXIS_LINK:
		return plan_rate_parse(text, out);
	case AXIS_DRIVES:
		if (command_number(text, 1, 4096, &number))
			return -EINVAL;
		*out = (double)number;
		return 0;
	case AXIS_COUNT:
		break;
	}
	return -EINVAL;
}

static void
value_print(enum axis_kind kind, double value, char *text, size_t bytes)
{
	switch (kind) {
	case AXIS_DEVICE:
	case AXIS_HOST:
		sl_size_format((uint64_t)value, text, bytes);
		return;
	case AXIS_STORE:
	case AXIS_LINK:
		snprintf(text, bytes, "%.4g GB/s", value / 1e9);
		return;
	case AXIS_DRIVES:
		snprintf(text, bytes, "%.0f drives", value);
		return;
	case AXIS_COUNT:
		break;
	}
}

/* One value more; kept rising, and each one once. */
static int
axis_add(struct axis *axis, double value)
{
	uint32_t at = axis->count;

	for (; at && axis->value[at - 1] >= value; at--)
		if (axis->value[at - 1] <= value)
			return SL_EXIT_OK;
	if (axis->count == SWEEP_VALUES_MAX)
		return command_usage("plan", "--sweep: %s: more than %d values",
				     axis_names[axis->kind], SWEEP_VALUES_MAX);
	memmove(&axis->value[at + 1], &axis->value[at],
		(axis->count - at) * sizeof(axis->value[0]));
	axis->value[at] = value;
	axis->count++;
	return SL_EXIT_OK;
}

/* LOW, LOW times the factor, ... and HIGH if that is one of them. */
static int
axis_factor(struct axis *axis, double first, double last, const char *text)
{
	char *end;
	double factor = strtod(text, &end);
	int code = SL_EXIT_OK;

	if (end == text || *end || !(factor > 1 && factor <= FACTOR_MAX) || first <= 0)
		return command_usage("plan", "--sweep: %s: '*%s' is not a factor above 1 on a range above 0",
				     axis_names[axis->kind], text);
	/* A share of a rounding error over HIGH is HIGH. */
	for (double value = first; !code && value <= last * (1 + 1e-9); value *= factor)
		code = axis_add(axis, axis->kind == AXIS_STORE || axis->kind == AXIS_LINK
					      ? value
					      : round(value));
	return code;
}

/* So many values from LOW to HIGH, the same apart. */
static int
axis_range(struct axis *axis, double first, double last, const char *text)
{
	uint64_t count = 10;
	int code = SL_EXIT_OK;

	if (axis->kind == AXIS_DRIVES && last - first + 1 < SWEEP_VALUES_MAX)
		count = (uint64_t)(last - first) + 1;
	if (text && command_number(text, 2, SWEEP_VALUES_MAX, &count))
		return command_usage("plan", "--sweep: %s: 2 to %d values",
				     axis_names[axis->kind], SWEEP_VALUES_MAX);
	if (last <= first)
		count = 1;
	for (uint64_t i = 0; !code && i < count; i++) {
		double value = first;

		if (i)
			value += (last - first) * (double)i / (double)(count - 1);
		if (axis->kind == AXIS_DRIVES)
			value = round(value);
		if ((axis->kind == AXIS_DEVICE || axis->kind == AXIS_HOST) &&
		    i + 1 < count && i)
			value = floor(value / (1 << 26)) * (1 << 26); /* whole 64 MiB */
		if (value >= first)
			code = axis_add(axis, value);
	}
	return code;
}

/* "24G", "8G..80G:10" or "4G..64G*2" */
static int
axis_values(struct axis *axis, char *low)
{
	char *high = strstr(low, ".."), *number = NULL, *factor = NULL;
	/* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): axis_begin() has set it */
	const char *name = axis_names[axis->kind];
	double first, last;

	if (high) {
		*high = 0;
		high += 2;
		number = strchr(high, ':');
		factor = strchr(high, '*');
		if (number)
			*number++ = 0;
		if (factor)
			*factor++ = 0;
	}
	if (value_parse(axis->kind, low, &first))
		return command_usage("plan", "--sweep: %s: '%s' is no value", name, low);
	last = first;
	if (high && value_parse(axis->kind, high, &last))
		return command_usage("plan", "--sweep: %s: '%s' is no value", name, high);
	if (first > last)
		return command_usage("plan", "--sweep: %s: %s..%s is not a range", name,
				     low, high);
	if (number && factor)
		return command_usage("plan", "--sweep: %s: a number of values or a factor, not both",
				     name);
	if (factor)
		return axis_factor(axis, first, last, factor);
	return axis_range(axis, first, last, number);
}

/* The axis that "device-memory=..." begins; the values are behind the sign. */
static int
axis_begin(struct sweep *sweep, char *text, char *values)
{
	struct axis *axis = &sweep->axes[sweep->n_axes];
	int kind;

	if (sweep->n_axes == SWEEP_AXES_MAX)
		return command_usage("plan", "--sweep: at most %d axes", SWEEP_AXES_MAX);
	*values = 0;
	for (kind = 0; kind < AXIS_COUNT; kind++)
		if (strcmp(axis_names[kind], text) == 0)
			break;
	if (kind == AXIS_COUNT)
		return command_usage("plan", "--sweep: no axis '%s'", text);
	for (uint32_t i = 0; i < sweep->n_axes; i++)
		if ((int)sweep->axes[i].kind == kind)
			return command_usage("plan", "--sweep: %s twice", text);
	axis->kind = (enum axis_kind)kind;
	axis->count = 0;
	sweep->n_axes++;
	return SL_EXIT_OK;
}

/* "device-memory=8G,16G,24G..80G:3,host-memory=4G..64G*2": what has no sign is one more value
 * of the axis before it. */
static int
axes_parse(struct sweep *sweep)
{
	SL_CLEANUP(free) char *copy = strdup(sweep->job->sweep);
	char *rest = NULL, *text, *values;
	int code = SL_EXIT_OK;

	if (!copy)
		return command_fail("plan", "out of memory");
	for (text = strtok_r(copy, ",", &rest); !code && text;
	     text = strtok_r(NULL, ",", &rest)) {
		values = strchr(text, '=');
		if (values)
			code = axis_begin(sweep, text, values++);
		else if (!sweep->n_axes)
			code = command_usage("plan", "--sweep: '%s' is not AXIS=VALUES",
					     text);
		if (!code)
			code = axis_values(&sweep->axes[sweep->n_axes - 1],
					   values ? values : text);
	}
	if (code)
		return code;
	if (!sweep->n_axes)
		return command_usage("plan", "--sweep: no axis");
	sweep->count = 1;
	for (uint32_t a = 0; a < sweep->n_axes; a++) {
		struct axis *axis = &sweep->axes[a];

		for (uint32_t i = 0; i < axis->count; i++)
			value_print(axis->kind, axis->value[i], axis->text[i],
				    sizeof(axis->text[0]));
		sweep->count *= axis->count;
		if (sweep->count > SWEEP_MAX)
			return command_usage("plan", "--sweep: more than %d machines",
					     SWEEP_MAX);
	}
	return SL_EXIT_OK;
}

/* Number of the value of an axis for machine i; the first axis varies slowest. */
static uint32_t
axis_at(const struct sweep *sweep, uint32_t i, uint32_t axis)
{
	for (uint32_t a = sweep->n_axes - 1; a > axis; a--)
		i /= sweep->axes[a].count;
	return i % sweep->axes[axis].count;
}

/* ---- machines ---- */

static void
machine_make(const struct sweep *sweep, uint32_t i, struct sl_machine *machine)
{
	const struct sl_machine *base = &sweep->job->machine;

	*machine = *base;
	for (uint32_t a = 0; a < sweep->n_axes; a++) {
		double value = sweep->axes[a].value[axis_at(sweep, i, a)];

		switch (sweep->axes[a].kind) {
		case AXIS_DEVICE:
			machine->device_bytes = (uint64_t)value;
			break;
		case AXIS_HOST:
			machine->host_bytes = (uint64_t)value;
			break;
		case AXIS_STORE: /* reads; writes in the proportion of --store */
			machine->store_write_bps *= value / machine->store_read_bps;
			machine->store_read_bps = value;
			break;
		case AXIS_LINK:
			machine->link_out_bps *= value / machine->link_in_bps;
			machine->link_in_bps = value;
			break;
		case AXIS_DRIVES: /* as fast together as that many of --store's */
			machine->store_read_bps *= value / machine->n_drives;
			machine->store_write_bps *= value / machine->n_drives;
			machine->n_drives = (uint32_t)value;
			break;
		case AXIS_COUNT:
			break;
		}
	}
	/* The link bounds the store. */
	machine->store_read_bps = fmin(machine->store_read_bps, machine->link_in_bps);
	machine->store_write_bps = fmin(machine->store_write_bps, machine->link_out_bps);
}

static void
machine_run(struct sweep *sweep, uint32_t i)
{
	const struct plan_job *job = sweep->job;
	struct sl_planner_options options = {.as_published = job->as_published,
					     .candidates_max = CANDIDATES};
	struct sl_machine machine;
	struct sl_plan *plan = NULL;
	int rc;

	machine_make(sweep, i, &machine);
	rc = job->planner->make(job->trace, &machine, &options, &plan);
	sweep->kept[i] = -1;
	if (!rc && plan->predicted_ns)
		sweep->kept[i] = fmin(1, sweep->ideal_ns / (double)plan->predicted_ns);
	if (rc && rc != -ENOSPC) {
		pthread_mutex_lock(&sweep->lock);
		if (!atomic_exchange(&sweep->failed, rc))
			snprintf(sweep->why, sizeof(sweep->why), "%s", sluice_last_error());
		pthread_mutex_unlock(&sweep->lock);
	}
	sl_plan_destroy(plan);
}

/* Take one machine after the other. progress: NULL: of a thread that shows none. */
static void
machines_take(struct sweep *sweep, struct progress *progress)
{
	uint32_t i;

	while (!atomic_load(&sweep->failed) &&
	       (i = atomic_fetch_add(&sweep->next, 1)) < sweep->count) {
		machine_run(sweep, i);
		if (progress)
			progress_update(progress, NULL, (double)i / sweep->count);
	}
}

static void *
sweep_thread(void *arg)
{
	machines_take(arg, NULL);
	return NULL;
}

/* 1: machine i has at least as much of everything as machine j. */
static int
machine_is_over(const struct sweep *sweep, uint32_t i, uint32_t j)
{
	for (uint32_t a = 0; a < sweep->n_axes; a++)
		if (axis_at(sweep, i, a) < axis_at(sweep, j, a))
			return 0;
	return 1;
}

static void
sweep_machines(struct sweep *sweep)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t threads[THREADS_MAX];
	struct progress progress;
	int count = 0;

	while (count < THREADS_MAX - 1 && count < cpus - 1 &&
	       !pthread_create(&threads[count], NULL, sweep_thread, sweep))
		count++;
	progress_begin(&progress, "trying machines");
	machines_take(sweep, &progress);
	while (count)
		pthread_join(threads[--count], NULL);
	progress_end(&progress);
	/* Rising numbers: a machine that another one is over has the lower number. */
	for (uint32_t i = 0; i < sweep->count; i++)
		for (uint32_t j = 0; j < i; j++)
			if (sweep->kept[j] > sweep->kept[i] && machine_is_over(sweep, i, j))
				sweep->kept[i] = sweep->kept[j];
}

/* Keeps enough, and no machine that it is over does. */
static int
machine_is_least(const struct sweep *sweep, uint32_t i)
{
	if (sweep->kept[i] < sweep->job->keep)
		return 0;
	for (uint32_t j = 0; j < i; j++)
		if (sweep->kept[j] >= sweep->job->keep && machine_is_over(sweep, i, j))
			return 0;
	return 1;
}

/* ---- what is printed ---- */

static void
sweep_print(const struct sweep *sweep)
{
	int found = 0;

	printf("%s: %.6f s a period with unlimited memory\n\n", sweep->job->trace_path,
	       sweep->ideal_ns / 1e9);
	for (uint32_t a = 0; a < sweep->n_axes; a++)
		printf("%-15s", axis_names[sweep->axes[a].kind]);
	printf("%12s %8s\n", "period", "kept");
	for (uint32_t i = 0; i < sweep->count; i++) {
		for (uint32_t a = 0; a < sweep->n_axes; a++)
			printf("%-15s", sweep->axes[a].text[axis_at(sweep, i, a)]);
		if (sweep->kept[i] < 0)
			printf("%12s %8s\n", "-", "-");
		else
			printf("%10.4f s %6.2f %%%s\n",
			       sweep->ideal_ns / 1e9 / sweep->kept[i], 100 * sweep->kept[i],
			       machine_is_least(sweep, i) ? "  <- smallest" : "");
	}
	printf("\nsmallest that keep %.4g %%:", 100 * sweep->job->keep);
	for (uint32_t i = 0; i < sweep->count; i++) {
		if (!machine_is_least(sweep, i))
			continue;
		found = 1;
		for (uint32_t a = 0; a < sweep->n_axes; a++)
			printf("%s%s", a ? ", " : "\n  ",
			       sweep->axes[a].text[axis_at(sweep, i, a)]);
	}
	printf("%s\n", found ? "" : " none of these");
}

static void
sweep_json(const struct sweep *sweep)
{
	struct json json;

	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_string(&json, "trace", sweep->job->trace_path);
	json_double(&json, "unlimited_seconds", sweep->ideal_ns / 1e9);
	json_double(&json, "keep", sweep->job->keep);
	json_array(&json, "machines");
	for (uint32_t i = 0; i < sweep->count; i++) {
		json_object(&json, NULL);
		for (uint32_t a = 0; a < sweep->n_axes; a++) {
			const struct axis *axis = &sweep->axes[a];
			double value = axis->value[axis_at(sweep, i, a)];

			/* Bytes and drives are counted: exact. */
			if (axis->kind == AXIS_STORE || axis->kind == AXIS_LINK)
				json_double(&json, axis_names[axis->kind], value);
			else
				json_u64(&json, axis_names[axis->kind], (uint64_t)value);
		}
		json_double(&json, "kept", sweep->kept[i] < 0 ? (double)NAN : sweep->kept[i]);
		json_bool(&json, "smallest", machine_is_least(sweep, i));
		json_close(&json);
	}
	json_close(&json);
	json_close(&json);
	(void)json_end(&json); /* main() looks at stdout */
}

/* The first axis from left to right, a line for each combination of the others. */
static int
sweep_picture(const struct sweep *sweep)
{
	const struct axis *first = &sweep->axes[0];
	struct plan_line lines[LINES_MAX];
	double kept[LINES_MAX][SWEEP_VALUES_MAX];
	const char *values[SWEEP_VALUES_MAX];
	uint32_t others = sweep->count / first->count;
	uint32_t n_lines = others < LINES_MAX ? others : LINES_MAX;

	for (uint32_t v = 0; v < first->count; v++)
		values[v] = first->text[v];
	for (uint32_t l = 0; l < n_lines; l++) {
		uint32_t other = n_lines > 1 ? l * (others - 1) / (n_lines - 1) : 0;
		size_t used = 0;

		lines[l].name[0] = 0;
		for (uint32_t a = 1; a < sweep->n_axes && used < sizeof(lines[l].name); a++)
			used += (size_t)snprintf(lines[l].name + used,
						 sizeof(lines[l].name) - used, "%s%s %s",
						 a > 1 ? ", " : "",
						 axis_names[sweep->axes[a].kind],
						 sweep->axes[a].text[axis_at(sweep, other, a)]);
		for (uint32_t v = 0; v < first->count; v++)
			kept[l][v] = sweep->kept[v * others + other];
		lines[l].kept = kept[l];
	}
	return plan_picture_sweep(sweep->job->svg, axis_names[first->kind], values,
				  first->count, lines, n_lines, sweep->job->keep);
}

/* All machines. 0 or -errno with a text. */
static int
sweep_make(struct sweep *sweep)
{
	const struct sl_trace *trace = sweep->job->trace;
	uint64_t ticks = 0;

	for (uint32_t k = trace->period_first[0]; k < trace->period_first[1]; k++)
		ticks += trace->launches[k].ticks;
	sweep->ideal_ns = (double)ticks * 1e9 / (double)trace->clock_hz;
	pthread_mutex_init(&sweep->lock, NULL);
	sweep_machines(sweep);
	pthread_mutex_destroy(&sweep->lock);
	return sweep->failed ? sl_fail_text(sweep->failed, sweep->why) : 0;
}

int
plan_sweep_sizes(const struct plan_job *job, const uint64_t *device_bytes, uint32_t n,
		 double *kept, double *unlimited_s)
{
	SL_CLEANUP(free) struct sweep *sweep = sl_calloc(1, sizeof(*sweep));
	int rc;

	if (!sweep)
		return sl_fail(-ENOMEM, "out of memory");
	sweep->job = job;
	sweep->n_axes = 1;
	sweep->axes[0].kind = AXIS_DEVICE;
	sweep->axes[0].count = sweep->count = n;
	for (uint32_t i = 0; i < n; i++)
		sweep->axes[0].value[i] = (double)device_bytes[i];
	rc = sweep_make(sweep);
	for (uint32_t i = 0; i < n; i++)
		kept[i] = sweep->kept[i];
	*unlimited_s = sweep->ideal_ns / 1e9;
	return rc;
}

int
plan_sweep_run(const struct plan_job *job)
{
	SL_CLEANUP(free) struct sweep *sweep = sl_calloc(1, sizeof(*sweep));
	int code, rc;

	if (!sweep)
		return command_fail("plan", "out of memory");
	sweep->job = job;
	code = axes_parse(sweep);
	if (code)
		return code;
	rc = sweep_make(sweep);
	if (!rc && job->svg)
		rc = sweep_picture(sweep);
	if (!rc && job->as_json)
		sweep_json(sweep);
	else if (!rc)
		sweep_print(sweep);
	return rc ? command_fail("plan", "%s", sluice_last_error()) : SL_EXIT_OK;
}

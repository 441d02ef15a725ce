/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One period of a longer trace as a trace of its own: the one that planner and simulator repeat.
 *
 * It keeps the tensors that the period uses or copies, and those that live from before its begin
 * to behind its end. No launch uses these in it, but their memory is taken and their contents
 * may be wanted later. Lives that cross a border of the period are left open: the uses decide
 * them then.
 *
 * Threads: a trace is worked on by one thread at a time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/trace.h"

/* ---- which ---- */

static uint64_t
period_ticks(const struct sl_trace *trace, uint32_t period)
{
	uint64_t sum = 0;

	for (uint32_t k = trace->period_first[period];
	     k < trace->period_first[period + 1]; k++)
		sum += trace->launches[k].ticks;
	return sum;
}

struct timed {
	uint64_t ticks;
	uint32_t period, launches;
};

static int
timed_compare(const void *a, const void *b)
{
	const struct timed *x = a, *y = b;

	if (x->launches != y->launches)
		return x->launches < y->launches ? -1 : 1;
	if (x->ticks != y->ticks)
		return x->ticks < y->ticks ? -1 : 1;
	return (x->period > y->period) - (x->period < y->period);
}

int
sl_trace_steady(const struct sl_trace *trace, uint32_t *period)
{
	struct timed *all = calloc(trace->n_periods, sizeof(*all));
	uint32_t best_first = 0, best_n = 0, n;

	if (!all)
		return sl_fail(-ENOMEM, "trace: no memory for %u periods", trace->n_periods);
	for (uint32_t p = 0; p < trace->n_periods; p++)
		all[p] = (struct timed){period_ticks(trace, p), p,
					sl_trace_period_launches(trace, p)};
	qsort(all, trace->n_periods, sizeof(*all), timed_compare);
	for (uint32_t i = 0; i < trace->n_periods; i += n) {
		for (n = 1; i + n < trace->n_periods; n++)
			if (all[i + n].launches != all[i].launches)
				break;
		if (n >= best_n) { /* of as many the longer ones */
			best_first = i;
			best_n = n;
		}
	}
	*period = all[best_first + best_n / 2].period;
	free(all);
	return 0;
}

/* ---- cutting ---- */

struct cut {
	const struct sl_trace *from;
	struct sl_trace *to;
	uint32_t first, end; /* launches */
	uint32_t *number; /* of the tensor in the new trace; SL_TRACE_NONE: it is not there */
	uint8_t *is_used;
};

static const char *
name_of(const struct cut *c, uint32_t name)
{
	return name == SL_TRACE_NONE ? NULL : sl_trace_name(c->from, name);
}

/* At a border: what comes in is for the launches behind it, what goes out is of those before. */
static int
copy_is_inside(const struct cut *c, const struct sl_trace_copy *copy)
{
	if (copy->before_launch == c->first)
		return copy->to_device;
	if (copy->before_launch == c->end)
		return !copy->to_device;
	return copy->before_launch > c->first && copy->before_launch < c->end;
}

static void
uses_look(struct cut *c)
{
	for (uint32_t k = c->first; k < c->end; k++) {
		const struct sl_trace_launch *launch = &c->from->launches[k];

		for (uint32_t i = 0; i < launch->n_uses; i++)
			c->is_used[c->from->uses[launch->first_use + i].tensor] = 1;
	}
	for (uint32_t i = 0; i < c->from->n_copies; i++)
		if (copy_is_inside(c, &c->from->copies[i]))
			c->is_used[c->from->copies[i].tensor] = 1;
}

/* From before the begin to behind the end. */
static int
lives_across(const struct cut *c, const struct sl_tensor *tensor)
{
	return (tensor->alloc_at == SL_TRACE_NONE ? tensor->kind == SL_TENSOR_GLOBAL
						  : tensor->alloc_at <= c->first) &&
	       (tensor->free_at == SL_TRACE_NONE || tensor->free_at >= c->end);
}

static int
tensors_cut(struct cut *c)
{
	int rc = 0;

	for (uint32_t t = 0; !rc && t < c->from->n_tensors; t++) {
		const struct sl_tensor *tensor = &c->from->tensors[t];
		enum sl_tensor_kind kind = c->is_used[t] ? tensor->kind : SL_TENSOR_GLOBAL;
		struct sl_tensor *made;

		c->number[t] = SL_TRACE_NONE;
		if (!c->is_used[t] && !lives_across(c, tensor))
			continue;
		rc = sl_trace_add_tensor(c->to, tensor->size_bytes, kind,
					 name_of(c, tensor->name), &c->number[t]);
		if (rc)
			return rc;
		made = &c->to->tensors[c->number[t]];
		made->ratio = tensor->ratio;
		if (tensor->alloc_at != SL_TRACE_NONE && tensor->alloc_at >= c->first &&
		    tensor->alloc_at < c->end && kind != SL_TENSOR_GLOBAL)
			made->alloc_at = tensor->alloc_at - c->first;
		if (tensor->free_at != SL_TRACE_NONE && tensor->free_at > c->first &&
		    tensor->free_at <= c->end && kind != SL_TENSOR_GLOBAL)
			made->free_at = tensor->free_at - c->first;
	}
	return rc;
}

static int
launch_cut(struct cut *c, uint32_t k)
{
	const struct sl_trace_launch *launch = &c->from->launches[k];
	struct sl_trace_launch *made;
	uint32_t number;
	int rc = sl_trace_add_launch_at(c->to,
					launch->start_ticks -
						c->from->launches[c->first].start_ticks,
					launch->ticks, name_of(c, launch->name), &number);

	if (rc)
		return rc;
	made = &c->to->launches[number];
	made->fault_output_ticks = launch->fault_output_ticks;
	made->fault_all_ticks = launch->fault_all_ticks;
	for (uint32_t i = 0; !rc && i < launch->n_uses; i++) {
		const struct sl_trace_use *use = &c->from->uses[launch->first_use + i];

		rc = sl_trace_add_use(c->to, c->number[use->tensor], use->intent);
	}
	return rc;
}

/* Launches, and before each and behind the last the copies. */
static int
launches_cut(struct cut *c)
{
	uint32_t next = 0;
	int rc = 0;

	for (uint32_t k = c->first; !rc && k <= c->end; k++) {
		for (; !rc && next < c->from->n_copies &&
		       c->from->copies[next].before_launch <= k;
		     next++) {
			const struct sl_trace_copy *copy = &c->from->copies[next];

			if (copy_is_inside(c, copy))
				rc = sl_trace_add_copy(c->to, c->number[copy->tensor],
						       copy->to_device, copy->bytes);
		}
		if (!rc && k < c->end)
			rc = launch_cut(c, k);
	}
	return rc;
}

int
sl_trace_cut(const struct sl_trace *trace, uint32_t period, struct sl_trace **out)
{
	struct cut c = {.from = trace};
	int rc;

	if (period >= trace->n_periods)
		return sl_fail(-EINVAL, "trace: no period %u; there %s %u", period,
			       trace->n_periods == 1 ? "is" : "are", trace->n_periods);
	c.first = trace->period_first[period];
	c.end = trace->period_first[period + 1];
	rc = sl_trace_create(trace->clock_hz, &c.to);
	c.number = malloc((trace->n_tensors + (size_t)1) * sizeof(*c.number));
	c.is_used = calloc(trace->n_tensors + (size_t)1, sizeof(*c.is_used));
	if (!rc && (!c.number || !c.is_used))
		rc = sl_fail(-ENOMEM, "trace: no memory for %u tensors", trace->n_tensors);
	if (!rc && trace->source && trace->source[0])
		rc = sl_trace_set_source(c.to, trace->source);
	if (!rc) {
		uses_look(&c);
		rc = tensors_cut(&c);
	}
	if (!rc)
		rc = launches_cut(&c);
	if (!rc) {
		c.to->n_forward = trace->n_forward;
		rc = sl_trace_check(c.to);
	}
	free(c.number);
	free(c.is_used);
	if (rc)
		sl_trace_destroy(c.to);
	else
		*out = c.to;
	return rc;
}

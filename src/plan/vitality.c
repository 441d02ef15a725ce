/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor vitality of one period of a trace (paper G10, section 4.1): lives, idle times
 * and the memory that they ask for.
 *
 * A life is about contents: it begins with the first launch or copy that touches the
 * tensor and ends behind the last one that needs it; that a program frees a tensor later
 * keeps nothing alive. Tensors that keep their contents from period to period live all
 * along, and their last idle time goes over the end of the period into the next.
 *
 * Threads: pure.
 */
#include "plan/vitality.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One pass over the launches: [first, first + n) of the trace. */
struct window {
	const struct sl_trace *trace;
	uint32_t first, n;
};

void
sl_vitality_fini(struct sl_vitality *vitality)
{
	free(vitality->start_ticks);
	free(vitality->lives);
	free(vitality->idles);
	free(vitality->idle_first);
	free(vitality->alive_bytes);
	free(vitality->active_bytes);
	memset(vitality, 0, sizeof(*vitality));
}

static int
idles_room_make(struct sl_vitality *v, const struct window *w)
{
	size_t n = w->n, n_tensors = w->trace->n_tensors;
	uint32_t first_use = w->trace->launches[w->first].first_use;
	const struct sl_trace_launch *last = &w->trace->launches[w->first + w->n - 1];
	/* Each use ends at most one idle time; one more where the period wraps. */
	size_t n_idles = (size_t)(last->first_use + last->n_uses - first_use) + n_tensors;

	v->start_ticks = calloc(n + 1, sizeof(*v->start_ticks));
	v->lives = calloc(n_tensors + 1, sizeof(*v->lives));
	v->idles = calloc(n_idles + 1, sizeof(*v->idles));
	v->idle_first = calloc(n_tensors + 1, sizeof(*v->idle_first));
	v->alive_bytes = calloc(n + 1, sizeof(*v->alive_bytes));
	v->active_bytes = calloc(n, sizeof(*v->active_bytes));
	if (!v->start_ticks || !v->lives || !v->idles || !v->idle_first ||
	    !v->alive_bytes || !v->active_bytes)
		return sl_fail(-ENOMEM,
			       "vitality: no memory for %zu launches and %zu tensors", n,
			       n_tensors);
	return 0;
}

/* First and last uses, and how often; the active bytes and the clock along the way. */
static void
uses_count(struct sl_vitality *v, const struct window *w)
{
	for (uint32_t t = 0; t < w->trace->n_tensors; t++)
		v->lives[t].first_use = v->lives[t].last_use = SL_TRACE_NONE;
	for (uint32_t k = 0; k < w->n; k++) {
		const struct sl_trace_launch *launch = &w->trace->launches[w->first + k];

		v->start_ticks[k + 1] = v->start_ticks[k] + launch->ticks;
		for (uint32_t i = 0; i < launch->n_uses; i++) {
			uint32_t t = w->trace->uses[launch->first_use + i].tensor;
			struct sl_life *life = &v->lives[t];

			if (life->n_uses++ == 0)
				life->first_use = k;
			life->last_use = k;
			v->active_bytes[k] += w->trace->tensors[t].size_bytes;
		}
	}
}

/* Copies by the program: what comes in lives from there, what goes out lives until
 * then. */
static void
copies_count(struct sl_vitality *v, const struct window *w)
{
	for (uint32_t i = 0; i < w->trace->n_copies; i++) {
		const struct sl_trace_copy *copy = &w->trace->copies[i];
		struct sl_life *life = &v->lives[copy->tensor];
		uint32_t k;

		if (copy->before_launch < w->first || copy->before_launch > w->first + w->n)
			continue;
		k = copy->before_launch - w->first;
		if (life->birth == life->death) { /* no life so far */
			life->birth = life->death = k;
			if (copy->to_device && k < w->n)
				life->death = k + 1;
			continue;
		}
		if (k < life->birth)
			life->birth = k;
		if (!copy->to_device && k > life->death)
			life->death = k;
	}
}

static void
lives_make(struct sl_vitality *v, const struct window *w)
{
	for (uint32_t t = 0; t < w->trace->n_tensors; t++) {
		struct sl_life *life = &v->lives[t];

		if (life->n_uses > 0) {
			life->birth = life->first_use;
			life->death = life->last_use + 1;
		}
	}
	copies_count(v, w);
	for (uint32_t t = 0; t < w->trace->n_tensors; t++) {
		const struct sl_tensor *tensor = &w->trace->tensors[t];
		struct sl_life *life = &v->lives[t];
		int is_global = tensor->kind == SL_TENSOR_GLOBAL;

		if (is_global) {
			life->birth = 0;
			life->death = w->n;
			v->global_bytes += tensor->size_bytes;
		}
		if (is_global || life->n_uses > 0 || w->trace->n_periods == 1)
			v->total_bytes += tensor->size_bytes;
	}
}

/* Differences at births and deaths, then sums. */
static void
alive_make(struct sl_vitality *v, const struct window *w)
{
	uint64_t alive = 0;

	for (uint32_t t = 0; t < w->trace->n_tensors; t++) {
		const struct sl_life *life = &v->lives[t];

		if (life->birth == life->death)
			continue;
		v->alive_bytes[life->birth] += w->trace->tensors[t].size_bytes;
		v->alive_bytes[life->death] -= w->trace->tensors[t].size_bytes; /* may wrap */
	}
	for (uint32_t k = 0; k < w->n; k++) {
		alive += v->alive_bytes[k];
		v->alive_bytes[k] = alive;
		if (alive > v->peak_alive_bytes)
			v->peak_alive_bytes = alive;
	}
}

static uint32_t
wraps_count(const struct sl_vitality *v, const struct window *w, uint32_t t)
{
	const struct sl_life *life = &v->lives[t];

	return w->trace->tensors[t].kind == SL_TENSOR_GLOBAL &&
	       (life->n_uses == 0 || life->last_use + 1 < w->n || life->first_use > 0);
}

/* Counted first, so that the list comes out by tensor in two passes over the uses. */
static int
idles_make(struct sl_vitality *v, const struct window *w)
{
	uint32_t n_tensors = w->trace->n_tensors, n = 0;
	uint32_t *last = malloc((n_tensors + (size_t)1) * sizeof(*last));
	uint32_t *next = calloc(n_tensors + (size_t)1, sizeof(*next));

	if (!last || !next) {
		free(last);
		free(next);
		return sl_fail(-ENOMEM, "vitality: no memory for %u tensors", n_tensors);
	}
	for (int pass = 0; pass < 2; pass++) {
		memset(last, 0xff, n_tensors * sizeof(*last)); /* SL_TRACE_NONE */
		for (uint32_t k = 0; k < w->n; k++) {
			const struct sl_trace_launch *launch = &w->trace->launches[w->first + k];

			for (uint32_t i = 0; i < launch->n_uses; i++) {
				uint32_t t = w->trace->uses[launch->first_use + i].tensor;
				uint32_t begin = last[t] + 1;

				if (last[t] != SL_TRACE_NONE && begin < k) {
					if (pass == 1)
						v->idles[next[t]] = (struct sl_idle){
							.tensor = t,
							.begin = begin,
							.end = k,
							.ticks = v->start_ticks[k] -
								 v->start_ticks[begin],
						};
					next[t]++;
				}
				last[t] = k;
			}
		}
		if (pass == 1)
			break;
		for (uint32_t t = 0; t < n_tensors; t++) {
			v->idle_first[t] = n;
			n += next[t] + wraps_count(v, w, t);
			next[t] = v->idle_first[t];
		}
		v->idle_first[n_tensors] = v->n_idles = n;
	}
	for (uint32_t t = 0; t < n_tensors; t++) {
		const struct sl_life *life = &v->lives[t];
		uint64_t all = v->start_ticks[w->n];

		if (!wraps_count(v, w, t))
			continue;
		if (life->n_uses == 0)
			v->idles[next[t]] = (struct sl_idle){.tensor = t,
							     .end = w->n,
							     .ticks = all};
		else
			v->idles[next[t]] = (struct sl_idle){
				.tensor = t,
				.begin = life->last_use + 1,
				.end = life->first_use,
				.wraps = 1,
				.ticks = all - v->start_ticks[life->last_use + 1] +
					 v->start_ticks[life->first_use],
			};
	}
	free(last);
	free(next);
	return 0;
}

int
sl_vitality_make(const struct sl_trace *trace, uint32_t period, struct sl_vitality *out)
{
	struct sl_vitality v = {0};
	struct window w = {.trace = trace};
	int rc;

	if (period >= trace->n_periods)
		return sl_fail(-EINVAL, "vitality: no period %u; the trace has %u",
			       period, trace->n_periods);
	w.first = trace->period_first[period];
	w.n = sl_trace_period_launches(trace, period);
	if (w.n == 0)
		return sl_fail(-EINVAL, "vitality: period %u has no launches", period);
	v.n_launches = w.n;
	rc = idles_room_make(&v, &w);
	if (!rc) {
		uses_count(&v, &w);
		lives_make(&v, &w);
		alive_make(&v, &w);
		rc = idles_make(&v, &w);
	}
	if (rc) {
		sl_vitality_fini(&v);
		return rc;
	}
	*out = v;
	return 0;
}

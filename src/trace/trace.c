/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model of a trace: building it record by record, and the one check of the whole that
 * every reader and importer ends with.
 *
 * Building refuses at once what can never become right (a size of zero, a use of a tensor
 * that does not exist); what depends on records to come (a free after the last use, a
 * period without launches) is left to sl_trace_check(). Arrays double; the bounds of
 * trace.h are enforced here and nowhere else, so that no reader can be made to allocate
 * without end.
 *
 * Threads: plain data; a trace is built by one thread at a time.
 */
#include "trace/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 16

/* ---- making and freeing ---- */

int
sl_trace_create(uint64_t clock_hz, struct sl_trace **out)
{
	struct sl_trace *trace;

	if (clock_hz == 0 || clock_hz > SL_TRACE_CLOCK_MAX)
		return sl_fail(-EINVAL,
			       "trace: a clock of %" PRIu64
			       " Hz; it must be 1 to %" PRIu64,
			       clock_hz, (uint64_t)SL_TRACE_CLOCK_MAX);
	trace = calloc(1, sizeof(*trace));
	if (!trace)
		return sl_fail(-ENOMEM, "trace: no memory for a trace");
	trace->clock_hz = clock_hz;
	trace->n_forward = SL_TRACE_NONE;
	/* Arrays that may stay empty exist all the same: &uses[0] is always an
	 * address. */
	trace->period_first = calloc(ROOM_MIN, sizeof(*trace->period_first));
	trace->tensors = calloc(ROOM_MIN, sizeof(*trace->tensors));
	trace->uses = calloc(ROOM_MIN, sizeof(*trace->uses));
	if (!trace->period_first || !trace->tensors || !trace->uses) {
		sl_trace_destroy(trace);
		return sl_fail(-ENOMEM, "trace: no memory for a trace");
	}
	trace->max.periods = trace->max.tensors = trace->max.uses = ROOM_MIN;
	trace->n_periods = 1;
	*out = trace;
	return 0;
}

void
sl_trace_destroy(struct sl_trace *trace)
{
	if (!trace)
		return;
	free(trace->source);
	free(trace->tensors);
	free(trace->launches);
	free(trace->uses);
	free(trace->copies);
	free(trace->period_first);
	free(trace->strings);
	free(trace->name_slots);
	free(trace);
}

/* ---- names ---- */

const char *
sl_trace_name(const struct sl_trace *trace, uint32_t name)
{
	return name == SL_TRACE_NONE ? "" : trace->strings + name;
}

const char *
sl_trace_intent_name(enum sluice_intent intent)
{
	switch (intent) {
	case SLUICE_USE_READ:
		return "read";
	case SLUICE_USE_WRITE:
		return "write";
	case SLUICE_USE_READ_WRITE:
		return "read-write";
	case SLUICE_USE_WRITE_ALL:
		return "write-all";
	case SLUICE_USE_SCRATCH:
		return "scratch";
	case SLUICE_USE_COUNT:
		break;
	}
	return "?";
}

const char *
sl_tensor_kind_name(enum sl_tensor_kind kind)
{
	switch (kind) {
	case SL_TENSOR_GLOBAL:
		return "global";
	case SL_TENSOR_LOCAL:
		return "local";
	case SL_TENSOR_WORKSPACE:
		return "workspace";
	case SL_TENSOR_KIND_COUNT:
		break;
	}
	return "?";
}

uint32_t
sl_trace_period_launches(const struct sl_trace *trace, uint32_t period)
{
	return trace->period_first[period + 1] - trace->period_first[period];
}

/* Names are one line each in text files: no control characters. */
static int
name_check(const char *name, const char *what)
{
	size_t length = strnlen(name, SL_TRACE_NAME_MAX + 1);

	if (length > SL_TRACE_NAME_MAX)
		return sl_fail(-EINVAL, "trace: %s is longer than %u bytes", what,
			       SL_TRACE_NAME_MAX);
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
			return sl_fail(-EINVAL,
				       "trace: %s holds a control character (byte %zu)",
				       what, i);
	if (length > 0 && (name[0] == ' ' || name[length - 1] == ' '))
		return sl_fail(-EINVAL, "trace: %s begins or ends with a blank", what);
	return 0;
}

int
sl_trace_set_source(struct sl_trace *trace, const char *source)
{
	int rc = name_check(source, "the source line");
	char *copy;

	if (rc)
		return rc;
	copy = strdup(source);
	if (!copy)
		return sl_fail(-ENOMEM, "trace: no memory for the source line");
	free(trace->source);
	trace->source = copy;
	return 0;
}

/* ---- room ---- */

static int
out_of_memory(void)
{
	return sl_fail(-ENOMEM, "trace: no memory for more records");
}

/* Make room for one more entry of size entry_bytes behind n. */
static int
room_grow(void **array, uint32_t n, uint32_t *max, size_t entry_bytes)
{
	uint32_t more = *max ? *max * 2 : ROOM_MIN;
	void *grown;

	if (n < *max)
		return 0;
	grown = reallocarray(*array, more, entry_bytes);
	if (!grown)
		return out_of_memory();
	*array = grown;
	*max = more;
	return 0;
}

/* The slot of a name: where it is, or the empty one where it belongs. */
static uint32_t
name_slot(const struct sl_trace *trace, const char *name)
{
	uint32_t hash = 2166136261u, mask = trace->n_name_slots - 1;

	for (const char *c = name; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 16777619u;
	while (trace->name_slots[hash & mask] != SL_TRACE_NONE &&
	       strcmp(trace->strings + trace->name_slots[hash & mask], name) != 0)
		hash++; /* at most half of the slots are taken */
	return hash & mask;
}

/* Room for one more name in the table and for bytes more in strings. */
static int
name_room(struct sl_trace *trace, size_t bytes)
{
	size_t need = trace->strings_bytes + bytes;

	if (need >= SL_TRACE_NONE)
		return sl_fail(-E2BIG, "trace: the names together pass 4 GiB");
	if (need > trace->max.strings) {
		size_t room = trace->max.strings ? trace->max.strings * 2 : 1024;
		char *grown = realloc(trace->strings, room > need ? room : need);

		if (!grown)
			return out_of_memory();
		trace->strings = grown;
		trace->max.strings = room > need ? room : need;
	}
	if (trace->n_names >= trace->n_name_slots / 2) {
		uint32_t n = trace->n_name_slots ? trace->n_name_slots * 2 : 64;
		uint32_t *slots = malloc(n * sizeof(*slots));

		if (!slots)
			return out_of_memory();
		memset(slots, 0xff, n * sizeof(*slots)); /* SL_TRACE_NONE */
		free(trace->name_slots);
		trace->name_slots = slots;
		trace->n_name_slots = n;
		for (size_t at = 0; at < trace->strings_bytes;
		     at += strlen(trace->strings + at) + 1)
			slots[name_slot(trace, trace->strings + at)] = (uint32_t)at;
	}
	return 0;
}

/* *out: the offset of a name, appended where it is new; SL_TRACE_NONE for NULL or "". */
static int
name_add(struct sl_trace *trace, const char *name, const char *what, uint32_t *out)
{
	size_t bytes;
	uint32_t slot;
	int rc;

	*out = SL_TRACE_NONE;
	if (!name || !name[0])
		return 0;
	rc = name_check(name, what);
	if (rc)
		return rc;
	bytes = strlen(name) + 1;
	rc = name_room(trace, bytes);
	if (rc)
		return rc;
	slot = name_slot(trace, name);
	if (trace->name_slots[slot] == SL_TRACE_NONE) {
		trace->name_slots[slot] = (uint32_t)trace->strings_bytes;
		memcpy(trace->strings + trace->strings_bytes, name, bytes);
		trace->strings_bytes += bytes;
		trace->n_names++;
	}
	*out = trace->name_slots[slot];
	return 0;
}

/* ---- building ---- */

int
sl_trace_add_tensor(struct sl_trace *trace, uint64_t size_bytes, enum sl_tensor_kind kind,
		    const char *name, uint32_t *number)
{
	struct sl_tensor *tensor;
	uint32_t name_at;
	int rc;

	if (size_bytes == 0 || size_bytes > SL_TRACE_SIZE_MAX)
		return sl_fail(-EINVAL,
			       "trace: tensor %u has %" PRIu64
			       " bytes; it must have 1 to 2^50",
			       trace->n_tensors, size_bytes);
	if ((unsigned)kind >= SL_TENSOR_KIND_COUNT)
		return sl_fail(-EINVAL, "trace: tensor %u is of kind %u, which is none",
			       trace->n_tensors, (unsigned)kind);
	if (trace->n_tensors >= SL_TRACE_TENSORS_MAX)
		return sl_fail(-E2BIG, "trace: more than %u tensors", SL_TRACE_TENSORS_MAX);
	rc = room_grow((void **)&trace->tensors, trace->n_tensors, &trace->max.tensors,
		       sizeof(*trace->tensors));
	if (rc)
		return rc;
	rc = name_add(trace, name, "a tensor's name", &name_at);
	if (rc)
		return rc;
	tensor = &trace->tensors[trace->n_tensors];
	*tensor = (struct sl_tensor){
		.size_bytes = size_bytes,
		.kind = kind,
		.name = name_at,
		.alloc_at = SL_TRACE_NONE,
		.free_at = SL_TRACE_NONE,
	};
	if (number)
		*number = trace->n_tensors;
	trace->n_tensors++;
	return 0;
}

int
sl_trace_add_launch_at(struct sl_trace *trace, uint64_t start_ticks, uint64_t ticks,
		       const char *name, uint32_t *number)
{
	uint32_t n = trace->n_launches;
	uint64_t before_ends = 0;
	uint32_t name_at;
	int rc;

	if (ticks == 0 || ticks > SL_TRACE_TICKS_MAX)
		return sl_fail(-EINVAL,
			       "trace: launch %u lasts %" PRIu64
			       " ticks; it must last 1 to 2^56",
			       n, ticks);
	if (n > 0)
		before_ends = trace->launches[n - 1].start_ticks +
			      trace->launches[n - 1].ticks;
	if (start_ticks < before_ends)
		return sl_fail(-EINVAL,
			       "trace: launch %u starts at tick %" PRIu64
			       ", before launch %u ends at tick %" PRIu64
			       ": launches may not overlap",
			       n, start_ticks, n - 1, before_ends);
	if (start_ticks > SL_TRACE_TICKS_MAX - ticks)
		return sl_fail(-EINVAL, "trace: launch %u ends after 2^56 ticks", n);
	if (n >= SL_TRACE_LAUNCHES_MAX)
		return sl_fail(-E2BIG, "trace: more than %u launches", SL_TRACE_LAUNCHES_MAX);
	rc = room_grow((void **)&trace->launches, n, &trace->max.launches,
		       sizeof(*trace->launches));
	if (rc)
		return rc;
	rc = name_add(trace, name, "a launch's name", &name_at);
	if (rc)
		return rc;
	trace->launches[n] = (struct sl_trace_launch){
		.start_ticks = start_ticks,
		.ticks = ticks,
		.name = name_at,
		.first_use = trace->n_uses,
	};
	trace->n_launches++;
	trace->period_first[trace->n_periods] = trace->n_launches;
	if (number)
		*number = n;
	return 0;
}

int
sl_trace_add_launch(struct sl_trace *trace, uint64_t ticks, const char *name, uint32_t *number)
{
	uint64_t start_ticks = 0;

	if (trace->n_launches > 0) {
		const struct sl_trace_launch *last = &trace->launches[trace->n_launches - 1];

		start_ticks = last->start_ticks + last->ticks;
	}
	return sl_trace_add_launch_at(trace, start_ticks, ticks, name, number);
}

/* Two uses of one tensor by one launch as one; SLUICE_USE_COUNT: they contradict. */
static enum sluice_intent
intent_join(enum sluice_intent a, enum sluice_intent b)
{
	if (a == b)
		return a;
	if (a == SLUICE_USE_SCRATCH || b == SLUICE_USE_SCRATCH)
		return SLUICE_USE_COUNT;
	if ((a == SLUICE_USE_WRITE && b == SLUICE_USE_WRITE_ALL) ||
	    (a == SLUICE_USE_WRITE_ALL && b == SLUICE_USE_WRITE))
		return SLUICE_USE_WRITE_ALL;
	return SLUICE_USE_READ_WRITE;
}

int
sl_trace_add_use(struct sl_trace *trace, uint32_t tensor, enum sluice_intent intent)
{
	struct sl_trace_launch *launch;
	struct sl_trace_use *uses;
	uint32_t at, end;
	int rc;

	if (trace->n_launches == 0)
		return sl_fail(-EINVAL, "trace: a use of tensor %u before any launch",
			       tensor);
	launch = &trace->launches[trace->n_launches - 1];
	if (tensor >= trace->n_tensors)
		return sl_fail(-EINVAL,
			       "trace: launch %u uses tensor %u; there are %u tensors",
			       trace->n_launches - 1, tensor, trace->n_tensors);
	if ((unsigned)intent >= SLUICE_USE_COUNT)
		return sl_fail(-EINVAL,
			       "trace: launch %u uses tensor %u with intent %u, which is "
			       "none",
			       trace->n_launches - 1, tensor, (unsigned)intent);

	/* Ascending; most callers come in order, so the search is from the end. */
	end = launch->first_use + launch->n_uses;
	at = end;
	while (at > launch->first_use && trace->uses[at - 1].tensor > tensor)
		at--;
	if (at > launch->first_use && trace->uses[at - 1].tensor == tensor) {
		enum sluice_intent joined = intent_join(trace->uses[at - 1].intent, intent);

		if (joined == SLUICE_USE_COUNT)
			return sl_fail(-EINVAL,
				       "trace: launch %u uses tensor %u as scratch and "
				       "otherwise",
				       trace->n_launches - 1, tensor);
		trace->uses[at - 1].intent = joined;
		return 0;
	}
	if (trace->n_uses >= SL_TRACE_USES_MAX)
		return sl_fail(-E2BIG, "trace: more than %u uses", SL_TRACE_USES_MAX);
	rc = room_grow((void **)&trace->uses, trace->n_uses, &trace->max.uses,
		       sizeof(*trace->uses));
	if (rc)
		return rc;
	uses = trace->uses;
	memmove(&uses[at + 1], &uses[at], (end - at) * sizeof(*uses));
	uses[at] = (struct sl_trace_use){.tensor = tensor, .intent = intent};
	launch->n_uses++;
	trace->n_uses++;
	return 0;
}

int
sl_trace_add_copy(struct sl_trace *trace, uint32_t tensor, int to_device, uint64_t bytes)
{
	int rc;

	if (tensor >= trace->n_tensors)
		return sl_fail(-EINVAL,
			       "trace: copy %u is of tensor %u; there are %u tensors",
			       trace->n_copies, tensor, trace->n_tensors);
	if (bytes == 0 || bytes > trace->tensors[tensor].size_bytes)
		return sl_fail(-EINVAL,
			       "trace: copy %u is of %" PRIu64
			       " bytes; tensor %u has %" PRIu64,
			       trace->n_copies, bytes, tensor,
			       trace->tensors[tensor].size_bytes);
	if (trace->n_copies >= SL_TRACE_USES_MAX)
		return sl_fail(-E2BIG, "trace: more than %u copies", SL_TRACE_USES_MAX);
	rc = room_grow((void **)&trace->copies, trace->n_copies, &trace->max.copies,
		       sizeof(*trace->copies));
	if (rc)
		return rc;
	trace->copies[trace->n_copies++] = (struct sl_trace_copy){
		.before_launch = trace->n_launches,
		.tensor = tensor,
		.to_device = to_device != 0,
		.bytes = bytes,
	};
	return 0;
}

int
sl_trace_add_period(struct sl_trace *trace)
{
	int rc;

	if (trace->period_first[trace->n_periods - 1] == trace->n_launches) {
		/* A period that begins with the trace, said aloud. */
		if (trace->n_launches == 0)
			return 0;
		return sl_fail(-EINVAL, "trace: period %u has no launches",
			       trace->n_periods - 1);
	}
	rc = room_grow((void **)&trace->period_first, trace->n_periods + 1,
		       &trace->max.periods, sizeof(*trace->period_first));
	if (rc)
		return rc;
	trace->n_periods++;
	trace->period_first[trace->n_periods] = trace->n_launches;
	return 0;
}

/* ---- the check of the whole ---- */

static int
tensors_check(const struct sl_trace *trace)
{
	uint64_t sum = 0;

	for (uint32_t t = 0; t < trace->n_tensors; t++) {
		const struct sl_tensor *tensor = &trace->tensors[t];

		if (tensor->size_bytes == 0 || tensor->size_bytes > SL_TRACE_SIZE_MAX)
			return sl_fail(-EINVAL,
				       "trace: tensor %u has %" PRIu64
				       " bytes; it must have 1 to 2^50",
				       t, tensor->size_bytes);
		sum += tensor->size_bytes; /* at most 2^24 x 2^50: cannot wrap twice */
		if (sum > (uint64_t)1 << 62)
			return sl_fail(-EINVAL,
				       "trace: the tensors up to %u have more than 2^62 "
				       "bytes together",
				       t);
		if ((unsigned)tensor->kind >= SL_TENSOR_KIND_COUNT)
			return sl_fail(-EINVAL, "trace: tensor %u is of no known kind", t);
		if (tensor->ratio > SL_TRACE_RATIO_ONE)
			return sl_fail(
				-EINVAL,
				"trace: tensor %u has a ratio of %u; it must be 1 to "
				"%u ten-thousandths, or 0: not known",
				t, tensor->ratio, SL_TRACE_RATIO_ONE);
		if (tensor->alloc_at != SL_TRACE_NONE && tensor->alloc_at > trace->n_launches)
			return sl_fail(-EINVAL,
				       "trace: tensor %u is allocated before launch %u; "
				       "there are %u launches",
				       t, tensor->alloc_at, trace->n_launches);
		if (tensor->free_at != SL_TRACE_NONE && tensor->free_at > trace->n_launches)
			return sl_fail(
				-EINVAL,
				"trace: tensor %u is freed before launch %u; there "
				"are %u launches",
				t, tensor->free_at, trace->n_launches);
		if (tensor->alloc_at != SL_TRACE_NONE &&
		    tensor->free_at != SL_TRACE_NONE && tensor->free_at < tensor->alloc_at)
			return sl_fail(-EINVAL,
				       "trace: tensor %u is freed (before launch %u) "
				       "before it is allocated (before launch %u)",
				       t, tensor->free_at, tensor->alloc_at);
		if (tensor->name != SL_TRACE_NONE && tensor->name >= trace->strings_bytes)
			return sl_fail(-EINVAL,
				       "trace: tensor %u has a name out of bounds", t);
	}
	return 0;
}

/* A use by launch k, or a copy before it, inside the tensor's stated life? Of what
 * happens before one launch the order is: allocations, copies, frees. */
static int
life_check(const struct sl_trace *trace, uint32_t t, uint32_t k, int is_copy)
{
	const struct sl_tensor *tensor = &trace->tensors[t];
	const char *what = is_copy ? "a copy before launch" : "launch";

	if (tensor->alloc_at != SL_TRACE_NONE && k < tensor->alloc_at)
		return sl_fail(
			-EINVAL,
			"trace: %s %u uses tensor %u (%s), which is allocated only "
			"before launch %u",
			what, k, t, sl_trace_name(trace, tensor->name), tensor->alloc_at);
	if (tensor->free_at != SL_TRACE_NONE &&
	    (k > tensor->free_at || (k == tensor->free_at && !is_copy)))
		return sl_fail(-EINVAL,
			       "trace: %s %u uses tensor %u (%s), which was freed before "
			       "launch %u",
			       what, k, t, sl_trace_name(trace, tensor->name),
			       tensor->free_at);
	return 0;
}

static int
launch_times_check(const struct sl_trace *trace, uint32_t k, uint64_t before_ends)
{
	const struct sl_trace_launch *launch = &trace->launches[k];
	uint64_t output = launch->fault_output_ticks, all = launch->fault_all_ticks;

	if (launch->ticks == 0 || launch->ticks > SL_TRACE_TICKS_MAX)
		return sl_fail(-EINVAL,
			       "trace: launch %u lasts %" PRIu64
			       " ticks; it must last 1 to 2^56",
			       k, launch->ticks);
	if (launch->start_ticks < before_ends)
		return sl_fail(-EINVAL,
			       "trace: launch %u starts at tick %" PRIu64
			       ", before the launch before it ends (%" PRIu64
			       "): launches may not overlap",
			       k, launch->start_ticks, before_ends);
	if (launch->start_ticks > SL_TRACE_TICKS_MAX - launch->ticks)
		return sl_fail(-EINVAL, "trace: launch %u ends after 2^56 ticks", k);
	if (output > SL_TRACE_TICKS_MAX || all > SL_TRACE_TICKS_MAX)
		return sl_fail(-EINVAL, "trace: launch %u: a fault time above 2^56 ticks", k);
	if ((output != 0 || all != 0) && (output < launch->ticks || all < output))
		return sl_fail(-EINVAL,
			       "trace: launch %u: times with faults (outputs %" PRIu64
			       ", all %" PRIu64
			       ") must not be below the time without (%" PRIu64
			       ") or fall",
			       k, output, all, launch->ticks);
	return 0;
}

/* last_user: by tensor, the last launch that used it; SL_TRACE_NONE: none so far.
 * period_first: the first launch of the period that k is in. */
static int
launch_uses_check(const struct sl_trace *trace, uint32_t k, uint32_t period_first,
		  uint32_t *last_user)
{
	const struct sl_trace_launch *launch = &trace->launches[k];
	int rc;

	for (uint32_t i = 0; i < launch->n_uses; i++) {
		const struct sl_trace_use *use = &trace->uses[launch->first_use + i];

		if (use->tensor >= trace->n_tensors)
			return sl_fail(-EINVAL,
				       "trace: launch %u uses tensor %u; there are %u "
				       "tensors",
				       k, use->tensor, trace->n_tensors);
		if ((unsigned)use->intent >= SLUICE_USE_COUNT)
			return sl_fail(-EINVAL,
				       "trace: launch %u uses tensor %u with no known "
				       "intent",
				       k, use->tensor);
		if (i > 0 && use[-1].tensor >= use->tensor)
			return sl_fail(
				-EINVAL,
				"trace: launch %u lists tensor %u after tensor %u: "
				"uses must ascend, each tensor once",
				k, use->tensor, use[-1].tensor);
		rc = life_check(trace, use->tensor, k, 0);
		if (rc)
			return rc;
		if (trace->tensors[use->tensor].kind == SL_TENSOR_WORKSPACE &&
		    last_user[use->tensor] != SL_TRACE_NONE &&
		    last_user[use->tensor] >= period_first)
			return sl_fail(
				-EINVAL,
				"trace: workspace %u is used by launch %u and by "
				"launch %u; a workspace belongs to one launch of a "
				"period",
				use->tensor, last_user[use->tensor], k);
		last_user[use->tensor] = k;
	}
	return 0;
}

static int
launches_check(const struct sl_trace *trace, uint32_t *last_user)
{
	uint64_t before_ends = 0;
	uint32_t next_use = 0, period = 0;
	int rc;

	for (uint32_t k = 0; k < trace->n_launches; k++) {
		const struct sl_trace_launch *launch = &trace->launches[k];

		if (k == trace->period_first[period + 1])
			period++;
		rc = launch_times_check(trace, k, before_ends);
		if (rc)
			return rc;
		before_ends = launch->start_ticks + launch->ticks;
		if (launch->name != SL_TRACE_NONE && launch->name >= trace->strings_bytes)
			return sl_fail(-EINVAL,
				       "trace: launch %u has a name out of bounds", k);
		if (launch->first_use != next_use || launch->n_uses > trace->n_uses - next_use)
			return sl_fail(-EINVAL,
				       "trace: the uses of launch %u do not follow those "
				       "of the launch before",
				       k);
		next_use += launch->n_uses;
		rc = launch_uses_check(trace, k, trace->period_first[period], last_user);
		if (rc)
			return rc;
	}
	if (next_use != trace->n_uses)
		return sl_fail(-EINVAL, "trace: %u uses belong to no launch",
			       trace->n_uses - next_use);
	return 0;
}

static int
copies_check(const struct sl_trace *trace, uint32_t *last_user)
{
	uint32_t before = 0;
	int rc;

	for (uint32_t i = 0; i < trace->n_copies; i++) {
		const struct sl_trace_copy *copy = &trace->copies[i];

		if (copy->before_launch < before)
			return sl_fail(-EINVAL,
				       "trace: copy %u is before launch %u, the copy "
				       "before it before launch %u: copies must ascend",
				       i, copy->before_launch, before);
		before = copy->before_launch;
		if (before > trace->n_launches)
			return sl_fail(-EINVAL,
				       "trace: copy %u is before launch %u; there are %u "
				       "launches",
				       i, before, trace->n_launches);
		if (copy->tensor >= trace->n_tensors)
			return sl_fail(-EINVAL,
				       "trace: copy %u is of tensor %u; there are %u "
				       "tensors",
				       i, copy->tensor, trace->n_tensors);
		if (copy->bytes == 0 || copy->bytes > trace->tensors[copy->tensor].size_bytes)
			return sl_fail(-EINVAL,
				       "trace: copy %u is of %" PRIu64
				       " bytes; tensor %u has %" PRIu64,
				       i, copy->bytes, copy->tensor,
				       trace->tensors[copy->tensor].size_bytes);
		rc = life_check(trace, copy->tensor, before, 1);
		if (rc)
			return rc;
		last_user[copy->tensor] = before; /* from here on: whether there is any */
	}
	return 0;
}

/* A free needs something to free. */
static int
frees_check(const struct sl_trace *trace, const uint32_t *last_user)
{
	for (uint32_t t = 0; t < trace->n_tensors; t++)
		if (trace->tensors[t].free_at != SL_TRACE_NONE &&
		    trace->tensors[t].alloc_at == SL_TRACE_NONE &&
		    last_user[t] == SL_TRACE_NONE)
			return sl_fail(-EINVAL,
				       "trace: tensor %u is freed (before launch %u) but "
				       "neither allocated nor used",
				       t, trace->tensors[t].free_at);
	return 0;
}

static int
periods_check(const struct sl_trace *trace)
{
	uint32_t shortest = UINT32_MAX;

	if (trace->n_periods == 0 || trace->period_first[0] != 0 ||
	    trace->period_first[trace->n_periods] != trace->n_launches)
		return sl_fail(-EINVAL, "trace: the periods do not cover the launches");
	for (uint32_t p = 0; p < trace->n_periods; p++) {
		if (trace->period_first[p + 1] <= trace->period_first[p])
			return sl_fail(-EINVAL, "trace: period %u has no launches", p);
		if (sl_trace_period_launches(trace, p) < shortest)
			shortest = sl_trace_period_launches(trace, p);
	}
	if (trace->n_forward != SL_TRACE_NONE && trace->n_forward >= shortest)
		return sl_fail(
			-EINVAL,
			"trace: the forward pass has %u launches; a period has only "
			"%u",
			trace->n_forward, shortest);
	return 0;
}

void
sl_trace_ratio(const struct sl_trace *trace, struct sl_trace_ratio *out)
{
	double encoded = 0;

	*out = (struct sl_trace_ratio){.mean = 1};
	for (uint32_t t = 0; t < trace->n_tensors; t++) {
		const struct sl_tensor *tensor = &trace->tensors[t];

		if (!tensor->ratio)
			continue;
		out->tensors++;
		out->bytes += tensor->size_bytes;
		encoded += (double)tensor->size_bytes * tensor->ratio / SL_TRACE_RATIO_ONE;
	}
	if (out->bytes)
		out->mean = encoded / (double)out->bytes;
}

int
sl_trace_check(const struct sl_trace *trace)
{
	uint32_t *last_user;
	int rc;

	if (trace->clock_hz == 0 || trace->clock_hz > SL_TRACE_CLOCK_MAX)
		return sl_fail(-EINVAL, "trace: a clock of %" PRIu64 " Hz", trace->clock_hz);
	if (trace->n_launches == 0)
		return sl_fail(-EINVAL, "trace: no launches");
	if (trace->strings_bytes > 0 && trace->strings[trace->strings_bytes - 1] != '\0')
		return sl_fail(-EINVAL, "trace: the last name does not end");
	rc = periods_check(trace);
	if (rc)
		return rc;
	rc = tensors_check(trace);
	if (rc)
		return rc;
	last_user = malloc((trace->n_tensors + (size_t)1) * sizeof(*last_user));
	if (!last_user)
		return out_of_memory();
	memset(last_user, 0xff, (trace->n_tensors + (size_t)1) * sizeof(*last_user));
	rc = launches_check(trace, last_user);
	if (!rc)
		rc = copies_check(trace, last_user);
	if (!rc)
		rc = frees_check(trace, last_user);
	free(last_user);
	return rc;
}

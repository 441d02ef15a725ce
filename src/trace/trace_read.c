/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading trace files: which form it is, and the rules that records obey in either form.
 *
 * Nothing is guessed or repaired: a record out of order, stated twice or contradicting an
 * earlier one is refused where it stands, and a file without its closing record is
 * incomplete. What only the whole can show is left to sl_trace_check(). Memory grows with
 * the bytes read, never with a count that the file claims.
 *
 * Threads: no state. Blocks on reading the file.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "trace/trace_file.h"
#include "trace/trace_format.h"

/* ---- the rules ---- */

static int
tensor_known(const struct sl_trace_reader *r, uint64_t tensor, const char *what)
{
	if (tensor < r->trace->n_tensors)
		return 0;
	return sl_fail(-EINVAL,
		       "%s of tensor %" PRIu64 ", which has not been stated (there "
		       "are %u so far)",
		       what, tensor, r->trace->n_tensors);
}

static int
tensor_alive(const struct sl_trace_reader *r, uint64_t tensor, const char *what)
{
	int rc = tensor_known(r, tensor, what);

	if (!rc && r->trace->tensors[tensor].free_at != SL_TRACE_NONE)
		rc = sl_fail(-EINVAL,
			     "%s of tensor %" PRIu64 " after its free (before launch "
			     "%u)",
			     what, tensor, r->trace->tensors[tensor].free_at);
	return rc;
}

static int
clock_take(struct sl_trace_reader *r, const struct sl_trace_values *v)
{
	uint64_t hz = v->fields[0];

	if (r->has_clock)
		return sl_fail(-EINVAL, "a second clock");
	if (hz == 0 || hz > SL_TRACE_CLOCK_MAX)
		return sl_fail(-EINVAL, "a clock of %" PRIu64 " Hz; it must be 1 to %" PRIu64,
			       hz, (uint64_t)SL_TRACE_CLOCK_MAX);
	r->trace->clock_hz = hz;
	r->has_clock = 1;
	return 0;
}

/* The clock is the first record: whoever reads a stream knows what a tick is. */
static int
clock_needed(const struct sl_trace_reader *r)
{
	return r->has_clock ? 0 : sl_fail(-EINVAL, "the first record must be the clock");
}

static int
source_take(struct sl_trace_reader *r, const struct sl_trace_values *v)
{
	int rc = clock_needed(r);

	if (!rc && r->has_source)
		rc = sl_fail(-EINVAL, "a second source");
	r->has_source = 1;
	return rc ? rc : sl_trace_set_source(r->trace, v->text);
}

static int
forward_take(struct sl_trace_reader *r, const struct sl_trace_values *v)
{
	uint64_t launches = v->fields[0];
	int rc = clock_needed(r);

	if (!rc && r->has_forward)
		rc = sl_fail(-EINVAL, "a second number of forward launches");
	if (!rc && launches > SL_TRACE_LAUNCHES_MAX)
		rc = sl_fail(-EINVAL, "%" PRIu64 " forward launches; at most %u are possible",
			     launches, SL_TRACE_LAUNCHES_MAX);
	if (rc)
		return rc;
	r->trace->n_forward = (uint32_t)launches;
	r->has_forward = 1;
	return 0;
}

static int
tensor_take(struct sl_trace_reader *r, const struct sl_trace_values *v)
{
	uint64_t kind = v->fields[1];
	int rc = clock_needed(r);

	if (rc)
		return rc;
	if (kind >= SL_TENSOR_KIND_COUNT)
		return sl_fail(-EINVAL, "a tensor of kind %" PRIu64 ", which is none", kind);
	if (r->trace->n_tensors == r->max_used) {
		uint32_t more = r->max_used ? r->max_used * 2 : 256;
		uint8_t *grown = realloc(r->used, more);

		if (!grown)
			return sl_fail(-ENOMEM, "no memory for more tensors");
		memset(grown + r->max_used, 0, more - r->max_used);
		r->used = grown;
		r->max_used = more;
	}
	return sl_trace_add_tensor(r->trace, v->fields[0], (enum sl_tensor_kind)kind,
				   v->text, NULL);
}

static int
ratio_take(struct sl_trace_reader *r, const struct sl_trace_values *v)
{
	uint64_t tensor = v->fields[0], ratio = v->fields[1];
	int rc = 0;

	if (r->version < SL_TRACE_VERSION_RATIO)
		return sl_fail(-EINVAL,
			       "a ratio in a file of version %u: ratios need version %u",
			       r->version, SL_TRACE_VERSION_RATIO);
	rc = tensor_known(r, tensor, "a ratio");
	if (rc)
		return rc;
	if (r->trace->tensors[tensor].ratio)
		return sl_fail(-EINVAL, "a second ratio of tensor %" PRIu64, tensor);
	if (ratio == 0 || ratio > SL_TRACE_RATIO_ONE)
		return sl_fail(-EINVAL,
			       "a ratio of %" PRIu64 " of tensor %" PRIu64
			       "; it must be 1 to %u ten-thousandths",
			       ratio, tensor, SL_TRACE_RATIO_ONE);
	r->trace->tensors[tensor].ratio = (uint32_t)ratio;
	return 0;
}

static int
alloc_take(struct sl_trace_reader *r, const struct sl_trace_values *v)
{
	uint64_t tensor = v->fields[0];
	int rc = tensor_alive(r, tensor, "an alloc");

	if (rc)
		return rc;
	if (r->trace->tensors[tensor].alloc_at != SL_TRACE_NONE)
		return sl_fail(-EINVAL, "a second alloc of tensor %" PRIu64, tensor);
	if (r->used[tensor])
		return sl_fail(-EINVAL, "an alloc of tensor %" PRIu64 " after its first use",
			       tensor);
	r->trace->tensors[tensor].alloc_at = r->trace->n_launches;
	return 0;
}

static int
free_take(struct sl_trace_reader *r, const struct sl_trace_values *v)
{
	uint64_t tensor = v->fields[0];
	int rc = tensor_known(r, tensor, "a free");

	if (rc)
		return rc;
	if (r->trace->tensors[tensor].free_at != SL_TRACE_NONE)
		return sl_fail(-EINVAL, "a second free of tensor %" PRIu64, tensor);
	/* Neither used nor allocated: the free is before the alloc, or of nothing. */
	if (r->trace->tensors[tensor].alloc_at == SL_TRACE_NONE && !r->used[tensor])
		return sl_fail(-EINVAL,
			       "a free of tensor %" PRIu64 " before its alloc and any "
			       "use",
			       tensor);
	r->trace->tensors[tensor].free_at = r->trace->n_launches;
	return 0;
}

static int
copy_take(struct sl_trace_reader *r, const struct sl_trace_values *v, int to_device)
{
	uint64_t tensor = v->fields[0];
	int rc = tensor_alive(r, tensor, "a copy");

	if (rc)
		return rc;
	r->used[tensor] = 1;
	return sl_trace_add_copy(r->trace, (uint32_t)tensor, to_device, v->fields[1]);
}

static int
copy_in_take(struct sl_trace_reader *r, const struct sl_trace_values *v)
{
	return copy_take(r, v, 1);
}

static int
copy_out_take(struct sl_trace_reader *r, const struct sl_trace_values *v)
{
	return copy_take(r, v, 0);
}

static int
period_take(struct sl_trace_reader *r, const struct sl_trace_values *v)
{
	int rc = clock_needed(r);

	(void)v;
	if (rc)
		return rc;
	if (r->n_periods == 0 && r->trace->n_launches > 0)
		return sl_fail(-EINVAL, "the first period begins after launches");
	if (r->n_periods > 0 &&
	    r->trace->period_first[r->trace->n_periods - 1] == r->trace->n_launches)
		return sl_fail(-EINVAL, "a period without launches");
	r->n_periods++;
	return sl_trace_add_period(r->trace);
}

int
sl_trace_reader_version(struct sl_trace_reader *r, uint64_t version)
{
	if (version == 0 || version > SL_TRACE_VERSION_MAX)
		return sl_fail(-ENOTSUP,
			       "version %" PRIu64 " of the trace format; this program "
			       "reads versions 1 to %u",
			       version, SL_TRACE_VERSION_MAX);
	r->version = (uint32_t)version;
	return 0;
}

uint64_t
sl_trace_reader_now(const struct sl_trace_reader *r)
{
	const struct sl_trace_launch *last;

	if (r->trace->n_launches == 0)
		return 0;
	last = &r->trace->launches[r->trace->n_launches - 1];
	return last->start_ticks + last->ticks;
}

static int
launch_take(struct sl_trace_reader *r, const struct sl_trace_values *v)
{
	uint64_t ticks = v->fields[1], fault_output_ticks = v->fields[2],
		 fault_all_ticks = v->fields[3];
	struct sl_trace_launch *launch;
	int rc;

	if (r->n_periods == 0)
		return sl_fail(-EINVAL, "a launch before the first period");
	if ((fault_output_ticks || fault_all_ticks) &&
	    (fault_output_ticks < ticks || fault_all_ticks < fault_output_ticks ||
	     fault_all_ticks > SL_TRACE_TICKS_MAX))
		return sl_fail(-EINVAL,
			       "a launch of %" PRIu64 " ticks with fault times %" PRIu64
			       " and %" PRIu64
			       ": they must not fall, and be at most 2^56",
			       ticks, fault_output_ticks, fault_all_ticks);
	rc = sl_trace_add_launch_at(r->trace, v->fields[0], ticks, v->text, NULL);
	if (rc)
		return rc;
	launch = &r->trace->launches[r->trace->n_launches - 1];
	launch->fault_output_ticks = fault_output_ticks;
	launch->fault_all_ticks = fault_all_ticks;
	return 0;
}

static int
use_take(struct sl_trace_reader *r, const struct sl_trace_values *v)
{
	uint64_t tensor = v->fields[0], intent = v->fields[1];
	const struct sl_trace *trace = r->trace;
	const struct sl_trace_launch *launch;
	int rc = tensor_alive(r, tensor, "a use");

	if (rc)
		return rc;
	if (intent >= SLUICE_USE_COUNT)
		return sl_fail(-EINVAL, "a use with intent %" PRIu64 ", which is none",
			       intent);
	if (trace->n_launches == 0)
		return sl_fail(-EINVAL, "a use before the first launch");
	launch = &trace->launches[trace->n_launches - 1];
	if (launch->n_uses > 0 &&
	    trace->uses[launch->first_use + launch->n_uses - 1].tensor >= tensor)
		return sl_fail(-EINVAL,
			       "a use of tensor %" PRIu64 " after one of tensor %u: "
			       "uses must ascend, each tensor once",
			       tensor,
			       trace->uses[launch->first_use + launch->n_uses - 1].tensor);
	r->used[tensor] = 1;
	return sl_trace_add_use(r->trace, (uint32_t)tensor, (enum sluice_intent)intent);
}

static int
end_take(struct sl_trace_reader *r, const struct sl_trace_values *v)
{
	const struct sl_trace *trace = r->trace;

	if (v->fields[0] != trace->n_launches || v->fields[1] != trace->n_tensors ||
	    v->fields[2] != trace->n_uses)
		return sl_fail(-EINVAL,
			       "the end states %" PRIu64 " launches, %" PRIu64
			       " tensors and %" PRIu64
			       " uses; %u, %u and %u came before it",
			       v->fields[0], v->fields[1], v->fields[2],
			       trace->n_launches, trace->n_tensors, trace->n_uses);
	r->ended = 1;
	return 0;
}

/* ---- the table ---- */

static const char *
kind_word(unsigned kind)
{
	return sl_tensor_kind_name((enum sl_tensor_kind)kind);
}

static const char *
intent_word(unsigned intent)
{
	return sl_trace_intent_name((enum sluice_intent)intent);
}

static uint32_t
tensor_next(const struct sl_trace_reader *r)
{
	return r->trace->n_tensors;
}

static uint32_t
period_next(const struct sl_trace_reader *r)
{
	return r->n_periods;
}

static uint32_t
launch_next(const struct sl_trace_reader *r)
{
	return r->trace->n_launches;
}

#define NUMBER(is)           \
	{                    \
		.what = (is) \
	}

const struct sl_trace_record sl_trace_records[SL_RECORD_COUNT] = {
	[SL_TAG_END] = {"end",
			.fields = {NUMBER("the number of launches"),
				   NUMBER("the number of tensors"),
				   NUMBER("the number of uses")},
			.take = end_take},
	[SL_TAG_CLOCK] = {"clock", .fields = {NUMBER("the clock's rate")}, .take = clock_take},
	[SL_TAG_SOURCE] = {"source", .has_source = 1, .take = source_take},
	[SL_TAG_FORWARD] = {"forward", .fields = {NUMBER("the number of forward launches")},
			    .take = forward_take},
	[SL_TAG_TENSOR] = {"tensor", .numbered = "the tensor's number", .next = tensor_next,
			   .fields = {NUMBER("the tensor's size"),
				      {"the kind", kind_word, SL_TENSOR_KIND_COUNT,
				       "kind of tensor; there are global, local and "
				       "workspace"}},
			   .has_name = 1, .take = tensor_take},
	[SL_TAG_RATIO] = {"ratio", .fields = {NUMBER("the tensor"), NUMBER("the ratio")},
			  .take = ratio_take},
	[SL_TAG_ALLOC] = {"alloc", .fields = {NUMBER("the tensor")}, .take = alloc_take},
	[SL_TAG_FREE] = {"free", .fields = {NUMBER("the tensor")}, .take = free_take},
	[SL_TAG_COPY_IN] = {"copy-in",
			    .fields = {NUMBER("the tensor"),
				       NUMBER("the number of bytes")},
			    .take = copy_in_take},
	[SL_TAG_COPY_OUT] = {"copy-out",
			     .fields = {NUMBER("the tensor"),
					NUMBER("the number of bytes")},
			     .take = copy_out_take},
	[SL_TAG_PERIOD] = {"period", .numbered = "the period's number",
			   .next = period_next, .take = period_take},
	[SL_TAG_LAUNCH] = {"launch", .numbered = "the launch's number", .next = launch_next,
			   .fields = {NUMBER("the start"), NUMBER("the duration"),
				      NUMBER("the duration with outputs faulting"),
				      NUMBER("the duration with all faulting")},
			   .has_name = 1, .take = launch_take},
	[SL_RECORD_USE] = {"use",
			   .fields = {NUMBER("the tensor"),
				      {"the intent", intent_word, SLUICE_USE_COUNT,
				       "intent; there are read, write, read-write, "
				       "write-all and scratch"}},
			   .take = use_take},
};

/* ---- files ---- */

int
sl_trace_decode(const void *data, size_t bytes, const char *label, struct sl_trace **out)
{
	struct sl_trace_reader r = {0};
	int rc;

	rc = sl_trace_create(1, &r.trace); /* until the clock record comes */
	if (rc)
		return rc;
	if (bytes >= SL_TRACE_MAGIC_BYTES &&
	    memcmp(data, SL_TRACE_MAGIC, SL_TRACE_MAGIC_BYTES) == 0)
		rc = sl_trace_read_binary(&r, data, bytes, label);
	else if (bytes >= strlen(SL_TRACE_WORD) &&
		 memcmp(data, SL_TRACE_WORD, strlen(SL_TRACE_WORD)) == 0)
		rc = sl_trace_read_text(&r, data, bytes, label);
	else
		rc = sl_fail(-EINVAL,
			     "%s: not a trace: it begins with neither \"%s\" nor the "
			     "bytes of the binary form",
			     label, SL_TRACE_WORD);
	if (!rc) {
		rc = sl_trace_check(r.trace);
		if (rc)
			sl_ignore(sl_fail_in(rc, "%s", label)); /* rc is kept */
	}
	free(r.used);
	if (rc) {
		sl_trace_destroy(r.trace);
		return rc;
	}
	*out = r.trace;
	return 0;
}

int
sl_trace_read(const char *path, struct sl_trace **out)
{
	SL_CLEANUP(free) char *data = NULL;
	size_t bytes;
	int rc = sl_trace_file_load(path, SL_TRACE_FILE_MAX, &data, &bytes);

	if (rc)
		return rc;
	return sl_trace_decode(data, bytes, strcmp(path, "-") ? path : "standard input", out);
}

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

int
sl_trace_reader_clock(struct sl_trace_reader *r, uint64_t hz)
{
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

int
sl_trace_reader_source(struct sl_trace_reader *r, const char *source)
{
	int rc = clock_needed(r);

	if (!rc && r->has_source)
		rc = sl_fail(-EINVAL, "a second source");
	r->has_source = 1;
	return rc ? rc : sl_trace_set_source(r->trace, source);
}

int
sl_trace_reader_forward(struct sl_trace_reader *r, uint64_t launches)
{
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

int
sl_trace_reader_tensor(struct sl_trace_reader *r, uint64_t size_bytes, uint64_t kind,
		       const char *name)
{
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
	return sl_trace_add_tensor(r->trace, size_bytes, (enum sl_tensor_kind)kind, name,
				   NULL);
}

int
sl_trace_reader_alloc(struct sl_trace_reader *r, uint64_t tensor)
{
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

int
sl_trace_reader_free(struct sl_trace_reader *r, uint64_t tensor)
{
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

int
sl_trace_reader_copy(struct sl_trace_reader *r, uint64_t tensor, int to_device, uint64_t bytes)
{
	int rc = tensor_alive(r, tensor, "a copy");

	if (rc)
		return rc;
	r->used[tensor] = 1;
	return sl_trace_add_copy(r->trace, (uint32_t)tensor, to_device, bytes);
}

int
sl_trace_reader_period(struct sl_trace_reader *r)
{
	int rc = clock_needed(r);

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

uint64_t
sl_trace_reader_now(const struct sl_trace_reader *r)
{
	const struct sl_trace_launch *last;

	if (r->trace->n_launches == 0)
		return 0;
	last = &r->trace->launches[r->trace->n_launches - 1];
	return last->start_ticks + last->ticks;
}

int
sl_trace_reader_launch(struct sl_trace_reader *r, uint64_t start_ticks, uint64_t ticks,
		       uint64_t fault_output_ticks, uint64_t fault_all_ticks,
		       const char *name)
{
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
	rc = sl_trace_add_launch_at(r->trace, start_ticks, ticks, name, NULL);
	if (rc)
		return rc;
	launch = &r->trace->launches[r->trace->n_launches - 1];
	launch->fault_output_ticks = fault_output_ticks;
	launch->fault_all_ticks = fault_all_ticks;
	return 0;
}

int
sl_trace_reader_use(struct sl_trace_reader *r, uint64_t tensor, uint64_t intent)
{
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

int
sl_trace_reader_end(struct sl_trace_reader *r, const struct sl_trace_totals *totals)
{
	const struct sl_trace *trace = r->trace;

	if (totals->launches != trace->n_launches ||
	    totals->tensors != trace->n_tensors || totals->uses != trace->n_uses)
		return sl_fail(-EINVAL,
			       "the end states %" PRIu64 " launches, %" PRIu64
			       " tensors and %" PRIu64
			       " uses; %u, %u and %u came before it",
			       totals->launches, totals->tensors, totals->uses,
			       trace->n_launches, trace->n_tensors, trace->n_uses);
	r->ended = 1;
	return 0;
}

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

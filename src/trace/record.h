/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording a trace while a program runs. The caller reports tensors, launches, copies and
 * frees. The recorder keeps them and makes a trace at the end.
 *
 *	rc = sl_record_begin(1 << 20, "program name", &record);
 *	...
 *	sl_record_tensor(record, region->serial, region->size_bytes, path, now_ns);
 *	sl_record_launch(record, begin_ns, end_ns, name, uses, n_uses);  when it is done
 *	sl_record_free(record, region->serial, now_ns);
 *	...
 *	rc = sl_record_end(record, &trace, &dropped);
 *
 * A tensor is anything with a serial number of the caller's (a region, a part of one). A number
 * has one meaning in a recording. Times are nanoseconds of one clock. Records may come in any
 * order (launches of several streams end out of order); the trace is in the order of their
 * times. Concurrent launches are laid one behind the other: a launch keeps its duration, and
 * starts no sooner than the one before it ended.
 *
 * Periods are searched for at the end (sl_trace_find_periods()). Kinds of tensors
 * follow from the uses (sl_trace_find_kinds()). A tensor is global if some period reads its
 * contents before writing them. It is a workspace if a single launch of a period uses it as
 * scratch. Every other one is local. "Local" is an observation, not a promise: a plan that drops
 * contents must not rely on it alone.
 *
 * Threads: any, at once. A mutex inside is held only for an append. No call but begin and end
 * blocks on anything else. Calls with record NULL do nothing, so that a hook needs no test of
 * its own.
 */
#ifndef SL_TRACE_RECORD_H
#define SL_TRACE_RECORD_H

#include "trace/trace.h"

struct sl_record;

/* The part of a tensor that a launch uses. */
struct sl_record_use {
	uint64_t tensor;                   /* serial number */
	uint64_t offset_bytes, size_bytes; /* size 0: all of it */
	enum sluice_intent intent;
	int open; /* of a pool, from offset on: its size is not known (sl_record_end()) */
};

/* Start one; at most max_launches launches are kept, the rest only counted. source:
 * one line for people, or NULL. -EINVAL (a bound of 0 or above SL_TRACE_LAUNCHES_MAX),
 * -ENOMEM. */
int sl_record_begin(uint32_t max_launches, const char *source,
		    struct sl_record **out) SL_MUST_CHECK;

/* A tensor exists from at_ns on. name: copied, cut to SL_TRACE_NAME_MAX bytes, may be
 * NULL. */
void sl_record_tensor(struct sl_record *record, uint64_t tensor, uint64_t size_bytes,
		      const char *name, uint64_t at_ns);

/* A launch ran from begin_ns to end_ns. Uses of tensors not told of are left out and
 * counted as dropped; uses of a part as write-all or scratch are kept as what they are
 * for the whole: write. Returns its number, for sl_record_time(); SL_TRACE_NONE: dropped. */
uint32_t sl_record_launch(struct sl_record *record, uint64_t begin_ns, uint64_t end_ns,
			  const char *name, const struct sl_record_use *uses, size_t n_uses);

/* How long it ran, for who learns that later than that it began. */
void sl_record_time(struct sl_record *record, uint32_t launch, uint64_t ns);

/* The program itself copied between host and tensor, from offset_bytes on. */
void sl_record_copy(struct sl_record *record, uint64_t tensor, int to_device,
		    uint64_t offset_bytes, uint64_t bytes, uint64_t at_ns);

/* Contents of the tensor were seen: the raw_bytes from offset_bytes on are encoded_bytes when
 * encoded (src/codec). Its ratio is that of all that was seen of it, in the trace at most 1;
 * without any it has none. */
void sl_record_sample(struct sl_record *record, uint64_t tensor, uint64_t offset_bytes,
		      uint64_t raw_bytes, uint64_t encoded_bytes);

/* The tensor is gone from at_ns on, or from its last use on if that was later. */
void sl_record_free(struct sl_record *record, uint64_t tensor, uint64_t at_ns);

/* Make the trace and release the record, on failure too. dropped: how many records the
 * trace leaves out, for want of room or of their tensor; may be NULL. -EINVAL: no
 * launch was recorded; -ENOMEM. No other call may be under way.
 *
 * A tensor with open uses is a pool. Its parts become tensors, from one place to the next. Places are
 * where open uses of two launches begin, and where large copies and other uses begin and end. */
int sl_record_end(struct sl_record *record, struct sl_trace **out,
		  uint64_t *dropped) SL_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What a recording holds, for record.c and record_parts.c. */
#ifndef SL_TRACE_RECORD_INTERNAL_H
#define SL_TRACE_RECORD_INTERNAL_H

#include "base/lock.h"
#include "trace/record.h"

struct tensor_event {
	uint64_t serial, size_bytes, at_ns, free_ns; /* UINT64_MAX: not freed */
	uint32_t name;                               /* offset in names; SL_TRACE_NONE */
};

struct launch_event {
	uint64_t begin_ns, end_ns, order;
	size_t first_use;
	uint32_t n_uses, name;
};

struct use_event {
	uint64_t serial, offset_bytes, size_bytes;
	enum sluice_intent intent;
	int open;
};

struct mark_event { /* a copy or a free */
	enum { MARK_COPY_IN, MARK_COPY_OUT, MARK_FREE } what;
	uint64_t serial, offset_bytes, bytes, at_ns, order;
};

struct sample_event {
	uint64_t serial, offset_bytes, raw_bytes, encoded_bytes;
};

/* An array that grows. */
struct list {
	void *data;
	size_t n, max;
};

struct sl_record {
	struct sl_mutex mutex;
	uint32_t max_launches;
	char *source;
	/* under mutex, all below */
	struct list tensors, launches, uses, marks, samples, names;
	uint32_t *name_at; /* offsets + 1 by hash, room for NAMES_MAX; made with the first */
	uint32_t n_names;
	uint64_t dropped, order;
};

/* Room for more entries; NULL without memory. Entries are counted by the caller. */
void *sl_record_room(struct list *list, size_t more, size_t entry_bytes);

/* When all is recorded, and launches and marks are in order: tensors with open uses become their parts, in all
 * lists. 0 or -ENOMEM. */
int sl_record_cut(struct sl_record *record) SL_MUST_CHECK;

#endif

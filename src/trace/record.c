/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder: events appended under a mutex while the program runs, put in order and
 * made a trace at the end.
 *
 * Nothing is decided while recording but whether there is room. At the end: launches by
 * start time, other events by their time against those, pools cut into parts (record_parts.c),
 * tensors numbered in the order of their serial numbers. Memory that cannot be had costs records, which are counted, and
 * never the program.
 *
 * Threads: any; see record.h.
 */
#include "trace/record_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_HZ  1000000000u
#define NAMES_MAX 65536u /* different ones; a power of two */

void *
sl_record_room(struct list *list, size_t more, size_t entry_bytes)
{
	if (list->n + more > list->max) {
		size_t max = list->max ? list->max * 2 : 256;
		void *grown;

		if (max < list->n + more)
			max = list->n + more;
		grown = reallocarray(list->data, max, entry_bytes);
		if (!grown)
			return NULL;
		list->data = grown;
		list->max = max;
	}
	return (char *)list->data + list->n * entry_bytes;
}

/* ---- while the program runs ---- */

int
sl_record_begin(uint32_t max_launches, const char *source, struct sl_record **out)
{
	struct sl_record *record;

	if (max_launches == 0 || max_launches > SL_TRACE_LAUNCHES_MAX)
		return sl_fail(-EINVAL, "record: a bound of %u launches; it must be 1 to %u",
			       max_launches, SL_TRACE_LAUNCHES_MAX);
	record = calloc(1, sizeof(*record));
	if (record)
		record->source = strdup(source ? source : "");
	if (!record || !record->source) {
		free(record);
		return sl_fail(-ENOMEM, "record: no memory");
	}
	sl_mutex_init(&record->mutex, SL_RANK_BASE);
	record->max_launches = max_launches;
	*out = record;
	return 0;
}

static void
record_destroy(struct sl_record *record)
{
	sl_mutex_fini(&record->mutex);
	free(record->source);
	free(record->tensors.data);
	free(record->launches.data);
	free(record->uses.data);
	free(record->marks.data);
	free(record->samples.data);
	free(record->names.data);
	free(record->name_at);
	free(record);
}

/* A name as a trace can hold it: cut, without control characters or blanks around it. Its
 * length; 0: there is none. */
static size_t
name_clean(const char *name, char to[SL_TRACE_NAME_MAX + 1])
{
	size_t length;

	if (!name)
		return 0;
	name += strspn(name, " ");
	length = strnlen(name, SL_TRACE_NAME_MAX);
	while (length > 0 && name[length - 1] == ' ')
		length--;
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)name[i];

		to[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
	to[length] = '\0';
	return length;
}

/* Where the name stands in the table, or the free place for it. LOCKING: needs the mutex. */
static uint32_t *
name_slot_locked(const struct sl_record *record, const char *name)
{
	const char *names = record->names.data;
	uint64_t hash = 0xcbf29ce484222325u;
	uint32_t slot;

	for (const char *c = name; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
	slot = (uint32_t)(hash ^ hash >> 32) % NAMES_MAX;
	while (record->name_at[slot] && strcmp(names + record->name_at[slot] - 1, name) != 0)
		slot = (slot + 1) % NAMES_MAX;
	return &record->name_at[slot];
}

/* Its offset; programs launch the same few functions again and again, so each name is kept
 * once. SL_TRACE_NONE where there is none, or no room for it. LOCKING: needs the mutex. */
static uint32_t
name_keep_locked(struct sl_record *record, const char *name)
{
	char clean[SL_TRACE_NAME_MAX + 1];
	size_t length = name_clean(name, clean);
	uint32_t *slot;
	char *to;

	if (length == 0)
		return SL_TRACE_NONE;
	if (!record->name_at)
		record->name_at = calloc(NAMES_MAX, sizeof(*record->name_at));
	if (!record->name_at)
		return SL_TRACE_NONE;
	slot = name_slot_locked(record, clean);
	if (*slot)
		return *slot - 1;
	if (record->n_names >= NAMES_MAX / 2)
		return SL_TRACE_NONE;
	to = sl_record_room(&record->names, length + 1, 1);
	if (!to)
		return SL_TRACE_NONE;
	memcpy(to, clean, length + 1);
	*slot = (uint32_t)record->names.n + 1;
	record->names.n += length + 1;
	record->n_names++;
	return *slot - 1;
}

void
sl_record_tensor(struct sl_record *record, uint64_t tensor, uint64_t size_bytes,
		 const char *name, uint64_t at_ns)
{
	struct tensor_event *event;

	if (!record)
		return;
	sl_mutex_lock(&record->mutex);
	event = sl_record_room(&record->tensors, 1, sizeof(*event));
	if (!event || size_bytes == 0 || size_bytes > SL_TRACE_SIZE_MAX ||
	    record->tensors.n >= SL_TRACE_TENSORS_MAX) {
		record->dropped++;
	} else {
		*event = (struct tensor_event){
			.serial = tensor,
			.size_bytes = size_bytes,
			.at_ns = at_ns,
			.free_ns = UINT64_MAX,
			.name = name_keep_locked(record, name),
		};
		record->tensors.n++;
	}
	sl_mutex_unlock(&record->mutex);
}

uint32_t
sl_record_launch(struct sl_record *record, uint64_t begin_ns, uint64_t end_ns,
		 const char *name, const struct sl_record_use *uses, size_t n_uses)
{
	struct launch_event *event = NULL;
	struct use_event *to = NULL;
	uint32_t number;

	if (!record)
		return SL_TRACE_NONE;
	sl_mutex_lock(&record->mutex);
	if (record->launches.n < record->max_launches &&
	    n_uses <= SL_TRACE_USES_MAX - record->uses.n) {
		event = sl_record_room(&record->launches, 1, sizeof(*event));
		to = sl_record_room(&record->uses, n_uses, sizeof(*to));
	}
	if (!event || (!to && n_uses > 0)) {
		record->dropped++;
		sl_mutex_unlock(&record->mutex);
		return SL_TRACE_NONE;
	}
	*event = (struct launch_event){
		.begin_ns = begin_ns,
		.end_ns = end_ns,
		.order = record->order++,
		.first_use = record->uses.n,
		.n_uses = (uint32_t)n_uses,
		.name = name_keep_locked(record, name),
	};
	for (size_t i = 0; i < n_uses; i++)
		to[i] = (struct use_event){
			.serial = uses[i].tensor,
			.offset_bytes = uses[i].offset_bytes,
			.size_bytes = uses[i].size_bytes,
			.intent = uses[i].intent,
			.open = uses[i].open,
		};
	record->uses.n += n_uses;
	number = (uint32_t)record->launches.n++;
	sl_mutex_unlock(&record->mutex);
	return number;
}

void
sl_record_time(struct sl_record *record, uint32_t launch, uint64_t ns)
{
	struct launch_event *launches;

	if (!record)
		return;
	sl_mutex_lock(&record->mutex);
	launches = record->launches.data;
	if (launch < record->launches.n)
		launches[launch].end_ns = launches[launch].begin_ns + ns;
	sl_mutex_unlock(&record->mutex);
}

static void
mark_keep(struct sl_record *record, struct mark_event mark)
{
	struct mark_event *event;

	if (!record)
		return;
	sl_mutex_lock(&record->mutex);
	event = record->marks.n < SL_TRACE_USES_MAX
			? sl_record_room(&record->marks, 1, sizeof(*event))
			: NULL;
	if (event) {
		mark.order = record->order++;
		*event = mark;
		record->marks.n++;
	} else {
		record->dropped++;
	}
	sl_mutex_unlock(&record->mutex);
}

void
sl_record_copy(struct sl_record *record, uint64_t tensor, int to_device,
	       uint64_t offset_bytes, uint64_t bytes, uint64_t at_ns)
{
	mark_keep(record, (struct mark_event){
				  .what = to_device ? MARK_COPY_IN : MARK_COPY_OUT,
				  .serial = tensor,
				  .offset_bytes = offset_bytes,
				  .bytes = bytes,
				  .at_ns = at_ns,
			  });
}

void
sl_record_sample(struct sl_record *record, uint64_t tensor, uint64_t offset_bytes,
		 uint64_t raw_bytes, uint64_t encoded_bytes)
{
	struct sample_event *event = NULL;

	if (!record)
		return;
	sl_mutex_lock(&record->mutex);
	if (record->samples.n < SL_TRACE_USES_MAX && raw_bytes > 0)
		event = sl_record_room(&record->samples, 1, sizeof(*event));
	if (event) {
		*event = (struct sample_event){tensor, offset_bytes, raw_bytes,
					       encoded_bytes};
		record->samples.n++;
	} else {
		record->dropped++;
	}
	sl_mutex_unlock(&record->mutex);
}

void
sl_record_free(struct sl_record *record, uint64_t tensor, uint64_t at_ns)
{
	mark_keep(record,
		  (struct mark_event){.what = MARK_FREE, .serial = tensor, .at_ns = at_ns});
}

/* ---- putting it in order ---- */

static int
tensor_compare(const void *a, const void *b)
{
	const struct tensor_event *x = a, *y = b;

	return (x->serial > y->serial) - (x->serial < y->serial);
}

static int
launch_compare(const void *a, const void *b)
{
	const struct launch_event *x = a, *y = b;

	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

static int
mark_compare(const void *a, const void *b)
{
	const struct mark_event *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

/* A trace in the making. */
struct maker {
	struct sl_record *record;
	struct sl_trace *trace;
	uint64_t base_ns;   /* tick 0 */
	struct life *lives; /* by tensor number, which is the order of serials */
};

/* The launches between which a tensor is used: the first one, and the one behind the
 * last. Counted as they stand in the trace; end 0 and first 0: not used. */
struct life {
	uint32_t first, end;
	int is_used;
};

/* The tensor's number by its serial; SL_TRACE_NONE. */
static uint32_t
tensor_find(const struct maker *m, uint64_t serial)
{
	const struct tensor_event *tensors = m->record->tensors.data;
	size_t low = 0, high = m->trace->n_tensors;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (tensors[middle].serial < serial)
			low = middle + 1;
		else
			high = middle;
	}
	return low < m->trace->n_tensors && tensors[low].serial == serial ? (uint32_t)low
									  : SL_TRACE_NONE;
}

/* Sorted by serial, each once: of doubles the first told stays. */
static int
tensors_make(struct maker *m)
{
	struct tensor_event *tensors = m->record->tensors.data;
	const char *names = m->record->names.data;
	size_t n = 0;
	int rc = 0;

	if (m->record->tensors.n > 0)
		qsort(tensors, m->record->tensors.n, sizeof(*tensors), tensor_compare);
	for (size_t i = 0; !rc && i < m->record->tensors.n; i++) {
		if (n > 0 && tensors[n - 1].serial == tensors[i].serial) {
			m->record->dropped++;
			continue;
		}
		tensors[n] = tensors[i];
		rc = sl_trace_add_tensor(m->trace, tensors[n].size_bytes, SL_TENSOR_LOCAL,
					 tensors[n].name == SL_TRACE_NONE
						 ? NULL
						 : names + tensors[n].name,
					 NULL);
		n++;
	}
	m->lives = calloc(n + 1, sizeof(*m->lives));
	if (!rc && !m->lives)
		rc = sl_fail(-ENOMEM, "record: no memory for %zu tensors", n);
	return rc;
}

/* A use by launch `first`, over before launch `end`; a copy has both the same. */
static void
life_note(struct maker *m, uint32_t t, uint32_t first, uint32_t end)
{
	struct life *life = &m->lives[t];

	if (!life->is_used)
		life->first = first;
	life->is_used = 1;
	life->end = end;
}

static enum sluice_intent
use_intent(const struct maker *m, const struct use_event *use, uint32_t t)
{
	int is_whole = use->size_bytes == 0 ||
		       (use->offset_bytes == 0 &&
			use->size_bytes >= m->trace->tensors[t].size_bytes);

	if (!is_whole &&
	    (use->intent == SLUICE_USE_WRITE_ALL || use->intent == SLUICE_USE_SCRATCH))
		return SLUICE_USE_WRITE;
	return use->intent;
}

static int
use_compare(const void *a, const void *b)
{
	const struct sl_trace_use *x = a, *y = b;

	if (x->tensor != y->tensor)
		return x->tensor < y->tensor ? -1 : 1;
	return (x->intent > y->intent) - (x->intent < y->intent);
}

/* The uses of one launch, by tensor; where scratch meets another intent, scratch yields:
 * only a part was scratch then. */
static int
uses_make(struct maker *m, const struct launch_event *launch)
{
	const struct use_event *uses = m->record->uses.data;
	struct sl_trace_use *sorted;
	size_t n = 0;
	int rc = 0;

	if (launch->n_uses == 0)
		return 0;
	sorted = malloc(launch->n_uses * sizeof(*sorted));
	if (!sorted)
		return sl_fail(-ENOMEM, "record: no memory for %u uses", launch->n_uses);
	for (uint32_t i = 0; i < launch->n_uses; i++) {
		const struct use_event *use = &uses[launch->first_use + i];
		uint32_t t = tensor_find(m, use->serial);

		if (t == SL_TRACE_NONE || (unsigned)use->intent >= SLUICE_USE_COUNT) {
			m->record->dropped++;
			continue;
		}
		sorted[n].tensor = t;
		sorted[n++].intent = use_intent(m, use, t);
	}
	if (n > 0)
		qsort(sorted, n, sizeof(*sorted), use_compare);
	for (size_t i = 0; !rc && i < n; i++) {
		/* Scratch sorts last: it yields to what the tensor has already. */
		if (i > 0 && sorted[i].intent == SLUICE_USE_SCRATCH &&
		    sorted[i - 1].tensor == sorted[i].tensor)
			continue;
		rc = sl_trace_add_use(m->trace, sorted[i].tensor, sorted[i].intent);
	}
	free(sorted);
	return rc;
}

static int
launch_make(struct maker *m, const struct launch_event *launch)
{
	const char *names = m->record->names.data;
	uint64_t start = launch->begin_ns - m->base_ns, ticks = 1;
	uint32_t k = m->trace->n_launches;
	const struct sl_trace_launch *made;
	int rc;

	if (launch->end_ns > launch->begin_ns)
		ticks = launch->end_ns - launch->begin_ns;
	if (k > 0) {
		made = &m->trace->launches[k - 1];
		if (start < made->start_ticks + made->ticks)
			start = made->start_ticks + made->ticks;
	}
	rc = sl_trace_add_launch_at(m->trace, start, ticks,
				    launch->name == SL_TRACE_NONE ? NULL
								  : names + launch->name,
				    NULL);
	if (!rc)
		rc = uses_make(m, launch);
	if (rc)
		return rc;
	made = &m->trace->launches[k];
	for (uint32_t i = 0; i < made->n_uses; i++)
		life_note(m, m->trace->uses[made->first_use + i].tensor, k, k + 1);
	return 0;
}

static int
mark_make(struct maker *m, const struct mark_event *mark)
{
	uint64_t bytes = mark->bytes;
	uint32_t t;

	t = tensor_find(m, mark->serial);
	if (t == SL_TRACE_NONE || (mark->what != MARK_FREE && bytes == 0)) {
		m->record->dropped++;
		return 0;
	}
	if (mark->what == MARK_FREE) {
		struct tensor_event *tensors = m->record->tensors.data;

		if (tensors[t].free_ns == UINT64_MAX) {
			tensors[t].free_ns = mark->at_ns;
			m->trace->tensors[t].free_at = m->trace->n_launches;
		}
		return 0;
	}
	if (bytes > m->trace->tensors[t].size_bytes)
		bytes = m->trace->tensors[t].size_bytes;
	life_note(m, t, m->trace->n_launches, m->trace->n_launches);
	return sl_trace_add_copy(m->trace, t, mark->what == MARK_COPY_IN, bytes);
}

/* Launches that began before at_ns. */
static uint32_t
launches_before(const struct maker *m, uint64_t at_ns)
{
	const struct launch_event *launches = m->record->launches.data;
	size_t low = 0, high = m->record->launches.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (launches[middle].begin_ns < at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return (uint32_t)low;
}

/* Lives, when all uses are known. What was told late (an allocation behind the first
 * use, a free before the last) is moved to where it cannot be wrong. */
static void
lives_finish(struct maker *m)
{
	const struct tensor_event *tensors = m->record->tensors.data;

	for (uint32_t t = 0; t < m->trace->n_tensors; t++) {
		struct sl_tensor *tensor = &m->trace->tensors[t];
		const struct life *life = &m->lives[t];

		tensor->alloc_at = launches_before(m, tensors[t].at_ns);
		if (life->is_used && tensor->alloc_at > life->first)
			tensor->alloc_at = life->first;
		if (tensor->free_at != SL_TRACE_NONE && tensor->free_at < life->end)
			tensor->free_at = life->end;
		if (tensor->free_at != SL_TRACE_NONE && tensor->free_at < tensor->alloc_at)
			tensor->free_at = tensor->alloc_at;
	}
}

/* Launches and marks together, by time; a mark at a launch's begin is before it. */
static int
events_make(struct maker *m)
{
	const struct launch_event *launches = m->record->launches.data;
	const struct mark_event *marks = m->record->marks.data;
	size_t n_launches = m->record->launches.n, n_marks = m->record->marks.n;
	size_t k = 0, i = 0;
	int rc = 0;

	while (!rc && (k < n_launches || i < n_marks)) {
		if (i < n_marks && (k == n_launches || marks[i].at_ns <= launches[k].begin_ns))
			rc = mark_make(m, &marks[i++]);
		else
			rc = launch_make(m, &launches[k++]);
	}
	return rc;
}

/* Ratios of what was seen of each tensor, by all its samples. */
static int
ratios_make(struct maker *m)
{
	struct seen {
		uint64_t raw, encoded;
	} *seen = calloc((size_t)m->trace->n_tensors + 1, sizeof(*seen));
	const struct sample_event *samples = m->record->samples.data;

	if (!seen)
		return sl_fail(-ENOMEM, "record: no memory for the ratios of %u tensors",
			       m->trace->n_tensors);
	for (size_t i = 0; i < m->record->samples.n; i++) {
		uint32_t t = tensor_find(m, samples[i].serial);

		if (t == SL_TRACE_NONE) {
			m->record->dropped++;
			continue;
		}
		seen[t].raw += samples[i].raw_bytes;
		seen[t].encoded += samples[i].encoded_bytes;
	}
	for (uint32_t t = 0; t < m->trace->n_tensors; t++) {
		double ratio;

		if (!seen[t].raw)
			continue;
		ratio = (double)seen[t].encoded / (double)seen[t].raw * SL_TRACE_RATIO_ONE +
			0.5;
		m->trace->tensors[t].ratio = ratio < 1 ? 1
					     : ratio < SL_TRACE_RATIO_ONE
						     ? (uint32_t)ratio
						     : SL_TRACE_RATIO_ONE;
	}
	free(seen);
	return 0;
}

int
sl_record_end(struct sl_record *record, struct sl_trace **out, uint64_t *dropped)
{
	struct maker m = {.record = record};
	int rc;

	if (record->launches.n == 0) {
		record_destroy(record);
		return sl_fail(-EINVAL, "record: no launch was recorded");
	}
	qsort(record->launches.data, record->launches.n, sizeof(struct launch_event),
	      launch_compare);
	if (record->marks.n > 0)
		qsort(record->marks.data, record->marks.n, sizeof(struct mark_event),
		      mark_compare);
	m.base_ns = ((struct launch_event *)record->launches.data)[0].begin_ns;
	rc = sl_record_cut(record);
	if (!rc)
		rc = sl_trace_create(CLOCK_HZ, &m.trace);
	if (!rc && record->source[0])
		rc = sl_trace_set_source(m.trace, record->source);
	if (!rc)
		rc = tensors_make(&m);
	if (!rc)
		rc = events_make(&m);
	if (!rc)
		lives_finish(&m);
	if (!rc)
		rc = ratios_make(&m);
	if (!rc)
		rc = sl_trace_find_periods(m.trace);
	if (!rc)
		rc = sl_trace_find_kinds(m.trace);
	if (!rc)
		rc = sl_trace_check(m.trace);
	if (!rc && dropped)
		*dropped = record->dropped;
	free(m.lives);
	record_destroy(record);
	if (rc) {
		sl_trace_destroy(m.trace);
		return rc;
	}
	*out = m.trace;
	return 0;
}

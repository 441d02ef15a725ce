/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's streams: a record of each that has a bit, in a table for each GPU. A bit tells
 * an allocation's users apart (arena.c: streams that may still use the room of a freed block). A
 * record outlives its stream until its queued work is done.
 *
 * Identity: an ordinary handle names one stream until it is destroyed, which is seen. The
 * driver's number for it (cuStreamGetId()) shows a stream that was destroyed unseen. The handles
 * 1 and 2 mean a stream of the current context, and 2 one of the calling thread. Only that
 * thread can reach it, so others record an event behind all of its context instead.
 *
 * Streams beyond the 63rd share bit 63: their users wait for each other's.
 *
 * The driver answers no query about a captured stream, and each query spoils the capture. Such a
 * stream runs nothing. So a new one has no bit until the capture is over.
 *
 * Threads: any. Found by a small cache of the calling thread, which any end of a stream empties.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/fault_point.h"
#include "preload/alloc/arena.h"
#include "preload/api/api_stream.h"
#include "preload/gpu.h"
#include "preload/guest.h"
#include "preload/preload.h"
#include "preload/scope.h"
#include "preload/streams/capture.h"
#include "preload/streams/stream.h"
#include "preload/streams/stream_internal.h"

#define CACHE_SIZE 8u

struct stream_table {
	struct sl_mutex lock;
	struct pl_stream *hash[PL_STREAM_HASH];
	struct pl_stream *all;
	unsigned on_bit[PL_STREAMS_MAX + 1]; /* records that are not free */
	_Atomic uint64_t mask;               /* bits with any */
	_Atomic unsigned n_active, n_gone;
	_Atomic int blind; /* a stream could not be recorded: no memory */
};

struct cached {
	struct pl_gpu *gpu;
	struct cu_stream *handle;
	struct cu_context *context; /* of special handles */
	uint64_t bit;
	unsigned epoch;
};

static struct stream_table tables[PL_GPUS_MAX] = {
	[0 ... PL_GPUS_MAX - 1] = {.lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_STREAMS)},
};
static _Atomic unsigned epoch = 1; /* grows with each end of a stream or context */
static _Atomic uint64_t last_thread;
static _Thread_local struct cached cache[CACHE_SIZE]
	__attribute__((tls_model("initial-exec")));
static _Thread_local uint64_t my_thread __attribute__((tls_model("initial-exec")));
static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

static struct stream_table *
table_of(const struct pl_gpu *gpu)
{
	return &tables[gpu->ordinal];
}

/* table->lock, whichever table's. */
extern struct sl_lock_token table_token;
#define TABLE_HELD SL_REQUIRES(table_token)

static void table_lock(struct stream_table *table) SL_ACQUIRE(table_token);
static int table_trylock(struct stream_table *table) SL_ACQUIRE_IF_0(table_token);
static void table_unlock(struct stream_table *table) SL_RELEASE(table_token);

SL_NO_LOCK_CHECK static void
table_lock(struct stream_table *table)
{
	sl_mutex_lock(&table->lock);
}

SL_NO_LOCK_CHECK static int
table_trylock(struct stream_table *table)
{
	return sl_mutex_trylock(&table->lock);
}

SL_NO_LOCK_CHECK static void
table_unlock(struct stream_table *table)
{
	sl_mutex_unlock(&table->lock);
}

static bool
handle_is_special(const struct cu_stream *handle)
{
	return handle == CU_LEGACY_STREAM || handle == CU_PER_THREAD_STREAM;
}

static struct pl_stream **
stream_hash_slot(struct stream_table *table, const struct cu_stream *handle)
{
	uintptr_t key = (uintptr_t)handle;

	return &table->hash[(key ^ key >> 5 ^ key >> 12) % PL_STREAM_HASH];
}

static int
state_of(const struct pl_stream *stream)
{
	return atomic_load(&stream->state);
}

/* ---- threads ---- */

/* A thread ends: its own streams cannot be reached any more. */
static void
thread_leave(void *number)
{
	uint64_t thread = (uint64_t)(uintptr_t)number;

	if (atomic_load(&pl_phase) != PL_AWAKE)
		return;
	for (unsigned i = 0; i < PL_GPUS_MAX; i++) {
		struct stream_table *table = &tables[i];

		if (!atomic_load(&table->n_active))
			continue;
		table_lock(table);
		for (struct pl_stream *s = table->all; s; s = s->all_next)
			if (state_of(s) == PL_STREAM_LIVE && s->thread == thread)
				pl_stream_lost(s);
		table_unlock(table);
	}
}

static void
thread_key_make(void)
{
	(void)pthread_key_create(&thread_key, thread_leave);
}

uint64_t
pl_thread_number(void)
{
	if (!my_thread)
		my_thread = atomic_fetch_add(&last_thread, 1) + 1;
	return my_thread;
}

/* From now on the thread's end is seen. Without memory for it, its records stay. */
static void
thread_watch(void)
{
	pthread_once(&thread_once, thread_key_make);
	(void)pthread_setspecific(thread_key, (void *)(uintptr_t)pl_thread_number());
}

/* ---- records ---- */

/* The live one in the table of a stream as this thread means it. */
TABLE_HELD static struct pl_stream *
record_find(struct stream_table *table, struct cu_stream *handle,
	    struct cu_context *context, uint64_t thread)
{
	struct pl_stream *s = *stream_hash_slot(table, handle);

	while (s && (s->handle != handle || state_of(s) != PL_STREAM_LIVE ||
		     (context && s->context != context) || s->thread != thread))
		s = s->hash_next;
	return s;
}

/* Out of the hash, to be used again. */
TABLE_HELD static void
record_free(struct stream_table *table, struct pl_stream *s)
{
	struct pl_stream **slot = stream_hash_slot(table, s->handle);

	while (*slot != s)
		slot = &(*slot)->hash_next;
	*slot = s->hash_next;
	atomic_store(&s->state, PL_STREAM_FREE);
	if (!--table->on_bit[s->bit])
		atomic_fetch_and(&table->mask, ~(UINT64_C(1) << s->bit));
	atomic_fetch_sub(&table->n_active, 1);
}

/* A record for a new stream; NULL: no memory. */
TABLE_HELD static struct pl_stream *
record_new(struct stream_table *table, const struct pl_stream *like)
{
	struct pl_stream **slot = stream_hash_slot(table, like->handle), *s = table->all;
	unsigned bit = 0;

	while (s && state_of(s) != PL_STREAM_FREE)
		s = s->all_next;
	if (!s) {
		s = sl_calloc(1, sizeof(*s));
		if (!s)
			return NULL;
		sl_mutex_init(&s->lock, SL_RANK_PL_STREAM);
		s->all_next = table->all;
		table->all = s;
	}
	while (bit < PL_STREAMS_MAX && table->on_bit[bit])
		bit++;
	s->handle = like->handle;
	s->context = like->context;
	s->gpu = like->gpu;
	s->thread = like->thread;
	s->id = like->id;
	s->nonblocking = like->nonblocking;
	atomic_store(&s->unordered, 1);
	s->bit = bit;
	s->generation++;
	s->hash_next = *slot;
	*slot = s;
	table->on_bit[bit]++;
	atomic_fetch_or(&table->mask, UINT64_C(1) << bit);
	atomic_fetch_add(&table->n_active, 1);
	atomic_store(&s->state, PL_STREAM_LIVE);
	return s;
}

static void record_clear(struct stream_table *table, struct pl_stream *s) TABLE_HELD
	SL_REQUIRES(s->lock);

/* Nothing of the record's stream is left. */
static void
record_clear(struct stream_table *table, struct pl_stream *s)
{
	if (s->last)
		pl_event_put(s->last);
	if (s->tail)
		pl_event_put(s->tail);
	s->last = s->tail = NULL;
	if (state_of(s) == PL_STREAM_GONE)
		atomic_fetch_sub(&table->n_gone, 1);
	record_free(table, s);
}

/* Gone records whose work is done become free ones. Asks the driver. */
TABLE_HELD static void
records_reap(struct stream_table *table)
{
	struct pl_stream *s, *next;
	int token = pl_capture_relax();

	pl_enter();
	for (s = table->all; s && atomic_load(&table->n_gone); s = next) {
		next = s->all_next;
		if (state_of(s) != PL_STREAM_GONE || sl_mutex_trylock(&s->lock))
			continue;
		if (s->last && pl_event_passed(s->last))
			record_clear(table, s);
		sl_mutex_unlock(&s->lock);
	}
	pl_leave();
	pl_capture_restore(token);
}

void
pl_stream_lost(struct pl_stream *stream)
{
	int live = PL_STREAM_LIVE;

	if (!atomic_compare_exchange_strong(&stream->state, &live, PL_STREAM_GONE))
		return;
	atomic_fetch_add(&table_of(stream->gpu)->n_gone, 1);
	atomic_fetch_add(&epoch, 1);
}

/* What the driver says of a stream of the program's, as the calling thread means it. Not of one that is
 * captured: the questions would spoil the capture. */
static void
stream_describe(struct pl_gpu *gpu, struct cu_stream *handle, struct pl_stream *out)
{
	unsigned flags = 0;

	*out = (struct pl_stream){.handle = handle, .gpu = gpu};
	pl_enter();
	out->context = pl_context_current();
	if (handle == CU_PER_THREAD_STREAM) {
		out->thread = pl_thread_number();
	} else if (handle != CU_LEGACY_STREAM) {
		if (PL_REAL(cuStreamGetId)(handle, &out->id))
			out->id = 0;
		(void)PL_REAL(cuStreamGetCtx)(handle, &out->context);
		if (PL_REAL(cuStreamGetFlags)(handle, &flags))
			flags = CU_STREAM_NONBLOCKING; /* the one that needs more */
		out->nonblocking = !!(flags & CU_STREAM_NONBLOCKING);
	}
	pl_leave();
}

/* The first work of the stream is about to be enqueued: the arena may let it wait for others. */
static void
stream_order(struct pl_gpu *gpu, struct pl_stream *s)
{
	if (atomic_load(&s->unordered) && atomic_exchange(&s->unordered, 0))
		pl_arena_stream_new(gpu, s->handle, PL_LEGACY);
}

/* Look it up, or make it: its bit. One that is not captured. */
static uint64_t
stream_enroll(struct pl_gpu *gpu, struct cu_stream *handle)
{
	struct stream_table *table = table_of(gpu);
	struct pl_stream *s, like;
	int special = handle_is_special(handle);

	stream_describe(gpu, handle, &like);
	if (handle == CU_PER_THREAD_STREAM)
		thread_watch();
	table_lock(table);
	s = record_find(table, handle, special ? like.context : NULL, like.thread);
	if (s && s->id != like.id) { /* destroyed where we did not see it, and made again */
		pl_stream_lost(s);
		s = NULL;
	}
	if (!s && atomic_load(&table->n_gone))
		records_reap(table);
	if (!s)
		s = record_new(table, &like);
	table_unlock(table);
	if (s) {
		stream_order(gpu, s);
		return UINT64_C(1) << s->bit;
	}
	atomic_store(&table->blind, 1);
	return UINT64_C(1) << PL_STREAMS_MAX;
}

TABLE_HELD static struct pl_stream_ref
record_ref(struct pl_stream *s)
{
	return (struct pl_stream_ref){s, s->handle, s->context, s->generation, s->bit};
}

/* The live record of a stream as the calling thread means it: 1; 0: there is none. */
static int
table_find(struct stream_table *table, struct cu_stream *handle, struct pl_stream_ref *out)
{
	struct cu_context *context = handle_is_special(handle) ? pl_context_current() : NULL;
	uint64_t thread = handle == CU_PER_THREAD_STREAM ? pl_thread_number() : 0;
	struct pl_stream *s;

	if (!atomic_load(&table->n_active))
		return 0;
	table_lock(table);
	s = record_find(table, handle, context, thread);
	if (s)
		*out = record_ref(s);
	table_unlock(table);
	return s != NULL;
}

uint64_t
pl_stream_bit(struct pl_gpu *gpu, struct cu_stream *stream, enum pl_default_stream flavour)
{
	struct cu_stream *handle = pl_stream_handle(stream, flavour);
	uintptr_t key = (uintptr_t)handle;
	struct cached *at = &cache[(key ^ key >> 5 ^ key >> 12) % CACHE_SIZE];
	struct cu_context *context = NULL;
	unsigned now = atomic_load(&epoch);
	struct pl_stream_ref known;
	uint64_t bit;

	if (handle_is_special(handle))
		context = pl_context_current();
	if (at->handle == handle && at->gpu == gpu && at->context == context &&
	    at->epoch == now)
		return at->bit;
	if (pl_stream_captures(handle, PL_LEGACY))
		return table_find(table_of(gpu), handle, &known) ? UINT64_C(1) << known.bit
								 : 0;
	bit = stream_enroll(gpu, handle);
	*at = (struct cached){gpu, handle, context, bit, now};
	return bit;
}

unsigned
pl_streams_active(struct pl_gpu *gpu, uint64_t *mask)
{
	struct stream_table *table = table_of(gpu);
	unsigned n;

	if (atomic_load(&table->n_gone) && !table_trylock(table)) {
		records_reap(table);
		table_unlock(table);
	}
	n = atomic_load(&table->n_active);
	if (mask)
		*mask = atomic_load(&table->mask);
	if (atomic_load(&table->blind)) {
		n += 2; /* at least; and never only one */
		if (mask)
			*mask |= UINT64_C(1) << PL_STREAMS_MAX;
	}
	return n;
}

static int
table_list(struct stream_table *table, uint64_t mask, struct pl_stream_ref **out)
{
	struct pl_stream_ref *list;
	int n = 0;

	if (atomic_load(&table->blind) && mask >> PL_STREAMS_MAX)
		return -ENOMEM;
	table_lock(table);
	list = sl_malloc((atomic_load(&table->n_active) + 1) * sizeof(*list));
	for (struct pl_stream *s = list ? table->all : NULL; s; s = s->all_next)
		if (state_of(s) != PL_STREAM_FREE && mask >> s->bit & 1)
			list[n++] = record_ref(s);
	table_unlock(table);
	if (!list)
		return -ENOMEM;
	*out = list;
	return n;
}

int
pl_stream_list(struct pl_gpu *gpu, uint64_t mask, struct pl_stream_ref **out)
{
	return table_list(table_of(gpu), mask, out);
}

int
pl_stream_follow(struct pl_gpu *gpu, struct cu_stream *stream,
		 enum pl_default_stream flavour, uint64_t mask)
{
	struct cu_stream *handle = pl_stream_handle(stream, flavour);
	struct pl_stream_ref self = {.stream = NULL}, *list = NULL;
	int n = mask ? pl_stream_list(gpu, mask, &list) : 0, token, rc = n < 0 ? n : 0;

	if (n <= 0)
		goto done;
	(void)table_find(table_of(gpu), handle, &self);
	token = pl_capture_relax();
	pl_enter();
	for (int i = 0; i < n && !rc; i++) {
		struct pl_event *event = NULL;
		enum pl_record_result recorded;
		int pushed;

		if (list[i].stream == self.stream)
			continue;
		recorded = pl_stream_record(&list[i], &event);
		if (recorded == PL_RECORD_NOMEM)
			rc = -ENOMEM;
		else if (recorded == PL_RECORD_LATER || recorded == PL_RECORD_NEVER)
			rc = -EBUSY;
		if (recorded != PL_RECORDED)
			continue;
		pushed = pl_context_push(self.context);
		if (PL_REAL(cuStreamWaitEvent)(handle, event->handle, 0))
			rc = -EBUSY;
		pl_context_pop(pushed);
		pl_event_put(event);
	}
	pl_leave();
	pl_capture_restore(token);
done:
	free(list);
	return rc;
}

/* ---- ends ---- */

/* Call fn on the live record of this stream in each table. */
static void
records_of(struct cu_stream *handle, void (*fn)(const struct pl_stream_ref *))
{
	struct pl_stream_ref ref;

	for (unsigned i = 0; i < PL_GPUS_MAX; i++)
		if (table_find(&tables[i], handle, &ref))
			fn(&ref);
}

static void
record_leave(const struct pl_stream_ref *ref)
{
	struct pl_stream *s = ref->stream;
	struct pl_event *event = NULL;
	enum pl_record_result recorded = pl_stream_record(ref, &event);

	sl_mutex_lock(&s->lock);
	if (recorded == PL_RECORDED && !s->last) {
		s->last = event;
		event = NULL;
	}
	/* From here on nobody records on the handle. */
	pl_stream_lost(s);
	sl_mutex_unlock(&s->lock);
	if (event)
		pl_event_put(event);
}

static void
scopes_forget(struct cu_stream *handle)
{
	for (int device = 0; device < (int)PL_GPUS_MAX; device++) {
		struct pl_gpu *gpu = pl_gpu_of_device(device);

		if (gpu)
			pl_scope_stream_destroyed(gpu, handle);
	}
}

void
pl_stream_leave(struct cu_stream *handle)
{
	int token;

	if (handle_is_special(handle) || !handle)
		return;
	token = pl_capture_relax();
	pl_guest_stream_destroyed(handle);
	pl_enter();
	scopes_forget(handle);
	records_of(handle, record_leave);
	pl_leave();
	pl_capture_restore(token);
}

static void
tail_keep(const struct pl_stream_ref *ref)
{
	struct pl_stream *s = ref->stream;
	struct pl_event *event = NULL, *old;

	if (pl_stream_record(ref, &event) != PL_RECORDED)
		return;
	sl_mutex_lock(&s->lock);
	old = s->tail;
	s->tail = event;
	sl_mutex_unlock(&s->lock);
	if (old)
		pl_event_put(old);
}

static void
tail_drop(const struct pl_stream_ref *ref)
{
	struct pl_stream *s = ref->stream;
	struct pl_event *old;

	sl_mutex_lock(&s->lock);
	old = s->tail;
	s->tail = NULL;
	sl_mutex_unlock(&s->lock);
	if (old)
		pl_event_put(old);
}

void
pl_stream_tail_keep(struct cu_stream *handle)
{
	int token = pl_capture_relax();

	pl_enter();
	records_of(handle, tail_keep);
	pl_leave();
	pl_capture_restore(token);
}

void
pl_stream_tail_drop(struct cu_stream *handle)
{
	records_of(handle, tail_drop);
}

void
pl_stream_context_leaves(struct cu_context *context)
{
	for (unsigned i = 0; i < PL_GPUS_MAX; i++) {
		struct pl_stream_ref *list = NULL;
		int n = atomic_load(&tables[i].n_active)
				? table_list(&tables[i], UINT64_MAX, &list)
				: 0;

		for (int k = 0; list && k < n; k++)
			if (list[k].context == context &&
			    state_of(list[k].stream) == PL_STREAM_LIVE)
				scopes_forget(list[k].handle);
		free(list);
	}
}

void
pl_stream_context_gone(struct cu_context *context)
{
	pl_event_context_gone(context);
	for (unsigned i = 0; i < PL_GPUS_MAX; i++) {
		struct stream_table *table = &tables[i];

		if (!atomic_load(&table->n_active))
			continue;
		table_lock(table);
		for (struct pl_stream *s = table->all; s; s = s->all_next) {
			/* One that is locked is being recorded on, which fails now. */
			if (s->context != context || state_of(s) == PL_STREAM_FREE ||
			    sl_mutex_trylock(&s->lock))
				continue;
			record_clear(table, s);
			sl_mutex_unlock(&s->lock);
		}
		table_unlock(table);
	}
	atomic_fetch_add(&epoch, 1);
}

void
pl_stream_idle(struct pl_gpu *gpu, const struct pl_stream_ref *ref)
{
	struct stream_table *table = table_of(gpu);
	struct pl_stream *stream = ref->stream;

	table_lock(table);
	if (state_of(stream) == PL_STREAM_GONE && !sl_mutex_trylock(&stream->lock)) {
		if (stream->generation == ref->generation)
			record_clear(table, stream);
		sl_mutex_unlock(&stream->lock);
	}
	table_unlock(table);
}

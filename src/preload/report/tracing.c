/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --record: the run as a trace for `sluice plan`, one for each GPU. Events go to the recorder
 * (trace/record.h) as they happen. Periods and kinds of tensors are found when the trace is
 * made: at exit, or after the requested number of launches. So a program that runs for days, or
 * is killed, has left its trace long before.
 *
 * A tensor is a block. Of a block that has parts (args/parts.h) the parts are: where they begin is
 * found at the end. A mapped block that grows or shrinks becomes another tensor. Small blocks
 * are one tensor of their highest common size, which each of their users reads and writes. A
 * kernel's access to a block is not known: it reads and writes. But the first use of an
 * allocation overwrites it all, since there are no contents to keep. Copies and fills tell their
 * access.
 *
 * Ratios come from what the pager moves out: a few blocks of each chunk go through the host's codec
 * when they have arrived in host memory (moved_out_sample()). What never leaves the device, or is
 * dropped since it did not change, has no ratio.
 *
 * Times of launches come from timings.c, which asks for them when later work begins. A launch
 * whose events have not passed at the end has no time.
 *
 * Locks: gate, read, around the recorders: no event reaches them while they are made into
 * traces. It is not held across a driver call.
 */
#include "preload/report/tracing.h"
#include "preload/alloc/block.h"
#include "preload/alloc/suballoc.h"
#include "preload/gpu.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/scope.h"
#include "preload/streams/capture.h"
#include "preload/streams/stream.h"
#include "sluice/sluice.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/hash.h"
#include "base/lock.h"
#include "codec/codec.h"
#include "core/interpose.h"
#include "preload/api/api_stream.h"
#include "preload/report/output.h"
#include "preload/report/timings.h"
#include "preload/streams/stream_internal.h"
#include "trace/record.h"

#define SMALL_SERIAL 1u

/* Blocks of the codec that are looked at in a chunk that is moved out, one for each so many
 * bytes; some 3 us each, where the chunk takes 40 us or more on the link. */
#define SAMPLE_EVERY      ((uint64_t)1 << 20)
#define SAMPLES_MOST      4u
/* ... of a tensor, and one more for each so many bytes of it: of pools each part is to be seen. */
#define SAMPLES_OF_TENSOR 64u
#define SAMPLES_BYTES     ((uint64_t)4 << 20)

_Atomic int pl_tracing_state;

static struct sl_rwlock gate = SL_RWLOCK_INITIALIZER(SL_RANK_PL_RECORDERS);
static struct sl_record *records[PL_GPUS_MAX]; /* gate */
static _Atomic uint64_t small_bytes[PL_GPUS_MAX], small_peak[PL_GPUS_MAX];
static _Atomic uint64_t n_launches, n_all, n_untimed;
static _Atomic uint64_t last_serial = SMALL_SERIAL;
/* Of a block's tensor. */
static struct sl_mutex tell_lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF);

/* Of making and writing the traces. */
static struct sl_mutex closing = SL_MUTEX_INITIALIZER(SL_RANK_PL_CLOSING);
static _Atomic unsigned flying; /* begun, and not collected */

/* ---- tensors ---- */

static bool
is_small(uint64_t bytes)
{
	return bytes < PL_TRACE_SMALL;
}

static void
small_count(int gpu, uint64_t bytes)
{
	uint64_t now = atomic_fetch_add(&small_bytes[gpu], bytes) + bytes;
	uint64_t peak = atomic_load(&small_peak[gpu]);

	while (now > peak && !atomic_compare_exchange_weak(&small_peak[gpu], &peak, now))
		;
}

/* The block's tensor as it is now; it is told of if it is new or has another size. */
SL_REQUIRES(gate) static uint64_t tensor_of(struct pl_block *block)
{
	struct sl_record *record = records[block->gpu->ordinal];
	uint64_t bytes = block->bytes, serial;

	sl_mutex_lock(&tell_lock);
	if (!block->tensor || block->tensor_bytes != bytes) {
		uint64_t now = sl_now_ns();

		if (block->tensor && block->tensor != SMALL_SERIAL)
			sl_record_free(record, block->tensor, now);
		else if (block->tensor)
			atomic_fetch_sub(&small_bytes[block->gpu->ordinal],
					 block->tensor_bytes);
		block->tensor_bytes = bytes;
		block->tensor = SMALL_SERIAL;
		if (is_small(bytes)) {
			small_count(block->gpu->ordinal, bytes);
		} else {
			block->tensor = atomic_fetch_add(&last_serial, 1) + 1;
			atomic_store_explicit(&block->sampled, 0, memory_order_relaxed);
			sl_record_tensor(record, block->tensor, bytes, NULL, now);
		}
	}
	serial = block->tensor;
	sl_mutex_unlock(&tell_lock);
	return serial;
}

void
pl_tracing_alloc(struct pl_block *block)
{
	if (!pl_tracing())
		return;
	sl_rwlock_read(&gate);
	if (records[block->gpu->ordinal])
		(void)tensor_of(block);
	sl_rwlock_unlock(&gate);
}

void
pl_tracing_free(struct pl_block *block)
{
	struct sl_record *record;

	if (!pl_tracing())
		return;
	sl_rwlock_read(&gate);
	record = records[block->gpu->ordinal];
	sl_mutex_lock(&tell_lock);
	if (record && block->tensor == SMALL_SERIAL)
		atomic_fetch_sub(&small_bytes[block->gpu->ordinal], block->tensor_bytes);
	else if (record && block->tensor)
		sl_record_free(record, block->tensor, sl_now_ns());
	block->tensor = 0;
	sl_mutex_unlock(&tell_lock);
	sl_rwlock_unlock(&gate);
}

/* ---- launches ---- */

/* What the recorder is told; contents that nobody has made yet are not kept. */
SL_REQUIRES(gate)
static void
uses_fill(struct sl_record_use *to, const struct pl_use *uses, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct pl_block *block = uses[i].block;
		int fresh = !atomic_load(&block->touched) && !uses[i].open &&
			    uses[i].intent != SLUICE_USE_READ;

		to[i] = (struct sl_record_use){.tensor = tensor_of(block)};
		if (to[i].tensor == SMALL_SERIAL) {
			to[i].intent = SLUICE_USE_READ_WRITE;
		} else if (fresh) {
			to[i].intent = SLUICE_USE_WRITE_ALL;
		} else {
			to[i].intent = uses[i].intent;
			to[i].offset_bytes = uses[i].addr - block->base;
			to[i].size_bytes = uses[i].bytes;
			to[i].open = uses[i].open;
		}
	}
	for (size_t i = 0; i < n; i++)
		atomic_store(&uses[i].block->touched, 1);
}

/* A copy from (1) or to (0) the host; -1: work on the device. */
static int
host_copy_way(const struct pl_scope *scope, const struct pl_use *uses, size_t n)
{
	int way = n && uses[0].intent != SLUICE_USE_READ;

	if (!scope->copies || !n)
		return -1;
	for (size_t i = 1; i < n; i++)
		if (way != (uses[i].intent != SLUICE_USE_READ))
			return -1;
	return way;
}

/* The launch, or the copies, to the recorder. The launch's number; SL_TRACE_NONE: there is none to take the
 * time of. */
SL_REQUIRES(gate)
static uint32_t
work_tell(const struct pl_scope *scope, struct sl_record *record,
	  const struct pl_use *uses, size_t n, unsigned flags)
{
	struct sl_record_use to[PL_USES_MAX];
	int way = host_copy_way(scope, uses, n);
	uint32_t launch;
	uint64_t now;

	uses_fill(to, uses, n);
	now = sl_now_ns(); /* behind what was told of its tensors */
	for (size_t i = 0; way >= 0 && i < n; i++)
		if (to[i].tensor != SMALL_SERIAL)
			sl_record_copy(record, to[i].tensor, way,
				       uses[i].addr - uses[i].block->base, uses[i].bytes,
				       now);
	if (way >= 0)
		return SL_TRACE_NONE;
	launch = sl_record_launch(record, now, now, scope->name, to, n);
	if (launch == SL_TRACE_NONE)
		return launch;
	if (flags & PL_SCOPE_ALL)
		atomic_fetch_add(&n_all, 1);
	atomic_fetch_add(&flying, 1); /* before it can be the last one */
	if (atomic_fetch_add(&n_launches, 1) + 1 == pl_settings()->record_launches) {
		int on = PL_TRACING_ON;

		atomic_compare_exchange_strong(&pl_tracing_state, &on, PL_TRACING_FULL);
	}
	return launch;
}

/* All that is wanted is there: written by who comes first. Without gate. */
static void
full_look(void)
{
	if (atomic_load(&pl_tracing_state) == PL_TRACING_FULL && !atomic_load(&flying))
		pl_tracing_close();
}

uint32_t
pl_tracing_work(const struct pl_scope *scope, const struct pl_gpu *gpu,
		const struct pl_use *uses, size_t n, unsigned flags)
{
	uint32_t launch = SL_TRACE_NONE;

	sl_rwlock_read(&gate);
	if (records[gpu->ordinal] && atomic_load(&pl_tracing_state) == PL_TRACING_ON)
		launch = work_tell(scope, records[gpu->ordinal], uses, n, flags);
	sl_rwlock_unlock(&gate);
	if (launch == SL_TRACE_NONE)
		full_look();
	return launch;
}

void
pl_tracing_told(int gpu, uint32_t launch, uint64_t ns)
{
	sl_rwlock_read(&gate);
	if (ns && records[gpu])
		sl_record_time(records[gpu], launch, ns);
	else
		atomic_fetch_add(&n_untimed, 1);
	sl_rwlock_unlock(&gate);
	atomic_fetch_sub(&flying, 1);
}

/* ---- contents ---- */

/* One block of the codec at addr, whose contents are at data: to its tensor, if it is of one
 * alone. */
SL_REQUIRES(gate)
static void
block_sample(struct sl_record *record, uint64_t addr, const void *data)
{
	struct pl_block *block = pl_data_find(addr);
	uint64_t serial, offset;

	if (!block || addr + SL_CODEC_BLOCK_BYTES > block->base + block->bytes ||
	    !atomic_load(&block->touched)) /* nobody has made contents yet */
		return;
	offset = addr - block->base;
	if (atomic_load_explicit(&block->sampled, memory_order_relaxed) >=
	    SAMPLES_OF_TENSOR + block->bytes / SAMPLES_BYTES)
		return;
	sl_mutex_lock(&tell_lock);
	serial = block->tensor;
	sl_mutex_unlock(&tell_lock);
	if (serial <= SMALL_SERIAL)
		return;
	atomic_fetch_add_explicit(&block->sampled, 1, memory_order_relaxed);
	/* Its entry in the table of blocks is a part of what crosses the link. */
	sl_record_sample(record, serial, offset, SL_CODEC_BLOCK_BYTES,
			 sl_codec_block_bytes(data) + sizeof(uint16_t));
}

/* The pager has moved these contents out (sl_space_watch()): look at a few blocks, each
 * somewhere in its part of the chunk. On any thread; with the locks of a caller of the pager at
 * most. */
static void
moved_out_sample(void *arg, const void *addr, const void *data, uint64_t bytes)
{
	/* Which blocks. atomic: relaxed: any number is as good. */
	static _Atomic uint64_t turn;
	const struct pl_gpu *gpu = arg;
	uint64_t n = bytes / SAMPLE_EVERY, part;

	if (pl_tracing() != PL_TRACING_ON || bytes < SL_CODEC_BLOCK_BYTES)
		return;
	n = n < 1 ? 1 : n > SAMPLES_MOST ? SAMPLES_MOST : n;
	part = bytes / n / SL_CODEC_BLOCK_BYTES;
	sl_rwlock_read(&gate);
	for (uint64_t i = 0; i < n && records[gpu->ordinal]; i++) {
		uint64_t number = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed);
		uint64_t at = (i * part + sl_hash_add(0, number) % part) *
			      SL_CODEC_BLOCK_BYTES;

		block_sample(records[gpu->ordinal], (uint64_t)(uintptr_t)addr + at,
			     (const char *)data + at);
	}
	sl_rwlock_unlock(&gate);
}

/* ---- begin and end ---- */

void
pl_tracing_open(struct pl_gpu *gpu)
{
	const struct pl_settings *s = pl_settings();
	char source[SL_TRACE_NAME_MAX + 1];
	static int begun; /* by who makes spaces, one at a time */

	if (!s->record_path[0] || (begun && pl_tracing() != PL_TRACING_ON))
		return;
	snprintf(source, sizeof(source), "sluice run %s, GPU %d",
		 program_invocation_short_name, gpu->ordinal);
	for (char *c = source; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	sl_rwlock_write(&gate);
	if (sl_record_begin(s->record_launches, source, &records[gpu->ordinal]))
		pl_error("GPU %d is not recorded: %s", gpu->ordinal, sluice_last_error());
	sl_rwlock_unlock(&gate);
	if (!begun) { /* else it is on, or full just now */
		atomic_store(&pl_tracing_state, PL_TRACING_ON);
		pl_timed_set(PL_TIMED_RECORD, 1);
	}
	sl_space_watch(gpu->space, moved_out_sample, gpu);
	begun = 1;
	atomic_store(&pl_watch, 1);
}

/* Launches of the longest row of periods of one length, and how many. */
static void
trace_say(int gpu, const struct sl_trace *trace, const char *path)
{
	uint32_t steady = 0, launches, alike = 0;

	if (sl_trace_steady(trace, &steady))
		return;
	launches = sl_trace_period_launches(trace, steady);
	for (uint32_t p = 0; p < trace->n_periods; p++)
		alike += sl_trace_period_launches(trace, p) == launches;
	if (trace->n_periods == 1)
		pl_note("GPU %d: %u launches recorded in %s: nothing repeats", gpu,
			trace->n_launches, path);
	else
		pl_note("GPU %d: %u launches recorded in %s: %u times the same %u", gpu,
			trace->n_launches, path, alike, launches);
}

static void
trace_write(int gpu, int is_first, const struct sl_trace *trace)
{
	struct pl_output output = {.final = ""};
	char suffix[16] = "";
	int rc;

	if (!is_first)
		snprintf(suffix, sizeof(suffix), ".gpu%d", gpu);
	rc = pl_output_begin(&output, pl_settings()->record_path, suffix);
	if (rc) {
		pl_error("no trace can be written to %s: %s", pl_settings()->record_path,
			 strerror(-rc));
		return;
	}
	rc = sl_trace_write(trace, output.temporary, 0);
	if (rc)
		pl_error("%s", sluice_last_error());
	rc = pl_output_end(&output, rc, "the trace is");
	if (!rc)
		trace_say(gpu, trace, output.final);
}

static void
record_write(int gpu, int is_first, struct sl_record *record)
{
	struct sl_trace *trace;
	uint64_t dropped = 0;

	if (atomic_load(&small_peak[gpu]))
		sl_record_tensor(record, SMALL_SERIAL, atomic_load(&small_peak[gpu]),
				 "small blocks", 0);
	if (sl_record_end(record, &trace, &dropped)) {
		pl_note("GPU %d: %s", gpu, sluice_last_error());
		return;
	}
	trace_write(gpu, is_first, trace);
	if (dropped)
		pl_note("GPU %d: %llu records found no room in the trace", gpu,
			(unsigned long long)dropped);
	sl_trace_destroy(trace);
}

void
pl_tracing_close(void)
{
	struct sl_record *all[PL_GPUS_MAX] = {NULL};
	uint64_t untimed, blind;
	int is_first = 1;

	if (!pl_settings()->record_path[0])
		return;
	pl_enter();
	sl_mutex_lock(&closing); /* another thread may be at it, and the end has to wait for that */
	if (atomic_load(&pl_tracing_state) != PL_TRACING_OFF)
		pl_timings_collect(UINT_MAX, 1, 1);
	sl_rwlock_write(&gate);
	if (atomic_load(&pl_tracing_state) != PL_TRACING_OFF) {
		atomic_store(&pl_tracing_state, PL_TRACING_OFF);
		pl_timed_set(PL_TIMED_RECORD, 0);
		memcpy(all, records, sizeof(all));
		memset(records, 0, sizeof(records));
	}
	sl_rwlock_unlock(&gate);
	for (int gpu = 0; gpu < (int)PL_GPUS_MAX; gpu++) {
		if (!all[gpu])
			continue;
		record_write(gpu, is_first, all[gpu]);
		is_first = 0;
	}
	untimed = atomic_load(&n_untimed) + atomic_load(&flying);
	blind = atomic_load(&n_all);
	if (!is_first && untimed)
		pl_note("%llu launches are recorded without a time",
			(unsigned long long)untimed);
	if (!is_first && blind)
		pl_note("%llu recorded launches may use more than their arguments name",
			(unsigned long long)blind);
	sl_mutex_unlock(&closing);
	pl_leave();
}

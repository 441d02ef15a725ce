/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes: from what a call will touch to data in place. At ease nothing is done; under pressure the
 * core brings in what fits, and has the excess mapped in host memory.
 *
 * A launch of which it is not known that its arguments name all it touches (PL_SCOPE_ALL) has every
 * live block of the GPU beside its uses: those need not be on the device, but are mapped while it
 * runs. Live blocks are gathered once for as long as nothing is allocated or freed. Where device and
 * host together cannot hold them all, such a launch goes with its own uses alone, which is said once: what
 * is in the store then was named by no launch for longer than all that is in memory.
 *
 * A stream of the program's is wrapped for the core at its first scope, and forgotten when it is
 * destroyed.
 *
 * Threads: any.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/nvtx.h"
#include "core/interpose.h"
#include "preload/alloc/arena.h"
#include "preload/alloc/block.h"
#include "preload/alloc/suballoc.h"
#include "preload/args/part_growth.h"
#include "preload/gpu.h"
#include "preload/gpu_internal.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/report/timings.h"
#include "preload/scope.h"
#include "preload/share.h"
#include "preload/streams/capture.h"
#include "preload/streams/stream.h"
#include "sluice/sluice.h"

#define RESTS_MAX    8u /* blocks of parts in a launch */
/* Each gives up two chunks or more: so much that others have taken is made up for. */
#define SQUEEZES_MAX 16u
#define STUCK_MAX    3u /* each has waited for whoever lowers the budget, and for others */
#define BESIDE_MAX \
	65000u /* ranges; the core takes a few more uses than that in a launch */

/* ---- streams ---- */

static unsigned
wrapped_slot(const struct cu_stream *native)
{
	uint64_t hash = (uint64_t)(uintptr_t)native * 0x9e3779b97f4a7c15u;

	return (unsigned)(hash >> 40) % PL_WRAPPED_MAX;
}

static struct pl_wrapped *wrapped_at(struct pl_gpu_internal *books,
				     const struct cu_stream *native)
	SL_REQUIRES(books->lock);
static void wrapped_remove(struct pl_gpu_internal *books, struct pl_wrapped *gone)
	SL_REQUIRES(books->lock);

/* The slot that has it, or the free one where it would stand. */
static struct pl_wrapped *
wrapped_at(struct pl_gpu_internal *books, const struct cu_stream *native)
{
	unsigned slot = wrapped_slot(native);

	while (books->wrapped[slot].native && books->wrapped[slot].native != native)
		slot = (slot + 1) % PL_WRAPPED_MAX;
	return &books->wrapped[slot];
}

struct sluice_stream *
pl_wrapped_find(struct pl_gpu *gpu, struct cu_stream *stream,
		enum pl_default_stream flavour, int *rc)
{
	struct pl_gpu_internal *books = gpu->books;
	struct cu_stream *native = pl_stream_handle(stream, flavour);
	struct sluice_stream *found = NULL;
	struct pl_wrapped *at;

	*rc = 0;
	if (native == CU_LEGACY_STREAM)
		return NULL;
	sl_mutex_lock(&books->lock);
	at = wrapped_at(books, native);
	if (!at->native && books->n_wrapped >= PL_WRAPPED_MAX / 2) {
		*rc = sl_fail(-ENOBUFS, "%u streams are in use at once", books->n_wrapped);
	} else if (!at->native) {
		*rc = sl_stream_wrap_in(gpu->space, native,
					native == CU_PER_THREAD_STREAM, &at->stream);
		if (!*rc) {
			at->native = native;
			books->n_wrapped++;
		}
	}
	if (!*rc)
		found = at->stream;
	sl_mutex_unlock(&books->lock);
	return found;
}

/* Take one out; those behind it move up, so that no search ends too early. */
static void
wrapped_remove(struct pl_gpu_internal *books, struct pl_wrapped *gone)
{
	unsigned hole = (unsigned)(gone - books->wrapped), at = hole;

	for (;;) {
		unsigned home;

		at = (at + 1) % PL_WRAPPED_MAX;
		if (!books->wrapped[at].native)
			break;
		home = wrapped_slot(books->wrapped[at].native);
		if ((at - home) % PL_WRAPPED_MAX < (at - hole) % PL_WRAPPED_MAX)
			continue;
		books->wrapped[hole] = books->wrapped[at];
		hole = at;
	}
	books->wrapped[hole].native = NULL;
	books->wrapped[hole].stream = NULL;
	books->n_wrapped--;
}

void
pl_scope_stream_destroyed(struct pl_gpu *gpu, struct cu_stream *stream)
{
	struct pl_gpu_internal *books = gpu->books;
	struct sluice_stream *wrapped;
	struct pl_wrapped *at;

	if (!stream || stream == CU_LEGACY_STREAM || stream == CU_PER_THREAD_STREAM)
		return;
	sl_mutex_lock(&books->lock);
	at = wrapped_at(books, stream);
	wrapped = at->native ? at->stream : NULL;
	if (wrapped)
		wrapped_remove(books, at);
	sl_mutex_unlock(&books->lock);
	pl_enter();
	sluice_stream_destroy(wrapped);
	pl_leave();
}

/* ---- what may be touched as well ---- */

/* Live blocks of a GPU as ranges, neighbours merged. One a thread, kept. */
static _Thread_local struct {
	const struct pl_gpu *gpu;
	uint64_t generation;
	struct sluice_use *ranges;
	size_t n, max;
} beside;

/* Blocks closer than this are one range: what lies between is room of the same chunk. */
#define BESIDE_GAP ((uint64_t)2 << 20)

static int
beside_add(struct pl_block *block, void *arg)
{
	struct sluice_use *last = beside.n ? &beside.ranges[beside.n - 1] : NULL;
	uint64_t chunk = pl_gpu_chunk_bytes(block->gpu);
	uint64_t end = block->base + block->bytes;

	(void)arg;
	if (last) {
		uint64_t last_end = (uint64_t)(uintptr_t)last->addr + last->size_bytes;

		/* The same chunk, or nothing but a guard gap between: never across a region's end,
		 * which is further away than that. */
		if (block->base - last_end < BESIDE_GAP &&
		    block->base / chunk - (last_end - 1) / chunk <= 1) {
			last->size_bytes = end - (uint64_t)(uintptr_t)last->addr;
			return 0;
		}
	}
	if (beside.n == BESIDE_MAX)
		return -ENOBUFS;
	if (beside.n == beside.max) {
		size_t max = beside.max ? 2 * beside.max : 1024;
		struct sluice_use *more = sl_realloc(beside.ranges, max * sizeof(*more));

		if (!more)
			return -ENOMEM;
		beside.ranges = more;
		beside.max = max;
	}
	beside.ranges[beside.n++] = (struct sluice_use){(void *)(uintptr_t)block->base,
							block->bytes, SLUICE_USE_READ_WRITE};
	return 0;
}

/* 0; -ENOMEM: asked again next time; -ENOBUFS: there are more than were gathered. */
static int
beside_gather(struct pl_gpu *gpu)
{
	uint64_t generation = pl_arena_generation(gpu);
	static _Thread_local int rc;

	if (beside.gpu == gpu && beside.generation == generation)
		return rc;
	beside.n = 0;
	rc = pl_arena_walk(gpu, beside_add, NULL);
	beside.gpu = rc == -ENOMEM ? NULL : gpu;
	beside.generation = generation;
	return rc;
}

/* ---- scopes ---- */

static _Atomic int told_of_store;

/* The rest of what is allocated, mapped as well. That it has no room is no error. 0 or -ENOMEM. */
static int
scope_open_all(struct pl_scope *scope, struct sluice_stream *stream)
{
	int rc = beside_gather(scope->gpu), too_many = rc == -ENOBUFS;

	if (rc == -ENOMEM)
		return sl_fail(rc, "out of host memory");
	if (!beside.n)
		return 0;
	rc = sl_launch_begin_optional(scope->gpu->space, stream, NULL, 0, beside.ranges,
				      beside.n, &scope->all);
	if (rc)
		scope->all = NULL;
	if (rc == -ENOMEM)
		return rc;
	if (!rc && too_many)
		(void)sl_fail(-ENOBUFS, "more than %u ranges", BESIDE_MAX);
	if ((rc || too_many) && !atomic_exchange(&told_of_store, 1))
		pl_note("not all that is allocated can be in device and host memory "
			"at once (%s): kernels that find addresses in memory reach what "
			"was used lately only (--kernel-args, sluice-run(1))",
			sluice_last_error());
	return 0;
}

/* What a scope opens. */
struct wanted {
	struct sluice_use named[PL_USES_MAX]; /* to be on the device; parts last */
	uint64_t cut[PL_USES_MAX];            /* their bytes, parts as they are cut */
	size_t n, n_whole;                 /* of them, and of those that are no parts */
	struct sluice_use rest[RESTS_MAX]; /* blocks of parts: to be mapped, wherever they are */
	size_t n_rest;
};

/* Without room for it the launch takes everything. */
static void
rest_add(struct wanted *w, const struct pl_block *block, unsigned *flags)
{
	for (size_t i = 0; i < w->n_rest; i++)
		if ((uintptr_t)w->rest[i].addr == block->base)
			return;
	if (w->n_rest == RESTS_MAX)
		*flags |= PL_SCOPE_ALL;
	else
		w->rest[w->n_rest++] = (struct sluice_use){(void *)(uintptr_t)block->base,
							   block->bytes,
							   SLUICE_USE_READ_WRITE};
}

/* Bytes on the device, of that much of the use's block. */
static uint64_t
use_resident(const struct pl_use *use, uint64_t from, uint64_t to)
{
	const void *addr = (const void *)(uintptr_t)(use->addr + from);
	struct sluice_residency at;

	if (sluice_residency(use->block->gpu->space, addr, to - from, &at))
		return 0;
	return at.tier_bytes[SLUICE_TIER_DEVICE];
}

/* Name the uses that are parts, or those that are not. captured: what is captured touches nothing yet. */
static void
wanted_name(struct wanted *w, const struct pl_gpu *gpu, const struct pl_use *uses,
	    size_t n, int parts, const struct pl_growth *growth, int captured)
{
	uint64_t bytes;

	for (size_t i = 0; i < n && w->n < PL_USES_MAX; i++) {
		/* Another GPU's memory is that GPU's business: it is used where it lies. */
		if (uses[i].block->gpu != gpu || uses[i].open != parts)
			continue;
		bytes = pl_growth_bytes(growth, &uses[i]);
		if (!bytes)
			continue;
		w->cut[w->n] = uses[i].bytes ? uses[i].bytes : 1; /* it begins there at least */
		w->named[w->n++] = (struct sluice_use){(void *)(uintptr_t)uses[i].addr, bytes,
						       captured ? SLUICE_USE_READ
								: uses[i].intent};
	}
}

static void
wanted_fill(struct wanted *w, const struct pl_gpu *gpu, const struct pl_use *uses,
	    size_t n, const struct pl_growth *growth, int captured, unsigned *flags)
{
	w->n = w->n_rest = 0;
	wanted_name(w, gpu, uses, n, 0, growth, captured);
	w->n_whole = w->n;
	wanted_name(w, gpu, uses, n, 1, growth, captured);
	for (size_t i = 0; i < n; i++)
		if (uses[i].open && uses[i].block->gpu == gpu)
			rest_add(w, uses[i].block, flags);
	if (*flags & PL_SCOPE_ALL)
		w->n_rest = 0; /* it is in all */
}

/*
 * The core prepares launches in the order in which they are begun. Who holds what a first one has brought in
 * and begins a second must not find others before it that wait for that room: they would for ever. So
 * scopes of two launches are opened alone.
 */
static int
scope_open(struct pl_scope *scope, struct sluice_stream *stream, const struct wanted *w,
	   unsigned flags)
{
	struct pl_gpu *gpu = scope->gpu;
	size_t n = w->n;
	int rc = 0;

	if (n && (flags & PL_SCOPE_ALL || w->n_rest))
		sl_rwlock_write(&gpu->books->opening);
	else
		sl_rwlock_read(&gpu->books->opening);
	/* What is on the device stays and is used there, the rest is used where it is. */
	if (n && (flags & PL_SCOPE_AWAY || pl_settings()->mode == PL_MODE_NAIVE))
		rc = sl_launch_begin_optional(gpu->space, stream, NULL, 0, w->named, n,
					      &scope->launch);
	else if (n)
		rc = sl_launch_begin_optional(gpu->space, stream, w->named, n, NULL, 0,
					      &scope->launch);
	/* In this order: what is named has the device, what else there is must only be mapped. */
	if (!rc && (flags & PL_SCOPE_ALL))
		rc = scope_open_all(scope, stream);
	else if (!rc && w->n_rest)
		rc = sl_launch_begin_optional(gpu->space, stream, NULL, 0, w->rest,
					      w->n_rest, &scope->all);
	sl_rwlock_unlock(&gpu->books->opening);
	if (rc && scope->launch)
		sluice_launch_end(scope->launch);
	if (rc)
		scope->launch = scope->all = NULL;
	if (!scope->launch && !scope->all)
		scope->gpu = NULL;
	return rc;
}

/* Other programs may have taken what the budget promises, or it was lowered for them where nothing can go. */
static int
scope_open_shared(struct pl_scope *scope, struct sluice_stream *stream,
		  const struct wanted *w, unsigned flags)
{
	struct pl_gpu *gpu = scope->gpu;
	unsigned tries = 0, stuck = 0;
	uint64_t bytes = 0;
	int rc;

	for (size_t i = 0; i < w->n; i++)
		bytes += w->named[i].size_bytes;
	do {
		scope->gpu = gpu;
		rc = scope_open(scope, stream, w, flags);
	} while ((rc == -ENOMEM && ++tries < SQUEEZES_MAX && pl_share_squeeze(gpu)) ||
		 (rc == -ENOSPC && stuck++ < STUCK_MAX && pl_share_stuck(gpu, bytes)));
	return rc;
}

/* A stream of ours: a captured one can wait for nothing, and what is only looked at is there when the
 * scope has begun. */
static struct sluice_stream *
aside_find(struct pl_gpu *gpu, int *rc)
{
	struct pl_gpu_internal *books = gpu->books;
	struct sluice_stream *stream;

	sl_mutex_lock(&books->lock);
	*rc = books->aside ? 0 : sluice_stream_create(gpu->space, &books->aside);
	stream = books->aside;
	sl_mutex_unlock(&books->lock);
	return stream;
}

int
pl_uses_order(struct pl_gpu *gpu, struct cu_stream *stream, enum pl_default_stream flavour,
	      const struct pl_use *uses, size_t n, uint64_t bit, unsigned flags)
{
	int rc = flags & PL_SCOPE_ALL ? pl_reuse_order_all(gpu, stream, flavour, bit) : 0;

	for (size_t i = 0; i < n && !rc; i++) {
		struct pl_block *block = uses[i].block;

		/* The last bit is of many streams. */
		if (atomic_load_explicit(&block->streams, memory_order_relaxed) & bit &&
		    !(bit >> PL_STREAMS_MAX))
			continue;
		rc = pl_reuse_order(block, stream, flavour, bit);
		if (!rc)
			atomic_fetch_or(&block->streams, bit);
	}
	return rc;
}

static _Thread_local unsigned own_unpinned; /* of the scopes that count as such */

/* At ease nothing is pinned: whoever comes under pressure waits for the calls that go on from here. */
static bool
scope_is_pressed(struct pl_scope *scope, struct pl_gpu *gpu)
{
	if (atomic_load_explicit(&gpu->pressure, memory_order_acquire) == PL_OVERSUBSCRIBED)
		return true;
	atomic_fetch_add(&gpu->unpinned, 1);
	if (atomic_load(&gpu->pressure) == PL_OVERSUBSCRIBED) {
		atomic_fetch_sub(&gpu->unpinned, 1);
		return true;
	}
	scope->unpinned = gpu;
	own_unpinned++;
	return false;
}

bool
pl_scope_at_ease(struct pl_scope *scope, struct pl_gpu *gpu)
{
	return !scope_is_pressed(scope, gpu);
}

bool
pl_scopes_unpinned(const struct pl_gpu *gpu)
{
	return atomic_load(&gpu->unpinned) > own_unpinned;
}

static uint64_t
uses_sum(const struct pl_gpu *gpu, const struct pl_use *uses, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		if (uses[i].block->gpu == gpu)
			sum += uses[i].bytes;
	return sum;
}

bool
pl_scopes_open(const struct pl_gpu *gpu)
{
	return atomic_load(&gpu->unpinned) || atomic_load(&gpu->pinned);
}

static _Thread_local unsigned own_pinned; /* scopes of this thread that are open under pressure */

static void
scope_count(struct pl_scope *scope, struct pl_gpu *gpu)
{
	atomic_fetch_add(&gpu->pinned, 1);
	scope->pinned = gpu;
	own_pinned++;
}

static void
scope_uncount(struct pl_scope *scope)
{
	if (!scope->pinned)
		return;
	atomic_fetch_sub(&scope->pinned->pinned, 1);
	scope->pinned = NULL;
	own_pinned--;
}

/* The rest of scope_begin() where data may have to move. */
static int
scope_press(struct pl_scope *scope, struct pl_gpu *gpu, struct cu_stream *stream,
	    enum pl_default_stream flavour, const struct pl_use *uses, size_t n,
	    int captured, unsigned flags)
{
	struct sluice_stream *wrapped;
	struct wanted wanted;
	int rc, follows;
	size_t n_named;

	scope_count(scope, gpu);
	pl_gpu_settled_wait(gpu);
	/* Whoever has a scope open holds what others wait for: it does not wait. */
	if (__builtin_expect(atomic_load(&gpu->gate), 0) && !captured && own_pinned == 1)
		pl_share_pause(gpu, uses_sum(gpu, uses, n));
	if (scope->what && !captured)
		pl_growth_begin(scope->what, scope->shape, uses, n, gpu->device_budget,
				use_resident, &scope->growth);
	wanted_fill(&wanted, gpu, uses, n, &scope->growth, captured, &flags);
	n_named = wanted.n;
	follows = n_named && pl_settings()->follow && !(flags & PL_SCOPE_AWAY) &&
		  pl_settings()->mode == PL_MODE_PAGED;
	pl_enter();
	wrapped = captured ? aside_find(gpu, &rc)
			   : pl_wrapped_find(gpu, stream, flavour, &rc);
	scope->gpu = gpu;
	if (follows && wanted.n_rest)
		wanted.n = pl_ahead_window(gpu, scope->what, wanted.named, wanted.cut,
					   n_named, wanted.n_whole);
	if (wanted.n < n_named && !captured &&
	    !pl_growth_leave(scope->what, scope->shape, uses, n, use_resident, &scope->growth))
		wanted.n = n_named;
	if (!rc)
		rc = scope_open_shared(scope, wrapped, &wanted, flags);
	if (!rc && follows)
		pl_ahead_scope(gpu, scope->what, wanted.named, wanted.cut, n_named,
			       scope->launch);
	pl_leave();
	if (!rc)
		return CU_SUCCESS;
	scope->gpu = NULL;
	scope->launch = NULL;
	pl_error("%s", sluice_last_error());
	return rc == -ENOBUFS || rc == -ENOSPC || rc == -ENOMEM ? CU_ERROR_OUT_OF_MEMORY
								: CU_ERROR_UNKNOWN;
}

static int
scope_begin(struct pl_scope *scope, struct cu_stream *stream, enum pl_default_stream flavour,
	    const struct pl_use *uses, size_t n, unsigned flags)
{
	struct pl_gpu *gpu = NULL;
	int rc, captured, told;

	scope->gpu = scope->unpinned = scope->pinned = NULL;
	scope->launch = scope->all = NULL;
	scope->growth = (struct pl_growth){0};
	if (n)
		gpu = uses[0].block->gpu;
	else if (flags & PL_SCOPE_ALL)
		gpu = pl_gpu_here(); /* none is made for it */
	if (!gpu)
		return CU_SUCCESS;
	captured = flags & PL_SCOPE_LOOK || pl_stream_captures(stream, flavour);
	if (!captured) {
		rc = pl_uses_order(gpu, stream, flavour, uses, n,
				   pl_stream_bit(gpu, stream, flavour), flags);
		if (rc) {
			pl_error("%s", sluice_last_error());
			return CU_ERROR_UNKNOWN;
		}
	}
	if (!scope_is_pressed(scope, gpu))
		return CU_SUCCESS;
	if (captured && !(flags & (PL_SCOPE_CHECKED | PL_SCOPE_LOOK)))
		return CU_SUCCESS;
	told = sl_nvtx_listens() && scope->name;
	if (told)
		sl_nvtx_push(scope->name, 0);
	rc = scope_press(scope, gpu, stream, flavour, uses, n, captured, flags);
	if (told)
		sl_nvtx_pop();
	return rc;
}

/* It was begun, with that result: its time is taken, if somebody wants it. Returns the result. */
static int
scope_begun(struct pl_scope *scope, int result, struct cu_stream *stream,
	    enum pl_default_stream flavour, const struct pl_use *uses, size_t n,
	    unsigned flags, uint64_t since)
{
	scope->timing = NULL;
	if ((pl_timed() || scope->growth.key) && !result)
		pl_timing_begin(scope, stream, flavour, uses, n, flags, since);
	return result;
}

int
pl_scope_begin(struct pl_scope *scope, struct cu_stream *stream,
	       enum pl_default_stream flavour, const struct pl_use *uses, size_t n,
	       unsigned flags)
{
	uint64_t since = pl_timed() ? sl_now_ns() : 0;
	int result = scope_begin(scope, stream, flavour, uses, n, flags);

	return scope_begun(scope, result, stream, flavour, uses, n, flags, since);
}

/* What the scope has brought in may go again. */
static void
scope_close(struct pl_scope *scope)
{
	if (scope->launch || scope->all) {
		pl_enter();
		sluice_launch_end(scope->all);
		sluice_launch_end(scope->launch);
		if (pl_captures_running()) /* the stream may be captured next */
			sl_ends_record(scope->gpu->space);
		pl_leave();
		scope->launch = scope->all = NULL;
	}
	scope_uncount(scope);
}

int
pl_scope_begin_asking(struct pl_scope *scope, struct cu_stream *stream,
		      enum pl_default_stream flavour, const struct pl_use *uses, size_t n,
		      bool (*names_all)(void *arg), void *arg, int *all)
{
	uint64_t since = pl_timed() ? sl_now_ns() : 0;
	int result = scope_begin(scope, stream, flavour, uses, n, 0);

	*all = !result && scope->pinned && !names_all(arg);
	if (*all) {
		scope_close(scope);
		result = scope_begin(scope, stream, flavour, uses, n, PL_SCOPE_ALL);
	}
	return scope_begun(scope, result, stream, flavour, uses, n,
			   *all ? (unsigned)PL_SCOPE_ALL : 0, since);
}

void
pl_scope_end(struct pl_scope *scope)
{
	if (__builtin_expect(scope->timing != NULL, 0))
		pl_timing_end(scope);
	if (scope->unpinned) {
		atomic_fetch_sub(&scope->unpinned->unpinned, 1);
		scope->unpinned = NULL;
		own_unpinned--;
	}
	scope_close(scope);
}

bool
pl_use_of(uint64_t addr, uint64_t bytes, enum sluice_intent intent, struct pl_use *use)
{
	struct pl_block *block;
	uint64_t left;

	if (!bytes || !pl_maybe_ours(addr))
		return false;
	block = pl_data_find(addr);
	if (block && bytes > block->base + block->bytes - addr)
		block = pl_block_find(addr); /* it may go over several suballocations */
	if (!block)
		return false;
	left = block->base + block->bytes - addr;
	*use = (struct pl_use){.block = block,
			       .addr = addr,
			       .bytes = bytes < left ? bytes : left,
			       .intent = intent};
	return true;
}

/* ---- held on the device ---- */

/* Until the contents are there: on a stream of the space's own, which nothing else is queued on. */
static int
block_wait(const struct pl_block *block)
{
	struct sluice_space *space = block->gpu->space;
	const struct sluice_use use = {(void *)(uintptr_t)block->base, block->bytes,
				       SLUICE_USE_READ};
	struct sluice_stream *stream = NULL;
	struct sluice_launch *launch;
	int rc = sluice_stream_create(space, &stream);

	if (!rc)
		rc = sluice_launch_begin(space, stream, &use, 1, &launch);
	if (!rc) {
		sluice_launch_end(launch);
		rc = sluice_stream_synchronize(space, stream);
	}
	sluice_stream_destroy(stream);
	return rc;
}

/* Two threads may do it at once for one block: each waits, one of them pins. */
int
pl_block_pin(struct pl_block *block)
{
	struct sluice_space *space = block->gpu->space;
	unsigned flags = atomic_load_explicit(&block->flags, memory_order_acquire);
	int pins, token, rc = 0;

	if (flags & PL_BLOCK_HELD)
		return CU_SUCCESS;
	token = pl_capture_relax();
	rc = pl_reuse_settle(block); /* who uses it from now on is not seen */
	pl_enter();
	pins = !rc && !(atomic_fetch_or(&block->flags, PL_BLOCK_PINNED) & PL_BLOCK_PINNED);
	if (pins)
		rc = sluice_pin(space, (void *)(uintptr_t)block->base, block->bytes);
	if (rc)
		atomic_fetch_and(&block->flags, ~(unsigned)PL_BLOCK_PINNED);
	else if (atomic_load(&block->gpu->pressure) == PL_OVERSUBSCRIBED)
		rc = block_wait(block);
	pl_leave();
	pl_capture_restore(token);
	if (rc) {
		pl_error("%llu bytes at 0x%llx must stay on the device: %s",
			 (unsigned long long)block->bytes,
			 (unsigned long long)block->base, sluice_last_error());
		return CU_ERROR_OUT_OF_MEMORY;
	}
	/* Not where another thread that was to pin it has failed meanwhile. */
	flags = atomic_load(&block->flags);
	while (flags & PL_BLOCK_PINNED &&
	       !atomic_compare_exchange_weak(&block->flags, &flags, flags | PL_BLOCK_HELD))
		;
	return flags & PL_BLOCK_PINNED ? CU_SUCCESS : CU_ERROR_OUT_OF_MEMORY;
}

void
pl_block_unpin(struct pl_block *block)
{
	if (!(atomic_fetch_and(&block->flags, ~(unsigned)(PL_BLOCK_PINNED | PL_BLOCK_HELD)) &
	      PL_BLOCK_PINNED))
		return;
	pl_enter();
	if (sluice_unpin(block->gpu->space, (void *)(uintptr_t)block->base, block->bytes))
		pl_error("%s", sluice_last_error());
	pl_leave();
}

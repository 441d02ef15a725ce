/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of a copy or a fill: touch.h. The scopes are pl_scope_begin()'s, one a GPU. The
 * addresses of a GPU are together, so uses sorted by address are in groups. Threads that open
 * several scopes open them in the same order.
 *
 * Every multiple of the smallest chunk counts as a border of chunks. That is right for all sizes
 * of chunks, and pieces of that size keep most of the link's rate. They are issued only after
 * the driver has refused the whole.
 *
 * Threads: any.
 */
#include <stdbool.h>

#include "preload/alloc/block.h"
#include "preload/args/functions.h"
#include "preload/args/parts.h"
#include "preload/args/pointer_table.h"
#include "preload/calls/touch.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "preload/scope.h"
#include "preload/streams/capture.h"
#include "sluice/sluice.h"

#define PIECE_BYTES ((uint64_t)2 << 20)

_Static_assert(PL_TABLE_BYTES_MAX < PIECE_BYTES, "tables are small");

void
pl_touch_init(struct pl_touch *touch, struct pl_use *uses, size_t room)
{
	touch->uses = uses;
	touch->room = room;
	touch->n = 0;
	touch->n_scopes = 0;
	touch->named.n = touch->guests.n = 0;
	touch->named.all = 0;
	touch->kind = PL_TOUCH_COPY;
}

void
pl_touch_add(struct pl_touch *touch, uint64_t addr, uint64_t bytes, enum sluice_intent intent)
{
	if (bytes && pl_is_guests(addr))
		pl_guest_use_add(&touch->named, addr, bytes, intent);
	if (touch->n < touch->room && bytes && pl_maybe_ours(addr) &&
	    pl_use_of(addr, bytes, intent, &touch->uses[touch->n]))
		pl_part_note(&touch->uses[touch->n++], touch->kind == PL_TOUCH_FILL);
}

static void
uses_sort(struct pl_use *uses, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct pl_use use = uses[i];
		size_t k = i;

		for (; k && uses[k - 1].addr > use.addr; k--)
			uses[k] = uses[k - 1];
		uses[k] = use;
	}
}

/* Old contents that are read by the same call are of use: the core refuses the contradiction. Sorted. */
static bool
uses_contradict(const struct pl_use *uses, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t end = uses[i].addr + uses[i].bytes;

		for (size_t k = i + 1; k < n && uses[k].addr < end; k++)
			if (uses[k].intent != uses[i].intent &&
			    (uses[i].intent == SLUICE_USE_WRITE_ALL ||
			     uses[k].intent == SLUICE_USE_WRITE_ALL))
				return true;
	}
	return false;
}

static void
uses_keep_contents(struct pl_use *uses, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (uses[i].intent == SLUICE_USE_WRITE_ALL)
			uses[i].intent = SLUICE_USE_WRITE;
}

/* The next scope, over uses of one GPU. */
static int
touch_scope_begin(struct pl_touch *touch, const struct pl_use *uses, size_t n)
{
	static const char *const names[] = {
		[PL_TOUCH_COPY] = "copy",
		[PL_TOUCH_FILL] = "fill",
		[PL_TOUCH_DECOMPRESS] = "decompress",
		[PL_TOUCH_PLACE] = NULL,
	};
	struct pl_gpu *gpu = uses[0].block->gpu;
	struct pl_scope *scope = &touch->scopes[touch->n_scopes];
	int remote = !(touch->flags & PL_SCOPE_LOOK) && pl_peer_is_needed(gpu);

	touch->remote[touch->n_scopes++] = (unsigned char)remote;
	scope->what = 0;
	scope->name = names[touch->kind];
	scope->copies = touch->kind == PL_TOUCH_COPY;
	return remote ? pl_peer_begin(scope, gpu, touch->stream, touch->flavour, uses, n)
		      : pl_scope_begin(scope, touch->stream, touch->flavour, uses, n,
				       touch->flags);
}

static int
touch_open(struct pl_touch *touch)
{
	struct pl_use *uses = touch->uses;
	size_t first = 0, end;
	int result;

	uses_sort(uses, touch->n);
	if (uses_contradict(uses, touch->n))
		uses_keep_contents(uses, touch->n);
	while (first < touch->n) {
		for (end = first + 1; end < touch->n; end++)
			if (uses[end].block->gpu != uses[first].block->gpu)
				break;
		result = touch_scope_begin(touch, uses + first, end - first);
		if (result) {
			pl_touch_end(touch);
			return result;
		}
		first = end;
	}
	return CU_SUCCESS;
}

/* What is captured overwrites nothing yet. */
static void
tables_forget(const struct pl_touch *touch)
{
	for (size_t i = 0; i < touch->n; i++) {
		const struct pl_use *use = &touch->uses[i];

		if (use->intent == SLUICE_USE_WRITE_ALL &&
		    atomic_load(&use->block->flags) & PL_BLOCK_TABLE &&
		    !pl_stream_captures(touch->stream, touch->flavour))
			pl_pointer_table_overwritten(use->block, use->addr, use->bytes);
	}
}

int
pl_touch_begin(struct pl_touch *touch, struct cu_stream *stream, enum pl_default_stream flavour)
{
	int result;

	touch->stream = stream;
	touch->flavour = flavour;
	touch->flags = PL_SCOPE_CHECKED;
	tables_forget(touch);
	result = pl_guest_begin(&touch->guests, stream, flavour, &touch->named);
	if (!result)
		result = touch_open(touch);
	PL_COUNT(copies, !result && touch->n);
	return result;
}

int
pl_touch_look(struct pl_touch *touch)
{
	touch->stream = NULL;
	touch->flavour = PL_LEGACY;
	touch->flags = PL_SCOPE_LOOK;
	return touch_open(touch);
}

bool
pl_touch_look_again(struct pl_touch *touch, int result)
{
	int rc = 0;

	if (touch->flags & PL_SCOPE_AWAY || !pl_touch_is_split(touch, result))
		return false;
	pl_touch_end(touch);
	touch->flags |= PL_SCOPE_AWAY;
	pl_enter();
	for (size_t i = 0; i < touch->n && !rc; i++)
		rc = sluice_evict(touch->uses[i].block->gpu->space,
				  (void *)(uintptr_t)touch->uses[i].addr,
				  touch->uses[i].bytes, SLUICE_TIER_HOST, NULL);
	pl_leave();
	return !rc && touch_open(touch) == CU_SUCCESS;
}

void
pl_touch_end(struct pl_touch *touch)
{
	while (touch->n_scopes) {
		struct pl_scope *scope = &touch->scopes[--touch->n_scopes];

		if (touch->remote[touch->n_scopes])
			pl_peer_end(scope, touch->stream, touch->flavour);
		else
			pl_scope_end(scope);
	}
	pl_guest_end(&touch->guests);
}

int
pl_touch_is_split(const struct pl_touch *touch, int result)
{
	struct sluice_residency residency;
	int found = touch->named.n != 0;

	if (result != CU_ERROR_INVALID_VALUE)
		return 0;
	pl_enter();
	for (size_t i = 0; i < touch->n && !found; i++) {
		const struct pl_use *use = &touch->uses[i];

		found = !sluice_residency(use->block->gpu->space,
					  (void *)(uintptr_t)use->addr, use->bytes,
					  &residency) &&
			residency.tier_bytes[SLUICE_TIER_DEVICE] < use->bytes;
	}
	pl_leave();
	return found;
}

/* Bytes from addr to the next border; what is not ours has none. */
static uint64_t
border_bytes(uint64_t addr)
{
	return pl_is_managed(addr) ? PIECE_BYTES - addr % PIECE_BYTES : UINT64_MAX;
}

/* How many of at most `most` rows from addr on end before the next border. */
static uint64_t
rows_inside(uint64_t addr, uint64_t pitch, uint64_t width, uint64_t most)
{
	uint64_t inside = border_bytes(addr), rows;

	if (inside < width)
		return 0;
	if (inside == UINT64_MAX || !pitch)
		return most;
	rows = 1 + (inside - width) / pitch;
	return rows < most ? rows : most;
}

static uint64_t
smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

int
pl_pieces(const struct pl_side *to, const struct pl_side *from, uint64_t width,
	  uint64_t height, uint64_t depth, pl_issue issue, void *arg)
{
	for (uint64_t z = 0; z < depth; z++) {
		for (uint64_t y = 0, rows; y < height; y += rows) {
			uint64_t a = to->addr ? to->addr + z * to->layer + y * to->pitch : 0;
			uint64_t b = from->addr ? from->addr + z * from->layer + y * from->pitch
						: 0;
			uint64_t n;
			int result;

			rows = smaller(rows_inside(a, to->pitch, width, height - y),
				       rows_inside(b, from->pitch, width, height - y));
			if (rows) {
				result = issue(arg, 0, y, z, width, rows);
				if (result)
					return result;
				continue;
			}
			rows = 1;
			for (uint64_t x = 0; x < width; x += n) {
				n = smaller(border_bytes(a ? a + x : 0),
					    border_bytes(b ? b + x : 0));
				n = smaller(n, width - x);
				result = issue(arg, x, y, z, n, 1);
				if (result)
					return result;
			}
		}
	}
	return CU_SUCCESS;
}

/* Whether host code may read there: not so at addresses of the device, which some programs give where a
 * host pointer is due. */
static bool
host_is_readable(const void *host)
{
	int (*ask)(void *, int, uint64_t) = pl_real[SL_API_cuPointerGetAttribute];
	int type = 0;

	if (!host || pl_is_managed((uintptr_t)host))
		return false;
	return ask(&type, CU_POINTER_MEMORY_TYPE, (uintptr_t)host) != CU_SUCCESS ||
	       type == CU_MEMORY_HOST;
}

void
pl_host_note(uint64_t addr, const void *host, size_t bytes)
{
	/* No memory of ours yet: no addresses of it. */
	if (bytes < sizeof(uint64_t) || bytes > PL_TABLE_BYTES_MAX ||
	    atomic_load(&pl_low) == atomic_load(&pl_high))
		return;
	if (host_is_readable(host))
		pl_pointer_table_note(addr, host, bytes);
}

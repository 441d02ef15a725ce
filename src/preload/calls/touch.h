/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our memory in one copy or fill: its ranges are collected, opened as a scope on each GPU that
 * has some of them, and closed again. If the driver refuses a range that is partly on the device
 * and partly in host memory, the copy is cut into pieces without borders of chunks. Copied host
 * memory is searched for addresses.
 *
 * Used by copy*.c, fill.c and texture.c. Threads: any, objects on the caller's stack.
 */
#ifndef SL_PRELOAD_TOUCH_H
#define SL_PRELOAD_TOUCH_H

#include <stdbool.h>

#include "base/error.h"
#include "preload/api/driver_api.h"
#include "preload/gpu.h"
#include "preload/guest.h"
#include "preload/scope.h"

/* Host bytes of at most so many are looked at for addresses. */
#define PL_TABLE_BYTES_MAX ((size_t)64 << 10)

enum pl_touch_kind {
	PL_TOUCH_COPY,
	PL_TOUCH_FILL,
	PL_TOUCH_DECOMPRESS,
	PL_TOUCH_PLACE /* no work: it must only be there */
};

struct pl_touch {
	struct pl_use *uses; /* the caller's array */
	size_t n, room;
	struct pl_scope scopes[PL_GPUS_MAX];
	unsigned char remote[PL_GPUS_MAX]; /* 1: of another GPU than the calling thread's */
	size_t n_scopes;
	unsigned flags;             /* of the scopes: enum pl_scope_flag */
	enum pl_touch_kind kind;    /* the caller's, behind pl_touch_init() */
	struct pl_guest_uses named; /* of spaces of the program's own */
	struct pl_guest_scope guests;
	struct cu_stream *stream;
	enum pl_default_stream flavour;
};

void pl_touch_init(struct pl_touch *touch, struct pl_use *uses, size_t room);

/* Nothing of ours, nor of a space of the program's own, is touched. */
static inline bool
pl_touch_is_empty(const struct pl_touch *touch)
{
	return !touch->n && !touch->named.n;
}

/* [addr, addr + bytes) is touched; nothing if that is not ours. The array must have room. */
void pl_touch_add(struct pl_touch *touch, uint64_t addr, uint64_t bytes,
		  enum sluice_intent intent);

/*
 * Scopes over all that was added, for work that is put on the stream by the calling thread. The uses are
 * sorted by address; where bytes that are overwritten are also read, nothing counts as overwritten.
 * CUresult; after an error nothing is open. Blocks as pl_scope_begin().
 */
int pl_touch_begin(struct pl_touch *touch, struct cu_stream *stream,
		   enum pl_default_stream flavour) SL_MUST_CHECK;
/* For a call that looks at the memory and enqueues nothing: all of it is on the device, as far as that has
 * room, until pl_touch_end(). CUresult. Blocks on copies. */
int pl_touch_look(struct pl_touch *touch);
/* The driver refused that with this result because not all had room there: now each use is in host memory as a
 * whole, if that has room. 1: worth another try. Once. */
bool pl_touch_look_again(struct pl_touch *touch, int result);
void pl_touch_end(struct pl_touch *touch);

/* ---- peer_gpu.c: memory of another GPU than the stream's ---- */

/* Whether this GPU is not that of the calling thread's context. */
bool pl_peer_is_needed(const struct pl_gpu *gpu);
/* As pl_scope_begin() and end, with uses of such a GPU; the stream is one of the calling thread's
 * context. Driver calls. */
int pl_peer_begin(struct pl_scope *scope, struct pl_gpu *gpu, struct cu_stream *stream,
		  enum pl_default_stream flavour, const struct pl_use *uses,
		  size_t n) SL_MUST_CHECK;
void pl_peer_end(struct pl_scope *scope, struct cu_stream *stream,
		 enum pl_default_stream flavour);

/* Uses of the calling thread's GPU to the front; how many those are. A load where there is one GPU. */
size_t pl_peers_part(struct pl_use *uses, size_t n);

/* The same for uses of several such GPUs, which are put in another order. CUresult; after an error
 * nothing is open. */
struct pl_peers {
	struct pl_scope scopes[PL_GPUS_MAX];
	size_t n;
};

int pl_peers_begin(struct pl_peers *open, struct cu_stream *stream,
		   enum pl_default_stream flavour, struct pl_use *uses,
		   size_t n) SL_MUST_CHECK;
void pl_peers_end(struct pl_peers *open, struct cu_stream *stream,
		  enum pl_default_stream flavour);

/* ---- touch.c ---- */

/* The driver refused the work with this result: 1 if that may be because something of it is on the
 * device, and something in host memory. */
int pl_touch_is_split(const struct pl_touch *touch, int result);

/* One side of a rectangular copy. addr: of its first byte; 0 for what has no address. */
struct pl_side {
	uint64_t addr;
	uint64_t pitch, layer; /* bytes from row to row, from layer to layer */
};

/*
 * Cut width bytes x height x depth into pieces of whole rows that touch no border of chunks on either
 * side, and rows that do into parts. issue: bytes into the row, first row, layer, bytes, rows; returns
 * a CUresult, and what is not 0 ends it and is returned.
 */
typedef int (*pl_issue)(void *arg, uint64_t x, uint64_t y, uint64_t z, uint64_t width,
			uint64_t height);
int pl_pieces(const struct pl_side *to, const struct pl_side *from, uint64_t width,
	      uint64_t height, uint64_t depth, pl_issue issue, void *arg) SL_MUST_CHECK;

/* ---- memop.c ---- */

struct cu_memop;
/* Hold the blocks of the words that these operations name on the device. CUresult. */
int pl_memops_hold(const struct cu_memop *ops, unsigned n) SL_MUST_CHECK;

/* ---- copy2d.c ---- */

/* What a box copy (a memcpy node, say) touches of ours: room for two. Returns how many. */
size_t pl_box_uses(const struct cu_copy_3d *copy, struct pl_use *uses);

/* Host addresses that are ours (managed memory): said to be of the device. */
void pl_box_generalize(struct cu_copy_3d *copy);

/* Bytes from the first to behind the last of a box; UINT64_MAX when they are beyond counting. */
uint64_t pl_box_bytes(const struct pl_side *side, uint64_t width, uint64_t height,
		      uint64_t depth);
/* Whether all of these bytes are in the box. */
bool pl_box_is_dense(const struct pl_side *side, uint64_t width, uint64_t height,
		     uint64_t depth);

/* ---- touch.c ---- */

/* bytes at host are copied to addr in device memory, ours or a module's variable: learn addresses. For
 * what is small, and is host memory as far as the driver knows. Reads host. */
void pl_host_note(uint64_t addr, const void *host, size_t bytes);

/* peer_gpu.c. Whether the process sees one GPU only. A load but for the first time. */
bool pl_device_is_only_one(void);

#endif

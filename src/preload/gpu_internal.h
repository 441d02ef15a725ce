/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a GPU that gpu.c, scope.c, ahead.c and share*.c have in common. */
#ifndef SL_PRELOAD_GPU_INTERNAL_H
#define SL_PRELOAD_GPU_INTERNAL_H

#include "base/error.h"
#include "base/lock.h"
#include "preload/gpu.h"
#include "preload/scope.h"

#define PL_WRAPPED_MAX 1024u /* streams in use at once; a power of two */

struct pl_wrapped {
	struct cu_stream *native;
	struct sluice_stream *stream;
};

struct pl_learner; /* ahead.c */

struct pl_gpu_internal {
	struct sl_rwlock opening; /* SL_RANK_PL_OPENING; see scope.c: scope_open() */
	struct sl_mutex budget; /* SL_RANK_PL_BUDGET: of changing it; and a struct pl_share */
	struct sl_mutex lock; /* SL_RANK_PL_SCOPES: of what follows */
	struct pl_wrapped wrapped[PL_WRAPPED_MAX]; /* open addressing; native NULL: free */
	unsigned n_wrapped;
	struct sluice_stream *aside; /* of ours, for what is captured; NULL: not made yet */
	uint64_t chunk_bytes;
	_Atomic(struct pl_learner *) learner; /* made at the first scope */
};

/* The core's stream for a handle of the program's. NULL with *rc 0: the default one. */
struct sluice_stream *pl_wrapped_find(struct pl_gpu *gpu, struct cu_stream *stream,
				      enum pl_default_stream flavour, int *rc);

/* Put the stream, whose bit it is, behind what may still use the room of blocks that it uses for the first time; with
 * PL_SCOPE_ALL of any block. 0, or -EBUSY with a text. */
int pl_uses_order(struct pl_gpu *gpu, struct cu_stream *stream,
		  enum pl_default_stream flavour, const struct pl_use *uses, size_t n,
		  uint64_t bit, unsigned flags) SL_MUST_CHECK;

void pl_gpu_settled_wait(struct pl_gpu *gpu);

/*
 * A scope is about to be opened with these uses. Those from n_whole on are parts of large blocks. While it
 * is open nothing of those blocks moves. So parts that are expected next are added, up to PL_USES_MAX
 * uses, and brought in with it. Where prefetching has proved slower, absent parts stay where they are.
 * Returns how many of uses are to be on the device: n_whole, n, or more.
 * cut: the bytes of each as the learner is to know it. A trial of longer parts is no other work to it.
 */
size_t pl_ahead_window(struct pl_gpu *gpu, uint64_t what, struct sluice_use *uses,
		       const uint64_t *cut, size_t n, size_t n_whole);
/* A scope with these uses was just opened, for what (the same number for the same work): bring in what
 * followed on it last time. */
void pl_ahead_scope(struct pl_gpu *gpu, uint64_t what, const struct sluice_use *uses,
		    const uint64_t *cut, size_t n, const struct sluice_launch *launch);

#endif

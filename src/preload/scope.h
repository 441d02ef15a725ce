/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that a driver call will touch (scope.c): resident from pl_scope_begin() on.
 *
 * Threads: any. A scope is one thread's.
 */
#ifndef SL_PRELOAD_SCOPE_H
#define SL_PRELOAD_SCOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "preload/api/driver_api.h"
#include "sluice/launch.h"

struct pl_gpu;
struct pl_block;
struct pl_timing;

#define PL_USES_MAX 512u

struct pl_use {
	struct pl_block *block;
	uint64_t addr; /* inside the block */
	uint64_t bytes;
	enum sluice_intent intent;
	int open; /* a kernel's, of a block that has parts (args/parts.h): it may use the rest as well */
};

/* How large the parts of a launch are to be (args/part_growth.h). */
struct pl_growth {
	uint64_t key;       /* of the work; 0: its time is not wanted */
	uint64_t bytes;     /* of its parts */
	uint64_t cut_bytes; /* the same as they are cut */
	unsigned level;     /* 0: as they are cut */
	int again;          /* whether less is to be tried once more */
	int left; /* its parts stay where they are; bytes are those off the device */
};

enum pl_scope_flag {
	PL_SCOPE_ALL = 1, /* may touch any other block as well */
	PL_SCOPE_CHECKED = 2, /* the driver looks at the memory when the call is made: also while the
			       * stream is captured it must be there */
	PL_SCOPE_LOOK = 4, /* that is all it does, and no stream is meant; any GPU's uses */
	PL_SCOPE_AWAY = 8 /* the uses are mapped where they are, and not brought to the device */
};

struct pl_scope {
	struct pl_gpu *gpu;           /* NULL: nothing was opened */
	struct sluice_launch *launch; /* of what is used */
	struct sluice_launch *all;    /* of everything else */
	struct pl_gpu *unpinned;      /* it counts there; NULL: no */
	struct pl_gpu *pinned;        /* the same of those under pressure */
	uint64_t what; /* set before: the same for the same work (a function); 0: a copy or a fill */
	uint64_t shape; /* set before, with what: the size of the work (a grid) */
	struct pl_growth growth;
	const char *name; /* set before: what it is called in a trace; NULL: it is not in one */
	int copies; /* set before: 1: it is a copy, from or to the host where it uses one side only */
	struct pl_timing *timing; /* timings.c's; NULL: its time is not taken */
};

/*
 * Before work that touches uses is enqueued on the stream by the calling thread: what fits is on the
 * device, the rest is mapped in host memory, when that work runs. At ease: nothing. A capturing
 * stream: nothing, unless PL_SCOPE_CHECKED. n 0: nothing, unless PL_SCOPE_ALL. All uses are of the GPU
 * of the calling thread's context: of others see touch.h (pl_peers_begin()). Returns a CUresult:
 * CU_ERROR_OUT_OF_MEMORY (reason on stderr) when the uses fit nowhere. pl_scope_end() also after an
 * error, and when nothing was opened. Blocks while the device is full of work that is not done, and on
 * I/O.
 */
int pl_scope_begin(struct pl_scope *scope, struct cu_stream *stream,
		   enum pl_default_stream flavour, const struct pl_use *uses, size_t n,
		   unsigned flags) SL_MUST_CHECK;
/*
 * The same for work of which it is not known whether the uses are all that it touches. Once they are in place,
 * and if data may move, names_all() is asked. If it denies that, the scope is opened again with PL_SCOPE_ALL, and
 * *all is 1. Blocks as long as names_all() does as well, with the uses in place meanwhile.
 */
int pl_scope_begin_asking(struct pl_scope *scope, struct cu_stream *stream,
			  enum pl_default_stream flavour, const struct pl_use *uses,
			  size_t n, bool (*names_all)(void *arg), void *arg,
			  int *all) SL_MUST_CHECK;
void pl_scope_end(struct pl_scope *scope);
/* A call that may use all of the GPU's data, which all are on the device: nothing moves until the scope's
 * end. false: they may not be, and nothing was opened. */
bool pl_scope_at_ease(struct pl_scope *scope, struct pl_gpu *gpu);
/* Is any scope open, or beginning? Its program is not idle. */
bool pl_scopes_open(const struct pl_gpu *gpu);
/* Are there scopes of other threads that began at ease, so that nothing is pinned for them? */
bool pl_scopes_unpinned(const struct pl_gpu *gpu);

/* The use of [addr, addr + bytes) by a copy or a fill. 1: ours, *use is filled. bytes may go beyond
 * the block's end: cut. */
bool pl_use_of(uint64_t addr, uint64_t bytes, enum sluice_intent intent, struct pl_use *use);

/*
 * Hold a block on the device until it is freed, and wait until its contents are there: what uses it
 * afterwards opens no scope that would wait for them. CUresult. Blocks on copies the first time for a
 * block; then a load. arena.c calls unpin when it frees one with PL_BLOCK_PINNED.
 */
int pl_block_pin(struct pl_block *block) SL_MUST_CHECK;
void pl_block_unpin(struct pl_block *block);
/* The stream is about to be destroyed: forget it. Waits for its work if scopes are open on it. */
void pl_scope_stream_destroyed(struct pl_gpu *gpu, struct cu_stream *stream);

#endif

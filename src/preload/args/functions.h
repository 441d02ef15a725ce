/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Known facts of each kernel function: the layout of its parameters, whether its arguments name
 * all its data, and counts. A record is made at a function's first launch, found without a lock
 * and never freed. pl_launch_forget() makes it unfindable.
 */
#ifndef SL_PRELOAD_FUNCTIONS_H
#define SL_PRELOAD_FUNCTIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/alloc/block.h"
#include "preload/args/parts.h"
#include "preload/scope.h"

/* Launches of a function that are peeked into before it counts as naming all. */
#define PL_PEEKS      3u
/* One that does is peeked into again at its 2^n-th launch, from this on: what it is given may change. */
#define PL_PEEK_AGAIN 32u

enum pl_knowledge {
	PL_UNKNOWN,  /* being peeked into: taken to touch everything */
	PL_DIRECT,   /* its arguments name what it touches */
	PL_INDIRECT, /* addresses were found in memory that it was given */
	PL_OPAQUE    /* its arguments cannot be read: touches everything */
};

struct pl_param {
	uint32_t offset, bytes;
};

struct pl_function {
	const void *handle; /* CUfunction, or CUkernel */
	uint64_t epoch;     /* of handles: pl_launch_forget() begins another */
	struct pl_function *_Atomic next; /* of its bucket. atomic: pairs with the bucket's */
	struct pl_function *all_next;     /* of all, for the walk */
	_Atomic int knowledge; /* enum pl_knowledge. atomic: pairs with pointer_scan.c's stores */
	int told;              /* the user said so: nothing is learnt */
	_Atomic unsigned peeked; /* launches peeked into. atomic: relaxed: a few more do no harm */
	_Atomic unsigned pending; /* of them: not looked at yet */
	/* atomic: relaxed: sums. */
	_Atomic uint64_t launches, all, missed_bytes, waited_ns;
	uint32_t n_params;
	struct pl_param *params;
	char name[128];
};

/* The record of a function; NULL: out of memory. The first time: driver calls. */
struct pl_function *pl_function_find(const void *handle);

/* mangled.c: whether a C++ name, mangled, has a pointer to a pointer among its types. */
bool pl_name_is_indirect(const char *name);

/* policies.c: what the person who started the program knows of a function; PL_UNKNOWN: nothing. */
enum pl_knowledge pl_policy_of(const char *name);

/* Arguments of a launch that are kept for peeks. */
#define PL_WORDS_MAX 64u

/* launch.c. What a kernel's arguments name. uses: room for PL_USES_MAX. Returns their number, *flags gets
 * PL_SCOPE_ALL where the function is not known to name all. kernel: a CUfunction, or a CUkernel cast to one.
 * Looks at learnt layouts; the first time for a function makes driver calls. */
size_t pl_launch_uses(void *function, void **params, void **extra, struct pl_use *uses,
		      unsigned *flags);
/* Modules were unloaded: handles may come again with other functions behind them. */
void pl_launch_forget(void);

/* What is known of a function, for --explain. */
struct pl_function_stats {
	char name[128];
	uint64_t launches;
	uint64_t all;          /* taken to touch everything */
	uint64_t opaque;       /* arguments could not be read */
	uint64_t missed_bytes; /* named, and neither on the device nor on their way there, when
				* it was launched; counted with --explain only, as is the next */
	uint64_t waited_ns; /* of the launching thread for that */
	int indirect;       /* addresses were found in memory it was given */
};

void pl_functions_walk(void (*fn)(const struct pl_function_stats *, void *), void *arg);

/* launch.c: as pl_launch_uses(), and the arguments that name blocks, as they were given: at has room
 * for PL_WORDS_MAX, *n_at gets their number. */
size_t pl_launch_look(void *function, void **params, void **extra, struct pl_use *uses,
		      unsigned *flags, uint64_t *at, size_t *n_at);

/* 1: not enough is known of the function, and peeking may tell. */
static inline bool
pl_function_is_new(const struct pl_function *f)
{
	return atomic_load_explicit(&f->knowledge, memory_order_relaxed) == PL_UNKNOWN &&
	       atomic_load_explicit(&f->peeked, memory_order_relaxed) < PL_PEEKS;
}

/* The same at its n-th launch (0: not counted), where enough seemed to be known. */
static inline bool
pl_function_is_due(const struct pl_function *f, uint64_t n)
{
	return pl_function_is_new(f) ||
	       (n >= PL_PEEK_AGAIN && !(n & (n - 1)) && !f->told &&
		atomic_load_explicit(&f->knowledge, memory_order_relaxed) == PL_DIRECT);
}

/* pointer_scan.c: look into the memory behind what a launch is given, in stream order, for addresses. at: the
 * arguments that name blocks. Enqueues copies; what they bring is looked at later. true: all that can
 * hold an address was copied, and an argument names a block. */
bool pl_pointer_scan(struct pl_function *function, struct cu_stream *stream,
		     enum pl_default_stream flavour, const uint64_t *at, size_t n);
/* The same, and look at what was copied: true if there are no addresses in it. false also where it cannot be
 * looked at soon. Blocks on the stream's earlier work, PEEK_WAIT_NS at most. */
bool pl_pointer_scan_finds_none(struct pl_function *function, struct cu_stream *stream,
				enum pl_default_stream flavour, const uint64_t *at,
				size_t n);
/* Look at what earlier peeks have brought. Cheap when there is nothing. */
void pl_pointer_scans_look(void);

/* Add the whole block, read and written, if it has not been added with this stamp; or, of a block that has
 * parts, that from addr on. uses has room for PL_USES_MAX. Returns their new number. */
static inline size_t
pl_block_use(struct pl_block *block, uint64_t addr, struct pl_use *uses, size_t n,
	     uint64_t stamp)
{
	if (n >= PL_USES_MAX ||
	    atomic_load_explicit(&block->last_launch, memory_order_relaxed) == stamp)
		return n;
	if (pl_block_has_parts(block))
		return pl_part_use(block, addr, uses, n);
	atomic_store_explicit(&block->last_launch, stamp, memory_order_relaxed);
	uses[n] = (struct pl_use){.block = block,
				  .addr = block->base,
				  .bytes = block->bytes,
				  .intent = SLUICE_USE_READ_WRITE};
	return n + 1;
}

/* A stamp for what follows: uses that are gathered under one name each block once. */
uint64_t pl_launch_stamp(void);
/* A word that may be an address: adds its block, once a stamp. */
size_t pl_word_use(uint64_t word, struct pl_use *uses, size_t n, uint64_t stamp);

#endif

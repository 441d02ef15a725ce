/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations by address (block.c).
 *
 * Threads: any. A lookup takes no lock.
 */
#ifndef SL_PRELOAD_BLOCK_H
#define SL_PRELOAD_BLOCK_H

#include <stdatomic.h>
#include <stdint.h>

struct pl_gpu;
struct pl_fence;
struct pl_suballocs;

enum pl_birth {
	PL_BORN_ALLOC,
	PL_BORN_ASYNC,
	PL_BORN_MANAGED,
	PL_BORN_MAPPED, /* memory of cuMemCreate(): what lies side by side in a reserved range (vmm.h) */
	PL_BIRTH_COUNT
};

enum pl_block_flag {
	PL_BLOCK_PINNED = 1, /* held on the device until it is freed (textures, stream memory ops, graphs that
			      * kernels launch) */
	PL_BLOCK_TABLE = 2,  /* holds addresses of ours: members are used with it */
	PL_BLOCK_HELD = 4,   /* pinned, and its contents have arrived */
	PL_BLOCK_DIVIDED = 8 /* has suballocations (suballoc.h) */
};

/* One allocation of the program. Records are reused and never given back, so that one which is
 * looked at while it is freed stays readable. */
struct pl_block {
	/* First address, and bytes as asked for; 0 bytes: no block. atomic: bytes is stored last, with
	 * release, and pairs with record_holds(), which loads it first. */
	uint64_t base, bytes;
	uint64_t room; /* as taken */
	uint64_t id;   /* unique in the process */
	struct pl_gpu *gpu;
	void *context; /* CUcontext current at birth */
	void *pool;    /* CUmemoryPool it counts to, or NULL */
	enum pl_birth birth;
	/* enum pl_block_flag. atomic: pairs with the stores of pl_block_pin(), pointer_table.c and
	 * suballoc.c. */
	_Atomic unsigned flags;
	/* Number of the last launch that named it. atomic: relaxed: a stale one adds a use twice. */
	_Atomic uint64_t last_launch;
	/* Mask of streams that used it since birth, as far as looked at. atomic: relaxed: a stream
	 * asks for its own bit, which its earlier work set. */
	_Atomic uint64_t streams;
	/* Mask of streams that may still use its room from before ...
	 * atomic: pairs with publishing the block. */
	_Atomic uint64_t owed;
	struct pl_fence *lien; /* ... until this has passed (reuse.c); NULL: none. Set at birth */
	/* tracing.c's: its number in the trace, 0: none, as a tensor of how many bytes; 1: it may have
	 * contents. */
	uint64_t tensor, tensor_bytes;
	/* Of its contents: blocks of the codec seen as that tensor. atomic: relaxed: a bound of
	 * work, which a few more do not hurt. */
	_Atomic unsigned sampled;
	_Atomic int touched;            /* atomic: pairs with publishing the block */
	struct pl_suballocs *suballocs; /* suballoc.c's */
};

/* The live block that holds addr; NULL: none (not ours, or freed). Wait-free, tens of ns. */
struct pl_block *pl_block_find(uint64_t addr);

#endif

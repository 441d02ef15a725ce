/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory words that streams wait for and write. The front end of the GPU polls such a word for
 * any time, and does not report when it has seen it. So its block is held on the device until it
 * is freed. No scope is needed, and work that is captured into a graph is covered as well.
 *
 * An operation on a word that cannot be held there is refused with out of memory.
 *
 * Threads: any. Blocks the first time for a block, on copies.
 */
#include <stdbool.h>

#include "preload/alloc/block.h"
#include "preload/api/api_memop.h"
#include "preload/calls/touch.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/scope.h"

/* CUresult. */
static int
word_hold(uint64_t addr)
{
	struct pl_block *block;

	if (!pl_maybe_ours(addr))
		return CU_SUCCESS;
	block = pl_block_find(addr);
	return block ? pl_block_pin(block) : CU_SUCCESS;
}

static int
word_32(__typeof__(&cuStreamWaitValue32) real, struct cu_stream *stream, uint64_t addr,
	uint32_t value, unsigned flags)
{
	int result = pl_active() ? word_hold(addr) : CU_SUCCESS;

	return result ? result : real(stream, addr, value, flags);
}

static int
word_64(__typeof__(&cuStreamWaitValue64) real, struct cu_stream *stream, uint64_t addr,
	uint64_t value, unsigned flags)
{
	int result = pl_active() ? word_hold(addr) : CU_SUCCESS;

	return result ? result : real(stream, addr, value, flags);
}

static bool
memop_has_address(const struct cu_memop *op)
{
	return op->type == CU_MEMOP_WAIT_32 || op->type == CU_MEMOP_WRITE_32 ||
	       op->type == CU_MEMOP_WAIT_64 || op->type == CU_MEMOP_WRITE_64;
}

int
pl_memops_hold(const struct cu_memop *ops, unsigned n)
{
	int result = CU_SUCCESS;

	if (pl_active() && ops)
		for (unsigned i = 0; i < n && !result; i++)
			if (memop_has_address(&ops[i]))
				result = word_hold(ops[i].addr);
	return result;
}

static int
batch(__typeof__(&cuStreamBatchMemOp) real, struct cu_stream *stream, unsigned n,
      struct cu_memop *ops, unsigned flags)
{
	int result = pl_memops_hold(ops, n);

	return result ? result : real(stream, n, ops, flags);
}

/* ---- both forms of both versions ---- */

#define WORD_32(real, flavour, ...) word_32(real, __VA_ARGS__)
#define WORD_64(real, flavour, ...) word_64(real, __VA_ARGS__)
#define BATCH(real, flavour, ...)   batch(real, __VA_ARGS__)

/* clang-format off */
#define DEFINE_32(name) \
	PL_DEFINE_BOTH(name, ptsz, WORD_32, \
		       (struct cu_stream *stream, uint64_t addr, uint32_t value, unsigned flags), \
		       stream, addr, value, flags)
#define DEFINE_64(name) \
	PL_DEFINE_BOTH(name, ptsz, WORD_64, \
		       (struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned flags), \
		       stream, addr, value, flags)
#define DEFINE_BATCH(name) \
	PL_DEFINE_BOTH(name, ptsz, BATCH, \
		       (struct cu_stream *stream, unsigned n, struct cu_memop *ops, unsigned flags), \
		       stream, n, ops, flags)

DEFINE_32(cuStreamWaitValue32)
DEFINE_32(cuStreamWaitValue32_v2)
DEFINE_32(cuStreamWriteValue32)
DEFINE_32(cuStreamWriteValue32_v2)
DEFINE_64(cuStreamWaitValue64)
DEFINE_64(cuStreamWaitValue64_v2)
DEFINE_64(cuStreamWriteValue64)
DEFINE_64(cuStreamWriteValue64_v2)
DEFINE_BATCH(cuStreamBatchMemOp)
DEFINE_BATCH(cuStreamBatchMemOp_v2)
/* clang-format on */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rest of the stand-in driver's words that streams wait for and write, beside those that the back
 * end calls (copy.c): 64 bits, forms whose stream 0 is the thread's own, batches.
 *
 * Threads: any; the.lock as copy.c says.
 */
#include "preload/api/api_memop.h"
#include "api.h"

static int
word_wait(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned bytes,
	  unsigned flags)
{
	return value_submit(CALL_cuStreamWaitValue32, OP_WAIT_VALUE, stream, addr, value,
			    bytes, flags);
}

static int
word_write(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned bytes,
	   unsigned flags)
{
	return value_submit(CALL_cuStreamWriteValue32, OP_WRITE_VALUE, stream, addr,
			    value, bytes, flags);
}

static int
word_batch(struct cu_stream *stream, unsigned n, const struct cu_memop *ops, unsigned flags)
{
	int code = flags || !n || n > 256 ? CU_ERROR_INVALID_VALUE : CU_SUCCESS;

	for (unsigned i = 0; i < n && !code; i++) {
		switch ((enum cu_memop_type)ops[i].type) {
		case CU_MEMOP_WAIT_32:
			code = word_wait(stream, ops[i].addr, (uint32_t)ops[i].value, 4,
					 ops[i].flags);
			break;
		case CU_MEMOP_WRITE_32:
			code = word_write(stream, ops[i].addr, (uint32_t)ops[i].value, 4,
					  ops[i].flags);
			break;
		case CU_MEMOP_WAIT_64:
			code = word_wait(stream, ops[i].addr, ops[i].value, 8, ops[i].flags);
			break;
		case CU_MEMOP_WRITE_64:
			code = word_write(stream, ops[i].addr, ops[i].value, 8, ops[i].flags);
			break;
		case CU_MEMOP_FLUSH:
		case CU_MEMOP_BARRIER:
			break;
		}
	}
	return code;
}

int
cuStreamWaitValue32(struct cu_stream *stream, uint64_t addr, uint32_t value, unsigned flags)
{
	return word_wait(stream, addr, value, 4, flags);
}

int
cuStreamWaitValue32_ptsz(struct cu_stream *stream, uint64_t addr, uint32_t value,
			 unsigned flags)
{
	return word_wait(own(stream), addr, value, 4, flags);
}

int
cuStreamWaitValue32_v2_ptsz(struct cu_stream *stream, uint64_t addr, uint32_t value,
			    unsigned flags)
{
	return word_wait(own(stream), addr, value, 4, flags);
}

int
cuStreamWriteValue32(struct cu_stream *stream, uint64_t addr, uint32_t value, unsigned flags)
{
	return word_write(stream, addr, value, 4, flags);
}

int
cuStreamWriteValue32_ptsz(struct cu_stream *stream, uint64_t addr, uint32_t value,
			  unsigned flags)
{
	return word_write(own(stream), addr, value, 4, flags);
}

int
cuStreamWriteValue32_v2_ptsz(struct cu_stream *stream, uint64_t addr, uint32_t value,
			     unsigned flags)
{
	return word_write(own(stream), addr, value, 4, flags);
}

int
cuStreamWaitValue64(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned flags)
{
	return word_wait(stream, addr, value, 8, flags);
}

int
cuStreamWaitValue64_ptsz(struct cu_stream *stream, uint64_t addr, uint64_t value,
			 unsigned flags)
{
	return word_wait(own(stream), addr, value, 8, flags);
}

int
cuStreamWaitValue64_v2(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned flags)
{
	return word_wait(stream, addr, value, 8, flags);
}

int
cuStreamWaitValue64_v2_ptsz(struct cu_stream *stream, uint64_t addr, uint64_t value,
			    unsigned flags)
{
	return word_wait(own(stream), addr, value, 8, flags);
}

int
cuStreamWriteValue64(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned flags)
{
	return word_write(stream, addr, value, 8, flags);
}

int
cuStreamWriteValue64_ptsz(struct cu_stream *stream, uint64_t addr, uint64_t value,
			  unsigned flags)
{
	return word_write(own(stream), addr, value, 8, flags);
}

int
cuStreamWriteValue64_v2(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned flags)
{
	return word_write(stream, addr, value, 8, flags);
}

int
cuStreamWriteValue64_v2_ptsz(struct cu_stream *stream, uint64_t addr, uint64_t value,
			     unsigned flags)
{
	return word_write(own(stream), addr, value, 8, flags);
}

int
cuStreamBatchMemOp(struct cu_stream *stream, unsigned n, struct cu_memop *ops, unsigned flags)
{
	return word_batch(stream, n, ops, flags);
}

int
cuStreamBatchMemOp_ptsz(struct cu_stream *stream, unsigned n, struct cu_memop *ops,
			unsigned flags)
{
	return word_batch(own(stream), n, ops, flags);
}

int
cuStreamBatchMemOp_v2(struct cu_stream *stream, unsigned n, struct cu_memop *ops,
		      unsigned flags)
{
	return word_batch(stream, n, ops, flags);
}

int
cuStreamBatchMemOp_v2_ptsz(struct cu_stream *stream, unsigned n, struct cu_memop *ops,
			   unsigned flags)
{
	return word_batch(own(stream), n, ops, flags);
}

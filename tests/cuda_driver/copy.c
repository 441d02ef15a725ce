/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's calls that queue copies, fills and words. Addresses are checked here and
 * once more when the work runs (op.c).
 *
 * Source memory that is not pinned is copied when it is queued; a copy to such memory returns when
 * it is done. In a reserved range where the device has nothing mapped, what the CPU has there is
 * ordinary host memory.
 *
 * Threads: any; the.lock, but while memory that is not pinned is read.
 */
#include <string.h>

#include "internal.h"

int
place_enter(const struct op *op, struct cu_context *context, uint64_t addr, int access,
	    struct place *place, int *pageable)
{
	const struct reservation *reservation = reservation_find(addr);
	const char *wrong;

	*place = (struct place){.addr = addr, .device = context->device};
	/* In a reserved range where the device has nothing, the CPU's view is host memory. */
	if (reservation && !(pageable && !view_has_mapping(addr, op->bytes))) {
		place->gpu = 1;
		if (the.settings.no_mixed && view_is_mixed(addr, op->bytes))
			return CU_ERROR_INVALID_VALUE;
		/* Copies between devices need no access of the one to the other. */
		if (reservation->plain)
			place->device = reservation->context->device;
	} else if (addr && pageable && !pinned_find((void *)(uintptr_t)addr)) {
		*pageable = 1;
		return CU_SUCCESS;
	}
	wrong = place_check(place, op->bytes, access);
	return wrong ? violate(CU_ERROR_INVALID_VALUE, "%s: %#llx + %#zx: %s",
			       call_name(op->call), (unsigned long long)addr, op->bytes,
			       wrong)
		     : CU_SUCCESS;
}

/* Any copy. host_to, host_from: that side is a host pointer and need not be pinned. */
int
copy_submit(enum call call, uint64_t to, struct cu_context *to_context, int host_to,
	    uint64_t from, struct cu_context *from_context, int host_from, size_t bytes,
	    struct cu_stream *handle)
{
	struct cu_context *context;
	struct stream *stream;
	int code = stream_enter(call, handle, &context, &stream);
	int pageable_to = 0, pageable_from = 0;
	uint64_t seq;
	struct op *op;

	if (code)
		return code;
	if (!bytes) {
		pthread_mutex_unlock(&the.lock);
		return CU_SUCCESS;
	}
	op = op_new(OP_COPY, call);
	op->bytes = bytes;
	code = place_enter(op, to_context ? to_context : context, to, SL_STANDIN_WRITE,
			   &op->to, host_to ? &pageable_to : NULL);
	if (!code)
		code = place_enter(op, from_context ? from_context : context, from,
				   SL_STANDIN_READ, &op->from,
				   host_from ? &pageable_from : NULL);
	if (code) {
		op_free(op);
		pthread_mutex_unlock(&the.lock);
		return code;
	}
	if (pageable_to || pageable_from)
		call_count(CALL_PAGEABLE);
	op->flags = pageable_to ? 1 : 0;
	if (pageable_from) {
		/* Without the lock: the touch may be served by somebody who calls us. */
		stream_get(stream);
		pthread_mutex_unlock(&the.lock);
		op->staged = must_alloc(bytes, 1);
		memcpy(op->staged, (void *)(uintptr_t)from, bytes);
		pthread_mutex_lock(&the.lock);
		stream_put(stream);
	}
	stream_get(stream);
	code = op_submit(stream, op);
	seq = stream->seq_queued;
	if (!code && pageable_to && !stream->capture) {
		point_wait(stream, seq);
		code = context->lost;
	}
	stream_put(stream);
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct cu_stream *stream)
{
	return copy_submit(CALL_cuMemcpyHtoDAsync, to, NULL, 0, (uintptr_t)from, NULL, 1,
			   bytes, stream);
}

int
cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_submit(CALL_cuMemcpyDtoHAsync, (uintptr_t)to, NULL, 1, from, NULL, 0,
			   bytes, stream);
}

int
cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_submit(CALL_cuMemcpyDtoDAsync, to, NULL, 0, from, NULL, 0, bytes, stream);
}

int
cuMemcpyPeerAsync(uint64_t to, struct cu_context *to_context, uint64_t from,
		  struct cu_context *from_context, size_t bytes, struct cu_stream *stream)
{
	return copy_submit(CALL_cuMemcpyPeerAsync, to, to_context, 0, from, from_context,
			   0, bytes, stream);
}

int
memset_submit(enum call call, uint64_t to, unsigned value, unsigned value_bytes, size_t n,
	      struct cu_stream *handle)
{
	struct cu_context *context;
	struct stream *stream;
	int code = stream_enter(call, handle, &context, &stream);
	struct op *op;

	if (code)
		return code;
	if (!n) {
		pthread_mutex_unlock(&the.lock);
		return CU_SUCCESS;
	}
	op = op_new(OP_MEMSET, call);
	op->value = value;
	op->value_bytes = value_bytes;
	if (n > SIZE_MAX / value_bytes || to % value_bytes) {
		code = violate(CU_ERROR_INVALID_VALUE, "%s: %#llx: not aligned, or too much",
			       call_name(call), (unsigned long long)to);
	} else {
		op->bytes = n * value_bytes;
		code = place_enter(op, context, to, SL_STANDIN_WRITE, &op->to, NULL);
	}
	if (code)
		op_free(op);
	else
		code = op_submit(stream, op);
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuMemsetD8Async(uint64_t to, unsigned char value, size_t n, struct cu_stream *stream)
{
	return memset_submit(CALL_cuMemsetD8Async, to, value, 1, n, stream);
}

int
cuMemsetD32Async(uint64_t to, unsigned value, size_t n, struct cu_stream *stream)
{
	return memset_submit(CALL_cuMemsetD32Async, to, value, 4, n, stream);
}

int
value_submit(enum call call, enum op_kind kind, struct cu_stream *handle, uint64_t addr,
	     uint64_t value, unsigned value_bytes, unsigned flags)
{
	struct cu_context *context;
	struct stream *stream;
	int code = stream_enter(call, handle, &context, &stream);
	struct op *op;

	if (code)
		return code;
	op = op_new(kind, call);
	op->bytes = value_bytes;
	op->value_bytes = value_bytes;
	op->value = value;
	op->flags = flags;
	if (addr % value_bytes ||
	    flags > (kind == OP_WAIT_VALUE ? CU_WAIT_VALUE_NOR
					   : CU_WRITE_VALUE_NO_MEMORY_BARRIER))
		code = violate(CU_ERROR_INVALID_VALUE, "%s: %#llx, flags %#x",
			       call_name(call), (unsigned long long)addr, flags);
	else
		code = place_enter(op, context, addr,
				   kind == OP_WAIT_VALUE ? SL_STANDIN_READ : SL_STANDIN_WRITE,
				   &op->to, NULL);
	if (code)
		op_free(op);
	else
		code = op_submit(stream, op);
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuStreamWaitValue32_v2(struct cu_stream *stream, uint64_t addr, uint32_t value, unsigned flags)
{
	return value_submit(CALL_cuStreamWaitValue32, OP_WAIT_VALUE, stream, addr, value,
			    4, flags);
}

int
cuStreamWriteValue32_v2(struct cu_stream *stream, uint64_t addr, uint32_t value, unsigned flags)
{
	return value_submit(CALL_cuStreamWriteValue32, OP_WRITE_VALUE, stream, addr,
			    value, 4, flags);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on a stream of one GPU that uses memory of another. The other GPU's space cannot record its
 * events in that stream, which belongs to another context, and their default streams differ. So
 * the scope is opened on a stream of the space's own, the relay:
 *   1. The program's stream waits for what the relay waits for.
 *   2. When the work is queued, the relay waits for it, so the data stay until it is done.
 * Each GPU has one relay, made at its first use and kept. Threads share it, so their scopes are
 * serialized: that costs time and orders nothing wrongly. All driver calls here return without
 * waiting.
 *
 * No GPU can access our memory of another GPU: it is mapped for its own. So only transfers by the
 * driver go through here: copies between GPUs, alone or in graphs. A kernel that is given an
 * address of another GPU's block may pass it on, and faults where it touches it, as without peer
 * access (launch.c).
 *
 * Threads: any.
 */

#include <stdbool.h>

#include "base/lock.h"
#include "preload/alloc/block.h"
#include "preload/calls/touch.h"
#include "preload/gpu.h"
#include "preload/gpu_internal.h"
#include "preload/preload.h"
#include "preload/scope.h"
#include "preload/streams/capture.h"
#include "preload/streams/stream.h"
#include "sluice/sluice.h"

struct relay {
	struct sluice_stream *stream; /* NULL: not made yet */
	struct cu_stream *native;
	struct cu_context *context;
};

static struct relay relays[PL_GPUS_MAX]; /* relays_lock; each set once */
static struct sl_mutex relays_lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_SCOPES);
static _Atomic int n_devices; /* 0: not asked for yet */

bool
pl_device_is_only_one(void)
{
	int n = atomic_load(&n_devices);

	if (!n) {
		int (*count)(int *) = pl_real[SL_API_cuDeviceGetCount];

		if (count(&n) || n < 1)
			n = 1;
		atomic_store(&n_devices, n);
	}
	return n == 1;
}

bool
pl_peer_is_needed(const struct pl_gpu *gpu)
{
	return !pl_device_is_only_one() && pl_gpu_here() != gpu;
}

/* Bring the uses of this GPU to the front; their number. */
static size_t
uses_part(struct pl_use *uses, size_t n, const struct pl_gpu *gpu)
{
	size_t front = 0;

	for (size_t i = 0; i < n; i++) {
		struct pl_use use = uses[i];

		if (use.block->gpu != gpu)
			continue;
		uses[i] = uses[front];
		uses[front++] = use;
	}
	return front;
}

size_t
pl_peers_part(struct pl_use *uses, size_t n)
{
	return !n || pl_device_is_only_one() ? n : uses_part(uses, n, pl_gpu_here());
}

/* CUresult. */
static int
relay_make(struct relay *relay, const struct pl_gpu *gpu)
{
	int (*retain)(struct cu_context **, int) = pl_real[SL_API_cuDevicePrimaryCtxRetain];
	int result = CU_SUCCESS;

	sl_mutex_lock(&relays_lock);
	if (!relay->context)
		result = retain(&relay->context, gpu->device); /* the space's, for good */
	if (!result && !relay->stream) {
		if (sluice_stream_create(gpu->space, &relay->stream))
			result = CU_ERROR_OUT_OF_MEMORY;
		else
			relay->native = sluice_stream_native(gpu->space, relay->stream);
	}
	sl_mutex_unlock(&relays_lock);
	return result;
}

static int
context_push(struct cu_context *context)
{
	int (*push)(struct cu_context *) = pl_real[SL_API_cuCtxPushCurrent_v2];

	return context ? push(context) : CU_SUCCESS;
}

static void
context_pop(struct cu_context *context)
{
	int (*pop)(struct cu_context **) = pl_real[SL_API_cuCtxPopCurrent_v2];
	struct cu_context *old;

	if (context)
		(void)pop(&old);
}

/* Let a stream wait for what is queued on another of another context. NULL: the calling thread's
 * context. CUresult. */
static int
peer_stream_wait(struct cu_context *to_context, struct cu_stream *to,
		 struct cu_context *from_context, struct cu_stream *from)
{
	int (*create)(struct cu_event **, unsigned) = pl_real[SL_API_cuEventCreate];
	int (*record)(struct cu_event *, struct cu_stream *) = pl_real[SL_API_cuEventRecord];
	int (*wait)(struct cu_stream *, struct cu_event *,
		    unsigned) = pl_real[SL_API_cuStreamWaitEvent];
	int (*destroy)(struct cu_event *) = pl_real[SL_API_cuEventDestroy_v2];
	struct cu_event *event;
	int result = context_push(from_context);

	if (result)
		return result;
	result = create(&event, CU_EVENT_UNTIMED);
	if (result) {
		context_pop(from_context);
		return result;
	}
	result = record(event, from);
	context_pop(from_context);
	if (!result)
		result = context_push(to_context);
	if (!result) {
		result = wait(to, event, 0);
		context_pop(to_context);
	}
	destroy(event);
	return result;
}

/* Bring in under pressure, and hold the stream back until it is there. */
static int
relay_open(struct pl_scope *scope, const struct relay *relay, struct cu_stream *stream,
	   const struct pl_use *uses, size_t n)
{
	struct sluice_use all[PL_USES_MAX];
	int rc;

	pl_gpu_settled_wait(scope->gpu);
	for (size_t i = 0; i < n; i++)
		all[i] = (struct sluice_use){(void *)(uintptr_t)uses[i].addr,
					     uses[i].bytes, uses[i].intent};
	rc = sluice_launch_begin(scope->gpu->space, relay->stream, all, n, &scope->launch);
	if (!rc)
		return peer_stream_wait(NULL, stream, relay->context, relay->native);
	scope->launch = NULL;
	pl_error("%s", sluice_last_error());
	return CU_ERROR_OUT_OF_MEMORY;
}

int
pl_peer_begin(struct pl_scope *scope, struct pl_gpu *gpu, struct cu_stream *stream,
	      enum pl_default_stream flavour, const struct pl_use *uses, size_t n)
{
	struct relay *relay = &relays[gpu->ordinal];
	int result;

	scope->gpu = NULL;
	scope->launch = NULL;
	if (pl_stream_captures(stream, flavour))
		return CU_SUCCESS;
	pl_enter();
	result = relay_make(relay, gpu);
	if (!result) {
		scope->gpu = gpu;
		if (pl_uses_order(gpu, relay->native, PL_LEGACY, uses, n,
				  pl_stream_bit(gpu, relay->native, PL_LEGACY), 0)) {
			pl_error("%s", sluice_last_error());
			result = CU_ERROR_UNKNOWN;
		}
		if (!result && atomic_load(&gpu->pressure) == PL_OVERSUBSCRIBED)
			result = relay_open(scope, relay,
					    pl_stream_handle(stream, flavour), uses, n);
	}
	pl_leave();
	return result;
}

void
pl_peer_end(struct pl_scope *scope, struct cu_stream *stream, enum pl_default_stream flavour)
{
	const struct relay *relay;
	int result;

	if (!scope->gpu)
		return;
	relay = &relays[scope->gpu->ordinal];
	pl_enter();
	result = peer_stream_wait(relay->context, relay->native, NULL,
				  pl_stream_handle(stream, flavour));
	if (result)
		pl_error("work on memory of GPU %d cannot be waited for (error %d)",
			 scope->gpu->ordinal, result);
	if (scope->launch)
		sluice_launch_end(scope->launch);
	pl_leave();
	scope->launch = NULL;
}

int
pl_peers_begin(struct pl_peers *open, struct cu_stream *stream,
	       enum pl_default_stream flavour, struct pl_use *uses, size_t n)
{
	int result = CU_SUCCESS;

	open->n = 0;
	while (n && !result) {
		struct pl_gpu *gpu = uses[0].block->gpu;
		size_t front = uses_part(uses, n, gpu);

		result = pl_peer_begin(&open->scopes[open->n++], gpu, stream, flavour,
				       uses, front);
		uses += front;
		n -= front;
	}
	if (result)
		pl_peers_end(open, stream, flavour);
	return result;
}

void
pl_peers_end(struct pl_peers *open, struct cu_stream *stream, enum pl_default_stream flavour)
{
	while (open->n)
		pl_peer_end(&open->scopes[--open->n], stream, flavour);
}

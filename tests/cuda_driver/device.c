/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's start, devices and contexts: one primary context a device, counted, and
 * each thread's stack of current ones.
 *
 * A lost context returns its code from every call that needs one. Its release works, and it
 * cannot be retained again in this process. Virtual memory management continues, as with the
 * real driver.
 *
 * Threads: any.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

_Thread_local int in_host_function;
static _Thread_local struct cu_context *stack[STACK_MAX];
static _Thread_local int depth;

static const struct {
	int code;
	const char *name, *text;
} results[] = {{0, "CUDA_SUCCESS", "no error"},
#define RESULT_ROW(name, code, errno_value, lost) {code, "CUDA_ERROR_" #name, #name},
	       CU_RESULTS(RESULT_ROW)
#undef RESULT_ROW
};

__attribute__((constructor)) static void
device_load(void)
{
	settings_read();
}

/* Around a fork: no lock is another thread's in the child, which has calls to refuse. */
static void
device_forks(void)
{
	pthread_mutex_lock(&the.lock);
	notes_hold();
}

static void
device_parent(void)
{
	notes_release();
	pthread_mutex_unlock(&the.lock);
}

static void
device_child(void)
{
	the.forked = the.ready;
	device_parent();
}

int
cuInit(unsigned flags)
{
	int code = call_enter(CALL_cuInit, NEEDS_NOTHING, NULL);
	static int registered; /* the.lock */

	if (code)
		return code;
	if (flags)
		return violate(CU_ERROR_INVALID_VALUE, "cuInit: flags %u", flags);
	if (the.settings.init)
		return the.settings.init;
	if (the.settings.n_devices < 1)
		return CU_ERROR_NO_DEVICE;
	if (the.forked)
		return violate(CU_ERROR_NOT_INITIALIZED, "cuInit: in a forked child");
	pthread_mutex_lock(&the.lock);
	if (!registered)
		pthread_atfork(device_forks, device_parent, device_child);
	registered = 1;
	for (int i = 0; i < DEVICES_MAX; i++)
		the.contexts[i].device = i;
	the.ready = 1;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuDriverGetVersion(int *version)
{
	int code = call_enter(CALL_cuDriverGetVersion, NEEDS_NOTHING, NULL);

	if (code)
		return code;
	*version = the.settings.version;
	return CU_SUCCESS;
}

static int
result_text(int result, const char **name, const char **text)
{
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		if (results[i].code == result) {
			*name = results[i].name;
			*text = results[i].text;
			return CU_SUCCESS;
		}
	*name = *text = NULL;
	return CU_ERROR_INVALID_VALUE;
}

int
cuGetErrorName(int result, const char **name)
{
	const char *text;

	call_count(CALL_cuGetErrorName);
	return result_text(result, name, &text);
}

int
cuGetErrorString(int result, const char **text)
{
	const char *name;

	call_count(CALL_cuGetErrorString);
	return result_text(result, &name, text);
}

/* ---- devices ---- */

/* 0, or what a call with such a device returns. */
static int
device_check(enum call call, int device)
{
	if (device >= 0 && device < the.settings.n_devices)
		return CU_SUCCESS;
	return violate(CU_ERROR_INVALID_DEVICE, "%s: device %d of %d", call_name(call),
		       device, the.settings.n_devices);
}

int
cuDeviceGetCount(int *count)
{
	int code = call_enter(CALL_cuDeviceGetCount, NEEDS_INIT, NULL);

	if (!code)
		*count = the.settings.n_devices;
	return code;
}

int
cuDeviceGet(int *device, int ordinal)
{
	int code = call_enter(CALL_cuDeviceGet, NEEDS_INIT, NULL);

	if (!code)
		code = device_check(CALL_cuDeviceGet, ordinal);
	if (!code)
		*device = ordinal;
	return code;
}

int
cuDeviceGetName(char *name, int name_bytes, int device)
{
	int code = call_enter(CALL_cuDeviceGetName, NEEDS_INIT, NULL);

	if (!code)
		code = device_check(CALL_cuDeviceGetName, device);
	if (!code)
		snprintf(name, (size_t)name_bytes, "Stand-in GPU %d%s%s", device,
			 the.settings.mig ? " MIG " : "",
			 the.settings.mig ? the.settings.mig : "");
	return code;
}

int
cuDeviceGetAttribute(int *value, int attr, int device)
{
	int code = call_enter(CALL_cuDeviceGetAttribute, NEEDS_INIT, NULL);

	if (!code)
		code = device_check(CALL_cuDeviceGetAttribute, device);
	if (code)
		return code;
	switch (attr) {
	case CU_ATTR_MAX_THREADS_PER_BLOCK:
		*value = 1024;
		return CU_SUCCESS;
	case CU_ATTR_MULTIPROCESSOR_COUNT:
		*value = 4;
		return CU_SUCCESS;
	case CU_ATTR_ASYNC_ENGINE_COUNT:
		*value = 3;
		return CU_SUCCESS;
	case CU_ATTR_COMPUTE_CAPABILITY_MAJOR:
		*value = 9;
		return CU_SUCCESS;
	case CU_ATTR_PCI_DEVICE_ID:
		*value = device;
		return CU_SUCCESS;
	case CU_ATTR_CAN_MAP_HOST_MEMORY:
	case CU_ATTR_UNIFIED_ADDRESSING:
	case CU_ATTR_STREAM_PRIORITIES_SUPPORTED:
	case CU_ATTR_HOST_REGISTER_SUPPORTED:
		*value = 1;
		return CU_SUCCESS;
	case CU_ATTR_VMM_SUPPORTED:
		*value = !the.settings.no_vmm;
		return CU_SUCCESS;
	case CU_ATTR_HOST_NUMA_VMM_SUPPORTED:
		if (the.settings.version < 12080)
			return CU_ERROR_INVALID_VALUE; /* a question, no broken rule */
		*value = !the.settings.no_vmm && !the.settings.no_host_vmm;
		return CU_SUCCESS;
	case CU_ATTR_COMPUTE_CAPABILITY_MINOR:
	case CU_ATTR_PCI_BUS_ID:
	case CU_ATTR_PCI_DOMAIN_ID:
	case CU_ATTR_HOST_NUMA_ID:
	case CU_ATTR_MANAGED_MEMORY:
	case CU_ATTR_PAGEABLE_MEMORY_ACCESS:
	case CU_ATTR_CONCURRENT_MANAGED_ACCESS:
		*value = 0;
		return CU_SUCCESS;
	}
	return CU_ERROR_INVALID_VALUE;
}

int
cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	int code = call_enter(CALL_cuDeviceTotalMem, NEEDS_INIT, NULL);

	if (!code)
		code = device_check(CALL_cuDeviceTotalMem, device);
	if (!code)
		*bytes = the.settings.device_bytes;
	return code;
}

int
cuDeviceGetUuid_v2(struct cu_uuid *uuid, int device)
{
	int code = call_enter(CALL_cuDeviceGetUuid, NEEDS_INIT, NULL);

	if (!code)
		code = device_check(CALL_cuDeviceGetUuid, device);
	if (!code) {
		for (unsigned i = 0; i < sizeof(uuid->bytes); i++)
			uuid->bytes[i] = (unsigned char)(0xa0 + i);
		uuid->bytes[15] = (unsigned char)device;
	}
	return code;
}

int
cuDeviceCanAccessPeer(int *can, int device, int peer)
{
	int code = call_enter(CALL_cuDeviceCanAccessPeer, NEEDS_INIT, NULL);

	if (!code)
		code = device_check(CALL_cuDeviceCanAccessPeer, device);
	if (!code)
		code = device_check(CALL_cuDeviceCanAccessPeer, peer);
	if (!code)
		*can = device != peer;
	return code;
}

/* ---- contexts ---- */

struct cu_context *
context_current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

void
context_lose(struct cu_context *context, int code)
{
	struct stream *stream;

	if (!context->lost)
		context->lost = code;
	for (stream = context->streams; stream; stream = stream->next)
		pthread_cond_broadcast(&stream->work);
	pthread_cond_broadcast(&the.done);
}

static int
context_is_ours(const struct cu_context *context)
{
	return context >= the.contexts && context < the.contexts + the.settings.n_devices;
}

int
cuDevicePrimaryCtxRetain(struct cu_context **context, int device)
{
	int code = call_enter(CALL_cuDevicePrimaryCtxRetain, NEEDS_INIT, NULL);
	struct cu_context *mine;

	if (!code)
		code = device_check(CALL_cuDevicePrimaryCtxRetain, device);
	if (code)
		return code;
	mine = &the.contexts[device];
	pthread_mutex_lock(&the.lock);
	code = mine->lost;
	if (!code && !mine->refs++)
		context_streams_create(mine);
	pthread_mutex_unlock(&the.lock);
	if (!code)
		*context = mine;
	return code;
}

int
cuDevicePrimaryCtxRelease_v2(int device)
{
	int code = call_enter(CALL_cuDevicePrimaryCtxRelease, NEEDS_INIT, NULL);
	struct cu_context *mine;

	if (!code)
		code = device_check(CALL_cuDevicePrimaryCtxRelease, device);
	if (code)
		return code;
	mine = &the.contexts[device];
	pthread_mutex_lock(&the.lock);
	if (!mine->refs) {
		code = CU_ERROR_INVALID_CONTEXT;
	} else if (!--mine->refs) {
		context_drain(mine);
		context_streams_destroy(mine);
		context_modules_free(mine);
		context_memory_free(mine);
		context_pinned_free(mine);
		memset(mine->peer, 0, sizeof(mine->peer));
	}
	pthread_mutex_unlock(&the.lock);
	return code ? violate(code, "cuDevicePrimaryCtxRelease: not retained") : 0;
}

/* Contexts beside the primary one are the primary one, retained once more: what a program sees of the
 * difference, streams and events of another context, is not checked. */
int
cuCtxCreate_v2(struct cu_context **context, unsigned flags, int device)
{
	int code = call_enter(CALL_cuCtxCreate, NEEDS_INIT, NULL);

	(void)flags;
	if (!code)
		code = cuDevicePrimaryCtxRetain(context, device);
	return code ? code : cuCtxPushCurrent_v2(*context);
}

int
cuCtxDestroy_v2(struct cu_context *context)
{
	int code = call_enter(CALL_cuCtxDestroy, NEEDS_INIT, NULL);

	if (code)
		return code;
	if (!context_is_ours(context))
		return violate(CU_ERROR_INVALID_VALUE, "cuCtxDestroy: no context");
	return cuDevicePrimaryCtxRelease_v2((int)(context - the.contexts));
}

int
cuCtxSetCurrent(struct cu_context *context)
{
	int code = call_enter(CALL_cuCtxSetCurrent, NEEDS_INIT, NULL);

	if (code)
		return code;
	if (context && !context_is_ours(context))
		return violate(CU_ERROR_INVALID_CONTEXT, "cuCtxSetCurrent: no context");
	if (!context)
		depth -= depth > 0;
	else if (!depth)
		stack[depth++] = context;
	else
		stack[depth - 1] = context;
	return CU_SUCCESS;
}

int
cuCtxGetCurrent(struct cu_context **context)
{
	int code = call_enter(CALL_cuCtxGetCurrent, NEEDS_INIT, NULL);

	if (!code)
		*context = context_current();
	return code;
}

int
cuCtxPushCurrent_v2(struct cu_context *context)
{
	int code = call_enter(CALL_cuCtxPushCurrent, NEEDS_INIT, NULL);

	if (code)
		return code;
	if (!context_is_ours(context))
		return violate(CU_ERROR_INVALID_VALUE, "cuCtxPushCurrent: no context");
	if (depth == STACK_MAX)
		return violate(CU_ERROR_OUT_OF_MEMORY, "cuCtxPushCurrent: %d deep", depth);
	stack[depth++] = context;
	return CU_SUCCESS;
}

int
cuCtxPopCurrent_v2(struct cu_context **context)
{
	int code = call_enter(CALL_cuCtxPopCurrent, NEEDS_INIT, NULL);

	if (code)
		return code;
	if (!depth)
		return violate(CU_ERROR_INVALID_CONTEXT,
			       "cuCtxPopCurrent: none is current");
	depth--;
	if (context)
		*context = stack[depth];
	return CU_SUCCESS;
}

int
cuCtxSynchronize(void)
{
	struct cu_context *context;
	int code = call_enter(CALL_cuCtxSynchronize, NEEDS_CONTEXT, &context);

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	code = capture_spoil_all(context, CALL_cuCtxSynchronize);
	if (!code)
		code = context_drain(context);
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuCtxGetDevice(int *device)
{
	struct cu_context *current = context_current();
	int code = call_enter(CALL_cuCtxGetDevice, NEEDS_INIT, NULL);

	if (code)
		return code;
	if (!current)
		return violate(CU_ERROR_INVALID_CONTEXT,
			       "cuCtxGetDevice: no current context");
	*device = current->device;
	return CU_SUCCESS;
}

int
cuCtxEnablePeerAccess(struct cu_context *peer, unsigned flags)
{
	struct cu_context *context;
	int code = call_enter(CALL_cuCtxEnablePeerAccess, NEEDS_CONTEXT, &context);

	if (code)
		return code;
	if (flags)
		return violate(CU_ERROR_INVALID_VALUE, "cuCtxEnablePeerAccess: flags %u",
			       flags);
	if (!context_is_ours(peer))
		return violate(CU_ERROR_INVALID_CONTEXT,
			       "cuCtxEnablePeerAccess: no context");
	if (peer == context)
		return violate(CU_ERROR_PEER_ACCESS_UNSUPPORTED,
			       "cuCtxEnablePeerAccess: of a device to itself");
	pthread_mutex_lock(&the.lock);
	code = context->peer[peer->device] ? CU_ERROR_PEER_ACCESS_ALREADY_ENABLED : 0;
	context->peer[peer->device] = 1;
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	int code = call_enter(CALL_cuCtxGetStreamPriorityRange, NEEDS_CONTEXT, NULL);

	if (code)
		return code;
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CU_SUCCESS;
}

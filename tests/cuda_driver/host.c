/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's pinned memory: allocated by it, or the program's own and registered.
 * Kernels reach both at the host's address. Freeing waits for the device, as the real driver
 * does; doing so while queued work names the memory is a violation all the same.
 *
 * Threads: any; the.lock.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "internal.h"

struct pinned *
pinned_overlap(const void *data, size_t bytes)
{
	uintptr_t begin = (uintptr_t)data, other;
	struct pinned *pinned;

	for (pinned = the.pinned; pinned; pinned = pinned->next) {
		other = (uintptr_t)pinned->data;
		if (begin < other + pinned->bytes && other < begin + bytes)
			return pinned;
	}
	return NULL;
}

struct pinned *
pinned_find(const void *data)
{
	return pinned_overlap(data, 1);
}

static void
pinned_add(char *data, size_t bytes, int registered, struct cu_context *context)
{
	struct pinned *new = must_alloc(1, sizeof(*new));

	*new = (struct pinned){data, bytes, registered, context, the.pinned};
	the.pinned = new;
	the.host_used += bytes;
	if (registered)
		the.live.registered++;
	else
		the.live.pinned++;
}

static void
pinned_remove(struct pinned *old)
{
	struct pinned **slot = &the.pinned;

	while (*slot != old)
		slot = &(*slot)->next;
	*slot = old->next;
	the.host_used -= old->bytes;
	if (old->registered) {
		the.live.registered--;
	} else {
		the.live.pinned--;
		munmap(old->data, old->bytes);
	}
	free(old);
}

void
context_pinned_free(struct cu_context *context)
{
	struct pinned *pinned = the.pinned, *next;

	for (; pinned; pinned = next) {
		next = pinned->next;
		if (pinned->context == context)
			pinned_remove(pinned);
	}
}

void
pin_delay(uint64_t bytes)
{
	if (the.settings.pin_bytes_per_s)
		sleep_ns((uint64_t)((double)bytes * 1e9 /
				    (double)the.settings.pin_bytes_per_s));
}

int
cuMemHostAlloc(void **data, size_t bytes, unsigned flags)
{
	struct cu_context *context;
	int code = call_enter(CALL_cuMemHostAlloc, NEEDS_CONTEXT, &context);
	size_t page = (size_t)sysconf(_SC_PAGESIZE), rounded;
	char *new;

	*data = NULL; /* also when it fails: so does the real driver */
	if (code)
		return code;
	if (flags & ~7u)
		return violate(CU_ERROR_INVALID_VALUE, "cuMemHostAlloc: flags %#x", flags);
	if (!bytes)
		return CU_SUCCESS;
	rounded = (bytes + page - 1) / page * page;
	pthread_mutex_lock(&the.lock);
	if (rounded < bytes || the.host_used > the.settings.host_bytes ||
	    rounded > the.settings.host_bytes - the.host_used)
		code = CU_ERROR_OUT_OF_MEMORY;
	new = code ? MAP_FAILED
		   : mmap(NULL, rounded, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (new == MAP_FAILED)
		code = CU_ERROR_OUT_OF_MEMORY;
	else
		pinned_add(new, rounded, 0, context);
	pthread_mutex_unlock(&the.lock);
	if (!code) {
		pin_delay(rounded);
		*data = new;
	}
	return code;
}

/* Wait for the device, then free. The lock is dropped while waiting. */
static int
pinned_free(struct cu_context *context, enum call call, struct pinned *pinned)
{
	const char *work = work_in_range((uintptr_t)pinned->data, pinned->bytes, 0);
	char *data = pinned->data;
	int code;

	if (work)
		violate(0, "%s: %p: freed while in use by %s", call_name(call),
			(void *)data, work);
	code = context_drain(context);
	if (!code && pinned_find(data) == pinned)
		pinned_remove(pinned);
	return code;
}

int
cuMemFreeHost(void *data)
{
	struct cu_context *context;
	int code = call_enter(CALL_cuMemFreeHost, NEEDS_CONTEXT, &context);
	struct pinned *pinned;

	if (code || !data)
		return code;
	pthread_mutex_lock(&the.lock);
	pinned = pinned_find(data);
	if (!pinned || pinned->registered || pinned->data != data)
		code = violate(CU_ERROR_INVALID_VALUE,
			       "cuMemFreeHost: %p: not from cuMemHostAlloc", data);
	else
		code = pinned_free(context, CALL_cuMemFreeHost, pinned);
	pthread_mutex_unlock(&the.lock);
	return code;
}

/* Can the CPU read the range? Asked of its first byte and its last: what is pinned is brought
 * in anyway, so that it does not matter if the question does so. */
static int
range_is_there(const char *data, size_t bytes)
{
	char two[2];
	struct iovec to = {two, 2};
	struct iovec from[2] = {{(void *)(uintptr_t)data, 1},
				{(void *)(uintptr_t)(data + bytes - 1), 1}};

	return process_vm_readv(getpid(), &to, 1, from, 2, 0) == 2;
}

int
cuMemHostRegister_v2(void *data, size_t bytes, unsigned flags)
{
	struct cu_context *context;
	int code = call_enter(CALL_cuMemHostRegister, NEEDS_CONTEXT, &context);
	struct pinned *other;
	const char *wrong = NULL;
	int there;

	if (code)
		return code;
	/* Without the lock: the touch may be served by somebody who calls us. */
	there = data && bytes && range_is_there(data, bytes);
	pin_delay(there ? bytes : 0);
	pthread_mutex_lock(&the.lock);
	other = there ? pinned_overlap(data, bytes) : NULL;
	if (!there || (flags & ~15u)) {
		code = CU_ERROR_INVALID_VALUE;
		wrong = "no memory, or unknown flags";
	} else if (other && other->registered) {
		code = CU_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
		wrong = "already registered";
	} else if (other || view_has_mapping((uintptr_t)data, bytes)) {
		code = CU_ERROR_INVALID_VALUE;
		wrong = "the driver's own memory";
	} else if (the.host_used > the.settings.host_bytes ||
		   bytes > the.settings.host_bytes - the.host_used) {
		code = CU_ERROR_OUT_OF_MEMORY;
	} else {
		pinned_add(data, bytes, 1, context);
	}
	pthread_mutex_unlock(&the.lock);
	return wrong ? violate(code, "cuMemHostRegister: %p + %#zx: %s", data, bytes, wrong)
		     : code;
}

int
cuMemHostUnregister(void *data)
{
	struct cu_context *context;
	int code = call_enter(CALL_cuMemHostUnregister, NEEDS_CONTEXT, &context);
	struct pinned *pinned;

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	pinned = pinned_find(data);
	if (!pinned || !pinned->registered)
		code = violate(CU_ERROR_HOST_MEMORY_NOT_REGISTERED,
			       "cuMemHostUnregister: %p: not registered", data);
	else if (pinned->data != data)
		code = violate(CU_ERROR_INVALID_VALUE,
			       "cuMemHostUnregister: %p: not the beginning", data);
	else
		code = pinned_free(context, CALL_cuMemHostUnregister, pinned);
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuMemHostGetDevicePointer_v2(uint64_t *addr, void *data, unsigned flags)
{
	int code = call_enter(CALL_cuMemHostGetDevicePointer, NEEDS_CONTEXT, NULL);
	struct pinned *pinned;

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	pinned = pinned_find(data);
	pthread_mutex_unlock(&the.lock);
	if (!pinned || flags)
		return violate(CU_ERROR_INVALID_VALUE,
			       "cuMemHostGetDevicePointer: %p: not pinned", data);
	*addr = (uintptr_t)data;
	return CU_SUCCESS;
}

/* What an attribute of a pinned block is; 0 or a code. */
static int
pinned_attr(const struct pinned *pinned, int attr, uint64_t addr, void *value)
{
	switch (attr) {
	case CU_POINTER_CONTEXT:
		*(struct cu_context **)value = pinned->context;
		return CU_SUCCESS;
	case CU_POINTER_MEMORY_TYPE:
		*(unsigned *)value = CU_MEMORY_HOST;
		return CU_SUCCESS;
	case CU_POINTER_DEVICE_POINTER:
		*(uint64_t *)value = addr;
		return CU_SUCCESS;
	case CU_POINTER_HOST_POINTER:
		*(void **)value = (void *)(uintptr_t)addr;
		return CU_SUCCESS;
	case CU_POINTER_IS_MANAGED:
		*(int *)value = 0;
		return CU_SUCCESS;
	case CU_POINTER_DEVICE_ORDINAL:
		*(int *)value = pinned->context->device;
		return CU_SUCCESS;
	case CU_POINTER_RANGE_START:
		*(uint64_t *)value = (uintptr_t)pinned->data;
		return CU_SUCCESS;
	case CU_POINTER_RANGE_BYTES:
		*(size_t *)value = pinned->bytes;
		return CU_SUCCESS;
	case CU_POINTER_MAPPED:
		*(int *)value = 1;
		return CU_SUCCESS;
	}
	return CU_ERROR_INVALID_VALUE;
}

static int
mapping_attr(const struct mapping *mapping, int attr, uint64_t addr, void *value)
{
	const struct cu_location *location = &mapping->memory->location;
	int device = location->type == CU_LOCATION_DEVICE;

	switch (attr) {
	case CU_POINTER_MEMORY_TYPE:
		*(unsigned *)value = device ? CU_MEMORY_DEVICE : CU_MEMORY_HOST;
		return CU_SUCCESS;
	case CU_POINTER_DEVICE_POINTER:
		*(uint64_t *)value = addr;
		return CU_SUCCESS;
	case CU_POINTER_IS_MANAGED:
		*(int *)value = 0;
		return CU_SUCCESS;
	case CU_POINTER_DEVICE_ORDINAL:
		*(int *)value = device ? location->id : -1;
		return CU_SUCCESS;
	case CU_POINTER_RANGE_START:
		*(uint64_t *)value = mapping->base;
		return CU_SUCCESS;
	case CU_POINTER_RANGE_BYTES:
		*(size_t *)value = mapping->bytes;
		return CU_SUCCESS;
	case CU_POINTER_MAPPED:
		*(int *)value = 1;
		return CU_SUCCESS;
	}
	return CU_ERROR_INVALID_VALUE;
}

int
cuPointerGetAttribute(void *value, int attr, uint64_t addr)
{
	int code = call_enter(CALL_cuPointerGetAttribute, NEEDS_INIT, NULL);
	struct mapping *mapping;
	struct pinned *pinned;

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	mapping = mapping_at(addr);
	pinned = mapping ? NULL : pinned_find((void *)(uintptr_t)addr);
	/* For memory it does not know the call is a question: no broken rule. */
	code = mapping  ? mapping_attr(mapping, attr, addr, value)
	       : pinned ? pinned_attr(pinned, attr, addr, value)
			: CU_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&the.lock);
	return code;
}

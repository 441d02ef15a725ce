/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's plain device memory (cuMemAlloc and the variables of modules): each a
 * reservation with one mapping, which ends where the allocation does although its memory is whole
 * granules. Freeing waits for the device, as the real driver does.
 *
 * Threads: any; the.lock.
 */
#include <sys/mman.h>

#include "internal.h"

uint64_t
plain_alloc(struct cu_context *context, size_t bytes)
{
	struct cu_location location = {.type = CU_LOCATION_DEVICE, .id = context->device};
	size_t rounded = (bytes + GRANULE_BYTES - 1) / GRANULE_BYTES * GRANULE_BYTES;
	struct reservation *new;
	struct memory *memory;
	struct mapping *mapping;

	if (rounded < bytes)
		return 0;
	memory = memory_new(rounded, &location);
	if (!memory)
		return 0;
	memory->refs = 0; /* the mapping alone keeps it */
	new = reservation_new(rounded, GRANULE_BYTES, 0);
	mapping = new ? mapping_new(new, new->base, bytes, memory) : NULL;
	if (!mapping) {
		memory_put(memory);
		return 0; /* a range, if there is one, is lost with the process */
	}
	for (int i = 0; i < DEVICES_MAX; i++)
		if (i == context->device || the.contexts[i].peer[context->device])
			mapping->access[i] = CU_ACCESS_READ_WRITE;
	mprotect(new->shadow, rounded, PROT_READ | PROT_WRITE);
	new->plain = 1;
	new->context = context;
	reservation_insert(new);
	the.live.plain++;
	return new->base;
}

void
plain_free(struct reservation *reservation)
{
	struct mapping *mapping = reservation->granules[0];

	mapping_remove(reservation, mapping);
	reservation_remove(reservation);
	the.live.plain--;
}

void
context_memory_free(struct cu_context *context)
{
	for (size_t i = the.n_reservations; i-- > 0;)
		if (the.reservations[i]->plain && the.reservations[i]->context == context)
			plain_free(the.reservations[i]);
}

int
cuMemAlloc_v2(uint64_t *addr, size_t bytes)
{
	struct cu_context *context;
	int code = call_enter(CALL_cuMemAlloc, NEEDS_CONTEXT, &context);
	uint64_t new;

	*addr = 0; /* also when it fails: so does the real driver */
	if (code)
		return code;
	if (!bytes)
		return violate(CU_ERROR_INVALID_VALUE, "cuMemAlloc: 0 bytes");
	pthread_mutex_lock(&the.lock);
	new = plain_alloc(context, bytes);
	pthread_mutex_unlock(&the.lock);
	if (!new)
		return CU_ERROR_OUT_OF_MEMORY;
	*addr = new;
	return CU_SUCCESS;
}

int
cuMemFree_v2(uint64_t addr)
{
	struct cu_context *context;
	int code = call_enter(CALL_cuMemFree, NEEDS_CONTEXT, &context);
	struct reservation *reservation;

	if (code || !addr)
		return code;
	pthread_mutex_lock(&the.lock);
	reservation = reservation_find(addr);
	if (!reservation || !reservation->plain || reservation->base != addr) {
		pthread_mutex_unlock(&the.lock);
		return violate(CU_ERROR_INVALID_VALUE,
			       "cuMemFree: %#llx: not from cuMemAlloc",
			       (unsigned long long)addr);
	}
	code = context_drain(context); /* freeing waits for the device */
	if (!code && reservation_find(addr) == reservation)
		plain_free(reservation);
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	struct cu_context *context;
	int code = call_enter(CALL_cuMemGetInfo, NEEDS_CONTEXT, &context);
	uint64_t taken;

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	taken = the.device_used[context->device] + the.device_taken[context->device] +
		shared_taken(context->device);
	if (free_bytes)
		*free_bytes = taken < the.settings.device_bytes
				      ? the.settings.device_bytes - taken
				      : 0;
	if (total_bytes)
		*total_bytes = the.settings.device_bytes;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

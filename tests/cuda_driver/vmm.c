/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's calls of virtual memory management: reserving ranges, mapping, access.
 *
 * Rules, as measured: a handle is mapped whole (offset 0, its size). The range of unmap and of
 * set-access cuts no mapping; that of set-access has no holes, either. A range with mappings or
 * with registered host memory cannot be freed. Host-located memory with access for the CPU is
 * also mapped at the address itself. A comment says where a call is stricter than the real
 * driver.
 *
 * Threads: any; the.lock.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "internal.h"

/* ---- ranges ---- */
int
cuMemAddressReserve(uint64_t *addr, size_t bytes, size_t align_bytes, uint64_t wish,
		    unsigned long long flags)
{
	int code = call_enter(CALL_cuMemAddressReserve, NEEDS_VMM, NULL);
	struct reservation *new;

	if (code)
		return code;
	if (the.settings.no_vmm)
		return violate(CU_ERROR_NOT_SUPPORTED, "cuMemAddressReserve: no VMM");
	if (!is_granular(bytes) || flags || (align_bytes & (align_bytes - 1)))
		return violate(
			CU_ERROR_INVALID_VALUE,
			"cuMemAddressReserve: %zu bytes, alignment %zu, flags %llx",
			bytes, align_bytes, flags);
	pthread_mutex_lock(&the.lock);
	new = reservation_new(bytes,
			      align_bytes > GRANULE_BYTES ? align_bytes : GRANULE_BYTES,
			      wish); /* a wish only: the real driver too may choose another place */
	if (new) {
		reservation_insert(new);
		the.live.reservations++;
		*addr = new->base;
	}
	pthread_mutex_unlock(&the.lock);
	return new ? CU_SUCCESS : CU_ERROR_OUT_OF_MEMORY;
}

int
cuMemAddressFree(uint64_t addr, size_t bytes)
{
	int code = call_enter(CALL_cuMemAddressFree, NEEDS_VMM, NULL);
	struct reservation *old;
	const char *wrong = NULL;

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	old = reservation_find(addr);
	if (!old || old->plain || old->base != addr || old->bytes != bytes)
		wrong = "not a range as reserved";
	for (size_t i = 0; !wrong && i < bytes / GRANULE_BYTES; i++)
		if (old->granules[i])
			wrong = "something is still mapped";
	if (!wrong && pinned_overlap((void *)(uintptr_t)addr, bytes))
		wrong = "host memory in it is still registered";
	if (!wrong) {
		reservation_remove(old);
		the.live.reservations--;
	}
	pthread_mutex_unlock(&the.lock);
	return wrong ? violate(CU_ERROR_INVALID_VALUE, "cuMemAddressFree: %#llx + %#zx: %s",
			       (unsigned long long)addr, bytes, wrong)
		     : CU_SUCCESS;
}

/* ---- mappings ---- */

/* Does the range consist of whole mappings, without a gap? */
static int
range_is_mapped(struct reservation *reservation, uint64_t addr, size_t bytes)
{
	uint64_t at = addr;

	while (at < addr + bytes) {
		struct mapping *mapping = *granule_of(reservation, at);

		if (!mapping || mapping->base != at || mapping->bytes > addr + bytes - at)
			return 0;
		at += mapping->bytes;
	}
	return 1;
}

int
cuMemMap(uint64_t addr, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags)
{
	int code = call_enter(CALL_cuMemMap, NEEDS_VMM, NULL);
	struct reservation *reservation;
	const char *wrong = NULL;
	struct memory *memory;

	if (code)
		return code;
	code = CU_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&the.lock);
	memory = memory_find(handle);
	reservation = reservation_around(addr, bytes);
	if (!memory) {
		wrong = "no such handle";
	} else if (!bytes || flags || addr % GRANULE_BYTES) {
		wrong = "address or size not granular, or flags";
	} else if (offset || bytes != memory->bytes) {
		code = CU_ERROR_NOT_SUPPORTED;
		wrong = "not the whole handle";
	} else if (!reservation || reservation->plain) {
		/* Stricter: the real driver was seen to map a little beyond the end. */
		wrong = "not inside a reserved range";
	} else {
		for (size_t i = 0; i < bytes && !wrong; i += GRANULE_BYTES)
			if (*granule_of(reservation, addr + i))
				wrong = "something is mapped there";
	}
	if (!wrong && !mapping_new(reservation, addr, bytes, memory)) {
		pthread_mutex_unlock(&the.lock);
		return CU_ERROR_OUT_OF_MEMORY;
	}
	if (!wrong)
		the.live.mappings++;
	pthread_mutex_unlock(&the.lock);
	return wrong ? violate(code, "cuMemMap: %#llx + %#zx: %s",
			       (unsigned long long)addr, bytes, wrong)
		     : CU_SUCCESS;
}

/* As for unmapping: no mapping reaches across an end of the range. holes: set if a part has
 * none. */
static int
range_cuts_no_mapping(struct reservation *reservation, uint64_t addr, size_t bytes, int *holes)
{
	*holes = 0;
	for (uint64_t at = addr; at < addr + bytes; at += GRANULE_BYTES) {
		const struct mapping *mapping = *granule_of(reservation, at);

		if (!mapping)
			*holes = 1;
		else if (mapping->base < addr || mapping->base + mapping->bytes > addr + bytes)
			return 0;
	}
	return 1;
}

int
cuMemUnmap(uint64_t addr, size_t bytes)
{
	int code = call_enter(CALL_cuMemUnmap, NEEDS_VMM, NULL);
	struct reservation *reservation;
	const char *wrong = NULL, *work = NULL;
	int running = 0, holes = 0;

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	reservation = reservation_around(addr, bytes);
	if (!reservation || reservation->plain)
		wrong = "not inside a reserved range";
	else if (!is_granular(bytes) || addr % GRANULE_BYTES)
		wrong = "address or size not granular";
	else if (!range_cuts_no_mapping(reservation, addr, bytes, &holes))
		wrong = "a part of a mapping";
	else
		work = work_in_range(addr, bytes, 1);
	for (uint64_t at = addr; !wrong && at < addr + bytes; at += GRANULE_BYTES) {
		struct mapping *mapping = *granule_of(reservation, at);

		if (!mapping)
			continue;
		running |= mapping->uses > 0;
		mapping_remove(reservation, mapping);
		the.live.mappings--;
	}
	pthread_mutex_unlock(&the.lock);
	if (wrong)
		return violate(CU_ERROR_INVALID_VALUE, "cuMemUnmap: %#llx + %#zx: %s",
			       (unsigned long long)addr, bytes, wrong);
	/* The real driver says nothing to either. Work that runs then fails, or does not. */
	if (work || running)
		violate(0, "cuMemUnmap: %#llx + %#zx: unmapped while in use by %s",
			(unsigned long long)addr, bytes, work ? work : "a kernel");
	else if (holes)
		violate(0, "cuMemUnmap: %#llx + %#zx: not all of it is mapped",
			(unsigned long long)addr, bytes);
	return CU_SUCCESS;
}

/* One row of a set-access, on one mapping. 0, or what is wrong. */
static const char *
access_apply(struct mapping *mapping, const struct cu_access *access)
{
	const struct cu_location *location = &access->location;
	struct memory *memory = mapping->memory;

	if (location->type == CU_LOCATION_DEVICE) {
		mapping->access[location->id] = (unsigned char)access->flags;
		return NULL;
	}
	if (access->flags == CU_ACCESS_NONE) {
		cpu_access_drop(mapping);
		return NULL;
	}
	if (mmap((void *)(uintptr_t)mapping->base, mapping->bytes,
		 access->flags == CU_ACCESS_READ ? PROT_READ : PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, memory->fd, (off_t)memory->offset) == MAP_FAILED)
		return "the CPU's view cannot be mapped";
	mapping->cpu_access = 1;
	return NULL;
}

static const char *
access_check(const struct reservation *reservation, uint64_t addr, size_t bytes,
	     const struct cu_access *access, int *code)
{
	const struct cu_location *location = &access->location;

	if (access->flags != CU_ACCESS_NONE && access->flags != CU_ACCESS_READ &&
	    access->flags != CU_ACCESS_READ_WRITE)
		return "unknown flags";
	if (location->type == CU_LOCATION_DEVICE) {
		return location->id >= 0 && location->id < the.settings.n_devices
			       ? NULL
			       : "no such device";
	}
	if (location->type != CU_LOCATION_HOST && location->type != CU_LOCATION_HOST_NUMA)
		return "unknown location";
	for (uint64_t at = addr; at < addr + bytes; at += GRANULE_BYTES)
		if (reservation->granules[(at - reservation->base) / GRANULE_BYTES]
			    ->memory->location.type == CU_LOCATION_DEVICE) {
			*code = CU_ERROR_NOT_SUPPORTED;
			return "the CPU cannot have access to device memory";
		}
	return NULL;
}

int
cuMemSetAccess(uint64_t addr, size_t bytes, const struct cu_access *access, size_t n)
{
	int code = call_enter(CALL_cuMemSetAccess, NEEDS_VMM, NULL);
	struct reservation *reservation;
	const char *wrong = NULL;

	if (code)
		return code;
	code = CU_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&the.lock);
	reservation = reservation_around(addr, bytes);
	if (!bytes || !n || !reservation || reservation->plain)
		wrong = "not inside a reserved range";
	else if (!range_is_mapped(reservation, addr, bytes))
		wrong = "not made of whole mappings";
	for (size_t i = 0; i < n && !wrong; i++)
		wrong = access_check(reservation, addr, bytes, &access[i], &code);
	for (uint64_t at = addr; !wrong && at < addr + bytes;) {
		struct mapping *mapping = *granule_of(reservation, at);

		for (size_t i = 0; i < n && !wrong; i++)
			wrong = access_apply(mapping, &access[i]);
		mprotect(reservation->shadow + (at - reservation->base), mapping->bytes,
			 mapping_protection(mapping));
		at += mapping->bytes;
	}
	pthread_mutex_unlock(&the.lock);
	return wrong ? violate(code, "cuMemSetAccess: %#llx + %#zx: %s",
			       (unsigned long long)addr, bytes, wrong)
		     : CU_SUCCESS;
}

int
cuMemGetAccess(unsigned long long *flags, const struct cu_location *location, uint64_t addr)
{
	int code = call_enter(CALL_cuMemGetAccess, NEEDS_VMM, NULL);
	struct mapping *mapping;

	if (code)
		return code;
	if (location->type == CU_LOCATION_DEVICE &&
	    (location->id < 0 || location->id >= the.settings.n_devices))
		return violate(CU_ERROR_INVALID_DEVICE, "cuMemGetAccess: device %d",
			       location->id);
	pthread_mutex_lock(&the.lock);
	mapping = mapping_at(addr);
	if (mapping && location->type == CU_LOCATION_DEVICE)
		*flags = mapping->access[location->id];
	else if (mapping)
		*flags = mapping->cpu_access ? CU_ACCESS_READ_WRITE : CU_ACCESS_NONE;
	pthread_mutex_unlock(&the.lock);
	return mapping ? CU_SUCCESS
		       : violate(CU_ERROR_INVALID_VALUE, "cuMemGetAccess: %#llx: not mapped",
				 (unsigned long long)addr);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's queries about memory: its size, and the kind of a pointer. About a zero-copy
 * chunk of ours it would say host memory, and show the chunk and not the allocation. So the
 * library answers, as the driver would about its own cuMemAlloc().
 *
 * The free size is device, host and disk together, less the program's own allocations. The total
 * stays the first answer. Some programs size themselves by it. They get the GPU's size, of which
 * some is always left, so that they go on allocating.
 *
 * Threads: any.
 */
#include "preload/alloc/block.h"
#include "preload/api/api_query.h"
#include "preload/gpu.h"
#include "preload/report/announce.h"
#include "preload/share.h"

#include <string.h>

#include "preload/preload.h"
#include "preload/vmm/vmm.h"

#define FLOOR_BYTES \
	((uint64_t)256 << 20) /* of physical memory, always said to be free ... */
#define FLOOR_PART 16u        /* ... or that part of it, if that is less */
#define BLOCK_SYNC (1u << 31) /* flag of a block: CU_POINTER_SYNC_MEMOPS is set */

/* ---- how much ---- */

/* The total that this GPU's memory was first said to be. */
static uint64_t
virtual_total(const struct pl_gpu *gpu)
{
	static _Atomic uint64_t totals[PL_GPUS_MAX];
	uint64_t now = pl_gpu_reported_bytes(gpu), was = 0;

	if (atomic_compare_exchange_strong(&totals[gpu->ordinal], &was, now))
		return now;
	return was;
}

static uint64_t
virtual_free(const struct pl_gpu *gpu)
{
	uint64_t total = virtual_total(gpu), now = pl_gpu_reported_bytes(gpu);
	uint64_t taken = atomic_load(&gpu->allocated_bytes);

	if (total < now)
		now = total;
	return now > taken ? now - taken : 0;
}

static uint64_t
physical_free(const struct pl_gpu *gpu, uint64_t total)
{
	uint64_t taken = atomic_load(&gpu->allocated_bytes);
	uint64_t least = total / FLOOR_PART < FLOOR_BYTES ? total / FLOOR_PART : FLOOR_BYTES;

	uint64_t most = pl_share_most(gpu);

	if (most < taken || most - taken < least)
		return least;
	return most - taken;
}

int
cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	struct pl_gpu *gpu = NULL;
	size_t free_now, total_now;
	int result;

	if (pl_active()) {
		pl_enter();
		gpu = pl_gpu_current();
		pl_leave();
	}
	if (!gpu)
		return PL_REAL(cuMemGetInfo_v2)(free_bytes, total_bytes);
	result = PL_REAL(cuMemGetInfo_v2)(&free_now, &total_now); /* also: is the context all right */
	if (result)
		return result;
	if (pl_meminfo_physical()) {
		free_now = physical_free(gpu, total_now);
	} else {
		free_now = virtual_free(gpu);
		total_now = virtual_total(gpu);
	}
	if (free_bytes)
		*free_bytes = free_now;
	if (total_bytes)
		*total_bytes = total_now;
	return CU_SUCCESS;
}

int
cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	int result = PL_REAL(cuDeviceTotalMem_v2)(bytes, device);
	struct pl_gpu *gpu;

	if (result || !pl_active() || pl_meminfo_physical())
		return result;
	/* Before the GPU has a space nobody knows: what it has is at least true. */
	gpu = pl_gpu_of_device(device);
	if (gpu)
		*bytes = virtual_total(gpu);
	return CU_SUCCESS;
}

/* ---- what a pointer is ---- */

/* What is ours at an address: an allocation, or a mapping of the program's own. */
struct pointee {
	uint64_t base, bytes, id;
	void *context, *pool; /* NULL: it has none */
	int device, managed, sync, access, handle_types;
	struct pl_block *block; /* NULL: of a mapping */
};

enum whose { WHOSE_DRIVERS, WHOSE_OURS, WHOSE_NOBODYS };

static int
device_current(void)
{
	int device = CU_DEVICE_NONE;

	(void)((int (*)(int *))pl_real[SL_API_cuCtxGetDevice])(&device);
	return device;
}

/* NOBODYS: addr lies in a space of ours, in none of its allocations. */
static enum whose
pointee_find(uint64_t addr, struct pointee *out)
{
	struct pl_vmm_view view;
	struct pl_block *block;

	if (!pl_active() || !pl_maybe_ours(addr))
		return WHOSE_DRIVERS;
	block = pl_block_find(addr);
	if (block && block->birth != PL_BORN_MAPPED) {
		*out = (struct pointee){.base = block->base,
					.bytes = block->bytes,
					.id = block->id,
					.context = block->context,
					.pool = block->pool,
					.device = block->gpu->device,
					.managed = block->birth == PL_BORN_MANAGED,
					.sync = !!(atomic_load(&block->flags) & BLOCK_SYNC),
					.access = device_current() == block->gpu->device
							  ? CU_ACCESS_READ_WRITE
							  : CU_ACCESS_NONE,
					.block = block};
		return WHOSE_OURS;
	}
	if (!pl_gpu_of(addr))
		return WHOSE_DRIVERS;
	switch (pl_vmm_view(addr, &view)) {
	case 1:
		*out = (struct pointee){.base = view.base,
					.bytes = view.bytes,
					.id = view.id,
					.device = view.device,
					.sync = view.sync,
					.access = view.access,
					.handle_types = view.handle_types};
		return WHOSE_OURS;
	case -1:
		return WHOSE_DRIVERS;
	}
	return WHOSE_NOBODYS;
}

int
cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t addr)
{
	struct pointee at;

	switch (pointee_find(addr, &at)) {
	case WHOSE_DRIVERS:
		return PL_REAL(cuMemGetAddressRange_v2)(base, bytes, addr);
	case WHOSE_NOBODYS:
		return CU_ERROR_NOT_FOUND;
	case WHOSE_OURS:
		break;
	}
	if (base)
		*base = at.base;
	if (bytes)
		*bytes = at.bytes;
	return CU_SUCCESS;
}

static int
put_64(void *value, uint64_t word)
{
	memcpy(value, &word, sizeof(word));
	return CU_SUCCESS;
}

static int
put_32(void *value, uint32_t word)
{
	memcpy(value, &word, sizeof(word));
	return CU_SUCCESS;
}

/*
 * Attribute of an address of ours, as of memory from cuMemAlloc(), cuMemAllocAsync(), cuMemAllocManaged() or
 * cuMemCreate(). What is documented as a boolean is an int: callers look at all of it, and do not clear it
 * before. The driver is not asked: of what it has not mapped just now it knows nothing.
 */
static int
attribute_of(const struct pointee *at, void *value, int attribute, uint64_t addr)
{
	switch (attribute) {
	case CU_POINTER_CONTEXT:
		return put_64(value, (uintptr_t)at->context);
	case CU_POINTER_MEMORY_TYPE:
		return put_32(value, CU_MEMORY_DEVICE);
	case CU_POINTER_DEVICE_POINTER:
		return put_64(value, addr);
	case CU_POINTER_HOST_POINTER:
		return at->managed ? put_64(value, addr) : CU_ERROR_INVALID_VALUE;
	case CU_POINTER_SYNC_MEMOPS:
		return put_32(value, (uint32_t)at->sync);
	case CU_POINTER_BUFFER_ID:
	case CU_POINTER_BLOCK_ID:
		return put_64(value, at->id);
	case CU_POINTER_IS_MANAGED:
		return put_32(value, (uint32_t)at->managed);
	case CU_POINTER_DEVICE_ORDINAL:
		return put_32(value, (uint32_t)at->device);
	case CU_POINTER_RANGE_START:
	case CU_POINTER_MAPPING_START:
		return put_64(value, at->base);
	case CU_POINTER_RANGE_BYTES:
	case CU_POINTER_MAPPING_BYTES:
		return put_64(value, at->bytes);
	case CU_POINTER_MAPPED:
		return put_32(value, 1);
	case CU_POINTER_HANDLE_TYPES:
		return put_32(value, (uint32_t)at->handle_types);
	case CU_POINTER_IS_IPC_CAPABLE:
	case CU_POINTER_IS_RDMA_CAPABLE:
	case CU_POINTER_IS_DECOMPRESS_CAPABLE:
		return put_32(value, 0);
	case CU_POINTER_ACCESS_FLAGS:
		return put_32(value, (uint32_t)at->access);
	case CU_POINTER_POOL:
		return put_64(value, (uintptr_t)at->pool);
	case CU_POINTER_P2P_TOKENS: /* of a kernel interface that moves no such memory */
		return CU_ERROR_INVALID_VALUE;
	}
	/* A newer driver's: of the chunk, if it knows. */
	return PL_REAL(cuPointerGetAttribute)(value, attribute, addr);
}

int
cuPointerGetAttribute(void *value, int attribute, uint64_t addr)
{
	struct pointee at;
	enum whose whose = pointee_find(addr, &at);

	if (whose == WHOSE_DRIVERS)
		return PL_REAL(cuPointerGetAttribute)(value, attribute, addr);
	return value && whose == WHOSE_OURS ? attribute_of(&at, value, attribute, addr)
					    : CU_ERROR_INVALID_VALUE;
}

/* The answer about what is no pointer, or has no such attribute. */
static void
attribute_none(void *value, int attribute)
{
	switch (attribute) {
	case CU_POINTER_CONTEXT:
	case CU_POINTER_DEVICE_POINTER:
	case CU_POINTER_HOST_POINTER:
	case CU_POINTER_BUFFER_ID:
	case CU_POINTER_RANGE_START:
	case CU_POINTER_RANGE_BYTES:
	case CU_POINTER_POOL:
	case CU_POINTER_MAPPING_BYTES:
	case CU_POINTER_MAPPING_START:
	case CU_POINTER_BLOCK_ID:
		put_64(value, 0);
		return;
	case CU_POINTER_DEVICE_ORDINAL:
		put_32(value, (uint32_t)CU_DEVICE_NONE);
		return;
	}
	put_32(value, 0);
}

int
cuPointerGetAttributes(unsigned n, int *attributes, void **values, uint64_t addr)
{
	struct pointee at;
	enum whose whose = pointee_find(addr, &at);

	if (whose == WHOSE_DRIVERS)
		return PL_REAL(cuPointerGetAttributes)(n, attributes, values, addr);
	if (!n || !attributes || !values)
		return CU_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n; i++)
		if (!values[i])
			return CU_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n; i++)
		if (whose != WHOSE_OURS || attribute_of(&at, values[i], attributes[i], addr))
			attribute_none(values[i], attributes[i]);
	return CU_SUCCESS;
}

int
cuPointerSetAttribute(const void *value, int attribute, uint64_t addr)
{
	struct pointee at;
	enum whose whose = pointee_find(addr, &at);
	unsigned set;

	if (whose == WHOSE_DRIVERS)
		return PL_REAL(cuPointerSetAttribute)(value, attribute, addr);
	if (whose != WHOSE_OURS || !value || attribute != CU_POINTER_SYNC_MEMOPS)
		return CU_ERROR_INVALID_VALUE;
	memcpy(&set, value, sizeof(set));
	if (!at.block)
		pl_vmm_sync_set(addr, !!set);
	else if (set)
		atomic_fetch_or(&at.block->flags, BLOCK_SYNC);
	else
		atomic_fetch_and(&at.block->flags, ~BLOCK_SYNC);
	/* The driver may know of the mapping: it is the one that copies. */
	(void)PL_REAL(cuPointerSetAttribute)(value, attribute, addr);
	return CU_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that map their memory themselves: vmm_test.h. */
#include "vmm_test.h"

#include <dlfcn.h>

const struct cu_allocation vmm_on_device = {
	.type = CU_ALLOCATION_PINNED,
	.location = {.type = CU_LOCATION_DEVICE, .id = 0},
};

const struct cu_access vmm_read_write = {
	.location = {.type = CU_LOCATION_DEVICE, .id = 0},
	.flags = CU_ACCESS_READ_WRITE,
};

void
vmm_start(struct vmm *v, unsigned device_mib, unsigned host_mib)
{
	void *driver, *standin;

	work_start(&v->w, device_mib, host_mib);
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	standin = dlopen(getenv("SLUICE_CUDA_LIBRARY"), RTLD_NOW);
	CHECK(driver && standin);
#define VMM_FIND(name)                             \
	*(void **)&v->name = dlsym(driver, #name); \
	CHECK(v->name);
	VMM_CALLS(VMM_FIND)
#undef VMM_FIND
	*(void **)&v->filled = dlsym(standin, "sl_standin_filled");
	CHECK(v->filled);
}

uint64_t
vmm_create(const struct vmm *v, uint64_t bytes)
{
	uint64_t handle;

	OK(v->w.cuMemCreate(&handle, bytes, &vmm_on_device, 0));
	CHECK(vmm_is_ours(handle));
	return handle;
}

uint64_t
vmm_reserve(const struct vmm *v, uint64_t bytes)
{
	uint64_t addr;

	OK(v->w.cuMemAddressReserve(&addr, bytes, 0, 0, 0));
	CHECK(addr % GRANULE == 0);
	return addr;
}

void
vmm_map(const struct vmm *v, uint64_t addr, uint64_t bytes, uint64_t handle)
{
	OK(v->w.cuMemMap(addr, bytes, 0, handle, 0));
	OK(v->w.cuMemSetAccess(addr, bytes, &vmm_read_write, 1));
}

uint64_t
vmm_alloc(const struct vmm *v, uint64_t bytes, uint64_t *handle)
{
	uint64_t addr;

	*handle = vmm_create(v, bytes);
	addr = vmm_reserve(v, bytes);
	vmm_map(v, addr, bytes, *handle);
	return addr;
}

void
vmm_free(const struct vmm *v, uint64_t addr, uint64_t bytes, uint64_t handle)
{
	OK(v->w.cuMemUnmap(addr, bytes));
	OK(v->w.cuMemRelease(handle));
	OK(v->w.cuMemAddressFree(addr, bytes));
}

void
vmm_write(const struct vmm *v, uint64_t addr, uint64_t bytes, uint64_t value)
{
	work_write(&v->w, addr, bytes / sizeof(uint64_t), value);
}

void
vmm_expect(const struct vmm *v, uint64_t addr, uint64_t bytes, uint64_t value)
{
	work_expect(&v->w, addr, bytes / sizeof(uint64_t), value);
}

void
vmm_add(const struct vmm *v, uint64_t addr, uint64_t bytes, uint64_t value)
{
	work_launch(&v->w, WORK_ADD, NULL, addr, bytes / sizeof(uint64_t), value);
}

uint64_t
vmm_free_bytes(const struct vmm *v)
{
	size_t left, total;

	OK(v->w.cuMemGetInfo_v2(&left, &total));
	return left;
}

int
vmm_is_there(const struct vmm *v, uint64_t addr, uint64_t bytes)
{
	return v->w.standin->mapped(0, addr, bytes, SL_STANDIN_READ);
}

int
vmm_is_ours(uint64_t handle)
{
	return handle >> 48 == 0x51ce;
}

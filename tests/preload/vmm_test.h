/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that maps its device memory itself (cuMemCreate()), on work.h: the calls that work.h
 * lacks, and the steps of such programs. Threads: one. A failure ends the program.
 */
#ifndef SL_TESTS_PRELOAD_VMM_TEST_H
#define SL_TESTS_PRELOAD_VMM_TEST_H

#include "preload/api/api_query.h"
#include "preload/api/api_vmm.h"
#include "work.h"

#define MIB     ((uint64_t)1 << 20)
#define GRANULE (2 * MIB)

int cuDeviceGetCount(int *n);

/* clang-format off */
#define VMM_CALLS(C) \
	C(cuMemExportToShareableHandle) C(cuMemGetAccess) C(cuMemGetAddressRange_v2) \
	C(cuMemGetAllocationGranularity) C(cuMemGetAllocationPropertiesFromHandle) \
	C(cuMulticastBindAddr) C(cuMulticastBindMem) C(cuPointerGetAttribute) \
	C(cuPointerSetAttribute)
/* clang-format on */

struct vmm {
	struct work w;
/* NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define VMM_MEMBER(name) __typeof__(&(name)) name;
	VMM_CALLS(VMM_MEMBER)
#undef VMM_MEMBER
	const struct sl_standin_filled *(*filled)(void);
};

extern const struct cu_allocation vmm_on_device; /* what is plain memory of GPU 0 */
extern const struct cu_access vmm_read_write;    /* by GPU 0 */

/* As work_start(). */
void vmm_start(struct vmm *v, unsigned device_mib, unsigned host_mib);

uint64_t vmm_create(const struct vmm *v, uint64_t bytes);
uint64_t vmm_reserve(const struct vmm *v, uint64_t bytes);
/* Map the handle, whole, and set access. */
void vmm_map(const struct vmm *v, uint64_t addr, uint64_t bytes, uint64_t handle);

/* Memory as XLA takes and gives it: a handle, a range, a mapping, access. */
uint64_t vmm_alloc(const struct vmm *v, uint64_t bytes, uint64_t *handle);
void vmm_free(const struct vmm *v, uint64_t addr, uint64_t bytes, uint64_t handle);

/* As work_write() and work_expect(), in bytes. */
void vmm_write(const struct vmm *v, uint64_t addr, uint64_t bytes, uint64_t value);
void vmm_expect(const struct vmm *v, uint64_t addr, uint64_t bytes, uint64_t value);
/* Add value to each word, by a kernel that is given addr alone. */
void vmm_add(const struct vmm *v, uint64_t addr, uint64_t bytes, uint64_t value);

/* Device memory that is said to be free. */
uint64_t vmm_free_bytes(const struct vmm *v);
/* 1: the GPU can reach all of it at this moment. */
int vmm_is_there(const struct vmm *v, uint64_t addr, uint64_t bytes);
/* 1: served by us, as the library numbers its handles; 0: the driver's. */
int vmm_is_ours(uint64_t handle);

#endif

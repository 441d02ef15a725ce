/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of the driver's virtual memory management that is wrapped (vmm.c, vmm_query.c).
 * Forwarded: cuMemGetAllocationGranularity(), which is the same for our memory;
 * cuMemMapArrayAsync(), whose handles are of another usage and the driver's.
 */
#ifndef SL_PRELOAD_API_VMM_H
#define SL_PRELOAD_API_VMM_H

#include "preload/api/driver_api.h"

/* vmm.c */
PL_EXPORT int cuMemAddressReserve(uint64_t *addr, size_t bytes, size_t align_bytes,
				  uint64_t wish, unsigned long long flags);
PL_EXPORT int cuMemAddressFree(uint64_t addr, size_t bytes);
PL_EXPORT int cuMemCreate(uint64_t *handle, size_t bytes,
			  const struct cu_allocation *what, unsigned long long flags);
PL_EXPORT int cuMemRelease(uint64_t handle);
PL_EXPORT int cuMemMap(uint64_t addr, size_t bytes, size_t offset, uint64_t handle,
		       unsigned long long flags);
PL_EXPORT int cuMemUnmap(uint64_t addr, size_t bytes);
PL_EXPORT int cuMemSetAccess(uint64_t addr, size_t bytes, const struct cu_access *access,
			     size_t n);

/* vmm_query.c */
PL_EXPORT int cuMemGetAccess(unsigned long long *flags,
			     const struct cu_location *location, uint64_t addr);
PL_EXPORT int cuMemRetainAllocationHandle(uint64_t *handle, void *addr);
PL_EXPORT int cuMemGetAllocationPropertiesFromHandle(struct cu_allocation *what,
						     uint64_t handle);
PL_EXPORT int cuMemExportToShareableHandle(void *shared, uint64_t handle, int type,
					   unsigned long long flags);
PL_EXPORT int cuMulticastBindMem(uint64_t group, size_t group_offset, uint64_t handle,
				 size_t offset, size_t bytes, unsigned long long flags);
PL_EXPORT int cuMulticastBindAddr(uint64_t group, size_t offset, uint64_t addr,
				  size_t bytes, unsigned long long flags);

#endif

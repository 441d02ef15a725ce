/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of a space's addresses. The preload library looks for addresses in data: does this
 * buffer hold pointers? Other data must not look like them. Left to itself the driver gives
 * ranges of terabytes from 0x0100_0000_0000 on. Eight bytes of a mask of booleans are such an
 * address: 00 00 01 00 01 .. from the top. Such masks are common.
 *
 * So the device asks for a place with rare upper bytes. They are neither small numbers nor the
 * upper half of usual ones: 0x5db3 is 1.6e18 as bfloat16, 365 as a half (with a zero above it),
 * 23987 as an integer. The driver may give another place. If that begins too low, its first part
 * is left unused.
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/size.h"
#include "device/cuda/cuda.h"

/* Addresses are reserved aligned to the largest chunk. */
#define ALIGN ((size_t)SL_GRANULE_BYTES << (SL_CUDA_CLASSES - 1))

/* Above where programs are loaded, below where the system puts libraries, stacks and mappings. */
#define WISH_BEGIN UINT64_C(0x5db300000000)
#define WISH_END   UINT64_C(0x7c0000000000)
#define USED_BEGIN UINT64_C(0x02b300000000) /* what lies lower looks like data */

/* A place for so many bytes that no other space of this process has wished for; 0: none is left. */
static uint64_t
wish_next(uint64_t bytes)
{
	static _Atomic uint64_t next = WISH_BEGIN;
	uint64_t wish = atomic_load(&next), taken = sl_round_up(bytes, ALIGN);

	do {
		if (taken > WISH_END - wish)
			return 0;
	} while (!atomic_compare_exchange_weak(&next, &wish, wish + taken));
	return wish;
}

uint64_t
sl_cuda_addresses_unused(uint64_t base, uint64_t bytes)
{
	uint64_t unused = base < USED_BEGIN ? sl_round_up(USED_BEGIN - base, ALIGN) : 0;

	return unused <= bytes / 2 ? unused : 0;
}

/* 0 or -errno. */
static int
addresses_reserve(struct cuda *cuda, uint64_t bytes)
{
	uint64_t wish = wish_next(bytes), unused;
	int rc;

	if (!wish ||
	    cuda->driver->cuMemAddressReserve(&cuda->reserved, bytes, ALIGN, wish, 0)) {
		rc = CUDA_TRY(cuda, cuMemAddressReserve, &cuda->reserved, bytes, ALIGN, 0, 0);
		if (rc) {
			cuda->reserved = 0;
			return sl_fail_in(rc, "device: reserving %llu bytes of addresses",
					  (unsigned long long)bytes);
		}
	}
	cuda->reserved_bytes = bytes;
	unused = sl_cuda_addresses_unused(cuda->reserved, bytes);
	cuda->dev.base = (void *)(uintptr_t)(cuda->reserved + unused);
	cuda->dev.bytes = bytes - unused;
	return 0;
}

int
sl_cuda_addresses_create(struct cuda *cuda, const struct sl_device_config *config)
{
	struct sl_device_config hostmap = *config;
	void *p;
	int rc;

	if (!config->address_bytes || config->address_bytes % SL_GRANULE_BYTES)
		return sl_fail(-EINVAL, "device: address range of %zu bytes: must be a multiple of %u",
			       config->address_bytes, SL_GRANULE_BYTES);
	rc = addresses_reserve(cuda, config->address_bytes);
	if (rc)
		return rc;
	cuda->chunks_bytes = cuda->dev.bytes / SL_GRANULE_BYTES *
			     (sizeof(*cuda->chunks) + sizeof(*cuda->attached));
	p = mmap(NULL, cuda->chunks_bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return sl_fail(-ENOMEM, "device: out of memory for its table of chunks");
	cuda->chunks = p;
	cuda->attached = (unsigned char *)(cuda->chunks + cuda->dev.bytes / SL_GRANULE_BYTES);
	hostmap.address_base = cuda->dev.base;
	hostmap.address_bytes = cuda->dev.bytes;
	hostmap.workers = 1; /* it runs no kernels */
	rc = sl_device_soft_create(&hostmap, &cuda->hostmap);
	if (rc)
		cuda->hostmap = NULL;
	return config->hostmap_optional && (rc == -EPERM || rc == -ENOTSUP) ? 0 : rc;
}

void
sl_cuda_addresses_destroy(struct cuda *cuda)
{
	if (cuda->hostmap)
		cuda->hostmap->ops->destroy(cuda->hostmap);
	if (cuda->reserved)
		(void)cuda->driver->cuMemAddressFree(cuda->reserved, cuda->reserved_bytes);
	if (cuda->chunks)
		munmap(cuda->chunks, cuda->chunks_bytes);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing our memory with other processes and devices. It consists of many pieces of physical
 * memory that come and go, so none of the driver's ways can name it. Each call is refused with
 * the code that libraries take for "not this kind of memory"; they have another way then. If the
 * call would have worked without the library, the first refusal prints a remedy on stderr.
 * Memory of pools and handles that were not made for sharing would not have worked. Those made
 * for sharing are the driver's (pool.c), or become so (vmm_query.c). Calls on unmanaged memory
 * are forwarded.
 *
 * Threads: any. Blocks on nothing.
 */
#include <stdbool.h>
#include <unistd.h>

#include "preload/alloc/block.h"
#include "preload/api/api_foreign.h"
#include "preload/gpu.h"
#include "preload/preload.h"

static bool
is_ours(uint64_t addr)
{
	return pl_active() && pl_maybe_ours(addr) && pl_block_find(addr);
}

int
cuIpcGetMemHandle(struct cu_ipc_handle *handle, uint64_t addr)
{
	static _Atomic int told;

	if (!is_ours(addr))
		return PL_REAL(cuIpcGetMemHandle)(handle, addr);
	if (!atomic_exchange(&told, 1))
		pl_error("device memory cannot be shared with another process (CUDA IPC) "
			 "while it is "
			 "paged: share host memory, or run this program without sluice");
	return CU_ERROR_NOT_SUPPORTED;
}

int
cuMemGetHandleForAddressRange(void *handle, uint64_t addr, size_t bytes, int type,
			      unsigned long long flags)
{
	static _Atomic int told;

	if (!is_ours(addr))
		return PL_REAL(cuMemGetHandleForAddressRange)(handle, addr, bytes, type,
							      flags);
	if (!atomic_exchange(&told, 1))
		pl_error("device memory cannot be given to another device (dma-buf) "
			 "while it is paged: "
			 "let it go through host memory, or run this program without "
			 "sluice");
	return CU_ERROR_INVALID_VALUE;
}

int
cuMemPoolExportPointer(void *data, uint64_t addr)
{
	return is_ours(addr) ? CU_ERROR_INVALID_VALUE
			     : PL_REAL(cuMemPoolExportPointer)(data, addr);
}

int
cuCheckpointProcessCheckpoint(int process, void *arguments)
{
	static _Atomic int told;

	/* Our records would not be those of the process that is restored. */
	if (!pl_active() || process != getpid() ||
	    atomic_load(&pl_low) >= atomic_load(&pl_high))
		return PL_REAL(cuCheckpointProcessCheckpoint)(process, arguments);
	if (!atomic_exchange(&told, 1))
		pl_error("a process whose device memory is paged cannot be checkpointed: "
			 "run "
			 "this program without sluice");
	return CU_ERROR_NOT_SUPPORTED;
}

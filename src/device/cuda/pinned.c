/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory for copies: ordinary memory in huge pages, which is registered with the driver.
 *
 * Memory of the driver's (cuMemCreate) can be mapped for kernels. But the driver makes it under one lock, at 3.5 to
 * 4.9 GB/s on an H100's machine, whatever the number of threads. Ordinary memory is filled by the kernel: 4.1 GB/s
 * by one thread, 14.5 by four, 8.1 by sixteen. (Another machine: 2.5 to 4.0 by the driver, 3.8 by one thread, 5.8 by
 * four, less by eight.) Registering it takes 0.03 ms a MiB in huge pages, and 0.06 in small ones.
 *
 * One thread registers at a time. The driver does so under a lock for all programs, and cuMemSetAccess() of a launch
 * waits for it behind all that came before: 20 to 100 ms beside two programs with four threads each. Two trainings
 * of 51.5 GiB, of 20 steps, took 34 s so, and 45 s by four threads each (H100).
 *
 * Address space is taken for many frames at a time. Each call that changes it waits until no thread fills pages. Others
 * wait behind it, and the one that registers has the driver's lock meanwhile: with seven such calls a frame, to make a
 * chunk present took 9 ms while frames were made (H100).
 *
 * As memory of the driver's, it is not in core dumps.
 *
 * A fork would make the pages copy-on-write, and the GPU would go on with the parent's old ones. So children do not
 * get this memory.
 */
#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/size.h"
#include "device/cuda/cuda.h"

#define HUGE_BYTES ((uint64_t)2 << 20)
#define NODES      1024 /* that a mask has */
/* Addresses taken at a time: 32 of the largest frames. They cost nothing until they are used. */
#define MANY_BYTES ((uint64_t)1 << 30)

/* On the GPU's node, if there is room. Without such a choice it is where the thread runs. */
static void
node_prefer(void *data, uint64_t bytes, int node)
{
	unsigned long mask[NODES / (8 * sizeof(unsigned long))] = {0};
	unsigned each = 8 * sizeof(mask[0]);

	if (node < 0 || node >= NODES)
		return;
	mask[(unsigned)node / each] = 1UL << (unsigned)node % each;
	(void)syscall(SYS_mbind, data, bytes, MPOL_PREFERRED, mask, (unsigned long)NODES, 0);
}

/* Address space at a huge page's boundary, with what is to be said about it; NULL: there is none. */
static char *
addresses_map(const struct cuda *cuda, uint64_t bytes)
{
	char *got = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t before, behind;

	if (got == MAP_FAILED)
		return NULL;
	before = sl_round_up((uintptr_t)got, HUGE_BYTES) - (uintptr_t)got;
	behind = HUGE_BYTES - before;
	if (before)
		(void)munmap(got, before);
	if (behind)
		(void)munmap(got + before + bytes, behind);
	got += before;
	(void)madvise(got, bytes, MADV_HUGEPAGE);
	(void)madvise(got, bytes, MADV_DONTDUMP);
	node_prefer(got, bytes, cuda->info.host_node);
	if (!madvise(got, bytes, MADV_DONTFORK))
		return got;
	(void)munmap(got, bytes);
	return NULL;
}

/* Of those taken for many, if the system has as many. */
static char *
addresses_get(struct cuda *cuda, uint64_t bytes)
{
	uint64_t many = bytes > MANY_BYTES ? bytes : MANY_BYTES;
	char *got;

	sl_mutex_lock(&cuda->registering);
	if (cuda->addresses_bytes < bytes) {
		sl_cuda_pinned_end(cuda);
		cuda->addresses = sl_fault_point("frame.addresses")
					  ? NULL
					  : addresses_map(cuda, many);
		if (!cuda->addresses)
			cuda->addresses = addresses_map(cuda, many = bytes);
		cuda->addresses_bytes = cuda->addresses ? many : 0;
	}
	got = cuda->addresses;
	if (got) {
		cuda->addresses += bytes;
		cuda->addresses_bytes -= bytes;
	}
	sl_mutex_unlock(&cuda->registering);
	return got;
}

void
sl_cuda_pinned_end(struct cuda *cuda)
{
	if (cuda->addresses_bytes)
		(void)munmap(cuda->addresses, cuda->addresses_bytes);
	cuda->addresses = NULL;
	cuda->addresses_bytes = 0;
}

/* Page by page: the kernel's lock on the address space is held for one. A thread that registers memory waits for
 * that lock, and has the driver's meanwhile, which copies wait for. No page is begun while one registers: the kernel
 * lets threads that fill pages go first, and registering took as long as another thread's frame. */
static int
pages_make(struct cuda *cuda, char *data, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += HUGE_BYTES) {
		sl_mutex_lock(&cuda->registering);
		sl_mutex_unlock(&cuda->registering);
		if (!madvise(data + at, HUGE_BYTES, MADV_POPULATE_WRITE))
			continue;
		if (errno != EINVAL)
			return sl_fail(-ENOMEM, "making its pages: %s", sl_errno_name(errno));
		memset(data + at, 0, HUGE_BYTES); /* Linux before 5.14 */
	}
	return 0;
}

int
sl_cuda_pinned_make(struct cuda *cuda, uint64_t bytes, void **out)
{
	char *data = addresses_get(cuda, bytes);
	int rc;

	if (!data)
		return sl_fail(-ENOMEM, "no address space");
	rc = pages_make(cuda, data, bytes);
	if (!rc) {
		sl_mutex_lock(&cuda->registering);
		rc = CUDA_TRY(cuda, cuMemHostRegister, data, bytes,
			      CU_HOST_REGISTER_PORTABLE);
		sl_mutex_unlock(&cuda->registering);
	}
	if (rc)
		(void)munmap(data, bytes);
	else
		*out = data;
	return rc;
}

void
sl_cuda_pinned_free(struct cuda *cuda, void *data, uint64_t bytes)
{
	(void)cuda->driver->cuMemHostUnregister(data);
	(void)munmap(data, bytes);
}

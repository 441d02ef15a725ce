/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetch-and-pin, the kernel's side (CUDA C). The host opens it with sluice_fetch_open() and hands
 * the view to the kernel; see sluice/fetch.h for the rule that keeps it free of deadlock.
 *
 *	__global__ void sum(struct sluice_fetch_view f, const double *p, size_t n, ...)
 *	{
 *		for (size_t at = blockIdx.x * TILE; at < n; at += gridDim.x * TILE) {
 *			if (sluice_acquire(f, p + at, TILE * sizeof(*p), SLUICE_USE_READ))
 *				return;
 *			... use p[at] ... p[at + TILE - 1] ...
 *			sluice_release(f);
 *		}
 *	}
 *
 * All functions are for the whole block: every thread calls them, with the same arguments.
 */
#ifndef SLUICE_DEVICE_CUH
#define SLUICE_DEVICE_CUH

#include "sluice/fetch.h"

__device__ static inline struct sluice_fetch_box *
sluice_fetch_box_(const struct sluice_fetch_view &f)
{
	uint64_t block = blockIdx.x + (uint64_t)gridDim.x * (blockIdx.y + (uint64_t)gridDim.y * blockIdx.z);

	return block < f.n_blocks ? &f.box[block] : nullptr;
}

/* One request of this block, answered. Thread 0 only. */
__device__ static inline int
sluice_fetch_ask_(volatile struct sluice_fetch_box *box, uint32_t op)
{
	uint64_t number = box->reply + 1;
	unsigned pause = 100;

	box->op = op;
	__threadfence_system();
	box->request = number;
	__threadfence_system();
	while (box->reply != number) {
		__nanosleep(pause);
		if (pause < 2000)
			pause += 100;
	}
	__threadfence_system();
	return box->rc;
}

__device__ static inline int
sluice_fetch_broadcast_(int rc)
{
	__shared__ int answer;

	if (threadIdx.x + threadIdx.y + threadIdx.z == 0)
		answer = rc;
	__syncthreads();
	rc = answer;
	__syncthreads();
	return rc;
}

/*
 * Wait until n ranges are on the device and stay there until sluice_release(). addr, bytes, intent:
 * arrays of n (at most SLUICE_FETCH_USES). 0, or -errno: nothing is held then. -EINVAL: the grid has
 * more blocks than were opened. Blocks on copies and on what other blocks hold.
 */
__device__ static inline int
sluice_acquire_all(const struct sluice_fetch_view &f, uint32_t n, const void *const *addr,
		   const uint64_t *bytes, const enum sluice_intent *intent)
{
	volatile struct sluice_fetch_box *box = sluice_fetch_box_(f);
	int rc = 0;

	__syncthreads();
	if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
		if (!box || !n || n > SLUICE_FETCH_USES) {
			rc = -22; /* EINVAL */
		} else {
			box->n_uses = n;
			for (uint32_t i = 0; i < n; i++) {
				box->use[i].addr = (uint64_t)addr[i];
				box->use[i].bytes = bytes[i];
				box->intent[i] = (uint32_t)intent[i];
			}
			rc = sluice_fetch_ask_(box, SLUICE_FETCH_ACQUIRE);
		}
	}
	return sluice_fetch_broadcast_(rc);
}

/* The same for one range. */
__device__ static inline int
sluice_acquire(const struct sluice_fetch_view &f, const void *addr, uint64_t bytes,
	       enum sluice_intent intent)
{
	return sluice_acquire_all(f, 1, &addr, &bytes, &intent);
}

/* Give back what this block holds; its writes are seen by whoever moves the data from here on. */
__device__ static inline void
sluice_release(const struct sluice_fetch_view &f)
{
	volatile struct sluice_fetch_box *box = sluice_fetch_box_(f);

	__threadfence_system();
	__syncthreads();
	if (box && threadIdx.x + threadIdx.y + threadIdx.z == 0)
		(void)sluice_fetch_ask_(box, SLUICE_FETCH_RELEASE);
	__syncthreads();
}

/* How much of the range is on the device now, in percent; a moment later it may be otherwise. */
__device__ static inline int
sluice_resident(const struct sluice_fetch_view &f, const void *addr, uint64_t bytes)
{
	volatile struct sluice_fetch_box *box = sluice_fetch_box_(f);
	int rc = -22;

	__syncthreads();
	if (box && threadIdx.x + threadIdx.y + threadIdx.z == 0) {
		box->n_uses = 1;
		box->use[0].addr = (uint64_t)addr;
		box->use[0].bytes = bytes;
		rc = sluice_fetch_ask_(box, SLUICE_FETCH_RESIDENT);
	}
	return sluice_fetch_broadcast_(rc);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetch-and-pin from inside a running kernel (CUDA device). A block asks for ranges, waits until
 * they are on the device, works on them through plain pointers, and gives them back. So one kernel
 * launch can work on a region, or a file, far larger than device and host memory.
 * sluice_device.cuh has the kernel's side.
 *
 * One rule excludes deadlock, for any grid and budget: a block asks for all its ranges at once (up
 * to SLUICE_FETCH_USES) and holds nothing while it waits. A second acquire before the release is
 * refused with -EDEADLK. So a block that holds ranges always reaches its release. Waiting blocks
 * are served in the order of their requests.
 */
#ifndef SLUICE_FETCH_H
#define SLUICE_FETCH_H

#include "sluice/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_FETCH_USES       4u    /* ranges of one acquire at most */
#define SLUICE_FETCH_BLOCKS_MAX 8192u /* blocks of a grid at most */

/* A block's request and the reply to it. One for each block, in memory that both sides see. */
struct sluice_fetch_box {
	uint64_t request; /* number of the request; written last */
	uint32_t op;      /* enum sluice_fetch_op */
	uint32_t n_uses;
	struct {
		uint64_t addr, bytes;
	} use[SLUICE_FETCH_USES];
	uint32_t intent[SLUICE_FETCH_USES]; /* enum sluice_intent */
	uint8_t pad[32];                    /* to a cache line of its own */
	uint64_t reply; /* number of the request answered; written last */
	int32_t rc;     /* 0 or -errno; of a residency query the percentage */
	uint8_t pad2[52];
};

enum sluice_fetch_op {
	SLUICE_FETCH_ACQUIRE = 1,
	SLUICE_FETCH_RELEASE = 2,
	SLUICE_FETCH_RESIDENT = 3
};

/* Handed to the kernel by value. */
struct sluice_fetch_view {
	struct sluice_fetch_box *box; /* n_blocks */
	uint32_t n_blocks;
};

struct sluice_fetch;

/*
 * Start serving kernels with up to n_blocks blocks (1 to SLUICE_FETCH_BLOCKS_MAX, numbered x
 * fastest). Pass *view to the kernel. Two threads of the library run until close.
 * Errors: -ENOTSUP (not a CUDA device), -EINVAL, -ENOMEM.
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API int sluice_fetch_open(struct sluice_space *space, uint32_t n_blocks,
				 struct sluice_fetch **out,
				 struct sluice_fetch_view *view) SLUICE_MUST_CHECK;

/*
 * Stop serving. Call it after the kernels that used it have ended. Ranges that they still hold are
 * given back. NULL is fine.
 * Errors: the first error that a block received, with its text.
 * Threads: any.
 * Blocks: on an acquire under way.
 */
SLUICE_API int sluice_fetch_close(struct sluice_fetch *fetch);

#ifdef __cplusplus
}
#endif
#endif

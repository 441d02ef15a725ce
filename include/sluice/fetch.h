/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetch-and-pin from inside a running kernel (CUDA device): a block asks for ranges, waits until
 * they are on the device, works on them through plain pointers, and gives them back. So one kernel
 * launch can work on a region, or a file, far larger than device and host memory. The kernel's
 * side is sluice_device.cuh.
 *
 * The rule that keeps it free of deadlock, whatever the grid and the budget: a block asks for all
 * it needs at once (up to SLUICE_FETCH_USES ranges) and holds nothing while it waits. A second
 * acquire before the release is refused with -EDEADLK. So blocks that hold ranges always come to
 * their release, and blocks that wait get their turn in the order of asking.
 */
#ifndef SLUICE_FETCH_H
#define SLUICE_FETCH_H

#include "sluice/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_FETCH_USES       4u    /* ranges of one acquire at most */
#define SLUICE_FETCH_BLOCKS_MAX 8192u /* blocks of a grid at most */

/* What a block writes, and what it gets back; one a block, in memory that both sides see. */
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
 * Start serving kernels with up to n_blocks blocks (1 to SLUICE_FETCH_BLOCKS_MAX; numbered x
 * fastest). *view goes to the kernel. Errors: -ENOTSUP (not a CUDA device), -EINVAL, -ENOMEM. Two
 * threads run until close. Any thread. Does not block.
 */
SLUICE_API int sluice_fetch_open(struct sluice_space *space, uint32_t n_blocks,
				 struct sluice_fetch **out,
				 struct sluice_fetch_view *view) SLUICE_MUST_CHECK;

/*
 * Stop serving; the kernels that used it have ended. What they still hold is given back. Returns the
 * first error that a block was answered with, with its text (the block has seen it, too). NULL is
 * fine. Blocks on the acquire under way, if there is one.
 */
SLUICE_API int sluice_fetch_close(struct sluice_fetch *fetch);

#ifdef __cplusplus
}
#endif
#endif

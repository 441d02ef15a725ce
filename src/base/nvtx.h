/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges and marks for a tool that listens by NVTX, such as Nsight Systems (nvtx.c). They are in the
 * domain "sluice". Without a tool each costs one load.
 *
 * Threads: any. A range is its thread's: it ends on the thread that began it, the last one first.
 */
#ifndef SL_BASE_NVTX_H
#define SL_BASE_NVTX_H

#include <stdatomic.h>
#include <stdint.h>

/* atomic: relaxed: set once, with release, before anybody can see the functions of the tool; who reads 0
 * too late leaves out a range. Readers of the functions come through sl_nvtx_listens(), an acquire. */
extern _Atomic int sl_nvtx_tool;

static inline int
sl_nvtx_listens(void)
{
	return __builtin_expect(atomic_load_explicit(&sl_nvtx_tool, memory_order_acquire), 0);
}

/*
 * Load the tool that NVTX_INJECTION64_PATH names, the first time. A tool that cannot be loaded is
 * logged, and there is none. Blocks on that.
 */
void sl_nvtx_open(void);

/* Those below: only after sl_nvtx_listens() was true. A range that was not begun is not ended. */

/* Begin a range; bytes: its payload. text is copied by the tool. */
void sl_nvtx_push(const char *text, uint64_t bytes);
void sl_nvtx_pop(void);
/* One moment. */
void sl_nvtx_mark(const char *text, uint64_t bytes);

#endif

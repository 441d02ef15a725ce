/* SPDX-License-Identifier: Apache-2.0 */
/* The first pass over data that do not fit pins host memory: told on a terminal (pinning.c). */
#ifndef SL_PRELOAD_PINNING_H
#define SL_PRELOAD_PINNING_H

#include <stdint.h>

struct pl_gpu;

/* The space of this GPU was made: tell from here on, if there is somebody to tell. */
void pl_pinning_start(const struct pl_gpu *gpu);

/* Of the GPU arg, so many more bytes have been pinned, in ns. Its device is set. Any thread. */
void pl_pinning_add(void *arg, uint64_t bytes, uint64_t ns);

#endif

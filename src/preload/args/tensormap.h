/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of tensors (tensormap.c), which TMA reads.
 *
 * Threads: any.
 */
#ifndef SL_PRELOAD_TENSORMAP_H
#define SL_PRELOAD_TENSORMAP_H

#include <stdbool.h>

struct pl_use;

/* Whether the 128 bytes at map128 (any alignment) are a tensor map that was made in this process and
 * lies in our memory now: 1, and *use is the memory that it reaches (read and written). Wait-free; a
 * load while there are no maps, tens of ns then. */
bool pl_tensor_map_find(const void *map128, struct pl_use *use);

#endif

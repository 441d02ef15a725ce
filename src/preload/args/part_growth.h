/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that are too short (part_growth.c). A part of a block is a guess (parts.h). A kernel that goes
 * beyond it reads host memory over the link, and is slow. So launches of parts are timed, and the
 * parts of a slow one are tried larger.
 *
 * Threads: any. Nothing here blocks.
 */
#ifndef SL_PRELOAD_PART_GROWTH_H
#define SL_PRELOAD_PART_GROWTH_H

#include <stddef.h>
#include <stdint.h>

#include "preload/scope.h"

/*
 * Before a launch whose uses have parts. what, shape: the same for launches of the same work (a
 * function and its grid; a graph or a piece of one). budget_bytes: of the device. resident: bytes on
 * the device of [use->addr + from, use->addr + to); seldom called. *growth is filled: how
 * large its parts are to be, and whether its time is wanted (growth->key is not 0).
 */
void pl_growth_begin(uint64_t what, uint64_t shape, const struct pl_use *uses, size_t n,
		     uint64_t budget_bytes,
		     uint64_t (*resident)(const struct pl_use *use, uint64_t from,
					  uint64_t to),
		     struct pl_growth *growth);

/* Bytes from use->addr on that are to be on the device: those of the use, unless it is a part that
 * is grown. */
uint64_t pl_growth_bytes(const struct pl_growth *growth, const struct pl_use *use);

/*
 * Its parts are to stay where they are, since nothing is moved ahead. 1: so be it. *growth is filled anew. 0: no, this
 * work reads its data several times over the link, or it is not known and another launch of it is asked; *growth is as it
 * was. resident: called once for each part until the work is known.
 */
int pl_growth_leave(uint64_t what, uint64_t shape, const struct pl_use *uses, size_t n,
		    uint64_t (*resident)(const struct pl_use *use, uint64_t from, uint64_t to),
		    struct pl_growth *growth);

/* That launch took so long on its stream. 0: not known. */
void pl_growth_took(const struct pl_growth *growth, uint64_t ns);

#endif

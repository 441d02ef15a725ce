/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in exports every name of a driver for CUDA 13.0, and one that no table has
 * (cuStandinFuture). Names that no other file of this folder defines note their call and return
 * CUDA_ERROR_NOT_SUPPORTED. They are weak definitions, so another file only has to define the
 * name. A test can ask for the name and the arguments, up to the registers and two words of the
 * stack. A program in between must pass all of it on.
 *
 * Threads: any; the note is the calling thread's.
 */
#include <string.h>

#include "device/cuda/cuda_abi.h"
#include "standin.h"

#define EXPORT __attribute__((visibility("default")))

static _Thread_local struct sl_standin_filled last;

static __attribute__((noinline)) int
filled(const char *name, const uint64_t *words, double real)
{
	last.name = name;
	memcpy(last.words, words, sizeof(last.words));
	last.real = real;
	return CU_ERROR_NOT_SUPPORTED;
}

EXPORT const struct sl_standin_filled *
sl_standin_filled(void)
{
	return &last;
}

#define FILLER(exported)                                                                    \
	EXPORT __attribute__((weak)) int exported(uint64_t a, uint64_t b, uint64_t c,       \
						  uint64_t d, uint64_t e, uint64_t f,       \
						  uint64_t g, uint64_t h, double real);     \
	int exported(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,            \
		     uint64_t f, uint64_t g, uint64_t h, double real)                       \
	{                                                                                   \
		return filled(#exported, (const uint64_t[]){a, b, c, d, e, f, g, h}, real); \
	}

#define PL_API(exported, base, version, flavour, class, group) FILLER(exported)
#include "preload/api.tbl"
#undef PL_API
FILLER(cuStandinFuture)

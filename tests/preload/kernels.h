/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the kernels of tests under the preload library. */
#ifndef SL_TESTS_PRELOAD_KERNELS_H
#define SL_TESTS_PRELOAD_KERNELS_H

#include <string.h>

#include "cuda_driver/standin.h"

/* The i-th argument, one of 8 bytes. */
static inline uint64_t
kernel_word(void *const *params, int i)
{
	uint64_t word;

	memcpy(&word, params[i], sizeof(word));
	return word;
}

/* Add value to so many words of 4 bytes. */
static inline void
words_add(const struct sl_standin *standin, const struct sl_standin_block *block,
	  uint64_t p, uint64_t words, uint32_t value)
{
	uint32_t *at = standin->ptr(block, p, words * 4, SL_STANDIN_READ | SL_STANDIN_WRITE);

	for (uint64_t i = 0; i < words; i++)
		at[i] += value;
}

#endif

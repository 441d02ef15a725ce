/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's own kernels, as C functions: the stand-in driver knows them without registration, in all
 * modules. Like the kernels of tests they have no address sanitizer, and they are optimised: with it, hashes alone
 * took a tenth of the time of the tests of preload.
 *
 * Threads: any; one block a call.
 */
#include <string.h>

#include "codec_twin.h"
#include "device/cuda/codec_kernels.h"
#include "hash_twin.h"
#include "internal.h"

static void
chunk_hash(const struct sl_standin_block *block, void *const *params)
{
	hash_twin(block, params, kernel_ptr);
}

static void
codec_put(const struct sl_standin_block *block, void *const *params)
{
	codec_twin_put(block, params, kernel_ptr);
}

static void
codec_plan(const struct sl_standin_block *block, void *const *params)
{
	codec_twin_plan(block, params, kernel_ptr);
}

static void
codec_write(const struct sl_standin_block *block, void *const *params)
{
	codec_twin_write(block, params, kernel_ptr);
}

static void
codec_drain(const struct sl_standin_block *block, void *const *params)
{
	codec_twin_drain(block, params, kernel_ptr);
}

static void
codec_decode(const struct sl_standin_block *block, void *const *params)
{
	codec_twin_decode(block, params, kernel_ptr);
}

static const struct sl_standin_kernel own_kernels[] = {
	{SL_CUDA_HASH_KERNEL, chunk_hash, SL_CUDA_HASH_PARAMS, {8, 8, 8, 8, 8, 8, 8}},
	{SL_CODEC_JOB_KERNEL, codec_put, 2, {sizeof(struct sl_codec_job), 8}},
	{SL_CODEC_PLAN_KERNEL, codec_plan, 1, {8}},
	{SL_CODEC_WRITE_KERNEL, codec_write, 1, {8}},
	{SL_CODEC_DRAIN_KERNEL, codec_drain, 1, {8}},
	{SL_CODEC_DECODE_KERNEL, codec_decode, 1, {8}},
};

const struct sl_standin_kernel *
own_kernel_find(const char *name)
{
	for (size_t i = 0; i < sizeof(own_kernels) / sizeof(*own_kernels); i++)
		if (!strcmp(own_kernels[i].name, name))
			return &own_kernels[i];
	return NULL;
}

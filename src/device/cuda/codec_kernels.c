/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text (PTX) that nvcc makes of src/codec/codec.cu at build time, for the driver to load. Built without
 * nvcc it has none, so that nothing is encoded on the way (codec.c). Then the names are in a comment, which a
 * driver does not read: a stand-in that has kernels of its own finds them.
 */
#include "device/cuda/codec_kernels.h"

#include <stddef.h>

#include "device/cuda/cuda_driver.h"

#define CAPABILITY 75 /* of a GPU, at least: as codec.cu is compiled */

#ifdef SLUICE_CODEC_PTX
#define IS_BUILT 1
__asm__(".pushsection .rodata\n"
	".hidden sl_codec_kernels\n"
	".global sl_codec_kernels\n"
	"sl_codec_kernels:\n"
	".incbin \"" SLUICE_CODEC_PTX "\"\n"
	".byte 0\n"
	".popsection\n");
#else
#define IS_BUILT 0
const char sl_codec_kernels[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
				"// .entry " SL_CODEC_JOB_KERNEL "(\n"
				"// .entry " SL_CODEC_PLAN_KERNEL "(\n"
				"// .entry " SL_CODEC_WRITE_KERNEL "(\n"
				"// .entry " SL_CODEC_DRAIN_KERNEL "(\n"
				"// .entry " SL_CODEC_DECODE_KERNEL "(\n";
#endif

const char *
sl_cuda_codec_lacks(int capability)
{
	if (!IS_BUILT)
		return "built without nvcc";
	return capability < CAPABILITY ? "compute capability below 7.5" : NULL;
}

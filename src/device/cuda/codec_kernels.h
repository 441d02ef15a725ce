/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of the codec, and their names. codec/job.h says how they are launched. */
#ifndef SL_DEVICE_CUDA_CODEC_KERNELS_H
#define SL_DEVICE_CUDA_CODEC_KERNELS_H

/* PTX for compute capability 7.5 and later. */
extern const char sl_codec_kernels[];

#define SL_CODEC_JOB_KERNEL    "sl_codec_job_kernel"
#define SL_CODEC_PLAN_KERNEL   "sl_codec_plan_kernel"
#define SL_CODEC_WRITE_KERNEL  "sl_codec_write_kernel"
#define SL_CODEC_DRAIN_KERNEL  "sl_codec_drain_kernel"
#define SL_CODEC_DECODE_KERNEL "sl_codec_decode_kernel"

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's calls that launch kernels, as launch.c answers them. */
#ifndef SL_PRELOAD_API_LAUNCH_H
#define SL_PRELOAD_API_LAUNCH_H

#include "preload/api/driver_api.h"

struct cu_cooperative_launch {
	void *function;
	unsigned grid[3], block[3];
	unsigned shared_bytes;
	struct cu_stream *stream;
	void **params;
};

PL_BOTH(cuLaunchKernel, ptsz,
	(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
	 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
	 struct cu_stream *stream, void **params, void **extra));
PL_BOTH(cuLaunchKernelEx, ptsz,
	(const struct cu_launch_config *config, void *function, void **params, void **extra));
PL_BOTH(cuLaunchCooperativeKernel, ptsz,
	(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
	 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
	 struct cu_stream *stream, void **params));
PL_EXPORT int cuLaunch(void *function);
PL_EXPORT int cuLaunchGrid(void *function, int width, int height);
PL_EXPORT int cuLaunchGridAsync(void *function, int width, int height,
				struct cu_stream *stream);
PL_EXPORT int cuLaunchCooperativeKernelMultiDevice(struct cu_cooperative_launch *launches,
						   unsigned n, unsigned flags);

#endif

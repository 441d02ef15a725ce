/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's other launches: with a configuration, whose attributes change nothing here, and
 * cooperative ones, all of whose blocks run at once on a GPU (here one behind the other, so
 * that kernels must not wait for each other). They count as cuLaunchKernel(), whose rules they have.
 *
 * Threads: any.
 */
#include "api.h"

EXPORT int cuLaunchKernelEx(const struct cu_launch_config *config,
			    struct cu_function *function, void **params, void **extra);
EXPORT int cuLaunchKernelEx_ptsz(const struct cu_launch_config *config,
				 struct cu_function *function, void **params, void **extra);
EXPORT int cuLaunchCooperativeKernel(struct cu_function *function, unsigned grid_x,
				     unsigned grid_y, unsigned grid_z, unsigned block_x,
				     unsigned block_y, unsigned block_z,
				     unsigned shared_bytes, struct cu_stream *stream,
				     void **params);
EXPORT int cuLaunchCooperativeKernel_ptsz(struct cu_function *function, unsigned grid_x,
					  unsigned grid_y, unsigned grid_z,
					  unsigned block_x, unsigned block_y,
					  unsigned block_z, unsigned shared_bytes,
					  struct cu_stream *stream, void **params);

static int
launch_config(const struct cu_launch_config *c, struct cu_stream *stream,
	      struct cu_function *function, void **params, void **extra)
{
	return cuLaunchKernel(function, c->grid[0], c->grid[1], c->grid[2], c->block[0],
			      c->block[1], c->block[2], c->shared_bytes, stream, params,
			      extra);
}

int
cuLaunchKernelEx(const struct cu_launch_config *config, struct cu_function *function,
		 void **params, void **extra)
{
	if (!config)
		return violate(CU_ERROR_INVALID_VALUE,
			       "cuLaunchKernelEx: no configuration");
	return launch_config(config, config->stream, function, params, extra);
}

int
cuLaunchKernelEx_ptsz(const struct cu_launch_config *config, struct cu_function *function,
		      void **params, void **extra)
{
	if (!config)
		return violate(CU_ERROR_INVALID_VALUE,
			       "cuLaunchKernelEx: no configuration");
	return launch_config(config, own(config->stream), function, params, extra);
}

int
cuLaunchCooperativeKernel(struct cu_function *function, unsigned grid_x, unsigned grid_y,
			  unsigned grid_z, unsigned block_x, unsigned block_y,
			  unsigned block_z, unsigned shared_bytes,
			  struct cu_stream *stream, void **params)
{
	return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
			      shared_bytes, stream, params, NULL);
}

int
cuLaunchCooperativeKernel_ptsz(struct cu_function *function, unsigned grid_x,
			       unsigned grid_y, unsigned grid_z, unsigned block_x,
			       unsigned block_y, unsigned block_z, unsigned shared_bytes,
			       struct cu_stream *stream, void **params)
{
	return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
			      shared_bytes, own(stream), params, NULL);
}

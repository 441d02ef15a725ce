/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of 256 MiB, 64 MiB of device memory: filled by a launch for each tile, which declares
 * what it uses; added up by one launch whose blocks fetch their tiles. See docs/cuda.md.
 */
#include <cstdio>
#include "sluice/sluice.h"
#include "sluice/sluice_device.cuh"
#define TRY(call) if (call) return fprintf(stderr, #call ": %s\n", sluice_last_error()), 1
enum : uint64_t { WORDS = 32 << 20, TILE = 1 << 20 };
__device__ unsigned long long sum;

__global__ void fill(uint64_t *p, uint64_t at)
{
	p[blockIdx.x * blockDim.x + threadIdx.x] = at + blockIdx.x * blockDim.x + threadIdx.x;
}

__global__ void add(struct sluice_fetch_view view, const uint64_t *p)
{
	for (uint64_t at = blockIdx.x * TILE; at < WORDS; at += gridDim.x * TILE) {
		unsigned long long mine = 0;
		if (sluice_acquire(view, p + at, TILE * 8, SLUICE_USE_READ))
			return; /* the whole block; sluice_fetch_close() says why */
		for (uint64_t i = at + threadIdx.x; i < at + TILE; i += blockDim.x)
			mine += p[i];
		atomicAdd(&sum, mine);
		sluice_release(view);
	}
}

int main()
{
	struct sluice_config config;
	struct sluice_space *space;
	struct sluice_stream *stream;
	struct sluice_launch *launch;
	struct sluice_fetch *fetch; struct sluice_fetch_view view;
	uint64_t *p, found = 0;
	cudaStream_t mine;
	TRY(sluice_config_init(&config));
	TRY(sluice_config_parse(&config, "device=cuda,device_budget=64M"));
	TRY(sluice_space_create(&config, &space));
	TRY(sluice_map(space, "words.bin", 0, WORDS * 8, SLUICE_READ | SLUICE_WRITE | SLUICE_CREATE,
		       (void **)&p));
	TRY(cudaStreamCreate(&mine) || sluice_stream_wrap(space, mine, &stream));
	for (uint64_t at = 0; at < WORDS; at += TILE) {
		struct sluice_use use = {p + at, TILE * 8, SLUICE_USE_WRITE_ALL};
		TRY(sluice_launch_begin(space, stream, &use, 1, &launch));
		fill<<<TILE / 256, 256, 0, mine>>>(p + at, at);
		sluice_launch_end(launch);
	}
	TRY(sluice_stream_synchronize(space, stream)); /* now no launch holds anything */
	TRY(sluice_fetch_open(space, 64, &fetch, &view));
	add<<<64, 256, 0, mine>>>(view, p);
	TRY(sluice_stream_synchronize(space, stream) || sluice_fetch_close(fetch));
	TRY(cudaMemcpyFromSymbol(&found, sum, sizeof(found)));
	printf("sum %lu, last word %lu\n", found, p[WORDS - 1]);
	sluice_stream_destroy(stream);
	return sluice_space_destroy(space) || found != WORDS / 2 * (WORDS - 1);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types of the CUDA driver's binary interface for more than one part of the preload library;
 * device/cuda/cuda_abi.h has the others. The header of each part has the prototypes of its
 * wrapped calls. Names are ours, layouts the driver's (64-bit Linux, CUDA 12 and 13).
 */
#ifndef SL_PRELOAD_DRIVER_API_H
#define SL_PRELOAD_DRIVER_API_H

#include <stddef.h>
#include <stdint.h>

#include "device/cuda/cuda_abi.h"

/* A driver call that the library answers itself: exported under the driver's own name. */
#define PL_EXPORT __attribute__((visibility("default")))
/* Such a call in both its forms, with the suffix ptds or ptsz: enum pl_default_stream. */
#define PL_BOTH(name, suffix, parameters) \
	PL_EXPORT int name parameters;    \
	PL_EXPORT int name##_##suffix parameters

struct cu_graph;
struct cu_graph_exec;
struct cu_graph_node;
struct cu_pool;
struct cu_array;
struct cu_kernel;
struct cu_library;

/* What stream handle 0 means to a call: it has two exported forms. */
enum pl_default_stream {
	PL_LEGACY,    /* the context's legacy default stream */
	PL_PER_THREAD /* _ptsz and _ptds: the calling thread's default stream */
};

/* cuLaunchKernelEx. */
struct cu_launch_attribute {
	int id;
	char pad[4];
	uint64_t value[8];
};

struct cu_launch_config {
	unsigned grid[3], block[3];
	unsigned shared_bytes;
	struct cu_stream *stream;
	struct cu_launch_attribute *attributes;
	unsigned n_attributes;
};

/* What the sides of a rectangular copy are. */
enum cu_memory_type {
	CU_MEMORY_TYPE_HOST = 1,
	CU_MEMORY_TYPE_DEVICE = 2,
	CU_MEMORY_TYPE_ARRAY = 3,
	CU_MEMORY_TYPE_UNIFIED = 4 /* as device; the address tells what it is */
};

/* cuMemcpy2D() and its like, second version. */
struct cu_copy_2d {
	size_t from_x_bytes, from_y;
	int from_type; /* enum cu_memory_type */
	const void *from_host;
	uint64_t from_device;
	struct cu_array *from_array;
	size_t from_pitch;
	size_t to_x_bytes, to_y;
	int to_type;
	void *to_host;
	uint64_t to_device;
	struct cu_array *to_array;
	size_t to_pitch;
	size_t width_bytes, height;
};

/* cuMemcpy3D() second version, cuMemcpy3DPeer(), a memcpy node: one layout. */
struct cu_copy_3d {
	size_t from_x_bytes, from_y, from_z, from_lod;
	int from_type;
	const void *from_host;
	uint64_t from_device;
	struct cu_array *from_array;
	struct cu_context *from_context; /* peer copies; else NULL */
	size_t from_pitch, from_height;  /* of rows; of layers, in rows */
	size_t to_x_bytes, to_y, to_z, to_lod;
	int to_type;
	void *to_host;
	uint64_t to_device;
	struct cu_array *to_array;
	struct cu_context *to_context;
	size_t to_pitch, to_height;
	size_t width_bytes, height, depth;
};

_Static_assert(sizeof(struct cu_copy_2d) == 128, "ABI");
_Static_assert(sizeof(struct cu_copy_3d) == 200, "ABI");

/* The extra argument of a launch. */
#define CU_LAUNCH_PARAM_END            ((void *)0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE    ((void *)2)

#endif

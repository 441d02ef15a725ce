/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's calls that keep an address: textures, surfaces and tensor maps. Nothing reads
 * through them; a call checks that the device may read there when it is made.
 *
 * A tensor map shows its address in its first word, or with CUDA_STANDIN_HIDE_MAPS set in none.
 *
 * Threads: any; they take the.lock.
 */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "preload/api/api_tensormap.h"
#include "preload/api/api_texture.h"

/* Whether the current device may read there now. */
static int
address_enter(uint64_t addr)
{
	struct cu_context *context = context_current();
	const char *wrong;

	if (!context)
		return CU_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&the.lock);
	wrong = view_check(context->device, addr, 16, SL_STANDIN_READ);
	pthread_mutex_unlock(&the.lock);
	return wrong ? CU_ERROR_INVALID_VALUE : CU_SUCCESS;
}

static int
object_make(uint64_t *object, const struct cu_resource *resource)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);
	static _Atomic uint64_t last;

	if (!code && resource->type >= CU_RESOURCE_LINEAR)
		code = address_enter(resource->addr);
	if (!code)
		*object = ++last;
	return code;
}

int
cuTexObjectCreate(uint64_t *object, const struct cu_resource *resource,
		  const struct cu_texture_descriptor *texture,
		  const struct cu_view_descriptor *view)
{
	(void)texture;
	(void)view;
	return object_make(object, resource);
}

int
cuSurfObjectCreate(uint64_t *object, const struct cu_resource *resource)
{
	return resource->type == CU_RESOURCE_ARRAY ? object_make(object, resource)
						   : CU_ERROR_INVALID_VALUE;
}

int
cuTexRefSetAddress_v2(size_t *offset, struct cu_texture_reference *texture, uint64_t addr,
		      size_t bytes)
{
	(void)texture;
	(void)bytes;
	if (offset)
		*offset = 0;
	return address_enter(addr);
}

int
cuTexRefSetAddress2D_v2(struct cu_texture_reference *texture,
			const struct cu_array_descriptor *descriptor, uint64_t addr,
			size_t pitch)
{
	(void)texture;
	(void)descriptor;
	(void)pitch;
	return address_enter(addr);
}

int
cuTexRefSetAddress2D_v3(struct cu_texture_reference *texture,
			const struct cu_array_descriptor *descriptor, uint64_t addr,
			size_t pitch)
{
	(void)texture;
	(void)descriptor;
	(void)pitch;
	return address_enter(addr);
}

/* The address in the first word; hidden, in the last but one, upside down. */
static void
map_address(struct cu_tensor_map *map, uint64_t addr)
{
	if (getenv("CUDA_STANDIN_HIDE_MAPS"))
		map->opaque[14] = ~addr;
	else
		map->opaque[0] = addr;
}

static int
map_encode(struct cu_tensor_map *map, int kind, int type, uint32_t rank, void *addr,
	   const uint64_t *dims, const uint64_t *strides, int interleave)
{
	int code;

	if (!map || address(map) % 64 || !rank || rank > 5 || address(addr) % 16)
		return CU_ERROR_INVALID_VALUE;
	code = address_enter(address(addr));
	if (code)
		return code;
	memset(map, 0, sizeof(*map));
	map->opaque[1] = (uint64_t)type | (uint64_t)rank << 8 |
			 (uint64_t)interleave << 16 | (uint64_t)kind << 24;
	for (uint32_t i = 0; i < rank; i++) {
		map->opaque[2 + i] = dims[i];
		if (i)
			map->opaque[7 + i] = strides[i - 1];
	}
	map_address(map, address(addr));
	return CU_SUCCESS;
}

int
cuTensorMapEncodeTiled(struct cu_tensor_map *map, int type, uint32_t rank, void *addr,
		       const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
		       const uint32_t *steps, int interleave, int swizzle, int promotion,
		       int fill_kind)
{
	(void)box;
	(void)steps;
	(void)swizzle;
	(void)promotion;
	(void)fill_kind;
	return map_encode(map, 0, type, rank, addr, dims, strides, interleave);
}

int
cuTensorMapEncodeIm2col(struct cu_tensor_map *map, int type, uint32_t rank, void *addr,
			const uint64_t *dims, const uint64_t *strides, const int *lower,
			const int *upper, uint32_t channels, uint32_t pixels,
			const uint32_t *steps, int interleave, int swizzle, int promotion,
			int fill_kind)
{
	(void)lower;
	(void)upper;
	(void)channels;
	(void)pixels;
	(void)steps;
	(void)swizzle;
	(void)promotion;
	(void)fill_kind;
	return map_encode(map, 1, type, rank, addr, dims, strides, interleave);
}

int
cuTensorMapEncodeIm2colWide(struct cu_tensor_map *map, int type, uint32_t rank,
			    void *addr, const uint64_t *dims, const uint64_t *strides,
			    int lower, int upper, uint32_t channels, uint32_t pixels,
			    const uint32_t *steps, int interleave, int mode, int swizzle,
			    int promotion, int fill_kind)
{
	(void)lower;
	(void)upper;
	(void)channels;
	(void)pixels;
	(void)steps;
	(void)mode;
	(void)swizzle;
	(void)promotion;
	(void)fill_kind;
	return map_encode(map, 2, type, rank, addr, dims, strides, interleave);
}

int
cuTensorMapReplaceAddress(struct cu_tensor_map *map, void *addr)
{
	int code = address(addr) % 16 ? CU_ERROR_INVALID_VALUE
				      : address_enter(address(addr));

	if (!code)
		map_address(map, address(addr));
	return code;
}

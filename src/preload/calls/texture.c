/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is bound to a texture or surface. Kernels then name the object, not the address.
 * So the block is held on the device until it is freed. Arrays are the driver's memory.
 *
 * The end of the object does not release it: several may be made on one block, and references
 * have no end.
 *
 * Threads: any. Blocks the first time for a block, on copies.
 */
#include "preload/alloc/block.h"
#include "preload/api/api_texture.h"
#include "preload/calls/touch.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/scope.h"

/* CUresult. */
static int
memory_hold(uint64_t addr)
{
	struct pl_block *block;

	if (!pl_active() || !pl_maybe_ours(addr))
		return CU_SUCCESS;
	block = pl_block_find(addr);
	return block ? pl_block_pin(block) : CU_SUCCESS;
}

static int
resource_hold(const struct cu_resource *resource)
{
	if (!resource || (resource->type != CU_RESOURCE_LINEAR &&
			  resource->type != CU_RESOURCE_PITCH_2D))
		return CU_SUCCESS;
	return memory_hold(resource->addr);
}

int
cuTexObjectCreate(uint64_t *object, const struct cu_resource *resource,
		  const struct cu_texture_descriptor *texture,
		  const struct cu_view_descriptor *view)
{
	int result = resource_hold(resource);

	return result ? result : PL_REAL(cuTexObjectCreate)(object, resource, texture, view);
}

int
cuSurfObjectCreate(uint64_t *object, const struct cu_resource *resource)
{
	int result = resource_hold(resource);

	return result ? result : PL_REAL(cuSurfObjectCreate)(object, resource);
}

int
cuTexRefSetAddress_v2(size_t *offset, struct cu_texture_reference *texture, uint64_t addr,
		      size_t bytes)
{
	int result = memory_hold(addr);

	return result ? result
		      : PL_REAL(cuTexRefSetAddress_v2)(offset, texture, addr, bytes);
}

int
cuTexRefSetAddress2D_v2(struct cu_texture_reference *texture,
			const struct cu_array_descriptor *descriptor, uint64_t addr,
			size_t pitch)
{
	int result = memory_hold(addr);

	return result ? result
		      : PL_REAL(cuTexRefSetAddress2D_v2)(texture, descriptor, addr, pitch);
}

int
cuTexRefSetAddress2D_v3(struct cu_texture_reference *texture,
			const struct cu_array_descriptor *descriptor, uint64_t addr,
			size_t pitch)
{
	int result = memory_hold(addr);

	return result ? result
		      : PL_REAL(cuTexRefSetAddress2D_v3)(texture, descriptor, addr, pitch);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of the driver's calls that bind memory to textures and surfaces, and are wrapped (texture.c).
 * The first versions of cuTexRefSetAddress() and cuTexRefSetAddress2D() take 32-bit addresses and are
 * forwarded.
 */
#ifndef SL_PRELOAD_API_TEXTURE_H
#define SL_PRELOAD_API_TEXTURE_H

#include "preload/api/driver_api.h"

struct cu_texture_reference;
struct cu_array_descriptor;
struct cu_texture_descriptor;
struct cu_view_descriptor;

enum cu_resource_type {
	CU_RESOURCE_ARRAY = 0,
	CU_RESOURCE_MIPMAP = 1,
	CU_RESOURCE_LINEAR = 2,
	CU_RESOURCE_PITCH_2D = 3
};

/* What a texture object reads; the address is of linear and pitched memory. */
struct cu_resource {
	int type; /* enum cu_resource_type */
	union {
		uint64_t addr;
		int reserved[32];
	};
	unsigned flags;
};

_Static_assert(sizeof(struct cu_resource) == 144, "ABI");

PL_EXPORT int cuTexObjectCreate(uint64_t *object, const struct cu_resource *resource,
				const struct cu_texture_descriptor *texture,
				const struct cu_view_descriptor *view);
PL_EXPORT int cuSurfObjectCreate(uint64_t *object, const struct cu_resource *resource);
PL_EXPORT int cuTexRefSetAddress_v2(size_t *offset, struct cu_texture_reference *texture,
				    uint64_t addr, size_t bytes);
PL_EXPORT int cuTexRefSetAddress2D_v2(struct cu_texture_reference *texture,
				      const struct cu_array_descriptor *descriptor,
				      uint64_t addr, size_t pitch);
PL_EXPORT int cuTexRefSetAddress2D_v3(struct cu_texture_reference *texture,
				      const struct cu_array_descriptor *descriptor,
				      uint64_t addr, size_t pitch);

#endif

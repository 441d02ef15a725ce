/* SPDX-License-Identifier: Apache-2.0 */
/*
 * START HERE for vmm*.c: device memory that the program maps itself, where the library manages
 * it.
 *
 * A *handle* of ours is memory that the program requested by cuMemCreate(). It is counted when
 * it is made, and has no place before it is mapped. A *reservation* is a range of addresses of
 * the arena's; a *mapping* is a handle in one. Adjacent mappings in a reservation with access
 * for the GPU are one block (block.h), since the program's data may reach across them. The rest
 * of the library knows blocks.
 *
 * A handle may lose its mapping while the program still holds it. Its contents then stay in
 * place: its *home*. They are copied from there when it is mapped elsewhere. A reservation that
 * the program frees stays until it has no home.
 *
 * Native. Some uses are impossible with our memory: the same handle at two addresses, multicast,
 * memory of the driver's in our reservation, or the other way round. They make a handle native:
 * memory of the driver's, with its contents, under the same number. A reservation is paged or
 * native, as a whole, for good. In a native one the driver maps, and nothing of the core's is
 * there. A paged handle has one mapping at most, in a paged reservation of its GPU.
 *
 * Locks: pl_vmm_lock for all of this, outside of the arena's. It is held across calls of the
 * core that do not wait for launches. Where a handle is made native it is held across copies and
 * the end of all work on the GPU. It is not held across forwarded calls, nor while chunks are
 * made resident.
 */
#ifndef SL_PRELOAD_VMM_H
#define SL_PRELOAD_VMM_H

#include <stdbool.h>

#include "base/error.h"
#include "base/lock.h"
#include "preload/api/driver_api.h"
#include "preload/gpu.h"

#define PL_GRANULE_BYTES ((uint64_t)2 << 20) /* of sizes and addresses, as the driver's */

struct pl_area;
struct pl_vmm_mapping;

struct pl_vmm_range {
	uint64_t base, bytes; /* as the program knows it */
	uint64_t room;        /* what was taken: whole chunks, and a gap behind */
	struct pl_gpu *gpu;
	struct pl_area *area;
	int zone;   /* enum pl_zone_kind */
	int native; /* 1: the driver maps here */
	int freed;  /* 1: the program has it no more, some home is still in it */
	int keep; /* 1: addresses are not used again: host code had a view of its own there */
	struct pl_block *worn; /* others took their place; may still be looked at */
};

struct pl_vmm_handle {
	uint64_t id; /* what the program has */
	uint64_t bytes;
	struct pl_gpu *gpu;
	struct cu_allocation what;
	unsigned refs;                  /* of the program's */
	unsigned mappings;              /* paged: 0 or 1 ... */
	struct pl_vmm_mapping *mapping; /* ... namely this */
	uint64_t native;                /* the driver's handle; 0: paged */
	uint64_t home; /* where the contents are while it is mapped nowhere; 0: it has none */
	struct pl_vmm_range *home_range;
};

struct pl_vmm_mapping {
	uint64_t addr, bytes;
	uint64_t id;                       /* unique */
	struct pl_vmm_range *range;        /* NULL: reserved by the driver */
	struct pl_vmm_handle *handle;      /* NULL: the driver's */
	unsigned char access[PL_GPUS_MAX]; /* CU_ACCESS_..., by device; of paged ones */
	int sync;                          /* CU_POINTER_SYNC_MEMOPS was set */
};

extern struct sl_mutex pl_vmm_lock; /* SL_RANK_PL_MAPPINGS */
#define PL_VMM_HELD SL_REQUIRES(pl_vmm_lock)

/* ---- vmm_state.c: what there is. All need pl_vmm_lock; adds: 1, 0: no memory ---- */

/* A number that no handle of the driver's has. */
bool pl_vmm_id_is_ours(uint64_t id);
int pl_vmm_handle_add(struct pl_vmm_handle *handle) PL_VMM_HELD SL_MUST_CHECK; /* gives it its id */
void pl_vmm_handle_remove(const struct pl_vmm_handle *handle) PL_VMM_HELD;
struct pl_vmm_handle *pl_vmm_handle_find(uint64_t id) PL_VMM_HELD;

int pl_vmm_range_add(struct pl_vmm_range *range) PL_VMM_HELD SL_MUST_CHECK;
void pl_vmm_range_remove(const struct pl_vmm_range *range) PL_VMM_HELD;
/* The one that holds addr and is the program's. */
struct pl_vmm_range *pl_vmm_range_find(uint64_t addr) PL_VMM_HELD;

int pl_vmm_mapping_add(struct pl_vmm_mapping *mapping) PL_VMM_HELD SL_MUST_CHECK;
void pl_vmm_mapping_remove(const struct pl_vmm_mapping *mapping) PL_VMM_HELD;
/* The one that holds addr; the first that overlaps [addr, addr + bytes). */
struct pl_vmm_mapping *pl_vmm_mapping_find(uint64_t addr) PL_VMM_HELD;
struct pl_vmm_mapping *pl_vmm_mapping_in(uint64_t addr, uint64_t bytes) PL_VMM_HELD;

/* home and home_range are set. */
int pl_vmm_home_add(struct pl_vmm_handle *handle) PL_VMM_HELD SL_MUST_CHECK;
void pl_vmm_home_remove(struct pl_vmm_handle *handle) PL_VMM_HELD;
struct pl_vmm_handle *pl_vmm_home_in(uint64_t addr, uint64_t bytes) PL_VMM_HELD;

/* ---- vmm_map.c: addresses, blocks and chunks of a reservation ---- */

/* Addresses for bytes, aligned to align (a power of two), on the GPU: base, room, area and zone are set.
 * 0 or -errno. */
int pl_room_take(struct pl_gpu *gpu, uint64_t bytes, uint64_t align,
		 struct pl_vmm_range *range) PL_VMM_HELD SL_MUST_CHECK;
void pl_room_put(struct pl_vmm_range *range) PL_VMM_HELD;
/* [addr, addr + bytes) can be used: it is a block, with its neighbours. 0 or -ENOMEM. */
int pl_room_show(struct pl_vmm_range *range, uint64_t addr,
		 uint64_t bytes) PL_VMM_HELD SL_MUST_CHECK;
/* It cannot any more; contents stay. -ENOMEM: nothing was done; never of the whole of a block. */
int pl_room_hide(struct pl_vmm_range *range, uint64_t addr,
		 uint64_t bytes) PL_VMM_HELD SL_MUST_CHECK;
/* Its contents are dead. Chunks with nothing else in them leave the device, under pressure when their
 * room is needed. in_use: as pl_vmm_in_use(). */
void pl_room_drop(struct pl_vmm_range *range, uint64_t addr, uint64_t bytes,
		  bool (*in_use)(uint64_t addr, uint64_t bytes)) PL_VMM_HELD;
/* Nothing of the core's is mapped in it from here on; nothing in it is shown. 0 or -errno. Blocks
 * until launches that use it have ended. */
int pl_room_empty(struct pl_vmm_range *range) PL_VMM_HELD SL_MUST_CHECK;
/* At ease, have it on the device. 0 or -errno. Needs no pl_vmm_lock; may wait for all work on the GPU. */
int pl_room_populate(struct pl_gpu *gpu, int zone, struct pl_area *area, uint64_t addr,
		     uint64_t bytes) SL_MUST_CHECK;

/* ---- vmm_native.c: contents, and what becomes the driver's. CUresults ---- */

/* Something is mapped in it, or is some handle's home. */
bool pl_vmm_in_use(uint64_t addr, uint64_t bytes) PL_VMM_HELD;
/* A handle that is mapped nowhere keeps its contents here. */
int pl_vmm_home_set(struct pl_vmm_handle *handle, uint64_t addr,
		    struct pl_vmm_range *range) PL_VMM_HELD SL_MUST_CHECK;
/* Its contents are dead, if it has any. */
void pl_vmm_home_drop(struct pl_vmm_handle *handle) PL_VMM_HELD;
/* Its contents go to addr, where it is to be mapped. */
int pl_vmm_home_move(struct pl_vmm_handle *handle, uint64_t addr,
		     struct pl_vmm_range *range) PL_VMM_HELD SL_MUST_CHECK;
/* Homes in [addr, addr + bytes) but that of except go elsewhere: something is to be mapped there. */
int pl_vmm_homes_clear(uint64_t addr, uint64_t bytes,
		       const struct pl_vmm_handle *except) PL_VMM_HELD SL_MUST_CHECK;
/* The program has freed it, or its last home has gone. */
void pl_vmm_range_put(struct pl_vmm_range *range) PL_VMM_HELD;
/* Make it native. Nothing has changed after an error, but where that is said on stderr. */
int pl_vmm_handle_nativize(struct pl_vmm_handle *handle) PL_VMM_HELD SL_MUST_CHECK;
int pl_vmm_range_nativize(struct pl_vmm_range *range) PL_VMM_HELD SL_MUST_CHECK;
/* Count device memory of a handle, and what became of it. */
void pl_vmm_handle_free(struct pl_vmm_handle *handle) PL_VMM_HELD;

/* ---- vmm_query.c ---- */

/* What a mapping of the program's is, for questions about pointers. */
struct pl_vmm_view {
	uint64_t base, bytes, id;
	int device;
	int handle_types; /* that it may be shared as */
	int access;       /* of the current device: CU_ACCESS_... */
	int sync;
};

/* 1: addr lies in paged memory that the program has mapped; -1: in memory of the driver's that it has
 * mapped at an address of ours; 0: neither. */
int pl_vmm_view(uint64_t addr, struct pl_vmm_view *out);
void pl_vmm_sync_set(uint64_t addr, int sync);

#endif

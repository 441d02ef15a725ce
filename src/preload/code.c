/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code objects: what was learnt of functions is forgotten when a module or library is unloaded, since
 * its handles may come again for others; variables of modules that the program has asked for are
 * remembered, since addresses are copied into them (tables.c). Loading them is room.c's.
 *
 * Variables of a module that is unloaded while the program holds the library are dropped by whichever
 * of the two they were asked of.
 *
 * Threads: any.
 */
#include "preload/api_foreign.h"
#include "preload/foreign.h"
#include "preload/ranges.h"

static struct pl_ranges globals = PL_RANGES_INITIALIZER; /* owner: module or library */

int
pl_global_find(uint64_t addr, uint64_t *base, size_t *bytes)
{
	struct pl_range range;

	if (!pl_ranges_find(&globals, addr, &range))
		return 0;
	*base = range.base;
	*bytes = range.bytes;
	return 1;
}

static int
code_unloaded(int result, const void *owner)
{
	if (!result && pl_active()) {
		pl_ranges_drop_owner(&globals, (uintptr_t)owner);
		pl_launch_forget();
	}
	return result;
}

int
cuModuleUnload(struct cu_module *module)
{
	return code_unloaded(PL_REAL(cuModuleUnload)(module), module);
}

int
cuLibraryUnload(struct cu_library *library)
{
	return code_unloaded(PL_REAL(cuLibraryUnload)(library), library);
}

/* The driver has said where a variable lies; either of the two may not have been asked for. */
static void
global_note(const uint64_t *addr, const size_t *bytes, const void *owner)
{
	if (!pl_active() || !addr || !*addr || !bytes || !*bytes)
		return;
	(void)pl_ranges_add(&globals, (struct pl_range){*addr, *bytes, (uintptr_t)owner, 0});
}

int
cuModuleGetGlobal_v2(uint64_t *addr, size_t *bytes, struct cu_module *module, const char *name)
{
	size_t own_bytes = 0;
	size_t *out = bytes ? bytes : &own_bytes;
	int tries = 0, result;

	/* Asking for the size as well changes nothing else, unless nothing is asked for at all. */
	if (!addr)
		out = bytes;
	do
		result = PL_REAL(cuModuleGetGlobal_v2)(addr, out, module, name);
	while (pl_room_made(result, &tries, PL_ROOM_BYTES));
	if (!result)
		global_note(addr, out, module);
	return result;
}

int
cuLibraryGetGlobal(uint64_t *addr, size_t *bytes, struct cu_library *library, const char *name)
{
	size_t own_bytes = 0;
	size_t *out = bytes ? bytes : &own_bytes;
	int tries = 0, result;

	if (!addr)
		out = bytes;
	do
		result = PL_REAL(cuLibraryGetGlobal)(addr, out, library, name);
	while (pl_room_made(result, &tries, PL_ROOM_BYTES));
	if (!result)
		global_note(addr, out, library);
	return result;
}

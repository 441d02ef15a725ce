/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code objects: what was learnt of functions is forgotten when a module or library is unloaded, since
 * its handles may come again for others. Loading them is room.c's.
 *
 * Threads: any.
 */
#include "preload/api/api_foreign.h"
#include "preload/preload.h"

static int
code_unloaded(int result)
{
	if (!result && pl_active())
		pl_launch_forget();
	return result;
}

int
cuModuleUnload(struct cu_module *module)
{
	return code_unloaded(PL_REAL(cuModuleUnload)(module));
}

int
cuLibraryUnload(struct cu_library *library)
{
	return code_unloaded(PL_REAL(cuLibraryUnload)(library));
}

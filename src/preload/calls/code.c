/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code objects. Unloading a module or library forgets its functions, since its handles may be
 * reused. room.c loads them.
 *
 * Threads: any.
 */
#include "preload/api/api_foreign.h"
#include "preload/args/functions.h"
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in's cuFuncGetName(): the name that a function was registered under. A null handle
 * or pointer and an unknown handle are refused as a driver does, and count as broken rules. With
 * CUDA_STANDIN_NO_NAMES set the driver does not have the call.
 *
 * Threads: any.
 */
#include <stdlib.h>

#include "internal.h"

EXPORT int cuFuncGetName(const char **name, struct cu_function *function);

int
cuFuncGetName(const char **name, struct cu_function *function)
{
	const struct sl_standin_kernel *kernel;

	if (getenv("CUDA_STANDIN_NO_NAMES"))
		return CU_ERROR_NOT_SUPPORTED;
	if (!name)
		return CU_ERROR_INVALID_VALUE;
	kernel = function_kernel(CALL_cuFuncGetAttribute, function);
	if (!kernel)
		return CU_ERROR_INVALID_HANDLE;
	*name = kernel->name;
	return CU_SUCCESS;
}

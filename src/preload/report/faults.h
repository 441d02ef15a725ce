/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of the program's kernels: faults.c. Wrappers of launches, waits and copies pass the
 * driver's result through pl_fault_seen().
 */
#ifndef SL_PRELOAD_FAULTS_H
#define SL_PRELOAD_FAULTS_H

#include "preload/api/driver_api.h"

/* The driver returned this, which is no success: if it means that a context is lost, say once on stderr
 * whether any memory of ours was out of the GPU's reach then. No driver call. */
void pl_fault_note(int result);

/* Passes the result on. */
static inline int
pl_fault_seen(int result)
{
	if (__builtin_expect(result != CU_SUCCESS, 0) && result != CU_ERROR_NOT_READY)
		pl_fault_note(result);
	return result;
}

#endif

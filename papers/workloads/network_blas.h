/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network: the library that multiplies matrices on the software device and on the stand-in driver,
 * OpenBLAS, opened at run time: only who trains a network needs it.
 *
 * Threads: network_blas_open() on that of workload_run(); products on any.
 */
#ifndef WORKLOADS_NETWORK_BLAS_H
#define WORKLOADS_NETWORK_BLAS_H

#include "env.h"

/*
 * Open it, once for the process; before any launch of a product. Errors: -ENOTSUP, with what to
 * install in the run's error text.
 */
int network_blas_open(struct workload_env *env) SLUICE_MUST_CHECK;

#endif

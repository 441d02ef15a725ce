/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings that depend on the libraries which the process has loaded (announce.c).
 *
 * Threads: any.
 */
#ifndef SL_PRELOAD_ANNOUNCE_H
#define SL_PRELOAD_ANNOUNCE_H

#include <stdbool.h>

#include "preload/loader/settings.h"

/* What memory queries tell: 1 physical, 0 virtual size. In auto by the libraries that are
 * loaded. */
bool pl_meminfo_physical(void);
/* PyTorch is here, and the launcher has switched off its caching. */
bool pl_pytorch_uncached(void);
/* The setting, auto decided: ALL once the process has loaded JAX and where there is one GPU (kernels of
 * several reach each other's memory, which ours is not for), else OURS. */
enum pl_mapped pl_mapped(void);

#endif

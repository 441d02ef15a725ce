/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sluice: one memory space over device memory, host memory and NVMe.
 *
 * Begin with these calls, which most programs need and no others:
 *
 *   sluice_config_init()          defaults and the environment
 *   sluice_config_parse()         "device=cuda,device_budget=16G"
 *   sluice_space_create()         one for a process
 *   sluice_map(), sluice_alloc()  a file or fresh memory, as a plain pointer
 *   sluice_launch()               run a kernel on the software device
 *   sluice_launch_begin(), sluice_launch_end()
 *                                 CUDA: enqueue kernels between the two
 *   sluice_stream_wrap()          CUDA: use the program's own stream
 *   sluice_stream_synchronize()   wait for launches and get their error
 *   sluice_sync(), sluice_unmap() put data on the medium, end a region
 *   sluice_space_destroy()        write everything back
 *   sluice_last_error()           the text of the last failure
 *
 * Then, for speed: sluice_prefetch(), sluice_discard(), sluice_advise() (move.h),
 * sluice_launch_tiles() (launch.h), kernels that fetch (fetch.h), counters (stats.h).
 *
 * Comments of calls have the same lines everywhere:
 *   Errors:   values that the call returns; error.h has their meaning
 *   Threads:  threads that may call it
 *   Blocks:   work that the call waits for
 */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#include "sluice/allocator.h"
#include "sluice/binding.h"
#include "sluice/error.h"
#include "sluice/fetch.h"
#include "sluice/launch.h"
#include "sluice/move.h"
#include "sluice/region.h"
#include "sluice/space.h"
#include "sluice/stats.h"

#endif

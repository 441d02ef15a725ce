/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver, opened at run time: function pointers made from cuda_symbols.def, the facts
 * about each device, and the one place where a driver's code becomes an errno.
 *
 * It opens no context and changes no thread's current one; the back end does. Without a driver,
 * or with an unsuitable one, one line of text says why.
 *
 * Threads: any. Blocks on loading and initialising the driver (a second or so) once.
 */
#ifndef SL_DEVICE_CUDA_CUDA_DRIVER_H
#define SL_DEVICE_CUDA_CUDA_DRIVER_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "device/cuda/cuda_abi.h"

/* The oldest driver that does: CUDA 12.2 brought host-located physical memory. */
#define SL_CUDA_VERSION_MIN 12020

struct sl_cuda_driver {
#define CUDA_SYMBOL(name, exported, need, ...) int (*name)(__VA_ARGS__);
#include "device/cuda/cuda_symbols.def"
#undef CUDA_SYMBOL
	int version;         /* 13000 is CUDA 13.0 */
	int n_devices;       /* at least 1 */
	char path[PATH_MAX]; /* what was opened, as given to dlopen() */
};

/* One device, as the driver describes it. A part of a GPU (MIG) is a device of its own. */
struct sl_cuda_device_info {
	int device; /* the driver's handle */
	char name[96];
	char uuid[48]; /* as nvidia-smi prints it: "GPU-..."; "MIG-..." of a part of a GPU */
	uint64_t memory_bytes;
	int capability; /* 90 is compute capability 9.0 */
	int n_multiprocessors;
	int n_copy_engines;
	int host_node; /* NUMA node nearest to it; 0 where the driver does not say */
	int host_vmm;  /* 1: physical memory may be located on host_node */
	int is_mig;    /* 1: a part of a GPU */
	size_t granularity_bytes;      /* of device memory */
	size_t host_granularity_bytes; /* of host-located memory; 0 without host_vmm */
};

/* Why what crosses the link of such a GPU cannot be compressed, in a few words; NULL: it can. */
const char *sl_cuda_codec_lacks(int capability);
/* A device's identity as in struct sl_cuda_device_info. name: the driver's of the device. 1: it is a part of a
 * GPU. */
int sl_cuda_uuid_format(const struct cu_uuid *uuid, const char *name, char *buf,
			size_t buf_bytes);

/*
 * Open libcuda.so.1, or what SLUICE_CUDA_LIBRARY names (a path: for tests and for drivers
 * in odd places), resolve the table, initialise. Once a process: later calls give the same
 * structure, which stays valid for ever (a driver cannot be unloaded safely). A failure is
 * not remembered: a later call tries again.
 *
 * -ENOTSUP: no library, a required call is missing, the driver is older than
 * SL_CUDA_VERSION_MIN, it finds no device, or it refuses to start; the text says which, and
 * what cuInit said. *out untouched.
 */
int sl_cuda_driver_open(const struct sl_cuda_driver **out) SL_MUST_CHECK;

/*
 * Before the first sl_cuda_driver_open(): the driver's library, already loaded (a handle for dlsym()), and
 * its path. For who stands in its place in the loader's eyes (src/preload): opening it by name would
 * find that. Both stay the caller's, and must stay valid. One thread calls it; it takes no lock, so that it
 * may be called under the caller's.
 */
void sl_cuda_driver_library(void *library, const char *path);

/*
 * Describe device number ordinal (from 0) and see that it has what the back end stands on.
 * -EINVAL: no such device. -ENOTSUP: it lacks virtual memory management or unified
 * addressing, the text says so. Else what the driver's code becomes. Blocks shortly.
 */
int sl_cuda_device_probe(const struct sl_cuda_driver *driver, int ordinal,
			 struct sl_cuda_device_info *out) SL_MUST_CHECK;

/*
 * What a result of the driver becomes: 0, or -errno with the text
 * "cuMemMap: CUDA_ERROR_INVALID_VALUE (1)". call: the driver's call, without arguments.
 * Callers put their own object in front with sl_fail_in(). Never blocks, safe under locks.
 */
int sl_cuda_errno(int result, const char *call);

/* As sl_cuda_errno() without a text, for results that are no failures (CU_ERROR_NOT_READY
 * from a query is -EAGAIN). */
int sl_cuda_errno_quiet(int result);

/* 1: after this result the context is of no use, every later call fails with it. */
int sl_cuda_result_is_lost(int result);

/* "CUDA_ERROR_ILLEGAL_ADDRESS"; for a code that is not in our list what the open driver calls
 * it, else "CUDA_ERROR_?". Static storage. */
const char *sl_cuda_result_name(int result);

/*
 * Call the driver: SL_CUDA(driver, cuMemMap, addr, bytes, 0, handle, 0) is 0 or -errno with
 * the text set. Nothing beside the call when it succeeds.
 */
#define SL_CUDA(driver, call, ...) sl_cuda_checked((driver)->call(__VA_ARGS__), #call)

static inline int
sl_cuda_checked(int result, const char *call)
{
	return __builtin_expect(result == CU_SUCCESS, 1) ? 0 : sl_cuda_errno(result, call);
}

#endif

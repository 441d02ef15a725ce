/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the CUDA driver and translates its results. cuda_symbols.def has its calls, cuda_abi.h
 * its values and layouts. The rest of this folder uses it.
 *
 * A process has one driver. It is published once, complete, through an atomic pointer. A lock
 * keeps two threads from opening it at the same time. An unsuitable library stays loaded.
 * Unloading a driver that has started threads is not safe, and loading it again finds the same
 * one.
 *
 * Threads: any.
 */
#include "device/cuda/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sl_cuda_driver the_driver; /* open_lock until published, then constant */
/* atomic: pairs with the acquire of the readers: whoever sees it sees the_driver filled. */
static _Atomic(const struct sl_cuda_driver *) published;
/* Plain, not an sl_mutex: loading a driver runs foreign code of unknown length under it,
 * which belongs at no place in the lock order. No lock is taken inside. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
/* atomic: pairs with the acquire of the one that opens: it sees given_path. */
static _Atomic(void *) given_library;
static const char *given_path;

/* ---- results ---- */

static const struct result_row {
	int code, rc, lost;
	const char *name;
} result_rows[] = {{CU_SUCCESS, 0, 0, "CUDA_SUCCESS"},
#define RESULT_ROW(name, code, errno_value, lost) \
	{code, -(errno_value), lost, "CUDA_ERROR_" #name},
		   CU_RESULTS(RESULT_ROW)
#undef RESULT_ROW
};

/* NULL: a code that is not in our list. */
static const struct result_row *
result_find(int result)
{
	for (size_t i = 0; i < sizeof(result_rows) / sizeof(result_rows[0]); i++)
		if (result_rows[i].code == result)
			return &result_rows[i];
	return NULL;
}

int
sl_cuda_errno_quiet(int result)
{
	const struct result_row *row = result_find(result);

	return row ? row->rc : -EIO;
}

int
sl_cuda_result_is_lost(int result)
{
	const struct result_row *row = result_find(result);

	return row ? row->lost : 0;
}

const char *
sl_cuda_result_name(int result)
{
	const struct result_row *row = result_find(result);
	const struct sl_cuda_driver *driver;
	const char *name = NULL;

	if (row)
		return row->name;
	driver = atomic_load_explicit(&published, memory_order_acquire);
	if (driver && driver->cuGetErrorName(result, &name) == CU_SUCCESS && name)
		return name;
	return "CUDA_ERROR_?";
}

int
sl_cuda_errno(int result, const char *call)
{
	if (result == CU_SUCCESS)
		return 0;
	return sl_fail(sl_cuda_errno_quiet(result), "%s: %s (%d)", call,
		       sl_cuda_result_name(result), result);
}

/* ---- the driver ---- */

/* Fill the members from the library; name of the first required one that is missing, or
 * NULL. */
static const char *
driver_resolve(struct sl_cuda_driver *driver, void *library)
{
	enum { OPTIONAL, REQUIRED };
	const char *missing = NULL;

	/* POSIX says that what dlsym() gives converts to a function; ISO C has no cast for
	 * it. */
#define CUDA_SYMBOL(name, exported, need, ...)               \
	*(void **)&driver->name = dlsym(library, #exported); \
	if (!driver->name && (need) == REQUIRED && !missing) \
		missing = #exported;
#include "device/cuda/cuda_symbols.def"
#undef CUDA_SYMBOL
	return missing;
}

static int
driver_start(struct sl_cuda_driver *driver)
{
	int result, version = 0, n = 0;

	result = driver->cuDriverGetVersion(&version);
	if (result == CU_SUCCESS && version < SL_CUDA_VERSION_MIN)
		return sl_fail(
			-ENOTSUP,
			"CUDA: %s is a driver for CUDA %d.%d, too old: %d.%d or later "
			"is needed (update the driver, or use the software device)",
			driver->path, version / 1000, version % 1000 / 10,
			SL_CUDA_VERSION_MIN / 1000, SL_CUDA_VERSION_MIN % 1000 / 10);
	if (result == CU_SUCCESS)
		result = driver->cuInit(0);
	if (result == CU_ERROR_NO_DEVICE)
		return sl_fail(
			-ENOTSUP,
			"CUDA: the driver finds no device (cuInit: %s (%d)): see what "
			"nvidia-smi and CUDA_VISIBLE_DEVICES say, or use the software "
			"device",
			sl_cuda_result_name(result), result);
	if (result == CU_SUCCESS)
		result = driver->cuDeviceGetCount(&n);
	if (result != CU_SUCCESS)
		return sl_fail(
			-ENOTSUP,
			"CUDA: the driver does not start (cuInit: %s (%d)): see what "
			"nvidia-smi says, or use the software device",
			sl_cuda_result_name(result), result);
	if (n < 1)
		return sl_fail(
			-ENOTSUP,
			"CUDA: the driver finds no device (it counts %d): see what "
			"nvidia-smi and CUDA_VISIBLE_DEVICES say, or use the software "
			"device",
			n);
	driver->version = version;
	driver->n_devices = n;
	return 0;
}

void
sl_cuda_driver_library(void *library, const char *path)
{
	given_path = path;
	atomic_store_explicit(&given_library, library, memory_order_release);
}

static int
driver_open(struct sl_cuda_driver *driver)
{
	const char *asked = getenv("SLUICE_CUDA_LIBRARY");
	const char *path = asked && *asked ? asked : "libcuda.so.1";
	const char *missing, *why;
	void *library = atomic_load_explicit(&given_library, memory_order_acquire);

	if (library)
		path = given_path;
	if (strlen(path) >= sizeof(driver->path))
		return sl_fail(-ENOTSUP, "CUDA: SLUICE_CUDA_LIBRARY: path too long");
	if (!library)
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		why = dlerror();
		return sl_fail(-ENOTSUP,
			       "CUDA: no GPU driver (%s): install NVIDIA's, or use the "
			       "software device",
			       why ? why : path);
	}
	memset(driver, 0, sizeof(*driver));
	strcpy(driver->path, path);
	missing = driver_resolve(driver, library);
	if (missing)
		return sl_fail(-ENOTSUP,
			       "CUDA: %s has no %s: a driver for CUDA %d.%d or later is "
			       "needed, or use the software device",
			       path, missing, SL_CUDA_VERSION_MIN / 1000,
			       SL_CUDA_VERSION_MIN % 1000 / 10);
	return driver_start(driver);
}

int
sl_cuda_driver_open(const struct sl_cuda_driver **out)
{
	const struct sl_cuda_driver *driver = atomic_load_explicit(&published,
								   memory_order_acquire);
	int rc = 0;

	if (!driver) {
		pthread_mutex_lock(&open_lock);
		driver = atomic_load_explicit(&published, memory_order_relaxed);
		if (!driver) {
			rc = driver_open(&the_driver);
			if (!rc) {
				driver = &the_driver;
				atomic_store_explicit(&published, driver,
						      memory_order_release);
			}
		}
		pthread_mutex_unlock(&open_lock);
	}
	if (rc)
		return rc;
	*out = driver;
	return 0;
}

/* ---- devices ---- */

/* An attribute; 0 for one that this driver does not know. */
static int
attr_get(const struct sl_cuda_driver *driver, int device, enum cu_attr attr, int *value)
{
	int result;

	*value = 0;
	result = driver->cuDeviceGetAttribute(value, attr, device);
	if (result == CU_ERROR_INVALID_VALUE) {
		*value = 0;
		result = CU_SUCCESS;
	}
	return sl_cuda_checked(result, "cuDeviceGetAttribute");
}

/* Physical memory on the host: what the driver says, and for those which do not know the
 * question whether they can name a granularity. Neither is a failure. */
static void
host_memory_probe(const struct sl_cuda_driver *driver, struct sl_cuda_device_info *info)
{
	struct cu_allocation prop = {
		.type = CU_ALLOCATION_PINNED,
		.location = {.type = CU_LOCATION_HOST_NUMA, .id = 0},
	};
	int node = 0, can = 0;
	size_t bytes = 0;

	if (driver->cuDeviceGetAttribute(&node, CU_ATTR_HOST_NUMA_ID, info->device) ||
	    node < 0)
		node = 0;
	if (driver->cuDeviceGetAttribute(&can, CU_ATTR_HOST_NUMA_VMM_SUPPORTED,
					 info->device) == CU_SUCCESS &&
	    !can)
		return;
	prop.location.id = node;
	if (driver->cuMemGetAllocationGranularity(&bytes, &prop, CU_GRANULARITY_MINIMUM) ||
	    !bytes)
		return;
	info->host_node = node;
	info->host_vmm = 1;
	info->host_granularity_bytes = bytes;
}

/* Only the name says that it is a part of a GPU ("NVIDIA H100 MIG 1g.10gb"). A part has an identity of
 * its own. */
int
sl_cuda_uuid_format(const struct cu_uuid *uuid, const char *name, char *buf, size_t buf_bytes)
{
	const unsigned char *b = uuid->bytes;
	int is_mig = strstr(name, " MIG ") != NULL;

	snprintf(buf,
		 buf_bytes, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 is_mig ? "MIG" : "GPU", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7],
		 b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
	return is_mig;
}

int
sl_cuda_device_probe(const struct sl_cuda_driver *driver, int ordinal,
		     struct sl_cuda_device_info *out)
{
	struct cu_allocation prop = {.type = CU_ALLOCATION_PINNED};
	struct sl_cuda_device_info info;
	int unified, vmm, major, minor, rc;
	size_t memory_bytes = 0;
	struct cu_uuid uuid = {0};

	if (ordinal < 0 || ordinal >= driver->n_devices)
		return sl_fail(-EINVAL, "CUDA device %d: there are %d", ordinal,
			       driver->n_devices);
	memset(&info, 0, sizeof(info));
	rc = SL_CUDA(driver, cuDeviceGet, &info.device, ordinal);
	if (!rc)
		rc = SL_CUDA(driver, cuDeviceGetName, info.name, (int)sizeof(info.name),
			     info.device);
	if (!rc)
		rc = SL_CUDA(driver, cuDeviceGetUuid, &uuid, info.device);
	if (!rc)
		rc = SL_CUDA(driver, cuDeviceTotalMem, &memory_bytes, info.device);
	if (!rc)
		rc = attr_get(driver, info.device, CU_ATTR_UNIFIED_ADDRESSING, &unified);
	if (!rc)
		rc = attr_get(driver, info.device, CU_ATTR_VMM_SUPPORTED, &vmm);
	if (!rc)
		rc = attr_get(driver, info.device, CU_ATTR_COMPUTE_CAPABILITY_MAJOR, &major);
	if (!rc)
		rc = attr_get(driver, info.device, CU_ATTR_COMPUTE_CAPABILITY_MINOR, &minor);
	if (!rc)
		rc = attr_get(driver, info.device, CU_ATTR_MULTIPROCESSOR_COUNT,
			      &info.n_multiprocessors);
	if (!rc)
		rc = attr_get(driver, info.device, CU_ATTR_ASYNC_ENGINE_COUNT,
			      &info.n_copy_engines);
	if (rc)
		return sl_fail_in(rc, "CUDA device %d", ordinal);
	if (!vmm || !unified)
		return sl_fail(-ENOTSUP,
			       "CUDA device %d (%s) has no %s: it cannot be used, the "
			       "software device can",
			       ordinal, info.name,
			       vmm ? "unified addressing" : "virtual memory management");
	prop.location.type = CU_LOCATION_DEVICE;
	prop.location.id = info.device;
	rc = SL_CUDA(driver, cuMemGetAllocationGranularity, &info.granularity_bytes,
		     &prop, CU_GRANULARITY_MINIMUM);
	if (rc)
		return sl_fail_in(rc, "CUDA device %d", ordinal);
	info.is_mig = sl_cuda_uuid_format(&uuid, info.name, info.uuid, sizeof(info.uuid));
	info.memory_bytes = memory_bytes;
	info.capability = major * 10 + minor;
	host_memory_probe(driver, &info);
	*out = info;
	return 0;
}

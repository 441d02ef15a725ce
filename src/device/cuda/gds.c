/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See gds.h. cuFile is opened at run time like the driver. Its four calls are declared here:
 * their results are two numbers by value, its own and the driver's. Without its kernel module it
 * copies through host memory of its own. That is no more direct than the store engine, and
 * slower. The result tells the two apart.
 *
 * Leaves nothing but the loaded library.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/cuda/gds.h"

#define CUFILE_LIBRARY "libcufile.so.0"
#define CUFILE_MODULE  "/proc/driver/nvidia-fs/version"
#define CUFILE_FD      1 /* type of a handle: a Linux file descriptor */

/* cuFile's interface, as far as it is used. */
struct cufile_result {
	int own;    /* 0, or 5001 and up */
	int driver; /* the driver's result where own says so */
};

struct cufile_descriptor {
	int type;
	union {
		int fd;
		void *handle;
	} of;
	const void *ops;
};

_Static_assert(sizeof(struct cufile_result) == 8, "ABI");
_Static_assert(sizeof(struct cufile_descriptor) == 24, "ABI");

struct cufile {
	struct cufile_result (*driver_open)(void);
	struct cufile_result (*driver_close)(void);
	struct cufile_result (*handle_register)(void **handle,
						struct cufile_descriptor *descriptor);
	void (*handle_deregister)(void *handle);
};

static int
cufile_symbol(void *library, const char *name, void **out)
{
	*out = dlsym(library, name);
	return *out ? 0 : sl_fail(-ENOTSUP, "cuFile: it has no %s", name);
}

static int
cufile_load(struct cufile *cufile)
{
	const char *given = getenv("SLUICE_CUFILE_LIBRARY");
	const char *path = given && *given ? given : CUFILE_LIBRARY;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int rc;

	if (!library)
		return sl_fail(-ENOTSUP, "cuFile is not installed: %s cannot be loaded",
			       path);
	rc = cufile_symbol(library, "cuFileDriverOpen", (void **)&cufile->driver_open);
	if (!rc)
		rc = cufile_symbol(library, "cuFileDriverClose",
				   (void **)&cufile->driver_close);
	if (!rc)
		rc = cufile_symbol(library, "cuFileHandleRegister",
				   (void **)&cufile->handle_register);
	if (!rc)
		rc = cufile_symbol(library, "cuFileHandleDeregister",
				   (void **)&cufile->handle_deregister);
	return rc;
}

/* Context current. */
static int
cufile_try(const struct cufile *cufile, int fd)
{
	struct cufile_descriptor descriptor = {.type = CUFILE_FD, .of.fd = fd};
	struct cufile_result result = cufile->driver_open();
	void *handle = NULL;
	int rc = 0;

	if (result.own)
		return sl_fail(-ENOTSUP, "cuFile does not start: error %d (driver's: %d)",
			       result.own, result.driver);
	result = cufile->handle_register(&handle, &descriptor);
	if (result.own)
		rc = sl_fail(-ENOTSUP,
			     "cuFile does not take a file of this directory: error %d "
			     "(driver's: %d)",
			     result.own, result.driver);
	else
		cufile->handle_deregister(handle);
	(void)cufile->driver_close();
	if (!rc && access(CUFILE_MODULE, F_OK))
		rc = sl_fail(-ENOTSUP, "cuFile starts, but copies through host memory "
				       "itself: the kernel "
				       "module nvidia-fs is not loaded");
	return rc;
}

int
sl_cuda_gds_probe(const struct sl_cuda_driver *driver, int device, int fd)
{
	struct cu_context *context = NULL, *ours;
	struct cufile cufile = {0};
	int rc = cufile_load(&cufile);

	if (rc)
		return rc;
	rc = SL_CUDA(driver, cuDevicePrimaryCtxRetain, &context, device);
	if (rc)
		return rc;
	rc = SL_CUDA(driver, cuCtxPushCurrent, context);
	if (!rc) {
		rc = cufile_try(&cufile, fd);
		(void)driver->cuCtxPopCurrent(&ours);
	}
	(void)driver->cuDevicePrimaryCtxRelease(device);
	return rc;
}

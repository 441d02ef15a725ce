/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the workloads on a GPU: driver, context, module, launch, and what the link does. See
 * cuda_run.h.
 *
 * The PTX that nvcc makes of kernels.cu is found through SLUICE_KERNELS, else beside the program
 * (where the build puts it), else in ../share/sluice of the program's folder (where installing
 * puts it). The stand-in driver needs none; of one that it is given only the names count.
 *
 * Threads: that of workload_run().
 */
#include "cuda_run.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_driver/standin.h"
#include "device/cuda/cuda_driver.h"
#include "kernel.h"

#define PTX_NAME "sluice_workloads.ptx"

/* ---- the kernels' image ---- */

/* The whole file, ended by NUL; NULL: it cannot be read. */
static char *
file_text(const char *path)
{
	FILE *f = fopen(path, "rbe");
	char *text = NULL;
	long bytes;

	if (f && !fseek(f, 0, SEEK_END) && (bytes = ftell(f)) > 0) {
		text = calloc(1, (size_t)bytes + 1);
		rewind(f);
		if (text && fread(text, 1, (size_t)bytes, f) != (size_t)bytes) {
			free(text);
			text = NULL;
		}
	}
	if (f)
		fclose(f);
	return text;
}

/* Directory of the program, without a slash at its end; 0 or -errno. */
static int
program_dir(char *dir, size_t dir_bytes)
{
	ssize_t n = readlink("/proc/self/exe", dir, dir_bytes - 1);
	char *slash;

	if (n < 0)
		return -errno;
	dir[n] = '\0';
	slash = strrchr(dir, '/');
	if (slash)
		*slash = '\0';
	return 0;
}

static int
image_read(struct workload_env *env, char **out)
{
	static const char *const places[] = {PTX_NAME, "../share/sluice/" PTX_NAME, NULL};
	const char *asked = getenv("SLUICE_KERNELS");
	char dir[PATH_MAX], path[PATH_MAX + 64];
	unsigned i;

	if (asked && *asked) {
		*out = file_text(asked);
		return *out ? 0
			    : workload_fail(
				      env, -ENOENT,
				      "SLUICE_KERNELS: %s cannot be read: it must name "
				      "the PTX of the workloads' kernels",
				      asked);
	}
	for (i = 0; places[i] && !program_dir(dir, sizeof(dir)); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, places[i]);
		*out = file_text(path);
		if (*out)
			return 0;
	}
	return workload_fail(
		env, -ENOENT,
		"the workloads' kernels for a GPU are missing (%s beside the program "
		"or in ../share/sluice): build on a machine with nvcc (cmake --preset "
		"gpu), or let SLUICE_KERNELS name the file",
		PTX_NAME);
}

static int
kernels_load(struct workload_env *env, struct workload_cuda *cuda)
{
	const struct sl_cuda_driver *driver = cuda->driver;
	const struct workload_kernel *const *k;
	int standin = workload_standin_register(driver->path);
	char *image = NULL;
	int rc = 0;

	if (!env->workload->kernels)
		return workload_fail(env, -ENOTSUP, "%s has no kernels for a GPU",
				     env->workload->name);
	if (standin && !getenv("SLUICE_KERNELS")) {
		rc = SL_CUDA(driver, cuModuleLoadData, &cuda->module, SL_STANDIN_IMAGE);
	} else {
		rc = image_read(env, &image);
		if (rc)
			return rc;
		rc = SL_CUDA(driver, cuModuleLoadData, &cuda->module, image);
	}
	free(image);
	for (k = env->workload->kernels; !rc && *k; k++) {
		if ((*k)->library && standin) {
			rc = (*k)->library->open_soft(env);
		} else if ((*k)->library) {
			cuda->library = (*k)->library;
			rc = cuda->library->open(env, driver, &cuda->library_state);
		}
		if (rc)
			return rc;
		if (cuda->library_state && (*k)->library)
			continue;
		if (k - env->workload->kernels >= (ptrdiff_t)WORKLOAD_CUDA_KERNELS_MAX)
			return workload_fail(env, -EINVAL, "%s has more than %u kernels",
					     env->workload->name, WORKLOAD_CUDA_KERNELS_MAX);
		rc = SL_CUDA(driver, cuModuleGetFunction,
			     &cuda->function[k - env->workload->kernels], cuda->module,
			     (*k)->name);
	}
	return rc ? workload_fail_library(env, rc, "the workload's kernels") : 0;
}

/* ---- opening ---- */

/* A context on device number ordinal, current on this thread; text of a failure set. */
static int
context_open(struct workload_cuda *cuda, unsigned ordinal)
{
	int rc = sl_cuda_driver_open(&cuda->driver);

	if (!rc)
		rc = SL_CUDA(cuda->driver, cuDeviceGet, &cuda->device, (int)ordinal);
	if (!rc)
		rc = SL_CUDA(cuda->driver, cuDevicePrimaryCtxRetain, &cuda->context,
			     cuda->device);
	if (!rc)
		rc = SL_CUDA(cuda->driver, cuCtxSetCurrent, cuda->context);
	return rc;
}

/* Failures of giving back are of no use to anybody: a lost context says so elsewhere. */
static void
context_close(struct workload_cuda *cuda)
{
	if (!cuda->context)
		return;
	if (cuda->library)
		cuda->library->close(cuda->library_state);
	if (cuda->bounce)
		(void)cuda->driver->cuMemFreeHost(cuda->bounce);
	if (cuda->module)
		(void)cuda->driver->cuModuleUnload(cuda->module);
	(void)cuda->driver->cuCtxSetCurrent(NULL);
	(void)cuda->driver->cuDevicePrimaryCtxRelease(cuda->device);
}

int
workload_cuda_open(struct workload_env *env, unsigned ordinal, struct workload_cuda **out)
{
	struct workload_cuda *cuda = calloc(1, sizeof(*cuda));
	int rc;

	if (!cuda)
		return workload_fail(env, -ENOMEM, "out of memory");
	rc = context_open(cuda, ordinal);
	if (!rc)
		rc = SL_CUDA(cuda->driver, cuMemHostAlloc, &cuda->bounce,
			     WORKLOAD_HOST_COPY_MAX, 0);
	if (rc == -ENOMEM)
		rc = sl_fail_in(rc, "pinning %llu MiB of host memory for copies",
				(unsigned long long)(WORKLOAD_HOST_COPY_MAX >> 20));
	rc = rc ? workload_fail_library(env, rc, "device") : kernels_load(env, cuda);
	if (rc) {
		workload_cuda_close(cuda);
		return rc;
	}
	*out = cuda;
	return 0;
}

void
workload_cuda_close(struct workload_cuda *cuda)
{
	if (!cuda)
		return;
	context_close(cuda);
	free(cuda);
}

/* ---- launching ---- */

int
workload_cuda_launch(struct workload_env *env, struct workload_cuda *cuda,
		     const struct workload_kernel *kernel, uint64_t n, const void *args,
		     void *stream)
{
	const struct workload_kernel *const *k = env->workload->kernels;
	unsigned char copy[WORKLOAD_KERNEL_ARGS_MAX]; /* the driver wants a plain pointer */
	void *params[] = {copy};
	int rc;

	while (*k && *k != kernel)
		k++;
	if (!*k)
		return workload_fail(env, -EINVAL, "%s is no kernel of %s", kernel->name,
				     env->workload->name);
	if (kernel->library && cuda->library_state)
		return kernel->library->launch(env, cuda->library_state, args, stream);
	memcpy(copy, args, kernel->args_bytes);
	rc = SL_CUDA(cuda->driver, cuLaunchKernel,
		     cuda->function[k - env->workload->kernels],
		     (unsigned)workload_blocks(n, kernel->cuda_elements), 1, 1,
		     KERNEL_CUDA_THREADS, 1, 1, 0, stream, params, NULL);
	return rc ? workload_fail_library(env, rc, kernel->name) : 0;
}

int
workload_cuda_host_copy(struct workload_env *env, struct workload_cuda *cuda,
			uint64_t device, uint64_t cols, uint64_t stride, uint64_t rows,
			void *out, void *stream)
{
	uint64_t row;
	int rc = 0;

	for (row = 0; !rc && row < rows; row++)
		rc = SL_CUDA(cuda->driver, cuMemcpyDtoHAsync,
			     (char *)cuda->bounce + row * cols * 4,
			     device + row * stride * 4, cols * 4, stream);
	if (!rc)
		rc = SL_CUDA(cuda->driver, cuStreamSynchronize, stream);
	if (rc)
		return workload_fail_library(env, rc, "copy to host code");
	memcpy(out, cuda->bounce, rows * cols * 4);
	return 0;
}

unsigned
workload_array_of(const struct workload_env *env, const void *addr)
{
	unsigned i;

	for (i = 0; i < env->plan.n_arrays; i++)
		if (env->base[i] && (const char *)addr >= (const char *)env->base[i] &&
		    (const char *)addr <
			    (const char *)env->base[i] + env->plan.array[i].size_bytes)
			break;
	return i;
}

int
workload_cuda_translate(struct workload_env *env, const struct workload_kernel *kernel,
			const void *args, const uint64_t *shift, void *out)
{
	unsigned i;

	memcpy(out, args, kernel->args_bytes);
	for (i = 0; i < kernel->n_pointers; i++) {
		char *field = (char *)out + kernel->pointer[i];
		uint64_t addr, shifted;
		unsigned array;

		memcpy(&addr, field, sizeof(addr));
		array = workload_array_of(env, (const void *)(uintptr_t)addr);
		if (array == env->plan.n_arrays)
			return workload_fail(env, -EINVAL, "%s: a pointer into no array",
					     kernel->name);
		shifted = addr + shift[array];
		memcpy(field, &shifted, sizeof(shifted));
	}
	return 0;
}

/* ---- the link ---- */

#define LINK_PIECE_BYTES (16ull << 20)
#define LINK_PIECES      2  /* of each side and direction */
#define LINK_COPIES      24 /* of one measurement */

struct link_buffers {
	struct cu_stream *stream[2];
	uint64_t device[2];
	void *host[2];
};

static int
link_buffers_make(struct workload_cuda *cuda, struct link_buffers *b)
{
	const struct sl_cuda_driver *driver = cuda->driver;
	uint64_t bytes = LINK_PIECES * LINK_PIECE_BYTES;
	int i, rc = 0;

	for (i = 0; !rc && i < 2; i++) {
		rc = SL_CUDA(driver, cuStreamCreate, &b->stream[i], CU_STREAM_NONBLOCKING);
		if (!rc)
			rc = SL_CUDA(driver, cuMemAlloc, &b->device[i], bytes);
		if (!rc)
			rc = SL_CUDA(driver, cuMemHostAlloc, &b->host[i], bytes, 0);
		if (!rc)
			memset(b->host[i], i + 1, bytes);
	}
	return rc == -ENOMEM
		       ? sl_fail_in(
				 rc,
				 "no room to measure with: it takes %llu MiB of pinned "
				 "host memory, and as much on the device",
				 (unsigned long long)(2 * bytes >> 20))
		       : rc;
}

static void
link_buffers_free(struct workload_cuda *cuda, struct link_buffers *b)
{
	const struct sl_cuda_driver *driver = cuda->driver;
	int i;

	for (i = 0; i < 2; i++) {
		if (b->stream[i])
			(void)driver->cuStreamDestroy(b->stream[i]);
		if (b->device[i])
			(void)driver->cuMemFree(b->device[i]);
		if (b->host[i])
			(void)driver->cuMemFreeHost(b->host[i]);
	}
}

/* Copy n pieces in and/or out; *rate: bytes a second, of both ways together. */
static int
link_copy(struct workload_cuda *cuda, struct link_buffers *b, int in, int out, unsigned n,
	  double *rate)
{
	const struct sl_cuda_driver *driver = cuda->driver;
	uint64_t start = workload_now_ns();
	unsigned i;
	int rc = 0;

	for (i = 0; !rc && i < n; i++) {
		uint64_t offset = i % LINK_PIECES * LINK_PIECE_BYTES;

		if (in)
			rc = SL_CUDA(driver, cuMemcpyHtoDAsync, b->device[0] + offset,
				     (char *)b->host[0] + offset, LINK_PIECE_BYTES,
				     b->stream[0]);
		if (!rc && out)
			rc = SL_CUDA(driver, cuMemcpyDtoHAsync, (char *)b->host[1] + offset,
				     b->device[1] + offset, LINK_PIECE_BYTES, b->stream[1]);
	}
	for (i = 0; !rc && i < 2; i++)
		rc = SL_CUDA(driver, cuStreamSynchronize, b->stream[i]);
	*rate = (double)(n * (uint64_t)(in + out) * LINK_PIECE_BYTES) * 1e9 /
		(double)(workload_now_ns() - start + 1);
	return rc;
}

int
workload_link_measure(unsigned ordinal, struct workload_link *link, char *error)
{
	struct workload_cuda cuda = {0};
	struct link_buffers b = {0};
	struct workload_link found = {0};
	double warm;
	int rc = context_open(&cuda, ordinal);

	if (!rc)
		rc = link_buffers_make(&cuda, &b);
	if (!rc)
		rc = link_copy(&cuda, &b, 1, 1, LINK_COPIES, &warm);
	if (!rc)
		rc = link_copy(&cuda, &b, 1, 0, LINK_COPIES, &found.in_bytes_per_s);
	if (!rc)
		rc = link_copy(&cuda, &b, 0, 1, LINK_COPIES, &found.out_bytes_per_s);
	if (!rc)
		rc = link_copy(&cuda, &b, 1, 1, LINK_COPIES, &found.both_bytes_per_s);
	if (rc)
		snprintf(error, WORKLOAD_TEXT_BYTES, "link: %s", sluice_last_error());
	else
		*link = found;
	if (cuda.context)
		link_buffers_free(&cuda, &b);
	context_close(&cuda);
	return rc;
}

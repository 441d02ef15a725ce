/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays in host memory that a GPU can reach, for the kinds of memory without a space: anonymous
 * memory of large pages, filled from the array's file, then pinned; written back to the file at the
 * end. Pinning what is there already is many times cheaper than having the driver allocate it. Or, as
 * most programs are written (params->cached), filled by read(2) through the page cache and not pinned: the
 * driver then copies by way of memory of its own. And arrays that are on the device as a whole, copied in
 * before their first use.
 *
 * Leaves when that is done to memory_copies.c, memory_streaming.c and memory_mapped.c.
 *
 * Threads: that of workload_run().
 */
#include "cuda_run.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/cuda/cuda_driver.h"

#define ROUND_BYTES (2ull << 20) /* of a large page */
#define PIECE_BYTES (64ull << 20)

static uint64_t
host_bytes(const struct workload_env *env, unsigned array)
{
	return (env->plan.array[array].size_bytes + ROUND_BYTES - 1) / ROUND_BYTES *
	       ROUND_BYTES;
}

/* The file's contents: past the page cache where that is wanted and the file system allows it. */
static int
file_load(struct workload_env *env, unsigned array, const char *path, char *to)
{
	uint64_t bytes = env->plan.array[array].size_bytes, at = 0;
	int fd = -1, rc = 0;

	if (!env->params->cached)
		fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
	if (fd < 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return workload_fail(env, -errno, "%s: %s", path, strerror(errno));
	while (!rc && at < bytes) {
		uint64_t left = host_bytes(env, array) - at;
		ssize_t n = pread(fd, to + at, left < PIECE_BYTES ? left : PIECE_BYTES,
				  (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			rc = workload_fail(env, n < 0 ? -errno : -EIO, "%s: read at %llu: %s",
					   path, (unsigned long long)at,
					   n < 0 ? strerror(errno)
						 : "the file ends before it");
		else
			at += (uint64_t)n;
	}
	close(fd);
	return rc;
}

int
workload_cuda_host_map(struct workload_env *env, struct workload_cuda *cuda,
		       unsigned array, const char *path)
{
	const struct workload_array *a = &env->plan.array[array];
	uint64_t bytes = host_bytes(env, array);
	void *addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int rc = 0;

	if (addr == MAP_FAILED)
		return workload_fail(env, -errno, "%s: no memory for %llu bytes: %s",
				     a->name, (unsigned long long)bytes, strerror(errno));
	(void)madvise(addr, bytes, MADV_HUGEPAGE); /* a wish */
	if (a->role == WORKLOAD_INPUT || a->role == WORKLOAD_IN_PLACE)
		rc = file_load(env, array, path, addr);
	else
		memset(addr, 0, bytes);
	if (!rc && !env->params->cached) {
		rc = SL_CUDA(cuda->driver, cuMemHostRegister, addr, bytes,
			     CU_HOST_REGISTER_PORTABLE | CU_HOST_REGISTER_DEVICE_MAP);
		if (rc)
			rc = workload_fail_library(env, rc, a->name);
	}
	if (rc) {
		munmap(addr, bytes);
		return rc;
	}
	env->base[array] = addr;
	return 0;
}

int
workload_cuda_host_sync(struct workload_env *env, unsigned array)
{
	const char *from = env->base[array];
	uint64_t bytes = env->plan.array[array].size_bytes, at = 0;
	char path[PATH_MAX];
	int fd, rc = workload_file_path(env, array, path, sizeof(path));

	if (rc)
		return rc;
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return workload_fail(env, -errno, "%s: %s", path, strerror(errno));
	while (!rc && at < bytes) {
		uint64_t left = bytes - at;
		ssize_t n = pwrite(fd, from + at, left < PIECE_BYTES ? left : PIECE_BYTES,
				   (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			rc = workload_fail(env, n < 0 ? -errno : -EIO,
					   "%s: write at %llu: %s", path,
					   (unsigned long long)at,
					   strerror(n < 0 ? errno : EIO));
		else
			at += (uint64_t)n;
	}
	if (!rc && fsync(fd))
		rc = workload_fail(env, -errno, "%s: fsync: %s", path, strerror(errno));
	close(fd);
	return rc;
}

int
workload_cuda_host_unmap(struct workload_env *env, struct workload_cuda *cuda, unsigned array)
{
	void *addr = env->base[array];
	int rc = 0;

	if (!addr)
		return 0;
	env->base[array] = NULL;
	if (!env->params->cached)
		rc = SL_CUDA(cuda->driver, cuMemHostUnregister, addr);
	munmap(addr, host_bytes(env, array));
	return rc ? workload_fail_library(env, rc, env->plan.array[array].name) : 0;
}

/* ---- whole arrays on the device ---- */

int
workload_cuda_array_make(struct workload_env *env, struct workload_cuda *cuda,
			 unsigned array, struct workload_cuda_array *a)
{
	const struct workload_array *plan = &env->plan.array[array];
	int rc = SL_CUDA(cuda->driver, cuMemAlloc, &a->device, plan->size_bytes);

	if (!rc)
		return 0;
	return workload_fail(
		env, rc,
		"%s: no %llu MiB of device memory for it: %s: a smaller footprint, "
		"or only memories that need no more than the budget",
		plan->name, (unsigned long long)(plan->size_bytes >> 20),
		sluice_last_error());
}

void
workload_cuda_array_free(struct workload_cuda *cuda, struct workload_cuda_array *a)
{
	if (a->device)
		(void)cuda->driver->cuMemFree(a->device);
	*a = (struct workload_cuda_array){0};
}

int
workload_cuda_array_use(struct workload_env *env, struct workload_cuda *cuda,
			unsigned array, struct workload_cuda_array *a,
			enum sluice_intent intent, void *stream)
{
	uint64_t bytes = env->plan.array[array].size_bytes;
	int rc = 0;

	if (!a->there && workload_intent_reads(intent)) {
		rc = SL_CUDA(cuda->driver, cuMemcpyHtoDAsync, a->device, env->base[array],
			     bytes, stream);
		env->result->h2d_bytes += bytes;
	}
	a->there = 1;
	if (workload_intent_writes(intent))
		a->written = 1;
	return rc ? workload_fail_library(env, rc, env->plan.array[array].name) : 0;
}

static int
array_collect(struct workload_env *env, struct workload_cuda *cuda, unsigned array,
	      struct workload_cuda_array *a, void *stream)
{
	const struct workload_array *plan = &env->plan.array[array];
	int rc;

	if (!a->written || (plan->role != WORKLOAD_OUTPUT && plan->role != WORKLOAD_IN_PLACE))
		return 0;
	a->written = 0;
	env->result->collect_bytes += plan->size_bytes;
	rc = SL_CUDA(cuda->driver, cuMemcpyDtoHAsync, env->base[array], a->device,
		     plan->size_bytes, stream);
	return rc ? workload_fail_library(env, rc, plan->name) : 0;
}

int
workload_cuda_arrays_collect(struct workload_env *env, struct workload_cuda *cuda,
			     struct workload_cuda_array *arrays, void *stream)
{
	int rc = 0;

	for (unsigned i = 0; !rc && i < env->plan.n_arrays; i++)
		rc = array_collect(env, cuda, i, &arrays[i], stream);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice doctor --measure`: the rate of each GPU's link, both ways, and of the first
 * directory on a disk. Each is measured as Sluice uses it: copies of pinned host memory on a stream, and large
 * blocks with O_DIRECT (disk_rate.c). A finding says the rates and the method.
 *
 * The time is bounded: LINK_S for all links together, twice DISK_S for the disk, and one copy or block
 * more for each. A line on the terminal shows how far it is.
 *
 * Leaves nothing behind: the memory is given back, and the file has no name.
 *
 * Threads: one, those of disk_rate.c, and those that a GPU driver may start.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/size.h"
#include "device/cuda/cuda_driver.h"
#include "doctor.h"

#define LINK_S       2.0
#define DISK_S       1.5
#define DISK_BYTES   (512 * MIB)
#define PIECE_BYTES  ((size_t)32 << 20)
#define PIECES_MOST  8 /* enqueued before the stream is waited for */
#define METHOD_BYTES "copies of 32 MiB of pinned memory"

/* What copies go between. */
struct link {
	const struct sl_cuda_driver *driver;
	struct cu_stream *stream;
	uint64_t device;
	void *host;
	struct progress *progress;
	double limit_s; /* of each direction */
};

/* n copies, and their end. */
static int
pieces_copy(const struct link *link, int is_in, unsigned n)
{
	int rc = 0;

	for (unsigned i = 0; !rc && i < n; i++)
		rc = is_in ? SL_CUDA(link->driver, cuMemcpyHtoDAsync, link->device,
				     link->host, PIECE_BYTES, link->stream)
			   : SL_CUDA(link->driver, cuMemcpyDtoHAsync, link->host,
				     link->device, PIECE_BYTES, link->stream);
	return rc ? rc : SL_CUDA(link->driver, cuStreamSynchronize, link->stream);
}

static int
direction_measure(const struct link *link, int is_in, double *bytes_per_s)
{
	uint64_t bytes = 0, begin_ns, ns = 0;
	int rc = pieces_copy(link, is_in, 1); /* the first one is slower */

	begin_ns = sl_now_ns();
	for (unsigned n = 1; !rc && (double)ns < link->limit_s * 1e9;
	     n = n < PIECES_MOST ? 2 * n : n) {
		rc = pieces_copy(link, is_in, n);
		bytes += n * PIECE_BYTES;
		ns = sl_now_ns() - begin_ns;
		progress_update(link->progress,
				is_in ? "link, to the GPU" : "link, from the GPU",
				(double)ns / (link->limit_s * 1e9));
	}
	if (!rc)
		*bytes_per_s = (double)bytes / ((double)ns / 1e9);
	return rc;
}

/* Both directions, in the device's primary context. 0 or -errno with a text. */
static int
link_measure(struct link *link, int ordinal, struct doctor_gpu *gpu)
{
	const struct sl_cuda_driver *driver = link->driver;
	struct cu_context *context, *popped;
	struct sl_cuda_device_info info;
	int rc = sl_cuda_device_probe(driver, ordinal, &info);

	if (!rc)
		rc = SL_CUDA(driver, cuDevicePrimaryCtxRetain, &context, info.device);
	if (rc)
		return rc;
	rc = SL_CUDA(driver, cuCtxPushCurrent, context);
	if (!rc) {
		rc = SL_CUDA(driver, cuStreamCreate, &link->stream, CU_STREAM_NONBLOCKING);
		if (!rc)
			rc = SL_CUDA(driver, cuMemAlloc, &link->device, PIECE_BYTES);
		if (!rc)
			rc = SL_CUDA(driver, cuMemHostAlloc, &link->host, PIECE_BYTES, 0);
		if (!rc) {
			memset(link->host, 0x5a, PIECE_BYTES);
			rc = direction_measure(link, 1, &gpu->in_bytes_per_s);
		}
		if (!rc)
			rc = direction_measure(link, 0, &gpu->out_bytes_per_s);
		if (link->host)
			(void)driver->cuMemFreeHost(link->host);
		if (link->device)
			(void)driver->cuMemFree(link->device);
		if (link->stream)
			(void)driver->cuStreamDestroy(link->stream);
		(void)driver->cuCtxPopCurrent(&popped);
	}
	(void)driver->cuDevicePrimaryCtxRelease(info.device);
	return rc;
}

static void
links_measure(struct doctor *doctor, struct progress *progress)
{
	const struct sl_cuda_driver *driver;

	if (!doctor->gpu_n || sl_cuda_driver_open(&driver))
		return; /* the line on the GPU has said so */
	for (size_t i = 0; i < doctor->gpu_n; i++) {
		struct doctor_gpu *gpu = &doctor->gpus[i];
		struct link link = {
			.driver = driver,
			.progress = progress,
			.limit_s = LINK_S / 2 / (double)doctor->gpu_n,
		};

		if (link_measure(&link, (int)i, gpu)) {
			gpu->in_bytes_per_s = gpu->out_bytes_per_s = 0;
			finding_add(doctor, LEVEL_LIMITED, "link",
				    "free memory of the GPU, or see what the driver says",
				    "GPU %zu could not be measured: %s", i,
				    sluice_last_error());
			continue;
		}
		finding_add(doctor, LEVEL_OK, "link", NULL,
			    "GPU %zu: %.2f GB/s in, %.2f GB/s out (" METHOD_BYTES
			    ", %.2f s each way)",
			    i, gpu->in_bytes_per_s / 1e9, gpu->out_bytes_per_s / 1e9,
			    link.limit_s);
	}
}

static void
disk_measure(struct doctor *doctor, struct progress *progress)
{
	struct disk_rate *disk = &doctor->disk;
	const char *dir = doctor->dirs[0];

	if (!doctor->store_bytes) {
		finding_add(doctor, LEVEL_LIMITED, "disk rate",
			    "name a directory on a disk with --dir",
			    "%.200s is not on a disk that can be written: not measured",
			    dir);
		return;
	}
	if (disk_rate_measure(dir,
			      doctor->store_bytes / 4 < DISK_BYTES ? doctor->store_bytes / 4
								   : DISK_BYTES,
			      DISK_S, progress, disk)) {
		finding_add(doctor, LEVEL_LIMITED, "disk rate",
			    "name another directory with --dir", "%s", sluice_last_error());
		return;
	}
	finding_add(doctor, LEVEL_OK, "disk rate",
		    NULL, "%.150s: %.2f GB/s read, %.2f GB/s written (blocks of 2 MiB by %d threads, %s)",
		    dir, disk->read_bytes_per_s / 1e9, disk->write_bytes_per_s / 1e9,
		    DISK_RATE_THREADS, disk->direct ? "O_DIRECT" : "through the page cache");
}

void
doctor_measure(struct doctor *doctor)
{
	struct progress progress;

	progress_begin(&progress, "sluice doctor");
	links_measure(doctor, &progress);
	disk_measure(doctor, &progress);
	progress_end(&progress);
}

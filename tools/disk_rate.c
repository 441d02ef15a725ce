/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring a disk (see disk_rate.h).
 *
 * The threads take blocks in order from one counter, so that the disk sees a sequential stream
 * with DISK_RATE_THREADS requests in flight. Blocks hold random bytes: a disk or file system that
 * compresses must not look faster than it is. Writing ends with fdatasync(), which belongs to
 * the time.
 */
#include "disk_rate.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rng.h"

#define BLOCK_BYTES ((size_t)2 << 20)
#define LOOK_NS     100000000 /* between updates of the progress */

struct work {
	int fd;
	int is_write;
	uint64_t blocks;
	uint64_t deadline_ns;
	atomic_uint_fast64_t next; /* the block to take next */
	atomic_uint_fast64_t done;
	atomic_int error; /* errno of the first failure */
};

static void *
work_main(void *arg)
{
	struct work *work = arg;
	SL_CLEANUP(free) uint64_t *block = aligned_alloc(4096, BLOCK_BYTES);
	struct sl_rng rng;

	if (!block) {
		atomic_store(&work->error, ENOMEM);
		return NULL;
	}
	sl_rng_init(&rng, (uint64_t)(uintptr_t)block);
	for (size_t i = 0; i < BLOCK_BYTES / sizeof(*block); i++)
		block[i] = sl_rng_next(&rng);
	while (!atomic_load(&work->error)) {
		uint64_t at = atomic_fetch_add(&work->next, 1);
		off_t offset = (off_t)(at * BLOCK_BYTES);
		ssize_t moved;

		if (at >= work->blocks || sl_now_ns() >= work->deadline_ns)
			break;
		block[0] = at; /* no two blocks are equal */
		do
			moved = work->is_write
					? pwrite(work->fd, block, BLOCK_BYTES, offset)
					: pread(work->fd, block, BLOCK_BYTES, offset);
		while (moved < 0 && errno == EINTR);
		if (moved != (ssize_t)BLOCK_BYTES)
			atomic_store(&work->error, moved < 0 ? errno : EIO);
		else
			atomic_fetch_add(&work->done, 1);
	}
	return NULL;
}

/* Wait for a thread; meanwhile show how far all are. */
static void
thread_join(pthread_t thread, struct work *work, uint64_t begin_ns, struct progress *progress)
{
	for (;;) {
		double by_time = (double)(sl_now_ns() - begin_ns) /
				 (double)(work->deadline_ns - begin_ns);
		double by_blocks = (double)atomic_load(&work->done) / (double)work->blocks;
		struct timespec until;

		progress_update(progress, work->is_write ? "disk, writing" : "disk, reading",
				by_time > by_blocks ? by_time : by_blocks);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += LOOK_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		if (pthread_timedjoin_np(thread, NULL, &until) != ETIMEDOUT)
			return;
	}
}

/* Run the threads; *rate: bytes per second, *blocks: how many were moved. 0 or -errno. */
static int
direction_measure(int fd, int is_write, uint64_t *blocks, double limit_s,
		  struct progress *progress, double *rate)
{
	struct work work = {.fd = fd, .is_write = is_write, .blocks = *blocks};
	uint64_t begin_ns = sl_now_ns(), ns;
	pthread_t threads[DISK_RATE_THREADS];
	size_t n;

	work.deadline_ns = begin_ns + (uint64_t)(limit_s * 1e9);
	for (n = 0; n < DISK_RATE_THREADS; n++)
		if (pthread_create(&threads[n], NULL, work_main, &work))
			break;
	if (!n)
		return -EAGAIN;
	for (size_t i = 0; i < n; i++)
		thread_join(threads[i], &work, begin_ns, progress);
	if (is_write && !work.error && fdatasync(fd))
		work.error = errno;
	ns = sl_now_ns() - begin_ns;
	if (work.error)
		return -work.error;
	/* Blocks are taken in order: those done are the first ones, but for those in flight at the
	 * deadline, and these are done too. */
	*blocks = work.done;
	*rate = (double)(work.done * BLOCK_BYTES) / ((double)ns / 1e9);
	return *blocks ? 0 : -ETIMEDOUT;
}

/* An unlinked file of the given size in dir. fd or -errno; *direct: as in struct disk_rate. */
static int
file_make(const char *dir, uint64_t bytes, int *direct)
{
	char path[4096];
	int fd, rc;

	if ((size_t)snprintf(path, sizeof(path), "%s/sluice-rate-XXXXXX", dir) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Asked for afterwards: a refused open() could leave the file behind. */
	*direct = fcntl(fd, F_SETFL, O_DIRECT) == 0;
	unlink(path);
	rc = posix_fallocate(fd, 0, (off_t)bytes);
	if (rc) {
		close(fd);
		return -rc;
	}
	return fd;
}

int
disk_rate_measure(const char *dir, uint64_t bytes, double limit_s,
		  struct progress *progress, struct disk_rate *out)
{
	struct disk_rate rate = {0};
	uint64_t blocks = bytes / BLOCK_BYTES;
	SL_CLEANUP(close) int fd = file_make(dir, bytes, &rate.direct);
	int rc;

	if (fd < 0)
		return sl_fail(fd, "%s: a file of %llu MiB to measure the disk: %s", dir,
			       (unsigned long long)(bytes >> 20), sl_errno_name(fd));
	rc = direction_measure(fd, 1, &blocks, limit_s, progress, &rate.write_bytes_per_s);
	if (rc)
		return sl_fail(rc, "%s: measuring writes: %s", dir, sl_errno_name(rc));
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	rc = direction_measure(fd, 0, &blocks, limit_s, progress, &rate.read_bytes_per_s);
	if (rc)
		return sl_fail(rc, "%s: measuring reads: %s", dir, sl_errno_name(rc));
	*out = rate;
	return 0;
}

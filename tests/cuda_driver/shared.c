/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One device for several processes: CUDA_STANDIN_SHARED names a file in which each says how much it
 * has taken of each device. A process counts as long as the kernel holds its lock, so what a killed
 * one had is free again, as with a driver.
 *
 * Who takes memory says so first and looks at the sum then. Of two that want the last piece at the
 * same moment, both may be refused.
 *
 * Threads: any; the.lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

#define PROCESSES 256 /* as a book has rows */
#define LOCKS_AT  ((off_t)1 << 40)

static int fd = -2; /* -1: the device is not shared; -2: not asked yet */
static int slot;

static struct flock
slot_lock(int which, short type)
{
	return (struct flock){.l_type = type,
			      .l_whence = SEEK_SET,
			      .l_start = LOCKS_AT + which,
			      .l_len = 1};
}

static void
shared_open(void)
{
	const char *path = getenv("CUDA_STANDIN_SHARED");

	fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	if (fd < 0 && path)
		abort();
	for (slot = 0; fd >= 0; slot++) {
		struct flock lock = slot_lock(slot, F_WRLCK);
		uint64_t nothing[DEVICES_MAX] = {0};

		if (slot == PROCESSES)
			abort();
		if (fcntl(fd, F_OFD_SETLK, &lock))
			continue;
		if (pwrite(fd, nothing, sizeof(nothing), slot * (off_t)sizeof(nothing)) !=
		    (ssize_t)sizeof(nothing))
			abort();
		return;
	}
}

void
shared_say(void)
{
	if (fd == -2)
		shared_open();
	if (fd >= 0 && pwrite(fd, the.device_used, sizeof(the.device_used),
			      slot * (off_t)sizeof(the.device_used)) < 0)
		abort();
}

uint64_t
shared_taken(int device)
{
	uint64_t used[PROCESSES][DEVICES_MAX] = {0}, sum = 0;

	if (fd == -2)
		shared_open();
	if (fd < 0 || pread(fd, used, sizeof(used), 0) < 0)
		return 0;
	for (int i = 0; i < PROCESSES; i++) {
		struct flock lock = slot_lock(i, F_WRLCK);

		if (i == slot || !used[i][device])
			continue;
		if (!fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK)
			sum += used[i][device];
	}
	return sum;
}

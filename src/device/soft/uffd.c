/* SPDX-License-Identifier: Apache-2.0 */
/*
 * userfaultfd: opening and ioctls. See uffd.h.
 *
 * Opening tries, in this order: the system call with all rights; /dev/userfaultfd, which an
 * administrator may open to a group; the system call for user-mode faults only, which any user
 * may make. All descriptors of a device are opened in the same way.
 *
 * Retries. EAGAIN means that the kernel met itself (a page locked, an address space changing).
 * EBUSY means that a page is pinned, as long as a direct I/O on it lasts. The first tries only
 * yield the processor. Later ones sleep, doubling from 20 us to 2 ms. The longest wait is about
 * 0.2 s.
 */
#include "device/soft/uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define YIELDS         32
#define SLEEPS_HASTY   0   /* beyond the yields: the caller has another way */
#define SLEEPS_PATIENT 100 /* about 0.2 s */
#define SLEEP_FIRST_NS 20000u
#define SLEEP_LAST_NS  2000000u

#define USER_MODE_ONLY 1 /* flag of the system call, 5.11 */

struct uffd_move_arg {
	uint64_t dst;
	uint64_t src;
	uint64_t len;
	uint64_t mode;
	int64_t move;
};

struct uffd_poison_arg {
	uint64_t start;
	uint64_t len;
	uint64_t mode;
	int64_t updated;
};

#define UFFD_IOC_POISON     _IOWR(0xAA, 0x08, struct uffd_poison_arg)
#define UFFD_IOC_MOVE       _IOWR(0xAA, 0x05, struct uffd_move_arg)
#define UFFD_MOVE_DONTWAKE  1u
#define UFFD_MOVE_SRC_HOLES 2u
#define UFFD_DEV_IOC_NEW    _IO(0xAA, 0x00)
#define UFFD_DEV_PATH       "/dev/userfaultfd"

static int
raw_open(int *user_only)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	int first_errno = errno;
	int dev_fd;

	*user_only = 0;
	if (fd >= 0)
		return fd;
	if (first_errno == ENOSYS)
		return sl_fail(-ENOTSUP, "userfaultfd: this kernel has none "
					 "(CONFIG_USERFAULTFD), or a container's seccomp "
					 "profile hides it");
	if (first_errno != EPERM)
		return sl_fail(-first_errno, "userfaultfd: %s", sl_errno_name(first_errno));

	dev_fd = open(UFFD_DEV_PATH, O_RDWR | O_CLOEXEC);
	if (dev_fd >= 0) {
		fd = ioctl(dev_fd, UFFD_DEV_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
		close(dev_fd);
		if (fd >= 0)
			return fd;
	}

	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);
	if (fd >= 0) {
		*user_only = 1;
		return fd;
	}
	return sl_fail(
		-EPERM,
		"userfaultfd: refused: set /proc/sys/vm/unprivileged_userfaultfd to 1, "
		"or give this user read and write access to " UFFD_DEV_PATH
		", or, in a container, allow the userfaultfd system call in its seccomp "
		"profile");
}

int
sl_uffd_probe(uint64_t *features, int *user_only)
{
	struct uffdio_api api = {.api = UFFD_API};
	int only;
	int fd = raw_open(&only);
	int rc = 0;

	if (fd < 0)
		return fd;
	if (ioctl(fd, UFFDIO_API, &api))
		rc = -errno;
	close(fd);
	if (rc)
		return sl_fail(-ENOTSUP,
			       "userfaultfd: the kernel speaks another version of "
			       "its interface (%s)",
			       sl_errno_name(rc));
	*features = api.features;
	*user_only = only;
	return 0;
}

int
sl_uffd_open(uint64_t features, int *fd_out)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	int only;
	int fd = raw_open(&only);

	if (fd < 0)
		return fd;
	if (ioctl(fd, UFFDIO_API, &api)) {
		int rc = -errno;

		close(fd);
		return sl_fail(rc, "userfaultfd: features 0x%llx: %s",
			       (unsigned long long)features, sl_errno_name(rc));
	}
	*fd_out = fd;
	return 0;
}

int
sl_uffd_register(int fd, void *addr, size_t bytes, int missing)
{
	struct uffdio_register arg = {
		.range = {(uintptr_t)addr, bytes},
		.mode = UFFDIO_REGISTER_MODE_WP |
			(missing ? UFFDIO_REGISTER_MODE_MISSING : 0u),
	};

	return ioctl(fd, UFFDIO_REGISTER, &arg) ? -errno : 0;
}

/* Wait before try number n (from 0) is repeated; 0 when patience is at its end. */
static int
retry_wait(unsigned n, unsigned sleeps)
{
	struct timespec pause = {0};
	uint64_t ns = SLEEP_FIRST_NS;

	if (n < YIELDS) {
		sched_yield();
		return 1;
	}
	n -= YIELDS;
	if (n >= sleeps)
		return 0;
	while (n-- && ns < SLEEP_LAST_NS)
		ns *= 2;
	pause.tv_nsec = (int)(ns < SLEEP_LAST_NS ? ns : SLEEP_LAST_NS);
	nanosleep(&pause, NULL);
	return 1;
}

int
sl_uffd_move(int fd, void *dst, void *src, size_t bytes, unsigned flags, size_t *done,
	     uint64_t *retries)
{
	unsigned sleeps = flags & SL_UFFD_PATIENT ? SLEEPS_PATIENT : SLEEPS_HASTY;
	size_t moved = 0;
	unsigned tries = 0;
	int rc = 0;

	while (moved < bytes) {
		struct uffd_move_arg arg = {
			.dst = (uintptr_t)dst + moved,
			.src = (uintptr_t)src + moved,
			.len = bytes - moved,
			.mode = (flags & SL_UFFD_NO_WAKE ? UFFD_MOVE_DONTWAKE : 0u) |
				(flags & SL_UFFD_HOLES_OK ? UFFD_MOVE_SRC_HOLES : 0u),
		};

		rc = ioctl(fd, UFFD_IOC_MOVE, &arg) ? -errno : 0;
		if (arg.move > 0) {
			moved += (size_t)arg.move;
			tries = 0;
			continue;
		}
		if (rc != -EAGAIN && rc != -EBUSY)
			break;
		__atomic_fetch_add(retries, 1, __ATOMIC_RELAXED);
		if (!retry_wait(tries++, sleeps))
			break;
	}
	*done = moved;
	return moved == bytes ? 0 : rc ? rc : -EIO;
}

int
sl_uffd_copy(int fd, void *dst, const void *src, size_t bytes, unsigned flags, size_t *done)
{
	size_t copied = 0;
	unsigned tries = 0;
	int rc = 0;

	while (copied < bytes) {
		struct uffdio_copy arg = {
			.dst = (uintptr_t)dst + copied,
			.src = (uintptr_t)src + copied,
			.len = bytes - copied,
			.mode = (flags & SL_UFFD_GUARD ? UFFDIO_COPY_MODE_WP : 0) |
				(flags & SL_UFFD_NO_WAKE ? UFFDIO_COPY_MODE_DONTWAKE : 0),
		};

		rc = ioctl(fd, UFFDIO_COPY, &arg) ? -errno : 0;
		if (arg.copy > 0) {
			copied += (size_t)arg.copy;
			tries = 0;
			continue;
		}
		if (rc != -EAGAIN || !retry_wait(tries++, SLEEPS_PATIENT))
			break;
	}
	*done = copied;
	return copied == bytes ? 0 : rc ? rc : -EIO;
}

int
sl_uffd_protect(int fd, void *addr, size_t bytes, unsigned flags)
{
	struct uffdio_writeprotect arg = {
		.range = {(uintptr_t)addr, bytes},
		.mode = flags & SL_UFFD_GUARD     ? UFFDIO_WRITEPROTECT_MODE_WP
			: flags & SL_UFFD_NO_WAKE ? UFFDIO_WRITEPROTECT_MODE_DONTWAKE
						  : 0,
	};

	for (unsigned tries = 0;; tries++) {
		int rc = ioctl(fd, UFFDIO_WRITEPROTECT, &arg) ? -errno : 0;

		if (rc != -EAGAIN || !retry_wait(tries, SLEEPS_PATIENT))
			return rc;
	}
}

int
sl_uffd_poison(int fd, void *addr, size_t bytes)
{
	struct uffd_poison_arg arg = {.start = (uintptr_t)addr, .len = bytes};

	return ioctl(fd, UFFD_IOC_POISON, &arg) ? -errno : 0;
}

void
sl_uffd_wake(int fd, void *addr, size_t bytes)
{
	struct uffdio_range range = {(uintptr_t)addr, bytes};

	/* Fails only for a range that is no address of ours, where nobody waits. */
	(void)ioctl(fd, UFFDIO_WAKE, &range);
}

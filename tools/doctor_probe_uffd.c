/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of `sluice doctor` for userfaultfd: how one can be opened, and which of its
 * features work.
 *
 * The software device needs reports of absent pages and of first writes. The other features make
 * it faster, or its errors and counters exact. Registering and moving pages are tried on two
 * pages of this process. The kernel lists the rest.
 *
 * The numbers of younger features are defined here, so that this builds with older headers.
 *
 * Threads: one.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "doctor.h"

/* Parts of the userfaultfd interface that are younger than the headers this may be built with. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif
#define DOCTOR_FEATURE_WP        (UINT64_C(1) << 0)
#define DOCTOR_FEATURE_SIGBUS    (UINT64_C(1) << 7)
#define DOCTOR_FEATURE_THREAD_ID (UINT64_C(1) << 8)
#define DOCTOR_FEATURE_POISON    (UINT64_C(1) << 14)
#define DOCTOR_FEATURE_MOVE      (UINT64_C(1) << 16)

struct doctor_move {
	uint64_t dst, src, len, mode;
	int64_t moved;
};
#define DOCTOR_UFFDIO_MOVE _IOWR(0xAA, 0x05, struct doctor_move)

/* A userfaultfd by any of its three doors. *how: which, for the text. fd, or -errno. */
static int
uffd_open(const char **how, int *user_mode_only)
{
	int first_errno, device, fd;

	*user_mode_only = 0;
	*how = "system call";
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		return fd;
	first_errno = errno;
	device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (device >= 0) {
		fd = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
		close(device);
		if (fd >= 0) {
			*how = "/dev/userfaultfd";
			return fd;
		}
	}
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (fd >= 0) {
		*how = "system call, user mode only";
		*user_mode_only = 1;
		return fd;
	}
	return -first_errno;
}

/*
 * Move a page from one registered range to another, as the software device does all the time.
 * 0, or -errno.
 */
static int
uffd_move_try(int fd, char *area, size_t page_bytes)
{
	struct doctor_move move = {0};

	area[0] = 42;
	move.src = (uint64_t)(uintptr_t)area;
	move.dst = (uint64_t)(uintptr_t)(area + page_bytes);
	move.len = page_bytes;
	if (ioctl(fd, DOCTOR_UFFDIO_MOVE, &move))
		return -errno;
	return area[page_bytes] == 42 ? 0 : -EIO;
}

/* Features that the kernel lists and that no try can show. */
static const struct {
	uint64_t feature;
	const char *name, *ok, *without, *advice;
} listed[] = {
	{DOCTOR_FEATURE_SIGBUS, "userfaultfd sigbus",
	 "faults can be served in the faulting thread", "faults=signal cannot be used",
	 "use kernel 4.14 or later"},
	{DOCTOR_FEATURE_THREAD_ID, "userfaultfd thread id",
	 "a fault names its thread, so a launch's misses are its own",
	 "misses cannot be told by launch", "use kernel 4.14 or later"},
	{DOCTOR_FEATURE_POISON, "userfaultfd poison",
	 "a touch that cannot be served ends at once",
	 "failed touches are ended by signal", "use kernel 6.6 or later"},
};

/* One line for each feature. Returns 1 when what must be there is. */
static int
uffd_features(struct doctor *doctor, int fd, uint64_t features)
{
	struct uffdio_register registration = {0};
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	int missing_ok, wp_ok, rc;
	char *area;

	/* Two pages: the first takes a page by ordinary touch, the second reports. */
	area = mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED) {
		finding_add(doctor, LEVEL_MISSING, "userfaultfd missing", NULL,
			    "mmap: %s", strerror(errno));
		return 0;
	}
	registration.range.start = (uint64_t)(uintptr_t)(area + page_bytes);
	registration.range.len = page_bytes;
	registration.mode = UFFDIO_REGISTER_MODE_MISSING;
	missing_ok = ioctl(fd, UFFDIO_REGISTER, &registration) == 0;
	if (missing_ok)
		finding_add(doctor, LEVEL_OK, "userfaultfd missing", NULL,
			    "absent pages are reported");
	else
		finding_add(doctor, LEVEL_MISSING, "userfaultfd missing", NULL,
			    "registering a range: %s", strerror(errno));

	registration.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP;
	registration.ioctls = 0;
	wp_ok = (features & DOCTOR_FEATURE_WP) && missing_ok &&
		ioctl(fd, UFFDIO_REGISTER, &registration) == 0 &&
		(registration.ioctls & (UINT64_C(1) << _UFFDIO_WRITEPROTECT));
	if (wp_ok) {
		finding_add(doctor, LEVEL_OK, "userfaultfd wp", NULL,
			    "first writes are reported");
	} else {
		finding_add(doctor, LEVEL_MISSING, "userfaultfd wp",
			    "use kernel 5.7 or later built with "
			    "CONFIG_HAVE_ARCH_USERFAULTFD_WP (x86-64, arm64)",
			    "this kernel cannot report first writes to pages");
	}

	/* The registration of missing pages is enough for a move into them. */
	rc = features & DOCTOR_FEATURE_MOVE ? uffd_move_try(fd, area, page_bytes) : -ENOTSUP;
	if (!rc) {
		finding_add(doctor, LEVEL_OK, "userfaultfd move", NULL,
			    "pages are moved, not copied (tried)");
	} else {
		finding_add(doctor, LEVEL_LIMITED, "userfaultfd move",
			    "use kernel 6.8 or later",
			    "%s; data are copied in and out: about half the speed",
			    rc == -ENOTSUP ? "needs kernel 6.8" : strerror(-rc));
	}
	munmap(area, 2 * page_bytes);

	for (size_t i = 0; i < sizeof(listed) / sizeof(listed[0]); i++)
		if (features & listed[i].feature)
			finding_add(doctor, LEVEL_OK, listed[i].name, NULL, "%s",
				    listed[i].ok);
		else
			finding_add(doctor, LEVEL_LIMITED, listed[i].name, listed[i].advice,
				    "not in this kernel; %s", listed[i].without);
	return missing_ok && wp_ok;
}

void
doctor_check_userfaultfd(struct doctor *doctor)
{
	/* No feature asked for: the answer lists all there are. */
	struct uffdio_api api = {.api = UFFD_API, .features = 0};
	const char *advice =
		"allow userfaultfd in the container's seccomp profile, give this user "
		"read and write on /dev/userfaultfd, or set sysctl "
		"vm.unprivileged_userfaultfd=1";
	const char *how;
	int user_mode_only;
	char sysctl[32] = "?";
	SL_CLEANUP(close) int fd = uffd_open(&how, &user_mode_only);

	(void)doctor_line_read("/proc/sys/vm/unprivileged_userfaultfd", sysctl,
			       sizeof(sysctl));
	if (fd < 0) {
		doctor->usable = 0;
		if (fd == -ENOSYS)
			advice = "the kernel was built without CONFIG_USERFAULTFD, or a "
				 "container's seccomp filter hides it: allow userfaultfd "
				 "there";
		finding_add(doctor, LEVEL_MISSING, "userfaultfd", advice,
			    "refused: %s (vm.unprivileged_userfaultfd is %s)",
			    strerror(-fd), sysctl);
		return;
	}
	if (ioctl(fd, UFFDIO_API, &api)) {
		doctor->usable = 0;
		finding_add(doctor, LEVEL_MISSING, "userfaultfd", NULL, "handshake: %s",
			    strerror(errno));
		return;
	}
	if (user_mode_only) {
		finding_add(doctor, LEVEL_LIMITED, "userfaultfd",
			    "give this user read and write on "
			    "/dev/userfaultfd, or set sysctl "
			    "vm.unprivileged_userfaultfd=1, or run as root",
			    "user mode only: a system call (read, write) given an absent "
			    "managed address fails with EFAULT");
	} else {
		finding_add(doctor, LEVEL_OK, "userfaultfd", NULL, "full (%s)", how);
	}
	if (!uffd_features(doctor, fd, api.features))
		doctor->usable = 0;
}

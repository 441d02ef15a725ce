/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice doctor`: what works on this machine, what does not, why, and what to do about it.
 *
 * Each check tries the thing itself where that is possible (opens a userfaultfd and moves a page,
 * reads a file through a ring, writes a file with O_DIRECT, runs a kernel on the software device)
 * instead of guessing from versions, and ends in one finding: ok, limited or missing, with a
 * text, and with advice unless it is ok. Findings are gathered in a fixed table and printed at
 * the end as lines or as one JSON object.
 *
 * The verdict is about the software device, which needs a userfaultfd that reports missing and
 * write-protected pages, and the memory for its budgets. All the rest makes it faster or tells
 * what to expect.
 *
 * Leaves nothing behind: probe files are unlinked before they are used. Threads: one, and those
 * that the library starts for the last check.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "cgroup.h"
#include "commands.h"
#include "json.h"
#include "sluice/sluice.h"
#include "store/store.h"

#define FINDING_MAX 64
#define DIR_MAX     16
#define PROBE_BYTES 4096
#define MIB         (UINT64_C(1) << 20)

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

static const char doctor_help[] =
	"Usage: sluice doctor [--dir DIR]... [--json]\n"
	"\n"
	"Try what Sluice needs on this machine; say of each thing whether it is ok, "
	"limited\n"
	"or missing, why, and what to do. Exit code 0 when the software device works, "
	"else 1.\n"
	"\n"
	"Options:\n"
	"      --dir DIR  directory to try for files (repeatable; default: the spill\n"
	"                 directories and the current directory)\n"
	"      --json     print one JSON object\n"
	"  -h, --help     print this and exit\n";

enum level { LEVEL_OK, LEVEL_LIMITED, LEVEL_MISSING, LEVEL_COUNT };

struct finding {
	char name[48];
	enum level level;
	char text[320];
	char advice[320]; /* "" when there is nothing to do */
};

struct doctor {
	struct finding findings[FINDING_MAX];
	size_t finding_n;
	const char *dirs[DIR_MAX];
	size_t dir_n;
	struct sluice_config config; /* what a program would get */
	int config_ok;
	uint64_t available_bytes; /* memory that can be had; 0: unknown */
	uint64_t limit_bytes;     /* what the cgroups leave; UINT64_MAX: no limit */
	int usable;               /* 0: the software device cannot work */
};

static const char *
level_name(enum level level)
{
	switch (level) {
	case LEVEL_OK:
		return "ok";
	case LEVEL_LIMITED:
		return "limited";
	case LEVEL_MISSING:
		return "missing";
	case LEVEL_COUNT:
		break;
	}
	return "?";
}

static struct finding *finding_add(struct doctor *doctor, enum level level,
				   const char *name, const char *fmt, ...) SL_PRINTF(4, 5);
static void finding_advise(struct finding *finding, const char *fmt, ...) SL_PRINTF(2, 3);

static struct finding *
finding_add(struct doctor *doctor, enum level level, const char *name, const char *fmt, ...)
{
	struct finding *finding;
	va_list args;

	/* The number of checks is fixed and the number of directories bounded. */
	if (doctor->finding_n == FINDING_MAX)
		doctor->finding_n--;
	finding = &doctor->findings[doctor->finding_n++];
	memset(finding, 0, sizeof(*finding));
	finding->level = level;
	snprintf(finding->name, sizeof(finding->name), "%s", name);
	va_start(args, fmt);
	vsnprintf(finding->text, sizeof(finding->text), fmt, args);
	va_end(args);
	return finding;
}

static void
finding_advise(struct finding *finding, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(finding->advice, sizeof(finding->advice), fmt, args);
	va_end(args);
}

/* First line of a file, without its newline. 0 or -errno. */
static int
line_read(const char *path, char *buf, size_t buf_bytes)
{
	FILE *file = fopen(path, "re");

	if (!file)
		return -errno;
	if (!fgets(buf, (int)buf_bytes, file))
		buf[0] = '\0';
	fclose(file);
	buf[strcspn(buf, "\n")] = '\0';
	return 0;
}

/* ---- userfaultfd ---- */

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

/* One line for each feature. Returns 1 when what must be there is. */
static int
uffd_features(struct doctor *doctor, int fd, uint64_t features)
{
	struct uffdio_register registration = {0};
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	struct finding *finding;
	int missing_ok, wp_ok, rc;
	char *area;

	/* Two pages: the first takes a page by ordinary touch, the second reports. */
	area = mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED) {
		finding_add(doctor, LEVEL_MISSING, "userfaultfd missing", "mmap: %s",
			    strerror(errno));
		return 0;
	}
	registration.range.start = (uint64_t)(uintptr_t)(area + page_bytes);
	registration.range.len = page_bytes;
	registration.mode = UFFDIO_REGISTER_MODE_MISSING;
	missing_ok = ioctl(fd, UFFDIO_REGISTER, &registration) == 0;
	if (missing_ok)
		finding_add(doctor, LEVEL_OK, "userfaultfd missing",
			    "absent pages are reported");
	else
		finding_add(doctor, LEVEL_MISSING, "userfaultfd missing",
			    "registering a range: %s", strerror(errno));

	registration.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP;
	registration.ioctls = 0;
	wp_ok = (features & DOCTOR_FEATURE_WP) && missing_ok &&
		ioctl(fd, UFFDIO_REGISTER, &registration) == 0 &&
		(registration.ioctls & (UINT64_C(1) << _UFFDIO_WRITEPROTECT));
	if (wp_ok) {
		finding_add(doctor, LEVEL_OK, "userfaultfd wp", "first writes are reported");
	} else {
		finding = finding_add(doctor, LEVEL_MISSING, "userfaultfd wp",
				      "this kernel cannot report first writes to pages");
		finding_advise(finding,
			       "use kernel 5.7 or later built with "
			       "CONFIG_HAVE_ARCH_USERFAULTFD_WP (x86-64, arm64)");
	}

	/* The registration of missing pages is enough for a move into them. */
	rc = features & DOCTOR_FEATURE_MOVE ? uffd_move_try(fd, area, page_bytes) : -ENOTSUP;
	if (!rc) {
		finding_add(doctor, LEVEL_OK, "userfaultfd move",
			    "pages are moved, not copied (tried)");
	} else {
		finding = finding_add(
			doctor, LEVEL_LIMITED, "userfaultfd move",
			"%s; data are copied in and out: about half the speed",
			rc == -ENOTSUP ? "needs kernel 6.8" : strerror(-rc));
		finding_advise(finding, "use kernel 6.8 or later");
	}
	munmap(area, 2 * page_bytes);

	if (features & DOCTOR_FEATURE_SIGBUS) {
		finding_add(doctor, LEVEL_OK, "userfaultfd sigbus",
			    "faults can be served in the faulting thread");
	} else {
		finding = finding_add(doctor, LEVEL_LIMITED, "userfaultfd sigbus",
				      "not in this kernel; faults=signal cannot be used");
		finding_advise(finding, "use kernel 4.14 or later");
	}
	if (features & DOCTOR_FEATURE_THREAD_ID) {
		finding_add(doctor, LEVEL_OK, "userfaultfd thread id",
			    "a fault names its thread, so a launch's misses are its own");
	} else {
		finding = finding_add(
			doctor, LEVEL_LIMITED, "userfaultfd thread id",
			"not in this kernel; misses cannot be told by launch");
		finding_advise(finding, "use kernel 4.14 or later");
	}
	if (features & DOCTOR_FEATURE_POISON) {
		finding_add(doctor, LEVEL_OK, "userfaultfd poison",
			    "a touch that cannot be served ends at once");
	} else {
		finding = finding_add(
			doctor, LEVEL_LIMITED, "userfaultfd poison",
			"not in this kernel; failed touches are ended by signal");
		finding_advise(finding, "use kernel 6.6 or later");
	}
	return missing_ok && wp_ok;
}

static void
check_userfaultfd(struct doctor *doctor)
{
	/* No feature asked for: the answer lists all there are. */
	struct uffdio_api api = {.api = UFFD_API, .features = 0};
	struct finding *finding;
	const char *how;
	int user_mode_only;
	char sysctl[32] = "?";
	SL_CLEANUP(close) int fd = uffd_open(&how, &user_mode_only);

	(void)line_read("/proc/sys/vm/unprivileged_userfaultfd", sysctl, sizeof(sysctl));
	if (fd < 0) {
		doctor->usable = 0;
		finding = finding_add(doctor, LEVEL_MISSING, "userfaultfd",
				      "refused: %s (vm.unprivileged_userfaultfd is %s)",
				      strerror(-fd), sysctl);
		if (fd == -ENOSYS)
			finding_advise(finding,
				       "the kernel was built without "
				       "CONFIG_USERFAULTFD, or a container's seccomp "
				       "filter hides it: allow userfaultfd there");
		else
			finding_advise(
				finding,
				"allow userfaultfd in the container's seccomp profile, "
				"give "
				"this user read and write on /dev/userfaultfd, or set "
				"sysctl vm.unprivileged_userfaultfd=1");
		return;
	}
	if (ioctl(fd, UFFDIO_API, &api)) {
		doctor->usable = 0;
		finding_add(doctor, LEVEL_MISSING, "userfaultfd", "handshake: %s",
			    strerror(errno));
		return;
	}
	if (user_mode_only) {
		finding = finding_add(
			doctor, LEVEL_LIMITED, "userfaultfd",
			"user mode only: a system call (read, write) given an absent "
			"managed address fails with EFAULT");
		finding_advise(finding, "give this user read and write on "
					"/dev/userfaultfd, or set sysctl "
					"vm.unprivileged_userfaultfd=1, or run as root");
	} else {
		finding_add(doctor, LEVEL_OK, "userfaultfd", "full (%s)", how);
	}
	if (!uffd_features(doctor, fd, api.features))
		doctor->usable = 0;
}

/* ---- io_uring ---- */

struct ring {
	int fd;
	struct io_uring_params params;
	void *sq, *cq, *sqes;
	size_t sq_bytes, cq_bytes, sqes_bytes;
};

static void
ring_fini(struct ring *ring)
{
	if (ring->sqes != MAP_FAILED)
		munmap(ring->sqes, ring->sqes_bytes);
	if (ring->cq != MAP_FAILED)
		munmap(ring->cq, ring->cq_bytes);
	if (ring->sq != MAP_FAILED)
		munmap(ring->sq, ring->sq_bytes);
	if (ring->fd >= 0)
		close(ring->fd);
}

/* 0 or -errno; ring_fini() is safe after both. */
static int
ring_init(struct ring *ring)
{
	int prot = PROT_READ | PROT_WRITE;

	memset(ring, 0, sizeof(*ring));
	ring->sq = ring->cq = ring->sqes = MAP_FAILED;
	ring->fd = (int)syscall(SYS_io_uring_setup, 4, &ring->params);
	if (ring->fd < 0)
		return -errno;
	ring->sq_bytes = ring->params.sq_off.array +
			 ring->params.sq_entries * sizeof(uint32_t);
	ring->cq_bytes = ring->params.cq_off.cqes +
			 ring->params.cq_entries * sizeof(struct io_uring_cqe);
	ring->sqes_bytes = ring->params.sq_entries * sizeof(struct io_uring_sqe);
	ring->sq = mmap(NULL, ring->sq_bytes, prot, MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
	ring->cq = mmap(NULL, ring->cq_bytes, prot, MAP_SHARED, ring->fd, IORING_OFF_CQ_RING);
	ring->sqes = mmap(NULL, ring->sqes_bytes, prot, MAP_SHARED, ring->fd,
			  IORING_OFF_SQES);
	if (ring->sq == MAP_FAILED || ring->cq == MAP_FAILED || ring->sqes == MAP_FAILED)
		return -errno;
	return 0;
}

/* Read through the ring. Bytes read, or -errno. */
static int
ring_read(struct ring *ring, int file, void *buf, unsigned bytes)
{
	char *sq = ring->sq, *cq = ring->cq;
	uint32_t *sq_tail = (uint32_t *)(void *)(sq + ring->params.sq_off.tail);
	uint32_t *sq_array = (uint32_t *)(void *)(sq + ring->params.sq_off.array);
	uint32_t *cq_head = (uint32_t *)(void *)(cq + ring->params.cq_off.head);
	uint32_t *cq_mask = (uint32_t *)(void *)(cq + ring->params.cq_off.ring_mask);
	struct io_uring_cqe *cqes = (struct io_uring_cqe *)(void *)(cq +
								    ring->params.cq_off.cqes);
	struct io_uring_sqe *sqe = ring->sqes;
	int result;

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_READ;
	sqe->fd = file;
	sqe->addr = (uint64_t)(uintptr_t)buf;
	sqe->len = bytes;
	sq_array[0] = 0;
	__atomic_store_n(sq_tail, 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		return -errno;
	result = cqes[__atomic_load_n(cq_head, __ATOMIC_ACQUIRE) & *cq_mask].res;
	return result;
}

/* An unlinked file in dir. fd, or -errno. */
static int
probe_open(const char *dir)
{
	char path[PATH_MAX];
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
		return -errno;
	/* A file system without nameless files. */
	if ((size_t)snprintf(path, sizeof(path), "%s/.sluice-doctor-XXXXXX", dir) >=
	    sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

static void
check_uring(struct doctor *doctor)
{
	static const char text[] = "read through a ring";
	char disabled[32] = "", got[sizeof(text)] = "";
	struct sl_engine *engine = NULL;
	struct finding *finding;
	struct ring ring;
	int rc;
	SL_CLEANUP(close) int file = -1;

	(void)line_read("/proc/sys/kernel/io_uring_disabled", disabled, sizeof(disabled));
	rc = ring_init(&ring);
	if (rc) {
		finding = finding_add(
			doctor, LEVEL_MISSING, "io_uring",
			"refused: %s%s%s; files are read by threads instead", strerror(-rc),
			disabled[0] ? ", kernel.io_uring_disabled is " : "", disabled);
		if (rc == -ENOSYS)
			finding_advise(finding,
				       "use a kernel built with CONFIG_IO_URING");
		else if (disabled[0] && disabled[0] != '0')
			finding_advise(finding, "set sysctl kernel.io_uring_disabled=0");
		else
			finding_advise(finding,
				       "allow io_uring_setup, io_uring_enter and "
				       "io_uring_register in the container's seccomp "
				       "profile");
		ring_fini(&ring);
		return;
	}
	file = memfd_create("sluice-doctor", MFD_CLOEXEC);
	for (size_t i = 0; i < doctor->dir_n; i++) {
		int fd = probe_open(doctor->dirs[i]);

		if (fd >= 0) {
			if (file >= 0)
				close(file);
			file = fd;
			break;
		}
	}
	if (file < 0 || pwrite(file, text, sizeof(text), 0) != (ssize_t)sizeof(text))
		rc = -errno;
	else
		rc = ring_read(&ring, file, got, sizeof(got));
	ring_fini(&ring);
	if (rc != (int)sizeof(text) || strcmp(got, text) != 0) {
		finding = finding_add(doctor, LEVEL_MISSING, "io_uring",
				      "a read through a ring: %s",
				      rc < 0 ? strerror(-rc)
					     : "other bytes than were written");
		finding_advise(finding,
			       "set SLUICE_STORE_IO=file to read files by threads");
		return;
	}
	/* The kernel has it; whether this build can use it is the library's to say. */
	rc = sl_engine_create("uring", 4, &engine);
	sl_engine_destroy(engine);
	if (!rc) {
		finding_add(doctor, LEVEL_OK, "io_uring", "a file was read through a ring");
		return;
	}
	finding = finding_add(doctor, LEVEL_LIMITED, "io_uring",
			      "the kernel has it, but: %s; files are read by threads",
			      sluice_last_error());
	finding_advise(finding, "build with liburing's development package installed");
}

/* ---- directories ---- */

/* Type of the file system that path is on, by the longest mount point above it; "" if unknown. */
static void
filesystem_type(const char *path, char *type, size_t type_bytes)
{
	SL_CLEANUP(free) char *line = NULL;
	char real[PATH_MAX];
	size_t room = 0, best = 0;
	FILE *mounts;

	type[0] = '\0';
	if (!realpath(path, real))
		return;
	mounts = fopen("/proc/self/mountinfo", "re");
	if (!mounts)
		return;
	while (getline(&line, &room, mounts) > 0) {
		char point[PATH_MAX], kind[64];
		char *dash = strstr(line, " - ");
		size_t chars;

		if (!dash || sscanf(line, "%*s %*s %*s %*s %4095s", point) != 1 ||
		    sscanf(dash, " - %63s", kind) != 1)
			continue;
		mount_unescape(point);
		chars = strlen(point);
		if (strcmp(point, "/") == 0)
			chars = 0; /* above everything */
		if (strncmp(real, point, chars) != 0 || (real[chars] != '/' && real[chars]))
			continue;
		if (chars >= best) { /* of equals the last one covers the others */
			best = chars;
			snprintf(type, type_bytes, "%s", kind);
		}
	}
	fclose(mounts);
}

/* Write a page with O_DIRECT and read it back. 0 or -errno. */
static int
direct_try(const char *dir)
{
	SL_CLEANUP(close) int fd = probe_open(dir);
	SL_CLEANUP(free) unsigned char *page = NULL;

	if (fd < 0)
		return fd;
	if (fcntl(fd, F_SETFL, O_DIRECT))
		return -errno;
	page = aligned_alloc(PROBE_BYTES, PROBE_BYTES);
	if (!page)
		return -ENOMEM;
	memset(page, 0x5a, PROBE_BYTES);
	if (pwrite(fd, page, PROBE_BYTES, 0) != PROBE_BYTES)
		return errno ? -errno : -EIO;
	memset(page, 0, PROBE_BYTES);
	if (pread(fd, page, PROBE_BYTES, 0) != PROBE_BYTES)
		return errno ? -errno : -EIO;
	return page[0] == 0x5a && page[PROBE_BYTES - 1] == 0x5a ? 0 : -EIO;
}

static void
check_directory(struct doctor *doctor, const char *dir)
{
	char name[48], type[64], free_text[32];
	struct finding *finding;
	struct statvfs fs;
	struct stat st;
	uint64_t free_bytes;
	int in_memory, plain, rc;

	/* Long paths are shortened at the front: their end tells them apart. */
	snprintf(name, sizeof(name), "files in %s%s", strlen(dir) > 38 ? ".." : "",
		 strlen(dir) > 38 ? dir + strlen(dir) - 36 : dir);
	if (stat(dir, &st) || statvfs(dir, &fs)) {
		finding = finding_add(doctor, LEVEL_MISSING, name, "%s", strerror(errno));
		finding_advise(finding,
			       "make the directory, or name another one with --dir");
		return;
	}
	if (!S_ISDIR(st.st_mode)) {
		finding = finding_add(doctor, LEVEL_MISSING, name, "not a directory");
		finding_advise(finding, "name a directory");
		return;
	}
	filesystem_type(dir, type, sizeof(type));
	in_memory = strcmp(type, "tmpfs") == 0 || strcmp(type, "ramfs") == 0;
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	sl_size_format(free_bytes, free_text, sizeof(free_text));

	plain = probe_open(dir);
	if (plain < 0) {
		finding = finding_add(doctor, LEVEL_MISSING, name,
				      "%s, files cannot be made here: %s",
				      type[0] ? type : "unknown file system",
				      strerror(-plain));
		finding_advise(finding,
			       "set SLUICE_SPILL_DIRS to directories that this user may "
			       "write");
		return;
	}
	close(plain);
	rc = direct_try(dir);
	if (in_memory) {
		finding = finding_add(doctor, LEVEL_LIMITED, name,
				      "%s: its files are memory themselves, %s free",
				      type, free_text);
		finding_advise(finding, "keep data and spill files on a disk");
	} else if (rc) {
		finding = finding_add(
			doctor, LEVEL_LIMITED, name,
			"%s refuses O_DIRECT (%s): buffered, the page cache competes "
			"for memory; %s free",
			type, strerror(-rc), free_text);
		finding_advise(finding,
			       "use a directory on ext4, xfs or btrfs on a local disk");
	} else if (free_bytes < 1024 * MIB) {
		finding = finding_add(doctor, LEVEL_LIMITED, name,
				      "%s, O_DIRECT works, only %s free", type, free_text);
		finding_advise(finding, "free space: spilled data and results need it");
	} else {
		finding_add(doctor, LEVEL_OK, name, "%s, O_DIRECT works, %s free", type,
			    free_text);
	}
}

static void
check_directories(struct doctor *doctor)
{
	for (size_t i = 0; i < doctor->dir_n; i++)
		check_directory(doctor, doctor->dirs[i]);
}

/* ---- memory ---- */

static void
check_huge_pages(struct doctor *doctor)
{
	char line[128];
	struct finding *finding;
	int rc = line_read("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof(line));

	if (rc) {
		finding = finding_add(
			doctor, LEVEL_LIMITED, "huge pages",
			"setting unreadable (%s); chunks may be moved in 4 KiB pages",
			strerror(-rc));
		finding_advise(finding,
			       "use a kernel built with CONFIG_TRANSPARENT_HUGEPAGE");
	} else if (strstr(line, "[never]")) {
		finding = finding_add(
			doctor, LEVEL_LIMITED, "huge pages",
			"switched off: chunks are moved in 4 KiB pages, slower");
		finding_advise(finding, "echo madvise > "
					"/sys/kernel/mm/transparent_hugepage/enabled");
	} else {
		finding_add(doctor, LEVEL_OK, "huge pages", "transparent huge pages: %s",
			    strstr(line, "[always]") ? "always" : "madvise");
	}
}

static void
check_memlock(struct doctor *doctor)
{
	struct finding *finding;
	struct rlimit limit;
	char text[32];

	if (getrlimit(RLIMIT_MEMLOCK, &limit)) {
		finding_add(doctor, LEVEL_LIMITED, "memlock limit", "%s", strerror(errno));
		return;
	}
	if (limit.rlim_cur == RLIM_INFINITY || geteuid() == 0) {
		finding_add(doctor, LEVEL_OK, "memlock limit", "%s",
			    limit.rlim_cur == RLIM_INFINITY ? "none" : "does not bind root");
		return;
	}
	sl_size_format(limit.rlim_cur, text, sizeof(text));
	if (limit.rlim_cur >= 64 * MIB) {
		finding_add(doctor, LEVEL_OK, "memlock limit", "%s", text);
		return;
	}
	finding = finding_add(
		doctor, LEVEL_LIMITED, "memlock limit",
		"%s: buffers may not be registered for I/O; a little slower", text);
	finding_advise(finding,
		       "ulimit -l unlimited, or memlock in /etc/security/limits.conf");
}

static void
check_map_count(struct doctor *doctor)
{
	struct finding *finding;
	uint64_t count;
	char line[64];

	if (line_read("/proc/sys/vm/max_map_count", line, sizeof(line)) ||
	    command_number(line, 0, UINT64_MAX, &count)) {
		finding_add(doctor, LEVEL_LIMITED, "max_map_count", "unreadable");
		return;
	}
	if (count >= 65530) {
		finding_add(doctor, LEVEL_OK, "max_map_count", "%" PRIu64, count);
		return;
	}
	finding = finding_add(doctor, LEVEL_LIMITED, "max_map_count",
			      "%" PRIu64
			      ": many regions may use up the process's mappings",
			      count);
	finding_advise(finding, "set sysctl vm.max_map_count=65530 or more");
}

static void
check_cgroup(struct doctor *doctor)
{
	char limit_text[32], left_text[32];
	struct cgroup_memory memory;
	struct finding *finding;
	uint64_t want;

	cgroup_memory_read(&memory);
	doctor->limit_bytes = memory.left_bytes;
	if (memory.left_bytes == UINT64_MAX) {
		finding_add(doctor, LEVEL_OK, "cgroup memory", "%s",
			    memory.seen ? "no limit" : "no memory controller: no limit");
		return;
	}
	sl_size_format(memory.limit_bytes, limit_text, sizeof(limit_text));
	sl_size_format(memory.left_bytes, left_text, sizeof(left_text));
	want = doctor->config_ok ? doctor->config.device_budget_bytes +
					   doctor->config.host_budget_bytes +
					   doctor->config.staging_bytes
				 : 0;
	if (want <= memory.left_bytes) {
		finding_add(doctor, LEVEL_OK, "cgroup memory", "limit %s at %.200s, %s left",
			    limit_text, memory.at, left_text);
		return;
	}
	finding =
		finding_add(doctor, LEVEL_LIMITED, "cgroup memory",
			    "limit %s at %.200s, %s left: less than the default budgets",
			    limit_text, memory.at, left_text);
	finding_advise(finding,
		       "set SLUICE_DEVICE_BUDGET and SLUICE_HOST_BUDGET to fit, or raise "
		       "the limit");
}

static void
check_memory(struct doctor *doctor)
{
	char line[128], total_text[32] = "?", available_text[32], want_text[32];
	uint64_t kib, want;
	struct finding *finding;
	FILE *file = fopen("/proc/meminfo", "re");

	if (file) {
		while (fgets(line, sizeof(line), file)) {
			if (sscanf(line, "MemTotal: %" SCNu64, &kib) == 1)
				sl_size_format(kib * 1024, total_text, sizeof(total_text));
			else if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
				doctor->available_bytes = kib * 1024;
		}
		fclose(file);
	}
	if (!doctor->available_bytes) {
		finding_add(doctor, LEVEL_LIMITED, "memory", "/proc/meminfo: unreadable");
		return;
	}
	sl_size_format(doctor->available_bytes, available_text, sizeof(available_text));
	if (!doctor->config_ok) {
		finding_add(doctor, LEVEL_OK, "memory", "%s of %s available",
			    available_text, total_text);
		return;
	}
	want = doctor->config.device_budget_bytes + doctor->config.host_budget_bytes +
	       doctor->config.staging_bytes;
	sl_size_format(want, want_text, sizeof(want_text));
	if (want <= doctor->available_bytes) {
		finding_add(doctor, LEVEL_OK, "memory",
			    "%s of %s available; the default budgets take %s",
			    available_text, total_text, want_text);
		return;
	}
	finding = finding_add(doctor, LEVEL_LIMITED, "memory",
			      "%s of %s available, less than the budgets in force (%s)",
			      available_text, total_text, want_text);
	finding_advise(finding, "set SLUICE_DEVICE_BUDGET and SLUICE_HOST_BUDGET lower");
}

/* ---- machine ---- */

static void
check_kernel(struct doctor *doctor)
{
	struct finding *finding;
	unsigned major = 0, minor = 0;
	struct utsname name;

	if (uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2) {
		finding_add(doctor, LEVEL_LIMITED, "kernel", "version unreadable");
		return;
	}
	if (major > 6 || (major == 6 && minor >= 8)) {
		finding_add(doctor, LEVEL_OK, "kernel", "Linux %s %s", name.release,
			    name.machine);
		return;
	}
	if (major > 5 || (major == 5 && minor >= 7)) {
		finding = finding_add(doctor, LEVEL_LIMITED, "kernel",
				      "Linux %s %s: works, moves by copying",
				      name.release, name.machine);
		finding_advise(finding, "use 6.8 or later for full speed");
		return;
	}
	finding = finding_add(doctor, LEVEL_MISSING, "kernel", "Linux %s %s is too old",
			      name.release, name.machine);
	finding_advise(finding, "use 5.7 or later, 6.8 for full speed");
}

static void
check_cpus(struct doctor *doctor)
{
	cpu_set_t set;
	int may = sched_getaffinity(0, sizeof(set), &set) ? 0 : CPU_COUNT(&set);
	int online = (int)sysconf(_SC_NPROCESSORS_ONLN);

	if (!may)
		may = online; /* more CPUs than the set holds */
	finding_add(doctor, may > 1 ? LEVEL_OK : LEVEL_LIMITED, "cpus",
		    "%d of %d may be used%s", may, online,
		    may > 1 ? "" : ": kernels and moves share one");
}

static void
check_gpu(struct doctor *doctor)
{
	/* The driver's calling convention, as far as these five calls need it. */
	int (*init)(unsigned flags);
	int (*driver_version)(int *version);
	int (*device_count)(int *count);
	int (*device_get)(int *device, int ordinal);
	int (*device_name)(char *name, int chars, int device);
	int count = 0, version = 0, rc;
	struct finding *finding;
	char names[256] = "";
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!driver) {
		finding_add(doctor, LEVEL_MISSING, "gpu",
			    "no GPU driver: the software device is used");
		return;
	}
	/* POSIX says that what dlsym() gives converts to a function; ISO C has no cast for it. */
	*(void **)&init = dlsym(driver, "cuInit");
	*(void **)&driver_version = dlsym(driver, "cuDriverGetVersion");
	*(void **)&device_count = dlsym(driver, "cuDeviceGetCount");
	*(void **)&device_get = dlsym(driver, "cuDeviceGet");
	*(void **)&device_name = dlsym(driver, "cuDeviceGetName");
	if (!init || !driver_version || !device_count || !device_get || !device_name) {
		finding_add(doctor, LEVEL_MISSING, "gpu",
			    "libcuda.so.1 lacks the driver's basic calls; the software "
			    "device is "
			    "used");
		return; /* the driver stays loaded: unloading one is not safe */
	}
	rc = init(0);
	if (rc || device_count(&count) || count < 1) {
		finding = finding_add(
			doctor, LEVEL_MISSING, "gpu",
			"the driver finds no device (cuInit: %d); the software device "
			"is used",
			rc);
		finding_advise(finding,
			       "nvidia-smi shows whether driver and device are alive");
		return;
	}
	(void)driver_version(&version);
	for (int i = 0; i < count && i < 8; i++) {
		char name[96] = "?";
		size_t used = strlen(names);
		int device;

		if (!device_get(&device, i))
			(void)device_name(name, (int)sizeof(name), device);
		snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "", name);
	}
	finding = finding_add(
		doctor, LEVEL_LIMITED, "gpu",
		"%d device%s (%.200s), driver for CUDA %d.%d; this version runs on the "
		"software device",
		count, count == 1 ? "" : "s", names, version / 1000, version % 1000 / 10);
	finding_advise(finding, "nothing to do: kernels run on CPU threads");
}

/* ---- the software device itself ---- */

#define TRY_CHUNKS 8

static void
try_kernel(const struct sluice_block *block, void *args)
{
	uint64_t *words = *(uint64_t **)args;

	for (size_t i = 0; i < 2 * MIB / sizeof(*words); i++)
		words[block->index.x * (2 * MIB / sizeof(*words)) + i] += block->index.x + i;
}

/* Run a kernel over twice the memory it is given; 0, or an error with its text in place. */
static int
device_try(struct sluice_space *space, void **addr)
{
	struct sluice_grid grid = {TRY_CHUNKS, 1, 1};
	const uint64_t *words;
	int rc = sluice_alloc(space, TRY_CHUNKS * 2 * MIB, 0, addr);

	if (rc)
		return rc;
	rc = sluice_launch(space, NULL, try_kernel, grid, addr, sizeof(*addr), NULL, 0);
	if (rc)
		return rc;
	rc = sluice_stream_synchronize(space, NULL);
	if (rc)
		return rc;
	words = *addr;
	for (size_t i = 0; i < TRY_CHUNKS; i++)
		if (words[(i + 1) * (2 * MIB / sizeof(*words)) - 1] !=
		    i + 2 * MIB / sizeof(*words) - 1)
			return sl_fail(-EIO, "chunk %zu holds wrong data: report this", i);
	return 0;
}

static void
check_device(struct doctor *doctor)
{
	struct sluice_config config = doctor->config;
	struct sluice_space *space;
	struct finding *finding;
	void *addr = NULL;
	int rc;

	if (!doctor->config_ok)
		return; /* said by check_config() */
	rc = sluice_config_parse(&config,
				 "device=soft,device_budget=8M,host_budget=16M,chunk=2M,"
				 "staging=8M,host_reserve=0,publish=0");
	if (!rc)
		rc = sluice_space_create(&config, &space);
	if (!rc) {
		rc = device_try(space, &addr);
		if (rc)
			(void)sluice_space_destroy(space);
		else
			rc = sluice_space_destroy(space);
	}
	if (!rc) {
		finding_add(doctor, LEVEL_OK, "software device",
			    "a kernel ran over 16 MiB with 8 MiB of device memory");
		return;
	}
	doctor->usable = 0;
	finding = finding_add(doctor, LEVEL_MISSING, "software device", "%s",
			      sluice_last_error());
	finding_advise(finding, "see the findings above");
}

static void
check_config(struct doctor *doctor)
{
	struct finding *finding;

	doctor->config_ok = sluice_config_init(&doctor->config) == 0;
	if (doctor->config_ok)
		return;
	doctor->usable = 0;
	finding = finding_add(doctor, LEVEL_MISSING, "configuration", "%s",
			      sluice_last_error());
	finding_advise(finding, "correct or unset the variable: see sluice(7)");
}

/* ---- output ---- */

static void
print_json(const struct doctor *doctor)
{
	struct json json;

	json_begin(&json, stdout);
	json_object(&json);
	json_key(&json, "version");
	json_string(&json, sluice_version());
	json_key(&json, "software_device");
	json_bool(&json, doctor->usable);
	json_key(&json, "available_bytes");
	json_u64(&json, doctor->available_bytes);
	json_key(&json, "checks");
	json_array(&json);
	for (size_t i = 0; i < doctor->finding_n; i++) {
		const struct finding *finding = &doctor->findings[i];

		json_object(&json);
		json_key(&json, "name");
		json_string(&json, finding->name);
		json_key(&json, "status");
		json_string(&json, level_name(finding->level));
		json_key(&json, "text");
		json_string(&json, finding->text);
		if (finding->advice[0]) {
			json_key(&json, "advice");
			json_string(&json, finding->advice);
		}
		json_close(&json);
	}
	json_end(&json);
}

static void
print_lines(const struct doctor *doctor)
{
	size_t counts[LEVEL_COUNT] = {0};
	int width = 0;

	for (size_t i = 0; i < doctor->finding_n; i++)
		if ((int)strlen(doctor->findings[i].name) > width)
			width = (int)strlen(doctor->findings[i].name);
	for (size_t i = 0; i < doctor->finding_n; i++) {
		const struct finding *finding = &doctor->findings[i];

		counts[finding->level]++;
		printf("%-8s %-*s  %s\n", level_name(finding->level), width,
		       finding->name, finding->text);
		if (finding->advice[0])
			printf("%-8s %-*s  -> %s\n", "", width, "", finding->advice);
	}
	printf("\n%zu ok, %zu limited, %zu missing: the software device %s\n",
	       counts[LEVEL_OK], counts[LEVEL_LIMITED], counts[LEVEL_MISSING],
	       doctor->usable ? "works here" : "cannot work here");
}

/* Default directories: where spill files go, and where the user is. */
static void
dirs_default(struct doctor *doctor, char *spill_dirs)
{
	char *save = NULL;

	for (char *dir = strtok_r(spill_dirs, ":", &save);
	     dir && doctor->dir_n < DIR_MAX - 1; dir = strtok_r(NULL, ":", &save))
		doctor->dirs[doctor->dir_n++] = dir;
	doctor->dirs[doctor->dir_n++] = ".";
}

int
cmd_doctor(int argc, char **argv)
{
	static const struct option options[] = {
		{"dir", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct doctor doctor = {.usable = 1, .limit_bytes = UINT64_MAX};
	char spill_dirs[sizeof(doctor.config.spill_dirs)];
	int as_json = 0;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (c) {
		case 'd':
			if (doctor.dir_n == DIR_MAX)
				return command_usage("doctor", "more than %d directories",
						     DIR_MAX);
			doctor.dirs[doctor.dir_n++] = optarg;
			break;
		case 'j':
			as_json = 1;
			break;
		case 'h':
			fputs(doctor_help, stdout);
			return SL_EXIT_OK;
		default:
			return command_bad_option("doctor", c, argv);
		}
	}
	if (optind < argc)
		return command_usage("doctor", "'%s' is one argument too many", argv[optind]);

	check_config(&doctor);
	snprintf(spill_dirs, sizeof(spill_dirs), "%s",
		 doctor.config_ok ? doctor.config.spill_dirs : "");
	if (!doctor.dir_n)
		dirs_default(&doctor, spill_dirs);
	check_kernel(&doctor);
	check_cpus(&doctor);
	check_memory(&doctor);
	check_cgroup(&doctor);
	check_huge_pages(&doctor);
	check_memlock(&doctor);
	check_map_count(&doctor);
	check_userfaultfd(&doctor);
	check_uring(&doctor);
	check_directories(&doctor);
	check_gpu(&doctor);
	check_device(&doctor);
	if (as_json)
		print_json(&doctor);
	else
		print_lines(&doctor);
	return doctor.usable ? SL_EXIT_OK : SL_EXIT_FAILED;
}

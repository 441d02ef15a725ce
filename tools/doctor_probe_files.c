/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of `sluice doctor` for files: does io_uring read one, and can each directory be
 * used?
 *
 * The ring is set up by hand. So the answer is the kernel's, and does not depend on this build's
 * libraries. Then the library is tried. A directory is tried with a page written and read back
 * by O_DIRECT.
 *
 * Leaves nothing behind: probe files are unlinked before they are used.
 *
 * Threads: one.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/cleanup.h"
#include "base/size.h"
#include "doctor.h"
#include "store/store.h"

#define PROBE_BYTES 4096

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

void
doctor_check_uring(struct doctor *doctor)
{
	static const char text[] = "read through a ring";
	char disabled[32] = "", got[sizeof(text)] = "";
	struct sl_engine *engine = NULL;
	const char *advice = "allow io_uring_setup, io_uring_enter and io_uring_register "
			     "in the container's seccomp profile";
	struct ring ring;
	int rc;
	SL_CLEANUP(close) int file = -1;

	(void)doctor_line_read("/proc/sys/kernel/io_uring_disabled", disabled,
			       sizeof(disabled));
	rc = ring_init(&ring);
	if (rc) {
		/* A kernel that has the setting has io_uring: a container's profile hides it. */
		if (rc == -ENOSYS && !disabled[0])
			advice = "use a kernel built with CONFIG_IO_URING";
		else if (disabled[0] && disabled[0] != '0')
			advice = "set sysctl kernel.io_uring_disabled=0";
		finding_add(doctor, LEVEL_MISSING, "io_uring", advice,
			    "refused: %s%s%s; files are read by threads instead",
			    strerror(-rc),
			    disabled[0] ? ", kernel.io_uring_disabled is " : "", disabled);
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
		finding_add(doctor, LEVEL_MISSING, "io_uring",
			    "set SLUICE_STORE_IO=file to read files by threads",
			    "a read through a ring: %s",
			    rc < 0 ? strerror(-rc) : "other bytes than were written");
		return;
	}
	/* The kernel has it; whether this build can use it is the library's to say. */
	rc = sl_engine_create("uring", 4, &engine);
	sl_engine_destroy(engine);
	if (!rc) {
		finding_add(doctor, LEVEL_OK, "io_uring", NULL,
			    "a file was read through a ring");
		return;
	}
	finding_add(doctor, LEVEL_LIMITED, "io_uring",
		    "build with liburing's development package installed",
		    "the kernel has it, but: %s; files are read by threads",
		    sluice_last_error());
}

/* ---- directories ---- */

/* Type of the file system that path is on, by the longest mount point above it. */
static void
filesystem_type(const char *path, char *type, size_t type_bytes)
{
	SL_CLEANUP(free) char *line = NULL;
	char real[PATH_MAX];
	size_t room = 0, best = 0;
	FILE *mounts;

	snprintf(type, type_bytes, "unknown file system");
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
		sl_mount_unescape(point);
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
	struct statvfs fs;
	struct stat st;
	uint64_t free_bytes;
	int in_memory, plain, rc;

	/* Long paths are shortened at the front: their end tells them apart. */
	snprintf(name, sizeof(name), "files in %s%s", strlen(dir) > 38 ? ".." : "",
		 strlen(dir) > 38 ? dir + strlen(dir) - 36 : dir);
	if (stat(dir, &st) || statvfs(dir, &fs)) {
		finding_add(doctor, LEVEL_MISSING, name,
			    "make the directory, or name another one with --dir", "%s",
			    strerror(errno));
		return;
	}
	if (!S_ISDIR(st.st_mode)) {
		finding_add(doctor, LEVEL_MISSING, name, "name a directory",
			    "not a directory");
		return;
	}
	filesystem_type(dir, type, sizeof(type));
	in_memory = strcmp(type, "tmpfs") == 0 || strcmp(type, "ramfs") == 0;
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	sl_size_format(free_bytes, free_text, sizeof(free_text));

	plain = probe_open(dir);
	if (plain < 0) {
		finding_add(doctor, LEVEL_MISSING, name,
			    "set SLUICE_SPILL_DIRS to directories that this user may "
			    "write",
			    "%s, files cannot be made here: %s", type, strerror(-plain));
		return;
	}
	close(plain);
	if (!doctor->store_dir && !in_memory) {
		doctor->store_dir = dir;
		doctor->store_bytes = free_bytes;
		snprintf(doctor->store_type, sizeof(doctor->store_type), "%s", type);
	}
	rc = direct_try(dir);
	if (in_memory) {
		finding_add(doctor, LEVEL_LIMITED, name,
			    "keep data and spill files on a disk",
			    "%s: its files are memory themselves, %s free", type, free_text);
	} else if (rc) {
		finding_add(doctor, LEVEL_LIMITED, name,
			    "use a directory on ext4, xfs or btrfs on a local disk",
			    "%s refuses O_DIRECT (%s): buffered, the page cache competes "
			    "for memory; %s free",
			    type, strerror(-rc), free_text);
	} else if (free_bytes < 1024 * MIB) {
		finding_add(doctor, LEVEL_LIMITED, name,
			    "free space: spilled data and results need it",
			    "%s, O_DIRECT works, only %s free", type, free_text);
	} else {
		finding_add(doctor, LEVEL_OK, name, NULL, "%s, O_DIRECT works, %s free",
			    type, free_text);
	}
}

void
doctor_check_directories(struct doctor *doctor)
{
	for (size_t i = 0; i < doctor->dir_n; i++)
		check_directory(doctor, doctor->dirs[i]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening files, cutting requests into pieces for O_DIRECT, and the blocking calls; see
 * disk_file.h. Engines have the threads and the queues. engine.c has names and wrappers.
 *
 * The buffered descriptor is opened first: it shows whether the path is a regular file or a
 * block device. The direct one opens the same file again through /proc/self/fd. So it cannot
 * meet another file of that name, and works for unlinked ones.
 *
 * Sync uses only the buffered descriptor. The kernel reports background write errors once for
 * each opened description, and they must not go to the wrong one.
 */
#include "store/disk_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/size.h"
#include "store/io_error.h"

#define PIECE_BYTES_MAX     (1u << 30)   /* the kernel moves less than 2 GiB a call */
#define ALLOCATE_STEP_BYTES (1ull << 30) /* of fallocate, so that EINTR keeps progress */
#define OPEN_TRIES          8            /* races with others that create and unlink */
#define NAME_TRIES          100          /* of random names in a spill directory */

/* ---- Opening ----------------------------------------------------------- */

static int
open_mode(int flags)
{
	if (flags & SL_STORE_WRITE)
		return flags & SL_STORE_READ ? O_RDWR : O_WRONLY;
	return O_RDONLY;
}

static int
open_fail(const char *path, int err, int flags)
{
	switch (err) {
	case ENOENT:
		return sl_fail(-ENOENT,
			       "open: %s: no such file or directory; check the path%s", path,
			       flags & SL_STORE_CREATE
				       ? " of its directory"
				       : ", or ask for the file to be created");
	case EISDIR:
		return sl_fail(-EISDIR, "open: %s: is a directory; give a file", path);
	case EROFS:
		return sl_fail(-EACCES,
			       "open: %s: file system is read-only (EROFS); map "
			       "without write",
			       path);
	case EPERM:
	case EACCES:
	case ETXTBSY:
		return sl_fail(-EACCES, "open: %s: %s (%s); %s", path,
			       strerrordesc_np(err), sl_errno_name(err),
			       flags & SL_STORE_WRITE
				       ? "give write permission or map without write"
				       : "give read permission");
	case EMFILE:
	case ENFILE:
		return sl_fail(-err,
			       "open: %s: %s (%s); raise `ulimit -n` (two descriptors "
			       "a file)",
			       path, strerrordesc_np(err), sl_errno_name(err));
	}
	return sl_fail(-err, "open: %s: %s (%s)", path, strerrordesc_np(err),
		       sl_errno_name(err));
}

/* Make a new directory entry survive a crash. File systems that cannot sync a directory
 * are left alone: theirs is another way. */
static int
parent_sync(const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	SL_CLEANUP(close) int fd = -1;

	if (!slash)
		snprintf(dir, sizeof(dir), ".");
	else if (slash == path)
		snprintf(dir, sizeof(dir), "/");
	else
		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 0; /* may be a directory one can search and not read: best effort */
	if (fsync(fd) && errno != EINVAL && errno != ENOTSUP && errno != EROFS)
		return sl_fail(-errno, "open: %s: fsync of its directory: %s (%s)", path,
			       strerrordesc_np(errno), sl_errno_name(errno));
	return 0;
}

/* The descriptor, or -errno without a text. *created: this call made the file. */
static int
path_open(const char *path, int flags, int *created)
{
	/* O_NONBLOCK: a FIFO must not hold us up; taken off again below. */
	int how = open_mode(flags) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;

	*created = 0;
	for (unsigned try = 0; try < OPEN_TRIES; try++) {
		int fd = open(path, how);

		if (fd >= 0)
			return fd;
		if (errno != ENOENT || !(flags & SL_STORE_CREATE))
			return -errno;
		fd = open(path, how | O_CREAT | O_EXCL, 0666);
		if (fd >= 0) {
			*created = 1;
			return fd;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -ENOENT; /* a dangling link, or made and unlinked all the time */
}

/* True when the file says that it takes direct I/O aligned to SL_STORE_ALIGN, or does
 * not say. Memory file systems take O_DIRECT and ignore it. */
static int
direct_is_possible(int fd)
{
	struct statfs fs;
#ifdef STATX_DIOALIGN
	struct statx sx;
#endif

	if (!fstatfs(fd, &fs) && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC))
		return 0;
#ifdef STATX_DIOALIGN
	if (!statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) && sx.stx_mask & STATX_DIOALIGN)
		return sx.stx_dio_mem_align && sx.stx_dio_mem_align <= SL_STORE_ALIGN &&
		       sx.stx_dio_offset_align && sx.stx_dio_offset_align <= SL_STORE_ALIGN;
#endif
	return 1;
}

void
sl_disk_file_log_fallback(const struct sl_disk_file *file)
{
	sl_log_once("store.buffered", SL_INFO, "store",
		    "%s: the file system takes no direct I/O of %u bytes alignment; "
		    "reading and "
		    "writing through the page cache, which costs speed and memory "
		    "outside the "
		    "budgets (this and other such files)",
		    file->name, SL_STORE_ALIGN);
}

static void
direct_open(struct sl_disk_file *file)
{
	char path[64];
	int mode = fcntl(file->fd, F_GETFL) & O_ACCMODE;

	if (direct_is_possible(file->fd)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
		file->direct_fd = open(path, mode | O_DIRECT | O_CLOEXEC | O_NOCTTY);
	}
	atomic_store(&file->direct_on, file->direct_fd >= 0);
	if (file->direct_fd < 0)
		sl_disk_file_log_fallback(file);
}

/* What file->fd is; 0 or -errno with a text. */
static int
kind_check(struct sl_disk_file *file, const char *path)
{
	struct stat st;

	if (fstat(file->fd, &st))
		return open_fail(path, errno, 0);
	if (S_ISDIR(st.st_mode))
		return open_fail(path, EISDIR, 0);
	if (S_ISBLK(st.st_mode)) {
		file->is_block_device = 1;
		if (ioctl(file->fd, BLKGETSIZE64, &file->size_bytes))
			return sl_fail(-errno, "open: %s: BLKGETSIZE64: %s (%s)", path,
				       strerrordesc_np(errno), sl_errno_name(errno));
		return 0;
	}
	if (!S_ISREG(st.st_mode))
		return sl_fail(-EINVAL,
			       "open: %s: neither a regular file nor a block device; "
			       "give one of "
			       "these",
			       path);
	file->size_bytes = (uint64_t)st.st_size;
	return 0;
}

int
sl_disk_file_open(struct sl_disk_file *file, const char *path, int flags, const char *name)
{
	int created;
	int rc;

	*file = (struct sl_disk_file){.fd = -1, .direct_fd = -1, .name = name};
	if (strlen(path) >= PATH_MAX)
		return sl_fail(-EINVAL, "open: the path is longer than %d bytes",
			       PATH_MAX - 1);
	rc = path_open(path, flags, &created);
	if (rc < 0)
		return open_fail(path, rc == -ENXIO ? EINVAL : -rc, flags);
	file->fd = rc;

	rc = kind_check(file, path);
	if (rc)
		goto fail;
	if (fcntl(file->fd, F_SETFL, fcntl(file->fd, F_GETFL) & ~O_NONBLOCK)) {
		rc = open_fail(path, errno, flags);
		goto fail;
	}
	if (created) {
		rc = parent_sync(path);
		if (rc)
			goto fail;
	}
	direct_open(file);
	return 0;

fail:
	sl_disk_file_close(file);
	return rc;
}

/* For file systems without O_TMPFILE: a random name, unlinked at once. */
static int
unlinked_open(const char *dir)
{
	for (unsigned try = 0; try < NAME_TRIES; try++) {
		char path[PATH_MAX];
		int n = snprintf(path, sizeof(path), "%s/.sluice-XXXXXX", dir);
		int fd;

		if (n < 0 || (size_t)n >= sizeof(path))
			return -ENAMETOOLONG;
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0) {
			unlink(path);
			return fd;
		}
		if (errno != EEXIST && errno != EINTR)
			return -errno;
	}
	return -EEXIST;
}

int
sl_disk_file_open_temporary(struct sl_disk_file *file, const char *dir, const char *name)
{
	int fd;

	*file = (struct sl_disk_file){.fd = -1, .direct_fd = -1, .name = name};
	fd = open(dir, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		fd = -errno;
	if (fd == -EOPNOTSUPP || fd == -EISDIR || fd == -EINVAL)
		fd = unlinked_open(dir);
	if (fd == -EROFS || fd == -EPERM)
		fd = -EACCES;
	if (fd < 0)
		return sl_fail(fd,
			       "open: temporary file in %s: %s (%s); give a writable "
			       "directory on a "
			       "disk with room",
			       dir, strerrordesc_np(-fd), sl_errno_name(fd));
	file->fd = fd;
	direct_open(file);
	return 0;
}

void
sl_disk_file_close(struct sl_disk_file *file)
{
	if (file->direct_fd >= 0)
		close(file->direct_fd);
	if (file->fd >= 0)
		close(file->fd);
	file->direct_fd = -1;
	file->fd = -1;
}

/* ---- Moving bytes ------------------------------------------------------ */

void
sl_disk_file_piece(const struct sl_disk_file *file, enum sl_io_op op, void *buf,
		   uint64_t offset, size_t bytes, const struct sl_progress *progress,
		   struct sl_piece *out)
{
	uint64_t at = offset + progress->moved_bytes;
	size_t rest = bytes - progress->moved_bytes;
	size_t aligned = rest & ~(size_t)(SL_STORE_ALIGN - 1);
	char *to = (char *)buf + progress->moved_bytes;

	assert(rest > 0);
	/* A read may write the rest of the buffer's last page, so it can stay direct. */
	if (op == SL_IO_READ && aligned < rest)
		aligned += SL_STORE_ALIGN;

	out->direct = atomic_load_explicit(&file->direct_on, memory_order_relaxed) &&
		      aligned && at % SL_STORE_ALIGN == 0 &&
		      (uintptr_t)to % SL_STORE_ALIGN == 0;
	out->fd = out->direct ? file->direct_fd : file->fd;
	out->buf = to;
	out->offset = at;
	out->bytes = out->direct ? aligned : rest;
	if (out->bytes > PIECE_BYTES_MAX)
		out->bytes = PIECE_BYTES_MAX;
}

int
sl_disk_file_advance(struct sl_disk_file *file, enum sl_io_op op,
		     const struct sl_piece *piece, int64_t res, size_t bytes,
		     struct sl_progress *progress)
{
	size_t rest = bytes - progress->moved_bytes;

	if (res > 0) {
		progress->retries = 0;
		progress->moved_bytes += (uint64_t)res < rest ? (size_t)res : rest;
		return progress->moved_bytes < bytes;
	}
	if (res == 0 && op == SL_IO_READ) {
		progress->past_end = 1;
		return -EIO;
	}
	if (res == -EINVAL && piece->direct) {
		/* Only now the file system says that it does not want it. */
		atomic_store_explicit(&file->direct_on, 0, memory_order_relaxed);
		return 1;
	}
	if (res == 0 || res == -EINTR || res == -EAGAIN || res == -EBUSY)
		return ++progress->retries <= SL_PIECE_RETRIES ? 1 : -EIO;
	return (int)res;
}

int
sl_disk_file_move(struct sl_disk_file *file, enum sl_io_op op, void *buf, uint64_t offset,
		  size_t bytes, int *past_end)
{
	struct sl_progress progress = {0};
	int saved_errno = errno;
	int rc = bytes > 0;

	while (rc > 0) {
		struct sl_piece piece;
		ssize_t n;

		sl_disk_file_piece(file, op, buf, offset, bytes, &progress, &piece);
		n = op == SL_IO_READ
			    ? pread(piece.fd, piece.buf, piece.bytes, (off_t)piece.offset)
			    : pwrite(piece.fd, piece.buf, piece.bytes, (off_t)piece.offset);
		rc = sl_disk_file_advance(file, op, &piece, n < 0 ? -errno : n, bytes,
					  &progress);
	}
	errno = saved_errno;
	if (past_end)
		*past_end = progress.past_end;
	return rc;
}

/* ---- Calls on the whole file ------------------------------------------- */

int
sl_disk_file_sync(struct sl_disk_file *file)
{
	/* fdatasync(2) writes the size, too, where it is needed to read the data back. */
	for (unsigned try = 0;; try++) {
		if (!fdatasync(file->fd))
			return 0;
		if (errno != EINTR || try == SL_PIECE_RETRIES)
			break;
	}
	return sl_fail(-errno,
		       "sync: %s: fdatasync: %s (%s); what was written since the last "
		       "sync may not "
		       "be on the medium: keep other copies, check the disk",
		       file->name, strerrordesc_np(errno), sl_errno_name(errno));
}

static int
length_get(const struct sl_disk_file *file, uint64_t *out)
{
	struct stat st;

	if (fstat(file->fd, &st))
		return -errno;
	*out = (uint64_t)st.st_size;
	return 0;
}

/* Make the file at least bytes long, without blocks. -errno, no text. */
static int
length_raise(const struct sl_disk_file *file, uint64_t bytes)
{
	uint64_t now = 0;
	int rc = length_get(file, &now);

	if (rc || now >= bytes)
		return rc;
	return ftruncate(file->fd, (off_t)bytes) ? -errno : 0;
}

/* Allocate blocks without changing the length. 0 also where the file system cannot. */
static int
blocks_allocate(const struct sl_disk_file *file, uint64_t offset, uint64_t bytes)
{
	unsigned interrupted = 0;

	while (bytes > 0) {
		uint64_t step = bytes < ALLOCATE_STEP_BYTES ? bytes : ALLOCATE_STEP_BYTES;

		if (fallocate(file->fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)step)) {
			if (errno == EOPNOTSUPP || errno == ENOSYS)
				return 0;
			if (errno == EINTR && ++interrupted <= SL_PIECE_RETRIES)
				continue;
			return -errno;
		}
		interrupted = 0;
		offset += step;
		bytes -= step;
	}
	return 0;
}

static int
extend_fail(const struct sl_disk_file *file, uint64_t bytes, int rc)
{
	char size[32];

	sl_size_format(bytes, size, sizeof(size));
	if (rc == -ENOSPC || rc == -EDQUOT)
		return sl_fail(-ENOSPC,
			       "extend: %s: to %llu bytes (%s): no room on the file "
			       "system (%s); free "
			       "space or use another disk",
			       file->name, (unsigned long long)bytes, size,
			       sl_errno_name(rc));
	if (rc == -EFBIG)
		return sl_fail(-EFBIG,
			       "extend: %s: to %llu bytes (%s): larger than the file "
			       "system or `ulimit "
			       "-f` allows (EFBIG)",
			       file->name, (unsigned long long)bytes, size);
	return sl_fail(rc, "extend: %s: to %llu bytes (%s): %s (%s)", file->name,
		       (unsigned long long)bytes, size, strerrordesc_np(-rc),
		       sl_errno_name(rc));
}

/* The limit of `ulimit -f`, asked first: meeting it brings SIGXFSZ, which would end the
 * process. */
static int
limit_check(uint64_t bytes)
{
	struct rlimit limit;

	if (bytes > INT64_MAX)
		return -EFBIG;
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	    bytes > limit.rlim_cur)
		return -EFBIG;
	return 0;
}

int
sl_disk_file_extend(struct sl_disk_file *file, uint64_t bytes)
{
	uint64_t before = 0, now = 0;
	int rc;

	if (file->is_block_device)
		return bytes <= file->size_bytes ? 0 : extend_fail(file, bytes, -EFBIG);
	rc = length_get(file, &before);
	if (rc)
		return extend_fail(file, bytes, rc);
	if (before >= bytes)
		return 0;
	rc = limit_check(bytes);
	if (rc)
		return extend_fail(file, bytes, rc);

	/* Blocks first, length last: whoever looks in between, and whoever finds the
	 * file after a failure, sees the old length. */
	rc = blocks_allocate(file, before, bytes - before);
	if (!rc)
		rc = length_raise(file, bytes);
	if (!rc)
		return 0;

	/* Truncating to the present length frees the blocks behind it. Not when another
	 * process has made the file longer meanwhile: its bytes are worth more than our
	 * blocks. */
	if (!length_get(file, &now) && now == before && ftruncate(file->fd, (off_t)before))
		sl_log(SL_WARN, "store",
		       "%s: blocks allocated behind its end could not be freed (%s)",
		       file->name, sl_errno_name(errno));
	return extend_fail(file, bytes, rc);
}

int
sl_disk_file_allocate(struct sl_disk_file *file, uint64_t offset, uint64_t bytes)
{
	int rc = limit_check(offset + bytes);

	/* Length first: holes can be punched only before the end of the file. */
	if (!rc)
		rc = length_raise(file, offset + bytes);
	if (rc)
		return extend_fail(file, offset + bytes, rc);
	rc = blocks_allocate(file, offset, bytes);
	if (!rc)
		return 0;
	sl_disk_file_punch(file, offset, bytes);
	return extend_fail(file, offset + bytes, rc);
}

void
sl_disk_file_punch(struct sl_disk_file *file, uint64_t offset, uint64_t bytes)
{
	/* Whole pages only: the kernel would zero the parts of others. */
	uint64_t first = (offset + SL_STORE_ALIGN - 1) & ~(uint64_t)(SL_STORE_ALIGN - 1);
	uint64_t end = (offset + bytes) & ~(uint64_t)(SL_STORE_ALIGN - 1);

	if (first >= end || file->is_block_device)
		return;
	/* A hint: what the file system cannot punch stays allocated. */
	(void)!fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			 (off_t)first, (off_t)(end - first));
}

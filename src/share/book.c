/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The book of a GPU (book.h): its file, rows and locks.
 *
 * The file: a head, then a slot for each row. A slot has the row, which its program writes, and the
 * order, which commands write. Both have a checksum. Bytes far behind the end of the file are what the
 * kernel's locks are for: one for each row, one for growing. They are locks of the open file, so two
 * books of one process exclude each other, too.
 *
 * A new file gets its head under another name, and then its own name at once. So nobody meets half of
 * one. A damaged one is replaced by a new one in the same way. Who has the old one open sees that the
 * name leads elsewhere, and joins the new one.
 *
 * A program may close our descriptor and have its number for a file of its own. So the number is a
 * high one, and the file is looked at before it is written.
 */
#include "share/book.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/hash.h"
#include "base/log.h"

#define MAGIC      UINT64_C(0x6b6f6f6265636c73)
#define VERSION    2u
#define HEAD_BYTES 64
#define SLOT_BYTES 512
#define FILE_BYTES (HEAD_BYTES + SL_BOOK_ROWS * SLOT_BYTES)
#define LOCKS_AT   ((off_t)1 << 40) /* of rows; behind them the one for growing */
#define PATH_ROOM  1200
/* Programs get the lowest free number: few come so far. The kernel's first table has 64. For a larger one a process
 * with threads waits until all processors have seen it: 20 to 50 ms (H100's machine). */
#define FD_LEAST   40
#define READ_TRIES \
	3 /* of a row that is being written: a write takes less than a microsecond */
#define OPEN_TRIES 4 /* of a file that others make or replace meanwhile */
#define LOCK_WAIT_NS \
	100000000u /* longer than a holder is off the processor, and nobody notices */
#define LOCK_PAUSE_NS 50000
#define AWAY_NS \
	1000000000u /* rows are written ten times a second: book.h's readers count on it */
#define PREFIX "book-"

struct book_head {
	uint64_t magic, check;
	uint32_t version, slot_bytes;
};

struct book_record { /* of a row */
	uint64_t check, serial;
	struct sl_book_row row;
};

struct book_order {
	uint64_t check;
	uint64_t start; /* the process that it is for: others that get the row later pass it over */
	int32_t pid;
	uint32_t padding;
	struct sl_book_order order;
};

struct book_slot {
	struct book_record record;
	struct book_order order;
};

_Static_assert(sizeof(struct book_slot) <= SLOT_BYTES && sizeof(struct book_head) <= HEAD_BYTES,
	       "room of a slot");

struct sl_book {
	int fd;
	dev_t dev;
	ino_t ino;
	int slot; /* -1: not joined */
	uint64_t serial;
	struct sl_book_row own; /* who we are */
	struct {
		uint64_t serial, since_ns; /* what the row's last was, and since when */
	} seen[SL_BOOK_ROWS];
	unsigned char *slots; /* as they were read */
	char path[PATH_ROOM];
};

/* ---- checksums ---- */

/* Of what lies behind the checksum, which is first. */
static uint64_t
check_of(const void *record, size_t bytes)
{
	const unsigned char *at = (const unsigned char *)record + sizeof(uint64_t);
	uint64_t sum = VERSION, word;

	for (size_t i = sizeof(uint64_t); i + sizeof(word) <= bytes; i += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		sum = sl_hash_add(sum, word);
		at += sizeof(word);
	}
	return sum;
}

static struct book_head
head_make(void)
{
	struct book_head head = {.magic = MAGIC, .version = VERSION, .slot_bytes = SLOT_BYTES};

	head.check = sl_hash_add(head.version, head.slot_bytes);
	return head;
}

/* ---- the file ---- */

/* What the user can do. */
static const char *
book_advice(int error)
{
	switch (error) {
	case ENOSPC:
	case EDQUOT:
		return "; make room there, or name another directory in SLUICE_SHARE_DIR";
	case ENOENT:
	case ENOTDIR:
	case EROFS:
	case EACCES:
		return "; let SLUICE_SHARE_DIR name a directory that this user can write "
		       "to";
	case EISDIR:
	case ELOOP:
	case ENXIO:
		return "; it is no file: remove it";
	default:
		return "";
	}
}

static int
book_fail(const struct sl_book *book, int error, const char *what)
{
	return sl_fail(-error, "the book of programs %s: %s: %s%s", book->path, what,
		       strerror(error), book_advice(error));
}

/* The directory of this user, made if it is not there. */
static int
dir_find(const char *dir, int makes, char path[PATH_ROOM])
{
	struct stat st;

	if (!dir)
		dir = getenv("SLUICE_SHARE_DIR");
	if (dir && *dir) {
		if (snprintf(path, PATH_ROOM, "%s", dir) >= PATH_ROOM)
			return sl_fail(-ENAMETOOLONG,
				       "SLUICE_SHARE_DIR: a name this long");
		return 0;
	}
	snprintf(path, PATH_ROOM, "/dev/shm/sluice-%u", (unsigned)geteuid());
	if (makes && mkdir(path, 0700) && errno != EEXIST)
		return sl_fail(-errno, "the directory of books %s: %s", path,
			       strerror(errno));
	if (lstat(path, &st))
		return sl_fail(-errno, "the directory of books %s: %s", path,
			       strerror(errno));
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return sl_fail(
			-EPERM,
			"the directory of books %s is not this user's alone: remove "
			"it",
			path);
	return 0;
}

static int
path_make(const char *dir, const char *gpu, int makes, char path[PATH_ROOM])
{
	char folder[PATH_ROOM];
	int rc = dir_find(dir, makes, folder);

	if (rc)
		return rc;
	if (!*gpu || strchr(gpu, '/') || strlen(gpu) >= SL_BOOK_NAME_BYTES)
		return sl_fail(-EINVAL, "'%s' names no GPU", gpu);
	if (snprintf(path, PATH_ROOM, "%s/" PREFIX "%s", folder, gpu) >= PATH_ROOM)
		return sl_fail(-ENAMETOOLONG, "the directory of books: a name this long");
	return 0;
}

/* A file with a head, under its name. old: it takes the place of one that is there. */
static int
book_file_make(const struct sl_book *book, int old)
{
	const struct book_head head = head_make();
	char temporary[PATH_ROOM + 32];
	int fd, rc = sl_fault_point("book.make");

	snprintf(temporary, sizeof(temporary), "%s.%d", book->path, (int)getpid());
	(void)unlink(temporary); /* of a process that has had this number */
	fd = rc ? -1
		: open(temporary, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return book_fail(book, rc ? -rc : errno, "cannot be made");
	if (pwrite(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
		rc = errno ? -errno : -ENOSPC;
	else if (old ? rename(temporary, book->path) : link(temporary, book->path))
		rc = errno == EEXIST ? 0 : -errno; /* another program was faster */
	if (!old || rc)
		(void)unlink(temporary);
	close(fd);
	return rc ? book_fail(book, -rc, "cannot be made") : 0;
}

/* 0, -EBADMSG: damaged, -EPROTO: another version. */
static int
head_look(const struct sl_book *book)
{
	const struct book_head ours = head_make();
	struct book_head head;
	ssize_t got = pread(book->fd, &head, sizeof(head), 0);

	if (got == (ssize_t)sizeof(head) && head.magic == MAGIC &&
	    head.check == sl_hash_add(head.version, head.slot_bytes)) {
		if (head.version == ours.version && head.slot_bytes == ours.slot_bytes)
			return 0;
		return sl_fail(
			-EPROTO,
			"the book of programs %s has version %u, this Sluice has %u: "
			"end the programs of the other Sluice, then remove the file",
			book->path, head.version, ours.version);
	}
	return sl_fail(-EBADMSG, "the book of programs %s is damaged", book->path);
}

/* A write beyond the limit of the process would be a signal of the program's. */
static int
size_look(const struct sl_book *book)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= FILE_BYTES)
		return 0;
	return sl_fail(
		-EFBIG,
		"the book of programs %s: this process may write files of %llu bytes, "
		"and needs %u (ulimit -f)",
		book->path, (unsigned long long)limit.rlim_cur, FILE_BYTES);
}

/* 0, -ENOENT, -EPERM or another error. */
static int
book_file_open(struct sl_book *book)
{
	struct stat st;
	int high;

	book->fd = open(book->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (book->fd < 0)
		return book_fail(book, errno, "cannot be opened");
	high = fcntl(book->fd, F_DUPFD_CLOEXEC, FD_LEAST);
	if (high >= 0) { /* else the process may not have so many */
		close(book->fd);
		book->fd = high;
	}
	if (fstat(book->fd, &st))
		return book_fail(book, errno, "cannot be looked at");
	book->dev = st.st_dev;
	book->ino = st.st_ino;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return sl_fail(-EPERM, "the book of programs %s is not this user's alone: remove it",
			       book->path);
	return head_look(book);
}

/* The descriptor is ours, and none of the program's with the same number. */
static int
book_has_fd(const struct sl_book *book)
{
	struct stat st;

	return book->fd >= 0 && !fstat(book->fd, &st) && st.st_dev == book->dev &&
	       st.st_ino == book->ino;
}

static void
book_file_close(struct sl_book *book)
{
	if (book_has_fd(book))
		close(book->fd);
	book->fd = -1;
}

static int
book_open(const char *dir, const char *gpu, int makes, struct sl_book **out)
{
	struct sl_book *book = sl_calloc(1, sizeof(*book));
	int rc = -ENOMEM, damaged = 0;

	if (book)
		book->slots = sl_malloc((size_t)SL_BOOK_ROWS * SLOT_BYTES);
	if (!book || !book->slots) {
		free(book);
		return sl_fail(rc, "the book of programs: out of memory");
	}
	book->fd = book->slot = -1;
	rc = path_make(dir, gpu, makes, book->path);
	if (!rc && makes)
		rc = size_look(book);
	for (int tries = 0; !rc; tries++) {
		rc = book_file_open(book);
		if (!rc || !makes || tries == OPEN_TRIES || (rc != -ENOENT && rc != -EBADMSG))
			break;
		book_file_close(book);
		if (rc == -EBADMSG && !damaged++)
			sl_log(SL_WARN, "share", "%s: it is made anew", sluice_last_error());
		rc = book_file_make(book, rc == -EBADMSG);
	}
	if (rc == -EBADMSG && !makes)
		sl_ignore(sl_fail(rc,
				  "the book of programs %s is damaged: the next program "
				  "that shares "
				  "makes it anew",
				  book->path));
	if (rc) {
		sl_book_close(book);
		return rc;
	}
	*out = book;
	return 0;
}

int
sl_book_open(const char *dir, const char *gpu, struct sl_book **out)
{
	return book_open(dir, gpu, 1, out);
}

int
sl_book_open_existing(const char *dir, const char *gpu, struct sl_book **out)
{
	return book_open(dir, gpu, 0, out);
}

/* 0; -EBADF: what has the number now is not ours. */
static int
fd_look(const struct sl_book *book)
{
	if (book_has_fd(book))
		return 0;
	return sl_fail(-EBADF, "the book of programs %s was closed by the program",
		       book->path);
}

/* The descriptor, the name and the head. */
static int
book_look(const struct sl_book *book)
{
	struct stat st;
	int rc = fd_look(book);

	if (rc)
		return rc;
	if (lstat(book->path, &st) || st.st_dev != book->dev || st.st_ino != book->ino)
		return sl_fail(-ESTALE, "the book of programs %s was removed", book->path);
	return head_look(book);
}

void
sl_book_close(struct sl_book *book)
{
	if (!book)
		return;
	book_file_close(book); /* and the kernel's locks with it */
	free(book->slots);
	free(book);
}

void
sl_book_forked(struct sl_book *book)
{
	book_file_close(book);
	book->slot = -1;
}

/* ---- the kernel's locks ---- */

/* 0, or -errno: -EAGAIN: another open file has it. */
static int
byte_lock(const struct sl_book *book, unsigned byte, short type)
{
	struct flock lock = {.l_type = type,
			     .l_whence = SEEK_SET,
			     .l_start = LOCKS_AT + byte,
			     .l_len = 1};

	if (!fcntl(book->fd, F_OFD_SETLK, &lock))
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

/* Whether a program holds the row. */
static int
row_is_held(const struct sl_book *book, unsigned slot)
{
	struct flock lock = {.l_type = F_WRLCK,
			     .l_whence = SEEK_SET,
			     .l_start = LOCKS_AT + (off_t)slot,
			     .l_len = 1};

	if ((int)slot == book->slot)
		return 1;
	return !fcntl(book->fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

int
sl_book_lock(struct sl_book *book)
{
	const struct timespec pause = {0, LOCK_PAUSE_NS};
	uint64_t until = sl_now_ns() + LOCK_WAIT_NS;
	int rc;

	while ((rc = byte_lock(book, SL_BOOK_ROWS, F_WRLCK)) == -EAGAIN && sl_now_ns() < until)
		nanosleep(&pause, NULL);
	return !rc;
}

void
sl_book_unlock(struct sl_book *book)
{
	if (book_has_fd(book))
		sl_ignore(byte_lock(book, SL_BOOK_ROWS, F_UNLCK)); /* nobody could do more */
}

/* ---- rows ---- */

static off_t
slot_at(unsigned slot)
{
	return HEAD_BYTES + (off_t)slot * SLOT_BYTES;
}

/* The time the process began, in ticks since the machine did; 0: not known. */
static uint64_t
process_start(void)
{
	char text[1024];
	const char *at;
	uint64_t start = 0;
	ssize_t n;
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strrchr(text, ')'); /* the name may have spaces */
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		start = strtoull(at + 1, NULL, 10);
	return start;
}

static uint64_t
pid_space(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

static void
row_sign(struct sl_book_row *row)
{
	int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	row->pid = getpid();
	row->start = process_start();
	row->pid_space = pid_space();
	memset(row->command, 0, sizeof(row->command));
	if (fd < 0)
		return;
	n = read(fd, row->command, sizeof(row->command) - 1);
	close(fd);
	row->command[n > 0 ? n : 0] = '\0';
	row->command[strcspn(row->command, "\n")] = '\0';
}

static int
slot_write(struct sl_book *book, unsigned slot, size_t offset, const void *record, size_t bytes)
{
	int rc = sl_fault_point("book.write");

	if (!rc && pwrite(book->fd, record, bytes, slot_at(slot) + (off_t)offset) !=
			   (ssize_t)bytes)
		rc = -(errno ? errno : ENOSPC);
	return rc ? book_fail(book, -rc, "cannot be written") : 0;
}

int
sl_book_write(struct sl_book *book, const struct sl_book_row *row)
{
	struct book_record record;
	int rc = book_look(book);

	if (rc)
		return rc;
	memset(&record, 0, sizeof(record)); /* padding counts */
	record.serial = ++book->serial;
	record.row = *row;
	record.row.pid = book->own.pid;
	record.row.start = book->own.start;
	record.row.pid_space = book->own.pid_space;
	record.check = check_of(&record, sizeof(record));
	return slot_write(book, (unsigned)book->slot, 0, &record, sizeof(record));
}

int
sl_book_join(struct sl_book *book, struct sl_book_row *row)
{
	int rc = book_look(book);

	row_sign(row);
	for (unsigned slot = 0; !rc && slot < SL_BOOK_ROWS; slot++) {
		rc = byte_lock(book, slot, F_WRLCK);
		if (rc == -EAGAIN) {
			rc = 0;
			continue;
		}
		if (rc)
			return book_fail(book, -rc, "cannot be locked");
		book->own = *row;
		book->slot = (int)slot;
		rc = sl_book_write(book, row);
		if (!rc)
			return 0;
		sl_ignore(byte_lock(book, slot, F_UNLCK)); /* the error is the write's */
		book->slot = -1;
	}
	return rc ? rc
		  : sl_fail(-ENOSPC, "the book of programs %s: %u programs are in it already",
			    book->path, SL_BOOK_ROWS);
}

/* The slots, as many as the file has. */
static int
slots_read(struct sl_book *book, size_t *n)
{
	size_t room = (size_t)SL_BOOK_ROWS * SLOT_BYTES;
	ssize_t got = pread(book->fd, book->slots, room, slot_at(0));

	if (got < 0)
		return book_fail(book, errno, "cannot be read");
	memset(book->slots + got, 0, room - (size_t)got);
	*n = ((size_t)got + SLOT_BYTES - 1) / SLOT_BYTES;
	return 0;
}

/* A whole row: 1. One that is being written is read again. */
static int
record_get(struct sl_book *book, unsigned slot, struct book_record *record)
{
	memcpy(record, book->slots + (size_t)slot * SLOT_BYTES, sizeof(*record));
	for (int tries = 0; tries < READ_TRIES; tries++) {
		if (record->check == check_of(record, sizeof(*record)))
			return record->row.pid > 0;
		if (pread(book->fd, record, sizeof(*record), slot_at(slot)) !=
		    (ssize_t)sizeof(*record))
			return 0;
	}
	return 0;
}

/* A program that has not written its row for so long does not answer. */
static uint8_t
slot_is_away(struct sl_book *book, unsigned slot, uint64_t serial)
{
	uint64_t now = sl_now_ns();

	if (book->seen[slot].serial != serial || !book->seen[slot].since_ns) {
		book->seen[slot].serial = serial;
		book->seen[slot].since_ns = now;
	}
	return now - book->seen[slot].since_ns > AWAY_NS;
}

/* A process that was made without exec() may hold the row of one that is gone. */
static int
process_is_gone(const struct sl_book_row *row)
{
	static _Atomic uint64_t here;

	if (!here)
		here = pid_space();
	return row->pid_space == here && kill(row->pid, 0) && errno == ESRCH;
}

int
sl_book_read(struct sl_book *book, struct sl_book_row *rows, size_t *n, size_t *me)
{
	size_t slots = 0, found = 0, own = SIZE_MAX;
	int rc = book_look(book);

	if (!rc)
		rc = slots_read(book, &slots);
	if (rc)
		return rc;
	for (unsigned slot = 0; slot < slots; slot++) {
		struct book_record record;

		if (!record_get(book, slot, &record) || !row_is_held(book, slot) ||
		    ((int)slot != book->slot && process_is_gone(&record.row)))
			continue;
		record.row.command[sizeof(record.row.command) - 1] = '\0';
		record.row.claim.is_away = (int)slot != book->slot &&
					   slot_is_away(book, slot, record.serial);
		if ((int)slot == book->slot)
			own = found;
		rows[found++] = record.row;
	}
	*n = found;
	*me = own == SIZE_MAX ? found : own;
	return 0;
}

/* ---- orders ---- */

/* The order in the slot, if it is one for the process; else zeroes. */
static void
order_get(const struct sl_book *book, unsigned slot, const struct sl_book_row *row,
	  struct sl_book_order *order)
{
	struct book_order record;

	memset(order, 0, sizeof(*order));
	if (pread(book->fd, &record, sizeof(record),
		  slot_at(slot) + (off_t)offsetof(struct book_slot, order)) !=
	    (ssize_t)sizeof(record))
		return; /* the file ends before: nothing was ordered */
	if (record.check == check_of(&record, sizeof(record)) && record.pid == row->pid &&
	    record.start == row->start)
		*order = record.order;
}

int
sl_book_order_read(struct sl_book *book, struct sl_book_order *order)
{
	int rc = book_look(book);

	if (rc)
		return rc;
	order_get(book, (unsigned)book->slot, &book->own, order);
	return 0;
}

static int
order_write(struct sl_book *book, unsigned slot, const struct sl_book_row *row,
	    const struct sl_book_order *order)
{
	struct book_order record;

	memset(&record, 0, sizeof(record));
	record.start = row->start;
	record.pid = row->pid;
	record.order = *order;
	record.check = check_of(&record, sizeof(record));
	return slot_write(book, slot, offsetof(struct book_slot, order), &record,
			  sizeof(record));
}

int
sl_book_order_keep(struct sl_book *book, const struct sl_book_order *order)
{
	int rc = book_look(book);

	return rc ? rc : order_write(book, (unsigned)book->slot, &book->own, order);
}

/* The first slot from *slot on that the process has. */
static int
row_find(struct sl_book *book, int pid, unsigned *slot, struct sl_book_row *row)
{
	size_t slots = 0;
	int rc = book_look(book);

	if (!rc)
		rc = slots_read(book, &slots);
	if (rc)
		return rc;
	for (unsigned at = *slot; at < slots; at++) {
		struct book_record record;

		if (!record_get(book, at, &record) || record.row.pid != pid ||
		    record.row.pid_space != pid_space() || !row_is_held(book, at))
			continue;
		*slot = at;
		*row = record.row;
		return 0;
	}
	return sl_fail(-ESRCH, "process %d does not share a GPU", pid);
}

int
sl_book_order_of(struct sl_book *book, int pid, struct sl_book_order *order)
{
	struct sl_book_row row = {.pid = 0};
	unsigned slot = 0;
	int rc = row_find(book, pid, &slot, &row);

	if (!rc)
		order_get(book, slot, &row, order);
	return rc;
}

int
sl_book_order_give(struct sl_book *book, int pid, const struct sl_book_order *order)
{
	struct sl_book_row row = {.pid = 0};
	unsigned slot = 0, given = 0;
	int rc;

	while (!(rc = row_find(book, pid, &slot, &row))) {
		rc = order_write(book, slot, &row, order);
		if (rc)
			return rc;
		given++;
		slot++;
	}
	return rc == -ESRCH && given ? 0 : rc;
}

/* ---- all books ---- */

static enum sl_book_kind
book_kind_of(const char *name)
{
	return strncmp(name, SL_BOOK_OF_HOST, strlen(SL_BOOK_OF_HOST)) ? SL_BOOK_DEVICE
								       : SL_BOOK_HOST;
}

int
sl_books_walk(const char *dir, enum sl_book_kind kind,
	      void (*fn)(const char *name, void *arg), void *arg)
{
	char path[PATH_ROOM];
	struct dirent *entry;
	int rc = dir_find(dir, 0, path);
	DIR *folder;

	if (rc)
		return rc == -ENOENT ? 0 : rc;
	folder = opendir(path);
	if (!folder)
		return errno == ENOENT ? 0
				       : sl_fail(-errno, "the directory of books %s: %s",
						 path, strerror(errno));
	while ((entry = readdir(folder))) {
		const char *name = entry->d_name + strlen(PREFIX);

		if (!strncmp(entry->d_name, PREFIX, strlen(PREFIX)) && !strchr(name, '.') &&
		    strlen(name) < SL_BOOK_NAME_BYTES && kind == book_kind_of(name))
			fn(name, arg);
	}
	closedir(folder);
	return 0;
}

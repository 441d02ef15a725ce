/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The book of a GPU, or of host memory: a file with one row for each program that shares its memory. Programs of
 * one user read all rows, and write their own. There is no daemon.
 *
 * - The file is in memory, in SLUICE_SHARE_DIR or /dev/shm/sluice-UID, and only its owner may open it.
 * - A program is in the book as long as it holds the kernel's lock on its row. So the kernel takes it
 *   out, however it ends, and a process with the same number is never taken for it.
 * - The lock for growing is taken for microseconds. Who cannot have it within 100 ms goes on without:
 *   a holder that is stopped harms nobody. Then two may grow into the same room. The driver refuses
 *   one of them, and the next look at the rows puts it right.
 * - A row has a checksum. One that was not written whole is read again, then passed over.
 *
 * The file is read and written, never mapped: a file that somebody cuts is an error here and no
 * signal. A program that closes descriptors that it does not know leaves the book (-EBADF).
 *
 * Threads: one at a time for each book. Blocks only where it says so. docs/design/share.md.
 */
#ifndef SL_SHARE_BOOK_H
#define SL_SHARE_BOOK_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "share/shares.h"

#define SL_BOOK_ROWS \
	SL_SHARES_MAX /* programs on one GPU: 128 KiB at most are read at a look */
#define SL_BOOK_NAME_BYTES 48 /* a GPU's UUID, or what begins as the next */
#define SL_BOOK_OF_HOST    "host"

struct sl_book;

/* What a program says of itself. Written by itself alone. */
struct sl_book_row {
	struct sl_share_claim claim; /* is_away: found by the reader */
	uint64_t leave_bytes; /* room that it wants left to others, of all programs the most */
	uint64_t giving_bytes; /* given up for the driver, and perhaps not taken by it yet */
	uint64_t room_bytes; /* of all programs together, as it has measured it last */
	uint64_t launches;
	uint64_t start;     /* when the process began: with pid, who it is */
	uint64_t pid_space; /* the name space that pid is of */
	int32_t pid;
	char command[16];
};

/* What `sluice suspend` and the like ask of a program. */
struct sl_book_order {
	uint64_t limit_bytes; /* UINT64_MAX: none but its own */
	uint32_t suspend;
	uint32_t number; /* of the orders to this process; 0: none was given */
};

/*
 * Open the book of the GPU, made if it is not there. dir: NULL: the usual place. A damaged one is
 * made anew, which is said (SL_WARN).
 * Errors: -EPROTO (of another version; the text has both), -EPERM (not this user's alone),
 * -ENAMETOOLONG, -ENOMEM, and those of the file system.
 * Does not block.
 */
int sl_book_open(const char *dir, const char *gpu, struct sl_book **out) SL_MUST_CHECK;
/* The same, but one that is not there, or damaged, is an error: -ENOENT, -EBADMSG. */
int sl_book_open_existing(const char *dir, const char *gpu, struct sl_book **out) SL_MUST_CHECK;
/* Leaves the book. NULL is fine. */
void sl_book_close(struct sl_book *book);
/* In a child of fork(): the row is its parent's. Only closes the descriptor; safe in a handler. */
void sl_book_forked(struct sl_book *book);

/* Take a row. row: pid, start, pid_space and command are filled in. -ENOSPC: all rows are taken; or
 * as sl_book_write(). */
int sl_book_join(struct sl_book *book, struct sl_book_row *row) SL_MUST_CHECK;
/*
 * Write the own row. -EBADF: the program has closed the book; -ESTALE: the file was removed or made
 * anew; -EBADMSG: it is damaged. After these open it again.
 */
int sl_book_write(struct sl_book *book, const struct sl_book_row *row) SL_MUST_CHECK;
/*
 * The rows of all programs that are in the book, at most SL_BOOK_ROWS. *me: which is the own one; *n:
 * none is (a book that was not joined). Errors as sl_book_write().
 */
int sl_book_read(struct sl_book *book, struct sl_book_row *rows, size_t *n,
		 size_t *me) SL_MUST_CHECK;

/* The lock for growing: 1: held, and to be given back. 0: nobody may be waited for longer. Blocks for
 * 100 ms at most. */
int sl_book_lock(struct sl_book *book);
void sl_book_unlock(struct sl_book *book);

/* What the own row is asked for; *order zeroed: nothing yet. */
int sl_book_order_read(struct sl_book *book, struct sl_book_order *order) SL_MUST_CHECK;
/* Put an order that was given before beside the own row. Errors as sl_book_write(). */
int sl_book_order_keep(struct sl_book *book, const struct sl_book_order *order) SL_MUST_CHECK;
/* The order of the process pid, of this book's reader's name space, as it stands, and a new one in its
 * place, for all of its rows. -ESRCH: it is not in the book. */
int sl_book_order_of(struct sl_book *book, int pid, struct sl_book_order *order) SL_MUST_CHECK;
int sl_book_order_give(struct sl_book *book, int pid,
		       const struct sl_book_order *order) SL_MUST_CHECK;

enum sl_book_kind { SL_BOOK_DEVICE, SL_BOOK_HOST };

/* Call fn with the name of each book of this kind. 0, or -errno of the directory; none is there: 0. */
int sl_books_walk(const char *dir, enum sl_book_kind kind,
		  void (*fn)(const char *name, void *arg), void *arg) SL_MUST_CHECK;

#endif

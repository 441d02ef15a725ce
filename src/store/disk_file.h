/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One opened file, as all engines use it: the descriptor of each piece of a request, the meaning
 * of short or refused transfers, and all work in the calling thread (4 KiB reads and writes,
 * sync, extend, punch). Queues and threads belong to the engines.
 *
 * A file has two descriptors. Aligned pieces use the direct one. Two kinds use the buffered one,
 * at their exact length: the tail of a write whose length is no multiple of SL_STORE_ALIGN, and
 * the rest of a transfer that stopped at an odd byte. The kernel keeps both views coherent: a
 * direct transfer first writes back and drops cached pages of its range. If direct I/O is
 * refused, at opening or by EINVAL at the first transfer, everything is buffered.
 *
 * Threads: all functions from any thread at once, no locks. Only `direct_on` changes after
 * opening, once, from 1 to 0.
 */
#ifndef SL_STORE_DISK_FILE_H
#define SL_STORE_DISK_FILE_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/store.h"

struct sl_disk_file {
	int fd;              /* buffered; -1: not open */
	int direct_fd;       /* -1: none */
	int is_block_device; /* set once */
	/* 1: use direct_fd; goes to 0 once. atomic: relaxed: both values are right at any time. */
	atomic_int direct_on;
	uint64_t size_bytes; /* length when opened */
	const char *name;    /* the store's, for texts */
};

/* One system call's worth of a request. */
struct sl_piece {
	int fd;
	int direct;
	char *buf;
	uint64_t offset;
	size_t bytes; /* a direct read may ask for more than the request, up to SL_STORE_ALIGN */
};

/* Transfers that may fail with EINTR, EAGAIN or EBUSY in a row before the request
 * fails. */
#define SL_PIECE_RETRIES 1000

/* How far a request has come. */
struct sl_progress {
	size_t moved_bytes;
	unsigned retries; /* in a row, without progress */
	int past_end;
};

/* Open path (see sl_store_open()), or an unlinked file in dir. name is kept, not
 * copied. On failure nothing stays open, text set. Blocks on open(2), and on fsync(2)
 * of the directory when a file was created. */
int sl_disk_file_open(struct sl_disk_file *file, const char *path, int flags,
		      const char *name) SL_MUST_CHECK;
int sl_disk_file_open_temporary(struct sl_disk_file *file, const char *dir,
				const char *name) SL_MUST_CHECK;
void sl_disk_file_close(struct sl_disk_file *file); /* not open is fine */

/* The next piece of a request of which progress->moved_bytes (less than bytes) are
 * done. */
void sl_disk_file_piece(const struct sl_disk_file *file, enum sl_io_op op, void *buf,
			uint64_t offset, size_t bytes, const struct sl_progress *progress,
			struct sl_piece *out);

/*
 * Account for what a piece's system call returned (bytes, or -errno). 0: the request is
 * complete; 1: go on with the next piece; negative: the request failed
 * (progress->past_end says whether the file ended early). Async-signal-safe.
 */
int sl_disk_file_advance(struct sl_disk_file *file, enum sl_io_op op,
			 const struct sl_piece *piece, int64_t res, size_t bytes,
			 struct sl_progress *progress) SL_MUST_CHECK;

/* The whole request by pread(2) or pwrite(2) in the calling thread. 0 or -errno, no text.
 * Async-signal-safe; keeps errno. Blocks on I/O. */
int sl_disk_file_move(struct sl_disk_file *file, enum sl_io_op op, void *buf,
		      uint64_t offset, size_t bytes, int *past_end) SL_MUST_CHECK;

/* As struct sl_store_ops says; texts set. */
int sl_disk_file_sync(struct sl_disk_file *file) SL_MUST_CHECK;
int sl_disk_file_extend(struct sl_disk_file *file, uint64_t bytes) SL_MUST_CHECK;

/* Allocate the blocks of a range and make the file long enough. On failure the blocks
 * of the range are given back (contents, if any, are lost): only for ranges that hold
 * nothing. */
int sl_disk_file_allocate(struct sl_disk_file *file, uint64_t offset,
			  uint64_t bytes) SL_MUST_CHECK;
void sl_disk_file_punch(struct sl_disk_file *file, uint64_t offset, uint64_t bytes);

/* Say once per file system type of trouble that direct I/O is off. Not in a signal
 * handler. */
void sl_disk_file_log_fallback(const struct sl_disk_file *file);

#endif

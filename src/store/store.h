/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of the store tier: files on NVMe (or any disk), read and written in large aligned
 * pieces with deep queues. src/core knows this file and no back end. Back ends know nothing of
 * chunks. A store is one file, mapped or spill. An engine carries the I/O of all stores of a
 * space.
 *
 * Units: bytes; offsets from the start of the file. Buffers are aligned to SL_STORE_ALIGN, and
 * offsets are multiples of it. Another length is allowed (the tail of a file). The buffer then
 * extends to the next multiple. A read may write the rest of that page. A write does not store
 * it, and never changes or extends the file beyond offset + bytes.
 *
 * Threads: every function may be called from any thread at once, with no lock of rank STORE
 * held.
 */
#ifndef SL_STORE_STORE_H
#define SL_STORE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define SL_STORE_ALIGN 4096u

enum sl_io_op { SL_IO_READ, SL_IO_WRITE, SL_IO_OP_COUNT };

/* A queued request of a higher class starts before any of a lower one. */
enum sl_io_class {
	SL_IO_DEMAND,    /* somebody waits */
	SL_IO_PREFETCH,  /* somebody will need it */
	SL_IO_WRITEBACK, /* nobody waits */
	SL_IO_CLASS_COUNT
};

/*
 * One request. Filled and owned by the caller, who keeps it and its buffer untouched
 * until done() is called; done() runs exactly once, on a thread of the engine (never
 * inside submit), with no engine lock held; it may take the space lock, submit more, and
 * free the io; it must not block on I/O.
 */
struct sl_io {
	enum sl_io_op op;
	enum sl_io_class class;
	void *buf;
	uint64_t offset;
	size_t bytes;
	void (*done)(struct sl_io *io);
	void *arg;  /* the caller's */
	int result; /* set before done(): 0 (all bytes moved) or -errno; a read that meets
		     * the end of the file early is -EIO with past_end set */
	int past_end;
	/* For sl_store_wrap_codec(); other stores look at neither. */
	int encode; /* a write of a whole extent may be compressed */
	int stays_encoded; /* a read of one may give encoded bytes; of a write: such a read may come */
	/* buf has encoded_bytes, and room for all. Of a write the caller says so, of a read the store, before done(). */
	int is_encoded;
	void *const *pieces; /* of such a write: these have them, piece_bytes each. NULL: buf */
	size_t piece_bytes;
	/* The bytes that the file has of the extent, 0: as it is; and their sl_codec_checksum(), for reads that leave
	 * them so. A write sets them before done(); a read needs what the write said. */
	size_t encoded_bytes;
	uint64_t encoded_sum;
	int has_arrived; /* of the requests that it makes of one */

	struct sl_store *store; /* set by sl_store_submit() */
	struct sl_io *next;     /* the engine's, from here */
	size_t moved_bytes;
	uint64_t start_ns;
};

struct sl_store;
struct sl_engine;

struct sl_store_ops {
	/* Take n requests; never fails, never waits for I/O (what does not fit is
	 * queued). */
	void (*submit)(struct sl_store *store, struct sl_io **ios, size_t n);
	/* Move bytes now, in the calling thread, blocking on I/O. 0 or -errno; *past_end
	 * (may be NULL) as in struct sl_io. Used for 4 KiB faults; safe in a signal
	 * handler that interrupted no library code: no allocation, no engine lock. */
	int (*read_now)(struct sl_store *store, void *buf, uint64_t offset, size_t bytes,
			int *past_end);
	int (*write_now)(struct sl_store *store, const void *buf, uint64_t offset,
			 size_t bytes);
	/* Data and size of the file are on the medium when 0 is returned. Blocks on I/O.
	 * Does not wait for requests still queued: the caller has waited for its own. */
	int (*sync)(struct sl_store *store);
	/* Make the file at least bytes long, blocks allocated where the file system can
	 * (ENOSPC now, not later). Blocks. */
	int (*extend)(struct sl_store *store, uint64_t bytes);
	/* The contents of a range are not needed any more: give the blocks back. A
	 * hint. */
	void (*trim)(struct sl_store *store, uint64_t offset, uint64_t bytes);
	/* Close and free. No request may be in flight. NULL never comes here. */
	void (*close)(struct sl_store *store);
};

struct sl_store {
	const struct sl_store_ops *ops;
	uint64_t size_bytes; /* length of the file when opened or last extended */
	int direct;          /* 1: O_DIRECT, 0: buffered */
	char name[256];      /* path, shortened at the front; for texts */
};

/* Flags of sl_store_open(). */
enum { SL_STORE_READ = 1, SL_STORE_WRITE = 2, SL_STORE_CREATE = 4 };

/*
 * Engines. kind: "uring" or "file". depth: requests in flight at most (uring), threads =
 * min(depth, 8) (file). -ENOTSUP: io_uring not built in or refused by the kernel (text
 * says which). destroy waits for nothing: all stores are closed first; NULL is fine.
 */
int sl_engine_create(const char *kind, unsigned depth, struct sl_engine **out) SL_MUST_CHECK;
void sl_engine_destroy(struct sl_engine *engine);
const char *sl_engine_kind(const struct sl_engine *engine);

/*
 * Open a file. O_DIRECT where the file system takes it (said once, at info level, where
 * not). Errors, with a text naming the path and what to do: -ENOENT, -EISDIR, -EACCES
 * (write wanted on a read-only file or file system), -EINVAL (not a regular file or block
 * device), others of open(2). Blocks on open(2).
 */
int sl_store_open(struct sl_engine *engine, const char *path, int flags,
		  struct sl_store **out) SL_MUST_CHECK;

/* An unlinked file in dir (O_TMPFILE, or created and unlinked at once): gone with the
 * process. */
int sl_store_open_temporary(struct sl_engine *engine, const char *dir,
			    struct sl_store **out) SL_MUST_CHECK;

/* Wrappers that own the store they wrap. fault: asks sl_fault_point("store.read" and so
 * on) for each call; delay: each request completes at the earliest delay_ns after its
 * submission and reads of all requests together run at bytes_per_s at most (0: no limit).
 * On failure the inner store is closed. */
int sl_store_wrap_fault(struct sl_store *inner, struct sl_store **out) SL_MUST_CHECK;
int sl_store_wrap_delay(struct sl_store *inner, uint64_t delay_ns, uint64_t bytes_per_s,
			struct sl_store **out) SL_MUST_CHECK;

/* How an extent is written by the wrapper below. */
enum sl_store_codec {
	SL_STORE_CODEC_AUTO,  /* compressed, if a sample says that it becomes smaller */
	SL_STORE_CODEC_ALWAYS /* compressed, if it becomes smaller */
};

/* A wrapper, as above, that compresses what may be: codec_store.c. It starts up to four threads, each
 * with a buffer as large as the largest request that was compressed. */
int sl_store_wrap_codec(struct sl_store *inner, enum sl_store_codec mode,
			struct sl_store **out) SL_MUST_CHECK;

static inline void
sl_store_submit(struct sl_store *store, struct sl_io **ios, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ios[i]->store = store;
	store->ops->submit(store, ios, n);
}

/*
 * Spill: extents for anonymous data in unlinked files, striped over several directories
 * (extent by extent, round robin over the directories that still have room). An extent is
 * never split over files. Blocks are allocated when an extent is first handed out, in
 * steps of 64 MiB, so a full disk is met at allocation and not in the middle of a write.
 */
struct sl_spill;

struct sl_extent {
	struct sl_store *store; /* NULL: no extent */
	uint64_t offset;
	uint64_t bytes;
	uint64_t encoded_bytes; /* its user's: what the last write said; sl_spill_alloc(): 0 */
	uint64_t encoded_sum; /* the same */
};

/* dirs: separated by ':'. budget_bytes: over all directories, UINT64_MAX: no limit. A
 * directory on tmpfs is refused (-EINVAL, text says why) unless allow_memory. Opens
 * nothing until first use, but checks that each is a writable directory (-ENOENT,
 * -ENOTDIR as -EINVAL, -EACCES). */
int sl_spill_create(struct sl_engine *engine, const char *dirs, uint64_t budget_bytes,
		    int allow_memory, struct sl_spill **out) SL_MUST_CHECK;
/* Every extent has been put; NULL is fine. */
void sl_spill_destroy(struct sl_spill *spill);

/* Before the first extent: files are wrapped by sl_store_wrap_codec(). */
void sl_spill_compress(struct sl_spill *spill, enum sl_store_codec mode);

/* bytes: a multiple of SL_STORE_ALIGN. -ENOSPC: budget or disks full (text says which and
 * where). Blocks on fallocate(2); no I/O. put: does not block (holes are punched when an
 * extent's whole 64 MiB step is free, by the next alloc or at destroy). */
int sl_spill_alloc(struct sl_spill *spill, uint64_t bytes, struct sl_extent *out) SL_MUST_CHECK;
void sl_spill_put(struct sl_spill *spill, const struct sl_extent *extent);
uint64_t sl_spill_used_bytes(const struct sl_spill *spill);
/* -ENOSPC: more is used. */
int sl_spill_set_budget(struct sl_spill *spill, uint64_t budget_bytes) SL_MUST_CHECK;

#endif

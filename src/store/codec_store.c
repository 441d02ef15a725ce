/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that compresses (src/codec): fewer bytes are written and read. A write that says `encode` is
 * of a whole extent. Its encoded bytes go to the extent's beginning, and the request says how many
 * they are. Whoever reads that extent gives the number back: the store keeps nothing. What becomes no
 * smaller is written as it is, and requests of such data go straight to the wrapped store.
 *
 * What comes encoded is written so. It may be read so, too: then a checksum of the encoded bytes tells damage, and
 * nobody decodes here. Such requests are passed on to the wrapped store in pieces, as many as there are: it has the
 * queue that keeps the disk busy. A coder only computes checksums, before a piece is written or after it was read.
 *
 * Coders are threads that take a request, encode or decode in a buffer of their own, and wait for the
 * wrapped store. They, and their buffers, are the bound on such requests under way; more are queued. A
 * coder without memory for its buffer writes extents as they are, and fails reads (-ENOMEM).
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/lock.h"
#include "base/log.h"
#include "codec/codec.h"
#include "store/engine.h"
#include "store/io_queue.h"

/* A thread encodes 0.6 to 1 GB/s (docs/benchmarks.md), a disk writes 1 to 7. */
#define CODERS_MAX 4u

/* Of what comes encoded or stays so, unless it is in smaller ones. A checksum of one takes 2 ms, and the disk reads or
 * writes others meanwhile. The kernel cuts them smaller still. */
#define PIECE_BYTES ((size_t)8 << 20)

/* auto: a chunk is encoded if one block in 16 of it becomes smaller than 15/16. The sample costs a 32nd of
 * encoding all, of which the plan is half. What shrinks only elsewhere is written as it is. */
#define SAMPLE_ONE_IN 16u

struct codec_store;

struct coder {
	struct codec_store *store;
	struct sl_mutex lock;
	struct sl_cond over;
	int is_over; /* lock: the request of the wrapped store */
	void *buffer;
	size_t buffer_bytes;
	pthread_t thread;
};

struct codec_store {
	struct sl_store store; /* first */
	struct sl_store *inner;
	enum sl_store_codec mode; /* set once */
	unsigned n_coders;        /* that run; of wrap and close */
	struct coder coders[CODERS_MAX];

	struct sl_mutex lock;
	struct sl_cond work;      /* lock: queued, or stop */
	struct sl_io_queue queue; /* lock */
	int stop;                 /* lock */
};

/* ---- Coders ---- */

static void
inner_done(struct sl_io *io)
{
	struct coder *coder = io->arg;

	sl_mutex_lock(&coder->lock);
	coder->is_over = 1;
	sl_cond_signal(&coder->over);
	sl_mutex_unlock(&coder->lock);
}

/* Move bytes of buf as io would, and wait. Returns the result. */
static int
inner_run(struct coder *coder, const struct sl_io *io, void *buf, size_t bytes)
{
	struct sl_io inner = {.op = io->op,
			      .class = io->class,
			      .buf = buf,
			      .offset = io->offset,
			      .bytes = bytes,
			      .done = inner_done,
			      .arg = coder};
	struct sl_io *one = &inner;

	coder->is_over = 0; /* nobody else looks at it now */
	sl_store_submit(coder->store->inner, &one, 1);
	sl_mutex_lock(&coder->lock);
	while (!coder->is_over)
		sl_cond_wait(&coder->over, &coder->lock);
	sl_mutex_unlock(&coder->lock);
	return inner.result;
}

/* The coder's buffer has at least so many bytes. */
static int
buffer_grow(struct coder *coder, size_t bytes)
{
	void *buffer = NULL;

	if (bytes <= coder->buffer_bytes)
		return 0;
	bytes = (bytes + SL_STORE_ALIGN - 1) / SL_STORE_ALIGN * SL_STORE_ALIGN;
	if (sl_fault_point("codec.buffer") || posix_memalign(&buffer, SL_STORE_ALIGN, bytes))
		return sl_fail(-ENOMEM, "codec: no memory for a buffer of %zu bytes", bytes);
	free(coder->buffer);
	coder->buffer = buffer;
	coder->buffer_bytes = bytes;
	return 0;
}

/* auto: 1: the extent is worth encoding, by one block of each SAMPLE_ONE_IN. */
static int
sample_pays(const struct codec_store *cs, const struct sl_io *io)
{
	size_t step = (size_t)SAMPLE_ONE_IN * SL_CODEC_BLOCK_BYTES, looked = 0, encoded = 0;

	if (cs->mode == SL_STORE_CODEC_ALWAYS)
		return 1;
	for (size_t at = 0; at + SL_CODEC_BLOCK_BYTES <= io->bytes; at += step) {
		looked += SL_CODEC_BLOCK_BYTES;
		encoded += sl_codec_block_bytes((const char *)io->buf + at);
	}
	return 16 * encoded < 15 * looked;
}

/* n bytes become whole pages. */
static size_t
extent_pad(void *buffer, size_t n)
{
	size_t pages = (n + SL_STORE_ALIGN - 1) / SL_STORE_ALIGN * SL_STORE_ALIGN;

	memset((char *)buffer + n, 0, pages - n);
	return pages;
}

/* The encoded bytes in the coder's buffer, in whole pages; 0: they are not worth it. */
static size_t
extent_encode(struct coder *coder, const struct sl_io *io)
{
	size_t room = io->bytes - SL_STORE_ALIGN; /* a page less at least, or it is not worth it */
	size_t n;

	if (io->bytes % SL_CODEC_BLOCK_BYTES || io->bytes <= SL_STORE_ALIGN ||
	    io->bytes > SL_CODEC_BYTES_MAX || !sample_pays(coder->store, io))
		return 0;
	if (buffer_grow(coder, io->bytes) ||
	    sl_codec_encode(io->buf, io->bytes, SL_CODEC_CHECK, coder->buffer, room, &n))
		return 0;
	return extent_pad(coder->buffer, n);
}

static void
extent_write(struct coder *coder, struct sl_io *io)
{
	size_t bytes = extent_encode(coder, io);
	void *buf = bytes ? coder->buffer : io->buf;

	io->encoded_bytes = bytes;
	if (io->stays_encoded)
		io->encoded_sum = sl_codec_checksum(buf, bytes, 0);
	io->result = inner_run(coder, io, buf, bytes ? bytes : io->bytes);
}

/* What an extent had is no encoded data. -EIO: a request has room for a code alone. */
static int
extent_damaged(const struct codec_store *cs, const struct sl_io *io, const char *how)
{
	sl_log(SL_ERROR, "store", "%s: extent at %llu: %s", cs->store.name,
	       (unsigned long long)io->offset, how);
	return -EIO;
}

static void
extent_read(struct coder *coder, struct sl_io *io)
{
	size_t bytes = io->encoded_bytes;
	int rc = buffer_grow(coder, bytes);

	if (!rc)
		rc = inner_run(coder, io, coder->buffer, bytes);
	if (!rc && sl_codec_decode(coder->buffer, bytes, SL_CODEC_CHECK, io->buf, io->bytes))
		rc = extent_damaged(coder->store, io, sluice_last_error());
	io->is_encoded = 0;
	io->result = rc;
}

/* ---- What is encoded and stays so ---- */

static void
coders_queue(struct codec_store *cs, struct sl_io *io)
{
	sl_mutex_lock(&cs->lock);
	sl_io_queue_push(&cs->queue, io);
	sl_cond_signal(&cs->work);
	sl_mutex_unlock(&cs->lock);
}

/* An encoded request, in several of the wrapped store's. */
struct in_pieces {
	struct codec_store *store;
	struct sl_io *io;
	uint64_t sum;  /* of store->lock: of what was read */
	unsigned left; /* likewise */
	int result;    /* likewise */
	struct sl_io piece[];
};

/* One of them is over; sum: its checksum if it was read. */
static void
piece_over(struct in_pieces *in, int result, uint64_t sum)
{
	struct codec_store *cs = in->store;
	struct sl_io *io = in->io;
	int is_last;

	sl_mutex_lock(&cs->lock);
	if (result)
		in->result = result;
	in->sum += sum;
	is_last = !--in->left;
	sl_mutex_unlock(&cs->lock);
	if (!is_last)
		return;
	io->result = in->result;
	if (io->op == SL_IO_READ && !io->result) {
		io->is_encoded = 1;
		if (in->sum != io->encoded_sum)
			io->result = extent_damaged(
				cs, io, "the checksum of the encoded bytes does not match");
	}
	free(in);
	io->done(io);
}

/* On a thread of the wrapped store. */
static void
piece_done(struct sl_io *piece)
{
	struct in_pieces *in = piece->arg;

	if (piece->op == SL_IO_WRITE || piece->result) {
		piece_over(in, piece->result, 0);
		return;
	}
	piece->has_arrived = 1;
	coders_queue(in->store, piece);
}

static void
piece_arrived(const struct sl_io *piece)
{
	struct in_pieces *in = piece->arg;

	piece_over(in, 0,
		   sl_codec_checksum(piece->buf, piece->bytes,
				     piece->offset - in->io->offset));
}

/* The wrapped store has one piece while a checksum of another is computed. */
static void
pieces_begin(struct codec_store *cs, struct sl_io *io)
{
	size_t each = io->op == SL_IO_WRITE && io->pieces ? io->piece_bytes : PIECE_BYTES;
	size_t bytes = io->encoded_bytes, n = (bytes + each - 1) / each;
	struct in_pieces *in = NULL;
	uint64_t sum = 0;

	io->past_end = 0;
	if (!sl_fault_point("codec.pieces"))
		in = sl_calloc(1, sizeof(*in) + n * sizeof(in->piece[0]));
	if (!in) {
		io->result = sl_fail(-ENOMEM, "codec: no memory for %zu requests", n);
		io->done(io);
		return;
	}
	*in = (struct in_pieces){.store = cs, .io = io, .left = (unsigned)n};
	for (size_t i = 0; i < n; i++) { /* with the last one in is gone */
		size_t at = i * each, size = bytes - at < each ? bytes - at : each;
		struct sl_io *piece = &in->piece[i];
		void *buf = (char *)io->buf + at;

		if (io->op == SL_IO_WRITE) {
			if (io->pieces)
				buf = io->pieces[i];
			size = extent_pad(buf, size);
			sum += sl_codec_checksum(buf, size, at);
		}
		if (io->op == SL_IO_WRITE && i + 1 == n) {
			io->encoded_sum = sum;
			io->encoded_bytes = at + size; /* whole pages */
		}
		*piece = (struct sl_io){.op = io->op,
					.class = io->class,
					.buf = buf,
					.offset = io->offset + at,
					.bytes = size,
					.done = piece_done,
					.arg = in};
		sl_store_submit(cs->inner, &piece, 1);
	}
}

/* ---- Their threads ---- */

static void
coder_run(struct coder *coder, struct sl_io *io)
{
	struct codec_store *cs = coder->store;

	if (io->has_arrived) {
		piece_arrived(io);
		return;
	}
	if (io->op == SL_IO_WRITE && io->is_encoded) {
		pieces_begin(cs, io);
		return;
	}
	io->past_end = 0;
	if (io->op == SL_IO_WRITE)
		extent_write(coder, io);
	else
		extent_read(coder, io);
	io->done(io);
}

static void *
coder_main(void *arg)
{
	struct coder *coder = arg;
	struct codec_store *cs = coder->store;

	sl_mutex_lock(&cs->lock);
	for (;;) {
		struct sl_io *io = sl_io_queue_pop(&cs->queue, 1);

		if (!io) {
			if (cs->stop)
				break;
			sl_cond_wait(&cs->work, &cs->lock);
			continue;
		}
		sl_mutex_unlock(&cs->lock);
		coder_run(coder, io);
		sl_mutex_lock(&cs->lock);
	}
	sl_mutex_unlock(&cs->lock);
	return NULL;
}

/* ---- The store ---- */

static void
codec_submit(struct sl_store *store, struct sl_io **ios, size_t n)
{
	struct codec_store *cs = (struct codec_store *)store;

	for (size_t i = 0; i < n; i++) {
		struct sl_io *io = ios[i];

		io->has_arrived = 0;
		if (io->op == SL_IO_WRITE ? !io->encode && !io->is_encoded
					  : !io->encoded_bytes) {
			io->encoded_bytes = 0;
			sl_store_submit(cs->inner, &io, 1);
		} else if (io->op == SL_IO_READ && io->stays_encoded) {
			pieces_begin(cs, io);
		} else {
			coders_queue(cs, io);
		}
	}
}

/* Never of encoded extents: it is for 4 KiB faults, and a chunk of an encoded extent comes whole. */
static int
codec_read_now(struct sl_store *store, void *buf, uint64_t offset, size_t bytes, int *past_end)
{
	struct codec_store *cs = (struct codec_store *)store;

	return cs->inner->ops->read_now(cs->inner, buf, offset, bytes, past_end);
}

static int
codec_write_now(struct sl_store *store, const void *buf, uint64_t offset, size_t bytes)
{
	struct codec_store *cs = (struct codec_store *)store;

	return cs->inner->ops->write_now(cs->inner, buf, offset, bytes);
}

static int
codec_sync(struct sl_store *store)
{
	struct codec_store *cs = (struct codec_store *)store;

	return cs->inner->ops->sync(cs->inner);
}

static int
codec_extend(struct sl_store *store, uint64_t bytes)
{
	struct codec_store *cs = (struct codec_store *)store;
	int rc = cs->inner->ops->extend(cs->inner, bytes);

	if (!rc)
		__atomic_store_n(&store->size_bytes,
				 __atomic_load_n(&cs->inner->size_bytes, __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
	return rc;
}

static void
codec_trim(struct sl_store *store, uint64_t offset, uint64_t bytes)
{
	struct codec_store *cs = (struct codec_store *)store;

	cs->inner->ops->trim(cs->inner, offset, bytes);
}

static void
codec_close(struct sl_store *store)
{
	struct codec_store *cs = (struct codec_store *)store;

	sl_mutex_lock(&cs->lock);
	cs->stop = 1;
	sl_cond_broadcast(&cs->work);
	sl_mutex_unlock(&cs->lock);
	for (unsigned i = 0; i < cs->n_coders; i++) {
		struct coder *coder = &cs->coders[i];

		pthread_join(coder->thread, NULL);
		free(coder->buffer);
		sl_cond_fini(&coder->over);
		sl_mutex_fini(&coder->lock);
	}
	sl_cond_fini(&cs->work);
	sl_mutex_fini(&cs->lock);
	cs->inner->ops->close(cs->inner);
	free(cs);
}

static const struct sl_store_ops codec_store_ops = {
	.submit = codec_submit,
	.read_now = codec_read_now,
	.write_now = codec_write_now,
	.sync = codec_sync,
	.extend = codec_extend,
	.trim = codec_trim,
	.close = codec_close,
};

struct sl_store *
sl_store_codec_inner(const struct sl_store *store)
{
	return store->ops == &codec_store_ops ? ((const struct codec_store *)store)->inner
					      : NULL;
}

int
sl_store_wrap_codec(struct sl_store *inner, enum sl_store_codec mode, struct sl_store **out)
{
	struct codec_store *cs = sl_calloc(1, sizeof(*cs));
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned n = cpus > 0 && cpus < (long)CODERS_MAX ? (unsigned)cpus : CODERS_MAX;
	int rc = 0;

	if (!cs) {
		rc = sl_fail(-ENOMEM, "open: %s: out of memory", inner->name);
		inner->ops->close(inner);
		return rc;
	}
	cs->store = *inner;
	cs->store.ops = &codec_store_ops;
	cs->inner = inner;
	cs->mode = mode;
	sl_mutex_init(&cs->lock, SL_RANK_STORE);
	sl_cond_init(&cs->work);
	while (!rc && cs->n_coders < n) {
		struct coder *coder = &cs->coders[cs->n_coders];

		coder->store = cs;
		sl_mutex_init(&coder->lock, SL_RANK_STORE);
		sl_cond_init(&coder->over);
		rc = sl_store_thread_start(&coder->thread, "sluice-codec", coder_main, coder);
		if (rc) {
			sl_cond_fini(&coder->over);
			sl_mutex_fini(&coder->lock);
		} else {
			cs->n_coders++;
		}
	}
	if (rc) {
		codec_close(&cs->store);
		return rc;
	}
	*out = &cs->store;
	return 0;
}

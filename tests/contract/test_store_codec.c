/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store that compresses extents: what was written comes back, by many requests at once; what does
 * not shrink or may not be compressed is written as it is; failures and damage are errors of their
 * request alone.
 */
#include <unistd.h>

#include "base/fault_point.h"
#include "codec/codec.h"
#include "store_suite.h"

#define EXTENT    (256u << 10)
#define N_EXTENTS 32u

/* Halves with few exponents: they shrink by a third. */
static void
weights_fill(void *buf, size_t bytes, uint64_t seed)
{
	uint16_t *to = buf;

	pattern_fill(buf, bytes, seed);
	for (size_t i = 0; i < bytes / 2; i++)
		to[i] = (uint16_t)((to[i] & 0x80ff) | (0x3c00 + ((to[i] & 0x300) >> 1)));
}

static struct sl_store *
codec_open(const struct config *c, char *path, size_t path_bytes, enum sl_store_codec mode)
{
	struct sl_store *store;

	path_make(path, path_bytes, c, "codec");
	unlink(path);
	store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	CHECK(!sl_store_wrap_codec(store, mode, &store));
	return store;
}

/* One request of an extent, to its end. encoded: what the last write said; after a write what it says. */
static int
extent_run(struct sl_store *store, enum sl_io_op op, void *buf, uint64_t offset,
	   size_t bytes, size_t *encoded)
{
	struct request r;
	int rc;

	request_set(&r, NULL, op, SL_IO_DEMAND, buf, offset, bytes);
	r.io.encode = 1;
	r.io.encoded_bytes = *encoded;
	rc = request_run(store, &r);
	*encoded = r.io.encoded_bytes;
	return rc;
}

static void
extents_come_back_whatever_they_are(const struct config *c)
{
	char *data = buffer_new(EXTENT), *in = buffer_new(EXTENT), path[512];
	struct sl_store *store = codec_open(c, path, sizeof(path), SL_STORE_CODEC_ALWAYS);
	size_t encoded = 0;

	weights_fill(data, EXTENT, 1);
	CHECK(!extent_run(store, SL_IO_WRITE, data, 8192, EXTENT, &encoded));
	CHECK(encoded > 0 && encoded % SL_STORE_ALIGN == 0 && encoded < EXTENT / 4 * 3);
	CHECK(plain_file_length(path) == 8192 + encoded); /* the rest was not written */
	CHECK(!extent_run(store, SL_IO_READ, in, 8192, EXTENT, &encoded));
	CHECK(!memcmp(in, data, EXTENT));
	/* Overwritten by what does not shrink, then by what may not be compressed. */
	pattern_fill(data, EXTENT, 2);
	CHECK(!extent_run(store, SL_IO_WRITE, data, 8192, EXTENT, &encoded));
	CHECK(encoded == 0);
	memset(in, 0, EXTENT);
	CHECK(!extent_run(store, SL_IO_READ, in, 8192, EXTENT, &encoded));
	CHECK(!memcmp(in, data, EXTENT));
	memset(data, 0, EXTENT);
	CHECK(!io_run(store, SL_IO_WRITE, data, 8192, EXTENT, NULL));
	memset(in, 1, EXTENT);
	CHECK(!io_run(store, SL_IO_READ, in, 8192, EXTENT, NULL));
	CHECK(!memcmp(in, data, EXTENT));
	/* Zeros are a page; an extent of a page is not worth it. */
	CHECK(!extent_run(store, SL_IO_WRITE, data, 0, EXTENT, &encoded));
	CHECK(encoded == SL_STORE_ALIGN);
	CHECK(!extent_run(store, SL_IO_READ, in, 0, EXTENT, &encoded));
	CHECK(!memcmp(in, data, EXTENT));
	CHECK(!extent_run(store, SL_IO_WRITE, data, 0, 4096, &encoded));
	CHECK(encoded == 0);
	CHECK(!store->ops->sync(store));
	store->ops->close(store);
	unlink(path);
	free(data);
	free(in);
}

/* What was encoded before is written as it is, in whole pages; of pieces as well. */
static void
encoded_bytes_are_taken(const struct config *c)
{
	void *pieces[EXTENT / 16384 + 1];
	char *data = buffer_new(EXTENT), *in = buffer_new(EXTENT), path[512];
	struct sl_store *store = codec_open(c, path, sizeof(path), SL_STORE_CODEC_AUTO);
	char *coded = buffer_new(2 * EXTENT);
	struct request r, as_is;
	struct sl_io *io = &r.io;
	size_t n, encoded;

	weights_fill(data, EXTENT, 3);
	memset(coded, 0x55, 2 * EXTENT);
	CHECK(!sl_codec_encode(data, EXTENT, SL_CODEC_CHECK, coded, 2 * EXTENT, &n));
	request_set(&r, NULL, SL_IO_WRITE, SL_IO_DEMAND, coded, 4096, EXTENT);
	io->is_encoded = 1;
	io->encoded_bytes = n;
	CHECK(!request_run(store, &r));
	encoded = io->encoded_bytes;
	CHECK(encoded >= n && encoded - n < SL_STORE_ALIGN && encoded % SL_STORE_ALIGN == 0);
	CHECK(plain_file_length(path) == 4096 + encoded);
	CHECK(!extent_run(store, SL_IO_READ, in, 4096, EXTENT, &encoded));
	CHECK(!memcmp(in, data, EXTENT));
	for (size_t at = 0; at < n; at += 16384)
		pieces[at / 16384] = coded + at;
	request_set(&r, NULL, SL_IO_WRITE, SL_IO_DEMAND, NULL, 0, EXTENT);
	io->is_encoded = 1;
	io->encoded_bytes = n;
	io->pieces = pieces;
	io->piece_bytes = 16384;
	CHECK(!request_run(store, &r));
	encoded = io->encoded_bytes;
	CHECK(encoded >= n && encoded - n < SL_STORE_ALIGN);
	memset(in, 0, EXTENT);
	CHECK(!extent_run(store, SL_IO_READ, in, 0, EXTENT, &encoded));
	CHECK(!memcmp(in, data, EXTENT));
	/* The checksum of pieces is that of the whole. */
	request_set(&as_is, NULL, SL_IO_READ, SL_IO_DEMAND, in, 0, EXTENT);
	as_is.io.stays_encoded = 1;
	as_is.io.encoded_bytes = encoded;
	as_is.io.encoded_sum = io->encoded_sum;
	CHECK(!request_run(store, &as_is) && as_is.io.is_encoded && as_is.io.bytes == EXTENT);
	CHECK(!memcmp(in, coded, n));
	store->ops->close(store);
	unlink(path);
	free(coded);
	free(data);
	free(in);
}

/* Read as they are in the file, whoever encoded them; but never what a checksum refuses. */
static void
encoded_bytes_are_given(const struct config *c)
{
	char *data = buffer_new(EXTENT), *in = buffer_new(EXTENT), path[512];
	char *page = buffer_new(4096), *raw = buffer_new(EXTENT);
	struct sl_store *store = codec_open(c, path, sizeof(path), SL_STORE_CODEC_ALWAYS);
	struct request written, r;

	weights_fill(data, EXTENT, 4);
	request_set(&written, NULL, SL_IO_WRITE, SL_IO_DEMAND, data, 8192, EXTENT);
	written.io.encode = written.io.stays_encoded = 1;
	CHECK(!request_run(store, &written));
	CHECK(written.io.encoded_bytes > 8192 && written.io.encoded_bytes < EXTENT);
	for (int damaged = 0; damaged < 3; damaged++) {
		uint64_t at = 8192 + (damaged == 2 ? written.io.encoded_bytes - 4096 : 0);

		plain_file_read(path, page, 4096, at);
		page[40] ^= damaged ? 1 : 0;
		CHECK(!store->ops->write_now(store, page, at, 4096));
		memset(in, 0x55, EXTENT);
		request_set(&r, NULL, SL_IO_READ, SL_IO_DEMAND, in, 8192, EXTENT);
		r.io.stays_encoded = 1;
		r.io.encoded_bytes = written.io.encoded_bytes;
		r.io.encoded_sum = written.io.encoded_sum;
		CHECK(request_run(store, &r) == (damaged ? -EIO : 0));
		page[40] ^= damaged ? 1 : 0;
		CHECK(!store->ops->write_now(store, page, at, 4096));
		if (damaged)
			continue;
		CHECK(r.io.is_encoded && in[written.io.encoded_bytes] == 0x55);
		CHECK(!sl_codec_decode(in, written.io.encoded_bytes, SL_CODEC_CHECK, raw,
				       EXTENT));
		CHECK(!memcmp(raw, data, EXTENT));
	}
	/* What is as it is in the file comes so. */
	CHECK(!io_run(store, SL_IO_WRITE, data, 8192, EXTENT, NULL));
	request_set(&r, NULL, SL_IO_READ, SL_IO_DEMAND, in, 8192, EXTENT);
	r.io.stays_encoded = 1;
	CHECK(!request_run(store, &r) && !r.io.is_encoded && !memcmp(in, data, EXTENT));
	store->ops->close(store);
	unlink(path);
	free(raw);
	free(page);
	free(data);
	free(in);
}

static void
many_requests_at_once_have_their_own_buffers(const struct config *c)
{
	char *data = buffer_new(N_EXTENTS * EXTENT), *in = buffer_new(N_EXTENTS * EXTENT);
	struct request r[N_EXTENTS];
	struct sl_io *ios[N_EXTENTS];
	size_t encoded[N_EXTENTS];
	struct sl_store *store;
	char path[512];
	sem_t over;

	store = codec_open(c, path, sizeof(path), SL_STORE_CODEC_ALWAYS);
	sem_init(&over, 0, 0);
	for (int round = 0; round < 3; round++) {
		for (unsigned op = 0; op < 2; op++) {
			for (unsigned i = 0; i < N_EXTENTS; i++) {
				size_t at = (size_t)i * EXTENT;
				/* Some are shorter, and some do not shrink. */
				size_t bytes = EXTENT - (i % 5) * 4096;

				if (op == 0 && i % 3)
					weights_fill(data + at, bytes, i + (uint64_t)round);
				else if (op == 0)
					pattern_fill(data + at, bytes, i + (uint64_t)round);
				request_set(&r[i], &over, op ? SL_IO_READ : SL_IO_WRITE,
					    (enum sl_io_class)(i % SL_IO_CLASS_COUNT),
					    (op ? in : data) + at, at, bytes);
				r[i].io.encode = 1;
				r[i].io.encoded_bytes = op ? encoded[i] : 0;
				ios[i] = &r[i].io;
			}
			sl_store_submit(store, ios, N_EXTENTS);
			for (unsigned i = 0; i < N_EXTENTS; i++)
				sem_take(&over);
			for (unsigned i = 0; i < N_EXTENTS; i++) {
				CHECK(!r[i].io.result);
				encoded[i] = r[i].io.encoded_bytes;
				CHECK((encoded[i] != 0) == (i % 3 != 0));
			}
		}
		for (unsigned i = 0; i < N_EXTENTS; i++)
			CHECK(!memcmp(in + (size_t)i * EXTENT, data + (size_t)i * EXTENT,
				      EXTENT - (i % 5) * 4096));
	}
	sem_destroy(&over);
	store->ops->close(store);
	unlink(path);
	free(data);
	free(in);
}

static void
auto_looks_at_a_sample_first(const struct config *c)
{
	char *data = buffer_new(EXTENT), path[512];
	struct sl_store *store = codec_open(c, path, sizeof(path), SL_STORE_CODEC_AUTO);
	size_t encoded = 0;

	weights_fill(data, EXTENT, 1);
	CHECK(!extent_run(store, SL_IO_WRITE, data, 0, EXTENT, &encoded));
	CHECK(encoded > 0);
	/* Random but for blocks that the sample does not see. */
	pattern_fill(data, EXTENT, 2);
	memset(data + 4096, 0, 15 * 4096);
	CHECK(!extent_run(store, SL_IO_WRITE, data, 0, EXTENT, &encoded));
	CHECK(encoded == 0);
	store->ops->close(store);
	store = codec_open(c, path, sizeof(path), SL_STORE_CODEC_ALWAYS);
	CHECK(!extent_run(store, SL_IO_WRITE, data, 0, EXTENT, &encoded));
	CHECK(encoded > 0);
	store->ops->close(store);
	unlink(path);
	free(data);
}

static void
damage_is_an_error_of_its_extent_alone(const struct config *c)
{
	char *data = buffer_new(EXTENT), *in = buffer_new(EXTENT), path[512];
	struct sl_store *store = codec_open(c, path, sizeof(path), SL_STORE_CODEC_ALWAYS);
	size_t one = 0, two = 0;
	char *page = buffer_new(4096);

	weights_fill(data, EXTENT, 1);
	CHECK(!extent_run(store, SL_IO_WRITE, data, 0, EXTENT, &one));
	CHECK(!extent_run(store, SL_IO_WRITE, data, EXTENT, EXTENT, &two));
	for (uint64_t at = 0; at < one; at += one - 8192 ? one - 8192 : 1) {
		plain_file_read(path, page, 4096, at);
		page[100] ^= 4;
		CHECK(!store->ops->write_now(store, page, at, 4096));
		CHECK(extent_run(store, SL_IO_READ, in, 0, EXTENT, &one) == -EIO);
		CHECK(!extent_run(store, SL_IO_READ, in, EXTENT, EXTENT, &two));
		CHECK(!memcmp(in, data, EXTENT));
		page[100] ^= 4;
		CHECK(!store->ops->write_now(store, page, at, 4096));
		CHECK(!extent_run(store, SL_IO_READ, in, 0, EXTENT, &one));
	}
	store->ops->close(store);
	unlink(path);
	free(page);
	free(data);
	free(in);
}

static void
failures_of_the_wrapped_store_and_of_memory_are_passed_on(const struct config *c)
{
	char *data = buffer_new(EXTENT), *in = buffer_new(EXTENT), path[512];
	size_t encoded = 0;
	struct sl_store *store;

	path_make(path, sizeof(path), c, "codec");
	CHECK(!sl_store_open(c->engine, path,
			     SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE, &store));
	CHECK(!sl_store_wrap_fault(store, &store));
	CHECK(!sl_store_wrap_codec(store, SL_STORE_CODEC_ALWAYS, &store));
	weights_fill(data, EXTENT, 1);
	/* No memory: as it is. */
	CHECK(!sl_fault_point_set("codec.buffer:1"));
	CHECK(!extent_run(store, SL_IO_WRITE, data, 0, EXTENT, &encoded));
	CHECK(encoded == 0);
	CHECK(!sl_fault_point_set("store.write:1:ENOSPC,store.read:1:EIO"));
	CHECK(extent_run(store, SL_IO_WRITE, data, 0, EXTENT, &encoded) == -ENOSPC);
	CHECK(!extent_run(store, SL_IO_WRITE, data, 0, EXTENT, &encoded));
	CHECK(encoded > 0);
	CHECK(extent_run(store, SL_IO_READ, in, 0, EXTENT, &encoded) == -EIO);
	CHECK(!extent_run(store, SL_IO_READ, in, 0, EXTENT, &encoded));
	CHECK(!memcmp(in, data, EXTENT));
	store->ops->close(store);
	/* A new wrapper without memory cannot read what another has written. */
	CHECK(!sl_fault_point_set(NULL));
	CHECK(!sl_store_open(c->engine, path, SL_STORE_READ, &store));
	CHECK(!sl_store_wrap_codec(store, SL_STORE_CODEC_ALWAYS, &store));
	CHECK(!sl_fault_point_set("codec.buffer:1+"));
	CHECK(extent_run(store, SL_IO_READ, in, 0, EXTENT, &encoded) == -ENOMEM);
	CHECK(!sl_fault_point_set(NULL));
	CHECK(!extent_run(store, SL_IO_READ, in, 0, EXTENT, &encoded));
	store->ops->close(store);
	/* Half-built wrappers close what they wrap. */
	for (unsigned n = 0; n < 3; n++) {
		static const char *const specs[] = {"mem.alloc:1", "thread.create:1:EAGAIN",
						    "thread.create:2:EAGAIN"};
		int rc;

		CHECK(!sl_store_open(c->engine, path, SL_STORE_READ, &store));
		CHECK(!sl_fault_point_set(specs[n]));
		rc = sl_store_wrap_codec(store, SL_STORE_CODEC_ALWAYS, &store);
		if (n == 2 && !sl_fault_point_fired()) { /* one CPU has one thread */
			CHECK(!rc);
			store->ops->close(store);
		} else {
			CHECK(rc == (n ? -EAGAIN : -ENOMEM));
		}
		CHECK(!sl_fault_point_set(NULL));
	}
	unlink(path);
	free(data);
	free(in);
}

/* A store that keeps its requests until they are ended. */
enum { HELD_MAX = 32 };

struct held_store {
	struct sl_store store; /* first */
	pthread_mutex_t lock;
	struct sl_io *io[HELD_MAX];
	unsigned n;
};

static void
held_submit(struct sl_store *store, struct sl_io **ios, size_t n)
{
	struct held_store *held = (struct held_store *)store;

	pthread_mutex_lock(&held->lock);
	for (size_t i = 0; i < n; i++) {
		CHECK(held->n < HELD_MAX);
		held->io[held->n++] = ios[i];
	}
	pthread_mutex_unlock(&held->lock);
}

static void
held_close(struct sl_store *store)
{
	(void)store;
}

/* Until it has n; then they end so. */
static void
held_end(struct held_store *held, unsigned n, int first)
{
	for (;;) {
		unsigned has;

		pthread_mutex_lock(&held->lock);
		has = held->n;
		pthread_mutex_unlock(&held->lock);
		if (has == n)
			break;
		CHECK(has < n);
		usleep(1000);
	}
	held->n = 0;
	for (unsigned i = 0; i < n; i++) {
		held->io[i]->result = i ? 0 : first;
		held->io[i]->done(held->io[i]);
	}
}

/* More than there are coders: the disk has a deep queue. */
static void
what_stays_encoded_is_passed_on_at_once(const struct config *c)
{
	static const struct sl_store_ops ops = {.submit = held_submit, .close = held_close};
	struct held_store held = {.store = {.ops = &ops, .name = "held"},
				  .lock = PTHREAD_MUTEX_INITIALIZER};
	char *page = buffer_new(4096), *coded = buffer_new(3 * 4096);
	void *pieces[] = {coded, coded + 4096, coded + 8192};
	struct request r[16];
	struct sl_store *store;
	sem_t over;

	(void)c;
	CHECK(!sem_init(&over, 0, 0));
	CHECK(!sl_store_wrap_codec(&held.store, SL_STORE_CODEC_AUTO, &store));
	memset(page, 1, 4096);
	memset(coded, 2, 3 * 4096);
	for (int write = 0; write < 2; write++) {
		for (unsigned i = 0; i < 16; i++) {
			struct sl_io *io = &r[i].io;

			request_set(&r[i], &over, write ? SL_IO_WRITE : SL_IO_READ,
				    SL_IO_DEMAND, page, i * 8192, 8192);
			io->is_encoded = write;
			io->stays_encoded = 1;
			io->encoded_bytes = 4096;
			io->encoded_sum = sl_codec_checksum(page, 4096, 0);
			sl_store_submit(store, &io, 1);
		}
		held_end(&held, 16, -EIO);
		for (unsigned i = 0; i < 16; i++)
			sem_take(&over);
		for (unsigned i = 0, failed = 0; i < 16; i++) {
			CHECK(r[i].calls == 1 && r[i].io.bytes == 8192);
			CHECK(!r[i].io.result || (r[i].io.result == -EIO && !failed));
			failed |= r[i].io.result != 0;
			CHECK(i < 15 || failed);
		}
	}
	/* One piece fails, and so does the request; so it does without memory. */
	for (int memory = 0; memory < 2; memory++) {
		struct sl_io *io = &r[0].io;

		request_set(&r[0], &over, SL_IO_WRITE, SL_IO_DEMAND, NULL, 0, 16384);
		io->is_encoded = 1;
		io->encoded_bytes = 2 * 4096 + 64;
		io->pieces = pieces;
		io->piece_bytes = 4096;
		CHECK(memory || !sl_fault_point_set("codec.pieces:1"));
		sl_store_submit(store, &io, 1);
		if (memory)
			held_end(&held, 3, -ENOSPC);
		sem_take(&over);
		CHECK(io->result == (memory ? -ENOSPC : -ENOMEM) && r[0].calls == 1);
		CHECK(!sl_fault_point_set(NULL));
	}
	store->ops->close(store);
	CHECK(!sem_destroy(&over));
	free(coded);
	free(page);
}

static const struct store_test tests[] = {
	TEST(extents_come_back_whatever_they_are, STORE_EVERYWHERE),
	TEST(many_requests_at_once_have_their_own_buffers, STORE_EVERYWHERE),
	TEST(encoded_bytes_are_taken, STORE_EVERYWHERE),
	TEST(encoded_bytes_are_given, STORE_EVERYWHERE),
	TEST(what_stays_encoded_is_passed_on_at_once, STORE_ENGINE),
	TEST(auto_looks_at_a_sample_first, STORE_ENGINE),
	TEST(damage_is_an_error_of_its_extent_alone, STORE_ENGINE),
	TEST(failures_of_the_wrapped_store_and_of_memory_are_passed_on, STORE_ENGINE),
};

STORE_MAIN(tests)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes: written data are read back, tails are exact, ends are reported, and each answer of a
 * system call decides the rest of a request. See store_suite.h.
 */
#include "store_suite.h"

#include <unistd.h>

static void
what_is_written_is_read_back(const struct config *c)
{
	static const size_t sizes[] = {4096, 65536, 2u << 20, (3u << 20) + 4096};
	char path[512];
	struct sl_store *store;
	uint64_t offset = 0;

	path_make(path, sizeof(path), c, "round");
	store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	CHECK(store->size_bytes == 0);
	CHECK(!c->memory || !store->direct);
	CHECK(strstr(store->name, "round"));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char *out = buffer_new(sizes[i]), *in = buffer_new(sizes[i]);
		int past_end;

		pattern_fill(out, sizes[i], i);
		CHECK(io_run(store, SL_IO_WRITE, out, offset, sizes[i], &past_end) == 0);
		CHECK(past_end == 0);
		CHECK(io_run(store, SL_IO_READ, in, offset, sizes[i], &past_end) == 0);
		CHECK(past_end == 0 && !memcmp(in, out, sizes[i]));
		memset(in, 0, sizes[i]);
		errno = 4242;
		past_end = 9;
		CHECK(!store->ops->read_now(store, in, offset, sizes[i], &past_end));
		CHECK(errno == 4242 && past_end == 0 && !memcmp(in, out, sizes[i]));

		pattern_fill(out, sizes[i], i + 100);
		CHECK(!store->ops->write_now(store, out, offset, sizes[i]));
		CHECK(io_run(store, SL_IO_READ, in, offset, sizes[i], NULL) == 0);
		CHECK(!memcmp(in, out, sizes[i]));
		plain_file_read(path, in, sizes[i], offset);
		CHECK(!memcmp(in, out, sizes[i]));
		offset += sizes[i];
		free(out);
		free(in);
	}
	CHECK(!store->ops->sync(store));
	CHECK(plain_file_length(path) == offset);
	store->ops->close(store);
	unlink(path);
}

static void
a_tail_is_written_exactly_and_nothing_behind_it(const struct config *c)
{
	const size_t file_bytes = 40000, bytes = 2 * 4096 + 777;
	unsigned char *old = buffer_new(file_bytes), *now = buffer_new(file_bytes + 8192);
	unsigned char *data = buffer_new(16384);
	char path[512];
	struct sl_store *store;

	path_make(path, sizeof(path), c, "tail");
	for (int blocking = 0; blocking < 2; blocking++) {
		pattern_fill(old, file_bytes, 1);
		plain_file_make(path, old, file_bytes);
		store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE);
		CHECK(store->size_bytes == file_bytes);
		memset(data, 0xd7, 16384);

		/* In the middle: the rest of the page keeps its bytes. */
		if (blocking)
			CHECK(!store->ops->write_now(store, data, 4096, bytes));
		else
			CHECK(!io_run(store, SL_IO_WRITE, data, 4096, bytes, NULL));
		CHECK(plain_file_length(path) == file_bytes);
		plain_file_read(path, now, file_bytes, 0);
		CHECK(!memcmp(now, old, 4096));
		CHECK(!memcmp(now + 4096, data, bytes));
		CHECK(!memcmp(now + 4096 + bytes, old + 4096 + bytes,
			      file_bytes - 4096 - bytes));

		/* At the end: the file grows to offset + bytes. */
		if (blocking)
			CHECK(!store->ops->write_now(store, data, 36864, 5000));
		else
			CHECK(!io_run(store, SL_IO_WRITE, data, 36864, 5000, NULL));
		CHECK(plain_file_length(path) == 36864 + 5000);
		plain_file_read(path, now, 5000, 36864);
		CHECK(!memcmp(now, data, 5000));

		/* Less than a page. */
		CHECK(!io_run(store, SL_IO_WRITE, data, 0, 1, NULL));
		plain_file_read(path, now, 4096, 0);
		CHECK(now[0] == 0xd7 && !memcmp(now + 1, old + 1, 4095));

		/* What went through the other descriptor is seen by a direct read. */
		CHECK(!io_run(store, SL_IO_READ, now, 36864, 5000, NULL));
		CHECK(!memcmp(now, data, 5000));
		store->ops->close(store);
	}
	unlink(path);
	free(old);
	free(now);
	free(data);
}

static void
a_read_of_the_tail_is_whole_and_one_past_it_says_so(const struct config *c)
{
	static const size_t lengths[] = {10000, 12288, 1, 4096 + 512};
	unsigned char *data = buffer_new(65536), *in = buffer_new(65536);
	char path[512];

	path_make(path, sizeof(path), c, "end");
	pattern_fill(data, 65536, 3);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t length = lengths[i];
		struct sl_store *store;
		int past_end;

		plain_file_make(path, data, length);
		store = store_open(c, path, SL_STORE_READ);
		CHECK(store->size_bytes == length);
		memset(in, 0, 65536);
		CHECK(!io_run(store, SL_IO_READ, in, 0, length, &past_end));
		CHECK(!past_end && !memcmp(in, data, length));
		CHECK(!store->ops->read_now(store, in, 0, length, &past_end));
		CHECK(!past_end && !memcmp(in, data, length));

		CHECK(io_run(store, SL_IO_READ, in, 0, length + 1, &past_end) == -EIO);
		CHECK(past_end == 1);
		CHECK(strstr(sluice_last_error(), "shrank") &&
		      strstr(sluice_last_error(), "end"));
		CHECK(io_run(store, SL_IO_READ, in, 0, 65536, &past_end) == -EIO && past_end);
		CHECK(io_run(store, SL_IO_READ, in, 1u << 20, 4096, &past_end) == -EIO);
		CHECK(past_end == 1);
		CHECK(store->ops->read_now(store, in, 0, 65536, &past_end) == -EIO);
		CHECK(past_end == 1 && strstr(sluice_last_error(), "shrank"));
		CHECK(store->ops->read_now(store, in, 1u << 20, 4096, NULL) == -EIO);
		store->ops->close(store);
	}
	unlink(path);
	free(data);
	free(in);
}

static void
a_file_that_shrinks_under_us_is_noticed(const struct config *c)
{
	unsigned char *data = buffer_new(32768);
	char path[512];
	struct sl_store *store;
	int past_end;

	path_make(path, sizeof(path), c, "shrink");
	plain_file_make(path, data, 32768);
	store = store_open(c, path, SL_STORE_READ);
	CHECK(!io_run(store, SL_IO_READ, data, 16384, 16384, &past_end) && !past_end);
	CHECK(!truncate(path, 20000));
	CHECK(io_run(store, SL_IO_READ, data, 16384, 16384, &past_end) == -EIO && past_end);
	CHECK(!io_run(store, SL_IO_READ, data, 16384, 3616, &past_end) && !past_end);
	store->ops->close(store);
	unlink(path);
	free(data);
}

static void
no_bytes_are_no_trouble(const struct config *c)
{
	char path[512];
	struct sl_store *store;
	void *buf = buffer_new(4096);

	path_make(path, sizeof(path), c, "nothing");
	store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	CHECK(!io_run(store, SL_IO_READ, buf, 0, 0, NULL));
	CHECK(!io_run(store, SL_IO_WRITE, buf, 1u << 20, 0, NULL));
	CHECK(plain_file_length(path) == 0);
	store->ops->close(store);
	unlink(path);
	free(buf);
}

static void
pieces_follow_the_answers_of_the_kernel(const struct config *c)
{
	struct sl_disk_file file = {.fd = 100, .direct_fd = 200, .direct_on = 1, .name = "-"};
	char *buf = buffer_new(32768);
	struct sl_progress p = {0};
	struct sl_piece piece;

	(void)c;
	/* A write: whole pages directly, the rest through the other descriptor. */
	sl_disk_file_piece(&file, SL_IO_WRITE, buf, 8192, 10000, &p, &piece);
	CHECK(piece.fd == 200 && piece.direct && piece.bytes == 8192 && piece.offset == 8192);
	CHECK(sl_disk_file_advance(&file, SL_IO_WRITE, &piece, 4096, 10000, &p) == 1);
	sl_disk_file_piece(&file, SL_IO_WRITE, buf, 8192, 10000, &p, &piece);
	CHECK(piece.fd == 200 && piece.bytes == 4096 && piece.offset == 12288);
	CHECK(sl_disk_file_advance(&file, SL_IO_WRITE, &piece, 512, 10000, &p) == 1);
	sl_disk_file_piece(&file, SL_IO_WRITE, buf, 8192, 10000, &p, &piece);
	CHECK(piece.fd == 100 && piece.bytes == 10000 - 4608 && piece.buf == buf + 4608);
	CHECK(sl_disk_file_advance(&file, SL_IO_WRITE, &piece, 10000 - 4608, 10000, &p) == 0);

	/* A read asks for whole pages and counts only what was wanted. */
	p = (struct sl_progress){0};
	sl_disk_file_piece(&file, SL_IO_READ, buf, 0, 5000, &p, &piece);
	CHECK(piece.direct && piece.bytes == 8192);
	CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, 8192, 5000, &p) == 0);
	CHECK(p.moved_bytes == 5000 && !p.past_end);
	p = (struct sl_progress){.moved_bytes = 904};
	sl_disk_file_piece(&file, SL_IO_READ, buf, 0, 5000, &p, &piece);
	CHECK(!piece.direct && piece.bytes == 4096);
	CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, 0, 5000, &p) == -EIO);
	CHECK(p.past_end == 1);

	/* Refusals are tried again, but not for ever, and progress starts the count
	 * anew. */
	static const int again[] = {-EINTR, -EAGAIN, -EBUSY};

	for (size_t i = 0; i < 3; i++) {
		p = (struct sl_progress){0};
		for (unsigned n = 0; n < SL_PIECE_RETRIES; n++)
			CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, again[i],
						   8192, &p) == 1);
		CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, again[i], 8192, &p) ==
		      -EIO);
		CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, 1, 8192, &p) == 1);
		CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, again[i], 8192, &p) ==
		      1);
	}
	p = (struct sl_progress){0};
	CHECK(sl_disk_file_advance(&file, SL_IO_WRITE, &piece, -ENOSPC, 8192, &p) == -ENOSPC);
	CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, -EIO, 8192, &p) == -EIO);
	CHECK(!p.past_end);

	/* EINVAL of a direct transfer turns direct I/O off; of a buffered one it is an
	 * error. */
	sl_disk_file_piece(&file, SL_IO_READ, buf, 0, 4096, &p, &piece);
	CHECK(piece.direct);
	CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, -EINVAL, 4096, &p) == 1);
	CHECK(!file.direct_on);
	sl_disk_file_piece(&file, SL_IO_READ, buf, 0, 4096, &p, &piece);
	CHECK(!piece.direct && piece.fd == 100 && piece.bytes == 4096);
	CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, -EINVAL, 4096, &p) == -EINVAL);
	free(buf);
}

static const struct store_test tests[] = {
	TEST(what_is_written_is_read_back, STORE_EVERYWHERE),
	TEST(a_tail_is_written_exactly_and_nothing_behind_it, STORE_EVERYWHERE),
	TEST(a_read_of_the_tail_is_whole_and_one_past_it_says_so, STORE_EVERYWHERE),
	TEST(a_file_that_shrinks_under_us_is_noticed, STORE_EVERYWHERE),
	TEST(no_bytes_are_no_trouble, STORE_EVERYWHERE),
	TEST(pieces_follow_the_answers_of_the_kernel, STORE_NO_ENGINE),
};

STORE_MAIN(tests)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wrappers, and engines that cannot be opened: failures at the nth call, delays as lower
 * bounds, wrappers by environment. See store_suite.h.
 */
#include "store_suite.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault_point.h"

static void
injected_failures_hit_the_nth_call_and_no_byte_moves(const struct config *c)
{
	unsigned char *data = buffer_new(4096), *in = buffer_new(4096);
	struct config faulty = *c;
	struct sl_store *store;
	char path[512];

	faulty.wrap = WRAP_FAULT;
	path_make(path, sizeof(path), c, "inject");
	memset(in, 0x11, 4096);
	plain_file_make(path, in, 4096);
	store = store_open(&faulty, path, SL_STORE_READ | SL_STORE_WRITE);
	CHECK(!sl_fault_point_set("store.read:2:ENXIO,store.write:1:ENOSPC,store.sync:1,"
				  "store.extend:1:ENOSPC"));
	CHECK(!io_run(store, SL_IO_READ, in, 0, 4096, NULL));
	CHECK(io_run(store, SL_IO_READ, in, 0, 4096, NULL) == -ENXIO);
	CHECK(strstr(sluice_last_error(), "inject") &&
	      strstr(sluice_last_error(), "ENXIO"));
	CHECK(!io_run(store, SL_IO_READ, in, 0, 4096, NULL));
	memset(data, 0x22, 4096);
	CHECK(io_run(store, SL_IO_WRITE, data, 0, 4096, NULL) == -ENOSPC);
	plain_file_read(path, in, 4096, 0);
	CHECK(in[0] == 0x11 && in[4095] == 0x11);
	CHECK(!io_run(store, SL_IO_WRITE, data, 0, 4096, NULL));
	CHECK(store->ops->sync(store) == -EIO);
	CHECK(!store->ops->sync(store));
	CHECK(store->ops->extend(store, 8192) == -ENOSPC && plain_file_length(path) == 4096);
	CHECK(!store->ops->extend(store, 8192) && store->size_bytes == 8192);
	CHECK(sl_fault_point_fired() == 4);

	CHECK(!sl_fault_point_set("store.read:1,store.write:1:EROFS"));
	CHECK(store->ops->read_now(store, in, 0, 4096, NULL) == -EIO);
	CHECK(!store->ops->read_now(store, in, 0, 4096, NULL));
	CHECK(store->ops->write_now(store, in, 0, 4096) == -EROFS);
	CHECK(!store->ops->write_now(store, in, 0, 4096));
	CHECK(!sl_fault_point_set(NULL));
	store->ops->close(store);

	/* Half-built wrappers and engines: the thread does not start, memory runs out. */
	for (unsigned n = 1; n <= 2; n++) {
		CHECK(!sl_store_open(c->engine, path, SL_STORE_READ, &store));
		CHECK(!sl_fault_point_set(n == 1 ? "mem.alloc:1" : "thread.create:1:EAGAIN"));
		CHECK(sl_store_wrap_fault(store, &store) == (n == 1 ? -ENOMEM : -EAGAIN));
		CHECK(!sl_fault_point_set(NULL));
		CHECK(!sl_store_open(c->engine, path, SL_STORE_READ, &store));
		CHECK(!sl_fault_point_set(n == 1 ? "mem.alloc:1" : "thread.create:1:EAGAIN"));
		CHECK(sl_store_wrap_delay(store, 0, 0, &store) ==
		      (n == 1 ? -ENOMEM : -EAGAIN));
		CHECK(!sl_fault_point_set(NULL));
	}
	for (unsigned n = 1; n < 100; n++) {
		struct sl_engine *engine = NULL;
		char spec[32];
		int rc;

		snprintf(spec, sizeof(spec), "*:%u", n);
		CHECK(!sl_fault_point_set(spec));
		rc = sl_engine_create(c->kind, 4, &engine);
		CHECK(!sl_fault_point_fired() == !rc);
		CHECK(!sl_fault_point_set(NULL));
		if (!rc) {
			CHECK(n > 2);
			sl_engine_destroy(engine);
			break;
		}
		CHECK(!engine);
	}
	unlink(path);
	free(data);
	free(in);
}

static void
delays_are_kept_as_lower_bounds(const struct config *c)
{
	const uint64_t delay_ns = 3000000, rate = 64u << 20;
	char *buf = buffer_new(1u << 20);
	struct request r[4];
	struct sl_io *ios[4];
	struct sl_store *store;
	uint64_t begin_ns;
	sem_t over;
	char path[512];

	path_make(path, sizeof(path), c, "slow");
	plain_file_make(path, buf, 1u << 20);
	CHECK(!sl_store_open(c->engine, path, SL_STORE_READ | SL_STORE_WRITE, &store));
	CHECK(!sl_store_wrap_delay(store, delay_ns, rate, &store));
	begin_ns = sl_now_ns();
	CHECK(!io_run(store, SL_IO_WRITE, buf, 0, 4096, NULL));
	CHECK(sl_now_ns() - begin_ns >= delay_ns);
	begin_ns = sl_now_ns();
	CHECK(!store->ops->write_now(store, buf, 0, 4096));
	CHECK(!store->ops->read_now(store, buf, 0, 4096, NULL));
	CHECK(sl_now_ns() - begin_ns >= 2 * delay_ns);

	/* Four reads of 256 KiB over 64 MiB/s, all at once: one after the other. */
	sem_init(&over, 0, 0);
	for (unsigned i = 0; i < 4; i++) {
		request_set(&r[i], &over, SL_IO_READ, SL_IO_DEMAND, buf + (i << 18),
			    (uint64_t)i << 18, 1u << 18);
		ios[i] = &r[i].io;
	}
	begin_ns = sl_now_ns();
	sl_store_submit(store, ios, 4);
	for (unsigned i = 0; i < 4; i++)
		sem_take(&over);
	CHECK(sl_now_ns() - begin_ns >= (1ull << 20) * 1000000000u / rate);
	sem_destroy(&over);
	store->ops->close(store);
	unlink(path);
	free(buf);
}

static void
the_environment_can_ask_for_wrappers(const struct config *c)
{
	struct sl_store *store;
	char *buf = buffer_new(4096);
	uint64_t begin_ns;
	char path[512];

	path_make(path, sizeof(path), c, "environment");
	plain_file_make(path, buf, 4096);
	setenv("SLUICE_FAULT", "", 1);
	setenv("SLUICE_STORE_DELAY", "2000000:1G", 1);
	CHECK(!sl_store_open(c->engine, path, SL_STORE_READ, &store));
	begin_ns = sl_now_ns();
	CHECK(!io_run(store, SL_IO_READ, buf, 0, 4096, NULL));
	CHECK(sl_now_ns() - begin_ns >= 2000000);
	CHECK(!sl_fault_point_set("store.read:1"));
	CHECK(io_run(store, SL_IO_READ, buf, 0, 4096, NULL) == -EIO);
	store->ops->close(store);
	CHECK(!sl_store_open_temporary(c->engine, c->dir, &store));
	CHECK(!sl_fault_point_set("store.extend:1"));
	CHECK(store->ops->extend(store, 4096) == -EIO);
	store->ops->close(store);
	CHECK(!sl_fault_point_set(NULL));
	unsetenv("SLUICE_FAULT");

	static const char *const bad[] = {"x", "-1", "5:", "5:x", "5 ", ":5", ""};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("SLUICE_STORE_DELAY", bad[i], 1);
		if (!*bad[i]) {
			CHECK(!sl_store_open(c->engine, path, SL_STORE_READ, &store));
			store->ops->close(store);
			continue;
		}
		CHECK(sl_store_open(c->engine, path, SL_STORE_READ, &store) == -EINVAL);
		CHECK(strstr(sluice_last_error(), "SLUICE_STORE_DELAY"));
	}
	unsetenv("SLUICE_STORE_DELAY");
	unlink(path);
	free(buf);
}

static void
wrong_engines_are_refused(const struct config *c)
{
	struct sl_engine *engine = NULL;

	(void)c;
	CHECK(sl_engine_create("abacus", 4, &engine) == -EINVAL);
	CHECK(sl_engine_create("file", 0, &engine) == -EINVAL);
	CHECK(sl_engine_create("file", SL_ENGINE_DEPTH_MAX + 1, &engine) == -EINVAL);
	CHECK(!engine);
	sl_engine_destroy(NULL);
}

static const struct store_test tests[] = {
	TEST(injected_failures_hit_the_nth_call_and_no_byte_moves, STORE_ENGINE),
	TEST(delays_are_kept_as_lower_bounds, STORE_ENGINE),
	TEST(the_environment_can_ask_for_wrappers, STORE_ENGINE),
	TEST(wrong_engines_are_refused, STORE_NO_ENGINE),
};

STORE_MAIN(tests)

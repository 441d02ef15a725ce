/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch is to overwrite, or uses as scratch: a launch that never runs leaves the contents as
 * they were, and nobody sees bytes of another range, whatever the kernel leaves alone. Host code and
 * mapped files are looked at. Frames that were used are always there: secret_leave() sees to that.
 */
#include "api.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/launch/launch.h"

#define SIZE   (2 * CHUNK)
#define SECRET 9u

/* Fill the device with another range's bytes, and leave them in frames that are free. */
static void
secret_leave(struct sluice_space *s)
{
	void *secret = region_map(s, file_make("secret", 32 * MIB, SECRET), 0, 0,
				  SLUICE_READ | SLUICE_WRITE);

	memory_fill(secret, 32 * MIB, SECRET);
	CHECK(sluice_sync(s, secret, 32 * MIB) == 0);
	CHECK(sluice_evict(s, secret, 32 * MIB, SLUICE_TIER_STORE, NULL) == 0);
}

/* A mapped file that became shorter: whoever brings it in fails. */
static void *
broken_map(struct sluice_space *s)
{
	const char *path = file_make("cut", SIZE, 3);
	void *cut = region_map(s, path, 0, 0, SLUICE_READ);

	CHECK(truncate(path, 0) == 0);
	return cut;
}

static void *
out_map(struct sluice_space *s)
{
	return region_map(s, file_make("out", SIZE, 1), 0, 0, SLUICE_READ | SLUICE_WRITE);
}

/* The file and its mapping have the contents that they had at first. */
static void
out_expect_old(struct sluice_space *s, void *out)
{
	memory_expect(out, SIZE, 1);
	CHECK(sluice_sync(s, out, SIZE) == 0);
	file_expect(file_path("out"), 0, SIZE, 1, 0);
}

static void
wild_kernel(const struct sluice_block *block, void *args)
{
	volatile uintptr_t nowhere = 16;

	(void)block;
	(void)args;
	usleep(100000);
	*(volatile long *)nowhere = 1;
}

static void
prepare_that_fails_leaves_a_write_all_range_as_it_was(void)
{
	struct sluice_space *s = space_make("device_budget=12M");
	void *out = out_map(s), *cut = broken_map(s);
	struct sluice_use uses[2] = {{out, SIZE, SLUICE_USE_WRITE_ALL},
				     {cut, SIZE, SLUICE_USE_READ}};
	struct sluice_launch *l;

	secret_leave(s);
	CHECK(launch_uses(s, uses, 2) == 0);
	CHECK(sluice_stream_synchronize(s, NULL) == -EIO);
	out_expect_old(s, out);
	CHECK(sluice_launch_begin(s, NULL, uses, 2, &l) == -EIO);
	out_expect_old(s, out);
	space_end(s);
}

static void
canceled_launch_leaves_a_write_all_range_as_it_was(void)
{
	struct sluice_space *s = space_make("device_budget=12M");
	struct sluice_grid grid = {1, 1, 1};
	void *out = out_map(s), *other = region_alloc(s, CHUNK);
	struct sluice_use use = {other, CHUNK, SLUICE_USE_READ};

	secret_leave(s);
	CHECK(sluice_launch(s, NULL, wild_kernel, grid, NULL, 0, &use, 1) == 0);
	launch(s, KERNEL_FILL, out, SIZE, SLUICE_USE_WRITE_ALL, 7);
	CHECK(sluice_stream_synchronize(s, NULL) == -EFAULT);
	out_expect_old(s, out);
	space_end(s);
}

static void
canceled_launch_leaves_the_only_copy_in_host_memory(void)
{
	struct sluice_space *s = space_make("device_budget=12M,host_budget=32M");
	struct sluice_grid grid = {1, 1, 1};
	void *data = region_alloc(s, SIZE), *other = region_alloc(s, CHUNK);
	struct sluice_use use = {other, CHUNK, SLUICE_USE_READ};
	uint64_t moved;

	secret_leave(s);
	memory_fill(data, SIZE, 4);
	CHECK(sluice_evict(s, data, SIZE, SLUICE_TIER_HOST, NULL) == 0);
	moved = h2d(s);
	CHECK(sluice_launch(s, NULL, wild_kernel, grid, NULL, 0, &use, 1) == 0);
	launch(s, KERNEL_FILL, data, SIZE, SLUICE_USE_WRITE_ALL, 7);
	CHECK(sluice_stream_synchronize(s, NULL) == -EFAULT);
	CHECK_EQ(h2d(s), moved);
	memory_expect(data, SIZE, 4);
	/* One that runs needs nothing of them, and they go. */
	CHECK(sluice_evict(s, data, SIZE, SLUICE_TIER_HOST, NULL) == 0);
	moved = h2d(s);
	launch(s, KERNEL_FILL, data, SIZE, SLUICE_USE_WRITE_ALL, 7);
	space_sync(s);
	CHECK_EQ(h2d(s), moved);
	CHECK_EQ(resident(s, SLUICE_TIER_HOST), 0);
	memory_expect(data, SIZE, 7);
	space_end(s);
}

static void
contents_given_up_for_host_room_are_an_error_and_no_other_bytes(void)
{
	struct sluice_space *s = space_make("device_budget=12M,host_budget=4M");
	struct sluice_grid grid = {1, 1, 1};
	char *data = region_alloc(s, SIZE), *other = region_alloc(s, 6 * CHUNK);
	struct sluice_use use = {other, CHUNK, SLUICE_USE_READ};
	struct sluice_launch *l;

	memory_fill(data, SIZE, 4);
	CHECK(sluice_evict(s, data, SIZE, SLUICE_TIER_HOST, NULL) == 0);
	CHECK_EQ(resident(s, SLUICE_TIER_HOST), SIZE);
	memory_fill(other, 6 * CHUNK, 5); /* it must leave for the launch, and takes the host tier */
	CHECK(sluice_launch(s, NULL, wild_kernel, grid, NULL, 0, &use, 1) == 0);
	launch(s, KERNEL_FILL, data, SIZE, SLUICE_USE_WRITE_ALL, 7);
	CHECK(sluice_stream_synchronize(s, NULL) == -EFAULT);
	use = (struct sluice_use){data, SIZE, SLUICE_USE_READ};
	CHECK_FAILS(sluice_launch_begin(s, NULL, &use, 1, &l), -EIO, "lost");
	memory_expect(other, 6 * CHUNK, 5);
	launch(s, KERNEL_FILL, data, SIZE, SLUICE_USE_WRITE_ALL, 8);
	space_sync(s);
	memory_expect(data, SIZE, 8);
	space_end(s);
}

static void
kernel_that_leaves_bytes_alone_shows_zeros_there(void)
{
	static const enum sluice_intent intents[] = {SLUICE_USE_SCRATCH,
						     SLUICE_USE_WRITE_ALL};

	for (int i = 0; i < 2; i++) {
		struct sluice_space *s = space_make("device_budget=12M");
		void *out = out_map(s);
		struct sluice_use use = {out, SIZE, intents[i]};

		secret_leave(s);
		CHECK(launch_uses(s, &use, 1) == 0);
		space_sync(s);
		memory_expect_zeros(out, SIZE);
		use.intent = SLUICE_USE_WRITE;
		CHECK(launch_uses(s, &use, 1) == 0);
		space_sync(s);
		CHECK(sluice_sync(s, out, SIZE) == 0);
		for (uint64_t at = 0; at < SIZE; at += PAGE)
			CHECK_EQ(file_byte(file_path("out"), at), 0);
		space_end(s);
	}
}

struct sweep {
	char *from;
	size_t bytes;
};

static void
sweep_kernel(const struct sluice_block *block, void *args)
{
	const struct sweep *sweep = args;

	(void)block;
	for (size_t at = 0; at < sweep->bytes; at += PAGE)
		((volatile char *)sweep->from)[at] = 1;
}

/* A kernel takes, by faults, the room of a launch that waits; the old copy went for host room. */
static void
other_launch_may_use_a_chunk_while_its_overwriting_waits(void)
{
	struct sluice_space *s = space_make("device_budget=12M,host_budget=4M");
	struct sluice_grid grid = {1, 1, 1};
	struct gate gate;
	char *data = region_alloc(s, SIZE), *other = region_alloc(s, 6 * CHUNK);
	struct sweep sweep = {region_alloc(s, CHUNK), CHUNK};
	struct sluice_use use = {other, 4 * CHUNK, SLUICE_USE_READ};
	struct sluice_use all = {data, SIZE, SLUICE_USE_READ};
	struct sluice_stream *b;

	CHECK(sluice_stream_create(s, &b) == 0);
	memory_fill(data, SIZE, 4);
	CHECK(sluice_evict(s, data, SIZE, SLUICE_TIER_HOST, NULL) == 0);
	memory_fill(other, 6 * CHUNK, 5);
	gate_make(&gate);
	CHECK(sluice_launch(s, NULL, kernel_gate, grid, &gate, sizeof(gate), &use, 1) == 0);
	launch(s, KERNEL_FILL, data, SIZE, SLUICE_USE_WRITE_ALL, 7);
	CHECK(sluice_launch(s, b, sweep_kernel, grid, &sweep, sizeof(sweep), &use, 1) == 0);
	CHECK(sluice_stream_synchronize(s, b) == 0);
	sweep.bytes = 0;
	CHECK(sluice_launch(s, b, sweep_kernel, grid, &sweep, sizeof(sweep), &all, 1) == 0);
	usleep(20000);
	gate_open(&gate);
	CHECK(sluice_stream_synchronize(s, b) == 0);
	space_sync(s);
	memory_expect(data, SIZE, 7);
	memory_expect(other, 6 * CHUNK, 5);
	sluice_stream_destroy(b);
	space_end(s);
}

static void
pin_before_the_launch_begins_has_the_old_contents(void)
{
	struct sluice_space *s = space_make("");
	struct sluice_grid grid = {1, 1, 1};
	struct gate gate;
	void *out = out_map(s), *other = region_alloc(s, CHUNK);
	struct sluice_use use = {other, CHUNK, SLUICE_USE_READ};

	secret_leave(s);
	gate_make(&gate);
	CHECK(sluice_launch(s, NULL, kernel_gate, grid, &gate, sizeof(gate), &use, 1) == 0);
	launch(s, KERNEL_FILL, out, SIZE, SLUICE_USE_WRITE_ALL, 7);
	sl_space_lock(s);
	while (!s->prepared || s->serving || s->calls.head)
		sl_launch_wait(s);
	sl_space_unlock(s);
	CHECK(sluice_pin(s, out, SIZE) == 0);
	memory_expect(out, SIZE, 1);
	CHECK(sluice_space_check(s) == 0);
	gate_open(&gate);
	space_sync(s);
	memory_expect(out, SIZE, 7);
	CHECK(sluice_unpin(s, out, SIZE) == 0);
	CHECK(sluice_sync(s, out, SIZE) == 0);
	file_expect(file_path("out"), 0, SIZE, 7, 0);
	space_end(s);
}

static const struct api_case cases[] = {
	CASE(prepare_that_fails_leaves_a_write_all_range_as_it_was),
	CASE(canceled_launch_leaves_a_write_all_range_as_it_was),
	CASE(canceled_launch_leaves_the_only_copy_in_host_memory),
	CASE(contents_given_up_for_host_room_are_an_error_and_no_other_bytes),
	CASE(kernel_that_leaves_bytes_alone_shows_zeros_there),
	CASE(other_launch_may_use_a_chunk_while_its_overwriting_waits),
	CASE(pin_before_the_launch_begins_has_the_old_contents),
};

API_MAIN(cases)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole chunks and frames: contents on every way in and out, refused calls, and moves of a page
 * that I/O has pinned. See device_suite.h.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "device_suite.h"

static void
contents_survive_every_way_in_and_out(void)
{
	static const size_t sizes[] = {2ul << 20, 4ul << 20, 16ul << 20};
	static const unsigned guards[] = {0, SL_PRESENT_GUARD, SL_PRESENT_GUARD_STRICT};
	struct core core;

	for (int s = 0; s < 3; s++) {
		for (int d = 0; d < 2; d++) {
			const struct sl_device_ops *ops;

			core_init(&core, sizes[s], deliveries[d]);
			ops = core.dev->ops;
			for (int g = 0; g < 6; g++) {
				unsigned keep = g < 3 ? 0 : SL_PRESENT_KEEP;
				struct sl_frame *frame = frame_get(&core);
				char *addr = chunk_addr(&core, g % 2);
				uint64_t seed = (uint64_t)g * 77 + 5;

				pattern_write(frame->data, frame->bytes, seed);
				CHECK(ops->present(core.dev, addr, sizes[s], frame,
						   guards[g % 3] | keep) == 0);
				CHECK(device_pattern_is(&core, addr, sizes[s], seed));
				if (!keep)
					frame = frame_get(&core);
				CHECK(ops->absent(core.dev, addr, sizes[s], frame,
						  keep ? SL_ABSENT_KEPT : SL_ABSENT_COPY) ==
				      0);
				CHECK(pattern_is(frame->data, frame->bytes, seed));
				ops->frame_put(core.dev, frame);
			}
			CHECK(core.n_touches == 0);
			core_fini(&core);
		}
	}
}

static void
a_kept_frame_is_overwritten_by_absent_copy(void)
{
	struct core core;
	struct sl_frame *frame;
	char *addr;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	frame = frame_get(&core);
	addr = chunk_addr(&core, 3);
	for (uint64_t round = 0; round < 3; round++) {
		pattern_write(frame->data, frame->bytes, round);
		CHECK(core.dev->ops->present(core.dev, addr, CHUNK, frame,
					     SL_PRESENT_KEEP) == 0);
		device_pattern_write(&core, addr, CHUNK, round + 77);
		CHECK(core.dev->ops->absent(core.dev, addr, CHUNK, frame, SL_ABSENT_COPY) ==
		      0);
		CHECK(pattern_is(frame->data, CHUNK, round + 77));
	}
	CHECK(core.n_touches == 0);
	core.dev->ops->frame_put(core.dev, frame);
	core_fini(&core);
}

static void
a_kept_frame_is_overwritten_by_what_faults_wrote(void)
{
	for (int g = 0; g < 2; g++) {
		struct core core;
		struct sl_frame *frame;
		char *addr;

		core_init(&core, CHUNK, SL_DELIVER_SIGNAL);
		frame = frame_get(&core);
		pattern_write(frame->data, frame->bytes, 1);
		pthread_mutex_lock(&core.lock);
		core.present_flags = SL_PRESENT_KEEP | (g ? SL_PRESENT_GUARD_STRICT : 0u);
		core.chunk[3].frame = frame;
		pthread_mutex_unlock(&core.lock);
		addr = chunk_addr(&core, 3);
		pattern_write(addr, CHUNK, 2); /* by faults */
		CHECK(core.n_touches == (g ? 2u : 1u));
		CHECK(core.dev->ops->absent(core.dev, addr, CHUNK, frame, SL_ABSENT_COPY) ==
		      0);
		CHECK(pattern_is(frame->data, CHUNK, 2));
		core_fini(&core);
	}
}

static void
no_frame_gives_zeros_whatever_the_cache_holds(void)
{
	struct core core;
	const struct sl_device_ops *ops;

	core_init(&core, 2 * CHUNK, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	for (int round = 0; round < 3; round++) {
		for (unsigned guard = 0; guard <= SL_PRESENT_GUARD_STRICT; guard += 2) {
			char *addr = chunk_addr(&core, 0);

			CHECK(ops->present(core.dev, addr, 2 * CHUNK, NULL, guard) == 0);
			CHECK(device_all_zero(&core, addr, 2 * CHUNK));
			CHECK(!core.dev->guards ||
			      core.dev->guards->unguard(core.dev, addr, 2 * CHUNK) == 0);
			device_pattern_write(&core, addr, 2 * CHUNK, 9);
			CHECK(ops->absent(core.dev, addr, 2 * CHUNK, NULL,
					  SL_ABSENT_DISCARD) == 0);
		}
		CHECK(ops->present(core.dev, chunk_addr(&core, 1), 2 * CHUNK, NULL,
				   SL_PRESENT_UNDEFINED) == 0);
		device_pattern_write(&core, chunk_addr(&core, 1), 2 * CHUNK, 3);
		CHECK(device_pattern_is(&core, chunk_addr(&core, 1), 2 * CHUNK, 3));
		CHECK(ops->absent(core.dev, chunk_addr(&core, 1), 2 * CHUNK, NULL,
				  SL_ABSENT_DISCARD) == 0);
	}
	CHECK(core.n_touches == 0);
	core_fini(&core);
}

static void
discarded_chunk_is_absent(void)
{
	for (int d = 0; d < 2; d++) {
		struct core core;
		volatile char *addr;

		core_init(&core, CHUNK, deliveries[d]);
		addr = chunk_addr(&core, 0);
		CHECK(core.dev->ops->present(core.dev, (void *)addr, CHUNK, NULL, 0) == 0);
		addr[PAGE] = 5;
		CHECK(core.n_touches == 0);
		CHECK(core.dev->ops->absent(core.dev, (void *)addr, CHUNK, NULL,
					    SL_ABSENT_DISCARD) == 0);
		CHECK(addr[PAGE] == 0); /* served with zeros */
		CHECK(core.n_touches == 1);
		core_fini(&core);
	}
}

static void
presenting_over_a_present_chunk_is_refused_and_loses_nothing(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	struct sl_frame *frame;
	char *addr;

	core_init(&core, 2 * CHUNK, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	addr = chunk_addr(&core, 2);
	CHECK(ops->present(core.dev, addr, 2 * CHUNK, NULL, 0) == 0);
	device_pattern_write(&core, addr, 2 * CHUNK, 11);
	frame = frame_get(&core);
	pattern_write(frame->data, frame->bytes, 4);
	CHECK(ops->present(core.dev, addr, 2 * CHUNK, frame, 0) == -EEXIST);
	CHECK(pattern_is(frame->data, frame->bytes, 4));
	CHECK(device_pattern_is(&core, addr, 2 * CHUNK, 11));
	CHECK(ops->absent(core.dev, addr, 2 * CHUNK, NULL, SL_ABSENT_DISCARD) == 0);
	CHECK(ops->present(core.dev, addr, 2 * CHUNK, frame, 0) == 0);
	CHECK(device_pattern_is(&core, addr, 2 * CHUNK, 4));
	CHECK(core.n_touches == 0);
	core_fini(&core);
}

static void
presenting_over_present_pages_is_refused_and_loses_nothing(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	struct sl_frame *frame;
	char *addr;
	char page[PAGE];

	core_init(&core, 2 * CHUNK, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	addr = chunk_addr(&core, 2);
	memset(page, 7, PAGE);
	CHECK(core.dev->faults->page_fill(core.dev, addr + CHUNK + 5 * PAGE, PAGE, page,
					  0) == 0);
	frame = frame_get(&core);
	pattern_write(frame->data, frame->bytes, 4);
	CHECK(ops->present(core.dev, addr, 2 * CHUNK, frame, 0) == -EEXIST);
	CHECK(pattern_is(frame->data, frame->bytes, 4));
	CHECK(addr[CHUNK + 5 * PAGE] == 7);
	CHECK(core.dev->faults->page_drop(core.dev, addr + CHUNK + 5 * PAGE, PAGE) == 0);
	CHECK(ops->present(core.dev, addr, 2 * CHUNK, frame, 0) == 0);
	CHECK(pattern_is(addr, 2 * CHUNK, 4));
	core_fini(&core);
}

static void
snapshot_copies_and_leaves_the_chunk_present(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	struct sl_frame *frame;
	char *addr;

	core_init(&core, CHUNK, SL_DELIVER_SIGNAL);
	ops = core.dev->ops;
	addr = chunk_addr(&core, 1);
	CHECK(ops->present(core.dev, addr, CHUNK, NULL, 0) == 0);
	device_pattern_write(&core, addr, CHUNK, 6);
	frame = frame_get(&core);
	CHECK(!core.dev->guards || core.dev->guards->guard(core.dev, addr, CHUNK) == 0);
	CHECK(ops->snapshot(core.dev, addr, CHUNK, frame) == 0);
	CHECK(pattern_is(frame->data, CHUNK, 6));
	CHECK(device_pattern_is(&core, addr, CHUNK, 6));
	CHECK(core.n_touches == 0);
	ops->frame_put(core.dev, frame);
	core_fini(&core);
}

static void
frames_are_reused(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	void *seen[4] = {NULL};
	int n_seen = 0;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	for (int i = 0; i < 200; i++) {
		struct sl_frame *in = frame_get(&core);
		struct sl_frame *out;
		int j = 0;

		while (j < n_seen && seen[j] != in->data)
			j++;
		if (j == n_seen && n_seen < 4)
			seen[n_seen++] = in->data;
		CHECK((uintptr_t)in->data % PAGE == 0);
		if (i > 2)
			CHECK(in->dirty_memory);
		memset(in->data, i, CHUNK);
		CHECK(ops->present(core.dev, chunk_addr(&core, 0), CHUNK, in, 0) == 0);
		out = frame_get(&core);
		CHECK(ops->absent(core.dev, chunk_addr(&core, 0), CHUNK, out,
				  SL_ABSENT_COPY) == 0);
		CHECK(((char *)out->data)[12345] == (char)i);
		ops->frame_put(core.dev, out);
	}
	CHECK(n_seen < 4);
	core_fini(&core);
}

static void
frame_sizes_that_are_no_chunk_are_refused(void)
{
	struct core core;
	struct sl_frame *frame = NULL;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	CHECK(core.dev->ops->frame_get(core.dev, 3 * CHUNK, &frame) == -EINVAL);
	CHECK(core.dev->ops->frame_get(core.dev, 4096, &frame) == -EINVAL);
	CHECK(frame == NULL);
	core_fini(&core);
}

/* Pin a page with a registered io_uring buffer, as a long direct I/O does. -1: refused. */
static int
page_pin(void *page)
{
	struct io_uring_params params;
	struct iovec buffer = {page, PAGE};
	int fd;

	memset(&params, 0, sizeof(params));
	fd = (int)syscall(SYS_io_uring_setup, 2, &params);
	if (fd < 0)
		return -1;
	if (syscall(SYS_io_uring_register, fd, IORING_REGISTER_BUFFERS, &buffer, 1)) {
		close(fd);
		return -1;
	}
	return fd;
}

static void
a_chunk_pinned_by_direct_io_stays_whole(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	struct sl_frame *frame;
	char *addr;
	int fd;

	core_init(&core, 2 * CHUNK, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	addr = chunk_addr(&core, 0);
	CHECK(ops->present(core.dev, addr, 2 * CHUNK, NULL, 0) == 0);
	pattern_write(addr, 2 * CHUNK, 8);
	fd = page_pin(addr + CHUNK + 9 * PAGE); /* the first half moves, the second does not */
	if (fd < 0) {
		printf("  io_uring refused: pinned pages not tested\n");
		core_fini(&core);
		return;
	}
	CHECK(core.dev->guards->guard(core.dev, addr, 2 * CHUNK) == 0);
	frame = frame_get(&core);
	pattern_write(frame->data, 2 * CHUNK, 3);
	CHECK(ops->absent(core.dev, addr, 2 * CHUNK, frame, SL_ABSENT_COPY) == -EBUSY);
	CHECK(core.dev->progress->move_retries > 0);
	CHECK(pattern_is(addr, 2 * CHUNK, 8));
	CHECK(pattern_is(frame->data, 2 * CHUNK, 3));
	CHECK(core.n_touches == 0);
	/* And it is guarded still, where it was moved and came back too. */
	pthread_mutex_lock(&core.lock);
	core.chunk[0].state = CHUNK_PRESENT;
	core.chunk[0].guarded = 1;
	pthread_mutex_unlock(&core.lock);
	*(volatile char *)addr = *(volatile char *)addr;
	CHECK(core.n_writes_guarded == 1);
	CHECK(syscall(SYS_io_uring_register, fd, IORING_UNREGISTER_BUFFERS, NULL, 0) == 0);
	close(fd);
	CHECK(ops->absent(core.dev, addr, 2 * CHUNK, frame, SL_ABSENT_COPY) == 0);
	CHECK(pattern_is(frame->data, 2 * CHUNK, 8));
	ops->frame_put(core.dev, frame);
	core_fini(&core);
}

static const struct device_test tests[] = {
	TEST(contents_survive_every_way_in_and_out),
	TEST(a_kept_frame_is_overwritten_by_absent_copy),
	TEST(no_frame_gives_zeros_whatever_the_cache_holds),
	TEST_ROLES(a_kept_frame_is_overwritten_by_what_faults_wrote, ROLE_FAULTS | ROLE_GUARDS),
	TEST_ROLES(discarded_chunk_is_absent, ROLE_FAULTS),
	TEST(presenting_over_a_present_chunk_is_refused_and_loses_nothing),
	TEST_ROLES(presenting_over_present_pages_is_refused_and_loses_nothing, ROLE_FAULTS),
	TEST(snapshot_copies_and_leaves_the_chunk_present),
	TEST(frames_are_reused),
	TEST(frame_sizes_that_are_no_chunk_are_refused),
	TEST_NEEDS(a_chunk_pinned_by_direct_io_stays_whole, DEVICE_SEES_PINS),
};

DEVICE_MAIN(tests)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guards, and pages within a chunk. See device_suite.h.
 */
#include <errno.h>

#include "device_suite.h"

static void
a_guard_reports_exactly_one_write(void)
{
	for (int d = 0; d < 2; d++) {
		for (int strict = 0; strict < 2; strict++) {
			struct core core;
			volatile char *addr;

			core_init(&core, CHUNK, deliveries[d]);
			chunk_hold(&core, 0, 3);
			pthread_mutex_lock(&core.lock);
			core.chunk[0].state = CHUNK_PRESENT;
			core.chunk[0].guarded = 1;
			pthread_mutex_unlock(&core.lock);
			addr = chunk_addr(&core, 0);
			CHECK(host_show(&core, (char *)addr, core.chunk[0].frame,
					SL_PRESENT_KEEP | (strict ? SL_PRESENT_GUARD_STRICT
								  : SL_PRESENT_GUARD)) == 0);
			CHECK(addr[17] == 3);
			CHECK(core.n_touches == 0);
			addr[PAGE + 17] = 4;
			CHECK(core.n_touches == 1);
			CHECK(core.n_writes_guarded == 1);
			CHECK(core.last_access == SL_ACCESS_WRITE);
			CHECK(((uintptr_t)core.last_addr & ~(PAGE - 1)) ==
			      (uintptr_t)addr + PAGE);
			CHECK(core.n_in_thread == (deliveries[d] == SL_DELIVER_SIGNAL));
			for (size_t i = 0; i < CHUNK; i += PAGE)
				addr[i] = 5;
			CHECK(core.n_touches == 1);
			core_fini(&core);
		}
	}
}

static void
absent_touches_say_read_or_write(void)
{
	for (int d = 0; d < 2; d++) {
		struct core core;
		volatile char *addr;

		core_init(&core, CHUNK, deliveries[d]);
		addr = chunk_addr(&core, 0);
		CHECK(addr[99] == 0);
		CHECK(core.last_access == SL_ACCESS_READ);
		addr = chunk_addr(&core, 1);
		addr[99] = 1;
		CHECK(core.last_access == SL_ACCESS_WRITE);
		CHECK(core.n_writes_guarded == 0);
		CHECK(core.n_touches == 2);
		CHECK(core.last_launch == NULL);
		core_fini(&core);
	}
}

/* Fill the page of the touch, guarded. */
static int
serve_page(struct core *core, const struct sl_touch *touch)
{
	char *page = (char *)((uintptr_t)touch->addr & ~(PAGE - 1));
	char data[PAGE];

	if (touch->guarded)
		return core->dev->guards->unguard(core->dev, page, PAGE);
	memset(data, 8, PAGE);
	return core->dev->faults->page_fill(core->dev, page, PAGE, data, 1);
}

static void
pages_are_filled_one_by_one_and_written_once(void)
{
	for (int d = 0; d < 2; d++) {
		struct core core;
		volatile char *addr;

		core_init(&core, CHUNK, deliveries[d]);
		core.serve = serve_page;
		addr = chunk_addr(&core, 4);
		for (size_t i = 0; i < 16; i++)
			CHECK(addr[i * PAGE] == 8);
		CHECK(core.n_touches == 16);
		for (size_t i = 0; i < 16; i++)
			addr[i * PAGE] = 9;
		for (size_t i = 0; i < 16; i++)
			addr[i * PAGE + 1] = 9;
		CHECK(core.n_touches == 32);
		CHECK(core.n_writes_guarded == 16);
		core_fini(&core);
	}
}

static void
page_fill_skips_present_pages(void)
{
	struct core core;
	char *src = malloc(CHUNK);
	char *addr;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	addr = chunk_addr(&core, 0);
	memset(src, 1, CHUNK);
	CHECK(core.dev->faults->page_fill(core.dev, addr, PAGE, src, 0) == 0);
	CHECK(core.dev->faults->page_fill(core.dev, addr + 7 * PAGE, 2 * PAGE, src, 0) == 0);
	CHECK(core.dev->faults->page_fill(core.dev, addr + CHUNK - PAGE, PAGE, src, 0) == 0);
	memset(src, 2, CHUNK);
	CHECK(core.dev->faults->page_fill(core.dev, addr, CHUNK, src, 0) == 0);
	for (size_t i = 0; i < CHUNK / PAGE; i++) {
		int early = i == 0 || i == 7 || i == 8 || i == CHUNK / PAGE - 1;

		CHECK(addr[i * PAGE] == (early ? 1 : 2));
	}
	CHECK(core.dev->faults->page_drop(core.dev, addr, CHUNK) == 0);
	CHECK(core.dev->faults->page_fill(core.dev, addr, CHUNK, NULL, 0) == 0);
	CHECK(all_zero(addr, CHUNK));
	CHECK(core.n_touches == 0);
	free(src);
	core_fini(&core);
}

static void
absent_pages_leave_their_part_of_the_frame(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	struct sl_frame *frame;
	char page[3 * PAGE];
	char *addr;

	core_init(&core, 2 * CHUNK, SL_DELIVER_SIGNAL);
	ops = core.dev->ops;
	addr = chunk_addr(&core, 0);
	memset(page, 1, sizeof(page));
	CHECK(core.dev->faults->page_fill(core.dev, addr + 10 * PAGE, 3 * PAGE, page, 0) == 0);
	CHECK(core.dev->faults->page_fill(core.dev, addr + CHUNK, PAGE, page, 1) == 0);
	frame = frame_get(&core);
	memset(frame->data, 2, frame->bytes);
	CHECK(ops->absent(core.dev, addr, 2 * CHUNK, frame, SL_ABSENT_COPY) == 0);
	for (size_t i = 0; i < 2 * CHUNK / PAGE; i++) {
		int was = (i >= 10 && i < 13) || i == CHUNK / PAGE;

		CHECK(((char *)frame->data)[i * PAGE + 5] == (was ? 1 : 2));
	}
	CHECK(ops->present(core.dev, addr, 2 * CHUNK, frame, 0) == 0); /* all absent again */
	CHECK(addr[10 * PAGE] == 1 && addr[0] == 2);
	/* A whole chunk in small pages goes out as well, and its frame in again. */
	CHECK(core.dev->guards->guard(core.dev, addr + PAGE, PAGE) == 0);
	frame = frame_get(&core);
	CHECK(ops->absent(core.dev, addr, 2 * CHUNK, frame, SL_ABSENT_COPY) == 0);
	CHECK(((char *)frame->data)[10 * PAGE] == 1 && ((char *)frame->data)[0] == 2);
	CHECK(ops->present(core.dev, addr, 2 * CHUNK, frame, 0) == 0);
	CHECK(addr[CHUNK] == 1 && addr[CHUNK + PAGE] == 2);
	CHECK(core.n_touches == 0);
	core_fini(&core);
}

static const struct device_test tests[] = {
	TEST_ROLES(a_guard_reports_exactly_one_write, ROLE_TOUCHES),
	TEST_ROLES(absent_touches_say_read_or_write, ROLE_TOUCHES),
	TEST_ROLES(pages_are_filled_one_by_one_and_written_once, ROLE_FAULTS),
	TEST_ROLES(page_fill_skips_present_pages, ROLE_FAULTS),
	TEST_ROLES(absent_pages_leave_their_part_of_the_frame, ROLE_FAULTS),
};

DEVICE_MAIN(tests)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels: grids, the touches they make, those that nobody can serve, and system calls that touch.
 * See device_suite.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device_suite.h"

static void
a_grid_runs_every_block_once_and_serves_its_touches(void)
{
	static int cookie;

	for (int d = 0; d < 2; d++) {
		struct core core;
		struct kernel_args args = {0};
		struct sluice_grid grid = {8, 4, 64}; /* 2048 pages: 4 chunks */

		core_init(&core, CHUNK, deliveries[d]);
		for (int i = 0; i < 4; i++)
			chunk_hold(&core, i, i + 1);
		args.addr = chunk_addr(&core, 0);
		CHECK(core.dev->kernels->run(core.dev, kernel_sum_pages, grid, &args,
					     &cookie) == 0);
		CHECK(args.blocks == 2048);
		CHECK(args.sum == 512 * (1 + 2 + 3 + 4));
		CHECK(args.overlaps == 0);
		CHECK(core.n_touches >= 4);
		CHECK(core.n_launched >= 4 && core.last_launch == &cookie);
		grid.y = 0;
		CHECK(core.dev->kernels->run(core.dev, kernel_sum_pages, grid, &args,
					     NULL) == -EINVAL);
		core_fini(&core);
	}
}

static void
kernels_that_touch_outside_regions_end_with_efault(void)
{
	struct sluice_grid grid = {4, 1, 1};
	struct core core;

	for (int d = 0; d < 2; d++) {
		struct kernel_args args = {0};
		char text[64];

		core_init(&core, CHUNK, deliveries[d]);
		args.addr = chunk_addr(&core, CHUNKS) + 123;
		CHECK(core.dev->kernels->run(core.dev, kernel_touch_addr, grid, &args,
					     NULL) == -EFAULT);
		snprintf(text, sizeof(text), "%p", (void *)args.addr);
		CHECK(strstr(sluice_last_error(), text) != NULL);
		args.addr = (char *)64; /* not even near */
		CHECK(core.dev->kernels->run(core.dev, kernel_touch_addr, grid, &args,
					     NULL) == -EFAULT);
		args.addr = (char *)(1ul << 63); /* no address at all */
		CHECK(core.dev->kernels->run(core.dev, kernel_touch_addr, grid, &args,
					     NULL) == -EFAULT);
		CHECK(core.n_touches == 0);
		args.addr = chunk_addr(&core, 0);
		CHECK(core.dev->kernels->run(core.dev, kernel_touch_addr, grid, &args,
					     NULL) == 0);
		CHECK(core.n_touches == 1);
		core_fini(&core);
	}
}

static void
a_refused_touch_ends_the_kernel_and_nothing_else(void)
{
	struct sluice_grid grid = {5000, 1, 1};

	for (int d = 0; d < 2; d++) {
		for (int round = 0; round < 20; round++) {
			struct core core;
			struct kernel_args args = {0};

			core_init(&core, CHUNK, deliveries[d]);
			core.serve = serve_refuse;
			core.armed = 1;
			args.addr = chunk_addr(&core, 1) + 5;
			CHECK(core.dev->kernels->run(core.dev, kernel_touch_addr, grid,
						     &args, NULL) == -EIO);
			CHECK(strstr(sluice_last_error(), "broken disk") != NULL);
			CHECK(args.blocks < 5000);
			CHECK(core.n_touches == 1);
			core.armed = 0;
			args.blocks = 0;
			CHECK(core.dev->kernels->run(core.dev, kernel_touch_addr, grid,
						     &args, NULL) == 0);
			CHECK(args.blocks == 5000);
			CHECK(core.n_touches == 2);
			CHECK(*args.addr == 1); /* the first one left no trace */
			core_fini(&core);
			if (round == 2 && !(device_row->traits & DEVICE_PROMPT))
				break;
		}
	}
}

static void
kernel_read_file(const struct sluice_block *block, void *args)
{
	struct kernel_args *a = args;
	ssize_t got = pread(a->fd, a->addr + block->index.x * PAGE, PAGE, 0);

	a->blocks++;
	if (got == (ssize_t)PAGE)
		a->sum++;
	else if (got < 0 && errno == EFAULT)
		a->overlaps++;
}

static void
system_calls_may_touch_with_thread_delivery_only(void)
{
	struct sluice_grid grid = {3, 1, 1};
	char page[PAGE];
	int fd = memfd_create("page", MFD_CLOEXEC);

	memset(page, 6, PAGE);
	CHECK(pwrite(fd, page, PAGE, 0) == (ssize_t)PAGE);
	for (int d = 0; d < 2; d++) {
		struct core core;
		struct kernel_args args = {.fd = fd};
		int may;

		core_init(&core, CHUNK, deliveries[d]);
		may = deliveries[d] == SL_DELIVER_THREAD && core.dev->kernel_touches;
		args.addr = chunk_addr(&core, 0);
		CHECK(core.dev->kernels->run(core.dev, kernel_read_file, grid, &args,
					     NULL) == 0);
		CHECK(args.sum == (may ? 3 : 0));
		CHECK(args.overlaps == (may ? 0 : 3));
		if (may)
			CHECK(args.addr[2 * PAGE + 9] == 6);
		/* A system call whose touch is refused: the kernel has failed. */
		core.serve = serve_refuse;
		core.armed = 1;
		args.addr = chunk_addr(&core, 1);
		CHECK(core.dev->kernels->run(core.dev, kernel_read_file, grid, &args,
					     NULL) == (may ? -EIO : 0));
		core_fini(&core);
	}
	close(fd);
}

static const struct device_test tests[] = {
	TEST_ROLES(a_grid_runs_every_block_once_and_serves_its_touches, ROLE_KERNELS),
	TEST_ROLES(kernels_that_touch_outside_regions_end_with_efault, ROLE_KERNELS),
	TEST_ROLES(a_refused_touch_ends_the_kernel_and_nothing_else, ROLE_KERNELS),
	TEST_ROLES(system_calls_may_touch_with_thread_delivery_only, ROLE_KERNELS),
};

DEVICE_MAIN(tests)

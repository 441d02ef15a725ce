/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrong or conflicting launches: a declared set above the budget, uses outside any region,
 * kernels that touch forbidden addresses, unmapping the data of a launch. Each wrong launch is
 * reported with its error, and the space goes on. Touches are tried for both deliveries of
 * faults, and for chunks that are present or not.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "fault.h"

#define RW (SLUICE_READ | SLUICE_WRITE)

static const char *const deliveries[] = {"faults=thread", "faults=signal",
					 "faults=signal,population=page"};

static void *
alloc_zeros(struct sluice_space *space, size_t bytes)
{
	void *addr;

	CHECK_OK(sluice_alloc(space, bytes, 0, &addr));
	return addr;
}

static int
launch_one(struct sluice_space *space, sluice_kernel kernel,
	   const struct fault_range *range, const struct sluice_use *uses, size_t n_uses)
{
	int rc = sluice_launch(space, NULL, kernel, (struct sluice_grid){1, 1, 1}, range,
			       sizeof(*range), uses, n_uses);

	return rc ? rc : sluice_stream_synchronize(space, NULL);
}

/* Write 7 to the first word. */
static void
kernel_write(const struct sluice_block *block, void *args)
{
	const struct fault_range *range = args;

	(void)block;
	*(volatile uint64_t *)(void *)range->data = 7;
}

static uint64_t kernel_saw;

static void
kernel_read(const struct sluice_block *block, void *args)
{
	const struct fault_range *range = args;

	(void)block;
	kernel_saw = *(volatile uint64_t *)(void *)range->data;
}

static void
declared_set_above_the_budget_is_enobufs_and_fault_mode_runs_on(void)
{
	struct sluice_space *space = fault_space(NULL);
	struct fault_range range = {NULL, 6 * CHUNK};
	struct sluice_launch *scope = NULL;
	struct sluice_use use;

	range.data = alloc_zeros(space, range.bytes);
	use = (struct sluice_use){range.data, range.bytes, SLUICE_USE_READ_WRITE};
	CHECK_FAILS(sluice_launch(space, NULL, fault_kernel_add, fault_grid(range.bytes),
				  &range, sizeof(range), &use, 1),
		    -ENOBUFS, "launch 1", "12582912", "8388608", "device");
	CHECK_FAILS(sluice_launch_begin(space, NULL, &use, 1, &scope), -ENOBUFS,
		    "launch 2", "12582912", "8388608");
	CHECK(!scope);
	/* What is pinned leaves less. */
	CHECK_OK(sluice_pin(space, range.data, 2 * CHUNK));
	use = (struct sluice_use){range.data + 2 * CHUNK, 3 * CHUNK, SLUICE_USE_READ_WRITE};
	CHECK_FAILS(sluice_launch(space, NULL, fault_kernel_add, fault_grid(range.bytes),
				  &range, sizeof(range), &use, 1),
		    -ENOBUFS, "launch 3", "6291456", "4194304");
	CHECK_OK(sluice_unpin(space, range.data, 2 * CHUNK));
	CHECK_OK(sluice_stream_synchronize(space, NULL));
	CHECK(*(uint64_t *)(void *)range.data == 0); /* none of them has run */
	/* The same kernel by faults. */
	CHECK_OK(sluice_launch(space, NULL, fault_kernel_add, fault_grid(range.bytes),
			       &range, sizeof(range), NULL, 0));
	CHECK_OK(sluice_stream_synchronize(space, NULL));
	for (size_t at = 0; at < range.bytes; at += PAGE)
		CHECK(*(uint64_t *)(void *)(range.data + at) == 1);
	/* And declared, with a budget that takes it. */
	CHECK_OK(sluice_space_set_budget(space, SLUICE_TIER_DEVICE, range.bytes));
	use = (struct sluice_use){range.data, range.bytes, SLUICE_USE_READ_WRITE};
	CHECK_OK(sluice_launch(space, NULL, fault_kernel_add, fault_grid(range.bytes),
			       &range, sizeof(range), &use, 1));
	CHECK_OK(sluice_stream_synchronize(space, NULL));
	for (size_t at = 0; at < range.bytes; at += PAGE)
		CHECK(*(uint64_t *)(void *)(range.data + at) == 2);
	fault_space_end(space);
}

static void
wrong_launches_are_refused_at_the_call(void)
{
	struct sluice_space *space = fault_space(NULL);
	struct fault_range range = {NULL, CHUNK};
	struct sluice_grid one = {1, 1, 1}, empty = {1, 0, 1};
	struct sluice_use use;
	struct sluice_launch *scope = NULL;
	static char big[2000];
	int local = 0;
	void *file;

	fault_file_make("data", 2 * CHUNK, 1);
	CHECK_OK(sluice_map(space, "data", 0, 0, SLUICE_READ, &file));
	range.data = alloc_zeros(space, CHUNK + PAGE);
	CHECK_FAILS(sluice_launch(space, NULL, NULL, one, NULL, 0, NULL, 0), -EINVAL,
		    "kernel");
	CHECK_FAILS(sluice_launch(space, NULL, kernel_write, empty, &range, sizeof(range),
				  NULL, 0),
		    -EINVAL, "grid");
	CHECK_FAILS(sluice_launch(space, NULL, kernel_write, one, big, sizeof(big), NULL, 0),
		    -EINVAL, "2000", "1024");
	CHECK_FAILS(sluice_launch(space, NULL, kernel_write, one, &range, sizeof(range),
				  NULL, 3),
		    -EINVAL, "NULL");
	use = (struct sluice_use){&local, sizeof(local), SLUICE_USE_READ};
	CHECK_FAILS(launch_one(space, kernel_write, &range, &use, 1), -ENOENT, "launch",
		    "no region");
	CHECK_FAILS(sluice_launch_begin(space, NULL, &use, 1, &scope), -ENOENT, "no region");
	use = (struct sluice_use){range.data, CHUNK + PAGE + 1, SLUICE_USE_READ};
	CHECK_FAILS(launch_one(space, kernel_write, &range, &use, 1), -ENOENT,
		    "past the end");
	use = (struct sluice_use){range.data, 0, SLUICE_USE_READ};
	CHECK_FAILS(launch_one(space, kernel_write, &range, &use, 1), -EINVAL, "use 0",
		    "size 0");
	use = (struct sluice_use){range.data, CHUNK, (enum sluice_intent)9};
	CHECK_FAILS(launch_one(space, kernel_write, &range, &use, 1), -EINVAL, "use 0", "9");
	use = (struct sluice_use){file, CHUNK, SLUICE_USE_WRITE};
	CHECK_FAILS(launch_one(space, kernel_write, &range, &use, 1), -EACCES, "data",
		    "SLUICE_WRITE");
	CHECK(!scope && *(uint64_t *)(void *)range.data == 0);
	fault_space_end(space);
}

static void
failed_write_all_launch_leaves_what_the_host_has(void)
{
	struct sluice_space *space = fault_space(NULL);
	struct fault_range range = {alloc_zeros(space, 2 * CHUNK), 2 * CHUNK};
	struct sluice_use use = {range.data, range.bytes, SLUICE_USE_WRITE_ALL};
	struct sluice_residency where;

	fault_fill(range.data, range.bytes, 5);
	CHECK_OK(sluice_evict(space, range.data, range.bytes, SLUICE_TIER_HOST, NULL));
	CHECK_OK(sl_fault_point_set("device.present:1:EIO"));
	CHECK_OK(sluice_launch(space, NULL, fault_kernel_add, fault_grid(range.bytes),
			       &range, sizeof(range), &use, 1));
	CHECK_FAILS(sluice_stream_synchronize(space, NULL), -EIO, "launch 1", "chunk 0");
	CHECK_OK(sl_fault_point_set(NULL));
	CHECK_OK(sluice_space_check(space));
	CHECK_OK(sluice_residency(space, range.data, range.bytes, &where));
	CHECK(where.tier_bytes[SLUICE_TIER_HOST] == range.bytes);
	CHECK(fault_has(range.data, range.bytes, 5));
	fault_space_end(space);
}

/* What is known of its dead pages stays known, so that a later write to them is seen. */
static void
failed_launch_leaves_eagerly_discarded_pages_watched(void)
{
	struct sluice_space *space = fault_space(NULL);
	struct fault_range all = {alloc_zeros(space, CHUNK), CHUNK};
	struct fault_range live = {all.data + CHUNK / 2, CHUNK / 2};
	char *dead = all.data + 3 * PAGE;
	uint64_t value;

	/* Zeros on the device, of which nothing is kept when they leave. */
	CHECK_OK(launch_one(space, kernel_read, &all,
			    &(struct sluice_use){all.data, CHUNK, SLUICE_USE_READ}, 1));
	CHECK_OK(sluice_discard(space, all.data, CHUNK / 2, SLUICE_DISCARD_EAGER, NULL));
	CHECK_OK(sluice_evict(space, all.data, CHUNK, SLUICE_TIER_HOST, NULL));
	for (int fails = 1; fails >= 0; fails--) {
		struct sluice_use use = {live.data, live.bytes, SLUICE_USE_READ_WRITE};

		CHECK_OK(sl_fault_point_set(fails ? "device.present:1:EIO" : NULL));
		CHECK(launch_one(space, fault_kernel_add, &live, &use, 1) ==
		      (fails ? -EIO : 0));
	}
	CHECK(fault_write(dead, 9) == 0);
	CHECK_OK(sluice_discard(space, live.data, live.bytes, SLUICE_DISCARD_EAGER, NULL));
	CHECK_OK(sluice_evict(space, all.data, CHUNK, SLUICE_TIER_HOST, NULL));
	CHECK(fault_read(dead, &value) == 0 && value == 9);
	fault_space_end(space);
}

/* Text of an address as messages print it. */
static const char *
address_text(const void *addr)
{
	static char text[32];

	snprintf(text, sizeof(text), "%p", addr);
	return text;
}

static void
kernel_past_its_region_is_efault_with_the_address(void)
{
	for (size_t d = 0; d < COUNT_OF(deliveries); d++) {
		struct sluice_space *space = fault_space(deliveries[d]);
		struct fault_range good = {alloc_zeros(space, 3 * MIB), PAGE};
		struct fault_range bad = {good.data + 2 * CHUNK + 64, PAGE};
		static struct fault_range wild = {(char *)64, PAGE};
		struct fault_range *outside[] = {&bad, &wild};

		/* Behind the size, in the last chunk: zeros, for nobody else. */
		*(uint64_t *)(void *)good.data = 5;
		for (size_t i = 0; i < COUNT_OF(outside); i++) {
			CHECK_FAILS(launch_one(space, kernel_write, outside[i], NULL, 0),
				    -EFAULT, "kernel touched",
				    address_text(outside[i]->data), "outside any region");
			/* What is enqueued behind a failed launch does not run. */
			CHECK_OK(sluice_launch(space, NULL, kernel_read,
					       (struct sluice_grid){1, 1, 1}, outside[i],
					       sizeof(bad), NULL, 0));
			CHECK_OK(sluice_launch(space, NULL, kernel_write,
					       (struct sluice_grid){1, 1, 1}, &good,
					       sizeof(good), NULL, 0));
			CHECK_FAILS(sluice_stream_synchronize(space, NULL), -EFAULT,
				    address_text(outside[i]->data));
			CHECK_OK(sluice_stream_synchronize(space, NULL));
		}
		CHECK_OK(launch_one(space, kernel_read, &good, NULL, 0));
		CHECK(kernel_saw == 5 || kernel_saw == 7);
		CHECK_OK(sluice_space_check(space));
		fault_space_end(space);
	}
}

static void
host_past_its_region_gets_the_signal(void)
{
	struct sluice_space *space = fault_space(NULL);
	char *addr = alloc_zeros(space, 3 * MIB);
	uint64_t value;

	CHECK(fault_read(addr + 2 * CHUNK, &value) == SIGSEGV);
	CHECK(fault_write(addr + 2 * CHUNK + PAGE, 1) == SIGSEGV);
	CHECK_OK(sluice_unmap(space, addr));
	CHECK(fault_read(addr, &value) == SIGSEGV); /* unmapped: not zeros */
	fault_space_end(space);
}

static void
undeclared_touch_is_a_miss_and_fails_only_if_asked(void)
{
	static const char *const misses[] = {"miss=serve", "miss=fail"};

	for (size_t i = 0; i < COUNT_OF(misses); i++) {
		struct sluice_space *space = fault_space(misses[i]);
		char *addr = alloc_zeros(space, 4 * CHUNK);
		struct sluice_use use = {addr, CHUNK, SLUICE_USE_READ_WRITE};
		struct fault_range range = {addr + 3 * CHUNK + 128, 0};

		if (i == 0)
			CHECK_OK(launch_one(space, kernel_write, &range, &use, 1));
		else
			CHECK_FAILS(launch_one(space, kernel_write, &range, &use, 1), -EFAULT,
				    "launch 1", address_text(range.data), "declare");
		CHECK(fault_counter(space, SLUICE_COUNTER_MISSES) == 1);
		/* Served all the same. */
		CHECK(*(uint64_t *)(void *)range.data == 7);
		range.data = addr + 64;
		CHECK_OK(launch_one(space, kernel_write, &range, &use, 1));
		CHECK(fault_counter(space, SLUICE_COUNTER_MISSES) == 1);
		fault_space_end(space);
	}
}

static void
write_through_a_read_mapping_is_refused_and_the_file_unchanged(void)
{
	for (size_t d = 0; d < COUNT_OF(deliveries); d++) {
		for (int present = 0; present < 2; present++) {
			struct sluice_space *space = fault_space(deliveries[d]);
			struct fault_range range = {NULL, PAGE};
			uint64_t value;
			void *addr;

			fault_file_make("data", 2 * CHUNK, 1);
			CHECK_OK(sluice_map(space, "data", 0, 0, SLUICE_READ, &addr));
			range.data = addr;
			if (present)
				CHECK(fault_read(addr, &value) == 0);
			CHECK_FAILS(launch_one(space, kernel_write, &range, NULL, 0),
				    -EACCES, address_text(addr), "data", "SLUICE_WRITE");
			CHECK(fault_write(addr, 7) == SIGBUS);
			CHECK_LOGGED("host code", "SLUICE_WRITE", address_text(addr));
			CHECK(fault_read(addr, &value) == 0 && value == fault_word(1, 0));
			CHECK_OK(sluice_sync(space, addr, SLUICE_TO_END));
			CHECK_OK(sluice_unmap(space, addr));
			CHECK(fault_file_has("data", 0, 2 * CHUNK, 1, 0));
			fault_space_end(space);
		}
	}
}

/* ---- unmapping what is in use ----------------------------------------------------------- */

static atomic_int unmap_called;
static atomic_int kernel_started;

/* Write all of the range late: when somebody has asked to unmap it. */
static void
kernel_late(const struct sluice_block *block, void *args)
{
	const struct fault_range *range = args;

	(void)block;
	atomic_store(&kernel_started, 1);
	while (!atomic_load(&unmap_called))
		usleep(100);
	usleep(20000);
	fault_fill(range->data, range->bytes, 8);
}

static void
unmap_waits_for_a_launch_that_uses_the_region(void)
{
	for (int declared = 0; declared < 2; declared++) {
		struct sluice_space *space = fault_space(NULL);
		struct fault_range range = {NULL, 2 * CHUNK};
		struct sluice_use use;
		void *addr;

		unmap_called = kernel_started = 0;
		CHECK_OK(sluice_map(space, "data", 0, range.bytes, RW | SLUICE_CREATE, &addr));
		range.data = addr;
		use = (struct sluice_use){addr, range.bytes, SLUICE_USE_WRITE_ALL};
		CHECK_OK(sluice_launch(space, NULL, kernel_late,
				       (struct sluice_grid){1, 1, 1}, &range,
				       sizeof(range), &use, declared));
		while (!kernel_started)
			usleep(100);
		unmap_called = 1;
		CHECK_OK(sluice_unmap(space, addr));
		CHECK_OK(sluice_stream_synchronize(space, NULL));
		CHECK(fault_file_has("data", 0, range.bytes, 8, 0));
		fault_space_end(space);
		CHECK(!unlink("data"));
	}
}

struct unmapper {
	struct sluice_space *space;
	void *addr;
	int rc;
	atomic_int done;
};

static void *
unmapper_run(void *arg)
{
	struct unmapper *u = arg;

	u->rc = sluice_unmap(u->space, u->addr);
	atomic_store(&u->done, 1);
	return NULL;
}

static void
own_scope_makes_unmap_ebusy_and_others_wait(void)
{
	struct sluice_space *space = fault_space(NULL);
	struct unmapper other = {.space = space};
	struct sluice_launch *scope;
	struct sluice_use use;
	pthread_t thread;
	char *addr;
	void *map;

	CHECK_OK(sluice_map(space, "data", 0, 2 * CHUNK, RW | SLUICE_CREATE, &map));
	addr = map;
	use = (struct sluice_use){addr, CHUNK, SLUICE_USE_READ_WRITE};
	CHECK_OK(sluice_launch_begin(space, NULL, &use, 1, &scope));
	CHECK_FAILS(sluice_unmap(space, addr), -EBUSY, "data", "sluice_launch_end");
	CHECK_FAILS(sluice_sync(space, addr, SLUICE_TO_END), -EBUSY, "data",
		    "sluice_launch_end");
	CHECK_FAILS(sluice_remap(space, addr, SLUICE_READ), -EBUSY, "sluice_launch_end");
	CHECK_FAILS(sluice_evict(space, addr, CHUNK, SLUICE_TIER_HOST, NULL), -EBUSY,
		    "sluice_launch_end");
	CHECK_FAILS(sluice_discard(space, addr, CHUNK, SLUICE_DISCARD_EAGER, NULL),
		    -EBUSY, "sluice_launch_end");
	other.addr = addr;
	CHECK(!pthread_create(&thread, NULL, unmapper_run, &other));
	usleep(20000);
	CHECK(!atomic_load(&other.done));
	fault_fill(addr, CHUNK, 3); /* still ours */
	CHECK(!atomic_load(&other.done));
	sluice_launch_end(scope);
	CHECK(!pthread_join(thread, NULL));
	CHECK_OK(other.rc);
	CHECK(fault_file_has("data", 0, CHUNK, 3, 0));
	fault_space_end(space);
}

static void
pinned_region_makes_unmap_ebusy(void)
{
	struct sluice_space *space = fault_space(NULL);
	char *addr = alloc_zeros(space, 2 * CHUNK);

	CHECK_OK(sluice_pin(space, addr + CHUNK, CHUNK));
	fault_fill(addr, 2 * CHUNK, 4);
	CHECK_FAILS(sluice_unmap(space, addr), -EBUSY, "pinned", "sluice_unpin");
	CHECK_FAILS(sluice_discard(space, addr, 2 * CHUNK, SLUICE_DISCARD_EAGER, NULL),
		    -EBUSY, "pinned");
	CHECK(fault_has(addr, 2 * CHUNK, 4));
	CHECK_OK(sluice_unpin(space, addr + CHUNK, CHUNK));
	CHECK_OK(sluice_unmap(space, addr));
	fault_space_end(space);
}

int
main(int argc, char **argv)
{
	static const struct fault_case cases[] = {
		CASE(declared_set_above_the_budget_is_enobufs_and_fault_mode_runs_on),
		CASE(wrong_launches_are_refused_at_the_call),
		CASE(failed_write_all_launch_leaves_what_the_host_has),
		CASE(failed_launch_leaves_eagerly_discarded_pages_watched),
		CASE(kernel_past_its_region_is_efault_with_the_address),
		CASE(host_past_its_region_gets_the_signal),
		CASE(undeclared_touch_is_a_miss_and_fails_only_if_asked),
		CASE(write_through_a_read_mapping_is_refused_and_the_file_unchanged),
		CASE(unmap_waits_for_a_launch_that_uses_the_region),
		CASE(own_scope_makes_unmap_ebusy_and_others_wait),
		CASE(pinned_region_makes_unmap_ebusy),
	};

	return fault_main(argc, argv, cases, COUNT_OF(cases));
}

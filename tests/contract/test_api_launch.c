/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The promises of sluice/launch.h on the software device: the savings of intents, the pins of
 * launches, streams and events. Misses and host writes cost time and never data.
 */
#include "api.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void
write_all_is_never_read_in(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 4 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	launch(s, KERNEL_FILL, p, 4 * CHUNK, SLUICE_USE_WRITE_ALL, 2);
	space_sync(s);
	CHECK_EQ(store_reads(s), 0);
	CHECK_EQ(h2d(s), 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_ZERO_FILL), 4 * CHUNK);
	CHECK(sluice_unmap(s, p) == 0);
	file_expect(path, 0, 4 * CHUNK, 2, 0);
	space_end(s);
}

static void
write_all_of_a_range_reads_only_the_chunks_it_covers_in_part(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 4 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	launch(s, KERNEL_FILL, p + PAGE, 3 * CHUNK, SLUICE_USE_WRITE_ALL, 2);
	space_sync(s);
	CHECK_EQ(store_reads(s), 2 * CHUNK);
	CHECK(sluice_unmap(s, p) == 0);
	file_expect(path, 0, PAGE, 1, 0);
	file_expect(path, PAGE, 3 * CHUNK, 2, 0);
	file_expect(path, PAGE + 3 * CHUNK, CHUNK - PAGE, 1, (PAGE + 3 * CHUNK) / 8);
	space_end(s);
}

static void
write_all_of_the_last_odd_chunk_reads_nothing(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 3 * CHUNK, 1);
	uint64_t size = CHUNK + 8 * 77;
	char *p = region_map(s, path, 0, size, SLUICE_READ | SLUICE_WRITE);

	launch(s, KERNEL_FILL, p, size, SLUICE_USE_WRITE_ALL, 2);
	CHECK(sluice_sync(s, p, SLUICE_TO_END) == 0);
	CHECK_EQ(store_reads(s), 0);
	CHECK_EQ(store_writes(s), size);
	file_expect(path, 0, size, 2, 0);
	file_expect(path, size, 3 * CHUNK - size, 1, size / 8);
	space_end(s);
}

static void
read_intent_is_dropped_without_copy_out(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 24 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	for (uint64_t i = 0; i < 24; i++)
		launch(s, KERNEL_READ, at_chunk(p, i), CHUNK, SLUICE_USE_READ, 0);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_EVICTIONS), 16);
	CHECK_EQ(counter(s, SLUICE_COUNTER_CLEAN_DROP), 16 * CHUNK);
	CHECK_EQ(counter(s, SLUICE_COUNTER_H2D_LAUNCH), 24 * CHUNK);
	CHECK_EQ(d2h(s), 0);
	CHECK_EQ(store_writes(s), 0);
	CHECK_EQ(resident_peak(s, SLUICE_TIER_DEVICE), 8 * CHUNK);
	space_end(s);
}

static void
write_intents_are_copied_out_once_each(void)
{
	static const enum sluice_intent intents[] = {SLUICE_USE_WRITE, SLUICE_USE_READ_WRITE,
						     SLUICE_USE_WRITE_ALL};

	for (int k = 0; k < 3; k++) {
		struct sluice_space *s = space_make("");
		const char *path = file_make("f", 24 * CHUNK, 1);
		char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

		for (uint64_t i = 0; i < 24; i++)
			use(s, at_chunk(p, i), CHUNK, intents[k]);
		space_sync(s);
		CHECK_EQ(counter(s, SLUICE_COUNTER_D2H_EVICT), 16 * CHUNK);
		CHECK_EQ(counter(s, SLUICE_COUNTER_CLEAN_DROP), 0);
		CHECK(sluice_unmap(s, p) == 0);
		CHECK_EQ(d2h(s), 24 * CHUNK);
		CHECK_EQ(store_writes(s), 24 * CHUNK);
		CHECK_EQ(store_reads(s), k < 2 ? 24 * CHUNK : 0);
		space_end(s);
	}
}

static void
scratch_is_neither_read_nor_written_back(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 24 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	for (uint64_t i = 0; i < 24; i++)
		launch(s, KERNEL_FILL, at_chunk(p, i), CHUNK, SLUICE_USE_SCRATCH, i);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_DISCARD_SAVED), 16 * CHUNK);
	CHECK(sluice_unmap(s, p) == 0);
	CHECK_EQ(store_reads(s), 0);
	CHECK_EQ(h2d(s), 0);
	CHECK_EQ(d2h(s), 0);
	CHECK_EQ(store_writes(s), 0);
	file_expect(path, 0, 24 * CHUNK, 1, 0);
	space_end(s);
}

static void
host_writes_after_a_read_launch_are_not_lost(void)
{
	struct sluice_space *s = space_make("host_budget=32M");
	const char *path = file_make("f", 24 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	launch(s, KERNEL_READ, p, 4 * CHUNK, SLUICE_USE_READ, 0);
	space_sync(s);
	for (uint64_t i = 0; i < 4; i++)
		at_chunk(p, i)[i * PAGE + 5] = (char)(100 + i);
	CHECK_EQ(counter(s, SLUICE_COUNTER_WRITE_FAULTS), 4);
	for (uint64_t i = 4; i < 24; i++)
		use(s, at_chunk(p, i), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_D2H_EVICT), 4 * CHUNK);
	for (uint64_t i = 0; i < 4; i++)
		CHECK(at_chunk(p, i)[i * PAGE + 5] == (char)(100 + i));
	CHECK(sluice_unmap(s, p) == 0);
	for (uint64_t i = 0; i < 4; i++)
		CHECK(file_byte(path, i * CHUNK + i * PAGE + 5) == 100 + i);
	space_end(s);
}

/* Writes a word as soon as its page is present. */
struct early_writer {
	uint64_t *word;
	uint64_t value;
};

static void *
early_write(void *arg)
{
	struct early_writer *w = arg;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	CHECK(fd >= 0);
	while (!(entry >> 63))
		CHECK(pread(fd, &entry, sizeof(entry),
			    (off_t)((uintptr_t)w->word / PAGE * sizeof(entry))) ==
		      sizeof(entry));
	*(volatile uint64_t *)w->word = w->value;
	close(fd);
	return NULL;
}

/* The larger the chunk the longer it takes to guard one that is present already. */
static void
host_write_while_a_read_launch_brings_the_chunk_in_is_not_lost(void)
{
	static const char *const hosts[] = {
		"chunk=32M,device_budget=64M,host_budget=0,staging=128M",
		"chunk=32M,device_budget=64M,host_budget=32M,staging=128M",
		"chunk=32M,device_budget=64M,host_budget=64M,staging=128M"};

	for (size_t k = 0; k < sizeof(hosts) / sizeof(hosts[0]); k++) {
		struct sluice_space *s = space_make(hosts[k]);
		const char *path = file_make("f", 64 * MIB, 1);
		char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);
		char *mem = region_alloc(s, 64 * MIB);

		launch(s, KERNEL_FILL, mem, 64 * MIB, SLUICE_USE_WRITE_ALL, 1);
		space_sync(s);
		for (uint64_t i = 0; i < 4; i++) {
			char *base = (i % 2 ? mem : p) + i / 2 * 32 * MIB;
			struct early_writer w = {(uint64_t *)(void *)base, 1000 + i};
			pthread_t thread;

			CHECK(sluice_evict(s, p, 64 * MIB, SLUICE_TIER_STORE, NULL) == 0);
			CHECK(sluice_evict(s, mem, 64 * MIB, SLUICE_TIER_HOST, NULL) == 0);
			CHECK(pthread_create(&thread, NULL, early_write, &w) == 0);
			use(s, base, 32 * MIB, SLUICE_USE_READ);
			space_sync(s);
			pthread_join(thread, NULL);
			CHECK(sluice_evict(s, base, 32 * MIB, SLUICE_TIER_STORE, NULL) == 0);
			CHECK_EQ(*w.word, w.value);
			CHECK_EQ(w.word[1], pattern(1, (uint64_t)(i / 2 * 32 * MIB / 8 + 1)));
		}
		space_end(s);
	}
}

static void
resident_launch_moves_nothing_and_is_counted(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, 4 * CHUNK);
	uint64_t before;

	launch(s, KERNEL_FILL, p, 4 * CHUNK, SLUICE_USE_WRITE_ALL, 1);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_LAUNCHES_RESIDENT), 0);
	before = counter(s, SLUICE_COUNTER_ZERO_FILL);
	for (int i = 0; i < 5; i++)
		launch(s, KERNEL_ADD, p, 4 * CHUNK, SLUICE_USE_READ_WRITE, 1);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_LAUNCHES), 6);
	CHECK_EQ(counter(s, SLUICE_COUNTER_LAUNCHES_RESIDENT), 5);
	CHECK_EQ(counter(s, SLUICE_COUNTER_ZERO_FILL), before);
	CHECK_EQ(h2d(s), 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_FAULTS), 0);
	space_end(s);
}

static void
declared_launch_takes_no_fault(void)
{
	struct sluice_space *s = space_make("device_budget=4M");
	const char *path = file_make("f", 16 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	for (uint64_t i = 0; i < 16; i++)
		launch(s, KERNEL_ADD, at_chunk(p, i), CHUNK, SLUICE_USE_READ_WRITE, 7);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_FAULTS), 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_WRITE_FAULTS), 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_MISSES), 0);
	for (uint64_t i = 0; i < 16 * CHUNK / 8; i += 999)
		CHECK(((uint64_t *)(void *)p)[i] == pattern(1, i) + 7);
	space_end(s);
}

static void
undeclared_launch_runs_by_faults(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 4 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	launch(s, KERNEL_FILL, p, 4 * CHUNK, SLUICE_USE_COUNT, 2);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_H2D_FAULT), 4 * CHUNK);
	CHECK(counter(s, SLUICE_COUNTER_FAULTS) >= 4);
	CHECK_EQ(counter(s, SLUICE_COUNTER_CPU_FAULTS), 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_MISSES), 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_H2D_LAUNCH), 0);
	memory_expect(p, 4 * CHUNK, 2);
	space_end(s);
}

/* The kernel fills two chunks but declares one. */
static int
launch_with_a_miss(struct sluice_space *s, char *p, uint64_t seed)
{
	struct kernel_args args = {p, 2 * CHUNK, seed, KERNEL_FILL};
	struct sluice_use one = {p, CHUNK, SLUICE_USE_WRITE_ALL};

	return sluice_launch(s, NULL, kernel_range, (struct sluice_grid){1, 1, 1}, &args,
			     sizeof(args), &one, 1);
}

static void
miss_costs_time_and_never_the_result(void)
{
	struct sluice_space *s = space_make("miss=serve");
	char *p = region_alloc(s, 4 * CHUNK);

	CHECK(launch_with_a_miss(s, p, 3) == 0);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_MISSES), 1);
	CHECK_EQ(counter(s, SLUICE_COUNTER_FAULTS), 1);
	memory_expect(p, 2 * CHUNK, 3);
	space_end(s);
}

static void
miss_fails_the_launch_where_asked_and_is_served_all_the_same(void)
{
	struct sluice_space *s = space_make("miss=fail");
	char *p = region_alloc(s, 4 * CHUNK);
	char address[32];

	CHECK(launch_with_a_miss(s, p, 3) == 0);
	snprintf(address, sizeof(address), "%p", (void *)at_chunk(p, 1));
	CHECK_FAILS(sluice_stream_synchronize(s, NULL), -EFAULT, address);
	CHECK_EQ(counter(s, SLUICE_COUNTER_MISSES), 1);
	memory_expect(p, 2 * CHUNK, 3);
	launch(s, KERNEL_FILL, p, 2 * CHUNK, SLUICE_USE_WRITE_ALL, 4);
	space_sync(s); /* the error was reported and is gone */
	memory_expect(p, 2 * CHUNK, 4);
	space_end(s);
}

static void
launches_behind_a_failed_one_are_not_run_until_somebody_has_seen_it(void)
{
	struct sluice_space *s = space_make("miss=fail");
	char *p = region_alloc(s, 4 * CHUNK);
	char *q = region_alloc(s, CHUNK);

	CHECK(launch_with_a_miss(s, p, 3) == 0);
	launch(s, KERNEL_FILL, q, CHUNK, SLUICE_USE_WRITE, 1);
	CHECK_FAILS(sluice_stream_synchronize(s, NULL), -EFAULT, "launch 1");
	memory_expect_zeros(q, CHUNK);
	CHECK(sluice_stream_synchronize(s, NULL) == 0);
	launch(s, KERNEL_FILL, q, CHUNK, SLUICE_USE_WRITE, 2);
	space_sync(s);
	memory_expect(q, CHUNK, 2);
	space_end(s);
}

static void
arguments_and_uses_are_copied_at_the_call(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, CHUNK), *q = region_alloc(s, CHUNK);
	struct kernel_args args = {p, CHUNK, 5, KERNEL_FILL};
	struct sluice_use one = {p, CHUNK, SLUICE_USE_WRITE_ALL};
	struct gate gate;

	gate_close(&gate, s, NULL);
	CHECK(sluice_launch(s, NULL, kernel_range, (struct sluice_grid){2, 1, 1}, &args,
			    sizeof(args), &one, 1) == 0);
	args = (struct kernel_args){q, CHUNK, 6, KERNEL_FILL};
	one = (struct sluice_use){q, CHUNK, SLUICE_USE_SCRATCH};
	gate_open(&gate);
	space_sync(s);
	memory_expect(p, CHUNK, 5);
	memory_expect_zeros(q, CHUNK);
	space_end(s);
}

static void
wrong_launches_are_refused_at_the_call(void)
{
	struct sluice_space *s = space_make("");
	struct sluice_grid grid = {1, 1, 1}, empty = {1, 0, 1};
	char *p = region_alloc(s, 16 * CHUNK);
	struct sluice_use large = {p, 16 * CHUNK, SLUICE_USE_READ};
	struct sluice_use past = {p + 15 * CHUNK, 2 * CHUNK, SLUICE_USE_READ};
	struct sluice_use none = {&grid, 8, SLUICE_USE_READ},
			  nothing = {p, 0, SLUICE_USE_READ};
	struct sluice_use contrary[2] = {{p, CHUNK, SLUICE_USE_READ},
					 {p + CHUNK / 2, CHUNK, SLUICE_USE_WRITE_ALL}};
	char bytes[1025] = {0};

	CHECK_FAILS(sluice_launch(s, NULL, kernel_nothing, empty, NULL, 0, NULL, 0),
		    -EINVAL, "grid");
	CHECK_FAILS(sluice_launch(s, NULL, NULL, grid, NULL, 0, NULL, 0), -EINVAL, "kernel");
	CHECK_FAILS(sluice_launch(s, NULL, kernel_nothing, grid, bytes, 1025, NULL, 0),
		    -EINVAL, "1024");
	CHECK_FAILS(launch_uses(s, &none, 1), -ENOENT, "no region");
	CHECK_FAILS(launch_uses(s, &nothing, 1), -EINVAL, "size 0");
	CHECK_FAILS(launch_uses(s, contrary, 2), -EINVAL, "same bytes");
	CHECK_FAILS(launch_uses(s, &past, 1), -ENOENT, "past the end");
	CHECK_FAILS(launch_uses(s, &large, 1), -ENOBUFS, "33554432");
	CHECK_EQ(h2d(s), 0);
	space_end(s);
}

static void
largest_launch_of_kilobyte_arguments_and_whole_budget_runs(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, 8 * CHUNK);
	struct sluice_use all[3] = {
		{p, 8 * CHUNK, SLUICE_USE_WRITE}, /* overlapping uses count once */
		{p + 5, CHUNK, SLUICE_USE_READ},
		{p, 8 * CHUNK, SLUICE_USE_READ_WRITE},
	};
	char bytes[1024] = {0};

	CHECK(sluice_launch(s, NULL, kernel_nothing, (struct sluice_grid){3, 5, 7}, bytes,
			    1024, all, 3) == 0);
	space_sync(s);
	CHECK_EQ(resident(s, SLUICE_TIER_DEVICE), 8 * CHUNK);
	space_end(s);
}

static void
launch_scope_keeps_its_data_present_until_it_ends(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 24 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ);
	struct sluice_use mine = {p, 4 * CHUNK, SLUICE_USE_READ};
	struct sluice_launch *scope;

	CHECK(sluice_launch_begin(s, NULL, &mine, 1, &scope) == 0);
	CHECK_EQ(residency(s, p, 4 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 4 * CHUNK);
	for (uint64_t i = 4; i < 24; i++)
		use(s, at_chunk(p, i), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(residency(s, p, 4 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 4 * CHUNK);
	memory_expect(p, 4 * CHUNK, 1);
	CHECK_EQ(counter(s, SLUICE_COUNTER_CPU_FAULTS), 0);
	sluice_launch_end(scope);
	for (uint64_t i = 4; i < 12; i++)
		use(s, at_chunk(p, i), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(residency(s, p, 4 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 0);
	space_end(s);
}

static void
as_many_uses_as_a_launch_may_have_pin_what_they_use(void)
{
	enum { USES = 65536 };
	struct sluice_space *s = space_make("host_budget=64M");
	struct sluice_use *uses = malloc(USES * sizeof(*uses));
	uint64_t bytes = CHUNK / USES;
	char *p = region_alloc(s, 2 * CHUNK), *other = region_alloc(s, 12 * CHUNK);
	struct sluice_stream *stream;
	struct gate gate;

	CHECK(uses != NULL && sluice_stream_create(s, &stream) == 0);
	for (size_t i = 0; i < USES; i++)
		uses[i] = (struct sluice_use){p + i * bytes, bytes, SLUICE_USE_READ};
	memory_fill(p, CHUNK, 1);
	gate_close(&gate, s, stream);
	/* All is there, so it is pinned at once: faults that need room look for it elsewhere. */
	CHECK(sluice_launch(s, stream, kernel_nothing, (struct sluice_grid){1, 1, 1},
			    NULL, 0, uses, USES) == 0);
	memory_fill(other, 12 * CHUNK, 2);
	CHECK_EQ(residency(s, p, CHUNK).tier_bytes[SLUICE_TIER_DEVICE], CHUNK);
	gate_open(&gate);
	CHECK(sluice_stream_synchronize(s, stream) == 0);
	memory_fill(other, 12 * CHUNK, 3);
	CHECK_EQ(residency(s, p, CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 0);
	sluice_stream_destroy(stream);
	free(uses);
	space_end(s);
}

static void
work_enqueued_within_a_scope_is_covered_by_it(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, 4 * CHUNK), *q = region_alloc(s, 16 * CHUNK);
	struct sluice_use mine = {p, 4 * CHUNK, SLUICE_USE_WRITE};
	struct sluice_stream *other;
	struct sluice_launch *scope;
	struct gate gate;

	CHECK(sluice_stream_create(s, &other) == 0);
	CHECK(sluice_launch_begin(s, NULL, &mine, 1, &scope) == 0);
	gate_close(&gate, s, NULL);
	launch(s, KERNEL_FILL, p, 4 * CHUNK, SLUICE_USE_COUNT, 9);
	sluice_launch_end(scope);
	for (uint64_t i = 0; i < 16; i++) { /* pressure, on another stream, before it runs */
		struct sluice_use one = {at_chunk(q, i), CHUNK, SLUICE_USE_WRITE_ALL};

		CHECK(sluice_launch(s, other, kernel_nothing,
				    (struct sluice_grid){1, 1, 1}, NULL, 0, &one, 1) == 0);
	}
	CHECK(sluice_stream_synchronize(s, other) == 0);
	CHECK_EQ(residency(s, p, 4 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 4 * CHUNK);
	gate_open(&gate);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_FAULTS), 0);
	memory_expect(p, 4 * CHUNK, 9);
	sluice_stream_destroy(other);
	space_end(s);
}

static void
host_code_reaches_managed_memory_at_any_time(void)
{
	struct sluice_space *s = space_make("device_budget=4M");
	const char *path = file_make("f", 8 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);
	struct gate gate;

	gate_close(&gate, s, NULL);
	launch(s, KERNEL_ADD, p, CHUNK, SLUICE_USE_READ_WRITE, 1);
	launch(s, KERNEL_ADD, at_chunk(p, 1), CHUNK, SLUICE_USE_READ_WRITE, 1);
	for (uint64_t i = 2; i < 8; i++) /* budget of two, both pinned by what waits */
		CHECK(*(uint64_t *)(void *)at_chunk(p, i) == pattern(1, i * CHUNK / 8));
	gate_open(&gate);
	space_sync(s);
	for (uint64_t i = 0; i < 2; i++)
		CHECK(*(uint64_t *)(void *)at_chunk(p, i) == pattern(1, i * CHUNK / 8) + 1);
	space_end(s);
}

static char notes[8];
static char *note_next = notes;

static void
note_take(void *arg)
{
	*note_next++ = *(char *)arg;
}

static void
streams_keep_their_order_and_events_join_them(void)
{
	struct sluice_space *s = space_make("");
	struct sluice_stream *one, *two;
	struct sluice_event *event;
	char a = 'a', b = 'b', c = 'c';
	struct gate gate;

	CHECK(sluice_stream_create(s, &one) == 0 && sluice_stream_create(s, &two) == 0);
	CHECK(sluice_event_create(s, &event) == 0);
	CHECK(sluice_event_query(event) == 0); /* never recorded: complete */
	sluice_event_synchronize(event);
	gate_close(&gate, s, one);
	CHECK(sluice_stream_callback(s, one, note_take, &a) == 0);
	CHECK(sluice_event_record(s, one, event) == 0);
	CHECK(sluice_event_query(event) == -EAGAIN);
	CHECK(sluice_event_wait(s, two, event) == 0);
	CHECK(sluice_stream_callback(s, two, note_take, &b) == 0);
	CHECK(sluice_stream_callback(s, two, note_take, &c) == 0);
	gate_open(&gate);
	CHECK(sluice_stream_synchronize(s, two) == 0);
	CHECK(sluice_event_query(event) == 0);
	CHECK(!strcmp(notes, "abc"));
	sluice_stream_destroy(one);
	sluice_stream_destroy(two);
	sluice_event_destroy(event);
	space_end(s);
}

static void
memory_touch(void *arg)
{
	memory_fill(arg, CHUNK, 8);
}

static void
host_callback_touches_managed_memory(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, CHUNK);

	launch(s, KERNEL_FILL, p, CHUNK, SLUICE_USE_WRITE_ALL, 1);
	CHECK(sluice_stream_callback(s, NULL, memory_touch, p) == 0);
	launch(s, KERNEL_ADD, p, CHUNK, SLUICE_USE_READ_WRITE, 1);
	space_sync(s);
	CHECK(*(uint64_t *)(void *)p == pattern(8, 0) + 1);
	space_end(s);
}

struct grid_args {
	uint32_t *count;
};

static void
kernel_count(const struct sluice_block *block, void *args)
{
	const struct grid_args *a = args;
	uint64_t i = block->index.x +
		     block->grid.x *
			     (block->index.y + (uint64_t)block->grid.y * block->index.z);

	__atomic_fetch_add(&a->count[i], 1 + (block->worker >= 2), __ATOMIC_RELAXED);
}

static void
grid_blocks_are_numbered_x_fastest_and_each_run_once(void)
{
	struct sluice_space *s = space_make("");
	struct grid_args args = {region_alloc(s, CHUNK)};

	CHECK(sluice_launch(s, NULL, kernel_count, (struct sluice_grid){7, 5, 3}, &args,
			    sizeof(args), NULL, 0) == 0);
	space_sync(s);
	for (int i = 0; i < 7 * 5 * 3; i++)
		CHECK(args.count[i] == 1);
	memory_expect_zeros(args.count + 7 * 5 * 3, 1000);
	space_end(s);
}

static const struct api_case cases[] = {
	CASE(write_all_is_never_read_in),
	CASE(write_all_of_a_range_reads_only_the_chunks_it_covers_in_part),
	CASE(write_all_of_the_last_odd_chunk_reads_nothing),
	CASE(read_intent_is_dropped_without_copy_out),
	CASE(write_intents_are_copied_out_once_each),
	CASE(scratch_is_neither_read_nor_written_back),
	CASE(host_writes_after_a_read_launch_are_not_lost),
	CASE(host_write_while_a_read_launch_brings_the_chunk_in_is_not_lost),
	CASE(resident_launch_moves_nothing_and_is_counted),
	CASE(declared_launch_takes_no_fault),
	CASE(undeclared_launch_runs_by_faults),
	CASE(miss_costs_time_and_never_the_result),
	CASE(miss_fails_the_launch_where_asked_and_is_served_all_the_same),
	CASE(launches_behind_a_failed_one_are_not_run_until_somebody_has_seen_it),
	CASE(arguments_and_uses_are_copied_at_the_call),
	CASE(wrong_launches_are_refused_at_the_call),
	CASE(largest_launch_of_kilobyte_arguments_and_whole_budget_runs),
	CASE(launch_scope_keeps_its_data_present_until_it_ends),
	CASE(as_many_uses_as_a_launch_may_have_pin_what_they_use),
	CASE(work_enqueued_within_a_scope_is_covered_by_it),
	CASE(host_code_reaches_managed_memory_at_any_time),
	CASE(streams_keep_their_order_and_events_join_them),
	CASE(host_callback_touches_managed_memory),
	CASE(grid_blocks_are_numbered_x_fastest_and_each_run_once),
};
API_MAIN(cases)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The promises of sluice/region.h: mapping, allocating, sync, remap, unmap, and several processes
 * on one file, on the software device. What must fail, and how, is tests/fault's.
 */
#include "api.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void
mapped_file_is_read_through_a_pointer(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 3 * CHUNK, 1);
	void *p = region_map(s, path, 0, 0, SLUICE_READ);

	CHECK((uintptr_t)p % CHUNK == 0);
	memory_expect(p, 3 * CHUNK, 1);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_READ_DEMAND), 3 * CHUNK);
	CHECK_EQ(counter(s, SLUICE_COUNTER_H2D_CPU), 3 * CHUNK);
	CHECK_EQ(counter(s, SLUICE_COUNTER_CPU_FAULTS), 3);
	CHECK(sluice_unmap(s, p) == 0);
	CHECK_EQ(store_writes(s), 0);
	space_end(s);
}

static void
offset_selects_the_part_that_is_mapped(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 2 * CHUNK, 1);
	uint64_t *p = region_map(s, path, 3 * PAGE, CHUNK, SLUICE_READ | SLUICE_WRITE);

	for (uint64_t i = 0; i < CHUNK / 8; i++)
		CHECK(p[i] == pattern(1, i + 3 * PAGE / 8));
	memory_fill(p, CHUNK, 2);
	CHECK(sluice_unmap(s, p) == 0);
	file_expect(path, 0, 3 * PAGE, 1, 0);
	file_expect(path, 3 * PAGE, CHUNK, 2, 0);
	file_expect(path, 3 * PAGE + CHUNK, CHUNK - 3 * PAGE, 1, (3 * PAGE + CHUNK) / 8);
	space_end(s);
}

static void
bytes_behind_the_region_in_its_last_chunk_read_as_zeros(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 2 * CHUNK, 1);
	char *p = region_map(s, path, 0, CHUNK + PAGE + 8, SLUICE_READ);

	memory_expect(p, CHUNK + PAGE + 8, 1);
	memory_expect_zeros(p + CHUNK + PAGE + 8, CHUNK - PAGE - 8);
	space_end(s);
}

static void
partial_last_chunk_keeps_the_bytes_of_the_file_behind_it(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 2 * CHUNK, 1);
	uint64_t size = CHUNK + 5 * PAGE + 16;
	char *p = region_map(s, path, 0, size, SLUICE_READ | SLUICE_WRITE);

	launch(s, KERNEL_FILL, p, size, SLUICE_USE_WRITE_ALL, 2);
	CHECK(sluice_stream_synchronize(s, NULL) == 0);
	memset(p + size, 0xff, 64); /* behind the region: goes nowhere */
	CHECK(sluice_unmap(s, p) == 0);
	CHECK_EQ(file_size(path), 2 * CHUNK);
	file_expect(path, 0, size, 2, 0);
	file_expect(path, size, 2 * CHUNK - size, 1, size / 8);
	space_end(s);
}

static void
odd_tail_of_a_file_is_written_to_the_byte(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", CHUNK + 8, 1);
	uint64_t size = CHUNK + 3;
	unsigned char *p = region_map(s, path, 0, size, SLUICE_READ | SLUICE_WRITE);
	unsigned char behind = file_byte(path, size);

	p[size - 1] = (unsigned char)~p[size - 1];
	CHECK(sluice_sync(s, p, SLUICE_TO_END) == 0);
	CHECK(file_byte(path, size - 1) == p[size - 1]);
	CHECK(file_byte(path, size) == behind);
	CHECK_EQ(file_size(path), CHUNK + 8);
	space_end(s);
}

static void
write_only_mapping_reads_zeros_and_never_reads_the_file(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 2 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_WRITE);

	memory_expect_zeros(p, CHUNK);
	memory_fill(p, CHUNK, 2);
	CHECK(sluice_unmap(s, p) == 0);
	CHECK_EQ(store_reads(s), 0);
	file_expect(path, 0, CHUNK, 2, 0);
	file_expect(path, CHUNK, CHUNK, 1, CHUNK / 8); /* never touched: as it was */
	space_end(s);
}

static void
created_file_has_its_size_and_contents(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_path("new");
	uint64_t size = CHUNK + 100 * 8;
	char *p = region_map(s, path, 0, size, SLUICE_READ | SLUICE_WRITE | SLUICE_CREATE);

	CHECK_EQ(file_size(path), size);
	memory_expect_zeros(p, size);
	memory_fill(p, size, 3);
	CHECK(sluice_unmap(s, p) == 0);
	CHECK_EQ(file_size(path), size);
	file_expect(path, 0, size, 3, 0);
	space_end(s);
}

static void
create_extends_a_shorter_file_and_never_shortens_a_longer_one(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", CHUNK, 1);
	unsigned flags = SLUICE_READ | SLUICE_WRITE | SLUICE_CREATE;
	char *p = region_map(s, path, 0, 2 * CHUNK, flags);

	CHECK_EQ(file_size(path), 2 * CHUNK);
	memory_expect(p, CHUNK, 1);
	memory_expect_zeros(p + CHUNK, CHUNK);
	CHECK(sluice_unmap(s, p) == 0);
	(void)region_map(s, path, 0, PAGE, flags);
	CHECK_EQ(file_size(path), 2 * CHUNK);
	space_end(s);
	CHECK_EQ(file_size(path), 2 * CHUNK);
}

static void
volatile_data_never_touches_the_store_while_host_memory_lasts(void)
{
	struct sluice_space *s = space_make("device_budget=8M,host_budget=16M");
	const char *path = file_make("f", 8 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE | SLUICE_VOLATILE);

	memory_expect_zeros(p, 8 * CHUNK); /* intermediate data: what the file has is not read */
	for (uint64_t pass = 1; pass <= 3; pass++) {
		launch(s, KERNEL_FILL, p, 4 * CHUNK, SLUICE_USE_WRITE_ALL, pass);
		launch(s, KERNEL_FILL, at_chunk(p, 4), 4 * CHUNK, SLUICE_USE_WRITE_ALL, pass);
		CHECK(sluice_sync(s, p, SLUICE_TO_END) == 0);
		space_sync(s);
		memory_expect(p, 4 * CHUNK, pass);
		memory_expect(at_chunk(p, 4), 4 * CHUNK, pass);
	}
	CHECK(d2h(s) >= 8 * CHUNK); /* there was pressure */
	CHECK(sluice_unmap(s, p) == 0);
	CHECK_EQ(store_reads(s), 0);
	CHECK_EQ(store_writes(s), 0);
	file_expect(path, 0, 8 * CHUNK, 1, 0);
	space_end(s);
}

static void
volatile_data_beyond_host_memory_goes_to_the_store_and_comes_back(void)
{
	struct sluice_space *s = space_make("device_budget=8M,host_budget=4M");
	const char *path = file_make("f", 16 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE | SLUICE_VOLATILE);

	memory_fill(p, 16 * CHUNK, 5);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_WRITE_SPILL), 10 * CHUNK); /* 16 - 4 - 2 */
	CHECK_EQ(resident(s, SLUICE_TIER_HOST), 2 * CHUNK);
	memory_expect(p, 16 * CHUNK, 5);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_WRITE_BACK), 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_WRITE_SYNC), 0);
	space_end(s);
}

static void
anonymous_memory_is_zeros_and_spills_only_what_has_no_room(void)
{
	struct sluice_space *s = space_make("device_budget=8M,host_budget=4M");
	char *p = region_alloc(s, 16 * CHUNK);

	for (uint64_t i = 0; i < 16; i++)
		launch(s, KERNEL_READ, at_chunk(p, i), CHUNK, SLUICE_USE_READ, 0);
	space_sync(s);
	CHECK_EQ(d2h(s), 0); /* zeros that were only read are kept nowhere */
	CHECK_EQ(h2d(s), 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_ZERO_FILL), 16 * CHUNK);
	memory_expect_zeros(p, 2 * CHUNK);
	memory_fill(p, 16 * CHUNK, 5);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_WRITE_SPILL), 10 * CHUNK);
	CHECK_EQ(resident(s, SLUICE_TIER_STORE), 10 * CHUNK);
	memory_expect(p, 16 * CHUNK, 5);
	CHECK(sluice_sync(s, p, SLUICE_TO_END) == 0); /* nothing to do */
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_WRITE_SYNC), 0);
	CHECK(sluice_unmap(s, p) == 0);
	CHECK_EQ(resident(s, SLUICE_TIER_DEVICE), 0);
	CHECK_EQ(resident(s, SLUICE_TIER_HOST), 0);
	CHECK_EQ(resident(s, SLUICE_TIER_STORE), 0);
	space_end(s);
}

static void
unmapped_anonymous_memory_is_written_nowhere(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, 4 * CHUNK);

	memory_fill(p, 4 * CHUNK, 1);
	CHECK(sluice_unmap(s, p) == 0);
	CHECK_EQ(d2h(s), 0);
	CHECK_EQ(store_writes(s), 0);
	CHECK_EQ(resident(s, SLUICE_TIER_DEVICE), 0);
	p = region_alloc(s, 4 * CHUNK); /* the addresses may be the same; the bytes are not */
	memory_expect_zeros(p, 4 * CHUNK);
	space_end(s);
}

static void
sync_puts_written_data_into_the_file_and_keeps_them_resident(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 4 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	launch(s, KERNEL_FILL, p, 4 * CHUNK, SLUICE_USE_WRITE_ALL, 2);
	CHECK(sluice_sync(s, p, SLUICE_TO_END) == 0); /* waits for the launch */
	file_expect(path, 0, 4 * CHUNK, 2, 0);
	CHECK_EQ(residency(s, p, 4 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 4 * CHUNK);
	CHECK_EQ(residency(s, p, 4 * CHUNK).dirty_bytes, 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_D2H_SYNC), 4 * CHUNK);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_WRITE_SYNC), 4 * CHUNK);
	CHECK(sluice_sync(s, p, SLUICE_TO_END) == 0); /* nothing is newer: nothing moves */
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_WRITE_SYNC), 4 * CHUNK);
	space_end(s);
}

static void
write_after_a_sync_is_seen_and_written_by_the_next(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 2 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	memory_fill(p, 2 * CHUNK, 2);
	CHECK(sluice_sync(s, p, SLUICE_TO_END) == 0);
	p[CHUNK] = 77; /* host code, on a chunk that is clean and present */
	CHECK(sluice_sync(s, p, SLUICE_TO_END) == 0);
	CHECK(file_byte(path, CHUNK) == 77);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_WRITE_SYNC), 3 * CHUNK);
	launch(s, KERNEL_ADD, p, CHUNK, SLUICE_USE_READ_WRITE, 1);
	CHECK(sluice_sync(s, p, SLUICE_TO_END) == 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_WRITE_SYNC), 4 * CHUNK);
	CHECK(file_byte(path, 0) == (unsigned char)p[0]);
	space_end(s);
}

static void
sync_of_a_range_writes_its_chunks_only(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 4 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	memory_fill(p, 4 * CHUNK, 2);
	CHECK(sluice_sync(s, at_chunk(p, 1), CHUNK + 1) == 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_WRITE_SYNC), 2 * CHUNK);
	file_expect(path, CHUNK, 2 * CHUNK, 2, CHUNK / 8);
	file_expect(path, 0, CHUNK, 1, 0);
	space_end(s);
	file_expect(path, 0, 4 * CHUNK, 2, 0);
}

static void
untouched_data_are_not_written_back(void)
{
	struct sluice_space *s = space_make("device_budget=8M,host_budget=8M");
	const char *path = file_make("f", 16 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	for (uint64_t i = 0; i < 16; i++)
		use(s, at_chunk(p, i), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK(sluice_sync(s, p, SLUICE_TO_END) == 0);
	CHECK(sluice_unmap(s, p) == 0);
	CHECK_EQ(d2h(s), 0);
	CHECK_EQ(store_writes(s), 0);
	space_end(s);
}

static void
unmap_and_destroy_flush_what_was_written(void)
{
	struct sluice_space *s = space_make("device_budget=4M,host_budget=4M");
	const char *one = file_make("one", 5 * CHUNK, 1),
		   *two = file_make("two", 5 * CHUNK, 2);
	char *p = region_map(s, one, 0, 0, SLUICE_READ | SLUICE_WRITE);
	char *q = region_map(s, two, 0, 0, SLUICE_READ | SLUICE_WRITE);

	memory_fill(p, 5 * CHUNK, 3);
	memory_fill(q, 5 * CHUNK, 4);
	CHECK(sluice_unmap(s, p) == 0);
	file_expect(one, 0, 5 * CHUNK, 3, 0);
	CHECK(sluice_space_destroy(s) == 0);
	file_expect(two, 0, 5 * CHUNK, 4, 0);
}

static void
remap_flushes_under_the_old_flags(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 2 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	memory_fill(p, 2 * CHUNK, 2);
	CHECK(sluice_remap(s, p, SLUICE_READ | SLUICE_WRITE | SLUICE_VOLATILE) == 0);
	file_expect(path, 0, 2 * CHUNK, 2, 0);
	memory_expect_zeros(p, PAGE);
	memory_fill(p, 2 * CHUNK, 3);
	CHECK(sluice_remap(s, p, SLUICE_READ) == 0);
	memory_expect(p, 2 * CHUNK, 2); /* the volatile contents are gone */
	CHECK(sluice_remap(s, p, SLUICE_READ | SLUICE_WRITE) == 0);
	memory_fill(p, CHUNK, 4);
	CHECK(sluice_unmap(s, p) == 0);
	file_expect(path, 0, CHUNK, 4, 0);
	file_expect(path, CHUNK, CHUNK, 2, CHUNK / 8);
	space_end(s);
}

static void
regions_are_listed_in_address_order_with_their_names(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 3 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_NO_READAHEAD);
	char *q = region_alloc(s, CHUNK + 5);
	struct sluice_region_info infos[2];
	size_t n = 0;
	int first = p < q ? 0 : 1;

	memory_expect(p, CHUNK, 1);
	CHECK_EQ(residency(s, p, CHUNK).tier_bytes[SLUICE_TIER_DEVICE], CHUNK);
	CHECK(sluice_regions(s, infos, 2, &n) == 0);
	CHECK_EQ(n, 2);
	CHECK((char *)infos[0].addr < (char *)infos[1].addr);
	CHECK(infos[first].addr == p && !strcmp(infos[first].name, path));
	CHECK_EQ(infos[first].size_bytes, 3 * CHUNK);
	CHECK_EQ(infos[first].chunk_bytes, CHUNK);
	CHECK(infos[first].flags == (SLUICE_READ | SLUICE_NO_READAHEAD));
	CHECK_EQ(infos[first].bytes.device, CHUNK);
	CHECK_EQ(infos[first].bytes.store, 2 * CHUNK);
	CHECK(!strcmp(infos[1 - first].name, "anonymous"));
	CHECK_EQ(infos[1 - first].size_bytes, CHUNK + 5);
	CHECK_EQ(infos[1 - first].bytes.empty, CHUNK + 5);
	CHECK(sluice_unmap(s, p) == 0);
	CHECK(sluice_regions(s, NULL, 0, &n) == 0);
	CHECK_EQ(n, 1);
	space_end(s);
}

static void
many_regions_share_the_budget_and_their_addresses_are_reused(void)
{
	struct sluice_space *s = space_make("device_budget=8M,host_budget=8M");
	char *p[40];

	for (int round = 0; round < 3; round++) {
		for (uint64_t i = 0; i < 40; i++) {
			p[i] = region_alloc(s, CHUNK / 2 + i);
			memory_fill(p[i], CHUNK / 2, i);
		}
		CHECK(sluice_space_check(s) == 0);
		for (uint64_t i = 0; i < 40; i++) {
			memory_expect(p[i], CHUNK / 2, i);
			CHECK(sluice_unmap(s, p[i]) == 0);
		}
	}
	CHECK_EQ(resident(s, SLUICE_TIER_STORE), 0);
	CHECK(resident_peak(s, SLUICE_TIER_DEVICE) <= 4 * CHUNK);
	space_end(s);
}

/* ---- several processes on one file ------------------------------------------------------- */

#define PROCESSES 3

/* Rounds: write one's own part, sync, barrier, read all parts. */
static void
process_run(const char *path, uint64_t rank, int to_parent, int from_parent)
{
	struct sluice_space *s = space_make("device_budget=4M");
	uint64_t size = PROCESSES * 2 * CHUNK;
	char *p, byte = 'x';

	for (uint64_t round = 1; round <= 3; round++) {
		p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);
		if (round == 2)
			launch(s, KERNEL_FILL, p + rank * 2 * CHUNK, 2 * CHUNK,
			       SLUICE_USE_WRITE_ALL, rank + round);
		else
			memory_fill(p + rank * 2 * CHUNK, 2 * CHUNK, rank + round);
		CHECK(sluice_sync(s, p + rank * 2 * CHUNK, 2 * CHUNK) == 0);
		CHECK(sluice_unmap(s, p) == 0);
		CHECK(write(to_parent, &byte, 1) == 1 && read(from_parent, &byte, 1) == 1);
		p = region_map(s, path, 0, size, SLUICE_READ);
		for (uint64_t k = 0; k < PROCESSES; k++)
			memory_expect(p + k * 2 * CHUNK, 2 * CHUNK, k + round);
		CHECK(sluice_unmap(s, p) == 0);
		CHECK(write(to_parent, &byte, 1) == 1 && read(from_parent, &byte, 1) == 1);
	}
	space_end(s);
	_exit(0);
}

static void
processes_on_one_file_see_each_other_after_sync_and_barrier(void)
{
	const char *path = file_make("f", PROCESSES * 2 * CHUNK, 0);
	int up[2], down[PROCESSES][2];
	int status;
	char byte;

	CHECK(pipe(up) == 0);
	for (uint64_t i = 0; i < PROCESSES; i++) {
		CHECK(pipe(down[i]) == 0);
		if (fork() == 0)
			process_run(path, i, up[1], down[i][0]);
	}
	close(up[1]);
	for (int barrier = 0; barrier < 6; barrier++) {
		for (int i = 0; i < PROCESSES; i++) {
			if (read(up[0], &byte, 1) != 1) { /* a process is gone: skipped or failed */
				wait(&status);
				_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
			}
		}
		for (int i = 0; i < PROCESSES; i++)
			CHECK(write(down[i][1], &byte, 1) == 1);
	}
	for (int i = 0; i < PROCESSES; i++) {
		CHECK(wait(&status) > 0);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	for (uint64_t i = 0; i < PROCESSES; i++)
		file_expect(path, i * 2 * CHUNK, 2 * CHUNK, i + 3, 0);
}

static void
writes_of_two_processes_to_disjoint_pages_of_one_chunk_survive_page_population(void)
{
	const char *path = file_make("f", CHUNK, 1);
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct sluice_space *s = space_make("population=page");
		char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

		memory_fill(p, 8 * PAGE, 2);
		CHECK(sluice_unmap(s, p) == 0);
		space_end(s);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	if (WEXITSTATUS(status))
		_exit(WEXITSTATUS(status));
	file_expect(path, 0, 8 * PAGE, 2, 0);
	file_expect(path, 8 * PAGE, CHUNK - 8 * PAGE, 1, PAGE);
}

static long
mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	long n = 0;
	int c;

	CHECK(f);
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static void
small_allocations_share_a_mapping_and_are_spilled_without_what_is_behind_them(void)
{
	enum { N = 500 };
	struct sluice_space *s = space_make("device_budget=8M,host_budget=8M");
	static uint64_t *p[N];
	struct sluice_stats stats;
	long before = mappings();

	for (uint64_t i = 0; i < N; i++)
		p[i] = region_alloc(s, 8 * (i + 1));
	CHECK(mappings() - before < N / 4);
	for (uint64_t i = 0; i < N; i++)
		memory_fill(p[i], 8 * (i + 1), i);
	sluice_stats_get(s, &stats);
	CHECK(stats.resident_bytes[SLUICE_TIER_STORE] > 0);
	CHECK(stats.resident_bytes[SLUICE_TIER_STORE] <= N * PAGE);
	for (uint64_t i = 0; i < N; i++)
		memory_expect(p[i], 8 * (i + 1), i);
	for (uint64_t i = 0; i < N; i += 2) /* holes between neighbours that stay */
		CHECK(sluice_unmap(s, p[i]) == 0);
	for (uint64_t i = 1; i < N; i += 2)
		memory_expect(p[i], 8 * (i + 1), i);
	for (uint64_t i = 0; i < N; i += 2) {
		p[i] = region_alloc(s, 8 * (i + 1));
		memory_expect_zeros(p[i], 8 * (i + 1));
	}
	space_end(s);
}

/* Take all mappings that the process may have but so many. NULL: the machine allows too many. */
static char *
mappings_use_up(size_t *bytes, int spare)
{
	const size_t step = 2 * (size_t)PAGE;
	size_t i;
	char *p;

	*bytes = 400000 * (size_t)PAGE;
	p = mmap(NULL, *bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(p != MAP_FAILED);
	for (i = PAGE; i < *bytes; i += step)
		if (mprotect(p + i, PAGE, PROT_READ))
			break;
	if (i >= *bytes) {
		munmap(p, *bytes);
		return NULL;
	}
	for (; spare > 0; spare -= 2) {
		i -= step;
		CHECK(mprotect(p + i, PAGE, PROT_NONE) == 0);
	}
	return p;
}

static void
at_the_limit_of_mappings_alloc_fails_with_its_name_and_memory_given_stays_usable(void)
{
	enum { N = 400 };
	struct sluice_space *s = space_make("device_budget=64M,host_budget=1G");
	static void *p[N];
	size_t bytes, n;
	void *one_more;
	char *used;

#ifdef __SANITIZE_THREAD__
	api_skip(
		"the thread sanitizer needs mappings, too, and ends the program without");
#endif
	used = mappings_use_up(&bytes, 200);
	if (!used) {
		space_end(s);
		return;
	}
	for (n = 0; n < N; n++) {
		int rc = sluice_alloc(s, 2 * CHUNK, 0, &p[n]);

		if (!rc)
			continue;
		CHECK_EQ(rc, -ENOMEM);
		CHECK(strstr(sluice_last_error(), "vm.max_map_count"));
		break;
	}
	CHECK(n > 10 && n < N);
	for (size_t i = 0; i < n; i++)
		memory_fill(p[i], 2 * CHUNK, i);
	for (size_t i = 0; i < n; i++)
		memory_expect(p[i], 2 * CHUNK, i);
	munmap(used, bytes);
	CHECK(sluice_alloc(s, 2 * CHUNK, 0, &one_more) == 0);
	space_end(s);
}

static const struct api_case cases[] = {
	CASE(mapped_file_is_read_through_a_pointer),
	CASE(offset_selects_the_part_that_is_mapped),
	CASE(bytes_behind_the_region_in_its_last_chunk_read_as_zeros),
	CASE(partial_last_chunk_keeps_the_bytes_of_the_file_behind_it),
	CASE(odd_tail_of_a_file_is_written_to_the_byte),
	CASE(write_only_mapping_reads_zeros_and_never_reads_the_file),
	CASE(created_file_has_its_size_and_contents),
	CASE(create_extends_a_shorter_file_and_never_shortens_a_longer_one),
	CASE(volatile_data_never_touches_the_store_while_host_memory_lasts),
	CASE(volatile_data_beyond_host_memory_goes_to_the_store_and_comes_back),
	CASE(anonymous_memory_is_zeros_and_spills_only_what_has_no_room),
	CASE(unmapped_anonymous_memory_is_written_nowhere),
	CASE(sync_puts_written_data_into_the_file_and_keeps_them_resident),
	CASE(write_after_a_sync_is_seen_and_written_by_the_next),
	CASE(sync_of_a_range_writes_its_chunks_only),
	CASE(untouched_data_are_not_written_back),
	CASE(unmap_and_destroy_flush_what_was_written),
	CASE(remap_flushes_under_the_old_flags),
	CASE(regions_are_listed_in_address_order_with_their_names),
	CASE(many_regions_share_the_budget_and_their_addresses_are_reused),
	CASE(processes_on_one_file_see_each_other_after_sync_and_barrier),
	CASE(writes_of_two_processes_to_disjoint_pages_of_one_chunk_survive_page_population),
	CASE(small_allocations_share_a_mapping_and_are_spilled_without_what_is_behind_them),
	CASE(at_the_limit_of_mappings_alloc_fails_with_its_name_and_memory_given_stays_usable),
};
API_MAIN(cases)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files and disks that fail: full in the middle of a spill or a write-back (a small ext4 of the
 * case's own), EIO on read, write and sync (fault points), files that shrink or change behind
 * the mapping. The call that needs the data reports each failure with file and chunk. Data in
 * memory are kept. When the disk works again, everything is as before.
 */
#include <pthread.h>
#include <sys/stat.h>

#include "fault.h"

#define RW (SLUICE_READ | SLUICE_WRITE)

/* Both ways of I/O. */
static const char *const engines[] = {"store_io=auto", "store_io=file"};

static void
arm(const char *spec)
{
	CHECK_OK(sl_fault_point_set(spec));
}

static void
disarm(void)
{
	CHECK_OK(sl_fault_point_set(NULL));
}

static void *
map_file(struct sluice_space *space, const char *path, size_t bytes, unsigned flags)
{
	void *addr;

	CHECK_OK(sluice_map(space, path, 0, bytes, flags, &addr));
	return addr;
}

/* Write the pattern to the pages from the front; how many bytes went in before a refusal. */
static size_t
write_pages(char *addr, size_t bytes, uint64_t seed)
{
	for (size_t at = 0; at < bytes; at += PAGE)
		if (fault_write(addr + at, fault_word(seed, at)))
			return at;
	return bytes;
}

/*
 * Number of pages in [addr, addr + bytes) that can be read; each of them must be right. Of a chunk
 * that cannot be had one page is tried.
 */
static size_t
read_pages(const char *addr, size_t bytes, uint64_t seed)
{
	size_t n = 0;

	for (size_t at = 0; at < bytes; at += PAGE) {
		uint64_t value;

		if (fault_read(addr + at, &value)) {
			at = at / CHUNK * CHUNK + CHUNK - PAGE;
			continue;
		}
		if (value != fault_word(seed, at))
			fault_failed(__FILE__, __LINE__, "page at %zu has 0x%llx", at,
				     (unsigned long long)value);
		n++;
	}
	return n;
}

/* Pages [0, bytes) of the file have the pattern of write_pages(). */
static int
file_has_pages(const char *path, size_t bytes, uint64_t seed)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int same = fd >= 0;

	for (size_t at = 0; same && at < bytes; at += PAGE) {
		uint64_t value;

		same = pread(fd, &value, sizeof(value), (off_t)at) == sizeof(value) &&
		       value == fault_word(seed, at);
	}
	close(fd);
	return same;
}

static void
ballast_make(const char *path, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && !fallocate(fd, 0, 0, (off_t)bytes) && !close(fd));
}

/* ---- full disks ------------------------------------------------------------------------- */

static void
full_disk_in_a_spill_loses_nothing_and_ends_when_space_is_freed(void)
{
	struct sluice_space *space;
	size_t bytes = 48 * MIB, taken;
	char *addr;
	void *map;

	fault_small_disk("disk", 64);
	ballast_make("disk/ballast", 44 * MIB);
	space = fault_space("spill_dirs=disk,host_budget=4M");
	CHECK_OK(sluice_alloc(space, bytes, 0, &map));
	addr = map;
	taken = write_pages(addr, bytes, 5);
	CHECK(taken > 12 * MIB && taken < bytes); /* met the full disk on the way */
	CHECK_LOGGED("disk", "ENOSPC");
	CHECK_FAILS(sluice_evict(space, addr, taken, SLUICE_TIER_STORE, NULL), -ENOSPC,
		    "disk", "chunk", "free space");
	CHECK(read_pages(addr, taken, 5) > 0); /* what can be read is right */
	CHECK_OK(sluice_space_check(space));
	CHECK(!unlink("disk/ballast"));
	CHECK(read_pages(addr, taken, 5) == taken / PAGE);
	CHECK(write_pages(addr, bytes, 6) == bytes);
	CHECK(read_pages(addr, bytes, 6) == bytes / PAGE);
	CHECK_OK(sluice_unmap(space, addr));
	fault_space_end(space);
}

static void
kernel_that_meets_a_full_spill_disk_is_told_and_can_run_again(void)
{
	struct sluice_space *space;
	struct fault_range range = {NULL, 48 * MIB};
	uint64_t before, value;
	void *map;

	fault_small_disk("disk", 64);
	ballast_make("disk/ballast", 44 * MIB);
	space = fault_space("spill_dirs=disk,host_budget=4M");
	CHECK_OK(sluice_alloc(space, range.bytes, 0, &map));
	range.data = map;
	CHECK_OK(sluice_launch(space, NULL, fault_kernel_add, fault_grid(range.bytes),
			       &range, sizeof(range), NULL, 0));
	CHECK_FAILS(sluice_stream_synchronize(space, NULL), -ENOSPC, "disk", "chunk");
	CHECK_OK(sluice_space_check(space));
	CHECK(!unlink("disk/ballast"));
	before = 0; /* pages that the first run got to */
	for (size_t at = 0; at < range.bytes; at += PAGE) {
		CHECK(fault_read(range.data + at, &value) == 0 && value <= 1);
		before += value;
	}
	CHECK(before > 12 * MIB / PAGE && before < range.bytes / PAGE);
	CHECK_OK(sluice_launch(space, NULL, fault_kernel_add, fault_grid(range.bytes),
			       &range, sizeof(range), NULL, 0));
	CHECK_OK(sluice_stream_synchronize(space, NULL));
	for (size_t at = 0; at < range.bytes; at += PAGE) {
		CHECK(fault_read(range.data + at, &value) == 0);
		before -= value - 1;
	}
	CHECK(before == 0);
	CHECK_OK(sluice_unmap(space, map));
	fault_space_end(space);
}

static void
store_budget_bounds_the_spill(void)
{
	struct sluice_space *space = fault_space("host_budget=4M,store_budget=6M");
	size_t bytes = 64 * MIB, taken;
	struct sluice_stats stats;
	void *map;

	CHECK_OK(sluice_alloc(space, bytes, 0, &map));
	taken = write_pages(map, bytes, 5);
	CHECK(taken >= 18 * MIB && taken < bytes);
	CHECK_LOGGED("store budget", "6291456");
	sluice_stats_get(space, &stats);
	CHECK(stats.resident_peak_bytes[SLUICE_TIER_STORE] <= 6 * MIB);
	CHECK_FAILS(sluice_space_set_budget(space, SLUICE_TIER_STORE, 2 * MIB), -ENOSPC,
		    "2097152");
	CHECK_OK(sluice_space_set_budget(space, SLUICE_TIER_STORE, UINT64_MAX));
	CHECK(read_pages(map, taken, 5) == taken / PAGE);
	CHECK(write_pages(map, bytes, 6) == bytes);
	CHECK_OK(sluice_unmap(space, map));
	fault_space_end(space);
}

/* Device, host and store together hold it, each only a part: what comes back to memory gives its place in
 * the store to what goes there instead. */
static void
a_full_store_is_shared_by_all_that_comes_and_goes(void)
{
	struct sluice_space *space = fault_space("host_budget=4M,store_budget=6M");
	size_t bytes = 14 * MIB;
	struct sluice_stats stats;
	char *map;

	CHECK_OK(sluice_alloc(space, bytes, 0, (void **)&map));
	CHECK(write_pages(map, bytes, 1) == bytes);
	for (uint64_t round = 1; round < 6; round++) {
		CHECK(read_pages(map, bytes, round) == bytes / PAGE);
		CHECK(write_pages(map, bytes, round + 1) == bytes);
	}
	CHECK(read_pages(map, bytes, 6) == bytes / PAGE);
	sluice_stats_get(space, &stats);
	CHECK(stats.resident_peak_bytes[SLUICE_TIER_STORE] <= 6 * MIB);
	CHECK(stats.counter[SLUICE_COUNTER_STORE_WRITE_SPILL] > 12 * MIB);
	CHECK_OK(sluice_unmap(space, map));
	CHECK_OK(sluice_space_check(space)); /* fault_space_end() needs more room than there is */
	CHECK_OK(sluice_space_destroy(space));
}

static void
full_disk_at_create_is_enospc_and_leaves_no_blocks(void)
{
	struct sluice_space *space;
	struct stat st;
	void *map = NULL;

	fault_small_disk("disk", 64);
	space = fault_space(NULL);
	CHECK_FAILS(sluice_map(space, "disk/data", 0, 200 * MIB, RW | SLUICE_CREATE, &map),
		    -ENOSPC, "disk/data", "free space");
	CHECK(!map);
	CHECK(!stat("disk/data", &st) && st.st_size == 0 && st.st_blocks < 16);
	map = map_file(space, "disk/data", 8 * MIB, RW | SLUICE_CREATE);
	CHECK(write_pages(map, 8 * MIB, 3) == 8 * MIB);
	CHECK_OK(sluice_unmap(space, map));
	CHECK(file_has_pages("disk/data", 8 * MIB, 3));
	fault_space_end(space);
}

static void
full_disk_in_a_write_back_is_reported_and_loses_nothing(void)
{
	struct sluice_space *space;
	size_t bytes = 48 * MIB, taken;
	char *addr;
	int rc;

	fault_small_disk("disk", 64);
	ballast_make("disk/ballast", 44 * MIB);
	CHECK(!truncate("disk/ballast", 44 * (off_t)MIB));
	{ /* a sparse file: its blocks come with the writes */
		int fd = open("disk/data", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

		CHECK(fd >= 0 && !ftruncate(fd, (off_t)bytes) && !close(fd));
	}
	space = fault_space("host_budget=4M");
	addr = map_file(space, "disk/data", bytes, RW);
	taken = write_pages(addr, bytes, 5);
	CHECK(taken > 12 * MIB && taken < bytes);
	CHECK_LOGGED("disk/data", "No space");
	CHECK_FAILS(sluice_sync(space, addr, SLUICE_TO_END), -ENOSPC, "disk/data",
		    "chunk", "free");
	CHECK_FAILS(sluice_unmap(space, addr), -ENOSPC, "disk/data");
	CHECK(read_pages(addr, taken, 5) > 0);
	CHECK_OK(sluice_space_check(space));
	CHECK(!unlink("disk/ballast"));
	rc = sluice_sync(space, addr, SLUICE_TO_END); /* the reads above have tried to make room */
	if (rc)
		CHECK_FAILS(rc, -ENOSPC, "disk/data", "chunk");
	CHECK_OK(sluice_sync(space, addr, SLUICE_TO_END));
	CHECK(file_has_pages("disk/data", taken, 5));
	CHECK(write_pages(addr, bytes, 6) == bytes);
	CHECK_OK(sluice_unmap(space, addr));
	CHECK(file_has_pages("disk/data", bytes, 6));
	fault_space_end(space);
}

/* ---- EIO -------------------------------------------------------------------------------- */

static void
eio_on_write_is_reported_by_sync_and_the_data_kept(void)
{
	for (size_t e = 0; e < COUNT_OF(engines); e++) {
		struct sluice_space *space = fault_space(engines[e]);
		size_t bytes = 10 * CHUNK;
		char *addr;

		fault_file_make("data", bytes, 1);
		addr = map_file(space, "data", 0, RW);
		CHECK(write_pages(addr, 3 * CHUNK, 5) == 3 * CHUNK);
		arm("store.write:1:EIO+");
		CHECK_FAILS(sluice_sync(space, addr, SLUICE_TO_END), -EIO, "write",
			    "data", "chunk", "offset");
		CHECK_FAILS(sluice_unmap(space, addr), -EIO, "unmap", "data");
		CHECK_FAILS(sluice_evict(space, addr, CHUNK, SLUICE_TIER_STORE, NULL),
			    -EIO, "data");
		CHECK(read_pages(addr, 3 * CHUNK, 5) == 3 * CHUNK / PAGE);
		CHECK(fault_counter(space, SLUICE_COUNTER_IO_ERRORS) > 0);
		disarm();
		CHECK_OK(sluice_space_check(space));
		CHECK_OK(sluice_sync(space, addr, SLUICE_TO_END));
		CHECK(file_has_pages("data", 3 * CHUNK, 5));
		CHECK(fault_file_has("data", 3 * CHUNK, bytes - 3 * CHUNK, 1, 3 * CHUNK));
		CHECK_OK(sluice_unmap(space, addr));
		fault_space_end(space);
	}
}

static void
eio_in_the_background_is_reported_once_by_the_next_sync(void)
{
	struct sluice_space *space = fault_space("host_budget=16M,writeback=2M");
	size_t bytes = 10 * CHUNK;
	char *addr;

	fault_file_make("data", bytes, 1);
	addr = map_file(space, "data", 0, RW);
	arm("store.write:1:EIO");
	CHECK(write_pages(addr, bytes, 5) == bytes); /* written back while it goes on */
	for (int i = 0; !sl_fault_point_fired() && i < 60000; i++)
		usleep(1000);
	CHECK(sl_fault_point_fired() == 1);
	disarm();
	CHECK_FAILS(sluice_sync(space, addr, SLUICE_TO_END), -EIO, "data", "chunk");
	CHECK_OK(sluice_sync(space, addr, SLUICE_TO_END));
	CHECK(file_has_pages("data", bytes, 5));
	CHECK(read_pages(addr, bytes, 5) == bytes / PAGE);
	CHECK_OK(sluice_unmap(space, addr));
	fault_space_end(space);
}

static void
eio_on_read_fails_who_needs_it_and_nothing_else(void)
{
	for (size_t e = 0; e < COUNT_OF(engines); e++) {
		static const char *const populations[] = {"population=chunk",
							  "population=page",
							  "population=grow"};

		for (size_t p = 0; p < COUNT_OF(populations); p++) {
			struct sluice_space *space;
			struct sluice_use use;
			struct sluice_launch *scope = NULL;
			struct fault_range range = {NULL, 3 * CHUNK};
			struct sluice_residency where;
			uint64_t value;
			char more[64];

			snprintf(more, sizeof(more), "%s,%s", engines[e], populations[p]);
			space = fault_space(more);
			fault_file_make("data", range.bytes, 1);
			range.data = map_file(space, "data", 0, RW);
			use = (struct sluice_use){range.data, range.bytes,
						  SLUICE_USE_READ_WRITE};
			arm("store.read:1:EIO+");
			CHECK(fault_read(range.data, &value) == SIGBUS);
			CHECK_LOGGED("host code", "data", "read");
			CHECK_OK(sluice_launch(space, NULL, fault_kernel_add,
					       fault_grid(range.bytes), &range,
					       sizeof(range), NULL, 0));
			CHECK_FAILS(sluice_stream_synchronize(space, NULL), -EIO, "read",
				    "data", "offset");
			CHECK_OK(sluice_launch(space, NULL, fault_kernel_add,
					       fault_grid(range.bytes), &range,
					       sizeof(range), &use, 1));
			CHECK_FAILS(sluice_stream_synchronize(space, NULL), -EIO,
				    "launch", "read", "data", "chunk");
			CHECK_FAILS(sluice_launch_begin(space, NULL, &use, 1, &scope),
				    -EIO, "read", "data");
			CHECK_FAILS(sluice_pin(space, range.data, CHUNK), -EIO, "read",
				    "data");
			CHECK_OK(sluice_prefetch(space, range.data, range.bytes,
						 SLUICE_TIER_DEVICE,
						 NULL)); /* left to who needs it */
			CHECK_OK(sluice_residency(space, range.data, range.bytes, &where));
			CHECK(where.pinned_bytes == 0);
			disarm();
			CHECK_FAILS(sluice_unpin(space, range.data, CHUNK), -EINVAL,
				    "not pinned");
			CHECK_OK(sluice_launch(space, NULL, fault_kernel_add,
					       fault_grid(range.bytes), &range,
					       sizeof(range), &use, 1));
			CHECK_OK(sluice_stream_synchronize(space, NULL));
			for (size_t at = 0; at < range.bytes; at += PAGE)
				CHECK(*(uint64_t *)(void *)(range.data + at) ==
				      fault_word(1, at / 8) + 1);
			CHECK_OK(sluice_unmap(space, range.data));
			fault_space_end(space);
		}
	}
}

static void
eio_of_a_single_read_costs_one_launch_at_most(void)
{
	for (int n = 1; n <= 4; n++) {
		struct sluice_space *space = fault_space(NULL);
		struct fault_range range = {NULL, 3 * CHUNK};
		struct sluice_use use;
		char spec[32];
		int rc;

		fault_file_make("data", range.bytes, 1);
		range.data = map_file(space, "data", 0, RW);
		use = (struct sluice_use){range.data, range.bytes, SLUICE_USE_READ_WRITE};
		snprintf(spec, sizeof(spec), "store.read:%d:EIO", n);
		arm(spec);
		for (int i = 0; i < 2; i++)
			CHECK_OK(sluice_launch(space, NULL, fault_kernel_add,
					       fault_grid(range.bytes), &range,
					       sizeof(range), &use, 1));
		rc = sluice_stream_synchronize(space, NULL);
		CHECK(sl_fault_point_fired() == (n <= 3));
		disarm();
		if (rc) /* nobody waited for the read that failed: it was tried again */
			CHECK_FAILS(rc, -EIO, "launch 1", "chunk");
		/* The second was cancelled with the first. */
		for (size_t at = 0; at < range.bytes; at += PAGE)
			CHECK(*(uint64_t *)(void *)(range.data + at) ==
			      fault_word(1, at / 8) + (rc ? 0 : 2));
		CHECK_OK(sluice_unmap(space, range.data));
		fault_space_end(space);
	}
}

struct syncer {
	struct sluice_space *space;
	char *addr;
	pthread_mutex_t armed; /* held while it syncs, and by whoever sets fault points */
	_Atomic int stop;
};

static void *
syncer_run(void *arg)
{
	struct syncer *syncer = arg;

	while (!syncer->stop) {
		pthread_mutex_lock(&syncer->armed);
		(void)!sluice_sync(syncer->space, syncer->addr, CHUNK);
		pthread_mutex_unlock(&syncer->armed);
		usleep(20); /* let the other have it */
	}
	return NULL;
}

static void
sync_reports_its_own_failure_whoever_else_syncs_the_region(void)
{
	struct sluice_space *space = fault_space(NULL);
	char *addr = map_file(space, "data", 3 * CHUNK, RW | SLUICE_CREATE);
	struct syncer syncer = {
		.space = space,
		.addr = addr + 2 * CHUNK,
		.armed = PTHREAD_MUTEX_INITIALIZER,
	};
	pthread_t thread;

	CHECK(write_pages(addr, CHUNK, 0) == CHUNK);
	CHECK_OK(sluice_sync(space, addr, SLUICE_TO_END));
	CHECK(!pthread_create(&thread, NULL, syncer_run, &syncer));
	for (uint64_t round = 1; round <= 100; round++) {
		/* Present data are written from a snapshot: the chunk is no worse than dirty after. */
		CHECK(write_pages(addr, CHUNK, round) == CHUNK);
		pthread_mutex_lock(&syncer.armed);
		arm("store.write:1:EIO");
		pthread_mutex_unlock(&syncer.armed);
		CHECK_FAILS(sluice_sync(space, addr, CHUNK), -EIO, "data", "chunk 0");
		pthread_mutex_lock(&syncer.armed);
		disarm();
		pthread_mutex_unlock(&syncer.armed);
		CHECK_OK(sluice_sync(space, addr, CHUNK));
		CHECK(file_has_pages("data", CHUNK, round));
	}
	syncer.stop = 1;
	CHECK(!pthread_join(thread, NULL));
	CHECK_OK(sluice_unmap(space, addr));
	fault_space_end(space);
}

static void
eio_on_sync_of_the_medium_is_reported(void)
{
	struct sluice_space *space = fault_space(NULL);
	char *addr = map_file(space, "data", 2 * CHUNK, RW | SLUICE_CREATE);

	CHECK(write_pages(addr, 2 * CHUNK, 5) == 2 * CHUNK);
	arm("store.sync:1:EIO+");
	CHECK_FAILS(sluice_sync(space, addr, SLUICE_TO_END), -EIO, "sync", "data");
	CHECK_FAILS(sluice_sync(space, addr, SLUICE_TO_END), -EIO, "sync",
		    "data"); /* not forgotten */
	CHECK_FAILS(sluice_unmap(space, addr), -EIO, "sync", "data");
	disarm();
	CHECK_OK(sluice_sync(space, addr, SLUICE_TO_END));
	CHECK_OK(sluice_unmap(space, addr));
	CHECK(file_has_pages("data", 2 * CHUNK, 5));
	fault_space_end(space);
}

static void
destroy_over_a_broken_disk_says_so_and_ends(void)
{
	struct sluice_space *space = fault_space(NULL);
	char *addr = map_file(space, "data", 9 * CHUNK, RW | SLUICE_CREATE);
	void *other;

	CHECK_OK(sluice_alloc(space, 4 * CHUNK, 0, &other));
	CHECK(write_pages(other, 4 * CHUNK, 4) == 4 * CHUNK);
	CHECK(write_pages(addr, 4 * CHUNK, 5) == 4 * CHUNK);
	arm("store.write:1:EIO+");
	CHECK_FAILS(sluice_space_destroy(space), -EIO, "data", "chunk");
	disarm();
	fault_space_end(fault_space(NULL));
}

/* ---- files that change ------------------------------------------------------------------ */

static void
file_cut_short_is_eio_where_it_is_missing(void)
{
	for (size_t e = 0; e < COUNT_OF(engines); e++) {
		struct sluice_space *space = fault_space(engines[e]);
		struct fault_range range = {NULL, 4 * CHUNK};
		uint64_t value;

		fault_file_make("data", range.bytes, 1);
		range.data = map_file(space, "data", 0, SLUICE_READ | SLUICE_NO_READAHEAD);
		CHECK(fault_read(range.data, &value) == 0 && value == fault_word(1, 0));
		CHECK(!truncate("data", (off_t)(2 * CHUNK + PAGE)));
		CHECK(fault_read(range.data, &value) == 0 && value == fault_word(1, 0));
		CHECK(fault_read(range.data + CHUNK, &value) == 0 &&
		      value == fault_word(1, CHUNK / 8));
		CHECK(fault_read(range.data + 2 * CHUNK, &value) == SIGBUS);
		CHECK(fault_read(range.data + 3 * CHUNK, &value) == SIGBUS); /* not zeros */
		CHECK_LOGGED("host code", "shorter", "data");
		{
			struct sluice_use use = {range.data + 2 * CHUNK, CHUNK,
						 SLUICE_USE_READ};

			CHECK_OK(sluice_launch(space, NULL, fault_kernel_add, fault_grid(PAGE),
					       &range, sizeof(range), &use, 1));
			CHECK_FAILS(sluice_stream_synchronize(space, NULL), -EIO, "data",
				    "chunk 2", "shorter");
		}
		fault_file_make("data", range.bytes, 1);
		CHECK(fault_read(range.data + 3 * CHUNK, &value) == 0 &&
		      value == fault_word(1, 3 * CHUNK / 8));
		CHECK_OK(sluice_unmap(space, range.data));
		fault_space_end(space);
	}
}

static void
file_cut_short_grows_again_by_what_was_written(void)
{
	struct sluice_space *space = fault_space(NULL);
	struct stat st;
	char *addr;

	fault_file_make("data", 4 * CHUNK, 1);
	addr = map_file(space, "data", 0, RW);
	CHECK(write_pages(addr, 4 * CHUNK, 5) == 4 * CHUNK);
	CHECK(!truncate("data", (off_t)PAGE));
	CHECK_OK(sluice_sync(space, addr, SLUICE_TO_END));
	CHECK(!stat("data", &st) && st.st_size == 4 * (off_t)CHUNK);
	CHECK(file_has_pages("data", 4 * CHUNK, 5));
	CHECK_OK(sluice_unmap(space, addr));
	fault_space_end(space);
}

static void
file_changed_by_others_is_seen_once_read_again(void)
{
	struct sluice_space *space = fault_space("host_budget=0");
	uint64_t value;
	char *reader, *writer;
	int fd;

	fault_file_make("data", 4 * CHUNK, 1);
	reader = map_file(space, "data", 0, SLUICE_READ);
	writer = map_file(space, "data", 0, RW);
	CHECK(fault_read(reader, &value) == 0 && value == fault_word(1, 0));
	CHECK(fault_write(writer + CHUNK, 42) == 0);
	fd = open("data", O_WRONLY | O_CLOEXEC);
	value = 77;
	for (size_t at = 0; at < 4 * CHUNK; at += CHUNK)
		CHECK(pwrite(fd, &value, sizeof(value), (off_t)at) == sizeof(value));
	CHECK(!fsync(fd) && !close(fd));
	CHECK(fault_read(reader, &value) == 0 && value == fault_word(1, 0)); /* as it was read */
	CHECK_OK(sluice_evict(space, reader, 4 * CHUNK, SLUICE_TIER_STORE, NULL));
	CHECK(fault_read(reader, &value) == 0 && value == 77);
	CHECK(fault_read(reader + 2 * CHUNK, &value) == 0 && value == 77);
	CHECK(fault_read(writer + CHUNK, &value) == 0 && value == 42);
	CHECK_OK(sluice_sync(space, writer, SLUICE_TO_END)); /* written later than 77 */
	CHECK(fault_read(reader + CHUNK, &value) == 0 && value == 42);
	CHECK_OK(sluice_unmap(space, writer));
	fault_space_end(space);
}

static void
unlinked_file_stays_whole(void)
{
	struct sluice_space *space = fault_space(NULL);
	size_t bytes = 12 * CHUNK;
	char *addr;

	fault_file_make("data", bytes, 1);
	addr = map_file(space, "data", 0, RW);
	CHECK(!unlink("data"));
	CHECK(write_pages(addr, bytes, 5) == bytes);
	CHECK(read_pages(addr, bytes, 5) == bytes / PAGE);
	CHECK_OK(sluice_sync(space, addr, SLUICE_TO_END));
	CHECK_OK(sluice_unmap(space, addr));
	fault_space_end(space);
}

/* ---- compressed chunks ------------------------------------------------------------------ */

/* Damage the first chunk that stands whole in the file. 0: there is none. */
static int
chunk_damage(int fd)
{
	char head[4];

	for (off_t at = 0; pread(fd, head, 4, at) == 4; at += PAGE) {
		if (memcmp(head, "SLZC", 4) != 0)
			continue;
		CHECK(pwrite(fd, "?", 1, at + 1) == 1);
		return 1;
	}
	return 0;
}

/* The same, in the unlinked spill file of this process. */
static int
spill_damage(void)
{
	for (int fd = 3; fd < 256; fd++) {
		char link[64], name[512] = "";
		ssize_t length;
		int file, done;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		length = readlink(link, name, sizeof(name) - 1);
		if (length < 0 || !strstr(name, "(deleted)"))
			continue;
		file = open(link, O_RDWR | O_CLOEXEC);
		if (file < 0)
			continue;
		done = chunk_damage(file);
		close(file);
		if (done)
			return 1;
	}
	return 0;
}

static void
damaged_compressed_chunk_is_an_error_and_the_others_are_right(void)
{
	struct sluice_space *space = fault_space("host_budget=0,compress=always");
	size_t bytes = 16 * MIB, pages;
	uint64_t value;
	char *addr;
	void *map;

	CHECK_OK(sluice_alloc(space, bytes, 0, &map));
	addr = map;
	CHECK(write_pages(addr, bytes, 5) == bytes);
	CHECK_OK(sluice_evict(space, addr, bytes, SLUICE_TIER_STORE, NULL));
	CHECK(fault_counter(space, SLUICE_COUNTER_COMPRESS_WRITE_SAVED) > bytes / 2);
	/* Whose the first one is depends on what left early. It may be nobody's any more. */
	do {
		CHECK(spill_damage());
		pages = read_pages(addr, bytes, 5);
	} while (pages == bytes / PAGE &&
		 !sluice_evict(space, addr, bytes, SLUICE_TIER_STORE, NULL));
	CHECK(pages == (bytes - CHUNK) / PAGE);
	CHECK_LOGGED("codec", "compressed chunk");
	CHECK_OK(sluice_space_check(space));
	/* It is written anew, and is right again. */
	for (size_t at = 0; at < bytes; at += CHUNK)
		if (fault_read(addr + at, &value))
			CHECK_OK(sluice_discard(space, addr + at, CHUNK,
						SLUICE_DISCARD_EAGER, NULL));
	CHECK(write_pages(addr, bytes, 6) == bytes);
	CHECK_OK(sluice_evict(space, addr, bytes, SLUICE_TIER_STORE, NULL));
	CHECK(read_pages(addr, bytes, 6) == bytes / PAGE);
	CHECK_OK(sluice_unmap(space, addr));
	fault_usable(space);
	CHECK_OK(sluice_space_destroy(space));
}

int
main(int argc, char **argv)
{
	static const struct fault_case cases[] = {
		CASE(full_disk_in_a_spill_loses_nothing_and_ends_when_space_is_freed),
		CASE(kernel_that_meets_a_full_spill_disk_is_told_and_can_run_again),
		CASE(store_budget_bounds_the_spill),
		CASE(a_full_store_is_shared_by_all_that_comes_and_goes),
		CASE(full_disk_at_create_is_enospc_and_leaves_no_blocks),
		CASE(full_disk_in_a_write_back_is_reported_and_loses_nothing),
		CASE(eio_on_write_is_reported_by_sync_and_the_data_kept),
		CASE(eio_in_the_background_is_reported_once_by_the_next_sync),
		CASE(eio_on_read_fails_who_needs_it_and_nothing_else),
		CASE(eio_of_a_single_read_costs_one_launch_at_most),
		CASE(sync_reports_its_own_failure_whoever_else_syncs_the_region),
		CASE(eio_on_sync_of_the_medium_is_reported),
		CASE(destroy_over_a_broken_disk_says_so_and_ends),
		CASE(file_cut_short_is_eio_where_it_is_missing),
		CASE(file_cut_short_grows_again_by_what_was_written),
		CASE(file_changed_by_others_is_seen_once_read_again),
		CASE(unlinked_file_stays_whole),
		CASE(damaged_compressed_chunk_is_an_error_and_the_others_are_right),
	};

	return fault_main(argc, argv, cases, COUNT_OF(cases));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The papers' names (dragon.h, uvm_discard.h) and the default space behind them. Every case runs
 * in a process of its own, because a process has one default space: what is set before it is made,
 * and what happens at exit, can be seen only so. A case's files lie in a directory that is removed
 * afterwards. Exit status 0 all hold, 1 some do not, 77 this machine refuses a space.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sluice/dragon.h"
#include "sluice/sluice.h"
#include "sluice/uvm_discard.h"

#define MIB        ((size_t)1 << 20)
#define CHUNK      (2 * MIB)
#define POLL_LIMIT 12000 /* times 5 ms: only so that a failure ends */

#define EXPECT(what)                                                             \
	do {                                                                     \
		if (!(what)) {                                                   \
			fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n",  \
				__func__, __LINE__, #what, sluice_last_error()); \
			exit(1);                                                 \
		}                                                                \
	} while (0)

static char test_dir[] = "/tmp/sluice-compat-XXXXXX";

static unsigned char
pattern(size_t i)
{
	return (unsigned char)(i * 31 + i / 4096);
}

static void
file_make(const char *name, size_t size_bytes)
{
	unsigned char *data = malloc(size_bytes);
	FILE *file = fopen(name, "wb");
	size_t i;

	EXPECT(data && file);
	for (i = 0; i < size_bytes; i++)
		data[i] = pattern(i);
	EXPECT(fwrite(data, 1, size_bytes, file) == size_bytes);
	EXPECT(fclose(file) == 0);
	free(data);
}

/* The byte of a file as the system sees it; -1 beyond its end. */
static int
file_byte(const char *name, size_t offset)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	unsigned char byte;
	ssize_t n;

	EXPECT(fd >= 0);
	n = pread(fd, &byte, 1, (off_t)offset);
	close(fd);
	return n == 1 ? byte : -1;
}

static uint64_t
counter(struct sluice_space *space, enum sluice_counter which)
{
	struct sluice_stats stats;

	sluice_stats_get(space, &stats);
	return stats.counter[which];
}

static void *
alloc(size_t size_bytes)
{
	void *addr;

	EXPECT(sluice_alloc(uvm_space(), size_bytes, 0, &addr) == 0);
	return addr;
}

static void
the_papers_map_takes_an_offset_and_the_librarys_does_not(void)
{
	void *five, *four;

	file_make("in", 3 * CHUNK);
	EXPECT(dragon_map("in", CHUNK, 8192, D_READ, &five) == D_OK);
	EXPECT(dragon_map("in", 3 * CHUNK, D_F_READ, &four) == D_OK);
	EXPECT(*(unsigned char *)five == pattern(8192));
	EXPECT(((unsigned char *)five)[CHUNK - 1] == pattern(8192 + CHUNK - 1));
	EXPECT(*(unsigned char *)four == pattern(0));
	EXPECT(((unsigned char *)four)[3 * CHUNK - 1] == pattern(3 * CHUNK - 1));
	EXPECT(dragon_unmap(five) == D_OK && dragon_unmap(four) == D_OK);
}

static void
size_zero_maps_the_rest_of_the_file(void)
{
	struct sluice_region_info info;
	size_t n;
	void *addr;

	file_make("in", CHUNK + 4096);
	EXPECT(dragon_map("in", 0, 4096, D_READ, &addr) == D_OK);
	EXPECT(sluice_regions(dragon_space(), &info, 1, &n) == 0);
	EXPECT(n == 1 && info.addr == addr && info.size_bytes == CHUNK);
	EXPECT(dragon_unmap(addr) == D_OK);
}

static void
create_makes_and_extends_a_file_and_never_shortens_it(void)
{
	struct stat status;
	void *addr;

	EXPECT(dragon_map("new", CHUNK, D_F_WRITE | D_F_CREATE, &addr) == D_OK);
	memset(addr, 7, CHUNK);
	EXPECT(dragon_unmap(addr) == D_OK);
	EXPECT(stat("new", &status) == 0 && (size_t)status.st_size == CHUNK);
	EXPECT(file_byte("new", 0) == 7 && file_byte("new", CHUNK - 1) == 7);

	file_make("long", 2 * CHUNK);
	EXPECT(dragon_map("long", CHUNK, D_F_WRITE | D_F_CREATE, &addr) == D_OK);
	memset(addr, 7, CHUNK);
	EXPECT(dragon_unmap(addr) == D_OK);
	EXPECT(stat("long", &status) == 0 && (size_t)status.st_size == 2 * CHUNK);
	EXPECT(file_byte("long", CHUNK - 1) == 7);
	EXPECT(file_byte("long", CHUNK) == pattern(CHUNK));
}

static void
write_only_memory_starts_as_zeros_and_reads_no_file(void)
{
	void *addr;

	file_make("out", CHUNK);
	EXPECT(dragon_map("out", CHUNK, 0, D_WRITE, &addr) == D_OK);
	EXPECT(((unsigned char *)addr)[4096] == 0);
	((unsigned char *)addr)[0] = 9;
	EXPECT(dragon_unmap(addr) == D_OK);
	EXPECT(file_byte("out", 0) == 9 && file_byte("out", 4096) == 0);
	EXPECT(counter(dragon_space(), SLUICE_COUNTER_STORE_READ_DEMAND) == 0);
}

static void
sync_and_flush_reach_the_file_while_it_stays_mapped(void)
{
	unsigned char *byte;
	void *addr;

	file_make("io", 2 * CHUNK);
	EXPECT(dragon_map("io", 2 * CHUNK, 0, D_READ | D_WRITE, &addr) == D_OK);
	byte = addr;
	byte[0] = (unsigned char)~pattern(0);
	EXPECT(dragon_sync(addr, CHUNK) == D_OK);
	EXPECT(file_byte("io", 0) == (unsigned char)~pattern(0));
	byte[2 * CHUNK - 1] = (unsigned char)~pattern(2 * CHUNK - 1);
	EXPECT(dragon_flush(addr) == D_OK);
	EXPECT(file_byte("io", 2 * CHUNK - 1) == (unsigned char)~pattern(2 * CHUNK - 1));
	EXPECT(dragon_unmap(addr) == D_OK);
}

static void
volatile_contents_never_reach_the_file_while_memory_lasts(void)
{
	void *addr;

	file_make("tmp", 2 * CHUNK);
	EXPECT(dragon_map("tmp", 2 * CHUNK, 0, D_READ | D_WRITE | D_VOLATILE, &addr) == D_OK);
	memset(addr, 7, 2 * CHUNK);
	EXPECT(dragon_sync(addr, 0) == D_OK);
	EXPECT(dragon_unmap(addr) == D_OK);
	EXPECT(file_byte("tmp", 0) == pattern(0));
	EXPECT(file_byte("tmp", 2 * CHUNK - 1) == pattern(2 * CHUNK - 1));
	EXPECT(counter(dragon_space(), SLUICE_COUNTER_STORE_WRITE_SPILL) == 0);
}

static void
remap_flushes_under_the_old_flags_and_drops_volatile_contents(void)
{
	unsigned char *byte;
	void *addr;

	file_make("io", CHUNK);
	EXPECT(dragon_map("io", CHUNK, D_F_READ | D_F_WRITE, &addr) == D_OK);
	byte = addr;
	byte[5] = 99;
	EXPECT(dragon_remap(addr, D_F_READ | D_F_WRITE | D_F_VOLATILE) == D_OK);
	EXPECT(file_byte("io", 5) == 99);
	byte[5] = 77;
	EXPECT(dragon_remap(addr, D_F_READ) == D_OK);
	EXPECT(file_byte("io", 5) == 99);
	EXPECT(byte[5] == 99 && byte[6] == pattern(6));
	EXPECT(dragon_unmap(addr) == D_OK);
	EXPECT(dragon_remap(addr, D_F_READ) == D_ERR_INTVAL);
}

static void
flags_without_meaning_here_are_accepted_and_unknown_ones_refused(void)
{
	void *addr;

	file_make("in", CHUNK);
	EXPECT(dragon_map("in", CHUNK, D_F_READ | D_F_DONTTRASH | D_F_USEHOSTBUF, &addr) ==
	       D_OK);
	EXPECT(*(unsigned char *)addr == pattern(0));
	EXPECT(dragon_remap(addr, 0x40 | D_F_READ) == D_ERR_INTVAL);
	EXPECT(dragon_unmap(addr) == D_OK);
	EXPECT(dragon_map("in", CHUNK, D_F_READ | 0x40, &addr) == D_ERR_INTVAL);
	EXPECT(strstr(sluice_last_error(), "0x41"));
}

static void
each_failure_has_dragons_number_and_leaves_the_pointer_alone(void)
{
	void *none = &none, *addr = none;

	file_make("in", CHUNK);
	EXPECT(dragon_map("missing", CHUNK, 0, D_READ, &addr) == D_ERR_FILE);
	EXPECT(strstr(sluice_last_error(), "missing"));
	EXPECT(dragon_map(".", CHUNK, 0, D_READ, &addr) == D_ERR_FILE);
	EXPECT(dragon_map("in", 2 * CHUNK, 0, D_READ, &addr) == D_ERR_FILE);
	EXPECT(dragon_map("in", 4096, 100, D_READ, &addr) == D_ERR_INTVAL);
	EXPECT(dragon_map("in", CHUNK, 0, 0, &addr) == D_ERR_INTVAL);
	EXPECT(dragon_map(NULL, CHUNK, 0, D_READ, &addr) == D_ERR_INTVAL);
	EXPECT(dragon_map("in", CHUNK, 0, D_READ, NULL) == D_ERR_INTVAL);
	EXPECT(addr == none);
	EXPECT(dragon_unmap(&addr) == D_ERR_INTVAL);
	EXPECT(dragon_sync(&addr, 1) == D_ERR_INTVAL);
	EXPECT(dragon_flush(&addr) == D_ERR_INTVAL);

	EXPECT(dragon_map("in", CHUNK, 0, D_READ, &addr) == D_OK);
	EXPECT(sluice_pin(dragon_space(), addr, CHUNK) == 0);
	EXPECT(dragon_unmap(addr) == D_ERR_IOCTL);
	EXPECT(sluice_unpin(dragon_space(), addr, CHUNK) == 0);
	EXPECT(dragon_unmap(addr) == D_OK);
	EXPECT(dragon_unmap(addr) == D_ERR_INTVAL);
}

static void
a_budget_below_one_chunk_is_a_memory_error(void)
{
	void *addr;

	file_make("in", CHUNK);
	setenv("SLUICE_DEVICE_BUDGET", "1M", 1);
	EXPECT(dragon_map("in", CHUNK, 0, D_READ, &addr) == D_ERR_MEM);
	EXPECT(!dragon_space() && sluice_last_error()[0]);
	setenv("SLUICE_DEVICE_BUDGET", "16M", 1); /* a failed start may be tried again */
	EXPECT(dragon_map("in", CHUNK, 0, D_READ, &addr) == D_OK);
}

static uint64_t
host_reserve(void)
{
	struct sluice_config config;

	EXPECT(dragon_space());
	sluice_space_config(dragon_space(), &config);
	return config.host_reserve_bytes;
}

static void
reserved_pages_from_the_environment_set_the_host_reserve(void)
{
	setenv("DRAGON_NR_RESERVED_PAGES", "1024", 1);
	EXPECT(host_reserve() == 4 * MIB);
}

static void
our_own_variable_overrides_reserved_pages(void)
{
	setenv("DRAGON_NR_RESERVED_PAGES", "1024", 1);
	setenv("SLUICE_HOST_RESERVE", "8M", 1);
	EXPECT(host_reserve() == 8 * MIB);
}

static void
the_programs_call_overrides_both_until_the_space_exists(void)
{
	setenv("DRAGON_NR_RESERVED_PAGES", "1024", 1);
	setenv("SLUICE_HOST_RESERVE", "8M", 1);
	EXPECT(dragon_trash_set_num_reserved_sys_cache_pages(512) == D_OK);
	EXPECT(host_reserve() == 2 * MIB);
	EXPECT(dragon_trash_set_num_reserved_sys_cache_pages(1) == D_ERR_NOT_IMPLEMENTED);
	EXPECT(dragon_trash_set_num_blocks(16) == D_ERR_NOT_IMPLEMENTED);
	EXPECT(host_reserve() == 2 * MIB);
}

static void
more_reserve_than_the_host_budget_is_all_of_it(void)
{
	setenv("SLUICE_LOG", "*=error", 1);
	setenv("DRAGON_NR_RESERVED_PAGES", "99999999999999999999999", 1);
	EXPECT(host_reserve() == 64 * MIB);
}

static void
reserved_pages_that_are_no_number_are_refused_by_name(void)
{
	setenv("DRAGON_NR_RESERVED_PAGES", "-1", 1);
	EXPECT(!dragon_space());
	EXPECT(strstr(sluice_last_error(), "DRAGON_NR_RESERVED_PAGES"));
	setenv("DRAGON_NR_RESERVED_PAGES", "12k", 1);
	EXPECT(!dragon_space());
	unsetenv("DRAGON_NR_RESERVED_PAGES");
	EXPECT(dragon_space());
}

static void
spill_blocks_raise_the_staging_memory(void)
{
	struct sluice_config config;

	EXPECT(dragon_trash_set_num_blocks(0) == D_ERR_INTVAL);
	EXPECT(dragon_trash_set_num_blocks(1ul << 40) == D_ERR_INTVAL);
	EXPECT(dragon_trash_set_num_blocks(100) == D_OK);
	EXPECT(dragon_space());
	sluice_space_config(dragon_space(), &config);
	EXPECT(config.staging_bytes >= 200 * MIB);
}

static uint64_t
walk_and_count_read_ahead(const char *type, unsigned flags)
{
	volatile unsigned char *byte;
	unsigned sum = 0;
	void *addr;
	size_t i;

	if (type)
		setenv("DRAGON_READAHEAD_TYPE", type, 1);
	file_make("in", 32 * MIB);
	EXPECT(dragon_map("in", 32 * MIB, 0, flags, &addr) == D_OK);
	byte = addr;
	for (i = 0; i < 32 * MIB; i += 4096)
		sum += byte[i];
	EXPECT(sum);
	EXPECT(dragon_unmap(addr) == D_OK);
	return counter(dragon_space(), SLUICE_COUNTER_STORE_READ_AHEAD);
}

static void
a_sequential_walk_is_read_ahead(void)
{
	EXPECT(walk_and_count_read_ahead(NULL, D_READ) > 0);
}

static void
read_ahead_type_disabled_reads_nothing_ahead(void)
{
	EXPECT(walk_and_count_read_ahead("disabled", D_READ) == 0);
}

static void
read_ahead_type_aggressive_brings_the_whole_file_to_memory(void)
{
	struct sluice_residency where;
	size_t i;
	void *addr;

	setenv("DRAGON_READAHEAD_TYPE", "aggr", 1);
	file_make("in", 32 * MIB);
	EXPECT(dragon_map("in", 0, 0, D_READ, &addr) == D_OK);
	for (i = 0; i < POLL_LIMIT; i++) {
		EXPECT(sluice_residency(dragon_space(), addr, 32 * MIB, &where) == 0);
		if (where.tier_bytes[SLUICE_TIER_HOST] == 32 * MIB)
			break;
		usleep(5000);
	}
	EXPECT(i < POLL_LIMIT);
	EXPECT(counter(dragon_space(), SLUICE_COUNTER_CPU_FAULTS) == 0);
	EXPECT(((unsigned char *)addr)[32 * MIB - 1] == pattern(32 * MIB - 1));
	EXPECT(dragon_unmap(addr) == D_OK);
}

static void *
space_ask(void *out)
{
	*(struct sluice_space **)out = dragon_space();
	return NULL;
}

static void
threads_that_come_first_together_get_one_space(void)
{
	struct sluice_space *space[8];
	pthread_t thread[8];
	size_t i;

	for (i = 0; i < 8; i++)
		EXPECT(!pthread_create(&thread[i], NULL, space_ask, &space[i]));
	for (i = 0; i < 8; i++)
		EXPECT(!pthread_join(thread[i], NULL));
	for (i = 0; i < 8; i++)
		EXPECT(space[i] && space[i] == space[0]);
	EXPECT(uvm_space() == space[0]);
}

/* Runs fn in a child that ends by exit(); its exit status. */
static int
child_run(void (*fn)(void))
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	EXPECT(pid >= 0);
	if (!pid) {
		fn();
		exit(0);
	}
	EXPECT(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void
write_and_leave(void)
{
	void *addr;

	EXPECT(dragon_map("left", CHUNK, D_F_WRITE | D_F_CREATE, &addr) == D_OK);
	memset(addr, 7, CHUNK);
}

static void
exit_writes_back_what_was_not_unmapped(void)
{
	EXPECT(child_run(write_and_leave) == 0);
	EXPECT(file_byte("left", 0) == 7 && file_byte("left", CHUNK - 1) == 7);
}

static void
ask_after_close(void)
{
	if (dragon_space() || !strstr(sluice_last_error(), "exit"))
		_exit(3);
}

static void
call_after_the_space_is_closed(void)
{
	EXPECT(!atexit(ask_after_close)); /* registered first: runs after the library's handler */
	EXPECT(dragon_space());
}

static void
after_exit_has_closed_the_space_calls_fail_with_a_reason(void)
{
	EXPECT(child_run(call_after_the_space_is_closed) == 0);
}

#if defined(__SANITIZE_ADDRESS__)
static int leaks_ignored;
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int
__lsan_is_turned_off(void)
{
	return leaks_ignored;
}
#endif

static void
map_in_the_child(void)
{
	void *addr;

#if defined(__SANITIZE_ADDRESS__)
	leaks_ignored = 1; /* a thread of the parent may have held the allocator's lock */
#endif
	EXPECT(dragon_map("in", CHUNK, 0, D_READ, &addr) == D_ERR_IOCTL);
}

static void
a_forked_child_is_refused_and_leaves_the_parents_space_alone(void)
{
	unsigned char *byte;
	void *addr;

	file_make("in", CHUNK);
	EXPECT(dragon_map("in", CHUNK, 0, D_READ | D_WRITE, &addr) == D_OK);
	byte = addr;
	byte[0] = 200;
	EXPECT(child_run(map_in_the_child) == 0);
	EXPECT(byte[0] == 200);
	EXPECT(dragon_unmap(addr) == D_OK);
	EXPECT(file_byte("in", 0) == 200);
}

/* Kernels below get the buffer's address as their argument. */
static atomic_int kernel_done;

static void
kernel_fill_late(const struct sluice_block *block, void *args)
{
	(void)block;
	usleep(50000);
	memset(*(void **)args, 7, CHUNK);
	atomic_store(&kernel_done, 1);
}

static void
fill_late(struct sluice_stream *stream, void *buffer)
{
	const struct sluice_grid one = {1, 1, 1};

	EXPECT(sluice_launch(uvm_space(), stream, kernel_fill_late, one, &buffer,
			     sizeof(buffer), NULL, 0) == 0);
}

static void
an_eager_discard_reads_as_zeros_and_keeps_later_writes(void)
{
	unsigned char *byte = alloc(CHUNK);

	memset(byte, 7, CHUNK);
	EXPECT(uvm_discard(byte, CHUNK) == 0);
	EXPECT(counter(uvm_space(), SLUICE_COUNTER_DISCARDS) == CHUNK);
	EXPECT(byte[0] == 0 && byte[CHUNK - 1] == 0);
	byte[1] = 9;
	EXPECT(sluice_evict(uvm_space(), byte, CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	EXPECT(byte[1] == 9);
}

static void
a_lazy_discard_revived_by_prefetch_keeps_later_writes(void)
{
	unsigned char *byte = alloc(CHUNK);

	memset(byte, 7, CHUNK);
	EXPECT(uvm_discard_lazy(byte, CHUNK) == 0);
	EXPECT(sluice_prefetch(uvm_space(), byte, CHUNK, SLUICE_TIER_DEVICE, NULL) == 0);
	byte[1] = 9;
	EXPECT(sluice_evict(uvm_space(), byte, CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	EXPECT(byte[1] == 9);
	EXPECT(byte[0] == 0 || byte[0] == 7);
}

/* Pages of one chunk die one after the other; one written in between is alive again. */
static void
write_between_two_discards(int lazy)
{
	unsigned char *byte = alloc(CHUNK);

	memset(byte, 7, CHUNK);
	EXPECT(UvmDiscard(byte, 8192, lazy) == 0);
	if (lazy) /* an eager one needs no revival */
		EXPECT(sluice_prefetch(uvm_space(), byte, 8192, SLUICE_TIER_DEVICE, NULL) ==
		       0);
	memset(byte, 9, 8192);
	EXPECT(UvmDiscard(byte + 8192, CHUNK - 8192, lazy) == 0);
	EXPECT(sluice_evict(uvm_space(), byte, CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	EXPECT(byte[0] == 9 && byte[8191] == 9);
}

static void
a_page_written_after_an_eager_discard_survives_the_discard_of_the_others(void)
{
	write_between_two_discards(0);
}

static void
a_page_revived_after_a_lazy_discard_survives_the_discard_of_the_others(void)
{
	write_between_two_discards(1);
}

static void
a_discard_without_a_stream_comes_after_kernels_that_declared_nothing(void)
{
	unsigned char *byte = alloc(CHUNK);

	fill_late(NULL, byte);
	EXPECT(uvm_discard(byte, CHUNK) == 0);
	EXPECT(atomic_load(&kernel_done) == 1);
	EXPECT(byte[0] == 0 && byte[CHUNK - 1] == 0);
}

static void
a_discard_on_a_stream_is_in_its_order(void)
{
	unsigned char *byte = alloc(CHUNK);
	struct sluice_stream *stream;

	EXPECT(sluice_stream_create(uvm_space(), &stream) == 0);
	fill_late(stream, byte);
	EXPECT(uvm_discard_async(byte, CHUNK, stream) == 0);
	EXPECT(sluice_stream_synchronize(uvm_space(), stream) == 0);
	EXPECT(atomic_load(&kernel_done) == 1);
	EXPECT(byte[0] == 0 && byte[CHUNK - 1] == 0);
	sluice_stream_destroy(stream);
}

static void
the_papers_spellings_choose_eager_or_lazy_and_the_stream(void)
{
	unsigned char *byte = alloc(CHUNK);
	struct sluice_stream *stream;
	int lazy;

	EXPECT(sluice_stream_create(uvm_space(), &stream) == 0);
	memset(byte, 7, CHUNK);
	EXPECT(UvmDiscard(byte, CHUNK) == 0);
	EXPECT(byte[0] == 0); /* eager */
	memset(byte, 7, CHUNK);
	EXPECT(UvmDiscard(byte, CHUNK, NULL) == 0);
	EXPECT(byte[0] == 0);
	memset(byte, 7, CHUNK);
	EXPECT(UvmDiscard(byte, CHUNK, stream) == 0);
	EXPECT(sluice_stream_synchronize(uvm_space(), stream) == 0);
	EXPECT(byte[0] == 0);
	for (lazy = 0; lazy < 2; lazy++) {
		memset(byte, 7, CHUNK);
		EXPECT(UvmDiscard(byte, CHUNK, lazy) == 0);
		EXPECT(byte[0] == 0 || (lazy && byte[0] == 7));
		EXPECT(sluice_prefetch(uvm_space(), byte, CHUNK, SLUICE_TIER_DEVICE,
				       NULL) == 0);
		memset(byte, 7, CHUNK);
		EXPECT(UvmDiscardAsync(byte, CHUNK, lazy, stream) == 0);
		EXPECT(sluice_stream_synchronize(uvm_space(), stream) == 0);
		EXPECT(byte[0] == 0 || (lazy && byte[0] == 7));
		EXPECT(sluice_prefetch(uvm_space(), byte, CHUNK, SLUICE_TIER_DEVICE,
				       NULL) == 0);
	}
	EXPECT(UvmDiscardLazy(byte, CHUNK) == 0);
	EXPECT(UvmDiscardLazy(byte, CHUNK, stream) == 0);
	EXPECT(sluice_stream_synchronize(uvm_space(), stream) == 0);
	EXPECT(UvmDiscard(&lazy, sizeof(lazy)) == -ENOENT);
	sluice_stream_destroy(stream);
}

static void
a_batch_with_one_wrong_entry_changes_nothing(void)
{
	unsigned char *a = alloc(CHUNK), *b = alloc(CHUNK);
	void *addrs[3] = {a, b, &addrs};
	size_t sizes[3] = {CHUNK, CHUNK, 8}, first[2] = {0, 1};
	enum sluice_tier tiers[2] = {SLUICE_TIER_DEVICE, SLUICE_TIER_STORE};

	memset(a, 7, CHUNK);
	memset(b, 8, CHUNK);
	EXPECT(uvm_discard_batch(addrs, sizes, 3, 0, NULL) == -ENOENT);
	EXPECT(strstr(sluice_last_error(), "entry 2"));
	EXPECT(uvm_discard_batch(addrs, sizes, 2, 1, NULL) == -EINVAL);
	EXPECT(uvm_discard_batch(NULL, sizes, 2, 0, NULL) == -EINVAL);
	sizes[1] = 0;
	EXPECT(uvm_discard_batch(addrs, sizes, 2, 0, NULL) == -EINVAL);
	sizes[1] = 4 * CHUNK; /* beyond the region */
	EXPECT(uvm_discard_batch(addrs, sizes, 2, 0, NULL) == -ENOENT);
	sizes[1] = CHUNK;
	EXPECT(sluice_pin(uvm_space(), b, CHUNK) == 0);
	EXPECT(uvm_discard_batch(addrs, sizes, 2, 0, NULL) == -EBUSY);
	EXPECT(sluice_unpin(uvm_space(), b, CHUNK) == 0);
	EXPECT(uvm_discard_and_prefetch_batch(addrs, sizes, 2, tiers, first, 2, 0, NULL) ==
	       -EINVAL); /* a tier that cannot be prefetched to */
	tiers[1] = SLUICE_TIER_HOST;
	first[1] = 2;
	EXPECT(uvm_discard_and_prefetch_batch(addrs, sizes, 2, tiers, first, 2, 0, NULL) ==
	       -EINVAL); /* a tier for a range that is not there */
	first[0] = 1;
	EXPECT(uvm_discard_and_prefetch_batch(addrs, sizes, 2, tiers, first, 1, 0, NULL) ==
	       -EINVAL); /* no tier for range 0 */
	EXPECT(counter(uvm_space(), SLUICE_COUNTER_DISCARDS) == 0);
	EXPECT(a[0] == 7 && a[CHUNK - 1] == 7 && b[0] == 8 && b[CHUNK - 1] == 8);
}

static void
a_batch_discards_all_its_ranges_after_earlier_work(void)
{
	unsigned char *a = alloc(CHUNK), *b = alloc(CHUNK);
	void *addrs[2] = {a, b};
	size_t sizes[2] = {CHUNK, CHUNK}, first[1] = {0};
	enum sluice_tier tiers[1] = {SLUICE_TIER_DEVICE};

	memset(b, 8, CHUNK);
	fill_late(NULL, a);
	EXPECT(uvm_discard_batch(addrs, sizes, 2, 0, NULL) == 0);
	EXPECT(atomic_load(&kernel_done) == 1);
	EXPECT(a[0] == 0 && b[0] == 0);
	EXPECT(counter(uvm_space(), SLUICE_COUNTER_DISCARDS) == 2 * CHUNK);
	EXPECT(uvm_discard_batch(NULL, NULL, 0, 0, NULL) == 0);

	EXPECT(uvm_discard_and_prefetch_batch(addrs, sizes, 2, tiers, first, 1, 0, NULL) == 0);
	a[1] = 9;
	b[1] = 10;
	EXPECT(sluice_evict(uvm_space(), a, CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	EXPECT(sluice_evict(uvm_space(), b, CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	EXPECT(a[1] == 9 && b[1] == 10);
}

/* clang-format off */
#define CASES(M)                                                         \
	M(the_papers_map_takes_an_offset_and_the_librarys_does_not)        \
	M(size_zero_maps_the_rest_of_the_file)                             \
	M(create_makes_and_extends_a_file_and_never_shortens_it)           \
	M(write_only_memory_starts_as_zeros_and_reads_no_file)             \
	M(sync_and_flush_reach_the_file_while_it_stays_mapped)             \
	M(volatile_contents_never_reach_the_file_while_memory_lasts)       \
	M(remap_flushes_under_the_old_flags_and_drops_volatile_contents)   \
	M(flags_without_meaning_here_are_accepted_and_unknown_ones_refused) \
	M(each_failure_has_dragons_number_and_leaves_the_pointer_alone)    \
	M(a_budget_below_one_chunk_is_a_memory_error)                      \
	M(reserved_pages_from_the_environment_set_the_host_reserve)        \
	M(our_own_variable_overrides_reserved_pages)                       \
	M(the_programs_call_overrides_both_until_the_space_exists)         \
	M(more_reserve_than_the_host_budget_is_all_of_it)                  \
	M(reserved_pages_that_are_no_number_are_refused_by_name)           \
	M(spill_blocks_raise_the_staging_memory)                           \
	M(a_sequential_walk_is_read_ahead)                                 \
	M(read_ahead_type_disabled_reads_nothing_ahead)                    \
	M(read_ahead_type_aggressive_brings_the_whole_file_to_memory)      \
	M(threads_that_come_first_together_get_one_space)                  \
	M(exit_writes_back_what_was_not_unmapped)                          \
	M(after_exit_has_closed_the_space_calls_fail_with_a_reason)        \
	M(a_forked_child_is_refused_and_leaves_the_parents_space_alone)    \
	M(an_eager_discard_reads_as_zeros_and_keeps_later_writes)          \
	M(a_lazy_discard_revived_by_prefetch_keeps_later_writes)           \
	M(a_page_written_after_an_eager_discard_survives_the_discard_of_the_others) \
	M(a_page_revived_after_a_lazy_discard_survives_the_discard_of_the_others) \
	M(a_discard_without_a_stream_comes_after_kernels_that_declared_nothing) \
	M(a_discard_on_a_stream_is_in_its_order)                           \
	M(the_papers_spellings_choose_eager_or_lazy_and_the_stream)        \
	M(a_batch_with_one_wrong_entry_changes_nothing)                    \
	M(a_batch_discards_all_its_ranges_after_earlier_work)
/* clang-format on */

static const struct test_case {
	const char *name;
	void (*fn)(void);
} cases[] = {
#define CASE(fn) {#fn, fn},
	CASES(CASE)
#undef CASE
};

/* Ends with 77 when this machine refuses a space, as a child of its own. */
static void
space_try(void)
{
	struct sluice_config config;
	struct sluice_space *space;
	int rc;

	EXPECT(sluice_config_init(&config) == 0);
	rc = sluice_space_create(&config, &space);
	if (rc == -EPERM || rc == -ENOTSUP) {
		printf("skipped: no space on this machine: %s\n", sluice_last_error());
		exit(77);
	}
	EXPECT(rc == 0);
	EXPECT(sluice_space_destroy(space) == 0);
}

int
main(int argc, char **argv)
{
	static const char *const files[] = {"in", "new", "long", "out",
					    "io", "tmp", "left"};
	size_t i, f;
	int failed = 0, status;

	setenv("SLUICE_DEVICE", "soft", 1);
	setenv("SLUICE_DEVICE_BUDGET", "16M", 1);
	setenv("SLUICE_HOST_BUDGET", "64M", 1);
	unsetenv("SLUICE_HOST_RESERVE");
	unsetenv("DRAGON_NR_RESERVED_PAGES");
	unsetenv("DRAGON_READAHEAD_TYPE");
	EXPECT(mkdtemp(test_dir) && chdir(test_dir) == 0);

	status = child_run(space_try);
	for (i = 0; !status && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc > 1 && strcmp(argv[1], cases[i].name))
			continue;
		f = (size_t)child_run(cases[i].fn);
		printf("%s %s\n", f ? "FAIL" : "ok  ", cases[i].name);
		failed += f != 0;
		for (f = 0; f < sizeof(files) / sizeof(files[0]); f++)
			unlink(files[f]);
	}
	EXPECT(chdir("/") == 0 && rmdir(test_dir) == 0);
	return status ? status : failed != 0;
}

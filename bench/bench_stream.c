/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streaming over a file many times larger than the memory allowed: read (sum of all words),
 * write (fill), read-modify-write (add one to every word). One process runs one variant once:
 *
 *   disk      the limit: direct I/O by several threads, nothing computed
 *   hand      hand-written: a ring of buffers; direct I/O of some overlaps with computing on another
 *   mmap      mmap at the disk's read-ahead, without advice
 *   mmap-seq  mmap with MADV_SEQUENTIAL and 8 MiB read-ahead: the disk's own if it is so large,
 *             else a thread calls readahead() 8 MiB ahead of the readers
 *   mmap-new  mmap of a new file of holes (write only): nothing has to be read first
 *   fault     Sluice: a kernel loops over a plain pointer and declares nothing
 *   launch    Sluice: one launch a tile, with its range and intent
 *
 * The time is from the first touch until the result is known. For writes it ends when the data
 * are on the medium (fdatasync, msync, sluice_sync), for every variant. Results are checked each
 * time. The memory limit of mmap is a cgroup that the caller made. Sluice has the same by its
 * budgets: device + staging + host tier = --memory.
 *
 * The read-ahead of a file is the disk's when it is opened. --readahead (root) sets the disk's
 * for that moment and restores it at once. So mmap can be measured at another read-ahead than
 * the machine has. It is a setting of the whole system; nothing changes it unasked.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common.h"
#include "sluice/sluice.h"

#define BLOCK_BYTES    (2u << 20) /* what a thread computes on at a time, in every variant */
#define BLOCK_WORDS    (BLOCK_BYTES / 8)
#define SLOTS_MAX      64
#define IO_THREADS_MAX 64
#define AHEAD_BYTES    (8u << 20)

struct stream {
	const char *path;
	const char *cgroup;
	const char *config; /* more settings of the space */
	enum bench_op op;
	uint64_t size_bytes;
	uint64_t memory_bytes;
	uint64_t host_bytes;
	uint64_t staging_bytes;
	uint64_t buffer_bytes;
	uint64_t tile_bytes;
	uint64_t warm_bytes;
	uint32_t buffers;
	uint32_t io_threads;
	uint32_t threads;
	uint32_t readahead_kib; /* mmap: to open the file with; 0: the disk's */
	uint64_t base;          /* of the file before the run */
	uint64_t new_base;      /* after it */
};

struct result {
	uint64_t sum; /* read only */
	uint64_t ns;
	struct sluice_space *space; /* ours: kept for its counters */
	int readahead_kib;          /* mmap: of the file */
};

static const char *const op_names[BENCH_OP_COUNT] = {"read", "write", "rmw"};

/* One piece of the work, the same for all variants: at word index first of the file. */
static uint64_t
piece_compute(const struct stream *s, uint64_t *data, uint64_t first, size_t words)
{
	switch (s->op) {
	case BENCH_READ:
		return bench_sum(data, words);
	case BENCH_WRITE:
		bench_fill(data, words, s->new_base + first * BENCH_STEP);
		return 0;
	case BENCH_RMW:
		bench_add(data, words);
		return 0;
	case BENCH_OP_COUNT:
		break;
	}
	bench_fail("no such operation");
}

static void
piece_io(const struct stream *s, int fd, int writing, void *data, size_t bytes, uint64_t at)
{
	ssize_t n = writing ? pwrite(fd, data, bytes, (off_t)at)
			    : pread(fd, data, bytes, (off_t)at);

	if (n != (ssize_t)bytes)
		bench_fail("%s: %s of %zu bytes at %llu: %s", s->path,
			   writing ? "write" : "read", bytes, (unsigned long long)at,
			   n < 0 ? strerror(errno) : "short");
}

/* disk: as many direct reads and writes in flight as there are threads. */

struct disk {
	const struct stream *s;
	int fd;
	_Atomic uint64_t next;
};

static void
disk_thread(void *arg, uint32_t i)
{
	struct disk *disk = arg;
	const struct stream *s = disk->s;
	uint64_t *data = bench_alloc(BLOCK_BYTES);
	uint64_t at;

	(void)i;
	while ((at = atomic_fetch_add(&disk->next, BLOCK_BYTES)) < s->size_bytes) {
		if (s->op != BENCH_WRITE)
			piece_io(s, disk->fd, 0, data, BLOCK_BYTES, at);
		if (s->op != BENCH_READ)
			piece_io(s, disk->fd, 1, data, BLOCK_BYTES, at);
	}
	free(data);
}

static void
disk_run(struct stream *s, struct result *result)
{
	struct disk disk = {.s = s, .fd = bench_file_open_direct(s->path, O_RDWR)};
	uint64_t start;

	if (s->op == BENCH_RMW) /* what is read is written back as it is */
		s->new_base = s->base;
	start = bench_now_ns();
	bench_threads(s->io_threads, disk_thread, &disk);
	if (s->op != BENCH_READ && fdatasync(disk.fd))
		bench_fail("%s: fdatasync: %s", s->path, strerror(errno));
	result->ns = bench_now_ns() - start;
	result->sum = bench_sum_expected(s->base, s->size_bytes / 8); /* nothing computed */
	close(disk.fd);
	if (s->op == BENCH_WRITE) /* zeros were written: put the contents back, untimed */
		bench_file_create(s->path, s->size_bytes, s->new_base);
}

/*
 * hand: slot k of the ring holds pieces k, k + buffers, ... A piece goes FREE -> READY (read) ->
 * COMPUTED -> FREE (written); without reading it is computed on when FREE, without writing it is
 * FREE when computed.
 */

enum slot_state { SLOT_FREE, SLOT_READY, SLOT_COMPUTED };

struct slot {
	uint64_t *data;
	uint64_t piece; /* whose turn it is */
	enum slot_state state;
};

struct hand {
	const struct stream *s;
	int fd;
	uint64_t pieces;
	pthread_mutex_t lock; /* all below */
	pthread_cond_t changed;
	struct slot slots[SLOTS_MAX];
	uint64_t next_read, next_compute, next_write;
	uint64_t sum;
	uint32_t readers, writers;
};

/* Claim the next piece of a stage and wait until its slot is in the state that the stage takes.
 * NULL: no pieces left. */
static struct slot *
slot_claim(struct hand *hand, uint64_t *next, enum slot_state state)
{
	struct slot *slot = NULL;
	uint64_t piece;

	pthread_mutex_lock(&hand->lock);
	piece = (*next)++;
	if (piece < hand->pieces) {
		slot = &hand->slots[piece % hand->s->buffers];
		while (slot->piece != piece || slot->state != state)
			pthread_cond_wait(&hand->changed, &hand->lock);
	}
	pthread_mutex_unlock(&hand->lock);
	return slot;
}

static void
slot_pass(struct hand *hand, struct slot *slot, enum slot_state state, uint64_t sum)
{
	pthread_mutex_lock(&hand->lock);
	hand->sum += sum;
	slot->state = state;
	if (state == SLOT_FREE)
		slot->piece += hand->s->buffers;
	pthread_cond_broadcast(&hand->changed);
	pthread_mutex_unlock(&hand->lock);
}

static void
hand_compute(struct hand *hand)
{
	const struct stream *s = hand->s;
	enum slot_state from = s->op == BENCH_WRITE ? SLOT_FREE : SLOT_READY;
	enum slot_state to = s->op == BENCH_READ ? SLOT_FREE : SLOT_COMPUTED;
	size_t words = s->buffer_bytes / 8;
	struct slot *slot;

	while ((slot = slot_claim(hand, &hand->next_compute, from)))
		slot_pass(hand, slot, to,
			  piece_compute(s, slot->data, slot->piece * words, words));
}

static void
hand_thread(void *arg, uint32_t i)
{
	struct hand *hand = arg;
	const struct stream *s = hand->s;
	int writing = i >= hand->readers;
	struct slot *slot;

	if (i >= hand->readers + hand->writers) {
		hand_compute(hand);
		return;
	}
	for (;;) {
		if (writing)
			slot = slot_claim(hand, &hand->next_write, SLOT_COMPUTED);
		else
			slot = slot_claim(hand, &hand->next_read, SLOT_FREE);
		if (!slot)
			return;
		piece_io(s, hand->fd, writing, slot->data, s->buffer_bytes,
			 slot->piece * s->buffer_bytes);
		slot_pass(hand, slot, writing ? SLOT_FREE : SLOT_READY, 0);
	}
}

static void
hand_run(struct stream *s, struct result *result)
{
	struct hand hand = {.s = s,
			    .fd = bench_file_open_direct(s->path, O_RDWR),
			    .pieces = s->size_bytes / s->buffer_bytes,
			    .lock = PTHREAD_MUTEX_INITIALIZER,
			    .changed = PTHREAD_COND_INITIALIZER,
			    .readers = s->op == BENCH_WRITE ? 0 : s->io_threads,
			    .writers = s->op == BENCH_READ ? 0 : s->io_threads};
	uint64_t start;

	for (uint32_t i = 0; i < s->buffers; i++)
		hand.slots[i] = (struct slot){.data = bench_alloc(s->buffer_bytes),
					      .piece = i};
	start = bench_now_ns();
	bench_threads(hand.readers + hand.writers + s->threads, hand_thread, &hand);
	if (s->op != BENCH_READ && fdatasync(hand.fd))
		bench_fail("%s: fdatasync: %s", s->path, strerror(errno));
	result->ns = bench_now_ns() - start;
	result->sum = hand.sum;
	for (uint32_t i = 0; i < s->buffers; i++)
		free(hand.slots[i].data);
	close(hand.fd);
}

/* mmap: threads take blocks in order; with ahead one more thread reads ahead of them. */

struct mapped {
	const struct stream *s;
	int fd;
	int ahead;
	uint64_t *data;
	_Atomic uint64_t next;
	_Atomic uint64_t sum;
	sem_t moved; /* a block was begun */
};

static void
mapped_read_ahead(struct mapped *mapped)
{
	const struct stream *s = mapped->s;
	uint64_t asked = 0;

	while (asked < s->size_bytes) {
		uint64_t end = atomic_load(&mapped->next) + AHEAD_BYTES;

		for (; asked < end && asked < s->size_bytes; asked += BLOCK_BYTES)
			if (readahead(mapped->fd, (off_t)asked, BLOCK_BYTES))
				bench_fail("%s: readahead: %s", s->path, strerror(errno));
		while (sem_wait(&mapped->moved))
			continue; /* a signal */
	}
}

static void
mapped_thread(void *arg, uint32_t i)
{
	struct mapped *mapped = arg;
	const struct stream *s = mapped->s;
	uint64_t sum = 0;
	uint64_t at;

	if (mapped->ahead && i == s->threads) {
		mapped_read_ahead(mapped);
		return;
	}
	while ((at = atomic_fetch_add(&mapped->next, BLOCK_BYTES)) < s->size_bytes) {
		sem_post(&mapped->moved);
		sum += piece_compute(s, mapped->data + at / 8, at / 8, BLOCK_WORDS);
	}
	atomic_fetch_add(&mapped->sum, sum);
	sem_post(&mapped->moved);
}

/* Open with the read-ahead asked for; *kib: what the file has. */
static int
mapped_open(const struct stream *s, int *kib)
{
	int before = bench_readahead_kib(s->path);
	int asked = (int)s->readahead_kib;
	int fd;

	if (asked && asked != before && bench_readahead_set(s->path, asked))
		bench_skip("the read-ahead of the disk under %s cannot be set", s->path);
	fd = open(s->path, O_RDWR | O_CLOEXEC);
	if (asked && asked != before && bench_readahead_set(s->path, before))
		bench_fail("the read-ahead of the disk under %s is now %d KiB and cannot "
			   "be put "
			   "back to %d",
			   s->path, asked, before);
	if (fd < 0)
		bench_fail("%s: open: %s", s->path, strerror(errno));
	*kib = asked ? asked : before;
	return fd;
}

static void
mapped_run(struct stream *s, struct result *result, int sequential)
{
	struct mapped mapped = {.s = s};
	uint64_t start;

	mapped.fd = mapped_open(s, &result->readahead_kib);
	mapped.ahead = sequential && result->readahead_kib < (int)(AHEAD_BYTES >> 10);
	mapped.data = mmap(NULL, s->size_bytes,
			   s->op == BENCH_READ ? PROT_READ : PROT_READ | PROT_WRITE,
			   MAP_SHARED, mapped.fd, 0);
	if (mapped.data == MAP_FAILED)
		bench_fail("%s: mmap: %s", s->path, strerror(errno));
	if (sequential && madvise(mapped.data, s->size_bytes, MADV_SEQUENTIAL))
		bench_fail("%s: madvise: %s", s->path, strerror(errno));
	sem_init(&mapped.moved, 0, 0);

	start = bench_now_ns();
	bench_threads(s->threads + (mapped.ahead ? 1 : 0), mapped_thread, &mapped);
	if (s->op != BENCH_READ && fdatasync(mapped.fd))
		bench_fail("%s: fdatasync: %s", s->path, strerror(errno));
	result->ns = bench_now_ns() - start;
	result->sum = mapped.sum;
	munmap(mapped.data, s->size_bytes);
	close(mapped.fd);
}

/* A second file of holes beside the data file, gone afterwards whatever happens: it is unlinked
 * as soon as it is open and used by its /proc name. */
static void
mapped_new_run(struct stream *s, struct result *result)
{
	const char *path = s->path;
	char name[4096];
	int fd;

	if (s->op != BENCH_WRITE)
		bench_usage("mmap-new is for --op write");
	snprintf(name, sizeof(name), "%s.new", path);
	fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		bench_fail("%s: open: %s", name, strerror(errno));
	unlink(name);
	if (ftruncate(fd, (off_t)s->size_bytes))
		bench_fail("%s: %s", name, strerror(errno));
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	s->path = name;
	mapped_run(s, result, 0);
	bench_file_verify(s->path, s->size_bytes, s->new_base);
	s->path = path;
	s->new_base = s->base; /* the data file itself is as it was */
	close(fd);
}

/* Ours. One block of the grid computes on BLOCK_BYTES, as a thread does in the peers. */

struct ours_args {
	const struct stream *s;
	uint64_t *data;
	uint64_t first_block; /* of the launch */
	_Atomic uint64_t *sum;
};

static void
ours_kernel(const struct sluice_block *block, void *arg)
{
	const struct ours_args *args = arg;
	uint64_t first = (args->first_block + block->index.x) * BLOCK_WORDS;
	uint64_t sum = piece_compute(args->s, args->data + first, first, BLOCK_WORDS);

	if (args->s->op == BENCH_READ)
		atomic_fetch_add(args->sum, sum);
}

static struct sluice_space *
ours_create(const struct stream *s)
{
	struct sluice_config config;
	struct sluice_space *space;

	if (s->memory_bytes < s->staging_bytes + s->host_bytes + BLOCK_BYTES)
		bench_usage("--memory is less than --staging, --host and one chunk");
	if (sluice_config_init(&config))
		bench_fail("%s", sluice_last_error());
	config.device = SLUICE_DEVICE_SOFT;
	config.device_budget_bytes = s->memory_bytes - s->staging_bytes - s->host_bytes;
	config.host_budget_bytes = s->host_bytes;
	config.staging_bytes = s->staging_bytes;
	config.workers = s->threads;
	if (s->config && sluice_config_parse(&config, s->config))
		bench_usage("%s", sluice_last_error());
	if (sluice_space_create(&config, &space))
		bench_fail("%s", sluice_last_error());
	return space;
}

/* Enqueue the launches: one over everything that declares nothing, or one a tile. */
static void
ours_enqueue(const struct stream *s, struct sluice_space *space, struct ours_args args,
	     int declared)
{
	static const enum sluice_intent intents[BENCH_OP_COUNT] = {SLUICE_USE_READ,
								   SLUICE_USE_WRITE_ALL,
								   SLUICE_USE_READ_WRITE};
	uint64_t tile_bytes = declared ? s->tile_bytes : s->size_bytes;

	for (uint64_t at = 0; at < s->size_bytes; at += tile_bytes) {
		uint64_t bytes = s->size_bytes - at < tile_bytes ? s->size_bytes - at
								 : tile_bytes;
		struct sluice_grid grid = {(uint32_t)(bytes / BLOCK_BYTES), 1, 1};
		struct sluice_use use = {args.data + at / 8, bytes, intents[s->op]};

		args.first_block = at / BLOCK_BYTES;
		if (sluice_launch(space, NULL, ours_kernel, grid, &args, sizeof(args),
				  &use, declared ? 1 : 0))
			bench_fail("launch at %llu: %s", (unsigned long long)at,
				   sluice_last_error());
	}
}

static void
ours_run(struct stream *s, struct result *result, int declared)
{
	static const unsigned flags[BENCH_OP_COUNT] = {SLUICE_READ, SLUICE_WRITE,
						       SLUICE_READ | SLUICE_WRITE};
	_Atomic uint64_t sum = 0;
	struct ours_args args = {.s = s, .sum = &sum};
	struct sluice_space *space = ours_create(s);
	void *addr;
	uint64_t start;

	if (sluice_map(space, s->path, 0, s->size_bytes, flags[s->op], &addr))
		bench_fail("%s", sluice_last_error());
	args.data = addr;

	start = bench_now_ns();
	ours_enqueue(s, space, args, declared);
	if (sluice_stream_synchronize(space, NULL))
		bench_fail("%s", sluice_last_error());
	if (s->op != BENCH_READ && sluice_sync(space, addr, SLUICE_TO_END))
		bench_fail("%s", sluice_last_error());
	result->ns = bench_now_ns() - start;
	result->sum = sum;
	result->space = space;
}

static void
result_print(const struct stream *s, const char *variant, const struct result *result,
	     uint64_t cached_bytes)
{
	uint64_t moved = s->size_bytes;

	bench_json_begin("stream", variant);
	bench_json_text("op", op_names[s->op]);
	bench_json_count("threads", s->threads);
	bench_json_count("host_bytes", s->host_bytes);
	bench_json_count("size_bytes", s->size_bytes);
	bench_json_count("memory_bytes", s->memory_bytes);
	bench_json_number("seconds", (double)result->ns / 1e9);
	bench_json_number("gb_per_s", (double)moved / (double)result->ns);
	bench_json_count("cached_before_bytes", cached_bytes);
	if (result->readahead_kib)
		bench_json_number("readahead_kib", result->readahead_kib);
	if (result->space)
		bench_json_counters(result->space);
	bench_json_end();
}

static const char help[] =
	"usage: bench_stream --file FILE --create [--size SIZE]\n"
	"       bench_stream --file FILE --variant VARIANT --op read|write|rmw "
	"[OPTIONS]\n"
	"\n"
	"variants: disk hand mmap mmap-seq mmap-new fault launch\n"
	"\n"
	"  --size SIZE         of the file that is used (6G)\n"
	"  --memory SIZE       ours: device + staging + host (512M)\n"
	"  --host SIZE         ours: host tier, a part of --memory (0)\n"
	"  --staging SIZE      ours: frames for I/O, a part of --memory (64M)\n"
	"  --tile SIZE         launch: declared by one launch (16M)\n"
	"  --config TEXT       ours: more settings, as sluice_config_parse() takes them\n"
	"  --threads N         that compute (1)\n"
	"  --buffers N         hand: in the ring (8)\n"
	"  --buffer SIZE       hand: each (4M)\n"
	"  --io-threads N      hand: readers, and as many writers (4); disk: threads "
	"(16)\n"
	"  --readahead KIB     mmap: set the disk's read-ahead for the moment of opening "
	"(root)\n"
	"  --cgroup DIR        memory cgroup to enter before the run\n"
	"  --warm SIZE         memory touched before anything else (2G)\n";

static enum bench_op
op_parse(const char *text)
{
	for (int op = 0; op < BENCH_OP_COUNT; op++)
		if (!strcmp(text, op_names[op]))
			return (enum bench_op)op;
	bench_usage("--op: \"%s\" is not read, write or rmw", text);
}

/* Fill s from the command line; *create: no run, and no *variant. */
static void
options_parse(int argc, char **argv, struct stream *s, const char **variant, int *create)
{
	const char *op = NULL;
	const struct bench_option options[] = {
		{"file", BENCH_OPTION_TEXT, &s->path, 0, 0},
		{"create", BENCH_OPTION_FLAG, create, 0, 0},
		{"variant", BENCH_OPTION_TEXT, variant, 0, 0},
		{"op", BENCH_OPTION_TEXT, &op, 0, 0},
		{"size", BENCH_OPTION_SIZE, &s->size_bytes, 0, 0},
		{"memory", BENCH_OPTION_SIZE, &s->memory_bytes, 0, 0},
		{"host", BENCH_OPTION_SIZE, &s->host_bytes, 0, 0},
		{"staging", BENCH_OPTION_SIZE, &s->staging_bytes, 0, 0},
		{"tile", BENCH_OPTION_SIZE, &s->tile_bytes, 0, 0},
		{"config", BENCH_OPTION_TEXT, &s->config, 0, 0},
		{"threads", BENCH_OPTION_COUNT, &s->threads, 1, 64},
		{"buffers", BENCH_OPTION_COUNT, &s->buffers, 2, SLOTS_MAX},
		{"buffer", BENCH_OPTION_SIZE, &s->buffer_bytes, 0, 0},
		{"io-threads", BENCH_OPTION_COUNT, &s->io_threads, 1, IO_THREADS_MAX},
		{"readahead", BENCH_OPTION_COUNT, &s->readahead_kib, 4, 1 << 20},
		{"cgroup", BENCH_OPTION_TEXT, &s->cgroup, 0, 0},
		{"warm", BENCH_OPTION_SIZE, &s->warm_bytes, 0, 0},
	};

	bench_options_parse(argc, argv, options, sizeof(options) / sizeof(options[0]), help);
	if (!s->path || (!*create && (!*variant || !op)))
		bench_usage("--file, and --create or --variant and --op, are needed; see "
			    "--help");
	if (op)
		s->op = op_parse(op);
	if (!s->size_bytes || s->size_bytes % BLOCK_BYTES || !s->buffer_bytes ||
	    s->buffer_bytes % BENCH_ALIGN || s->size_bytes % s->buffer_bytes ||
	    !s->tile_bytes || s->tile_bytes % BLOCK_BYTES)
		bench_usage("--size and --tile must be multiples of 2M, --size one of "
			    "--buffer");
}

static void
variant_run(struct stream *s, const char *variant, struct result *result)
{
	if (!strcmp(variant, "disk"))
		disk_run(s, result);
	else if (!strcmp(variant, "hand"))
		hand_run(s, result);
	else if (!strcmp(variant, "mmap"))
		mapped_run(s, result, 0);
	else if (!strcmp(variant, "mmap-seq"))
		mapped_run(s, result, 1);
	else if (!strcmp(variant, "mmap-new"))
		mapped_new_run(s, result);
	else if (!strcmp(variant, "fault"))
		ours_run(s, result, 0);
	else if (!strcmp(variant, "launch"))
		ours_run(s, result, 1);
	else
		bench_usage("--variant: \"%s\" is not known; see --help", variant);
}

int
main(int argc, char **argv)
{
	struct stream s = {.size_bytes = 6ull << 30,
			   .memory_bytes = 512u << 20,
			   .staging_bytes = 64u << 20,
			   .buffer_bytes = 4u << 20,
			   .tile_bytes = 16u << 20,
			   .warm_bytes = 2ull << 30,
			   .buffers = 8,
			   .threads = 1};
	struct result result = {0};
	const char *variant = NULL;
	uint64_t cached_bytes;
	int create = 0;

	options_parse(argc, argv, &s, &variant, &create);
	if (create) {
		bench_file_create(s.path, s.size_bytes, 1);
		return 0;
	}
	if (!s.io_threads)
		s.io_threads = strcmp(variant, "disk") ? 4 : 16;
	s.base = bench_file_base(s.path, s.size_bytes);
	s.new_base = s.base + (s.op == BENCH_RMW) + (s.op == BENCH_WRITE ? 1000 : 0);
	bench_warm(s.warm_bytes);
	cached_bytes = bench_file_drop(s.path, s.size_bytes);
	bench_cgroup_enter(s.cgroup);

	variant_run(&s, variant, &result);

	if (s.op == BENCH_READ && result.sum != bench_sum_expected(s.base, s.size_bytes / 8))
		bench_fail("%s: the sum is wrong", variant);
	result_print(&s, variant, &result, cached_bytes);
	if (sluice_space_destroy(result.space))
		bench_fail("%s", sluice_last_error());
	bench_file_verify(s.path, s.size_bytes, s.new_base);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What test_threads_model.c compares a space with: threads that share regions word by
 * word.
 *
 * test_model.c gives each region to one thread and checks sizes and ends of files to the
 * byte. Here four threads use the same chunks and pages at once, so that each sees its
 * words moved by others. Each word of a shared region belongs to one thread, in stripes
 * from 1 word to 4 MiB. Only that thread reads, writes and models it; ranges of calls
 * cover words of all.
 *
 * A word in memory holds its region's tag, its index and a version. The shadow holds the
 * value written last. A word that was discarded may read as zero or as an older word of
 * the same region and index; never as bytes of another place.
 *
 * A launch that did not run leaves every word as it was (struct tm_launch keeps how). If
 * its space lost the old contents of a WRITE_ALL range meanwhile, a use of them must fail
 * with -EIO: they are then discarded, and counted in tm.lost_chunks.
 *
 * Files: threads_model.c words, ranges and the order of streams; threads_model_region.c a
 * region's life; threads_model_launch.c launches and scopes; threads_model_step.c all
 * other calls. The functions tm_step_*() are one step each, called on the thread that
 * they are given.
 */
#ifndef TESTS_STRESS_THREADS_MODEL_H
#define TESTS_STRESS_THREADS_MODEL_H

#include "stress/common.h"

#define TM_THREADS         4
#define TM_SHARED          5 /* regions of all threads */
#define TM_PRIVATE         3 /* regions of each thread */
#define TM_REGIONS         (TM_SHARED + TM_PRIVATE)
#define TM_STREAMS         2 /* of each thread */
#define TM_USES_MAX        3
#define TM_BLOCKS_MAX      6
#define TM_PINS_MAX        2 /* of each thread: more would leave launches no room for long */
#define TM_LOG_LINES       256
#define TM_PAGE_WORDS      (PAGE / sizeof(uint64_t))
#define TM_RANGE_WORDS_MAX 700000 /* nearly three chunks of 2 MiB */

enum tm_state {
	TM_LIVE, /* reads as the shadow */
	TM_DEAD, /* discarded; what is written from now on counts */
	TM_DEAD_LAZY /* discarded lazily: writes may be lost until a launch or pin revives it */
};

enum tm_kind {
	TM_ANONYMOUS,
	TM_FILE,
	TM_FILE_READ,
	TM_FILE_WRITE,
	TM_VOLATILE,
	TM_KINDS
};

struct tm_region {
	volatile uint64_t *base; /* NULL: none */
	uint64_t *shadow;
	uint8_t *state;    /* enum tm_state of each word */
	size_t words;      /* whole words of the mapping */
	size_t size_bytes; /* of the mapping: up to 7 bytes more */
	uint64_t tag;
	uint64_t first_index; /* of the file, at base */
	enum tm_kind kind;
	unsigned flags;
	char path[600];
	int fd; /* -1: anonymous */
	size_t file_bytes;
	int shared;
	unsigned stripe_shift; /* words of a stripe, as a power of two */
	uint64_t stripe_seed;
	int signal_faults; /* advised RANDOM: no system calls on it */
};

struct tm_range {
	struct tm_region *region;
	size_t from, count; /* words */
};

struct tm_log_line {
	struct tm_range range;
	const char *what;
	uint64_t detail, order;
};

struct tm_thread {
	unsigned id;
	struct sl_rng rng;
	struct sluice_stream *stream[TM_STREAMS];
	struct sluice_event *event;
	struct tm_region region[TM_PRIVATE];
	unsigned pending[TM_REGIONS]; /* streams with work on the region: bits */
	struct tm_range pin[TM_PINS_MAX];
	unsigned pins;
	struct tm_launch *newest[TM_STREAMS]; /* launches not yet waited for */
	_Atomic uint64_t steps;
	const char *_Atomic step; /* NULL: ended */
	struct tm_log_line log[TM_LOG_LINES];
	unsigned log_lines;
};

/* The run of one seed. */
struct tm_run {
	uint64_t seed;
	struct sluice_space *space;
	struct sluice_config config;
	/* Pins and changes of budgets: launches may then have no room, and not run. Without them every
	 * launch must run, and streams are ordered by events and looked at by callbacks. */
	int launches_fail;
	int signal_faults; /* no system calls on managed memory */
	struct tm_region shared[TM_SHARED];
	struct tm_thread thread[TM_THREADS];
	_Atomic uint64_t version, tags, order;
	_Atomic uint64_t words, refused, not_run, lost_chunks, io_errors;
};

extern struct tm_run tm;

/* Errors that a call may return; others are failures. */
enum tm_allow { TM_NOBUFS = 1, TM_BUSY = 2, TM_NOSPC = 4, TM_IO = 8 };

/* ---- threads_model.c ---- */

uint64_t tm_below(struct tm_thread *t, uint64_t n); /* random, 0 for n 0 */
uint64_t tm_hash(uint64_t a, uint64_t b);
uint64_t tm_version_next(void);
/* 1: the call was done. 0: it returned one of the allowed errors. Any other is a failure. */
int tm_done(int rc, const char *call, unsigned allow);

void tm_note(struct tm_thread *t, const char *what, struct tm_range x, uint64_t detail);
/* What word i of the region is written as. */
uint64_t tm_word(const struct tm_region *r, size_t i, uint64_t version);
int tm_owns(const struct tm_thread *t, const struct tm_region *r, size_t i);
void tm_check(const struct tm_region *r, size_t i, uint64_t got, uint64_t want,
	      enum tm_state state, const char *who);
/* Host code, or a system call, wrote the word. */
void tm_wrote(struct tm_region *r, size_t i, uint64_t value);
/* Whole pages of the range are discarded. */
void tm_discarded(struct tm_range x, enum tm_state state);
/* The thread's words that were discarded lazily live again. */
void tm_revive(const struct tm_thread *t, struct tm_range x);

struct tm_region *tm_region_pick(struct tm_thread *t);
/* A range of at most max words; own: all of them the thread's. 0: found none. */
int tm_range_pick(struct tm_thread *t, struct tm_region *r, size_t max, int own,
		  struct tm_range *out);
void *tm_address(struct tm_range x);
size_t tm_bytes(struct tm_range x);

/* Wait for the thread's own work on the region. */
void tm_settle(struct tm_thread *t, const struct tm_region *r);
/* Order the stream behind the thread's other work on the region, and note that it has some. */
void tm_order(struct tm_thread *t, const struct tm_region *r, unsigned stream);
/* One of the streams, ordered, or NULL (one time in three). */
struct sluice_stream *tm_stream_pick(struct tm_thread *t, const struct tm_region *r);

/* ---- threads_model_region.c ---- */

/* thread NULL: a shared region. */
void tm_region_begin(struct tm_region *r, struct tm_thread *t, struct sl_rng *rng);
void tm_region_end(struct tm_region *r, struct tm_thread *t);
/* The file after unmap or the end of the space; frees what the model has of the region. */
void tm_region_file_end(struct tm_region *r);
void tm_step_life(struct tm_thread *t);
void tm_step_remap(struct tm_thread *t, struct tm_region *r);

/* ---- threads_model_launch.c ---- */

void tm_step_launch(struct tm_thread *t);
void tm_step_launch_undeclared(struct tm_thread *t);
void tm_step_scope(struct tm_thread *t);
void tm_step_callback(struct tm_thread *t, struct tm_region *r);
/* Wait for a stream, and put back what launches that did not run were to write. */
void tm_synchronize(struct tm_thread *t, unsigned stream);

/* ---- threads_model_step.c ---- */

void tm_step_read(struct tm_thread *t, struct tm_region *r);
void tm_step_write(struct tm_thread *t, struct tm_region *r);
void tm_step_system_call(struct tm_thread *t, struct tm_region *r);
void tm_step_file(struct tm_thread *t, struct tm_region *r);
void tm_step_discard(struct tm_thread *t, struct tm_region *r);
void tm_step_prefetch(struct tm_thread *t, struct tm_region *r);
void tm_step_evict(struct tm_thread *t, struct tm_region *r);
void tm_step_pin(struct tm_thread *t, struct tm_region *r);
void tm_unpin(struct tm_thread *t, const struct tm_region *r); /* NULL: of all regions */
void tm_step_fork(struct tm_thread *t, struct tm_region *r);
void tm_step_look(struct tm_thread *t, struct tm_region *r);

#endif

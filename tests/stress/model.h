/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model that test_model.c compares a space with, and the steps of a random run.
 *
 * Threads (players) share a space. Each owns its files and regions, so it alone knows their
 * contents. The model keeps for each 8-byte word the last written value, or ANY after a discard,
 * or WILD. A word carries its owner, its index and a version. Where the model says ANY, a read
 * may give zero or an older word of the same owner and place, never other data. After sync and
 * unmap the file is compared, too.
 *
 * Kernels run on two streams of each player while it goes on with other ranges. The data that a
 * kernel must find are copied at the call. The player waits for a stream only where it must.
 *
 * Files: model.c words, ranges and files; model_region.c a region's life; model_use.c host code
 * and kernels; model_move.c moves and queries. A step is one API call, or a few, and their
 * effect on the model. It runs on its player's thread.
 */
#ifndef TESTS_STRESS_MODEL_H
#define TESTS_STRESS_MODEL_H

#include "stress/common.h"

#define FILES           2 /* of each player */
#define REGIONS         3
#define STREAMS         2
#define FILE_BYTES_MAX  (8 * MIB)
#define RANGE_BYTES_MAX (3 * MIB)
#define USE_CHUNKS_MAX  2
#define LOG_LINES       64
#define WORD            sizeof(uint64_t)
#define ANY             UINT64_MAX /* discarded: zero, or what the owner wrote there once */
#define WILD            (UINT64_MAX - 1) /* after scratch use: anything of this space */

/* A file at rest: exact words, and its length. */
struct file {
	char path[600];
	unsigned owner;
	size_t size_bytes;
	uint64_t *words; /* all of the file; the last may be cut off */
	int mapped;
};

struct region {
	char *base;        /* NULL: none */
	struct file *file; /* NULL: anonymous */
	size_t first_word; /* of the file, at base */
	size_t size_bytes;
	unsigned owner;
	unsigned flags;
	uint64_t *words; /* what must be read; ANY */
	unsigned char *lazy; /* words whose writes may be lost until a launch or prefetch revives them */
	size_t pin_from, pin_bytes; /* 0: not pinned */
	int tiled_stream; /* stream with work on [busy_from, busy_to); -1: none */
	size_t busy_from, busy_to; /* words */
};

struct player {
	struct sluice_space *space;
	struct sluice_config config;
	unsigned id;
	uint64_t seed, version, step;
	struct sl_rng rng;
	struct file file[FILES];
	struct region region[REGIONS];
	unsigned anonymous; /* how many there were */
	struct sluice_stream *stream[STREAMS];
	int at; /* the region of this step */
	char log[LOG_LINES][160];
};

/* The player whose thread this is; NULL on the threads of the device. */
extern _Thread_local const struct player *model_player;

/* ---- model.c ---- */

/* What the next lines of the log say, and the log. */
void player_note(struct player *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void player_log_print(const struct player *p);
/* A random number below n. */
uint64_t player_below(struct player *p, uint64_t n);

uint64_t word_make(unsigned owner, uint64_t index, uint64_t version);
size_t words_of(size_t bytes);
/* Bytes of word i that are inside size. */
size_t word_bytes(size_t size, size_t i);
uint64_t word_cut(uint64_t word, size_t bytes);
uint64_t word_load(const struct region *r, size_t i);
void word_check(const struct region *r, size_t i, uint64_t want, uint64_t got,
		const char *who);
/* A range of words, at most two chunks' worth where it is to be used by a launch. */
void range_pick(struct player *p, const struct region *r, size_t max_bytes, size_t *from,
		size_t *n);
size_t range_bytes(const struct region *r, size_t from, size_t n);
int range_has_any(const struct region *r, size_t from, size_t n);
struct region *region_pick(struct player *p);
/* Wait until the stream that works on any of these words is done. */
void region_settle(struct player *p, struct region *r, size_t from, size_t n);
/* The stream to work on this region: the one it is busy on, or any. Notes what is busy. */
unsigned region_stream(struct player *p, struct region *r, size_t from, size_t n);
void file_compare(const struct file *f, const struct region *r, size_t from, size_t n);
/* The file at rest: nothing outside the mapping changed; what is in it now is the model from here. */
void file_absorb(struct file *f, const struct region *r);
void file_make(struct player *p, unsigned k);

/* ---- model_region.c ---- */

void step_map(struct player *p);
void region_end(struct player *p, struct region *r);
void step_remap(struct player *p, struct region *r);
void step_pin(struct player *p, struct region *r);
void step_advise(struct player *p, struct region *r);
void step_sync(struct player *p, struct region *r);
/* One region of the space is pinned at a time. */
extern _Atomic int model_pin_taken;

/* ---- model_use.c ---- */

void step_host_read(struct player *p, struct region *r);
void step_host_write(struct player *p, struct region *r);
void step_launch(struct player *p, struct region *r);
/* The thread itself works in a scope; perhaps a kernel on the same range, too. */
void step_scope(struct player *p, struct region *r);

/* ---- model_move.c ---- */

void step_prefetch(struct player *p, struct region *r);
void step_evict(struct player *p, struct region *r);
void step_discard(struct player *p, struct region *r);
void step_look(struct player *p, struct region *r);
void step_budget(struct player *p);

#endif

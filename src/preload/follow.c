/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doing ahead what was needed last time. Programs repeat themselves, at the same addresses (arena.c): when
 * two scopes in a row are what was seen before, those that came behind them then are expected again.
 *   - What they used is brought to the device ahead of them, as far as a part of the device budget;
 *     what is there already counts as used, so that it is not taken out just before.
 *   - What was taken out between a use and the next one last time, so that it had to be fetched, leaves as
 *     soon as that use is over: its copy goes out while the link is idle, and there is room when it
 *     is needed (the idea of G10's eviction at the beginning of an idle period, learnt from what happened
 *     instead of planned).
 * A scope that is not the expected one ends that, at no cost but the moves.
 *
 * Kept: the last LOG_MAX scopes, found by the hash of what two in a row use. Threads: any; a thread
 * that finds the log in use goes without.
 */
#include <stdlib.h>

#include "core/embed.h"
#include "preload/books.h"

#define LOG_MAX    16384u /* a power of two, as those below */
#define USES_MAX   262144u
#define TABLE_MAX  65536u
#define LAST_MAX   65536u
#define AHEAD_MAX  1024u /* scopes looked ahead */
#define AHEAD_PART 4u    /* of the device budget, what they use in all */
#define STEPS_MAX  16u   /* looked at anew behind one scope */

struct used {
	uint64_t addr, bytes;
	uint64_t id;        /* of the block; 0: it had gone */
	unsigned char gone; /* fetched for its next use: it had been taken out */
	unsigned char asked; /* looking ahead, it was asked for: fetched, for the use that comes */
};

/* The last use of an address. */
struct last {
	uint64_t addr;
	uint64_t use; /* number in uses, + 1 */
};

struct entry {
	uint64_t hash, bytes;
	uint64_t newest; /* block used so far, by its number */
	uint64_t first;  /* in uses, counts up */
	uint32_t n;
};

struct pl_follow {
	pthread_mutex_t lock;
	struct entry log[LOG_MAX];
	struct used uses[USES_MAX];
	uint64_t table[TABLE_MAX]; /* number of the last scope with that pair of hashes, + 1 */
	struct last last[LAST_MAX]; /* by address; a newer one takes the place of another */
	uint64_t head, uses_head;   /* count up */
	uint64_t last_hash, newest;
	int following;
	uint64_t cursor, ahead; /* next expected; next to be looked at */
	uint64_t ahead_bytes;   /* of what lies between */
};

static uint64_t
mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

static int
entry_is_there(const struct pl_follow *f, uint64_t number)
{
	return number < f->head && f->head - number < LOG_MAX &&
	       f->uses_head - f->log[number % LOG_MAX].first < USES_MAX;
}

static struct pl_follow *
follow_get(struct pl_gpu *gpu)
{
	struct pl_gpu_books *books = gpu->books;
	struct pl_follow *f = atomic_load_explicit(&books->follow, memory_order_acquire);

	if (f)
		return f;
	pthread_mutex_lock(&books->lock);
	f = atomic_load(&books->follow);
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (f)
			pthread_mutex_init(&f->lock, NULL);
		atomic_store_explicit(&books->follow, f, memory_order_release);
	}
	pthread_mutex_unlock(&books->lock);
	return f;
}

/* Note the scope; its number. */
static uint64_t
entry_add(struct pl_follow *f, const struct sluice_use *uses, size_t n)
{
	struct entry *e = &f->log[f->head % LOG_MAX];

	*e = (struct entry){.hash = n, .first = f->uses_head, .n = (uint32_t)n};
	for (size_t i = 0; i < n; i++) {
		struct used *u = &f->uses[f->uses_head++ % USES_MAX];
		const struct pl_block *block = pl_block_find((uintptr_t)uses[i].addr);

		*u = (struct used){(uintptr_t)uses[i].addr, uses[i].size_bytes,
				   block ? block->id : 0, 0, 0};
		if (u->id > f->newest)
			f->newest = u->id;
		e->hash = mix(mix(e->hash, u->addr), u->bytes);
		e->bytes += u->bytes;
	}
	e->newest = f->newest;
	return f->head++;
}

/* Where this scope was the last time, and the one before it as well. */
static void
place_find(struct pl_follow *f, uint64_t number, uint64_t hash)
{
	uint64_t pair = mix(f->last_hash, hash);
	uint64_t *slot = &f->table[pair >> 48];
	uint64_t found = *slot;

	*slot = number + 1;
	if (f->following || !found || !entry_is_there(f, found) ||
	    f->log[(found - 1) % LOG_MAX].hash != hash)
		return;
	f->following = 1;
	f->cursor = f->ahead = found; /* behind it */
	f->ahead_bytes = 0;
}

/* The scope as it was last time, if it is the expected one. */
static struct entry *
expected_compare(struct pl_follow *f, uint64_t hash)
{
	struct entry *e = &f->log[f->cursor % LOG_MAX];

	if (!f->following)
		return NULL;
	if (!entry_is_there(f, f->cursor) || e->hash != hash) {
		f->following = 0;
		PL_COUNT(follows_miss, 1);
		return NULL;
	}
	PL_COUNT(follows_hit, 1);
	if (f->ahead > f->cursor)
		f->ahead_bytes -= e->bytes;
	f->cursor++;
	if (f->ahead < f->cursor)
		f->ahead = f->cursor;
	return e;
}

/* What had to be fetched for this scope had left after its use before. */
static void
fetched_note(struct pl_follow *f, const struct entry *now, const struct entry *then,
	     const struct sluice_launch *launch)
{
	for (uint32_t i = 0; i < now->n; i++) {
		struct used *u = &f->uses[(now->first + i) % USES_MAX];
		struct last *last = &f->last[mix(0, u->addr) >> 48];
		int fetched = sl_launch_fetched(launch, i) ||
			      (then && f->uses[(then->first + i) % USES_MAX].asked);

		if (fetched && last->addr == u->addr && last->use &&
		    f->uses_head - (last->use - 1) < USES_MAX)
			f->uses[(last->use - 1) % USES_MAX].gone = 1;
		*last = (struct last){u->addr, now->first + i + 1};
	}
}

/* What left behind this scope last time is to leave again. */
static void
gone_leave(struct pl_gpu *gpu, struct pl_follow *f, const struct entry *then)
{
	for (uint32_t i = 0; i < then->n; i++) {
		const struct used *u = &f->uses[(then->first + i) % USES_MAX];

		if (u->gone && pl_block_find(u->addr))
			sl_leave_later(gpu->space, (void *)(uintptr_t)u->addr, u->bytes);
	}
}

/* Ask for what comes next. Blocks that were first used behind this point the last time do not exist yet:
 * what lies at their addresses now is something else. */
static void
ahead_go(struct pl_gpu *gpu, struct pl_follow *f)
{
	uint64_t newest = f->log[(f->cursor - 1) % LOG_MAX].newest;

	for (unsigned steps = 0; f->following && steps < STEPS_MAX; steps++) {
		const struct entry *e = &f->log[f->ahead % LOG_MAX];

		if (f->ahead - f->cursor >= AHEAD_MAX || !entry_is_there(f, f->ahead) ||
		    f->ahead_bytes + e->bytes > gpu->device_budget / AHEAD_PART)
			return;
		for (uint32_t i = 0; i < e->n; i++) {
			struct used *u = &f->uses[(e->first + i) % USES_MAX];

			/* What has been freed since is not brought in. */
			if (u->id <= newest && pl_block_find(u->addr) &&
			    sl_ahead(gpu->space, (void *)(uintptr_t)u->addr, u->bytes))
				u->asked = 1;
		}
		f->ahead_bytes += e->bytes;
		f->ahead++;
	}
}

void
pl_follow_scope(struct pl_gpu *gpu, const struct sluice_use *uses, size_t n,
		const struct sluice_launch *launch)
{
	struct pl_follow *f = follow_get(gpu);
	const struct entry *now, *then;
	uint64_t number;

	if (!f || !n || pthread_mutex_trylock(&f->lock))
		return;
	number = entry_add(f, uses, n);
	now = &f->log[number % LOG_MAX];
	then = expected_compare(f, now->hash);
	fetched_note(f, now, then, launch);
	if (then)
		gone_leave(gpu, f, then);
	place_find(f, number, now->hash);
	f->last_hash = now->hash;
	ahead_go(gpu, f);
	pthread_mutex_unlock(&f->lock);
}

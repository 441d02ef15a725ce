/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that are too short: part_growth.h. A pool puts tensors of other sizes at the same
 * addresses over time. So an address that begins a tensor now may lie inside of another one later,
 * and ends its part too early. The kernel then uses the rest over the link, at each launch.
 *
 * Only its time shows that. Launches of the same work (a function with its grid, a piece of a graph)
 * have one size of their parts: a level. Each level is four times as long as the one below.
 *
 *   - A launch is slow if, in its time, the link could have moved a quarter of its parts.
 *   - A higher level is tried for a slow one: the first whose parts have room for what the link
 *     could have moved. It stays if the launch then takes less than seven tenths of the time.
 *   - That level can be too high, since kernels read some data several times. So the levels below
 *     are tried, down to the first where the launch takes 1.3 times as long.
 *   - The first launch of any work is not timed: the driver loads it then.
 *   - What has settled is timed again at launches 4, 8, 16 and so on. If it has become twice as
 *     slow, it is tried again.
 *
 * A part that is too long costs bytes. So a level is not tried if its parts took more than half of
 * the device.
 */
#include "preload/args/part_growth.h"

#include <stdbool.h>

#include "base/hash.h"
#include "base/lock.h"
#include "preload/alloc/block.h"
#include "preload/preload.h"
#include "preload/report/counters.h"

/* Works that are known. More than that: the one with fewest launches near its place is forgotten. */
#define WORKS         4096u
#define NEAR          8u
/* Levels above the part as it is cut: 256 times its length. */
#define LEVELS        4u
#define TIMES         2u /* each is so many times twice the one below */
/* A part without an end is taken to be so long, before it is grown: a chunk. */
#define LEAST_BYTES   (UINT64_C(2) << 20)
/* Shorter launches are not tried: each trial costs as much in moves. */
#define SLOW_NS       UINT64_C(100000)
/* Of the fastest link that there is (PCIe 5.0, 16 lanes), 64 bytes a nanosecond, and the quarter. */
#define LINK_BYTES_NS UINT64_C(64)
#define SLOW_SHARE    4u
/* Part of the device budget that the parts of a launch may take. */
#define LARGE_SHARE   2u

enum trial { NONE, UP, DOWN };

struct work {
	uint64_t key; /* 0: free */
	uint64_t launches;
	uint64_t ns;           /* of the last launch of this level; 0: not known */
	uint64_t wanted_bytes; /* of its parts: UP looks for a level with them */
	unsigned level;
	unsigned floor; /* a level that is too low; as level: none is known */
	enum trial trial;
	bool settled; /* no more trials */
};

static struct sl_mutex lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF);
static struct work works[WORKS]; /* lock */

/* NULL: it is not there, and make is 0. */
SL_REQUIRES(lock) static struct work *work_find(uint64_t key, bool make)
{
	struct work *least = NULL;

	for (unsigned i = 0; i < NEAR; i++) {
		struct work *w = &works[(key + i) % WORKS];

		if (w->key == key)
			return w;
		if (!least || (least->key && (!w->key || w->launches < least->launches)))
			least = w;
	}
	if (!make)
		return NULL;
	*least = (struct work){.key = key};
	return least;
}

static uint64_t
part_bytes(const struct pl_use *use, unsigned level)
{
	uint64_t left = use->block->base + use->block->bytes - use->addr;
	uint64_t bytes = use->bytes;

	if (!level || !use->open)
		return bytes;
	if (bytes < LEAST_BYTES)
		bytes = LEAST_BYTES;
	bytes <<= (uint64_t)TIMES * level;
	return bytes < left ? bytes : left;
}

static uint64_t
parts_bytes(const struct pl_use *uses, size_t n, unsigned level)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		if (uses[i].open)
			bytes += part_bytes(&uses[i], level);
	return bytes;
}

static bool
is_power_of_two(uint64_t n)
{
	return !(n & (n - 1));
}

static void
trial_set(struct work *w, enum trial trial)
{
	w->trial = trial;
	w->settled = trial == NONE;
}

/* The level of the next launch: the one that is tried, if it has room. */
SL_REQUIRES(lock)
static unsigned
level_choose(struct work *w, const struct pl_use *uses, size_t n, uint64_t most_bytes)
{
	unsigned level = w->level;

	if (w->trial == DOWN)
		level--;
	if (w->trial == UP)
		do
			level++;
		while (level < LEVELS && parts_bytes(uses, n, level) < w->wanted_bytes);
	while (level && parts_bytes(uses, n, level) > most_bytes)
		level--;
	if (w->trial == UP && level <= w->level)
		trial_set(w, NONE);
	return level;
}

void
pl_growth_begin(uint64_t what, uint64_t shape, const struct pl_use *uses, size_t n,
		uint64_t budget_bytes, struct pl_growth *growth)
{
	uint64_t key = sl_hash_add(what, shape) | 1;
	struct work *w;

	*growth = (struct pl_growth){0};
	if (!parts_bytes(uses, n, 1)) /* none is a part */
		return;
	sl_mutex_lock(&lock);
	w = work_find(key, true);
	w->launches++;
	growth->level = level_choose(w, uses, n, budget_bytes / LARGE_SHARE);
	growth->bytes = parts_bytes(uses, n, growth->level);
	if (w->settled ? is_power_of_two(w->launches) : w->launches > 1)
		growth->key = key;
	sl_mutex_unlock(&lock);
}

uint64_t
pl_growth_bytes(const struct pl_growth *growth, const struct pl_use *use)
{
	return part_bytes(use, growth->level);
}

static bool
is_slow(uint64_t ns, uint64_t bytes)
{
	return ns >= SLOW_NS && ns * LINK_BYTES_NS >= bytes / SLOW_SHARE;
}

/* What comes after a level has taken its place. */
static void
level_go_on(struct work *w, bool slow)
{
	if (slow && w->level < LEVELS && w->trial == UP)
		return;
	trial_set(w, w->level > w->floor + 1 ? DOWN : NONE);
}

/* A launch of the level that is in use. */
static void
level_took(struct work *w, uint64_t ns, bool slow)
{
	bool slower = w->ns && ns > 2 * w->ns;

	if (w->trial == NONE && slow && w->level < LEVELS && (!w->settled || slower)) {
		w->floor = w->level;
		trial_set(w, UP);
	} else if (w->trial == NONE) {
		w->settled = true;
	}
	w->ns = ns;
}

static void
up_took(struct work *w, unsigned level, uint64_t ns, bool slow)
{
	if (ns >= w->ns / 10 * 7) {
		trial_set(w, NONE);
		return;
	}
	w->floor = w->level;
	w->level = level;
	w->ns = ns;
	PL_COUNT(parts_grown, 1);
	level_go_on(w, slow);
}

static void
down_took(struct work *w, uint64_t ns)
{
	if (ns > w->ns / 10 * 13) {
		trial_set(w, NONE);
		return;
	}
	w->level--;
	level_go_on(w, false);
}

void
pl_growth_took(const struct pl_growth *growth, uint64_t ns)
{
	struct work *w;
	bool slow = is_slow(ns, growth->bytes);

	if (!growth->key || !ns)
		return;
	sl_mutex_lock(&lock);
	w = work_find(growth->key, false);
	if (w && growth->level == w->level) {
		w->wanted_bytes = growth->bytes + ns * LINK_BYTES_NS;
		level_took(w, ns, slow);
	} else if (w && w->trial == UP && growth->level > w->level) {
		w->wanted_bytes = growth->bytes + ns * LINK_BYTES_NS;
		up_took(w, growth->level, ns, slow);
	} else if (w && w->trial == DOWN && growth->level + 1 == w->level) {
		down_took(w, ns);
	}
	sl_mutex_unlock(&lock);
}

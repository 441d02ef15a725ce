/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that are too short: part_growth.h. A pool puts tensors of other sizes at the same
 * addresses over time. So an address that begins a tensor now may lie inside of another one later,
 * and ends its part too early. The kernel then uses the rest over the link, at each launch.
 *
 * Only its time shows that. Launches of the same work (a function with its grid, a piece of a
 * graph) have a level in common. Parts that are shorter than the level's length, 8, 32, 128 or 512
 * MiB, are made so long.
 *
 *   - A launch is slow if, in its time, the link could have moved a quarter of its parts.
 *   - After two slow ones a higher level is tried: the first that has room for what the link could
 *     have moved. It stays if the launch then takes less than seven tenths of the time.
 *   - That level can be too high: kernels read some data several times, and more addresses are
 *     known later. So the levels below are tried, down to the first where the launch takes 1.3
 *     times as long. That says something only while what is beyond the lower level's parts is off
 *     the device: a launch is not taken for it else.
 *   - The first launch of any work is not timed: the driver loads it then.
 *   - Ends of parts become known over the first launches. A time from before says nothing then.
 *   - Of what has settled each 16th launch is timed. If it has become twice as slow, a higher level
 *     is tried. At launches 32, 64, 128 and so on the level below is.
 *
 * Where nothing is moved ahead, parts stay where they are. A kernel that reads each byte once is as fast so
 * as the link. One that reads them several times, as the product of two matrices does, is not: its parts
 * are brought in. Two launches in a row with a quarter off the device tell which it is. Until one has told,
 * the parts of others are brought in, since a program may call hundreds ahead. At launches 32, 64, 128 and
 * so on the parts stay once more.
 *
 * A part that is too long costs bytes. So a level is not tried if its parts took more than half of
 * the device.
 */
#include "preload/args/part_growth.h"

#include <stdbool.h>

#include "base/hash.h"
#include "base/lock.h"
#include "preload/alloc/block.h"
#include "preload/args/parts.h"
#include "preload/preload.h"
#include "preload/report/counters.h"

/* Works that are known. More than that: the one with fewest launches near its place is forgotten. */
#define WORKS         4096u
#define NEAR          8u
/* The length of parts at level 1; that of each other level is four times the one below. More
 * levels between them: more trials. Less: more bytes are brought that nobody uses. */
#define LEVEL_BYTES   (UINT64_C(8) << 20)
#define LEVELS        4u
/* Shorter launches are not tried: a trial moves data for longer than it can win. */
#define SLOW_NS       UINT64_C(100000)
/* The fastest link that there is (PCIe 5.0, 16 lanes) has 64 bytes a nanosecond. Part of a
 * launch's parts that it must have had time for. Less: more trials in vain. */
#define LINK_BYTES_NS UINT64_C(64)
#define SLOW_SHARE    4u
/* So often could the link have moved what a launch used over it: it reads that several times. A link of half that rate
 * and a kernel that reads once make 2.5. Products of large matrices have 5 (llama.cpp's prompts, H200). */
#define REREADS       3u
/* And it takes as many times as long as with all on the device. Less: a launch that something else held up is one.
 * Those products have 40. */
#define MUCH_LONGER   8u
/* Of works that have settled so many launches have one time: its two events take some microseconds. */
#define TIMED_EACH    16u

enum trial { NONE, UP, DOWN };

struct work {
	uint64_t key; /* 0: free */
	uint64_t launches;
	uint64_t ns;           /* that a launch of its level takes; 0: not known */
	uint64_t cut_bytes;    /* of its parts as they are cut, at most so far */
	uint64_t wanted_bytes; /* of its parts: UP looks for a level with them */
	unsigned level;        /* 0: parts are as they are cut */
	unsigned slow;         /* launches of this level in a row that were */
	enum trial trial;
	bool settled; /* no more trials for now */

	/* ---- of launches whose parts were left where they are ---- */

	unsigned rereads; /* times in a row that the parts crossed the link several times */
	bool reads_once; /* a launch has told so, and no two since that they do */
	bool asked;      /* the time of one is awaited */
};

static struct sl_mutex lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF);
static struct work works[WORKS]; /* lock */

static uint64_t
work_key(uint64_t what, uint64_t shape)
{
	return sl_hash_add(what, shape) | 1; /* not 0 */
}

/* NULL: it is not there, and make is false. */
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
	uint64_t bytes = level && use->open ? LEVEL_BYTES << 2 * (level - 1) : 0;

	if (bytes <= use->bytes)
		return use->bytes;
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

static void
trial_set(struct work *w, enum trial trial)
{
	w->trial = trial;
	w->settled = trial == NONE;
}

static bool
is_power_of_two(uint64_t n)
{
	return !(n & (n - 1));
}

/* Bytes on the device of these parts, beyond those of the level below if that is asked; *all: in all. */
static uint64_t
parts_there(const struct pl_use *uses, size_t n, unsigned level, bool beyond,
	    uint64_t (*resident)(const struct pl_use *use, uint64_t from, uint64_t to),
	    uint64_t *all)
{
	uint64_t there = 0;

	*all = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t from = beyond ? part_bytes(&uses[i], level - 1) : 0;
		uint64_t to = part_bytes(&uses[i], level);

		if (!uses[i].open || from == to)
			continue;
		there += resident(&uses[i], from, to);
		*all += to - from;
	}
	return there;
}

/* Whether a quarter of what the level has beyond the one below is on the device. */
static bool
beyond_is_there(const struct pl_use *uses, size_t n, unsigned level,
		uint64_t (*resident)(const struct pl_use *use, uint64_t from, uint64_t to))
{
	uint64_t all, there = parts_there(uses, n, level, true, resident, &all);

	return there > all / 4;
}

/* The level that the next launch tries; that of the work, if there is no room for another one. */
SL_REQUIRES(lock)
static unsigned
level_choose(struct work *w, const struct pl_use *uses, size_t n, uint64_t most_bytes,
	     bool less)
{
	unsigned level = w->level;

	if (w->trial == DOWN && less)
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

/* The level whose parts are to be made shorter next; 0: none. */
static unsigned
level_to_leave(uint64_t key)
{
	const struct work *w;
	unsigned level;

	sl_mutex_lock(&lock);
	w = work_find(key, false);
	level = w && w->trial == DOWN ? w->level : 0;
	sl_mutex_unlock(&lock);
	return level;
}

void
pl_growth_begin(uint64_t what, uint64_t shape, const struct pl_use *uses, size_t n,
		uint64_t budget_bytes,
		uint64_t (*resident)(const struct pl_use *use, uint64_t from, uint64_t to),
		struct pl_growth *growth)
{
	uint64_t key = work_key(what, shape);
	unsigned leaves;
	struct work *w;

	*growth = (struct pl_growth){0};
	if (!parts_bytes(uses, n, LEVELS)) /* none is a part */
		return;
	leaves = level_to_leave(key);
	if (leaves && beyond_is_there(uses, n, leaves, resident))
		leaves = 0;
	sl_mutex_lock(&lock);
	w = work_find(key, true);
	w->launches++;
	growth->level = level_choose(w, uses, n, budget_bytes / PL_LARGE_SHARE,
				     leaves && leaves == w->level);
	growth->bytes = parts_bytes(uses, n, growth->level);
	growth->cut_bytes = parts_bytes(uses, n, 0);
	if (w->settled ? w->launches % TIMED_EACH == 0 : w->launches > 1)
		growth->key = key;
	growth->again = is_power_of_two(w->launches);
	sl_mutex_unlock(&lock);
}

uint64_t
pl_growth_bytes(const struct pl_growth *growth, const struct pl_use *use)
{
	return part_bytes(use, growth->level);
}

/* How many bytes of these parts are off the device; 0: less than a quarter, which says little. */
static uint64_t
parts_away(const struct pl_use *uses, size_t n, unsigned level,
	   uint64_t (*resident)(const struct pl_use *use, uint64_t from, uint64_t to))
{
	uint64_t all, there = parts_there(uses, n, level, false, resident, &all);

	return there < all && all - there >= all / 4 ? all - there : 0;
}

int
pl_growth_leave(uint64_t what, uint64_t shape, const struct pl_use *uses, size_t n,
		uint64_t (*resident)(const struct pl_use *use, uint64_t from, uint64_t to),
		struct pl_growth *growth)
{
	uint64_t key = work_key(what, shape), launches, away = 0;
	bool timed, leave;
	struct work *w;

	sl_mutex_lock(&lock);
	w = work_find(key, false);
	launches = w ? w->launches : 0;
	leave = !w || w->reads_once || (w->rereads < 2 && !w->asked) ||
		is_power_of_two(launches);
	timed = launches > 1 &&
		(!w->reads_once || launches <= TIMED_EACH || launches % TIMED_EACH == 0);
	sl_mutex_unlock(&lock);
	if (!leave)
		return 0;
	if (timed)
		away = parts_away(uses, n, growth->level, resident);
	*growth = (struct pl_growth){.level = growth->level, .left = 1, .bytes = away};
	if (!away)
		return 1;
	growth->key = key;
	sl_mutex_lock(&lock);
	w = work_find(key, false);
	if (w)
		w->asked = 1;
	sl_mutex_unlock(&lock);
	return 1;
}

static bool
is_slow(uint64_t ns, uint64_t bytes)
{
	return ns >= SLOW_NS && ns * LINK_BYTES_NS >= bytes / SLOW_SHARE;
}

/* A launch of the level that is in use. again: the one below may be tried once more. */
static void
level_took(struct work *w, uint64_t ns, bool slow, bool again)
{
	bool as_before = w->settled && !(slow && ns > 2 * w->ns);

	w->slow = slow ? w->slow + 1 : 0;
	if (w->trial != NONE) /* a launch from before it began */
		return;
	if (as_before)
		trial_set(w, again && w->level ? DOWN : NONE);
	else if (slow && w->level < LEVELS && w->slow > 1)
		trial_set(w, UP);
	else
		w->settled = !slow || w->level == LEVELS;
	if (w->slow < 2 || ns < w->ns)
		w->ns = ns;
}

static void
up_took(struct work *w, unsigned level, uint64_t ns, bool slow)
{
	if (ns >= w->ns / 10 * 7) {
		trial_set(w, NONE);
		return;
	}
	w->level = level;
	w->ns = ns;
	trial_set(w, slow && level < LEVELS ? UP : DOWN);
	PL_COUNT(parts_grown, 1);
}

/* ns: with so many bytes of its parts off the device. */
static bool
left_was_slow(const struct work *w, uint64_t ns, uint64_t bytes)
{
	return w->ns && ns >= MUCH_LONGER * w->ns && ns >= REREADS * bytes / LINK_BYTES_NS;
}

/* ns 0: not known. */
static void
left_took(struct work *w, uint64_t ns, uint64_t bytes)
{
	w->asked = 0;
	if (!ns)
		return;
	if (!left_was_slow(w, ns, bytes)) {
		w->rereads = 0;
		w->reads_once = 1;
		return;
	}
	w->rereads += w->rereads < 2;
	if (w->rereads == 2) /* one alone may be another one's fault */
		w->reads_once = 0;
}

/* Its parts are longer now without growing: the times that a trial would be compared with are of others. */
static void
cuts_look(struct work *w, uint64_t cut_bytes)
{
	if (cut_bytes <= w->cut_bytes)
		return;
	w->cut_bytes = cut_bytes;
	if (w->settled || w->trial == DOWN)
		return;
	w->trial = NONE;
	w->slow = 0;
	w->ns = 0;
}

static void
down_took(struct work *w, uint64_t ns)
{
	bool as_fast = ns <= w->ns / 10 * 13;

	w->level -= as_fast;
	trial_set(w, as_fast && w->level ? DOWN : NONE);
}

void
pl_growth_took(const struct pl_growth *growth, uint64_t ns)
{
	struct work *w;
	bool slow = is_slow(ns, growth->bytes);

	if (!growth->key || (!ns && !growth->left))
		return;
	sl_mutex_lock(&lock);
	w = work_find(growth->key, false);
	if (w && !growth->left)
		cuts_look(w, growth->cut_bytes);
	if (w && growth->left) {
		left_took(w, ns, growth->bytes);
	} else if (w && growth->level == w->level) {
		w->wanted_bytes = growth->bytes + ns * LINK_BYTES_NS;
		level_took(w, ns, slow, growth->again);
	} else if (w && w->trial == UP && growth->level > w->level) {
		w->wanted_bytes = growth->bytes + ns * LINK_BYTES_NS;
		up_took(w, growth->level, ns, slow);
	} else if (w && w->trial == DOWN && growth->level + 1 == w->level) {
		down_took(w, ns);
	}
	sl_mutex_unlock(&lock);
}

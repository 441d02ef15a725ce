/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who leaves the device. Whoever needs room asks sl_victim_pick(), and no other code chooses. It
 * looks at the books and moves nothing: evicting, and waiting for launches, is the caller's part.
 *
 *	victim.c   the rules: for each requester what it may take, in which order
 *	lru.c      the order of the chunks that are in use
 *	policy.h   another order, by other stamps
 *
 * Pin rules. Each has one exception at most.
 *  1. A chunk that the user has pinned (sluice_pin(), user_pins) never leaves. It is in no heap
 *     and no list, so no step finds it.
 *  2. A chunk that the launch being prepared needs (SL_PREPARING) does not leave. Only a fault
 *     takes it, when there is nothing else.
 *  3. A chunk that a launch in flight uses (sl_chunk_pins()) does not leave until the launch ends.
 *     Only a fault takes it: the kernel that faults may be that launch. A later touch brings the
 *     chunk back.
 *  4. A launch that needs room waits for such a chunk when its turn has come; it takes no other.
 *     So the choice depends on the order of calls and not on how long kernels run.
 *  5. A chunk that sluice_launch_begin() holds is passed over and counts as just used: the end of
 *     that launch may wait for this very requester.
 *  6. A fetch by a running kernel passes over what launches use: they may stand behind that kernel.
 *     Prefetches and write-behind pass over it, too: they are never worth a wait.
 *  7. A chunk that a prefetch has asked for (awaited) is the last that another prefetch takes.
 *  8. A chunk that a thread holds (sl_chunk_is_held()) leaves when that thread has let it go.
 *     sl_evict() waits for it. Early evictions and write-behind pass it over.
 *
 * LOCKING: all of it under space->lock; nothing drops it.
 */
#ifndef SL_CORE_STATE_VICTIM_H
#define SL_CORE_STATE_VICTIM_H

#include "core/state/state.h"

/* Where a victim may come from. The texts are in victim.c. */
enum sl_victim_step {
	SL_STEP_END,
	SL_STEP_EARLY_UNUSED, /* told to leave early, and no launch uses it */
	SL_STEP_EARLY,        /* the same, or a launch in flight uses it */
	SL_STEP_DISCARDED_UNUSED,
	SL_STEP_DISCARDED,       /* the same, or a launch in flight uses it */
	SL_STEP_DISCARDED_ANY,   /* whoever uses it */
	SL_STEP_COLDEST_UNASKED, /* no launch uses it, and no prefetch has asked for it */
	SL_STEP_COLDEST_UNUSED,
	SL_STEP_COLDEST, /* a launch in flight may use it */
	SL_STEP_COLDEST_PINNED, /* the same; of any size, and sluice_launch_begin() may hold it */
	SL_STEP_COLDEST_ANY, /* whoever uses it, of any size */
	SL_STEP_COUNT
};
#define SL_VICTIM_STEPS_MAX 6

/* What a requester does when launches in flight use the chunk whose turn has come. */
enum sl_victim_in_use {
	SL_IN_USE_PASS, /* no step finds such a chunk */
	SL_IN_USE_WAIT, /* it waits for them */
	SL_IN_USE_TAKE  /* it takes the chunk */
};

#define SL_WAIT_ROOM UINT64_MAX /* until there is room, however long launches run */

struct sl_victim_rule {
	const char *asker; /* as the log names it */
	enum sl_victim_in_use in_use;
	uint64_t wait_ns; /* how long it waits for launches in flight, at most */
	enum sl_victim_step steps[SL_VICTIM_STEPS_MAX]; /* in this order, until one finds a chunk */
};

/* The table, by enum sl_room_mode. */
extern const struct sl_victim_rule sl_victim_rules[SL_ROOM_MODE_COUNT];

struct sl_victim_request {
	enum sl_room_mode mode;
	/* Room for a chunk of this size: one of the same size is taken, where it is nearly as cold
	 * as the coldest. 0: any size. */
	uint64_t chunk_bytes;
	uint64_t before; /* only a chunk with a smaller stamp, or with dead contents; 0: any */
	int (*not_now)(const struct sl_chunk *c); /* early evictions pass over such; NULL: none */
};

struct sl_victim {
	struct sl_chunk *chunk; /* NULL: there is none now */
	enum sl_room_mode mode;
	enum sl_victim_step step; /* that found it */
	int wait; /* launches in flight use it, and the requester is to wait for them */
};

/* The next victim for this requester. A chunk that sluice_launch_begin() holds is refreshed on
 * the way. */
struct sl_victim sl_victim_pick(struct sluice_space *s,
				const struct sl_victim_request *request) SL_HELD;
const char *sl_victim_step_text(enum sl_victim_step step);
/* Whether room for a chunk of this size would be a chunk with a smaller stamp. Changes nothing. */
int sl_victim_is_colder(struct sluice_space *s, uint64_t chunk_bytes, uint64_t before) SL_HELD;
/* What of the device is taken, less what is dead and in no launch's use. least: less need not be found. */
uint64_t sl_room_alive(const struct sluice_space *s, uint64_t least) SL_HELD;
/* Whether so many bytes of the device are free, or dead and in no launch's use. */
int sl_room_spare(const struct sluice_space *s, uint64_t bytes) SL_HELD;

#endif

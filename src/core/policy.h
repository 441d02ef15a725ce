/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replacement policy: an object of flags and functions. The pager calls it; nothing else in the
 * pager knows which policy a space has.
 *
 * A policy orders the chunks of the device by their stamps: the smallest stamp leaves first
 * (lru.c). By default a stamp is the clock of uses, and the order is least recently used. A policy
 * with a stamp() of its own has another order. A policy decides what moves, never what is true:
 * the results of a program are the same under each.
 *
 * LOCKING: every function is called under space->lock. Only step() may drop it.
 */
#ifndef SL_CORE_POLICY_H
#define SL_CORE_POLICY_H

#include "base/error.h"
#include "sluice/launch.h"
#include "sluice/space.h"

struct sl_chunk;
struct sl_region;

struct sl_policy {
	const char *name;

	/* Flags. */
	int stamp_on_hit; /* 1: every launch that names a chunk refreshes it; 0: only a move */
	int honour_intents; /* 1: launch intents count; 0: map flags only */
	int honour_flags; /* 1: READ-only regions are clean; 0: everything present is dirty */

	/* Functions. NULL: the policy does nothing there. */

	/* Make and free space->policy_state. Without the lock; destroy: the mover has ended. */
	int (*create)(struct sluice_space *s) SL_MUST_CHECK;
	void (*destroy)(struct sluice_space *s);

	/* A launch is about to be pinned for the first time; once for each, in call order. */
	void (*note)(struct sluice_launch *l);
	/* A launch takes its pins. 1: the policy has given its chunks their stamps, by
	 * sl_chunk_restamp(). 0: they get the clock of uses, as stamp_on_hit says. */
	int (*stamp)(struct sluice_launch *l);
	/* The program discards [begin, end) of r, in the order of calls. */
	void (*discarded)(struct sl_region *r, uint64_t begin, uint64_t end);
	/* A chunk has left the device. */
	void (*evicted)(struct sl_chunk *c);
	/* A region is about to end: no pointer to it may stay. */
	void (*forget)(struct sl_region *r);

	/* Background work of the mover. While it is due no launch is prepared. step may drop. */
	int (*is_due)(const struct sluice_space *s);
	void (*step)(struct sluice_space *s);

	/* How many times SL_STALL_NS a thread waits for room until it looks for a deadlock; NULL:
	 * once. stalled: it has found one, and a launch has lost its pins. */
	unsigned (*patience)(const struct sluice_space *s);
	void (*stalled)(struct sluice_space *s);
};

/* The policies. */
extern const struct sl_policy sl_policy_lru, sl_policy_dragon, sl_policy_uvm; /* policy.c */
extern const struct sl_policy sl_policy_plan; /* policy_plan.c: as lru, until launches repeat */

/* config.c: the object of an enum sluice_policy; NULL for an unknown value. */
const struct sl_policy *sl_policy_find(enum sluice_policy policy);

/*
 * The intent that counts under the policy, for a launch's declared intent (or, for a fault,
 * SLUICE_USE_READ_WRITE) on a region with these map flags.
 */
enum sluice_intent sl_policy_intent(const struct sl_policy *policy, unsigned map_flags,
				    enum sluice_intent declared);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of a residency policy: which knowledge counts, and when a chunk is refreshed. The
 * mechanism (victim order free, discarded, used; the clock of uses) is the same for all, so a
 * policy is a row of answers. SLUICE_POLICY_PLAN is lru here; plan_run.c adds what it has learnt.
 */
#ifndef SL_CORE_POLICY_H
#define SL_CORE_POLICY_H

#include "sluice/launch.h"

struct sl_policy {
	const char *name;
	int stamp_on_hit; /* 1: every launch that names a chunk refreshes it; 0: only a move */
	int honour_intents; /* 1: launch intents count; 0: map flags only */
	int honour_flags; /* 1: READ-only regions are clean; 0: everything present is dirty */
};

/* Row of an enum sluice_policy; NULL for an unknown value. */
const struct sl_policy *sl_policy_find(enum sluice_policy policy);

/*
 * The intent that counts under the policy, for a launch's declared intent (or, for a fault,
 * SLUICE_USE_READ_WRITE) on a region with these map flags.
 */
enum sluice_intent sl_policy_intent(const struct sl_policy *policy, unsigned map_flags,
				    enum sluice_intent declared);

#endif

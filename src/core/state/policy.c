/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of policies. `lru` is ours; `dragon` is what DRAGON (SC'18) could know: flags given at
 * map time; `uvm` is the stock unified-memory driver: no intents, no dirty bits, refresh on
 * migration only (facts: docs/design/policy.md). Pure; any thread.
 */
#include "core/policy.h"

#include <stddef.h>

#include "sluice/region.h"

static const struct sl_policy policies[SLUICE_POLICY_COUNT] = {
	[SLUICE_POLICY_LRU] = {"lru", 1, 1, 1},
	[SLUICE_POLICY_DRAGON] = {"dragon", 1, 0, 1},
	[SLUICE_POLICY_UVM] = {"uvm", 0, 0, 0},
	[SLUICE_POLICY_PLAN] = {"plan", 1, 1, 1}, /* as lru, until launches repeat: plan_run.h */
};

const struct sl_policy *
sl_policy_find(enum sluice_policy policy)
{
	return (unsigned)policy < SLUICE_POLICY_COUNT ? &policies[policy] : NULL;
}

enum sluice_intent
sl_policy_intent(const struct sl_policy *policy, unsigned map_flags,
		 enum sluice_intent declared)
{
	if (policy->honour_intents)
		return declared;
	if (policy->honour_flags && !(map_flags & SLUICE_WRITE))
		return SLUICE_USE_READ;
	return SLUICE_USE_READ_WRITE;
}

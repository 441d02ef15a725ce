/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policies that are only flags. `lru` is our own. `dragon` knows what DRAGON (SC'18) knew:
 * flags given at map time. `uvm` is the stock unified-memory driver: no intents, no dirty bits,
 * refresh on migration only (facts: docs/design/policy.md). Pure; any thread.
 */
#include "core/policy.h"

#include "sluice/region.h"

const struct sl_policy sl_policy_lru = {
	.name = "lru",
	.stamp_on_hit = 1,
	.honour_intents = 1,
	.honour_flags = 1,
};

const struct sl_policy sl_policy_dragon = {
	.name = "dragon",
	.stamp_on_hit = 1,
	.honour_flags = 1,
};

const struct sl_policy sl_policy_uvm = {.name = "uvm"};

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

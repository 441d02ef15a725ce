/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For callers that bring a part of the pager of their own. The simulator runs the pager on a
 * virtual device, store and clock (src/sim/core_run.c). Tests bring a policy, or a device without
 * roles. All other callers
 * make a space by sluice_space_create(): the configuration chooses the parts.
 */
#ifndef SL_CORE_SPACE_ON_H
#define SL_CORE_SPACE_ON_H

#include "core/policy.h"
#include "device/device.h"
#include "sluice/space.h"
#include "store/store.h"

/*
 * As sluice_space_create(), but on this device and engine: they are taken over, also on failure. The
 * device sends no touches. The budgets are not compared with this machine's memory; the
 * configuration's choices of device and store are not looked at.
 */
int sl_space_create_on(const struct sluice_config *config, struct sl_device *device,
		       struct sl_engine *engine, struct sluice_space **out) SL_MUST_CHECK;

/* As sluice_space_create(), with this policy; the configuration's choice of one is not looked at. */
int sl_space_create_with(const struct sluice_config *config, const struct sl_policy *policy,
			 struct sluice_space **out) SL_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A device with no role: minimal_device.c. For the contract suite and test_minimal_space.c. */
#ifndef TESTS_CONTRACT_MINIMAL_DEVICE_H
#define TESTS_CONTRACT_MINIMAL_DEVICE_H

#include "device/device.h"

/* As sl_device_soft_create(). */
int minimal_device_create(const struct sl_device_config *config,
			  struct sl_device **out) SL_MUST_CHECK;

#endif

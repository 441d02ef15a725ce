/* SPDX-License-Identifier: Apache-2.0 */
/* Everything: one memory space over device memory, host memory and NVMe. */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#include "sluice/error.h"
#include "sluice/fetch.h"
#include "sluice/launch.h"
#include "sluice/move.h"
#include "sluice/region.h"
#include "sluice/space.h"
#include "sluice/stats.h"

#endif

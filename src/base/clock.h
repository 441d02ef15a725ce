/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time. */
#ifndef SL_BASE_CLOCK_H
#define SL_BASE_CLOCK_H

#include <stdint.h>

uint64_t sl_now_ns(void);

#endif

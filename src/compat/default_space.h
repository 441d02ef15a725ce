/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one space per process behind the papers' own calls, which name no space. Made at first use,
 * closed at exit. Any thread.
 */
#ifndef SL_COMPAT_DEFAULT_SPACE_H
#define SL_COMPAT_DEFAULT_SPACE_H

#include <stdint.h>

#include "base/error.h"
#include "sluice/space.h"

/*
 * The default space, made if need be. After exit() has closed it: -ECANCELED. Other errors as
 * sluice_config_init() and sluice_space_create(), and -EINVAL for a DRAGON_NR_RESERVED_PAGES that
 * is not a number; the next call tries again. Blocks on making the space.
 */
int sl_default_space_get(struct sluice_space **out) SL_MUST_CHECK;

/* The same, NULL with a text on failure. */
struct sluice_space *sl_default_space(void);

/*
 * Settings that hold when the space is made: the host reserve (clamped to the host budget), and
 * the least staging memory. -EBUSY once the space exists. Do not block but on the making of it.
 */
int sl_default_space_set_reserve(uint64_t reserve_bytes) SL_MUST_CHECK;
int sl_default_space_set_staging(uint64_t staging_bytes) SL_MUST_CHECK;

#endif

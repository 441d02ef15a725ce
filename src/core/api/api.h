/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The top storey: public calls, faults, statistics. It may call everything below. Nothing below
 * calls it, except the device, which reports touches.
 */
#ifndef SL_CORE_API_API_H
#define SL_CORE_API_API_H

#include "core/launch/launch.h"

/* fault.c */
int sl_touched(void *space, const struct sl_touch *touch);

/* region.c */
/* Flush, empty and free a region that is closed and not busy. Drops. On
 * failure it is open again and nothing is lost. */
int sl_region_unmap(struct sl_region *r) SL_HELD SL_MUST_CHECK;
/* No new uses; waits for those that are served now. */
void sl_region_close(struct sl_region *r) SL_HELD;

/* move.c */
void sl_region_residency(const struct sl_region *r, uint64_t begin, uint64_t end,
			 struct sluice_residency *out) SL_HELD;

/* guest.c */
/* Under `sluice run`, of a space for a GPU: have the program's launches told to it. */
int sl_guest_join_run(struct sluice_space *space) SL_MUST_CHECK;
/* No more. Before the space's streams end. */
void sl_guest_leave_run(struct sluice_space *space);

/* share.c */
/* Join the book of the device's programs, as the configuration says. Who cannot is alone, which is said.
 * Nobody else has the space yet. Does not block. */
void sl_share_join(struct sluice_space *space);
/* No call will change the budget, or shut the gate, any more. NULL is fine. Blocks on a copy. */
void sl_share_stop(struct sl_space_share *share);
/* Leave the book: the space has no memory of the device any more. NULL is fine. */
void sl_share_leave(struct sl_space_share *share);
/* Where the child of a fork finds a member, whose book it closes. -EMFILE: there are too many. Not entered:
 * *number stays as it is; it may be left all the same. */
int sl_share_member_enter(struct sl_member *member, int *number) SL_MUST_CHECK;
void sl_share_member_leave(int number);
/* What all regions have, in chunks. */
uint64_t sl_share_regions(struct sluice_space *space);
/* Work is being launched, or waits to be; nothing runs that was launched. */
int sl_share_is_busy(struct sluice_space *space);
int sl_share_is_done(struct sluice_space *space);

/* share_host.c (and interpose.h) */
/* The budget is never more from here on. */
void sl_host_share_limit(struct sl_host_share *share, uint64_t bytes) SL_HELD;
/* NULL is fine. */
void sl_host_share_leave(struct sl_host_share *share);

/* budget.c (and interpose.h) */
/* The budget of the host tier, now. Errors as sluice_space_set_budget(). Blocks on the disk. */
int sl_space_set_host(struct sluice_space *space, uint64_t budget_bytes) SL_MUST_CHECK;

/* config.c */
/* Round to chunks, fill in what depends on other fields, refuse what cannot work; resolve: and what
 * is more than this machine's memory. */
int sl_config_round(struct sluice_config *config) SL_MUST_CHECK;
int sl_config_resolve(struct sluice_config *config) SL_MUST_CHECK;
/* The variable of the i-th key, "SLUICE_DEVICE_BUDGET". 0: there are not so many keys. */
#define SL_CONFIG_VARIABLE_BYTES 64
int sl_config_variable(size_t i, char name[SL_CONFIG_VARIABLE_BYTES]);

#endif

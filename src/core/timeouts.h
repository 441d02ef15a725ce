/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timeouts of the core. Each wait ends early when its event happens. A test never depends on one
 * of these.
 */
#ifndef SL_CORE_TIMEOUTS_H
#define SL_CORE_TIMEOUTS_H

#define SL_MS_NS UINT64_C(1000000)

/* A launch waits this long for pins or room before it asks whether any launch runs. Shorter: a late
 * thread is taken for a deadlock, and its launch is prepared twice. Longer: a deadlock lasts longer. */
#define SL_STALL_NS      (100 * SL_MS_NS)
/* A launch waits this long for chunks that were told to leave, then evicts others. Shorter: it evicts
 * what is needed soon. Longer: it stands still behind a slow kernel. */
#define SL_LEAVE_WAIT_NS (200 * SL_MS_NS)
/* An eviction waits this long for the first hash of a burst, then copies. Shorter: clean data are
 * copied out. Longer: evictions stand still behind kernels that fill the device. */
#define SL_HASH_WAIT_NS  (500 * SL_MS_NS)
/* A prefetch looks this often for room that is to be given. Shorter: more wakes of the mover. Longer:
 * the link idles after room was given. */
#define SL_ROOM_LOOK_NS  SL_MS_NS
/* A kernel's acquire waits this long for room that launches hold, then fails. Shorter: it fails behind
 * long kernels. Longer: a kernel that can never go on hangs longer. */
#define SL_FETCH_ROOM_NS (10000 * SL_MS_NS)

#endif

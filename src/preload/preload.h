/* SPDX-License-Identifier: Apache-2.0 */
/*
 * START HERE: the preload library, and the functions that all its files need. It stands between a
 * program and the CUDA driver (its SONAME is the driver's). It owns the program's allocations in
 * a space of the library (src/core on src/device/cuda), and makes buffers resident before
 * launches.
 *
 * A call. Every name the driver exports is exported (api.tbl). Unwrapped names jump to the
 * driver. A wrapped one is a C function of that name, which
 * 1. forwards unchanged unless pl_active(): before cuInit() succeeded, in a forked child, after
 *    the driver was torn down, in a call from inside the library or from the driver;
 * 2. forwards unchanged if the call names none of our addresses;
 * 3. opens a scope (pl_scope_begin()) over the bytes that the call will touch, calls the driver,
 *    ends the scope.
 *
 * A wrapper returns the driver's results: CUresults, out-parameters that may be NULL and are
 * written on success only. It waits for a stream only where the driver would.
 *
 * Pressure. While all allocations fit the device budget they are made resident at once, and a
 * scope costs a few loads: no lock, no driver call (PL_FITS). When allocations exceed half of
 * the budget, the uses of launches are recorded (PL_TRACKING). Beyond the whole budget, scopes
 * go to the core, which fetches and evicts (PL_OVERSUBSCRIBED). There is no way back: the core's
 * records are complete only from there on.
 *
 * Headers. gpu.h: one space a GPU, its pressure. scope.h: data of a call, made resident.
 * alloc/arena.h: addresses of allocations; alloc/block.h: allocations by address;
 * alloc/suballoc.h: tensors inside of one.
 * streams/stream.h, fence.h, capture.h: the program's streams, waits behind them, captures.
 * args/functions.h: kernels and what their arguments name; args/pointer_table.h: addresses in
 * memory; args/tensormap.h: descriptors of tensors. calls/touch.h: data of a copy or a fill.
 * loader/settings.h: settings of the run; report/announce.h: settings that the process decides.
 * report/counters.h: counters; report/report.h: lines at start and exit. *_internal.h: shared
 * inside a part only.
 *
 * Locks: base/lock.h has their ranks and the data they protect. No lock of ours is held across a
 * forwarded call. A launch reads blocks by address and layouts by function without locks.
 */
#ifndef SL_PRELOAD_PRELOAD_H
#define SL_PRELOAD_PRELOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "preload/api/api_index.h" /* generated: enum sl_api, one SL_API_<exported name> each */
#include "preload/api/driver_api.h"

/* The driver's functions by SL_API_ number; until the driver is open each starts it first. Never
 * NULL: a name that the driver lacks returns CU_ERROR_NOT_FOUND.
 * atomic: relaxed: pairs with none, as both values of an entry lead to the same function. */
extern void *pl_real[SL_API_COUNT];

/* The driver's own function of this exported name, with the type of our wrapper. */
#define PL_REAL(name) ((__typeof__(&(name)))pl_real[SL_API_##name])

/* Both forms of a call (PL_BOTH): answer gets the driver's function, what stream 0 means, and the rest. */
#define PL_DEFINE_BOTH(name, suffix, answer, parameters, ...)                        \
	int name parameters                                                          \
	{                                                                            \
		return answer(PL_REAL(name), PL_LEGACY, __VA_ARGS__);                \
	}                                                                            \
	int name##_##suffix parameters                                               \
	{                                                                            \
		return answer(PL_REAL(name##_##suffix), PL_PER_THREAD, __VA_ARGS__); \
	}

/* 1: the driver has that name. */
bool pl_real_has(enum sl_api name);

enum pl_phase {
	PL_ASLEEP, /* cuInit() has not succeeded yet */
	PL_AWAKE,
	PL_DEAD /* forked child, driver torn down, or switched off: forward everything */
};

/* enum pl_phase. atomic: pairs with the stores of entry.c: whoever sees PL_AWAKE sees the driver. */
extern _Atomic int pl_phase;
/* 1: the process was forked off one in which the library took part. What that one had allocated is known and
 * nobody's: no lock may be taken here, since a thread that is not there may hold it. */
extern _Atomic int pl_forked;
/* Above 0: this thread is inside the library or a callback of the driver. */
extern _Thread_local int pl_depth __attribute__((tls_model("initial-exec")));

/* Whether a wrapper is to do its part. */
static inline bool
pl_active(void)
{
	return atomic_load_explicit(&pl_phase, memory_order_acquire) == PL_AWAKE && !pl_depth;
}

/* Around whatever may call the driver from inside the library. */
static inline void
pl_enter(void)
{
	pl_depth++;
}

static inline void
pl_leave(void)
{
	pl_depth--;
}

/* A handle of the driver's library for dlsym(), and its path; NULL before it is open. */
void *pl_driver_handle(void);
const char *pl_driver_path(void);

/* A line on stderr, "sluice: " before it; with quiet only errors. printf rules. */
void pl_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void pl_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

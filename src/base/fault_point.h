/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Injected failures by name. A fallible step asks sl_fault_point("store.write") before it works.
 * The answer is 0 or a negative errno. The step returns that errno as if it had failed itself.
 *
 * SLUICE_FAULT=name:N[:ERRNO][+] in the environment, or sl_fault_point_set(): the Nth call (from
 * 1) of that name fails with ERRNO (default EIO). With "+" every later one fails, too. Commas
 * separate several specifications. "*" as name counts the calls of all names together, for the
 * nth-failure sweep.
 *
 * Names in use: mem.alloc, frame.get, frame.addresses, device.present, device.absent, device.page,
 * device.guard, device.map, store.open, store.read, store.write, store.sync, store.extend,
 * spill.alloc, thread.create, codec.buffer, codec.pieces, timeline.write, book.make, book.write.
 */
#ifndef SL_BASE_FAULT_POINT_H
#define SL_BASE_FAULT_POINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

int sl_fault_point(const char *name);

/* Replace what is armed by a specification as above; NULL or "" disarms. Counts restart.
 * -EINVAL: cannot be read. Not while other threads run fallible steps. */
int sl_fault_point_set(const char *spec) SL_MUST_CHECK;

/* How many failures have been injected since the last set. */
uint64_t sl_fault_point_fired(void);

/* malloc family with the point "mem.alloc": NULL when injected or out of memory. */
void *sl_calloc(size_t n, size_t bytes);
void *sl_malloc(size_t bytes);
void *sl_realloc(void *old, size_t bytes); /* NULL: old stays as it was */
char *sl_strdup(const char *text);

#endif

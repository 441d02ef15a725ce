/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the program's own spaces, and what is told to them: guest.h. A place of the table is taken
 * for good: one that was left has no addresses, and is used again.
 *
 * A guest's driver calls are those of the program, and come through our wrappers: they find room as any
 * other. They name addresses that are no guest's (its copies go by other addresses), but nothing is told to
 * a guest in the middle of its own calls.
 */
#include <string.h>

#include "base/lock.h"
#include "preload/guest.h"
#include "preload/preload.h"
#include "preload/streams/capture.h"
#include "preload/streams/stream.h"

PL_EXPORT int sluice_preload_join_1(const struct sl_guest *guest);
PL_EXPORT void sluice_preload_leave_1(const void *arg);

/* atomic: pairs with the store of the end in sluice_preload_join_1(): whoever sees it sees the rest. */
struct place {
	_Atomic uint64_t base, end; /* end 0: nobody's */
	struct sl_guest guest;      /* as long as it has addresses */
};

static struct place places[PL_GUESTS_MAX];
_Atomic unsigned pl_guests;
static struct sl_mutex places_lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF); /* for join and leave */
static _Thread_local int telling; /* this thread is in a guest's function */

int
sluice_preload_join_1(const struct sl_guest *guest)
{
	unsigned i = 0;

	sl_mutex_lock(&places_lock);
	while (i < PL_GUESTS_MAX && atomic_load(&places[i].end))
		i++;
	if (i < PL_GUESTS_MAX) {
		places[i].guest = *guest;
		atomic_store(&places[i].base, guest->base);
		atomic_store(&places[i].end, guest->end);
		if (atomic_load(&pl_guests) <= i)
			atomic_store_explicit(&pl_guests, i + 1, memory_order_release);
	}
	sl_mutex_unlock(&places_lock);
	return i < PL_GUESTS_MAX ? 0 : -1;
}

void
sluice_preload_leave_1(const void *arg)
{
	sl_mutex_lock(&places_lock);
	for (unsigned i = 0; i < PL_GUESTS_MAX; i++)
		if (atomic_load(&places[i].end) && places[i].guest.arg == arg) {
			atomic_store(&places[i].base, 0);
			atomic_store(&places[i].end, 0);
		}
	sl_mutex_unlock(&places_lock);
}

static struct place *
place_of(uint64_t addr)
{
	unsigned n = atomic_load_explicit(&pl_guests, memory_order_acquire);

	for (unsigned i = 0; i < n; i++)
		if (addr >= atomic_load(&places[i].base) && addr < atomic_load(&places[i].end))
			return &places[i];
	return NULL;
}

bool
pl_guest_has(uint64_t addr)
{
	return !telling && place_of(addr) != NULL;
}

void
pl_guest_use_add(struct pl_guest_uses *uses, uint64_t addr, uint64_t bytes, int intent)
{
	if (uses->n == PL_GUEST_USES_MAX)
		uses->all = 1;
	else
		uses->of[uses->n++] = (struct sl_guest_use){addr, bytes, intent};
}

/* Uses of one guest, told to it. */
static int
place_begin(struct pl_guest_scope *scope, struct place *place, void *native,
	    int per_thread, const struct pl_guest_uses *uses)
{
	struct sl_guest_use of[PL_GUEST_USES_MAX];
	const struct sl_guest *guest = &place->guest;
	void *open = NULL;
	size_t n = 0;
	int rc;

	for (size_t i = 0; i < uses->n; i++)
		if (place_of(uses->of[i].addr) == place)
			of[n++] = uses->of[i];
	if (!n)
		return CU_SUCCESS;
	telling = 1;
	rc = guest->begin_scope(guest->arg, native, per_thread, of, uses->all ? 0 : n, &open);
	telling = 0;
	if (rc) {
		pl_error("%s", guest->error());
		return CU_ERROR_OUT_OF_MEMORY;
	}
	if (open) {
		scope->of[scope->n].guest = guest;
		scope->of[scope->n++].scope = open;
	}
	return CU_SUCCESS;
}

int
pl_guest_begin(struct pl_guest_scope *scope, struct cu_stream *stream,
	       enum pl_default_stream flavour, const struct pl_guest_uses *uses)
{
	unsigned n = atomic_load_explicit(&pl_guests, memory_order_acquire);
	int per_thread = stream == CU_PER_THREAD_STREAM ||
			 (!stream && flavour == PL_PER_THREAD);
	void *native = per_thread                   ? CU_PER_THREAD_STREAM
		       : stream == CU_LEGACY_STREAM ? NULL
						    : (void *)stream;
	int result = CU_SUCCESS;

	scope->n = 0;
	if (!uses->n || pl_stream_captures(stream, flavour))
		return CU_SUCCESS;
	for (unsigned i = 0; i < n && !result; i++)
		result = place_begin(scope, &places[i], native, per_thread, uses);
	if (result)
		pl_guest_end(scope);
	return result;
}

void
pl_guest_end(struct pl_guest_scope *scope)
{
	while (scope->n) {
		scope->n--;
		telling = 1;
		scope->of[scope->n].guest->end_scope(scope->of[scope->n].guest->arg,
						     scope->of[scope->n].scope);
		telling = 0;
	}
}

void
pl_guest_stream_destroyed(struct cu_stream *stream)
{
	unsigned n = atomic_load_explicit(&pl_guests, memory_order_acquire);

	if (telling)
		return;
	for (unsigned i = 0; i < n; i++) {
		struct sl_guest *guest = &places[i].guest;

		if (!atomic_load(&places[i].end))
			continue;
		telling = 1;
		guest->stream_destroyed(guest->arg, stream);
		telling = 0;
	}
}

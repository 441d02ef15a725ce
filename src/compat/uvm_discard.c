/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UVM Discard's calls on the default space: sluice_discard(), sluice_residency() and
 * sluice_prefetch() under other names, with two differences. CUDA's stream 0 is a stream, while
 * sluice_discard() without a stream means "now". So a call without a stream first waits for the
 * default stream. And a whole batch is checked before any of it happens.
 *
 * Threads: no state of its own; any thread. Between the check and the work another thread could
 * unmap a range of the batch. The caller prevents that, as with a single discard.
 */
#include "sluice/uvm_discard.h"

#include <errno.h>

#include "base/error.h"
#include "compat/default_space.h"

/*
 * Everything enqueued on the default stream so far is done. By an event and not by
 * sluice_stream_synchronize(), which would take away an error that belongs to the caller.
 */
static int
default_stream_wait(struct sluice_space *space)
{
	struct sluice_event *event;
	int rc = sluice_event_create(space, &event);

	if (rc)
		return rc;
	rc = sluice_event_record(space, NULL, event);
	if (!rc)
		sluice_event_synchronize(event);
	sluice_event_destroy(event);
	return rc;
}

static int
discard(void *addr, size_t size_bytes, enum sluice_discard_mode mode,
	struct sluice_stream *stream)
{
	struct sluice_space *space;
	int rc = sl_default_space_get(&space);

	if (!rc && !stream)
		rc = default_stream_wait(space);
	if (!rc)
		rc = sluice_discard(space, addr, size_bytes, mode, stream);
	return rc;
}

struct sluice_space *
uvm_space(void)
{
	return sl_default_space();
}

int
uvm_discard(void *addr, size_t size_bytes)
{
	return discard(addr, size_bytes, SLUICE_DISCARD_EAGER, NULL);
}

int
uvm_discard_lazy(void *addr, size_t size_bytes)
{
	return discard(addr, size_bytes, SLUICE_DISCARD_LAZY, NULL);
}

int
uvm_discard_async(void *addr, size_t size_bytes, struct sluice_stream *stream)
{
	return discard(addr, size_bytes, SLUICE_DISCARD_EAGER, stream);
}

int
uvm_discard_lazy_async(void *addr, size_t size_bytes, struct sluice_stream *stream)
{
	return discard(addr, size_bytes, SLUICE_DISCARD_LAZY, stream);
}

/* 0, or why the batch cannot be done; changes nothing. */
static int
batch_check(struct sluice_space *space, const char *call, void *const *addrs,
	    const size_t *sizes, size_t count, enum sluice_discard_mode mode,
	    unsigned long long flags)
{
	struct sluice_residency residency;
	size_t i;
	int rc;

	if (flags)
		return sl_fail(-EINVAL, "%s: flags 0x%llx; must be 0", call, flags);
	if (!addrs || !sizes)
		return sl_fail(-EINVAL, "%s: addrs or sizes is NULL", call);
	for (i = 0; i < count; i++) {
		if (!sizes[i])
			return sl_fail(-EINVAL,
				       "%s: entry %zu (%p) has size 0; nothing discarded",
				       call, i, addrs[i]);
		rc = sluice_residency(space, addrs[i], sizes[i], &residency);
		if (rc)
			return sl_fail_in(rc, "%s: entry %zu of %zu, nothing discarded",
					  call, i, count);
		if (mode == SLUICE_DISCARD_EAGER && residency.pinned_bytes)
			return sl_fail(-EBUSY,
				       "%s: entry %zu (%p, %zu bytes) is pinned; unpin "
				       "it first; "
				       "nothing discarded",
				       call, i, addrs[i], sizes[i]);
	}
	return 0;
}

int
uvm_discard_batch(void *const *addrs, const size_t *sizes, size_t count,
		  unsigned long long flags, struct sluice_stream *stream)
{
	struct sluice_space *space;
	size_t i;
	int rc = sl_default_space_get(&space);

	if (!rc && (count || flags))
		rc = batch_check(space, "uvm_discard_batch", addrs, sizes, count,
				 SLUICE_DISCARD_EAGER, flags);
	if (!rc && count && !stream)
		rc = default_stream_wait(space);
	for (i = 0; !rc && i < count; i++)
		rc = sluice_discard(space, addrs[i], sizes[i], SLUICE_DISCARD_EAGER, stream);
	return rc;
}

/* tiers[] and tier_first[] name one tier for each of count ranges. */
static int
tiers_check(const enum sluice_tier *tiers, const size_t *tier_first, size_t n_tiers,
	    size_t count)
{
	const char *call = "uvm_discard_and_prefetch_batch";
	size_t k;

	if (!tiers || !tier_first || !n_tiers || tier_first[0] != 0)
		return sl_fail(-EINVAL, "%s: tiers must begin with one for range 0", call);
	for (k = 0; k < n_tiers; k++) {
		if (tiers[k] != SLUICE_TIER_DEVICE && tiers[k] != SLUICE_TIER_HOST)
			return sl_fail(-EINVAL, "%s: tiers[%zu] is neither DEVICE nor HOST",
				       call, k);
		if (tier_first[k] >= count || (k && tier_first[k] <= tier_first[k - 1]))
			return sl_fail(-EINVAL,
				       "%s: tier_first[%zu] = %zu; the values must rise "
				       "and stay "
				       "below the %zu ranges",
				       call, k, tier_first[k], count);
	}
	return 0;
}

int
uvm_discard_and_prefetch_batch(void *const *addrs, const size_t *sizes, size_t count,
			       const enum sluice_tier *tiers, const size_t *tier_first,
			       size_t n_tiers, unsigned long long flags,
			       struct sluice_stream *stream)
{
	struct sluice_space *space;
	size_t i, k = 0;
	int rc = sl_default_space_get(&space);

	if (!rc && (count || flags))
		rc = batch_check(space, "uvm_discard_and_prefetch_batch", addrs, sizes,
				 count, SLUICE_DISCARD_LAZY, flags);
	if (!rc && count)
		rc = tiers_check(tiers, tier_first, n_tiers, count);
	if (!rc && count && !stream)
		rc = default_stream_wait(space);
	for (i = 0; !rc && i < count; i++) {
		if (k + 1 < n_tiers && tier_first[k + 1] == i)
			k++;
		rc = sluice_discard(space, addrs[i], sizes[i], SLUICE_DISCARD_LAZY, stream);
		if (!rc)
			rc = sluice_prefetch(space, addrs[i], sizes[i], tiers[k], stream);
	}
	return rc;
}

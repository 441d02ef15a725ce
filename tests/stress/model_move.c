/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that move data, declare them dead, or query where they are: see model.h.
 */
#include "stress/model.h"

#include <errno.h>
#include <string.h>

void
step_prefetch(struct player *p, struct region *r)
{
	enum sluice_tier tier = player_below(p, 2) ? SLUICE_TIER_DEVICE : SLUICE_TIER_HOST;
	int on_stream = player_below(p, 2) != 0;
	size_t from, n;
	struct sluice_stream *stream = NULL;

	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	player_note(p, "prefetch %zu + %zu to %d%s", from, n, (int)tier,
		    on_stream ? " on a stream" : "");
	if (on_stream)
		stream = p->stream[region_stream(p, r, from, n)];
	else
		region_settle(p, r, from, n);
	if (player_below(p, 3) == 0) {
		uint64_t index[20];

		for (unsigned i = 0; i < 20; i++)
			index[i] = player_below(p, r->size_bytes);
		OK(sluice_prefetch_index(p->space, r->base, 1, index, 20, tier, stream));
		index[7] = r->size_bytes;
		CHECK(sluice_prefetch_index(p->space, r->base, 1, index, 20, tier,
					    stream) == -EINVAL);
		return;
	}
	OK(sluice_prefetch(p->space, r->base + from * WORD, range_bytes(r, from, n), tier,
			   stream));
	memset(r->lazy + from, 0, n);
}

void
step_evict(struct player *p, struct region *r)
{
	enum sluice_tier tier = player_below(p, 2) ? SLUICE_TIER_STORE : SLUICE_TIER_HOST;
	struct sluice_stream *stream = NULL;
	size_t from, n;

	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	player_note(p, "evict %zu + %zu to %d", from, n, (int)tier);
	if (player_below(p, 2))
		stream = p->stream[region_stream(p, r, from, n)];
	OK(sluice_evict(p->space, r->base + from * WORD, range_bytes(r, from, n), tier,
			stream));
}

void
step_discard(struct player *p, struct region *r)
{
	enum sluice_discard_mode mode = player_below(p, 2) ? SLUICE_DISCARD_LAZY
							   : SLUICE_DISCARD_EAGER;
	struct sluice_stream *stream = NULL;
	size_t from, n;
	int rc;

	if (!(r->flags & SLUICE_WRITE))
		return;
	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	if (player_below(p, 2))
		stream = p->stream[region_stream(p, r, from, n)];
	else
		region_settle(p, r, from, n);
	player_note(p, "discard %s %zu + %zu%s",
		    mode == SLUICE_DISCARD_LAZY ? "lazy" : "eager", from, n,
		    stream ? " on a stream" : "");
	rc = sluice_discard(p->space, r->base + from * WORD, range_bytes(r, from, n),
			    mode, stream);
	if (rc == -EBUSY && r->pin_bytes && mode == SLUICE_DISCARD_EAGER)
		return;
	OK(rc);
	for (size_t i = from; i < from + n; i++) {
		if (r->words[i] != WILD)
			r->words[i] = ANY;
		r->lazy[i] = mode == SLUICE_DISCARD_LAZY;
	}
	if (mode == SLUICE_DISCARD_EAGER && stream)
		memset(r->lazy + from, 1, n); /* unmapped when the stream comes to it */
}

void
step_look(struct player *p, struct region *r)
{
	struct sluice_residency at;
	struct sluice_stats stats;
	size_t from, n, bytes;

	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	bytes = range_bytes(r, from, n);
	player_note(p, "residency %zu + %zu", from, n);
	OK(sluice_residency(p->space, r->base + from * WORD, bytes, &at));
	if (at.tier_bytes[0] + at.tier_bytes[1] + at.tier_bytes[2] + at.empty_bytes != bytes ||
	    at.dirty_bytes > bytes || at.pinned_bytes > bytes || at.in_flight_bytes > bytes)
		FAIL("residency of %zu bytes: %llu + %llu + %llu + %llu, dirty %llu",
		     bytes, (unsigned long long)at.tier_bytes[0],
		     (unsigned long long)at.tier_bytes[1],
		     (unsigned long long)at.tier_bytes[2],
		     (unsigned long long)at.empty_bytes, (unsigned long long)at.dirty_bytes);
	sluice_stats_get(p->space, &stats);
	CHECK(stats.counter[SLUICE_COUNTER_IO_ERRORS] == 0);
	CHECK(stats.counter[SLUICE_COUNTER_INTENT_ERRORS] == 0);
	CHECK(sluice_residency(p->space, p, 1, &at) == -ENOENT);
}

void
step_budget(struct player *p)
{
	uint64_t chunks = p->config.device_budget_bytes / p->config.chunk_bytes;
	uint64_t least = chunks < 4 ? chunks : 4; /* see step_pin() */

	if (player_below(p, 2)) {
		chunks = least + player_below(p, chunks + 2 - least);
		player_note(p, "device budget %llu chunks", (unsigned long long)chunks);
		OK(sluice_space_set_budget(p->space, SLUICE_TIER_DEVICE,
					   chunks * p->config.chunk_bytes));
	} else {
		uint64_t bytes = player_below(p, p->config.host_budget_bytes + 1);

		player_note(p, "host budget %llu", (unsigned long long)bytes);
		OK(sluice_space_set_budget(p->space, SLUICE_TIER_HOST, bytes));
	}
}

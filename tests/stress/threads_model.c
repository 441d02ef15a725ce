/* SPDX-License-Identifier: Apache-2.0 */
/* Words, ranges, the log, and the order of a thread's streams: see threads_model.h. */
#include "stress/threads_model.h"

#include <errno.h>
#include <stdio.h>

struct tm_run tm;

uint64_t
tm_below(struct tm_thread *t, uint64_t n)
{
	return n ? sl_rng_below(&t->rng, n) : 0;
}

/* Mixes two numbers well enough that stripes and written words have no pattern. */
uint64_t
tm_hash(uint64_t a, uint64_t b)
{
	uint64_t z = a ^ (b + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

uint64_t
tm_version_next(void)
{
	return atomic_fetch_add(&tm.version, 1);
}

int
tm_done(int rc, const char *call, unsigned allow)
{
	if (!rc)
		return 1;
	if (rc == -EIO && allow & TM_IO) {
		atomic_fetch_add(&tm.io_errors, 1);
		return 0;
	}
	if ((rc == -ENOBUFS && allow & TM_NOBUFS) || (rc == -EBUSY && allow & TM_BUSY) ||
	    (rc == -ENOSPC && allow & TM_NOSPC)) {
		atomic_fetch_add(&tm.refused, 1);
		return 0;
	}
	FAIL("%s returned %d", call, rc);
	return 0;
}

/* ---- The log ---- */

void
tm_note(struct tm_thread *t, const char *what, struct tm_range x, uint64_t detail)
{
	t->log[t->log_lines++ % TM_LOG_LINES] =
		(struct tm_log_line){x, what, detail, atomic_fetch_add(&tm.order, 1)};
}

/* What all threads did to the page of a word, as far as their logs reach. */
static void
log_print(const struct tm_region *r, size_t i)
{
	for (unsigned k = 0; k < TM_THREADS; k++) {
		const struct tm_thread *t = &tm.thread[k];
		unsigned n = t->log_lines;

		for (unsigned j = n > TM_LOG_LINES ? n - TM_LOG_LINES : 0; j < n; j++) {
			const struct tm_log_line *l = &t->log[j % TM_LOG_LINES];
			size_t from = l->range.from, end = from + l->range.count;

			if (l->range.region == r && end > i / TM_PAGE_WORDS * TM_PAGE_WORDS &&
			    from < (i / TM_PAGE_WORDS + 1) * TM_PAGE_WORDS)
				printf("  %llu thread %u %s %zu + %zu (%llx)%s\n",
				       (unsigned long long)l->order, k, l->what, from,
				       l->range.count, (unsigned long long)l->detail,
				       i >= from && i < end ? " *" : "");
		}
	}
	fflush(stdout);
}

/* ---- Words ---- */

#define TAG_SHIFT    52
#define INDEX_SHIFT  28
#define VERSION_MASK (((uint64_t)1 << INDEX_SHIFT) - 1)

uint64_t
tm_word(const struct tm_region *r, size_t i, uint64_t version)
{
	uint64_t index = (r->first_index + i) & 0xffffff;

	return r->tag << TAG_SHIFT | index << INDEX_SHIFT | (version & VERSION_MASK);
}

int
tm_owns(const struct tm_thread *t, const struct tm_region *r, size_t i)
{
	uint64_t stripe = (r->first_index + i) >> r->stripe_shift;

	return !r->shared || tm_hash(r->stripe_seed, stripe) % TM_THREADS == t->id;
}

void
tm_check(const struct tm_region *r, size_t i, uint64_t got, uint64_t want,
	 enum tm_state state, const char *who)
{
	static _Atomic int printed;
	int fits = state == TM_LIVE
			   ? got == want
			   : !got || ((got ^ tm_word(r, i, 0)) >> INDEX_SHIFT == 0 &&
				      (got & VERSION_MASK) < atomic_load(&tm.version));

	if (fits)
		return;
	/* Two logs show whether two failures have one cause; more would hide them. */
	if (atomic_fetch_add(&printed, 1) < 2)
		log_print(r, i);
	FAIL("%s: word %zu of %zu, region %llx kind %d: %016llx, not %016llx (state %d)",
	     who, i, r->words, (unsigned long long)r->tag, (int)r->kind,
	     (unsigned long long)got, (unsigned long long)want, (int)state);
}

void
tm_wrote(struct tm_region *r, size_t i, uint64_t value)
{
	r->shadow[i] = value;
	if (r->state[i] == TM_DEAD)
		r->state[i] = TM_LIVE;
}

void
tm_discarded(struct tm_range x, enum tm_state state)
{
	size_t from = (x.from + TM_PAGE_WORDS - 1) / TM_PAGE_WORDS * TM_PAGE_WORDS;
	size_t end = (x.from + x.count) / TM_PAGE_WORDS * TM_PAGE_WORDS;

	/* The last page may count as covered. */
	if (x.from + x.count == x.region->words)
		end = x.region->words;
	for (size_t i = from; i < end; i++)
		x.region->state[i] = (uint8_t)state;
}

void
tm_revive(const struct tm_thread *t, struct tm_range x)
{
	for (size_t i = x.from; i < x.from + x.count; i++)
		if (tm_owns(t, x.region, i) && x.region->state[i] == TM_DEAD_LAZY)
			x.region->state[i] = TM_DEAD;
}

/* ---- Choosing ---- */

struct tm_region *
tm_region_pick(struct tm_thread *t)
{
	for (;;) {
		uint64_t k = tm_below(t, TM_REGIONS);
		struct tm_region *r = k < TM_SHARED ? &tm.shared[k]
						    : &t->region[k - TM_SHARED];

		if (r->base)
			return r;
	}
}

/* Cut a range to the stripe that it begins in. 0: that is another thread's. */
static int
range_to_stripe(struct tm_thread *t, struct tm_range *x)
{
	const struct tm_region *r = x->region;
	uint64_t stripe = (r->first_index + x->from) >> r->stripe_shift;
	uint64_t first = stripe << r->stripe_shift;
	size_t end = ((stripe + 1) << r->stripe_shift) - r->first_index;

	if (!tm_owns(t, r, x->from))
		return 0;
	if (tm_below(t, 2)) /* the whole of it covers pages and chunks more often */
		x->from = first > r->first_index ? first - r->first_index : 0;
	if (end > r->words)
		end = r->words;
	if (x->from + x->count > end)
		x->count = end - x->from;
	return 1;
}

int
tm_range_pick(struct tm_thread *t, struct tm_region *r, size_t max, int own,
	      struct tm_range *out)
{
	const size_t chunk = tm.config.chunk_bytes / sizeof(uint64_t);

	/* A thread may own nothing of a region with large stripes. */
	for (int tries = 0; tries < 20; tries++) {
		const size_t lengths[] = {1 + tm_below(t, 8),    TM_PAGE_WORDS,
					  1 + tm_below(t, 2048), chunk,
					  1 + tm_below(t, max),  1 + tm_below(t, max)};
		size_t count = lengths[tm_below(t, 6)];

		count = count < max ? count : max;
		count = count < r->words ? count : r->words;
		*out = (struct tm_range){r, tm_below(t, r->words - count + 1), count};
		switch (tm_below(t, 4)) {
		case 0:
			out->from -= out->from % TM_PAGE_WORDS;
			break;
		case 1:
			out->from -= out->from % chunk;
			break;
		case 2: /* the end of the region */
			if (!tm_below(t, 8))
				out->from = r->words - count;
			break;
		}
		if (!own || !r->shared || range_to_stripe(t, out))
			return 1;
	}
	return 0;
}

void *
tm_address(struct tm_range x)
{
	return (void *)(x.region->base + x.from);
}

size_t
tm_bytes(struct tm_range x)
{
	return x.count * sizeof(uint64_t);
}

/* ---- Order ---- */

static unsigned *
pending_of(struct tm_thread *t, const struct tm_region *r)
{
	return &t->pending[r->shared ? r - tm.shared : TM_SHARED + (r - t->region)];
}

void
tm_settle(struct tm_thread *t, const struct tm_region *r)
{
	for (unsigned k = 0; k < TM_STREAMS; k++)
		if (*pending_of(t, r) & 1u << k)
			tm_synchronize(t, k);
}

void
tm_order(struct tm_thread *t, const struct tm_region *r, unsigned stream)
{
	unsigned other = 1 - stream;

	if (*pending_of(t, r) & 1u << other) {
		/* An event does not tell that a launch before it did not run. */
		if (!tm.launches_fail && tm_below(t, 2)) {
			OK(sluice_event_record(tm.space, t->stream[other], t->event));
			OK(sluice_event_wait(tm.space, t->stream[stream], t->event));
		} else {
			tm_synchronize(t, other);
		}
	}
	*pending_of(t, r) |= 1u << stream;
}

struct sluice_stream *
tm_stream_pick(struct tm_thread *t, const struct tm_region *r)
{
	unsigned k = (unsigned)tm_below(t, TM_STREAMS + 1);

	if (k == TM_STREAMS)
		return NULL;
	tm_order(t, r, k);
	return t->stream[k];
}

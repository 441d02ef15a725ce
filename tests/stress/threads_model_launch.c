/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches with all intents, launches that declare nothing, scopes and callbacks: see
 * threads_model.h.
 *
 * A launch changes the shadow when it is enqueued, since host code of its thread waits
 * for it before it looks. What the shadow was stays with the launch: kernels compare what
 * they read with it, and a launch that is refused or did not run is undone with it.
 * Launches behind one that failed do not run either, so they are undone from the newest
 * to the oldest.
 */
#include "stress/threads_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct use {
	struct tm_range range;
	enum sluice_intent intent;
	uint64_t version;
	uint64_t every;        /* one of so many words is written, but for WRITE_ALL */
	uint64_t *before;      /* the shadow */
	uint8_t *before_state; /* its states */
};

enum block_run { BLOCK_WAITS, BLOCK_BEGUN, BLOCK_DONE };

struct tm_launch {
	struct tm_launch *older;
	const struct tm_thread *thread;
	struct use use[TM_USES_MAX];
	unsigned uses, blocks;
	int declared;
	_Atomic int block[TM_BLOCKS_MAX]; /* enum block_run */
};

/* ---- One use ---- */

static int
use_writes(const struct use *u, size_t i)
{
	if (u->intent == SLUICE_USE_READ)
		return 0;
	return u->intent == SLUICE_USE_WRITE_ALL || u->intent == SLUICE_USE_SCRATCH ||
	       tm_hash(u->version, i) % u->every == 0;
}

/* The words of the use that a block works on: [*from, *end). */
static void
block_words(const struct tm_launch *l, const struct use *u, unsigned block, size_t *from,
	    size_t *end)
{
	*from = u->range.count * block / l->blocks;
	*end = u->range.count * (block + 1) / l->blocks;
}

static void
kernel(const struct sluice_block *at, void *args)
{
	struct tm_launch *l = *(struct tm_launch **)args;
	unsigned block = at->index.x;

	atomic_store(&l->block[block], BLOCK_BEGUN);
	for (unsigned k = 0; k < l->uses; k++) {
		const struct use *u = &l->use[k];
		const struct tm_region *r = u->range.region;
		int reads = u->intent == SLUICE_USE_READ ||
			    u->intent == SLUICE_USE_READ_WRITE;
		size_t i, end;

		for (block_words(l, u, block, &i, &end); i < end; i++) {
			size_t w = u->range.from + i;

			if (!tm_owns(l->thread, r, w))
				continue;
			if (reads)
				tm_check(r, w, r->base[w], u->before[i], u->before_state[i],
					 l->declared ? "a kernel" : "a kernel by faults");
			if (use_writes(u, i))
				r->base[w] = tm_word(r, w, u->version);
		}
	}
	atomic_store(&l->block[block], BLOCK_DONE);
}

/* Keep the shadow, then make it what it is after the launch. */
static void
use_apply(const struct tm_launch *l, struct use *u)
{
	struct tm_region *r = u->range.region;

	u->before = calloc(u->range.count, sizeof(uint64_t));
	u->before_state = calloc(u->range.count, 1);
	if (!u->before || !u->before_state)
		exit(1);
	for (size_t i = 0; i < u->range.count; i++) {
		size_t w = u->range.from + i;

		if (!tm_owns(l->thread, r, w))
			continue;
		u->before[i] = r->shadow[w];
		u->before_state[i] = r->state[w];
		if (u->intent == SLUICE_USE_SCRATCH && r->state[w] == TM_LIVE)
			r->state[w] = TM_DEAD;
		if (l->declared && u->intent != SLUICE_USE_READ &&
		    u->intent != SLUICE_USE_SCRATCH && r->state[w] == TM_DEAD_LAZY)
			r->state[w] = TM_DEAD;
		if (use_writes(u, i) && u->intent != SLUICE_USE_SCRATCH)
			tm_wrote(r, w, tm_word(r, w, u->version));
	}
	if (u->intent == SLUICE_USE_SCRATCH)
		tm_discarded(u->range, TM_DEAD_LAZY);
	atomic_fetch_add(&tm.words, u->range.count);
}

/* Words of a block that was not run, or (begun) not to its end. */
static void
use_undo_words(const struct tm_launch *l, const struct use *u, size_t from, size_t end,
	       int begun)
{
	struct tm_region *r = u->range.region;

	for (size_t i = from; i < end; i++) {
		size_t w = u->range.from + i;

		if (!tm_owns(l->thread, r, w))
			continue;
		/* Nothing knows whether it revived what was discarded. */
		if (u->before_state[i] == TM_DEAD_LAZY && r->state[w] != TM_DEAD_LAZY)
			r->state[w] = TM_DEAD_LAZY;
		if (!use_writes(u, i) || u->intent == SLUICE_USE_SCRATCH ||
		    r->shadow[w] != tm_word(r, w, u->version))
			continue;
		/* A discard behind the launch was done all the same. */
		r->shadow[w] = u->before[i];
		if (r->state[w] == TM_LIVE)
			r->state[w] = begun ? TM_DEAD : u->before_state[i];
	}
}

/* ---- A launch ---- */

static int
ranges_share_page(struct tm_range a, struct tm_range b)
{
	return a.region == b.region &&
	       a.from / TM_PAGE_WORDS <= (b.from + b.count - 1) / TM_PAGE_WORDS &&
	       b.from / TM_PAGE_WORDS <= (a.from + a.count - 1) / TM_PAGE_WORDS;
}

static void
use_add(struct tm_thread *t, struct tm_launch *l)
{
	struct tm_region *r = tm_region_pick(t);
	enum sluice_intent intent = (enum sluice_intent)tm_below(t, SLUICE_USE_COUNT);
	size_t max = tm_below(t, 10) ? 60000 : 600000;
	struct tm_range x;
	int whole;

	if (!l->declared)
		intent = tm_below(t, 3) ? SLUICE_USE_READ_WRITE : SLUICE_USE_READ;
	if (r->kind == TM_FILE_READ)
		intent = SLUICE_USE_READ;
	/* Other threads' words must not lie between. */
	whole = intent == SLUICE_USE_WRITE_ALL || intent == SLUICE_USE_SCRATCH;
	/* Only whole chunks are not brought in, and can be lost: often enough. */
	if (whole && tm_below(t, 2))
		max = 600000;
	if (!tm_range_pick(t, r, max, whole, &x))
		return;
	for (unsigned k = 0; k < l->uses; k++)
		if (ranges_share_page(x, l->use[k].range))
			return;
	l->use[l->uses++] = (struct use){.range = x,
					 .intent = intent,
					 .version = tm_version_next(),
					 .every = 1 + tm_below(t, 20)};
}

/* A launch with one to three uses, or NULL. */
static struct tm_launch *
launch_make(struct tm_thread *t, int declared, struct sluice_use *uses)
{
	struct tm_launch *l = calloc(1, sizeof(*l));
	unsigned n = 1 + (unsigned)tm_below(t, TM_USES_MAX);

	if (!l)
		exit(1);
	l->thread = t;
	l->declared = declared;
	l->blocks = 1 + (unsigned)tm_below(t, TM_BLOCKS_MAX);
	for (unsigned k = 0; k < n; k++)
		use_add(t, l);
	for (unsigned k = 0; k < l->uses; k++)
		uses[k] = (struct sluice_use){tm_address(l->use[k].range),
					      tm_bytes(l->use[k].range), l->use[k].intent};
	if (l->uses)
		return l;
	free(l);
	return NULL;
}

static void
launch_free(struct tm_launch *l)
{
	for (unsigned k = 0; k < l->uses; k++) {
		free(l->use[k].before);
		free(l->use[k].before_state);
	}
	free(l);
}

static void
launch_apply(struct tm_thread *t, struct tm_launch *l, const char *what)
{
	for (unsigned k = 0; k < l->uses; k++) {
		tm_note(t, what, l->use[k].range,
			l->use[k].version << 8 | (unsigned)l->use[k].intent);
		use_apply(l, &l->use[k]);
	}
}

/* Put back what blocks that were not run were to write. 1: there were some. */
static int
launch_undo(struct tm_thread *t, struct tm_launch *l, const char *what)
{
	int undone = 0;

	for (unsigned b = 0; b < l->blocks; b++) {
		int run = atomic_load(&l->block[b]);

		for (unsigned k = 0; k < l->uses && run != BLOCK_DONE; k++) {
			size_t from, end;

			undone = 1;
			block_words(l, &l->use[k], b, &from, &end);
			use_undo_words(l, &l->use[k], from, end, run == BLOCK_BEGUN);
		}
	}
	for (unsigned k = 0; k < l->uses && undone; k++)
		tm_note(t, what, l->use[k].range, l->use[k].version << 8);
	return undone;
}

/* Discard the chunks whose contents were given up before the launch turned out not to run. */
static void
lost_chunks_discard(struct tm_thread *t, struct tm_range all)
{
	const size_t chunk = tm.config.chunk_bytes / sizeof(uint64_t);
	const size_t end = all.from + all.count;

	for (struct tm_range x = {all.region, all.from, 0}; x.from < end; x.from += x.count) {
		struct sluice_launch *scope;
		struct sluice_use use;
		int rc;

		x.count = chunk - x.from % chunk;
		if (x.from + x.count > end)
			x.count = end - x.from;
		use = (struct sluice_use){tm_address(x), tm_bytes(x), SLUICE_USE_READ};
		rc = sluice_launch_begin(tm.space, NULL, &use, 1, &scope);
		if (!rc) {
			sluice_launch_end(scope);
			continue;
		}
		if (!tm_done(rc, "begin of what did not run", TM_IO | TM_NOBUFS))
			atomic_fetch_add(&tm.lost_chunks, rc == -EIO);
		/* Lazily: pins of other threads do not refuse that. */
		OK(sluice_discard(tm.space, tm_address(x), tm_bytes(x),
				  SLUICE_DISCARD_LAZY, NULL));
		tm_note(t, "lost", x, (uint64_t)-rc);
		for (size_t i = x.from; i < x.from + x.count; i++)
			all.region->state[i] = TM_DEAD_LAZY;
	}
}

static void
launch_lost_discard(struct tm_thread *t, const struct tm_launch *l)
{
	for (unsigned k = 0; k < l->uses; k++)
		if (l->use[k].intent == SLUICE_USE_WRITE_ALL ||
		    l->use[k].intent == SLUICE_USE_SCRATCH)
			lost_chunks_discard(t, l->use[k].range);
}

static void
launch_end(struct tm_thread *t, struct tm_launch *l, int rc)
{
	if (launch_undo(t, l, "not run")) {
		if (!rc)
			FAIL("a kernel was not run, and nobody says so");
		atomic_fetch_add(&tm.not_run, 1);
	}
}

void
tm_synchronize(struct tm_thread *t, unsigned stream)
{
	int rc = sluice_stream_synchronize(tm.space, t->stream[stream]);
	struct tm_launch *newest = t->newest[stream], *next;

	tm_done(rc, "stream_synchronize",
		tm.launches_fail ? TM_NOBUFS | TM_NOSPC | TM_IO : 0);
	t->newest[stream] = NULL;
	for (unsigned k = 0; k < TM_REGIONS; k++)
		t->pending[k] &= ~(1u << stream);
	for (struct tm_launch *l = newest; l; l = l->older)
		launch_end(t, l, rc);
	for (struct tm_launch *l = newest; l; l = next) {
		next = l->older;
		if (rc)
			launch_lost_discard(t, l);
		launch_free(l);
	}
}

/* ---- Steps ---- */

static void
launch_step(struct tm_thread *t, int declared)
{
	struct sluice_use uses[TM_USES_MAX];
	struct tm_launch *l = launch_make(t, declared, uses);
	unsigned stream = (unsigned)tm_below(t, TM_STREAMS);
	int rc;

	if (!l)
		return;
	for (unsigned k = 0; k < l->uses; k++)
		tm_order(t, l->use[k].range.region, stream);
	launch_apply(t, l, declared ? "launch" : "launch by faults");
	rc = sluice_launch(tm.space, t->stream[stream], kernel,
			   (struct sluice_grid){l->blocks, 1, 1}, &l,
			   sizeof(struct tm_launch *), declared ? uses : NULL,
			   declared ? l->uses : 0);
	if (tm_done(rc, "launch", TM_NOBUFS)) {
		l->older = t->newest[stream];
		t->newest[stream] = l;
		return;
	}
	launch_undo(t, l, "refused");
	launch_free(l);
}

void
tm_step_launch(struct tm_thread *t)
{
	launch_step(t, 1);
}

void
tm_step_launch_undeclared(struct tm_thread *t)
{
	launch_step(t, 0);
}

void
tm_step_scope(struct tm_thread *t)
{
	struct sluice_use uses[TM_USES_MAX];
	struct tm_launch *l = launch_make(t, 1, uses);
	struct sluice_launch *scope;
	struct sluice_block only = {{0, 0, 0}, {1, 1, 1}, 0};

	if (!l)
		return;
	l->blocks = 1;
	for (unsigned k = 0; k < l->uses; k++) {
		enum sluice_intent *intent = &l->use[k].intent;

		/* A refused scope may lose what it was to overwrite: other threads' launches
		 * would fail. */
		if (!tm.launches_fail && l->use[k].range.region->shared &&
		    (*intent == SLUICE_USE_WRITE_ALL || *intent == SLUICE_USE_SCRATCH))
			uses[k].intent = *intent = SLUICE_USE_READ_WRITE;
		tm_settle(t, l->use[k].range.region);
	}
	if (tm_done(sluice_launch_begin(tm.space, tm_below(t, 2) ? NULL : t->stream[0],
					uses, l->uses, &scope),
		    "launch_begin", tm.launches_fail ? TM_NOBUFS | TM_IO : TM_NOBUFS)) {
		launch_apply(t, l, "scope");
		kernel(&only, &l);
		sluice_launch_end(scope);
	} else {
		launch_lost_discard(t, l);
	}
	launch_free(l);
}

struct look {
	const struct tm_region *region;
	size_t word;
	uint64_t want;
	enum tm_state state;
};

static void
look_back(void *arg)
{
	struct look *l = arg;

	tm_check(l->region, l->word, l->region->base[l->word], l->want, l->state,
		 "a callback");
	free(l);
}

void
tm_step_callback(struct tm_thread *t, struct tm_region *r)
{
	unsigned stream = (unsigned)tm_below(t, TM_STREAMS);
	size_t i = tm_below(t, r->words);
	struct look *l;

	/* What a callback finds behind a launch that did not run is known too late. */
	if (tm.launches_fail || !tm_owns(t, r, i))
		return;
	l = malloc(sizeof(*l));
	if (!l)
		exit(1);
	tm_order(t, r, stream);
	*l = (struct look){r, i, r->shadow[i], r->state[i]};
	OK(sluice_stream_callback(tm.space, t->stream[stream], look_back, l));
}

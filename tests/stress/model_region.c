/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A region's life: map, remap, advise, pin, sync, unmap: see model.h.
 */
#include "stress/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Atomic int model_pin_taken;

/* What a fresh mapping with these flags must read. */
static void
region_contents(struct region *r)
{
	size_t n = words_of(r->size_bytes);

	memset(r->lazy, 0, n);
	if (r->file && (r->flags & SLUICE_READ) && !(r->flags & SLUICE_VOLATILE))
		memcpy(r->words, r->file->words + r->first_word, n * WORD);
	else
		memset(r->words, 0, n * WORD);
	if (r->size_bytes % WORD)
		r->words[n - 1] = word_cut(r->words[n - 1], r->size_bytes % WORD);
}

static unsigned
flags_pick(struct player *p)
{
	static const unsigned flags[] = {SLUICE_READ | SLUICE_WRITE,
					 SLUICE_READ | SLUICE_WRITE,
					 SLUICE_READ | SLUICE_WRITE | SLUICE_NO_READAHEAD,
					 SLUICE_READ,
					 SLUICE_WRITE,
					 SLUICE_READ | SLUICE_WRITE | SLUICE_VOLATILE};

	return flags[player_below(p, sizeof(flags) / sizeof(flags[0]))];
}

void
step_map(struct player *p)
{
	struct region *r = &p->region[p->at];
	struct file *f = &p->file[player_below(p, FILES)];
	void *addr = NULL;

	if (r->base)
		return;
	r->tiled_stream = -1;
	r->pin_bytes = 0;
	if (f->mapped || player_below(p, 3) == 0) {
		r->file = NULL;
		r->first_word = 0;
		r->owner = 1024 + p->id * 1024 + p->anonymous++ % 1000;
		r->size_bytes = 1 + player_below(p, FILE_BYTES_MAX / 2);
		r->flags = SLUICE_READ | SLUICE_WRITE;
		player_note(p, "alloc %zu", r->size_bytes);
		OK(sluice_alloc(p->space, r->size_bytes, 0, &addr));
	} else {
		size_t offset = player_below(p, f->size_bytes / 2) / PAGE * PAGE;
		int whole = player_below(p, 3) == 0;

		r->file = f;
		r->first_word = offset / WORD;
		r->owner = f->owner;
		r->flags = flags_pick(p);
		r->size_bytes = whole ? f->size_bytes - offset
				      : 1 + player_below(p, f->size_bytes - offset);
		player_note(p, "map offset %zu, size %zu, flags 0x%x", offset,
			    r->size_bytes, r->flags);
		OK(sluice_map(p->space, f->path, offset, whole ? 0 : r->size_bytes,
			      r->flags, &addr));
		f->mapped = addr != NULL;
	}
	r->words = calloc(words_of(r->size_bytes), WORD);
	r->lazy = calloc(words_of(r->size_bytes), 1);
	if (!r->words || !r->lazy)
		exit(1);
	region_contents(r);
	r->base = addr;
}

static void
step_unpin(struct player *p, struct region *r)
{
	player_note(p, "unpin");
	OK(sluice_unpin(p->space, r->base + r->pin_from, r->pin_bytes));
	CHECK(sluice_unpin(p->space, r->base + r->pin_from, r->pin_bytes) == -EINVAL);
	r->pin_bytes = 0;
	atomic_store(&model_pin_taken, 0);
}

void
region_end(struct player *p, struct region *r)
{
	if (r->pin_bytes) {
		CHECK(sluice_unmap(p->space, r->base) == -EBUSY);
		step_unpin(p, r);
	}
	player_note(p, "unmap %s", r->file ? r->file->path : "anonymous");
	/* Launches that are still on their way are waited for by unmap itself. */
	OK(sluice_unmap(p->space, r->base));
	region_settle(p, r, 0, SIZE_MAX / 2);
	if (r->file) {
		if (!(r->flags & SLUICE_VOLATILE))
			file_compare(r->file, r, 0, words_of(r->size_bytes));
		file_absorb(r->file, r);
		r->file->mapped = 0;
	}
	free(r->words);
	free(r->lazy);
	r->base = NULL;
}

void
step_remap(struct player *p, struct region *r)
{
	unsigned flags = flags_pick(p) & ~(unsigned)SLUICE_NO_READAHEAD;

	if (!r->file || r->pin_bytes ||
	    ((flags & SLUICE_WRITE) && !(r->flags & SLUICE_WRITE)))
		return;
	player_note(p, "remap 0x%x to 0x%x", r->flags, flags);
	OK(sluice_remap(p->space, r->base, flags));
	region_settle(p, r, 0, SIZE_MAX / 2);
	if (!(r->flags & SLUICE_VOLATILE))
		file_compare(r->file, r, 0, words_of(r->size_bytes));
	file_absorb(r->file, r);
	r->flags = flags;
	region_contents(r);
}

void
step_pin(struct player *p, struct region *r)
{
	size_t at = player_below(p, words_of(r->size_bytes)) * WORD;

	if (r->pin_bytes) {
		step_unpin(p, r);
		return;
	}
	/* Two chunks must stay free, and launches need two; so: with four or more, and one pin. */
	if (p->config.device_budget_bytes < 4 * p->config.chunk_bytes ||
	    atomic_exchange(&model_pin_taken, 1))
		return;
	player_note(p, "pin %zu", at);
	OK(sluice_pin(p->space, r->base + at, 1));
	r->pin_from = at;
	r->pin_bytes = 1;
}

void
step_advise(struct player *p, struct region *r)
{
	enum sluice_advice advice = (enum sluice_advice)player_below(p, SLUICE_ADVISE_COUNT);
	size_t from, n;

	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	player_note(p, "advise %d", (int)advice);
	/* NORMAL and RANDOM move the region: they wait for what is on the streams. */
	OK(sluice_advise(p->space, r->base + from * WORD, range_bytes(r, from, n), advice));
}

void
step_sync(struct player *p, struct region *r)
{
	size_t from, n;

	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	player_note(p, "sync %zu + %zu", from, n);
	OK(sluice_sync(p->space, r->base + from * WORD, range_bytes(r, from, n)));
	if (r->file && (r->flags & SLUICE_WRITE) && !(r->flags & SLUICE_VOLATILE))
		file_compare(r->file, r, from, n);
}

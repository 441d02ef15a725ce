/* SPDX-License-Identifier: Apache-2.0 */
/* A region's life, and its file at rest: see threads_model.h. */
#include "stress/threads_model.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAGS \
	4000 /* fewer than a word has room for; a tag comes again after as many regions */

static void
shape_pick(struct tm_region *r, struct sl_rng *rng)
{
	static const unsigned shifts[] = {0, 3, 6, 9, 12, 13, 15, 18, 19};
	size_t max = r->shared ? 1500000 : 700000; /* words: a few chunks each */

	r->kind = (enum tm_kind)sl_rng_below(rng, TM_KINDS);
	if (r->shared && r->kind == TM_FILE_READ)
		r->kind = TM_FILE;
	r->stripe_shift = shifts[sl_rng_below(rng, sizeof(shifts) / sizeof(shifts[0]))];
	r->stripe_seed = sl_rng_next(rng);
	r->tag = 1 + atomic_fetch_add(&tm.tags, 1) % TAGS;
	r->flags = sl_rng_below(rng, 6) ? 0 : SLUICE_NO_READAHEAD;
	switch (sl_rng_below(rng, 5)) {
	case 0:
		r->words = 1 + sl_rng_below(rng, 1000);
		break;
	case 1:
		r->words = 2 * MIB / sizeof(uint64_t) * (1 + sl_rng_below(rng, 3));
		break;
	default:
		r->words = 1 + sl_rng_below(rng, max);
	}
	r->size_bytes = r->words * sizeof(uint64_t);
}

/* A new file: old contents, a hole, or none but what SLUICE_CREATE makes. */
static uint64_t *
file_begin(struct tm_region *r, struct sl_rng *rng)
{
	size_t offset = r->first_index * sizeof(uint64_t);
	uint64_t version = tm_version_next();
	uint64_t *words;

	r->size_bytes += sl_rng_below(rng, 3) ? sl_rng_below(rng, 8) : 0;
	r->file_bytes = offset + r->size_bytes;
	snprintf(r->path, sizeof(r->path), "%s/threads.%llx.%llu", stress.dir,
		 (unsigned long long)r->tag, (unsigned long long)version);
	r->fd = open(r->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	words = calloc(r->file_bytes / sizeof(uint64_t) + 1, sizeof(uint64_t));
	if (r->fd < 0 || !words)
		exit(1);
	if (r->kind == TM_FILE_READ || sl_rng_below(rng, 3)) {
		for (size_t i = 0; i <= r->file_bytes / sizeof(uint64_t); i++)
			words[i] = tm_word(r, i - r->first_index, version);
		if (pwrite(r->fd, words, r->file_bytes, 0) != (ssize_t)r->file_bytes)
			exit(1);
	} else if (sl_rng_below(rng, 2)) {
		r->flags |= SLUICE_CREATE;
	} else if (ftruncate(r->fd, (off_t)r->file_bytes)) {
		exit(1);
	}
	return words;
}

static void
region_map(struct tm_region *r, struct sl_rng *rng)
{
	static const unsigned flags[TM_KINDS] = {[TM_FILE] = SLUICE_READ | SLUICE_WRITE,
						 [TM_FILE_READ] = SLUICE_READ,
						 [TM_FILE_WRITE] = SLUICE_WRITE,
						 [TM_VOLATILE] = SLUICE_READ | SLUICE_WRITE |
								 SLUICE_VOLATILE};
	uint64_t *words;
	void *addr = NULL;
	int whole;

	r->first_index = sl_rng_below(rng, 2) ? TM_PAGE_WORDS * sl_rng_below(rng, 700) : 0;
	words = file_begin(r, rng);
	if (r->kind == TM_FILE_READ)
		r->flags &= ~(unsigned)SLUICE_CREATE;
	whole = !(r->flags & SLUICE_CREATE) && !sl_rng_below(rng, 5);
	OK(sluice_map(tm.space, r->path, r->first_index * sizeof(uint64_t),
		      whole ? 0 : r->size_bytes, r->flags | flags[r->kind], &addr));
	r->flags |= flags[r->kind];
	if (addr && r->kind != TM_VOLATILE)
		memcpy(r->shadow, words + r->first_index, r->words * sizeof(uint64_t));
	if (r->kind == TM_FILE_WRITE) /* reads as zeros, and keeps in the file what it had */
		memset(r->state, TM_DEAD, r->words);
	free(words);
	r->base = addr;
}

void
tm_region_begin(struct tm_region *r, struct tm_thread *t, struct sl_rng *rng)
{
	void *addr = NULL;

	memset(r, 0, sizeof(*r));
	r->shared = !t;
	r->fd = -1;
	shape_pick(r, rng);
	r->shadow = calloc(r->words, sizeof(uint64_t));
	r->state = calloc(r->words, 1);
	if (!r->shadow || !r->state)
		exit(1);
	if (r->kind != TM_ANONYMOUS) {
		region_map(r, rng);
		return;
	}
	OK(sluice_alloc(tm.space, r->size_bytes, r->flags, &addr));
	r->base = addr;
}

void
tm_region_file_end(struct tm_region *r)
{
	uint64_t *got = r->fd < 0 ? NULL : calloc(r->file_bytes / sizeof(uint64_t) + 1, 8);
	struct stat st;

	if (got) {
		if (fstat(r->fd, &st))
			exit(1);
		CHECK((size_t)st.st_size == r->file_bytes);
		CHECK(pread(r->fd, got, r->file_bytes, 0) == (ssize_t)r->file_bytes);
		for (size_t i = 0; i < r->words && !stress.failures; i++)
			tm_check(r, i, got[r->first_index + i], r->shadow[i],
				 r->kind == TM_VOLATILE ? TM_DEAD : r->state[i],
				 "the file at rest");
		for (size_t i = 0; i < r->first_index && !stress.failures; i++)
			if (got[i] && got[i] >> 28 != tm_word(r, i - r->first_index, 0) >> 28)
				FAIL("%s: word %zu before the mapping changed", r->path, i);
		free(got);
		close(r->fd);
		unlink(r->path);
	}
	free(r->shadow);
	free(r->state);
	r->base = NULL;
}

void
tm_region_end(struct tm_region *r, struct tm_thread *t)
{
	if (!r->base)
		return;
	if (t) {
		tm_settle(t, r);
		tm_unpin(t, r);
		tm_note(t, "unmap", (struct tm_range){r, 0, r->words}, 0);
	}
	if (tm_done(sluice_unmap(tm.space, (void *)r->base), "unmap", 0))
		tm_region_file_end(r);
}

void
tm_step_life(struct tm_thread *t)
{
	struct tm_region *r = &t->region[tm_below(t, TM_PRIVATE)];

	tm_region_end(r, t);
	if (!stress.failures)
		tm_region_begin(r, t, &t->rng);
}

/* Read only for a while. */
void
tm_step_remap(struct tm_thread *t, struct tm_region *r)
{
	if (r->shared || r->kind != TM_FILE)
		return;
	tm_settle(t, r);
	tm_unpin(t, r);
	tm_note(t, "remap", (struct tm_range){r, 0, r->words}, 0);
	OK(sluice_remap(tm.space, (void *)r->base, SLUICE_READ));
	tm_step_read(t, r);
	tm_step_file(t, r);
	OK(sluice_remap(tm.space, (void *)r->base, SLUICE_READ | SLUICE_WRITE));
}

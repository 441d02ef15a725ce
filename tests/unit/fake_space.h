/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One space with one region of a few chunks, made by hand: no device, no store, no thread. For
 * code that only changes records (states, heap, lists). The addresses are numbers without
 * memory.
 */
#ifndef TESTS_UNIT_FAKE_SPACE_H
#define TESTS_UNIT_FAKE_SPACE_H

#include "core/state/state.h"

#define FAKE_CHUNKS_MAX 64u

struct fake_space {
	struct sluice_space space;
	struct sl_region region;
	struct sl_chunk chunks[FAKE_CHUNKS_MAX];
};

static inline struct fake_space *
fake_space_make(uint64_t n_chunks)
{
	struct fake_space *f = calloc(1, sizeof(*f));

	if (!f || n_chunks > FAKE_CHUNKS_MAX)
		abort();
	f->region.space = &f->space;
	f->region.base = (char *)(uintptr_t)0x100000000;
	f->region.chunk_bytes = SL_GRANULE_BYTES;
	f->region.chunk_shift = 21;
	f->region.n_chunks = n_chunks;
	f->region.size_bytes = n_chunks * SL_GRANULE_BYTES;
	f->region.chunks = f->chunks;
	f->region.ready[SL_READY_NOT] = n_chunks;
	for (uint64_t i = 0; i < n_chunks; i++) {
		f->chunks[i].region = &f->region;
		f->chunks[i].heap_slot = SL_HEAP_NONE;
	}
	if (sl_lru_reserve(&f->space, SL_GRANULE_BYTES, n_chunks))
		abort();
	return f;
}

/* Into a state from anywhere, with the books that belong to it. */
static inline void
fake_chunk_place(struct sl_chunk *c, enum sl_chunk_state state)
{
	c->state = (uint8_t)state;
	c->flags = 0;
	sl_chunk_update(c);
}

static inline void
fake_space_free(struct fake_space *f)
{
	sl_lru_fini(&f->space);
	free(f);
}

#endif

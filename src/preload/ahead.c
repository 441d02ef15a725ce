/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefetching ahead of a scope. The learner (predict/predict.h) hears of each scope, and its
 * requests go to the pager. Blocks are known by their identity, so a freed one is not mistaken
 * for the one in its place.
 *
 * Threads: any; a thread that finds the learner in use goes without.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/lock.h"
#include "base/log.h"
#include "core/interpose.h"
#include "predict/predict.h"
#include "preload/alloc/block.h"
#include "preload/alloc/suballoc.h"
#include "preload/args/parts.h"
#include "preload/gpu.h"
#include "preload/gpu_internal.h"
#include "preload/loader/settings.h"
#include "preload/report/counters.h"
#include "preload/scope.h"
#include "sluice/sluice.h"

/* Parts move by the chunk, and small ones share chunks. So the learner knows chunks in their place: one, or as
 * many side by side as make them at least this part of the budget. Larger: a launch has more of them than
 * scopes have uses. */
#define UNITS_MOST 256u

/* Part of the device budget that a launch of parts brings in at once. Kernels of the block stand still
 * meanwhile, so each window costs some 50 us. Larger: it takes the room of what would stay. */
#define WINDOW_SHARE 16u

struct pl_learner {
	struct sl_mutex lock;
	struct sl_predict *predict;
	struct sl_autotune_way way; /* of the last scope */
	/* A launch had parts: kernels may access the rest of their block in host memory, as it is. Set
	 * once. atomic: relaxed: a trial that begins meanwhile does no harm. */
	_Atomic bool has_parts;
};

/* NULL: out of memory. */
static struct pl_learner *
learner_get(struct pl_gpu *gpu)
{
	struct pl_gpu_internal *books = gpu->books;
	struct pl_learner *l = atomic_load(&books->learner);

	if (l)
		return l;
	sl_mutex_lock(&books->lock);
	l = atomic_load(&books->learner);
	if (!l) {
		l = sl_calloc(1, sizeof(*l));
		if (l && sl_predict_create(&l->predict)) {
			free(l);
			l = NULL;
		}
		if (l) {
			sl_mutex_init(&l->lock, SL_RANK_PL_SCOPES);
			l->way.strategy = SL_STRATEGIES; /* none yet */
		}
		atomic_store(&books->learner, l);
	}
	sl_mutex_unlock(&books->lock);
	return l;
}

/* The block is still there, and what is to be fetched is inside of it. */
static bool
use_is_valid(const struct sl_predict_use *use)
{
	const struct pl_block *block = pl_data_find(use->addr);

	return block && pl_part_id(block, use->addr) == use->block &&
	       use->addr + use->bytes <= block->base + block->room;
}

static int
range_fetch(void *arg, const struct sl_predict_use *use, int spare, uint64_t leave)
{
	const struct pl_gpu *gpu = arg;

	if (!use_is_valid(use))
		return -ENOENT;
	return sl_ahead(gpu->space, (void *)(uintptr_t)use->addr, use->bytes, spare, leave);
}

static void
ahead_range_evict(void *arg, uint64_t addr, uint64_t bytes)
{
	const struct pl_gpu *gpu = arg;

	sl_evict_later(gpu->space, (void *)(uintptr_t)addr, bytes);
}

static void
way_set(struct pl_gpu *gpu, struct pl_learner *l, struct sl_autotune_way way)
{
	static const char *const names[SL_STRATEGIES] = {"ahead and patient", "ahead",
							 "without moves ahead"};
	const struct sl_autotune *tune = sl_predict_autotune(l->predict);

	sl_log(SL_DEBUG, "follow",
	       "%s%s; periods of %" PRIu64 " launches, last two %" PRIu64 " and %" PRIu64
	       " us",
	       names[way.strategy], way.encodes_more ? ", more encoded" : "",
	       tune->period, tune->took[0] / 1000, tune->took[1] / 1000);
	sl_early_evict_await(gpu->space, way.strategy == SL_STRATEGY_PATIENT);
	sl_encode_more(gpu->space, way.encodes_more);
	l->way = way;
}

/* ---- what the learner knows ---- */

/* Bytes that take room for as long as they are alive. Nobody tells what is dead in a block that has parts. */
static uint64_t
alive_bytes(const struct pl_gpu *gpu, const struct pl_learner *l)
{
	uint64_t alive = sl_space_alive_bytes(gpu->space), parts;

	if (!atomic_load_explicit(&l->has_parts, memory_order_relaxed))
		return alive;
	parts = pl_parts_bytes(gpu);
	return alive > parts ? alive - parts : 0;
}

/* Add the chunks that a part of the block lies in, each once. Returns the new number. */
static size_t
noted_add_part(const struct pl_block *block, const struct sl_predict_use *part,
	       struct sl_predict_use *to, size_t n)
{
	uint64_t unit = pl_gpu_chunk_bytes(block->gpu), end = block->base + block->bytes;

	while (unit < block->gpu->device_budget / UNITS_MOST)
		unit *= 2;
	for (uint64_t at = part->addr / unit * unit; at < part->addr + part->bytes;
	     at += unit) {
		uint64_t from = at > block->base ? at : block->base;
		uint64_t bytes = (at + unit < end ? at + unit : end) - from;
		size_t k = 0;

		while (k < n && to[k].addr != from)
			k++;
		if (k < n)
			to[k].fetched |= part->fetched;
		else if (n < PL_USES_MAX)
			to[n++] = (struct sl_predict_use){.block = pl_part_id(block, from),
							  .addr = from,
							  .bytes = bytes,
							  .grain = part->grain,
							  .fetched = part->fetched,
							  .outlives = 1};
	}
	return n;
}

/* What the learner is told of uses of so many bytes each. launch: it has brought them in, or NULL. Returns their
 * number. */
static size_t
noted_fill(const struct sluice_use *uses, const uint64_t *cut, size_t n,
	   const struct sluice_launch *launch, struct sl_predict_use *to)
{
	size_t kept = 0;

	for (size_t i = 0; i < n && kept < PL_USES_MAX; i++) {
		const uint64_t addr = (uintptr_t)uses[i].addr;
		const struct pl_block *block = pl_data_find(addr);
		const struct sl_predict_use use = {
			.block = pl_part_id(block, addr),
			.addr = addr,
			.bytes = cut[i],
			.grain = launch ? sl_launch_chunk_bytes(launch, i) : 0,
			.fetched = launch && sl_launch_fetched(launch, i),
		};

		if (block && pl_block_has_parts(block) && use.bytes < block->bytes)
			kept = noted_add_part(block, &use, to, kept);
		else
			to[kept++] = use;
	}
	return kept;
}

/* ---- parts of large blocks ---- */

/* A window of parts that a launch brings in with its own. */
struct window {
	struct sluice_use *uses;
	size_t n;
	uint64_t left; /* bytes */
};

/* 1: the window is full. */
static int
window_add(void *arg, const struct sl_predict_use *use)
{
	const struct pl_block *block = pl_data_find(use->addr);
	struct window *w = arg;

	if (!block || !pl_block_has_parts(block) || !use->bytes || !use_is_valid(use))
		return 0;
	for (size_t i = 0; i < w->n; i++) {
		uint64_t addr = (uintptr_t)w->uses[i].addr;

		if (addr < use->addr + use->bytes && use->addr < addr + w->uses[i].size_bytes)
			return 0;
	}
	if (w->n == PL_USES_MAX || use->bytes > w->left)
		return 1;
	w->left -= use->bytes;
	w->uses[w->n++] = (struct sluice_use){(void *)(uintptr_t)use->addr, use->bytes,
					      SLUICE_USE_READ};
	return 0;
}

static int
uses_are_resident(const struct pl_gpu *gpu, const struct sluice_use *uses, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct sluice_residency at;

		if (sluice_residency(gpu->space, uses[i].addr, uses[i].size_bytes, &at) ||
		    at.tier_bytes[SLUICE_TIER_DEVICE] < uses[i].size_bytes)
			return 0;
	}
	return 1;
}

size_t
pl_ahead_window(struct pl_gpu *gpu, uint64_t what, struct sluice_use *uses,
		const uint64_t *cut, size_t n, size_t n_whole)
{
	struct sl_predict_use noted[PL_USES_MAX];
	struct sl_predict_launch launch = {what, noted, 0};
	struct window w = {uses, n, gpu->device_budget / WINDOW_SHARE};
	struct pl_learner *l = learner_get(gpu);

	if (l)
		atomic_store_explicit(&l->has_parts, true, memory_order_relaxed);
	if (!l || uses_are_resident(gpu, uses, n) || sl_mutex_trylock(&l->lock))
		return n;
	if (l->way.strategy == SL_STRATEGY_PLAIN) {
		w.n = n_whole;
	} else {
		launch.n_uses = noted_fill(uses, cut, n, NULL, noted);
		sl_predict_expected(l->predict, &launch, window_add, &w);
	}
	sl_mutex_unlock(&l->lock);
	return w.n;
}

void
pl_ahead_scope(struct pl_gpu *gpu, uint64_t what, const struct sluice_use *uses,
	       const uint64_t *cut, size_t n, const struct sluice_launch *launch)
{
	struct sl_predict_use to[PL_USES_MAX];
	struct sl_predict_launch noted = {what, to, 0};
	struct sl_predict_now now = {gpu->device_budget, 0, sl_now_ns(),
				     pl_settings()->follow == PL_FOLLOW_ALWAYS, 0};
	const struct sl_predict_moves moves = {range_fetch, ahead_range_evict, gpu};
	struct pl_learner *l = learner_get(gpu);
	struct sl_predict_answer answer;

	if (!l || !n || sl_mutex_trylock(&l->lock))
		return;
	noted.n_uses = noted_fill(uses, cut, n, launch, to);
	now.alive_bytes = alive_bytes(gpu, l);
	now.may_encode_more = sl_encode_may_more(gpu->space) &&
			      !atomic_load_explicit(&l->has_parts, memory_order_relaxed);
	answer = sl_predict_follow(l->predict, &noted, &now, &moves);
	if (answer.way.strategy != l->way.strategy ||
	    answer.way.encodes_more != l->way.encodes_more)
		way_set(gpu, l, answer.way);
	if (answer.expected) {
		PL_COUNT(follows_hit, 1);
		PL_COUNT(follows_idle, answer.way.strategy == SL_STRATEGY_PLAIN);
		PL_COUNT(follows_patient, answer.way.strategy == SL_STRATEGY_PATIENT);
		PL_COUNT(follows_encoding, answer.way.encodes_more);
	} else if (answer.compared) {
		PL_COUNT(follows_miss, 1);
	}
	sl_mutex_unlock(&l->lock);
}

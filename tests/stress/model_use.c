/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that read and write: host code, kernels with and without declared uses, scopes: see
 * model.h.
 */
#include "stress/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Host code ---- */

void
step_host_read(struct player *p, struct region *r)
{
	size_t from, n, stride = 1 + player_below(p, 200);

	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	if (p->config.checking && range_has_any(r, from, n))
		return;
	player_note(p, "host reads %zu + %zu / %zu", from, n, stride);
	region_settle(p, r, from, n);
	for (size_t i = from; i < from + n && !stress.failures; i += stride)
		word_check(r, i, r->words[i], word_load(r, i), "host code");
	/* Behind the end there is nothing. */
	if (from + n == words_of(r->size_bytes) && r->size_bytes % PAGE && !p->config.checking)
		for (size_t at = r->size_bytes; at % PAGE; at++)
			if (r->base[at]) {
				FAIL("byte %zu behind the end is not 0", at - r->size_bytes);
				break;
			}
}

/* One word written by host code or by a kernel that declared nothing. */
static void
word_model_write(struct region *r, size_t i, uint64_t word)
{
	if (!r->lazy[i])
		r->words[i] = word_cut(word, word_bytes(r->size_bytes, i));
	else if (r->words[i] != WILD)
		r->words[i] = ANY;
}

void
step_host_write(struct player *p, struct region *r)
{
	size_t from, n, stride = 1 + player_below(p, 100);

	if (!(r->flags & SLUICE_WRITE))
		return;
	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	player_note(p, "host writes %zu + %zu / %zu", from, n, stride);
	region_settle(p, r, from, n);
	p->version++;
	for (size_t i = from; i < from + n; i += stride) {
		uint64_t word = word_make(r->owner, r->first_word + i, p->version);

		memcpy(r->base + i * WORD, &word, word_bytes(r->size_bytes, i));
		word_model_write(r, i, word);
	}
}

/* ---- Kernels ---- */

/* Blocks share a range; each checks, then writes, its part. */
struct kernel_args {
	struct region shape; /* copy: base, size, owner, first word */
	size_t from, n, stride;
	uint64_t *expected; /* NULL: nothing is read; else every stride-th word; freed by the last */
	uint64_t version;       /* 0: nothing is written */
	_Atomic uint32_t *left; /* blocks to go */
};

static void
kernel(const struct sluice_block *block, void *args)
{
	struct kernel_args *a = args;
	size_t per = (a->n + block->grid.x - 1) / block->grid.x;
	size_t begin = block->index.x * per;
	size_t end = begin + per < a->n ? begin + per : a->n;

	begin = (begin + a->stride - 1) / a->stride * a->stride;
	for (size_t k = begin; k < end; k += a->stride) {
		size_t i = a->from + k;
		uint64_t word = word_make(a->shape.owner, a->shape.first_word + i,
					  a->version);

		if (a->expected)
			word_check(&a->shape, i, a->expected[k / a->stride],
				   word_load(&a->shape, i), "a kernel");
		if (a->version)
			memcpy(a->shape.base + i * WORD, &word,
			       word_bytes(a->shape.size_bytes, i));
	}
	if (atomic_fetch_sub(a->left, 1) == 1) {
		free(a->expected);
		free(a->left);
	}
}

/* What launch calls and scopes have in common: the ranges, the model's part. */
struct plan {
	struct region *r;
	size_t from, n;
	enum sluice_intent intent;
	int declared;
	struct sluice_use use;
};

static int
plan_make(struct player *p, struct region *r, struct plan *plan)
{
	plan->r = r;
	range_pick(p, r, RANGE_BYTES_MAX, &plan->from, &plan->n);
	plan->intent = (enum sluice_intent)player_below(p, SLUICE_USE_COUNT);
	plan->declared = player_below(p, 4) != 0;
	if (!(r->flags & SLUICE_WRITE))
		plan->intent = SLUICE_USE_READ;
	if (!plan->declared && plan->intent == SLUICE_USE_SCRATCH)
		plan->intent = SLUICE_USE_WRITE;
	if (p->config.checking && plan->intent != SLUICE_USE_WRITE_ALL &&
	    plan->intent != SLUICE_USE_WRITE && range_has_any(r, plan->from, plan->n))
		return 0;
	plan->use = (struct sluice_use){r->base + plan->from * WORD,
					range_bytes(r, plan->from, plan->n), plan->intent};
	return 1;
}

/* The kernel of a plan, with what it must find, and what it leaves behind entered in the model. */
static struct kernel_args
plan_kernel(struct player *p, const struct plan *plan, uint32_t blocks)
{
	struct region *r = plan->r;
	struct kernel_args a = {.shape = *r, .from = plan->from, .n = plan->n, .stride = 1};
	int reads = plan->intent == SLUICE_USE_READ || plan->intent == SLUICE_USE_READ_WRITE;
	size_t k = 0;

	if (plan->intent != SLUICE_USE_WRITE_ALL || !plan->declared)
		a.stride = 1 + player_below(p, 60);
	if (plan->intent != SLUICE_USE_READ)
		a.version = ++p->version;
	a.left = malloc(sizeof(*a.left));
	a.expected = reads ? malloc(words_of(plan->n * WORD) / a.stride * WORD + WORD) : NULL;
	if (!a.left || (reads && !a.expected))
		exit(1);
	atomic_store(a.left, blocks);
	for (size_t i = plan->from; i < plan->from + plan->n && plan->declared; i++) {
		if (plan->intent != SLUICE_USE_READ && plan->intent != SLUICE_USE_SCRATCH)
			r->lazy[i] = 0;
	}
	for (size_t i = plan->from; i < plan->from + plan->n; i += a.stride) {
		if (reads)
			a.expected[k++] = r->words[i];
		if (a.version)
			word_model_write(r, i,
					 word_make(r->owner, r->first_word + i, a.version));
	}
	for (size_t i = plan->from;
	     plan->intent == SLUICE_USE_SCRATCH && i < plan->from + plan->n; i++) {
		r->words[i] = WILD;
		r->lazy[i] = 1;
	}
	return a;
}

void
step_launch(struct player *p, struct region *r)
{
	struct kernel_args a;
	struct plan plan;
	uint32_t blocks = 1 + (uint32_t)player_below(p, 5);
	unsigned s;

	if (!plan_make(p, r, &plan))
		return;
	player_note(p, "launch %s intent %d, %zu + %zu, %u blocks",
		    plan.declared ? "declared" : "by faults", (int)plan.intent, plan.from,
		    plan.n, blocks);
	s = region_stream(p, r, plan.from, plan.n);
	a = plan_kernel(p, &plan, blocks);
	OK(sluice_launch(p->space, p->stream[s], kernel, (struct sluice_grid){blocks, 1, 1},
			 &a, sizeof(a), &plan.use, (size_t)plan.declared));
}

/* The thread itself works in a scope; perhaps a kernel on the same range, too. */
void
step_scope(struct player *p, struct region *r)
{
	struct sluice_block block = {{0, 0, 0}, {1, 1, 1}, 0};
	struct sluice_launch *scope = NULL;
	struct kernel_args a;
	struct plan plan;

	if (!plan_make(p, r, &plan) || !plan.declared)
		return;
	player_note(p, "scope intent %d, %zu + %zu", (int)plan.intent, plan.from, plan.n);
	region_settle(p, r, plan.from, plan.n);
	if (r->tiled_stream >= 0)
		region_settle(p, r, r->busy_from, 1);
	OK(sluice_launch_begin(p->space, p->stream[0], &plan.use, 1, &scope));
	if (!scope)
		return;
	if (!p->config.checking) /* there the host's own scope has no kernel to be compared with */
		CHECK(sluice_evict(p->space, plan.use.addr, plan.use.size_bytes,
				   SLUICE_TIER_HOST, NULL) == -EBUSY);
	a = plan_kernel(p, &plan, 1);
	kernel(&block, &a);
	sluice_launch_end(scope);
}

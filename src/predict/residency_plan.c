/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks that stay on the device between two uses, for a program whose period is known. Each
 * interval between two uses either keeps its room or gives it to others. As many intervals are
 * kept as fit, the shortest first, since they occupy the room for the least time. For blocks of
 * one size this is Belady's rule (evict the block whose next use is farthest).
 * - Each piece that moves costs mappings, whatever its size. So an interval of a block of small pieces counts
 *   as shorter: divided by what a byte of it costs.
 * - Intervals of about one length (a loop over weights) are taken from all over the period, so
 *   that the link is never idle for long.
 * - An interval that fits in part is kept in part.
 * - A block always stays during its uses, from the scope on in which it is prefetched.
 */
#include "predict/residency_plan.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/fault_point.h"
#include "base/hash.h"

/* A tree of sums over ranges of scopes: below node i are nodes 2 i and 2 i + 1. */
struct node {
	uint64_t added; /* to all below */
	uint64_t most; /* the largest sum, with what was added here, without what was above */
};

/* The link moves so many bytes while the driver changes the mappings of one piece that comes and one that
 * goes: some 0.3 ms while copies are under way (H200, bench_cuda --only map). Larger: small pieces stay,
 * and large ones go that are needed sooner. */
#define MAPPING_BYTES (UINT64_C(16) << 20)

struct plan {
	struct sl_residency_use *uses;
	size_t n;
	uint32_t scopes;
	uint32_t leaves; /* of the tree: a power of two */
	struct node *tree;
	uint32_t *lead; /* by scope: it is asked for so many scopes before */
};

/* Between two uses of a block: from scope begin on, so many. */
struct idle {
	uint64_t order;
	uint32_t use, begin, scopes;
};

static uint64_t
larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* To scopes [from, to); the node covers [low, high). */
static void
tree_add(struct node *tree, uint32_t node, uint32_t low, uint32_t high, uint32_t from,
	 uint32_t to, uint64_t bytes)
{
	uint32_t middle = low + (high - low) / 2;

	if (from <= low && high <= to) {
		tree[node].added += bytes;
		tree[node].most += bytes;
		return;
	}
	if (from < middle)
		tree_add(tree, 2 * node, low, middle, from, to, bytes);
	if (middle < to)
		tree_add(tree, 2 * node + 1, middle, high, from, to, bytes);
	tree[node].most = tree[node].added +
			  larger(tree[2 * node].most, tree[2 * node + 1].most);
}

static uint64_t
tree_most(const struct node *tree, uint32_t node, uint32_t low, uint32_t high,
	  uint32_t from, uint32_t to)
{
	uint32_t middle = low + (high - low) / 2;
	uint64_t left = 0, right = 0;

	if (from <= low && high <= to)
		return tree[node].most;
	if (from < middle)
		left = tree_most(tree, 2 * node, low, middle, from, to);
	if (middle < to)
		right = tree_most(tree, 2 * node + 1, middle, high, from, to);
	return tree[node].added + larger(left, right);
}

/* So many scopes from begin on, beyond the period's end at its beginning. */
static void
period_add(struct plan *p, uint32_t begin, uint32_t scopes, uint64_t bytes)
{
	uint32_t end = begin + scopes;

	if (scopes)
		tree_add(p->tree, 1, 0, p->leaves, begin,
			 end < p->scopes ? end : p->scopes, bytes);
	if (end > p->scopes)
		tree_add(p->tree, 1, 0, p->leaves, 0, end - p->scopes, bytes);
}

static uint64_t
period_most(const struct plan *p, uint32_t begin, uint32_t scopes)
{
	uint32_t end = begin + scopes;
	uint64_t most = tree_most(p->tree, 1, 0, p->leaves, begin,
				  end < p->scopes ? end : p->scopes);

	if (end > p->scopes)
		most = larger(most, tree_most(p->tree, 1, 0, p->leaves, 0, end - p->scopes));
	return most;
}

/* How far ahead each scope is asked for: at least while the one before it runs. */
static int
lead_find(struct plan *p, uint64_t window)
{
	uint64_t *bytes = sl_calloc(p->scopes, sizeof(*bytes)), sum = 0;
	uint32_t first = 0; /* of those whose uses add up to sum */

	if (!bytes)
		return -ENOMEM;
	for (size_t i = 0; i < p->n; i++)
		bytes[p->uses[i].scope] += p->uses[i].bytes;
	/* Twice around, for those at the beginning. */
	for (uint32_t at = 0; at < 2 * p->scopes; at++) {
		sum += bytes[at % p->scopes];
		while (first < at && (sum > window || at - first >= p->scopes - 1))
			sum -= bytes[first++ % p->scopes];
		p->lead[at % p->scopes] = at > first ? at - first : 1;
	}
	free(bytes);
	return 0;
}

/* Add what is there whatever stays; the intervals that may be kept go to idle. Their number. */
static size_t
idle_collect(struct plan *p, struct idle *idle)
{
	size_t n_idle = 0;

	for (size_t i = 0; i < p->n; i++) {
		struct sl_residency_use *u = &p->uses[i];
		uint32_t behind = (u->scope + 1) % p->scopes, away, lead, next;

		period_add(p, u->scope, 1, u->bytes);
		u->stays = u->bytes;
		if (u->next == SL_NEVER_USED)
			continue;
		next = p->uses[u->next].scope;
		away = u->next > i ? next - u->scope : next + p->scopes - u->scope;
		lead = p->lead[next];
		if (away <= lead + 1) {
			period_add(p, behind, away ? away - 1 : 0, u->bytes);
			continue;
		}
		period_add(p, (next + p->scopes - lead) % p->scopes, lead, u->bytes);
		idle[n_idle++] = (struct idle){.use = (uint32_t)i,
					       .begin = behind,
					       .scopes = away - 1 - lead};
	}
	return n_idle;
}

/*
 * What is alive beyond the blocks of the uses, and beyond the least of that in the period, takes room in its scope:
 * no more than what is alive is above its own least, so nothing in a pool, of which nobody tells what is dead.
 */
static int
alive_rest_add(struct plan *p, const uint64_t *alive)
{
	uint64_t *rest = sl_calloc((size_t)p->scopes + 1, sizeof(*rest)), blocks = 0;
	uint64_t least = UINT64_MAX, least_alive = UINT64_MAX;

	if (!rest)
		return -ENOMEM;
	/* First by how much the blocks become more or less from each scope to the next, as unsigned numbers. */
	for (size_t i = 0; i < p->n; i++) {
		const struct sl_residency_use *u = &p->uses[i];
		uint32_t end = u->next == SL_NEVER_USED ? u->scope + 1
							: p->uses[u->next].scope;

		rest[u->scope] += u->bytes;
		rest[end] -= u->bytes;
		if (u->next <= i) /* in the next period: it is there at the beginning of this one */
			blocks += u->bytes;
	}
	for (uint32_t i = 0; i < p->scopes; i++) {
		blocks += rest[i];
		rest[i] = alive[i] > blocks ? alive[i] - blocks : 0;
		if (rest[i] < least)
			least = rest[i];
		if (alive[i] < least_alive)
			least_alive = alive[i];
	}
	for (uint32_t i = 0; i < p->scopes; i++)
		period_add(p, i, 1,
			   rest[i] - least < alive[i] - least_alive
				   ? rest[i] - least
				   : alive[i] - least_alive);
	free(rest);
	return 0;
}

/* Numbers that differ by less than a sixteenth or so are one class; sixteen classes are a factor of two. */
static uint64_t
log_class(uint64_t n)
{
	unsigned bits = 63u - (unsigned)__builtin_clzll(n);

	return bits * 16 + (bits >= 4 ? (n >> (bits - 4)) & 15 : 0);
}

/*
 * The class of an interval of so many scopes: less than 2^10. That it counts as shorter by a factor makes the
 * class lower, so where all pieces are of one size the order is that of the scopes.
 */
static uint64_t
length_class(const struct sl_residency_use *u, uint32_t scopes)
{
	uint64_t sixteenths = 16; /* of what the bytes alone cost */

	if (u->piece)
		sixteenths += 16 * MAPPING_BYTES / u->piece;
	return log_class(scopes) + log_class(16 * MAPPING_BYTES) - log_class(sixteenths);
}

static int
idle_compare(const void *a, const void *b)
{
	uint64_t x = ((const struct idle *)a)->order, y = ((const struct idle *)b)->order;

	return x < y ? -1 : x > y;
}

static void
idle_keep(struct plan *p, struct idle *idle, size_t n_idle, uint64_t room, uint64_t grain)
{
	for (size_t i = 0; i < n_idle; i++)
		idle[i].order = length_class(&p->uses[idle[i].use], idle[i].scopes) << 54 |
				sl_hash_add(0, p->uses[idle[i].use].group) >> 10;
	qsort(idle, n_idle, sizeof(*idle), idle_compare);
	for (size_t i = 0; i < n_idle; i++) {
		struct sl_residency_use *u = &p->uses[idle[i].use];
		uint64_t most = period_most(p, idle[i].begin, idle[i].scopes);
		uint64_t left = most < room ? room - most : 0;

		if (left < u->bytes)
			u->stays = left / grain * grain;
		period_add(p, idle[i].begin, idle[i].scopes, u->stays);
	}
}

int
sl_residency_plan(struct sl_residency_use *uses, size_t n, uint32_t scopes,
		  const uint64_t *alive, uint64_t room, uint64_t window, uint64_t grain)
{
	struct plan p = {.uses = uses, .n = n, .scopes = scopes, .leaves = 1};
	struct idle *idle = sl_calloc(n ? n : 1, sizeof(*idle));
	int rc = -ENOMEM;

	assert(scopes);
	while (p.leaves < scopes)
		p.leaves *= 2;
	p.tree = sl_calloc(2 * (size_t)p.leaves, sizeof(*p.tree));
	p.lead = sl_calloc(scopes, sizeof(*p.lead));
	if (idle && p.tree && p.lead && !lead_find(&p, window) && !alive_rest_add(&p, alive)) {
		idle_keep(&p, idle, idle_collect(&p, idle), room, grain);
		rc = 0;
	}
	free(idle);
	free(p.tree);
	free(p.lead);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch of a graph, or of a piece of it, uses: the blocks that lie at the addresses of its
 * nodes now. They may have been freed and allocated anew since the nodes were read.
 *
 * The kept ranges may be too many (nodes that an update replaced in another's order), never too
 * few. A graph with more uses than a scope takes uses everything: the blocks beyond are mapped
 * zero-copy.
 */
#include <stdlib.h>

#include "base/fault_point.h"
#include "preload/alloc/block.h"
#include "preload/args/functions.h"
#include "preload/args/pointer_table.h"
#include "preload/calls/touch.h"
#include "preload/graph/graph_exec.h"
#include "preload/preload.h"

static int
compare_words(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int
compare_uses(const void *a, const void *b)
{
	const struct pl_graph_use *x = a, *y = b;

	if (x->how != y->how)
		return x->how < y->how ? -1 : 1;
	if (x->intent != y->intent)
		return x->intent < y->intent ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static size_t
words_unique(uint64_t *words, size_t n)
{
	size_t kept = 0;

	qsort(words, n, sizeof(*words), compare_words);
	for (size_t i = 0; i < n; i++)
		if (!kept || words[kept - 1] != words[i])
			words[kept++] = words[i];
	return kept;
}

/* Sorted: make one of neighbours. */
static size_t
ranges_merge(struct pl_graph_use *ranges, size_t n)
{
	size_t kept = 0;

	qsort(ranges, n, sizeof(*ranges), compare_uses);
	for (size_t i = 0; i < n; i++) {
		struct pl_graph_use *last = kept ? &ranges[kept - 1] : NULL;
		uint64_t end = ranges[i].addr + ranges[i].bytes;

		if (last && last->how == ranges[i].how && last->intent == ranges[i].intent &&
		    ranges[i].addr <= last->addr + last->bytes) {
			if (end > last->addr + last->bytes)
				last->bytes = end - last->addr;
			continue;
		}
		ranges[kept++] = ranges[i];
	}
	return kept;
}

void
pl_graph_set_fini(struct pl_graph_set *set)
{
	free(set->named);
	free(set->ranges);
	free(set->functions);
	*set = (struct pl_graph_set){0};
}

static void
set_add(struct pl_graph_set *set, const struct pl_graph_node *node)
{
	set->all |= node->all;
	if (node->function)
		set->functions[set->n_functions++] = node->function;
	for (size_t i = 0; i < node->n; i++) {
		if (node->uses[i].how == PL_GRAPH_NAMED)
			set->named[set->n_named++] = node->uses[i].addr;
		else
			set->ranges[set->n_ranges++] = node->uses[i];
	}
}

/* 0: no memory. */
static int
set_make(struct pl_graph_set *set, const struct pl_graph_nodes *nodes, uint32_t piece)
{
	size_t n = 0, n_nodes = 0;

	pl_graph_set_fini(set);
	for (size_t i = 0; i < nodes->n; i++)
		if (pl_graph_node_is_in(&nodes->at[i], piece)) {
			n += nodes->at[i].n;
			n_nodes++;
		}
	set->named = sl_malloc((n + 1) * sizeof(*set->named));
	set->ranges = sl_malloc((n + 1) * sizeof(*set->ranges));
	set->functions = sl_malloc((n_nodes + 1) * sizeof(void *));
	if (!set->named || !set->ranges || !set->functions)
		return 0;
	for (size_t i = 0; i < nodes->n; i++)
		if (pl_graph_node_is_in(&nodes->at[i], piece))
			set_add(set, &nodes->at[i]);
	set->all |= nodes->all;
	set->n_named = words_unique(set->named, set->n_named);
	set->n_ranges = ranges_merge(set->ranges, set->n_ranges);
	_Static_assert(sizeof(void *) == sizeof(uint64_t), "sorted as words");
	set->n_functions = words_unique((uint64_t *)set->functions, set->n_functions);
	return 1;
}

static bool
block_is_named(const struct pl_block *block, uint64_t stamp)
{
	return atomic_load(&block->last_launch) == stamp;
}

/* What the functions are known to touch beyond their arguments, by now. */
static unsigned
functions_flags(const struct pl_graph_set *set, struct pl_use *uses)
{
	unsigned all = 0, flags;

	for (size_t i = 0; i < set->n_functions && !all; i++) {
		(void)pl_launch_uses(set->functions[i], NULL, NULL, uses, &flags);
		all |= flags;
	}
	return all;
}

static size_t
range_use(const struct pl_graph_use *range, struct pl_use *uses, size_t n, uint64_t stamp,
	  unsigned *flags)
{
	uint64_t end = range->addr + range->bytes, at = range->addr;
	struct pl_use use;

	/* Neighbours that were made one may be several blocks. */
	while (at < end) {
		if (!pl_use_of(at, end - at, range->intent, &use))
			return n;
		at = use.addr + use.bytes;
		if (range->how == PL_GRAPH_POLLED)
			sl_ignore(pl_block_pin(use.block)); /* the scope holds it, too */
		if (block_is_named(use.block, stamp))
			continue;
		if (n == PL_USES_MAX) {
			*flags |= PL_SCOPE_ALL;
			return n;
		}
		uses[n++] = use;
	}
	return n;
}

size_t
pl_graph_run_uses(struct pl_graph_exec *exec, struct pl_graph_run *run, uint32_t piece,
		  struct pl_use *uses, unsigned *flags)
{
	uint64_t stamp;
	size_t n = 0;

	*flags = PL_SCOPE_ALL;
	run->launches++;
	if (run->set_is_old && !set_make(&run->set, &exec->nodes, piece))
		return 0;
	run->set_is_old = 0;
	*flags = functions_flags(&run->set, uses);
	if (run->set.all)
		*flags |= PL_SCOPE_ALL;
	stamp = pl_launch_stamp();
	for (size_t i = 0; i < run->set.n_named && n < PL_USES_MAX; i++)
		n = pl_word_use(run->set.named[i], uses, n, stamp);
	n = pl_pointer_table_globals(uses, n, stamp);
	if (n == PL_USES_MAX)
		*flags |= PL_SCOPE_ALL;
	for (size_t i = 0; i < run->set.n_ranges; i++)
		n = range_use(&run->set.ranges[i], uses, n, stamp, flags);
	return n;
}

size_t
pl_graph_node_uses(const struct pl_graph_node *node, struct pl_use *uses, size_t n,
		   uint64_t stamp, unsigned *flags)
{
	for (size_t i = 0; i < node->n && !node->disabled && n < PL_USES_MAX; i++)
		n = node->uses[i].how == PL_GRAPH_NAMED
			    ? pl_word_use(node->uses[i].addr, uses, n, stamp)
			    : range_use(&node->uses[i], uses, n, stamp, flags);
	return n;
}

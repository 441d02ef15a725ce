/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs in pieces. A graph is one launch to the driver: all data of its nodes must be there at
 * once. One that uses more than the device holds would run most of its kernels on host memory. So
 * it is cut into a row of smaller graphs. Each has a scope of its own, and the data of the next
 * come in while it runs.
 *
 * - The row is a topological order of the nodes. A piece is a stretch of it, so no path leads from
 *   a piece out of it and back. Work of a piece keeps the graph's edges; pieces follow each other
 *   on the launch's stream.
 * - A stretch ends where its data would exceed a share of the device.
 * - A graph inside of another is one node, unless its own data exceed that share. Then it is cut as
 *   well.
 * - A piece is a clone of the graph without all other nodes. So the driver keeps whatever it knows
 *   of nodes: attributes, priorities, types of edges.
 * - The program may destroy its graph after it has instantiated it, so a clone is kept.
 * - The program's executable graph stays, and each change is made in it first: its answer is the
 *   driver's. The same change is made in the clone and in the piece. A graph that is exchanged inside
 *   of a node is exchanged in the piece alone, since the driver has no call for the clone: so the
 *   graph is cut before.
 *
 * Not cut: what the driver does not clone (memory and conditional nodes, nodes that kernels
 * change), graphs that kernels launch, drivers without the calls on any kind of node (before CUDA
 * 12.3). Nor is a graph whose change could not be followed; it is launched as a whole for good.
 *
 * Threads: that which holds the graph.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fault_point.h"
#include "preload/alloc/block.h"
#include "preload/args/functions.h"
#include "preload/args/parts.h"
#include "preload/calls/foreign.h"
#include "preload/calls/touch.h"
#include "preload/gpu.h"
#include "preload/graph/graph_exec.h"
#include "preload/graph/graph_order.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/streams/capture.h"

/* Part of the device budget that a piece uses at most; one node may use more. Larger: less moves while
 * kernels run. Smaller: more launches, and each costs some 10 us. */
#define PIECE_SHARE 16u
#define PIECES_MAX  4096u
#define LEVELS_MAX  8u /* graphs inside of each other that are cut */
#define TELL_MAX    16u

/* What --explain shows of graphs, at most TELL_MAX lines. */
static bool
is_told(void)
{
	static _Atomic unsigned told; /* atomic: relaxed: a number, and no more */

	return pl_settings()->explain &&
	       atomic_fetch_add_explicit(&told, 1, memory_order_relaxed) < TELL_MAX;
}

/* ---- what there is for us ---- */

static void
pieces_free(struct pl_graph_exec *exec)
{
	for (size_t i = 0; i < exec->n_pieces; i++) {
		struct pl_graph_run *piece = &exec->pieces[i];

		if (piece->handle)
			PL_REAL(cuGraphExecDestroy)(piece->handle);
		if (piece->graph)
			PL_REAL(cuGraphDestroy)(piece->graph);
		pl_graph_set_fini(&piece->set);
	}
	free(exec->pieces);
	exec->pieces = NULL;
	exec->n_pieces = 0;
}

void
pl_graph_cut_drop(struct pl_graph_exec *exec)
{
	sl_mutex_lock(&pl_graphs.lock);
	pieces_free(exec);
	for (size_t i = 0; i < exec->nodes.n && exec->clone; i++)
		exec->nodes.at[i].node = NULL; /* other nodes get these handles */
	sl_mutex_unlock(&pl_graphs.lock);
	if (exec->clone)
		PL_REAL(cuGraphDestroy)(exec->clone);
	exec->clone = NULL;
}

void
pl_graph_cut_fini(struct pl_graph_exec *exec)
{
	int (*destroy)(struct cu_event *) = pl_real[SL_API_cuEventDestroy_v2];

	pl_graph_cut_drop(exec);
	if (exec->ran)
		destroy(exec->ran);
	exec->ran = NULL;
}

void
pl_graph_uncut(struct pl_graph_exec *exec, const char *why)
{
	if (exec->clone && is_told())
		pl_error("a graph of %zu nodes is launched as a whole, though it uses "
			 "much of "
			 "the device: %s",
			 exec->nodes.n, why);
	pl_graph_cut_drop(exec);
}

/* ---- the clone ---- */

/* The GPU, if all blocks that nodes name, each once, are so much of it; those with parts count as too
 * many. NULL: they are not. */
SL_REQUIRES(pl_graphs.lock)
static const struct pl_gpu *
nodes_fill_gpu(const struct pl_graph_nodes *nodes)
{
	uint64_t stamp = pl_launch_stamp(), bytes = 0;

	for (size_t i = 0; i < nodes->n; i++)
		for (size_t k = 0; k < nodes->at[i].n; k++) {
			struct pl_block *block = pl_block_find(nodes->at[i].uses[k].addr);

			if (!block || atomic_exchange(&block->last_launch, stamp) == stamp)
				continue;
			bytes += block->bytes;
			if (bytes > atomic_load(&block->gpu->device_budget) / PL_LARGE_SHARE)
				return block->gpu;
		}
	return NULL;
}

/* Why it cannot be cut; NULL: it can. */
SL_REQUIRES(pl_graphs.lock)
static const char *
nodes_uncut(const struct pl_graph_nodes *nodes)
{
	if (nodes->all)
		return "not all of it could be read";
	for (size_t i = 0; i < nodes->n; i++)
		if (nodes->at[i].uncut)
			return "it has memory nodes, conditional ones, or nodes that "
			       "kernels "
			       "change";
	return NULL;
}

void
pl_graph_keep(struct pl_graph_exec *exec, struct cu_graph *graph)
{
	const char *why;
	int token;

	if (exec->from_device)
		return;
	sl_mutex_lock(&pl_graphs.lock);
	exec->gpu = nodes_fill_gpu(&exec->nodes);
	why = nodes_uncut(&exec->nodes);
	sl_mutex_unlock(&pl_graphs.lock);
	if (!exec->gpu)
		return;
	token = pl_capture_relax();
	pl_enter();
	if (!why && (!pl_real_has(SL_API_cuGraphGetEdges_v2) ||
		     PL_REAL(cuGraphClone)(&exec->clone, graph))) {
		exec->clone = NULL;
		why = "the driver does not clone it";
	}
	pl_leave();
	pl_capture_restore(token);
	if (!why)
		pl_graph_exec_read(exec, exec->clone);
	else if (is_told())
		pl_error("a graph of %zu nodes cannot be run in pieces: %s",
			 exec->nodes.n, why);
}

struct cu_graph_node *
pl_graph_clone_node(const struct pl_graph_exec *exec, struct cu_graph_node *node)
{
	struct cu_graph_node *mine;

	if (!exec->clone || PL_REAL(cuGraphNodeFindInClone)(&mine, node, exec->clone))
		return NULL;
	return mine;
}

/* ---- where it is cut ---- */

/* A level, on the way through its nodes. */
struct walk {
	const struct pl_graph_level *level;
	size_t *order, at;
};

struct cut {
	struct pl_graph_nodes *nodes;
	struct walk walks[LEVELS_MAX]; /* each inside of the one before */
	size_t n_walks;
	const struct pl_graph_level *from[PIECES_MAX]; /* of each piece: what it is cut out of */
	uint32_t n_pieces;

	/* The piece that is being filled. */
	struct pl_use uses[PL_USES_MAX];
	size_t n_uses, n_nodes;
	uint64_t bytes, stamp;
};

/* The number of a node in its level. */
static size_t
node_number(const struct pl_graph_nodes *nodes, const struct pl_graph_level *level,
	    const struct cu_graph_node *node, size_t guess)
{
	/* Edges come sorted, most often: it is the same one again, or one of the next. */
	for (size_t i = 0; i < level->n; i++) {
		size_t at = (guess + i) % level->n;

		if (nodes->at[level->first + at].node == node)
			return at;
	}
	return PL_GRAPH_NONE;
}

/* The edges of a level, as numbers of its nodes. 0 or -errno; the arrays are the caller's to free. */
static int
edges_read(const struct pl_graph_nodes *nodes, const struct pl_graph_level *level,
	   struct pl_graph_edge **out, size_t *n)
{
	SL_CLEANUP(free) struct cu_graph_node **ends = NULL;
	SL_CLEANUP(free) uint64_t *data = NULL;
	size_t from = 0, to = 0;

	*n = 0;
	if (PL_REAL(cuGraphGetEdges_v2)(level->graph, NULL, NULL, NULL, n))
		return -EIO;
	ends = sl_calloc(2 * *n + 1, sizeof(struct cu_graph_node *));
	data = sl_calloc(*n + 1, sizeof(*data));
	*out = sl_calloc(*n + 1, sizeof(**out));
	if (!ends || !data || !*out)
		return -ENOMEM;
	if (*n && PL_REAL(cuGraphGetEdges_v2)(level->graph, ends, ends + *n, data, n))
		return -EIO;
	for (size_t i = 0; i < *n; i++) {
		from = node_number(nodes, level, ends[i], from);
		to = node_number(nodes, level, ends[*n + i], to);
		if (from == PL_GRAPH_NONE || to == PL_GRAPH_NONE)
			return -EINVAL;
		(*out)[i] = (struct pl_graph_edge){from, to};
	}
	return 0;
}

/* Go into a level. 0 or -errno. */
static int
walk_begin(struct cut *cut, const struct pl_graph_level *level)
{
	SL_CLEANUP(free) struct pl_graph_edge *edges = NULL;
	struct walk *walk = &cut->walks[cut->n_walks];
	size_t n_edges;
	int rc = edges_read(cut->nodes, level, &edges, &n_edges);

	if (rc)
		return rc;
	*walk = (struct walk){.level = level,
			      .order = sl_calloc(level->n + 1, sizeof(*walk->order))};
	if (!walk->order)
		return -ENOMEM;
	cut->n_walks++;
	return pl_graph_order(edges, n_edges, level->n, walk->order);
}

/* Whether the graph is inside of the node, or inside of one that is. */
static bool
level_is_inside(const struct pl_graph_nodes *nodes, const struct pl_graph_level *level,
		size_t node)
{
	while (level->parent != PL_GRAPH_NONE && level->parent != node)
		level = &nodes->levels[level->up];
	return level->parent == node;
}

/* Whether the piece has those bytes already: as a range and as a block, say. */
static bool
use_is_counted(const struct cut *cut, const struct pl_use *use)
{
	for (size_t i = 0; i < cut->n_uses; i++)
		if (use->addr >= cut->uses[i].addr &&
		    use->addr + use->bytes <= cut->uses[i].addr + cut->uses[i].bytes)
			return true;
	return false;
}

static void
node_add_one(struct cut *cut, size_t node)
{
	unsigned flags;
	size_t n;

	cut->nodes->at[node].piece = cut->n_pieces;
	n = pl_graph_node_uses(&cut->nodes->at[node], cut->uses, cut->n_uses, cut->stamp,
			       &flags);
	for (size_t i = cut->n_uses; i < n; i++) {
		if (use_is_counted(cut, &cut->uses[i]))
			continue;
		cut->uses[cut->n_uses] = cut->uses[i];
		cut->bytes += cut->uses[cut->n_uses++].bytes;
	}
}

/* Add a node to the piece, with all that is inside of it. */
static void
node_add(struct cut *cut, size_t node)
{
	const struct pl_graph_nodes *nodes = cut->nodes;

	node_add_one(cut, node);
	for (size_t l = 1; l < nodes->n_levels; l++)
		if (level_is_inside(nodes, &nodes->levels[l], node))
			for (size_t i = 0; i < nodes->levels[l].n; i++)
				node_add_one(cut, nodes->levels[l].first + i);
}

/* The piece is done, if anything is in it. */
static void
piece_close(struct cut *cut)
{
	cut->n_pieces += cut->n_nodes > 0;
	cut->n_nodes = cut->n_uses = 0;
	cut->bytes = 0;
	cut->stamp = pl_launch_stamp();
}

static bool
piece_is_full(const struct cut *cut)
{
	return cut->n_uses == PL_USES_MAX ||
	       (cut->n_uses &&
		cut->bytes > atomic_load(&cut->uses->block->gpu->device_budget) / PIECE_SHARE);
}

/* The next node of a level into a piece. 0 or -errno. */
static int
node_place(struct cut *cut, const struct pl_graph_level *level, size_t node)
{
	const struct pl_graph_level *inside;

	node_add(cut, node);
	if (piece_is_full(cut) && cut->n_nodes) {
		piece_close(cut);
		node_add(cut, node);
	}
	inside = piece_is_full(cut) ? pl_graph_nodes_inside(cut->nodes, node) : NULL;
	if (inside && cut->n_walks < LEVELS_MAX) {
		cut->nodes->at[node].piece = PL_GRAPH_WHOLE; /* it is in none */
		piece_close(cut);
		return walk_begin(cut, inside);
	}
	if (cut->n_pieces == PIECES_MAX)
		return -E2BIG;
	cut->from[cut->n_pieces] = level;
	cut->n_nodes++;
	return 0;
}

/* Give each node its piece. 0 or -errno. */
SL_REQUIRES(pl_graphs.lock)
static int
cut_make(struct cut *cut)
{
	int rc;

	piece_close(cut);
	rc = walk_begin(cut, cut->nodes->levels);
	while (!rc && cut->n_walks) {
		struct walk *walk = &cut->walks[cut->n_walks - 1];

		if (walk->at < walk->level->n) {
			rc = node_place(cut, walk->level,
					walk->level->first + walk->order[walk->at++]);
			continue;
		}
		piece_close(cut);
		free(walk->order);
		cut->n_walks--;
	}
	while (cut->n_walks)
		free(cut->walks[--cut->n_walks].order);
	return rc;
}

/* ---- pieces ---- */

/* Switch off in a piece what is switched off in the graph. CUresult. */
static int
piece_disable(const struct pl_graph_run *piece, const struct pl_graph_node *node)
{
	struct cu_graph_node *mine;
	int result = PL_REAL(cuGraphNodeFindInClone)(&mine, node->node, piece->graph);

	return result ? result : PL_REAL(cuGraphNodeSetEnabled)(piece->handle, mine, 0);
}

/* CUresult. After an error piece has what there is of it. */
static int
piece_make(const struct pl_graph_exec *exec, const struct pl_graph_level *level,
	   uint32_t number, struct pl_graph_run *piece)
{
	const struct pl_graph_node *nodes = exec->nodes.at + level->first;
	struct cu_graph_node *mine;
	int result = PL_REAL(cuGraphClone)(&piece->graph, level->graph);

	if (result)
		piece->graph = NULL;
	for (size_t i = 0; i < level->n && !result; i++) {
		if (nodes[i].piece == number)
			continue;
		result = PL_REAL(cuGraphNodeFindInClone)(&mine, nodes[i].node, piece->graph);
		if (!result)
			result = PL_REAL(cuGraphDestroyNode)(mine);
	}
	if (result)
		return result;
	PL_WITH_ROOM(result, PL_ROOM_BYTES,
		     PL_REAL(cuGraphInstantiateWithFlags)(
			     &piece->handle, piece->graph,
			     exec->flags & CU_INSTANTIATE_NODE_PRIORITY));
	if (result)
		piece->handle = NULL;
	piece->set_is_old = 1;
	for (size_t i = 0; i < level->n && !result; i++)
		if (nodes[i].piece == number && nodes[i].disabled)
			result = piece_disable(piece, &nodes[i]);
	return result;
}

/* NULL, or why it was not cut. */
static const char *
pieces_make(struct pl_graph_exec *exec, const struct cut *cut)
{
	int result = CU_SUCCESS;

	exec->pieces = sl_calloc(cut->n_pieces, sizeof(*exec->pieces));
	if (!exec->pieces)
		return "out of host memory";
	for (uint32_t i = 0; i < cut->n_pieces && !result; i++) {
		result = piece_make(exec, cut->from[i], i, &exec->pieces[i]);
		exec->n_pieces = i + 1;
	}
	return result ? "the driver makes no pieces of it" : NULL;
}

void
pl_graph_cut(struct pl_graph_exec *exec)
{
	SL_CLEANUP(free) struct cut *cut = sl_calloc(1, sizeof(*cut));
	const char *why = "out of host memory";
	int token, rc;

	if (exec->n_pieces || !exec->clone)
		return;
	token = pl_capture_relax();
	pl_enter();
	if (cut) {
		cut->nodes = &exec->nodes;
		sl_mutex_lock(&pl_graphs.lock);
		rc = cut_make(cut);
		sl_mutex_unlock(&pl_graphs.lock);
		why = rc                  ? "its edges could not be read"
		      : cut->n_pieces < 2 ? "one node uses most of it"
					  : pieces_make(exec, cut);
	}
	if (why)
		pl_graph_uncut(exec, why);
	else if (is_told())
		pl_error("a graph of %zu nodes is launched in %zu pieces", exec->nodes.n,
			 exec->n_pieces);
	pl_leave();
	pl_capture_restore(token);
}

/* ---- changes ---- */

/* The node's piece, and the node in there. NULL: it has none. */
static struct pl_graph_run *
piece_find(struct pl_graph_exec *exec, struct cu_graph_node *node, struct cu_graph_node **mine)
{
	uint32_t number = PL_GRAPH_WHOLE;
	size_t at;

	sl_mutex_lock(&pl_graphs.lock);
	at = pl_graph_nodes_find(&exec->nodes, node);
	if (at != PL_GRAPH_NONE)
		number = exec->nodes.at[at].piece;
	sl_mutex_unlock(&pl_graphs.lock);
	if (number >= exec->n_pieces ||
	    PL_REAL(cuGraphNodeFindInClone)(mine, node, exec->pieces[number].graph))
		return NULL;
	return &exec->pieces[number];
}

void
pl_graph_cut_params(struct pl_graph_exec *exec, struct cu_graph_node *node,
		    struct cu_node_params *params)
{
	struct cu_graph_node *mine;
	struct pl_graph_run *piece;

	if (PL_REAL(cuGraphNodeSetParams)(node, params)) {
		pl_graph_uncut(exec,
			       "a node was changed as only an executable graph's can be");
		return;
	}
	if (!exec->n_pieces)
		return;
	piece = piece_find(exec, node, &mine);
	if (piece && !PL_REAL(cuGraphExecNodeSetParams)(piece->handle, mine, params))
		piece->set_is_old = 1;
	else
		pl_graph_uncut(exec, "the change of a node could not be made in a piece");
}

void
pl_graph_cut_enable(struct pl_graph_exec *exec, struct cu_graph_node *node, unsigned enabled)
{
	struct cu_graph_node *mine;
	struct pl_graph_run *piece;

	size_t at;

	sl_mutex_lock(&pl_graphs.lock);
	at = pl_graph_nodes_find(&exec->nodes, node);
	if (at != PL_GRAPH_NONE)
		exec->nodes.at[at].disabled = !enabled;
	exec->whole.set_is_old = 1;
	sl_mutex_unlock(&pl_graphs.lock);
	if (!exec->n_pieces)
		return;
	piece = piece_find(exec, node, &mine);
	if (piece && !PL_REAL(cuGraphNodeSetEnabled)(piece->handle, mine, enabled))
		piece->set_is_old = 1;
	else
		pl_graph_uncut(exec, "a node could not be switched in a piece");
}

bool
pl_graph_cut_child(struct pl_graph_exec *exec, struct cu_graph_node *node,
		   struct cu_graph *child)
{
	struct cu_graph_node *mine;
	struct pl_graph_run *piece;
	size_t number;
	bool known;

	pl_graph_cut(exec);
	if (!exec->n_pieces)
		return false;
	sl_mutex_lock(&pl_graphs.lock);
	number = pl_graph_nodes_find(&exec->nodes, node);
	known = number != PL_GRAPH_NONE && exec->nodes.at[number].piece != PL_GRAPH_WHOLE &&
		pl_graph_nodes_exchange(&exec->nodes, number, child);
	exec->whole.set_is_old = 1;
	sl_mutex_unlock(&pl_graphs.lock);
	piece = known ? piece_find(exec, node, &mine) : NULL;
	if (piece &&
	    !PL_REAL(cuGraphExecChildGraphNodeSetParams)(piece->handle, mine, child)) {
		piece->set_is_old = 1;
		return true;
	}
	pl_graph_uncut(exec, "a graph inside of it was exchanged");
	return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs: their table and launches (graph.c), what a launch uses (graph_set.c), the
 * pieces of a graph that is too large (graph_cut.c), changes of nodes (graph_change.c).
 *
 * Threads: any. pl_graphs.lock is held for the table, the nodes and the sets; not across calls of
 * the driver, except those that read a graph. A graph that can be cut is also held by one thread
 * at a time (pl_graph_hold()), from its first piece to its last.
 */
#ifndef SL_PRELOAD_GRAPH_EXEC_H
#define SL_PRELOAD_GRAPH_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "preload/api/api_graph.h"
#include "preload/graph/graphs.h"
#include "preload/scope.h"

#define PL_GRAPH_WHOLE UINT32_MAX /* as the number of a piece: all nodes */

/* What a launch goes through: of each node once. */
struct pl_graph_set {
	uint64_t *named; /* addresses, sorted, each once */
	size_t n_named;
	struct pl_graph_use *ranges; /* sorted; those that touch each other are one */
	size_t n_ranges;
	void **functions;
	size_t n_functions;
	int all; /* what a node uses is not known */
};

/* What the driver launches: an executable graph of the program's, or a piece of it. */
struct pl_graph_run {
	struct cu_graph_exec *handle;
	struct cu_graph *graph; /* a piece was made of it */
	struct pl_graph_set set;
	int set_is_old; /* nodes have changed since */
	uint64_t launches;
};

struct pl_graph_exec {
	struct pl_graph_exec *next; /* of the bucket */
	struct pl_graph_run whole;  /* as the program has it */
	struct pl_graph_nodes nodes; /* of the clone, if there is one, else of the program's graph */
	int from_device;             /* kernels may launch it */
	uint64_t flags;              /* that it was instantiated with */

	/* ---- of a graph that is held ---- */

	struct cu_graph *clone; /* what pieces are made of; NULL: it is launched as a whole */
	const struct pl_gpu *gpu;    /* with a clone: whose memory its nodes use */
	struct pl_graph_run *pieces; /* malloc'ed; they run one after the other */
	size_t n_pieces;             /* 0: not cut yet */
	struct cu_event *ran;        /* behind the last launch; NULL: none was held */

	struct sl_mutex running;
	unsigned refs; /* pl_graphs.lock: of the table, and of those who hold it */
};

struct pl_graphs {
	struct sl_mutex lock;
};

extern struct pl_graphs pl_graphs;

/* ---- graph.c ---- */

/* NULL: it was instantiated unseen. */
struct pl_graph_exec *pl_graph_find(const struct cu_graph_exec *handle)
	SL_REQUIRES(pl_graphs.lock);

/*
 * A graph that can be cut, or has been. NULL: no such one. Waits for the thread that holds it. It is
 * there until pl_graph_release(), also if the program destroys it.
 */
struct pl_graph_exec *pl_graph_hold(const struct cu_graph_exec *handle);
void pl_graph_release(struct pl_graph_exec *exec);

/* An executable graph has been made of this one, with these flags. Without memory it is not known, and uses
 * everything. */
void pl_graph_exec_note(struct cu_graph_exec *handle, struct cu_graph *graph, uint64_t flags);
/* Read the nodes of an executable graph anew. Held, or not in the table yet. */
void pl_graph_exec_read(struct pl_graph_exec *exec, struct cu_graph *graph);
/* The blocks of a graph that kernels may launch are held; what cannot be is said. Blocks on copies. */
void pl_graph_exec_pin(const struct cu_graph_exec *handle);

/* Whether a launch of that piece, or of the whole, runs the node. */
static inline bool
pl_graph_node_is_in(const struct pl_graph_node *node, uint32_t piece)
{
	return !node->disabled && (piece == PL_GRAPH_WHOLE || node->piece == piece);
}

/* ---- graph_set.c ---- */

void pl_graph_set_fini(struct pl_graph_set *set);

/*
 * What a launch of this run uses now. uses has room for PL_USES_MAX. *flags: enum pl_scope_flag. Also counts the
 * launch. piece: of the run. Returns their number.
 */
size_t pl_graph_run_uses(struct pl_graph_exec *exec, struct pl_graph_run *run,
			 uint32_t piece, struct pl_use *uses, unsigned *flags)
	SL_REQUIRES(pl_graphs.lock);

/* Add what one node uses to uses, as often as it was not added with this stamp. Returns their new number. */
size_t pl_graph_node_uses(const struct pl_graph_node *node, struct pl_use *uses, size_t n,
			  uint64_t stamp, unsigned *flags);

/* ---- graph_cut.c: of a held graph ---- */

/* A graph has been read of which pieces may be wanted: keep a clone of it, and read that instead. Not in the
 * table yet, or held. */
void pl_graph_keep(struct pl_graph_exec *exec, struct cu_graph *graph);
/* Cut it, unless that has been done. Driver calls. Without pieces it is launched as a whole for good. */
void pl_graph_cut(struct pl_graph_exec *exec);
/* It cannot be run in pieces from now on: why is for --explain. */
void pl_graph_uncut(struct pl_graph_exec *exec, const char *why);
/* The node of the clone for one of the program's; NULL: it has none. */
struct cu_graph_node *pl_graph_clone_node(const struct pl_graph_exec *exec,
					  struct cu_graph_node *node);
/* A node of the clone has these parameters now: give them to its piece. */
void pl_graph_cut_params(struct pl_graph_exec *exec, struct cu_graph_node *node,
			 struct cu_node_params *params);
/* The graph inside of a node of the clone has been exchanged. false: the pieces do not have that, and are
 * gone, and its nodes may not be known. */
bool pl_graph_cut_child(struct pl_graph_exec *exec, struct cu_graph_node *node,
			struct cu_graph *child) SL_MUST_CHECK;
void pl_graph_cut_enable(struct pl_graph_exec *exec, struct cu_graph_node *node,
			 unsigned enabled);
/* The clone and the pieces go; fini: and the rest that the driver has of it for us. */
void pl_graph_cut_drop(struct pl_graph_exec *exec);
void pl_graph_cut_fini(struct pl_graph_exec *exec);

#endif

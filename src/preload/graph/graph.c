/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs. The data of its nodes are read when a graph is instantiated, and again
 * where nodes are changed (the whole of it by an update: graph_change.c). A launch opens a scope
 * over the blocks that lie at those addresses then. Addresses never change, so nothing of the
 * graph itself does. Graphs that are not executable are read when they are instantiated. A graph
 * that was instantiated unseen uses everything.
 *
 * A graph that uses more than half of the device is launched in pieces, each with a scope of its
 * own (graph_cut.c). Those of one launch follow each other on its stream. Launches of the same
 * graph follow each other on any streams, as the driver has it: by an event behind the last piece.
 *
 * Running kernels may launch a graph, unseen. Its blocks, as they are when it is made or
 * changed, stay on the device until they are freed.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/fault_point.h"
#include "base/lock.h"
#include "preload/alloc/block.h"
#include "preload/api/api_stream.h"
#include "preload/args/functions.h"
#include "preload/args/parts.h"
#include "preload/calls/foreign.h"
#include "preload/calls/touch.h"
#include "preload/gpu.h"
#include "preload/graph/graph_exec.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "preload/report/faults.h"
#include "preload/report/timings.h"
#include "preload/streams/capture.h"
#include "preload/streams/stream.h"

#define BUCKETS   256u
#define PEEKS_MAX 32u /* nodes peeked into at one launch */

struct pl_graphs pl_graphs = {.lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_GRAPHS)};
static struct pl_graph_exec *buckets[BUCKETS]; /* pl_graphs.lock */

/* ---- the table ---- */

static struct pl_graph_exec **
graph_bucket(const struct cu_graph_exec *handle)
{
	uintptr_t key = (uintptr_t)handle;

	return &buckets[(key ^ key >> 5 ^ key >> 13) / 16 % BUCKETS];
}

struct pl_graph_exec *
pl_graph_find(const struct cu_graph_exec *handle)
{
	struct pl_graph_exec *exec = *graph_bucket(handle);

	while (exec && exec->whole.handle != handle)
		exec = exec->next;
	return exec;
}

/* One reference less. */
static void
exec_put(struct pl_graph_exec *exec)
{
	unsigned refs;

	sl_mutex_lock(&pl_graphs.lock);
	refs = --exec->refs;
	sl_mutex_unlock(&pl_graphs.lock);
	if (refs)
		return;
	pl_graph_cut_fini(exec);
	pl_graph_nodes_fini(&exec->nodes);
	pl_graph_set_fini(&exec->whole.set);
	sl_mutex_fini(&exec->running);
	free(exec);
}

static void
exec_forget(const struct cu_graph_exec *handle)
{
	struct pl_graph_exec **at = graph_bucket(handle), *exec;

	sl_mutex_lock(&pl_graphs.lock);
	while (*at && (*at)->whole.handle != handle)
		at = &(*at)->next;
	exec = *at;
	if (exec)
		*at = exec->next;
	sl_mutex_unlock(&pl_graphs.lock);
	if (exec)
		exec_put(exec);
}

/* clang cannot be told of a lock that comes with a pointer. */
SL_NO_LOCK_CHECK struct pl_graph_exec *
pl_graph_hold(const struct cu_graph_exec *handle)
{
	struct pl_graph_exec *exec;

	sl_mutex_lock(&pl_graphs.lock);
	exec = pl_graph_find(handle);
	if (exec && !exec->clone && !exec->ran)
		exec = NULL;
	if (exec)
		exec->refs++;
	sl_mutex_unlock(&pl_graphs.lock);
	if (exec)
		sl_mutex_lock(&exec->running);
	return exec;
}

SL_NO_LOCK_CHECK void
pl_graph_release(struct pl_graph_exec *exec)
{
	sl_mutex_unlock(&exec->running);
	exec_put(exec);
}

/* All addresses that nodes name. NULL: no memory. */
SL_REQUIRES(pl_graphs.lock)
static uint64_t *
exec_addresses(const struct pl_graph_exec *exec, size_t *n_out)
{
	size_t n = 0, at = 0;
	uint64_t *addrs;

	for (size_t i = 0; i < exec->nodes.n; i++)
		n += exec->nodes.at[i].n;
	addrs = sl_malloc((n + 1) * sizeof(*addrs));
	for (size_t i = 0; addrs && i < exec->nodes.n; i++)
		for (size_t k = 0; k < exec->nodes.at[i].n; k++)
			addrs[at++] = exec->nodes.at[i].uses[k].addr;
	*n_out = at;
	return addrs;
}

void
pl_graph_exec_pin(const struct cu_graph_exec *handle)
{
	struct pl_graph_exec *exec;
	uint64_t *addrs = NULL;
	size_t n = 0;

	sl_mutex_lock(&pl_graphs.lock);
	exec = pl_graph_find(handle);
	if (exec && exec->from_device) {
		addrs = exec_addresses(exec, &n);
		if (!addrs)
			pl_error("no memory to hold what a graph touches that kernels "
				 "launch");
	}
	sl_mutex_unlock(&pl_graphs.lock);
	for (size_t i = 0; addrs && i < n; i++) {
		struct pl_block *block = pl_block_find(addrs[i]);

		if (block)
			sl_ignore(pl_block_pin(block)); /* it has said so */
	}
	free(addrs);
}

void
pl_graph_exec_read(struct pl_graph_exec *exec, struct cu_graph *graph)
{
	struct pl_graph_nodes nodes = {0}, before;
	int token = pl_capture_relax();

	pl_enter();
	pl_graph_nodes_read(&nodes, graph);
	pl_leave();
	pl_capture_restore(token);
	sl_mutex_lock(&pl_graphs.lock);
	before = exec->nodes;
	exec->nodes = nodes;
	exec->whole.set_is_old = 1;
	sl_mutex_unlock(&pl_graphs.lock);
	pl_graph_nodes_fini(&before);
}

void
pl_graph_exec_note(struct cu_graph_exec *handle, struct cu_graph *graph, uint64_t flags)
{
	struct pl_graph_exec *exec = sl_calloc(1, sizeof(*exec));

	exec_forget(handle);
	if (!exec)
		return;
	exec->whole.handle = handle;
	exec->flags = flags;
	exec->from_device = !!(flags & CU_INSTANTIATE_DEVICE_LAUNCH);
	exec->refs = 1;
	sl_mutex_init(&exec->running, SL_RANK_PL_RUNNING);
	pl_graph_exec_read(exec, graph);
	pl_graph_keep(exec, graph);
	sl_mutex_lock(&pl_graphs.lock);
	exec->next = *graph_bucket(handle);
	*graph_bucket(handle) = exec;
	sl_mutex_unlock(&pl_graphs.lock);
	if (exec->from_device)
		pl_graph_exec_pin(handle);
}

/* ---- launches ---- */

/* What is to be peeked into: arguments of one node. */
struct graph_peek {
	struct pl_function *function;
	uint64_t at[PL_WORDS_MAX];
	size_t n;
};

/* A launch of a graph, or of a piece. */
struct graph_launch {
	__typeof__(&cuGraphLaunch) real;
	enum pl_default_stream flavour;
	struct cu_graph_exec *exec; /* the program's */
	struct cu_stream *stream;
	uint32_t piece;
	int refused; /* its scopes could not be opened */
};

/* NULL: the driver's graph is not known. */
SL_REQUIRES(pl_graphs.lock)
static struct pl_graph_run *
graph_run_of(const struct graph_launch *l, struct pl_graph_exec **exec)
{
	*exec = pl_graph_find(l->exec);
	if (!*exec || l->piece == PL_GRAPH_WHOLE)
		return *exec ? &(*exec)->whole : NULL;
	return l->piece < (*exec)->n_pieces ? &(*exec)->pieces[l->piece] : NULL;
}

/* Nodes with functions of which not enough is known, or which are due again at this launch of the graph; at
 * most PEEKS_MAX at a time. */
static size_t
exec_peeks(const struct graph_launch *l, uint64_t number, struct graph_peek *peeks)
{
	struct pl_graph_exec *exec;
	size_t n = 0;

	sl_mutex_lock(&pl_graphs.lock);
	exec = pl_graph_find(l->exec);
	for (size_t i = 0; exec && i < exec->nodes.n && n < PEEKS_MAX; i++) {
		const struct pl_graph_node *node = &exec->nodes.at[i];
		struct pl_function *f = node->function && pl_graph_node_is_in(node, l->piece)
						? pl_function_find(node->function)
						: NULL;

		if (!f || !pl_function_is_due(f, number))
			continue;
		peeks[n].function = f;
		peeks[n].n = node->n_at;
		for (size_t k = 0; k < node->n_at; k++)
			peeks[n].at[k] = node->uses[k].addr;
		n++;
	}
	sl_mutex_unlock(&pl_graphs.lock);
	return n;
}

/* As before a kernel's launch: behind what its scope brings. */
static void
graph_peek(const struct graph_launch *l, uint64_t number)
{
	struct graph_peek peeks[PEEKS_MAX];
	size_t n;

	if (pl_settings()->arguments != PL_ARGUMENTS_LEARN ||
	    pl_stream_captures(l->stream, l->flavour))
		return;
	n = exec_peeks(l, number, peeks);
	for (size_t i = 0; i < n; i++)
		if (pl_function_is_due(peeks[i].function, number))
			pl_pointer_scan(peeks[i].function, l->stream, l->flavour,
					peeks[i].at, peeks[i].n);
}

/* What a launch touches now, its number, and what the driver is to launch. */
static size_t
graph_launch_uses(const struct graph_launch *l, struct pl_use *uses, unsigned *flags,
		  uint64_t *number, struct cu_graph_exec **handle)
{
	struct pl_graph_exec *exec;
	struct pl_graph_run *run;
	size_t n = 0;

	*flags = PL_SCOPE_ALL;
	*number = 0;
	*handle = l->exec;
	sl_mutex_lock(&pl_graphs.lock);
	run = graph_run_of(l, &exec);
	if (run) {
		n = pl_graph_run_uses(exec, run, l->piece, uses, flags);
		*number = run->launches;
		*handle = run->handle;
	}
	sl_mutex_unlock(&pl_graphs.lock);
	return n;
}

/* With its scopes. */
static int
launch_scoped(struct graph_launch *l)
{
	struct pl_use uses[PL_USES_MAX];
	struct pl_peers relays = {.n = 0};
	struct cu_graph_exec *handle;
	struct pl_scope scope;
	uint64_t number;
	unsigned flags;
	size_t n, here;
	int result;

	pl_pointer_scans_look();
	n = graph_launch_uses(l, uses, &flags, &number, &handle);
	here = pl_peers_part(uses, n);
	scope.what = (uintptr_t)handle;
	scope.shape = 0;
	scope.name = "graph";
	scope.copies = 0;
	result = pl_scope_begin(&scope, l->stream, l->flavour, uses, here, flags);
	if (!result && here < n)
		result = pl_peers_begin(&relays, l->stream, l->flavour, uses + here,
					n - here);
	l->refused = result != CU_SUCCESS;
	if (!result && (flags || !(number & (number - 1))))
		graph_peek(l, number);
	if (!result)
		result = pl_fault_seen(l->real(handle, l->stream));
	pl_peers_end(&relays, l->stream, l->flavour);
	pl_scope_end(&scope);
	return result;
}

/* While all data fit. */
static int
launch_graph_at_ease(struct graph_launch *l)
{
	struct pl_gpu *gpu = pl_gpu_here();
	struct pl_scope scope = {.gpu = NULL};
	int result;

	if (gpu && gpu->share && !pl_scope_at_ease(&scope, gpu))
		return launch_scoped(l);
	result = l->real(l->exec, l->stream);
	pl_scope_end(&scope);
	return result;
}

static int
launch_run_once(struct graph_launch *l)
{
	int tries = 0, result;

	/* Room is made without scopes: what they hold on the device would be waited for. */
	do
		result = pl_watching() || pl_timed() ? launch_scoped(l)
						     : launch_graph_at_ease(l);
	while (!l->refused && pl_room_made(result, &tries, PL_ROOM_BYTES));
	return result;
}

/* Whether what the graph uses of the device is so much that it is to be cut. Counts no launch. */
static bool
graph_is_large(struct pl_graph_exec *exec)
{
	struct pl_use uses[PL_USES_MAX];
	uint64_t bytes = 0, budget;
	unsigned flags;
	size_t n;

	sl_mutex_lock(&pl_graphs.lock);
	n = pl_graph_run_uses(exec, &exec->whole, PL_GRAPH_WHOLE, uses, &flags);
	exec->whole.launches--;
	sl_mutex_unlock(&pl_graphs.lock);
	n = pl_peers_part(uses, n);
	budget = atomic_load(&exec->gpu->device_budget);
	for (size_t i = 0; i < n; i++)
		bytes += uses[i].bytes;
	return n == PL_USES_MAX || bytes > budget / PL_LARGE_SHARE;
}

/* Launches of one graph follow each other. CUresult. */
static int
ran_wait(const struct pl_graph_exec *exec, struct cu_stream *stream)
{
	return exec->ran ? PL_REAL(cuStreamWaitEvent)(stream, exec->ran, 0) : CU_SUCCESS;
}

/* Where the event cannot be had the stream is waited for: that keeps the order as well. */
static int
ran_record(struct pl_graph_exec *exec, struct cu_stream *stream)
{
	int (*create)(struct cu_event **, unsigned) = pl_real[SL_API_cuEventCreate];
	int (*wait)(struct cu_stream *) = pl_real[SL_API_cuStreamSynchronize];
	int token = pl_capture_relax(), result;

	if (!exec->ran && create(&exec->ran, CU_EVENT_UNTIMED))
		exec->ran = NULL;
	result = exec->ran ? PL_REAL(cuEventRecord)(exec->ran, stream) : CU_ERROR_UNKNOWN;
	if (result)
		result = wait(stream);
	pl_capture_restore(token);
	return result;
}

/* A graph that is held: in pieces, once it is too large as a whole. */
static int
launch_held(struct graph_launch *l, struct pl_graph_exec *exec)
{
	struct cu_stream *stream = pl_stream_handle(l->stream, l->flavour);
	int result = ran_wait(exec, stream), recorded, pressed;

	if (result)
		return result;
	pressed = exec->clone && atomic_load(&exec->gpu->pressure) == PL_OVERSUBSCRIBED;
	if (pressed && !exec->n_pieces && graph_is_large(exec))
		pl_graph_cut(exec);
	if (!pressed || !exec->n_pieces)
		result = launch_run_once(l);
	else
		PL_COUNT(graphs_cut, 1);
	for (size_t i = 0; i < exec->n_pieces && pressed && !result; i++) {
		l->piece = (uint32_t)i;
		result = launch_run_once(l);
		PL_COUNT(graph_pieces, 1);
	}
	recorded = ran_record(exec, stream);
	return result ? result : recorded;
}

static int
graph_launch(__typeof__(&cuGraphLaunch) real, enum pl_default_stream flavour,
	     struct cu_graph_exec *handle, struct cu_stream *stream)
{
	struct graph_launch launch = {real, flavour, handle, stream, PL_GRAPH_WHOLE, 0};
	struct pl_graph_exec *exec = NULL;
	struct pl_gpu *gpu;
	int result;

	if (!pl_active())
		return real(handle, stream);
	PL_COUNT(graph_launches, 1);
	if (pl_watching()) {
		/* What is captured becomes a node, and is cut where that graph is launched. */
		if (!pl_stream_captures(stream, flavour))
			exec = pl_graph_hold(handle);
	} else {
		gpu = pl_gpu_here();
		if (gpu)
			(void)pl_stream_bit(gpu, stream, flavour);
	}
	if (!exec)
		return launch_run_once(&launch);
	result = launch_held(&launch, exec);
	pl_graph_release(exec);
	return result;
}

/* clang-format off */
PL_DEFINE_BOTH(cuGraphLaunch, ptsz, graph_launch,
	       (struct cu_graph_exec *exec, struct cu_stream *stream), exec, stream)
/* clang-format on */

/* Uploading moves the graph's own data; what its nodes touch is touched by the launch. */
static int
graph_upload(__typeof__(&cuGraphUpload) real, enum pl_default_stream flavour,
	     struct cu_graph_exec *exec, struct cu_stream *stream)
{
	int result;

	(void)flavour;
	PL_WITH_ROOM(result, PL_ROOM_BYTES, real(exec, stream));
	return result;
}

/* clang-format off */
PL_DEFINE_BOTH(cuGraphUpload, ptsz, graph_upload,
	       (struct cu_graph_exec *exec, struct cu_stream *stream), exec, stream)
/* clang-format on */

/* ---- instantiating ---- */

static int
graph_instantiated(int result, struct cu_graph_exec *const *exec, struct cu_graph *graph,
		   unsigned long long flags)
{
	if (!result && pl_active())
		pl_graph_exec_note(*exec, graph, flags);
	return result;
}

/* The first and the second ABI: the same arguments. */
static int
graph_instantiate(__typeof__(&cuGraphInstantiate) real, struct cu_graph_exec **exec,
		  struct cu_graph *graph, struct cu_graph_node **failed, char *log,
		  size_t log_bytes)
{
	int result;

	PL_WITH_ROOM(result, PL_ROOM_BYTES, real(exec, graph, failed, log, log_bytes));
	return graph_instantiated(result, exec, graph, 0);
}

int
cuGraphInstantiate(struct cu_graph_exec **exec, struct cu_graph *graph,
		   struct cu_graph_node **failed, char *log, size_t log_bytes)
{
	return graph_instantiate(PL_REAL(cuGraphInstantiate), exec, graph, failed, log,
				 log_bytes);
}

int
cuGraphInstantiate_v2(struct cu_graph_exec **exec, struct cu_graph *graph,
		      struct cu_graph_node **failed, char *log, size_t log_bytes)
{
	return graph_instantiate(PL_REAL(cuGraphInstantiate_v2), exec, graph, failed, log,
				 log_bytes);
}

int
cuGraphInstantiateWithFlags(struct cu_graph_exec **exec, struct cu_graph *graph,
			    unsigned long long flags)
{
	int result;

	PL_WITH_ROOM(result, PL_ROOM_BYTES,
		     PL_REAL(cuGraphInstantiateWithFlags)(exec, graph, flags));
	return graph_instantiated(result, exec, graph, flags);
}

static int
graph_instantiate_params(__typeof__(&cuGraphInstantiateWithParams) real,
			 enum pl_default_stream flavour, struct cu_graph_exec **exec,
			 struct cu_graph *graph, struct cu_instantiate_params *params)
{
	int result;

	(void)flavour;
	PL_WITH_ROOM(result, PL_ROOM_BYTES, real(exec, graph, params));
	return graph_instantiated(result, exec, graph, result ? 0 : params->flags);
}

/* clang-format off */
PL_DEFINE_BOTH(cuGraphInstantiateWithParams, ptsz, graph_instantiate_params,
	       (struct cu_graph_exec **exec, struct cu_graph *graph,
		struct cu_instantiate_params *params),
	       exec, graph, params)
/* clang-format on */

int
cuGraphExecDestroy(struct cu_graph_exec *exec)
{
	if (pl_active())
		exec_forget(exec); /* before the handle can come again */
	return PL_REAL(cuGraphExecDestroy)(exec);
}

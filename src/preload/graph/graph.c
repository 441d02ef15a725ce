/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs. The data of its nodes are read when a graph is instantiated, and again
 * where nodes are changed (the whole of it by an update). A launch opens a scope over the blocks
 * that lie at those addresses then; they may have been freed and allocated anew. Addresses never
 * change, so nothing of the graph itself does. Graphs that are not executable are read when they
 * are instantiated.
 *
 * The kept ranges may be too many (nodes that an update replaced in another's order), never too
 * few. A graph that was instantiated unseen uses everything. So does one with more uses than a
 * scope takes: the blocks beyond are mapped zero-copy.
 *
 * Running kernels may launch a graph, unseen. Its blocks, as they are when it is made or
 * changed, stay on the device until they are freed.
 *
 * Threads: any. lock is held for the table and its entries; not across calls of the driver,
 * except those that read a graph.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/fault_point.h"
#include "base/lock.h"
#include "preload/alloc/block.h"
#include "preload/args/functions.h"
#include "preload/args/pointer_table.h"
#include "preload/calls/foreign.h"
#include "preload/calls/touch.h"
#include "preload/gpu.h"
#include "preload/graph/graphs.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "preload/report/faults.h"
#include "preload/scope.h"
#include "preload/streams/capture.h"
#include "preload/streams/stream.h"

#define BUCKETS   256u
#define PEEKS_MAX 32u /* nodes peeked into at one launch */

/* What a launch goes through: of each node once. */
struct graph_set {
	uint64_t *named; /* addresses, sorted, each once */
	size_t n_named;
	struct pl_graph_use *ranges; /* sorted; those that touch each other are one */
	size_t n_ranges;
	void **functions;
	size_t n_functions;
};

struct graph_exec {
	struct cu_graph_exec *handle;
	struct graph_exec *next; /* of the bucket */
	struct pl_graph_nodes nodes;
	struct graph_set set;
	int set_is_old;  /* nodes have changed since */
	int from_device; /* kernels may launch it */
	uint64_t launches;
};

static struct sl_mutex lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_GRAPHS);
static struct graph_exec *buckets[BUCKETS]; /* lock */

/* ---- the set of a graph ---- */

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

static void
set_fini(struct graph_set *set)
{
	free(set->named);
	free(set->ranges);
	free(set->functions);
	*set = (struct graph_set){0};
}

/* 0: no memory. */
static int
set_make(struct graph_set *set, const struct pl_graph_nodes *nodes)
{
	size_t n = 0;

	set_fini(set);
	for (size_t i = 0; i < nodes->n; i++)
		n += nodes->at[i].n;
	set->named = sl_malloc((n + 1) * sizeof(*set->named));
	set->ranges = sl_malloc((n + 1) * sizeof(*set->ranges));
	set->functions = sl_malloc((nodes->n + 1) * sizeof(void *));
	if (!set->named || !set->ranges || !set->functions)
		return 0;
	for (size_t i = 0; i < nodes->n; i++) {
		const struct pl_graph_node *node = &nodes->at[i];

		if (node->function)
			set->functions[set->n_functions++] = node->function;
		for (size_t k = 0; k < node->n; k++) {
			if (node->uses[k].how == PL_GRAPH_NAMED)
				set->named[set->n_named++] = node->uses[k].addr;
			else
				set->ranges[set->n_ranges++] = node->uses[k];
		}
	}
	set->n_named = words_unique(set->named, set->n_named);
	set->n_ranges = ranges_merge(set->ranges, set->n_ranges);
	_Static_assert(sizeof(void *) == sizeof(uint64_t), "sorted as words");
	set->n_functions = words_unique((uint64_t *)set->functions, set->n_functions);
	return 1;
}

/* ---- the table ---- */

static struct graph_exec **
graph_bucket(const struct cu_graph_exec *handle)
{
	uintptr_t key = (uintptr_t)handle;

	return &buckets[(key ^ key >> 5 ^ key >> 13) / 16 % BUCKETS];
}

SL_REQUIRES(lock) static struct graph_exec *exec_find(const struct cu_graph_exec *handle)
{
	struct graph_exec *exec = *graph_bucket(handle);

	while (exec && exec->handle != handle)
		exec = exec->next;
	return exec;
}

static void
exec_free(struct graph_exec *exec)
{
	if (!exec)
		return;
	pl_graph_nodes_fini(&exec->nodes);
	set_fini(&exec->set);
	free(exec);
}

static void
exec_forget(const struct cu_graph_exec *handle)
{
	struct graph_exec **at = graph_bucket(handle), *exec;

	sl_mutex_lock(&lock);
	while (*at && (*at)->handle != handle)
		at = &(*at)->next;
	exec = *at;
	if (exec)
		*at = exec->next;
	sl_mutex_unlock(&lock);
	exec_free(exec);
}

/* All addresses that nodes name. NULL: no memory. */
SL_REQUIRES(lock)
static uint64_t *
exec_addresses(const struct graph_exec *exec, size_t *n_out)
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

/* The blocks of a graph that kernels may launch are held; what cannot be is said. Blocks on copies. */
static void
exec_hold(const struct cu_graph_exec *handle)
{
	struct graph_exec *exec;
	uint64_t *addrs = NULL;
	size_t n = 0;

	sl_mutex_lock(&lock);
	exec = exec_find(handle);
	if (exec && exec->from_device) {
		addrs = exec_addresses(exec, &n);
		if (!addrs)
			pl_error("no memory to hold what a graph touches that kernels "
				 "launch");
	}
	sl_mutex_unlock(&lock);
	for (size_t i = 0; addrs && i < n; i++) {
		struct pl_block *block = pl_block_find(addrs[i]);

		if (block)
			sl_ignore(pl_block_pin(block)); /* it has said so */
	}
	free(addrs);
}

/* An executable graph has been made of this one. Without memory it is not known, and touches all. */
static void
exec_note(struct cu_graph_exec *handle, struct cu_graph *graph, int from_device)
{
	struct graph_exec *exec = sl_calloc(1, sizeof(*exec));
	int token;

	exec_forget(handle);
	if (!exec)
		return;
	exec->handle = handle;
	exec->from_device = from_device;
	exec->set_is_old = 1;
	token = pl_capture_relax();
	pl_enter();
	pl_graph_nodes_read(&exec->nodes, graph);
	pl_leave();
	pl_capture_restore(token);
	sl_mutex_lock(&lock);
	exec->next = *graph_bucket(handle);
	*graph_bucket(handle) = exec;
	sl_mutex_unlock(&lock);
	if (from_device)
		exec_hold(handle);
}

/* ---- launches ---- */

static bool
block_is_named(const struct pl_block *block, uint64_t stamp)
{
	return atomic_load(&block->last_launch) == stamp;
}

/* What the functions are known to touch beyond their arguments, by now. */
static unsigned
functions_flags(const struct graph_set *set, struct pl_use *uses)
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

/* What is to be peeked into: arguments of one node. */
struct graph_peek {
	struct pl_function *function;
	uint64_t at[PL_WORDS_MAX];
	size_t n;
};

/* Nodes with functions of which not enough is known, or which are due again at this launch of the graph; at
 * most PEEKS_MAX at a time. */
static size_t
exec_peeks(struct cu_graph_exec *handle, uint64_t number, struct graph_peek *peeks)
{
	struct graph_exec *exec;
	size_t n = 0;

	sl_mutex_lock(&lock);
	exec = exec_find(handle);
	for (size_t i = 0; exec && i < exec->nodes.n && n < PEEKS_MAX; i++) {
		const struct pl_graph_node *node = &exec->nodes.at[i];
		struct pl_function *f = node->function ? pl_function_find(node->function)
						       : NULL;

		if (!f || !pl_function_is_due(f, number))
			continue;
		peeks[n].function = f;
		peeks[n].n = node->n_at;
		for (size_t k = 0; k < node->n_at; k++)
			peeks[n].at[k] = node->uses[k].addr;
		n++;
	}
	sl_mutex_unlock(&lock);
	return n;
}

/* As before a kernel's launch: behind what its scope brings. */
static void
graph_peek(struct cu_graph_exec *handle, uint64_t number, struct cu_stream *stream,
	   enum pl_default_stream flavour)
{
	struct graph_peek peeks[PEEKS_MAX];
	size_t n;

	if (pl_settings()->arguments != PL_ARGUMENTS_LEARN ||
	    pl_stream_captures(stream, flavour))
		return;
	n = exec_peeks(handle, number, peeks);
	for (size_t i = 0; i < n; i++)
		if (pl_function_is_due(peeks[i].function, number))
			pl_pointer_scan(peeks[i].function, stream, flavour, peeks[i].at,
					peeks[i].n);
}

/* What a launch touches now, and its number. */
static size_t
exec_uses(struct cu_graph_exec *handle, struct pl_use *uses, unsigned *flags, uint64_t *number)
{
	struct graph_exec *exec;
	uint64_t stamp;
	size_t n = 0;

	*flags = PL_SCOPE_ALL;
	*number = 0;
	sl_mutex_lock(&lock);
	exec = exec_find(handle);
	if (!exec)
		goto done;
	*number = ++exec->launches;
	if (exec->set_is_old && !set_make(&exec->set, &exec->nodes))
		goto done;
	exec->set_is_old = 0;
	*flags = exec->nodes.all ? PL_SCOPE_ALL : 0;
	for (size_t i = 0; i < exec->nodes.n && !*flags; i++)
		if (exec->nodes.at[i].all)
			*flags = PL_SCOPE_ALL;
	*flags |= functions_flags(&exec->set, uses);
	stamp = pl_launch_stamp();
	for (size_t i = 0; i < exec->set.n_named && n < PL_USES_MAX; i++)
		n = pl_word_use(exec->set.named[i], uses, n, stamp);
	n = pl_pointer_table_globals(uses, n, stamp);
	if (n == PL_USES_MAX)
		*flags |= PL_SCOPE_ALL;
	for (size_t i = 0; i < exec->set.n_ranges; i++)
		n = range_use(&exec->set.ranges[i], uses, n, stamp, flags);
done:
	sl_mutex_unlock(&lock);
	return n;
}

/* With its scopes; *refused: they could not be opened. */
static int
graph_launch_scoped(__typeof__(&cuGraphLaunch) real, enum pl_default_stream flavour,
		    struct cu_graph_exec *exec, struct cu_stream *stream, int *refused)
{
	struct pl_use uses[PL_USES_MAX];
	struct pl_peers relays = {.n = 0};
	struct pl_scope scope;
	uint64_t number;
	unsigned flags;
	size_t n, here;
	int result;

	pl_pointer_scans_look();
	n = exec_uses(exec, uses, &flags, &number);
	here = pl_peers_part(uses, n);
	scope.what = (uintptr_t)exec;
	scope.name = "graph";
	scope.copies = 0;
	result = pl_scope_begin(&scope, stream, flavour, uses, here, flags);
	if (!result && here < n)
		result = pl_peers_begin(&relays, stream, flavour, uses + here, n - here);
	*refused = result != CU_SUCCESS;
	if (!result && (flags || !(number & (number - 1))))
		graph_peek(exec, number, stream, flavour);
	if (!result)
		result = pl_fault_seen(real(exec, stream));
	pl_peers_end(&relays, stream, flavour);
	pl_scope_end(&scope);
	return result;
}

static int
graph_launch(__typeof__(&cuGraphLaunch) real, enum pl_default_stream flavour,
	     struct cu_graph_exec *exec, struct cu_stream *stream)
{
	int tries = 0, refused = 0, result;
	struct pl_gpu *gpu;

	if (!pl_active())
		return real(exec, stream);
	PL_COUNT(graph_launches, 1);
	if (!pl_watching()) {
		gpu = pl_gpu_here();
		if (gpu)
			(void)pl_stream_bit(gpu, stream, flavour);
	}
	/* Room is made without scopes: what they hold on the device would be waited for. */
	do
		result = pl_watching()
				 ? graph_launch_scoped(real, flavour, exec, stream, &refused)
				 : real(exec, stream);
	while (!refused && pl_room_made(result, &tries, PL_ROOM_BYTES));
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
		exec_note(*exec, graph, !!(flags & CU_INSTANTIATE_DEVICE_LAUNCH));
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

/* ---- changing ---- */

/* The graph has been given the parameters of another one's nodes. Its own nodes' handles stay those of
 * the graph it was made of: what is set for them later is added. */
static int
exec_updated(int result, struct cu_graph_exec *handle, struct cu_graph *graph)
{
	struct graph_exec *exec;
	int from_device;

	if (result || !pl_active())
		return result;
	sl_mutex_lock(&lock);
	exec = exec_find(handle);
	from_device = exec && exec->from_device;
	sl_mutex_unlock(&lock);
	exec_note(handle, graph, from_device);
	return result;
}

int
cuGraphExecUpdate(struct cu_graph_exec *exec, struct cu_graph *graph,
		  struct cu_graph_node **failed, int *why)
{
	int result;

	PL_WITH_ROOM(result, PL_ROOM_BYTES,
		     PL_REAL(cuGraphExecUpdate)(exec, graph, failed, why));
	return exec_updated(result, exec, graph);
}

int
cuGraphExecUpdate_v2(struct cu_graph_exec *exec, struct cu_graph *graph, void *why)
{
	int result;

	PL_WITH_ROOM(result, PL_ROOM_BYTES, PL_REAL(cuGraphExecUpdate_v2)(exec, graph, why));
	return exec_updated(result, exec, graph);
}

/* The entry of a node whose parameters have been set, to be filled by the caller, with the lock;
 * node_changed() gives it back. NULL: not held. (clang cannot be told of a lock that comes with a
 * pointer.) */
SL_NO_LOCK_CHECK static struct pl_graph_node *
node_change(struct cu_graph_exec *handle, struct cu_graph_node *handle_node,
	    struct graph_exec **out)
{
	struct graph_exec *exec;
	struct pl_graph_node *node;

	if (!pl_active())
		return NULL;
	sl_mutex_lock(&lock);
	exec = exec_find(handle);
	node = exec ? pl_graph_node_put(&exec->nodes, handle_node) : NULL;
	if (!node) {
		sl_mutex_unlock(&lock);
		return NULL;
	}
	exec->set_is_old = 1;
	pl_enter();
	*out = exec;
	return node;
}

SL_NO_LOCK_CHECK static void
node_changed(const struct graph_exec *exec)
{
	const struct cu_graph_exec *from_device = exec->from_device ? exec->handle : NULL;

	pl_leave();
	sl_mutex_unlock(&lock);
	if (from_device)
		exec_hold(from_device);
}

static int
kernel_set(int result, struct cu_graph_exec *handle, struct cu_graph_node *handle_node,
	   const struct cu_kernel_node *params, int has_kernel)
{
	struct pl_graph_node *node;
	struct graph_exec *exec;

	if (result)
		return result;
	node = node_change(handle, handle_node, &exec);
	if (node) {
		pl_graph_node_kernel(node, params, has_kernel);
		node_changed(exec);
	}
	return CU_SUCCESS;
}

int
cuGraphExecKernelNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
			       const struct cu_kernel_node *params)
{
	return kernel_set(PL_REAL(cuGraphExecKernelNodeSetParams)(exec, node, params),
			  exec, node, params, 0);
}

int
cuGraphExecKernelNodeSetParams_v2(struct cu_graph_exec *exec, struct cu_graph_node *node,
				  const struct cu_kernel_node *params)
{
	return kernel_set(PL_REAL(cuGraphExecKernelNodeSetParams_v2)(exec, node, params),
			  exec, node, params, 1);
}

static int
copy_set(int result, struct cu_graph_exec *handle, struct cu_graph_node *handle_node,
	 const struct cu_copy_3d *copy)
{
	struct pl_graph_node *node;
	struct graph_exec *exec;

	if (result)
		return result;
	node = node_change(handle, handle_node, &exec);
	if (node) {
		pl_graph_node_copy(node, copy);
		node_changed(exec);
	}
	return CU_SUCCESS;
}

int
cuGraphExecMemcpyNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
			       const struct cu_copy_3d *copy, struct cu_context *context)
{
	struct pl_graph_place place;
	int result = pl_graph_place_begin(&place, copy, NULL);

	if (!result)
		do
			result = PL_REAL(cuGraphExecMemcpyNodeSetParams)(
				exec, node, copy ? &place.copy : NULL, context);
		while (pl_graph_place_again(&place, result));
	pl_graph_place_end(&place);
	return copy_set(result, exec, node, copy);
}

static int
fill_set(int result, struct cu_graph_exec *handle, struct cu_graph_node *handle_node,
	 const struct cu_memset_node *params)
{
	struct pl_graph_node *node;
	struct graph_exec *exec;

	if (result)
		return result;
	node = node_change(handle, handle_node, &exec);
	if (node) {
		pl_graph_node_fill(node, params);
		node_changed(exec);
	}
	return CU_SUCCESS;
}

int
cuGraphExecMemsetNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
			       const struct cu_memset_node *params,
			       struct cu_context *context)
{
	struct pl_graph_place place;
	int result = pl_graph_place_begin(&place, NULL, params);

	if (!result)
		do
			result = PL_REAL(cuGraphExecMemsetNodeSetParams)(exec, node,
									 params, context);
		while (pl_graph_place_again(&place, result));
	pl_graph_place_end(&place);
	return fill_set(result, exec, node, params);
}

static int
memops_set(int result, struct cu_graph_exec *handle, struct cu_graph_node *handle_node,
	   const struct cu_batch_node *params)
{
	struct pl_graph_node *node;
	struct graph_exec *exec;

	if (result)
		return result;
	node = node_change(handle, handle_node, &exec);
	if (node) {
		pl_graph_node_memops(node, params);
		node_changed(exec);
	}
	return CU_SUCCESS;
}

int
cuGraphExecBatchMemOpNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
				   const struct cu_batch_node *params)
{
	int result = params ? pl_memops_hold(params->ops, params->n) : CU_SUCCESS;

	if (!result)
		result = PL_REAL(cuGraphExecBatchMemOpNodeSetParams)(exec, node, params);
	return memops_set(result, exec, node, params);
}

/* The child's nodes as entries of their own; those of the child it had before stay. */
static int
child_set(int result, struct cu_graph_exec *handle, struct cu_graph *child)
{
	struct graph_exec *exec;
	int from_device;

	if (result || !pl_active())
		return result;
	pl_enter();
	sl_mutex_lock(&lock);
	exec = exec_find(handle);
	from_device = exec && exec->from_device;
	if (exec) {
		pl_graph_nodes_read(&exec->nodes, child);
		exec->set_is_old = 1;
	}
	sl_mutex_unlock(&lock);
	pl_leave();
	if (from_device)
		exec_hold(handle);
	return result;
}

int
cuGraphExecChildGraphNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
				   struct cu_graph *child)
{
	return child_set(PL_REAL(cuGraphExecChildGraphNodeSetParams)(exec, node, child),
			 exec, child);
}

int
cuGraphExecNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
			 struct cu_node_params *params)
{
	struct pl_node_place place;
	int result = pl_node_place_begin(&place, params);

	if (!result)
		do
			result = PL_REAL(cuGraphExecNodeSetParams)(exec, node, params);
		while (pl_graph_place_again(&place.place, result));
	pl_node_place_end(&place);
	if (result)
		return result;
	switch (params->type) {
	case CU_NODE_KERNEL:
		return kernel_set(result, exec, node, &params->kernel, 1);
	case CU_NODE_MEMCPY:
		return copy_set(result, exec, node, &params->copy.copy);
	case CU_NODE_MEMSET:
		return fill_set(result, exec, node, &params->fill);
	case CU_NODE_GRAPH:
		return child_set(result, exec, params->graph);
	case CU_NODE_BATCH_MEM_OP:
		return memops_set(result, exec, node, &params->memops);
	}
	return CU_SUCCESS;
}

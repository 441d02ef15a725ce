/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and changing the nodes of graphs that are not executable yet. The driver checks the
 * ranges of a copy or a fill when it gets the node. It refuses unmapped addresses, and ranges
 * partly on the device and partly in host memory. So the ranges are brought to the device for
 * that call. If they do not fit there together, they go to host memory as a whole, which the
 * driver accepts as well. graph.c has their place when the graph runs.
 *
 * The words of stream memory operations are held on the device for good (memop.c).
 *
 * Threads: any. Blocks on copies under pressure.
 */
#include <stdbool.h>

#include "preload/calls/touch.h"
#include "preload/graph/graphs.h"
#include "preload/preload.h"
#include "sluice/sluice.h"

int
pl_graph_place_begin(struct pl_graph_place *place, const struct cu_copy_3d *copy,
		     const struct cu_memset_node *fill)
{
	struct pl_touch *touch = &place->touch;
	struct pl_side side;

	pl_touch_init(touch, place->uses, 2);
	if (copy)
		place->copy = *copy;
	if (!pl_active())
		return CU_SUCCESS;
	if (copy) {
		pl_box_generalize(&place->copy);
		touch->n = pl_box_uses(&place->copy, place->uses);
	} else if (fill) {
		side = (struct pl_side){.addr = fill->addr, .pitch = fill->pitch};
		pl_touch_add(touch, fill->addr,
			     pl_box_bytes(&side, fill->width * fill->element_bytes,
					  fill->height, 1),
			     SLUICE_USE_WRITE);
	}
	return touch->n ? pl_touch_look(touch) : CU_SUCCESS;
}

bool
pl_graph_place_again(struct pl_graph_place *place, int result)
{
	return place->touch.n && pl_touch_look_again(&place->touch, result);
}

void
pl_graph_place_end(struct pl_graph_place *place)
{
	pl_touch_end(&place->touch);
}

int
pl_node_place_begin(struct pl_node_place *place, struct cu_node_params *params)
{
	int type = params ? params->type : CU_NODE_EMPTY, result;

	place->params = type == CU_NODE_MEMCPY ? params : NULL;
	if (type == CU_NODE_BATCH_MEM_OP && pl_active()) {
		result = pl_memops_hold(params->memops.ops, params->memops.n);
		if (result) {
			pl_touch_init(&place->place.touch, place->place.uses, 2);
			return result;
		}
	}
	result = pl_graph_place_begin(&place->place,
				      type == CU_NODE_MEMCPY ? &params->copy.copy : NULL,
				      type == CU_NODE_MEMSET ? &params->fill : NULL);
	if (type == CU_NODE_MEMCPY) {
		place->original = params->copy.copy;
		params->copy.copy = place->place.copy;
	}
	return result;
}

void
pl_node_place_end(struct pl_node_place *place)
{
	if (place->params)
		place->params->copy.copy = place->original;
	pl_graph_place_end(&place->place);
}

/* ---- the wrapped calls ---- */

int
cuGraphAddMemcpyNode(struct cu_graph_node **out, struct cu_graph *graph,
		     struct cu_graph_node *const *before, size_t n,
		     const struct cu_copy_3d *copy, struct cu_context *context)
{
	struct pl_graph_place place;
	int result = pl_graph_place_begin(&place, copy, NULL);

	if (!result)
		do
			result = PL_REAL(cuGraphAddMemcpyNode)(out, graph, before, n,
							       copy ? &place.copy : NULL,
							       context);
		while (pl_graph_place_again(&place, result));
	pl_graph_place_end(&place);
	return result;
}

int
cuGraphAddMemsetNode(struct cu_graph_node **out, struct cu_graph *graph,
		     struct cu_graph_node *const *before, size_t n,
		     const struct cu_memset_node *params, struct cu_context *context)
{
	struct pl_graph_place place;
	int result = pl_graph_place_begin(&place, NULL, params);

	if (!result)
		do
			result = PL_REAL(cuGraphAddMemsetNode)(out, graph, before, n,
							       params, context);
		while (pl_graph_place_again(&place, result));
	pl_graph_place_end(&place);
	return result;
}

int
cuGraphAddBatchMemOpNode(struct cu_graph_node **out, struct cu_graph *graph,
			 struct cu_graph_node *const *before, size_t n,
			 const struct cu_batch_node *params)
{
	int result = params ? pl_memops_hold(params->ops, params->n) : CU_SUCCESS;

	return result ? result
		      : PL_REAL(cuGraphAddBatchMemOpNode)(out, graph, before, n, params);
}

int
cuGraphAddNode(struct cu_graph_node **out, struct cu_graph *graph,
	       struct cu_graph_node *const *before, size_t n, struct cu_node_params *params)
{
	struct pl_node_place place;
	int result = pl_node_place_begin(&place, params);

	if (!result)
		do
			result = PL_REAL(cuGraphAddNode)(out, graph, before, n, params);
		while (pl_graph_place_again(&place.place, result));
	pl_node_place_end(&place);
	return result;
}

int
cuGraphAddNode_v2(struct cu_graph_node **out, struct cu_graph *graph,
		  struct cu_graph_node *const *before, const void *edges, size_t n,
		  struct cu_node_params *params)
{
	struct pl_node_place place;
	int result = pl_node_place_begin(&place, params);

	if (!result)
		do
			result = PL_REAL(cuGraphAddNode_v2)(out, graph, before, edges, n,
							    params);
		while (pl_graph_place_again(&place.place, result));
	pl_node_place_end(&place);
	return result;
}

int
cuGraphMemcpyNodeSetParams(struct cu_graph_node *node, const struct cu_copy_3d *copy)
{
	struct pl_graph_place place;
	int result = pl_graph_place_begin(&place, copy, NULL);

	if (!result)
		do
			result = PL_REAL(cuGraphMemcpyNodeSetParams)(node, copy ? &place.copy
										: NULL);
		while (pl_graph_place_again(&place, result));
	pl_graph_place_end(&place);
	return result;
}

int
cuGraphMemsetNodeSetParams(struct cu_graph_node *node, const struct cu_memset_node *params)
{
	struct pl_graph_place place;
	int result = pl_graph_place_begin(&place, NULL, params);

	if (!result)
		do
			result = PL_REAL(cuGraphMemsetNodeSetParams)(node, params);
		while (pl_graph_place_again(&place, result));
	pl_graph_place_end(&place);
	return result;
}

int
cuGraphBatchMemOpNodeSetParams(struct cu_graph_node *node, const struct cu_batch_node *params)
{
	int result = params ? pl_memops_hold(params->ops, params->n) : CU_SUCCESS;

	return result ? result : PL_REAL(cuGraphBatchMemOpNodeSetParams)(node, params);
}

int
cuGraphNodeSetParams(struct cu_graph_node *node, struct cu_node_params *params)
{
	struct pl_node_place place;
	int result = pl_node_place_begin(&place, params);

	if (!result)
		do
			result = PL_REAL(cuGraphNodeSetParams)(node, params);
		while (pl_graph_place_again(&place.place, result));
	pl_node_place_end(&place);
	return result;
}

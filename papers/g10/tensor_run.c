/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of the tensor-level simulation (tensor_run.h).
 *
 * Kernels run in order; before each, the steps of the plan for it are issued, new tensors
 * get their block and absent ones are fetched on demand; then it waits until all its
 * tensors have arrived. Four channels (store and host, in and out) move tensors first come
 * first served and do not share anything. A write-out owns the block it empties, so that a
 * tensor may come back to another one before it is through. Prefetches wait for room in one
 * queue, in order.
 *
 * Time advances from one end of a transfer to the next while something is waited for, and
 * over a kernel's duration while it computes. Every wait ends: with nothing under way that
 * could end it the run has failed.
 *
 * Threads: one per run.
 */
#include "g10/tensor_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "g10/tensor_room.h"
#include "sim/internal.h"

enum place {
	UNBORN, /* never had a block, or dead */
	RESIDENT,
	LEAVING, /* being written out; the transfer has the block */
	AWAY,    /* on store or host */
	WAITING, /* to be fetched when there is room */
	COMING,  /* has a block, is being read */
};

struct item {
	enum place place;
	enum sl_sim_path in_path; /* of the copy that is away */
	int dead;                 /* before its fetch was through */
	uint64_t first, pages;    /* block, in the places that have one */
};

struct transfer {
	uint32_t tensor;
	uint64_t finish;
	uint64_t first, pages; /* block of a write-out */
};

struct channel {
	struct transfer *transfers;
	uint32_t head, n, max;
	uint64_t free_at; /* when the last one queued is through */
};

struct run {
	const struct sl_g10_view *view;
	const struct tensor_run_rules *rules;
	const struct sl_plan *plan;
	struct sl_sim_result *out;
	struct tensor_room room;
	struct item *items; /* by tensor */
	struct channel channels[SL_PATH_COUNT];
	uint32_t *waiting; /* tensors, first in first out */
	uint32_t waiting_head, waiting_n, waiting_max;
	uint64_t now;
	uint64_t busy_ticks; /* with a transfer under way */
	uint32_t under_way;
	uint64_t stored_bytes; /* on the store, or on the way there */
	uint64_t reserve_pages; /* most that a kernel needs of tensors that are not global */
	uint32_t next_step;
	enum sl_sim_bound last_bound; /* what ended the last wait */
};

static uint64_t
pages_of(uint64_t bytes)
{
	return (bytes + 4095) / 4096;
}

static int
grow(void **array, uint32_t *max, uint32_t n, size_t entry_bytes)
{
	uint32_t more = *max ? *max * 2 : 64;
	void *bigger;

	if (n < *max)
		return 0;
	bigger = realloc(*array, more * entry_bytes);
	if (!bigger)
		return sl_fail(-ENOMEM, "simulated transfers: out of memory");
	*array = bigger;
	*max = more;
	return 0;
}

/* The policy cannot run this: 1, so that callers can tell it from success and errors. */
static int SL_PRINTF(2, 3) run_stuck(struct run *run, const char *fmt, ...)
{
	va_list args;

	run->out->failed = 1;
	va_start(args, fmt);
	vsnprintf(run->out->why, sizeof(run->out->why), fmt, args);
	va_end(args);
	return 1;
}

/* A tensor is no longer on the store; as published, some are read that were not written. */
static void
stored_drop(struct run *run, uint32_t t)
{
	uint64_t bytes = run->view->tensors[t].size_bytes;

	run->stored_bytes -= bytes < run->stored_bytes ? bytes : run->stored_bytes;
}

static int
is_write(enum sl_sim_path path)
{
	return path == SL_PATH_STORE_OUT || path == SL_PATH_HOST_OUT;
}

static int
transfer_queue(struct run *run, enum sl_sim_path path, uint32_t t)
{
	struct channel *channel = &run->channels[path];
	const struct sl_g10_tensor *tensor = &run->view->tensors[t];
	struct item *item = &run->items[t];
	double ticks = (double)tensor->size_bytes / run->rules->bps[path] *
		       (double)run->view->trace->clock_hz;
	uint64_t start = channel->free_at > run->now ? channel->free_at : run->now;
	int rc = grow((void **)&channel->transfers, &channel->max, channel->n,
		      sizeof(*channel->transfers));

	if (rc)
		return rc;
	if (path == SL_PATH_STORE_OUT) {
		run->stored_bytes += tensor->size_bytes;
		if (run->rules->store_bytes && run->stored_bytes > run->rules->store_bytes)
			return run_stuck(run,
					 "%" PRIu64
					 " bytes would be on the store, which holds "
					 "%" PRIu64 ": more of it is needed",
					 run->stored_bytes, run->rules->store_bytes);
	}
	channel->free_at = start + (uint64_t)(ticks + 0.5);
	channel->transfers[channel->n++] = (struct transfer){
		.tensor = t,
		.finish = channel->free_at,
		.first = is_write(path) ? item->first : 0,
		.pages = is_write(path) ? item->pages : 0,
	};
	run->under_way++;
	run->out->bytes[path] += tensor->size_bytes;
	return 0;
}

/* A block for the tensor: 1 if there was none. */
static int
block_take(struct run *run, uint32_t t)
{
	struct item *item = &run->items[t];
	int from_high = run->rules->from_high && run->rules->from_high[t];

	item->pages = pages_of(run->view->tensors[t].size_bytes);
	item->first = tensor_room_take(&run->room, item->pages, from_high);
	return item->first == TENSOR_ROOM_NONE;
}

static int
fetch_begin(struct run *run, uint32_t t, enum sl_sim_path path)
{
	run->items[t].place = COMING;
	return transfer_queue(run, path, t);
}

/* Prefetches that wait for room, as far as there is some. */
static int
waiting_admit(struct run *run)
{
	while (run->waiting_head < run->waiting_n) {
		uint32_t t = run->waiting[run->waiting_head];
		int rc;

		/* On the way already by demand, or dead. */
		if (run->items[t].place == WAITING) {
			if (block_take(run, t))
				return 0;
			rc = fetch_begin(run, t, run->items[t].in_path);
			if (rc)
				return rc;
		}
		run->waiting_head++;
	}
	return 0;
}

static int
transfer_finish(struct run *run, enum sl_sim_path path)
{
	struct channel *channel = &run->channels[path];
	struct transfer *transfer = &channel->transfers[channel->head++];
	struct item *item = &run->items[transfer->tensor];
	int rc;

	run->under_way--;
	if (is_write(path)) {
		if (item->place == LEAVING)
			item->place = AWAY;
		rc = tensor_room_give(&run->room, transfer->first, transfer->pages);
		return rc ? rc : waiting_admit(run);
	}
	if (path == SL_PATH_STORE_IN)
		stored_drop(run, transfer->tensor);
	if (!item->dead) {
		item->place = RESIDENT;
		return 0;
	}
	item->place = UNBORN;
	rc = tensor_room_give(&run->room, item->first, item->pages);
	return rc ? rc : waiting_admit(run);
}

/* The path whose transfer ends next, SL_PATH_COUNT: none under way. */
static enum sl_sim_path
transfer_next(const struct run *run, uint64_t *finish)
{
	enum sl_sim_path best = SL_PATH_COUNT;

	for (int path = 0; path < SL_PATH_COUNT; path++) {
		const struct channel *channel = &run->channels[path];

		if (channel->head == channel->n)
			continue;
		if (best != SL_PATH_COUNT &&
		    channel->transfers[channel->head].finish >= *finish)
			continue;
		best = (enum sl_sim_path)path;
		*finish = channel->transfers[channel->head].finish;
	}
	return best;
}

static void
clock_set(struct run *run, uint64_t at)
{
	if (run->under_way)
		run->busy_ticks += at - run->now;
	run->now = at;
}

/* Let time pass until `at`. */
static int
run_until(struct run *run, uint64_t at)
{
	uint64_t finish = 0;
	enum sl_sim_path path;

	while ((path = transfer_next(run, &finish)) != SL_PATH_COUNT && finish <= at) {
		int rc;

		clock_set(run, finish);
		rc = transfer_finish(run, path);
		if (rc)
			return rc;
	}
	clock_set(run, at);
	return 0;
}

/* Let time pass until the next transfer is through: 1 if none is under way. */
static int
run_next(struct run *run)
{
	static const enum sl_sim_bound bounds[SL_PATH_COUNT] = {
		[SL_PATH_STORE_IN] = SL_BOUND_STORE_READ,
		[SL_PATH_STORE_OUT] = SL_BOUND_STORE_WRITE,
		[SL_PATH_HOST_IN] = SL_BOUND_LINK_IN,
		[SL_PATH_HOST_OUT] = SL_BOUND_LINK_OUT,
	};
	uint64_t finish = 0;
	enum sl_sim_path path = transfer_next(run, &finish);

	if (path == SL_PATH_COUNT)
		return 1;
	run->last_bound = bounds[path];
	clock_set(run, finish);
	return transfer_finish(run, path);
}

/*
 * Send to the store what is used last from this kernel on, but nothing that it uses itself.
 * Returns 1 where nothing can go. Rare, and so a scan of the kernels behind it.
 */
static int
victim_evict(struct run *run, uint32_t kernel)
{
	const struct sl_g10_view *view = run->view;
	SL_CLEANUP(free) unsigned char *seen = calloc((size_t)view->n_tensors + 1, 1);
	uint32_t victim = SL_TRACE_NONE;

	if (!seen)
		return sl_fail(-ENOMEM, "choosing a victim: out of memory");
	for (uint32_t k = kernel; k < view->n; k++) {
		const struct sl_trace_launch *launch = &view->launches[k];

		for (uint32_t u = 0; u < launch->n_uses; u++) {
			uint32_t t = view->trace->uses[launch->first_use + u].tensor;

			if (!seen[t] && k > kernel && run->items[t].place == RESIDENT)
				victim = t;
			seen[t] = 1;
		}
	}
	/* Better one that this iteration does not use any more. */
	for (uint32_t t = 0; t < view->n_tensors; t++)
		if (!seen[t] && run->items[t].place == RESIDENT)
			victim = t;
	if (victim == SL_TRACE_NONE)
		return 1;
	run->items[victim].place = LEAVING;
	run->items[victim].in_path = SL_PATH_STORE_IN;
	return transfer_queue(run, SL_PATH_STORE_OUT, victim);
}

/* A block, waiting for it if need be. */
static int
block_wait(struct run *run, uint32_t kernel, uint32_t t)
{
	while (block_take(run, t)) {
		int rc = run_next(run);

		if (rc > 0 && run->rules->evicts)
			rc = victim_evict(run, kernel);
		if (rc < 0)
			return rc;
		if (rc)
			return run_stuck(
				run,
				"launch %u: no block of %" PRIu64
				" bytes for tensor %u: %" PRIu64
				" bytes are free, the largest block has %" PRIu64,
				kernel, run->view->tensors[t].size_bytes, t,
				run->room.free_pages * 4096,
				tensor_room_largest(&run->room) * 4096);
	}
	return 0;
}

static int
step_issue(struct run *run, const struct sl_plan_step *step)
{
	struct item *item = &run->items[step->tensor];
	int to_host = step->verb == SL_PLAN_EVICT_HOST;
	int rc;

	switch (step->verb) {
	case SL_PLAN_EVICT_HOST:
	case SL_PLAN_EVICT_STORE:
		if (item->place != RESIDENT)
			return 0;
		item->place = LEAVING;
		item->in_path = to_host ? SL_PATH_HOST_IN : SL_PATH_STORE_IN;
		return transfer_queue(run, to_host ? SL_PATH_HOST_OUT : SL_PATH_STORE_OUT,
				      step->tensor);
	case SL_PLAN_PREFETCH:
		/* One that is still leaving is taken for resident: the prefetch is lost. */
		if (item->place != AWAY)
			return 0;
		rc = grow((void **)&run->waiting, &run->waiting_max, run->waiting_n,
			  sizeof(*run->waiting));
		if (rc)
			return rc;
		item->place = WAITING;
		run->waiting[run->waiting_n++] = step->tensor;
		return waiting_admit(run);
	case SL_PLAN_ALLOC:
	case SL_PLAN_FREE:
	case SL_PLAN_VERB_COUNT:
		break;
	}
	return 0;
}

/* One tensor of the kernel: a block if it is new, a fetch if it is away and nobody has
 * asked for it. As published, globals that are away come back without a fetch, and others
 * from the store wherever they are. */
static int
tensor_demand(struct run *run, uint32_t kernel, uint32_t t)
{
	const struct sl_g10_tensor *tensor = &run->view->tensors[t];
	struct item *item = &run->items[t];
	int rc;

	while (item->place == LEAVING && run->rules->waits_for_own_write) {
		rc = run_next(run);
		if (rc)
			return rc;
	}
	switch (item->place) {
	case UNBORN:
		if (!tensor->is_read && !tensor->is_global)
			return 0; /* the block reserved for all of these */
		break;
	case AWAY:
		break;
	case WAITING:
		if (!run->rules->evicts)
			return 0;
		break; /* overtakes the others that wait for room */
	case RESIDENT:
	case LEAVING:
	case COMING:
		return 0;
	}
	rc = block_wait(run, kernel, t);
	if (rc)
		return rc;
	if (run->rules->evicts && item->place != UNBORN)
		return fetch_begin(run, t, item->in_path);
	if (item->place == AWAY && !tensor->is_global)
		return fetch_begin(run, t, SL_PATH_STORE_IN);
	if (item->place == AWAY && item->in_path == SL_PATH_STORE_IN)
		stored_drop(run, t);
	item->place = RESIDENT;
	return 0;
}

/* Everything the kernel uses is on the device when this returns 0. */
static int
kernel_prepare(struct run *run, uint32_t kernel)
{
	const struct sl_trace_launch *launch = &run->view->launches[kernel];
	const struct sl_trace_use *uses = &run->view->trace->uses[launch->first_use];
	uint32_t fresh = 0;
	int last_first;

	for (uint32_t u = 0; u < launch->n_uses; u++)
		fresh += run->items[uses[u].tensor].place == UNBORN;
	last_first = run->rules->many_last_first && fresh > 2;
	for (uint32_t u = 0; u < launch->n_uses; u++) {
		uint32_t at = last_first ? launch->n_uses - 1 - u : u;
		int rc = tensor_demand(run, kernel, uses[at].tensor);

		if (rc)
			return rc;
	}
	for (uint32_t u = 0; u < launch->n_uses; u++)
		while (run->items[uses[u].tensor].place == COMING ||
		       run->items[uses[u].tensor].place == WAITING) {
			int rc = run_next(run);

			if (rc < 0)
				return rc;
			if (rc)
				return run_stuck(run,
						 "launch %u: tensor %u of %" PRIu64
						 " bytes waits for room: %" PRIu64
						 " bytes are free",
						 kernel, uses[u].tensor,
						 run->view->tensors[uses[u].tensor].size_bytes,
						 run->room.free_pages * 4096);
		}
	return 0;
}

/* Tensors whose last read was this kernel let go of their memory. */
static int
kernel_bury(struct run *run, uint32_t kernel)
{
	const struct sl_trace_launch *launch = &run->view->launches[kernel];

	for (uint32_t u = 0; u < launch->n_uses; u++) {
		uint32_t t = run->view->trace->uses[launch->first_use + u].tensor;
		const struct sl_g10_tensor *tensor = &run->view->tensors[t];
		struct item *item = &run->items[t];
		int rc;

		if (tensor->is_global || tensor->death != kernel + 1)
			continue;
		item->dead = 1;
		if (item->place == COMING)
			continue; /* freed when it is through */
		if ((item->place == AWAY || item->place == WAITING) &&
		    item->in_path == SL_PATH_STORE_IN)
			stored_drop(run, t);
		if (item->place == RESIDENT) {
			rc = tensor_room_give(&run->room, item->first, item->pages);
			if (rc)
				return rc;
		}
		item->place = UNBORN;
	}
	return waiting_admit(run);
}

/* FlashNeuron, after a backward kernel: what the next ones need, as much as the largest
 * free block holds beside the largest kernel. */
static int
fetch_ahead(struct run *run, uint32_t kernel)
{
	uint64_t left_pages = tensor_room_largest(&run->room);

	if (left_pages <= run->reserve_pages)
		return 0;
	left_pages -= run->reserve_pages;
	for (uint32_t k = kernel + 1; k < run->view->n; k++) {
		const struct sl_trace_launch *launch = &run->view->launches[k];

		for (uint32_t u = 0; u < launch->n_uses; u++) {
			uint32_t t = run->view->trace->uses[launch->first_use + u].tensor;
			uint64_t pages = pages_of(run->view->tensors[t].size_bytes);
			int rc;

			if (run->items[t].place != AWAY)
				continue;
			if (pages > left_pages || block_take(run, t))
				return 0;
			left_pages -= pages;
			rc = fetch_begin(run, t, SL_PATH_STORE_IN);
			if (rc)
				return rc;
		}
	}
	return 0;
}

static int
kernel_run(struct run *run, uint32_t kernel)
{
	struct sl_sim_launch *launch = &run->out->launches[kernel];
	uint64_t busy = run->busy_ticks, waited;
	int rc = 0;

	launch->start_ticks = run->now;
	launch->bound = SL_BOUND_COMPUTE;
	while (run->next_step < run->plan->n_steps &&
	       run->plan->steps[run->next_step].launch == kernel) {
		rc = step_issue(run, &run->plan->steps[run->next_step++]);
		if (rc)
			return rc;
	}
	rc = kernel_prepare(run, kernel);
	if (rc)
		return rc;
	waited = run->now - launch->start_ticks;
	rc = run_until(run, run->now + launch->ideal_ticks);
	if (rc)
		return rc;
	rc = kernel_bury(run, kernel);
	if (rc)
		return rc;
	if (run->rules->loss_kernel != SL_TRACE_NONE && kernel == run->rules->loss_kernel) {
		struct channel *out = &run->channels[SL_PATH_STORE_OUT];

		while (out->head < out->n) {
			rc = run_next(run);
			if (rc)
				return rc;
		}
	}
	if (run->rules->loss_kernel != SL_TRACE_NONE && kernel > run->rules->loss_kernel)
		rc = fetch_ahead(run, kernel);
	launch->end_ticks = run->now;
	launch->stall_ticks = launch->end_ticks - launch->start_ticks - launch->ideal_ticks;
	busy = run->busy_ticks - busy;
	launch->overlap_ticks = busy > launch->stall_ticks ? busy - launch->stall_ticks : 0;
	launch->compute_ticks = launch->ideal_ticks - launch->overlap_ticks;
	if (waited || launch->stall_ticks)
		launch->bound = run->last_bound;
	return rc;
}

/* Globals are there from the start, behind them the block that stands for every tensor
 * which nobody reads. */
static int
memory_make(struct run *run)
{
	const struct sl_g10_view *view = run->view;
	uint64_t unread_pages = 0;
	int rc = tensor_room_init(&run->room, run->rules->array_bytes / 4096);

	if (rc)
		return rc;
	run->room.paged = run->rules->evicts;
	for (uint32_t t = 0; t < view->n_tensors; t++) {
		uint64_t pages = pages_of(view->tensors[t].size_bytes);

		if (view->tensors[t].is_global) {
			if (block_take(run, t))
				return run_stuck(run,
						 "the global tensors exceed %" PRIu64
						 " bytes of device memory",
						 run->rules->array_bytes);
			run->items[t].place = RESIDENT;
		} else if (!view->tensors[t].is_read && pages > unread_pages) {
			unread_pages = pages;
		}
	}
	if (unread_pages && tensor_room_take(&run->room, unread_pages, 0) == TENSOR_ROOM_NONE)
		return run_stuck(run, "no room for a workspace of %" PRIu64 " bytes",
				 unread_pages * 4096);
	for (uint32_t k = 0; k < view->n; k++) {
		const struct sl_trace_launch *launch = &view->launches[k];
		uint64_t pages = 0;

		for (uint32_t u = 0; u < launch->n_uses; u++) {
			uint32_t t = view->trace->uses[launch->first_use + u].tensor;

			if (!view->tensors[t].is_global)
				pages += pages_of(view->tensors[t].size_bytes);
		}
		if (pages > run->reserve_pages)
			run->reserve_pages = pages;
	}
	return 0;
}

static int
result_make(struct run *run, const struct sl_sim_options *options)
{
	struct sl_sim_result *out = run->out;
	struct sl_sim_work work;
	int rc = sl_sim_work_init(&work, run->view->trace, options);

	if (rc)
		return rc;
	rc = sl_result_init(out, &work, 1);
	if (!rc)
		for (uint32_t k = 0; k < run->view->n; k++)
			out->launches[k].ideal_ticks = work.launches[k].ticks;
	out->ideal_ticks = work.ideal_ticks;
	sl_sim_work_fini(&work);
	return rc;
}

int
sl_tensor_one_gpu(const char *policy, const struct sl_machine *machine)
{
	if (machine->n_gpus == 1)
		return 0;
	return sl_fail(-EINVAL, "simulator: %s runs on one GPU here, not on %u", policy,
		       machine->n_gpus);
}

int
sl_tensor_run(const struct sl_g10_view *view, const struct tensor_run_rules *rules,
	      const struct sl_plan *plan, const struct sl_sim_options *options,
	      struct sl_sim_result *out)
{
	struct run run = {.view = view, .rules = rules, .plan = plan, .out = out};
	int rc = result_make(&run, options);

	if (rc)
		goto done;
	run.items = calloc((size_t)view->n_tensors + 1, sizeof(*run.items));
	if (!run.items) {
		rc = sl_fail(-ENOMEM, "simulating %u tensors: out of memory",
			     view->n_tensors);
		goto done;
	}
	rc = memory_make(&run);
	for (uint32_t k = 0; !rc && k < view->n; k++)
		rc = kernel_run(&run, k);
	if (!rc) {
		out->period_ticks[0] = run.now;
		memcpy(out->period_bytes[0], out->bytes, sizeof(out->bytes));
		sl_result_choose(out, options->as_published);
	}
done:
	tensor_room_fini(&run.room);
	free(run.items);
	free(run.waiting);
	for (int path = 0; path < SL_PATH_COUNT; path++)
		free(run.channels[path].transfers);
	return rc < 0 ? rc : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace replayed through the public API: one region a tensor, one launch a launch, a lazy
 * discard behind the last launch that needs a tensor, a synchronize at the end of each period.
 * The kernel of every launch checks that each chunk it reads is as its last writer left it. It
 * takes the launch's time, and leaves its own number in the chunks it writes.
 *
 * Before the first period a launch each gives the globals contents, so that there are data to
 * move. virtual.h has the parts of the machine. docs/design/simulator.md has the differences
 * from the simulator's own policies.
 *
 * Threads: the caller's submits. The pager's mover and the machine's three do the rest, in turns
 * (base/turns.h). Kernels run on the stream's thread, in order.
 */
#include "sim/core_run.h"
#include "base/size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/space_on.h"
#include "sim/internal.h"
#include "sim/virtual.h"
#include "sluice/sluice.h"

/* Staging beside the host tier: as much as CUDA's copies both ways and reads at once ask for. */
#define STAGING_BYTES (512ull << 20)
#define LOAD          UINT32_MAX /* as number of a launch: one that gives a global contents */

struct replay {
	const struct sl_machine *machine;
	struct sl_sim_work work;
	struct sl_virtual v;
	struct sl_device *device; /* the space's */
	struct sluice_space *space;
	struct sluice_stream *stream;
	char **addr;       /* by tensor; NULL: not used */
	uint64_t *version; /* by tensor, as the kernels have come; SL_VERSION_ANY: dead */
	struct sluice_use *uses; /* of one launch */
	struct sl_sim_result *result;
	uint64_t number;               /* launches that have run: versions are these */
	uint64_t end_ticks;            /* of the last launch */
	uint64_t busy[SL_BOUND_COUNT]; /* of the lines, then */
	uint64_t saved[SL_WAY_COUNT];  /* of the link's bytes, before the period */
};

/* Arguments of a kernel. */
struct replay_launch {
	struct replay *replay;
	uint32_t period, launch; /* LOAD: launch is that, and period the tensor */
};

/* In whole chunks: the virtual store knows nothing smaller. */
static uint64_t
tensor_bytes(const struct replay *r, uint32_t tensor)
{
	return sl_round_up(r->work.trace->tensors[tensor].size_bytes, SL_GRANULE_BYTES);
}

/* ---- on the stream's thread ---- */

/* What was busiest while the launch waited; or nothing was waited for. */
static void
launch_book(struct replay *r, struct sl_sim_launch *out, uint64_t start, uint64_t ticks)
{
	uint64_t now = sl_turns_now(), most = 0, moved = 0;
	struct sluice_stats stats;

	sluice_stats_get(r->space, &stats);
	out->start_ticks = r->end_ticks;
	out->end_ticks = now;
	out->ideal_ticks = ticks;
	out->stall_ticks = start - r->end_ticks;
	out->host_used_pages = stats.resident_bytes[SLUICE_TIER_HOST] / r->machine->page_bytes;
	out->device_used_pages = stats.resident_bytes[SLUICE_TIER_DEVICE] /
				 r->machine->page_bytes;
	for (int b = SL_BOUND_COMPUTE + 1; b < SL_BOUND_COUNT; b++) {
		uint64_t waited = sl_line_busy(&r->v.line[b], start) - r->busy[b];
		uint64_t busy = sl_line_busy(&r->v.line[b], now);
		uint64_t beside = busy - sl_line_busy(&r->v.line[b], start);

		if (out->stall_ticks && waited > most) {
			most = waited;
			out->bound = (enum sl_sim_bound)b;
		}
		if (beside > moved)
			moved = beside;
		r->busy[b] = busy;
	}
	out->overlap_ticks = moved < ticks ? moved : ticks;
	out->compute_ticks = (int64_t)(ticks - out->overlap_ticks);
	r->end_ticks = now;
}

static void
who_format(char *text, size_t bytes, uint32_t period, uint32_t launch, uint32_t tensor)
{
	snprintf(text, bytes, "launch %u of period %u: tensor %u", launch, period, tensor);
}

static void
launch_kernel(const struct sluice_block *block, void *args)
{
	const struct replay_launch *l = args;
	struct replay *r = l->replay;
	const struct sl_sim_work_launch *w = &r->work.launches[l->launch];
	uint64_t arrival = 0, start;
	char who[96];

	(void)block;
	for (uint32_t i = w->first; i < w->first + w->n; i++) {
		uint32_t tensor = r->work.need[i];
		uint64_t at;

		who_format(who, sizeof(who), l->period, l->launch, tensor);
		at = sl_virtual_arrival(r->device, r->addr[tensor],
					tensor_bytes(r, tensor), who);
		if (at > arrival)
			arrival = at;
		if (!r->work.overwrites[i] && r->version[tensor] != SL_VERSION_ANY)
			sl_virtual_read(r->device, r->addr[tensor],
					tensor_bytes(r, tensor), r->version[tensor], who);
	}
	sl_turns_sleep_until(arrival);
	start = sl_turns_now();
	sl_turns_sleep_until(start + w->ticks);
	r->number++;
	for (uint32_t i = w->first; i < w->first + w->n; i++) {
		uint32_t tensor = r->work.need[i];

		if (r->work.writes[i]) {
			who_format(who, sizeof(who), l->period, l->launch, tensor);
			sl_virtual_write(r->device, r->addr[tensor],
					 tensor_bytes(r, tensor), r->number, who);
			r->version[tensor] = r->number;
		}
		if (!r->work.lasts[tensor] && r->work.death[tensor] == l->launch + 1)
			r->version[tensor] = SL_VERSION_ANY;
	}
	launch_book(r,
		    &r->result->launches[(size_t)l->period * r->work.n_launches + l->launch],
		    start, w->ticks);
}

static void
load_kernel(const struct sluice_block *block, void *args)
{
	const struct replay_launch *l = args;
	struct replay *r = l->replay;
	uint32_t tensor = l->period;
	char who[96];

	(void)block;
	snprintf(who, sizeof(who), "first contents of tensor %u", tensor);
	sl_turns_sleep_until(sl_virtual_arrival(r->device, r->addr[tensor],
						tensor_bytes(r, tensor), who));
	r->version[tensor] = ++r->number;
	sl_virtual_write(r->device, r->addr[tensor], tensor_bytes(r, tensor), r->number, who);
}

/* ---- on the caller's thread ---- */

static int
replay_kernel_launch(struct replay *r, sluice_kernel kernel, uint32_t period,
		     uint32_t launch, uint32_t n_uses)
{
	const struct replay_launch l = {.replay = r, .period = period, .launch = launch};

	return sluice_launch(r->space, r->stream, kernel, (struct sluice_grid){1, 1, 1},
			     &l, sizeof(l), r->uses, n_uses);
}

static int
globals_load(struct replay *r)
{
	int rc = 0;

	for (uint32_t t = 0; t < r->work.n_tensors && !rc; t++) {
		if (!r->addr[t] || !r->work.lasts[t])
			continue;
		r->uses[0] = (struct sluice_use){r->addr[t], tensor_bytes(r, t),
						 SLUICE_USE_WRITE_ALL};
		rc = replay_kernel_launch(r, load_kernel, t, LOAD, 1);
	}
	return rc ? rc : sluice_stream_synchronize(r->space, r->stream);
}

/* A launch, and what is dead behind it. */
static int
launch_submit(struct replay *r, uint32_t period, uint32_t launch)
{
	const struct sl_sim_work_launch *w = &r->work.launches[launch];
	const struct sl_trace *trace = r->work.trace;
	const struct sl_trace_launch *from = &trace->launches[w->trace_launch];
	int rc;

	for (uint32_t i = 0; i < from->n_uses; i++) {
		const struct sl_trace_use *use = &trace->uses[from->first_use + i];

		r->uses[i] = (struct sluice_use){r->addr[use->tensor],
						 tensor_bytes(r, use->tensor), use->intent};
	}
	rc = replay_kernel_launch(r, launch_kernel, period, launch, from->n_uses);
	for (uint32_t i = 0; i < from->n_uses && !rc; i++) {
		uint32_t t = trace->uses[from->first_use + i].tensor;

		if (!r->work.lasts[t] && r->work.death[t] == launch + 1)
			rc = sluice_discard(r->space, r->addr[t], tensor_bytes(r, t),
					    SLUICE_DISCARD_LAZY, r->stream);
	}
	return rc;
}

static uint64_t
above(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* The link does not tell whose bytes it saved: as many as can be are the host's. */
static void
saved_book(struct replay *r, uint32_t period, enum sl_way way, enum sl_sim_path host,
	   enum sl_sim_path store)
{
	uint64_t *saved = r->result->period_saved_bytes[period];
	uint64_t all = r->v.saved_bytes[way] - r->saved[way];
	uint64_t of_host = r->result->period_bytes[period][host];
	uint64_t of_store = r->result->period_bytes[period][store];

	saved[host] = all < of_host ? all : of_host;
	saved[store] = all - saved[host] < of_store ? all - saved[host] : of_store;
	r->saved[way] = r->v.saved_bytes[way];
}

/* What crossed the link came from the store or did not; the store's share is told by the store. */
static void
period_book(struct replay *r, uint32_t period, const struct sluice_stats *stats)
{
	uint64_t *bytes = r->result->period_bytes[period];

	bytes[SL_PATH_STORE_IN] = sluice_stats_store_read_bytes(stats);
	bytes[SL_PATH_STORE_OUT] = sluice_stats_store_write_bytes(stats);
	bytes[SL_PATH_HOST_IN] = above(sluice_stats_h2d_bytes(stats),
				       bytes[SL_PATH_STORE_IN]);
	bytes[SL_PATH_HOST_OUT] = above(sluice_stats_d2h_bytes(stats),
					bytes[SL_PATH_STORE_OUT]);
	saved_book(r, period, SL_WAY_IN, SL_PATH_HOST_IN, SL_PATH_STORE_IN);
	saved_book(r, period, SL_WAY_OUT, SL_PATH_HOST_OUT, SL_PATH_STORE_OUT);
}

static int
periods_run(struct replay *r, struct sl_core_report *report)
{
	int rc = globals_load(r);

	for (uint32_t period = 0; period < r->result->n_periods && !rc; period++) {
		uint64_t begin = sl_turns_now();

		r->end_ticks = begin;
		memcpy(r->saved, r->v.saved_bytes, sizeof(r->saved));
		sluice_stats_reset(r->space);
		for (uint32_t launch = 0; launch < r->work.n_launches && !rc; launch++)
			rc = launch_submit(r, period, launch);
		if (!rc)
			rc = sluice_stream_synchronize(r->space, r->stream);
		if (rc)
			break;
		r->result->period_ticks[period] = sl_turns_now() - begin;
		sluice_stats_get(r->space, &report->periods[period]);
		period_book(r, period, &report->periods[period]);
		rc = sluice_space_check(r->space);
	}
	return rc;
}

/* ---- making ---- */

static int
tensors_alloc(struct replay *r)
{
	const struct sl_sim_work *work = &r->work;
	uint32_t n_needs = work->launches[work->n_launches - 1].first +
			   work->launches[work->n_launches - 1].n;
	int rc = 0;

	for (uint32_t i = 0; i < n_needs && !rc; i++) {
		uint32_t t = work->need[i];
		void *addr;

		if (r->addr[t])
			continue;
		rc = sluice_alloc(r->space, tensor_bytes(r, t), 0, &addr);
		if (rc)
			break;
		r->addr[t] = addr;
		sl_virtual_ratio(r->device, addr, tensor_bytes(r, t),
				 work->trace->tensors[t].ratio);
	}
	return rc;
}

/* Every tensor, as whole chunks and with the gap that regions keep. */
static uint64_t
addresses_needed(const struct sl_trace *trace)
{
	uint64_t bytes = 16 * SL_GRANULE_BYTES;

	for (uint32_t t = 0; t < trace->n_tensors; t++)
		bytes += (trace->tensors[t].size_bytes / SL_GRANULE_BYTES + 2) *
			 SL_GRANULE_BYTES;
	return bytes;
}

static int
replay_space_make(struct replay *r, enum sluice_policy policy)
{
	const struct sl_machine *machine = r->machine;
	struct sluice_config config;
	struct sl_engine *engine;
	int rc = sluice_config_init(&config);

	if (rc)
		return rc;
	config.policy = policy;
	config.device_budget_bytes = machine->device_bytes;
	config.host_budget_bytes = machine->host_bytes;
	config.host_reserve_bytes = 0;
	config.store_budget_bytes = machine->store_bytes ? machine->store_bytes : UINT64_MAX;
	config.staging_bytes = STAGING_BYTES;
	config.address_bytes = addresses_needed(r->work.trace);
	config.chunk_bytes = config.large_chunk_bytes = SL_GRANULE_BYTES;
	config.readahead_chunks = 8;
	config.writeback_bytes = UINT64_MAX;
	config.population = SLUICE_POPULATE_CHUNK;
	config.checking = config.measure = config.publish = 0;
	snprintf(config.spill_dirs, sizeof(config.spill_dirs), "drive");

	rc = sl_virtual_device_create(&r->v, config.address_bytes,
				      machine->device_bytes / SL_GRANULE_BYTES *
					      SL_GRANULE_BYTES,
				      &r->device);
	if (rc)
		return rc;
	rc = sl_virtual_engine_create(&r->v, &engine);
	if (rc) {
		r->device->ops->destroy(r->device);
		return rc;
	}
	rc = sl_space_create_on(&config, r->device, engine, &r->space);
	if (rc)
		return rc;
	return sluice_stream_create(r->space, &r->stream);
}

static int
replay_alloc(struct replay *r)
{
	size_t uses = 1;

	for (uint32_t launch = 0; launch < r->work.n_launches; launch++)
		if (r->work.launches[launch].n > uses)
			uses = r->work.launches[launch].n;
	r->addr = calloc((size_t)r->work.n_tensors + 1, sizeof(*r->addr));
	r->version = malloc(((size_t)r->work.n_tensors + 1) * sizeof(*r->version));
	r->uses = calloc(uses, sizeof(*r->uses));
	if (!r->addr || !r->version || !r->uses)
		return sl_fail(-ENOMEM, "simulator: no memory for %u tensors",
			       r->work.n_tensors);
	for (uint32_t t = 0; t < r->work.n_tensors; t++)
		r->version[t] = SL_VERSION_ANY;
	return 0;
}

static void
replay_fini(struct replay *r)
{
	sl_sim_work_fini(&r->work);
	free(r->addr);
	free(r->version);
	free(r->uses);
}

/* From the first turn to the last. The text of a failure survives the end of the space. */
static int
replay_run(struct replay *r, enum sluice_policy policy, struct sl_core_report *report)
{
	char text[SL_ERROR_TEXT_BYTES];
	int rc = sl_turns_begin(r->v.clock_hz), end_rc;

	if (rc)
		return rc;
	rc = replay_space_make(r, policy);
	if (!rc)
		rc = tensors_alloc(r);
	if (!rc)
		rc = periods_run(r, report);
	snprintf(text, sizeof(text), "%s", sluice_last_error());
	if (r->stream)
		sluice_stream_destroy(r->stream);
	end_rc = sluice_space_destroy(r->space);
	sl_turns_end();
	if (r->v.failed)
		return sl_fail(-EIO, "simulator: %s", r->v.why);
	return rc ? sl_fail_text(rc, text) : end_rc;
}

void
sl_core_report_fini(struct sl_core_report *report)
{
	free(report->periods);
	memset(report, 0, sizeof(*report));
}

/* The one GPU of one period of a trace, as far as that goes. */
static int
machine_check(const struct sl_machine *machine)
{
	int rc = sl_machine_check(machine);

	if (rc)
		return rc;
	if (machine->n_gpus > 1)
		return sl_fail(-EINVAL,
			       "simulator: the pager runs on one GPU here, not on %u",
			       machine->n_gpus);
	return 0;
}

int
sl_core_run(enum sluice_policy policy, const struct sl_trace *trace,
	    const struct sl_machine *machine, const struct sl_sim_options *options,
	    uint64_t lose_copy, struct sl_sim_result *out, struct sl_core_report *report)
{
	/* A plan is made when launches have repeated, and shows in the periods after that. */
	uint32_t n_periods = options->periods               ? options->periods
			     : policy == SLUICE_POLICY_PLAN ? 5
							    : 2;
	struct sl_sim_result result;
	struct replay *r;
	int rc = machine_check(machine);

	memset(report, 0, sizeof(*report));
	if (rc)
		return rc;
	r = calloc(1, sizeof(*r));
	if (!r)
		return sl_fail(-ENOMEM, "simulator: out of memory");
	r->machine = r->v.machine = machine;
	r->v.clock_hz = trace->clock_hz;
	r->v.lose_copy = lose_copy;
	r->result = &result;
	rc = sl_sim_work_init(&r->work, trace, options);
	if (rc) {
		free(r);
		return rc;
	}
	rc = sl_result_init(&result, &r->work, n_periods);
	if (!rc) {
		report->periods = calloc(n_periods, sizeof(*report->periods));
		rc = report->periods ? replay_alloc(r)
				     : sl_fail(-ENOMEM, "simulator: out of memory");
		if (!rc)
			rc = replay_run(r, policy, report);
		report->device_peak_bytes = r->v.memory_peak_bytes;
		report->copies_out = r->v.copies_out;
		if (rc == -ENOBUFS) { /* its chunks at once, or two chunks, are more than there is */
			rc = 0;
			result.failed = 1;
			snprintf(result.why, sizeof(result.why), "%s", sluice_last_error());
		}
		if (rc)
			sl_sim_result_fini(&result);
	}
	if (rc) {
		sl_core_report_fini(report);
	} else {
		sl_result_choose(&result, options->as_published);
		*out = result;
	}
	replay_fini(r);
	free(r);
	return rc;
}

static int
policy_run(enum sluice_policy policy, const struct sl_trace *trace,
	   const struct sl_machine *machine, const struct sl_sim_options *options,
	   struct sl_sim_result *out)
{
	struct sl_core_report report;
	int rc = sl_core_run(policy, trace, machine, options, 0, out, &report);

	sl_core_report_fini(&report);
	return rc;
}

static int
core_lru_run(const struct sl_trace *trace, const struct sl_machine *machine,
	     const struct sl_plan *plan, const struct sl_sim_options *options,
	     struct sl_sim_result *out)
{
	(void)plan;
	return policy_run(SLUICE_POLICY_LRU, trace, machine, options, out);
}

static int
core_dragon_run(const struct sl_trace *trace, const struct sl_machine *machine,
		const struct sl_plan *plan, const struct sl_sim_options *options,
		struct sl_sim_result *out)
{
	(void)plan;
	return policy_run(SLUICE_POLICY_DRAGON, trace, machine, options, out);
}

static int
core_uvm_run(const struct sl_trace *trace, const struct sl_machine *machine,
	     const struct sl_plan *plan, const struct sl_sim_options *options,
	     struct sl_sim_result *out)
{
	(void)plan;
	return policy_run(SLUICE_POLICY_UVM, trace, machine, options, out);
}

/* The pager makes its own plan. */
static int
core_plan_run(const struct sl_trace *trace, const struct sl_machine *machine,
	      const struct sl_plan *plan, const struct sl_sim_options *options,
	      struct sl_sim_result *out)
{
	(void)plan;
	return policy_run(SLUICE_POLICY_PLAN, trace, machine, options, out);
}

const struct sl_sim_policy sl_sim_core_lru = {"core-lru", core_lru_run};
const struct sl_sim_policy sl_sim_core_dragon = {"core-dragon", core_dragon_run};
const struct sl_sim_policy sl_sim_core_uvm = {"core-uvm", core_uvm_run};
const struct sl_sim_policy sl_sim_core_plan = {"core-plan", core_plan_run};

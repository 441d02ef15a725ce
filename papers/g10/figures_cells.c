/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cells of the figures: which configurations the figures of the paper G10 show, and the
 * running of each, once, whatever the number of figures it is in.
 *
 * Every cell is one call of planner and simulator with the published program's rules
 * (as_published). Our own planner is run at each configuration that the published one is shown
 * at, and executed by the same rules; where a smaller machine's cell came out faster, its plan is
 * carried out on the larger machine, too, and the better one counts. What an iteration divides into, its traffic and the
 * slow-downs of its launches are summed up at once, so that no result is kept.
 *
 * Threads: figures_cells_run() starts n_jobs threads that take cells from one counter; a cell is
 * written by the thread that took it. Traces are read before and only read by them.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "g10/figures.h"
#include "g10/import_g10.h"
#include "g10/replica.h"
#include "progress.h"

#define GIB        (UINT64_C(1) << 30)
#define PAGE_BYTES 4096
#define JOBS_MAX   64
#define NO_HOST    UINT32_MAX

#define HOST_GIB_MAIN   128
#define STORE_MBPS_MAIN 3200
#define LINK_BPS_WIDE   32e9

const char *const figure_policy_names[FIGURE_POLICY_COUNT] = {"ideal",       "uvm",
							      "flashneuron", "deepum",
							      "g10-gds",     "g10-host",
							      "g10",         "sluice"};

const struct figure_model figure_models[FIGURE_MODEL_COUNT] = {
	{"BERT_Base",
	 "BERT",
	 256,
	 {128, 256, 512, 768, 1024},
	 {256, 384, 512, 640},
	 {0, 16, 32, 64, 128, 256, NO_HOST},
	 0,
	 512,
	 15},
	{"VIT",
	 "ViT",
	 1280,
	 {256, 512, 768, 1024, 1280},
	 {1024, 1280, 1536},
	 {0, 16, 32, 64, 128, 256, NO_HOST},
	 1024,
	 1280,
	 0},
	{"Inceptionv3",
	 "Inceptionv3",
	 1536,
	 {512, 768, 1024, 1280, 1536, 1792},
	 {512, 1024, 1280, 1536},
	 {0, 16, 32, 64, 128, 256, NO_HOST},
	 1280,
	 1536,
	 0},
	{"ResNet152",
	 "ResNet152",
	 1280,
	 {256, 512, 768, 1024, 1280},
	 {768, 1024, 1280, 1536},
	 {0, 16, 32, 64, 128, 192, 256, NO_HOST},
	 0,
	 1280,
	 10},
	{"SENet154",
	 "SENet154",
	 1024,
	 {256, 512, 768, 1024},
	 {256, 512, 768, 1024},
	 {0, 16, 32, 64, 96, 128, 256, NO_HOST},
	 0,
	 1024,
	 25},
};

static const uint32_t store_sweep_mbps[] = {6400, 12800, 19200, 25600, 32000};

static struct figure_key
key_make(unsigned model, uint32_t batch, enum figure_policy policy)
{
	return (struct figure_key){.model = model,
				   .batch = batch,
				   .host_gib = HOST_GIB_MAIN,
				   .store_mbps = STORE_MBPS_MAIN,
				   .policy = policy};
}

static int
key_is(const struct figure_key *a, const struct figure_key *b)
{
	return a->model == b->model && a->batch == b->batch &&
	       a->host_gib == b->host_gib && a->store_mbps == b->store_mbps &&
	       a->policy == b->policy && a->noise_percent == b->noise_percent;
}

/* ---- which ---- */

static int
cell_add(struct figures *figures, unsigned figure, const struct figure_key *key)
{
	struct figure_cell *cells = figures->cells;

	if (!(figures->wanted & 1u << figure))
		return 0;
	for (size_t i = 0; i < figures->n_cells; i++)
		if (key_is(&cells[i].key, key)) {
			cells[i].figures |= 1u << figure;
			return 0;
		}
	if (figures->n_cells == figures->max_cells) {
		size_t more = figures->max_cells ? figures->max_cells * 2 : 256;

		cells = realloc(cells, more * sizeof(*cells));
		if (!cells)
			return sl_fail(-ENOMEM,
				       "the cells of the figures: out of memory");
		figures->cells = cells;
		figures->max_cells = more;
	}
	memset(&cells[figures->n_cells], 0, sizeof(*cells));
	cells[figures->n_cells].key = *key;
	cells[figures->n_cells++].figures = 1u << figure;
	return 0;
}

/* The configuration under each of a set of policies. */
static int
cells_add(struct figures *figures, unsigned figure, struct figure_key key, unsigned policies)
{
	int rc = 0;

	for (int policy = 0; !rc && policy < FIGURE_POLICY_COUNT; policy++) {
		key.policy = (enum figure_policy)policy;
		if (policies & 1u << policy)
			rc = cell_add(figures, figure, &key);
	}
	return rc;
}

#define SET(policy)  (1u << FIGURE_##policy)
#define SET_ALL      ((1u << FIGURE_POLICY_COUNT) - 1)
#define SET_SHOWN    (SET(UVM) | SET(FLASHNEURON) | SET(DEEPUM) | SET(G10))
#define SET_ANY_SIZE (SET(IDEAL) | SET_SHOWN | SET(SLUICE))

static int
model_list(struct figures *figures, unsigned m)
{
	const struct figure_model *model = &figure_models[m];
	struct figure_key key = key_make(m, model->batch, FIGURE_IDEAL);
	int rc = cells_add(figures, 11, key, SET_ALL);

	for (unsigned figure = 12; !rc && figure <= 14; figure++)
		rc = cells_add(figures, figure, key, SET_SHOWN);
	for (unsigned i = 0; !rc && model->batches[i]; i++)
		rc = cells_add(figures, 15, key_make(m, model->batches[i], 0), SET_ANY_SIZE);
	for (unsigned i = 0; !rc && model->host_batches[i]; i++)
		for (unsigned h = 0; !rc && model->hosts[h] != NO_HOST; h++) {
			key = key_make(m, model->host_batches[i], 0);
			key.host_gib = model->hosts[h];
			rc = cells_add(figures, 16, key, SET(IDEAL) | SET(G10) | SET(SLUICE));
		}
	for (unsigned h = 0; !rc && model->host_batch && model->hosts[h] != NO_HOST; h++) {
		key = key_make(m, model->host_batch, 0);
		key.host_gib = model->hosts[h];
		rc = cells_add(figures, 17, key,
			       SET(FLASHNEURON) | SET(DEEPUM) | SET(G10) | SET(SLUICE));
	}
	for (unsigned i = 0; !rc && i < sizeof(store_sweep_mbps) / sizeof(uint32_t); i++) {
		key = key_make(m, model->store_batch, 0);
		key.store_mbps = store_sweep_mbps[i];
		rc = cells_add(figures, 18, key, SET_ANY_SIZE);
	}
	for (uint32_t noise = 0; !rc && noise <= 25; noise += 5) {
		key = key_make(m, model->batch, 0);
		key.noise_percent = noise;
		rc = cells_add(figures, 19, key, SET(IDEAL) | SET(G10) | SET(SLUICE));
	}
	return rc;
}

int
figures_cells_list(struct figures *figures)
{
	int rc = 0;

	for (unsigned m = 0; !rc && m < FIGURE_MODEL_COUNT; m++)
		rc = model_list(figures, m);
	return rc;
}

/* ---- running them ---- */

/* The traces that the cells need, each once. */
struct shelf {
	struct {
		unsigned model;
		uint32_t batch;
		struct sl_trace *trace; /* NULL: its files are not there */
	} * slots;
	size_t n;
};

struct crew {
	struct figures *figures;
	struct shelf shelf;
	atomic_size_t taken, done;
	pthread_mutex_t lock;
	int rc;                         /* lock: the first failure, */
	char text[SL_ERROR_TEXT_BYTES]; /* and its text */
};

static int
trace_take(struct shelf *shelf, const char *data, unsigned model, uint32_t batch,
	   const struct sl_trace **out)
{
	struct sl_import_g10 import = {.directory = data,
				       .model = figure_models[model].name,
				       .batch = batch};
	struct sl_trace *trace = NULL;
	void *slots;
	int rc;

	for (size_t i = 0; i < shelf->n; i++)
		if (shelf->slots[i].model == model && shelf->slots[i].batch == batch) {
			*out = shelf->slots[i].trace;
			return 0;
		}
	rc = sl_trace_import_g10(&import, &trace);
	if (rc && rc != -ENOENT)
		return rc;
	slots = realloc(shelf->slots, (shelf->n + 1) * sizeof(*shelf->slots));
	if (!slots) {
		sl_trace_destroy(trace);
		return sl_fail(-ENOMEM, "traces: out of memory");
	}
	shelf->slots = slots;
	shelf->slots[shelf->n].model = model;
	shelf->slots[shelf->n].batch = batch;
	shelf->slots[shelf->n++].trace = trace;
	*out = trace;
	return 0;
}

static void
shelf_fini(struct shelf *shelf)
{
	for (size_t i = 0; i < shelf->n; i++)
		sl_trace_destroy(shelf->slots[i].trace);
	free(shelf->slots);
}

static int
double_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* How much slower than alone the launches of the last period were. */
static int
slowdowns_sum(const struct sl_sim_result *result, struct figure_cell *cell)
{
	static const double above[FIGURE_ABOVE_COUNT] = {1.0001, 1.01, 1.1, 2};
	static const double share[FIGURE_QUANTILES] = {0.5, 0.9, 0.95, 0.99, 1};
	uint32_t n = result->n_launches;
	const struct sl_sim_launch *launches = result->launches +
					       (size_t)(result->n_periods - 1) * n;
	SL_CLEANUP(free) double *slow = malloc(((size_t)n + 1) * sizeof(*slow));

	if (!slow)
		return sl_fail(-ENOMEM, "slow-downs of %u launches: out of memory", n);
	for (uint32_t k = 0; k < n; k++)
		slow[k] = (double)(launches[k].end_ticks - launches[k].start_ticks) /
			  (double)launches[k].ideal_ticks;
	qsort(slow, n, sizeof(*slow), double_compare);
	for (unsigned i = 0; i < FIGURE_ABOVE_COUNT; i++) {
		uint32_t count = 0;

		for (uint32_t k = 0; k < n; k++)
			count += slow[k] > above[i];
		cell->above[i] = 100.0 * count / n;
	}
	for (unsigned i = 0; i < FIGURE_QUANTILES; i++) {
		double at = share[i] * (n - 1);
		size_t low = (size_t)at, high = low + 1 < n ? low + 1 : low;

		cell->quantile[i] = slow[low] +
				    (at - (double)low) * (slow[high] - slow[low]);
	}
	return 0;
}

static int
result_sum(const struct sl_sim_result *result, struct figure_cell *cell)
{
	const struct sl_sim_launch *launches = result->launches +
					       (size_t)result->best_period *
						       result->n_launches;

	cell->stall = cell->overlap = cell->compute = 0;
	cell->cycles = result->best_ticks;
	cell->ideal_cycles = result->ideal_ticks;
	for (int path = 0; path < SL_PATH_COUNT; path++)
		cell->pages[path] = result->bytes[path] / PAGE_BYTES;
	for (uint32_t k = 0; k < result->n_launches; k++) {
		cell->stall += (double)launches[k].stall_ticks;
		cell->overlap += (double)launches[k].overlap_ticks;
		cell->compute += (double)launches[k].compute_ticks;
	}
	/* The published script does so for Base UVM: its parts do not add up anyway. */
	if (cell->key.policy == FIGURE_UVM) {
		cell->stall -= cell->overlap;
		cell->overlap = 0;
	}
	return slowdowns_sum(result, cell);
}

static void
machine_fill(const struct figure_key *key, struct sl_machine *machine)
{
	sl_machine_g10(machine);
	machine->host_bytes = key->host_gib * GIB;
	machine->store_read_bps = machine->store_write_bps = key->store_mbps * 1e6;
	if (key->store_mbps > STORE_MBPS_MAIN)
		machine->link_in_bps = machine->link_out_bps = LINK_BPS_WIDE;
}

static int
cell_run(const struct sl_trace *trace, struct figure_cell *cell)
{
	const struct figure_model *model = &figure_models[cell->key.model];
	struct sl_planner_options planning = {.as_published = 1};
	struct sl_sim_options options = {.as_published = 1};
	int ours = cell->key.policy == FIGURE_SLUICE;
	/* Our plans are executed by the rules of G10's. */
	const struct sl_sim_policy *policy = g10_policy_find(
		ours ? "g10" : figure_policy_names[cell->key.policy]);
	const struct sl_planner *planner = g10_planner_find(ours ? "sluice" : "g10");
	struct sl_sim_result result;
	struct sl_machine machine;
	struct sl_trace noisy;
	struct sl_plan *plan = NULL;
	uint64_t begin_ns = sl_now_ns();
	int rc;

	machine_fill(&cell->key, &machine);
	if (!policy)
		return 0;
	if (ours || cell->key.policy == FIGURE_G10) {
		if (!planner)
			return 0;
		rc = planner->make(trace, &machine, &planning, &plan);
		if (rc == -ENOSPC) {
			cell->ran = cell->failed = 1;
			snprintf(cell->why, sizeof(cell->why), "%.255s", sluice_last_error());
			return 0;
		}
		if (rc)
			return rc;
	}
	rc = g10_noise_make(trace, cell->key.noise_percent / 100.0, (uint32_t)model->seed,
			    &noisy);
	if (!rc) {
		rc = policy->run(cell->key.noise_percent ? &noisy : trace, &machine, plan,
				 &options, &result);
		g10_noise_fini(&noisy);
	}
	if (ours && !cell->key.noise_percent)
		cell->plan = plan;
	else
		sl_plan_destroy(plan);
	if (rc)
		return rc;
	cell->ran = 1;
	cell->failed = result.failed;
	memcpy(cell->why, result.why, sizeof(cell->why));
	if (!result.failed)
		rc = result_sum(&result, cell);
	sl_sim_result_fini(&result);
	cell->run_s = (double)(sl_now_ns() - begin_ns) / 1e9;
	return rc;
}

/* Both of our planner without noise, the same trace, and `more` has at least as much. */
static int
cell_has_more(const struct figure_cell *more, const struct figure_cell *less)
{
	return more->plan && less->plan && more->key.model == less->key.model &&
	       more->key.batch == less->key.batch &&
	       more->key.host_gib >= less->key.host_gib &&
	       more->key.store_mbps >= less->key.store_mbps;
}

static const struct sl_trace *
shelf_find(const struct shelf *shelf, const struct figure_key *key)
{
	for (size_t s = 0; s < shelf->n; s++)
		if (shelf->slots[s].model == key->model && shelf->slots[s].batch == key->batch)
			return shelf->slots[s].trace;
	return NULL;
}

/* A machine that has more can do what one with less does: carry out its plan. */
static int
cell_take_plan(const struct sl_trace *trace, struct figure_cell *cell,
	       const struct figure_cell *less)
{
	struct sl_sim_options options = {.as_published = 1};
	struct sl_sim_result result;
	struct sl_machine machine;
	int rc;

	machine_fill(&cell->key, &machine);
	rc = g10_policy_g10.run(trace, &machine, less->plan, &options, &result);
	if (rc)
		return rc;
	if (!result.failed && result.best_ticks < cell->cycles)
		rc = result_sum(&result, cell);
	sl_sim_result_fini(&result);
	return rc;
}

static int
cells_take_plans(struct figures *figures, const struct shelf *shelf)
{
	int rc = 0;

	for (size_t i = 0; i < figures->n_cells; i++)
		for (size_t j = 0; !rc && j < figures->n_cells; j++) {
			struct figure_cell *more = &figures->cells[i];
			const struct figure_cell *less = &figures->cells[j];

			if (cell_has_more(more, less) && !less->failed &&
			    less->cycles < more->cycles)
				rc = cell_take_plan(shelf_find(shelf, &more->key), more,
						    less);
		}
	return rc;
}

/* Run one cell that nobody has taken. 0: there is none left, or one has failed. */
static int
crew_step(struct crew *crew)
{
	struct figures *figures = crew->figures;
	size_t i = atomic_fetch_add(&crew->taken, 1);
	const struct sl_trace *trace;
	struct figure_cell *cell;
	int rc;

	if (i >= figures->n_cells)
		return 0;
	/* The large models are last in the list: begin with them. */
	cell = &figures->cells[figures->n_cells - 1 - i];
	trace = shelf_find(&crew->shelf, &cell->key);
	rc = trace ? cell_run(trace, cell) : 0;
	atomic_fetch_add(&crew->done, 1);
	if (!rc)
		return 1;
	pthread_mutex_lock(&crew->lock);
	if (!crew->rc) {
		crew->rc = rc;
		snprintf(crew->text, sizeof(crew->text), "%s %s at batch %u: %.400s",
			 figure_models[cell->key.model].title,
			 figure_policy_names[cell->key.policy], cell->key.batch,
			 sluice_last_error());
	}
	pthread_mutex_unlock(&crew->lock);
	atomic_store(&crew->taken, figures->n_cells);
	return 0;
}

static void *
crew_work(void *arg)
{
	while (crew_step(arg))
		;
	return NULL;
}

/* Every trace that the cells need, and those of the main batches. */
static int
traces_read(struct figures *figures, struct shelf *shelf)
{
	const struct sl_trace *trace;
	int rc = 0;

	for (unsigned m = 0; !rc && m < FIGURE_MODEL_COUNT; m++) {
		rc = trace_take(shelf, figures->data, m, figure_models[m].batch, &trace);
		figures->there[m] = !rc && trace;
	}
	for (size_t i = 0; !rc && i < figures->n_cells; i++)
		rc = trace_take(shelf, figures->data, figures->cells[i].key.model,
				figures->cells[i].key.batch, &trace);
	return rc;
}

int
figures_cells_run(struct figures *figures)
{
	struct crew crew = {.figures = figures, .lock = PTHREAD_MUTEX_INITIALIZER};
	uint64_t begin_ns = sl_now_ns();
	pthread_t threads[JOBS_MAX];
	struct progress progress = {0};
	unsigned started = 0;
	int rc = traces_read(figures, &crew.shelf);

	if (rc)
		goto done;
	fprintf(stderr, "%zu configurations on %u threads\n", figures->n_cells,
		figures->n_jobs);
	progress_begin(&progress, "simulating");
	/* This thread works as well: fewer threads than asked for are no failure. */
	while (started + 1 < figures->n_jobs && started < JOBS_MAX &&
	       pthread_create(&threads[started], NULL, crew_work, &crew) == 0)
		started++;
	while (crew_step(&crew))
		progress_update(&progress, NULL,
				(double)atomic_load(&crew.done) / (double)figures->n_cells);
	while (started > 0)
		pthread_join(threads[--started], NULL);
	progress_end(&progress);
	if (crew.rc)
		rc = sl_fail_text(crew.rc, crew.text);
	else
		rc = cells_take_plans(figures, &crew.shelf);
	figures->run_s = (double)(sl_now_ns() - begin_ns) / 1e9;
done:
	shelf_fini(&crew.shelf);
	return rc;
}

void
figures_fini(struct figures *figures)
{
	for (size_t i = 0; i < figures->n_cells; i++)
		sl_plan_destroy(figures->cells[i].plan);
	free(figures->cells);
	memset(figures, 0, sizeof(*figures));
}

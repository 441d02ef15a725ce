/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rows there are: each part's workloads, points and variants, with footprints and budgets.
 *
 * DRAGON's platform had a GPU of 12 GiB, 64 GiB of host memory and data from 4 to 256 GiB; here the
 * device budget is the scale, the host budget 16/3 of it, and the data 1/3, 2/3, ... 64/3 of it. UVM
 * Discard's ratio is the footprint over the device's memory; the host has room for everything. The
 * workloads come from the table of workloads by name: what is not there has no rows.
 *
 * Rows that use the same input files stand together.
 *
 * Threads: one.
 */
#include "suite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES          (2ull << 20)
/* On a GPU, of tables that times are demanded of: a move costs the driver's time for mapping, some 40 to 60
 * us whatever its size, which for 2 MiB is more than the copy. Large regions have these, too. */
#define CUDA_CHUNK_BYTES     (16ull << 20)
#define CUDA_CHUNK_BYTES_MAX (64ull << 20)
#define CUDA_CHUNKS          128u /* of a footprint, at least */
#define HOST_THIRDS          16u  /* host budget over device budget, DRAGON */
/* Footprints of the tables over the scale: cells that are compared to 0.03 GB at the paper's size
 * need many chunks, the others move their footprint many times over. */
#define DETERMINED_FOOTPRINT 16u
#define TABLES_FOOTPRINT     4u
#define QUICK_FOOTPRINT      3u /* but of networks, whose largest layers need the room */
#define HOST_SLACK_CHUNKS \
	32u /* beyond the footprint, where the host has room for everything */
#define DEVICE_CHUNKS_LEAST  12u
/* Where a difference of one or two percent is looked for; on a GPU in a quick run, where each
 * repetition opens it anew. */
#define PERCENT_REPEAT       5u
#define PERCENT_REPEAT_QUICK 3u
/* Training that takes longer than reading: the claim is about a disk below saturation. */
#define BATCH_STEPS          64u

const char *const suite_ratio_names[SUITE_RATIOS] = {"1/3",  "2/3",  "4/3", "8/3",
						     "16/3", "32/3", "64/3"};
const double suite_ratio_values[SUITE_RATIOS] = {1 / 3.0,  2 / 3.0,  4 / 3.0, 8 / 3.0,
						 16 / 3.0, 32 / 3.0, 64 / 3.0};
static const unsigned ratio_thirds[SUITE_RATIOS] = {1, 2, 4, 8, 16, 32, 64};

const char *const suite_reserve_names[SUITE_RESERVES] = {"0", "1/4", "1/2", "3/4", "1"};
static const unsigned reserve_quarters[SUITE_RESERVES] = {0, 1, 2, 3, 4};
#define RESERVE_RATIO 4 /* footprint of figure 6: 16/3 */

const char *const suite_over_names[SUITE_OVERS] = {"<100 %", "200 %", "300 %", "400 %"};
static const unsigned over_percent[SUITE_OVERS] = {80, 200, 300, 400};

const char *const suite_part_names[SUITE_PART_COUNT] = {
	[SUITE_FITS] = "fits", [SUITE_FIG3] = "fig3",     [SUITE_FIG5] = "fig5",
	[SUITE_FIG6] = "fig6", [SUITE_TABLES] = "tables", [SUITE_BATCHES] = "batches",
};

const char *const suite_variant_names[SUITE_VARIANT_COUNT] = {
	[SUITE_SLUICE] = "sluice",
	[SUITE_SLUICE_NO_AHEAD] = "sluice-no-ahead",
	[SUITE_DRAGON] = "dragon",
	[SUITE_DRAGON_NO_AHEAD] = "dragon-no-ahead",
	[SUITE_UVM] = "uvm",
	[SUITE_COPIES] = "copies",
	[SUITE_CACHED] = "cached",
	[SUITE_STREAMING] = "streaming",
	[SUITE_MAPPED] = "mapped",
	[SUITE_MMAP] = "mmap",
	[SUITE_NONE] = "none",
	[SUITE_EAGER] = "eager",
	[SUITE_LAZY] = "lazy",
	[SUITE_INTENTS] = "intents",
	[SUITE_INTENTS_LAZY] = "intents-lazy",
	[SUITE_FETCH_INDEX] = "index",
	[SUITE_FETCH_LAUNCH] = "launch",
	[SUITE_FETCH_HAND] = "hand",
};

const char *const suite_status_names[SUITE_STATUS_COUNT] = {
	[SUITE_PLANNED] = "planned",
	[SUITE_DONE] = "done",
	[SUITE_REFUSED] = "refused",
	[SUITE_FAILED] = "failed",
};

int
suite_discard_option(const struct workload *workload)
{
	for (unsigned i = 0; i < workload->n_options; i++)
		if (strcmp(workload->options[i].name, "discard") == 0 &&
		    workload->options[i].choices)
			return (int)i;
	return -1;
}

int
suite_row_add(struct suite *suite, const struct suite_row *row)
{
	struct suite_row *rows;
	unsigned max = suite->max_rows ? suite->max_rows * 2 : 64;

	if (suite->n_rows == SUITE_ROWS_MAX)
		return sl_fail(-E2BIG, "suite: more than %u rows", SUITE_ROWS_MAX);
	if (suite->n_rows == suite->max_rows) {
		rows = realloc(suite->rows, max * sizeof(*rows));
		if (!rows)
			return sl_fail(-ENOMEM, "suite: out of memory for rows");
		suite->rows = rows;
		suite->max_rows = max;
	}
	suite->rows[suite->n_rows++] = *row;
	return 0;
}

struct suite_row *
suite_row_find(const struct suite *suite, int cuda, enum suite_part part,
	       const char *workload, enum suite_variant variant, const char *point)
{
	for (unsigned i = 0; i < suite->n_rows; i++) {
		struct suite_row *row = &suite->rows[i];

		if (row->cuda == cuda && row->part == part && row->variant == variant &&
		    strcmp(row->workload, workload) == 0 && strcmp(row->point, point) == 0)
			return row;
	}
	return NULL;
}

const struct suite_row *
suite_row_done(const struct suite *suite, int cuda, enum suite_part part,
	       const char *workload, enum suite_variant variant, const char *point)
{
	const struct suite_row *row = suite_row_find(suite, cuda, part, workload, variant,
						     point);

	return row && row->status == SUITE_DONE ? row : NULL;
}

unsigned
suite_rows_in_turn(const struct suite *suite, unsigned i, unsigned n_rows)
{
	const struct suite_row *first = &suite->rows[i];
	unsigned n = 1;

	while (first->in_turn && i + n < n_rows && first[n].in_turn &&
	       first[n].cuda == first->cuda && first[n].part == first->part &&
	       strcmp(first[n].workload, first->workload) == 0 &&
	       strcmp(first[n].point, first->point) == 0)
		n++;
	return n;
}

static uint64_t
whole_down(uint64_t bytes, uint64_t chunk_bytes)
{
	return bytes / chunk_bytes * chunk_bytes;
}

static uint64_t
chunks_down(uint64_t bytes)
{
	return whole_down(bytes, CHUNK_BYTES);
}

/* What rows of a part and workload have in common. */
static struct suite_row
row_make(const struct suite *suite, enum suite_part part, const struct workload *workload)
{
	struct suite_row row = {
		.cuda = suite->cuda,
		.part = part,
		.chunk_bytes = CHUNK_BYTES,
		.device_bytes = chunks_down(suite->scale_bytes),
		.host_bytes = chunks_down(suite->scale_bytes * HOST_THIRDS / 3),
		.repeat = suite->repeat,
	};

	snprintf(row.workload, sizeof(row.workload), "%s", workload->name);
	return row;
}

static int
point_is_wanted(const struct suite *suite, const char *point)
{
	for (unsigned i = 0; i < suite->n_points; i++)
		if (strcmp(suite->points[i], point) == 0)
			return 1;
	return suite->n_points == 0;
}

static int
variants_add(struct suite *suite, struct suite_row row,
	     const enum suite_variant *variants, unsigned n)
{
	int rc = 0;

	if (!point_is_wanted(suite, row.point))
		return 0;
	for (unsigned i = 0; !rc && i < n; i++) {
		row.variant = variants[i];
		rc = suite_row_add(suite, &row);
	}
	return rc;
}

/* A footprint of thirds/3 of the device. */
static void
ratio_set(struct suite_row *row, const struct suite *suite, unsigned ratio)
{
	snprintf(row->point, sizeof(row->point), "%s", suite_ratio_names[ratio]);
	row->at = suite_ratio_values[ratio];
	row->footprint_bytes = suite->scale_bytes / 3 * ratio_thirds[ratio];
}

/* The rows of this point are compared within a percent or two. */
static void
in_turn_set(struct suite_row *row, const struct suite *suite)
{
	uint64_t least = suite->quick ? PERCENT_REPEAT_QUICK : PERCENT_REPEAT;

	row->in_turn = 1;
	if (row->repeat < least)
		row->repeat = least;
}

static int
fits_plan(struct suite *suite, const struct workload *workload)
{
	static const enum suite_variant variants[] = {SUITE_SLUICE, SUITE_COPIES};
	int rc = 0;

	/* A quick run on a GPU has sizes of a millisecond, which say nothing of this. */
	for (unsigned ratio = 0; !rc && ratio < 2 && !(suite->cuda && suite->quick); ratio++) {
		struct suite_row row = row_make(suite, SUITE_FITS, workload);

		ratio_set(&row, suite, ratio);
		row.in_memory = 1;
		in_turn_set(&row, suite);
		rc = variants_add(suite, row, variants, 2);
	}
	return rc;
}

/* Of a quick run: the point that has all variants, and those that a GPU is run at. */
#define QUICK_RATIO 4
static const char quick_cuda_ratios[SUITE_RATIOS] = {[1] = 1, [4] = 1};

static int
fig3_plan(struct suite *suite, const struct workload *workload)
{
	/* What the claims are about first; the rest is for the pictures. */
	static const enum suite_variant soft[] = {SUITE_SLUICE, SUITE_COPIES,
						  SUITE_DRAGON, SUITE_UVM, SUITE_MMAP};
	static const enum suite_variant cuda[] = {SUITE_SLUICE, SUITE_CACHED, SUITE_COPIES,
						  SUITE_STREAMING, SUITE_MAPPED};
	int rc = 0;

	for (unsigned ratio = 0; !rc && ratio < SUITE_RATIOS; ratio++) {
		struct suite_row row = row_make(suite, SUITE_FIG3, workload);
		unsigned all = suite->quick && ratio != QUICK_RATIO ? 3 : 5;

		if (suite->quick && suite->cuda && !quick_cuda_ratios[ratio])
			continue;
		ratio_set(&row, suite, ratio);
		row.in_turn = !suite->cuda; /* how fast a disk is changes by half in minutes */
		rc = variants_add(suite, row, suite->cuda ? cuda : soft, all);
	}
	return rc;
}

/* Figure 5: vectorAdd and hotspot at 8, 64 and 256 GiB, there with a GPU of 12 GiB. */
static int
fig5_plan(struct suite *suite, const struct workload *workload)
{
	static const enum suite_variant variants[] = {SUITE_DRAGON_NO_AHEAD, SUITE_DRAGON,
						      SUITE_SLUICE_NO_AHEAD, SUITE_SLUICE};
	static const unsigned ratios[] = {1, 4, 6};
	int rc = 0;

	if (workload != suite_workload("vectoradd") &&
	    workload != suite_workload("hotspot"))
		return 0;
	for (unsigned i = 0; !rc && i < 3; i++) {
		struct suite_row row = row_make(suite, SUITE_FIG5, workload);

		if (suite->quick && suite->cuda && ratios[i] != QUICK_RATIO)
			continue;
		ratio_set(&row, suite, ratios[i]);
		/* A GPU has no faults to read ahead of. */
		rc = suite->cuda ? variants_add(suite, row, variants + 2, 2)
				 : variants_add(suite, row, variants, 4);
	}
	return rc;
}

static int
fig6_plan(struct suite *suite, const struct workload *workload)
{
	static const enum suite_variant variants[] = {SUITE_SLUICE, SUITE_DRAGON};
	int rc = 0;

	if (workload != suite_workload("backprop") && workload != suite_workload("srad"))
		return 0;
	for (unsigned i = 0; !rc && i < SUITE_RESERVES; i++) {
		struct suite_row row = row_make(suite, SUITE_FIG6, workload);

		ratio_set(&row, suite, RESERVE_RATIO);
		snprintf(row.point, sizeof(row.point), "%s", suite_reserve_names[i]);
		row.at = reserve_quarters[i] / 4.0;
		row.reserve_bytes = chunks_down(row.host_bytes / 4 * reserve_quarters[i]);
		rc = variants_add(suite, row, variants, suite->cuda ? 1 : 2);
	}
	return rc;
}

/* The device's memory for a footprint oversubscribed so; in between, a whole chunk. */
static int
over_set(struct suite_row *row, const struct suite *suite,
	 const struct workload *workload, const char *model, unsigned over)
{
	struct workload_params params;
	struct workload_plan plan;
	char error[WORKLOAD_TEXT_BYTES];
	int rc = workload_params_init(workload, &params);

	if (!rc && model)
		rc = suite_option_set(&params, workload, "model", model);
	if (rc)
		return rc;
	params.footprint_bytes = row->footprint_bytes;
	params.config.chunk_bytes = row->chunk_bytes;
	params.config.device = suite->cuda ? SLUICE_DEVICE_CUDA : SLUICE_DEVICE_SOFT;
	params.config.device_budget_bytes = row->footprint_bytes;
	if (workload_plan_make(workload, &params, &plan, error))
		return 1; /* not on this device, or not at this size */
	snprintf(row->point, sizeof(row->point), "%s", suite_over_names[over]);
	row->at = over_percent[over];
	row->device_bytes = whole_down(plan.footprint_bytes * 100 / over_percent[over],
				       row->chunk_bytes);
	row->host_bytes = whole_down(plan.footprint_bytes + plan.footprint_bytes / 8,
				     row->chunk_bytes) +
			  HOST_SLACK_CHUNKS * row->chunk_bytes;
	return 0;
}

/* A network of convolutions and a recurrent one, of which the paper's text gives numbers. */
static int
model_is_quick(const char *model)
{
	return strcmp(model, "vgg16") == 0 || strcmp(model, "rnn") == 0;
}

/* Each chunk costs calls of the driver: as large as leaves enough of them. */
static uint64_t
cuda_chunk(uint64_t footprint_bytes)
{
	uint64_t bytes = CUDA_CHUNK_BYTES;

	while (bytes < CUDA_CHUNK_BYTES_MAX && 2 * bytes * CUDA_CHUNKS <= footprint_bytes)
		bytes *= 2;
	return bytes;
}

static int
table_plan(struct suite *suite, const struct workload *workload,
	   const struct suite_table *table)
{
	static const enum suite_variant variants[] = {SUITE_NONE, SUITE_EAGER, SUITE_LAZY,
						      SUITE_INTENTS, SUITE_INTENTS_LAZY};
	int has_large = suite->cuda && !table->determined && !table->model;
	unsigned times = table->determined || (has_large && suite->quick)
				 ? DETERMINED_FOOTPRINT
			 : suite->quick && !table->model ? QUICK_FOOTPRINT
							 : TABLES_FOOTPRINT;
	int rc = 0;

	if (suite->quick && table->model && !model_is_quick(table->model))
		return 0;
	for (unsigned over = 0; !rc && over < SUITE_OVERS; over++) {
		struct suite_row row = row_make(suite, SUITE_TABLES, workload);

		row.footprint_bytes = suite->scale_bytes * times;
		row.chunk_bytes = has_large ? cuda_chunk(row.footprint_bytes) : CHUNK_BYTES;
		row.in_memory = 1;
		row.link_bytes_per_s = suite->cuda ? 0 : suite->link_bytes_per_s;
		(void)suite_table_rows(table, row.workload);
		rc = over_set(&row, suite, workload, table->model, over);
		if (rc > 0)
			return 0;
		/* Their claims are about what fits and about 200 %. */
		if (!rc && suite->quick && !table->determined && over > 1)
			continue;
		if (over == 0)
			in_turn_set(&row, suite);
		if (!rc)
			rc = variants_add(suite, row, variants, suite->quick ? 3 : 5);
	}
	return rc;
}

/* Data of 64/3 of the device's memory, host memory as much as the device has. */
static int
batches_plan(struct suite *suite, const struct workload *workload)
{
	static const enum suite_variant variants[] = {SUITE_FETCH_INDEX,
						      SUITE_FETCH_LAUNCH, SUITE_FETCH_HAND};
	struct suite_row row = row_make(suite, SUITE_BATCHES, workload);

	if (workload != suite_workload("minibatch"))
		return 0;
	ratio_set(&row, suite, SUITE_RATIOS - 1);
	row.host_bytes = row.device_bytes;
	row.steps = suite->cuda ? SUITE_STEPS_AUTO : BATCH_STEPS;
	if (suite->cuda)
		row.in_turn = 1; /* files as they are on a GPU are read for long enough */
	else
		in_turn_set(&row, suite);
	return variants_add(suite, row, variants, 3);
}

static int
tables_plan(struct suite *suite, const struct workload *workload)
{
	int rc = 0;

	for (unsigned i = 0; !rc && i < suite_n_tables; i++)
		if (suite_table_workload(&suite_tables[i]) == workload &&
		    suite_discard_option(workload) >= 0)
			rc = table_plan(suite, workload, &suite_tables[i]);
	return rc;
}

/* Whether one of DRAGON's applications is this workload. */
static int
is_dragon_app(const struct workload *workload)
{
	for (const char *const *app = suite_dragon_apps; *app; app++)
		if (suite_workload(*app) == workload)
			return 1;
	return 0;
}

int
suite_rows_plan(struct suite *suite)
{
	static int (*const plans[SUITE_PART_COUNT])(struct suite * suite,
						    const struct workload *workload) = {
		[SUITE_FITS] = fits_plan,     [SUITE_FIG3] = fig3_plan,
		[SUITE_FIG5] = fig5_plan,     [SUITE_FIG6] = fig6_plan,
		[SUITE_TABLES] = tables_plan, [SUITE_BATCHES] = batches_plan,
	};
	int rc = 0;

	if ((suite->parts & ~(1u << SUITE_TABLES)) &&
	    suite->scale_bytes < DEVICE_CHUNKS_LEAST * CHUNK_BYTES)
		return sl_fail(-EINVAL, "suite: a device of %llu MiB is too small: at least %llu MiB",
			       (unsigned long long)(suite->scale_bytes >> 20),
			       (unsigned long long)(DEVICE_CHUNKS_LEAST * CHUNK_BYTES >> 20));
	for (unsigned part = 0; !rc && part < SUITE_PART_COUNT; part++) {
		if (!(suite->parts & 1u << part))
			continue;
		for (const struct workload *const *w = workloads_list; !rc && *w; w++) {
			if (suite->only_workload && suite->only_workload != *w)
				continue;
			if (part == SUITE_TABLES || part == SUITE_BATCHES ||
			    is_dragon_app(*w))
				rc = plans[part](suite, *w);
		}
	}
	return rc;
}

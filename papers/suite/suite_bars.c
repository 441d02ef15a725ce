/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two papers' claims ask of this system, judged over the rows of one device: bytes that
 * follow from sizes and policy are compared with what they must be, times with what is demanded of
 * them. A bar without rows is not judged. One that only reports a number says so.
 *
 * Threads: one.
 */
#include "suite.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sluice/sluice.h"

#define BEST_SPEED      2.3  /* pathfinder over read-then-copy */
#define MEAN_REDUCTION  45.0 /* percent less time, on average */
#define FITS_OVER       2.0  /* percent over explicit copies */
#define LAZY_OVER       1.0  /* percent over no discard when all fits */
#define JOIN_REDUCTION  85.8 /* percent less traffic at 200 % */
#define JOIN_SPEED      4.0
#define TRAIN_REDUCTION 60.0
#define JOIN_CHUNKS     4 /* that its traffic may be off, which is told in chunks */
#define TRAIN_CHUNKS    0
#define BATCHES_THERE   95.0 /* percent of them on the device when they are needed */
#define BATCHES_OVER \
	2.0          /* percent that clocks differ by where kernels are all there is */
#define CELL_GB 0.03 /* of a determined cell, at the paper's size */

struct judge {
	const struct suite *suite;
	int cuda;
	struct suite_bar *bars;
	unsigned n;
};

static struct suite_bar *bar_new(struct judge *judge, const char *bar, const char *fmt, ...)
	SL_PRINTF(3, 4);

static struct suite_bar *
bar_new(struct judge *judge, const char *bar, const char *fmt, ...)
{
	static struct suite_bar beyond;
	struct suite_bar *b = judge->n < SUITE_BARS_MAX ? &judge->bars[judge->n++] : &beyond;
	va_list ap;

	memset(b, 0, sizeof(*b));
	va_start(ap, fmt);
	vsnprintf(b->what, sizeof(b->what), fmt, ap);
	va_end(ap);
	snprintf(b->bar, sizeof(b->bar), "%s", bar);
	b->passed = 1;
	return b;
}

static double
percent_less(double ours, double theirs)
{
	return theirs > 0 ? 100 * (1 - ours / theirs) : 0;
}

static double
traffic(const struct suite_row *row)
{
	return (double)row->h2d_bytes + (double)row->d2h_bytes;
}

/* What the tables of runtimes compare. */
static double
table_s(const struct suite_row *row)
{
	return row->cuda ? row->measured_s : row->run_s;
}

double
suite_copies_s(const struct suite *suite, int cuda, const char *workload, unsigned ratio,
	       int *extrapolated)
{
	enum suite_variant base = suite_copies_variant(cuda);
	const struct suite_row *row = suite_row_done(suite, cuda, SUITE_FIG3, workload,
						     base, suite_ratio_names[ratio]);
	double n = 0, x = 0, y = 0, xx = 0, xy = 0, slope;

	*extrapolated = 0;
	if (row)
		return row->total_s;
	for (unsigned i = 0; i < SUITE_RATIOS; i++) {
		row = suite_row_done(suite, cuda, SUITE_FIG3, workload, base,
				     suite_ratio_names[i]);
		if (!row || suite_ratio_values[i] < 1)
			continue; /* in the device all is copied once: another line */
		n++;
		x += row->at;
		y += row->total_s;
		xx += row->at * row->at;
		xy += row->at * row->total_s;
	}
	if (n < 2)
		return 0;
	*extrapolated = 1;
	slope = (n * xy - x * y) / (n * xx - x * x);
	return y / n + slope * (suite_ratio_values[ratio] - x / n);
}

/* ---- all rows ---- */

static void
rows_judge(struct judge *judge)
{
	struct suite_bar *bar = bar_new(judge, "none fails, results equal the reference",
					"every row");
	unsigned done = 0, verified = 0, refused = 0, failed = 0;

	for (unsigned i = 0; i < judge->suite->n_rows; i++) {
		const struct suite_row *row = &judge->suite->rows[i];

		if (row->cuda != judge->cuda || row->status == SUITE_PLANNED)
			continue;
		bar->n++;
		done += row->status == SUITE_DONE;
		verified += row->status == SUITE_DONE && row->verdict == WORKLOAD_VERIFIED;
		refused += row->status == SUITE_REFUSED;
		failed += row->status == SUITE_FAILED;
	}
	bar->passed = failed == 0;
	snprintf(bar->note,
		 sizeof(bar->note), "%u run, %u of them compared with the reference, %u do not fit, %u failed",
		 done, verified, refused, failed);
}

static double
bytes_off(uint64_t have, uint64_t want)
{
	return have > want ? (double)(have - want) : (double)(want - have);
}

static void
determined_judge(struct judge *judge)
{
	struct suite_bar *bar =
		bar_new(judge, "equal, but for rounding to chunks and tiles",
			"bytes over the link that follow from size and policy");
	char first[112] = "";
	unsigned good = 0;

	for (unsigned i = 0; i < judge->suite->n_rows; i++) {
		const struct suite_row *row = &judge->suite->rows[i];
		double in = bytes_off(row->h2d_bytes, row->expected_h2d_bytes);
		double out = bytes_off(row->d2h_bytes, row->expected_d2h_bytes);

		if (row->cuda != judge->cuda || row->status != SUITE_DONE || !row->expected)
			continue;
		bar->n++;
		if (in <= (double)row->tolerance_bytes &&
		    out <= (double)row->tolerance_bytes) {
			good++;
			continue;
		}
		if (!first[0])
			snprintf(first, sizeof(first),
				 "; first off: %s %s %s %s, %.1f MiB in, %.1f MiB out",
				 suite_part_names[row->part], row->workload, row->point,
				 suite_variant_names[row->variant], in / 0x1p20,
				 out / 0x1p20);
	}
	bar->passed = good == bar->n;
	snprintf(bar->note, sizeof(bar->note), "%u of %u rows%s", good, bar->n, first);
}

/* ---- DRAGON ---- */

static void
fig3_judge(struct judge *judge)
{
	struct suite_bar *best =
		bar_new(judge, ">= 2.3 x (paper: 2.3 x)",
			"figure 3: pathfinder, best speed over read-then-copy");
	struct suite_bar *mean = bar_new(judge, ">= 45 % (paper: 31.7 %)",
					 "figure 3: less time than read-then-copy, mean");
	const struct workload *pathfinder = suite_workload("pathfinder");
	double sum = 0, measured_sum = 0, speed = 0;
	unsigned measured = 0;

	for (unsigned i = 0; i < judge->suite->n_rows; i++) {
		const struct suite_row *row = &judge->suite->rows[i];
		unsigned ratio = 0;
		int extrapolated;
		double theirs;

		if (row->cuda != judge->cuda || row->part != SUITE_FIG3 ||
		    row->variant != SUITE_SLUICE || row->status != SUITE_DONE)
			continue;
		while (ratio + 1 < SUITE_RATIOS &&
		       strcmp(suite_ratio_names[ratio], row->point) != 0)
			ratio++;
		theirs = suite_copies_s(judge->suite, judge->cuda, row->workload, ratio,
					&extrapolated);
		if (theirs <= 0)
			continue;
		mean->n++;
		sum += percent_less(row->total_s, theirs);
		if (!extrapolated) {
			measured++;
			measured_sum += percent_less(row->total_s, theirs);
		}
		if (pathfinder && strcmp(row->workload, pathfinder->name) == 0) {
			best->n++;
			if (theirs / row->total_s > speed)
				speed = theirs / row->total_s;
		}
	}
	best->passed = speed >= BEST_SPEED;
	snprintf(best->note, sizeof(best->note), "%.2f x", speed);
	if (!mean->n)
		return;
	mean->passed = sum / mean->n >= MEAN_REDUCTION;
	snprintf(mean->note, sizeof(mean->note),
		 "%.1f %%; where read-then-copy was measured, not extrapolated, %.1f %%",
		 sum / mean->n, measured ? measured_sum / measured : 0);
}

static void
fits_judge(struct judge *judge)
{
	struct suite_bar *bar = bar_new(judge, "<= 2 % over explicit copies",
					"sizes within the device, no disk: time");
	const struct suite_row *worst = NULL;
	double most = -INFINITY, sum = 0;

	for (unsigned i = 0; i < judge->suite->n_rows; i++) {
		const struct suite_row *row = &judge->suite->rows[i], *copies;
		double over;

		if (row->cuda != judge->cuda || row->part != SUITE_FITS ||
		    row->variant != SUITE_SLUICE || row->status != SUITE_DONE)
			continue;
		copies = suite_row_done(judge->suite, judge->cuda, SUITE_FITS,
					row->workload, SUITE_COPIES, row->point);
		if (!copies)
			continue;
		over = judge->cuda
			       ? 100 * (row->least_measured_s / copies->least_measured_s - 1)
			       : 100 * (row->least_total_s / copies->least_total_s - 1);
		bar->n++;
		sum += over;
		if (over > most) {
			most = over;
			worst = row;
		}
	}
	if (!worst)
		return;
	bar->passed = most <= FITS_OVER;
	snprintf(bar->note, sizeof(bar->note), "worst %+.1f %% (%s at %s), mean %+.1f %%",
		 most, worst->workload, worst->point, sum / bar->n);
}

static void
ahead_judge(struct judge *judge)
{
	static const enum suite_variant pairs[][2] = {{SUITE_DRAGON, SUITE_DRAGON_NO_AHEAD},
						      {SUITE_SLUICE, SUITE_SLUICE_NO_AHEAD}};
	struct suite_bar *bytes = bar_new(judge, "the same with and without",
					  "figure 5: bytes over the link and from files");
	struct suite_bar *speed = bar_new(judge, "reported (paper: \"significant\")",
					  "figure 5: time without read-ahead over with");
	double most = 0, sum = 0;

	speed->reported = 1;
	for (unsigned i = 0; i < judge->suite->n_rows; i++) {
		const struct suite_row *on = &judge->suite->rows[i], *off = NULL;

		if (on->cuda != judge->cuda || on->part != SUITE_FIG5 ||
		    on->status != SUITE_DONE)
			continue;
		for (unsigned p = 0; p < 2; p++)
			if (on->variant == pairs[p][0])
				off = suite_row_done(judge->suite, judge->cuda, SUITE_FIG5,
						     on->workload, pairs[p][1], on->point);
		if (!off)
			continue;
		bytes->n++;
		if (on->h2d_bytes != off->h2d_bytes || on->read_bytes != off->read_bytes) {
			bytes->passed = 0;
			snprintf(bytes->note,
				 sizeof(bytes->note), "%s at %s, %s: %.1f and %.1f MiB in, %.1f and %.1f MiB read",
				 on->workload, on->point, suite_variant_names[on->variant],
				 (double)on->h2d_bytes / 0x1p20,
				 (double)off->h2d_bytes / 0x1p20,
				 (double)on->read_bytes / 0x1p20,
				 (double)off->read_bytes / 0x1p20);
		}
		if (on->variant != SUITE_DRAGON && !judge->cuda)
			continue; /* the launches' own reading ahead is another */
		speed->n++;
		sum += off->total_s / on->total_s;
		if (off->total_s / on->total_s > most)
			most = off->total_s / on->total_s;
	}
	if (speed->n)
		snprintf(speed->note, sizeof(speed->note), "at most %.2f x, mean %.2f x",
			 most, sum / speed->n);
}

static uint64_t
spilled(const struct suite_row *row)
{
	return row->after.counter[SLUICE_COUNTER_STORE_WRITE_SPILL];
}

/* One application and variant of figure 6 over all reserves. */
static void
reserves_judge(struct judge *judge, const char *workload, enum suite_variant variant)
{
	struct suite_bar *none, *order, *spread;
	const struct suite_row *row[SUITE_RESERVES];
	double best = INFINITY, worst = 0;
	uint64_t before = 0;

	for (unsigned i = 0; i < SUITE_RESERVES; i++) {
		row[i] = suite_row_done(judge->suite, judge->cuda, SUITE_FIG6, workload,
					variant, suite_reserve_names[i]);
		if (!row[i])
			return;
	}
	none = bar_new(judge, "0", "figure 6: %s, %s, bytes spilled where volatile data fit",
		       workload, suite_variant_titles[variant]);
	order = bar_new(judge, "never less with a larger reserve",
			"figure 6: %s, %s, bytes spilled", workload,
			suite_variant_titles[variant]);
	spread = bar_new(judge, "reported (paper: 43.5 %)",
			 "figure 6: %s, %s, worst reserve over the best", workload,
			 suite_variant_titles[variant]);
	spread->reported = 1;
	none->n = 1;
	none->passed = spilled(row[0]) == 0;
	snprintf(none->note, sizeof(none->note), "%.1f MiB",
		 (double)spilled(row[0]) / 0x1p20);
	for (unsigned i = 0; i < SUITE_RESERVES; i++) {
		order->n++;
		spread->n++;
		if (spilled(row[i]) < before)
			order->passed = 0;
		before = spilled(row[i]);
		best = row[i]->total_s < best ? row[i]->total_s : best;
		worst = row[i]->total_s > worst ? row[i]->total_s : worst;
	}
	snprintf(order->note, sizeof(order->note), "%.1f MiB at most",
		 (double)before / 0x1p20);
	snprintf(spread->note, sizeof(spread->note), "%.1f %% more time",
		 100 * (worst / best - 1));
}

static void
fig6_judge(struct judge *judge)
{
	static const char *const apps[] = {"backprop", "srad"};

	for (unsigned i = 0; i < 2; i++) {
		const struct workload *w = suite_workload(apps[i]);

		if (!w)
			continue;
		reserves_judge(judge, w->name, SUITE_SLUICE);
		reserves_judge(judge, w->name, SUITE_DRAGON);
	}
}

/* ---- UVM Discard ---- */

static const struct suite_row *
cell_row(const struct judge *judge, const char *workload, enum suite_variant variant,
	 unsigned over)
{
	return suite_row_done(judge->suite, judge->cuda, SUITE_TABLES, workload, variant,
			      suite_over_names[over]);
}

/* Cells that follow from sizes: ours at the paper's size against the printed. */
static void
cells_judge(struct judge *judge, const struct suite_table *table, const char *workload)
{
	static const enum suite_variant variants[] = {SUITE_NONE, SUITE_EAGER, SUITE_LAZY};
	struct suite_bar *bar =
		bar_new(judge, "within 0.03 GB and three chunks",
			"table %u: %s, bytes of each cell at the paper's size",
			table->bytes_number, table->title);
	double worst = 0;

	for (unsigned v = 0; v < 3; v++) {
		for (unsigned over = 0; over < SUITE_OVERS; over++) {
			const struct suite_row *row = cell_row(judge, workload,
							       variants[v], over);
			double scale, off;

			if (!row || !row->input_bytes)
				continue;
			scale = table->gb[0][0] / (double)row->input_bytes;
			off = fabs(traffic(row) * scale - table->gb[v][over]);
			bar->n++;
			worst = off > worst ? off : worst;
			if (off > CELL_GB + 3 * (double)row->chunk_bytes * scale)
				bar->passed = 0;
		}
	}
	snprintf(bar->note, sizeof(bar->note), "worst %.2f GB off", worst);
}

/* What holds for every program: discard never moves more, the two kinds are the same. Of training
 * the paper has no bytes of either: what they differ by is reported. */
static void
order_judge(struct judge *judge, const struct suite_table *table, const char *workload)
{
	const char *title = table->title;
	struct suite_bar *less = bar_new(judge, "never more than without",
					 "%s: bytes with discard", title);
	struct suite_bar *same = bar_new(
		judge,
		table->bytes_number ? "within 2 % of those without, or eight chunks"
				    : "reported",
		"%s: bytes of eager against lazy discard", title);
	double most = 0;

	same->reported = !table->bytes_number;
	for (unsigned over = 0; over < SUITE_OVERS; over++) {
		const struct suite_row *none = cell_row(judge, workload, SUITE_NONE, over);
		const struct suite_row *eager = cell_row(judge, workload, SUITE_EAGER, over);
		const struct suite_row *lazy = cell_row(judge, workload, SUITE_LAZY, over);
		double off;

		if (!none || !eager || !lazy || !traffic(none))
			continue;
		less->n++;
		same->n++;
		if (traffic(eager) > traffic(none) || traffic(lazy) > traffic(none))
			less->passed = 0;
		off = 100 * fabs(traffic(eager) - traffic(lazy)) / traffic(none);
		most = off > most ? off : most;
		if (off > 2 && !same->reported &&
		    fabs(traffic(eager) - traffic(lazy)) > 8 * (double)none->chunk_bytes)
			same->passed = 0;
	}
	snprintf(same->note, sizeof(same->note), "%.2f %% at most", most);
}

/* The shortest repetition; rows written before that was kept have the median alone. */
static double
least_s(const struct suite_row *row)
{
	double least = row->cuda ? row->least_measured_s : row->least_run_s;

	return least > 0 ? least : table_s(row);
}

static void
lazy_judge(struct judge *judge, const char *title, const char *workload)
{
	const struct suite_row *none = cell_row(judge, workload, SUITE_NONE, 0);
	const struct suite_row *lazy = cell_row(judge, workload, SUITE_LAZY, 0);
	struct suite_bar *bar;
	double over;

	if (!none || !lazy)
		return;
	bar = bar_new(judge, "<= 1 % over none",
		      "%s: time with lazy discard when all fits", title);
	over = 100 * (least_s(lazy) / least_s(none) - 1);
	bar->n = 1;
	bar->passed = over <= LAZY_OVER;
	snprintf(bar->note, sizeof(bar->note), "%+.1f %%", over);
}

/* Demands on bytes, to within chunks, and on speed at 200 %; speed 0: none. */
static void
halved_judge(struct judge *judge, const char *title, const char *workload,
	     double reduction, unsigned chunks, double speed)
{
	const struct suite_row *none = cell_row(judge, workload, SUITE_NONE, 1);
	const struct suite_row *lazy = cell_row(judge, workload, SUITE_LAZY, 1);
	struct suite_bar *bar;
	char text[64];

	if (!none || !lazy)
		return;
	if (chunks)
		snprintf(text, sizeof(text), ">= %.1f %%, to within %u chunks", reduction,
			 chunks);
	else
		snprintf(text, sizeof(text), ">= %.1f %%", reduction);
	bar = bar_new(judge, text, "%s at 200 %%: bytes saved by discard", title);
	bar->n = 1;
	bar->passed = percent_less(traffic(lazy) - chunks * (double)lazy->chunk_bytes,
				   traffic(none)) >= reduction;
	snprintf(bar->note, sizeof(bar->note), "%.1f %%",
		 percent_less(traffic(lazy), traffic(none)));
	if (speed <= 0)
		return;
	snprintf(text, sizeof(text), ">= %.1f x", speed);
	bar = bar_new(judge, text, "%s at 200 %%: speed with discard over without", title);
	bar->n = 1;
	bar->passed = table_s(none) / table_s(lazy) >= speed;
	snprintf(bar->note, sizeof(bar->note), "%.2f x", table_s(none) / table_s(lazy));
}

static void
tables_judge(struct judge *judge)
{
	for (unsigned i = 0; i < suite_n_tables; i++) {
		const struct suite_table *table = &suite_tables[i];
		char rows[SUITE_WORD_BYTES];

		if (!suite_table_rows(table, rows) || !cell_row(judge, rows, SUITE_NONE, 0))
			continue;
		if (table->determined)
			cells_judge(judge, table, rows);
		order_judge(judge, table, rows);
		lazy_judge(judge, table->title, rows);
		if (table->bytes_number == 8)
			halved_judge(judge, table->title, rows, JOIN_REDUCTION,
				     JOIN_CHUNKS, JOIN_SPEED);
		if (!table->bytes_number)
			halved_judge(judge, table->title, rows, TRAIN_REDUCTION,
				     TRAIN_CHUNKS, 0);
	}
}

/* ---- DRAGON-DIRECT ---- */

static void
batches_judge(struct judge *judge)
{
	const struct workload *w = suite_workload("minibatch");
	const struct suite_row *row[3];
	struct suite_bar *there, *speed;
	double s[3];

	for (unsigned i = 0; i < 3; i++) {
		row[i] = w ? suite_row_done(judge->suite, judge->cuda, SUITE_BATCHES, w->name,
					    (enum suite_variant)(SUITE_FETCH_INDEX + i),
					    suite_ratio_names[SUITE_RATIOS - 1])
			   : NULL;
		s[i] = row[i] ? least_s(row[i]) : 0;
	}
	if (!row[0] || !row[0]->batches)
		return;
	there = bar_new(judge, ">= 95 %",
			"mini-batches on the device as a whole when needed");
	there->n = 1;
	there->passed = 100.0 * (double)row[0]->batches_resident >=
			BATCHES_THERE * (double)row[0]->batches;
	snprintf(there->note, sizeof(there->note), "%.1f %% of %llu",
		 100.0 * (double)row[0]->batches_resident / (double)row[0]->batches,
		 (unsigned long long)row[0]->batches);
	if (!row[2])
		return;
	speed = bar_new(judge, "never slower, to within 2 %",
			"mini-batches: time against buffers by hand");
	speed->n = 1;
	speed->passed = s[0] <= s[2] * (1 + BATCHES_OVER / 100);
	snprintf(speed->note, sizeof(speed->note), "%.3f s by index, %.3f s by hand",
		 s[0], s[2]);
}

unsigned
suite_bars_judge(const struct suite *suite, int cuda, struct suite_bar bars[SUITE_BARS_MAX])
{
	struct judge judge = {.suite = suite, .cuda = cuda, .bars = bars};

	rows_judge(&judge);
	determined_judge(&judge);
	fig3_judge(&judge);
	fits_judge(&judge);
	ahead_judge(&judge);
	fig6_judge(&judge);
	tables_judge(&judge);
	batches_judge(&judge);
	return judge.n;
}

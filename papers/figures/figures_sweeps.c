/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures over one quantity: batch size, host memory, bandwidth of the store, noise in the
 * kernels' times. One table and one picture a model; what the paper plots is the speed.
 *
 * Threads: one.
 */
#include <math.h>
#include <stdio.h>

#include "figures_writer.h"

#define SWEEP_MAX 16
#define CLOCK_HZ  1.2e9

/* A model's figure over one quantity: a row for each point, a column for each policy. */
struct sweep {
	unsigned figure, n;
	struct figure_key keys[SWEEP_MAX];
	double x[SWEEP_MAX];
	const char *first; /* column */
	const enum figure_policy *policies;
	unsigned n_policies;
};

static void
sweep_table(struct figures_writer *w, const struct sweep *sweep)
{
	fprintf(w->out, "| %s |", sweep->first);
	for (unsigned p = 0; p < sweep->n_policies; p++)
		fprintf(w->out, " %s |", figure_policy_titles[sweep->policies[p]]);
	fputs("\n|---|", w->out);
	for (unsigned p = 0; p < sweep->n_policies; p++)
		fputs("---|", w->out);
	fputc('\n', w->out);
	for (unsigned i = 0; i < sweep->n; i++) {
		struct figure_key key = sweep->keys[i];

		fprintf(w->out, "| %g |", sweep->x[i]);
		for (unsigned p = 0; p < sweep->n_policies; p++) {
			key.policy = sweep->policies[p];
			figures_time_put(w, sweep->figure, &key);
		}
		fputc('\n', w->out);
	}
}

/* What the paper plots: samples a second, or the share of the ideal speed. */
static double
speed_of(const struct sweep *sweep, const struct figure_key *key, double cycles, double ideal)
{
	if (!isfinite(cycles) || cycles <= 0)
		return (double)NAN;
	return sweep->figure == 15 ? key->batch * CLOCK_HZ / cycles : ideal / cycles;
}

static void
sweep_picture(struct figures_writer *w, const struct sweep *sweep, const char *x_title)
{
	static double ours[FIGURE_POLICY_COUNT][SWEEP_MAX],
		there[FIGURE_POLICY_COUNT][SWEEP_MAX];
	struct chart_series series[FIGURE_POLICY_COUNT];
	const struct figure_model *model = &figure_models[sweep->keys[0].model];
	char name[64], title[96];

	for (unsigned p = 0; p < sweep->n_policies; p++) {
		for (unsigned i = 0; i < sweep->n; i++) {
			struct figure_key key = sweep->keys[i];
			const struct figure_cell *cell;

			key.policy = sweep->policies[p];
			cell = figures_cell(w->figures, &key);
			ours[p][i] = there[p][i] = (double)NAN;
			if (!cell)
				continue;
			if (!cell->failed)
				ours[p][i] = speed_of(sweep, &key, (double)cell->cycles,
						      (double)cell->ideal_cycles);
			there[p][i] = speed_of(sweep, &key,
					       figures_published(w->figures,
								 sweep->figure, &key),
					       (double)cell->ideal_cycles);
		}
		series[p] = (struct chart_series){
			.name = figure_policy_titles[sweep->policies[p]],
			.colour = sweep->policies[p] + 1,
			.values = ours[p],
			.published = there[p]};
	}
	snprintf(name, sizeof(name), "figure%u-%s", sweep->figure, model->name);
	snprintf(title, sizeof(title), "Figure %u: %s", sweep->figure, model->title);
	figures_picture_put(
		w, name,
		&(struct chart){.title = title,
				.x_title = x_title,
				.y_title = sweep->figure == 15
						   ? "samples a second"
						   : "share of the ideal speed",
				.series = series,
				.n_series = sweep->n_policies,
				.n = sweep->n,
				.x = sweep->x});
}

/* ---- figures 15 to 19: over one quantity ---- */

static void
model_title(struct figures_writer *w, unsigned m, uint32_t batch)
{
	if (batch)
		fprintf(w->out, "\n**%s-%u**\n\n", figure_models[m].title, batch);
	else
		fprintf(w->out, "\n**%s**\n\n", figure_models[m].title);
}

static const enum figure_policy sweep_policies[] = {FIGURE_IDEAL,       FIGURE_UVM,
						    FIGURE_FLASHNEURON, FIGURE_DEEPUM,
						    FIGURE_G10,         FIGURE_SLUICE};
#define SWEEP_POLICIES (sizeof(sweep_policies) / sizeof(sweep_policies[0]))

void
figures_batch_sweep_write(struct figures_writer *w)
{
	fputs("\n## Figure 15: over the batch size\n\n"
	      "10^9 cycles, published / ours (difference).\n",
	      w->out);
	for (unsigned m = 0; m < FIGURE_MODEL_COUNT; m++) {
		struct sweep sweep = {.figure = 15,
				      .first = "batch",
				      .policies = sweep_policies,
				      .n_policies = SWEEP_POLICIES};

		if (!w->figures->traces[m].there)
			continue;
		for (unsigned i = 0; figure_models[m].batches[i]; i++) {
			sweep.x[sweep.n] = figure_models[m].batches[i];
			sweep.keys[sweep.n++] = figure_key_make(m,
								figure_models[m].batches[i],
								FIGURE_IDEAL);
		}
		model_title(w, m, 0);
		sweep_table(w, &sweep);
		sweep_picture(w, &sweep, "batch; dashed: published");
	}
}

static void
host_sweep(struct sweep *sweep, unsigned m, uint32_t batch)
{
	for (unsigned h = 0; figure_models[m].hosts[h] != UINT32_MAX; h++) {
		sweep->x[sweep->n] = figure_models[m].hosts[h];
		sweep->keys[sweep->n] = figure_key_make(m, batch, FIGURE_IDEAL);
		sweep->keys[sweep->n++].host_gib = figure_models[m].hosts[h];
	}
}

static void
figure16_picture(struct figures_writer *w, unsigned m)
{
	static double ours[FIGURE_BATCHES_MAX][SWEEP_MAX],
		there[FIGURE_BATCHES_MAX][SWEEP_MAX];
	struct chart_series series[FIGURE_BATCHES_MAX];
	const struct figure_model *model = &figure_models[m];
	char names[FIGURE_BATCHES_MAX][32], name[64], title[96];
	struct sweep sweep = {.figure = 16};
	unsigned n = 0;

	for (; model->host_batches[n]; n++) {
		sweep.n = 0;
		host_sweep(&sweep, m, model->host_batches[n]);
		for (unsigned i = 0; i < sweep.n; i++) {
			struct figure_key key = sweep.keys[i];
			const struct figure_cell *cell;

			key.policy = FIGURE_G10;
			cell = figures_cell(w->figures, &key);
			ours[n][i] = there[n][i] = (double)NAN;
			if (!cell || cell->failed)
				continue;
			ours[n][i] = (double)cell->cycles / CLOCK_HZ;
			there[n][i] = figures_published(w->figures, 16, &key) / CLOCK_HZ;
		}
		snprintf(names[n], sizeof(names[n]), "batch %u", model->host_batches[n]);
		series[n] = (struct chart_series){.name = names[n],
						  .values = ours[n],
						  .published = there[n]};
	}
	snprintf(name, sizeof(name), "figure16-%s", model->name);
	snprintf(title, sizeof(title), "Figure 16: G10 over host memory, %s", model->title);
	figures_picture_put(
		w, name,
		&(struct chart){.title = title,
				.x_title = "host memory, GiB; dashed: published",
				.y_title = "seconds an iteration",
				.series = series,
				.n_series = n,
				.n = sweep.n,
				.x = sweep.x});
}

void
figures_host_sweep_write(struct figures_writer *w)
{
	static const enum figure_policy policies[] = {FIGURE_IDEAL, FIGURE_G10,
						      FIGURE_SLUICE};

	fputs("\n## Figure 16: over host memory\n\n"
	      "10^9 cycles by GiB of host memory, published / ours (difference).\n",
	      w->out);
	for (unsigned m = 0; m < FIGURE_MODEL_COUNT; m++) {
		if (!w->figures->traces[m].there)
			continue;
		for (unsigned i = 0; figure_models[m].host_batches[i]; i++) {
			struct sweep sweep = {.figure = 16,
					      .first = "host GiB",
					      .policies = policies,
					      .n_policies = 3};

			host_sweep(&sweep, m, figure_models[m].host_batches[i]);
			model_title(w, m, figure_models[m].host_batches[i]);
			sweep_table(w, &sweep);
		}
		figure16_picture(w, m);
	}
}

void
figures_host_compared_write(struct figures_writer *w)
{
	static const enum figure_policy policies[] = {FIGURE_FLASHNEURON, FIGURE_DEEPUM,
						      FIGURE_G10, FIGURE_SLUICE};

	fputs("\n## Figure 17: over host memory, against the others\n\n"
	      "10^9 cycles, published / ours (difference). FlashNeuron does not use host "
	      "memory.\n",
	      w->out);
	for (unsigned m = 0; m < FIGURE_MODEL_COUNT; m++) {
		struct sweep sweep = {.figure = 17,
				      .first = "host GiB",
				      .policies = policies,
				      .n_policies = 4};

		if (!w->figures->traces[m].there || !figure_models[m].host_batch)
			continue;
		host_sweep(&sweep, m, figure_models[m].host_batch);
		model_title(w, m, figure_models[m].host_batch);
		sweep_table(w, &sweep);
		sweep_picture(w, &sweep, "host memory, GiB; dashed: published");
	}
}

void
figures_store_sweep_write(struct figures_writer *w)
{
	static const uint32_t mbps[] = {6400, 12800, 19200, 25600, 32000};

	fputs("\n## Figure 18: over the bandwidth of the store\n\n"
	      "10^9 cycles by 10^9 bytes a second, published / ours (difference). The "
	      "link has "
	      "32 GB/s.\n",
	      w->out);
	for (unsigned m = 0; m < FIGURE_MODEL_COUNT; m++) {
		struct sweep sweep = {.figure = 18,
				      .first = "store GB/s",
				      .policies = sweep_policies,
				      .n_policies = SWEEP_POLICIES};

		if (!w->figures->traces[m].there)
			continue;
		for (unsigned i = 0; i < sizeof(mbps) / sizeof(mbps[0]); i++) {
			sweep.x[sweep.n] = mbps[i] / 1000.0;
			sweep.keys[sweep.n] = figure_key_make(m, figure_models[m].store_batch,
							      FIGURE_IDEAL);
			sweep.keys[sweep.n++].store_mbps = mbps[i];
		}
		model_title(w, m, figure_models[m].store_batch);
		sweep_table(w, &sweep);
		sweep_picture(w, &sweep, "store, GB/s; dashed: published");
	}
}

#define NOISES 6

void
figures_noise_sweep_write(struct figures_writer *w)
{
	static double ours[2 * FIGURE_MODEL_COUNT][NOISES],
		there[2 * FIGURE_MODEL_COUNT][NOISES];
	static const double x[NOISES] = {0, 5, 10, 15, 20, 25};
	struct chart_series series[FIGURE_MODEL_COUNT];
	unsigned n = 0;

	fputs("\n## Figure 19: kernel times that are off\n\n"
	      "Ideal time over G10's when each kernel's time is off by up to the share, "
	      "planned "
	      "without;\npublished / ours. Behind it our own planner.\n\n"
	      "| model | planner | 0 % | 5 % | 10 % | 15 % | 20 % | 25 % |\n"
	      "|---|---|---|---|---|---|---|---|\n",
	      w->out);
	for (unsigned m = 0; m < FIGURE_MODEL_COUNT; m++) {
		if (!w->figures->traces[m].there)
			continue;
		for (int p = FIGURE_G10; p <= FIGURE_SLUICE; p++) {
			unsigned row = p == FIGURE_G10 ? n : FIGURE_MODEL_COUNT + n;

			fprintf(w->out, "| %s-%u | %s |", figure_models[m].title,
				figure_models[m].batch, figure_policy_titles[p]);
			for (unsigned i = 0; i < NOISES; i++) {
				struct figure_key key = figure_key_make(
					m, figure_models[m].batch, (enum figure_policy)p);
				const struct figure_cell *cell;

				key.noise_percent = (uint32_t)x[i];
				cell = figures_cell(w->figures, &key);
				there[row][i] = p == FIGURE_G10
							? figures_published_noise(w->figures,
										  &key)
							: (double)NAN;
				ours[row][i] = cell && !cell->failed
						       ? (double)cell->ideal_cycles /
								 (double)cell->cycles
						       : (double)NAN;
				if (!isnan(there[row][i]))
					fprintf(w->out, " %.4f /", there[row][i]);
				if (isnan(ours[row][i]))
					fputs(" - |", w->out);
				else
					fprintf(w->out, " %.4f |", ours[row][i]);
			}
			fputc('\n', w->out);
		}
		series[n] = (struct chart_series){.name = figure_models[m].title,
						  .values = ours[n],
						  .published = there[n]};
		n++;
	}
	if (n)
		figures_picture_put(
			w, "figure19",
			&(struct chart){.title = "Figure 19: G10 with kernel times off",
					.x_title = "% off; dashed: published",
					.y_title = "share of the ideal speed",
					.series = series,
					.n_series = n,
					.n = NOISES,
					.x = x});
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fir: a filter over a long signal, window by window: y[i] = sum of h[j] * x[i - j], with zeros
 * before the signal. The sizes have the proportions of the published study of discarding: input
 * and output 5.66 each, constant data 0.28, a window 0.10 of input; all scaled by the footprint
 * and rounded to chunks. A window that has been filtered is never read again: with --discard the
 * program says so, and the pager need not copy it back to make room.
 *
 * The input is mapped for reading; with policy uvm also for writing, because there every page
 * that was on the device counts as dirty, which is what the published baseline measures. The
 * constant data hold the coefficients and, twice, the last samples of the window before (the
 * filter's state; two of them, so that a launch reads one and writes the other). They are
 * memory without a file, written by a kernel and pinned, as memory that a program allocates on
 * the device itself would be: they take room and never move.
 *
 * The coefficients are a triangular low-pass. Sums run over j upwards in single precision, in
 * the kernel (over many i at once) as in the reference.
 *
 * Threads: see env.h; the kernel runs on any number of workers.
 */
#include "kernel.h"

#include "env.h"
#include "list.h"
#include "random.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ARRAY_INPUT, ARRAY_OUTPUT, ARRAY_CONSTANT, ARRAY_COUNT };

enum { OPTION_DISCARD, OPTION_TAPS };

enum { DISCARD_NONE, DISCARD_EAGER, DISCARD_LAZY };

#define TAPS_MAX       64u
#define STRIP          256u        /* outputs that one inner loop works on */
#define BLOCK_ELEMENTS (64u << 10) /* a multiple of STRIP */
#define CHECK_ELEMENTS (1u << 20)  /* of the reference at a time */

/* Proportions, in hundredths: all of it, input (and output), constant data, window. */
#define PART_ALL      1160u
#define PART_INPUT    566u
#define PART_CONSTANT 28u
#define PART_WINDOW   10u

static const char *const discard_names[] = {"none", "eager", "lazy", NULL};

static const struct workload_option fir_options[] = {
	[OPTION_DISCARD] = {.name = "discard",
			    .text = "what happens to a window of input after it was used",
			    .choices = discard_names,
			    .initial = DISCARD_NONE,
			    .min = DISCARD_NONE,
			    .max = DISCARD_LAZY},
	[OPTION_TAPS] = {.name = "taps",
			 .text = "coefficients of the filter",
			 .initial = 16,
			 .min = 2,
			 .max = TAPS_MAX},
};

/* The head of the constant data. */
struct fir_state {
	float h[TAPS_MAX];
	float history[2][TAPS_MAX]; /* the taps - 1 samples before a window, oldest first */
};

struct fir_args {
	const float *x; /* window */
	float *y;
	struct fir_state *state;
	uint64_t n; /* elements of the window: at least TAPS_MAX */
	unsigned taps;
	unsigned turn; /* history[turn] is read, the other one written */
};

struct fir_init_args {
	float *constant;
	uint64_t n;
	float h[TAPS_MAX];
	unsigned taps;
};

static uint64_t
part_chunks(uint64_t footprint, unsigned part, uint64_t chunk)
{
	uint64_t chunks = (uint64_t)((double)footprint * part / PART_ALL / (double)chunk +
				     0.5);

	return chunks ? chunks : 1;
}

static int
fir_plan(const struct workload_params *params, struct workload_plan *plan, char *error)
{
	uint64_t chunk = params->config.chunk_bytes ? params->config.chunk_bytes : 2ull << 20;
	uint64_t footprint = params->footprint_bytes;
	uint64_t window = part_chunks(footprint, PART_WINDOW, chunk);
	uint64_t chunks = part_chunks(footprint, PART_INPUT, chunk);
	int uvm = params->config.policy == SLUICE_POLICY_UVM;

	if (chunks < 2 * window)
		return workload_plan_refuse(error,
					    "fir: a footprint of %" PRIu64
					    " bytes has no "
					    "two windows of a chunk (%" PRIu64
					    " bytes): at "
					    "least %" PRIu64 " are needed",
					    footprint, chunk,
					    2 * chunk * PART_ALL / PART_INPUT);
	plan->rows = (chunks + window - 1) / window; /* the last one may be shorter */
	plan->cols = chunks * chunk / 4;
	plan->window_bytes = window * chunk;
	plan->n_arrays = ARRAY_COUNT;
	plan->array[ARRAY_INPUT] = (struct workload_array){
		.name = "input",
		.role = WORKLOAD_INPUT,
		.flags = uvm ? SLUICE_READ | SLUICE_WRITE : SLUICE_READ,
		.size_bytes = chunks * chunk,
		.spoiled = uvm && params->option[OPTION_DISCARD] != DISCARD_NONE,
	};
	plan->array[ARRAY_OUTPUT] = (struct workload_array){
		.name = "output",
		.role = WORKLOAD_OUTPUT,
		.flags = SLUICE_WRITE | SLUICE_CREATE,
		.size_bytes = chunks * chunk,
	};
	plan->array[ARRAY_CONSTANT] = (struct workload_array){
		.name = "constant",
		.role = WORKLOAD_ANONYMOUS,
		.size_bytes = part_chunks(footprint, PART_CONSTANT, chunk) * chunk,
	};
	return 0;
}

static void
fir_fill(const struct workload_plan *plan, unsigned array, uint64_t seed, uint64_t first,
	 size_t n, void *out)
{
	float *to = out;
	size_t i;

	(void)plan;
	(void)array; /* the input is the only one that is generated */
	for (i = 0; i < n; i++)
		to[i] = workload_unit(seed, first + i) * 2 - 1;
}

/* A triangle whose coefficients sum to one. */
static void
coefficients_make(float *h, unsigned taps)
{
	double sum = 0;
	unsigned j;

	for (j = 0; j < taps; j++)
		sum += j + 1 < taps - j ? j + 1 : taps - j;
	for (j = 0; j < taps; j++)
		h[j] = (float)((j + 1 < taps - j ? j + 1 : taps - j) / sum);
}

/* ---- kernels ---- */

static void
init_kernel(const struct sluice_block *block, void *args)
{
	const struct fir_init_args *a = args;
	uint64_t begin, end;

	kernel_block_range(block->index.x, BLOCK_ELEMENTS, 0, a->n, &begin, &end);
	memset(a->constant + begin, 0, (end - begin) * sizeof(*a->constant));
	if (begin == 0)
		memcpy(a->constant, a->h, a->taps * sizeof(a->h[0]));
}

/* n outputs, at most STRIP; the taps - 1 samples before x[0] must be there. */
static void
strip_filter(const float *restrict x, float *restrict y, uint64_t n,
	     const float *restrict h, unsigned taps)
{
	float sum[STRIP];
	unsigned j;
	uint64_t i;

	for (i = 0; i < n; i++)
		sum[i] = h[0] * x[i];
	for (j = 1; j < taps; j++) {
		const float *shifted = x - j;
		const float hj = h[j];

		for (i = 0; i < n; i++)
			sum[i] += hj * shifted[i];
	}
	memcpy(y, sum, n * sizeof(*y));
}

static void
fir_kernel(const struct sluice_block *block, void *args)
{
	const struct fir_args *a = args;
	unsigned past = a->taps - 1;
	float h[TAPS_MAX];
	uint64_t i, end;

	memcpy(h, a->state->h, a->taps * sizeof(h[0]));
	kernel_block_range(block->index.x, BLOCK_ELEMENTS, 0, a->n, &i, &end);
	if (i == 0) { /* the first strip has its past in another window */
		float x[TAPS_MAX + STRIP];
		uint64_t n = kernel_min(STRIP, end);

		memcpy(x, a->state->history[a->turn], past * sizeof(x[0]));
		memcpy(x + past, a->x, n * sizeof(x[0]));
		strip_filter(x + past, a->y, n, h, a->taps);
		i = n;
	}
	for (; i < end; i += STRIP)
		strip_filter(a->x + i, a->y + i, kernel_min(STRIP, end - i), h, a->taps);
	if (end == a->n)
		memcpy(a->state->history[1 - a->turn], a->x + a->n - past,
		       past * sizeof(float));
}

/* ---- the run ---- */

static int
constant_init(struct workload_env *env)
{
	uint64_t n = env->plan.array[ARRAY_CONSTANT].size_bytes / 4;
	struct fir_init_args args = {
		.constant = env->base[ARRAY_CONSTANT],
		.n = n,
		.taps = (unsigned)env->params->option[OPTION_TAPS],
	};
	struct sluice_use use = workload_use(env, ARRAY_CONSTANT, 0, n, SLUICE_USE_WRITE_ALL);
	int rc;

	coefficients_make(args.h, args.taps);
	rc = env->memory->pin(env, env->base[ARRAY_CONSTANT], n * 4);
	if (!rc)
		rc = workload_launch(env, init_kernel, workload_blocks(n, BLOCK_ELEMENTS),
				     &args, sizeof(args), &use, 1);
	return rc;
}

static int
window_discard(struct workload_env *env, void *window, uint64_t bytes)
{
	switch (env->params->option[OPTION_DISCARD]) {
	case DISCARD_EAGER:
		return env->memory->discard(env, window, bytes, SLUICE_DISCARD_EAGER);
	case DISCARD_LAZY:
		return env->memory->discard(env, window, bytes, SLUICE_DISCARD_LAZY);
	}
	return 0;
}

static int
windows_filter(struct workload_env *env)
{
	uint64_t total = env->plan.cols;
	uint64_t window = env->plan.window_bytes / 4;
	struct fir_args args = {
		.state = env->base[ARRAY_CONSTANT],
		.taps = (unsigned)env->params->option[OPTION_TAPS],
	};
	uint64_t first;
	int rc = 0;

	for (first = 0; !rc && first < total; first += window, args.turn = 1 - args.turn) {
		args.n = kernel_min(window, total - first);

		struct sluice_use uses[] = {
			workload_use(env, ARRAY_INPUT, first, args.n, SLUICE_USE_READ),
			workload_use(env, ARRAY_OUTPUT, first, args.n, SLUICE_USE_WRITE_ALL),
			workload_use(env, ARRAY_CONSTANT, 0,
				     env->plan.array[ARRAY_CONSTANT].size_bytes / 4,
				     SLUICE_USE_READ_WRITE),
		};

		args.x = (const float *)env->base[ARRAY_INPUT] + first;
		args.y = (float *)env->base[ARRAY_OUTPUT] + first;
		rc = workload_launch(env, fir_kernel,
				     workload_blocks(args.n, BLOCK_ELEMENTS), &args,
				     sizeof(args), uses, ARRAY_COUNT);
		if (!rc)
			rc = window_discard(env, (float *)env->base[ARRAY_INPUT] + first,
					    args.n * 4);
		if (!rc)
			rc = workload_tile_done(env, first + args.n, total);
	}
	return rc;
}

static int
fir_run(struct workload_env *env)
{
	uint64_t bytes = env->plan.array[ARRAY_CONSTANT].size_bytes;
	int rc, rc_unpin;

	rc = constant_init(env);
	if (rc)
		return rc;
	rc = windows_filter(env);
	if (!rc)
		rc = workload_wait(env);
	rc_unpin = env->memory->unpin(env, env->base[ARRAY_CONSTANT], bytes);
	return rc ? rc : rc_unpin;
}

static void
fir_expect(const struct workload_env *env, struct workload_expectation *out)
{
	uint64_t input = env->plan.array[ARRAY_INPUT].size_bytes;
	uint64_t constant = env->plan.array[ARRAY_CONSTANT].size_bytes;
	uint64_t total = 2 * input + constant;
	uint64_t window = env->plan.window_bytes;
	uint64_t last = input - (env->plan.rows - 1) * window;
	uint64_t budget = env->config.device_budget_bytes;

	out->known = 1;
	out->h2d_bytes = input;
	snprintf(out->h2d_formula, sizeof(out->h2d_formula), "I");
	out->tolerance_bytes = 2 * env->config.chunk_bytes;
	if (env->params->option[OPTION_DISCARD] != DISCARD_NONE) {
		/* Most is live in the last window, or in the one before if the last is short. */
		uint64_t live = last > window - last ? last : window - last;

		out->d2h_bytes = workload_less(input + constant + live, budget);
		snprintf(out->d2h_formula, sizeof(out->d2h_formula), "max(0, T - I + w - G)");
	} else if (env->config.policy == SLUICE_POLICY_UVM) {
		out->d2h_bytes = workload_less(total, budget);
		snprintf(out->d2h_formula, sizeof(out->d2h_formula), "max(0, T - G)");
	} else { /* of what leaves, every other chunk is input and only read */
		out->d2h_bytes = workload_less(total, budget) / 2;
		snprintf(out->d2h_formula, sizeof(out->d2h_formula), "max(0, T - G) / 2");
		out->tolerance_bytes += 2 * window;
	}
}

/* One output at a time, in pieces that bring the taps - 1 samples before them. */
static int
reference_pieces(struct workload_env *env, void *memory)
{
	float *want = memory, *x = want + CHECK_ELEMENTS;
	uint64_t n = env->plan.cols;
	unsigned taps = (unsigned)env->params->option[OPTION_TAPS];
	float h[TAPS_MAX];
	uint64_t first;
	int rc = 0;

	coefficients_make(h, taps);
	for (first = 0; !rc && first < n; first += CHECK_ELEMENTS) {
		uint64_t before = kernel_min(first, taps - 1);
		uint64_t i, m = kernel_min(CHECK_ELEMENTS, n - first);
		unsigned j;

		/* x[0] is sample first - (taps - 1); before the signal there are zeros. */
		memset(x, 0, (taps - 1 - before) * sizeof(*x));
		rc = workload_input_read(env, ARRAY_INPUT, first - before, m + before,
					 x + taps - 1 - before);
		if (rc)
			break;
		for (i = 0; i < m; i++) {
			float sum = h[0] * x[i + taps - 1];

			for (j = 1; j < taps; j++)
				sum = sum + h[j] * x[i + taps - 1 - j];
			want[i] = sum;
		}
		rc = workload_output_compare(env, ARRAY_OUTPUT, WORKLOAD_F32, first, m, want);
		if (!rc)
			rc = workload_progress(env, "verify",
					       (double)(first + m) / (double)n);
	}
	return rc;
}

static int
fir_reference(struct workload_env *env)
{
	return workload_reference_run(env, (2 * CHECK_ELEMENTS + TAPS_MAX) * sizeof(float),
				      reference_pieces);
}

static const struct workload_ops fir_ops = {
	.plan = fir_plan,
	.fill = fir_fill,
	.run = fir_run,
	.expect = fir_expect,
	.reference = fir_reference,
};

const struct workload workload_fir = {
	.name = "fir",
	.text = "a filter over a signal, window by window, with or without discard",
	.options = fir_options,
	.n_options = sizeof(fir_options) / sizeof(fir_options[0]),
	.ops = &fir_ops,
};

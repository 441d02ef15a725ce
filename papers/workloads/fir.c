/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fir: a filter over a long signal, window by window: y[i] = sum of h[j] * x[i - j], with zeros
 * before the signal. The sizes have the proportions of the published study of discarding: input
 * and output 5.66 each, constant data 0.28, a window 0.10 of input; all scaled by the footprint
 * and rounded to chunks. A window that has been filtered is never read again: with --discard the
 * program says so, and the pager need not copy it back to make room.
 *
 * With --passes the whole is done several times over, each time from the beginning.
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
#include "fir_kernel.h"

#include "env.h"
#include "list.h"
#include "random.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ARRAY_INPUT, ARRAY_OUTPUT, ARRAY_CONSTANT, ARRAY_COUNT };

enum { OPTION_DISCARD, OPTION_TAPS, OPTION_PASSES };

enum { DISCARD_NONE, DISCARD_EAGER, DISCARD_LAZY };

#define STRIP          256u        /* outputs that one inner loop works on */
#define BLOCK_ELEMENTS (64u << 10) /* a multiple of STRIP */
#define CHECK_ELEMENTS (1u << 20)  /* of the reference at a time */

#define CUDA_CHUNK_BYTES \
	(16ull << 20) /* most that the chunk of a large region is by default */

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
			 .max = FIR_TAPS_MAX},
	[OPTION_PASSES] = {.name = "passes",
			   .text = "how often the whole signal is filtered",
			   .initial = 1,
			   .min = 1,
			   .max = 1000},
};

static uint64_t
part_chunks(uint64_t footprint, unsigned part, uint64_t chunk)
{
	uint64_t chunks = (uint64_t)((double)footprint * part / PART_ALL / (double)chunk +
				     0.5);

	return chunks ? chunks : 1;
}

/* What windows are multiples of: chunks; on a GPU large ones, as soon as they are larger. */
static uint64_t
plan_chunk(const struct workload_params *params)
{
	uint64_t chunk = params->config.chunk_bytes ? params->config.chunk_bytes : 2ull << 20;

	if (params->config.device == SLUICE_DEVICE_CUDA && chunk < CUDA_CHUNK_BYTES &&
	    params->footprint_bytes / PART_ALL * PART_WINDOW >= CUDA_CHUNK_BYTES)
		return CUDA_CHUNK_BYTES;
	return chunk;
}

static int
fir_plan(const struct workload_params *params, struct workload_plan *plan, char *error)
{
	uint64_t footprint = params->footprint_bytes;
	uint64_t chunk = plan_chunk(params);
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
	if (params->option[OPTION_PASSES] > 1 && params->option[OPTION_DISCARD] != DISCARD_NONE)
		return workload_plan_refuse(
			error, "fir: input that is discarded cannot be filtered "
			       "again: --passes 1 or --discard none");
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
		.discarded = params->option[OPTION_DISCARD] != DISCARD_NONE,
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
		.kept = 1,
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

static uint64_t
init_elements(const void *args)
{
	return ((const struct fir_init_args *)args)->n;
}

static void
init_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct fir_init_args *a = args;

	memset(a->constant + begin, 0, (end - begin) * sizeof(*a->constant));
	if (begin == 0)
		memcpy(a->constant, a->h, a->taps * sizeof(a->h[0]));
}

static void
init_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	(void)args;
	touch[0] = (struct workload_touch){.first = begin, .n = end - begin, .write = 1};
}

static const struct workload_kernel init_kernel = {
	.name = "workload_fir_init",
	.soft_elements = BLOCK_ELEMENTS,
	.cuda_elements = KERNEL_CUDA_ELEMENTS,
	.args_bytes = sizeof(struct fir_init_args),
	.n_pointers = 1,
	.pointer = {offsetof(struct fir_init_args, constant)},
	.elements = init_elements,
	.piece = init_piece,
	.touch = init_touch,
};

/* n outputs, at most STRIP; the taps - 1 samples before x[0] must be there. */
static void
strip_filter(const float *restrict x, float *restrict y, uint64_t n,
	     const float *restrict h, unsigned taps)
{
	float sum[STRIP];
	unsigned j;
	uint64_t i;

	for (i = 0; i < n; i++)
		sum[i] = fir_first(h[0], x[i]);
	for (j = 1; j < taps; j++) {
		const float *shifted = x - j;
		const float hj = h[j];

		for (i = 0; i < n; i++)
			sum[i] = fir_add(sum[i], hj, shifted[i]);
	}
	memcpy(y, sum, n * sizeof(*y));
}

static uint64_t
fir_elements(const void *args)
{
	return ((const struct fir_args *)args)->n;
}

static void
fir_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct fir_args *a = args;
	unsigned past = a->taps - 1;
	float h[FIR_TAPS_MAX];
	uint64_t i = begin;

	memcpy(h, a->state->h, a->taps * sizeof(h[0]));
	if (i == 0) { /* the first strip has its past in another window */
		float x[FIR_TAPS_MAX + STRIP];
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

static void
fir_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct fir_args *a = args;
	uint64_t before = kernel_min(begin, a->taps - 1);

	touch[0] = (struct workload_touch){.first = begin - before,
					   .n = end - begin + before,
					   .read = 1};
	touch[1] = (struct workload_touch){.first = begin, .n = end - begin, .write = 1};
	touch[2] = (struct workload_touch){.n = sizeof(*a->state) / 4, .read = 1, .write = 1};
}

static const struct workload_kernel fir_kernel = {
	.name = "workload_fir",
	.soft_elements = BLOCK_ELEMENTS,
	.cuda_elements = KERNEL_CUDA_ELEMENTS,
	.args_bytes = sizeof(struct fir_args),
	.n_pointers = 3,
	.pointer = {offsetof(struct fir_args, x), offsetof(struct fir_args, y),
		    offsetof(struct fir_args, state)},
	.elements = fir_elements,
	.piece = fir_piece,
	.touch = fir_touch,
};

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

	coefficients_make(args.h, args.taps);
	return workload_launch(env, &init_kernel, &args, &use, 1);
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

/* One pass: done is what earlier ones have filtered, all is what there is to do. */
static int
windows_filter(struct workload_env *env, uint64_t done, uint64_t all)
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
		rc = workload_launch(env, &fir_kernel, &args, uses, ARRAY_COUNT);
		if (!rc)
			rc = window_discard(env, (float *)env->base[ARRAY_INPUT] + first,
					    args.n * 4);
		if (!rc)
			rc = workload_tile_done(env, done + first + args.n, all);
	}
	return rc;
}

static int
fir_run(struct workload_env *env)
{
	uint64_t bytes = env->plan.array[ARRAY_CONSTANT].size_bytes;
	uint64_t passes = env->params->option[OPTION_PASSES], n = env->plan.cols;
	int rc, rc_unpin;

	rc = env->memory->pin(env, env->base[ARRAY_CONSTANT], bytes);
	if (rc)
		return rc;
	for (uint64_t pass = 0; !rc && pass < passes; pass++) {
		rc = constant_init(env);
		if (!rc)
			rc = windows_filter(env, pass * n, passes * n);
	}
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

	if (env->params->option[OPTION_PASSES] > 1)
		return;
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
	float h[FIR_TAPS_MAX] = {0};
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
	return workload_reference_run(env,
				      (2 * CHECK_ELEMENTS + FIR_TAPS_MAX) * sizeof(float),
				      reference_pieces);
}

static const struct workload_ops fir_ops = {
	.plan = fir_plan,
	.fill = fir_fill,
	.run = fir_run,
	.expect = fir_expect,
	.reference = fir_reference,
};

static const struct workload_kernel *const fir_kernels[] = {&init_kernel, &fir_kernel, NULL};

const struct workload workload_fir = {
	.name = "fir",
	.text = "a filter over a signal, window by window, with or without discard",
	.options = fir_options,
	.n_options = sizeof(fir_options) / sizeof(fir_options[0]),
	.ops = &fir_ops,
	.kernels = fir_kernels,
};

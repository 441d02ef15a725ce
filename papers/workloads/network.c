/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network: training of published models, scaled: VGG-16, Darknet-19, ResNet-53 and a recurrent one,
 * with true forward and backward passes and updates by stochastic gradient descent. A batch is as
 * many samples as the footprint holds. Outputs, gradients and the workspace are regions of their own,
 * as in a framework; with --discard what has had its last use is declared dead.
 *
 * The task is made from the seed: samples of ten classes, a pattern of each class under as much
 * noise; what is learnt shows in the loss of the first and of the last step.
 *
 * Products of matrices are a library's (OpenBLAS; on a GPU cuBLAS), the rest are kernels. Launches
 * and their order follow from the plan alone, so the weights are the same bit for bit whatever the
 * budget and the discards. The oracle is the same launches in memory of their own, outside any
 * pager: on the software device one piece behind the other on this thread, on a GPU in plain device
 * memory. Whether gradients are true is shown by tests/unit/test_network_kernel.c.
 *
 * Leaves shapes to network_model.c, launches to network_layers.c.
 *
 * Threads: see env.h; the kernels run on any number of workers.
 */
#include "network.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "list.h"
#include "network_blas.h"
#include "partition.h"
#include "random.h"

enum {
	OPTION_MODEL,
	OPTION_DISCARD,
	OPTION_STEPS,
	OPTION_WIDTH,
	OPTION_SIZE,
	OPTION_BATCH,
	OPTION_COUNT
};

#define BATCH_LEAST     2u
#define BATCH_MOST      65536u
#define GROUPS          32u /* of a footprint: what a launch works on of a tensor */
#define GROUP_LEAST     (64u << 10)
#define PATCHES         4u /* of a pattern, in each direction */
#define COMPARE_NUMBERS (1u << 20)
#define WIDTH_SMALL     25u
#define WHOLE_BYTES     (4ull << 30) /* a footprint for the published widths */

static const struct workload_option network_options[OPTION_COUNT] = {
	[OPTION_MODEL] = {.name = "model",
			  .text = "which network is trained",
			  .choices = network_model_names,
			  .initial = NETWORK_VGG16,
			  .max = NETWORK_MODEL_COUNT - 1},
	[OPTION_DISCARD] =
		{.name = "discard",
		 .text = "what happens to intermediate data after they were used",
		 .choices = partition_discard_names,
		 .initial = PARTITION_DISCARD_NONE,
		 .max = PARTITION_DISCARD_LAZY},
	[OPTION_STEPS] = {.name = "steps",
			  .text = "steps of training",
			  .initial = 4,
			  .min = 1,
			  .max = 1000},
	[OPTION_WIDTH] = {.name = "width",
			  .text = "channels, in percent of the published; 0: by device",
			  .initial = 0,
			  .min = 0,
			  .max = 100},
	[OPTION_SIZE] = {.name = "size",
			 .text = "edge of images, rnn: steps of a sequence; 0: by device",
			 .initial = 0,
			 .min = 0,
			 .max = 512},
	[OPTION_BATCH] = {.name = "batch",
			  .text = "samples of a batch; 0: what the footprint holds",
			  .initial = 0,
			  .min = 0,
			  .max = BATCH_MOST},
};

static const struct {
	const char *name;
	enum workload_role role;
	unsigned flags;
} network_arrays[NETWORK_ARRAY_COUNT] = {
	[NETWORK_ARRAY_SAMPLES] = {"samples", WORKLOAD_INPUT, SLUICE_READ},
	[NETWORK_ARRAY_LABELS] = {"labels", WORKLOAD_INPUT, SLUICE_READ},
	[NETWORK_ARRAY_WEIGHTS] = {"weights", WORKLOAD_IN_PLACE, SLUICE_READ | SLUICE_WRITE},
	[NETWORK_ARRAY_LOSSES] = {"losses", WORKLOAD_OUTPUT, SLUICE_WRITE | SLUICE_CREATE},
	[NETWORK_ARRAY_OUTPUTS] = {"outputs", WORKLOAD_ANONYMOUS, 0},
	[NETWORK_ARRAY_DELTAS] = {"deltas", WORKLOAD_ANONYMOUS, 0},
	[NETWORK_ARRAY_GRADIENTS] = {"gradients", WORKLOAD_ANONYMOUS, 0},
	[NETWORK_ARRAY_WORKSPACE] = {"workspace", WORKLOAD_ANONYMOUS, 0},
	[NETWORK_ARRAY_SUMS] = {"sums", WORKLOAD_ANONYMOUS, 0},
};

/* ---- the plan ---- */

static uint32_t
default_size(enum network_model model, int cuda)
{
	if (model == NETWORK_RNN)
		return cuda ? 64 : 32;
	return cuda ? 224 : 64;
}

static uint32_t
default_width(int cuda, uint64_t footprint)
{
	return cuda && footprint >= WHOLE_BYTES ? 100 : WIDTH_SMALL;
}

static uint64_t
network_bytes(const struct network *net)
{
	uint64_t numbers = 0;

	for (unsigned i = 0; i < NETWORK_ARRAY_COUNT; i++)
		numbers += network_array_numbers(net, i);
	return numbers * 4;
}

/* The network with that many samples of a batch; *bytes: of all arrays. */
static int
batch_try(struct network *net, struct network_shape *shape, uint32_t batch,
	  uint64_t *bytes, char *error)
{
	int rc;

	shape->batch = batch;
	rc = network_make(shape, net, error);
	if (!rc)
		*bytes = network_bytes(net);
	return rc;
}

/* The largest batch whose arrays are within the footprint, or the one that is asked for. */
static int
batch_choose(struct network *net, struct network_shape *shape, uint64_t asked,
	     uint64_t footprint, char *error)
{
	uint32_t low = asked ? (uint32_t)asked : BATCH_LEAST, high = BATCH_MOST;
	uint64_t bytes;
	int rc = batch_try(net, shape, low, &bytes, error);

	if (rc)
		return rc;
	if (bytes > footprint)
		return workload_plan_refuse(
			error,
			"network: %s with a batch of %u needs a footprint "
			"of at least %" PRIu64 " bytes, it is %" PRIu64,
			network_model_names[shape->model], low, bytes, footprint);
	while (!asked && low < high) { /* low fits */
		uint32_t middle = low + (high - low + 1) / 2;

		rc = batch_try(net, shape, middle, &bytes, error);
		if (rc)
			return rc;
		if (bytes <= footprint)
			low = middle;
		else
			high = middle - 1;
	}
	return batch_try(net, shape, low, &bytes, error);
}

/* What network_make() needs, in the plan. */
static void
shape_keep(const struct network_shape *shape, struct workload_plan *plan)
{
	const uint64_t kept[] = {shape->model, shape->width, shape->size,
				 shape->batch, shape->steps, shape->group_bytes};

	_Static_assert(sizeof(kept) == sizeof(plan->shape), "a place for each number");
	memcpy(plan->shape, kept, sizeof(kept));
}

static int
plan_network(const struct workload_plan *plan, struct network *net, char *error)
{
	const struct network_shape shape = {
		.model = (enum network_model)plan->shape[0],
		.width = (uint32_t)plan->shape[1],
		.size = (uint32_t)plan->shape[2],
		.batch = (uint32_t)plan->shape[3],
		.steps = (uint32_t)plan->shape[4],
		.group_bytes = plan->shape[5],
	};

	return network_make(&shape, net, error);
}

static int
network_plan(const struct workload_params *params, struct workload_plan *plan, char *error)
{
	int uvm = params->config.policy == SLUICE_POLICY_UVM;
	int cuda = params->config.device == SLUICE_DEVICE_CUDA;
	struct network_shape shape = {
		.model = (enum network_model)params->option[OPTION_MODEL],
		.width = (uint32_t)params->option[OPTION_WIDTH],
		.size = (uint32_t)params->option[OPTION_SIZE],
		.steps = (uint32_t)params->option[OPTION_STEPS],
		.group_bytes = params->footprint_bytes / GROUPS,
	};
	struct network *net = malloc(sizeof(*net));
	int rc;

	if (!net)
		return workload_plan_refuse(error, "network: out of memory");
	if (shape.group_bytes < GROUP_LEAST)
		shape.group_bytes = GROUP_LEAST;
	if (!shape.size)
		shape.size = default_size(shape.model, cuda);
	if (!shape.width)
		shape.width = default_width(cuda, params->footprint_bytes);
	rc = batch_choose(net, &shape, params->option[OPTION_BATCH],
			  params->footprint_bytes, error);
	if (!rc) {
		shape_keep(&shape, plan);
		plan->rows = shape.batch;
		plan->cols = net->sample;
		plan->n_arrays = NETWORK_ARRAY_COUNT;
	}
	for (unsigned i = 0; !rc && i < NETWORK_ARRAY_COUNT; i++)
		plan->array[i] = (struct workload_array){
			.name = network_arrays[i].name,
			.role = network_arrays[i].role,
			/* There every page that was on the device counts as written. */
			.flags = network_arrays[i].flags |
				 (uvm && network_arrays[i].role == WORKLOAD_INPUT ? SLUICE_WRITE
										  : 0u),
			.size_bytes = network_array_numbers(net, i) * 4,
		};
	free(net);
	return rc;
}

/* ---- the task, and what weights begin with ---- */

static uint32_t
label_make(uint64_t seed, uint64_t sample)
{
	return (uint32_t)(workload_hash(seed * NETWORK_ARRAY_COUNT + NETWORK_ARRAY_LABELS,
					sample) %
			  NETWORK_CLASSES);
}

/* Between -1 and 1: the pattern of a class, the same for every sample of it. */
static float
pattern(uint64_t seed, uint32_t label, uint64_t part)
{
	return 2.0f * workload_unit(seed * NETWORK_ARRAY_COUNT + NETWORK_ARRAY_COUNT - 1,
				    part * NETWORK_CLASSES + label) -
	       1.0f;
}

/* Number i of the samples: of which sample, and of which part of a pattern. */
static void
sample_part(const struct workload_plan *plan, uint64_t i, uint64_t *sample, uint64_t *part)
{
	uint64_t per = plan->cols, size = plan->shape[2], batch = plan->rows;
	uint64_t at = i % per;

	if (plan->shape[0] == NETWORK_RNN) { /* by batch, step, sample */
		*sample = i / per / (size * batch) * batch + i / per % batch;
		*part = at;
		return;
	}
	*sample = i / per;
	*part = (at / 3 / size * PATCHES / size * PATCHES + at / 3 % size * PATCHES / size) *
			3 +
		at % 3;
}

static float
sample_make(const struct workload_plan *plan, uint64_t seed, uint64_t i)
{
	uint64_t sample, part;

	sample_part(plan, i, &sample, &part);
	return pattern(seed, label_make(seed, sample), part) +
	       2.0f * workload_unit(seed * NETWORK_ARRAY_COUNT + NETWORK_ARRAY_SAMPLES, i) -
	       1.0f;
}

static void
weights_fill(const struct workload_plan *plan, uint64_t seed, uint64_t first, size_t n,
	     float *to)
{
	struct network *net = malloc(sizeof(*net));
	char error[WORKLOAD_TEXT_BYTES];
	unsigned p = 0;

	memset(to, 0, n * sizeof(*to));
	if (net && !plan_network(plan, net, error)) {
		for (uint64_t i = first; i < first + n; i++) {
			const struct network_param *param;

			while (p + 1 < net->n_params && net->param[p + 1].first <= i)
				p++;
			param = &net->param[p];
			if (i >= param->first + param->n)
				continue; /* a gap */
			to[i - first] =
				param->size > 0.0f
					? param->size *
						  (2.0f * workload_unit(seed * NETWORK_ARRAY_COUNT +
										NETWORK_ARRAY_WEIGHTS,
									i) -
						   1.0f)
					: param->value;
		}
	}
	free(net);
}

static void
network_fill(const struct workload_plan *plan, unsigned array, uint64_t seed,
	     uint64_t first, size_t n, void *out)
{
	uint32_t *labels = out;
	float *to = out;

	if (array == NETWORK_ARRAY_WEIGHTS) {
		weights_fill(plan, seed, first, n, out);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (array == NETWORK_ARRAY_LABELS)
			labels[i] = label_make(seed, first + i);
		else
			to[i] = sample_make(plan, seed, first + i);
	}
}

/* ---- the run ---- */

static int
loss_mean(struct workload_env *env, uint64_t step, double *out)
{
	uint64_t n = env->plan.rows;
	float *losses = calloc(n, sizeof(*losses));
	double sum = 0;
	int rc;

	if (!losses)
		return workload_fail(env, -ENOMEM, "network: out of memory");
	rc = workload_host_copy(env, NETWORK_ARRAY_LOSSES, step * n, n, n, 1, losses);
	for (uint64_t i = 0; i < n; i++)
		sum += (double)losses[i];
	free(losses);
	if (!rc)
		*out = sum / (double)n;
	return rc;
}

static int
network_train(struct workload_env *env, const struct network *net)
{
	struct network_run run = {
		.env = env,
		.net = net,
		.discard = env->params->option[OPTION_DISCARD],
		.total = 2ull * net->n_ops * net->shape.steps,
	};
	int rc = 0;

	for (; !rc && run.step < net->shape.steps; run.step++)
		rc = network_step(&run);
	return rc;
}

static int
network_run(struct workload_env *env)
{
	struct workload_result *result = env->result;
	struct network *net = malloc(sizeof(*net));
	int rc;

	if (!net)
		return workload_fail(env, -ENOMEM, "network: out of memory");
	rc = plan_network(&env->plan, net, result->error);
	if (!rc && env->config.device != SLUICE_DEVICE_CUDA)
		rc = network_blas_open(env);
	if (!rc)
		rc = network_train(env, net);
	if (!rc)
		rc = loss_mean(env, 0, &result->loss_first);
	if (!rc)
		rc = loss_mean(env, net->shape.steps - 1, &result->loss_last);
	if (!rc)
		result->steps = net->shape.steps;
	free(net);
	return rc;
}

/* All fits: what is read goes in once. Else it depends on the order in which layers come and go. */
static void
network_expect(const struct workload_env *env, struct workload_expectation *out)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < NETWORK_ARRAY_COUNT; i++)
		all += workload_chunks_up(env, env->plan.array[i].size_bytes);
	if (all > env->config.device_budget_bytes)
		return;
	out->known = 1;
	for (unsigned i = NETWORK_ARRAY_SAMPLES; i <= NETWORK_ARRAY_WEIGHTS; i++)
		out->h2d_bytes += workload_chunks_up(env, env->plan.array[i].size_bytes);
	out->tolerance_bytes = 2 * env->config.chunk_bytes;
	snprintf(out->h2d_formula, sizeof(out->h2d_formula), "samples + weights");
	snprintf(out->d2h_formula, sizeof(out->d2h_formula), "0");
}

/* ---- the oracle: the same launches in memory of their own ---- */

static int
plain_nothing(struct workload_env *env)
{
	(void)env;
	return 0;
}

static int
plain_launch(struct workload_env *env, const struct workload_kernel *kernel, uint64_t n,
	     const void *args, const struct sluice_use *uses, size_t n_uses)
{
	(void)env;
	(void)uses;
	(void)n_uses;
	for (uint64_t begin = 0; begin < n; begin += kernel->soft_elements)
		kernel->piece(args, begin, kernel_min(n, begin + kernel->soft_elements));
	return 0;
}

static int
plain_discard(struct workload_env *env, void *addr, size_t bytes, enum sluice_discard_mode mode)
{
	(void)env;
	(void)addr;
	(void)bytes;
	(void)mode;
	return 0;
}

static const struct workload_memory_ops memory_plain = {
	.launch = plain_launch,
	.wait = plain_nothing,
	.pace = plain_nothing,
	.discard = plain_discard,
};

/* A run of its own beside env's, that tells nobody of its progress. */
struct twin {
	struct workload_env env;
	struct workload_params params;
	struct workload_result result;
};

static struct twin *
twin_make(const struct workload_env *env, const struct workload_memory_ops *memory)
{
	struct twin *twin = calloc(1, sizeof(*twin));

	if (!twin)
		return NULL;
	twin->env = *env;
	twin->params = *env->params;
	twin->params.presence = WORKLOAD_PRESENCE_LAUNCH;
	twin->params.on_progress = NULL;
	twin->env.params = &twin->params;
	twin->env.result = &twin->result;
	twin->env.memory = memory;
	twin->env.memory_state = NULL;
	memset(twin->env.base, 0, sizeof(twin->env.base));
	return twin;
}

/* Train with what env's run began with; 1: env's run ended with something else. */
static int
twin_compare(struct workload_env *env, struct twin *twin)
{
	static const unsigned compared[] = {NETWORK_ARRAY_LOSSES, NETWORK_ARRAY_WEIGHTS};
	uint64_t n = env->plan.array[NETWORK_ARRAY_WEIGHTS].size_bytes / 4;
	int rc = workload_input_read(env, NETWORK_ARRAY_WEIGHTS, 0, n,
				     twin->env.base[NETWORK_ARRAY_WEIGHTS]);

	if (rc)
		return rc;
	rc = network_run(&twin->env);
	if (!rc && twin->env.memory->round_end)
		rc = twin->env.memory->round_end(&twin->env, WORKLOAD_ROUND_MEASURED);
	if (rc)
		return workload_fail(env, rc, "the oracle: %s", twin->result.error);
	for (unsigned i = 0; !rc && i < 2; i++) {
		unsigned array = compared[i];
		const float *want = twin->env.base[array];

		n = env->plan.array[array].size_bytes / 4;
		for (uint64_t at = 0; !rc && at < n; at += COMPARE_NUMBERS)
			rc = workload_output_compare(env, array, WORKLOAD_F32, at,
						     kernel_min(COMPARE_NUMBERS, n - at),
						     want + at);
	}
	return rc;
}

static uint64_t
array_span(const struct workload_env *env, unsigned array)
{
	return (env->plan.array[array].size_bytes + 4095) / 4096 * 4096;
}

static int
plain_reference(struct workload_env *env, void *memory)
{
	struct twin *twin = twin_make(env, &memory_plain);
	char *at = memory;
	int rc = 0;

	if (!twin)
		return workload_fail(env, -ENOMEM, "network: out of memory");
	at += (4096 - (uintptr_t)at % 4096) % 4096;
	for (unsigned i = 0; !rc && i < NETWORK_ARRAY_COUNT; i++) {
		twin->env.base[i] = at;
		at += array_span(env, i);
		if (network_arrays[i].role == WORKLOAD_INPUT)
			rc = workload_input_read(env, i, 0, env->plan.array[i].size_bytes / 4,
						 twin->env.base[i]);
	}
	if (!rc)
		rc = twin_compare(env, twin);
	free(twin);
	return rc;
}

/* Weights are an output there: they come from here, not from the file, and are brought back. */
static int
cuda_reference(struct workload_env *env)
{
	struct twin *twin = twin_make(env, &workload_memory_copies);
	char path[PATH_MAX];
	int rc;

	if (!twin)
		return workload_fail(env, -ENOMEM, "network: out of memory");
	twin->env.plan.array[NETWORK_ARRAY_WEIGHTS].role = WORKLOAD_OUTPUT;
	rc = twin->env.memory->open(&twin->env);
	for (unsigned i = 0; !rc && i < NETWORK_ARRAY_COUNT; i++) {
		rc = workload_file_path(&twin->env, i, path, sizeof(path));
		if (!rc)
			rc = twin->env.memory->map(&twin->env, i, path);
	}
	rc = rc ? workload_fail(env, rc, "the oracle: %s", twin->result.error)
		: twin_compare(env, twin);
	twin->env.memory->close(&twin->env);
	free(twin);
	return rc;
}

static int
network_reference(struct workload_env *env)
{
	uint64_t bytes = 4096;

	if (env->config.device == SLUICE_DEVICE_CUDA)
		return cuda_reference(env);
	for (unsigned i = 0; i < NETWORK_ARRAY_COUNT; i++)
		bytes += array_span(env, i);
	return workload_reference_run(env, bytes, plain_reference);
}

static const struct workload_ops network_ops = {
	.plan = network_plan,
	.fill = network_fill,
	.run = network_run,
	.expect = network_expect,
	.reference = network_reference,
};

static const struct workload_kernel *const network_kernels[] = {
	&network_gemm_kernel,
	&network_window_kernel,
	&network_window_back_kernel,
	&network_activate_kernel,
	&network_sums_kernel,
	&network_reduce_kernel,
	&network_moments_kernel,
	&network_norm_kernel,
	&network_norm_back_kernel,
	&network_pool_kernel,
	&network_pool_back_kernel,
	&network_average_kernel,
	&network_average_back_kernel,
	&network_add_kernel,
	&network_loss_kernel,
	&network_update_kernel,
	NULL,
};

const struct workload workload_network = {
	.name = "network",
	.text = "training of VGG-16, Darknet-19, ResNet-53 or a recurrent network",
	.options = network_options,
	.n_options = OPTION_COUNT,
	.ops = &network_ops,
	.kernels = network_kernels,
};

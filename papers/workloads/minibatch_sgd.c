/* SPDX-License-Identifier: Apache-2.0 */
/*
 * minibatch: a linear support vector machine is trained by stochastic gradient descent over a file
 * of samples that may be many times larger than all memory. A batch is a few records of the file,
 * drawn at random; in an epoch each record is used once. While a batch trains, the next ones are on
 * their way, as --fetch says:
 *
 *   index   by a call of sluice_prefetch_index() with what the batch is made of;
 *   launch  not at all: launches bring in what they declare;
 *   hand    read from the file past the page cache into the other one of two buffers, by a thread
 *           for each record: what one writes without a space. The kernels then work on the buffer,
 *           without a copy to a device. (On a GPU --memory streaming is that.)
 *
 * Host code waits for each batch before it launches the next one, and looks whether that is on the
 * device as a whole by then, all copies done: the results are those numbers. The weights are the same however
 * batches are fetched.
 *
 * Samples are random; their labels say on which side of a plane through the middle they are. The
 * reference trains with arithmetic of its own and compares weights bit for bit; then it
 * classifies: weights that learned nothing are wrong.
 *
 * Threads: see env.h; with --fetch hand, readers that live for a batch.
 */
#include "minibatch_sgd_kernel.h"

#include "env.h"
#include "list.h"
#include "random.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARRAY_SAMPLES, ARRAY_WEIGHTS, ARRAY_SUMS, ARRAY_COUNT };

enum {
	OPTION_FETCH,
	OPTION_AHEAD,
	OPTION_RECORDS,
	OPTION_RECORD_CHUNKS,
	OPTION_STEPS,
	OPTION_EPOCHS
};

enum { FETCH_INDEX, FETCH_LAUNCH, FETCH_HAND };

#define ROW_BYTES   (SGD_FEATURES * sizeof(float))
#define PIECE_BYTES (2ull << 20)         /* of a record; the most that an index is for */
#define ALIGN_BYTES 4096u                /* of direct I/O */
#define SCORE_ROWS  4096u                /* that the result is tried on */
#define SCORE_LEAST (SCORE_ROWS * 3 / 4) /* of them to be classified right */
#define PLANE_SEED  0x51ceu              /* of the plane that labels tell of */
#define DRAW_SEED   0xba7cu              /* of the order of records */
#define RATE        0.5f
#define KEEP        0.9999f /* of the weights, each batch */

static const char *const fetch_names[] = {"index", "launch", "hand", NULL};

static const struct workload_option sgd_options[] = {
	[OPTION_FETCH] = {.name = "fetch",
			  .text = "how the next batch is brought in while one trains",
			  .choices = fetch_names,
			  .initial = FETCH_INDEX,
			  .min = FETCH_INDEX,
			  .max = FETCH_HAND},
	[OPTION_AHEAD] = {.name = "ahead",
			  .text = "batches that are fetched ahead (by hand one)",
			  .initial = 2,
			  .min = 1,
			  .max = 64},
	[OPTION_RECORDS] = {.name = "records",
			    .text = "records of a batch",
			    .initial = 2,
			    .min = 1,
			    .max = SGD_RECORDS_MAX},
	[OPTION_RECORD_CHUNKS] = {.name = "record-chunks",
				  .text = "chunks of a record",
				  .initial = 1,
				  .min = 1,
				  .max = 1024},
	[OPTION_STEPS] = {.name = "steps",
			  .text = "how often the weights are changed with each batch",
			  .initial = 1,
			  .min = 1,
			  .max = 100000},
	[OPTION_EPOCHS] = {.name = "epochs",
			   .text = "how often all records are used",
			   .initial = 1,
			   .min = 1,
			   .max = 1000},
};

/* On a GPU regions of this many large chunks have them. */
#define LARGE_BYTES (16ull << 20)

static uint64_t
plan_record_bytes(const struct workload_params *params)
{
	uint64_t chunk = params->config.chunk_bytes ? params->config.chunk_bytes : 2ull << 20;

	if (params->config.device == SLUICE_DEVICE_CUDA && chunk < LARGE_BYTES &&
	    params->footprint_bytes >= 2 * 16 * LARGE_BYTES)
		chunk = LARGE_BYTES;
	return chunk * params->option[OPTION_RECORD_CHUNKS];
}

static int
sgd_plan(const struct workload_params *params, struct workload_plan *plan, char *error)
{
	uint64_t record = plan_record_bytes(params), batch = params->option[OPTION_RECORDS];
	uint64_t sums = batch * record / SGD_SLICE;
	uint64_t records = workload_less(params->footprint_bytes, sums + ROW_BYTES) / record;

	if (params->config.device == SLUICE_DEVICE_CUDA &&
	    params->option[OPTION_FETCH] == FETCH_HAND)
		return workload_plan_refuse(
			error, "minibatch: on a GPU --memory streaming is what "
			       "one writes by hand, not --fetch hand");
	if (records < batch)
		return workload_plan_refuse(
			error,
			"minibatch: a batch of %" PRIu64 " records of %" PRIu64
			" bytes needs a footprint of at least %" PRIu64
			" bytes, it is %" PRIu64,
			batch, record, batch * record + sums + ROW_BYTES,
			params->footprint_bytes);
	plan->rows = records;
	plan->cols = record / ROW_BYTES;
	plan->n_arrays = ARRAY_COUNT;
	plan->array[ARRAY_SAMPLES] = (struct workload_array){
		.name = "samples",
		.role = WORKLOAD_INPUT,
		.flags = SLUICE_READ,
		.size_bytes = records * record,
	};
	plan->array[ARRAY_WEIGHTS] = (struct workload_array){
		.name = "weights",
		.role = WORKLOAD_OUTPUT,
		.flags = SLUICE_READ | SLUICE_WRITE | SLUICE_CREATE,
		.size_bytes = ROW_BYTES,
		.kept = 1,
	};
	plan->array[ARRAY_SUMS] = (struct workload_array){
		.name = "sums",
		.role = WORKLOAD_ANONYMOUS,
		.size_bytes = sums,
		.kept = 1,
	};
	return 0;
}

/* One sample, its label multiplied in. */
static void
row_make(uint64_t seed, uint64_t row, float *out)
{
	float side = 0, label;

	for (uint32_t f = 1; f < SGD_FEATURES; f++) {
		out[f] = workload_unit(seed, row * SGD_FEATURES + f) * 2 - 1;
		side += out[f] * (workload_unit(PLANE_SEED, f) * 2 - 1);
	}
	label = side < 0 ? -1.0f : 1.0f;
	out[0] = label;
	for (uint32_t f = 1; f < SGD_FEATURES; f++)
		out[f] = out[f] * label;
}

static void
sgd_fill(const struct workload_plan *plan, unsigned array, uint64_t seed, uint64_t first,
	 size_t n, void *out)
{
	float row[SGD_FEATURES], *to = out;
	size_t i = 0;

	(void)plan;
	(void)array; /* the samples are the only one that is generated */
	while (i < n) {
		uint64_t f = (first + i) % SGD_FEATURES;
		size_t m = (size_t)kernel_min(SGD_FEATURES - f, n - i);

		row_make(seed, (first + i) / SGD_FEATURES, row);
		memcpy(to + i, row + f, m * sizeof(*to));
		i += m;
	}
}

/* ---- kernels ---- */

static uint64_t
gradient_elements(const void *args)
{
	return ((const struct sgd_gradient_args *)args)->rows;
}

static void
slice_sum(const struct sgd_gradient_args *a, uint64_t first)
{
	const float *rows = a->record[first / a->record_rows] +
			    first % a->record_rows * SGD_FEATURES;
	float sum[SGD_FEATURES] = {0};

	for (unsigned r = 0; r < SGD_SLICE; r++, rows += SGD_FEATURES)
		if (sgd_margin(rows, a->weights) < 1.0f)
			for (unsigned f = 0; f < SGD_FEATURES; f++)
				sum[f] = sum[f] + rows[f];
	memcpy(a->sums + first / SGD_SLICE * SGD_FEATURES, sum, sizeof(sum));
}

static void
gradient_piece(const void *args, uint64_t begin, uint64_t end)
{
	for (; begin < end; begin += SGD_SLICE)
		slice_sum(args, begin);
}

enum { POINTER_WEIGHTS = SGD_RECORDS_MAX, POINTER_SUMS, POINTER_COUNT };

static void
gradient_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct sgd_gradient_args *a = args;

	for (unsigned i = 0; i < SGD_RECORDS_MAX; i++) {
		uint64_t from = kernel_min(a->record_rows,
					   workload_less(begin, i * a->record_rows));
		uint64_t to = kernel_min(a->record_rows,
					 workload_less(end, i * a->record_rows));

		touch[i] = (struct workload_touch){.first = from * SGD_FEATURES,
						   .n = (to - from) * SGD_FEATURES,
						   .read = 1};
	}
	touch[POINTER_WEIGHTS] = (struct workload_touch){.n = SGD_FEATURES, .read = 1};
	touch[POINTER_SUMS] = (struct workload_touch){.first = begin / SGD_SLICE * SGD_FEATURES,
						      .n = (end - begin) / SGD_SLICE *
							   SGD_FEATURES,
						      .write = 1};
}

/* clang-format off */
#define RECORD(i) \
	(offsetof(struct sgd_gradient_args, record) + (i) * sizeof(float *))
#define RECORDS_4(i) \
	RECORD(i), RECORD((i) + 1), RECORD((i) + 2), RECORD((i) + 3)
/* clang-format on */

static const struct workload_kernel gradient_kernel = {
	.name = "workload_sgd_gradient",
	.soft_elements = 8 * SGD_SLICE,
	.cuda_elements = SGD_SLICE,
	.args_bytes = sizeof(struct sgd_gradient_args),
	.n_pointers = POINTER_COUNT,
	.pointer = {RECORDS_4(0), RECORDS_4(4), RECORDS_4(8), RECORDS_4(12),
		    offsetof(struct sgd_gradient_args, weights),
		    offsetof(struct sgd_gradient_args, sums)},
	.elements = gradient_elements,
	.piece = gradient_piece,
	.touch = gradient_touch,
};

static uint64_t
update_elements(const void *args)
{
	(void)args;
	return SGD_FEATURES;
}

static void
update_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct sgd_update_args *a = args;

	for (uint64_t f = begin; f < end; f++) {
		float sum = 0;

		for (uint64_t s = 0; s < a->slices; s++)
			sum = sum + a->sums[s * SGD_FEATURES + f];
		a->weights[f] = a->slices ? sgd_update(a->weights[f], a->keep, a->rate, sum)
					  : 0.0f;
	}
}

static void
update_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct sgd_update_args *a = args;

	touch[0] = (struct workload_touch){.n = a->slices * SGD_FEATURES, .read = 1};
	touch[1] = (struct workload_touch){.first = begin,
					   .n = end - begin,
					   .read = a->slices > 0,
					   .write = 1};
}

static const struct workload_kernel update_kernel = {
	.name = "workload_sgd_update",
	.soft_elements = SGD_FEATURES,
	.cuda_elements = 32,
	.args_bytes = sizeof(struct sgd_update_args),
	.n_pointers = 2,
	.pointer = {offsetof(struct sgd_update_args, sums),
		    offsetof(struct sgd_update_args, weights)},
	.elements = update_elements,
	.piece = update_piece,
	.touch = update_touch,
};

/* ---- the order of records ---- */

/* A shuffle of all records, another one for each epoch. */
static void
records_shuffle(uint64_t *order, uint64_t n, uint64_t epoch)
{
	for (uint64_t i = 0; i < n; i++)
		order[i] = i;
	for (uint64_t i = n; i-- > 1;) {
		uint64_t k = workload_hash(DRAW_SEED + epoch, i) % (i + 1), there = order[i];

		order[i] = order[k];
		order[k] = there;
	}
}

/* ---- reading by hand ---- */

struct reader {
	pthread_t thread;
	int fd, rc;
	char *to;
	uint64_t offset, bytes;
};

static void *
reader_run(void *arg)
{
	struct reader *r = arg;

	while (!r->rc && r->bytes > 0) {
		ssize_t got = pread(r->fd, r->to, r->bytes, (off_t)r->offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			r->rc = got < 0 ? -errno : -EIO;
			break;
		}
		r->to += got;
		r->offset += (uint64_t)got;
		r->bytes -= (uint64_t)got;
	}
	return NULL;
}

/* ---- the run ---- */

struct sgd {
	struct workload_env *env;
	uint64_t records, record_bytes, batch; /* in the file; of each; of a batch */
	uint64_t *order, *index;               /* of records; of a batch's pieces */
	uint64_t ahead;                        /* batches */
	uint64_t batches, batch_rows, slices;  /* in an epoch; of a batch */

	/* --fetch hand: two buffers of a batch, and those that read into one of them. */
	int fd;
	char *buffer[2];
	struct reader reader[SGD_RECORDS_MAX];
	unsigned n_readers; /* that run */
};

static int
readers_start(struct sgd *g, uint64_t batch)
{
	for (unsigned i = 0; i < g->batch; i++) {
		struct reader *r = &g->reader[i];
		int rc;

		*r = (struct reader){
			.fd = g->fd,
			.to = g->buffer[batch % 2] + i * g->record_bytes,
			.offset = g->order[batch * g->batch + i] * g->record_bytes,
			.bytes = g->record_bytes,
		};
		rc = pthread_create(&r->thread, NULL, reader_run, r);
		if (rc)
			return workload_fail(g->env, -rc, "no thread to read with: %s",
					     strerror(rc));
		g->n_readers++;
	}
	return 0;
}

static int
readers_wait(struct sgd *g)
{
	int rc = 0;

	for (; g->n_readers > 0; g->n_readers--) {
		struct reader *r = &g->reader[g->n_readers - 1];

		pthread_join(r->thread, NULL);
		if (r->rc)
			rc = workload_fail(g->env, r->rc, "samples: read at %" PRIu64 ": %s",
					   r->offset, strerror(-r->rc));
		else
			g->env->result->hand_bytes += g->record_bytes;
	}
	return rc;
}

static int
hand_open(struct sgd *g)
{
	char path[PATH_MAX];
	int rc = workload_file_path(g->env, ARRAY_SAMPLES, path, sizeof(path));

	if (rc)
		return rc;
	g->fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
	if (g->fd < 0 && errno == EINVAL) /* tmpfs and others: through the page cache */
		g->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (g->fd < 0)
		return workload_fail(g->env, -errno, "%s: %s", path, strerror(errno));
	for (unsigned i = 0; i < 2; i++) {
		void *buffer;

		if (posix_memalign(&buffer, ALIGN_BYTES, g->batch * g->record_bytes))
			return workload_fail(g->env, -ENOMEM,
					     "out of memory for two batches");
		g->buffer[i] = buffer;
	}
	return 0;
}

static void
hand_close(struct sgd *g)
{
	(void)!readers_wait(g); /* after a failure: the first error is the one that counts */
	free(g->buffer[0]);
	free(g->buffer[1]);
	if (g->fd >= 0)
		close(g->fd);
}

static uint64_t
fetch_of(const struct sgd *g)
{
	return g->env->params->option[OPTION_FETCH];
}

/* One call for all pieces of all records. */
static int
batch_prefetch(struct sgd *g, uint64_t batch)
{
	struct workload_env *env = g->env;
	uint64_t pieces = g->record_bytes / PIECE_BYTES;
	int rc = 0;

	for (uint64_t i = 0; i < g->batch; i++)
		for (uint64_t k = 0; k < pieces; k++)
			g->index[i * pieces + k] = g->order[batch * g->batch + i] * pieces + k;
	if (env->memory->prefetch_index)
		rc = env->memory->prefetch_index(env, ARRAY_SAMPLES, PIECE_BYTES,
						 g->index, g->batch * pieces);
	return rc;
}

/* Start bringing in a batch of the present epoch, if there is such a one. */
static int
batch_fetch(struct sgd *g, uint64_t batch)
{
	if (batch >= g->batches)
		return 0;
	switch (fetch_of(g)) {
	case FETCH_INDEX:
		return batch_prefetch(g, batch);
	case FETCH_HAND:
		return readers_start(g, batch);
	}
	return 0;
}

/* slices 0: the weights become 0. */
static int
weights_update(struct sgd *g, uint64_t slices)
{
	struct workload_env *env = g->env;
	struct sgd_update_args args = {
		.sums = env->base[ARRAY_SUMS],
		.weights = env->base[ARRAY_WEIGHTS],
		.slices = slices,
		.keep = KEEP,
		.rate = RATE / (float)g->batch_rows,
	};
	struct sluice_use uses[] = {
		workload_use(env, ARRAY_WEIGHTS, 0, SGD_FEATURES,
			     slices ? SLUICE_USE_READ_WRITE : SLUICE_USE_WRITE_ALL),
		workload_use(env, ARRAY_SUMS, 0, slices * SGD_FEATURES, SLUICE_USE_READ),
	};

	return workload_launch(env, &update_kernel, &args, uses, slices ? 2 : 1);
}

/* The launches of a batch. */
static int
batch_launch(struct sgd *g, uint64_t batch)
{
	struct workload_env *env = g->env;
	struct sgd_gradient_args args = {
		.weights = env->base[ARRAY_WEIGHTS],
		.sums = env->base[ARRAY_SUMS],
		.rows = g->batch_rows,
		.record_rows = env->plan.cols,
	};
	uint64_t elements = g->record_bytes / sizeof(float);
	struct sluice_use uses[2 + SGD_RECORDS_MAX] = {
		workload_use(env, ARRAY_WEIGHTS, 0, SGD_FEATURES, SLUICE_USE_READ),
		workload_use(env, ARRAY_SUMS, 0, g->slices * SGD_FEATURES,
			     SLUICE_USE_WRITE_ALL),
	};
	int by_hand = fetch_of(g) == FETCH_HAND, is_resident = 0, rc = 0;
	unsigned n = (unsigned)g->batch, i;

	for (i = 0; i < SGD_RECORDS_MAX; i++) {
		uint64_t record = i < n ? g->order[batch * n + i] : 0;

		args.record[i] = (const float *)env->base[ARRAY_SAMPLES] + record * elements;
		if (by_hand && i < n)
			args.record[i] = (const float *)(const void *)g->buffer[batch % 2] +
					 i * elements;
		if (i < n)
			uses[2 + i] = workload_use(env, ARRAY_SAMPLES, record * elements,
						   elements, SLUICE_USE_READ);
	}
	if (!by_hand && env->memory->is_resident)
		rc = env->memory->is_resident(env, uses + 2, n, &is_resident);
	env->result->batches++;
	env->result->batches_resident += (uint64_t)is_resident;
	for (uint64_t step = 0; !rc && step < env->params->option[OPTION_STEPS]; step++) {
		rc = workload_launch(env, &gradient_kernel, &args, uses, by_hand ? 2 : 2 + n);
		if (!rc)
			rc = weights_update(g, g->slices);
	}
	return rc;
}

/* The batch is there or on its way. */
static int
batch_train(struct sgd *g, uint64_t batch)
{
	int rc = readers_wait(g);

	if (!rc)
		rc = batch_fetch(g, batch + g->ahead);
	if (!rc)
		rc = batch_launch(g, batch);
	return rc ? rc : workload_wait(g->env);
}

static int
epochs_train(struct sgd *g)
{
	uint64_t epochs = g->env->params->option[OPTION_EPOCHS];
	int rc = weights_update(g, 0);

	for (uint64_t epoch = 0; !rc && epoch < epochs; epoch++) {
		records_shuffle(g->order, g->records, epoch);
		for (uint64_t batch = 0; !rc && batch < g->ahead; batch++)
			rc = batch_fetch(g, batch);
		for (uint64_t batch = 0; !rc && batch < g->batches; batch++) {
			rc = batch_train(g, batch);
			if (!rc)
				rc = workload_tile_done(g->env,
							epoch * g->batches + batch + 1,
							epochs * g->batches);
		}
	}
	return rc;
}

static void
sgd_make(struct workload_env *env, struct sgd *g)
{
	*g = (struct sgd){
		.env = env,
		.records = env->plan.rows,
		.record_bytes = env->plan.cols * ROW_BYTES,
		.batch = env->params->option[OPTION_RECORDS],
		.fd = -1,
	};
	g->ahead = fetch_of(g) == FETCH_HAND ? 1 : env->params->option[OPTION_AHEAD];
	g->batches = g->records / g->batch; /* what is left over is not used in this epoch */
	g->batch_rows = g->batch * env->plan.cols;
	g->slices = g->batch_rows / SGD_SLICE;
}

static int
sgd_run(struct workload_env *env)
{
	struct sgd g;
	int rc = 0;

	sgd_make(env, &g);
	env->result->batches = env->result->batches_resident = 0; /* of the last round */
	g.order = calloc(g.records, sizeof(*g.order));
	g.index = calloc(g.batch * (g.record_bytes / PIECE_BYTES), sizeof(*g.index));
	if (!g.order || !g.index) {
		rc = -ENOMEM;
		(void)workload_fail(env, rc, "out of memory");
	} else if (fetch_of(&g) == FETCH_HAND) {
		rc = hand_open(&g);
	}
	if (!rc)
		rc = epochs_train(&g);
	hand_close(&g);
	free(g.order);
	free(g.index);
	return rc ? rc : workload_wait(env);
}

/* Every record goes in once in an epoch, unless it is still there from the last one. */
static void
sgd_expect(const struct workload_env *env, struct workload_expectation *out)
{
	uint64_t batch = env->params->option[OPTION_RECORDS];

	if (env->params->option[OPTION_EPOCHS] > 1 ||
	    env->params->option[OPTION_FETCH] == FETCH_HAND)
		return;
	out->known = 1;
	out->h2d_bytes = env->plan.rows / batch * batch * env->plan.cols * ROW_BYTES;
	out->tolerance_bytes = 2 * env->config.chunk_bytes;
	snprintf(out->h2d_formula, sizeof(out->h2d_formula), "samples");
	snprintf(out->d2h_formula, sizeof(out->d2h_formula), "0");
}

/* ---- the reference ---- */

struct reference {
	struct sgd sgd;
	float weights[SGD_FEATURES], sum[SGD_FEATURES], slice[SGD_FEATURES];
	float *rows; /* of a batch */
};

static float
reference_margin(const float *row, const float *weights)
{
	float total = 0;

	for (unsigned l = 0; l < SGD_LANES; l++) {
		float sum = 0;

		for (unsigned f = l; f < SGD_FEATURES; f += SGD_LANES)
			sum = sum + weights[f] * row[f];
		total = total + sum;
	}
	return total;
}

/* Row number i of the batch to its sum: slice by slice. */
static void
reference_row(struct reference *r, uint64_t i)
{
	const float *row = r->rows + i * SGD_FEATURES;
	int pulls = reference_margin(row, r->weights) < 1.0f;

	for (unsigned f = 0; f < SGD_FEATURES; f++) {
		if (i % SGD_SLICE == 0)
			r->slice[f] = 0;
		if (pulls)
			r->slice[f] = r->slice[f] + row[f];
		if (i % SGD_SLICE == SGD_SLICE - 1)
			r->sum[f] = r->sum[f] + r->slice[f];
	}
}

/* One step with a batch that has been read. */
static void
reference_step(struct reference *r)
{
	struct sgd *g = &r->sgd;
	float rate = RATE / (float)g->batch_rows;

	memset(r->sum, 0, sizeof(r->sum));
	for (uint64_t i = 0; i < g->batch_rows; i++)
		reference_row(r, i);
	for (unsigned f = 0; f < SGD_FEATURES; f++)
		r->weights[f] = r->weights[f] * KEEP + rate * r->sum[f];
}

static int
reference_batch(struct reference *r, uint64_t batch)
{
	struct sgd *g = &r->sgd;
	uint64_t elements = g->record_bytes / sizeof(float);
	int rc = 0;

	for (uint64_t i = 0; !rc && i < g->batch; i++)
		rc = workload_input_read(g->env, ARRAY_SAMPLES,
					 g->order[batch * g->batch + i] * elements,
					 elements, r->rows + i * elements);
	for (uint64_t step = 0; !rc && step < g->env->params->option[OPTION_STEPS]; step++)
		reference_step(r);
	return rc;
}

/* Rows that lie behind the samples, so that none of them was trained with. */
static int
reference_score(struct reference *r)
{
	struct workload_env *env = r->sgd.env;
	float row[SGD_FEATURES];
	unsigned right = 0;

	for (uint64_t i = 0; i < SCORE_ROWS; i++) {
		row_make(env->params->seed, env->plan.rows * env->plan.cols + i, row);
		right += reference_margin(row, r->weights) > 0;
	}
	if (right >= SCORE_LEAST)
		return 0;
	snprintf(env->result->mismatch, sizeof(env->result->mismatch),
		 "the weights classify %u of %u new samples right: nothing was learned",
		 right, SCORE_ROWS);
	return 1;
}

static int
reference_train(struct workload_env *env, void *memory)
{
	uint64_t epochs = env->params->option[OPTION_EPOCHS];
	struct reference r = {.rows = memory};
	struct sgd *g = &r.sgd;
	int rc = 0;

	sgd_make(env, g);
	g->order = (uint64_t *)((char *)memory + g->batch * g->record_bytes);
	for (uint64_t epoch = 0; !rc && epoch < epochs; epoch++) {
		records_shuffle(g->order, g->records, epoch);
		for (uint64_t batch = 0; !rc && batch < g->batches; batch++) {
			rc = reference_batch(&r, batch);
			if (!rc)
				rc = workload_progress(env, "verify",
						       (double)(epoch * g->batches +
								batch + 1) /
							       (double)(epochs * g->batches));
		}
	}
	if (!rc)
		rc = workload_output_compare(env, ARRAY_WEIGHTS, WORKLOAD_F32, 0,
					     SGD_FEATURES, r.weights);
	return rc ? rc : reference_score(&r);
}

static int
sgd_reference(struct workload_env *env)
{
	return workload_reference_run(env,
				      env->params->option[OPTION_RECORDS] *
						      env->plan.cols * ROW_BYTES +
					      env->plan.rows * sizeof(uint64_t),
				      reference_train);
}

static const struct workload_ops sgd_ops = {
	.plan = sgd_plan,
	.fill = sgd_fill,
	.run = sgd_run,
	.expect = sgd_expect,
	.reference = sgd_reference,
};

static const struct workload_kernel *const sgd_kernels[] = {&gradient_kernel,
							    &update_kernel, NULL};

const struct workload workload_minibatch_sgd = {
	.name = "minibatch",
	.text = "training with batches drawn at random from a large file, fetched by "
		"index",
	.options = sgd_options,
	.n_options = sizeof(sgd_options) / sizeof(sgd_options[0]),
	.ops = &sgd_ops,
	.kernels = sgd_kernels,
};

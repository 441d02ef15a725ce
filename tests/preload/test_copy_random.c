/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random work with short memory: allocations of four times the device budget, copies and fills
 * of every call, kernels and frees. They run on five streams. Events order the streams where
 * they touch the same memory. The expected contents are kept beside.
 *
 * Arguments: a seed, a number of steps. With CUDA_STANDIN_LATE_US set work runs as late as it
 * may.
 */
#include <string.h>

#include "base/rng.h"
#include "copy_test.h"

#define N_OURS    12
#define N_BUFFERS (N_OURS + 5)
#define N_STREAMS 5
#define N_EVENTS  64
#define STEPS     500

struct cu_event;
struct cu_module;
struct cu_function;

int cuEventCreate(struct cu_event **event, unsigned flags);
int cuEventRecord(struct cu_event *event, struct cu_stream *stream);
int cuStreamWaitEvent(struct cu_stream *stream, struct cu_event *event, unsigned flags);
int cuModuleLoadData(struct cu_module **module, const void *image);
int cuModuleGetFunction(struct cu_function **function, struct cu_module *module,
			const char *name);
int cuLaunchKernel(struct cu_function *function, unsigned grid_x, unsigned grid_y,
		   unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
		   unsigned shared_bytes, struct cu_stream *stream, void **params,
		   void **extra);

static const struct sl_standin *standin;
static struct sl_rng rng;
static struct buffer buffers[N_BUFFERS];
static struct cu_stream *streams[N_STREAMS]; /* 0: legacy, 1: the thread's own */
static struct cu_event *events[N_EVENTS];
static unsigned next_event;
static struct cu_function *mix;
static struct cu_context *context;

/* to[i] = to[i] * 3 + from[i] */
static void
mix_kernel(const struct sl_standin_block *block, void *const *params)
{
	uint64_t to = *(const uint64_t *)params[0], from = *(const uint64_t *)params[1];
	uint64_t n = *(const uint64_t *)params[2];
	unsigned char *t = standin->ptr(block, to, n, SL_STANDIN_READ | SL_STANDIN_WRITE);
	const unsigned char *f = standin->ptr(block, from, n, SL_STANDIN_READ);

	for (uint64_t i = 0; i < n; i++)
		t[i] = (unsigned char)(t[i] * 3 + f[i]);
}

static struct buffer *
buffer_any(int kinds)
{
	struct buffer *buffer;

	do {
		buffer = &buffers[sl_rng_below(&rng, N_BUFFERS)];
	} while (!(buffer->kind & kinds));
	return buffer;
}

/* Work on the buffer goes to this stream next: behind what it has elsewhere. */
static void
buffer_follow(struct buffer *buffer, int stream)
{
	if (buffer->stream != stream) {
		struct cu_event *event = events[next_event++ % N_EVENTS];

		MUST(DRIVER(cuEventRecord)(event, streams[buffer->stream]));
		MUST(DRIVER(cuStreamWaitEvent)(streams[stream], event, 0));
	}
	buffer->stream = stream;
}

static void
step_call(void)
{
	const struct call *call = &copy_calls[sl_rng_below(&rng, n_copy_calls)];
	size_t unit = call->element_bytes ? call->element_bytes : 1, least;
	struct work w = {.context = context, .depth = 1, .height = 1};
	int stream;

	w.to = buffer_any(call->to);
	if (call->from)
		do {
			w.from = buffer_any(call->from);
		} while (w.from == w.to || (w.from->kind & w.to->kind & KIND_DRIVERS));
	/* Host memory that is not pinned is read when the call is made. */
	if (w.from && !((w.from->kind | w.to->kind) & KIND_DEVICE))
		return;
	/* Batches do not take the legacy stream. */
	if (call->async)
		stream = (int)sl_rng_below(&rng, N_STREAMS - 1) +
			 (strstr(call->name, "Batch") ? 1 : 0);
	else
		stream = strstr(call->name, "_ptds") ? 1 : 0;
	w.stream = streams[stream];
	least = w.from && w.from->bytes < w.to->bytes ? w.from->bytes : w.to->bytes;
	if (call->dimensions > 1)
		w.height = 1 + sl_rng_below(&rng, 40);
	if (call->dimensions > 2)
		w.depth = 1 + sl_rng_below(&rng, 3);
	if (least / w.height / w.depth / 2 < unit) /* a small buffer: as one row */
		w.height = w.depth = 1;
	w.width = 1 + sl_rng_below(&rng, least / w.height / w.depth / 2);
	w.width -= w.width % unit;
	w.width = w.width ? w.width : unit;
	w.to_pitch = w.from_pitch = w.width;
	if (sl_rng_below(&rng, 2))
		w.to_pitch = least / w.height / w.depth / 8 * 8;
	if (w.to_pitch < w.width)
		w.to_pitch = w.width;
	w.to_rows = w.from_rows = w.height;
	w.to_at = sl_rng_below(&rng, w.to->bytes - w.to_pitch * w.height * w.depth + 1);
	w.to_at -= w.to_at % unit;
	if (w.from)
		w.from_at = sl_rng_below(&rng, w.from->bytes -
						       w.from_pitch * w.height * w.depth + 1);
	w.value = (unsigned)sl_rng_next(&rng);
	w.element_bytes = (unsigned)unit;
	buffer_follow(w.to, stream);
	if (w.from)
		buffer_follow(w.from, stream);
	if (call->run(&w)) {
		printf("%s failed\n", call->name);
		exit(1);
	}
	work_shadow(&w);
}

static void
step_kernel(void)
{
	struct buffer *to = buffer_any(KIND_OURS), *from = buffer_any(KIND_OURS);
	uint64_t least = to->bytes < from->bytes ? to->bytes : from->bytes;
	uint64_t n = 1 + sl_rng_below(&rng, least);
	void *params[] = {&to->addr, &from->addr, &n};
	int stream = (int)sl_rng_below(&rng, N_STREAMS);

	if (to == from)
		return;
	buffer_follow(to, stream);
	buffer_follow(from, stream);
	MUST(DRIVER(cuLaunchKernel)(mix, 1, 1, 1, 1, 1, 1, 0, streams[stream], params, NULL));
	for (uint64_t i = 0; i < n; i++)
		to->shadow[i] = (unsigned char)(to->shadow[i] * 3 + from->shadow[i]);
}

static void
ours_make(struct buffer *buffer)
{
	static const size_t most[] = {4096, (size_t)1 << 20, (size_t)8 << 20};

	buffer_make(buffer, KIND_OURS, 64 + sl_rng_below(&rng, most[sl_rng_below(&rng, 3)]));
}

/* The driver waits for all work before memory is free; a program that does not counts on that. */
static void
step_exchange(void)
{
	struct buffer *buffer = &buffers[sl_rng_below(&rng, N_OURS)];

	if (sl_rng_below(&rng, 2))
		buffer_check(buffer, "all so far");
	else
		MUST(DRIVER(cuCtxSynchronize)());
	buffer_free(buffer);
	ours_make(buffer);
}

int
main(int argc, char **argv)
{
	static const enum kind others[] = {KIND_DRIVERS, KIND_PAGEABLE, KIND_PAGEABLE,
					   KIND_PINNED, KIND_PINNED};
	const struct sl_standin_kernel kernel = {"mix", mix_kernel, 3, {8, 8, 8}};
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 77;
	unsigned long steps = argc > 2 ? strtoul(argv[2], NULL, 0) : STEPS;
	struct cu_module *module;
	char text[256];

	printf("seed %llu\n", (unsigned long long)seed);
	sl_rng_init(&rng, seed);
	standin = copy_test_open("10M");
	context = copy_test_context();
	standin->kernel_register(&kernel);
	MUST(DRIVER(cuModuleLoadData)(&module, SL_STANDIN_IMAGE));
	MUST(DRIVER(cuModuleGetFunction)(&mix, module, "mix"));
	streams[0] = CU_LEGACY_STREAM;
	streams[1] = CU_PER_THREAD_STREAM;
	for (int i = 2; i < N_STREAMS; i++)
		streams[i] = copy_test_stream();
	for (int i = 0; i < N_EVENTS; i++)
		MUST(DRIVER(cuEventCreate)(&events[i], CU_EVENT_UNTIMED));
	for (int i = 0; i < N_OURS; i++)
		ours_make(&buffers[i]);
	for (int i = N_OURS; i < N_BUFFERS; i++)
		buffer_make(&buffers[i], others[i - N_OURS],
			    others[i - N_OURS] == KIND_DRIVERS ? DRIVERS_BYTES
							       : (size_t)3 << 20);
	for (unsigned long step = 0; step < steps; step++) {
		uint64_t what = sl_rng_below(&rng, 16);

		if (what < 11)
			step_call();
		else if (what < 15)
			step_kernel();
		else
			step_exchange();
	}
	for (int i = 0; i < N_BUFFERS; i++)
		buffer_check(&buffers[i], "all");
	for (int i = 0; i < N_BUFFERS; i++)
		buffer_free(&buffers[i]);
	if (standin->violations()) {
		printf("%llu rules broken, the last: %s\n",
		       (unsigned long long)standin->violations(),
		       standin->last_violation(text, sizeof(text)));
		return 1;
	}
	return 0;
}

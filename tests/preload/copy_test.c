/* SPDX-License-Identifier: Apache-2.0 */
/* See copy_test.h. */
#include "copy_test.h"

#include <dlfcn.h>
#include <string.h>

#include "base/rng.h"

#define PATTERN_BYTES ((size_t)40961) /* of random contents, then they repeat */

static const struct sl_standin *standin;
static struct sl_rng rng;

/* Prototypes from the table of what the back end calls. */
#define CUDA_SYMBOL(name, exported, need, ...) typedef int call_##name(__VA_ARGS__);
#include "device/cuda/cuda_symbols.def"
#undef CUDA_SYMBOL
#define BACK(name, exported) ((call_##name *)copy_test_find(exported))

void *
copy_test_find(const char *name)
{
	void *function = dlsym(RTLD_DEFAULT, name);

	if (!function) {
		printf("%s is not there\n", name);
		exit(1);
	}
	return function;
}

const struct sl_standin *
copy_test_open(const char *device_budget)
{
	const char *library = getenv("SLUICE_STANDIN_LIBRARY");
	struct cu_context *context;

	if (!library || !dlsym(RTLD_DEFAULT, "cuInit")) {
		printf("SKIP: not started with the preload library and the stand-in "
		       "driver\n");
		exit(77);
	}
	setenv("SLUICE_DEVICE_BUDGET", device_budget, 1);
	setenv("SLUICE_HOST_BUDGET", "192M", 1);
	setenv("SLUICE_CHUNK", "2M", 0);
	setenv("SLUICE_ADDRESS", "512G", 0); /* no more than a sanitizer leaves */
	MUST(BACK(cuInit, "cuInit")(0));
	standin = sl_standin_open(library);
	if (!standin) {
		printf("SKIP: not the stand-in driver\n");
		exit(77);
	}
	MUST(BACK(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")(&context, 0));
	MUST(BACK(cuCtxSetCurrent, "cuCtxSetCurrent")(context));
	sl_rng_init(&rng, 20);
	return standin;
}

struct cu_context *
copy_test_context(void)
{
	struct cu_context *context;

	MUST(BACK(cuCtxGetCurrent, "cuCtxGetCurrent")(&context));
	return context;
}

struct cu_stream *
copy_test_stream(void)
{
	struct cu_stream *stream;

	MUST(BACK(cuStreamCreate, "cuStreamCreate")(&stream, CU_STREAM_NONBLOCKING));
	return stream;
}

/* ---- memory ---- */

static struct cu_module *module;

void
buffer_make(struct buffer *buffer, enum kind kind, size_t bytes)
{
	struct sl_standin_live before, behind;
	void *host = NULL;

	memset(buffer, 0, sizeof(*buffer));
	buffer->kind = kind;
	buffer->bytes = bytes;
	buffer->shadow = malloc(bytes);
	CHECK(buffer->shadow);
	for (size_t i = 0; i < bytes && i < PATTERN_BYTES; i++)
		buffer->shadow[i] = (unsigned char)(sl_rng_next(&rng) >> 24);
	/* The rest repeats it; no power of two, so that what is moved by one shows. */
	for (size_t i = PATTERN_BYTES; i < bytes; i += PATTERN_BYTES)
		memcpy(buffer->shadow + i, buffer->shadow,
		       bytes - i < PATTERN_BYTES ? bytes - i : PATTERN_BYTES);
	switch (kind) {
	case KIND_OURS:
		standin->live(&before);
		MUST(DRIVER(cuMemAlloc_v2)(&buffer->addr, bytes));
		standin->live(&behind);
		CHECK(behind.plain == before.plain); /* not the driver's */
		MUST(DRIVER(cuMemcpyHtoD_v2)(buffer->addr, buffer->shadow, bytes));
		return;
	case KIND_DRIVERS:
		if (!module)
			MUST(BACK(cuModuleLoadData,
				  "cuModuleLoadData")(&module, SL_STANDIN_IMAGE
						      "global drivers 262144\n"));
		CHECK(bytes <= DRIVERS_BYTES);
		MUST(BACK(cuModuleGetGlobal, "cuModuleGetGlobal_v2")(&buffer->addr, NULL,
								     module, "drivers"));
		MUST(DRIVER(cuMemcpyHtoD_v2)(buffer->addr, buffer->shadow, bytes));
		return;
	case KIND_PAGEABLE:
		host = malloc(bytes);
		break;
	case KIND_PINNED:
		MUST(BACK(cuMemHostAlloc, "cuMemHostAlloc")(&host, bytes, 0));
		break;
	case KIND_DEVICE:
	case KIND_HOST:
		break;
	}
	CHECK(host);
	memcpy(host, buffer->shadow, bytes);
	buffer->addr = (uintptr_t)host;
}

void
buffer_free(struct buffer *buffer)
{
	void *host = (void *)(uintptr_t)buffer->addr;

	if (buffer->kind == KIND_OURS)
		MUST(DRIVER(cuMemFree_v2)(buffer->addr));
	else if (buffer->kind == KIND_PAGEABLE)
		free(host);
	else if (buffer->kind == KIND_PINNED)
		MUST(BACK(cuMemFreeHost, "cuMemFreeHost")(host));
	free(buffer->shadow);
	memset(buffer, 0, sizeof(*buffer));
}

void
buffer_check(const struct buffer *buffer, const char *after)
{
	const unsigned char *is = (void *)(uintptr_t)buffer->addr;
	unsigned char *copy = NULL;
	int same;

	MUST(DRIVER(cuCtxSynchronize)());
	if (buffer->kind & KIND_DEVICE) {
		copy = malloc(buffer->bytes);
		CHECK(copy);
		MUST(DRIVER(cuMemcpyDtoH_v2)(copy, buffer->addr, buffer->bytes));
		is = copy;
	}
	same = !memcmp(is, buffer->shadow, buffer->bytes);
	for (size_t i = 0; !same && i < buffer->bytes; i++) {
		if (is[i] == buffer->shadow[i])
			continue;
		printf("after %s: byte %zu of %zu (kind %d) is %#x and should be %#x\n",
		       after, i, buffer->bytes, buffer->kind, is[i], buffer->shadow[i]);
		exit(1);
	}
	free(copy);
}

/* ---- what must come out ---- */

static void
pattern_fill(unsigned char *to, size_t bytes, unsigned value, unsigned element_bytes)
{
	size_t done = element_bytes;

	memcpy(to, &value, element_bytes);
	for (; done < bytes; done *= 2)
		memcpy(to + done, to, bytes - done < done ? bytes - done : done);
}

void
work_shadow(const struct work *w)
{
	for (size_t z = 0; z < w->depth; z++)
		for (size_t y = 0; y < w->height; y++) {
			unsigned char *to = w->to->shadow + w->to_at +
					    (z * w->to_rows + y) * w->to_pitch;

			if (w->from)
				memcpy(to,
				       w->from->shadow + w->from_at +
					       (z * w->from_rows + y) * w->from_pitch,
				       w->width);
			else
				pattern_fill(to, w->width, w->value, w->element_bytes);
		}
}

/* ---- every call ---- */

static uint64_t
to_of(const struct work *w)
{
	return w->to->addr + w->to_at;
}

static uint64_t
from_of(const struct work *w)
{
	return w->from->addr + w->from_at;
}

static void *
host_of(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

#define ROW(name, ...)                              \
	static int run_##name(const struct work *w) \
	{                                           \
		return DRIVER(name)(__VA_ARGS__);   \
	}
#define ANY       to_of(w), from_of(w), w->width
#define FROM_HOST to_of(w), host_of(from_of(w)), w->width
#define TO_HOST   host_of(to_of(w)), from_of(w), w->width
#define PEERS     to_of(w), w->context, from_of(w), w->context, w->width
ROW(cuMemcpy, ANY)
ROW(cuMemcpy_ptds, ANY)
ROW(cuMemcpyAsync, ANY, w->stream)
ROW(cuMemcpyAsync_ptsz, ANY, w->stream)
ROW(cuMemcpyHtoD_v2, FROM_HOST)
ROW(cuMemcpyHtoD_v2_ptds, FROM_HOST)
ROW(cuMemcpyHtoDAsync_v2, FROM_HOST, w->stream)
ROW(cuMemcpyHtoDAsync_v2_ptsz, FROM_HOST, w->stream)
ROW(cuMemcpyDtoH_v2, TO_HOST)
ROW(cuMemcpyDtoH_v2_ptds, TO_HOST)
ROW(cuMemcpyDtoHAsync_v2, TO_HOST, w->stream)
ROW(cuMemcpyDtoHAsync_v2_ptsz, TO_HOST, w->stream)
ROW(cuMemcpyDtoD_v2, ANY)
ROW(cuMemcpyDtoD_v2_ptds, ANY)
ROW(cuMemcpyDtoDAsync_v2, ANY, w->stream)
ROW(cuMemcpyDtoDAsync_v2_ptsz, ANY, w->stream)
ROW(cuMemcpyPeer, PEERS)
ROW(cuMemcpyPeer_ptds, PEERS)
ROW(cuMemcpyPeerAsync, PEERS, w->stream)
ROW(cuMemcpyPeerAsync_ptsz, PEERS, w->stream)
ROW(cuMemsetD8_v2, to_of(w), (unsigned char)w->value, w->width)
ROW(cuMemsetD8_v2_ptds, to_of(w), (unsigned char)w->value, w->width)
ROW(cuMemsetD16_v2, to_of(w), (unsigned short)w->value, w->width / 2)
ROW(cuMemsetD16_v2_ptds, to_of(w), (unsigned short)w->value, w->width / 2)
ROW(cuMemsetD32_v2, to_of(w), w->value, w->width / 4)
ROW(cuMemsetD32_v2_ptds, to_of(w), w->value, w->width / 4)
ROW(cuMemsetD8Async, to_of(w), (unsigned char)w->value, w->width, w->stream)
ROW(cuMemsetD8Async_ptsz, to_of(w), (unsigned char)w->value, w->width, w->stream)
ROW(cuMemsetD16Async, to_of(w), (unsigned short)w->value, w->width / 2, w->stream)
ROW(cuMemsetD16Async_ptsz, to_of(w), (unsigned short)w->value, w->width / 2, w->stream)
ROW(cuMemsetD32Async, to_of(w), w->value, w->width / 4, w->stream)
ROW(cuMemsetD32Async_ptsz, to_of(w), w->value, w->width / 4, w->stream)
#define RECTANGLE(bytes) to_of(w), w->to_pitch, w->value, w->width / (bytes), w->height
#define RECTANGLE8       to_of(w), w->to_pitch, (unsigned char)w->value, w->width, w->height
#define RECTANGLE16 \
	to_of(w), w->to_pitch, (unsigned short)w->value, w->width / 2, w->height
ROW(cuMemsetD2D8_v2, RECTANGLE8)
ROW(cuMemsetD2D8_v2_ptds, RECTANGLE8)
ROW(cuMemsetD2D16_v2, RECTANGLE16)
ROW(cuMemsetD2D16_v2_ptds, RECTANGLE16)
ROW(cuMemsetD2D32_v2, RECTANGLE(4))
ROW(cuMemsetD2D32_v2_ptds, RECTANGLE(4))
ROW(cuMemsetD2D8Async, RECTANGLE8, w->stream)
ROW(cuMemsetD2D8Async_ptsz, RECTANGLE8, w->stream)
ROW(cuMemsetD2D16Async, RECTANGLE16, w->stream)
ROW(cuMemsetD2D16Async_ptsz, RECTANGLE16, w->stream)
ROW(cuMemsetD2D32Async, RECTANGLE(4), w->stream)
ROW(cuMemsetD2D32Async_ptsz, RECTANGLE(4), w->stream)

/* As HOST or DEVICE where it is known, and now and then as what the address tells. */
static int
type_of(const struct buffer *buffer, size_t at)
{
	if (at % 3 == 0)
		return CU_MEMORY_TYPE_UNIFIED;
	return buffer->kind & KIND_HOST ? CU_MEMORY_TYPE_HOST : CU_MEMORY_TYPE_DEVICE;
}

/* With offsets where the parameters have some. */
static struct cu_copy_3d
box_of(const struct work *w, int peer)
{
	size_t x = w->to_at && w->from_at ? 1 : 0;
	uint64_t to = to_of(w) - x, from = from_of(w) - x;
	struct cu_copy_3d c = {
		.from_x_bytes = x,
		.from_type = type_of(w->from, w->from_at),
		.from_pitch = w->from_pitch,
		.from_height = w->from_rows,
		.to_x_bytes = x,
		.to_type = type_of(w->to, w->to_at),
		.to_pitch = w->to_pitch,
		.to_height = w->to_rows,
		.width_bytes = w->width,
		.height = w->height,
		.depth = w->depth,
	};

	if (c.to_type == CU_MEMORY_TYPE_HOST)
		c.to_host = host_of(to);
	else
		c.to_device = to;
	if (c.from_type == CU_MEMORY_TYPE_HOST)
		c.from_host = host_of(from);
	else
		c.from_device = from;
	if (peer)
		c.to_context = c.from_context = w->context;
	return c;
}

static struct cu_copy_2d
rectangle_of(const struct work *w)
{
	const struct cu_copy_3d c = box_of(w, 0);

	return (struct cu_copy_2d){
		.from_x_bytes = c.from_x_bytes,
		.from_type = c.from_type,
		.from_host = c.from_host,
		.from_device = c.from_device,
		.from_pitch = c.from_pitch,
		.to_x_bytes = c.to_x_bytes,
		.to_type = c.to_type,
		.to_host = c.to_host,
		.to_device = c.to_device,
		.to_pitch = c.to_pitch,
		.width_bytes = c.width_bytes,
		.height = c.height,
	};
}

#define BOX(name, make, ...)                            \
	static int run_##name(const struct work *w)     \
	{                                               \
		const __typeof__(make) copy = make;     \
		return DRIVER(name)(&copy __VA_ARGS__); \
	}
#define COMMA_STREAM , w->stream
BOX(cuMemcpy2D_v2, rectangle_of(w))
BOX(cuMemcpy2D_v2_ptds, rectangle_of(w))
BOX(cuMemcpy2DUnaligned_v2, rectangle_of(w))
BOX(cuMemcpy2DUnaligned_v2_ptds, rectangle_of(w))
BOX(cuMemcpy2DAsync_v2, rectangle_of(w), COMMA_STREAM)
BOX(cuMemcpy2DAsync_v2_ptsz, rectangle_of(w), COMMA_STREAM)
BOX(cuMemcpy3D_v2, box_of(w, 0))
BOX(cuMemcpy3D_v2_ptds, box_of(w, 0))
BOX(cuMemcpy3DAsync_v2, box_of(w, 0), COMMA_STREAM)
BOX(cuMemcpy3DAsync_v2_ptsz, box_of(w, 0), COMMA_STREAM)
BOX(cuMemcpy3DPeer, box_of(w, 1))
BOX(cuMemcpy3DPeer_ptds, box_of(w, 1))
BOX(cuMemcpy3DPeerAsync, box_of(w, 1), COMMA_STREAM)
BOX(cuMemcpy3DPeerAsync_ptsz, box_of(w, 1), COMMA_STREAM)

/* A row as a batch of many: more than the library does at once, with two sets of attributes. */
#define BATCH_MAX 300

struct batch {
	uint64_t to[BATCH_MAX], from[BATCH_MAX];
	size_t bytes[BATCH_MAX], firsts[2], n, n_attributes, failed;
	struct cu_copy_attributes attributes[2];
};

static void
batch_of(const struct work *w, struct batch *b)
{
	size_t part = (w->width + BATCH_MAX - 1) / BATCH_MAX;

	memset(b, 0, sizeof(*b));
	for (size_t at = 0; at < w->width; at += part, b->n++) {
		b->to[b->n] = to_of(w) + at;
		b->from[b->n] = from_of(w) + at;
		b->bytes[b->n] = part < w->width - at ? part : w->width - at;
	}
	b->n_attributes = b->n > 1 ? 2 : 1;
	b->firsts[1] = b->n / 2;
	b->attributes[0].access_order = 1;
	b->attributes[1].access_order = 1;
	b->failed = SIZE_MAX;
}

#define BATCH(name, ...)                                                                \
	static int run_##name(const struct work *w)                                     \
	{                                                                               \
		static struct batch b;                                                  \
		batch_of(w, &b);                                                        \
		return DRIVER(name)(b.to, b.from, b.bytes, b.n, b.attributes, b.firsts, \
				    b.n_attributes, __VA_ARGS__);                       \
	}
BATCH(cuMemcpyBatchAsync, &b.failed, w->stream)
BATCH(cuMemcpyBatchAsync_ptsz, NULL, w->stream)
BATCH(cuMemcpyBatchAsync_v2, w->stream)
BATCH(cuMemcpyBatchAsync_v2_ptsz, w->stream)

/* A box as a batch of its layers. */
static struct cu_batch_3d *
layers_of(const struct work *w)
{
	static struct cu_batch_3d layers[BATCH_MAX];

	CHECK(w->depth <= BATCH_MAX);
	memset(layers, 0, sizeof(layers));
	for (size_t z = 0; z < w->depth; z++) {
		struct cu_batch_3d *c = &layers[z];

		c->to.type = c->from.type = CU_OPERAND_POINTER;
		c->to.pointer.addr = to_of(w) + z * w->to_rows * w->to_pitch;
		c->to.pointer.row = w->to_pitch;
		c->from.pointer.addr = from_of(w) + z * w->from_rows * w->from_pitch;
		c->from.pointer.row = w->from_pitch == w->width ? 0 : w->from_pitch;
		c->width = w->width;
		c->height = w->height;
		c->depth = 1;
		c->access_order = 1;
	}
	return layers;
}

#define LAYERS(name, ...)                                                 \
	static int run_##name(const struct work *w)                       \
	{                                                                 \
		return DRIVER(name)(w->depth, layers_of(w), __VA_ARGS__); \
	}
LAYERS(cuMemcpy3DBatchAsync, NULL, 0, w->stream)
LAYERS(cuMemcpy3DBatchAsync_ptsz, NULL, 0, w->stream)
LAYERS(cuMemcpy3DBatchAsync_v2, 0, w->stream)
LAYERS(cuMemcpy3DBatchAsync_v2_ptsz, 0, w->stream)

#define ALL (KIND_DEVICE | KIND_HOST)
#define C1(n, t, f)                                                                 \
	{                                                                           \
		.name = #n, .run = run_##n, .to = (t), .from = (f), .dimensions = 1 \
	}
#define C1A(n, t, f)                                                                 \
	{                                                                            \
		.name = #n, .run = run_##n, .to = (t), .from = (f), .dimensions = 1, \
		.async = 1                                                           \
	}
#define CX(n, d)                                                                      \
	{                                                                             \
		.name = #n, .run = run_##n, .to = ALL, .from = ALL, .dimensions = (d) \
	}
#define CXA(n, d)                                                                      \
	{                                                                              \
		.name = #n, .run = run_##n, .to = ALL, .from = ALL, .dimensions = (d), \
		.async = 1                                                             \
	}
#define CXP(n, d, a)                                                                \
	{                                                                           \
		.name = #n, .run = run_##n, .to = KIND_DEVICE, .from = KIND_DEVICE, \
		.dimensions = (d), .async = (a)                                     \
	}
#define CXB(n, d, s)                                                                   \
	{                                                                              \
		.name = #n, .run = run_##n, .to = ALL, .from = ALL, .dimensions = (d), \
		.async = 1, .named_stream = (s)                                        \
	}
#define F(n, b, d, a)                                                             \
	{                                                                         \
		.name = #n, .run = run_##n, .to = KIND_DEVICE, .dimensions = (d), \
		.async = (a), .element_bytes = (b)                                \
	}

const struct call copy_calls[] = {
	C1(cuMemcpy, ALL, ALL),
	C1(cuMemcpy_ptds, ALL, ALL),
	C1A(cuMemcpyAsync, ALL, ALL),
	C1A(cuMemcpyAsync_ptsz, ALL, ALL),
	C1(cuMemcpyHtoD_v2, KIND_DEVICE, KIND_HOST),
	C1(cuMemcpyHtoD_v2_ptds, KIND_DEVICE, KIND_HOST),
	C1A(cuMemcpyHtoDAsync_v2, KIND_DEVICE, KIND_HOST),
	C1A(cuMemcpyHtoDAsync_v2_ptsz, KIND_DEVICE, KIND_HOST),
	C1(cuMemcpyDtoH_v2, KIND_HOST, KIND_DEVICE),
	C1(cuMemcpyDtoH_v2_ptds, KIND_HOST, KIND_DEVICE),
	C1A(cuMemcpyDtoHAsync_v2, KIND_HOST, KIND_DEVICE),
	C1A(cuMemcpyDtoHAsync_v2_ptsz, KIND_HOST, KIND_DEVICE),
	C1(cuMemcpyDtoD_v2, KIND_DEVICE, KIND_DEVICE),
	C1(cuMemcpyDtoD_v2_ptds, KIND_DEVICE, KIND_DEVICE),
	C1A(cuMemcpyDtoDAsync_v2, KIND_DEVICE, KIND_DEVICE),
	C1A(cuMemcpyDtoDAsync_v2_ptsz, KIND_DEVICE, KIND_DEVICE),
	C1(cuMemcpyPeer, KIND_DEVICE, KIND_DEVICE),
	C1(cuMemcpyPeer_ptds, KIND_DEVICE, KIND_DEVICE),
	C1A(cuMemcpyPeerAsync, KIND_DEVICE, KIND_DEVICE),
	C1A(cuMemcpyPeerAsync_ptsz, KIND_DEVICE, KIND_DEVICE),
	CX(cuMemcpy2D_v2, 2),
	CX(cuMemcpy2D_v2_ptds, 2),
	CX(cuMemcpy2DUnaligned_v2, 2),
	CX(cuMemcpy2DUnaligned_v2_ptds, 2),
	CXA(cuMemcpy2DAsync_v2, 2),
	CXA(cuMemcpy2DAsync_v2_ptsz, 2),
	CX(cuMemcpy3D_v2, 3),
	CX(cuMemcpy3D_v2_ptds, 3),
	CXA(cuMemcpy3DAsync_v2, 3),
	CXA(cuMemcpy3DAsync_v2_ptsz, 3),
	CXP(cuMemcpy3DPeer, 3, 0),
	CXP(cuMemcpy3DPeer_ptds, 3, 0),
	CXP(cuMemcpy3DPeerAsync, 3, 1),
	CXP(cuMemcpy3DPeerAsync_ptsz, 3, 1),
	CXB(cuMemcpyBatchAsync, 1, 1),
	CXB(cuMemcpyBatchAsync_ptsz, 1, 0),
	CXB(cuMemcpyBatchAsync_v2, 1, 1),
	CXB(cuMemcpyBatchAsync_v2_ptsz, 1, 0),
	CXB(cuMemcpy3DBatchAsync, 3, 1),
	CXB(cuMemcpy3DBatchAsync_ptsz, 3, 0),
	CXB(cuMemcpy3DBatchAsync_v2, 3, 1),
	CXB(cuMemcpy3DBatchAsync_v2_ptsz, 3, 0),
	F(cuMemsetD8_v2, 1, 1, 0),
	F(cuMemsetD8_v2_ptds, 1, 1, 0),
	F(cuMemsetD16_v2, 2, 1, 0),
	F(cuMemsetD16_v2_ptds, 2, 1, 0),
	F(cuMemsetD32_v2, 4, 1, 0),
	F(cuMemsetD32_v2_ptds, 4, 1, 0),
	F(cuMemsetD8Async, 1, 1, 1),
	F(cuMemsetD8Async_ptsz, 1, 1, 1),
	F(cuMemsetD16Async, 2, 1, 1),
	F(cuMemsetD16Async_ptsz, 2, 1, 1),
	F(cuMemsetD32Async, 4, 1, 1),
	F(cuMemsetD32Async_ptsz, 4, 1, 1),
	F(cuMemsetD2D8_v2, 1, 2, 0),
	F(cuMemsetD2D8_v2_ptds, 1, 2, 0),
	F(cuMemsetD2D16_v2, 2, 2, 0),
	F(cuMemsetD2D16_v2_ptds, 2, 2, 0),
	F(cuMemsetD2D32_v2, 4, 2, 0),
	F(cuMemsetD2D32_v2_ptds, 4, 2, 0),
	F(cuMemsetD2D8Async, 1, 2, 1),
	F(cuMemsetD2D8Async_ptsz, 1, 2, 1),
	F(cuMemsetD2D16Async, 2, 2, 1),
	F(cuMemsetD2D16Async_ptsz, 2, 2, 1),
	F(cuMemsetD2D32Async, 4, 2, 1),
	F(cuMemsetD2D32Async_ptsz, 4, 2, 1),
};

const size_t n_copy_calls = sizeof(copy_calls) / sizeof(copy_calls[0]);

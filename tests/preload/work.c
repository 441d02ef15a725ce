/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of the preload library's tests: work.h. */
#include "work.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "kernels.h"

static const struct sl_standin *the_standin;

/* ---- kernels ---- */

static uint64_t *
at(const struct sl_standin_block *block, uint64_t addr, uint64_t n, int access)
{
	return the_standin->ptr(block, addr, n * sizeof(uint64_t), access);
}

SL_STANDIN_KERNEL
static void
kernel_add(const struct sl_standin_block *block, void *const *params)
{
	uint64_t n = kernel_word(params, 1), v = kernel_word(params, 2);
	uint64_t *p = at(block, kernel_word(params, 0), n,
			 SL_STANDIN_READ | SL_STANDIN_WRITE);

	for (uint64_t i = 0; i < n; i++)
		p[i] += v;
}

SL_STANDIN_KERNEL
static void
kernel_copy(const struct sl_standin_block *block, void *const *params)
{
	uint64_t n = kernel_word(params, 1);
	uint64_t *to = at(block, kernel_word(params, 0), n, SL_STANDIN_WRITE);

	memcpy(to, at(block, kernel_word(params, 2), n, SL_STANDIN_READ), n * sizeof(*to));
}

SL_STANDIN_KERNEL
static void
kernel_gate(const struct sl_standin_block *block, void *const *params)
{
	uint64_t n = kernel_word(params, 1);
	const uint64_t *word = at(block, kernel_word(params, 2), 1, SL_STANDIN_READ);
	uint64_t *p;

	while (!__atomic_load_n(word, __ATOMIC_ACQUIRE))
		the_standin->pause(block);
	p = at(block, kernel_word(params, 0), n, SL_STANDIN_READ | SL_STANDIN_WRITE);
	for (uint64_t i = 0; i < n; i++)
		p[i]++;
}

static const struct sl_standin_kernel kernels[WORK_KERNELS] = {
	[WORK_ADD] = {"work_add", kernel_add, 3, {8, 8, 8}},
	[WORK_COPY] = {"work_copy", kernel_copy, 3, {8, 8, 8}},
	[WORK_GATE] = {"work_gate", kernel_gate, 3, {8, 8, 8}},
};

/* ---- start and end ---- */

static void
budget_set(const char *name, unsigned mib)
{
	char text[32];

	snprintf(text, sizeof(text), "%uM", mib);
	CHECK(!setenv(name, text, 1));
}

/* Without a space the driver serves the program, and tests of ours would wait for it. */
static void
served_check(const struct work *w)
{
	uint64_t p, before;

	OK(w->cuMemAlloc_v2(&p, 4096)); /* makes the space, which allocates as well */
	OK(w->cuMemFree_v2(p));
	before = w->standin->calls("cuMemAlloc_v2");
	OK(w->cuMemAlloc_v2(&p, 4096));
	OK(w->cuMemFree_v2(p));
	if (w->standin->calls("cuMemAlloc_v2") == before)
		return;
	puts("the library has no space on this GPU (it says why)");
	exit(77);
}

void
work_open(struct work *w, unsigned device_mib, unsigned host_mib)
{
	const char *path = getenv("SLUICE_CUDA_LIBRARY");
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	if (!path || !driver || !dlsym(driver, "sluice_preload")) {
		puts("no preload library, or no stand-in driver behind it");
		exit(77);
	}
	budget_set("SLUICE_DEVICE_BUDGET", device_mib);
	budget_set("SLUICE_HOST_BUDGET", host_mib);
	memset(w, 0, sizeof(*w));
#define WORK_FIND(name)                            \
	*(void **)&w->name = dlsym(driver, #name); \
	CHECK(w->name);
	WORK_CALLS(WORK_FIND)
#undef WORK_FIND
	the_standin = w->standin = sl_standin_open(path);
	CHECK(the_standin);
	OK(w->cuInit(0));
	OK(w->cuDevicePrimaryCtxRetain(&w->context, 0));
	OK(w->cuCtxSetCurrent(w->context));
	for (int i = 0; i < WORK_KERNELS; i++)
		w->standin->kernel_register(&kernels[i]);
	OK(w->cuModuleLoadData(&w->module, SL_STANDIN_IMAGE "global table 64\n"));
	for (int i = 0; i < WORK_KERNELS; i++)
		OK(w->cuModuleGetFunction(&w->kernel[i], w->module, kernels[i].name));
}

void
work_start(struct work *w, unsigned device_mib, unsigned host_mib)
{
	work_open(w, device_mib, host_mib);
	served_check(w);
}

void
work_end(const struct work *w)
{
	char text[512];

	OK(w->cuCtxSynchronize());
	if (w->standin->violations())
		fprintf(stderr, "the stand-in: %s\n",
			w->standin->last_violation(text, sizeof(text)));
	CHECK(!w->standin->violations());
}

/* ---- work ---- */

void
work_launch(const struct work *w, enum work_kernel kernel, struct cu_stream *stream,
	    uint64_t p, uint64_t n, uint64_t v)
{
	void *params[] = {&p, &n, &v};

	OK(w->cuLaunchKernel(w->kernel[kernel], 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

void *
work_gate_open(void *arg)
{
	const struct timespec moment = {.tv_nsec = 50000000};

	nanosleep(&moment, NULL);
	__atomic_store_n((uint64_t *)arg, 1, __ATOMIC_RELEASE);
	return NULL;
}

struct cu_kernel_node
work_node(const struct work *w, enum work_kernel kernel, uint64_t values[3], void *params[3])
{
	for (int i = 0; i < 3; i++)
		params[i] = &values[i];
	return (struct cu_kernel_node){.function = w->kernel[kernel],
				       .grid = {1, 1, 1},
				       .block = {1, 1, 1},
				       .params = params};
}

struct cu_copy_3d
work_copy(uint64_t to, uint64_t from, uint64_t bytes)
{
	return (struct cu_copy_3d){.from_type = CU_MEMORY_DEVICE,
				   .from_device = from,
				   .to_type = CU_MEMORY_DEVICE,
				   .to_device = to,
				   .width_bytes = bytes,
				   .height = 1,
				   .depth = 1};
}

uint64_t
work_alloc(const struct work *w, uint64_t n, uint64_t value)
{
	uint64_t p = 0;

	OK(w->cuMemAlloc_v2(&p, n * sizeof(uint64_t)));
	work_write(w, p, n, value);
	return p;
}

void
work_write(const struct work *w, uint64_t p, uint64_t n, uint64_t value)
{
	uint64_t *data = malloc(n * sizeof(*data));

	CHECK(data);
	for (uint64_t i = 0; i < n; i++)
		data[i] = value;
	OK(w->cuMemcpyHtoDAsync_v2(p, data, n * sizeof(*data), NULL));
	OK(w->cuStreamSynchronize(NULL));
	free(data);
}

void
work_expect(const struct work *w, uint64_t p, uint64_t n, uint64_t value)
{
	uint64_t *data = calloc(n, sizeof(*data));

	CHECK(data);
	OK(w->cuMemcpyDtoHAsync_v2(data, p, n * sizeof(*data), NULL));
	OK(w->cuStreamSynchronize(NULL));
	for (uint64_t i = 0; i < n; i++) {
		if (data[i] == value)
			continue;
		fprintf(stderr, "element %llu of %#llx: %llu, not %llu\n",
			(unsigned long long)i, (unsigned long long)p,
			(unsigned long long)data[i], (unsigned long long)value);
		exit(1);
	}
	free(data);
}

struct work_thread {
	pthread_t thread;
	const struct work *w;
	unsigned rounds;
};

static void *
thread_run(void *arg)
{
	const struct work_thread *thread = arg;
	const struct work *w = thread->w;
	struct cu_stream *stream;
	uint64_t p;

	OK(w->cuCtxSetCurrent(w->context));
	OK(w->cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	for (unsigned i = 0; i < thread->rounds; i++) {
		OK(w->cuMemAlloc_v2(&p, WORK_BLOCK_BYTES));
		work_launch(w, WORK_ADD, stream, p,
			    ((uint64_t)1 << 20) / sizeof(uint64_t), 1);
		OK(w->cuStreamSynchronize(stream));
		OK(w->cuMemFree_v2(p));
	}
	OK(w->cuStreamDestroy_v2(stream));
	return NULL;
}

void
work_threads(const struct work *w, unsigned rounds)
{
	struct work_thread threads[WORK_THREADS];

	for (unsigned i = 0; i < WORK_THREADS; i++) {
		threads[i] = (struct work_thread){.w = w, .rounds = rounds};
		CHECK(!pthread_create(&threads[i].thread, NULL, thread_run, &threads[i]));
	}
	for (unsigned i = 0; i < WORK_THREADS; i++)
		CHECK(!pthread_join(threads[i].thread, NULL));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* See cuda_test.h. */
#include "cuda/cuda_test.h"

#include <string.h>
#include <time.h>

static const char *const names[TEST_KERNEL_COUNT] = {
	[TEST_FILL] = "test_fill",
	[TEST_ADD] = "test_add",
	[TEST_SUM] = "test_sum",
	[TEST_COPY] = "test_copy",
	[TEST_DELAY] = "test_delay",
	[TEST_FETCH] = "test_fetch",
	[TEST_FETCH_WRONG] = "test_fetch_wrong",
};

static void
skip(const char *why)
{
	printf("SKIP: %s\n", why);
	exit(77);
}

/* The whole file, ended by NUL. */
static char *
file_read(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *text = NULL;
	long bytes;

	if (f && !fseek(f, 0, SEEK_END) && (bytes = ftell(f)) > 0) {
		text = calloc(1, (size_t)bytes + 1);
		rewind(f);
		if (text && fread(text, 1, (size_t)bytes, f) != (size_t)bytes) {
			free(text);
			text = NULL;
		}
	}
	if (f)
		fclose(f);
	return text;
}

void
cuda_test_open(struct cuda_test *t)
{
	cuda_test_open_device(t, 0);
}

void
cuda_test_open_device(struct cuda_test *t, int device)
{
	const char *library = getenv("SLUICE_CUDA_LIBRARY");
	const char *ptx = getenv("SLUICE_TEST_PTX");
	char *image;

	memset(t, 0, sizeof(*t));
	t->device = device;
	if (sl_cuda_driver_open(&t->driver))
		skip(sluice_last_error());
	if (t->driver->n_devices <= device)
		skip("it takes more GPUs than this machine has");
	t->standin = library ? sl_standin_open(library) : NULL;
	if (t->standin) {
		cuda_test_kernels_register(t->standin);
		image = strdup(SL_STANDIN_IMAGE);
	} else {
		if (!ptx)
			skip("a GPU, but SLUICE_TEST_PTX names no kernels");
		image = file_read(ptx);
	}
	CHECK(image);
	CHECK_OK(SL_CUDA(t->driver, cuDevicePrimaryCtxRetain, &t->context, device));
	CHECK_OK(SL_CUDA(t->driver, cuCtxSetCurrent, t->context));
	CHECK_OK(SL_CUDA(t->driver, cuModuleLoadData, &t->module, image));
	free(image);
	for (int i = 0; i < TEST_KERNEL_COUNT; i++)
		CHECK_OK(SL_CUDA(t->driver, cuModuleGetFunction, &t->function[i],
				 t->module, names[i]));
}

void
cuda_test_launch(const struct cuda_test *t, struct sluice_space *space,
		 struct sluice_stream *stream, enum test_kernel kernel, void *p,
		 uint64_t n, uint64_t third)
{
	cuda_test_launch_on(t, sluice_stream_native(space, stream), kernel, (uintptr_t)p,
			    n, third);
}

void
cuda_test_launch_on(const struct cuda_test *t, struct cu_stream *stream,
		    enum test_kernel kernel, uint64_t p, uint64_t n, uint64_t third)
{
	void *params[] = {&p, &n, &third};
	unsigned blocks = t->standin ? 2 : 2048;

	CHECK_OK(SL_CUDA(t->driver, cuLaunchKernel, t->function[kernel], blocks, 1, 1,
			 256, 1, 1, 0, stream, params, NULL));
}

void
cuda_test_launch_params(const struct cuda_test *t, struct cu_stream *stream,
			enum test_kernel kernel, unsigned blocks, unsigned threads,
			void **params)
{
	CHECK_OK(SL_CUDA(t->driver, cuLaunchKernel, t->function[kernel], blocks, 1, 1,
			 threads, 1, 1, 0, stream, params, NULL));
}

void
cuda_test_run(const struct cuda_test *t, struct sluice_space *space,
	      struct sluice_stream *stream, enum test_kernel kernel, void *p, uint64_t n,
	      uint64_t third, enum sluice_intent intent)
{
	struct sluice_use use = {p, n * 8, intent};
	struct sluice_launch *launch;

	CHECK_OK(sluice_launch_begin(space, stream, &use, 1, &launch));
	cuda_test_launch(t, space, stream, kernel, p, n, third);
	sluice_launch_end(launch);
}

struct sluice_space *
cuda_test_space(uint64_t device_mib, uint64_t host_mib, const char *more)
{
	struct sluice_config config;
	struct sluice_space *space;

	CHECK_OK(sluice_config_init(&config));
	config.device = SLUICE_DEVICE_CUDA;
	config.device_budget_bytes = device_mib * MIB;
	config.host_budget_bytes = host_mib * MIB;
	config.address_bytes = (uint64_t)1 << 36;
	if (more && *more)
		CHECK_OK(sluice_config_parse(&config, more));
	CHECK_OK(sluice_space_create(&config, &space));
	return space;
}

uint64_t
cuda_test_counter(struct sluice_space *space, enum sluice_counter counter)
{
	struct sluice_stats stats;

	sluice_stats_get(space, &stats);
	return stats.counter[counter];
}

struct sluice_residency
cuda_test_residency(struct sluice_space *space, const void *p, uint64_t bytes)
{
	const struct timespec pause = {.tv_nsec = 100000};
	struct sluice_residency where;

	for (;;) {
		CHECK_OK(sluice_residency(space, p, bytes, &where));
		if (!where.in_flight_bytes)
			return where;
		nanosleep(&pause, NULL);
	}
}

void
cuda_test_close(struct cuda_test *t, struct sluice_space *space)
{
	char text[512];

	if (space) {
		CHECK_OK(sluice_space_check(space));
		CHECK_OK(sluice_space_destroy(space));
	}
	CHECK_OK(SL_CUDA(t->driver, cuModuleUnload, t->module));
	CHECK_OK(SL_CUDA(t->driver, cuCtxSetCurrent, NULL));
	CHECK_OK(SL_CUDA(t->driver, cuDevicePrimaryCtxRelease, t->device));
	if (t->standin) {
		struct sl_standin_live live;

		t->standin->live(&live);
		if (t->standin->violations())
			fprintf(stderr, "rule broken: %s\n",
				t->standin->last_violation(text, sizeof(text)));
		CHECK(t->standin->violations() == 0);
		CHECK(live.handles + live.mappings + live.reservations + live.pinned +
			      live.registered + live.contexts ==
		      0);
	}
}

uint64_t
cuda_test_word(const struct cuda_test *t)
{
	uint64_t word;

	CHECK_OK(SL_CUDA(t->driver, cuMemAlloc, &word, 64));
	CHECK_OK(SL_CUDA(t->driver, cuMemsetD8Async, word, 0, 64, NULL));
	CHECK_OK(SL_CUDA(t->driver, cuCtxSynchronize));
	return word;
}

uint64_t
cuda_test_word_read(const struct cuda_test *t, uint64_t word)
{
	uint64_t value;

	CHECK_OK(SL_CUDA(t->driver, cuCtxSynchronize));
	CHECK_OK(SL_CUDA(t->driver, cuMemcpyDtoHAsync, &value, word, 8, NULL));
	CHECK_OK(SL_CUDA(t->driver, cuCtxSynchronize));
	return value;
}

void
cuda_test_word_free(const struct cuda_test *t, uint64_t word)
{
	CHECK_OK(SL_CUDA(t->driver, cuMemFree, word));
}

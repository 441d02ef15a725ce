/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench/programs/share runs in place of PyTorch, on the stand-in driver
 * (cli/test_bench_share.sh):
 *
 * share_steps card             prints the memory of the device
 * share_steps train MIB STEPS  as bench/programs/train.py: each step runs a kernel over all blocks
 * share_steps idle MIB         prints "holds", and uses its blocks again at the end
 *
 * train and idle end when their input does: so a test knows that they are there. Words that are
 * wrong at the end are a failure. twin.so (oversubscribed_twin.c) has the kernel.
 *
 * Threads: one.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define TRY(call)                                                                   \
	do {                                                                        \
		int code = (call);                                                  \
		if (code)                                                           \
			return fprintf(stderr, #call ": %s\n", code_text(code)), 1; \
	} while (0)
enum { WORDS = 1 << 20, BLOCKS_MAX = 256, STEPS_MAX = 4096 };
static const char image[] = ".version 7.0\n.target sm_52\n.visible .entry step(.param "
			    ".u64 p, .param .u32 n) { ret; }\n";
static CUdeviceptr block[BLOCKS_MAX];
static CUfunction kernel;
static unsigned got[WORDS], loss[STEPS_MAX];
static double seconds[STEPS_MAX];

/* As far as a reader of the benchmark has to know. */
static const char *
code_text(int code)
{
	return code == 2 ? "out of memory" : "failed";
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int
step(unsigned n)
{
	unsigned words = WORDS;

	for (unsigned i = 0; i < n; i++)
		TRY(cuLaunchKernel(kernel, 8, 1, 1, 32, 1, 1, 0, NULL,
				   (void *[]){&block[i], &words}, NULL));
	TRY(cuCtxSynchronize());
	return 0;
}

/* A word becomes three times itself and its place, so each step is in every word. */
static int
verify(unsigned n, int steps, unsigned *all)
{
	unsigned factor = 1, sum = 0;

	for (int i = 0; i < steps; i++) {
		sum = 3 * sum + 1;
		factor *= 3;
	}
	for (unsigned i = 0; i < n; i++) {
		TRY(cuMemcpyDtoH(got, block[i], sizeof(got)));
		for (unsigned k = 0; k < WORDS; k++) {
			if (got[k] != factor * i + sum * k)
				return fprintf(stderr, "block %u: word %u is wrong\n", i, k),
				       1;
			*all = *all * 31 + got[k];
		}
		TRY(cuMemFree(block[i]));
	}
	return 0;
}

static void
input_await(void)
{
	char unused;

	while (read(STDIN_FILENO, &unused, 1) > 0)
		;
}

static int
prepare(CUdevice device, unsigned n)
{
	CUcontext context;
	CUmodule module;

	TRY(cuDevicePrimaryCtxRetain(&context, device));
	TRY(cuCtxSetCurrent(context));
	TRY(cuModuleLoadData(&module, image));
	TRY(cuModuleGetFunction(&kernel, module, "step"));
	for (unsigned i = 0; i < n; i++) {
		TRY(cuMemAlloc(&block[i], sizeof(got)));
		TRY(cuMemsetD32(block[i], i, WORDS));
	}
	return 0;
}

static int
train(CUdevice device, unsigned n, int steps)
{
	unsigned all = 0;

	TRY(prepare(device, n));
	for (int i = 0; i < steps; i++) {
		double begin = now();

		TRY(step(n));
		TRY(cuMemcpyDtoH(&loss[i], block[n - 1], sizeof(loss[i])));
		seconds[i] = now() - begin;
	}
	input_await();
	TRY(verify(n, steps, &all));
	printf("{\"seconds\": [");
	for (int i = 0; i < steps; i++)
		printf("%s%.6f", i ? ", " : "", seconds[i]);
	printf("], \"losses\": [");
	for (int i = 0; i < steps; i++)
		printf("%s%u", i ? ", " : "", loss[i]);
	return printf("], \"weights\": %u, \"peak_bytes\": %zu}\n", all, n * sizeof(got)) < 0;
}

static int
idle(CUdevice device, unsigned n)
{
	unsigned all = 0;

	TRY(prepare(device, n));
	TRY(step(n));
	puts("holds");
	fflush(stdout);
	input_await();
	TRY(step(n));
	TRY(verify(n, 2, &all));
	return puts("{\"right\": true}") < 0;
}

int
main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) / 4 : 0;
	int steps = argc > 3 ? atoi(argv[3]) : 0;
	CUdevice device;
	size_t bytes;

	TRY(cuInit(0));
	TRY(cuDeviceGet(&device, 0));
	TRY(cuDeviceTotalMem(&bytes, device));
	if (!strcmp(what, "card"))
		return printf("{\"gpu\": \"a stand-in\", \"bytes\": %zu}\n", bytes) < 0;
	if (!n || n > BLOCKS_MAX || steps < 0 || steps > STEPS_MAX)
		return fprintf(stderr,
			       "share_steps: card, train MIB STEPS or idle MIB\n"),
		       2;
	return strcmp(what, "idle") ? train(device, n, steps) : idle(device, n);
}

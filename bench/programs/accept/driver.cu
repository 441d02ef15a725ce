/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver program, built twice: linked with the driver (-DLINKED, -lcuda), and without, when it opens
 * the file that its first argument names (libcuda.so, libcuda.so.1 or a whole path) and asks it for each
 * call. A kernel in PTX over several arrays, all words checked; and what a launch costs the thread that
 * makes it. Knows nothing of Sluice. Prints one line of JSON.
 *
 * It is C as well as C++:
 *
 *	nvcc -DLINKED driver.cu -lcuda && ./a.out - [ARRAYS [MEBIBYTES [LAUNCHES]]]
 *	nvcc driver.cu -ldl && ./a.out libcuda.so.1 ...
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef LINKED
#include <cuda.h>
#define CALL(name) name
#else
#include <cuda.h>
#include <dlfcn.h>
/* The name that this header's macros make of it (cuMemAlloc: cuMemAlloc_v2). */
#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)
#define CALL(name)    ((__typeof__(&name))opened(TEXT(name)))

static void *library;

static void *
opened(const char *name)
{
	void *call = dlsym(library, name);

	if (!call) {
		fprintf(stderr, "%s: %s\n", name, dlerror());
		exit(1);
	}
	return call;
}
#endif

#define TRY(name, ...)                                                        \
	do {                                                                  \
		CUresult code_ = CALL(name)(__VA_ARGS__);                     \
		if (code_ != CUDA_SUCCESS) {                                  \
			fprintf(stderr, "%s: error %d\n", #name, (int)code_); \
			exit(1);                                              \
		}                                                             \
	} while (0)

enum { ARRAYS_MAX = 256, BURST = 256, PARAMETERS = 4 };

static const char ptx[] = /* step(p, q, n, salt): p[i] = 3 * p[i] + (q[i] ^ salt) */
	".version 7.0\n.target sm_52\n.address_size 64\n"
	".visible .entry step(.param .u64 p, .param .u64 q, .param .u32 n, .param .u32 "
	"salt) {\n"
	".reg .pred %d; .reg .b32 %i, %n, %s, %t, %v, %w; .reg .b64 %a, %b, %c;\n"
	"ld.param.u64 %a, [p]; cvta.to.global.u64 %a, %a;\n"
	"ld.param.u64 %c, [q]; cvta.to.global.u64 %c, %c;\n"
	"ld.param.u32 %n, [n];\n"
	"mov.u32 %s, %ctaid.x; mov.u32 %t, %ntid.x; mov.u32 %i, %tid.x;\n"
	"mad.lo.u32 %i, %s, %t, %i; mov.u32 %s, %nctaid.x; mul.lo.u32 %s, %s, %t;\n"
	"L: setp.ge.u32 %d, %i, %n; @%d bra D;\n"
	"mad.wide.u32 %b, %i, 4, %a; ld.global.u32 %v, [%b];\n"
	"mad.wide.u32 %b, %i, 4, %c; ld.global.u32 %w, [%b]; ld.param.u32 %t, [salt];\n"
	"xor.b32 %w, %w, %t; mad.lo.u32 %v, %v, 3, %w;\n"
	"mad.wide.u32 %b, %i, 4, %a; st.global.u32 [%b], %v;\n"
	"add.u32 %i, %i, %s; bra L; D: ret; }\n";

static double
seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The least that a launch took in a burst that the queue takes whole; in nanoseconds. */
static double
launch_cost(CUfunction step, CUdeviceptr p, CUdeviceptr q, int launches)
{
	unsigned n = 1, salt = 0;
	void *arguments[PARAMETERS] = {&p, &q, &n, &salt};
	double best = 1e9;

	for (int done = 0; done < launches; done += BURST) {
		double begin = seconds_now(), each;

		for (int i = 0; i < BURST; i++)
			TRY(cuLaunchKernel, step, 1, 1, 1, 32, 1, 1, 0, NULL, arguments,
			    NULL);
		each = (seconds_now() - begin) / BURST;
		best = each < best ? each : best;
		TRY(cuCtxSynchronize);
	}
	return best * 1e9;
}

int
main(int argc, char **argv)
{
	int arrays = argc > 2 ? atoi(argv[2]) : 12, launches = argc > 4 ? atoi(argv[4]) : 0;
	unsigned words = (unsigned)(argc > 3 ? atoi(argv[3]) : 64) << 18, wrong = 0;
	static CUdeviceptr array[ARRAYS_MAX];
	unsigned *got = (unsigned *)malloc((size_t)words * 4), want[ARRAYS_MAX];
	double cost = 0;
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction step;

	if (!got || arrays < 1 || arrays > ARRAYS_MAX)
		return 1;
#ifndef LINKED
	library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!library) {
		fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "which file is the driver?");
		return 1;
	}
#endif
	TRY(cuInit, 0);
	TRY(cuDeviceGet, &device, 0);
	TRY(cuDevicePrimaryCtxRetain, &context, device);
	TRY(cuCtxSetCurrent, context);
	TRY(cuModuleLoadData, &module, ptx);
	TRY(cuModuleGetFunction, &step, module, "step");
	for (int k = 0; k < arrays; k++) {
		TRY(cuMemAlloc, &array[k], (size_t)words * 4);
		TRY(cuMemsetD32, array[k], (unsigned)k, words);
	}
	if (launches)
		cost = launch_cost(step, array[0], array[arrays - 1], launches);
	for (int k = 0; k < arrays; k++) {
		want[k] = 1000u + (unsigned)k;
		TRY(cuMemsetD32, array[k], want[k], words);
	}
	for (int r = 0; r < 5; r++)
		for (int k = 0; k < arrays; k++) {
			unsigned salt = (unsigned)(r * arrays + k),
				 other = (unsigned)(k + 7) % (unsigned)arrays;
			void *arguments[PARAMETERS] = {&array[k], &array[other], &words,
						       &salt};

			TRY(cuLaunchKernel, step, 256, 1, 1, 256, 1, 1, 0, NULL,
			    arguments, NULL);
			want[k] = want[k] * 3u + (want[other] ^ salt);
		}
	for (int k = 0; k < arrays; k++) {
		TRY(cuMemcpyDtoH, got, array[k], (size_t)words * 4);
		for (unsigned i = 0; i < words; i++)
			wrong += got[i] != want[k];
		TRY(cuMemFree, array[k]);
	}
	printf("{\"answers\": {\"wrong words\": %u}, \"peak_bytes\": %zu, "
	       "\"allocations\": %d, "
	       "\"launch_ns\": %.1f}\n",
	       wrong, (size_t)arrays * words * 4, arrays, cost);
	free(got);
	return wrong != 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch costs its thread, and when a program that has just begun has run its first one. For
 * bench/programs/share. C that is C++ as well: built by nvcc, or by a C compiler for the stand-in driver.
 *
 * A second thread sleeps, as CUDA programs have some: what all processors have to see takes longer then.
 *
 * launches measure  prints "ready" (seconds of the monotonic clock) and "launch_ns": of the least of ROUNDS bursts
 * launches hold     has launched once, prints "holds", and ends when its input does
 *
 * Threads: the other one waits.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TRY(call)                                                                           \
	do {                                                                                \
		int code = (call);                                                          \
		if (code)                                                                   \
			return fprintf(stderr, "launches: " #call ": error %d\n", code), 1; \
	} while (0)

enum {
	WORDS = 1 << 20,
	BURST = 256, /* launches that a stream's queue takes without waiting */
	ROUNDS = 400
};

/* Its work is of no interest. */
static const char image[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible "
			    ".entry step(.param .u64 p, "
			    ".param .u32 n) { ret; }\n";
static CUdeviceptr block;
static CUfunction kernel;

static double
seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int
launch(void)
{
	unsigned n = 1;
	void *arguments[] = {&block, &n};

	return cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL);
}

static int
prepare(void)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;

	TRY(cuInit(0));
	TRY(cuDeviceGet(&device, 0));
	TRY(cuDevicePrimaryCtxRetain(&context, device));
	TRY(cuCtxSetCurrent(context));
	TRY(cuModuleLoadData(&module, image));
	TRY(cuModuleGetFunction(&kernel, module, "step"));
	TRY(cuMemAlloc(&block, WORDS * sizeof(unsigned)));
	TRY(launch());
	TRY(cuCtxSynchronize());
	return 0;
}

static int
measure(double ready)
{
	double least = 1;

	for (int i = 0; i < ROUNDS; i++) {
		double begin = seconds_now(), took;

		for (int k = 0; k < BURST; k++)
			TRY(launch());
		took = (seconds_now() - begin) / BURST;
		least = took < least ? took : least;
		TRY(cuCtxSynchronize());
	}
	printf("{\"ready\": %.6f, \"launch_ns\": %.1f}\n", ready, least * 1e9);
	return 0;
}

static void *
sleep_main(void *unused)
{
	(void)unused;
	for (;;)
		pause();
	return NULL;
}

int
main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";
	pthread_t sleeper;
	char unused;

	if (strcmp(what, "measure") && strcmp(what, "hold"))
		return fprintf(stderr, "usage: launches measure|hold\n"), 2;
	if (pthread_create(&sleeper, NULL, sleep_main, NULL) || prepare())
		return 1;
	if (!strcmp(what, "measure"))
		return measure(seconds_now());
	puts("holds");
	fflush(stdout);
	while (read(STDIN_FILENO, &unused, 1) > 0)
		;
	return puts("{\"held\": true}") < 0;
}

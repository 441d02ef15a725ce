/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that trains, for the tests of `sluice run` on the stand-in driver. Four layers: weights
 * of 8 MiB stay, outputs of 16 MiB live from the way there to the way back, a gradient of 8 MiB
 * lives for one layer; a bias of 4 KiB. Behind the steps what does not repeat.
 *
 * training STEPS [rest | fork | kill]: it rests before its end, so that no move is under way then; it
 * forks a child that exits, and rests; it is killed a second after the steps.
 *
 * Threads: one.
 */
#include <cuda.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define TRY(call) \
	if (call) \
	return puts(#call " failed"), 1
#define MIB ((size_t)1 << 20)
enum { LAYERS = 4 };
static const char image[] = ".version 7.0\n.target sm_52\n.visible .entry step(.param "
			    ".u64 p, .param .u32 n) { ret; }\n";
static CUfunction kernel;
static int
run(CUdeviceptr p, size_t bytes)
{
	unsigned words = (unsigned)(bytes / 4);

	return cuLaunchKernel(kernel, 8, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&p, &words},
			      NULL);
}
int
main(int argc, char **argv)
{
	CUdeviceptr weight[LAYERS], output[LAYERS], gradient, bias;
	int steps = argc > 1 ? atoi(argv[1]) : 8;
	static unsigned got[1024];
	CUdevice device;
	CUcontext context;
	CUmodule module;

	TRY(cuInit(0) || cuDeviceGet(&device, 0));
	TRY(cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context));
	TRY(cuModuleLoadData(&module, image) || cuModuleGetFunction(&kernel, module, "step"));
	TRY(cuMemAlloc(&bias, 4096) || cuMemsetD32(bias, 0, 1024));
	for (int i = 0; i < LAYERS; i++)
		TRY(cuMemAlloc(&weight[i], 8 * MIB) || cuMemsetD32(weight[i], 1, 2 * MIB));
	for (int step = 0; step < steps; step++) {
		for (int i = 0; i < LAYERS; i++) {
			TRY(run(weight[i], 8 * MIB) || cuMemAlloc(&output[i], 16 * MIB));
			TRY(run(output[i], 16 * MIB));
		}
		TRY(run(bias, 4096));
		for (int i = LAYERS; i-- > 0;) {
			TRY(cuMemAlloc(&gradient, 8 * MIB) ||
			    cuMemsetD32(gradient, 0, 2 * MIB));
			TRY(run(output[i], 16 * MIB) || run(gradient, 8 * MIB));
			TRY(run(weight[i], 8 * MIB) || cuMemFree(gradient) ||
			    cuMemFree(output[i]));
		}
		TRY(cuMemcpyDtoH(got, weight[0], 4096) || cuCtxSynchronize());
	}
	if (argc > 2 && !strcmp(argv[2], "fork") && !fork())
		exit(0);
	if (argc > 2 && !strcmp(argv[2], "kill")) {
		sleep(1);
		kill(getpid(), SIGKILL);
	}
	TRY(run(weight[1], 8 * MIB) || run(weight[0], 8 * MIB) || run(bias, 4096));
	TRY(cuMemcpyDtoH(got, bias, 4096));
	if (argc > 2)
		sleep(1);
	return printf("%d steps\n", steps) < 0;
}

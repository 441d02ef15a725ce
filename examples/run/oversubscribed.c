/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain CUDA program, as it is without Sluice: argv[1] MiB (default 512) in blocks of 16 MiB, a
 * kernel over each, five times over, all words checked.
 *	cc oversubscribed.c -lcuda && sluice run --device-memory 256M ./a.out 512
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
/* clang-format off */
#define TRY(call) if (call) return puts(#call " failed"), 1 /* CUDA_SUCCESS is 0 */
/* clang-format on */
enum { WORDS = 4 << 20, ROUNDS = 5, BLOCKS_MAX = 1 << 16 };

static const char kernel[] = /* step(p, n): p[i] = 3 * p[i] + i */
	".version 7.0\n.target sm_52\n.address_size 64\n"
	".visible .entry step(.param .u64 p, .param .u32 n) {\n"
	".reg .pred %p; .reg .b32 %i, %n, %s, %t, %v; .reg .b64 %a, %b;\n"
	"ld.param.u64 %a, [p]; cvta.to.global.u64 %a, %a; ld.param.u32 %n, [n];\n"
	"mov.u32 %s, %ctaid.x; mov.u32 %t, %ntid.x; mov.u32 %i, %tid.x;\n"
	"mad.lo.u32 %i, %s, %t, %i; mov.u32 %s, %nctaid.x; mul.lo.u32 %s, %s, %t;\n"
	"L: setp.ge.u32 %p, %i, %n; @%p bra D; mad.wide.u32 %b, %i, 4, %a;\n"
	"ld.global.u32 %v, [%b]; mad.lo.u32 %v, %v, 3, %i; st.global.u32 [%b], %v;\n"
	"add.u32 %i, %i, %s; bra L; D: ret; }\n";

int
main(int argc, char **argv)
{
	unsigned n = (argc > 1 ? (unsigned)atoi(argv[1]) : 512) / 16, words = WORDS;
	static CUdeviceptr block[BLOCKS_MAX];
	static unsigned got[WORDS];
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction step;

	TRY(cuInit(0) || cuDeviceGet(&device, 0) || n > BLOCKS_MAX);
	TRY(cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context));
	TRY(cuModuleLoadData(&module, kernel) || cuModuleGetFunction(&step, module, "step"));
	for (unsigned i = 0; i < n; i++)
		TRY(cuMemAlloc(&block[i], sizeof(got)) || cuMemsetD32(block[i], i, WORDS));
	for (unsigned i = 0; i < ROUNDS * n; i++)
		TRY(cuLaunchKernel(step, 64, 1, 1, 256, 1, 1, 0, NULL,
				   (void *[]){&block[i % n], &words}, NULL));
	for (unsigned i = 0; i < n; i++) {
		TRY(cuMemcpyDtoH(got, block[i], sizeof(got)) || cuMemFree(block[i]));
		for (unsigned k = 0; k < WORDS; k++) /* 3^5, and k times 1 + 3 + 9 + 27 + 81 */
			TRY(got[k] != 243 * i + 121 * k);
	}
	return printf("%u MiB: all words right\n", n * 16) < 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decompressing by the copy engines, in both its forms, of memory that has been evicted: what is read comes
 * back, what is written keeps the rest of its contents. The stand-in takes "compressed" bytes as they are.
 * (HACKING.md shows this call as its example of a wrapped one.)
 *
 * Threads: those of the library.
 */
#include <dlfcn.h>

#include "work.h"

#define N      ((uint64_t)1 << 19) /* elements of a block: 4 MiB */
#define BLOCKS 6u                  /* half of them fit */
#define PARTS  3u

static struct work w;

static void
parts_are_decompressed(__typeof__(&cuMemBatchDecompressAsync) call)
{
	struct cu_decompress parts[PARTS] = {{.from_bytes = 0}};
	uint64_t blocks[BLOCKS], lengths;
	size_t failed = 0;

	for (uint64_t i = 0; i < BLOCKS; i++)
		blocks[i] = work_alloc(&w, N, i);
	lengths = work_alloc(&w, PARTS, 0);
	for (unsigned i = 0; i < PARTS; i++) {
		parts[i].from = (const void *)(uintptr_t)blocks[i];
		parts[i].from_bytes = N / 2 * sizeof(uint64_t);
		parts[i].to = (void *)(uintptr_t)blocks[PARTS + i];
		parts[i].to_bytes = N * sizeof(uint64_t);
		parts[i].written_bytes = (uint32_t *)(uintptr_t)(lengths + 8 * i);
	}
	OK(call(parts, PARTS, 0, &failed, NULL));
	OK(w.cuCtxSynchronize());
	for (uint64_t i = 0; i < PARTS; i++) {
		uint64_t half = N / 2 * sizeof(uint64_t);

		work_expect(&w, blocks[i], N, i);
		work_expect(&w, blocks[PARTS + i], N / 2, i);
		work_expect(&w, blocks[PARTS + i] + half, N / 2, PARTS + i);
	}
	work_expect(&w, lengths, PARTS, N / 2 * sizeof(uint64_t));
	for (unsigned i = 0; i < BLOCKS; i++)
		OK(w.cuMemFree_v2(blocks[i]));
	OK(w.cuMemFree_v2(lengths));
}

int
main(void)
{
	static const char *const forms[] = {"cuMemBatchDecompressAsync",
					    "cuMemBatchDecompressAsync_ptsz"};
	void *driver;

	work_start(&w, 16, 64);
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	for (unsigned i = 0; i < 2; i++) {
		__typeof__(&cuMemBatchDecompressAsync) call;

		*(void **)&call = dlsym(driver, forms[i]);
		CHECK(call);
		parts_are_decompressed(call);
	}
	work_end(&w);
	return 0;
}

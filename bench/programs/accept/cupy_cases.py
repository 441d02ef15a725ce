#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CuPy: its core, linear algebra, transforms, kernels of one's own, memory pools, asynchronous and
managed memory, each at work on some hundred megabytes. Knows nothing of Sluice."""

import argparse

import cupy

import common

RAW = r"""
extern "C" __global__ void raw(const float *x, float *y, unsigned long long n)
{
	for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n;
	     i += (unsigned long long)gridDim.x * blockDim.x)
		y[i] = y[i] * 0.5f + x[n - 1 - i];
}
"""

COOPERATIVE = r"""
#include <cooperative_groups.h>
extern "C" __global__ void meet(float *x, float *y, unsigned long long n)
{
	unsigned long long first = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
	unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
	for (unsigned long long i = first; i < n; i += step)
		x[i] += 1;
	cooperative_groups::this_grid().sync();
	for (unsigned long long i = first; i < n; i += step)
		y[i] = x[n - 1 - i] * 0.5f;
}
"""


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("cases", nargs="*")
    p.add_argument("--mebibytes", type=int, default=128, help="of each array")
    args = p.parse_args()

    words = args.mebibytes << 18
    of = common.of_array
    peak = [0]

    def random(*shape, seed=1):
        return cupy.random.RandomState(seed).random_sample(shape or (words,), dtype=cupy.float32)

    def several(n=4):
        return [random(seed=i) for i in range(n)]

    def square(n=128):
        return random(words // (n * n), n, n) + n * cupy.eye(n, dtype=cupy.float32)

    def pools():
        a = several(3)
        del a[1]
        cupy.get_default_memory_pool().free_all_blocks()
        a += several(3)
        return of(*a)

    def within(allocator):
        def case():
            before = cupy.cuda.get_allocator()
            cupy.cuda.set_allocator(allocator())
            try:
                a = several(6)
                for i in range(6):
                    a[i] = a[i] * 2 + a[i - 1]
                return of(*a)
            finally:
                cupy.cuda.set_allocator(before)
        return case

    def raw():
        kernel = cupy.RawKernel(RAW, "raw")
        a = several()
        for i in range(8):
            kernel((256,), (256,), (a[i % 4], a[(i + 1) % 4], cupy.uint64(words)))
        return of(*a)

    def cooperative():
        kernel = cupy.RawKernel(COOPERATIVE, "meet", enable_cooperative_groups=True)
        a = several()
        for i in range(4):
            kernel((128,), (256,), (a[i], a[(i + 1) % 4], cupy.uint64(words)))
        return of(*a)

    def streams():
        a = several()
        queues = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
        cupy.cuda.Device().synchronize()
        for i, q in enumerate(queues):
            with q:
                for _ in range(3):
                    a[i] = cupy.sqrt(a[i]) + 1
        for q in queues:
            q.synchronize()
        return of(*a)

    def pinned():
        import numpy
        memory = cupy.cuda.alloc_pinned_memory(words * 4)
        host = numpy.frombuffer(memory, numpy.float32, words)
        a = several(3)
        sums = []
        for x in a:
            x.get(out=host)
            sums.append(float(host[:: 4096].astype(numpy.float64).sum()).hex())
            x.set(host[::-1].copy())
        return sums + of(*a)

    def graph():
        a = several(3)
        q = cupy.cuda.Stream(non_blocking=True)
        with q:
            a[0] *= cupy.float32(0.5)  # kernels are compiled before
            a[0] += a[1]
            q.synchronize()
            q.begin_capture()
            a[0] *= cupy.float32(0.5)
            a[0] += a[1]
            made = q.end_capture()
            for _ in range(10):
                made.launch(q)
            q.synchronize()
        return of(*a)

    fused = cupy.fuse(lambda x, y: cupy.sqrt(x * x + y * y) * 0.5)
    element = cupy.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = x * y + 1", "element")
    total = cupy.ReductionKernel("float32 x", "float64 y", "(double)x * x", "a + b", "y = a", "0",
                                 "total")
    cases = {
        "elementwise": lambda: of(*(cupy.tanh(a) + b for a, b in zip(several(), several()[::-1]))),
        "reductions": lambda: [float(f(a)).hex() for a in several()
                               for f in (cupy.max, cupy.min, cupy.argmax)],
        "indexing": lambda: of(*(a[::-1][: words // 2][cupy.arange(0, words // 2, 3)]
                                 for a in several())),
        "masks": lambda: of(*(a[a > 0.5] for a in several())),
        "sort": lambda: of(*(cupy.sort(a) for a in several())),
        "argsort": lambda: of(cupy.argsort(random(words // 4))),
        "unique": lambda: of(cupy.unique((random() * 1000000).astype(cupy.int32))),
        "scan": lambda: of(*(cupy.cumsum((a * 100).astype(cupy.int32)) for a in several())),
        "concatenate": lambda: of(cupy.concatenate(several(6))),
        "take": lambda: of(cupy.take(random(), cupy.arange(words)[::-1] * 7919 % words)),
        "where": lambda: of(*(cupy.where(a > 0.5, a, -a) for a in several())),
        "broadcast": lambda: of(random(words >> 12)[:, None] + random(1 << 12)[None, :]),
        "cast": lambda: of(*(a.astype(cupy.float64).astype(cupy.float16) for a in several(2))),
        "random": lambda: of(cupy.random.default_rng(7).standard_normal(words // 2)),
        "matmul": lambda: of(square(512) @ square(512)),
        "einsum": lambda: of(cupy.einsum("bij,bkj->bik", square(256), square(256))),
        "inv": lambda: of(cupy.linalg.inv(square())),
        "solve": lambda: of(cupy.linalg.solve(square(), random(words // 128**2, 128, 4))),
        "cholesky": lambda: of(cupy.linalg.cholesky(square(64) @ square(64).transpose(0, 2, 1))),
        "svd": lambda: of(*cupy.linalg.svd(random(256, 256))),
        "eigh": lambda: of(*cupy.linalg.eigh(random(512, 512) + 512 * cupy.eye(512))),
        "fft": lambda: of(*(cupy.fft.rfft(a.reshape(-1, 1 << 16)) for a in several(3))),
        "fft2": lambda: of(cupy.fft.fft2(random(words >> 20, 1024, 1024))),
        "RawKernel": raw,
        "cooperative": cooperative,
        "ElementwiseKernel": lambda: of(*(element(a, b) for a, b in zip(several(), several()[::-1]))),
        "ReductionKernel": lambda: [float(total(a)) for a in several()],
        "fuse": lambda: of(*(fused(a, b) for a, b in zip(several(), several()[::-1]))),
        "streams": streams,
        "pinned": pinned,
        "graph": graph,
        "pool": pools,
        "asynchronous": within(lambda: cupy.cuda.MemoryAsyncPool().malloc),
        "managed": within(lambda: cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc),
        "no pool": within(lambda: None),
    }

    def watched(case):
        def run():
            try:
                return case()
            finally:
                pool = cupy.get_default_memory_pool()
                peak[0] = max(peak[0], pool.total_bytes())
                pool.free_all_blocks()
        return run

    answers = common.run_cases({name: watched(case) for name, case in cases.items()}, args.cases)
    common.finish(answers, peak[0])


if __name__ == "__main__":
    main()

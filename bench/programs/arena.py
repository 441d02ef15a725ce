#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CuPy with a pool of one block: each array is a part of a single allocation, as with the pools that
data frames on GPUs use. Columns are filtered, sorted and grouped. Knows nothing of Sluice.

Prints one line of JSON: seconds of each round, sums of the results.
"""

import argparse
import bisect
import json
import time

import cupy

ALIGNMENT = 256


class Pool:
    """First fit over one block; neighbours that are free become one."""

    def __init__(self, size):
        self.block = cupy.cuda.alloc(size)
        self.free = [(0, size)]  # by offset
        self.used = self.peak = 0

    def allocate(self, size):
        size = max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
        for i, (at, room) in enumerate(self.free):
            if room >= size:
                self.free[i:i + 1] = [(at + size, room - size)] if room > size else []
                self.used += size
                self.peak = max(self.peak, self.used)
                owner = Part(self, at, size)
                return cupy.cuda.MemoryPointer(
                    cupy.cuda.UnownedMemory(self.block.ptr + at, size, owner), 0)
        raise MemoryError(f"the pool has no room for {size} bytes")

    def give_back(self, at, size):
        self.used -= size
        i = bisect.bisect(self.free, (at,))
        if i < len(self.free) and at + size == self.free[i][0]:
            size += self.free.pop(i)[1]
        if i > 0 and sum(self.free[i - 1]) == at:
            i, (at, size) = i - 1, (self.free[i - 1][0], self.free[i - 1][1] + size)
            self.free.pop(i)
        self.free.insert(i, (at, size))


class Part:
    def __init__(self, pool, at, size):
        self.pool, self.at, self.size = pool, at, size

    def __del__(self):
        self.pool.give_back(self.at, self.size)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--columns", type=int, default=16)
    p.add_argument("--mebibytes", type=int, default=512, help="of a column")
    p.add_argument("--pool", type=float, default=2, help="the block's size, as a multiple of all columns")
    p.add_argument("--rounds", type=int, default=12)
    args = p.parse_args()

    pool = Pool(int(args.columns * args.pool * args.mebibytes) << 20)
    cupy.cuda.set_allocator(pool.allocate)
    n = (args.mebibytes << 20) // 4
    rng = cupy.random.RandomState(1)
    columns = [rng.random_sample(n, dtype=cupy.float32) for _ in range(args.columns)]
    seconds, sums = [], []
    for _ in range(args.rounds):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        for i, column in enumerate(columns):
            kept = column[column > 0.5]
            top = cupy.sort(kept[: kept.size // 4])
            groups = cupy.bincount((column[: n // 8] * 1024).astype(cupy.int32), minlength=1024)
            sums.append([float(top[:: 1 + top.size // 1000].sum(dtype=cupy.float64)).hex(),
                         int(groups.max()), kept.size])
            columns[i] = (column * cupy.float32(0.75) + columns[i - 1] * cupy.float32(0.25))
        cupy.cuda.Device().synchronize()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"program": "arena", "seconds": seconds, "sums": sums, "peak_bytes": pool.peak,
                      "pool_bytes": pool.block.mem.size}))


if __name__ == "__main__":
    main()

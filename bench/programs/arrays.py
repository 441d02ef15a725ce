#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CuPy: sorts and reductions over several arrays. Knows nothing of Sluice. Prints one line of JSON."""

import argparse
import json
import time

import cupy


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--arrays", type=int, default=8)
    p.add_argument("--mebibytes", type=int, default=512)
    p.add_argument("--rounds", type=int, default=5)
    args = p.parse_args()

    rng = cupy.random.RandomState(1)
    n = args.mebibytes * 2**20 // 4
    arrays = [rng.random_sample(n, dtype=cupy.float32) for _ in range(args.arrays)]
    seconds, sums = [], []
    for _ in range(args.rounds):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        for i, a in enumerate(arrays):
            arrays[i] = cupy.sort(a)
            sums.append(float(arrays[i][:: n // 1000].sum(dtype=cupy.float64)))
            arrays[i] = arrays[i][::-1] * cupy.float32(0.5) + cupy.float32(0.25)
        cupy.cuda.Device().synchronize()
        seconds.append(time.perf_counter() - start)
    batch = rng.random_sample((256, 64, 64), dtype=cupy.float32) + 64 * cupy.eye(64, dtype=cupy.float32)
    solved = float(cupy.linalg.inv(batch).sum(dtype=cupy.float64))
    print(json.dumps({"program": "arrays", "seconds": seconds, "sums": [v.hex() for v in sums],
                      "solved": solved.hex(),
                      "peak_bytes": cupy.get_default_memory_pool().total_bytes()}))


if __name__ == "__main__":
    main()

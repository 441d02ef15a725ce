#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CuPy: sorts, transforms, products and batched solves over several arrays at once. Knows nothing of
Sluice."""

import argparse

import cupy

import common


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--arrays", type=int, default=12)
    p.add_argument("--size", type=int, default=4096, help="of each, a square of so many float32")
    p.add_argument("--rounds", type=int, default=2)
    args = p.parse_args()

    n = args.size
    rng = cupy.random.RandomState(1)
    arrays = [rng.random_sample((n, n), dtype=cupy.float32) for _ in range(args.arrays)]
    answers = {}
    for r in range(args.rounds):
        for i in range(args.arrays):
            arrays[i] = cupy.sort(arrays[i].ravel()).reshape(n, n)
        answers[f"sort {r}"] = common.of_array(*arrays)
        for i in range(args.arrays):
            spectrum = cupy.fft.rfft(arrays[i], axis=1)
            arrays[i] = cupy.fft.irfft(spectrum * 0.5, n=n, axis=1).astype(cupy.float32)
            del spectrum
        answers[f"fft {r}"] = common.of_array(*arrays)
        for i in range(args.arrays):
            arrays[i] = arrays[i] @ arrays[i - 1] / cupy.float32(n)
        answers[f"matmul {r}"] = common.of_array(*arrays)
        for i in range(args.arrays):
            batch = arrays[i].reshape(-1, 64, 64) + 64 * cupy.eye(64, dtype=cupy.float32)
            right = arrays[i - 1].reshape(-1, 64, 64)[:, :, :8]
            solved = cupy.linalg.solve(batch, right)
            arrays[i].reshape(-1, 64, 64)[:, :, :8] += solved
            del batch, right, solved
        answers[f"solve {r}"] = common.of_array(*arrays)
    common.finish(answers, args.arrays * n * n * 4)


if __name__ == "__main__":
    main()

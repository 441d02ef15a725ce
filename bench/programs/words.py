#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch: arrays of random words, all changed each round. They do not shrink, and nothing can be kept.
Knows nothing of Sluice. Prints one line of JSON.
"""

import argparse
import json
import time

import torch


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--arrays", type=int, default=16)
    p.add_argument("--mebibytes", type=int, default=512)
    p.add_argument("--rounds", type=int, default=24)
    args = p.parse_args()

    generator = torch.Generator(device="cuda").manual_seed(1)
    n = args.mebibytes * 2**20 // 8
    low, high = -2**63, 2**63 - 1
    arrays = [torch.randint(low, high, (n,), device="cuda", generator=generator) for _ in range(args.arrays)]
    seconds, sums = [], []
    for i in range(args.rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for a in arrays:
            a.mul_(6364136223846793005).add_(2 * i + 1)  # an odd factor: as random as before
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        sums.append(sum(a[:: n // 1000].sum().item() for a in arrays))
    print(json.dumps({"program": "words", "seconds": seconds, "sums": sums,
                      "peak_bytes": torch.cuda.max_memory_allocated()}))


if __name__ == "__main__":
    main()

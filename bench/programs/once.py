#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch: fills arrays, changes each once and sums it. Knows nothing of Sluice. Prints one line of JSON.

There is one pass and no repetition: what has to be made ready for it is in its time.
"""

import argparse
import json
import time

import torch


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--arrays", type=int, default=16)
    p.add_argument("--mebibytes", type=int, default=512)
    args = p.parse_args()

    n = args.mebibytes * 2**20 // 4
    torch.ones(1, device="cuda").sum().item()  # the context and the code are there
    start = time.perf_counter()
    arrays = [torch.full((n,), float(i), device="cuda") for i in range(args.arrays)]
    for i, a in enumerate(arrays):
        a.add_(0.5).mul_(i + 1)
    sums = [a.sum(dtype=torch.float64).item() for a in arrays]
    seconds = time.perf_counter() - start
    print(json.dumps({"program": "once", "seconds": [seconds], "sums": [v.hex() for v in sums],
                      "peak_bytes": torch.cuda.max_memory_allocated()}))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch with one large allocation, as programs with an allocator of their own have. Knows nothing of
Sluice.

layers: the matrices of a transformer's layers lie in one block, and each is multiplied once a round
with a batch of vectors. pages: the block is a cache of pages, and some thousand are gathered by index.

Prints one line of JSON: seconds of each round, sums of the results as exact hexadecimal numbers.
"""

import argparse
import json
import time

import torch

PAGE = 64 << 10


def layers(block, args):
    """Each layer: four matrices of width x width, two of width x four times that."""
    width, weights, at = args.width, [], 0
    for _ in range(args.layers):
        for shape in [(width, width)] * 4 + [(width, 4 * width), (4 * width, width)]:
            n = shape[0] * shape[1]
            weights.append(block[at:at + n].view(shape))
            at += n
    x = torch.randn(args.batch, width, device="cuda", dtype=torch.bfloat16)

    def step():
        y = x
        for i in range(0, len(weights), 6):
            q, k, v, out, up, down = weights[i:i + 6]
            y = y + (y @ q + y @ k + y @ v).tanh() @ out
            y = y + ((y @ up).tanh() @ down).tanh()
        return y
    return step


def pages(block, args):
    """The block as pages; each round reads the same share of them, anywhere in it."""
    pool = block.view(-1, PAGE // block.element_size())
    index = [torch.randint(pool.shape[0], (args.gather,), device="cuda") for _ in range(4)]

    def step():
        total = torch.zeros(pool.shape[1], device="cuda", dtype=torch.float32)
        for i in index:
            total += pool.index_select(0, i).float().sum(0)
        return total
    return step


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("kind", choices=("layers", "pages"))
    p.add_argument("--layers", type=int, default=32, help="the block's size, in layers of this width")
    p.add_argument("--width", type=int, default=4096)
    p.add_argument("--batch", type=int, default=2048)
    p.add_argument("--gather", type=int, default=8192, help="pages in each of four gathers")
    p.add_argument("--rounds", type=int, default=16)
    args = p.parse_args()

    torch.manual_seed(1)
    block = torch.empty(args.layers * 12 * args.width**2, device="cuda", dtype=torch.bfloat16)
    for part in block.chunk(args.layers):
        part.normal_(std=args.width**-0.5)
    step = {"layers": layers, "pages": pages}[args.kind](block, args)
    seconds, sums = [], []
    for _ in range(args.rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        sums.append(result.double().sum().item().hex())
    print(json.dumps({"program": f"pool-{args.kind}", "seconds": seconds, "sums": sums,
                      "weights_bytes": block.numel() * block.element_size(),
                      "peak_bytes": torch.cuda.max_memory_allocated()}))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A transformer compiled by torch.compile(mode="reduce-overhead"): its work is CUDA graphs, and all of
its memory is in the pools of PyTorch. Knows nothing of Sluice.

infer: a pass over a prompt; the weights are nearly all of the memory. train: a step of training,
forward and backward, with SGD. --mode default compiles without graphs.

Prints one line of JSON: seconds of each step, sums of the results as exact hexadecimal numbers.
"""

import argparse
import json
import sys
import time

sys.dont_write_bytecode = True

from train import Block  # before torch: it sets what cuBLAS reads

import torch
from torch import nn


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("kind", choices=("infer", "train"))
    p.add_argument("--layers", type=int, default=32)
    p.add_argument("--width", type=int, default=4096)
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--tokens", type=int, default=512)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--mode", default="reduce-overhead")
    args = p.parse_args()

    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cuda.enable_cudnn_sdp(False)  # its backward is not deterministic
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = nn.Sequential(*(Block(args.width, args.width // 128) for _ in range(args.layers)))
        x = torch.randn(args.batch, args.tokens, args.width)
    run = torch.compile(model, mode=args.mode)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def infer():
        with torch.no_grad():
            return run(x).double().sum().item()

    def train():
        optimizer.zero_grad(set_to_none=True)
        loss = run(x).float().square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    step = {"infer": infer, "train": train}[args.kind]
    seconds, sums = [], []
    for _ in range(args.steps):
        torch.compiler.cudagraph_mark_step_begin()
        torch.cuda.synchronize()
        start = time.perf_counter()
        sums.append(step().hex())
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"program": f"compiled-{args.kind}", "seconds": seconds, "sums": sums,
                      "peak_bytes": torch.cuda.max_memory_allocated()}))


if __name__ == "__main__":
    main()

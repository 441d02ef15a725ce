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
import os
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, d // 128, 128).unbind(2)
        a = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                           is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


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
        model = nn.Sequential(*(Block(args.width) for _ in range(args.layers)))
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

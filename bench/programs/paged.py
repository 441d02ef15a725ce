#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Serving with a paged key-value cache, as engines for language models do it: one allocation a layer
holds the pages of all sequences, tables say which pages a sequence has, attention gathers them. Some of
the sequences are active at a time and others come after them. Knows nothing of Sluice.

Prints one line of JSON: seconds of each step (a token for each active sequence), a sum of the results.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F

PAGE = 16  # tokens
HEAD = 128


class Layer:
    def __init__(self, args, pages):
        d, kv = args.width, args.kv_heads * HEAD
        scale = d**-0.5
        self.qkv = torch.randn(d, d + 2 * kv, device="cuda") * scale
        self.out = torch.randn(d, d, device="cuda") * scale
        self.up = torch.randn(d, 4 * d, device="cuda") * scale
        self.down = torch.randn(4 * d, d, device="cuda") * scale / 2
        self.cache = torch.empty(2, pages, PAGE, args.kv_heads, HEAD, device="cuda")
        self.cache.normal_()

    def step(self, x, table, at):
        """x: a token of each active sequence; table: its pages; at: how many tokens it has."""
        n, d = x.shape
        q, k, v = (x @ self.qkv).split([d, self.cache.shape[3] * HEAD, self.cache.shape[3] * HEAD], 1)
        page, slot = table[:, at // PAGE], at % PAGE
        self.cache[0, page, slot] = k.view(n, -1, HEAD)
        self.cache[1, page, slot] = v.view(n, -1, HEAD)
        used = table[:, :at // PAGE + 1]
        keys, values = (self.cache[i][used].flatten(1, 2)[:, :at + 1].transpose(1, 2) for i in (0, 1))
        a = F.scaled_dot_product_attention(q.view(n, -1, 1, HEAD), keys, values, enable_gqa=True)
        x = x + a.reshape(n, d) @ self.out
        return x + F.silu(x @ self.up) @ self.down


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--layers", type=int, default=16)
    p.add_argument("--width", type=int, default=4096)
    p.add_argument("--kv-heads", type=int, default=8)
    p.add_argument("--sequences", type=int, default=96)
    p.add_argument("--active", type=int, default=12)
    p.add_argument("--tokens", type=int, default=2048, help="of each sequence, at the beginning")
    p.add_argument("--turn", type=int, default=8, help="steps until other sequences are active")
    p.add_argument("--steps", type=int, default=48)
    args = p.parse_args()

    torch.manual_seed(1)
    torch.backends.cuda.enable_cudnn_sdp(False)  # its sums differ from run to run
    torch.set_default_dtype(torch.bfloat16)
    each = (args.tokens + args.steps) // PAGE + 1
    pages = args.sequences * each
    model = [Layer(args, pages) for _ in range(args.layers)]
    tables = torch.randperm(pages, device="cuda").view(args.sequences, each)  # as after a day of service
    seconds, sums = [], []
    for i in range(args.steps):
        turn = i // args.turn
        active = [(turn * args.active // 2 + j) % args.sequences for j in range(args.active)]
        torch.cuda.synchronize()
        start = time.perf_counter()
        x = torch.ones(args.active, args.width, device="cuda") * 0.5
        for layer in model:
            x = layer.step(F.layer_norm(x, x.shape[1:]), tables[active], args.tokens + i)
        sums.append(x.double().sum().item().hex())
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"program": "paged", "seconds": seconds, "sums": sums,
                      "peak_bytes": torch.cuda.max_memory_allocated()}))


if __name__ == "__main__":
    main()

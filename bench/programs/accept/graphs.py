#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch: a CUDA graph replayed many times, with other work between replays that needs the memory,
and torch.compile(mode="reduce-overhead"), which makes graphs by itself. Knows nothing of Sluice."""

import argparse

import common


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("cases", nargs="*")
    p.add_argument("--replays", type=int, default=100)
    p.add_argument("--others", type=int, default=12, help="arrays of 64 MiB beside the graph's")
    args = p.parse_args()

    import torch
    from torch import nn

    common.torch_deterministic()
    others = [torch.full((16 << 20,), float(i), device="cuda") for i in range(args.others)]

    def disturb(i):
        """A quarter of the others are used: what was not used for longest leaves the device."""
        for k in range(3):
            a = others[(3 * i + k) % len(others)]
            a.mul_(0.5).add_(i)

    def replays():
        x = torch.randn(2048, 2048, device="cuda")
        w = [torch.randn(2048, 2048, device="cuda") / 45 for _ in range(8)]

        def body():
            y = x
            for m in w:
                y = torch.tanh(y @ m)
            x.copy_(y)

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                body()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            body()
        for i in range(args.replays):
            graph.replay()
            disturb(i)
            if i % 10 == 0:
                x.add_(w[i // 10 % len(w)])
        return common.of_tensor(x, *others)

    def reduce_overhead():
        torch.manual_seed(3)
        model = nn.Sequential(*(m for _ in range(6)
                                for m in (nn.Linear(2048, 2048), nn.GELU()))).cuda()
        fast = torch.compile(model, mode="reduce-overhead")
        out = []
        with torch.no_grad():
            for i in range(12):
                x = torch.randn(256, 2048, device="cuda")
                torch.compiler.cudagraph_mark_step_begin()
                out.append(common.of_tensor(fast(x)))
                disturb(i)
        return out

    answers = common.run_cases({"replays": replays, "reduce-overhead": reduce_overhead}, args.cases,
                               common.torch_seed)
    common.finish(answers, common.torch_peak())


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch: elementwise work and matrix products over many square matrices, with the allocator that
the environment or an option chooses. Knows nothing of Sluice."""

import argparse

import common


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--matrices", type=int, default=24)
    p.add_argument("--size", type=int, default=4096)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--pool", action="store_true", help="in a torch.cuda.MemPool")
    p.add_argument("--pluggable", metavar="FILE", help="a library with accept_malloc and accept_free")
    args = p.parse_args()

    import torch

    if args.pluggable:
        torch.cuda.memory.change_current_allocator(torch.cuda.memory.CUDAPluggableAllocator(
            args.pluggable, "accept_malloc", "accept_free"))
    common.torch_deterministic()

    def work():
        matrices = [torch.randn(args.size, args.size, device="cuda") for _ in range(args.matrices)]
        for r in range(args.rounds):
            for i, m in enumerate(matrices):
                m.mul_(0.5).add_(matrices[i - 1], alpha=0.25).sin_()
            for i in range(0, args.matrices, 2):
                matrices[i] = matrices[i] @ matrices[i - 3] / args.size
            matrices[r] = torch.where(matrices[r] > 0, matrices[r - 1], matrices[r - 2])
        return common.of_tensor(*matrices)

    if args.pool:
        with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
            answer = work()
    else:
        answer = work()
    common.finish({"matrices": answer}, args.matrices * args.size * args.size * 4)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch and Triton: torch.compile, kernels of our own, with tensor descriptors made on the host and on
the device, cooperative launches and launches that depend on the one before. Knows nothing of Sluice."""

import argparse

import torch
import triton
import triton.language as tl

import common

ROWS, COLUMNS = 64, 128  # of a tile


@triton.jit
def scale_add(x, y, out, n, block: tl.constexpr, early: tl.constexpr):
    if early:
        tl.extra.cuda.gdc_wait()  # begun before the launch ahead of it was done
        tl.extra.cuda.gdc_launch_dependents()
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) * 0.5 + tl.load(y + at, inside), inside)


@triton.jit
def tiles_host(source, target, rows: tl.constexpr, columns: tl.constexpr):
    r, c = tl.program_id(0) * rows, tl.program_id(1) * columns
    target.store([r, c], source.load([r, c]) * 2 + 1)


@triton.jit
def tiles_device(source, target, height, width, rows: tl.constexpr, columns: tl.constexpr):
    a = tl.make_tensor_descriptor(source, shape=[height, width], strides=[width, 1],
                                  block_shape=[rows, columns])
    b = tl.make_tensor_descriptor(target, shape=[height, width], strides=[width, 1],
                                  block_shape=[rows, columns])
    r, c = tl.program_id(0) * rows, tl.program_id(1) * columns
    b.store([r, c], a.load([r, c]) * 2 + 1)


@triton.jit
def meet(x, out, counter, n, block: tl.constexpr):
    """Everybody writes, waits for all, and reads what another has written."""
    me, all_of = tl.program_id(0), tl.num_programs(0)
    each = tl.arange(0, block)
    for begin in range(me * block, n, all_of * block):
        tl.store(x + begin + each, tl.load(x + begin + each) + 1)
    tl.debug_barrier()
    tl.atomic_add(counter, 1)
    while tl.atomic_add(counter, 0) < all_of:
        pass
    tl.debug_barrier()
    for begin in range(me * block, n, all_of * block):
        tl.store(out + begin + each, tl.load(x + (n - block - begin) + each, volatile=True))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("cases", nargs="*")
    p.add_argument("--mebibytes", type=int, default=256, help="of each array")
    args = p.parse_args()

    common.torch_deterministic()
    n = args.mebibytes << 18
    width = 8192
    height = n // width

    def random():
        return torch.randn(height, width, device="cuda")

    def inductor():
        def f(a, b, w):
            return (torch.nn.functional.gelu(a) * b + a.sum(1, keepdim=True)) @ w

        fast = torch.compile(f)
        w = torch.randn(width, 256, device="cuda")
        return common.of_tensor(*(fast(random(), random(), w) for _ in range(3)))

    def plain(**how):
        def case():
            arrays = [random() for _ in range(3)]
            for i in range(6):
                x, y, out = (arrays[(i + k) % 3] for k in range(3))
                scale_add[(triton.cdiv(n, 1024),)](x, y, out, n, 1024, bool(how), **how)
            return common.of_tensor(*arrays)
        return case

    def host_descriptors():
        from triton.tools.tensor_descriptor import TensorDescriptor

        arrays = [random() for _ in range(4)]
        for i in range(4):
            a, b = (TensorDescriptor.from_tensor(arrays[(i + k) % 4], [ROWS, COLUMNS])
                    for k in range(2))
            tiles_host[(height // ROWS, width // COLUMNS)](a, b, ROWS, COLUMNS)
        return common.of_tensor(*arrays)

    def device_descriptors():
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda",
                                                                         dtype=torch.int8))
        arrays = [random() for _ in range(4)]
        for i in range(4):
            tiles_device[(height // ROWS, width // COLUMNS)](arrays[i], arrays[(i + 1) % 4], height,
                                                             width, ROWS, COLUMNS)
        return common.of_tensor(*arrays)

    def cooperative():
        arrays = [random() for _ in range(3)]
        for i in range(3):
            counter = torch.zeros(1, device="cuda", dtype=torch.int32)
            meet[(128,)](arrays[i], arrays[(i + 1) % 3], counter, n, 1024,
                         launch_cooperative_grid=True)
        return common.of_tensor(*arrays)

    answers = common.run_cases({
        "torch.compile": inductor,
        "kernel": plain(),
        "dependent launch": plain(launch_pdl=True),
        "descriptors of the host": host_descriptors,
        "descriptors of the device": device_descriptors,
        "cooperative": cooperative,
    }, args.cases, common.torch_seed)
    common.finish(answers, common.torch_peak())


if __name__ == "__main__":
    main()

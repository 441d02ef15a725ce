#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch: a seeded random program on integers, with the same done to copies in host memory, compared
all along. Arrays of all sizes come and go; kernels, copies, gathers and products on several streams.
Knows nothing of Sluice. The exit status is 1 when a word differs."""

import argparse
import random
import sys
import time

import torch

import common


class Program:
    def __init__(self, seed, most_bytes, largest_bytes, device):
        self.random = random.Random(seed)
        self.most, self.largest, self.device = most_bytes // 4, largest_bytes // 4, device
        self.pairs = []  # (tensor on the device, the same in host memory)
        self.held = self.peak = 0
        self.checked = self.steps = 0
        self.streams = [torch.cuda.Stream() for _ in range(3)] if device == "cuda" else [None]

    def words(self):
        """Small ones are many, large ones matter."""
        return max(1, int(self.largest ** self.random.random()))

    def add(self, host):
        self.pairs.append((host.to(self.device), host))
        self.held += host.numel()
        self.peak = max(self.peak, self.held)
        while self.held > self.most:
            self.remove(self.random.randrange(len(self.pairs)))

    def remove(self, i):
        gpu, host = self.pairs[i]
        self.pairs[i] = self.pairs[-1]
        self.pairs.pop()
        self.held -= host.numel()

    def check(self, i):
        gpu, host = self.pairs[i]
        self.checked += host.numel() * 4
        return torch.equal(gpu.cpu(), host)

    def make(self):
        n, start = self.words(), self.random.randrange(1 << 20)
        kind = self.random.randrange(3)
        if kind == 0:
            self.add(torch.arange(start, start + n, dtype=torch.int32))
        elif kind == 1:
            gpu = torch.full((n,), start, dtype=torch.int32, device=self.device)
            self.pairs.append((gpu, torch.full((n,), start, dtype=torch.int32)))
            self.held += n
        else:
            self.add((torch.arange(n, dtype=torch.int32) * 40503) ^ start)

    def two(self):
        a, b = (self.random.randrange(len(self.pairs)) for _ in range(2))
        n = min(self.pairs[a][1].numel(), self.pairs[b][1].numel())
        return a, b, n

    def mix(self):
        """In place, from another, at an offset."""
        a, b, n = self.two()
        if a == b:
            return
        begin, salt = self.random.randrange(n), self.random.randrange(1000)
        for x, y in zip(self.pairs[a], self.pairs[b]):
            x[begin:n] = x[begin:n] * 3 + (y[: n - begin] ^ salt)

    def copy(self):
        a, b, n = self.two()
        if a == b:
            return
        begin = self.random.randrange(n)
        for x, y in zip(self.pairs[a], self.pairs[b]):
            x[: n - begin].copy_(y[begin:n])

    def gather(self):
        a, b, n = self.two()
        stride = self.random.choice((1, 3, 7919, 104729))
        host_index = torch.arange(min(n, 1 << 20), dtype=torch.int64) * stride % n
        for x, y, index in zip(self.pairs[a], self.pairs[b],
                               (host_index.to(self.device), host_index)):
            x[: index.numel()] += y[index]

    def many(self):
        """One kernel over many arrays, whose addresses travel in tables."""
        some = self.random.sample(range(len(self.pairs)), min(len(self.pairs), 24))
        for side in (0, 1):
            torch._foreach_add_([self.pairs[i][side] for i in some], 5)

    def concatenate(self):
        some = self.random.sample(range(len(self.pairs)), min(len(self.pairs), 4))
        if sum(self.pairs[i][1].numel() for i in some) > self.largest:
            return
        gpu, host = (torch.cat([self.pairs[i][side] for i in some]) for side in (0, 1))
        self.pairs.append((gpu, host))
        self.held += host.numel()

    def fill(self):
        a = self.random.randrange(len(self.pairs))
        value = self.random.randrange(256)
        for x in self.pairs[a]:
            x.fill_(value) if value % 2 else x.zero_()

    def step(self):
        self.steps += 1
        if len(self.pairs) < 4:
            self.make()
            return True
        what = self.random.choices(
            (self.make, self.mix, self.copy, self.gather, self.many, self.concatenate, self.fill,
             lambda: self.remove(self.random.randrange(len(self.pairs))), None),
            (20, 40, 15, 10, 5, 3, 4, 4, 10))[0]
        if what is None:
            return self.check(self.random.randrange(len(self.pairs)))
        stream = self.random.choice(self.streams)
        if stream is None:
            what()
        else:
            # Each step begins when all before it are done and ends before the next: the order that
            # the host has. Within one, work is in a stream of its own.
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                what()
            torch.cuda.current_stream().wait_stream(stream)
        while self.held > self.most:
            self.remove(self.random.randrange(len(self.pairs)))
        return True


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--seconds", type=float, default=20)
    p.add_argument("--steps", type=int, help="so many, and no clock: the same program each time")
    p.add_argument("--mebibytes", type=int, default=1024, help="held at once, at most")
    p.add_argument("--largest", type=int, default=64, help="MiB of one array, at most")
    p.add_argument("--device", default="cuda")
    args = p.parse_args()

    torch.set_num_threads(4)
    program = Program(args.seed, args.mebibytes << 20, args.largest << 20, args.device)
    print(f"seed {args.seed}", file=sys.stderr, flush=True)
    end = time.monotonic() + args.seconds
    right = True
    while right and (program.steps < args.steps if args.steps else time.monotonic() < end):
        right = program.step()
    if right:
        right = all(program.check(i) for i in range(len(program.pairs)))
    if not right:
        print(f"seed {args.seed}, step {program.steps}: device and host differ", file=sys.stderr)
    common.finish({"right": right}, program.peak * 4, steps=program.steps,
                  checked_bytes=program.checked, seed=args.seed)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

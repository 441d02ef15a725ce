#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch: data from worker processes, forked and spawned, while the GPU is in use, and a GPU tensor
given to another process. Knows nothing of Sluice."""

import argparse

import torch
from torch import multiprocessing
from torch.utils.data import DataLoader, Dataset

import common


class Rows(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.arange(1 << 16, dtype=torch.float32) * (i % 7) + i


def take(queue, answer):
    try:
        answer.put(float(queue.get(timeout=20).sum().item()))
    except Exception as e:
        answer.put(f"{type(e).__name__}: {(str(e).splitlines() or [''])[0]}")


def share():
    """The sum that another process makes of our tensor, or why there is none."""
    context = multiprocessing.get_context("spawn")
    queue, answer = context.Queue(), context.Queue()
    other = context.Process(target=take, args=(queue, answer))
    other.start()
    a = torch.full((1 << 22,), 0.5, device="cuda")
    try:
        # As a queue does it, but here, where an error is seen: the queue sends in another thread.
        from torch.multiprocessing.reductions import reduce_tensor
        reduce_tensor(a)
        queue.put(a)
        return answer.get(timeout=30)
    except Exception as e:
        return f"{type(e).__name__}: {(str(e).splitlines() or [''])[0]}"
    finally:
        other.join(1)
        if other.is_alive():
            other.terminate()
        other.join()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--arrays", type=int, default=16, help="of 64 MiB on the GPU")
    args = p.parse_args()

    common.torch_deterministic()
    arrays = [torch.full((1 << 24,), float(i), device="cuda") for i in range(args.arrays)]

    def load(how):
        def case():
            loader = DataLoader(Rows(), batch_size=8, num_workers=2, multiprocessing_context=how,
                                pin_memory=True)
            for i, batch in enumerate(loader):
                row = batch.to("cuda", non_blocking=True).sum(0)
                for a in arrays[i % 2::2]:
                    a[: 1 << 16] += row
                    a *= 0.5
            return common.of_tensor(*arrays)
        return case

    answers = common.run_cases({"fork": load("fork"), "spawn": load("spawn")})
    common.finish(answers, common.torch_peak(), shared=share())


if __name__ == "__main__":
    main()

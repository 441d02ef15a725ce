#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch: what it is told of memory, and what happens when there is no more: an error, after which all
data are right and the process goes on with what is free again. For a GPU with little memory, or one whose
memory is bounded. Knows nothing of Sluice.

Without PyTorch's caching its statistics count nothing, and the error is another class of its own."""

import argparse

import common

SLACK = 64 << 20  # bytes that an allocator may hold beside what it was asked for


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--mebibytes", type=int, default=128, help="of each array")
    p.add_argument("--most", type=int, default=256, help="arrays at most: more than there is room for")
    args = p.parse_args()

    import torch

    answers = {}
    words = args.mebibytes << 18
    torch.ones(1, device="cuda")
    free, total = torch.cuda.mem_get_info()
    answers["free is at most total"] = 0 < free <= total
    arrays, error = [], None
    try:
        for i in range(args.most):
            arrays.append(torch.full((words,), i, dtype=torch.int32, device="cuda"))
            if i == 0:
                now = torch.cuda.mem_get_info()[0]
                # What else is taken at the first use (code, handles) counts, too.
                answers["an allocation is seen"] = words * 4 <= free - now <= words * 4 + (256 << 20)
    except RuntimeError as e:
        error = f"{type(e).__module__}.{type(e).__name__}" if "out of memory" in str(e) else str(e)
    held = len(arrays) * words * 4
    answers["what was told can be had"] = total * 3 // 4 <= held <= total
    counted = torch.cuda.memory_stats().get("allocated_bytes.all.current", 0)
    answers["statistics say what is held"] = counted == 0 or held <= counted <= held + SLACK
    # More may be held than was free at first: the allocator has given back what it had kept.
    now, left = torch.cuda.mem_get_info()[0], max(free - held, 0)
    answers["free is what is left"] = left - SLACK <= now <= left + SLACK
    # Comparing takes memory, of which there may be none: the last array makes room for it.
    arrays.pop()
    torch.cuda.empty_cache()
    now = torch.cuda.mem_get_info()[0] - now
    answers["what is freed is free"] = words * 4 <= now <= words * 4 + SLACK
    answers["right after the error"] = all(bool((a == i).all().item()) for i, a in enumerate(arrays))
    arrays.clear()
    torch.cuda.empty_cache()
    after = torch.cuda.mem_get_info()[0]
    answers["free again"] = after >= free - (256 << 20)
    a = torch.arange(words, dtype=torch.int32, device="cuda")
    answers["goes on"] = int(a.sum(dtype=torch.int64).item()) == words * (words - 1) // 2
    common.finish(answers, held, error=error, counted_bytes=counted, total_bytes=total)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch: batched linear algebra, sorting, indexing: operations with pointer tables, with workspaces
and with several outputs. Each case reads about --mebibytes and writes as much again. Knows nothing of
Sluice."""

import argparse

import common


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("cases", nargs="*")
    p.add_argument("--mebibytes", type=int, default=384)
    args = p.parse_args()

    import torch

    common.torch_deterministic()
    words = args.mebibytes << 18
    of = common.of_tensor

    def random(*shape, dtype=torch.float32):
        return torch.randn(*shape, device="cuda", dtype=dtype)

    def matrices(n=128):
        return random(words // (n * n), n, n) + n * torch.eye(n, device="cuda")

    def definite():
        a = matrices()
        return a @ a.mT + torch.eye(a.shape[-1], device="cuda")

    def grouped():
        groups, width = 8, 4096
        b = random(groups, width, width, dtype=torch.bfloat16)
        a = random(words * 2 // width // 2, width, dtype=torch.bfloat16)
        ends = torch.arange(1, groups + 1, device="cuda", dtype=torch.int32) * (a.shape[0] // groups)
        return of(torch._grouped_mm(a, b, offs=ends))

    def put():
        a = random(words // 256, 256)
        rows = torch.randint(a.shape[0], (a.shape[0] // 2,), device="cuda")
        a.index_put_((rows,), random(rows.shape[0], 256), accumulate=True)
        return of(a)

    answers = common.run_cases({
        "lu": lambda: of(*torch.linalg.lu_factor(matrices())),
        "cholesky": lambda: of(torch.linalg.cholesky(definite())),
        "inv": lambda: of(torch.linalg.inv(matrices())),
        "solve": lambda: of(torch.linalg.solve(matrices(), random(words // 128**2, 128, 8))),
        "bmm": lambda: of(torch.bmm(matrices(512), matrices(512))),
        "grouped_mm": grouped,
        "index_put": put,
        "cat": lambda: of(torch.cat([random(words // 16) for _ in range(16)])),
        "topk": lambda: of(*torch.topk(random(64, words // 64), 1000)),
        "sort": lambda: of(*torch.sort(random(words // 2), stable=True)),
        "cumsum": lambda: of(torch.cumsum(random(words).to(torch.int32), 0, dtype=torch.int32)),
        "fft": lambda: of(torch.fft.rfft(random(words >> 16, 1 << 16))),
        "gather": lambda: of(random(words // 2)[torch.randint(words // 2, (words // 4,),
                                                             device="cuda")]),
    }, args.cases, common.torch_seed)
    common.finish(answers, common.torch_peak())


if __name__ == "__main__":
    main()

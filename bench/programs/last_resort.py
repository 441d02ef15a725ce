#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's last-resort pool by Sluice costs: nothing while memory suffices, and how much where a
training step lacks some.

    bench/programs/last_resort.py [--gib 20] [--lacks 2] [--steps 12]

LIBSLUICE_PATH names the library, PYTHONPATH its module (python/), unless the wheel is installed. The
program trains a network that needs --gib of GPU memory; another tensor takes up the rest of the card, so
that --lacks GiB of it are missing. Three runs, each in a process of its own: with enough memory and no
pool, with enough and a pool, and with too little and a pool. Prints one line of JSON, with machine and
date: seconds of a step, and ratios. The first steps that lack memory teach what is to be moved: the second
half of the steps counts, and all of them are printed. The losses of all runs are equal.
"""

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import runner

GIB = 1 << 30
WIDTH = 4096


def train(args):
    import torch

    torch.manual_seed(1)
    pool = None
    if args.pool:
        import sluice

        pool = sluice.torch.last_resort(f"{args.lacks + 2}G")
    # A layer takes 64 MiB of weights and as much of gradients and of each of Adam's two moments. The rest
    # is activations: of each layer what Tanh returns, which its gradient and that of the next Linear need.
    layers = max(2, args.gib * 5 // 8 * GIB // (4 * 4 * WIDTH * WIDTH))
    batch = args.gib * 3 // 8 * GIB // (layers * 4 * WIDTH)
    model = torch.nn.Sequential(*(part for _ in range(layers)
                                  for part in (torch.nn.Linear(WIDTH, WIDTH, bias=False), torch.nn.Tanh()))).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=False)
    x = torch.randn(batch, WIDTH, device="cuda")
    hog, seconds, losses = [], [], []
    for step in range(args.steps + 2):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        losses.append(float(loss))
        if step == 1:  # all that it needs has been allocated once: what is left, and so much more, goes
            peak = torch.cuda.max_memory_reserved()
            if args.short:
                torch.cuda.empty_cache()
                room = peak - torch.cuda.memory_reserved() - args.lacks * GIB
                free = torch.cuda.mem_get_info()[0]
                # Not of PyTorch's allocator, which would give it back.
                hog.append(hog_take(free - room))
    print(json.dumps({"step": statistics.median(seconds[2 + args.steps // 2:]), "steps": seconds, "losses": losses,
                      "peak": peak, "layers": layers, "batch": batch, "pool": bool(pool)}))


def hog_take(size):
    """Memory of the driver's, that stays."""
    import ctypes

    cuda, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    result = cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
    if result:
        sys.exit(f"{size} bytes cannot be taken up: {result}")
    return address


def child(args, *words):
    done = subprocess.run([sys.executable, __file__, "--train", "--gib", str(args.gib), "--lacks", str(args.lacks),
                           "--steps", str(args.steps), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr[-800:]}
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=int, default=20, help="GPU memory that a step needs")
    parser.add_argument("--lacks", type=int, default=2, help="GiB of it that are not there")
    parser.add_argument("--steps", type=int, default=12)
    for hidden in ("--train", "--pool", "--short"):
        parser.add_argument(hidden, action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.train:
        train(args)
        return
    runs = {"enough": child(args), "enough, pool": child(args, "--pool"), "too little, pool":
            child(args, "--pool", "--short"), "too little": child(args, "--short")}
    failed = {name: run["failed"] for name, run in runs.items() if "failed" in run}
    without = failed.pop("too little", None)
    if failed:
        sys.exit(f"failed: {failed}")
    if len({tuple(runs[name]["losses"]) for name in list(runs)[:3]}) > 1:
        print(f"the losses differ: {[runs[name]['losses'] for name in list(runs)[:3]]}", file=sys.stderr)
    first = runs["enough"]["step"]
    print(json.dumps({
        "program": "last_resort", "machine": runner.machine(), "date": datetime.date.today().isoformat(),
        "peak_gib": round(runs["enough"]["peak"] / GIB, 2), "lacks_gib": args.lacks,
        "seconds": {name: round(run["step"], 4) for name, run in runs.items() if "step" in run},
        "pool_while_enough": round(runs["enough, pool"]["step"] / first, 3),
        "pool_when_short": round(runs["too little, pool"]["step"] / first, 3),
        "steps_when_short": [round(second, 3) for second in runs["too little, pool"]["steps"][2:]],
        "short_without_pool": "fails, as it must" if without and "OutOfMemory" in without.replace(" ", "") else
        "did not fail for lack of memory"}))


if __name__ == "__main__":
    main()

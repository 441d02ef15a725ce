#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch: a program that has GPU memory in use ends in one of several ways. Knows nothing of Sluice.

    kill        says "ready" and waits to be killed
    exception   an error that nobody catches: exit status 1
    exit        sys.exit(3) with live tensors
    fork        a child that does not use the GPU, and one that does what children may: exit
    os-exit     os._exit(4)
"""

import argparse
import os
import sys
import tempfile
import time

import common

SAID = 400  # characters of what a child says at its end


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("way", choices=("kill", "exception", "exit", "fork", "os-exit"))
    p.add_argument("--arrays", type=int, default=16, help="of 64 MiB")
    args = p.parse_args()

    import torch

    arrays = [torch.full((1 << 24,), float(i), device="cuda") for i in range(args.arrays)]
    for _ in range(2):
        for i, a in enumerate(arrays):
            a.mul_(0.5).add_(arrays[i - 1])
    torch.cuda.synchronize()
    if args.way == "kill":
        print("ready", flush=True)
        time.sleep(120)
    if args.way == "exception":
        raise RuntimeError("nobody catches this")
    if args.way == "exit":
        sys.exit(3)
    if args.way == "os-exit":
        os._exit(4)
    children, errors = [], []
    for status in (5, 6):
        said = tempfile.TemporaryFile("w+", errors="replace")
        child = os.fork()
        if not child:
            os.dup2(said.fileno(), 2)
            if status == 5:
                os._exit(status)
            sys.exit(status)
        children.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        said.seek(0)
        errors.append(said.read()[-SAID:].strip())
    for i, a in enumerate(arrays):
        a.add_(arrays[i - 1])
    common.finish({"exit statuses of children": children,
                   "standard error of children": errors,
                   "arrays": common.of_tensor(*arrays)}, 0)


if __name__ == "__main__":
    main()

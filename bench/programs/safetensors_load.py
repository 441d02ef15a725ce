#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast a safetensors file gets to the GPU: through Sluice, which reads with O_DIRECT, and by
safetensors.torch.load_file, each with a cold cache. The disk's own rate is measured in the same run.

    bench/programs/safetensors_load.py --dir /on/the/disk [--gib 8] [--rounds 3]

LIBSLUICE_PATH names the library, PYTHONPATH its module (python/), unless the wheel is installed. Every
tensor is added up on the GPU, so that all of it was there. Prints one line of JSON, with machine and
date: rates in GB/s, and ratios. PyTorch is needed. Without safetensors that part is left out.
"""

import argparse
import datetime
import json
import mmap
import os
import statistics
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True

import runner

TENSOR = 256 << 20  # bytes of one tensor
PIECE = 8 << 20  # bytes of one read of the disk alone
READERS = 8


def file_make(path, size):
    """Tensors of float32, whose words are small numbers."""
    n = size // TENSOR
    tensors = {f"layer.{k}": {"dtype": "F32", "shape": [TENSOR // 4], "data_offsets": [k * TENSOR, (k + 1) * TENSOR]}
               for k in range(n)}
    header = json.dumps(tensors).encode()
    header += b" " * (-(8 + len(header)) % 4096)  # data begin at a page
    block = struct.pack("<1024f", *(k % 17 for k in range(1024))) * (TENSOR // 4096)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for _ in range(n):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())


def cache_drop(path):
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def disk_read(path):
    """Seconds to read it with O_DIRECT, by several threads, into memory that nobody looks at."""
    size = os.path.getsize(path) // PIECE * PIECE
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)

    def work(k):
        buffer = mmap.mmap(-1, PIECE)
        for at in range(k * PIECE, size, READERS * PIECE):
            os.preadv(fd, [buffer], at)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(READERS)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    os.close(fd)
    return seconds, size


def summed(tensors, torch):
    total = sum(tensor.sum(dtype=torch.float64) for tensor in tensors)
    return float(total)


def by_sluice(path, gib):
    import torch

    import sluice

    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    sluice.configure(device="cuda", device_budget=f"{gib + 1}G", host_budget="1G", staging="1G")
    sluice.empty(1)  # the space, and its threads
    begin = time.perf_counter()
    file = sluice.safetensors.open(path)
    with sluice.using(*file.values()):
        tensors = [torch.from_dlpack(tensor) for tensor in file.values()]
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        total = summed(tensors, torch)
    sluice.synchronize()
    read = sluice.stats()["counters"]
    return seconds, total, {name: value for name, value in read.items() if "store_read" in name and value}


def by_safetensors(path, _gib):
    import safetensors.torch
    import torch

    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    begin = time.perf_counter()
    tensors = safetensors.torch.load_file(path, device="cuda")
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    return seconds, summed(tensors.values(), torch), {}


WAYS = {"sluice": by_sluice, "load_file": by_safetensors}


def child(way, path, gib):
    """In a process of its own: nothing is left of the way before."""
    done = subprocess.run([sys.executable, __file__, "--way", way, "--path", path, "--gib", str(gib)],
                          capture_output=True, text=True, check=False)
    if done.returncode == 77:
        return None
    if done.returncode:
        sys.exit(f"{way}: exit status {done.returncode}: {done.stderr[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", default=".", help="where the file is made")
    parser.add_argument("--gib", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.way:
        try:
            seconds, total, read = WAYS[args.way](args.path, args.gib)
        except ImportError as error:
            print(error, file=sys.stderr)
            sys.exit(77)
        print(json.dumps({"seconds": seconds, "sum": total, "read": read}))
        return
    path = os.path.join(args.dir, f"sluice-load-{os.getpid()}.safetensors")
    rates, sums = {"disk": [], "sluice": [], "load_file": []}, set()
    try:
        file_make(path, args.gib << 30)
        size = os.path.getsize(path)
        names = list(rates)
        for k in range(args.rounds):  # by turns, another one first each time, so that a disturbance hits all
            for name in names[k % len(names):] + names[:k % len(names)]:
                cache_drop(path)
                if name == "disk":
                    seconds, read = disk_read(path)
                    rates[name].append(read / seconds / 1e9)
                    continue
                found = child(name, path, args.gib)
                if found:
                    rates[name].append(size / found["seconds"] / 1e9)
                    sums.add(found["sum"])
    finally:
        if os.path.exists(path):
            os.unlink(path)
    if len(sums) > 1:
        sys.exit(f"the sums differ: {sums}")
    median = {name: statistics.median(of) for name, of in rates.items() if of}
    print(json.dumps({
        "program": "safetensors_load", "machine": runner.machine(), "date": datetime.date.today().isoformat(),
        "gib": args.gib, "rounds": args.rounds, "gb_per_s": {name: round(rate, 2) for name, rate in median.items()},
        "all": {name: [round(rate, 2) for rate in of] for name, of in rates.items()},
        "sluice_of_disk": round(median["sluice"] / median["disk"], 2) if "sluice" in median else None,
        "sluice_of_load_file": (round(median["sluice"] / median["load_file"], 2)
                                if "sluice" in median and "load_file" in median else None)}))


if __name__ == "__main__":
    main()

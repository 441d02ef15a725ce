#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streaming over bench_stream's file in Python: NumPy on an array of `sluice.open`, or on
`np.memmap`. One process runs one variant once and prints one JSON object.

The time is from the first touch until the result is known; of a change, until the data are on the
medium (sync, flush). Results are checked each time. Words are those of bench_stream: word i is
base + i * STEP. The memory limit of memmap is a cgroup that the caller made, entered when NumPy has
been imported. Sluice has the same by its budgets: device + staging + host = --memory.
"""

import argparse
import json
import os
import sys
import time

try:
    import numpy as np
except ImportError as missing:
    print(f"no NumPy: {missing}", file=sys.stderr)
    sys.exit(77)

STEP = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def opened(options):
    """The file's words, and what writes changes to the medium."""
    mode = "r" if options.op == "read" else "r+"
    if options.variant == "memmap":
        with open(os.path.join(options.cgroup, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
        words = np.memmap(options.file, dtype=np.uint64, mode=mode, shape=(options.size // 8,))
        return words, words.flush
    import sluice

    staging = options.memory // 8
    sluice.configure(device="soft", staging=staging, host_budget=options.host,
                     device_budget=options.memory - staging - options.host)  # fmt: skip
    words = sluice.open(options.file, dtype=np.uint64, mode=mode, shape=(options.size // 8,))
    return words, words.sync


def expected(base, words):
    return (words * base + STEP * (words * (words - 1) // 2)) & MASK


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", required=True)
    parser.add_argument("--variant", choices=("sluice", "memmap"), required=True)
    parser.add_argument("--op", choices=("read", "rmw"), required=True)
    parser.add_argument("--size", type=int, required=True, help="bytes of the file that are used")
    parser.add_argument("--memory", type=int, required=True, help="bytes of memory")
    parser.add_argument("--host", type=int, default=0, help="sluice: of these, host tier")
    parser.add_argument("--cgroup", help="memmap: the memory cgroup")
    options = parser.parse_args()
    with open(options.file, "rb") as file:
        base = int.from_bytes(file.read(8), sys.byteorder)
    fd = os.open(options.file, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # nothing of it is in memory
    os.close(fd)
    words, sync = opened(options)
    begin = time.perf_counter()
    if options.op == "read":
        result = int(words.sum(dtype=np.uint64))
    else:
        words += 1
        sync()
    seconds = time.perf_counter() - begin
    if options.op == "read" and result != expected(base, words.size):
        sys.exit(f"the sum is {result}, not {expected(base, words.size)}")
    if options.op == "rmw" and (int(words[0]) - base) & MASK != 1:
        sys.exit(f"the first word is {int(words[0])}, not {base + 1}")
    print(json.dumps({"seconds": seconds, "gb_per_s": options.size / seconds / 1e9}))


if __name__ == "__main__":
    main()

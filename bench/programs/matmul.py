#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JAX: a chain of matrix products over more matrices than fit. Knows nothing of Sluice.

XLA times several algorithms for a product and takes the fastest, so two runs may round differently.
--algorithms FILE: the first run writes its choice to FILE, later ones take that choice.
"""

import argparse
import json
import os
import time


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--matrices", type=int, default=24)
    p.add_argument("--size", type=int, default=8192)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--algorithms", metavar="FILE")
    args = p.parse_args()
    if args.algorithms:
        way = "load_autotune_results_from" if os.path.exists(args.algorithms) else "dump_autotune_results_to"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_{way}={args.algorithms}"

    import jax  # reads XLA_FLAGS
    import jax.numpy as jnp
    import numpy

    keys = jax.random.split(jax.random.key(1), args.matrices)
    make = jax.jit(lambda k: jax.random.normal(k, (args.size, args.size), jnp.float32))
    matrices = [make(k) for k in keys]
    step = jax.jit(lambda a, b: jnp.tanh(a @ b * args.size**-0.5))
    seconds, sums = [], []
    for _ in range(args.rounds):
        jax.block_until_ready(matrices)
        start = time.perf_counter()
        x = matrices[0]
        for m in matrices[1:]:
            x = step(x, m)
        sums.append(float(numpy.asarray(x[::64, ::64]).astype(numpy.float64).sum()))
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"program": "matmul", "seconds": seconds, "sums": [v.hex() for v in sums],
                      "peak_bytes": args.matrices * args.size * args.size * 4}))


if __name__ == "__main__":
    main()

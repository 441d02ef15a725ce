#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch, CuPy and JAX in one process, handing arrays to each other by DLPack. Knows nothing of
Sluice."""

import argparse

import cupy
import jax
import jax.numpy as jnp
import torch

import common


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--arrays", type=int, default=5, help="of each library")
    p.add_argument("--size", type=int, default=4096)
    p.add_argument("--rounds", type=int, default=3)
    args = p.parse_args()

    common.torch_deterministic()
    n = args.size
    rng = cupy.random.RandomState(1)
    torches = [torch.randn(n, n, device="cuda") for _ in range(args.arrays)]
    cupies = [rng.random_sample((n, n), dtype=cupy.float32) for _ in range(args.arrays)]
    jaxes = list(jax.jit(lambda k: jax.random.normal(k, (args.arrays, n, n), jnp.float32))(
        jax.random.key(1)))
    half = jax.jit(lambda a, b: jnp.tanh(a) * 0.5 + b)

    def settled():
        torch.cuda.synchronize()
        cupy.cuda.Device().synchronize()

    for _ in range(args.rounds):
        for i in range(args.arrays):
            settled()
            got = torch.from_dlpack(cupies[i])
            torches[i] = torches[i] @ got / n
            settled()
            cupies[i] = cupy.sort(cupy.from_dlpack(torches[i]), axis=1)
            settled()
            jaxes[i] = half(jnp.from_dlpack(cupies[i]), jaxes[i])
            jax.block_until_ready(jaxes[i])
            torches[i] = torches[i] + torch.from_dlpack(jaxes[i])
    settled()
    out = [torch.from_dlpack(a).clone() for a in jaxes]
    common.finish({"torch": common.of_tensor(*torches), "cupy": common.of_array(*cupies),
                   "jax": common.of_tensor(*out)}, 3 * args.arrays * n * n * 4)


if __name__ == "__main__":
    main()

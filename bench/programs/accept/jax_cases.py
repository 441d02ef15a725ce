#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JAX: matrix products, scans, jax.lax.linalg and a step of training, compiled, over many arrays, with
the allocator that the environment chooses. Knows nothing of Sluice."""

import argparse
import zlib

import jax
import jax.numpy as jnp
import numpy

import common


def bits(*arrays):
    return [f"{zlib.crc32(numpy.asarray(a).tobytes()):08x}" for a in arrays]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("cases", nargs="*")
    p.add_argument("--matrices", type=int, default=24)
    p.add_argument("--size", type=int, default=4096)
    args = p.parse_args()

    n = args.size
    make = jax.jit(lambda key: jax.random.normal(key, (n, n), jnp.float32))
    matrices = [make(k) for k in jax.random.split(jax.random.key(1), args.matrices)]
    corner = (slice(None, None, 64), slice(None, None, 64))

    def matmul():
        step = jax.jit(lambda a, b: jnp.tanh(a @ b * (1 / n)))
        x, seen = matrices[0], []
        for _ in range(2):
            for m in matrices[1:]:
                x = step(x, m)
            seen.append(x[corner])
        return bits(*seen)

    def scan():
        def body(carry, x):
            carry = carry * 0.5 + jnp.sin(x)
            return carry, carry.sum(axis=0)

        run = jax.jit(lambda xs: jax.lax.scan(body, jnp.zeros((n // 64, n)), xs))
        return bits(*(a for m in matrices for a in run(m.reshape(64, n // 64, n))[1:]))

    def linalg():
        factor = jax.jit(lambda m: jax.lax.linalg.cholesky(
            jnp.einsum("bij,bkj->bik", m, m) + 64 * jnp.eye(64)))
        solve = jax.jit(lambda a, b: jax.lax.linalg.triangular_solve(a, b, left_side=True, lower=True))
        out = []
        for a, b in zip(matrices, matrices[1:] + matrices[:1]):
            low = factor(a.reshape(-1, 64, 64))
            out.append(solve(low, b.reshape(-1, 64, 64))[::64])
        return bits(*out)

    def training():
        sizes = [n // 2] * 7
        keys = jax.random.split(jax.random.key(2), len(sizes))
        weights = [jax.random.normal(k, (s, s)) / s**0.5 for k, s in zip(keys, sizes)]
        x = jax.random.normal(jax.random.key(3), (256, sizes[0]))

        def loss(weights):
            h = x
            for w in weights:
                h = jnp.tanh(h @ w)
            return jnp.mean((h - x) ** 2)

        step = jax.jit(lambda w: jax.tree.map(lambda p, g: p - 0.1 * g, w, jax.grad(loss)(w)))
        for i in range(10):
            weights = step(weights)
            matrices[i] = jnp.sqrt(jnp.abs(matrices[i]))  # somebody else needs the memory
        return bits(loss(weights), *(w[:: 32] for w in weights))

    answers = common.run_cases({"matmul": matmul, "scan": scan, "linalg": linalg,
                                "training": training}, args.cases)
    common.finish(answers, args.matrices * n * n * 4)


if __name__ == "__main__":
    main()

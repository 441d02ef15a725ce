#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training of a transformer by JAX and Flax. XLA keeps the temporaries of a step in one allocation and
launches the step as CUDA graphs. Knows nothing of Sluice.

Prints one line of JSON: seconds of each step, the losses and a sum over the weights as exact
hexadecimal numbers, the peak of device memory as JAX counts it (0 with the allocator "platform").
"""

import argparse
import json
import os
import time

# Without these two the kernels that XLA takes, and so the last bits, differ from run to run.
os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") +
                           " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0")

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Block(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x, mask):
        y = nn.LayerNorm()(x)
        x = x + nn.SelfAttention(self.width // 64, dtype=jnp.bfloat16)(y, mask=mask)
        y = nn.LayerNorm()(x)
        y = nn.gelu(nn.Dense(4 * self.width, dtype=jnp.bfloat16)(y))
        return x + nn.Dense(self.width, dtype=jnp.bfloat16)(y)


class Model(nn.Module):
    vocabulary: int
    width: int
    layers: int

    @nn.compact
    def __call__(self, words):
        mask = nn.make_causal_mask(words)
        x = nn.Embed(self.vocabulary, self.width)(words)
        for _ in range(self.layers):
            x = Block(self.width)(x, mask)
        return nn.Dense(self.vocabulary, dtype=jnp.bfloat16)(nn.LayerNorm()(x))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--width", type=int, default=1024)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--tokens", type=int, default=512)
    p.add_argument("--steps", type=int, default=12)
    args = p.parse_args()

    vocabulary = 16000
    model = Model(vocabulary, args.width, args.layers)
    words = jax.random.randint(jax.random.key(1), (args.batch, args.tokens + 1), 0, vocabulary)
    weights = jax.jit(model.init)(jax.random.key(2), words[:, :-1])
    optimizer = optax.adamw(1e-4)
    state = jax.jit(optimizer.init)(weights)

    def loss_of(weights, words):
        out = model.apply(weights, words[:, :-1]).astype(jnp.float32)
        return optax.softmax_cross_entropy_with_integer_labels(out, words[:, 1:]).mean()

    def step(weights, state, words):
        loss, gradients = jax.value_and_grad(loss_of)(weights, words)
        changes, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, changes), state, loss

    step = jax.jit(step, donate_argnums=(0, 1))
    seconds, losses = [], []
    for _ in range(args.steps):
        start = time.perf_counter()
        weights, state, loss = step(weights, state, words)
        losses.append(float(loss).hex())
        jax.block_until_ready(weights)
        seconds.append(time.perf_counter() - start)
    total = sum(float(jnp.sum(w.astype(jnp.float32))) for w in jax.tree.leaves(weights))
    stats = jax.local_devices()[0].memory_stats() or {}
    print(json.dumps({"program": "flax", "seconds": seconds, "losses": losses, "weights": total.hex(),
                      "peak_bytes": stats.get("peak_bytes_in_use", 0)}))


if __name__ == "__main__":
    main()

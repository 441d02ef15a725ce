#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch: training steps of a small transformer with AdamW, fused or foreach. Knows nothing of Sluice."""

import argparse

import common


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("kind", choices=("fused", "foreach"))
    p.add_argument("--steps", type=int, default=50)
    p.add_argument("--width", type=int, default=1024)
    p.add_argument("--layers", type=int, default=6)
    args = p.parse_args()

    import torch
    from torch import nn

    common.torch_deterministic()
    layer = nn.TransformerEncoderLayer(args.width, args.width // 64, 4 * args.width, dropout=0.0,
                                       batch_first=True, norm_first=True, device="cuda")
    model = nn.TransformerEncoder(layer, args.layers, enable_nested_tensor=False)
    head = nn.Linear(args.width, args.width, device="cuda")
    weights = [*model.parameters(), *head.parameters()]
    step = torch.optim.AdamW(weights, lr=1e-4, fused=args.kind == "fused",
                             foreach=args.kind == "foreach")
    x = torch.randn(4, 256, args.width, device="cuda")
    y = torch.randn(4, 256, args.width, device="cuda")
    losses = []
    for _ in range(args.steps):
        step.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(head(model(x)), y)
        loss.backward()
        step.step()
        losses.append(loss.item().hex())
    common.finish({"losses": losses, "weights": common.of_tensor(*weights)}, common.torch_peak())


if __name__ == "__main__":
    main()

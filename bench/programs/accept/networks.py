#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch: training steps of convolutions with cuDNN choosing among its algorithms, of attention by
each of its kernels, and of recurrent layers. Knows nothing of Sluice."""

import argparse

import common


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("cases", nargs="*")
    p.add_argument("--steps", type=int, default=3)
    args = p.parse_args()

    import torch
    from torch import nn
    from torch.nn.attention import SDPBackend, sdpa_kernel

    common.torch_deterministic()

    def train(model, x):
        """Losses of a few steps towards a fixed target."""
        weights = list(model.parameters())
        step = torch.optim.SGD(weights, lr=1e-3, momentum=0.9)
        losses = []
        for _ in range(args.steps):
            step.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                out = model(x)
                out = out[0] if isinstance(out, tuple) else out
            loss = (out.float() - 1).square().mean()
            loss.backward()
            step.step()
            losses.append(loss.item())
        return losses

    def convolutions(chosen):
        """chosen: by cuDNN, by how long each algorithm takes at that moment. Which it is may differ from run to run,
        and with it the last digits: what is answered is whether the losses are near those of fixed algorithms."""
        def losses():
            common.torch_seed()
            layers, last = [], 3
            for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
                layers += [nn.Conv2d(last, width, 3, stride=stride, padding=1),
                           nn.BatchNorm2d(width), nn.ReLU()]
                last = width
            return train(nn.Sequential(*layers).cuda(), torch.randn(48, 3, 128, 128, device="cuda"))

        def case():
            fixed = losses()
            if not chosen:
                return fixed
            torch.backends.cudnn.benchmark = True
            torch.use_deterministic_algorithms(False)
            try:
                near = losses()
            finally:
                torch.backends.cudnn.benchmark = False
                torch.use_deterministic_algorithms(True, warn_only=True)
            return [abs(a - b) <= 0.01 * abs(b) for a, b in zip(near, fixed, strict=True)]
        return case

    def attention(backend, exact=True):
        """exact: a kernel that can give the same each time, and does when nothing else is allowed."""
        def case():
            torch.use_deterministic_algorithms(True, warn_only=not exact)
            q, k, v = (torch.randn(16, 16, 1024, 128, device="cuda", dtype=torch.bfloat16,
                                   requires_grad=True) for _ in range(3))
            with sdpa_kernel([backend]):
                out = q
                for _ in range(4):
                    out = nn.functional.scaled_dot_product_attention(out, k, v, is_causal=True)
            out.float().square().mean().backward()
            if exact:
                return common.of_tensor(out, q.grad, k.grad, v.grad)
            return [t.float().abs().mean().item() for t in (out, q.grad, k.grad, v.grad)]
        return case

    def recurrent(kind):
        def case():
            torch.use_deterministic_algorithms(True, warn_only=True)
            return train(getattr(nn, kind)(1024, 1024, num_layers=3, batch_first=True).cuda(),
                         torch.randn(128, 256, 1024, device="cuda"))
        return case

    answers = common.run_cases({
        "convolutions": convolutions(False),
        "convolutions, benchmark": convolutions(True),
        "flash attention": attention(SDPBackend.FLASH_ATTENTION),
        "cuDNN attention": attention(SDPBackend.CUDNN_ATTENTION, exact=False),
        "efficient attention": attention(SDPBackend.EFFICIENT_ATTENTION),
        "LSTM": recurrent("LSTM"),
        "GRU": recurrent("GRU"),
    }, args.cases, common.torch_seed)
    common.finish(answers, common.torch_peak())


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One training program, unmodified PyTorch: what bench/programs/table runs natively and under
`sluice run`. Knows nothing of Sluice.

Prints one line of JSON: seconds of each iteration, the losses as exact hexadecimal numbers, a sum
over the weights, and the peak of device memory as PyTorch counts it (0 without its caching
allocator). --offload: activations by torch.autograd.graph.save_on_cpu(pin_memory=True), the way that
PyTorch itself offers. --checkpoint: gradient checkpointing of each transformer block
(torch.utils.checkpoint), which computes activations again instead of keeping them.
"""

import argparse
import contextlib
import json
import os
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).unbind(2)
        a = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2),
                                           v.transpose(1, 2), is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, d, layers, vocabulary, tokens):
        super().__init__()
        self.embed, self.place = nn.Embedding(vocabulary, d), nn.Embedding(tokens, d)
        self.blocks = nn.ModuleList(Block(d, d // 128) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, vocabulary, bias=False)
        self.checkpoint = False

    def forward(self, x):
        x = self.embed(x) + self.place.weight[: x.shape[1]]
        for block in self.blocks:
            x = (torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if self.checkpoint
                 else block(x))
        return self.head(self.norm(x))


class C3D(nn.Module):
    """3-D convolutions over video, after the network of that name."""

    def __init__(self):
        super().__init__()
        layers, last = [], 3
        for width, n, pool in ((64, 1, (1, 2, 2)), (128, 1, 2), (256, 2, 2), (512, 2, 2)):
            for _ in range(n):
                layers += [nn.Conv3d(last, width, 3, padding=1), nn.ReLU()]
                last = width
            layers.append(nn.MaxPool3d(pool))
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(512, 487)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3, 4)))


class LSTM(nn.Module):
    def __init__(self, vocabulary=10000, d=1536):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, d)
        self.cells = nn.LSTM(d, d, num_layers=4, batch_first=True)
        self.head = nn.Linear(d, vocabulary)

    def forward(self, x):
        return self.head(self.cells(self.embed(x))[0])


def images(batch, size=224, classes=1000):
    return (torch.randn(batch, 3, size, size, device="cuda"),
            torch.randint(classes, (batch,), device="cuda"))


def words(batch, tokens, vocabulary):
    x = torch.randint(vocabulary, (batch, tokens + 1), device="cuda")
    return x[:, :-1].contiguous(), x[:, 1:].contiguous()


def vision(name):
    def make():
        import torchvision

        extra = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
        return getattr(torchvision.models, name)(**extra)
    return make


# name: model, data (by batch), batch, optimizer
MODELS = {
    "gpt": (lambda: GPT(2048, 24, 32000, 1024), lambda b: words(b, 1024, 32000), 16, "adamw"),
    "gpt-small": (lambda: GPT(512, 4, 8000, 256), lambda b: words(b, 256, 8000), 8, "adamw"),
    "resnet50": (vision("resnet50"), images, 64, "sgd"),
    "resnet152": (vision("resnet152"), images, 256, "sgd"),
    "vgg19": (vision("vgg19"), images, 256, "sgd"),
    "alexnet": (vision("alexnet"), images, 4096, "sgd"),
    "googlenet": (vision("googlenet"), images, 1024, "sgd"),
    "c3d": (C3D, lambda b: (torch.randn(b, 3, 16, 112, 112, device="cuda"),
                            torch.randint(487, (b,), device="cuda")), 64, "sgd"),
    "lstm": (LSTM, lambda b: words(b, 256, 10000), 128, "adamw"),
}


STRICT = ("gpt", "gpt-small", "lstm")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("model", choices=MODELS)
    p.add_argument("--iterations", type=int, default=5)
    p.add_argument("--batch", type=int)
    p.add_argument("--offload", action="store_true")
    p.add_argument("--checkpoint", action="store_true")
    p.add_argument("--fast", action="store_true", help="let libraries choose what is not deterministic")
    args = p.parse_args()
    if args.checkpoint and not args.model.startswith("gpt"):
        p.error("--checkpoint: only the gpt models have blocks to checkpoint")

    make, data, batch, optimizer = MODELS[args.model]
    batch = args.batch or batch
    torch.manual_seed(1)
    if not args.fast:
        # Where PyTorch has no deterministic kernel for what a model needs, it says so and goes on.
        torch.use_deterministic_algorithms(True, warn_only=args.model not in STRICT)
        torch.utils.deterministic.fill_uninitialized_memory = False  # no fill of every new tensor
        torch.backends.cudnn.benchmark = False
        torch.backends.cuda.enable_cudnn_sdp(False)  # its backward is not deterministic
    with torch.device("cuda"):
        model = make()
    if args.checkpoint:
        model.checkpoint = True
    kind = {"adamw": lambda q: torch.optim.AdamW(q, lr=1e-4),
            "sgd": lambda q: torch.optim.SGD(q, lr=1e-3, momentum=0.9)}[optimizer]
    step = kind(model.parameters())
    x, y = data(batch)
    saved = (torch.autograd.graph.save_on_cpu(pin_memory=True) if args.offload
             else contextlib.nullcontext())
    seconds, losses = [], []
    for _ in range(args.iterations):
        start = time.perf_counter()
        step.zero_grad(set_to_none=True)
        with saved, torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(x)
            loss = F.cross_entropy(out.float().view(-1, out.shape[-1]), y.view(-1))
        loss.backward()
        step.step()
        losses.append(loss.item())
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    total = sum(q.detach().double().sum().item() for q in model.parameters())
    print(json.dumps({"program": args.model, "batch": batch, "offload": args.offload, "checkpoint": args.checkpoint,
                      "seconds": seconds, "losses": [v.hex() for v in losses],
                      "weights": total.hex(),
                      "peak_bytes": torch.cuda.max_memory_allocated()}))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch on two GPUs, under torchrun: every collective of NCCL, data-parallel training, sharded
training, and buffers registered with NCCL. Knows nothing of Sluice.

    torchrun --standalone --nproc-per-node 2 distributed.py
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn

import common


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("cases", nargs="*")
    p.add_argument("--mebibytes", type=int, default=128, help="of each buffer")
    p.add_argument("--steps", type=int, default=20)
    args = p.parse_args()

    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    common.torch_deterministic()
    words = args.mebibytes << 18
    others = [torch.full((words,), float(i + rank), device="cuda") for i in range(4)]

    def buffer(seed):
        generator = torch.Generator("cuda").manual_seed(100 * seed + rank)
        return torch.randn(words, device="cuda", generator=generator)

    def disturb():
        """The buffers are not what was used last."""
        for i, a in enumerate(others):
            a.mul_(0.5).add_(i)

    def collective(act):
        def case():
            out = []
            for seed in range(3):
                a = buffer(seed)
                disturb()
                out.append(common.of_tensor(act(a)))
            return out
        return case

    def done(call, result):
        call()
        return result

    def all_gather(a):
        out = torch.empty(ranks * (words // 2), device="cuda")
        dist.all_gather_into_tensor(out, a[: words // 2])
        return out

    def reduce_scatter(a):
        out = torch.empty(words // ranks, device="cuda")
        dist.reduce_scatter_tensor(out, a)
        return out

    def all_to_all(a):
        out = torch.empty_like(a)
        dist.all_to_all_single(out, a)
        return out

    def gather(a):
        parts = [torch.empty_like(a) for _ in range(ranks)] if rank == 0 else None
        dist.gather(a, parts, 0)
        return torch.cat(parts) if rank == 0 else a

    def scatter(a):
        out = torch.empty(words // ranks, device="cuda")
        dist.scatter(out, list(a.chunk(ranks)) if rank == 0 else None, 0)
        return out

    def ring(a):
        out = torch.empty_like(a)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, a, (rank + 1) % ranks),
                                            dist.P2POp(dist.irecv, out, (rank - 1) % ranks)]):
            work.wait()
        return out

    def registered():
        """Buffers in memory of NCCL's own, registered with the communicator."""
        group = dist.distributed_c10d._get_default_group()
        backend = group._get_backend(device)
        pool = torch.cuda.MemPool(backend.mem_allocator)
        with torch.cuda.use_mem_pool(pool):
            a = torch.full((words,), float(rank + 1), device="cuda")
        backend.register_mem_pool(pool)
        disturb()
        dist.all_reduce(a)
        out = common.of_tensor(a)
        backend.deregister_mem_pool(pool)
        return out

    def layers():
        torch.manual_seed(5)
        layer = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True,
                                           norm_first=True)
        return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda()

    def train(model):
        step = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
        generator = torch.Generator("cuda").manual_seed(rank)
        x = torch.randn(4, 256, 1024, device="cuda", generator=generator)
        losses = []
        for i in range(args.steps):
            step.zero_grad(set_to_none=True)
            loss = (model(x) - 1).square().mean()
            loss.backward()
            step.step()
            losses.append(loss.item().hex())
            others[i % len(others)].add_(1)
        return losses

    def parallel():
        return train(nn.parallel.DistributedDataParallel(layers(), device_ids=[device.index]))

    def sharded():
        from torch.distributed.fsdp import fully_shard

        model = layers()
        for layer in model.layers:
            fully_shard(layer)
        fully_shard(model)
        return train(model)

    def sharded_flat():
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        return train(FullyShardedDataParallel(
            layers(), auto_wrap_policy=ModuleWrapPolicy({nn.TransformerEncoderLayer}),
            use_orig_params=True))

    answers = common.run_cases({
        "all_reduce": collective(lambda a: done(lambda: dist.all_reduce(a), a)),
        "broadcast": collective(lambda a: done(lambda: dist.broadcast(a, 1 % ranks), a)),
        "reduce": collective(lambda a: done(lambda: dist.reduce(a, 0), a if rank == 0 else a[:1] * 0)),
        "all_gather": collective(all_gather),
        "reduce_scatter": collective(reduce_scatter),
        "all_to_all": collective(all_to_all),
        "gather": collective(gather),
        "scatter": collective(scatter),
        "send and receive": collective(ring),
        "registered buffers": registered,
        "DDP": parallel,
        "FSDP2": sharded,
        "FSDP": sharded_flat,
    }, args.cases)
    dist.barrier()
    gathered = [None] * ranks
    dist.all_gather_object(gathered, (answers, common.torch_peak()))
    if rank == 0:
        common.finish({f"{name}, rank {r}": value for r, (each, _) in enumerate(gathered)
                       for name, value in each.items()}, max(peak for _, peak in gathered))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

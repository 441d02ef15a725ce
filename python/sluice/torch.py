# SPDX-License-Identifier: Apache-2.0
"""PyTorch's memory by Sluice.

    with torch.cuda.use_mem_pool(sluice.torch.pool()): ...   # tensors that may exceed the GPU
    sluice.torch.last_resort("4G")                           # nothing changes until memory is out

Kernels reach these tensors at any time: on the GPU while that has room, else in host memory over the
link. `with sluice.using(tensor):` brings them to the GPU. Under `sluice run` PyTorch's own memory is
managed, and these functions change nothing.
"""

import errno
from typing import Any, List, Optional, Union

import torch

from sluice._library import Error, path, preloaded
from sluice._memory import torch_space
from sluice._saved import Saved
from sluice._space import bytes_of, configure, is_made

_SMALL = 1 << 19  # bytes of a tensor that PyTorch cuts from its small segments of 2 MiB
_kept: List[Any] = []  # PyTorch calls them as long as the process runs


def allocator(host: bool = False) -> Any:
    """A CUDAPluggableAllocator, for torch.cuda.memory.change_current_allocator() or a MemPool.

    host: memory of the host only. By itself it takes 2 MiB for the smallest tensor, which pool() does not.
    Raises Error (ENOTSUP: the space is on no GPU; EALREADY: under `sluice run`).
    """
    if preloaded():
        raise Error(errno.EALREADY, "sluice.torch: `sluice run` manages PyTorch's own memory already")
    torch_space()
    made = torch.cuda.memory.CUDAPluggableAllocator(
        path(), "sluice_torch_alloc_host" if host else "sluice_torch_alloc", "sluice_torch_free")
    _kept.append(made)
    return made


def _pool(made: Optional[Any], **words: Any) -> Any:
    try:
        pool = torch.cuda.MemPool(made.allocator(), **words) if made else torch.cuda.MemPool()
    except (AttributeError, TypeError):
        raise Error(errno.ENOTSUP, f"sluice.torch: PyTorch {torch.__version__} has no torch.cuda.MemPool with "
                                   f"{', '.join(words) or 'an allocator'}: use a newer one, or `sluice run`") from None
    _kept.append(pool)
    return pool


def pool() -> Any:
    """A MemPool over Sluice's memory; PyTorch caches and cuts it as its own.

    Under `sluice run` an ordinary one. Raises Error (ENOTSUP).
    """
    return _pool(None if preloaded() else allocator())


def last_resort(size: Union[int, str]) -> Optional[Any]:
    """Memory of the host for PyTorch to use when the GPU's is out: nothing changes until then.

    size: how much is pinned now, at some 3 GB/s. Kernels reach it over the link. It serves tensors of the
    stream that is current in this call. After a step of an optimizer that lacked memory, the first tensors that
    a forward pass saves for the backward pass go there: they are copied back, instead of being read from there
    again and again. Hooks of saved tensors do that, of this thread's graphs. torch.cuda.max_memory_allocated()
    and the like begin anew.
    Returns the pool; None: under `sluice run`, which needs none.
    Raises Error (ENOTSUP: this PyTorch has no use_on_oom; ENOBUFS, ENOMEM: the host has less) and ValueError.
    """
    size = bytes_of(size)
    if preloaded():
        return None
    if not is_made():
        configure(device="cuda", device_budget="64M")  # it takes none of the GPU's memory
    made = _pool(allocator(host=True), use_on_oom=True)
    before = torch.cuda.memory_reserved()
    with torch.cuda.use_mem_pool(made):
        try:
            held = [torch.empty(size, dtype=torch.uint8, device="cuda")]
            held += [torch.empty(_SMALL, dtype=torch.uint8, device="cuda") for _ in range(max(1, size >> 26))]
        except torch.cuda.OutOfMemoryError:
            raise Error(errno.ENOMEM, f"sluice.torch.last_resort: {size} bytes of host memory cannot be had: the line "
                                      "before says why; host_budget limits it") from None
    del held  # PyTorch keeps them in the pool
    torch.cuda.reset_peak_memory_stats()  # they would be in it
    _kept.append(Saved(made, size, torch.cuda.memory_reserved() - before))
    return made

# SPDX-License-Identifier: Apache-2.0
"""CuPy's memory by Sluice: cupy.cuda.set_allocator(sluice.cupy.pool().malloc).

Kernels reach these arrays at any time: on the GPU while that has room, else in host memory over the link.
`with sluice.using(array):` brings them to the GPU. Under `sluice run` CuPy's own memory is managed, and is
used.
"""

from typing import Any

import cupy

from sluice._library import preloaded
from sluice._memory import Owned
from sluice._space import device


def allocator(size: int) -> Any:
    """For cupy.cuda.set_allocator(), a MemoryPointer; of 2 MiB for the smallest array: see pool().

    Raises Error (ENOTSUP: the space is on no GPU; ENOBUFS, ENOMEM). Blocks while host memory is pinned.
    """
    if preloaded():
        return cupy.cuda.MemoryPointer(cupy.cuda.Memory(size), 0)
    if size == 0:
        return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(0, 0, None, 0), 0)
    owned = Owned(size, "sluice.cupy")
    return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(owned.address, size, owned, device()[1]), 0)


def pool() -> Any:
    """A cupy.cuda.MemoryPool over it, which cuts small arrays from large pieces: use its malloc."""
    return cupy.cuda.MemoryPool(allocator)

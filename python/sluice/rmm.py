# SPDX-License-Identifier: Apache-2.0
"""RMM's memory by Sluice: rmm.mr.set_current_device_resource(sluice.rmm.resource()).

Kernels reach it at any time: on the GPU while that has room, else in host memory over the link. `with
sluice.using(buffer):` brings it to the GPU. Under `sluice run` RMM's own memory is managed, and is used.
An allocation takes whole chunks of 2 MiB: rmm.mr.PoolMemoryResource(sluice.rmm.resource()) cuts them.
"""

from typing import Any

import rmm.mr

from sluice._library import preloaded
from sluice._memory import alloc, free, ready


def _allocate(size: int, *_stream: Any) -> int:
    return alloc(size, "sluice.rmm")


def _deallocate(address: int, _size: int, *_stream: Any) -> None:
    free(address)


def resource() -> Any:
    """A memory resource. Raises Error (ENOTSUP: the space is on no GPU)."""
    if preloaded():
        return rmm.mr.CudaMemoryResource()
    ready("sluice.rmm")
    return rmm.mr.CallbackMemoryResource(_allocate, _deallocate)

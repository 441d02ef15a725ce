# SPDX-License-Identifier: Apache-2.0
"""Numba's memory by Sluice, as its plugin for External Memory Management.

    sluice.numba.install()                          # before the first array on the GPU
    NUMBA_CUDA_MEMORY_MANAGER=sluice.numba python program.py

Kernels reach these arrays at any time: on the GPU while that has room, else in host memory over the link.
`with sluice.using(array):` brings them to the GPU. Each takes whole chunks of 2 MiB. Under `sluice run`
Numba's own memory is managed: install() changes nothing.
"""

import contextlib
import ctypes
import functools
import os
from typing import Any, Iterator

from numba import cuda

from sluice._library import preloaded
from sluice._memory import alloc, free, ready
from sluice._space import stats


def _pointer(address: int) -> Any:
    """As this version of Numba wants it: a type of NVIDIA's bindings, or of ctypes."""
    from numba.cuda.cudadrv import driver

    if getattr(driver, "USE_NV_BINDING", False):
        return driver.binding.CUdeviceptr(address)
    return ctypes.c_uint64(address)


class Manager(cuda.HostOnlyCUDAMemoryManager):
    """Device memory by Sluice, host memory by Numba. One of each context."""

    def initialize(self) -> None:
        """Numba calls this before it uses a context: there is nothing to do."""

    def memalloc(self, size: int) -> Any:
        address = alloc(size, "sluice.numba")
        return cuda.MemoryPointer(self.context, _pointer(address), size,
                                  finalizer=functools.partial(free, address, os.getpid()))

    def get_memory_info(self) -> Any:
        """Of the GPU and the host together, as both budgets say."""
        found = stats()
        total = sum(found["budget_bytes"][tier] for tier in ("device", "host"))
        used = sum(found["resident_bytes"][tier] for tier in ("device", "host"))
        return cuda.MemoryInfo(free=max(0, total - used), total=total)

    def get_ipc_handle(self, _memory: Any) -> Any:
        raise NotImplementedError("memory of Sluice cannot be shared with other processes")

    @contextlib.contextmanager
    def defer_cleanup(self) -> Iterator[None]:
        """Memory goes at once all the same. Numba's own clean-up of host memory waits."""
        with super().defer_cleanup():
            yield

    @property
    def interface_version(self) -> int:
        return 1


_numba_memory_manager = Manager  # by this name Numba finds it


def install() -> None:
    """Have Numba allocate by Sluice from here on. Raises Error (ENOTSUP: the space is on no GPU)."""
    if not preloaded():
        ready("sluice.numba")
        cuda.set_memory_manager(Manager)

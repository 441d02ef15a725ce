# SPDX-License-Identifier: Apache-2.0
"""Memory for allocators of other libraries: sluice.torch, sluice.cupy, sluice.rmm, sluice.numba.

Kernels reach it at any time: on the GPU while that has room, else in host memory over the link. using()
brings it to the GPU. Under `sluice run` the libraries' own memory is managed, and none of this is needed.
An allocation takes whole chunks of 2 MiB: a pool of the library goes in front.
"""

import ctypes
import errno
import os
import weakref
from typing import Any

from sluice._library import Error, call
from sluice._space import device, keep, space

_HOST = 1  # enum sluice_memory_flag


def ready(name: str) -> ctypes.c_void_p:
    """The space. Raises Error: it is on no GPU."""
    if device()[0] != "cuda":
        raise Error(errno.ENOTSUP, f"{name}: the space is on the software device, whose memory no kernel of a GPU "
                                   "reaches: call sluice.configure(device=\"cuda\") before anything else")
    keep()
    return space()


def alloc(size: int, name: str) -> int:
    """An address that free() takes. Blocks while host memory is pinned. Raises Error."""
    address = ctypes.c_void_p()
    call("sluice_memory_alloc", ready(name), max(size, 1), 0, ctypes.byref(address))
    return address.value or 0


def free(address: int, pid: int = 0) -> None:
    """Waits for all work of the GPU. pid: of the process that allocated it; nothing in a child."""
    if not pid or pid == os.getpid():
        call("sluice_memory_free", space(), address)


class Owned:
    """An allocation that ends with this object."""

    def __init__(self, size: int, name: str) -> None:
        self.address = alloc(size, name)
        weakref.finalize(self, free, self.address, os.getpid()).atexit = False


def torch_space() -> Any:
    """Have the functions for PyTorch take memory of the space."""
    made = ready("sluice.torch")
    call("sluice_torch_space_set", made)
    return made

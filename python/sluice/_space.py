# SPDX-License-Identifier: Apache-2.0
"""The one space of a process, made with the first memory that is asked for.

Regions end when the last array over them has gone. What is left at the interpreter's end is written
to its files, and stays mapped: something may still look at it.
Threads: any. A forked child has none of it: its calls raise Error (ECHILD).
"""

import atexit
import contextlib
import ctypes
import errno
import json
import os
import sys
import threading
import weakref
from typing import Any, Dict, Iterator, Optional, Tuple, Union

from sluice._library import Error, call, text_of

TIERS = {"device": 0, "host": 1, "store": 2}
_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}

_lock = threading.RLock()
_space: Optional[ctypes.c_void_p] = None
_device: Optional[Tuple[str, int]] = None
_settings: Dict[str, str] = {}
_kept = False  # something outside of Python has memory of the space until the process ends
_regions: "weakref.WeakSet[Region]" = weakref.WeakSet()


def bytes_of(size: Union[int, str]) -> int:
    """1073741824, "1G" or "512M". Raises ValueError."""
    if isinstance(size, str):
        number, unit = (size[:-1], _UNITS.get(size[-1:])) if size[-1:] in _UNITS else (size, 0)
        try:
            size = int(number) << unit
        except ValueError:
            raise ValueError(f"{size!r} is no size: bytes, or a number with K, M, G or T") from None
    if size < 0:
        raise ValueError(f"a size of {size}")
    return size


def space() -> ctypes.c_void_p:
    """The space, made if there is none yet. Raises Error."""
    global _space
    with _lock:
        if _space is None:
            made = ctypes.c_void_p()
            text = ",".join(f"{key}={value}" for key, value in _settings.items())
            call("sluice_space_open", text.encode(), ctypes.byref(made))
            _space = made
            atexit.register(_end, os.getpid())
        return _space


def device() -> Tuple[str, int]:
    """"soft" or "cuda", and the number of the GPU."""
    global _device
    if _device is None:
        made = json.loads(text_of("sluice_space_json", space()))
        _device = made["device"], made["device_number"]
    return _device


def keep() -> None:
    """The space stays until the process ends: an allocator of another library has memory of it."""
    global _kept
    _kept = True


def is_made() -> bool:
    return _space is not None


def configure(**settings: Any) -> None:
    """Settings of the space, before anything is opened: configure(device_budget="2G", policy="lru").

    Those of `struct sluice_config` (sluice(7) lists them). They come before variables such as
    SLUICE_DEVICE_BUDGET. Raises Error (EBUSY) once memory is in use: limits() still works then.
    """
    with _lock:
        if _space is not None:
            raise Error(errno.EBUSY, 
                        "configure: memory is in use already: call it before the first array (in a notebook: "
                        "restart the kernel), or use limits()")
        _settings.update({key: str(value) for key, value in settings.items()})


@contextlib.contextmanager
def limits(device: Union[int, str, None] = None, host: Union[int, str, None] = None) -> Iterator[None]:
    """Other budgets for a while: `with sluice.limits(device="1G"): ...`. None: as it is.

    Blocks while data are moved out of a smaller tier. Raises Error (ENOBUFS: less than two chunks).
    """
    wanted = {tier: bytes_of(size) for tier, size in (("device", device), ("host", host)) if size is not None}
    before = stats()["budget_bytes"]
    changed = []
    try:
        for tier, size in wanted.items():
            call("sluice_space_set_budget", space(), TIERS[tier], size)
            changed.append(tier)
        yield
    finally:
        for tier in reversed(changed):
            call("sluice_space_set_budget", space(), TIERS[tier], before[tier])


def stats() -> Dict[str, Dict[str, int]]:
    """Counters by name, and resident, peak and budget bytes by tier (sluice(7) has the meaning)."""
    return json.loads(text_of("sluice_stats_json", space()))


def residency(addr: int, size: int) -> Dict[str, int]:
    return json.loads(text_of("sluice_residency_json", space(), addr, size))


class Region:
    """Addresses of a mapped file or of memory. Ends with the last reference to it."""

    def __init__(self, addr: int, size: int, writes_file: bool) -> None:
        self.addr, self.size, self.writes_file = addr, size, writes_file
        _regions.add(self)
        # Not at exit: see the head of the file.
        weakref.finalize(self, _unmap, addr, os.getpid()).atexit = False

    @property
    def buffer(self) -> ctypes.Array:
        """Its bytes; an object that keeps the region."""
        buffer = (ctypes.c_char * self.size).from_address(self.addr)
        buffer.region = self
        return buffer


def _unmap(addr: int, pid: int) -> None:
    if os.getpid() == pid:  # a forked child has no space
        call("sluice_unmap", space(), addr)


def _end(pid: int) -> None:
    """At the interpreter's end: files have everything. An error is printed by Python."""
    global _space
    if os.getpid() != pid or _space is None:
        return
    using = sys.modules.get("sluice._using")
    if using:
        using.all_end()
    left, failed = list(_regions), None
    for region in left:
        if region.writes_file:
            try:
                call("sluice_sync", _space, region.addr, region.size)
            except Error as error:
                failed = failed or error
    if failed:
        raise failed
    if not left and not _kept:
        if using:
            using.streams_end()
        ended, _space = _space, None
        call("sluice_space_destroy", ended)

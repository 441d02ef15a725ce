# SPDX-License-Identifier: Apache-2.0
"""What kernels of a GPU may touch: `with sluice.using(a, b, write=(c,)): launch(...)`.

A launch that touches undeclared data ends with an illegal address. So an array shows its address to
other libraries only inside of using(), or under `sluice run`, which sees the launches itself. The list of
what is declared is here.
Threads: any. What one thread declares, all may launch with, on the stream that was given.
"""

import ctypes
import errno
import threading
from typing import Any, Dict, List, Optional, Tuple

from sluice._library import Error, call, preloaded
from sluice._space import device, residency, space

READ, READ_WRITE, WRITE_ALL = 0, 2, 3  # enum sluice_intent
_LEGACY, _PER_THREAD = 1, 2  # handles of CUDA's two default streams

_lock = threading.Lock()
_open: List["using"] = []
_streams: Dict[int, Tuple[ctypes.c_void_p, Any]] = {}


def stream_handle(stream: Any) -> int:
    """The CUstream of what a library calls a stream; 0: the default stream.

    stream: None, a number, or a stream of PyTorch, CuPy, Numba or cuda.core. Raises ValueError.
    """
    for name in ("cuda_stream", "ptr", "handle"):  # PyTorch, CuPy, Numba
        if hasattr(stream, name):
            stream = getattr(stream, name)
            break
    else:
        if hasattr(stream, "__cuda_stream__"):
            stream = stream.__cuda_stream__()[1]
    handle = getattr(stream, "value", stream) or 0
    try:
        handle = int(handle)
    except (TypeError, ValueError):
        raise ValueError(f"{stream!r} is no stream") from None
    if handle == _PER_THREAD:
        raise ValueError("the per-thread default stream is another one in each thread: give a stream of your own")
    return 0 if handle == _LEGACY else handle


def _wrapped(stream: Any) -> Tuple[int, Optional[ctypes.c_void_p]]:
    """Its handle, and the space's object for it. The stream lives as long as the space."""
    handle = stream_handle(stream)
    if not handle:
        return 0, None
    with _lock:
        if handle not in _streams:
            made = ctypes.c_void_p()
            call("sluice_stream_wrap", space(), handle, ctypes.byref(made))
            _streams[handle] = made, stream
        return handle, _streams[handle][0]


def streams_end() -> None:
    """Forget the streams, before the space ends. Waits for their work."""
    with _lock:
        for wrapped, _ in _streams.values():
            call("sluice_stream_destroy", wrapped)
        _streams.clear()


def all_end() -> None:
    """End what is declared, before files are written at the interpreter's end."""
    while _open:
        _open[-1].__exit__()


def _extent(address: int, shape: Tuple[int, ...], strides: Tuple[int, ...], itemsize: int) -> Tuple[int, int]:
    low = high = address
    for n, stride in zip(shape, strides):
        if n == 0:
            return address, 0
        low, high = low + min(0, (n - 1) * stride), high + max(0, (n - 1) * stride)
    return low, high + itemsize - low


def _range_of(array: Any) -> Tuple[int, int]:
    """Address and bytes of an array of ours, a tensor of PyTorch, or an array of another library."""
    if hasattr(array, "_range"):
        return array._range("using")
    if hasattr(array, "data_ptr"):  # a tensor that wants its gradient refuses the interface below
        size = array.element_size()
        return _extent(array.data_ptr(), tuple(array.shape), tuple(n * size for n in array.stride()), size)
    import numpy as np

    found = getattr(array, "__cuda_array_interface__", None)
    if found is None:
        raise ValueError(f"using: {type(array).__name__}: neither an array of Sluice nor one on a GPU")
    size = np.dtype(found["typestr"]).itemsize
    shape = tuple(found["shape"])
    strides = found.get("strides")
    if strides is None:
        strides, step = [], size
        for n in reversed(shape):
            strides.insert(0, step)
            step *= n
    return _extent(found["data"][0], shape, tuple(strides), size)


def _is_ours(address: int, size: int) -> bool:
    try:
        residency(address, size)
    except Error as error:
        if error.errno != errno.ENOENT:
            raise
        return False
    return True


def _columns(ranges: List[Tuple[int, int, int]]) -> Tuple[Any, Any, Any]:
    n = len(ranges)
    return ((ctypes.c_void_p * n)(*(address for address, _, _ in ranges)),
            (ctypes.c_size_t * n)(*(size for _, size, _ in ranges)),
            (ctypes.c_int * n)(*(intent for _, _, intent in ranges)))


class using:  # noqa: N801: it reads as a word
    """Declare what the launches inside use: `with sluice.using(a, b, write=(c,)): ...`.

    arrays are only read, those of write are read and written, those of overwrite are written in full
    and their old contents are not needed. stream: where the launches go; None: the default stream.
    Their data are on the device when the launches run. Host code of this thread must not touch them
    inside: the process would end with SIGBUS.

    Under `sluice run` it is not needed, but for kernels that follow pointers and for parts of arrays that
    are larger than the budgets. Memory that the run manages is left out. Entering blocks on I/O, and on
    room that other launches hold.

    Raises Error (ENOENT: not Sluice's memory; ENOBUFS: more than device and host budget together) and
    ValueError.
    """

    def __init__(self, *arrays: Any, write: Any = (), overwrite: Any = (), stream: Any = None) -> None:
        for name, group in (("write", write), ("overwrite", overwrite)):
            if not isinstance(group, (tuple, list)):
                raise ValueError(f"using: {name} is a tuple or list of arrays")
        self._arrays = [(array, READ) for array in arrays]
        self._arrays += [(array, READ_WRITE) for array in write]
        self._arrays += [(array, WRITE_ALL) for array in overwrite]
        self._stream = stream
        self._launch: Optional[ctypes.c_void_p] = None
        self._ranges: List[Tuple[int, int]] = []
        self.handle = 0

    def _declared(self) -> List[Tuple[int, int, int]]:
        ranges = []
        for array, intent in self._arrays:
            address, size = _range_of(array)
            if size == 0:
                continue
            flags = getattr(array, "flags", None)
            if intent != READ and not getattr(flags, "writeable", True):
                raise ValueError("using: an array that is read-only is not written")
            if intent == WRITE_ALL and size != array.nbytes:
                raise ValueError("using: overwrite: the array has gaps that belong to others")
            if preloaded() and not hasattr(array, "_range") and not _is_ours(address, size):
                continue
            ranges.append((address, size, intent))
        return ranges

    def __enter__(self) -> "using":
        if self._launch is not None:
            raise ValueError("using: this one is in use: make another")
        ranges = self._declared()
        self._ranges = [(address, address + size) for address, size, _ in ranges]
        self.handle, wrapped = _wrapped(self._stream)
        launch = ctypes.c_void_p()
        # Memory of allocators is reached at any time, and only brought to the device.
        places = [use for use in ranges if call("sluice_memory_contains", space(), use[0])]
        uses = [use for use in ranges if use not in places]
        if places:
            call("sluice_memory_place", space(), *_columns(places)[:2], len(places))
        if uses:  # a launch that declares nothing would stop the whole space
            call("sluice_launch_begin_ranges", space(), wrapped, *_columns(uses), len(uses), ctypes.byref(launch))
        self._launch = launch
        with _lock:
            _open.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        with _lock:
            _open.remove(self)
        ended, self._launch = self._launch, None
        call("sluice_launch_end", ended)


    def __reduce__(self) -> Any:
        raise TypeError("using: what launches of this process use means nothing to another one")


def synchronize(stream: Any = None) -> None:
    """Wait for the launches on the stream. Raises Error, naming those that failed and their ranges."""
    call("sluice_stream_synchronize", space(), _wrapped(stream)[1])


def declared(address: int, size: int) -> Optional["using"]:
    """What declares all of these bytes now; None: nothing."""
    with _lock:
        for use in reversed(_open):
            if any(low <= address and address + size <= high for low, high in use._ranges):
                return use
    return None


def declared_or_error(address: int, size: int) -> Optional["using"]:
    """As declared(). None under `sluice run` as well. Raises Error: what is to be done."""
    use = declared(address, size)
    if use is None and not preloaded():
        raise Error(errno.EPERM, (
            "a kernel would not find this array: nothing declares what the launch uses. Launch inside of "
            "`with sluice.using(array):`. Or start the program by `sluice run`: it sees the launches, and "
            "nothing needs to be declared"))
    return use


def on_gpu(what: str) -> int:
    """The number of the GPU. Raises AttributeError: the arrays are on none."""
    kind, number = device()
    if kind != "cuda":
        raise AttributeError(f"{what}: the software device is no GPU: call sluice.configure(device=\"cuda\") before "
                             "the first array")
    return number

# SPDX-License-Identifier: Apache-2.0
"""Arrays over files and spilled memory: NumPy arrays whose data may be larger than memory."""

import builtins
import ctypes
import os
from typing import Any, Dict, Optional, Tuple, Union

import numpy as np

from sluice import _dlpack, _using
from sluice._library import Error, call, preloaded
from sluice._space import TIERS, Region, residency, space
from sluice._space import device as _space_device

_READ, _WRITE, _CREATE = 1, 2, 8  # enum sluice_map_flag
_EAGER = 0  # enum sluice_discard_mode
_ALIGN = 4096  # of a mapping's offset in its file
_MODES = {"r": _READ, "r+": _READ | _WRITE, "w+": _READ | _WRITE | _CREATE}

Shape = Union[int, Tuple[int, ...]]


class Array(np.ndarray):
    """A NumPy array in memory that Sluice manages. Views of it are such arrays, too.

    Results of calculations and copies are ordinary arrays. The data live as long as any array,
    view or buffer over them.
    """

    _region: Optional[Region] = None

    def __array_finalize__(self, obj: Any) -> None:
        region = getattr(obj, "_region", None)
        self._region = region if region is not None and np.may_share_memory(self, obj) else None

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array is self:
            return array
        array = np.asarray(array)
        return array[()] if return_scalar or array.shape == () else array

    def __getitem__(self, index: Any) -> Any:
        part = super().__getitem__(index)
        if isinstance(part, Array) and part._region is None:
            return part.view(np.ndarray)
        return part

    def __reduce__(self) -> Any:
        return np.array(self, copy=True, subok=False).__reduce__()

    def __deepcopy__(self, memo: Any) -> np.ndarray:
        return np.array(self, copy=True, subok=False)

    def copy(self, order: str = "C") -> np.ndarray:
        return np.array(self, copy=True, order=order, subok=False)

    def _range(self, call_name: str) -> Tuple[int, int]:
        """Its first address, and the bytes from there to its end."""
        if self._region is None:
            raise ValueError(f"{call_name}: this array is ordinary memory, not Sluice's")
        if self.size == 0:
            return self._region.addr, 0
        low = high = self.__array_interface__["data"][0]
        for n, stride in zip(self.shape, self.strides):
            low, high = low + min(0, (n - 1) * stride), high + max(0, (n - 1) * stride)
        return low, high + self.itemsize - low

    def prefetch(self, tier: str = "device") -> None:
        """Bring the data to the tier "device" or "host" in the background. Does not block on I/O."""
        addr, size = self._range("prefetch")
        call("sluice_prefetch", space(), addr, size, _tier(tier), None)

    def evict(self, tier: str = "host") -> None:
        """Move the data out to the tier "host" or "store". Blocks until that is done."""
        addr, size = self._range("evict")
        call("sluice_evict", space(), addr, size, _tier(tier), None)

    def discard(self) -> None:
        """The contents are not needed any more: they are copied nowhere.

        Reading gives zeros or older contents of the same array. Raises ValueError for an array that
        is read-only or has gaps.
        """
        addr, size = self._range("discard")
        if not self.flags.writeable or size != self.nbytes:
            raise ValueError("discard: the array is read-only, or has gaps that belong to others")
        call("sluice_discard", space(), addr, size, _EAGER, None)

    def sync(self) -> None:
        """All changes are on the medium when this returns. Blocks on I/O."""
        addr, size = self._range("sync")
        call("sluice_sync", space(), addr, size)

    flush = sync  # as numpy.memmap has it

    def residency(self) -> Dict[str, int]:
        """Bytes by place now: device, host, store, empty, dirty, pinned, in_flight."""
        return residency(*self._range("residency"))

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        """For libraries that launch kernels, inside of using() or under `sluice run`.

        Raises AttributeError (ordinary memory, or the software device) and Error (outside).
        """
        if self._region is None:
            raise AttributeError("__cuda_array_interface__: this array is ordinary memory")
        _using.on_gpu("__cuda_array_interface__")
        use = _using.declared_or_error(*self._range("__cuda_array_interface__"))
        here = self.__array_interface__
        return {"shape": self.shape, "typestr": here["typestr"], "descr": here["descr"],
                "data": (here["data"][0] if self.size else 0, not self.flags.writeable),
                "strides": None if self.flags.c_contiguous else self.strides,
                "version": 3, "stream": (use.handle or 1) if use else None}  # 1: the default stream

    def _gpu_sees(self) -> Tuple[bool, Optional[_using.using]]:
        """Whether kernels find the data now, and what declares them."""
        if self._region is None or self.size == 0 or _space_device()[0] != "cuda":
            return False, None
        use = _using.declared(*self._range("__dlpack__"))
        return use is not None or preloaded(), use

    def __dlpack_device__(self) -> Tuple[int, int]:
        """(2, number of the GPU) inside of using() and under `sluice run`, else (1, 0): host memory."""
        if not self._gpu_sees()[0]:
            return _dlpack.CPU, 0
        return _dlpack.CUDA, _space_device()[1]

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Optional[bool] = None) -> Any:
        """A capsule over these data: for kernels where __dlpack_device__() says so, else for host code.

        stream: the consumer's; outside of `sluice run` it is the one of using(). JAX chooses its streams
        itself, and so needs `sluice run`. Raises BufferError and Error.
        """
        sees, use = self._gpu_sees()
        if dl_device is not None and dl_device[0] == _dlpack.CUDA and not sees:
            _using.on_gpu("__dlpack__")
            _using.declared_or_error(*self._range("__dlpack__"))
        if not sees or use is None and dl_device is not None and dl_device[0] == _dlpack.CPU:
            if copy:
                return np.array(self, copy=True, subok=False).__dlpack__()
            plain = self.view(np.ndarray)
            if max_version is not None:
                try:
                    return plain.__dlpack__(max_version=max_version)
                except TypeError:  # NumPy before 2.1
                    pass
            return plain.__dlpack__()
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"__dlpack__: the data are on the GPU inside of using(), not on {tuple(dl_device)}")
        if copy:
            raise BufferError("__dlpack__: no copy is made on the GPU")
        if use is not None and not preloaded() and stream not in (None, -1) and \
                _using.stream_handle(stream) != use.handle:
            raise BufferError("__dlpack__: the consumer's stream is another one: sluice.using(..., stream=...), "
                              "or `sluice run`, which sees launches on any")
        return _dlpack.capsule(self, self.__array_interface__["data"][0], self.__dlpack_device__(), max_version)


def _tier(name: str) -> int:
    if name not in TIERS:
        raise ValueError(f"tier {name!r}: device, host or store")
    return TIERS[name]


def _shape_of(shape: Shape) -> Tuple[int, ...]:
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if any(n < 0 for n in shape):
        raise ValueError(f"shape {shape}: a negative length")
    return tuple(int(n) for n in shape)


def _plain(dtype: Any) -> np.dtype:
    dtype = np.dtype(dtype)
    if dtype.hasobject or dtype.itemsize == 0:
        raise ValueError(f"dtype {dtype}: Python objects and empty items cannot be managed")
    return dtype


def _bytes_in(shape: Tuple[int, ...], dtype: np.dtype) -> int:
    n = dtype.itemsize
    for length in shape:
        n *= length
    if n == 0:
        raise ValueError(f"shape {shape}: an array of 0 bytes cannot be managed")
    return n


def _array(region: Region, shape: Tuple[int, ...], dtype: np.dtype, offset: int, order: str,
           writable: bool) -> Array:
    array = np.ndarray.__new__(Array, shape, dtype, buffer=region.buffer, offset=offset, order=order)
    array._region = region
    array.flags.writeable = writable
    return array


def empty(shape: Shape, dtype: Any = float, order: str = "C") -> Array:
    """An array of zeros. What does not fit device and host memory is spilled to disk.

    Raises ValueError (0 bytes, dtype) and Error (ENOMEM, EFBIG: no addresses left).
    """
    shape, dtype = _shape_of(shape), _plain(dtype)
    size = _bytes_in(shape, dtype)
    addr = ctypes.c_void_p()
    call("sluice_alloc", space(), size, 0, ctypes.byref(addr))
    return _array(Region(addr.value, size, False), shape, dtype, 0, order, True)


def _npy_header(path: str) -> Optional[Tuple[Tuple[int, ...], bool, np.dtype, int]]:
    """Shape, Fortran order, dtype and the place of the data; None: the file is no .npy file."""
    with builtins.open(path, "rb") as file:
        if file.read(6) != b"\x93NUMPY":
            return None
        file.seek(0)
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            header = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            header = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"{path}: a .npy file of version {version[0]}.{version[1]}: 1.0 and 2.0 can be read")
        return (*header, file.tell())


def _map(path: str, mode: str, offset: int, size: int) -> Tuple[Region, int]:
    """The region with [offset, offset + size) of the file, and where it begins there."""
    skip = offset % _ALIGN
    addr = ctypes.c_void_p()
    call("sluice_map", space(), os.fsencode(path), offset - skip, size + skip, _MODES[mode],
         ctypes.byref(addr))
    return Region(addr.value, size + skip, mode != "r"), skip


def open(path: Any, dtype: Any = None, shape: Optional[Shape] = None, mode: str = "r",
         offset: int = 0, order: str = "C") -> Array:
    """A file as an array, in the manner of numpy.memmap; it may be larger than memory.

    mode: "r" read, "r+" read and write, "w+" a new file (shape is needed). Changes are in the file
    when the array's last view has gone, or after sync().
    dtype None: a .npy file has its own dtype, shape and offset; any other file is bytes.
    shape None: all of the file behind offset (bytes).

    Raises Error (ENOENT, EACCES, EISDIR, EFBIG: the file is shorter than the shape) and ValueError.
    """
    path = os.fspath(path)
    if mode not in _MODES:
        raise ValueError(f"mode {mode!r}: 'r', 'r+' or 'w+'")
    if offset < 0:
        raise ValueError(f"offset {offset} is negative")
    if mode == "w+":
        if shape is None:
            raise ValueError("mode 'w+': the shape is needed")
        shape, dtype = _shape_of(shape), _plain(np.uint8 if dtype is None else dtype)
        size = _bytes_in(shape, dtype)
        try:
            builtins.open(path, "wb").close()
        except OSError as error:
            raise Error(error.errno, f"open: {path}: {error.strerror}") from None
    else:
        header = _npy_header(path) if dtype is None and shape is None and not offset and os.path.isfile(path) else None
        if header:
            shape, fortran, dtype, offset = header
            order = "F" if fortran else "C"
        dtype = _plain(np.uint8 if dtype is None else dtype)
        if shape is None and os.path.isfile(path):
            left = os.path.getsize(path) - offset
            if left <= 0 or left % dtype.itemsize:
                raise ValueError(f"{path}: {left} bytes behind offset {offset} are no whole number of {dtype} items")
            shape = left // dtype.itemsize
        shape = _shape_of(1 if shape is None else shape)
        size = _bytes_in(shape, dtype)
    region, skip = _map(path, mode, offset, size)
    return _array(region, shape, dtype, skip, order, mode != "r")


__all__ = ["Array", "Error", "empty", "open"]

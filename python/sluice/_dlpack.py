# SPDX-License-Identifier: Apache-2.0
"""An array as a DLPack capsule for a GPU: an address, a shape, and who frees it.

The layout is that of DLPack, in its form before 1.0 and in that of 1.0, which can say read-only.
The capsule keeps the array, and so its memory. It does not keep the data on the device: using() does.
"""

import ctypes
import threading
from typing import Any, Dict, Tuple

CPU, CUDA = 1, 2  # DLDeviceType
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # DLDataTypeCode by kind of NumPy
_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", _Deleter), ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


_api = ctypes.PyDLL(None)  # ctypes.pythonapi is everybody's: others change its types
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)  # of a capsule: with Python's lock
_new, _valid, _pointer = _api.PyCapsule_New, _api.PyCapsule_IsValid, _api.PyCapsule_GetPointer
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, _Destructor)
_valid.restype, _valid.argtypes = ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p)
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p)

_lock = threading.Lock()
_alive: Dict[int, Any] = {}  # by the address of the struct: it, and the array


@_Deleter
def _delete(address: int) -> None:
    """The consumer's last word."""
    with _lock:
        gone = _alive.pop(address, None)
    del gone


@_Destructor
def _capsule_ends(capsule: int) -> None:
    for name in (b"dltensor", b"dltensor_versioned"):  # other names: a consumer has taken it
        if _valid(capsule, name):
            _delete(_pointer(capsule, name))


def capsule(array: Any, address: int, device: Tuple[int, int], version: Any) -> Any:
    """version: the newest that the consumer takes; None: the one before 1.0. Raises BufferError."""
    if array.dtype.kind not in _CODES or not array.dtype.isnative:
        raise BufferError(f"__dlpack__: DLPack has no {array.dtype}")
    if any(stride % array.itemsize for stride in array.strides):
        raise BufferError("__dlpack__: its strides are no whole items")
    versioned = version is not None and version[0] >= 1
    if not versioned and not array.flags.writeable:
        raise BufferError("__dlpack__: the array is read-only, which only DLPack 1.0 can say: open it with mode \"r+\", "
                          "or let the consumer ask for max_version=(1, 0)")
    n = array.ndim
    shape, strides = (ctypes.c_int64 * n)(*array.shape), (ctypes.c_int64 * n)(
        *(stride // array.itemsize for stride in array.strides))
    managed = _Versioned() if versioned else _Managed()
    if versioned:
        managed.major, managed.minor = 1, 0
        managed.flags = 0 if array.flags.writeable else _READ_ONLY
    tensor = managed.tensor
    tensor.data, (tensor.device_type, tensor.device_id), tensor.ndim = address, device, n
    tensor.code, tensor.bits, tensor.lanes = _CODES[array.dtype.kind], 8 * array.itemsize, 1
    tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = _delete
    at = ctypes.addressof(managed)
    with _lock:
        _alive[at] = managed, shape, strides, array
    return _new(at, b"dltensor_versioned" if versioned else b"dltensor", _capsule_ends)

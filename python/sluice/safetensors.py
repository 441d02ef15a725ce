# SPDX-License-Identifier: Apache-2.0
"""Files of the format safetensors, read in place: sluice.safetensors.open(path)["name"]."""

import json
import os
from collections.abc import Mapping
from typing import Any, Dict, Iterator

import numpy as np

from sluice import _array

# NumPy has no BF16 and no 8-bit floats: their bits.
_DTYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "F8_E4M3": "u1", "F8_E5M2": "u1", "U16": "<u2", "I16": "<i2",
           "F16": "<f2", "BF16": "<u2", "U32": "<u4", "I32": "<i4", "F32": "<f4", "U64": "<u8", "I64": "<i8",
           "F64": "<f8"}
_HEADER_MAX = 100 << 20  # bytes


class File(Mapping):
    """The tensors of a file by name, read-only arrays over the mapped file."""

    def __init__(self, path: Any) -> None:
        self.path = os.fspath(path)
        data = _array.open(self.path, dtype="u1")
        length = int(data[:8].view("<u8")[0]) if data.size >= 8 else 0
        if not 2 <= length <= min(_HEADER_MAX, data.size - 8):
            raise ValueError(f"{self.path}: no safetensors file: a header of {length} bytes")
        try:
            header = json.loads(bytes(data[8:8 + length]))
            self.metadata: Dict[str, str] = header.pop("__metadata__", {})
            self._tensors = {name: self._check(name, tensor, data.size - 8 - length)
                             for name, tensor in header.items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{self.path}: the safetensors header is wrong: {error}") from None
        self._data = data[8 + length:]

    def _check(self, name: str, tensor: Any, size: int) -> tuple:
        dtype, shape = np.dtype(_DTYPES[tensor["dtype"]]), tuple(tensor["shape"])
        begin, end = tensor["data_offsets"]
        wanted = dtype.itemsize
        for n in shape:
            wanted *= n
        if not 0 <= begin <= end <= size or end - begin != wanted or any(n < 0 for n in shape):
            raise ValueError(f"{name}: bytes {begin} to {end} are not {dtype} {shape}")
        return dtype, shape, begin, end

    def __getitem__(self, name: str) -> np.ndarray:
        dtype, shape, begin, end = self._tensors[name]
        if begin == end:
            return np.empty(shape, dtype)
        return self._data[begin:end].view(dtype).reshape(shape)

    def __reduce__(self) -> Any:
        return open, (os.path.abspath(self.path),)  # the other process opens it, and copies nothing

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def open(path: Any) -> File:
    """Raises sluice.Error (ENOENT, EACCES, EISDIR) and ValueError (not such a file, cut short)."""
    return File(path)

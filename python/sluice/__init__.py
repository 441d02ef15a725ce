# SPDX-License-Identifier: Apache-2.0
"""Sluice: arrays and GPU programs that need more memory than there is.

    import sluice
    a = sluice.open("data.bin", dtype="float32", mode="r+")   # a file as a NumPy array
    b = sluice.empty((1 << 20, 1024))                         # memory that may be spilled

`python -m sluice` is the command `sluice`. docs/python.md is the tutorial.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluice._array import Array, empty, open
    from sluice._library import Error
    from sluice._report import report
    from sluice._space import configure, limits, stats
    from sluice._using import synchronize, using

__all__ = ["Array", "Error", "__version__", "command_path", "configure", "empty", "limits", "open",
           "prefix_path", "report", "safetensors", "stats", "synchronize", "using"]

__version__: str
_PACKAGE = "sluice-gpu"
_PARTS = ("safetensors", "torch", "cupy", "rmm", "numba")  # the last four import the library of that name
# Loaded when they are used first: importing NumPy takes longer than starting the command.
_HOMES = {"Array": "_array", "empty": "_array", "open": "_array", "Error": "_library",
          "configure": "_space", "limits": "_space", "stats": "_space", "report": "_report",
          "using": "_using", "synchronize": "_using"}


def __getattr__(name: str) -> Any:
    import importlib

    if name == "__version__":
        from importlib import metadata

        return metadata.version(_PACKAGE)
    if name in _PARTS:
        return importlib.import_module(f"sluice.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"sluice.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list:
    return sorted({*__all__, *_PARTS})


def command_path() -> Path:
    """The command `sluice` of this package, whatever else PATH finds.

    Raises FileNotFoundError where the package has lost it.
    """
    from importlib import metadata

    for file in metadata.files(_PACKAGE) or []:
        if file.name == "sluice" and file.parent.name == "bin":
            path = Path(file.locate()).resolve()
            if path.is_file():
                return path
    raise FileNotFoundError(f"{_PACKAGE} has no command `sluice`: install it again")


def prefix_path() -> Path:
    """The directory with bin, lib, include and share: what CMAKE_PREFIX_PATH wants."""
    return command_path().parent.parent

# SPDX-License-Identifier: Apache-2.0
"""Sluice: GPU programs that need more memory than the GPU has.

`python -m sluice` is the command `sluice`. command_path() and prefix_path() say where the package
has put it, the libraries and the headers.
"""

from pathlib import Path

__all__ = ["__version__", "command_path", "prefix_path"]

__version__: str
_PACKAGE = "sluice-gpu"


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import metadata  # only now: it takes longer than everything else here

    return metadata.version(_PACKAGE)


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

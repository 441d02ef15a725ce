# SPDX-License-Identifier: Apache-2.0
"""What the programs that make the papers' pages share."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def program(name, variable, folder):
    """The path of one of the tree's programs: the variable's, or the release build's."""
    path = os.environ.get(variable) or ROOT / "build" / "release" / folder / name
    if not os.access(path, os.X_OK):
        sys.exit(f"{path}: no program; cmake --preset release && cmake --build --preset release makes it, "
                 f"or {variable} names another one")
    return str(path)


def sluice_papers():
    return program("sluice-papers", "SLUICE_PAPERS_BIN", "papers")


def sluice():
    return program("sluice", "SLUICE_BIN", "tools")


def size_text(size):
    """As the commands print it: rounded to a tenth of its unit."""
    units, unit, tenths = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"), 0, size * 10
    while unit + 1 < len(units) and tenths >= 10240:
        unit += 1
        tenths = (size * 10 + (1 << 10 * unit) // 2) >> 10 * unit
    return f"{tenths / 10:g} {units[unit]}" if tenths % 10 else f"{tenths // 10} {units[unit]}"


def table(*rows, head=None):
    """Lines of a Markdown table: the first row names the columns."""
    rows = [head or rows[0], ["---"] * len(head or rows[0]), *(rows if head else rows[1:])]
    return [("|" + "|".join(row) + "|") if row[0] == "---" else "| " + " | ".join(row) + " |" for row in rows]


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2

# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/benchmarks-run.md. The page is all that is kept of runs: a row that has not been run again stays as it
is, with the day it was run on."""

import re


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def between(path, mark, text):
    """Write text between `<!-- MARK -->` and `<!-- /MARK -->`."""
    part = re.compile(f"(<!-- {re.escape(mark)} -->\n).*?(<!-- /{re.escape(mark)} -->)", re.S)
    page, n = part.subn(lambda m: m[1] + text + m[2], path.read_text())
    if n != 1:
        raise SystemExit(f"{path}: {n} places between <!-- {mark} --> and <!-- /{mark} -->, one is wanted")
    path.write_text(page)


class Table:
    """Of the page the lines between `<!-- MARK -->` and the next `<!-- end -->`."""

    def __init__(self, mark, columns, adjust, key, day):
        """columns, adjust: the two lines above the rows; key: of a row's cells, equal where a row takes another's
        place; day: the number of the cell that says when."""
        self.part = re.compile(r"(<!-- " + re.escape(mark) + r" -->\n)(.*?)(<!-- end -->)", re.S)
        self.mark, self.head, self.key, self.day = mark, [columns, adjust], key, day

    def days(self, rows):
        """One day, or the first to the last."""
        dates = [cells(row)[self.day].split(",")[0] for row in rows]
        if not dates:
            return "no run"
        first, last = min(dates), max(dates)
        return first if first == last else f"{first} to {last}"

    def kept(self, old, new):
        """New rows in the place of old ones, others behind the last of the same first cell, up to its comma."""
        made = {self.key(cells(row)): row for row in new}
        rows = [made.pop(self.key(cells(row)), row) for row in old] + list(made.values())
        places = {}
        for row in rows:
            places.setdefault(cells(row)[0].split(",")[0], len(places))
        return sorted(rows, key=lambda row: places[cells(row)[0].split(",")[0]])

    def text(self, above, rows, below=()):
        return "\n".join([above, "", *self.head, *rows, *below]) + "\n"

    def part_of(self, page):
        """The lines between the marks."""
        found = self.part.findall(page.read_text())
        if len(found) != 1:
            raise SystemExit(f"{page}: {len(found)} places between <!-- {self.mark} --> and <!-- end -->, "
                             "one is wanted")
        return found[0][1].splitlines()

    def rows_of(self, page):
        lines = [line for line in self.part_of(page) if line.startswith("|")]
        if lines and lines[:2] != self.head:
            raise SystemExit(f"{page}: the table {self.mark} has other columns: its rows would be lost")
        return lines[2:]

    def write(self, page, text):
        page.write_text(self.part.sub(lambda m: m[1] + text + m[3], page.read_text()))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the end of a timeline that `sluice run --timeline` has written: README's picture.

Rows: kernels, copies in, copies out, each a bar for every column of the picture, as high as the share
of that time in which the GPU, or the link, was busy.

    bench/programs/timeline.py RUN.json --before 0.24 --seconds 1.36 --title TEXT --machine TEXT OUT.svg
"""

import argparse
import json
import pathlib

from picture import COLOURS, text

WIDTH, LEFT, RIGHT, TOP = 760, 108, 740, 64
ROW, GAP = 44, 14
GIB = 1 << 30


def tracks_of(events):
    """Names of our tracks by number."""
    return {e["tid"]: e["args"]["name"] for e in events if e.get("ph") == "M" and e["name"] == "thread_name"}


def spans_of(events, tracks):
    """Rows of (begin, end, bytes) in microseconds."""
    rows = {"kernels": [], "copies in": [], "copies out": []}
    for e in events:
        if e.get("ph") != "X":
            continue
        track = tracks.get(e["tid"], "")
        if e.get("cat") in ("kernel", "graph"):
            rows["kernels"].append((e["ts"], e["ts"] + e["dur"], 0))
        elif track.endswith("copies in") or track.endswith("copies out"):
            name = "copies in" if track.endswith("in") else "copies out"
            rows[name].append((e["ts"], e["ts"] + e["dur"], e["args"]["bytes"]))
    return rows


def joined(spans):
    """Sorted, and none over another."""
    out = []
    for begin, end, _ in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def shares(spans, begin, end, columns):
    """How much of each column's time the spans take."""
    width, busy = (end - begin) / columns, [0.0] * columns
    for first, last in joined(spans):
        first, last = (max(first, begin) - begin) / width, (min(last, end) - begin) / width
        for column in range(int(first), min(int(last) + 1, columns)):
            busy[column] += max(0.0, min(last, column + 1) - max(first, column))
    return busy


def row_lines(busy, y, colour):
    """One path: a column's bar each, neighbours of one height together."""
    path, k = [], 0
    while k < len(busy):
        run, height = 1, round(busy[k] * ROW, 1)
        while k + run < len(busy) and round(busy[k + run] * ROW, 1) == height:
            run += 1
        if height:
            path.append(f"M{LEFT + k} {y + ROW}v{-height:g}h{run}v{height:g}z")
        k += run
    return f'<path d="{"".join(path)}" fill="{colour}"/>'


def draw(rows, before, seconds, title, machine):
    end = max(last for _, last, _ in rows["kernels"]) - before * 1e6
    begin, columns = end - seconds * 1e6, RIGHT - LEFT
    bottom = TOP + len(rows) * (ROW + GAP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 40}" '
           'font-family="sans-serif" role="img">', f"<title>{title}</title>",
           f'<rect width="{WIDTH}" height="{bottom + 40}" fill="#ffffff"/>',
           text(12, 24, title, "start", "#000000", 16), text(12, 42, machine, "start", "#666666", 12)]
    for k, (name, spans) in enumerate(rows.items()):
        y = TOP + k * (ROW + GAP)
        busy = shares(spans, begin, end, columns)
        inside = [s for s in spans if begin <= s[0] < end]
        share = f"{sum(busy) / columns:.0%} busy"
        moved = sum(s[2] for s in inside)
        out += [f'<rect x="{LEFT}" y="{y}" width="{columns}" height="{ROW}" fill="#f3f3f3"/>',
                row_lines(busy, y, COLOURS[(2, 0, 1)[k]]),
                text(LEFT - 10, y + 18, name, "end", "#000000"),
                text(LEFT - 10, y + 34, f"{moved / GIB:.1f} GiB" if moved else share, "end", "#666666", 11)]
    ticks = 5
    for k in range(ticks + 1):
        x = LEFT + columns * k / ticks
        out += [f'<path d="M{x:.0f} {bottom - GAP}v6" stroke="#666666"/>',
                text(x, bottom + 10, f"{seconds * k / ticks:.2f} s")]
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("timeline", type=pathlib.Path)
    p.add_argument("--before", type=float, default=0.0, help="seconds from the right edge to the last kernel's end")
    p.add_argument("--seconds", type=float, default=1.0, help="that are drawn")
    p.add_argument("--title", default="A timeline")
    p.add_argument("--machine", default="")
    p.add_argument("svg", type=pathlib.Path)
    args = p.parse_args()

    data = json.loads(args.timeline.read_text())
    events = data["traceEvents"] if isinstance(data, dict) else data
    args.svg.write_text(draw(spans_of(events, tracks_of(events)), args.before, args.seconds, args.title, args.machine))


if __name__ == "__main__":
    main()

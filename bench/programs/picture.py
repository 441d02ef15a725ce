# SPDX-License-Identifier: Apache-2.0
"""The picture of docs/benchmarks-run.md: slow-down against the share of memory, one line a program."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 480
LEFT, RIGHT, TOP, BOTTOM = 70, 600, 56, 420
STEP = 17  # between two names at the end of lines
TICKS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200)
# Okabe and Ito's colours, which colour-blind readers tell apart; then the same, dashed.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#56b4e9", "#000000")


def text(x, y, words, anchor="middle", colour="#333333", size=13):
    return (f'<text x="{x:.0f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
            f'font-size="{size}">{escape(words)}</text>')


def spread(wanted):
    """Heights as near to the wanted ones as can be, at least STEP apart."""
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    placed = []
    for k in order:
        placed.append(max(wanted[k], placed[-1] + STEP) if placed else wanted[k])
    limit = BOTTOM
    for at in reversed(range(len(placed))):
        placed[at] = min(placed[at], limit)
        limit = placed[at] - STEP
    found = dict(zip(order, placed))
    return [found[k] for k in range(len(wanted))]


def slow_down(lines, shares, machine):
    """lines: (program, [ratio or None for each share])."""
    known = [ratio for _, ratios in lines for ratio in ratios if ratio]
    top = next((tick for tick in TICKS[1:] if tick >= max(known, default=1)), TICKS[-1])
    low = 0.9

    def y(ratio):
        share = math.log(max(ratio, low) / low) / math.log(top / low)
        return BOTTOM - (BOTTOM - TOP) * share

    def x(k):
        return LEFT + 30 + k * (RIGHT - LEFT - 60) / max(1, len(shares) - 1)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" role="img">',
           "<title>Slow-down of unmodified programs by the device memory that they may use</title>",
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
           text(LEFT, 24, "Slow-down: time under sluice run / native time", "start", "#000000", 16),
           text(LEFT, 42, machine, "start", "#666666", 12)]
    for tick in TICKS:
        if tick <= top:
            out.append(f'<path d="M{LEFT} {y(tick):.1f}H{RIGHT}" stroke="#dddddd"/>')
            out.append(text(LEFT - 8, y(tick) + 4, f"{tick} x", "end"))
    for k, share in enumerate(shares):
        out.append(text(x(k), BOTTOM + 22, share))
    out.append(text((LEFT + RIGHT) / 2, BOTTOM + 44, "device memory, in percent of the program's native peak"))
    ends = [y([ratio for ratio in ratios if ratio][-1]) for _, ratios in lines]
    for number, ((program, ratios), end, place) in enumerate(zip(lines, ends, spread(ends))):
        colour = COLOURS[number % len(COLOURS)]
        dash = ' stroke-dasharray="6 3"' if number >= len(COLOURS) else ""
        points = [(x(k), y(ratio), ratio, shares[k]) for k, ratio in enumerate(ratios) if ratio]
        path = " ".join(f"{px:.0f},{py:.1f}" for px, py, _, _ in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        for px, py, ratio, share in points:
            out.append(f'<circle cx="{px:.0f}" cy="{py:.1f}" r="3.5" fill="{colour}">'
                       f"<title>{escape(program)}, {share}: {ratio:.2f}</title></circle>")
        out.append(f'<path d="M{points[-1][0] + 5:.0f} {end:.1f}L{RIGHT + 14} {place:.1f}" '
                   f'stroke="{colour}" stroke-width="0.7"/>')
        out.append(text(RIGHT + 18, place + 4, f"{program} {points[-1][2]:.1f} x", "start", colour))
    return "\n".join([*out, "</svg>"]) + "\n"

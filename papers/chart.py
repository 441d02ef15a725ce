# SPDX-License-Identifier: Apache-2.0
"""Two kinds of charts as SVG files: groups of bars, and lines over numbers. Each series may have published values
beside its own: marks on bars, dashed lines. A value that is None is left out, among bars it is a dash. A series
that has none is left out. A group of bars without values says so. The files need no script, no font and no other file.
Coordinates are user units of a fixed view box; axes end at round numbers."""

import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM, TICKS = 900, 420, 80, 20, 76, 60, 5
COLOURS = ("#8c8c8c", "#c2304a", "#e08a1e", "#6a51a3", "#7fb2d9", "#2f5d9b", "#1c7c3c", "#111111")


class Series:
    def __init__(self, name, values, published=None, colour=None):
        """colour: a number, the same in every picture; None: by order."""
        self.name, self.values, self.published, self.colour = name, values, published, colour


def escape(text):
    text = "".join("?" if ord(c) < 32 else c for c in text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def round_up(x):
    """A round number not below x."""
    decade = 10.0 ** math.floor(math.log10(x))
    leads = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return next((lead for lead in leads if lead * decade >= x * (1 - 1e-9)), 10) * decade


class Chart:
    """groups: names of one line or two, of bars; or x: numbers, under lines. log_y: decades, values above 0."""

    def __init__(self, title, x_title, y_title, series, groups=None, x=None, log_y=False, note=""):
        """note: a second line of the title, in small letters."""
        self.title, self.x_title, self.y_title, self.note = title, x_title, y_title, note
        self.groups, self.x, self.log_y = groups, x, log_y
        for s, one in enumerate(series):  # the colours stay those of the whole list
            one.colour = s if one.colour is None else one.colour
        self.series = [s for s in series if any(y is not None for y in [*s.values, *(s.published or [])])]
        self.legend, legend_rows = self.legend_lay()
        self.top = TOP + 18 * (legend_rows - 1) + (16 if note else 0)
        self.n = len(groups if groups else x)
        known = [self.scaled(y) for s in series for y in [*s.values, *(s.published or [])]]
        known = [y for y in known if y is not None]
        low, high = (min(known), max(known)) if known else (0, 1)
        if log_y:
            self.low, self.high = math.floor(low), math.ceil(high)
            self.high = max(self.high, self.low + 1)
        else:
            self.low, self.high = 0, round_up(high / TICKS) * TICKS if high > 0 else 1
        self.x_low, self.x_high = (x[0], x[-1]) if x else (0, 1)
        if self.x_high <= self.x_low:
            self.x_high = self.x_low + 1

    def scaled(self, y):
        if y is None or (self.log_y and y <= 0):
            return None
        return math.log10(y) if self.log_y else y

    def legend_lay(self):
        """Of each entry: its text, its colour (None: the mark of published values), its place; and the rows."""
        entries = [(one.name, self.colour_of(one)) for one in self.series]
        if any(y is not None for one in self.series for y in one.published or []):
            entries.append(("published", None))
        at, row, places = LEFT, 0, []
        for name, colour in entries:
            width = 30 + 7.2 * len(name)
            if at + width > WIDTH - RIGHT and at > LEFT:
                at, row = LEFT, row + 1
            places.append((name, colour, at, row))
            at += width
        return places, row + 1

    def x_at(self, x):
        return LEFT + (x - self.x_low) / (self.x_high - self.x_low) * (WIDTH - LEFT - RIGHT)

    def y_at(self, y):
        part = (self.scaled(y) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - max(part, 0) * (HEIGHT - self.top - BOTTOM)

    @staticmethod
    def colour_of(series):
        return COLOURS[series.colour % len(COLOURS)]

    def frame(self):
        ticks = self.high - self.low if self.log_y else TICKS
        out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">'
               % (WIDTH, HEIGHT), '<rect width="%d" height="%d" fill="#ffffff"/>' % (WIDTH, HEIGHT),
               '<text x="%d" y="24" font-size="16">%s</text>' % (LEFT, escape(self.title))]
        for i in range(ticks + 1):
            value = self.low + (self.high - self.low) * i / ticks
            y = HEIGHT - BOTTOM - (HEIGHT - self.top - BOTTOM) * i / ticks
            out.append('<path d="M%d %.1fH%d" stroke="#dddddd"/><text x="%d" y="%.1f" text-anchor="end">%g</text>'
                       % (LEFT, y, WIDTH - RIGHT, LEFT - 6, y + 4, 10.0 ** value if self.log_y else value))
        out.append('<text x="%.0f" y="%d" text-anchor="middle">%s</text>'
                   % ((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, escape(self.x_title)))
        out.append('<text x="%d" y="%d">%s</text>' % (LEFT - 60, self.top - 10, escape(self.y_title)))
        down = 16 if self.note else 0
        if self.note:
            out.append('<text x="%d" y="40" font-size="11" fill="#666666">%s</text>' % (LEFT, escape(self.note)))
        for name, colour, at, row in self.legend:
            y = 36 + down + 18 * row
            if colour:
                out.append('<rect x="%.0f" y="%d" width="12" height="12" fill="%s"/>' % (at, y, colour))
            else:
                out.append('<path d="M%.0f %dh12" stroke="#000000" stroke-width="2"%s/>'
                           % (at, y + 6, "" if self.groups else ' stroke-dasharray="4 3"'))
            out.append('<text x="%.0f" y="%d">%s</text>' % (at + 16, y + 10, escape(name)))
        return out

    def bars(self):
        group = (WIDTH - LEFT - RIGHT) / self.n
        bar, base, out = group * 0.84 / max(len(self.series), 1), float(HEIGHT - BOTTOM), []
        for i, name in enumerate(self.groups):
            left = LEFT + group * i + group * 0.08
            for line, text in enumerate(name.split("\n")):
                out.append('<text x="%.1f" y="%.0f" font-size="%d" text-anchor="middle">%s</text>'
                           % (left + group * 0.42, base + 18 + 14 * line, 10 if self.n > 8 else 12, escape(text)))
            for s, series in enumerate(self.series):
                x, value = left + bar * s, series.values[i]
                if value is not None and value >= 0:
                    y = self.y_at(value) if self.scaled(value) is not None else base
                    out.append('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s: %.4g</title></rect>'
                               % (x, y, bar * 0.9, base - y, self.colour_of(series), escape(series.name), value))
                if series.published and series.published[i] is not None:
                    out.append('<path d="M%.1f %.1fh%.1f" stroke="#000000" stroke-width="2"/>'
                               % (x, self.y_at(series.published[i]), bar * 0.9))
            none = [series.values[i] is None for series in self.series]
            for s in range(len(none) if not all(none) else 0):
                if none[s]:  # a dash, as in the tables
                    out.append('<text x="%.1f" y="%.0f" fill="#666666" text-anchor="middle">\u2013</text>'
                               % (left + bar * (s + 0.45), base - 4))
            if all(none):
                out.append('<text x="%.1f" y="%.0f" font-size="11" fill="#666666" text-anchor="middle">not run</text>'
                           % (left + group * 0.42, base - 6))
        return out

    def line(self, values, colour, dash):
        path, begun = "", False
        for i, value in enumerate(values):
            if self.scaled(value) is None:
                begun = False
                continue
            path += "%s%.1f %.1f" % ("L" if begun else "M", self.x_at(self.x[i]), self.y_at(value))
            begun = True
        return ('<path fill="none" d="%s" stroke="%s" stroke-width="%s"%s/>'
                % (path, colour, "1" if dash else "2", dash))

    def round_places(self):
        step = round_up((self.x_high - self.x_low) / 8)
        first = math.ceil(self.x_low / step)
        return [step * i for i in range(first, math.floor(self.x_high / step) + 1)]

    def lines(self):
        out = []
        # Few points are named one by one, many by round places.
        for x in self.x if self.n <= 12 else self.round_places():
            out.append('<text x="%.1f" y="%d" text-anchor="middle">%g</text>'
                       % (self.x_at(x), HEIGHT - BOTTOM + 18, x))
        for series in self.series:
            out.append(self.line(series.values, self.colour_of(series), ""))
            if series.published:
                out.append(self.line(series.published, "#000000", ' stroke-dasharray="4 3"'))
        return out

    def text(self):
        return "\n".join([*self.frame(), *(self.bars() if self.groups else self.lines()), "</svg>"]) + "\n"

    def embed(self, folder, link, name):
        """Write FOLDER/NAME.svg; the lines of the page that show it. folder None: no picture, no line."""
        if folder is None:
            return []
        (folder / f"{name}.svg").write_text(self.text())
        return ["", f"![{self.title}]({link}{'/' if link else ''}{name}.svg)"]

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of the paper G10: docs/figures.md and its pictures.

`sluice-papers figures` simulates the configurations; this program puts the published values beside them, judges
how near the two are (figures_bars.py), and writes tables and pictures. A time is written as "published / ours
(difference)" in 10^9 cycles; without a published value it is ours alone, and what was not run is a dash. The same data
give the same files."""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import common
import figures_bars
from chart import Chart, Series
from figures_bars import TITLES

CLOCK_HZ = 1.2e9
POINTS_MAX = 400  # of a line over the launches
POLICIES = list(TITLES)
SHOWN = ("uvm", "flashneuron", "deepum", "g10")
SWEEP = ("ideal", "uvm", "flashneuron", "deepum", "g10", "sluice")
STORES = (6400, 12800, 19200, 25600, 32000)
FIGURES = (2, 3, 4, *range(11, 20))
TABLES = {"cycles": 8, "breakdown": 7, "slowdown": 14, "traffic": 8, "variation": 5, "loader": 7}  # fields


class Published:
    """The published values: tables of commas in DIR/expected. '#' begins a comment, the first other line names the
    columns. A value that is not there is None, a published failure infinite."""

    def __init__(self, data):
        rows = {name: self.read(data / "expected" / f"{name}.csv", fields) for name, fields in TABLES.items()}
        self.cycles = {(int(r[0]), r[1], int(r[2]), int(r[3]), round(float(r[4]) * 1000), r[6]): float(r[7])
                       for r in reversed(rows["cycles"])}
        self.rows = {name: {(r[1], int(r[2]), r[3]): [float(v) for v in r[4:]] for r in reversed(rows[name])}
                     for name in ("breakdown", "slowdown", "traffic")}
        self.noise = {(r[1], int(r[2]), round(float(r[3]) * 100)): float(r[4]) for r in reversed(rows["variation"])}
        self.loader = [(r[0], *map(int, r[1:])) for r in rows["loader"]]

    @staticmethod
    def read(path, fields):
        rows = []
        try:
            lines = path.read_text().splitlines()
        except OSError as error:
            sys.exit(f"{path}: {error.strerror}: the published values are read from there")
        for number, line in enumerate(lines, 1):
            if not line or line[0] == "#":
                continue
            rows.append(line.split(","))
            if len(rows) > 1 and len(rows[-1]) != fields:
                sys.exit(f"{path}: line {number}: {len(rows[-1])} fields, must be {fields}")
        return rows[1:]


class Cell:
    """One simulated configuration."""

    def __init__(self, entry):
        self.__dict__.update(entry)
        self.key = (self.model, self.batch, self.host_gib, self.store_mbps, self.policy, self.noise_percent)
        self.share = self.ideal_cycles / self.cycles if self.cycles else None  # of the ideal speed


class Figures:
    def __init__(self, data, wanted, jobs):
        self.data, self.wanted, self.jobs = data, wanted, jobs
        self.published = Published(data)
        command = [common.sluice_papers(), "figures", "--data", str(data)]
        command += [word for figure in wanted for word in ("--figure", str(figure))] if wanted != FIGURES else []
        command += ["--jobs", str(jobs)] if jobs else []
        run = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        if run.returncode:
            sys.exit(run.returncode)
        self.answer = json.loads(run.stdout)
        self.models = self.answer["models"]
        self.there = [model for model in self.models if model["there"]]
        self.cells = [Cell(entry) for entry in self.answer["cells"]]
        self.by_key = {cell.key: cell for cell in self.cells}
        self.titles = {model["name"]: model["title"] for model in self.models}

    def cell(self, model, batch, policy, host_gib=128, store_mbps=3200, noise=0):
        return self.by_key.get((model, batch, host_gib, store_mbps, policy, noise))

    def main(self, model, policy, noise=0):
        return self.cell(model["name"], model["batch"], policy, noise=noise)

    def value(self, figure, model, batch, policy, host_gib=128, store_mbps=3200):
        return self.published.cycles.get((figure, model, batch, host_gib, store_mbps, policy))

    def value_of(self, figure, cell):
        return self.value(figure, *[cell.key[i] for i in (0, 1, 4, 2, 3)])

    def json(self, bars):
        """What was simulated, each cell with its published values by figure (null: it fails there), and the bars."""
        for cell, entry in zip(self.cells, self.answer["cells"]):
            values = {figure: self.value_of(figure, cell) for figure in cell.figures if not cell.noise_percent}
            entry["published_cycles"] = {figure: None if math.isinf(value) else value
                                         for figure, value in values.items() if value is not None}
        missing = [model["name"] for model in self.models if not model["there"]]
        return {"missing_models": missing, "bars": [vars(bar) for bar in bars], **self.answer}

    def traces(self, arguments, wanted):
        """What `sluice ARGUMENTS TRACE --json` says of the traces of these models and batches that are there."""
        wanted = [(model, batch) for model, batch in wanted
                  if os.path.exists(self.data / "results" / model / f"cudnn{batch}.txt")]

        def ask(key):
            with tempfile.TemporaryDirectory() as folder:
                trace = os.path.join(folder, "trace")
                subprocess.run([common.sluice_papers(), "import", str(self.data), key[0], str(key[1]), "-o", trace],
                               check=True)
                out = subprocess.run([common.sluice(), *arguments, trace, "--json"], stdout=subprocess.PIPE, check=True)
            return json.loads(out.stdout)

        with concurrent.futures.ThreadPoolExecutor(self.jobs or os.cpu_count()) as crew:
            return dict(zip(wanted, crew.map(ask, wanted)))


class Page:
    """folder: where pictures are written to, None: there are none; link: the page's way there."""

    def __init__(self, figures, folder, link):
        self.figures, self.folder, self.link, self.lines = figures, folder, link, []
        self.vitality = {}
        if {2, 3, 4} & set(figures.wanted):
            answers = figures.traces(["trace", "vitality"], [(m["name"], m["batch"]) for m in figures.there])
            self.vitality = {name: answer for (name, _), answer in answers.items()}

    def put(self, *lines):
        self.lines += lines

    def section(self, title, *text):
        self.put("", "## " + title, "", *text)

    def picture(self, name, *chart, **options):
        self.put(*Chart(*chart, **options).embed(self.folder, self.link, name))

    # ---- figures 2 to 4: what the traces are like ----

    def figure2(self):
        self.section("Figure 2: how much of the memory a launch uses",
                     "Shares of the bytes of all tensors of an iteration. The paper shows a picture only.", "",
                     "| model | launches | all tensors | used: mean | median | most | alive: mean | most |",
                     "|---|---|---|---|---|---|---|---|")
        for model in self.figures.there:
            v = self.vitality[model["name"]]
            self.put("| %s-%d | %d | %s | %.2f %% | %.2f %% | %.2f %% | %.1f %% | %.1f %% |" % (
                model["title"], model["batch"], v["launches"], common.size_text(v["total_bytes"]),
                *(100 * v[f"{share}_share"] for share in ("active_mean", "active_median", "active_max", "alive_mean",
                                                          "alive_max"))))
        for model in self.figures.there:
            v = self.vitality[model["name"]]
            step = v["launches"] // POINTS_MAX + 1
            x = list(range(0, v["launches"], step))[:POINTS_MAX]
            # The most of each stretch: single launches must not be lost.
            lines = [Series(name, [100.0 * max(v[key][k:k + step]) / v["total_bytes"] for k in x])
                     for name, key in (("alive", "alive_bytes"), ("used by the launch", "active_bytes"))]
            self.picture(f"figure2-{model['name']}", "Figure 2: memory used over an iteration, %s-%d"
                         % (model["title"], model["batch"]), "launch", "% of all tensors", lines, x=x)

    def shares(self, first, names, shares, picture, title, x_title, y_title):
        """Distributions: a column for each model."""
        there = self.figures.there
        self.put("", "| %s |%s" % (first, "".join(" %s-%d |" % (m["title"], m["batch"]) for m in there)),
                 "|---|" + "---|" * len(there))
        for b, name in enumerate(names):
            self.put("| %s |%s" % (name, "".join(" %.2f %% |" % share[b] for share in shares)))
        if there:
            series = [Series(m["title"], share) for m, share in zip(there, shares)]
            self.picture(picture, title, x_title, y_title, series, groups=names)

    def figure3(self):
        self.section("Figure 3: how long tensors are idle", "Idle times by length, as shares of their number.")
        names = ["< 1 us"] + [">= %d %s" % (10 ** (b % 3), ("us", "ms", "s")[b // 3]) for b in range(9)]
        idles = [self.vitality[m["name"]]["idle_number_by_length"] for m in self.figures.there]
        self.shares("length", names, [[100.0 * n / (sum(of) or 1) for n in of] for of in idles], "figure3",
                    "Figure 3: lengths of idle times", "length", "% of idle times")

    def figure4(self):
        self.section("Figure 4: how large the tensors are that are idle",
                     "Idle times by the size of their tensor, as shares of their number. The second table has those of",
                     "at least 10 ms, in which a tensor can leave and come back.")
        names = ["<= " + common.size_text(4096 << 4 * b) for b in range(6)] + ["more"]
        for first, least, picture, title in (
                ("size", 0, "figure4", "Figure 4: sizes of idle tensors"),
                ("size, idle for 10 ms or more", 5, "figure4-long",
                 "Figure 4: sizes of tensors idle for 10 ms or more")):
            shares = []
            for model in self.figures.there:
                v = self.vitality[model["name"]]
                shares.append([100.0 * sum(sizes[least:]) / (sum(v["idle_number_by_length"]) or 1)
                               for sizes in v["idle_number_by_size_and_length"]])
            self.shares(first, names, shares, picture, title, "size", "% of all idle times")

    # ---- times ----

    def time_text(self, figure, *key, **place):
        """ "published / ours (difference)", in 10^9 cycles."""
        cell, published = self.figures.cell(*key, **place), self.figures.value(figure, *key, **place)
        text = "" if published is None else "fails / " if math.isinf(published) else "%.3f / " % (published / 1e9)
        if cell is None:
            return text + "-"
        if cell.failed is not None:
            return text + "fails"
        text += "%.3f" % (cell.cycles / 1e9)
        if published is not None and math.isfinite(published):
            text += " (%+.2f %%)" % (100 * (cell.cycles / published - 1))
        return text

    def figure11(self):
        self.section("Figure 11: the time of an iteration", "10^9 cycles, published / ours (difference).", "",
                     "| model |%s" % "".join(f" {TITLES[p]} |" for p in POLICIES), "|---" * 9 + "|")
        there, ours = {p: [] for p in POLICIES}, {p: [] for p in POLICIES}
        for model in self.figures.there:
            row = []
            for policy in POLICIES:
                key = (model["name"], model["batch"], policy)
                cell, published = self.figures.cell(*key), self.figures.value(11, *key)
                row.append(f" {self.time_text(11, *key)} |")
                ours[policy].append(cell.share if cell and cell.failed is None else None)
                there[policy].append(cell.ideal_cycles / published
                                     if cell and published is not None and math.isfinite(published) else None)
            self.put("| %s-%d |%s" % (model["title"], model["batch"], "".join(row)))
        if not self.figures.there:
            return
        self.put("", "Share of the ideal speed, published / ours:", "",
                 "| model |%s" % "".join(f" {TITLES[p]} |" for p in POLICIES[1:]), "|---" * 8 + "|")
        for i, model in enumerate(self.figures.there):
            self.put("| %s |%s" % (model["title"], "".join(
                ("" if there[p][i] is None else " %.4f /" % there[p][i]) +
                (" - |" if ours[p][i] is None else " %.4f |" % ours[p][i]) for p in POLICIES[1:])))
        self.picture("figure11", "Figure 11: speed against unlimited memory", "",
                     "share of the ideal speed",
                     [Series(TITLES[p], ours[p], there[p], POLICIES.index(p)) for p in POLICIES[1:]],
                     groups=[m["title"] for m in self.figures.there])

    # ---- figures 12 to 14: rows of model and policy ----

    def rows(self, number, table, columns, parts, parts_of, y_title, title, log_y=False):
        """parts_of(cell, published): texts of the columns with what is published or None, then the picture's parts:
        (ours, published) each."""
        self.put("| model | policy | %s |" % " | ".join(columns), "|---" * (2 + len(columns)) + "|")
        names, ours, there = [], [[] for _ in parts], [[] for _ in parts]
        for model in self.figures.there:
            for policy in SHOWN:
                cell = self.figures.main(model, policy)
                if not cell or cell.failed is not None:
                    continue
                texts, values = parts_of(cell, self.figures.published.rows[table].get(
                    (model["name"], model["batch"], policy)))
                self.put("| %s-%d | %s |%s" % (model["title"], model["batch"], TITLES[policy], "".join(texts)))
                names.append(f"{model['title']}\n{TITLES[policy]}")
                for p, (here, published) in enumerate(values):
                    ours[p].append(here)
                    there[p].append(published)
        if names:
            self.picture(f"figure{number}", title, "", y_title,
                         [Series(part, ours[p], there[p]) for p, part in enumerate(parts)], groups=names, log_y=log_y)

    @staticmethod
    def pairs(style, ours, published):
        """Texts "published / ours", and the pairs of them."""
        published = published or [None] * len(ours)
        texts = [(" " + style % there + " /" if there is not None else "") + " " + style % here + " |"
                 for here, there in zip(ours, published)]
        return texts, list(zip(ours, published))

    def figure12(self):
        self.section("Figure 12: what an iteration's time is spent on",
                     "Shares, published / ours. Overlap: computing while data move. The published parts of Base UVM do",
                     "not add up to its time.", "")

        def parts_of(cell, published):
            ours = [cell.stall, cell.overlap, cell.compute]
            return self.pairs("%.1f %%", [100 * part / sum(ours) for part in ours],
                              published and [100 * part / sum(published) for part in published])

        parts = ("stall", "overlap", "compute")
        self.rows(12, "breakdown", parts, parts, parts_of, "% of the time", "Figure 12: parts of an iteration")

    def figure13(self):
        self.section("Figure 13: how much slower single launches are",
                     "Launches above a slow-down, in percent, and quantiles of the slow-down; published / ours.", "")
        parts = ("median", "90 %", "95 %", "99 %", "most")

        def parts_of(cell, published):
            above, _ = self.pairs("%.2f", cell.above_percent[1:], published and published[2:5])
            texts, values = self.pairs("%.3g", cell.quantiles, published and published[5:])
            return above + texts, values

        self.rows(13, "slowdown", ("> 1.01", "> 1.1", "> 2", *parts), parts, parts_of, "times the ideal time",
                  "Figure 13: slow-down of launches", log_y=True)

    def figure14(self):
        self.section("Figure 14: what moves in an iteration", "GiB, published / ours.", "")
        parts = ("store to device", "device to store", "host to device", "device to host")

        def parts_of(cell, published):
            return self.pairs("%.2f", [pages * 4096 / (1 << 30) for pages in cell.pages],
                              published and [pages * 4096 / (1 << 30) for pages in published])

        self.rows(14, "traffic", parts, parts, parts_of, "GiB", "Figure 14: bytes moved")

    # ---- figures 15 to 19: over one quantity ----

    def sweep(self, figure, model, title, first, policies, points, x_title=None):
        """points: (x, batch, place). A row for each, a column for each policy; with x_title also a picture of what
        the paper plots: samples a second, or the share of the ideal speed."""
        name = model["name"]
        self.put("", f"**{title}**", "", "| %s |%s" % (first, "".join(f" {TITLES[p]} |" for p in policies)),
                 "|---|" + "---|" * len(policies))
        for x, batch, place in points:
            self.put("| %g |%s" % (x, "".join(f" {self.time_text(figure, name, batch, p, **place)} |"
                                              for p in policies)))
        if not x_title:
            return

        def speed(batch, cycles, ideal):
            if cycles is None or not math.isfinite(cycles) or cycles <= 0:
                return None
            return batch * CLOCK_HZ / cycles if figure == 15 else ideal / cycles

        series = []
        for policy in policies:
            ours, there = [], []
            for _, batch, place in points:
                cell = self.figures.cell(name, batch, policy, **place)
                value = self.figures.value(figure, name, batch, policy, **place)
                ours.append(speed(batch, cell.cycles, cell.ideal_cycles) if cell and cell.failed is None else None)
                there.append(speed(batch, value, cell.ideal_cycles) if cell else None)
            series.append(Series(TITLES[policy], ours, there, POLICIES.index(policy)))
        self.picture(f"figure{figure}-{name}", f"Figure {figure}: {model['title']}", x_title,
                     "samples a second" if figure == 15 else "share of the ideal speed", series,
                     x=[x for x, _, _ in points])

    def figure15(self):
        self.section("Figure 15: over the batch size", "10^9 cycles, published / ours (difference).")
        for model in self.figures.there:
            self.sweep(15, model, model["title"], "batch", SWEEP, [(batch, batch, {}) for batch in model["batches"]],
                       "batch; dashed: published")

    def figure16(self):
        self.section("Figure 16: over host memory",
                     "10^9 cycles by GiB of host memory, published / ours (difference).")
        for model in self.figures.there:
            name, series = model["name"], []
            for batch in model["host_batches"]:
                self.sweep(16, model, f"{model['title']}-{batch}", "host GiB", ("ideal", "g10", "sluice"),
                           [(host, batch, {"host_gib": host}) for host in model["hosts"]])
                cells = [self.figures.cell(name, batch, "g10", host_gib=host) for host in model["hosts"]]
                there = [self.figures.value_of(16, c) if c and c.failed is None else None for c in cells]
                series.append(Series(f"batch {batch}",
                                     [c.cycles / CLOCK_HZ if c and c.failed is None else None for c in cells],
                                     [v / CLOCK_HZ if v is not None and math.isfinite(v) else None for v in there]))
            self.picture(f"figure16-{name}", f"Figure 16: G10 over host memory, {model['title']}",
                         "host memory, GiB; dashed: published", "seconds an iteration", series, x=model["hosts"])

    def figure17(self):
        self.section("Figure 17: over host memory, against the others",
                     "10^9 cycles, published / ours (difference). FlashNeuron does not use host memory.")
        for model in self.figures.there:
            batch = model["host_batch"]
            if batch:
                self.sweep(17, model, f"{model['title']}-{batch}", "host GiB",
                           ("flashneuron", "deepum", "g10", "sluice"),
                           [(host, batch, {"host_gib": host}) for host in model["hosts"]],
                           "host memory, GiB; dashed: published")

    def figure18(self):
        self.section("Figure 18: over the bandwidth of the store",
                     "10^9 cycles by 10^9 bytes a second, published / ours (difference). The link has 32 GB/s.")
        for model in self.figures.there:
            batch = model["store_batch"]
            self.sweep(18, model, f"{model['title']}-{batch}", "store GB/s", SWEEP,
                       [(mbps / 1000, batch, {"store_mbps": mbps}) for mbps in STORES],
                       "store, GB/s; dashed: published")

    def figure19(self):
        noises = range(0, 30, 5)
        self.section("Figure 19: kernel times that are off",
                     "Ideal time over G10's when each kernel's time is off by up to the share, planned without;",
                     "published / ours. Behind it our own planner.", "",
                     "| model | planner | 0 % | 5 % | 10 % | 15 % | 20 % | 25 % |", "|---" * 8 + "|")
        series = []
        for model in self.figures.there:
            for policy in ("g10", "sluice"):
                cells = [self.figures.main(model, policy, noise) for noise in noises]
                ours = [cell.share if cell and cell.failed is None else None for cell in cells]
                there = [self.figures.published.noise.get((model["name"], model["batch"], noise))
                         if policy == "g10" else None for noise in noises]
                self.put("| %s-%d | %s |%s" % (model["title"], model["batch"], TITLES[policy], "".join(
                    ("" if t is None else " %.4f /" % t) + (" - |" if o is None else " %.4f |" % o)
                    for o, t in zip(ours, there))))
                if policy == "g10":
                    series.append(Series(model["title"], ours, there))
        if series:
            self.picture("figure19", "Figure 19: G10 with kernel times off", "% off; dashed: published",
                         "share of the ideal speed", series, x=list(noises))

    def text(self, bars):
        self.put("# The figures of the paper G10", "",
                 "Made by `papers/figures.py --update` from the published kernel times. Unless said otherwise the",
                 "machine is one simulated GPU of 40 GiB with 128 GiB of host memory and a drive of 3.2 GB/s. The",
                 "rules are those of the published program: `as_published` in [simulator](design/simulator.md) and",
                 "[published planner](design/published-planner.md). Published values are those of the artifact's",
                 "example results. *Sluice* is our own planner, executed by the same rules.")
        missing = [model["title"] for model in self.figures.models if not model["there"]]
        if missing:
            self.put("", "No kernel times here, left out: " + ", ".join(missing) + ".")
        if self.figures.cells:
            self.section("How near", "| what | bar | cells | exempt | verdict | |", "|---|---|---|---|---|---|")
            for bar in bars:
                verdict = "not judged" if not bar.judged else "pass" if bar.passed else "**FAIL**"
                self.put(f"| {bar.what} | {bar.bar} | {bar.n} | {bar.n_exempt} | {verdict} | {bar.note} |")
        for figure in self.figures.wanted:
            getattr(self, f"figure{figure}")()
        return "\n".join(self.lines) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description="Make the figures of the paper G10 beside the published values, and "
                                     "judge how near they are. Without --out and --update: to standard output.")
    where = parser.add_mutually_exclusive_group()
    parser.add_argument("--check", action="store_true", help="fail when a bar is not met")
    parser.add_argument("--data", type=pathlib.Path, default=common.ROOT / "tests/data/g10", metavar="DIR",
                        help="traces and published values (default: tests/data/g10)")
    parser.add_argument("--figure", type=int, action="append", choices=FIGURES, metavar="N",
                        help="only this figure (repeatable)")
    parser.add_argument("--jobs", type=int, choices=range(1, 65), metavar="N", help="threads")
    parser.add_argument("--json", action="store_true", help="print bars and cells as JSON")
    where.add_argument("--out", type=pathlib.Path, metavar="DIR", help="write figures.md and the pictures there")
    where.add_argument("--update", action="store_true", help="write docs/figures.md and docs/figures")
    given = parser.parse_args()
    if given.update and given.figure:
        parser.error("--update writes all figures: leave --figure out")
    return given


def main():
    given = arguments()
    wanted = tuple(sorted(set(given.figure))) if given.figure else FIGURES
    figures = Figures(given.data, wanted, given.jobs)
    bars = figures_bars.judge(figures)
    docs = common.ROOT / "docs"
    if given.update or given.out:
        page, folder, link = (docs, docs / "figures", "figures") if given.update else (given.out, given.out, "")
        folder.mkdir(parents=True, exist_ok=True)
        (page / "figures.md").write_text(Page(figures, folder, link).text(bars))
    elif not given.json:
        sys.stdout.write(Page(figures, None, "").text(bars))
    if given.json:
        print(json.dumps(figures.json(bars), indent=1))
    missed = [bar for bar in bars if bar.judged and not bar.passed]
    for bar in missed:
        print(f"not met: {bar.what}: {bar.bar}: {bar.note}", file=sys.stderr)
    print(f"{len(missed)} bars not met", file=sys.stderr)
    return 1 if missed and given.check else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The evaluations of the papers DRAGON, UVM Discard and DRAGON-DIRECT: docs/suite.md and its pictures.

`sluice-papers suite` runs the rows and keeps them as JSON, a file for each device; this program has it run, puts
the published values beside the rows, judges the claims (suite_bars.py), and writes the page: tables, pictures, every
row with its bytes by cause. Everything comes from the rows: the same rows give the same page."""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

import common
import suite_bars
from chart import Chart, Series
from suite_bars import MIB, OVERS, RATIOS, RESERVES, TABLES, TITLES, ratio

FORMAT = "sluice suite rows, format 1"
COLUMNS = 100  # of the text of the page
WORKLOADS = ("vectorAdd", "hotspot", "pathfinder", "srad_v2", "fir", "train", "backprop", "binomialOptions",
             "BlackScholes", "lavaMD", "radixSort", "hashJoin", "minibatch", "network")
# Figure 3's applications, in the paper's order, and what its text or its picture says of them.
DRAGON = {"vectorAdd": "", "BlackScholes": "", "binomialOptions": "", "hotspot": "", "lavaMD": "",
          "pathfinder": "2.3 x, 56.3 % saved, its best case", "backprop": "slower than the line out of core",
          "srad_v2": "slower than the line out of core"}
# Causes that rows tell, by direction: counters, and their words here.
CAUSES = (
    ("to the device", {"h2d_launch": "launch", "h2d_fault": "fault", "h2d_prefetch": "prefetch",
                       "h2d_cpu": "host code"}),
    ("from the device", {"d2h_evict": "evict", "d2h_request": "request", "d2h_sync": "sync"}),
    ("not moved", {"clean_drop": "clean", "discard_saved": "dead", "zero_fill": "zeros"}),
    ("read from files", {"store_read_demand": "demand", "store_read_ahead": "ahead",
                         "store_read_prefetch": "prefetch"}),
    ("written to files", {"store_write_back": "back", "store_write_sync": "sync", "store_write_spill": "spill"}),
)


def causes_text(row, direction):
    """ "launch 12.0, fault 3.5" in MiB; "-": nothing."""
    words = CAUSES[direction][1]
    text = ", ".join("%s %.1f" % (words[name], row.after[name] / MIB) for name in words if row.after.get(name))
    if text:
        return text
    # The page cache moves by itself: the system's count, by no cause. The rest is copied without a space.
    word, size = (("by hand", row.h2d_bytes), ("by hand", row.d2h_bytes), ("", 0),
                  ("the system", row.read_bytes if row.variant == "mmap" else 0),
                  ("the system", row.write_bytes if row.variant == "mmap" else 0))[direction]
    return "%s %.1f" % (word, size / MIB) if size else "-"


class Page:
    """folder: where pictures are written to, None: there are none; link: the page's way there."""

    def __init__(self, devices, folder, link):
        self.devices, self.folder, self.link, self.lines = devices, folder, link, []

    def put(self, *lines):
        self.lines += lines

    def paragraph(self, text):
        self.put(*textwrap.wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False))

    def picture(self, rows, name, *chart, **options):
        """Named by the device, with the machine and the day below the title."""
        machine, day = rows.machine.split(", ")[0], re.search(r"\d{4}-\d\d-\d\d", rows.machine)
        note = machine + (f", {day[0]}" if day else "")
        self.put(*Chart(*chart, note=note, **options).embed(self.folder, self.link, name))

    def bars(self, rows):
        self.put("", f"## How near, on {rows.title}", "")
        self.paragraph(rows.machine)
        self.put("", "| what | bar | rows | verdict | |",
                 "|---|---|---|---|---|")
        for bar in suite_bars.judge(rows):
            verdict = "not judged" if not bar.n else "reported" if bar.reported else "pass" if bar.passed else "not met"
            self.put(f"| {bar.what} | {bar.bar} | {bar.n} | {verdict} | {bar.note if bar.n else 'nothing to compare'} |")

    # ---- DRAGON ----

    def fits(self, rows):
        if not rows.of("fits"):
            return
        self.put("", f"## Sizes within the device, without a disk, on {rows.title}", "",
                 ("Data in host memory at first, results on the device at the end." if rows.cuda else
                  "Files in memory: what a space costs where nothing has to be paged.") +
                 " The shortest of the repetitions.", "",
                 "| application | footprint | launch intents, s | explicit copies, s | difference |",
                 "|---|---|---|---|---|")
        for row, copies in suite_bars.beside_copies(rows):
            self.put("| %s | %s | %.4f | %.4f | %+.1f %% |" % (
                row.workload, row.point, row.beside_s, copies.beside_s, 100 * (ratio(row.beside_s, copies.beside_s) - 1)))

    @staticmethod
    def figure3_s(rows, workload, variant, point):
        """Seconds of a variant, and whether they are a line's; 0: there are none."""
        if variant == rows.base:
            return rows.copies_s(workload, point)
        row = rows.done("fig3", workload, variant, point)
        return (row.total_s if row else 0), False

    def figure3(self, rows):
        if not rows.of("fig3"):
            return
        self.put("", f"## DRAGON, figure 3, on {rows.title}", "")
        self.paragraph("Data from 1/3 to 64/3 of the device's memory, host memory 16/3 of it. Seconds run "
                       "from mapping or reading the files to results on the medium. Bytes (MiB) are those "
                       "of launch intents. *: a line through the measured times, because host memory does "
                       "not hold the files. A program that reads, then copies, knows what each launch "
                       "uses. The paper's relies on faults.")
        self.put("")
        if rows.cuda:
            self.paragraph("Times are of a process that has its context and kernels. \"read(2), then copy\" "
                           "is the paper's kind of baseline, and launch intents are compared with it. It "
                           "reads whole files through the page cache, which is empty, to memory that is "
                           "not pinned. Data that exceed the device budget go through it piece by piece. "
                           "The other variants read past the page cache, to pinned memory. \"read, then "
                           "copy\" has the whole card, whatever the budget. Without overlap nothing can be "
                           "faster. Nothing that reads the same bytes once can be faster than the disk.")
        else:
            self.paragraph("Kernels of the software device reach host memory without a link between. Only "
                           "a GPU has mapped host memory; `mmap` stands for it. There binomialOptions "
                           "walks trees of 8 steps, and lavaMD has one partner a box. With the published "
                           "numbers only kernels would show. A launch of pathfinder goes down 16 rows, "
                           "because one row is a few KiB.")
        self.put("")
        self.figure3_summary(rows)
        for workload in WORKLOADS:
            if rows.of("fig3", workload):
                self.figure3_application(rows, workload)

    def figure3_summary(self, rows):
        """One line for each application: what the paper's text gives for all of them."""
        self.put("| application | launch intents: best | time saved, mean | faults: best | time saved, mean | paper |",
                 "|---|---|---|---|---|---|")
        for workload, paper in DRAGON.items():
            if not rows.of("fig3", workload):
                continue
            text = f"| {workload} |"
            for variant in ("sluice", "dragon"):
                pairs = [(self.figure3_s(rows, workload, variant, point)[0], rows.copies_s(workload, point)[0])
                         for point in RATIOS]
                pairs = [(ours, base) for ours, base in pairs if ours > 0 and base > 0]
                text += " %.2f x | %.1f %% |" % (
                    max(base / ours for ours, base in pairs),
                    sum(100 * (1 - ours / base) for ours, base in pairs) / len(pairs)) if pairs else " - | - |"
            self.put(f"{text} {paper or 'picture only'} |")
        self.put("", "Over all its applications the paper has 31.7 % less time on average.")

    def figure3_application(self, rows, workload):
        variants = (("sluice", "cached", "copies", "streaming", "mapped") if rows.cuda else
                    ("sluice", "dragon", "uvm", "copies", "mmap"))
        self.put("", f"### {workload}", "",
                 "| footprint | regime |%s launch intents over read-then-copy | to the device | from | read | written |"
                 % "".join(f" {TITLES[variant]}, s |" for variant in variants), "|---" * 12 + "|")
        for point, size in RATIOS.items():
            regime = "in the device" if size < 1 else "in host memory" if size < 6 else "out of core"
            text = f"| {point} | {regime} |"
            for variant in variants:
                seconds, line = self.figure3_s(rows, workload, variant, point)
                text += " %.3f%s |" % (seconds, " *" if line else "") if seconds > 0 else " - |"
            row, (base, _) = rows.done("fig3", workload, "sluice", point), rows.copies_s(workload, point)
            if not row:
                self.put(text + " - | - | - | - | - |")
                continue
            text += (" %.2f x, saves %.1f %% |" % (ratio(base, row.total_s), 100 * (1 - row.total_s / base))
                     if base > 0 else " - |")
            self.put(text + "".join(" %.1f |" % (size / MIB) for size in (row.h2d_bytes, row.d2h_bytes, row.read_bytes,
                                                                          row.write_bytes)))
        series = []
        for variant in variants:
            pairs = [(self.figure3_s(rows, workload, variant, point)[0], rows.copies_s(workload, point)[0])
                     for point in RATIOS]
            series.append(Series(TITLES[variant], [ours / base if ours > 0 and base > 0 else None
                                                   for ours, base in pairs]))
        self.picture(rows, f"fig3-{rows.name}-{workload}", f"DRAGON, figure 3: {workload} on {rows.title}",
                     "footprint over device memory", "time, read-then-copy = 1", series, groups=list(RATIOS))

    def figure5(self, rows):
        if not rows.of("fig5"):
            return
        self.put("", f"## DRAGON, figure 5: read-ahead off and on, on {rows.title}", "",
                 "The paper's text says \"significant\". A launch's own data are read ahead of it either way.", "",
                 "| application | footprint | | off, s | on, s | off over on | MiB in, off and on | MiB read, off and on |",
                 "|---|---|---|---|---|---|---|---|")
        for on, off in suite_bars.ahead_pairs(rows):
            self.put("| %s | %s | %s | %.3f | %.3f | %.2f x | %.1f, %.1f | %.1f, %.1f |" % (
                on.workload, on.point, TITLES[on.variant], off.total_s, on.total_s, ratio(off.total_s, on.total_s),
                off.h2d_bytes / MIB, on.h2d_bytes / MIB, off.read_bytes / MIB, on.read_bytes / MIB))

    def figure6(self, rows):
        for workload in WORKLOADS:
            if rows.of("fig6", workload):
                self.figure6_application(rows, workload)

    def figure6_application(self, rows, workload):
        self.put("", f"## DRAGON, figure 6: host memory kept from volatile data, {workload} on {rows.title}", "")
        self.paragraph("Data of 16/3 of the device, host memory of 16/3, of which volatile data leave the reserve free. "
                       "The paper's text: up to 43.5 % more time without a host tier. Bytes in MiB.")
        self.put("",
                 "| application | variant | reserve of the host budget | s | spilled | read | written |",
                 "|---|---|---|---|---|---|---|")
        series = []
        for variant in ("sluice", "dragon"):
            found = [rows.done("fig6", workload, variant, reserve) for reserve in RESERVES]
            for row in found:
                if row:
                    self.put("| %s | %s | %s | %.3f | %.1f | %.1f | %.1f |" % (
                        workload, TITLES[variant], row.point, row.total_s, row.spilled / MIB, row.read_bytes / MIB,
                        row.write_bytes / MIB))
            if any(found):
                series.append(Series(TITLES[variant], [row.total_s if row else None for row in found],
                                     colour=3 if variant == "sluice" else 1))
        if series:
            self.picture(rows, f"fig6-{rows.name}-{workload}", f"DRAGON, figure 6: {workload} on {rows.title}",
                         "% of the host budget kept from volatile data", "seconds", series, x=[0, 25, 50, 75, 100])
            self.put("")

    # ---- UVM Discard ----

    def table(self, rows, table):
        """Runtimes relative to no discard and bytes of both ways. Bytes are at the paper's size: ours times the published
        bytes of one reading of the inputs over ours. The rows with launch intents have no counterpart in the paper:
        they show what is left for discard to save when the pager knows what was written."""
        variants = ("none", "eager", "lazy", "intents", "intents-lazy")
        cells = {variant: [rows.done("tables", table.rows, variant, over) for over in OVERS] for variant in variants}
        found = next((row for row in cells["none"] if row), None)
        if not found:
            return

        def gigabytes(row):
            if not table.bytes_number or not row.input_bytes:
                return row.traffic / 1e9
            return row.traffic * table.gb[0][0] / row.input_bytes

        numbers = f", tables {table.time_number} and {table.bytes_number}" if table.bytes_number else ""
        text = (f"Footprint {common.size_text(found.footprint_bytes)}, chunks of {common.size_text(found.chunk)}, "
                "room in host memory for everything")
        if rows.cuda:
            text += ", data there at first."
        elif found.link_bytes_per_s:
            text += f", files in memory, a modelled link of {common.size_text(found.link_bytes_per_s)}/s each way."
        else:
            text += ", files in memory, no link modelled: times are those of moving pages within this machine's memory."
        self.put("", f"## UVM Discard{numbers}: {table.title} on {rows.title}", "")
        self.paragraph(text)
        heads = (("runtime, published (PCIe 3/4): ours" if table.time_number else "runtime"),
                 ("GB at the paper's size, published: ours" if table.bytes_number else "GB"))
        for what, head in enumerate(heads):
            self.put("", "| %s |%s" % (head, "".join(f" {over} |" for over in OVERS)), "|---" * 5 + "|")
            for v, variant in enumerate(variants):
                text = f"| {TITLES[variant]} |"
                for over, (row, none) in enumerate(zip(cells[variant], cells["none"])):
                    if v < 3 and table.time_number:
                        text += " %.2f:" % table.gb[v][over] if what else f" {table.time[v][over]}:"
                    if what:
                        text += " **%.2f** |" % gigabytes(row) if row else " - |"
                    elif row and none and none.table_s > 0:
                        text += " **%.2f** (%.3f s) |" % (row.table_s / none.table_s, row.table_s)
                    else:
                        text += " - |"
                self.put(text)
        self.picture(rows, f"discard-{rows.name}-{table.rows}", f"UVM Discard: bytes of {table.title} on {rows.title}",
                     "footprint over device memory", "GB at the paper's size" if table.bytes_number else "GB",
                     [Series(TITLES[variant], [gigabytes(row) if row else None for row in cells[variant]],
                             list(table.gb[v]) if v < 3 and table.gb else None) for v, variant in enumerate(variants)],
                     groups=list(OVERS))

    # ---- DRAGON-DIRECT ----

    def batches(self, rows):
        """The paper has no measurements; what is demanded is that the next batch is there."""
        found = [row for row in rows.of("batches") if row.done]
        if not found:
            return
        self.put("", f"## Mini-batches on {rows.title}", "",
                 f"{common.size_text(found[0].footprint_bytes)} of samples, drawn at random; device and host budget "
                 f"{common.size_text(found[0].device_budget)} each. The next two batches are",
                 f"fetched while one trains, {found[0].steps} steps, and training takes longer than reading. Bytes in "
                 "MiB.", "",
                 "| | s | batches there when needed | to the device | read from the file |", "|---|---|---|---|---|")
        for row in found:
            there = "-" if row.variant == "hand" else "%d of %d, %.1f %%" % (
                row.batches_resident, row.batches, 100.0 * row.batches_resident / row.batches if row.batches else 0)
            self.put("| %s | %.3f | %s | %.1f | %.1f |" % (TITLES[row.variant], row.table_s, there, row.h2d_bytes / MIB,
                                                         row.read_bytes / MIB))

    def every(self, rows):
        self.put("", f"## Every row on {rows.title}", "")
        self.paragraph("Sizes: footprint, device budget, host budget. Seconds: from mapping (or reading) the files to "
                       "results on the medium / kernels and moves alone. Bytes by cause in MiB, %s."
                       % ("of the pass that begins with all data in host memory" if rows.cuda else "to the end"))
        self.put("",
                 "| part | workload | point | variant | sizes | s |%s result |"
                 % "".join(f" {title} |" for title, _ in CAUSES), "|---" * 12 + "|")
        for row in rows.all:
            text = "| %s | %s | %s | %s | %s, %s, %s | " % (
                row.part, row.workload, row.point, row.variant,
                *(common.size_text(size) for size in (row.footprint_bytes, row.device_budget, row.host_budget)))
            if not row.done:
                self.put(f"{text}{row.status} | | | | | | {getattr(row, 'error', '')} |")
                continue
            verdict = {True: "equal", False: "WRONG", None: "not compared"}[getattr(row, "verified", None)]
            self.put("%s%.3f / %.3f | %s | %s |" % (text, row.total_s, row.run_s, " | ".join(
                causes_text(row, direction) for direction in range(len(CAUSES))), verdict))

    def text(self):
        self.put("# The evaluations of DRAGON, UVM Discard and DRAGON-DIRECT", "")
        self.paragraph("Made by `papers/suite.py --update`. Every row is a process of its own over real "
                       "files. All variants have the same inputs, tiles, kernels and memory limit. Pages "
                       "of inputs are dropped from the page cache before. Results are compared with a "
                       "reference that shares nothing with the pager. Published values stand beside ours. "
                       "Their machines had a P100 of 12 GiB (DRAGON) and a 3080 Ti of 11.77 GB (UVM "
                       "Discard). See [papers](../papers/README.md).")
        for rows in self.devices:
            self.bars(rows)
        for rows in self.devices:
            self.fits(rows)
            self.figure3(rows)
            self.figure5(rows)
            self.figure6(rows)
            for table in TABLES:
                self.table(rows, table)
            self.batches(rows)
        for rows in self.devices:
            self.every(rows)
        return "\n".join(self.lines) + "\n"


def rows_read(folder):
    """The rows of each device that the folder has, as Rows; and as they were read."""
    devices, entries = [], []
    for cuda, name in enumerate(("soft", "cuda")):
        path = folder / f"rows-{name}.json"
        if not path.exists():
            continue
        try:
            answer = json.loads(path.read_text())
        except ValueError as error:
            sys.exit(f"{path}: {error}")
        if answer.get("format") != FORMAT:
            sys.exit(f"{path}: not a file of rows")
        entries += answer["rows"]
        if answer["rows"]:
            devices.append(suite_bars.Rows(bool(cuda), answer["machine"], answer["rows"]))
    return devices, entries


def arguments():
    parser = argparse.ArgumentParser(add_help=False)
    for flag in ("check", "help", "json", "list", "report", "resume", "update"):
        parser.add_argument(f"--{flag}", *(["-h"] if flag == "help" else []), action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    given, rest = parser.parse_known_args()
    if given.update and given.out:
        parser.error("--out and --update exclude each other")
    if (given.report or given.resume) and not given.update and not given.out:
        parser.error("--report and --resume need rows: --out or --update")
    if given.report and given.resume:
        parser.error("--report and --resume exclude each other")
    return given, rest


HELP = """
Of papers/suite.py, which writes the page:
      --check          fail when a bar is not met
      --json           print rows and bars as one JSON object
      --report         run nothing: write from the rows that DIR has
      --update         the same as --out, to docs/suite.md and docs/suite"""


def rows_run(given, rest, folder):
    """Have the rows run. The exit code; does not return where there is no page to write."""
    extra = [f"--{flag}" for flag in ("help", "list", "resume") if getattr(given, flag)]
    run = subprocess.run([common.sluice_papers(), "suite", *rest, *extra, "--out", str(folder)], check=False)
    if given.help:
        print(HELP)
    if run.returncode < 0 or run.returncode == 2 or given.list or given.help:
        sys.exit(run.returncode if run.returncode >= 0 else 128 - run.returncode)
    if run.returncode and not any(folder.glob("rows-*.json")):
        sys.exit(run.returncode)
    return run.returncode


def main():
    given, rest = arguments()
    docs = common.ROOT / "docs"
    with tempfile.TemporaryDirectory() as scratch:
        folder = docs / "suite" if given.update else given.out or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        code = 0 if given.report else rows_run(given, rest, folder)
        devices, entries = rows_read(folder)
        if not devices:
            sys.exit(f"{folder}: no rows there")
        if given.update:
            (docs / "suite.md").write_text(Page(devices, folder, "suite").text())
        elif given.out:
            (folder / "suite.md").write_text(Page(devices, folder, "").text())
        elif not given.json:
            sys.stdout.write(Page(devices, None, "").text())
    cuda = "cuda" in rest[1:] and rest[rest.index("cuda") - 1] == "--device" or "--device=cuda" in rest
    rows = next((rows for rows in devices if rows.cuda == cuda), None)
    bars = suite_bars.judge(rows) if rows else []
    if given.json:
        print(json.dumps({"machine": rows.machine if rows else "", "bars": [vars(bar) for bar in bars],
                          "rows": entries}, indent=2, ensure_ascii=False))
    unmet = [bar for bar in bars if bar.unmet]
    for bar in unmet:
        print(f"not met: {bar.what}: {bar.bar}: {bar.note}", file=sys.stderr)
    print(f"{len(unmet)} bars not met", file=sys.stderr)
    return 1 if code or (unmet and given.check) else 0


if __name__ == "__main__":
    sys.exit(main())

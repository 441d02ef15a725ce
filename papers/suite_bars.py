# SPDX-License-Identifier: Apache-2.0
"""What the claims of the papers DRAGON, UVM Discard and DRAGON-DIRECT ask of this system, judged over the rows of one
device. Bytes that follow from sizes and policy are compared with what they must be, times with what is demanded
of them. A bar without rows is not judged. One that only reports a number says so."""

import math

MIB = 1 << 20
RATIOS = {"1/3": 1 / 3.0, "2/3": 2 / 3.0, "4/3": 4 / 3.0, "8/3": 8 / 3.0, "16/3": 16 / 3.0, "32/3": 32 / 3.0,
          "64/3": 64 / 3.0}
RESERVES = ("0", "1/4", "1/2", "3/4", "1")  # of the host budget
OVERS = ("<100 %", "200 %", "300 %", "400 %")
TITLES = {"sluice": "launch intents", "sluice-no-ahead": "launch intents, no read-ahead",
          "dragon": "faults, policy dragon", "dragon-no-ahead": "faults, policy dragon, no read-ahead",
          "uvm": "faults, policy uvm", "copies": "read, then copy", "cached": "read(2), then copy",
          "streaming": "pieces by hand", "mapped": "host memory over the link", "mmap": "mmap",
          "none": "policy uvm", "eager": "policy uvm, eager discard", "lazy": "policy uvm, lazy discard",
          "intents": "launch intents", "intents-lazy": "launch intents, lazy discard",
          "index": "prefetch by index", "launch": "launch intents alone", "hand": "buffers by hand"}
# Figure 5: read-ahead on and off.
AHEAD = {"dragon": "dragon-no-ahead", "sluice": "sluice-no-ahead"}


class Table:
    """A table of UVM Discard: rows called so; GB of both ways and times (PCIe 3 / PCIe 4, none is 1) without discard,
    with eager and with lazy discard, by OVERS; determined: the bytes follow from sizes and policy. The paper's
    machine: a GPU of 11.77 GB."""

    def __init__(self, rows, title, time_number=0, bytes_number=0, gb=None, time=None, determined=False):
        self.rows, self.title, self.time_number, self.bytes_number = rows, title, time_number, bytes_number
        self.gb, self.time, self.determined = gb, time, determined


ONES = ("1",) * 4
TABLES = (
    Table("fir", "FIR", 3, 4,
          ((5.66, 11.44, 13.38, 14.34), (5.66, 5.88, 7.81, 8.78), (5.66, 5.88, 7.81, 8.78)),
          (ONES, ("1/1.01", "0.51/0.52", "0.62/0.65", "0.71/0.71"), ("1/1.00", "0.52/0.52", "0.62/0.66", "0.72/0.71")),
          True),
    Table("radixSort", "Radix-sort", 5, 6,
          ((5.00, 300.80, 345.40, 356.85), (5.00, 244.93, 315.50, 339.76), (5.00, 244.92, 315.52, 339.76)),
          (ONES, ("1.21/1.28", "0.87/0.83", "0.95/0.93", "0.97/0.97"),
           ("1.00/1.02", "0.87/0.83", "0.95/0.92", "0.97/0.99"))),
    Table("hashJoin", "Hash-join", 7, 8,
          ((2.98, 34.62, 36.42, 58.23), (2.98, 4.89, 16.19, 46.61), (2.98, 4.89, 16.19, 46.44)),
          (ONES, ("1.05/1.09", "0.24/0.31", "0.51/0.54", "0.86/0.89"),
           ("1.02/1.04", "0.24/0.31", "0.51/0.54", "0.86/0.88"))),
    Table("network-vgg16", "Training of VGG-16"),
    Table("network-darknet19", "Training of Darknet-19"),
    Table("network-resnet53", "Training of ResNet-53"),
    Table("network-rnn", "Training of an RNN"),
    Table("train", "Training, small"),
)


class Row:
    """One measured configuration, as `sluice-papers suite` wrote it."""

    def __init__(self, entry):
        self.__dict__.update(entry)
        self.cuda = self.device == "cuda"
        self.done = self.status == "done"
        self.traffic = self.h2d_bytes + self.d2h_bytes
        self.spilled = self.after.get("store_write_spill", 0)
        # What the tables of runtimes compare, and the shortest repetition: rows written before that was kept
        # have the median alone.
        self.table_s = self.measured_s if self.cuda else self.run_s
        self.least_s = (self.least_measured_s if self.cuda else self.least_run_s) or self.table_s
        # Beside explicit copies: of a GPU with all data in host memory at first.
        self.beside_s = self.least_measured_s if self.cuda else self.least_total_s


class Rows:
    """The rows of one device, in the order in which they were planned."""

    def __init__(self, cuda, machine, entries):
        self.cuda, self.machine = cuda, machine
        self.all = [Row(entry) for entry in entries]
        self.by_key = {}
        for row in self.all:
            self.by_key.setdefault((row.part, row.workload, row.variant, row.point), row)
        self.title = "a GPU" if cuda else "the software device"
        self.name = "cuda" if cuda else "soft"
        # Reads everything, copies and writes as the paper's baseline does: by read(2), within the budgets.
        self.base = "cached" if cuda else "copies"

    def done(self, *key):
        row = self.by_key.get(key)
        return row if row and row.done else None

    def of(self, part, workload=None):
        return [row for row in self.all if row.part == part and workload in (None, row.workload)]

    def copies_s(self, workload, point):
        """Seconds that reading everything, copying and writing takes at a point of figure 3: as measured, or where host
        memory does not hold the files, by a line through those measured, as the paper does; and whether it is a
        line. 0: unknown."""
        row = self.done("fig3", workload, self.base, point)
        if row:
            return row.total_s, False
        n = x = y = xx = xy = 0.0
        for name, size in RATIOS.items():
            row = self.done("fig3", workload, self.base, name)
            if not row or size < 1:
                continue  # in the device all is copied once: another line
            n, x, y = n + 1, x + row.at, y + row.total_s
            xx, xy = xx + row.at * row.at, xy + row.at * row.total_s
        if n < 2:
            return 0, False
        slope = (n * xy - x * y) / (n * xx - x * x)
        return y / n + slope * (RATIOS[point] - x / n), True


class Bar:
    def __init__(self, what, bar, n=0):
        self.what, self.bar, self.note, self.n, self.passed, self.reported = what, bar, "", n, True, False

    @property
    def unmet(self):
        return self.n and not self.reported and not self.passed


def ratio(a, b):
    """a / b as the machine has it: rows that were not timed have 0 seconds."""
    if b:
        return a / b
    return math.inf if a > 0 else math.nan


def percent_less(ours, theirs):
    return 100 * (1 - ours / theirs) if theirs > 0 else 0


def every_row(rows):
    bar = Bar("every row", "none fails, results equal the reference", len(rows.all))
    count = {status: sum(row.status == status for row in rows.all) for status in ("done", "refused", "failed")}
    verified = sum(row.done and getattr(row, "verified", False) for row in rows.all)
    bar.passed = not count["failed"]
    bar.note = "%d run, %d of them compared with the reference, %d do not fit, %d failed" % (
        count["done"], verified, count["refused"], count["failed"])
    yield bar


def determined(rows):
    bar = Bar("bytes over the link that follow from size and policy", "equal, but for rounding to chunks and tiles")
    good, first = 0, ""
    for row in rows.all:
        if not row.done or not row.expected:
            continue
        bar.n += 1
        off = abs(row.h2d_bytes - row.expected_h2d_bytes), abs(row.d2h_bytes - row.expected_d2h_bytes)
        if max(off) <= row.expected_tolerance_bytes:
            good += 1
        elif not first:
            first = "; first off: %s %s %s %s, %.1f MiB in, %.1f MiB out" % (
                row.part, row.workload, row.point, row.variant, off[0] / MIB, off[1] / MIB)
    bar.passed, bar.note = good == bar.n, f"{good} of {bar.n} rows{first}"
    yield bar


def figure3(rows):
    best = Bar("figure 3: pathfinder, best speed over read-then-copy", ">= 2.3 x (paper: 2.3 x)")
    mean = Bar("figure 3: less time than read-then-copy, mean", ">= 45 % (paper: 31.7 %)")
    saved, measured, speed = [], [], 0
    for row in rows.of("fig3"):
        theirs, extrapolated = rows.copies_s(row.workload, row.point) if row.variant == "sluice" and row.done else (0, 0)
        if theirs <= 0:
            continue
        saved.append(percent_less(row.total_s, theirs))
        if not extrapolated:
            measured.append(saved[-1])
        if row.workload == "pathfinder":
            best.n += 1
            speed = max(speed, ratio(theirs, row.total_s))
    best.passed, best.note = speed >= 2.3, "%.2f x" % speed
    mean.n = len(saved)
    if saved:
        mean.passed = sum(saved) / len(saved) >= 45
        mean.note = "%.1f %%; where read-then-copy was measured, not extrapolated, %.1f %%" % (
            sum(saved) / len(saved), sum(measured) / len(measured) if measured else 0)
    yield best
    yield mean


def beside_copies(rows):
    """Rows of sizes within the device, with those of explicit copies."""
    for row in rows.of("fits"):
        copies = rows.done("fits", row.workload, "copies", row.point)
        if row.variant == "sluice" and row.done and copies:
            yield row, copies


def fits(rows):
    bar = Bar("sizes within the device, no disk: time", "<= 2 % over explicit copies")
    overs = [(100 * (ratio(row.beside_s, copies.beside_s) - 1), row) for row, copies in beside_copies(rows)]
    bar.n = len(overs)
    if overs:
        most, worst = max(overs, key=lambda over: over[0])
        bar.passed = most <= 2
        bar.note = "worst %+.1f %% (%s at %s), mean %+.1f %%" % (
            most, worst.workload, worst.point, sum(over for over, _ in overs) / len(overs))
    yield bar


def ahead_pairs(rows):
    """Rows with read-ahead, and those without."""
    for on in rows.of("fig5"):
        off = rows.done("fig5", on.workload, AHEAD.get(on.variant), on.point) if on.done else None
        if off:
            yield on, off


def ahead(rows):
    same = Bar("figure 5: bytes over the link and from files", "the same with and without")
    speed = Bar("figure 5: time without read-ahead over with", 'reported (paper: "significant")')
    speed.reported, times = True, []
    for on, off in ahead_pairs(rows):
        same.n += 1
        if (on.h2d_bytes, on.read_bytes) != (off.h2d_bytes, off.read_bytes):
            same.passed = False
            same.note = "%s at %s, %s: %.1f and %.1f MiB in, %.1f and %.1f MiB read" % (
                on.workload, on.point, on.variant, on.h2d_bytes / MIB, off.h2d_bytes / MIB, on.read_bytes / MIB,
                off.read_bytes / MIB)
        if on.variant == "dragon" or rows.cuda:  # the launches' own reading ahead is another
            times.append(ratio(off.total_s, on.total_s))
    speed.n = len(times)
    if times:
        speed.note = "at most %.2f x, mean %.2f x" % (max(times), sum(times) / len(times))
    yield same
    yield speed


def reserves(rows):
    """Each application and variant of figure 6 over all reserves."""
    for workload in ("backprop", "srad_v2"):
        for variant in ("sluice", "dragon"):
            found = [rows.done("fig6", workload, variant, reserve) for reserve in RESERVES]
            if not all(found):
                continue
            what = f"figure 6: {workload}, {TITLES[variant]}, "
            none = Bar(what + "bytes spilled where volatile data fit", "0", 1)
            order = Bar(what + "bytes spilled", "never less with a larger reserve", len(found))
            spread = Bar(what + "worst reserve over the best", "reported (paper: 43.5 %)", len(found))
            spread.reported = True
            none.passed, none.note = not found[0].spilled, "%.1f MiB" % (found[0].spilled / MIB)
            order.passed = all(a.spilled <= b.spilled for a, b in zip(found, found[1:]))
            order.note = "%.1f MiB at most" % (found[-1].spilled / MIB)
            times = [row.total_s for row in found]
            spread.note = "%.1f %% more time" % (100 * (ratio(max(times), min(times)) - 1))
            yield from (none, order, spread)


def cells(rows, table):
    """Cells that follow from sizes: ours at the paper's size against the printed."""
    bar = Bar(f"table {table.bytes_number}: {table.title}, bytes of each cell at the paper's size",
              "within 0.03 GB and three chunks")
    worst = 0
    for variant, published in zip(("none", "eager", "lazy"), table.gb):
        for over, gb in zip(OVERS, published):
            row = rows.done("tables", table.rows, variant, over)
            if not row or not row.input_bytes:
                continue
            scale = table.gb[0][0] / row.input_bytes
            off = abs(row.traffic * scale - gb)
            bar.n, worst = bar.n + 1, max(worst, off)
            if off > 0.03 + 3 * row.chunk * scale:
                bar.passed = False
    bar.note = "worst %.2f GB off" % worst
    return bar


def order(rows, table):
    """What holds for every program: discard never moves more, the two kinds are the same. Of training the paper has no
    bytes of either: what they differ by is reported."""
    less = Bar(f"{table.title}: bytes with discard", "never more than without")
    same = Bar(f"{table.title}: bytes of eager against lazy discard",
               "within 2 % of those without, or eight chunks" if table.bytes_number else "reported")
    same.reported, most = not table.bytes_number, 0
    for over in OVERS:
        none, eager, lazy = (rows.done("tables", table.rows, variant, over) for variant in ("none", "eager", "lazy"))
        if not none or not eager or not lazy or not none.traffic:
            continue
        less.n, same.n = less.n + 1, same.n + 1
        less.passed = less.passed and max(eager.traffic, lazy.traffic) <= none.traffic
        differ = abs(eager.traffic - lazy.traffic)
        off = 100 * float(differ) / none.traffic
        most = max(most, off)
        if off > 2 and not same.reported and differ > 8 * none.chunk:
            same.passed = False
    same.note = "%.2f %% at most" % most
    return less, same


def lazy_when_all_fits(rows, table):
    none, lazy = (rows.done("tables", table.rows, variant, OVERS[0]) for variant in ("none", "lazy"))
    if none and lazy:
        bar = Bar(f"{table.title}: time with lazy discard when all fits", "<= 1 % over none", 1)
        over = 100 * (ratio(lazy.least_s, none.least_s) - 1)
        bar.passed, bar.note = over <= 1, "%+.1f %%" % over
        yield bar


def halved(rows, table, reduction, chunks, speed):
    """Demands on bytes, to within chunks, and on speed at 200 %; speed 0: none."""
    none, lazy = (rows.done("tables", table.rows, variant, OVERS[1]) for variant in ("none", "lazy"))
    if not none or not lazy:
        return
    bar = Bar(f"{table.title} at 200 %: bytes saved by discard",
              ">= %.1f %%" % reduction + (f", to within {chunks} chunks" if chunks else ""), 1)
    bar.passed = percent_less(lazy.traffic - chunks * lazy.chunk, none.traffic) >= reduction
    bar.note = "%.1f %%" % percent_less(lazy.traffic, none.traffic)
    yield bar
    if speed:
        bar = Bar(f"{table.title} at 200 %: speed with discard over without", ">= %.1f x" % speed, 1)
        bar.passed, bar.note = ratio(none.table_s, lazy.table_s) >= speed, "%.2f x" % (ratio(none.table_s, lazy.table_s))
        yield bar


def tables(rows):
    for table in TABLES:
        if not rows.done("tables", table.rows, "none", OVERS[0]):
            continue
        if table.determined:
            yield cells(rows, table)
        yield from order(rows, table)
        yield from lazy_when_all_fits(rows, table)
        if table.bytes_number == 8:
            yield from halved(rows, table, 85.8, 4, 4.0)
        if not table.bytes_number:
            yield from halved(rows, table, 60.0, 0, 0)


def batches(rows):
    index, _, hand = (rows.done("batches", "minibatch", variant, "64/3") for variant in ("index", "launch", "hand"))
    if not index or not index.batches:
        return
    there = Bar("mini-batches on the device as a whole when needed", ">= 95 %", 1)
    there.passed = 100.0 * index.batches_resident >= 95.0 * index.batches
    there.note = "%.1f %% of %d" % (100.0 * index.batches_resident / index.batches, index.batches)
    yield there
    if hand:
        speed = Bar("mini-batches: time against buffers by hand", "never slower, to within 2 %", 1)
        speed.passed = index.least_s <= hand.least_s * (1 + 2.0 / 100)
        speed.note = "%.3f s by index, %.3f s by hand" % (index.least_s, hand.least_s)
        yield speed


def judge(rows):
    return [bar for judge_some in (every_row, determined, figure3, fits, ahead, reserves, tables, batches)
            for bar in judge_some(rows)]

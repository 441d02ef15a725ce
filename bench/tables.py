# SPDX-License-Identifier: Apache-2.0
"""Tables of traffic: what crosses the link between device and host memory, by `sluice-papers bench`.

Bytes are a function of the launch sequence and the policy, the same on every machine, so every
cell is one run. Each is put beside its closed form, and FIR beside the published table as well.
Used by bench/run; harness.py runs the children.
"""

import harness
from harness import Figure, table

MIB = 1 << 20
RUN_TIMEOUT_S = 300

# FIR, in GB of the published run: input, output, constants, one window; and the published rows.
FIR_INPUT, FIR_OUTPUT, FIR_CONSTANT, FIR_WINDOW = 5.66, 5.66, 0.28, 0.10
FIR_TOTAL = FIR_INPUT + FIR_OUTPUT + FIR_CONSTANT
FIR_RATIOS = (0.8, 2.0, 3.0, 4.0)  # footprint / device memory
FIR_PUBLISHED = {
    "uvm": (5.66, 11.44, 13.38, 14.34),
    "eager": (5.66, 5.88, 7.81, 8.78),
    "lazy": (5.66, 5.88, 7.81, 8.78),
}
FIR_LABELS = {"uvm": "no discard, policy uvm", "eager": "eager discard", "lazy": "lazy discard"}
FIR_TOLERANCE_GB = 0.03  # of the discard rows: rounding to chunks
FIR_UVM_TOLERANCE = 0.01  # of the first row, as a part of it


def bench(options, app, footprint, device, *more):
    """One run of `sluice-papers bench APP`: its JSON."""
    command = [
        options.tool(), "bench", app, "--json", "--dir", options.dir,
        "--footprint", str(footprint), "--device-memory", str(device), *more,
    ]  # fmt: skip
    harness.log("  " + " ".join(command[1:]))
    return harness.child_json(command, RUN_TIMEOUT_S)


def link_bytes(result, when):
    """(H2D, D2H) of a run, "before_sync" or "after" it."""
    counters = result[when]
    h2d = sum(value for name, value in counters.items() if name.startswith("h2d_"))
    d2h = sum(value for name, value in counters.items() if name.startswith("d2h_"))
    return h2d, d2h


def fir_closed_form(kind, ratio):
    """GB that cross the link, from the model of the published run."""
    room = FIR_TOTAL / ratio
    window = 0 if kind == "uvm" else FIR_WINDOW
    dropped = 0 if kind == "uvm" else FIR_INPUT
    return FIR_INPUT + max(0.0, FIR_TOTAL - dropped + window - room)


def fir_section(options):
    footprint = (464 if options.quick else 2320) * MIB
    rows, figures, raw = [], [], {}
    harness.log("fir")
    for kind, label in FIR_LABELS.items():
        more = ["--policy", "uvm", "--discard", "none"] if kind == "uvm" else ["--discard", kind]
        cells = [label]
        for ratio, published in zip(FIR_RATIOS, FIR_PUBLISHED[kind]):
            # Everything the device has no room for fits in host memory, as in the published run.
            result = bench(options, "fir", footprint, int(footprint / ratio), "--host-memory",
                           str(2 * footprint), *more)  # fmt: skip
            raw[f"{kind}-{ratio:g}"] = [result]
            h2d, d2h = link_bytes(result, "before_sync")
            measured = (h2d + d2h) * FIR_TOTAL / result["footprint_bytes"]
            form = fir_closed_form(kind, ratio)
            cells.append(f"{measured:.2f} ({form:.2f}; {published:.2f})")
            if ratio > 1:
                off = abs(measured - published)
                name = f"FIR, {label}, {100 * ratio:.0f} %: difference to the published GB"
                if kind == "uvm":
                    figures.append(Figure(name, 100 * off / published, 100 * FIR_UVM_TOLERANCE, "%", at_most=True))
                else:
                    figures.append(Figure(name, off, FIR_TOLERANCE_GB, "GB", at_most=True))
        rows.append(cells)
    options.raw["fir"] = raw
    text = (
        f"Measured at a footprint of {footprint // MIB} MiB and scaled to the published {FIR_TOTAL:.2f} GB "
        f"(input {FIR_INPUT} GB). In brackets: the closed form; the published value."
    )
    head = ["GB over the link, footprint / device memory"]
    head += ["< 100 %" if ratio < 1 else f"{100 * ratio:.0f} %" for ratio in FIR_RATIOS]
    eager = rows[list(FIR_LABELS).index("eager")][2:]
    headline = [
        "FIR with discard, GB moved at 200 / 300 / 400 %",
        " / ".join(cell.split()[0] for cell in eager),
        "published " + " / ".join(f"{gb:.2f}" for gb in FIR_PUBLISHED["eager"][1:]),
    ]
    return text, [table(head, rows)], figures, [headline]


class Oracle:
    """A workload under a policy, and what must cross the link: functions of G / F giving
    multiples of F. when: before the final sync, or after all is unmapped. more: what to give the
    workload so that it moves the same and computes little."""

    def __init__(self, app, policy, when, h2d, d2h, h2d_text, d2h_text, more=()):
        self.app = app
        self.policy = policy
        self.when = when
        self.h2d = h2d
        self.d2h = d2h
        self.h2d_text = h2d_text
        self.d2h_text = d2h_text
        self.more = more


ORACLES = (
    Oracle("srad_v2", "lru", "before_sync", lambda g: 14 / 6, lambda g: 2 - g / 6, "14/6 F", "2 F - G/6"),
    Oracle("srad_v2", "dragon", "before_sync", lambda g: 19 / 6, lambda g: 4 - g, "19/6 F", "4 F - G"),
    Oracle("hotspot", "lru", "after", lambda g: 2 / 3, lambda g: 1 / 3, "2/3 F", "1/3 F"),
    Oracle("hotspot", "dragon", "after", lambda g: 2 / 3, lambda g: 2 / 3, "2/3 F", "2/3 F"),
    Oracle("pathfinder", "lru", "after", lambda g: 1, lambda g: 0, "F", "one row"),
    Oracle("vectorAdd", "lru", "after", lambda g: 2 / 3, lambda g: 1 / 3, "2/3 F", "1/3 F"),
    Oracle("backprop", "lru", "before_sync", lambda g: 1, lambda g: 35 / 36 - 34 / 35 * g, "F", "35/36 F - 34/35 G"),
    Oracle("backprop", "dragon", "before_sync", lambda g: 1, lambda g: 13 / 9 - 34 / 35 * g, "F", "13/9 F - 34/35 G"),
    Oracle("BlackScholes", "lru", "after", lambda g: 3 / 5, lambda g: 2 / 5, "3/5 F", "2/5 F"),
    Oracle("binomialOptions", "lru", "after", lambda g: 5 / 6, lambda g: 1 / 6, "5/6 F", "1/6 F",
           ("--tree-steps", "8")),  # fmt: skip
    Oracle("lavaMD", "lru", "after", lambda g: 4656 / 7856, lambda g: 3200 / 7856, "4656/7856 F", "3200/7856 F",
           ("--partners", "1")),  # fmt: skip
)
ORACLE_RATIOS = (8 / 3, 16 / 3)  # F / G
CHUNK = 2 * MIB
ORACLE_TOLERANCE_CHUNKS = 6  # rounding of arrays and tiles to chunks


def traffic_section(options):
    footprint = (192 if options.quick else 768) * MIB
    rows, figures, raw = [], [], {}
    harness.log("traffic")
    for oracle in ORACLES:
        for ratio in ORACLE_RATIOS:
            asked = int(footprint / ratio) // CHUNK * CHUNK
            result = bench(options, oracle.app, footprint, asked, "--host-memory", str(2 * footprint),
                           "--policy", oracle.policy, *oracle.more)  # fmt: skip
            raw[f"{oracle.app}-{oracle.policy}-{ratio:.2f}"] = [result]
            whole = result["footprint_bytes"]
            share = result["config"]["device_budget"] / whole
            h2d, d2h = (value / whole for value in link_bytes(result, oracle.when))
            expected_h2d, expected_d2h = oracle.h2d(share), oracle.d2h(share)
            name = f"{oracle.app}, {oracle.policy}, F/G {ratio:.2f}"
            rows.append([
                name,
                f"{h2d:.3f} ({expected_h2d:.3f} = {oracle.h2d_text})",
                f"{d2h:.3f} ({expected_d2h:.3f} = {oracle.d2h_text})",
                "before" if oracle.when == "before_sync" else "after",
            ])  # fmt: skip
            off = max(abs(h2d - expected_h2d), abs(d2h - expected_d2h)) * whole / CHUNK
            figures.append(Figure(f"{name}: difference to the closed form", off, ORACLE_TOLERANCE_CHUNKS,
                                  "chunks", at_most=True))  # fmt: skip
    options.raw["traffic"] = raw
    text = (
        f"F is the footprint, about {footprint // MIB} MiB; G is the device budget. Bytes are in multiples of F, with the "
        "closed form in brackets. The rest fits in host memory. Last column: before or after the final sync."
    )
    return text, [table(["workload, policy", "H2D / F", "D2H / F", "sync"], rows)], figures, []


# Workloads whose launches repeat, long enough that what comes before a plan does not hide it.
PLAN_WORKLOADS = (
    ("srad_v2", ("--iterations", "8")),
    ("fir", ("--passes", "8")),
    ("train", ("--steps", "8")),
)
PLAN_RATIOS = (2, 4)  # footprint / device memory
PLAN_REPEAT = 3


def plan_section(options):
    """policy plan beside lru: bytes by cause, and time."""
    footprint = (120 if options.quick else 240) * MIB
    repeat = 1 if options.quick else PLAN_REPEAT
    rows, figures, raw = [], [], {}
    harness.log("plan")
    for app, more in PLAN_WORKLOADS:
        for ratio in PLAN_RATIOS:
            for host in (footprint, 0):
                moved = {}
                for policy in ("lru", "plan"):
                    result = bench(options, app, footprint, footprint // ratio, "--host-memory", str(host),
                                   "--policy", policy, "--repeat", str(repeat), "--verify", *more)  # fmt: skip
                    name = f"{app}, F/G {ratio}, {'all in host memory' if host else 'no host memory'}"
                    raw[f"{name}, {policy}"] = [result]
                    if not result["verified"]:
                        raise harness.Failed(f"{name}, {policy}: wrong results")
                    moved[policy] = sum(link_bytes(result, "before_sync"))
                    counters = result["before_sync"]
                    causes = ("h2d_launch", "h2d_prefetch", "d2h_evict", "clean_drop", "discard_saved")
                    cells = [f"{counters[cause] / MIB:.0f}" for cause in causes]
                    stored = (result["store_read_bytes"] + result["store_write_bytes"]) / MIB
                    rows.append([name, policy, *cells, f"{moved[policy] / moved['lru']:.2f}",
                                 f"{stored:.0f}", f"{result['run_s']:.2f}"])  # fmt: skip
                figures.append(Figure(f"plan, {name}: bytes over the link, of lru",
                                      moved["plan"] / moved["lru"], 1, at_most=True))  # fmt: skip
    options.raw["plan"] = raw
    text = (
        f"F is the footprint, {footprint // MIB} MiB; G is the device budget. Sizes are MiB moved before the final sync. "
        "Each run has eight rounds; the plan is made after about two. Each run compares its results with the reference. "
        "Bytes are the same in every run. Seconds are medians; the disk's part in them varies by a third. "
        "\"in + out, of lru\" counts both ways over the link."
    )
    head = ["workload", "policy", "in, launch", "in, ahead", "out", "clean, dropped", "discarded",
            "in + out, of lru", "store, both ways", "run, s"]  # fmt: skip
    return text, [table(head, rows)], figures, []

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Rules of a timeline of `sluice run --timeline`. test_run_timeline.sh calls it.

timeline_rules.py FILE [--stats STATS] [WORDS...]: the file is JSON; slices of a track lie apart or
within each other; arrows have both ends, inside of slices, and do not point back; counters never
lack; with STATS, bytes of moves are those of the run's counters, and kernels are as many as it
launched. WORDS: categories and names that slices must have. Prints what is broken. Exit status 1
then.
"""
import collections
import json
import sys

failed = False


def check(good, *words):
    global failed
    if not good:
        print(*words)
        failed = True
    return good


def ns(us):
    return round(us * 1000)


def events_check(events):
    """Each event has what its phase needs."""
    needs = {
        "X": ("pid", "tid", "cat", "name", "ts", "dur", "args"),
        "i": ("pid", "tid", "s", "name", "ts", "args"),
        "C": ("pid", "name", "ts", "args"),
        "M": ("pid", "tid", "name", "args"),
        "s": ("pid", "tid", "cat", "id", "name", "ts"),
        "f": ("pid", "tid", "cat", "id", "bp", "name", "ts"),
    }
    for e in events:
        missing = [key for key in needs.get(e.get("ph"), ["ph"]) if key not in e]
        check(not missing, "without", missing, e)
        check(e.get("dur", 0) >= 0 and e.get("ts", 0) >= 0, "negative", e)
    check(len({e["pid"] for e in events}) == 1, "several processes in one file")
    named = {e["tid"] for e in events if e["name"] == "thread_name"}
    tracks = {e["tid"] for e in events if "tid" in e}
    check(tracks <= named, "tracks without a name:", tracks - named)


def slices_check(slices):
    """By track, sorted: one begins in another only if it ends there."""
    tracks = collections.defaultdict(list)
    for e in slices:
        tracks[e["tid"]].append((ns(e["ts"]), -ns(e["ts"] + e["dur"]), e["name"]))
    for tid, found in tracks.items():
        open_ends = []
        for begin, end, name in sorted(found):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            check(not open_ends or -end <= open_ends[-1], "overlap on", tid, name, begin)
            open_ends.append(-end)
    return tracks


def flows_check(events, tracks):
    ends = collections.defaultdict(dict)
    for e in events:
        if e["ph"] in "sf":
            check(e["ph"] not in ends[e["id"]], "two ends of one kind", e)
            ends[e["id"]][e["ph"]] = e
    for pair in ends.values():
        if not check(len(pair) == 2, "half of an arrow", pair):
            continue
        check(ns(pair["s"]["ts"]) <= ns(pair["f"]["ts"]), "an arrow points back", pair)
        for e in pair.values():
            at = ns(e["ts"])
            inside = any(b <= at <= -end for b, end, _ in tracks[e["tid"]])
            check(inside, "an arrow from or to nowhere", e)
    return len(ends)


def memory_check(events):
    last = 0
    names = collections.Counter()
    for e in events:
        if e["ph"] == "C":
            names[e["name"]] += 1
            check(ns(e["ts"]) >= last, "memory goes back in time", e)
            last = ns(e["ts"])
            used, budget = e["args"]["used_bytes"], e["args"].get("budget_bytes")
            check(budget is None or 0 <= used <= budget, "more than the budget", e)
    for tier in "device", "host", "store":
        check(names["GPU 0 %s memory" % tier], "no memory of tier", tier)


def stats_check(events, path):
    with open(path) as f:
        stats = json.load(f)
    counters = stats["gpus"][0]["counters"]
    bytes_of = collections.Counter()
    for e in events:
        if e["ph"] == "X" and e["cat"] in ("move", "disk"):
            bytes_of[e["args"]["counter"]] += e["args"]["bytes"]
            check("unfinished" not in e["args"] or e["args"]["unfinished"] == 1, e)
    for name, counted in counters.items():
        if name.startswith(("h2d_", "d2h_", "store_")):
            check(bytes_of[name] == counted, name, bytes_of[name], "of", counted)
    kernels = sum(e["ph"] == "X" and e["cat"] == "kernel" for e in events)
    launched = stats["counters"]["launches"]
    check(kernels == launched, kernels, "kernels of", launched)


def main():
    path, words = sys.argv[1], sys.argv[2:]
    with open(path) as f:
        trace = json.load(f)
    events = trace["traceEvents"]
    # 2020 to 2100: the time of day when the machine started
    check(1577e15 < trace["baseTimeNanoseconds"] < 4102e15, "no time of day")
    events_check(events)
    slices = [e for e in events if e["ph"] == "X"]
    tracks = slices_check(slices)
    arrows = flows_check(events, tracks)
    memory_check(events)
    if words[:1] == ["--stats"]:
        stats_check(events, words[1])
        words = words[2:]
    have = {e["cat"] for e in slices} | {e["name"] for e in events}
    if arrows:
        have.add("arrows")
    check(set(words) <= have, "lacks", sorted(set(words) - have))
    sys.exit(failed)


main()

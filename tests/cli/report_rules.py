#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Rules of what `sluice report --json` says. test_report.sh calls it.

report_rules.py REPORT [--stats STATS] [KEY=VALUE...]: the parts of each GPU's time add up to the
whole; the waits of the functions add up to those of the GPUs; with STATS, bytes by counter are those
of the run, and all launches have a time. KEY=VALUE: a value, by its path ("gpus.0.parts_ns.host").
Prints what is broken. Exit status 1 then.
"""
import json
import sys

failed = False
WAITS = ("wait_in", "wait_read", "wait_out", "wait_write", "wait_map", "wait_pin", "wait_other")
WAYS = {"link_in": "h2d_", "link_out": "d2h_", "disk_read": "store_read", "disk_write": "store_write"}


def check(good, *words):
    global failed
    if not good:
        print(*words)
        failed = True


def sums_check(report):
    waited = 0
    for gpu in report["gpus"]:
        parts = gpu["parts_ns"]
        check(sum(parts.values()) == report["wall_ns"], "parts", parts, "of", report["wall_ns"])
        waited += sum(parts[key] for key in WAITS) - gpu["waited_behind_last_work_ns"]
        for way in WAYS:
            check(gpu[way]["busy_ns"] <= report["wall_ns"], way, "is busy for too long")
    of_functions = sum(f["waited_ns"] for f in report["functions"])
    check(of_functions == waited, "functions waited", of_functions, "of", waited)


def stats_check(report, path):
    with open(path) as f:
        stats = json.load(f)
    counters = stats["gpus"][0]["counters"]
    for name, counted in counters.items():
        if name.startswith(tuple(WAYS.values())):
            said = report["counters"].get(name, 0)
            check(said == counted, name, said, "of", counted)
    for way, prefix in WAYS.items():
        counted = sum(n for name, n in counters.items() if name.startswith(prefix))
        check(report["gpus"][0][way]["bytes"] == counted, way, report["gpus"][0][way], counted)
    calls = sum(f["calls"] for f in report["functions"] if f["name"] not in ("copy", "fill"))
    launched = stats["counters"]["launches"]
    check(calls + report["launches_without_a_time"] >= launched >= calls, calls, "of", launched)
    peak = stats["gpus"][0]["device"]["peak_bytes"]
    most = report["gpus"][0]["memory"]["device"]["used_most_bytes"]
    check(most <= peak, "device memory", most, "of", peak)


def value_check(report, word):
    path, wanted = word.split("=", 1)
    value = report
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    check(str(value) == wanted, path, "is", value, "and not", wanted)


def main():
    words = sys.argv[2:]
    with open(sys.argv[1]) as f:
        report = json.load(f)
    sums_check(report)
    if words[:1] == ["--stats"]:
        stats_check(report, words[1])
        words = words[2:]
    for word in words:
        value_check(report, word)
    sys.exit(failed)


main()

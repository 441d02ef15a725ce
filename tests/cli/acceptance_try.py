# SPDX-License-Identifier: Apache-2.0
"""The Python half of test_acceptance.sh: bench/programs/acceptance, table and pairs with programs made for the
test. Exit status 1 and a line for each claim that does not hold."""

import argparse
import importlib.machinery
import importlib.util
import io
import contextlib
import json
import os
import pathlib
import sys
import time
import xml.dom.minidom

sys.dont_write_bytecode = True
PROGRAMS = pathlib.Path(os.environ["SLUICE_SOURCE_DIR"]) / "bench" / "programs"
sys.path.insert(0, str(PROGRAMS))

import acceptance_checks as checks
import acceptance_own as own
import runner

BUILD = sys.argv[1]
HERE = pathlib.Path.cwd()
TWIN = {"LD_PRELOAD": str(HERE / "twin.so")}
failed = []


def claim(holds, text):
    if not holds:
        failed.append(text)
        print(f"FAIL {text}")


def script(name):
    loader = importlib.machinery.SourceFileLoader(name, str(PROGRAMS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def called(module, *words):
    """(exit status, what it printed)"""
    sys.argv = [module.__name__, *words]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            status = module.main()
        except SystemExit as e:
            status = e.code
    return status or 0, out.getvalue()


def program(name, text):
    path = HERE / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def is_gone(pid):
    """A process that was killed, which may take it a moment."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            if b"sleep" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                time.sleep(0.1)
                continue
        return True
    return False


def answers_are_compared():
    calls = []

    def again(answers):
        return lambda: calls.append(1) or answers

    first = {"a": ["00", "11"], "b": [1.0, 2.0], "c": {"error": "no such kernel"}}
    same = checks.compare(first, dict(first), again({}))
    claim(same == ([], [], ["c"]) and not calls, f"equal answers: {same}, {len(calls)} runs more")
    got = {**first, "b": [1.0, 2.0000003]}
    claim(checks.compare(first, got, again(first))[0] == ["b"],
          "a program that repeats itself must be repeated exactly")
    spread = {**first, "b": [1.0, 2.0000001]}
    claim(checks.compare(first, got, again(spread))[:2] == ([], ["b"]), "within the spread")
    far = {**first, "b": [1.0, 2.001]}
    claim(checks.compare(first, far, again(spread))[0] == ["b"], "beyond the spread")
    bits = {**first, "a": ["00", "12"]}
    claim(checks.compare(first, bits, again({**first, "a": ["00", "13"]}))[0] == ["a"],
          "checksums have no spread")
    claim(checks.compare(first, {"a": first["a"]}, again(first))[0] == ["b"], "an answer that is missing")
    error = checks.compare(first, {**first, "a": {"error": "boom"}}, again(first))[0]
    claim(error == ["a (boom)"], f"an error instead of an answer: {error}")


def what_a_fork_changed_is_named():
    def outcome(status=0, **answers):
        return runner.Outcome({"answers": answers} if answers else None, status=status, err="boom\n")

    alone = outcome(statuses=[5, 6], said=["", ""], arrays=["00", "11"])
    claim(own.forks_differ(alone, alone) == [], "a fork that changed nothing")
    got = own.forks_differ(alone, outcome(statuses=[5, -6], said=["", "what()"], arrays=["00", "11"]))
    claim(got == ["fork: statuses differ: [5, -6], alone [5, 6]",
                  "fork: said differ: ['', 'what()'], alone ['', '']"], f"a fork: {got}")
    got = own.forks_differ(alone, outcome(status=1))
    claim(got == ["fork: no result: exit status 1; boom"], f"a fork without a result: {got}")
    got = own.forks_differ(outcome(status=2), alone)
    claim(got == ["fork, alone: exit status 2; boom"], f"a fork that fails alone: {got}")


def checks_tell_what_happened(acceptance):
    small = ("-", "6", "4")
    made = ("driver-linked",)
    segments = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    # Once alone and once under the library: what differs is that SLUICE_RUN is set.
    wrong = program("wrong", 'if [ "$SLUICE_RUN" ]; then a=2; else a=1; fi\n'
                    'echo "{\\"answers\\": {\\"x\\": $a}, \\"peak_bytes\\": 1073741824}"')
    fails = program("fails", '[ -z "$SLUICE_RUN" ] || exit 7\n'
                    'echo "{\\"answers\\": {\\"x\\": 1}, \\"peak_bytes\\": 1073741824}"')
    nothing = program("nothing", "echo no GPU here >&2; exit 3")
    hangs = program("hangs", f"sleep 61 & echo $! >{HERE}/sleeper; wait")
    checks.CHECKS = [
        checks.Same("A17", "right", command=("driver-linked", *small), builds=made, env=TWIN,
                    judge=checks.allocations_seen),
        checks.Same("A17", "opened", command=("driver-opened", "libcuda.so.1", "6", "4"),
                    builds=("driver-opened",), env=TWIN, judge=checks.allocations_seen),
        checks.Same("A8", "said", command=("driver-linked", *small), builds=made,
                    env={**TWIN, **segments}, judge=checks.segments_told),
        checks.Same("A8", "not said", command=("driver-linked", *small), builds=made,
                    env={**TWIN, **segments}, options=("--no-framework", "expandable-segments"),
                    judge=checks.segments_told),
        checks.Same("A2", "roomy", command=("driver-linked", *small), builds=made, env=TWIN, share=3),
        checks.Same("A3", "wrong", command=(wrong,)),
        checks.Same("A4", "fails", command=(fails,)),
        checks.Same("A5", "nothing", command=(nothing,)),
        checks.Same("A6", "hangs", command=(hangs,), timeout=2),
        checks.Same("A7", "other modules", command=(wrong,), needs=("no_such_module",)),
        checks.Own("A25", "start-up", call=own.start_up, alone=True),
        checks.Same("A12", "two GPUs", command=(wrong,), gpus=2),
    ]
    status, text = called(acceptance, "--build", BUILD, "--scratch", "scratch", "--json", "all.json",
                          "--jobs", "3")
    rows = {r["what"]: r for r in json.loads(pathlib.Path("all.json").read_text())["rows"]}
    wanted = {"right": "pass", "opened": "pass", "said": "pass",
              "not said": "fail", "roomy": "fail", "wrong": "fail", "fails": "fail",
              "nothing": "skip", "hangs": "fail", "other modules": "skip", "start-up": "pass"}
    claim({w: r["status"] for w, r in rows.items()} == wanted,
          "not " + json.dumps(wanted) + " but " + json.dumps(rows, indent=1))
    claim(status == 1, f"exit status {status} with failed checks:\n{text}")
    claim(rows["right"]["in_bytes"] > 0 and rows["right"]["out_bytes"] > 0, "no bytes counted")
    claim("nothing was moved" in rows["roomy"]["reason"], f"roomy: {rows['roomy']['reason']}")
    claim("differs: x" in rows["wrong"]["reason"], f"wrong: {rows['wrong']['reason']}")
    claim("exit status 7" in rows["fails"]["reason"], f"fails: {rows['fails']['reason']}")
    claim("no GPU here" in rows["nothing"]["reason"], f"nothing: {rows['nothing']['reason']}")
    claim("no_such_module" in rows["other modules"]["reason"], "other modules")
    sleeper = int(pathlib.Path("sleeper").read_text())
    claim(is_gone(sleeper), "a program that was too late has left a child")

    status, text = called(acceptance, "--build", BUILD, "--scratch", "scratch", "--only", "A17,A25")
    claim(status == 0 and "3 passed, 0 failed, 0 skipped" in text, f"--only: {status}\n{text}")
    status, text = called(acceptance, "--build", BUILD, "--scratch", "scratch", "--only", "right",
                          "--time-limit", "1")
    claim(status == 0 and "no time left" in text, f"--time-limit: {status}\n{text}")
    acceptance.DOCS = pathlib.Path("page.md")
    acceptance.DOCS.write_text("a\n<!-- acceptance -->\nold\n<!-- end -->\nb\n<!-- end -->\n")
    status, text = called(acceptance, "--from", "all.json", "--update")
    page = acceptance.DOCS.read_text()
    claim(page.startswith("a\n<!-- acceptance -->\n") and page.endswith("\n<!-- end -->\nb\n<!-- end -->\n")
          and "old" not in page and "| A17 | right | pass |" in page, f"--update:\n{page}")
    later_checks_take_their_places(acceptance)


def later_checks_take_their_places(acceptance):
    """On a page that has some: the others stay, and so does one that there was no time for."""
    def row(what, status, reason=""):
        return {"id": "A17", "what": what, "status": status, "reason": reason}

    pathlib.Path("later.json").write_text(json.dumps({
        "date": "2999-01-01", "gpu": "2 x B", "rows": [row("right", "skip", acceptance.NO_TIME),
                                                      row("opened", "fail", "why"), row("new", "pass")]}))
    lines = acceptance.DOCS.read_text().splitlines()
    status, text = called(acceptance, "--from", "later.json", "--update")
    later = acceptance.DOCS.read_text().splitlines()
    new = [line for line in later if line not in lines]
    claim(status == 1 and [line.split(";")[0] for line in new[:1]] == ["B, " + rows_days(lines) + " to 2999-01-01"]
          and [line.split(" | ")[1:4] for line in new[1:]] == [["opened", "fail", "2999-01-01"],
                                                               ["new", "pass", "2999-01-01"]],
          f"later rows: {status} {new}\n{text}")
    claim(len(later) == len(lines) + 1, f"rows that stay: {later}")


def rows_days(lines):
    return next(line for line in lines if "; sizes in GiB" in line).split(", ")[1].split(";")[0]


def programs_are_killed_when_they_are_ready():
    late = program("late", 'sleep 0.3; echo "al"; echo "most ready"; sleep 61')
    status = own.kill_when_ready([late], {}, 20)
    claim(status == -9, f"ready after a while: {status}")
    status = own.kill_when_ready([program("ends", "echo not yet; exit 0")], {}, 20)
    claim(status == "not ready to be killed: not yet\n", f"ended before: {status}")
    begin = time.monotonic()
    silent = program("silent", f"sleep 61 & echo $! >{HERE}/silent.pid; wait")
    status = own.kill_when_ready([silent], {}, 1)
    claim(status == "not ready to be killed: " and time.monotonic() - begin < 30, f"silent: {status}")
    claim(is_gone(int(pathlib.Path("silent.pid").read_text())), "one that was never ready has left a child")


LIMITS = """
if [ "$1" = quiet ]; then said="sluice: GPU 0: 512 MiB of its memory"
else said="sluice: GPU 0: out of memory: the program has 1 MiB and asks for 1 MiB more: no"; fi
echo "$said" >&2
echo '{"answers": {"a": true, "b": '$2'}, "peak_bytes": 1, "total_bytes": 2, "error": "full"}'
"""


def limits_want_an_explanation(acceptance):
    """The judge of A9 on what a program may answer. Nothing is moved here, and that is said, too."""
    limits = program("limits", LIMITS)

    class Said(own.Tools):
        def under(self, options, command, timeout=100, env=None):
            return runner.run_under(self.build, options[:-2], [limits, *options[-2:]],
                                    env=self.env, timeout=60, cwd=HERE)

    context = acceptance.Context(argparse.Namespace(build=pathlib.Path(BUILD), scratch=HERE, seed=1,
                                                    stress=None, time_limit=None), 1)
    tools = Said(context, {}, None)
    for words, errors, problem in ((["loud", "true"], ["full"], ""),
                                   (["quiet", "true"], ["full"], "no explanation on stderr"),
                                   (["loud", "1"], ["full"], "not so: b"),
                                   (["loud", "true"], ["empty"], "the error is full, not empty")):
        reason = own.limits(tools, words, errors)["reason"]
        others = [p for p in ("not so", "the error is", "no explanation")
                  if p in reason and not problem.startswith(p)]
        claim(problem in reason and not others, f"limits, {words}: {reason}")


SIZES = {"small": [], "medium": [], "large": []}
LINK = 'print(\'{"in": 1e9, "out": 2e9, "gpu": "a stand-in"}\')'


def table_measures(table):
    linked = HERE / "scratch" / "driver-linked"
    table.LINK = LINK
    table.DOCS = pathlib.Path("table.md")
    table.DOCS.write_text("<!-- table -->\n<!-- end -->\n")
    table.SUMMARIES = (pathlib.Path("summary.md"),)
    table.SUMMARIES[0].write_text("before\n<!-- run:summary -->\nold\n<!-- /run:summary -->\nbehind\n")
    steady = program("steady", f'LD_PRELOAD=$LD_PRELOAD:{HERE}/twin.so {linked} - 6 4 >/dev/null || exit 1\n'
                     'echo "{\\"seconds\\": [9, 9, 2, 1, 3], \\"peak_bytes\\": 25165824, \\"sum\\": 5}"')
    drifts = program("drifts", 'echo "{\\"seconds\\": [1], \\"peak_bytes\\": 25165824, \\"sum\\": $$}"')
    wrong = program("other", 'echo "{\\"seconds\\": [1], \\"peak_bytes\\": 25165824, '
                    '\\"sum\\": \\"$SLUICE_RUN\\"}"')
    broken = program("broken", "exit 9")
    table.PROGRAMS = {n: {"command": [c], "sizes": SIZES, "offload": None} for n, c in
                      (("steady", steady), ("drifts", drifts), ("other", wrong), ("broken", broken))}
    status, text = called(table, "--build", BUILD, "--programs", "steady,drifts,other,broken",
                          "--budgets", "50,fits", "--modes", "steady", "--json", "table.json")
    rows = {r["program"]: r for r in json.loads(pathlib.Path("table.json").read_text())["rows"]}
    claim(status == 0 and set(rows) == set(table.PROGRAMS), f"table: {status}\n{text}")
    runs = {(e["budget"], e["mode"]): e for e in rows["steady"]["runs"]}
    claim(set(runs) == {("50", "paged"), ("fits", "paged"), ("50", "naive"), ("50", "opt")},
          f"rows of steady: {list(runs)}")
    claim(all(e["equal"] for e in runs.values()), f"steady differs:\n{text}")
    claim(runs["50", "paged"]["moved"]["in"] > 0 and runs["fits", "paged"]["moved"]["in"] == 0,
          "bytes of steady")
    claim("; mode naive" in runs["50", "naive"]["said"], "the mode is not the one asked for")
    claim(rows["drifts"]["runs"][0]["self_equal"] is False, "drifts is the same by itself?")
    claim(rows["other"]["runs"][0]["self_equal"] is True, "other is not the same by itself?")
    claim("exit status 9" in rows["broken"]["error"], "broken is not told")
    claim("| steady | 0.0 | 1.0000 | 50 % | 1.0000 | 2.0000 | 1.00 | 1.00 |" in text,
          f"best, median, efficiency:\n{text}")
    claim("steady at 50 %: `--baseline opt` is 1.00 x as fast" in text, f"modes:\n{text}")
    claim("differ, as two native runs do" in text and "DIFFER" in text, f"results:\n{text}")
    status, text = called(table, "--from", "table.json", "--update")
    page = table.DOCS.read_text()
    claim(status == 0 and "| broken | | failed |" in page, f"the page: {status}\n{text}\n{page}")
    claim_summary(table, "| broken | failed | | | | | |\n", "| steady | 0.0 | | 1.00 | | | |\n")
    later_rows_take_their_places(table)
    status, text = called(table, "--build", BUILD, "--programs", "steady", "--time-limit", "0.001",
                          "--json", "late.json")
    claim("steady: no time left" in text, f"--time-limit: {text}")


def claim_summary(table, *wanted):
    text = table.SUMMARIES[0].read_text()
    claim(text.startswith("before\n<!-- run:summary -->\nSlow-down") and text.endswith("<!-- /run:summary -->\nbehind\n")
          and "old" not in text and all(line in text for line in wanted), f"the summary, {wanted}:\n{text}")


def summary_has_alternatives(table):
    """The ways that need less memory run natively, and stand beside what is expected of a run."""
    table.LINK = LINK
    table.DOCS = pathlib.Path("changed.md")
    table.DOCS.write_text("a\n<!-- table -->\n<!-- end -->\n")
    table.SUMMARIES = (pathlib.Path("readme.md"), pathlib.Path("summary.md"))
    for path in table.SUMMARIES:
        path.write_text("before\n<!-- run:summary -->\nold\n<!-- /run:summary -->\nbehind\n")
    big = program("changes", 'case "$*" in *checkpoint*) seconds=5 peak=3221225472 ;; *) seconds=4 peak=5368709120 ;; esac\n'
                  '[ -z "${SLUICE_RUN:-}" ] || seconds=6\n'
                  'echo "{\\"seconds\\": [9, 9, $seconds], \\"peak_bytes\\": $peak, \\"sum\\": 5}"')
    table.PROGRAMS = {"changes": {"command": [big], "sizes": SIZES, "offload": ["offload"], "checkpoint": ["checkpoint"]}}
    status, text = called(table, "--build", BUILD, "--programs", "changes", "--no-offload", "--budgets", "100",
                          "--json", "changed.json")
    status, text = called(table, "--from", "changed.json", "--update")
    claim(status == 0 and "| changes, with gradient checkpointing | 3.0 | | | 5.0000 | | 1.25 | | | | | 2" in
          table.DOCS.read_text(), f"alternatives: {status} {text}\n{table.DOCS.read_text()}")
    claim_summary(table, "| changes | 5.0 | 1.50 | | | | 1.25 at 3.0 GiB with gradient checkpointing |\n")
    claim(table.SUMMARIES[0].read_text() == table.SUMMARIES[1].read_text(), "the two summaries differ")

    # The page stays one of its machine; a row of another says where it is of.
    data = json.loads(pathlib.Path("changed.json").read_text())
    data["link"] = {"in": 5e9, "out": 5e9, "gpu": "another"}
    data["rows"][0]["runs"][0].update(budget="store", host=20)
    del data["rows"][0]["checkpoint"]
    pathlib.Path("another.json").write_text(json.dumps(data))
    status, text = called(table, "--from", "another.json", "--update")
    lines = table.DOCS.read_text().splitlines()
    claim(lines[2].startswith("a stand-in, 2") and "; link in 1.0 GB/s, out 2.0 GB/s;" in lines[2]
          and sum(line.endswith(", another |") for line in lines) == 1, f"two machines: {status} {text}\n{lines}")
    claim_summary(table, "| changes | 5.0 | 1.50 | | | 1.50 (host 20 %) | 1.25 at 3.0 GiB with gradient checkpointing |\n")

    for path in table.SUMMARIES:
        path.write_text("before\n<!-- run:summary -->\nold\n<!-- /run:summary -->\nbehind\n")
    status, text = called(table, "--summary")
    claim_summary(table, "| changes | 5.0 | 1.50 |")
    drawn = pathlib.Path("pictures/run.svg").read_text()
    claim(xml.dom.minidom.parseString(drawn).getElementsByTagName("polyline").length == 1
          and "changes, 100 %: 1.50" in drawn, f"the picture:\n{drawn}")
    called(table, "--picture", "alone.svg")
    claim(pathlib.Path("alone.svg").read_text() == drawn, "--picture draws another picture")
    table.SUMMARIES[0].write_text("no marks\n")
    status, text = called(table, "--summary")
    claim("0 places" in str(status) and table.SUMMARIES[0].read_text() == "no marks\n", f"no marks: {status}")


def later_rows_take_their_places(table):
    """On a page that has some: those of the same program and budget; the rest stays, in its order."""
    lines = table.DOCS.read_text().splitlines()
    data = json.loads(pathlib.Path("table.json").read_text())
    data["date"] = "2999-01-01"
    data["rows"] = [r for r in data["rows"] if r["program"] == "steady"]
    runs = {(e["budget"], e["mode"]): e for e in data["rows"][0]["runs"]}
    runs["50", "naive"]["result"]["seconds"] = [9, 9, 6]
    data["rows"][0]["runs"] = [runs["50", "naive"], {**runs["50", "paged"], "budget": "12"}]
    pathlib.Path("later.json").write_text(json.dumps(data))
    status, text = called(table, "--from", "later.json", "--update")
    later = table.DOCS.read_text().splitlines()
    shares = [line.split(" | ")[3] for line in later if line.startswith("| steady")]
    claim(status == 0 and shares == ["50 %", "all fits", "50 %, mode naive", "50 %, mode opt", "12 %"],
          f"later rows: {status} {shares}\n{text}")
    changed = [line for line in later if line not in lines]
    claim(len(later) == len(lines) + 1 and len(changed) == 4 and "to 2999-01-01;" in changed[0]
          and "mode naive | 6.0000 |" in changed[1] and changed[1].endswith(" | 2999-01-01 |")
          and "| 12 % |" in changed[2] and "`--baseline opt` is 6.00 x as fast" in changed[3], f"changed: {changed}")
    table.DOCS.write_text("<!-- table -->\n| other | columns |\n| --- | --- |\n| 1 | 2 |\n<!-- end -->\n")
    status, _ = called(table, "--from", "later.json", "--update")
    claim("would be lost" in str(status) and "| 1 | 2 |" in table.DOCS.read_text(), f"other columns: {status}")


def a_second_size_of_host_memory_is_tried(table):
    """Where the first is too little; a program that fails with both is told twice."""
    table.LINK = LINK
    result = 'echo "{\\"seconds\\": [1], \\"peak_bytes\\": 8589934592}"'
    tight = program("tight", f'[ "$SLUICE_HOST_BUDGET" = 1717986918 ] && exit 3\n{result}')
    never = program("never", f'[ -n "$SLUICE_HOST_BUDGET" ] && {{ echo sluice: why >&2; exit 3; }}\n{result}')
    easy = program("easy", result)
    table.PROGRAMS = {n: {"command": [c], "sizes": SIZES, "offload": None}
                      for n, c in (("tight", tight), ("never", never), ("easy", easy))}
    _, text = called(table, "--build", BUILD, "--programs", "tight,never,easy", "--budgets", "store",
                     "--json", "store.json")
    rows = {r["program"]: r["runs"] for r in json.loads(pathlib.Path("store.json").read_text())["rows"]}
    hosts = {n: [(e["host"], e["result"] is not None) for e in runs] for n, runs in rows.items()}
    claim(hosts == {"tight": [(20, False), (40, True)], "never": [(20, False), (40, False)],
                    "easy": [(20, True)]}, f"hosts: {hosts}\n{text}")
    claim("; sluice: why" in rows["never"][0]["said"], f"our line: {rows['never'][0]['said']}")
    claim("| 50 %, host 20 % | failed |" in text and "| 50 %, host 40 % | 1.0000 |" in text, text)


def a_run_on_a_gpu_is_read():
    """The figures and workloads of what ./dev gpu --json prints; the page's prose stays."""
    spec = importlib.machinery.SourceFileLoader("cuda_table", str(PROGRAMS.parent / "cuda" / "table"))
    cuda = importlib.util.module_from_spec(importlib.util.spec_from_loader("cuda_table", spec))
    spec.exec_module(cuda)
    cuda.PAGE = pathlib.Path("cuda.md")
    cuda.PAGE.write_text("# old\n\n## What the figures say\n\nMuch.\n")
    figure = '{{"figure":"{}","value":{},"unit":"GB/s","limit":50,"of":"the link","share":{}}}\n'
    log = pathlib.Path("gpu.log")
    log.write_text('==> bench_cuda\n{"machine":"a GPU"}\n' + figure.format("scan", 49, 0.98)
                   + figure.format("map 32 MiB of memory", 3, 0.06) + "==> bench/cuda/apps\n"
                   "workload             MiB  memory\nsluice: warning: a warning\n"
                   "fir                  512  sluice          250\n==> sluice bench suite: done in 2 s\n"
                   "[1/9] tables fir 200 % none: 0.3 s\n")
    status, text = called(cuda, "gpu.log")
    page = cuda.PAGE.read_text()
    claim(status == 0 and "| scan | 49.00 GB/s | 50.00 GB/s, the link | 98.0 % |\n" in page, f"{text}{page}")
    claim("map 32" not in page and "warning" not in page and "tables fir" not in page, page)
    claim("memory\nfir                  512  sluice          250\n```\n" in page, page)
    claim(page.endswith("## What the figures say\n\nMuch.\n") and "# old" not in page, page)
    log.write_text("==> bench_cuda: FAILED\n")
    status, text = called(cuda, "gpu.log")
    claim("no figures in gpu.log" in str(status) and cuda.PAGE.read_text() == page, f"nothing: {status}")


def tables_are_merged(table):
    """Of the same run of a program the later file's counts, and what only one file has is kept."""
    def run(budget, best, mode="paged", host=None):
        return {"budget": budget, "mode": mode, "best": best, "host": host}

    old = {"date": "1", "link": 1,
           "rows": [{"program": "a", "native": 1, "offload": {"seconds": [7]}, "runs": [run("50", 1), run("25", 2)]},
                    {"program": "b", "native": 1, "runs": [run("50", 3)]},
                    {"program": "d", "error": "no end in time"}, {"program": "e", "error": "late"},
                    {"program": "f", "native": 1, "runs": [run("store", 1)]}]}
    new = {"date": "2", "link": 2,
           "rows": [{"program": "c", "native": 2, "runs": [run("50", 4)]},
                    {"program": "a", "native": 2, "runs": [run("50", 5), run("50", 6, "opt")]},
                    {"program": "d", "native": 2, "runs": [run("50", 8)]},
                    {"program": "f", "native": 1,
                     "runs": [run("store", 2, host=20), run("store", 3, host=40)]}]}
    paths = [pathlib.Path("old.json"), pathlib.Path("new.json")]
    for path, data in zip(paths, (old, new)):
        path.write_text(json.dumps(data))
    data = table.merged(paths)
    rows = {r["program"]: r for r in data["rows"]}
    claim(data["link"] == 2, f"merged: {data}")
    claim([(r["date"], r["link"], r["native"]) for r in rows["a"]["runs"]] == [("2", 2, 2), ("1", 1, 1), ("2", 2, 2)],
          f"what was beside runs of a: {rows['a']['runs']}")
    claim([r["best"] for r in rows["f"]["runs"]] == [2, 3], f"runs of f: {rows['f']['runs']}")
    claim(list(rows) == ["a", "b", "d", "e", "f", "c"], f"merged: {list(rows)}")
    claim([r["best"] for r in rows["a"]["runs"]] == [5, 2, 6], f"runs of a: {rows['a']['runs']}")
    claim(rows["a"]["native"] == 2 and rows["a"]["offload"]["date"] == "1", f"a: {rows['a']}")
    claim(rows["b"]["runs"][0]["best"] == 3 and rows["c"]["native"] == 2, "b and c")
    claim("error" not in rows["d"] and rows["d"]["runs"][0]["best"] == 8, f"d: {rows['d']}")
    claim(rows["e"]["error"] == "late", f"e: {rows['e']}")


def pairs_judge(pairs):
    """Runs of a program by turns, and each reason to end with 1."""
    pairs.table.LINK, pairs.table.PROGRAMS = LINK, {
        "steady": {"command": [program("steady", 'echo \'{"seconds": [3, 3, 1], "peak_bytes": 4294967296, "sum": 1}\'')],
                   "sizes": SIZES}}
    status, text = called(pairs, "--old", BUILD, "--new", BUILD, "--programs", "steady", "--budgets", "50",
                          "--pairs", "2", "--new-options", "--compress auto", "--json", "pairs.json")
    claim(status == 0 and "| steady | 50 % | 1.0000 | 1.0000 | 1.0000 | 1.000 | 1.000 | 1.000 | 7.00 | 7.00 | 1.000 "
          "| 1.000 | 1.000 | 1.000 | equal |"
          in text, f"pairs: {status}\n{text}")
    data = json.loads(pathlib.Path("pairs.json").read_text())
    shares = {"rows": [{**data["rows"][0], "pairs": [
        {"old": {**p["old"], "bytes": 8}, "new": {**p["new"], "bytes": 8, "saved": 2}} for p in data["rows"][0]["pairs"]]}]}
    pathlib.Path("shares.json").write_text(json.dumps({**data, **shares}))
    status, text = called(pairs, "--from", "shares.json")
    claim(status == 0 and "| 1.000 | 1.000 | 0.750 | equal |" in text, f"pairs, compressed: {status}\n{text}")
    claim(len(data["rows"][0]["pairs"]) == 2, f"pairs: {data}")
    for what, value in (("best", 1.04), ("equal", False)):
        for pair in data["rows"][0]["pairs"]:
            pair["new"][what] = value
        pathlib.Path("worse.json").write_text(json.dumps(data))
        status, text = called(pairs, "--from", "worse.json")
        claim(status == 1, f"pairs, {what} {value}: {status}\n{text}")
        for pair in data["rows"][0]["pairs"]:
            pair["new"][what] = pair["old"][what]
    data["rows"][0]["pairs"][0]["new"] = data["rows"][0]["pairs"][1]["old"] = {"error": "lost"}
    pathlib.Path("worse.json").write_text(json.dumps(data))
    status, text = called(pairs, "--from", "worse.json")
    claim(status == 1 and "failed or not run" in text, f"pairs, none whole: {status}\n{text}")


def main():
    start = time.monotonic()
    acceptance = script("acceptance")
    answers_are_compared()
    what_a_fork_changed_is_named()
    programs_are_killed_when_they_are_ready()
    limits_want_an_explanation(acceptance)
    checks_tell_what_happened(acceptance)
    table_measures(script("table"))
    summary_has_alternatives(script("table"))
    a_second_size_of_host_memory_is_tried(script("table"))
    tables_are_merged(script("table"))
    a_run_on_a_gpu_is_read()
    pairs_judge(script("pairs"))
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if failed else 0


sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Checks of bench/programs/acceptance that are more than two runs with the same answers: times, limits,
ends of processes, programs without CUDA, other tools. Each takes Tools and gives what its row is
updated with: status, reason, numbers."""

import contextlib
import ctypes
import json
import os
import pathlib
import select
import shutil
import statistics
import subprocess
import sys
import time

import runner

PROGRAMS = pathlib.Path(__file__).resolve().parent
PYTHON = sys.executable
GIB, MIB = 1 << 30, 1 << 20
SLOWER_AT_MOST = 1.02  # where all fits
LAUNCH_NS_MOST = 500
FAULTS_MOST = 250  # pages that a program without CUDA touches more
STARTS = 300


class Tools:
    """What a check needs: where things are, how long it may take, the programs that are compiled."""

    def __init__(self, context, env, program):
        self.context, self.env, self.program = context, env, program
        self.build, self.scratch = context.build, context.scratch

    def alone(self, command, timeout=100):
        return runner.run(command, self.env, self.context.left(timeout), self.scratch)

    def under(self, options, command, timeout=100, env=None):
        return runner.run_under(self.build, options, command, env={**self.env, **(env or {})},
                                timeout=self.context.left(timeout), cwd=self.scratch)


def traffic(outcome):
    moved = runner.moved(outcome.stats)
    return {"in_bytes": moved["in"], "out_bytes": moved["out"], "disk_in_bytes": moved["disk_in"],
            "disk_out_bytes": moved["disk_out"], "causes": moved["causes"]}


def shortfall(outcome):
    """A run that had room for everything shows nothing."""
    moved = runner.moved(outcome.stats)
    if not outcome.stats:
        return "no statistics: the library was not there, or the program did not end by exit()"
    if moved["in"] + moved["out"] == 0:
        passed = runner.counted(outcome.stats, "foreign_bytes")
        return ("nothing was moved: no memory was short"
                + (f" ({passed / GIB:.2f} GiB were allocated past the library)" if passed else ""))
    return ""


def row_of(native, got, **more):
    return {"native_seconds": native.seconds if native else 0.0, "seconds": got.seconds,
            **traffic(got), **more}


def verdict(problems, note=""):
    return {"status": "fail" if problems else "pass",
            "reason": "; ".join([*problems, *([note] if note else [])])}


# ---- A1 ----

def in_core(tools, words):
    command = [PYTHON, str(PROGRAMS / "train.py"), *words]
    native = tools.alone(command)
    if native.result is None:
        return {"status": "skip", "reason": f"by itself: {native.said[-300:]}"}
    got = tools.under([], command)
    row = row_of(native, got, peak_bytes=native.result["peak_bytes"])
    if got.result is None:
        return {**row, "reason": got.said}
    problems = []
    for key in ("losses", "weights"):
        if got.result[key] != native.result[key]:
            problems.append(f"{key} differ")
    before, after = (min(r.result["seconds"][2:]) for r in (native, got))
    middle = [statistics.median(r.result["seconds"][2:]) for r in (native, got)]
    if after > before * SLOWER_AT_MOST:
        problems.append(f"more than {SLOWER_AT_MOST:.2f} x the time")
    note = (f"an iteration {before * 1e3:.2f} and {after * 1e3:.2f} ms ({after / before:.3f} x), "
            f"median {middle[0] * 1e3:.2f} and {middle[1] * 1e3:.2f} ms")
    return {**row, "native_step": before, "step": after, **verdict(problems, note)}


def launch_cost(tools):
    command = [tools.program("driver-linked"), "-", "4", "1", "20000"]
    native, got = tools.alone(command), tools.under([], command)
    if native.result is None:
        return {"status": "skip", "reason": f"by itself: {native.said[-300:]}"}
    row = row_of(native, got)
    if got.result is None:
        return {**row, "reason": got.said}
    before, after = native.result["launch_ns"], got.result["launch_ns"]
    problems = []
    if after - before > LAUNCH_NS_MOST:
        problems.append(f"more than {LAUNCH_NS_MOST} ns")
    if got.result["answers"] != native.result["answers"]:
        problems.append("the results differ")
    return {**row, "native_launch_ns": before, "launch_ns": after,
            **verdict(problems, f"{before:.0f} ns alone, {after:.0f} ns: {after - before:+.0f} ns")}


# ---- A9 ----

def limits(tools, options, errors):
    """Not alone: that would take the whole GPU. What must hold is known."""
    got = tools.under(["--device-memory", "512M", "--host-memory", "1G", "--store-memory", "1G",
                       *options], [PYTHON, str(PROGRAMS / "accept" / "limits.py")])
    row = row_of(None, got, device_bytes=512 * MIB)
    if got.result is None:
        return {**row, "reason": got.said}
    result = got.result
    problems = [f"not so: {name}" for name, holds in result["answers"].items() if holds is not True]
    if result["error"] not in errors:
        problems.append(f"the error is {result['error']}, not {' or '.join(errors)}")
    if not any(line.startswith("sluice: ") and ": out of memory: " in line
               for line in got.err.splitlines()):
        problems.append("no explanation on stderr")
    if shortfall(got):
        problems.append(shortfall(got))
    note = (f"{result['error']} at {result['peak_bytes'] / GIB:.2f} of "
            f"{result['total_bytes'] / GIB:.2f} GiB")
    return {**row, "peak_bytes": result["peak_bytes"], **verdict(problems, note)}


# ---- A17 ----

def driver_path():
    """Where the loader finds the driver."""
    with contextlib.suppress(OSError):
        ctypes.CDLL("libcuda.so.1")
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[5:]
        if path and "/libcuda.so" in path[0]:
            return path[0]
    return None


def whole_path(tools):
    path = driver_path()
    if not path:
        return {"status": "skip", "reason": "no driver"}
    command = [tools.program("driver-opened"), path]
    native = tools.alone(command)
    if native.result is None:
        return {"status": "skip", "reason": f"by itself: {native.said[-300:]}"}
    device = native.result["peak_bytes"] // 2
    got = tools.under(["--device-memory", str(device), "--host-memory", "4G"], command)
    row = row_of(native, got, peak_bytes=native.result["peak_bytes"], device_bytes=device)
    if got.result is None:
        return {**row, "reason": got.said}
    problems = []
    if got.result["answers"] != native.result["answers"]:
        problems.append("the results differ")
    seen = runner.counted(got.stats, "allocations")
    if seen < native.result["allocations"]:
        problems.append(f"{seen} allocations seen of {native.result['allocations']}")
    if shortfall(got):
        problems.append(shortfall(got))
    return {**row, **verdict(problems, path)}


# ---- A22 ----

def sanitizer(tools):
    """memcheck of a program that fits, under the library; and that it finds what it must in both."""
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(tool):
        return {"status": "skip", "reason": "compute-sanitizer is not installed"}
    command = [tool, "--tool", "memcheck", tools.program("runtime-static"), "4", "4"]
    native = tools.alone(command, 60)
    clean = "ERROR SUMMARY: 0 errors"
    if clean not in native.out + native.err:
        return {"status": "skip", "reason": f"by itself: {native.out[-200:]} {native.said[-200:]}"}
    got = tools.under([], command, 60)
    row = row_of(native, got)
    problems = []
    if clean not in got.out + got.err:
        problems.append(f"memcheck under sluice: {got.out[-300:]} {got.said[-300:]}")
    elif runner.result_of(got.out) != runner.result_of(native.out):
        problems.append("the results differ")
    elif runner.counted(got.stats, "allocations") == 0:
        problems.append("the library saw no allocation")
    nsys = shutil.which("nsys")
    note = "Nsight Systems was not tried" if nsys else "Nsight Systems is not installed"
    return {**row, **verdict(problems, note)}


# ---- A23 ----

ENDS = {"exception": 1, "exit": 3, "os-exit": 4, "fork": 0, "kill": -9}


def shared_memory():
    with contextlib.suppress(OSError):
        return set(os.listdir("/dev/shm"))
    return set()


def kill_when_ready(command, env, timeout):
    """Its exit status once it has said that it is ready and was killed; a text if it never was."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, env={**os.environ, **env},
                               start_new_session=True)
    try:
        end, seen, ended = time.monotonic() + timeout, b"", False
        while b"ready" not in seen and not ended:
            left = end - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                break
            piece = os.read(process.stdout.fileno(), 4096)
            seen, ended = seen + piece, not piece
        if b"ready" not in seen:
            return f"not ready to be killed: {seen[-200:].decode(errors='replace')}"
        process.kill()
        return process.wait(20)
    except subprocess.TimeoutExpired:
        return "killed, and still there after 20 s"
    finally:
        runner.group_end(process)
        process.wait()
        process.stdout.close()


def forks_differ(alone, forked):
    """What of the program that forks is not as it is alone: exit statuses of its children, what they say, arrays."""
    if not alone.result:
        return [f"fork, alone: {alone.said}"]
    if not forked.result:
        return [f"fork: no result: {forked.said}"]
    answers = forked.result["answers"]
    return [f"fork: {name} differ: {answers.get(name)}, alone {answer}"[:500]
            for name, answer in alone.result["answers"].items() if answers.get(name) != answer]


def end_options(way):
    """With its cache off, as `sluice run` has it, PyTorch frees in a child what its parent had, and NVIDIA's runtime
    refuses a child that, also without us: so the program that forks keeps its cache."""
    return ["--no-framework", "pytorch"] if way == "fork" else []


def ends(tools):
    before = shared_memory()
    command = [PYTHON, str(PROGRAMS / "accept" / "exits.py")]
    budgets = ["--device-memory", "256M", "--host-memory", "256M", "--quiet"]
    timeout = tools.context.left(60)
    folders, jobs, start = {}, {}, time.perf_counter()
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(len(ENDS) + 1) as pool:
        native = pool.submit(tools.alone, [*command, "fork"], 60)
        for way in ENDS:
            folders[way] = tools.scratch / f"spill-{way}"
            folders[way].mkdir(exist_ok=True)
            options = [*budgets, *end_options(way), "--spill-dir", str(folders[way])]
            if way == "kill":
                jobs[way] = pool.submit(kill_when_ready,
                                        runner.sluice(tools.build, options, [*command, way]),
                                        tools.env, timeout)
            else:
                jobs[way] = pool.submit(tools.under, options, [*command, way], 60)
    problems, stats = [], []
    for way, wanted in ENDS.items():
        got = jobs[way].result()
        status = got if way == "kill" else got.status
        if status != wanted:
            problems.append(f"{way}: exit status {status}, not {wanted}"
                            + ("" if way == "kill" else f" ({got.err[-200:].strip()})"))
        if way != "kill":
            stats += got.stats
        left = os.listdir(folders[way])
        if left:
            problems.append(f"{way}: files are left: {left[:3]}")
    alone = native.result()
    problems += forks_differ(alone, jobs["fork"].result())
    new = shared_memory() - before
    if new:
        problems.append(f"left in /dev/shm: {sorted(new)[:3]}")
    spilled = runner.moved(stats)
    if not spilled["disk_out"]:
        problems.append("nothing was spilled")
    return {"native_seconds": alone.seconds, "seconds": time.perf_counter() - start,
            "in_bytes": spilled["in"], "out_bytes": spilled["out"],
            "disk_out_bytes": spilled["disk_out"], **verdict(problems)}


# ---- A24 ----

def stress(tools):
    """Half of what it holds fits; beside it one that goes to the disk as well."""
    seconds, seed = tools.context.stress or 20, tools.context.seed
    command = [PYTHON, str(PROGRAMS / "accept" / "stress.py"), "--seconds", str(seconds),
               "--seed", str(seed)]
    got = tools.under(["--device-memory", "384M", "--host-memory", "512M"], command, seconds + 60)
    row = row_of(None, got, device_bytes=384 * MIB)
    if got.result is None:
        return {**row, "reason": got.said}
    result, problems = got.result, []
    if shortfall(got):
        problems.append(shortfall(got))
    return {**row, "peak_bytes": result["peak_bytes"], **verdict(
        problems, f"seed {seed}: {result['steps']} steps, {result['checked_bytes'] / GIB:.1f} GiB "
        "compared")}


# ---- A25 ----

LOOK = ("import os; print([l for l in open('/proc/self/status') if l.startswith('Threads')], "
        "len(os.listdir('/proc/self/fd')))")


def start(command, env):
    """(seconds, pages touched) of one process."""
    begin = time.perf_counter()
    pid = os.posix_spawn(command[0], command, env)
    _, status, used = os.wait4(pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        raise RuntimeError(f"{command[0]}: wait status {status}")
    return seconds, used.ru_minflt


def start_up(tools):
    """Counts decide: threads, open files, pages, output. The time is told."""
    plan = subprocess.run([str(tools.build / "tools" / "sluice"), "run", "--dry-run", "--json", "--",
                           "true"], capture_output=True, text=True, timeout=20, check=True)
    plain = dict(os.environ)
    with_us = {**plain, **{v["name"]: v["value"] for v in json.loads(plan.stdout)["environment"]}}
    problems = []
    for command in ([PYTHON, "-c", LOOK], ["/bin/sh", "-c", "echo $$ >/dev/null; echo out; exit 0"]):
        texts = [subprocess.run(command, env=e, capture_output=True, text=True, timeout=20)
                 for e in (plain, with_us)]
        if texts[0].stdout != texts[1].stdout or texts[0].stderr != texts[1].stderr:
            problems.append(f"{command[0]}: {texts[1].stdout} {texts[1].stderr}, not {texts[0].stdout}")
    runs = {"plain": [], "with": []}
    program = shutil.which("true")
    for _ in range(STARTS):
        runs["plain"].append(start([program], plain))
        runs["with"].append(start([program], with_us))
    middle = {k: [statistics.median(r[i] for r in v) for i in (0, 1)] for k, v in runs.items()}
    more_ms = (middle["with"][0] - middle["plain"][0]) * 1e3
    more_pages = middle["with"][1] - middle["plain"][1]
    if more_pages > FAULTS_MOST:
        problems.append(f"{more_pages:.0f} pages more are touched, over {FAULTS_MOST}")
    return {"more_ms": more_ms, "more_pages": more_pages,
            **verdict(problems, f"{more_ms:.3f} ms and {more_pages:.0f} pages more at start, "
                      f"medians of {STARTS}")}

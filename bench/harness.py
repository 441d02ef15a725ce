# SPDX-License-Identifier: Apache-2.0
"""What the benchmark scripts share: child processes with a time limit, the data file, the memory
cgroup, a description of the machine, markdown tables and the documents they are written into.

A benchmark program measures one variant once and prints one JSON object. Measuring here means:
run all cases in turn, again and again (interleaved, so that a disturbance hits all of them), drop
the first round, and give median, minimum and maximum of the rest.

Everything made on disk or in /sys is gone at exit and after SIGINT, SIGTERM or SIGHUP; files of a
run that was killed are removed by the next one. Python 3 standard library only.
"""

import datetime
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys

CHILD_EXIT_SKIPPED = 77


class Skipped(Exception):
    """Cannot be measured here; the text says why."""


class Failed(Exception):
    """A child failed, or its result was wrong."""


def log(text):
    print(text, file=sys.stderr, flush=True)


def signals_to_exit():
    """Let SIGTERM and SIGHUP end the script as SIGINT does: through every `finally`."""

    def leave(number, _frame):
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, leave)


def child_json(command, timeout_s):
    """Run a command that prints one JSON document. It is killed after timeout_s, and when we end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            out, errors = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            child.kill()
            raise Failed(f"{' '.join(command)}: not done after {timeout_s} s") from None
        except BaseException:
            child.kill()
            raise
    if child.returncode == CHILD_EXIT_SKIPPED:
        raise Skipped(errors.strip())
    if child.returncode:
        raise Failed(f"{' '.join(command)}: exit code {child.returncode}: {errors.strip()}")
    try:
        return json.loads(out)
    except ValueError:
        raise Failed(f"{' '.join(command)}: not JSON: {out[:200]!r}") from None


class DataFile:
    """The file that benchmarks stream over, made once per run of the script."""

    PATTERN = re.compile(r"sluice-bench-(\d+)\.dat(\.new)?$")

    def __init__(self, directory, program, size_bytes):
        self.directory = directory
        self.program = program
        self.size_bytes = size_bytes
        self.path = os.path.join(directory, f"sluice-bench-{os.getpid()}.dat")

    def __enter__(self):
        self._remove_stale()
        # mmap-new writes a second file of the same size; a little must stay free.
        needed = 2 * self.size_bytes + (1 << 30)
        free = shutil.disk_usage(self.directory).free
        if free < needed:
            raise Failed(
                f"{self.directory}: {free / 2**30:.1f} GiB are free, {needed / 2**30:.1f} GiB are "
                "needed (two files and 1 GiB): choose another --dir or a smaller --size"
            )
        # A new file of ours, not one that somebody put there: its name can be guessed.
        os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make(self):
        """Make the file, or make it again."""
        log(f"making {self.path}, {self.size_bytes / 2**30:.1f} GiB")
        command = [self.program, "--file", self.path, "--size", str(self.size_bytes), "--create"]
        try:
            subprocess.run(command, check=True, timeout=600)
        except (subprocess.SubprocessError, OSError) as error:
            raise Failed(f"{self.path}: {error}") from None

    def __exit__(self, *_):
        for path in (self.path, self.path + ".new"):
            if os.path.exists(path):
                os.unlink(path)

    def _remove_stale(self):
        for name in os.listdir(self.directory):
            match = self.PATTERN.match(name)
            path = os.path.join(self.directory, name)
            if match and not os.path.exists(f"/proc/{match[1]}"):
                if os.lstat(path).st_uid == os.geteuid():  # another user's is his to remove
                    os.unlink(path)


class Cgroup:
    """A memory cgroup (v1 or v2) below the one that we are in. path is None where the system lets
    us make none; reason says why."""

    def __init__(self, limit_bytes):
        self.limit_bytes = limit_bytes
        self.path = None
        self.reason = ""

    def __enter__(self):
        try:
            parent, limit = self._parent()
            self.path = os.path.join(parent, f"sluice-bench-{os.getpid()}")
            os.mkdir(self.path)
            with open(os.path.join(self.path, limit), "w", encoding="ascii") as file:
                file.write(str(self.limit_bytes))
        except OSError as error:
            self.__exit__()
            self.path = None
            self.reason = f"no memory cgroup can be made ({error}); mmap needs one as its limit"
        return self

    def __exit__(self, *_):
        if self.path and os.path.isdir(self.path):
            os.rmdir(self.path)

    @staticmethod
    def _parent():
        with open("/proc/self/cgroup", encoding="ascii") as file:
            groups = [line.rstrip("\n").split(":", 2) for line in file]
        with open("/proc/self/mounts", encoding="utf-8") as file:
            mounts = [line.split()[1:4] for line in file]
        for _, controllers, path in groups:
            for where, kind, options in mounts:
                if kind == "cgroup" and "memory" in controllers.split(","):
                    if "memory" in options.split(","):
                        return where + path, "memory.limit_in_bytes"
                elif kind == "cgroup2" and not controllers:
                    with open(f"{where}{path}/cgroup.subtree_control", encoding="ascii") as file:
                        if "memory" in file.read().split():
                            return where + path, "memory.max"
        raise OSError("the memory controller is not given to groups below ours")


def _first(path, pattern, default):
    try:
        with open(path, encoding="utf-8") as file:
            match = re.search(pattern, file.read(), re.M)
    except OSError:
        return default
    return match[1].strip() if match else default


def readahead_kib(directory):
    """Read-ahead of the disk under a directory; None when it is not known."""
    device = os.stat(directory).st_dev
    value = _first(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb", r"(\d+)", None)
    return None if value is None else int(value)


def machine(directory):
    """One sentence about the machine."""
    where, kind, device = "", "unknown file system", ""
    with open("/proc/self/mounts", encoding="utf-8") as file:
        for line in file:
            source, mount, fstype = line.split()[:3]
            inside = os.path.realpath(directory).startswith(mount.rstrip("/") + "/")
            if inside and len(mount) >= len(where):
                where, kind, device = mount, fstype, source
    memory_kib = int(_first("/proc/meminfo", r"^MemTotal:\s*(\d+)", "0"))
    cpu = _first("/proc/cpuinfo", r"^model name\s*:\s*(.*)$", platform.machine())
    hypervisor = " (virtual machine)" if re.search(
        r"\bhypervisor\b", _first("/proc/cpuinfo", r"^flags\s*:\s*(.*)$", "")) else ""
    return (
        f"{cpu}, {os.cpu_count()} CPUs{hypervisor}, {memory_kib / 2**20:.0f} GiB memory, "
        f"Linux {platform.release()}, {kind} on {device}, read-ahead {readahead_kib(directory)} KiB"
    )


def today():
    return datetime.date.today().isoformat()


class Case:
    """One row's command and what came of it."""

    def __init__(self, key, label, command, skip=None):
        self.key = key
        self.label = label
        self.command = command
        self.skip = skip  # why it is not run
        self.failed = False
        self.results = []

    def values(self, field):
        return [result[field] for result in self.results]

    def median(self, field):
        return statistics.median(self.values(field)) if self.results else None

    def spread(self, field, form="{:.2f}"):
        """"median (min-max)", or why there is none."""
        if not self.results:
            return "failed" if self.failed else "skipped"
        values = self.values(field)
        if len(values) == 1:
            return form.format(values[0])
        low, high = form.format(min(values)), form.format(max(values))
        return f"{form.format(self.median(field))} ({low}\u2013{high})"


def measure(cases, rounds, timeout_s, discard=1, repair=None):
    """Run all cases in turn, `discard` rounds that do not count and `rounds` that do. A case that
    cannot be run here is skipped. One that fails loses its results and is not run again; repair()
    then puts right what it may have left behind."""
    for number in range(discard + rounds):
        for case in cases:
            if case.skip:
                continue
            try:
                result = child_json(case.command, timeout_s)
            except Skipped as reason:
                case.skip = str(reason)
                continue
            except Failed as error:
                case.skip = "**failed**"
                case.failed = True
                case.results = []
                log(f"  {case.label}: FAILED: {error}")
                if repair:
                    repair()
                continue
            if number >= discard:
                case.results.append(result)
        log(f"  round {number + 1} of {discard + rounds} done")
    for case in cases:
        if case.skip and not case.failed:
            log(f"  {case.label}: skipped: {case.skip}")


def ratio(case, peer, field):
    """Ratio of medians; None when one was skipped."""
    if not case or not peer or not case.results or not peer.results:
        return None
    return case.median(field) / peer.median(field)


def percent(value):
    return "\u2013" if value is None else f"{100 * value:.0f} %"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


class Figure:
    """A figure to reach: measured value against its goal."""

    def __init__(self, text, value, goal, unit="x", at_most=False):
        self.text = text
        self.value = value
        self.goal = goal
        self.unit = unit
        self.at_most = at_most

    def reached(self):
        return self.value <= self.goal if self.at_most else self.value >= self.goal

    def row(self):
        bound = "at most" if self.at_most else "at least"
        goal = f"{bound} {self.goal:g} {self.unit}"
        if self.value is None:
            return [self.text, goal, "not measured here", "\u2013"]
        return [self.text, goal, f"{self.value:.3g} {self.unit}", "yes" if self.reached() else "**no**"]


FIGURES_HEAD = ["figure", "goal", "measured", "reached"]


def replace_between(path, name, text):
    """Put text between <!-- name --> and <!-- /name --> of a file. False: no such markers."""
    with open(path, encoding="utf-8") as file:
        old = file.read()
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if begin not in old or end not in old:
        return False
    before, rest = old.split(begin, 1)
    after = rest.split(end, 1)[1]
    new = f"{before}{begin}\n{text.strip()}\n{end}{after}"
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.write(new)
    shutil.copymode(path, path + ".tmp")
    os.replace(path + ".tmp", path)
    return True


def headlines_comment(rows):
    """Rows for the summary in the README, kept unseen in the document."""
    return "\n".join(["<!-- headlines", *("| " + " | ".join(row) + " |" for row in rows), "-->"])


def headlines_of_document(path):
    """The rows that headlines_comment() left in a document, in its order."""
    rows, inside = [], False
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("<!-- headlines"):
                inside = True
            elif line.startswith("-->"):
                inside = False
            elif inside:
                rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return rows

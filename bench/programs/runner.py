# SPDX-License-Identifier: Apache-2.0
"""What the scripts of this folder share: running a program by itself and under `sluice run`, reading
what it printed, its statistics, and writing a table between two marks of a page.

A program prints its results as one line of JSON, the last line that begins with a brace. A run has a
process group of its own, which ends with it: a program that outlasts its time leaves nothing behind.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import tempfile
import time

SAID_BYTES = 2000  # of what a program said on stderr: our lines, and the end of the others
LAST_SECONDS = 2  # from being asked to end to being killed
NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"


@dataclasses.dataclass
class Outcome:
    result: dict | None = None  # what it printed; None: nothing, or it failed
    seconds: float = 0.0
    status: int | None = None  # None: it did not end in time
    out: str = ""
    err: str = ""
    stats: list = dataclasses.field(default_factory=list)  # one of each process that used a GPU

    @property
    def said(self):
        end = "no end in time" if self.status is None else f"exit status {self.status}"
        lines = self.err.splitlines()
        ours = "\n".join(line for line in lines if line.startswith("sluice"))[:SAID_BYTES]
        others = "\n".join(line for line in lines if not line.startswith("sluice"))[-SAID_BYTES:]
        return f"{end}; " + "\n".join(part for part in (ours, others.strip()) if part)


def group_end(process):
    """Whatever is left of a program and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def result_of(out):
    for line in reversed(out.splitlines()):
        if line.startswith("{"):
            with contextlib.suppress(ValueError):
                return json.loads(line)
    return None


class Running:
    """A program that has been started. talks: it has a pipe for its input, which release() closes."""

    def __init__(self, command, env=None, cwd=None, talks=False):
        self.start = time.perf_counter()
        self.seconds = None  # until it ended
        with contextlib.ExitStack() as files:
            self.out = files.enter_context(tempfile.TemporaryFile("w+", errors="replace"))
            self.err = files.enter_context(tempfile.TemporaryFile("w+", errors="replace"))
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                                            stdout=self.out, stderr=self.err,
                                            env={**os.environ, **(env or {})}, cwd=cwd,
                                            start_new_session=True)
            files.pop_all()

    def printed(self):
        """What it has printed so far. It writes at the position of the file, which stays."""
        return os.pread(self.out.fileno(), 1 << 20, 0).decode(errors="replace")

    def has_ended(self):
        if self.seconds is None and self.process.poll() is not None:
            self.seconds = time.perf_counter() - self.start
        return self.seconds is not None

    def release(self):
        if self.process.stdin:
            self.process.stdin.close()

    def end(self, timeout):
        """Its outcome. What outlasts the time is ended."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
            self.process.terminate()  # one that has started others, elsewhere, can end them
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(LAST_SECONDS)
        finally:
            group_end(self.process)
            self.process.wait()
        self.release()
        seconds = time.perf_counter() - self.start if self.seconds is None else self.seconds
        with self.out, self.err:
            self.out.seek(0)
            self.err.seek(0)
            outcome = Outcome(None, seconds, status, self.out.read(), self.err.read())
        if status == 0:
            outcome.result = result_of(outcome.out)
        return outcome


def run(command, env=None, timeout=240, cwd=None):
    return Running(command, env, cwd).end(timeout)


def gpus_name():
    try:
        p = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
                           capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return p.stdout.splitlines() if p.returncode == 0 else []


def machine():
    """Its GPU, CPUs and kernel, for the head of a table."""
    return f"{(gpus_name() or ['no GPU'])[0]}, {os.cpu_count()} CPUs, Linux {platform.release()}"


def sluice(build, options, command):
    return [str(build / "tools" / "sluice"), "run", *options, "--", *command]


def stats_of(folder):
    """The statistics that processes have left there."""
    found = []
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        with contextlib.suppress(ValueError):
            found.append(json.loads(path.read_text()))
    return found


def run_under(build, options, command, **how):
    """Under `sluice run`, with the statistics of every process."""
    with tempfile.TemporaryDirectory(prefix="sluice-stats-") as folder:
        stats = ["--stats", str(pathlib.Path(folder) / "%p.json")]
        outcome = run(sluice(build, [*stats, *options], command), **how)
        outcome.stats = stats_of(folder)
    return outcome


def compile_cuda(source, path, more, timeout=120):
    """source, C or CUDA, to the program or library path. It finds the toolkit's libraries."""
    path.parent.mkdir(parents=True, exist_ok=True)
    toolkit = pathlib.Path(NVCC).resolve().parent.parent
    words = [NVCC, "-O2", "-arch=sm_90", "-o", str(path), str(source), *more]
    for folder in ("lib64", "lib"):  # as it is installed, or comes in a Python package
        words += [f"-L{toolkit / folder / 'stubs'}", "-Xlinker", f"-rpath={toolkit / folder}"]
    done = run(words, timeout=timeout)
    if done.status != 0:
        raise RuntimeError(f"{source.name} cannot be compiled: {done.out[-300:]} {done.said}")


CAUSES = {"in": "h2d_", "out": "d2h_", "disk_in": "store_read_", "disk_out": "store_write_"}


def moved(stats):
    """Bytes over the link and to and from disk, of all processes and GPUs, and by cause."""
    total = {key: 0 for key in CAUSES}
    causes = {}
    for process in stats:
        for gpu in process["gpus"]:
            for name, value in gpu["counters"].items():
                for key, prefix in CAUSES.items():
                    if name.startswith(prefix):
                        total[key] += value
                        causes[name] = causes.get(name, 0) + value
    # What compression spared the link is counted as moved above.
    for key, name in (("in", "compress_in_saved"), ("out", "compress_out_saved")):
        total[f"{key}_saved"] = sum(gpu["counters"].get(name, 0) for process in stats for gpu in process["gpus"])
    total["causes"] = {name: value for name, value in causes.items() if value}
    return total


def counted(stats, name):
    """A counter of the library, over all processes."""
    return sum(process["counters"].get(name, 0) for process in stats)

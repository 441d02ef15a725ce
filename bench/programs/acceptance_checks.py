# SPDX-License-Identifier: Apache-2.0
"""The checks of bench/programs/acceptance: which programs, with how much memory, and what must hold.
A check is a program that must answer as it does alone (Same), or a function of its own."""

import dataclasses
import importlib.util
import os
import pathlib
import re
import sys

import acceptance_own as own
import runner

ACCEPT = pathlib.Path(__file__).resolve().parent / "accept"
PROGRAMS = ACCEPT.parent
PYTHON = sys.executable
GIB, MIB = 1 << 30, 1 << 20
TOLERANCE = 4  # times what two runs of a program by itself differ by

# name: source, more arguments of nvcc
BUILDS = {
    "streams-legacy": (ACCEPT / "streams.cu", []),
    "streams-per-thread": (ACCEPT / "streams.cu", ["--default-stream", "per-thread"]),
    "pluggable.so": (ACCEPT / "pluggable.cu", ["-shared", "-Xcompiler", "-fPIC"]),
    "runtime-static": (ACCEPT / "runtime.cu", ["-cudart", "static"]),
    "runtime-shared": (ACCEPT / "runtime.cu", ["-cudart", "shared"]),
    "mathlibs": (ACCEPT / "mathlibs.cu", ["-lcublas", "-lcusparse", "-lcurand"]),
    "libraries": (PROGRAMS / "libraries.cu", ["-lcufft", "-lcusolver"]),
    "driver-linked": (ACCEPT / "driver.cu", ["-DLINKED", "-lcuda"]),
    "driver-opened": (ACCEPT / "driver.cu", ["-ldl"]),
}

# What makes runs comparable, and keeps several of them beside each other.
ENVIRONMENT = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_deterministic_ops=true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "OMP_NUM_THREADS": "4",
    "PYTHONDONTWRITEBYTECODE": "1",
}
# Caches of compiled code: the run that comes second need not compile again.
CACHES = {"TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor",
          "CUPY_CACHE_DIR": "cupy"}


def program_build(context, name):
    """Path of a program of BUILDS; built once."""
    def make():
        path = context.scratch / name
        source, more = BUILDS[name]
        runner.compile_cuda(source, path, more, context.left(120))
        return path
    return context.once(context.builds, name, make)


def environment(context, more):
    caches = {name: str(context.scratch / folder) for name, folder in CACHES.items()}
    return {**ENVIRONMENT, **caches, **more}


def missing(check):
    """What this machine has not, or ""."""
    for module in check.needs:
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    if check.builds and not os.path.exists(runner.NVCC):
        return "no nvcc"
    return ""


# ---- what two runs answered ----

def is_error(answer):
    return isinstance(answer, dict) and "error" in answer


def brief(error):
    """Without the folders of the run, and no longer than a cell may be."""
    return re.sub(r"/\S*/", "", error)[:80]


def numbers_of(answer):
    """Its numbers, or None where there are other things."""
    if isinstance(answer, bool) or answer is None or isinstance(answer, str):
        return None
    if isinstance(answer, (int, float)):
        return [float(answer)]
    if isinstance(answer, list):
        parts = [numbers_of(a) for a in answer]
        return None if None in parts else [n for part in parts for n in part]
    return None


def difference(a, b):
    """The largest relative difference of numbers."""
    return max((abs(x - y) / max(abs(x), abs(y), 1e-30) for x, y in zip(a, b)), default=0.0)


def is_within(answer, again, got):
    """Is got as near to answer as again, the program's own second run, is?"""
    a, b, c = numbers_of(answer), numbers_of(again), numbers_of(got)
    if a is None or b is None or c is None or not len(a) == len(b) == len(c):
        return False
    return difference(a, c) <= TOLERANCE * difference(a, b)


def compare(answers, got, again):
    """(cases that differ, cases equal within the program's own spread, cases that fail alone).
    again(): answers of a second run by itself."""
    wrong, near, failing, second = [], [], [], None
    for name, answer in answers.items():
        if is_error(answer):
            failing.append(name)
            continue
        if got.get(name) == answer:
            continue
        if second is None:
            second = again()
        if second.get(name) != answer and is_within(answer, second.get(name), got.get(name)):
            near.append(name)
        elif is_error(got.get(name)):
            wrong.append(f"{name} ({got[name]['error']})")
        else:
            wrong.append(name)
    return wrong, near, failing


@dataclasses.dataclass
class Check:
    id: str
    what: str
    needs: tuple = ()
    builds: tuple = ()
    alone: bool = False  # not beside others
    cost: int = 1  # seconds, roughly: what is long begins first
    gpus: int = 1


@dataclasses.dataclass
class Own(Check):
    """A check that is a function: own.py has them. It gives what a row is updated with."""
    call: object = None
    more: tuple = ()

    def run(self, context):
        tools = own.Tools(context, environment(context, {}),
                          lambda name: str(program_build(context, name)))
        return self.call(tools, *self.more)


@dataclasses.dataclass
class Same(Check):
    """A program that must answer under `sluice run` as it does alone."""
    command: tuple = ()  # the first word: a program of BUILDS, or a file of accept/
    env: dict = dataclasses.field(default_factory=dict)
    reference: tuple = None  # what is run alone, where that is another command
    share: float = 0.5  # of its peak is the device budget
    device: int = None  # bytes of it instead
    options: tuple = ()
    timeout: float = 100
    judge: object = None  # (result, outcome) -> what is wrong, or ""

    def words(self, context, command):
        first, *rest = command
        rest = [r.format(scratch=context.scratch) for r in rest]
        if first in BUILDS:
            return [str(program_build(context, first)), *rest]
        if first.endswith(".py"):
            return [PYTHON, str(ACCEPT / first), *rest]
        return [first, *(str(ACCEPT / r) if r.endswith(".py") else r for r in rest)]

    def run(self, context):
        for name in self.builds:
            program_build(context, name)
        env = environment(context, self.env)
        alone = self.words(context, self.reference or self.command)
        alone_env = environment(context, {}) if self.reference else env
        native = context.native(alone, alone_env, self.timeout)
        if native.result is None:
            end = "fail" if native.status is None else "skip"
            return {"status": end, "reason": f"by itself: {native.said[-300:]}"}
        peak = native.result["peak_bytes"]
        device = self.device or int(peak * self.share)
        got = runner.run_under(
            context.build, ["--device-memory", str(device), "--host-memory",
                            str(max(2 * peak, 2 * GIB)), *self.options],
            self.words(context, self.command), env=env, timeout=context.left(self.timeout),
            cwd=context.scratch)
        row = {"native_seconds": native.seconds, "seconds": got.seconds, "peak_bytes": peak,
               "device_bytes": device, "options": list(self.options), **own.traffic(got)}
        if got.result is None:
            return {**row, "reason": got.said}

        def again():
            second = runner.run(alone, alone_env, context.left(self.timeout), context.scratch)
            return second.result["answers"] if second.result else {}

        answers = native.result["answers"]
        wrong, near, failing = compare(answers, got.result["answers"], again)
        notes = []
        if near:
            notes.append("not the same in two runs by itself, and within that: " + ", ".join(near))
        if failing:
            notes.append("by itself fails: " + ", ".join(
                f"{n} ({brief(answers[n]['error'])})" for n in failing))
        judged = self.judge(native.result, got) if self.judge else ""
        if wrong:
            notes.insert(0, "differs: " + ", ".join(wrong))
        if judged:
            notes.insert(0, judged)
        short = own.shortfall(got)
        if short:
            notes.insert(0, short)
        row["cases"] = len(answers)
        row["reason"] = "; ".join(notes)
        row["status"] = ("fail" if wrong or judged or short
                         else "skip" if len(failing) == len(answers) else "pass")
        return row


# ---- judges ----

def allocations_seen(native, got):
    """Is every allocation that the program counts in our statistics?"""
    seen = runner.counted(got.stats, "allocations")
    wanted = native.get("allocations", 0)
    return "" if seen >= wanted > 0 else f"{seen} allocations seen of {wanted}"


def shared_or_refused(native, got):
    """Memory given to another process arrives, or is refused in words."""
    if got.result.get("shared") == native.get("shared"):
        return ""
    if "cannot be shared with another process" in got.err:
        return ""
    return f"sharing with a process: {got.result.get('shared')}, and nothing was said"


def segments_told(native, got):
    """Memory that cannot be moved is not made, and that is said."""
    return "" if "expandable_segments set to False" in got.err else "expandable segments: nothing was said"


TORCH, CUPY, JAX = ("torch",), ("cupy",), ("jax",)
CACHING = ("--no-framework", "pytorch")
MATRICES = ("elementwise.py",)


def allocator(what, command=MATRICES, env=None, options=(), **more):
    return Same("A8", f"PyTorch's allocator: {what}", needs=TORCH, command=command, env=env or {},
                reference=MATRICES, share=1 / 3, options=options, cost=20, **more)


def jax_check(what, env, cases=(), cost=25, **more):
    return Same("A15", f"JAX: {what}", needs=JAX, command=("jax_cases.py", *cases), env=env,
                cost=cost, **more)


CHECKS = [
    Own("A1", "PyTorch when all fits: transformer of 1.3 B parameters", TORCH, alone=True,
        call=own.in_core, more=(["gpt", "--batch", "4", "--iterations", "10"],)),
    Own("A1", "PyTorch when all fits: ResNet-50", TORCH + ("torchvision",), alone=True,
        call=own.in_core, more=(["resnet50", "--batch", "64", "--iterations", "30"],)),
    Own("A1", "what a launch costs its thread", builds=("driver-linked",), alone=True,
        call=own.launch_cost),
    Same("A2", "PyTorch: elementwise work and products, 3 x the budget", TORCH, command=MATRICES,
         share=1 / 3, cost=20),
    Same("A3", "PyTorch: 50 steps, AdamW fused", TORCH, command=("optimizers.py", "fused"), cost=60),
    Same("A3", "PyTorch: 50 steps, AdamW foreach", TORCH, command=("optimizers.py", "foreach"),
         cost=60),
    Same("A4", "PyTorch: batched linear algebra, sorts, indices", TORCH, command=("linalg.py",),
         device=384 * MIB, cost=50),
    Same("A5", "PyTorch: convolutions, attention, recurrent layers", TORCH, command=("networks.py",),
         device=512 * MIB, cost=50),
    Same("A6", "PyTorch: 100 replays of a CUDA graph, reduce-overhead", TORCH, command=("graphs.py",),
         device=512 * MIB, options=CACHING, cost=80, timeout=150),
    Same("A7", "torch.compile, Triton, descriptors, cooperative and dependent launches",
         TORCH + ("triton",), command=("compiled.py",), device=512 * MIB, cost=90, timeout=150),
    allocator("as sluice run sets it"),
    allocator("caching", options=CACHING),
    allocator("cudaMallocAsync", env={"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"},
              options=CACHING),
    allocator("expandable segments", env={"PYTORCH_ALLOC_CONF": "expandable_segments:True"},
              options=CACHING, judge=segments_told),
    allocator("MemPool", command=(*MATRICES, "--pool"), options=CACHING),
    allocator("pluggable", command=(*MATRICES, "--pluggable", "{scratch}/pluggable.so"),
              builds=("pluggable.so",)),
    Own("A9", "PyTorch: memory queries, out of memory (caching)", TORCH, cost=30, call=own.limits,
        more=(list(CACHING), ["torch.OutOfMemoryError"])),
    Own("A9", "PyTorch: memory queries, out of memory (as sluice run sets it)", TORCH, cost=30,
        call=own.limits, more=([], ["torch.OutOfMemoryError", "torch.AcceleratorError"])),
    Same("A10", "4 threads, 12 streams, legacy default stream", command=("streams-legacy",),
         builds=("streams-legacy",), cost=10),
    Same("A10", "4 threads, 12 streams, default stream of each thread",
         command=("streams-per-thread",), builds=("streams-per-thread",), cost=10),
    # With its caching, or PyTorch itself refuses, and never asks the driver for a handle.
    Same("A11", "DataLoader with forked and spawned workers, tensors to a process", TORCH,
         command=("workers.py",), options=CACHING, judge=shared_or_refused, cost=50),
    Same("A12", "NCCL on two GPUs: collectives, DDP, FSDP, registered buffers", TORCH, gpus=2,
         command=(PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                  "distributed.py"), device=384 * MIB, timeout=160, cost=60),
    Same("A13", "CuPy: core, linalg, fft, kernels, pools, asynchronous, managed", CUPY,
         command=("cupy_cases.py",), device=256 * MIB, cost=60, timeout=150),
    Same("A14", "CuPy: sort, fft, products, solves, 3 x the budget", CUPY, command=("cupy_arrays.py",),
         share=1 / 3, cost=30),
    # Pools hand out parts of large blocks, so that each launch uses a whole one: slow, hence few cases. The
    # arena is larger than the arrays, and must fit device and host memory.
    jax_check("an arena at the start", {"XLA_PYTHON_CLIENT_PREALLOCATE": "true",
                                        "XLA_PYTHON_CLIENT_MEM_FRACTION": ".03"},
              cases=("matmul", "scan"), options=("--host-memory", "6G"), cost=50),
    jax_check("its pool, as needed", {"XLA_PYTHON_CLIENT_ALLOCATOR": "default"},
              cases=("matmul", "scan"), cost=50),
    jax_check("as sluice run sets it", {}),
    jax_check("cuda_async allocator", {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"}),
    jax_check("command buffers for everything",
              {"XLA_FLAGS": ENVIRONMENT["XLA_FLAGS"] + " --xla_gpu_graph_min_graph_size=1"}),
    Same("A16", "cuFFT, cuSOLVER", command=("libraries", "8", "128"), builds=("libraries",), cost=15),
    Same("A16", "cuRAND, cuSPARSE, cuBLAS batched, strided, grouped", command=("mathlibs",),
         builds=("mathlibs",), cost=10),
    Same("A17", "driver program, linked", command=("driver-linked", "-"), builds=("driver-linked",),
         judge=allocations_seen, cost=5),
    Same("A17", "driver program that opens libcuda.so.1", command=("driver-opened", "libcuda.so.1"),
         builds=("driver-opened",), judge=allocations_seen, cost=5),
    Same("A17", "driver program that opens libcuda.so", command=("driver-opened", "libcuda.so"),
         builds=("driver-opened",), judge=allocations_seen, cost=5),
    Own("A17", "driver program that opens a whole path", builds=("driver-opened",), cost=5,
        call=own.whole_path),
    Same("A17", "runtime program, static runtime", command=("runtime-static",),
         builds=("runtime-static",), judge=allocations_seen, cost=10),
    Same("A17", "runtime program, shared runtime", command=("runtime-shared",),
         builds=("runtime-shared",), judge=allocations_seen, cost=10),
    Same("A21", "PyTorch, CuPy and JAX in one process, by DLPack", TORCH + CUPY + JAX,
         command=("three.py",), cost=40),
    Own("A22", "compute-sanitizer memcheck", builds=("runtime-static",), cost=20,
        call=own.sanitizer),
    Own("A23", "killed, exception, exit, _exit, fork: nothing is left", TORCH, alone=True,
        call=own.ends),
    Own("A24", "random program with shadow checks", TORCH, call=own.stress),
    Own("A25", "programs without CUDA: threads, files, start-up", alone=True, call=own.start_up),
]

# SPDX-License-Identifier: Apache-2.0
"""The Python module: what test_package.sh runs in an empty directory, with the installed package and
NumPy. Each function is a case; a case that ends, passes.
"""

import copy
import errno
import gc
import json
import os
import pickle
import random
import signal
import struct
import subprocess
import sys
import threading

import numpy as np

import sluice

MIB = 1 << 20
sluice.configure(device_budget="16M", host_budget="16M", readahead_chunks=4)


def fails(kind, part, call, *args, **words):
    try:
        call(*args, **words)
    except kind as error:
        assert part in str(error), f"no {part!r} in {error!s}"
        return error
    raise AssertionError(f"{call} did not raise {kind.__name__}")


def memory_larger_than_both_budgets_is_spilled():
    a = sluice.empty((8 * MIB,), "i8")
    assert a.dtype == np.int64 and not a[::4096].any()
    a[:] = np.arange(a.size)
    assert a.sum() == a.size * (a.size - 1) // 2
    where = a.residency()
    assert where["device"] + where["host"] + where["store"] == a.nbytes and where["store"] > 0, where
    stats = sluice.stats()
    assert stats["budget_bytes"]["device"] == 16 * MIB
    assert stats["resident_peak_bytes"]["device"] <= 16 * MIB
    assert stats["counters"]["store_write_spill"] > 0


def a_run_is_reported():
    pid, stream, moves = 77, 5000001, 5000002
    events = [{"ph": "M", "pid": pid, "tid": track, "name": "thread_name", "args": {"name": name}}
              for track, name in ((pid, "sluice"), (stream, "GPU 0 stream 1"), (moves, "GPU 0 copies in"))]
    events += [{"ph": "X", "pid": pid, "tid": moves, "cat": "move", "name": "launch", "ts": 100, "dur": 200,
                "args": {"bytes": MIB, "counter": "h2d_launch", "address": 4096, "launch": 1}},
               {"ph": "X", "pid": pid, "tid": stream, "cat": "kernel", "name": "first", "ts": 300, "dur": 700,
                "args": {"launch": 1, "thread": 9, "behind_call_us": 200}}]
    with open("run.json", "w") as file:
        json.dump({"traceEvents": events}, file)
    said = sluice.report("run.json", html="run.html")
    assert said["gpus"][0]["parts_ns"]["kernels"] == 700000 and said["gpus"][0]["parts_ns"]["wait_in"] == 200000, said
    assert os.path.getsize("run.html") > 1000
    assert fails(sluice.Error, "no-such.json", sluice.report, "no-such.json").errno == errno.EINVAL
    with open("cut.json", "w") as file:
        file.write("{")
    fails(sluice.Error, "cut.json", sluice.report, "cut.json")


def memory_goes_with_the_last_view():
    before = sluice.stats()["resident_bytes"]["device"]
    a = sluice.empty((4 * MIB,), "u1")
    a[:] = 7
    view = a[MIB:2 * MIB].reshape(1024, -1).T
    buffer = memoryview(a)[:10]
    plain = a.view(np.ndarray)[5:6]
    del a
    gc.collect()
    assert (view == 7).all() and bytes(buffer) == b"\7" * 10 and plain[0] == 7
    del view, buffer
    gc.collect()
    assert plain[0] == 7
    del plain
    gc.collect()
    assert sluice.stats()["resident_bytes"]["device"] <= before


def files_are_read_and_written():
    a = sluice.open("new.bin", "f4", (1000, 1000), "w+")
    a[:] = np.arange(1000000).reshape(1000, 1000)
    a.sync()
    assert (np.fromfile("new.bin", "f4").reshape(1000, 1000) == a).all()
    b = sluice.open("new.bin", "f4", (1000, 1000), "r+")
    del a
    b[3, 4] = -1
    b.flush()
    c = sluice.open("new.bin", "f4")
    assert c.shape == (1000000,) and c[3004] == -1 and not c.flags.writeable
    fails(ValueError, "read-only", c.__setitem__, 0, 1)
    del b, c
    d = sluice.open("new.bin", offset=4099)
    assert (d == np.fromfile("new.bin", "u1")[4099:]).all()
    e = sluice.open("new.bin", "f4", (3, 2), order="F", offset=4)
    assert e.flags.f_contiguous and e[0, 1] == 4.0
    sluice.open("new.bin", "u1", 10, "w+")
    gc.collect()
    assert os.path.getsize("new.bin") == 10


def a_file_larger_than_memory_is_updated_in_place():
    n = 80 * MIB // 8
    np.arange(n).tofile("large.bin")
    a = sluice.open("large.bin", "i8", mode="r+")
    assert a.sum() == n * (n - 1) // 2
    for at in range(0, n, MIB):
        a[at:at + MIB] += 1
    del a
    gc.collect()
    assert (np.fromfile("large.bin", "i8") == np.arange(n) + 1).all()
    os.unlink("large.bin")


def wrong_files_are_refused():
    os.mkdir("directory")
    open("empty", "wb").close()
    with open("short", "wb") as file:
        file.write(b"12345")
    assert fails(sluice.Error, "no-such-file", sluice.open, "no-such-file").errno == errno.ENOENT
    assert fails(sluice.Error, "directory", sluice.open, "directory").errno == errno.EISDIR
    assert fails(sluice.Error, "short", sluice.open, "short", "i8", 10).errno == errno.EFBIG
    assert isinstance(fails(sluice.Error, "", sluice.open, "no-such-file"), OSError)
    fails(sluice.Error, "directory", sluice.open, "directory", shape=3, mode="w+")
    fails(ValueError, "whole number", sluice.open, "short", "i8")
    fails(ValueError, "whole number", sluice.open, "empty")
    fails(ValueError, "mode 'c'", sluice.open, "short", mode="c")
    fails(ValueError, "shape is needed", sluice.open, "short", mode="w+")
    fails(ValueError, "negative", sluice.open, "short", offset=-1)
    fails(ValueError, "Python objects", sluice.empty, 3, object)
    fails(ValueError, "0 bytes", sluice.empty, (3, 0))
    fails(ValueError, "negative length", sluice.empty, (-1,))
    assert open("short", "rb").read() == b"12345"
    fails(sluice.Error, "memory is in use", sluice.configure, policy="lru")


def npy_files_are_read_in_place():
    for k, array in enumerate((np.arange(60.).reshape(3, 4, 5), np.asfortranarray(np.arange(12).reshape(3, 4)),
                               np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]))):
        np.save(f"{k}.npy", array)
        a = sluice.open(f"{k}.npy")
        assert a.dtype == array.dtype and a.shape == array.shape and (a == array).all()
        assert isinstance(a, sluice.Array) and a.residency()["pinned"] == 0
    assert sluice.open("0.npy", dtype="u1")[1:6].tobytes() == b"NUMPY"
    with open("0.npy", "r+b") as file:
        file.truncate(200)
    fails(sluice.Error, "0.npy", sluice.open, "0.npy")


def safetensors_are_read_in_place():
    x, y = np.arange(6, dtype="f4").reshape(2, 3), np.arange(5, dtype="i8")
    header = {"__metadata__": {"format": "pt"}, "x": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
              "y": {"dtype": "I64", "shape": [5], "data_offsets": [24, 64]},
              "none": {"dtype": "F16", "shape": [0, 4], "data_offsets": [64, 64]}}

    def write(path, header, data):
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)

    write("t.safetensors", header, x.tobytes() + y.tobytes())
    file = sluice.safetensors.open("t.safetensors")
    assert sorted(file) == ["none", "x", "y"] and len(file) == 3 and file.metadata == {"format": "pt"}
    assert (file["x"] == x).all() and (file["y"] == y).all() and file["none"].shape == (0, 4)
    assert isinstance(file["x"], sluice.Array) and not file["x"].flags.writeable
    fails(KeyError, "z", file.__getitem__, "z")
    write("cut.safetensors", header, x.tobytes())
    fails(ValueError, "cut.safetensors", sluice.safetensors.open, "cut.safetensors")
    write("odd.safetensors", {"x": {"dtype": "Q1", "shape": [1], "data_offsets": [0, 1]}}, b"1")
    fails(ValueError, "odd.safetensors", sluice.safetensors.open, "odd.safetensors")
    fails(ValueError, "no safetensors file", sluice.safetensors.open, "short")
    with open("t.safetensors", "r+b") as raw:
        raw.write(struct.pack("<Q", 1 << 60))
    fails(ValueError, "no safetensors file", sluice.safetensors.open, "t.safetensors")


def moves_change_places_and_nothing_else():
    a = sluice.empty((4 * MIB,), "u1")
    a[:] = 9
    a.evict("store")
    assert a.residency()["store"] == a.nbytes
    a.prefetch("host")
    a[2 * MIB:].evict("host")
    assert (a == 9).all()
    a.discard()
    assert a.residency()["empty"] == a.nbytes and not a.any()
    fails(ValueError, "gaps", a[::2].discard)
    fails(ValueError, "tier 'disk'", a.evict, "disk")
    fails(sluice.Error, "", a.evict, "device")
    fails(ValueError, "ordinary memory", a.view(np.ndarray).view(sluice.Array).sync)
    b = a[::-1][:10]
    assert b.residency()["device"] + b.residency()["empty"] == 10


def results_are_ordinary_arrays():
    a = sluice.empty((100,), "i4")
    a[:] = range(100)
    for result in (a + 1, a.copy(), a[[1, 2]], a[a > 3], copy.deepcopy(a), pickle.loads(pickle.dumps(a)),
                   np.sort(a).view(np.ndarray)):
        assert type(result) is np.ndarray, type(result)
    assert isinstance(a.sum(), np.integer) and isinstance(a[1], np.integer)
    assert (pickle.loads(pickle.dumps(a)) == a).all()
    a += 1
    assert isinstance(a, sluice.Array) and isinstance(a[1:3], sluice.Array) and a[5] == 6
    a[1:3].sync()


def limits_hold_for_a_while():
    a = sluice.empty((24 * MIB,), "u1")
    a[:] = 1
    with sluice.limits(device="8M", host=8 * MIB):
        stats = sluice.stats()
        assert stats["budget_bytes"]["device"] == stats["budget_bytes"]["host"] == 8 * MIB
        assert stats["resident_bytes"]["device"] <= 8 * MIB
        assert (a == 1).all()
    assert sluice.stats()["budget_bytes"]["device"] == 16 * MIB
    fails(sluice.Error, "budget", sluice.limits(device="2M").__enter__)
    assert sluice.stats()["budget_bytes"]["device"] == 16 * MIB
    fails(ValueError, "no size", sluice.limits(device="much").__enter__)


def threads_share_arrays():
    a = sluice.empty((4, 2 * MIB), "i8")
    sums = [0] * 4

    def work(k):
        a[k] = k
        for _ in range(3):
            a[k] += 1
        sums[k] = int(a[k].sum())

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [(k + 3) * 2 * MIB for k in range(4)]


def a_forked_child_leaves_the_parents_memory_alone():
    a = sluice.open("forked.bin", "u1", 3 * MIB, "w+")
    a[:] = 5
    child = os.fork()
    if not child:
        try:
            fails(sluice.Error, "", sluice.stats)
            del a
            gc.collect()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert (a == 5).all()
    a[0] = 6
    a.sync()
    assert open("forked.bin", "rb").read(2) == b"\6\5"


def what_is_left_at_the_end_is_in_the_file():
    for end in ("", "; sys.exit(3)", "; raise SystemExit(4)", "; b = a; a.me = [a]"):
        code = ("import sys, sluice; a = sluice.open('end.bin', 'u1', 5 << 20, 'w+'); a[:] = 3; "
                "keep = a[7:9]" + end)
        subprocess.run([sys.executable, "-c", code], timeout=60)
        data = np.fromfile("end.bin", "u1")
        assert data.size == 5 << 20 and (data == 3).all(), end
        os.unlink("end.bin")


def ended(code, status, part=""):
    """A process of its own that runs this ends so, and says that."""
    done = subprocess.run([sys.executable, "-c", "import sys, os, sluice\n" + code], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == status and part in done.stderr, (done.returncode, done.stderr)
    return done


def a_file_that_shrinks_ends_the_process_with_a_reason():
    for mode in ("r", "r+"):
        np.arange(MIB).tofile("shrinks.bin")
        ended(f"a = sluice.open('shrinks.bin', 'i8', mode='{mode}'); a[0]; os.truncate('shrinks.bin', 1 << 20); "
              "a.evict('store'); print(a.sum())", -signal.SIGBUS, "the file has become shorter than its mapping")
        assert mode != "r" or os.path.getsize("shrinks.bin") == MIB
    np.arange(MIB).tofile("shrinks.bin")
    a = sluice.open("shrinks.bin", "i8")
    os.truncate("shrinks.bin", 4 * MIB)
    a[:1000].prefetch("host")  # what is still there can be used, and the process goes on
    assert a[5] == 5
    del a


def views_outlive_their_file():
    a = sluice.open("gone.bin", "u1", 5 * MIB, "w+")
    view = a[MIB:4 * MIB]
    a[:] = 8
    os.unlink("gone.bin")
    del a
    gc.collect()
    view.evict("store")
    assert (view == 8).all()
    view[:] = 9
    assert view.sum(dtype="i8") == 27 * MIB
    x = np.arange(6, dtype="f4")
    header = json.dumps({"x": {"dtype": "F32", "shape": [6], "data_offsets": [0, 24]}}).encode()
    with open("gone.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + x.tobytes())
    tensor = sluice.safetensors.open("gone.safetensors")["x"]
    gc.collect()
    os.unlink("gone.safetensors")
    assert (tensor == x).all()


def pickles_are_copies_names_or_errors():
    a = sluice.empty((100,), "i4")
    a[:] = range(100)
    with sluice.using(a) as use:
        fails(TypeError, "another one", pickle.dumps, use)
    header = json.dumps({"x": {"dtype": "F32", "shape": [1 << 20], "data_offsets": [0, 4 << 20]}}).encode()
    with open("p.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + bytes(4 << 20))
    text = pickle.dumps(sluice.safetensors.open("p.safetensors"))
    assert len(text) < 1000 and isinstance(pickle.loads(text)["x"], sluice.Array)
    os.unlink("p.safetensors")
    fails(sluice.Error, "p.safetensors", pickle.loads, text)


def children_end_as_they_like():
    for end in ("sys.exit(7)", "os._exit(7)", "del a; import gc; gc.collect(); sys.exit(7)"):
        ended("a = sluice.open('child.bin', 'u1', 3 << 20, 'w+'); a[:] = 4; b = sluice.empty(9)\n"
              f"if not os.fork():\n    {end}\n"
              "assert os.waitstatus_to_exitcode(os.wait()[1]) == 7; assert (a == 4).all()", 0)
        assert (np.fromfile("child.bin", "u1") == 4).all()


def the_end_finds_threads_and_cycles():
    ended("import threading, time\na = sluice.open('end.bin', 'u1', 5 << 20, 'w+'); a[:] = 3\n"
          "def work():\n    while True:\n        a.sum(); a[:9] = 3\n"
          "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
          "time.sleep(0.2)", 0)
    assert (np.fromfile("end.bin", "u1") == 3).all()
    ended("a = sluice.open('end.bin', 'u1', 5 << 20, 'w+'); a[:] = 6; u = sluice.using(write=(a,)); u.__enter__()", 0)
    assert (np.fromfile("end.bin", "u1") == 6).all()
    ended("class Node: pass\nn = Node(); n.me = n; n.a = sluice.open('end.bin', 'u1', 5 << 20, 'w+'); n.a[:] = 7\n"
          "n.view = memoryview(n.a)[5:]; n.file = n.a[1:].T; n.fn = lambda: n\n"
          "Node.__del__ = lambda self: self.a.sum()\ndel n", 0)
    assert (np.fromfile("end.bin", "u1") == 7).all()


def garbage_is_collected_in_any_order():
    rng = random.Random(1)
    before = sluice.stats()["resident_bytes"]
    for _ in range(30):
        a = sluice.empty((2 * MIB,), "u1")
        a[:] = 5
        held = [a, a[1:], a[::-1], memoryview(a), a.view("u2"), np.asarray(a), a.reshape(2, -1).T, np.from_dlpack(a)]
        held.append(held)
        del a
        while len(held) > 2:
            del held[rng.randrange(len(held) - 1)]
            if rng.random() < 0.3:
                gc.collect()
        assert np.asarray(held[0]).flat[3] in (5, 0x505)
        held.clear()
    gc.collect()
    after = sluice.stats()["resident_bytes"]
    assert after["device"] <= before["device"] + 2 * MIB and after["host"] <= before["host"] + 2 * MIB, (before, after)


def a_notebook_is_told_to_restart():
    sluice.empty(1)
    fails(sluice.Error, "restart the kernel", sluice.configure, device_budget="1G")
    fails(AttributeError, "configure(device=\"cuda\")", lambda: sluice.empty(1).__cuda_array_interface__)
    assert not hasattr(sluice.empty(1), "__cuda_array_interface__")


def a_library_that_is_not_this_versions_is_refused():
    for path, part in (("libm.so.6", "undefined symbol"), ("./none.so", "No such file")):
        ended(f"os.environ['LIBSLUICE_PATH'] = '{path}'\n"
              "try:\n    sluice.empty(1)\n"
              "except sluice.Error as error:\n    sys.exit(str(error))", 1, part)
        ended(f"os.environ['LIBSLUICE_PATH'] = '{path}'; sluice.empty(1)", 1, "library of its own version")


def the_tutorial_runs():
    with open(sys.argv[1]) as page:
        blocks = page.read().split("```python\n")[1:]
    assert blocks
    code = "".join(block.split("```")[0] for block in blocks)
    with open("tutorial.py", "w") as file:
        file.write(code)
    done = subprocess.run([sys.executable, "tutorial.py"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


CASES = [memory_larger_than_both_budgets_is_spilled, a_run_is_reported, memory_goes_with_the_last_view, files_are_read_and_written,
         a_file_larger_than_memory_is_updated_in_place, wrong_files_are_refused, npy_files_are_read_in_place,
         safetensors_are_read_in_place, moves_change_places_and_nothing_else, results_are_ordinary_arrays,
         limits_hold_for_a_while, threads_share_arrays, a_forked_child_leaves_the_parents_memory_alone,
         what_is_left_at_the_end_is_in_the_file, a_file_that_shrinks_ends_the_process_with_a_reason,
         views_outlive_their_file, pickles_are_copies_names_or_errors, children_end_as_they_like,
         the_end_finds_threads_and_cycles, garbage_is_collected_in_any_order, a_notebook_is_told_to_restart,
         a_library_that_is_not_this_versions_is_refused, the_tutorial_runs]


def main():
    for case in CASES:
        case()
        print("ok", case.__name__, flush=True)


main()

# SPDX-License-Identifier: Apache-2.0
"""The Python module with a GPU, on the stand-in driver: what test_package.sh runs in an empty directory.

    python_gpu_try.py KERNELS PAGE    python_kernels.c as a library; the tutorial

SLUICE_CUDA_LIBRARY names the driver. The cases for `sluice run` are run where that started it.
Each function is a case; a case that ends, passes.
"""

import ctypes
import errno
import os
import sys
import threading

import numpy as np

import sluice

MIB = 1 << 20
N = MIB // 8  # words of a mebibyte
ILLEGAL_ADDRESS = 700
sluice.configure(device="cuda", device_budget="16M", host_budget="64M")
kernels = ctypes.CDLL(os.path.abspath(sys.argv[1]))
kernels.kernels_launch.argtypes = (ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64,
                                   ctypes.c_void_p)
kernels.kernels_memory.restype = ctypes.c_uint64


def fails(kind, part, call, *args, **words):
    try:
        call(*args, **words)
    except kind as error:
        assert part in str(error), f"no {part!r} in {error!s}"
        return error
    raise AssertionError(f"{call} did not raise {kind.__name__}")


def address(array):
    """As a library that launches kernels gets it."""
    found = array.__cuda_array_interface__
    assert found["version"] == 3 and found["shape"] == array.shape and found["typestr"] == array.dtype.str
    return found["data"][0]


def launch(name, p, n, third, stream=None):
    assert kernels.kernels_launch(name, p, n, third, stream) == 0


class Stream:
    """What PyTorch, CuPy and cuda.core call a stream."""

    def __init__(self, how):
        handle = ctypes.c_void_p()
        assert kernels.kernels_stream(ctypes.byref(handle)) == 0
        self.handle_value = handle.value
        if how == "torch":
            self.cuda_stream = handle.value
        elif how == "cupy":
            self.ptr = handle.value
        elif how == "numba":
            self.handle = ctypes.c_void_p(handle.value)

    def __cuda_stream__(self):
        return 0, self.handle_value


def kernels_use_arrays_larger_than_the_device():
    a = sluice.empty((48 * N,), "u8")
    a[:] = np.arange(a.size)
    for at in range(0, a.size, 8 * N):
        part = a[at:at + 8 * N]
        with sluice.using(write=(part,)):
            assert part.residency()["device"] == part.nbytes
            launch(b"add", address(part), part.size, 7)
    sluice.synchronize()
    assert (a == np.arange(a.size) + 7).all()
    assert sluice.stats()["resident_peak_bytes"]["device"] <= 16 * MIB


def kernels_use_files():
    np.arange(4 * N, dtype="u8").tofile("words.bin")
    a, b = sluice.open("words.bin", "u8"), sluice.open("copy.bin", "u8", 4 * N, "w+")
    with sluice.using(a, overwrite=[b]):
        assert a.__cuda_array_interface__["data"][1] and not b.__cuda_array_interface__["data"][1]
        launch(b"copy", address(b), a.size, address(a))
    b.sync()
    assert (np.fromfile("copy.bin", "u8") == np.arange(4 * N)).all()


def the_address_is_shown_inside_of_using_only():
    a = sluice.empty((2, N), "u8")
    for part in ("with sluice.using(", "`sluice run`"):
        error = fails(sluice.Error, part, lambda: a.__cuda_array_interface__)
    assert error.errno == errno.EPERM
    with sluice.using(a[0]):
        address(a[0])
        address(a[0, 5:7])
        fails(sluice.Error, "using", lambda: a.__cuda_array_interface__)
        fails(sluice.Error, "using", lambda: a[1].__cuda_array_interface__)
        with sluice.using(a[1]):
            address(a[1])
        fails(sluice.Error, "using", lambda: a[1].__cuda_array_interface__)
    fails(sluice.Error, "using", lambda: a[0].__cuda_array_interface__)
    fails(AttributeError, "ordinary memory", lambda: (a + 1).view(sluice.Array).__cuda_array_interface__)
    assert not hasattr(a + 1, "__cuda_array_interface__")


def the_interface_says_strides_and_the_stream():
    a = sluice.empty((4, 6), "f4")
    stream = Stream("torch")
    with sluice.using(a, stream=stream):
        found = a.__cuda_array_interface__
        assert found["strides"] is None and found["stream"] == stream.cuda_stream
        found = a[::2, 1:3].__cuda_array_interface__
        assert found["strides"] == (48, 4) and found["data"][0] == a.__cuda_array_interface__["data"][0] + 4
    with sluice.using(a):
        assert a.__cuda_array_interface__["stream"] == 1
    sluice.synchronize(stream)


def streams_of_all_libraries_are_taken():
    a = sluice.empty((N,), "u8")
    for how in ("torch", "cupy", "numba", "core"):
        stream = Stream(how)
        with sluice.using(write=(a,), stream=stream):
            launch(b"add", address(a), N, 1, stream.handle_value)
        sluice.synchronize(stream)
    for stream in (0, 1, None):
        with sluice.using(write=(a,), stream=stream):
            launch(b"add", address(a), N, 1)
        sluice.synchronize(stream)
    assert (a == 7).all()
    fails(ValueError, "per-thread", sluice.using(a, stream=2).__enter__)
    fails(ValueError, "no stream", sluice.using(a, stream="other").__enter__)


def wrong_declarations_are_refused():
    a = sluice.empty((4, N), "u8")
    readonly = a[:]
    readonly.flags.writeable = False
    fails(ValueError, "read-only", sluice.using(write=(readonly,)).__enter__)
    fails(ValueError, "gaps", sluice.using(overwrite=(a[:, ::2],)).__enter__)
    fails(ValueError, "tuple", sluice.using, write=a)
    fails(ValueError, "neither", sluice.using(np.zeros(3)).__enter__)
    fails(ValueError, "ordinary memory", sluice.using(a.view(np.ndarray).view(sluice.Array)).__enter__)
    fails(sluice.Error, "declares", sluice.using(a[0], overwrite=(a[:2],)).__enter__)
    fails(sluice.Error, "budget", sluice.using(sluice.empty((100 * N,), "u8")).__enter__)
    one = sluice.using(a)
    with one:
        fails(ValueError, "in use", one.__enter__)
    with one:
        address(a)
    with sluice.using():
        pass


class Foreign:
    """An array of another library: CUDA's interface, or a tensor that refuses it."""

    def __init__(self, p, n, tensor):
        self.shape, self.nbytes = (n,), 8 * n
        if tensor:
            self.data_ptr, self.stride, self.element_size = lambda: p, lambda: (1,), lambda: 8
        else:
            self.__cuda_array_interface__ = {"shape": (n,), "typestr": "<u8", "data": (p, False), "version": 3}


def arrays_of_other_libraries_are_declared_by_their_address():
    a = sluice.empty((N,), "u8")
    for tensor in (False, True):
        with sluice.using(write=(Foreign(a.__array_interface__["data"][0], N, tensor),)):
            launch(b"add", address(a), N, 3)
    sluice.synchronize()
    assert (a == 6).all()
    own = Foreign(kernels.kernels_memory(MIB), N, False)
    assert fails(sluice.Error, "", sluice.using(own).__enter__).errno == errno.ENOENT


class Managed(ctypes.Structure):
    """What a consumer of DLPack reads, before 1.0."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class Versioned(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32 * 2), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)), ("flags", ctypes.c_uint64)]
    _fields_ += Managed._fields_[:-2]


def taken(capsule, name, kind):
    """As a consumer takes a capsule."""
    get, rename = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_SetName
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    rename.argtypes = (ctypes.py_object, ctypes.c_char_p)
    at = get(capsule, name)
    taken.names.append(b"used_" + name)  # the capsule does not copy it
    assert rename(capsule, taken.names[-1]) == 0
    return ctypes.cast(at, ctypes.POINTER(kind)).contents


taken.names = []


def dlpack_is_for_the_gpu_inside_of_using():
    a = sluice.empty((3, N), "u8")
    a[:] = np.arange(3)[:, None]
    assert a.__dlpack_device__() == (1, 0)
    assert (np.from_dlpack(a) == a).all()  # host code, outside
    fails(sluice.Error, "with sluice.using(", a.__dlpack__, dl_device=(2, 0))
    with sluice.using(write=(a,)):
        assert a.__dlpack_device__() == (2, 0)
        part = a[1:, ::2]
        tensor = taken(part.__dlpack__(stream=1), b"dltensor", Managed)
        assert tensor.data == address(a) + 8 * N and tuple(tensor.device) == (2, 0) and tensor.ndim == 2
        assert (tensor.code, tensor.bits, tensor.lanes, tensor.offset) == (1, 64, 1, 0)
        assert tensor.shape[:2] == [2, N // 2] and tensor.strides[:2] == [N, 2]
        launch(b"add", tensor.data, N, 5)
        fails(BufferError, "stream", a.__dlpack__, stream=Stream("torch").cuda_stream)
        fails(BufferError, "copy", a.__dlpack__, copy=True)
        fails(BufferError, "not on (1, 0)", a.__dlpack__, dl_device=(1, 0))
        a.__dlpack__()  # nobody takes it
    sluice.synchronize()
    assert (a[1] == 6).all() and (a[2] == 2).all()
    del a, part
    assert sluice.stats()["resident_bytes"]["device"] + sluice.stats()["resident_bytes"]["host"] >= 3 * MIB
    tensor.deleter(ctypes.addressof(tensor))
    readonly = sluice.open("words.bin", "u8")
    with sluice.using(readonly):
        fails(BufferError, "read-only", readonly.__dlpack__)
        tensor = taken(readonly.__dlpack__(max_version=(1, 1)), b"dltensor_versioned", Versioned)
        assert tuple(tensor.version) == (1, 0) and tensor.flags == 1 and tensor.data == address(readonly)
        tensor.deleter(ctypes.addressof(tensor))
        fails(BufferError, "DLPack has no", readonly[:4].view("M8[s]").__dlpack__, max_version=(1, 0))


def threads_declare_their_own():
    a = sluice.empty((4, N), "u8")

    def work(k):
        kernels.kernels_thread()
        for _ in range(20):
            with sluice.using(write=(a[k],)):
                launch(b"add", address(a[k]), N, k + 1)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sluice.synchronize()
    assert (a == 20 * np.arange(1, 5, dtype="u8")[:, None]).all()


def the_tutorial_runs():
    with open(sys.argv[2]) as page:
        blocks = page.read().split("```py\n")[1:]
    assert blocks
    np.arange(4 * N, dtype="f4").tofile("x.bin")

    def copied(part, result):
        launch(b"copy", address(result), part.nbytes // 8, address(part))

    before, sluice.configure = sluice.configure, lambda **settings: None
    try:
        for block in blocks:
            exec(block.split("```")[0], {"launch": copied})
    finally:
        sluice.configure = before
    assert (np.fromfile("y.bin", "f4") == np.arange(4 * N)).all()


def no_rule_of_the_driver_was_broken():
    assert kernels.kernels_wait() == 0 and kernels.kernels_violations() == 0


def under_run_nothing_is_declared():
    a, b = sluice.empty((4 * N,), "u8"), sluice.empty((4 * N,), "u8")
    a[:] = np.arange(a.size)
    found = a.__cuda_array_interface__
    assert found["stream"] is None and a.__dlpack_device__() == (2, 0)
    for _ in range(3):
        launch(b"add", address(a), a.size, 5)
    launch(b"copy", address(b), a.size, address(a))
    assert (b == np.arange(a.size) + 15).all()
    tensor = taken(a.__dlpack__(stream=1), b"dltensor", Managed)
    launch(b"add", tensor.data, a.size, 1)
    tensor.deleter(ctypes.addressof(tensor))
    assert np.from_dlpack(a, device="cpu")[1] == 17 if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else True
    large = sluice.empty((20, 8 * N), "u8")  # more than the budgets
    for part in large:
        with sluice.using(write=(part,)):
            launch(b"add", address(part), part.size, 3)
    assert (large[::3, ::1000] == 3).all()
    own = kernels.kernels_memory(8 * MIB)
    with sluice.using(a, write=(Foreign(own, N, False),)):  # the run's own: left out
        launch(b"copy", own, N, address(a))
    with open("words.bin", "wb") as file:
        file.write(np.arange(N, dtype="u8").tobytes())
    c = sluice.open("words.bin", "u8")
    launch(b"copy", own, N, address(c))
    launch(b"copy", address(b), N, own)
    assert (b[:N] == np.arange(N)).all()


RUN_CASES = [under_run_nothing_is_declared, kernels_use_arrays_larger_than_the_device, kernels_use_files,
             threads_declare_their_own, no_rule_of_the_driver_was_broken]
CASES = [kernels_use_arrays_larger_than_the_device, kernels_use_files, the_address_is_shown_inside_of_using_only,
         the_interface_says_strides_and_the_stream, streams_of_all_libraries_are_taken, wrong_declarations_are_refused,
         arrays_of_other_libraries_are_declared_by_their_address, dlpack_is_for_the_gpu_inside_of_using,
         threads_declare_their_own, the_tutorial_runs, no_rule_of_the_driver_was_broken]


def main():
    under_run = "SLUICE_RUN" in os.environ
    assert kernels.kernels_open(b"libcuda.so.1" if under_run else os.environ["SLUICE_CUDA_LIBRARY"].encode()) == 0
    for case in RUN_CASES if under_run else CASES:
        case()
        print("ok", case.__name__, flush=True)


main()

# SPDX-License-Identifier: Apache-2.0
"""The Python module with a GPU, on the stand-in driver: what test_package.sh runs in an empty directory.

    python_gpu_try.py KERNELS PAGE    python_kernels.c as a library; the tutorial

SLUICE_CUDA_LIBRARY names the driver. The cases for `sluice run` are run where that started it.
Each function is a case; a case that ends, passes.
"""

import abc
import collections
import contextlib
import ctypes
import errno
import gc
import os
import sys
import threading
import types

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


# ---- allocators of other libraries: stand-ins that keep to what their documents say ----


def module(name, **members):
    """A library of that name, until the test ends."""
    made = types.ModuleType(name)
    made.__dict__.update(members)
    sys.modules[name] = made
    return made


class Pluggable:
    """torch.cuda.memory.CUDAPluggableAllocator(path, alloc, free)."""

    def __init__(self, path, alloc, free):
        library = ctypes.CDLL(path)
        self.alloc, self.free = getattr(library, alloc), getattr(library, free)
        self.alloc.restype, self.alloc.argtypes = ctypes.c_void_p, (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
        self.free.restype = None
        self.free.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)

    def allocator(self):
        return self


class Pool:
    """torch.cuda.MemPool: keeps what was allocated in it."""

    def __init__(self, allocator=None, use_on_oom=False):
        self.plug, self.use_on_oom, self.segments = allocator, use_on_oom, []


class Tensor:
    def __init__(self, address, size):
        self.address, self.shape, self.nbytes = address, (size,), size

    def data_ptr(self):
        return self.address

    def element_size(self):
        return 1

    def stride(self):
        return (1,)


def pretended_torch(pool_class):
    current = []

    class OutOfMemoryError(RuntimeError):
        pass

    @contextlib.contextmanager
    def use_mem_pool(pool):
        current.append(pool)
        yield
        current.pop()

    def empty(size, dtype, device):
        assert device == "cuda"
        found = current[-1].plug.alloc(size, 0, None)
        if not found:
            raise OutOfMemoryError
        current[-1].segments.append((found, size))
        return Tensor(found, size)

    memory = types.SimpleNamespace(CUDAPluggableAllocator=Pluggable)
    cuda = types.SimpleNamespace(memory=memory, MemPool=pool_class, use_mem_pool=use_mem_pool,
                                 OutOfMemoryError=OutOfMemoryError, current_device=lambda: 0,
                                 current_stream=lambda: types.SimpleNamespace(cuda_stream=0), memory_reserved=lambda: 0,
                                 reset_peak_memory_stats=lambda: None)
    # What is moved where memory is short: python_saved_try.py.
    module("torch.multiprocessing")
    module("torch.multiprocessing.reductions", StorageWeakRef=None)
    module("torch.optim")
    module("torch.optim.optimizer", register_optimizer_step_post_hook=lambda hook: None)
    return module("torch", cuda=cuda, empty=empty, uint8="uint8", __version__="0.0")


def add_and_copy_back(p, seed):
    """A kernel with memory of an allocator, of which nobody declares anything."""
    a = sluice.empty((N,), "u8")
    a[:] = seed
    with sluice.using(a):
        launch(b"copy", p, N, address(a))
    launch(b"add", p, N, 1)
    with sluice.using(overwrite=(a,)):
        launch(b"copy", address(a), N, p)
    assert (a == seed + 1).all()


def pytorch_allocates():
    torch = pretended_torch(Pool)
    pool = sluice.torch.pool()
    with torch.cuda.use_mem_pool(pool):
        tensors = [torch.empty(2 * MIB, "uint8", "cuda") for _ in range(12)]  # the device has 16 MiB
    for k, tensor in enumerate(tensors):
        add_and_copy_back(tensor.data_ptr(), k)
    on_device = [sluice._space.residency(tensor.data_ptr(), 2 * MIB)["device"] > 0 for tensor in tensors]
    assert any(on_device) and not all(on_device)
    with sluice.using(tensors[11], write=(tensors[0],)):
        assert sluice._space.residency(tensors[11].data_ptr(), 2 * MIB)["device"] == 2 * MIB
        launch(b"add", tensors[11].data_ptr(), N, 1)
    add_and_copy_back(tensors[0].data_ptr(), 9)
    for found, size in pool.segments:
        pool.plug.free(found, size, 0, None)


def the_last_resort_is_host_memory_taken_at_once():
    before = sluice.stats()["resident_bytes"]["device"]
    pool = sluice.torch.last_resort("24M")
    assert pool.use_on_oom and pool.segments[0][1] == 24 * MIB and len(pool.segments) > 1
    assert sluice.stats()["resident_bytes"]["device"] == before
    assert sluice.stats()["resident_bytes"]["host"] >= 24 * MIB
    add_and_copy_back(pool.segments[0][0], 5)
    for found, size in pool.segments:
        pool.plug.free(found, size, 0, None)
    fails(sluice.Error, "cannot be had", sluice.torch.last_resort, "1G")
    fails(ValueError, "no size", sluice.torch.last_resort, "much")
    sluice.torch.torch.cuda.MemPool = lambda allocator=None: None
    assert fails(sluice.Error, "use_on_oom", sluice.torch.last_resort, "4M").errno == errno.ENOTSUP


def cupy_allocates():
    class MemoryPool:
        def __init__(self, allocator):
            self.malloc = allocator

    module("cupy", cuda=types.SimpleNamespace(
        UnownedMemory=lambda ptr, size, owner, device_id=-1: types.SimpleNamespace(ptr=ptr, size=size, owner=owner),
        MemoryPointer=lambda mem, offset: types.SimpleNamespace(mem=mem, ptr=mem.ptr + offset), MemoryPool=MemoryPool))
    pointer = sluice.cupy.pool().malloc(3 * MIB)
    assert pointer.mem.size == 3 * MIB and sluice.cupy.allocator(0).ptr == 0
    add_and_copy_back(pointer.ptr, 3)
    used = sluice.stats()["resident_bytes"]["device"]
    del pointer
    gc.collect()
    assert sluice.stats()["resident_bytes"]["device"] < used


def rmm_allocates():
    resource = types.SimpleNamespace(CallbackMemoryResource=lambda allocate, free: (allocate, free))
    module("rmm", mr=module("rmm.mr", **vars(resource)))
    allocate, free = sluice.rmm.resource()
    for stream in ((), (object(),)):  # since 24 they are given a stream
        p = allocate(MIB, *stream)
        add_and_copy_back(p, 4)
        free(p, MIB, *stream)


def numba_allocates():
    class HostOnly(abc.ABC):  # Numba leaves these to a plugin
        def __init__(self, context):
            self.context = context

        @abc.abstractmethod
        def initialize(self):
            pass

        @abc.abstractmethod
        def memalloc(self, size):
            pass

        @abc.abstractmethod
        def get_memory_info(self):
            pass

        @abc.abstractmethod
        def get_ipc_handle(self, memory):
            pass

        @property
        @abc.abstractmethod
        def interface_version(self):
            pass

        @contextlib.contextmanager
        def defer_cleanup(self):
            yield

    managers = []
    cuda = module("numba.cuda", HostOnlyCUDAMemoryManager=HostOnly, set_memory_manager=managers.append,
                  MemoryInfo=collections.namedtuple("MemoryInfo", "free, total"),
                  MemoryPointer=lambda context, pointer, size, owner=None, finalizer=None: types.SimpleNamespace(
                      context=context, value=pointer.value, size=size, finalizer=finalizer))
    module("numba.cuda.cudadrv", driver=module("numba.cuda.cudadrv.driver"))
    module("numba", cuda=cuda)
    sluice.numba.install()
    assert managers == [sluice.numba.Manager] == [sluice.numba._numba_memory_manager]
    manager = managers[0]("context")
    manager.initialize()
    pointer = manager.memalloc(MIB)
    assert pointer.context == "context" and pointer.size == MIB and manager.interface_version == 1
    add_and_copy_back(pointer.value, 6)
    info = manager.get_memory_info()
    assert 0 < info.free < info.total == 80 * MIB
    fails(NotImplementedError, "shared", manager.get_ipc_handle, pointer)
    with manager.defer_cleanup():
        pointer.finalizer()


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
    with sluice.using(a):  # a consumer with a stream of its own, as JAX
        tensor = taken(a.__dlpack__(stream=Stream("torch").cuda_stream), b"dltensor", Managed)
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
         threads_declare_their_own, the_tutorial_runs, pytorch_allocates,
         the_last_resort_is_host_memory_taken_at_once, cupy_allocates, rmm_allocates, numba_allocates, no_rule_of_the_driver_was_broken]


def main():
    under_run = "SLUICE_RUN" in os.environ
    assert kernels.kernels_open(b"libcuda.so.1" if under_run else os.environ["SLUICE_CUDA_LIBRARY"].encode()) == 0
    for case in RUN_CASES if under_run else CASES:
        case()
        print("ok", case.__name__, flush=True)


main()

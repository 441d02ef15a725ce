# SPDX-License-Identifier: Apache-2.0
"""The Python half of test_python_saved.sh. Each function is a case; a case that ends, passes.

    python_saved_try.py FILE    python/sluice/_saved.py

What takes PyTorch's place: storages of bytes, tensors over them with versions, a pool, hooks of saved tensors and of
optimizers. Memory of the GPU and of the pool is counted.
"""

import contextlib
import gc
import importlib.util
import itertools
import sys
import types
import weakref

MIB = 1 << 20
live = {"gpu": 0, "pool": 0}
gpu = {"free": 0, "peak": 0, "reserved": 0}
pools, hooks, optimizers = [], [], []


class Device(str):
    index = 0


class Storage:
    numbers = itertools.count()

    def __init__(self, size):
        where = "pool" if pools else "gpu"
        self.data, self.device, self.number = bytearray(size), Device("cuda:0"), next(self.numbers)
        live[where] += size
        weakref.finalize(self, self.gone, where, size)

    @staticmethod
    def gone(where, size):
        live[where] -= size

    def nbytes(self):
        return len(self.data)


class StorageWeakRef:
    def __init__(self, storage):
        self.reference, self.cdata = weakref.ref(storage), storage.number

    def expired(self):
        return self.reference() is None


class Tensor:
    dtype, is_cuda, _base = "bytes", True, None

    def __init__(self, storage, is_leaf=False, counter=None):
        self.storage, self.is_leaf, self.counter = storage, is_leaf, counter or [0]
        self.view, self.device = (0, (len(storage.data),), (1,)), storage.device

    _version = property(lambda self: self.counter[0])

    def untyped_storage(self):
        return self.storage

    def detach(self):
        return Tensor(self.storage, counter=self.counter)

    def set_(self, storage, *view):
        self.storage = storage
        self.view = view or self.view
        return self

    def copy_(self, other, non_blocking):
        assert non_blocking
        self.storage.data[:] = other.storage.data
        return self

    def fill(self, value):
        """In place."""
        self.storage.data[:] = bytes([value]) * len(self.storage.data)
        self.counter[0] += 1
        return self

    def record_stream(self, stream):
        pass

    storage_offset, size, stride = (lambda self, k=k: self.view[k] for k in range(3))


@contextlib.contextmanager
def use_mem_pool(pool):
    pools.append(pool)
    yield
    pools.pop()


class Hooks:
    def __init__(self, save, restore):
        self.save, self.restore = save, restore

    def __enter__(self):
        hooks.append(self)


def library(name, **members):
    made = types.ModuleType(name)
    made.__dict__.update(members)
    sys.modules[name] = made
    return made


library("torch", uint8="uint8", empty=lambda size, dtype, device: Tensor(Storage(size)),
        autograd=types.SimpleNamespace(graph=types.SimpleNamespace(saved_tensors_hooks=Hooks)),
        cuda=types.SimpleNamespace(
            use_mem_pool=use_mem_pool, current_device=lambda: 0,
            current_stream=lambda device=None: types.SimpleNamespace(cuda_stream=0),
            is_current_stream_capturing=lambda: False, mem_get_info=lambda device: (gpu["free"], 1 << 40),
            memory_snapshot=lambda pool: [{"allocated_size": live["pool"]}],
            memory_stats_as_nested_dict=lambda device: {"reserved_bytes": {"all": {"current": gpu["reserved"]}},
                                                        "allocated_bytes": {"all": {"peak": gpu["peak"]}}}))
library("torch.multiprocessing")
library("torch.multiprocessing.reductions", StorageWeakRef=StorageWeakRef)
library("torch.optim")
library("torch.optim.optimizer", register_optimizer_step_post_hook=optimizers.append)
spec = importlib.util.spec_from_file_location("saved", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)


def saved_make(size=16 * MIB):
    hooks.clear()
    optimizers.clear()
    gpu.update(free=0, peak=0, reserved=size)
    return module.Saved(types.SimpleNamespace(id=1), size, size)


def step(peak=None, **words):
    """An optimizer's; peak: bytes that were allocated at once."""
    gpu.update(words, peak=max(gpu["peak"], peak or 0))
    optimizers[0](None, (), {})


def output(value, size=2 * MIB, **words):
    return Tensor(Storage(size), **words).fill(value)


def holds(tensor, value):
    return set(tensor.storage.data) == {value}


def nothing_changes_until_memory_is_out():
    saved_make()
    step(peak=60 * MIB, reserved=64 * MIB, free=12 * MIB)  # 48 and 12: it was enough
    assert not hooks
    step(peak=61 * MIB)
    assert len(hooks) == 1
    step()
    assert len(hooks) == 1


def what_lacked_goes_and_a_quarter_more():
    saved = saved_make()
    step(peak=4 * MIB)
    assert saved.quota == 5 * MIB
    step()
    assert saved.quota == 5 * MIB
    with use_mem_pool(None):
        held = output(1, size=3 * MIB)  # a gradient that PyTorch had to take from the pool
    step()
    assert saved.quota == 8 * MIB
    del held
    step(peak=400 * MIB)
    assert saved.quota == saved.size


def forward(values, **words):
    """As autograd saves what layers return. Their own references go."""
    return [hooks[0].save(output(value, **words)) for value in values]


def the_first_ones_go_and_all_come_back():
    saved_make()
    step(peak=4 * MIB)  # two of 2 MiB fit into 5
    before = dict(live)
    packed = forward(range(5))
    gc.collect()
    assert live == {"gpu": before["gpu"] + 3 * 2 * MIB, "pool": before["pool"] + 2 * 2 * MIB}, live
    for value in reversed(range(5)):
        assert holds(hooks[0].restore(packed.pop()), value)
    gc.collect()
    assert packed == [] and live["pool"] == before["pool"] + 4 * MIB  # until the next forward pass
    packed = forward(range(2))
    assert live["pool"] == before["pool"] + 4 * MIB  # other two, in the place of those
    step()
    packed.clear()
    gc.collect()
    assert live == before


def what_else_is_in_the_pool_when_the_backward_pass_begins_makes_more_go():
    saved = saved_make()
    step(peak=4 * MIB)
    packed = forward(range(2))
    with use_mem_pool(None):
        held = output(9, size=3 * MIB)  # what PyTorch had to take from the pool
    assert holds(hooks[0].restore(packed.pop()), 1)
    del held  # it does not outlive the pass
    assert holds(hooks[0].restore(packed.pop()), 0)
    gc.collect()
    step()
    assert saved.quota == 8 * MIB, saved.quota
    step()
    assert saved.quota == 8 * MIB, saved.quota


def a_storage_goes_once_as_it_was():
    saved_make()
    step(peak=4 * MIB)
    tensor = output(7)
    first, second = hooks[0].save(tensor), hooks[0].save(tensor)
    assert first[0] is second[0]
    tensor.fill(8)
    third = hooks[0].save(tensor)
    assert third[0] is not first[0]
    one, two = hooks[0].restore(first), hooks[0].restore(second)
    assert one.storage is two.storage and holds(one, 7) and holds(hooks[0].restore(third), 8)
    del one, two
    gc.collect()
    assert holds(hooks[0].restore(first), 7)  # a second backward pass


def a_new_storage_in_the_place_of_an_old_one_is_another():
    saved_make()
    step(peak=12 * MIB)
    packed = []
    for value in (1, 2, 3):
        tensor = output(value)
        tensor.storage.number = -1
        packed.append(hooks[0].save(tensor))
        del tensor
    assert len({id(one[0]) for one in packed}) == 3
    assert [set(hooks[0].restore(one).storage.data) for one in packed] == [{1}, {2}, {3}]


def a_view_comes_back_as_it_was():
    saved_make()
    step(peak=4 * MIB)
    base = output(3)
    view = Tensor(base.storage, counter=base.counter)
    view._base, view.view, view.dtype = base, (64, (8, 4), (4, 1)), "bfloat16"
    packed = hooks[0].save(view)
    back = hooks[0].restore(packed)
    assert back.view == (64, (8, 4), (4, 1)) and packed[1] == "bfloat16" and holds(back, 3)


def what_lives_on_anyway_stays():
    saved_make()
    step(peak=12 * MIB)
    parameter = output(1, is_leaf=True)
    view = Tensor(parameter.storage)
    view._base = parameter
    small = output(2, size=1000)
    for tensor in (parameter, view, small):
        assert hooks[0].restore(hooks[0].save(tensor)).storage is tensor.storage


def what_stays_is_checked_for_changes():
    saved_make()
    step(peak=4 * MIB)
    tensor = output(1, size=1000)
    packed = hooks[0].save(tensor)
    tensor.fill(2)
    try:
        hooks[0].restore(packed)
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        raise AssertionError("a changed tensor came back")


for case in (nothing_changes_until_memory_is_out, what_lacked_goes_and_a_quarter_more,
             the_first_ones_go_and_all_come_back,
             what_else_is_in_the_pool_when_the_backward_pass_begins_makes_more_go, a_storage_goes_once_as_it_was,
             a_new_storage_in_the_place_of_an_old_one_is_another, a_view_comes_back_as_it_was,
             what_lives_on_anyway_stays, what_stays_is_checked_for_changes):
    case()
    print("ok", case.__name__)

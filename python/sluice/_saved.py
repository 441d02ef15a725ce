# SPDX-License-Identifier: Apache-2.0
"""What a backward pass needs goes to the host, where memory of the GPU is short: for sluice.torch.last_resort().

Memory that PyTorch takes from a last-resort pool stays in the host. A kernel that reads it dozens of times
is slow then. So, once PyTorch has run out of memory, other data take the pool: the first tensors that a
forward pass saves. They are copied out once, and back when the backward pass needs them. Their memory on the
GPU serves those that would have come from the pool.

Each step of an optimizer looks whether PyTorch had more allocated at once than it has and could have of the
GPU: as much goes from then on, and a quarter more, as memory is in pieces. What else is in the pool when the
backward pass begins, as memory is shortest then, or after a step, gradients say, tells that it was too little.
Until memory is short nothing else happens.
"""

import weakref
from typing import Any, Dict, Optional, Tuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim.optimizer import register_optimizer_step_post_hook

_LEAST = 1 << 20  # bytes: copies of less take longer to ask for than to do


class _Moved:
    """The bytes of a storage, in the pool."""

    def __init__(self, saved: "Saved", storage: Any):
        self.device, self.size = storage.device, storage.nbytes()
        source = self._flat().set_(storage)
        source.record_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.use_mem_pool(saved.pool):
            self.host = torch.empty(self.size, dtype=torch.uint8, device=self.device)
        self.host.copy_(source, non_blocking=True)
        self.waiting = 0  # tensors that are to come back, of those that were saved
        self.kept: Optional[Any] = None  # while some are
        self.back: Any = lambda: None

    def _flat(self) -> Any:
        return torch.empty(0, dtype=torch.uint8, device=self.device)

    def storage(self) -> Any:
        """It on the GPU again. All that come back at about the same time have the same one."""
        tensor = self.back()
        if tensor is None:
            tensor = torch.empty(self.size, dtype=torch.uint8, device=self.device)
            tensor.copy_(self.host, non_blocking=True)
            self.back = weakref.ref(tensor)
        self.waiting -= 1
        self.kept = tensor if self.waiting > 0 else None
        return tensor.untyped_storage()


class Saved:
    """For one device and stream. Threads: tensors are saved by the one that steps the optimizer, and come back in
    autograd's."""

    def __init__(self, pool: Any, size: int, reserved: int):
        """pool: of size bytes; reserved: what it takes, by PyTorch's count."""
        self.pool, self.size, self.reserved = pool, size, reserved
        self.device, self.stream = torch.cuda.current_device(), torch.cuda.current_stream().cuda_stream
        self.quota = self.left = 0  # bytes that go in a forward pass; that may still go in this one
        self.foreign = 0  # bytes in the pool that are not of these, where memory was shortest
        self.forward = True  # a forward pass is on
        self.moved: Dict[Tuple[int, int], Tuple[Any, _Moved]] = {}  # of this forward pass
        self.hooks: Optional[Any] = None
        self.optimizers = register_optimizer_step_post_hook(self._stepped)

    def _lacking(self) -> int:
        """Bytes that were allocated at once beyond what the GPU has for PyTorch."""
        stats = torch.cuda.memory_stats_as_nested_dict(self.device)
        has = stats["reserved_bytes"]["all"]["current"] - self.reserved + torch.cuda.mem_get_info(self.device)[0]
        return int(stats["allocated_bytes"]["all"]["peak"] - has)

    def _in_pool(self) -> int:
        return sum(segment["allocated_size"] for segment in torch.cuda.memory_snapshot(self.pool.id))

    def _stepped(self, *_: Any) -> None:
        self._begin()  # what is in the pool then is not ours
        lacking = self._lacking()
        if lacking > 0:
            foreign, self.foreign = max(self.foreign, self._in_pool()), 0
            self.quota = self.left = min(self.size, max(self.quota + foreign, lacking + lacking // 4))
            if not self.hooks:
                self.hooks = torch.autograd.graph.saved_tensors_hooks(self._save, self._restore)
                self.hooks.__enter__()

    def _begin(self) -> None:
        self.left, self.forward = self.quota, True
        self.moved.clear()

    def _moved_of(self, tensor: Any) -> Optional[_Moved]:
        """None: it stays. A storage goes once, as it is now."""
        storage = tensor.untyped_storage()
        reference = StorageWeakRef(storage)
        key = reference.cdata, tensor._version
        found = self.moved.get(key)
        if found and not found[0].expired():  # else another one has had its number
            return found[1]
        if storage.nbytes() > self.left:
            return None
        self.left -= storage.nbytes()
        moved = _Moved(self, storage)
        self.moved[key] = reference, moved
        return moved

    def _goes(self, tensor: Any) -> bool:
        """Parameters and inputs live on anyway."""
        base = tensor if tensor._base is None else tensor._base
        return (self.left > 0 and tensor.is_cuda and tensor.device.index == self.device and not base.is_leaf
                and tensor.untyped_storage().nbytes() >= _LEAST
                and torch.cuda.current_stream(self.device).cuda_stream == self.stream
                and not torch.cuda.is_current_stream_capturing())

    def _save(self, tensor: Any) -> Any:
        if not self.forward:
            self._begin()
        moved = self._moved_of(tensor) if self._goes(tensor) else None
        if not moved:
            tensor = tensor.detach()  # as autograd does: it would hold itself
            return tensor, tensor._version
        moved.waiting += 1
        return moved, tensor.dtype, tensor.storage_offset(), tensor.size(), tensor.stride()

    def _turned(self) -> None:
        """The backward pass begins."""
        self.forward = False
        if self.quota:
            self.foreign = self._in_pool() - sum(moved.size for _, moved in self.moved.values() if moved.waiting)

    def _restore(self, packed: Any) -> Any:
        if self.forward:
            self._turned()
        if len(packed) == 2:
            tensor, version = packed
            if tensor._version != version:
                raise RuntimeError("one of the variables needed for gradient computation has been modified by an "
                                   f"inplace operation: it is at version {tensor._version}; expected version {version} "
                                   "instead")
            return tensor
        moved, dtype, offset, size, stride = packed
        return torch.empty(0, dtype=dtype, device=moved.device).set_(moved.storage(), offset, size, stride)

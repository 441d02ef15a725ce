# SPDX-License-Identifier: Apache-2.0
"""What the programs of this folder share: checksums that depend on every bit and on its place, and
lists of cases, each of which may fail by itself."""

import json
import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

PIECE = 1 << 22  # words of a checksum that are weighted at once
FACTOR = 0x9E3779B97F4A7C15  # odd; weights of pieces
MASK = (1 << 64) - 1


def checksum(bytes_view, weights, word, to_wide):
    """Of a flat array of bytes, by the operations that its library has."""
    whole = bytes_view.shape[0] // 4 * 4
    words = bytes_view[:whole].view(word)
    total = 0
    for n, begin in enumerate(range(0, words.shape[0], PIECE)):
        piece = to_wide(words[begin:begin + PIECE])
        total += int((piece * weights[: piece.shape[0]]).sum()) * (FACTOR * (2 * n + 1) & MASK)
    for byte in bytes_view[whole:].tolist():
        total = (total + byte + 1) * FACTOR
    return f"{total & MASK:016x}"


def of_tensor(*tensors):
    """Of PyTorch tensors."""
    import torch

    parts = []
    for t in tensors:
        t = t.detach()
        if t.is_complex():
            t = torch.view_as_real(t)
        weights = torch.arange(1, PIECE + 1, dtype=torch.int64, device=t.device) * 2 + 1
        parts.append(checksum(t.contiguous().view(-1).view(torch.uint8), weights, torch.int32,
                              lambda p: p.to(torch.int64)))
    return parts if len(parts) > 1 else parts[0]


def of_array(*arrays):
    """Of CuPy or NumPy arrays."""
    import numpy

    parts = []
    for a in arrays:
        library = numpy
        if type(a).__module__.startswith("cupy"):
            import cupy as library
        flat = library.ascontiguousarray(a).reshape(-1).view(library.uint8)
        weights = library.arange(1, PIECE + 1, dtype=library.int64) * 2 + 1
        parts.append(checksum(flat, weights, library.int32, lambda p: p.astype(library.int64)))
    return parts if len(parts) > 1 else parts[0]


def torch_deterministic():
    """Where there is a kernel that gives the same each time, that one. Attention by plain products:
    the faster kernels give the same only where others may not be asked for at all."""
    import torch

    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)


def torch_seed():
    import torch

    torch.manual_seed(1)


def run_cases(cases, names=None, before=lambda: None):
    """{name: what it answers, or its error}. A case that cannot be had is the same error each time.
    before(): called ahead of each, so that none depends on those before it."""
    answers = {}
    for name, case in cases.items():
        if names and name not in names:
            continue
        before()
        try:
            answers[name] = case()
        except Exception as e:  # whatever it is, it is what this case answers
            text = (str(e).splitlines() or [""])[0]
            answers[name] = {"error": f"{type(e).__name__}: {text[:300]}"}
    return answers


def finish(answers, peak_bytes, **more):
    print(json.dumps({"answers": answers, "peak_bytes": int(peak_bytes), **more}), flush=True)


def torch_peak():
    import torch

    try:
        return torch.cuda.max_memory_allocated()
    except RuntimeError:  # an allocator that does not count
        return 0

# SPDX-License-Identifier: Apache-2.0
"""libsluice.so.0 by ctypes. No struct of the library is known here (sluice/binding.h).

The library is that of this package; LIBSLUICE_PATH names another one. Calls release Python's lock.
Threads: any.
"""

import ctypes
import errno
import os
import threading

_SIZE, _U64, _POINTER, _TEXT = ctypes.c_size_t, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_char_p
_OUT, _INT = ctypes.POINTER(ctypes.c_void_p), ctypes.c_int
_CALLS = {
    "sluice_space_open": (_TEXT, _OUT),
    "sluice_space_destroy": (_POINTER,),
    "sluice_space_set_budget": (_POINTER, ctypes.c_int, _U64),
    "sluice_space_json": (_POINTER, _TEXT, _SIZE),
    "sluice_stats_json": (_POINTER, _TEXT, _SIZE),
    "sluice_residency_json": (_POINTER, _POINTER, _SIZE, _TEXT, _SIZE),
    "sluice_map": (_POINTER, _TEXT, _U64, _SIZE, ctypes.c_uint, _OUT),
    "sluice_alloc": (_POINTER, _SIZE, ctypes.c_uint, _OUT),
    "sluice_unmap": (_POINTER, _POINTER),
    "sluice_sync": (_POINTER, _POINTER, _SIZE),
    "sluice_prefetch": (_POINTER, _POINTER, _SIZE, ctypes.c_int, _POINTER),
    "sluice_evict": (_POINTER, _POINTER, _SIZE, ctypes.c_int, _POINTER),
    "sluice_discard": (_POINTER, _POINTER, _SIZE, ctypes.c_int, _POINTER),
    "sluice_stream_wrap": (_POINTER, _POINTER, _OUT),
    "sluice_stream_destroy": (_POINTER,),
    "sluice_stream_synchronize": (_POINTER, _POINTER),
    "sluice_launch_begin_ranges": (_POINTER, _POINTER, _OUT, ctypes.POINTER(_SIZE), ctypes.POINTER(_INT), _SIZE, _OUT),
    "sluice_launch_end": (_POINTER,),
    "sluice_is_preloaded": (),
    "sluice_memory_alloc": (_POINTER, _SIZE, ctypes.c_uint, _OUT),
    "sluice_memory_free": (_POINTER, _POINTER),
    "sluice_memory_place": (_POINTER, _OUT, ctypes.POINTER(_SIZE), _SIZE),
    "sluice_memory_contains": (_POINTER, _POINTER),
    "sluice_torch_space_set": (_POINTER,),
}
_NO_RESULT = ("sluice_stream_destroy", "sluice_launch_end", "sluice_torch_space_set")

_lock = threading.Lock()
_library = None


class Error(OSError):
    """A call of the library failed. errno says how; the text names the object and a remedy."""

    def __str__(self) -> str:
        return str(self.strerror)


def path() -> str:
    """The library's file, for those that open it by name as well."""
    import sluice

    given = os.environ.get("LIBSLUICE_PATH")
    if given:
        return given
    try:
        return str(sluice.prefix_path() / "lib" / "libsluice.so.0")
    except Exception:  # not installed as a package: where the loader looks
        return "libsluice.so.0"


def _open() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(path())
        library.sluice_last_error.restype = _TEXT
        for name, types in _CALLS.items():
            getattr(library, name).argtypes = types
        for name in _NO_RESULT:
            getattr(library, name).restype = None
    except (OSError, AttributeError) as error:  # no file, or another version's
        raise Error(errno.ELIBBAD, f"{error}: this module needs the library of its own version: unset "
                                   "LIBSLUICE_PATH, or let it name that file") from None
    return library


def _load() -> ctypes.CDLL:
    global _library
    with _lock:
        if _library is None:
            _library = _open()
    return _library


def call(name: str, *args: object) -> int:
    """Call a function of the library. It returns a negative errno for an error: raises Error."""
    library = _load()
    rc = getattr(library, name)(*args)
    if rc is not None and rc < 0:
        raise Error(-rc, library.sluice_last_error().decode(errors="replace"))
    return rc


def preloaded() -> bool:
    """This process runs under `sluice run`."""
    return bool(_load().sluice_is_preloaded())


def text_of(name: str, *args: object, size: int = 1 << 14) -> str:
    """The text that such a function writes; a buffer and its size follow args."""
    buffer = ctypes.create_string_buffer(size)
    call(name, *args, buffer, size)
    return buffer.value.decode()

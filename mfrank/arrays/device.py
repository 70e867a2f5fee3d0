"""The interface of a GPU for the CUDA backend, and the registry of host copies of GPU arrays.

:mod:`mfrank.backends.cuda.cupy_device` implements the interface. It is imported by name on first
use, because it imports CuPy and because this folder must not depend on the backends.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays.placement import readable

if TYPE_CHECKING:
    from mfrank.backends.cuda.kernel_sources import Module

Array = Any
"""An array of the device's library (CuPy), with numpy's interface."""


class Grid(NamedTuple):
    """Number of blocks, threads per block, and bytes of dynamic shared memory per block."""

    blocks: int | tuple[int, int]
    threads: int
    shared: int = 0


class Device(Protocol):
    """A GPU.

    Attributes
    ----------
    xp : module
        The array library (CuPy), with numpy's function names.
    shared_bytes : int
        Largest shared memory of a block, in bytes.
    """

    xp: Any
    shared_bytes: int

    def holds(self, array: Any) -> bool:
        """Whether ``array`` is an array of ``xp``."""

    def asarray(self, array: Any, dtype: DTypeLike | None = None) -> Array:
        """Copy a numpy or DLPack array to this device; share it if it is already there.

        This device must be the current one. The result is C-contiguous.
        """

    def upload(self, array: NDArray[Any]) -> Callable[[], Array]:
        """Start an asynchronous copy to the device.

        The returned function waits for the copy and returns it.
        """

    def asnumpy(self, array: Array) -> NDArray[Any]:
        """Copy an array of the device to numpy."""

    def launch(self, module: Module, kernel: str, grid: Grid, args: Sequence[Any]) -> None:
        """Launch a kernel; it runs after all kernels launched before.

        Arguments are device arrays (pointers), int (``long long``), float (``double``) and None (a
        null pointer).
        """

    def multiply_halves(self, left: Array, right: Array, out: Array) -> None:
        """``out[:] = left @ right.T``, all float16; sums are float32, and rounded once."""

    def current(self) -> AbstractContextManager[Any]:
        """Context manager that makes this device the current one of the thread."""

    def synchronize(self) -> None:
        """Wait for all launched kernels."""

    def free_bytes(self) -> int:
        """Bytes available to new arrays."""


def why_unavailable() -> str | None:
    """Return None if there is a usable GPU, else a sentence that names what is missing.

    No CUDA context is created.
    """
    if find_spec("cupy") is None:
        return (
            "CuPy is not installed; for an NVIDIA GPU with a driver of CUDA 12 or 13: "
            "pip install mfrank[cuda12] or mfrank[cuda13]"
        )
    try:
        reason: str | None = _cupy_device().why_no_gpu()
    except ImportError as error:
        return f"CuPy cannot be imported: {error}"
    return reason


def devices() -> tuple[Device, ...]:
    """Every GPU that CUDA_VISIBLE_DEVICES leaves visible, the current one first."""
    return cast(tuple[Device, ...], _cupy_device().all_devices())


def device() -> Device:
    """The current GPU, on which factors are placed."""
    return devices()[0]


def _cupy_device() -> ModuleType:
    return import_module("mfrank.backends.cuda.cupy_device")


# Registry of host arrays that are copies of GPU arrays.
#
# Data on a GPU is copied to the host for checks and planning. If the checks change nothing, a
# backend on that GPU reads the original instead of uploading the copy. The registry keeps neither
# array alive. A host array is identified by its memory, so a view of all of it is recognized too.


class _Copy(NamedTuple):
    """A host array, identified by the owner of its memory, and the GPU array it is a copy of."""

    owner: weakref.ref[NDArray[Any]]
    dtype: np.dtype[Any]
    size: int
    original: weakref.ref[Any]


_copies: dict[int, _Copy] = {}
"""Registered copies by the address of their first byte."""


def register_copy(here: NDArray[Any], there: Any) -> None:
    """Register ``here`` as a copy of the GPU array ``there``; neither may change from now on."""
    begin = here.ctypes.data
    owner = weakref.ref(_owner(here), lambda _: _copies.pop(begin, None))
    _copies[begin] = _Copy(owner, here.dtype, here.size, weakref.ref(there))


def device_copy_of(here: NDArray[Any]) -> Any:
    """The GPU array that ``here`` is a copy of, perhaps in another dtype.

    None if no such array is registered or it no longer exists.
    """
    copy = _copies.get(here.ctypes.data)
    if copy is None or copy.owner() is not _owner(here) or not here.flags.c_contiguous:
        return None
    return copy.original() if (copy.dtype, copy.size) == (here.dtype, here.size) else None


def converted(here: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Like :func:`mfrank.arrays.placement.readable`; a copy of a registered copy is registered."""
    copy = readable(here, dtype)
    there = device_copy_of(here)
    if there is not None and copy is not here:
        register_copy(copy, there)
    return copy


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    """The array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array

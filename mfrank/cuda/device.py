"""What the backend asks of a device: arrays, kernels, memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

from numpy.typing import DTypeLike, NDArray

from mfrank.cuda.sources import Module

__all__ = ["Array", "Device", "Grid", "device", "devices", "why_unavailable"]

Array = Any
"""An array of the device's library, with numpy's interface."""


class Grid(NamedTuple):
    """Blocks, threads of each, and bytes of shared memory of each."""

    blocks: int | tuple[int, int]
    threads: int
    shared: int = 0


class Device(Protocol):
    """A GPU.

    Attributes
    ----------
    xp : module
        Arrays on it, by numpy's names.
    shared_bytes : int
        Most shared memory a block may have.
    """

    xp: Any
    shared_bytes: int

    def holds(self, array: Any) -> bool:
        """Whether it is an array of ``xp``."""

    def asarray(self, array: Any, dtype: DTypeLike | None = None) -> Array:
        """Put a numpy array, or any with DLPack, on the device; not copied where it is there.

        The device is the current one.
        """

    def upload(self, array: NDArray[Any]) -> Callable[[], Array]:
        """Begin to put an array on the device beside what runs there; the function waits for it."""

    def asnumpy(self, array: Array) -> NDArray[Any]:
        """A copy in numpy."""

    def launch(self, module: Module, kernel: str, grid: Grid, args: Sequence[Any]) -> None:
        """Run a kernel.

        Arguments are device arrays (pointers), int (``long long``), float (``double``) and None (a
        null pointer). What was launched before is done before.
        """

    def current(self) -> AbstractContextManager[Any]:
        """While it is entered, this thread's arrays and kernels are this device's."""

    def synchronise(self) -> None:
        """Wait for all that was launched."""

    def free_bytes(self) -> int:
        """Memory that new arrays may take."""


def why_unavailable() -> str | None:
    """None where there is a device, else one sentence that says what is missing.

    CuPy is not imported where it is not installed, and no context is made.
    """
    if find_spec("cupy") is None:
        return (
            "CuPy is not installed; for an NVIDIA GPU with a driver of CUDA 12 or 13: "
            "pip install mfrank[cuda12] or mfrank[cuda13]"
        )
    try:
        from mfrank.cuda.cupy_device import why_no_gpu
    except ImportError as error:
        return f"CuPy cannot be imported: {error}"
    return why_no_gpu()


def devices() -> tuple[Device, ...]:
    """Every GPU that CUDA_VISIBLE_DEVICES leaves visible, the current one first."""
    from mfrank.cuda.cupy_device import all_devices

    return all_devices()


def device() -> Device:
    """The first of them, where factors are."""
    return devices()[0]

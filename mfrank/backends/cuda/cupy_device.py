"""A GPU through CuPy, which compiles the kernels by NVRTC at their first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import cupy as cp
import cupyx
import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays import Array, Grid
from mfrank.backends.cuda.kernel_sources import Module
from mfrank.errors import InputValueError

_CUDA = {2, 13}  # DLPack's device types of CUDA memory and of managed memory
_NO_REDUCED_PRECISION = 16  # cuBLAS's CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
_STATIC_SHARED = 48 << 10  # bytes; a kernel that uses more must request it


def why_no_gpu() -> str | None:
    """Return None if CuPy finds a GPU and NVRTC, else what is missing."""
    if not cp.cuda.is_available():
        return "CuPy finds no NVIDIA GPU (nvidia-smi shows whether the driver sees one)"
    try:
        cp.cuda.nvrtc.getVersion()
    except (ImportError, OSError, RuntimeError) as error:
        return (
            f"CuPy finds no NVRTC to compile kernels with ({error}); "
            "pip install mfrank[cuda12] or mfrank[cuda13] installs it"
        )
    return None


def all_devices() -> tuple[CupyDevice, ...]:
    """Every GPU that CuPy sees; this thread's current one comes first."""
    current = int(cp.cuda.Device().id)
    others = [n for n in range(cp.cuda.runtime.getDeviceCount()) if n != current]
    return tuple(map(_numbered, [current, *others]))


@cache
def _numbered(number: int) -> CupyDevice:
    return CupyDevice(number)


class CupyDevice:
    """A GPU by its number; see :class:`mfrank.arrays.device.Device`."""

    xp: Any = cp

    def __init__(self, number: int) -> None:
        self._number = number
        self._allowed: dict[Any, int] = {}  # shared memory of kernels that have asked for more
        with self.current():
            self._copies = cp.cuda.Stream(non_blocking=True)
        self._uploader = ThreadPoolExecutor(1, f"upload to GPU {number}")
        attributes = cp.cuda.Device(number).attributes
        self.shared_bytes = int(attributes["MaxSharedMemoryPerBlockOptin"])

    def holds(self, array: Any) -> bool:
        """See the protocol."""
        return isinstance(array, cp.ndarray)

    def asarray(self, array: Any, dtype: DTypeLike | None = None) -> Array:
        """See the protocol."""
        if self._is_right(array, dtype):  # CuPy takes ten times as long to find that out
            return array
        if not isinstance(array, np.ndarray | cp.ndarray) and hasattr(array, "__dlpack__"):
            # DLPack waits for the other library's pending work. __cuda_array_interface__ does not:
            # torch implements a version of it without streams.
            on_gpu = array.__dlpack_device__()[0] in _CUDA
            array = (cp if on_gpu else np).from_dlpack(array)
        if self.holds(array) and array.device.id != self._number:
            return self._from_another(array, dtype)
        return cp.ascontiguousarray(cp.asarray(array, dtype=dtype))

    def _is_right(self, array: Any, dtype: DTypeLike | None) -> bool:
        return (
            isinstance(array, cp.ndarray)
            and array.device.id == self._number
            and (dtype is None or array.dtype == dtype)
            and bool(array.flags.c_contiguous)
        )

    def _from_another(self, array: Array, dtype: DTypeLike | None) -> Array:
        """Copy from another GPU, complete on return because streams do not wait across GPUs."""
        with array.device:
            array = cp.ascontiguousarray(array, dtype=dtype)
            array.device.synchronize()
        copied = array.copy()
        cp.cuda.get_current_stream().synchronize()
        return copied

    def upload(self, array: NDArray[Any]) -> Callable[[], Array]:
        """See the protocol."""
        if not array.size:
            return lambda: cp.empty(array.shape, array.dtype)
        # The memory allocated here may have been freed while kernels that use it still run.
        freed = cp.cuda.get_current_stream().record()
        begun = self._uploader.submit(self._upload, array, freed)

        def wait() -> Array:
            copied, done, _pinned = begun.result()
            done.synchronize()
            return copied

        return wait

    def _upload(self, array: NDArray[Any], freed: Any) -> tuple[Array, Any, NDArray[Any]]:
        """The device array being written, the event of its completion, and its pinned source."""
        pinned = cupyx.empty_pinned(array.shape, array.dtype)
        pinned[...] = array  # slow, which is why another thread does this
        self._copies.wait_event(freed)
        with self.current(), self._copies:
            copied = cp.empty(array.shape, array.dtype)
            copied.set(pinned, stream=self._copies)
            return copied, self._copies.record(), pinned

    def asnumpy(self, array: Array) -> NDArray[Any]:
        """See the protocol."""
        return cp.asnumpy(array)  # type: ignore[no-any-return]

    def launch(self, module: Module, kernel: str, grid: Grid, args: Sequence[Any]) -> None:
        """See the protocol."""
        if grid.shared > self.shared_bytes:
            raise InputValueError(
                f"{kernel} needs {grid.shared} bytes of shared memory per block, but this GPU has "
                f"{self.shared_bytes}: there are too many factors",
                "lower `factors`",
            )
        function = _kernel(self._number, module, kernel)
        if grid.shared > self._allowed.get(function, _STATIC_SHARED):
            function.max_dynamic_shared_size_bytes = self.shared_bytes
            self._allowed[function] = self.shared_bytes
        blocks = grid.blocks if isinstance(grid.blocks, tuple) else (grid.blocks,)
        # CuPy takes int as long long and float as double, but bool as bool.
        given = tuple([_ARGUMENTS.get(type(one), _itself)(one) for one in args])
        function(blocks, (grid.threads,), given, shared_mem=grid.shared)

    def multiply_halves(self, left: Array, right: Array, out: Array) -> None:
        """See the protocol."""
        # By default, cuBLAS may add parts of sums that are rounded to float16.
        handle = cp.cuda.device.get_cublas_handle()
        mode = cp.cuda.cublas.getMathMode(handle)
        cp.cuda.cublas.setMathMode(handle, _NO_REDUCED_PRECISION)
        try:
            cp.matmul(left, right.T, out=out)
        finally:
            cp.cuda.cublas.setMathMode(handle, mode)

    def current(self) -> AbstractContextManager[Any]:
        """See the protocol."""
        # A new object per call: it stores the previously current device, of one thread only.
        context: AbstractContextManager[Any] = cp.cuda.Device(self._number)
        return context

    def synchronize(self) -> None:
        """See the protocol."""
        cp.cuda.Device(self._number).synchronize()

    def free_bytes(self) -> int:
        """See the protocol."""
        pool = cp.get_default_memory_pool()
        free = int(cp.cuda.runtime.memGetInfo()[0]) + int(pool.free_bytes())
        limit = int(pool.get_limit())  # 0 if there is none
        return min(free, limit - int(pool.used_bytes())) if limit else free


def _itself(value: Any) -> Any:
    return value


_ARGUMENTS: dict[type, Callable[[Any], Any]] = {
    type(None): lambda _: np.uintp(0),
    bool: np.int64,
    np.bool_: np.int64,
    int: np.int64,
    np.int32: np.int64,
    float: np.float64,
    np.float32: np.float64,
}


@cache
def _kernel(device: int, module: Module, name: str) -> Any:
    return _module(device, module).get_function(name)


@cache
def _module(device: int, module: Module) -> Any:
    """Compile and load the module on ``device``, which must be the current one."""
    return cp.RawModule(code=module.text, options=module.options)

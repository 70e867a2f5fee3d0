"""What is asked of CuPy, without a GPU: of a stand-in that notes it, or of CuPy itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.arrays import Grid
from mfrank.backends.cuda.kernel_sources import Module, modules

cupy = pytest.importorskip("cupy", reason="CuPy, which imports without a GPU")
cupy_device = pytest.importorskip("mfrank.backends.cuda.cupy_device")


class Noting:
    """An array or stream of a device, which notes what is done with it."""

    flags = SimpleNamespace(c_contiguous=True)
    dtype = np.dtype(np.float32)

    def __init__(self, notes: list[Any], name: str, device: int = 0) -> None:
        self._notes, self._name = notes, name
        self.device = Device(notes, device)

    def __getattr__(self, action: str) -> Any:
        def note(*args: Any, **how: Any) -> Noting:
            self._notes.append((self._name, action))
            if action == "set":
                self._notes.append(("set", args[0].tolist(), how["stream"]._name))
            return Noting(self._notes, f"{self._name}.{action}")

        return note

    def __enter__(self) -> None:
        self._notes.append((self._name, "enter"))

    def __exit__(self, *_: object) -> None:
        self._notes.append((self._name, "exit"))


class Device:
    """The stand-in for ``cupy.cuda.Device``."""

    current = 0

    def __init__(self, notes: list[Any], number: int | None = None) -> None:
        self.id = Device.current if number is None else number
        self._notes = notes
        self.attributes = {"MaxSharedMemoryPerBlockOptin": 227 << 10}

    def __enter__(self) -> None:
        self._notes.append(("device", self.id))

    def __exit__(self, *_: object) -> None:
        self._notes.append(("device", "before"))

    def synchronize(self) -> None:
        self._notes.append((f"device {self.id}", "synchronize"))


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What was asked of CuPy, of which three GPUs are there."""
    seen: list[Any] = []
    kernel = SimpleNamespace(max_dynamic_shared_size_bytes=None)

    class Kernel:
        def __setattr__(self, name: str, value: int) -> None:
            seen.append((name, value))
            setattr(kernel, name, value)

        def __call__(self, *args: Any, **how: Any) -> None:
            seen.append((*args, how))

    def compiled(code: str, options: tuple[str, ...]) -> Any:
        seen.append((code, options))
        return SimpleNamespace(get_function=lambda name: Kernel())

    def taken(function: str, array: Any, dtype: Any) -> Any:
        seen.append((function, dtype))
        return array

    def copies(*, non_blocking: bool = False) -> Noting:
        seen.append(("stream", non_blocking))
        return Noting(seen, "copies")

    pool = SimpleNamespace(free_bytes=lambda: 30, used_bytes=lambda: 50, get_limit=lambda: 0)
    stand_in = SimpleNamespace(
        ndarray=Noting,
        empty=lambda shape, dtype: Noting(seen, f"empty{shape}"),
        asarray=lambda array, dtype=None: taken("asarray", array, dtype),
        ascontiguousarray=lambda array, dtype=None: taken("ascontiguousarray", array, dtype),
        get_default_memory_pool=lambda: pool,
        pool=pool,
        RawModule=compiled,
        cuda=SimpleNamespace(
            Device=lambda number=None: Device(seen, number),
            Stream=copies,
            get_current_stream=lambda: Noting(seen, "current"),
            runtime=SimpleNamespace(getDeviceCount=lambda: 3, memGetInfo=lambda: (100, 1000)),
        ),
    )
    monkeypatch.setattr(cupy_device, "cp", stand_in)
    monkeypatch.setattr(cupy_device, "cupyx", SimpleNamespace(empty_pinned=np.empty))
    with _no_caches():
        yield seen


@contextmanager
def _no_caches() -> Iterator[None]:
    cached = cupy_device._numbered, cupy_device._kernel, cupy_device._module
    for each in cached:
        each.cache_clear()
    yield
    for each in cached:
        each.cache_clear()


def test_the_first_device_is_the_current_one(
    notes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when another becomes so; a device stays the same object, as what lies on it knows it."""
    before = cupy_device.all_devices()
    monkeypatch.setattr(Device, "current", 2)
    after = cupy_device.all_devices()
    assert [each._number for each in (*before, *after)] == [0, 1, 2, 2, 0, 1]
    assert after[1] is before[0]


def test_an_upload_waits_for_what_had_the_memory_before(notes: list[Any]) -> None:
    device = cupy_device.CupyDevice(0)
    assert ("stream", True) in notes  # it waits for no kernel of the default stream
    notes.clear()
    assert device.upload(np.array([1, 2]))()._name == "empty(2,)"
    assert notes == [
        ("current", "record"),
        ("copies", "wait_event"),
        ("device", 0),
        ("copies", "enter"),
        ("empty(2,)", "set"),
        ("set", [1, 2], "copies"),
        ("copies", "record"),
        ("copies", "exit"),
        ("device", "before"),
        ("copies.record", "synchronize"),
    ]


def test_an_upload_that_fails_says_so_where_it_is_waited_for(
    notes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: Any) -> None:
        raise MemoryError("no pinned memory")

    monkeypatch.setattr(cupy_device.cupyx, "empty_pinned", none_left)
    taken = cupy_device.CupyDevice(0).upload(np.ones(2))
    with pytest.raises(MemoryError, match="no pinned memory"):
        taken()


def test_nothing_is_uploaded_of_nothing(notes: list[Any]) -> None:
    device = cupy_device.CupyDevice(0)
    notes.clear()
    assert device.upload(np.empty(0))()._name == "empty(0,)"
    assert notes == []


def test_what_another_gpu_has_is_copied_when_it_is_complete(notes: list[Any]) -> None:
    device, array = cupy_device.CupyDevice(1), Noting(notes, "array", device=0)
    notes.clear()
    assert device.asarray(array, np.float16)._name == "array.copy"
    assert notes == [
        ("device", 0),
        ("ascontiguousarray", np.float16),
        ("device 0", "synchronize"),
        ("device", "before"),
        ("array", "copy"),
        ("current", "synchronize"),
    ]


def test_an_array_that_is_right_already_is_not_sent_through_cupy(notes: list[Any]) -> None:
    """Which would take ten times as long to find that out."""
    device, array = cupy_device.CupyDevice(0), Noting(notes, "array")
    notes.clear()
    assert device.asarray(array) is array
    assert device.asarray(array, np.float32) is array
    assert notes == []
    assert device.asarray(array, np.float64) is array  # the stand-in converts nothing
    assert notes == [("asarray", np.float64), ("ascontiguousarray", None)]


def test_an_array_comes_back_as_numpy_s(notes: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy_device.cp, "asnumpy", lambda array: array._name, raising=False)
    assert cupy_device.CupyDevice(0).asnumpy(Noting(notes, "array")) == "array"


def test_the_host_waits_for_the_device_of_that_number(notes: list[Any]) -> None:
    cupy_device.CupyDevice(2).synchronize()
    assert notes[-1] == ("device 2", "synchronize")


class Tensor:
    """As torch's: it has both protocols."""

    __cuda_array_interface__ = MappingProxyType({"version": 2})

    def __init__(self, memory: int) -> None:
        self.memory = memory

    def __dlpack__(self, **_: Any) -> None:
        """Whoever asks for it waits for the tensor's stream."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.memory, 0


@pytest.mark.parametrize("memory", [2, 13])
def test_what_another_library_still_computes_is_waited_for(
    notes: list[Any], monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    """By DLPack, which tells the stream; the other interface of torch does not."""
    device, there = cupy_device.CupyDevice(0), Noting(notes, "array")
    monkeypatch.setattr(cupy_device.cp, "from_dlpack", lambda given: there, raising=False)
    assert device.asarray(Tensor(memory)) is there


def test_kernels_get_numbers_in_the_size_they_take(notes: list[Any]) -> None:
    device, array = cupy_device.CupyDevice(0), np.ones(3, np.float32)
    module = Module.of("best", np.float32)
    notes.clear()
    args = [array, None, True, 3, np.int32(4), 0.5, np.float32(0.25)]
    device.launch(module, "select_best", Grid((7, 2), 256, 48 << 10), args)
    (blocks, threads, passed, how) = notes.pop()
    assert (blocks, threads, how) == ((7, 2), (256,), {"shared_mem": 48 << 10})
    assert passed[0] is array
    assert [each.dtype.str[1:] for each in passed[1:]] == ["u8", "i8", "i8", "i8", "f8", "f8"]
    assert list(passed[1:]) == [0, 1, 3, 4, 0.5, 0.25]
    assert notes == [(module.text, module.options)]  # 48 KiB need not be asked for


def test_more_shared_memory_is_asked_for(notes: list[Any]) -> None:
    device, module = cupy_device.CupyDevice(0), Module.of("best", np.float32)
    notes.clear()
    device.launch(module, "select_best", Grid(1, 256, 100_000), [])
    assert notes[1] == ("max_dynamic_shared_size_bytes", device.shared_bytes)
    device.launch(module, "select_best", Grid(1, 256, device.shared_bytes), [])
    with pytest.raises(ValueError, match="there are too many factors"):
        device.launch(module, "select_best", Grid(1, 256, 1 << 20), [])


@pytest.mark.parametrize("fails", [False, True])
def test_sums_of_halves_are_rounded_once(
    notes: list[Any], monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """By a mode of cuBLAS that others who use its handle do not find."""

    def matmul(left: Any, right: Any, out: Any) -> None:
        notes.append("matmul")
        if fails:
            raise MemoryError
        np.matmul(left, right, out=out)

    blas = SimpleNamespace(
        getMathMode=lambda handle: 7, setMathMode=lambda *given: notes.append(given)
    )
    stand_in = cupy_device.cp
    monkeypatch.setattr(stand_in, "matmul", matmul, raising=False)
    monkeypatch.setattr(stand_in.cuda, "cublas", blas, raising=False)
    handles = SimpleNamespace(get_cublas_handle=lambda: "handle")
    monkeypatch.setattr(stand_in.cuda, "device", handles, raising=False)
    device, halves = cupy_device.CupyDevice(0), np.eye(2, 3, dtype=np.float16)
    others, product = np.arange(6, dtype=np.float16).reshape(2, 3), np.empty((2, 2), np.float16)
    notes.clear()
    with pytest.raises(MemoryError) if fails else nullcontext():
        device.multiply_halves(halves, others, product)
        np.testing.assert_array_equal(product, [[0, 3], [1, 4]])
    disallow_reduced_precision_reduction = 16
    assert notes == [("handle", disallow_reduced_precision_reduction), "matmul", ("handle", 7)]


def test_free_memory_is_what_the_pool_may_still_take(notes: list[Any]) -> None:
    device, pool = cupy_device.CupyDevice(0), cupy_device.cp.pool
    assert device.free_bytes() == 130
    pool.get_limit = lambda: 90
    assert device.free_bytes() == 40
    pool.get_limit = lambda: 10_000
    assert device.free_bytes() == 130


def test_without_nvrtc_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise RuntimeError("libnvrtc.so.12: not found")

    cuda = SimpleNamespace(is_available=lambda: True, nvrtc=SimpleNamespace(getVersion=lost))
    monkeypatch.setattr(cupy_device, "cp", SimpleNamespace(cuda=cuda))
    assert "libnvrtc.so.12: not found" in cupy_device.why_no_gpu()
    assert "mfrank[cuda12]" in cupy_device.why_no_gpu()


def test_without_a_gpu_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any work, and nothing else of CuPy is asked."""
    cuda = SimpleNamespace(is_available=lambda: False)
    monkeypatch.setattr(cupy_device, "cp", SimpleNamespace(cuda=cuda))
    with pytest.raises(ValueError, match=r"'cuda' cannot run here: CuPy finds no NVIDIA GPU \("):
        mfrank.ALS(backend="cuda")


# --- CuPy itself


def test_cupy_has_what_is_asked_of_it() -> None:
    for owner, names in (
        (cupy.cuda.Stream, ("record", "wait_event", "synchronize")),
        (cupy.cuda.Event, ("synchronize",)),
        (cupy.cuda.Device, ("attributes", "synchronize", "id")),
        (cupy.cuda.MemoryPool, ("free_bytes", "used_bytes", "get_limit")),
        (cupy.cuda.cublas, ("getMathMode", "setMathMode")),
        (cupy.cuda.device, ("get_cublas_handle",)),
        (cupy.cuda.runtime, ("memGetInfo", "getDeviceCount")),
        (cupy.cuda.runtime, ("cudaDevAttrMaxSharedMemoryPerBlockOptin",)),
        (cupy.RawKernel, ("max_dynamic_shared_size_bytes",)),
        (cupy, ("from_dlpack", "ascontiguousarray", "asnumpy", "get_default_memory_pool")),
        (cupy.ndarray, ("set", "device", "copy", "__cuda_array_interface__", "__dlpack__")),
    ):
        assert not [name for name in names if not hasattr(owner, name)]
    assert (
        cupy.ndarray.__weakrefoffset__
    )  # what stays on a device is found again by weak references


def test_sparse_matrices_of_cupy_have_what_is_asked_of_them() -> None:
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    assert not sparse.issparse(np.eye(2))
    for name in ("csr_matrix", "csc_matrix", "coo_matrix"):
        matrix = getattr(sparse, name)
        assert matrix.format == name[:3]
        assert not [each for each in ("get", "tocsr", "shape", "ndim") if not hasattr(matrix, each)]


@pytest.mark.parametrize("module", modules()[::5], ids=lambda module: module.name)
def test_kernels_compile_with_the_options_that_cupy_adds(
    monkeypatch: pytest.MonkeyPatch, module: Module
) -> None:
    """As RawModule has them compiled, to a cubin; only the architecture is a GPU's to say."""
    compiler = pytest.importorskip("cupy.cuda.compiler")
    if not hasattr(compiler, "_get_arch_for_options_for_nvrtc"):
        pytest.skip("this CuPy asks a GPU for its architecture elsewhere")
    try:
        cupy.cuda.nvrtc.getVersion()
    except (ImportError, OSError, RuntimeError) as error:
        pytest.skip(f"CuPy finds no NVRTC: {error}")
    chosen = "-arch=sm_90", "cubin"
    monkeypatch.setattr(compiler, "_get_arch_for_options_for_nvrtc", lambda arch=None: chosen)
    binary, _ = compiler.compile_using_nvrtc(module.text, module.options, arch="90")
    assert binary[:4] == b"\x7fELF"

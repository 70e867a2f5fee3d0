"""A GPU for machines without one: the kernels' own texts compiled by g++, arrays kept apart.

An array of this device does not mix with numpy's, as CuPy's does not, and kernels see no other. So
what runs here leaves nothing on the wrong side, and reads and writes what it would on a GPU; how
fast a kernel is, and what a real GPU's memory model allows, this does not show.
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays import Grid
from mfrank.arrays import device as gpu
from mfrank.backends.cuda.kernel_sources import Module, modules
from mfrank.files import locked

__all__ = ["DeviceArray", "EmulatedGPU", "Launched", "installed", "unknown_to", "why_unavailable"]

_HEADER = Path(__file__).with_name("emulated_gpu.h")
_KERNEL = re.compile(
    r"__global__\s+void\s+__launch_bounds__\((\w+)[^)]*\)\s+(\w+)\(([^)]*)\)", re.DOTALL
)
_FOLDER = Path(__file__).parents[2] / ".pytest_cache" / "emulated-gpu"
_OPTIONS = ["-O1", "-ffp-contract=off", "-w", "-shared", "-fPIC"]
_OPTIONS += ["-Wl,-Bsymbolic"]  # a kernel may have the name of a function elsewhere
_one_at_a_time = threading.Lock()
_GUARD = 64  # bytes behind each array that no kernel may touch
_WRONG = {1: "not all threads reach a barrier", 2: "writes beyond its shared memory", 3: "bad grid"}


def why_unavailable() -> str | None:
    """None where g++ is."""
    return None if shutil.which("g++") else "no g++ to emulate a GPU with"


@contextmanager
def installed() -> Iterator[EmulatedGPU]:
    """While it is entered, it is the only GPU there is."""
    emulated = EmulatedGPU()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu, "devices", lambda: (emulated,))
        patch.setattr(gpu, "why_unavailable", lambda: None)
        compile_all()
        yield emulated


def unknown_to(library: Any) -> list[str]:
    """What was asked of arrays of the device so far, and the library (CuPy) does not have."""
    functions, attributes = DeviceArray.asked["functions"], DeviceArray.asked["attributes"]
    unknown = [
        name for name in functions if not (hasattr(library, name) or hasattr(library.linalg, name))
    ]
    unknown += [name for name in attributes if not hasattr(library.ndarray, name)]
    for name in attributes.keys() - set(unknown):
        signature = (getattr(library.ndarray, name).__doc__ or "").partition("\n")[0]
        unknown += [f".{name}({how})" for how in attributes[name] if f"{how}=" not in signature]
    for name in functions.keys() - set(unknown):
        if inspect.isfunction(function := getattr(library, name, None)):
            signature = inspect.signature(function)
            unknown += [f"{name}{how}" for how in functions[name] if not _takes(signature, *how)]
    return unknown


def _takes(signature: inspect.Signature, n_positional: int, keywords: frozenset[str]) -> bool:
    try:
        signature.bind(*[None] * n_positional, **dict.fromkeys(keywords))
    except TypeError:
        return False
    return True


class DeviceArray:
    """Behaves as a numpy array among its like, and refuses to become one unasked."""

    asked: ClassVar[dict[str, dict[str, set[Any]]]] = {"functions": {}, "attributes": {}}
    """What the whole test run used of the library, with how many arguments and which keywords, and
    of its arrays, with which keywords."""

    went: ClassVar[list[int]] = []
    """Numbers in each array that went from the host to the device."""

    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array: NDArray[Any]) -> None:
        self.on_host = array

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        raise TypeError("implicit conversion of a device array to numpy")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **how: Any) -> Any:
        _note(ufunc.__name__, inputs, how)
        if method != "__call__":
            raise TypeError(f"{ufunc.__name__}.{method} of numpy need not reach CuPy's")
        if "out" in how:
            how["out"] = tuple(_inside(each) for each in how["out"])
        return _outside(getattr(ufunc, method)(*map(_inside, inputs), **how))

    def __array_function__(self, function: Any, _: Any, args: Any, how: Any) -> Any:
        how = {name: value for name, value in how.items() if name != "like"}
        _refuse_unordered(function.__name__, args, how)
        _note(function.__name__, args, how)
        if function is np.empty:
            return _poisoned(function(*args, **how))
        if function in (np.asarray, np.array, np.zeros, np.arange):
            given = [value.on_host if isinstance(value, DeviceArray) else value for value in args]
            self.went.extend(value.size for value in args if isinstance(value, np.ndarray))
            return _outside(np.array(function(*given, **how)))  # with like=: a copy on the device
        return _outside(function(*map(_inside, args), **{n: _inside(v) for n, v in how.items()}))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("ctypes", "data", "on_host"):
            raise AttributeError(name)
        self.asked["attributes"].setdefault(name, set())
        found = getattr(self.on_host, name)
        if not callable(found):
            return _outside(found)

        def call(*args: Any, **how: Any) -> Any:
            self.asked["attributes"][name].update(how)
            return _outside(found(*map(_inside, args), **{n: _inside(v) for n, v in how.items()}))

        return call

    def __getitem__(self, at: Any) -> Any:
        return _outside(self.on_host[_inside(at)])

    def __setitem__(self, at: Any, value: Any) -> None:
        self.on_host[_inside(at)] = _inside(value)

    def __len__(self) -> int:
        return len(self.on_host)

    def __float__(self) -> float:
        return float(self.on_host)

    def __int__(self) -> int:
        return int(self.on_host)

    __index__ = __int__

    def __bool__(self) -> bool:
        return bool(self.on_host)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def get(self) -> NDArray[Any]:
        """As CuPy's: a copy in numpy."""
        return np.array(self.on_host)


def _operator(name: str) -> Any:
    def apply(self: DeviceArray, *others: Any) -> Any:
        found = getattr(np.asarray(self.on_host), name)(*map(_inside, others))
        return self if name.startswith("__i") and name != "__invert__" else _outside(found)

    return apply


_BINARY = ["add", "sub", "mul", "truediv", "floordiv", "matmul", "pow", "mod", "and", "or", "xor"]
_OTHERS = ["neg", "abs", "invert", "lshift", "rshift", "eq", "ne", "lt", "le", "gt", "ge"]
for _name in [prefix + name for prefix in ("", "r", "i") for name in _BINARY] + _OTHERS:
    setattr(DeviceArray, f"__{_name}__", _operator(f"__{_name}__"))


def _note(function: str, args: Any, how: Any) -> None:
    DeviceArray.asked["functions"].setdefault(function, set()).add((len(args), frozenset(how)))


def _refuse_unordered(function: str, args: Any, how: Any) -> None:
    """Of CuPy's sums, those whose bits would change from run to run.

    It adds weights atomically, and CUB, which it scans a vector with, as blocks come.
    """
    if function in ("bincount", "histogram") and (len(args) > 1 or "weights" in how):
        raise TypeError(f"{function} of CuPy adds in whatever order threads come")
    scans = function in ("cumsum", "cumprod") and len(args) == 1 and how.get("axis") is None
    if scans and np.asarray(_inside(args[0])).dtype.kind == "f":
        raise TypeError(f"{function} of CuPy adds in whatever order blocks come, but along an axis")


def _inside(value: Any) -> Any:
    if isinstance(value, DeviceArray):
        return value.on_host
    if isinstance(value, list | tuple):
        return type(value)(map(_inside, value))
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("a numpy array among arrays of the device")
    return value


def _outside(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return DeviceArray(np.asarray(value))  # CuPy's reductions give arrays of no dimension
    if isinstance(value, tuple):
        return tuple(map(_outside, value))
    return value


class _Namespace:
    """numpy's functions on device arrays."""

    def __init__(self, library: ModuleType = np) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._library, name)
        if isinstance(found, ModuleType):
            return _Namespace(found)
        if isinstance(found, type) or not callable(found):
            return found

        def call(*args: Any, **how: Any) -> Any:
            _refuse_unordered(name, args, how)
            _note(name, args, how)
            if name in ("empty", "empty_like"):
                return _poisoned(found(*map(_inside, args), **how))
            return _outside(found(*map(_inside, args), **{n: _inside(v) for n, v in how.items()}))

        return call


def _poisoned(array: NDArray[Any]) -> DeviceArray:
    raw = np.full(array.nbytes + _GUARD, 0xFF, dtype=np.uint8)
    return DeviceArray(raw[: array.nbytes].view(array.dtype).reshape(array.shape))


class Launched(NamedTuple):
    """A launch of a kernel."""

    kernel: str
    grid: Grid
    args: tuple[Any, ...]
    tile: int


class EmulatedGPU:
    """See :class:`mfrank.arrays.device.Device`.

    Attributes
    ----------
    reversed : bool
        Whether blocks and threads run in the opposite order.
    free : int
        What is said to be free.
    used_bytes : int
        Of shared memory, that a block of the last launch has written.
    """

    xp: Any = _Namespace()

    def __init__(self, shared_bytes: int = 227 << 10, free: int = 1 << 28) -> None:
        self.shared_bytes, self.free, self.reversed = shared_bytes, free, False
        self.used_bytes = 0

    def holds(self, array: Any) -> bool:
        return isinstance(array, DeviceArray)

    def asarray(self, array: Any, dtype: DTypeLike | None = None) -> DeviceArray:
        if isinstance(array, DeviceArray):
            there = np.ascontiguousarray(array.on_host, dtype=dtype)
            return array if there is array.on_host else DeviceArray(there)  # as CuPy does
        if not isinstance(array, np.ndarray) and hasattr(array, "__dlpack__"):
            array = np.from_dlpack(array)
        DeviceArray.went.append(np.size(array))
        copy = np.array(array, dtype=dtype, order="C")
        guarded = _poisoned(copy)
        guarded.on_host[...] = copy
        return guarded

    def upload(self, array: NDArray[Any]) -> Callable[[], DeviceArray]:
        there = self.asarray(array)
        return lambda: there

    def asnumpy(self, array: DeviceArray) -> NDArray[Any]:
        return np.array(array.on_host)

    def launch(self, module: Module, kernel: str, grid: Grid, args: Sequence[Any]) -> None:
        types = _signatures(module)[kernel]
        assert len(types) == len(args), f"{kernel} takes {len(types)} arguments, got {len(args)}"
        boxes = [_box(kernel, i, *pair) for i, pair in enumerate(zip(types, args, strict=True))]
        pointers = (ctypes.c_void_p * len(boxes))(*(ctypes.addressof(box) for box in boxes))
        blocks = grid.blocks if isinstance(grid.blocks, tuple) else (grid.blocks, 1)
        assert min(blocks) > 0, f"{kernel} on an empty grid"
        assert blocks[0] < 2**31, f"{kernel} on too large a grid"
        assert blocks[1] < 2**16, f"{kernel} on too large a grid"
        assert grid.shared <= self.shared_bytes, f"{kernel} wants {grid.shared} bytes shared"
        dims = (ctypes.c_longlong * 6)(*blocks, grid.threads, grid.shared, self.reversed)
        with _one_at_a_time:
            code = getattr(_library(module), f"launch_{kernel}")(dims, pointers)
        if code:
            raise RuntimeError(f"{kernel}: {_WRONG[code]}")
        self.used_bytes = int(dims[5])
        for i, array in enumerate(args):
            if isinstance(array, DeviceArray) and not _is_whole(array.on_host):
                raise RuntimeError(f"{kernel} writes behind its argument {i}")

    def multiply_halves(self, left: DeviceArray, right: DeviceArray, out: DeviceArray) -> None:
        assert {array.dtype for array in (left, right, out)} == {np.dtype(np.float16)}
        assert out.on_host.flags.c_contiguous
        wide = left.on_host.astype(np.float32) @ right.on_host.astype(np.float32).T
        out.on_host[...] = wide

    def current(self) -> AbstractContextManager[None]:
        return nullcontext()

    def synchronize(self) -> None:
        """Nothing is ever under way."""

    def free_bytes(self) -> int:
        return self.free


def _is_whole(array: NDArray[Any]) -> bool:
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return owner.dtype != np.uint8 or owner is array or bool((owner[-_GUARD:] == 0xFF).all())


def _box(kernel: str, place: int, declared: str, value: Any) -> Any:
    if "*" in declared:
        if value is None:
            return ctypes.c_void_p(0)
        assert isinstance(value, DeviceArray), f"{kernel}'s argument {place} is no device array"
        array = value.on_host
        wanted = _DTYPES[declared.replace("const", "").replace("*", "").strip()]
        assert array.dtype == wanted, f"{kernel}'s argument {place} is {array.dtype}, not {wanted}"
        assert array.flags.c_contiguous, f"{kernel}'s argument {place} is not contiguous"
        return ctypes.c_void_p(array.ctypes.data)
    if declared == "double":
        return ctypes.c_double(value)
    assert declared == "Int", f"{kernel} takes {declared}"
    assert isinstance(value, bool | int | np.integer), f"{kernel}'s argument {place} is {value!r}"
    assert -(2**63) <= value < 2**63, f"{kernel}'s argument {place} is {value}"
    return ctypes.c_longlong(value)


_DTYPES = {
    "half": np.float16,
    "Half": np.float16,
    "float": np.float32,
    "double": np.float64,
    "int": np.int32,
    "Int": np.int64,
    "unsigned char": np.uint8,
    "unsigned short": np.uint16,
    "bool": np.bool_,
}


@cache
def _signatures(module: Module) -> dict[str, list[str]]:
    return {
        name: [_type(one, module) for one in parameters.split(",")]
        for _, name, parameters in _KERNEL.findall(module.text)
    }


def _type(parameter: str, module: Module) -> str:
    declared = re.match(r"(.*?[\s*])\w+$", " ".join(parameter.replace("__restrict__", "").split()))
    assert declared, parameter
    names = {
        "T": module.real,
        "F": "half" if module.half else module.real,
        "D": {"float": "unsigned short", "double": "float"}[module.real],
    }
    return re.sub(r"\b[TFD]\b", lambda found: names[found[0]], declared[1]).strip()


def compile_all() -> None:
    """Every module, as many at a time as there are cores; another process of tests waits for it."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with locked(_FOLDER), ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_compiled, modules()))


@cache
def _library(module: Module) -> ctypes.CDLL:
    return ctypes.CDLL(str(_compiled(module)))


def _compiled(module: Module) -> Path:
    """The module as a library, compiled where its text or options are new."""
    launchers = "".join(
        f'extern "C" int launch_{name}(long long* dims, void** args) '
        f"{{ return emulated::launch({name}, {most_threads}, dims, args); }}\n"
        for most_threads, name, _ in _KERNEL.findall(module.text)
    )
    text = f'#include "{_HEADER}"\n{module.text}\n{launchers}'
    key = hashlib.sha256("\n".join([*module.options, text, _HEADER.read_text()]).encode())
    path = _FOLDER / f"{module.name}-{key.hexdigest()[:24]}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
            source, made = Path(folder) / f"{module.name}.cpp", Path(folder) / path.name
            source.write_text(text)
            command = ["g++", *module.options, *_OPTIONS, str(source), "-o", str(made)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"g++ refuses {module.name}:\n{done.stderr}")
            made.replace(path)
    return path

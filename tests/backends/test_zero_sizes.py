"""The extension answers or refuses arrays of whatever sizes; it never crashes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from children import run
from ext_calls import CALLS, Arguments, Call, unaligned
from numpy.typing import NDArray

_ext = pytest.importorskip("mfrank._ext", reason="the C++ extension is not built")

Path = tuple[str | int, ...]
"""Where an array is among nested arguments."""


def arrays(value: Any, path: Path = ()) -> Iterator[tuple[Path, NDArray[Any]]]:
    """Arrays of the arguments, and of tuples among them."""
    if isinstance(value, np.ndarray):
        yield path, value
    elif isinstance(value, dict | tuple):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in inner:
            yield from arrays(one, (*path, key))


def put(value: Any, path: Path, array: NDArray[Any]) -> Any:
    """The arguments with another array in that place."""
    if not path:
        return array
    key, *rest = path
    if isinstance(value, dict):
        return value | {key: put(value[key], tuple(rest), array)}
    return tuple(put(one, tuple(rest), array) if i == key else one for i, one in enumerate(value))


def resized(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Without one axis's elements, without all; a little too small and too large."""
    for axis, size in enumerate(array.shape):
        for other in (0, size - 1, size + 1):
            shape = list(array.shape)
            shape[axis] = max(0, other)
            yield np.resize(array, shape)
    yield np.zeros((0,) * array.ndim, array.dtype)


def odd_sizes(call: Call) -> Iterator[tuple[str, Arguments]]:
    """Arguments and what they are: axes without elements, then one or two arrays that differ."""
    axes = call.axes
    for subset in chain.from_iterable(combinations(axes, r) for r in range(len(axes) + 1)):
        yield f"no {subset}", call.arguments(**dict.fromkeys(subset, 0))
    given = call.arguments()
    variants = [(path, other) for path, array in arrays(given) for other in resized(array)]
    for path, other in variants:
        yield f"{path} {other.shape}", put(call.arguments(), path, other.copy())
    empty = [(path, other) for path, other in variants if not other.size]
    for (path, other), (path_2, other_2) in combinations(empty, 2):
        both = put(put(call.arguments(), path, other), path_2, other_2)
        yield f"{path} {other.shape}, {path_2} {other_2.shape}", both


def main() -> None:
    """Call everything with everything, saying what before each call."""
    for call in CALLS:
        for name, arguments in odd_sizes(call):
            print(call, name, flush=True)
            with suppress(Exception):
                getattr(_ext, call.function)(**arguments)
    print("survived", flush=True)


def test_every_function_survives_every_size() -> None:
    result = run("import test_zero_sizes; test_zero_sizes.main()")
    last = result.stdout[-400:]
    assert result.returncode == 0, last + result.stderr
    assert last.endswith("survived\n"), last + result.stderr


def test_every_function_is_called() -> None:
    functions = {name for name in dir(_ext) if not name.startswith("_")}
    without_arrays = {"column_ranges", "isa", "summed_from", "usable_cores"}
    assert functions - without_arrays == {call.function for call in CALLS}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.function}-{call.dtype}")
def test_arrays_are_taken_but_unaligned_ones_refused_by_name(call: Call) -> None:
    function = getattr(_ext, call.function)
    function(**call.arguments())
    for path, array in arrays(call.arguments()):
        if array.itemsize == 1:
            continue
        with pytest.raises(ValueError, match="must be aligned") as refused:
            function(**put(call.arguments(), path, unaligned(array)))
        assert len(path) > 1 or str(refused.value).startswith(str(path[0]))

"""Results computed from read-only arrays at their second request, and kept while these live."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

__all__ = ["Kept"]

T = TypeVar("T")

_Known = tuple[tuple[weakref.ref[NDArray[Any]], ...], T | None]


class Kept(Generic[T]):
    """Results by the arrays that they are computed from; removed when any of these is freed."""

    def __init__(self) -> None:
        self._of: dict[tuple[int, ...], _Known[T]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def of(self, *arrays: NDArray[Any], make: Callable[[], T]) -> T | None:
        """What ``make`` returned for these arrays.

        None for writable arrays, and at the first request, because a view that was made for one
        call is never requested again.
        """
        if any(array.flags.writeable for array in arrays):
            return None
        key = tuple(map(id, arrays))
        references, made = self._of.get(key, ((), None))
        if not references or any(
            each() is not array for each, array in zip(references, arrays, strict=True)
        ):
            new = (weakref.ref(array, lambda _: self._of.pop(key, None)) for array in arrays)
            self._of[key] = tuple(new), None
            return None
        if made is None:
            made = make()
            self._of[key] = references, made
        return made

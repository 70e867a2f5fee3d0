"""Valid ids: integers, strings and other hashables.

Integers of any width become int64. So do floats with integer values, because pandas turns a column
of integers with missing values into floats. Strings and other hashables are stored unchanged in an
object array, which may mix types: 1 and "1" are two ids. Missing values (None, NaN, NA, NaT) and
booleans are not ids. Text files have their own rules (:mod:`mfrank.data.fields`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.checks import shown
from mfrank.arrays.distinct import distinct
from mfrank.arrays.interop import to_host

__all__ = ["RawIds", "canonical", "number", "objects"]

RawIds = ArrayLike | Iterable[Hashable]
"""Accepted as ids: an array, a column of a data frame, or any iterable of hashables."""

_EXACT = 2**53  # float64 is exact for integers up to this


def canonical(raw: RawIds, first_row: int = 0) -> NDArray[Any]:
    """Check ids and convert them to an int64 or object array; see the module.

    Errors count rows from ``first_row``.
    """
    labels = _one_dimensional(raw)
    kind = labels.dtype.kind
    if kind == "i":
        return labels.astype(np.int64, copy=False)
    if kind == "u":
        return _from_unsigned(labels)
    if kind == "f":
        return _from_floats(labels, first_row)
    if kind in "USTO":
        return _from_objects(labels.astype(object, copy=False), first_row)
    raise TypeError(
        f"ids must be whole numbers, strings or other hashables, got dtype {labels.dtype}"
    )


def number(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct labels in ascending order, and the position of every label in them."""
    if len(labels) and (span := int(labels.max()) - int(labels.min()) + 1) <= 4 * len(labels):
        # Dense labels, the usual case, are counted rather than sorted.
        offsets = labels - labels.min()
        present = np.zeros(span, dtype=bool)
        present[offsets] = True
        return np.flatnonzero(present) + labels.min(), (np.cumsum(present) - 1)[offsets]
    ascending = distinct(labels)
    return ascending, np.searchsorted(ascending, labels)


def _one_dimensional(raw: RawIds) -> NDArray[Any]:
    raw = to_host(raw, "ids")
    if isinstance(raw, str | bytes) or not isinstance(raw, Iterable):
        raise TypeError(
            f"expected a list or array of ids, got a single {shown(raw)}; wrap it in a list"
        )
    # A plain list must not reach np.asarray: it would turn [1, "a"] into strings.
    labels = np.asarray(raw) if hasattr(raw, "__array__") else objects(raw)
    if labels.ndim != 1:
        raise ValueError(f"expected ids in one dimension, got shape {labels.shape}")
    return labels


def objects(items: Iterable[Any]) -> NDArray[Any]:
    """A one-dimensional object array of any items (tuples stay tuples)."""
    return np.fromiter(items, dtype=object)


def _from_unsigned(labels: NDArray[Any]) -> NDArray[np.int64]:
    if len(labels) and labels.max() > np.iinfo(np.int64).max:
        raise ValueError(f"ids must fit int64, got {labels.max()}; use strings for longer numbers")
    return labels.astype(np.int64)


def _from_floats(labels: NDArray[Any], first_row: int) -> NDArray[np.int64]:
    missing = np.isnan(labels)  # first, because it made floats of whole numbers
    if missing.any():
        row = int(np.argmax(missing))
        raise ValueError(_missing(labels[row], first_row + row))
    bad = ~(np.abs(labels) <= _EXACT) | (labels != np.round(labels))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"ids must be whole numbers or strings, got {labels[row]} in row "
            f"{first_row + row}; "
            "use strings for ids that are not whole, or are too large for a float"
        )
    return labels.astype(np.int64)


def _from_objects(labels: NDArray[Any], first_row: int) -> NDArray[Any]:
    types = set(map(type, labels))
    if types == {str}:
        return labels
    for row, label in enumerate(labels, first_row):
        if _is_missing(label):
            raise ValueError(_missing(label, row))
        if isinstance(label, bool | np.bool_):
            raise TypeError(f"ids must not be booleans, got {shown(label)} in row {row}")
    if all(issubclass(t, int | np.integer) for t in types):
        return _from_integers(labels)
    if all(issubclass(t, int | np.integer | float | np.floating) for t in types):
        return _from_floats(labels.astype(np.float64), first_row)
    if all(issubclass(t, str) for t in types):
        return objects(map(str, labels))
    try:
        set(labels)
    except TypeError as error:
        raise TypeError(f"ids must be hashable: {error}") from error
    return labels


def _from_integers(labels: NDArray[Any]) -> NDArray[np.int64]:
    try:
        return labels.astype(np.int64)
    except OverflowError as error:
        raise ValueError("ids must fit int64; use strings for longer numbers") from error


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, NA or NaT: the values that do not equal themselves."""
    if label is None:
        return True
    same = label == label
    return not (isinstance(same, bool | np.bool_) and same)


def _missing(label: Any, row: int) -> str:
    return (
        f"ids must not be missing, got {shown(label)} in row {row}; drop that row or give it an id"
    )

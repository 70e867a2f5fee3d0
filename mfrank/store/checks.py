"""The door of the factor store: what each of its fields must be, and the form it is kept in."""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import beside
from mfrank.data.ids import Ids
from mfrank.foreign import as_array, to_host
from mfrank.quadratic import Counts
from mfrank.read_only import read_only
from mfrank.store.manifest import check_storable

__all__ = [
    "check_finite",
    "check_not_negative",
    "counts_of",
    "extra_array",
    "factor_matrix",
    "fitter_of",
    "history_record",
    "is_mapped",
    "per_row",
    "stored_ids",
    "versions_of",
]

_STORED_IDS = ({"labels": "int64"}, {"utf8": "uint8", "offsets": "int64"})


def factor_matrix(name: str, array: Any, rows: int) -> NDArray[Any]:
    """Factors of one side where they are, C-contiguous and read-only, shape (rows, factors)."""
    given = as_array(array, name)
    if given.dtype not in (np.float32, np.float64):
        raise TypeError(f"{name} must be float32 or float64, got {given.dtype}; cast it first")
    if given.ndim != 2 or given.shape[0] != rows or given.shape[1] == 0:
        raise ValueError(
            f"{name} must have a row for each of its {rows} ids and at least one column, got "
            f"shape {given.shape}"
        )
    return _kept(name, given)


def per_row(name: str, array: Any, rows: int, factors: NDArray[Any]) -> NDArray[Any]:
    """One number a row in the factors' dtype and beside them, read-only, shape (rows,)."""
    given = beside(as_array(array, name), factors)
    if given.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers, got dtype {given.dtype}")
    if given.shape != (rows,):
        raise ValueError(f"{name} must have shape ({rows},), got {given.shape}")
    if given.dtype != factors.dtype:
        with np.errstate(over="ignore"):  # found below, as infinity
            given = given.astype(factors.dtype)
    return _kept(name, given)


def counts_of(counts: Counts, users: int, items: int) -> Counts:
    """Counts of the right sizes, read-only, in numpy."""
    here = Counts(to_host(counts.users, "counts.users"), to_host(counts.items, "counts.items"))
    sides = {"counts.users": (here.users, users), "counts.items": (here.items, items)}
    for name, (array, size) in sides.items():
        if array.dtype != np.int64 or array.shape != (size,):
            raise ValueError(
                f"{name} must be int64 of shape ({size},), got {array.dtype} of shape {array.shape}"
            )
        check_not_negative(name, array)
    return Counts(read_only(here.users), read_only(here.items))


def check_not_negative(name: str, counts: NDArray[np.int64]) -> None:
    """Raise where a count is below 0."""
    if counts.size and counts.min() < 0:
        raise ValueError(f"{name} must not be negative, got {counts.min()}")


def fitter_of(fitter: Mapping[str, Any]) -> dict[str, Any]:
    """A fitter's description as plain JSON of its own."""
    is_described = set(fitter) == {"name", "options"} and isinstance(fitter["name"], str)
    if not (is_described and isinstance(fitter["options"], Mapping)):
        raise ValueError(
            f"fitter must be {{'name': str, 'options': {{...}}}}, got keys {list(fitter)}; "
            "mfrank.options.describe makes it"
        )
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(fitter), allow_nan=False))
    except (RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"fitter must be plain JSON: {error}") from None
    return plain


def history_record(record: Mapping[str, float | int | None]) -> dict[str, float | int | None]:
    """An epoch's record with None for NaN and infinity, which JSON lacks."""
    for name, value in record.items():
        if not (isinstance(name, str) and (value is None or isinstance(value, int | float))):
            raise TypeError(
                f"history must hold Python numbers or None by name, got {name!r}: {value!r}"
            )
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in record.items()
    }


def versions_of(versions: Mapping[str, str]) -> dict[str, str]:
    """Versions, texts by name."""
    for name, version in versions.items():
        if not (isinstance(name, str) and isinstance(version, str)):
            raise TypeError(f"versions must hold texts by name, got {name!r}: {version!r}")
    return dict(versions)


def extra_array(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """A further array of the fitter's, C-contiguous and read-only, in numpy."""
    kept = np.asarray(to_host(array, f"extras[{name!r}]"), order="C")
    check_storable(name, kept)
    if "." in name:
        raise ValueError(f"a name in extras must have no dot, got {name!r}")
    return read_only(kept)


def stored_ids(arrays: Mapping[str, NDArray[Any]], rows: int) -> Ids:
    """Ids from the arrays of a file; none stand for the row numbers."""
    if not arrays:
        return Ids.numbered(rows)
    found = {name: array.dtype.name for name, array in arrays.items() if array.ndim == 1}
    if found not in _STORED_IDS:
        raise ValueError(f"ids cannot be stored as {', '.join(sorted(arrays))} of these dtypes")
    if "offsets" in arrays and len(arrays["offsets"]) != rows + 1:
        raise ValueError(f"there are {len(arrays['offsets']) - 1} ids stored for {rows} rows")
    return Ids.from_arrays(arrays)


def is_mapped(array: Any) -> bool:
    """Whether the values lie in a file and are read when somebody looks at them."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def _kept(name: str, array: NDArray[Any]) -> NDArray[Any]:
    # A map was checked when it was saved; to look at its values would read all of it.
    if not is_mapped(array):
        check_finite(name, array)
    return read_only(array)


def check_finite(name: str, array: NDArray[Any]) -> None:
    """Raise where there is NaN or infinity."""
    # NaN passes through min and max, and they need no second array of the factors' size.
    if not array.size or (math.isfinite(array.min()) and math.isfinite(array.max())):
        return
    row = int(np.argwhere(~np.isfinite(array))[0, 0])
    raise ValueError(
        f"{name} must be finite, got NaN or infinity in row {row}: if these are fitted, the fit "
        "has diverged; raise its regularization or lower its learning rate"
    )

"""Checks and conversions of the fields of a factor store."""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import (
    as_array,
    beside,
    check_instance,
    is_number,
    read_only,
    refuse_labels,
    shown,
    to_host,
)
from mfrank.data import Counts, Ids, checked_where, known
from mfrank.errors import InputTypeError, InputValueError
from mfrank.files import check_storable


def factor_matrix(side: str, array: Any, rows: int) -> NDArray[Any]:
    """Check factors, shape (rows, factors); return them C-contiguous and read-only, in place."""
    name = f"{side}_factors"
    refuse_labels(name, array, f"that beside {side}_ids={name}.index")
    given = as_array(array, name)
    if given.dtype not in (np.float32, np.float64):
        raise InputTypeError(
            f"`{name}` must be float32 or float64, got {given.dtype}", "cast it first"
        )
    if given.ndim != 2 or given.shape[0] != rows or given.shape[1] == 0:
        raise InputValueError(
            f"`{name}` must have a row for each of its {rows} ids ({side}_ids) and at least one "
            f"column, got shape {given.shape}"
        )
    return _finite(name, given)


def per_row(name: str, array: Any, rows: int, factors: NDArray[Any]) -> NDArray[Any]:
    """Check one number per row; return them read-only, with the dtype and device of ``factors``."""
    refuse_labels(name, array, "bring it into the order of the ids with reindex(ids).to_numpy()")
    given = beside(as_array(array, name), factors)
    if given.dtype.kind not in "biuf":
        raise InputTypeError(f"`{name}` must hold numbers, got dtype {given.dtype}")
    if given.shape != (rows,):
        raise InputValueError(f"`{name}` must have shape ({rows},), got {given.shape}")
    if given.dtype != factors.dtype:
        with np.errstate(over="ignore"):  # an overflow is found below, as infinity
            given = given.astype(factors.dtype)
    return _finite(name, given)


def ids_of(side: str, given: Any, factors: Any) -> Ids:
    """Convert ids or labels to :class:`Ids`; None becomes the row numbers of the factors."""
    ids = known(f"{side}_ids", given)
    if ids is not None:
        return ids
    shape = as_array(factors, f"{side}_factors").shape
    return Ids.numbered(shape[0] if shape else 0)


def counts_of(counts: Counts, users: int, items: int) -> Counts:
    """Check counts; return them read-only, in numpy."""
    check_instance("counts", counts, Counts, "Counts, such as interactions.counts")
    here = Counts(to_host(counts.users, "counts.users"), to_host(counts.items, "counts.items"))
    sides = {"counts.users": (here.users, users), "counts.items": (here.items, items)}
    for name, (array, size) in sides.items():
        if array.dtype != np.int64 or array.shape != (size,):
            raise InputValueError(
                f"`{name}` must be int64 of shape ({size},), got {array.dtype} of shape "
                f"{array.shape}"
            )
        check_not_negative(name, array)
    return Counts(read_only(here.users), read_only(here.items))


def threshold_of(threshold: float | None) -> float | None:
    """Check a threshold; return it as a float of Python."""
    if threshold is not None and not is_number(threshold):
        raise InputValueError(
            f"`threshold` must be a finite number or None, got {shown(threshold)}"
        )
    return None if threshold is None else float(threshold)


def weightings_of(given: Any) -> tuple[str, ...]:
    """The names of functions that weighted values."""
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
        raise InputTypeError(f"`weightings` must be names of functions, got {shown(given)}")
    return tuple(given)


def where_of(where: Any) -> dict[str, tuple[str, ...]]:
    """Check by which values rows were chosen; columns of which any value was read are left out."""
    known = checked_where(where)
    return {column: values for column, values in known.items() if values is not None}


def check_not_negative(name: str, counts: NDArray[np.int64]) -> None:
    """Raise if a count is negative."""
    if counts.size and counts.min() < 0:
        raise InputValueError(f"`{name}` must not be negative, got {counts.min()}")


def fitter_of(fitter: Mapping[str, Any]) -> dict[str, Any]:
    """Check a fitter's description; return a copy of plain JSON types."""
    if not isinstance(fitter, Mapping):
        raise InputTypeError(f"`fitter` must be a dict, got {shown(fitter)}")
    is_described = set(fitter) == {"name", "options"} and isinstance(fitter["name"], str)
    if not (is_described and isinstance(fitter["options"], Mapping)):
        raise InputValueError(
            f"`fitter` must be {{'name': str, 'options': {{...}}}}, got keys {list(fitter)}",
            "mfrank.models.parameters.describe makes it",
        )
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(fitter), allow_nan=False))
    except (RecursionError, TypeError, ValueError) as error:
        raise InputValueError(f"`fitter` must be plain JSON: {error}") from None
    return plain


def history_of(
    history: Sequence[Mapping[str, float | int | None]],
) -> tuple[dict[str, float | int | None], ...]:
    """Check the records of all epochs."""
    if not isinstance(history, Sequence) or not all(isinstance(one, Mapping) for one in history):
        raise InputTypeError(
            f"`history` must be a list of dicts, one per epoch; got {shown(history)}"
        )
    return tuple(map(_history_record, history))


def _history_record(record: Mapping[str, float | int | None]) -> dict[str, float | int | None]:
    """Check the record of an epoch; NaN and infinity, which JSON lacks, become None."""
    for name, value in record.items():
        if not (isinstance(name, str) and (value is None or isinstance(value, int | float))):
            raise InputTypeError(
                f"`history` must hold Python numbers or None by name, got {shown(name)}: "
                f"{shown(value)}"
            )
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in record.items()
    }


def versions_of(versions: Mapping[str, str]) -> dict[str, str]:
    """Check versions: strings by name."""
    if not isinstance(versions, Mapping):
        raise InputTypeError(f"`versions` must be a dict of strings by name, got {shown(versions)}")
    for name, version in versions.items():
        if not (isinstance(name, str) and isinstance(version, str)):
            raise InputTypeError(
                f"`versions` must be strings by name, got {shown(name)}: {shown(version)}"
            )
    return dict(versions)


def extras_of(extras: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Check the arrays of ``extras``; return them C-contiguous, read-only, in numpy."""
    if not isinstance(extras, Mapping):
        raise InputTypeError(f"`extras` must be a dict of arrays by name, got {shown(extras)}")
    return {name: _extra_array(name, array) for name, array in extras.items()}


def _extra_array(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if not isinstance(name, str):
        raise InputTypeError(f"names in `extras` must be strings, got {shown(name)}")
    own = np.asarray(to_host(array, f"extras[{shown(name)}]"), order="C")
    check_storable(name, own)
    if "." in name:
        raise InputValueError(f"a name in `extras` must have no dot, got {shown(name)}")
    return read_only(own)


def is_mapped(array: Any) -> bool:
    """Whether the array is memory-mapped, so that its values are read on access."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def _finite(name: str, array: NDArray[Any]) -> NDArray[Any]:
    # First: a broadcast view may be larger than memory, and its copy then fails at once.
    own = read_only(array)
    # A mapped array was checked when it was saved; a check here would read all of it.
    if not is_mapped(array):
        check_finite(name, own)
    return own


def check_finite(name: str, array: NDArray[Any]) -> None:
    """Raise if there is NaN or infinity."""
    # min and max propagate NaN, and need no temporary array of the factors' size.
    if not array.size or (math.isfinite(array.min()) and math.isfinite(array.max())):
        return
    row = int(np.argwhere(~np.isfinite(array))[0, 0])
    raise InputValueError(
        f"`{name}` must be finite, got NaN or infinity in row {row}:",
        "if these are fitted, the fit has diverged; raise its regularization or lower its "
        "learning rate",
    )


STATE_OF_FIT = "checkpoint_data"
"""Name of an array that checkpoints have and models do not."""


def check_is_model(extras: Mapping[str, Any]) -> None:
    """Raise ValueError if these are the extras of a checkpoint, which no model can use."""
    if STATE_OF_FIT in extras:
        raise InputValueError(
            "this is the state of a fit, a checkpoint, and no model",
            "run the same fit with this checkpoint again, which goes on from it or ends at once, "
            "and save its model",
        )

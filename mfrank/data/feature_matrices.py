"""Features of users or items as a matrix with a row for each; columns that are rather their ids."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import as_array, checked, counted, shown, sparse_to_host, to_host
from mfrank.data.ids import Ids
from mfrank.data.notes import log as _log
from mfrank.errors import InputTypeError, InputValueError, Notice

_FEWEST = 10
"""Rows from which on a column that counts them is no accident."""
_FAR = 1e4
"""A column that is so many times as large as most is in another unit."""
_RANKS = re.compile("rank|position|place|order", re.IGNORECASE)


def feature_rows(name: str, given: Any, ids: Ids, n_features: int | None = None) -> sp.csr_array:
    """Convert features to a canonical CSR, float64, with a row for each id.

    Parameters
    ----------
    name : str
        Name of the argument, for errors.
    given : scipy or CuPy sparse matrix, or 2-D array-like
    ids : Ids
    n_features : int, optional
        Required number of columns; by default at least one.

    Raises
    ------
    ValueError, TypeError
        The shape is wrong, or values are not finite numbers; or a column has the ids, in another
        order.
    """
    n_rows = len(ids)
    here: Any = sparse_to_host(given)
    here = checked(here, name) if sp.issparse(here) else to_host(as_array(here, name), name)
    if here.ndim == 0 and here.dtype.kind not in "biuf":
        raise InputTypeError(
            f"`{name}` must be a table, a path of one or a matrix, got {type(given).__name__}"
        )
    if here.dtype.kind not in "biuf":
        raise InputTypeError(
            f"`{name}` must be numbers, got dtype {here.dtype}",
            "make categories columns of 0 and 1",
        )
    side = name.partition("_")[0]
    if here.ndim != 2 or here.shape[0] != n_rows:
        raise InputValueError(
            f"`{name}` must have a row for each of the {n_rows:,} {side}s of the interactions, in "
            f"the order of their {side}_ids, got shape {here.shape}"
        )
    if n_features is not None and here.shape[1] != n_features:
        raise InputValueError(
            f"`{name}` must have the {n_features} columns of the fit, got {here.shape[1]}"
        )
    if here.shape[1] == 0:
        raise InputValueError(f"`{name}` has no columns", "leave it out to fit without features")
    rows = sp.csr_array(here, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    if not np.isfinite(rows.data).all():
        raise InputValueError(
            f"`{name}` must be finite, got NaN or infinity", "use 0 for what is missing"
        )
    check_id_columns(name, rows, ids)
    _tell_sizes(name, rows)
    return rows


def tell_id_columns(
    argument: str, table: Mapping[Hashable, NDArray[Any]], labels: NDArray[Any]
) -> None:
    """Warn of columns of a table that have the ids of its rows again, or count these."""
    ids = _as_numbers(labels)
    for name, column in table.items():
        if column.dtype.kind not in "iuf" or len(column) < _FEWEST:
            continue
        if ids is not None and _equal(column, ids):
            _tell(argument, f"column {shown(name)} has the ids again", f"columns={shown(name)}")
        elif (first := _first_count(column)) is not None and not _RANKS.search(str(name)):
            what = f"column {shown(name)} counts the rows from {first}"
            _tell(argument, what, f"columns={shown(name)}")


def _tell(argument: str, what: str, dropped: str) -> None:
    _log.warning(
        Notice(
            f"`{argument}`: {what}, and is read as a feature like any other: leave it out, as by "
            f"`drop({dropped})`"
        )
    )


def _tell_sizes(argument: str, rows: sp.csr_array) -> None:
    """Warn of columns of a matrix that are far larger than the others: it is not standardized."""
    if not rows.nnz:
        return
    largest = np.zeros(rows.shape[1])
    np.maximum.at(largest, rows.indices, np.abs(rows.data))
    sizes = np.sort(np.append(largest[largest > 0], 1.0))  # with that of the feature that all have
    usual = float(sizes[(len(sizes) - 1) // 2])
    if len(far := np.flatnonzero(largest > _FAR * usual)):
        _log.warning(
            Notice(
                f"`{argument}`: column {far[0]} goes up to {largest[far[0]]:.6g}, others up to "
                f"{usual:.6g}, and a matrix is taken as it is: scale its columns alike, or pass a "
                "DataFrame, whose columns are standardized"
            )
        )


def check_id_columns(argument: str, rows: Any, ids: Ids) -> None:
    """Warn of columns of a matrix that have the ids of its rows, or count these.

    Parameters
    ----------
    argument : str
        Its name, for errors.
    rows : 2-D array, or CSR array
        Features with a row for each id.
    ids : Ids
        In the order that the rows must have.

    Raises
    ------
    ValueError
        A column has each id once, in another order: the rows would be those of others. Ids that
        only count may be ranks in that order, which is a warning.
    """
    n = len(ids)
    if n < _FEWEST:
        return
    side = argument.partition("_")[0]
    own = _as_numbers(ids.labels)
    for at in _candidates(rows, own):
        column = _column(rows, at)
        if own is not None and _equal(column, own):
            _tell_of_matrix(argument, at, f"has the ids of the {side}s")
        elif (first := _first_count(column)) is not None:
            _tell_of_matrix(argument, at, f"counts the rows from {first}")
        elif own is not None and _equal(np.sort(column), np.sort(own)):
            if _first_count(np.sort(own)) is None:
                raise InputValueError(
                    f"`{argument}` has the id of each of {counted(n, side)} in column {at}, in "
                    f"another order than the rows must have, which is that of their {side}_ids:",
                    "pass a DataFrame with this column as the ids, which matches them",
                )
            if at == 0:
                _log.warning(
                    Notice(
                        f"`{argument}`: column 0 has the numbers of all {side} ids in another "
                        f"order: if it has the ids, pass a DataFrame, which matches them; the rows "
                        f"are taken in the order of the {side}_ids"
                    )
                )


def _tell_of_matrix(argument: str, at: int, what: str) -> None:
    _log.warning(
        Notice(
            f"`{argument}`: column {at} {what}, and is taken as a feature: leave it out, as by "
            f"`numpy.delete({argument}, {at}, axis=1)`"
        )
    )


def _as_numbers(labels: NDArray[Any]) -> NDArray[Any] | None:
    """The ids as numbers; None if one is none."""
    if labels.dtype.kind in "iu":
        return labels
    if not all(isinstance(label, int) or str(label).isdecimal() for label in labels[:_FEWEST]):
        return None
    try:
        return labels.astype(np.float64)
    except (TypeError, ValueError):
        return None


def _candidates(rows: Any, ids: NDArray[Any] | None) -> list[int]:
    """Columns with the sum of the ids, or of the numbers of the rows."""
    n = rows.shape[0]
    wanted = [n * (n - 1) / 2, n * (n + 1) / 2]
    if ids is not None:
        wanted.append(float(ids.sum(dtype=np.float64)))
    sums = np.asarray(rows.sum(axis=0, dtype=np.float64)).ravel()
    return np.flatnonzero(np.isclose(sums[:, None], wanted, rtol=1e-6, atol=0).any(1)).tolist()


def _column(rows: Any, at: int) -> NDArray[Any]:
    column: NDArray[Any] = rows[:, [at]].toarray() if hasattr(rows, "toarray") else rows[:, at]
    return column.ravel()


def _equal(column: NDArray[Any], ids: NDArray[Any]) -> bool:
    """Whether they are equal in single precision, which a matrix may have had."""
    return bool((column.astype(np.float32) == ids.astype(np.float32)).all())


def _first_count(column: NDArray[Any]) -> int | None:
    """The first number of a column that counts its rows, 0 or 1; None if it does not."""
    first = column[0]
    if first not in (0, 1):
        return None
    return int(first) if _equal(column, np.arange(len(column)) + int(first)) else None

"""Checks of the arrays that graphs are made from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import check_count, counted, distinct, refuse_labels, shown
from mfrank.data import FeatureTable, Ids, check_id_columns, is_table
from mfrank.errors import InputTypeError, InputValueError

Ints = NDArray[np.int64]


_REMEDY = "bring it into the order of the nodes with sort_index()"


def numbers(name: str, values: Any, size: int) -> Ints:
    """Return whole numbers in 0..size-1, int64, shape (n,) with n >= 1."""
    got = rows(name, values, None)
    if not len(got):
        raise InputValueError(f"`{name}` must contain at least one number, got none")
    if got.max() >= size:
        raise InputValueError(f"`{name}` must lie in 0..{size - 1}, got {got.max()}")
    return got


def whole(name: str, values: Any) -> Ints:
    """Return whole numbers, int64, shape (n,)."""
    refuse_labels(name, values, _REMEDY)
    got = np.asarray(values)
    if got.size == 0:
        got = got.astype(np.int64)
    if got.ndim != 1 or got.dtype.kind not in "iu":
        raise InputTypeError(
            f"`{name}` must be whole numbers of shape (n,), got {got.dtype} of {got.shape}",
            "number other ids with mfrank.data.ids.Ids.factorize",
        )
    return np.ascontiguousarray(got, dtype=np.int64)


def rows(name: str, values: Any, size: int | None) -> Ints:
    """Return whole numbers >= 0, int64, shape (size,) unless ``size`` is None."""
    got = whole(name, values)
    if size is not None and len(got) != size:
        raise InputValueError(f"`{name}` must have {size} elements, got {len(got)}")
    if len(got) and got.min() < 0:
        raise InputValueError(
            f"`{name}` must not be negative, got {got.min()} at index {got.argmin()}"
        )
    return got


def n_nodes(given: int | None, sizes: Sequence[int], sources: Any, targets: Any) -> int:
    """Return the number of nodes, on which all arguments must agree."""
    if given is not None:
        check_count("n_nodes", given, 1)
    stated = {*sizes, *(() if given is None else (int(given),))}
    if len(stated) > 1:
        raise InputValueError(
            "`node_features`, `query_of`, `labels` and `n_nodes` disagree on the number of nodes: "
            f"{', '.join(map(str, sorted(stated)))}"
        )
    size = (
        stated.pop() if stated else 1 + max(int(np.max(a, initial=-1)) for a in (sources, targets))
    )
    if not 0 < size < 2**31:
        raise InputValueError(f"there must be 1 to 2^31 - 1 nodes, got {size}", place="nodes")
    return size


def edges(sources: ArrayLike, targets: ArrayLike, size: int) -> tuple[Ints, Ints]:
    """Return both ends of the edges, int64; they must be nodes in 0..size-1."""
    ends = rows("sources", sources, None), rows("targets", targets, None)
    if len(ends[0]) != len(ends[1]):
        raise InputValueError(
            f"`sources` and `targets` must have one length, got {len(ends[0])} and {len(ends[1])}"
        )
    for name, end in zip(("sources", "targets"), ends, strict=True):
        if len(end) and end.max() >= size:
            raise InputValueError(
                f"`{name}` must lie in 0..{size - 1}, got {end.max()}",
                "`n_nodes` or the rows of `node_features` set the number of nodes",
            )
    return ends


def unique_edges(sources: Ints, targets: Ints) -> None:
    """Raise if an edge occurs twice in the sorted list."""
    again = np.flatnonzero((np.diff(sources) == 0) & (np.diff(targets) == 0))
    if len(again):
        at = again[0]
        raise InputValueError(
            f"edge {sources[at]} -> {targets[at]} occurs twice",
            "merge repeated edges first, for example into one edge with their number as a feature",
        )


def offsets(query_of: ArrayLike, size: int) -> Ints:
    """Return the first node of each query, and the end; ``query_of`` is 0, 0, ..., 1, 1, ..."""
    queries = rows("query_of", query_of, size)
    steps = np.diff(queries)
    if queries[0] != 0 or not np.isin(steps, (0, 1)).all():
        raise InputValueError(
            "`query_of` must be 0, 0, ..., 1, 1, ...:",
            "number the nodes query by query, with at least one node per query",
        )
    begins = np.flatnonzero(steps) + 1
    return np.concatenate([[0], begins, [size]]).astype(np.int64)


def partition(nodes: Ints, size: int) -> None:
    """Raise unless ``nodes`` are the offsets of one or more queries, from 0 to ``size``."""
    fits = len(nodes) > 1 and nodes[0] == 0 and nodes[-1] == size
    if not fits or not (np.diff(nodes) > 0).all():
        raise InputValueError(
            f"`nodes` must ascend strictly from 0 to {size}, with at least one query"
        )


def features_of(name: str, values: Any, ids: Ids) -> NDArray[np.float64]:
    """As :func:`features`, in the order of ``ids``; a table is matched by id."""
    if not is_table(values):
        found = features(name, values, len(ids))
        check_id_columns(name, found, ids)
        return found
    matched = FeatureTable.of(name, values, ids).numbers(ids)
    without = np.isnan(matched).all(axis=1)
    if without.any():
        first = ids.raw(np.flatnonzero(without)[:1]).tolist()[0]
        raise InputValueError(
            f"`{name}` has no row for {counted(int(without.sum()), 'item')}, such as "
            f"{shown(first)}",
            "add them, with 0 for what is unknown",
        )
    return features(name, matched, len(ids))


def features(name: str, values: Any, n_rows: int) -> NDArray[np.float64]:
    """Return finite numbers >= 0, float64, shape (n_rows, m)."""
    refuse_labels(name, values, _REMEDY)
    got = np.asarray(values)
    if got.dtype.kind not in "buif" or got.ndim != 2:
        raise InputTypeError(
            f"`{name}` must be numbers of shape ({n_rows}, m), got {got.dtype} of {got.shape}; a "
            f"single feature is {name}[:, None]"
        )
    if len(got) != n_rows or got.shape[1] == 0:
        raise InputValueError(
            f"`{name}` must have {n_rows} rows and at least one column, got {got.shape}"
        )
    wide = np.ascontiguousarray(got, dtype=np.float64)
    if not np.isfinite(wide).all():
        row, column = np.argwhere(~np.isfinite(wide))[0]
        raise InputValueError(
            f"`{name}` must be finite, got {wide[row, column]} at [{row}, {column}]"
        )
    if wide.min(initial=0.0) < 0:
        row, column = np.argwhere(wide < 0)[0]
        raise InputValueError(
            f"`{name}` must be >= 0, as weights of a walk are, got {wide[row, column]:g} at "
            f"[{row}, {column}]",
            "subtract the column's minimum, or split the column into its "
            "positive and its negative part",
        )
    return wide


def labels(values: Any, size: int) -> NDArray[np.float64]:
    """Return finite numbers, or NaN where not judged, float64, shape (size,)."""
    refuse_labels("labels", values, _REMEDY)
    got = np.asarray(values)
    if got.dtype.kind not in "buif":
        raise InputTypeError(
            f"`labels` must be numbers, NaN where not judged; got dtype {got.dtype}"
        )
    if got.shape != (size,):
        raise InputValueError(f"`labels` must have shape ({size},), one per node, got {got.shape}")
    wide = got.astype(np.float64)
    if np.isinf(wide).any():
        raise InputValueError(
            "`labels` must be finite, or NaN where a node is not judged; got infinity"
        )
    return wide


def seeds(values: Any, nodes: Ints) -> Ints:
    """Return distinct nodes, ascending, with at least one per query."""
    got = distinct(rows("seeds", values, None))
    if len(got) and got[-1] >= nodes[-1]:
        raise InputValueError(f"`seeds` must lie in 0..{nodes[-1] - 1}, got {got[-1]}")
    empty = np.flatnonzero(np.diff(np.searchsorted(got, nodes)) == 0)
    if len(empty):
        raise InputValueError(
            f"query {empty[0]} has no seed where a walk could begin ({len(empty)} such queries)",
            'pass at least one node of each query, or `seeds="all"`',
        )
    return got


def edges_within(query_of: Ints, sources: NDArray[np.int32], targets: NDArray[np.int32]) -> None:
    """Raise if an edge leads from one query's graph to another's."""
    across = np.flatnonzero(query_of[sources] != query_of[targets])
    if len(across):
        at = across[0]
        raise InputValueError(
            f"edge {sources[at]} -> {targets[at]} leads from query {query_of[sources[at]]} to "
            f"{query_of[targets[at]]}",
            "a page that occurs in several queries needs a node in each of them",
            place=f"edge {sources[at]} -> {targets[at]}",
        )

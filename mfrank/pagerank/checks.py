"""What graphs are checked for at their door."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.amounts import check_count
from mfrank.distinct import distinct

__all__ = [
    "edges",
    "edges_within",
    "features",
    "labels",
    "n_nodes",
    "numbers",
    "offsets",
    "partition",
    "rows",
    "seeds",
    "unique_edges",
]

Ints = NDArray[np.int64]


def numbers(name: str, values: Any, size: int) -> Ints:
    """Whole numbers in 0..size-1, shape (n,), n >= 1."""
    got = rows(name, values, None)
    if not len(got):
        raise ValueError(f"{name} must hold at least one number, got none")
    if got.max() >= size:
        raise ValueError(f"{name} must lie in 0..{size - 1}, got {got.max()}")
    return got


def rows(name: str, values: Any, size: int | None) -> Ints:
    """Whole numbers >= 0, shape (size,) where that is known."""
    got = np.asarray(values)
    if got.size == 0:
        got = got.astype(np.int64)
    if got.ndim != 1 or got.dtype.kind not in "iu":
        raise TypeError(
            f"{name} must be whole numbers of shape (n,), got {got.dtype} of {got.shape}; "
            "mfrank's Ids.factorize numbers other ids"
        )
    if size is not None and len(got) != size:
        raise ValueError(f"{name} must have {size} elements, got {len(got)}")
    if len(got) and got.min() < 0:
        raise ValueError(f"{name} must not be negative, got {got.min()} at place {got.argmin()}")
    return np.ascontiguousarray(got, dtype=np.int64)


def n_nodes(given: int | None, sizes: Sequence[int], sources: Any, targets: Any) -> int:
    """Number of nodes that all that is given agrees on."""
    if given is not None:
        check_count("n_nodes", given, 1)
    said = {*sizes, *(() if given is None else (int(given),))}
    if len(said) > 1:
        raise ValueError(
            f"node_features, query_of, labels and n_nodes disagree on the number of nodes: "
            f"{', '.join(map(str, sorted(said)))}"
        )
    size = said.pop() if said else 1 + max(int(np.max(a, initial=-1)) for a in (sources, targets))
    if not 0 < size < 2**31:
        raise ValueError(f"there must be 1 to 2^31 - 1 nodes, got {size}")
    return size


def edges(sources: ArrayLike, targets: ArrayLike, size: int) -> tuple[Ints, Ints]:
    """Both ends of edges, nodes that are there."""
    ends = rows("sources", sources, None), rows("targets", targets, None)
    if len(ends[0]) != len(ends[1]):
        raise ValueError(f"{len(ends[0])} sources for {len(ends[1])} targets")
    for name, end in zip(("sources", "targets"), ends, strict=True):
        if len(end) and end.max() >= size:
            raise ValueError(
                f"{name} must lie in 0..{size - 1}, got {end.max()}; n_nodes or the rows of "
                "node_features say how many nodes there are"
            )
    return ends


def unique_edges(sources: Ints, targets: Ints) -> None:
    """Raise where an edge of the sorted list stands twice."""
    again = np.flatnonzero((np.diff(sources) == 0) & (np.diff(targets) == 0))
    if len(again):
        at = again[0]
        raise ValueError(
            f"edge {sources[at]} -> {targets[at]} is there twice; merge such edges first, for "
            "example into one with the number of times as a feature"
        )


def offsets(query_of: ArrayLike, size: int) -> Ints:
    """Where each query's nodes begin, of the queries of nodes 0, 0, ..., 1, 1, ..."""
    queries = rows("query_of", query_of, size)
    steps = np.diff(queries)
    if queries[0] != 0 or not np.isin(steps, (0, 1)).all():
        raise ValueError(
            "query_of must be 0, 0, ..., 1, 1, ...: number the nodes query by query, every query "
            "with at least one"
        )
    begins = np.flatnonzero(steps) + 1
    return np.concatenate([[0], begins, [size]]).astype(np.int64)


def partition(nodes: Ints, size: int) -> None:
    """Raise unless the queries' nodes follow each other from 0 to the last."""
    fits = len(nodes) > 1 and nodes[0] == 0 and nodes[-1] == size
    if not fits or not (np.diff(nodes) > 0).all():
        raise ValueError(f"nodes must ascend strictly from 0 to {size}, one query or more")


def features(name: str, values: Any, n_rows: int) -> NDArray[np.float64]:
    """Finite numbers >= 0, shape (n_rows, m)."""
    got = np.asarray(values)
    if got.dtype.kind not in "buif" or got.ndim != 2:
        raise TypeError(
            f"{name} must be numbers of shape ({n_rows}, m), got {got.dtype} of {got.shape}; a "
            f"single feature is {name}[:, None]"
        )
    if len(got) != n_rows or got.shape[1] == 0:
        raise ValueError(f"{name} must have {n_rows} rows, and a column or more, got {got.shape}")
    wide = np.ascontiguousarray(got, dtype=np.float64)
    if not np.isfinite(wide).all():
        row, column = np.argwhere(~np.isfinite(wide))[0]
        raise ValueError(f"{name} must be finite, got {wide[row, column]} at [{row}, {column}]")
    if wide.min(initial=0.0) < 0:
        row, column = np.argwhere(wide < 0)[0]
        raise ValueError(
            f"{name} must not be negative (they weigh a random walk), got {wide[row, column]:g} at "
            f"[{row}, {column}]; shift the column by its minimum, or split it into its positive "
            "and its negative part"
        )
    return wide


def labels(values: Any, size: int) -> NDArray[np.float64]:
    """Finite numbers, or NaN for what is not judged, shape (size,)."""
    got = np.asarray(values)
    if got.dtype.kind not in "buif":
        raise TypeError(f"labels must be numbers, NaN where not judged; got dtype {got.dtype}")
    if got.shape != (size,):
        raise ValueError(f"labels must have shape ({size},), one per node, got {got.shape}")
    wide = got.astype(np.float64)
    if np.isinf(wide).any():
        raise ValueError("labels must be finite, or NaN where a node is not judged; got infinity")
    return wide


def seeds(values: Any, nodes: Ints) -> Ints:
    """Distinct nodes, ascending, some of every query's."""
    got = distinct(rows("seeds", values, None))
    if len(got) and got[-1] >= nodes[-1]:
        raise ValueError(f"seeds must lie in 0..{nodes[-1] - 1}, got {got[-1]}")
    empty = np.flatnonzero(np.diff(np.searchsorted(got, nodes)) == 0)
    if len(empty):
        raise ValueError(
            f"query {empty[0]} has no seed, nowhere to begin a walk ({len(empty)} such queries); "
            'name at least one of the nodes of each, or seeds="all"'
        )
    return got


def edges_within(query_of: Ints, sources: NDArray[np.int32], targets: NDArray[np.int32]) -> None:
    """Raise where an edge leads from one query's graph to another's."""
    across = np.flatnonzero(query_of[sources] != query_of[targets])
    if len(across):
        at = across[0]
        raise ValueError(
            f"edge {sources[at]} -> {targets[at]} leads from query {query_of[sources[at]]} to "
            f"{query_of[targets[at]]}; every query has nodes of its own, pages that occur in "
            "several stand once in each"
        )

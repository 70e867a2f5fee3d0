"""Sparse rows among the extras of a factor store: a walk's restarts, the neighbors of items.

A model has them because its scores come from them; its factors are only a stand-in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.csr_checks import check_csr, check_indptr
from mfrank.store.checks import check_finite, is_mapped

__all__ = [
    "has_rows",
    "pack",
    "pack_neighbors",
    "pick",
    "unpack",
    "unpack_neighbors",
]


def pack(name: str, rows: sp.csr_array) -> dict[str, NDArray[Any]]:
    """The arrays of a CSR by the names that :func:`unpack` reads."""
    return {
        f"{name}_indptr": rows.indptr.astype(np.int64),
        f"{name}_indices": rows.indices.astype(np.int32),
        name: rows.data.astype(np.float64, copy=False),
    }


def unpack(extras: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, int]) -> sp.csr_array:
    """The CSR of :func:`pack`, checked; memory-mapped columns are not read, see :func:`pick`.

    Raises
    ------
    KeyError, ValueError
        An array is missing or damaged.
    """
    data, indices, indptr = (extras[each] for each in (name, f"{name}_indices", f"{name}_indptr"))
    if data.dtype != np.float64 or indices.dtype != np.int32 or data.shape != indices.shape:
        raise ValueError(f"{name} must be float64, each with an int32 column")
    if is_mapped(indices):
        check_indptr(indptr, indices.size, shape[0], name)
    else:
        check_csr(indptr, indices, *shape, name)
        check_finite(name, data)
    return sp.csr_array((data, indices, indptr), shape)


def pack_neighbors(weights: sp.csr_array, values: sp.csr_array) -> dict[str, NDArray[Any]]:
    """Weights between items, and the values of users that weight their sums.

    ``values @ weights`` are the scores. For several such models together, the weights are stacked
    one below the other, and the values side by side.
    """
    return {**pack("neighbors", weights), **pack("values", values)}


def unpack_neighbors(
    extras: Mapping[str, NDArray[Any]], n_users: int, n_items: int
) -> tuple[sp.csr_array, sp.csr_array]:
    """The weights and values of :func:`pack_neighbors`, checked; errors of :func:`unpack`."""
    width = len(extras["neighbors_indptr"]) - 1
    if width % max(n_items, 1):
        raise ValueError(f"neighbors must have rows for all of {n_items} items")
    weights = unpack(extras, "neighbors", (width, n_items))
    values = unpack(extras, "values", (n_users, width))
    check_csr(weights.indptr, weights.indices, *weights.shape, "neighbors")  # if mapped: is small
    return weights, values


def has_rows(extras: Mapping[str, NDArray[Any]]) -> bool:
    """Whether there are rows of :func:`pack` among the extras."""
    return any(f"{name}_indptr" in extras and f"{name}_indices" in extras for name in extras)


def pick(rows: sp.csr_array, at: NDArray[np.int64], name: str) -> sp.csr_array:
    """Some of the rows, which may be mapped and are checked now: scipy does not check them."""
    picked: sp.csr_array = rows[at]
    check_csr(picked.indptr, picked.indices, *picked.shape, name)
    return picked

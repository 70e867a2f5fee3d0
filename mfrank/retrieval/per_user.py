"""Filters and matrices of a call for all users; each block of users gets its part of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.csr_checks import checked_rows
from mfrank.arrays.interop import sparse_to_host, to_host
from mfrank.data.interactions import Interactions
from mfrank.retrieval.sides import given_filter, is_nested

__all__ = ["for_all_users", "part_of"]


def for_all_users(values: Any, n_users: int, argument: str) -> Any:
    """Check what a call for all users is given, and copy it from a GPU.

    Parameters
    ----------
    values : Interactions, sparse matrix, ids, lists of ids, or None
        A sparse matrix, or lists of ids, must have a row for each user.
    n_users : int
    argument : str
        Its name, for errors.

    Returns
    -------
    Interactions, csr_array, array, list or None

    Raises
    ------
    ValueError
        If a matrix is damaged or there are more or fewer rows than users.
    """
    matrix = sparse_to_host(values)
    if not isinstance(matrix, Interactions):
        matrix = given_filter(matrix, argument)
    given = to_host(matrix, argument)
    is_sparse: bool = sp.issparse(given)
    if not is_sparse and not is_nested(given):
        return given
    n_rows = given.shape[0] if is_sparse else len(given)
    if n_rows != n_users:
        raise ValueError(f"{argument} must have a row for each of {n_users} users, got {n_rows}")
    return checked_rows(given, argument) if is_sparse else given


def part_of(values: Any, rows: NDArray[np.int64]) -> Any:
    """The rows of some users; Interactions, and what all users share, are returned as they are."""
    if isinstance(values, sp.csr_array) or (isinstance(values, np.ndarray) and values.ndim > 1):
        return values[rows]
    return [values[row] for row in rows.tolist()] if is_nested(values) else values

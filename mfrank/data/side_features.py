"""Features of users or items, as a sparse matrix with a row for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mfrank.arrays.csr_checks import checked
from mfrank.arrays.interop import as_array, sparse_to_host, to_host

__all__ = ["feature_rows"]


def feature_rows(name: str, given: Any, n_rows: int, n_features: int | None = None) -> sp.csr_array:
    """Convert features to a canonical CSR, float64, shape (n_rows, F).

    Parameters
    ----------
    name : str
        Of the argument, for errors.
    given : scipy or CuPy sparse matrix, or 2-D array-like
    n_rows : int
    n_features : int, optional
        The number of columns it must have; by default at least one.

    Raises
    ------
    ValueError, TypeError
        The shape is wrong, or it is not of finite numbers.
    """
    here: Any = sparse_to_host(given)
    here = checked(here, name) if sp.issparse(here) else to_host(as_array(here, name), name)
    if here.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} must be numbers, got dtype {here.dtype}; make categories columns of 0 and 1"
        )
    side = name.partition("_")[0]
    if here.ndim != 2 or here.shape[0] != n_rows:
        raise ValueError(
            f"{name} must have a row for each of the {n_rows:,} {side}s of the interactions, in "
            f"the order of their {side}_ids, got shape {here.shape}"
        )
    if n_features is not None and here.shape[1] != n_features:
        raise ValueError(
            f"{name} must have the {n_features} columns of the fit, got {here.shape[1]}"
        )
    if here.shape[1] == 0:
        raise ValueError(f"{name} has no columns; leave it out to fit without features")
    rows = sp.csr_array(here, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    if not np.isfinite(rows.data).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity; use 0 for what is missing")
    return rows

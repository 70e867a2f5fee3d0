"""Read-only arrays, so that stored data cannot be changed from outside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.csr_checks import checked
from mfrank.arrays.placement import readable

__all__ = ["freeze", "read_only", "read_only_rows", "unshared"]


def read_only(array: Any) -> NDArray[Any]:
    """A read-only view of the array, which is copied if it is not contiguous and aligned.

    A GPU array is returned unchanged: CuPy has no read-only arrays.
    """
    if not isinstance(array, np.ndarray):
        found: NDArray[Any] = array
        return found
    view = readable(array).view()
    view.flags.writeable = False
    return view


def read_only_rows(rows: sp.csr_array, name: str) -> sp.csr_array:
    """A new matrix on read-only views of the arrays of a canonical CSR.

    Raises
    ------
    ValueError
        Its arrays are damaged, or the columns of a row do not strictly ascend.
    """
    own = checked(rows, name)
    if own.format != "csr" or not own.has_canonical_format:
        raise ValueError(f"{name} must be a CSR with strictly ascending columns in each row")
    own.data, own.indices, own.indptr = map(read_only, (own.data, own.indices, own.indptr))
    return own


def unshared(array: NDArray[Any]) -> NDArray[Any]:
    """The array if nothing can write to its memory, else a copy."""
    return array.copy() if any(view.flags.writeable for view in _views(array)) else array


def freeze(array: NDArray[Any]) -> None:
    """Make an array read-only, and the arrays it is a view of; the caller must own them all."""
    for view in _views(array):
        view.flags.writeable = False


def _views(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The array, the array it is a view of, and so on."""
    view: Any = array
    while isinstance(view, np.ndarray):
        yield view
        view = view.base

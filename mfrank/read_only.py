"""Arrays that cannot be written to: what is kept does not change behind its keeper's back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.aligned import readable
from mfrank.csr_checks import checked

__all__ = ["freeze", "read_only", "read_only_rows", "unshared"]


def read_only(array: Any) -> NDArray[Any]:
    """A readable view that cannot be written to; on a GPU, where there is none, the array."""
    if not isinstance(array, np.ndarray):
        found: NDArray[Any] = array
        return found
    view = readable(array).view()
    view.flags.writeable = False
    return view


def read_only_rows(rows: sp.csr_array, name: str) -> sp.csr_array:
    """A matrix of its own over the arrays of a canonical CSR, which it cannot write to.

    Raises
    ------
    ValueError
        Its arrays are damaged, or its columns do not ascend without repeats.
    """
    own = checked(rows, name)
    if own.format != "csr" or not own.has_canonical_format:
        raise ValueError(f"{name} must be a CSR whose columns ascend in each row, none twice")
    own.data, own.indices, own.indptr = map(read_only, (own.data, own.indices, own.indptr))
    return own


def unshared(array: NDArray[Any]) -> NDArray[Any]:
    """The array where nobody can write to it, else a copy."""
    return array.copy() if any(view.flags.writeable for view in _views(array)) else array


def freeze(array: NDArray[Any]) -> None:
    """Let nobody write to an array that nobody else has, nor through what it is a view of."""
    for view in _views(array):
        view.flags.writeable = False


def _views(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The array, what it is a view of, and so on."""
    view: Any = array
    while isinstance(view, np.ndarray):
        yield view
        view = view.base

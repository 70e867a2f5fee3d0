"""The memory that a fit holds at its peak, and what any fit must hold; both count the input."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import scipy.sparse as sp
from contenders import Contender

from mfrank.comparison import peak_memory
from mfrank.data import Interactions

MIB = 1 << 20
_FEW = 200


def peak_mib(ready: Callable[[], Contender], data: Interactions) -> float | None:
    """Peak of one fit in a process of its own; None where that cannot be measured.

    A fit of a few rows goes before it: libraries are no part of a fit.
    """
    matrix = data.to_scipy()
    given = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    rise = peak_memory(partial(_fit, ready, matrix), partial(_fit, ready, matrix[:_FEW]))
    return None if rise is None else (rise + given) / MIB


def needed_mib(data: Interactions, factors: int) -> float:
    """Both factor matrices in float32 and the data in both orientations, 8 bytes an entry."""
    rows = data.n_users + data.n_items
    return (4 * rows * factors + 2 * 8 * data.nnz + 8 * (rows + 2)) / MIB


def _fit(ready: Callable[[], Contender], user_items: sp.csr_matrix) -> None:
    ready().fit(user_items)

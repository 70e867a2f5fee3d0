"""Regressions of each item on the few columns that predict it best: for many items.

Target y is predicted from the columns N of the rows R by the weights (R_N'R_N + ridge)^-1 R_N'y. N
has the columns whose regression alone lowers the loss of y most, by (r_i'y)^2 / (r_i'r_i + ridge).
Of the rows of users, whose items predict each other, these are the weights of EASE if N has all
other items.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import Work
from mfrank.arrays import ext as _ext
from mfrank.models.item_links import arrays, largest_products

_is_native: bool = _ext is not None

COMMON = 4096
"""Items with the most users, whose products are in a table; of others, the users are read."""
_AT_ONCE, _MOST_BLOCKS = 512, 64
"""Items between two looks at the clock, and the most looks: each call marks all users anew."""
_BYTES_A_LINK = 32
_BYTES_AT_ONCE = 1 << 27


def bytes_needed(n_items: int, candidates: int, width: int | None = None) -> int:
    """Bytes of :func:`regressions`, beside those of its rows, of so many columns."""
    width = n_items if width is None else width
    links = n_items * min(candidates, width)
    return 8 * min(width, COMMON) ** 2 + _BYTES_A_LINK * links + _BYTES_AT_ONCE


def regressions(
    rows: sp.csr_array,
    ridge: float | NDArray[np.float64],
    candidates: int,
    targets: sp.csr_array | None = None,
    items: NDArray[np.int64] | None = None,
) -> sp.csr_array:
    """The weights by which each target is predicted from its candidates, in its row.

    Parameters
    ----------
    rows : csr_array, float64, shape (n_rows, width)
        Canonical, without zeros.
    ridge : float, or float64 of shape (width,)
    candidates : int
        Maximum number of columns from which a target is predicted.
    targets : csr_array, float64, shape (n_rows, n_targets), optional
        A target is not predicted from the column of its number. By default, these are the columns.
    items : int, shape (R,), optional
        The targets to predict; by default all.

    Returns
    -------
    csr_array, float64, shape (R, width)

    Raises
    ------
    FloatingPointError
        A matrix is not positive definite up to rounding.
    OutOfTimeError
        See :mod:`mfrank.arrays.work`.
    """
    squares = np.bincount(rows.indices, rows.data**2, rows.shape[1]).astype(np.float64) + ridge
    targets = rows if targets is None else targets
    items = np.arange(targets.shape[1]) if items is None else items
    near = _candidates(rows, targets, items, squares, candidates)
    used = np.unique(near.indices)
    within = near
    if len(used) < len(squares):  # what no target is predicted from takes time
        rows = sp.csr_array(rows[:, used])
        columns = np.searchsorted(used, near.indices).astype(np.int32)
        within = sp.csr_array((near.data, columns, near.indptr), (len(items), len(used)))
    solved = _solved_natively if _is_native else _solved
    weights, failed = solved(within, rows, squares[used])
    if failed.any():
        raise FloatingPointError("the matrix is not positive definite")
    return sp.csr_array((weights, near.indices, near.indptr), near.shape)


def _candidates(
    rows: sp.csr_array,
    targets: sp.csr_array,
    items: NDArray[np.int64],
    squares: NDArray[np.float64],
    n: int,
) -> sp.csr_array:
    """A row for each of ``items`` with its products with its candidates, which ascend."""
    roots = np.sqrt(squares)
    near = largest_products(targets.T.tocsr(), rows, n, items, roots, is_signed=True)
    near.data *= roots[near.indices]
    return near


def _solved_natively(
    near: sp.csr_array, rows: sp.csr_array, squares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    assert _ext is not None
    n_targets, users = near.shape[0], rows.T.tocsr()
    common = np.argsort(-np.diff(users.indptr), kind="stable")[:COMMON]
    place = np.full(len(squares), -1, np.int32)
    place[common] = np.arange(len(common))
    table = np.asarray((users[common] @ rows[:, common]).toarray())
    weights, failed = np.empty(near.nnz), np.empty(n_targets, np.int64)
    pairs = np.diff(near.indptr).astype(np.float64) ** 2
    work = Work(float(pairs.sum()))
    size = max(_AT_ONCE, n_targets // _MOST_BLOCKS)
    for begin in range(0, n_targets, size):
        part = slice(begin, begin + size)
        some = near[part]
        entries = slice(near.indptr[begin], near.indptr[begin] + some.nnz)
        _ext.regress(
            rows=arrays(rows),
            users=arrays(users),
            near=arrays(some),
            diagonal=squares,
            place=place,
            common=table,
            out=weights[entries],
            failed=failed[part],
            n_threads=0,
        )
        work.advance(float(pairs[part].sum()))
    return weights, failed


def _solved(
    near: sp.csr_array, rows: sp.csr_array, squares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The same without the extension."""
    columns = rows.tocsc()
    weights, failed = np.zeros(near.nnz), np.zeros(near.shape[0], np.int64)
    work = Work(float(near.shape[0]))
    for item, (begin, end) in enumerate(zip(near.indptr[:-1], near.indptr[1:], strict=True)):
        some = near.indices[begin:end]
        own = columns[:, some]
        gram = np.asarray((own.T @ own).toarray())
        gram[np.diag_indices(len(some))] = squares[some]
        try:
            np.linalg.cholesky(gram)
            weights[begin:end] = np.linalg.solve(gram, near.data[begin:end])
        except np.linalg.LinAlgError:
            failed[item] = 1
        work.advance(1)
    return weights, failed

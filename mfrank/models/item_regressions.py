"""Regressions of each item on the few others that predict it best: an EASE of many items.

For the rows R of users, item j is predicted from the columns N by the weights
(R_N'R_N + ridge I)^-1 R_N'r_j. N has the items whose regression alone lowers the loss of j most,
by (r_i'r_j)^2 / (r_i'r_i + ridge). If N has all other items, these are the weights of EASE.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import Work
from mfrank.arrays import ext as _ext
from mfrank.models.item_links import links_of, strongest

_is_native: bool = _ext is not None

COMMON = 4096
"""Items with the most users, whose products are in a table; of others, the users are read."""
_AT_ONCE = 512
_BYTES_A_LINK = 32
_BYTES_AT_ONCE = 1 << 27


def bytes_needed(n_items: int, candidates: int) -> int:
    """Bytes of :func:`regressions`."""
    links = n_items * min(candidates, n_items)
    return 8 * min(n_items, COMMON) ** 2 + _BYTES_A_LINK * links + _BYTES_AT_ONCE


def regressions(rows: sp.csr_array, ridge: float, candidates: int) -> sp.csr_array:
    """The weights by which each item is predicted from its candidates, in the row of this item.

    Parameters
    ----------
    rows : csr_array, float64, shape (n_users, n_items)
        Canonical, without zeros.
    ridge : float
    candidates : int
        Maximum number of items from which one is predicted.

    Returns
    -------
    csr_array, float64, shape (n_items, n_items)

    Raises
    ------
    FloatingPointError
        A matrix is not positive definite up to rounding.
    OutOfTimeError
        See :mod:`mfrank.arrays.work`.
    """
    squares = np.bincount(rows.indices, rows.data**2, rows.shape[1]).astype(np.float64) + ridge
    near = _candidates(rows, squares, candidates)
    solved = _solved_natively if _is_native else _solved
    weights, failed = solved(near, rows, squares)
    if failed.any():
        raise FloatingPointError("the matrix is not positive definite")
    return sp.csr_array((weights, near.indices, near.indptr), near.shape)


def _candidates(rows: sp.csr_array, squares: NDArray[np.float64], n: int) -> sp.csr_array:
    """Row j has the products of j with its candidates, ascending."""
    columns, roots = rows.T.tocsr(), np.sqrt(squares)

    def gains(part: slice) -> sp.csr_array:
        found = sp.csr_array(columns[part] @ rows)
        found.data /= roots[found.indices]
        return found

    near = strongest(gains, rows.shape[1], n, links_of(rows))
    near.data *= roots[near.indices]
    return near


def _solved_natively(
    near: sp.csr_array, rows: sp.csr_array, squares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    assert _ext is not None
    n_items = len(squares)
    users = rows.T.tocsr()
    common = np.argsort(-np.diff(users.indptr), kind="stable")[:COMMON]
    place = np.full(n_items, -1, np.int32)
    place[common] = np.arange(len(common))
    table = np.asarray((users[common] @ rows[:, common]).toarray())
    weights, failed = np.empty(near.nnz), np.empty(n_items, np.int64)
    pairs = np.diff(near.indptr).astype(np.float64) ** 2
    work = Work(float(pairs.sum()))
    for begin in range(0, n_items, _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        some = near[part]
        entries = slice(near.indptr[begin], near.indptr[begin] + some.nnz)
        _ext.regress(
            rows=_arrays(rows),
            users=_arrays(users),
            near=_arrays(some),
            diagonal=squares,
            place=place,
            common=table,
            out=weights[entries],
            failed=failed[part],
            n_threads=0,
        )
        work.advance(float(pairs[part].sum()))
    return weights, failed


def _arrays(
    matrix: sp.csr_array,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    return (
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data,
    )


def _solved(
    near: sp.csr_array, rows: sp.csr_array, squares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The same without the extension."""
    columns = rows.tocsc()
    weights, failed = np.zeros(near.nnz), np.zeros(len(squares), np.int64)
    work = Work(float(len(squares)))
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

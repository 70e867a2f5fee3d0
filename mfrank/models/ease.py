"""EASE: the linear item-to-item model with a closed-form solution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays import (
    Work,
    address_space_left,
    check_above_zero,
    check_count,
    check_memory,
    check_powers,
    check_time,
    gibibytes,
    usable_cores,
)
from mfrank.models.cost import of_empty_rows
from mfrank.models.held_inverse import HeldInverse, Ridge, relative_error
from mfrank.models.item_links import rows_at_once, strongest, strongest_of_dense
from mfrank.models.item_models import Neighborhood, NeighborRecommender
from mfrank.models.item_regressions import bytes_needed as bytes_of_regressions
from mfrank.models.item_regressions import regressions
from mfrank.retrieval import Rows

# The inverse of a Gram matrix plus a ridge, block by block, in the memory of one such matrix.


BLOCK = 512
"""Rows of a block."""
_LIBRARY, _OF_A_THREAD = 192 << 20, 48 << 20
"""Bytes of address space that LAPACK takes when it is loaded, and for each of its threads."""

Dense = NDArray[np.floating]


def load_algebra(needed: int, what: str, remedy: str) -> None:
    """Load LAPACK and allocate the buffers of BLAS before a fit allocates its matrices.

    If ``ulimit -v`` leaves no room for the buffers, OpenBLAS raises no error: it retries forever,
    or sends this process the signal of Ctrl-C. So MemoryError is raised here, unless there is room
    for them and for the ``needed`` bytes of the matrices.
    """
    if (left := address_space_left()) == math.inf:
        return
    if needed + _LIBRARY + _OF_A_THREAD * usable_cores() > left:
        raise MemoryError(
            f"{what} would need {gibibytes(needed)} of memory and some for linear algebra, but "
            f"ulimit -v leaves {gibibytes(max(0, int(left)))} to this process; {remedy}"
        )
    for some in (np.eye(BLOCK, dtype=np.float32), np.eye(BLOCK)):
        _small_inverse(some @ some)


def inverse(
    rows: Callable[[slice], Dense], n: int, ridge: float, dtype: DTypeLike = np.float64
) -> Dense:
    """Invert G + ridge I.

    Blocks of variables are swept one by one (Goodnight 1979). Let D be the inverse of a diagonal
    block and P the columns of the block. A sweep changes the columns to P D, the block to -D, and
    the rest G to G - P D P'. After the last sweep, the matrix is minus the inverse. The products
    cost as much as an inverse by a Cholesky factorization.

    ``rows`` returns the rows of a slice of G, which is symmetric positive semidefinite, of shape
    (n, n). The result and the products are in ``dtype``; diagonal blocks are inverted in float64.

    Raises
    ------
    FloatingPointError
        The matrix is not positive definite up to rounding.
    OutOfTimeError
        See :mod:`mfrank.arrays.work`.
    """
    blocks = [slice(begin, min(begin + BLOCK, n)) for begin in range(0, n, BLOCK)]
    swept = np.empty((n, n), dtype)
    for block in blocks:
        swept[block] = rows(block)
        check_time()
    swept[np.diag_indices(n)] += ridge
    work = Work(len(blocks) * sum(block.stop for block in blocks))
    for pivot in blocks:  # only blocks on and below the diagonal are kept up to date
        _sweep(swept, blocks, pivot, work)
    for block in blocks:
        swept[block, : block.stop] *= -1
        swept[: block.start, block] = swept[block, : block.start].T
    return swept


def _sweep(swept: Dense, blocks: list[slice], pivot: slice, work: Work) -> None:
    before, behind = slice(0, pivot.start), slice(pivot.stop, None)
    columns = np.vstack([swept[pivot, before].T, swept[pivot.start :, pivot]])
    within = _small_inverse(swept[pivot, pivot]).astype(swept.dtype, copy=False)
    scaled = columns @ within
    for block in blocks:
        if block != pivot:
            swept[block, : block.stop] -= scaled[block] @ columns[: block.stop].T
        work.advance(block.stop)
    swept[pivot, before] = scaled[before].T
    swept[behind, pivot] = scaled[behind]
    swept[pivot, pivot] = -within


def _small_inverse(matrix: Dense) -> Dense:
    from scipy.linalg.lapack import dpotrf, dpotri

    factor, failed = dpotrf(matrix, lower=1, clean=0)
    if not failed:
        factor, failed = dpotri(factor, lower=1, overwrite_c=1)
    if failed:
        raise FloatingPointError("the matrix is not positive definite")
    lower = np.tril(factor)
    found: Dense = lower + np.tril(lower, -1).T
    return found


_STRIPS = 4
"""Number of blocks of rows held in memory beside the inverse."""
_SINGLE_FROM = 4096
"""Number of items from which on float32 is tried first, which takes two thirds of the time."""
_DRIFT = {True: 0.05, False: 1e-9}
"""Relative difference of the ridge from a fit's, beside the weights of users, up to which an update
keeps it, for weights that differ by less; and a removal, which is exact."""
_EXACT = 1e-3
"""Largest relative error of a float32 inverse that is kept; rankings are not affected by it."""


@dataclass(eq=False, repr=False)
class EASE(NeighborRecommender):
    """Recommend by weights between items that best predict each user's items from the others.

    X is 1 where a value is above 0. The weights B minimize ``||X - X B||^2 + regularization
    ||B||^2`` with a zero diagonal (Steck 2019). The solution inverts a matrix with a row per item
    or per user, whichever are fewer.

    Two powers, both 0 in the paper, extend it. They reduce the weight of users with many items, and
    regularize weights of popular items more::

        sum_u v_u ||x_u - x_u B||^2 + regularization sum_i (m_i / mean of m)^item_power ||B_i||^2

    with ``v_u = c n_u^-user_power`` for a user u with n_u items; c makes the mean weight of an
    entry of X equal to 1. m_i is the sum of v_u over the users of item i.

    Parameters
    ----------
    regularization : float, default 500.0
        > 0. Good values range from 10 to several thousand.
    user_power, item_power : float, default 0.0
        0 to 1. On held-out parts of MovieLens-1M, powers of 0.5 and 0.5 ranked 3 % higher in
        NDCG@20 than 0 and 0, each with its best regularization.
    neighbors : int, default 400
        Maximum number of weights per item, >= 1, largest magnitudes first. A weight takes 12 bytes.
    candidates : int, optional
        >= 1. Predict each item from so many others, those that alone predict it best (items with
        which it has no user in common are none); no large matrix is inverted, so a catalog may have
        any size. Good values range from 50 to several hundred. None, the default, or at least the
        number of all others: from all.

    Attributes
    ----------
    similarity : scipy.sparse.csr_array, float64, shape (n_items, n_items)
        Row i has the weights by which item i recommends others. Do not write to it.
    store : FactorStore
        As in :class:`mfrank.ItemKNN`.

    Notes
    -----
    A fit needs 8 bytes per cell of the inverted matrix, and time cubic in its width: 10,000 items
    take seconds on a few cores, 30,000 take minutes and 7 GiB. From 4,096 items on, the inverse of
    a matrix of items is computed in float32 if that is accurate to a thousandth, otherwise in
    float64. A fit to ``candidates`` needs 32 bytes for each, and time that grows with their cube:
    40,000 items of 100 candidates take seconds. A fit raises MemoryError before any work if memory
    is too small.

    An update and a removal keep the inverse in memory for the next one, which then takes a third to
    a sixth of the time of a fit, if it touches at most half as many users or items as there are
    items: 8 bytes per cell, 4 from 4,096 items on. The inverse is not saved, a fit frees it, and
    one whose error exceeds 1e-9 (1e-3 in float32) is computed anew. With powers, c and the mean of
    m stay those of the last fit until ``regularization`` would have to change by 5 % to balance
    that: up to there, weights differ from those of a fit by less. With ``candidates``, an update
    and a removal are fits.

    Examples
    --------
    >>> import mfrank
    >>> data = mfrank.Interactions.from_arrays([0, 0, 1, 1, 2], [5, 6, 6, 7, 5])
    >>> mfrank.EASE(1.0).fit(data).recommend(2, N=1).ids.tolist()
    [6]
    """

    regularization: float = 500.0
    neighbors: int = 400
    user_power: float = 0.0
    item_power: float = 0.0
    candidates: int | None = None

    def __post_init__(self) -> None:
        check_above_zero(regularization=self.regularization)
        check_powers(user_power=self.user_power, item_power=self.item_power)
        check_count("neighbors", self.neighbors, 1)
        if self.candidates is not None:
            check_count("candidates", self.candidates, 1)

    @staticmethod
    def inverts_in_float32(n_users: int, n_items: int) -> bool:
        """Whether a fit tries float32 first."""
        return _SINGLE_FROM <= n_items <= n_users

    @staticmethod
    def bytes_needed(n_users: int, n_items: int, candidates: int | None = None) -> int:
        """Bytes of the matrices of a fit."""
        if candidates is not None and candidates < n_items - 1:
            return bytes_of_regressions(n_items, candidates)
        width = min(n_users, n_items)
        return 8 * width * (width + _STRIPS * BLOCK)

    def _weights(self, likes: sp.csr_array) -> sp.csr_array:
        return self._solved(likes, keep=False)

    def _weights_after(
        self, held: Neighborhood, rows: sp.csr_array, left: tuple[Rows, Rows] | None = None
    ) -> sp.csr_array:
        kind = Ridge(self.regularization, self.user_power, self.item_power)
        after = rows if left is None else sp.csr_array(rows[left[0]][:, left[1]])
        kept, self._kept = self._kept, None
        if self._is_local(after.shape[1]):
            return self._weights(after)
        if kept is not None:
            drift = abs(kind.of(after) / kept.ridge - 1)
            kept = kept.updated(held.values, rows, kind) if drift <= _DRIFT[left is None] else None
        if kept is None:
            return self._solved(after, keep=True)
        self._kept = kept if left is None else kept.left(after, left[1])
        return self._largest(self._kept.matrix, np.ones(after.shape[1]))

    def _solved(self, likes: sp.csr_array, *, keep: bool) -> sp.csr_array:
        """The weights; ``keep`` keeps the inverse for an update."""
        n_users, n_items = likes.shape
        needed = self.bytes_needed(n_users, n_items, self.candidates)
        what = f"EASE of {n_users:,} users and {n_items:,} items"
        remedy = "use fewer `candidates`, such as `candidates=100`"
        check_memory(needed, what, of_empty_rows(n_users + n_items, likes.nnz) + remedy)
        weighted, of_items = self._weighted(likes)
        if self._is_local(n_items):
            return self._by_candidates(weighted, of_items)
        load_algebra(needed, what, remedy)
        if n_items > n_users:
            return self._by_users(weighted, of_items)
        inverted = self._by_items(weighted)
        weights = self._largest(inverted, of_items)
        if keep:
            kind = Ridge(self.regularization, self.user_power, self.item_power)
            self._kept = HeldInverse.of(inverted, likes, kind)
        return weights

    def _weighted(self, likes: sp.csr_array) -> tuple[sp.csr_array, NDArray[np.float64]]:
        """Y = V^1/2 X S and the diagonal of S; in terms of Y, the ridge is the same for all items.

        S has the inverse roots of the ridges' factors; B is S B' S^-1 for the weights B' of Y.
        """
        of_users = np.maximum(np.diff(likes.indptr), 1.0) ** -self.user_power
        entries = np.repeat(of_users, np.diff(likes.indptr))
        entries *= likes.nnz / max(entries.sum(), 1.0)
        mass = np.bincount(likes.indices, entries, minlength=likes.shape[1])
        mass = np.where(mass > 0, mass, 1.0) / max(mass.mean(), np.finfo(float).tiny)
        of_items = mass ** (-0.5 * self.item_power)
        values = np.sqrt(entries) * of_items[likes.indices]
        return sp.csr_array((values, likes.indices, likes.indptr), likes.shape), of_items

    def _is_local(self, n_items: int) -> bool:
        return self.candidates is not None and self.candidates < n_items - 1

    def _by_candidates(self, rows: sp.csr_array, of_items: NDArray[np.float64]) -> sp.csr_array:
        try:
            found = regressions(rows, self.regularization, self.candidates or 0)
        except FloatingPointError as error:
            raise self._indefinite() from error
        left, right = (sp.diags_array(of_items**power) for power in (1, -1))
        weights = sp.csr_array(left @ found.T.tocsr() @ right)
        return strongest(lambda part: weights[part], len(of_items), self.neighbors)

    def _by_items(self, rows: sp.csr_array) -> Dense:
        """The inverse P of Y'Y + ridge."""
        columns, n_items = rows.T.tocsr(), rows.shape[1]

        def gram(part: slice) -> NDArray[np.float64]:
            dense: NDArray[np.float64] = (columns[part] @ rows).toarray()
            return dense

        found = self._in_float32(gram, rows) if self.inverts_in_float32(*rows.shape) else None
        return self._inverse(gram, n_items) if found is None else found

    def _largest(self, inverse: Dense, of_items: NDArray[np.float64]) -> sp.csr_array:
        """The largest weights, of B' = -P / diag(P)."""
        unit = -np.diag(inverse) * of_items

        def weights_of(part: slice) -> sp.csr_array:
            weights = inverse[part].copy()
            weights /= unit
            weights *= of_items[part, None]
            return strongest_of_dense(weights, self.neighbors + 1)  # one is itself

        return strongest(weights_of, len(inverse), self.neighbors)

    def _by_users(self, rows: sp.csr_array, of_items: NDArray[np.float64]) -> sp.csr_array:
        """The same by the inverse K of YY' + ridge: ridge P = I - Y'KY (Woodbury)."""
        columns = rows.T.tocsr()
        kernel = self._inverse(lambda part: (rows[part] @ columns).toarray(), rows.shape[0])
        n_items = rows.shape[1]
        diagonal = np.ones(n_items)
        size = rows_at_once(n_items)
        work = Work(n_items)
        for begin in range(0, n_items, size):
            part = slice(begin, begin + size)
            diagonal[part] -= columns[part].multiply(columns[part] @ kernel).sum(axis=1)
            work.advance(size)
        unit = diagonal * of_items

        def weights_of(part: slice) -> sp.csr_array:
            dense = np.asarray((columns[part] @ kernel) @ rows)
            return strongest_of_dense(dense * (of_items[part, None] / unit), self.neighbors + 1)

        return strongest(weights_of, n_items, self.neighbors)

    def _in_float32(
        self, gram: Callable[[slice], NDArray[np.float64]], rows: sp.csr_array
    ) -> NDArray[np.floating] | None:
        """The inverse in float32; None if it is not exact enough."""
        try:
            found = inverse(gram, rows.shape[1], self.regularization, np.float32)
        except FloatingPointError:
            return None
        error = relative_error(
            found, lambda some: rows.T @ (rows @ some) + self.regularization * some
        )
        return found if error <= _EXACT else None

    def _inverse(
        self, rows: Callable[[slice], NDArray[np.float64]], n: int
    ) -> NDArray[np.floating]:
        try:
            return inverse(rows, n, self.regularization)
        except FloatingPointError as error:
            raise self._indefinite() from error

    def _indefinite(self) -> FloatingPointError:
        return FloatingPointError(
            f"EASE cannot invert with a regularization of {self.regularization:g}; raise it"
        )

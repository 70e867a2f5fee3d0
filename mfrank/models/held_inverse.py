"""The inverse that an EASE holds between updates, and what changed rows of users change in it.

It is P = (X'NX + ridge D)^-1 for the rows X of users, N = diag(n_u^-user_power) for users with n_u
items and D = diag((sum over the users of i of n_u^-user_power)^item_power). Changed rows change the
matrix by U'JU, where U has few rows, so P loses V (I + JUV)^-1 J V' for V = PU' (Woodbury). U has
the old and the new rows of the changed users; or, if these are fewer, unit rows of the items of
these users, and J is what the matrix changes by there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import check_time
from mfrank.models.item_links import changes

Dense = NDArray[np.floating]

_BLOCK = 512
_WORTH = 0.5
"""Rank of a change, by the number of items, up to which an update is quicker than an inverse: .29
takes two sevenths of the time, .5 a sixth to a third (2,900 and 5,000 items)."""
_EXACT = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-9}
"""Largest relative error of an inverse that is kept, by dtype."""
_PROBES = 4


def relative_error(inverse: Dense, product: Callable[[NDArray[np.float64]], Dense]) -> float:
    """Relative error of an inverse; ``product`` multiplies columns by the inverted matrix.

    It is measured as the change that one step of iterative refinement makes to random solutions.
    """
    probes = np.random.default_rng(0).standard_normal((len(inverse), _PROBES))
    solved = (inverse @ probes.astype(inverse.dtype)).astype(np.float64)
    error = inverse @ (probes - product(solved)).astype(inverse.dtype)
    return float(np.linalg.norm(error) / max(np.linalg.norm(solved), np.finfo(float).tiny))


@dataclass(frozen=True)
class Ridge:
    """What an EASE adds to the Gram of its rows, without the common factor of users' weights."""

    regularization: float
    user_power: float
    item_power: float

    def of_users(self, rows: sp.csr_array) -> NDArray[np.float64]:
        """The weight of each user."""
        found: NDArray[np.float64] = np.maximum(np.diff(rows.indptr), 1.0) ** -self.user_power
        return found

    def of_items(self, rows: sp.csr_array) -> NDArray[np.float64]:
        """The multiple of the ridge for each item; 1 for those of nobody."""
        mass = self._mass(rows)
        return np.where(mass > 0, mass, 1.0) ** self.item_power

    def of(self, rows: sp.csr_array) -> float:
        """The ridge of a fit to these rows."""
        mass = self._mass(rows)
        if not rows.nnz:
            return float(self.regularization)
        scale = rows.nnz / mass.sum()
        return float(self.regularization / scale * mass.mean() ** -self.item_power)

    def _mass(self, rows: sp.csr_array) -> NDArray[np.float64]:
        entries = np.repeat(self.of_users(rows), np.diff(rows.indptr))
        return np.bincount(rows.indices, entries, minlength=rows.shape[1]).astype(np.float64)


@dataclass
class HeldInverse:
    """The inverse of a matrix of items; an update takes it, and returns another.

    Attributes
    ----------
    rows : csr_array, shape (n_users, n_items)
        Ones, of which the matrix is.
    ridge : float
    matrix : float32 or float64, shape (n_items, n_items), or None
        None once it was taken.
    """

    rows: sp.csr_array
    ridge: float
    matrix: Dense | None = None

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """What is pickled is None: a fit is quicker than to send the matrix."""
        return type(None), ()

    @classmethod
    def of(cls, inverse: Dense, rows: sp.csr_array, kind: Ridge) -> HeldInverse:
        """Take the inverse of Y'Y + regularization for Y = (c N)^1/2 X S, which is overwritten."""
        ridge = kind.of(rows)
        of_items = np.sqrt(kind.regularization / (ridge * kind.of_items(rows)))  # c^1/2 S
        inverse *= of_items[:, None]
        inverse *= of_items
        nobodys = np.flatnonzero(np.bincount(rows.indices, minlength=len(inverse)) == 0)
        inverse[nobodys, nobodys] = 1 / ridge
        return cls(rows, ridge, inverse)

    def updated(self, before: sp.csr_array, after: sp.csr_array, kind: Ridge) -> HeldInverse | None:
        """The inverse for other rows, of a shape; None if a fit is quicker, or more exact."""
        matrix = vars(self).pop("matrix", None)  # in one step: a copy of the model may take it
        if matrix is None or not _same(self.rows, before):
            return None
        n_items, known = after.shape[1], len(matrix)
        of_items, were = kind.of_items(after), kind.of_items(before)
        change = _Change.of(before, after, kind, self.ridge * (of_items - were))
        if change.rank > _WORTH * n_items:
            return None
        if n_items > known:
            grown = np.zeros((n_items, n_items), matrix.dtype)
            grown[:known, :known] = matrix
            grown[range(known, n_items), range(known, n_items)] = 1 / self.ridge
            matrix = grown
        change.put_into(matrix)
        users, items = kind.of_users(after)[:, None], self.ridge * of_items[:, None]
        error = relative_error(
            matrix, lambda some: after.T @ (users * (after @ some)) + items * some
        )
        return HeldInverse(after, self.ridge, matrix) if error <= _EXACT[matrix.dtype] else None

    def left(self, rows: sp.csr_array, items: NDArray[np.int64]) -> HeldInverse:
        """The inverse of some items; others have no entries, and ``rows`` are what is left."""
        assert self.matrix is not None
        return HeldInverse(rows, self.ridge, self.matrix[np.ix_(items, items)])


def _same(one: sp.csr_array, other: sp.csr_array) -> bool:
    """Whether rows of ones have the same cells; the second may have more rows and columns."""
    n_users = one.shape[0]
    return (
        np.array_equal(one.indptr, other.indptr[: n_users + 1])
        and one.nnz == other.nnz
        and np.array_equal(one.indices, other.indices)
    )


@dataclass(frozen=True)
class _Change:
    """What is added to a matrix: U'JU for rows U, or J between the items ``at``."""

    rows: sp.csr_array
    at: NDArray[np.int64]
    weights: NDArray[np.float64]

    @classmethod
    def of(
        cls, before: sp.csr_array, after: sp.csr_array, kind: Ridge, more: NDArray[np.float64]
    ) -> _Change:
        """``more`` is what is added to the diagonal, which is 0 without an item power."""
        some = np.flatnonzero(changes(before, after)[0])
        both = [sp.csr_array(each[some]) for each in (after, before)]
        own = np.concatenate([kind.of_users(both[0]), -kind.of_users(both[1])])
        rows = sp.csr_array(sp.vstack(both, format="csr"))
        filled = np.flatnonzero(np.diff(rows.indptr))
        rows, own = sp.csr_array(rows[filled]), own[filled]
        at = np.unique(rows.indices).astype(np.int64)
        if not kind.item_power and len(filled) < len(at):
            return cls(rows, at[:0], np.diag(own))
        part = sp.csr_array(rows[:, at])
        weights = np.asarray((part.T @ (sp.diags_array(own) @ part)).toarray())
        weights[np.diag_indices(len(at))] += more[at]
        return cls(rows[:0], at, weights)

    @property
    def rank(self) -> int:
        """Number of columns by which the inverse changes."""
        return len(self.weights)

    def put_into(self, inverse: Dense) -> None:
        """Change an inverse in place."""
        if len(self.at):
            columns = inverse[:, self.at]
            between = columns[self.at]
        else:
            columns = np.ascontiguousarray((self.rows.astype(inverse.dtype) @ inverse).T)
            between = self.rows @ columns
        middle = np.eye(self.rank) + self.weights @ between
        core = np.linalg.solve(middle, self.weights)
        scaled = columns @ core.astype(inverse.dtype)
        blocks = [slice(at, at + _BLOCK) for at in range(0, len(inverse), _BLOCK)]
        for block in blocks:
            inverse[block, : block.stop] -= scaled[block] @ columns[: block.stop].T
            check_time()
        for block in blocks:
            inverse[: block.start, block] = inverse[block, : block.start].T

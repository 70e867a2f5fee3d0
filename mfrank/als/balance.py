"""Balanced factors: of all pairs with the same scores, the one of least ridge.

For every invertible M, the factors P M and Q M^-T have the scores of P and Q. With
A = sum_u ridge_u p_u p_u' and B = sum_i ridge_i q_i q_i', their ridge is

    tr(M'AM) + tr(M^-1 B M^-T)

It is least where both matrices are equal, which one Cholesky and one eigendecomposition find (Moore
1981, "Principal component analysis in linear systems", balanced coordinates):

    A = L L',  L'BL = V S V',  M = L^-T V S^(1/4):    M'AM = M^-1 B M^-T = S^(1/2)

ALS alone changes the scale of P against Q very slowly, in each direction: each side takes over what
the other one has. So its start is balanced once. ``bench/NOTES.md`` has the epochs that this saves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.threads import single_threaded
from mfrank.backends import Backend, Factors
from mfrank.backends.row_problem import RowProblem

__all__ = ["balance"]

_DAMPING = 1e-6  # Of the mean diagonal: bounds M in directions that a side lacks.
_LEAST = 1e-14  # Of the largest eigenvalue: smaller ones are rounding, of any sign.

Matrix = NDArray[np.float64]


def balance(
    users: RowProblem,
    items: RowProblem,
    user_factors: Factors,
    item_factors: Factors,
    backend: Backend,
    n_threads: int = 0,
) -> None:
    """Balance the factors in place; without a ridge, or where one side is 0, they stay."""
    of_users = backend.gram(user_factors, users.ridge, n_threads).matrix
    of_items = backend.gram(item_factors, items.ridge, n_threads).matrix
    if not (np.trace(of_users) > 0 and np.trace(of_items) > 0):
        return
    by_users, by_items = _transforms(_damped(of_users), _damped(of_items))
    if not (np.isfinite(by_users).all() and np.isfinite(by_items).all()):
        return
    backend.rotate(user_factors, by_users, 0, user_factors, n_threads)
    backend.rotate(item_factors, by_items, 0, item_factors, n_threads)


def _transforms(of_users: Matrix, of_items: Matrix) -> tuple[Matrix, Matrix]:
    """Return M and M^-T."""
    with single_threaded():
        lower = np.linalg.cholesky(of_users)
        squares, basis = np.linalg.eigh(lower.T @ of_items @ lower)
        quarter = np.maximum(squares, _LEAST * squares[-1]) ** 0.25
        by_users = np.linalg.solve(lower.T, basis * quarter)
        by_items = lower @ (basis / quarter)
    return np.ascontiguousarray(by_users), np.ascontiguousarray(by_items)


def _damped(matrix: Matrix) -> Matrix:
    size = _DAMPING * float(np.trace(matrix)) / len(matrix)
    damped: Matrix = matrix + size * np.eye(len(matrix))
    return damped

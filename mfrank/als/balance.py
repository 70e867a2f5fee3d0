"""Balanced factors: of all pairs with the same scores, the pair with the smallest ridge.

For every invertible M, the factors P M and Q M^-T have the scores of P and Q. With
A = sum_u ridge_u p_u p_u' and B = sum_i ridge_i q_i q_i', their ridge is

    tr(M'AM) + tr(M^-1 B M^-T)

It is smallest where both matrices are equal, which one Cholesky and one eigendecomposition find
(Moore 1981, "Principal component analysis in linear systems", balanced coordinates):

    A = L L',  L'BL = V S V',  M = L^-T V S^(1/4):    M'AM = M^-1 B M^-T = S^(1/2)

Without a ridge, all pairs with these scores are equally good for the objective, but not for cosines
of users or items: a fit would keep directions that are long on one side and short on the other. So
the factors are then balanced as under the same vanishing ridge for all rows, A = P'P and B = Q'Q.

ALS by itself changes the scale of P relative to Q very slowly, in every direction, because each
side takes over the scale of the other. So the start of a fit is balanced once. ``bench/NOTES.md``
has the epochs that this saves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.threads import single_threaded
from mfrank.backends import Backend, Factors
from mfrank.backends.row_problem import RowProblem

__all__ = ["balance"]

_DAMPING = 1e-5  # Of the trace: bounds M in directions that a side lacks; above float32's rounding.
_TINY, _HUGE = 1e-290, 1e30  # Ridges whose shares are exact; entries of M that float32 can hold.

Matrix = NDArray[np.float64]


def balance(
    users: RowProblem,
    items: RowProblem,
    user_factors: Factors,
    item_factors: Factors,
    backend: Backend,
    n_threads: int,
) -> None:
    """Balance the factors in place.

    They stay as they are if only one side has a ridge, or if a side is 0 or not finite, or if the
    transforms cannot be computed within rounding.
    """
    by_users, by_items = users.ridge, items.ridge
    if not by_users.any() and not by_items.any():
        by_users, by_items = np.ones_like(by_users), np.ones_like(by_items)
    of_users = backend.gram(user_factors, by_users, n_threads).matrix
    of_items = backend.gram(item_factors, by_items, n_threads).matrix
    ridges = float(np.trace(of_users)), float(np.trace(of_items))
    if not all(_TINY < ridge < np.inf for ridge in ridges):
        return
    try:
        turns = _transforms(_damped(of_users / ridges[0]), _damped(of_items / ridges[1]))
    except np.linalg.LinAlgError:
        return
    scale = (ridges[1] / ridges[0]) ** 0.25
    for_users, for_items = scale * turns[0], turns[1] / scale
    if not max(np.abs(for_users).max(), np.abs(for_items).max()) < _HUGE:
        return
    backend.rotate(user_factors, for_users, 0, user_factors, n_threads)
    backend.rotate(item_factors, for_items, 0, item_factors, n_threads)


def _transforms(of_users: Matrix, of_items: Matrix) -> tuple[Matrix, Matrix]:
    """Return M and M^-T."""
    with single_threaded():
        lower = np.linalg.cholesky(of_users)
        squares, basis = np.linalg.eigh(lower.T @ of_items @ lower)
        quarter = squares**0.25  # positive: at least the square of the damping
        by_users = np.linalg.solve(lower.T, basis * quarter)
        by_items = lower @ (basis / quarter)
    return np.ascontiguousarray(by_users), np.ascontiguousarray(by_items)


def _damped(matrix: Matrix) -> Matrix:
    """Damp a matrix of trace 1."""
    damped: Matrix = matrix + _DAMPING * np.eye(len(matrix))
    return damped

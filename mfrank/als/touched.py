"""Half-steps of some rows of both sides in turn: those that new interactions touch.

All other rows stay. The Gram matrices are computed afresh each time: that takes about twice as long
as to copy the factors, which an update does anyway, so that readers keep the old ones; and a matrix
that is updated by low rank drifts from its factors by rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfrank.als.coupling import weighted_sum
from mfrank.als.eigenbasis import solve_in_own_basis
from mfrank.als.engine import HalfSteps
from mfrank.arrays.csr import CSR
from mfrank.backends import Factors

__all__ = ["TouchedRows", "alternate"]


@dataclass(frozen=True, slots=True, eq=False)
class TouchedRows:
    """The rows to be solved, each with all of its interactions.

    Attributes
    ----------
    users, items : int64, shape (U,) and (I,)
        Their numbers among all rows.
    user_items, item_users : CSR, U rows of all items and I rows of all users
    user_prior, item_prior : shape (U, K) and (I, K), or None
        What the features of the rows tell, if their side has features.
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    user_items: CSR
    item_users: CSR
    user_prior: Factors | None = None
    item_prior: Factors | None = None


def alternate(
    half_steps: HalfSteps,
    touched: TouchedRows,
    user_factors: Factors,
    item_factors: Factors,
    alternations: int,
) -> int:
    """Solve the users, then ``alternations`` times the items and the users; return rows solved.

    Parameters
    ----------
    half_steps : HalfSteps
        With the counts of all interactions, the new ones included.
    touched : TouchedRows
    user_factors, item_factors : shape (n_users, K) and (n_items, K)
        All factors, in numpy; those of the touched rows are overwritten, in the same basis.
    alternations : int
    """
    _solve_users(half_steps, touched, user_factors, item_factors)
    for _ in range(alternations):
        _solve_items(half_steps, touched, user_factors, item_factors)
        _solve_users(half_steps, touched, user_factors, item_factors)
    return len(touched.users) * (alternations + 1) + len(touched.items) * alternations


def _solve_users(
    half_steps: HalfSteps, touched: TouchedRows, user_factors: Factors, item_factors: Factors
) -> None:
    problem = half_steps.user_problem(touched.user_items)
    user_factors[touched.users] = solve_in_own_basis(
        half_steps.backend,
        problem,
        item_factors,
        half_steps.users_basis(item_factors),
        half_steps.options,
        touched.user_prior,
    )


def _solve_items(
    half_steps: HalfSteps, touched: TouchedRows, user_factors: Factors, item_factors: Factors
) -> None:
    problem = half_steps.item_problem(touched.item_users)
    item_sum = weighted_sum(half_steps.item_weights, item_factors)
    item_factors[touched.items] = solve_in_own_basis(
        half_steps.backend,
        problem,
        user_factors,
        half_steps.items_basis(user_factors, item_sum),
        half_steps.options,
        touched.item_prior,
    )

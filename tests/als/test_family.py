"""Any member of the family that ``als.quadratic`` prints is minimized, not only named objectives.

Named ones leave parts of it unused: an interaction comes with equal weights of items, and with a
target that cancels the pulls, so that only here does it move items without an observed part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import BACKENDS
from numpy.typing import NDArray
from problems import Dense, gradient, toy

from mfrank.als import HalfSteps, QuadraticObjective
from mfrank.arrays import CSR
from mfrank.backends import CellTerm, ObservedLoss, SolveOptions, choose
from mfrank.data import Counts

USERS, ITEMS, FACTORS = 9, 7, 3


def drawn(seed: int, size: int) -> Dense:
    return np.random.default_rng(seed).uniform(0.5, 1.5, size)


@dataclass(frozen=True)
class Member(QuadraticObjective):
    """Every coefficient drawn: those of users, of items, of observed cells."""

    curved: bool
    regularization: float = 0.3
    nu: float = 0.0
    accepts_dislikes = True
    uses_values = True
    target = -0.7
    a: Dense = field(default_factory=lambda: drawn(0, USERS))
    w: Dense = field(default_factory=lambda: drawn(1, ITEMS))

    def user_weights(self, n: NDArray[Any], n_items: int) -> Dense:
        return self.a

    def item_weights(self, m: NDArray[Any], counts: Counts) -> Dense:
        return self.w

    def interaction(self, n_items: int) -> float:
        return float(0.8 / self.w.sum())  # convex up to 1 / sum(w)

    def observed(self, n: NDArray[Any], n_items: int) -> ObservedLoss:
        curvature = CellTerm(drawn(2, USERS), 0.4) if self.curved else CellTerm(np.zeros(USERS))
        return ObservedLoss(
            curvature, CellTerm(drawn(3, USERS), 0.3), CellTerm(drawn(4, USERS), 0.2)
        )

    def printed(self, r: Dense, p: Dense, q: Dense) -> float:
        """L(P, Q), cell by cell."""
        s, liked, size = p @ q.T, r > 0, abs(r)
        loss = (np.outer(self.a, self.w) * (s - self.target) ** 2).sum()
        loss -= self.interaction(ITEMS) * (self.a * (s @ self.w) ** 2).sum()
        seen = self.observed(r, ITEMS)
        terms = (seen.curvature, seen.pull, seen.constant)
        curvature, pull, constant = (t.offset[:, None] + t.slope * size for t in terms)
        cells = curvature * (r != 0)
        loss += (cells * s**2 + liked * (constant - 2 * pull * s)).sum()
        rho = (self.a * self.w.sum() + cells.sum(1)) ** self.nu
        sigma = (self.w * self.a.sum() + cells.sum(0)) ** self.nu
        loss += self.regularization * (rho @ (p**2).sum(1) + sigma @ (q**2).sum(1))
        return float(loss)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("nu", [0.0, 0.6])
@pytest.mark.parametrize("curved", [True, False])
def test_half_steps_minimize_what_is_printed(curved: bool, nu: float, backend: str) -> None:
    matrix, member = toy(USERS, ITEMS, values="dislikes"), Member(curved, nu=nu)
    r, counts = matrix.toarray(), Counts(np.diff(matrix.indptr), np.diff(matrix.tocsc().indptr))
    steps = HalfSteps(member, counts, choose(backend), SolveOptions("cholesky"))
    users = member.user_problem(CSR.from_scipy(matrix, "f8"), counts)
    items = member.item_problem(CSR.from_scipy(sp.csr_array(matrix.T), "f8"), counts)
    rng = np.random.default_rng(5)
    p, q = (rng.normal(size=(n, FACTORS)) for n in (USERS, ITEMS))

    def check(at: Dense, loss: Callable[[Dense], float]) -> None:
        slope, without = gradient(loss, at), gradient(loss, 0 * at)
        assert np.abs(slope).max() < 1e-7 * np.abs(without).max()
        assert steps.value(users, items, p, q) == pytest.approx(loss(at), rel=1e-9)

    p, q, _ = steps.solve_items(items, p, q)
    check(q, lambda q: member.printed(r, p, q))
    steps.solve_users(users, q, p)
    check(p, lambda p: member.printed(r, p, q))

"""Every objective is the loss its docstring prints, and every half-step its exact minimum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from problems import OBJECTIVES, gradient, stated_loss, toy

import mfrank
from mfrank.als import HalfSteps, QuadraticObjective
from mfrank.arrays import CSR
from mfrank.backends import SolveOptions, choose
from mfrank.data import Counts
from tests.support.errors import refuses

FACTORS = 3


class Fit:
    """A toy fit of one objective on the reference backend, in float64."""

    def __init__(self, objective: QuadraticObjective, matrix: sp.csr_array, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        users, items = matrix.shape
        counts = Counts(np.diff(matrix.indptr), np.bincount(matrix.indices, minlength=items))
        self.steps = HalfSteps(objective, counts, choose("reference"), SolveOptions())
        self.users = objective.user_problem(CSR.from_scipy(matrix, np.float64), counts)
        transposed = sp.csr_array(matrix.T)
        self.items = objective.item_problem(CSR.from_scipy(transposed, np.float64), counts)
        self.p = rng.normal(size=(users, FACTORS))
        self.q = rng.normal(size=(items, FACTORS))
        self.loss = stated_loss(objective, matrix.toarray())

    def solve_users(self) -> None:
        self.steps.solve_users(self.users, self.q, self.p)

    def solve_items(self) -> None:
        self.p, self.q, _ = self.steps.solve_items(self.items, self.p, self.q)

    def value(self) -> float:
        return self.steps.value(self.users, self.items, self.p, self.q)


def cases() -> list[pytest.param]:
    likes = [pytest.param(o, "counts", id=name) for name, o in OBJECTIVES.items()]
    dislikes = [
        pytest.param(o, "dislikes", id=f"{name} dislikes")
        for name, o in OBJECTIVES.items()
        if o.accepts_dislikes
    ]
    return [*likes, *dislikes]


@pytest.mark.parametrize(("objective", "values"), cases())
def test_value_is_the_stated_loss(objective: QuadraticObjective, values: str) -> None:
    check_value(objective, toy(values=values))


def check_value(objective: QuadraticObjective, matrix: sp.csr_array) -> None:
    fit, other = (Fit(objective, matrix, seed) for seed in (1, 2))
    # The printed RGx leaves a constant out: compare differences.
    expected = fit.loss(fit.p, fit.q) - other.loss(other.p, other.q)
    assert fit.value() - other.value() == pytest.approx(expected, rel=1e-9)
    if not isinstance(objective, mfrank.RGXPrinted):
        assert fit.value() == pytest.approx(fit.loss(fit.p, fit.q), rel=1e-9)


@pytest.mark.parametrize(
    ("name", "row"),
    [(name, [1.0, 0.0, 0.0]) for name in OBJECTIVES]
    + [(name, [2.0]) for name in OBJECTIVES if name != "rg2 sampled"],  # needs an item not liked
)
def test_one_entry_is_data_enough(name: str, row: list[float]) -> None:
    """Where counts are 1, nothing that keeps divisors from 0 may change them."""
    check_value(OBJECTIVES[name], sp.csr_array([row]))


@pytest.mark.parametrize(("objective", "values"), cases())
def test_half_steps_zero_the_gradient(objective: QuadraticObjective, values: str) -> None:
    fit = Fit(objective, toy(values=values))
    before = np.abs(gradient(lambda p: fit.loss(p, fit.q), fit.p)).max()
    fit.solve_users()
    assert np.abs(gradient(lambda p: fit.loss(p, fit.q), fit.p)).max() < 1e-7 * before
    before = np.abs(gradient(lambda q: fit.loss(fit.p, q), fit.q)).max()
    fit.solve_items()
    assert np.abs(gradient(lambda q: fit.loss(fit.p, q), fit.q)).max() < 1e-7 * before


@pytest.mark.parametrize("solve", [Fit.solve_users, Fit.solve_items])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_iterations_that_start_at_the_solution_stay_there(
    name: str, solve: Callable[[Fit], None]
) -> None:
    """In whatever basis the start is given: half-steps turn it into their own."""
    fit = Fit(OBJECTIVES[name], toy())
    solve(fit)
    scores = fit.p @ fit.q.T
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(FACTORS, FACTORS)))[0]
    fit.p, fit.q = fit.p @ turn, fit.q @ turn
    iterating = SolveOptions("cg", cg_steps=1)
    fit.steps = replace(fit.steps, backend=choose(), options=iterating)
    solve(fit)
    np.testing.assert_allclose(fit.p @ fit.q.T, scores, atol=1e-9 * np.abs(scores).max())


@pytest.mark.parametrize(("objective", "values"), cases())
def test_half_steps_never_raise_the_loss(objective: QuadraticObjective, values: str) -> None:
    fit = Fit(objective, toy(12, 10, values=values))
    values_seen = [fit.value()]
    for _ in range(4):
        fit.solve_items()
        values_seen.append(fit.value())
        fit.solve_users()
        values_seen.append(fit.value())
    scale = max(1.0, abs(values_seen[-1]))
    assert all(b <= a + 1e-10 * scale for a, b in pairwise(values_seen))
    assert values_seen[-1] < values_seen[0]


@pytest.mark.parametrize("kind", [mfrank.RG2, mfrank.RGX])
def test_rg_is_the_softmax_to_second_order(kind: type[mfrank.RG2]) -> None:
    """log-sum-exp about 0: RGx has all of the second order, RG2 all but the squared mean."""
    r = toy(values="ones").toarray()
    n, items = r.sum(1), r.shape[1]
    loss = stated_loss(kind(alpha=0.0, regularization=0.0), r)
    rng = np.random.default_rng(0)
    p, q = rng.normal(size=(len(r), FACTORS)), rng.normal(size=(items, FACTORS))

    def error(scale: float) -> float:
        s = scale * p @ q.T
        softmax = -(r * s).sum() + (n * (np.log(np.exp(s).sum(1)) - np.log(items))).sum()
        if kind is mfrank.RG2:
            softmax += 0.5 * (n * s.mean(1) ** 2).sum()
        rg = loss(scale * p, q) - loss(0 * p, q)
        return abs(rg - softmax)

    # A third-order error falls a thousandfold where the scores fall tenfold.
    assert error(1e-2) < 2e-3 * error(1e-1)
    assert error(1e-1) < 2e-2


def test_printed_and_exact_rgx_differ() -> None:
    matrix = toy(values="ones")
    exact, printed = mfrank.RGX(alpha=0.0), mfrank.RGXPrinted(alpha=0.0, beta=1 / matrix.shape[1])
    fits = [Fit(o, matrix) for o in (exact, printed)]
    for fit in fits:
        fit.solve_users()
    assert np.abs(fits[0].p - fits[1].p).max() > 1e-2


def test_pure_rg2_of_the_paper_in_closed_form() -> None:
    """One factorization serves all users and one all items (algorithms after Eqs. 36 to 39)."""
    r, lam = toy(values="ones").toarray(), 0.1
    r[r.sum(1) == 0, 0] = 1
    fit = Fit(mfrank.RG2(alpha=0.0, regularization=lam), sp.csr_array(r))
    n, items = r.sum(1), r.shape[1]
    fit.solve_users()
    shared = fit.q.T @ fit.q + lam * items * np.eye(FACTORS)
    right = (items / n)[:, None] * (r @ fit.q) - fit.q.sum(0)
    np.testing.assert_allclose(fit.p, np.linalg.solve(shared, right.T).T, rtol=1e-10)
    fit.solve_items()
    weighted = n[:, None] * fit.p
    shared = fit.p.T @ weighted + lam * n.sum() * np.eye(FACTORS)
    right = items * (r.T @ fit.p) - weighted.sum(0)
    np.testing.assert_allclose(fit.q, np.linalg.solve(shared, right.T).T, rtol=1e-10)


@pytest.mark.parametrize(
    ("kind", "option", "choices"),
    [
        (mfrank.WRMF, "confidence", ["alpha*r", "1+alpha*r"]),
        (mfrank.RG2, "ridge", ["own", "authors"]),
    ],
)
def test_choices_are_those_named(kind: type[Any], option: str, choices: list[str]) -> None:
    for choice in choices:
        assert getattr(kind(**{option: choice}), option) == choice
    with refuses(ValueError, option):
        kind(**{option: "r"})


def test_the_share_left_out_by_the_printed_rgx_is_below_one() -> None:
    assert mfrank.RGXPrinted(beta=0).beta == 0
    with refuses(ValueError, "beta"):
        mfrank.RGXPrinted(beta=1.0)


def test_too_many_negatives_are_refused() -> None:
    with refuses(ValueError, "negatives"):
        Fit(mfrank.RG2Sampled(negatives=7), toy())


@pytest.mark.parametrize(
    ("whole", "decimal"),
    [
        (mfrank.IALS(alpha0=1), mfrank.IALS(alpha0=1.0)),
        (mfrank.EALS(c0=64), mfrank.EALS(c0=64.0)),
        (mfrank.WRMF(alpha=2, regularization=1), mfrank.WRMF(alpha=2.0, regularization=1.0)),
        (mfrank.RG2(alpha=1), mfrank.RG2(alpha=1.0)),
    ],
)
def test_whole_numbers_are_numbers(whole: Any, decimal: Any) -> None:
    data = mfrank.synthetic(20, 10, 60, random_state=0)
    first, second = (mfrank.ALS(o, factors=2, random_state=0).fit(data) for o in (whole, decimal))
    np.testing.assert_array_equal(first.item_factors, second.item_factors)


@pytest.mark.parametrize("objective", [mfrank.WRMF, mfrank.IALS, mfrank.EALS, mfrank.RG2])
def test_powers_lie_from_0_to_10(objective: Any) -> None:
    assert objective(nu=10).nu == 10
    for nu in (-0.1, 10.5, 11):
        with refuses(ValueError, "nu"):
            objective(nu=nu)

"""Tables of the rows that an update needs: their bases, their Gram matrix, what goes beyond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import mfrank
from mfrank.als import Eigenbasis, HalfSteps, WorkingTable, groups_of
from mfrank.arrays import CSR
from mfrank.backends import Gram, SolveOptions, choose
from mfrank.data import Counts

EXACT = SolveOptions("cholesky", n_threads=1)


def drawn(*shape: int, seed: int = 0) -> NDArray[Any]:
    return np.random.default_rng(seed).normal(size=shape)


def basis(seed: int, width: int = 4) -> Eigenbasis:
    half = drawn(9, width, seed=seed)
    return Eigenbasis.of(Gram(half.T @ half, drawn(width, seed=seed)))


def half_steps() -> tuple[HalfSteps, CSR, CSR]:
    """Of five users and seven items, and their interactions by users and by items."""
    cells = sp.csr_array((drawn(5, 7) > 0).astype(float))
    counts = Counts(np.diff(cells.indptr), np.bincount(cells.indices, minlength=7))
    steps = HalfSteps(mfrank.IALS(alpha0=0.3), counts, choose("cpu"), EXACT)
    return steps, CSR.from_scipy(cells, np.float64), CSR.from_scipy(sp.csr_array(cells.T), float)


def test_each_row_is_in_one_group() -> None:
    groups = groups_of(9, [np.array([1, 4]), np.array([7])], [[4, 2, 2, 7], [0, 1, 2]])
    assert [group.tolist() for group in groups] == [[1, 4], [7], [2], [0]]


def test_turned_rows_are_the_same_rows_in_the_basis() -> None:
    factors, groups = drawn(6, 4), [np.array([5, 1]), np.array([0]), np.array([3]), np.array([4])]
    table = WorkingTable(factors, np.ones(6), groups, choose("cpu"), 1)
    table.turned(4, basis(1))
    turned = table.turned(3, basis(2))
    np.testing.assert_allclose(turned, factors[[5, 1, 0, 3]] @ basis(2).basis, atol=1e-12)
    table.write(factors_out := np.full_like(factors, np.nan))
    np.testing.assert_allclose(factors_out[[5, 1, 0]], factors[[5, 1, 0]], atol=1e-12)
    assert np.isnan(factors_out[[2, 3, 4]]).all()  # rows that were only read are not written


@pytest.mark.parametrize("beyond", [0.0, 0.3])
def test_solved_rows_their_gram_matrix_and_the_objective(beyond: float) -> None:
    """Beyond b, rows are at (1 + b) times the way; 1 - b^2 of the descent is left."""
    steps, users, items = half_steps()
    user_factors, item_factors = drawn(5, 3, seed=1), drawn(7, 3, seed=2)
    problems = steps.user_problem(users), steps.item_problem(items)

    def value(factors: Any) -> float:
        return steps.value(*problems, user_factors, factors)

    def solved(share: float) -> NDArray[Any]:
        groups = [np.arange(7), np.arange(0), np.arange(0), np.arange(0)]
        table = WorkingTable(item_factors, steps.item_weights, groups, steps.backend, 1)
        table.turned(1, basis(3, 3))
        at = steps.items_basis(user_factors)
        turned = np.ascontiguousarray(user_factors @ at.basis)
        table.solve(0, problems[1], turned, at, EXACT, None, share)
        table.write(out := item_factors.copy())
        np.testing.assert_allclose(table.gram.matrix, steps.item_gram(out).matrix, atol=1e-10)
        np.testing.assert_allclose(table.gram.vector, steps.item_gram(out).vector, atol=1e-10)
        return out

    exact, found = solved(0.0), solved(beyond)
    np.testing.assert_allclose(found, exact + beyond * (exact - item_factors), atol=1e-10)
    descent = value(item_factors) - value(exact)
    assert value(item_factors) - value(found) == pytest.approx((1 - beyond**2) * descent)


def test_what_goes_beyond_starts_from_the_solution_before() -> None:
    """Not from where the step before went; bases and what is turned meanwhile change nothing."""
    steps, _, items = half_steps()
    problem = steps.item_problem(items)
    begin, users = drawn(7, 3, seed=2), [drawn(5, 3, seed=seed) for seed in (3, 4, 5)]
    groups = [np.arange(7), np.arange(0), np.arange(0), np.arange(0)]

    def after(n: int, beyond: float) -> NDArray[Any]:
        table = WorkingTable(begin, steps.item_weights, groups, steps.backend, 1)
        for factors in users[:n]:
            at = steps.items_basis(factors)
            turned = np.ascontiguousarray(factors @ at.basis)
            table.solve(0, problem, turned, at, EXACT, None, beyond)
            table.turned(1, basis(6, 3))
        table.write(out := begin.copy())
        return out

    solutions = [begin, *(after(n, 0.0) for n in (1, 2, 3))]
    for n in (1, 2, 3):
        wanted = solutions[n] + 0.5 * (solutions[n] - solutions[n - 1])
        np.testing.assert_allclose(after(n, 0.5), wanted, atol=1e-10)


def test_iterations_begin_at_the_rows_as_they_are() -> None:
    """Where these are the solution, whatever their basis, a step of conjugate gradients stays."""
    steps, _, items = half_steps()
    problem = steps.item_problem(items)
    begin, users = drawn(7, 3, seed=2), drawn(5, 3, seed=3)
    groups = [np.arange(7), np.arange(0), np.arange(0), np.arange(0)]
    table = WorkingTable(begin, steps.item_weights, groups, steps.backend, 1)
    at = steps.items_basis(users)
    turned = np.ascontiguousarray(users @ at.basis)
    found = []
    for options in (EXACT, SolveOptions("cg", cg_steps=1, n_threads=1)):
        table.turned(1, basis(6, 3))
        table.solve(0, problem, turned, at, options, None, 0.0)
        table.write(out := begin.copy())
        found.append(out)
    np.testing.assert_allclose(found[1], found[0], atol=1e-9)

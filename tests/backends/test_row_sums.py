"""Long rows by sums over ranges of columns: the sums are the equation's, and the bits a solve's."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from problems import solve_plainly

from mfrank.als import Eigenbasis
from mfrank.arrays import CSR
from mfrank.backends import (
    CellTerm,
    ObservedLoss,
    RowProblem,
    Shared,
    SolveOptions,
    Solver,
    cpu,
    reference,
)
from mfrank.backends.sharded import range_of, route

if reason := cpu.why_unavailable():
    pytest.skip(reason, allow_module_level=True)

from mfrank import _ext

SUMS = cpu.SUMS
assert SUMS is not None
COLUMNS, LENGTH = 45_000, 33_000


def problem(dtype: str, n_rows: int = 2, ridge: float = 0.1, *, curved: bool = True) -> RowProblem:
    """Items with 33,000 of 45,000 users, whose weights differ, and some of whom dislike them."""
    rng = np.random.default_rng(0)
    columns = [np.sort(rng.permutation(COLUMNS)[:LENGTH]) for _ in range(n_rows)]
    data = rng.choice([-1.0, 1.0, 2.0], n_rows * LENGTH, p=[0.1, 0.6, 0.3]).astype(dtype)
    rows = CSR(
        np.arange(n_rows + 1) * LENGTH, np.concatenate(columns).astype(np.int32), data, COLUMNS
    )
    curvature, pull = (CellTerm(rng.uniform(0.5, 2, COLUMNS), 0.5) for _ in range(2))
    none = CellTerm(np.zeros(COLUMNS))
    observed = ObservedLoss(curvature if curved else none, pull, none)
    return RowProblem(rows, np.full(n_rows, 0.3), np.full(n_rows, ridge), observed, False)


def factors(n_factors: int, dtype: str) -> NDArray[Any]:
    return np.random.default_rng(1).standard_normal((COLUMNS, n_factors)).astype(dtype)


def in_own_basis(fixed: NDArray[Any]) -> tuple[NDArray[Any], Eigenbasis]:
    at = Eigenbasis.of(reference.gram(fixed, np.ones(len(fixed))))
    turned = np.empty_like(fixed)
    at.turn(cpu, fixed, turned)
    return turned, at


def by_ranges(of: RowProblem, fixed: NDArray[Any]) -> NDArray[Any]:
    """The sums of all rows, as workers take them: each with the columns of its range alone."""
    total: NDArray[Any] = np.array(0, fixed.dtype)
    which = np.arange(of.rows.n_rows)
    for begin, end in pairwise(SUMS.column_ranges(COLUMNS).tolist()):
        block = route(range_of(of.rows, which, begin, end))
        part = block.rows(len(block.touched), values=True)
        observed = of.observed.of_users(block.touched)
        there = RowProblem(part, of.weight, of.ridge, observed, False)
        total = total + SUMS.sum_rows(there, fixed[block.touched], curved=of.curved)
    return total


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_factors", [1, 7, 16])
@pytest.mark.parametrize("curved", [True, False])
def test_solved_from_sums_over_ranges_is_solved_to_the_bit(
    dtype: str, n_factors: int, curved: bool
) -> None:
    of = problem(dtype, curved=curved)
    fixed, at = in_own_basis(factors(n_factors, dtype))
    prior = factors(n_factors, dtype)[:2]
    options = SolveOptions("auto", n_threads=2)
    alone, there = np.zeros((2, 2, n_factors), dtype)
    gain, known = cpu.solve_rows(of, fixed, at.shared, alone, options, prior=prior), np.zeros(2)
    which, sums, start = np.arange(2), by_ranges(of, fixed), there.copy()
    SUMS.solve_summed(of, which, sums, fixed, at.shared, there, known, options, start, prior=prior)
    np.testing.assert_array_equal(there, alone)
    np.testing.assert_array_equal(known, gain)
    exact = np.zeros((2, n_factors))
    reference.solve_rows(of, fixed, at.shared, exact, options, prior=prior)
    np.testing.assert_allclose(there, exact, rtol=100 * cpu.TOLERANCE[dtype])


@pytest.mark.parametrize("solver", ["auto", "cholesky"])
@pytest.mark.parametrize("spread", [1e9, 1e20])
def test_rows_that_float32_cannot_solve_have_the_bits_of_a_solve_too(
    spread: float, solver: Solver
) -> None:
    """By float64; at last, by least squares. ``auto`` iterates."""
    of = problem("float32", ridge=0.0)
    fixed = factors(3, "float32")
    fixed[:, 0] = 0 if spread == 1e20 else fixed[:, 0] * 1e-4
    shared = Shared(np.array([0.0 if spread == 1e20 else 1 / spread, 1, 1]), np.zeros(3))
    alone, there = np.zeros((2, 2, 3), np.float32)
    options, turn = SolveOptions(solver, cg_steps=20), np.eye(3)[::-1]
    start, which, sums = factors(3, "float32")[:2], np.arange(2), by_ranges(of, fixed)
    gain, known = cpu.solve_rows(of, fixed, shared, alone, options, start, turn), np.zeros(2)
    SUMS.solve_summed(of, which, sums, fixed, shared, there, known, options, start, turn)
    np.testing.assert_array_equal(there, alone)
    np.testing.assert_array_equal(known, gain)
    exact = np.zeros((2, 3))
    reference.solve_rows(of, fixed, shared, exact, options)
    np.testing.assert_allclose(there, exact, rtol=1e-3, atol=1e-6)


def test_what_float32_cannot_sum_is_iterated_on_where_that_is_allowed() -> None:
    of, fixed = problem("float32", ridge=0.0), factors(4, "float32")
    shared = Shared(np.full(4, 1e-3), np.zeros(4))  # entries weigh 1e8 times as much
    exact, once, often = np.zeros((3, 2, 4), np.float32)
    cpu.solve_rows(of, fixed, shared, exact, SolveOptions("cholesky"))
    cpu.solve_rows(of, fixed, shared, once, SolveOptions("auto", cg_steps=1))
    cpu.solve_rows(of, fixed, shared, often, SolveOptions("auto", cg_steps=30))
    assert np.abs(once - exact).max() > 1e-3 * np.abs(exact).max()
    np.testing.assert_allclose(often, exact, rtol=1e-3)


def test_a_row_that_is_iterated_on_has_the_bits_of_one_alone() -> None:
    """Beside a short one, which is not: each has its own start, prior and solution."""
    two = problem("float32", ridge=1e-6)
    assert two.rows.data is not None
    kept = np.r_[0:3, LENGTH : 2 * LENGTH]  # three entries of the first row
    columns, data = two.rows.indices[kept], two.rows.data[kept]
    rows = CSR(np.array([0, 3, 3 + LENGTH]), columns, data, COLUMNS)
    both, fixed = replace(two, rows=rows), factors(4, "float32")
    shared, prior = Shared(np.full(4, 1e-3), np.zeros(4)), factors(4, "float32")[:2]

    def solved(of: RowProblem, which: Any, steps: int) -> tuple[NDArray[Any], NDArray[Any]]:
        out, options = np.zeros((len(which), 4), np.float32), SolveOptions("auto", cg_steps=steps)
        return out, cpu.solve_rows(of, fixed, shared, out, options, prior=prior[which])

    together, gains = solved(both, [0, 1], 1)
    for row in (0, 1):
        alone, gain = solved(both.cut(np.array([row])), [row], 1)
        np.testing.assert_array_equal(together[row], alone[0])
        assert gains[row] == gain[0]
    further = solved(both, [0, 1], 30)[0][1]
    assert np.abs(further - together[1]).max() > 1e-3 * np.abs(further).max()


def test_columns_in_any_order_are_all_summed() -> None:
    ordered, n = problem("float64", n_rows=1), LENGTH
    turned = np.random.default_rng(3).permutation(n)
    rows = CSR(
        ordered.rows.indptr,
        ordered.rows.indices[turned],
        None if ordered.rows.data is None else ordered.rows.data[turned],
        COLUMNS,
    )
    of = RowProblem(rows, ordered.weight, ordered.ridge, ordered.observed, False)
    fixed = factors(5, "float64")
    gram = reference.gram(fixed, np.ones(COLUMNS))
    turned_fixed, at = in_own_basis(fixed)
    out = np.zeros((1, 5))
    cpu.solve_rows(of, turned_fixed, at.shared, out, SolveOptions("cholesky"))
    np.testing.assert_allclose(out, solve_plainly(ordered, fixed, gram) @ at.basis, rtol=1e-7)


@pytest.mark.parametrize("n_columns", [0, 1, 15, 16, 17, 1000, 2**24, 2**24 + 1, 10**8])
def test_ranges_cover_all_columns_and_none_is_wide(n_columns: int) -> None:
    bounds = SUMS.column_ranges(n_columns)
    assert bounds[0] == 0
    assert bounds[-1] == n_columns
    widths = np.diff(bounds)
    assert widths.min() >= 0
    assert widths.max() - widths.min() <= 1
    assert widths.max() <= 2**20


def test_iterations_are_left_to_blocks_unless_a_row_is_larger_than_any() -> None:
    def summed_from(n_factors: int, *, curved: bool = True, solver: Solver = "auto") -> int:
        return SUMS.summed_from(
            n_factors, np.dtype(np.float32), SolveOptions(solver), curved=curved
        )

    assert summed_from(64, solver="cholesky") == summed_from(512, solver="cholesky") == 2**15
    assert summed_from(64, solver="cg") > 2**60
    assert summed_from(64, solver="cg", curved=False) == 2**15  # nothing is iterated
    assert summed_from(128) == 2**17
    assert summed_from(512) == 2**22


def test_sums_of_another_size_are_refused() -> None:
    given: dict[str, Any] = {
        "curved": True,
        "weight": np.ones(2),
        "ridge": np.ones(2),
        "fixed": np.ones((4, 3), np.float32),
        "eigenvalues": np.ones(3),
        "vector": np.zeros(3),
        "out": np.zeros((2, 3), np.float32),
        "gain": np.zeros(2),
        "n_threads": 1,
    }
    with pytest.raises(ValueError, match=r"sums must have .* columns, got 5"):
        _ext.solve_summed(sums=np.zeros((2, 5), np.float32), **given)
    with pytest.raises(TypeError, match="sums must be an array of float32"):
        _ext.solve_summed(sums=np.zeros((2, 5)), **given)

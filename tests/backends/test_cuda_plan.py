"""Which solver of the CUDA backend each row of a half-step gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import test_backends as contract
from emulated_gpu import Launched
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from problems import iterate_plainly, rows_of, solve_plainly, solve_turned

import mfrank
from mfrank import backends
from mfrank.arrays import CSR
from mfrank.backends import Shared, SolveOptions, reference
from mfrank.backends.cuda.blocks import Block
from mfrank.backends.cuda.plan import HEAVY, LONG, Group, RowPlan, plan, steps_worth

COUNTS = st.one_of(
    st.integers(0, 70),
    st.sampled_from([127, 128, 129, 255, 256, 257, HEAVY, HEAVY + 1, LONG, LONG + 1, 5000]),
)


def block(counts: list[int], kinds: list[int]) -> Block:
    """Rows of so many entries, of which the plan reads nothing else."""
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    owner, nothing = CSR(indptr, np.empty(0, np.int32), None, 1), np.empty(0)
    sizes, bits = np.array(counts, np.int64), np.array(kinds, np.uint8)
    given = owner, slice(0, len(counts)), sizes, None, None, 0, nothing, nothing, bits
    return Block(*given, nothing, nothing)


def groups_of(made: RowPlan) -> dict[int, Group]:
    """The group of each row, of which it has one."""
    rows = [(int(row), group) for group in made.groups for row in group.rows]
    found = dict(rows)
    assert len(found) == len(rows)
    return found


def check_exact(group: Group, count: int, k: int, *, is_negative: bool) -> None:
    """By the smaller of two matrices; that of the entries needs curvature of one sign."""
    by_entries = count <= k and not is_negative
    if by_entries and count <= 32:
        assert (group.way, group.size) == ("short", 8 if count <= 8 else 16 if count <= 16 else 32)
    elif by_entries:
        assert (group.way, group.size) == ("dual", -(-count // 64) * 64)
    else:
        assert group.way == ("heavy" if count > HEAVY else "primal")
        assert group.size == (32 if k <= 32 else -(-k // 64) * 64)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(COUNTS, st.integers(0, 7)), max_size=40),
    st.sampled_from([1, 31, 32, 33, 64, 65, 200, 2100]),
    st.sampled_from(["auto", "cg", "cholesky"]),
    st.integers(1, 60),
)
@example([(n, 1) for n in (31, 32, 33, 63, 64, 65)], 33, "cholesky", 3)
@example([(n, 1) for n in (31, 32, 33, 63, 64, 65)], 64, "cholesky", 3)
@example([(n, 1) for n in (40, 70, 130, 140, 195)], 200, "cholesky", 3)
@example([(48, 1)], 48, "auto", 7)  # of which 8 steps are worth as much
@example([(32, 1)], 200, "auto", 1)
@example([(31, 1)], 31, "auto", 1)
def test_each_row_gets_one_solver_that_suits_it(
    rows: list[tuple[int, int]], k: int, solver: Any, cg_steps: int
) -> None:
    counts, kinds = [count for count, _ in rows], [kind for _, kind in rows]
    made = plan(block(counts, kinds), k, SolveOptions(solver, cg_steps=cg_steps))
    found = groups_of(made)
    assert sorted(found) == list(range(len(rows)))
    for row, group in found.items():
        count, has_curvature = counts[row], bool(kinds[row] & 1)
        is_iterated = group.way in ("iterate", "long")
        if not has_curvature:
            assert group.way == ("diagonal-long" if count > LONG else "diagonal")
        elif is_iterated:
            assert solver != "cholesky"
            assert (group.way == "long") is (count > LONG)
            if group.way == "iterate":
                assert group.size == 64 if count <= 64 else 128 if count <= 128 else 256
        else:
            assert solver != "cg"
            check_exact(group, count, k, is_negative=bool(kinds[row] & 2))
        if has_curvature and solver == "auto":
            worth = float(steps_worth(np.array([count]), k)[0])
            assert is_iterated is (cg_steps + 1 < worth and count > min(32, k))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(COUNTS, st.integers(0, 7)), max_size=40),
    st.sampled_from([32, 65, 2100]),
    st.sampled_from(["auto", "cg", "cholesky"]),
)
@example([(n, 1) for n in (40, 70, 130, 140, 195)], 200, "cholesky")
def test_long_rows_come_first(rows: list[tuple[int, int]], k: int, solver: Any) -> None:
    """So that none is the last to end; and what iterates comes before all else, with its start."""
    counts, kinds = np.array([c for c, _ in rows]), np.array([kind for _, kind in rows])
    made = plan(block(counts.tolist(), kinds.tolist()), k, SolveOptions(solver))
    iterating = [group for group in made.groups if group.way in ("iterate", "long")]
    assert made.groups[: len(iterating)] == iterating
    assert made.iterated.tolist() == [row for group in iterating for row in group.rows]
    sizes: dict[str, list[int]] = {}
    for group in made.groups:
        assert len(group.rows)
        assert group.rows.dtype == np.int32
        sizes.setdefault(group.way, []).append(group.size)
        if group.way in ("iterate", "short", "primal", "heavy"):
            assert (np.diff(counts[group.rows]) <= 0).all()
        if group.way in ("iterate", "short", "dual"):  # others look themselves
            assert group.flat is bool((kinds[group.rows] & 4).any())
    assert all(found == sorted({*found}, reverse=True) for found in sizes.values())


@pytest.mark.parametrize("n", [1, 10, 90, 400])
def test_an_exact_solution_is_worth_so_many_steps(n: int) -> None:
    """A matrix of entries or of factors is made and solved; a step reads the factors twice."""
    k = 100
    of_entries = n * n * k / 2 + n**3 / 6
    of_factors = k * k * n / 2 + k**3 / 6
    worth = steps_worth(np.array([n]), k)
    np.testing.assert_allclose(worth, min(of_entries, of_factors) / (2 * (2 * n * k)))
    assert steps_worth(np.array([0]), k) == steps_worth(np.array([1]), k)


def test_a_plan_is_kept_while_the_rows_are_of_the_same_kinds() -> None:
    counts, kinds = [50, 40, 3], [1, 1, 1]
    rows, options = block(counts, kinds), SolveOptions("cholesky")
    first = plan(rows, 100, options)
    assert plan(rows, 100, options) is first
    same = replace(rows, kinds=rows.kinds.copy())  # as every epoch has them anew
    assert plan(same, 100, options) is first
    others = replace(rows, kinds=np.array([1, 3, 0], np.uint8))
    ways = {row: group.way for row, group in groups_of(plan(others, 100, options)).items()}
    assert ways == {0: "dual", 1: "primal", 2: "diagonal"}
    assert groups_of(plan(rows, 100, options))[1].way == "dual"
    for k, asked in ((30, options), (100, SolveOptions("cg")), (100, replace(options, cg_steps=9))):
        assert plan(rows, k, asked) is not plan(rows, 100, options)


def test_part_of_the_rows_have_a_plan_of_their_own() -> None:
    rows: NDArray[np.int64] = np.array([50, 40, 3])
    whole = block(rows.tolist(), [1, 1, 1])
    options = SolveOptions("cholesky")
    assert len(groups_of(plan(whole, 100, options))) == 3
    for part in (slice(0, 2), slice(1, 3)):
        few = replace(whole, rows=part, counts=rows[part], kinds=whole.kinds[part])
        assert sorted(groups_of(plan(few, 100, options))) == [0, 1]
        ways = [groups_of(plan(few, 100, options))[row].way for row in (0, 1)]
        assert ways == ["dual", "dual" if part.start == 0 else "short"]


def test_rows_iterate_as_long_as_an_exact_solution_would_take(
    backend: backends.Backend, launched: list[Launched]
) -> None:
    """To a tolerance, however few steps are asked for; without one, as many as are asked for."""
    step = contract.half_step(mfrank.WRMF(alpha=2.0), rows_of([150] * 3), "users", 100, "float32")
    step.solve(backend, solver="cg", cg_steps=1, cg_tolerance=1e-3)
    kernels = {one.kernel for one in launched}
    assert "iterate" in kernels
    assert not kernels & {"solve_dual", "solve_primal"}
    got = step.solve(backend, solver="cg", cg_steps=1)
    wanted = iterate_plainly(step.problem, step.fixed, step.gram, step.start(), 1)
    np.testing.assert_allclose(got, wanted, atol=1e-4)


def bare(n_factors: int) -> contract.HalfStep:
    """Rows without ridges, shorter and longer than they have factors."""
    step = contract.half_step(mfrank.IALS(), rows_of([3, 20, 50]), "users", n_factors, "float32")
    step.problem = replace(step.problem, ridge=0 * step.problem.ridge)
    return step


@pytest.mark.parametrize("n_null", [0, 1, 2])
def test_directions_in_which_nothing_is_need_no_other_dtype(
    backend: backends.Backend, launched: list[Launched], n_null: int
) -> None:
    """However small their weight is beside that of others."""
    step = bare(6)
    step.fixed[:, :n_null] = 0
    shared = Shared(np.array([0.0] * n_null + [2.0 + j for j in range(n_null, 6)]), np.zeros(6))
    found, wanted = (np.zeros((3, 6), np.float32) for _ in range(2))
    options = SolveOptions("cholesky")
    backend.solve_rows(step.problem, step.fixed, shared, found, options)
    reference.solve_rows(step.problem, step.fixed, shared, wanted, options)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert launched


@pytest.mark.parametrize("n_null", [1, 2])
def test_directions_without_weight_in_which_factors_are_count(
    backend: backends.Backend, n_null: int
) -> None:
    step = bare(6)
    shared = Shared(np.array([0.0] * n_null + [2.0 + j for j in range(n_null, 6)]), np.zeros(6))
    found, wanted = (np.zeros((3, 6), np.float32) for _ in range(2))
    options = SolveOptions("cholesky")
    backend.solve_rows(step.problem, step.fixed, shared, found, options)
    reference.solve_rows(step.problem, step.fixed, shared, wanted, options)
    assert np.abs(wanted[:, :n_null]).min() > 1e-3
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_rows_that_overflow_are_solved_exactly(backend: backends.Backend) -> None:
    """In float64, where their iterations in float32 end in nothing."""
    step = contract.half_step(mfrank.WRMF(alpha=9.0), rows_of([60, 40, 90]), "users", 30, "float32")
    found = {}
    for solver in ("cg", "cholesky"):
        out, options = np.zeros_like(step.start()), SolveOptions(solver, cg_steps=1)
        shared = Shared(np.full(30, 1e40), np.zeros(30))
        backend.solve_rows(step.problem, 1e20 * step.fixed, shared, out, options)
        found[solver] = out
    assert found["cg"].any()
    np.testing.assert_array_equal(found["cg"], found["cholesky"])


@pytest.mark.parametrize(("n_factors", "kernel"), [(100, "solve_dual"), (40, "solve_primal")])
def test_rows_that_do_not_reach_the_tolerance_are_solved_exactly(
    backend: backends.Backend, launched: list[Launched], n_factors: int, kernel: str
) -> None:
    """In their dtype, and they alone; rows that are near already are left at their start."""
    matrix = rows_of([90, 80, 70, 60])
    step = contract.half_step(mfrank.WRMF(alpha=9.0), matrix, "users", n_factors, "float64")
    system = step.problem, step.fixed, step.gram
    start = solve_plainly(*system)
    start[[1, 3]] = step.start()[[1, 3]]
    found = solve_turned(backend, *system, start, solver="cg", cg_steps=1, cg_tolerance=1e-12)
    assert step.error(found) <= backend.TOLERANCE["float64"]
    exact = [one for one in launched if one.kernel == kernel]
    assert sorted(row for one in exact for row in one.args[0].get().tolist()) == [1, 3]

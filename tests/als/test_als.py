"""The ALS engine: monotone, interruptible, and nothing but its half-steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from problems import OBJECTIVES, solve_plainly, stated_loss, toy

import mfrank
from mfrank.als import (
    HalfSteps,
    OnHalfStep,
    QuadraticObjective,
    als,
    engine,
    half_steps,
    random_factors,
    refuse_dislikes,
)
from mfrank.arrays import CSR
from mfrank.backends import Gram, SolveOptions, choose, reference
from mfrank.data import Counts
from mfrank.store import Step
from tests.support.errors import refuses


def run(
    objective: QuadraticObjective,
    matrix: sp.csr_array,
    iterations: int = 4,
    backend: object = reference,
    dtype: str = "float64",
    factors: tuple[np.ndarray, np.ndarray] | None = None,
    track_objective: bool = True,
    watch: OnHalfStep | None = None,
    **options: object,
) -> Iterator[Step]:
    users, items = matrix.shape
    counts = Counts(np.diff(matrix.indptr), np.bincount(matrix.indices, minlength=items))
    steps = HalfSteps(objective, counts, backend, SolveOptions(**options))  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    return als(
        CSR.from_scipy(matrix, dtype),
        CSR.from_scipy(sp.csr_array(matrix.T), dtype),
        steps,
        *(factors or [random_factors((n, 4), rng, dtype) for n in (users, items)]),
        iterations=iterations,
        track_objective=track_objective,
        watch=watch,
    )


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objective_never_rises(name: str) -> None:
    values = [step.objective for step in run(OBJECTIVES[name], toy(20, 15), iterations=6)]
    assert all(b <= a + 1e-9 * abs(a) for a, b in pairwise(values))


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("solver", ["auto", "cholesky", "cg"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_default_backend_follows_the_reference(name: str, solver: str, dtype: str) -> None:
    matrix = toy(20, 15)
    exact = list(run(OBJECTIVES[name], matrix))
    options = {"solver": solver, "cg_steps": 50, "cg_tolerance": 1e-10}
    fast = list(run(OBJECTIVES[name], matrix, backend=choose(), dtype=dtype, **options))
    # Momentum's steps are rounded to half of the bytes, so that float32 takes slightly others.
    tolerance, apart = (1e-3, 4e-3) if dtype == "float32" else (1e-7, 1e-6)
    for a, b in zip(exact, fast, strict=True):
        assert b.objective == pytest.approx(a.objective, rel=tolerance)
        assert b.user_factors.dtype == dtype
        np.testing.assert_allclose(
            b.user_factors @ b.item_factors.T, a.user_factors @ a.item_factors.T, atol=apart
        )


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@pytest.mark.parametrize("shape", [(20, 15), (6, 4)], ids=str)
def test_half_steps_end_where_the_stated_loss_has_no_slope(
    name: str, solver: str, shape: tuple[int, int]
) -> None:
    """The loss is quadratic in either side, so that any step tells its slope exactly."""
    matrix, objective = toy(*shape), OBJECTIVES[name]
    counts = Counts(np.diff(matrix.indptr), np.bincount(matrix.indices, minlength=shape[1]))
    options = SolveOptions(solver=solver, cg_steps=50, cg_tolerance=1e-12)
    steps = HalfSteps(objective, counts, choose(), options)
    users = objective.user_problem(CSR.from_scipy(matrix, "f8"), counts)
    items = objective.item_problem(CSR.from_scipy(sp.csr_array(matrix.T), "f8"), counts)
    rng = np.random.default_rng(0)
    p, q = (rng.normal(size=(n, 4)) for n in shape)
    loss = stated_loss(objective, matrix.toarray())

    def slope(at: Callable[[np.ndarray], float], point: np.ndarray) -> float:
        along = rng.normal(size=point.shape)
        up, down = at(point + along), at(point - along)
        return abs(up - down) / (up + down - 2 * at(point))

    p, q, _ = steps.solve_items(items, p, q)
    assert slope(lambda items: loss(p, items), q) <= 1e-7
    steps.solve_users(users, q, p)
    assert slope(lambda users: loss(users, q), p) <= 1e-7


def test_user_factors_answer_the_item_factors_beside_them() -> None:
    matrix = toy()
    objective = mfrank.RG2()
    *_, last = run(objective, matrix)
    counts = Counts(np.diff(matrix.indptr), np.bincount(matrix.indices, minlength=7))
    steps = HalfSteps(objective, counts, reference, SolveOptions())  # type: ignore[arg-type]
    problem = objective.user_problem(CSR.from_scipy(matrix, "f8"), counts)
    gram = steps.item_gram(last.item_factors)
    shared = Gram(gram.matrix, objective.target * gram.vector)
    again = solve_plainly(problem, last.item_factors, shared)
    np.testing.assert_allclose(again, last.user_factors, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_the_objective_tracked_is_the_objective(name: str, solver: str) -> None:
    """It is put together from the half-steps' gains; term by term it is the same."""
    matrix, objective = toy(20, 15), OBJECTIVES[name]
    counts = Counts(np.diff(matrix.indptr), np.bincount(matrix.indices, minlength=15))
    steps = HalfSteps(objective, counts, choose(), SolveOptions())
    users = objective.user_problem(CSR.from_scipy(matrix, "f8"), counts)
    items = objective.item_problem(CSR.from_scipy(sp.csr_array(matrix.T), "f8"), counts)
    for step in run(objective, matrix, backend=choose(), solver=solver):
        value = steps.value(users, items, step.user_factors, step.item_factors)
        assert step.objective == pytest.approx(value, rel=1e-9)


def test_the_objective_tracked_counts_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [step.objective for step in run(mfrank.WRMF(), toy(20, 15))]
    monkeypatch.setattr(half_steps, "_ROWS_AT_ONCE", 4)
    in_parts = [step.objective for step in run(mfrank.WRMF(), toy(20, 15))]
    np.testing.assert_allclose(in_parts, whole, rtol=1e-12)


def test_the_objective_tracked_is_that_of_dislikes_too() -> None:
    matrix, objective = toy(20, 15, values="dislikes"), mfrank.WRMF(alpha=2.0)
    *_, last = run(objective, matrix)
    stated = stated_loss(objective, matrix.toarray())(last.user_factors, last.item_factors)
    assert last.objective == pytest.approx(stated, rel=1e-9)


def test_the_objective_is_tracked_only_where_asked_for() -> None:
    steps = list(run(mfrank.WRMF(), toy(), track_objective=False))
    assert [step.objective for step in steps] == [None] * 4


def test_whoever_watches_takes_no_time_of_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where momentum begins anew, and a user step is done again."""
    now, seen = 0.0, []

    def clock() -> float:
        nonlocal now
        now += 1
        return now

    def watch(epoch: int, *_: object) -> None:
        nonlocal now
        now += 1000
        seen.append(epoch)

    monkeypatch.setattr(engine, "perf_counter", clock)
    steps = list(run(OBJECTIVES["rg2"], toy(20, 15), iterations=40, watch=watch))
    assert sorted({*seen}) == list(range(41))
    assert len(seen) > 41
    assert all(0 < step.seconds < 100 for step in steps)


@pytest.mark.parametrize("name", ["wrmf", "ials", "rgx"])
def test_iterations_start_from_the_last_epoch(name: str) -> None:
    """Where that is the solution, one step of conjugate gradients stays there."""
    matrix, objective = toy(20, 15), OBJECTIVES[name]
    *_, exact = run(objective, matrix, iterations=400)
    going_on = run(
        objective,
        matrix,
        iterations=2,
        factors=(exact.user_factors, exact.item_factors),
        solver="cg",
        cg_steps=1,
    )
    scores = exact.user_factors @ exact.item_factors.T
    for step in going_on:
        np.testing.assert_allclose(step.user_factors @ step.item_factors.T, scores, atol=1e-4)


def test_an_exception_leaves_the_last_complete_epoch() -> None:
    calls = 0

    def interrupted(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        gain = reference.solve_rows(*arguments, **more)
        if calls == 7:  # the user step of the third epoch has written its output
            raise KeyboardInterrupt
        return gain

    backend = SimpleNamespace(**vars(reference) | {"solve_rows": interrupted})
    undisturbed = list(run(mfrank.IALS(), toy(), iterations=2))
    seen = []
    with pytest.raises(KeyboardInterrupt):
        seen.extend(run(mfrank.IALS(), toy(), backend=backend))
    # extend() keeps what it got before the exception.
    assert [step.epoch for step in seen] == [1, 2]
    for a, b in zip(seen, undisturbed, strict=True):
        np.testing.assert_array_equal(a.user_factors, b.user_factors)
        np.testing.assert_array_equal(a.item_factors, b.item_factors)


def test_empty_users_get_zero_factors() -> None:
    *_, last = run(mfrank.RG2(), toy())
    assert not last.user_factors[9 // 2].any()
    *_, last = run(mfrank.WRMF(), toy())
    assert not last.user_factors[9 // 2].any()
    assert not last.item_factors[7 // 3].any()


def test_unseen_items_are_pushed_to_the_background_target_by_rg2() -> None:
    """A zero vector would score 0, above nearly every unobserved cell, whose target is -1."""
    *_, last = run(mfrank.RG2(alpha=0.0, regularization=1e-3), toy(), iterations=10)
    scores = last.user_factors @ last.item_factors.T
    seen_users = toy().toarray().any(1)
    assert (scores[seen_users, 7 // 3] < -0.5).all()


def test_dislikes_are_refused_where_they_mean_nothing() -> None:
    values = toy(values="dislikes").data
    refuse_dislikes(mfrank.WRMF(), values)
    refuse_dislikes(mfrank.RG2(), np.array([0.0, 0.5, 2.0]))
    with refuses(ValueError, "user_items", remedy="Drop them"):
        refuse_dislikes(mfrank.RG2(), np.array([-1.0, 0.0, 0.5, -3.0]))


@pytest.mark.parametrize("width", range(24, 68, 4))
def test_rows_of_any_length_have_the_same_bits_in_any_company(width: int) -> None:
    """Rows of middle lengths may be iterated on, each from its own start, whoever solves it."""
    rng = np.random.default_rng(width)
    users = np.repeat(np.arange(300), rng.permutation(np.repeat(np.arange(1, 101), 3)))
    items = np.concatenate([rng.choice(120, n, replace=False) for n in np.bincount(users)])
    data = mfrank.Interactions.from_arrays(users, items)
    options = {"factors": width, "iterations": 2, "random_state": 0}
    first, *others = (mfrank.ALS(**options, n_threads=n).fit(data) for n in (1, 2, 3, 2))
    for other in others:
        np.testing.assert_array_equal(other.user_factors, first.user_factors)
        np.testing.assert_array_equal(other.item_factors, first.item_factors)

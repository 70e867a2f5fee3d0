"""Rows whose ridge pulls to a prior, as features and biases need: every backend's, and its fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from problems import OBJECTIVES, toy

import mfrank
from mfrank.arrays import CSR
from mfrank.backends import CellTerm, ObservedLoss, RowProblem, Shared, SolveOptions, choose
from mfrank.backends.cuda import plan
from mfrank.backends.cuda import rows as solvers
from mfrank.store import weights_of

LENGTHS = [0, 1, 2, 5, 9, 20, 30, 60, 90, 150, 0, 3]
N_COLUMNS = 200


def step(dtype: str, width: int, curvature: float, vector: float) -> tuple[Any, ...]:
    """Short, long and empty rows, fixed factors, what rows share, and priors."""
    rng = np.random.default_rng(width)
    columns = [np.sort(rng.choice(N_COLUMNS, n, replace=False)) for n in LENGTHS]
    indptr, n = np.concatenate([[0], np.cumsum(LENGTHS)]), len(LENGTHS)
    rows = CSR(indptr, np.concatenate(columns).astype(np.int32), None, N_COLUMNS)
    terms = (CellTerm(np.full(n, value)) for value in (curvature, 1.3, 0.0))
    problem = RowProblem(
        rows, rng.random(n), rng.random(n) + 0.2, ObservedLoss(*terms), users_are_rows=True
    )
    fixed, prior = (rng.standard_normal((r, width)).astype(dtype) for r in (N_COLUMNS, n))
    shared = Shared(np.linspace(0.1, 9, width), vector * rng.standard_normal(width))
    return problem, fixed, shared, prior


def check(backend: Any, dtype: str, width: int, solver: Any) -> None:
    """With curvature and without; with a shared vector and without."""
    options = SolveOptions(solver, cg_steps=200)
    for curvature, vector in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0)):
        problem, fixed, shared, prior = step(dtype, width, curvature, vector)
        solved, gains = [], []
        for each in (choose("reference"), backend):
            out = np.zeros((len(LENGTHS), width), dtype)
            gains.append(each.solve_rows(problem, fixed, shared, out, options, prior=prior))
            solved.append(out)
        tolerance = 2e-4 if dtype == "float32" else 1e-8
        np.testing.assert_allclose(solved[1], solved[0], rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(gains[1], gains[0], rtol=tolerance)


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_long_rows_of_a_gpu_are_too(
    device: Any, monkeypatch: pytest.MonkeyPatch, solver: Any
) -> None:
    """Those whose sums are made by many blocks: iterated, diagonal and exact ones."""
    for module, name in ((plan, "LONG"), (plan, "HEAVY"), (solvers, "HEAVY")):
        monkeypatch.setattr(module, name, 40)
    monkeypatch.setattr(plan, "_plans", {})
    check(choose("cuda"), "float64", 33, solver)


def fits(**options: Any) -> tuple[mfrank.ALS, mfrank.ALS]:
    """With and without a GPU, of the same data and features."""
    rng, data = np.random.default_rng(0), toy(40, 30, 0.3)
    known = {"user_features": rng.random((40, 3)), "item_features": rng.random((30, 4))}
    given = {} if options.get("biases") else known
    same = {"factors": 5, "iterations": 3, "random_state": 0, "dtype": "float64"}
    cpu, cuda = (
        mfrank.ALS(track_objective=True, backend=name, **same | options).fit(data, **given)
        for name in ("reference", "cuda")
    )
    return cpu, cuda


@pytest.mark.parametrize("name", ["rg2", "rgx", "wrmf", "eals"])
def test_a_fit_with_features_on_a_gpu_is_the_one_of_the_cpu(device: Any, name: str) -> None:
    """The weights of features stay on the device, too: it refuses to mix with the host's arrays."""
    cpu, cuda = fits(objective=OBJECTIVES[name])
    for one, other in zip(cpu.store.history, cuda.store.history, strict=True):
        assert other["objective"] == pytest.approx(one["objective"], rel=1e-6)
    scores, again = (model.user_factors @ model.item_factors.T for model in (cpu, cuda))
    np.testing.assert_allclose(again, scores, atol=1e-4 * np.abs(scores).max())
    for side in ("user", "item"):
        predicted = [
            weights_of(model.store, side) @ getattr(model, f"{other}_factors").T
            for model in (cpu, cuda)
            for other in ({"user", "item"} - {side})
        ]
        np.testing.assert_allclose(*predicted, atol=1e-4 * np.abs(predicted[0]).max())


@pytest.mark.parametrize("name", ["rg2", "wrmf", "eals"])
def test_a_fit_with_biases_on_a_gpu_is_the_one_of_the_cpu(device: Any, name: str) -> None:
    cpu, cuda = fits(objective=OBJECTIVES[name], biases=True)
    for one, other in zip(cpu.store.history, cuda.store.history, strict=True):
        assert other["objective"] == pytest.approx(one["objective"], rel=1e-9)
    np.testing.assert_allclose(cuda.store.item_biases, cpu.store.item_biases, atol=1e-6)
    np.testing.assert_allclose(cuda.store.user_biases, cpu.store.user_biases, atol=1e-6)


def test_tables_and_entries_of_a_fit_with_biases_stay_on_a_gpu(
    device: Any, went: list[int], came: list[int]
) -> None:
    """What an epoch sends is as long as a side, or the matrix that its rows share."""
    data, sizes = toy(400, 300, 0.1), list[tuple[list[int], list[int]]]()

    def epoch(*_: Any) -> None:
        sizes.append((sorted(went), sorted(came)))
        went.clear()
        came.clear()

    model = mfrank.ALS(factors=8, biases=True, iterations=4, random_state=0, backend="cuda")
    model.fit(data, callback=epoch)
    for sent, returned in sizes[1:]:
        assert max(sent + returned) <= 400

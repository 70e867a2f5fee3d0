"""Items that RGX couples: what its sum leaves open, and how it is found.

Without an observed part, a vector added to all items changes no softmax, only the ridge.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from problems import OBJECTIVES, Dense, toy

import mfrank
from mfrank.als import HalfSteps, coupling
from mfrank.arrays import CSR
from mfrank.backends import RowProblem, SolveOptions, reference
from mfrank.data import Counts

LIKED = sp.random_array((60, 40), density=0.2, random_state=np.random.default_rng(0), format="csr")


def fitted(regularization: float, dtype: str) -> mfrank.ALS:
    model = mfrank.ALS(
        mfrank.RGX(alpha=0.0, regularization=regularization),
        factors=6,
        iterations=15,
        solver="cholesky",
        dtype=dtype,
        random_state=0,
        track_objective=True,
    )
    return model.fit(LIKED.astype(bool).astype(np.float64))


def objective(model: mfrank.ALS) -> float:
    last = model.store.history[-1]["objective"]
    assert last is not None
    return float(last)


@pytest.mark.parametrize("ridge", [1e-10, 1e-4])
def test_with_a_ridge_however_small_items_are_zero_on_average(ridge: float) -> None:
    items = fitted(ridge, "float64").item_factors
    assert np.linalg.norm(items.mean(axis=0)) <= 1e-5 * np.abs(items).max()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_without_a_ridge_rounding_decides_nothing(dtype: str) -> None:
    model, limit = fitted(0.0, dtype), fitted(1e-8, "float64")
    np.testing.assert_allclose(objective(model), objective(limit), rtol=1e-6)
    assert np.abs(model.item_factors).max() <= 2 * np.abs(limit.item_factors).max()


def test_float32_solves_what_it_can_tell_from_rounding() -> None:
    wide, narrow = (objective(fitted(1e-4, dtype)) for dtype in ("float64", "float32"))
    np.testing.assert_allclose(narrow, wide, rtol=1e-6)


def halves(
    objective: mfrank.RGX, matrix: sp.csr_array, n_factors: int, backend: Any, **options: Any
) -> tuple[HalfSteps, RowProblem, Dense, Dense]:
    """Half-steps, the items' systems and factors of both sides to start from."""
    counts = Counts(np.diff(matrix.indptr), np.bincount(matrix.indices, minlength=matrix.shape[1]))
    items = objective.item_problem(CSR.from_scipy(sp.csr_array(matrix.T), "f8"), counts)
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(n, n_factors)) for n in matrix.shape]
    return HalfSteps(objective, counts, backend, SolveOptions(**options)), items, *factors


@pytest.mark.parametrize(
    ("alpha", "n_factors", "most"), [(0.2, 6, 6 + 3), (0.2, 12, 12 + 3), (1e-6, 12, 4 + 3)]
)
def test_conjugate_gradients_of_the_coupling_are_few(
    alpha: float, n_factors: int, most: int
) -> None:
    """At most as many as factors; four where the preconditioner leaves out nearly nothing.

    Beside them items are solved without coupling, at the start, and with the sum that was found.
    """
    calls = []

    class Counting:
        def __getattr__(self, name: str) -> Any:
            calls.append(name)
            return getattr(reference, name)

    steps, items, p, q = halves(mfrank.RGX(alpha=alpha), toy(60, 50), n_factors, Counting())
    steps.solve_items(items, p.copy(), q)
    assert calls.count("solve_rows") <= most


@pytest.mark.parametrize("name", ["rgx", "rgx pure"])
def test_parts_of_the_rows_are_all_of_them_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, items, p, q = halves(OBJECTIVES[name], toy(30, 25), 6, reference)  # type: ignore[arg-type]
    _, whole, _ = steps.solve_items(items, p.copy(), q)
    monkeypatch.setattr(coupling, "_ROWS_AT_ONCE", 7)
    _, in_parts, _ = steps.solve_items(items, p.copy(), q)
    np.testing.assert_array_equal(in_parts, whole)

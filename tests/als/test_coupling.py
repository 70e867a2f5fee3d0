"""RGX without an observed part: a vector added to all items changes no softmax, only the ridge."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank

LIKED = sp.random_array((60, 40), density=0.2, rng=np.random.default_rng(0), format="csr")


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

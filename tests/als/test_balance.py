"""Balancing: the scores stay, and the ridge is the least that they allow."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import mfrank
from mfrank.als import balance
from mfrank.als import starts as spectral
from mfrank.arrays import CSR
from mfrank.backends import CellTerm, ObservedLoss, RowProblem, choose

DATA = mfrank.synthetic(300, 200, 6000, random_state=0)


def with_ridge(ridge: NDArray[np.float64]) -> RowProblem:
    """Rows without entries."""
    n = len(ridge)
    none = CellTerm(np.zeros(n))
    rows = CSR.from_scipy(sp.csr_array((n, 1)))
    return RowProblem(rows, np.zeros(n), ridge, ObservedLoss(none, none, none), users_are_rows=True)


def balanced(
    p: NDArray[np.float64], q: NDArray[np.float64], of_users: object, of_items: object
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """The factors, and their ridge."""
    a, b = (
        np.broadcast_to(np.asarray(r, float), len(f)) for r, f in ((of_users, p), (of_items, q))
    )
    p, q = p.copy(), q.copy()
    balance(with_ridge(a.copy()), with_ridge(b.copy()), p, q, choose("reference"), 1)
    return p, q, float(a @ (p**2).sum(1) + b @ (q**2).sum(1))


@given(st.integers(0, 999), st.integers(1, 6), st.floats(-3, 3), st.floats(-3, 3))
def test_scores_stay_and_the_ridge_is_twice_the_nuclear_norm(
    seed: int, k: int, scale: float, ridge: float
) -> None:
    rng = np.random.default_rng(seed)
    p, q = 10**scale * rng.normal(size=(12, k)), rng.normal(size=(9, k)) @ rng.normal(size=(k, k))
    a, b = 10**ridge * rng.uniform(0.5, 2, 12), rng.uniform(0.5, 2, 9)
    new_p, new_q, value = balanced(p, q, a, b)
    scores = p @ q.T
    np.testing.assert_allclose(new_p @ new_q.T, scores, atol=1e-8 * np.abs(scores).max())
    # The least of |A^(1/2) P M|^2 + |B^(1/2) Q M^-T|^2 over M (Srebro, Rennie & Jaakkola 2005).
    weighted = np.sqrt(a)[:, None] * scores * np.sqrt(b)
    least = 2 * np.linalg.svd(weighted, compute_uv=False).sum()
    assert least * (1 - 1e-9) <= value <= least * (1 + 1e-2)


def test_a_direction_that_one_side_lacks_does_no_harm() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.normal(size=(20, 4)), rng.normal(size=(15, 4))
    p[:, 3] = 0
    q[:, 0] = 0
    new_p, new_q, value = balanced(p, q, 1.0, 1.0)
    np.testing.assert_allclose(new_p @ new_q.T, p @ q.T, atol=1e-8)
    assert value < (p**2).sum() + (q**2).sum()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_more_factors_than_rows_do_no_harm(dtype: str) -> None:
    rng = np.random.default_rng(0)
    p, q = rng.normal(size=(20, 300)).astype(dtype), rng.normal(size=(15, 300)).astype(dtype)
    new_p, new_q, value = balanced(p, q, 1.0, 1.0)
    scores = p @ q.T
    np.testing.assert_allclose(new_p @ new_q.T, scores, atol=2e-3 * np.abs(scores).max())
    least = 2 * np.linalg.svd(scores, compute_uv=False).sum()
    assert least * 0.99 <= value <= least * 1.1


def test_with_a_ridge_on_one_side_alone_the_factors_stay() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.normal(size=(20, 4)), rng.normal(size=(15, 4))
    new_p, new_q, _ = balanced(p, q, 1.0, 0.0)
    np.testing.assert_array_equal(new_p, p)
    np.testing.assert_array_equal(new_q, q)


def test_without_a_ridge_factors_are_balanced_as_under_a_vanishing_one() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.normal(size=(20, 4)), rng.normal(size=(15, 4))
    without, small = balanced(p, q, 0.0, 0.0), balanced(p, q, 1e-100, 1e-100)
    for at_zero, near_zero in zip(without[:2], small[:2], strict=True):
        np.testing.assert_allclose(at_zero, near_zero, rtol=1e-9, atol=1e-12)


def test_without_a_ridge_cosines_tell_who_shares_a_taste() -> None:
    """Two groups of users, each with its own items, all but one of which each user has."""
    n = 256
    mine = (np.arange(n)[:, None] % 2 == np.arange(n) % 2) & ~np.eye(n, dtype=bool)
    model = mfrank.ALS(mfrank.WRMF(regularization=0.0), factors=32, random_state=23)
    model.fit(sp.csr_array(mine.astype(float)))
    everyone = np.arange(n)
    for near, _ in (model.similar_users(everyone, N=9), model.similar_items(everyone, N=9)):
        np.testing.assert_array_equal(near % 2, np.repeat(everyone[:, None] % 2, 9, axis=1))


@pytest.mark.parametrize("biases", [False, True])
def test_a_fit_hardly_depends_on_the_scale_of_its_start(
    biases: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = []
    for length in (0.5, 2.0, 8.0):
        monkeypatch.setattr(spectral, "_LENGTH", length)
        model = mfrank.ALS(
            mfrank.WRMF(alpha=10),
            factors=12,
            iterations=3,
            biases=biases,
            random_state=0,
            track_objective=True,
        ).fit(DATA)
        ends.append(float(model.store.history[-1]["objective"] or 0.0))
    assert max(ends) <= 1.01 * min(ends)

"""An EASE of candidates solves each item's regression on them, and is EASE if they are all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.models import item_regressions as module

WAYS = [False, pytest.param(True, marks=pytest.mark.skipif(module._ext is None, reason="no C++"))]
native_or_not = pytest.mark.parametrize("is_native", WAYS)


def likes_of(seed: int) -> sp.csr_array:
    """All pairs of the 20 items have a user in common."""
    likes = np.random.default_rng(seed).random((60, 20)) < 0.5
    assert (likes.T.astype(int) @ likes).all()
    return sp.csr_array(likes.astype(float))


def rows_of(n_users: int, n_items: int, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    likes = rng.random((n_users, n_items)) < rng.uniform(0.05, 0.7, n_items)
    likes[0, :2] = True
    return sp.csr_array(likes * rng.uniform(0.5, 2.0, likes.shape))


@native_or_not
@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 25),
    st.integers(2, 30),
    st.integers(1, 31),
    st.floats(0.3, 50.0),
    st.sampled_from([0, 1, 7, 100]),
    st.integers(0, 99),
)
def test_each_item_is_regressed_on_those_that_alone_predict_it_best(
    is_native: bool,
    n_users: int,
    n_items: int,
    candidates: int,
    ridge: float,
    common: int,
    seed: int,
) -> None:
    rows = rows_of(n_users, n_items, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "COMMON", common)
        patch.setattr(module, "_is_native", is_native)
        patch.setattr(module, "_AT_ONCE", 4)
        found = module.regressions(rows, ridge, candidates)
    gram = (rows.T @ rows).toarray()
    gains = gram**2 / (gram.diagonal() + ridge)
    np.fill_diagonal(gains, 0)
    for item in range(n_items):
        own = found.indices[found.indptr[item] : found.indptr[item + 1]]
        assert len(own) == min(candidates, np.count_nonzero(gains[item]))
        rest = np.delete(gains[item], own)
        assert gains[item, own].min(initial=np.inf) >= rest.max(initial=0) * (1 - 1e-12)
        matrix = gram[np.ix_(own, own)] + ridge * np.eye(len(own))
        wanted = np.linalg.solve(matrix, gram[own, item])
        np.testing.assert_allclose(found[[item]].toarray()[0, own], wanted, atol=1e-10)


@native_or_not
def test_of_all_others_it_is_ease(is_native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_is_native", is_native)
    likes = likes_of(0)
    exact = mfrank.EASE(3.0, 20).fit(likes).similarity.toarray()
    np.testing.assert_allclose(module.regressions(likes, 3.0, 19).toarray().T, exact, atol=1e-10)
    for candidates in (19, 20, 1000):
        same = mfrank.EASE(3.0, 20, candidates=candidates).fit(likes).similarity.toarray()
        np.testing.assert_array_equal(same, exact)
    fewer = mfrank.EASE(3.0, 20, candidates=18).fit(likes).similarity.toarray()
    assert (np.count_nonzero(fewer, axis=0) <= 18).all()


def test_powers_weigh_users_and_items_as_in_ease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mfrank.EASE, "_is_local", lambda self, n_items: bool(self.candidates))
    likes = likes_of(1)
    exact, local = (
        mfrank.EASE(3.0, 20, 0.4, 0.7, candidates).fit(likes).similarity.toarray()
        for candidates in (None, 19)
    )
    np.testing.assert_allclose(local, exact, atol=1e-10)


@pytest.mark.skipif(module._ext is None, reason="no C++")
def test_any_number_of_threads_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, native = rows_of(200, 90, 2), module._ext
    monkeypatch.setattr(module, "COMMON", 20)
    found = []
    for n_threads in (1, 2, 5):

        def regress(n_threads: int = n_threads, **arguments: Any) -> None:
            native.regress(**{**arguments, "n_threads": n_threads})

        monkeypatch.setattr(module, "_ext", SimpleNamespace(regress=regress))
        found.append(module.regressions(rows, 2.0, 30).data)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_what_it_needs_grows_with_its_candidates_and_not_with_the_square_of_items() -> None:
    needed = mfrank.EASE.bytes_needed
    assert needed(10**6, 10**6, 100) < 4e9 < needed(10**6, 10**6)
    assert needed(10**6, 10**6, 50) < needed(10**6, 10**6, 100)
    assert needed(50, 40, 39) == needed(50, 40)

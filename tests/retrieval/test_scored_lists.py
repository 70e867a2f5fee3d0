"""The best columns of dense rows are those of a stable sort, whatever is equal."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import mfrank
from mfrank.retrieval import _first, scored_lists


@given(
    arrays(np.float64, (4, 9), elements=st.sampled_from([-1.0, 0.0, 0.0, 2.0, np.inf])),
    st.integers(1, 12),
)
def test_ties_are_by_lower_column(order: np.ndarray, n: int) -> None:
    expected, got = np.argsort(order, axis=1, kind="stable")[:, :n], _first(order, n)
    ends = np.isinf(np.take_along_axis(order, expected, axis=1))  # columns that are not listed
    np.testing.assert_array_equal(np.where(ends, -1, got), np.where(ends, -1, expected))
    assert np.isinf(np.take_along_axis(order, got, axis=1)[ends]).all()


@pytest.mark.parametrize("block", [1, 3, 100])
@pytest.mark.parametrize("one_list_for_all", [False, True])
def test_filters_hold_in_every_block(
    block: int, one_list_for_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of weights between items scores some users at a time, whose filters go along."""
    n_users, n_items = 8, 12
    rng = np.random.default_rng(0)
    cells = rng.random((n_users, n_items)) < 0.3
    cells |= np.arange(n_items) % n_users == np.arange(n_users)[:, None]  # nobody has nothing
    data = mfrank.Interactions.from_sparse(sp.csr_array(cells))
    model = mfrank.EASE(1.0).fit(data)
    scores = model.score(*(side.ravel() for side in np.indices((n_users, n_items))))
    scores = scores.reshape(n_users, n_items)
    monkeypatch.setattr(scored_lists, "_CELLS_AT_ONCE", block * n_items)
    for name, holds in (("items", True), ("filter_items", False)):
        lists = [rng.choice(n_items, 5, replace=False).tolist() for _ in range(n_users)]
        allowed = data.user_items.toarray() == 0
        for user, own in enumerate(lists):
            allowed[user] &= (
                np.isin(np.arange(n_items), lists[0] if one_list_for_all else own) == holds
            )
        ids, values = model.recommend(
            np.arange(n_users), N=4, **{name: lists[0] if one_list_for_all else lists}
        )
        for user in range(n_users):
            best = np.argsort(-np.where(allowed[user], scores[user], -np.inf), kind="stable")[:4]
            best = best[allowed[user, best]]
            assert ids[user].tolist() == [*best.tolist(), *[-1] * (4 - len(best))]
            np.testing.assert_array_equal(values[user, : len(best)], scores[user, best])
    near = model.similar_items(np.arange(n_items), N=3)
    assert near.ids[:, 0].tolist() == list(range(n_items))
    for item in range(n_items):
        assert near.ids[item].tolist() == model.similar_items(item, N=3).ids.tolist()

"""BM25 and tf-idf weights: implicit's, the equation's, and no interaction is lost to them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank import Interactions, bm25_weight, tfidf_weight

quick = settings(max_examples=40, deadline=None)
BOTH = pytest.mark.parametrize("weight", [bm25_weight, tfidf_weight])


def counts(seed: int, shape: tuple[int, int] = (12, 9), most: int = 6) -> Interactions:
    """Every user lacks several items, so that every idf is positive."""
    rng = np.random.default_rng(seed)
    plays = rng.integers(1, 20, shape) * (rng.random(shape).argsort(axis=1) < most)
    return Interactions.from_sparse(sp.csr_array(plays.astype(np.float64)))


@quick
@given(st.integers(0, 10**6), st.floats(0.1, 200), st.floats(0, 1))
def test_weights_are_those_of_implicit(seed, k1, b):
    theirs = pytest.importorskip("implicit.nearest_neighbours", reason="implicit is not installed")
    data = counts(seed)
    items_by_users = data.to_scipy().T
    expected = theirs.bm25_weight(items_by_users, K1=k1, B=b).T.toarray()
    np.testing.assert_allclose(bm25_weight(data, K1=k1, B=b).user_items.toarray(), expected, 1e-12)
    expected = theirs.tfidf_weight(items_by_users).T.toarray()
    np.testing.assert_allclose(tfidf_weight(data).user_items.toarray(), expected, 1e-12)


def test_the_defaults_are_those_of_implicit():
    theirs = pytest.importorskip("implicit.nearest_neighbours", reason="implicit is not installed")
    data = counts(1)
    expected = theirs.bm25_weight(data.to_scipy().T).T.toarray()
    np.testing.assert_allclose(bm25_weight(data).user_items.toarray(), expected, 1e-12)


def test_weights_are_those_of_the_equation():
    data = counts(2)
    plays = data.user_items.toarray()
    for weight, at in ((bm25_weight(data, K1=2.0, B=0.3), "bm25"), (tfidf_weight(data), "tfidf")):
        for (user, item), value in np.ndenumerate(plays):
            idf = math.log(plays.shape[1] / (1 + np.count_nonzero(plays[user])))
            length = 0.7 + 0.3 * plays[:, item].sum() / plays.sum(axis=0).mean()
            term = value * 3 / (2 * length + value) if at == "bm25" else math.sqrt(value)
            assert weight.user_items[user, item] == pytest.approx(term * idf, rel=1e-12)


@BOTH
@quick
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(1, 9)), max_size=20),
    st.booleans(),
)
def test_no_interaction_is_lost_or_turned_into_a_dislike(weight, rows, wide):
    users, items, values = np.array(rows, dtype=int).reshape(-1, 3).T
    data = Interactions.from_arrays(
        users, items, values, users + items, shape=(5, 4), user_ids=list("vwxyz")
    )
    weighted = weight(data)
    assert np.array_equal(weighted.user_items.indptr, data.user_items.indptr)
    assert np.array_equal(weighted.user_items.indices, data.user_items.indices)
    assert np.array_equal(weighted.timestamps, data.timestamps)
    assert weighted.user_ids == data.user_ids
    assert weighted.user_items.dtype == data.user_items.dtype == np.float32
    assert (weighted.user_items.data > 0).all()


@BOTH
def test_tables_and_matrices_are_weighted_and_fitted(weight):
    data = counts(3)
    from_matrix = weight(data.to_scipy())
    assert np.array_equal(from_matrix.user_items.data, weight(data).user_items.data)
    model = mfrank.ALS(mfrank.WRMF(), factors=2, iterations=2, random_state=0).fit(weight(data))
    assert np.isfinite(model.item_factors).all()


@BOTH
def test_dislikes_are_refused(weight):
    with pytest.raises(ValueError, match=r"got -2; drop dislikes with interactions\.at_least\(0\)"):
        weight(Interactions.from_arrays([0, 1], [0, 1], [1, -2]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"K1": -1}, "K1 must be"),
        ({"B": 1.5}, "B must be a number from 0 to 1"),
        ({"B": -0.1}, "B"),
    ],
)
def test_options_are_in_their_ranges(options, message):
    with pytest.raises(ValueError, match=message):
        bm25_weight(counts(0), **options)

"""Weights of interactions: implicit's, the equation's, and no interaction is lost to them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank import Interactions, bm25_weight, log_weight, recency_weight, tfidf_weight
from tests.support.errors import refuses

quick = settings(max_examples=40, deadline=None)
EACH = pytest.mark.parametrize("weight", [bm25_weight, log_weight, tfidf_weight])


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
    for data in (counts(2), counts(2, (3, 1), 1), counts(2, (3, 2), 1)):
        plays = data.user_items.toarray()
        bm25, tfidf = bm25_weight(data, K1=2.0, B=0.3), tfidf_weight(data)
        for weight, at in ((bm25, "bm25"), (bm25_weight(data, K1=2.0, B=1), "long"), (tfidf, "")):
            for (user, item), value in np.ndenumerate(plays):
                idf = max(math.log(plays.shape[1] / (1 + np.count_nonzero(plays[user]))), 1e-6)
                length = plays[:, item].sum() / plays.sum(axis=0).mean()
                length = length if at == "long" else 0.7 + 0.3 * length
                term = value * 3 / (2 * length + value) if at else math.sqrt(value)
                assert weight.user_items[user, item] == pytest.approx(term * idf, rel=1e-12)


@EACH
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


@EACH
def test_tables_and_matrices_are_weighted_and_fitted(weight):
    data = counts(3)
    from_matrix = weight(data.to_scipy())
    assert np.array_equal(from_matrix.user_items.data, weight(data).user_items.data)
    model = mfrank.ALS(mfrank.WRMF(), factors=2, iterations=2, random_state=0).fit(weight(data))
    assert np.isfinite(model.item_factors).all()


@EACH
def test_dislikes_are_refused(weight):
    with refuses(ValueError, "values", remedy="drop dislikes"):
        weight(Interactions.from_arrays([0, 1], [0, 1], [1, -2]))


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"K1": -1}, "K1"),
        ({"B": 1.5}, "B"),
        ({"B": -0.1}, "B"),
    ],
)
def test_options_are_in_their_ranges(options, argument):
    with refuses(ValueError, argument):
        bm25_weight(counts(0), **options)


@quick
@given(st.lists(st.floats(1e-6, 1e30), min_size=1, max_size=9), st.floats(1e-9, 1e9))
def test_log_weights_are_those_of_the_equation(values, scale):
    data = Interactions.from_arrays(np.arange(len(values)), [0] * len(values), values)
    wanted = [math.log1p(value / scale) for value in data.user_items.data.tolist()]
    np.testing.assert_allclose(log_weight(data, scale).user_items.data, wanted, rtol=1e-6)


@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf, "1"])
def test_the_scale_of_logarithms_is_above_0(scale):
    with refuses(ValueError, "scale"):
        log_weight(counts(0), scale)


def test_the_smallest_scale_does_not_overflow():
    weighted = log_weight(sp.csr_array([[1e300, 1e-300]]), 1e-300)
    np.testing.assert_allclose(weighted.user_items.data, [600 * math.log(10), math.log(2)], 1e-12)


timed = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(0, 3),
        st.sampled_from([-2.0, 0.5, 1, 7]),
        st.integers(-(10**8), 10**8),  # of no known unit
    ),
    max_size=20,
)


def at_times(rows, duplicates="last"):
    users, items, values, times = np.array(rows, dtype=float).reshape(-1, 4).T
    return Interactions.from_arrays(
        users.astype(int),
        items.astype(int),
        values,
        times,
        timestamp_unit="s",
        shape=(5, 4),
        duplicates=duplicates,
    )


@quick
@given(timed, st.floats(1e-3, 1e15), st.floats(0, 1e8))
def test_each_half_life_halves_the_value_and_no_interaction_is_lost(rows, half_life, later):
    data = at_times(rows)
    now = max([time for *_, time in rows], default=0) + later
    weighted = recency_weight(data, half_life, now=now)
    for own in ("indptr", "indices"):
        assert np.array_equal(getattr(weighted.user_items, own), getattr(data.user_items, own))
    assert np.array_equal(weighted.timestamps, data.timestamps)
    ages = now - data.timestamps.astype(float)
    wanted = data.user_items.data * 2.0 ** (-ages / half_life)
    np.testing.assert_allclose(weighted.user_items.data, wanted, rtol=1e-6, atol=2e-38)
    assert np.array_equal(np.sign(weighted.user_items.data), np.sign(data.user_items.data))


def test_now_is_the_latest_interaction():
    data = at_times([(0, 0, 3, 100), (1, 2, 5, 70), (4, 3, 1, -20)])
    assert np.array_equal(recency_weight(data, 30).user_items.data, [3, 2.5, 0.0625])
    at_latest = recency_weight(data, 30, now=100)
    assert np.array_equal(recency_weight(data, 30).user_items.data, at_latest.user_items.data)


def test_a_later_now_is_a_smaller_alpha():
    """All confidences are one number times as large."""
    data = mfrank.synthetic(40, 20, 300, random_state=0)
    latest = int(data.timestamps.max())
    fits = [
        mfrank.ALS(mfrank.WRMF(alpha=alpha), 4, 3, random_state=0, dtype="float64").fit(weighted)
        for alpha, weighted in (
            (2, recency_weight(data, 1000)),
            (8, recency_weight(data, 1000, now=latest + 2000)),
        )
    ]
    one, other = (model.user_factors @ model.item_factors.T for model in fits)
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_days_that_decay_in_a_model_are_as_values_that_decay_before_they_are_added():
    """The same pairs on several days, each weighted for itself, as the docstring says."""
    rng = np.random.default_rng(0)
    users, items, times = rng.integers(0, 6, 80), rng.integers(0, 5, 80), rng.integers(0, 300, 80)
    half_life, day = 50.0, 100
    parts = [times // day == number for number in range(3)]
    by_day = [
        recency_weight(
            Interactions.from_arrays(
                users[part],
                items[part],
                2.0 ** ((times[part] - times[part].max()) / half_life),
                np.full(part.sum(), times[part].max()),
                shape=(6, 5),
            ),
            half_life,
            now=(number + 1) * day,
        )
        for number, part in enumerate(parts)
    ]
    model = mfrank.ALS(mfrank.WRMF(), factors=2, iterations=1, random_state=0).fit(by_day[0])
    for today in by_day[1:]:
        model.partial_fit(today, decay=2 ** (-day / half_life))
    values = 2.0 ** ((times - 300) / half_life)
    at_once = Interactions.from_arrays(users, items, values, times, shape=(6, 5))
    np.testing.assert_allclose(model.seen.matrix.toarray(), at_once.user_items.toarray(), rtol=1e-5)


@pytest.mark.parametrize(
    ("half_life", "now", "argument"),
    [
        (0, None, "half_life"),
        (math.inf, None, "half_life"),
        (1, 9, "now"),
        (1, math.nan, "now"),
        (1, "2026-01-01", "now"),
    ],
)
def test_ages_are_in_their_ranges(half_life, now, argument):
    with refuses(ValueError, argument):
        recency_weight(at_times([(0, 0, 1, 10)]), half_life, now=now)


def test_ages_need_timestamps():
    with refuses(ValueError, "recency_weight"):
        recency_weight(counts(0), 10)


@quick
@given(timed, st.data())
def test_weights_of_ones_own_multiply_values_and_zero_drops(rows, data):
    made = at_times(rows)
    weights = data.draw(
        st.lists(st.sampled_from([0, 0.25, 1, 3]), min_size=made.nnz, max_size=made.nnz)
    )
    weighted = made.weighted(weights)
    wanted = made.user_items.toarray()
    wanted[made.entry_users, made.user_items.indices] *= weights
    assert np.array_equal(weighted.user_items.toarray(), wanted)
    assert np.array_equal(weighted.timestamps, made.timestamps[np.array(weights, dtype=float) > 0])
    assert (weighted.user_items.data != 0).all()
    assert weighted.user_items.dtype == made.user_items.dtype


@pytest.mark.parametrize(
    ("weights", "error", "argument"),
    [
        ([1], ValueError, "weights"),
        ([[1, 1]], ValueError, "weights"),
        ([1, -1], ValueError, "weights"),
        ([1, math.nan], ValueError, "weights"),
        ([math.inf, 1], ValueError, "weights"),
        (["a", "b"], TypeError, "weights"),
        ([1e39, 1], ValueError, "weights"),
    ],
)
def test_weights_that_are_none_are_refused(weights, error, argument):
    with refuses(error, argument):
        Interactions.from_arrays([0, 1], [0, 1]).weighted(weights)


@pytest.mark.parametrize(
    ("times", "half_life", "is_told"),
    [
        ([0, 100, 200, 90_000], 60.0, True),  # one of another year, or minutes for seconds
        ([0, 100, 200, 2900], 60.0, False),
        ([0, 90_000, 90_001, 90_002], 60.0, False),
        ([0, 1, 90_000, 90_001], 60.0, False),  # half of them
        ([0, 0, 0, 3000], 60.0, False),  # exactly 50 half-lives
    ],
)
def test_weights_of_which_most_are_nothing_are_told(times, half_life, is_told, caplog):
    data = mfrank.Interactions.from_arrays(range(4), range(4), timestamps=times)
    mfrank.recency_weight(data, half_life)
    assert sum("half-lives" in line.getMessage() for line in caplog.records) == is_told


WEIGHTINGS: dict[str, Callable[[mfrank.Interactions], mfrank.Interactions]] = {
    "bm25_weight": mfrank.bm25_weight,
    "tfidf_weight": mfrank.tfidf_weight,
    "log_weight": mfrank.log_weight,
    "recency_weight": lambda data: mfrank.recency_weight(data, 10),
}


def _timed() -> mfrank.Interactions:
    data = mfrank.synthetic(20, 15, 120, random_state=0)
    return dataclasses.replace(data, timestamps=np.arange(data.nnz))


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_what_is_weighted_in_the_same_way_again_is_told(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    weighted = WEIGHTINGS[name](_timed())
    assert any(line.startswith(f"{name}(") for line in weighted.notes)
    weighted.to_folder(tmp_path / "weighted")
    assert not caplog.messages
    for again in (
        weighted,
        mfrank.Interactions.open(tmp_path / "weighted"),
        mfrank.by_ratio(weighted, random_state=0).train,
    ):
        caplog.clear()
        WEIGHTINGS[name](again)
        assert sum(f"were weighted by {name} before" in each for each in caplog.messages) == 1
        caplog.clear()
        for other in {*WEIGHTINGS} - {name}:
            WEIGHTINGS[other](again)
        assert not caplog.messages


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_a_weighted_part_beside_one_that_is_not_is_told(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What is recent may well count 1, and older parts less."""
    plain = _timed()
    weighted = WEIGHTINGS[name](plain)
    for parts, is_told in (([weighted, plain], True), ([weighted, weighted], False)):
        for each in (parts, parts[::-1]):
            caplog.clear()
            mfrank.Interactions.concat(each)
            told = [line for line in caplog.messages if f"is weighted by {name}" in line]
            assert len(told) == (is_told and name != "recency_weight")

"""SequentialRules counts what followed the latest occurrences of an item, by its equations."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank import Interactions, SequentialRules
from tests.support.errors import refuses

N_ITEMS = 7
EVENTS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, N_ITEMS - 1), st.sampled_from([1.0, 1.0, -1.0])),
    min_size=2,
    max_size=40,
    unique_by=lambda event: event[:2],
).filter(lambda events: any(value > 0 for *_, value in events))
"""Who met what, oldest first."""
OPTIONS = st.fixed_dictionaries(
    {
        "last": st.sampled_from([0.4, 1.0, 3.0]),
        "near": st.sampled_from([0.4, 2.0]),
        "backward": st.sampled_from([0.0, 0.3, 1.0]),
        "latest": st.integers(1, 6),
        "count_power": st.sampled_from([0.0, 0.5, 1.0]),
    }
)


def data_of(events: list[tuple[int, int, float]], start: int = 10**9) -> Interactions:
    users, items, values = zip(*events, strict=True)
    times = start + np.arange(len(events))
    shape = 1 + max(users), N_ITEMS
    return Interactions.from_arrays(users, items, values, times, shape=shape)


def reference(
    events: list[tuple[int, int, float]],
    *,
    near: float,
    backward: float,
    latest: int,
    count_power: float,
    **_: Any,
) -> np.ndarray[Any, Any]:
    """The weights, one occurrence after the other, from the equations."""
    history = defaultdict[int, list[int]](list)
    for user, item, value in events:
        if value > 0:
            history[user].append(item)
    weights, counted = np.zeros((N_ITEMS, N_ITEMS)), np.zeros(N_ITEMS)
    for user, item, value in reversed(events):
        own = history[user]
        if value <= 0 or len(own) < 2 or counted[item] == latest:
            continue
        counted[item] += 1
        for place, other in enumerate(own):
            distance = place - own.index(item)
            if other != item and abs(distance) <= np.ceil(4 * near):
                weight = np.exp((1 - abs(distance)) / near)
                weights[item, other] += weight * (1 if distance > 0 else backward)
    return weights * np.maximum(counted, 1)[:, None] ** -count_power


def history_of(items: list[int], last: float) -> np.ndarray[Any, Any]:
    row = np.zeros(N_ITEMS)
    for distance, item in enumerate(reversed(items)):
        if distance < np.ceil(4 * last):
            row[item] = np.exp(-distance / last)
    return row


@settings(max_examples=40, deadline=None)
@given(EVENTS, OPTIONS)
def test_weights_and_scores_are_those_of_the_equations(events, options):
    data = data_of(events)
    model = SequentialRules(**options, neighbors=N_ITEMS).fit(data)
    wanted = reference(events, **options)
    np.testing.assert_allclose(model.similarity.toarray(), wanted, rtol=0, atol=1e-12)
    user = next(user for user, _, value in events if value > 0)
    items = [item for one, item, value in events if one == user and value > 0]
    every = history_of(items, options["last"]) @ wanted
    found = model.score([user] * N_ITEMS, range(N_ITEMS))
    np.testing.assert_allclose(found, every, rtol=0, atol=1e-12)
    lists = [
        model.recommend(user, data, N=N_ITEMS),
        model.recommend_from_items(items, N=N_ITEMS),
        model.recommend(user, data, N=N_ITEMS, recalculate_user=True),
    ]
    disliked = {item for one, item, value in events if one == user and value <= 0}
    for one in lists:
        for item, score in zip(one.ids.tolist(), one.scores.tolist(), strict=True):
            if item in disliked or np.isnan(score):
                continue
            assert score == pytest.approx(every[item])


def named(events: list[tuple[int, int, float]], start: int) -> Interactions:
    users, items, _ = zip(*events, strict=True)
    names = [f"u{user}" for user in users], [f"i{item}" for item in items]
    return Interactions.from_arrays(*names, timestamps=start + np.arange(len(events)))


def weights_of(model: SequentialRules) -> np.ndarray[Any, Any]:
    """The weights of all items, also of those that the model does not have."""
    wanted = [f"i{item}" for item in range(N_ITEMS)]
    rows = model.item_ids.rows(wanted, missing=-1)
    known = np.flatnonzero(rows >= 0)
    weights = np.zeros((N_ITEMS, N_ITEMS))
    weights[np.ix_(known, known)] = model.similarity.toarray()[np.ix_(rows[known], rows[known])]
    return weights


@settings(max_examples=25, deadline=None)
@given(EVENTS, EVENTS, OPTIONS, st.integers(0, 1))
def test_an_update_is_a_fit_to_both_and_a_removal_one_to_the_rest(before, after, options, first):
    """In whichever order they come: times tell what was later, and a repeated item has the last."""
    before, after = ([(*one[:2], 1.0) for one in events] for events in (before, after))
    new = {event[:2] for event in after}
    joined = [event for event in before if event[:2] not in new] + after
    parts = [named(before, 10**9), named(after, 2 * 10**9)]
    model = SequentialRules(**options, neighbors=N_ITEMS).fit(parts.pop(first))
    model.partial_fit(parts[0])
    np.testing.assert_allclose(weights_of(model), reference(joined, **options), atol=1e-12)
    left = [event for event in joined if event[0] != joined[-1][0]]
    if not left:
        return
    model.remove(users=f"u{joined[-1][0]}")
    np.testing.assert_allclose(weights_of(model), reference(left, **options), atol=1e-12)
    again = list(dict.fromkeys((left[0][0], item, 1.0) for _, item, _ in (joined[-1], left[0])))
    model.partial_fit(named(again, 3 * 10**9))
    rest = [event for event in left if event not in again] + again
    np.testing.assert_allclose(weights_of(model), reference(rest, **options), atol=1e-12)


EXAMPLE = [
    (user, item, 1.0)
    for user, items in enumerate([[0, 1, 2, 5], [2, 1, 0, 6], [0, 1, 3], [3, 0, 1, 2], [4, 2, 5]])
    for item in items
]


def test_only_the_latest_occurrences_count():
    events = [(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0), (1, 2, 1.0), (2, 0, 1.0)]
    one, both = (
        SequentialRules(latest=latest, backward=0, count_power=0).fit(data_of(events))
        for latest in (1, 2)
    )
    assert one.recommend_from_items([0]).ids.tolist()[0] == 2
    assert one.similarity.nnz == 1  # an item that stands alone is no occurrence
    assert both.similarity.nnz == 2


def test_without_times_scores_are_means_over_all_orders():
    model, items = SequentialRules(neighbors=N_ITEMS).fit(data_of(EXAMPLE)), [1, 3, 4]
    orders = [history_of(list(order), model.last) for order in permutations(items)]
    wanted = np.mean(orders, axis=0) @ model.similarity.toarray()
    row = Interactions.from_arrays([0] * 3, items, shape=(1, N_ITEMS)).user_items
    found = model.recommend(0, row, N=N_ITEMS, recalculate_user=True)
    listed = found.ids[~np.isnan(found.scores)]
    np.testing.assert_allclose(found.scores[: len(listed)], wanted[listed], atol=1e-12)


def test_a_saved_model_answers_the_same_and_is_updated(tmp_path):
    model = SequentialRules(2.0, latest=3).fit(data_of(EXAMPLE))
    model.save(tmp_path / "model")
    loaded = mfrank.load(tmp_path / "model")
    assert repr(loaded) == repr(model)
    new = data_of([(0, 4, 1.0), (5, 2, 1.0), (5, 6, 1.0)], start=2 * 10**9)
    for one in (model, loaded):
        one.partial_fit(new)
    np.testing.assert_array_equal(loaded.similarity.toarray(), model.similarity.toarray())


@pytest.mark.parametrize("blended", [False, True])
def test_times_are_needed_and_told_where_they_order_too_little(blended, caplog):
    model: Any = SequentialRules()
    if blended:
        model = mfrank.Blend([mfrank.Popularity(), model])
    data = data_of(EXAMPLE)
    untimed = replace(data, timestamps=None)
    with refuses(ValueError, "SequentialRules"):
        model.fit(untimed)
    model.fit(data)
    with refuses(ValueError, "SequentialRules"):
        model.partial_fit(untimed)
    with refuses(TypeError, "itemids", remedy="list"):
        model.recommend_from_items({1, 4})
    assert "ordered by id" not in caplog.text
    model.fit(replace(data, timestamps=np.zeros(data.nnz, np.int64)))
    assert caplog.text.count("ordered by id") == 1


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("last", value) for value in (0, -1, float("nan"), "1")),
        *(("near", value) for value in (0, float("inf"), None)),
        *(("backward", value) for value in (-0.1, 1.1)),
        *(("count_power", value) for value in (-0.1, 2)),
        *(("latest", value) for value in (0, 1.5, None)),
        ("neighbors", 0),
    ],
)
def test_options_are_checked(argument, value):
    with refuses((TypeError, ValueError), argument):
        SequentialRules(**{argument: value})

"""NextItem is the minimizer of its loss, whichever way a user's items are given."""

from __future__ import annotations

import logging
import tracemalloc
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank import Interactions, NextItem
from mfrank.models import histories as in_order
from mfrank.models import next_item, sequence_regression
from mfrank.store import contents as extra_rows
from tests.support.errors import refuses
from tests.support.sequences import DECAYS, HISTORIES, N_ITEMS, data_of, of_history


def equations(
    histories: list[list[int]],
    decays: tuple[float, ...],
    regularization: float,
    ahead: float,
    item_power: float,
    backward: float,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The normal equations, of a row per place and direction."""
    rows, targets, weights = [], [], []
    both = [(history, 1.0) for history in histories]
    both += [(history[::-1], backward) for history in histories]
    for history, weight in both:
        weights += [weight] * len(history)
        for place in range(len(history)):
            target = np.zeros(N_ITEMS)
            for beyond, item in enumerate(history[place:]):
                if beyond == 0:
                    target[item] = 1
                elif ahead and beyond <= np.ceil(4 * ahead):
                    target[item] = np.exp(-beyond / ahead)
            rows.append(of_history(history[:place], decays))
            targets.append(target)
    users = np.maximum([sum(item in one for one in histories) for item in range(N_ITEMS)], 1)
    x, y = np.array(rows), np.array(targets) * (users / users.mean()) ** -item_power
    weighted = x * np.array(weights)[:, None]
    gram = weighted.T @ x
    ridges = regularization * np.diag(gram).reshape(-1, N_ITEMS).mean(axis=1)
    ridge = np.diag(np.repeat(np.where(ridges, ridges, 1), N_ITEMS))
    return gram + ridge, weighted.T @ y


@settings(max_examples=40, deadline=None)
@given(HISTORIES, DECAYS, st.sampled_from(list(product((0.1, 1), (0, 0.5, 2), (0, 0.3), (0, 0.6)))))
def test_the_weights_minimize_the_loss(histories, decays, options):
    model = NextItem(decays, *options, neighbors=N_ITEMS).fit(data_of(histories))
    wanted = np.linalg.solve(*equations(histories, decays, *options))
    wanted = wanted.reshape(-1, N_ITEMS, N_ITEMS)
    for block in wanted:
        np.fill_diagonal(block, 0)
    found = model.similarity.toarray().reshape(wanted.shape)
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    HISTORIES,
    DECAYS,
    st.sampled_from(list(product((0.1, 1), (0, 0.5, 2), (0, 0.3), (0, 0.6)))),
    st.integers(1, N_ITEMS - 1),
)
def test_weights_of_candidates_solve_the_equations_between_them(
    histories, decays, options, candidates
):
    model = NextItem(decays, *options, neighbors=N_ITEMS, candidates=candidates)
    found = model.fit(data_of(histories)).similarity.toarray()
    gram, cross = equations(histories, decays, *options)
    gains = cross**2 / np.diag(gram)[:, None]
    for item in range(N_ITEMS):
        own = np.flatnonzero(found[:, item])
        assert len(own) == min(candidates, np.count_nonzero(gains[:, item]))
        rest = np.delete(gains[:, item], own)
        assert gains[own, item].min(initial=np.inf) >= rest.max(initial=0) * (1 - 1e-12)
        wanted = np.linalg.solve(gram[np.ix_(own, own)], cross[own, item])
        np.testing.assert_allclose(found[own, item], wanted, atol=1e-12)


def test_an_update_of_candidates_solves_for_the_items_of_what_is_new(monkeypatch):
    rng = np.random.default_rng(0)
    old = [rng.permutation(N_ITEMS)[:4].tolist() for _ in range(60)]
    new = [[1, 2], [2, 6]]
    later = Interactions.from_arrays(
        [70, 70, 71, 71], np.ravel(new), timestamps=2 * 10**9 + np.arange(4), shape=(72, N_ITEMS)
    )
    monkeypatch.setattr(sequence_regression, "_SMALL", 0)
    decays, options = (0.5, 2.0), (1.0, 0.0, 0.0, 0.2, N_ITEMS, 4)
    found = NextItem(decays, *options).fit(data_of(old)).partial_fit(later).similarity.toarray()
    fitted = NextItem(decays, *options).fit(data_of(old + new)).similarity.toarray()
    np.testing.assert_allclose(found[:, [1, 2, 6]], fitted[:, [1, 2, 6]], atol=1e-14)
    others = [0, 3, 4, 5]
    before = NextItem(decays, *options).fit(data_of(old)).similarity.toarray()
    was, now = (np.diag(equations(each, decays, *options[:4])[0]) for each in (old, old + new))
    wanted = before * (was / now)[:, None]
    np.testing.assert_allclose(found[:, others], wanted[:, others], atol=1e-14)
    away = [np.abs(each - fitted)[:, others].sum() for each in (found, before)]
    assert 0 < away[0] < away[1]


@settings(max_examples=25, deadline=None)
@given(HISTORIES, DECAYS)
def test_a_history_ranks_the_same_by_every_door(histories, decays):
    data = data_of(histories)
    model = NextItem(decays).fit(data)
    user = max(range(len(histories)), key=lambda row: len(histories[row]))
    of_fit = model.recommend(user, N=N_ITEMS)
    by_items = model.recommend_from_items(histories[user], N=N_ITEMS)
    given_again = model.recommend(user, data, N=N_ITEMS, recalculate_user=True)
    for other in (by_items, given_again):
        assert other.ids.tolist() == of_fit.ids.tolist()
        np.testing.assert_array_equal(other.scores, of_fit.scores)
    row = of_history(histories[user], decays)
    every = row @ model.similarity.toarray()
    np.testing.assert_allclose(model.score([user] * N_ITEMS, range(N_ITEMS)), every, atol=1e-12)


def test_the_latest_of_the_items_counts_most_and_repeats_count_once():
    model = NextItem((0.4,), backward=0).fit(
        data_of([[0, 1, 2], [0, 1, 2], [3, 4, 5], [3, 4, 5], [1, 4, 6]])
    )
    assert model.recommend_from_items([1, 4], N=1).ids.tolist() == [5]
    assert model.recommend_from_items([4, 1], N=1).ids.tolist() == [2]
    plain = model.recommend_from_items([1, 4], N=5)
    for items, values in (([4, 1, 4], None), ([1, 4], [2, 3]), ([1, 0, 4], [1, -1, 1])):
        other = model.recommend_from_items(items, N=5, values=values)
        assert set(other.scores[~np.isnan(other.scores)]) <= set(plain.scores)


@pytest.mark.parametrize("wrapped", [False, True])
def test_items_without_an_order_are_refused(wrapped):
    data = data_of([[0, 1, 2], [0, 1, 2], [3, 4, 5], [3, 4, 5], [1, 4, 6]])
    model: Any = NextItem()
    if wrapped:
        model = mfrank.Blend([mfrank.ALS(factors=2, random_state=0), model])
    model.fit(data)
    with refuses(TypeError, "itemids", remedy="list"):
        model.recommend_from_items({1, 4})


def test_without_times_scores_are_means_over_all_orders(caplog):
    data = data_of([[0, 1, 2, 5], [2, 1, 0, 6], [0, 1, 3], [3, 0, 1, 2], [4, 2, 5]])
    model, items = NextItem((0.5, 2.0), neighbors=N_ITEMS).fit(data), [1, 3, 4]
    orders = [of_history(list(order), model.decays) for order in permutations(items)]
    wanted = np.mean(orders, axis=0) @ model.similarity.toarray()
    row = Interactions.from_arrays([0] * 3, items, shape=(1, N_ITEMS)).user_items
    with caplog.at_level(logging.INFO, "mfrank"):
        found = model.recommend(0, row, N=N_ITEMS, recalculate_user=True)
    assert "no timestamps" in caplog.text
    listed = found.ids[found.ids >= 0]
    np.testing.assert_allclose(found.scores[: len(listed)], wanted[listed], atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(HISTORIES, HISTORIES, DECAYS)
def test_an_update_is_a_fit_to_both(histories, later, decays):
    """What is new is later, also where a user had it before."""
    old, new = data_of(histories), data_of(later, start=2 * 10**9)
    model = NextItem(decays).fit(old).partial_fit(new)
    joined = [
        [item for item in before if item not in after] + after
        for before, after in zip(
            histories + [[]] * len(later), later + [[]] * len(histories), strict=False
        )
    ][: max(len(histories), len(later))]
    again = NextItem(decays).fit(data_of(joined))
    np.testing.assert_allclose(
        model.similarity.toarray(), again.similarity.toarray(), rtol=0, atol=1e-12
    )
    users = [user for user, history in enumerate(joined) if history]
    found, wanted = (one.recommend(users, N=N_ITEMS) for one in (model, again))
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(HISTORIES, st.integers(0, 2**30), DECAYS)
def test_what_arrives_late_is_ordered_by_its_time(histories, seed, decays):
    """Whichever part comes first, and if an item is in both: a fit to all has the same order."""
    whole, rng = data_of(histories), np.random.default_rng(seed)
    is_first = rng.random(whole.nnz) < 0.5
    is_first[rng.integers(whole.nnz)] = True
    first, second = whole.take(is_first), whole.take(~is_first)
    again = whole.take(rng.random(whole.nnz) < 0.5)
    again = replace(again, timestamps=again.timestamps - 100)  # an item's earlier time says nothing
    model = NextItem(decays).fit(first).partial_fit(second).partial_fit(again)
    wanted = NextItem(decays).fit(whole).similarity.toarray()
    np.testing.assert_allclose(model.similarity.toarray(), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [NextItem, mfrank.SequentialRules])
def test_what_arrives_late_is_told(kind, caplog):
    data = data_of([[0, 1, 2, 5], [2, 1, 0, 6], [0, 1, 3]])
    model = kind().fit(data)
    new = Interactions.from_arrays(
        [0, 0, 1, 7], [3, 4, 3, 4], timestamps=10**9 + np.array([1, 9, 2, 0]), shape=(8, N_ITEMS)
    )
    with caplog.at_level(logging.INFO, "mfrank"):
        model.partial_fit(new)
    assert "2 of 4 new interactions are older" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO, "mfrank"):
        later = Interactions.from_arrays(
            [0, 8], [6, 1], timestamps=[2 * 10**9, 10**9 - 5], shape=(9, 7)
        )
        model.partial_fit(later)
    assert "older" not in caplog.text


def test_late_interactions_have_the_rows_solved_that_they_meet(monkeypatch):
    monkeypatch.setattr(sequence_regression, "_SMALL", 0)
    monkeypatch.setattr(sequence_regression, "_ROWS", {True: 1.0, False: 1.0})
    decays = (0.2,)  # meets what is next to it alone
    data = data_of([[0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4]] * 3)
    late = Interactions.from_arrays([0], [6], timestamps=[10**9 + 1], shape=(6, N_ITEMS))
    before = NextItem(decays).fit(data).similarity.toarray()
    after = NextItem(decays).fit(data).partial_fit(late).similarity.toarray()
    assert np.flatnonzero((before != after).any(axis=1)).tolist() == [1, 2, 6]


@pytest.mark.parametrize("removed", [False, True])
def test_a_model_saved_without_times_takes_what_is_new_as_later(removed, caplog):
    """As files of earlier versions, which had places alone."""
    data = data_of([[0, 1, 2, 5], [2, 1, 0, 6], [0, 1, 3]])
    model = NextItem().fit(data)
    places = in_order.places_of(in_order.times_in(model.store))
    extras = {name: each for name, each in model.store.extras.items() if "times" not in name}
    old = NextItem._from_store(
        replace(model.store, extras=extras | extra_rows.pack("places", places))
    )
    old._hold(old.store, data.seen)
    histories = [[0, 1, 2, 5, 3], [2, 1, 0, 6], [0, 1, 3]]
    if removed:
        old.remove(users=2)
        histories.pop()
    old.partial_fit(Interactions.from_arrays([0], [3], timestamps=[5], shape=(3 - removed, 7)))
    assert "earlier version" in caplog.text
    wanted = NextItem().fit(data_of(histories))
    np.testing.assert_allclose(
        old.similarity.toarray(), wanted.similarity.toarray(), rtol=0, atol=1e-12
    )


@settings(max_examples=40, deadline=None)
@given(HISTORIES, DECAYS, st.sampled_from([(1, 0, 0.1, 0.2), (0.3, 0.5, 0.3, 0)]), st.data())
def test_some_rows_minimize_the_loss_given_the_others(histories, decays, options, draw):
    items = np.sort(draw.draw(st.lists(st.integers(0, N_ITEMS - 1), min_size=1, unique=True)))
    held = np.random.default_rng(0).normal(size=(len(decays) * N_ITEMS, N_ITEMS))
    regression = sequence_regression.SequenceRegression(decays, *options)
    places = in_order.places_of(in_order.times_of("NextItem", "EASE", data_of(histories)))
    for few in (0, np.inf):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sequence_regression, "_FEW", few)
            found = regression.updated(places, sp.csr_array(held), items)
        some = (np.arange(len(decays))[:, None] * N_ITEMS + items).ravel()
        gram, cross = equations(histories, decays, *options)
        weights = held.copy()
        weights[some] = found
        np.testing.assert_allclose((gram @ weights)[some], cross[some], atol=1e-10)


def test_an_update_of_many_items_solves_the_rows_that_meet_what_is_new(monkeypatch):
    rng = np.random.default_rng(0)
    histories = [rng.permutation(N_ITEMS)[:4].tolist() for _ in range(60)]
    model = NextItem((0.5, 2.0)).fit(data_of(histories))
    again = mfrank.refit(model, data_of(histories))
    monkeypatch.setattr(sequence_regression, "_SMALL", 0)
    users, items = np.array([70, 70, 71, 71]), np.array([1, 2, 2, 9])
    times = 2 * 10**9 + np.arange(4)
    model.partial_fit(Interactions.from_arrays(users, items, timestamps=times))
    before, after = (
        each.similarity.toarray().reshape(2, -1, each.similarity.shape[1])
        for each in (again, model)
    )
    changed = (after[:, :N_ITEMS, :N_ITEMS] != before).any(axis=(0, 2))
    assert np.flatnonzero(changed).tolist() == [2]  # 2 is met twice, 1 once; 9 is new
    assert (after[:, -1] != 0).any()
    many = Interactions.from_arrays(
        np.repeat(np.arange(100, 180), 2), np.tile([0, 1], 80), timestamps=times[0] + np.arange(160)
    )
    whole = NextItem((0.5, 2.0)).fit(data_of(histories)).partial_fit(many)
    both = data_of(histories) + many
    np.testing.assert_allclose(
        whole.similarity.toarray(), NextItem((0.5, 2.0)).fit(both).similarity.toarray(), atol=1e-12
    )


def test_a_saved_model_answers_the_same_and_is_updated(tmp_path):
    data = data_of([[0, 1, 2, 5], [2, 1, 0, 6], [0, 1, 3], [3, 0, 1, 2], [4, 2, 5]])
    model = NextItem((0.5, 3.0), ahead=1.0).fit(data)
    model.save(tmp_path / "model")
    loaded = mfrank.load(tmp_path / "model")
    assert repr(loaded) == repr(model)
    assert loaded.get_params() == model.get_params()
    new = data_of([[4], [], [2, 6]], start=2 * 10**9)
    for one in (model, loaded):
        one.partial_fit(new)
    for one in (loaded, mfrank.refit(model, data).partial_fit(new)):
        for found, wanted in zip(one.recommend([0, 1, 2]), model.recommend([0, 1, 2]), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_contributions_of_items_add_up_over_decays():
    histories = [[0, 1, 2, 5], [2, 1, 0, 6], [0, 1, 3], [3, 0, 1, 2], [4, 2, 5]]
    model = NextItem().fit(data_of(histories))
    for item in (3, 4, 6):
        told = model.explain(0, None, item, N=N_ITEMS)
        assert {of for of, _ in told.contributions} <= set(histories[0])
        assert len({of for of, _ in told.contributions}) == len(told.contributions)
        assert told.score == pytest.approx(sum(part for _, part in told.contributions))
        assert told.score == pytest.approx(model.score([0], [item])[0])


def test_wide_regressions_are_of_single_precision(monkeypatch):
    data = data_of([[0, 1, 2, 5], [2, 1, 0, 6], [0, 1, 3], [3, 0, 1, 2], [4, 2, 5]])
    exact = NextItem().fit(data)
    monkeypatch.setattr("mfrank.models.sequence_regression._SINGLE_FROM", 1)
    single = NextItem().fit(data)
    difference = (single.similarity - exact.similarity).toarray()
    assert 0 < np.abs(difference).max() < 1e-6


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"decays": ()}, "decays"),
        ({"decays": 3.0}, "decays"),
        ({"decays": (1.0, 0)}, "decays"),
        ({"decays": (1.0, float("nan"))}, "decays"),
        ({"regularization": 0}, "regularization"),
        ({"ahead": -1}, "ahead"),
        ({"item_power": 2}, "item_power"),
        ({"backward": -0.1}, "backward"),
        ({"neighbors": 0}, "neighbors"),
        ({"candidates": 0}, "candidates"),
    ],
)
def test_options_are_checked(options, argument):
    with refuses((TypeError, ValueError), argument):
        NextItem(**options)


def test_order_needs_times():
    data = data_of([[0, 1, 2], [2, 1]])
    untimed = replace(data, timestamps=None)
    with refuses(ValueError, "NextItem"):
        NextItem().fit(untimed)
    model = NextItem().fit(data)
    before = model.similarity.toarray()
    with refuses(ValueError, "NextItem"):
        model.partial_fit(untimed)
    np.testing.assert_array_equal(model.similarity.toarray(), before)


@pytest.mark.parametrize("unit", [1, 86_400])
@pytest.mark.parametrize("updated", [False, True])
def test_times_that_order_too_little_are_told(unit, updated, caplog):
    data = data_of([[0, 1, 2, 5], [2, 1, 0, 6], [0, 1, 3]], start=0)
    of_unit = replace(data, timestamps=data.timestamps // unit)
    if updated:
        model = NextItem().fit(data)
        assert not caplog.text
        model.partial_fit(of_unit)
    else:
        NextItem().fit(of_unit)
    assert ("before; these are ordered by id" in caplog.text) == (unit > 1)


@pytest.mark.parametrize(
    "options", [{}, {"decays": (2.0,)}, {"decays": (1.0,), "ahead": 3.0}, {"backward": 0.0}]
)
def test_the_stated_memory_grows_as_the_memory_of_a_fit(options, monkeypatch):
    stated, used = list[int](), list[int]()
    monkeypatch.setattr(next_item, "check_memory", lambda needed, *_: stated.append(needed))
    for n_users in (40, 160):
        histories = [np.random.default_rng(user).permutation(100)[:40] for user in range(n_users)]
        users, times = np.repeat(np.arange(n_users), 40), np.arange(n_users * 40)
        data = Interactions.from_arrays(users, np.concatenate(histories), timestamps=times)
        tracemalloc.start()
        NextItem(candidates=5, **options).fit(data)
        used.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    less, more = (each[1] - each[0] for each in (used, stated))
    assert less <= more <= 3 * less


@pytest.mark.parametrize(("candidates", "remedy"), [(None, "candidates=100"), (2, "decays")])
def test_a_fit_that_needs_more_memory_than_there_is_says_what_lowers_it(
    candidates, remedy, monkeypatch
):
    monkeypatch.setattr("mfrank.arrays.memory.memory_there_is", lambda: 100)
    with refuses(MemoryError, None, remedy=remedy):
        NextItem(candidates=candidates).fit(data_of([[0, 1, 2], [1, 2, 0]]))

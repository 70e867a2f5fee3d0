"""The softmax of AsymmetricALS: its gradients by finite differences, its estimates, its limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank import AsymmetricALS
from mfrank.models import histories as in_order
from mfrank.models import history_softmax
from tests.support.sequences import DECAYS, HISTORIES, N_ITEMS, data_of, of_history

Dense = np.ndarray[Any, Any]
LONG = HISTORIES.filter(lambda histories: any(len(each) > 1 for each in histories))


def softmax_of(
    histories: list[list[int]], decays: Any, epochs: int = 1, rate: float = 0.01
) -> history_softmax.HistorySoftmax:
    times = in_order.times_of("AsymmetricALS", "ALS", data_of(histories))
    return history_softmax.HistorySoftmax(in_order.places_of(times), decays, epochs, rate, 0.0)


def places_and_nexts(histories: list[list[int]]) -> tuple[list[list[int]], list[int], list[int]]:
    """What came before, what came next, and the places, in the order of users."""
    befores, nexts, places, at = [], [], [], 0
    for history in histories:
        for place, item in enumerate(history):
            if place:
                befores.append(history[:place])
                nexts.append(item)
                places.append(at + place)
        at += len(history)
    return befores, nexts, places


def loss_of(x: Dense, p: Dense, q: Dense, nexts: list[int]) -> float:
    """The mean cross-entropy among all items, term by term."""
    losses = []
    for row, item in zip(x, nexts, strict=True):
        scores = q @ (row @ p)
        losses.append(np.log(np.exp(scores).sum()) - scores[item])
    return float(np.mean(losses))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 999), st.integers(1, 5), st.integers(1, 4), st.integers(2, 6))
def test_gradients_are_finite_differences(seed, n, k, n_items):
    rng = np.random.default_rng(seed)
    x, table = rng.standard_normal((n, k)), rng.standard_normal((9, k))
    items = np.sort(rng.choice(9, n_items, replace=False))
    among = history_softmax.SoftmaxItems(items, np.log(rng.uniform(0.1, 1, n_items)))
    nexts = rng.choice(items, n)
    q = table[items]
    slopes = history_softmax.cross_entropy(x, q, among, nexts)
    scores = x @ q.T - among.log_odds
    own = scores[np.arange(n), np.searchsorted(items, nexts)]
    assert slopes.loss == pytest.approx(np.mean(np.log(np.exp(scores).sum(axis=1)) - own))
    step = 1e-6
    for at, found in ((x, slopes.by_x), (q, slopes.by_q)):
        for place in np.ndindex(at.shape):
            kept = at[place]
            at[place] = kept + step
            above = history_softmax.cross_entropy(x, q, among, nexts).loss
            at[place] = kept - step
            below = history_softmax.cross_entropy(x, q, among, nexts).loss
            at[place] = kept
            assert found[place] == pytest.approx((above - below) / (2 * step), abs=1e-7)


@settings(max_examples=20, deadline=None)
@given(LONG, DECAYS)
def test_vectors_are_what_came_before(histories, decays):
    befores, nexts, places = places_and_nexts(histories)
    softmax = softmax_of(histories, decays)
    wanted = [of_history(before, decays) for before in befores]
    columns, values = softmax.histories(np.array(places))
    found = np.zeros((len(places), len(decays) * N_ITEMS))
    for row, own in enumerate(found):
        np.add.at(own, columns[row], values[row])
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert softmax._sequences.items[places].tolist() == nexts


@settings(max_examples=10, deadline=None)
@given(LONG, DECAYS, st.integers(0, 99))
def test_the_start_is_the_best_scale_of_the_given_factors(histories, decays, seed):
    rng = np.random.default_rng(seed)
    p = rng.standard_normal((len(decays) * N_ITEMS, 3))
    q = rng.standard_normal((N_ITEMS, 3))
    befores, nexts, places = places_and_nexts(histories)
    x = np.array([of_history(before, decays) for before in befores])
    started = softmax_of(histories, decays).start(p, q, np.array(places))
    of_both = [
        each[:, :3] @ other[:, :3].T
        for each, other in zip((p, started[0]), (q, started[1]), strict=True)
    ]
    ratios = of_both[1] / of_both[0]
    np.testing.assert_allclose(ratios, ratios[0, 0])
    sizes = [float(np.square(each[:, :3]).mean()) for each in started]
    assert sizes[0] == pytest.approx(sizes[1])
    shortest = np.argmin(decays) * N_ITEMS
    assert not np.delete(started[0][:, 3], np.arange(shortest, shortest + N_ITEMS)).any()
    popular = started[0][shortest, 3] * started[1][:, 3]
    counts = np.bincount(np.concatenate(histories).astype(int), minlength=N_ITEMS)
    powers = [
        power for power in (0, 0.25, 0.5, 1) if np.allclose(popular, power * np.log1p(counts))
    ]
    assert powers
    best = loss_with(x @ started[0][:, :3], started[1][:, :3], popular, nexts)
    assert best <= loss_of(x, p, q, nexts) + 1e-9


def loss_with(x: Dense, q: Dense, bias: Dense, nexts: list[int]) -> float:
    scores = x @ q.T + bias
    return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(x)), nexts]))


def test_candidates_are_as_probable_as_they_are_counted():
    softmax = softmax_of([[0, 1, 2, 3], [0, 1], [0, 4], [5, 0, 1], [6, 0]], (1.0,))
    counts, rng = softmax._counts, np.random.default_rng(0)
    found, said, rounds = np.zeros(N_ITEMS), np.zeros(N_ITEMS), 4000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_softmax, "_DRAWN", 2)
        for _ in range(rounds):
            nexts = rng.choice(N_ITEMS, 2, p=counts / counts.sum())
            among = softmax.candidates(nexts, rng)
            assert set(nexts) <= set(among.items.tolist())
            found[among.items] += 1
            said[among.items] = np.exp(among.log_odds)
    # Independent draws: 1 - (1 - a)^2 (1 - b)^2, which the Poisson form is below, by little.
    draws = counts**0.5 / (counts**0.5).sum()
    exact = 1 - (1 - draws) ** 2 * (1 - counts / counts.sum()) ** 2
    np.testing.assert_allclose(found / rounds, exact, atol=0.04)
    assert (said <= exact + 1e-12).all()
    np.testing.assert_allclose(said, exact, rtol=0.25)


def test_epochs_lower_the_loss_of_all_items():
    rng = np.random.default_rng(0)
    histories = [[int(each) for each in rng.permutation(N_ITEMS)[:5]] for _ in range(30)]
    histories += [[0, 1, 2, 3], [0, 1, 2, 4]] * 15
    befores, nexts, places = places_and_nexts(histories)
    decays = (0.5, 3.0)
    x = np.array([of_history(before, decays) for before in befores])
    p, q = rng.standard_normal((2, N_ITEMS, 4)), rng.standard_normal((N_ITEMS, 4))
    began = softmax_of(histories, decays).start(p.reshape(-1, 4), q, np.array(places))
    after = softmax_of(histories, decays, 200, 0.05).improved(p, q)
    assert after[0].shape == (2, N_ITEMS, 5)
    ended = loss_of(x, after[0].reshape(-1, 5), after[1], nexts)
    assert ended < 0.9 * loss_of(x, *began, nexts)
    frequencies = np.bincount(nexts, minlength=N_ITEMS) / len(nexts)
    chosen = frequencies[frequencies > 0]
    assert ended < -(chosen * np.log(chosen)).sum()  # what popularity alone can reach


def test_histories_of_one_item_change_nothing():
    p, q = np.ones((1, N_ITEMS, 2)), np.ones((N_ITEMS, 2))
    softmax = softmax_of([[0], [1], [5]], (1.0,))
    assert softmax.improved(p, q) == (p, q)
    model = AsymmetricALS(factors=2, softmax_epochs=1).fit(data_of([[0], [1], [5]]))
    assert model.similarity.nnz == 0


def test_the_order_of_the_items_decides():
    histories = [[0, 1, 2], [0, 1, 2], [3, 4, 5], [3, 4, 5], [1, 4, 6]] * 4
    model = AsymmetricALS((0.4,), 6, backward=0, softmax_epochs=60, learning_rate=0.05)
    model.fit(data_of(histories))
    assert model.recommend_from_items([0, 1], N=1).ids.tolist() == [2]
    assert model.recommend_from_items([3, 4], N=1).ids.tolist() == [5]
    assert model.recommend_from_items([1, 4], N=2).ids.tolist()[0] in (5, 6)


@settings(max_examples=8, deadline=None)
@given(LONG, DECAYS)
def test_a_model_ranks_as_the_products_of_its_factors(histories, decays):
    model = AsymmetricALS(decays, 2, softmax_epochs=1).fit(data_of(histories))
    times = in_order.times_of("AsymmetricALS", "ALS", data_of(histories))
    places = in_order.places_of(times)
    p, q = model._softmax(places).improved(*model._loss(places).fitted(model.iterations))
    wanted = p @ (q - q.mean(axis=0)).T
    for block in wanted:
        np.fill_diagonal(block, 0)
    found = model.similarity.toarray().reshape(wanted.shape)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_few_neighbors_keep_the_highest_scores():
    rng = np.random.default_rng(1)
    histories = [[int(each) for each in rng.permutation(N_ITEMS)[:4]] for _ in range(20)]
    every = AsymmetricALS((1.0,), 3, softmax_epochs=2).fit(data_of(histories))
    few = AsymmetricALS((1.0,), 3, softmax_epochs=2, neighbors=2).fit(data_of(histories))
    whole, kept = every.similarity.toarray(), few.similarity.toarray()
    for row, (all_scores, some) in enumerate(zip(whole, kept, strict=True)):
        others = np.delete(np.arange(N_ITEMS), row)
        best = others[np.argsort(-all_scores[others])[:2]]
        assert set(np.flatnonzero(some)) == set(best)
        np.testing.assert_array_equal(some[best], all_scores[best])


def test_a_softmax_that_diverges_says_so():
    data = data_of([[0, 1, 2], [2, 1, 0], [3, 4, 5]] * 5)
    with pytest.raises(FloatingPointError, match="learning_rate"), np.errstate(all="ignore"):
        AsymmetricALS(factors=2, softmax_epochs=9, learning_rate=1e38).fit(data)


def test_the_same_data_give_the_same_bits():
    rng = np.random.default_rng(2)
    data = data_of([[int(each) for each in rng.permutation(N_ITEMS)[:5]] for _ in range(40)])
    first, again = (AsymmetricALS(factors=3, softmax_epochs=2).fit(data) for _ in range(2))
    assert (first.similarity != again.similarity).nnz == 0
    longer = AsymmetricALS(factors=3, softmax_epochs=3).fit(data)
    assert (first.similarity != longer.similarity).nnz

"""AsymmetricALS by its equations: each half-step minimizes the loss that is documented."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank import AsymmetricALS
from mfrank.models import histories as in_order
from mfrank.models import history_factors
from tests.support.errors import refuses
from tests.support.sequences import DECAYS, HISTORIES, N_ITEMS, data_of, of_history

Dense = np.ndarray[Any, Any]
OPTIONS = st.sampled_from(list(product((0.3, 0.02), (0.05, 1.0), (0, 0.5, 2), (0, 0.3), (0, 0.6))))
"""alpha0, regularization, ahead, item_power, backward."""
FACTORS = 3


def equations(histories: list[list[int]], decays: Any, options: Any) -> tuple[Dense, ...]:
    """X, the weights of the targets of its rows, and those of the rows, from the definition."""
    _, _, ahead, item_power, backward = options
    rows, targets, weights = [], [], []
    for history, weight in [(each, 1.0) for each in histories] + [
        (each[::-1], backward) for each in histories
    ]:
        for place in range(1, len(history)):
            target = np.zeros(N_ITEMS)
            for beyond, item in enumerate(history[place:]):
                if beyond == 0 or (ahead and beyond <= np.ceil(4 * ahead)):
                    target[item] = np.exp(-beyond / ahead) if beyond else 1
            rows.append(of_history(history[:place], decays))
            targets.append(target)
            weights.append(weight)
    users = np.maximum([sum(item in one for one in histories) for item in range(N_ITEMS)], 1)
    shape = len(rows), len(decays) * N_ITEMS
    x, w = np.reshape(rows, shape), np.reshape(targets, (len(rows), N_ITEMS))
    return x, w * (users / users.mean()) ** -item_power, np.array(weights)


def ridges(x: Dense, w: Dense, weights: Dense, options: Any) -> tuple[Dense, Dense]:
    alpha0, regularization, *_ = options
    masses = weights @ x**2, weights @ w + alpha0 * weights.sum()
    return tuple(
        regularization * np.sqrt(np.maximum(each, 1e-3 * each.mean()) * each.mean())
        for each in masses
    )


def value(p: Dense, q: Dense, histories: Any, decays: Any, options: Any) -> float:
    """The loss, term by term."""
    x, w, weights = equations(histories, decays, options)
    of_p, of_q = ridges(x, w, weights, options)
    p = p.reshape(-1, FACTORS)
    scores = x @ p @ q.T
    cells = w * (1 - scores) ** 2 + options[0] * scores**2
    return float(
        weights @ cells.sum(axis=1) + of_p @ (p**2).sum(axis=1) + of_q @ (q**2).sum(axis=1)
    )


def slopes(f: Any, at: Dense) -> Dense:
    """Central differences, which are exact for a quadratic function."""
    found = np.zeros(at.size)
    for number in range(at.size):
        step = np.zeros(at.size)
        step[number] = 0.5
        found[number] = f(at + step.reshape(at.shape)) - f(at - step.reshape(at.shape))
    return found


def loss_of(
    histories: Any, decays: Any, options: Any, factors: int = FACTORS
) -> history_factors.HistoryFactors:
    times = in_order.times_of("AsymmetricALS", "ALS", data_of(histories))
    return history_factors.HistoryFactors(
        in_order.places_of(times), decays, factors, *options, np.float64
    )


LONG = HISTORIES.filter(lambda histories: any(len(each) > 1 for each in histories))


@settings(max_examples=10, deadline=None)
@given(LONG, DECAYS, OPTIONS, st.integers(0, 99))
def test_each_half_step_ends_where_the_loss_has_no_slope(histories, decays, options, seed):
    p = np.random.default_rng(seed).standard_normal((len(decays), N_ITEMS, FACTORS))
    loss = loss_of(histories, decays, options)
    q = loss.items_solved(p)
    scale = max(value(0 * p, 0 * q, histories, decays, options), 1.0)
    found = slopes(lambda each: value(p, each, histories, decays, options), q)
    np.testing.assert_allclose(found, 0, atol=1e-9 * scale)
    better = loss.histories_improved(p, q, steps=200)
    found = slopes(lambda each: value(each, q, histories, decays, options), better)
    np.testing.assert_allclose(found, 0, atol=1e-5 * scale)


@settings(max_examples=12, deadline=None)
@given(LONG, DECAYS, OPTIONS)
def test_the_loss_never_rises(histories, decays, options):
    loss = loss_of(histories, decays, options)
    p, values = loss.start(), []
    for _ in range(3):
        q = loss.items_solved(p)
        values.append(value(p, q, histories, decays, options))
        p = loss.histories_improved(p, q)
        values.append(value(p, q, histories, decays, options))
    assert (np.diff(values) <= 1e-9 * abs(values[0])).all()


@settings(max_examples=10, deadline=None)
@given(LONG, DECAYS, OPTIONS)
def test_the_start_is_the_largest_singular_vectors_of_what_leads_where(histories, decays, options):
    x, w, weights = equations(histories, decays, options)
    users = np.maximum([sum(item in one for one in histories) for item in range(N_ITEMS)], 1)
    root = np.sqrt(users)
    cross = x.T @ (weights[:, None] * w) / np.tile(root, len(decays))[:, None] / root
    p = loss_of(histories, decays, options, N_ITEMS).start().reshape(-1, N_ITEMS)
    left, values, _ = np.linalg.svd(cross, full_matrices=False)
    np.testing.assert_allclose(p @ p.T, (left * values) @ left.T, atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(LONG, DECAYS, OPTIONS, st.integers(1, 9))
def test_users_may_be_in_groups_of_any_size(histories, decays, options, at_once):
    whole = loss_of(histories, decays, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_factors, "_PLACES_AT_ONCE", at_once)
        parted = loss_of(histories, decays, options)
        p = np.random.default_rng(0).standard_normal((len(decays), N_ITEMS, FACTORS))
        q = whole.items_solved(p)
        np.testing.assert_allclose(parted.items_solved(p), q, atol=1e-9)
    for found, wanted in zip(parted.ridges, whole.ridges, strict=True):
        np.testing.assert_allclose(found, wanted)
    np.testing.assert_allclose(
        parted.histories_improved(p, q), whole.histories_improved(p, q), atol=1e-7
    )


@settings(max_examples=10, deadline=None)
@given(HISTORIES, DECAYS, st.sampled_from([(0.0, 0.2), (0.5, 1.0), (0.0, 0.0)]))
def test_a_model_has_the_products_of_its_factors(histories, decays, options):
    ahead, backward = options
    model = AsymmetricALS(decays, 2, ahead=ahead, backward=backward).fit(data_of(histories))
    times = in_order.times_of("AsymmetricALS", "ALS", data_of(histories))
    loss = model._loss(in_order.places_of(times))
    p, q = loss.fitted(model.iterations)
    wanted = p @ q.T
    for block in wanted:
        np.fill_diagonal(block, 0)
    found = model.similarity.toarray().reshape(wanted.shape)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    row = of_history(histories[-1], decays)
    scores = model.score([len(histories) - 1] * N_ITEMS, range(N_ITEMS))
    np.testing.assert_allclose(scores, row @ found.reshape(-1, N_ITEMS), atol=1e-12)


def test_the_order_of_the_items_decides():
    model = AsymmetricALS((0.4,), 6, alpha0=0.1, backward=0).fit(
        data_of([[0, 1, 2], [0, 1, 2], [3, 4, 5], [3, 4, 5], [1, 4, 6]])
    )
    assert model.recommend_from_items([1, 4], N=1).ids.tolist() == [5]
    assert model.recommend_from_items([4, 1], N=1).ids.tolist() == [2]


def test_histories_of_one_item_lead_nowhere():
    model = AsymmetricALS(factors=2).fit(data_of([[0], [1], [5]]))
    assert model.similarity.nnz == 0
    assert model.recommend(0, N=2).ids.tolist() == [-1, -1]


def test_as_many_factors_as_items_and_more_are_of_the_same_loss():
    histories = [[0, 1, 2, 5], [2, 1, 0, 6], [0, 1, 3], [3, 0, 1, 2], [4, 2, 5]]
    for factors in (N_ITEMS, 3 * N_ITEMS):
        model = AsymmetricALS((1.0,), factors, iterations=6).fit(data_of(histories))
        assert model.recommend(4, N=1).ids.tolist()[0] in range(N_ITEMS)


def test_a_model_needs_times_and_memory(monkeypatch):
    data = data_of([[0, 1, 2], [0, 1, 2]])
    with refuses(ValueError, None, remedy="ALS"):
        AsymmetricALS().fit(data.to_scipy())
    monkeypatch.setattr(AsymmetricALS, "bytes_needed", lambda *_: 1 << 60)
    with pytest.raises(MemoryError, match="factors"):
        AsymmetricALS().fit(data)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("decays", ()),
        ("decays", (1.0, 0.0)),
        ("factors", 0),
        ("alpha0", -1.0),
        ("regularization", 0.0),
        ("ahead", -0.1),
        ("item_power", 1.5),
        ("backward", -1.0),
        ("iterations", 0),
        ("neighbors", 0),
        ("softmax_epochs", -1),
        ("learning_rate", 0.0),
        ("dropout", -0.1),
        ("dropout", 1),
    ],
)
def test_options_that_say_nothing_are_refused(option, value):
    with refuses((TypeError, ValueError), option):
        mfrank.AsymmetricALS(**{option: value})

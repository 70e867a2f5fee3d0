"""Who can be evaluated: factors, functions, other libraries' models, and ones without factors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from rankings import EVERYTHING, Factors, per_user, problem, ranked, values

import mfrank
from mfrank.data import HeldOut
from mfrank.evaluation import AUC, Recall
from mfrank.evaluation import evaluate as anywhere
from tests.support.errors import refuses

evaluate = partial(anywhere, backend="reference")


def recommender(model: Factors, pad: int = -1) -> Any:
    def recommend(users: Any, user_items: Any, N: int = 10) -> tuple[Any, Any]:
        ids = np.full((len(users), N), pad)
        scores = np.full((len(users), N), np.nan if pad < 0 else 0.0)
        for row, u in enumerate(users):
            best = ranked(model.scores[u], user_items.toarray()[row] > 0)[:N]
            ids[row, : len(best)], scores[row, : len(best)] = best, model.scores[u, best]
        return ids, scores

    return recommend


class Compiled:
    """A function without a signature that could be read, which tells a third thing."""

    __signature__ = 3

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *args: Any, **options: Any) -> Any:
        ids, scores = self.function(*args, **options)
        return ids, scores, np.isnan(scores)


def test_a_function_gives_what_its_factors_give() -> None:
    model, train, test = problem(11)

    @dataclass
    class Model:
        recommend: Any
        user_factors: Any = None  # of one side alone, which rank nothing
        item_factors: Any = None

    expected = values(evaluate(model, test, train=train, metrics=EVERYTHING))
    ask = recommender(model)
    of_items = Model(ask, None, model.item_factors)
    for form in (ask, Model(ask), Model(ask, model.user_factors), of_items, Compiled(ask)):
        result = evaluate(form, test, train=train, metrics=EVERYTHING)
        np.testing.assert_allclose(values(result), expected)


def test_items_that_a_function_does_not_list_are_its_last() -> None:
    model, train, test = problem(11)
    ask = recommender(model)

    def first_three(users: Any, user_items: Any, N: int = 10) -> tuple[Any, Any]:
        ids, scores = ask(users, user_items, N)
        return ids[:, :3], scores[:, :3]

    def others_tied(users: Any, user_items: Any, N: int = 10) -> tuple[Any, Any]:
        ids, scores = ask(users, user_items, N)
        scores[:, 3:] = np.where(np.isnan(scores[:, 3:]), np.nan, -1e9)
        return ids, scores

    found, expected = (
        per_user(evaluate(form, test, train=train, metrics=AUC), AUC)
        for form in (first_three, others_tied)
    )
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) > 2


def test_padding_that_looks_like_an_item_is_no_second_hit() -> None:
    model, _, test = problem(18)
    model.item_biases = np.where(np.arange(9) == 0, 99, 0).astype(np.float32)  # item 0 comes first
    train = sp.csr_array((test.toarray() == 0) & (np.arange(9) > 0)).astype(np.float64)
    metrics = EVERYTHING[:-2]  # all but those of the catalog
    expected = values(evaluate(model, test, train=train, metrics=metrics))
    result = evaluate(recommender(model, pad=0), test, train=train, metrics=metrics)
    np.testing.assert_allclose(values(result), expected)


def test_an_item_that_is_repeated_has_its_first_rank() -> None:
    listed = np.r_[57, np.arange(20)]
    again = np.r_[np.full(35, 57), np.arange(20)]
    metrics = ["hitrate@1", "mrr", "novelty@70", "intra_list_similarity@70", "gini@76", "auc"]
    train = np.eye(3, 76) + np.eye(3, 76, 73)
    test = sp.csr_array((np.ones(3), (np.arange(3), [57] * 3)), shape=(3, 76))
    found = []
    for rest in (again, np.full(55, -1)):

        def recommend(users: Any, _: Any, N: int, ids: Any = np.r_[listed, rest]) -> Any:
            return np.tile(ids[:N], (3, 1)), np.tile(-np.arange(N), (3, 1))

        found.append(evaluate(recommend, test, train=sp.csr_array(train), metrics=metrics))
    assert found[0]["hitrate@1"].value == 1
    np.testing.assert_array_equal(values(found[0]), values(found[1]))


@pytest.mark.parametrize(
    "ids",
    [
        np.zeros((5, 2), int),
        np.zeros(12, int),
        np.full((12, 3), 9),
        np.full((12, 3), -2),
        np.full((12, 3), 0.5),
        np.zeros((12, 4), int),
    ],
)
def test_a_function_that_returns_something_else(ids: Any) -> None:
    test = sp.csr_array(np.ones((12, 9)))
    nothing = sp.csr_array(test.shape)
    with refuses(ValueError, "recommend"):
        evaluate(lambda users, _, N: (ids, ids * 0.0), test, train=nothing, metrics=Recall @ 3)


def test_another_library_s_rows_of_zeros_are_nothing_that_it_knows() -> None:
    """Unless biases rank items for a user of whom nothing else is known."""
    theirs = SimpleNamespace(
        user_factors=np.array([[0.0], [1.0]]),
        item_factors=np.array([[0.0], [-1.0], [-2.0], [-3.0]]),
        recommend=print,  # by which it could be asked, too
    )
    first = sp.csr_array(np.array([[1.0, 0, 0, 0], [1, 0, 0, 0]]))
    asked: Any = {"filter_already_liked_items": False, "metrics": ["hitrate@4", "auc"]}
    found = evaluate(theirs, first, **asked)
    assert found["hitrate@4"].per_user.tolist() == [0, 0]
    assert found["auc"].per_user.tolist() == [0.5, 0]
    theirs.item_biases = np.array([1.0, 3, 2, 0])
    found = evaluate(theirs, first, **asked)
    assert found["hitrate@4"].per_user.tolist() == [1, 1]
    assert found["auc"].per_user.tolist() == [1 / 3, 2 / 3]


@pytest.mark.parametrize("model", [mfrank.ItemKNN(), mfrank.ItemFilter()], ids=["kNN", "filter"])
@pytest.mark.parametrize("way", ["model", "recommend", "folded in", "folded in with times"])
def test_an_item_to_which_nothing_leads_is_no_hit(model: Any, way: str) -> None:
    """Two parts of the catalog without a user in common: in the other, all scores are 0."""
    rng = np.random.default_rng(0)
    part = np.arange(12)[:, None] % 2 == np.arange(10) % 2
    users, items = np.nonzero(part & (rng.random((12, 10)) < 0.7))
    times = np.arange(len(users)) if way == "folded in with times" else None
    data = mfrank.Interactions.from_arrays(users, items, timestamps=times, shape=(12, 10))
    other = mfrank.Interactions.from_arrays(*np.nonzero(~part))
    model.fit(data)
    of, test, options = model, other, {}
    if way == "recommend":
        of, options = model.recommend, {"train": data}
    elif way != "model":
        test = HeldOut(np.arange(12), data, other)
    for negatives in (None, 9):
        found = evaluate(of, test, metrics="hitrate@10", negatives=negatives, **options)
        assert found.n_users == 12
        assert found["hitrate@10"].value == 0

"""Explanations sum to the score, part by part what the equations say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import als, labeled
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import OBJECTIVES, toy

import mfrank
from mfrank.arrays import CSR
from tests.support.errors import refuses


@pytest.mark.parametrize("name", OBJECTIVES)
def test_contributions_and_baseline_sum_to_the_score(name: str) -> None:
    matrix = toy(20, 15)
    model = als(OBJECTIVES[name], dtype="float64").fit(matrix)
    for user, item in ((0, 3), (7, 1), (10, 2)):  # user 10 has nothing
        explanation = model.explain(user, None, item, N=99)
        score, parts, baseline = explanation.score, explanation.contributions, explanation.baseline
        assert score == pytest.approx(sum(part for _, part in parts) + baseline, abs=1e-9)
        assert score == pytest.approx(model.score([user], [item])[0], abs=1e-7)
        assert sorted(i for i, _ in parts) == sorted(matrix[[user]].indices.tolist())
        values = [part for _, part in parts]
        assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(
    "name", ["wrmf", "wrmf hu", "ials", "ials weighted", "eals", "rg2", "rgx", "rg2 sampled"]
)
def test_a_contribution_is_what_the_pull_of_that_item_alone_would_score(name: str) -> None:
    """With the row's matrix A held: q_i' A^-1 (d_y q_y), by a solve of the system written out."""
    objective, matrix = OBJECTIVES[name], toy(20, 15)
    model = als(objective, dtype="float64").fit(matrix)
    counts, q = model.store.counts, model.item_factors
    row = CSR.from_scipy(matrix[[7]], "f8")
    problem = objective.user_problem(row, counts)
    w, kappa = objective.item_weights(counts.items, counts), objective.interaction(15)
    background = (q.T * w) @ q - kappa * np.outer(q.T @ w, q.T @ w)
    mine = q[row.indices]
    system = problem.weight[0] * background + (mine.T * problem.curvature()) @ mine
    system += problem.ridge[0] * np.eye(4)
    explanation = model.explain(7, matrix, 1, N=99)
    for item, part in explanation.contributions:
        pull = problem.pull()[row.indices == item][0] * q[item]
        assert part == pytest.approx(q[1] @ np.linalg.solve(system, pull), abs=1e-9)
    shared = problem.weight[0] * objective.target * (q.T @ w)
    assert explanation.baseline == pytest.approx(q[1] @ np.linalg.solve(system, shared), abs=1e-9)


def test_the_greatest_contributions_come_first_in_the_ids_of_the_data() -> None:
    model, matrix = als(mfrank.WRMF(alpha=3)).fit(labeled()), toy()
    whole = model.explain("u0", labeled(), "i2", N=99)
    brief = model.explain("u0", matrix[[0]], "i2", N=2)
    assert brief.contributions == whole.contributions[:2]
    assert brief.score == whole.score
    assert model.explain("u0", labeled(), "i2", N=99) == whole
    assert "user_weights" not in repr(whole)  # numbers that are passed on
    numbers = model.explain(0, matrix, 2, N=2, by_row=True)
    assert [f"i{item}" for item, _ in numbers.contributions] == [i for i, _ in brief.contributions]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_weights_of_one_explanation_serve_for_other_items(name: str) -> None:
    matrix = toy(20, 15)
    model = als(OBJECTIVES[name], dtype="float64").fit(matrix)
    score, contributions, weights = model.explain(7, matrix, 1)
    first = model.explain(7, matrix, 1)
    assert (score, contributions) == (first.score, first.contributions)
    for item in (1, 4, 14):
        assert model.explain(7, None, item, user_weights=weights) == model.explain(7, None, item)
    factors = weights.parts.sum(axis=0) + weights.background
    np.testing.assert_allclose(factors, model.recalculate_user(7, matrix), atol=1e-7)


def test_weights_of_something_else_are_refused() -> None:
    wide, narrow = (als(factors=width).fit(toy()) for width in (4, 3))
    weights = wide.explain(0, None, 2).user_weights
    with refuses(ValueError, "user_weights"):
        narrow.explain(0, None, 2, user_weights=weights)
    with refuses(TypeError, "user_weights"):
        wide.explain(0, None, 2, user_weights=0.5)  # type: ignore[arg-type]


AFTERWARDS: dict[str, Callable[[mfrank.ALS], object]] = {
    "a fit": lambda model: model.set_params(random_state=1).fit(toy()),
    "a fit of another objective": lambda model: model.set_params(
        objective=mfrank.IALS(alpha0=0.3)
    ).fit(toy()),
    "an update": lambda model: model.partial_fit(
        mfrank.Interactions.from_arrays([3], [0], shape=(9, 7))
    ),
    "a removal": lambda model: model.remove(users=[8]),
}


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("change", AFTERWARDS)
def test_weights_of_the_model_as_it_was_are_refused(change: str, biases: bool) -> None:
    model, same = (als(biases=biases).fit(toy()) for _ in range(2))
    weights = model.explain(0, None, 2).user_weights
    assert same.explain(0, None, 2, user_weights=weights) == same.explain(0, None, 2)
    AFTERWARDS[change](model)
    with refuses(ValueError, "user_weights", remedy="explain without them once"):
        model.explain(0, None, 2, user_weights=weights)


def test_a_dislike_adds_nothing_and_a_stranger_can_be_explained() -> None:
    model = als(mfrank.WRMF()).fit(toy(values="dislikes"))
    row = sp.csr_array([[1.0, -2.0, 0, 0, 0, 0, 0]])
    explanation = model.explain("stranger", row, 4)
    assert dict(explanation.contributions)[1] == 0
    folded = model.recalculate_user("stranger", row)
    assert explanation.score == pytest.approx(folded @ model.item_factors[4], abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        (([0, 1], None, 2), "userid"),
        ((0, None, [2]), "itemid"),
        ((0, None, 7), "itemid"),
        ((9, None, 2), "userid"),
        ((0, toy()[:2], 2), "user_items"),
        ((0, None, 2, 0), "N"),
    ],
)
def test_what_cannot_be_explained(arguments: Any, argument: str) -> None:
    with refuses((TypeError, ValueError), argument):
        als().fit(toy()).explain(*arguments)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    name=st.sampled_from(sorted(OBJECTIVES)),
    factors=st.integers(1, 12),
)
def test_any_fitted_user_folds_in_and_is_explained(seed: int, name: str, factors: int) -> None:
    matrix = toy(11, 8, seed=seed)
    model = als(OBJECTIVES[name], factors=factors, dtype="float64", iterations=2).fit(matrix)
    folded = model.recalculate_user(range(11), matrix)
    scores = model.user_factors @ model.item_factors.T
    np.testing.assert_allclose(folded @ model.item_factors.T, scores, atol=1e-6)
    assert model.explain(3, None, 5).score == pytest.approx(scores[3, 5], abs=1e-6)


def test_scores_with_biases_are_split_up_too() -> None:
    """The user's bias is solved beside their factors, so their items have a part in it."""
    matrix = toy(20, 15)
    model = als(mfrank.IALS(alpha0=0.3), biases=True, dtype="float64").fit(matrix)
    for user, item in ((0, 3), (7, 1), (12, 14)):
        explanation = model.explain(user, None, item, N=99)
        parts = sum(part for _, part in explanation.contributions)
        assert explanation.score == pytest.approx(parts + explanation.baseline, abs=1e-9)
        assert explanation.score == pytest.approx(model.score([user], [item])[0], abs=1e-6)


def test_ten_contributions_are_listed_by_default() -> None:
    matrix = toy(20, 40, density=0.7)
    model = als().fit(matrix)
    assert len(model.explain(0, None, 3).contributions) == 10


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("by_row", [False, True])
def test_weights_explain_to_one_user_only(by_row: bool, row: int) -> None:
    """An id and its row are one user, whom the model knows or not."""
    data = labeled()
    model = als().fit(data)
    users, items = data.user_ids.labels, data.item_ids.labels
    who, what = (row, 2) if by_row else (users[row], items[2])
    weights = model.explain(who, None, what, by_row=by_row).user_weights
    again = model.explain(who, None, what, by_row=by_row, user_weights=weights)
    assert again.score == model.explain(users[row], None, items[2], user_weights=weights).score
    for other in (users[1 - row], "nobody"):
        with refuses(ValueError, "user_weights"):
            model.explain(other, None, items[2], user_weights=weights)
    rows = mfrank.Interactions.from_arrays(["new", "newer"], [items[0], items[1]])
    new = model.explain("new", rows, items[2]).user_weights
    assert model.explain("new", None, items[2], user_weights=new).user_weights is new
    with refuses(ValueError, "user_weights"):
        model.explain("newer", rows, items[2], user_weights=new)


@pytest.mark.parametrize("kind", [mfrank.ItemKNN, mfrank.ItemFilter, lambda: mfrank.EASE(3.0)])
@pytest.mark.parametrize("is_given", [False, True])
def test_links_from_a_users_items_sum_to_the_score(kind: Any, is_given: bool) -> None:
    data = labeled()
    model = kind().fit(data)
    for user in data.user_ids.labels[:4].tolist():
        row = data if is_given else None
        for item in data.item_ids.labels[:5].tolist():
            why = model.explain(user, row, item, N=99)
            assert why.baseline == 0
            assert why.score == pytest.approx(sum(part for _, part in why.contributions))
            assert why.score == pytest.approx(model.score([user], [item])[0])
            assert model.explain(user, row, item, N=1).contributions == why.contributions[:1]
            without = {i for i, _ in why.contributions}
            others = data.take(
                (data.entry_users != data.user_ids.rows([user])[0])
                | ~np.isin(data.item_ids.raw(data.user_items.indices), list(without))
            )
            assert model.explain(user, others, item).score == pytest.approx(0)


@pytest.mark.parametrize("kind", [mfrank.ItemKNN, mfrank.SupervisedPageRank, mfrank.Popularity])
def test_somebody_new_gets_the_list_of_a_user_with_these_items(kind: Any) -> None:
    times = np.arange(labeled().nnz)
    data = mfrank.Interactions.from_arrays(
        labeled().user_ids.raw(labeled().entry_users),
        labeled().item_ids.raw(labeled().user_items.indices),
        timestamps=times,
    )
    model = kind().fit(data)
    user = data.user_ids.labels[2]
    own = data.item_ids.raw(data.user_items[[2]].indices)
    ids, scores = model.recommend_from_items(own, N=5)
    row = data.user_items[[2]].astype(bool).astype(float)
    expected = model.recommend([user], row, 5, recalculate_user=True)
    assert ids.tolist() == expected.ids[0].tolist()
    np.testing.assert_allclose(scores, expected.scores[0])
    assert not set(ids.tolist()) & set(own.tolist())


@pytest.mark.parametrize("kind", [mfrank.EASE, mfrank.Popularity, mfrank.SupervisedPageRank])
def test_values_of_somebody_new_that_are_not_read_are_told(kind: Any, caplog: Any) -> None:
    drawn = mfrank.synthetic(20, 9, 90, random_state=0)
    data = mfrank.Interactions.from_arrays(
        drawn.entry_users, drawn.user_items.indices, timestamps=np.arange(drawn.nnz)
    )
    model = kind().fit(data)
    caplog.clear()
    one = model.recommend_from_items([1, 2], N=3, values=[1, 5])
    assert f"{kind.__name__} does not read values" in caplog.text
    assert one.ids.tolist() == model.recommend_from_items([1, 2], N=3).ids.tolist()

"""Fold-in, growth and explanation: single rows solved as the fit solves them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import ITEMS, als, labelled, same_factors
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from problems import OBJECTIVES, toy

import mfrank
from mfrank.als import HalfSteps
from mfrank.backends import SolveOptions, reference
from mfrank.csr import CSR

ROUNDING = {"float32": 5e-4, "float64": 1e-7}


def item_half_step(model: mfrank.ALS, matrix: sp.csr_array) -> NDArray[Any]:
    """Every item's row solved against the model's factors, its item sum as it stands."""
    counts, store = model.store.counts, model.store
    steps = HalfSteps(model.objective, counts, reference, SolveOptions())  # type: ignore[arg-type]
    weights = model.objective.item_weights(counts.items, counts)
    gram = steps.user_gram(store.user_factors)
    shared = steps.shared_by_items(gram, weights @ store.item_factors)
    out = np.zeros_like(store.item_factors)
    rows = CSR.from_scipy(sp.csr_array(matrix.T), store.dtype)
    problem = model.objective.item_problem(rows, counts)
    reference.solve_rows(problem, store.user_factors, shared, out, steps.options)
    return out


# --- recalculate


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("solver", ["auto", "cholesky"])
def test_fitted_users_are_folded_in_to_their_own_factors(
    name: str, dtype: str, solver: str
) -> None:
    matrix = toy(20, 15)
    model = als(OBJECTIVES[name], dtype=dtype, solver=solver).fit(matrix)
    everyone = model.recalculate_user(range(20), matrix)
    np.testing.assert_allclose(everyone, model.user_factors, atol=ROUNDING[dtype])
    assert everyone.dtype == dtype
    alone = model.recalculate_user(7, matrix[[7]])
    assert alone.shape == (4,)
    np.testing.assert_allclose(alone, model.user_factors[7], atol=ROUNDING[dtype])


@pytest.mark.parametrize("name", OBJECTIVES)
def test_items_are_folded_in_by_the_item_half_step(name: str) -> None:
    matrix = toy(20, 15)
    model = als(OBJECTIVES[name], dtype="float64").fit(matrix)
    expected = item_half_step(model, matrix)
    folded = model.recalculate_item(range(15), sp.csr_array(matrix.T))
    np.testing.assert_allclose(folded, expected, atol=1e-7)
    alone = model.recalculate_item(2, matrix.T.tocsr()[[2]])
    np.testing.assert_allclose(alone, expected[2], atol=1e-7)


def test_at_convergence_items_fold_in_to_their_own_factors() -> None:
    """RGx couples the items through their sum, which a fold-in holds fixed: no matter here."""
    matrix = toy(20, 15)
    for name in ("rgx", "rg2", "wrmf"):
        model = als(OBJECTIVES[name], factors=2, iterations=1500, dtype="float64").fit(matrix)
        again = model.recalculate_item(range(15), sp.csr_array(matrix.T))
        np.testing.assert_allclose(again, model.item_factors, atol=1e-4)


def test_nothing_is_stored_and_rows_come_in_any_form() -> None:
    matrix, model = toy(), als(mfrank.WRMF(alpha=2)).fit(labelled())
    before = model.store
    whole = model.recalculate_user(["u3", "u0"], labelled())
    assert whole.shape == (2, 4)
    for rows in (matrix, matrix[[3, 0]], sp.csr_matrix(matrix)[[3, 0]].tocoo(), matrix.tolil()):
        np.testing.assert_array_equal(model.recalculate_user(["u3", "u0"], rows), whole)
    np.testing.assert_array_equal(model.recalculate_user([3, 0], matrix, by_row=True), whole)
    np.testing.assert_array_equal(model.recalculate_user([3, 0], labelled(), by_row=True), whole)
    assert model.store is before


def test_interactions_are_read_by_their_ids_whatever_their_order() -> None:
    model, matrix = als(mfrank.WRMF(alpha=2), dtype="float64").fit(labelled()), toy()
    shuffled = mfrank.Interactions.from_sparse(
        matrix[[5, 1]][:, [6, 4, 0, 1, 3, 5, 2]],
        user_ids=["stranger", "u1"],
        item_ids=["i6", "i4", "i0", "i1", "i3", "i5", "i2"],
    )
    folded = model.recalculate_user(["stranger", "u1"], shuffled)
    np.testing.assert_allclose(folded, model.user_factors[[5, 1]], atol=1e-7)


def test_strangers_may_be_called_anything() -> None:
    matrix = toy()
    for model in (als().fit(matrix), als().fit(labelled())):
        known = model.recalculate_user(1, matrix, by_row=True)
        for name in ("nobody", 999, -1):
            np.testing.assert_array_equal(model.recalculate_user(name, matrix[[1]]), known)


@pytest.mark.parametrize(
    ("raw", "rows", "message"),
    [
        ([0, 1], toy()[[0]], "user_items must have 9 rows .* or 2 rows .* got 1"),
        (99, toy(), "user_items must have 1 rows .* got 9"),
        (0, toy()[:, :5], "user_items must have a column for each of the 7 items, got 5"),
        (0, np.ones((1, 7)), "user_items must be Interactions or a scipy sparse matrix"),
        (0, None, "user_items must be Interactions or a scipy sparse matrix"),
        (0, sp.csr_array([[np.nan] * 7]), "user_items: values must be finite"),
        (0, sp.csr_array([[-1.0] * 7]), "user_items has 7 negative values"),
        ([[0, 1]], toy(), "userid: ids must be hashable"),
        ("u0", labelled(), "user_items: unknown ids: 'i"),
        (None, toy(), "missing"),
    ],
)
def test_rows_that_do_not_fit_are_refused(raw: Any, rows: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        als().fit(toy()).recalculate_user(raw, rows)


def test_fold_in_follows_the_factors_and_options_of_now() -> None:
    """What rows share is kept between calls: it must not outlive what it was made from."""
    matrix, model = toy(), als().fit(toy())
    first = model.recalculate_user(0, matrix)
    model.fit(toy(seed=1))
    fresh = als().fit(toy(seed=1))
    np.testing.assert_array_equal(
        model.recalculate_user(0, matrix), fresh.recalculate_user(0, matrix)
    )
    assert not np.array_equal(first, fresh.recalculate_user(0, matrix))
    model.set_params(objective=mfrank.IALS(alpha0=2.0))
    assert not np.array_equal(model.recalculate_user(0, matrix), fresh.recalculate_user(0, matrix))


# --- recommend from items


@pytest.mark.parametrize("name", ["wrmf", "rgx", "eals"])
def test_items_liked_stand_for_a_user(name: str) -> None:
    model = als(OBJECTIVES[name]).fit(labelled())
    row = sp.csr_array([[0, 3.0, 0, 0, 1, 0, 0]])
    expected = model.recommend("stranger", row, recalculate_user=True, N=6)
    got = model.recommend_from_items(["i4", "i1"], N=6, values=[1, 3])
    numbers = model.recommend_from_items(np.array([4, 1]), N=6, values=[1, 3], by_row=True)
    for a, b, c in zip(expected, got, numbers, strict=True):
        assert a.shape == b.shape == (6,)
        if b.dtype == object:
            assert a.tolist() == b.tolist() == [i if i is None else f"i{i}" for i in _or_none(c)]
        else:
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(b, c)


def _or_none(rows: NDArray[Any]) -> list[int | None]:
    return [None if row < 0 else int(row) for row in rows]


def test_what_they_have_is_not_recommended_even_of_no_value() -> None:
    ids, _ = als(mfrank.WRMF()).fit(toy()).recommend_from_items([1, 4, 1], values=[1, 0, 2], N=7)
    assert sorted(ids.tolist()) == [-1, -1, 0, 2, 3, 5, 6]


def test_nobody_likes_nothing() -> None:
    ids, scores = als().fit(toy()).recommend_from_items([], N=3)
    assert ids.tolist() == [0, 1, 2]
    assert not scores.any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"itemids": [7]}, "itemids must lie in 0..6, got 7"),
        ({"itemids": ["x"]}, "itemids"),
        ({"itemids": [1], "values": [1, 2]}, "values must hold a number for each of the 1 itemids"),
        ({"itemids": [1], "values": [np.nan]}, "values must be finite"),
        ({"itemids": [1], "values": [-1]}, "negative values"),
        ({"itemids": [1], "N": 0}, "N must be at least 1"),
        ({"itemids": [1], "items": [9]}, "items must lie in"),
    ],
)
def test_items_liked_are_checked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        als().fit(toy()).recommend_from_items(**arguments)


# --- partial fit


@pytest.mark.parametrize("name", OBJECTIVES)
def test_partial_fit_stores_what_recalculation_gives(name: str) -> None:
    matrix, model = toy(), als(OBJECTIVES[name]).fit(toy())
    rows = sp.csr_array(toy(seed=5)[[0, 1, 2]])
    expected = model.recalculate_user([2, 9, 10], rows)
    items = model.item_factors
    assert model.partial_fit_users([2, 9, 10], rows) is model
    np.testing.assert_array_equal(model.user_factors[[2, 9, 10]], expected)
    np.testing.assert_array_equal(model.item_factors, items)
    assert (len(model.user_ids), model.store.n_users) == (11, 11)
    assert model.store.counts.users[[2, 9, 10]].tolist() == np.diff(rows.indptr).tolist()
    for user, row in ((2, 0), (10, 2)):
        listed = set(model.recommend(user, N=7)[0].tolist()) - {-1}
        assert listed == set(range(7)) - set(rows[[row]].indices.tolist())
    assert matrix.shape == (9, 7)


@pytest.mark.parametrize("name", ["wrmf", "ials", "rg2", "rgx"])
def test_new_items_join_and_can_be_recommended(name: str) -> None:
    model = als(OBJECTIVES[name]).fit(labelled())
    rows = sp.csr_array(np.eye(9)[[0, 4]] + np.eye(9)[[1, 5]])
    expected = model.recalculate_item(["i3", "brand new"], rows)
    model.partial_fit_items(["i3", "brand new"], rows)
    assert model.item_ids.labels.tolist() == [*ITEMS, "brand new"]
    np.testing.assert_array_equal(model.item_factors[[3, 7]], expected)
    assert model.store.counts.items[[3, 7]].tolist() == [2, 2]
    for user, has_it in (("u4", True), ("u5", True), ("u0", False)):
        assert ("brand new" in model.recommend(user, N=8)[0]) != has_it
    assert "i3" not in model.recommend("u0", N=8)[0]


def test_one_id_is_as_good_as_a_list() -> None:
    row = sp.csr_array([[1.0, 0, 0, 0, 0, 0, 1]])
    one, many = als().fit(labelled()), als().fit(labelled())
    one.partial_fit_users("new", row)
    many.partial_fit_users(["new"], row)
    assert same_factors(one, many)
    one, many = als().fit(toy()), als().fit(toy())
    assert same_factors(one.partial_fit_users(9, row), many.partial_fit_users([9], row))


def test_users_who_bring_everything_again_stay_as_they_are() -> None:
    model = als(dtype="float64").fit(labelled())
    users, counts = model.user_factors, model.store.counts
    model.partial_fit_users(model.user_ids.labels, labelled())
    np.testing.assert_allclose(model.user_factors, users, atol=1e-7)
    np.testing.assert_array_equal(model.store.counts.users, counts.users)
    model.partial_fit_users(range(9), toy(), by_row=True)
    np.testing.assert_allclose(model.user_factors, users, atol=1e-7)


def test_messy_rows_count_as_a_fit_counts_them() -> None:
    """Duplicates are one item, explicit zeros none."""
    messy = sp.csr_array(
        (np.array([1.0, 1.0, 0.0, 2.0]), np.array([5, 5, 1, 0]), np.array([0, 4])), shape=(1, 7)
    )
    model = als(mfrank.WRMF()).fit(toy()).partial_fit_users(9, messy)
    assert model.store.counts.users[9] == 2
    assert 1 in model.recommend(9, N=7)[0]
    tidy = als(mfrank.WRMF()).fit(toy()).partial_fit_users(9, sp.csr_array([[2, 0, 0, 0, 0, 2, 0]]))
    np.testing.assert_array_equal(model.user_factors, tidy.user_factors)


@pytest.mark.parametrize(
    ("data", "ids", "options", "message"),
    [
        (toy(), [0, 0], {}, "userids must not repeat"),
        (toy(), [10, 9, 10], {}, "userids must not repeat"),
        (toy(), [10, 11], {}, "userids: new users must continue the numbering from 9, got 10"),
        (toy(), [-1, 0], {}, "userids must lie in"),
        (toy(), [1.5, 0], {}, "userids"),
        (toy(), ["u0", "u1"], {}, "userids"),
        (labelled(), ["u0", "u0"], {}, "userids must not repeat"),
        (labelled(), ["x", "x"], {}, "userids must not repeat"),
        (labelled(), [0, 9], {"by_row": True}, "new users need ids"),
    ],
)
def test_ids_that_cannot_join_change_nothing(
    data: Any, ids: Any, options: dict[str, Any], message: str
) -> None:
    model = als().fit(data)
    store = model.store
    with pytest.raises((ValueError, TypeError), match=message):
        model.partial_fit_users(ids, toy()[: len(ids)], **options)
    assert model.store is store


def test_users_and_items_may_join_in_turn() -> None:
    model = als().fit(toy())
    model.partial_fit_users([9, 10], toy()[:2]).partial_fit_items(7, sp.csr_array(np.ones((1, 11))))
    model.partial_fit_users(11, sp.csr_array([[1, 0, 0, 0, 0, 0, 0, 1]]))
    assert model.store.n_users, model.store.n_items == (12, 8)
    assert 7 not in model.recommend(11, N=8)[0]
    assert model.recommend_users(7, N=12)[0].tolist() == [-1] * 12


def test_without_interactions_a_model_grows_all_the_same(tmp_path: Any) -> None:
    als().fit(toy()).save(tmp_path / "m", with_seen=False)
    model: Any = mfrank.load(tmp_path / "m")
    model.partial_fit_users(9, toy()[[0]])
    assert model.recommend(9, toy()[[0]])[0].shape == (10,)


# --- explain


@pytest.mark.parametrize("name", OBJECTIVES)
def test_contributions_and_baseline_sum_to_the_score(name: str) -> None:
    matrix = toy(20, 15)
    model = als(OBJECTIVES[name], dtype="float64").fit(matrix)
    for user, item in ((0, 3), (7, 1), (10, 2)):  # user 10 has nothing
        score, parts, baseline = model.explain(user, None, item, N=99)
        assert score == pytest.approx(sum(part for _, part in parts) + baseline, abs=1e-9)
        assert score == pytest.approx(model.score([user], [item])[0], abs=1e-7)
        assert sorted(i for i, _ in parts) == sorted(matrix[[user]].indices.tolist())
        values = [part for _, part in parts]
        assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("name", ["wrmf", "wrmf hu", "ials", "eals", "rg2", "rgx", "rg2 sampled"])
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
    _, parts, baseline = model.explain(7, matrix, 1, N=99)
    for item, part in parts:
        pull = problem.pull()[row.indices == item][0] * q[item]
        assert part == pytest.approx(q[1] @ np.linalg.solve(system, pull), abs=1e-9)
    shared = problem.weight[0] * objective.target * (q.T @ w)
    assert baseline == pytest.approx(q[1] @ np.linalg.solve(system, shared), abs=1e-9)


def test_the_greatest_contributions_come_first_in_the_ids_of_the_data() -> None:
    model, matrix = als(mfrank.WRMF(alpha=3)).fit(labelled()), toy()
    whole = model.explain("u0", labelled(), "i2", N=99)
    brief = model.explain("u0", matrix[[0]], "i2", N=2)
    assert brief.contributions == whole.contributions[:2]
    assert brief.score == whole.score
    numbers = model.explain(0, matrix, 2, N=2, by_row=True)
    assert [f"i{item}" for item, _ in numbers.contributions] == [i for i, _ in brief.contributions]


def test_a_dislike_adds_nothing_and_a_stranger_can_be_explained() -> None:
    model = als(mfrank.WRMF()).fit(toy(values="dislikes"))
    row = sp.csr_array([[1.0, -2.0, 0, 0, 0, 0, 0]])
    explanation = model.explain("stranger", row, 4)
    assert dict(explanation.contributions)[1] == 0
    folded = model.recalculate_user("stranger", row)
    assert explanation.score == pytest.approx(folded @ model.item_factors[4], abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], None, 2), "userid must be one id"),
        ((0, None, [2]), "itemid must be one id"),
        ((0, None, 7), "itemid must lie in 0..6, got 7"),
        ((9, None, 2), "userid must lie in 0..8, got 9"),
        ((0, toy()[:2], 2), "user_items must have 9 rows"),
        ((0, None, 2, 0), "N must be at least 1"),
    ],
)
def test_what_cannot_be_explained(arguments: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
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

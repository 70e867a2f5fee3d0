"""Fold-in: single rows solved as the fit solves them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import als, labeled
from numpy.typing import NDArray
from problems import OBJECTIVES, solve_plainly, toy

import mfrank
from mfrank.als import HalfSteps
from mfrank.arrays import CSR
from mfrank.backends import Gram, SolveOptions, reference
from tests.support.errors import refuses

ROUNDING = {"float32": 5e-4, "float64": 1e-7}


def item_half_step(model: mfrank.ALS, matrix: sp.csr_array) -> NDArray[Any]:
    """Every item's row solved against the model's factors, its item sum as it stands."""
    counts, store = model.store.counts, model.store
    steps = HalfSteps(model.objective, counts, reference, SolveOptions())  # type: ignore[arg-type]
    weights = model.objective.item_weights(counts.items, counts)
    gram = steps.user_gram(store.user_factors)
    kappa = model.objective.interaction(len(counts.items))
    driven = kappa * gram.matrix @ (weights @ store.item_factors)
    gram = Gram(gram.matrix, model.objective.target * gram.vector + driven)
    rows = CSR.from_scipy(sp.csr_array(matrix.T), store.dtype)
    problem = model.objective.item_problem(rows, counts)
    return solve_plainly(problem, store.user_factors, gram)


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


def test_rows_so_long_that_a_fit_iterates_are_folded_in_exactly() -> None:
    matrix = toy(40, 110, density=0.9)
    model = als(factors=96, dtype="float64", solver="cholesky").fit(matrix)
    everyone = model.recalculate_user(range(40), matrix)
    np.testing.assert_allclose(everyone, model.user_factors, atol=1e-7)


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
        model = als(OBJECTIVES[name], factors=1, iterations=300, dtype="float64", n_threads=1).fit(
            matrix
        )
        again = model.recalculate_item(range(15), sp.csr_array(matrix.T))
        np.testing.assert_allclose(again, model.item_factors, atol=1e-4)


def test_nothing_is_stored_and_rows_come_in_any_form() -> None:
    matrix, model = toy(), als(mfrank.WRMF(alpha=2)).fit(labeled())
    before = model.store
    whole = model.recalculate_user(["u3", "u0"], labeled())
    assert whole.shape == (2, 4)
    for rows in (matrix, matrix[[3, 0]], sp.csr_matrix(matrix)[[3, 0]].tocoo(), matrix.tolil()):
        np.testing.assert_array_equal(model.recalculate_user(["u3", "u0"], rows), whole)
    np.testing.assert_array_equal(model.recalculate_user([3, 0], matrix, by_row=True), whole)
    np.testing.assert_array_equal(model.recalculate_user([3, 0], labeled(), by_row=True), whole)
    assert model.store is before


def test_interactions_are_read_by_their_ids_whatever_their_order() -> None:
    model, matrix = als(mfrank.WRMF(alpha=2), dtype="float64").fit(labeled()), toy()
    shuffled = mfrank.Interactions.from_sparse(
        matrix[[5, 1]][:, [6, 4, 0, 1, 3, 5, 2]],
        user_ids=["stranger", "u1"],
        item_ids=["i6", "i4", "i0", "i1", "i3", "i5", "i2"],
    )
    folded = model.recalculate_user(["stranger", "u1"], shuffled)
    np.testing.assert_allclose(folded, model.user_factors[[5, 1]], atol=1e-7)


def test_strangers_may_be_called_anything() -> None:
    matrix = toy()
    for model in (als().fit(matrix), als().fit(labeled())):
        known = model.recalculate_user(1, matrix, by_row=True)
        for name in ("nobody", 999, -1):
            np.testing.assert_array_equal(model.recalculate_user(name, matrix[[1]]), known)


@pytest.mark.parametrize(
    ("raw", "rows", "argument"),
    [
        ([0, 1], toy()[[0]], "user_items"),
        (99, toy(), "user_items"),
        (0, toy()[:, :5], "user_items"),
        (0, np.ones((1, 7)), "user_items"),
        (0, None, "user_items"),
        (0, sp.csr_array([[np.nan] * 7]), "user_items"),
        (0, sp.csr_array([[-1.0] * 7]), "user_items"),
        ([[0, 1]], toy(), "userid"),
        ("u0", labeled(), "user_items"),
        (None, toy(), "userid"),
    ],
)
def test_rows_that_do_not_fit_are_refused(raw: Any, rows: Any, argument: str) -> None:
    with refuses((ValueError, TypeError), argument):
        als().fit(toy()).recalculate_user(raw, rows)


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (toy(7, 9)[:3], {"argument": "item_users"}),
        (np.ones((1, 9)), {"argument": "item_users"}),
        (sp.csr_array([[np.nan] * 9]), {"argument": "item_users", "remedy": "drop or replace"}),
        (sp.csr_array([[-1.0] * 9]), {"argument": "item_users", "remedy": "Drop them"}),
    ],
)
def test_rows_of_items_that_do_not_fit_are_refused(rows: Any, fault: dict[str, str]) -> None:
    with refuses((ValueError, TypeError), **fault):
        als().fit(toy()).recalculate_item(2, rows)


def test_zeros_of_a_given_matrix_are_no_likes_and_stay_in_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model, matrix = als(mfrank.WRMF(alpha=2)).fit(toy()), toy()
    with_zeros = matrix.copy()
    with_zeros.data[::3] = 0
    without = with_zeros.copy()
    without.eliminate_zeros()
    caplog.set_level("INFO", "mfrank")
    caplog.clear()
    folded = model.recalculate_user(range(9), with_zeros)
    np.testing.assert_array_equal(folded, model.recalculate_user(range(9), without))
    assert with_zeros.nnz == matrix.nnz
    assert not caplog.records


def test_an_objective_of_ones_own_solves_rows_as_the_fit_did() -> None:
    """Also where its class can be found by no import, and a copy of the fit cannot be saved."""

    @dataclass(frozen=True)
    class Own(mfrank.IALS):
        pass

    matrix, model = toy(), als(Own(alpha0=0.3))
    model.fit(matrix)
    same = als(mfrank.IALS(alpha0=0.3)).fit(matrix)
    np.testing.assert_array_equal(
        model.recalculate_user(0, matrix), same.recalculate_user(0, matrix)
    )


def test_a_store_without_the_biases_of_its_fit_is_damaged() -> None:
    store = als(biases=True).fit(toy()).store
    for changes in ({"user_biases": None}, {"item_biases": None}):
        with refuses(ValueError, place="the store", remedy="restore it"):
            mfrank.ALS._from_store(replace(store, **changes))


def test_fold_in_follows_the_factors_and_options_of_the_last_fit() -> None:
    """What rows share is kept between calls: it must not outlive what it was made from."""
    matrix, model = toy(), als().fit(toy())
    first = model.recalculate_user(0, matrix)
    model.fit(toy(seed=1))
    fresh = als().fit(toy(seed=1))
    np.testing.assert_array_equal(
        model.recalculate_user(0, matrix), fresh.recalculate_user(0, matrix)
    )
    assert not np.array_equal(first, fresh.recalculate_user(0, matrix))
    model.set_params(objective=mfrank.IALS(alpha0=2.0)).fit(toy(seed=1))
    other = als(mfrank.IALS(alpha0=2.0)).fit(toy(seed=1)).recalculate_user(0, matrix)
    np.testing.assert_array_equal(model.recalculate_user(0, matrix), other)
    assert not np.array_equal(other, fresh.recalculate_user(0, matrix))


# --- recommend from items


@pytest.mark.parametrize("name", ["wrmf", "rgx", "eals", "ials weighted"])
def test_items_liked_stand_for_a_user(name: str) -> None:
    model = als(OBJECTIVES[name]).fit(labeled())
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
    assert sorted(ids.tolist()) == [-1, -1, -1, 0, 3, 5, 6]  # nobody has item 2


def test_who_likes_nothing_has_no_list() -> None:
    ids, scores = als().fit(toy()).recommend_from_items([], N=3)
    assert ids.tolist() == [-1, -1, -1]
    assert np.isnan(scores).all()


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"itemids": [7]}, "itemids"),
        ({"itemids": ["x"]}, "itemids"),
        (
            {"itemids": [1], "values": [1, 2]},
            "values",
        ),
        ({"itemids": [1], "values": [np.nan]}, "values"),
        ({"itemids": [1], "values": [-1]}, "values"),
        ({"itemids": [1], "N": 0}, "N"),
        ({"itemids": [1], "items": [9]}, "items"),
    ],
)
def test_items_liked_are_checked(arguments: dict[str, Any], argument: str) -> None:
    with refuses((ValueError, TypeError), argument):
        als().fit(toy()).recommend_from_items(**arguments)


def test_values_of_unknown_items_go_with_them() -> None:
    """Each value stays with its item, wherever the unknown ones stand."""
    model = als(mfrank.WRMF()).fit(labeled())
    plain = model.recommend_from_items(["i4", "i1"], N=5, values=[1.0, 30.0])
    for at in range(3):
        items, values = ["i4", "i1"], [1.0, 30.0]
        items.insert(at, "nowhere")
        values.insert(at, 500.0)
        got = model.recommend_from_items(items, N=5, values=values, on_unknown="skip")
        np.testing.assert_array_equal(got.ids, plain.ids)
        np.testing.assert_array_equal(got.scores, plain.scores)
    other = model.recommend_from_items(["i4", "i1"], N=5, values=[30.0, 1.0])
    assert not np.array_equal(other.scores, plain.scores)


def test_likes_may_be_a_set_unless_values_belong_to_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = als().fit(toy(20, 15))
    one_by_one = model.recommend_from_items([1, 4])
    assert one_by_one.ids.shape == (10,)
    np.testing.assert_array_equal(model.recommend_from_items({1, 4}).ids, one_by_one.ids)
    with refuses(TypeError, "itemids"):
        model.recommend_from_items({1, 4}, values=[1, 2])
    caplog.clear()
    np.testing.assert_array_equal(model.recommend_from_items([1, 4, 4]).ids, one_by_one.ids)
    assert not caplog.records  # a repeated item is no value that is not read

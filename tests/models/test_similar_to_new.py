"""Lists of what is similar to items and users that are solved from rows of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import als, labeled
from numpy.typing import NDArray
from problems import toy

import mfrank
from tests.support.errors import refuses

MODEL = als(mfrank.WRMF(alpha=3), dtype="float64").fit(labeled())
ROWS = {"item": sp.csr_array(toy(seed=1).T)[:3], "user": toy(seed=1)[:3]}
SIDES = ["item", "user"]


def similar(side: str, ids: Any, rows: Any, model: Any = MODEL, **how: Any) -> Any:
    other = "user" if side == "item" else "item"
    given = {f"recalculate_{side}": True, f"{side}_{other}s": rows}
    return getattr(model, f"similar_{side}s")(ids, **given, **how)


def unit(rows: NDArray[Any]) -> NDArray[Any]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, 1, lengths)


@pytest.mark.parametrize("side", SIDES)
def test_lists_are_by_cosine_to_the_factors_of_the_rows(side: str) -> None:
    new = ["zoe", f"{side[0]}1", "yan"]
    ids, scores = similar(side, new, ROWS[side], N=7)
    p = getattr(MODEL, f"recalculate_{side}")(new, ROWS[side])
    q = getattr(MODEL, f"{side}_factors")
    cosines = unit(p) @ unit(q).T
    known = np.flatnonzero(q.any(axis=1))  # a zero vector has no direction
    order = np.argsort(-cosines[:, known], axis=1, kind="stable")[:, :7]
    for row in range(3):
        n = order.shape[1] if p[row].any() else 0
        listed = known[order[row, :n]]
        expected = getattr(MODEL, f"{side}_ids").raw(listed).tolist()
        assert ids[row].tolist() == expected + [None] * (7 - n)
        np.testing.assert_allclose(scores[row, :n], cosines[row, listed], atol=1e-12)
    one = similar(side, "zoe", ROWS[side][[0]], N=7)
    assert one.ids.tolist() == ids[0].tolist()


@pytest.mark.parametrize("side", SIDES)
def test_the_rows_of_the_fit_change_nothing(side: str) -> None:
    """Users are solved last in an epoch, so only theirs are those of the fit; items follow them."""
    model = als(mfrank.WRMF(), dtype="float64", iterations=300).fit(toy())
    rows = toy() if side == "user" else sp.csr_array(toy().T)
    known = np.arange(rows.shape[0])
    ids, scores = similar(side, known, rows, model, N=3)
    expected = getattr(model, f"similar_{side}s")(known, N=3)
    has_any = np.diff(rows.indptr) > 0
    np.testing.assert_array_equal(ids[has_any, 0], known[has_any])
    np.testing.assert_allclose(scores[has_any], expected.scores[has_any], atol=1e-4)


@pytest.mark.parametrize("side", SIDES)
def test_filters_are_those_of_each(side: str) -> None:
    letter = side[0]
    blocked = [[f"{letter}0", f"{letter}1"], [f"{letter}2"], []]
    lists = similar(side, ["zoe", "yan", "xi"], ROWS[side], N=7, **{f"filter_{side}s": blocked})
    free = similar(side, ["zoe", "yan", "xi"], ROWS[side], N=9).ids
    for got, every, without in zip(lists.ids, free, blocked, strict=True):
        expected = [each for each in every.tolist() if each not in (*without, None)]
        assert [each for each in got.tolist() if each is not None] == expected[:7]


@pytest.mark.parametrize("side", SIDES)
def test_what_is_missing_is_named(side: str) -> None:
    with refuses(ValueError, f"recalculate_{side}"):
        similar(side, "zoe", None)
    with refuses(TypeError, f"recalculate_{side}", remedy=f"recalculate_{side}=False"):
        similar(side, "zoe", ROWS[side][[0]], mfrank.Recommender.of(MODEL.store))


def test_a_walk_has_no_factors() -> None:
    data = mfrank.Interactions.from_arrays([0, 0, 1], [0, 1, 2], timestamps=[1, 2, 3])
    walk = mfrank.SupervisedPageRank(method=None).fit(data)
    with refuses(TypeError, "recalculate_item", remedy="recalculate_item=False"):
        walk.similar_items(0, recalculate_item=True, item_users=sp.csr_array((1, 2)))


@pytest.mark.parametrize("side", SIDES)
def test_rows_are_read_of_interactions_by_the_ids_that_they_have(side: str) -> None:
    """Ids that are numbers, but not the row numbers."""
    ids = {"user_ids": np.arange(9) + 1, "item_ids": np.arange(7) + 1}
    data = mfrank.Interactions.from_sparse(toy(), **ids)
    model = als(mfrank.WRMF(alpha=3), dtype="float64").fit(data)
    found = similar(side, [2, 4], data, model, N=3, by_row=True)
    expected = similar(side, [3, 5], data, model, N=3)
    np.testing.assert_array_equal(found.scores, expected.scores)
    np.testing.assert_array_equal(np.where(found.ids < 0, -1, found.ids + 1), expected.ids)

"""A table of features given to an update says what it says, and nothing of rows that it lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mfrank
from tests.support.errors import refuses

pandas = pytest.importorskip("pandas", reason="makes the tables with pandas")

DATA = mfrank.synthetic(30, 24, 300, names=True, random_state=0)
IDS = {"user": DATA.user_ids.labels, "item": DATA.item_ids.labels}


def table(side: str, ids: Any = None, shift: int = 0) -> Any:
    """Features that depend on the id alone, unless they have changed by a shift."""
    ids = IDS[side] if ids is None else ids
    numbers = np.array([sum(map(ord, one)) for one in ids], dtype=np.int64) + shift
    kinds = np.array(["a", "b", "c"])[numbers % 3]
    return pandas.DataFrame({side: ids, "kind": kinds, "size": (numbers % 7).astype(float)})


def fitted(side: str) -> mfrank.ALS:
    model = mfrank.ALS(mfrank.IALS(), factors=4, iterations=3, random_state=0)
    return model.fit(DATA, **{f"{side}_features": table(side)})


def today(side: str) -> mfrank.Interactions:
    """What known and new ids of a side have got today."""
    own, others = IDS[side], IDS["item" if side == "user" else "user"]
    ids = [own[0], own[1], "fresh", "fresh"]
    pairs = (ids, list(others[:4])) if side == "user" else (list(others[:4]), ids)
    return mfrank.Interactions.from_arrays(*pairs)


def updated(model: mfrank.ALS, side: str, features: Any, new: Any = None) -> mfrank.ALS:
    return model.partial_fit(new, **{f"{side}_features": features})


def means(model: mfrank.ALS, side: str, ids: Any) -> Any:
    return model.store.extras[f"{side}_feature_means"][getattr(model, f"{side}_ids").rows(ids)]


def factors(model: mfrank.ALS, side: str, ids: Any) -> Any:
    return getattr(model, f"{side}_factors")[getattr(model, f"{side}_ids").rows(ids)]


SIDES = pytest.mark.parametrize("side", ["user", "item"])


@SIDES
def test_known_rows_keep_their_features_where_a_days_table_has_only_new_ones(side: str) -> None:
    model = fitted(side)
    before = means(model, side, IDS[side])
    updated(model, side, table(side, ["fresh", "cold"]), today(side))
    np.testing.assert_array_equal(means(model, side, IDS[side]), before)


@SIDES
def test_a_days_table_of_new_rows_is_as_good_as_one_of_all(side: str) -> None:
    ids = ["fresh", "cold"]
    whole = pandas.concat([table(side), table(side, ids)])
    one = updated(fitted(side), side, table(side, ids), today(side))
    other = updated(fitted(side), side, whole, today(side))
    np.testing.assert_allclose(one.user_factors, other.user_factors, atol=1e-5)
    np.testing.assert_allclose(one.item_factors, other.item_factors, atol=1e-5)


@SIDES
@pytest.mark.parametrize("order", [1, -1])
def test_features_that_changed_count_whether_or_not_there_are_interactions(
    side: str, order: int
) -> None:
    moved = IDS[side][3:6]
    changed = table(side, moved, shift=1).iloc[::order]
    model = updated(fitted(side), side, changed)
    expected = fitted(side)
    told, before = means(model, side, moved), means(expected, side, moved)
    assert (np.abs(told - before).max(axis=1) > 0.01).all()
    same = table(side, moved, shift=1)  # the mean of a new row with these features
    new = updated(fitted(side), side, same.assign(**{side: ["x", "y", "z"]}))
    np.testing.assert_allclose(told, means(new, side, ["x", "y", "z"]), atol=1e-5)
    assert (
        (np.abs(factors(model, side, moved) - factors(expected, side, moved)) > 1e-3).any(1).all()
    )
    rest = np.setdiff1d(IDS[side], moved)
    np.testing.assert_array_equal(factors(model, side, rest), factors(expected, side, rest))


@SIDES
def test_features_of_a_row_with_one_interaction_count_like_others(side: str) -> None:
    pairs = {"user": (["a", "b", "b", "c", "c"], list("xxyyx"))}
    pairs["item"] = pairs["user"][::-1]
    data = mfrank.Interactions.from_arrays(*pairs[side])
    ids = getattr(data, f"{side}_ids").labels
    model = mfrank.ALS(mfrank.IALS(), factors=2, iterations=3, random_state=0)
    model.fit(data, **{f"{side}_features": table(side, ids)})
    before = factors(model, side, ["a"]).copy()
    updated(model, side, table(side, ["a"], shift=1))
    assert np.abs(factors(model, side, ["a"]) - before).max() > 1e-3
    assert model.store.history[-1]["rows"] > 0


@SIDES
def test_rows_that_an_update_solves_are_pulled_to_their_features(side: str) -> None:
    """With a ridge this strong, a row's own part is next to nothing."""
    model = mfrank.ALS(mfrank.IALS(regularization=1e6), factors=3, iterations=2, random_state=0)
    model.fit(DATA, **{f"{side}_features": table(side)})
    updated(model, side, table(side, ["fresh"]), today(side))
    solved = [*IDS[side][:2], "fresh"]
    expected = means(model, side, solved)
    assert np.abs(expected).max() > 0
    near = 0.15 * np.abs(expected).max()
    np.testing.assert_allclose(factors(model, side, solved), expected, atol=near)
    updated(model, side, table(side, IDS[side][3:4], shift=1))  # however small they are
    one = means(model, side, IDS[side][3:4])
    np.testing.assert_allclose(factors(model, side, IDS[side][3:4]), one, atol=near)


@SIDES
def test_features_come_in_the_form_of_the_fit(side: str) -> None:
    new = today(side)
    matrix = np.ones((len(getattr(new, f"{side}_ids")), 1))
    with refuses(ValueError, f"{side}_features", remedy="pass a table"):
        updated(fitted(side), side, matrix, new)
    plain = mfrank.ALS(mfrank.IALS(), factors=2, iterations=1, random_state=0)
    with refuses(ValueError, f"{side}_features", remedy="leave it out"):
        updated(plain.fit(DATA), side, matrix, new)
    plain.fit(DATA, **{f"{side}_features": np.ones((len(IDS[side]), 1))})
    with refuses(ValueError, f"{side}_features", remedy="pass a matrix"):
        updated(plain, side, table(side), new)
    updated(plain, side, matrix, new)


@SIDES
def test_of_a_whole_table_only_what_changed_is_told_and_solved(
    side: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mfrank")
    moved = IDS[side][3:5]
    rest = np.setdiff1d(IDS[side], moved)
    whole = pandas.concat([table(side, rest), table(side, moved, shift=1)])
    model, expected = fitted(side), fitted(side)
    caplog.clear()
    updated(model, side, whole)
    np.testing.assert_array_equal(factors(model, side, rest), factors(expected, side, rest))
    (told,) = [one.getMessage() for one in caplog.records if "other features" in one.msg]
    assert told.startswith(f"{side}_features: 2 {side}s that the model has now have other features")
    caplog.clear()
    updated(model, side, whole)
    assert not [one for one in caplog.records if "other features" in one.msg]


@SIDES
def test_a_row_without_interactions_is_where_its_latest_features_are(side: str) -> None:
    model = updated(fitted(side), side, table(side, ["cold"]))
    updated(model, side, table(side, ["cold"], shift=1))
    fresh = updated(fitted(side), side, table(side, ["cold"], shift=1))
    np.testing.assert_allclose(
        factors(model, side, ["cold"]), factors(fresh, side, ["cold"]), atol=1e-5
    )


@SIDES
def test_a_table_that_says_nothing_new_changes_no_factor(side: str, tmp_path: Any) -> None:
    fitted(side).save(tmp_path / "model")
    model = mfrank.load(tmp_path / "model")
    assert isinstance(model, mfrank.ALS)
    before = model.user_factors.copy(), model.item_factors.copy()
    updated(model, side, table(side).iloc[::-1])
    np.testing.assert_array_equal(model.user_factors, before[0])
    np.testing.assert_array_equal(model.item_factors, before[1])


@SIDES
def test_a_table_may_come_before_or_after_the_interactions(side: str) -> None:
    """Split in two, an update ends with the same features."""
    features = table(side, ["fresh", IDS[side][0]], shift=1)
    one = updated(fitted(side), side, features, today(side))
    first = updated(fitted(side), side, features).partial_fit(today(side))
    last = updated(fitted(side).partial_fit(today(side)), side, features)
    ids = [*IDS[side], "fresh"]
    for other in (first, last):
        np.testing.assert_allclose(means(one, side, ids), means(other, side, ids), atol=1e-5)

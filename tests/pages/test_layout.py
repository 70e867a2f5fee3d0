"""Places on the map: near where items are similar; and the points of a curve."""

from __future__ import annotations

import numpy as np
import pytest

import mfrank
from mfrank.pages.pictures import curve, places


def groups() -> mfrank.Recommender:
    """Items in three directions, the last without any."""
    rng = np.random.default_rng(0)
    items = np.repeat(np.eye(3, 8), 20, axis=0) + 0.05 * rng.standard_normal((60, 8))
    return mfrank.Recommender.of(
        mfrank.FactorStore(np.ones((2, 8)), np.vstack([items, np.zeros(8)]))
    )


def test_items_of_a_group_lie_together() -> None:
    at = places(groups(), np.arange(61))
    assert at.shape == (61, 2)
    assert ((at >= 0) & (at <= 1)).all()
    apart = np.linalg.norm(at[:60, None] - at[None, :60], axis=2)
    group = np.arange(60) // 20
    same = group[:, None] == group[None, :]
    assert np.median(apart[same]) < 0.5 * np.median(apart[~same])


def test_the_same_seed_gives_the_same_map() -> None:
    assert np.array_equal(places(groups(), np.arange(61)), places(groups(), np.arange(61)))


@pytest.mark.parametrize("n", range(7))
def test_few_items_have_places_too(n: int) -> None:
    at = places(groups(), np.arange(0, 60, 9)[:n])
    assert at.shape == (n, 2)
    assert np.isfinite(at).all()


def test_a_curve_goes_from_the_first_to_the_last_epoch() -> None:
    assert curve([1, 3, None, 2.5, 2]) == {
        "points": "0.0,160.0 150.0,0.0 450.0,40.0 600.0,80.0",
        "epochs": [1, 5],
        "least": 1.0,
        "greatest": 3.0,
        "last": 2.0,
    }
    later = curve([None, 4, None, 2, None])
    assert later is not None
    assert (later["points"], later["epochs"]) == ("0.0,0.0 600.0,160.0", [2, 4])


def test_a_curve_of_equal_values_is_level() -> None:
    level = curve([7, 7, 7])
    assert level is not None
    assert level["points"] == "0.0,80.0 300.0,80.0 600.0,80.0"
    assert (level["least"], level["greatest"], level["last"]) == (7, 7, 7)


@pytest.mark.parametrize("values", [[], [1], [None, 2, None], [None, None]])
def test_a_curve_needs_two_values(values: list[float | None]) -> None:
    assert curve(values) is None

"""The map: places, near where items are similar, and its page; and the points of a curve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_site import client, data, ids, models, popular, shown

import mfrank
from mfrank.pages.views.items import _edges, _pull, _start, places
from mfrank.pages.views.models import curve

ITEMS = data().item_ids.labels.tolist()


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


def test_rows_in_any_order_and_without_some_have_their_own_places() -> None:
    rows = np.random.default_rng(3).permutation(60)[:41]
    at = places(groups(), rows)
    apart = np.linalg.norm(at[:, None] - at[None], axis=2)
    same = (rows // 20)[:, None] == rows // 20
    assert np.median(apart[same]) < 0.5 * np.median(apart[~same])


def test_items_without_a_direction_are_beside_no_others() -> None:
    items = np.vstack([groups().store.item_factors, np.zeros((19, 8))])
    at = places(mfrank.Recommender.of(mfrank.FactorStore(np.ones((2, 8)), items)), np.arange(80))
    apart = np.linalg.norm(at[:, None] - at[None], axis=2)
    for group in range(3):
        own = np.arange(20 * group, 20 * group + 20)
        assert np.median(apart[60:, own]) > 2 * np.median(apart[np.ix_(own, own)])


@pytest.mark.parametrize("n", [4, 9, 13, 61])
def test_the_same_seed_gives_the_same_map(n: int) -> None:
    first = places(groups(), np.arange(n))
    for _ in range(2):
        assert np.array_equal(first, places(groups(), np.arange(n), seed=0))
    assert not np.array_equal(first, places(groups(), np.arange(n), seed=1))


def test_a_frame_leaves_one_item_in_two_hundred_on_each_edge() -> None:
    rng = np.random.default_rng(0)
    items = mfrank.FactorStore(np.ones((1, 4)), rng.standard_normal((400, 4)))
    at = places(mfrank.Recommender.of(items), np.arange(400))
    assert (at == 0).sum(axis=0).tolist() == (at == 1).sum(axis=0).tolist() == [2, 2]


@pytest.mark.parametrize("n", [5, 13, 14, 61])
def test_edges_lead_to_the_twelve_most_similar_of_the_items(n: int) -> None:
    model, rows = groups(), np.random.default_rng(1).permutation(61)[:n]
    heads, tails = _edges(model, rows)
    directions = model.store.item_directions[rows]
    likeness = directions @ directions.T
    np.fill_diagonal(likeness, -1)
    expected = {
        (head, int(tail))
        for head in range(n)
        for tail in np.argsort(-likeness[head])[:12]
        if likeness[head, tail] > 0
    }
    assert set(zip(heads.tolist(), tails.tolist(), strict=True)) == expected
    assert len(heads) == len(expected)


def test_items_at_right_angles_are_not_alike() -> None:
    model = mfrank.Recommender.of(mfrank.FactorStore(np.ones((1, 5)), np.eye(5)))
    assert [len(each) for each in _edges(model, np.arange(5))] == [0, 0]


def chain(*sizes: int, within: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Items in groups, each like all of the next group, or of its own, too; and the groups."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    apart = group[None, :] - group[:, None]
    alike = (apart == 1) | ((apart == 0) & within)
    heads, tails = np.nonzero(alike & ~np.eye(len(group), dtype=bool))
    return heads, tails, group


@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("sizes", [(3, *[1] * 37), (30, *[15] * 18)], ids=["dense", "sparse"])
def test_places_start_in_the_order_of_a_graph(sizes: tuple[int, ...], within: bool) -> None:
    """Along a chain of groups on one axis, there and back on the other."""
    heads, tails, group = chain(*sizes, within=within)
    n = len(group)
    at = _start(heads, tails, n, np.random.default_rng(7))
    assert np.array_equal(at, _start(heads, tails, n, np.random.default_rng(7)))
    noise = 0.1 * np.random.default_rng(7).standard_normal((n, 2))
    order = (at - noise + 10) * n / 20
    assert np.sort(order, axis=0) == pytest.approx(np.stack([np.arange(n)] * 2, axis=1))
    for axis, expected in enumerate([group, np.abs(group - group[n // 2])]):
        alike = np.corrcoef(order[:, axis], expected)[0, 1]
        assert abs(alike) > 0.9


def test_a_step_goes_down_the_loss_of_umap() -> None:
    """Of each item: cross-entropy of its edges, of others that are drawn, and gravity."""
    n, rng = 25, np.random.default_rng(0)
    at = np.stack(np.divmod(np.arange(n), 5), axis=1) * 2.0 + rng.random((n, 2)) / 2 - 4
    heads, tails = rng.integers(n, size=(2, 40))
    heads, tails = heads[heads != tails], tails[heads != tails]
    moves = _pull(at, heads, tails, n, np.random.default_rng(5))
    others = np.random.default_rng(5).integers(n, size=6 * n).reshape(6, n)

    def loss(row: int, place: np.ndarray) -> float:
        near = np.concatenate([tails[heads == row], heads[tails == row]])
        far = others[:, row][others[:, row] != row]
        apart = ((place - at[near]) ** 2).sum(axis=1)
        away = ((place - at[far]) ** 2).sum(axis=1)
        repelled = np.log((1 + away) / (0.01 + away)) / 0.99
        return float(np.log(1 + apart).sum() + repelled.sum() + 0.1 * (place**2).sum())

    for row in range(n):
        for axis in (0, 1):
            step = np.zeros(2)
            step[axis] = 1e-5
            slope = (loss(row, at[row] + step) - loss(row, at[row] - step)) / 2e-5
            assert moves[row, axis] == pytest.approx(-0.1 * slope, abs=1e-7)


def test_items_at_one_place_are_driven_apart_in_bounded_steps() -> None:
    nobody = np.empty(0, dtype=np.int64)
    at = np.zeros((2, 2))
    at[1, 0] = 0.1
    others = np.random.default_rng(1).integers(2, size=12)
    met = [(others[0::2] == 1).sum(), (others[1::2] == 0).sum()]
    moves = _pull(at, nobody, nobody, 2, np.random.default_rng(1))
    assert moves[:, 0] == pytest.approx([-0.4 * met[0], 0.4 * met[1] - 0.002])
    many = np.full((50, 2), 0.1)
    many[0] = 0
    pushed = _pull(many, nobody, nobody, 50, np.random.default_rng(2))
    assert pushed[0].tolist() == [-2, -2]
    many[0] = 0.2
    assert _pull(many, nobody, nobody, 50, np.random.default_rng(2))[0].tolist() == [2, 2]


@pytest.mark.parametrize("n", range(7))
def test_few_items_have_places_too(n: int) -> None:
    at = places(groups(), np.arange(0, 60, 9)[:n])
    assert at.shape == (n, 2)
    assert ((at >= 0) & (at <= 1)).all()
    in_a_line = (
        at[:, 1].tolist() == [0.5] * n and at[:, 0].tolist() == np.linspace(0, 1, n).tolist()
    )
    assert in_a_line == (n < 4)


def test_the_map_has_the_most_popular_items_by_kind(site: Any) -> None:
    page = shown(site, "/map", n=30)
    assert ids(page["points"]) == popular()[:30]
    kinds = [each["kind"] for each in shown(site, "/map", n=30)["points"]]
    named = [ITEMS.index(item) % 3 for item in popular()[:30] if item != ITEMS[-1]]
    names = [("Tea", "Coffee", "Pie")[kind] for kind in named]
    assert [page["kinds"][kind] for kind in kinds if kind >= 0] == names
    counts = [names.count(kind) for kind in page["kinds"]]
    assert counts == sorted(counts, reverse=True)
    at = places(models()["als"], data().item_ids.rows(popular()[:30]))
    assert [[each["x"], each["y"]] for each in page["points"]] == at.round(4).tolist()
    assert page["n"] == 30
    assert 'data-points="/map?n=30&amp;format=json"' in site.get("/map?n=30").text
    assert site.get("/map").text.count("/item/") == 20


def test_a_map_shows_at_most_seven_kinds_and_items_that_somebody_has(tmp_path: Path) -> None:
    file = tmp_path / "kinds.csv"
    rows = [f"{item},{item},k{min(row // 5, 9)}" for row, item in enumerate(ITEMS)]
    file.write_text("\n".join(["item,title,kind", *rows]))
    page = shown(client(tmp_path, items=file), "/map")
    assert len(page["kinds"]) == 7
    assert {each["kind"] for each in page["points"]} == {-1, *range(7)}
    matrix = data().user_items.tolil()
    matrix[:, :6] = 0
    matrix[3, 5] = 1
    rare = mfrank.Interactions(matrix.tocsr(), data().user_ids, data().item_ids)
    few = client(tmp_path, models={"m": mfrank.Popularity().fit(rare)}, items=None)
    assert set(ids(shown(few, "/map")["points"])) == set(ITEMS[5:])
    assert {each["kind"] for each in shown(few, "/map")["points"]} == {-1}


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

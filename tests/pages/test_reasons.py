"""Why an item is in a list: the user's own items that bring it most, for every kind of model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_site import client, data, models, pair

import mfrank
from mfrank.pages.url_levers import reasons_for

USERS = data().user_ids.labels.tolist()
ITEMS = data().item_ids.labels.tolist()
USER = USERS[3]


def reasons(site: Any, path: str = f"/user/{USER}", **asked: Any) -> dict[Any, list[Any]]:
    answer = site.get(path, params={"format": "json", **asked}).json()
    return {each["id"]: [one["id"] for one in each["because"]] for each in answer["items"]}


def nearest(likeness: dict[Any, float], most: int = 2) -> list[Any]:
    """Keys from the greatest value down, those above 0; of equal ones the first comes first."""
    there = [key for key, value in likeness.items() if value > 0]
    return sorted(there, key=lambda key: -likeness[key])[:most]


def seen_of(model: Any) -> list[Any]:
    row = model.seen.matrix[model.user_ids.rows([USER])]
    return list(model.item_ids.raw(row.indices).tolist())


def test_of_neighbors_the_most_similar_of_the_users_items(tmp_path: Path) -> None:
    knn = models()["knn"]
    found = reasons(client(tmp_path, data=None), model=1, n=40)
    rows = dict(zip(ITEMS, range(60), strict=True))
    history = client(tmp_path, data=None).get(f"/user/{USER}?format=json").json()
    seen = sorted(seen_of(knn), key=lambda item: -knn.store.counts.items[rows[item]])
    assert [each["id"] for each in history["history"]] == seen[:20]
    for item, told in found.items():
        likeness = {own: float(knn.similarity[rows[own], rows[item]]) for own in seen}
        assert told == nearest(likeness)
    assert any(found.values())


def test_of_factors_those_in_the_same_direction(tmp_path: Path) -> None:
    """Also of a model without histories, beside data that have items which it does not know."""
    store = models()["als"].store
    bare = mfrank.Recommender.of(store)
    own = [*ITEMS[7:12], "unknown"]
    every = mfrank.Interactions.from_arrays([USER] * 6, own, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    found = reasons(client(tmp_path, models={"bare": bare}, data=every, items=None), n=60)
    directions = store.item_directions
    for item, told in found.items():
        near = directions[7:12] @ directions[ITEMS.index(item)]
        likeness = dict(zip(own[4::-1], near[::-1].tolist(), strict=True))  # greatest value first
        assert told == nearest(likeness)


def test_items_that_add_nothing_are_no_reasons(tmp_path: Path) -> None:
    als = models()["als"]
    why = [als.explain(USER, None, item, 60).contributions for item in ITEMS[:9]]
    found = reasons_for(als, USER, seen_of(als), ITEMS[:9], most=60)
    assert found == [[item for item, part in parts if part > 0] for parts in why]
    assert any(part < 0 for parts in why for _, part in parts)
    als.save(tmp_path / "als")
    store = mfrank.FactorStore.load(tmp_path / "als")
    empty = np.where(np.arange(60)[:, None] == 5, 0, store.item_factors).astype(np.float32)
    replace(store, item_factors=empty).save(tmp_path / "empty")
    none = mfrank.load(tmp_path / "empty")
    assert reasons_for(none, USER, seen_of(none), [ITEMS[5]]) == [[]]


def test_items_in_other_directions_are_no_reasons() -> None:
    items = np.array([[1.0, 0], [1, 1], [-1, 0], [0, 1], [-1, 1]])
    model = mfrank.Recommender.of(mfrank.FactorStore(np.ones((1, 2)), items))
    assert reasons_for(model, 0, [0, 1, 2, 3], [0, 2, 4]) == [[0, 1], [2], [2, 3]]
    assert reasons_for(model, 0, [2, 3, 1], [0], most=1) == [[1]]
    assert reasons_for(model, 0, [3, 1, 0], [0], most=3) == [[0, 1]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: mfrank.Popularity().fit(data()),
        lambda: mfrank.ItemBlend.of(
            mfrank.blend(pair()["als"].store, mfrank.ItemKNN().fit(data()).store, 1.0)
        ),
    ],
    ids=["Popularity", "ItemBlend"],
)
def test_a_list_that_is_not_of_single_items_has_no_reasons(tmp_path: Path, make: Any) -> None:
    site = client(tmp_path, models={"m": make()})
    found = reasons(site)
    assert list(found.values()) == [[]] * 10
    assert set(map(tuple, reasons(site, "/sandbox", like=ITEMS[4:6]).values())) <= {()}


def test_nobody_has_reasons_without_items() -> None:
    for model in models().values():
        assert reasons_for(model, USER, [], ITEMS[:3]) == [[], [], []]
        assert reasons_for(model, USER, ITEMS[:3], []) == []

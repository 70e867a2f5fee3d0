"""Somebody new: what they picked, what is offered, and the list that follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_site import client, data, ids, models, shown

import mfrank

ITEMS = data().item_ids.labels.tolist()
ITEM = ITEMS[5]


def test_picked_items_can_be_taken_out_and_others_added(site: Any) -> None:
    picked = [ITEMS[4], ITEMS[9]]
    page = shown(site, "/sandbox", like=picked, q="number 1", n=4)
    assert ids(page["picked"]) == picked
    for each, rest in zip(page["picked"], picked[::-1], strict=True):
        assert each["without"] == f"/sandbox?q=number+1&n=4&like={rest}"
    found = [
        item for item in ids(shown(site, "/search", q="number 1")["items"]) if item not in picked
    ]
    assert ids(page["offered"]) == found[:12]
    likes = f"like={picked[0]}&like={picked[1]}"
    for each in page["offered"] + page["items"]:
        assert each["add"] == f"/sandbox?n=4&{likes}&like={each['id']}"
    assert page["empty"] == "/sandbox?n=4"
    assert (page["q"], page["n"], page["note"], page["effect"]) == ("number 1", 4, "", None)
    assert (
        [each["rank"] for each in page["items"]]
        == [1, 2, 3, 4]
        == [each["before"] for each in page["items"]]
    )
    listed = models()["als"].recommend_from_items(picked, 4).to_dicts()
    assert [each["score"] for each in page["items"]] == pytest.approx(
        [each["score"] for each in listed]
    )
    assert shown(site, "/sandbox")["items"] == []


def test_reasons_for_somebody_new_are_the_picked_items_most_like_it(site: Any) -> None:
    picked, als = ITEMS[4:9], models()["als"]
    directions = als.store.item_directions
    own = als.item_ids.rows(picked)
    for each in shown(site, "/sandbox", like=picked)["items"]:
        near = directions[own] @ directions[als.item_ids.rows([each["id"]])[0]]
        best = [picked[at] for at in np.argsort(-near, kind="stable")[:2] if near[at] > 0]
        assert ids(each["because"]) == best


def test_levers_of_somebody_new_move_ranks(site: Any) -> None:
    asked = {"like": ITEMS[4:7], "popularity_penalty": 1.5, "n": 8}
    page = shown(site, "/sandbox", **asked)
    plain = ids(models()["als"].recommend_from_items(ITEMS[4:7], 60).to_dicts())
    assert [each["before"] for each in page["items"]] == [
        plain.index(i) + 1 for i in ids(page["items"])
    ]
    fallen = [item for item in plain[:8] if item not in ids(page["items"])]
    assert ids(page["effect"]["fallen"]) == fallen != []


def test_items_of_a_model_alone_are_not_offered_by_the_other(tmp_path: Path) -> None:
    fewer = mfrank.Interactions(
        data().user_items[:, :9], data().user_ids, data().item_ids.take(np.arange(9))
    )
    site = client(tmp_path, models={"a": models()["als"], "b": mfrank.Popularity().fit(fewer)})
    assert set(ids(shown(site, "/sandbox", model=1)["offered"])) == set(ITEMS[:9])
    points = shown(site, "/map", model=1)["points"]
    assert set(ids(points)) <= set(ITEMS[:9])


@pytest.mark.parametrize(
    "make",
    [
        lambda: mfrank.Recommender.of(models()["als"].store),
        lambda: mfrank.ItemBlend.of(
            mfrank.blend(models()["als"].store, models()["knn"].store, 1.0)
        ),
    ],
    ids=["Recommender", "ItemBlend"],
)
def test_a_model_that_ranks_for_nobody_new_says_so(tmp_path: Path, make: Any) -> None:
    page = shown(client(tmp_path, models={"m": make()}, data=None), "/sandbox", like=ITEM)
    assert "cannot rank for somebody new" in page["note"]
    assert (page["items"], page["effect"], ids(page["picked"])) == ([], None, [ITEM])

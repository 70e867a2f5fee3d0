"""Lists as plain objects, as a service sends them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from emulated_gpu import DeviceArray, EmulatedGPU
from fits import ITEMS, USERS, als, labeled
from problems import toy
from rerankers import fitted as fitted_reranker
from served import serving, store

import mfrank

MODELS = {"names": als().fit(labeled()), "numbers": als(dtype="float64").fit(toy())}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("n", [1, 4, 20])
def test_a_list_of_one_has_its_ids_and_scores_without_padding(kind: str, n: int) -> None:
    model = MODELS[kind]
    lists = model.recommend(model.user_ids.labels[0], N=n)
    plain = lists.to_dicts()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    known = ITEMS if kind == "names" else range(len(ITEMS))
    assert all(entry["id"] in known for entry in plain)
    ids, scores = lists
    listed = scores == scores
    assert [entry["id"] for entry in plain] == ids[listed].tolist()
    assert [entry["score"] for entry in plain] == scores[listed].tolist()


def test_many_lists_are_in_the_order_of_the_ids() -> None:
    model = MODELS["names"]
    asked = [USERS[3], "zoe", USERS[0]]
    lists = model.recommend(asked, N=20, on_unknown="skip").to_dicts()
    alone = [model.recommend(user, N=20).to_dicts() for user in (USERS[3], USERS[0])]
    assert lists == [alone[0], [], alone[1]]
    assert model.recommend([], N=3).to_dicts() == []


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.recommend_from_items(["i2"]),
        lambda model: model.recommend_users("i2"),
        lambda model: model.similar_items(["i2", "i3"]),
        lambda model: model.similar_users("u2"),
    ],
)
def test_every_kind_of_list_is_plain(call: Any) -> None:
    assert "NaN" not in json.dumps(call(MODELS["names"]).to_dicts())


def test_ids_of_several_types_are_plain() -> None:
    mixed = mfrank.FactorStore([[1.0]], [[2.0], [1.0]], item_ids=[np.int64(7), "seven"])
    answer = mfrank.Recommender.of(mixed).recommend(0, filter_already_liked_items=False)
    assert json.loads(json.dumps([entry["id"] for entry in answer.to_dicts()])) == [7, "seven"]


def test_lists_of_a_second_stage_are_plain() -> None:
    lists = fitted_reranker()[0].recommend(["u1", "u3"], N=4).to_dicts()
    assert [len(json.loads(json.dumps(each))) for each in lists] == [4, 4]


def test_lists_of_walks_are_plain() -> None:
    data = mfrank.Interactions.from_arrays([0, 0, 1, 1], [0, 1, 1, 2], timestamps=[1, 2, 3, 4])
    model = mfrank.SupervisedPageRank(method=None).fit(data)
    assert [entry["id"] for entry in model.recommend(0).to_dicts()] == [2]


def test_lists_on_a_gpu_are_plain(device: EmulatedGPU) -> None:
    held = store()
    how: dict[str, Any] = {"N": 3, "filter_already_liked_items": False}
    there = serving(held, "cuda").recommend(DeviceArray([1, 4]), **how)
    here = serving(held, "reference").recommend([1, 4], **how)
    ids = [[[entry["id"] for entry in each] for each in x.to_dicts()] for x in (there, here)]
    assert ids[0] == ids[1]
    json.dumps(there.to_dicts())

"""A blend of two models on the page that compares them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_site import client, data, ids, models, pair

import mfrank
from mfrank.pages.site import Site, blended

USER = data().user_ids.labels.tolist()[3]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return client(tmp_path_factory.mktemp("site"), models=pair())


def compared(site: Any, weight: float | None, n: int = 20) -> dict[str, Any]:
    asked = {"n": n, "format": "json"} | ({} if weight is None else {"weight": weight})
    return dict(site.get(f"/compare/{USER}", params=asked).json())


@pytest.mark.parametrize("weight", [0.35, 1])
def test_the_list_between_is_that_of_a_blend(site: Any, weight: float) -> None:
    one, other = pair().values()
    both = mfrank.Recommender.of(mfrank.blend(one.store, other.store, weight))
    seen = one.seen.matrix[one.user_ids.rows([USER])]
    expected = both.recommend([USER], seen, N=20).to_dicts()[0]
    page = compared(site, weight)
    assert ids(page["lists"][1]) == ids(expected)
    assert page["titles"] == ["als", f"als + {weight:g} · wrmf", "wrmf"]


def test_without_weight_in_it_a_blend_is_the_first_model(site: Any) -> None:
    page, plain = compared(site, 0), compared(site, None)
    assert ids(page["lists"][1]) == ids(page["lists"][0]) == ids(plain["lists"][0])
    assert all(each["move"] == 0 for each in page["lists"][1])
    assert page["overlap"] == plain["overlap"]
    assert plain["lines"] == page["lines"][1:]


def test_moves_and_lines_are_between_lists_side_by_side(site: Any) -> None:
    page = compared(site, 0.5)
    ranks = [{each["id"]: each["rank"] for each in listed} for listed in page["lists"]]
    for left, right, lines in zip(ranks, ranks[1:], page["lines"], strict=False):
        assert lines == [{"from": left[i], "to": right[i]} for i in left if i in right]
    for place, beside in enumerate((1, 0, 1)):
        for each in page["lists"][place]:
            assert ranks[beside].get(each["id"], each["other"]) == each["other"]
    held_out = {each["id"] for listed in page["lists"] for each in listed if each["held_out"]}
    assert page["hits"] == [len(held_out & own.keys()) for own in ranks]


def test_a_page_with_a_blend_has_sound_links(site: Any) -> None:
    text = site.get(f"/compare/{USER}?weight=0.5&n=10").text
    assert 'value="0.5"' in text
    assert "als + 0.5 · wrmf" in text
    assert f'href="/compare/{USER}?n=10"' in text


def test_what_cannot_be_blended_is_said(tmp_path: Any, site: Any) -> None:
    path = f"/compare/{USER}?format=json&weight="
    assert site.get(path + "2").status_code == 422
    assert "weight must be a number from 0 to 1" in site.get(path + "2").json()["error"]
    knn = client(tmp_path)
    assert knn.get(path + "0.5").status_code == 422
    assert "knn has no factors" in knn.get(path + "0.5").json()["error"]
    assert 'name="weight"' not in knn.get(f"/compare/{USER}").text
    ids_of_few = data().item_ids.take(np.arange(9))
    fewer = mfrank.Interactions(data().user_items[:, :9], data().user_ids, ids_of_few)
    als = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(fewer)
    other = client(tmp_path, models={"als": models()["als"], "small": als})
    assert "different users or items" in other.get(path + "0.5").json()["error"]


def of_parts(**options: Any) -> list[Any]:
    """Two models, each of a part of the data; the last item has no users in the first."""
    part = np.random.default_rng(0).random((2, data().nnz)) < 0.6
    part[0] &= data().user_items.indices < data().n_items - 1
    made = []
    for seed, own in enumerate(part):
        matrix = data().user_items.copy()
        matrix.data = own.astype(np.float64)
        matrix.eliminate_zeros()
        given = mfrank.Interactions(matrix, data().user_ids, data().item_ids)
        biases = options.get("biases", False)
        model = mfrank.ALS(factors=3, iterations=2, random_state=seed, biases=biases)
        kinds = np.eye(3)[np.arange(data().n_items) % 3]
        features = {"item_features": kinds} if options.get("features") else {}
        made.append(model.fit(given, **({} if seed else features)))
    return made


def bare(tmp_path: Path) -> list[Any]:
    """The same without the users' items."""
    for place, model in enumerate(of_parts()):
        model.save(tmp_path / str(place), with_seen=False)
    return [mfrank.load(tmp_path / str(place)) for place in range(2)]


def without_counts() -> list[Any]:
    stores = [replace(model.store, counts=None, extras={}) for model in of_parts()]
    return [mfrank.Recommender.of(store) for store in stores]


PAIRS = {
    "plain": lambda _: of_parts(),
    "biases": lambda _: of_parts(biases=True),
    "features": lambda _: of_parts(features=True),
    "bare": bare,
    "without counts": lambda _: without_counts(),
}


@pytest.mark.parametrize("of", [data(), None], ids=["data", "no data"])
@pytest.mark.parametrize("name", PAIRS)
def test_a_blend_of_one_user_is_that_of_all(
    name: str, of: mfrank.Interactions | None, tmp_path: Path
) -> None:
    one, other = PAIRS[name](tmp_path)
    site, n = Site({"one": one, "other": other}, of, None), data().n_items
    both = mfrank.Recommender.of(mfrank.blend(one.store, other.store, 0.7))
    for user in data().user_ids.labels[:5].tolist():
        had = {item for each in (0, 1) for item, _ in site.user_items(each, user).seen}
        expected = both.recommend(
            user, N=n, filter_already_liked_items=False, filter_items=sorted(had) or None
        ).to_dicts()
        listed = blended(site, user, 0.7, n)
        assert [each["id"] for each in listed] == [each["id"] for each in expected]
        scores = [each["score"] for each in expected]
        assert [each["score"] for each in listed] == pytest.approx(scores, rel=1e-5, abs=1e-6)


def test_what_was_only_seen_is_in_no_blend() -> None:
    rated = data().at_least(3)
    fitted = [mfrank.ALS(factors=3, iterations=1, random_state=n).fit(rated) for n in (0, 1)]
    site = Site(dict(zip("ab", fitted, strict=True)), None, None)
    had = set(data().item_ids.raw(data().user_items[data().user_ids.rows([USER])].indices))
    listed = {each["id"] for each in blended(site, USER, 0.5, 60)}
    assert listed == {*data().item_ids.labels.tolist()} - had

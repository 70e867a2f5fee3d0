"""A catalog of thousands: which ranks are told, and where lists, searches and maps end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_site import ids
from starlette.datastructures import QueryParams

import mfrank
from mfrank.data import Counts
from mfrank.pages.page_request import PageRequest
from mfrank.pages.site import Site
from mfrank.pages.views.items import item, item_map, search
from mfrank.pages.views.users import compare, sandbox, user
from tests.support.errors import refuses

N = 4_100


def store(order: np.ndarray[Any, Any]) -> mfrank.FactorStore:
    """One user; items have the scores of ``order``, and as many users."""
    factors = np.column_stack([order / N, np.ones(N)])
    counts = Counts(np.array([3]), order.astype(np.int64))
    return mfrank.FactorStore(np.array([[1.0, 0.0]]), factors, counts=counts)


@pytest.fixture(scope="module")
def site() -> Site:
    """Items from best to worst by their number; to the other model, 2,000 places are exchanged."""
    ranks = np.arange(N)
    stores = store(N - ranks), store(N - np.roll(ranks, 2_000))
    every = mfrank.Interactions.from_arrays([0] * 6, [5, 700, 999, 1_000, 1_500, 4_000])
    recommenders = (mfrank.Recommender.of(each) for each in stores)
    return Site(dict(zip("ab", recommenders, strict=True)), every, None)


def asked(query: str, **places: str) -> PageRequest:
    return PageRequest("/", places, QueryParams(query))


def test_lists_go_on_beyond_the_ranks_that_are_told(site: Site) -> None:
    page = user(site, asked("n=100&page=11&popularity_penalty=0", user="0"))
    assert ids(page["items"]) == list(range(1_000, 1_100))
    assert [each["rank"] for each in page["items"]] == list(range(1_001, 1_101))
    assert {each["before"] for each in page["items"]} == {None}
    assert page["pages"]["of"] == 11


def test_ranks_are_told_up_to_a_thousand(site: Site) -> None:
    page = user(site, asked("n=100&page=10", user="0"))
    assert [each["before"] for each in page["items"]] == list(range(901, 1_001))
    assert page["ranked"] == 1_000
    assert page["pages"]["of"] == 10


def test_what_was_held_out_has_no_rank_beyond_a_thousand() -> None:
    items = np.arange(1_300)
    fitted = mfrank.Interactions.from_arrays(items % 7, items)
    model = mfrank.Popularity().fit(fitted)
    listed = model.recommend(0, N=1_300).ids.tolist()
    later = [listed[rank - 1] for rank in (1_001, 1_000, 4, *range(10, 32))]
    every = mfrank.Interactions.from_arrays([*(items % 7), *[0] * 25], [*items, *later])
    page = user(Site({"m": model}, every, None), asked("", user="0"))
    assert (page["n_held_out"], page["hits"]) == (25, 2)
    assert [each["rank"] for each in page["held_out"]] == [4, *range(10, 29)]
    every = mfrank.Interactions.from_arrays([*(items % 7), *[0] * 3], [*items, *later[:3]])
    page = user(Site({"m": model}, every, None), asked("", user="0"))
    told = [(each["id"], each["rank"]) for each in page["held_out"]]
    assert told == [(later[2], 4), (later[1], 1_000), (later[0], None)]


def test_levers_tell_ranks_up_to_a_thousand(site: Site) -> None:
    page = user(site, asked("n=20&page=6&popularity_penalty=3", user="0"))
    befores = {each["id"]: each["before"] for each in page["items"]}
    assert befores == {i: i + 1 if i < 1_000 else None for i in befores}
    assert None in befores.values()


def test_the_rank_in_the_other_list_is_told_up_to_a_thousand(site: Site) -> None:
    ends = {}
    for n in (10, 100):
        page = compare(site, asked(f"n={n}", user="0"))
        assert {(each["other"], each["move"]) for one in page["lists"] for each in one} == {
            (None, None)
        }
        ends[n] = [ids(one)[0] for one in page["lists"]]
    assert ends == {10: [0, 2_000], 100: [0, 2_000]}
    blend = compare(site, asked("n=10&weight=1", user="0"))
    assert len(blend["lists"]) == 3


def test_an_item_has_five_hundred_neighbors(site: Site) -> None:
    pages = [item(site, asked(f"n=100&page={page}", item="7")) for page in (1, 5)]
    assert [page["pages"]["total"] for page in pages] == [500, 500]
    assert pages[1]["neighbors"][-1]["rank"] == 500


def test_a_search_goes_up_to_page_two_hundred(site: Site) -> None:
    page = search(site, asked("page=200"))
    assert ids(page["items"]) == list(range(3_980, 4_000))
    assert (page["pages"]["total"], page["pages"]["after"]) == (N, None)


def test_maps_have_up_to_four_thousand_items(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mfrank.pages.views.items.places", lambda _, rows: np.zeros((len(rows), 2)))
    for query, n in (("", 1_500), ("n=4", 4), ("n=4000", 4_000)):
        page = item_map(site, asked(query + "&format=json"))
        assert ids(page["points"]) == list(range(n))
        assert page["n"] == n
    for n in (3, 4_001):
        with refuses(ValueError, "n"):
            item_map(site, asked(f"n={n}"))


def test_somebody_new_may_like_fifty_items(site: Site) -> None:
    likes = "&".join(f"like={each}" for each in range(50))
    assert len(sandbox(site, asked(likes))["picked"]) == 50
    with refuses(ValueError, "like"):
        sandbox(site, asked(f"{likes}&like=50"))

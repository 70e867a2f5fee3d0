"""Each page's numbers: those that the library gives, or that follow from the data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_site import client, data, ids, models, pair, popular, shown

import mfrank
from mfrank.data import Counts, Ids
from mfrank.store import seconds_of

USERS = data().user_ids.labels.tolist()
ITEMS = data().item_ids.labels.tolist()
USER, ITEM = USERS[3], ITEMS[5]
COUNTS = models()["als"].store.counts.items


@pytest.fixture(scope="module")
def train() -> mfrank.Interactions:
    return mfrank.by_ratio(data(), train=0.7, valid=0.0, test=0.3, random_state=0).train


def row_of(interactions: mfrank.Interactions, user: Any) -> list[Any]:
    row = interactions.user_items[interactions.user_ids.rows([user])]
    return interactions.item_ids.raw(row.indices).tolist()


def test_an_item_is_shown_alike_on_every_page(site: Any) -> None:
    expected = {
        "id": ITEM,
        "name": "Number 5 (1955)",
        "facts": "Pie",
        "kind": "Pie",
        "users": int(COUNTS[5]),
        "url": f"/item/{ITEM}",
    }
    for path, where in ((f"/item/{ITEM}", "item"), (f"/user/{USER}/why/{ITEM}", "item")):
        assert shown(site, path)[where] == expected
    (found,) = shown(site, "/search", q=ITEM)["items"]
    assert found == expected


@pytest.mark.parametrize("path", ["/item/" + ITEM, "/user/" + USER, "/sandbox", "/map"])
def test_pages_say_of_which_model_they_are(site: Any, path: str) -> None:
    for model in (0, 1):
        page = shown(site, path, model=model)
        assert (page["model"], page["names"]) == (model, ["als", "knn"])


def test_the_first_page_has_popular_items_and_users_from_first_to_last(site: Any) -> None:
    page = shown(site, "/")
    assert ids(page["popular"]) == popular()[:12]
    places = [USERS.index(user) for user in ids(page["users"])]
    assert (places[0], places[-1], len(places)) == (0, 39, 12)
    assert set(np.diff(places)) == {3, 4}
    assert page["users"][0]["url"] == f"/user/{USERS[0]}"
    assert (page["n_users"], page["n_items"]) == (40, 60)
    als, knn = page["shown"]
    assert als == {"name": "als", "kind": "ALS", "factors": 6, "epochs": 3, "url": "/model/0"}
    assert (knn["kind"], knn["url"]) == ("ItemKNN", "/model/1")


@pytest.mark.parametrize("n", [1, 2, 12, 13])
def test_few_users_are_all_on_the_first_page(tmp_path: Path, n: int) -> None:
    some = mfrank.Interactions.from_arrays(np.arange(n), np.zeros(n, dtype=np.int64))
    site = client(tmp_path, models={"m": mfrank.Popularity().fit(some)}, data=None, items=None)
    found = ids(shown(site, "/")["users"])
    assert found == sorted(set(found))
    assert (found[0], found[-1], len(found)) == (0, n - 1, min(n, 12))


def test_a_search_counts_what_it_found_and_shows_twenty(site: Any) -> None:
    page = shown(site, "/search", q="user-0", page=1)
    assert (page["n_users"], ids(page["users"])) == (40, USERS[:20])
    assert (page["q"], page["items"], page["pages"]["total"]) == ("user-0", [], 0)
    page = shown(site, "/search", page=2)
    assert (ids(page["items"]), page["users"]) == (popular()[20:40], [])
    assert page["pages"]["of"] == 3


def test_a_list_has_bars_from_none_to_the_greatest_score(site: Any) -> None:
    page = shown(site, f"/user/{USER}", n=5, page=2)
    scores = np.array([each["score"] for each in page["items"]])
    assert [each["width"] for each in page["items"]] == pytest.approx(100 * scores / scores[0])
    assert [each["rank"] for each in page["items"]] == [6, 7, 8, 9, 10]


@pytest.mark.parametrize(
    ("scores", "widths"), [([2, 1, -2], [100, 75, 0]), ([-1, -3], [100, 0]), ([4, 1], [100, 25])]
)
def test_bars_begin_at_zero_or_at_the_least_score(
    tmp_path: Path, scores: list[float], widths: list[float]
) -> None:
    store = mfrank.FactorStore(np.ones((1, 2)), np.array([[each, 0.0] for each in scores]))
    site = client(tmp_path, models={"m": mfrank.Recommender.of(store)}, data=None, items=None)
    assert [each["width"] for each in shown(site, "/user/0")["items"]] == widths


def test_equal_scores_have_equal_bars(tmp_path: Path) -> None:
    store = mfrank.FactorStore(np.ones((1, 1)), np.full((3, 1), -2.0))
    site = client(tmp_path, models={"m": mfrank.Recommender.of(store)}, data=None, items=None)
    assert [each["width"] for each in shown(site, "/user/0")["items"]] == [100] * 3


def test_what_was_held_out_has_its_ranks_the_best_first(site: Any, train: Any) -> None:
    page = shown(site, f"/user/{USER}", n=20)
    listed = models()["als"].recommend(USER, N=60).to_dicts()
    ranks = {each["id"]: rank for rank, each in enumerate(listed, 1)}
    later = set(row_of(data(), USER)) - set(row_of(train, USER))
    assert page["n_held_out"] == len(later)
    told = [(each["id"], each["rank"]) for each in page["held_out"]]
    assert told == sorted(((item, ranks[item]) for item in later), key=lambda each: each[1])[:20]
    for n in range(1, 21):
        page = shown(site, f"/user/{USER}", n=n)
        assert page["hits"] == page["hits_before"] == sum(ranks[item] <= n for item in later)
    assert {each["id"] for each in page["items"] if each["held_out"]} == {
        item for item in later if ranks[item] <= 20
    }


def test_histories_are_in_pages_of_twenty_with_ratings(site: Any, train: Any) -> None:
    user = USERS[int(np.argmax(np.diff(train.user_items.indptr)))]
    own = data().user_items[data().user_ids.rows([user])]
    ratings = dict(zip(data().item_ids.raw(own.indices).tolist(), own.data.tolist(), strict=True))
    pages = [shown(site, f"/user/{user}", history_page=page) for page in (1, 2)]
    found = [each for page in pages for each in page["history"]]
    assert len(pages[0]["history"]) == 20 < len(found) == pages[0]["history_pages"]["total"]
    assert set(ids(found)) == set(row_of(train, user))
    assert all(each["value"] == ratings[each["id"]] for each in found)
    assert all(each["value"] == ratings[each["id"]] for each in pages[0]["held_out"])
    order = [(-each["value"], -each["users"]) for each in found]
    assert order == sorted(order)


def test_values_that_are_all_alike_are_not_shown(tmp_path: Path, train: Any) -> None:
    alike = mfrank.Interactions(
        data().user_items.astype(bool).astype(np.float64), data().user_ids, data().item_ids
    )
    page = shown(client(tmp_path, data=alike), f"/user/{USER}")
    assert {each["value"] for each in page["history"] + page["held_out"]} == {None}


def test_pages_of_the_second_model_lead_to_pages_of_it(site: Any) -> None:
    for model, end in ((0, ""), (1, "?model=1")):
        page = shown(site, f"/user/{USER}", model=model)
        item = page["items"][0]["id"]
        assert page["items"][0]["why"] == f"/user/{USER}/why/{item}{end}"
        why = shown(site, f"/user/{USER}/why/{item}", model=model)
        assert why["back"] == f"/user/{USER}{end}"
        assert (why["user"], why["model"], why["names"]) == (USER, model, ["als", "knn"])
        assert page["compare"] == f"/compare/{USER}"


def test_one_model_is_compared_with_none(tmp_path: Path) -> None:
    alone = client(tmp_path, models={"als": models()["als"]})
    assert shown(alone, f"/user/{USER}")["compare"] is None
    assert shown(alone, "/quality/0")["both"] is None


@pytest.mark.parametrize(
    ("path", "name", "low", "high"),
    [
        (f"/user/{USER}", "n", 1, 100),
        (f"/user/{USER}/why/{ITEM}", "n", 1, 100),
        (f"/item/{ITEM}", "n", 1, 100),
        (f"/compare/{USER}", "n", 1, 100),
        ("/sandbox", "n", 1, 100),
        (f"/user/{USER}", "model", 0, 1),
        (f"/user/{USER}", "at_most", 1, 100),
        (f"/user/{USER}", "diversity", 0, 1),
        (f"/user/{USER}", "popularity_penalty", 0, 3),
        (f"/user/{USER}", "by", -3, 3),
    ],
)
def test_bounds_are_those_that_are_said(
    site: Any, path: str, name: str, low: int, high: int
) -> None:
    for number in (low, high):
        assert site.get(f"{path}?{name}={number}").status_code == 200
    for number in (low - 1, high + 1):
        answer = site.get(f"{path}?{name}={number}&format=json")
        assert answer.status_code == 422
        assert f"number from {low} to {high}, got '{number}'" in answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "where", "n"),
    [
        (f"/user/{USER}", "items", 10),
        (f"/user/{USER}/why/{ITEM}", "contributions", 12),
        (f"/item/{ITEM}", "neighbors", 20),
        (f"/sandbox?like={ITEM}", "items", 15),
        ("/sandbox", "offered", 12),
    ],
)
def test_lists_have_so_many_places_if_no_number_is_asked(
    site: Any, path: str, where: str, n: int
) -> None:
    page = site.get(path + ("&" if "?" in path else "?") + "format=json").json()
    assert len(page[where]) == n


def test_a_user_without_items_has_a_score_without_parts(tmp_path: Path) -> None:
    rows = data().user_items.copy()
    rows.resize((41, 60))
    every = mfrank.Interactions(rows, Ids.of([*USERS, "nobody"]), data().item_ids)
    als = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(every)
    site = client(tmp_path, models={"m": als}, data=None)
    page = shown(site, f"/user/nobody/why/{ITEM}")
    assert (page["contributions"], page["others"]) == ([], 0)
    page = shown(site, "/user/nobody")
    assert page["history"] == []
    assert all(each["because"] == [] for each in page["items"])


def test_contributions_have_bars_to_the_greatest_of_them(site: Any) -> None:
    page = shown(site, f"/user/{USER}/why/{ITEM}", n=100)
    parts = np.array([each["contribution"] for each in page["contributions"]])
    assert (parts < 0).any()
    widths = 100 * np.abs(parts) / np.abs(parts).max()
    assert [each["width"] for each in page["contributions"]] == pytest.approx(widths)
    assert page["score"] == pytest.approx(float(models()["als"].score([USER], [ITEM])[0]))
    few = shown(site, f"/user/{USER}/why/{ITEM}", n=3)["contributions"]
    assert few == [
        {**each, "width": one["width"]}
        for each, one in zip(page["contributions"][:3], few, strict=True)
    ]
    assert len(shown(site, f"/user/{USER}/why/{ITEM}")["contributions"]) == 12


def test_an_item_to_which_nothing_adds_has_no_bars(tmp_path: Path) -> None:
    models()["als"].save(tmp_path / "als")
    store = mfrank.FactorStore.load(tmp_path / "als")
    factors = np.where(np.arange(60)[:, None] == 5, 0, store.item_factors)
    replace(store, item_factors=factors.astype(np.float32)).save(tmp_path / "none")
    site = client(tmp_path, models={"m": mfrank.load(tmp_path / "none")}, data=None)
    page = shown(site, f"/user/{USER}/why/{ITEM}")
    assert {each["contribution"] for each in page["contributions"]} == {0.0}
    assert {each["width"] for each in page["contributions"]} == {0.0}


def test_a_score_that_is_no_sum_is_told_beside_the_nearest_items(
    tmp_path: Path, train: Any
) -> None:
    models()["als"].save(tmp_path / "als")
    bare = mfrank.Recommender.of(mfrank.FactorStore.load(tmp_path / "als"))
    page = shown(client(tmp_path, models={"m": bare}), f"/user/{USER}/why/{ITEM}", n=4)
    assert page["score"] == pytest.approx(float(bare.score([USER], [ITEM])[0]))
    assert "Recommender does not explain its scores" in page["note"]
    own = row_of(train, USER)
    cosines = dict(zip(*bare.similar_items(ITEM, N=60, items=own), strict=True))
    nearest = sorted((item for item in own if cosines[item] > 0), key=lambda i: -cosines[i])
    assert ids(page["nearest"]) == nearest[:4]


def test_a_sum_over_links_is_shown_by_the_items_of_the_user(site: Any) -> None:
    page, knn = shown(site, f"/user/{USER}/why/{ITEM}", model=1, n=5), models()["knn"]
    why = knn.explain(USER, None, ITEM, 5)
    assert page["score"] == pytest.approx(float(knn.score([USER], [ITEM])[0]))
    parts = {each["id"]: each["contribution"] for each in page["contributions"]}
    assert len(parts) == 5
    assert parts == dict(why.contributions)


def test_the_paths_of_a_walk_are_those_of_explain(tmp_path: Path) -> None:
    timed = mfrank.Interactions.from_arrays(
        data().user_ids.labels[data().entry_users],
        data().item_ids.labels[data().user_items.indices],
        None,
        np.arange(data().nnz) * 7 % 31,
    )
    walk = mfrank.SupervisedPageRank(random_state=0).fit(timed)
    site = client(tmp_path, models={"walk": walk}, data=None)
    page = shown(site, f"/user/{USER}/why/{ITEM}", n=5)
    expected = walk.explain(USER, None, ITEM, 5)
    assert page["score"] == pytest.approx(expected.score)
    assert [(ids(each["items"]), each["mass"]) for each in page["paths"]] == [
        (list(path.items), pytest.approx(path.mass)) for path in expected.paths
    ]
    assert page["paths"][0]["items"][-1]["name"] == "Number 5 (1955)"
    for each in shown(site, f"/user/{USER}", n=3)["items"]:
        paths = walk.explain(USER, None, each["id"], 2).paths
        assert ids(each["because"]) == list(dict.fromkeys(path.items[0] for path in paths))
    new = shown(site, "/sandbox", like=[ITEM])
    assert all(each["because"] == [] for each in new["items"])


def test_an_item_has_its_place_among_all_and_its_neighbors_theirs(site: Any) -> None:
    page = shown(site, f"/item/{ITEM}", n=7, page=2)
    near = models()["als"].similar_items(ITEM, N=60, filter_items=[ITEM]).to_dicts()
    assert ids(page["neighbors"]) == ids(near)[7:14]
    assert [each["rank"] for each in page["neighbors"]] == list(range(8, 15))
    assert page["share"] == pytest.approx(COUNTS[5] / 40)
    assert page["rank"] == 1 + sum(each > COUNTS[5] for each in COUNTS.tolist())
    assert (page["n_items"], page["pages"]["total"]) == (60, 59)
    for each in page["neighbors"]:
        assert each["width"] == pytest.approx(100 * each["score"] / near[0]["score"])
        assert each["popularity"] == pytest.approx(100 * each["users"] / COUNTS.max())


def test_items_in_the_other_direction_have_no_bar(tmp_path: Path) -> None:
    items = np.array([[1.0, 0], [1, 1], [-1, 0], [-1, 1]])
    for rows, widths in (([0, 1, 2, 3], [100, 0, 0]), ([0, 2, 3], [0, 0])):
        store = mfrank.FactorStore(np.ones((1, 2)), items[rows])
        site = client(tmp_path, models={"m": mfrank.Recommender.of(store)}, data=None, items=None)
        near = shown(site, "/item/0")["neighbors"]
        assert [each["width"] for each in near] == pytest.approx(widths)


def test_an_item_that_everybody_has_is_all_of_it(tmp_path: Path) -> None:
    counts = Counts(np.array([2]), np.array([1, 1]))
    one = mfrank.Recommender.of(mfrank.FactorStore(np.eye(1), np.ones((2, 1)), counts=counts))
    page = shown(client(tmp_path, models={"m": one}, data=None, items=None), "/item/0")
    assert (page["share"], page["rank"]) == (1, 1)
    assert [each["popularity"] for each in page["neighbors"]] == [100]


def test_an_item_that_nobody_has_has_no_share(tmp_path: Path) -> None:
    store = mfrank.FactorStore(np.zeros((0, 2)), np.zeros((3, 2)))
    site = client(tmp_path, models={"m": mfrank.Recommender.of(store)}, data=None, items=None)
    page = shown(site, "/item/1")
    assert (page["share"], page["rank"], page["item"]["users"]) == (0, 1, 0)
    assert {(each["width"], each["popularity"]) for each in page["neighbors"]} <= {(0, 0)}
    assert shown(site, "/")["users"] == []


def test_two_lists_are_those_of_the_models_with_ranks_in_the_other(site: Any, train: Any) -> None:
    page = shown(site, f"/compare/{USER}", n=15)
    every = [ids(each.recommend(USER, N=60).to_dicts()) for each in models().values()]
    later = set(row_of(data(), USER)) - set(row_of(train, USER))
    for place, listed in enumerate(page["lists"]):
        own, other = every[place], every[1 - place]
        assert ids(listed) == own[:15]
        for rank, each in enumerate(listed, 1):
            there = other.index(each["id"]) + 1 if each["id"] in other else None
            move = None if there is None else there - rank
            held_out = each["id"] in later
            assert [each[name] for name in ("rank", "other", "move", "held_out")] == [
                *(rank, there, move, held_out)
            ]
    assert page["hits"] == [len(later & set(own[:15])) for own in every]
    assert page["n_held_out"] == len(later)
    assert page["overlap"] == len(set(every[0][:15]) & set(every[1][:15]))
    told = [page[name] for name in ("user", "n", "weight", "titles", "names", "height", "url")]
    both = ["als", "knn"]
    assert told == [USER, 15, None, both, both, 15, f"/user/{USER}"]
    assert page["no_blend"] == "knn has no factors to blend"


def test_what_either_has_seen_is_no_hit_of_the_other(tmp_path: Path) -> None:
    part = np.arange(data().nnz) % 4
    fitted = [mfrank.Popularity().fit(data().take((part == of) | (part == 1))) for of in (0, 2)]
    site = client(tmp_path, models=dict(zip("ab", fitted, strict=True)))
    later = set(row_of(data(), USER)) - set(row_of(data().take(part < 3), USER))
    page = shown(site, f"/compare/{USER}", n=50)
    assert page["n_held_out"] == len(later) > 0
    assert page["hits"] == [len(later & set(ids(listed))) for listed in page["lists"]]
    marked = {each["id"] for listed in page["lists"] for each in listed if each["held_out"]}
    assert marked <= later


def test_a_user_whom_one_model_does_not_know_has_no_two_lists(tmp_path: Path) -> None:
    fewer = data().take(data().entry_users != 3)
    fewer = mfrank.Interactions.from_arrays(
        fewer.user_ids.labels[fewer.entry_users], fewer.item_ids.labels[fewer.user_items.indices]
    )
    both = {"a": models()["als"], "b": mfrank.Popularity().fit(fewer)}
    for order in (both, dict(reversed(both.items()))):
        answer = client(tmp_path, models=order).get(f"/compare/{USER}?format=json")
        assert (answer.status_code, USER in answer.json()["error"]) == (404, True)


def test_an_item_that_the_other_model_does_not_list_has_no_rank_there(tmp_path: Path) -> None:
    fewer = mfrank.Interactions(
        data().user_items[:, :9], data().user_ids, data().item_ids.take(np.arange(9))
    )
    site = client(tmp_path, models={"a": models()["als"], "b": mfrank.Popularity().fit(fewer)})
    first, second = shown(site, f"/compare/{USER}")["lists"]
    strangers = [each for each in first if each["id"] not in ITEMS[:9]]
    assert {(each["other"], each["move"]) for each in strangers} == {(None, None)}
    assert 0 < len(second) < 9 < len(first) == 20
    assert shown(site, f"/compare/{USER}")["height"] == 20


def test_the_model_page_tells_of_the_fit(site: Any) -> None:
    page, als = shown(site, "/model/0"), models()["als"]
    assert page["sizes"] == {
        "users": 40,
        "items": 60,
        "factors": 6,
        "interactions": 631,
        "density": pytest.approx(631 / 2400),
        "dtype": "float32",
    }
    assert [page[name] for name in ("model", "names", "kind")] == [0, ["als", "knn"], "ALS"]
    assert page["others"] == [
        {"name": "als", "url": "/model/0"},
        {"name": "knn", "url": "/model/1"},
    ]
    assert page["versions"] == dict(als.store.versions)
    assert page["seconds"] == pytest.approx(seconds_of(als.store.history))
    assert page["history"] == [dict(epoch) for epoch in als.store.history]
    objective, seconds = page["curves"]
    assert (objective["title"], seconds["title"]) == ("Objective", "Seconds of each epoch")
    assert objective["last"] == als.store.history[-1]["objective"]
    settings = dict(page["settings"])
    assert [settings[name] for name in ("objective", "objective.nu", "factors", "biases")] == [
        *("IALS", "0.5", "6", "False")
    ]
    assert list(settings)[:3] == ["objective", "objective.alpha0", "objective.regularization"]


def test_a_curve_of_stopping_and_what_a_model_does_not_know(tmp_path: Path) -> None:
    split = mfrank.by_ratio(data(), train=0.7, valid=0.3, test=0, random_state=0)
    als = mfrank.ALS(factors=2, iterations=3, random_state=0)
    als.fit(split.train, stopping=mfrank.EarlyStopping(split.valid, patience=9))
    bare = mfrank.Recommender.of(mfrank.FactorStore(np.ones((2, 2)), np.ones((3, 2))))
    site = client(tmp_path, models={"als": als, "bare": bare}, data=None, items=None)
    curves = {each["name"]: each["title"] for each in shown(site, "/model/0")["curves"]}
    assert curves["valid"] == "Held-out metric of early stopping"
    page = shown(site, "/model/1")
    assert (page["epochs"], page["curves"], page["history"]) == (0, [], [])
    assert (page["sizes"]["interactions"], page["sizes"]["density"]) == (None, None)
    none = mfrank.FactorStore(
        np.ones((0, 2)),
        np.ones((3, 2)),
        counts=Counts(np.zeros(0, np.int64), np.zeros(3, np.int64)),
    )
    site = client(tmp_path, models={"none": mfrank.Recommender.of(none)}, data=None, items=None)
    sizes = shown(site, "/model/0")["sizes"]
    assert (sizes["interactions"], sizes["density"]) == (0, None)


def test_pairs_of_models_have_sound_pages(tmp_path: Path) -> None:
    site = client(tmp_path, models=pair())
    page = shown(site, f"/compare/{USER}", weight=0.25)
    assert (page["weight"], page["no_blend"], len(page["lines"])) == (0.25, None, 2)

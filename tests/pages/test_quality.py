"""Whom a model serves: what the page says is what ``evaluate`` finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from small_site import client, data, models

import mfrank
from mfrank.data import Ids
from mfrank.pages.judging import judge, paced


def held_out(all_data: mfrank.Interactions) -> tuple[mfrank.Interactions, mfrank.Interactions]:
    split = mfrank.by_ratio(all_data, train=0.7, valid=0.0, test=0.3, random_state=0)
    return split.train, split.test


@pytest.fixture(scope="module")
def page(site: Any) -> dict[str, Any]:
    return dict(site.get("/quality/0?format=json").json())


@pytest.fixture(scope="module")
def expected() -> mfrank.evaluation.report.Evaluation:
    train, test = held_out(data())
    groups = mfrank.by_popularity(train)
    return mfrank.evaluate(models()["als"], test, metrics=["ndcg@10"], item_groups=groups)


def first(told: dict[str, Any]) -> tuple[int, float]:
    return told["n_users"], told["metrics"][0]["value"]


def test_means_are_those_of_evaluate(page: dict[str, Any], expected: Any) -> None:
    assert [each["name"] for each in page["metrics"]] == ["NDCG@10", "Recall@10", "HitRate@10"]
    assert first(page) == (expected.n_users, pytest.approx(expected["ndcg@10"].value))
    assert (page["n_drawn"], page["n_in_data"]) == (40, 40)
    told = page["metrics"][0]
    assert told["low"] < told["value"] < told["high"]
    t = float(scipy.stats.t.ppf(0.975, 39))
    assert told["reach"] == pytest.approx(t * expected["ndcg@10"].standard_error)


def test_the_page_leads_to_the_other_model_and_to_both(site: Any, page: dict[str, Any]) -> None:
    links = [{"name": "als", "url": "/quality/0"}, {"name": "knn", "url": "/quality/1"}]
    told = [page[name] for name in ("model", "names", "others", "both", "note", "length")]
    assert told == [0, ["als", "knn"], links, "/quality/both", "", 10]


def test_groups_are_those_of_the_library(page: dict[str, Any], expected: Any) -> None:
    found = {each["name"]: first(each) for each in page["by_activity"]}
    groups = expected.by_group(mfrank.by_activity(held_out(data())[0]))
    assert found == {
        name: (one.n_users, pytest.approx(one["ndcg@10"].value)) for name, one in groups.items()
    }
    found = {each["name"]: first(each) for each in page["by_popularity"]}
    assert found == {
        name: (one.n_users, pytest.approx(one["ndcg@10"].value))
        for name, one in expected.by_item_group.items()
        if one.n_users
    }


def test_the_worst_served_come_first_and_are_linked(
    site: Any, page: dict[str, Any], expected: Any
) -> None:
    values = sorted(expected["ndcg@10"].per_user.tolist())[:20]
    assert [each["ndcg"] for each in page["worst"]] == pytest.approx(values)
    pairs = [(each["ndcg"], -each["held_out"]) for each in page["worst"]]
    assert pairs == sorted(pairs)
    had = np.diff(held_out(data())[0].user_items.indptr)
    for each in page["worst"]:
        assert each["has"] == had[data().user_ids.rows([each["id"]])[0]]
    worst = page["worst"][0]
    shown = site.get(worst["url"] + "?format=json").json()
    assert shown["user"] == worst["id"]
    assert shown["n_held_out"] == worst["held_out"]
    assert shown["history_pages"]["total"] == worst["has"]
    assert "model=1" in site.get("/quality/1?format=json").json()["worst"][0]["url"]


def test_places_of_lists_are_shared_out(page: dict[str, Any], expected: Any) -> None:
    never = np.flatnonzero(expected.exposure == 0)
    assert page["n_never"] == len(never) == sum(each["n_never"] for each in page["exposure"])
    ids = models()["als"].item_ids.raw(never).tolist()
    assert {each["id"] for each in page["never"]} <= set(ids)
    order = [(-each["users"], data().item_ids.rows([each["id"]])[0]) for each in page["never"]]
    assert order == sorted(order)
    assert page["n_items"] == 60
    for part in ("of_items", "had", "shown"):
        assert sum(each[part] for each in page["exposure"]) == pytest.approx(1)
    counts = models()["als"].store.counts.items
    rarest = sorted(range(60), key=lambda row: counts[row])
    for name, of in (("had", counts), ("shown", expected.exposure)):
        ends = [round(60 * step / 50) for step in range(51)]
        shares = [of[rarest[:end]].sum() / of.sum() for end in ends]
        assert page["shares"][name] == pytest.approx(shares)


def test_groups_of_items_have_their_parts(page: dict[str, Any], expected: Any) -> None:
    groups, counts = mfrank.by_popularity(held_out(data())[0]), models()["als"].store.counts.items
    for number, row in enumerate(page["exposure"]):
        own = groups.of_rows == number
        assert row == {
            "name": groups.names[number],
            "n_items": own.sum(),
            "of_items": pytest.approx(own.mean()),
            "had": pytest.approx(counts[own].sum() / counts.sum()),
            "shown": pytest.approx(expected.exposure[own].sum() / expected.exposure.sum()),
            "n_never": (expected.exposure[own] == 0).sum(),
        }


def test_a_single_place_is_the_whole_of_what_is_shown(tmp_path: Path) -> None:
    every = mfrank.Interactions.from_arrays(["u", "u", "v"], ["x", "y", "y"])
    fitted = mfrank.Popularity().fit(
        mfrank.Interactions(sp.csr_array(np.eye(2)), every.user_ids, every.item_ids)
    )
    site = client(tmp_path, models={"m": fitted}, data=every, items=None)
    page = site.get("/quality/0?format=json").json()
    for part in ("of_items", "had", "shown"):
        assert sum(each[part] for each in page["exposure"]) == 1
    assert [each[-1] for each in page["shares"].values()] == [1, 1]


def test_a_model_is_judged_once(
    tmp_path: Path, page: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def counted(*given: Any) -> Any:
        calls.append(given)
        return judge(*given)

    monkeypatch.setattr("mfrank.pages.views.models.judge", counted)
    one = client(tmp_path)
    assert not calls
    assert one.get("/quality/0?format=json").json() == page
    assert one.get("/quality/0").status_code == one.get("/quality/0").status_code == 200
    assert len(calls) == 1
    one.get("/quality/1")
    assert len(calls) == 2


def test_users_are_a_sample_within_the_time() -> None:
    train, _ = held_out(everybody := mfrank.synthetic(300, 40, 3000, random_state=0))
    model = mfrank.Popularity().fit(train)
    assert model.seen is not None
    for limits, drawn in (({"most_users": 150}, 150), ({"most_seconds": 0.0}, 100), ({}, 300)):
        judged = judge([model], everybody, **limits)
        assert judged.n_drawn == drawn
        assert judged.n_in_data == 300
        assert judged.evaluations[0].n_users == len(judged.users) == len(judged.held_out) <= drawn
        assert len(np.unique(judged.users)) == len(judged.users)


def test_data_in_another_order_and_with_strangers_are_matched_by_id() -> None:
    train, test = held_out(data())
    model = mfrank.ItemKNN().fit(train)
    assert model.seen is not None
    own = data().user_items.tocoo()
    users = [*data().user_ids.labels[own.coords[0]][::-1], "stranger", data().user_ids.labels[0]]
    items = [*data().item_ids.labels[own.coords[1]][::-1], data().item_ids.labels[0], "unknown"]
    judged = judge([model], mfrank.Interactions.from_arrays(users, items))
    expected = mfrank.evaluate(model, test, metrics="ndcg@10")
    assert judged.n_in_data == 40
    assert judged.evaluations[0]["ndcg@10"].value == pytest.approx(expected["ndcg@10"].value)
    assert np.array_equal(judged.evaluations[0].exposure, expected.exposure)


def test_who_cannot_be_judged_is_said(tmp_path: Path) -> None:
    train = mfrank.Popularity().fit(data())
    all_seen = client(tmp_path, models={"all": train})
    assert "nothing is held out" in all_seen.get("/quality/0").text
    train.save(tmp_path / "bare", with_seen=False)
    bare = client(tmp_path, models={"bare": mfrank.load(tmp_path / "bare")})
    assert "what is held out is unknown" in bare.get("/quality/0?format=json").json()["note"]
    none = client(tmp_path, data=None)
    assert none.get("/quality/0").status_code == 422
    assert "--data FILE" in none.get("/quality/0?format=json").json()["error"]
    assert "/quality/" not in none.get("/model/0").text


def with_ids(cells: Any) -> mfrank.Interactions:
    return mfrank.Interactions(sp.csr_array(np.array(cells, dtype=np.float64)), *known())


def known() -> tuple[Ids, Ids]:
    return Ids.of(list("abcdefgh")), Ids.of(list("xyz"))


def test_held_out_is_what_the_data_have_and_the_fit_has_not() -> None:
    """For more users than items; the last item has no users in the fit."""
    fitted = [
        [1, 1, 0],
        [1, 0, 0],
        [0, 0, 0],
        [1, 1, 0],
        [0, 1, 0],
        [1, 0, 0],
        [1, 0, 0],
        [0, 1, 0],
    ]
    every = [[1, 1, 1], [0, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 1, 1]]
    model = mfrank.Popularity().fit(with_ids(fitted))
    found = judge([model], with_ids(every))
    assert (found.n_drawn, found.n_in_data) == (6, 6)  # two have nothing in the data
    labels = model.user_ids.raw(found.users).tolist()
    told = dict(zip(labels, found.held_out.tolist(), strict=True))
    assert told == {"a": 1, "b": 2, "e": 1, "g": 1, "h": 2}
    assert found.counts.tolist() == [5, 4, 0]
    assert len(found.popularity.of_rows) == 3


def test_held_out_of_many_users_is_told_cell_by_cell() -> None:
    rng = np.random.default_rng(0)
    every, kept = rng.random((60, 4)) < 0.7, rng.random((60, 4)) < 0.5
    ids = Ids.numbered(60), Ids.numbered(4)
    parts = (sp.csr_array(cells.astype(np.float64)) for cells in (every, every & kept))
    given, fitted = (mfrank.Interactions(part, *ids) for part in parts)
    found = judge([mfrank.ItemKNN().fit(fitted)], given)
    assert found.held_out.tolist() == (every & ~kept)[found.users].sum(axis=1).tolist()
    assert found.held_out.sum() == (every & ~kept).sum()


def test_a_page_judges_five_thousand_users_in_fifteen_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = []

    def unlimited(judge_first: Any, n: int, *given: float) -> Any:
        limits.append(given)
        return judge_first(n), n

    monkeypatch.setattr("mfrank.pages.judging.paced", unlimited)
    judge([models()["als"]], data())
    assert limits == [(5_000, 15.0)]


class Clock:
    """A judge that takes so many seconds for each user, and the time that it has taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.now, self.seconds, self.judged = 0.0, seconds, list[int]()
        monkeypatch.setattr("mfrank.pages.judging.time.perf_counter", lambda: self.now)

    def __call__(self, size: int) -> int:
        self.now += size * self.seconds
        self.judged.append(size)
        return size


@pytest.mark.parametrize(
    ("seconds", "n", "judged", "of"),
    [
        (1 / 256, 9_000, [100, 3_840], 3_840),
        (1 / 1024, 9_000, [100, 5_000], 5_000),
        (1 / 256, 1_000, [100, 3_840], 1_000),
        (1.0, 9_000, [100], 100),
        (0.0, 90, [100], 90),
        (1 / 1024, 100, [100], 100),
        (0.0, 9_000, [100, 5_000], 5_000),
        (0.15, 9_000, [100], 100),
    ],
)
def test_as_many_are_judged_as_the_time_allows(
    monkeypatch: pytest.MonkeyPatch, seconds: float, n: int, judged: list[int], of: int
) -> None:
    clock = Clock(monkeypatch, seconds)
    assert paced(clock, n, 5_000, 15.0) == (judged[-1], of)
    assert clock.judged == judged


def test_groups_of_one_user_have_no_interval(tmp_path: Path) -> None:
    users, items = ["a"] * 4 + ["b"] * 9, [*range(4), *range(9)]
    every = mfrank.Interactions.from_arrays(users, items)
    fitted = mfrank.Popularity().fit(every.take(np.array([1, 1, 1, 0] + [1] * 6 + [0] * 3) > 0))
    site = client(tmp_path, models={"m": fitted, "n": fitted}, data=every, items=None)
    page = site.get("/quality/0?format=json").json()
    for row in page["by_activity"]:
        assert row["n_users"] == 1
        assert {each["reach"] for each in row["metrics"]} == {None}
        assert {(each["low"], each["high"]) for each in row["metrics"]} == {(None, None)}
    assert {each["reach"] is None for each in page["metrics"]} == {False}  # of both users
    page = site.get("/quality/both?format=json").json()
    assert {each["low"] is None for each in page["metrics"]} == {False}
    for row in page["by_activity"]:
        for each in row["metrics"]:
            assert (each["low"], each["high"], each["better"]) == (None, None, None)
    for path in ("/quality/0", "/quality/1", "/quality/both"):
        answer = site.get(path)
        assert (answer.status_code, "nan" in answer.text) == (200, False)

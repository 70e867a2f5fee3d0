"""Two models side by side: what the page says is what ``Evaluation.compare`` finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from small_site import client, data, models

import mfrank
from mfrank.data import Ids
from mfrank.evaluation import Evaluation
from mfrank.pages.judging import judge

METRICS = ["ndcg@10", "recall@10", "hitrate@10"]


@pytest.fixture(scope="module")
def page(site: Any) -> dict[str, Any]:
    return dict(site.get("/quality/both?format=json").json())


@pytest.fixture(scope="module")
def expected() -> tuple[Evaluation, Evaluation]:
    split = mfrank.by_ratio(data(), train=0.7, valid=0.0, test=0.3, random_state=0)
    groups = mfrank.by_popularity(split.train)
    options: dict[str, Any] = {"metrics": METRICS, "item_groups": groups}
    first, second = (mfrank.evaluate(each, split.test, **options) for each in models().values())
    return first, second


def agree(told: dict[str, Any], first: Evaluation, second: Evaluation) -> None:
    for metric, name in zip(told["metrics"], METRICS, strict=True):
        found = first.compare(second, name)
        assert metric["values"] == pytest.approx([first[name].value, second[name].value])
        assert metric["difference"] == pytest.approx(found.mean)
        if first.n_users > 1:
            assert (metric["low"], metric["high"]) == pytest.approx((found.low, found.high))
            sure = found.low > 0 or found.high < 0
            assert metric["better"] == (int(found.mean < 0) if sure else None)
        else:
            assert metric["low"] is metric["high"] is metric["better"] is None


def test_differences_are_those_of_compare(page: dict[str, Any], expected: Any) -> None:
    assert page["n_users"] == expected[0].n_users
    assert page["names"] == ["als", "knn"]
    agree(page, *expected)


def test_groups_are_those_of_the_library(page: dict[str, Any], expected: Any) -> None:
    train = mfrank.by_ratio(data(), train=0.7, valid=0.0, test=0.3, random_state=0).train
    by_activity = [each.by_group(mfrank.by_activity(train)) for each in expected]
    by_popularity = [dict(each.by_item_group) for each in expected]
    for name, groups in (("by_activity", by_activity), ("by_popularity", by_popularity)):
        there = [group for group, one in groups[0].items() if one.n_users]
        assert [row["name"] for row in page[name]] == there
        for row in page[name]:
            assert row["n_users"] == groups[0][row["name"]].n_users
            agree(row, *(each[row["name"]] for each in groups))


def test_who_gains_most_comes_first_and_is_linked(
    site: Any, page: dict[str, Any], expected: Any
) -> None:
    gained = expected[0]["ndcg@10"].per_user - expected[1]["ndcg@10"].per_user
    assert page["n_better"] == [(gained > 0).sum(), (gained < 0).sum()]
    assert page["n_same"] == (gained == 0).sum()
    for sign, users in zip((1, -1), page["most"], strict=True):
        told = [sign * (each["ndcg"][0] - each["ndcg"][1]) for each in users]
        assert told == pytest.approx(sorted((g for g in sign * gained if g > 0), reverse=True)[:20])
        worst = [
            (-round(gain, 9), round(min(each["ndcg"]), 9), -each["held_out"])
            for gain, each in zip(told, users, strict=True)
        ]
        assert worst == sorted(worst)
        shown = site.get(users[0]["url"] + "?format=json").json()
        assert (shown["user"], shown["n_held_out"]) == (users[0]["id"], users[0]["held_out"])


def test_exchanged_models_have_exchanged_signs(tmp_path: Path, page: dict[str, Any]) -> None:
    two = dict(reversed(models().items()))
    other = client(tmp_path, models=two).get("/quality/both?format=json").json()
    assert other["names"] == ["knn", "als"]
    assert other["n_better"] == page["n_better"][::-1]
    for one, mirrored in zip(page["metrics"], other["metrics"], strict=True):
        assert mirrored["values"] == one["values"][::-1]
        assert mirrored["low"] == pytest.approx(-one["high"])
        assert mirrored["difference"] == pytest.approx(-one["difference"])
        assert mirrored["better"] == (None if one["better"] is None else 1 - one["better"])
    assert any(metric["better"] is not None for metric in page["metrics"])


def test_of_equal_gains_those_with_most_held_out_come_first(tmp_path: Path) -> None:
    """To the first model, x and y are popular, to the second, w is."""
    users, items = Ids.of(["a", "b", "c", "d", "e"]), Ids.of(["v", "w", "x", "y", "z"])

    def of(*rows: str) -> mfrank.Interactions:
        cells = np.array([[item in row for item in "vwxyz"] for row in rows], dtype=np.float64)
        return mfrank.Interactions(sp.csr_array(cells), users, items)

    first = mfrank.Popularity().fit(of("z", "vz", "z", "xy", "x"))
    second = mfrank.Popularity().fit(of("z", "z", "z", "w", "w"))
    every = of("xz", "vxyz", "xz", "wxy", "wx")
    site = client(tmp_path, models={"a": first, "b": second}, data=every, items=None)
    page = site.get("/quality/both?format=json").json()
    better, worse = page["most"]
    told = [[each[name] for name in ("id", "ndcg", "held_out", "has")] for each in better]
    assert told == [["b", [1, 0], 2, 2], ["a", [1, 0], 1, 1], ["c", [1, 0], 1, 1]]
    assert (worse, page["n_better"], page["n_same"]) == ([], [3, 0], 0)


def test_the_page_names_both_and_links_each(site: Any) -> None:
    text = site.get("/quality/both").text
    assert "Whom each of two models serves" in text
    assert 'href="/quality/0"' in text
    assert 'href="/quality/1"' in text
    assert 'href="/quality/both"' in site.get("/quality/1").text


def test_a_pair_is_judged_once(
    tmp_path: Path, page: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def counted(*given: Any) -> Any:
        calls.append(given)
        return judge(*given)

    monkeypatch.setattr("mfrank.pages.views.models.judge", counted)
    one = client(tmp_path)
    assert one.get("/quality/both?format=json").json() == page
    assert one.get("/quality/both").status_code == 200
    assert len(calls) == 1


def test_only_what_neither_has_seen_of_whom_and_what_both_know_is_held_out() -> None:
    every = data()
    rows, columns = every.user_items.nonzero()
    users, items = every.user_ids.labels[rows], every.item_ids.labels[columns]
    drawn = np.random.default_rng(0).random((2, len(rows))) < 0.6
    drawn[0] &= rows != 7  # the first model does not know this user
    drawn[1] &= columns != 3  # nor the second this item
    parts = [mfrank.Interactions.from_arrays(users[own], items[own]) for own in drawn]
    both = mfrank.ItemKNN().fit(parts[0]), mfrank.Popularity().fit(parts[1])
    pair = judge(both, every)
    left = ~drawn.any(0) & (rows != 7) & (columns != 3)
    known = (
        [set(part.user_ids.labels) for part in parts],
        [set(part.item_ids.labels) for part in parts],
    )
    left &= [user in known[0][0] & known[0][1] for user in users]
    left &= [item in known[1][0] & known[1][1] for item in items]
    wanted = mfrank.Interactions.from_arrays(users[left], items[left])
    assert [each.n_users for each in pair.evaluations] == [wanted.n_users] * 2
    counts = dict(zip(wanted.user_ids.labels, np.diff(wanted.user_items.indptr), strict=True))
    judged = both[0].user_ids.raw(pair.users)
    assert pair.held_out.tolist() == [counts[user] for user in judged]
    for model, found in zip(both, pair.evaluations, strict=True):
        for user, value in list(zip(judged, found["recall@10"].per_user, strict=True))[:8]:
            listed = set(model.recommend(user, N=10).ids)
            own = set(items[left & (users == user)])
            assert value == pytest.approx(len(listed & own) / len(own))


def test_a_pair_of_one_model_is_two_judgements_of_it() -> None:
    als = models()["als"]
    pair, alone = judge([als, als], data()), judge([als], data())
    for found in pair.evaluations:
        assert np.array_equal(found["ndcg@10"].per_user, alone.evaluations[0]["ndcg@10"].per_user)
    assert np.array_equal(pair.users, alone.users)
    assert (pair.n_drawn, pair.n_in_data) == (alone.n_drawn, alone.n_in_data)


def test_a_pair_that_cannot_be_judged_is_said(tmp_path: Path) -> None:
    train = mfrank.Popularity().fit(data())
    two = {"all": train, "other": train}
    assert "nothing is held out" in client(tmp_path, models=two).get("/quality/both").text
    train.save(tmp_path / "bare", with_seen=False)
    two["other"] = mfrank.load(tmp_path / "bare")
    note = client(tmp_path, models=two).get("/quality/both?format=json").json()["note"]
    assert note == "other was saved without the users' items: what is held out is unknown"
    alone = client(tmp_path, models={"als": train}).get("/quality/both?format=json")
    assert (alone.status_code, "one model only" in alone.json()["error"]) == (422, True)
    none = client(tmp_path, data=None).get("/quality/both?format=json")
    assert (none.status_code, "--data FILE" in none.json()["error"]) == (422, True)

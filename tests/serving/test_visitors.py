"""Lists that follow what users just did and were shown, and pages that go on with a list."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
import scipy.sparse as sp
from clients import client, kinds, model, named, other, wait_for

import mfrank
from mfrank import serving
from mfrank.serving import Event, EventJournal

ITEMS = [str(each) for each in named().item_ids.labels]
USER = str(named().user_ids.labels[-1])


def ids(answer: Any) -> list[Any]:
    return [each["id"] for each in answer.json()["items"]]


def items_of(user: str) -> list[str]:
    (row,) = named().user_ids.rows([user])
    return [ITEMS[at] for at in named().seen[[row]].indices]


def test_somebody_new_gets_the_list_of_their_events(tmp_path: Path) -> None:
    asked = client(model("WRMF"), journal=tmp_path)
    assert asked.get("/recommend/anna").status_code == 404
    events = [{"user": "anna", "item": item, "value": 2} for item in ITEMS[:2]]
    answer = asked.post("/events", json={"events": events}).json()
    assert answer == {"new": 2, "repeated": 0, "unknown": {"users": ["anna"], "items": []}}
    expected = model("WRMF").recommend_from_items(ITEMS[:2], 5, values=[2, 2])
    assert ids(asked.get("/recommend/anna?n=5")) == expected.ids.tolist()


@pytest.mark.parametrize("kind", ["ALS", "WRMF", "Descent"])
def test_a_known_users_list_is_of_history_and_events(tmp_path: Path, kind: str) -> None:
    asked, served = client(model(kind), journal=tmp_path), model(kind)
    new = next(item for item in ITEMS if item not in items_of(USER))
    assert asked.post("/events", json={"user": USER, "item": new}).json()["new"] == 1
    (row,) = served.user_ids.rows([USER])
    both = served.seen.checked[[row]].astype(np.float32).tolil()
    both[0, served.item_ids.rows([new])[0]] = 1
    expected = served.recommend([USER], sp.csr_array(both), N=5, recalculate_user=True)
    answer = asked.get(f"/recommend/{USER}?n=5")
    assert ids(answer) == expected.ids[0].tolist()
    batch = asked.post("/recommend", json={"users": [USER], "n": 5}).json()["lists"]
    assert batch == [answer.json()]
    assert asked.get("/health").json()["events"] == 1


def test_the_order_of_events_counts_where_the_model_reads_it(tmp_path: Path) -> None:
    data = mfrank.synthetic(30, 20, 200, names=True, random_state=0)
    timed = mfrank.Interactions.from_arrays(
        data.user_ids.labels[data.entry_users],
        data.item_ids.labels[data.user_items.indices],
        timestamps=np.arange(data.nnz),
    )
    served = mfrank.NextItem().fit(timed)
    asked = client(served, journal=tmp_path)
    items = [str(each) for each in data.item_ids.labels[:3]]
    for item in items:
        asked.post("/events", json={"user": "anna", "item": item})
    expected = served.recommend_from_items(items, 5)
    assert ids(asked.get("/recommend/anna?n=5")) == expected.ids.tolist()


def test_models_that_fold_nobody_in_leave_out_what_was_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mfrank.ALS, "folds_in", False)
    asked = client(model(), journal=tmp_path)
    before = ids(asked.get(f"/recommend/{USER}?n=4"))
    asked.post("/events", json={"user": USER, "item": before[0]})
    assert ids(asked.get(f"/recommend/{USER}?n=3")) == before[1:]
    assert asked.get("/health").json()["folds_in"] is False


def test_other_users_lists_stay(tmp_path: Path) -> None:
    asked, plain = client(model(), journal=tmp_path), client(model())
    asked.post("/events", json={"user": "anna", "item": ITEMS[0]})
    path = f"/recommend/{USER}?n=5"
    assert asked.get(path).content == plain.get(path).content


def test_after_an_update_the_model_has_the_events(tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    asked = client(tmp_path / "model", journal=tmp_path / "journal", reload_seconds=0.02)
    with asked:
        asked.post("/events", json={"user": "anna", "item": ITEMS[0]})
        journal, newer = EventJournal(tmp_path / "journal"), mfrank.load(tmp_path / "model")
        assert journal.update(newer) == 1
        newer.save(tmp_path / "model")
        wait_for(lambda: asked.get("/health").json()["events"] == 0)
        expected = newer.recommend("anna", N=5).ids.tolist()
        assert ids(asked.get("/recommend/anna?n=5")) == expected


BAD = [
    {"user": "a"},
    {"user": "", "item": "b"},
    {"user": "a", "item": "\ud800"},
    {"user": True, "item": "b"},
    {"user": 1.5, "item": "b"},
    {"user": 2**63, "item": "b"},
    {"user": "a", "item": "b", "value": -1},
    {"user": "a", "item": "b", "value": "1"},
    {"user": "a", "item": "b", "time": 1.8e12},
    {"user": "a", "item": "b", "time": 4.1e9},  # the year 2099
    {"user": "a", "item": "b", "time": 20_785},  # days
    {"user": "a", "item": "b", "time": 29_931_002},  # minutes
    {"user": "a", "item": "b", "time": 20_261_128},
    {"user": "a", "item": "b", "time": 12.5},  # since a page was opened
    {"user": "a", "item": "b", "id": ""},
    {"user": "a", "item": "b", "kinds": "buy"},
    [],
    None,
]


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_event_refuses_the_batch(tmp_path: Path, bad: Any) -> None:
    asked = client(model(), journal=tmp_path)
    good = {"user": "a", "item": "b"}
    body = json.dumps({"events": [good, good, bad]})  # in ASCII
    headers = {"content-type": "application/json"}
    answer = asked.post("/events", content=body, headers=headers)
    assert answer.status_code == 422
    assert "event 2" in answer.json()["error"]
    assert EventJournal(tmp_path).last == 0


def test_an_event_with_an_id_counts_once(tmp_path: Path) -> None:
    asked = client(model(), journal=tmp_path)
    event = {"user": "a", "item": "b", "id": "1"}
    counts = [asked.post("/events", json=event).json() for _ in range(2)]
    assert [(each["new"], each["repeated"]) for each in counts] == [(1, 0), (0, 1)]
    assert asked.post("/events", json={**event, "item": "c"}).status_code == 409


def test_ids_get_the_types_of_the_model(tmp_path: Path) -> None:
    asked = client(model("numbered"), journal=tmp_path)
    assert asked.post("/events", json={"user": "7", "item": 3}).status_code == 200
    assert asked.post("/events", json={"user": "x", "item": 3}).status_code == 422
    assert [each.item for each in EventJournal(tmp_path).of_user(7, 0)] == [3]


def test_kinds_count_as_the_weights_say(tmp_path: Path) -> None:
    asked = client(model("WRMF"), journal=tmp_path, weights={"view": 1.0, "buy": 5.0})
    assert asked.post("/events", json={"user": "a", "item": ITEMS[0]}).status_code == 422
    for item, kind in zip(ITEMS, ["view", "buy"], strict=False):
        asked.post("/events", json={"user": "anna", "item": item, "kind": kind})
    expected = model("WRMF").recommend_from_items(ITEMS[:2], 5, values=[1, 5])
    assert ids(asked.get("/recommend/anna?n=5")) == expected.ids.tolist()


def weighed_model() -> Any:
    data = named()
    pairs = data.user_ids.labels[data.entry_users], data.item_ids.labels[data.user_items.indices]
    kinds = np.array(["view", "buy", "wish"])[np.arange(data.nnz) % 3]
    weights = {"view": 1.0, "buy": 5.0, "wish": None}
    weighed = mfrank.Interactions.from_arrays(*pairs, events=kinds, weights=weights)
    return mfrank.ALS(mfrank.WRMF(alpha=10), factors=4, random_state=0).fit(weighed)


def test_kinds_count_as_in_the_fit_where_nothing_is_said(tmp_path: Path, caplog: Any) -> None:
    """In lists as after an update, also of kinds that the fit did not have."""
    sent = [("view", 1), ("buy", 2), ("buy", 0), ("wish", 1), ("rate", 3), (None, 2)]
    expected = {0: 1, 1: 5, 2: 0, 4: 3, 5: 2}
    with caplog.at_level(logging.INFO, "mfrank"):
        asked = client(weighed_model(), journal=tmp_path)
        events = [
            {"user": "anna", "item": item, "value": value, **({"kind": kind} if kind else {})}
            for item, (kind, value) in zip(ITEMS, sent, strict=False)
        ]
        for _ in range(2):
            assert asked.post("/events", json={"events": events[:3]}).status_code == 200
        answer = asked.post("/events", json={"events": events[3:]})
    assert answer.status_code == 200
    by_fit = "weights of the fit"
    assert (
        sum(f"events count by the {by_fit}: view 1, buy 5, wish none" in m for m in caplog.messages)
        == 1
    )
    assert sum(f"the kind 'rate', which the {by_fit}" in each for each in caplog.messages) == 1
    assert asked.get("/health").json()["event_weights"] == {"view": 1, "buy": 5, "wish": None}
    listed = ids(asked.get("/recommend/anna?n=5"))
    updated = weighed_model()
    EventJournal(tmp_path).update(updated)
    row = updated.user_ids.rows(["anna"])
    twice = {at: value * (1 + (at < 3)) for at, value in expected.items()}
    columns = updated.item_ids.rows([ITEMS[at] for at in expected])
    assert updated.seen.matrix[row].toarray()[0, columns].tolist() == [*twice.values()]
    served = weighed_model()
    liked = {ITEMS[at]: value for at, value in twice.items() if value}
    alone = served.recommend_from_items([*liked], 20, values=[*liked.values()])
    left = [each for each in alone.ids.tolist() if each not in (ITEMS[2], ITEMS[3])]
    assert listed == left[:5]
    plain = client(weighed_model(), journal=tmp_path, weights={"view": 1.0, "rate": 2.0})
    assert plain.get("/health").json()["event_weights"] == {"view": 1, "rate": 2}
    assert plain.post("/events", json=events[1]).status_code == 422


@pytest.mark.parametrize("in_file", [False, True])
def test_what_was_shown_is_not_repeated(tmp_path: Path, in_file: bool) -> None:
    file = tmp_path / "shown.sqlite" if in_file else None
    asked = client(model(), remember_shown=60.0, shown_file=file)
    whole = ids(client(model()).get(f"/recommend/{USER}?n=100"))
    assert ids(asked.get(f"/recommend/{USER}?n=100&remember=false")) == whole
    assert ids(asked.get(f"/recommend/{USER}?n=2")) == whole[:2]
    if in_file:  # of another process
        asked = client(model(), remember_shown=60.0, shown_file=file)
    assert ids(asked.get(f"/recommend/{USER}?n=2")) == whole[2:4]
    batch = asked.post("/recommend", json={"users": [USER], "n": 100}).json()["lists"][0]
    assert [each["id"] for each in batch["items"]] == whole[4:]
    assert ids(asked.get(f"/recommend/{USER}?n=2")) == []
    assert ids(asked.get(f"/recommend/{USER}?n=2&remember=false")) == whole[:2]


def test_a_batch_has_the_lists_of_its_users_one_by_one(tmp_path: Path) -> None:
    """Also of a user who is in it twice, of one with new events, and under filters of each."""
    users = [str(each) for each in model().user_ids.labels[:4].tolist()]
    asked, filters = [*users, users[1], "anna", users[0]], [[], *([item] for item in ITEMS[:6])]
    together, apart = (
        client(model(), journal=tmp_path / each, remember_shown=60.0) for each in "ab"
    )
    for service in together, apart:
        for user in "anna", users[2]:
            service.post("/events", json={"user": user, "item": ITEMS[1]})
    lists = together.post(
        "/recommend", json={"users": asked, "n": 3, "filter_items": filters}
    ).json()["lists"]
    for user, left_out, found in zip(asked, filters, lists, strict=True):
        body = {"users": [user], "n": 3, "filter_items": left_out}
        assert apart.post("/recommend", json=body).json()["lists"] == [found]
    first, again = ({item["id"] for item in lists[at]["items"]} for at in (1, 4))
    assert first
    assert again
    assert not first & again
    answer = together.post("/recommend", json={"users": users, "filter_items": filters})
    assert answer.status_code == 422
    assert "a list for each of them" in answer.text


def test_memory_is_bounded_and_ends() -> None:
    from mfrank.serving.shown import Shown

    shown = Shown(60.0, max_users=2, max_items=2)
    shown.add("a", [1, 2, 3])
    assert shown.items_of("a") == [2, 3]
    shown.add("b", [1])
    shown.add("c", [1])
    assert shown.items_of("a") == []
    assert shown.items_of("c", until=1e12) == []


def test_excluded_ids_are_not_listed_known_or_not() -> None:
    asked = client(model())
    whole = ids(asked.get(f"/recommend/{USER}?n=100"))
    query = f"?n=100&exclude={whole[0]}&exclude=nothing"
    assert ids(asked.get(f"/recommend/{USER}{query}")) == whole[1:]
    body = {"users": [USER], "n": 100, "exclude": [whole[0], "nothing"]}
    batch = asked.post("/recommend", json=body).json()["lists"][0]
    assert [each["id"] for each in batch["items"]] == whole[1:]
    near = ids(asked.get(f"/similar/{ITEMS[0]}?n=100"))
    assert ids(asked.get(f"/similar/{ITEMS[0]}?n=100&exclude={near[0]}&exclude=no")) == near[1:]


def test_what_would_exclude_nothing_is_refused() -> None:
    """Ids in one text, or written otherwise, by every route that excludes."""
    asked = client(model())
    a, b = ITEMS[:2]
    for wrong in (f"{a},{b}", f"{a}, gone", f"[{a}]", f" {a}", f'"{a}"'):
        body = {"n": 5, "exclude": [wrong]}
        for answer in (
            asked.get(f"/recommend/{USER}", params={"exclude": wrong}),
            asked.get(f"/recommend/{USER}", params={"exclude": [b, wrong], "offset": 0}),
            asked.get(f"/similar/{ITEMS[3]}", params={"exclude": wrong}),
            asked.post("/recommend", json={**body, "users": [USER]}),
            asked.post("/recommend", json={**body, "from_items": [b]}),
        ):
            assert answer.status_code == 422, answer.text
            assert "exclude" in answer.json()["error"]
    body = {"n": 5, "on_unknown": "skip", "filter_items": [f"{a},{b}"], "users": [USER]}
    query = {"on_unknown": "skip", "filter_items": f"{a},{b}"}
    for answer in (
        asked.post("/recommend", json=body),
        asked.get(f"/recommend/{USER}", params=query),
    ):
        assert answer.status_code == 404
        assert "by itself" in answer.json()["error"]


def pages(asked: Any, path: str, first: str) -> list[Any]:
    answer = asked.get(f"{path}?{first}&offset=0").json()
    found = answer["items"]
    while answer["next"]:
        answer = asked.get(f"{path}?cursor={answer['next']}").json()
        assert answer["items"]
        found += answer["items"]
    return found


@pytest.mark.parametrize("kind", kinds)
def test_pages_are_one_list(tmp_path: Path, kind: str) -> None:
    asked = client(model(kind), remember_shown=60.0, journal=tmp_path)
    for path in (
        f"/recommend/{quote(str(model(kind).user_ids.labels[0]), safe='')}",
        (f"/similar/{model(kind).item_ids.labels[0]}"),
    ):
        whole = client(model(kind)).get(f"{path}?n=100").json()["items"]
        assert pages(asked, path, "n=3") == whole


def test_pages_go_on_while_the_model_is_replaced(tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    limits = serving.Limits(max_page_seconds=60.0)
    asked = client(tmp_path / "model", limits=limits, journal=tmp_path / "journal")
    path, live = f"/recommend/{USER}", asked.app.state.live
    whole = asked.get(f"{path}?n=100").json()["items"]
    first = asked.get(f"{path}?n=2&offset=0").json()
    other().save(tmp_path / "model")
    live.refresh()
    assert asked.get(f"{path}?n=100").json()["items"] != whole
    asked.post("/events", json={"user": USER, "item": whole[3]["id"]})
    second = asked.get(f"{path}?cursor={first['next']}&n=100").json()
    assert first["items"] + second["items"] == whole
    live._held = None
    gone = asked.get(f"{path}?cursor={first['next']}")
    assert gone.status_code == 410
    assert "begin again" in gone.json()["error"]


def test_wrong_cursors_and_depths_are_refused() -> None:
    asked = client(model(), limits=serving.Limits(max_depth=10))
    path = f"/recommend/{USER}"
    cursor = asked.get(f"{path}?n=2&offset=0").json()["next"]
    for query in (
        "cursor=x",
        f"cursor={cursor[:-4]}",
        f"cursor={cursor}&include_seen=true",
        "offset=-1",
        "offset=9",
        f"cursor={cursor}&n=9",
    ):
        assert asked.get(f"{path}?{query}").status_code == 422, query
    assert asked.get(f"/recommend/{named().user_ids.labels[1]}?cursor={cursor}").status_code == 422


def test_what_is_not_configured_is_refused(tmp_path: Path) -> None:
    assert client(model()).post("/events", json={}).status_code in (404, 405)
    with pytest.raises(ValueError, match="journal"):
        serving.app(model(), weights={"view": 1.0})
    with pytest.raises(ValueError, match="remember_shown"):
        serving.app(model(), shown_file=tmp_path / "shown.sqlite")
    EventJournal(tmp_path).append([Event("a", "b")])

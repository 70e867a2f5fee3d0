"""Lists that were shown are in the journal, with their arm, and drawn ones with their odds."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from clients import client, model, named, other
from hypothesis import given
from hypothesis import strategies as st

from mfrank import serving
from mfrank.serving import EventJournal
from mfrank.serving.exploration import Explorer
from mfrank.serving.list_log import ListLog, ListShown, ListSource, read_lists
from tests.support.errors import refuses

USERS = [str(each) for each in named().user_ids.labels if "/" not in str(each)]
ITEMS = [str(each) for each in named().item_ids.labels]
SPLIT = {"a": 0.5, "b": 0.5}
DAY = 86400.0


def ids(answer: Any) -> list[Any]:
    return [each["id"] for each in answer["items"]]


def test_every_list_of_a_user_is_noted(tmp_path: Path) -> None:
    options = {"journal": tmp_path, "log_lists": DAY, "split": SPLIT, "salt": "s"}
    with client({"a": model(), "b": other()}, **options) as asked:
        answers = [asked.get(f"/recommend/{user}?n=3").json() for user in USERS]
        answers += asked.post("/recommend", json={"users": USERS, "n": 2}).json()["lists"]
        body = {"from_items": ITEMS[:2], "n": 2, "visitor": "zoe"}
        zoe = asked.post("/recommend", json=body).json()["lists"][0]
        asked.post("/recommend", json={"from_items": ITEMS[:2]})  # of nobody
        hand = asked.get(f"/recommend/{USERS[0]}?n=1&model=b&remember=false").json()
        sent = {"X-Request-Id": "r1"}
        page = asked.get(f"/recommend/{USERS[0]}?n=2&offset=3", headers=sent).json()
        assert page["list_id"] == "r1"
        assert asked.get("/recommend/nobody").status_code == 404
        assert asked.get("/health").json()["arms"]["a"]["lists_left_out"] == 0
    noted = list(read_lists(EventJournal(tmp_path)))
    assert len(noted) == 2 * len(USERS) + 3
    by_id = {(each.source.list_id, each.user): each for each in noted}
    for answer in [*answers, {**zoe, "user": "zoe"}, hand, page]:
        each = by_id[answer["list_id"], answer["user"]]
        assert (each.items, each.source.arm) == (ids(answer), answer["arm"])
        assert each.source.version == answer["version"]
        assert each.source.share == (None if answer is hand else 0.5)
        assert each.propensities is None


def test_a_service_of_one_model_notes_its_lists_too(tmp_path: Path) -> None:
    with client(model("numbered"), journal=tmp_path, log_lists=DAY) as asked:
        answer = asked.get("/recommend/7?n=3").json()
        version = asked.get("/health").json()["version"]
    (noted,) = read_lists(EventJournal(tmp_path))
    assert (noted.user, noted.items, noted.source.version) == (7, ids(answer), version)
    assert noted.source.arm == "model"
    assert "arm" not in answer


def test_old_lists_are_removed_and_journals_of_before_get_a_table(tmp_path: Path) -> None:
    journal = EventJournal(tmp_path)
    journal.append([serving.Event("a", "b")])
    with refuses(ValueError, None, place=tmp_path, remedy="--log-lists"):
        list(read_lists(journal))
    log, source = ListLog(journal, 100.0), ListSource("1", "a", "v", 1.0)
    log.add(ListShown("a", 5.0, source, ["b"]))
    log.add(ListShown("a", 4e9, source, ["c"], [0.5]))
    log.stop()
    log.add(ListShown("d", 4e9, source, []))
    log.stop()
    assert [(each.user, each.items) for each in read_lists(journal)] == [("a", ["c"]), ("d", [])]
    assert journal.last == 1


def test_lists_that_cannot_be_written_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = EventJournal(tmp_path)
    log = ListLog(journal, 100.0)

    def failing() -> Any:
        raise OSError("the disk is full")

    monkeypatch.setattr(journal.database, "writing", failing)
    for _ in range(3):
        log.add(ListShown("a", 4e9, ListSource("1", "a", "v", 1.0), ["b"]))
        log.stop()
    assert log.left_out == 3
    assert sum("full" in each.message for each in caplog.records) == 1


@given(
    n=st.integers(0, 4),
    further=st.integers(0, 6),
    depth=st.integers(1, 6),
    share=st.floats(0.01, 0.99),
    request=st.text(),
)
def test_a_drawn_list_has_no_repeats_and_what_the_odds_say(
    n: int, further: int, depth: int, share: float, request: str
) -> None:
    ranked = list(range(n + further))
    items, odds = Explorer(share, depth).drawn(ranked, n, "u", request)
    assert len(set(items)) == len(items) == len(odds) == n
    m = min(depth, further)
    for place, (item, probability) in enumerate(zip(items, odds, strict=True)):
        own = item < n
        assert item == place if own else item < n + m
        expected = 1 - share * m / max(n, m) if own else share * n / max(n, m)
        assert math.isclose(probability, expected)


@pytest.mark.parametrize(("n", "m"), [(3, 5), (4, 4), (4, 2), (1, 3)])
def test_the_odds_are_exact(n: int, m: int) -> None:
    """Against all dealings and all sets of open places, each with its probability."""
    share, width, exact = 0.3, max(n, m), Counter[tuple[int, int]]()
    dealings = list(itertools.permutations(range(width), n))
    for dealt in dealings:
        for is_open in itertools.product([0, 1], repeat=n):
            probability = math.prod(share if each else 1 - share for each in is_open)
            for place in range(n):
                drawn = is_open[place] and dealt[place] < m
                item = n + dealt[place] if drawn else place
                exact[place, item] += probability / len(dealings)
    explorer, trials, found = Explorer(share, m, "seed"), 4000, Counter[tuple[int, int]]()
    for trial in range(trials):
        items, odds = explorer.drawn(range(n + m), n, "u", str(trial))
        found.update(enumerate(items))
        for place, (item, told) in enumerate(zip(items, odds, strict=True)):
            of_list = sum(exact[each, item] for each in range(n))
            assert math.isclose(told, of_list)
            assert exact[place, item] > 0
    for pair, probability in exact.items():
        error = math.sqrt(probability * (1 - probability) / trials)
        assert abs(found[pair] / trials - probability) <= 4.5 * error, pair


def test_lists_are_drawn_by_seed_user_and_request(tmp_path: Path) -> None:
    how = {"journal": tmp_path, "log_lists": DAY, "explore": 0.5, "explore_depth": 8}
    plain, path = client(model()), f"/recommend/{USERS[0]}?n=4"
    with client(model(), **how, salt="x") as asked, client(model(), **how, salt="y") as others:
        found = {}
        for request in map(str, range(8)):
            sent = {"X-Request-Id": request}
            found[request] = ids(asked.get(path, headers=sent).json())
            assert ids(asked.get(path, headers=sent).json()) == found[request]
            batch = {"users": [USERS[0]], "n": 4}
            answer = asked.post("/recommend", json=batch, headers=sent).json()
            assert ids(answer["lists"][0]) == found[request]
        again = [ids(others.get(path, headers={"X-Request-Id": each}).json()) for each in found]
        assert again != list(found.values())
        assert len(set(map(tuple, found.values()))) > 1
        reach = set(ids(plain.get(f"/recommend/{USERS[0]}?n=12").json()))
        assert set().union(*found.values()) <= reach
        for query in ("&include_seen=true", "&offset=0", f"&exclude={ITEMS[0]}", "&diversity=0.1"):
            assert ids(asked.get(path + query).json()) == ids(plain.get(path + query).json())
    drawn = [each.propensities for each in read_lists(EventJournal(tmp_path))]
    assert sum(each is None for each in drawn) == 4


@pytest.mark.parametrize(
    ("options", "argument", "remedy"),
    [
        ({"log_lists": DAY}, "log_lists", "pass one"),
        ({"explore": 0.1}, "explore", "pass it"),
        ({"explore": 0.0, "log_lists": DAY}, "explore", "leave it out"),
        ({"explore": 1.0, "log_lists": DAY}, "explore", "leave it out"),
        ({"explore": True, "log_lists": DAY}, "explore", ""),
        ({"explore": 0.1, "explore_depth": 0, "log_lists": DAY}, "explore_depth", ""),
    ],
)
def test_what_cannot_be_explored_is_refused(
    options: dict[str, Any], argument: str, remedy: str
) -> None:
    with refuses((ValueError, TypeError), argument, remedy=remedy):
        serving.app(model(), **options)


def test_lists_are_kept_for_some_time(tmp_path: Path) -> None:
    with refuses(ValueError, "log_lists"):
        serving.app(model(), journal=tmp_path, log_lists=0)

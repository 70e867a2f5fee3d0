"""A file with the searches of several days: the next begins with the best settings of the last."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from searches import execute

import mfrank
from mfrank.cli.main import main
from mfrank.tuning import (
    Budget,
    Closed,
    Facts,
    Former,
    Leaderboard,
    Outcome,
    Runner,
    Search,
    Setting,
    Trial,
    TrialJournal,
    TrialJudge,
    days_of,
)
from mfrank.tuning import trial_journal as module
from tests.support.errors import refuses

YESTERDAY = mfrank.synthetic(150, 60, 2500, random_state=0)
TODAY = YESTERDAY + mfrank.Interactions.from_arrays(
    np.arange(160) % 155, np.arange(160) * 7 % 61, None, np.full(160, 2 * 10**9)
)
OPTIONS: dict[str, Any] = {"factors": 16, "n_threads": 1, "predict": "any"}
DAY = 86_400.0


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with yesterday's search."""
    path = tmp_path_factory.mktemp("days") / "search.sqlite"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.time, "time", lambda: 1e9)
        mfrank.tune(YESTERDAY, **OPTIONS, trials=12, storage=path)
    return path


@pytest.fixture
def path(first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, a day later."""
    copied = tmp_path / "search.sqlite"
    copied.write_bytes(first.read_bytes())
    monkeypatch.setattr(module.time, "time", lambda: 1e9 + DAY)
    return copied


def settings_of(path: Path, day: int) -> list[tuple[str, Any]]:
    """What was tried on a day, beside baselines, in order."""
    outcomes = days_of(path)[day][1]
    return [(one.trial.family, one.trial.point) for one in outcomes if one.trial.point]


@pytest.mark.parametrize("trials", [1, 2, 5])
def test_the_first_trials_are_the_best_of_yesterday(path: Path, trials: int) -> None:
    """With the same few trials, no search is worse than yesterday's best setting is today."""
    record, outcomes = days_of(path)[0]
    found = mfrank.tune(TODAY, **OPTIONS, trials=trials, storage=path)
    former = [(one.trial.family, one.trial.point) for one in days_of(path)[1][0].former]
    assert settings_of(path, 1) == former[:trials]
    parts = [(trial.family, trial.point) for trial, _ in record.parts]
    assert former[: len(parts)] == parts
    for family in {one.trial.family for one in outcomes if one.trial.point}:
        own = [one for one in outcomes if one.trial.family == family]
        leader = max(own, key=lambda one: one.value or 0.0).trial
        assert (family, leader.point) in former
    again = next(row for row in found.leaderboard if row["day"] == "2001-09-09")
    assert found.leaderboard[0]["value"] >= again["value"]


def test_yesterdays_blend_is_not_lost(path: Path) -> None:
    """Its settings, with their weights, are what today's choice is at least as good as."""
    record = days_of(path)[0][0]
    assert len(record.parts) > 1
    found = mfrank.tune(TODAY, **OPTIONS, trials=len(record.parts), storage=path)
    judge = TrialJudge.of(TODAY, mfrank.NDCG @ 20, 0, 1, predict="any")
    made = Runner(Setting(Facts.of(judge.train), 16, 0, 1), judge, Budget(None), {})
    today = {(one.trial.family, one.trial.point): one for one in days_of(path)[1][1]}
    same = [today[trial.family, trial.point] for trial, _ in record.parts]
    models = [made.refitted(outcome, judge.train) for outcome in same]
    blend = mfrank.Blend.from_models(models, [weight for _, weight in record.parts])
    assert found.leaderboard[0]["value"] >= judge.score(blend).value - 1e-3


def test_a_leaderboard_says_from_which_day_a_setting_is(path: Path) -> None:
    found = mfrank.tune(TODAY, **OPTIONS, trials=12, storage=path)
    days = {row["day"] for row in found.leaderboard if row["family"] != "blend"}
    assert days == {None, "2001-09-09"}
    assert "2001-09-09" in str(found.leaderboard)
    assert "2001-09-09" in found.leaderboard._repr_html_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.time, "time", lambda: 1e9 + 2 * DAY)
        third = mfrank.tune(TODAY + YESTERDAY, **OPTIONS, trials=12, storage=path)
    of_first = {one.trial.point for one in days_of(path)[1][0].former}
    for former in days_of(path)[2][0].former:
        handed_on = former.trial.point in of_first
        assert former.day == ("2001-09-09" if handed_on else "2001-09-10")
    assert {"2001-09-09", "2001-09-10"} & {row["day"] for row in third.leaderboard}
    assert "day" not in str(mfrank.tune(TODAY, **OPTIONS, trials=1).leaderboard).splitlines()[0]


def test_it_is_said_that_settings_of_another_search_are_used(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "mfrank"):
        mfrank.tune(TODAY, **OPTIONS, trials=1, storage=path)
        (told,) = [text for text in caplog.messages if text.startswith("storage")]
        assert "of an earlier one" in told
        caplog.clear()
        mfrank.tune(YESTERDAY, **OPTIONS, trials=1, storage=path)
        mfrank.tune(TODAY, **OPTIONS, trials=1, storage=path.with_name("new.sqlite"))
    assert not [text for text in caplog.messages if text.startswith("storage")]


def test_another_metric_begins_from_nothing(path: Path) -> None:
    found = mfrank.tune(TODAY, **OPTIONS, trials=1, metric="recall@5", storage=path)
    assert days_of(path)[1][0].former == ()
    assert found.leaderboard[0]["metric"] == "Recall@5"


def day_of(number: int, *, of_events: bool) -> Any:
    """Data of a day, which no other day has."""
    users, items = np.arange(600 + number) % 60, np.arange(600 + number) * 7 % 41
    if of_events:
        return mfrank.Events.from_arrays(users, items, np.where(items % 3, "view", "buy"))
    return mfrank.Interactions.from_arrays(users, items, timestamps=np.arange(len(users)))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"predict": "any"}, {"predict": "next"}),
        ({"predict": "next"}, {"predict": "any"}),
        ({"predict": "any"}, {"valid": day_of(9, of_events=False)}),
        ({"target": "buy"}, {"target": "view"}),
        ({"target": "view"}, {"target": "buy"}),
    ],
)
def test_what_predicts_something_else_begins_from_nothing(
    tmp_path: Path, earlier: dict[str, Any], later: dict[str, Any]
) -> None:
    """The day after, what predicts the same as the first takes up the first."""
    of_events, path = "target" in earlier, tmp_path / "search.sqlite"
    weights = {"weights": {"view": 1, "buy": 1}} if of_events else {}
    for number, how in enumerate((earlier, later, earlier)):
        data = day_of(number, of_events=of_events)
        mfrank.tune(data, **{**OPTIONS, "predict": None, **how}, **weights, trials=1, storage=path)
    (first, outcomes), (second, _), (third, _) = days_of(path)
    assert second.former == ()
    assert first.predicts != second.predicts
    assert third.former == first.next_day(outcomes) != ()


def test_both_days_go_on_where_they_were(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mfrank.tune(TODAY, **OPTIONS, trials=3, storage=path)
    monkeypatch.setattr(Runner, "run", lambda *_: pytest.fail("a trial was run again"))
    mfrank.tune(TODAY, **OPTIONS, trials=3, storage=path)
    mfrank.tune(YESTERDAY, **OPTIONS, trials=12, storage=path)
    for data in (YESTERDAY, TODAY):
        with refuses(ValueError, "storage", remedy="name another file"):
            mfrank.tune(data, factors=17, trials=1, storage=path)
    assert len(days_of(path)) == 2


def test_searches_of_two_days_share_a_file_at_once(path: Path) -> None:
    """A trial that runs for one day is not one of the other, nor are its outcomes."""
    old = TrialJournal(path, "old", "1")
    new = [TrialJournal(path, "new", "2") for _ in range(2)]
    trial = Trial("IALS", (0.5,) * 3, 0)
    given = [each.claimed(lambda done: None if done else trial, bool) for each in (old, *new)]
    assert given == [trial, trial, None]
    new[0].add(Outcome(trial, 0.5))
    old.add(Outcome(trial, 0.25))
    assert [one.value for one in TrialJournal(path, "new", "2").outcomes] == [0.5]
    assert [one.value for one in TrialJournal(path, "old", "1").outcomes] == [0.25]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM claims").fetchall() == []


# --- the days of a file


def test_days_are_listed_the_newest_first(path: Path) -> None:
    found = mfrank.tune(TODAY, **OPTIONS, trials=2, storage=path)
    board = Leaderboard.of_days(path)
    assert found.days is not None
    assert list(found.days) == list(board)
    assert [row["day"] for row in board] == ["2001-09-10", "2001-09-09"]
    assert board[0]["value"] == found.leaderboard[0]["value"]
    assert board[0]["low"] < board[0]["value"] < board[0]["high"]
    assert board[0]["model"] in (found.leaderboard[0]["model"], found.leaderboard[0]["family"])
    assert [row["trials"] for row in board] == [4, 14]
    assert str(board).splitlines()[1].startswith("2001-09-10")
    assert json.loads(board.to_json()) == list(board)


def test_a_search_that_did_not_end_has_its_best_trial(tmp_path: Path) -> None:
    journal = TrialJournal(tmp_path / "s", "one", "1", "NDCG@20")
    assert Leaderboard.of_days(tmp_path / "s")[0]["value"] is None
    journal.add(Outcome(Trial("IALS", (0.5,) * 3, 0), 0.3, 0.1))
    (row,) = Leaderboard.of_days(tmp_path / "s")
    assert (row["model"], row["value"], row["error"]) == ("IALS", 0.3, "the search did not end")
    assert TrialJournal(tmp_path / "s", "two", "2", "NDCG@20").former[0].weight is None


def test_what_has_no_days_is_refused(path: Path, tmp_path: Path) -> None:
    with refuses(ValueError, "storage"):
        Leaderboard.of_days(tmp_path / "nowhere.sqlite")
    assert not (tmp_path / "nowhere.sqlite").exists()
    (tmp_path / "text").write_text("what was measured\n" * 90)
    with refuses(ValueError, "storage"):
        Leaderboard.of_days(tmp_path / "text")
    for harm in (
        "record = '{}'",
        "record = x'ff'",
        "crc32 = 7",
        "record = replace(record,'0','1')",
    ):
        execute(path, f"UPDATE search SET {harm}")
        with refuses(ValueError, "storage", remedy="delete this row"):
            Leaderboard.of_days(path)
        with refuses(ValueError, "storage", remedy="delete this row"):
            mfrank.tune(TODAY, **OPTIONS, trials=1, storage=path)


def test_a_file_of_one_search_of_another_mfrank_is_refused(tmp_path: Path) -> None:
    """Nobody knows of which data it is."""
    statements = [
        "CREATE TABLE search (fingerprint TEXT)",
        "CREATE TABLE trials (number INTEGER PRIMARY KEY AUTOINCREMENT, outcome TEXT)",
        "INSERT INTO search VALUES ('one')",
    ]
    execute(tmp_path / "s", *statements)
    with refuses(ValueError, "storage", remedy="name another file"):
        TrialJournal(tmp_path / "s", "two", "2")
    TrialJournal(tmp_path / "s", "one", "1", "NDCG@20")
    assert TrialJournal(tmp_path / "s", "two", "2", "NDCG@20").outcomes == []
    assert len(days_of(tmp_path / "s")) == 2


# --- time and memory


SETTING = Setting(Facts.of(YESTERDAY), 16, 0, 1)
WIDE = Former(Trial("IALS", (0.5,) * 3, 2), "2001-09-09", 40.0, 1.0)


@pytest.mark.parametrize(
    ("seconds", "rung"), [(None, 2), (1000.0, 2), (100.0, 1), (5.0, 0), (0.5, None), (0.0, None)]
)
def test_a_former_setting_is_tried_as_wide_as_time_allows(
    seconds: float | None, rung: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Closed, "work", lambda self, rung, setting: (1.0, 10.0, 100.0)[rung])
    search = Search(SETTING, Budget(seconds, lambda: 0.0), None, former=[WIDE])
    done = [Outcome(Trial(name, (), 0), 0.1) for name in ("Popularity", "ItemKNN")]
    trial = search.next(done)
    if rung is None:
        assert trial is None or trial.point != WIDE.trial.point
        return
    assert trial == replace(WIDE.trial, rung=rung)
    after = search.next([*done, Outcome(trial, 0.2, seconds=1.0)])
    assert after is None or after.point != WIDE.trial.point or after.rung > rung


def test_a_former_setting_that_is_none_today_is_left_out() -> None:
    others = [
        replace(WIDE, trial=Trial("RecentPopularity", (0.5,), 0)),
        replace(WIDE, trial=Trial("IALS", (0.5,), 0)),
        replace(WIDE, trial=Trial("of another version", (0.5,), 0)),
        replace(WIDE, trial=replace(WIDE.trial, rung=9)),
    ]
    search = Search(SETTING, Budget(None), 3, former=others)
    done = [Outcome(Trial(name, (), 0), 0.1) for name in ("Popularity", "ItemKNN")]
    trial = search.next(done)
    assert trial == Trial("IALS", (0.5,) * 3, 2)
    narrow = replace(SETTING, memory=0.0)
    assert Search(narrow, Budget(None), 3, former=others).next(done) == replace(WIDE.trial, rung=0)


def test_the_command_tells_of_all_days(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, data in (("one", YESTERDAY), ("two", TODAY)):
        mfrank.data.write_table(
            tmp_path / f"{name}.csv",
            {"user": data.entry_users, "item": data.user_items.indices},
        )
        line = f"tune {name}.csv --model {name} --trials 1 --factors 4 --storage s.sqlite"
        assert main(line.split()) == 0
        told = capsys.readouterr()
        assert ("the searches in s.sqlite" in told.out) == (name == "two")
        assert ("of an earlier one" in told.err) == (name == "two")
    assert os.path.exists("two")

"""A file that several searches share: who runs which trial, who waits, whose claim has ended."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from children import PATHS
from searches import DONE, TRIALS, execute, in_order

import mfrank
from mfrank.tuning import Outcome, Trial, TrialJournal
from mfrank.tuning import trial_journal as module


def test_several_searches_share_the_trials(tmp_path: Path) -> None:
    path = tmp_path / "search.sqlite"
    one, two, three = (TrialJournal(path, "search") for _ in range(3))
    assert [each.claimed(in_order) for each in (one, two, three)] == TRIALS[:3]
    two.add(DONE[1])
    assert two.claimed(in_order) == TRIALS[3]
    assert two.outcomes == [DONE[1]]
    one.release()  # by Ctrl-C
    three.add(DONE[2])
    assert three.claimed(in_order) == TRIALS[0]
    assert three.outcomes == [DONE[1], DONE[2]]
    for each in (two, three):
        each.release()


def test_the_last_outcomes_of_others_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "search.sqlite"
    one, two = (TrialJournal(path, "search") for _ in range(2))
    few = lambda done: in_order([*done, *map(Outcome.pending, TRIALS[2:])])  # noqa: E731
    assert [one.claimed(few), two.claimed(few)] == TRIALS[:2]
    two.add(DONE[1])
    assert two.claimed(few, lambda: False) is None  # there is no time
    assert two.outcomes == [DONE[1]]

    def meanwhile(_: float) -> None:
        one.add(DONE[0])

    monkeypatch.setattr(module.time, "sleep", meanwhile)
    assert two.claimed(few) is None
    assert two.outcomes == [DONE[1], DONE[0]]


def claims(path: Path) -> list[tuple[str, float]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT owner, until FROM claims").fetchall()


def test_the_claim_of_a_process_that_ended_is_free(tmp_path: Path) -> None:
    path = tmp_path / "search.sqlite"
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys, os; sys.path[:0] = {PATHS!r}\n"
            "from mfrank.tuning.trial_journal import TrialJournal\n"
            "from searches import in_order\n"
            f"assert TrialJournal({str(path)!r}, 'search').claimed(in_order)\n"
            "os._exit(0)",
        ],
        check=False,
        capture_output=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert len(claims(path)) == 1
    journal = TrialJournal(path, "search")
    assert journal.claimed(in_order) == TRIALS[0]
    journal.release()
    assert not claims(path)


@pytest.mark.parametrize(
    ("column", "harm"),
    [
        *(("owner", harm) for harm in ("NULL", "x'ff'", "CAST(x'ff' AS TEXT)", "''", "'x'")),
        *(("until", harm) for harm in ("NULL", "'soon'", "x'ff'")),
        *(("trial", harm) for harm in ("NULL", "7", "'{'", "'[]'", "'{}'", "x'ff'")),
        ("owner", f"'x {10**30} {module._machine()}'"),
    ],
)
def test_a_damaged_claim_is_none(tmp_path: Path, column: str, harm: str) -> None:
    path = tmp_path / "search.sqlite"
    stopped, other = (TrialJournal(path, "search") for _ in range(2))
    assert stopped.claimed(in_order) == TRIALS[0]
    execute(path, f"UPDATE claims SET {column} = {harm}")
    assert other.claimed(in_order) == TRIALS[0]
    other.release()
    assert not claims(path)
    stopped.release()


@pytest.mark.parametrize("machine", ["elsewhere", "here"])
def test_a_claim_that_is_not_renewed_ends(tmp_path: Path, machine: str) -> None:
    path = tmp_path / "search.sqlite"
    stopped, other = (TrialJournal(path, "search") for _ in range(2))
    assert stopped.claimed(in_order) == TRIALS[0]
    if machine == "elsewhere":
        execute(path, "UPDATE claims SET owner = 'x 1 elsewhere'")
    assert other.claimed(in_order) == TRIALS[1]
    other.release()
    execute(path, f"UPDATE claims SET until = {time.time() - 1}")
    assert other.claimed(in_order) == TRIALS[0]
    other.add(DONE[0])
    stopped.add(replace(DONE[0], value=0.5))  # it wakes: the trial is there, and counts once
    assert stopped.outcomes == TrialJournal(path, "search").outcomes == [DONE[0]]


def test_a_claim_is_renewed_while_its_trial_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, renewed, real = tmp_path / "search.sqlite", threading.Event(), TrialJournal._renew
    monkeypatch.setattr(module, "_CLAIMED", 0.04)

    def told(self: TrialJournal) -> None:
        real(self)
        renewed.set()

    monkeypatch.setattr(TrialJournal, "_renew", told)
    journal = TrialJournal(path, "search")
    journal.claimed(in_order)
    ((_, before),) = claims(path)
    for _ in range(2):  # the first may have begun before
        renewed.clear()
        assert renewed.wait(30)
    ((_, after),) = claims(path)
    assert after > before
    journal.release()


@pytest.mark.parametrize(("error", "ended"), [(ProcessLookupError, True), (PermissionError, False)])
def test_only_a_process_that_is_gone_has_ended(
    error: type[Exception], ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of another user may not be asked, but is there."""
    asked = list[tuple[int, int]]()

    def kill(process: int, signal: int) -> None:
        asked.append((process, signal))
        raise error

    path = tmp_path / "search.sqlite"
    one, two = (TrialJournal(path, "search") for _ in range(2))
    assert one.claimed(in_order) == TRIALS[0]
    monkeypatch.setattr(os, "kill", kill)
    assert two.claimed(in_order) == TRIALS[0 if ended else 1]
    assert asked == [(os.getpid(), 0)]
    for each in (one, two):
        each.release()


def test_processes_are_those_of_a_machine_and_of_its_space_of_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise ProcessLookupError

    path = tmp_path / "search.sqlite"
    one = TrialJournal(path, "search")
    monkeypatch.setattr(os, "readlink", lambda _: "pid:[of another container]")
    two = TrialJournal(path, "search")
    monkeypatch.setattr(os, "kill", gone)
    assert [one.claimed(in_order), two.claimed(in_order)] == TRIALS[:2]
    for each in (one, two):
        each.release()
    monkeypatch.setattr(os, "readlink", lambda _: Path("nowhere").read_text())  # not on Linux
    other = TrialJournal(path, "search")
    assert other.claimed(in_order) == TRIALS[0]
    ((owner, _),) = claims(path)
    assert owner.split(" ", 2)[1:] == [str(os.getpid()), module.socket.gethostname()]
    other.release()


def test_renewing_a_claim_goes_on_after_a_lock_and_ends_with_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, tried, again = tmp_path / "search.sqlite", list[int](), threading.Event()

    def locked(self: TrialJournal) -> None:
        tried.append(0)
        if len(tried) > 1:
            again.set()
        raise TimeoutError

    monkeypatch.setattr(module, "_CLAIMED", 0.04)
    monkeypatch.setattr(TrialJournal, "_renew", locked)
    before = set(threading.enumerate())
    journal = TrialJournal(path, "search")
    journal.claimed(in_order)
    (renewing,) = set(threading.enumerate()) - before
    assert renewing.daemon
    assert again.wait(30)
    journal.release()
    assert not renewing.is_alive()
    journal.release()  # nothing is left to release


def test_a_claim_is_renewed_for_a_minute_until_its_outcome_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, now = tmp_path / "search.sqlite", [1000.0]
    monkeypatch.setattr(module.time, "time", lambda: now[0])
    before = set(threading.enumerate())
    journal = TrialJournal(path, "search")
    journal.claimed(in_order)
    (renewing,) = set(threading.enumerate()) - before
    assert [until for _, until in claims(path)] == [1060.0]
    now[0] = 5000.0
    journal._renew()
    assert [until for _, until in claims(path)] == [5060.0]
    journal.add(DONE[0])
    assert not renewing.is_alive()
    assert claims(path) == []


def test_a_claim_is_renewed_long_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = list[float]()

    class Ended(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0.0)
            return super().wait(timeout)

    monkeypatch.setattr(module.threading, "Event", Ended)
    journal = TrialJournal(tmp_path / "search.sqlite", "search")
    journal.claimed(in_order)
    journal.release()
    assert max(waits) <= 60 / 2


def test_no_other_chooses_while_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, waits, real = tmp_path / "search.sqlite", list[float](), sqlite3.connect

    def connect(name: Path, timeout: float, **options: Any) -> sqlite3.Connection:
        waits.append(timeout)
        return real(name, timeout=timeout, **options)

    def choosing(done: Sequence[Outcome]) -> Trial:
        with closing(real(path, timeout=0)) as other, pytest.raises(sqlite3.Error, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        return TRIALS[0]

    monkeypatch.setattr(sqlite3, "connect", connect)
    journal = TrialJournal(path, "search")
    assert journal.claimed(choosing) == TRIALS[0]
    assert set(waits) == {30.0}
    journal.release()


def test_waiting_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "search.sqlite"
    one, two = (TrialJournal(path, "search") for _ in range(2))
    only = lambda done: in_order([*done, *map(Outcome.pending, TRIALS[1:])])  # noqa: E731
    assert one.claimed(only) == TRIALS[0]
    slept = list[float]()

    def meanwhile(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            one.add(DONE[0])

    monkeypatch.setattr(module.time, "sleep", meanwhile)
    with caplog.at_level("INFO", "mfrank"):
        assert two.claimed(only) is None
    assert caplog.messages == ["storage: waiting for 1 trial that other searches run"]
    assert len(slept) == 3
    assert 0 < min(slept) < 2


PROCESS = f"""
import sys; sys.path[:0] = {PATHS!r}
import mfrank
data = mfrank.synthetic(150, 60, 2500, random_state=0)
found = mfrank.tune(data, trials=6, factors=16, n_threads=1, storage=sys.argv[1])
print(sorted((row["model"], row["value"]) for row in found.leaderboard if row["family"] != "blend"))
"""


def test_two_processes_at_once_run_no_trial_twice(tmp_path: Path) -> None:
    path = tmp_path / "search.sqlite"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    told = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert told[0][0] == told[1][0]
    data: Any = mfrank.synthetic(150, 60, 2500, random_state=0)
    alone = mfrank.tune(data, trials=6, factors=16, n_threads=1)
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT outcome FROM trials").fetchall()
    trials = [Outcome.from_dict(json.loads(text)).trial for (text,) in rows]
    assert len(set(trials)) == len(trials)
    own = [row for row in alone.leaderboard if row["family"] not in ("blend", "trees")]
    assert len(trials) == len(own)
    assert not claims(path)

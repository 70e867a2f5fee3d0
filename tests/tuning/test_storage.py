"""The file of a search: whose it is, what is damaged, who waits, and how several share it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from children import PATHS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.tuning import Outcome, Trial, TrialJournal
from mfrank.tuning import journal as module

TRIALS = [Trial("ALS", (0.25, number / 10), number, is_new=True) for number in range(6)]
DONE = [Outcome(trial, 0.125 + trial.rung / 7, 0.01, 3, 1.5, 1.0, 0.25) for trial in TRIALS]


NO_TRIALS: list[tuple[str, Any]] = [
    *(("family", other) for other in (7, None)),
    *(("rung", other) for other in (1.0, "1", True, None)),
    *(("is_new", other) for other in (1, "yes", None)),
    *(("point", other) for other in (None, 0.5, ["a"])),
]


def written(path: Path, outcomes: Sequence[Outcome] = DONE[:3]) -> Path:
    journal = TrialJournal(path, "search")
    for outcome in outcomes:
        journal.add(outcome)
    return path


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def of_others(path: Path, *statements: str) -> None:
    execute(path, "CREATE TABLE trials (id INTEGER, value REAL)", *statements)


FOREIGN: dict[str, Callable[[Path], object]] = {
    "text": lambda path: path.write_text("what was measured\n" * 90),
    "a few bytes": lambda path: path.write_bytes(b"SQLite format 3\0"),
    "a picture": lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(200))),
    "tables of others": lambda path: of_others(path),
    "a table beside ours": lambda path: execute(
        written(path), "PRAGMA application_id = 0", "CREATE TABLE notes (text TEXT)"
    ),
    "another program": lambda path: of_others(path, "PRAGMA application_id = 7"),
    "ours, by name": lambda path: execute(written(path), "PRAGMA application_id = 7"),
    "a write-ahead log": lambda path: of_others(path, "PRAGMA journal_mode = WAL"),
    "a newer version": lambda path: execute(written(path), "PRAGMA user_version = 9"),
    "another search": lambda path: TrialJournal(path, "other"),
    "nobody knows which search": lambda path: execute(written(path), "DELETE FROM search"),
    "of two searches": lambda path: execute(written(path), "INSERT INTO search VALUES ('other')"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_others_is_refused_and_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "search.sqlite"
    FOREIGN[kind](path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=r"storage: .*search\.sqlite .*name another file"):
        TrialJournal(path, "search")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_file_from_before_it_said_whose_it_is_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "search.sqlite"
    execute(
        path,
        "CREATE TABLE search (fingerprint TEXT)",
        "CREATE TABLE trials (number INTEGER PRIMARY KEY AUTOINCREMENT, outcome TEXT)",
        "INSERT INTO search VALUES ('search')",
        f"INSERT INTO trials (outcome) VALUES ('{json.dumps(DONE[0].to_dict())}')",
    )
    journal = TrialJournal(path, "search")
    journal.add(DONE[1])
    assert TrialJournal(path, "search").outcomes == journal.outcomes == DONE[:2]


@pytest.mark.parametrize(
    "harm",
    [
        "NULL",
        "7",
        "''",
        "'{'",
        "'[]'",
        "'{}'",
        "x'ff00'",
        "substr(outcome, 1, 40)",
        "replace(outcome, '3', '4')",
        "replace(outcome, 'ALS', 'ALT')",
    ],
)
def test_a_damaged_row_is_named(tmp_path: Path, harm: str) -> None:
    path = written(tmp_path / "search.sqlite")
    execute(path, f"UPDATE trials SET outcome = {harm} WHERE number = 2")
    with pytest.raises(ValueError, match=r"search\.sqlite: trial 2 is damaged .*delete this row"):
        TrialJournal(path, "search")
    execute(path, "DELETE FROM trials WHERE number = 2")
    assert TrialJournal(path, "search").outcomes == [DONE[0], DONE[2]]


@pytest.mark.parametrize(
    "harm",
    [
        {"value": float("nan")},
        {"standard_error": float("inf")},
        {"seconds": float("nan")},
        {"epochs": "three"},
        {"more": 1},
        {"trial": None},
        *({"trial": asdict(TRIALS[1]) | {name: other}} for name, other in NO_TRIALS),
    ],
    ids=str,
)
def test_a_row_without_a_checksum_is_read_as_strictly(tmp_path: Path, harm: dict[str, Any]) -> None:
    """Files from before rows had one have no other protection."""
    path = written(tmp_path / "search.sqlite")
    text = json.dumps(DONE[1].to_dict() | harm)
    execute(path, f"UPDATE trials SET outcome = '{text}', crc32 = NULL WHERE number = 2")
    with pytest.raises(ValueError, match=r"search\.sqlite: trial 2 is damaged .*delete this row"):
        TrialJournal(path, "search")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_a_damaged_file_is_no_other_search(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "search.sqlite"
    path.unlink(missing_ok=True)
    text = bytearray(written(path).read_bytes())
    used = [at for at, byte in enumerate(text) if byte]  # most of a page is empty
    for at in data.draw(st.lists(st.sampled_from(used), min_size=1, max_size=3)):
        text[at] ^= 1 << data.draw(st.integers(0, 7))
    if data.draw(st.booleans()):
        del text[data.draw(st.integers(0, len(text) - 1)) :]
    path.write_bytes(text)
    try:
        found = TrialJournal(path, "search").outcomes
    except ValueError:
        return
    # A bit may lie in a row's number, or cut the list of rows short; no outcome is another.
    assert all(outcome in DONE for outcome in found)


def test_a_lock_is_waited_for_and_then_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "search.sqlite")
    with closing(sqlite3.connect(path, check_same_thread=False)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with monkeypatch.context() as patch:
            patch.setattr(module, "_LOCKED", 0.05)
            with pytest.raises(TimeoutError, match=r"has locked .*search\.sqlite .*same call"):
                TrialJournal(path, "search")
        ends = threading.Timer(0.2, other.rollback)
        ends.start()
        assert TrialJournal(path, "search").outcomes == DONE[:3]
        ends.join()


def in_order(done: Sequence[Outcome]) -> Trial | None:
    """The first trial that is neither done nor pending."""
    known = [outcome.trial for outcome in done]
    return next((trial for trial in TRIALS if trial not in known), None)


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
            "from mfrank.tuning.journal import TrialJournal\n"
            "from test_storage import in_order\n"
            f"assert TrialJournal({str(path)!r}, 'search').claimed(in_order)\n"
            "os._exit(0)",
        ],
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
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


def test_a_file_that_is_spoiled_meanwhile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "search.sqlite"
    journal = TrialJournal(path, "search")
    execute(path, "DROP TABLE trials")
    with pytest.raises(ValueError, match="cannot be used as the SQLite file of a search"):
        journal.add(DONE[0])


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


def test_an_empty_file_becomes_that_of_a_search(tmp_path: Path) -> None:
    path = tmp_path / "search.sqlite"
    path.touch()
    assert TrialJournal(written(path), "search").outcomes == DONE[:3]
    header = path.read_bytes()[:100]
    assert (header[60:64], header[68:72]) == (b"\0\0\0\1", b"mfrk")  # its version, and whose it is


def test_without_a_file_outcomes_are_in_memory() -> None:
    journal = TrialJournal(None, "search")
    assert journal.claimed(in_order) == TRIALS[0]
    journal.add(DONE[0])
    assert journal.claimed(in_order) == TRIALS[1]
    journal.release()
    assert journal.outcomes == [DONE[0]]


def test_a_fingerprint_is_that_of_data_options_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    data = replace(mfrank.synthetic(20, 10, 60, random_state=0), timestamps=None)
    timed = [replace(data, timestamps=np.arange(60) + begin) for begin in (0, 1)]
    wider = mfrank.synthetic(20, 11, 60, random_state=0)
    rated = mfrank.Interactions.from_sparse(2.0 * data.user_items)
    all_of = [[data], [data, data], [timed[0]], [timed[1]], [data, timed[0]], [wider], [rated]]
    found = [module.fingerprint(parts, factors=3) for parts in all_of]
    found += [module.fingerprint([data], factors=4), module.fingerprint([data], factors=3, seed=0)]
    assert len(set(found)) == len(found)
    assert module.fingerprint([replace(data)], factors=3) == found[0]
    assert module.fingerprint([data], seed=0, factors=3) == found[-1]
    monkeypatch.setattr(module, "__version__", "0.0.0")
    assert module.fingerprint([data], factors=3) not in found


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
    own = [row for row in alone.leaderboard if row["family"] != "blend"]
    assert len(trials) == len(own)
    assert not claims(path)

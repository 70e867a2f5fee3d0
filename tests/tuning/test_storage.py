"""The file of a search: whose it is, what is damaged, and who waits."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from searches import DONE, TRIALS, execute, in_order, written

import mfrank
from mfrank.tuning import TrialJournal
from mfrank.tuning import trial_journal as module
from tests.support.errors import refuses

NO_TRIALS: list[tuple[str, Any]] = [
    *(("family", other) for other in (7, None)),
    *(("rung", other) for other in (1.0, "1", True, None)),
    *(("is_new", other) for other in (1, "yes", None)),
    *(("point", other) for other in (None, 0.5, ["a"])),
]


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
    "a fingerprint of numbers": lambda path: execute(
        written(path), "UPDATE search SET fingerprint = 7"
    ),
    "of no fingerprint": lambda path: execute(
        written(path), "UPDATE search SET fingerprint = NULL"
    ),
    "of two searches": lambda path: execute(
        written(path), "INSERT INTO search (fingerprint) VALUES ('other')"
    ),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_others_is_refused_and_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "search.sqlite"
    FOREIGN[kind](path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with refuses(ValueError, "storage"):
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
    with refuses(ValueError, "storage", remedy="delete this row"):
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
    with refuses(ValueError, "storage", remedy="delete this row"):
        TrialJournal(path, "search")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_a_damaged_file_is_no_other_search(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "search.sqlite"
    path.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:  # the file has the time
        patch.setattr(module.time, "time", lambda: 1e9)
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


def test_a_file_that_is_spoiled_meanwhile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "search.sqlite"
    journal = TrialJournal(path, "search")
    execute(path, "DROP TABLE trials")
    with refuses(ValueError, "storage", remedy="name another file"):
        journal.add(DONE[0])


def test_an_empty_file_becomes_that_of_a_search(tmp_path: Path) -> None:
    path = tmp_path / "search.sqlite"
    path.touch()
    assert TrialJournal(written(path), "search").outcomes == DONE[:3]
    header = path.read_bytes()[:100]
    assert (header[60:64], header[68:72]) == (b"\0\0\0\2", b"mfrk")  # its version, and whose it is


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
    digests = [module.digest_of(parts) for parts in all_of]
    assert len(set(digests)) == len(digests)
    assert module.digest_of([replace(data)]) == digests[0]
    found = [module.fingerprint(digest, factors=3) for digest in digests[:2]]
    found += [module.fingerprint(digests[0], **more) for more in ({"factors": 4}, {"seed": 0})]
    found += [module.fingerprint(digests[0], factors=3, seed=0)]
    assert len(set(found)) == len(found)
    assert module.fingerprint(digests[0], seed=0, factors=3) == found[-1]
    monkeypatch.setattr(module, "__version__", "0.0.0")
    assert module.fingerprint(digests[0], factors=3) not in found

"""An SQLite file of ours: whole commits, whatever a crash cuts off; files of others stay."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest
from errors import refuses

from mfrank.files import Database

TABLES = ("CREATE TABLE rows (number INTEGER PRIMARY KEY, text TEXT)",)


def opened(path: Path | None, application: int = 7) -> Database:
    return Database(path, TABLES, application, "a list of rows")


def add(database: Database, *texts: str) -> None:
    with database.writing() as connection:
        connection.executemany("INSERT INTO rows (text) VALUES (?)", [[text] for text in texts])


def texts(database: Database) -> list[str]:
    with database.reading() as connection:
        rows = connection.execute("SELECT text FROM rows ORDER BY number").fetchall()
    return [text for (text,) in rows]


def test_whatever_byte_the_log_is_cut_at_commits_are_whole_and_in_order(tmp_path: Path) -> None:
    path, sizes = tmp_path / "own.sqlite", [0]
    database = opened(path)
    with database.reading() as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    log = tmp_path / "own.sqlite-wal"
    commits = [["a"], ["b", "c"], ["d" * 5000]]
    for each in commits:
        add(database, *each)
        sizes.append(log.stat().st_size)  # what a crash after the answer finds
    whole, logged = path.read_bytes(), log.read_bytes()
    database.close()
    near = {size + by for size in sizes for by in (-1, 0, 1)} & set(range(len(logged) + 1))
    for cut in sorted(near | set(range(0, len(logged), 1021))):
        (there := tmp_path / f"cut-{cut}").mkdir()
        (there / "own.sqlite").write_bytes(whole)
        (there / "own.sqlite-wal").write_bytes(logged[:cut])
        found = texts(opened(there / "own.sqlite"))
        n_acknowledged = sum(size <= cut for size in sizes[1:])
        assert found == [text for each in commits[:n_acknowledged] for text in each], cut


def test_a_block_that_fails_writes_nothing(tmp_path: Path) -> None:
    database = opened(tmp_path / "own.sqlite")
    with pytest.raises(sqlite3.ProgrammingError):
        add(database, "a", object())  # type: ignore[arg-type]
    add(database, "b")
    assert texts(database) == ["b"]


@pytest.mark.parametrize("in_memory", [False, True])
def test_threads_share_it(tmp_path: Path, in_memory: bool) -> None:
    database = opened(None if in_memory else tmp_path / "own.sqlite")
    threads = [threading.Thread(target=add, args=(database, str(n))) for n in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(texts(database)) == [str(n) for n in range(8)]


def test_connections_share_it(tmp_path: Path) -> None:
    one, two = opened(tmp_path / "own.sqlite"), opened(tmp_path / "own.sqlite")
    add(one, "a")
    add(two, "b")
    assert texts(one) == texts(two) == ["a", "b"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_opens_its_own(tmp_path: Path) -> None:
    database = opened(tmp_path / "own.sqlite")
    add(database, "a")
    child = os.fork()
    if not child:
        add(database, "b")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert texts(database) == ["a", "b"]


def test_files_of_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    before = path.read_bytes()
    with refuses(ValueError, place=str(path), remedy="name another"):
        opened(path)
    assert path.read_bytes() == before
    (tmp_path / "text").write_text("no database" * 20)
    with refuses(ValueError, place=str(tmp_path / "text"), remedy="name another"):
        opened(tmp_path / "text")


def test_what_is_in_the_way_is_told(tmp_path: Path) -> None:
    with refuses(ValueError, place=str(tmp_path / "none" / "a"), remedy="create it first"):
        opened(tmp_path / "none" / "a")
    path = tmp_path / "own.sqlite"
    database = opened(path)
    add(database, *("x" * 3000 for _ in range(5)))
    database.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)
    with refuses(ValueError, place=str(path), remedy="copy"):
        texts(opened(path))

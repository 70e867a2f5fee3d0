"""Outcomes of searches in an SQLite file: to resume one, to share it, to begin the next day's."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import socket
import struct
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfrank._system import has_ended
from mfrank._version import __version__
from mfrank.arrays import counted
from mfrank.data import Interactions
from mfrank.errors import InputValueError
from mfrank.files import open_regular, path_of
from mfrank.retrieval import of_filter
from mfrank.tuning.days import DayRecord, Former
from mfrank.tuning.ladder import Outcome, Trial

if TYPE_CHECKING:
    import sqlite3

_APPLICATION = int.from_bytes(b"mfrk", "big")
"""In the header of an SQLite file, says whose it is."""
_VERSION = 2
_HEADER = 100
_TABLES = {
    "search": "CREATE TABLE IF NOT EXISTS search (fingerprint TEXT, record TEXT, crc32 INTEGER)",
    "trials": "CREATE TABLE IF NOT EXISTS trials "
    "(number INTEGER PRIMARY KEY AUTOINCREMENT, outcome TEXT, crc32 INTEGER, search TEXT)",
    "claims": "CREATE TABLE IF NOT EXISTS claims "
    "(owner TEXT PRIMARY KEY, until REAL, trial TEXT, search TEXT)",
}
_COLUMNS = {
    "search": (["fingerprint"], ["record", "crc32"]),
    "trials": (["number", "outcome"], ["crc32", "search"]),
    "claims": (["owner", "until", "trial"], ["search"]),
}
"""Of each table: what files of all versions have, and what was added later, in this order."""
_LOCKED = 30.0
"""Seconds to wait for a lock."""
_CLAIMED = 60.0
"""Seconds after which a claim ends that is not renewed."""
_PAUSE = 0.2
"""Seconds between two looks at what others do."""

_log = logging.getLogger("mfrank")


def digest_of(parts: Sequence[Interactions]) -> str:
    """Digest of the data of a search."""
    matrices = [part.user_items for part in parts]
    known = [(matrix.shape, of_filter(matrix, with_values=True)) for matrix in matrices]
    digest = hashlib.sha256(json.dumps(known).encode())
    for part in parts:
        if part.timestamps is not None:
            digest.update(part.timestamps.tobytes())
    return digest.hexdigest()


def fingerprint(data: str, **options: Any) -> str:
    """Fingerprint of a digest of data, the options that affect outcomes, and mfrank's version."""
    known = [__version__, options, data]
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


class TrialJournal:
    """The outcomes so far, each saved at once; only in memory if ``path`` is None.

    Searches in several processes may share a file: each claims the trial that it runs, and the
    others choose another trial. A claim ends with its process, or if it is not renewed for a minute
    because the machine is lost or the process is stopped.

    Parameters
    ----------
    path : path or None
        The file, which is created if it does not exist.
    of : str
        Fingerprint of the search.
    data, metric, predicts : str
        Digest of its data, its metric and what is held out. A file may have searches of several
        data; a new one begins with the best settings of the latest with the same two.
    counts : function, optional
        Whether a trial counts; others, of a call with other ``needs``, stay in the file.

    Attributes
    ----------
    outcomes : list of Outcome
        Outcomes of all processes of this search, up to the last read.
    former : tuple of Former
        What the search begins with.

    Raises
    ------
    ValueError
        The file is not a search, or has one of these data with other options, or a damaged row; it
        is not changed.
    TimeoutError
        Another process has locked the file for too long.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        of: str,
        data: str = "",
        metric: str = "",
        counts: Callable[[Trial], bool] = lambda trial: True,
        predicts: str | None = None,
    ) -> None:
        self._path = None if path is None else path_of(path, "storage")
        self._of, self._counts = of, counts
        self.outcomes: list[Outcome] = []
        self.former: tuple[Former, ...] = ()
        self._last = 0  # number of the last row that was read
        self._owner = f"{uuid.uuid4().hex} {os.getpid()} {_machine()}"
        self._renewal: _Renewal | None = None
        if self._path is not None:
            _check_file(self._path)
            with self._opened() as connection:
                begun = DayRecord(data, metric, time.time(), predicts=predicts)
                record = _prepare(connection, self._path, of, begun)
                self.former = record.former
                self._read(connection)
            if self.former:
                _log.info(
                    "storage: the search begins with %s of an earlier one in %s",
                    *(counted(len(self.former), "setting"), self._path),
                )

    def claimed(
        self,
        propose: Callable[[Sequence[Outcome]], Trial | None],
        may_wait: Callable[[], bool] = lambda: True,
    ) -> Trial | None:
        """The next trial, given the outcomes so far and the trials that others run.

        If there is none while others still run trials, wait for these: they may lead to further
        trials, and belong to the result.
        """
        if self._path is None:
            return propose(self.outcomes)
        told = False
        while True:
            with self._opened() as connection:
                self._read(connection)
                others = self._claims(connection)
                trial = propose([*self.outcomes, *map(Outcome.pending, others)])
                if trial is not None:
                    self._claim(connection, trial)
            if trial is not None:
                self._renewal = _Renewal(self._renew)
                return trial
            if not others or not may_wait():
                return None
            if not told:
                trials = counted(len(others), "trial")
                _log.info("storage: waiting for %s that other searches run", trials)
            told = True
            time.sleep(_PAUSE)

    def release(self) -> None:
        """Release the claimed trial, if there is one."""
        if self._renewal is not None:
            self._renewal.end()
            self._renewal = None
            with self._opened() as connection:
                connection.execute("DELETE FROM claims WHERE owner = ?", [self._owner])

    def add(self, outcome: Outcome) -> None:
        """Append and save the outcome of the claimed trial."""
        if self._path is None:
            self.outcomes.append(outcome)
            return
        if self._renewal is not None:
            self._renewal.end()
            self._renewal = None
        text = json.dumps(outcome.to_dict())
        with self._opened() as connection:
            self._read(connection)
            gone = connection.execute("DELETE FROM claims WHERE owner = ?", [self._owner])
            if not gone.rowcount and any(one.trial == outcome.trial for one in self.outcomes):
                return  # this process was stopped for so long that another ran the trial
            row = connection.execute(
                "INSERT INTO trials (outcome, crc32, search) VALUES (?, ?, ?)",
                [text, _crc32(text.encode()), self._of],
            )
            self._last = row.lastrowid or self._last
        self.outcomes.append(outcome)

    def conclude(self, best: Mapping[str, Any]) -> None:
        """Save what was chosen; see :attr:`DayRecord.best`."""
        if self._path is None:
            return
        with self._opened() as connection:
            record = _records(connection, self._path)[self._of]
            if record is not None:
                _write(connection, self._of, replace(record, best=dict(best)))

    def _read(self, connection: sqlite3.Connection) -> None:
        """Append the outcomes that were saved since the last reading."""
        for number, outcome in _outcomes(connection, self._path, self._of, self._last):
            if self._counts(outcome.trial):
                self.outcomes.append(outcome)
            self._last = number

    def _claims(self, connection: sqlite3.Connection) -> list[Trial]:
        """The trials that others run; claims of those that ended are removed."""
        live = list[Trial]()
        rows = connection.execute(
            "SELECT rowid, owner, until, trial FROM claims WHERE search = ?", [self._of]
        )
        for row, owner, until, text in rows.fetchall():
            try:
                trial = Trial.from_dict(json.loads(text))
                is_live = until > time.time() and not _has_ended(owner.decode())
            except (AttributeError, KeyError, OverflowError, TypeError, ValueError):  # damaged
                is_live = False
            if is_live and self._counts(trial):
                live.append(trial)
            elif not is_live:
                connection.execute("DELETE FROM claims WHERE rowid = ?", [row])
        return live

    def _claim(self, connection: sqlite3.Connection, trial: Trial) -> None:
        connection.execute(
            "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?)",
            [self._owner, time.time() + _CLAIMED, json.dumps(asdict(trial)), self._of],
        )

    def _renew(self) -> None:
        with self._opened() as connection:
            connection.execute(
                "UPDATE claims SET until = ? WHERE owner = ?",
                [time.time() + _CLAIMED, self._owner],
            )

    def _opened(self) -> AbstractContextManager[sqlite3.Connection]:
        """The file, which no other process writes meanwhile."""
        return _connected(self._path or Path())


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    """A transaction on a file, which no other process writes meanwhile."""
    import sqlite3

    try:
        with closing(sqlite3.connect(path, timeout=_LOCKED, isolation_level=None)) as connection:
            connection.text_factory = bytes  # a damaged row may be no text
            connection.execute("BEGIN IMMEDIATE")
            with connection:  # commits, or rolls back
                yield connection
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
            raise TimeoutError(
                f"storage: another process has locked {path} for more than {_LOCKED:g} "
                "s; end it and make the same call again, or name another file"
            ) from error
        raise InputValueError(
            f"`storage`: {path} cannot be used as the SQLite file of a search ({error})",
            "name another file",
        ) from error


class _Renewal:
    """A thread that renews a claim while its trial runs."""

    def __init__(self, renew: Callable[[], None]) -> None:
        self._renew, self._ended = renew, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(_CLAIMED / 4):
            with suppress(OSError, ValueError):  # the next time, or when the outcome is saved
                self._renew()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def _check_file(path: Path) -> None:
    """Raise ValueError unless a search may use the file; SQLite has not opened it."""
    if not path.parent.is_dir():
        raise InputValueError(f"`storage`: there is no folder {path.parent}", "create it first")
    if path.is_dir():
        raise InputValueError(
            f"`storage` must be a file, such as search.sqlite; {path} is a folder"
        )
    if not path.exists():
        return
    with open_regular(path) as file:
        header = file.read(_HEADER)
    if not header:
        return
    if len(header) < _HEADER or not header.startswith(b"SQLite format 3\0"):
        raise InputValueError(
            f"`storage`: {path} cannot be used as the SQLite file of a search (it is no database)",
            "name another file",
        )
    # By SQLite's documentation of its header; a file with a write-ahead log is none of ours.
    version, application = struct.unpack_from(">I", header, 60)[0], header[68:72]
    is_own = application == _APPLICATION.to_bytes(4, "big")
    if not is_own and (application != bytes(4) or header[18] != 1):
        raise _foreign(path)
    if is_own and version > _VERSION:
        raise InputValueError(
            f"`storage`: {path} is of a newer mfrank", "install it, or name another file"
        )


def _foreign(path: Path) -> ValueError:
    return InputValueError(
        f"`storage`: {path} is the SQLite file of another program, which stays as it is",
        "name another file",
    )


def _prepare(connection: sqlite3.Connection, path: Path, of: str, begun: DayRecord) -> DayRecord:
    """Make the tables of a new file, add what an older file lacks; refuse a foreign one.

    Returns the record of the search ``of``, which is ``begun`` if the file does not have it.
    """
    columns = _columns(connection, path)
    records = _records(connection, path, columns)
    others = [record for name, record in records.items() if name != of]
    if columns and (
        not records or any(record is None or record.data == begun.data for record in others)
    ):
        raise InputValueError(
            f"`storage`: {path} has a search of these data with other options, or one of another "
            "version of mfrank",
            "name another file",
        )
    for statement in _TABLES.values():
        connection.execute(statement)
    for name, had in columns.items():
        for column in _COLUMNS[name][1]:
            if column not in had:
                kind = "INTEGER" if column == "crc32" else "TEXT"
                connection.execute(f"ALTER TABLE {name} ADD COLUMN {column} {kind}")
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    known = records.get(of)
    if known is not None:
        return known
    if of in records:  # the only search of an older file
        connection.execute("UPDATE trials SET search = ?", [of])
        connection.execute("DELETE FROM claims")
    else:
        connection.execute("INSERT INTO search (fingerprint) VALUES (?)", [of])
    for name, record in reversed(records.items()):
        if record is not None and record.is_like(begun):
            outcomes = [outcome for _, outcome in _outcomes(connection, path, name)]
            if former := record.next_day(outcomes):
                begun = replace(begun, former=former)
                break
    _write(connection, of, begun)
    return begun


def _columns(connection: sqlite3.Connection, path: Path) -> dict[str, list[str]]:
    """The columns of each table of a search's file; none if it is empty."""
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
    ).fetchall()
    columns = {
        name.decode(): [
            row[1].decode() for row in connection.execute(f"PRAGMA table_info('{name.decode()}')")
        ]
        for (name,) in tables
        if name.decode() in _TABLES
    }
    if tables and (len(columns) < len(tables) or not {"search", "trials"} <= set(columns)):
        raise _foreign(path)
    for name, had in columns.items():
        first, later = _COLUMNS[name]
        if had != [*first, *later[: max(0, len(had) - len(first))]]:
            raise _foreign(path)
    return columns


def _records(
    connection: sqlite3.Connection, path: Path, columns: Mapping[str, list[str]] | None = None
) -> dict[str, DayRecord | None]:
    """The searches of a file by their fingerprints, the oldest first; None of an older mfrank."""
    if columns is not None and "record" not in columns.get("search", []):
        rows = connection.execute("SELECT fingerprint FROM search") if columns else []
        return {_decoded(name): None for (name,) in rows}
    rows = connection.execute("SELECT fingerprint, record, crc32 FROM search ORDER BY rowid")
    return {
        _decoded(name): None
        if text is None
        else DayRecord.from_row(text, checksum, f"{path}: search {number}")
        for number, (name, text, checksum) in enumerate(rows.fetchall(), 1)
    }


def _decoded(name: Any) -> str:
    """A fingerprint; what is none of a damaged file is not that of any search."""
    return str(name, "utf-8", "replace") if isinstance(name, bytes) else repr(name)


def _write(connection: sqlite3.Connection, of: str, record: DayRecord) -> None:
    text = json.dumps(asdict(record))
    connection.execute(
        "UPDATE search SET record = ?, crc32 = ? WHERE fingerprint = ?",
        [text, _crc32(text.encode()), of],
    )


def _outcomes(
    connection: sqlite3.Connection, path: Path | None, of: str, after: int = 0
) -> Iterator[tuple[int, Outcome]]:
    """The outcomes of a search with their numbers, if above ``after``."""
    rows = connection.execute(
        "SELECT number, outcome, crc32 FROM trials WHERE search = ? AND number > ? ORDER BY number",
        [of, after],
    )
    for number, text, checksum in rows.fetchall():
        yield number, _outcome(text, checksum, f"{path}: trial {number}")


def days_of(storage: str | os.PathLike[str]) -> list[tuple[DayRecord, list[Outcome]]]:
    """The searches of a file with their outcomes, the oldest first.

    Raises
    ------
    ValueError
        There is no such file, or it is none of searches, or of an older mfrank, or damaged.
    """
    path = path_of(storage, "storage")
    _check_file(path)
    if not path.exists():
        raise InputValueError(f"`storage`: there is no file {path}")
    with _connected(path) as connection:
        columns = _columns(connection, path)
        return [
            (record, [outcome for _, outcome in _outcomes(connection, path, name)])
            for name, record in _records(connection, path, columns).items()
            if record is not None
        ]


def _outcome(text: Any, checksum: int | None, where: str) -> Outcome:
    """The outcome of a row; raise ValueError, which names the row, if it is damaged."""
    try:
        if checksum is not None and checksum != _crc32(text):
            raise ValueError("its checksum is another")
        return Outcome.from_dict(json.loads(text))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputValueError(
            f"`storage`: {where} is damaged ({error})",
            "delete this row of the table trials, or name another file",
        ) from error


def _crc32(text: bytes) -> int:
    return zlib.crc32(text)


def _machine() -> str:
    """The machine, and on Linux the space in which its process ids are counted."""
    with suppress(OSError):
        return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
    return socket.gethostname()


def _has_ended(owner: str) -> bool:
    """Whether the process of a claim is certainly gone."""
    _, process, machine = owner.split(" ", 2)
    return machine == _machine() and has_ended(int(process))

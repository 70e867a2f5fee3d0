"""Outcomes of a search in an SQLite file, to resume it or to share it between processes."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import socket
import struct
import sys
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfrank._version import __version__
from mfrank.arrays import counted
from mfrank.data import Interactions
from mfrank.errors import InputValueError
from mfrank.files import open_regular, path_of
from mfrank.retrieval import of_filter
from mfrank.tuning.outcomes import Outcome, Trial

if TYPE_CHECKING:
    import sqlite3

_APPLICATION = int.from_bytes(b"mfrk", "big")
"""In the header of an SQLite file, says whose it is."""
_VERSION = 1
_HEADER = 100
_TABLES = {
    "search": "CREATE TABLE IF NOT EXISTS search (fingerprint TEXT)",
    "trials": "CREATE TABLE IF NOT EXISTS trials "
    "(number INTEGER PRIMARY KEY AUTOINCREMENT, outcome TEXT, crc32 INTEGER)",
    "claims": "CREATE TABLE IF NOT EXISTS claims (owner TEXT PRIMARY KEY, until REAL, trial TEXT)",
}
_LOCKED = 30.0
"""Seconds to wait for a lock."""
_CLAIMED = 60.0
"""Seconds after which a claim ends that is not renewed."""
_PAUSE = 0.2
"""Seconds between two looks at what others do."""

_log = logging.getLogger("mfrank")


def fingerprint(parts: Sequence[Interactions], **options: Any) -> str:
    """Fingerprint of the data, the options that affect outcomes, and mfrank's version."""
    matrices = [part.user_items for part in parts]
    of_each = [(matrix.shape, of_filter(matrix, with_values=True)) for matrix in matrices]
    known = [__version__, options, of_each]
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
    for part in parts:
        if part.timestamps is not None:
            digest.update(part.timestamps.tobytes())
    return digest.hexdigest()


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
    counts : function, optional
        Whether a trial counts; others, of a call with other ``needs``, stay in the file.

    Attributes
    ----------
    outcomes : list of Outcome
        Outcomes of all processes on the file, up to the last read.

    Raises
    ------
    ValueError
        The file is not a search, or is another search, or has a damaged row; it is not changed.
    TimeoutError
        Another process has locked the file for too long.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        of: str,
        counts: Callable[[Trial], bool] = lambda trial: True,
    ) -> None:
        self._path = None if path is None else path_of(path)
        self._counts = counts
        self.outcomes: list[Outcome] = []
        self._last = 0  # number of the last row that was read
        self._owner = f"{uuid.uuid4().hex} {os.getpid()} {_machine()}"
        self._renewal: _Renewal | None = None
        if self._path is not None:
            _check_file(self._path)
            with self._opened() as connection:
                _prepare(connection, self._path, of)
                self._read(connection)

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
                "INSERT INTO trials (outcome, crc32) VALUES (?, ?)", [text, _crc32(text.encode())]
            )
            self._last = row.lastrowid or self._last
        self.outcomes.append(outcome)

    def _read(self, connection: sqlite3.Connection) -> None:
        """Append the outcomes that were saved since the last reading."""
        rows = connection.execute(
            "SELECT number, outcome, crc32 FROM trials WHERE number > ? ORDER BY number",
            [self._last],
        )
        for number, text, checksum in rows.fetchall():
            outcome = _outcome(text, checksum, f"{self._path}: trial {number}")
            if self._counts(outcome.trial):
                self.outcomes.append(outcome)
            self._last = number

    def _claims(self, connection: sqlite3.Connection) -> list[Trial]:
        """The trials that others run; claims of those that ended are removed."""
        live = list[Trial]()
        rows = connection.execute("SELECT rowid, owner, until, trial FROM claims").fetchall()
        for row, owner, until, text in rows:
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
            "INSERT OR REPLACE INTO claims VALUES (?, ?, ?)",
            [self._owner, time.time() + _CLAIMED, json.dumps(asdict(trial))],
        )

    def _renew(self) -> None:
        with self._opened() as connection:
            connection.execute(
                "UPDATE claims SET until = ? WHERE owner = ?",
                [time.time() + _CLAIMED, self._owner],
            )

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """The file, which no other process writes meanwhile."""
        import sqlite3

        try:
            with closing(
                sqlite3.connect(self._path or "", timeout=_LOCKED, isolation_level=None)
            ) as connection:
                connection.text_factory = bytes  # a damaged row may be no text
                connection.execute("BEGIN IMMEDIATE")
                with connection:  # commits, or rolls back
                    yield connection
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
                raise TimeoutError(
                    f"storage: another process has locked {self._path} for more than {_LOCKED:g} "
                    "s; end it and make the same call again, or name another file"
                ) from error
            raise InputValueError(
                f"`storage`: {self._path} cannot be used as the SQLite file of a search ({error})",
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


def _prepare(connection: sqlite3.Connection, path: Path, of: str) -> None:
    """Make the tables of a new file, add what an older file lacks; refuse a foreign one."""
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
    if tables and (
        len(columns) < len(tables)
        or columns.get("search") != ["fingerprint"]
        or columns.get("trials") not in (["number", "outcome"], ["number", "outcome", "crc32"])
    ):
        raise _foreign(path)
    known = connection.execute("SELECT fingerprint FROM search").fetchall() if tables else []
    if tables and known != [(of.encode(),)]:
        raise InputValueError(
            f"`storage`: {path} has a search of other data, options or another version of mfrank",
            "name another file",
        )
    for statement in _TABLES.values():
        connection.execute(statement)
    if columns.get("trials") == ["number", "outcome"]:
        connection.execute("ALTER TABLE trials ADD COLUMN crc32 INTEGER")
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    if not known:
        connection.execute("INSERT INTO search VALUES (?)", [of])


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
    if machine != _machine() or sys.platform == "win32":
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False

"""An SQLite file of ours that several threads and processes write: commits are whole and durable.

SQLite keeps a write-ahead log, in which a commit that a crash cut off fails its checksums and is
left out as a whole. The log needs shared memory: the file must be on a disk of this machine.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mfrank._system import sync
from mfrank.errors import InputValueError, unreadable
from mfrank.files.atomic import open_regular

if TYPE_CHECKING:
    import sqlite3

_HEADER, _VERSION = 100, 1
_LOCKED = 10.0
"""Seconds to wait for another writer."""
_PAUSE = 0.01
"""Seconds until a step for which SQLite does not wait is tried again."""


@dataclass(slots=True)
class _Place:
    """A connection of a process, or none yet, and the turn of the threads that use it."""

    turn: threading.Lock = field(default_factory=threading.Lock)
    process: int = 0
    connection: sqlite3.Connection | None = None


class Database:
    """An SQLite file, or a database in memory; opened when it is first used, in each process.

    Parameters
    ----------
    path : Path or None
        None: in memory.
    tables : sequence of str
        Statements that create what is in a new file.
    application : int
        In the header of the file, says whose it is.
    what : str
        What it is, in messages, such as "a journal of events".
    is_durable : bool, default True
        Whether a commit is on the disk when it returns; otherwise, the machine (not the process)
        may lose the last ones.

    Raises
    ------
    ValueError
        The file is of another program or a newer mfrank, or its folder is missing.
    """

    def __init__(
        self,
        path: Path | None,
        tables: Sequence[str],
        application: int,
        what: str,
        *,
        is_durable: bool = True,
    ) -> None:
        self.path, self._tables = path, tuple(tables)
        self._application, self._is_durable = application, is_durable
        # One connection reads and one writes, so that no reader waits for the disk.
        self._writer = _Place()
        self._reader = self._writer if path is None else _Place()
        if path is not None:
            _check_file(path, application, what)
        with self.writing():  # so that a fault is told at once
            pass

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """A connection to read, which no other thread of this process uses meanwhile."""
        return self._using(self._reader)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all that the block writes is committed at its end, or nothing of it."""
        with self._using(self._writer) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with connection:  # commits, or rolls back
                yield connection

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        for place in self._reader, self._writer:
            with place.turn:
                if place.connection is not None and place.process == os.getpid():
                    place.connection.close()
                place.connection = None

    @contextmanager
    def _using(self, place: _Place) -> Iterator[sqlite3.Connection]:
        import sqlite3

        with place.turn:
            try:
                # A connection must not be used after a fork: the child opens its own.
                if place.connection is None or place.process != os.getpid():
                    place.connection, place.process = self._connected(), os.getpid()
                yield place.connection
            except sqlite3.Error as error:
                raise self._fault(error) from error

    def _connected(self) -> sqlite3.Connection:
        import sqlite3

        connection = sqlite3.connect(
            ":memory:" if self.path is None else self.path,
            timeout=_LOCKED,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.execute("PRAGMA fullfsync = 1")  # what fsync is elsewhere, on macOS
            # Before there is a log: the header of the file then says from its first byte on whose
            # it is, also after a crash.
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                self._create(connection)
            _log_ahead(connection)
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._is_durable else 'NORMAL'}")
        except BaseException:
            connection.close()
            raise
        if self.path is not None:
            sync(self.path.parent)  # the name of a new file is durable, too
        return connection

    def _create(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return  # another process was faster
            connection.execute(f"PRAGMA application_id = {self._application}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            for statement in self._tables:
                connection.execute(statement)

    def _fault(self, error: sqlite3.Error) -> Exception:
        name = getattr(error, "sqlite_errorname", None) or ""
        if name.startswith("SQLITE_BUSY"):
            return TimeoutError(f"another process has locked {self.path} for {_LOCKED:g} s")
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return unreadable(self.path, "is damaged", error, "restore it from a copy")
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN")):
            return OSError(f"{self.path}: {error}")
        return error


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Use a write-ahead log; SQLite does not wait for others that are about to do the same."""
    import sqlite3

    until = time.monotonic() + _LOCKED
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _check_file(path: Path, application: int, what: str) -> None:
    """Raise ValueError unless the file is missing, empty or ours; SQLite has not opened it."""
    if not path.parent.is_dir():
        raise InputValueError(
            f"there is no folder {path.parent} for {path.name}", "create it first", place=path
        )
    if not path.exists():
        return
    with closing(open_regular(path)) as file:
        header = file.read(_HEADER)
    if not header:
        return
    # By SQLite's documentation of its header.
    version, owner = struct.unpack_from(">I4xI", header.ljust(_HEADER, b"\0"), 60)
    if not header.startswith(b"SQLite format 3\0") or owner != application:
        raise InputValueError(
            f"{path} is a file of another program, and not {what}", "name another", place=path
        )
    if version > _VERSION:
        raise InputValueError(f"{path} is of a newer mfrank", "install that", place=path)

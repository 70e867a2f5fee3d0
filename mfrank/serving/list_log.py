"""Lists that were shown, in the file of the journal: to whom, when, by which model, and how likely.

A thread commits them several times a second, so that no list waits for the disk: a crash may lose
the lists of the last moment, but no event. Where the disk is slower than the lists come, further
ones are left out and counted.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mfrank.arrays import check_above_zero
from mfrank.errors import InputValueError
from mfrank.serving.event_journal import EventJournal

_LOG = logging.getLogger("mfrank.serving")
UNNAMED = "model"
"""The arm of a service that has one model without a name."""
_TABLES = (
    "CREATE TABLE IF NOT EXISTS lists (number INTEGER PRIMARY KEY AUTOINCREMENT, "
    "list_id TEXT NOT NULL, user NOT NULL, time REAL NOT NULL, arm TEXT NOT NULL, "
    "version TEXT NOT NULL, share REAL, items TEXT NOT NULL, propensities TEXT)",
)
_ADD = (
    "INSERT INTO lists (list_id, user, time, arm, version, share, items, propensities) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_WAITING, _AT_ONCE, _PAUSE = 10_000, 1000, 0.2
"""Most lists that wait for the disk, most in a commit, and seconds that a commit waits for more."""
_MOST_DELETED = 10_000


class ListSource(NamedTuple):
    """Where a list comes from.

    Attributes
    ----------
    list_id : str
        Of the request.
    arm, version : str
        Of the model.
    share : float or None
        Of the users whom the model answers; None if it was asked by hand.
    """

    list_id: str
    arm: str
    version: str
    share: float | None


@dataclass(frozen=True, slots=True)
class ListShown:
    """A list that was shown.

    Attributes
    ----------
    user : id
    time : float
        Seconds since 1970.
    source : ListSource
    items : sequence of id
    propensities : sequence of float or None
        Of each item: the probability that it is in the list; None if nothing was drawn.
    """

    user: int | str
    time: float
    source: ListSource
    items: Sequence[int | str]
    propensities: Sequence[float] | None = None


class Clicked(NamedTuple):
    """A list that was shown, and which of its items were clicked."""

    shown: ListShown
    clicks: Sequence[bool]


class ListLog:
    """Lists that were shown.

    Parameters
    ----------
    journal : EventJournal
    seconds : float
        How long they are kept, > 0.

    Attributes
    ----------
    left_out : int
        Lists that were not written, because the disk was too slow or full.
    """

    def __init__(self, journal: EventJournal, seconds: float) -> None:
        check_above_zero(log_lists=seconds)
        self.seconds, self.left_out = seconds, 0
        self._database = journal.database
        with self._database.writing() as connection:
            for statement in _TABLES:
                connection.execute(statement)
        self._waiting: queue.Queue[ListShown | None] = queue.Queue(_WAITING)
        self._thread: threading.Thread | None = None
        self._beginning = threading.Lock()
        self._error = ""

    def add(self, shown: ListShown) -> None:
        """Note a list, which is on the disk soon."""
        if self._thread is None:
            self._start()
        try:
            self._waiting.put_nowait(shown)
        except queue.Full:
            self.left_out += 1

    def stop(self) -> None:
        """Write what waits, and end the thread; a later list starts it again."""
        with self._beginning:
            if self._thread is not None:
                self._waiting.put(None)
                self._thread.join()
                self._thread = None

    def _start(self) -> None:
        with self._beginning:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._keep_writing, name="mfrank-lists", daemon=True
                )
                self._thread.start()

    def _keep_writing(self) -> None:
        ends = False
        while not ends:
            portion = [self._waiting.get()]
            until = time.monotonic() + _PAUSE
            while portion[-1] is not None and len(portion) < _AT_ONCE:
                try:
                    portion.append(self._waiting.get(timeout=max(0.0, until - time.monotonic())))
                except queue.Empty:
                    break
            ends = portion[-1] is None
            lists = [each for each in portion if each is not None]
            try:
                self._write(lists)
            except (OSError, ValueError) as error:  # the service goes on; so does this thread
                self.left_out += len(lists)
                if str(error) != self._error:
                    self._error = str(error)
                    _LOG.warning("lists that were shown are not written: %s", error)

    def _write(self, lists: Sequence[ListShown]) -> None:
        rows = [
            (
                *(each.source.list_id, each.user, each.time, each.source.arm),
                *(each.source.version, each.source.share, json.dumps(each.items)),
                None if each.propensities is None else json.dumps(each.propensities),
            )
            for each in lists
        ]
        with self._database.writing() as connection:
            connection.executemany(_ADD, rows)
            # Few at a time, so that no event waits long for its commit.
            connection.execute(
                "DELETE FROM lists WHERE number IN "
                "(SELECT number FROM lists ORDER BY number LIMIT ?) AND time < ?",
                [min(_MOST_DELETED, 10 * len(rows)), time.time() - self.seconds],
            )


def read_lists(journal: EventJournal, since: float = 0.0) -> Iterator[ListShown]:
    """The lists of a journal from a time on, by user and then by time.

    Raises
    ------
    ValueError
        No service has written lists to it.
    """
    with journal.database.reading() as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE name = 'lists'").fetchall()
        if not names:
            raise InputValueError(
                f"{journal.folder} has no lists that were shown:",
                f"write them with mfrank serve MODEL --journal {journal.folder} --log-lists 30d",
                place=journal.folder,
            )
        rows = connection.execute(
            "SELECT user, time, list_id, arm, version, share, items, propensities FROM lists "
            "WHERE time >= ? ORDER BY user, time, number",
            [since],
        )
        for user, at, *source, items, propensities in rows:
            odds = None if propensities is None else json.loads(propensities)
            yield ListShown(user, at, ListSource(*source), json.loads(items), odds)

"""The journal of events: what users did since the model learned, in an SQLite file of a folder.

A commit is on the disk before its events are acknowledged (a write-ahead log with
``synchronous=FULL``), and a commit that a crash cut off is left out as a whole: SQLite recognizes
it by the checksums of the log. Several services and updates may share the folder on one machine.

What a model has had of a journal is in the model, not here: an update notes the number up to which
it reads (a *mark*), then learns under the mark's name as its ``batch``, and saves. A crash before
the save leaves a mark that no model has, a crash after it changes nothing more: the next update
reads from the last mark that the model has. So no event counts twice and none is lost, for any
number of models that learn from one journal.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import scipy.sparse as sp

from mfrank.arrays import counted
from mfrank.data import Interactions, ReadWhere, kinds_read
from mfrank.errors import InputValueError, Notice
from mfrank.files import Database, path_of
from mfrank.models import last_batch
from mfrank.retrieval import Recommender
from mfrank.serving.kind_weights import KIND, Counting, Weights

_log = logging.getLogger("mfrank")

FILE = "events.sqlite"
_APPLICATION = int.from_bytes(b"mfej", "big")
_TABLES = (
    # AUTOINCREMENT: a number never returns, whatever is deleted.
    "CREATE TABLE events (number INTEGER PRIMARY KEY AUTOINCREMENT, event_id TEXT UNIQUE, "
    "user NOT NULL, item NOT NULL, event TEXT, value REAL NOT NULL, timestamp REAL NOT NULL)",
    "CREATE INDEX events_of_user ON events (user, number)",
    "CREATE TABLE marks (number INTEGER PRIMARY KEY, time REAL NOT NULL)",
    "CREATE TABLE journal (name TEXT NOT NULL)",
)
_PAUSE = 0.1
"""Seconds until events that other processes have appended are looked for again."""
_ADD = (
    "INSERT INTO events (event_id, user, item, event, value, timestamp) VALUES (?, ?, ?, ?, ?, ?)"
)
_BETWEEN = "number > ? AND number <= ?"
_NAMED = f"coalesce(event, '{KIND}')"
_SAME = "SELECT user, item, event, value, timestamp FROM events WHERE event_id = ?"


@dataclass(frozen=True, slots=True)
class Event:
    """What a user did.

    Attributes
    ----------
    user, item : int or str
        Ids of the model's type.
    event : str or None
        Its kind, such as "purchase".
    value : float, default 1
        At least 0.
    timestamp : float or None, default None
        Seconds since 1970; None is the time at which it is appended.
    event_id : str or None, default None
        A name by which it is appended once.
    """

    user: int | str
    item: int | str
    event: str | None = None
    value: float = 1.0
    timestamp: float | None = None
    event_id: str | None = None


class Fresh(NamedTuple):
    """An event that a model has not learned from."""

    item: int | str
    event: str | None
    value: float


class OtherEventError(InputValueError):
    """An event has the id of another one that is in the journal."""


class EventJournal:
    """A journal of events.

    Parameters
    ----------
    folder : path
        Created if it does not exist. On a disk of this machine: SQLite's log works on no network
        file system.
    create : bool, default True
        Whether to create a missing journal.

    Raises
    ------
    ValueError
        The folder has a file ``events.sqlite`` of another program, or ``create`` is False and there
        is no journal.
    """

    def __init__(self, folder: str | os.PathLike[str], *, create: bool = True) -> None:
        self.folder, path = path_of(folder), path_of(folder) / FILE
        if not create and not path.exists():
            raise InputValueError(
                f"{folder} is no journal of events",
                f"make one with mfrank serve MODEL --journal {folder}",
                place=folder,
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        self.database = Database(path, _TABLES, _APPLICATION, "a journal of events")
        with self.database.writing() as connection:
            found = connection.execute("SELECT name FROM journal").fetchone()
            if found is None:
                found = (uuid.uuid4().hex,)
                connection.execute("INSERT INTO journal VALUES (?)", found)
        self.name: str = found[0]
        self._positions = WeakKeyDictionary[Any, int]()

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, events: Sequence[Event]) -> tuple[int, int]:
        """Append events that are on the disk when this returns: all of them, or none.

        Returns
        -------
        new, repeated : int
            How many were appended, and how many were in the journal by their ids.

        Raises
        ------
        ValueError
            An event has the id of another one; ``place`` has its index. Nothing is appended.
        """
        new, now = 0, time.time()
        with self.database.writing() as connection:
            for index, event in enumerate(events):
                row = event.user, event.item, event.event, float(event.value), event.timestamp
                if event.event_id is not None:
                    before = connection.execute(_SAME, [event.event_id]).fetchone()
                    if before is not None:
                        _check_same(index, event.event_id, before, row)
                        continue
                *fields, stamp = row
                connection.execute(_ADD, [event.event_id, *fields, now if stamp is None else stamp])
                new += 1
        return new, len(events) - new

    @property
    def last(self) -> int:
        """Number of the last event; 0 if there is none."""
        with self.database.reading() as connection:
            (last,) = connection.execute("SELECT max(number) FROM events").fetchone()
        return int(last or 0)

    def position(self, model: Recommender) -> int:
        """Number of the last event that a model has learned from; 0 if none."""
        state = model._now()  # which an update replaces; of one state it is always the same
        if (known := self._positions.get(state)) is not None:
            return known
        with self.database.reading() as connection:
            marks = [row[0] for row in connection.execute("SELECT number FROM marks ORDER BY 1")]
        found = last_batch(model, [self._batch(mark) for mark in marks])
        self._positions[state] = position = 0 if found is None else int(marks[found])
        return position

    def of_user(self, user: int | str, after: int, until: int | None = None) -> list[Fresh]:
        """The events of a user with numbers above ``after``, up to ``until``, oldest first."""
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT item, event, value FROM events WHERE user = ? AND number > ? "
                "AND number <= ? ORDER BY timestamp, number",
                [user, after, 2**62 if until is None else until],
            )
            return [Fresh(*row) for row in rows]

    def clicks(
        self, kinds: Sequence[str] | None = None, since: float = 0.0
    ) -> dict[int | str, list[tuple[float, int | str]]]:
        """When each user did something with which item, oldest first.

        Parameters
        ----------
        kinds : sequence of str, optional
            By default all. An event without a kind is of the kind ``event``.
        since : float
        """
        found: dict[int | str, list[tuple[float, int | str]]] = {}
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT user, timestamp, item, coalesce(event, ?) FROM events "
                "WHERE timestamp >= ? AND value > 0 ORDER BY timestamp, number",
                [KIND, since],
            )
            for user, at, item, kind in rows:
                if kinds is None or kind in kinds:
                    found.setdefault(user, []).append((at, item))
        return found

    def last_of_users(self, after: int) -> dict[int | str, int]:
        """Of each user with events above a number, the number of the last one."""
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT user, max(number) FROM events WHERE number > ? GROUP BY user", [after]
            )
            return dict(rows.fetchall())

    def mark(self) -> int:
        """Note the last event as the end of an update, on the disk; return its number."""
        with self.database.writing() as connection:
            (last,) = connection.execute("SELECT max(number) FROM events").fetchone()
            if last is not None:
                row = [last, time.time()]
                connection.execute("INSERT OR IGNORE INTO marks VALUES (?, ?)", row)
        return int(last or 0)

    def interactions(
        self,
        after: int,
        until: int,
        where: ReadWhere | None = None,
        remembered: Weights | None = None,
        **how: Any,
    ) -> Interactions:
        """The events with numbers above ``after``, up to ``until``, merged.

        Parameters
        ----------
        after, until : int
        where : mapping, optional
            How the rows of a fit's data were chosen. If by kinds, events of others are left out,
            which is logged; events without a kind are read.
        remembered : mapping, optional
            What an event of each kind counted in a fit's data; kinds count so without ``weights``,
            which is logged.
        how
            Arguments of :meth:`mfrank.Interactions.from_sql`; kinds are read for ``weights``.
        """
        kinds, only = self.kinds(after, until), kinds_read(where or {})
        read = [kind for kind in kinds if only is None or kind in only or kind == KIND]
        is_told, remembered = how.get("weights") is not None, remembered or {}
        values = "value"
        if is_told:
            values = "value > 0"
        elif remembered:
            self._tell_remembered(kinds, remembered)
            read = [kind for kind in read if remembered.get(kind, 1) is not None]
            values = f"CASE WHEN {_of_kinds(remembered)} THEN value > 0 ELSE value END"
            how["weights"] = {kind: remembered.get(kind, 1) for kind in read}
        if only is not None:
            self._tell_left_out(after, until, read, only)
        if not read:
            return Interactions.of(sp.csr_array((0, 0)))
        column = f", {_NAMED} AS event" if is_told or remembered else ""
        query = (
            f"SELECT user, item, {values} AS value, timestamp{column} FROM events "
            f"WHERE {_BETWEEN} AND {_of_kinds(read)} ORDER BY number"
        )
        given = [*(() if is_told else remembered), after, until, *read]
        with self.database.reading() as connection:
            found = Interactions.from_sql(query, connection, params=given, value="value", **how)
        weights = found.event_weights if is_told else remembered
        if only is not None:
            return found._with_rows({c: v for c, v in (where or {}).items() if v == only}, weights)
        has_others = not weights and bool({*kinds} - {KIND})
        return found._with_rows({"event": None} if has_others else {}, weights)

    def _tell_remembered(self, kinds: Sequence[str], remembered: Weights) -> None:
        """Tell that events count by the weights of a fit, or have a kind without such a weight."""
        met = {kind: weight for kind, weight in remembered.items() if kind in kinds}
        if met:
            _log.info(
                Notice(
                    f"events of {self.folder} count by the weights of the fit "
                    f"({Counting(met, False)}); `weights` say otherwise"
                )
            )
        if others := [kind for kind in kinds if kind not in remembered]:
            _log.warning(
                Notice(
                    f"events of {self.folder} of the kinds {', '.join(map(repr, others))}, which "
                    f"the weights of the fit ({Counting(remembered, False)}) do not have, count by "
                    "their values; `weights` say what each kind counts"
                )
            )

    def _tell_left_out(
        self, after: int, until: int, read: Sequence[str], only: Sequence[str]
    ) -> None:
        """Tell how many events are of other kinds than those of a fit."""
        n_events, n_read = self.n_events(after, until), self.n_events(after, until, read)
        if n_read < n_events:
            _log.info(
                Notice(
                    f"{n_events - n_read:,} of {counted(n_events, 'event')} of {self.folder} "
                    f"are of other kinds than {', '.join(map(repr, only))}, of which "
                    "the fit's data were, and are left out; `weights` say what each kind counts"
                )
            )

    def kinds(self, after: int, until: int) -> list[str]:
        """The kinds of these events."""
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT DISTINCT coalesce(event, ?) FROM events WHERE number > ? AND number <= ? "
                "ORDER BY 1",
                [KIND, after, until],
            )
            return [row[0] for row in rows]

    def _batch(self, mark: int) -> str:
        return f"journal {self.name} up to {mark}"

    def update(self, model: Any, **options: Any) -> int:
        """Update a model with the events that it has not learned from; save it afterwards.

        Concurrent updates of one saved model must wait for each other, as those of ``mfrank
        update`` do.

        Parameters
        ----------
        model : fitted model
        options
            Of ``model.partial_fit``, but ``batch``; and ``read``, a function of the journal and the
            two numbers between which to read, which returns Interactions.

        Returns
        -------
        int
            Number of events.
        """
        read = options.pop("read", None)
        if read is None:
            known = {"where": model.where, "remembered": model.event_weights}
            read = partial(EventJournal.interactions, **known)
        after, until = self.position(model), self.mark()
        if until <= after:
            return 0
        model.partial_fit(read(self, after, until), batch=self._batch(until), **options)
        return self.n_events(after, until)

    def n_events(self, after: int, until: int, only: Collection[str] | None = None) -> int:
        """Number of events between two numbers, the second included; see :meth:`interactions`."""
        with self.database.reading() as connection:
            query = f"SELECT count(*) FROM events WHERE {_BETWEEN} AND {_of_kinds(only)}"
            found = connection.execute(query, [after, until, *(only or ())]).fetchone()
            return int(found[0])


def _of_kinds(only: Collection[str] | None) -> str:
    """The condition of SQL on the kinds of events, with a place for each."""
    return "1" if only is None else f"{_NAMED} IN ({', '.join('?' * len(only))})"


def _check_same(index: int, event_id: str, before: Sequence[Any], now: Sequence[Any]) -> None:
    """Raise if an event is not the one that has its id; times only count if it has one."""
    *old, old_time = before
    *new, new_time = now
    if old != new or new_time not in (None, old_time):
        raise OtherEventError(
            f"event {index}: the id {event_id[:100]!r} is that of another event in the journal",
            "give each event its own id",
            place=f"event {index}",
        )


class FreshUsers:
    """Which users have events that the current model has not learned from; in memory.

    The keys are ids as texts, as URLs have them. Events of this process are known at once, those of
    others within a tenth of a second.
    """

    def __init__(self, journal: EventJournal) -> None:
        self._journal = journal
        self._last: dict[str, int] = {}
        self._read, self._due = 0, 0.0
        self._state: Any = None
        self._position = 0
        self._turn = threading.RLock()

    def has(self, user: str, model: Recommender) -> bool:
        """Whether a user of a URL has such events."""
        if model._now() is not self._state or time.monotonic() >= self._due:
            with self._turn:
                self._begin(model)
                self.look()
        return user in self._last

    def _begin(self, model: Recommender) -> None:
        state = model._now()
        if state is self._state:
            return
        position = self._journal.position(model)
        if self._state is None or position < self._position:  # or an earlier model came back
            self._last, self._read = {}, position
        self._last = {user: last for user, last in self._last.items() if last > position}
        self._state, self._position = state, position

    def look(self) -> None:
        """Read what was appended since."""
        with self._turn:
            last = self._journal.last
            if last > self._read:
                new = self._journal.last_of_users(self._read)
                self._last.update((str(user), number) for user, number in new.items())
                self._read = last
            self._due = time.monotonic() + _PAUSE

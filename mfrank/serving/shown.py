"""What was shown to whom lately, so that lists do not repeat it: in memory or an SQLite file.

A row for each user has the latest items with their times. Both numbers are bounded, and the users
who came longest ago are forgotten first. Services on one machine may share the file.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

from mfrank.arrays import check_above_zero, check_count
from mfrank.files import Database, path_of

_APPLICATION = int.from_bytes(b"mfsh", "big")
_TABLES = (
    "CREATE TABLE shown (user PRIMARY KEY, time REAL NOT NULL, items TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX shown_by_time ON shown (time)",
)
_TIDY = 1000
"""Lists between two looks at what is to be forgotten."""


class Shown:
    """A memory of what was shown.

    Parameters
    ----------
    seconds : float
        How long an item counts as shown, > 0.
    file : path, optional
        An SQLite file, which is created if it does not exist; by default, memory.
    max_users : int, default 1000000
    max_items : int, default 1000
        Of a user.

    Attributes
    ----------
    is_shared : bool
        Whether other processes may have the same memory.

    Raises
    ------
    ValueError, TypeError
        A number is out of range, or the file is of another program.
    """

    def __init__(
        self,
        seconds: float,
        file: str | os.PathLike[str] | None = None,
        max_users: int = 10**6,
        max_items: int = 1000,
    ) -> None:
        check_above_zero(remember_shown=seconds)
        check_count("max_users", max_users, 1)
        check_count("max_items", max_items, 1)
        self.seconds, self._max_users, self._max_items = seconds, max_users, max_items
        path = None if file is None else path_of(file)
        self._database = Database(
            path, _TABLES, _APPLICATION, "a memory of what was shown", is_durable=False
        )
        self._lists = 0
        self.is_shared = path is not None

    def items_of(self, user: int | str, until: float | None = None) -> list[int | str]:
        """What was shown to a user lately, oldest first.

        ``until`` is the time on which to look back, by default now; what was shown from then on
        does not count.
        """
        end = time.time() if until is None else until
        with self._database.reading() as connection:
            pairs = _items(connection, user)
        return [item for item, at in pairs if end - self.seconds <= at < end]

    def add(self, user: int | str, items: Iterable[int | str]) -> None:
        """Remember a list."""
        now, new = time.time(), dict.fromkeys(items)
        with self._database.writing() as connection:
            # What is shown again is the latest. Those of twice the time stay for pages of a list
            # that was begun earlier.
            kept = [
                pair
                for pair in _items(connection, user)
                if pair[0] not in new and pair[1] >= now - 2 * self.seconds
            ]
            pairs = [*kept, *([item, now] for item in new)][-self._max_items :]
            row = [user, now, json.dumps(pairs)]
            connection.execute("INSERT OR REPLACE INTO shown VALUES (?, ?, ?)", row)
            self._lists += 1
            if self._lists % _TIDY == 0 or self._max_users < _TIDY:
                self._forget(connection, now)

    def _forget(self, connection: Any, now: float) -> None:
        connection.execute("DELETE FROM shown WHERE time < ?", [now - 2 * self.seconds])
        (n_users,) = connection.execute("SELECT count(*) FROM shown").fetchone()
        if n_users > self._max_users:
            connection.execute(
                "DELETE FROM shown WHERE user IN (SELECT user FROM shown ORDER BY time LIMIT ?)",
                [n_users - self._max_users],
            )


def _items(connection: Any, user: int | str) -> Sequence[Any]:
    row = connection.execute("SELECT items FROM shown WHERE user = ?", [user]).fetchone()
    return [] if row is None else json.loads(row[0])

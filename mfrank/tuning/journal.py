"""Outcomes of a search in an SQLite file, so that a search that was killed goes on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from mfrank._version import __version__
from mfrank.data.interactions import Interactions
from mfrank.retrieval.fingerprint import of_filter
from mfrank.tuning.outcomes import Outcome

__all__ = ["Journal", "fingerprint"]


def fingerprint(parts: Sequence[Interactions], **options: Any) -> str:
    """Of the data, the options that outcomes depend on, and the version of mfrank."""
    matrices = [part.user_items for part in parts]
    of_each = [(matrix.shape, of_filter(matrix, with_values=True)) for matrix in matrices]
    known = [__version__, options, of_each]
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
    for part in parts:
        if part.timestamps is not None:
            digest.update(part.timestamps.tobytes())
    return digest.hexdigest()


class Journal:
    """The outcomes so far, each saved as soon as it is known; in memory only if ``path`` is None.

    Raises
    ------
    ValueError
        The file is not that of a search, or that of another search.
    """

    def __init__(self, path: str | os.PathLike[str] | None, of: str) -> None:
        self._path = None if path is None else Path(path)
        self.outcomes: list[Outcome] = []
        if self._path is not None:
            self.outcomes = self._opened(self._path, of)

    def add(self, outcome: Outcome) -> None:
        """Append and save."""
        self.outcomes.append(outcome)
        if self._path is None:
            return
        import sqlite3

        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.execute(
                "INSERT INTO trials (outcome) VALUES (?)", [json.dumps(outcome.to_dict())]
            )

    def _opened(self, path: Path, of: str) -> list[Outcome]:
        """The outcomes in the file, which is made if it is not there."""
        import sqlite3

        if not path.parent.is_dir():
            raise ValueError(f"storage: there is no folder {path.parent}; create it first")
        if path.is_dir():
            raise ValueError(f"storage must be a file, such as search.sqlite; {path} is a folder")
        try:
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("CREATE TABLE IF NOT EXISTS search (fingerprint TEXT)")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS trials "
                    "(number INTEGER PRIMARY KEY AUTOINCREMENT, outcome TEXT)"
                )
                known = connection.execute("SELECT fingerprint FROM search").fetchall()
                if not known:
                    connection.execute("INSERT INTO search VALUES (?)", [of])
                rows = connection.execute("SELECT outcome FROM trials ORDER BY number").fetchall()
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"storage: {path} cannot be used as the SQLite file of a search ({error}); name "
                "another file"
            ) from error
        if known and known[0][0] != of:
            raise ValueError(
                f"storage: {path} has a search of other data, options or another version of "
                "mfrank; name another file"
            )
        return [Outcome.from_dict(json.loads(text)) for (text,) in rows]

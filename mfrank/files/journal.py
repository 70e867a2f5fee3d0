"""Progress of a run that appends to the files of one folder, so that a later run can resume it.

A note tells how often each stage was advanced, and how long every file was. A run that resumes cuts
the files back to those lengths. A note is written only now and then, because everything that it
describes must be on the disk before.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from mfrank.files.durable import flush, sync
from mfrank.files.manifest import dump_json, parse_json
from mfrank.files.regular import is_file

__all__ = ["Journal"]

_NAME, _DRAFT = "journal.json", "journal.new"
_SECONDS = 30.0
"""Minimum time between two notes."""
_SHARE = 10
"""A note may take at most the time since the previous one divided by this."""


class Journal:
    """The journal of a folder, whose files are brought to the state of its last note.

    Parameters
    ----------
    place : Path
        A folder of files alone; if there is no note of this origin in it, it is emptied.
    origin : mapping
        What the work is made from, as JSON.

    Attributes
    ----------
    done : Counter
        How often each stage was advanced.
    facts : dict
        Further facts in the note, as JSON.
    """

    def __init__(self, place: Path, origin: Mapping[str, Any]) -> None:
        self._place, self._origin = place, dict(origin)
        noted = _noted(place, origin)
        self.done = Counter[str](noted.get("done", {}))
        self.facts: dict[str, Any] = noted.get("facts", {})
        self._sizes: dict[str, int] = noted.get("sizes", {})
        self._gone = set[Path]()
        self._written, self._pause = monotonic(), _SECONDS
        for path in place.iterdir():
            if path.name in self._sizes:
                os.truncate(path, self._sizes[path.name])
            elif path.name != _NAME or not noted:
                path.unlink()

    @staticmethod
    def serves(place: Path, origin: Mapping[str, Any]) -> bool:
        """Whether a folder has a note of this origin, and everything that the note describes."""
        return bool(_noted(place, origin))

    def advance(
        self,
        stage: str,
        gone: Path | None = None,
        *,
        save: Callable[[], None] = lambda: None,
        last: bool = False,
    ) -> None:
        """Count a step of a stage, and note it if a note is due.

        Parameters
        ----------
        stage : str
        gone : Path, optional
            A file that is not needed from here on; if a note describes it, it is removed when the
            next note is written.
        save : function, optional
            Writes what is only in memory; called before a note.
        last : bool
            Whether notes of later stages need what ``save`` writes: it is called at once.
        """
        self.done[stage] += 1
        if gone is not None and gone.name in self._sizes:
            self._gone.add(gone)
        elif gone is not None:  # no note describes it
            gone.unlink(missing_ok=True)
        began = monotonic()
        due = began >= self._written + self._pause
        if due or last:
            save()
        if due:
            self._note()
            self._written = monotonic()
            self._pause = max(_SECONDS, _SHARE * (self._written - began))

    def _note(self) -> None:
        """Write to the disk what was appended, then the note."""
        sizes = {}
        for path in self._place.iterdir():
            if path.name in (_NAME, _DRAFT) or path in self._gone:
                continue
            sizes[path.name] = path.stat().st_size
            if sizes[path.name] != self._sizes.get(path.name):
                with path.open("rb+") as file:
                    os.fsync(file.fileno())
        sync(self._place)
        fields = {"origin": self._origin, "done": self.done, "facts": self.facts, "sizes": sizes}
        draft = self._place / _DRAFT
        with draft.open("w", encoding="utf-8") as text:
            text.write(dump_json(fields))
            flush(text)
        os.replace(draft, self._place / _NAME)
        sync(self._place)
        self._sizes = sizes
        for path in self._gone:
            path.unlink(missing_ok=True)
        self._gone.clear()


def _noted(place: Path, origin: Mapping[str, Any]) -> dict[str, Any]:
    """The note of a folder; empty if it has none of this origin, or a file is missing or short."""
    where = place / _NAME
    try:
        fields = parse_json(where.read_bytes(), where) if is_file(where) else None
    except (OSError, ValueError):
        return {}
    if not isinstance(fields, dict) or fields.get("origin") != dict(origin):
        return {}
    sizes = fields["sizes"]
    for name, size in sizes.items():
        path = place / name
        if not is_file(path) or path.stat().st_size < size:
            return {}
    return fields

"""Progress of a run that appends to the files of one folder, so that a later run can resume it.

A note tells how often each stage was advanced, and the length and checksum of every file. A run
that resumes checks the files, and cuts them back to those lengths; the note has a checksum, too. A
note is written only now and then, because everything that it describes must be on the disk before.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from mfrank.files.checked import CheckedFiles
from mfrank.files.durable import flush, sync
from mfrank.files.manifest import dump_json, parse_json
from mfrank.files.regular import is_file

__all__ = ["Journal"]

_NAME, _DRAFT = "journal.json", "journal.new"
_log = logging.getLogger("mfrank")

_SECONDS = 30.0
"""Minimum time between two notes."""
_SHARE = 10
"""A note may take at most the time since the previous one divided by this."""


class Journal:
    """The journal of a folder, whose files are brought to the state of its last note.

    Parameters
    ----------
    place : Path
        A folder of files alone; if there is no note of this origin in it, or if a file is damaged,
        it is emptied. The latter is logged.
    origin : mapping
        What the work is made from, as JSON.

    Attributes
    ----------
    done : Counter
        How often each stage was advanced.
    facts : dict
        Further facts in the note, as JSON.
    files : CheckedFiles
        Those of the folder; parts are appended to them by this object alone.
    """

    def __init__(self, place: Path, origin: Mapping[str, Any]) -> None:
        self._place, self._origin = place, dict(origin)
        noted = _noted(place, origin)
        try:
            self.files = CheckedFiles(place, noted.get("files"))
        except ValueError as error:
            _log.warning("work that was left begins anew: %s", error)
            self.files, noted = CheckedFiles(place), {}
        self.done = Counter[str](noted.get("done", {}))
        self.facts: dict[str, Any] = noted.get("facts", {})
        self._noted = {name: list(each) for name, each in self.files.known.items()}
        self._gone = set[str]()
        self._written, self._pause = monotonic(), _SECONDS
        for path in place.iterdir():
            if path.name not in self._noted and (path.name != _NAME or not noted):
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
        if gone is not None and gone.name in self._noted:
            self._gone.add(gone.name)
        elif gone is not None:  # no note describes it
            self.files.remove(gone.name)
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
        for path in self._place.iterdir():
            if path.name not in (_NAME, _DRAFT, *self.files.known):
                self.files.take(path.name)  # what ``save`` wrote
        known = {n: list(each) for n, each in self.files.known.items() if n not in self._gone}
        for name, each in known.items():
            if each != self._noted.get(name):
                with (self._place / name).open("rb+") as file:
                    os.fsync(file.fileno())
        sync(self._place)
        fields = {"origin": self._origin, "done": self.done, "facts": self.facts, "files": known}
        draft = self._place / _DRAFT
        with draft.open("w", encoding="utf-8") as text:
            text.write(dump_json({"note": fields, "crc32": _checksum(fields)}))
            flush(text)
        os.replace(draft, self._place / _NAME)
        sync(self._place)
        self._noted = known
        for name in self._gone:
            self.files.remove(name)
        self._gone.clear()


def _noted(place: Path, origin: Mapping[str, Any]) -> dict[str, Any]:
    """The note of a folder; empty if it has none of this origin, or a file is missing or short."""
    where = place / _NAME
    try:
        whole = parse_json(where.read_bytes(), where) if is_file(where) else None
    except (OSError, ValueError):
        return {}
    fields = whole.get("note") if isinstance(whole, dict) else None
    if not isinstance(fields, dict) or whole != {"note": fields, "crc32": _checksum(fields)}:
        return {}
    if fields.get("origin") != dict(origin):
        return {}
    for name, (size, _) in fields["files"].items():
        path = place / name
        if not is_file(path) or path.stat().st_size < size:
            return {}
    return fields


def _checksum(fields: Mapping[str, Any]) -> int:
    return zlib.crc32(dump_json(fields).encode())

"""Progress of a run that appends to the files of one folder, so that a later run can resume it.

A note records how often each stage was advanced, and the length and checksum of every file. A
resuming run checks the files and truncates them to those lengths; the note has a checksum, too.
Notes are written only now and then, because everything that a note describes must be flushed first.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank._system import replace, sync
from mfrank.errors import unreadable
from mfrank.files.atomic import flush, is_file
from mfrank.files.manifest import dump_json, parse_json

# Files that grow and are checked when read: a bit that the disk lost is an error, not other data.
#
# The length of each file and the CRC-32 of its bytes are updated as parts are appended.


_AT_ONCE = 1 << 22


class CheckedFiles:
    """Files of one folder to which parts are appended.

    Parameters
    ----------
    folder : Path
    known : mapping of name -> (length, CRC-32), optional
        Existing files, from ``known`` of an earlier object; a longer file is truncated.

    Attributes
    ----------
    folder : Path
    known : dict of name -> [length, CRC-32]
        Length and checksum that each file must have.

    Raises
    ------
    ValueError
        A file of ``known`` is missing, short or damaged.
    """

    def __init__(self, folder: Path, known: Mapping[str, Sequence[int]] | None = None) -> None:
        self.folder = folder
        self.known = {name: list(each) for name, each in (known or {}).items()}
        for name in self.known:
            self.check(name)
            with (folder / name).open("rb+") as file:
                file.truncate(self.size(name))

    def size(self, name: str) -> int:
        """Length of a file in bytes; 0 if it is unknown."""
        return self.known.get(name, (0,))[0]

    def append(self, name: str, part: bytes) -> None:
        """Append to a file; create it if it is missing."""
        with (self.folder / name).open("ab") as file:  # opened anew: there may be very many
            file.write(part)
        size, checksum = self.known.get(name, (0, 0))
        self.known[name] = [size + len(part), zlib.crc32(part, checksum)]

    def take(self, name: str) -> None:
        """Register a file that other code wrote."""
        size = (self.folder / name).stat().st_size
        self.known[name] = [size, self._checksum(name, size) or 0]

    def remove(self, name: str) -> None:
        """Delete a file, if it exists."""
        (self.folder / name).unlink(missing_ok=True)
        self.known.pop(name, None)

    def read(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The records of a file, none if it does not exist; raise ValueError if it is damaged."""
        if not self.size(name):
            return np.empty(0, dtype)
        path = self.folder / name
        records = np.fromfile(path, dtype)
        if [records.nbytes, zlib.crc32(records.data)] != self.known[name]:
            raise _damaged(path)
        return records

    def mapped(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """As :meth:`read`, but memory-mapped; the checksum takes one pass over the file."""
        size = self.size(name)
        if not size:  # an empty file cannot be mapped
            return np.empty(0, dtype)
        self.check(name)
        return np.memmap(self.folder / name, dtype, "r", shape=(size // dtype.itemsize,))

    def check(self, name: str) -> None:
        """Raise ValueError unless a file starts with the bytes that were appended."""
        try:
            checksum = self._checksum(name, self.size(name))
        except FileNotFoundError:
            checksum = None
        if checksum != self.known[name][1]:
            raise _damaged(self.folder / name)

    def _checksum(self, name: str, left: int) -> int | None:
        """Checksum of the first bytes, as many as ``left``; None if the file is shorter."""
        checksum = 0
        with (self.folder / name).open("rb") as file:
            while left and (part := file.read(min(left, _AT_ONCE))):
                left, checksum = left - len(part), zlib.crc32(part, checksum)
        return None if left else checksum


def _damaged(path: Path) -> ValueError:
    return unreadable(
        path,
        "is damaged",
        "it is not what was written to it",
        "check the disk, and make the same call again, which begins anew",
    )


_NAME, _DRAFT = "journal.json", "journal.new"
_log = logging.getLogger("mfrank")

_SECONDS = 30.0
"""Minimum time between two notes."""
_SHARE = 10
"""A note may take at most the time since the previous one divided by this."""


class Journal:
    """The journal of a folder; it restores the files to the state of its last note.

    Parameters
    ----------
    place : Path
        A folder that contains only files. It is emptied if it has no note of this origin or, with a
        warning, if a file is damaged.
    origin : mapping
        What the work is made from, as JSON.

    Attributes
    ----------
    done : Counter
        How often each stage was advanced.
    facts : dict
        Further facts in the note, as JSON.
    files : CheckedFiles
        The folder's files; only this object appends to them.
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
        """Whether a folder has a note of this origin, and all files that the note describes."""
        return bool(_noted(place, origin))

    def advance(
        self,
        stage: str,
        gone: Path | None = None,
        *,
        save: Callable[[], None] = lambda: None,
        last: bool = False,
    ) -> None:
        """Count a step of a stage; write a note if one is due.

        Parameters
        ----------
        stage : str
        gone : Path, optional
            A file that is no longer needed. If the last note describes it, it is removed after the
            next note.
        save : function, optional
            Writes state that is only in memory; called before a note.
        last : bool
            Call ``save`` even if no note is due, because later stages need what it writes.
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
        """Flush all appended parts to the disk, then write the note."""
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
        replace(draft, self._place / _NAME)
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

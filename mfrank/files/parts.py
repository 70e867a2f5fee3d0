"""A folder of files that are written one by one, by a run that may be killed and resumed.

    <folder>/_manifest.json    what the files are made from, written first
    <folder>/part-00000.csv    complete or absent
    <folder>/_SUCCESS          empty, written last: all files are complete

Readers of such folders (pyarrow, pandas, Spark) ignore names that begin with _ or a dot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mfrank._system import sync
from mfrank.errors import InputValueError
from mfrank.files.atomic import replacing, wanting_room
from mfrank.files.locks import LOCK, locked
from mfrank.files.manifest import Format, dump_json, parse_json

COMPLETE = "_SUCCESS"
"""Name of the file that marks the folder as complete."""

_MANIFEST = "_manifest.json"
_DRAFT = re.compile(r"\.[0-9a-f]{16}\.(.*)")  # of a file that is being written, or of a killed run
_DIGEST = re.compile(r"[0-9a-f]{64}")

Origin = Mapping[str, Any]
"""What the files are made from: JSON values by name, or the SHA-256 of a long value."""


@contextmanager
def writing_parts(
    folder: Path, origin: Origin, format: Format, names: Sequence[str]
) -> Iterator[list[str]]:
    """Yield the names of the missing files, which the block writes; then mark the folder complete.

    The block writes each file by :func:`mfrank.files.atomic.replacing`, so every file in the folder
    is complete. If the block fails before the first file, the folder can be reused with another
    origin.

    Parameters
    ----------
    folder : Path
        Missing, empty, or begun before from the same origin.
    origin : mapping
    format : Format
        Format of the folder.
    names : sequence of str
        All files.

    Raises
    ------
    ValueError
        As :func:`check_takes_parts`.
    OSError
        If writing fails; complete files stay.
    """
    check_takes_parts(folder, origin, format, names)
    folder.mkdir(parents=True, exist_ok=True)
    sync(folder.parent)
    with locked(folder), wanting_room(folder):
        check_takes_parts(folder, origin, format, names)  # another run may have begun meanwhile
        manifest = folder / _MANIFEST
        if not manifest.exists():
            fields = {"format": format.name, "version": format.version, "origin": origin}
            with replacing(manifest) as draft:
                draft.write_text(dump_json(fields), encoding="utf-8")
        try:
            yield [name for name in names if not (folder / name).exists()]
        except BaseException:
            if not any((folder / name).exists() for name in names):
                manifest.unlink()
            raise
        sync(folder)
        (folder / COMPLETE).touch()
        sync(folder)


def check_takes_parts(folder: Path, origin: Origin, format: Format, names: Sequence[str]) -> None:
    """Raise unless files of this origin can be written to the folder.

    Raises
    ------
    ValueError
        If the folder is a file, holds anything else, or was begun with another origin.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputValueError(
            f"cannot write to {folder}: it is a file", "pass a folder", place=folder
        )
    has_manifest = (folder / _MANIFEST).exists()
    if has_manifest:
        _check_origin(folder, origin, format)
    own = {LOCK, _MANIFEST, COMPLETE, *(names if has_manifest else ())}
    foreign = sorted(entry.name for entry in folder.iterdir() if _name_of(entry) not in own)
    if foreign:
        raise InputValueError(
            f"cannot write to {folder}: it holds other files, such as {foreign[0]!r}",
            "pass a new or an empty folder",
            place=folder,
        )


def _name_of(entry: Path) -> str:
    """The name of the entry; for a draft, the name of the file that it would become."""
    draft = _DRAFT.fullmatch(entry.name)
    return draft[1] if draft else entry.name


def _check_origin(folder: Path, origin: Origin, format: Format) -> None:
    where = folder / _MANIFEST
    fields = parse_json(where.read_bytes(), where)
    if not isinstance(fields, dict):
        raise InputValueError(f"{where} is damaged:", "pass another folder", place=where)
    format.check(fields.get("format"), fields.get("version"), where)
    before = fields.get("origin")
    if not isinstance(before, dict):
        raise InputValueError(f"{where} is damaged:", "pass another folder", place=where)
    for name in {**origin, **before}:
        was, now = before.get(name), origin.get(name)
        if was != now:
            raise InputValueError(
                f"{folder} was begun with {_difference(name, was, now)}",
                "resume it as it was begun, or pass another folder",
                place=folder,
            )


def _difference(name: str, before: Any, now: Any) -> str:
    if any(isinstance(each, str) and _DIGEST.fullmatch(each) for each in (before, now)):
        return f"another {name}"
    if before is None or now is None:
        return f"{name}={before!r}, now left out" if now is None else f"no {name}, now {now!r}"
    return f"{name}={before!r}, not {now!r}"

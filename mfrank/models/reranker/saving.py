"""A folder with both stages of a Reranker, replaced atomically.

    <folder>/second/            trees, features and options, written by mfrank.files.folder
    <folder>/first-<16 hex digits>/   the first stage, written by its own ``save``, and a mark

The second stage names the folder of its first. A save writes a new first stage, then the second,
which atomically replaces the old one. An interrupted save leaves the old pair and an unreferenced
first stage. The next save removes this if it has the mark of a save (mfrank.files.folder); folders
without the mark are never removed. A lock on ``<folder>/.lock`` serializes concurrent saves.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.errors import InputValueError, unreadable
from mfrank.files import (
    LOCK,
    MANIFEST,
    Contents,
    Format,
    Origin,
    check_keys,
    is_folder,
    locked,
    metadata_of,
    read,
    refuse_other,
    write,
)
from mfrank.files import folder as marks
from mfrank.models.loading import loaded
from mfrank.models.reranker.features import GivenFeatures
from mfrank.models.reranker.pairs import CandidateRecall
from mfrank.retrieval import Recommender
from mfrank.store import OwnClasses

FORMAT = Format("mfrank.reranker", version=1)

_SECOND = "second"
_FIRST = re.compile(r"first-[0-9a-f]{16}")
_FOR_CATBOOST = {"cbm"}
_GIVEN = {"users": "user_features", "items": "item_features"}


class SecondStage(NamedTuple):
    """The saved second stage: CatBoost's model file as bytes, features, statistics.

    ``origin`` covers both stages (:mod:`mfrank.files.folder`); a save adds to it.
    """

    cbm: NDArray[np.uint8]
    given: GivenFeatures
    found: CandidateRecall
    origin: Origin


def save(
    folder: Path,
    model: Recommender,
    options: Mapping[str, Any],
    second: SecondStage,
    *,
    with_seen: bool,
    overwrite: bool,
) -> Path:
    """Write both stages; ValueError if the folder contains something else, or has changed."""
    _refuse_foreign(folder)
    arrays = {"cbm": second.cbm}
    for side, name in _GIVEN.items():
        if (table := getattr(second.given, side)) is not None:
            arrays[name] = table
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        _sweep(folder)
        first = folder / f"first-{secrets.token_hex(8)}"
        metadata = {"first": first.name, "options": dict(options), "found": second.found._asdict()}
        try:
            marks.make(first, [MANIFEST, LOCK])
            model.save(first, with_seen=with_seen)
            contents = Contents(arrays, metadata)
            write(folder / _SECOND, contents, FORMAT, second.origin, overwrite)
        finally:
            _sweep(folder)
    return folder


def load(
    folder: Path, own: OwnClasses, *, mmap: bool, verify: bool
) -> tuple[Recommender, dict[str, Any], SecondStage]:
    """Return first stage, options and second stage; errors as in :meth:`mfrank.FactorStore.load`.

    The checksum of the trees is always verified, because CatBoost may crash on damaged bytes.
    """
    if folder.is_dir() and not (folder / _SECOND).is_dir():
        refuse_other(folder, FORMAT)
        raise InputValueError(
            f"{folder} does not hold {FORMAT.name!r}: no {_SECOND!r} in it", place=folder
        )
    if folder.is_file():
        raise InputValueError(f"{folder} is a file", "pass the folder that was saved", place=folder)
    while True:
        contents = read(
            folder / _SECOND, FORMAT, mmap=mmap, verify=verify, always_verify=_FOR_CATBOOST
        )
        first = _first(contents.metadata, folder)
        try:
            model = loaded(folder / first, own, mmap=mmap, verify=verify)
        except (FileNotFoundError, ValueError) as error:
            if _named(folder) != first:
                continue  # a concurrent save replaced the first stage
            if isinstance(error, FileNotFoundError):
                raise unreadable(folder, "is damaged", f"{first} is missing") from None
            raise
        return model, *_second(contents, model, folder)


def _first(metadata: Mapping[str, Any], folder: Path) -> str:
    """Name of the first stage's folder, from the second stage's metadata."""
    check_keys(f"metadata of {folder}", metadata, {"first", "options", "found"})
    first = metadata["first"]
    if not (isinstance(first, str) and _FIRST.fullmatch(first)):
        raise unreadable(folder, "is damaged", f"it names {first!r} as its first stage")
    return first


def _second(
    contents: Contents, model: Recommender, folder: Path
) -> tuple[dict[str, Any], SecondStage]:
    """Options and second stage, checked against the first stage."""
    arrays, metadata = contents.arrays, contents.metadata
    check_keys(folder, arrays, {"cbm"}, _GIVEN.values())
    options, found = metadata["options"], metadata["found"]
    try:
        if not (isinstance(options, dict) and isinstance(found, dict)):
            raise InputValueError("options and found must be JSON objects")
        if arrays["cbm"].dtype != np.uint8 or arrays["cbm"].ndim != 1:
            raise InputValueError("`trees` must be a 1-D array of uint8")
        tables = arrays.get("user_features"), arrays.get("item_features")
        given = GivenFeatures.of(*tables, store=model.store)
        return options, SecondStage(arrays["cbm"], given, CandidateRecall(**found), contents.origin)
    except (TypeError, ValueError) as error:
        raise unreadable(folder, "is damaged", error) from error


def _named(folder: Path) -> str | None:
    """Name of the first stage that the second refers to; None if there is no second yet."""
    metadata = metadata_of(folder / _SECOND, FORMAT)
    return None if metadata is None else _first(metadata, folder)


def _sweep(folder: Path) -> None:
    """Remove all first stages (if marked) that the second does not refer to."""
    kept = _named(folder)
    for entry in folder.iterdir():
        if _FIRST.fullmatch(entry.name) and entry.name != kept:
            marks.remove(entry)


def _refuse_foreign(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputValueError(
            f"cannot save to {folder}: it is a file", "name a folder", place=folder
        )
    is_saved = _named(folder) is not None
    foreign = [entry.name for entry in folder.iterdir() if not _may_stay(entry, is_saved)]
    if foreign:
        raise InputValueError(
            f"cannot save to {folder}: it holds other files, such as {min(foreign)!r}",
            "name a new or an empty folder",
        )


def _may_stay(entry: Path, is_saved: bool) -> bool:
    """Whether the entry belongs to a saved Reranker or is left from an interrupted save."""
    if _FIRST.fullmatch(entry.name):
        return is_saved or marks.is_own(entry)
    return entry.name == LOCK or (entry.name == _SECOND and is_folder(entry))

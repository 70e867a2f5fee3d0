"""A folder for both stages, replaced as a whole or not at all.

    <folder>/second/            trees, features and options, written by mfrank.store.folder
    <folder>/first-<16 hex digits>/   the first stage, as it saves itself

The second stage names its first. A save writes a new first stage, then the second, which replaces
the old one at once; a save that is stopped earlier leaves the old pair, and a first stage that
nobody names, which the next save removes.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.models import load as load_model
from mfrank.reranking.given import GivenFeatures
from mfrank.reranking.held_out import Found
from mfrank.retrieval.recommender import Recommender
from mfrank.store.folder import read, write
from mfrank.store.manifest import Contents, Format, check_keys

__all__ = ["FORMAT", "SecondStage", "load", "save"]

FORMAT = Format("mfrank.reranker", version=1)

_SECOND = "second"
_FIRST = re.compile(r"first-[0-9a-f]{16}")
_GIVEN = {"users": "user_features", "items": "item_features"}


class SecondStage(NamedTuple):
    """What is kept of a fit."""

    cbm: NDArray[np.uint8]
    given: GivenFeatures
    found: Found


def save(
    folder: Path,
    model: Recommender,
    options: Mapping[str, Any],
    second: SecondStage,
    *,
    with_seen: bool,
) -> Path:
    """Write both stages; ValueError where the folder holds anything else."""
    _refuse_foreign(folder)
    arrays = {"cbm": second.cbm}
    for side, name in _GIVEN.items():
        if (table := getattr(second.given, side)) is not None:
            arrays[name] = table
    first = f"first-{secrets.token_hex(8)}"
    model.save(folder / first, with_seen=with_seen)
    metadata = {"first": first, "options": dict(options), "found": second.found._asdict()}
    write(folder / _SECOND, Contents(arrays, metadata), FORMAT)
    for entry in folder.iterdir():
        if _FIRST.fullmatch(entry.name) and entry.name != first:
            shutil.rmtree(entry, ignore_errors=True)
    return folder


def load(
    folder: Path, *, mmap: bool, verify: bool
) -> tuple[Recommender, dict[str, Any], SecondStage]:
    """First stage, options, second stage; FileNotFoundError or ValueError as the stores' own."""
    if folder.is_dir() and not (folder / _SECOND).is_dir():
        raise ValueError(f"{folder} does not hold {FORMAT.name!r}: no {_SECOND!r} in it")
    contents = read(folder / _SECOND, FORMAT, mmap=mmap, verify=verify)
    arrays, metadata = contents.arrays, contents.metadata
    check_keys(f"metadata of {folder}", metadata, {"first", "options", "found"})
    check_keys(folder, arrays, {"cbm"}, _GIVEN.values())
    if not (isinstance(metadata["first"], str) and _FIRST.fullmatch(metadata["first"])):
        raise ValueError(f"{folder} is damaged: it names {metadata['first']!r} as its first stage")
    model = load_model(folder / metadata["first"], mmap=mmap, verify=verify)
    try:
        tables = arrays.get("user_features"), arrays.get("item_features")
        given = GivenFeatures.of(*tables, store=model.store)
        second = SecondStage(arrays["cbm"], given, Found(**metadata["found"]))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{folder} is damaged: {error}") from error
    return model, dict(metadata["options"]), second


def _refuse_foreign(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"cannot save to {folder}: it is a file, name a folder")
    foreign = sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.name != _SECOND and not _FIRST.fullmatch(entry.name)
    )
    if foreign:
        raise ValueError(
            f"cannot save to {folder}: it holds other files, such as {foreign[0]!r}; name a new or "
            "an empty folder"
        )

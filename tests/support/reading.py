"""The doors by which text becomes interactions: each reader, whole, in portions, piped."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mfrank
from mfrank.data import delimited, ingest

Door = Callable[..., mfrank.Interactions]


def _without_pandas(read: Door) -> Door:
    def door(path: Path, **how: Any) -> mfrank.Interactions:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(delimited, "find_spec", lambda name: None)
            return read(path, **how)

    return door


def whole(path: Path, **how: Any) -> mfrank.Interactions:
    """Read the file into memory."""
    return mfrank.Interactions.from_file(path, **how)


def portions(path: Path, **how: Any) -> mfrank.Interactions:
    """Read the file two rows at a time, into a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "_ROWS_AT_ONCE", 2)
        return mfrank.Interactions.ingest([path], path.parent / "ingested", **how)


def piped(path: Path, **how: Any) -> mfrank.Interactions:
    """Read its bytes from the standard input."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        return mfrank.Interactions.from_file("-", **how)


DOORS: dict[str, Door] = {
    "whole": whole,
    "portions": portions,
    "piped": piped,
    "whole, no pandas": _without_pandas(whole),
    "portions, no pandas": _without_pandas(portions),
    "piped, no pandas": _without_pandas(piped),
}


def triples(data: mfrank.Interactions) -> list[tuple[Any, ...]]:
    """User, item and value of each entry, and the time if there are any."""
    columns = [
        data.user_ids.raw(data.entry_users).tolist(),
        data.item_ids.raw(data.user_items.indices).tolist(),
        data.user_items.data.tolist(),
    ]
    if data.timestamps is not None:
        columns.append(data.timestamps.tolist())
    return sorted(zip(*columns, strict=True), key=repr)

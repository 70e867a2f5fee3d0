"""The doors by which text becomes interactions: each reader, whole, in portions, piped."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.data import distinct, fields, ingest, labels, merging, text_blocks, text_files

Door = Callable[..., mfrank.Interactions]


def in_numpy(patch: pytest.MonkeyPatch) -> None:
    """Read as where the extension is not built."""
    for module in (distinct, fields, labels, merging, text_blocks):
        patch.setattr(module, "_is_native", False)


def one_by_one(patch: pytest.MonkeyPatch) -> None:
    """Read each line by the csv module and each field by Python, as both are defined."""
    in_numpy(patch)
    lines_of = text_blocks._Lines.of

    def all_odd(raw: bytes, codes: Any) -> Any:
        lines = lines_of(raw, codes)
        lines.odd[:] = True
        return lines

    def whole_numbers(self: fields.Fields) -> Any:
        found = [fields.whole_number(self.text(row)) for row in range(len(self.begins))]
        return np.array(found) if all(isinstance(each, int) for each in found) else None

    def none(self: fields.Fields) -> Any:
        return np.zeros(len(self.begins)), np.zeros(len(self.begins), dtype=bool)

    patch.setattr(text_blocks._Lines, "of", all_odd)
    patch.setattr(fields.Fields, "whole_numbers", whole_numbers)
    patch.setattr(fields.Fields, "_decimals", none)
    patch.setattr(
        fields.Fields, "texts", lambda self: [self.text(row) for row in range(len(self.begins))]
    )


def _by(way: Callable[[pytest.MonkeyPatch], None], read: Door) -> Door:
    def door(path: Path, **how: Any) -> mfrank.Interactions:
        with pytest.MonkeyPatch.context() as patch:
            way(patch)
            return read(path, **how)

    return door


def _in_small_blocks(read: Door) -> Door:
    def door(path: Path, **how: Any) -> mfrank.Interactions:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_files, "_BLOCK", 9 + path.stat().st_size // 500)
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
    "whole, in numpy": _by(in_numpy, whole),
    "whole, one by one": _by(one_by_one, whole),
    "portions, one by one": _by(one_by_one, portions),
    "whole, in small blocks": _in_small_blocks(whole),
    "portions, in small blocks": _in_small_blocks(portions),
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

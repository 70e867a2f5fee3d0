"""The kind of a table file, by its suffix."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from mfrank.files.regular import path_of

__all__ = ["USUAL", "is_stream", "is_text", "kind_of"]

USUAL: Mapping[str, str | None] = {
    ".csv": ",",
    ".tsv": "\t",
    ".txt": None,
    ".dat": None,
    ".data": None,
}
"""Suffix of a text file -> what usually separates its fields."""


def kind_of(path: str | os.PathLike[str]) -> str:
    """The suffix that determines the format, without .gz."""
    suffixes = [suffix.lower() for suffix in path_of(path).suffixes]
    if suffixes[-1:] == [".gz"] and suffixes[-2:-1] != [".parquet"]:
        suffixes.pop()
    kind = suffixes[-1] if suffixes else ""
    if kind not in (*USUAL, ".parquet"):
        known = ", ".join(USUAL)
        remedy = "; mfrank.movielens reads MovieLens as distributed" * (kind == ".zip")
        raise ValueError(f"{path}: expected a suffix {known} (also with .gz) or .parquet{remedy}")
    return kind


def is_text(path: str | os.PathLike[str]) -> bool:
    """Whether a file of this name is a text file, in which ids have no type."""
    return is_stream(path_of(path)) or kind_of(path) in USUAL


def is_stream(file: Path) -> bool:
    """Whether it is the standard input or a pipe, which can be read only once.

    Not a device: reading /dev/zero would never end.
    """
    return str(file) == "-" or file.is_fifo()

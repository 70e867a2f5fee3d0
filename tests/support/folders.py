"""Folders of a format of the tests' own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from mfrank.files import Contents, Format

FORMAT = Format("test.things", 1)


def contents(value: int, size: int = 5) -> Contents:
    """Arrays and metadata that are all of one value, so that a mixture shows."""
    arrays = {
        "a": np.full((size, 3), value, dtype=np.float32),
        "b.c": np.full(size, value),
        "empty": np.empty((0, 4)),
        "scalar": np.array(value),
    }
    return Contents(arrays, {"value": value})


def value_of(got: Contents) -> int:
    """The one value that everything holds."""
    values = {got.metadata["value"], *(x for a in got.arrays.values() for x in a.ravel().tolist())}
    assert len(values) == 1
    assert got.arrays["empty"].shape == (0, 4)
    return int(values.pop())


def is_clean(folder: Path) -> bool:
    """Only the manifest, the lock and one generation with exactly its arrays are there."""
    names = {entry.name for entry in folder.iterdir()}
    data = json.loads((folder / "manifest.json").read_text())["data"]
    files = {entry.name for entry in (folder / data).iterdir()}
    wanted = {".files", "a.npy", "b.c.npy", "empty.npy", "scalar.npy"}
    return names == {"manifest.json", ".lock", data} and files == wanted

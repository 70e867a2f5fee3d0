"""What the benches are run on: public data sets, and synthetic ones drawn anew each time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

import mfrank
from mfrank.data.datasets import from_npz, published_split
from mfrank.data.interactions import Interactions
from mfrank.data.judged import Judged
from mfrank.data.splits import Split

SYNTHETIC = {"ml-20m-shape": (138_000, 27_000, 10_000_000)}
"""Users, items and entries: MovieLens-20M's users and items, half its ratings."""


def load(name: str) -> Split:
    """A data set by its published split."""
    return published_split(data_folder(name))


def interactions(name: str) -> Interactions:
    """A data set to fit: its training part, or all of it where no split is published."""
    if name in SYNTHETIC:
        return mfrank.synthetic(*SYNTHETIC[name], random_state=0)
    folder = data_folder(name)
    with np.load(folder / "interactions.npz") as arrays:
        split = "split" in arrays
    return published_split(folder).train if split else from_npz(folder)


def judged(name: str) -> tuple[Judged, Judged]:
    """Training and test part of a data set for learning to rank."""
    with np.load(data_folder(name) / "ltr.npz") as arrays:
        x, label, query, split = (arrays[key] for key in ("X", "label", "qid", "split"))
    test = split == split.max()
    train, rest = (Judged(x[part], label[part], query[part]) for part in (~test, test))
    return train, rest


def data_folder(name: str) -> Path:
    """A data set's folder, in MFRANK_DATA or ../shared/data."""
    default = Path(__file__).parents[3] / "shared" / "data"
    folder = Path(os.environ.get("MFRANK_DATA", default)) / name
    if not folder.is_dir():
        sys.exit(f"{folder} is not there: set MFRANK_DATA to the folder of the data sets")
    return folder

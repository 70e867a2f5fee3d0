"""Data sets with features, and a part of one side held out whole."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness.subjects import data_folder
from numpy.typing import NDArray

__all__ = ["SUBJECTS", "Cold", "subject", "weighted"]

SUBJECTS = {
    "items": ("citeulike-a", "ml-1m-seq", "ml-100k"),
    "users": ("ml-100k", "ml-1m-seq", "lastfm-2k"),
}
"""The side that is held out -> data sets that have features of it."""

_BANDS = (18, 25, 35, 45, 50, 56)
"""Where MovieLens-1M's age groups begin."""

_ENDS = ("src", "dst")
"""Of a pair of friends; everybody is also a feature of his own, which his friends share."""


@dataclass(frozen=True, slots=True, eq=False)
class Cold:
    """Likes to fit to, and rows of one side that have none there.

    Attributes
    ----------
    side : {"items", "users"}
    train, truth : csr_array, shape (n_users, n_items)
        What a fit sees, and what is held out of it.
    features : csr_array
        A row for each of the side, 0 and 1.
    rows : int64
        Those of the side that are held out.
    """

    side: str
    train: sp.csr_array
    truth: sp.csr_array
    features: sp.csr_array
    rows: NDArray[np.int64]

    @property
    def asked(self) -> sp.csr_array:
        """What is to be ranked: held-out items for all users, or all items for held-out users."""
        return self.truth[:, self.rows] if self.side == "items" else self.truth[self.rows]

    def again(self, part: float, seed: int) -> Cold:
        """The same problem within what a fit sees: to choose hyper-parameters by."""
        count = np.asarray((self.train > 0).sum(axis=0 if self.side == "items" else 1)).ravel()
        return _held_out(
            self.side, self.train, self.features, np.flatnonzero(count > 0), part, seed
        )


def subject(name: str, side: str, part: float, seed: int) -> Cold:
    """A data set with a part of its items or users held out."""
    folder = data_folder(name)
    with np.load(folder / "interactions.npz") as arrays:
        users, items = arrays["user"], arrays["item"]
    likes = sp.csr_array((np.ones(len(users), np.float32), (users, items)))
    likes.data[:] = 1
    features = _features(name, side, likes.shape[side == "items"])
    known = np.flatnonzero(np.diff(features.indptr) > 0)
    return _held_out(side, likes, features, known, part, seed)


def weighted(features: sp.csr_array, cold: NDArray[np.int64]) -> sp.csr_array:
    """Features times their inverse frequency among the rows to fit to, rows of length 1."""
    fitted = np.ones(features.shape[0])
    fitted[cold] = 0
    frequency = np.log((1 + fitted.sum()) / (1 + fitted @ (features != 0)))
    scaled = sp.csr_array(features.multiply(frequency[None, :]))
    lengths = np.sqrt(np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ scaled)


def _held_out(
    side: str,
    likes: sp.csr_array,
    features: sp.csr_array,
    among: NDArray[np.int64],
    part: float,
    seed: int,
) -> Cold:
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(among, int(part * len(among)), replace=False))
    kept = np.ones(features.shape[0], np.float32)
    kept[rows] = 0
    mask = sp.diags_array(kept)
    train = sp.csr_array(likes @ mask if side == "items" else mask @ likes)
    train.eliminate_zeros()
    return Cold(side, train, sp.csr_array(likes - train), features, rows)


def _features(name: str, side: str, n_rows: int) -> sp.csr_array:
    folder = data_folder(name)
    if name == "citeulike-a":
        with np.load(folder / "item_tags.npz") as arrays:
            return _indicators(arrays["item"], arrays["tag"], n_rows)
    if name == "lastfm-2k":
        with np.load(folder / "trust.npz") as arrays:
            everybody = np.arange(n_rows)
            return _indicators(*(np.append(arrays[end], everybody) for end in _ENDS), n_rows)
    with (folder / f"{side}.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    columns = (
        [*zip(*map(_of_item, table), strict=True)]
        if side == "items"
        else [*zip(*map(_of_user, table), strict=True)]
    )
    rows = np.array([int(row[side[:-1]]) for row in table])
    return _stacked([_one_hot(rows, column, n_rows) for column in columns])


def _of_item(row: dict[str, str]) -> tuple[list[str], list[str]]:
    return row["genres"].split("|"), [row["year"]]


def _of_user(row: dict[str, str]) -> tuple[list[str], ...]:
    band = sum(int(row["age"]) >= begin for begin in _BANDS)
    return [row["gender"]], [str(band)], [row["occupation"]]


def _one_hot(rows: NDArray[np.int64], values: Sequence[list[str]], n_rows: int) -> sp.csr_array:
    names = {name: i for i, name in enumerate(sorted({one for each in values for one in each}))}
    pairs = [(row, names[one]) for row, each in zip(rows, values, strict=True) for one in each]
    return _indicators(*np.array(pairs).T, n_rows)


def _indicators(rows: Any, columns: Any, n_rows: int) -> sp.csr_array:
    made = sp.csr_array((np.ones(len(rows)), (rows, columns)), (n_rows, int(max(columns)) + 1))
    made.data[:] = 1
    return made


def _stacked(parts: list[sp.csr_array]) -> sp.csr_array:
    return sp.csr_array(sp.hstack(parts, format="csr"))

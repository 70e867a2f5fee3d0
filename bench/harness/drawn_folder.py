"""Interactions of any size, drawn straight to a mapped folder: users and items by power laws."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.data import FolderWriter, Ids, interaction_folder
from mfrank.files import CheckedFiles

__all__ = ["drawn_to", "expected_degrees"]

_SEED, _USERS_AT_ONCE = 0, 1 << 14
_USER_TAIL, _ITEM_EXPONENT = 1.5, 0.7


def drawn_to(folder: Path, n_users: int, n_items: int, n_entries: int) -> None:
    """About so many entries of value 1; an item is drawn once for each user at most.

    Users' numbers of items have a Pareto tail of index 1.5; item i is as likely as
    (i + 1)^-0.7. Memory holds a block of users. On the disk it takes up to 32 bytes an entry while
    it works, and 16 in the end.
    """
    chances = _power(np.arange(1, n_items + 1)) - _power(np.arange(n_items))
    of_items = np.ceil(chances / _power(n_items) * n_entries).astype(np.int64)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as place:
        writer = FolderWriter(
            CheckedFiles(Path(place)), n_users, of_items, dtype=np.float32, timestamps=False
        )
        for begin in range(0, n_users, _USERS_AT_ONCE):
            size = min(_USERS_AT_ONCE, n_users - begin)
            writer.add(begin, _block(begin, size, n_items, n_entries / n_users), None)
        for _ in writer.sort_items():
            pass
        ids = Ids.numbered(n_users), Ids.numbered(n_items)
        interaction_folder.write_arrays(writer.arrays(), *ids, folder)


def expected_degrees(
    n_users: int, n_items: int, n_entries: int, most: int = 1_000_000
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Numbers of items of users, and of users of items, as many as there are or ``most``.

    They are those of even quantiles, and add up alike: repeated draws of an item leave fewer
    entries than were asked for, which are shared out again here.
    """
    quantile = (np.arange(min(n_users, most)) + 0.5) / min(n_users, most)
    of_users = np.clip((1 - quantile) ** (-1 / _USER_TAIL), None, n_items / 4)
    of_users *= n_entries / n_users / of_users.mean()
    ends = np.linspace(0, n_items, min(n_items, most) + 1)
    of_items = np.diff(ends ** (1 - _ITEM_EXPONENT)) / np.diff(ends)
    of_items = np.minimum(of_items * n_entries / of_items.mean() / n_items, n_users)
    return of_users, of_items


def _block(begin: int, size: int, n_items: int, mean: float) -> sp.csr_array:
    """Rows of some users, the same whatever was drawn before."""
    rng = np.random.default_rng([_SEED, begin])
    # The mean of a Pareto number from 1 on is index / (index - 1).
    wanted = (1 + rng.pareto(_USER_TAIL, size)) * mean * (_USER_TAIL - 1) / _USER_TAIL
    counts = np.clip(wanted.round(), 1, n_items // 4).astype(np.int64)
    users = np.repeat(np.arange(size), counts)
    drawn = rng.random(len(users)) * _power(n_items)
    items = np.minimum((drawn ** (1 / (1 - _ITEM_EXPONENT))).astype(np.int64), n_items - 1)
    cells = np.unique(users * n_items + items)
    indptr = np.searchsorted(cells, np.arange(size + 1) * n_items)
    columns = (cells % n_items).astype(np.int32)
    ones = np.ones(len(columns), np.float32)
    return sp.csr_array((ones, columns, indptr.astype(np.int32)), shape=(size, n_items))


def _power(x: NDArray[np.int64] | int) -> NDArray[np.float64]:
    """Integral of the items' likelihood from 0 to x, but for a factor."""
    return np.asarray(x, np.float64) ** (1 - _ITEM_EXPONENT)

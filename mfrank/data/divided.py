"""Interactions divided by blocks of users into parts, in memory or in folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.data import interaction_folder
from mfrank.data.folder_writer import FolderWriter, even_bounds
from mfrank.data.interactions import Interactions
from mfrank.files.atomic import working_beside
from mfrank.files.checked import CheckedFiles
from mfrank.files.regular import path_of
from mfrank.files.room import wanting_room

__all__ = ["PartOf", "blocks_of_users", "divided"]

PartOf = Callable[[int, int], NDArray[np.int8]]
"""The part of each entry of the users from one row to another; blocks are asked for in order."""

_ENTRIES_AT_ONCE = 1 << 22


def blocks_of_users(data: Interactions) -> Iterator[tuple[int, int]]:
    """Half-open ranges of users with about four million entries, or of one user."""
    yield from pairwise(even_bounds(data.counts.users, _ENTRIES_AT_ONCE).tolist())


def divided(
    data: Interactions,
    part_of: PartOf,
    names: Sequence[str],
    folder: str | os.PathLike[str] | None,
) -> list[Interactions]:
    """The parts of the interactions; all have their shape and ids.

    Parameters
    ----------
    data : Interactions
    part_of : function
        See :data:`PartOf`.
    names : sequence of str
        Names of the parts.
    folder : path or None
        Where a folder is written for each part, by its name, and then mapped: memory holds one
        block. None copies the parts to memory.

    Raises
    ------
    ValueError
        If a folder holds anything but interactions.
    OSError
        If writing fails.
    """
    if folder is None:
        parts = np.empty(data.nnz, np.int8)
        indptr = data.user_items.indptr
        for begin, end in blocks_of_users(data):
            parts[indptr[begin] : indptr[end]] = part_of(begin, end)
        return [data.take(parts == part) for part in range(len(names))]
    paths = [path_of(folder) / name for name in names]
    for path in paths:
        interaction_folder.check_takes(path)
    whole = path_of(folder)
    whole.mkdir(parents=True, exist_ok=True)
    with ExitStack() as places, wanting_room(whole):
        beside = [places.enter_context(working_beside(path.absolute())) for path in paths]
        writers = [_writer(data, place) for place in beside]
        for begin, end in blocks_of_users(data):
            _add(data, begin, end, part_of(begin, end), writers)
        for writer, path in zip(writers, paths, strict=True):
            for _ in writer.sort_items():
                pass
            interaction_folder.write_arrays(writer.arrays(), data.user_ids, data.item_ids, path)
    return [Interactions.open(path) for path in paths]


def _writer(data: Interactions, place: Path) -> FolderWriter:
    return FolderWriter(
        CheckedFiles(place),
        data.n_users,
        data.counts.items,
        dtype=data.user_items.dtype,
        timestamps=data.timestamps is not None,
        at_once=_ENTRIES_AT_ONCE,
    )


def _add(
    data: Interactions,
    begin: int,
    end: int,
    parts: NDArray[np.int8],
    writers: Sequence[FolderWriter],
) -> None:
    """Append a block of users to the writer of each part."""
    rows = data.user_items
    block = slice(int(rows.indptr[begin]), int(rows.indptr[end]))
    offsets = rows.indptr[begin : end + 1] - rows.indptr[begin]
    columns, values = rows.indices[block], rows.data[block]
    times = None if data.timestamps is None else data.timestamps[block]
    for part, writer in enumerate(writers):
        kept = np.flatnonzero(parts == part)
        own = sp.csr_array(
            (values[kept], columns[kept], np.searchsorted(kept, offsets)),
            (end - begin, data.n_items),
        )
        writer.add(begin, own, None if times is None else times[kept])

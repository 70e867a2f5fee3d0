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
from mfrank.data.interaction_folder import FolderWriter, even_bounds
from mfrank.data.interactions import Interactions
from mfrank.files import CheckedFiles, locked, path_of, wanting_room, working_beside

PartOf = Callable[[int, int], NDArray[np.int8]]
"""The part of each entry of the users from one row to another; blocks are asked for in order."""

NEVER = np.iinfo(np.int64).max
"""A time after all others."""

_ENTRIES_AT_ONCE = 1 << 22


def blocks_of_users(data: Interactions) -> Iterator[tuple[int, int]]:
    """Half-open ranges of users with about four million entries, or of one user."""
    yield from pairwise(even_bounds(data.counts.users, _ENTRIES_AT_ONCE).tolist())


def divided(
    data: Interactions,
    part_of: PartOf,
    names: Sequence[str],
    folder: str | os.PathLike[str] | None,
    seen_part_of: PartOf,
) -> list[Interactions]:
    """The parts of the interactions; all have their shape and ids.

    Parameters
    ----------
    data : Interactions
    part_of, seen_part_of : function
        See :data:`PartOf`; the latter is of ``data.seen_only``.
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
        found = _in_memory(data, part_of, len(names))
        if data.seen_only is None:
            return found
        seen_only = _in_memory(data.seen_only, seen_part_of, len(names))
        parts = zip(found, seen_only, strict=True)
        return [part._with_cells(part.cells._replace(seen_only=only.cells)) for part, only in parts]
    paths = [path_of(folder, "folder") / name for name in names]
    for path in paths:
        interaction_folder.check_takes(path)
    whole = path_of(folder, "folder")
    whole.mkdir(parents=True, exist_ok=True)
    with ExitStack() as places, wanting_room(whole):
        beside = [places.enter_context(working_beside(path.absolute())) for path in paths]
        writers = [_writer(data, place) for place in beside]
        for begin, end in blocks_of_users(data):
            _add(data, begin, end, part_of(begin, end), [writer.add for writer in writers])
        if (only := data.seen_only) is not None:
            for begin, end in blocks_of_users(only):
                put = [writer.add_seen_only for writer in writers]
                _add(only, begin, end, seen_part_of(begin, end), put)
        for writer in writers:
            for _ in writer.sort_items():
                pass
        ids, known = (data.user_ids, data.item_ids), (data.cells.values_from, *data._known)
        mark = interaction_folder.mark_of_split(names)
        paths[0].mkdir(exist_ok=True)
        with locked(paths[0]):  # else the parts of two splits at once would be mixed
            return [
                Interactions._of_folder(
                    interaction_folder.write_arrays(
                        writer.arrays(), *(*ids, path, *known), split=mark
                    )
                )
                for writer, path in zip(writers, paths, strict=True)
            ]


def seen_parts(
    data: Interactions, first: NDArray[np.int8] | int, *later: NDArray[np.int64]
) -> PartOf:
    """The parts of cells that are only seen: a user's ``first``, or a later one by their times.

    Parameters
    ----------
    data : Interactions
    first : int8, shape (n_users,), or int
        The part of what a user saw at first.
    later : int64, shape (n_users,) each
        The times at which each user's next parts begin, ascending.
    """
    firsts = np.broadcast_to(np.int8(first), data.n_users)

    def part_of(begin: int, end: int) -> NDArray[np.int8]:
        only = data.seen_only
        assert only is not None
        offsets = only.user_items.indptr[begin : end + 1]
        users = np.repeat(np.arange(begin, end), np.diff(offsets))
        parts = firsts[users]
        for since in later:
            assert only.timestamps is not None
            parts += only.timestamps[offsets[0] : offsets[-1]] >= since[users]
        return parts

    return part_of


def _in_memory(data: Interactions, part_of: PartOf, n_parts: int) -> list[Interactions]:
    parts = np.empty(data.nnz, np.int8)
    indptr = data.user_items.indptr
    for begin, end in blocks_of_users(data):
        parts[indptr[begin] : indptr[end]] = part_of(begin, end)
    return [data.take(parts == part) for part in range(n_parts)]


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
    writers: Sequence[Callable[[int, sp.csr_array, NDArray[np.int64] | None], None]],
) -> None:
    """Give each part of a block of users to its writer."""
    rows = data.user_items
    block = slice(int(rows.indptr[begin]), int(rows.indptr[end]))
    offsets = rows.indptr[begin : end + 1] - rows.indptr[begin]
    columns, values = rows.indices[block], rows.data[block]
    times = None if data.timestamps is None else data.timestamps[block]
    for part, write in enumerate(writers):
        kept = np.flatnonzero(parts == part)
        own = sp.csr_array(
            (values[kept], columns[kept], np.searchsorted(kept, offsets)),
            (end - begin, data.n_items),
        )
        write(begin, own, None if times is None else times[kept])

"""Interactions as a folder of memory-mapped arrays: data larger than memory.

The matrix is stored by users and by items, as a fit reads it, so no transpose is needed. Pages of
mapped arrays are read on access and may be evicted again.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import all_finite, check_indptr, is_number, read_only, read_only_rows, shown
from mfrank.data import cells
from mfrank.data.cells import Cells, Counts, SummedCells, ValuesFrom
from mfrank.data.ids import Ids, stored_ids
from mfrank.data.notes import noted, noted_rows
from mfrank.data.on_disk import GrowingArray, RowsOnDisk, Spill
from mfrank.data.row_choice import ReadWeights, ReadWhere, checked_event_weights, checked_where
from mfrank.errors import InputValueError, Notice, unreadable
from mfrank.files import CheckedFiles, Contents, Format, check_keys, locked
from mfrank.files import folder as folders

if TYPE_CHECKING:
    from mfrank.data.interactions import Interactions

_log = logging.getLogger("mfrank")

FORMAT = Format(
    "mfrank interactions",
    2,
    reads=(1, 2),
    otherwise="pass a folder of `to_folder` or of an ingest; `Interactions.from_file` reads tables",
)
"""Version 2 may have cells that are only seen, and the largest entries of sums."""

_MATRICES = ("user_items", "item_users")
_ARRAYS = ("indptr", "indices", "values")


class Mapped(NamedTuple):
    """Interactions of a folder.

    Attributes
    ----------
    found : Cells
        The matrix and the data of its cells.
    user_ids, item_ids : Ids
    known : dict
        Stored results that would take a pass over the entries: ``item_users`` and ``counts``.
    origin : dict
        See :mod:`mfrank.files.folder`.
    threshold : float or None
        Threshold of the values.
    where, event_weights : mapping
        The rows that were read; see :class:`mfrank.Interactions`.
    notes : list of str
        See :mod:`mfrank.data.notes`.
    """

    found: Cells
    user_ids: Ids
    item_ids: Ids
    known: dict[str, Any]
    origin: folders.Origin
    threshold: float | None
    where: ReadWhere
    event_weights: ReadWeights
    notes: list[str]


def write(data: Interactions, path: Path, *, overwrite: bool = False) -> None:
    """Replace a folder's contents by the interactions; see :func:`mfrank.files.folder.write`."""
    arrays: dict[str, NDArray[Any]] = {}
    for name in _MATRICES:
        rows: sp.csr_array = getattr(data, name)
        arrays[f"{name}.indptr"] = rows.indptr.astype(np.int64)
        arrays[f"{name}.indices"] = rows.indices.astype(np.int32, copy=False)
        arrays[f"{name}.values"] = rows.data
    if data.timestamps is not None:
        arrays["timestamps"] = data.timestamps
    if (only := data.seen_only) is not None:
        arrays["seen_only.indptr"] = only.user_items.indptr.astype(np.int64)
        arrays["seen_only.indices"] = only.user_items.indices.astype(np.int32, copy=False)
        if only.timestamps is not None:
            arrays["seen_only.timestamps"] = only.timestamps
    if (summed := data.cells.summed) is not None:
        arrays |= {"summed.places": summed.places, "summed.largest": summed.largest}
    more = _more(data.cells.values_from, *data._known, data.notes)
    contents = _named(arrays, data.user_ids, data.item_ids, more)
    folders.write(path, contents, _format_of(contents), data.origin, overwrite)


def write_arrays(
    arrays: Mapping[str, NDArray[Any]],
    user_ids: Ids,
    item_ids: Ids,
    path: Path,
    values_from: ValuesFrom = "given",
    threshold: float | None = None,
    where: ReadWhere | None = None,
    event_weights: ReadWeights | None = None,
    split: Mapping[str, Any] | None = None,
) -> Mapped:
    """Write the arrays of the matrices and the timestamps, with the ids.

    They are mapped before another process can replace them. ``split`` is what all parts of a split
    share (:func:`mark_of_split`).
    """
    chosen, weights = noted_rows()
    more = _more(values_from, threshold, where or chosen, event_weights or weights, noted())
    contents = _named(arrays, user_ids, item_ids, {**more, "split": split} if split else more)
    path.mkdir(parents=True, exist_ok=True)
    with locked(path):
        folders.write(path, contents, _format_of(contents))
        return read(path, verify=False)


def _named(
    arrays: Mapping[str, NDArray[Any]], user_ids: Ids, item_ids: Ids, metadata: dict[str, Any]
) -> Contents:
    named = dict(arrays)
    for name, ids in (("user_ids", user_ids), ("item_ids", item_ids)):
        if ids.table is not None:  # row numbers need no array
            named |= {f"{name}.{part}": array for part, array in ids.to_arrays().items()}
    return Contents(named, metadata)


def _more(
    values_from: ValuesFrom,
    threshold: float | None,
    where: ReadWhere,
    event_weights: ReadWeights,
    notes: Sequence[str],
) -> dict[str, Any]:
    """What is known of the values, as metadata that earlier versions of mfrank do not read."""
    more: dict[str, Any] = {} if values_from == "given" else {"values_from": values_from}
    more |= {} if threshold is None else {"threshold": threshold}
    more |= {"where": dict(where)} if where else {}
    more |= {"event_weights": dict(event_weights)} if event_weights else {}
    return {**more, "notes": list(notes)} if notes else more


def mark_of_split(names: Sequence[str]) -> dict[str, Any]:
    """What the folders of a new split's parts, with these names, have in common."""
    return {"id": secrets.token_hex(8), "parts": [*names]}


def tell_of_other_split(path: Path) -> None:
    """Warn if a part beside this one is of another split: one of both was interrupted."""
    path = Path(os.path.abspath(path))
    own = _split_of(path)
    for name in own.get("parts", []):
        other = _split_of(path.parent / str(name))
        if other and other.get("id") != own.get("id"):
            _log.warning(
                Notice(
                    f"{path} and {name} beside it are parts of two splits, as one of them was "
                    "interrupted or is being written: some interactions may be in both; make the "
                    "split again"
                )
            )
            return


def _split_of(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = (folders.metadata_of(path, FORMAT) or {}).get("split")
        return found if isinstance(found, dict) else {}
    return {}


def check_takes(path: Path) -> None:
    """Raise ValueError if interactions could not be written to this folder."""
    folders.metadata_of(path, FORMAT)


def holds_interactions(path: Path) -> bool:
    """Whether a folder that was saved holds interactions, and not a model."""
    try:
        return folders.metadata_of(path, FORMAT) is not None
    except ValueError:
        return False


def generation(path: Path) -> str | None:
    """A name of what a folder holds now; None if it holds no interactions."""
    try:
        return folders.generation_of(path, FORMAT)
    except (OSError, ValueError):
        return None


def read(path: Path, *, verify: bool) -> Mapped:
    """Map the arrays of a folder.

    Raises
    ------
    FileNotFoundError, ValueError
        As :func:`mfrank.files.folder.read`; or the arrays are not interactions.
    """
    contents = folders.read(path, FORMAT, mmap=True, verify=verify)
    groups: dict[str, dict[str, NDArray[Any]]] = {
        name: {} for name in (*_MATRICES, "user_ids", "item_ids", "seen_only", "summed")
    }
    plain: dict[str, NDArray[Any]] = {}
    for name, array in contents.arrays.items():
        group, _, member = name.partition(".")
        groups.get(group, plain)[member if group in groups else name] = array
    try:
        check_keys(path, plain, set(), {"timestamps"})
        threshold = contents.metadata.get("threshold")
        if not (threshold is None or is_number(threshold)):
            raise InputValueError(f"`threshold` must be a number, got {shown(threshold)}")
        where = checked_where(contents.metadata.get("where", {}))
        event_weights = checked_event_weights(contents.metadata.get("event_weights", {}))
        users, items = (_rows_of(name, groups[name]) for name in _MATRICES)
        shape = users - 1, items - 1
        user_items = _matrix("user_items", groups["user_items"], shape)
        item_users = _matrix("item_users", groups["item_users"], shape[::-1])
        if user_items.nnz != item_users.nnz:
            raise InputValueError("there are not as many entries by users as by items")
        user_ids = stored_ids(groups["user_ids"], shape[0])
        item_ids = stored_ids(groups["item_ids"], shape[1])
        times = plain.get("timestamps")
        if times is not None and (times.dtype != np.int64 or times.shape != user_items.data.shape):
            raise InputValueError("`timestamps` must be int64, one for each entry")
        seen_only = _seen_only(groups["seen_only"], shape, timed=times is not None)
        summed = _summed(groups["summed"], user_items)
        values_from = contents.metadata.get("values_from", "given")
        if values_from not in get_args(ValuesFrom):
            raise InputValueError(f"`values_from` is {values_from!r}")
        notes = contents.metadata.get("notes", [])
        if not (isinstance(notes, list) and all(isinstance(line, str) for line in notes)):
            raise InputValueError(f"`notes` must be lines, got {shown(notes)}")
    except (TypeError, ValueError) as error:
        raise unreadable(path, "is damaged", error) from error
    numbers = (np.diff(matrix.indptr).astype(np.int64) for matrix in (user_items, item_users))
    known = {"item_users": item_users, "counts": Counts(*map(read_only, numbers))}
    found = Cells(user_items, times, seen_only, summed, values_from)
    origin = contents.origin
    return Mapped(found, user_ids, item_ids, known, origin, threshold, where, event_weights, notes)


def _seen_only(
    arrays: dict[str, NDArray[Any]], shape: tuple[int, int], *, timed: bool
) -> Cells | None:
    if not arrays:
        return None
    check_keys("seen_only", arrays, {"indptr", "indices", *(["timestamps"] if timed else [])})
    rows = _matrix(
        "seen_only", {**arrays, "values": np.ones(len(arrays["indices"]), np.float32)}, shape
    )
    times = arrays.get("timestamps")
    if times is not None and (times.dtype != np.int64 or times.shape != rows.data.shape):
        raise InputValueError("`seen_only.timestamps` must be int64, one for each cell")
    return Cells(rows, times)


def _summed(arrays: dict[str, NDArray[Any]], rows: sp.csr_array) -> SummedCells | None:
    if not arrays:
        return None
    check_keys("summed", arrays, {"places", "largest"})
    summed = SummedCells(arrays["places"], arrays["largest"])
    if summed.places.dtype != np.int64 or summed.places.shape != summed.largest.shape:
        raise InputValueError("`summed.places` must be int64, one for each of `summed.largest`")
    ends = np.append(np.append(-1, summed.places), rows.nnz)
    if (np.diff(ends) <= 0).any():
        raise InputValueError("`summed.places` must ascend among the entries")
    return summed


def _format_of(contents: Contents) -> Format:
    """The version that earlier versions of mfrank read, if they know all that is there."""
    is_plain = not any(name.startswith(("seen_only.", "summed.")) for name in contents.arrays)
    return replace(FORMAT, version=1) if is_plain else FORMAT


def _rows_of(name: str, arrays: dict[str, NDArray[Any]]) -> int:
    check_keys(name, arrays, set(_ARRAYS))
    return len(arrays["indptr"])


def _matrix(name: str, arrays: dict[str, NDArray[Any]], shape: tuple[int, int]) -> sp.csr_array:
    """A checked matrix on mapped arrays: kernels trust their columns, and values must be finite."""
    indptr, indices, values = (arrays[part] for part in _ARRAYS)
    dtypes = indptr.dtype == np.int64, indices.dtype == np.int32, values.dtype in ("f4", "f8")
    if not all(dtypes) or min(shape) < 0:
        raise InputValueError(f"`{name}` must be stored as int64, int32 and floating-point numbers")
    if not all_finite(values):
        raise InputValueError(f"`{name}` has values that are not finite")
    check_indptr(indptr, len(indices), shape[0], name)
    # scipy has one type for both, and copies the columns where the offsets are wider.
    offsets = indptr.astype(np.int32) if len(indices) < 2**31 else indptr
    return read_only_rows(sp.csr_array((values, indices, offsets), shape), name)


# Interactions that come by blocks of users, written to the arrays of a folder.
#
# Memory holds one block. The entries of users are appended as they come. They are also kept on the
# disk by blocks of items, which are sorted when all entries have come.


ENTRIES_AT_ONCE = 1 << 23
"""Entries of a block, which take up to 140 bytes each while they are merged."""


def even_bounds(counts: NDArray[np.int64], at_once: int) -> NDArray[np.int64]:
    """Bounds of blocks of rows with about as many entries each, or with a single row."""
    ends = np.cumsum(counts)
    n_blocks = -(-int(ends[-1] if len(ends) else 0) // at_once)
    cuts = np.searchsorted(ends, at_once * np.arange(1, n_blocks)) + 1
    return np.unique(np.concatenate([[0], cuts, [len(counts)]]))


class FolderWriter:
    """The matrix by users and by items, and the timestamps, in files of a temporary folder.

    Parameters
    ----------
    files : CheckedFiles
        Files of an existing folder, which may be removed when the arrays mapped from it are no
        longer needed. Entries are appended to the files.
    n_users : int
    of_items : int64, shape (n_items,)
        Maximum number of entries of each item; a wrong number costs only memory.
    dtype : float32 or float64
        Dtype of the values.
    timestamps : bool
        Whether every block has timestamps.
    at_once : int, default 2**23
        Entries that are sorted at a time.
    """

    def __init__(
        self,
        files: CheckedFiles,
        n_users: int,
        of_items: NDArray[np.int64],
        *,
        dtype: np.dtype[Any] | type[np.generic],
        timestamps: bool,
        at_once: int = ENTRIES_AT_ONCE,
    ) -> None:
        turned = np.dtype([("row", np.int32), ("column", np.int32), ("value", dtype)])
        self._by_item = Spill(files, "transposed", even_bounds(of_items, at_once), turned)
        self._users = RowsOnDisk(files, "user_items", n_users, dtype)
        self._items = RowsOnDisk(files, "item_users", len(of_items), dtype)
        self._times = GrowingArray(files, "timestamps", np.int64) if timestamps else None
        self._seen_only = RowsOnDisk(files, "seen_only", n_users, np.float32)
        self._seen_times = GrowingArray(files, "seen_only.timestamps", np.int64)
        self._sums = GrowingArray(files, "summed.places", np.int64)
        self._largest = GrowingArray(files, "summed.largest", dtype)

    def add(self, begin: int, rows: sp.csr_array, times: NDArray[np.int64] | None) -> None:
        """Append the canonical rows of the users from ``begin`` on; blocks must come in order."""
        self._users.add(begin, np.diff(rows.indptr), rows.indices, rows.data)
        if self._times is not None and times is not None:
            self._times.add(times)
        turned = np.empty(len(rows.data), self._by_item.dtype)
        turned["row"], turned["value"] = rows.indices, rows.data
        turned["column"] = cells.entry_rows(rows) + begin
        self._by_item.add(turned, turned["row"])

    def add_seen_only(
        self, begin: int, rows: sp.csr_array, times: NDArray[np.int64] | None
    ) -> None:
        """Append cells of the users from ``begin`` on that are only seen."""
        self._seen_only.add(begin, np.diff(rows.indptr), rows.indices, rows.data)
        if times is not None:
            self._seen_times.add(times)

    def add_cells(self, begin: int, found: Cells) -> None:
        """Append the users from ``begin`` on, with values, timestamps and seen-only cells."""
        if found.summed is not None:
            self._sums.add(found.summed.places + self._users.n_entries)
            self._largest.add(found.summed.largest)
        self.add(begin, found.rows, found.timestamps)
        if found.seen_only is not None:
            self.add_seen_only(begin, found.seen_only.rows, found.seen_only.timestamps)

    @property
    def n_seen_only(self) -> int:
        """Number of cells that are only seen, including an earlier run's."""
        return self._seen_only.n_entries

    def sort_items(
        self, first: int = 0, done: Callable[[Path], None] | None = None
    ) -> Iterator[int]:
        """Write the entries by items, after the last ``add``; yield their number after each block.

        For ``first`` and ``done`` see :meth:`mfrank.data.on_disk.Spill.blocks`.
        """
        for begin, _, turned in self._by_item.blocks(first, *([done] if done else [])):
            # Stable, so that the users of an item ascend, as they do in the file.
            turned = turned[np.argsort(turned["row"], kind="stable")]
            counts = np.bincount(turned["row"] - begin)
            self._items.add(begin, counts, turned["column"], turned["value"])
            yield len(turned)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of :func:`mfrank.data.interaction_folder.write_arrays`, mapped."""
        arrays = self._users.arrays() | self._items.arrays()
        if self._times is not None:
            arrays["timestamps"] = self._times.array()
        if self.n_seen_only:
            arrays |= self._seen_only.arrays()
            del arrays["seen_only.values"]  # all of them 1
            if self._times is not None:
                arrays["seen_only.timestamps"] = self._seen_times.array()
        if len(self._sums):
            arrays["summed.places"] = self._sums.array()
            arrays["summed.largest"] = self._largest.array()
        return arrays

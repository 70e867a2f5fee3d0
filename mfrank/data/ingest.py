"""Read files of any number and size into a folder of interactions, in bounded memory.

Each file is read twice, in portions. The first pass collects ids, which are numbered in sorted
order. The second pass spills entries to disk by blocks of users. Each block is then merged, as in
memory, and written by users and by blocks of items; the blocks of items are sorted last. Files are
read in the order of their names, whatever the order of the argument. A killed run resumes after the
last file or block in its journal. Spilled data are checked when they are read back; a run with
damaged files starts over.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import Advance, counted, progress_bar, sized
from mfrank.data import cells, interaction_folder
from mfrank.data.columns import Chosen
from mfrank.data.events import EventWeights
from mfrank.data.fields import IdsAs, as_text
from mfrank.data.file_times import seconds_in
from mfrank.data.frame_chunks import ROWS_AT_ONCE, Chunk, Spool, chunks_of, portions_of
from mfrank.data.ids import UnknownIdError
from mfrank.data.interaction_folder import ENTRIES_AT_ONCE, FolderWriter, Mapped, even_bounds
from mfrank.data.labels import canonical
from mfrank.data.layouts import Dialect
from mfrank.data.locations import Location, files_at, tell_last
from mfrank.data.merging import Duplicates
from mfrank.data.notes import log as _log
from mfrank.data.notes import note
from mfrank.data.numbering import Numbered, Source, numbered
from mfrank.data.odd_columns import tell_header
from mfrank.data.odd_times import tell_of_duration, tell_of_odd_times, tell_of_whole_days
from mfrank.data.on_disk import Spill
from mfrank.data.sources import check_duplicates
from mfrank.data.tables import Portion, check_options, refuse_text_options, stored_rows
from mfrank.data.text_files import estimated_lines, is_stream
from mfrank.data.time_units import TimestampUnit, check_unit
from mfrank.data.values import tell_full
from mfrank.errors import InputValueError, Notice, unreadable
from mfrank.files import Journal, path_of, resuming_beside, wanting_room, working_beside

_USUAL = Dialect()
_ENTRIES_AT_ONCE = ENTRIES_AT_ONCE
_ROWS_AT_ONCE = ROWS_AT_ONCE
"""Rows of a portion of a file."""
_LAYOUT = 9
"""Version of the files of a run that can be resumed."""
_FIRST_ROWS = 1000
"""Rows of each file by which an ingest is estimated."""
_PORTION, _BLOCK_ENTRY = 200 << 20, 140
"""Bytes of a portion of a file while it is read, and of an entry of a block that is merged."""
_STORED, _SPILLED, _TIME = 16, 36, 8
"""Bytes of an entry: by users and by items, in temporary files on the disk, and of a timestamp."""


def files_to_ingest(files: Location) -> list[Path]:
    """The files in reading order; raises as :func:`files_at`, also for a stream."""
    found = files_at(files, "files")
    for file in found:
        if is_stream(file):
            raise InputValueError(
                f"`files` are read twice, and {file} can be only once:", "save it as a file"
            )
    return found


def ingest(
    files: Any,
    folder: str | os.PathLike[str],
    chosen: Chosen,
    *,
    unit: TimestampUnit | None,
    ids: IdsAs,
    dialect: Dialect,
    duplicates: Duplicates,
    show_progress: bool,
    events: EventWeights | None = None,
) -> Mapped:
    """Write the interactions of all files to a folder (:mod:`mfrank.data.interaction_folder`).

    Parameters
    ----------
    files : path, sequence of path, table or iterable of tables
        Files as in :func:`mfrank.data.locations.files_at`, and no streams. Tables as in
        :func:`mfrank.data.frame_chunks.chunks_of`, for which ``dialect`` says nothing.
    folder : path
    chosen, ids, dialect, unit, events
        As in :func:`mfrank.data.tables.read_columns`. If one file has integer ids and another text,
        all ids become text.
    duplicates : {"sum", "max", "last"}
        How to merge cells that occur more than once, in one file or in several.
    show_progress : bool

    Raises
    ------
    ValueError, TypeError
        As for a single file; the message names the file. The folder is unchanged.
    OSError
        If a file cannot be read or the disk is full; the folder is unchanged, too. If the same call
        can resume, the message names the temporary folder.
    """
    check_duplicates(duplicates)
    check_unit(unit, chosen)
    folder = path_of(folder, "folder")
    check_options(ids, dialect)
    if (chunks := chunks_of(files, _ROWS_AT_ONCE)) is not None:
        if dialect != _USUAL:
            odd = next(f.name for f in fields(Dialect) if getattr(dialect, f.name) != f.default)
            raise InputValueError(
                f"`{odd}` is for text, and `files` are tables in memory:", "omit it"
            )
        return ingest_chunks(
            *(chunks, "`files`", folder, chosen),
            unit=unit,
            ids=ids,
            duplicates=duplicates,
            show_progress=show_progress,
            events=events,
        )
    paths = files_to_ingest(files)
    refuse_text_options(paths, dialect)
    source = Source(paths, chosen, ids, dialect, unit, _ROWS_AT_ONCE, events)
    interaction_folder.check_takes(folder)
    origin = {"layout": _LAYOUT, "at_once": _ENTRIES_AT_ONCE, "duplicates": duplicates}
    origin |= source.told()
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(os.path.abspath(folder))
    with resuming_beside(beside, lambda place: Journal.serves(place, origin)) as place:
        try:
            with wanting_room(folder):
                journal = Journal(place, origin)
                made = _write(source, folder, journal, duplicates, show_progress, events)
                are_timed = "timestamp" in source.table.roles
                if duplicates == "last" and len(source.paths) > 1 and not are_timed:
                    tell_last(source.paths, files)
                return made
        except OSError as error:
            if error.errno is None or not Journal.serves(place, origin):
                raise
            raise OSError(error.errno, _kept(error, place), error.filename) from error


def ingest_chunks(
    chunks: Iterator[Chunk],
    name: str,
    folder: str | os.PathLike[str],
    chosen: Chosen,
    *,
    unit: TimestampUnit | None,
    ids: IdsAs,
    duplicates: Duplicates,
    show_progress: bool,
    events: EventWeights | None = None,
) -> Mapped:
    """Write the interactions of a table that can be read only once, as :func:`ingest`.

    The columns with a role are kept in a file of the temporary folder, in place of the table. A
    call that fails leaves nothing, because the next one has to read all again.
    """
    check_duplicates(duplicates)
    check_unit(unit, chosen)
    folder = path_of(folder, "folder")
    check_options(ids, _USUAL)
    interaction_folder.check_takes(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with working_beside(Path(os.path.abspath(folder))) as place, wanting_room(folder):
        journal, rows = Journal(place, {}), Spool(place / "rows", name)
        read = (portion for portion, _ in portions_of(chunks, chosen, events, ids))
        with progress_bar(None, "reading rows", "row", shown=show_progress) as advance:
            rows.fill(_counted(read, advance))
        if events is not None and not rows.n_rows:
            raise events.none_left()
        source = Source([rows], chosen, ids, _USUAL, unit, _ROWS_AT_ONCE, events)
        return _write(source, folder, journal, duplicates, show_progress, events)


def _counted(portions: Iterator[Portion], advance: Advance) -> Iterator[Portion]:
    for portion in portions:
        advance(portion.n_rows)
        yield portion


def _write(
    source: Source,
    folder: Path,
    journal: Journal,
    duplicates: Duplicates,
    show_progress: bool,
    events: EventWeights | None,
) -> Mapped:
    """Read all files twice, and write the folder."""
    before = interaction_folder.generation(folder)
    known = numbered(source, journal, journal.files.folder, show_progress)
    note(counted(known.n_rows, "row"))
    sums = events or EventWeights(None, {})
    arrays = _arrays(source, known, duplicates, journal, show_progress, sums)
    values = arrays["user_items.values"]
    tell_full(values, len(known.user_ids), len(known.item_ids))
    indptr, indices = arrays["user_items.indptr"], arrays["user_items.indices"]
    tell_header(
        *(known.user_ids, known.item_ids), lambda row: indices[indptr[row] : indptr[row + 1]]
    )
    changed = sums.cap is not None or sums.half_life is not None
    if interaction_folder.generation(folder) not in (None, before):
        _log.warning(
            Notice(
                f"{folder}: another process has written interactions there since this one began "
                "to read, and they are replaced; give each its own folder"
            )
        )
    return interaction_folder.write_arrays(
        *(arrays, known.user_ids, known.item_ids, folder),
        "given" if changed else known.values_from(duplicates, len(values)),
    )


def _kept(error: OSError, place: Path) -> str:
    size = sum(path.stat().st_size for path in place.iterdir())
    return (
        f"{error.strerror}; what is done stays in {place} ({sized(size)}), with which the same "
        "call goes on; else remove it"
    )


def _arrays(
    source: Source,
    known: Numbered,
    duplicates: Duplicates,
    journal: Journal,
    show_progress: bool,
    sums: EventWeights,
) -> dict[str, NDArray[Any]]:
    """The folder's arrays, mapped from files of the journal's folder."""
    if not known.timestamps:
        sums.aged(np.empty(0), None)
    bounds = even_bounds(known.of_users, _ENTRIES_AT_ONCE)
    by_user = Spill(journal.files, "entries", bounds, known.entry)
    done = journal.done
    with progress_bar(known.n_rows, "reading entries", "row", shown=show_progress) as advance:
        advance(known.n_rows if done["users"] else len(by_user))
        for path in source.paths[done["entries"] :]:
            for portion in source.portions(path, known.times.get(str(path))):
                entries = _entries(path, portion, known)
                by_user.add(entries, entries["user"])
                advance(len(entries))
                if sums.half_life is not None:
                    times = [entries["time"].min(), entries["time"].max()]
                    span = [*journal.facts.get("span", []), *map(int, times)]
                    journal.facts["span"] = [min(span), max(span)]
            journal.advance("entries")
    writer = FolderWriter(
        journal.files,
        len(known.user_ids),
        known.of_items,
        dtype=np.float32,
        timestamps=known.timestamps,
        at_once=_ENTRIES_AT_ONCE,
    )
    with progress_bar(known.n_rows, "merging by users", "row", shown=show_progress) as advance:
        advance(known.n_rows - len(by_user))
        _merge(by_user, writer, known, duplicates, journal, advance, sums)
    with progress_bar(None, "sorting by items", "entry", shown=show_progress) as advance:
        for n_sorted in writer.sort_items(done["items"], partial(journal.advance, "items")):
            advance(n_sorted)
    arrays = writer.arrays()
    # Counted at the end, because an earlier run may have merged some of the blocks.
    values = arrays["user_items.values"]
    n_cells = len(values) + writer.n_seen_only
    n_merged = known.n_rows - n_cells
    summed = None
    if "summed.places" in arrays:
        summed = cells.SummedCells(arrays["summed.places"], arrays["summed.largest"])
    cells.CellTally(duplicates, n_merged, n_cells, writer.n_seen_only).tell(values, summed)
    if "timestamps" in arrays:
        tell_of_odd_times(arrays["timestamps"])
        tell_of_whole_days(arrays["timestamps"])
    return arrays


def _merge(
    by_user: Spill,
    writer: FolderWriter,
    known: Numbered,
    duplicates: Duplicates,
    journal: Journal,
    advance: Advance,
    sums: EventWeights,
) -> None:
    """Merge the entries of each block of users, and give them to the writer."""
    done = journal.done["users"]
    untold = cells.CellTally(duplicates)
    newest = None
    if sums.half_life is not None:
        _, newest = journal.facts["span"]
        tell_of_duration("half_life", sums.half_life, np.array(journal.facts["span"]))
    for begin, end, entries in by_user.blocks(done, partial(journal.advance, "users")):
        times = entries["time"] if known.timestamps else None
        block = cells.from_triples(
            entries["user"] - begin,
            entries["item"],
            sums.aged(entries["value"], times, newest),
            times,
            shape=(end - begin, len(known.item_ids)),
            duplicates=duplicates,
            tally=untold,
        )
        too_large = np.flatnonzero(~np.isfinite(block.rows.data))
        if len(too_large):
            row = begin + np.searchsorted(block.rows.indptr, too_large[:1], side="right") - 1
            (user,) = known.user_ids.raw(row).tolist()
            (item,) = known.item_ids.raw(block.rows.indices[too_large[:1]]).tolist()
            raise InputValueError(
                f"`values` must fit float32, also merged: that of user {user!r} and item {item!r} "
                "does not",
                "drop or replace it",
            )
        writer.add_cells(begin, block if sums.cap is None else cells.capped(block, sums.cap))
        advance(len(entries))


def _entries(path: Path | Spool, portion: Portion, known: Numbered) -> NDArray[Any]:
    """The entries of a portion with row numbers in place of ids."""
    columns = portion.columns
    entries = np.empty(portion.n_rows, known.entry)
    for role, ids in (("user", known.user_ids), ("item", known.item_ids)):
        labels = canonical(columns[role])
        is_text = ids.table is not None and ids.table.dtype == object
        try:
            entries[role] = ids.rows(as_text(labels) if is_text else labels)
        except UnknownIdError as error:
            raise unreadable(
                path, "was changed while it was read", str(error), "make the same call again"
            ) from None
    entries["value"] = columns.get("value", np.float64(1))
    if known.unit is not None:
        entries["time"] = seconds_in(path, portion, known.unit, known.times.get(str(path)))
    return entries


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """Estimates for an ingest.

    Attributes
    ----------
    files : int
    rows : int
        Exact for parquet, estimated for text.
    folder, beside : int
        Maximum bytes of the folder, and of the temporary files beside it meanwhile.
    free : int
        Bytes that are free on that disk.
    memory : int
        Bytes of memory, without the ids.
    """

    files: int
    rows: int
    folder: int
    beside: int
    free: int
    memory: int

    @classmethod
    def of(
        cls,
        files: Location,
        folder: Path,
        chosen: Chosen,
        *,
        ids: IdsAs = "auto",
        dialect: Dialect = _USUAL,
        events: EventWeights | None = None,
    ) -> Self:
        """Estimate the ingest of files to a folder; the first rows of each are checked.

        Raises
        ------
        ValueError, TypeError, FileNotFoundError
            As :func:`ingest`, as far as the first rows show.
        """
        paths, rows, timed = files_to_ingest(files), 0, False
        source = Source(paths, chosen, ids, dialect, None, _FIRST_ROWS, events)
        for path in paths:
            portion = next(source.portions(path, None), None)
            if portion is not None:
                timed |= portion.is_timed
                exact = stored_rows(path)
                if exact is None:
                    exact = max(portion.n_rows, estimated_lines(path, dialect.encoding))
                rows += exact
        if not rows:
            raise source.none_left()
        where = Path(os.path.abspath(folder))
        while not where.exists():
            where = where.parent
        return cls(
            len(paths),
            rows,
            rows * (_STORED + _TIME * timed),
            rows * (_SPILLED + 2 * _TIME * timed),
            shutil.disk_usage(where).free,
            max(_PORTION, _BLOCK_ENTRY * min(rows, _ENTRIES_AT_ONCE)),
        )

    def told(self) -> str:
        """The estimates as lines of text."""
        needed, short = self.folder + self.beside, ""
        if needed > self.free:
            short = ", which are too few: choose a folder on another disk"
        return (
            f"{counted(self.files, 'file')}, about {counted(self.rows, 'row')}\n"
            f"memory: about {sized(self.memory)}, and the ids\n"
            f"disk: up to {sized(self.folder)} for the folder, and {sized(self.beside)} beside it "
            f"until it is done; {sized(self.free)} are free{short}"
        )

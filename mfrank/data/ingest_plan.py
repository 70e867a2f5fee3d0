"""Estimates of what an ingest of files will take, from their sizes and first rows."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mfrank.arrays import counted, sized
from mfrank.data.columns import Chosen
from mfrank.data.events import EventWeights
from mfrank.data.fields import IdsAs
from mfrank.data.ingest import files_to_ingest
from mfrank.data.interaction_folder import ENTRIES_AT_ONCE
from mfrank.data.layouts import Dialect
from mfrank.data.locations import Location
from mfrank.data.numbering import Source
from mfrank.data.tables import stored_rows
from mfrank.data.text_files import estimated_lines

_USUAL_DIALECT = Dialect()
_ROWS = 1000
_PORTION, _BLOCK_ENTRY = 200 << 20, 140
"""Bytes of a portion of a file while it is read, and of an entry of a block that is merged."""
_STORED, _SPILLED, _TIME = 16, 36, 8
"""Bytes of an entry: by users and by items, in temporary files on the disk, and of a timestamp."""


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
        dialect: Dialect = _USUAL_DIALECT,
        events: EventWeights | None = None,
    ) -> Self:
        """Estimate the ingest of files to a folder; the first rows of each are checked.

        Raises
        ------
        ValueError, TypeError, FileNotFoundError
            As :func:`mfrank.data.ingest.ingest`, as far as the first rows show.
        """
        paths, rows, timed = files_to_ingest(files), 0, False
        source = Source(paths, chosen, ids, dialect, None, _ROWS, events)
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
            max(_PORTION, _BLOCK_ENTRY * min(rows, ENTRIES_AT_ONCE)),
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

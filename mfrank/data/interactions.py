"""Interactions of users with items: the input of every fit, split and evaluation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from mfrank.arrays import check_choice, sparse_to_host
from mfrank.data import interaction_folder
from mfrank.data.cells import Duplicates
from mfrank.data.columns import IdsAs
from mfrank.data.frames import is_frame
from mfrank.data.ingest import ingest
from mfrank.data.layouts import Dialect
from mfrank.data.sources import Sourced, joined
from mfrank.data.text_files import AS_USUAL
from mfrank.data.time_units import TimestampUnit, check_unit
from mfrank.files import path_of


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(Sourced):
    """Observed cells of the users x items matrix, with the ids of its rows and columns.

    Create with :meth:`from_arrays`, :meth:`from_sparse`, :meth:`from_frame`, :meth:`from_file` or
    :meth:`of`, which apply the rules below. Immutable: arrays are read-only. The input is never
    modified; it may be shared only where it is read-only.

    - Repeated cells are merged by ``duplicates``: "sum" (the default; in float64), "max", or
      "last". "last" takes the value with the latest timestamp; ties, and data without timestamps,
      are decided by input order. A merged cell gets its latest timestamp.
    - A cell of value 0 is *only seen*: models do not learn from it, and lists leave it out. The
      same holds for entries that :meth:`at_least` drops, that :meth:`weighted` makes 0, that cancel
      (+1 and -1), or that are too small for the dtype. The number of zeros is logged ("mfrank"), as
      a warning if the other values vary: on a rating scale, 0 may mean "not rated".
    - Negative values stay; the objective defines their meaning.
    - NaN, infinite values and sums beyond the range of float32 are refused.
    - Values become float32; only a float64 sparse matrix stays float64. Integers above 2^24 are
      rounded.
    - Users and items without entries stay if ``shape``, ids or a matrix include them. Each side has
      fewer than 2^31 rows; entries are unlimited.

    Attributes
    ----------
    user_items : scipy.sparse.csr_array, shape (n_users, n_items)
        float32 or float64; columns ascending within a row, no duplicates, no zeros. Read-only:
        :meth:`to_scipy` returns a writable copy.
    user_ids, item_ids : Ids
        Raw ids of rows and columns.
    timestamps : int64, shape (nnz,), or None
        Aligned with ``user_items.data``. Dates, and numbers of a stated or recognized unit, are
        seconds since 1970 (UTC); other numbers, such as days, are unchanged.
    seen_only : Interactions or None
        Seen cells without a value, such as ratings of 0 or below a threshold. They have the same
        shape and ids, values of 1, and timestamps if these interactions have some.
        ``dataclasses.replace(data, seen_only=None)`` removes them.
    threshold : float or None
        The highest threshold of :meth:`at_least`; None for raw data. Parts, joined parts with equal
        thresholds, folders and models inherit it.
    """

    @classmethod
    def of(cls, data: Any) -> Interactions:
        """Convert Interactions (unchanged), a scipy or CuPy sparse matrix, or a table.

        See :meth:`from_frame` for tables.

        Raises
        ------
        TypeError
            If it is something else.
        """
        if isinstance(data, Interactions):
            return data
        data = sparse_to_host(data)
        if sp.issparse(data):
            return cls.from_sparse(data)
        if is_frame(data):
            return cls.from_frame(data)
        remedy = ""
        if isinstance(data, np.ndarray):
            remedy = "; convert a dense array with scipy.sparse.csr_array(array)"
        elif hasattr(data, "collect"):
            remedy = "; collect() it first"
        raise TypeError(
            "expected Interactions, a scipy sparse matrix (users x items) or a DataFrame of pandas "
            f"or polars, got {type(data).__name__}{remedy}"
        )

    def to_folder(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Save as a folder of arrays that :meth:`open` memory-maps.

        The matrix is stored by users and by items. An entry takes about 16 bytes, 24 with
        timestamps; a cell that is only seen takes 4, or 12. The replacement is atomic: a crash
        leaves either the old or the new data.

        Parameters
        ----------
        folder : path
        overwrite : bool, default False
            Whether to replace the folder even if another process has saved to it since these
            interactions (or their source) were opened from it or saved to it.

        Returns
        -------
        Path of the folder

        Raises
        ------
        mfrank.files.folder.ChangedFolderError
            A ValueError: another process has saved to the folder (see ``overwrite``). Open it again
            and repeat the change.
        ValueError
            If the folder contains something else, or ids are neither integers nor strings.
        OSError
            If writing fails; the folder is unchanged.
        """
        path = path_of(folder)
        interaction_folder.write(self, path, overwrite=overwrite)
        return path

    @classmethod
    def ingest(
        cls,
        files: Sequence[str | os.PathLike[str]],
        folder: str | os.PathLike[str],
        *,
        user: str | int | None = None,
        item: str | int | None = None,
        value: str | int | Literal[False] | None = None,
        timestamp: str | int | Literal[False] | None = None,
        timestamp_unit: TimestampUnit | None = None,
        sep: str | None = None,
        quote: str | None = AS_USUAL,
        header: bool | None = None,
        columns: Sequence[str] | None = None,
        ids: IdsAs = "auto",
        duplicates: Duplicates = "sum",
        show_progress: bool = False,
    ) -> Interactions:
        """Read many files, of any size, into a folder, and :meth:`open` it.

        The result equals :meth:`from_file` for a single file with the rows of all files, in the
        order of the file names.

        - Memory: the ids, plus a portion of a file (some 260,000 rows), then some eight million
          entries at a time.
        - Disk: up to 52 bytes per entry, in a temporary folder beside ``folder`` whose name begins
          with a dot.
        - Resuming: after a kill, Ctrl-C or a full disk, the same call resumes from the temporary
          folder, at most about half a minute back. A call with other files or options removes that
          folder.

        Parameters
        ----------
        files : sequence of path
            Text or parquet, as in :meth:`from_file`, but no streams, because each file is read
            twice. Either all have timestamps or none.
        folder : path
            Its contents are replaced when everything has been read.
        user, item, value, timestamp, timestamp_unit, sep, quote, header, columns, ids, duplicates
            As in :meth:`from_file`. If one file has integer ids and another text, all ids become
            text.
        show_progress : bool, default False
            Show progress, in rows, on stderr.

        Raises
        ------
        ValueError, TypeError
            As in :meth:`from_file`; the message names the file and the row.
        OSError
            If the disk is full or a file cannot be read; the folder is unchanged. The message names
            the temporary folder from which the same call resumes, if there is one.
        """
        chosen = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        if isinstance(files, str | os.PathLike):
            raise TypeError(f"files must be a list of files, got one: [{str(files)!r}]")
        check_choice("duplicates", duplicates, get_args(Duplicates))
        check_unit(timestamp_unit)
        path = path_of(folder)
        ingest(
            files,
            path,
            chosen,
            unit=timestamp_unit,
            ids=ids,
            dialect=Dialect(sep, quote, header, columns),
            duplicates=duplicates,
            show_progress=show_progress,
        )
        return cls.open(path)

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, verify: bool = False) -> Interactions:
        """Memory-map the interactions of :meth:`to_folder`, which may be larger than memory.

        ALS reads each entry from the disk (or the page cache) once per half-step, and the fit has
        the same bits as from memory. Opening reads the columns and values once, to check them. From
        2^31 entries on, column numbers are copied to memory, because scipy then needs 64 bits.

        Parameters
        ----------
        folder : path
        verify : bool, default False
            Also compare every file with its SHA-256.

        Raises
        ------
        FileNotFoundError
            If there is no such folder.
        ValueError
            If it does not hold interactions, has another format version, or is damaged; the
            message says how.
        """
        mapped = interaction_folder.read(path_of(folder), verify=verify)
        ids = mapped.user_ids, mapped.item_ids
        opened = cls._of_cells(mapped.found, *ids, mapped.origin, mapped.threshold)
        opened.__dict__.update(mapped.known)
        return opened

    @classmethod
    def concat(
        cls, parts: Sequence[Interactions], *, duplicates: Duplicates = "sum"
    ) -> Interactions:
        """Join the interactions of several data sets by id.

        Equal ids are the same user or item. Rows of the first part keep their numbers; new users
        and items follow. ``a + b`` is ``Interactions.concat([a, b])``. Values become float32.

        Parameters
        ----------
        parts : sequence of Interactions
            At least one.
        duplicates : {"sum", "max", "last"}, default "sum"
            How to merge cells that occur in several parts. If a cell is only seen in one part and
            has a value in another, the value wins.

        Raises
        ------
        ValueError
            If there are no parts, ids are integers in only some parts, only some parts have
            timestamps, or timestamps are in different units, such as seconds and (with
            ``timestamp_unit="s"``, unconverted) milliseconds.
        TypeError
            If a part is not Interactions.
        """
        each = list(parts) if isinstance(parts, Iterable) else [parts]
        wrong = [part for part in each if not isinstance(part, Interactions)]
        if wrong or not isinstance(parts, Iterable):
            kind = type((wrong or each)[0]).__name__
            raise TypeError(f"parts must be a list of Interactions, got {kind}")
        if not each:
            raise ValueError("parts must have at least one Interactions")
        origin = dict(item for part in each for item in part.origin.items())
        thresholds = {part.threshold for part in each}
        threshold = thresholds.pop() if len(thresholds) == 1 else None
        return cls._of_cells(*joined(each, duplicates), origin, threshold)

    def __add__(self, other: Interactions) -> Interactions:
        if not isinstance(other, Interactions):
            return NotImplemented
        return Interactions.concat([self, other])

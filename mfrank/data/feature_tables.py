"""Features of users or items as tables: rows found by id, columns by name."""

from __future__ import annotations

import csv
import os
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.checks import shown
from mfrank.data.columns import guess
from mfrank.data.feature_columns import FeatureColumns
from mfrank.data.fields import parsed, spelled_like
from mfrank.data.frames import columns_reader, is_frame
from mfrank.data.ids import Ids
from mfrank.data.labels import canonical, objects

__all__ = ["FeatureTable", "is_table"]

_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def is_table(given: object) -> bool:
    """Whether features are given as a DataFrame or the path of a file, not as a matrix."""
    return isinstance(given, str | os.PathLike) or is_frame(given)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTable:
    """A table of features with a row for each of some users or items.

    Attributes
    ----------
    argument : str
        The name of the argument, for errors.
    labels : int64 or object, shape (rows,)
        The ids of the rows, each once.
    columns : dict of str to array
        All others, by name.
    """

    argument: str
    labels: NDArray[Any]
    columns: dict[Hashable, NDArray[Any]]

    @classmethod
    def of(cls, argument: str, given: Any, ids: Ids) -> FeatureTable:
        """Read a DataFrame, or a file of such a table.

        The ids are the index of a pandas DataFrame, if it is not the default one, otherwise the
        column with a name such as ``item`` or ``item_id``. Ids of text files are spelled like
        ``ids``.

        Raises
        ------
        ValueError, TypeError
            There is no such column, or more than one; ids are missing or repeat.
        FileNotFoundError, ModuleNotFoundError
            There is no such file, or it is Parquet and pyarrow is not installed.
        """
        side = argument.partition("_")[0]
        if not is_frame(given):
            labels, columns = _of_file(argument, given, side)
            labels = spelled_like(labels, ids)
        else:
            labels, columns = _of_frame(argument, given, side)
        try:
            Ids.of(labels)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{argument}: {error}; each {side} has one row") from None
        return cls(argument, canonical(labels), columns)

    def learned(self) -> FeatureColumns:
        """How its columns are converted."""
        return FeatureColumns.of(self.argument, self.columns)

    def features(self, columns: FeatureColumns, ids: Ids, *, of_fit: bool = False) -> sp.csr_array:
        """Features of the rows of ``ids``, and a last one that is 1 for all, their common mean.

        The last feature is all that is known of a row that the table does not have.

        Raises
        ------
        ValueError
            The table has none of these rows.
        """
        side = self.argument.partition("_")[0]
        places = ids.rows(self.labels, missing=-1)
        here = places >= 0
        if len(ids) and not here.any():
            raise ValueError(
                f"{self.argument} has a row for none of the {side}s: its ids are like "
                f"{_examples(self.labels)}, theirs like {_examples(ids.labels)}"
            )
        rows = columns.features(self.argument, self.columns, of_fit=of_fit)
        chosen = (np.ones(int(here.sum())), (places[here], np.flatnonzero(here)))
        placed = sp.csr_array(chosen, (len(ids), len(self.labels))) @ rows
        ones = sp.csr_array(np.ones((len(ids), 1)))
        return sp.csr_array(sp.hstack([placed, ones], format="csr"))


def _of_frame(
    argument: str, frame: Any, side: str
) -> tuple[NDArray[Any], dict[Hashable, NDArray[Any]]]:
    names, read = columns_reader(frame)
    index = getattr(frame, "index", None)
    if index is not None and not _is_default(index):
        return np.asarray(index), {name: read(name) for name in names}
    id_column = _id_column(argument, names, side)
    return read(id_column), {name: read(name) for name in names if name != id_column}


def _is_default(index: Any) -> bool:
    """Whether an index of pandas only counts rows, and has no name."""
    return type(index).__name__ == "RangeIndex" and index.name is None


def _id_column(argument: str, names: list[Hashable], side: str) -> Hashable:
    candidates = guess(names, side)
    own = [name for name in candidates if str(name).lower().replace("_", "") in (side, f"{side}id")]
    candidates = own or candidates
    if len(candidates) == 1:
        return candidates[0]
    found = "no column that looks like" if not candidates else "several columns that may be"
    raise ValueError(
        f"{argument} has {found} the ids of the {side}s: name it {side!r}; its columns are "
        + ", ".join(map(shown, names[:10]))
    )


def _of_file(
    argument: str, given: str | os.PathLike[str], side: str
) -> tuple[NDArray[Any], dict[Hashable, NDArray[Any]]]:
    path = Path(given)
    if path.suffix.lower() == ".parquet":
        try:
            import pyarrow.parquet
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "parquet files need pyarrow: pip install mfrank[parquet]"
            ) from error
        return _of_frame(argument, pyarrow.parquet.read_table(path), side)
    if path.suffix.lower() not in _SEPARATORS:
        raise ValueError(f"{argument} must be a .csv, .tsv or .parquet file, got {path}")
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file, delimiter=_SEPARATORS[path.suffix.lower()]) if row]
    if not rows:
        raise ValueError(f"{argument}: {path} is empty; its first line must name the columns")
    names, *rows = rows
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise ValueError(
                f"{argument}: {path} has {len(names)} columns, and row {number} has {len(row)} "
                "fields; quote fields with separators"
            )
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"{argument}: {path} has two columns {repeated!r}; rename one")
    id_column = _id_column(argument, list(names), side)
    columns: dict[Hashable, NDArray[Any]] = {
        name: _typed([row[at] for row in rows]) for at, name in enumerate(names)
    }
    at = names.index(str(id_column))
    del columns[names[at]]
    return parsed(side, [row[at] for row in rows], "auto"), columns


def _typed(fields: list[str]) -> NDArray[Any]:
    """A column of text: numbers if all fields that are not empty are."""
    try:
        return np.array([float(field) if field else np.nan for field in fields])
    except ValueError:
        return objects(field or None for field in fields)


def _examples(labels: NDArray[Any]) -> str:
    return ", ".join(map(shown, labels[:3].tolist()))

"""Features of users or items as tables, with rows matched by id and columns by name."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import counted, needs, shown
from mfrank.data.arrow_files import faults_named
from mfrank.data.columns import guess, id_columns
from mfrank.data.feature_columns import FeatureColumns, is_missing
from mfrank.data.feature_matrices import tell_id_columns
from mfrank.data.fields import Fields, spelled_like
from mfrank.data.frames import columns_reader, is_categorical, is_frame
from mfrank.data.ids import Ids
from mfrank.data.labels import canonical, objects
from mfrank.data.locations import files_at, refuse_open
from mfrank.data.remote import for_library, is_url, without_password
from mfrank.data.row_choice import as_kind
from mfrank.data.sql import TableQuery, is_database
from mfrank.data.tables import known_kind, text_rows
from mfrank.data.text_files import local_file, refuse_elsewhere
from mfrank.errors import InputTypeError, InputValueError, Notice, within
from mfrank.files import path_of

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_UNNAMED = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
"""How an index without a name is called where it was written to a file as a column."""

_CODE = re.compile(r"\s*[+-]?0[0-9]")

_log = logging.getLogger("mfrank")


def _side(argument: str) -> str:
    """What a row is of: a "user" or an "item"."""
    return argument.partition("_")[0].removesuffix("s")


def is_table(given: object) -> bool:
    """Whether features are a DataFrame or the path of a file, not a matrix."""
    is_file = isinstance(given, str | os.PathLike) or hasattr(given, "readline")
    return is_file or is_frame(given)


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
        All other columns, by name.
    texts : dict of str to array
        Original text of numeric columns of a text file, for fits in which the column was text; and
        of categories.
    categories : set of str
        Columns of numbers that are categories.
    """

    argument: str
    labels: NDArray[Any]
    columns: dict[Hashable, NDArray[Any]]
    texts: dict[Hashable, NDArray[Any]] = field(default_factory=dict)
    categories: frozenset[Hashable] = frozenset()

    @classmethod
    def of(cls, argument: str, given: Any, ids: Ids) -> FeatureTable:
        """Read a DataFrame, or a file of such a table, by its path or URL, or a query.

        The ids are the column with a name such as ``item`` or ``item_id`` or, without one, the
        index. A numeric index without a name, as left by sorting or filtering, is ignored if there
        is such a column. Ids of text files are converted to the type of ``ids``.

        Raises
        ------
        ValueError, TypeError
            There are no ids, or several candidates for them (columns or index); ids are missing or
            repeat.
        FileNotFoundError, ModuleNotFoundError
            There is no such file, or it is Parquet and pyarrow is not installed.
        """
        side = _side(argument)
        if isinstance(given, TableQuery):
            found = dict[Hashable, NDArray[Any]](given.columns().items())
            table = _Table(list(found), found.__getitem__, found.__getitem__)
            read = _Read(*_divided(argument, table, side), {})
        elif isinstance(given, str | os.PathLike):
            read = _of_file(argument, given, side)
            read = read._replace(labels=spelled_like(read.labels, ids))
        elif is_frame(given) and getattr(given, "ndim", 2) == 2:
            read = _of_frame(argument, given, side)
        else:
            refuse_open(given, argument)
            raise InputTypeError(
                f"`{argument}` must be a table, got a {type(given).__name__}:",
                "pass a DataFrame, such as `series.to_frame()`, or the path of a file",
            )
        try:
            Ids.of(read.labels)
        except (TypeError, ValueError) as error:
            what = str(error).partition(";")[0]  # the rest is of lists of ids
            raise within(
                f"`{argument}`", type(error)(f"the {what}; each {side} has one row")
            ) from None
        return cls(argument, canonical(read.labels), *read[1:])

    def learned(self) -> FeatureColumns:
        """The encoding of the columns, fitted to this table."""
        tell_id_columns(self.argument, self.columns, self.labels)
        chosen = {name: self.texts[name] for name in self.categories}
        return FeatureColumns.of(self.argument, {**self.columns, **chosen})

    def features(
        self,
        columns: FeatureColumns,
        ids: Ids,
        *,
        of_fit: bool = False,
        familiar: NDArray[np.bool_] | None = None,
    ) -> sp.csr_array:
        """Features of the rows of ``ids``, with a last feature of 1 for all: the common mean.

        A row that the table lacks has only the last feature. Values without a feature cause a
        warning, except with ``of_fit`` and in ``familiar`` rows.

        Raises
        ------
        ValueError
            The table has none of these rows.
        """
        later = f"; `partial_fit({self.argument}=...)` adds them afterwards"
        places = self._places(ids, of_fit=of_fit, later=later)
        here = places >= 0
        # Only these rows: what others hold is not worth a warning.
        words = {column.name for column in columns.columns if column.kind != "number"}
        used = {
            name: (self.texts.get(name, column) if str(name) in words else column)[here]
            for name, column in self.columns.items()
        }
        silent = of_fit or familiar is not None
        rows = columns.features(self.argument, used, of_fit=silent)
        if familiar is not None:  # again, for the warnings: these rows are few
            news = ~familiar[places[here]]
            few = {name: column[news] for name, column in used.items()}
            columns.features(self.argument, few, of_fit=False)
        chosen = (np.ones(rows.shape[0]), (places[here], np.arange(rows.shape[0])))
        placed = sp.csr_array(chosen, (len(ids), rows.shape[0])) @ rows
        ones = sp.csr_array(np.ones((len(ids), 1)))
        return sp.csr_array(sp.hstack([placed, ones], format="csr"))

    def numbers(self, ids: Ids) -> NDArray[np.float64]:
        """The unconverted columns, in the order of ``ids``; NaN where the table has no row.

        Raises
        ------
        TypeError
            A column does not hold numbers.
        ValueError
            The table has none of these rows.
        """
        tell_id_columns(self.argument, self.columns, self.labels)
        places = self._places(ids, of_fit=True, later="")
        here = places >= 0
        table = np.full((len(ids), len(self.columns)), np.nan)
        for at, (name, column) in enumerate(self.columns.items()):
            try:
                table[places[here], at] = column[here].astype(np.float64)
            except (TypeError, ValueError):
                raise InputTypeError(
                    f"`{self.argument}`: column {shown(name)} must hold numbers",
                    "encode categories as columns of 0 and 1, or leave it out",
                ) from None
        return table

    def _places(self, ids: Ids, *, of_fit: bool, later: str) -> NDArray[np.int64]:
        """The row among ``ids`` of each row of the table, -1 for those that are not used.

        ``later`` says how a model takes these after its fit, if it does.
        """
        side = _side(self.argument)
        places = ids.rows(self.labels, missing=-1)
        unused = int((places < 0).sum())
        if len(ids) and unused == len(places):
            raise InputValueError(
                f"`{self.argument}` has a row for none of the {side}s: its ids are like "
                f"{_examples(self.labels)}, theirs like {_examples(ids.labels)}"
            )
        without = len(ids) - (len(places) - unused)
        if without and of_fit:
            _log.log(
                logging.WARNING if 2 * without > len(ids) else logging.INFO,
                Notice(
                    f"`{self.argument}`: {without:,} of {counted(len(ids), side)} of the "
                    "interactions have no row, and so no features of their own"
                ),
            )
        if unused and of_fit:
            _log.warning(
                Notice(
                    f"`{self.argument}`: {counted(unused, 'row')} of {side}s that the interactions "
                    f"do not have, not used in this fit{later}"
                ),
            )
        return places


class _Read(NamedTuple):
    """The parts of a :class:`FeatureTable`, whose labels are as they were given."""

    labels: NDArray[Any]
    columns: dict[Hashable, NDArray[Any]]
    texts: dict[Hashable, NDArray[Any]]
    categories: frozenset[Hashable] = frozenset()


class _Table(NamedTuple):
    """A table before it is known which of its columns has the ids."""

    names: list[Hashable]
    read: Callable[[Hashable], NDArray[Any]]
    read_ids: Callable[[Hashable], NDArray[Any]]
    index: Any = None


def is_unnamed(column: Hashable) -> bool:
    """Whether a column's name is that of an unnamed index written to a file."""
    return _UNNAMED.fullmatch(str(column).strip()) is not None


def place_of_ids(header: Sequence[str], side: str = "item") -> int:
    """The column of ids in a text table with names of items: by its name, else the first.

    A column such as ``film`` may hold titles. It counts only if its name ends with "id", or if the
    first column is an unnamed index.
    """
    found = id_columns(header, side)
    sure = [
        name
        for name in found
        if is_unnamed(header[0]) or re.sub("[^a-z]", "", str(name).lower()) == side
    ]
    sure = sure or [name for name in found if str(name).strip().lower().endswith("id")]
    return header.index(str(sure[0])) if sure else 0


def _of_frame(argument: str, frame: Any, side: str) -> _Read:
    names, read = columns_reader(frame)
    index = frame.index if hasattr(type(frame), "iloc") else None
    labels, columns = _divided(argument, _Table(names, read, read, index), side)
    categories = _categories(frame, columns)
    return _Read(labels, columns, categories, frozenset(categories))


def _categories(frame: Any, columns: dict[Hashable, NDArray[Any]]) -> dict[Hashable, NDArray[Any]]:
    """The categories that are numbers, as texts."""
    return {
        name: objects(None if is_missing(each) else as_kind(each) for each in column.tolist())
        for name, column in columns.items()
        if column.dtype.kind in "iuf" and is_categorical(frame, name)
    }


def _divided(
    argument: str, table: _Table, side: str
) -> tuple[NDArray[Any], dict[Hashable, NDArray[Any]]]:
    """The ids, and all columns that are features."""
    repeated = next((name for name in table.names if table.names.count(name) > 1), None)
    if repeated is not None:
        raise InputValueError(f"`{argument}` has two columns {shown(repeated)}", "rename one")
    unnamed = [name for name in table.names if is_unnamed(name)]
    features = [name for name in table.names if name not in unnamed]
    columns = id_columns(features, side)
    if len(columns) > 1:
        raise _not_one(argument, "several columns that may be", table.names, side)
    indexes = list(_indexes(table, unnamed, side))
    meaning = [each for each in indexes if each.has_meaning]
    if columns:
        (column,) = columns
        if meaning:
            raise InputValueError(
                f"`{argument}` has two sources of ids, {meaning[0].what} and the column "
                f"{shown(column)}:",
                "remove the index with `reset_index(drop=True)`, or the column with "
                f"`drop(columns={shown(column)})`",
            )
        labels = table.read_ids(column)
        return labels, {name: table.read(name) for name in features if name != column}
    if len(meaning or indexes) != 1:
        raise _not_one(argument, "no column that looks like", table.names, side)
    (index,) = meaning or indexes
    if not index.has_meaning:
        _log.warning(
            "%s has no column of ids, and %s is taken for them; call it %r if it is, or call the "
            "column of ids so",
            *(argument, index.what, side),
        )
    return index.labels(), {name: table.read(name) for name in features}


class _Index(NamedTuple):
    """An index that may be the ids; it has a meaning unless it is numbers without a name."""

    what: str
    labels: Callable[[], NDArray[Any]]
    has_meaning: bool


def _indexes(table: _Table, unnamed: list[Hashable], side: str) -> Iterator[_Index]:
    """The index of a DataFrame that does not just count rows, and such as became columns."""
    index, other = table.index, "user" if side == "item" else "item"
    if index is not None and not (type(index).__name__ == "RangeIndex" and index.name is None):
        labels, name = np.asarray(index), index.name
        of_other = not guess([name], side) and guess([name], other)
        like = f"its index (like {_examples(labels)})"
        if name is not None:
            like = f"its index {shown(name)} (like {_examples(labels)})"
        if not of_other:
            yield _Index(like, lambda: labels, name is not None or labels.dtype.kind not in "iuf")
    for name in unnamed:
        values = table.read(name)
        like = f"its column {shown(name)} (like {_examples(values)})"
        yield _Index(like, partial(table.read_ids, name), values.dtype.kind not in "iuf")


def _not_one(argument: str, found: str, names: list[Hashable], side: str) -> InputValueError:
    columns = ", ".join(map(shown, names[:10]))
    return InputValueError(
        f"`{argument}` has {found} the ids of the {side}s:",
        f"name it {side!r}; its columns are {columns}",
    )


def _of_file(argument: str, given: str | os.PathLike[str], side: str) -> _Read:
    path = _one_file(argument, given)
    if (kind := known_kind(path)) == ".parquet":
        with needs("parquet", "parquet files need pyarrow"):
            import pyarrow.parquet
        with faults_named(local_file(path)):
            table = pyarrow.parquet.read_table(for_library(path))
        return _of_frame(argument, table, side)
    if kind not in _SEPARATORS:
        raise InputValueError(f"`{argument}` must be a .csv, .tsv or .parquet file, got {path}")
    try:
        rows = [row for _, row in text_rows(path, _SEPARATORS[kind])]
    except ValueError as error:
        raise within(f"`{argument}`", error) from None
    if not rows:
        raise InputValueError(
            f"`{argument}`: {path} is empty; its first line must name the columns"
        )
    names, *rows = rows
    if len(names) == 1:
        raise InputValueError(
            f"`{argument}`: {path} has one column, {shown(names[0])}; fields of a .csv file are "
            "separated by commas, those of a .tsv file by tabs:",
            "write it so, or pass a DataFrame",
        )
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise InputValueError(
                f"`{argument}`: {path} has {len(names)} columns, and row {number} has {len(row)} "
                "fields",
                "quote fields with separators",
            )

    def fields(name: Hashable) -> list[str]:
        at = names.index(str(name))
        return [row[at] for row in rows]

    table = _Table(
        list(names),
        lambda name: _typed(fields(name)),
        lambda name: Fields.of(_given(argument, fields(name))).ids(),
    )
    labels, columns = _divided(argument, table, side)
    texts = {name: objects(field or None for field in fields(name)) for name in columns}
    return _Read(labels, columns, texts)


def _one_file(argument: str, given: str | os.PathLike[str]) -> Path:
    """The file, which may be elsewhere."""
    try:
        if not is_url(given) or path_of(given).exists():
            refuse_elsewhere(given)
            return path_of(given)
        if is_database(str(given)):
            raise InputValueError(
                f"{without_password(str(given))} is a database:",
                "pass the DataFrame that `pandas.read_sql` makes of a query",
            )
        file, *more = files_at(given, argument)
        if more:
            raise InputValueError(
                f"{without_password(str(given))} has {1 + len(more)} files:", "pass one file"
            )
    except ValueError as error:
        raise within(f"`{argument}`", error) from None
    return file


def _given(argument: str, ids: list[str]) -> list[str]:
    """The ids; raise ValueError if one is empty."""
    row = next((row for row, field in enumerate(ids) if not field.strip()), None)
    if row is not None:
        raise InputValueError(f"`{argument}`: ids must not be missing, got none in row {row}")
    return ids


def _typed(fields: list[str]) -> NDArray[Any]:
    """A column of text: numbers if all fields that are not empty are, and none begins with 0.

    Zeros before other digits are those of codes, such as 01234.
    """
    try:
        if any(map(_CODE.match, fields)):
            return objects(field or None for field in fields)
        return np.array([float(field) if field else np.nan for field in fields])
    except ValueError:
        return objects(field or None for field in fields)


def _examples(labels: NDArray[Any]) -> str:
    return ", ".join(map(shown, labels[:3].tolist()))

"""What the files of one table share: their columns, and keys in the names of their folders.

Spark and others write a table as a folder of files, and a column of few values as folders named by
it (Hive partitions): ``date=2024-01-31/part-0.parquet``. Such a key is a column of the files in its
folder, unless they have a column for its role themselves.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, TypeVar
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted
from mfrank.data.columns import BadRow, Chosen, guess, has_marks_of_rows, in_column
from mfrank.data.fields import Fields, IdsAs
from mfrank.data.notes import log as _log
from mfrank.data.times import hold_dates, text_moments
from mfrank.errors import InputValueError

_Rows = TypeVar("_Rows")
_MISSING = {"", "__HIVE_DEFAULT_PARTITION__"}


class NoRowsError(InputValueError):
    """A file has no rows, which is no error if others of its table have some."""

    __module__ = "mfrank"


def none_in(files: Sequence[object]) -> NoRowsError:
    """The error of files that all have no rows."""
    return NoRowsError(f"none of {counted(len(files), 'file')}, such as {files[0]}, has rows")


@dataclass
class TableParts:
    """What the files of a table that were read so far had.

    Attributes
    ----------
    said : set of str
        Lines logged, which are not logged again.
    first : str
        The first file with rows; empty if there is none so far.
    roles : mapping of role to column
        Of that file.
    names, separator : sequence of str, str
        Of the header of the first text file, if it has one; its separator.
    has_rows : bool
        Whether one of the files has rows.
    """

    said: set[str] = field(default_factory=set)
    first: str = ""
    roles: Mapping[str, Hashable] = field(default_factory=dict)
    names: Sequence[str] = ()
    separator: str = ""
    has_rows: bool = False

    def has_none_of(self, row: Sequence[str]) -> bool:
        """Whether the first file has a header, and this first row of another one has none of it.

        Only the first of the files into which ``split`` cuts a text has its header.
        """
        if not self.names or not set(self.names).isdisjoint(row):
            return False
        if len(row) != len(self.names):
            raise self._differ({f"column {n}": name for n, name in enumerate(row, 1)})
        return True

    def check(self, file: str, roles: Mapping[str, Hashable]) -> None:
        """Raise ValueError if a file has other columns than the first."""
        if not self.first:
            self.first, self.roles = file, dict(roles)
        elif roles != self.roles:
            raise self._differ(roles)

    def with_rows(self, portions: Iterator[_Rows], file: str, *, alone: bool) -> Iterator[_Rows]:
        """The portions of a file; one of several may have none, which is told."""
        try:
            for portion in portions:
                self.has_rows = True
                yield portion
        except NoRowsError:
            if alone:
                raise
            if file not in self.said:
                _log.info("%s has no rows", file)
            self.said.add(file)

    def _differ(self, roles: Mapping[str, Hashable]) -> InputValueError:
        here, there = (
            ", ".join(f"{r} {c!r}" for r, c in each.items()) for each in (roles, self.roles)
        )
        odd, remedy = roles.keys() ^ self.roles.keys(), "pass the files of one table"
        if odd <= {"value", "timestamp"} and odd:
            remedy = "or read all without: " + ", ".join(f"`{role}=False`" for role in sorted(odd))
        return InputValueError(
            f"its columns differ from those of {self.first}: {here} in place of {there}", remedy
        )


@dataclass(frozen=True)
class TablePart:
    """A file as a part of a table.

    Attributes
    ----------
    file : str
    keys : mapping of str to str
        Keys of the folders in its path, and their values.
    table : TableParts
    """

    file: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    table: TableParts = field(default_factory=TableParts)

    @classmethod
    def of(cls, path: str | os.PathLike[str], table: TableParts) -> TablePart:
        """The part that a file is, by its path."""
        folders = [folder.partition("=") for folder in PurePath(path).parent.parts]
        keys = {unquote(key): unquote(value) for key, is_key, value in folders if is_key and key}
        return cls(str(path), keys, table)

    def names(self, names: Sequence[Hashable], chosen: Chosen) -> list[Hashable]:
        """Names of the columns that may have a role: the file's, and keys that it lacks."""
        keys = [key for key in self.keys if key not in names]
        wanted = {role for role, column in chosen.items() if column is None}
        wanted -= {role for role in wanted if guess(names, role)}
        picked = set(chosen.values()).union(*(guess(keys, role) for role in wanted))
        return [*names, *(key for key in keys if key in picked)]

    def all_names(self, names: Sequence[Hashable]) -> list[Hashable]:
        """Names of the file's columns and of all keys that it lacks."""
        return [*names, *(key for key in self.keys if key not in names)]

    def key_has_dates(self, name: Hashable) -> bool:
        """Whether a key of a folder is a date."""
        return hold_dates([self.keys[str(name)]])

    def key_marks_rows(self, name: Hashable) -> bool:
        """Whether a key of a folder, such as ``is_deleted``, marks the rows in it."""
        return self.keys[str(name)] not in _MISSING and has_marks_of_rows([self.keys[str(name)]])

    def keyed(self, names: Sequence[Hashable], roles: Mapping[str, Hashable]) -> dict[str, str]:
        """Role -> key, of the roles whose column is a key of a folder.

        Raises
        ------
        ValueError
            A folder has no value for a key that has a role.
        """
        keyed = {r: str(key) for r, key in roles.items() if key not in names and key in self.keys}
        for role, key in keyed.items():
            if self.keys[key] in _MISSING:
                raise InputValueError(
                    f"the {role} is missing in the name of the folder {key}={self.keys[key]}",
                    "leave this folder out, or rename it",
                )
        return keyed

    def constants(self, keyed: Mapping[str, str], ids: IdsAs, n_rows: int) -> dict[str, Any]:
        """The columns of the keys that have a role, for so many rows."""
        return {role: self._constant(role, key, ids, n_rows) for role, key in keyed.items()}

    def _constant(self, role: str, key: str, ids: IdsAs, n_rows: int) -> Any:
        text = self.keys[key]
        one = Fields.of([text])
        try:
            if role == "timestamp":
                when = text_moments(one, None)
                return when._replace(numbers=np.repeat(when.numbers, n_rows))
            found: NDArray[Any] = one.values() if role == "value" else one.ids(ids)
        except BadRow as error:
            raise in_column(error.what, role, key, text, f"folder {key}={text}") from error
        return np.repeat(found, n_rows)

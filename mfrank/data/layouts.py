"""Layout of delimited text: rows with line numbers, the header, and the roles of columns."""

from __future__ import annotations

import csv
import itertools
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from mfrank.arrays.checks import shown
from mfrank.arrays.counted import counted
from mfrank.data.columns import ROLES, Chosen, assign, guess, ignored_roles

__all__ = ["DOUBLE_COLON", "NUMBER", "Layout", "check_separator", "layout_of", "rows"]

DOUBLE_COLON = "::"
"""The separator of MovieLens 1M and 10M, the only one of two characters."""

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_MARKS = ("\t", ",", ";", "|", DOUBLE_COLON)
_ONE_FIELD = "\x1f"  # stands for two colons, because the csv module takes one character

_log = logging.getLogger("mfrank")


@dataclass(frozen=True)
class Layout:
    """How to read a file.

    Attributes
    ----------
    separator : str
    width : int
        Fields of a row.
    names : sequence of str
        Names of the columns; empty if the file has no header.
    fields : mapping of role -> field
        Fields are counted from 0.
    """

    separator: str
    width: int
    names: Sequence[str]
    fields: Mapping[str, int]

    @property
    def has_header(self) -> bool:
        """Whether the first row has the names of the columns."""
        return bool(self.names)

    def column(self, role: str) -> str | int:
        """Name of the role's column, or its number from 1 if the file has no header."""
        field = self.fields[role]
        return self.names[field] if self.names else field + 1


def layout_of(text: IO[str], separator: str | None, usual: str | None, chosen: Chosen) -> Layout:
    """Detect the layout of a file from its first two rows.

    Parameters
    ----------
    text : text file
    separator : str or None
        None detects it.
    usual : str or None
        What separates fields in most files of this kind; None if there is no such separator.
    chosen : mapping of role -> column, None or False
    """
    start, filled = list[str](), 0
    for line in text:
        start.append(line)
        filled += bool(line.strip())
        if filled == 2:
            break
    separator = separator or _separator_of(start, usual)
    found = [row for _, row in itertools.islice(rows(itertools.chain(start, text), separator), 2)]
    if not found:
        raise ValueError("the file is empty")
    names = [name.strip() for name in found[0]]
    if _is_header(found, chosen):
        fields = {role: names.index(str(name)) for role, name in assign(names, chosen).items()}
        return Layout(separator, len(names), names, fields)
    if not 2 <= len(names) <= len(ROLES):
        raise ValueError(
            f"no header, and {counted(len(names), 'column')} separated by {separator!r}, whose "
            "roles are unknown; add a header with the names user, item, value, timestamp, or name "
            "the separator with sep="
        )
    ignored, roles = ignored_roles(chosen), ROLES[: len(names)]
    _log.info("no header found; columns taken as %s", ", ".join(roles))
    fields = {role: field for field, role in enumerate(roles) if role not in ignored}
    return Layout(separator, len(names), (), fields)


def check_separator(separator: str | None) -> None:
    """Raise ValueError unless it is None, one character that can separate, or two colons."""
    one = isinstance(separator, str) and len(separator) == 1 and separator not in '"\r\n\0'
    if not (separator is None or one or separator == DOUBLE_COLON):
        raise ValueError(
            f"sep must be one character, such as ';' or '\\t', or '::', got {shown(separator)}"
        )


def _separator_of(start: Sequence[str], usual: str | None) -> str:
    """The mark that splits the first two lines into equally many fields, and into most.

    Marks that split off a column name that is known go first, above all the usual one.
    """
    marks = [usual, *_MARKS] if usual else [*_MARKS, " "]
    best, most = None, (False, 1)
    for mark in marks:
        fields = _split(start, mark)
        known = any(guess(row, role) for row in fields[:1] for role in ROLES)
        if known and mark == usual:
            return mark
        widths = {len(row) for row in fields}
        if len(widths) == 1 and (known, widths.pop()) > most:
            best, most = mark, (known, len(fields[0]))
    return best or usual or next((mark for mark in marks if mark in "".join(start)), " ")


def _split(start: Sequence[str], mark: str) -> list[list[str]]:
    """The rows, less empty fields at their ends; none if a quote is closed in a later line."""
    try:
        found = [row for _, row in rows(start, mark)]
    except ValueError:
        return []
    for row in found:
        while row and not row[-1]:
            row.pop()
    return found


def rows(lines: Iterable[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not blank, with the line it begins on, counted from 1.

    Raises
    ------
    ValueError
        A quote is opened and never closed, or a field is longer than the csv module accepts.
    """
    # An extra blank line is an empty row at the end, unless a quote is still open.
    closed: Iterable[str] = itertools.chain(lines, ["\n"])
    if separator == DOUBLE_COLON:
        closed = (line.replace(DOUBLE_COLON, _ONE_FIELD) for line in closed)
        separator = _ONE_FIELD
    reader = csv.reader(closed, delimiter=separator, skipinitialspace=True)
    line, begin, row = 1, 1, list[str]()
    try:
        for row in reader:
            line, begin = begin, reader.line_num + 1
            if len(row) > 1 or any(field.strip(" \t") for field in row):
                yield line, row
    except csv.Error as error:
        raise ValueError(
            f"line {begin}: {error}; is a quote opened there and not closed?"
        ) from error
    if row:
        raise ValueError(f"line {line}: a quote is opened there and not closed")


def _is_header(found: Sequence[Sequence[str]], chosen: Chosen) -> bool:
    named = any(name is not None and name is not False for name in chosen.values())
    if named or any(guess(found[0], role) for role in ROLES):
        return True
    first, *rest = ([bool(NUMBER.fullmatch(field.strip())) for field in row] for row in found)
    return not any(first) and any(itertools.chain(*rest))

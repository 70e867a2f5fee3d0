"""Rows of delimited text by the csv module, which defines what a line means; what quotes join.

In a file whose fields are not quoted, such as most with tabs, a field may begin with a quote: the
rows up to the next quote then become one field. So rows of several lines are always told, and
refused if each of their lines is a row by itself. Text after a closing quote is told, too.
"""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from mfrank.arrays import counted, shown
from mfrank.errors import InputValueError

AS_USUAL = "auto"
"""Fields may stand in double quotes, and what else a quote may mean is told or refused."""

DOUBLE_COLON = "::"
"""The separator of MovieLens 1M and 10M, the only one of two characters."""
_ONE_FIELD = "\x1f"  # stands for two colons, because the csv module takes one character

Tell = Callable[[int, str], None]
"""Logs one line at a level."""

_OF_CALLER = "pass `quote=None` if quotes are part of the text, `quote='\"'` if they enclose fields"
_NO_END = "opened there and not closed"


def check_quote(quote: str | None, sep: str | None) -> None:
    """Raise ValueError unless it is "auto", None, or one character that can be a quote."""
    one = isinstance(quote, str) and len(quote) == 1 and quote not in f" \r\n\0{sep or ''}"
    if not (quote is None or quote == AS_USUAL or one):
        raise InputValueError(
            f"`quote` must be 'auto', None or one character other than sep, got {shown(quote)}"
        )


class Quotes:
    """The quotes of a text, checked row by row.

    Parameters
    ----------
    separator : str
    quote : "auto", str or None
        With "auto", the quote is ``"``, and a row that has swallowed others is an error. With None,
        there are no quotes.
    width : int, optional
        Number of fields in a row; by default, any number that all lines of a row share.
    remedy : str, optional
        What to do if quotes are part of the text.
    """

    def __init__(
        self,
        separator: str,
        quote: str | None,
        width: int | None = None,
        remedy: str = _OF_CALLER,
    ) -> None:
        self.width, self.remedy = width, remedy
        self.mark = '"' if quote == AS_USUAL else quote
        self._is_sure, self._separator = quote != AS_USUAL, separator
        self._joined, self._first_joined = 0, (0, 0)
        self._loose, self._first_loose = 0, 0
        if self.mark is not None:
            self._strict = _row_pattern(separator, self.mark)

    def row(self, begin: int, lines: Sequence[str]) -> None:
        """Record a row that begins in this line; raise ValueError if it is several rows."""
        end = begin + len(lines) - 1
        if end > begin:
            if not self._is_sure and self._are_rows(lines):
                raise InputValueError(
                    f"lines {begin} to {end} would be one row, because a quote is opened in line "
                    f"{begin} and closed in line {end}",
                    self.remedy,
                    place=f"lines {begin} to {end}",
                )
            self._joined += 1
            if self._joined == 1:
                self._first_joined = begin, end
        if not self._strict.fullmatch("".join(lines).rstrip("\r\n") + "\n"):
            self._loose += 1
            if self._loose == 1:
                self._first_loose = begin

    def told(self, tell: Tell) -> None:
        """Log the findings, after the whole text has been read."""
        level = logging.INFO if self._is_sure else logging.WARNING
        if self._joined:
            begin, end = self._first_joined
            tell(
                level,
                f"quotes join several lines to one in {counted(self._joined, 'row')}, the first "
                f"from line {begin} to {end}; {self.remedy}",
            )
        if self._loose:
            tell(
                level,
                f"text follows a closing quote in {counted(self._loose, 'row')}, the first in line "
                f"{self._first_loose}, and the quotes around what precedes it are dropped; "
                f"{self.remedy}",
            )

    def open_error(self, line: int) -> InputValueError:
        """The error of a quote that is opened in this line and never closed."""
        return InputValueError(f"a quote is {_NO_END}", self.remedy).within(f"line {line}")

    def _are_rows(self, lines: Sequence[str]) -> bool:
        """Whether each line has all fields of a row, two or more, if quotes are text."""
        width = self.width or self._width_of(lines[0])
        if width < 2 or self._width_of(lines[0]) != width:  # nearly always, without a generator
            return False
        return all(self._width_of(line) == width for line in lines)

    def _width_of(self, line: str) -> int:
        if self._separator == " ":
            return len(line.split())
        return line.count(self._separator) + 1


def _row_pattern(separator: str, mark: str) -> re.Pattern[str]:
    """Of a row and its line break, without text after a closing quote."""
    mark, between = re.escape(mark), re.escape(separator)
    text = rf"(?:(?!{between})[^\r\n])*+"
    quoted = rf" *{mark}(?:[^{mark}]++|{mark}{mark})*+{mark}"
    field = rf"(?:{quoted}|(?! *{mark}){text})"
    return re.compile(rf"{field}(?:{between}{field})*+\r?\n")


class TextRow(NamedTuple):
    """A row, the number of its lines, and whether these end before its last quote is closed."""

    fields: list[str]
    n_lines: int
    is_open: bool = False

    @property
    def is_blank(self) -> bool:
        """Whether it has nothing but blanks."""
        return len(self.fields) < 2 and not any(field.strip(" \t") for field in self.fields)


class RowReader:
    """Reads a row at a time, from whichever lines follow.

    Parameters
    ----------
    separator : str
    quotes : Quotes
        Gets each row that has a quote.
    keep_blanks : bool, default False
        Whether spaces before a field are kept.
    """

    def __init__(self, separator: str, quotes: Quotes, *, keep_blanks: bool = False) -> None:
        mark = quotes.mark
        self._separator, self._quotes = separator, quotes
        self._lines: Iterator[str] = iter(())
        self._own = list[str]()
        self._ran_out = False
        self._reader = csv.reader(
            self._fed(),
            delimiter=_ONE_FIELD if separator == DOUBLE_COLON else separator,
            skipinitialspace=not keep_blanks,
            quoting=csv.QUOTE_NONE if mark is None else csv.QUOTE_MINIMAL,
            quotechar=mark or '"',
        )

    def _fed(self) -> Iterator[str]:
        for line in iter(lambda: next(self._lines, ""), ""):
            self._own.append(line)
            line = line if line.endswith(("\n", "\r")) else f"{line}\n"
            yield line if self._separator != DOUBLE_COLON else line.replace("::", _ONE_FIELD)
        self._ran_out = True

    def row(self, line: int, lines: Iterator[str]) -> TextRow | None:
        """Read the row that begins in this line; None if there are no more lines.

        Raises
        ------
        ValueError
            A quote joins rows, or a field is longer than the csv module accepts.
        """
        self._lines = lines
        self._own.clear()
        own, quotes = self._own, self._quotes
        try:
            fields = next(self._reader, None)
        except csv.Error as error:
            problem = f"{error}; is a quote {_NO_END}?"
            raise InputValueError(problem, quotes.remedy).within(f"line {line}") from error
        if fields is None:
            return None
        if self._ran_out:
            return TextRow(fields, len(own), is_open=True)
        if quotes.mark is not None and quotes.mark in own[0] and fields:
            quotes.row(line, own)
        return TextRow(fields, len(own))


def rows(
    lines: Iterable[str], separator: str, quotes: Quotes, *, keep_blanks: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield each non-blank row with the number, from 1, of its first line.

    Spaces before a field are dropped unless ``keep_blanks``. The first row sets the width of the
    quotes, if it is not set.

    Raises
    ------
    ValueError
        A quote is opened and never closed, or joins rows, or a field is longer than the csv module
        accepts.
    """
    reader, line, lines = RowReader(separator, quotes, keep_blanks=keep_blanks), 1, iter(lines)
    while (row := reader.row(line, lines)) is not None:
        if row.is_open:
            raise quotes.open_error(line)
        if not row.is_blank:
            quotes.width = quotes.width or len(row.fields)
            yield line, row.fields
        line += row.n_lines

"""Quotes of delimited text: what they join is found, told, or refused.

In a file whose fields are not quoted, such as most with tabs, a field may begin with a quote: the
rows up to the next quote then become one field. So rows of several lines are always told, and
refused if each of their lines is a row by itself. Text after a closing quote is told, too.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import shown
from mfrank.arrays.counted import counted
from mfrank.data.text_files import LONGEST_LINE

__all__ = ["AS_USUAL", "Quotes", "Tell", "check_quote"]

AS_USUAL = "auto"
"""Fields may stand in double quotes, and what else a quote may mean is told or refused."""

Tell = Callable[[int, str], None]
"""Logs one line at a level."""

_OF_CALLER = "pass quote=None if quotes are part of the text, quote='\"' if they enclose fields"
_NEW_LINE = ord("\n")


def check_quote(quote: str | None, sep: str | None) -> None:
    """Raise ValueError unless it is "auto", None, or one character that can be a quote."""
    one = isinstance(quote, str) and len(quote) == 1 and quote not in f" \r\n\0{sep or ''}"
    if not (quote is None or quote == AS_USUAL or one):
        raise ValueError(
            f"quote must be 'auto', None or one character other than sep, got {shown(quote)}"
        )


class Quotes:
    """The quotes of one text, row by row; or of all of it, in parts.

    Parameters
    ----------
    separator : str
    quote : "auto", str or None
        With "auto" the quote is ``"``, and a row that has swallowed others is an error. With None
        there are no quotes.
    width : int, optional
        Fields of a row; by default, any number that all lines of a row share.
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
        self._rest, self._line = "", 1
        if self.mark is not None:
            self._strict = _row_pattern(separator, self.mark, loose=False)
            self._row = _row_pattern(separator, self.mark, loose=True)

    def row(self, begin: int, lines: Sequence[str], *, is_loose: bool | None = None) -> None:
        """Note a row that begins in this line, and raise ValueError if it is several rows.

        ``is_loose`` is whether text follows a closing quote in it, if that is known.
        """
        end = begin + len(lines) - 1
        if end > begin:
            if not self._is_sure and self._are_rows(lines):
                raise ValueError(
                    f"lines {begin} to {end} would be one row, because a quote is opened in line "
                    f"{begin} and closed in line {end}; {self.remedy}"
                )
            self._joined += 1
            if self._joined == 1:
                self._first_joined = begin, end
        if is_loose is None:
            is_loose = not self._strict.fullmatch("".join(lines).rstrip("\r\n") + "\n")
        if is_loose:
            self._loose += 1
            if self._loose == 1:
                self._first_loose = begin

    def scan(self, part: str) -> None:
        """Note the rows of the next part of a text whose lines end in line feeds; "" is its end.

        Raises
        ------
        ValueError
            As :meth:`row`, or a quote is never closed.
        """
        if self.mark is None:
            return
        text = self._rest + (part or "\n" * bool(self._rest))
        whole = text.rfind("\n") + 1
        if self.mark not in text:
            self._line += text.count("\n", 0, whole)
            self._rest = text[whole:]
            return
        at, counted_to = 0, 0
        for start in _odd_lines(text[:whole], self._separator, self.mark):
            if start < at:
                continue
            self._line += text.count("\n", counted_to, start)
            counted_to = start
            found = self._strict.match(text, start) or self._row.match(text, start)
            if found is None:  # its end is in a later part
                if not part or len(text) - start > LONGEST_LINE:
                    raise ValueError(f"line {self._line}: a quote is opened there and not closed")
                self._rest = text[start:]
                return
            lines = found[0][:-1].split("\n")
            self.row(self._line, lines, is_loose=found.re is self._row)
            at = found.end()
        self._line += text.count("\n", counted_to, whole)
        self._rest = text[whole:]

    def told(self, tell: Tell) -> None:
        """Tell what was noted, once the text has been read."""
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


def _row_pattern(separator: str, mark: str, *, loose: bool) -> re.Pattern[str]:
    """Of a row and its line break; a loose one may have text after a closing quote."""
    mark, between = re.escape(mark), re.escape(separator)
    text = rf"(?:(?!{between})[^\r\n])*+"
    quoted = rf" *{mark}(?:[^{mark}]++|{mark}{mark})*+{mark}" + text * loose
    field = rf"(?:{quoted}|(?! *{mark}){text})"
    return re.compile(rf"{field}(?:{between}{field})*+\r?\n")


def _odd_lines(text: str, separator: str, mark: str) -> list[int]:
    """Where lines begin whose quotes do not simply enclose fields, at least those.

    In any other line quotes come in pairs, each opened where a field begins and closed where it
    ends. This is found for all lines at once, because most texts with quotes have many.
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    quotes = np.flatnonzero(codes == ord(mark))
    ends = np.flatnonzero(codes == _NEW_LINE)
    lines = np.searchsorted(ends, quotes)
    first = np.searchsorted(lines, lines)  # of the quotes of the same line
    opens = (np.arange(len(quotes)) - first) % 2 == 0
    before, behind = codes[quotes - 1], codes[np.minimum(quotes + 1, len(codes) - 1)]
    before[quotes == 0] = _NEW_LINE
    enters = _is_one_of(before, f"\n {separator[-1]}")
    begins = enters | (before == ord(mark))
    closes = _is_one_of(behind, f"\r\n{separator[0]}{mark}")
    odd = np.where(opens, ~begins, ~closes)
    last = np.append(lines[1:] != lines[:-1], True)
    odd |= last & opens  # one that is opened and not closed
    may_open = np.zeros(len(ends) + 1, dtype=bool)  # in all other lines quotes are text
    may_open[lines[enters]] = True
    starts = np.concatenate([[0], ends + 1])
    found: list[int] = starts[np.unique(lines[odd & may_open[lines]])].tolist()
    return found


def _is_one_of(codes: NDArray[np.uint32], characters: str) -> NDArray[np.bool_]:
    found = np.zeros(len(codes), dtype=bool)
    for character in characters:
        found |= codes == ord(character)
    return found

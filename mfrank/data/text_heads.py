"""What is above the rows of a table: comments, of which the last may name the columns; ``sep=;``.

Lines that a console draws around a header are refused.

Lines that begin with # or % are comments if they stand above all rows, and a blank or a further
mark follows, or they have another number of fields than the rows: ``#cats,7`` may be a user. In
the midst of rows only ``comment=`` skips lines, so that no row is lost in silence.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from mfrank.arrays import counted, shown
from mfrank.data.columns import ROLES, Chosen, guess
from mfrank.data.table_parts import NoRowsError
from mfrank.data.text_rows import Tell
from mfrank.errors import InputValueError

_MARKED = re.compile(r"[#%]")
_COMMENT = re.compile(r"[#%](?:[\s#%]|$)")
_MARKS = re.compile(r"[#%]+\s*")
_KONECT = re.compile(r"% *(?:sym|asym|bip) ")
_RULER = re.compile(
    r'(?=[-=+|:,;"\s\u2500-\u257f]++\Z)(?:(?=.*(?:--|==)).*[-=][^-=]+[-=]|.*[\u2500-\u257f])'
)
"""A line that consoles and Markdown draw at a header, such as ``----,----`` or ``|:--|--:|``."""
_EXCEL = re.compile(r'"?sep=(.)"?[\r\n]*$')

Divided = Callable[[str], list[str]]
"""Divides a line into fields, without blanks around them."""


class Head(NamedTuple):
    """The lines above the rows, and the first two rows at least.

    Attributes
    ----------
    above : sequence of str
        Lines that are no rows, or may be none: comments, blank ones, and Excel's.
    separator : str or None
        What Excel's line names.
    start : list of str
        The lines after these, up to the second that is not blank.
    """

    above: Sequence[str]
    separator: str | None
    start: list[str]

    @property
    def tabs_are_blanks(self) -> bool:
        """Whether it is of KONECT, whose fields are separated by both."""
        return any(map(_KONECT.match, self.above))

    @classmethod
    def of(cls, lines: Iterator[str], comment: str | None) -> Head:
        """Read the head from the lines, which go on after it."""
        above, start, separator, filled = list[str](), list[str](), None, 0
        for line in lines:
            if not start and not any(map(str.strip, above)) and (excel := _EXCEL.match(line)):
                separator = excel[1]
                above.append(line)
            elif not filled and (not line.strip() or _is_marked(line, comment)):
                above.append(line)
            elif not (comment and line.startswith(comment)):
                start.append(line)
                filled += bool(line.strip())
                if filled == 2:
                    break
            else:
                start.append("\n")  # so that lines are counted
        return cls(above, separator, start)

    def refuse_rulers(self) -> None:
        """Raise ValueError if one of the first lines is drawn around a header."""
        for number, line in enumerate(self.start, len(self.above) + 1):
            refuse_ruler(line, number, may_skip=number > 1)

    def settled(
        self, divided: Divided, chosen: Chosen, header: bool | None, comment: str | None, tell: Tell
    ) -> tuple[int, Sequence[str]]:
        """The number of lines that are no rows, and the names of columns that the last has.

        What is skipped is logged.
        """
        rows = [divided(line) for line in self.start if line.strip()]
        names = self._names(divided, rows, chosen, header)
        sure = [at for at, line in enumerate(self.above) if self._is_sure(line, comment)]
        n_lines = len(self.above)
        for at, line in enumerate(self.above):
            is_header = bool(names) and at == self._last
            alike = not rows or len(divided(line)) == len(rows[0])
            if line.strip() and at not in sure and not is_header and alike:
                n_lines = at  # rows begin with it
                names = ()
                break
        self._tell(n_lines - bool(names), rows, divided, tell)
        return n_lines, names

    @property
    def _last(self) -> int:
        filled = [at for at, line in enumerate(self.above) if line.strip()]
        return filled[-1] if filled else -1

    def _is_sure(self, line: str, comment: str | None) -> bool:
        marked = bool(_COMMENT.match(line) or (comment and line.startswith(comment)))
        return marked or _EXCEL.match(line) is not None

    def _names(
        self,
        divided: Divided,
        rows: Sequence[Sequence[str]],
        chosen: Chosen,
        header: bool | None,
    ) -> Sequence[str]:
        """The fields of the last comment, if it is a header."""
        last = self.above[self._last] if self._last >= 0 else ""
        if header is False or not _MARKED.match(last) or (rows and _are_names(rows[0])):
            return ()
        names = divided(last)
        if rows and len(names) != len(rows[0]):
            names = divided(_MARKS.sub("", last))
            if len(names) != len(rows[0]):
                return ()
        bare = [_MARKS.sub("", name) for name in names]
        is_chosen = any(column in (*names, *bare) for column in chosen.values() if column)
        return names if header or _are_names(names) or is_chosen else ()

    def _tell(
        self, n_lines: int, rows: Sequence[Sequence[str]], divided: Divided, tell: Tell
    ) -> None:
        comments = [each for each in self.above[:n_lines] if _MARKED.match(each)]
        if not comments:
            return
        if not rows:
            raise NoRowsError("the file has comments and no rows")
        last = comments[-1].strip()
        alike = len(divided(_MARKS.sub("", last))) == len(rows[0]) > 1
        alike &= not any(map(_KONECT.match, comments))
        names = "; if the last has the names of the columns, `header=True`" if alike else ""
        tell(
            logging.WARNING if alike else logging.INFO,
            f"{counted(len(comments), 'line')} of comments at the head skipped, the last is "
            f"{shown(last[:60])}{names}",
        )


def refuse_ruler(line: str, number: int, *, may_skip: bool = False) -> None:
    """Raise ValueError if a line is drawn, as around the header of a printed table.

    Fields of such a table may be filled up with blanks, and a count of its rows may follow.
    ``may_skip`` says whether the caller can skip lines by ``comment``.
    """
    if not _RULER.match(line):
        return
    mark = line.strip()[:1]
    skip = f", or skip such lines with `comment={mark!r}`" * (may_skip and mark in "-=")
    raise InputValueError(
        f"{shown(line.strip()[:40])} is a line as consoles draw around tables, and no row",
        f"write the table as CSV, such as by psql --csv, sqlite3 -csv or mysql --batch{skip}",
    ).within(f"line {number}")


def _is_marked(line: str, comment: str | None) -> bool:
    return _MARKED.match(line) is not None or bool(comment and line.startswith(comment))


def _are_names(row: Sequence[str]) -> bool:
    return any(guess(row, role) for role in ROLES)

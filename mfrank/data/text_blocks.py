"""Blocks of delimited text as rows: the fields of the columns that have a role, and their lines.

What a line means is defined by the csv module (:mod:`mfrank.data.text_rows`). But the separators
of a block are found all at once, and so the fields of its ordinary lines, which are nearly all
lines of nearly all files. Odd lines go through the csv module, and are read or refused: those with
quotes that do not simply enclose fields, with another number of fields, with a field that is
missing, and those that may be the header again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted
from mfrank.arrays import ext as _ext
from mfrank.data.columns import MARK, WHERE, has_marks_of_rows, in_column, looks_like_a_mark
from mfrank.data.distinct import Distinct
from mfrank.data.fields import AHEAD, Fields
from mfrank.data.layouts import IF_LISTS, Layout
from mfrank.data.records import Blocks, Rows, TextFormat
from mfrank.data.table_parts import NoRowsError
from mfrank.data.text_files import LONGEST_LINE, Text
from mfrank.data.text_rows import Quotes, RowReader, Tell
from mfrank.errors import InputValueError

Places = NDArray[np.int64]
Which = NDArray[np.bool_]

_is_native: bool = _ext is not None
_FEED, _RETURN, _BLANK = ord("\n"), ord("\r"), ord(" ")
_BYTE_ORDER_MARK = "\ufeff".encode()
_COUNT = re.compile(r"\b(?:row|record)(?:s|\(s\))?\b", re.IGNORECASE)
"""In a line such as ``(2 rows)``, ``2 rows in set`` or ``2 record(s) selected``."""
_MOST_BLANKS = 32
"""Blanks before a field of an ordinary line."""


def table_of(layout: Layout) -> TextFormat:
    """The format of a table."""
    columns = {role: layout.column(role) for role in layout.fields if not role.startswith(MARK)}

    def rows(text: Text, tell: Tell) -> Iterator[Rows]:
        return rows_of(text, layout, tell)

    form = TextFormat(columns, rows, layout.keyed, layout.separator, layout.is_guess)
    if (known := layout.known) is None:
        return form
    return replace(form, fallback=known.fallback, times=known.times)


def rows_of(text: Blocks, layout: Layout, tell: Tell) -> Iterator[Rows]:
    """Yield the rows of each block, valid up to the next, and tell what quotes did in all.

    Raises
    ------
    ValueError
        A row has another form than the first, or there is none.
    """
    splitter, rest = _Splitter(layout), b""
    marks = [role for role in layout.fields if role.startswith(MARK)]
    own = [role for role in layout.fields if role not in marks] if marks else None
    for block in text.blocks():
        block = rest + (block.replace(b"\t", b" ") if layout.tabs_are_blanks else block)
        rows, n_read = splitter.rows(block)
        rest = block[n_read:]
        for role in marks:
            mark = rows.columns[role]
            assert isinstance(mark, Fields)
            if has_marks_of_rows(Distinct().add(mark).present()[0]):
                tell(logging.WARNING, looks_like_a_mark(str(layout.column(role))))
                marks = [each for each in marks if each != role]
        if own is not None:
            rows = rows._replace(columns={role: rows.columns[role] for role in own})
        if len(rest) > LONGEST_LINE and len(rest.decode()) > LONGEST_LINE:
            break
        if len(rows.lines) and splitter.may_lack_users:
            users = rows.columns["user"]
            assert isinstance(users, Fields)
            yield rows._replace(columns={**rows.columns, "user": users.less_point_zero()})
        elif len(rows.lines):
            yield rows
    if rest:
        raise splitter.quotes.open_error(splitter.line)
    if splitter.is_empty:
        raise NoRowsError("the file has a header and no rows")
    splitter.quotes.told(tell)
    if splitter.n_comments:
        lines = counted(splitter.n_comments, "line")
        tell(logging.INFO, f"{lines} of comments skipped, which begin with {layout.comment!r}")
    if splitter.n_nobody:
        what = f"{counted(splitter.n_nobody, 'row')} without {layout.column('user')!r} left out"
        tell(logging.WARNING, f"{what}: it is not known who these are")


class _Lines(NamedTuple):
    """Where the lines of a block begin and end, where the next begins; and which are odd."""

    begins: Places
    ends: Places
    nexts: Places
    odd: Which

    @classmethod
    def of(cls, raw: bytes, codes: NDArray[np.uint8]) -> _Lines:
        """The lines of a block, as each of its ends says."""
        is_end = codes == _FEED
        returns = np.empty(0, np.int64)
        if b"\r" in raw:
            returns = np.flatnonzero(codes == _RETURN)
            is_end[returns[codes[returns + 1] != _FEED]] = True
        ends = np.flatnonzero(is_end)
        nexts = ends + 1
        if len(returns):
            ends = ends - ((codes[ends] == _FEED) & (codes[ends - 1] == _RETURN))
        begins = np.concatenate([[AHEAD], nexts[:-1]])
        return cls(begins, ends, nexts, np.zeros(len(ends), dtype=bool))

    def at(self, places: Places) -> Places:
        """The lines of these places."""
        return np.searchsorted(self.nexts, places, side="right")


class _Splitter:
    """Splits the blocks of one text, one after the other.

    Attributes
    ----------
    quotes : Quotes
    line : int
        Number of the first line of the next block.
    is_empty : bool
        Whether there was no row so far.
    n_comments : int
        Lines that were skipped because they begin with the mark of comments.
    may_lack_users : bool
        Whether rows of this known table are left out if they have no user.
    n_nobody : int
        How many were.
    """

    def __init__(self, layout: Layout) -> None:
        self.quotes = Quotes(layout.separator, layout.quote, layout.width)
        self.line, self.is_empty, self.n_comments, self.n_nobody = 1, True, 0, 0
        self.may_lack_users = (
            layout.known is not None and layout.column("user") == layout.known.lacks
        )
        self._layout = layout
        self._separator = layout.separator.encode()
        self._mark = (self.quotes.mark or "").encode()
        # One character, or the same one twice.
        self._is_usual = len({*self._separator}) == 1 and len(self._separator) <= 2
        self._is_usual &= len(self._mark) <= 1 and next(iter(layout.fields)) == "user"
        self._is_usual &= layout.comment is None
        self._room = _room(len({*layout.fields.values()}), 0)

    def rows(self, block: bytes) -> tuple[Rows, int]:
        """The rows of a block, and the number of bytes before a row that goes on after it."""
        ending = b"" if block.endswith((b"\n", b"\r")) else b"\n"
        raw = b"".join((b"\0" * AHEAD, block, ending, b"\0"))
        n_header = max(self._layout.first_line - self.line, 0)
        rows, odd, n_lines = self._split(raw, n_header)
        n_read, marked = len(block), np.empty(0, np.int64)
        odd = odd[odd + self.line > self._layout.n_above]
        if self._layout.comment is not None:
            codes = np.frombuffer(raw, np.uint8)
            marked = self._marked(codes, _Lines.of(raw, codes))
            odd = np.setdiff1d(odd, marked)
        if len(odd):
            lines, n_all = _Lines.of(raw, np.frombuffer(raw, np.uint8)), n_lines
            rows, n_lines = self._with_odd(raw, lines, rows, odd.tolist())
            if n_lines < n_all:
                n_read = int(lines.begins[n_lines]) - AHEAD
        first = self.line
        among = (marked + first > self._layout.n_above) & (marked < n_lines)
        self.n_comments += int(np.count_nonzero(among))
        self.line += n_lines
        self.is_empty &= not len(rows.lines)
        return Rows(rows.columns, rows.lines + first), n_read

    def _split(self, raw: bytes, n_header: int) -> tuple[Rows, Places, int]:
        """The rows of ordinary lines, the numbers of odd ones, and how many lines there are."""
        if _is_native and self._is_usual:
            return self._natively(raw, n_header)
        codes = np.frombuffer(raw, np.uint8)
        lines = _Lines.of(raw, codes)
        lines.odd[:n_header] = True
        if self._layout.comment is not None:
            lines.odd[self._marked(codes, lines)] = True
        rows = self._ordinary(raw, codes, lines)
        odd = np.flatnonzero(lines.odd)
        odd = odd[lines.ends[odd] > lines.begins[odd]]  # not those that are empty
        return rows, odd, len(lines.odd)

    def _natively(self, raw: bytes, n_header: int) -> tuple[Rows, Places, int]:
        layout, n_rows = self._layout, -1
        own = {field: column for column, field in enumerate(dict.fromkeys(layout.fields.values()))}
        columns = np.full(layout.width, -1, np.int32)
        columns[list(own)] = list(own.values())
        needed = {own[each] for role, each in layout.fields.items() if not role.startswith(WHERE)}
        name = layout.names[layout.fields["user"]].encode() if layout.has_header else None
        while n_rows < 0:
            begins, ends, (numbers, odd) = self._room
            n_rows, n_odd, n_lines = _ext.split_rows(
                raw,
                separator=self._separator,
                quote=self._mark,
                columns=columns,
                n_needed=len(needed),
                name=name,
                n_first=n_header,
                begins=begins,
                ends=ends,
                lines=numbers,
                odd=odd,
            )
            if n_rows < 0:
                self._room = _room(len(begins), max(2 * len(odd), len(raw) // 16))
        each = [Fields(raw, begins[at, :n_rows], ends[at, :n_rows]) for at in range(len(own))]
        fields = {role: each[own[field]] for role, field in layout.fields.items()}
        return Rows(fields, numbers[:n_rows]), odd[:n_odd], n_lines

    def _marked(self, codes: NDArray[np.uint8], lines: _Lines) -> Places:
        """The lines that begin as comments do."""
        assert self._layout.comment is not None
        return np.flatnonzero(_starts(codes, self._layout.comment.encode())[lines.begins])

    def _ordinary(self, raw: bytes, codes: NDArray[np.uint8], lines: _Lines) -> Rows:
        """The rows of ordinary lines, by the numbers of these; others are then known as odd."""
        layout, is_stop = self._layout, self._separators(codes, lines)
        enclosing = doubled = np.empty(0, np.int64)
        if self._mark and self._mark in raw:
            enclosing = self._enclosing(codes, lines)
            closing = enclosing[1::2]
            doubled = closing[codes[closing + 1] == self._mark[0]]
            changes = np.zeros(len(codes), np.uint8)
            changes[enclosing] = 1
            is_stop &= np.cumsum(changes, dtype=np.uint8) % 2 == 0
        is_stop[lines.nexts - 1] = True
        stops = np.flatnonzero(is_stop)
        codes_there = codes[stops]
        last = np.flatnonzero((codes_there == _FEED) | (codes_there == _RETURN))
        n_more = np.diff(last, prepend=-1) - layout.width
        # Empty fields at the end are ignored: only separators are there.
        ends_here = stops[last - np.maximum(n_more, 0)]
        only_empty = lines.ends - ends_here == n_more * len(self._separator)
        lines.odd[(n_more != 0) & ((n_more < 0) | ~only_empty)] = True
        own = np.flatnonzero(~lines.odd)
        first, begins, ends = last[own] - n_more[own], lines.begins[own], lines.ends[own]
        first -= layout.width - 1
        good = np.ones(len(own), dtype=bool)
        found = dict[str, tuple[Places, Places]]()
        for role, field in layout.fields.items():
            begin = stops[first + (field - 1)] + len(self._separator) if field else begins
            end = np.minimum(stops[first + field], ends)  # which may be before a line break of two
            for _ in range(_MOST_BLANKS):
                if not (blank := (codes[begin] == _BLANK) & (begin < end)).any():
                    break
                begin = begin + blank
            good &= codes[begin] != _BLANK
            if len(enclosing):
                quoted = (codes[begin] == self._mark[0]) & (begin < end)
                begin, end = begin + quoted, end - quoted
            if len(doubled):  # two stand for one, which the csv module makes of them
                good &= np.searchsorted(doubled, begin) == np.searchsorted(doubled, end)
            if not role.startswith(WHERE):
                good &= begin < end
            found[role] = begin, end
        if layout.has_header and found:
            first = next(iter(found))  # the user, unless a folder names it
            good &= ~self._may_be_header(codes, first, *found[first])
        lines.odd[own[~good]] = True
        columns = {role: Fields(raw, *(each[good] for each in found[role])) for role in found}
        return Rows(columns, own[good])

    def _separators(self, codes: NDArray[np.uint8], lines: _Lines) -> Which:
        """Which bytes begin a separator; a line in which separators overlap is odd."""
        found = _starts(codes, self._separator)
        if self._separator == b" ":  # several are one, and those before a line are none
            found[1:] &= codes[:-1] != _BLANK
            found[lines.begins] = False
        elif len(self._separator) > 1 and (overlapping := found[1:] & found[:-1]).any():
            lines.odd[lines.at(np.flatnonzero(overlapping))] = True
        return found

    def _enclosing(self, codes: NDArray[np.uint8], lines: _Lines) -> Places:
        """The quotes of lines in which these simply enclose fields; other such lines are odd.

        In a simple line quotes come in pairs, each opened where a field begins and closed where it
        ends. Where no quote is at the begin of a field, quotes are text.
        """
        if len(self._mark) > 1 or len(self._separator) > 1:
            lines.odd[lines.at(np.flatnonzero(_starts(codes, self._mark)))] = True
            return np.empty(0, np.int64)
        mark = self._mark[0]
        quotes = np.flatnonzero(codes == mark)
        bounds = np.searchsorted(quotes, lines.nexts)
        counts = np.diff(bounds, prepend=0)
        own = np.repeat(np.arange(len(counts)), counts)
        opens = (np.arange(len(quotes)) - np.repeat(bounds - counts, counts)) % 2 == 0
        before = quotes
        if self._separator != b" ":  # blanks before a field are no part of it
            for _ in range(_MOST_BLANKS):
                if not (blank := codes[before - 1] == _BLANK).any():
                    break
                before = before - blank
        enters = (before <= lines.begins[own]) | (codes[before - 1] == self._separator[0])
        enters |= codes[before - 1] == _BLANK  # after so many blanks, the csv module decides
        begins = enters | (codes[quotes - 1] == mark)
        behind = codes[quotes + 1]
        closes = (behind == mark) | (behind == self._separator[0])
        closes |= quotes + 1 >= lines.ends[own]
        wrong = np.where(opens, ~begins, ~closes)
        wrong |= (codes[before - 1] == _BLANK) & (before < quotes)
        wrong |= np.append(own[1:] != own[:-1], True) & opens  # one that is not closed
        encloses, is_odd = (np.zeros(len(lines.odd), dtype=bool) for _ in range(2))
        encloses[own[enters]] = True
        is_odd[own[wrong]] = True
        lines.odd[encloses & is_odd] = True
        return quotes[(encloses & ~is_odd)[own]]

    def _may_be_header(
        self, codes: NDArray[np.uint8], role: str, begins: Places, ends: Places
    ) -> Which:
        """Whether a field may be the name of its column: alone, or beside what is no text."""
        name = self._layout.names[self._layout.fields[role]].encode()
        found: Which = (codes[begins] <= _BLANK) | (codes[begins] == _BYTE_ORDER_MARK[0])
        like = np.flatnonzero(ends - begins >= len(name))
        for at, code in enumerate(name):
            like = like[codes[begins[like] + at] == code]
        after = begins[like] + len(name)
        found[like[(after == ends[like]) | (codes[after] <= _BLANK)]] = True
        return found

    def _with_odd(self, raw: bytes, lines: _Lines, rows: Rows, odd: list[int]) -> tuple[Rows, int]:
        """The rows with those of odd lines, and the number of lines that these are."""
        reader, at, n_lines = RowReader(self._layout.separator, self.quotes), 0, len(lines.odd)
        texts = {role: list[str]() for role in rows.columns}
        numbers, swallowed = list[int](), list[int]()
        begins, nexts = lines.begins.tolist(), lines.nexts.tolist()

        def lines_from(number: int) -> Iterator[str]:
            for each in range(number, len(begins)):
                yield raw[begins[each] : nexts[each]].decode()

        for number in odd:
            if number < at:  # in a row that began in an earlier line
                continue
            row = reader.row(self.line + number, lines_from(number))
            if row is None or row.is_open:
                n_lines = number
                break
            at = number + row.n_lines
            swallowed += range(number + 1, at)
            if row.is_blank or self.line + number < self._layout.first_line:
                continue
            if self._lacks_user(row.fields):
                self.n_nobody += 1
                continue
            is_first = self.is_empty and not numbers and not (rows.lines[:1] < number).any()
            self._check(self.line + number, row.fields, is_first=is_first)
            numbers.append(number)
            for role, field in self._layout.fields.items():
                texts[role].append(row.fields[field])
        if mark := self._layout.comment:
            self.n_comments -= sum(raw.startswith(mark.encode(), begins[at]) for at in swallowed)
        is_own = np.arange(len(lines.odd)) < n_lines
        is_own[swallowed] = False
        own = np.flatnonzero(is_own[rows.lines])
        every = np.concatenate([rows.lines[own], np.array(numbers, np.int64)])
        order = np.argsort(every, kind="stable")
        columns = {
            role: Fields.joined([each[own], Fields.of(texts[role])])[order]
            for role, each in rows.columns.items()
            if isinstance(each, Fields)
        }
        return Rows(columns, every[order]), n_lines

    def _lacks_user(self, row: list[str]) -> bool:
        is_whole = self.may_lack_users and len(row) == self._layout.width
        return is_whole and not row[self._layout.fields["user"]]

    def _check(self, line: int, row: list[str], *, is_first: bool) -> None:
        """Raise ValueError for a row of another form than the first."""
        layout = self._layout
        if len(row) < layout.width or any(row[layout.width :]):
            lists = "" if layout.names else f"; {IF_LISTS}"
            if layout.has_header and len(row) == layout.width + 1 and is_first:
                lists = (
                    "; if rows begin with their names, as in a table of R, write it with "
                    "row.names = FALSE"
                )
            if _COUNT.search(" ".join(row)):
                lists += "; if it is no row but a count of them, as a console prints, remove it"
            if row[0].startswith(("#", "%")):
                lists += f"; if it is a comment, `comment={row[0][0]!r}`"
            raise InputValueError(
                f"{counted(len(row), 'field')}, the first row has {layout.width:,}",
                f"quote fields that contain {layout.separator!r}, or name another separator with "
                f"`sep=`{lists}",
            ).within(f"line {line}")
        if layout.repeats_header(row):
            raise InputValueError(
                "the header again, as where files were put together",
                "remove this line, or read the files one by one",
            ).within(f"line {line}")
        for role, field in layout.fields.items():
            if not (row[field] or role.startswith(WHERE)):
                what = f"the {role} is missing, its field is empty"
                raise in_column(what, role, layout.column(role)).within(f"line {line}")


def _room(n_columns: int, n_lines: int) -> tuple[Places, Places, Places]:
    """Arrays of begins and ends of fields, and of the lines of rows and odd ones."""
    begins, ends, lines = (np.empty((n, n_lines), np.int64) for n in (n_columns, n_columns, 2))
    return begins, ends, lines


def _starts(codes: NDArray[np.uint8], sought: bytes) -> Which:
    """Which bytes begin the sought ones."""
    found: Which = codes == sought[0]
    for shift, code in enumerate(sought[1:], 1):
        found[:-shift] &= codes[shift:] == code
    return found

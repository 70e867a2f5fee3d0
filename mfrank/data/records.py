"""The format of a text: what makes rows of its blocks, recognized by its first lines.

A table (:mod:`mfrank.data.text_blocks`) is one of them. Each format gives :class:`Rows`: the fields
of each role, and the lines on which the rows begin. The rest is common to all: types of ids, times,
portions, errors (:mod:`mfrank.data.delimited`).
"""

from __future__ import annotations

import io
import itertools
import logging
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted, lazy
from mfrank.data.columns import WHERE, Chosen, ignored_roles
from mfrank.data.fields import AHEAD, Fields, IdsAs, as_text
from mfrank.data.layouts import Dialect
from mfrank.data.table_parts import TablePart
from mfrank.data.text_files import Text
from mfrank.data.text_rows import Tell
from mfrank.data.time_units import TimeKind
from mfrank.errors import InputValueError

_COMMENT = r"[#%](?:[\s#%]|$)"
_USUAL = Dialect()
_MOST_LINES = 2000  # that show the format


@dataclass(frozen=True, slots=True, eq=False)
class TypedIds:
    """Ids of a column whose type the file tells: int64, or text."""

    labels: NDArray[Any]

    def __getitem__(self, rows: slice | NDArray[Any]) -> TypedIds:
        return TypedIds(self.labels[rows])

    def ids(self, ids: IdsAs = "auto") -> NDArray[Any]:
        """The ids, or all as text by wish."""
        return as_text(self.labels) if ids == "text" else self.labels

    def text(self, row: int) -> str:
        """One id as text."""
        return str(self.labels[row])


class Blocks(Protocol):
    """A text, or what is made of one."""

    def blocks(self) -> Iterator[bytes]:
        """Yield whole lines, of which only the last may lack its end."""
        ...


@dataclass(frozen=True)
class Uncommented:
    """A text with blank lines in the place of comments: the first lines, and what a mark begins."""

    text: Blocks
    n_above: int
    mark: str | None

    def blocks(self) -> Iterator[bytes]:
        """Yield the blocks."""
        left = self.n_above
        mark = re.compile(
            rb"^[ \t]*%s[^\r\n]*" % re.escape((self.mark or "").encode()), re.MULTILINE
        )
        for block in self.text.blocks():
            if left:
                lines = block.splitlines(keepends=True)
                n_own = min(left, len(lines))
                block, left = b"\n" * n_own + b"".join(lines[n_own:]), left - n_own
            yield mark.sub(b"", block) if self.mark else block


class Rows(NamedTuple):
    """Some rows: the fields of each column by its role, and the lines on which the rows begin."""

    columns: Mapping[str, Fields | TypedIds]
    lines: NDArray[np.int64]

    def part(self, rows: slice | NDArray[Any]) -> Rows:
        """Some of the rows."""
        return Rows({role: each[rows] for role, each in self.columns.items()}, self.lines[rows])


@dataclass(frozen=True)
class TextFormat:
    """How the rows of a text are read.

    Attributes
    ----------
    columns : mapping of role -> what errors call its column
    rows : callable
        Yields the rows of the text, block by block, and tells what is odd about all of them.
    keyed : mapping of role -> key
        Roles whose column is a key of the file's folders.
    separator : str
        Of the fields of a table.
    is_guess : bool
        Whether roles come only from the order of a table's columns.
    fallback : str or None
        Encoding of lines that are not UTF-8.
    times : TimeKind or None
        Of dates whose order of day and month is known.
    counts_users : bool
        Whether users are the numbers of rows in this file, so that those of two files are others.
    """

    columns: Mapping[str, Hashable]
    rows: Callable[[Text, Tell], Iterator[Rows]]
    keyed: Mapping[str, str] = field(default_factory=dict)
    separator: str = ""
    is_guess: bool = False
    counts_users: bool = False
    fallback: str | None = None
    times: TimeKind | None = None


@dataclass(frozen=True)
class Start:
    """The first lines of a text, and what the caller says of it.

    Attributes
    ----------
    head : str
        Whole lines, unless the first is very long.
    dialect, chosen, ids, tell, part
        As in :class:`mfrank.data.delimited.TextTable`.
    """

    head: str
    dialect: Dialect
    chosen: Chosen
    ids: IdsAs
    tell: Tell
    part: TablePart = field(default_factory=TablePart)

    @lazy
    def lines(self) -> Sequence[str]:
        """The lines that are not blank, without blanks at their ends."""
        each = itertools.islice(io.StringIO(self.head, newline=None), self.n_above, _MOST_LINES)
        lines = (line for one in each if (line := one.strip()))
        mark = self.dialect.comment
        return [line for line in lines if not (mark and line.startswith(mark))]

    @lazy
    def n_above(self) -> int:
        """Number of lines above the first row: comments, and blank ones between them."""
        mark = self.dialect.comment
        marked = re.compile(_COMMENT + (f"|{re.escape(mark)}" if mark else ""))
        last = 0
        if not self.head.startswith("%%MatrixMarket"):
            for number, line in enumerate(io.StringIO(self.head, newline=None), 1):
                if marked.match(line):
                    last = number
                elif line.strip():
                    break
        return last

    def rows_below(self, text: Blocks) -> Blocks:
        """The text with blank lines in the place of comments, which are told."""
        if not (self.n_above or self.dialect.comment):
            return text
        if self.n_above:
            n_above = counted(self.n_above, "line")
            self.tell(logging.INFO, f"{n_above} of comments at the head skipped")
        return Uncommented(text, self.n_above, self.dialect.comment)

    @property
    def has_events(self) -> bool:
        """Whether the kinds of events are wanted."""
        return "event" in self.chosen

    @property
    def is_described(self) -> bool:
        """Whether the caller says how a table is divided."""
        return any(getattr(self.dialect, name) is not None for name in ("sep", "header", "columns"))

    def refuse(self, what: str, *names: str) -> None:
        """Raise ValueError if the caller describes a text of another format by these arguments."""
        for name in names:
            if getattr(self.dialect, name) != getattr(_USUAL, name):
                problem = f"`{name}` is for other text, and this is {what}:"
                raise InputValueError(problem, "leave it out")

    def roles(self, what: str, columns: Mapping[str, Hashable]) -> dict[str, Hashable]:
        """The columns of a format whose roles are fixed, without those that are ignored."""
        self.refuse(what, "columns")
        return fixed_roles(what, columns, self.chosen)


def fixed_roles(what: str, columns: Mapping[str, Hashable], chosen: Chosen) -> dict[str, Hashable]:
    """The columns of a format that has no others, without those that are ignored.

    Raises
    ------
    ValueError
        The caller chooses columns.
    """
    ignored = ignored_roles(chosen)
    for role, column in chosen.items():
        if role.startswith(WHERE) or (column is not None and column is not False):
            name = WHERE if role.startswith(WHERE) else f"{role}={column!r}"
            raise InputValueError(f"`{name}`: {what} has no columns to choose from", "leave it out")
    if "event" in chosen and "event" not in columns:
        raise InputValueError(f"`weights`: {what} has no kinds of events", "leave them out")
    return {role: column for role, column in columns.items() if role not in ignored}


def tell_unused(role: str, used: NDArray[np.bool_], tell: Tell) -> None:
    """Tell how many rows or columns of a matrix have no entry."""
    if n_empty := int((~used).sum()):
        tell(logging.INFO, f"{n_empty:,} of {len(used):,} {role}s have no entry, and are left out")


@dataclass(frozen=True, eq=False)
class Tokens:
    """The words of a block, divided by blanks and other marks.

    Attributes
    ----------
    fields : Fields
    lines : int64, shape (n_tokens,)
        The line of each word, from 0.
    n_lines : int
    """

    fields: Fields
    lines: NDArray[np.int64]
    n_lines: int

    @classmethod
    def of(cls, block: bytes, marks: bytes = b"") -> Tokens:
        """The words between blanks, tabs, ends of lines and these marks."""
        raw = b"\0" * AHEAD + block.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + b"\n\0"
        codes = np.frombuffer(raw, np.uint8)[AHEAD:-1]
        is_mark = (codes == 32) | (codes == 9) | (codes == 10)
        for mark in marks:
            is_mark |= codes == mark
        changes = np.flatnonzero(np.diff(is_mark, prepend=True))
        begins, ends = changes[::2] + AHEAD, changes[1::2] + AHEAD
        feeds = np.flatnonzero(codes == 10) + AHEAD
        n_lines = len(feeds) - block.endswith((b"\n", b"\r"))
        return cls(Fields(raw, begins, ends), np.searchsorted(feeds, begins), n_lines)

    @property
    def firsts(self) -> NDArray[np.bool_]:
        """Which words are the first of their lines."""
        return np.diff(self.lines, prepend=-1) > 0

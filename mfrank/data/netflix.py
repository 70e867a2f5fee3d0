"""Blocks of ratings as rows: a movie and a colon, then a user, a rating and a date on each line."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from mfrank.data.fields import Fields
from mfrank.data.layouts import Layout
from mfrank.data.records import Blocks, Format, Rows, Start
from mfrank.data.text_blocks import rows_of
from mfrank.data.text_rows import Tell
from mfrank.data.times import is_date
from mfrank.errors import InputValueError

_MOVIE = re.compile(rb"[ \t]*(\d+):[ \t]*\r?\n?")
_COLUMNS = {"user": 1, "item": "of blocks", "value": 2, "timestamp": 3}
_PLACES = {"user": 0, "value": 1, "timestamp": 2}


def netflix_format(start: Start) -> Format | None:
    """The format of the Netflix Prize, if the first line is a movie."""
    lines = start.lines
    if start.dialect.columns is not None or not lines or not _MOVIE.fullmatch(lines[0].encode()):
        return None
    if any(":" in line[:-1] for line in lines) and all(":" in line for line in lines):
        return None  # lists of users, of whom the first has no items
    first = next((line for line in start.lines if not line.endswith(":")), "").split(",")
    if len(first) == 1 or is_date(first[1].strip()):
        raise InputValueError(
            "blocks of users without ratings, as in the qualifying and probe sets of Netflix:",
            "read the training set",
        ).within("line 1")
    what = "blocks of ratings"
    start.refuse(what, "sep", "quote", "header", "lines")
    roles = start.roles(what, {r: c for r, c in _COLUMNS.items() if _PLACES.get(r, 0) < len(first)})
    places = {role: place for role, place in _PLACES.items() if role in roles}
    layout = Layout(",", None, len(first), (), False, 1, places, False)
    return Format(roles, lambda text, tell: _rows(start.rows_below(text), layout, roles, tell))


def _rows(
    text: Blocks, layout: Layout, roles: Mapping[str, Hashable], tell: Tell
) -> Iterator[Rows]:
    """Yield the rows of ratings as those of a table, in which lines of movies are blank."""
    ratings = _Ratings(text)
    for rows in rows_of(ratings, layout, tell):
        columns = {**rows.columns, "item": ratings.movies(rows.lines)}
        yield Rows({role: columns[role] for role in roles}, rows.lines)


class _Ratings:
    """The blocks of a text with blanks in the place of movies, and the movies of the last block."""

    def __init__(self, text: Blocks) -> None:
        self._text, self._line = text, 1
        self._names, self._lines = [""], [0]

    def blocks(self) -> Iterator[bytes]:
        for block in self._text.blocks():
            del self._names[:-1], self._lines[:-1]
            parts, at, colon = list[bytes](), 0, block.find(b":")
            while colon >= 0:
                begin = block.rfind(b"\n", 0, colon) + 1
                end = 1 + (len(block) - 1 if (end := block.find(b"\n", colon)) < 0 else end)
                if found := _MOVIE.fullmatch(block, begin, end):
                    self._line += block.count(b"\n", at, begin)
                    self._names.append(found[1].decode())
                    self._lines.append(self._line)
                    parts += block[at:begin], b" " * (end - begin - 1), block[end - 1 : end]
                    self._line, at = self._line + 1, end
                colon = block.find(b":", end)
            self._line += block.count(b"\n", at)
            yield b"".join(parts) + block[at:] if parts else block

    def movies(self, lines: NDArray[np.int64]) -> Fields:
        """The movies of some lines of the last block."""
        return Fields.of(self._names)[np.searchsorted(self._lines, lines, side="right") - 1]

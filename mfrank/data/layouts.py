"""Layout of delimited text: rows with line numbers, the header, and the roles of columns."""

from __future__ import annotations

import csv
import itertools
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from mfrank.data.columns import ROLES, assign, guess

__all__ = ["NUMBER", "Layout", "layout_of", "rows"]

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_log = logging.getLogger("mfrank")


@dataclass(frozen=True)
class Layout:
    """How to read a file: separator, fields per row, whether it has a header, role -> field."""

    separator: str
    width: int
    has_header: bool
    fields: Mapping[str, int]


def layout_of(text: IO[str], separator: str | None, chosen: Mapping[str, str | None]) -> Layout:
    """Detect the layout of a file from its first two rows, and the separator if it is None."""
    start = list[str]()
    for line in text:
        start.append(line)
        if line.strip():
            break
    separator = separator or next((mark for mark in "\t," if start and mark in start[-1]), " ")
    found = [row for _, row in itertools.islice(rows(itertools.chain(start, text), separator), 2)]
    if not found:
        raise ValueError("the file is empty")
    names = [name.strip() for name in found[0]]
    if _is_header(found, chosen):
        fields = {role: names.index(str(name)) for role, name in assign(names, chosen).items()}
        return Layout(separator, len(names), True, fields)
    if not 2 <= len(names) <= len(ROLES):
        raise ValueError(
            f"no header, and {len(names)} columns, whose roles are unknown; add a header with the "
            "names user, item, value, timestamp"
        )
    roles = ROLES[: len(names)]
    _log.info("no header found; columns taken as %s", ", ".join(roles))
    return Layout(separator, len(names), False, {role: field for field, role in enumerate(roles)})


def rows(lines: Iterable[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not blank, with the line it begins on, counted from 1.

    Raises
    ------
    ValueError
        A quote is opened and never closed, or a field is longer than the csv module accepts.
    """
    # An extra blank line is an empty row at the end, unless a quote is still open.
    closed = itertools.chain(lines, ["\n"])
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


def _is_header(found: Sequence[Sequence[str]], chosen: Mapping[str, str | None]) -> bool:
    named = any(name is not None for name in chosen.values())
    if named or any(guess(found[0], role) for role in ROLES):
        return True
    first, *rest = ([bool(NUMBER.fullmatch(field.strip())) for field in row] for row in found)
    return not any(first) and any(itertools.chain(*rest))

"""What interactions know of their origin: a few lines on what was read, and how.

Whatever is logged while interactions are made is one of their lines, and so is what goes without
saying, which :func:`note` adds. :meth:`mfrank.Interactions.report` shows them. By which columns of
a table its rows were chosen is known, too, and what each kind of event counts:
``Interactions.where`` and ``Interactions.event_weights``.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from mfrank.arrays import counted, is_number
from mfrank.data.remote import without_password

if TYPE_CHECKING:
    from mfrank.data.interactions import Interactions

_Given = ParamSpec("_Given")
_Kind = TypeVar("_Kind")

MOST_LINES = 40
"""Of interactions; parts of many have the first ones."""


@dataclass(slots=True)
class Noted:
    """What is known of the table that is being read.

    Attributes
    ----------
    lines : list of str
    where : dict of str to tuple of str, or None
        See :attr:`mfrank.Interactions.where`.
    event : str, or None
        The column with the kinds of events.
    weights : dict of str to float, or None
        What an event of each kind counts.
    ignored : tuple of str
        The columns that are not read, beside times that were recognized by their name.
    """

    lines: list[str]
    where: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    event: str | None = None
    weights: dict[str, float | None] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


_noted: ContextVar[Noted | None] = ContextVar("noted", default=None)
"""Of the interactions that are being made in this thread or task."""


class _Log(logging.LoggerAdapter[logging.Logger]):
    """Logs lines, and notes them."""

    def log(self, level: int, msg: object, *args: object, **how: Any) -> None:
        note(str(msg) % args if args else str(msg))
        super().log(level, msg, *args, **how)


log = _Log(logging.getLogger("mfrank"), {})
"""The log of all that reads or selects interactions."""


def note(line: str) -> None:
    """Add a line, once, to the interactions that are being made, if there are some."""
    if (known := _noted.get()) is None:
        return
    if len(known.lines) < MOST_LINES and line not in known.lines:
        known.lines.append(line)


def noted() -> tuple[str, ...]:
    """The lines so far."""
    known = _noted.get()
    return () if known is None else tuple(known.lines)


def note_where(column: object, values: Iterable[str] | None) -> None:
    """Note the values that rows must have in a column to be read; None for any."""
    known = _noted.get()
    if known is not None:
        known.where[str(column)] = None if values is None else tuple(sorted(values))


def note_event(column: object) -> None:
    """Note the column that has the kinds of events."""
    known = _noted.get()
    if known is not None:
        known.event = str(column)


def note_weights(weights: Mapping[str, float | None]) -> None:
    """Note what an event of each kind counts."""
    known = _noted.get()
    if known is not None:
        known.weights = dict(weights)


def note_ignored(columns: Iterable[object]) -> None:
    """Note the columns that are not read, beside times that were recognized by their name."""
    known = _noted.get()
    if known is not None:
        known.ignored = tuple(name for name in columns if isinstance(name, str))


def noted_ignored() -> tuple[str, ...]:
    """The columns that are not read, beside times that were recognized by their name."""
    known = _noted.get()
    return () if known is None else known.ignored


def noted_rows() -> tuple[dict[str, tuple[str, ...] | None], dict[str, float | None]]:
    """The columns so far, with their values, and the weights of kinds of events."""
    known = _noted.get()
    return ({}, {}) if known is None else (dict(known.where), dict(known.weights))


@contextmanager
def gathered(*lines: str) -> Iterator[Noted]:
    """What is noted in the block, after these lines."""
    token = _noted.set(known := Noted([*lines]))
    try:
        yield known
    finally:
        _noted.reset(token)


def is_noted(what: str) -> bool:
    """Whether one of the lines so far has this text."""
    return any(what in line for line in noted())


_WEIGHTINGS = ("bm25_weight", "tfidf_weight", "log_weight", "recency_weight")


def weightings(data: Interactions) -> tuple[str, ...]:
    """The functions that weighted the values of interactions, by their lines."""
    called = {line.partition("(")[0] for line in data.notes}
    return tuple(name for name in _WEIGHTINGS if name in called)


def noting(
    make: Callable[Concatenate[_Kind, _Given], Interactions],
) -> Callable[Concatenate[_Kind, _Given], Interactions]:
    """Decorate what makes interactions: they have the lines noted meanwhile.

    The first line has the name of the function. Those of a method follow those of its object.
    """

    @functools.wraps(make)
    def made(own: _Kind, /, *given: _Given.args, **named: _Given.kwargs) -> Interactions:
        if _noted.get() is not None:  # within another, which has the lines of both
            return make(own, *given, **named)
        name = _named(make.__name__, [*given, *named.values()], own)
        with gathered(name) as known:
            found = make(own, *given, **named)
        if found is own:
            return found
        found._with_rows(known.where or found.where, known.weights or found.event_weights)
        lines = list(known.lines)
        before: tuple[str, ...] = getattr(own, "_notes", ())
        if not isinstance(own, type):
            lines[0] += f": {found.nnz:,} of {counted(own.nnz, 'entry')}"  # type: ignore[attr-defined]
        return found._with_notes([*before, *lines])

    return made


def _named(name: str, given: list[Any], own: object) -> str:
    """The call in words: the function, with the files or the numbers that it is given."""
    if not isinstance(own, type):
        return f"{name}({', '.join(f'{each:g}' for each in given if is_number(each))})"
    if given and isinstance(given[0], str | os.PathLike) and name != "from_sql":
        return f"{name}: {without_password(os.fspath(given[0]))}"
    return name

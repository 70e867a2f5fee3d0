"""What interactions know of their origin: a few lines on what was read, and how.

Whatever is logged while interactions are made is one of their lines, and so is what goes without
saying, which :func:`note` adds. :meth:`mfrank.Interactions.report` shows them.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from mfrank.arrays import counted, is_number
from mfrank.data.remote import without_password

if TYPE_CHECKING:
    from mfrank.data.interactions import Interactions

_Given = ParamSpec("_Given")
_Kind = TypeVar("_Kind")

MOST_LINES = 40
"""Of interactions; parts of many have the first ones."""
_lines: ContextVar[list[str] | None] = ContextVar("lines", default=None)
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
    lines = _lines.get()
    if lines is not None and len(lines) < MOST_LINES and line not in lines:
        lines.append(line)


def noted() -> tuple[str, ...]:
    """The lines so far."""
    return tuple(_lines.get() or ())


def is_noted(what: str) -> bool:
    """Whether one of the lines so far has this text."""
    return any(what in line for line in noted())


def noting(
    make: Callable[Concatenate[_Kind, _Given], Interactions],
) -> Callable[Concatenate[_Kind, _Given], Interactions]:
    """Decorate what makes interactions: they have the lines noted meanwhile.

    The first line has the name of the function. Those of a method follow those of its object.
    """

    @functools.wraps(make)
    def made(own: _Kind, /, *given: _Given.args, **named: _Given.kwargs) -> Interactions:
        if _lines.get() is not None:  # within another, which has the lines of both
            return make(own, *given, **named)
        name = _named(make.__name__, [*given, *named.values()], own)
        token = _lines.set([name])
        try:
            found = make(own, *given, **named)
            lines = list(noted())
        finally:
            _lines.reset(token)
        if found is own:
            return found
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

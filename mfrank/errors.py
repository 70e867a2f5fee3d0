"""Errors about an argument, with the argument and the remedy as attributes.

The text of these errors names arguments, and what to pass for them, between backticks: ``"`start`
has other users; fit without `start`"``. Python shows the text without the backticks; the command
line puts its flags in their place.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_MARKED = re.compile(
    r"""(?<!\w)(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?!\w)  # what repr shows of a caller
    | `(?P<mark>[^`\n]+)`""",
    re.VERBOSE,
)
_ARGUMENT = re.compile(r"(?!mfrank\.)([A-Za-z_][\w.]*)(?:=.*)?")


def replaced(text: str, of: Callable[[str], str]) -> str:
    """The text with something in the place of each mark: ``of`` the name or expression in it."""
    return _MARKED.sub(lambda found: of(found["mark"]) if found["mark"] else found[0], text)


def plain(text: str) -> str:
    """The text without the backticks around names."""
    return replaced(text, str)


class InputError(Exception):
    """An argument that cannot be used; raised as one of its subclasses.

    Attributes
    ----------
    argument : str
        Name of the argument at fault, such as ``"factors"``, or ``"steer.boosts"`` for a part of
        one; the first if several are, or the one that helps if none is. Empty if the message names
        none.
    remedy : str
        What to do about it; empty if the problem says it.
    marked : str
        The message with backticks around names and expressions of Python.
    """

    __module__ = "mfrank"  # the name that tracebacks show

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.marked = _joined(problem, remedy)

    @property
    def argument(self) -> str:
        """The first argument in the message."""
        marks = (_ARGUMENT.fullmatch(mark) for mark in _MARKED.findall(self.marked))
        return next((mark[1] for mark in marks if mark), "")

    @property
    def remedy(self) -> str:
        """The end of the message."""
        return plain(str(self.args[1]))

    def __str__(self) -> str:
        return plain(self.marked)

    def within(self, place: str) -> InputError:
        """The same error with a file or an argument in front."""
        problem, remedy = self.args
        return type(self)(f"{place}: {problem}", remedy)


class InputValueError(InputError, ValueError):
    """A ValueError about an argument."""

    __module__ = "mfrank"


class InputTypeError(InputError, TypeError):
    """A TypeError about an argument."""

    __module__ = "mfrank"


class InputMemoryError(InputError, MemoryError):
    """A MemoryError with the argument to lower."""

    __module__ = "mfrank"

    def __new__(cls, *given: object) -> InputMemoryError:
        """As of any exception: tblib would call MemoryError's own, which refuses this class."""
        return Exception.__new__(cls, *given)


class Notice(str):
    """A text for the log or of a warning, with names marked as in errors.

    It is the text without marks; ``marked`` has them.
    """

    marked: str

    def __new__(cls, marked: str) -> Notice:
        """Take the text with marks."""
        notice = super().__new__(cls, plain(marked))
        notice.marked = marked
        return notice


def _joined(problem: str, remedy: str) -> str:
    if not remedy:
        return problem
    between = " " if problem.endswith(":") else ". " if remedy[0].isupper() else "; "
    return f"{problem}{between}{remedy}"


def within(place: str, error: Exception) -> InputError:
    """An error of a part, such as one of another library, with its file or argument in front."""
    if isinstance(error, InputError):
        return error.within(place)
    kind: Callable[[str], InputError] = (
        InputTypeError if isinstance(error, TypeError) else InputValueError
    )
    return kind(f"{place}: {error}")

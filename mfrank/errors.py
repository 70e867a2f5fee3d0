"""Errors about what a caller passed, with what is at fault and the remedy as attributes.

The text of these errors names arguments, and what to pass for them, between backticks: ``"`start`
has other users; fit without `start`"``. Python shows the text without the backticks; the command
line puts its flags in their place.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable
from typing import Any, Self

_MARKED = re.compile(
    r"""(?<!\w)(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?!\w)  # what repr shows of a caller
    | `(?P<mark>[^`\n]+)`""",
    re.VERBOSE,
)
RESTORE = "restore it from a copy, or save it again"
_ARGUMENT = re.compile(
    r"(?!(?:mfrank|numpy|pandas|scipy|sklearn|[A-Z]\w*)\.)([A-Za-z_][\w.]*)(?:\[.*\])?(?:=.*)?"
)


def replaced(text: str, of: Callable[[str], str]) -> str:
    """The text with something in the place of each mark: ``of`` the name or expression in it."""
    return _MARKED.sub(lambda found: of(found["mark"]) if found["mark"] else found[0], text)


def plain(text: str) -> str:
    """The text without the backticks around names."""
    return replaced(text, str)


class InputError(Exception):
    """An argument, or a part of one, that cannot be used; raised as one of its subclasses.

    Attributes
    ----------
    argument : str
        Name of the argument at fault, such as ``"factors"``, or ``"steer.boosts"`` for a part of
        one; the first if several are, or the one that helps if none is. Empty if the message names
        none.
    place : str
        Where the fault is, if not in the whole argument: a file, a folder or a part of one, such as
        ``"train.csv, line 3"``, or ``"row 3"`` of an array. Empty if the message names none.
    remedy : str
        What to do about it; empty if the problem says it.
    code : str
        Under what the page of messages explains it, such as ``"data.ids.rows"``: where in mfrank it
        was made. Tracebacks show it. Empty if it says what another library said.
    marked : str
        The message with backticks around names and expressions of Python.
    """

    __module__ = "mfrank"  # the name that tracebacks show

    def __init__(self, problem: str, remedy: str = "", *, place: object = "") -> None:
        super().__init__(problem, remedy)
        self.place = str(place)
        self.code = _code(self)
        if self.code:
            self.add_note(f"[{self.code}] see the page of messages in the documentation")

    @property
    def marked(self) -> str:
        """The problem and the remedy as one message."""
        return _joined(*self.args)

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

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.args, self.__dict__)

    def within(self, whole: object) -> Self:
        """The same error with a file, a part of one, or an argument in front."""
        problem, remedy = self.args
        error = copy.copy(self)
        error.args = (f"{whole}: {problem}", remedy)
        if not any(_MARKED.findall(str(whole))):  # else it is an argument
            error.place = f"{whole}, {self.place}" if self.place else str(whole)
        return error


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
        """As of any exception: MemoryError's own refuses this class when it is copied."""
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


def code_of(module: str, function: str) -> str:
    """The code of errors that a function of a module makes, without the marks of privacy."""
    package, *parts = module.split(".")
    names = (name.strip("_") for name in (*parts, function))
    return ".".join(filter(None, names)) if package == "mfrank" else ""


def _code(error: InputError) -> str:
    """The code of an error that is being made: by the first function that is not of errors.

    One that says again what another says has that one's code, and none if it is another library's.
    """
    handled = sys.exception()
    if isinstance(handled, InputError) and plain(str(handled.args[0])) in plain(str(error.args[0])):
        return handled.code
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__") == __name__ or frame.f_locals.get("self") is error:
        if frame.f_code is within.__code__ or frame.f_back is None:
            return ""
        frame = frame.f_back
    outermost = frame.f_code.co_qualname.partition(".<locals>")[0].rpartition(".")[2]
    function = "" if outermost.startswith("<") else outermost
    return code_of(str(frame.f_globals.get("__name__", "")), function)


def _rebuilt(kind: type[InputError], args: tuple[str, str], others: dict[str, Any]) -> InputError:
    """A copied or unpickled error, whose class may take other arguments than these."""
    error = kind.__new__(kind, *args)
    error.__dict__ |= others
    return error


def _joined(problem: str, remedy: str) -> str:
    if not remedy:
        return problem
    between = " " if problem.endswith((":", "?", ",")) else ". " if remedy[0].isupper() else "; "
    return f"{problem}{between}{remedy}"


def within(whole: object, error: Exception) -> InputError:
    """An error of a part, such as one of another library, with its file or argument in front."""
    if not isinstance(error, InputError):
        kind: Callable[[str], InputError] = (
            InputTypeError if isinstance(error, TypeError) else InputValueError
        )
        error = kind(str(error))
    return error.within(whole)


def unreadable(
    place: object, how: str, why: Exception | str = "", remedy: str = RESTORE
) -> InputValueError:
    """The error of something saved, or a part of it, that is not what it should be.

    ``unreadable("a.npy", "is damaged", "it is empty")`` says "a.npy is damaged: it is empty", and
    the remedy. If ``why`` has a remedy, that is told.
    """
    problem, own = why.args if isinstance(why, InputError) else (why, "")
    text = f"{place} {how}: {problem}" if why else f"{place} {how}"
    return InputValueError(text, own or remedy, place=place)

"""Run a command: parse its line, and print the library's messages and errors on stderr."""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NoReturn

from mfrank._version import __version__
from mfrank.cli.commands import commands
from mfrank.cli.main import is_ctrl_c
from mfrank.cli.remedies import Flags, message_of
from mfrank.errors import InputError

Say = Callable[[str], str]
"""Puts a message of the library into the words of the command line."""

_ABOUT = "Matrix factorization for implicit feedback: fit, recommend, evaluate, compare."

_EXAMPLES = """examples:
  mfrank demo
  mfrank fit ratings.csv --model model --objective rg2
  mfrank recommend --model model --output recommendations.csv
"""
_PATHS = ("FILE", "FOLDER", "MODEL", "MODEL2", "PATH", "SOURCE")  # metavars
_WRONG_INPUT = (ValueError, TypeError, FileNotFoundError, IsADirectoryError, NotADirectoryError)
_EXPLAINED = (OSError, MemoryError, FloatingPointError, ModuleNotFoundError)
"""Failures whose messages need no traceback."""


def run(arguments: list[str]) -> int:
    """Run the command of these arguments, report an error, and return the exit code.

    Ctrl-C and a closed pipe are left to the caller.
    """
    debug = "--debug" in arguments
    try:
        parser = _parser(arguments)
        _complete(parser)
        args, unknown = parser.parse_known_args(arguments)
        if unknown:  # argparse would refer to the help of mfrank, not of the command
            args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        _refuse_empty_paths(args)
    except SystemExit:  # --help and --version; a wrong line raises ValueError
        return 0
    except ValueError as error:
        return _report(_with_remedy(error, arguments), str, debug=debug)
    say = Flags(args.parser)
    with _messages_on_stderr(say):
        try:
            _import(getattr(args, "imported", []))
            status = args.run(args)
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except Exception as error:
            if is_ctrl_c(error):
                raise
            return _report(error, say, debug=debug)
    return status or 0


class _Parser(argparse.ArgumentParser):
    """A parser that raises its errors, so that they are handled like all others."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


def _refuse_empty_paths(args: argparse.Namespace) -> None:
    """Raise ValueError for an empty path, such as that of a shell's variable that is not set.

    It would be the current folder, or be taken for a flag that is left out.
    """
    for action in args.parser._actions:
        given = getattr(args, action.dest, None)
        if action.metavar in _PATHS and "" in (given if isinstance(given, list) else [given]):
            name = action.option_strings[0] if action.option_strings else action.metavar
            args.parser.error(f"argument {name}: the path is empty")


def _with_remedy(error: ValueError, arguments: list[str]) -> ValueError:
    """The error, with the remedy for an argument that begins with a dash and is no flag."""
    message = str(error)
    flag = re.match(r"argument (?:\S+/)?(-\S+?): expected", message)
    remedy = ""
    for before, word in itertools.pairwise(["", *arguments]):
        if flag and before == flag[1] and word.startswith("-"):
            remedy = f"write {shlex.join([f'{before}={word}'])} for a value that begins with -"
        elif not flag and re.match("-[^-]", word) and re.search("required|unrecognized", message):
            remedy = f"write -- {word} for a word that is no flag; flags begin with --, as in --n 5"
    return ValueError(message.replace(" (see ", f"; {remedy} (see ")) if remedy else error


def _parser(arguments: Sequence[str] = ()) -> _Parser:
    """The parser of such a line; it has only the commands that the line may mean."""
    parser = _Parser(
        prog="mfrank",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mfrank {__version__}")
    _add_common(parser)
    named = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in commands(arguments).items():
        about = (command.__doc__ or "").strip()
        own = named.add_parser(
            name,
            help=about.partition("\n")[0],
            description=about,
            epilog=f"examples:\n{command.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_options(own)
        _add_common(own)
        own.set_defaults(run=command.run, parser=own)
    return parser


def _complete(parser: argparse.ArgumentParser) -> None:
    """Answer a shell's request for completions, if argcomplete (extra cli) is installed; exit."""
    if "_ARGCOMPLETE" in os.environ and find_spec("argcomplete") is not None:
        import argcomplete

        argcomplete.autocomplete(parser)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    parser.add_argument(
        "--import",
        dest="imported",
        action="append",
        default=argparse.SUPPRESS,
        metavar="MODULE",
        help="import a module with your own classes that a saved model uses, such as a loss, from "
        "the Python path or the current folder; may be repeated",
    )


def _import(modules: list[str]) -> None:
    """Import modules that the caller names; the current folder is looked through last."""
    if modules and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    for name in modules:
        try:
            import_module(name)
        except Exception as error:
            raise ValueError(f"--import {name}: {type(error).__name__}: {error}") from error


def _report(error: Exception, say: Say, *, debug: bool) -> int:
    """Print the error in one line and return the exit code."""
    if debug:
        traceback.print_exception(error)
    wrong_input = isinstance(error, _WRONG_INPUT)
    message = say(_message(error))
    if not wrong_input and not isinstance(error, _EXPLAINED):
        message = f"{type(error).__name__}: {message} (--debug shows where)"
    elif isinstance(error, InputError) and error.code:
        message = f"{message} [{error.code}]"
    _print("error: " + message)
    return 2 if wrong_input else 1


def _message(error: Exception) -> str:
    """Message of an error; for a system error, without its number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return message_of(error) or type(error).__name__


def _print(message: str) -> None:
    print(f"mfrank: {' '.join(message.split())}", file=sys.stderr)


@contextmanager
def _messages_on_stderr(say: Say) -> Iterator[None]:
    """Print the library's log messages and warnings on stderr, one line each."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            _print(say(message_of(record)))

    def show(message: Warning | str, *_where: Any, **_more: Any) -> None:
        _print(say(message_of(message)))

    logger, handler = logging.getLogger("mfrank"), Handler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)

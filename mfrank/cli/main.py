"""The command line: ``mfrank COMMAND ...``, see ``mfrank --help``.

Exit codes: 0 success, 1 failure, 2 wrong usage or input, 130 stopped by Ctrl-C, 141 output pipe
closed by its reader. Errors are printed as one line on stderr.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from mfrank._version import __version__
from mfrank.cli.commands import commands

__all__ = ["main"]

_ABOUT = "Matrix factorization for implicit feedback: fit, recommend, evaluate, compare."

_EXAMPLES = """examples:
  mfrank demo
  mfrank fit ratings.csv --model model --objective rg2
  mfrank recommend --model model --output recommendations.csv
"""
_WRONG_INPUT = (ValueError, TypeError, FileNotFoundError, IsADirectoryError, NotADirectoryError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command with ``argv``, by default that of the process, and return the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    with _messages_on_stderr():
        try:
            args = _parser().parse_args(arguments)
            args.run(args)
            sys.stdout.flush()
        except SystemExit as done:  # --help and --version
            return int(done.code or 0)
        except KeyboardInterrupt:
            print("mfrank: stopped by Ctrl-C", file=sys.stderr)
            return 130
        except BrokenPipeError:
            # Python flushes stdout when it exits, which must not fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        except Exception as error:
            return _report(error, debug="--debug" in arguments)
    return 0


class _Parser(argparse.ArgumentParser):
    """A parser that raises its errors, so that they are handled like all others."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


def _parser() -> _Parser:
    parser = _Parser(
        prog="mfrank",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mfrank {__version__}")
    _add_debug(parser)
    named = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in commands().items():
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
        _add_debug(own)
        own.set_defaults(run=command.run)
    return parser


def _add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks of errors"
    )


def _report(error: Exception, *, debug: bool) -> int:
    """Print the error in one line and return the exit code."""
    if debug:
        traceback.print_exception(error)
    wrong_input = isinstance(error, _WRONG_INPUT)
    message = " ".join(str(error).split())
    if not wrong_input:
        message = f"{type(error).__name__}: {message} (--debug shows where)"
    print(f"mfrank: error: {message}", file=sys.stderr)
    return 2 if wrong_input else 1


def _print_warning(message: Warning | str, *_where: Any, **_more: Any) -> None:
    print(f"mfrank: {' '.join(str(message).split())}", file=sys.stderr)


@contextmanager
def _messages_on_stderr() -> Iterator[None]:
    """Print the library's log messages and warnings on stderr, one line each."""
    logger, handler = logging.getLogger("mfrank"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("mfrank: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)

"""The command line: ``mfrank COMMAND ...``, see ``mfrank --help``.

Exit codes: 0 success, 1 failure, 2 wrong usage or input, 130 stopped by Ctrl-C, 141 output pipe
closed by its reader. Errors are printed as one line on stderr.

:func:`main` does all slow imports, so that Ctrl-C is also handled during imports.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

# Tells whether an error is Ctrl-C's.


def is_ctrl_c(error: BaseException | None) -> bool:
    """Whether an error is a KeyboardInterrupt, possibly converted by an import.

    Modules in C convert an interrupted import to an ImportError.
    """
    while isinstance(error, ImportError):
        error = error.__cause__ or error.__context__
    return isinstance(error, KeyboardInterrupt)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command with ``argv`` (default: of the process) and return the exit code."""
    try:
        return _run(sys.argv[1:] if argv is None else list(argv))
    except BrokenPipeError:
        return 141
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                # Python flushes it again when it exits, which must not fail a second time.
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(arguments: list[str]) -> int:
    try:
        from mfrank.cli.dispatch import run

        return run(arguments)
    except BaseException as error:
        if not is_ctrl_c(error):
            raise
        print("mfrank: stopped by Ctrl-C", file=sys.stderr)
        return 130

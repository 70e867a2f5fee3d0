"""How the user called this program, for command lines that are printed to be pasted."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

__all__ = ["command_line"]


def command_line(*words: object) -> str:
    """A command of this program as the user can paste it into the same shell.

    ``mfrank`` alone where the shell finds it; otherwise the path by which it was called now, such
    as ``.venv/bin/mfrank``, or ``python -m mfrank``.
    """
    return shlex.join([*_program(), *map(str, words)])


def _program() -> list[str]:
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return [_shortest(Path(sys.executable)), "-m", "mfrank"]
    return [_shortest(called)] if called.name.startswith("mfrank") else ["mfrank"]


def _shortest(program: Path) -> str:
    found = shutil.which(program.name)
    is_found = found is not None and Path(found).absolute() == program.absolute()
    return program.name if is_found else str(program)

"""The flag ``--json`` of commands that print results, and what it writes."""

from __future__ import annotations

import argparse
import json
from typing import Any

from mfrank.cli.folders import check_writable
from mfrank.files.atomic import replacing
from mfrank.files.regular import path_of
from mfrank.serving.answers import dump

__all__ = ["add_json_flag", "check_json", "tell", "write_json"]

_STDOUT = "-"


def add_json_flag(parser: argparse._ActionsContainer, what: str, text: str = "the text") -> None:
    """Add ``--json`` for a result; ``text`` is what is printed otherwise."""
    parser.add_argument(
        "--json",
        metavar="FILE",
        help=f"write {what} as JSON to this file; - writes it to stdout, in place of {text}",
    )


def check_json(path: str | None) -> None:
    """Raise ValueError if the file could not be written, before any work."""
    if path != _STDOUT:
        check_writable(path)


def tell(text: object, content: Any, path: str | None) -> None:
    """Print a result as text and write it as JSON too, or only as JSON where that is for stdout."""
    if path != _STDOUT:
        print(text)
    if path is not None:
        write_json(content, path)


def write_json(content: Any, path: str) -> None:
    """Write a result to a file, atomically, or to stdout; numbers that are not finite are null."""
    written = json.dumps(json.loads(dump(content)), indent=2)
    if path == _STDOUT:
        print(written)
        return
    with replacing(path_of(path)) as draft:
        draft.write_text(written + "\n", encoding="utf-8")

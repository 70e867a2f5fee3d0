"""The commands of ``mfrank``: one module each, whose name is the command's.

The module's docstring is its help. A command is added by adding a file; siblings never import
each other.
"""

from __future__ import annotations

import argparse
import pkgutil
from importlib import import_module
from typing import Protocol, cast

__all__ = ["Command", "commands"]


class Command(Protocol):
    """The surface of a command's module."""

    EXAMPLES: str
    """Command lines, shown at the end of its help."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments to its parser."""

    def run(self, args: argparse.Namespace) -> None:
        """Run with the parsed arguments; results go to stdout, all else to stderr."""


def commands() -> dict[str, Command]:
    """Every command by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: cast(Command, import_module(f"{__name__}.{name}")) for name in names}

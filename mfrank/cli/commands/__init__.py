"""The commands of ``mfrank``: one module per command, with the command's name (and _ for -).

The module's docstring is the help text. To add a command, add a file; commands never import each
other.
"""

from __future__ import annotations

import argparse
import pkgutil
from importlib import import_module
from typing import Protocol, cast

__all__ = ["Command", "commands"]


class Command(Protocol):
    """The interface of a command's module."""

    EXAMPLES: str
    """Command lines shown at the end of the help text."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments to its parser."""

    def run(self, args: argparse.Namespace) -> None:
        """Run with the parsed arguments; print results on stdout, all else on stderr."""


def commands() -> dict[str, Command]:
    """All commands by name."""
    modules = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {
        module.replace("_", "-"): cast(Command, import_module(f"{__name__}.{module}"))
        for module in modules
    }

"""The commands of ``mfrank``: one module per command, with the command's name (and _ for -).

The module's docstring is the help text. To add a command, add a file; commands never import each
other.
"""

from __future__ import annotations

import argparse
import pkgutil
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

__all__ = ["Command", "commands"]


class Command(Protocol):
    """The interface of a command's module."""

    EXAMPLES: str
    """Command lines shown at the end of the help text."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments to its parser."""

    def run(self, args: argparse.Namespace) -> int | None:
        """Run with the parsed arguments; print results on stdout, all else on stderr.

        The exit status may be returned; None is 0.
        """


def commands(arguments: Sequence[str] = ()) -> dict[str, Command]:
    """The commands that a line may mean, by name: all, unless its first word is one of them."""
    modules = sorted(module.name for module in pkgutil.iter_modules(__path__))
    names = {module.replace("_", "-"): module for module in modules}
    if next((word for word in arguments if not word.startswith("-")), None) in names:
        # Maybe several, such as the value of --import before the command, or a file of such a name.
        names = {name: names[name] for name in names if name in arguments}
    return {
        name: cast(Command, import_module(f"{__name__}.{module}")) for name, module in names.items()
    }

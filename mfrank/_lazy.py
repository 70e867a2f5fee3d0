"""Packages whose names are imported when they are asked for: their stubs say where each name is.

``__init__.pyi`` of such a package is read by type checkers and, here, at run time (as in SPEC 1 of
Scientific Python), so that one list serves both.
"""

from __future__ import annotations

import ast
import logging  # noqa: F401 - see below
import os
import sys
from collections.abc import Callable, Collection
from importlib import import_module
from threading import RLock
from typing import Any

_importing = RLock()
"""Held while a name is imported, and while the process forks: a child whose parent was within an
import on another thread would wait for it forever."""


def lazy(
    package: str, file: str, folders: Collection[str] = (), hidden: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Parameters
    ----------
    package, file : str
        ``__name__`` and ``__file__``; the stub lies beside the file.
    folders, hidden : names, optional
        Packages within this one that are attributes too; ``dir`` does not list the hidden ones.
    """
    with open(os.path.splitext(file)[0] + ".pyi", encoding="utf-8") as stub:
        tree = ast.parse(stub.read())
    home = {
        alias.name: str(node.module)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def get(name: str) -> Any:
        if name not in home and name not in (*folders, *hidden):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with _importing:
            if name not in home:
                return import_module(f"{package}.{name}")
            found = getattr(import_module(home[name]), name)
        vars(sys.modules[package])[name] = found
        return found

    names = sorted(home)
    return get, lambda: sorted({*names, *folders}), names


def _renew() -> None:
    global _importing
    _importing = RLock()


# Logging, which is imported above, registers its lock before: so at a fork that lock is taken after
# this one, and a thread that imports, and takes it to name a logger, comes to its end.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _importing.acquire(),
        after_in_parent=lambda: _importing.release(),
        after_in_child=_renew,
    )

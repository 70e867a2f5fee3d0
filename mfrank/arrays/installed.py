"""What is installed: the C++ extension, and the packages of extras."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

why_missing: str | None = None
"""Why ``ext`` is None and how to install it; None if ``ext`` is there."""

if TYPE_CHECKING:
    from mfrank import _ext

    ext = _ext
else:
    try:
        ext = import_module("mfrank._ext")
    except ImportError as error:
        ext = None
        why_missing = (
            f"the C++ extension is missing ({error}); install a C++17 compiler and Python's "
            "headers (Debian: apt install g++ python3-dev) and reinstall mfrank"
        )
    else:
        ext.isa()  # raises on a bad MFRANK_ISA at import, rather than fall back to numpy


@contextmanager
def needs(extra: str, what: str = "") -> Iterator[None]:
    """Context for imports that need an extra of mfrank; the error names the remedy.

    Parameters
    ----------
    extra : str
        Such as "plot", for ``pip install mfrank[plot]``.
    what : str, optional
        Start of the error's message: what needs which package. By default it names the package.

    Raises
    ------
    ModuleNotFoundError
        A package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "mfrank":
            raise
        raise ModuleNotFoundError(
            f"{what or f'this needs {package}'}: pip install mfrank[{extra}]", name=error.name
        ) from error

"""The C++ extension, if it is built."""

from __future__ import annotations

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

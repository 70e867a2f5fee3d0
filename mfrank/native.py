"""The C++ extension, where it was built."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

__all__ = ["ext", "takes", "why_missing"]

why_missing: str | None = None
"""None, or why ``ext`` is None: how to get it."""

if TYPE_CHECKING:
    import mfrank._ext as ext
else:
    try:
        ext = import_module("mfrank._ext")
    except ImportError as error:
        ext = None
        why_missing = (
            f"the C++ extension is not there ({error}); install a C++17 compiler and Python's "
            "headers (Debian: apt install g++ python3-dev) and reinstall mfrank"
        )
    else:
        ext.isa()  # A wrong MFRANK_ISA is an error now, never a silent fall-back to numpy.


def takes(array: Any) -> bool:
    """Whether the extension is there, and the array numpy's: no device's is within its reach."""
    return why_missing is None and isinstance(array, np.ndarray)
